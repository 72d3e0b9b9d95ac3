//! Placement groups, as the state API lists them (`GET /api/v0/placement_groups`).

use super::super::client::{Client, encoded};
use super::super::convert::envelope;
use super::super::json::{Loose, Num, Rows, Str, Table, read_with};
use super::RayError;
use crate::model::{Bundle, JobId, NodeId, PlacementGroup, Text, Timestamp};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Maximum number of placement groups that are read of a driver.
const MAX_GROUPS: u32 = 1000;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Group<'a> {
    #[serde(borrow)]
    pub creator_job_id: Str<'a>,
    #[serde(borrow)]
    placement_group_id: Str<'a>,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    state: Str<'a>,
    #[serde(borrow)]
    bundles: Rows<Part<'a>>,
    #[serde(borrow)]
    stats: Loose<Stats<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    unit_resources: Table<Num>,
    #[serde(borrow)]
    node_id: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats<'a> {
    #[serde(borrow)]
    scheduling_state: Str<'a>,
    creation_request_received_ns: Num,
}

impl Group<'_> {
    /// The total resources that its bundles request.
    pub fn shape(&self) -> Vec<(Text, f64)> {
        let mut all = BTreeMap::<&str, f64>::new();
        for (name, n) in self.bundles.0.iter().flat_map(|part| &part.unit_resources.0) {
            *all.entry(name).or_default() += n.0.unwrap_or_default();
        }
        all.into_iter().map(|(name, n)| (Text::from(name), n)).collect()
    }

    /// When its creation was requested.
    pub fn created(&self) -> Option<Timestamp> {
        let nanoseconds = self.stats.0.creation_request_received_ns.0.filter(|ns| *ns > 0.0);
        nanoseconds.map(|ns| Timestamp::from_millis((ns / 1e6) as i64))
    }

    fn group(&self) -> PlacementGroup {
        let bundle = |part: &Part<'_>| -> Bundle {
            let wanted = part.unit_resources.0.iter();
            let shape = wanted.filter_map(|(name, n)| Some((Text::from(name.as_str()), n.0?))).collect();
            (shape, NodeId::from_hex(&part.node_id.0))
        };
        let is_placed = matches!(&*self.stats.0.scheduling_state.0, "" | "FINISHED");
        PlacementGroup {
            id: self.placement_group_id.text(),
            name: self.name.text(),
            state: self.state.text(),
            why: if is_placed { Text::default() } else { self.stats.0.scheduling_state.text() },
            created: self.created(),
            bundles: self.bundles.0.iter().map(bundle).collect(),
        }
    }
}

fn groups(text: &str) -> Result<Vec<PlacementGroup>, serde_json::Error> {
    let list = envelope::listed::<Group<'_>>(text)?;
    Ok(list.result.0.iter().map(Group::group).collect())
}

impl Client {
    /// The placement groups that a driver created (`GET /api/v0/placement_groups`).
    pub(super) async fn groups(&self, job: &JobId) -> Result<Vec<PlacementGroup>, RayError> {
        let job = encoded(job.0.raw());
        let filter = format!("filter_keys=creator_job_id&filter_predicates=%3D&filter_values={job}");
        let body =
            self.get(&format!("/api/v0/placement_groups?{filter}&detail=1&limit={MAX_GROUPS}")).await?;
        read_with("/api/v0/placement_groups", &body, groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_nodes_of_its_bundles_or_the_reason_why_it_is_pending() {
        let node = "ab".repeat(28);
        let row = |state: &str, stats: &str, node: &str| {
            format!(
                "{{\"placement_group_id\": \"f7\", \"name\": \"gang\", \"state\": \"{state}\", \"bundles\": [{{\"unit_resources\": \
                 {{\"TPU\": 4.0}}, \"node_id\": \"{node}\"}}, 7], \"stats\": {{\"scheduling_state\": \"{stats}\", \
                 \"creation_request_received_ns\": \"1795229300123000000\"}}}}"
            )
        };
        let rows = [row("CREATED", "FINISHED", &node), row("PENDING", "NO_RESOURCES", ""), "{}".to_owned()];
        let list =
            format!("{{\"result\": true, \"data\": {{\"result\": {{\"result\": [{}]}}}}}}", rows.join(", "));
        let all = groups(&list).unwrap();
        assert_eq!((all[0].why.raw(), all[1].why.raw(), all.len()), ("", "NO_RESOURCES", 3));
        assert_eq!(all[0].bundles, [(vec![("TPU".into(), 4.0)], NodeId::from_hex(&node))]);
        assert_eq!(all[1].bundles[0].1, None);
        assert_eq!(all[1].created, Some(Timestamp::from_millis(1_795_229_300_123)));
    }
}
