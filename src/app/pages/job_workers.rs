//! The page of a job's workers: the same readings in four tables that replace each other.

pub mod causes;
mod common;
pub mod folded;
pub mod merged;
pub mod overview;
pub mod view;

use super::page::Page;
use crate::app::event::Effect;
use crate::app::fleet::Fleet;
use crate::app::job::workers::Watched;
use crate::app::log::LineTarget;
use crate::app::screen::pane::Pane;
use crate::app::table::list::{List, Listing};
use crate::job_workers::{JobWorkers, NamedWorker, Part, WorkerLog, file_to_open, lost_files};
use crate::model::{FollowedLog, Hint, JobKey, LogSource, Timestamp};
use causes::Causes;
pub use common::WorkerPosition;
pub(super) use common::role as line_role;
use common::{Process, process, worker_at};
use folded::FoldedLines;
use merged::Merged;
use overview::Overview;
use std::time::Duration;
use view::WorkersView;

/// The page of the workers of one cluster's jobs.
#[derive(Debug)]
pub struct WorkersPage {
    /// The index of the cluster.
    cluster_index: usize,
    /// The table on the screen.
    pub view: WorkersView,
    /// The overview.
    pub overview: List<Overview>,
    /// Lines folded by equal text.
    pub folded: List<FoldedLines>,
    /// Lines in order of time.
    pub merged: List<Merged>,
    /// The root cause.
    pub causes: List<Causes>,
    /// The worker and the time to go to once the table is read.
    awaited: Option<(Process, WorkerPosition)>,
}

impl WorkersPage {
    /// The page of the cluster at this index.
    pub fn new(cluster_index: usize) -> Self {
        Self {
            cluster_index,
            view: WorkersView::default(),
            overview: List::new(Some(cluster_index)).holding_top(),
            folded: List::new(Some(cluster_index)),
            merged: List::new(Some(cluster_index)),
            causes: List::new(Some(cluster_index)),
            awaited: None,
        }
    }

    /// The table on the screen.
    pub fn table(&self) -> &dyn Listing {
        match self.view {
            WorkersView::Overview => &self.overview,
            WorkersView::Folded => &self.folded,
            WorkersView::Merged => &self.merged,
            WorkersView::Cause => &self.causes,
        }
    }

    /// The table on the screen, mutable.
    fn table_mut(&mut self) -> &mut dyn Listing {
        match self.view {
            WorkersView::Overview => &mut self.overview,
            WorkersView::Folded => &mut self.folded,
            WorkersView::Merged => &mut self.merged,
            WorkersView::Cause => &mut self.causes,
        }
    }

    /// The worker and time under the cursor.
    pub fn position(&self, fleet: &Fleet) -> Option<WorkerPosition> {
        match self.view {
            WorkersView::Overview => self.overview.selected(fleet).map(|row| row.position()),
            WorkersView::Folded => self.folded.selected(fleet).and_then(|row| row.position()),
            WorkersView::Merged => self.merged.selected(fleet).map(|row| row.position()),
            WorkersView::Cause => self.causes.selected(fleet).and_then(|row| row.position()),
        }
    }

    /// The line of a log under the cursor.
    pub fn line_target(&self, fleet: &Fleet) -> Option<LineTarget> {
        match self.view {
            WorkersView::Overview => self.overview.selected(fleet)?.line_target(),
            WorkersView::Folded => self.folded.selected(fleet)?.line_target(),
            WorkersView::Merged => self.merged.selected(fleet)?.line_target(),
            WorkersView::Cause => self.causes.selected(fleet)?.line_target(),
        }
    }

    /// Whether the line under the cursor is in the driver's log.
    pub fn is_drivers(&self, fleet: &Fleet) -> bool {
        self.view == WorkersView::Cause && self.causes.selected(fleet).is_some_and(|row| row.is_drivers())
    }

