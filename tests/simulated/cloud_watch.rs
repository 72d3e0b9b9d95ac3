//! The supervisor and Google: updates about a cluster's TPUs arrive independently of its head, including errors, and
//! leftovers are deleted.

use crate::google::google;
use crate::soon::soon;
use crate::spec::spec;
use marin_tui::config::{Env, Folders, Settings};
use marin_tui::demo::google::{Fault, Google as Double, PROJECT, tpu};
use marin_tui::model::cloud::{CloudView, TpuHost};
use marin_tui::model::{
    Cleaned, ClusterEvent, ClusterName, ClusterSpec, GoogleNames, HeadAddress, HostName, Problem,
    ProblemKind, Provider, Request, SshAuth, leftovers,
};
use marin_tui::state::Update;
use marin_tui::supervisor::{AuditSink, Options, Supervisor};
use marin_tui::token::TokenSources;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::{Semaphore, mpsc};

const ZONE: &str = "us-central2-b";

/// A cluster in Google Cloud with an unreachable head, and the events of its supervisor.
struct Fixture {
    dir: TempDir,
    double: Double,
    spec: ClusterSpec,
    others: Vec<ClusterSpec>,
    audited: Arc<Mutex<Vec<String>>>,
    running: Option<(Supervisor, mpsc::Receiver<Update>)>,
}

impl Fixture {
    async fn new() -> Self {
        let spec = ClusterSpec {
            zone: Some(ZONE.into()),
            head: HeadAddress::Ssh(HostName::parse("127.0.0.1").unwrap()),
            auth: SshAuth { port: Some(9), ..SshAuth::default() },
            google: GoogleNames { project: Some(PROJECT.into()), ..GoogleNames::default() },
            ..spec("c1")
        };
        let dir = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let double = Double::start().await.unwrap();
        Self { dir, double, spec, others: Vec::new(), audited: Arc::default(), running: None }
    }

    fn adc(&self) -> PathBuf {
        self.double.write_adc(self.dir.path()).unwrap()
    }

    /// Starts the supervisor with a login that reads the credentials file when it is needed.
    fn start(&mut self, refresh: Option<Duration>) {
        let home = self.dir.path();
        let env = Env::new(&[("HOME", home.to_str().unwrap())], home);
        let mut options = Options::new(&Settings::default(), &Folders::new(&env), TokenSources::default());
        options.google = google(&self.double, home);
        options.run_dir = home.join("run");
        fs::write(home.join("ssh_config"), "").unwrap();
        options.ssh_config = Some(home.join("ssh_config"));
        options.cloud_refresh = refresh;
        let audited = self.audited.clone();
        options.note = AuditSink::by(move |cluster, what, outcome| {
            audited.lock().unwrap().push(format!("{cluster}: {what}: {outcome}"));
        });
        let (updates, receiver) = mpsc::channel(64);
        let specs = [&[self.spec.clone()][..], &self.others].concat();
        self.running = Some((Supervisor::start(specs, options, &updates), receiver));
    }

    fn ask(&self, request: Request) {
        self.running.as_ref().unwrap().0.ask(&self.spec.name, request);
    }

    async fn event<T>(&mut self, what: &str, wanted: impl Fn(ClusterEvent) -> Option<T>) -> T {
        let receiver = &mut self.running.as_mut().unwrap().1;
        let found = async {
            loop {
                if let Some(found) = wanted(receiver.recv().await.unwrap().event) {
                    return found;
                }
            }
        };
        soon(what, found).await
    }

    async fn cloud(&mut self) -> Result<Arc<CloudView>, Problem> {
        let result = |event| if let ClusterEvent::Cloud(answer) = event { Some(answer) } else { None };
        self.event("the answer from Google", result).await
    }
}

fn node(id: &str, state: &str) -> Value {
    tpu::node(ZONE, id, "v4-8", state, &json!({"ray-cluster-name": "c1"}), &["10.1.0.1"])
}

const SLOW: Option<Duration> = Some(Duration::from_secs(3600));

