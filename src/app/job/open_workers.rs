//! The workers of a job: opening their page, reading its content while it is open, and the keys for a worker.

use crate::app::job::workers::FoldedLine;
use crate::app::pages::job_workers::WorkersPage;
use crate::app::pages::job_workers::view::WorkersView;
use crate::app::pages::page::Page;
use crate::app::table::list::Listing as _;
use crate::app::view::View;
use crate::app::{App, Effect, Filter, MessageKind};
use crate::job_workers::{NamedWorker, Part, WorkersReading};
use crate::model::{ClusterName, Hint, JobKey, JobStatus, LogSource, Problem, Timestamp};
use std::sync::Arc;

impl App {
    /// Opens the page of the workers of the selected job, or of the job whose log is open. For a failed job it begins
    /// with the root cause.
    pub(in crate::app) fn show_workers(&mut self, now: Timestamp) -> Vec<Effect> {
        let selected = self.target_job().map(|(cluster_index, job)| (cluster_index, job.key.clone()));
        let Some((cluster_index, key)) = selected.or_else(|| self.job_of_log()) else {
            let is_log = self.context() == crate::app::Context::Log;
            let message = if is_log { "this log does not belong to a job" } else { "no job is selected" };
            self.toasts.answer(message, now);
            return Vec::new();
        };
        let cluster = &mut self.fleet.clusters[cluster_index];
        if cluster.job_workers.job.as_ref() != Some(&key) {
            cluster.job_workers.begin(&key);
            let failed = cluster.job(&key).is_some_and(|job| job.status == JobStatus::Failed);
            let page = &mut self.pages.job_workers[cluster_index];
            page.view = if failed { WorkersView::Cause } else { WorkersView::Overview };
            page.tables_mut().into_iter().for_each(|table| table.set_filter(&self.fleet, Filter::default()));
        }
        self.open_page(View::JobWorkers(cluster_index))
    }

    /// The job whose log, or whose worker's log, is on the screen.
    fn job_of_log(&self) -> Option<(usize, JobKey)> {
        let cluster_index = self.view().cluster_index()?;
        let job_workers = &self.fleet.clusters[cluster_index].job_workers;
        match self.log()?.source()? {
            LogSource::Job(id) => Some((cluster_index, JobKey::Submission(id.clone()))),
            LogSource::Monitor(_) => None,
            LogSource::File { node, name } => {
                let writes = |worker: &NamedWorker| {
                    worker.process.node == *node && worker.process.files.contains(name)
                };
                let parts = [Part::Overview, Part::Lines, Part::Cause];
                let mut known = parts.into_iter().filter_map(|part| job_workers.job_workers(part));
                known.find(|job_workers| job_workers.workers.iter().any(writes))?;
                Some((cluster_index, job_workers.job.clone()?))
            }
        }
    }

    /// The page of workers on the screen.
    pub(in crate::app) fn workers_page(&self) -> Option<&WorkersPage> {
        let View::JobWorkers(cluster_index) = *self.view() else { return None };
        self.pages.job_workers.get(cluster_index)
    }

    /// Reads the content of the page of workers on the screen if it is missing or old.
    pub(in crate::app) fn read_workers(&mut self, now: Timestamp) -> Option<Effect> {
        let View::JobWorkers(cluster_index) = *self.view() else { return None };
        if self.is_frozen() {
            return None;
        }
        let effect = self.pages.job_workers[cluster_index].read(&mut self.fleet, now);
        self.dirty |= effect.is_some();
        effect
    }

    /// Stores a reading of a job's workers.
    pub(in crate::app) fn apply_job_workers(
        &mut self,
        cluster: &ClusterName,
        job: &JobKey,
        part: Part,
        reading: &Arc<Result<WorkersReading, Problem>>,
        now: Timestamp,
    ) {
        let Some(cluster_index) = self.fleet.cluster_index(cluster) else { return };
        let is_ours = self.fleet.clusters[cluster_index].job_workers.take(job, part, reading, now);
        if is_ours && !self.is_frozen() && *self.view() == View::JobWorkers(cluster_index) {
            self.arrange_page();
            self.pages.job_workers[cluster_index].go_to_awaited(&self.fleet);
            self.dirty = true;
        }
    }

    /// Shows another table of the workers, at the same worker and time.
    pub(in crate::app) fn turn_workers(&mut self, view: WorkersView) {
        if let View::JobWorkers(cluster_index) = *self.view() {
            self.pages.job_workers[cluster_index].turn(&self.fleet, view);
        }
    }

    /// Opens a row of equal lines, or folds it again; opens the log of a worker.
    pub(in crate::app) fn open_worker(&mut self, cluster_index: usize, now: Timestamp) -> Vec<Effect> {
        let page = &mut self.pages.job_workers[cluster_index];
        let folded = (page.view == WorkersView::Folded).then(|| page.folded.selected(&self.fleet)).flatten();
        let line = folded.and_then(|row| row.is_of_many().then_some(row.line));
        if let Some(FoldedLine::Row(row) | FoldedLine::Trace(row, _)) = line {
            let before = page.folded.len();
            self.fleet.clusters[cluster_index].job_workers.toggle(row);
            self.arrange_page();
            let folded = &mut self.pages.job_workers[cluster_index].folded;
            folded.reveal(&self.fleet, folded.len().saturating_sub(before));
            return Vec::new();
        }
        self.open_worker_log(cluster_index, now)
    }

    /// Opens the log that contains the line under the cursor, at that line.
    pub(in crate::app) fn open_worker_log(&mut self, cluster_index: usize, now: Timestamp) -> Vec<Effect> {
        let page = &mut self.pages.job_workers[cluster_index];
        page.hold(&self.fleet);
        let line = page.line_target(&self.fleet);
        match page.file_here(&self.fleet) {
            Some(Ok(source)) => return self.open_log_at(cluster_index, source, line),
            Some(Err(missing)) => self.report_no_log(missing, now),
            None => self.toasts.answer("this line was not written by a worker", now),
        }
        Vec::new()
    }

    /// Reports why a worker's log cannot be opened, and what to do instead.
    pub(in crate::app) fn report_no_log(&mut self, (why, hint): (String, Hint), now: Timestamp) {
        let text = if hint.is_empty() { why } else { format!("{why}; {}", self.hint_in(&hint, None)) };
        self.toasts.report(MessageKind::Bad, text, now);
    }
}
