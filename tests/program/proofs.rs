//! An operation checks each resource right before it deletes it: after a confirmation, in a resumed operation, and when
//! somebody else has started a head in the meantime. Against a Google and heads behind SSH.

use crate::cloud_fixture::{CloudFixture, WORKER, ZONE, labels};
use crate::until::until;
use marin_tui::demo::google::{Fault, PROJECT, compute, managed, tpu};
use marin_tui::demo::{self, FaultRule};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Asserts that each deleted resource was read by its own address before.
fn assert_read_before_deletion(fixture: &CloudFixture) {
    let all = fixture.double.requests();
    for (at, request) in all.iter().enumerate().filter(|(_, r)| r.starts_with("DELETE")) {
        let address = request.trim_start_matches("DELETE ").split('?').next().unwrap();
        let last = address.rsplit('/').next().unwrap();
        let is_read = |r: &String| r.starts_with("GET") && r.split('?').next().unwrap().ends_with(last);
        assert!(request.contains("instanceGroups") || all[..at].iter().any(is_read), "{request}: {all:#?}");
    }
}

/// A queued resource of two TPU VMs: the first is idle, and another person's job runs on the host of the second.
fn with_two_slices(jobs: usize) -> CloudFixture {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = jobs);
    let queued = format!("projects/{PROJECT}/locations/{ZONE}/queuedResources/ms");
    let node = |name: &str, host: &str| {
        let mut node = tpu::node(ZONE, name, "v4-8", "READY", &labels("unmanaged"), &[host]);
        node["queuedResource"] = json!(queued);
        node
    };
    let spec = json!({"multisliceParams": {"nodeCount": 2, "nodeIdPrefix": "ms"},
        "node": {"acceleratorType": "v4-8", "labels": labels("unmanaged")}});
    fixture.double.state().nodes = vec![node("ms-0", "10.128.9.9"), node("ms-1", WORKER)];
    fixture.double.state().queued = vec![json!({"name": queued, "createTime": "2026-11-20T08:00:00Z",
        "state": {"state": "ACTIVE"}, "tpu": {"nodeSpec": [spec]}})];
    fixture
}

#[test]
fn one_slice_of_a_request_cannot_be_removed_alone() {
    let fixture = with_two_slices(5);
    for word in ["ms-0", "10.128.9.9"] {
        let (code, _, said) = fixture.run(&format!("remove-worker {word} --now --others --yes"));
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("queued resource ms (ms-0, ms-1)"), "{said}");
        assert!(said.contains("remove-worker ms"), "{said}");
    }
    // Its own name selects all of it: jobs on any of its hosts block the removal.
    assert_eq!(fixture.refused("remove-worker ms --yes").0, "worker-busy");
    assert_eq!(fixture.refused("remove-worker ms --now --yes").0, "others-jobs");
    assert_eq!(fixture.deletions(), Vec::<String>::new());
    let removing = fixture.spawn("remove-worker ms --now --others --yes");
    until("google has deleted both", || fixture.double.state().nodes.is_empty());
    let head = &fixture.heads[0].0;
    assert!(head.kill_node(head.nodes()[1]));
    let (code, _, said) = removing.finish();
    assert!(code == Some(0) && said.contains("queued resource ms: 2 TPU VMs with 2 hosts"), "{said}");
    assert_eq!(fixture.deletions().len(), 1);
    assert_read_before_deletion(&fixture);
}

#[test]
fn a_request_with_a_node_of_another_cluster_is_kept() {
    let fixture = with_two_slices(0);
    fixture.double.state().nodes[0]["labels"]["ray-cluster-name"] = json!("marin-b");
    for word in ["ms", "ms-1"] {
        let (code, _, said) = fixture.run(&format!("remove-worker {word} --now --others --yes"));
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("ms-0, which is labeled with marin-b"), "{said}");
    }
    let label = "/tpu/nodeSpec/0/node/labels/ray-cluster-name";
    *fixture.double.state().queued[0].pointer_mut(label).unwrap() = json!("marin-b");
    let (code, _, said) = fixture.run("remove-worker ms-1 --now --others --yes");
    assert!(code == Some(1) && said.contains("ms, which is labeled with marin-b"), "{said}");
    assert_eq!(fixture.deletions(), Vec::<String>::new());
}

/// A change that somebody else makes to a node before an interrupted removal is resumed; the name may then belong to
/// another node.
type Change = fn(&mut Value);

