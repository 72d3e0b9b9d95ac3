//! The layout of the panes of a cluster's page.

use super::areas::DraggedBorders;
use crate::app::screen::pane::Pane;
use crate::model::PaneLayout;

/// The panes of a cluster's page.
#[derive(Debug)]
pub(in crate::app) struct Split {
    /// The focused pane; it stays when the page changes.
    pub focused: Pane,
    /// Whether the focused pane fills the window.
    pub is_zoomed: bool,
    /// How the panes divide the window.
    pub layout: PaneLayout,
    /// The borders that are being dragged, and the layout before.
    pub grip: Option<(DraggedBorders, PaneLayout)>,
}

impl Default for Split {
    fn default() -> Self {
        Self { focused: Pane::Jobs, is_zoomed: false, layout: PaneLayout::default(), grip: None }
    }
}
