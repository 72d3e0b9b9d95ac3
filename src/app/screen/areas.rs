//! Where everything was drawn, for the mouse and for scrolling.

use crate::app::action::table::Action;
use crate::app::job::stack_rows::DrawnRows;
use crate::app::operation::confirmation::Control;
use crate::app::pages::job_workers::view::WorkersView;
use crate::app::screen::pane::Pane;
use crate::model::PaneLayout;
use crate::model::sort;

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
    pub(in crate::app) fn contains(self, column: u16, row: u16) -> bool {
        (self.x..self.x.saturating_add(self.width)).contains(&column)
            && (self.y..self.y.saturating_add(self.height)).contains(&row)
    }
}

/// Where a table was drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableArea {
    /// The area of its rows; the titles are in the line above.
    pub rows: Area,
    /// Left edge and width of each of its columns; width 0 if there was no room.
    pub headers: Vec<(u16, u16)>,
    /// The widths of the texts in its columns.
    pub texts: TextWidths,
}

/// The widest texts of a table's columns, so that they are not measured again for each key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextWidths {
    /// The version of the data that was measured ([`crate::app::CellContext::version`]).
    pub version: u64,
    /// The widest text of each shown column, and the widest of their shorter forms.
    pub widths: Vec<(u16, u16)>,
}

impl TableArea {
    /// The column whose title is at this position.
    pub(in crate::app) fn head_at(&self, column: u16, row: u16) -> Option<usize> {
        let is_there = |(x, width): &(u16, u16)| (*x..x.saturating_add(*width)).contains(&column);
        (row + 1 == self.rows.y).then(|| self.headers.iter().position(is_there)).flatten()
    }
}

/// Where a list of rows was drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Their area.
    pub area: Area,
    /// The first row that is shown.
    pub first: usize,
    /// The number of rows, shown or not.
    pub all: usize,
}

impl Rows {
    /// The row at this position.
    pub(in crate::app) fn at(self, column: u16, row: u16) -> Option<usize> {
        let at = self.area.contains(column, row).then(|| self.first + usize::from(row - self.area.y));
        at.filter(|at| *at < self.all)
    }
}

/// The borders between the panes of a cluster's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaneBorders {
    /// The area of all panes together.
    pub area: Area,
    /// The first column of the right panes; `None` in a small window, where the log is under the only other pane.
    pub right: Option<u16>,
    /// The first row of the lower panes.
    pub lower: u16,
}

/// Borders that are being dragged: the distance of each from the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraggedBorders {
    right: Option<u16>,
    lower: Option<u16>,
}

impl PaneBorders {
    /// The borders at this position: both cells next to a seam belong to it.
    pub(in crate::app) fn grip(self, column: u16, row: u16) -> Option<DraggedBorders> {
        let at = |seam: u16, position: u16| seam.checked_sub(position).filter(|off| *off <= 1);
        let grip = DraggedBorders {
            right: self.right.and_then(|right| at(right, column)),
            lower: at(self.lower, row),
        };
        let is_border = grip.right.or(grip.lower).is_some();
        (is_border && self.area.contains(column, row)).then_some(grip)
    }

    /// The layout after these borders are dragged to this position.
    pub(in crate::app) fn dragged(
        self,
        panes: PaneLayout,
        grip: DraggedBorders,
        column: u16,
        row: u16,
    ) -> PaneLayout {
        let Area { x, y, width, height } = self.area;
        let left = |off: u16| PaneLayout::thousandths((column + off).saturating_sub(x), width);
        let above = |off: u16| (row + off).saturating_sub(y).min(height);
        let is_small = self.right.is_none();
        let upper = |off: u16| PaneLayout::thousandths(above(off), height);
        let log = |off: u16| PaneLayout::thousandths(height - above(off), height);
        PaneLayout {
            left: grip.right.map_or(panes.left, left),
            upper: grip.lower.filter(|_| !is_small).map_or(panes.upper, upper),
            log: grip.lower.filter(|_| is_small).map_or(panes.log, log),
        }
    }
}

/// Where everything was drawn; `None` for what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Areas {
    /// The table of a page that consists of one table.
    pub table: Option<TableArea>,
    /// The nodes pane.
    pub nodes: Option<TableArea>,
    /// The jobs pane.
    pub jobs: Option<TableArea>,
    /// The lines of the log.
    pub log: Option<Area>,
    /// The lines of the autoscaler pane.
    pub autoscaler: Option<Area>,
    /// Highest first line of the autoscaler pane.
    pub autoscaler_last: usize,
    /// Highest first line of the node types below a cluster's TPUs.
    pub tpu_types_last: usize,
    /// The lines of a details page.
    pub details: Option<Area>,
    /// Highest first line of a details page.
    pub details_last: usize,
    /// The rows of a details page that can be selected; `None` if there are none.
    pub details_rows: Option<DrawnRows>,
    /// The dialog, with its border.
    pub dialog: Option<Area>,
    /// The borders between the panes of a cluster's page.
    pub seams: Option<PaneBorders>,
    /// The palette with its border, and its rows.
    pub palette: Option<(Area, Rows)>,
    /// The selectable rows of the dialog.
    pub dialog_rows: Option<Rows>,
    /// Its other focusable controls, line by line.
    pub controls: Vec<(Area, Control)>,
    /// The dialog's buttons: Cancel, and the one that confirms.
    pub buttons: Option<[Area; 2]>,
    /// First line of the dialog that is shown.
    pub dialog_top: usize,
    /// Highest first line of the dialog.
    pub dialog_last: usize,
    /// Number of lines of the dialog that are visible at once.
    pub dialog_lines: usize,
    /// The panes as tabs, in a window where they are not side by side.
    pub tabs: Vec<(Pane, Area)>,
    /// The tables of a job's workers as tabs.
    pub worker_tabs: Vec<(WorkersView, Area)>,
    /// The keys in the footer.
    pub hints: Vec<(Action, Area)>,
    /// The window is too small, so nothing was drawn.
    pub is_too_small: bool,
}

impl Areas {
    /// The area of a pane's rows or lines.
    pub(in crate::app) fn pane(&self, pane: Pane) -> Option<Area> {
        match pane {
            Pane::Nodes => self.nodes.as_ref().map(|t| t.rows),
            Pane::Jobs => self.jobs.as_ref().map(|t| t.rows),
            Pane::Log => self.log,
            Pane::Autoscaler => self.autoscaler,
        }
    }

    /// The table of a pane, or of the page.
    pub fn table_of(&self, pane: Option<Pane>) -> Option<&TableArea> {
        match pane {
            None => self.table.as_ref(),
            Some(Pane::Nodes) => self.nodes.as_ref(),
            Some(Pane::Jobs) => self.jobs.as_ref(),
            Some(Pane::Log | Pane::Autoscaler) => None,
        }
    }

    /// The panes from top left to bottom right; by their numbers if not all are on the screen.
    pub(in crate::app) fn panes_as_drawn(&self) -> [Pane; 4] {
        let mut order = Pane::ALL;
        if order.iter().all(|pane| self.pane(*pane).is_some()) {
            sort::by_key(&mut order, |pane| self.pane(*pane).map(|a| (a.y, a.x)));
        }
        order
    }
}
