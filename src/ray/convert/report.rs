//! The report of autoscaler v1: JSON that its monitor writes into the GCS' key-value store, verbatim there
//! (`__autoscaling_status`), with mangled keys in `GET /api/cluster_status`.

use super::super::json::{Flag, Loose, Num, Str, Table};
use super::names::Names;
use super::{Types, add, in_order};
use crate::model::sort;
use crate::model::{
    Autoscaler, AutoscalerVersion, Demand, DemandKind, LaunchFailure, Node, PendingNode, Text, Timestamp,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// The report, with verbatim or camel-case keys.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Report<'a> {
    time: Num,
    #[serde(borrow, rename = "autoscaler_report", alias = "autoscalerReport")]
    activity: Loose<Activity<'a>>,
    #[serde(rename = "load_metrics_report", alias = "loadMetricsReport")]
    load: Loose<Load>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Activity<'a> {
    #[serde(alias = "activeNodes")]
    active_nodes: Table<Num>,
    #[serde(alias = "pendingNodes")]
    pending_nodes: Value,
    #[serde(alias = "pendingLaunches")]
    pending_launches: Table<Num>,
    /// Machines that are neither active nor pending: lost nodes, as long as the monitor runs. Failed launches are in
    /// `node_availability_summary`; Ray forgets machines on which its installation failed (`node_tracker.py`).
    #[serde(alias = "failedNodes")]
    failed_nodes: Value,
    #[serde(borrow, alias = "nodeAvailabilitySummary")]
    node_availability_summary: Loose<Availabilities<'a>>,
    #[serde(borrow, alias = "nodeTypeMapping")]
    node_type_mapping: Table<Str<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Availabilities<'a> {
    #[serde(borrow, alias = "nodeAvailabilities")]
    node_availabilities: Table<Loose<Availability<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Availability<'a> {
    #[serde(borrow, alias = "nodeType")]
    node_type: Str<'a>,
    #[serde(alias = "isAvailable")]
    is_available: Flag,
    #[serde(alias = "lastCheckedTimestamp")]
    last_checked_timestamp: Num,
    #[serde(borrow, alias = "unavailableNodeInformation")]
    unavailable_node_information: Loose<Unavailable<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Unavailable<'a> {
    #[serde(borrow)]
    category: Str<'a>,
    #[serde(borrow)]
    description: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Load {
    #[serde(alias = "resourceDemand")]
    resource_demand: Value,
    #[serde(alias = "pgDemand")]
    pg_demand: Value,
    #[serde(alias = "requestDemand")]
    request_demand: Value,
    #[serde(alias = "usageByNode")]
    usage_by_node: Table<Table<Value>>,
}

impl Report<'_> {
    /// Collects the verbatim type names in the report.
    fn names(&self) -> Names {
        let activity = &self.activity.0;
        let mut names = Names::default();
        activity.node_type_mapping.0.values().for_each(|t| names.insert(&t.0));
        for node in lists(&activity.pending_nodes).chain(lists(&activity.failed_nodes)) {
            names.insert(text_at(node, 1));
        }
        for availability in activity.node_availability_summary.0.node_availabilities.0.values() {
            names.insert(&availability.0.node_type.0);
        }
        names
    }

    /// Whether the report has no real autoscaler: on a manually started cluster Ray reports each node as its own type.
    fn is_stand_in(&self) -> bool {
        let mut types = self.activity.0.node_type_mapping.0.iter().peekable();
        types.peek().is_some() && types.all(|(node, t)| t.0.strip_prefix("node_") == Some(node))
    }

    /// Converts the report to the model.
    pub fn autoscaler(&self, error: Text) -> Autoscaler {
        let activity = &self.activity.0;
        let names = self.names();
        let mut out = Autoscaler {
            version: AutoscalerVersion::V1,
            reported: self.time.0.map(Timestamp::from_secs_f64),
            demands: self.load.0.demands(),
            error,
            ..Autoscaler::default()
        };
        if self.is_stand_in() {
            out.version = AutoscalerVersion::None;
            return in_order(out);
        }
        let mut types = Types::default();
        for (name, count) in &activity.active_nodes.0 {
            add(&mut types.of(names.recover(name)).active, number(*count));
        }
        for (name, count) in &activity.pending_launches.0 {
            add(&mut types.of(names.recover(name)).launching, number(*count));
        }
        for node in lists(&activity.pending_nodes) {
            types.of(text_at(node, 1)).pending += 1;
            let [address, node_type, status] = [0, 1, 2].map(|i| Text::from(text_at(node, i)));
            out.pending.push(PendingNode { node_type, address, status });
        }
        let availabilities = &activity.node_availability_summary.0.node_availabilities.0;
        out.failures.extend(availabilities.values().filter(|a| !a.0.is_available.0).map(|a| a.0.failure()));
        for failure in &out.failures {
            add(&mut types.of(failure.node_type.raw()).failed, failure.count);
        }
        out.types = types.finish();
        in_order(out)
    }

    /// Node types by address; empty when there is no real autoscaler.
    pub fn node_types(&self) -> HashMap<String, Text> {
        if self.is_stand_in() {
            return HashMap::new();
        }
        let types = &self.activity.0.node_type_mapping.0;
        types.iter().map(|(address, name)| (address.clone(), name.text())).collect()
    }

    /// Resource use of each node from v1's monitor, by address or id; resource names as in the response.
    pub fn usage(&self) -> Usage {
        let used = |pairs: &Table<Value>| {
            let used = |(name, pair): (&String, &Value)| Some((name.clone(), pair.get(0)?.as_f64()?));
            pairs.0.iter().filter_map(used).collect()
        };
        self.load.0.usage_by_node.0.iter().map(|(k, v)| (k.clone(), used(v))).collect()
    }
}

