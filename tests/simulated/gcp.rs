//! The Google Cloud client against the double: what it asks, what it makes of the answers, and the hint of each failure.

use crate::soon::soon;
use marin_tui::demo::google::compute::instance;
use marin_tui::demo::google::{Fault, Google as Double, PROJECT, Stored, registry, tpu};
use marin_tui::gcp::{
    ChosenQueued, ChosenTpu, Endpoints, GcpError, Google, Login, Role, TpuApi, TpuPlace, credentials,
};
use marin_tui::model::cloud::{Capacity, QueuedState, VmState};
use marin_tui::model::{ImageName, Secret, Timestamp};
use serde_json::json;
use std::time::Duration;

const NAME: &str = "RAY_AUTH_TOKEN";
/// Whether an error is the one that is meant.
type Kind = fn(&GcpError) -> bool;

const VALUE: &str = "tok-0f1e2d3c4b5a";

/// A person whose access tokens come from the double.
fn person(double: &Double) -> Login {
    let dir = tempfile::tempdir().unwrap();
    let file = double.write_adc(dir.path()).unwrap();
    let grant: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    Login::by(move || credentials::user_account::Builder::new(grant.clone()).build())
}

fn client(double: &Double) -> Google {
    Google::new(Endpoints::all_at(&double.url()), person(double))
}

#[tokio::test]
async fn the_latest_version_is_read() {
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, "old");
    double.put_secret(NAME, VALUE);
    let found = client(&double).latest_version(PROJECT, NAME).await.unwrap();
    assert_eq!((found.version.as_str(), found.value.expose()), ("2", VALUE));
    assert!(!format!("{found:?}").contains(VALUE));
}