    /// The readings of the cluster.
    fn watched<'f>(&self, fleet: &'f Fleet) -> &'f Watched {
        &fleet.clusters[self.cluster_index].job_workers
    }

    /// The workers of the last reading of the table on the screen.
    fn workers<'f>(&self, fleet: &'f Fleet) -> Option<&'f JobWorkers> {
        self.watched(fleet).job_workers(self.view.part())
    }

    /// The worker under the cursor.
    pub(in crate::app) fn worker<'f>(&self, fleet: &'f Fleet) -> Option<&'f NamedWorker> {
        self.workers(fleet)?.workers.get(self.position(fleet)?.worker)
    }

    /// The log that contains the line under the cursor, or why it cannot be opened and what to do instead; `None` if no
    /// worker wrote the line.
    pub(in crate::app) fn file_here(&self, fleet: &Fleet) -> Option<Result<LogSource, (String, Hint)>> {
        let job = self.watched(fleet).job.as_ref().filter(|_| self.is_drivers(fleet));
        if let Some(JobKey::Submission(id)) = job {
            return Some(Ok(LogSource::Job(id.clone())));
        }
        let (worker, spot) = self.worker(fleet).zip(self.position(fleet))?;
        if worker.is_lost {
            return Some(Err(lost_files(&worker.who(), self.workers(fleet).map(|workers| &workers.known))));
        }
        let file = file_to_open(&worker.who(), &worker.process.files, spot.is_err);
        let source = file.map(|name| LogSource::File { node: worker.process.node, name });
        Some(source.map_err(|why| (why, Hint::none())))
    }

    /// The logs of all workers, with their names; `None` before they are read.
    pub(in crate::app) fn logs(&self, fleet: &Fleet) -> Option<Vec<FollowedLog>> {
        let workers = self.workers(fleet)?;
        let log = |log: WorkerLog<'_>| {
            let worker = &workers.workers[log.worker];
            let name = format!("{}/{}", workers.short_host(&worker.host), worker.process.pid);
            let (source, host) = log.followed();
            FollowedLog { cluster: fleet.clusters[self.cluster_index].name().clone(), source, host, name }
        };
        Some(workers.logs().map(log).collect())
    }

    /// Requests a reading of the table on the screen if it is missing or old.
    pub(in crate::app) fn read(&self, fleet: &mut Fleet, now: Timestamp) -> Option<Effect> {
        let part = self.view.part();
        let cluster = &mut fleet.clusters[self.cluster_index];
        let is_due = cluster.job_workers.wait(part, now)?.is_zero();
        if !is_due || !cluster.is_up() {
            return None;
        }
        let known = cluster.known_of(cluster.job(cluster.job_workers.job.as_ref()?)?);
        cluster.job_workers.ask(part, now);
        Some(Effect::JobWorkers(cluster.name().clone(), Box::new(known), part))
    }

    /// How long until the table on the screen is read again, or its age changes.
    pub(in crate::app) fn next_read(&self, fleet: &Fleet, now: Timestamp) -> Option<Duration> {
        const SECOND: Duration = Duration::from_secs(1);
        let (part, watched) = (self.view.part(), self.watched(fleet));
        let counts = watched.slot(part).reading.as_ref().map(|reading| reading.at.age(now));
        let ages = counts.filter(|age| *age < Duration::from_secs(3600)).map(|_| SECOND);
        let due = watched.wait(part, now).map(|wait| wait.max(SECOND));
        ages.into_iter().chain(due).min()
    }

    /// Keeps the cursor on its row, regardless of new rows above.
    pub(crate) fn hold(&mut self, fleet: &Fleet) {
        let worker =
            self.position(fleet).filter(|_| self.view == WorkersView::Overview).map(|spot| spot.worker);
        let job_workers = self.watched(fleet).job_workers(Part::Overview);
        if let Some(key) =
            job_workers.zip(worker).and_then(|(job_workers, worker)| process(job_workers, worker))
        {
            self.overview.select(fleet, self.cluster_index, &key);
        }
    }

    /// Shows another table, with the cursor on the same worker, and near the same time.
    pub(crate) fn turn(&mut self, fleet: &Fleet, view: WorkersView) {
        let from = self.position(fleet).zip(self.workers(fleet));
        self.awaited = from.and_then(|(spot, job_workers)| Some((process(job_workers, spot.worker)?, spot)));
        self.view = view;
        self.table_mut().arrange(fleet);
        self.go_to_awaited(fleet);
    }

    /// Moves the cursor to its target, once the table has been read.
    pub(crate) fn go_to_awaited(&mut self, fleet: &Fleet) {
        let (cluster_index, job_workers) = (self.cluster_index, self.watched(fleet));
        let Some(of_table) = self.workers(fleet) else { return };
        let Some((process, spot)) = self.awaited.take() else { return };
        let Some(worker) = worker_at(of_table, process) else { return };
        match self.view {
            WorkersView::Overview => self.overview.select(fleet, cluster_index, &process),
            WorkersView::Folded => {
                if let Some(key) = folded::nearest(job_workers, worker, spot.time) {
                    self.folded.select(fleet, cluster_index, &key);
                }
            }
            WorkersView::Merged => {
                if let Some(key) = merged::nearest(job_workers, worker, spot.time) {
                    self.merged.select(fleet, cluster_index, &key);
                }
            }
            // It begins with the most important line.
            WorkersView::Cause => {}
        }
    }
}

impl Page for WorkersPage {
    fn tables(&self) -> Vec<&dyn Listing> {
        vec![&self.overview, &self.folded, &self.merged, &self.causes]
    }

    fn tables_mut(&mut self) -> Vec<&mut dyn Listing> {
        vec![&mut self.overview, &mut self.folded, &mut self.merged, &mut self.causes]
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
