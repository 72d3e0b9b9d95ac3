//! Applies a cluster's updates: to the state, as messages, and sometimes with a new request.

use super::pages::ALL_JOBS;
use super::pages::cluster::ClusterPage;
use super::pages::details::Details;
use super::{Action, App, Effect, MessageKind, View};
use crate::app::fleet::feed::changed_job;
use crate::app::log::follow::Follow;
use crate::app::table::list::Listing;
use crate::app::text::toast::Cause;
use crate::diagnose::{FindingKind, Severity};
use crate::model::{
    ClusterEvent, ClusterName, ClusterVitals, Job, JobKey, JobStatus, JobStopOutcome, Link, LogBatch,
    LogSource, ProblemKind, StreamId, SubmissionId, Timestamp,
};
use crate::state::{ClusterState, Update};
use std::collections::HashSet;
use std::sync::Arc;

impl App {
    pub(super) fn apply_update(&mut self, update: Update, now: Timestamp) -> Vec<Effect> {
        let Some(cluster_index) = self.fleet.cluster_index(&update.cluster) else { return Vec::new() };
        let alerts = self.fleet.alerts();
        let effects = self.apply_event(cluster_index, update, now);
        self.record_changes(cluster_index, now);
        self.dirty |= alerts != self.fleet.alerts();
        effects
    }

    /// Records what has changed on a cluster. Its first state is not a change.
    fn record_changes(&mut self, cluster_index: usize, now: Timestamp) {
        let cluster = &self.fleet.clusters[cluster_index];
        let is_reported = self.feed.has_reported(cluster.name());
        let changes = self.feed.changes_of(cluster, now);
        if !is_reported || changes.is_empty() {
            return;
        }
        self.fleet.recent_changes.add(cluster.name(), changes, now);
        self.dirty |= *self.view() == View::Clusters;
    }

    /// Shows a note that other clusters may have for the same cause.
    pub(super) fn report_of_cluster(
        &mut self,
        cluster: &ClusterName,
        cause: Cause,
        note: &str,
        now: Timestamp,
    ) {
        let more = format!("{} lists them", self.keyboard.keymap.key_of(Action::Messages));
        self.toasts.report_of_cluster(cluster, cause, note, &more, now);
        self.dirty = true;
    }

    fn apply_event(&mut self, cluster_index: usize, update: Update, now: Timestamp) -> Vec<Effect> {
        let on_screen = self.is_on_screen(cluster_index);
        let cluster = &mut self.fleet.clusters[cluster_index];
        let before = cluster.take(update.state);
        // The beginning and the end of an operation change findings without an event of their own.
        if !matches!(update.event, ClusterEvent::Snapshot(_)) && cluster.findings != before.findings {
            self.dirty = true;
            if !self.is_frozen() {
                self.rearrange(cluster_index);
            }
        }
        let cluster = &mut self.fleet.clusters[cluster_index];
        match update.event {
            ClusterEvent::Link(link) => {
                self.apply_link((cluster_index, &update.cluster), &link, &before, now);
            }
            ClusterEvent::Snapshot(_) => {
                return self.apply_snapshot((cluster_index, &update.cluster), &before, now);
            }
            ClusterEvent::Vitals(cluster_vitals) => self.apply_vitals(cluster_index, &cluster_vitals),
            ClusterEvent::Physical(figures) => {
                for (id, physical) in figures {
                    self.dirty |= cluster.measure(id, physical, now) && on_screen;
                }
            }
            ClusterEvent::Log(batch) => self.apply_log(cluster_index, batch, now),
            ClusterEvent::OlderLog { stream, part } => {
                self.pages.cluster[cluster_index].log.take_older(stream, part);
                self.dirty |= on_screen && self.view().cluster_index().is_some();
            }
            ClusterEvent::LogZone { stream, utc_offset } => {
                self.apply_log_zone(cluster_index, stream, utc_offset, now);
            }
            ClusterEvent::LogMatches { stream, pattern, found } => {
                self.apply_log_matches(stream, &pattern, found, now);
            }
            ClusterEvent::FileSearch(id, event) => self.apply_file_search(cluster_index, id, event, now),
            ClusterEvent::LogDownload { stream, bytes } => self.apply_log_download(stream, bytes, now),
            ClusterEvent::JobStop { id, outcome } => {
                return self.apply_job_stop(&update.cluster, &id, &outcome, now);
            }
            ClusterEvent::JobDelete { id, outcome } => {
                return self.apply_job_delete(update.cluster, &id, outcome, now);
            }
            ClusterEvent::Cloud(_) => self.apply_cloud(cluster_index, &before, now),
            ClusterEvent::Cleaned(done) => self.apply_cleaned(cluster_index, done, now),
            ClusterEvent::Work { job, work } => {
                self.answer_details(|page| page.take_work(cluster_index, &job, &work));
            }
            ClusterEvent::Inspected(subject, answer) => {
                let answer = Arc::new(answer.map(|inspection| *inspection));
                self.answer_details(|page| page.take_answer(cluster_index, &subject, &answer, now));
            }
            ClusterEvent::Cost(cost) => cluster.cost = cost,
            ClusterEvent::Lock(lock) => {
                cluster.lock = lock;
                self.dirty = true;
                self.arrange_fleet();
            }
            ClusterEvent::Ports { open, notes } => self.apply_ports(cluster_index, open, &notes, now),
            ClusterEvent::Note(note) => {
                self.report_of_cluster(&update.cluster, Cause::Connection, &note, now);
            }
        }
        Vec::new()
    }

