//! The workers of a job: opening their page, reading its content while it is open, and the keys for a worker.

use crate::app::job::workers::FoldedLine;
use crate::app::pages::job_workers::Spot;
use crate::app::pages::job_workers::view::WorkersView;
use crate::app::pages::page::Page;
use crate::app::table::list::Listing as _;
use crate::app::view::View;
use crate::app::{App, Effect, Filter, Tone};
use crate::job_workers::{NamedWorker, Part, WorkersReading};
use crate::model::cloud::TpuHost;
use crate::model::{ClusterName, JobKey, JobStatus, LogSource, Problem, Timestamp, WorkerFile};
use std::sync::Arc;
use std::time::Duration;

impl App {
    /// Opens the page of the workers of the selected job, or of the job whose log is open. For a failed job it begins
    /// with the root cause.
    pub(in crate::app) fn show_workers(&mut self, now: Timestamp) -> Vec<Effect> {
        let selected = self.target_job().map(|(place, job)| (place, job.key.clone()));
        let Some((place, key)) = selected.or_else(|| self.job_of_log()) else {
            let is_log = self.context() == crate::app::Context::Log;
            let message = if is_log { "this log does not belong to a job" } else { "no job is selected" };
            self.toasts.answer(message, now);
            return Vec::new();
        };
        let cluster = &mut self.fleet.clusters[place];
        if cluster.job_workers.job.as_ref() != Some(&key) {
            cluster.job_workers.begin(&key);
            let failed = cluster.job(&key).is_some_and(|job| job.status == JobStatus::Failed);
            let page = &mut self.pages.job_workers[place];
            page.view = if failed { WorkersView::Cause } else { WorkersView::Roll };
            page.tables_mut().into_iter().for_each(|table| table.set_filter(&self.fleet, Filter::default()));
        }
        self.open_page(View::JobWorkers(place))
    }

    /// The job whose log, or whose worker's log, is on the screen.
    fn job_of_log(&self) -> Option<(usize, JobKey)> {
        let place = self.view().place()?;
        let job_workers = &self.fleet.clusters[place].job_workers;
        match self.log()?.source()? {
            LogSource::Job(id) => Some((place, JobKey::Submission(id.clone()))),
            LogSource::Monitor(_) => None,
            LogSource::File { node, name } => {
                let writes = |worker: &NamedWorker| {
                    worker.process.node == *node && worker.process.files.contains(name)
                };
                let parts = [Part::Roll, Part::Lines, Part::Cause];
                let mut known = parts.into_iter().filter_map(|part| job_workers.job_workers(part));
                known.find(|job_workers| job_workers.workers.iter().any(writes))?;
                Some((place, job_workers.job.clone()?))
            }
        }
    }

    /// Reads the content of the page of workers on the screen if it is missing or old.
    pub(in crate::app) fn read_workers(&mut self, now: Timestamp) -> Option<Effect> {
        let View::JobWorkers(place) = *self.view() else { return None };
        let part = self.pages.job_workers[place].view.part();
        let is_frozen = self.is_frozen();
        let cluster = &mut self.fleet.clusters[place];
        let is_due = cluster.job_workers.wait(part, now)?.is_zero();
        if is_frozen || !is_due || !cluster.is_up() {
            return None;
        }
        let known = cluster.known_of(cluster.job(cluster.job_workers.job.as_ref()?)?);
        cluster.job_workers.ask(part, now);
        self.dirty = true;
        Some(Effect::JobWorkers(cluster.name().clone(), Box::new(known), part))
    }

    /// How long until the page of workers on the screen is read again, or its age changes.
    pub(in crate::app) fn next_reading(&self, now: Timestamp) -> Option<Duration> {
        const SECOND: Duration = Duration::from_secs(1);
        let View::JobWorkers(place) = *self.view() else { return None };
        let (part, watched) =
            (self.pages.job_workers[place].view.part(), &self.fleet.clusters[place].job_workers);
        let counts = watched.slot(part).reading.as_ref().map(|reading| reading.at.age(now));
        let ages = counts.filter(|age| *age < Duration::from_secs(3600)).map(|_| SECOND);
        let due = watched.wait(part, now).map(|wait| wait.max(SECOND));
        if self.is_frozen() { None } else { ages.into_iter().chain(due).min() }
    }

