//! The lock of an operation: every operator of a cluster can read it while the operation is in progress.
//!
//! It is written by one operator and read by all others, so it is untrusted text and contains no secrets.

use super::text::printable;
use super::time::brief;
use super::{ClusterName, Fix, Hint, Operation, Problem, ProblemKind, Timestamp, Verb};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Interval at which a running operation renews its lock.
pub const LOCK_INTERVAL: Duration = Duration::from_secs(60);
/// A lock that was not renewed for this long is stale: three renewals in a row are missing.
pub const LOCK_STALE: Duration = Duration::from_secs(180);
/// Maximum length in characters of a name or title in another operator's lock; the rest is dropped.
const MAX_WORDS: usize = 120;

/// The lock of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationLock {
    /// Unique id of the operation: random hexadecimal digits.
    pub id: String,
    /// Name of the cluster.
    pub cluster: String,
    /// The operator, as `user@host`.
    pub who: String,
    /// Process id on that host.
    pub process: u32,
    /// The command of the operation, such as `restart-cluster`.
    pub command: String,
    /// Title of the operation, such as `restart marin-a`.
    pub title: String,
    /// Number of steps of the operation.
    pub steps: usize,
    /// When it began, in milliseconds since the epoch by the operator's clock.
    pub since_ms: i64,
    /// The current step, from 1.
    #[serde(default)]
    pub step: usize,
    /// When the lock was last renewed, in milliseconds since the epoch by the operator's clock.
    #[serde(default)]
    pub seen_ms: i64,
    /// Whether the operation has stopped at that step and waits for its operator.
    #[serde(default)]
    pub stopped: bool,
}

/// Whether the program that holds a lock still seems to be running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It renewed its lock within [`LOCK_STALE`].
    Fresh,
    /// It has not renewed its lock for this long.
    Stale(Duration),
    /// It has recorded that the operation has stopped.
    Stopped,
}

impl OperationLock {
    /// The lock of an operation that begins at `now`.
    pub fn new(id: String, operation: &Operation, who: &str, process: u32, now: Timestamp) -> Self {
        Self {
            id,
            cluster: operation.cluster.as_str().to_owned(),
            who: who.to_owned(),
            process,
            command: operation.kind().command().to_owned(),
            title: operation.title.clone(),
            steps: operation.steps.len(),
            since_ms: now.as_millis(),
            step: 1,
            seen_ms: now.as_millis(),
            stopped: false,
        }
    }

    /// Parses a lock of this cluster; none if the text is not a lock or belongs to another cluster.
    pub fn parse(text: &str, cluster: &ClusterName) -> Option<Self> {
        let mut lock: Self = serde_json::from_str(text).ok()?;
        let is_id = (8..=64).contains(&lock.id.len()) && lock.id.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_id || lock.cluster != cluster.as_str() {
            return None;
        }
        for words in [&mut lock.who, &mut lock.command, &mut lock.title] {
            *words = printable(words).chars().take(MAX_WORDS).collect();
        }
        lock.steps = lock.steps.min(99);
        lock.step = lock.step.clamp(1, lock.steps.max(1));
        Some(lock)
    }

    /// When the operation began.
    pub fn since(&self) -> Timestamp {
        Timestamp::from_millis(self.since_ms)
    }

    /// The operator without the host.
    pub fn user(&self) -> &str {
        self.who.split('@').next().filter(|user| !user.is_empty()).unwrap_or("somebody")
    }

    /// The host that the operator works from.
    fn host(&self) -> &str {
        self.who.split_once('@').map_or("the operator's machine", |(_, host)| host)
    }

    /// Whether the program that holds the lock seems to be running. Clocks of machines differ, so a lock from the
    /// future counts as fresh.
    pub fn liveness(&self, now: Timestamp) -> Liveness {
        let silent = Timestamp::from_millis(self.seen_ms).age(now);
        match () {
            () if self.stopped => Liveness::Stopped,
            () if silent >= LOCK_STALE => Liveness::Stale(silent),
            () => Liveness::Fresh,
        }
    }

