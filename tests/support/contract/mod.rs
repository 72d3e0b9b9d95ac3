//! One contract for all heads: `tests/simulated` runs every check against the simulated head, `tests/real` against real
//! Ray, the newest and the oldest supported release.

mod raw;

use futures_util::StreamExt;
use marin_tui::demo::{Head, Scenario};
use marin_tui::model::{
    AutoscalerVersion, Counted, JobId, JobIds, JobStatus, JobWorker, NodeId, Secret, Work, WorkerState,
};
use marin_tui::ray::{Endpoint, Listed};
use marin_tui::stacks::{Dump, location};
pub use raw::{call, fields};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::{self, Message};

pub const TOKEN: &str = "contract-token";
const KV: &str = "/ray.rpc.InternalKVGcsService";
pub const CLUSTER_STATUS: &str = "/ray.rpc.autoscaler.AutoscalerStateService/GetClusterStatus";
pub const NODE_INFO: &str = "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo";
pub const ALIVE: &str = "/ray.rpc.NodeInfoGcsService/CheckAlive";

/// A head, real or simulated, with a job in each of three states.
pub struct Target {
    pub http: Client,
    pub dashboard: String,
    pub gcs: String,
    pub running: String,
    pub ended: String,
    pub waiting: String,
}

impl Target {
    pub fn new(dashboard: String, gcs: String) -> Self {
        // A second installation fails and changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
        let (running, ended, waiting) = ("runs".into(), "ended".into(), "waits".into());
        Self { http, dashboard, gcs, running, ended, waiting }
    }

    fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.dashboard))
    }

    pub fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(TOKEN)
    }

    async fn get(&self, path: &str) -> (u16, String) {
        answer(self.ask(Method::GET, path)).await
    }

    pub async fn value(&self, path: &str) -> Value {
        let (status, body) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    pub async fn call(&self, path: &str, message: &[u8]) -> bytes::Bytes {
        call(&self.gcs, Some(TOKEN), path, message).await.unwrap()
    }

    /// Submits a job, once an agent has registered: a Ray that has just started answers 500 until then.
    pub async fn submit(&self, id: &str, more: Value) {
        let mut body = json!({"submission_id": id});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        until("an agent has registered", async || {
            let (status, text) = answer(self.ask(Method::POST, "/api/jobs/").body(body.to_string())).await;
            if status == 500 && text.starts_with("No available agent") {
                return false;
            }
            assert_eq!((status, text), (200, format!(r#"{{"job_id": "{id}", "submission_id": "{id}"}}"#)));
            true
        })
        .await;
    }

    pub async fn becomes(&self, id: &str, status: &str) {
        until(&format!("job {id} is {status}"), async || {
            self.value(&format!("/api/jobs/{id}")).await["status"] == status
        })
        .await;
    }
}

async fn answer(request: RequestBuilder) -> (u16, String) {
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// Waits until a condition holds; panics with `what` after 120 s.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds().await {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub async fn simulated(autoscaler: AutoscalerVersion) -> (Head, Target) {
    simulated_as(Scenario { autoscaler, ..Scenario::default() }).await
}

/// A simulated cluster with this scenario, without dead nodes.
pub async fn simulated_as(scenario: Scenario) -> (Head, Target) {
    let token = Some(Secret::new(TOKEN));
    let head = Head::start(Scenario { dead: 0, jobs: 100, token, ..scenario }).await.unwrap();
    let mut target = Target::new(head.dashboard.to_string(), head.gcs.to_string());
    target.ended = head.submissions(JobStatus::Succeeded).remove(0);
    target.submit("runs", json!({"entrypoint": "sleep 600", "metadata": {"owner": "me"}})).await;
    target.submit("waits", json!({"entrypoint": "true", "entrypoint_resources": {"nowhere": 1}})).await;
    target.becomes("runs", "RUNNING").await;
    (head, target)
}

/// Ray's token check.
async fn tokens(t: &Target) {
    let none = answer(t.bare(Method::GET, "/api/jobs/")).await;
    assert_eq!(none, (401, "Unauthorized: Missing authentication token".into()));
    let forbidden = (403, "Forbidden: Invalid authentication token".to_owned());
    for wrong in ["Bearer wrong", "bearer contract-token", "contract-token", "Bearer  contract-token"] {
        let given = answer(t.bare(Method::GET, "/api/version").header("Authorization", wrong)).await;
        assert_eq!(given, forbidden, "{wrong}");
    }
    let both = t.ask(Method::GET, "/api/version").header("X-Ray-Authorization", "Bearer wrong");
    assert_eq!(answer(both).await.0, 200, "the Authorization header takes precedence");
    let other = t.bare(Method::GET, "/api/version").header("X-Ray-Authorization", format!("Bearer {TOKEN}"));
    assert_eq!(answer(other).await.0, 200);
    let cookie =
        t.bare(Method::GET, "/api/version").header("Cookie", format!("ray-authentication-token={TOKEN}"));
    assert_eq!(answer(cookie).await.0, 200);
    let mode = answer(t.bare(Method::GET, "/api/authentication_mode")).await;
    assert_eq!(mode, (200, r#"{"authentication_mode": "token"}"#.into()));
    assert_eq!(
        answer(t.bare(Method::GET, "/nope")).await.0,
        401,
        "unknown routes also require authentication"
    );
}

/// Statuses and messages for missing resources and rejected requests.
async fn refusals(t: &Target) {
    let text = |status: u16, words: &str| (status, words.to_owned());
    let trouble = text(500, "500 Internal Server Error\n\nServer got itself in trouble");
    assert_eq!(t.get("/nope").await, text(404, "404: Not Found"));
    assert_eq!(t.get("/api/jobs").await, text(404, "404: Not Found"), "the trailing slash is required");
    assert_eq!(answer(t.ask(Method::DELETE, "/api/version")).await, text(405, "405: Method Not Allowed"));
    let unknown = text(404, "Job unknown-1 does not exist");
    assert_eq!(t.get("/api/jobs/unknown-1").await, unknown);
    assert_eq!(t.get("/api/jobs/unknown-1/logs").await, unknown);
    assert_eq!(answer(t.ask(Method::POST, "/api/jobs/unknown-1/stop")).await, unknown);
    let stop_ended = format!("/api/jobs/{}/stop", t.ended);
    assert_eq!(answer(t.ask(Method::POST, &stop_ended)).await, text(200, r#"{"stopped": false}"#));
    assert_eq!(t.get(&format!("/api/jobs/{}/logs", t.waiting)).await, text(200, r#"{"logs": ""}"#));
    let again = json!({"entrypoint": "true", "submission_id": t.running}).to_string();
    let (status, words) = answer(t.ask(Method::POST, "/api/jobs/").body(again)).await;
    assert_eq!(status, 500);
    let taken = format!("Job with submission_id {} already exists", t.running);
    assert!(words.contains(&format!("\nValueError: {taken}")) && words.ends_with("\n.\n"), "{words}");
    let (status, words) = answer(t.ask(Method::POST, "/api/jobs/").body("{}")).await;
    assert_eq!(status, 400);
    assert!(words.trim_end().ends_with("missing 1 required positional argument: 'entrypoint'"), "{words}");

    assert_eq!(t.get("/api/v0/nodes?limit=10001").await.0, 400);
    assert_eq!(t.get("/api/v0/tasks?limit=abc").await.0, 400);
    assert_eq!(t.get("/api/v0/nodes?filter_keys=nope&filter_predicates=%3D&filter_values=x").await.0, 400);
    assert_eq!(t.get("/api/v0/nodes?filter_keys=state").await, trouble);
    let (status, words) = t.get("/nodes?view=details").await;
    assert_eq!((status, words.contains("Unknown view details")), (500, true));

    assert_eq!(t.get("/api/v0/logs").await.0, 400);
    assert_eq!(t.get("/api/v0/logs?node_ip=10.99.99.99").await.0, 404);
    assert_eq!(t.get(&format!("/api/v0/logs?node_id={}", "ab".repeat(28))).await, trouble);
    let node = head_id(t).await;
    assert_eq!(t.get(&format!("/api/v0/logs/file?node_id={node}")).await, trouble);
    let nope = format!("/api/v0/logs/file?node_id={node}&filename=nope.log");
    let mut answer = t.get(&nope).await;
    // A busy Ray may end the response before the node has reported that the file is missing: an empty 200.
    for _ in 0..10 {
        if answer.0 == 200 && answer.1.is_empty() {
            answer = t.get(&nope).await;
        }
    }
    assert_eq!(answer.0, 500, "{}", answer.1);
    assert!(answer.1.starts_with("A file is not found at: "), "{}", answer.1);
}

pub async fn head_id(t: &Target) -> String {
    let nodes = t.value("/api/v0/nodes").await;
    let rows = nodes["data"]["result"]["result"].as_array().unwrap();
    let head = rows.iter().find(|n| n["is_head_node"] == true).unwrap();
    let head = head["node_id"].as_str().unwrap();
    let only = "/api/v0/nodes?filter_keys=is_head_node&filter_predicates=%3D&filter_values=true";
    let only = &t.value(only).await["data"]["result"]["result"];
    assert_eq!((only.as_array().unwrap().len(), &only[0]["node_id"]), (1, &json!(head)));
    head.to_owned()
}

/// Log files of a node, and the live log of a job.
async fn logs(t: &Target) {
    let node = head_id(t).await;
    let found = t.value(&format!("/api/v0/logs?node_id={node}&glob=*monitor*")).await;
    let monitor = found["data"]["result"]["autoscaler"].as_array().unwrap();
    assert!(monitor.contains(&json!("monitor.log")), "{found}");
    let lines = t.get(&format!("/api/v0/logs/file?node_id={node}&filename=monitor.log&lines=2")).await;
    assert_eq!((lines.0, lines.1.lines().count()), (200, 2), "{}", lines.1);

    let (text, code) = tail(t, &t.ended).await.unwrap();
    let whole = t.value(&format!("/api/jobs/{}/logs", t.ended)).await;
    assert_eq!(
        Some(text.as_str()),
        whole["logs"].as_str(),
        "the tail starts at the beginning and omits nothing"
    );
    assert_eq!(code, Some(1000));
    assert_eq!(tail(t, "unknown-1").await.unwrap_err(), 404);
    let mut request = t.bare(Method::GET, &format!("/api/jobs/{}/logs/tail", t.ended));
    for (name, value) in UPGRADE {
        request = request.header(name, value);
    }
    assert_eq!(request.send().await.unwrap().status(), 401, "the handshake needs the token too");
}

const UPGRADE: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// All text that the live log of a job sends until it closes, and the close code; or the status of a failed handshake.
async fn tail(t: &Target, id: &str) -> Result<(String, Option<u16>), u16> {
    let mut request = t.ask(Method::GET, &format!("/api/jobs/{id}/logs/tail"));
    for (name, value) in UPGRADE {
        request = request.header(name, value);
    }
    let response = request.send().await.unwrap();
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(response.status().as_u16());
    }
    let accept = response.headers()["sec-websocket-accept"].to_str().unwrap().to_owned();
    assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "RFC 6455's own example");
    let io = response.upgrade().await.unwrap();
    let role = tungstenite::protocol::Role::Client;
    let mut socket = tokio_tungstenite::WebSocketStream::from_raw_socket(io, role, None).await;
    let mut text = String::new();
    while let Some(message) = socket.next().await {
        match message.unwrap() {
            Message::Text(frame) => {
                assert!(frame.lines().count() <= 10, "{} lines in a frame", frame.lines().count());
                text.push_str(&frame);
            }
            Message::Close(close) => return Ok((text, close.map(|c| c.code.into()))),
            other => panic!("{other:?}"),
        }
    }
    Ok((text, None))
}

/// Statuses of the GCS.
async fn gcs(t: &Target) {
    for token in [None, Some("wrong")] {
        let refused = call(&t.gcs, token, CLUSTER_STATUS, b"").await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
        assert_eq!(refused.message(), "InvalidAuthToken: Authentication token is missing or incorrect");
    }
    let unknown = call(&t.gcs, Some(TOKEN), "/ray.rpc.Nope/Nope", b"").await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::Unimplemented);

    // InternalKVGet {1: "nope", 2: "job"} -> {1: {1: 17, 2: "Failed to find the key"}}
    let missing = t.call(&format!("{KV}/InternalKVGet"), b"\x0a\x04nope\x12\x03job").await;
    let status = fields(&missing).into_iter().find(|f| f.0 == 1).unwrap().2;
    assert_eq!(fields(&status)[0].2[0], 17);
    assert_eq!(fields(&status)[1].2, b"Failed to find the key");

    let keys = t.call(&format!("{KV}/InternalKVKeys"), b"\x0a\x17_ray_internal_job_info_\x12\x03job").await;
    let keys: Vec<_> =
        fields(&keys).into_iter().filter(|f| f.0 == 2).map(|f| String::from_utf8(f.2).unwrap()).collect();
    for id in [&t.running, &t.ended, &t.waiting] {
        assert!(keys.contains(&format!("_ray_internal_job_info_{id}")), "{id} is not in {keys:?}");
    }
    // Every node id has 28 bytes; for a dead or unknown id the GCS returns a reply, not an error.
    let nodes = fields(&t.call(NODE_INFO, b"").await);
    let ids: Vec<_> = nodes.iter().filter(|f| f.0 == 2).map(|f| fields(&f.2)[0].2.len()).collect();
    assert!(!ids.is_empty() && ids.iter().all(|n| *n == 28), "{ids:?}");
    let request = [b"\x0a\x1c".as_slice(), &[1; 28]].concat();
    let alive = fields(&t.call(ALIVE, &request).await);
    assert_eq!(alive.iter().find(|f| f.0 == 3).unwrap().2[0], 0, "an unknown id is not alive");
}

/// The dashboard and the GCS must report the same data about a job.
async fn one_job_two_channels(t: &Target) {
    for id in [&t.running, &t.ended, &t.waiting] {
        let job = t.value(&format!("/api/jobs/{id}")).await;
        let info = stored_job(t, id).await;
        for key in [
            "status",
            "entrypoint",
            "message",
            "error_type",
            "start_time",
            "end_time",
            "metadata",
            "driver_node_id",
            "driver_exit_code",
        ] {
            assert_eq!(job[key], info[key], "{key} of {id}");
        }
    }
}

pub async fn stored_job(t: &Target, id: &str) -> Value {
    let key = format!("_ray_internal_job_info_{id}");
    let request = [&[0x0a, key.len() as u8], key.as_bytes(), b"\x12\x03job"].concat();
    let reply = fields(&t.call(&format!("{KV}/InternalKVGet"), &request).await);
    serde_json::from_slice(&reply.into_iter().find(|f| f.0 == 2).unwrap().2).unwrap()
}

/// A package is uploaded and checked over HTTP, and read and written over gRPC.
async fn packages(t: &Target) {
    let route = "/api/packages/gcs/_ray_pkg_00c0ffee00c0ffee.zip";
    let uri = "gcs://_ray_pkg_00c0ffee00c0ffee.zip";
    assert_eq!(t.get(route).await, (404, format!("Package {uri} does not exist")));
    assert_eq!(answer(t.ask(Method::PUT, route).body("not a zip")).await, (200, String::new()));
    assert_eq!(t.get(route).await, (200, String::new()));
    let get = [&[0x0a, uri.len() as u8], uri.as_bytes()].concat();
    let read = async || fields(&t.call(&format!("{KV}/InternalKVGet"), &get).await);
    assert_eq!(read().await.iter().find(|f| f.0 == 2).unwrap().2, b"not a zip");
    let put = [&get[..], b"\x12\x05again\x18\x01"].concat();
    t.call(&format!("{KV}/InternalKVPut"), &put).await;
    assert_eq!(read().await.iter().find(|f| f.0 == 2).unwrap().2, b"again");
}

/// Only ended jobs can be deleted.
async fn deletion(t: &Target) {
    let (status, words) = answer(t.ask(Method::DELETE, &format!("/api/jobs/{}", t.running))).await;
    assert_eq!(status, 500);
    assert!(words.contains("in a non-terminal state RUNNING"), "{words}");
    assert_eq!(answer(t.ask(Method::DELETE, "/api/jobs/unknown-1")).await.0, 404);
    t.submit("goes", json!({"entrypoint": "sleep 600"})).await;
    t.becomes("goes", "RUNNING").await;
    assert_eq!(answer(t.ask(Method::POST, "/api/jobs/goes/stop")).await.0, 200);
    t.becomes("goes", "STOPPED").await;
    let deleted = answer(t.ask(Method::DELETE, "/api/jobs/goes")).await;
    assert_eq!(deleted, (200, r#"{"deleted": true}"#.to_owned()));
    assert_eq!(t.get("/api/jobs/goes").await.0, 404);
}

/// The first running driver of a submission: one that was started manually need not have work.
async fn running_driver(t: &Target) -> JobId {
    let jobs = t.value("/api/jobs/").await;
    let is_running = |job: &&Value| job["status"] == "RUNNING" && job["type"] == "SUBMISSION";
    let mut running = jobs.as_array().unwrap().iter().filter(is_running);
    JobId(running.find_map(|job| job["job_id"].as_str()).unwrap().into())
}

/// The work of a running driver, as the console reads it.
pub async fn work(t: &Target) -> Work {
    let endpoint = Endpoint::Direct { dashboard: format!("http://{}", t.dashboard), gcs: None };
    let client = marin_tui::ray::Client::new(endpoint, Some(Secret::new(TOKEN))).unwrap();
    client.work(&JobIds { driver: Some(running_driver(t).await), submission: None }).await.unwrap()
}

/// Lists and summaries report the same about a driver's tasks and actors.
async fn a_drivers_work(t: &Target) {
    until("lists and summaries agree", async || {
        let work = work(t).await;
        let in_state = |all: &[Counted], wanted: &str| -> u64 {
            let states = all.iter().flat_map(|c| &c.states);
            states.filter(|(state, _)| state.raw() == wanted).map(|(_, n)| n).sum()
        };
        let waiting: u64 = work.waits.iter().map(|w| w.count).sum();
        assert!(work.waits.iter().all(|w| w.since.is_some() && !w.shape.is_empty()), "{work:?}");
        let runs = in_state(&work.tasks, "RUNNING") > 0;
        waiting == in_state(&work.tasks, "PENDING_NODE_ASSIGNMENT")
            && (runs || waiting > 0)
            && (!runs || !work.holds.is_empty())
            && work.actors.iter().any(|c| c.name.raw() == "Holder")
            && in_state(&work.actors, "ALIVE") == 1
    })
    .await;
    let unknown = t
        .value("/api/v0/actors/summarize?filter_keys=job_id&filter_predicates=%3D&filter_values=ff000000")
        .await;
    assert_eq!(unknown["data"]["result"]["result"]["node_id_to_summary"]["cluster"]["summary"], json!({}));
}

/// The stacks of a worker are py-spy's output, or an error that names the setting that enables profiling.
async fn stacks(t: &Target) {
    let tasks = t.value("/api/v0/tasks?detail=1").await;
    let rows = tasks["data"]["result"]["result"].as_array().unwrap();
    let running = rows.iter().find(|row| row["state"] == "RUNNING" && row["worker_pid"].as_u64() > Some(0));
    let task = running.expect("a task runs");
    let (node, pid) = (task["node_id"].as_str().unwrap(), task["worker_pid"].as_u64().unwrap());
    let (status, body) = t.get(&format!("/worker/traceback?pid={pid}&node_id={node}")).await;
    if status == 403 {
        assert!(body.contains("RAY_DASHBOARD_ENABLE_PROFILING=1"), "{body}");
        return;
    }
    let dump = Dump::read(&body).unwrap_or_else(|| panic!("{status} {body}"));
    assert_eq!((status, dump.pid.map(u64::from)), (200, Some(pid)));
    assert!(dump.process.raw().starts_with("ray::") && !location(&dump).is_idle(), "{body}");
    let (status, body) = t.get(&format!("/worker/traceback?pid=4194303&node_id={node}")).await;
    let no_process = "\n=== stderr ===\nError: Failed to get process executable name.";
    assert!(status == 500 && body.contains(no_process), "{status} {body}");
    let (status, body) = t.get(&format!("/worker/traceback?pid={pid}&node_id={}", "ab".repeat(28))).await;
    assert!(status == 500 && body.starts_with("Failed to get agent address"), "{status} {body}");
    assert_eq!(t.get(&format!("/worker/traceback?node_id={node}")).await.0, 500);
}

/// The log files of a driver's workers have its id in their names and can be read, even if empty.
async fn a_drivers_workers(t: &Target) {
    let endpoint = Endpoint::Direct { dashboard: format!("http://{}", t.dashboard), gcs: None };
    let client = marin_tui::ray::Client::new(endpoint, Some(Secret::new(TOKEN))).unwrap();
    let driver = running_driver(t).await;
    let nodes = t.value("/api/v0/nodes").await;
    let rows = nodes["data"]["result"]["result"].as_array().unwrap();
    let nodes = rows.iter().filter(|node| node["state"] == "ALIVE");
    let nodes: Vec<NodeId> =
        nodes.map(|node| NodeId::from_hex(node["node_id"].as_str().unwrap()).unwrap()).collect();
    let gang = client.gang(&driver, &nodes, &mut Listed::default()).await.unwrap();
    assert!(gang.unread.is_empty() && gang.cut.is_empty(), "{gang:?}");
    let at_work = |worker: &&JobWorker| worker.state == WorkerState::Running && !worker.kind.is_empty();
    let at_work: Vec<&JobWorker> = gang.workers.iter().filter(at_work).collect();
    assert!(at_work.iter().any(|worker| worker.kind.raw() == "Holder"), "{gang:?}");
    for worker in at_work {
        let ends: Vec<&str> =
            worker.files.iter().map(|file| file.raw().rsplit_once('.').unwrap().1).collect();
        assert_eq!(ends, ["out", "err"], "{worker:?}");
        for file in &worker.files {
            client.worker_log(worker.node, file, 5).await.unwrap();
        }
    }
}

/// Each submission has an actor that runs its entrypoint on the node of its driver; that of a pending one has no node.
async fn supervisors(t: &Target) {
    let rows = |state: &str| {
        format!(
            "/api/v0/actors?filter_keys=class_name&filter_predicates=%3D&filter_values=JobSupervisor&filter_keys=state\
             &filter_predicates=%3D&filter_values={state}&detail=1&limit=1000"
        )
    };
    for (id, state) in [(&t.running, "ALIVE"), (&t.waiting, "PENDING_CREATION")] {
        let listed = t.value(&rows(state)).await;
        let rows = listed["data"]["result"]["result"].as_array().unwrap();
        let name = format!("_ray_internal_job_actor_{id}");
        let its = rows
            .iter()
            .find(|row| row["name"] == name.as_str())
            .unwrap_or_else(|| panic!("{name}: {listed}"));
        let job = t.value(&format!("/api/jobs/{id}")).await;
        assert_eq!(its["node_id"], job["driver_node_id"], "{its}");
        assert_eq!(its["pid"].as_u64() > Some(0), state == "ALIVE", "{its}");
        assert_eq!(
            (&its["ray_namespace"], &its["is_detached"]),
            (&json!("SUPERVISOR_ACTOR_RAY_NAMESPACE"), &json!(true))
        );
        let jobs = t.value("/api/jobs/").await;
        let of_a_job = jobs.as_array().unwrap().iter().any(|job| job["job_id"] == its["job_id"]);
        assert!(!of_a_job, "it belongs to a driver of Ray's own: {its}");
    }
}

pub async fn every_check(t: &Target) {
    tokens(t).await;
    refusals(t).await;
    logs(t).await;
    gcs(t).await;
    one_job_two_channels(t).await;
    packages(t).await;
    deletion(t).await;
    a_drivers_work(t).await;
    a_drivers_workers(t).await;
    supervisors(t).await;
    stacks(t).await;
}