    fn apply_link(
        &mut self,
        (cluster_index, name): (usize, &ClusterName),
        link: &Link,
        before: &ClusterState,
        now: Timestamp,
    ) {
        let on_screen = self.is_on_screen(cluster_index);
        let asks = matches!(link, Link::Stopped { problem } if matches!(problem.kind, ProblemKind::HostKeyChanged { .. }));
        if before.link == self.fleet.clusters[cluster_index].link {
            return;
        }
        self.dirty |= on_screen;
        // The connection is an issue itself, and Google's TPUs are joined with the nodes of a connected cluster.
        self.rearrange(cluster_index);
        if asks && on_screen {
            // A question would be answered by a key that was meant for the page.
            let key = self.keyboard.keymap.key_of(Action::HostKey);
            let why = format!("{name}: the host key has changed; {key} shows both keys");
            self.toasts.report(MessageKind::Bad, why, now);
        }
    }

    fn apply_snapshot(
        &mut self,
        (cluster_index, name): (usize, &ClusterName),
        before: &ClusterState,
        now: Timestamp,
    ) -> Vec<Effect> {
        let on_screen = self.is_on_screen(cluster_index);
        let cluster = &mut self.fleet.clusters[cluster_index];
        let restarted = before.finding(FindingKind::Restarted).map(|f| f.since);
        let changed = cluster.differs(before);
        if let Some(finding) = cluster.finding(FindingKind::Restarted)
            && Some(finding.since) != restarted
        {
            let tone = if finding.severity == Severity::Info { MessageKind::Info } else { MessageKind::Bad };
            self.toasts.report(tone, format!("{name}: {}", finding.long), now);
        }
        self.dirty |= changed && on_screen;
        let is_noted = cluster.note_use();
        self.dirty |= is_noted && *self.view() == View::Clusters;
        if self.is_frozen() {
            return Vec::new();
        }
        if changed {
            self.report_failed(cluster_index, &before.snapshot.jobs, now);
            self.marks.keep(cluster_index, &self.fleet.clusters[cluster_index].snapshot.jobs);
            self.rearrange(cluster_index);
        }
        if matches!(*self.view(), View::Cluster(shown) | View::Log(shown) if shown == cluster_index) {
            let (page, mut with) = self.following(cluster_index);
            return page.follow_on(&mut with);
        }
        Vec::new()
    }

