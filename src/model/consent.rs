//! The reasons to refuse an operation, the operator's permissions, and the reason that remains.
//!
//! The rule about affected jobs is defined only here. The operations service enforces it; dialogs and commands query it
//! first, to show which permissions are required.

use super::{ClusterName, Operation, OperationKind, Others, Preview, Task};

/// Why an order for an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// An option or the settings make the program read-only.
    ReadOnly,
    /// The operation cannot be done on this cluster: provider, file or settings.
    NotOffered,
    /// The cluster is already running, so there is nothing to start.
    AlreadyRunning,
    /// The running cluster matches its file, so there is nothing to update.
    UpToDate,
    /// A change of the cluster file needs a restart of Ray, which was not allowed.
    NeedsRestart,
    /// Another operation on the cluster was interrupted and must be resumed or abandoned first.
    Interrupted,
    /// Another process on this machine is running an operation on the cluster.
    OperationRunning,
    /// No operation on the cluster was interrupted.
    NothingToResume,
    /// The interrupted operation is of a different kind than the named one.
    OtherKind,
    /// The operation was started with a different cluster file than the one that now has this cluster name.
    OtherFile,
    /// Later steps need the step that should be skipped.
    NotSkippable,
    /// The cluster does not respond, so affected jobs are unknown.
    UnknownJobs,
    /// No worker with this name was found, or the work that runs on it could not be read.
    NotChecked,
    /// Work is running on a worker that would be removed at once.
    WorkerBusy,
    /// Other people's jobs would end.
    OthersJobs,
    /// Another operator's operation holds the lock of the cluster.
    Locked,
    /// The confirmation that the operation requires is missing.
    NotConfirmed,
    /// The journal cannot be read or written.
    Journal,
}

impl RefusalReason {
    /// Name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::NotOffered => "not-supported",
            Self::AlreadyRunning => "runs-already",
            Self::UpToDate => "up-to-date",
            Self::NeedsRestart => "needs-restart",
            Self::Interrupted => "interrupted",
            Self::OperationRunning => "operation-running",
            Self::NothingToResume => "nothing-to-resume",
            Self::OtherKind => "different-operation",
            Self::OtherFile => "different-file",
            Self::NotSkippable => "not-skippable",
            Self::UnknownJobs => "unknown-jobs",
            Self::NotChecked => "not-checked",
            Self::WorkerBusy => "worker-busy",
            Self::OthersJobs => "others-jobs",
            Self::Locked => "locked",
            Self::NotConfirmed => "not-confirmed",
            Self::Journal => "journal",
        }
    }
}

/// The confirmation required before an operation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// No confirmation is needed.
    Nothing,
    /// Press a button, or answer yes.
    Yes,
    /// Type the cluster's name.
    Name,
}

/// The confirmation that was given for an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Confirmed {
    /// Not confirmed.
    #[default]
    Not,
    /// Answered yes, or pressed the button.
    Yes,
    /// Confirmed in advance with `--yes`.
    InAdvance,
    /// Confirmed by typing this name.
    Typed(String),
}

impl Confirmed {
    /// Confirmation by a typed cluster name: the full name, or the short name among the displayed clusters, which is
    /// stored as the full name.
    pub fn typed(text: &str, cluster: &ClusterName, short: Option<&str>) -> Self {
        let typed = text.trim();
        let is_short = short.is_some_and(|short| short == typed);
        Self::Typed(if is_short { cluster.as_str() } else { typed }.to_owned())
    }
}

/// The operation of another operator that may be taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TakeOver {
    /// No operation may be taken over.
    #[default]
    None,
    /// The operation whose lock has this id, which the operator has seen.
    Lock(String),
    /// Any operation that holds the lock.
    Any,
}

impl TakeOver {
    /// Whether the operation whose lock has this id may be taken over.
    pub fn covers(&self, id: &str) -> bool {
        match self {
            Self::None => false,
            Self::Lock(seen) => seen == id,
            Self::Any => true,
        }
    }
}

/// The permissions and the confirmation that were given for an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a permission of its own")]
pub struct Consent {
    /// Other people's jobs that may end.
    pub others: Others,
    /// All jobs may end, whoever owns them.
    pub any_owner: bool,
    /// The operation of another operator that may be taken over.
    pub take_over: TakeOver,
    /// Continue although affected jobs are unknown.
    pub unknown: bool,
    /// Work on the worker may end.
    pub now: bool,
    /// The confirmation that was given.
    pub confirmed: Confirmed,
    /// Request capacity without waiting for it.
    pub no_wait: bool,
    /// The kind of the interrupted operation to resume or skip; none if it was not named.
    pub expected_kind: Option<OperationKind>,
}

impl Consent {
    /// Other people's jobs that would end without permission.
    pub fn not_allowed(&self, seen: &Preview) -> Others {
        if self.any_owner { Others::default() } else { seen.others().beyond(&self.others) }
    }

