//! An operation on a cluster or its workers as the screen shows it: its steps, its output and its status.

use crate::model::text::log_line;
use crate::model::{
    CancelledState, Consent, JournaledOperation, Operation, OperationEnd, Problem, Progress, StepName,
    Timestamp,
};
use std::collections::VecDeque;

/// Maximum number of output lines kept.
const MAX_OUTPUT_LINES: usize = 500;

/// The status of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepState {
    /// It has not started.
    Waiting,
    /// Running since then.
    Running(Timestamp),
    /// Done: its result, and its duration in seconds if it ran here.
    Done(String, Option<u64>),
    /// It failed; the operation is interrupted there.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationState {
    /// Running in this process.
    Running,
    /// Asked to cancel; it ends before its next step.
    Cancelling,
    /// Running in another process on this machine.
    Elsewhere,
    /// Interrupted: the problem (none when its process was killed), and the directory of its saved jobs.
    Interrupted(Option<Problem>, Option<String>),
    /// Over, with this outcome.
    Ended(Ending),
}

/// The outcome of an operation that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All steps are done.
    Done,
    /// Cancelled, which leaves this state.
    Cancelled(CancelledState),
    /// Given up by an operator; the cluster was left as it was then.
    Abandoned,
}

impl Ending {
    /// The outcome in one word.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Cancelled(_) => "cancelled",
            Self::Abandoned => "abandoned",
        }
    }
}

/// An operation that is running or interrupted, or has just ended.
#[derive(Clone, Debug)]
pub struct OperationProgress {
    /// The operation with its steps.
    pub operation: Operation,
    /// The time of its start or of its last resume.
    pub since: Timestamp,
    /// Time of its end or interruption.
    pub until: Option<Timestamp>,
    /// The status of each step.
    pub steps: Vec<StepState>,
    /// The status of the operation.
    pub state: OperationState,
    /// What it could not do although all steps are completed.
    pub shortfall: Option<Problem>,
    output: VecDeque<String>,
}

impl OperationProgress {
    /// An operation that starts or resumes at that time.
    pub fn new(operation: Operation, since: Timestamp) -> Self {
        let steps = vec![StepState::Waiting; operation.steps.len()];
        let state = OperationState::Running;
        Self { operation, since, until: None, steps, state, shortfall: None, output: VecDeque::new() }
    }

    /// The operation as its journal describes it.
    pub fn journaled(journaled: JournaledOperation) -> Self {
        let mut running = Self::new(journaled.operation, journaled.since);
        for (step, result) in journaled.done {
            running.note(step, StepState::Done(result, None));
        }
        running.state = match (journaled.elsewhere, journaled.why.as_str()) {
            (true, _) => OperationState::Elsewhere,
            (false, "") => OperationState::Interrupted(None, journaled.saved),
            (false, why) => {
                if let Some(step) = running.steps.iter_mut().find(|m| **m == StepState::Waiting) {
                    *step = StepState::Failed;
                }
                let problem = Problem::new(crate::model::ProblemKind::Other, why, "", journaled.since);
                OperationState::Interrupted(Some(problem), journaled.saved)
            }
        };
        running
    }

    /// Applies an event of the operation.
    pub fn take(&mut self, progress: Progress, now: Timestamp) {
        match progress {
            Progress::Began(step) => {
                if self.state == OperationState::Cancelling && !self.operation.is_harmless_at(step) {
                    // The cancellation came too late.
                    self.state = OperationState::Running;
                }
                self.note(step, StepState::Running(now));
            }
            Progress::Output(line) => {
                self.output.push_back(log_line(&line));
                if self.output.len() > MAX_OUTPUT_LINES {
                    self.output.pop_front();
                }
            }
            Progress::Done(step, result) => {
                let took = match self.operation.number(step).checked_sub(1).map(|i| &self.steps[i]) {
                    Some(StepState::Running(at)) => Some(at.age(now).as_secs()),
                    _ => None,
                };
                self.note(step, StepState::Done(result, took));
            }
            Progress::Skipped(step, result) => self.note(step, StepState::Done(result, None)),
            Progress::Failed(step, _) => self.note(step, StepState::Failed),
        }
    }

    /// Applies the end of the operation.
    pub fn end(&mut self, end: OperationEnd, now: Timestamp) {
        self.until = Some(now);
        if matches!(end, OperationEnd::Cancelled(_)) {
            for step in self.steps.iter_mut().filter(|m| matches!(m, StepState::Running(_))) {
                *step = StepState::Waiting;
            }
        }
        self.state = match end {
            OperationEnd::Done => OperationState::Ended(Ending::Done),
            OperationEnd::Cancelled(left) => OperationState::Ended(Ending::Cancelled(left)),
            OperationEnd::Abandoned => OperationState::Ended(Ending::Abandoned),
            OperationEnd::Stopped(problem, saved) => OperationState::Interrupted(Some(problem), saved),
        };
    }

