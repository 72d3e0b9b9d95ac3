//! Where the workers of a job stand: the page of their stacks.

use super::describe::{Lines, ago};
use super::target::Target;
use super::view::{Details, Stacks, View};
use super::{App, Effect};
use crate::model::amount::counted;
use crate::model::text::printable;
use crate::model::{ClusterName, Hint, JobId, Problem, Standing, Timestamp};
use std::sync::Arc;

impl App {
    /// Opens the page of the stacks of the workers of the selected job, or of the job that holds the selected slice, and has them looked at; once it is open, looks again.
    pub(super) fn take_stacks(&mut self, _: Timestamp) -> Vec<Effect> {
        let Some((place, job)) = self.meant_run() else { return Vec::new() };
        let (key, driver) = (job.key.clone(), job.driver.clone());
        let target = Target::Stacks(place, key);
        let is_open = matches!(self.view(), View::Details(details) if details.target == target);
        let mut effects =
            if is_open { Vec::new() } else { self.open_page(View::Details(Details::of(target))) };
        let Some(driver) = driver else { return effects };
        if let Some(View::Details(details)) = self.stack.last_mut() {
            details.stacks = Stacks::Waiting(driver.clone());
        }
        effects.push(Effect::Stacks(self.fleet.clusters[place].name().clone(), driver));
        effects
    }

    /// Takes in where the workers of a driver stand, for its page.
    pub(super) fn stacks_news(
        &mut self,
        cluster: &ClusterName,
        driver: &JobId,
        result: &Arc<Result<Standing, Problem>>,
    ) -> Vec<Effect> {
        let place = self.fleet.clusters.iter().position(|c| c.name() == cluster);
        for view in &mut self.stack {
            let View::Details(details) = view else { continue };
            let is_of = matches!(&details.stacks, Stacks::Waiting(of) | Stacks::Told(of, _) if of == driver);
            if is_of && details.target.place() == place {
                details.stacks = Stacks::Told(driver.clone(), Arc::clone(result));
                self.dirty = true;
            }
        }
        Vec::new()
    }
}

/// The page's lines, with `words` for a hint.
pub fn lines(stacks: &Stacks, words: impl Fn(&Hint) -> String, now: Timestamp) -> Lines {
    let told = match stacks {
        Stacks::No => {
            return vec![(String::new(), "the job has no driver yet, and so no workers".to_owned())];
        }
        Stacks::Waiting(_) => return vec![(String::new(), "looking at the workers...".to_owned())],
        Stacks::Told(_, told) => told,
    };
    let standing = match &**told {
        Err(problem) => {
            let mut lines = vec![("problem".to_owned(), printable(&problem.what).into_owned())];
            let hint = words(&problem.hint);
            if !hint.is_empty() {
                lines.push(("hint".to_owned(), hint));
            }
            return lines;
        }
        Ok(standing) => standing,
    };
    let way = if standing.over_ssh { "py-spy over ssh" } else { "Ray" };
    let looked = format!("{} by {way}, {}", counted(standing.workers(), "worker"), ago(standing.at, now));
    let mut lines = vec![("looked at".to_owned(), looked), (String::new(), String::new())];
    for group in &standing.groups {
        let pace = group.pace().map(|pace| format!("  {pace}")).unwrap_or_default();
        lines.push((group.workers.len().to_string(), format!("{}{pace}", group.place)));
        lines.extend(group.frames.iter().map(|frame| (" ".to_owned(), format!("  {frame}"))));
        lines.extend(group.named(standing).iter().map(|worker| ("on".to_owned(), worker.words())));
    }
    let unread = standing.unread.iter();
    lines.extend(
        unread.map(|(worker, why)| ("unread".to_owned(), format!("{}: {}", worker.words(), printable(why)))),
    );
    lines
}
