//! The tasks, actors and resources of a job, from the state API (`/api/v0/*`).
//!
//! The state API returns at most 10,000 rows and truncates a list silently, but returns the total number of rows.

use super::super::client::{Client, encoded};
use super::super::convert::envelope;
use super::super::json::{Loose, Num, Str, Table, read_with};
use super::RayError;
use super::holdings::of_driver;
use crate::model::{Counted, DeadActor, JobId, JobIds, JobStatus, NodeId, Text, Work};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Maximum number of rows of each list; Ray's own limit is 10,000.
pub(super) const MAX_ROWS: u32 = 10_000;
/// Maximum number of dead actors that are read; each is more than a kilobyte.
const DEAD_ROWS: u32 = 200;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Summarized {
    result: Loose<Summaries>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Summaries {
    node_id_to_summary: Table<Loose<Summary>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Summary {
    summary: Table<Loose<Counts>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    state_counts: Table<Num>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Dead<'a> {
    #[serde(borrow)]
    class_name: Str<'a>,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    node_id: Str<'a>,
    /// One of `ActorDeathCause`'s contexts by its name (Ray's `common.proto`).
    #[serde(borrow)]
    death_cause: Table<Loose<Cause<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Cause<'a> {
    #[serde(borrow)]
    reason: Str<'a>,
    #[serde(borrow)]
    error_message: Str<'a>,
    #[serde(borrow)]
    formatted_exception_string: Str<'a>,
    #[serde(borrow)]
    node_ip_address: Str<'a>,
}

impl Cause<'_> {
    /// Whether the death was intended (`ActorDiedErrorContext.Reason`; a worker's exit type is in the message).
    fn is_intended(&self) -> bool {
        matches!(&*self.reason.0, "RAY_KILL" | "OUT_OF_SCOPE" | "REF_DELETED")
            || self.error_message.0.contains("INTENDED_")
    }

    /// Ray's message about a death that was not intended.
    pub(super) fn unexpected(&self) -> Option<Text> {
        let words = [&self.error_message, &self.formatted_exception_string];
        let words = words.into_iter().find(|words| !words.is_empty())?;
        (!self.is_intended()).then(|| words.text())
    }
}

/// The actors that died unexpectedly.
fn died(text: &str) -> Result<Vec<DeadActor>, serde_json::Error> {
    let list = envelope::listed::<Dead>(text)?;
    let of = |row: &Dead<'_>| {
        let cause = &row.death_cause.0.values().next()?.0;
        let why = cause.unexpected()?;
        Some(DeadActor {
            class: row.class_name.text(),
            name: row.name.text(),
            node: NodeId::from_hex(&row.node_id.0),
            address: cause.node_ip_address.text(),
            why,
        })
    };
    Ok(list.result.0.iter().filter_map(of).collect())
}

/// Functions or classes with the number of their tasks or actors in each state.
fn counted(text: &str) -> Result<Vec<Counted>, serde_json::Error> {
    let summarized: Summarized = envelope::result(text)?;
    let clusters = summarized.result.0.node_id_to_summary.0;
    let named = clusters.values().flat_map(|c| &c.0.summary.0);
    let states = |counts: &Counts| {
        let states = counts.state_counts.0.iter();
        states.map(|(state, n)| (Text::from(state.as_str()), n.whole().unwrap_or(0))).collect()
    };
    Ok(named.map(|(name, c)| Counted { name: Text::from(name.as_str()), states: states(&c.0) }).collect())
}

pub(super) fn of_job(kind: &str, job: &JobId) -> String {
    let job = encoded(job.0.raw());
    format!("/api/v0/{kind}?filter_keys=job_id&filter_predicates=%3D&filter_values={job}")
}

fn in_state(kind: &str, job: &JobId, state: &str) -> String {
    let filter = format!("&filter_keys=state&filter_predicates=%3D&filter_values={state}");
    format!("{}{filter}&detail=1&limit={MAX_ROWS}", of_job(kind, job))
}

