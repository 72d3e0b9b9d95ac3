//! `GET /api/cluster_status`: the legacy autoscaler's report as JSON (the new one returns nulls), and the text of
//! either (`?format=1`).

use super::super::cluster::Cluster;
use super::super::cluster::autoscaling::Wanted;
use super::super::cluster::node::SimNode;
use super::super::json::{camel, dumps, envelope};
use super::nodes::usage_line;
use crate::model::AutoscalerVersion;
use crate::model::json::object;
use crate::model::sort;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

const RULE: &str = "---------------------------------------------------------------";

/// Used and total amount of each resource, summed over the nodes.
fn usage<'a>(nodes: impl Iterator<Item = &'a SimNode>) -> BTreeMap<&'a str, (f64, f64)> {
    let mut sums = BTreeMap::new();
    for (name, total, used) in nodes.flat_map(|n| &n.resources) {
        let sum: &mut (f64, f64) = sums.entry(name.as_str()).or_default();
        sum.0 += used;
        sum.1 += total;
    }
    sums
}

fn count<'a>(nodes: impl Iterator<Item = &'a SimNode>) -> BTreeMap<&'a str, usize> {
    let mut by_type = BTreeMap::new();
    for node in nodes {
        *by_type.entry(&*node.node_type).or_default() += 1;
    }
    by_type
}

fn amounts(pairs: &[(String, f64)]) -> Value {
    object(pairs.iter().map(|(k, v)| (k.as_str(), *v)))
}

/// A time in UTC in a format of strftime, such as `2026-11-21 02:48:06.367050`.
fn time(ms: i64, format: &str) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap_or_default().strftime(format).to_string()
}

/// The JSON response.
pub(super) fn report(cluster: &Cluster, version: AutoscalerVersion) -> String {
    let data = match version {
        AutoscalerVersion::V1 => json!({
            "autoscalingStatus": format!("Cluster status: {} nodes", alive(cluster.reported_nodes().0).count()),
            "autoscalingError": null,
            "clusterStatus": mangled(legacy(cluster)),
        }),
        AutoscalerVersion::V2 | AutoscalerVersion::None => {
            json!({"autoscalingStatus": null, "autoscalingError": null, "clusterStatus": null})
        }
    };
    envelope("Got cluster status.", &dumps(&data))
}

/// The legacy autoscaler's report in the key-value store (`__autoscaling_status`).
pub(in crate::demo) fn stored(cluster: &Cluster) -> String {
    dumps(&legacy(cluster))
}

/// Converts keys to camel case as the dashboard does: including names of resources and node types, but not inside a
/// list of lists.
fn mangled(value: Value) -> Value {
    match value {
        Value::Object(map) => object(map.into_iter().map(|(k, v)| (camel(&k), mangled(v)))),
        Value::Array(list) if !list.iter().any(Value::is_array) => list.into_iter().map(mangled).collect(),
        other => other,
    }
}

fn alive(nodes: &[SimNode]) -> impl Iterator<Item = &SimNode> {
    nodes.iter().filter(|n| n.is_alive())
}

