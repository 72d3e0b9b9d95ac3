//! However the console ends, the terminal is as it was before.

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

impl Console {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let head = runtime.block_on(Head::start(Scenario::default())).unwrap();
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().to_str().unwrap();
        let folders = ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"]
            .map(|v| (v, folder));
        let (dashboard, gcs) = (format!("http://{}", head.dashboard), head.gcs.to_string());
        let argv = [env!("CARGO_BIN_EXE_marin-tui"), "--address", &dashboard, "--gcs", &gcs];
        let pty = Pty::start(&argv, &folders, 120, 40);
        pty.wait_text("● up");
        assert!(!pty.is_restored(), "the console has taken the terminal");
        Self { pty, _home: home, _head: head, _runtime: runtime }
    }

    fn ends_well(mut self) {
        let status = self.pty.wait_exit();
        assert!(status.success(), "{status:?}");
        assert!(self.pty.is_restored());
        let raw = self.pty.raw();
        assert!(!raw.windows(4).any(|w| w == b"\x1b[6n"), "the cursor is asked for, and nobody here answers");
        assert_eq!(self.pty.text().trim(), "", "nothing of the console stays on the normal screen");
    }
}

#[test]
fn q_gives_the_terminal_back() {
    let mut console = Console::start();
    // Drawing anew must not ask the terminal anything either.
    console.pty.send("\x0cq");
    console.ends_well();
}

#[test]
fn signals_give_the_terminal_back() {
    for signal in ["-TERM", "-HUP", "-INT"] {
        let console = Console::start();
        let pid = console.pty.pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        console.ends_well();
    }
}

/// The child: this very test, in a terminal of its own. Were the process to survive the panic, it would end well.
fn panics_here(panic: impl FnOnce()) -> ! {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _guard = Guard::take(true).unwrap();
        panic();
    }));
    println!("it goes on: {}", caught.is_err());
    std::process::exit(0)
}

/// The parent: starts `test` of this binary as the child, and looks at what it leaves.
fn leaves_its_message(test: &str) {
    let binary = std::env::current_exe().unwrap();
    // With one thread the harness runs the test on the main one.
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
fn a_panic_on_the_main_thread_gives_the_terminal_back_and_is_readable() {
    if std::env::var_os(PANIC).is_some() {
        panics_here(|| panic!("a wheel came off"));
    }
    leaves_its_message("terminal::a_panic_on_the_main_thread_gives_the_terminal_back_and_is_readable");
}

#[test]
fn a_panic_in_the_background_gives_the_terminal_back_and_is_readable() {
    if std::env::var_os(PANIC).is_some() {
        panics_here(|| {
            let thread = std::thread::spawn(|| panic!("a wheel came off"));
            assert!(thread.join().is_err());
        });
    }
    leaves_its_message("terminal::a_panic_in_the_background_gives_the_terminal_back_and_is_readable");
}
