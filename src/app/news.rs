//! News of a cluster become state, messages, and sometimes a request.

use super::order;
use super::{Action, App, Effect, Tone, View};
use crate::diagnose::Severity;
use crate::model::{
    ClusterName, JobKey, JobStatus, JobStopOutcome, Link, LogSource, News, ProblemKind, Request,
    SubmissionId, Timestamp, Update,
};

impl App {
    pub(super) fn news(&mut self, update: Update, now: Timestamp) -> Vec<Effect> {
        let Some(place) = self.clusters.iter().position(|c| *c.name() == update.cluster) else {
            return Vec::new();
        };
        let alerts = self.alerts();
        let effects = self.take_in(place, update, now);
        self.dirty |= alerts != self.alerts();
        effects
    }

    fn take_in(&mut self, place: usize, update: Update, now: Timestamp) -> Vec<Effect> {
        let on_screen = !matches!(self.view, View::Cluster(shown) | View::Tpus(shown) if shown != place);
        let cluster = &mut self.clusters[place];
        match update.news {
            News::Link(link) => {
                let asks = matches!(&link, Link::Stopped { problem } if matches!(problem.kind, ProblemKind::HostKeyChanged { .. }));
                if !cluster.reach(link) {
                    return Vec::new();
                }
                self.dirty |= on_screen;
                self.arrange_list();
                if asks && self.view == View::Cluster(place) && self.dialog.is_none() && self.prompt.is_none()
                {
                    self.ask_about_host_key(now);
                }
            }
            News::Snapshot(snapshot) => {
                let restarted = cluster.restart_finding().map(|f| f.since);
                let changed = cluster.take(snapshot);
                if let Some(finding) = cluster.restart_finding()
                    && Some(finding.since) != restarted
                {
                    let tone = if finding.severity == Severity::Info { Tone::Info } else { Tone::Bad };
                    self.toasts.say(tone, format!("{}: {}", update.cluster, finding.long), now);
                }
                self.dirty |= changed && on_screen;
                self.dirty |= cluster.note_use() && self.view == View::Clusters;
                if changed {
                    self.arrange_list();
                    self.arrange_merged();
                }
                if self.view == View::Cluster(place) {
                    if let Some(id) = self.clusters[place].readable_again() {
                        return self.follow(place, LogSource::Job(id));
                    }
                    if let Some(id) = self.arrived(place) {
                        return self.follow(place, LogSource::Job(id));
                    }
                    return self.follow_newest(place);
                }
            }
            News::Physical(figures) => {
                for (id, physical) in figures {
                    self.dirty |= cluster.measure(id, physical, now) && on_screen;
                }
            }
            News::Log(batch) => {
                cluster.take_log(batch);
                self.dirty |= self.view == View::Cluster(place);
            }
            News::JobStop { id, outcome } => return self.stop_news(&update.cluster, &id, &outcome, now),
            News::JobDelete { id, outcome } => return self.delete_news(update.cluster, &id, outcome, now),
            News::Cloud(answer) => self.cloud_news(place, answer, now),
            News::Cleaned(done) => self.cleaned_news(place, done, now),
            News::Work { job, work } => self.work_news(&update.cluster, &job, work, now),
            News::Cost(cost) => cluster.cost = cost,
            News::Mark(mark) => {
                cluster.mark = mark;
                self.dirty = true;
                self.arrange_list();
            }
            News::Ports { open, notes } => self.ports_news(place, open, &notes, now),
            News::Note(note) => {
                let key = self.key_of(Action::Messages);
                self.toasts.say_one_of_many(update.cluster.as_str(), &note, now, |n| {
                    format!("{n} clusters have a note on their connection; {key} lists them")
                });
                self.dirty = true;
            }
        }
        Vec::new()
    }