fn legacy(cluster: &Cluster) -> Value {
    let (nodes, at) = cluster.reported_nodes();
    let alive = || alive(nodes);
    let pair = |sums: BTreeMap<&str, (f64, f64)>| {
        object(sums.into_iter().map(|(k, (used, total))| (k, json!([used, total]))))
    };
    let scaling = cluster.autoscaling();
    let launches = object(scaling.launching.iter().map(|l| (&*l.node_type, l.count)));
    let pending: Vec<Value> =
        scaling.joining.iter().map(|j| json!([j.ip, *j.node_type, "waiting-for-ssh"])).collect();
    let failed: Vec<Value> =
        cluster.terminated(nodes, at).iter().map(|n| json!([n.ip, *n.node_type])).collect();
    let availability = object(scaling.refused.iter().map(|r| {
        let refused = json!({"category": r.category, "description": r.reason});
        let state = json!({"node_type": *r.node_type, "is_available": false, "last_checked_timestamp": r.at / 1000, "unavailable_node_information": refused});
        (&*r.node_type, state)
    }));
    let demand: Vec<Value> =
        cluster.reported_demand().iter().map(|w| json!([amounts(&w.shape), w.count])).collect();
    let types: Vec<Value> =
        alive().map(|n| json!([object(n.resources.iter().map(|(k, t, _)| (k.as_str(), *t))), 1])).collect();
    json!({
        "gcs_request_time": 0.0024, "time": cluster.monitor.at as f64 / 1000.0, "monitor_pid": 64,
        "autoscaler_update_time": 0.0075, "non_terminated_nodes_time": 0.000_012,
        "autoscaler_report": {
            "active_nodes": object(count(alive())), "idle_nodes": null, "pending_nodes": pending,
            "pending_launches": launches, "failed_nodes": failed,
            "node_availability_summary": {"node_availabilities": availability},
            "node_activities": null, "pending_resources": {},
            "node_type_mapping": object(alive().map(|n| (n.ip.as_str(), &*n.node_type))),
            "legacy": true,
        },
        "load_metrics_report": {
            "usage": pair(usage(alive())), "resource_demand": demand, "pg_demand": [], "request_demand": [],
            "node_types": types, "head_ip": null,
            "usage_by_node": object(alive().map(|n| (n.ip.as_str(), pair(usage(std::iter::once(n)))))),
            "node_type_mapping": null, "idle_time_map": null,
        },
    })
}

/// The text response.
pub(super) fn text(cluster: &Cluster, version: AutoscalerVersion) -> String {
    let text = if version == AutoscalerVersion::None {
        "No cluster status. It may take a few seconds for the Ray internal services to start up.".into()
    } else {
        table(cluster, version == AutoscalerVersion::V2)
    };
    envelope("Got formatted cluster status.", &dumps(&json!({"clusterStatus": text})))
}

fn table(cluster: &Cluster, v2: bool) -> String {
    // v2 prints the time of the request, and the nodes and the demand of the GCS, however old its own report is.
    let stamp = time(if v2 { cluster.now } else { cluster.monitor.at }, "%Y-%m-%d %H:%M:%S.%6f");
    let (nodes, at) = if v2 { (cluster.nodes.as_slice(), cluster.now) } else { cluster.reported_nodes() };
    let alive = || alive(nodes);
    let busy = count(alive().filter(|n| !v2 || n.idle_since.is_none()));
    let mut out = format!("======== Autoscaler status: {stamp} ========\nNode status\n{RULE}\nActive:\n");
    list(&mut out, busy.iter().map(|(t, n)| format!("{n} {t}")), "(no active nodes)");
    if v2 {
        out.push_str("Idle:\n");
        let idle = count(alive().filter(|n| n.idle_since.is_some()));
        list(&mut out, idle.iter().map(|(t, n)| format!("{n} {t}")), "(no idle nodes)");
    }
    machines(&mut out, cluster, &cluster.terminated(nodes, at), v2);
    // Writing to a String cannot fail.
    let _ = write!(out, "\nResources\n{RULE}\nTotal Usage:\n");
    let used = usage(alive());
    let shown = used.iter().filter(|(name, _)| !name.starts_with("node:"));
    list(&mut out, shown.map(|(name, (used, total))| usage_line(name, *used, *total)), "(none)");
    out.push_str("\nFrom request_resources:\n (none)\nPending Demands:\n");
    let shape = |w: &Wanted| {
        let pairs: Vec<String> = w.shape.iter().map(|(k, v)| format!("'{k}': {v:?}")).collect();
        format!("{{{}}}: {}+ pending tasks/actors", pairs.join(", "), w.count)
    };
    let demand = if v2 { cluster.demand() } else { cluster.reported_demand() };
    list(&mut out, demand.iter().map(shape), "(no resource demands)");
    out.trim_end().to_owned()
}

