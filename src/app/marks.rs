//! Jobs that are marked, and what is done to them or, without marks, to the selected one: stopped, forgotten.

use super::dialog::{Dialog, Question};
use super::{App, Effect, Pane, Tone, View, describe};
use crate::model::{ClusterName, Job, JobKey, Request, SubmissionId, Timestamp};
use std::sync::Arc;

/// Jobs that a dialog names; of more it tells the number.
const NAMED: usize = 12;

/// A job by its cluster.
type Named = (ClusterName, SubmissionId);

impl App {
    /// Marks the selected job or takes its mark away, and goes on to the next.
    pub(super) fn mark_job(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some((place, key)) = self.meant_job().map(|(place, job)| (place, job.key.clone())) else {
            return Vec::new();
        };
        match key {
            JobKey::Submission(id) => {
                let marked = &mut self.clusters[place].marked;
                if !marked.remove(&id) {
                    marked.insert(id);
                }
                self.step(1)
            }
            JobKey::Driver(id) => {
                let text = format!("{id} was started by hand: ray can neither stop nor forget it");
                self.toasts.say(Tone::Info, text, now);
                Vec::new()
            }
        }
    }

    /// The places whose marks count on this page.
    fn marking(&self) -> std::ops::Range<usize> {
        match (self.view, self.pane) {
            (View::Jobs, _) => 0..self.clusters.len(),
            (View::Cluster(place), Pane::Jobs) => place..place + 1,
            _ => 0..0,
        }
    }

    /// Takes all marks of this page away. True when there was any.
    pub(super) fn clear_marks(&mut self) -> bool {
        let places = self.marking();
        let mut any = false;
        for cluster in &mut self.clusters[places] {
            any |= !std::mem::take(&mut cluster.marked).is_empty();
        }
        any
    }

    /// How many jobs are marked on this page.
    pub fn marked(&self) -> usize {
        self.clusters[self.marking()].iter().map(|c| c.marked.len()).sum()
    }

    /// The marked jobs of this page, else the selected one.
    fn chosen(&self) -> Vec<(usize, Arc<Job>)> {
        let marked = |place: usize| {
            let cluster = &self.clusters[place];
            let jobs = cluster.snapshot.jobs.iter();
            jobs.filter(|j| j.submission_id().is_some_and(|id| cluster.marked.contains(id)))
                .map(move |j| (place, Arc::clone(j)))
        };
        let all: Vec<_> = self.marking().flat_map(marked).collect();
        if all.is_empty() {
            self.meant_job().map(|(p, j)| (p, Arc::clone(j))).into_iter().collect()
        } else {
            all
        }
    }

    /// Splits what is chosen: those that fit, and how many do not.
    fn fitting(&self, fits: impl Fn(&Job) -> bool) -> (Vec<(usize, Arc<Job>)>, usize) {
        let chosen = self.chosen();
        let all = chosen.len();
        let fit: Vec<_> =
            chosen.into_iter().filter(|(_, j)| j.submission_id().is_some() && fits(j)).collect();
        let left = all - fit.len();
        (fit, left)
    }

    fn named(&self, jobs: &[(usize, Arc<Job>)]) -> Vec<Named> {
        let name = |(place, job): &(usize, Arc<Job>)| {
            Some((self.clusters[*place].name().clone(), job.submission_id()?.clone()))
        };
        jobs.iter().filter_map(name).collect()
    }

    /// Jobs line by line, then what happens to them, and how many it does not concern.
    fn lines(
        &self,
        jobs: &[(usize, Arc<Job>)],
        left: usize,
        why_left: &str,
        consequence: &str,
        now: Timestamp,
    ) -> Vec<(String, String)> {
        let line = |(place, job): &(usize, Arc<Job>)| {
            let text = describe::in_a_line(job, now);
            (self.clusters[*place].name().to_string(), format!("{}  {text}", job.key))
        };
        let mut lines: Vec<_> = jobs.iter().take(NAMED).map(line).collect();
        let said = |text: String| (String::new(), text);
        if jobs.len() > NAMED {
            lines.push(said(format!("and {} more", jobs.len() - NAMED)));
        }
        lines.push(said(String::new()));
        if left > 0 {
            lines.push(said(format!("{left} of the marked {why_left}: left as they are.")));
        }
        lines.push(said(consequence.to_owned()));
        lines
    }

    pub(super) fn ask_to_stop(&mut self, now: Timestamp) -> Vec<Effect> {
        let (jobs, left) = self.fitting(|j| !j.status.is_ended());
        let ask = match &jobs[..] {
            [] => return self.say_unfit("has ended already", now),
            [(place, job)] if left == 0 => {
                let lines = describe::before_stop(job, &self.clusters[*place].name().to_string(), now);
                ("stop job".to_owned(), lines, "Stop the job")
            }
            several => {
                let text =
                    "Their drivers get SIGTERM, and SIGKILL 3 s later. What they have not saved is lost.";
                let lines = self.lines(several, left, "have ended or were started by hand", text, now);
                (format!("stop {} jobs", several.len()), lines, "Stop them")
            }
        };
        self.dialog = Some(Dialog::ask(Question::StopJobs(self.named(&jobs)), ask.0, ask.1, ask.2));
        Vec::new()
    }

    pub(super) fn ask_to_delete(&mut self, now: Timestamp) -> Vec<Effect> {
        let (jobs, left) = self.fitting(|j| j.status.is_ended());
        if jobs.is_empty() {
            return self.say_unfit("has not ended; stop it first", now);
        }
        let text = "Ray forgets them: they leave the list and cannot be resubmitted from here. Their log files stay.";
        let lines = self.lines(&jobs, left, "have not ended", text, now);
        let title =
            if jobs.len() == 1 { "delete job".to_owned() } else { format!("delete {} jobs", jobs.len()) };
        self.dialog = Some(Dialog::ask(Question::DeleteJobs(self.named(&jobs)), title, lines, "Delete"));
        Vec::new()
    }

    /// Nothing of what is chosen fits.
    fn say_unfit(&mut self, why: &str, now: Timestamp) -> Vec<Effect> {
        match &self.chosen()[..] {
            [] => {}
            [(_, job)] => match &job.key {
                JobKey::Driver(id) if job.status.is_ended() => {
                    let text = format!(
                        "{id} was started by hand and has ended ({}): nothing of it is left to stop, and ray cannot forget it",
                        job.status.word()
                    );
                    self.toasts.say(Tone::Info, text, now);
                }
                JobKey::Driver(id) => {
                    let text = format!(
                        "{id} was started by hand, not submitted: ray cannot stop it; end its process on its node"
                    );
                    self.toasts.say(Tone::Bad, text, now);
                }
                JobKey::Submission(id) => {
                    let text = format!("{id} {why} ({})", job.status.word());
                    self.toasts.say(Tone::Info, text, now);
                }
            },
            several => {
                let text = format!("of the {} marked jobs each {why}", several.len());
                self.toasts.say(Tone::Info, text, now);
            }
        }
        Vec::new()
    }

    /// The person said yes: the same is asked for each, and the marks have served.
    pub(super) fn asked_of_jobs(
        &mut self,
        jobs: Vec<Named>,
        request: fn(SubmissionId) -> Request,
    ) -> Vec<Effect> {
        self.clear_marks();
        jobs.into_iter().map(|(cluster, id)| Effect::Ask(cluster, request(id))).collect()
    }
}
