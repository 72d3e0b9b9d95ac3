//! The page of a job's workers: the same readings in four tables that replace each other.

pub mod causes;
mod common;
pub mod folded;
pub mod merged;
pub mod roll;
pub mod view;

use super::page::Page;
use crate::app::fleet::Fleet;
use crate::app::log::LineTarget;
use crate::app::screen::pane::Pane;
use crate::app::table::list::{List, Listing};
use crate::job_workers::Part;
use causes::Causes;
pub use common::Spot;
pub(super) use common::role as line_role;
use common::{Process, process, worker_at};
use folded::FoldedLines;
use merged::Merged;
use roll::Roll;
use view::WorkersView;

/// The page of the workers of one cluster's jobs.
#[derive(Debug)]
pub struct WorkersPage {
    /// The table on the screen.
    pub view: WorkersView,
    /// The overview.
    pub roll: List<Roll>,
    /// Lines folded by equal text.
    pub folded: List<FoldedLines>,
    /// Lines in order of time.
    pub merged: List<Merged>,
    /// The root cause.
    pub causes: List<Causes>,
    /// The worker and the time to go to once the table is read.
    awaited: Option<(Process, Spot)>,
}

impl WorkersPage {
    /// The page of the cluster at this index.
    pub fn new(place: usize) -> Self {
        Self {
            view: WorkersView::default(),
            roll: List::new(Some(place)).holding_top(),
            folded: List::new(Some(place)),
            merged: List::new(Some(place)),
            causes: List::new(Some(place)),
            awaited: None,
        }
    }

    /// The table on the screen.
    pub fn table(&self) -> &dyn Listing {
        match self.view {
            WorkersView::Roll => &self.roll,
            WorkersView::Folded => &self.folded,
            WorkersView::Merged => &self.merged,
            WorkersView::Cause => &self.causes,
        }
    }

    /// The table on the screen, mutable.
    fn table_mut(&mut self) -> &mut dyn Listing {
        match self.view {
            WorkersView::Roll => &mut self.roll,
            WorkersView::Folded => &mut self.folded,
            WorkersView::Merged => &mut self.merged,
            WorkersView::Cause => &mut self.causes,
        }
    }

    /// The worker and time under the cursor.
    pub fn spot(&self, fleet: &Fleet) -> Option<Spot> {
        match self.view {
            WorkersView::Roll => self.roll.selected(fleet).map(|row| row.spot()),
            WorkersView::Folded => self.folded.selected(fleet).and_then(|row| row.spot()),
            WorkersView::Merged => self.merged.selected(fleet).map(|row| row.spot()),
            WorkersView::Cause => self.causes.selected(fleet).and_then(|row| row.spot()),
        }
    }

    /// The line of a log under the cursor.
    pub fn wanted(&self, fleet: &Fleet) -> Option<LineTarget> {
        match self.view {
            WorkersView::Roll => self.roll.selected(fleet)?.wanted(),
            WorkersView::Folded => self.folded.selected(fleet)?.wanted(),
            WorkersView::Merged => self.merged.selected(fleet)?.wanted(),
            WorkersView::Cause => self.causes.selected(fleet)?.wanted(),
        }
    }

    /// Whether the line under the cursor is in the driver's log.
    pub fn is_drivers(&self, fleet: &Fleet) -> bool {
        self.view == WorkersView::Cause && self.causes.selected(fleet).is_some_and(|row| row.is_drivers())
    }

    /// Keeps the cursor on its row, regardless of new rows above.
    pub(crate) fn hold(&mut self, fleet: &Fleet, place: usize) {
        let worker = self.spot(fleet).filter(|_| self.view == WorkersView::Roll).map(|spot| spot.worker);
        let job_workers = fleet.clusters[place].job_workers.job_workers(Part::Roll);
        if let Some(key) =
            job_workers.zip(worker).and_then(|(job_workers, worker)| process(job_workers, worker))
        {
            self.roll.select(fleet, place, &key);
        }
    }

    /// Shows another table, with the cursor on the same worker, and near the same time.
    pub(crate) fn turn(&mut self, fleet: &Fleet, place: usize, view: WorkersView) {
        let from = self.spot(fleet).zip(fleet.clusters[place].job_workers.job_workers(self.view.part()));
        self.awaited = from.and_then(|(spot, job_workers)| Some((process(job_workers, spot.worker)?, spot)));
        self.view = view;
        self.table_mut().arrange(fleet);
        self.go_to_awaited(fleet, place);
    }

    /// Moves the cursor to its target, once the table has been read.
    pub(crate) fn go_to_awaited(&mut self, fleet: &Fleet, place: usize) {
        let job_workers = &fleet.clusters[place].job_workers;
        let Some(of_table) = job_workers.job_workers(self.view.part()) else { return };
        let Some((process, spot)) = self.awaited.take() else { return };
        let Some(worker) = worker_at(of_table, process) else { return };
        match self.view {
            WorkersView::Roll => self.roll.select(fleet, place, &process),
            WorkersView::Folded => {
                if let Some(key) = folded::nearest(job_workers, worker, spot.time) {
                    self.folded.select(fleet, place, &key);
                }
            }
            WorkersView::Merged => {
                if let Some(key) = merged::nearest(job_workers, worker, spot.time) {
                    self.merged.select(fleet, place, &key);
                }
            }
            // It begins with the most important line.
            WorkersView::Cause => {}
        }
    }
}

impl Page for WorkersPage {
    fn tables(&self) -> Vec<&dyn Listing> {
        vec![&self.roll, &self.folded, &self.merged, &self.causes]
    }

    fn tables_mut(&mut self) -> Vec<&mut dyn Listing> {
        vec![&mut self.roll, &mut self.folded, &mut self.merged, &mut self.causes]
    }

    fn listing(&self, _pane: Pane) -> Option<&dyn Listing> {
        Some(self.table())
    }

    fn listing_mut(&mut self, _pane: Pane) -> Option<&mut dyn Listing> {
        Some(self.table_mut())
    }

    /// Only one of the four tables is on the screen.
    fn rearrange(&mut self, fleet: &Fleet) {
        self.table_mut().arrange(fleet);
    }
}
