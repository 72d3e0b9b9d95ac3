//! A finding: its kind, its severity, its texts.

use crate::model::{Hint, JobKey, Problem, ProblemKind, Text, Timestamp, WarningKind};
use std::time::Duration;

/// A finding first seen within this time shows no age.
const JUST_SEEN: Duration = Duration::from_secs(60);

/// The severity of a finding, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Needs action.
    Bad,
    /// May need action.
    Warn,
    /// Needs no action.
    Info,
}

impl Severity {
    /// The severity in a word, for commands and JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Bad => "issue",
            Self::Warn => "warning",
            Self::Info => "info",
        }
    }
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// The connection to the cluster is broken, or its file is invalid.
    Unreachable,
    /// Several heads of the cluster are running.
    MultipleHeads,
    /// There is unmet demand, and the autoscaler launches nothing.
    Stuck,
    /// The autoscaler has stopped reporting.
    Silent,
    /// The dashboard does not answer, though the GCS does.
    DashboardSilent,
    /// The autoscaler reports an error.
    AutoscalerError,
    /// The autoscaler's launches fail.
    LaunchesFailing,
    /// Machines were launched, but none of them joins.
    NodesNotJoining,
    /// Ray was restarted by another person.
    Restarted,
    /// A node has been joining for too long.
    JoinDelayed,
    /// Nodes died recently without being stopped.
    NodesLost,
    /// A slice has fewer hosts than it needs.
    SliceIncomplete,
    /// No node type can meet a demand.
    Infeasible,
    /// There is unmet demand and nothing is launched, for an unknown reason.
    Unmet,
    /// Preempted TPUs are not deleted.
    HoldsQuota,
    /// A TPU has been creating or in repair at Google for too long.
    TpuDelayed,
    /// The loss of a run is infinite or NaN.
    LossNotFinite,
    /// A run no longer completes steps.
    Stalled,
    /// The loss of a run has risen above its trend.
    Diverging,
    /// A driver is running, but its workers have ended.
    DriverAlone,
    /// A job holds chips that are idle.
    ChipsIdle,
    /// A run completes fewer steps per second than before.
    Slowed,
    /// The last checkpoint of a run is older than the limit.
    CheckpointOverdue,
    /// Jobs have been pending for longer than the limit.
    PendingTooLong,
    /// Parts of the state could not be read.
    PartialData,
    /// Nodes are pending.
    Scaling,
    /// The cluster is unused.
    Idle,
}

impl FindingKind {
    /// The kind in a few words; [`Finding::label`] is what is shown.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unreachable => ProblemKind::Unreachable.text(),
            Self::MultipleHeads => ProblemKind::MultipleHeads.text(),
            Self::Stuck => "autoscaler stuck",
            Self::Silent => "autoscaler not reporting",
            Self::DashboardSilent => ProblemKind::DashboardSilent.text(),
            Self::AutoscalerError => "autoscaler error",
            Self::LaunchesFailing => "launches failing",
            Self::NodesNotJoining => "nodes not joining",
            Self::Restarted => "Ray restarted",
            Self::JoinDelayed => "join delayed",
            Self::NodesLost => "nodes lost",
            Self::SliceIncomplete => "slice incomplete",
            Self::Infeasible => "infeasible",
            Self::Unmet => "no launches",
            Self::HoldsQuota => "quota",
            Self::TpuDelayed => "TPU delayed",
            Self::LossNotFinite => WarningKind::NotFinite.text(),
            Self::Stalled => WarningKind::Stalled.text(),
            Self::Diverging => WarningKind::Diverging.text(),
            Self::DriverAlone => WarningKind::DriverAlone.text(),
            Self::ChipsIdle => WarningKind::ChipsIdle.text(),
            Self::Slowed => WarningKind::Slowed.text(),
            Self::CheckpointOverdue => WarningKind::CheckpointOverdue.text(),
            Self::PendingTooLong => WarningKind::PendingTooLong.text(),
            Self::PartialData => "partial data",
            Self::Scaling => "scaling up",
            Self::Idle => "idle",
        }
    }

    /// Whether the finding concerns the autoscaler; the autoscaler pane shows it in full.
    pub const fn is_of_autoscaler(self) -> bool {
        matches!(
            self,
            Self::Stuck
                | Self::Silent
                | Self::AutoscalerError
                | Self::LaunchesFailing
                | Self::NodesNotJoining
                | Self::JoinDelayed
                | Self::Unmet
                | Self::Infeasible
        )
    }
}