    fn apply_vitals(&mut self, cluster_index: usize, cluster_vitals: &ClusterVitals) {
        let cluster = &mut self.fleet.clusters[cluster_index];
        let snapshot = Arc::clone(&cluster.snapshot);
        cluster.sliced.hold(cluster_vitals, &snapshot);
        self.dirty |= self.is_on_screen(cluster_index);
        if !self.is_frozen() {
            self.rearrange(cluster_index);
        }
    }

    /// Adds lines to a log, or to the live log behind a frozen screen.
    fn apply_log(&mut self, cluster_index: usize, batch: LogBatch, now: Timestamp) {
        let is_of_page = self.is_on_screen(cluster_index);
        let cluster_index = self.pages.reading(cluster_index, batch.stream);
        let on_screen = is_of_page || self.view().shows_log(cluster_index);
        let batch = match &mut self.frozen {
            Some(frozen) => frozen.hold(cluster_index, batch, now),
            None => Some(batch),
        };
        if let Some(batch) = batch {
            self.pages.cluster[cluster_index].take_log(&self.fleet, batch, now);
            self.dirty |= on_screen && self.view().cluster_index().is_some();
        }
    }

    /// Whether the page shows data of the cluster. Pages of the fleet show every cluster.
    fn is_on_screen(&self, cluster_index: usize) -> bool {
        self.view().cluster_index().is_none_or(|shown| shown == cluster_index)
    }

    /// Sets the time zone of the head that writes a log, also for lines that are received behind a frozen screen.
    fn apply_log_zone(&mut self, cluster_index: usize, stream: StreamId, utc_offset: i32, now: Timestamp) {
        self.dirty |= self.view().cluster_index() == Some(cluster_index);
        let cluster_index = self.pages.reading(cluster_index, stream);
        self.pages.cluster[cluster_index].log.take_zone(stream, utc_offset, now);
        if let Some(frozen) = &mut self.frozen {
            frozen.take_zone(cluster_index, stream, utc_offset, now);
        }
    }

    /// Offers an answer to the details pages, also to those that are not on the screen; `take` returns whether a page
    /// has kept it.
    pub(super) fn answer_details(&mut self, mut take: impl FnMut(&mut Details) -> bool) {
        for page in self.stack.all_details_mut() {
            self.dirty |= take(page);
        }
    }

    /// Offers an answer about a cluster to the details pages, with the index of the cluster.
    pub(super) fn answer_details_of(
        &mut self,
        cluster: &ClusterName,
        mut take: impl FnMut(&mut Details, usize) -> bool,
    ) {
        self.behind(|app| {
            if let Some(cluster_index) = app.fleet.cluster_index(cluster) {
                app.answer_details(|page| take(page, cluster_index));
            }
        });
    }

    /// Reports jobs that have failed since the last state, if they are on the screen. In the fleet the list of changes
    /// reports them.
    fn report_failed(&mut self, cluster_index: usize, before: &[Arc<Job>], now: Timestamp) {
        let is_seen =
            self.view().cluster_index() == Some(cluster_index) || *self.view() == View::Table(&ALL_JOBS);
        let cluster = &self.fleet.clusters[cluster_index];
        let ran: HashSet<&JobKey> =
            before.iter().filter(|job| !job.status.is_ended()).map(|job| &job.key).collect();
        let jobs = cluster.snapshot.jobs.iter();
        let mut failed = jobs.filter(|job| job.status == JobStatus::Failed && ran.contains(&job.key));
        let Some(first) = failed.next().filter(|_| is_seen) else { return };
        let more = failed.count();
        let more = if more > 0 { format!("; {more} more failed") } else { String::new() };
        let text = format!("{}: {}{more}", cluster.name(), changed_job(first));
        self.toasts.report(MessageKind::Bad, text, now);
        self.dirty = true;
    }