/// Used amounts by node, then by resource.
pub type Usage = HashMap<String, Vec<(String, f64)>>;

/// Sets the node types from v1's report, which lists nodes by address.
pub fn name_types(nodes: &mut [Node], types: &HashMap<String, Text>) {
    for node in nodes.iter_mut().filter(|n| n.node_type.is_empty()) {
        if let Some(name) = types.get(node.address.raw()) {
            node.node_type = name.clone();
        }
    }
}

/// Sets the resource use of live nodes from v1's report.
pub fn fill_use(nodes: &mut [Node], usage: &Usage) {
    let mut names = Names::default();
    for resource in nodes.iter().flat_map(|n| &n.resources.0) {
        names.insert(resource.name.raw());
    }
    for node in nodes.iter_mut().filter(|n| n.state.is_alive()) {
        let seen = usage.get(node.address.raw()).or_else(|| usage.get(&node.id.to_string()));
        for (name, used) in seen.into_iter().flatten() {
            let name = names.recover(name);
            if let Some(r) = node.resources.0.iter_mut().find(|r| r.name.raw() == name) {
                r.used = Some(*used);
            }
        }
    }
}

impl Availability<'_> {
    fn failure(&self) -> LaunchFailure {
        let Unavailable { category, description } = &self.unavailable_node_information.0;
        let reason = match (category.is_empty(), description.is_empty()) {
            (false, false) => format!("{}: {}", category.0, description.0),
            (false, true) => category.0.to_string(),
            _ => description.0.to_string(),
        };
        LaunchFailure {
            node_type: self.node_type.text(),
            count: 1,
            reason: Text::from(reason),
            at: self.last_checked_timestamp.0.map(Timestamp::from_secs_f64),
            from_text: false,
            day_unknown: false,
        }
    }
}

impl Load {
    fn demands(&self) -> Vec<Demand> {
        let counted = |list: &Value, kind: DemandKind| -> Vec<Demand> {
            let demand = |pair: &Vec<Value>| Demand {
                shape: pair.first().map(|s| sum([s].into_iter(), 1.0)).unwrap_or_default(),
                count: pair.get(1).and_then(Value::as_u64).unwrap_or(1),
                kind: kind.clone(),
                infeasible: false,
            };
            lists(list).map(demand).collect()
        };
        let mut demands = counted(&self.resource_demand, DemandKind::Task);
        demands.extend(counted(&self.request_demand, DemandKind::Request));
        demands.extend(lists(&self.pg_demand).map(|pair| group(pair)));
        demands
    }
}

/// `[{"bundles": [[{...}, 2]], "strategy": "SPREAD"}, 1]`.
fn group(pair: &[Value]) -> Demand {
    let group = pair.first().unwrap_or(&Value::Null);
    let mut all: BTreeMap<Text, f64> = BTreeMap::new();
    for bundle in lists(&group["bundles"]) {
        let times = bundle.get(1).and_then(Value::as_f64).unwrap_or(1.0);
        for (name, amount) in sum(bundle.first().into_iter(), times) {
            *all.entry(name).or_default() += amount;
        }
    }
    Demand {
        shape: all.into_iter().collect(),
        count: pair.get(1).and_then(Value::as_u64).unwrap_or(1),
        kind: DemandKind::Group(Text::from(group["strategy"].as_str().unwrap_or_default())),
        infeasible: false,
    }
}

/// Resource names and amounts, by name.
fn sum<'a>(shapes: impl Iterator<Item = &'a Value>, times: f64) -> Vec<(Text, f64)> {
    let entries = shapes.filter_map(Value::as_object).flatten();
    let mut all: Vec<_> =
        entries.filter_map(|(name, n)| Some((Text::from(name.as_str()), n.as_f64()? * times))).collect();
    sort::by(&mut all, |a, b| a.0.cmp(&b.0));
    all
}

/// The lists inside a list.
fn lists(value: &Value) -> impl Iterator<Item = &Vec<Value>> {
    value.as_array().into_iter().flatten().filter_map(Value::as_array)
}

/// The string at one index of a list.
fn text_at(list: &[Value], at: usize) -> &str {
    list.get(at).and_then(Value::as_str).unwrap_or_default()
}

