//! The simulated head satisfies the contract that `tests/real` checks against real Ray, and its GCS aborts like Ray's.

use crate::contract::{ALIVE, TOKEN, Target, call, every_check, simulated, simulated_as, until};
use marin_tui::demo::{Fault, FaultRule, Head, Life, Scenario};
use marin_tui::model::{AutoscalerVersion, JobId, JobIds, Secret, SubmissionId, Text};
use marin_tui::ray::{Client, Endpoint, Poller};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn the_simulated_head_keeps_the_contract() {
    for autoscaler in [AutoscalerVersion::V1, AutoscalerVersion::V2] {
        let (_head, target) = simulated(autoscaler).await;
        every_check(&target).await;
    }
}

/// A head with simulated activity also satisfies the contract; preemptions are off, so that the node count is fixed.
#[tokio::test]
async fn a_head_with_simulated_activity_keeps_the_contract() {
    for autoscaler in [AutoscalerVersion::V1, AutoscalerVersion::V2] {
        let life = Life { preemptions_per_hour: 0.0, past_minutes: 10, ..Life::default() };
        let scenario = Scenario { autoscaler, life: Some(life), ..Scenario::default() };
        let (_head, target) = simulated_as(scenario).await;
        every_check(&target).await;
    }
}

/// A malformed id kills the real `gcs_server`; the simulated one also ends, and reports why.
#[tokio::test]
async fn a_malformed_node_id_kills_the_simulated_gcs() {
    let (head, target) = simulated(AutoscalerVersion::V2).await;
    assert_eq!(head.gcs_death(), None);
    let refused = call(&target.gcs, Some(TOKEN), ALIVE, b"\x0a\x08deadbeef").await;
    assert!(refused.is_err());
    assert_eq!(head.gcs_death().as_deref(), Some("CheckAlive: a node id of 8 bytes"));
    let mut stream = tokio::net::TcpStream::connect(head.gcs).await.unwrap();
    let mut bytes = [0; 1];
    let read = tokio::io::AsyncReadExt::read(&mut stream, &mut bytes).await;
    assert!(matches!(read, Ok(0) | Err(_)), "it still responds");
}

#[tokio::test]
async fn faults_take_effect_and_end() {
    let (head, target) = simulated(AutoscalerVersion::V2).await;
    let version = || target.ask(Method::GET, "/api/version").timeout(Duration::from_secs(60)).send();
    let good = version().await.unwrap().text().await.unwrap();
    let inject = |path: &str, fault| head.set_faults(vec![FaultRule { path: path.into(), fault }]);

    inject("", Fault::Status(503));
    assert_eq!(version().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    inject("", Fault::Html);
    assert!(version().await.unwrap().text().await.unwrap().starts_with("<!DOCTYPE html>"));
    inject("", Fault::HalfBody);
    let half = version().await.unwrap();
    assert_eq!(half.content_length(), Some(good.len() as u64), "the whole body is announced");
    assert!(half.text().await.is_err());
    inject("", Fault::HangUp);
    assert!(version().await.is_err());
    inject("", Fault::Padding(50 << 20));
    assert_eq!(version().await.unwrap().text().await.unwrap().trim_start(), good);
    inject("", Fault::Stall);
    let stalled = target.ask(Method::GET, "/api/version").timeout(Duration::from_millis(300)).send().await;
    assert!(stalled.unwrap_err().is_timeout());
    inject("/ray.rpc.", Fault::HangUp);
    assert!(call(&target.gcs, Some(TOKEN), ALIVE, b"").await.is_err());
    assert_eq!(version().await.unwrap().status(), StatusCode::OK, "only the GCS has a fault");

    head.set_faults(Vec::new());
    assert!(call(&target.gcs, Some(TOKEN), ALIVE, b"").await.is_ok());
    head.set_token(Some(Secret::new("rotated")));
    assert_eq!(version().await.unwrap().status(), StatusCode::FORBIDDEN);
    head.set_token(None);
    assert_eq!(version().await.unwrap().text().await.unwrap(), good);
}

#[tokio::test]
async fn requests_and_bytes_are_counted() {
    let (head, target) = simulated(AutoscalerVersion::V2).await;
    let before = head.cost();
    let body = target.ask(Method::GET, "/api/jobs/").send().await.unwrap().text().await.unwrap();
    let after = head.cost();
    let sent = after.sent - before.sent;
    assert!((body.len() as u64..body.len() as u64 + 300).contains(&sent), "{sent} for {}", body.len());
    assert_eq!(after.connections, before.connections, "kept alive");
    let count = |cost: &marin_tui::demo::Cost| cost.requests.get("/api/jobs/").copied().unwrap_or(0);
    assert_eq!(count(&after), count(&before) + 1);
}

/// The dialogs about a restart and about a job show the same resources: both use `Client::held`.
#[tokio::test]
async fn a_job_holds_the_resources_of_its_entrypoint_once_it_runs() {
    let (head, target) = simulated(AutoscalerVersion::V2).await;
    let gcs = Some(head.gcs.to_string());
    let endpoint = Endpoint::Direct { dashboard: format!("http://{}", head.dashboard), gcs };
    let client = Client::new(endpoint, Some(Secret::new(TOKEN))).unwrap();
    let ids = |name: &str| JobIds { driver: None, submission: Some(SubmissionId(name.into())) };
    target.submit("asks", json!({"entrypoint": "sleep 600", "entrypoint_num_cpus": 2})).await;
    target.becomes("asks", "RUNNING").await;
    let held = |name: &'static str| {
        let client = &client;
        async move { client.held(&ids(name)).await.unwrap() }
    };
    assert_eq!(held("asks").await, [("CPU".into(), 2.0)]);
    assert_eq!(held("waits").await, [], "it has not started");
    // The resources of its driver are added.
    let jobs = target.value("/api/jobs/").await;
    let mut running = jobs.as_array().unwrap().iter().filter(|job| job["status"] == "RUNNING");
    let driver = JobId(running.find_map(|job| job["job_id"].as_str()).unwrap().into());
    let alone = client.held(&JobIds { driver: Some(driver.clone()), submission: None }).await.unwrap();
    let both = JobIds { driver: Some(driver), ..ids("asks") };
    let cpus = |held: &[(Text, f64)]| held.iter().find(|(name, _)| name.raw() == "CPU").unwrap().1;
    assert!((cpus(&client.held(&both).await.unwrap()) - cpus(&alone) - 2.0).abs() < 1e-9);
    let work = client.work(&both).await.unwrap();
    assert_eq!(work.holds, client.held(&both).await.unwrap());
}

