//! Scrolling: which lines of the log are in the window.

use super::view::{LogView, Older};
use super::window::{Window, pieces};
use crate::model::{Line, LogEnd};
use std::ops::Range;

impl LogView {
    /// First line to show in a window of this size. While following, a line that wraps may begin above it.
    pub fn top(&self, size: Window) -> usize {
        if self.follow {
            return self.last_page(size);
        }
        // Any line can be at the top, however many rows it has.
        let last = if self.wraps() { self.len().saturating_sub(1) } else { self.last_page(size) };
        self.top_index().min(last)
    }

    /// The first visible line if the end of the last one is at the bottom.
    pub(super) fn last_page(&self, size: Window) -> usize {
        if !self.wraps() {
            return self.len().saturating_sub(size.height);
        }
        let mut rows = 0;
        let fills = |i: &usize| {
            rows += self.rows(*i, size);
            rows >= size.height
        };
        (0..self.len()).rev().find(fills).unwrap_or(0)
    }

    /// Number of rows of a line when it wraps.
    pub(super) fn rows(&self, index: usize, size: Window) -> usize {
        let Some(line) = self.line(index) else { return 1 };
        let rows = pieces(line.text(), size.width).count();
        if rows > 1 && self.folded(index).is_some() { 1 } else { rows }
    }

    pub(super) fn top_index(&self) -> usize {
        self.index_of(self.top)
    }

    /// The first line that is not completely visible in a window of this size.
    pub(super) fn bottom(&self, size: Window) -> usize {
        let (top, len) = (self.top(size), self.len());
        if self.follow {
            return len;
        }
        if !self.wraps() {
            return len.min(top + size.height);
        }
        let mut rows = 0;
        let overflows = |i: &usize| {
            rows += self.rows(*i, size);
            rows > size.height
        };
        (top..len).find(overflows).unwrap_or(len)
    }

    /// The number of lines below a window of that size, including one that is cut.
    pub fn below(&self, size: Window) -> usize {
        self.len() - self.bottom(size)
    }

    /// Whether the end is followed.
    pub fn follows(&self) -> bool {
        self.follow
    }

    /// Whether long lines wrap.
    pub fn wraps(&self) -> bool {
        self.show.wrap || self.show.raw
    }

    /// Records the size in which the log was drawn.
    pub fn resize(&mut self, size: Window) {
        let before =
            std::mem::replace(&mut self.size, Window { width: size.width, height: size.height.max(1) });
        if before != self.size {
            self.centre_again();
        }
    }

    /// The size in which it was last drawn.
    pub fn size(&self) -> Window {
        self.size
    }

    /// Number of completely visible lines, at least one.
    pub fn page(&self) -> usize {
        self.bottom(self.size).saturating_sub(self.top(self.size)).max(1)
    }

    /// Scrolls. Upwards stops following; reaching the end resumes it.
    pub fn scroll(&mut self, by: isize) {
        self.sought_line = None;
        if by < 0 {
            self.retry_older();
        }
        let here = self.top(self.size);
        self.show(here.saturating_add_signed(by));
        let there = self.top(self.size);
        self.show(there);
        // A last line that is taller than the window is never completely visible: scrolling further follows its end.
        self.follow = by > 0 && !self.is_cut() && (self.below(self.size) == 0 || there == here);
    }

    /// Goes to the first loaded line; the lines above it are requested.
    pub fn go_to_top(&mut self) {
        self.retry_older();
        self.show(0);
    }

    /// Requests again what could not be read.
    fn retry_older(&mut self) {
        (self.aim, self.sought_line) = (None, None);
        if let Older::Failed(_) = self.older {
            self.older = Older::NotRequested;
        }
    }

    /// Goes to the end and follows it.
    pub fn go_to_end(&mut self) {
        self.sought_line = None;
        self.follow = true;
    }

    /// Toggles follow; stopping keeps the visible lines.
    pub fn toggle_follow(&mut self) {
        if self.follow {
            self.show(self.top(self.size));
        } else {
            self.follow = true;
        }
    }

    /// The visible parts of the log in a window of this size, if it is divided into that many equal parts; at least
    /// one.
    pub fn extent(&self, size: Window, parts: usize) -> Range<usize> {
        let len = self.len().max(1);
        let from = (self.top(size) * parts / len).min(parts.saturating_sub(1));
        let to = (self.bottom(size) * parts).div_ceil(len);
        from..to.clamp(from + 1, parts.max(from + 1))
    }

    pub(super) fn show(&mut self, index: usize) {
        self.follow = false;
        self.top = self.number(index);
    }

    /// Scrolls to a line, with as many lines above it as fit into that many rows.
    pub(super) fn show_below(&mut self, index: usize, mut room: usize) {
        let fits = |above: &usize| {
            let rows = self.rows_shown(*above);
            let fits = rows <= room;
            room = room.saturating_sub(rows);
            fits
        };
        let above = (0..index).rev().take_while(fits).count();
        self.show(index - above);
    }

    /// The number of rows that a line takes in the window.
    fn rows_shown(&self, index: usize) -> usize {
        if self.wraps() { self.rows(index, self.size) } else { 1 }
    }

    /// The number of the current line, otherwise of the first marked one, if it is in the window; and the number of
    /// rows above it there.
    pub(super) fn line_to_keep(&self) -> Option<(u64, usize)> {
        let seen = self.seen();
        let current = seen.clone().find(|index| self.is_at(*index));
        let index = current.or_else(|| seen.clone().find(|index| self.is_marked(*index)))?;
        let rows = |lines: Range<usize>| lines.map(|index| self.rows_shown(index)).sum::<usize>();
        let above = rows(seen.start..index);
        // While following, the first line may begin above the window.
        let cut = if self.follow { rows(seen).saturating_sub(self.size.height) } else { 0 };
        Some((self.number(index), above.saturating_sub(cut)))
    }

