//! What a single state cannot show: since when nothing has changed.

use super::demand::{REQUEST_TIMEOUT, Unmet, failing_now, newest_start};
use super::restart::Restart;
use crate::model::sort;
use crate::model::{Job, LaunchFailure, Link, Problem, Snapshot, SnapshotPart, Text, Timestamp};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

/// An autoscaler without a new report for this long is no longer running its loop. An iteration takes about 5 s; over
/// HTTP, autoscaler v1's report is read only every 30 s.
pub const SILENT_AFTER: Duration = Duration::from_secs(60);
/// A report that is this old when first seen counts as silent immediately: no maintained clock is that wrong. If a new
/// report arrives nevertheless, the clocks differ, and from then on only the time without a new report counts.
pub const SILENT_AT_ONCE: Duration = Duration::from_secs(300);
/// Anything may have happened between two states further apart (the laptop was suspended, the connection was lost), so
/// what was known before is discarded. The same applies if the clock was set back by more than this.
pub const MAX_GAP: Duration = Duration::from_secs(120);

/// Longer than a launch attempt that the provider refuses.
const MAX_ATTEMPT: Duration = Duration::from_secs(60);

/// One day.
const DAY: Duration = Duration::from_secs(86_400);

/// The history of one cluster: a few timestamps, the pending nodes and the last restart. Its size does not grow with
/// the number of states.
#[derive(Clone, Debug, Default)]
pub struct History {
    problem: Option<Problem>,
    taken: Option<Timestamp>,
    session: String,
    newest_start: Option<Timestamp>,
    /// Since when there is unmet demand, no pending node, and no new node.
    pub(super) still: Option<Timestamp>,
    /// Since when nodes are pending and none has joined.
    pub(super) joining: Option<Timestamp>,
    /// Since when launches fail.
    pub(super) failing: Option<Timestamp>,
    /// Since when there is infeasible demand.
    pub(super) infeasible: Option<Timestamp>,
    report: Option<Report>,
    /// Addresses of pending nodes, and when each was first seen pending.
    pending: Vec<(Text, Timestamp)>,
    /// The failed launches of v2's last text report, with the dates of the requests as first seen.
    dated: Vec<LaunchFailure>,
    /// When the failed launches of the running Ray were last read, if they were those of the text report.
    listed: Option<Timestamp>,
    restart: Option<Restart>,
}

/// The autoscaler's last report.
#[derive(Clone, Copy, Debug)]
struct Report {
    /// Its time, by its own clock.
    at: Timestamp,
    /// When it was first seen.
    seen: Timestamp,
    /// Whether its clock can be compared with ours, as far as is known.
    comparable: bool,
}

impl History {
    /// Records the state of the connection to the cluster.
    pub fn record_link(&mut self, link: &Link) {
        match link {
            Link::Retrying { problem, .. } | Link::Stopped { problem } => {
                self.problem = Some(problem.clone());
            }
            Link::Up { .. } => self.problem = None,
            Link::Connecting { .. } => {}
        }
    }

    /// Corrects the dates of the failed launches in v2's text report, which lists them until the autoscaler is
    /// restarted and has only their time of day: the next day, an old failure looks new. The day is known of a launch
    /// that was not listed before, and of any launch if the head was started less than a day before its date. Call it
    /// before [`Self::record`].
    pub fn dated(&mut self, mut snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        let not_before = self.unlisted_until(&snapshot);
        if !snapshot.autoscaler.failures.iter().any(|failure| failure.from_text) {
            return snapshot;
        }
        let heads = snapshot.nodes.iter().filter(|node| node.is_head && node.state.is_alive());
        let started = heads.filter_map(|node| node.started).max();
        let before = std::mem::take(&mut self.dated);
        let report = Arc::make_mut(&mut Arc::make_mut(&mut snapshot).autoscaler);
        for failure in report.failures.iter_mut().filter(|failure| failure.from_text) {
            // The reason has the time of day.
            let known = before
                .iter()
                .find(|known| known.node_type == failure.node_type && known.reason == failure.reason);
            if let (Some(at), Some(first)) = (failure.at, known.and_then(|known| known.at)) {
                let days = (first.age(at).as_secs() + DAY.as_secs() / 2) / DAY.as_secs();
                failure.at = Some(at.minus(DAY * u32::try_from(days).unwrap_or(u32::MAX)));
            }
            let earliest = if known.is_some() { started } else { started.max(not_before) };
            let may_be_earlier = |at: Timestamp| earliest.is_none_or(|earliest| at.minus(DAY) >= earliest);
            failure.day_unknown =
                known.is_none_or(|known| known.day_unknown) && failure.at.is_some_and(may_be_earlier);
            self.dated.push(failure.clone());
        }
        sort::by_key(&mut report.failures, |failure| Reverse(failure.at));
        snapshot
    }

