//! Lines that belong together: a Python traceback is one unit, every other line is one of its own.

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
    /// How many lines of the source it stands for, as in [`super::Prefixed::times`].
    pub times: u32,
    /// What it says: the line, or the last exception of a traceback.
    pub text: Cow<'a, str>,
    /// The lines of a traceback, [`Unit::MOST`] and its exceptions at most; empty for a line of its own.
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

/// Bytes that are kept of an exception, and of a frame.
const LINE: usize = 4096;
const FRAME: usize = 512;

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
    /// Adds the next line, without Ray's prefix, and gives what is complete. Blank lines are no unit.
    pub fn push(
        &mut self,
        (line, time, times): (u64, Option<Timestamp>, u32),
        text: &str,
        mut out: impl FnMut(Unit<'_>),
    ) {
        if let Some((unit, part)) = &mut self.open {
            if let Some(next) = follows(*part, text) {
                *part = next;
                // The exception is at the end, and is what counts: there is room for it.
                let (most, longest) =
                    if next == Part::Said { (Unit::MOST + 16, LINE) } else { (Unit::MOST, FRAME) };
                if unit.trace.len() < most {
                    unit.trace.push(beginning(text, longest).to_owned());
                }
                if next == Part::Said && !text.trim().is_empty() {
                    unit.text = Cow::Owned(beginning(text, LINE).to_owned());
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
            let said = beginning(text, LINE).to_owned();
            let (trace, said) = (vec![said.clone()], Cow::Owned(said));
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
        Part::Frames | Part::Said if is_chain() => Some(Part::Chain),
        Part::Frames if is_indented || is_blank || text.contains(HEAD) => Some(Part::Frames),
        Part::Frames if is_exception(text) => Some(Part::Said),
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

    fn said(all: &[(String, usize)]) -> Vec<(&str, usize)> {
        all.iter().map(|(text, lines)| (text.as_str(), *lines)).collect()
    }

    #[test]
    fn a_traceback_is_one_unit_and_says_its_exception() {
        let log = "before\n\
            2026-11-21 ERROR x Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\n\
            jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: x\n\nafter: it\n";
        let all = units(log);
        let expected =
            [("before", 1), ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: x", 4), ("after: it", 1)];
        assert_eq!(said(&all), expected);
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
        assert_eq!(said(&units(log)), [("ValueError: bad", 17), ("next", 1)]);
    }

    #[test]
    fn tracebacks_that_break_off_end() {
        assert_eq!(said(&units("Traceback (most recent call last):\nstep 3\n")).len(), 2);
        let two =
            "Traceback (most recent call last):\n  x\nA: 1\nTraceback (most recent call last):\n  x\nB: 2\n";
        assert_eq!(said(&units(two)), [("A: 1", 3), ("B: 2", 3)]);
        let group = "  + Exception Group Traceback (most recent call last):\n  |   File \"a\"\n  | ExceptionGroup: x\n\
            \x20   +---- 1 ----\nlowercase: no exception\n";
        assert_eq!(said(&units(group))[1], ("lowercase: no exception", 1));
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
        assert_eq!(said(&units(&log)), [("RecursionError: too deep", Unit::MOST + 1)]);
    }
}
