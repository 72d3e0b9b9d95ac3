//! How the panes of a cluster's page share the window.

use super::areas::DraggedBorders;
use crate::app::screen::pane::Pane;
use crate::model::PaneLayout;

/// The panes of a cluster's page.
#[derive(Debug)]
pub(in crate::app) struct Split {
    /// The pane that has the focus; it stays when the page changes.
    pub focused: Pane,
    /// Whether it has the whole window.
    pub is_zoomed: bool,
    /// How the panes divide the window.
    pub layout: PaneLayout,
    /// The borders that are being dragged, and the panes as they were before.
    pub grip: Option<(DraggedBorders, PaneLayout)>,
}

impl Default for Split {
    fn default() -> Self {
        Self { focused: Pane::Jobs, is_zoomed: false, layout: PaneLayout::default(), grip: None }
    }
}
