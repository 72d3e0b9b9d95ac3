//! TPUs and queued resources: listing, and deletion until the operation is done.

use super::client;
use marin_tui::demo::google::compute::instance;
use marin_tui::demo::google::{Fault, Google as Double, PROJECT, tpu};
use marin_tui::gcp::{ChosenQueued, ChosenTpu, GcpError, Role, TpuApi, TpuLocation};
use marin_tui::model::cloud::{Capacity, QueuedState, VmState};
use marin_tui::model::{Cleaned, Timestamp, leftovers};
use serde_json::json;

fn location() -> TpuLocation {
    TpuLocation { project: PROJECT.into(), zone: "us-central2-b".into(), cluster: "a".into() }
}

#[tokio::test]
async fn deletions_are_polled_until_done() {
    let double = Double::start().await.unwrap();
    let labels = json!({"ray-node-type": "head", "ray-cluster-name": "a"});
    double.state().instances = vec![instance("us-central2-b", "h", &labels, "10.0.0.1", None)];
    double.state().nodes = vec![tpu::node("us-central2-b", "n", "v4-8", "PREEMPTED", &labels, &[])];
    let google = client(&double);
    let head = google.machines(PROJECT, Role::Head, None).await.unwrap().found.remove(0);
    let vm = ChosenTpu::from(&google.tpus_of_kind(&location(), "head").await.unwrap()[0]);
    let head = async || google.machine_deletion(&location(), Role::Head, &head).await.unwrap().unwrap();
    let vm = async || google.tpu_deletion_of(&location(), None, &vm).await.unwrap().unwrap();
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
    assert!(double.requests_with("/operations/") >= 8, "{:?}", double.requests());
    let gone = google.execute(&of_head).await;
    assert!(matches!(gone, Err(GcpError::NotFound { .. })), "{gone:?}");
}

/// If anything differs from the selection, no deletion is built.
#[tokio::test]
async fn a_deletion_is_built_only_for_the_selected_machine() {
    let double = Double::start().await.unwrap();
    let labels = json!({"ray-node-type": "head", "ray-cluster-name": "a"});
    let machine = instance("us-central2-b", "h", &labels, "10.0.0.1", None);
    double.state().instances = vec![machine.clone()];
    let google = client(&double);
    let chosen = google.machines(PROJECT, Role::Head, Some("a")).await.unwrap().found.remove(0);
    let ask = async || google.machine_deletion(&location(), Role::Head, &chosen).await;
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
        let error = ask().await.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("nothing was sent"), "{error}");
    }
    // Another machine of the same name has another id.
    let mut other = machine.clone();
    other["id"] = json!("123");
    double.state().instances = vec![other];
    assert_eq!(ask().await.unwrap(), None);
    assert_eq!(double.requests_with("DELETE"), 0);
}

/// Cloud TPU deletes by name, and a queued resource together with all its nodes.
#[tokio::test]
async fn a_recreated_tpu_or_one_with_other_nodes_is_not_deleted() {
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
    let all = async || google.queued_deletion_of(&location(), &chosen).await;
    let one = async || google.tpu_deletion_of(&location(), Some("worker"), &vms[0]).await;
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
        for error in [one().await.unwrap_err(), all().await.unwrap_err()] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    double.state().nodes = vec![with(&|n| n["labels"]["ray-node-type"] = json!("unmanaged"))];
    assert!(one().await.unwrap_err().to_string().contains("ray-node-type"));
    double.state().nodes = vec![first.clone(), second.clone(), node("late", "a")];
    assert!(all().await.unwrap_err().to_string().contains("holds late"));
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
    assert!(all().await.unwrap_err().to_string().contains("ray-cluster-name is b"));
    double.state().queued.clear();
    assert_eq!(all().await.unwrap(), None);
    assert_eq!(double.requests_with("DELETE"), 0);
}

#[tokio::test]
async fn a_deletion_is_not_verified_by_an_incomplete_list() {
    let double = Double::start().await.unwrap();
    let labels = json!({"ray-cluster-name": "a", "ray-node-type": "worker"});
    double.state().nodes = vec![tpu::node("us-central2-b", "n", "v4-8", "PREEMPTED", &labels, &[])];
    let google = client(&double);
    let view = google.tpus(PROJECT, "us-central2-b", Timestamp::from_millis(1)).await.unwrap();
    let body = r#"{"unreachable": ["projects/hai-test/locations/us-central2-b"]}"#;
    double.fail("/queuedResources", Fault::Recorded { code: 200, body });
    let done = google.clean(&location(), leftovers("a", &view), |_, _| {}).await;
    assert!(double.state().nodes.is_empty());
    let [(_, Cleaned::Failed { what, .. })] = done.as_slice() else { panic!("{done:?}") };
    assert!(what.contains("could not be verified: Google could not list everything"), "{what}");
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
    let location = (PROJECT, "us-central2-b");
    let refused = google.execute(&google.queued_request(TpuApi::V2, location, "q1", best.clone())).await;
    assert!(matches!(refused, Err(GcpError::Refused { code: 400, .. })), "{refused:?}");
    google.execute(&google.queued_request(TpuApi::V2Alpha1, location, "q1", best.clone())).await.unwrap();
    let mut many = spec(json!({"multiNodeParams": {"nodeCount": 2, "nodeIdPrefix": "s"}}));
    many["guaranteed"] = json!({"reserved": true});
    google.execute(&google.queued_request(TpuApi::V2Alpha1, location, "q2", many.clone())).await.unwrap();

    let view = google.tpus(PROJECT, "us-central2-b", now).await.unwrap();
    let [n1, n2] = view.vms.as_slice() else { panic!("{:?}", view.vms) };
    assert_eq!((n1.state, n1.hosts.len(), n1.capacity), (VmState::Preempted, 2, Capacity::Preemptible));
    assert_eq!(n1.ray_type, Some("tpu_worker".into()));
    assert_eq!(n2.unhealthy, Some("UNHEALTHY_MAINTENANCE".into()));
    let [q1, q2] = view.queued.as_slice() else { panic!("{:?}", view.queued) };
    assert_eq!((q1.state, q1.capacity), (QueuedState::Waiting, Capacity::BestEffort));
    assert_eq!((q2.capacity, q2.nodes.clone()), (Capacity::Reserved, vec!["s-0".into(), "s-1".into()]));
    assert!(view.complete && view.queried == now);
    assert_eq!(google.tpus(PROJECT, "-", now).await.unwrap().vms[2].state, VmState::Unknown);

    let chosen = ChosenQueued { name: "q1".into(), created: q1.created, vms: Vec::new() };
    let deletion = google.queued_deletion_of(&self::location(), &chosen).await.unwrap().unwrap();
    google.execute(&deletion).await.unwrap();
    assert_eq!(double.state().queued.len(), 1);
}
