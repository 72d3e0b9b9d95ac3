//! The Google double is checked against Google's own Python clients (`tests/google/clients.py`): each must understand
//! the other. `tests/bed/setup` installs the clients under `target/`.

use marin_tui::demo::google::compute::{instance, tpu_instance};
use marin_tui::demo::google::managed::{made_by, manager, resize, template};
use marin_tui::demo::google::{Fault, Google, PROJECT, Stored, registry, tpu, write_login};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const ZONE: &str = "us-central2-b";

/// The double, and a home directory with a user's credentials.
struct Fixture {
    double: Google,
    home: TempDir,
    _runtime: Runtime,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let double = runtime.block_on(Google::start()).unwrap();
        Self { double, home: tempfile::tempdir().unwrap(), _runtime: runtime }
    }

    /// Writes a login to a file in the home directory.
    fn login(&self, name: &str, login: &Value) {
        write_login(&self.home.path().join(name), login).unwrap();
    }

    /// Runs a check of `clients.py`.
    fn check(&self, check: &[&str]) {
        let root = env!("CARGO_MANIFEST_DIR");
        // This binary is in target/debug/deps.
        let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_path_buf();
        let python: PathBuf = target.join("google-clients/bin/python");
        assert!(python.exists(), "run tests/bed/setup: there is no {}", python.display());
        let adc = self.double.write_adc(self.home.path()).unwrap();
        let mut command = Command::new(python);
        command.arg(format!("{root}/tests/google/clients.py")).arg(self.double.url()).arg(adc).args(check);
        // No proxy of this machine applies.
        command.env("NO_PROXY", "127.0.0.1");
        // The double is also the metadata server.
        command.env("GCE_METADATA_HOST", self.double.url().trim_start_matches("http://"));
        let out = command.output().unwrap();
        let stdout = String::from_utf8_lossy(&out.stdout);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && stdout.contains("all well"), "{check:?}: {stdout}{stderr}");
    }
}

#[test]
fn every_type_of_login_gets_a_token() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN", "x");
    let subject = fixture.home.path().join("subject");
    std::fs::write(&subject, "subject-of-a-test").unwrap();
    let account = "ci@hai-test.iam.gserviceaccount.com";
    let (impersonated, mut external) =
        (fixture.double.impersonated(account), fixture.double.external(&subject));
    fixture.login("person.json", &fixture.double.person());
    fixture.login("impersonated.json", &impersonated);
    fixture.login("external.json", &external);
    let url = "service_account_impersonation_url";
    external[url] = impersonated[url].clone();
    fixture.login("external_impersonates.json", &external);
    fixture.check(&["logins", fixture.home.path().to_str().unwrap()]);
}

#[test]
fn secrets_are_created_read_and_listed() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN", "x");
    let off = Stored { state: "DISABLED", ..Stored::enabled(b"x") };
    fixture.double.state().secrets.insert("OFF".into(), vec![off]);
    fixture.double.state().page = 2;
    fixture.check(&["secrets"]);
    assert_eq!(fixture.double.state().secrets["PY"].len(), 3);
}

fn heads() -> Vec<serde_json::Value> {
    let head = json!({"ray-node-type": "head", "ray-cluster-name": "a"});
    let worker = json!({"ray-node-type": "worker", "ray-cluster-name": "a"});
    vec![
        instance(ZONE, "ray-a-head-1", &head, "10.0.0.1", Some("34.0.0.1")),
        instance(ZONE, "ray-a-worker", &worker, "10.0.0.2", None),
        instance("us-central1-a", "ray-a-head-2", &head, "10.0.0.3", None),
    ]
}

#[test]
fn instances_are_listed_across_zones_and_pages_and_deleted() {
    let fixture = Fixture::new();
    fixture.double.state().instances = heads();
    fixture.double.state().page = 1;
    fixture.double.state().unreachable = vec!["us-east1-z".into()];
    fixture.check(&["compute"]);
    assert_eq!(fixture.double.state().instances.len(), 2);
}

#[test]
fn instance_groups_are_created_once_changed_by_fingerprint_and_deleted() {
    let fixture = Fixture::new();
    fixture.check(&["groups"]);
    assert_eq!(fixture.double.state().groups.len(), 1);
}

