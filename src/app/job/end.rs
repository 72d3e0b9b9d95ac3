//! Ends jobs and deletes their records: the marked ones or, without marks, the selected one.

use crate::app::screen::dialog::{Dialog, Question};
use crate::app::text::describe;
use crate::app::{Action, App, Context, Effect, Fleet, MessageKind, Target};
use crate::model::amount::counted;
use crate::model::{ClusterName, Job, JobKey, Others, Request, SubmissionId, Timestamp};
use std::sync::Arc;
use unicode_width::UnicodeWidthStr;

/// Maximum number of jobs that a dialog lists; the others are counted.
const MAX_LISTED: usize = 1000;

/// A job by its cluster.
type Named = (ClusterName, SubmissionId);

impl App {
    /// Marks or unmarks the selected job, and moves to the next one.
    pub(in crate::app) fn mark_job(&mut self, now: Timestamp) {
        let Some((cluster_index, key)) =
            self.target_job().map(|(cluster_index, job)| (cluster_index, job.key.clone()))
        else {
            return;
        };
        match key {
            JobKey::Submission(id) => {
                self.marks.toggle(cluster_index, id);
                self.step(1);
            }
            JobKey::Driver(id) => {
                let text = format!("{id} was started manually: Ray cannot stop it or delete its record");
                self.toasts.answer(text, now);
            }
        }
    }

    /// Marks all jobs of the table from the nearest marked one, preferably above, to the selected one. Jobs that cannot
    /// be stopped or deleted are left out.
    pub(in crate::app) fn mark_range(&mut self, now: Timestamp) {
        let Some(listing) = self.listing() else { return };
        let job_at = |position: usize| match listing.target_at(&self.fleet, position)? {
            Target::Job(cluster_index, JobKey::Submission(id)) => Some((cluster_index, id)),
            _ => None,
        };
        let is_marked = |position: &usize| {
            job_at(*position).is_some_and(|(cluster_index, id)| self.marks.contains(cluster_index, &id))
        };
        let cursor = listing.cursor();
        let marked = (0..cursor).rev().find(is_marked).or_else(|| (cursor..listing.len()).find(is_marked));
        let Some(marked) = marked else {
            let mark = self.keyboard.keymap.key_of(Action::Mark);
            self.toasts.answer(format!("no job is marked; {mark} marks the first one of a range"), now);
            return;
        };
        let range: Vec<_> = (marked.min(cursor)..=marked.max(cursor)).filter_map(job_at).collect();
        for (cluster_index, id) in range {
            self.marks.add(cluster_index, id);
        }
    }

    /// The clusters whose marks count on this page.
    fn marking(&self) -> std::ops::Range<usize> {
        match (self.page_context(), self.view().cluster_index()) {
            (Context::AllJobs, _) => 0..self.fleet.clusters.len(),
            (Context::Jobs, Some(cluster_index)) => cluster_index..cluster_index + 1,
            _ => 0..0,
        }
    }

    /// Clears all marks of this page. Returns whether there were any.
    pub(in crate::app) fn clear_marks(&mut self) -> bool {
        let mut is_any = false;
        for cluster_index in self.marking() {
            is_any |= self.marks.clear(cluster_index);
        }
        is_any
    }

    /// How many jobs are marked on this page.
    pub fn marked(&self) -> usize {
        self.marking().map(|cluster_index| self.marks.count(Some(cluster_index))).sum()
    }

    /// The marked jobs of this page; without marks, the selected one.
    pub(in crate::app) fn chosen(&self) -> Vec<(usize, Arc<Job>)> {
        let marked = |cluster_index: usize| {
            let jobs = self.fleet.clusters[cluster_index].snapshot.jobs.iter();
            jobs.filter(move |j| self.marks.has(cluster_index, j))
                .map(move |j| (cluster_index, Arc::clone(j)))
        };
        let all: Vec<_> = self.marking().flat_map(marked).collect();
        if all.is_empty() {
            self.target_job().map(|(p, j)| (p, Arc::clone(j))).into_iter().collect()
        } else {
            all
        }
    }

    /// The chosen jobs that `fits` accepts, and the number of the others.
    fn fitting(&self, fits: impl Fn(&Job) -> bool) -> (Vec<(usize, Arc<Job>)>, usize) {
        let chosen = self.chosen();
        let all = chosen.len();
        let fit: Vec<_> = chosen.into_iter().filter(|(_, job)| fits(job)).collect();
        let left = all - fit.len();
        (fit, left)
    }

