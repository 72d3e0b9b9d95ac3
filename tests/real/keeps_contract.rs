//! Real Ray satisfies the contract, and every key, type and field number in a response of the simulated head also
//! exists in Ray's: the double must not pass where Ray fails.

mod shape;

use crate::contract::{
    CLUSTER_STATUS, NODE_INFO, TOKEN, Target, every_check, head_id, simulated, stored_job, until, work,
};
use crate::real_head::RealHead;
use marin_tui::model::AutoscalerVersion;
use reqwest::{Method, StatusCode};
use serde_json::json;
use shape::{Shape, numbers};
use std::time::Duration;

const JOB_INFO: &str = "/ray.rpc.JobInfoGcsService/GetAllJobInfo";

/// Endings of the messages about fields that Ray 2.53 does not have yet.
const SINCE_2_60: [&str; 9] = [
    "/hostMem",
    "/cgroupMem",
    "/dashboardAgentListenPort",
    "/metricsAgentPort",
    "/tempDir",
    "/sessionDir",
    "/label_selector/ray.io/node-id",
    "/nodes/deadbeef?nocache=1/data/detail/tpus",
    "GetAllNodeInfo [2]: field (31, 0)",
];

async fn real(version: &str) -> (RealHead, Target) {
    let head = RealHead::start(version, TOKEN);
    let target = Target::new(head.dashboard.clone(), head.gcs.clone());
    until("the dashboard answers", async || {
        let request = target.ask(Method::GET, "/api/version").timeout(Duration::from_secs(2));
        request.send().await.is_ok_and(|r| r.status() == StatusCode::OK)
    })
    .await;
    let script = "import ray, time\nray.init()\n@ray.remote(num_cpus=0.1)\ndef step(): time.sleep(600)\n@ray.remote(num_cpus=0)\nclass Holder: pass\nh = Holder.remote()\nw = [step.options(resources={\"nowhere\": 1}).remote() for _ in range(2)]\nray.get(step.remote())\n";
    let path = head.python.display();
    let entrypoint = format!("{path} -c '{script}'");
    target.submit("runs", json!({"entrypoint": entrypoint, "metadata": {"owner": "me"}, "runtime_env": {"env_vars": {"A": "b"}}})).await;
    target.submit("ended", json!({"entrypoint": "echo done"})).await;
    target.submit("waits", json!({"entrypoint": "true", "entrypoint_resources": {"nowhere": 1}})).await;
    target.becomes("ended", "SUCCEEDED").await;
    until("the job's task runs", async || {
        let tasks = target.value("/api/v0/tasks?detail=1").await.to_string();
        let actors = target.value("/api/v0/actors").await.to_string();
        tasks.contains("\"RUNNING\"") && actors.contains("Holder")
    })
    .await;
    until("the agent has reported", async || {
        let node = &target.value("/nodes?view=summary&nocache=1").await["data"]["summary"][0];
        node["cpu"].is_number() && node["raylet"]["numWorkers"].is_number()
    })
    .await;
    until("the legacy autoscaler has reported", async || {
        target.value("/api/cluster_status").await["data"]["clusterStatus"]["autoscalerReport"].is_object()
    })
    .await;
    (head, target)
}

/// Lists what the double returns and Ray does not.
async fn missing_in_ray(double: &Target, real: &Target) -> Vec<String> {
    let mut out = Vec::new();
    let paths = |t: &Target, node: &str| {
        vec![
            "/api/version".to_owned(),
            "/nodes?view=summary&nocache=1".into(),
            "/api/prometheus/sd".into(),
            "/nodes?view=hostNameList&nocache=1".into(),
            format!("/nodes/{node}?nocache=1"),
            "/nodes/deadbeef?nocache=1".into(),
            "/api/jobs/".into(),
            format!("/api/jobs/{}", t.running),
            format!("/api/jobs/{}", t.ended),
            format!("/api/jobs/{}", t.waiting),
            "/api/cluster_status".into(),
            "/api/cluster_status?format=1".into(),
            "/api/v0/nodes".into(),
            "/api/v0/nodes?detail=1".into(),
            "/api/v0/tasks".into(),
            "/api/v0/tasks?detail=1".into(),
            "/api/v0/tasks/summarize".into(),
            "/api/v0/actors".into(),
            "/api/v0/actors?detail=1".into(),
            "/api/v0/actors/summarize".into(),
            format!("/api/v0/logs?node_id={node}"),
        ]
    };
    let (ours, theirs) = (paths(double, &head_id(double).await), paths(real, &head_id(real).await));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let (double, real) = (double.value(ours).await, real.value(theirs).await);
        Shape::of(&double).missing_in(&Shape::of(&real), theirs, &mut out);
    }
    for id in [|t: &Target| t.running.clone(), |t: &Target| t.waiting.clone()] {
        let (ours, theirs) = (stored_job(double, &id(double)).await, stored_job(real, &id(real)).await);
        Shape::of(&ours).missing_in(&Shape::of(&theirs), "job in the key-value store", &mut out);
    }
    // Paths of messages, and their fields that a single-node cluster without an autoscaler omits.
    let requests: [(&str, &[u64], &[u64]); 8] = [
        (CLUSTER_STATUS, &[], &[]),
        (CLUSTER_STATUS, &[2], &[]),
        (CLUSTER_STATUS, &[2, 3], &[2, 3, 9]),
        (CLUSTER_STATUS, &[2, 4], &[]),
        (NODE_INFO, &[2], &[13, 14]),
        (JOB_INFO, &[2], &[2, 8]),
        (JOB_INFO, &[2, 6], &[]),
        (JOB_INFO, &[2, 10], &[4, 6, 9, 14]),
    ];
    for (method, path, absent) in requests {
        let ours = numbers(&double.call(method, b"").await, path);
        let theirs = numbers(&real.call(method, b"").await, path);
        for field in ours.difference(&theirs).filter(|(n, _)| !absent.contains(n)) {
            out.push(format!("{method} {path:?}: field {field:?} does not exist in Ray"));
        }
    }
    out
}

async fn check_contract(version: &str) -> Vec<String> {
    let (_ray, real) = real(version).await;
    every_check(&real).await;
    until("pending work is listed with the resources that it requests", async || {
        let pending = work(&real).await.waits;
        pending.len() == 1 && pending[0].count == 2 && pending[0].shape.contains(&("nowhere".into(), 1.0))
    })
    .await;
    let (_head, double) = simulated(AutoscalerVersion::V1).await;
    missing_in_ray(&double, &real).await
}

#[tokio::test]
async fn the_newest_ray_keeps_the_contract_and_returns_all_that_the_double_returns() {
    let missing = check_contract("2.60.0").await;
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[tokio::test]
async fn the_oldest_ray_keeps_the_contract_and_returns_all_that_the_double_returns() {
    let missing = check_contract("2.53.0").await;
    let new = |line: &&String| SINCE_2_60.iter().any(|new| line.contains(&format!("{new} does not exist")));
    let missing: Vec<_> = missing.iter().filter(|line| !new(line)).cloned().collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