    fn apply_job_stop(
        &mut self,
        cluster: &ClusterName,
        id: &SubmissionId,
        outcome: &JobStopOutcome,
        now: Timestamp,
    ) -> Vec<Effect> {
        let (tone, text) = match outcome {
            JobStopOutcome::Requested => {
                (MessageKind::Info, format!("{cluster}: stop requested for {id}; waiting for it to end"))
            }
            JobStopOutcome::Ended(word) => (MessageKind::Good, format!("{cluster}: {id} has ended ({word})")),
            JobStopOutcome::StillThere(status) => {
                // A pending job has no driver yet; Ray 2.53 and 2.60 ignore its stop (ray-project/ray#58353).
                let waits = *status == JobStatus::Pending;
                let hint = if waits { " once it runs" } else { ", or stop its driver on its node" };
                let word = status.label();
                let text =
                    format!("Ray reported {id} as stopped, but the job is still {word}; try again{hint}");
                (MessageKind::Bad, format!("{cluster}: {text}"))
            }
            JobStopOutcome::Unknown { why, watching } => {
                let now = if *watching { "still watching" } else { "check its status, and stop it again" };
                (MessageKind::Bad, format!("{cluster}: outcome of stopping {id} unknown: {why}; {now}"))
            }
            JobStopOutcome::Failed(why) => {
                (MessageKind::Bad, format!("{cluster}: {id} was not stopped: {why}"))
            }
        };
        if let Some(c) = self.fleet.named_mut(cluster) {
            if matches!(outcome, JobStopOutcome::Requested | JobStopOutcome::Unknown { watching: true, .. }) {
                c.stopping.insert(id.clone());
            } else {
                c.stopping.remove(id);
            }
        }
        self.toasts.report(tone, text, now);
        self.dirty = true;
        let noted = outcome.noted().map(|it| Effect::Note(cluster.clone(), format!("stop-job {id}"), it));
        noted.into_iter().collect()
    }

    fn apply_job_delete(
        &mut self,
        cluster: ClusterName,
        id: &SubmissionId,
        outcome: Result<(), String>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let (tone, message, noted) = match outcome {
            Ok(()) => (MessageKind::Good, format!("{id} deleted"), "deleted".to_owned()),
            Err(why) => {
                (MessageKind::Bad, format!("{id} was not deleted: {why}"), format!("not deleted: {why}"))
            }
        };
        self.toasts.report(tone, format!("{cluster}: {message}"), now);
        self.dirty = true;
        vec![Effect::Note(cluster, format!("delete-job {id}"), noted)]
    }

    /// Sorts the fleet's rows, unless the screen is frozen.
    pub(super) fn arrange_fleet(&mut self) {
        if !self.is_frozen() {
            self.pages.clusters.arrange(&self.fleet);
        }
    }

    /// Sorts the rows that a cluster's events may have changed. Hidden tables are sorted when they are shown.
    pub(super) fn rearrange(&mut self, cluster_index: usize) {
        self.arrange_fleet();
        if !self.is_frozen()
            && *self.view() != View::Clusters
            && self.view().cluster_index().is_none_or(|shown| shown == cluster_index)
        {
            self.arrange_page();
        }
    }

    /// Opens the log on the screen again, at its end, because its last lines were dropped in favor of older ones.
    pub(super) fn open_again(&mut self) -> Vec<Effect> {
        let source = self.log().and_then(|log| log.source().cloned());
        let at = self.view().cluster_index().zip(source);
        at.map(|(cluster_index, source)| self.follow(cluster_index, source)).unwrap_or_default()
    }

    /// The page of a cluster, and what it needs to follow a log.
    pub(super) fn following(&mut self, cluster_index: usize) -> (&mut ClusterPage, Follow<'_>) {
        (&mut self.pages.cluster[cluster_index], Follow { fleet: &self.fleet, ids: &mut self.last_ids })
    }

    /// Follows a log on a cluster's page, instead of the one that is open there.
    pub(super) fn follow(&mut self, cluster_index: usize, source: LogSource) -> Vec<Effect> {
        let (page, mut with) = self.following(cluster_index);
        page.follow(source, &mut with)
    }
}