    fn note(&mut self, step: StepName, state: StepState) {
        if let Some(i) = self.operation.number(step).checked_sub(1) {
            self.steps[i] = state;
        }
    }

    /// The consent to resume this very operation.
    pub fn consent_to_resume(&self) -> Consent {
        Consent { expected_kind: Some(self.operation.kind()), ..Consent::default() }
    }

    /// The step that is running or failed.
    pub fn step(&self) -> Option<StepName> {
        let at = self.steps.iter().rposition(|m| matches!(m, StepState::Running(_) | StepState::Failed));
        let at = at.or_else(|| self.steps.iter().position(|m| *m == StepState::Waiting))?;
        Some(self.operation.steps[at])
    }

    /// `restart 4/9`; when it is interrupted, `restart 4/9 interrupted`.
    pub fn brief(&self) -> String {
        let word = self.operation.kind().label();
        let position = self.step().map_or_else(String::new, |s| {
            format!(" {}/{}", self.operation.number(s), self.operation.steps.len())
        });
        match self.state {
            OperationState::Running | OperationState::Elsewhere => format!("{word}{position}"),
            OperationState::Cancelling => format!("cancelling {word}"),
            OperationState::Interrupted(..) => format!("{word}{position} interrupted"),
            OperationState::Ended(over) => format!("{word} {}", over.label()),
        }
    }

    /// Whether it is running, here or in another process.
    pub fn is_active(&self) -> bool {
        matches!(self.state, OperationState::Running | OperationState::Cancelling | OperationState::Elsewhere)
    }

    /// Whether it is interrupted: it must be resumed or abandoned before another operation starts.
    pub fn is_interrupted(&self) -> bool {
        matches!(self.state, OperationState::Interrupted(..))
    }

    /// Whether it can be cancelled: it runs here, and nothing was changed yet, or the change completes without us.
    pub fn may_be_cancelled(&self) -> bool {
        self.state == OperationState::Running && self.leftovers().is_some()
    }

    /// The state that is left if it is cancelled at the current step.
    pub fn leftovers(&self) -> Option<CancelledState> {
        self.step().and_then(|s| self.operation.cancelled_at(s))
    }

    /// Whether the failed step may be skipped.
    pub fn is_skippable(&self) -> bool {
        self.is_interrupted() && self.step().is_some_and(StepName::is_skippable)
    }

    /// Whether the cluster is expected to be down: it is being stopped or started.
    pub fn takes_down(&self) -> bool {
        self.operation.kind().takes_down()
            && self.is_active()
            && !self.step().is_some_and(|s| self.operation.is_harmless_at(s))
    }

    /// The output of its programs, oldest line first.
    pub fn output(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.output.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use crate::app::operation::progress::*;
    use crate::model::{ClusterName, Task};

    const T0: Timestamp = Timestamp::from_millis(1_000_000);

    fn restart() -> OperationProgress {
        OperationProgress::new(Operation::new(Task::Restart { preserve: true }, ClusterName::new("a")), T0)
    }

    #[test]
    fn it_can_be_cancelled_until_it_changes_something() {
        let mut running = restart();
        let later = T0.plus(std::time::Duration::from_secs(7));
        for step in [StepName::Check, StepName::ReadState, StepName::Backup] {
            running.take(Progress::Began(step), T0);
            assert!(running.may_be_cancelled() && !running.takes_down(), "{step:?}");
            running.take(Progress::Done(step, "seen".into()), later);
        }
        assert_eq!(running.steps[0], StepState::Done("seen".into(), Some(7)));
        running.take(Progress::Began(StepName::Stop), later);
        assert!(!running.may_be_cancelled() && running.takes_down());
        assert_eq!(running.brief(), "restart 4/9");
        running.take(Progress::Output("\x1b[31mred\x1b[0m".into()), later);
        assert_eq!(running.output().collect::<Vec<_>>(), ["red"]);
    }

    #[test]
    fn a_journal_records_the_interrupted_step() {
        let journaled = JournaledOperation {
            operation: restart().operation,
            since: T0,
            done: vec![(StepName::Check, "ok".into()), (StepName::ReadState, "2 workers".into())],
            why: "the disk is full".into(),
            saved: None,
            elsewhere: false,
        };
        let running = OperationProgress::journaled(journaled.clone());
        assert_eq!((running.brief().as_str(), running.is_interrupted()), ("restart 3/9 interrupted", true));
        assert_eq!(running.steps[2], StepState::Failed);
        let elsewhere = OperationProgress::journaled(JournaledOperation { elsewhere: true, ..journaled });
        assert!(elsewhere.is_active() && !elsewhere.may_be_cancelled());
    }
}