    /// `restart by alice, step 4 of 9`; also whether it is stopped or stale.
    pub fn brief(&self, now: Timestamp) -> String {
        let what =
            self.title.split_once(&format!(" {}", self.cluster)).map_or(self.title.as_str(), |(w, _)| w);
        let position = format!("step {} of {}", self.step, self.steps);
        match self.liveness(now) {
            Liveness::Fresh => format!("{what} by {}, {position}", self.user()),
            Liveness::Stopped => format!("{what} by {}, interrupted at {position}", self.user()),
            Liveness::Stale(silent) => {
                format!("{what} by {}, {position}, no update for {}", self.user(), brief(silent))
            }
        }
    }

    /// The refusal for other operators: who runs the operation, how to check that it is alive, and how to take it over.
    pub fn refusal(&self, now: Timestamp) -> Problem {
        let since = brief(self.since().age(now));
        let what = format!(
            "operation by {1} (process {2}) on {0}: {3}, started {since} ago",
            self.cluster,
            self.who,
            self.process,
            self.brief(now)
        );
        let purpose = format!("check on {} whether it is running", self.host());
        let check = Fix::command(purpose, format!("ps -p {}", self.process));
        let take_over = Verb::TakeOver.to("take it over");
        let hint = match self.liveness(now) {
            Liveness::Fresh => {
                Hint::from([format!("wait for it to end, or ask {}", self.who).into(), check, take_over])
            }
            Liveness::Stopped => {
                Hint::from([format!("ask {} to resume or abandon it", self.who).into(), take_over])
            }
            Liveness::Stale(_) => {
                let ask = format!("its process appears to have exited: ask {}", self.who);
                Hint::from([ask.into(), check, take_over])
            }
        };
        Problem::new(ProblemKind::Other, what, hint, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Task;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

    fn lock() -> OperationLock {
        let restart = Operation::new(Task::Restart { preserve: true }, ClusterName::new("lab"));
        OperationLock {
            step: 4,
            ..OperationLock::new("0123456789abcdef".into(), &restart, "alice@laptop", 77, NOW)
        }
    }

    #[test]
    fn a_lock_shows_operator_step_and_liveness() {
        assert_eq!(lock().brief(NOW), "restart by alice, step 4 of 9");
        assert_eq!(
            OperationLock { stopped: true, ..lock() }.brief(NOW),
            "restart by alice, interrupted at step 4 of 9"
        );
        let later = NOW.plus(Duration::from_secs(600));
        assert_eq!(lock().brief(later), "restart by alice, step 4 of 9, no update for 10m");
        let refusal = lock().refusal(later);
        assert!(
            refusal.what.contains("alice@laptop (process 77)") && refusal.what.contains("10m ago"),
            "{refusal:?}"
        );
        assert!(
            refusal
                .hint
                .to_string()
                .contains("on laptop whether it is running: `ps -p 77`; take it over: `--take-over`"),
            "{refusal:?}"
        );
        assert_eq!(lock().liveness(Timestamp::from_millis(0)), Liveness::Fresh, "clocks differ");
    }

    #[test]
    fn other_locks_are_ignored_and_hostile_text_is_cleaned() {
        let lab = ClusterName::new("lab");
        let text = |m: &OperationLock| serde_json::to_string(m).unwrap();
        assert_eq!(OperationLock::parse(&text(&lock()), &lab), Some(lock()));
        assert_eq!(OperationLock::parse(&text(&lock()), &ClusterName::new("other")), None);
        for odd in ["", "{}", "null", "a load balancer's group"] {
            assert_eq!(OperationLock::parse(odd, &lab), None, "{odd}");
        }
        assert_eq!(OperationLock::parse(&text(&OperationLock { id: "x'; rm".into(), ..lock() }), &lab), None);
        let hostile = OperationLock { who: format!("\x1b[31m{}", "a".repeat(900)), step: 999, ..lock() };
        let read = OperationLock::parse(&text(&hostile), &lab).unwrap();
        assert!(
            !read.who.contains('\x1b') && read.who.chars().count() <= MAX_WORDS && read.step == 9,
            "{read:?}"
        );
    }
}
