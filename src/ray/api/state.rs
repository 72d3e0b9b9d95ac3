//! Tasks and actors of a job, from the state API (`/api/v0/*`).
//!
//! It answers 10,000 rows at most and cuts a list without a word: a [`Listing`] says so itself.

use super::super::client::{Client, encoded};
use super::super::convert::envelope::{self, Listed};
use super::super::json::{Loose, Num, Str, Table, read_with};
use super::RayError;
use crate::model::{JobId, NodeId, Text, Timestamp};
use serde::Deserialize;

/// Rows, and how many there would have been.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing<T> {
    /// Rows.
    pub rows: Vec<T>,
    /// All that match; more than the rows when Ray cut the list.
    pub total: u64,
}

/// A task, one attempt of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Task id.
    pub id: Text,
    /// Which attempt, from 0.
    pub attempt: u64,
    /// Name.
    pub name: Text,
    /// Ray's word: `RUNNING`, `PENDING_NODE_ASSIGNMENT`, `FAILED`, ...
    pub state: Text,
    /// Where it runs or ran.
    pub node: Option<NodeId>,
    /// Ray's error class; empty when none.
    pub error_type: Text,
    /// Started at.
    pub started: Option<Timestamp>,
    /// Ended at.
    pub ended: Option<Timestamp>,
}

/// An actor.
#[derive(Clone, Debug, PartialEq)]
pub struct Actor {
    /// Actor id.
    pub id: Text,
    /// Class.
    pub class: Text,
    /// Name; empty when it has none.
    pub name: Text,
    /// Ray's word: `ALIVE`, `PENDING_CREATION`, `DEAD`, ...
    pub state: Text,
    /// Where it lives.
    pub node: Option<NodeId>,
    /// Its process.
    pub pid: Option<u64>,
}

/// How many tasks of one function stand in which state.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskCount {
    /// Function or method.
    pub name: Text,
    /// Count by Ray's state word.
    pub states: Vec<(Text, u64)>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TaskRow<'a> {
    #[serde(borrow)]
    task_id: Str<'a>,
    attempt_number: Num,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    state: Str<'a>,
    #[serde(borrow)]
    node_id: Str<'a>,
    #[serde(borrow)]
    error_type: Str<'a>,
    start_time_ms: Num,
    end_time_ms: Num,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ActorRow<'a> {
    #[serde(borrow)]
    actor_id: Str<'a>,
    #[serde(borrow)]
    class_name: Str<'a>,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    state: Str<'a>,
    #[serde(borrow)]
    node_id: Str<'a>,
    pid: Num,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Summaries<'a> {
    #[serde(borrow)]
    node_id_to_summary: Table<Loose<Summary<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Summary<'a> {
    #[serde(borrow)]
    summary: Table<Loose<Function<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    func_or_class_name: Str<'a>,
    state_counts: Table<Num>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Nested<'a> {
    #[serde(borrow)]
    result: Loose<Summaries<'a>>,
}

pub(super) fn of_job(kind: &str, job: &JobId) -> String {
    let job = encoded(job.0.raw());
    format!("/api/v0/{kind}?filter_keys=job_id&filter_predicates=%3D&filter_values={job}")
}

/// The rows of a list that name themselves.
fn listing<R, T>(list: &Listed<R>, row: impl Fn(&R) -> Option<T>) -> Listing<T> {
    let rows: Vec<T> = list.result.0.iter().filter_map(row).collect();
    let total = list.num_filtered.whole().unwrap_or(0).max(rows.len() as u64);
    Listing { rows, total }
}

fn task(row: &TaskRow) -> Option<Task> {
    (!row.task_id.is_empty()).then(|| Task {
        id: row.task_id.text(),
        attempt: row.attempt_number.whole().unwrap_or(0),
        name: row.name.text(),
        state: row.state.text(),
        node: NodeId::from_hex(&row.node_id.0),
        error_type: row.error_type.text(),
        started: row.start_time_ms.millis(),
        ended: row.end_time_ms.millis(),
    })
}