impl Client {
    /// The resources that a job uses: its driver's running tasks and live actors (`GET /api/v0/tasks` and
    /// `/api/v0/actors`), and its entrypoint while that runs. Ray does not list the entrypoint among a driver's actors;
    /// its resources are in the submission, which only the GCS returns completely.
    pub async fn held(&self, job: &JobIds) -> Result<Vec<(Text, f64)>, RayError> {
        let mut all: BTreeMap<String, f64> = BTreeMap::new();
        if let Some(driver) = &job.driver {
            for (kind, state) in [("tasks", "RUNNING"), ("actors", "ALIVE")] {
                let body = self.get(&in_state(kind, driver, state)).await?;
                for (name, n) in read_with("/api/v0", &body, of_driver)?.holds {
                    *all.entry(name).or_default() += n;
                }
            }
        }
        if let Some(id) = &job.submission
            && let Some(record) = self.record(id).await?
            && record.status == JobStatus::Running
        {
            for (name, n) in record.submission.entrypoint_needs() {
                *all.entry(name.to_owned()).or_default() += n;
            }
        }
        Ok(all.into_iter().map(|(name, n)| (Text::from(name), n)).collect())
    }

    /// A driver's actors that died unexpectedly (`GET /api/v0/actors`).
    async fn died(&self, job: &JobId) -> Result<Vec<DeadActor>, RayError> {
        let filter = "&filter_keys=state&filter_predicates=%3D&filter_values=DEAD";
        let body = self.get(&format!("{}{filter}&detail=1&limit={DEAD_ROWS}", of_job("actors", job))).await?;
        read_with("/api/v0/actors", &body, died)
    }

    /// A job's tasks and actors by state, its pending and used resources, and its dead actors. Takes seven requests,
    /// the heaviest of which list running and pending tasks (`GET /api/v0/tasks`, `/api/v0/actors`, and `summarize` of
    /// both).
    pub async fn work(&self, job: &JobIds) -> Result<Work, RayError> {
        let holds = self.held(job).await?;
        let Some(job) = &job.driver else { return Ok(Work { holds, ..Work::default() }) };
        let counted_of = async |kind| {
            let body = self.get(&of_job(kind, job)).await?;
            read_with("/api/v0", &body, counted)
        };
        let waiting = self.get(&in_state("tasks", job, "PENDING_NODE_ASSIGNMENT")).await?;
        Ok(Work {
            holds,
            waits: read_with("/api/v0/tasks", &waiting, of_driver)?.waits,
            tasks: counted_of("tasks/summarize").await?,
            actors: counted_of("actors/summarize").await?,
            died: self.died(job).await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::convert::fixtures::{VERSIONS, text};
    use super::*;

    #[test]
    fn actors_that_died_unexpectedly_are_listed_with_node_and_cause() {
        for version in VERSIONS {
            let recorded = died(&text(version, "dead_v0_actors")).unwrap();
            assert!(recorded.iter().all(|a| !a.why.raw().contains("INTENDED")), "{version}: {recorded:?}");
        }
        let node = "ab".repeat(28);
        let row = |reason: &str, message: &str| {
            format!(
                "{{\"class_name\": \"Holder\", \"name\": \"h1\", \"node_id\": \"{node}\", \"death_cause\": {{\"actor_died_error_context\": \
                 {{\"reason\": \"{reason}\", \"error_message\": \"{message}\", \"node_ip_address\": \"10.0.0.7\"}}}}}}"
            )
        };
        let rows = [
            row("WORKER_DIED", "killed by SIGKILL"),
            row("WORKER_DIED", "Worker exit type: INTENDED_USER_EXIT"),
            row("RAY_KILL", "ray.kill"),
            "{\"class_name\": \"Odd\", \"death_cause\": null}".to_owned(),
        ];
        let list =
            format!("{{\"result\": true, \"data\": {{\"result\": {{\"result\": [{}]}}}}}}", rows.join(", "));
        let all = died(&list).unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(
            (all[0].class.raw(), all[0].name.raw(), all[0].address.raw()),
            ("Holder", "h1", "10.0.0.7")
        );
        assert!(all[0].node.is_some() && all[0].why.raw() == "killed by SIGKILL");
    }

    #[test]
    fn a_recorded_summary_counts_states() {
        for version in VERSIONS {
            let all = counted(&text(version, "busy_v0_tasks_summarize")).unwrap();
            let step = all.iter().find(|c| c.name.raw() == "train_step").unwrap();
            assert!(step.states.iter().any(|(s, n)| s.raw() == "RUNNING" && *n == 1), "{version} {step:?}");
        }
    }
}