/// What a finding is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// The cluster, or several parts of it.
    #[default]
    Cluster,
    /// One job.
    Job(JobKey),
    /// A slice, by its name in Ray.
    Slice(Text),
    /// A TPU, by its name at Google.
    Tpu(Text),
}

/// An issue of a cluster. Its texts are safe to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind of the issue.
    pub kind: FindingKind,
    /// How urgent it is.
    pub severity: Severity,
    /// When it began, or was first seen.
    pub since: Option<Timestamp>,
    /// The details in a few words, for a row; may be empty if the kind is enough.
    pub short: String,
    /// The details in full, with the evidence.
    pub long: String,
    /// What to do; empty if there is nothing to do but wait.
    pub hint: Hint,
    /// The kind of connection problem, if it is about one.
    pub problem: Option<ProblemKind>,
    /// What it is about.
    pub about: Subject,
    /// The sorted names of all objects that it is about, if one finding covers several: a new member is reported.
    pub members: Vec<String>,
}

impl Finding {
    pub(super) fn new(
        kind: FindingKind,
        severity: Severity,
        since: Option<Timestamp>,
        short: impl AsRef<str>,
        long: impl AsRef<str>,
        hint: impl Into<Hint>,
    ) -> Self {
        let clean = |s: &str| crate::model::text::printable(s).into_owned();
        let (short, long) = (clean(short.as_ref()), clean(long.as_ref()));
        Self {
            kind,
            severity,
            since,
            short,
            long,
            hint: hint.into(),
            problem: None,
            about: Subject::Cluster,
            members: Vec::new(),
        }
    }
}

impl Finding {
    /// The issue in a few words, shown before the details; for a connection, the kind of problem.
    pub fn label(&self) -> &'static str {
        self.problem.as_ref().map_or(self.kind.label(), ProblemKind::text)
    }

    /// Sets the subject.
    pub(super) fn about(self, about: Subject) -> Self {
        Self { about, ..self }
    }

    /// Sets the members.
    pub(super) fn of_all(self, members: impl IntoIterator<Item = impl ToString>) -> Self {
        let mut members: Vec<String> = members.into_iter().map(|member| member.to_string()).collect();
        members.sort_unstable();
        Self { members, ..self }
    }

    /// The job that it is about; `None` if it is not about one job.
    pub const fn job(&self) -> Option<&JobKey> {
        match &self.about {
            Subject::Job(job) => Some(job),
            _ => None,
        }
    }

    /// Whether a finding of another cluster has the same cause: both connections fail in the same way, as they do if a
    /// login has expired or this machine has lost its network.
    pub fn is_of_same_cause(&self, other: &Self) -> bool {
        use ProblemKind::{Config, Other};
        match (&self.problem, &other.problem) {
            // Findings of these kinds differ only in their text.
            (Some(Config | Other), Some(_)) => self.long == other.long,
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => false,
        }
    }

    /// The age of the issue; `None` if it is unknown: an issue first seen within the last minute may be far older.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        use FindingKind::{Infeasible, LaunchesFailing, NodesNotJoining, Scaling, Stuck, Unmet};
        let seen =
            matches!(self.kind, Stuck | LaunchesFailing | NodesNotJoining | Infeasible | Unmet | Scaling);
        self.since.map(|since| since.age(now)).filter(|age| !seen || *age >= JUST_SEEN)
    }

    /// An age of this finding as a phrase: `4m ago` for an event, `in the last 4m` for several events, the first of
    /// which is that old, `for 4m` for a condition.
    pub fn when(&self, age: &str) -> String {
        match self.kind {
            FindingKind::NodesLost if self.members.len() > 1 => format!("in the last {age}"),
            FindingKind::Restarted | FindingKind::NodesLost => format!("{age} ago"),
            _ => format!("for {age}"),
        }
    }
}

impl From<&Problem> for Finding {
    fn from(problem: &Problem) -> Self {
        let kind = match problem.kind {
            ProblemKind::MultipleHeads => FindingKind::MultipleHeads,
            _ => FindingKind::Unreachable,
        };
        let found =
            Self::new(kind, Severity::Bad, Some(problem.since), &problem.what, &problem.what, &problem.hint);
        Self { problem: Some(problem.kind.clone()), ..found }
    }
}
