//! The context for drawing, and the division of the screen.

use super::theme::Theme;
use crate::app::table::cell::Role;
use crate::app::{App, Cluster, ClusterPage, Pane};
use crate::model::Timestamp;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// The context for drawing a part of the screen.
pub struct DrawContext<'a> {
    /// The state of the screen.
    pub app: &'a App,
    /// The style of each role.
    pub theme: &'a Theme,
    /// The time of the frame.
    pub now: Timestamp,
}

impl DrawContext<'_> {
    /// Whether the pane has the focus.
    pub fn is_focused(&self, pane: Pane) -> bool {
        self.app.pane() == pane
    }

    /// The style of the selected row of this pane.
    pub fn selection(&self, pane: Pane) -> Style {
        if self.is_focused(pane) { self.theme.selected } else { self.theme.marked }
    }

    /// A text and its style, from the text and its role.
    pub fn styled(&self, (text, role): (String, Role)) -> (String, Style) {
        (text, self.theme.role(role))
    }
}

/// A cluster with the state of its page.
pub type Shown<'a> = (&'a Cluster, &'a ClusterPage);

/// The upper part with that many rows, and the rest.
pub fn split_top(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    (Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area })
}

/// The lower part with that many rows, and the rest.
pub fn split_bottom(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    let rest = area.height - height;
    (Rect { y: area.y + rest, height, ..area }, Rect { height: rest, ..area })
}
