//! Where everything was drawn, for the mouse and for what scrolls.

use super::actions::Action;
use super::view::Pane;

/// A rectangle of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Column of the left edge.
    pub x: u16,
    /// Row of the top edge.
    pub y: u16,
    /// Width in columns.
    pub width: u16,
    /// Height in rows.
    pub height: u16,
}

impl Area {
    pub(super) fn contains(self, column: u16, row: u16) -> bool {
        (self.x..self.x.saturating_add(self.width)).contains(&column)
            && (self.y..self.y.saturating_add(self.height)).contains(&row)
    }
}

/// Where a table was drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headed {
    /// Where its rows are; the titles are in the line above.
    pub rows: Area,
    /// Left edge and width of each of its columns; no width where there was no room.
    pub heads: Vec<(u16, u16)>,
}

impl Headed {
    /// The column whose title is there.
    pub(super) fn head_at(&self, column: u16, row: u16) -> Option<usize> {
        let is_there = |(x, width): &(u16, u16)| (*x..x.saturating_add(*width)).contains(&column);
        (row + 1 == self.rows.y).then(|| self.heads.iter().position(is_there)).flatten()
    }
}

/// Where everything was drawn; none for what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Areas {
    /// The table of a page that is one.
    pub table: Option<Headed>,
    /// The nodes pane.
    pub nodes: Option<Headed>,
    /// The jobs pane.
    pub jobs: Option<Headed>,
    /// Where the lines of the log are.
    pub log: Option<Area>,
    /// Where the lines of the autoscaler pane are.
    pub autoscaler: Option<Area>,
    /// Highest first line of the autoscaler pane.
    pub autoscaler_last: usize,
    /// Highest first line of the worker types below a cluster's TPUs.
    pub tpu_types_last: usize,
    /// Where the lines of a thing in full are.
    pub details: Option<Area>,
    /// Highest first line of these.
    pub details_last: usize,
    /// Where the dialog is, with its border.
    pub dialog: Option<Area>,
    /// The dialog's buttons: Cancel, and the one that confirms.
    pub buttons: Option<[Area; 2]>,
    /// First line of the dialog that is shown.
    pub dialog_top: usize,
    /// Highest first line of the dialog.
    pub dialog_last: usize,
    /// Where the lines of the palette are, and the first of them that is shown.
    pub offers: Option<(Area, usize)>,
    /// The panes as tabs, in a window where they are not side by side.
    pub tabs: Vec<(Pane, Area)>,
    /// The keys in the footer.
    pub hints: Vec<(Action, Area)>,
    /// Nothing could be drawn: the window is too small.
    pub is_too_small: bool,
}

impl Areas {
    /// Where a pane's rows or lines are.
    pub(super) fn pane(&self, pane: Pane) -> Option<Area> {
        match pane {
            Pane::Nodes => self.nodes.as_ref().map(|t| t.rows),
            Pane::Jobs => self.jobs.as_ref().map(|t| t.rows),
            Pane::Log => self.log,
            Pane::Autoscaler => self.autoscaler,
        }
    }

    /// The table of a pane, or of the page.
    pub(super) fn table_of(&self, pane: Option<Pane>) -> Option<&Headed> {
        match pane {
            None => self.table.as_ref(),
            Some(Pane::Nodes) => self.nodes.as_ref(),
            Some(Pane::Jobs) => self.jobs.as_ref(),
            Some(Pane::Log | Pane::Autoscaler) => None,
        }
    }

    /// The panes from the top left to the bottom right; by their numbers where they are not all on the screen.
    pub(super) fn panes_as_drawn(&self) -> [Pane; 4] {
        let mut order = Pane::ALL;
        if order.iter().all(|pane| self.pane(*pane).is_some()) {
            order.sort_by_key(|pane| self.pane(*pane).map(|a| (a.y, a.x)));
        }
        order
    }
}
