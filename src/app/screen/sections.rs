//! A text with sections that can be selected: how the selection moves between them, and the lines with it.

use std::ops::Range;

/// The sections of a text as it was drawn. For scrolling, the lines between two sections belong to the one above, and
/// those above the first section to that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// The first line of each section, in ascending order.
    starts: Vec<usize>,
    /// The line after the last line of each section.
    ends: Vec<usize>,
    /// Number of lines of the text.
    lines: usize,
    /// Number of lines in the window.
    height: usize,
}

/// A selected section, and the first line in the window.
type Position = (usize, usize);

impl Sections {
    /// Sections that are these lines of a text, in ascending order; `None` if there are none.
    pub fn new(sections: &[Range<usize>], lines: usize, height: usize) -> Option<Self> {
        let starts = sections.iter().map(|section| section.start).collect();
        let ends = sections.iter().map(|section| section.end).collect();
        (!sections.is_empty()).then(|| Self { starts, ends, lines, height: height.max(1) })
    }

    /// The first line in the window, so that it shows a part of the selected section: `top` if it does.
    pub fn follow(&self, selected: usize, top: usize) -> usize {
        let top = top.min(self.last());
        if self.is_in_window(selected, top) { top } else { self.reveal(selected, top) }
    }

    /// The first line in the window, so that it shows the whole section. One that is longer than the window begins at
    /// the top, unless it is the first section, which may stay below the lines above it.
    pub fn reveal(&self, section: usize, top: usize) -> usize {
        let start = self.starts[section];
        let shown_to = match section {
            _ if self.fits(section) => self.end(section),
            0 => start + 1,
            _ => start + self.height,
        };
        top.min(self.last()).clamp(shown_to.saturating_sub(self.height), start)
    }

    /// The section that contains a line.
    pub fn at(&self, line: usize) -> Option<usize> {
        let section = self.starts.partition_point(|start| *start <= line).checked_sub(1)?;
        (line < self.ends[section]).then_some(section)
    }

    /// Moves to the next or the previous section if that skips no line that was not shown; otherwise scrolls one line.
    /// Scrolls several lines at once; if that is not possible, half a page or more moves to the first or the last section.
    pub fn step(&self, at: Position, by: isize) -> Position {
        match by {
            0 => at,
            1 => self.down(at),
            -1 => self.up(at),
            _ => self.scroll(at, by),
        }
    }

    fn down(&self, (selected, top): Position) -> Position {
        let next = selected + 1;
        match self.starts.get(next) {
            Some(start) if *start <= top + self.height => (next, self.reveal(next, top)),
            _ => (selected, (top + 1).min(self.last())),
        }
    }

    fn up(&self, (selected, top): Position) -> Position {
        let Some(previous) = selected.checked_sub(1).filter(|_| self.starts[selected] >= top) else {
            return (selected, top.saturating_sub(1));
        };
        // The end of a long section comes first.
        let needed = if self.fits(previous) { self.starts[previous] } else { self.end(previous) - 1 };
        (previous, top.min(needed))
    }

    fn scroll(&self, (selected, top): Position, by: isize) -> Position {
        let (end, limit) = if by < 0 { (0, 0) } else { (self.starts.len() - 1, self.last()) };
        let moved = top.saturating_add_signed(by).min(self.last());
        let by = by.unsigned_abs();
        if (moved == top && by * 2 >= self.height) || by >= self.lines.max(self.height) {
            return (end, limit);
        }
        (self.nearest(selected, moved), moved)
    }

    /// The selected section if the window shows a part of it; otherwise the nearest one that begins in the window, or
    /// the one that fills it.
    fn nearest(&self, selected: usize, top: usize) -> usize {
        let before = |line: usize| self.starts.partition_point(|start| *start < line);
        let last = before(top + self.height).saturating_sub(1);
        match () {
            () if self.is_in_window(selected, top) => selected,
            () if self.starts[selected] < top => before(top).min(last),
            () => last,
        }
    }

    /// The highest first line in the window.
    fn last(&self) -> usize {
        self.lines.saturating_sub(self.height)
    }

