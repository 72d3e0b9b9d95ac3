//! An operation on a cluster or its workers as the screen shows it: its steps, what its programs say, and how it stands.

use crate::model::text::log_line;
use crate::model::{Consent, Operation, OperationEnd, Problem, Progress, Standing, StepName, Timestamp};
use std::collections::VecDeque;

/// Lines of output kept.
const KEPT: usize = 500;

/// How one step stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Not begun.
    Waits,
    /// At work since then.
    Works(Timestamp),
    /// Done; what was seen, and how many seconds it took where we saw that.
    Done(String, Option<u64>),
    /// It failed.
    Failed,
}

/// How an operation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    /// At work here.
    Works,
    /// Asked to be cancelled.
    Cancelling,
    /// At work in another program on this machine.
    Elsewhere,
    /// It stopped half way. Why (none when it was killed), and where its jobs are saved.
    Stopped(Option<Problem>, Option<String>),
    /// Over, in a word.
    Over(&'static str),
}

/// An operation that runs, or stopped, or has just ended.
#[derive(Clone, Debug)]
pub struct Running {
    /// The operation.
    pub operation: Operation,
    /// Begun at.
    pub since: Timestamp,
    /// Ended or stopped at.
    pub until: Option<Timestamp>,
    /// One mark a step.
    pub marks: Vec<Mark>,
    /// How it stands.
    pub stand: Stand,
    output: VecDeque<String>,
}

impl Running {
    /// One that begins now, or goes on.
    pub fn new(operation: Operation, since: Timestamp) -> Self {
        let marks = vec![Mark::Waits; operation.steps.len()];
        Self { operation, since, until: None, marks, stand: Stand::Works, output: VecDeque::new() }
    }

    /// As a journal tells it.
    pub fn standing(standing: Standing) -> Self {
        let mut running = Self::new(standing.operation, standing.since);
        for (step, said) in standing.done {
            running.mark(step, Mark::Done(said, None));
        }
        running.stand = match (standing.elsewhere, standing.why.as_str()) {
            (true, _) => Stand::Elsewhere,
            (false, "") => Stand::Stopped(None, standing.saved),
            (false, why) => {
                if let Some(mark) = running.marks.iter_mut().find(|m| **m == Mark::Waits) {
                    *mark = Mark::Failed;
                }
                let problem = Problem::new(crate::model::ProblemKind::Other, why, "", standing.since);
                Stand::Stopped(Some(problem), standing.saved)
            }
        };
        running
    }

    /// Takes news in.
    pub fn take(&mut self, progress: Progress, now: Timestamp) {
        match progress {
            Progress::Began(step) => {
                if self.stand == Stand::Cancelling && !self.operation.is_harmless_at(step) {
                    // It came too late.
                    self.stand = Stand::Works;
                }
                self.mark(step, Mark::Works(now));
            }
            Progress::Output(line) => {
                self.output.push_back(log_line(&line));
                if self.output.len() > KEPT {
                    self.output.pop_front();
                }
            }
            Progress::Done(step, said) => {
                let took = match self.operation.number(step).checked_sub(1).map(|i| &self.marks[i]) {
                    Some(Mark::Works(at)) => Some(at.age(now).as_secs()),
                    _ => None,
                };
                self.mark(step, Mark::Done(said, took));
            }
            Progress::Skipped(step, said) => self.mark(step, Mark::Done(said, None)),
            Progress::Failed(step, _) => self.mark(step, Mark::Failed),
        }
    }

    /// Takes its end in.
    pub fn end(&mut self, end: OperationEnd, now: Timestamp) {
        self.until = Some(now);
        if matches!(end, OperationEnd::Cancelled(_)) {
            for mark in self.marks.iter_mut().filter(|m| matches!(m, Mark::Works(_))) {
                *mark = Mark::Waits;
            }
        }
        self.stand = match end {
            OperationEnd::Done => Stand::Over("done"),
            OperationEnd::Cancelled(how) => Stand::Over(how),
            OperationEnd::Abandoned => Stand::Over("abandoned"),
            OperationEnd::Stopped(problem, saved) => Stand::Stopped(Some(problem), saved),
        };
    }

    fn mark(&mut self, step: StepName, mark: Mark) {
        if let Some(i) = self.operation.number(step).checked_sub(1) {
            self.marks[i] = mark;
        }
    }

