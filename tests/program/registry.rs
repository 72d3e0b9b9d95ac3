//! `marin-tui registry cleanup-policy` against a simulated Artifact Registry.

use crate::program::{Ran, program};
use crate::transcript::Transcript;
use marin_tui::demo::google::{Fault, Google as Double, PROJECT, registry};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The directory that ships, and a Google with repositories in these regions.
struct Fixture {
    _runtime: Runtime,
    home: TempDir,
    double: Double,
}

impl Fixture {
    fn new(regions: &[&str]) -> Self {
        let runtime = Runtime::new().unwrap();
        let double = runtime.block_on(Double::start()).unwrap();
        let home = tempfile::tempdir().unwrap();
        double.write_adc(home.path()).unwrap();
        let fixture = Self { _runtime: runtime, home, double };
        fs::create_dir(fixture.file("infra")).unwrap();
        let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/infra");
        for entry in fs::read_dir(ours).unwrap().flatten().filter(|e| e.path().is_file()) {
            let text = fs::read_to_string(entry.path()).unwrap().replace("hai-gcp-models", PROJECT);
            fs::write(fixture.file("infra").join(entry.file_name()), text).unwrap();
        }
        let settings = format!("google_endpoint: {}\n", fixture.double.url());
        fs::write(fixture.file("config.yaml"), settings).unwrap();
        let made = |region: &&str| registry::repository(PROJECT, &format!("{region}/marin"));
        fixture.double.state().repositories = regions.iter().map(made).collect();
        fixture
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn run(&self, words: &str) -> Ran {
        let mut command = program(self.home.path());
        command.args(["registry", "cleanup-policy"]).args(words.split_whitespace());
        command.arg("--config").arg(self.file("config.yaml")).arg("--infra").arg(self.file("infra"));
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.file("adc.json"));
        Ran::of(&command.output().unwrap())
    }

    /// An empty transcript.
    fn transcript(&self) -> Transcript {
        Transcript::new(self.home.path())
    }

    /// Runs a command and adds its output to the transcript.
    fn shows(&self, shown: &mut Transcript, words: &str) -> Ran {
        let ran = self.run(words);
        shown.add(&format!("registry cleanup-policy {words}"), &ran);
        ran
    }

    /// The entries of the audit log.
    fn audit(&self) -> Vec<Value> {
        let ran = Ran::of(&program(self.home.path()).args(["audit", "--json"]).output().unwrap()).exits(0);
        ran.json().as_array().unwrap().clone()
    }

    /// A repository as stored by Google.
    fn repository(&self, region: &str) -> Value {
        let state = self.double.state();
        let here = format!("/{region}/");
        state.repositories.iter().find(|r| r["name"].as_str().unwrap().contains(&here)).unwrap().clone()
    }

    fn policies(&self, region: &str) -> Vec<String> {
        let repository = self.repository(region);
        repository["cleanupPolicies"].as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default()
    }

    fn change(&self, region: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.double.state();
        let here = format!("/{region}/");
        change(state.repositories.iter_mut().find(|r| r["name"].as_str().unwrap().contains(&here)).unwrap());
    }
}

#[test]
fn policies_are_shown_confirmed_set_and_read_again() {
    let fixture = Fixture::new(&["us-central2"]);
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "--region us-central2 --dry-run").exits(0);
    fixture.shows(&mut shown, "--region us-central2").exits(1);
    shown.is("policies_to_be_set");
    assert!(fixture.policies("us-central2").is_empty());
    let set = fixture.run("--region us-central2 --yes").good();
    assert!(set.ends_with(&format!("us-central2-docker.pkg.dev/{PROJECT}/marin: set\n")), "{set}");
    assert_eq!(fixture.policies("us-central2"), ["delete-older-than-30d", "keep-16"]);
    assert_eq!(
        fixture.repository("us-central2")["cleanupPolicies"]["keep-16"]["mostRecentVersions"]["keepCount"],
        16
    );
    // A second run has nothing to do and needs no confirmation.
    let before = fixture.double.requests_with("PATCH");
    let again = fixture.run("--region us-central2").good();
    assert!(again.ends_with(": unchanged\n") && again.lines().count() == 1, "{again}");
    assert_eq!(fixture.double.requests_with("PATCH"), before);
}

