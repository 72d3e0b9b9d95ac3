//! What one state cannot show: since when nothing moves.

use super::autoscaler::{Want, failing_now, newest_start};
use crate::model::{Link, Problem, Snapshot, Timestamp};
use std::time::Duration;

/// An autoscaler whose report stands still for that long no longer works through its loop. The loop takes about 5 s;
/// over HTTP autoscaler v1's report is read every 30 s only.
pub const SILENT_AFTER: Duration = Duration::from_secs(60);
/// Between two states further apart anything may have happened (the laptop slept, the connection was lost): what was
/// going on before is no longer known to have gone on.
pub const GAP: Duration = Duration::from_secs(120);

/// The memory of one cluster. A few instants, whatever the number of states it has learnt.
#[derive(Clone, Debug, Default)]
pub struct History {
    trouble: Option<Problem>,
    taken: Option<Timestamp>,
    session: String,
    newest_start: Option<Timestamp>,
    /// Something is wanted, nothing is on its way, and no node has started: since then.
    pub(super) still: Option<Timestamp>,
    /// Nodes are on their way and none has started: since then.
    pub(super) joining: Option<Timestamp>,
    /// Launches fail: since then.
    pub(super) failing: Option<Timestamp>,
    /// What no type can give is wanted: since then.
    pub(super) infeasible: Option<Timestamp>,
    /// The autoscaler's last sign of life, and when it was first seen.
    report: Option<(Timestamp, Timestamp)>,
}

impl History {
    /// Learns the state of the way to the cluster.
    pub fn learn_link(&mut self, link: &Link) {
        match link {
            Link::Retrying { problem, .. } | Link::Stopped { problem } => {
                self.trouble = Some(problem.clone());
            }
            Link::Up { .. } => self.trouble = None,
            Link::Connecting { .. } => {}
        }
    }

    /// Learns a state. States come in the order in which they were taken.
    pub fn learn(&mut self, snapshot: &Snapshot) {
        let now = snapshot.taken;
        let restarted = snapshot.session.raw() != self.session;
        if restarted || self.taken.is_none_or(|t| t.age(now) > GAP) {
            let trouble = self.trouble.take();
            *self = Self { trouble, session: snapshot.session.raw().to_owned(), ..Self::default() };
        }
        self.taken = Some(now);
        let newest = newest_start(snapshot);
        let joined = newest > self.newest_start;
        self.newest_start = newest;
        let want = Want::of(snapshot);
        let keep = |since: &mut Option<Timestamp>, holds: bool, anew: bool| {
            *since = if holds { since.filter(|_| !anew).or(Some(now)) } else { None };
        };
        let fails = failing_now(&snapshot.autoscaler, now).next().is_some();
        keep(&mut self.still, want.is_something() && !want.moves && !fails, joined);
        keep(&mut self.joining, want.moves, joined);
        keep(&mut self.failing, fails, false);
        keep(&mut self.infeasible, want.infeasible > 0, false);
        // A part that could not be read says nothing about who writes it.
        let unread = snapshot.missing.iter().any(|part| part.starts_with("autoscaler"));
        self.report = match (snapshot.autoscaler.reported, self.report) {
            (Some(at), Some(before)) if at == before.0 && !unread => Some(before),
            (Some(at), _) => Some((at, now)),
            (None, _) => None,
        };
    }

    /// What broke the way to it last; none while it works.
    pub const fn trouble(&self) -> Option<&Problem> {
        self.trouble.as_ref()
    }

    /// How old an instant was when the last state was taken.
    pub(super) fn age_of(&self, at: Timestamp) -> Duration {
        self.taken.map_or(Duration::ZERO, |taken| at.age(taken))
    }

    /// The autoscaler's last sign of life, once it has been silent for [`SILENT_AFTER`] under our eyes. Its clock and
    /// ours may differ: only that the report stood still counts.
    pub(super) fn silent_since(&self) -> Option<Timestamp> {
        let (reported, seen) = self.report?;
        (self.age_of(seen) >= SILENT_AFTER).then(|| reported.min(seen))
    }
}
