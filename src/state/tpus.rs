//! The TPUs of a cluster: Google's last response, joined with Ray's nodes.

use crate::diagnose::AtGoogle;
use crate::model::cloud::CloudView;
use crate::model::{
    ClusterSpec, DelayedSince, DelayedTpu, Leftover, Node, Problem, Snapshot, Text, Timestamp, leftovers,
    several_heads,
};
use crate::reconcile::{Chips, Row, TpuStatus, TypeCount, chips_by_generation, reconcile, types};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// A response of Google older than this, or than two poll intervals if that is longer, is stale. The interval is
/// usually one minute.
const MAX_FRESH_AGE: Duration = Duration::from_secs(180);

/// The known TPUs of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Tpus {
    view: Option<Arc<CloudView>>,
    problem: Option<Problem>,
    several_heads: Option<Problem>,
    rows: Vec<Row>,
    leftovers: Vec<Leftover>,
    coming: DelayedSince,
    late: Vec<DelayedTpu>,
    types: Vec<TypeCount>,
    ghosts: HashSet<Text>,
    ray_known: bool,
}

impl Tpus {
    /// Why the last request to Google failed. The rows are from an earlier response.
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// The time of Google's last response.
    pub fn requested_at(&self) -> Option<Timestamp> {
        self.view.as_ref().map(|v| v.queried)
    }

    /// Whether Google listed everything.
    pub fn is_complete(&self) -> bool {
        self.view.as_ref().is_none_or(|v| v.is_whole())
    }

    /// Why the TPUs created with Compute Engine are missing, if they are.
    pub fn unlisted(&self) -> Option<&Text> {
        self.view.as_ref()?.unlisted.as_ref()
    }

    /// Whether the rows include what Ray reports.
    pub fn knows_ray(&self) -> bool {
        self.ray_known
    }

    /// Whether Google's response may be out of date, given the poll interval `pace`.
    pub fn is_stale(&self, now: Timestamp, pace: Duration) -> bool {
        let old = MAX_FRESH_AGE.max(pace * 2);
        self.problem.is_some() || self.requested_at().is_some_and(|at| at.age(now) >= old)
    }

    /// All slices and requests.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The chips of each TPU generation, e.g. `v4`.
    pub fn chips(&self) -> BTreeMap<&str, Chips> {
        chips_by_generation(&self.rows)
    }

    /// The node types of the cluster file, with their limits and the machines that exist.
    pub fn types(&self) -> &[TypeCount] {
        &self.types
    }

    /// Preempted TPUs and suspended requests that are not deleted.
    pub fn leftovers(&self) -> &[Leftover] {
        &self.leftovers
    }

    /// The parts of Google's response that need attention.
    pub(super) fn at_google(&self) -> AtGoogle<'_> {
        AtGoogle { left: &self.leftovers, late: &self.late, several_heads: self.several_heads.as_ref() }
    }

    /// Whether a node is alive in Ray but gone in Google Cloud.
    pub fn is_ghost(&self, node: &Node) -> bool {
        node.state.is_alive() && !node.is_head && self.ghosts.contains(&node.address)
    }

    /// Applies Google's response; after an error, the earlier response is kept.
    pub(super) fn take(&mut self, spec: &ClusterSpec, answer: Result<Arc<CloudView>, Problem>) {
        match answer {
            Ok(view) => {
                self.leftovers = leftovers(spec.name.as_str(), &view);
                self.late = self.coming.update(spec.name.as_str(), &view);
                let ours = view.heads.iter().filter(|head| head.cluster.raw() == spec.name.as_str());
                let ours: Vec<_> = ours.cloned().collect();
                let project = spec.google.project.as_deref().unwrap_or_default();
                let several = several_heads(&spec.name, project, &ours, view.queried);
                self.several_heads = several.map(|several| dated(several, self.several_heads.as_ref()));
                (self.view, self.problem) = (Some(view), None);
            }
            Err(problem) => self.problem = Some(dated(problem, self.problem.as_ref())),
        }
    }

    /// Joins the last states of Google and Ray; without Ray's, only Google's is used.
    pub(super) fn join(&mut self, spec: &ClusterSpec, snapshot: &Snapshot, ray_known: bool) {
        let Some(view) = self.view.clone() else { return };
        let nodes = ray_known.then_some(snapshot.nodes.as_slice());
        let now = view.queried.max(snapshot.taken);
        self.ray_known = ray_known;
        self.rows = reconcile(spec.name.as_str(), &view, nodes, now);
        // Google's response does not contain the start of a repair.
        let late = |row: &Row| self.late.iter().any(|l| l.name == row.name);
        for row in self.rows.iter_mut().filter(|r| r.status == TpuStatus::Joining) {
            if late(row) {
                row.status = TpuStatus::Delayed;
            }
        }
        self.types = types(&spec.node_types, &self.rows, nodes);
        let ghosts = self.rows.iter().filter(|r| r.status == TpuStatus::Ghost);
        self.ghosts = ghosts.flat_map(|r| &r.logins).map(|h| h.internal.clone()).collect();
    }
}

/// Keeps the start time of a problem that was already known.
fn dated(problem: Problem, before: Option<&Problem>) -> Problem {
    let since = before.filter(|b| b.what == problem.what).map_or(problem.since, |b| b.since);
    Problem { since, ..problem }
}
