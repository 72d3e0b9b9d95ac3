//! An operation as a value: its task, cluster, steps and consequence.
//!
//! Dialogs, command line, journal and audit log all use this value.

use super::{ClusterName, Hint, Problem, StepName, Verb};
use serde::{Deserialize, Serialize};

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// Stops the cluster and starts it again, with its jobs.
    Restart,
    /// Starts a cluster.
    Start,
    /// Stops a cluster.
    Stop,
    /// Applies the changes of a cluster's file to the running cluster.
    Update,
    /// Adds workers outside the autoscaler.
    AddWorker,
    /// Restarts Ray on a worker.
    InitWorker,
    /// Removes a worker.
    RemoveWorker,
}

impl OperationKind {
    /// Name of the kind as shown on the screen.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Update => "update",
            Self::AddWorker => "add worker",
            Self::InitWorker => "restart Ray on",
            Self::RemoveWorker => "remove worker",
        }
    }

    /// The `marin-tui` command for this kind of operation.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Restart => "restart-cluster",
            Self::Start => "start-cluster",
            Self::Stop => "stop-cluster",
            Self::Update => "update-cluster",
            Self::AddWorker => "add-worker",
            Self::InitWorker => "init-worker",
            Self::RemoveWorker => "remove-worker",
        }
    }

    /// Whether it affects the whole cluster.
    pub const fn is_of_cluster(self) -> bool {
        self.takes_down() || matches!(self, Self::Update)
    }

    /// Whether the cluster does not respond during the operation.
    pub const fn takes_down(self) -> bool {
        matches!(self, Self::Restart | Self::Start | Self::Stop)
    }

    /// Whether the operation may end jobs, so that affected jobs must be checked first.
    pub const fn may_end_jobs(self) -> bool {
        !matches!(self, Self::Start | Self::AddWorker)
    }
}

/// The task of an operation, as ordered and as written to the journal; it is sufficient to start the operation again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Restart the cluster.
    Restart {
        /// Whether jobs are saved and resubmitted.
        preserve: bool,
    },
    /// Start the cluster.
    Start,
    /// Stop the cluster.
    Stop,
    /// Apply the changes of the cluster file while the cluster runs.
    Update,
    /// Add workers outside the autoscaler.
    AddWorker(NewWorker),
    /// Restart Ray on a worker.
    InitWorker {
        /// Name of a TPU VM, or address of a host.
        worker: String,
    },
    /// Remove a worker.
    RemoveWorker {
        /// Name of a TPU VM or a queued resource, or address of a host.
        worker: String,
        /// Drain timeout in seconds; none removes the worker at once.
        drain: Option<u64>,
    },
    /// Remove several workers in turn.
    RemoveWorkers {
        /// Names of TPU VMs or queued resources, or addresses of hosts; one for each worker.
        workers: Vec<String>,
        /// Drain timeout of each in seconds; none removes them at once.
        drain: Option<u64>,
        /// How many are removed at a time.
        at_once: usize,
    },
}

/// Workers to be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NewWorker {
    /// TPUs, each requested as a queued resource at Google.
    Queued {
        /// A node type of the cluster file, or an accelerator type (`v4-128`).
        node_type: String,
        /// Type of capacity to request: a value of the setting `tpu_capacity`.
        capacity: String,
        /// One name per worker.
        names: Vec<String>,
    },
    /// An existing host, reached by SSH (provider `local`).
    Host {
        /// Its address, as Ray will report it.
        address: String,
    },
}

impl Task {
    /// The kind of operation.
    pub const fn kind(&self) -> OperationKind {
        match self {
            Self::Restart { .. } => OperationKind::Restart,
            Self::Start => OperationKind::Start,
            Self::Stop => OperationKind::Stop,
            Self::Update => OperationKind::Update,
            Self::AddWorker(_) => OperationKind::AddWorker,
            Self::InitWorker { .. } => OperationKind::InitWorker,
            Self::RemoveWorker { .. } | Self::RemoveWorkers { .. } => OperationKind::RemoveWorker,
        }
    }

