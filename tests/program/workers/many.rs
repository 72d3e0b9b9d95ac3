//! Removal of several workers, one after the other, after one confirmation.

use crate::cloud_fixture::{CloudFixture, ZONE, labels};
use crate::program::Ran;
use crate::until::until;
use marin_tui::demo::google::{Fault, PROJECT, tpu};
use marin_tui::model::JobStatus;
use serde_json::{Value, json};

/// Addresses of the simulated workers, as Ray has them.
const HOSTS: [&str; 4] = ["10.128.0.2", "10.128.0.3", "10.128.0.4", "10.128.0.5"];

impl CloudFixture {
    /// Adds workers outside the autoscaler with these names, each on its own host.
    fn by_hand(&self, names: &[&str]) {
        let one = |(name, host): (&&str, &&str)| {
            tpu::node(ZONE, name, "v4-8", "READY", &labels("unmanaged"), &[host])
        };
        self.double.state().nodes = names.iter().zip(&HOSTS).map(one).collect();
    }

    fn at_google(&self) -> Vec<String> {
        let nodes = self.double.state().nodes.clone();
        nodes.iter().map(|n| n["name"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
    }

    /// Makes Ray notice that the first of its live workers is gone.
    fn first_dies(&self) {
        let head = &self.heads[0].0;
        assert!(head.kill_node(head.nodes()[1]));
    }

    /// Waits until Google has deleted the worker of that name, the first live one in Ray, and lets Ray notice.
    fn goes(&self, name: &str) {
        until(name, || !self.at_google().contains(&name.to_owned()));
        self.first_dies();
    }
}

fn several() -> CloudFixture {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| (s.jobs, s.nodes) = (0, 5));
    fixture.by_hand(&["a", "b", "c"]);
    fixture
}

#[test]
fn several_workers_are_removed_one_after_the_other() {
    let fixture = several();
    let (code, out, said) = fixture.run("remove-worker a b c --dry-run --json");
    assert_eq!(code, Some(0), "{said}");
    let calls: Vec<Value> = serde_json::from_str(&out).unwrap();
    let urls: Vec<&str> =
        calls.iter().map(|c| c["url"].as_str().unwrap().rsplit('/').next().unwrap()).collect();
    assert_eq!(urls, ["a", "b", "c"], "{out}");
    assert!(HOSTS[..3].iter().all(|host| said.contains(host)) && said.contains("WORKER  HOSTS"), "{said}");
    assert_eq!(fixture.double.requests_with("DELETE"), 0);

    let mut removing = fixture.spawn("remove-worker a b c a --now --yes --json");
    removing.wait_for("a: waiting for Ray");
    assert_eq!(fixture.at_google(), ["b", "c"], "the next one waits");
    fixture.first_dies();
    removing.wait_for("b: waiting for Ray");
    assert_eq!(fixture.at_google(), ["c"]);
    fixture.first_dies();
    fixture.goes("c");
    let (code, out, said) = removing.finish();
    assert_eq!((code, fixture.at_google()), (Some(0), Vec::new()), "{said}");
    let row = |name: &str, i: usize| json!({"cluster": "marin-a", "worker": name, "hosts": [HOSTS[i]], "removed": true});
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), json!([row("a", 0), row("b", 1), row("c", 2)]));
    assert_eq!(fixture.deletions().len(), 3);
    let (_, log, _) = fixture.run("audit");
    assert!(log.contains("remove-worker a, b, c") && log.contains("done"), "{log}");
}

#[test]
fn a_removal_stops_at_the_first_failure_and_is_resumed_with_the_rest() {
    let fixture = several();
    let refuse = Fault::Refuse { code: 503, status: "UNAVAILABLE", reason: "", message: "try later" };
    fixture.double.fail_at("DELETE", "/nodes/b", refuse);
    let removing = fixture.spawn("remove-worker a b c --now --yes");
    fixture.goes("a");
    let (code, _, said) = removing.finish();
    assert!(code == Some(1) && said.contains("removed: a; remaining: b, c"), "{said}");
    assert!(said.contains("remove-worker --resume"), "{said}");
    assert_eq!(fixture.at_google(), ["b", "c"]);
    assert_eq!(fixture.refused("remove-worker c --now --yes").0, "interrupted");
    fixture.double.recover();
    let resuming = fixture.spawn("remove-worker --resume");
    fixture.goes("b");
    fixture.goes("c");
    let (code, _, said) = resuming.finish();
    assert_eq!((code, fixture.at_google()), (Some(0), Vec::new()), "{said}");
    let twice = fixture.deletions().iter().filter(|d| d.contains("/nodes/a")).count();
    assert_eq!(twice, 1, "{:?}", fixture.deletions());
}

