//! Which lines of the log are shown.

use crate::logs::{Held, Pattern, PatternError, Sieve};
use std::collections::VecDeque;

/// Most lines that are shown around each one that matches.
const AROUND: u64 = 9;

/// Which of the held lines are shown: all of them, or those that match, as with `&` in `less`.
#[derive(Clone, Debug, Default)]
pub struct Lens {
    filter: Filter,
    /// Lines shown before and after each.
    around: u64,
    sieve: Sieve,
}

/// Lines that are shown.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    text: String,
    pattern: Pattern,
    /// Whether those that match are hidden.
    is_inverted: bool,
}

impl Filter {
    /// Reads what was typed: a pattern, after `!` one that hides what it matches. Empty shows all lines.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (is_inverted, pattern) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let moved = |e: PatternError| PatternError { at: e.at.map(|at| at + usize::from(is_inverted)), ..e };
        Ok(Self { text: text.to_owned(), pattern: Pattern::parse(pattern).map_err(moved)?, is_inverted })
    }
}

impl Lens {
    /// Looks at some lines. Whether all were looked at.
    pub fn step(&mut self, held: &Held) -> bool {
        let Filter { pattern, is_inverted, .. } = &self.filter;
        pattern.is_empty() || self.sieve.step(held, |_, line| pattern.is_match(line.text()) != *is_inverted)
    }

    /// Whether every held line was looked at.
    pub fn is_done(&self, held: &Held) -> bool {
        self.filter.pattern.is_empty() || self.sieve.is_done(held)
    }

    /// The numbers of the lines that are shown; none when all are.
    pub fn shown(&self) -> Option<&VecDeque<u64>> {
        (!self.filter.pattern.is_empty()).then(|| self.sieve.lines())
    }

    /// What was typed; empty when all lines are shown.
    pub fn text(&self) -> &str {
        if self.filter.pattern.is_empty() { "" } else { &self.filter.text }
    }

    /// Lines shown before and after each that matches. Around those that do not match there would be what is hidden.
    pub fn around(&self) -> u64 {
        if self.filter.is_inverted { 0 } else { self.around }
    }

    /// Shows other lines.
    pub fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
        self.sieve = Sieve::with(self.around());
    }

    /// Shows one line more around each, or one fewer.
    pub fn widen(&mut self, more: bool) {
        self.around = if more { (self.around + 1).min(AROUND) } else { self.around.saturating_sub(1) };
        self.sieve = Sieve::with(self.around());
    }
}