fn number(n: Num) -> u32 {
    n.whole().and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::super::json::read_with;
    use super::super::fixtures::{VERSIONS, body};
    use super::super::{envelope, nodes};
    use super::*;

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status<'a> {
        #[serde(borrow, rename = "clusterStatus")]
        report: Loose<Report<'a>>,
    }

    fn with<T>(body: &[u8], f: impl Fn(&Report) -> T) -> T {
        let read = |b: &str| {
            let status: Status = envelope::data(b)?;
            Ok(f(&status.report.0))
        };
        read_with("status", body, read).unwrap()
    }

    #[test]
    fn a_recorded_report_keeps_its_names() {
        for version in VERSIONS {
            let report = with(&body(version, "demand_cluster_status"), |r| r.autoscaler(Text::default()));
            assert_eq!(report.version, AutoscalerVersion::V1, "{version}");
            assert!(report.reported.is_some());
            let of = |name: &str| report.types.iter().find(|t| t.name.raw() == name).cloned();
            assert_eq!(of("ray.head.default").map(|t| t.active), Some(1));
            assert_eq!(of("tpu_noquota").map(|t| (t.launching, t.failed)), Some((2, 1)));
            assert!(report.failures[0].reason.raw().contains("Quota"), "{:?}", report.failures);
            assert!(report.failures[0].at.is_some());
            let is_requested =
                |name: &str| report.demands.iter().any(|d| d.shape.iter().any(|(n, _)| n.raw() == name));
            assert!(is_requested("nonexistent_resource"));
            let group = report.demands.iter().find(|d| matches!(d.kind, DemandKind::Group(_))).unwrap();
            assert_eq!(group.shape, [("CPU".into(), 2.0), ("TPU".into(), 16.0)]);
        }
    }

    #[test]
    fn a_report_gives_nodes_their_type_and_use() {
        for version in VERSIONS {
            let nodes = nodes::list("nodes", &body("2.60.0", "busy_v0_nodes_detail")).unwrap();
            with(&body(version, "demand_cluster_status"), |r| {
                let mut nodes = nodes.clone();
                name_types(&mut nodes, &r.node_types());
                fill_use(&mut nodes, &r.usage());
                let worker = nodes.iter().find(|n| !n.is_head).unwrap();
                assert_eq!(worker.node_type.raw(), "tpu_worker", "{version}");
                assert_eq!(worker.resources.get("TPU").unwrap().used, Some(4.0));
                assert_eq!(worker.resources.get("my_custom_res").unwrap().used, Some(0.0));
            });
        }
    }

    #[test]
    fn both_spellings_read_the_same() {
        let verbatim = br#"{"data": {"clusterStatus": {"time": 5.5, "autoscaler_report":
            {"active_nodes": {"tpu_worker": 2}, "pending_launches": {"tpu_worker": 1},
             "node_type_mapping": {"10.0.0.2": "tpu_worker"}},
            "load_metrics_report": {"resource_demand": [[{"CPU": 1}, 3], null, [{}]]}}}}"#;
        let report = with(verbatim, |r| r.autoscaler(Text::default()));
        assert_eq!((report.types[0].active, report.types[0].launching), (2, 1));
        assert_eq!(report.demands.iter().map(|d| d.count).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(report.reported, Some(Timestamp::from_millis(5_500)));
    }

    #[test]
    fn a_lost_node_is_not_a_failed_launch() {
        let lost = br#"{"data": {"clusterStatus": {"autoscalerReport": {"activeNodes": {"tpuWorker": 1},
            "failedNodes": [["10.0.0.2", "tpu_worker"], ["10.0.0.3", "tpu_worker"]],
            "nodeAvailabilitySummary": {"nodeAvailabilities": {
                "tpuWorker": {"nodeType": "tpu_worker", "isAvailable": true, "lastCheckedTimestamp": 5},
                "tpuSlice": {"nodeType": "tpu_slice", "isAvailable": false, "lastCheckedTimestamp": 7,
                    "unavailableNodeInformation": {"category": "STOCKOUT", "description": "none left"}}}}}}}}"#;
        let report = with(lost, |r| r.autoscaler(Text::default()));
        let failures: Vec<_> =
            report.failures.iter().map(|f| (f.node_type.raw(), f.reason.raw(), f.at)).collect();
        assert_eq!(failures, [("tpu_slice", "STOCKOUT: none left", Some(Timestamp::from_millis(7_000)))]);
        let types: Vec<_> = report.types.iter().map(|t| (t.name.raw(), t.active, t.failed)).collect();
        assert_eq!(types, [("tpu_slice", 0, 1), ("tpu_worker", 1, 0)]);
    }

    #[test]
    fn the_placeholder_of_a_manually_started_cluster_is_no_autoscaler() {
        let id = "0dcc18a3ee88283ea613f0735167b5e9590e97fce231080ec8770716";
        let body = format!(
            r#"{{"data": {{"clusterStatus": {{"autoscaler_report": {{"active_nodes": {{"node_{id}": 1}},
            "node_type_mapping": {{"{id}": "node_{id}"}}}}}}}}}}"#
        );
        let report = with(body.as_bytes(), |r| r.autoscaler(Text::default()));
        assert_eq!((report.version, report.types.len()), (AutoscalerVersion::None, 0));
    }
}