#[tokio::test(flavor = "multi_thread")]
async fn google_is_polled_independently_of_the_head() {
    let mut fixture = Fixture::new().await;
    fixture.adc();
    fixture.double.state().nodes = vec![node("a", "READY")];
    fixture.start(Some(Duration::from_millis(50)));
    assert_eq!(fixture.cloud().await.unwrap().vms.len(), 1);
    let refuse = Fault::Refuse {
        code: 403,
        status: "PERMISSION_DENIED",
        reason: "IAM_PERMISSION_DENIED",
        message: "no",
    };
    fixture.double.fail("/nodes", refuse);
    let problem = loop {
        if let Err(problem) = fixture.cloud().await {
            break problem;
        }
    };
    assert!(problem.what.contains("permission denied by Google") && !problem.hint.is_empty(), "{problem:?}");
    fixture.double.recover();
    while fixture.cloud().await.is_err() {}
    fixture.running.take().unwrap().0.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn google_is_not_queried_without_a_login_and_recovers_after_one() {
    let mut fixture = Fixture::new().await;
    fixture.start(Some(Duration::from_millis(50)));
    let problem = fixture.cloud().await.unwrap_err();
    assert_eq!(problem.kind, ProblemKind::Login, "{problem:?}");
    assert!(problem.hint.to_string().contains("gcloud auth application-default login"), "{problem:?}");
    assert!(fixture.double.requests().is_empty(), "{:?}", fixture.double.requests());
    fixture.adc();
    while fixture.cloud().await.is_err() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_to_a_tpu_host_uses_the_head_only_if_necessary() {
    let mut fixture = Fixture::new().await;
    fixture.start(None);
    let (supervisor, _) = fixture.running.as_ref().unwrap();
    let inside = TpuHost { vm: "ray-1".into(), ..TpuHost::at("10.1.0.1") };
    let why = supervisor.login_host(&fixture.spec.name, &inside).await.unwrap_err();
    assert!(why.contains("only reachable through the head"), "{why}");
    let outside = TpuHost { external: Some("203.0.113.9".into()), ..inside };
    let command = supervisor.login_host(&fixture.spec.name, &outside).await.unwrap();
    let args: Vec<_> = command.get_args().map(|a| a.to_str().unwrap().to_owned()).collect();
    assert_eq!(args[args.len() - 3..], ["-t", "--", "203.0.113.9"]);
    assert!(args.contains(&"HostKeyAlias=ray-1.0.c1".to_owned()), "{args:?}");
    assert!(!args.iter().any(|a| a.contains("ProxyCommand")), "{args:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_fails_with_a_reason_if_google_is_not_queried() {
    for (provider, refresh, hint) in
        [(Provider::Local, SLOW, "provider gcp"), (Provider::Gcp, None, "cloud_refresh_seconds")]
    {
        let mut fixture = Fixture::new().await;
        fixture.adc();
        fixture.spec.provider = provider;
        fixture.start(refresh);
        fixture.ask(Request::Cloud);
        let problem = fixture.cloud().await.unwrap_err();
        assert!(problem.hint.to_string().contains(hint), "{problem:?}");
        fixture.ask(Request::CleanPreempted(Vec::new()));
        let is = |event| if let ClusterEvent::Cleaned(answer) = event { Some(answer) } else { None };
        assert!(fixture.event("the result of the cleanup", is).await.is_err());
        assert!(fixture.double.requests().is_empty(), "{:?}", fixture.double.requests());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_one_zone_share_its_cloud_view() {
    let mut fixture = Fixture::new().await;
    fixture.adc();
    fixture.double.state().nodes = vec![node("a", "READY")];
    fixture.others =
        ["c2", "c3"].map(|name| ClusterSpec { name: ClusterName::new(name), ..fixture.spec.clone() }).into();
    fixture.start(SLOW);
    let views =
        [fixture.cloud().await.unwrap(), fixture.cloud().await.unwrap(), fixture.cloud().await.unwrap()];
    assert!(views.iter().all(|view| Arc::ptr_eq(view, &views[0])), "stored once");
    assert_eq!(
        (fixture.double.requests_with("/nodes"), fixture.double.requests_with("/queuedResources")),
        (1, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_are_deleted_audited_and_listed_again() {
    let mut fixture = Fixture::new().await;
    fixture.adc();
    fixture.double.state().nodes = vec![node("left", "PREEMPTED"), node("back", "PREEMPTED")];
    fixture.start(SLOW);
    let left = leftovers("c1", &fixture.cloud().await.unwrap());
    fixture.double.state().nodes[1]["state"] = json!("READY");
    fixture.ask(Request::CleanPreempted(left));
    let is = |event| if let ClusterEvent::Cleaned(answer) = event { Some(answer) } else { None };
    let done = fixture.event("the result of the cleanup", is).await.unwrap();
    let results: Vec<_> = done.iter().map(|(l, c)| (l.name.raw(), c.clone())).collect();
    let skipped = Cleaned::Skipped("it is ready now".into());
    assert_eq!(results, [("back", skipped), ("left", Cleaned::Deleted)]);
    assert_eq!(fixture.cloud().await.unwrap().vms.len(), 1, "requested again at once");
    let audited = fixture.audited.lock().unwrap().clone();
    let expected = [
        "c1: clean-preempted: started: 2 in total",
        "c1: clean-preempted TPU VM back: skipped: it is ready now",
        "c1: clean-preempted TPU VM left: deleted",
    ];
    assert_eq!(audited, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_during_a_request_causes_another_request() {
    let mut fixture = Fixture::new().await;
    fixture.adc();
    fixture.double.state().nodes = vec![node("left", "PREEMPTED")];
    fixture.start(SLOW);
    let left = leftovers("c1", &fixture.cloud().await.unwrap());
    let until = Arc::new(Semaphore::new(0));
    fixture.double.fail("/queuedResources", Fault::Held(until.clone()));
    let requests = fixture.double.requests_with("/queuedResources");
    fixture.ask(Request::Cloud);
    let repeated = async {
        while fixture.double.requests_with("/queuedResources") == requests {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("Google is queried again", repeated).await;
    // Only the request in progress is held.
    fixture.double.recover();
    fixture.ask(Request::CleanPreempted(left));
    let is = |event| if let ClusterEvent::Cleaned(answer) = event { Some(answer) } else { None };
    fixture.event("the result of the cleanup", is).await.unwrap();
    until.add_permits(1);
    assert_eq!(fixture.cloud().await.unwrap().vms.len(), 1, "the state at the time of the request");
    assert!(fixture.cloud().await.unwrap().vms.is_empty(), "requested again at once");
}

/// The instance group that marks an operation of alice on c1, at this step.
fn lock(step: u32) -> Value {
    let note = json!({"id": "00000000aaaaaaaa", "cluster": "c1", "who": "alice\u{1b}[31m@laptop", "process": 7,
        "command": "restart-cluster", "title": "restart c1", "steps": 9, "since_ms": 1000});
    json!({"id": "501", "name": "marin-tui-operation-c1", "description": note.to_string(), "fingerprint": "AAAA",
        "zone": format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}"),
        "namedPorts": [{"name": "step", "port": step}, {"name": "seen-2000", "port": 1}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn another_operators_mark_is_reported_while_the_head_is_unreachable() {
    let mut fixture = Fixture::new().await;
    fixture.adc();
    fixture.spec.file = Some("c1.yaml".into());
    fixture.double.state().groups = vec![lock(4)];
    fixture.start(Some(Duration::from_millis(50)));
    let is = |event| if let ClusterEvent::Lock(lock) = event { Some(lock) } else { None };
    let seen = fixture.event("the lock", is).await.unwrap();
    assert_eq!((seen.step, seen.seen_ms, seen.who.as_str()), (4, 2000, "alice·[31m@laptop"));
    fixture.double.state().groups = vec![lock(5)];
    assert_eq!(fixture.event("the next step", is).await.unwrap().step, 5);
    // While the mark cannot be read, the last known state is kept.
    fixture.double.fail("instanceGroups", Fault::Html(502));
    let requests = fixture.double.requests_with("instanceGroups");
    while fixture.double.requests_with("instanceGroups") < requests + 3 {
        tokio::task::yield_now().await;
    }
    fixture.double.recover();
    fixture.double.state().groups.clear();
    assert_eq!(fixture.event("its end", is).await, None);
}