#[test]
fn managed_instance_groups_of_tpus_are_listed_shrunk_and_deleted() {
    let fixture = Fixture::new();
    let labels = json!({"ray-cluster-name": "a"});
    let (mut slice, many) = (manager(ZONE, "slice", "t", 2, true), manager(ZONE, "many", "t", 1, false));
    slice["status"] = json!({"isStable": false,
        "appliedAcceleratorTopologies": [{"acceleratorTopology": "2x2x2", "state": "INCOMPLETE"}],
        "bulkInstanceOperation": {"inProgress": true,
            "lastProgressCheck": {"error": {"errors": [{"code": "STOCKOUT", "message": "no capacity"}]}}}});
    let mut of_region = manager(ZONE, "of-region", "t", 0, false);
    let region = format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/regions/us-central2");
    of_region["region"] = json!(region);
    of_region.as_object_mut().unwrap().remove("zone");
    let host = |name: &str, ip| tpu_instance(ZONE, name, "tpu7x-standard-4t", &labels, ip);
    {
        let mut state = fixture.double.state();
        state.instances = heads();
        state.instances.push(made_by(host("slice-0", "10.7.0.1"), &slice));
        state.instances.push(made_by(host("many-0", "10.7.0.2"), &many));
        state.managers = vec![slice, many, of_region];
        state.templates = vec![template("t", "tpu7x-standard-4t", &labels)];
        state.resizes = vec![
            resize(ZONE, "many", "waits", 2, ("ACCEPTED", Some("no capacity yet"))),
            resize(ZONE, "many", "failed", 1, ("FAILED", Some("no quota"))),
        ];
    }
    fixture.check(&["managed"]);
    let state = fixture.double.state();
    assert_eq!((state.managers.len(), state.instances.len()), (1, 3));
}

#[test]
fn resources_of_a_tpu_are_created_once_and_deleted_when_unused() {
    let fixture = Fixture::new();
    fixture.check(&["making"]);
    let state = fixture.double.state();
    assert_eq!((state.policies.len(), state.templates.len(), state.managers.len()), (0, 0, 0));
    drop(state);
    let fixture = Fixture::new();
    fixture.double.state().failing_operations = Some("not enough resources".into());
    fixture.double.state().failing_code = Some(("ZONE_RESOURCE_POOL_EXHAUSTED", "/instances/"));
    fixture.check(&["no_capacity"]);
}

fn nodes() -> Vec<serde_json::Value> {
    let labels = json!({"ray-cluster-name": "a"});
    let mut queued = tpu::node(ZONE, "n3", "v4-8", "CREATING", &labels, &[]);
    // Without a node, a queued resource is deleted without force.
    queued["queuedResource"] = json!(format!("projects/{PROJECT}/locations/{ZONE}/queuedResources/q1"));
    vec![
        tpu::node(ZONE, "n1", "v4-16", "READY", &labels, &["10.1.0.1", "10.1.0.2"]),
        tpu::node(ZONE, "n2", "v4-8", "PREEMPTED", &labels, &[]),
        queued,
    ]
}

#[test]
fn tpus_and_queued_resources_go_through_their_operations() {
    for check in ["tpus", "tpus_alpha"] {
        let fixture = Fixture::new();
        fixture.double.state().nodes = nodes();
        fixture.double.state().page = 2;
        fixture.check(&[check]);
    }
}

#[test]
fn flex_start_is_requested_from_the_api_version_that_supports_it() {
    Fixture::new().check(&["flex_start"]);
}

#[test]
fn operations_may_fail_after_they_start() {
    let fixture = Fixture::new();
    fixture.double.state().instances = heads();
    fixture.double.state().nodes = nodes();
    fixture.double.state().failing_operations = Some("in use by another".into());
    fixture.check(&["operations_that_fail"]);
}

#[test]
fn images_and_tags_are_listed() {
    let fixture = Fixture::new();
    let image =
        |name, digest, tags: &[&str], at| registry::image("us-central2/marin", name, digest, tags, at);
    fixture.double.state().images = vec![
        image("marin_cluster", "0a", &["20261101"], "2026-11-01T08:00:00Z"),
        image("marin_cluster", "0b", &["20261120", "latest"], "2026-11-20T08:00:00.5Z"),
        image("marin_cluster", "0c", &[], "2026-11-10T08:00:00Z"),
        image("marin_vllm", "0d", &["latest"], "2026-11-20T08:00:00Z"),
    ];
    fixture.double.state().page = 3;
    fixture.check(&["registry"]);
}

#[test]
fn repositories_are_created_and_given_policies() {
    let fixture = Fixture::new();
    fixture.double.state().page = 1;
    fixture.check(&["repositories"]);
    assert_eq!(fixture.double.state().repositories.len(), 2);
}

#[test]
fn permissions_are_tested_for_a_project() {
    let fixture = Fixture::new();
    fixture.double.state().denied.insert("tpu.nodes.delete".into());
    fixture.check(&["permissions"]);
}

#[test]
fn refusals_raise_exceptions_in_the_clients() {
    let statuses = [
        (403, "PERMISSION_DENIED", "IAM_PERMISSION_DENIED"),
        (404, "NOT_FOUND", ""),
        (409, "ABORTED", ""),
        (429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED"),
    ];
    for (code, status, reason) in statuses {
        let fixture = Fixture::new();
        let fault = Fault::Refuse { code, status, reason, message: "as Google says" };
        fixture.double.fail("projects", fault);
        fixture.check(&["refused", &code.to_string()]);
    }
}
