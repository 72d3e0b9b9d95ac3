//! The page of the operation on a cluster: its steps, their output, its outcome.

use super::page::Page;
use crate::app::fleet::Fleet;
use crate::app::screen::areas::Areas;
use crate::app::screen::pane::Pane;
use crate::app::screen::scroll::Scroll;

/// The scroll position, counted from the end, which stays in view.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperationPage {
    above_end: Scroll,
}

impl OperationPage {
    /// Number of lines below the screen.
    pub const fn below(self) -> usize {
        self.above_end.top()
    }

    /// Returns to the end.
    pub(in crate::app) const fn show_end(&mut self) {
        self.above_end.reset();
    }
}

impl Page for OperationPage {
    fn scroll(&mut self, _fleet: &Fleet, _pane: Pane, by: isize) {
        self.above_end.step(by.saturating_neg());
    }

    fn page_height(&self, areas: &Areas, _pane: Pane) -> usize {
        areas.details.unwrap_or_default().height.into()
    }

    fn measure(&mut self, areas: &Areas) {
        self.above_end.drawn(areas.details_last);
    }
}
