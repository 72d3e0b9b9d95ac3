//! The page of the stacks of a job's workers.

use crate::app::action::target::Target;
use crate::app::input::entry::{Offer, OfferKind};
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::pages::details::{Details, Stacks};
use crate::app::text::describe::{Lines, ago, in_a_line, of_problem};
use crate::app::view::View;
use crate::app::{App, Effect};
use crate::model::amount::counted;
use crate::model::raylet::raylet_lines;
use crate::model::text::printable;
use crate::model::{Hint, JobId, JobStacks, Problem, StackGroup, StackWorker, Timestamp, Vitals};
use std::sync::Arc;

impl App {
    /// Opens the page of the stacks of the workers of the selected job, or of the job that holds the selected slice,
    /// and takes the stacks; once it is open, takes them again. If several jobs hold the slice, one has to be chosen
    /// first.
    pub(in crate::app) fn take_stacks(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some((cluster_index, jobs)) = self.target_runs() else {
            self.toasts.answer("no job selected: select a job, or a slice that a job holds", now);
            return Vec::new();
        };
        let runs = jobs.iter().filter(|job| job.driver.is_some() && !job.status.is_ended());
        let offers: Vec<Offer> = runs
            .clone()
            .map(|job| Offer {
                kind: OfferKind::Stacks(Target::Job(cluster_index, job.key.clone())),
                ..Offer::new(
                    job.key.to_string(),
                    in_a_line(job, &self.fleet.clusters[cluster_index].vitals, now),
                )
            })
            .collect();
        if offers.len() > 1 {
            self.prompt = Some(Prompt::of(PromptKind::Runs, offers));
            return Vec::new();
        }
        let Some(job) = runs.into_iter().next() else {
            let why = match jobs {
                [job] if job.status.is_ended() => format!("{} has ended: it has no workers", job.key),
                [job] => format!("{} has no driver yet, so it has no workers", job.key),
                _ => "no running job here: there are no workers whose stacks could be read".to_owned(),
            };
            self.toasts.answer(why, now);
            return Vec::new();
        };
        let (key, driver) = (job.key.clone(), job.driver.clone());
        let target = Target::Stacks(cluster_index, key);
        let mut effects = self.open_page(View::Details(Details::of(target)));
        let Some(driver) = driver else { return effects };
        if let Some(page) = self.stack.details_mut() {
            page.stacks = Stacks::Waiting(driver.clone());
        }
        effects.push(Effect::Stacks(self.fleet.clusters[cluster_index].name().clone(), driver));
        effects
    }
}

impl Details {
    /// Keeps the stacks of the workers of a driver, if the page has requested them. Returns whether it has.
    pub(in crate::app) fn take_stacks(
        &mut self,
        cluster_index: usize,
        driver: &JobId,
        result: &Arc<Result<JobStacks, Problem>>,
    ) -> bool {
        let is_of = matches!(&self.stacks, Stacks::Waiting(of) | Stacks::Answered(of, _) if of == driver);
        let is_requested = is_of && self.target.cluster_index() == Some(cluster_index);
        if is_requested {
            self.stacks = Stacks::Answered(driver.clone(), Arc::clone(result));
        }
        is_requested
    }

    /// The stacks of the page, once they were taken.
    pub(in crate::app) fn shown_stacks(&self) -> Option<&JobStacks> {
        let Stacks::Answered(_, result) = &self.stacks else { return None };
        result.as_ref().as_ref().ok()
    }

    /// The processes of the page's stacks, those that differ first: each opens its host.
    pub(in crate::app) fn processes(&self) -> Vec<Offer> {
        let Some((cluster_index, found)) = self.target.cluster_index().zip(self.shown_stacks()) else {
            return Vec::new();
        };
        let offer = |worker: &StackWorker, help: String| Offer {
            kind: OfferKind::Page(Target::Node(cluster_index, worker.node)),
            ..Offer::new(worker.text(), help)
        };
        let (odd, usual): (Vec<_>, Vec<_>) =
            found.groups.iter().rev().partition(|group| group.differs(found));
        let of_group = |group: &StackGroup| {
            let one = |worker: &StackWorker| offer(worker, group.top_frame.clone());
            group.workers.iter().map(one).collect::<Vec<_>>()
        };
        let unread = found.unread.iter();
        let unread = unread.map(|(worker, why)| offer(worker, printable(why).into_owned()));
        let driver = found.driver.iter().map(|driver| offer(&driver.process, driver.text()));
        let offers = odd.into_iter().flat_map(of_group).chain(unread).chain(driver);
        offers.chain(usual.into_iter().flat_map(of_group)).collect()
    }
}

/// The lines of the page, with `words` for a hint, and with the vitals of the run, which show whether it completes
/// steps.
pub fn lines(
    stacks: &Stacks,
    vitals: Option<&Vitals>,
    words: impl Fn(&Hint) -> String,
    now: Timestamp,
) -> Lines {
    let result = match stacks {
        Stacks::No => {
            return vec![(String::new(), "the job has no driver yet, so it has no workers".to_owned())];
        }
        Stacks::Waiting(_) => return vec![(String::new(), "reading the workers...".to_owned())],
        Stacks::Answered(_, result) => result,
    };
    let found = match &**result {
        Err(problem) => return of_problem(problem, words),
        Ok(found) => found,
    };
    let way = if found.over_ssh { "py-spy ran over SSH" } else { "Ray paused each process for a moment" };
    let looked = format!("{}, {}; {way}", counted(found.workers(), "worker"), ago(found.at, now));
    let mut lines = vec![("read".to_owned(), looked)];
    lines.extend(vitals.map(|vitals| ("run".to_owned(), vitals.text(now))));
    lines.push((String::new(), String::new()));
    for group in &found.groups {
        let pace = group.pace().map(|pace| format!("  {pace}")).unwrap_or_default();
        let mark = if group.differs(found) { "! " } else { "" };
        lines.push((counted(group.workers.len(), "worker"), format!("{mark}{}{pace}", group.top_frame)));
        lines.extend(group.callers().iter().map(|frame| (" ".to_owned(), format!("  {frame}"))));
        lines.extend(group.named(found).iter().map(|worker| ("on".to_owned(), worker.text())));
    }
    let unread = found.unread.iter();
    lines.extend(
        unread.map(|(worker, why)| ("not read".to_owned(), format!("{}: {}", worker.text(), printable(why)))),
    );
    if let Some(driver) = &found.driver {
        lines.push((String::new(), String::new()));
        let words = driver.text();
        let (label, text) = words.split_once(' ').unwrap_or(("driver", &words));
        lines.push((label.to_owned(), text.to_owned()));
        for thread in driver.threads.iter().flatten() {
            lines.push((" ".to_owned(), thread.text()));
            lines.extend(thread.callers().iter().map(|frame| (" ".to_owned(), format!("  {frame}"))));
        }
    }
    let raylets = raylet_lines(&found.raylets);
    if !raylets.is_empty() {
        lines.push((String::new(), String::new()));
        lines.extend(raylets.into_iter().map(|line| ("raylets".to_owned(), line)));
    }
    lines
}
