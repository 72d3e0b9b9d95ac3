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
struct Place {
    double: Google,
    home: TempDir,
    _runtime: Runtime,
}

impl Place {
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
    let place = Place::new();
    place.double.put_secret("RAY_AUTH_TOKEN", "x");
    let subject = place.home.path().join("subject");
    std::fs::write(&subject, "subject-of-a-test").unwrap();
    let account = "ci@hai-test.iam.gserviceaccount.com";
    let (impersonated, mut external) = (place.double.impersonated(account), place.double.external(&subject));
    place.login("person.json", &place.double.person());
    place.login("impersonated.json", &impersonated);
    place.login("external.json", &external);
    let url = "service_account_impersonation_url";
    external[url] = impersonated[url].clone();
    place.login("external_impersonates.json", &external);
    place.check(&["logins", place.home.path().to_str().unwrap()]);
}

#[test]
fn secrets_are_created_read_and_listed() {
    let place = Place::new();
    place.double.put_secret("RAY_AUTH_TOKEN", "x");
    let off = Stored { state: "DISABLED", ..Stored::enabled(b"x") };
    place.double.state().secrets.insert("OFF".into(), vec![off]);
    place.double.state().page = 2;
    place.check(&["secrets"]);
    assert_eq!(place.double.state().secrets["PY"].len(), 3);
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
    let place = Place::new();
    place.double.state().instances = heads();
    place.double.state().page = 1;
    place.double.state().unreachable = vec!["us-east1-z".into()];
    place.check(&["compute"]);
    assert_eq!(place.double.state().instances.len(), 2);
}

#[test]
fn instance_groups_are_created_once_changed_by_fingerprint_and_deleted() {
    let place = Place::new();
    place.check(&["groups"]);
    assert_eq!(place.double.state().groups.len(), 1);
}

#[test]
fn managed_instance_groups_of_tpus_are_listed_shrunk_and_deleted() {
    let place = Place::new();
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
        let mut state = place.double.state();
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
    place.check(&["managed"]);
    let state = place.double.state();
    assert_eq!((state.managers.len(), state.instances.len()), (1, 3));
}

#[test]
fn resources_of_a_tpu_are_created_once_and_deleted_when_unused() {
    let place = Place::new();
    place.check(&["making"]);
    let state = place.double.state();
    assert_eq!((state.policies.len(), state.templates.len(), state.managers.len()), (0, 0, 0));
    drop(state);
    let place = Place::new();
    place.double.state().failing_operations = Some("not enough resources".into());
    place.double.state().failing_code = Some(("ZONE_RESOURCE_POOL_EXHAUSTED", "/instances/"));
    place.check(&["no_capacity"]);
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
        let place = Place::new();
        place.double.state().nodes = nodes();
        place.double.state().page = 2;
        place.check(&[check]);
    }
}

#[test]
fn flex_start_is_requested_from_the_api_version_that_supports_it() {
    Place::new().check(&["flex_start"]);
}

#[test]
fn operations_may_fail_after_they_start() {
    let place = Place::new();
    place.double.state().instances = heads();
    place.double.state().nodes = nodes();
    place.double.state().failing_operations = Some("in use by another".into());
    place.check(&["operations_that_fail"]);
}

#[test]
fn images_and_tags_are_listed() {
    let place = Place::new();
    let image =
        |name, digest, tags: &[&str], at| registry::image("us-central2/marin", name, digest, tags, at);
    place.double.state().images = vec![
        image("marin_cluster", "0a", &["20261101"], "2026-11-01T08:00:00Z"),
        image("marin_cluster", "0b", &["20261120", "latest"], "2026-11-20T08:00:00.5Z"),
        image("marin_cluster", "0c", &[], "2026-11-10T08:00:00Z"),
        image("marin_vllm", "0d", &["latest"], "2026-11-20T08:00:00Z"),
    ];
    place.double.state().page = 3;
    place.check(&["registry"]);
}

#[test]
fn repositories_are_created_and_given_policies() {
    let place = Place::new();
    place.double.state().page = 1;
    place.check(&["repositories"]);
    assert_eq!(place.double.state().repositories.len(), 2);
}

#[test]
fn permissions_are_tested_for_a_project() {
    let place = Place::new();
    place.double.state().denied.insert("tpu.nodes.delete".into());
    place.check(&["permissions"]);
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
        let place = Place::new();
        let fault = Fault::Refuse { code, status, reason, message: "as Google says" };
        place.double.fail("projects", fault);
        place.check(&["refused", &code.to_string()]);
    }
}
