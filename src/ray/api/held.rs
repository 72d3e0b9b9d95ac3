//! What a driver's tasks and actors hold, from the state API.

use super::super::client::Client;
use super::super::convert::{envelope, names::is_shadow};
use super::super::json::{Num, Str, Table, read_with};
use super::RayError;
use super::state::of_job;
use crate::model::{JobId, Text};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Rows of each list that are read; Ray's own limit is 10,000.
const ROWS: u32 = 10_000;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    state: Str<'a>,
    required_resources: Table<Num>,
}

/// Adds up what holds something now. The tasks of an actor hold nothing: the actor does.
fn sum(text: &str) -> Result<BTreeMap<String, f64>, serde_json::Error> {
    let mut sum = BTreeMap::new();
    let list = envelope::listed::<Row>(text)?;
    let holding = |row: &&Row| match &*row.r#type.0 {
        "" => row.state.0 == "ALIVE",
        "NORMAL_TASK" => row.state.0 == "RUNNING",
        _ => false,
    };
    for row in list.result.0.iter().filter(holding) {
        for (name, n) in &row.required_resources.0 {
            if let (Some(name), Some(n)) = (plain(name), n.0) {
                *sum.entry(name.to_owned()).or_default() += n;
            }
        }
    }
    Ok(sum)
}

/// The resource behind a placement group's shadow of it. `TPU_group_0_<id>` stands beside `TPU_group_<id>`, which
/// counts; the bundle itself is no resource.
fn plain(name: &str) -> Option<&str> {
    if !is_shadow(name) {
        return Some(name);
    }
    let (resource, tail) = name.split_once("_group_")?;
    (resource != "bundle" && !tail.contains('_')).then_some(resource)
}

impl Client {
    /// What a driver's running tasks and living actors hold, by resource (`GET /api/v0/tasks` and `/api/v0/actors`).
    pub async fn held(&self, job: &JobId) -> Result<Vec<(Text, f64)>, RayError> {
        let mut all: BTreeMap<String, f64> = BTreeMap::new();
        for (kind, state) in [("tasks", "RUNNING"), ("actors", "ALIVE")] {
            let filter = format!("&filter_keys=state&filter_predicates=%3D&filter_values={state}");
            let body = self.get(&format!("{}{filter}&detail=1&limit={ROWS}", of_job(kind, job))).await?;
            for (name, n) in read_with("/api/v0", &body, sum)? {
                *all.entry(name).or_default() += n;
            }
        }
        Ok(all.into_iter().map(|(name, n)| (Text::from(name), n)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::convert::fixtures::{VERSIONS, text};
    use super::*;

    #[test]
    fn recorded_tasks_and_actors_hold_what_they_require() {
        for version in VERSIONS {
            let held = ["busy_v0_tasks", "busy_v0_actors"].map(|kind| sum(&text(version, kind)).unwrap());
            assert!(
                held.iter().all(|h| !h.is_empty() && h.values().all(|n| *n > 0.0)),
                "{version}: {held:?}"
            );
        }
    }

    #[test]
    fn waiting_tasks_and_tasks_of_actors_hold_nothing() {
        let group = "e9154e65c0a6fb61b6cf1577f1c104000000";
        let row = |kind: &str, state: &str, needs: &str| {
            format!("{{\"type\": \"{kind}\", \"state\": \"{state}\", \"required_resources\": {{{needs}}}}}")
        };
        let rows = [
            row("NORMAL_TASK", "RUNNING", "\"TPU\": 4, \"CPU\": 1"),
            row("NORMAL_TASK", "PENDING_NODE_ASSIGNMENT", "\"TPU\": 4"),
            row("ACTOR_TASK", "RUNNING", "\"TPU\": 4"),
            row("ACTOR_CREATION_TASK", "RUNNING", "\"TPU\": 4"),
            row(
                "NORMAL_TASK",
                "RUNNING",
                &format!(
                    "\"TPU_group_0_{group}\": 2, \"TPU_group_{group}\": 2, \"bundle_group_{group}\": 0.001"
                ),
            ),
        ];
        let list =
            format!("{{\"result\": true, \"data\": {{\"result\": {{\"result\": [{}]}}}}}}", rows.join(", "));
        assert_eq!(sum(&list).unwrap(), BTreeMap::from([("TPU".to_owned(), 6.0), ("CPU".to_owned(), 1.0)]));
    }
}