#[tokio::test]
async fn every_failure_is_told_apart_and_says_its_mend() {
    let refuse = |code, status, reason, message| Fault::Refuse { code, status, reason, message };
    let grant = |error, subtype| Fault::Grant { error, subtype };
    let cases: Vec<(&str, Fault, Kind, &str)> = vec![
        (
            ":access",
            refuse(
                403,
                "PERMISSION_DENIED",
                "IAM_PERMISSION_DENIED",
                "Permission 'secretmanager.versions.access' denied",
            ),
            |e| matches!(e, GcpError::Forbidden { .. }),
            "roles/secretmanager.secretAccessor",
        ),
        (
            ":access",
            refuse(403, "PERMISSION_DENIED", "SERVICE_DISABLED", "Secret Manager API has not been used"),
            |e| matches!(e, GcpError::ApiOff { .. }),
            "gcloud services enable secretmanager.googleapis.com --project=hai-test",
        ),
        (
            ":access",
            refuse(404, "NOT_FOUND", "", "Secret not found"),
            |e| matches!(e, GcpError::NotFound { .. }),
            "check the name and the project",
        ),
        (
            ":access",
            refuse(429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", "Quota exceeded"),
            |e| matches!(e, GcpError::Quota { .. }),
            "wait a minute",
        ),
        (
            ":access",
            refuse(503, "UNAVAILABLE", "", "The service is currently unavailable."),
            |e| matches!(e, GcpError::Unavailable { code: 503, .. }),
            "wait",
        ),
        (
            ":access",
            refuse(401, "UNAUTHENTICATED", "", "Request had invalid authentication credentials."),
            |e| matches!(e, GcpError::Unauthenticated { .. }),
            "application-default login",
        ),
        (
            ":access",
            refuse(
                400,
                "FAILED_PRECONDITION",
                "",
                "Secret Version [projects/1234567890/secrets/RAY_AUTH_TOKEN/versions/1] is in DISABLED state.",
            ),
            |e| matches!(e, GcpError::State { .. }),
            "gcloud secrets versions enable 1 --secret=RAY_AUTH_TOKEN --project=hai-test",
        ),
        (":access", Fault::Html(502), |e| matches!(e, GcpError::NotJson { code: 502, .. }), "load balancer"),
        (
            ":access",
            Fault::SignIn,
            |e| matches!(e, GcpError::NotJson { code: 200, .. }),
            "sign in to this network",
        ),
        (":access", Fault::BadChecksum, |e| matches!(e, GcpError::Checksum), "try again"),
        (":access", Fault::HangUp, |e| matches!(e, GcpError::Unreachable { .. }), "check the network"),
        (
            "/token",
            grant("invalid_grant", None),
            |e| matches!(e, GcpError::GrantExpired { .. }),
            "application-default login",
        ),
        (
            "/token",
            grant("invalid_grant", Some("invalid_rapt")),
            |e| matches!(e, GcpError::Reauthenticate { .. }),
            "application-default login",
        ),
        ("/token", Fault::Skew, |e| matches!(e, GcpError::Clock { .. }), "timedatectl set-ntp true"),
        ("/token", refuse(503, "", "", ""), |e| matches!(e, GcpError::Unavailable { .. }), "wait"),
    ];
    for (path, fault, is, hint) in cases {
        let double = Double::start().await.unwrap();
        double.put_secret(NAME, VALUE);
        let google = client(&double);
        double.fail(path, fault.clone());
        let error = google.latest_version(PROJECT, NAME).await.unwrap_err();
        assert!(is(&error), "{fault:?} became {error:?}");
        assert!(error.hint().to_string().contains(hint), "{fault:?}: {}", error.hint());
        assert!(!format!("{error} {error:?}").contains(VALUE), "{error:?}");
        // All of it passes without a restart: a new login is seen, too.
        double.recover();
        let found = google.latest_version(PROJECT, NAME).await;
        assert_eq!(found.map(|v| v.version), Ok("1".into()), "after {fault:?}");
    }
}

#[tokio::test]
async fn what_does_not_pass_is_asked_once_and_what_may_three_times() {
    let double = Double::start().await.unwrap();
    let google = client(&double);
    double.fail("aggregated", Fault::Refuse { code: 403, status: "", reason: "forbidden", message: "no" });
    assert!(google.machines(PROJECT, Role::Head, None).await.is_err());
    assert_eq!(double.asked("aggregated"), 1);
    double.recover();
    double.fail("aggregated", Fault::Html(502));
    assert!(google.machines(PROJECT, Role::Head, None).await.is_err());
    assert_eq!(double.asked("aggregated"), 4, "a load balancer's page is asked for again");
    double.recover();
    double.fail("aggregated", Fault::Refuse { code: 503, status: "", reason: "", message: "" });
    assert!(google.machines(PROJECT, Role::Head, None).await.is_err());
    assert_eq!(double.asked("aggregated"), 7);
    double.recover();
    double.fail("aggregated", Fault::SignIn);
    assert!(google.machines(PROJECT, Role::Head, None).await.is_err());
    assert_eq!(double.asked("aggregated"), 8, "a network's page for signing in is not");
}

#[tokio::test]
async fn google_says_when_it_wants_to_be_asked_again() {
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, VALUE);
    let google = client(&double);
    for path in ["aggregated", ":access"] {
        // Longer than a call is waited for: told, and not asked again before.
        double.fail(path, Fault::Busy(90));
        let before = double.asked(path);
        let error = match path {
            ":access" => google.latest_version(PROJECT, NAME).await.map(drop),
            _ => google.machines(PROJECT, Role::Head, None).await.map(drop),
        }
        .unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(90)), "{path}: {error:?}");
        assert!(error.hint().to_string().contains("wait 90 s"), "{}", error.hint());
        assert_eq!(double.asked(path), before + 1, "{path}");
        double.recover();
    }
    // Nothing more is sent to these services before, whatever the call and the service of another project is.
    let before = double.requests().len();
    let error = google.machines(PROJECT, Role::Worker, None).await.unwrap_err();
    assert!(error.retry_after().is_some_and(|left| left > Duration::from_secs(30)), "{error:?}");
    assert!(google.add_version(PROJECT, NAME, &Secret::new("next")).await.is_err());
    assert_eq!(double.requests().len(), before, "{:?}", double.requests());
    assert!(matches!(google.latest_version("other-project", NAME).await, Err(GcpError::Forbidden { .. })));
    // A short time is waited, and then it works.
    let google = client(&double);
    double.fail("aggregated", Fault::Busy(1));
    let before = double.asked("aggregated");
    let asking = tokio::spawn({
        let google = google.clone();
        async move { google.machines(PROJECT, Role::Head, None).await }
    });
    let refused = async {
        while double.asked("aggregated") == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("it was refused once", refused).await;
    double.recover();
    assert!(asking.await.unwrap().is_ok());
}

