//! The label selectors of jobs' entrypoints, which Ray accepts since 2.54. It does not record them with the submission:
//! only the actor that runs the entrypoint has them.

use super::super::client::{Client, encoded};
use super::super::convert::envelope;
use super::super::json::{Num, Str, Table, read_with};
use super::RayError;
use super::work::MAX_ROWS;
use crate::model::sort;
use crate::model::{NodeId, SubmissionId, Text};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Beginning of the name of the actor that runs an entrypoint, before the submission id (Ray,
/// `dashboard/modules/job/common.py`).
pub const SUPERVISOR: &str = "_ray_internal_job_actor_";
/// The label with the id of a node. Ray itself requires it to place an entrypoint on the head (after 2.54).
pub const NODE_ID_LABEL: &str = "ray.io/node-id";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Row<'a> {
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    label_selector: Table<Str<'a>>,
    required_resources: Table<Num>,
}

/// The labels that a node must have to run an entrypoint, each with the required value or condition.
type LabelSelector = BTreeMap<String, String>;

/// The label selector of an actor that runs an entrypoint.
struct Found {
    labels: LabelSelector,
    /// Whether Ray itself may have set it: the entrypoint requests no resources, and only a node id is required.
    may_be_rays: bool,
}

impl Found {
    /// The selector with which the job was submitted; `head` is the head's node id.
    ///
    /// Ray itself requires the head for an entrypoint that requests nothing. A job whose submitter required only the
    /// head looks the same, and needs no selector: without one, Ray places its entrypoint on the head as well.
    fn of_submitter(self, head: Option<&str>) -> LabelSelector {
        let is_rays = self.may_be_rays && self.labels.get(NODE_ID_LABEL).map(String::as_str) == head;
        if is_rays { LabelSelector::new() } else { self.labels }
    }
}

/// The selectors of the listed actors that run entrypoints; empty for an entrypoint without one.
fn selectors(text: &str) -> Result<BTreeMap<SubmissionId, Found>, serde_json::Error> {
    let list = envelope::listed::<Row>(text)?;
    let of = |row: Row<'_>| {
        let id = SubmissionId(Text::from(row.name.0.strip_prefix(SUPERVISOR)?));
        let labels = row.label_selector.0.into_iter();
        let labels: LabelSelector = sort::collected(labels.map(|(key, value)| (key, value.0.into_owned())));
        let is_node_only = labels.len() == 1 && labels.contains_key(NODE_ID_LABEL);
        Some((id, Found { labels, may_be_rays: is_node_only && row.required_resources.0.is_empty() }))
    };
    Ok(sort::collected(list.result.0.into_iter().filter_map(of)))
}

/// Whether a live node meets this condition on its id: `ID`, `!ID`, `in(ID, ID)` or `!in(ID, ID)`.
fn is_met(condition: &str, live: &BTreeSet<NodeId>) -> bool {
    let ids = condition.trim_start_matches("in").trim_matches(['(', ')']);
    let is_live = |id: &str| NodeId::from_hex(id.trim()).is_some_and(|id| live.contains(&id));
    condition.starts_with('!') || ids.split(',').any(is_live)
}