    /// Stores a reading of a job's workers.
    pub(in crate::app) fn job_workers_news(
        &mut self,
        cluster: &ClusterName,
        job: &JobKey,
        part: Part,
        reading: &Arc<Result<WorkersReading, Problem>>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let Some(place) = self.fleet.place(cluster) else { return Vec::new() };
        let is_ours = self.fleet.clusters[place].job_workers.take(job, part, reading, now);
        if is_ours && !self.is_frozen() && *self.view() == View::JobWorkers(place) {
            self.arrange_page();
            self.pages.job_workers[place].go_to_awaited(&self.fleet, place);
            self.dirty = true;
        }
        Vec::new()
    }

    /// Shows another table of the workers, at the same worker and time.
    pub(in crate::app) fn turn_workers(&mut self, view: WorkersView) -> Vec<Effect> {
        if let View::JobWorkers(place) = *self.view() {
            self.pages.job_workers[place].turn(&self.fleet, place, view);
        }
        Vec::new()
    }

    /// The worker under the cursor, and its time.
    pub(in crate::app) fn worker_spot(&self) -> Option<Spot> {
        let View::JobWorkers(place) = *self.view() else { return None };
        self.pages.job_workers[place].spot(&self.fleet)
    }

    /// The worker under the cursor.
    fn worker_here(&self) -> Option<&NamedWorker> {
        let place = self.view().place()?;
        let job_workers =
            self.fleet.clusters[place].job_workers.job_workers(self.pages.job_workers[place].view.part())?;
        job_workers.workers.get(self.worker_spot()?.worker)
    }

    /// Opens a row of equal lines, or folds it again; opens the log of a worker.
    pub(in crate::app) fn open_worker(&mut self, place: usize, now: Timestamp) -> Vec<Effect> {
        let page = &mut self.pages.job_workers[place];
        let folded = (page.view == WorkersView::Folded).then(|| page.folded.selected(&self.fleet)).flatten();
        let line = folded.and_then(|row| row.is_of_many().then_some(row.line));
        if let Some(FoldedLine::Row(row) | FoldedLine::Trace(row, _)) = line {
            let before = page.folded.len();
            self.fleet.clusters[place].job_workers.toggle(row);
            self.arrange_page();
            let folded = &mut self.pages.job_workers[place].folded;
            folded.reveal(&self.fleet, folded.len().saturating_sub(before));
            return Vec::new();
        }
        self.open_worker_log(place, now)
    }

    /// Opens the log that contains the line under the cursor, at that line.
    pub(in crate::app) fn open_worker_log(&mut self, place: usize, now: Timestamp) -> Vec<Effect> {
        let page = &mut self.pages.job_workers[place];
        page.hold(&self.fleet, place);
        let line = page.wanted(&self.fleet);
        let driver =
            self.fleet.clusters[place].job_workers.job.as_ref().filter(|_| page.is_drivers(&self.fleet));
        if let Some(JobKey::Submission(id)) = driver {
            let source = LogSource::Job(id.clone());
            return self.open_log_at(place, source, line);
        }
        let Some((worker, spot)) = self.worker_here().zip(self.worker_spot()) else {
            self.toasts.answer("this line was not written by a worker", now);
            return Vec::new();
        };
        let is_it = |is_err: bool| spot.is_err.is_none_or(|wanted| wanted == is_err);
        let of_stream = worker
            .process
            .files
            .iter()
            .find(|name| WorkerFile::parse(name.raw()).is_some_and(|f| is_it(f.is_err)));
        let Some(name) = of_stream.or(worker.process.files.first()).filter(|_| !worker.is_lost) else {
            let why = if worker.is_lost { "lost with its node" } else { "missing" };
            let message = format!("{}: its files are {why}", worker.who());
            self.toasts.say(Tone::Bad, message, now);
            return Vec::new();
        };
        let source = LogSource::File { node: worker.process.node, name: name.clone() };
        self.open_log_at(place, source, line)
    }

    /// Logs in to the host of the worker under the cursor.
    pub(in crate::app) fn ssh_worker(&self) -> Vec<Effect> {
        let node = self.worker_here().map(|worker| worker.process.node);
        let node = node.and_then(|node| self.target_cluster()?.node(&node));
        match node.filter(|node| !node.is_head) {
            Some(node) => self.at_cluster(|name| Effect::SshHost(name, TpuHost::of(node))),
            None => self.at_cluster(Effect::SshHead),
        }
    }
}