/// Pending machines, and recent failures.
fn machines(out: &mut String, cluster: &Cluster, terminated: &[&SimNode], v2: bool) {
    let scaling = cluster.autoscaling();
    out.push_str("Pending:\n");
    let launching = scaling.launching.iter().map(|l| format!("{}, {} launching", l.node_type, l.count));
    let joining = scaling.joining.iter().map(|j| {
        let (name, state) = if v2 { (&j.instance_id, "") } else { (&j.ip, "waiting-for-ssh") };
        format!("{name}: {}, {state}", j.node_type)
    });
    list(out, launching.chain(joining), "(no pending nodes)");
    out.push_str("Recent failures:\n");
    let mut refused: Vec<_> = scaling.refused.iter().collect();
    sort::by_key(&mut refused, |r| Reverse(r.at));
    let refused = refused.into_iter().map(|r| {
        let reason = if v2 { "LaunchFailed" } else { r.category };
        format!("{}: {reason} (latest_attempt: {})", r.node_type, time(r.at, "%H:%M:%S"))
    });
    let terminated = terminated.iter().map(|n| {
        let which = if v2 { ("instance_id", &n.instance_id) } else { ("ip", &n.ip) };
        format!("{}: NodeTerminated ({}: {})", n.node_type, which.0, which.1)
    });
    list(out, refused.chain(terminated), "(no failures)");
}

fn list(out: &mut String, items: impl Iterator<Item = String>, none: &str) {
    let before = out.len();
    for item in items {
        let _ = writeln!(out, " {item}");
    }
    if out.len() == before {
        let _ = writeln!(out, " {none}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::cluster::autoscaling::Joining;
    use crate::demo::{Clock, Life, Scenario};
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    fn cluster(life: Life, autoscaler: AutoscalerVersion) -> Cluster {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(1_795_000_000_000)));
        Cluster::new(&Scenario { jobs: 20, life: Some(life), autoscaler, clock, ..Scenario::default() })
    }

    #[test]
    fn a_joining_host_is_reported_in_the_format_of_each_autoscaler() {
        let mut cluster = cluster(Life { idle: true, ..Life::default() }, AutoscalerVersion::V2);
        let (ip, instance_id) = ("10.128.0.9".to_owned(), "ray-m-worker-0f-tpu-w-7".to_owned());
        cluster.scaling.joining = vec![Joining { node_type: "tpu_slice_v4_64".into(), ip, instance_id }];
        let legacy = report(&cluster, AutoscalerVersion::V1);
        assert!(legacy.contains("\"10.128.0.9\", \"tpu_slice_v4_64\", \"waiting-for-ssh\""), "{legacy}");
        let output = text(&cluster, AutoscalerVersion::V1);
        assert!(output.contains(" 10.128.0.9: tpu_slice_v4_64, waiting-for-ssh\\n"), "{output}");
        let output = text(&cluster, AutoscalerVersion::V2);
        assert!(output.contains(" ray-m-worker-0f-tpu-w-7: tpu_slice_v4_64, \\n"), "{output}");
    }

    #[test]
    fn v1_reports_the_same_after_its_process_has_ended_and_v2_what_the_gcs_knows() {
        for version in [AutoscalerVersion::V1, AutoscalerVersion::V2] {
            let mut cluster = cluster(Life { jobs_per_hour: 60.0, ..Life::default() }, version);
            cluster.run_monitor(false);
            let (in_store, before) = (stored(&cluster), text(&cluster, version));
            let worker = cluster.nodes.iter().find(|n| n.is_alive() && !n.is_head).unwrap().id;
            assert!(cluster.kill(worker));
            cluster.advance(cluster.now + 600_000);
            assert_eq!(stored(&cluster), in_store);
            let after = text(&cluster, version);
            assert_eq!(after == before, version == AutoscalerVersion::V1, "{before}{after}");
            cluster.run_monitor(true);
            cluster.advance(cluster.now + 6000);
            assert_ne!(stored(&cluster), in_store);
        }
    }

    #[test]
    fn a_stuck_autoscaler_reports_demand_and_no_pending_nodes() {
        for version in [AutoscalerVersion::V1, AutoscalerVersion::V2] {
            let life = Life { stuck: true, jobs_per_hour: 60.0, ..Life::default() };
            let output = text(&cluster(life, version), version);
            assert!(
                output.contains("(no pending nodes)") && output.contains("pending tasks/actors"),
                "{output}"
            );
        }
    }
}
