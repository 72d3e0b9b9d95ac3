//! Diagnoses a cluster: its last state and a small history become findings, worst first.
//!
//! Pure: no clock, no I/O. A state is evaluated at the time when it was taken, so that a lost connection proves nothing
//! about the autoscaler. What a single state cannot show (a lack of progress) is recorded in a [`History`].

mod autoscaler;
mod demand;
mod finding;
mod heads;
mod history;
mod late;
mod nodes;
mod pending;
mod quota;
mod restart;
mod served;
mod slices;
mod vitals;

pub use autoscaler::{NO_NODE_JOINS, STUCK_AFTER};
pub use demand::{LAUNCH_RETRIES, below_minimum};
pub use finding::{Finding, FindingKind, Severity, Subject};
pub use history::{History, MAX_GAP, SILENT_AFTER, SILENT_AT_ONCE};
pub use nodes::JUST_NOW;
pub use pending::{Pending, pending};
pub use restart::{Restart, RestartedBy};
pub use served::{infeasible, served};
pub use slices::{MAX_ASSEMBLY, Slice, slices};
pub use vitals::{of_jobs, pending_too_long, sign_severity, unhealthy_runs};

use crate::model::sort;
use crate::model::{DelayedTpu, Leftover, Link, Problem, Snapshot};

/// The parts of Google's last response that need attention.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtGoogle<'a> {
    /// Preempted TPUs that are not deleted.
    pub left: &'a [Leftover],
    /// TPUs that take too long to become ready.
    pub late: &'a [DelayedTpu],
    /// The problem that several heads of the cluster are running, if so.
    pub several_heads: Option<&'a Problem>,
}

/// All findings, worst first. `snapshot` is the last state that was read, if any; `history` must already include it and
/// `link`. A broken connection comes first; the findings of the last state are kept, and are as old as that state.
pub fn findings(
    link: Option<&Link>,
    snapshot: Option<&Snapshot>,
    history: &History,
    google: AtGoogle<'_>,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    match link {
        Some(Link::Retrying { problem, .. } | Link::Stopped { problem }) => found.push(problem.into()),
        // A reconnect changes nothing until it succeeds: the row keeps its place.
        Some(Link::Connecting { .. }) => found.extend(history.problem().map(Finding::from)),
        Some(Link::Up { .. }) | None => {}
    }
    let broken = found.len();
    if let Some(Link::Up { dashboard: Some(problem), .. }) = link {
        let long =
            format!("{}; the state comes from the GCS; logs and job actions are not available", problem.what);
        let (kind, since) = (FindingKind::DashboardSilent, Some(problem.since));
        found.push(Finding::new(kind, Severity::Warn, since, "state from the GCS", long, &problem.hint));
    }
    if let Some(snapshot) = snapshot {
        found.extend(history.restart().and_then(|restart| restart.finding(snapshot)));
        found.extend(autoscaler::findings(snapshot, history));
        found.extend(nodes::findings(snapshot));
        if !snapshot.missing.is_empty() {
            let what = snapshot.missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            let hint = "retry; the console does so automatically and shows older data in the meantime";
            found.push(Finding::new(FindingKind::PartialData, Severity::Warn, None, &what, &what, hint));
        }
    }
    let is_listed = found.iter().any(|f| f.kind == FindingKind::MultipleHeads);
    found.extend(google.several_heads.filter(|_| !is_listed).map(heads::finding));
    found.extend(quota::finding(google.left));
    found.extend(late::finding(google.late));
    sort::by_key(&mut found[broken..], |f| f.severity);
    if found.is_empty() {
        found.extend(snapshot.and_then(nodes::idle));
    }
    found
}

#[cfg(test)]
mod tests;
