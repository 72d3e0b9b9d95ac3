//! The clipboard: that of the desktop if there is one, otherwise that of the terminal through OSC 52 (xterm control
//! sequences, "Manipulate Selection Data"), which works over SSH.

use crate::model::Secret;
use arboard::Clipboard;
#[cfg(target_os = "macos")]
use arboard::SetExtApple;
#[cfg(not(target_os = "macos"))]
use arboard::SetExtLinux;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Whether the terminal's clipboard must be used, and how its sequence must be wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalEnv {
    /// Whether this process cannot reach the operator's desktop clipboard.
    pub remote: bool,
    /// The multiplexer that the console runs in.
    pub multiplexer: Multiplexer,
}

/// A terminal multiplexer, which does not forward control sequences unless they are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplexer {
    /// No multiplexer.
    None,
    /// tmux: forwards wrapped sequences.
    Tmux,
    /// GNU screen: forwards short strings only.
    Screen,
}

impl TerminalEnv {
    /// From the environment variables.
    pub fn detect(var: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| var(name).is_some_and(|v| !v.is_empty());
        let headless =
            cfg!(not(any(target_os = "macos", windows))) && !set("DISPLAY") && !set("WAYLAND_DISPLAY");
        let multiplexer = match () {
            () if set("TMUX") => Multiplexer::Tmux,
            () if set("STY") => Multiplexer::Screen,
            () => Multiplexer::None,
        };
        Self { remote: headless || set("SSH_CONNECTION") || set("SSH_TTY"), multiplexer }
    }
}

/// A token is removed from the clipboard after this time, unless the clipboard has changed by then.
pub const ON_CLIPBOARD: Duration = Duration::from_secs(60);

/// Whether a text is kept in the clipboard history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum History {
    /// Kept, like any other text.
    Kept,
    /// Marked so that clipboard managers do not store it.
    LeftOut,
}

/// Puts text on the clipboard. Keeps the desktop's clipboard open: on X11 its content is lost when its owner exits.
pub struct Copier {
    terminal_env: TerminalEnv,
    desktop: Option<Clipboard>,
}

impl Copier {
    /// A copier for that terminal.
    pub fn new(terminal_env: TerminalEnv) -> Self {
        Self { terminal_env, desktop: None }
    }

    /// Copies a secret like [`Copier::copy`], and asks the desktop to keep it out of its clipboard history (with KDE's
    /// password hint and the equivalents of Windows and macOS), in which it would outlive [`Copier::clear`]. The
    /// terminal's clipboard has no such hint.
    pub fn copy_secret<W: Write>(
        &mut self,
        secret: &Secret,
        terminal: impl FnOnce() -> io::Result<W>,
    ) -> io::Result<&'static str> {
        self.put(secret.expose(), History::LeftOut, terminal)
    }

    /// Copies `text`; returns how, in words for the screen. `terminal` opens the output for OSC 52; it is called only
    /// if that is needed.
    pub fn copy<W: Write>(
        &mut self,
        text: &str,
        terminal: impl FnOnce() -> io::Result<W>,
    ) -> io::Result<&'static str> {
        self.put(text, History::Kept, terminal)
    }

    fn put<W: Write>(
        &mut self,
        text: &str,
        history: History,
        terminal: impl FnOnce() -> io::Result<W>,
    ) -> io::Result<&'static str> {
        if !self.terminal_env.remote && self.copy_to_desktop(text, history).is_ok() {
            return Ok("to the clipboard");
        }
        let mut terminal = terminal()?;
        terminal.write_all(osc52(text, self.terminal_env.multiplexer).as_bytes())?;
        terminal.flush()?;
        Ok("through the terminal (OSC 52); if the clipboard is empty, the terminal does not support it")
    }

    /// Empties the desktop's clipboard if it still holds `text`; returns whether it did.
    pub fn clear(&mut self, text: &str) -> bool {
        let Some(clipboard) = &mut self.desktop else { return false };
        clipboard.get_text().is_ok_and(|now| now == text) && clipboard.clear().is_ok()
    }

    fn copy_to_desktop(&mut self, text: &str, history: History) -> Result<(), arboard::Error> {
        let clipboard = match &mut self.desktop {
            Some(clipboard) => clipboard,
            none => none.insert(Clipboard::new()?),
        };
        let set = clipboard.set();
        match history {
            History::Kept => set.text(text),
            History::LeftOut => set.exclude_from_history().text(text),
        }
    }
}

/// The operator's terminal: stdout, or else the controlling terminal. The text may be a secret, and a redirected stdout
/// may be a file that others can read.
pub fn terminal() -> io::Result<Box<dyn Write>> {
    if io::stdout().is_terminal() {
        return Ok(Box::new(io::stdout()));
    }
    Ok(Box::new(File::options().write(true).open("/dev/tty")?))
}

fn osc52(text: &str, multiplexer: Multiplexer) -> String {
    let plain = format!("\x1b]52;c;{}\x07", BASE64_STANDARD.encode(text));
    match multiplexer {
        Multiplexer::None => plain,
        // tmux handles the plain form if `set-clipboard` is on, and forwards the wrapped one if `allow-passthrough` is
        // on: one of them arrives with either setting.
        Multiplexer::Tmux => format!("{plain}\x1bPtmux;{}\x1b\\", plain.replace('\x1b', "\x1b\x1b")),
        // screen forwards strings of at most 768 bytes.
        Multiplexer::Screen => {
            let chunks = plain.as_bytes().chunks(700).map(String::from_utf8_lossy);
            chunks.fold(String::new(), |all, chunk| all + "\x1bP" + &chunk + "\x1b\\")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(vars: &[(&str, &str)]) -> TerminalEnv {
        let find = |name: &str| vars.iter().find(|(k, _)| *k == name).map(|(_, v)| (*v).to_owned());
        TerminalEnv::detect(find)
    }

    #[test]
    fn the_terminal_copies_over_ssh_or_without_a_display() {
        assert!(detect(&[("DISPLAY", ":0"), ("SSH_CONNECTION", "1 2 3 4")]).remote);
        assert_eq!(detect(&[]).remote, cfg!(not(any(target_os = "macos", windows))));
        assert!(!detect(&[("DISPLAY", ":0")]).remote);
        assert_eq!(detect(&[("TMUX", "/tmp/x")]).multiplexer, Multiplexer::Tmux);
        assert_eq!(detect(&[("STY", "1.x")]).multiplexer, Multiplexer::Screen);
    }

    #[test]
    fn osc52_carries_the_text_through_multiplexers() {
        let mut out = Vec::new();
        let mut copier = Copier::new(TerminalEnv { remote: true, multiplexer: Multiplexer::None });
        let how = copier.copy("hello", || Ok(&mut out)).unwrap();
        assert!(how.contains("OSC 52"));
        assert_eq!(out, b"\x1b]52;c;aGVsbG8=\x07");
        let tmux = osc52("hello", Multiplexer::Tmux);
        assert_eq!(tmux, "\x1b]52;c;aGVsbG8=\x07\x1bPtmux;\x1b\x1b]52;c;aGVsbG8=\x07\x1b\\");
        let screen = osc52(&"x".repeat(2000), Multiplexer::Screen);
        assert!(screen.split("\x1b\\").all(|part| part.len() <= 768));
    }
}
