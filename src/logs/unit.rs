//! Groups lines into units: a Python traceback is one unit, every other line is a unit of its own.

use super::level::{Level, level};
use super::prefix::beginning;
use crate::model::Timestamp;
use std::borrow::Cow;

/// A line, or a traceback with its chain of causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// Number of the first line, as the caller counts them.
    pub line: u64,
    /// Time of the first line.
    pub time: Option<Timestamp>,
    /// The number of lines that it stands for, as in [`super::Prefixed::times`].
    pub times: u32,
    /// The line, or the last exception of a traceback.
    pub text: Cow<'a, str>,
    /// The lines of a traceback, at most [`Unit::MAX_LINES`] and its exceptions; empty for a single line.
    pub trace: Vec<String>,
    /// The level of the line; a traceback is an error.
    pub level: Option<Level>,
}

impl Unit<'_> {
    /// Maximum number of lines kept of a traceback; that of a runaway recursion has a thousand.
    pub const MAX_LINES: usize = 200;

    /// Whether it is a traceback.
    pub fn is_traceback(&self) -> bool {
        !self.trace.is_empty()
    }

    /// All its lines.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let one = self.trace.is_empty().then_some(&*self.text);
        one.into_iter().chain(self.trace.iter().map(String::as_str))
    }
}

/// Maximum number of bytes kept of an exception, and of a frame.
const MAX_BYTES: usize = 4096;
const FRAME: usize = 512;

/// The first line of a Python traceback (`traceback.TracebackException.format`).
const TRACEBACK_HEADER: &str = "Traceback (most recent call last):";
/// The lines between chained tracebacks, from the same function.
const CHAIN: [&str; 2] = [
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// After the head: frames, then the exception.
    Frames,
    /// After an exception: the end, or a blank line and a chained traceback.
    Exception,
    /// After the line between two chained tracebacks.
    Chain,
}