#[tokio::test]
async fn google_may_say_when_in_the_body_too() {
    let body = r#"{"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "90.500s"}]}}"#;
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, VALUE);
    let google = client(&double);
    for path in ["aggregated", ":access"] {
        double.fail(path, Fault::Recorded { code: 429, body });
        let error = match path {
            ":access" => google.latest_version(PROJECT, NAME).await.map(drop),
            _ => google.machines(PROJECT, Role::Head, None).await.map(drop),
        };
        assert_eq!(error.unwrap_err().retry_after(), Some(Duration::from_millis(90_500)), "{path}");
        double.recover();
    }
}

#[tokio::test]
async fn a_patient_call_waits_as_long_as_google_asks_and_says_so_once() {
    let double = Double::start().await.unwrap();
    let google = client(&double);
    let (told, mut waits) = tokio::sync::mpsc::unbounded_channel();
    google.tell_waits(move |wait| drop(told.send(wait)));
    double.fail("aggregated", Fault::Busy(2));
    // Two calls side by side, of which both are refused.
    let asking = [Role::Head, Role::Worker].map(|role| {
        let google = google.patient();
        tokio::spawn(async move { google.machines(PROJECT, role, None).await })
    });
    let wait = soon("the wait is told", waits.recv()).await.unwrap();
    assert_eq!((wait.project.as_str(), wait.asked), (PROJECT, Duration::from_secs(2)));
    assert!(wait.words(wait.left).starts_with("Google asks to wait 2 s (quota exceeded: "), "{wait:?}");
    double.recover();
    for asking in asking {
        assert!(asking.await.unwrap().is_ok());
    }
    // Only a wait that begins later, for a call that was refused later, is another one.
    let others: Vec<_> = std::iter::from_fn(|| waits.try_recv().ok()).collect();
    assert!(others.len() <= 1, "{others:?}");
}

#[tokio::test]
async fn a_change_is_repeated_when_google_has_not_begun_with_it() {
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, VALUE);
    let google = client(&double);
    let add = || {
        let google = google.clone();
        async move { google.add_version(PROJECT, NAME, &Secret::new("next")).await }
    };
    // No access token for a moment: nothing was sent yet.
    double.fail("/token", Fault::Refuse { code: 503, status: "", reason: "", message: "" });
    let error = add().await.unwrap_err();
    assert!(matches!(error, GcpError::Unavailable { code: 503, .. }), "{error:?}");
    assert_eq!((double.asked("/token"), double.asked(":addVersion")), (3, 0));
    double.recover();
    // Google says when: too late for this call, or soon enough.
    double.fail(":addVersion", Fault::Busy(90));
    assert_eq!(add().await.unwrap_err().retry_after(), Some(Duration::from_secs(90)));
    assert_eq!(double.asked(":addVersion"), 1);
    double.recover();
    let google = client(&double);
    let add = || {
        let google = google.clone();
        async move { google.add_version(PROJECT, NAME, &Secret::new("next")).await }
    };
    double.fail(":addVersion", Fault::Busy(1));
    let adding = tokio::spawn(add());
    let refused = async {
        while double.asked(":addVersion") == 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("it was refused once", refused).await;
    double.recover();
    assert_eq!(adding.await.unwrap(), Ok("2".into()));
    // It may have been carried out: asked once.
    let before = double.asked(":addVersion");
    double.fail(":addVersion", Fault::Refuse { code: 503, status: "", reason: "", message: "" });
    assert!(add().await.is_err());
    assert_eq!(double.asked(":addVersion"), before + 1);
}

#[tokio::test]
async fn wrong_names_and_states_of_secrets() {
    let double = Double::start().await.unwrap();
    let google = client(&double);
    let error = |project: &'static str, name: &'static str| {
        let google = google.clone();
        async move { google.latest_version(project, name).await.unwrap_err() }
    };
    assert!(matches!(error(PROJECT, "NONE").await, GcpError::NotFound { .. }));
    assert!(matches!(error("other-project", NAME).await, GcpError::Forbidden { .. }));
    let disabled = Stored { state: "DISABLED", ..Stored::enabled(b"x") };
    double.state().secrets.insert("OFF".into(), vec![Stored::enabled(b"w"), disabled]);
    let GcpError::State { message, .. } = error(PROJECT, "OFF").await else { panic!() };
    assert!(message.contains("versions/2") && message.contains("DISABLED"), "{message}");
}

