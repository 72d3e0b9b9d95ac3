//! Lines of which a window shows a part.

/// The first line that a window shows, and how far it can go; the latter is known once it was drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scroll {
    top: usize,
    last: usize,
}

impl Scroll {
    /// The first line that is shown.
    pub const fn top(self) -> usize {
        self.top
    }

    /// Whether there are more lines than the window shows.
    pub const fn is_possible(self) -> bool {
        self.last > 0
    }

    /// Moves by so many lines, as far as there are any.
    pub(in crate::app) fn step(&mut self, by: isize) {
        self.top = self.top.saturating_add_signed(by).min(self.last);
    }

    /// Goes back to the first line.
    pub(in crate::app) const fn reset(&mut self) {
        self.top = 0;
    }

    /// Takes in the highest first line, as it was drawn.
    pub(in crate::app) fn drawn(&mut self, last: usize) {
        *self = Self { top: self.top.min(last), last };
    }

    /// The same, where drawing has chosen the first line, so that what has the focus is in the window.
    pub(in crate::app) const fn drawn_from(&mut self, top: usize, last: usize) {
        *self = Self { top, last };
    }
}
