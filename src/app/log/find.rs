//! The search in the log: the current match, and the way to the next one.

use super::view::LogView;
use crate::logs::Search;

/// How a search went on to a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the next one in that direction.
    Next,
    /// Past the last one, to the other end of the log.
    Wrapped,
}

impl LogView {
    /// The search.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Searches for a text, in any case.
    pub fn set_search(&mut self, text: &str) {
        (self.search, self.at) = (Search::new(text, &self.held), None);
    }

    /// The place of the current match among all of them, from 1.
    pub fn match_place(&self) -> Option<usize> {
        self.search.place(self.at?).map(|place| place + 1)
    }

    /// Whether that line is the current match.
    pub fn is_at(&self, index: usize) -> bool {
        self.at == Some(self.held.first() + index as u64)
    }

    /// Goes to the next match below (or above) the current one, or to the first (last) one that is visible or beyond;
    /// past the last match to the first, as `less` does. Stops following. The window moves only when the match is not
    /// in it. None when nothing matches.
    pub fn next_match(&mut self, forward: bool) -> Option<Step> {
        let seen = self.seen();
        let number = |index: usize| self.held.first() + index as u64;
        let (start, end) = (number(seen.start), number(seen.end));
        let here = self.at.filter(|at| (start..end).contains(at));
        let place = if forward {
            let from = here.map_or(start, |at| at + 1);
            Some(self.search.before(from)).filter(|place| *place < self.search.len())
        } else {
            self.search.before(here.unwrap_or(end)).checked_sub(1)
        };
        let last = self.search.len().checked_sub(1)?;
        let found = self.search.line(place.unwrap_or(if forward { 0 } else { last }))?;
        self.at = Some(found);
        let index = self.held.place(found);
        self.show(if seen.contains(&index) { seen.start } else { index });
        Some(if place.is_some() { Step::Next } else { Step::Wrapped })
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{first, push, seen, view, wrapped};
    use super::super::view::LINES;
    use super::*;

    #[test]
    fn a_match_on_the_last_page_of_lines_that_wrap_is_shown() {
        let mut view = wrapped();
        view.set_search("line 90");
        assert!(view.next_match(false).is_some());
        assert_eq!((seen(&view)[0], view.below(view.size)), ("90", 6));
        view.set_search("line 98");
        assert!(view.next_match(true).is_some() && view.is_at(98));
        assert_eq!((seen(&view), view.below(view.size), view.follows()), (vec!["98", "99"], 0, false));
    }

    #[test]
    fn a_search_goes_from_match_to_match() {
        let mut view = view(100);
        view.set_search("LINE 7");
        assert_eq!((view.search.len(), view.match_place()), (11, None));
        view.go_to_top();
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(7));
        assert_eq!((first(&view), view.match_place()), ("line 0", Some(1)), "it is seen where it is");
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(70));
        assert_eq!(first(&view), "line 70");
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(71));
        assert!(view.next_match(false).is_some() && view.next_match(false).is_some() && view.is_at(7));
        assert_eq!(first(&view), "line 7");
        assert!(view.next_match(false) == Some(Step::Wrapped) && view.is_at(79), "as less does");
        assert!(view.next_match(true) == Some(Step::Wrapped) && view.is_at(7));
        view.set_search("nothing of the kind");
        assert_eq!((view.next_match(true), view.search.len()), (None, 0));
    }

    #[test]
    fn a_match_that_is_seen_moves_nothing_and_stays() {
        let mut view = view(8);
        view.set_search("line");
        for line in (0..8).rev() {
            assert!(view.next_match(false) == Some(Step::Next) && view.is_at(line));
        }
        assert!(view.next_match(false) == Some(Step::Wrapped) && view.is_at(7));
        // What comes meanwhile does not take it away, and counts.
        push(&mut view, 8..100);
        assert_eq!((first(&view), view.follows(), view.search.len()), ("line 0", false, 100));
        assert!(view.next_match(true) == Some(Step::Next) && view.is_at(8));
        view.go_to_end();
        assert!(view.next_match(false) == Some(Step::Next) && view.is_at(99));
        assert_eq!((first(&view), view.follows()), ("line 90", false));
        // Lines that were let go match no more.
        push(&mut view, 100..LINES + 50);
        assert_eq!((view.search.len(), view.match_place()), (LINES, Some(50)));
    }
}