    /// The label of its kind, in the plural for several workers.
    fn label(&self) -> &'static str {
        match self {
            Self::AddWorker(NewWorker::Queued { names, .. }) if names.len() > 1 => "add workers",
            Self::RemoveWorkers { workers, .. } if workers.len() > 1 => "remove workers",
            task => task.kind().label(),
        }
    }

    /// The worker that the task affects; empty if it affects the whole cluster or several workers.
    pub fn worker(&self) -> &str {
        match self {
            Self::AddWorker(NewWorker::Queued { names, .. }) => match names.as_slice() {
                [only] => only,
                _ => "",
            },
            Self::AddWorker(NewWorker::Host { address: worker })
            | Self::InitWorker { worker }
            | Self::RemoveWorker { worker, .. } => worker,
            Self::RemoveWorkers { .. } | Self::Restart { .. } | Self::Start | Self::Stop | Self::Update => "",
        }
    }

    /// The names of the TPUs that it requests from Google; empty for other tasks.
    pub fn requested(&self) -> &[String] {
        match self {
            Self::AddWorker(NewWorker::Queued { names, .. }) => names,
            _ => &[],
        }
    }

    /// What remains at Google if it is not completed, and how to delete it; no fix if it requests nothing. `accepted`
    /// is whether Google has accepted all requests; `verb` removes a worker, and `when` precedes the first purpose.
    pub fn left_at_google(&self, accepted: bool, verb: Verb, when: &str) -> Hint {
        let stays = match (self.requested().len(), accepted) {
            (0, _) => return Hint::none(),
            (1, true) => "the request remains in Google Cloud, and its TPU is billed once it exists",
            (_, true) => "the requests remain in Google Cloud, and their TPUs are billed once they exist",
            (1, false) => "if Google has accepted the request, it remains",
            (_, false) => "requests already accepted by Google remain",
        };
        Hint::from(stays).and(self.deletion_of_requests(verb, when))
    }

    /// The fixes that delete its requests: one for each, because a removal of several workers fails if Google has not
    /// accepted all of them.
    fn deletion_of_requests(&self, verb: Verb, when: &str) -> Hint {
        let names = self.requested();
        let fix = |(i, name): (usize, &String)| {
            let when = if i == 0 { when } else { "" };
            let what = if names.len() == 1 { "it" } else { name.as_str() };
            verb.on(name, format!("{when}delete {what}"))
        };
        names.iter().enumerate().fold(Hint::none(), |hint, named| hint.and(fix(named)))
    }

    /// The workers that it removes, and the drain timeout of each in seconds (none: at once); none for other tasks.
    pub fn removal(&self) -> Option<(&[String], Option<u64>)> {
        match self {
            Self::RemoveWorker { worker, drain } => Some((std::slice::from_ref(worker), *drain)),
            Self::RemoveWorkers { workers, drain, .. } => Some((workers, *drain)),
            _ => None,
        }
    }

    /// The workers that the task affects, safe to print; empty if it affects the whole cluster.
    pub fn subject(&self) -> String {
        let name = match self {
            Self::Restart { .. } | Self::Start | Self::Stop | Self::Update => return String::new(),
            Self::AddWorker(NewWorker::Queued { names, .. }) => match names.as_slice() {
                [first, _, .., last] => format!("{first} through {last}"),
                few => few.join(", "),
            },
            Self::AddWorker(NewWorker::Host { address }) => address.clone(),
            Self::InitWorker { worker } | Self::RemoveWorker { worker, .. } => worker.clone(),
            Self::RemoveWorkers { workers, .. } => match workers.as_slice() {
                [first, second, _, rest @ ..] if !rest.is_empty() => {
                    format!("{first}, {second} and {} more", rest.len() + 1)
                }
                few => few.join(", "),
            },
        };
        super::text::printable(&name).into_owned()
    }

    /// The steps of its operation in order, and their effect on jobs and machines, in one sentence.
    fn plan(&self) -> (Vec<StepName>, &'static str) {
        use StepName::{
            Apply, Backup, Capacity, Check, CleanUp, Drain, Find, Join, ReadState, Remove, RemoveEach,
            RequestTpus, Restore, Start, StartRay, Stop, Verify, WaitForRay, WaitUntilGone, Workers,
        };
        match self {
            Self::Restart { preserve: true } => (
                vec![Check, ReadState, Backup, Stop, CleanUp, Start, WaitForRay, Restore, Workers],
                "running jobs will be stopped and resubmitted from the beginning; manually started drivers will be lost",
            ),
            Self::Restart { preserve: false } => (
                vec![Check, ReadState, Stop, CleanUp, Start, WaitForRay, Workers],
                "running jobs will be stopped and lost",
            ),
            Self::Start => {
                (vec![Check, Start, WaitForRay], "Ray will be started on the head and its workers")
            }
            Self::Stop => (
                vec![Check, ReadState, Stop, CleanUp],
                "running jobs will be stopped and lost, and Ray will be stopped",
            ),
            Self::Update => (
                vec![Check, ReadState, Apply, Verify],
                "changes of the cluster file will be applied with `ray up --no-restart`; Ray keeps running",
            ),
            Self::AddWorker(NewWorker::Queued { .. }) => (
                vec![RequestTpus, Capacity, Join],
                "TPUs will be requested from Google and billed once they are up",
            ),
            Self::AddWorker(NewWorker::Host { .. }) => (
                vec![Find, StartRay, Join],
                "Ray will be started there as a worker; if Ray is already running there, it will be stopped",
            ),
            Self::InitWorker { .. } => (
                vec![Find, StartRay, Join],
                "Ray will be restarted there, on all hosts of a TPU; running work there will be stopped",
            ),
            Self::RemoveWorker { drain: None, .. } => (
                vec![Find, Remove, WaitUntilGone],
                "running work there will be stopped; a TPU will be deleted with all its hosts and disks",
            ),
            Self::RemoveWorker { drain: Some(_), .. } => (
                vec![Find, Drain, Remove, WaitUntilGone],
                "the worker will be drained and removed once idle; a TPU will be deleted with all its hosts and disks",
            ),
            Self::RemoveWorkers { drain: None, .. } => (
                vec![Find, RemoveEach],
                "running work there will be stopped; TPUs will be deleted with all their hosts and disks, one after another",
            ),
            Self::RemoveWorkers { drain: Some(_), .. } => (
                vec![Find, RemoveEach],
                "the workers will be drained and removed once idle, one after another; TPUs will be deleted with all their hosts and disks",
            ),
        }
    }
}

