//! Which drivers have something running on which nodes, of all jobs at once.

use super::super::client::Client;
use super::super::convert::envelope;
use super::super::json::{Str, read_with};
use super::RayError;
use super::work::ROWS;
use crate::model::{JobId, NodeId, Text};
use serde::Deserialize;
use std::collections::HashSet;

/// A task or an actor: whose it is, and where.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Row<'a> {
    #[serde(borrow)]
    job_id: Str<'a>,
    #[serde(borrow)]
    node_id: Str<'a>,
}

/// The nodes in a list of tasks or actors, with the drivers that they serve. Rows without a node wait for one.
fn holders(text: &str) -> Result<Vec<(NodeId, String)>, serde_json::Error> {
    let list = envelope::listed::<Row>(text)?;
    let of = |row: &Row<'_>| Some((NodeId::from_hex(&row.node_id.0)?, row.job_id.0.to_string()));
    Ok(list.result.0.iter().filter_map(of).filter(|(_, job)| !job.is_empty()).collect())
}

impl Client {
    /// The nodes that have running tasks or living actors, each with their drivers, in a stable order. Two requests
    /// (`GET /api/v0/tasks` and `/api/v0/actors`), each answered from the GCS with a row of some 300 bytes for each task or
    /// actor; of more than 10,000 Ray leaves the rest out.
    pub async fn holders(&self) -> Result<Vec<(NodeId, JobId)>, RayError> {
        const IS: &str = "&filter_predicates=%3D&filter_values";
        let running = format!("tasks?filter_keys=state{IS}=RUNNING&filter_keys=type{IS}=NORMAL_TASK");
        let mut seen: HashSet<(NodeId, String)> = HashSet::new();
        for list in [running, format!("actors?filter_keys=state{IS}=ALIVE")] {
            let body = self.get(&format!("/api/v0/{list}&limit={ROWS}")).await?;
            seen.extend(read_with("/api/v0", &body, holders)?);
        }
        let mut all: Vec<(NodeId, String)> = seen.into_iter().collect();
        all.sort();
        Ok(all.into_iter().map(|(node, job)| (node, JobId(Text::from(job.as_str())))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_node_or_a_job_hold_nothing() {
        let node = "ab".repeat(28);
        let row = |job: &str, node: &str| {
            format!("{{\"job_id\": {job}, \"node_id\": {node}, \"state\": \"ALIVE\"}}")
        };
        let quoted = format!("\"{node}\"");
        let rows = [
            row("\"0a000000\"", &quoted),
            row("\"0a000000\"", "null"),
            row("\"0a000000\"", "\"short\""),
            row("null", &quoted),
            "7".to_owned(),
        ];
        let text = format!(
            "{{\"result\": true, \"data\": {{\"result\": {{\"result\": [{}], \"num_filtered\": 9}}}}}}",
            rows.join(", ")
        );
        let found = holders(&text).unwrap();
        assert_eq!(found, [(NodeId::from_hex(&node).unwrap(), "0a000000".to_owned())]);
    }
}