    /// The line after a section.
    fn end(&self, section: usize) -> usize {
        self.starts.get(section + 1).copied().unwrap_or(self.lines)
    }

    fn fits(&self, section: usize) -> bool {
        self.end(section) - self.starts[section] <= self.height
    }

    fn is_in_window(&self, section: usize, top: usize) -> bool {
        let begin = if section == 0 { 0 } else { self.starts[section] };
        begin < top + self.height && self.end(section) > top
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Sections with these numbers of lines, after some lines that belong to none.
    fn sections(above: usize, lengths: &[usize], height: usize) -> Sections {
        let mut lines = above;
        let mut sections = Vec::new();
        for length in lengths {
            sections.push(lines..lines + length);
            lines += length;
        }
        Sections::new(&sections, lines, height).unwrap()
    }

    #[test]
    fn the_next_section_is_selected_if_it_is_on_the_screen_and_otherwise_the_lines_scroll() {
        let text = sections(3, &[2, 20, 1], 10);
        let mut at = (0, 0);
        let mut go = |by| {
            at = text.step(at, by);
            at
        };
        assert_eq!([go(1), go(1)], [(1, 5), (1, 6)], "a long section begins at the top and is then scrolled");
        assert_eq!([0; 9].map(|_| go(1))[7..], [(1, 14), (1, 15)]);
        assert_eq!([go(1), go(1)], [(2, 16), (2, 16)], "the end");
        assert_eq!([go(-1), go(-1)], [(1, 16), (1, 15)], "its end is on the screen already");
        assert_eq!([go(isize::MAX / 2), go(-(isize::MAX / 2))], [(2, 16), (0, 0)]);
        assert_eq!([go(10), go(10)], [(1, 10), (1, 16)], "a page");
        assert_eq!(go(10), (2, 16), "there is no further page");
        let of_lines = [2, 4, 5, 25, 26].map(|line| text.at(line));
        assert_eq!(of_lines, [None, Some(0), Some(1), Some(2), None]);
        assert_eq!([text.step((1, 16), 3), text.step((1, 0), -3)], [(1, 16), (1, 0)], "the wheel at the end");
    }

    #[test]
    fn a_selected_section_is_shown_as_a_whole_if_it_fits() {
        let text = sections(3, &[5, 5, 30], 10);
        assert_eq!([text.reveal(0, 0), text.reveal(1, 0), text.reveal(2, 0)], [0, 3, 13]);
        assert_eq!([text.follow(1, 0), text.follow(1, 20), text.follow(2, 99)], [0, 8, 33]);
        let long = sections(3, &[30, 1], 10);
        assert_eq!([long.reveal(0, 0), long.reveal(0, 9)], [0, 3]);
        assert_eq!(Sections::new(&[], 9, 9), None);
    }

    proptest! {
        #[test]
        fn no_line_is_skipped_and_a_part_of_the_selected_section_is_always_shown(
            above in 0_usize..12,
            lengths in prop::collection::vec(1_usize..15, 1..8),
            height in 1_usize..12,
            steps in prop::collection::vec(-14_isize..15, 0..12),
        ) {
            let text = sections(above, &lengths, height);
            let mut at = (0, 0);
            for by in steps {
                at = text.step(at, by);
                prop_assert!(at.1 <= text.last() && text.is_in_window(at.0, at.1), "{at:?}");
            }
            let all: BTreeSet<usize> = (0..text.lines).collect();
            let (first, last) = ((0, 0), (lengths.len() - 1, text.last()));
            for (by, from, to) in [(1, first, last), (-1, last, first)] {
                let (mut at, mut seen, mut selected) = (from, BTreeSet::new(), BTreeSet::new());
                for _ in 0..=text.lines + lengths.len() {
                    seen.extend(at.1..(at.1 + height).min(text.lines));
                    selected.insert(at.0);
                    at = text.step(at, by);
                }
                prop_assert_eq!(at, to);
                prop_assert_eq!(&seen, &all);
                prop_assert_eq!(selected.len(), lengths.len());
            }
        }
    }
}
