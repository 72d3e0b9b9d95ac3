//! The clipboard: the desktop's own where there is one, else the terminal's by OSC 52 (xterm control sequences,
//! "Manipulate Selection Data"), which works over SSH.

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

/// Whether the terminal's own clipboard must be used, and how its sequence must be wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whether this process cannot reach the operator's desktop clipboard.
    pub remote: bool,
    /// The multiplexer that the console runs in.
    pub multiplexer: Multiplexer,
}

/// A terminal multiplexer that keeps control sequences to itself unless they are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplexer {
    /// No multiplexer between us and the terminal.
    None,
    /// tmux: passes wrapped sequences on.
    Tmux,
    /// GNU screen: passes short strings only.
    Screen,
}

impl Place {
    /// From the environment's variables.
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

/// What a clipboard's history does with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum History {
    /// It keeps it as any other.
    Kept,
    /// It leaves it out.
    LeftOut,
}

/// Puts text on the clipboard. Holds the desktop's clipboard open: on X11 its content dies with its owner.
pub struct Copier {
    place: Place,
    desktop: Option<Clipboard>,
}

impl Copier {
    /// A copier for that place.
    pub fn new(place: Place) -> Self {
        Self { place, desktop: None }
    }

    /// Copies a secret as [`Copier::copy`] copies text, and asks the desktop to keep it out of its clipboard's history
    /// (KDE's password hint, Windows' and macOS' marks of the same meaning), where it would outlive
    /// [`Copier::clear`]. The terminal's clipboard knows no such mark.
    pub fn copy_secret<W: Write>(
        &mut self,
        secret: &Secret,
        terminal: impl FnOnce() -> io::Result<W>,
    ) -> io::Result<&'static str> {
        self.put(secret.expose(), History::LeftOut, terminal)
    }

    /// Copies `text`; returns how, in words for the screen. `terminal` is where OSC 52 goes; it is asked for only when
    /// that is needed.
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
        if !self.place.remote && self.copy_to_desktop(text, history).is_ok() {
            return Ok("to the clipboard");
        }
        let mut terminal = terminal()?;
        terminal.write_all(osc52(text, self.place.multiplexer).as_bytes())?;
        terminal.flush()?;
        Ok("through the terminal (OSC 52); if the clipboard is empty, the terminal does not support it")
    }

    /// Empties the desktop's clipboard if it still holds `text`; whether it did.
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

/// The terminal of the person who runs a command: stdout, else the one that controls the process. What is meant for a
/// terminal may be a secret, and a redirected stdout is a file that others can read.
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
        // tmux acts on the plain form when `set-clipboard` is on, and passes the wrapped one on when
        // `allow-passthrough` is: whichever it is set to, one arrives.
        Multiplexer::Tmux => format!("{plain}\x1bPtmux;{}\x1b\\", plain.replace('\x1b', "\x1b\x1b")),
        // screen passes strings of at most 768 bytes.
        Multiplexer::Screen => {
            let chunks = plain.as_bytes().chunks(700).map(String::from_utf8_lossy);
            chunks.fold(String::new(), |all, chunk| all + "\x1bP" + &chunk + "\x1b\\")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(vars: &[(&str, &str)]) -> Place {
        let find = |name: &str| vars.iter().find(|(k, _)| *k == name).map(|(_, v)| (*v).to_owned());
        Place::detect(find)
    }

    #[test]
    fn over_ssh_or_without_a_display_the_terminal_copies() {
        assert!(place(&[("DISPLAY", ":0"), ("SSH_CONNECTION", "1 2 3 4")]).remote);
        assert_eq!(place(&[]).remote, cfg!(not(any(target_os = "macos", windows))));
        assert!(!place(&[("DISPLAY", ":0")]).remote);
        assert_eq!(place(&[("TMUX", "/tmp/x")]).multiplexer, Multiplexer::Tmux);
        assert_eq!(place(&[("STY", "1.x")]).multiplexer, Multiplexer::Screen);
    }

    #[test]
    fn osc52_carries_the_text_through_multiplexers() {
        let mut out = Vec::new();
        let mut copier = Copier::new(Place { remote: true, multiplexer: Multiplexer::None });
        let how = copier.copy("hello", || Ok(&mut out)).unwrap();
        assert!(how.contains("OSC 52"));
        assert_eq!(out, b"\x1b]52;c;aGVsbG8=\x07");
        let tmux = osc52("hello", Multiplexer::Tmux);
        assert_eq!(tmux, "\x1b]52;c;aGVsbG8=\x07\x1bPtmux;\x1b\x1b]52;c;aGVsbG8=\x07\x1b\\");
        let screen = osc52(&"x".repeat(2000), Multiplexer::Screen);
        assert!(screen.split("\x1b\\").all(|part| part.len() <= 768));
    }
}