    fn stop_news(
        &mut self,
        cluster: &ClusterName,
        id: &SubmissionId,
        outcome: &JobStopOutcome,
        now: Timestamp,
    ) -> Vec<Effect> {
        let (tone, text) = match outcome {
            JobStopOutcome::Asked => {
                (Tone::Info, format!("{cluster}: asked Ray to stop {id}; waiting for it to end"))
            }
            JobStopOutcome::Ended(word) => (Tone::Good, format!("{cluster}: {id} has ended ({word})")),
            JobStopOutcome::StillThere(status) => {
                // A waiting job has no driver yet; Ray 2.53 and 2.60 ignore its stop (ray-project/ray#58353).
                let waits = *status == JobStatus::Pending;
                let hint = if waits { " once it runs" } else { ", or stop its driver on its node" };
                let word = status.word();
                let text =
                    format!("Ray reported {id} as stopped, but the job is still {word}; try again{hint}");
                (Tone::Bad, format!("{cluster}: {text}"))
            }
            JobStopOutcome::Unknown { why, watching } => {
                let now = if *watching { "still watching" } else { "check its status, and stop it again" };
                (Tone::Bad, format!("{cluster}: cannot tell whether {id} was stopped: {why}; {now}"))
            }
            JobStopOutcome::Failed(why) => (Tone::Bad, format!("{cluster}: {id} was not stopped: {why}")),
        };
        if let Some(c) = self.clusters.iter_mut().find(|c| c.name() == cluster) {
            if matches!(outcome, JobStopOutcome::Asked | JobStopOutcome::Unknown { watching: true, .. }) {
                c.stopping.insert(id.clone());
            } else {
                c.stopping.remove(id);
            }
        }
        self.toasts.say(tone, text, now);
        self.dirty = true;
        let noted = outcome.noted().map(|it| Effect::Note(cluster.clone(), format!("stop-job {id}"), it));
        noted.into_iter().collect()
    }

    fn delete_news(
        &mut self,
        cluster: ClusterName,
        id: &SubmissionId,
        outcome: Result<(), String>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let (tone, said, noted) = match outcome {
            Ok(()) => (Tone::Good, format!("{id} deleted"), "deleted".to_owned()),
            Err(why) => (Tone::Bad, format!("{id} was not deleted: {why}"), format!("not deleted: {why}")),
        };
        self.toasts.say(tone, format!("{cluster}: {said}"), now);
        self.dirty = true;
        vec![Effect::Note(cluster, format!("delete-job {id}"), noted)]
    }

    /// Selects the job just submitted from here once it is in the table, and returns it.
    fn arrived(&mut self, place: usize) -> Option<SubmissionId> {
        let cluster = &mut self.clusters[place];
        let is_it = |id: &SubmissionId| cluster.snapshot.jobs.iter().any(|j| j.submission_id() == Some(id));
        let id = cluster.awaited.clone().filter(is_it)?;
        cluster.awaited = None;
        cluster.select_job(&JobKey::Submission(id.clone()));
        Some(id)
    }

    /// Opens the log of the newest running job, unless a log is open.
    pub(super) fn follow_newest(&mut self, place: usize) -> Vec<Effect> {
        let cluster = &self.clusters[place];
        if cluster.log.source().is_some() {
            return Vec::new();
        }
        let newest = order::newest_running(&cluster.snapshot.jobs).and_then(|j| j.submission_id().cloned());
        newest.map(|id| self.follow(place, LogSource::Job(id))).unwrap_or_default()
    }

    /// Follows a log instead of the one that is open.
    pub(super) fn follow(&mut self, place: usize, source: LogSource) -> Vec<Effect> {
        let stream = self.stream();
        let cluster = &mut self.clusters[place];
        let name = cluster.name().clone();
        let mut effects = Vec::new();
        if cluster.log.source().is_some() {
            effects.push(Effect::Ask(name.clone(), Request::Unfollow(cluster.log.stream())));
        }
        cluster.log.begin(source.clone(), stream);
        effects.push(Effect::Ask(name, Request::Follow(stream, source)));
        effects
    }
}