#[test]
fn a_resumed_removal_checks_the_node_again() {
    let unavailable = || Fault::Refuse { code: 503, status: "UNAVAILABLE", reason: "", message: "later" };
    let changes: [(&str, Change); 3] = [
        ("recreated", |node| node["id"] = json!("5")),
        ("recreated", |node| node["createTime"] = json!("2026-11-21T08:00:00Z")),
        ("its label ray-cluster-name is marin-b", |node| {
            node["labels"]["ray-cluster-name"] = json!("marin-b");
        }),
    ];
    for (words, change) in changes {
        let mut fixture = CloudFixture::new();
        fixture.head_of(|s| s.jobs = 0);
        let node = tpu::node(ZONE, "by-hand", "v4-8", "READY", &labels("unmanaged"), &[WORKER]);
        fixture.double.state().nodes = vec![node];
        fixture.double.fail_at("DELETE", "/nodes/", unavailable());
        let (code, _, said) = fixture.run("remove-worker by-hand --now --yes");
        assert!(code == Some(1) && said.contains("[2/3] failed"), "{said}");
        fixture.double.recover();
        change(&mut fixture.double.state().nodes[0]);
        let sent = fixture.deletions().len();
        let (code, _, said) = fixture.run("remove-worker --resume");
        assert!(code == Some(1) && said.contains(words) && said.contains("nothing was sent"), "{said}");
        assert_eq!((fixture.deletions().len(), fixture.double.state().nodes.len()), (sent, 1));
    }
}

fn stall(path: &str) -> Vec<FaultRule> {
    vec![FaultRule { path: path.into(), fault: demo::Fault::Stall }]
}

/// Adds a head that another operator has started, and a worker that it has created.
fn another_head(fixture: &CloudFixture) {
    let head = json!({"ray-node-type": "head", "ray-cluster-name": "marin-a"});
    let mut theirs = compute::instance(ZONE, "theirs", &head, "10.0.0.9", Some("34.0.0.9"));
    theirs["creationTimestamp"] = json!(jiff::Timestamp::now().to_string());
    // It is still staging: nobody connects to it yet.
    theirs["status"] = json!("STAGING");
    fixture.double.state().instances.push(theirs);
    let worker = tpu::node(ZONE, "their-worker", "v4-8", "READY", &labels("worker"), &["10.0.9.1"]);
    fixture.double.state().nodes.push(worker);
}

#[test]
fn a_head_started_after_the_first_check_is_not_touched() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    fixture.heads[0].0.set_faults(stall("/api/jobs/"));
    let mut restarting = fixture.spawn("restart-cluster --yes --others");
    restarting.wait_for("[3/9] save jobs");
    another_head(&fixture);
    fixture.heads[0].0.set_faults(Vec::new());
    let (code, _, said) = restarting.finish();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("(theirs, id "), "{said}");
    assert!(said.contains("it was not changed") && said.contains("--abandon"), "{said}");
    assert_eq!(fixture.deletions(), Vec::<String>::new());
    assert_eq!(fixture.calls(), ["--version"], "`ray down` is not run either");
}

/// The list contained the head, but the instance itself has another label.
#[test]
fn a_head_is_read_again_right_before_it_is_deleted() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let hold = Arc::new(Semaphore::new(0));
    fixture.double.fail_at("GET", "/zones/us-central2-b/instances/", Fault::Held(hold.clone()));
    let stopping = fixture.spawn("stop-cluster --yes --others");
    until("the head itself is read", || fixture.double.requests_with("zones/us-central2-b/instances/") > 0);
    fixture.double.state().instances[0]["labels"]["ray-cluster-name"] = json!("marin-b");
    hold.add_permits(1);
    let (code, _, said) = stopping.finish();
    assert!(code == Some(1) && said.contains("ray-cluster-name is marin-b"), "{said}");
    assert_eq!(fixture.deletions(), Vec::<String>::new());
}

/// Between the deletion of the head and that of its workers somebody starts the cluster again.
#[test]
fn workers_of_a_head_started_in_the_meantime_are_skipped() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let hold = Arc::new(Semaphore::new(0));
    fixture.double.fail_at("GET", "/zones/us-central2-b/instances/", Fault::Held(hold.clone()));
    let stopping = fixture.spawn("stop-cluster --yes --others");
    until("the head itself is read", || fixture.double.requests_with("zones/us-central2-b/instances/") > 0);
    another_head(&fixture);
    hold.add_permits(1);
    let (code, _, said) = stopping.finish();
    assert!(code == Some(1) && said.contains("another head has been started"), "{said}");
    assert_eq!(fixture.deletions().len(), 1, "only the original head was deleted");
    assert_read_before_deletion(&fixture);
    assert_eq!(fixture.double.state().nodes.len(), 1);
}