    pub(in crate::app) fn ask_to_stop(&mut self, now: Timestamp) {
        let (jobs, left) = self.fitting(Job::may_be_stopped);
        let chosen = ChosenJobs { fleet: &self.fleet, jobs: &jobs };
        let (lines, yes) = match &jobs[..] {
            [] => return self.report_unfit("has already ended", now),
            [(cluster_index, job)] if left == 0 => {
                (describe::before_stop(job, &self.fleet.clusters[*cluster_index], now), "Stop job".to_owned())
            }
            several => {
                let text = "Ray sends SIGTERM to their drivers, and SIGKILL 3 s later. Unsaved work is lost.";
                let lines = chosen.lines(left, "ended, or started manually", text, now);
                (lines, format!("Stop {}", counted(several.len(), "job")))
            }
        };
        let question = if chosen.others(&self.settings.me).is_empty() {
            Question::StopJobs(chosen.names())
        } else {
            Question::StopOthers(chosen.names())
        };
        self.dialog = Some(Dialog::ask(question, chosen.title("Stop"), lines, yes));
    }

    /// Confirmed, but some of the jobs are not the operator's own: asks again, for those only, as a command requires
    /// `--others`.
    pub(in crate::app) fn ask_about_others(&mut self, jobs: Vec<Named>, now: Timestamp) -> Vec<Effect> {
        let found = jobs.into_iter().filter_map(|named| {
            let cluster_index = self.fleet.cluster_index(&named.0)?;
            let job = self.fleet.clusters[cluster_index].job(&JobKey::Submission(named.1.clone()))?;
            (!job.status.is_ended()).then(|| (named, (cluster_index, Arc::clone(job))))
        });
        // A job that has ended in the meantime, or no longer exists, needs no stop.
        let (jobs, found): (Vec<_>, Vec<_>) = found.unzip();
        let of = |jobs: &[_]| ChosenJobs { fleet: &self.fleet, jobs }.others(&self.settings.me);
        let is_anothers = |job: &(usize, Arc<Job>)| !of(std::slice::from_ref(job)).is_empty();
        let others: Vec<_> = found.into_iter().filter(is_anothers).collect();
        if others.is_empty() {
            return self.request_for_jobs(jobs, Request::StopJob);
        }
        let chosen = ChosenJobs { fleet: &self.fleet, jobs: &others };
        let title = format!("Stop {}?", chosen.others(&self.settings.me).brief());
        let text = "This ends other people's work. Nothing has been stopped yet.";
        let lines = chosen.lines(0, "", text, now);
        let yes = if jobs.len() == 1 { "Stop job".to_owned() } else { format!("Stop {} jobs", jobs.len()) };
        self.dialog = Some(Dialog::ask(Question::StopJobs(jobs), title, lines, yes));
        Vec::new()
    }

    pub(in crate::app) fn ask_to_delete(&mut self, now: Timestamp) {
        let (jobs, left) = self.fitting(Job::may_be_deleted);
        if jobs.is_empty() {
            return self.report_unfit("has not ended; stop it first", now);
        }
        let chosen = ChosenJobs { fleet: &self.fleet, jobs: &jobs };
        let text = "Deletes their records in Ray: they disappear from the list and can no longer be resubmitted from here. Their log files are kept.";
        let lines = chosen.lines(left, "not ended", text, now);
        let yes = format!("Delete {}", counted(jobs.len(), "job"));
        let question = Question::DeleteJobs(chosen.names());
        self.dialog = Some(Dialog::ask(question, chosen.title("Delete"), lines, yes));
    }

    /// Reports why the action applies to none of the chosen jobs.
    fn report_unfit(&mut self, why: &str, now: Timestamp) {
        match &self.chosen()[..] {
            [] => {}
            [(_, job)] => match &job.key {
                JobKey::Driver(id) if job.status.is_ended() => {
                    let text = format!(
                        "{id} was started manually and has ended ({}): there is nothing to stop, and Ray cannot delete its record",
                        job.status.label()
                    );
                    self.toasts.answer(text, now);
                }
                JobKey::Driver(id) => {
                    let text = format!(
                        "{id} was started manually, not submitted: Ray cannot stop it; end its process on its node"
                    );
                    self.toasts.report(MessageKind::Bad, text, now);
                }
                JobKey::Submission(id) => {
                    let text = format!("{id} {why} ({})", job.status.label());
                    self.toasts.answer(text, now);
                }
            },
            several => {
                let text = format!("each of the {} marked jobs {why}", several.len());
                self.toasts.answer(text, now);
            }
        }
    }

