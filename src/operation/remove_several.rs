//! Removes several workers in turn. Each is removed with all checks of a single removal: the worker is looked up again
//! and must be the one that was confirmed, the jobs that run there are read again and must have been allowed, and every
//! deletion reads its object again right before it. After a failure, no further worker is drained or removed.

use super::facts::{Facts, Turn};
use super::journal::Journal;
use super::performer::Performer;
use super::worker::{StepProgress, affected, is_gone};
use super::{begin_again, failure};
use crate::model::amount::counted;
use crate::model::text::printable;
use crate::model::{Hint, Operation, Preview, Problem, Progress, StepName, Task, Verb};
use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, mpsc};

type Lines = mpsc::UnboundedSender<Progress>;

/// How a turn ended.
enum Ended {
    Removed,
    /// Another removal had failed before.
    NotRemoved,
    Failed(Problem),
}

impl Performer {
    /// Finds all workers before the first one is changed.
    pub(super) async fn find_all_turns(&mut self, journal: &Journal) -> Result<String, Problem> {
        let Task::RemoveWorkers { workers, .. } = &self.task else { return Err(no_workers()) };
        let machines = affected((&self.spec, &self.options), &self.task).await?;
        let hosts: usize = machines.iter().map(|m| m.hosts.len()).sum();
        let summary = format!("{} with {}", counted(machines.len(), "worker"), counted(hosts, "host"));
        self.facts.turns =
            workers.iter().zip(machines).map(|(worker, machine)| Turn::of(worker, machine)).collect();
        self.keep_facts(journal).await?;
        Ok(summary)
    }

    /// Runs the remaining turns, as many at a time as the task allows.
    pub(super) async fn remove_each(
        &mut self,
        journal: &Journal,
        progress: &Lines,
    ) -> Result<String, Problem> {
        let Task::RemoveWorkers { at_once, .. } = self.task else { return Err(no_workers()) };
        let all: Vec<String> = self.facts.turns.iter().map(|turn| turn.worker.clone()).collect();
        let (facts, failed) = (Mutex::new(self.facts.clone()), AtomicBool::new(false));
        let turns: Vec<_> = (0..all.len())
            .map(|at| self.take_turn(at, (&facts, &failed), journal, progress).boxed())
            .collect();
        let ended: Vec<Ended> = stream::iter(turns).buffered(at_once.max(1)).collect().await;
        self.facts = facts.into_inner();
        self.facts.worker.machines = self.facts.turns.iter().flat_map(|t| t.known.machines.clone()).collect();
        outcome(&all, &ended)
    }

    /// Runs the turn of one worker, unless another turn has failed.
    async fn take_turn(
        &self,
        at: usize,
        (facts, failed): (&Mutex<Facts>, &AtomicBool),
        journal: &Journal,
        progress: &Lines,
    ) -> Ended {
        if failed.load(Ordering::Relaxed) {
            return Ended::NotRemoved;
        }
        let turns = &self.facts.turns;
        let worker = printable(&turns[at].worker);
        report(progress, format!("{worker}: {} of {}", at + 1, turns.len()));
        match self.turn(at, (facts, failed), journal, progress).await {
            Ok(ended) => ended,
            Err(problem) => {
                failed.store(true, Ordering::Relaxed);
                report(progress, format!("{worker}: failed: {}", problem.what));
                Ended::Failed(problem)
            }
        }
    }

    /// Runs the turn of one worker, continuing where an earlier attempt stopped.
    async fn turn(
        &self,
        at: usize,
        (facts, failed): (&Mutex<Facts>, &AtomicBool),
        journal: &Journal,
        progress: &Lines,
    ) -> Result<Ended, Problem> {
        let mut turn = facts.lock().await.turns[at].clone();
        let drain = self.task.removal().and_then(|(_, drain)| drain);
        let task = Task::RemoveWorker { worker: turn.worker.clone(), drain };
        let operation = Operation::new(task.clone(), self.spec.name.clone());
        let mut one = self.for_turn(task, &turn);
        for &step in &operation.steps {
            if turn.done.contains(&step) {
                continue;
            }
            if matches!(step, StepName::Drain | StepName::Remove) && failed.load(Ordering::Relaxed) {
                return Ok(Ended::NotRemoved);
            }
            if !step.changes_nothing() && turn.done.iter().all(|s| s.changes_nothing()) {
                self.gate(&operation, &turn).await?;
                turn.begun = true;
                keep(facts, at, &turn, journal).await?;
            }
            let result = one
                .named_step(step, progress, async |known| {
                    turn.known = known.worker.clone();
                    keep(facts, at, &turn, journal).await
                })
                .await?;
            report(progress, format!("{}: {}", printable(&turn.worker), printable(&result)));
            if step == StepName::Find {
                still_confirmed(&turn, &one)?;
            }
            turn.done.push(step);
            turn.known = one.facts.worker.clone();
            keep(facts, at, &turn, journal).await?;
        }
        Ok(Ended::Removed)
    }

