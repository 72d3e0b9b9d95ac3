//! Matches of the search, errors and marks in the log, and moving between them.

use super::line_filter::{Filter, LineFilter};
use super::view::LogView;
use crate::logs::{Level, Pattern, Repeated, Search};
use crate::model::Line;
use std::collections::VecDeque;
use std::ops::Range;

/// The result of moving to another match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next match in that direction.
    Next,
    /// Past the last one, to the other end of the log.
    Wrapped,
    /// Pending until all lines have been examined.
    Pending,
}

/// A line of interest in a part of the log: the first of these kinds that it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landmark {
    /// A line with a mark.
    Mark,
    /// A match of the search.
    Match,
    /// A line that reports an error.
    Error,
}

impl LogView {
    /// The search of the loaded lines; that of the empty pattern without a search.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Searches for a pattern; the empty one ends the search.
    pub fn set_search(&mut self, pattern: Pattern) {
        (self.search, self.at, self.sought) = (Search::new(pattern), None, None);
        self.examine_more();
    }

    /// Selects the lines that are shown.
    pub fn line_filter(&self) -> &LineFilter {
        &self.line_filter
    }

    /// Shows only lines that match the filter; the empty one shows all. The first line in the window stays, or the next
    /// one that is shown.
    pub fn set_filter(&mut self, filter: Filter) {
        self.line_filter.set_filter(filter);
        self.examine_more();
    }

    /// Shows only lines of this level and worse ones, or all. The first line in the window stays, or the next one that
    /// is shown.
    pub fn show_levels(&mut self, least: Option<Level>) {
        self.line_filter.set_least(least);
        self.examine_more();
    }

    /// Switches from all lines to warnings and errors, to errors only, and back to all.
    pub fn turn_levels(&mut self) {
        self.show_levels(match self.line_filter.least() {
            None => Some(Level::Warning),
            Some(Level::Warning) => Some(Level::Error),
            Some(_) => None,
        });
    }

    /// Shows one line more, or one fewer, around each line that matches the filter.
    pub fn widen(&mut self, more: bool) {
        self.line_filter.widen(more);
        self.examine_more();
    }

    /// Whether a search or a filter is set.
    pub fn is_narrowed(&self) -> bool {
        !self.search.pattern().is_empty() || !self.line_filter.text().is_empty()
    }

    /// The number of lines that report an error.
    pub fn errors(&self) -> usize {
        self.errors.lines().len()
    }

    /// The position of the current match among all matches, from 1.
    pub fn match_number(&self) -> Option<usize> {
        self.search.found().binary_search(&self.at?).ok().map(|index| index + 1)
    }

    /// Whether this line is the current one: the match, error or mark that was last gone to.
    pub fn is_at(&self, index: usize) -> bool {
        self.at == Some(self.number(index))
    }

    /// The text of the current line, if it is loaded.
    pub fn current(&self) -> Option<&str> {
        let number = self.at.filter(|at| (self.buffer.first()..self.buffer.end()).contains(at))?;
        self.buffer.get(self.buffer.index_of(number)).map(Line::text)
    }

    /// A line in the window that Ray has marked as repeated: the current line, or else the last such one.
    pub fn repeated(&self) -> Option<Repeated> {
        self.find_repeated().map(|(_, repeated)| repeated)
    }

    /// Like [`Self::repeated`], and makes the line the current one.
    pub fn go_to_repeated(&mut self) -> Option<Repeated> {
        let (index, repeated) = self.find_repeated()?;
        self.go_to(self.number(index));
        Some(repeated)
    }

    fn find_repeated(&self) -> Option<(usize, Repeated)> {
        let current = self.seen().filter(|index| self.is_at(*index));
        let repeated = |index: usize| Some((index, Repeated::of(self.line(index)?.text())?));
        current.chain(self.seen().rev()).find_map(repeated)
    }