#[test]
fn a_removal_that_was_killed_is_resumed() {
    let fixture = several();
    let mut removing = fixture.spawn("remove-worker a b c --now --yes");
    removing.wait_for("a: waiting for Ray");
    removing.child.kill().unwrap();
    removing.child.wait().unwrap();
    assert_eq!(fixture.at_google(), ["b", "c"]);
    let mut resuming = fixture.spawn("remove-worker --resume");
    resuming.wait_for("a: waiting for Ray");
    fixture.first_dies();
    fixture.goes("b");
    fixture.goes("c");
    let (code, _, said) = resuming.finish();
    assert_eq!((code, fixture.at_google()), (Some(0), Vec::new()), "{said}");
    assert_eq!(fixture.deletions().len(), 3);
}

#[test]
fn a_worker_that_was_recreated_since_is_not_removed() {
    let fixture = several();
    let mut removing = fixture.spawn("remove-worker a b --now --yes");
    removing.wait_for("a: waiting for Ray");
    {
        let mut state = fixture.double.state();
        let b = state.nodes.iter_mut().find(|n| n["name"].as_str().unwrap().ends_with("/b")).unwrap();
        (b["id"], b["createTime"]) = ("987654321".into(), "2026-11-23T00:00:00Z".into());
    }
    fixture.first_dies();
    let (code, _, said) = removing.finish();
    assert!(code == Some(1) && said.contains("b is no longer"), "{said}");
    assert!(said.contains("removed: a; remaining: b"), "{said}");
    assert_eq!(fixture.at_google(), ["b", "c"]);
    assert_eq!(fixture.deletions().len(), 1);
}

#[test]
fn a_job_that_starts_between_two_removals_keeps_its_worker() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| (s.jobs, s.nodes) = (7, 5));
    fixture.by_hand(&["a", "b", "c"]);
    let head = &fixture.heads[0].0;
    let jobs = head.submissions(JobStatus::Running);
    let turn = |status| jobs.iter().for_each(|job| assert!(head.turn_job(job, status)));
    turn(JobStatus::Pending);
    let mut removing = fixture.spawn("remove-worker a b c --now --yes");
    removing.wait_for("a: waiting for Ray");
    // Jobs of other people, which have not been allowed to end.
    turn(JobStatus::Running);
    fixture.first_dies();
    let (code, _, said) = removing.finish();
    assert!(code == Some(1) && said.contains("removed: a; remaining: b, c"), "{said}");
    assert!(said.contains("--others"), "{said}");
    assert_eq!(fixture.at_google(), ["b", "c"]);
    assert_eq!(fixture.deletions().len(), 1);
    // The same gate holds when it is resumed, until the job has ended.
    let (code, _, said) = fixture.run("remove-worker --resume");
    assert!(code == Some(1) && said.contains("--others"), "{said}");
    assert_eq!(fixture.at_google(), ["b", "c"]);
    turn(JobStatus::Succeeded);
    let resuming = fixture.spawn("remove-worker --resume");
    fixture.goes("b");
    fixture.goes("c");
    let (code, _, said) = resuming.finish();
    assert_eq!((code, fixture.at_google()), (Some(0), Vec::new()), "{said}");
}

#[test]
fn several_workers_are_drained_one_after_the_other() {
    let fixture = several();
    let draining = fixture.spawn("remove-worker a b --drain --yes");
    let (code, _, said) = draining.finish();
    assert_eq!(code, Some(0), "{said}");
    let at = |words: &str| said.find(words).unwrap_or_else(|| panic!("no `{words}` in {said}"));
    let first = at(&format!("a: {}: draining", HOSTS[0]));
    let gone = at("a: waiting for Ray to report it dead").max(at("b: 2 of 2"));
    assert!(first < gone && gone < at(&format!("b: {}: draining", HOSTS[1])), "{said}");
    assert_eq!(fixture.at_google(), ["c"]);
}