/// Workers without TPUs are instances of Compute Engine; `ray down` may have left them.
#[test]
fn workers_without_tpus_are_deleted_with_the_cluster() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let machine = |zone: &str, name: &str, cluster: &str, kind: &str| {
        let labels = json!({"ray-node-type": kind, "ray-cluster-name": cluster});
        compute::instance(zone, name, &labels, "10.0.0.2", None)
    };
    fixture.double.state().instances.extend([
        machine(ZONE, "cpu-1", "marin-a", "worker"),
        machine(ZONE, "cpu-2", "marin-a", "worker"),
        machine(ZONE, "theirs", "marin-b", "worker"),
        machine(ZONE, "by-hand", "marin-a", "unmanaged"),
        machine("europe-west4-a", "of-the-same-name", "marin-a", "worker"),
    ]);
    let id = |fixture: &CloudFixture, name: &str| {
        let state = fixture.double.state();
        let machine = state.instances.iter().find(|i| i["name"] == name).unwrap();
        machine["id"].as_str().unwrap().to_owned()
    };
    let denied = Fault::Refuse { code: 403, status: "PERMISSION_DENIED", reason: "", message: "no" };
    fixture.double.fail_at("DELETE", &format!("/instances/{}", id(&fixture, "cpu-2")), denied);
    let (code, _, said) = fixture.run("stop-cluster --yes --others");
    assert!(code == Some(1) && said.contains("cannot delete 1 VMs, including cpu-2"), "{said}");
    let names = |fixture: &CloudFixture| -> Vec<String> {
        let state = fixture.double.state();
        state.instances.iter().map(|i| i["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&fixture), ["cpu-2", "theirs", "by-hand", "of-the-same-name"]);
    fixture.double.recover();
    let (code, _, said) = fixture.run("stop-cluster --resume");
    assert!(code == Some(0) && said.contains("deleting 1 Compute Engine VMs"), "{said}");
    assert_eq!(names(&fixture), ["theirs", "by-hand", "of-the-same-name"]);
}

/// An instance of a group would be recreated if it were deleted individually.
#[test]
fn workers_of_an_instance_group_are_deleted_with_the_group() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let host = |name: &str, kind: &str| {
        compute::tpu_instance(ZONE, name, "tpu7x-standard-4t", &labels(kind), "10.7.0.1")
    };
    let slice = managed::manager(ZONE, "slice", "t", 2, true);
    let by_hand = managed::manager(ZONE, "by-hand", "t", 1, true);
    {
        let mut state = fixture.double.state();
        state.instances.extend([
            managed::made_by(host("slice-0", "worker"), &slice),
            managed::made_by(host("slice-1", "worker"), &slice),
            managed::made_by(host("by-hand-0", "unmanaged"), &by_hand),
            host("alone", "worker"),
        ]);
        state.managers = vec![slice, by_hand];
    }
    let (code, _, said) = fixture.run("stop-cluster --yes --others");
    assert!(code == Some(0) && said.contains("deleting 2 TPU VMs"), "{said}");
    let groups: Vec<String> =
        fixture.deletions().into_iter().filter(|d| d.contains("/instanceGroupManagers/")).collect();
    assert!(groups.len() == 1 && groups[0].contains("/instanceGroupManagers/slice"), "{groups:?}");
    assert_eq!(fixture.deletions().len(), 3, "the head, the group, and the instance without a group");
    assert_read_before_deletion(&fixture);
    let state = fixture.double.state();
    let left: Vec<&Value> = state.instances.iter().map(|i| &i["name"]).collect();
    assert_eq!(left, ["by-hand-0"]);
}

/// Its name and label are the same as those of the listed one.
#[test]
fn a_preempted_tpu_that_was_recreated_is_not_deleted() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let node = tpu::node(ZONE, "lost", "v4-8", "PREEMPTED", &labels("worker"), &[]);
    fixture.double.state().nodes = vec![node];
    let hold = Arc::new(Semaphore::new(0));
    fixture.double.fail_at("GET", "/nodes/lost", Fault::Held(hold.clone()));
    let cleaning = fixture.spawn("clean-preempted --yes");
    until("it is read once more", || fixture.double.requests_with("/nodes/lost") > 0);
    fixture.double.state().nodes[0]["createTime"] = json!("2026-11-21T08:00:00Z");
    hold.add_permits(1);
    let (_, out, said) = cleaning.finish();
    assert!(format!("{out}{said}").contains("recreated in the meantime"), "{out}{said}");
    assert_eq!(fixture.deletions(), Vec::<String>::new());
}

/// A worker that joins after the first check may run jobs, too.
#[test]
fn workers_that_join_between_the_check_and_the_stop_are_included() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let head = &fixture.heads[0].0;
    let worker = head.nodes()[1];
    head.set_faults(stall("/api/jobs/"));
    let mut restarting = fixture.spawn("restart-cluster --yes --others");
    restarting.wait_for("[3/9] save jobs");
    assert!(fixture.heads[0].0.join_node(worker, "10.128.7.7"));
    fixture.double.fail_at("DELETE", "/instances/", Fault::Html(503));
    fixture.heads[0].0.set_faults(Vec::new());
    let (_, _, said) = restarting.finish();
    assert!(said.contains("joined since the operation began: 10.128.7.7"), "{said}");
    let journal = fixture.home.path().join(".local/state/marin-tui/operations/marin-a.jsonl");
    let facts = std::fs::read_to_string(journal).unwrap();
    let last = facts.lines().rfind(|l| l.contains("\"facts\"")).unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    let workers = last["event"]["facts"]["workers"].as_array().unwrap();
    assert!(workers.contains(&json!("10.128.7.7")), "{last}");
}
