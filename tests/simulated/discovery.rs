//! Heads found by label: the supervisor queries Google for the address at every connection, and falls back to Ray.

use crate::google::google;
use crate::shell::checked;
use crate::soon::soon;
use crate::spec::spec;
use marin_tui::config::{Env, Folders, Settings};
use marin_tui::demo::google::compute::instance;
use marin_tui::demo::google::{Fault, Google as Double, PROJECT};
use marin_tui::model::{
    ClusterEvent, ClusterSpec, GoogleNames, Link, Problem, ProblemKind, Request, Timestamp,
};
use marin_tui::state::Update;
use marin_tui::supervisor::{Options, Supervisor};
use marin_tui::token::TokenSources;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Part of the hint that is shown while `ray get-head-ip` runs.
const MEANWHILE: &str = "trying `ray get-head-ip`";

/// A cluster in Google Cloud without a configured head address, an `ssh` script that only records its arguments, and a
/// `ray` script that returns another address.
struct Fixture {
    dir: TempDir,
    double: Double,
    spec: ClusterSpec,
}

impl Fixture {
    async fn new() -> Self {
        let google = GoogleNames { project: Some(PROJECT.into()), ..GoogleNames::default() };
        let spec = ClusterSpec { file: Some("c1.yaml".into()), google, ..spec("c1") };
        Self { dir: tempfile::tempdir().unwrap(), double: Double::start().await.unwrap(), spec }
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let file = self.dir.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o700)).unwrap();
        file
    }

    fn heads(&self, heads: &[Value]) {
        self.double.state().instances = heads.to_vec();
    }

    fn options(&self) -> Options {
        let home = self.dir.path();
        self.double.write_adc(home).unwrap();
        let env = Env::new(&[("HOME", home.to_str().unwrap())], home);
        let mut options = Options::new(&Settings::default(), &Folders::new(&env), TokenSources::default());
        options.google = google(&self.double, home);
        options.run_dir = home.join("run");
        fs::create_dir(&options.run_dir).unwrap();
        let log = home.join("calls");
        options.ssh = self.script("ssh", &format!("echo \"$@\" >> {}; exit 255", log.display()));
        options.ray = vec![self.script("ray", "echo 10.9.9.9").display().to_string()];
        options
    }

    /// The command lines of `ssh`.
    fn reached(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn start(&self) -> Started {
        let (updates, receiver) = mpsc::channel(256);
        Started { supervisor: Supervisor::start(vec![self.spec.clone()], self.options(), &updates), receiver }
    }
}

struct Started {
    supervisor: Supervisor,
    receiver: mpsc::Receiver<Update>,
}

impl Started {
    /// The next failure; the `ssh` script never connects.
    async fn failure(&mut self) -> Problem {
        self.problem(|problem| !problem.hint.to_string().contains(MEANWHILE)).await
    }

    /// The next problem that satisfies `is`.
    async fn problem(&mut self, is: impl Fn(&Problem) -> bool) -> Problem {
        let wait = async {
            loop {
                let update = self.receiver.recv().await.expect("the supervisor is running");
                match update.event {
                    ClusterEvent::Link(Link::Retrying { problem, .. } | Link::Stopped { problem })
                        if is(&problem) =>
                    {
                        return problem;
                    }
                    _ => {}
                }
            }
        };
        soon("a failure is reported", wait).await
    }
}

fn head(name: &str, internal: &str, external: Option<&str>) -> Value {
    let labels = json!({"ray-node-type": "head", "ray-cluster-name": "c1"});
    instance("us-central2-b", name, &labels, internal, external)
}

/// Ray's command queries the same API, and would use more of the quota.
#[tokio::test]
async fn an_exceeded_quota_delays_the_retry_and_ray_is_not_queried() {
    let fixture = Fixture::new().await;
    fixture.double.fail("aggregated", Fault::Busy(90));
    let mut started = fixture.start();
    let wait = async {
        loop {
            let update = started.receiver.recv().await.expect("the supervisor is running");
            if let ClusterEvent::Link(Link::Retrying { problem, at }) = update.event {
                return (problem, at);
            }
        }
    };
    let (problem, at) = soon("a failure is reported", wait).await;
    assert!(problem.what.contains("quota exceeded"), "{problem:?}");
    assert!(problem.hint.to_string().contains("wait 90 s"), "{problem:?}");
    assert!(
        at.until(Timestamp::now()) > Duration::from_secs(60),
        "the retry time is the one Google requested"
    );
    assert_eq!(fixture.reached(), Vec::<String>::new(), "no connection was attempted");
    started.supervisor.shutdown().await;
}

#[tokio::test]
async fn the_external_address_is_queried_at_each_connection() {
    let fixture = Fixture::new().await;
    fixture.heads(&[head("h1", "10.0.0.1", Some("34.0.0.1"))]);
    let mut started = fixture.start();
    started.failure().await;
    assert!(fixture.reached().last().unwrap().contains("34.0.0.1"), "{:?}", fixture.reached());
    // The head was recreated elsewhere.
    fixture.heads(&[head("h2", "10.0.0.2", Some("34.0.0.2"))]);
    started.supervisor.ask(&fixture.spec.name, Request::Reconnect);
    started.failure().await;
    assert!(fixture.reached().last().unwrap().contains("34.0.0.2"), "{:?}", fixture.reached());
    started.supervisor.shutdown().await;
}