#[tokio::test]
async fn credentials_that_cannot_be_had_say_so_at_once() {
    let double = Double::start().await.unwrap();
    let broken =
        Login::by(|| credentials::user_account::Builder::new(json!({"type": "authorized_user"})).build());
    let google = Google::new(Endpoints::all_at(&double.url()), broken);
    let error = google.latest_version(PROJECT, NAME).await.unwrap_err();
    assert!(matches!(&error, GcpError::CredentialsFile { .. }), "{error:?}");
    assert!(error.hint().to_string().contains("GOOGLE_APPLICATION_CREDENTIALS"), "{}", error.hint());
    // No metadata server answers there.
    let nobody =
        Login::by(|| credentials::mds::Builder::default().with_endpoint("http://127.0.0.1:9").build());
    let google = Google::new(Endpoints::all_at(&double.url()), nobody);
    let error = google.latest_version(PROJECT, NAME).await.unwrap_err();
    assert!(matches!(error, GcpError::Unreachable { .. }), "{error:?}");
    assert!(double.requests().is_empty(), "nothing is asked without credentials");
}

#[tokio::test]
async fn a_secret_is_made_once() {
    let double = Double::start().await.unwrap();
    let google = client(&double);
    google.create_secret(PROJECT, "NEW").await.unwrap();
    let version = google.add_version(PROJECT, "NEW", &Secret::new(VALUE)).await.unwrap();
    assert_eq!(version, "1");
    assert_eq!(google.latest_version(PROJECT, "NEW").await.unwrap().value.expose(), VALUE);
    assert!(matches!(google.create_secret(PROJECT, "NEW").await, Err(GcpError::Exists { .. })));
}

#[tokio::test]
async fn heads_are_found_by_label_on_every_page() {
    let double = Double::start().await.unwrap();
    let labels = |kind: &str, cluster: &str| json!({"ray-node-type": kind, "ray-cluster-name": cluster});
    {
        let mut state = double.state();
        state.page = 1;
        state.unreachable = vec!["us-east1-z".into()];
        let mut old =
            instance("us-central1-a", "ray-a-head-1", &labels("head", "a"), "10.0.0.1", Some("34.0.0.1"));
        old["status"] = json!("TERMINATED");
        state.instances = vec![
            old,
            instance("us-central1-a", "ray-a-worker", &labels("worker", "a"), "10.0.0.2", None),
            instance("us-central2-b", "ray-a-head-2", &labels("head", "a"), "10.0.0.3", Some("34.0.0.3")),
            instance("us-central2-b", "ray-b-head", &labels("head", "b"), "10.0.0.4", None),
        ];
    }
    let google = client(&double);
    let heads = google.machines(PROJECT, Role::Head, Some("a")).await.unwrap();
    assert_eq!(heads.found.len(), 2);
    assert_eq!(heads.unreachable, ["us-east1-z".into()]);
    let head = heads.running()[0];
    assert_eq!((head.name.as_str(), head.zone.as_str()), ("ray-a-head-2", "us-central2-b"));
    assert_eq!((head.internal.as_deref(), head.external.as_deref()), (Some("10.0.0.3"), Some("34.0.0.3")));
    assert_eq!(google.machines(PROJECT, Role::Head, None).await.unwrap().found.len(), 3);
}

#[tokio::test]
async fn an_address_that_is_none_never_reaches_ssh() {
    let double = Double::start().await.unwrap();
    let labels = json!({"ray-node-type": "head", "ray-cluster-name": "a"});
    double.state().instances =
        vec![instance("us-central2-b", "h", &labels, "10.0.0.1", Some("-oProxyCommand=touch /tmp/x"))];
    let heads = client(&double).machines(PROJECT, Role::Head, Some("a")).await.unwrap();
    assert_eq!(heads.running()[0].external, None);
}

#[tokio::test]
async fn compute_names_the_api_that_is_off() {
    let double = Double::start().await.unwrap();
    let fault = Fault::Refuse {
        code: 403,
        status: "",
        reason: "SERVICE_DISABLED",
        message: "Compute Engine API off",
    };
    double.fail("aggregated", fault);
    let error = client(&double).machines(PROJECT, Role::Head, None).await.unwrap_err();
    assert!(
        error.hint().to_string().contains("gcloud services enable compute.googleapis.com"),
        "{error:?} {}",
        error.hint()
    );
}

