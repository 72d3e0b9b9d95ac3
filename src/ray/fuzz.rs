//! Tests every parser of Ray's responses with mutated ones; see [`crate::model::fuzz`]. The examples are recorded
//! responses of real heads, and messages of a simulated one.

use super::convert::fixtures::{VERSIONS, body};
use super::convert::interner::Interner;
use super::convert::{demand, envelope, host, jobs, nodes, physical, report, state, status_text};
use super::gcs;
use super::json::{Loose, Str, Table, read_with};
use crate::logs::LineSplitter;
use crate::model::fuzz::fuzz;
use crate::model::text::{log_line, printable, printable_json, printable_lines};
use crate::model::{Autoscaler, Node, Text, Timestamp};
use crate::proto::{self, autoscaler};
use bytes::Bytes;
use prost::Message;
use std::collections::HashMap;

/// The recorded bodies of these names, of all versions.
fn recorded(names: &[&str]) -> Vec<Vec<u8>> {
    VERSIONS.iter().flat_map(|version| names.iter().map(|name| body(version, name))).collect()
}

fn is_clean(line: &str) -> bool {
    !line.contains('\n') && printable(line) == line
}

#[test]
fn fuzz_dashboard_jobs() {
    fuzz(&recorded(&["busy_jobs"]), |bytes| {
        let listed = jobs::list("/api/jobs/", bytes, &HashMap::new());
        let _ = listed.map(|mut all| jobs::sort(&mut all));
        let _ = jobs::one("/api/jobs/a", bytes, Some(&Text::from("a")), &Interner::default());
    });
}

#[test]
fn fuzz_dashboard_nodes() {
    let names = [
        "busy_v0_nodes_detail",
        "dead_v0_nodes",
        "dead_node_detail",
        "busy_node_worker",
        "gpus_node",
        "tpu_nodes_summary",
    ];
    fuzz(&recorded(&names), |bytes| {
        let summary = physical::summary("/nodes", bytes);
        let _ = physical::one("/nodes/a", bytes);
        let _ = host::host("/nodes/a", bytes);
        if let Ok(mut all) = nodes::list("/api/v0/nodes", bytes) {
            nodes::sort(&mut all);
            let _ = summary.map(|s| s.fill(&mut all));
        }
    });
}

#[test]
fn fuzz_dashboard_lists() {
    let names =
        ["busy_v0_tasks", "busy_v0_actors", "busy_v0_tasks_summarize", "v0_logs_head", "tasks_limit5"];
    fuzz(&recorded(&names), |bytes| {
        let _ = read_with("/api/v0/tasks", bytes, |text| {
            envelope::listed::<Table<Str>>(text).map(|all| all.result.0.len())
        });
        let _ = read_with("/api/v0/logs", bytes, |text| {
            envelope::result::<Table<serde_json::Value>>(text).map(|all| all.0.len())
        });
        let error = super::error::message_of(bytes);
        assert!(!error.contains('\n') && error.chars().count() <= 300, "{error:?}");
    });
}

#[test]
fn fuzz_autoscaler_report() {
    fuzz(&recorded(&["demand_cluster_status"]), |bytes| {
        let _ = read_with("/api/cluster_status", bytes, |text| {
            let status: Table<Loose<report::Report>> = envelope::data(text)?;
            Ok(status.0.values().map(|r| converted(&r.0).types.len()).sum::<usize>())
        });
        let _ = read_with("v1", bytes, |text| {
            serde_json::from_str::<report::Report>(text).map(|r| converted(&r))
        });
    });
}

fn converted(report: &report::Report) -> Autoscaler {
    let (_, _) = (report.usage(), report.node_types());
    report.autoscaler(Text::default())
}

#[test]
fn fuzz_status_text() {
    let text = |body: Vec<u8>| {
        let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
        answer["data"]["clusterStatus"].as_str().unwrap().as_bytes().to_vec()
    };
    let seeds: Vec<_> = recorded(&["v2_busy_cluster_status_format1"]).into_iter().map(text).collect();
    fuzz(&seeds, |bytes| drop(status_text::read(&String::from_utf8_lossy(bytes), Timestamp::from_millis(0))));
}

#[test]
fn fuzz_log_bytes() {
    let line = b"I1121 08:11:00.582 train.py:88] \x1b[32mstep\x1b[0m 242\r\n 10%\r 20%\r\n\xff\x9b31m\tx\n:job_id:01000000\n";
    fuzz(&[line.to_vec(), [&b"x".repeat(17_000)[..], line].concat()], |bytes| {
        let split = |pieces: &[&[u8]]| {
            let mut splitter = LineSplitter::default();
            let mut lines: Vec<_> = pieces.iter().flat_map(|piece| splitter.push(piece)).collect();
            lines.extend(splitter.finish());
            lines
        };
        let lines = split(&[bytes]);
        assert!(lines.iter().all(|l| is_clean(l.text())));
        let (a, b) = bytes.split_at(bytes.len() / 3);
        assert!(split(&[a, b]) == lines, "the lines depend on where the bytes are split");
        let text = String::from_utf8_lossy(bytes);
        assert!(is_clean(&log_line(&text.replace('\n', ""))) && is_clean(&printable(&text)));
        assert_eq!(printable_lines(&printable_lines(&text)), printable_lines(&text));
        let json = serde_json::to_string(&text).unwrap();
        assert_eq!(serde_json::from_str::<String>(&printable_json(&json)).unwrap(), text);
    });
}