#[test]
fn jobs_of_all_workers_are_shown_and_must_be_allowed() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.nodes = 5);
    fixture.by_hand(&["a", "b", "c"]);
    let (reason, said) = fixture.refused("remove-worker a b c --yes");
    assert!(reason == "worker-busy" && said.contains("RUNS ON WORKER"), "{reason}: {said}");
    assert_eq!(fixture.refused("remove-worker a b c --now --yes").0, "others-jobs");
    assert_eq!(fixture.double.requests_with("DELETE"), 0);
    let removing = fixture.spawn("remove-worker a b c --now --others --yes --parallel 3");
    until("all are deleted in parallel", || fixture.at_google().is_empty());
    for _ in 0..3 {
        fixture.first_dies();
    }
    let (code, _, said) = removing.finish();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn workers_are_chosen_by_their_type_or_because_they_were_preempted() {
    let fixture = several();
    {
        let mut state = fixture.double.state();
        let node = |name: &str, kind: &str, now: &str, of: &str, host: usize| {
            tpu::node(ZONE, name, kind, now, &labels(of), &[HOSTS[host]])
        };
        state.nodes = vec![
            node("big", "v4-16", "READY", "unmanaged", 0),
            node("gone-1", "v4-8", "PREEMPTED", "unmanaged", 1),
            node("gone-2", "v4-16", "TERMINATED", "unmanaged", 2),
            node("of-autoscaler", "v4-16", "PREEMPTED", "worker", 3),
            tpu::node(
                ZONE,
                "others",
                "v4-16",
                "PREEMPTED",
                &json!({"ray-cluster-name": "b", "ray-node-type": "unmanaged"}),
                &[],
            ),
        ];
    }
    let planned = |words: &str| -> Vec<String> {
        let (code, out, said) = fixture.run(&format!("remove-worker {words} --dry-run --json"));
        assert_eq!(code, Some(0), "{words}: {said}");
        let calls: Vec<Value> = serde_json::from_str(&out).unwrap();
        calls.iter().map(|c| c["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
    };
    let spec =
        json!({"nodeId": "later", "node": {"acceleratorType": "v4-16", "labels": labels("unmanaged")}});
    fixture.double.state().queued = vec![json!({
        "name": format!("projects/{PROJECT}/locations/{ZONE}/queuedResources/later"),
        "createTime": "2026-11-20T08:00:00Z", "state": {"state": "WAITING_FOR_RESOURCES"}, "tpu": {"nodeSpec": [spec]}
    })];
    assert_eq!(planned("--type v4-16"), ["big", "gone-2"]);
    let (_, _, said) = fixture.run("remove-worker --type v4-16 --dry-run");
    let words = said.split("skipped: later: this request is still waiting for capacity; `").nth(1).unwrap();
    assert!(words.split('`').next().unwrap().ends_with(" -c marin-a remove-worker later"), "{said}");
    assert_eq!(planned("later"), ["later?force=true"]);
    assert_eq!(planned("--all-preempted"), ["gone-1", "gone-2"]);
    assert_eq!(planned("--all-preempted --type v4-8"), ["gone-1"]);
    assert_eq!(planned("--type v5p-8"), [""; 0]);
    let (code, out, said) = fixture.run("remove-worker --type v5p-8 --yes --json");
    assert_eq!((code, out.trim()), (Some(0), "[]"), "{said}");
    assert!(said.contains("of type v5p-8"), "{said}");
    assert_eq!(fixture.refused("--read-only remove-worker --type v4-16 --yes").0, "read-only");
}

#[test]
fn errors_in_a_list_of_workers_are_reported_before_anything_is_done() {
    let fixture = several();
    let (code, _, said) = fixture.run(&format!("remove-worker a {} --now --yes", HOSTS[0]));
    assert!(code == Some(1) && said.contains("a and 10.128.0.2 are the same worker"), "{said}");
    let (code, _, said) = fixture.run("remove-worker a nobody c --now --yes");
    assert!(code == Some(1) && said.contains("named nobody"), "{said}");
    let (code, _, said) = fixture.run("remove-worker a 127.0.0.11 --now --yes");
    assert!(code == Some(1) && said.contains("named 127.0.0.11"), "{said}");
    let spaced = fixture.command("remove-worker --now --yes").args(["a b", "c"]).output().unwrap();
    let Ran { code, err, .. } = Ran::of(&spaced);
    assert!(code == Some(1) && err.contains("named a b"), "{err}");
    for wrong in [
        "a --type v4-8",
        "--all-preempted a",
        "a --parallel 0",
        "a b --drain --drain",
        "",
        "--type v4-8 --resume",
        "a --now --others --resume",
        "a --abandon",
        "--drain --within 1h --resume",
        "--parallel 2 --resume",
    ] {
        let (code, _, said) = fixture.run(&format!("remove-worker {wrong} --yes"));
        assert_eq!(code, Some(2), "{wrong}: {said}");
    }
    assert_eq!(fixture.double.requests_with("DELETE"), 0);
}
