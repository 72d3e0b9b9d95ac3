//! Output of commands, to stdout and to stderr.
//!
//! Names, errors and file names come from clusters, files and other people, and may contain control characters that a
//! terminal must not act on. Every command writes through this module: it replaces `println!` and `eprintln!`, and
//! `tests/unit/architecture.rs` forbids other uses of the two streams. stderr is always cleaned. stdout is cleaned on a
//! terminal and left unchanged in a file or a pipe, for scripts.

use crate::model::text::{printable_json, printable_lines};
use crate::model::without_passwords;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{self, IsTerminal, StderrLock, StdoutLock, Write};
use std::path::Path;
use std::str::from_utf8;

/// `std::println!`, cleaned on a terminal.
macro_rules! println {
    ($($words:tt)*) => { $crate::cli::output::line(format_args!($($words)*)) };
}

/// `std::print!`, cleaned on a terminal.
macro_rules! print {
    ($($words:tt)*) => { $crate::cli::output::text(format_args!($($words)*)) };
}

/// Replaces `std::eprintln!`; the text is always cleaned.
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::cli::output::error_line(format_args!($($words)*)) };
}

/// `std::eprint!`, cleaned and written at once.
macro_rules! eprint {
    ($($words:tt)*) => { $crate::cli::output::error_text(format_args!($($words)*)) };
}

/// Whether stdout is a terminal, so that a person reads it.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether stdout can no longer be read: the other end of the pipe is closed, or the terminal is gone.
pub fn is_gone() -> bool {
    let out = io::stdout();
    let mut out = [PollFd::new(&out, PollFlags::empty())];
    let polled = rustix::event::poll(&mut out, Some(&Timespec::default()));
    polled.is_ok() && out[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Whether an error means that the reader of stdout has closed the pipe (`marin-tui configs update --diff | head`); other
/// pipes and sockets fail alike.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) && is_gone()
}

/// Whether stderr is a terminal, so that questions can be asked there.
pub fn can_ask() -> bool {
    io::stderr().is_terminal()
}

/// Standard output, cleaned when it is a terminal.
pub fn stdout() -> Cleaned<StdoutLock<'static>> {
    Cleaned { to: io::stdout().lock(), cleans: is_terminal(), cut: Vec::new() }
}

/// Standard error, always cleaned.
pub fn stderr() -> Cleaned<StderrLock<'static>> {
    Cleaned { to: io::stderr().lock(), cleans: true, cut: Vec::new() }
}

/// A path in JSON. Bytes that are not UTF-8, which JSON cannot express, are replaced.
pub fn path(path: &Path) -> Cow<'_, str> {
    path.to_string_lossy()
}

/// Prints a value as JSON. On a terminal, controls beyond ASCII and bidirectional ones are escaped, which JSON leaves
/// to the writer.
pub fn json(value: &(impl Serialize + ?Sized)) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    let text = if is_terminal() { printable_json(&text) } else { Cow::Borrowed(&*text) };
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// [`json`] on one line, for programs that read line by line.
pub fn json_line(value: &(impl Serialize + ?Sized)) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", on_one_line(value)?)?;
    Ok(out.flush()?)
}

/// The output of [`json_line`] without the line break, for many objects at once.
pub fn on_one_line(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    let text = serde_json::to_string(value)?;
    Ok(if is_terminal() { printable_json(&text).into_owned() } else { text })
}

/// Prints a line; see [`text`].
pub fn line(words: Arguments<'_>) {
    text(format_args!("{words}\n"));
}

/// Prints text to stdout. A closed pipe ends the program with success. Any other failure ends it with an error, so that
/// a script does not take a truncated output for a complete one.
pub fn text(words: Arguments<'_>) {
    let mut out = stdout();
    match out.write_fmt(words).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => {
            error_line(format_args!("marin-tui: cannot write to standard output: {e}"));
            std::process::exit(1);
        }
    }
}

/// Writes a line to stderr, without control characters.
pub fn error_line(words: Arguments<'_>) {
    error_text(format_args!("{words}\n"));
}

/// Writes text to stderr, cleaned, with passwords in addresses masked. A failure is ignored: there is no other place to
/// report it.
pub fn error_text(words: Arguments<'_>) {
    let words = words.to_string();
    let _ = io::stderr().lock().write_all(printable_lines(&without_passwords(&words)).as_bytes());
}

/// A stream that may be a terminal: UTF-8 without control characters other than tabs and line feeds. Other bytes become
/// `U+FFFD`, because some terminals also act on 8-bit C1 controls.
#[derive(Debug)]
pub struct Cleaned<W: Write> {
    to: W,
    cleans: bool,
    /// The beginning of a character that is not complete yet: at most three bytes.
    cut: Vec<u8>,
}

impl<W: Write> Cleaned<W> {
    /// Writes one of our own escape sequences, a color, if this is a terminal.
    pub fn style(&mut self, sequence: &'static str) -> io::Result<()> {
        if self.cleans { self.to.write_all(sequence.as_bytes()) } else { Ok(()) }
    }

    fn clean(&mut self, bytes: &[u8]) -> String {
        let bytes = [std::mem::take(&mut self.cut), bytes.to_vec()].concat();
        let mut text = String::with_capacity(bytes.len());
        let mut rest = &bytes[..];
        for chunk in bytes.utf8_chunks() {
            text.push_str(&printable_lines(chunk.valid()));
            rest = &rest[chunk.valid().len() + chunk.invalid().len()..];
            let is_cut =
                rest.is_empty() && from_utf8(chunk.invalid()).is_err_and(|e| e.error_len().is_none());
            if is_cut {
                self.cut = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }
}

impl<W: Write> Write for Cleaned<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.cleans {
            return self.to.write(bytes);
        }
        let text = self.clean(bytes);
        self.to.write_all(text.as_bytes()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(chunks: &[&[u8]], cleans: bool) -> Vec<u8> {
        let mut out = Cleaned { to: Vec::new(), cleans, cut: Vec::new() };
        for chunk in chunks {
            out.write_all(chunk).unwrap();
        }
        out.to
    }

    #[test]
    fn a_terminal_gets_text_and_a_pipe_gets_bytes() {
        let hostile = b"a\x1b]0;owned\x07\xc2\x9b31m\x9b\xff\tb\n";
        assert_eq!(written(&[hostile], true), "a·]0;owned··31m\u{fffd}\u{fffd}\tb\n".as_bytes());
        assert_eq!(written(&[hostile], false), hostile);
    }

    #[test]
    fn our_own_colors_are_written_only_to_a_terminal() {
        let mut out = Cleaned { to: Vec::new(), cleans: true, cut: Vec::new() };
        out.style("\x1b[31m").and_then(|()| write!(out, "x\x1b")).unwrap();
        assert_eq!(out.to, "\x1b[31mx·".as_bytes());
        let mut out = Cleaned { to: Vec::new(), cleans: false, cut: Vec::new() };
        out.style("\x1b[31m").unwrap();
        assert!(out.to.is_empty());
    }

    proptest! {
        #[test]
        fn the_split_of_the_bytes_does_not_matter(
            bytes in prop::collection::vec(prop::sample::select(&b"a\n\t\x1b\xc2\x9b\xe2\x80\xae\xf0\x9f\x98\x80"[..]), 0..40),
            cut in 0usize..40,
        ) {
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            let both = written(&[a, b], true);
            prop_assert_eq!(&both, &written(&[&bytes], true));
            let text = String::from_utf8(both).unwrap();
            prop_assert!(printable_lines(&text) == text);
        }
    }
}