#[test]
fn policies_of_others_stay_and_ours_are_replaced() {
    let fixture = Fixture::new(&["us-central2"]);
    let theirs = json!({"id": "untagged", "action": "DELETE", "condition": {"tagState": "UNTAGGED"}});
    fixture.change("us-central2", |r| r["cleanupPolicies"] = json!({"untagged": theirs}));
    fixture.run("--region us-central2 --yes").good();
    fixture.run("--region us-central2 --yes --older-than 60d --keep 8").good();
    assert_eq!(fixture.policies("us-central2"), ["delete-older-than-60d", "keep-8", "untagged"]);
    assert_eq!(fixture.repository("us-central2")["cleanupPolicies"]["untagged"], theirs);
    // Google allows ten policies.
    let many: serde_json::Map<String, Value> =
        (0..9).map(|n| (format!("p{n}"), json!({"id": format!("p{n}"), "action": "KEEP"}))).collect();
    fixture.change("us-central2", |r| r["cleanupPolicies"] = many.into());
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "--region us-central2 --yes").exits(1);
    shown.is("more_policies_than_google_allows");
    for wrong in ["--older-than 0d", "--older-than 60", "--older-than soon", "--keep 0"] {
        assert_eq!(fixture.run(&format!("--region us-central2 {wrong}")).code, Some(2), "{wrong}");
    }
}

#[test]
fn a_dry_run_of_policies_is_reported_and_ended_only_on_request() {
    let fixture = Fixture::new(&["us-central2"]);
    fixture.change("us-central2", |r| r["cleanupPolicyDryRun"] = true.into());
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "--region us-central2 --yes").exits(0);
    shown.is("policies_on_trial");
    assert_eq!(fixture.repository("us-central2")["cleanupPolicyDryRun"], true);
    let enforced = fixture.run("--region us-central2 --yes --enforce --json").exits(0).json();
    assert_eq!((&enforced[0]["outcome"], &enforced[0]["dry_run"]), (&json!("set"), &json!(false)));
    assert!(fixture.repository("us-central2")["cleanupPolicyDryRun"].is_null());
    assert_eq!(fixture.run("--region us-central2 --enforce --json").json()[0]["outcome"], "unchanged");
    let audit = fixture.audit();
    assert!(
        audit.iter().all(|line| line["cluster"].as_str().unwrap().starts_with("us-central2-docker.pkg.dev/"))
    );
    assert_eq!(
        audit.last().unwrap()["action"],
        "registry cleanup-policy: delete images older than 30 days, keep 16"
    );
    assert_eq!(audit.last().unwrap()["outcome"], "set");
}

#[test]
fn each_registry_has_its_outcome_and_its_hint() {
    let fixture = Fixture::new(&["us-central2", "us-east5", "us-west4"]);
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "").exits(1);
    fixture.shows(&mut shown, "--region us-central").exits(1);
    fixture.double.fail_at(
        "PATCH",
        "us-east5",
        Fault::Recorded { code: 403, body: r#"{"error": {"code": 403, "message": "Permission 'artifactregistry.repositories.update' denied on resource 'r' (or it may not exist).", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "IAM_PERMISSION_DENIED", "domain": "artifactregistry.googleapis.com", "metadata": {"permission": "artifactregistry.repositories.update"}}]}}"# },
    );
    let ran = fixture.shows(&mut shown, "--all --yes --json").exits(1);
    let rows = ran.json();
    let of = |region: &str| {
        let rows = rows.as_array().unwrap();
        rows.iter().find(|row| row["registry"].as_str().unwrap().starts_with(region)).unwrap().clone()
    };
    assert_eq!(of("us-central2")["outcome"], "set");
    assert_eq!(of("us-central2")["after"].as_object().unwrap().len(), 2);
    let denied = of("us-east5");
    assert_eq!(denied["outcome"], "failed");
    assert_eq!(of("us-east1")["outcome"], "failed", "the repository does not exist");
    assert!(fixture.policies("us-east5").is_empty() && fixture.policies("us-west4").len() == 2);
    fixture.shows(&mut shown, "--all --read-only").exits(1);
    fixture.shows(&mut shown, "--region us-west4 --dry-run --read-only").exits(0);
    shown.is("repositories_that_differ");
}

#[test]
fn an_image_in_use_that_would_be_deleted_is_named_first() {
    let fixture = Fixture::new(&["us-central2"]);
    let image = |digest: &str, tags: &[&str], at: &str| {
        registry::image("us-central2/marin", "marin_cluster", digest, tags, at)
    };
    fixture.double.state().images = vec![
        image("0a", &["latest"], "2020-01-01T08:00:00Z"),
        image("0b", &["20260101"], "2026-01-01T08:00:00Z"),
    ];
    let said = fixture.run("--region us-central2 --dry-run").exits(0).err;
    assert!(!said.contains("warning: "), "no warning: {said}");
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "--region us-central2 --dry-run --keep 1").exits(0);
    shown.is("an_image_in_use_that_would_be_deleted");
}