    /// Confirmed: sends the same request for each job and clears the marks.
    pub(in crate::app) fn request_for_jobs(
        &mut self,
        jobs: Vec<Named>,
        request: fn(SubmissionId) -> Request,
    ) -> Vec<Effect> {
        self.clear_marks();
        jobs.into_iter().map(|(cluster, id)| Effect::Ask(cluster, request(id))).collect()
    }
}

/// Jobs that are about to be stopped or deleted, in the words of a question.
struct ChosenJobs<'f> {
    fleet: &'f Fleet,
    jobs: &'f [(usize, Arc<Job>)],
}

impl ChosenJobs<'_> {
    /// The jobs as the question carries them.
    fn names(&self) -> Vec<Named> {
        let name = |(cluster_index, job): &(usize, Arc<Job>)| {
            Some((self.fleet.clusters[*cluster_index].name().clone(), job.submission_id()?.clone()))
        };
        self.jobs.iter().filter_map(name).collect()
    }

    /// The first jobs as lines of a table with titles; if there are several clusters, their names come first.
    fn rows(&self, now: Timestamp) -> Vec<String> {
        let jobs = &self.jobs[..self.jobs.len().min(MAX_LISTED)];
        let is_one = jobs.iter().all(|(cluster_index, _)| *cluster_index == jobs[0].0);
        let row = |(cluster_index, job): &(usize, Arc<Job>)| {
            let cluster = &self.fleet.clusters[*cluster_index];
            let named = (!is_one).then(|| cluster.name().to_string());
            let age = describe::duration(job, now).unwrap_or_else(|| "?".to_owned());
            let status = cluster.vitals.status(job).label().to_owned();
            let cells = [job.short_name().into_owned(), job.owner_label(), age, status];
            named.into_iter().chain(cells).collect::<Vec<_>>()
        };
        let titles = ["CLUSTER", "JOB", "OWNER", "AGE", "STATUS"].map(str::to_owned);
        let titles = titles[usize::from(is_one)..].to_vec();
        let rows: Vec<Vec<String>> = std::iter::once(titles).chain(jobs.iter().map(row)).collect();
        let widest = |at: usize| rows.iter().map(|row| row[at].width()).max().unwrap_or(0);
        let line = |row: &Vec<String>| {
            let padded = row
                .iter()
                .enumerate()
                .map(|(at, cell)| format!("{cell}{}", " ".repeat(widest(at) - cell.width())));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }

    /// The consequence, the number of jobs that are not affected, and then the jobs line by line: the dialog shows the
    /// first lines and scrolls.
    fn lines(&self, left: usize, why_left: &str, consequence: &str, now: Timestamp) -> Vec<(String, String)> {
        let mut lines = vec![consequence.to_owned()];
        if left > 0 {
            lines.push(format!("Not affected: {left} of the marked jobs ({why_left})."));
        }
        lines.push(String::new());
        lines.extend(self.rows(now));
        if self.jobs.len() > MAX_LISTED {
            lines.push(format!("and {} more", self.jobs.len() - MAX_LISTED));
        }
        lines.into_iter().map(|text| (String::new(), text)).collect()
    }

    /// The owners of the jobs, without the operator.
    fn others(&self, me: &str) -> Others {
        Others::of(self.jobs.iter().map(|(_, job)| (&job.key, job.owner())), me)
    }

    /// The title of the question: `Stop 2 jobs on lab?`.
    fn title(&self, verb: &str) -> String {
        let mut cluster_indices: Vec<usize> =
            self.jobs.iter().map(|(cluster_index, _)| *cluster_index).collect();
        cluster_indices.sort_unstable();
        cluster_indices.dedup();
        let clusters = match &cluster_indices[..] {
            [cluster_index] => self.fleet.clusters[*cluster_index].name().to_string(),
            several => format!("{} clusters", several.len()),
        };
        format!("{verb} {} on {clusters}?", counted(self.jobs.len(), "job"))
    }
}
