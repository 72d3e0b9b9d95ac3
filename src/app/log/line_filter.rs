//! Selects the lines of the log that are shown.

use crate::logs::{IncrementalFilter, Level, LogBuffer, Pattern, PatternError, level, noise, prefixed};
use crate::model::Line;
use std::ops::Range;

/// Maximum number of lines shown around each match.
const MAX_CONTEXT: u64 = 9;
/// Maximum number of lines of a traceback that are shown with the first.
const MAX_TRACE_LINES: u64 = 64;

/// Selects the loaded lines that are shown: all but known noise, or those that match, as with `&` in `less`; optionally
/// only those from a certain line on.
///
/// Of each stretch of noise only the first line is shown, replaced by the number of its lines. With a filter, noise
/// that matches is shown unchanged.
#[derive(Clone, Debug)]
pub struct LineFilter {
    filter: Filter,
    /// The lowest level that is shown; `None` for all lines.
    least: Option<Level>,
    /// Number of lines shown before and after each match.
    around: u64,
    /// The matching lines.
    matches: IncrementalFilter,
    is_quiet: bool,
    /// Noise that follows noise.
    hidden: IncrementalFilter,
    /// Number of the first line that may be shown.
    from: u64,
}

/// Selects lines by a pattern.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    text: String,
    pattern: Pattern,
    /// Whether matching lines are hidden instead.
    is_inverted: bool,
}

impl Filter {
    /// Parses typed text: a pattern, or after `!` a pattern of lines to hide. Empty shows all lines.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (is_inverted, pattern) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let moved = |e: PatternError| PatternError { at: e.at.map(|at| at + usize::from(is_inverted)), ..e };
        Ok(Self { text: text.to_owned(), pattern: Pattern::parse(pattern).map_err(moved)?, is_inverted })
    }
}

impl Filter {
    /// Whether a line is shown.
    fn accepts(&self, line: &Line) -> bool {
        self.pattern.is_empty() || self.pattern.is_match(line.text()) != self.is_inverted
    }
}

/// The level of a line; an indented line without a level, such as a frame of a traceback, has that of the line above.
fn level_of(buffer: &LogBuffer, number: u64) -> Option<Level> {
    for number in (number.saturating_sub(MAX_TRACE_LINES).max(buffer.first())..=number).rev() {
        let text = buffer.get(buffer.index_of(number))?.text();
        let own = level(text);
        if own.is_some() || !prefixed(text).text.starts_with([' ', '\t']) {
            return own;
        }
    }
    None
}

impl Default for LineFilter {
    fn default() -> Self {
        let (filter, matches, hidden) =
            (Filter::default(), IncrementalFilter::default(), IncrementalFilter::default());
        Self { filter, least: None, around: 0, matches, is_quiet: true, hidden, from: 0 }
    }
}

impl LineFilter {
    /// Examines some lines. Returns whether all have been examined.
    pub fn step(&mut self, buffer: &LogBuffer) -> bool {
        if self.is_filtered() {
            let (filter, least) = (&self.filter, self.least);
            return self.matches.step(buffer, |number, line| {
                filter.accepts(line) && least.is_none_or(|least| level_of(buffer, number) >= Some(least))
            });
        }
        let is_noise = |line: &Line| noise(line.text()).is_some();
        let above = |number: u64| {
            (number > buffer.first()).then(|| buffer.get(buffer.index_of(number - 1))).flatten()
        };
        !self.is_quiet
            || self.hidden.step(buffer, |number, line| is_noise(line) && above(number).is_some_and(is_noise))
    }

    /// Whether every loaded line has been examined.
    pub fn is_done(&self, buffer: &LogBuffer) -> bool {
        match (self.is_filtered(), self.is_quiet) {
            (true, _) => self.matches.is_done(buffer),
            (false, true) => self.hidden.is_done(buffer),
            (false, false) => true,
        }
    }

    /// Lines were added above the first one.
    pub fn came_above(&mut self, first: u64) {
        self.hidden.examine_again(first);
    }

    /// Whether only matching lines are shown.
    pub fn is_filtered(&self) -> bool {
        !self.filter.pattern.is_empty() || self.least.is_some()
    }

    /// The lowest level that is shown; `None` for all lines.
    pub const fn least(&self) -> Option<Level> {
        self.least
    }

    /// Shows lines of this level and worse ones, or all.
    pub fn set_least(&mut self, least: Option<Level>) {
        self.least = least;
        self.matches = IncrementalFilter::with(self.around());
    }

    /// Whether noise is currently folded into its count.
    pub fn folds(&self) -> bool {
        self.is_quiet && !self.is_filtered()
    }

    /// Hides or shows noise.
    pub fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// Shows lines from this number on.
    pub fn set_from(&mut self, from: u64) {
        self.from = from;
    }

    /// Whether lines at the beginning are left out.
    pub fn is_late(&self, buffer: &LogBuffer) -> bool {
        self.from > buffer.first()
    }

    /// The typed text; empty without a filter.
    pub fn text(&self) -> &str {
        if self.filter.pattern.is_empty() { "" } else { &self.filter.text }
    }

    /// Number of lines shown before and after each match. Around lines that do not match, hidden ones would be shown.
    pub fn around(&self) -> u64 {
        if self.filter.is_inverted { 0 } else { self.around }
    }