/// Whether this version of Ray accepts label selectors; true if the version cannot be parsed.
fn has_selectors(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    !matches!((numbers.next(), numbers.next()), (Some(major), Some(minor)) if (major, minor) < (2, 54))
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
    /// entrypoint without one, and without node ids that no live node has. Those of `jobs` whose actors Ray does not
    /// list are missing. Takes two requests (`GET /api/v0/actors`), and up to three more (`GET /api/v0/nodes`,
    /// `GET /api/version`).
    pub async fn label_selectors(
        &self,
        jobs: &[SubmissionId],
    ) -> Result<BTreeMap<SubmissionId, LabelSelector>, RayError> {
        let mut found = BTreeMap::new();
        // In this order, an actor that starts between the requests is in one of the lists.
        for state in ["PENDING_CREATION", "ALIVE"] {
            found.extend(read_with("/api/v0/actors", &self.get(&route(state)).await?, selectors)?);
        }
        let mut all = self.of_submitters(found).await?;
        if !jobs.iter().all(|id| all.contains_key(id)) && !self.has_label_selectors().await? {
            for id in jobs {
                all.entry(id.clone()).or_default();
            }
        }
        Ok(all)
    }

    /// The label selector of one submission's entrypoint, also of one that has ended; empty if it has none, `None` if
    /// Ray does not list its actor. A node id that no live node has is left out. Takes up to five requests.
    pub async fn label_selector(&self, id: &SubmissionId) -> Result<Option<LabelSelector>, RayError> {
        let name = encoded(&format!("{SUPERVISOR}{}", id.0.raw()));
        for state in ["PENDING_CREATION", "ALIVE", "DEAD"] {
            let route =
                format!("{}&filter_keys=name&filter_predicates=%3D&filter_values={name}", route(state));
            let mut found = read_with("/api/v0/actors", &self.get(&route).await?, selectors)?;
            if let Some(selector) = found.remove(id) {
                let own = self.of_submitters(sort::collected([(id.clone(), selector)])).await?;
                return Ok(own.into_values().next());
            }
        }
        Ok((!self.has_label_selectors().await?).then(LabelSelector::new))
    }

    /// The selectors with which the jobs were submitted, without node ids that no live node has.
    async fn of_submitters(
        &self,
        found: BTreeMap<SubmissionId, Found>,
    ) -> Result<BTreeMap<SubmissionId, LabelSelector>, RayError> {
        let mut head = None;
        if found.values().any(|selector| selector.may_be_rays) {
            head = Some(self.head_node().await?.to_string());
        }
        let own = |(id, selector): (_, Found)| (id, selector.of_submitter(head.as_deref()));
        let mut all: BTreeMap<SubmissionId, LabelSelector> = sort::collected(found.into_iter().map(own));
        self.drop_lost_nodes(all.values_mut().collect()).await?;
        Ok(all)
    }

    /// Removes conditions on the node id that no live node meets: an entrypoint with one would stay pending. Nodes have
    /// new ids after a restart of Ray. Takes a request (`GET /api/v0/nodes`) only if there is such a condition.
    pub async fn drop_lost_nodes(
        &self,
        selectors: Vec<&mut BTreeMap<String, String>>,
    ) -> Result<(), RayError> {
        if !selectors.iter().any(|selector| selector.contains_key(NODE_ID_LABEL)) {
            return Ok(());
        }
        let live = self.live_nodes().await?;
        for selector in selectors {
            selector.retain(|key, condition| key != NODE_ID_LABEL || is_met(condition, &live));
        }
        Ok(())
    }

    /// The ids of the live nodes (`GET /api/v0/nodes`).
    async fn live_nodes(&self) -> Result<BTreeSet<NodeId>, RayError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Node<'a> {
            #[serde(borrow)]
            node_id: Str<'a>,
        }
        let route = format!(
            "/api/v0/nodes?filter_keys=state&filter_predicates=%3D&filter_values=ALIVE&limit={MAX_ROWS}"
        );
        read_with(&route, &self.get(&route).await?, |text| {
            let rows = envelope::listed::<Node<'_>>(text)?.result.0;
            Ok(sort::collected(rows.iter().filter_map(|row| NodeId::from_hex(&row.node_id.0))))
        })
    }

    /// Checks before a job is submitted that this Ray accepts its label selector. Without one, no request is sent.
    ///
    /// # Errors
    ///
    /// [`RayError::NoLabelSelectors`] if the version of Ray is before 2.54.
    pub async fn check_label_selector(&self, selector: &BTreeMap<String, String>) -> Result<(), RayError> {
        if selector.is_empty() {
            return Ok(());
        }
        let version = self.version().await?.ray_version;
        if has_selectors(version.raw()) { Ok(()) } else { Err(RayError::NoLabelSelectors { version }) }
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
        // The head in the recorded lists.
        let head = format!("{}00000", "f".repeat(51));
        let some = |list: &str| {
            let all = selectors(list).unwrap().into_iter();
            let all = all.map(|(id, selector)| (id, selector.of_submitter(Some(&head))));
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
        let wanted = labels(&[("disk", "ssd"), (NODE_ID_LABEL, "n"), ("zone", "a")]);
        assert_eq!(some(list), [(SubmissionId("x".into()), wanted)]);
        assert_eq!(selectors(list).unwrap().len(), 2, "other actors do not run entrypoints");
    }

    #[test]
    fn a_required_node_is_the_submitters_unless_ray_would_require_it() {
        let own = |node: &str, resources: &str| {
            let list = format!(
                r#"{{"data": {{"result": {{"result": [{{"name": "_ray_internal_job_actor_x",
                "label_selector": {{"ray.io/node-id": "{node}"}}, "required_resources": {resources}}}]}}}}}}"#
            );
            let found = selectors(&list).unwrap().into_values().next().unwrap();
            !found.of_submitter(Some("head")).is_empty()
        };
        assert!(!own("head", "{}"), "the entrypoint is placed there anyway");
        assert!(own("worker", "{}") && own("!head", "{}"));
        assert!(own("head", r#"{"CPU": 1.0}"#), "Ray itself does not require it then");
    }

    #[test]
    fn a_condition_on_the_node_is_met_by_a_live_node() {
        let (live, dead) = ("a".repeat(56), "b".repeat(56));
        let nodes = BTreeSet::from([NodeId::from_hex(&live).unwrap()]);
        for (condition, expected) in [
            (live.clone(), true),
            (dead.clone(), false),
            (format!("in({dead}, {live})"), true),
            (format!("in({dead})"), false),
            (format!("!{live}"), true),
            (format!("!in({dead})"), true),
            (String::new(), false),
        ] {
            assert_eq!(is_met(&condition, &nodes), expected, "{condition}");
        }
    }

    #[test]
    fn label_selectors_exist_since_ray_2_54() {
        assert!(["2.54.0", "2.60.0", "2.100.0rc1", "3.0.0.dev0"].into_iter().all(has_selectors));
        assert!(!["2.53.0", "2.9.3", "1.99.0"].into_iter().any(has_selectors));
        assert!(has_selectors("") && has_selectors("nightly"), "it is not known to be older");
    }
}