fn place() -> TpuPlace {
    TpuPlace { project: PROJECT.into(), zone: "us-central2-b".into(), cluster: "a".into() }
}

#[tokio::test]
async fn deletions_are_followed_to_their_end() {
    let double = Double::start().await.unwrap();
    let labels = json!({"ray-node-type": "head", "ray-cluster-name": "a"});
    double.state().instances = vec![instance("us-central2-b", "h", &labels, "10.0.0.1", None)];
    double.state().nodes = vec![tpu::node("us-central2-b", "n", "v4-8", "PREEMPTED", &labels, &[])];
    let google = client(&double);
    let head = google.machines(PROJECT, Role::Head, None).await.unwrap().found.remove(0);
    let vm = ChosenTpu::from(&google.tpus_of_kind(&place(), "head").await.unwrap()[0]);
    let head = async || google.machine_deletion(&place(), Role::Head, &head).await.unwrap().unwrap();
    let vm = async || google.tpu_deletion_of(&place(), None, &vm).await.unwrap().unwrap();
    double.state().failing_operations = Some("in use by another".into());
    let failed = google.execute(&head().await).await;
    assert_eq!(failed, Err(GcpError::Operation { message: "in use by another".into() }));
    let failed = google.execute(&vm().await).await;
    assert_eq!(failed, Err(GcpError::Operation { message: "in use by another".into() }));
    double.state().failing_operations = None;
    let (of_head, of_vm) = (head().await, vm().await);
    google.execute(&of_head).await.unwrap();
    google.execute(&of_vm).await.unwrap();
    assert!(double.state().instances.is_empty() && double.state().nodes.is_empty());
    assert!(double.asked("/operations/") >= 8, "{:?}", double.requests());
    let gone = google.execute(&of_head).await;
    assert!(matches!(gone, Err(GcpError::NotFound { .. })), "{gone:?}");
}

/// Whatever differs from what was chosen, nothing is there that could be sent.
#[tokio::test]
async fn a_deletion_is_made_only_of_what_was_chosen() {
    let double = Double::start().await.unwrap();
    let labels = json!({"ray-node-type": "head", "ray-cluster-name": "a"});
    let machine = instance("us-central2-b", "h", &labels, "10.0.0.1", None);
    double.state().instances = vec![machine.clone()];
    let google = client(&double);
    let chosen = google.machines(PROJECT, Role::Head, Some("a")).await.unwrap().found.remove(0);
    let ask = async || google.machine_deletion(&place(), Role::Head, &chosen).await;
    let deletion = ask().await.unwrap().unwrap();
    assert!(
        deletion.url.ends_with(&format!("/instances/{}", machine["id"].as_str().unwrap())),
        "{deletion:?}"
    );
    let changes = [
        ("/labels/ray-cluster-name", "b", "its label ray-cluster-name is b"),
        ("/labels/ray-node-type", "worker", "its label ray-node-type is not head"),
        ("/creationTimestamp", "2026-11-21T08:00:00.000-08:00", "not the one"),
    ];
    for (field, value, words) in changes {
        let mut other = machine.clone();
        *other.pointer_mut(field).unwrap() = json!(value);
        double.state().instances = vec![other];
        let said = ask().await.unwrap_err().to_string();
        assert!(said.contains(words) && said.contains("nothing was sent"), "{said}");
    }
    // Another machine of the same name has another number.
    let mut other = machine.clone();
    other["id"] = json!("123");
    double.state().instances = vec![other];
    assert_eq!(ask().await.unwrap(), None);
    assert_eq!(double.asked("DELETE"), 0);
}

