//! Lines that belong together: a Python traceback is one unit, every other line is one of its own.

use super::level::{Level, level};
use crate::model::Timestamp;
use std::borrow::Cow;

/// A line, or a traceback with its chain of causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// Number of the first line, as the caller counts them.
    pub line: u64,
    /// Time of the first line.
    pub time: Option<Timestamp>,
    /// How many lines of the source it stands for, as in [`super::Prefixed::times`].
    pub times: u32,
    /// What it says: the line, or the last exception of a traceback.
    pub text: Cow<'a, str>,
    /// All lines of a traceback, [`Unit::MOST`] at most; empty for a line of its own.
    pub trace: Vec<String>,
    /// The level that it says; a traceback is an error.
    pub level: Option<Level>,
}

impl Unit<'_> {
    /// Lines that are kept of a traceback; one of a recursion that is too deep has a thousand.
    pub const MOST: usize = 200;

    /// Whether it is a traceback.
    pub fn is_traceback(&self) -> bool {
        !self.trace.is_empty()
    }

    /// Every line of it.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let one = self.trace.is_empty().then_some(&*self.text);
        one.into_iter().chain(self.trace.iter().map(String::as_str))
    }
}

/// The words with which Python begins a traceback (`traceback.TracebackException.format`).
const HEAD: &str = "Traceback (most recent call last):";
/// The words between a traceback and the one that it led to, from the same function.
const CHAIN: [&str; 2] = [
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// After the head: frames, then the exception.
    Frames,
    /// After an exception: the end, or a blank line and another one that it led to.
    Said,
    /// After the words between two.
    Chain,
}

/// Puts the lines of one source together.
#[derive(Clone, Debug, Default)]
pub struct Units {
    open: Option<(Unit<'static>, Part)>,
}

impl Units {
    /// Takes in the next line, without Ray's prefix, and gives what is complete. Blank lines are no unit.
    pub fn push(
        &mut self,
        (line, time, times): (u64, Option<Timestamp>, u32),
        text: &str,
        mut out: impl FnMut(Unit<'_>),
    ) {
        if let Some((unit, part)) = &mut self.open {
            if let Some(next) = follows(*part, text) {
                *part = next;
                if unit.trace.len() < Unit::MOST || next == Part::Said {
                    unit.trace.push(text.to_owned());
                }
                if next == Part::Said && !text.is_empty() {
                    unit.text = Cow::Owned(text.to_owned());
                }
                unit.times = unit.times.max(times);
                return;
            }
            self.flush(&mut out);
        }
        if text.trim().is_empty() {
            return;
        }
        if text.contains(HEAD) {
            let (trace, said) = (vec![text.to_owned()], Cow::Owned(text.to_owned()));
            let unit = Unit { line, time, times, text: said, trace, level: Some(Level::Error) };
            self.open = Some((unit, Part::Frames));
        } else {
            out(Unit { line, time, times, text: Cow::Borrowed(text), trace: Vec::new(), level: level(text) });
        }
    }

    /// Gives the traceback that is open, as at the end of a log or when it has been quiet.
    pub fn flush(&mut self, mut out: impl FnMut(Unit<'_>)) {
        if let Some((mut unit, _)) = self.open.take() {
            while unit.trace.last().is_some_and(|line| line.trim().is_empty()) {
                unit.trace.pop();
            }
            out(unit);
        }
    }
}

/// What a line is to an open traceback; none if it does not belong to it.
fn follows(part: Part, text: &str) -> Option<Part> {
    let is_blank = text.trim().is_empty();
    let is_indented = text.starts_with([' ', '\t']);
    let is_chain = || CHAIN.iter().any(|words| text.trim_start_matches([' ', '|']).starts_with(words));
    match part {
        Part::Frames if is_chain() => Some(Part::Chain),
        Part::Frames if is_indented || is_blank || text.contains(HEAD) => Some(Part::Frames),
        Part::Frames if is_exception(text) => Some(Part::Said),
        Part::Said if is_chain() => Some(Part::Chain),
        Part::Said if is_blank => Some(Part::Said),
        // Ray's own errors have the frames of the worker behind them (`RayTaskError` in `ray/exceptions.py`).
        Part::Said if text.starts_with("  File \"") => Some(Part::Frames),
        Part::Chain if is_blank => Some(Part::Chain),
        Part::Chain if text.contains(HEAD) => Some(Part::Frames),
        _ => None,
    }
}

/// `ValueError: bad`, `KeyboardInterrupt`, `ray.exceptions.RayTaskError(ValueError): ...`.
fn is_exception(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let class = name.rsplit('.').next().unwrap_or(name);
    class.starts_with(|c: char| c.is_ascii_uppercase()) && (rest.is_empty() || rest.starts_with([':', '(']))
}
