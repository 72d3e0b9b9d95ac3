//! The mouse: where everything was drawn, and what a click there does.

use super::{Action, App, Dialog, Effect, Pane, View};
use crate::model::Timestamp;
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

/// Rows a turn of the wheel moves.
const WHEEL: isize = 3;

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
    fn contains(self, column: u16, row: u16) -> bool {
        (self.x..self.x.saturating_add(self.width)).contains(&column)
            && (self.y..self.y.saturating_add(self.height)).contains(&row)
    }
}

/// Where the rows of each table were drawn; none for what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Areas {
    /// Where the fleet's rows are.
    pub list: Option<Area>,
    /// The rows of all clusters.
    pub merged: Option<Area>,
    /// Where the rows of the nodes pane are.
    pub nodes: Option<Area>,
    /// Where the rows of the jobs pane are.
    pub jobs: Option<Area>,
    /// Where the lines of the log are.
    pub log: Option<Area>,
    /// Where the lines of the autoscaler pane are.
    pub autoscaler: Option<Area>,
    /// Highest first line of the autoscaler pane.
    pub autoscaler_last: usize,
    /// Where the rows of a cluster's TPUs are.
    pub tpus: Option<Area>,
    /// Highest first line of the worker types below them.
    pub tpu_types_last: usize,
    /// Where the dialog is, with its border.
    pub dialog: Option<Area>,
    /// The dialog's buttons: Cancel, and the one that confirms.
    pub buttons: Option<[Area; 2]>,
    /// First line of the dialog that is shown.
    pub dialog_top: usize,
    /// Highest first line of the dialog.
    pub dialog_last: usize,
    /// Nothing could be drawn: the window is too small.
    pub is_too_small: bool,
}

impl Areas {
    /// The panes from the top left to the bottom right; by their numbers where they are not all on the screen.
    pub(super) fn panes_as_drawn(&self) -> [Pane; 4] {
        let mut order = Pane::ALL;
        let area = |pane: &Pane| match pane {
            Pane::Nodes => self.nodes,
            Pane::Jobs => self.jobs,
            Pane::Log => self.log,
            Pane::Autoscaler => self.autoscaler,
        };
        if order.iter().all(|pane| area(pane).is_some()) {
            order.sort_by_key(|pane| area(pane).map(|a| (a.y, a.x)));
        }
        order
    }
}

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent, now: Timestamp) -> Vec<Effect> {
        let by = match mouse.kind {
            MouseEventKind::ScrollDown => WHEEL,
            MouseEventKind::ScrollUp => -WHEEL,
            MouseEventKind::Down(MouseButton::Left) => 0,
            _ => return Vec::new(),
        };
        if self.areas.is_too_small {
            return Vec::new();
        }
        self.dirty = true;
        let (column, row) = (mouse.column, mouse.row);
        if let (Some(dialog), Some(area)) = (&mut self.dialog, self.areas.dialog) {
            dialog.scroll(by);
            let pressed = self.areas.buttons.filter(|_| by == 0).and_then(|buttons| {
                buttons.iter().position(|b| b.contains(column, row)).map(|button| button == 1)
            });
            if let Some(yes) = pressed {
                dialog.focus_button(yes);
                return self.act(Action::Open, now);
            }
            // A click outside closes texts and questions, but not forms: typed text is kept.
            let typed = matches!(dialog, Dialog::Form(_) | Dialog::Worker(_));
            return if by == 0 && !typed && !area.contains(column, row) {
                self.act(Action::Back, now)
            } else {
                Vec::new()
            };
        }
        match self.view {
            View::Clusters => return self.mouse_in_list(column, row, by, now),
            View::Nodes | View::Jobs => return self.mouse_in_merged(column, row, by, now),
            View::Tpus(_) => return self.mouse_in_tpus(column, row, by, now),
            View::Cluster(_) => {}
        }
        let areas = self.areas;
        let panes = [areas.nodes, areas.jobs, areas.log, areas.autoscaler];
        let hit = panes
            .iter()
            .zip(Pane::ALL)
            .find_map(|(area, pane)| Some((area.filter(|a| a.contains(column, row))?, pane)));
        let Some((area, pane)) = hit else { return Vec::new() };
        if by != 0 {
            return self.scroll(pane, by);
        }
        // The prompt belongs to the pane that had the focus.
        self.prompt = None;
        self.pane = pane;
        let position = usize::from(row - area.y);
        if let Some(cluster) = self.current_mut() {
            let snapshot = &cluster.snapshot;
            match pane {
                Pane::Nodes => {
                    let top = cluster.nodes.window(area.height.into());
                    cluster.nodes.go(top + position, |i| snapshot.nodes[i].id);
                }
                Pane::Jobs => {
                    let top = cluster.jobs.window(area.height.into());
                    cluster.jobs.go(top + position, |i| snapshot.jobs[i].key.clone());
                }
                Pane::Log | Pane::Autoscaler => {}
            }
        }
        Vec::new()
    }

    fn mouse_in_list(&mut self, column: u16, row: u16, by: isize, now: Timestamp) -> Vec<Effect> {
        let Some(area) = self.areas.list.filter(|a| a.contains(column, row)) else { return Vec::new() };
        self.list_moved = true;
        if by != 0 {
            self.list.step(by, |i| i);
            return Vec::new();
        }
        self.prompt = None;
        let position = self.list.window(area.height.into()) + usize::from(row - area.y);
        if position == self.list.cursor() {
            return self.act(Action::Open, now);
        }
        self.list.go(position, |i| i);
        Vec::new()
    }

    fn mouse_in_tpus(&mut self, column: u16, row: u16, by: isize, now: Timestamp) -> Vec<Effect> {
        let Some(area) = self.areas.tpus.filter(|a| a.contains(column, row)) else { return Vec::new() };
        if by != 0 {
            return self.step(by);
        }
        self.prompt = None;
        let offset = usize::from(row - area.y);
        let Some(tpus) = self.tpus_mut() else { return Vec::new() };
        let position = tpus.table().window(area.height.into()) + offset;
        if position == tpus.table().cursor() && position < tpus.table().len() {
            return self.act(Action::Open, now);
        }
        tpus.go(position);
        Vec::new()
    }

    fn mouse_in_merged(&mut self, column: u16, row: u16, by: isize, now: Timestamp) -> Vec<Effect> {
        let Some(area) = self.areas.merged.filter(|a| a.contains(column, row)) else { return Vec::new() };
        if by != 0 {
            return self.step(by);
        }
        self.prompt = None;
        let (height, offset) = (usize::from(area.height), usize::from(row - area.y));
        let (top, cursor) = match self.view {
            View::Nodes => (self.all_nodes.table().window(height), self.all_nodes.table().cursor()),
            _ => (self.all_jobs.table().window(height), self.all_jobs.table().cursor()),
        };
        if top + offset == cursor {
            return self.act(Action::Open, now);
        }
        match self.view {
            View::Nodes => self.all_nodes.go(top + offset),
            _ => self.all_jobs.go(top + offset),
        }
        Vec::new()
    }
}