    /// Why affected jobs refuse the operation, given what runs on the cluster; none if it may begin.
    pub fn missing(&self, operation: &Operation, seen: &Preview) -> Option<RefusalReason> {
        if !operation.kind().may_end_jobs() {
            return None;
        }
        let runs_there =
            operation.task == Task::Update || matches!(operation.task.removal(), Some((_, None)));
        if seen.problem.is_some() && !self.unknown {
            return Some(RefusalReason::UnknownJobs);
        }
        if runs_there && !self.now && !seen.jobs.is_empty() {
            return Some(RefusalReason::WorkerBusy);
        }
        (!self.not_allowed(seen).is_empty()).then_some(RefusalReason::OthersJobs)
    }

    /// Whether the confirmation that the operation requires was given.
    pub fn confirms(&self, operation: &Operation) -> bool {
        match (operation.confirmation(), &self.confirmed) {
            (Confirmation::Nothing, _)
            | (_, Confirmed::InAdvance)
            | (Confirmation::Yes, Confirmed::Yes | Confirmed::Typed(_)) => true,
            (Confirmation::Name, Confirmed::Typed(name)) => name.trim() == operation.cluster.as_str(),
            (_, Confirmed::Not) | (Confirmation::Name, Confirmed::Yes) => false,
        }
    }

    /// This consent with the permission that overrides this reason, given what runs on the cluster; none if no permission
    /// does.
    pub fn passing(mut self, reason: RefusalReason, seen: &Preview) -> Option<Self> {
        match reason {
            RefusalReason::UnknownJobs => self.unknown = true,
            RefusalReason::WorkerBusy => self.now = true,
            RefusalReason::OthersJobs => {
                let more = self.not_allowed(seen);
                self.others.extend(more);
            }
            _ => return None,
        }
        Some(self)
    }
}

impl Operation {
    /// The confirmation required before it begins.
    pub const fn confirmation(&self) -> Confirmation {
        match (self.kind().is_of_cluster(), self.destructive) {
            (true, true) => Confirmation::Name,
            (true, false) if matches!(self.task, Task::Update) => Confirmation::Yes,
            (true, false) => Confirmation::Nothing,
            (false, _) => Confirmation::Yes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        AffectedJob, JobKey, JobStatus, Problem, ProblemKind, Restoration, SubmissionId, Task, Timestamp,
    };

    fn seen(owners: &[&str]) -> Preview {
        let job = |owner: &&str| AffectedJob {
            key: JobKey::Submission(SubmissionId("j".into())),
            owner: Some((*owner).into()),
            status: JobStatus::Running,
            started: None,
            holds: None,
            restoration: Restoration::Back,
        };
        Preview {
            jobs: owners.iter().map(job).collect(),
            me: "me".into(),
            problem: None,
            ..Preview::default()
        }
    }

    fn of(task: Task) -> Operation {
        Operation::new(task, ClusterName::new("lab"))
    }

    #[test]
    fn a_permission_passes_its_gate_and_no_other() {
        let restart = of(Task::Restart { preserve: true });
        let none = Consent::default();
        assert_eq!(none.missing(&restart, &seen(&["me"])), None);
        let others = seen(&["bo", "me", "al"]);
        assert_eq!(none.missing(&restart, &others), Some(RefusalReason::OthersJobs));
        let allowed = none.clone().passing(RefusalReason::OthersJobs, &others).unwrap();
        assert_eq!(allowed.missing(&restart, &others), None);
        assert_eq!(allowed.others.people, ["al", "bo"]);
        assert_eq!(allowed.missing(&restart, &seen(&["cy"])), Some(RefusalReason::OthersJobs), "not allowed");
        let problem = Problem::new(ProblemKind::Unreachable, "no route", "", Timestamp::from_millis(0));
        let blind = Preview { problem: Some(problem), ..Preview::default() };
        assert_eq!(allowed.missing(&restart, &blind), Some(RefusalReason::UnknownJobs));
        assert_eq!(Consent { unknown: true, ..none.clone() }.missing(&restart, &blind), None);
        let remove = of(Task::RemoveWorker { worker: "w".into(), drain: None });
        assert_eq!(none.missing(&remove, &seen(&["me"])), Some(RefusalReason::WorkerBusy));
        assert_eq!(Consent { now: true, ..none.clone() }.missing(&remove, &seen(&["me"])), None);
        assert_eq!(none.missing(&of(Task::Start), &blind), None);
        assert_eq!(none.passing(RefusalReason::ReadOnly, &blind), None);
    }

    #[test]
    fn a_whole_cluster_is_confirmed_by_its_name() {
        let given = |confirmed| Consent { confirmed, ..Consent::default() };
        let (stop, init) = (of(Task::Stop), of(Task::InitWorker { worker: "w".into() }));
        let typed = |name: &str| given(Confirmed::Typed(name.into()));
        assert!(typed("lab").confirms(&stop) && given(Confirmed::InAdvance).confirms(&stop));
        assert!(!typed("la").confirms(&stop) && !given(Confirmed::Yes).confirms(&stop));
        let short = |text| given(Confirmed::typed(text, &stop.cluster, Some("b")));
        assert!(short("b").confirms(&stop) && short(" lab ").confirms(&stop));
        assert!(!short("a").confirms(&stop) && !typed("b").confirms(&stop));
        assert!(given(Confirmed::Yes).confirms(&init) && !given(Confirmed::Not).confirms(&init));
        assert!(given(Confirmed::Not).confirms(&of(Task::Start)));
    }
}
