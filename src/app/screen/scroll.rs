//! The scroll position of lines in a window.

/// The first shown line and the highest possible one, which is known once the lines were drawn.
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

    /// Scrolls by this many lines, within the limits.
    pub(in crate::app) fn step(&mut self, by: isize) {
        self.top = self.top.saturating_add_signed(by).min(self.last);
    }

    /// Scrolls to this first line, within the limits.
    pub(in crate::app) fn go_to(&mut self, top: usize) {
        self.top = top.min(self.last);
    }

    /// Returns to the first line.
    pub(in crate::app) const fn reset(&mut self) {
        self.top = 0;
    }

    /// Records the highest possible first line, as drawn.
    pub(in crate::app) fn drawn(&mut self, last: usize) {
        *self = Self { top: self.top.min(last), last };
    }

    /// Records also the first line that drawing has chosen to keep the focused row in the window.
    pub(in crate::app) const fn drawn_from(&mut self, top: usize, last: usize) {
        *self = Self { top, last };
    }
}