    /// Goes to the next match below (or above) the current line, or to the first (last) one that is visible or beyond;
    /// after the last match to the first, like `less`. Stops following. The window moves only if the match is outside.
    /// `None` if nothing matches.
    pub fn next_match(&mut self, forward: bool) -> Option<Step> {
        let next = self.next_of(self.search.found(), forward);
        // The newest lines are examined first, so a closer match may be found later only above the window.
        let is_near = !forward || self.number(self.seen().start) >= self.search.examined_from(&self.buffer);
        let is_certain = is_near && matches!(next, Some((_, Step::Next)));
        let is_done = self.search.is_done(&self.buffer) && self.line_filter.is_done(&self.buffer);
        if !(is_certain || is_done) {
            self.sought = Some(forward);
            return Some(Step::Pending);
        }
        self.go_on_to(next)
    }

    /// The same for lines that report an error.
    pub fn next_error(&mut self, forward: bool) -> Option<Step> {
        self.go_on_to(self.next_of(self.errors.lines(), forward))
    }

    /// The same for marks.
    pub fn next_mark(&mut self, forward: bool) -> Option<Step> {
        self.go_on_to(self.next_of(&self.marks, forward))
    }

    fn go_on_to(&mut self, next: Option<(u64, Step)>) -> Option<Step> {
        let (number, step) = next?;
        self.go_to(number);
        Some(step)
    }

    /// Makes a line, or the next one that is shown, the current one and scrolls to it.
    pub(super) fn go_to(&mut self, number: u64) {
        let seen = self.seen();
        let index = self.index_of(number).min(self.len().saturating_sub(1));
        self.at = Some(self.number(index));
        self.show(if seen.contains(&index) { seen.start } else { index });
    }

    /// The next of these lines that is shown.
    fn next_of(&self, lines: &VecDeque<u64>, forward: bool) -> Option<(u64, Step)> {
        let seen = self.seen();
        let (start, end) = (self.number(seen.start), self.number(seen.end));
        let here = self.at.filter(|at| (start..end).contains(at));
        let before = |number: u64| lines.partition_point(|n| *n < number);
        let shown = |indices: Range<usize>, forward: bool| {
            let mut indices = lines.range(indices).copied();
            let is_shown = |n: &u64| self.line_filter.is_shown(*n);
            if forward { indices.find(is_shown) } else { indices.rfind(is_shown) }
        };
        let beyond = if forward {
            before(here.map_or(start, |at| at + 1))..lines.len()
        } else {
            0..before(here.unwrap_or(end))
        };
        let next = shown(beyond, forward).map(|number| (number, Step::Next));
        next.or_else(|| Some((shown(0..lines.len(), forward)?, Step::Wrapped)))
    }

    /// Marks or unmarks the current line, or the first one in the window.
    pub fn toggle_mark(&mut self) {
        let seen = self.seen();
        let here = self.at.filter(|at| (self.number(seen.start)..self.number(seen.end)).contains(at));
        let number = here.unwrap_or_else(|| self.number(seen.start));
        if self.is_empty() {
            return;
        }
        match self.marks.binary_search(&number) {
            Ok(index) => _ = self.marks.remove(index),
            Err(index) => self.marks.insert(index, number),
        }
    }

    /// Whether this line is marked.
    pub fn is_marked(&self, index: usize) -> bool {
        self.marks.binary_search(&self.number(index)).is_ok()
    }

    /// The visible lines from the last mark above the current line (or else the first one below it) to that line, both
    /// included.
    pub fn marked_range(&self) -> Option<Vec<String>> {
        let seen = self.seen();
        let here = self.index_of(self.at.unwrap_or(self.number(seen.start)));
        let number = self.number(here);
        let above = self.marks.iter().rev().find(|mark| **mark < number);
        let mark = self.index_of(*above.or_else(|| self.marks.iter().find(|mark| **mark > number))?);
        let range = mark.min(here)..=mark.max(here);
        let line = |index| Some(self.with_part(self.number(index), self.line(index)?.text()));
        Some(range.filter_map(line).collect())
    }

    /// The number of the current line among those of [`LogView::taken_out`], or of the first one in the window, from 1.
    pub fn line_taken_out(&self) -> usize {
        let seen = self.seen();
        let here = self.at.filter(|at| (self.number(seen.start)..self.number(seen.end)).contains(at));
        let here = here.unwrap_or_else(|| self.number(seen.start));
        self.line_filter.taken_out(&self.buffer).take_while(|number| *number < here).count() + 1
    }

