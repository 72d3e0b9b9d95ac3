//! The label selectors of jobs' entrypoints, which Ray accepts since 2.54. It does not record them with the submission:
//! only the actor that runs the entrypoint has them.

use super::super::client::{Client, encoded};
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

/// The labels that a node must have to run an entrypoint, each with the required value or condition.
type LabelSelector = BTreeMap<String, String>;

/// The selectors of the listed actors that run entrypoints; empty for an entrypoint without one.
fn selectors(text: &str) -> Result<BTreeMap<SubmissionId, LabelSelector>, serde_json::Error> {
    let list = envelope::listed::<Row>(text)?;
    let of = |row: Row<'_>| {
        let id = SubmissionId(Text::from(row.name.0.strip_prefix(SUPERVISOR)?));
        let labels = row.label_selector.0.into_iter().filter(|(key, _)| key != NODE_ID);
        let labels: LabelSelector = labels.map(|(key, value)| (key, value.0.into_owned())).collect();
        Some((id, labels))
    };
    Ok(list.result.0.into_iter().filter_map(of).collect())
}

/// Whether this version of Ray accepts label selectors.
fn has_selectors(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(2), Some(54))
}

/// The route that lists the actors in this state that run entrypoints.
fn route(state: &str) -> String {
    format!(
        "/api/v0/actors?filter_keys=class_name&filter_predicates=%3D&filter_values=JobSupervisor\
         &filter_keys=state&filter_predicates=%3D&filter_values={state}&detail=1&limit={MAX_ROWS}"
    )
}

impl Client {
    /// The label selectors of the entrypoints of submissions that have not ended, `jobs` among them; empty for an
    /// entrypoint without one. Those of `jobs` whose actors Ray does not list are missing. Takes two requests
    /// (`GET /api/v0/actors`), and a third if some are missing.
    pub async fn label_selectors(
        &self,
        jobs: &[SubmissionId],
    ) -> Result<BTreeMap<SubmissionId, LabelSelector>, RayError> {
        let mut all = BTreeMap::new();
        // In this order, an actor that starts between the requests is in one of the lists.
        for state in ["PENDING_CREATION", "ALIVE"] {
            all.extend(read_with("/api/v0/actors", &self.get(&route(state)).await?, selectors)?);
        }
        if !jobs.iter().all(|id| all.contains_key(id)) && !self.has_label_selectors().await? {
            for id in jobs {
                all.entry(id.clone()).or_default();
            }
        }
        Ok(all)
    }

    /// The label selector of one submission's entrypoint, also of one that has ended; empty if it has none, `None` if
    /// Ray does not list its actor. Takes up to four requests.
    pub async fn label_selector(&self, id: &SubmissionId) -> Result<Option<LabelSelector>, RayError> {
        let name = encoded(&format!("{SUPERVISOR}{}", id.0.raw()));
        for state in ["PENDING_CREATION", "ALIVE", "DEAD"] {
            let route =
                format!("{}&filter_keys=name&filter_predicates=%3D&filter_values={name}", route(state));
            let mut found = read_with("/api/v0/actors", &self.get(&route).await?, selectors)?;
            if let Some(selector) = found.remove(id) {
                return Ok(Some(selector));
            }
        }
        Ok((!self.has_label_selectors().await?).then(LabelSelector::new))
    }

    /// Whether this Ray accepts label selectors (`GET /api/version`): before, no entrypoint has one.
    async fn has_label_selectors(&self) -> Result<bool, RayError> {
        Ok(has_selectors(self.version().await?.ray_version.raw()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::convert::fixtures::text;
    use super::*;

    #[test]
    fn only_the_submitters_own_selectors_are_listed() {
        let some = |list: &str| {
            let all = selectors(list).unwrap().into_iter();
            all.filter(|(_, selector)| !selector.is_empty()).collect::<Vec<_>>()
        };
        let labels = |pairs: &[(&str, &str)]| -> LabelSelector {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let recorded = text("2.60.0", "busy_v0_actors");
        assert_eq!(some(&recorded), [(SubmissionId("lbl-1".into()), labels(&[("a", "b")]))]);
        assert!(selectors(&recorded).unwrap().contains_key(&SubmissionId("busy-1".into())), "it has none");
        assert_eq!(some(&text("2.53.0", "busy_v0_actors")), []);
        let list = r#"{"data": {"result": {"result": [
            {"name": "_ray_internal_job_actor_x", "label_selector": {"zone": "a", "ray.io/node-id": "n", "disk": "ssd"}},
            {"name": "_ray_internal_job_actor_y", "label_selector": null},
            {"name": "holder", "label_selector": {"zone": "a"}}
        ]}}}"#;
        let wanted = labels(&[("disk", "ssd"), ("zone", "a")]);
        assert_eq!(some(list), [(SubmissionId("x".into()), wanted)]);
        assert_eq!(selectors(list).unwrap().len(), 2, "other actors do not run entrypoints");
    }

    #[test]
    fn label_selectors_exist_since_ray_2_54() {
        assert!(["2.54.0", "2.60.0", "2.100.0rc1", "3.0.0.dev0"].into_iter().all(has_selectors));
        assert!(!["2.53.0", "2.9.3", "1.99.0"].into_iter().any(has_selectors));
    }
}