/// Cloud TPU deletes by name, and a queued resource with all that it holds.
#[tokio::test]
async fn a_tpu_made_anew_or_in_other_company_is_not_deleted() {
    let double = Double::start().await.unwrap();
    let labels = |cluster: &str| json!({"ray-cluster-name": cluster, "ray-node-type": "worker"});
    let queued = format!("projects/{PROJECT}/locations/us-central2-b/queuedResources/q");
    let node = |name: &str, cluster: &str| {
        let mut node = tpu::node("us-central2-b", name, "v4-8", "READY", &labels(cluster), &[]);
        node["queuedResource"] = json!(queued);
        node
    };
    let spec = |cluster: &str| {
        json!({"multisliceParams": {"nodeCount": 2, "nodeIdPrefix": "q"},
        "node": {"acceleratorType": "v4-8", "labels": labels(cluster)}})
    };
    let request = json!({"name": queued, "createTime": "2026-11-20T08:00:00Z", "state": {"state": "ACTIVE"},
        "tpu": {"nodeSpec": [spec("a")]}});
    let (first, second) = (node("q-0", "a"), node("q-1", "a"));
    double.state().nodes = vec![first.clone(), second.clone()];
    double.state().queued = vec![request.clone()];
    let google = client(&double);
    let view = google.tpus(PROJECT, "us-central2-b", Timestamp::from_millis(1)).await.unwrap();
    let vms: Vec<ChosenTpu> = view.vms.iter().map(ChosenTpu::from).collect();
    let chosen = ChosenQueued { name: "q".into(), created: view.queued[0].created, vms: vms.clone() };
    let all = async || google.queued_deletion_of(&place(), &chosen).await;
    let one = async || google.tpu_deletion_of(&place(), Some("worker"), &vms[0]).await;
    assert!(all().await.unwrap().unwrap().url.ends_with("/queuedResources/q?force=true"));
    assert!(one().await.unwrap().unwrap().url.ends_with("/nodes/q-0"));

    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut other = first.clone();
        change(&mut other);
        other
    };
    let others = [
        (with(&|n| n["labels"]["ray-cluster-name"] = json!("b")), "its label ray-cluster-name is b"),
        (with(&|n| n["id"] = json!("5")), "recreated since it was selected"),
        (with(&|n| n["createTime"] = json!("2026-11-21T08:00:00Z")), "recreated since it was selected"),
    ];
    for (other, words) in others {
        double.state().nodes = vec![other, second.clone()];
        for said in [one().await.unwrap_err(), all().await.unwrap_err()] {
            assert!(said.to_string().contains(words), "{said}");
        }
    }
    double.state().nodes = vec![with(&|n| n["labels"]["ray-node-type"] = json!("unmanaged"))];
    assert!(one().await.unwrap_err().to_string().contains("ray-node-type"));
    double.state().nodes = vec![first.clone(), second.clone(), node("late", "a")];
    assert!(all().await.unwrap_err().to_string().contains("it now holds late, which was not selected"));
    double.state().nodes = vec![first.clone(), second.clone()];
    for (field, value, words) in [
        ("/tpu/nodeSpec/0/node/labels/ray-cluster-name", "b", "its label ray-cluster-name is b"),
        ("/createTime", "2026-11-21T08:00:00Z", "not the one that was selected"),
    ] {
        let mut other = request.clone();
        *other.pointer_mut(field).unwrap() = json!(value);
        double.state().queued = vec![other];
        assert!(all().await.unwrap_err().to_string().contains(words), "{words}");
    }
    let mut mixed = request.clone();
    mixed["tpu"]["nodeSpec"] = json!([spec("a"), spec("b")]);
    double.state().queued = vec![mixed];
    assert!(all().await.unwrap_err().to_string().contains("its label ray-cluster-name is b"));
    double.state().queued.clear();
    assert_eq!(all().await.unwrap(), None);
    assert_eq!(double.asked("DELETE"), 0);
}