/// The state that a cancelled operation leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelledState {
    /// Nothing was changed.
    Unchanged,
    /// Google has the request for a TPU.
    Requested,
    /// Ray was started on the worker, which has not joined yet.
    Joining,
    /// The worker is draining, unless Ray had not answered yet.
    Draining,
}

impl CancelledState {
    /// The state in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unchanged => "nothing was changed",
            Self::Requested => "the request remains in Google Cloud",
            Self::Joining => "Ray was started there, and the host may still join",
            Self::Draining => "if Ray has accepted the drain, the worker stops once idle",
        }
    }

    /// What to do after this task was cancelled.
    pub fn hint(self, task: &Task) -> Hint {
        let worker = task.worker();
        match self {
            Self::Unchanged => Hint::none(),
            Self::Requested => {
                let again = if task.requested().len() == 1 {
                    "to wait again, add it with the same type, capacity and name"
                } else {
                    "to wait again, add them with the same type, capacity, count and name"
                };
                Hint::from(again).and(task.deletion_of_requests(Verb::RemoveNow, "or "))
            }
            // Ray does not know a host that has never joined.
            Self::Joining if matches!(task, Task::AddWorker(NewWorker::Host { .. })) => {
                "if it does not, add it again".into()
            }
            Self::Joining if task.requested().len() > 1 => {
                let fix = |name: &String| {
                    Verb::InitWorker.on(name, format!("if {name} does not, restart Ray on it"))
                };
                task.requested().iter().fold(Hint::none(), |hint, name| hint.and(fix(name)))
            }
            Self::Joining => Verb::InitWorker.on(worker, "if it does not, restart Ray on it").into(),
            Self::Draining => Hint::from([
                Verb::RemoveNow.on(worker, "delete it"),
                Verb::InitWorker.on(worker, "or, to keep it, restart Ray on it"),
            ]),
        }
    }
}

/// An operation on one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The task of the operation.
    pub task: Task,
    /// The cluster that the operation changes.
    pub cluster: ClusterName,
    /// Title of the operation, e.g. `restart us-central2`.
    pub title: String,
    /// The effect of the operation on jobs and machines, in one sentence.
    pub consequence: String,
    /// The steps in order.
    pub steps: Vec<StepName>,
    /// Whether the operation may end something that is running.
    pub destructive: bool,
}

