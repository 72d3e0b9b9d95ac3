//! The terminal is restored, regardless of how the console ends.

use crate::pty::Pty;
use marin_tui::demo::{Head, Scenario};
use marin_tui::tui::Guard;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const PANIC: &str = "MARIN_TEST_PANIC";

/// The console on a simulated head, connected.
struct Console {
    pty: Pty,
    _home: TempDir,
    _head: Head,
    _runtime: Runtime,
}

/// The console on a head, in a terminal with sixteen colors.
fn start(head: &Head, home: &TempDir, more: &[&str]) -> Pty {
    let folder = home.path().to_str().unwrap();
    let folders = ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"]
        .map(|v| (v, folder));
    let env = [&folders[..], &["COLORTERM", "NO_COLOR", "COLORFGBG"].map(|v| (v, ""))].concat();
    let (dashboard, gcs) = (format!("http://{}", head.dashboard), head.gcs.to_string());
    let argv = [env!("CARGO_BIN_EXE_marin-tui"), "--address", &dashboard, "--gcs", &gcs];
    Pty::start(&[&argv, more].concat(), &env, 120, 40)
}

impl Console {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let head = runtime.block_on(Head::start(Scenario::default())).unwrap();
        let home = tempfile::tempdir().unwrap();
        let pty = start(&head, &home, &[]);
        pty.wait_text("● up");
        assert!(!pty.is_restored(), "the console has taken the terminal");
        Self { pty, _home: home, _head: head, _runtime: runtime }
    }

    fn ends_well(mut self) {
        let status = self.pty.wait_exit();
        assert!(status.success(), "{status:?}");
        assert!(self.pty.is_restored());
        let raw = self.pty.raw();
        assert!(
            !raw.windows(4).any(|w| w == b"\x1b[6n"),
            "the cursor position was queried, and nothing here responds"
        );
        assert_eq!(self.pty.text().trim(), "", "nothing of the console stays on the normal screen");
    }
}

#[test]
fn q_restores_the_terminal() {
    let mut console = Console::start();
    // A redraw must not query the terminal either.
    console.pty.send("\x0cq");
    console.ends_well();
}

#[test]
fn signals_restore_the_terminal() {
    for signal in ["-TERM", "-HUP", "-INT"] {
        let console = Console::start();
        let pid = console.pty.pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        console.ends_well();
    }
}

/// The terminal's response to the query for its background color.
const LIGHT: &str = "\x1b]11;rgb:ffff/ffff/ffff\x07";
const DARK: &str = "\x1b]11;rgb:0000/0000/0000\x1b\\";

/// Color of the key in the footer's first hint, which is the theme's accent color.
fn accent(pty: &Pty) -> Option<vt100::Color> {
    pty.screen(|screen| {
        let (row, columns) = (screen.size().0.get() - 1, 0..screen.size().1.get());
        let mut cells = columns.filter_map(|column| screen.cell(row, column));
        cells.find(|cell| !cell.contents().trim().is_empty()).map(vt100::Cell::fgcolor)
    })
}

#[test]
fn the_theme_suits_the_background_and_the_response_is_not_read_as_keys() {
    let blue = Some(vt100::Color::Idx(4));
    let cyan = Some(vt100::Color::Idx(6));
    let mut console = Console::start();
    let requests = |pty: &Pty| pty.raw().windows(7).filter(|bytes| *bytes == b"\x1b]11;?\x07").count();
    assert_eq!(requests(&console.pty), 1);
    let before = console.pty.wait("dark, until an answer comes", |_| accent(&console.pty) == cyan);
    // Much too late, and then split into pieces by a slow network.
    console.pty.send(LIGHT);
    console.pty.wait("light", |_| accent(&console.pty) == blue);
    for piece in [&DARK[..9], &DARK[9..20], &DARK[20..]] {
        console.pty.send(piece);
        std::thread::sleep(std::time::Duration::from_millis(120));
    }
    let after = console.pty.wait("dark again", |_| accent(&console.pty) == cyan);
    let footer = |text: &str| text.lines().last().map(str::to_owned);
    assert_eq!(footer(&before), footer(&after), "no key was pressed");
    console.pty.send("?");
    console.pty.wait_text("(stop-job)");
    console.pty.send("\x1b");
    console.pty.wait("no help", |text| !text.contains("(stop-job)"));
    console.pty.send("q");
    console.ends_well();
}

#[test]
fn an_early_response_determines_the_first_frame() {
    let runtime = Runtime::new().unwrap();
    let home = tempfile::tempdir().unwrap();
    let head = runtime.block_on(Head::start(Scenario::default())).unwrap();
    let mut pty = start(&head, &home, &[]);
    pty.send(LIGHT);
    pty.wait_text("● up");
    assert_eq!(accent(&pty), Some(vt100::Color::Idx(4)));
    pty.send("q");
    assert!(pty.wait_exit().success());
    // With an explicit theme no response is needed.
    let mut pty = start(&head, &home, &["--theme", "high-contrast"]);
    pty.wait_text("● up");
    assert!(!pty.raw().windows(4).any(|bytes| bytes == b"\x1b]11"));
    pty.send("q");
    assert!(pty.wait_exit().success());
}

/// The child: this test itself, in its own terminal. If the process survived the panic, it would exit successfully.
fn panic_in_child(panic: impl FnOnce()) -> ! {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _guard = Guard::take(true).unwrap();
        panic();
    }));
    println!("it goes on: {}", caught.is_err());
    std::process::exit(0)
}

/// The parent: runs `test` of this binary as the child, and checks what it leaves behind.
fn assert_leaves_message(test: &str) {
    let binary = std::env::current_exe().unwrap();
    // With one thread the harness runs the test on the main thread.
    let argv = [binary.to_str().unwrap(), "--exact", test, "--nocapture", "--test-threads=1"];
    let mut pty = Pty::start(&argv, &[(PANIC, "1"), ("RUST_BACKTRACE", "0")], 120, 40);
    let status = pty.wait_exit();
    let left = pty.text();
    assert_eq!(status.exit_code(), 101, "{left}");
    assert!(pty.raw().windows(8).any(|w| w == b"\x1b[?1049h"), "it had the terminal");
    assert!(pty.is_restored(), "{left}");
    assert!(
        left.contains("panicked at tests/program/terminal.rs") && left.contains("a wheel came off"),
        "{left}"
    );
}

#[test]
fn a_panic_on_the_main_thread_restores_the_terminal_and_is_readable() {
    if std::env::var_os(PANIC).is_some() {
        panic_in_child(|| panic!("a wheel came off"));
    }
    assert_leaves_message("terminal::a_panic_on_the_main_thread_restores_the_terminal_and_is_readable");
}

#[test]
fn a_panic_in_the_background_restores_the_terminal_and_is_readable() {
    if std::env::var_os(PANIC).is_some() {
        panic_in_child(|| {
            let thread = std::thread::spawn(|| panic!("a wheel came off"));
            assert!(thread.join().is_err());
        });
    }
    assert_leaves_message("terminal::a_panic_in_the_background_restores_the_terminal_and_is_readable");
}