/// Groups the lines of one source into units.
#[derive(Clone, Debug, Default)]
pub struct Units {
    open: Option<(Unit<'static>, Part)>,
}

impl Units {
    /// Adds the next line, without Ray's prefix, and passes complete units to `out`. Blank lines are not units.
    pub fn push(
        &mut self,
        (line, time, times): (u64, Option<Timestamp>, u32),
        text: &str,
        mut out: impl FnMut(Unit<'_>),
    ) {
        if let Some((unit, part)) = &mut self.open {
            if let Some(next) = follows(*part, text) {
                *part = next;
                // The exception at the end matters most, so there is always room for it.
                let (most, longest) = if next == Part::Exception {
                    (Unit::MAX_LINES + 16, MAX_BYTES)
                } else {
                    (Unit::MAX_LINES, FRAME)
                };
                if unit.trace.len() < most {
                    unit.trace.push(beginning(text, longest).to_owned());
                }
                if next == Part::Exception && !text.trim().is_empty() {
                    unit.text = Cow::Owned(beginning(text, MAX_BYTES).to_owned());
                }
                unit.times = unit.times.max(times);
                return;
            }
            self.flush(&mut out);
        }
        if text.trim().is_empty() {
            return;
        }
        if text.contains(TRACEBACK_HEADER) {
            let head = beginning(text, MAX_BYTES).to_owned();
            let (trace, text) = (vec![head.clone()], Cow::Owned(head));
            let unit = Unit { line, time, times, text, trace, level: Some(Level::Error) };
            self.open = Some((unit, Part::Frames));
        } else {
            out(Unit { line, time, times, text: Cow::Borrowed(text), trace: Vec::new(), level: level(text) });
        }
    }

    /// Passes the open traceback to `out`, as at the end of a log or after a quiet period.
    pub fn flush(&mut self, mut out: impl FnMut(Unit<'_>)) {
        if let Some((mut unit, _)) = self.open.take() {
            while unit.trace.last().is_some_and(|line| line.trim().is_empty()) {
                unit.trace.pop();
            }
            out(unit);
        }
    }
}

/// The part of an open traceback that a line belongs to; `None` if it does not belong to it.
fn follows(part: Part, text: &str) -> Option<Part> {
    let is_blank = text.trim().is_empty();
    let is_indented = text.starts_with([' ', '\t']);
    let is_chain = || CHAIN.iter().any(|words| text.trim_start_matches([' ', '|']).starts_with(words));
    match part {
        Part::Frames | Part::Exception if is_chain() => Some(Part::Chain),
        Part::Frames if is_indented || is_blank || text.contains(TRACEBACK_HEADER) => Some(Part::Frames),
        Part::Frames if is_exception(text) => Some(Part::Exception),
        Part::Exception if is_blank => Some(Part::Exception),
        // Ray's own errors are followed by the frames of the worker (`RayTaskError` in `ray/exceptions.py`).
        Part::Exception if text.starts_with("  File \"") => Some(Part::Frames),
        Part::Chain if is_blank => Some(Part::Chain),
        Part::Chain if text.contains(TRACEBACK_HEADER) => Some(Part::Frames),
        _ => None,
    }
}

/// Whether a line is an exception: `ValueError: bad`, `KeyboardInterrupt`, `ray.exceptions.RayTaskError(ValueError):
/// ...`.
fn is_exception(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let class = name.rsplit('.').next().unwrap_or(name);
    class.starts_with(|c: char| c.is_ascii_uppercase()) && (rest.is_empty() || rest.starts_with([':', '(']))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text and the number of lines of every unit.
    fn units(log: &str) -> Vec<(String, usize)> {
        let (mut units, mut all) = (Units::default(), Vec::new());
        let mut out = |unit: Unit<'_>| all.push((unit.text.to_string(), unit.all().count()));
        for (number, line) in log.lines().enumerate() {
            units.push((number as u64, None, 1), line, &mut out);
        }
        units.flush(&mut out);
        all
    }

    fn pairs(all: &[(String, usize)]) -> Vec<(&str, usize)> {
        all.iter().map(|(text, lines)| (text.as_str(), *lines)).collect()
    }

    #[test]
    fn a_traceback_is_one_unit_with_its_exception() {
        let log = "before\n\
            2026-11-21 ERROR x Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\n\
            jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: x\n\nafter: it\n";
        let all = units(log);
        let expected =
            [("before", 1), ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: x", 4), ("after: it", 1)];
        assert_eq!(pairs(&all), expected);
    }

    #[test]
    fn a_chain_is_one_unit() {
        let log = "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nKeyError: 'x'\n\n\
            During handling of the above exception, another exception occurred:\n\n\
            Traceback (most recent call last):\n  File \"a.py\", line 5, in f\nRuntimeError\n\n\
            The above exception was the direct cause of the following exception:\n\n\
            Traceback (most recent call last):\n  File \"a.py\", line 9, in f\n\
            ray.exceptions.RayTaskError(ValueError): ray::f() (pid=3, ip=10.0.0.1)\n  File \"b.py\", line 1, in g\n\
            ValueError: bad\nnext\n";
        assert_eq!(pairs(&units(log)), [("ValueError: bad", 17), ("next", 1)]);
    }

    #[test]
    fn incomplete_tracebacks_end() {
        assert_eq!(pairs(&units("Traceback (most recent call last):\nstep 3\n")).len(), 2);
        let two =
            "Traceback (most recent call last):\n  x\nA: 1\nTraceback (most recent call last):\n  x\nB: 2\n";
        assert_eq!(pairs(&units(two)), [("A: 1", 3), ("B: 2", 3)]);
        let group = "  + Exception Group Traceback (most recent call last):\n  |   File \"a\"\n  | ExceptionGroup: x\n\
            \x20   +---- 1 ----\nlowercase: no exception\n";
        assert_eq!(pairs(&units(group))[1], ("lowercase: no exception", 1));
    }

    #[test]
    fn an_endless_traceback_is_bounded_and_keeps_its_exception() {
        let frames = format!("  {}\n", "x".repeat(10_000)).repeat(5_000);
        let log = format!("Traceback (most recent call last):\n{frames}RecursionError: too deep\n");
        let mut open = Units::default();
        let mut held = 0;
        for line in log.lines() {
            open.push((0, None, 1), line, |_| ());
            held = held.max(open.open.as_ref().map_or(0, |(u, _)| u.trace.iter().map(String::len).sum()));
        }
        assert!(held < 200 * 600, "{held}");
        assert_eq!(pairs(&units(&log)), [("RecursionError: too deep", Unit::MAX_LINES + 1)]);
    }
}