    /// The lines as they are saved: those that match filter and time, including hidden noise; `None` while not all have
    /// been examined.
    pub fn taken_out(&self) -> Option<String> {
        if !self.line_filter.is_done(&self.buffer) {
            return None;
        }
        let mut text = String::new();
        for number in self.line_filter.taken_out(&self.buffer) {
            if let Some(line) = self.buffer.get(self.buffer.index_of(number)) {
                text.push_str(&self.with_part(number, line.text()));
                text.push('\n');
            }
        }
        Some(text)
    }

    /// The landmark in each of that many equal parts of the log.
    pub fn landmarks(&self, parts: usize) -> Vec<Option<Landmark>> {
        let at = |part: usize| self.number(part * self.len() / parts.max(1));
        let has = |lines: &VecDeque<u64>, part: usize| {
            let before = |number: u64| lines.partition_point(|n| *n < number);
            before(at(part)) < before(at(part + 1))
        };
        let landmark = |part: usize| match () {
            () if has(&self.marks, part) => Some(Landmark::Mark),
            () if has(self.search.found(), part) => Some(Landmark::Match),
            () if has(self.errors.lines(), part) => Some(Landmark::Error),
            () => None,
        };
        (0..parts).map(landmark).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{first, lines, push, seen, view, wrapped};
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn a_match_on_the_last_page_of_wrapped_lines_is_shown() {
        let mut view = wrapped();
        view.set_search(pattern("line 90"));
        assert!(view.next_match(false).is_some());
        assert_eq!((seen(&view)[0], view.below(view.size)), ("90", 6));
        view.set_search(pattern("line 98"));
        assert!(view.next_match(true).is_some() && view.is_at(98));
        assert_eq!((seen(&view), view.below(view.size), view.follows()), (vec!["98", "99"], 0, false));
    }

    #[test]
    fn a_search_moves_from_match_to_match() {
        let mut view = view(100);
        view.set_search(pattern("line 7"));
        assert_eq!((view.search.found().len(), view.match_number()), (11, None));
        view.go_to_top();
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(7));
        assert_eq!(
            (first(&view), view.match_number()),
            ("line 0", Some(1)),
            "it is visible without scrolling"
        );
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(70));
        assert_eq!(first(&view), "line 70");
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(71));
        assert!(view.next_match(false).is_some() && view.next_match(false).is_some() && view.is_at(7));
        assert_eq!(first(&view), "line 7");
        assert!(view.next_match(false) == Some(Step::Wrapped) && view.is_at(79), "like less");
        assert!(view.next_match(true) == Some(Step::Wrapped) && view.is_at(7));
        view.set_search(pattern("nothing of the kind"));
        assert_eq!((view.next_match(true), view.search.found().len()), (None, 0));
    }

    #[test]
    fn a_visible_match_does_not_scroll() {
        let mut view = view(8);
        view.set_search(pattern("line"));
        for line in (0..8).rev() {
            assert!(view.next_match(false) == Some(Step::Next) && view.is_at(line));
        }
        assert!(view.next_match(false) == Some(Step::Wrapped) && view.is_at(7));
        // Lines received in the meantime do not remove it, and are counted.
        push(&mut view, 8..100);
        assert_eq!((first(&view), view.follows(), view.search.found().len()), ("line 0", false, 100));
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(8));
        view.go_to_end();
        assert!(view.next_match(false) == Some(Step::Next) && view.is_at(99));
        assert_eq!((first(&view), view.follows()), ("line 90", false));
    }

    #[test]
    fn a_filter_shows_matching_lines_and_keeps_the_position() {
        let mut view = view(200);
        view.go_to_top();
        view.scroll(103);
        let filter = |text: &str| Filter::parse(text).unwrap();
        view.set_filter(filter("[05]$"));
        assert_eq!((view.len(), first(&view), view.follows()), (40, "line 105", false));
        push(&mut view, 200..206);
        assert_eq!((view.len(), view.loaded()), (42, 206), "received lines are filtered as well");
        view.widen(true);
        assert_eq!(
            view.visible().take(4).collect::<Vec<_>>(),
            ["line 104", "line 105", "line 106", "line 109"]
        );
        view.set_filter(filter(""));
        assert_eq!((view.len(), first(&view)), (206, "line 103"), "the previous position");
        view.set_filter(filter("!line 1"));
        assert!(
            view.visible().all(|line| !line.starts_with("line 1")) && view.line_filter().text() == "!line 1"
        );
        assert_eq!(Filter::parse("!(").unwrap_err().at, Some(2));
        assert_eq!(first(&view), "line 96", "the end stays at the bottom");
    }

    #[test]
    fn a_minimum_level_shows_complete_tracebacks() {
        let mut view = view(0);
        let mut text = vec!["INFO fine"; 50];
        text.extend([
            "WARNING slow",
            "plain",
            "Traceback (most recent call last):",
            "  File \"a.py\", line 1",
        ]);
        text.extend(["    boom()", "ValueError: boom", "  of no level", "INFO fine", "  of the line above"]);
        text.extend(["INFO fine"; 50]);
        lines(&mut view, text.into_iter().map(Line::from).collect());
        view.go_to_top();
        view.scroll(45);
        view.turn_levels();
        let shown = |view: &LogView| view.visible().map(str::to_owned).collect::<Vec<_>>();
        let error = ["Traceback (most recent call last):", "  File \"a.py\", line 1", "    boom()"];
        assert_eq!(shown(&view)[..4], [&["WARNING slow"], &error[..]].concat());
        assert_eq!((view.len(), view.follows()), (6, false), "{:?}", shown(&view));
        view.turn_levels();
        assert_eq!(view.len(), 5);
        view.set_filter(Filter::parse("boom").unwrap());
        assert_eq!(shown(&view), ["    boom()", "ValueError: boom"], "both count");
        view.set_filter(Filter::default());
        view.turn_levels();
        assert_eq!((view.len(), first(&view), view.line_filter().least()), (109, "INFO fine", None));
        assert_eq!(view.index_of(view.top), 45, "the previous position");
    }

    #[test]
    fn hidden_matches_are_skipped() {
        let mut view = view(100);
        view.set_search(pattern("line 2"));
        view.set_filter(Filter::parse("[02]$").unwrap());
        view.go_to_top();
        let mut visited = Vec::new();
        while view.next_match(true) == Some(Step::Next) {
            visited.push(view.visible().zip(view.seen()).find(|(_, i)| view.is_at(*i)).unwrap().0.to_owned());
        }
        assert_eq!(visited, ["line 2", "line 20", "line 22"]);
    }

    #[test]
    fn a_move_waits_until_all_lines_are_examined() {
        let mut view = view(0);
        let line = |n: usize| format!("line {n} {}", "x".repeat(1000)).into();
        lines(&mut view, (0..10_000).map(line).collect());
        while view.examine_more() {}
        view.set_search(pattern("line 7 "));
        assert!(view.is_examining());
        assert_eq!(view.next_match(false), Some(Step::Pending));
        while view.examine_more() {}
        assert!(first(&view).starts_with("line 7 ") && view.match_number() == Some(1));
    }

    #[test]
    fn moves_to_errors_and_marks_and_returns_marked_lines() {
        let mut view = view(100);
        lines(
            &mut view,
            ["ERROR one", "fine", "Traceback (most recent call last):"].map(Line::from).to_vec(),
        );
        push(&mut view, 103..200);
        assert_eq!(view.errors(), 2);
        assert!(view.next_error(false) == Some(Step::Next) && view.is_at(102));
        assert!(view.next_error(false) == Some(Step::Next) && view.is_at(100));
        view.toggle_mark();
        assert!(view.is_marked(100) && view.marked_range().is_none());
        assert!(view.next_error(true) == Some(Step::Next));
        assert_eq!(view.marked_range().unwrap(), ["ERROR one", "fine", "Traceback (most recent call last):"]);
        view.go_to_end();
        assert!(view.next_mark(false) == Some(Step::Next) && view.is_at(100));
        let parts = view.landmarks(10);
        assert_eq!(
            parts.iter().flatten().collect::<Vec<_>>(),
            [&Landmark::Mark],
            "a mark takes precedence over an error"
        );
        view.toggle_mark();
        assert_eq!((view.landmarks(10)[5], view.next_mark(true)), (Some(Landmark::Error), None));
    }
}
