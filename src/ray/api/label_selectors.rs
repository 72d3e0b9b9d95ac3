//! The label selectors of jobs' entrypoints, since Ray 2.60. Ray does not record them with the submission: only the
//! actor that runs the entrypoint has them.

use super::super::client::Client;
use super::super::convert::envelope;
use super::super::json::{Str, Table, read_with};
use super::RayError;
use super::work::MAX_ROWS;
use crate::model::{SubmissionId, Text};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Beginning of the name of the actor that runs an entrypoint, before the submission id (Ray,
/// `dashboard/modules/job/common.py`).
pub const SUPERVISOR: &str = "_ray_internal_job_actor_";
/// The label with which Ray itself places an entrypoint that requests nothing on the head.
const NODE_ID: &str = "ray.io/node-id";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row<'a> {
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    label_selector: Table<Str<'a>>,
}

/// The selectors of the listed actors that run entrypoints.
fn selectors(text: &str) -> Result<BTreeMap<SubmissionId, Text>, serde_json::Error> {
    let list = envelope::listed::<Row>(text)?;
    let of = |row: &Row<'_>| {
        let id = row.name.0.strip_prefix(SUPERVISOR)?;
        let labels = row.label_selector.0.iter().filter(|(key, _)| key.as_str() != NODE_ID);
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", value.0)).collect();
        (!labels.is_empty()).then(|| (SubmissionId(Text::from(id)), Text::from(labels.join(", "))))
    };
    Ok(list.result.0.iter().filter_map(of).collect())
}

impl Client {
    /// The label selectors of the entrypoints of submissions that have not ended: `disk=ssd, zone=a`. Takes two
    /// requests (`GET /api/v0/actors`).
    pub async fn label_selectors(&self) -> Result<BTreeMap<SubmissionId, Text>, RayError> {
        let mut all = BTreeMap::new();
        for state in ["ALIVE", "PENDING_CREATION"] {
            let route = format!(
                "/api/v0/actors?filter_keys=class_name&filter_predicates=%3D&filter_values=JobSupervisor\
                 &filter_keys=state&filter_predicates=%3D&filter_values={state}&detail=1&limit={MAX_ROWS}"
            );
            all.extend(read_with("/api/v0/actors", &self.get(&route).await?, selectors)?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::convert::fixtures::text;
    use super::*;

    #[test]
    fn only_the_submitters_own_selectors_are_listed() {
        let recorded = selectors(&text("2.60.0", "busy_v0_actors")).unwrap();
        assert_eq!(recorded, BTreeMap::from([(SubmissionId("lbl-1".into()), "a=b".into())]));
        assert!(selectors(&text("2.53.0", "busy_v0_actors")).unwrap().is_empty());
        let list = r#"{"data": {"result": {"result": [
            {"name": "_ray_internal_job_actor_x", "label_selector": {"zone": "a", "ray.io/node-id": "n", "disk": "ssd"}},
            {"name": "_ray_internal_job_actor_y", "label_selector": null},
            {"name": "holder", "label_selector": {"zone": "a"}}
        ]}}}"#;
        let found = selectors(list).unwrap();
        assert_eq!(found, BTreeMap::from([(SubmissionId("x".into()), "disk=ssd, zone=a".into())]));
    }
}