#[tokio::test]
async fn tpus_and_queued_resources_of_a_zone() {
    let double = Double::start().await.unwrap();
    let labels = json!({"ray-cluster-name": "a", "ray-user-node-type": "tpu_worker"});
    {
        let mut state = double.state();
        state.page = 1;
        let mut sick = tpu::node("us-central2-b", "n2", "v4-8", "READY", &labels, &[]);
        sick["health"] = json!("UNHEALTHY_MAINTENANCE");
        state.nodes = vec![
            tpu::node("us-central2-b", "n1", "v4-32", "PREEMPTED", &labels, &["10.1.0.1", "10.1.0.2"]),
            sick,
            tpu::node("us-east5-a", "elsewhere", "v6e-8", "SOME_NEW_STATE", &labels, &[]),
        ];
    }
    let google = client(&double);
    let now = Timestamp::from_millis(1);
    let spec = |mut ids: serde_json::Value| {
        ids["node"] = json!({"acceleratorType": "v4-128", "labels": labels});
        json!({"tpu": {"nodeSpec": [ids]}})
    };
    let mut best = spec(json!({"nodeId": "q1-node"}));
    best["bestEffort"] = json!({});
    let place = (PROJECT, "us-central2-b");
    let refused = google.execute(&google.queued_request(TpuApi::V2, place, "q1", best.clone())).await;
    assert!(matches!(refused, Err(GcpError::Refused { code: 400, .. })), "{refused:?}");
    google.execute(&google.queued_request(TpuApi::V2Alpha1, place, "q1", best.clone())).await.unwrap();
    let mut many = spec(json!({"multiNodeParams": {"nodeCount": 2, "nodeIdPrefix": "s"}}));
    many["guaranteed"] = json!({"reserved": true});
    google.execute(&google.queued_request(TpuApi::V2Alpha1, place, "q2", many.clone())).await.unwrap();

    let view = google.tpus(PROJECT, "us-central2-b", now).await.unwrap();
    let [n1, n2] = view.vms.as_slice() else { panic!("{:?}", view.vms) };
    assert_eq!((n1.state, n1.hosts.len(), n1.capacity), (VmState::Preempted, 2, Capacity::Preemptible));
    assert_eq!(n1.ray_type, Some("tpu_worker".into()));
    assert_eq!(n2.unhealthy, Some("UNHEALTHY_MAINTENANCE".into()));
    let [q1, q2] = view.queued.as_slice() else { panic!("{:?}", view.queued) };
    assert_eq!((q1.state, q1.capacity), (QueuedState::Waiting, Capacity::BestEffort));
    assert_eq!((q2.capacity, q2.nodes.clone()), (Capacity::Reserved, vec!["s-0".into(), "s-1".into()]));
    assert!(view.complete && view.asked == now);
    assert_eq!(google.tpus(PROJECT, "-", now).await.unwrap().vms[2].state, VmState::Unknown);

    let chosen = ChosenQueued { name: "q1".into(), created: q1.created, vms: Vec::new() };
    let deletion = google.queued_deletion_of(&self::place(), &chosen).await.unwrap().unwrap();
    google.execute(&deletion).await.unwrap();
    assert_eq!(double.state().queued.len(), 1);
}

#[tokio::test]
async fn a_late_answer_is_still_an_answer() {
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, VALUE);
    double.fail(":access", Fault::Latency(Duration::from_millis(300)));
    assert!(client(&double).latest_version(PROJECT, NAME).await.is_ok());
}

#[tokio::test]
async fn the_images_of_a_repository_are_listed_newest_first() {
    let double = Double::start().await.unwrap();
    let image =
        |name, digest, tags: &[&str], at| registry::image("us-central2/marin", name, digest, tags, at);
    {
        let mut state = double.state();
        state.page = 1;
        state.images = vec![
            image("marin_cluster", "0a", &["20261101"], "2026-11-01T08:00:00Z"),
            image("team%2Fmarin_cluster", "0b", &["other"], "2026-11-20T08:00:00Z"),
            image("marin_cluster", "0c", &["20261120", "latest"], "2026-11-20T08:00:00.25Z"),
        ];
    }
    let google = client(&double);
    let name = |text: &str| ImageName::parse(text).unwrap();
    let image = name("us-central2-docker.pkg.dev/hai-test/marin/marin_cluster:latest");
    let builds = google.images(&image).await.unwrap();
    let digests: Vec<&str> = builds.iter().map(|b| b.digest.raw()).collect();
    assert_eq!(digests, ["sha256:0c", "sha256:0a"]);
    assert_eq!(builds[0].tags, ["20261120".into(), "latest".into()]);
    assert_eq!((builds[0].bytes, builds[0].uploaded.is_some()), (Some(5_368_709_120), true));
    let other = google.images(&name("us-central2-docker.pkg.dev/hai-test/marin/team/marin_cluster:x")).await;
    assert_eq!(other.unwrap().len(), 1);
    let none = google.images(&name("us-docker.pkg.dev/hai-test/none/x:y")).await;
    assert!(matches!(none, Err(GcpError::NotFound { .. })), "{none:?}");
    let theirs = google.images(&name("us-docker.pkg.dev/other/none/x:y")).await;
    assert!(matches!(theirs, Err(GcpError::Forbidden { .. })), "{theirs:?}");
}