impl Operation {
    /// The operation for a task on a cluster.
    pub fn new(task: Task, cluster: ClusterName) -> Self {
        let (steps, consequence) = task.plan();
        let (kind, label) = (task.kind(), task.label());
        let title = match task.subject() {
            subject if subject.is_empty() => format!("{label} {cluster}"),
            subject => format!("{label} {subject} ({cluster})"),
        };
        Self {
            title,
            cluster,
            consequence: consequence.to_owned(),
            steps,
            // Ending work by an update has a gate of its own.
            destructive: kind.may_end_jobs() && kind != OperationKind::Update,
            task,
        }
    }

    /// The kind of operation.
    pub const fn kind(&self) -> OperationKind {
        self.task.kind()
    }

    /// An announcement for the team's channel, to send before the operation begins.
    pub fn announcement(&self) -> String {
        format!(
            "I am about to {}: {}. If this is a problem, please tell me now.",
            self.title, self.consequence
        )
    }

    /// The label in the audit log: `restart us-central2`, `add-worker extra (v4-8, reserved)`.
    pub fn audit_label(&self) -> String {
        let (command, subject) = (self.kind().command(), self.task.subject());
        match &self.task {
            Task::Restart { .. } | Task::Start | Task::Stop | Task::Update => self.title.clone(),
            Task::AddWorker(NewWorker::Queued { node_type, capacity, .. }) => {
                let how = format!("{node_type}, {capacity}");
                format!("{command} {subject} ({})", super::text::printable(&how))
            }
            Task::AddWorker(_)
            | Task::InitWorker { .. }
            | Task::RemoveWorker { .. }
            | Task::RemoveWorkers { .. } => format!("{command} {subject}"),
        }
    }

    /// Whether the operation may be cancelled at this step: nothing was changed, or the change completes on its own.
    pub fn is_harmless_at(&self, step: StepName) -> bool {
        self.cancelled_at(step).is_some()
    }

    /// The remaining state if the operation is cancelled at this step; none if it must not be cancelled.
    pub fn cancelled_at(&self, step: StepName) -> Option<CancelledState> {
        if self.steps.iter().take(self.number(step)).all(|s| s.changes_nothing()) {
            return Some(CancelledState::Unchanged);
        }
        match step {
            // The wait may take hours and blocks other operations on the cluster.
            StepName::Capacity => Some(CancelledState::Requested),
            StepName::Join => Some(CancelledState::Joining),
            StepName::Drain => Some(CancelledState::Draining),
            _ => None,
        }
    }

    /// [`Self::cancelled_at`] for a resumed operation: cancelling its first, read-only steps does not undo the changes
    /// of an earlier attempt. `done` are the steps of that attempt.
    pub fn cancelled_again(&self, step: StepName, done: &[(StepName, String)]) -> Option<CancelledState> {
        let next = self.steps.iter().copied().find(|s| !done.iter().any(|(d, _)| d == s));
        let reached = next.filter(|n| !done.is_empty() && self.number(*n) > self.number(step));
        self.cancelled_at(reached.unwrap_or(step))
    }

    /// The first step that is not done.
    pub fn next(&self, done: &[(StepName, String)]) -> Option<StepName> {
        self.steps.iter().copied().find(|step| !done.iter().any(|(d, _)| d == step))
    }

    /// The position of a step: `step 4 of 9 (ray down)`.
    pub fn position(&self, step: StepName) -> String {
        format!("step {} of {} ({})", self.number(step), self.steps.len(), step.label())
    }

    /// The number of a step, from 1.
    pub fn number(&self, step: StepName) -> usize {
        self.steps.iter().position(|s| *s == step).map_or(0, |i| i + 1)
    }
}

/// Progress of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A step begins.
    Began(StepName),
    /// A line that a program printed, safe to show.
    Output(String),
    /// A step is done, with its result.
    Done(StepName, String),
    /// A step that was completed before the operation was interrupted, with its result.
    Skipped(StepName, String),
    /// A step failed; the operation can be resumed there.
    Failed(StepName, Problem),
}

