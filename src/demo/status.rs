//! `GET /api/cluster_status`: the legacy autoscaler's report as JSON, all nulls from the new one, and the text of
//! either (`?format=1`).

use super::cluster::Cluster;
use super::json::{camel, dumps, envelope};
use super::node::SimNode;
use super::node_json::usage_line;
use crate::model::AutoscalerVersion;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

const RULE: &str = "---------------------------------------------------------------";

/// Name, used, total of each resource, over all living nodes.
fn usage<'a>(nodes: impl Iterator<Item = &'a SimNode>) -> BTreeMap<&'a str, (f64, f64)> {
    let mut sums = BTreeMap::new();
    for (name, total, used) in nodes.flat_map(|n| &n.resources) {
        let sum: &mut (f64, f64) = sums.entry(name.as_str()).or_default();
        sum.0 += used;
        sum.1 += total;
    }
    sums
}

fn count<'a>(nodes: impl Iterator<Item = &'a SimNode>) -> BTreeMap<&'static str, usize> {
    let mut by_type = BTreeMap::new();
    for node in nodes {
        *by_type.entry(node.node_type).or_default() += 1;
    }
    by_type
}

fn amounts(pairs: &[(String, f64)]) -> Value {
    Value::Object(pairs.iter().map(|(k, v)| (k.clone(), json!(v))).collect::<Map<_, _>>())
}

/// `2026-11-21 02:48:06.367050`, or another of strftime's forms, in UTC.
fn time(ms: i64, form: &str) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap_or_default().strftime(form).to_string()
}

/// The JSON answer.
pub(super) fn report(cluster: &Cluster, version: AutoscalerVersion) -> String {
    let data = match version {
        AutoscalerVersion::V1 => json!({
            "autoscalingStatus": format!("Cluster status: {} nodes", cluster.nodes.iter().filter(|n| n.is_alive()).count()),
            "autoscalingError": null,
            "clusterStatus": legacy(cluster),
        }),
        AutoscalerVersion::V2 | AutoscalerVersion::None => {
            json!({"autoscalingStatus": null, "autoscalingError": null, "clusterStatus": null})
        }
    };
    envelope("Got cluster status.", &dumps(&data))
}

fn legacy(cluster: &Cluster) -> Value {
    let alive = || cluster.nodes.iter().filter(|n| n.is_alive());
    let by_type =
        |m: BTreeMap<&str, usize>| m.into_iter().map(|(k, v)| (camel(k), json!(v))).collect::<Map<_, _>>();
    let pair = |sums: BTreeMap<&str, (f64, f64)>| {
        sums.into_iter().map(|(k, (used, total))| (camel(k), json!([used, total]))).collect::<Map<_, _>>()
    };
    let launching = cluster.wanted.iter().filter(|w| !w.infeasible);
    let launches: Map<_, _> = launching.clone().map(|w| (camel(w.node_type), json!(w.count))).collect();
    let availability: Map<_, _> = launching
        .map(|w| {
            let refused = json!({"category": "QUOTA_EXCEEDED", "description": "Quota 'TPUV5sLitepodPerProjectPerZone' exceeded.  Limit: 0.0 in zone us-central2-b."});
            let state = json!({"nodeType": w.node_type, "isAvailable": false, "lastCheckedTimestamp": cluster.monitor.at / 1000, "unavailableNodeInformation": refused});
            (camel(w.node_type), state)
        })
        .collect();
    let demand: Vec<Value> = cluster.wanted.iter().map(|w| json!([amounts(&w.shape), w.count])).collect();
    let types: Vec<Value> = alive()
        .map(|n| json!([n.resources.iter().map(|(k, t, _)| (k.clone(), json!(t))).collect::<Map<_, _>>(), 1]))
        .collect();
    json!({
        "gcsRequestTime": 0.0024, "time": cluster.monitor.at as f64 / 1000.0, "monitorPid": 64,
        "autoscalerUpdateTime": 0.0075, "nonTerminatedNodesTime": 0.000_012,
        "autoscalerReport": {
            "activeNodes": by_type(count(alive())), "idleNodes": null, "pendingNodes": [],
            "pendingLaunches": launches, "failedNodes": [],
            "nodeAvailabilitySummary": {"nodeAvailabilities": availability},
            "nodeActivities": null, "pendingResources": {},
            "nodeTypeMapping": alive().map(|n| (n.ip.clone(), json!(n.node_type))).collect::<Map<_, _>>(),
            "legacy": true,
        },
        "loadMetricsReport": {
            "usage": pair(usage(alive())), "resourceDemand": demand, "pgDemand": [], "requestDemand": [],
            "nodeTypes": types, "headIp": null,
            "usageByNode": alive().map(|n| (n.ip.clone(), Value::Object(pair(usage(std::iter::once(n)))))).collect::<Map<_, _>>(),
            "nodeTypeMapping": null, "idleTimeMap": null,
        },
    })
}

/// The text answer.
pub(super) fn text(cluster: &Cluster, version: AutoscalerVersion) -> String {
    let text = if version == AutoscalerVersion::None {
        "No cluster status. It may take a few seconds for the Ray internal services to start up.".into()
    } else {
        table(cluster, version == AutoscalerVersion::V2)
    };
    envelope("Got formatted cluster status.", &dumps(&json!({"clusterStatus": text})))
}

fn table(cluster: &Cluster, v2: bool) -> String {
    // v2 stamps the text with the time of the request, however old its contents are.
    let stamp = time(if v2 { cluster.now } else { cluster.monitor.at }, "%Y-%m-%d %H:%M:%S.%6f");
    let alive = || cluster.nodes.iter().filter(|n| n.is_alive());
    let busy = count(alive().filter(|n| !v2 || n.idle_since.is_none()));
    let mut out = format!("======== Autoscaler status: {stamp} ========\nNode status\n{RULE}\nActive:\n");
    list(&mut out, busy.iter().map(|(t, n)| format!("{n} {t}")), "(no active nodes)");
    if v2 {
        out.push_str("Idle:\n");
        let idle = count(alive().filter(|n| n.idle_since.is_some()));
        list(&mut out, idle.iter().map(|(t, n)| format!("{n} {t}")), "(no idle nodes)");
    }
    let launching = || cluster.wanted.iter().filter(|w| !w.infeasible);
    out.push_str("Pending:\n");
    list(
        &mut out,
        launching().map(|w| format!("{}, {} launching", w.node_type, w.count)),
        "(no pending nodes)",
    );
    out.push_str("Recent failures:\n");
    let reason = if v2 { "LaunchFailed" } else { "QUOTA_EXCEEDED" };
    let at = time(cluster.monitor.at, "%H:%M:%S");
    list(
        &mut out,
        launching().map(|w| format!("{}: {reason} (latest_attempt: {at})", w.node_type)),
        "(no failures)",
    );
    // Writing to a String cannot fail.
    let _ = write!(out, "\nResources\n{RULE}\nTotal Usage:\n");
    let used = usage(alive());
    let shown = used.iter().filter(|(name, _)| !name.starts_with("node:"));
    list(&mut out, shown.map(|(name, (used, total))| usage_line(name, *used, *total)), "(none)");
    out.push_str("\nFrom request_resources:\n (none)\nPending Demands:\n");
    let shape = |w: &super::cluster::Wanted| {
        let pairs: Vec<String> = w.shape.iter().map(|(k, v)| format!("'{k}': {v:?}")).collect();
        format!("{{{}}}: {}+ pending tasks/actors", pairs.join(", "), w.count)
    };
    list(&mut out, cluster.wanted.iter().map(shape), "(no resource demands)");
    out.trim_end().to_owned()
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
