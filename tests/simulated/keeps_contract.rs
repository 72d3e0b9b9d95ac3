//! The simulated head keeps the contract that `tests/real` holds real Ray to, and dies as Ray dies.

use crate::contract::{ALIVE, TOKEN, Target, call, every_check, simulated, simulated_as};
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

/// What happens by itself is said in Ray's forms, too; chance is kept out of the nodes that the checks count.
#[tokio::test]
async fn a_live_head_keeps_the_contract() {
    for autoscaler in [AutoscalerVersion::V1, AutoscalerVersion::V2] {
        let life = Life { preemptions_per_hour: 0.0, past_minutes: 10, ..Life::default() };
        let scenario = Scenario { autoscaler, life: Some(life), ..Scenario::default() };
        let (_head, target) = simulated_as(scenario).await;
        every_check(&target).await;
    }
}

/// A malformed id kills the real `gcs_server`; the double dies the same death, and says of what.
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
    assert!(matches!(read, Ok(0) | Err(_)), "it still talks");
}

#[tokio::test]
async fn trouble_is_what_it_says_and_ends() {
    let (head, target) = simulated(AutoscalerVersion::V2).await;
    let version = || target.ask(Method::GET, "/api/version").timeout(Duration::from_secs(60)).send();
    let good = version().await.unwrap().text().await.unwrap();
    let make = |path: &str, fault| head.trouble(vec![FaultRule { path: path.into(), fault }]);

    make("", Fault::Status(503));
    assert_eq!(version().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    make("", Fault::Html);
    assert!(version().await.unwrap().text().await.unwrap().starts_with("<!DOCTYPE html>"));
    make("", Fault::HalfBody);
    let half = version().await.unwrap();
    assert_eq!(half.content_length(), Some(good.len() as u64), "it promises all of it");
    assert!(half.text().await.is_err());
    make("", Fault::HangUp);
    assert!(version().await.is_err());
    make("", Fault::Padding(50 << 20));
    assert_eq!(version().await.unwrap().text().await.unwrap().trim_start(), good);
    make("", Fault::Stall);
    let stalled = target.ask(Method::GET, "/api/version").timeout(Duration::from_millis(300)).send().await;
    assert!(stalled.unwrap_err().is_timeout());
    make("/ray.rpc.", Fault::HangUp);
    assert!(call(&target.gcs, Some(TOKEN), ALIVE, b"").await.is_err());
    assert_eq!(version().await.unwrap().status(), StatusCode::OK, "only the GCS is in trouble");

    head.trouble(Vec::new());
    assert!(call(&target.gcs, Some(TOKEN), ALIVE, b"").await.is_ok());
    head.set_token(Some(Secret::new("rotated")));
    assert_eq!(version().await.unwrap().status(), StatusCode::FORBIDDEN);
    head.set_token(None);
    assert_eq!(version().await.unwrap().text().await.unwrap(), good);
}

#[tokio::test]
async fn clients_are_counted_to_the_byte() {
    let (head, target) = simulated(AutoscalerVersion::V2).await;
    let before = head.cost();
    let body = target.ask(Method::GET, "/api/jobs/").send().await.unwrap().text().await.unwrap();
    let after = head.cost();
    let sent = after.sent - before.sent;
    assert!((body.len() as u64..body.len() as u64 + 300).contains(&sent), "{sent} for {}", body.len());
    assert_eq!(after.connections, before.connections, "kept alive");
    let asked = |cost: &marin_tui::demo::Cost| cost.requests.get("/api/jobs/").copied().unwrap_or(0);
    assert_eq!(asked(&after), asked(&before) + 1);
}

/// The dialog before a restart and the one about a job tell the same of it: both ask this.
#[tokio::test]
async fn a_job_holds_what_its_entrypoint_asked_for_once_that_runs() {
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
    // What its driver does is added.
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

/// The GCS, the dashboard's nodes and the autoscaler's report tell the same of the head.
#[tokio::test]
async fn a_driver_s_cpus_are_used_on_the_head_whoever_is_asked() {
    for autoscaler in [AutoscalerVersion::V1, AutoscalerVersion::V2] {
        let scenario = Scenario { autoscaler, changes: 0, ..Scenario::default() };
        let (head, target) = simulated_as(scenario).await;
        let before = used_on_the_head(&head, &target).await;
        target.submit("asks", json!({"entrypoint": "sleep 600", "entrypoint_num_cpus": 1.5})).await;
        target.becomes("asks", "RUNNING").await;
        let during = used_on_the_head(&head, &target).await;
        assert_eq!(during, before.map(|used| used + 15_000), "{autoscaler:?}");
        assert_eq!(answer_to_stop(&target).await, json!({"stopped": true}));
        target.becomes("asks", "STOPPED").await;
        assert_eq!(used_on_the_head(&head, &target).await, before, "{autoscaler:?}");
    }
}

async fn answer_to_stop(target: &Target) -> Value {
    let answer = target.ask(Method::POST, "/api/jobs/asks/stop").send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

/// CPUs that are used on the head, as the GCS tells it, the lines of `/nodes?view=summary`, and the report, in Ray's
/// ten-thousandths.
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
    // The report sums over all nodes, of which only the head's use changes.
    let status = target.value("/api/cluster_status?format=1").await;
    let in_all = lines(&status["data"]["clusterStatus"]).unwrap();
    let others = snapshot.nodes.iter().filter(|n| !n.is_head && n.state.is_alive());
    let others: f64 = others.map(|n| n.resources.get("CPU").unwrap().used.unwrap()).sum();
    [over_gcs, on_page, in_all - others].map(|cpus| (cpus * 1e4).round() as i64)
}