    /// Scrolls so that a line has about that many rows above it. If new lines are followed, their end stays.
    pub(super) fn keep(&mut self, number: u64, above: usize) {
        let index = self.index_of(number).min(self.len().saturating_sub(1));
        if self.follow && (self.end == LogEnd::Open || self.seen().contains(&index)) {
            return;
        }
        self.show_below(index, above.min(self.size.height.saturating_sub(self.rows_shown(index))));
    }

    /// The lines in the window, including partly visible ones.
    pub fn visible(&self) -> impl Iterator<Item = &str> {
        self.seen().filter_map(|index| self.line(index)).map(Line::text)
    }

    /// The same in the form in which they are copied.
    pub fn copied_window(&self) -> impl Iterator<Item = String> {
        self.seen().filter_map(|index| Some(self.with_part(self.number(index), self.line(index)?.text())))
    }

    pub(super) fn seen(&self) -> Range<usize> {
        let (top, bottom) = (self.top(self.size), self.bottom(self.size));
        let full = (top..bottom).map(|index| self.rows_shown(index)).sum::<usize>();
        let cut = usize::from(full < self.size.height);
        top..(bottom + cut).min(self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{first, push, seen, view, wrapped};
    use super::*;
    use crate::logs::Pattern;

    #[test]
    fn following_stops_on_scroll_and_resumes_at_the_end() {
        let mut view = view(100);
        assert_eq!(first(&view), "line 90");
        view.scroll(-5);
        push(&mut view, 100..120);
        assert_eq!((first(&view), view.follows(), view.below(view.size)), ("line 85", false, 25));
        view.scroll(100);
        assert!(view.follows());
        push(&mut view, 120..130);
        assert_eq!(first(&view), "line 120");
        view.go_to_top();
        assert_eq!(first(&view), "line 0");
    }

    #[test]
    fn every_wrapped_line_can_be_reached() {
        let mut view = wrapped();
        assert_eq!(seen(&view), ["96", "97", "98", "99"], "copied lines are the drawn ones");
        view.scroll(-1);
        assert_eq!((seen(&view), view.follows()), (vec!["95", "96", "97", "98"], false));
        assert_eq!((view.below(view.size), view.page()), (1, 4));
        view.go_to_top();
        let mut visited = Vec::new();
        while !view.follows() {
            visited.extend(seen(&view).iter().map(ToString::to_string));
            view.scroll(isize::try_from(view.page()).unwrap());
        }
        visited.extend(seen(&view).iter().map(ToString::to_string));
        assert_eq!(visited, (0..100).map(|i| format!("{i:02}")).collect::<Vec<_>>(), "page by page");
    }

    #[test]
    fn the_current_line_stays_in_the_window_when_lines_are_wrapped() {
        let mut view = wrapped();
        let wrap = |view: &mut LogView| view.toggle(|show| &mut show.wrap);
        wrap(&mut view);
        view.go_to_top();
        view.scroll(20);
        wrap(&mut view);
        assert_eq!(seen(&view)[0], "20", "without a current line, the first one stays");
        wrap(&mut view);
        view.set_search(Pattern::parse("line 30").unwrap());
        assert!(view.next_match(true).is_some() && seen(&view)[10] == "30");
        wrap(&mut view);
        assert_eq!(seen(&view), ["28", "29", "30", "31"], "eight of the ten rows above it");
        wrap(&mut view);
        assert_eq!(seen(&view)[8], "30");
        view.go_to_top();
        view.scroll(20);
        view.at = None;
        view.marks.push_back(view.number(35));
        wrap(&mut view);
        assert_eq!(seen(&view), ["32", "33", "34", "35"], "a mark in the last row is shown whole");
    }

    #[test]
    fn the_end_of_a_log_is_followed_when_lines_are_wrapped_unless_it_is_complete() {
        let mut view = wrapped();
        let wrap = |view: &mut LogView| view.toggle(|show| &mut show.wrap);
        wrap(&mut view);
        view.marks.push_back(view.number(90));
        wrap(&mut view);
        assert_eq!((seen(&view), view.follows()), (vec!["96", "97", "98", "99"], true));
        wrap(&mut view);
        view.end = LogEnd::Complete;
        wrap(&mut view);
        assert_eq!((seen(&view), view.follows()), (vec!["89", "90", "91", "92"], false));
    }

    #[test]
    fn a_line_taller_than_the_window_is_truncated_and_its_end_followed() {
        let mut view = wrapped();
        view.resize(Window { width: 10, height: 3 });
        view.go_to_top();
        assert_eq!((seen(&view), view.below(view.size), view.page()), (vec!["00"], 100, 1));
        view.scroll(99);
        assert_eq!((seen(&view), view.below(view.size), view.follows()), (vec!["99"], 1, false));
        view.scroll(1);
        assert_eq!((seen(&view), view.below(view.size), view.follows()), (vec!["99"], 0, true));
        // Five rows: one line, and a part of the next.
        view.resize(Window { width: 10, height: 5 });
        assert_eq!(seen(&view), ["98", "99"]);
        view.go_to_top();
        assert_eq!((seen(&view), view.below(view.size)), (vec!["00", "01"], 99));
    }
}