    /// That this very operation is meant when it is resumed.
    pub fn meant(&self) -> Consent {
        Consent { means: Some(self.operation.kind()), ..Consent::default() }
    }

    /// The step it is at, or at which it stopped.
    pub fn step(&self) -> Option<StepName> {
        let at = self.marks.iter().rposition(|m| matches!(m, Mark::Works(_) | Mark::Failed));
        let at = at.or_else(|| self.marks.iter().position(|m| *m == Mark::Waits))?;
        Some(self.operation.steps[at])
    }

    /// `restart 4/9`; once it stopped, `restart stopped at 4/9`.
    pub fn brief(&self) -> String {
        let word = self.operation.kind().word();
        let place = self.step().map_or_else(String::new, |s| {
            format!(" {}/{}", self.operation.number(s), self.operation.steps.len())
        });
        match self.stand {
            Stand::Works | Stand::Elsewhere => format!("{word}{place}"),
            Stand::Cancelling => format!("{word} is cancelled"),
            Stand::Stopped(..) => format!("{word} stopped at{place}"),
            // How things stand then is a sentence of its own.
            Stand::Over(how) => format!("{word} {}", how.split(';').next().unwrap_or_default()),
        }
    }

    /// Whether somebody is at work.
    pub fn is_at_work(&self) -> bool {
        matches!(self.stand, Stand::Works | Stand::Cancelling | Stand::Elsewhere)
    }

    /// Whether it is to be resumed or forgotten before another begins.
    pub fn is_stopped(&self) -> bool {
        matches!(self.stand, Stand::Stopped(..))
    }

    /// Whether it can be cancelled: it works here, and nothing was changed yet, or what was goes on without us.
    pub fn may_be_cancelled(&self) -> bool {
        self.stand == Stand::Works && self.left_behind().is_some()
    }

    /// How things would stand if it was cancelled at the step it is at.
    pub fn left_behind(&self) -> Option<&'static str> {
        self.step().and_then(|s| self.operation.cancelled_at(s))
    }

    /// Whether one may go on past the step at which it stopped.
    pub fn may_be_passed(&self) -> bool {
        self.is_stopped() && self.step().is_some_and(StepName::may_be_passed)
    }

    /// Whether the cluster is expected to be away: it is being stopped or started.
    pub fn takes_down(&self) -> bool {
        self.operation.kind().is_of_cluster()
            && self.is_at_work()
            && !self.step().is_some_and(|s| self.operation.is_harmless_at(s))
    }

    /// What its programs said, oldest first.
    pub fn output(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.output.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterName, Task};

    const T0: Timestamp = Timestamp::from_millis(1_000_000);

    fn restart() -> Running {
        Running::new(Operation::new(Task::Restart { preserve: true }, ClusterName::new("a")), T0)
    }

    #[test]
    fn it_can_be_cancelled_until_something_is_changed() {
        let mut running = restart();
        let later = T0.plus(std::time::Duration::from_secs(7));
        for step in [StepName::Check, StepName::Look, StepName::Backup] {
            running.take(Progress::Began(step), T0);
            assert!(running.may_be_cancelled() && !running.takes_down(), "{step:?}");
            running.take(Progress::Done(step, "seen".into()), later);
        }
        assert_eq!(running.marks[0], Mark::Done("seen".into(), Some(7)));
        running.take(Progress::Began(StepName::Stop), later);
        assert!(!running.may_be_cancelled() && running.takes_down());
        assert_eq!(running.brief(), "restart 4/9");
        running.take(Progress::Output("\x1b[31mred\x1b[0m".into()), later);
        assert_eq!(running.output().collect::<Vec<_>>(), ["red"]);
    }

    #[test]
    fn a_journal_tells_where_it_stopped() {
        let standing = Standing {
            operation: restart().operation,
            since: T0,
            done: vec![(StepName::Check, "ok".into()), (StepName::Look, "2 workers".into())],
            why: "the disk is full".into(),
            saved: None,
            elsewhere: false,
        };
        let running = Running::standing(standing.clone());
        assert_eq!((running.brief().as_str(), running.is_stopped()), ("restart stopped at 3/9", true));
        assert_eq!(running.marks[2], Mark::Failed);
        let elsewhere = Running::standing(Standing { elsewhere: true, ..standing });
        assert!(elsewhere.is_at_work() && !elsewhere.may_be_cancelled());
    }
}