    /// Replaces the filter.
    pub fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
        self.matches = IncrementalFilter::with(self.around());
    }

    /// Shows one line more around each match, or one fewer.
    pub fn widen(&mut self, more: bool) {
        self.around = if more { (self.around + 1).min(MAX_CONTEXT) } else { self.around.saturating_sub(1) };
        self.matches = IncrementalFilter::with(self.around());
    }

    /// Whether a loaded line is shown.
    pub fn is_shown(&self, number: u64) -> bool {
        let is_selected = match (self.is_filtered(), self.is_quiet) {
            (true, _) => self.matches.lines().binary_search(&number).is_ok(),
            (false, true) => self.hidden.lines().binary_search(&number).is_err(),
            (false, false) => true,
        };
        is_selected && number >= self.from
    }

    /// The numbers of the shown lines, and of those that are hidden as noise.
    pub fn taken_out(&self, buffer: &LogBuffer) -> Box<dyn Iterator<Item = u64> + '_> {
        let from = self.from.max(buffer.first());
        if self.is_filtered() {
            return Box::new(self.matches.lines().iter().copied().skip_while(move |number| *number < from));
        }
        Box::new(from..buffer.end())
    }

    /// The number of lines that are shown.
    pub fn len(&self, buffer: &LogBuffer) -> usize {
        self.rank(buffer, buffer.end()) - self.rank(buffer, self.from)
    }

    /// The number of the line at an index among the shown lines; after the last index, one more than the last number.
    pub fn number(&self, buffer: &LogBuffer, index: usize) -> u64 {
        let rank = index.saturating_add(self.rank(buffer, self.from));
        if self.is_filtered() {
            return self.matches.lines().get(rank).copied().unwrap_or(buffer.end());
        }
        // The number of hidden lines above it, by bisection over the shown lines above each hidden one.
        let hidden = self.hidden_lines(buffer);
        let (mut low, mut high) = (hidden.start, hidden.end);
        while low < high {
            let middle = usize::midpoint(low, high);
            let above = buffer.index_of(self.hidden.lines()[middle]) - (middle - hidden.start);
            if above <= rank { low = middle + 1 } else { high = middle }
        }
        let above = (rank + low - hidden.start) as u64;
        buffer.first().saturating_add(above).min(buffer.end())
    }

    /// The index of a line among the shown lines, or of the next one that is shown.
    pub fn index_of(&self, buffer: &LogBuffer, number: u64) -> usize {
        self.rank(buffer, number.max(self.from)) - self.rank(buffer, self.from)
    }

    /// The number of matching lines above a number, regardless of the first line that may be shown.
    fn rank(&self, buffer: &LogBuffer, number: u64) -> usize {
        let number = number.clamp(buffer.first(), buffer.end());
        let above = |incremental_filter: &IncrementalFilter| {
            incremental_filter.lines().partition_point(|n| *n < number)
        };
        if self.is_filtered() {
            return above(&self.matches);
        }
        let hidden = self.hidden_lines(buffer);
        buffer.index_of(number) - above(&self.hidden).clamp(hidden.start, hidden.end) + hidden.start
    }

    /// The indices of the loaded hidden lines.
    fn hidden_lines(&self, buffer: &LogBuffer) -> Range<usize> {
        let above = |number: u64| self.hidden.lines().partition_point(|n| *n < number);
        if self.is_quiet { above(buffer.first())..above(buffer.end()) } else { 0..0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOISE: &str = "tpu_hal.cc:448] Registered plugin from module: sdc";

    proptest! {
        /// Indices and numbers agree with an examination of every line.
        #[test]
        fn places_and_numbers_agree(lines in prop::collection::vec(any::<bool>(), 0..60), late in 0u64..70, quiet: bool) {
            let mut buffer = LogBuffer::new(usize::MAX, usize::MAX);
            for is_noise in &lines {
                buffer.push(if *is_noise { NOISE } else { "step" }.into());
            }
            let mut line_filter = LineFilter::default();
            line_filter.set_quiet(quiet);
            line_filter.set_from(buffer.first() + late);
            while !line_filter.step(&buffer) {}
            let is_shown = |n: usize| !(quiet && n > 0 && lines[n] && lines[n - 1]) && n as u64 >= late;
            let shown: Vec<u64> =
                (0..lines.len()).filter(|n| is_shown(*n)).map(|n| buffer.first() + n as u64).collect();
            prop_assert_eq!(line_filter.len(&buffer), shown.len());
            for (index, number) in shown.iter().enumerate() {
                prop_assert_eq!(line_filter.number(&buffer, index), *number);
                prop_assert_eq!(line_filter.index_of(&buffer, *number), index);
                prop_assert!(line_filter.is_shown(*number));
            }
            prop_assert_eq!(line_filter.number(&buffer, shown.len()), buffer.end());
            for number in buffer.first()..buffer.end() {
                prop_assert_eq!(line_filter.index_of(&buffer, number), shown.partition_point(|n| *n < number));
            }
        }
    }

    #[test]
    fn noise_that_continues_above_has_one_count() {
        let mut buffer = LogBuffer::new(usize::MAX, usize::MAX);
        let part = |lines: std::ops::Range<u64>| crate::model::LogPart {
            lines: lines.clone().map(|_| NOISE.into()).collect(),
            bytes: lines.start..lines.end,
            begin: Some(0),
        };
        let mut line_filter = LineFilter::default();
        buffer.append(part(5..10));
        while !line_filter.step(&buffer) {}
        assert_eq!(line_filter.len(&buffer), 1);
        let first = buffer.first();
        buffer.prepend(part(0..5));
        line_filter.came_above(first);
        while !line_filter.step(&buffer) {}
        assert_eq!((line_filter.len(&buffer), line_filter.number(&buffer, 0)), (1, buffer.first()));
    }
}