fn actor(row: &ActorRow) -> Option<Actor> {
    (!row.actor_id.is_empty()).then(|| Actor {
        id: row.actor_id.text(),
        class: row.class_name.text(),
        name: row.name.text(),
        state: row.state.text(),
        node: NodeId::from_hex(&row.node_id.0),
        pid: row.pid.whole().filter(|pid| *pid > 0),
    })
}

impl Client {
    /// Tasks of a driver, at most `limit` (Ray's own limit is 10,000) (`GET /api/v0/tasks`).
    pub async fn tasks(&self, job: &JobId, limit: u32) -> Result<Listing<Task>, RayError> {
        let route = format!("{}&detail=1&limit={limit}", of_job("tasks", job));
        let body = self.get(&route).await?;
        read_with("/api/v0/tasks", &body, |text| Ok(listing(&envelope::listed(text)?, task)))
    }

    /// Actors of a driver, at most `limit` (`GET /api/v0/actors`).
    pub async fn actors(&self, job: &JobId, limit: u32) -> Result<Listing<Actor>, RayError> {
        let route = format!("{}&limit={limit}", of_job("actors", job));
        let body = self.get(&route).await?;
        read_with("/api/v0/actors", &body, |text| Ok(listing(&envelope::listed(text)?, actor)))
    }

    /// Tasks of a driver, counted by function and state (`GET /api/v0/tasks/summarize`).
    pub async fn task_summary(&self, job: &JobId) -> Result<Vec<TaskCount>, RayError> {
        let body = self.get(&of_job("tasks/summarize", job)).await?;
        read_with("/api/v0/tasks/summarize", &body, |text| {
            let nested: Nested = envelope::result(text)?;
            let clusters = nested.result.0.node_id_to_summary.0;
            let functions = clusters.values().flat_map(|c| &c.0.summary.0);
            Ok(functions.map(|(key, f)| counts(key, &f.0)).collect())
        })
    }
}

fn counts(key: &str, function: &Function) -> TaskCount {
    let name = if function.func_or_class_name.is_empty() { key } else { &function.func_or_class_name.0 };
    let states = function.state_counts.0.iter();
    TaskCount {
        name: Text::from(name),
        states: states.map(|(s, n)| (Text::from(s.as_str()), n.whole().unwrap_or(0))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::convert::fixtures::{VERSIONS, text};
    use super::*;

    #[test]
    fn recorded_tasks_and_actors_are_read() {
        for version in VERSIONS {
            let tasks = listing(&envelope::listed(&text(version, "busy_v0_tasks")).unwrap(), task);
            assert!(tasks.rows.iter().any(|t| t.state.raw() == "RUNNING" && t.node.is_some()), "{version}");
            let actors = listing(&envelope::listed(&text(version, "busy_v0_actors")).unwrap(), actor);
            assert!(actors.rows.iter().any(|a| a.class.raw() == "JobSupervisor" && a.pid.is_some()));
        }
    }

    #[test]
    fn a_list_that_ray_cut_says_so() {
        for version in VERSIONS {
            let tasks = listing(&envelope::listed(&text(version, "tasks_limit5")).unwrap(), task);
            assert_eq!(tasks.rows.len(), 5, "{version}");
            assert!(tasks.total > 5);
        }
    }

    #[test]
    fn a_recorded_summary_counts_states() {
        for version in VERSIONS {
            let recorded = text(version, "busy_v0_tasks_summarize");
            let nested: Nested = envelope::result(&recorded).unwrap();
            let clusters = &nested.result.0.node_id_to_summary.0;
            let all: Vec<_> =
                clusters.values().flat_map(|c| &c.0.summary.0).map(|(k, f)| counts(k, &f.0)).collect();
            let step = all.iter().find(|c| c.name.raw() == "train_step").unwrap();
            assert!(step.states.iter().any(|(s, n)| s.raw() == "RUNNING" && *n == 1), "{version} {step:?}");
        }
    }
}