    /// The time before which no launch was requested that this report lists and the last one did not; none if that is
    /// unknown. Records that the failed launches were read.
    fn unlisted_until(&mut self, snapshot: &Snapshot) -> Option<Timestamp> {
        let is_new_session = snapshot.session.raw() != self.session;
        let last = if is_new_session {
            self.dated.clear();
            self.listed = None;
            // Another autoscaler, which was started after the last state was read.
            self.taken.filter(|_| !self.session.is_empty())
        } else {
            // A launch fails, and is listed, only some time after its request.
            self.listed.map(|at| at.minus(REQUEST_TIMEOUT))
        };
        if snapshot.lacks(&[SnapshotPart::Autoscaler]).is_some() {
            return None;
        }
        // The other reports have other times and reasons.
        let is_same_kind = snapshot.autoscaler.failures.iter().all(|failure| failure.from_text);
        self.listed = is_same_kind.then_some(snapshot.taken);
        last
    }

    /// Records a state. States must come in the order in which they were taken.
    pub fn record(&mut self, snapshot: &Snapshot) {
        let now = snapshot.taken;
        let restarted = snapshot.session.raw() != self.session;
        let is_gap = |taken: Timestamp| taken.age(now) > MAX_GAP || now.age(taken) > MAX_GAP;
        if restarted || self.taken.is_none_or(is_gap) {
            let (problem, restart) = (self.problem.take(), self.restart.take());
            let (session, dated) = (snapshot.session.raw().to_owned(), std::mem::take(&mut self.dated));
            let listed = self.listed;
            *self = Self { problem, session, dated, listed, restart, ..Self::default() };
        }
        self.taken = Some(now);
        let newest = newest_start(snapshot);
        let joined = newest > self.newest_start;
        self.newest_start = newest;
        let unmet = Unmet::of(snapshot);
        let keep = |since: &mut Option<Timestamp>, holds: bool, reset: bool| {
            *since = if holds { since.filter(|_| !reset).or(Some(now)) } else { None };
        };
        let fails = failing_now(&snapshot.autoscaler, now).next().is_some();
        keep(&mut self.still, unmet.is_something() && !unmet.moves && !fails, joined);
        keep(&mut self.joining, unmet.moves, joined);
        keep(&mut self.failing, fails, false);
        keep(&mut self.infeasible, unmet.infeasible > 0, false);
        let before = std::mem::take(&mut self.pending);
        let since = |address: &Text| before.iter().find(|(a, _)| a == address).map_or(now, |(_, at)| *at);
        let known = snapshot.autoscaler.pending.iter().filter(|p| !p.address.is_empty());
        self.pending = known.map(|p| (p.address.clone(), since(&p.address))).collect();
        // A report that could not be read is no evidence that the autoscaler is silent.
        let unread = snapshot.lacks(&[SnapshotPart::Autoscaler]).is_some();
        self.report = match (snapshot.autoscaler.reported, self.report) {
            (Some(at), Some(before)) if at == before.at && !unread => Some(before),
            (Some(at), before) => {
                let comparable = !unread && before.is_none_or(|b| b.comparable && !b.is_old(b.seen));
                Some(Report { at, seen: now, comparable })
            }
            (None, _) => None,
        };
    }

    /// When a pending node was first seen pending.
    pub fn pending_since(&self, address: &Text) -> Option<Timestamp> {
        self.pending.iter().find(|(known, _)| known == address).map(|(_, at)| *at)
    }

    /// Records a restart of Ray.
    pub fn record_restart(&mut self, restart: Restart, jobs: &[Arc<Job>]) {
        self.restart = Some(restart.after(self.restart.take(), jobs));
    }

    /// The last restart that was seen.
    pub const fn restart(&self) -> Option<&Restart> {
        self.restart.as_ref()
    }

    /// The last problem of the connection; none while it is up.
    pub const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Whether launches have been failing for longer than nodes have been pending: each attempt has a pending node for
    /// a few seconds before it fails.
    pub(super) fn moves_briefly(&self) -> bool {
        let lasts = |since: Option<Timestamp>| since.is_some_and(|at| self.age_of(at) >= MAX_ATTEMPT);
        lasts(self.failing) && !lasts(self.joining)
    }

    /// The age of a timestamp when the last state was taken.
    pub(super) fn age_of(&self, at: Timestamp) -> Duration {
        self.taken.map_or(Duration::ZERO, |taken| at.age(taken))
    }

    /// The time of the autoscaler's last report, once no new one has come for [`SILENT_AFTER`], or if the report was as
    /// old as [`SILENT_AT_ONCE`] when first seen.
    pub(super) fn silent_since(&self) -> Option<Timestamp> {
        let report = self.report?;
        let silent =
            self.age_of(report.seen) >= SILENT_AFTER || report.comparable && report.is_old(report.seen);
        silent.then(|| report.at.min(report.seen))
    }
}

impl Report {
    fn is_old(&self, now: Timestamp) -> bool {
        self.at.age(now) >= SILENT_AT_ONCE
    }
}