#[tokio::test]
async fn two_running_heads_are_an_error() {
    let fixture = Fixture::new().await;
    let mut stopping = head("h3", "10.0.0.3", Some("34.0.0.3"));
    stopping["status"] = json!("STOPPING");
    fixture.heads(&[
        head("h1", "10.0.0.1", Some("34.0.0.1")),
        head("h2", "10.0.0.2", None),
        stopping.clone(),
    ]);
    let mut started = fixture.start();
    let problem = started.failure().await;
    let both =
        ["2 heads of c1 are running", "h1 in us-central2-b (34.0.0.1)", "h2 in us-central2-b (10.0.0.2)"];
    assert!(both.iter().all(|words| problem.what.contains(words)), "{problem:?}");
    assert_eq!(problem.kind, ProblemKind::MultipleHeads);
    assert!(problem.hint.to_string().contains("clusters.c1.address"), "{problem:?}");
    let lines = checked(&problem.hint);
    let delete = format!("gcloud compute instances delete h2 --zone=us-central2-b --project={PROJECT}");
    assert!(lines.contains(&delete), "{lines:?}");
    assert!(fixture.reached().is_empty(), "no connection was attempted");
    // The wrong head is gone.
    fixture.heads(&[head("h1", "10.0.0.1", Some("34.0.0.1")), stopping]);
    started.supervisor.ask(&fixture.spec.name, Request::Reconnect);
    started.failure().await;
    assert!(fixture.reached().last().unwrap().contains("34.0.0.1"), "{:?}", fixture.reached());
    started.supervisor.shutdown().await;
}

#[tokio::test]
async fn internal_addresses_can_be_configured() {
    let mut fixture = Fixture::new().await;
    fixture.spec.google.internal_ips = true;
    fixture.heads(&[head("h1", "10.0.0.1", Some("34.0.0.1"))]);
    let mut started = fixture.start();
    started.failure().await;
    assert!(fixture.reached().last().unwrap().contains("10.0.0.1"), "{:?}", fixture.reached());
}

#[tokio::test]
async fn ray_is_queried_if_google_fails() {
    let grant = Fault::Grant { error: "invalid_grant", subtype: None };
    let forbidden = Fault::Refuse { code: 403, status: "", reason: "forbidden", message: "no" };
    for (path, fault) in [("/token", grant), ("aggregated", forbidden), ("aggregated", Fault::Html(502))] {
        let fixture = Fixture::new().await;
        fixture.double.fail(path, fault.clone());
        let mut started = fixture.start();
        started.failure().await;
        assert!(fixture.reached().last().unwrap().contains("10.9.9.9"), "{fault:?}: {:?}", fixture.reached());
    }
    // Ray's answer is also used if no project is configured.
    let mut fixture = Fixture::new().await;
    fixture.spec.google.project = None;
    let mut started = fixture.start();
    started.failure().await;
    assert!(fixture.reached().last().unwrap().contains("10.9.9.9"), "{:?}", fixture.reached());
    assert!(fixture.double.requests().is_empty());
}

#[tokio::test]
async fn a_missing_login_is_reported_before_ray_responds() {
    let fixture = Fixture::new().await;
    fixture.double.fail("/token", Fault::Grant { error: "invalid_grant", subtype: None });
    let mut options = fixture.options();
    // As Ray does while it looks for the same login.
    options.ray = vec![fixture.script("slow-ray", "exec sleep 600").display().to_string()];
    let (updates, receiver) = mpsc::channel(256);
    let supervisor = Supervisor::start(vec![fixture.spec.clone()], options, &updates);
    let problem = Started { supervisor, receiver }.problem(|_| true).await;
    assert!(problem.what.contains("expired or were revoked"), "{problem:?}");
    assert!(
        problem.hint.to_string().contains("gcloud auth application-default login")
            && problem.hint.to_string().contains(MEANWHILE),
        "{problem:?}"
    );
    assert!(fixture.reached().is_empty());
}

#[tokio::test]
async fn both_errors_are_reported_if_google_and_ray_fail() {
    let fixture = Fixture::new().await;
    fixture.double.fail("/token", Fault::Grant { error: "invalid_grant", subtype: None });
    let mut options = fixture.options();
    options.ray = vec!["/nowhere/ray".into()];
    let (updates, receiver) = mpsc::channel(256);
    let supervisor = Supervisor::start(vec![fixture.spec.clone()], options, &updates);
    let problem = Started { supervisor, receiver }.failure().await;
    assert!(
        problem.what.contains("expired or were revoked") && problem.what.contains("/nowhere/ray"),
        "{problem:?}"
    );
    assert!(
        problem.hint.to_string().contains("application-default login")
            && problem.hint.to_string().contains("clusters.c1.address")
    );
}

#[tokio::test]
async fn a_missing_head_is_reported_with_its_state() {
    let mut stopped = head("h1", "10.0.0.1", None);
    stopped["status"] = json!("TERMINATED");
    let cases: [(Vec<Value>, &[&str], &str, &str); 4] = [
        (vec![], &[], "no machine in hai-test is labeled as the head of c1", "start-cluster"),
        (vec![stopped], &[], "the head h1 in us-central2-b is terminated", "start-cluster"),
        (vec![head("h1", "10.0.0.1", None)], &[], "h1 has no external address", "use_internal_ips"),
        (vec![], &["us-east1-z"], "could not list us-east1-z", "wait"),
    ];
    for (heads, unreachable, what, hint) in cases {
        let fixture = Fixture::new().await;
        fixture.heads(&heads);
        fixture.double.state().unreachable = unreachable.iter().map(|z| (*z).to_owned()).collect();
        let problem = fixture.start().failure().await;
        assert!(problem.what.contains(what) && problem.hint.to_string().contains(hint), "{problem:?}");
        assert!(fixture.reached().is_empty());
    }
}