/// The message when a cluster to be started is already running, with the number of jobs that have not ended.
pub fn runs_already(jobs: usize) -> String {
    match jobs {
        0 => "already running, without jobs".to_owned(),
        1 => "already running, with 1 job that has not ended".to_owned(),
        n => format!("already running, with {n} jobs that have not ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_saved_before_anything_is_stopped() {
        let restart = Operation::new(Task::Restart { preserve: true }, ClusterName::new("a"));
        assert!(restart.number(StepName::Backup) < restart.number(StepName::Stop));
        assert!(restart.number(StepName::CleanUp) < restart.number(StepName::Restore));
        assert!(restart.destructive && restart.title == "restart a");
        assert!(restart.is_harmless_at(StepName::Backup) && !restart.is_harmless_at(StepName::Stop));
        assert!(!restart.is_harmless_at(StepName::Workers), "a cancel after `ray down` is not harmless");
        assert_eq!(restart.audit_label(), "restart a");
        let done = |steps: &[StepName]| steps.iter().map(|s| (*s, String::new())).collect::<Vec<_>>();
        let saved = done(&[StepName::Check, StepName::ReadState, StepName::Backup]);
        let again = |done: &[(StepName, String)]| restart.cancelled_again(StepName::Check, done).is_some();
        assert!(again(&[]) && again(&saved[..2]) && !again(&saved), "`ray down` may have begun");
        let lossy = Operation::new(Task::Restart { preserve: false }, ClusterName::new("a"));
        assert!(lossy.number(StepName::Backup) == 0 && lossy.consequence.contains("lost"));
    }

    #[test]
    fn waiting_for_google_can_be_cancelled() {
        let wanted = NewWorker::Queued {
            node_type: "v4-8".into(),
            capacity: "reserved".into(),
            names: vec!["x-1".into(), "x\x1b-2".into()],
        };
        let add = Operation::new(Task::AddWorker(wanted), ClusterName::new("a"));
        assert_eq!(add.audit_label(), "add-worker x-1, x·-2 (v4-8, reserved)");
        assert_eq!(add.title, "add workers x-1, x·-2 (a)");
        assert!(
            !add.is_harmless_at(StepName::RequestTpus),
            "it would be unknown whether Google accepted the request"
        );
        assert!(add.cancelled_at(StepName::Capacity).unwrap().text().contains("remains in Google Cloud"));
        let remove = Task::RemoveWorker { worker: "w".into(), drain: Some(60) };
        let remove = Operation::new(remove, ClusterName::new("a"));
        assert_eq!(remove.cancelled_at(StepName::Find), Some(CancelledState::Unchanged));
        assert!(remove.is_harmless_at(StepName::Drain) && !remove.is_harmless_at(StepName::Remove));
        let left = CancelledState::Draining.hint(&remove.task).to_string();
        assert!(left.contains("remove-worker w --now") && left.contains("init-worker w"), "{left}");
    }

    #[test]
    fn each_of_several_requests_has_its_own_command() {
        let add = |names: &[&str]| {
            Task::AddWorker(NewWorker::Queued {
                node_type: "v4-8".into(),
                capacity: "reserved".into(),
                names: names.iter().map(ToString::to_string).collect(),
            })
        };
        let both = "delete w-1: `marin-tui remove-worker w-1 --now`; delete w-2: `marin-tui remove-worker w-2 --now`";
        let (one, two) = (add(&["w-1"]), add(&["w-1", "w-2"]));
        let left = |task: &Task, accepted| task.left_at_google(accepted, Verb::RemoveNow, "").to_string();
        let accepted = "requests already accepted by Google remain";
        assert_eq!(left(&two, false), format!("{accepted}; {both}"));
        let accepted = "the request remains in Google Cloud, and its TPU is billed once it exists";
        assert_eq!(left(&one, true), format!("{accepted}; delete it: `marin-tui remove-worker w-1 --now`"));
        assert!(Task::Start.left_at_google(true, Verb::RemoveNow, "").is_empty());
        let cancelled = CancelledState::Requested.hint(&two).to_string();
        assert!(cancelled.ends_with(&format!("; or {both}")), "{cancelled}");
        let joining = CancelledState::Joining.hint(&two).to_string();
        assert!(joining.contains("init-worker w-1`") && joining.contains("init-worker w-2`"), "{joining}");
        for hint in [cancelled, joining] {
            assert!(!hint.contains("NAME"), "{hint}");
        }
    }

    #[test]
    fn a_host_that_has_not_joined_is_added_again() {
        let host = Task::AddWorker(NewWorker::Host { address: "10.0.0.7".into() });
        assert_eq!(CancelledState::Joining.hint(&host).to_string(), "if it does not, add it again");
        let known = Task::InitWorker { worker: "10.0.0.7".into() };
        assert!(CancelledState::Joining.hint(&known).to_string().contains("init-worker 10.0.0.7"));
    }
}