    /// The performer for removing this worker alone, with the facts known about it.
    fn for_turn(&self, task: Task, turn: &Turn) -> Self {
        let cluster = (self.spec.clone(), self.connection.clone());
        let facts = Facts { worker: turn.known.clone(), ..Facts::default() };
        let mut one = Self::new(cluster, self.options.clone(), self.state.clone(), task, facts);
        one.executor = self.executor.clone();
        one
    }

    /// Runs a step and prefixes its output with the name of the worker, because several may run at a time. The caller
    /// saves the facts; `keep` does during the step.
    async fn named_step(
        &mut self,
        step: StepName,
        progress: &Lines,
        keep: impl AsyncFnOnce(&Facts) -> Result<(), Problem>,
    ) -> Result<String, Problem> {
        let Task::RemoveWorker { worker, .. } = self.task.clone() else { return Err(no_workers()) };
        let (own, mut lines) = mpsc::unbounded_channel();
        let work = async {
            let ended = match step {
                StepName::Drain => self.drain(keep, &StepProgress(&own)).await,
                step => self.worker_step(step, &Journal::nowhere(), &own).await,
            };
            drop(own);
            ended
        };
        let pass_on = async {
            while let Some(line) = lines.recv().await {
                if let Progress::Output(words) = line {
                    report(progress, format!("{}: {words}", printable(&worker)));
                }
            }
        };
        tokio::join!(work, pass_on).0
    }

    /// Checks affected jobs before a worker is changed, because hours may have passed since the permission.
    async fn gate(&self, operation: &Operation, turn: &Turn) -> Result<(), Problem> {
        if self.executor.is_recording() {
            return Ok(());
        }
        let seen = match self.connect().await {
            Ok(channel) => self.affected(&channel.client, operation).await,
            Err(problem) => Ok(Preview::unknown(&self.operator, problem)),
        };
        let cluster = (&self.spec, &self.options);
        let seen = match seen {
            Ok(seen) => seen,
            // An interrupted attempt may have deleted it, which its steps detect.
            Err(_) if turn.begun && is_gone(cluster, &operation.task).await => return Ok(()),
            Err(problem) => return Err(problem),
        };
        self.permitted(operation, &seen)
    }
}

/// Saves the state of a turn.
async fn keep(facts: &Mutex<Facts>, at: usize, turn: &Turn, journal: &Journal) -> Result<(), Problem> {
    let mut facts = facts.lock().await;
    facts.turns[at] = turn.clone();
    journal.keep(&facts).await
}

fn report(progress: &Lines, words: String) {
    // The receiver may have been dropped.
    drop(progress.send(Progress::Output(words)));
}

fn no_workers() -> Problem {
    failure("the journal does not name any workers", begin_again())
}

/// An error if another worker has this name by now.
fn still_confirmed(turn: &Turn, one: &Performer) -> Result<(), Problem> {
    let pair = (turn.known.machines.first(), one.facts.worker.machines.first());
    match pair {
        (Some(before), Some(now)) if !now.is_still_all_of(before) => {
            let what = format!(
                "{} is no longer the worker that was confirmed: it has changed since then",
                printable(&turn.worker)
            );
            Err(failure(what, Hint::from("to remove it anyway:").and(begin_again())))
        }
        _ => Ok(()),
    }
}

/// The result, or why the removal stopped and which workers remain.
fn outcome(all: &[String], ended: &[Ended]) -> Result<String, Problem> {
    let names = |wanted: fn(&Ended) -> bool| -> Vec<String> {
        let chosen = all.iter().zip(ended).filter(|(_, ended)| wanted(ended));
        chosen.map(|(worker, _)| printable(worker).into_owned()).collect()
    };
    let failures = all.iter().zip(ended).filter_map(|(worker, ended)| match ended {
        Ended::Failed(problem) => Some((worker, problem)),
        _ => None,
    });
    let failures: Vec<_> = failures.collect();
    let Some((_, first)) = failures.first() else {
        return Ok(format!("{} removed", counted(all.len(), "worker")));
    };
    let why: Vec<_> = failures.iter().map(|(w, p)| format!("{}: {}", printable(w), p.what)).collect();
    let left = names(|ended| !matches!(ended, Ended::Removed)).join(", ");
    let removed = names(|ended| matches!(ended, Ended::Removed));
    let removed = if removed.is_empty() { "none".to_owned() } else { removed.join(", ") };
    let what = format!("{}; removed: {removed}; remaining: {left}", why.join("; "));
    Err(failure(what, first.hint.clone().and(Verb::Resume.to("resume with the remaining workers"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_removal_names_the_remaining_workers() {
        let all = ["a", "b", "c", "d"].map(str::to_owned);
        let failed = || Ended::Failed(failure("no route", "look"));
        let problem =
            outcome(&all, &[Ended::Removed, failed(), Ended::Removed, Ended::NotRemoved]).unwrap_err();
        assert_eq!(problem.what, "b: no route; removed: a, c; remaining: b, d");
        let problem = outcome(&all[..2], &[failed(), Ended::NotRemoved]).unwrap_err();
        assert_eq!(problem.what, "a: no route; removed: none; remaining: a, b");
        assert_eq!(outcome(&all[..1], &[Ended::Removed]).unwrap(), "1 worker removed");
    }
}