/// The GCS, the dashboard's nodes and the autoscaler's report show the same usage of the head.
#[tokio::test]
async fn all_sources_report_the_cpus_of_a_driver_on_the_head() {
    for autoscaler in [AutoscalerVersion::V1, AutoscalerVersion::V2] {
        let scenario = Scenario { autoscaler, changes: 0, ..Scenario::default() };
        let (head, target) = simulated_as(scenario).await;
        let before = used_on_the_head(&head, &target).await;
        target.submit("asks", json!({"entrypoint": "sleep 600", "entrypoint_num_cpus": 1.5})).await;
        target.becomes("asks", "RUNNING").await;
        let during = used_on_the_head(&head, &target).await;
        assert_eq!(during, before.map(|used| used + 15_000), "{autoscaler:?}");
        assert_eq!(stop_response(&target).await, json!({"stopped": true}));
        target.becomes("asks", "STOPPED").await;
        assert_eq!(used_on_the_head(&head, &target).await, before, "{autoscaler:?}");
    }
}

/// As in Ray, the report of autoscaler v1 stays as it is once its process has ended, with the time of its last loop.
#[tokio::test]
async fn the_report_of_an_autoscaler_that_has_ended_stays() {
    let (head, target) = simulated(AutoscalerVersion::V1).await;
    head.run_monitor(false);
    let report = async || {
        let json = target.value("/api/cluster_status").await;
        (json, target.value("/api/cluster_status?format=1").await)
    };
    let before = report().await;
    target.submit("more", json!({"entrypoint": "true", "entrypoint_resources": {"elsewhere": 1}})).await;
    assert!(head.kill_node(head.nodes()[1]));
    assert_eq!(report().await, before);
    head.run_monitor(true);
    until("the autoscaler reports the new demand", async || {
        let (_, text) = report().await;
        text["data"]["clusterStatus"].as_str().unwrap().contains("elsewhere")
    })
    .await;
}

async fn stop_response(target: &Target) -> Value {
    let answer = target.ask(Method::POST, "/api/jobs/asks/stop").send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

/// CPUs used on the head according to the GCS, to `/nodes?view=summary` and to the autoscaler's report, in Ray's unit
/// of 1/10000.
async fn used_on_the_head(head: &Head, target: &Target) -> [i64; 3] {
    let gcs = Some(head.gcs.to_string());
    let endpoint = Endpoint::Direct { dashboard: format!("http://{}", head.dashboard), gcs };
    let mut poller = Poller::new(Client::new(endpoint, Some(Secret::new(TOKEN))).unwrap());
    let snapshot = poller.refresh().await.unwrap();
    assert!(poller.over_gcs());
    let node = snapshot.nodes.iter().find(|n| n.is_head).unwrap();
    let over_gcs = node.resources.get("CPU").unwrap().used.unwrap();
    let lines = |text: &Value| {
        let cpu = text.as_str().unwrap().lines().find_map(|l| l.trim().strip_suffix(" CPU"))?;
        cpu.split_once('/')?.0.parse::<f64>().ok()
    };
    let summary = target.value("/nodes?view=summary").await;
    let on_page = lines(&summary["data"]["nodeLogicalResources"][node.id.to_string()]).unwrap();
    // The report is a sum over all nodes; only the usage of the head changes.
    let status = target.value("/api/cluster_status?format=1").await;
    let in_all = lines(&status["data"]["clusterStatus"]).unwrap();
    let others = snapshot.nodes.iter().filter(|n| !n.is_head && n.state.is_alive());
    let others: f64 = others.map(|n| n.resources.get("CPU").unwrap().used.unwrap()).sum();
    [over_gcs, on_page, in_all - others].map(|cpus| (cpus * 1e4).round() as i64)
}