fn node(n: u8) -> autoscaler::NodeState {
    autoscaler::NodeState {
        node_id: vec![n; 28].into(),
        ray_node_type_name: "tpu_worker".into(),
        available_resources: [("CPU".to_owned(), 3.0), ("TPU".to_owned(), 0.5)].into(),
        total_resources: [("CPU".to_owned(), 4.0), ("node:10.0.0.1".to_owned(), 1.0)].into(),
        status: autoscaler::NodeStatus::Running as i32,
        idle_duration_ms: 1000,
        node_ip_address: "10.0.0.1".into(),
        labels: [("ray.io/node-id".to_owned(), "x".to_owned())].into(),
        ..autoscaler::NodeState::default()
    }
}

#[test]
fn fuzz_gcs_cluster_status() {
    let request = autoscaler::ResourceRequest { resources_bundle: [("TPU".to_owned(), 4.0)].into() };
    let waiting = autoscaler::ResourceRequestByCount { request: Some(request.clone()), count: 3 };
    let constraint = autoscaler::ClusterResourceConstraint { resource_requests: vec![waiting.clone()] };
    let reply = autoscaler::GetClusterStatusReply {
        autoscaling_state: Some(autoscaler::AutoscalingState {
            infeasible_resource_requests: vec![request],
            pending_instance_requests: vec![autoscaler::PendingInstanceRequest {
                count: 2,
                ..Default::default()
            }],
            pending_instances: vec![autoscaler::PendingInstance::default()],
            failed_instance_requests: vec![autoscaler::FailedInstanceRequest {
                count: 1,
                ..Default::default()
            }],
            ..autoscaler::AutoscalingState::default()
        }),
        cluster_resource_state: Some(autoscaler::ClusterResourceState {
            node_states: vec![node(1), node(2)],
            pending_resource_requests: vec![waiting],
            cluster_resource_constraints: vec![constraint],
            ..autoscaler::ClusterResourceState::default()
        }),
    };
    fuzz(&[reply.encode_to_vec()], |bytes| {
        let Ok(reply) = gcs::decode::<autoscaler::GetClusterStatusReply>("x", Bytes::copy_from_slice(bytes))
        else {
            return;
        };
        let rest = reply.cluster_resource_state.unwrap_or_default();
        let words = Interner::default();
        let live: Vec<Node> = rest.node_states.iter().filter_map(|s| nodes::live(s, None, &words)).collect();
        let _ = demand::demands(&rest, reply.autoscaling_state.as_ref());
        if let Some(autoscaling) = &reply.autoscaling_state {
            let _ = super::convert::in_order(state::report(autoscaling, &rest, &live));
        }
    });
}

#[test]
fn fuzz_gcs_tables() {
    let info = proto::GcsNodeInfo { node_id: vec![1; 28].into(), ..proto::GcsNodeInfo::default() };
    let driver = proto::JobTableData {
        job_id: Bytes::from_static(&[1, 0, 0, 0]),
        start_time: 1_700_000_000_000,
        config: Some(proto::JobConfig {
            ray_namespace: "x".into(),
            metadata: [("job_submission_id".to_owned(), "a".to_owned())].into(),
            ..Default::default()
        }),
        ..proto::JobTableData::default()
    };
    let entry = proto::MapFieldEntry { key: Bytes::from_static(b"k"), value: Bytes::from_static(b"{}") };
    let seeds = [
        proto::GetAllNodeInfoReply { node_info_list: vec![info.clone(), info], ..Default::default() }
            .encode_to_vec(),
        proto::GetAllJobInfoReply { job_info_list: vec![driver.clone(), driver], ..Default::default() }
            .encode_to_vec(),
        proto::InternalKvMultiGetReply { results: vec![entry], ..Default::default() }.encode_to_vec(),
        proto::InternalKvKeysReply { results: vec![Bytes::from_static(b"k")], ..Default::default() }
            .encode_to_vec(),
        proto::CheckAliveReply { ray_version: "2.60.0".into(), ..Default::default() }.encode_to_vec(),
    ];
    fuzz(&seeds, |bytes| {
        let body = Bytes::copy_from_slice(bytes);
        if let Ok(reply) = gcs::decode::<proto::GetAllNodeInfoReply>("x", body.clone()) {
            let words = Interner::default();
            let _ = reply.node_info_list.iter().filter_map(|info| nodes::registered(info, &words)).count();
        }
        if let Ok(reply) = gcs::decode::<proto::GetAllJobInfoReply>("x", body.clone()) {
            let _ = jobs::Drivers::of(reply.job_info_list);
        }
        let _ = gcs::decode::<proto::InternalKvMultiGetReply>("x", body.clone());
        let _ = gcs::decode::<proto::InternalKvKeysReply>("x", body.clone());
        let _ = gcs::decode::<proto::CheckAliveReply>("x", body);
    });
}
