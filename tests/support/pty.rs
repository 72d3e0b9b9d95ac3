//! Runs the binary in a real pseudo-terminal and parses its output as a terminal would.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit for something to appear on the screen.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A program in its own terminal.
pub struct Pty {
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<Mutex<Seen>>,
    /// Terminal modes (echo, line editing..) before the program started.
    modes: String,
    reader: Option<JoinHandle<()>>,
}

struct Seen {
    parser: vt100::Parser<Callbacks>,
    raw: Vec<u8>,
}

/// Requests of the program to the terminal other than drawing.
#[derive(Default)]
struct Callbacks {
    clipboard: Vec<Vec<u8>>,
}

impl vt100::Callbacks for Callbacks {
    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8], data: &[u8]) {
        self.clipboard.push(data.to_vec());
    }
}

impl Pty {
    /// Starts `argv` in a terminal of this size, with `env` added to the environment.
    pub fn start(argv: &[&str], env: &[(&str, &str)], cols: u16, rows: u16) -> Self {
        let mut command = CommandBuilder::new(argv[0]);
        command.args(&argv[1..]);
        command.env("TERM", "xterm-256color");
        for (k, v) in env {
            command.env(k, v);
        }
        Self::spawn(command, cols, rows)
    }

    /// Starts a command in a terminal of this size, with only the environment variables that it sets.
    pub fn of(command: &Command, cols: u16, rows: u16) -> Self {
        let mut copy = CommandBuilder::new(command.get_program());
        copy.args(command.get_args());
        copy.env_clear();
        copy.env("TERM", "xterm-256color");
        copy.env("PATH", "/usr/bin:/bin");
        for (k, v) in command.get_envs().filter_map(|(k, v)| Some((k, v?))) {
            copy.env(k, v);
        }
        if let Some(dir) = command.get_current_dir() {
            copy.cwd(dir);
        }
        Self::spawn(copy, cols, rows)
    }

    fn spawn(command: CommandBuilder, cols: u16, rows: u16) -> Self {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let modes = modes(pair.master.as_ref());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let parser = vt100::Parser::new_with_callbacks(nonzero(rows), nonzero(cols), 0, Callbacks::default());
        let seen = Arc::new(Mutex::new(Seen { parser, raw: Vec::new() }));
        let mut from = pair.master.try_clone_reader().unwrap();
        let into = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(n) = from.read(&mut buffer) {
                if n == 0 {
                    break;
                }
                let mut seen = into.lock().unwrap();
                seen.parser.process(&buffer[..n]);
                seen.raw.extend_from_slice(&buffer[..n]);
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Self { master: pair.master, keys, child, seen, modes, reader: Some(reader) }
    }

    /// The screen as text, one line per row.
    pub fn text(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// Reads the cells of the screen.
    pub fn screen<R>(&self, read: impl FnOnce(&vt100::Screen) -> R) -> R {
        read(self.seen.lock().unwrap().parser.screen())
    }

    /// Every byte the program wrote so far.
    pub fn raw(&self) -> Vec<u8> {
        self.seen.lock().unwrap().raw.clone()
    }

    /// What the program copied to the clipboard through the terminal (OSC 52), still in base64.
    pub fn clipboard(&self) -> Vec<Vec<u8>> {
        self.seen.lock().unwrap().parser.callbacks().clipboard.clone()
    }

    /// Whether the terminal is in the state that a shell expects: normal screen, visible cursor, no mouse, no bracketed
    /// paste, and echo and line editing as before.
    pub fn is_restored(&self) -> bool {
        let seen = self.seen.lock().unwrap();
        let screen = seen.parser.screen();
        !screen.alternate_screen()
            && !screen.hide_cursor()
            && !screen.bracketed_paste()
            && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
            && modes(self.master.as_ref()) == self.modes
    }

    /// Types keys. `\r` is Enter, `\x1b` is Esc.
    pub fn send(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until the screen satisfies `is`; panics with the screen after [`DEADLINE`].
    pub fn wait(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        self.wait_for(what, DEADLINE, is)
    }

    /// Like [`Self::wait`], with another time limit.
    pub fn wait_for(&self, what: &str, deadline: Duration, is: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + deadline;
        loop {
            let text = self.text();
            if is(&text) {
                // A terminal delivers a frame in parts: the rows below may still belong to the previous frame.
                std::thread::sleep(Duration::from_millis(20));
                let later = self.text();
                return if is(&later) { later } else { text };
            }
            assert!(Instant::now() < end, "no {what} after {deadline:?}; the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until `needle` is on the screen.
    pub fn wait_text(&self, needle: &str) -> String {
        self.wait(needle, |text| text.contains(needle))
    }

    /// Changes the terminal's size.
    pub fn resize(&self, cols: u16, rows: u16) {
        // Locked, so that nothing drawn for the new size is parsed at the old size.
        let mut seen = self.seen.lock().unwrap();
        self.master.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
        seen.parser.screen_mut().set_size(nonzero(rows), nonzero(cols));
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Waits for the program to exit and for its last output.
    pub fn wait_exit(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                if let Some(reader) = self.reader.take() {
                    // A process started by the program may hold the other side of the terminal open.
                    let end = Instant::now() + Duration::from_secs(5);
                    while !reader.is_finished() && Instant::now() < end {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
                return status;
            }
            assert!(Instant::now() < end, "the program does not exit; the screen:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn modes(terminal: &dyn MasterPty) -> String {
    let modes = terminal.get_termios().unwrap();
    format!("{:?} {:?} {:?}", modes.input_flags, modes.output_flags, modes.local_flags)
}

fn nonzero(size: u16) -> NonZero<u16> {
    NonZero::new(size).unwrap()
}
