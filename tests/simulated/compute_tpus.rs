//! TPUs created with Compute Engine, against the simulated services: what is read about them, and that only the
//! selected resources are deleted.

use marin_tui::demo::google::compute::{instance, tpu_instance};
use marin_tui::demo::google::managed::{made_by, manager, resize, template};
use marin_tui::demo::google::{Fault, Google as Double, PROJECT, tpu};
use marin_tui::gcp::{ChosenTpu, Endpoints, GcpError, Google, Login, TpuLocation, credentials};
use marin_tui::model::cloud::{Capacity, CloudView, TpuVm, VmState};
use marin_tui::model::{Cleaned, Text, Timestamp, leftovers};
use marin_tui::reconcile::{TpuStatus, reconcile};
use serde_json::{Value, json};

const ZONE: &str = "us-central1-c";
const TPU7X: &str = "tpu7x-standard-4t";

fn client(double: &Double) -> Google {
    let dir = tempfile::tempdir().unwrap();
    let file = double.write_adc(dir.path()).unwrap();
    let grant: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let login = Login::by(move || credentials::user_account::Builder::new(grant.clone()).build());
    Google::new(Endpoints::all_at(&double.url()), login)
}

fn location() -> TpuLocation {
    TpuLocation { project: PROJECT.into(), zone: ZONE.into(), cluster: "a".into() }
}

fn labels(cluster: &str) -> Value {
    json!({"ray-cluster-name": cluster, "ray-node-type": "unmanaged", "ray-user-node-type": "tpu_slice"})
}

fn stopped(mut instance: Value) -> Value {
    instance["status"] = json!("TERMINATED");
    instance
}

/// A slice of two `TPU7x` hosts in a group; `with` changes the instances.
fn slice(name: &str, with: impl Fn(usize, Value) -> Value) -> (Value, Vec<Value>) {
    let group = manager(ZONE, name, "template", 2, true);
    let host = |n: usize| {
        let instance =
            tpu_instance(ZONE, &format!("{name}-{n}"), TPU7X, &labels("a"), &format!("10.7.0.{n}"));
        with(n, made_by(instance, &group))
    };
    let hosts = (0..2).map(host).collect();
    (group, hosts)
}

async fn view(google: &Google) -> CloudView {
    google.tpus(PROJECT, ZONE, Timestamp::from_millis(1)).await.unwrap()
}

fn named<'a>(view: &'a CloudView, name: &str) -> &'a TpuVm {
    view.vms.iter().find(|vm| vm.name.raw() == name).unwrap_or_else(|| panic!("no {name}: {:?}", view.vms))
}

#[tokio::test]
async fn resize_requests_are_shown_beside_the_instances_of_a_group() {
    let double = Double::start().await.unwrap();
    let member = |group: &Value| made_by(tpu_instance(ZONE, "m-0", TPU7X, &labels("a"), "10.7.1.1"), group);
    let (many, mut empty) =
        (manager(ZONE, "many", "template", 3, false), manager(ZONE, "empty", "template", 4, false));
    empty["status"]["isStable"] = json!(false);
    let (whole, hosts) = slice("whole", |_, host| host);
    {
        let mut state = double.state();
        state.instances = vec![member(&many)];
        state.instances.extend(hosts);
        state.templates = vec![template("template", TPU7X, &labels("a"))];
        state.managers = vec![many, empty, whole];
        state.resizes = vec![
            resize(ZONE, "many", "old", 1, ("SUCCEEDED", None)),
            resize(ZONE, "many", "taken-back", 1, ("CANCELLED", None)),
            resize(ZONE, "many", "queued", 2, ("ACCEPTED", Some("no capacity in the zone"))),
            resize(ZONE, "many", "refused", 1, ("FAILED", Some("no quota"))),
            resize(ZONE, "many", "new", 1, ("STRANGE", None)),
            resize(ZONE, "empty", "first", 4, ("ACCEPTED", None)),
        ];
        state.page = 1;
    }
    let google = client(&double);
    let seen = view(&google).await;
    assert!(seen.is_whole(), "{:?}", seen.unlisted);
    // The request of a group without instances is shown, and deleted, as the group.
    let waiting = named(&seen, "empty");
    assert_eq!((waiting.state, waiting.api_state.raw(), waiting.chips()), (VmState::Waiting, "ACCEPTED", 16));
    let words = "resize request first for 4 instances is ACCEPTED";
    assert_eq!(waiting.unhealthy.as_ref().map(Text::raw), Some(words));
    let rows = reconcile("a", &seen, None, Timestamp::from_millis(1));
    let row = |name: &str| rows.iter().find(|row| row.name.raw() == name);
    let shown = |name: &str| row(name).map(|r| (r.status, r.chips, r.note.as_ref().unwrap().raw()));
    let expected = "resize request queued for 2 instances is ACCEPTED: no capacity in the zone";
    assert_eq!(shown("many/queued"), Some((TpuStatus::Waiting, 8, expected)));
    assert!(row("many/queued").unwrap().created.is_some());
    let expected = "resize request refused for 1 instance is FAILED: no quota";
    assert_eq!(shown("many/refused"), Some((TpuStatus::Refused, 4, expected)));
    assert_eq!(shown("many/new").map(|t| t.0), Some(TpuStatus::Unknown));
    assert!(row("many/old").is_none() && row("many/taken-back").is_none() && row("empty/first").is_none());
    // None of them is a leftover.
    assert!(leftovers("a", &seen).is_empty());
    // A bulk group has no resize requests, nor has a group for which the list is rejected.
    assert_eq!(double.requests_with("whole/resizeRequests"), 0);
    let refuse = Fault::Refuse { code: 400, status: "", reason: "invalid", message: "not for TPUs" };
    double.fail("resizeRequests", refuse);
    let seen = view(&google).await;
    assert!(seen.is_whole() && seen.resizes.is_empty(), "{seen:?}");
    // Another error does not hide the instances.
    double.recover();
    let message = "Required 'compute.instanceGroupManagers.get' permission";
    let refuse = Fault::Refuse { code: 403, status: "PERMISSION_DENIED", reason: "forbidden", message };
    double.fail("resizeRequests", refuse);
    let seen = view(&google).await;
    assert_eq!((named(&seen, "m-0").state, named(&seen, "empty").state), (VmState::Ready, VmState::Waiting));
    assert!(seen.unlisted.unwrap().raw().contains("instanceGroupManagers.get") && seen.resizes.is_empty());
}

#[tokio::test]
async fn running_heads_of_the_zone_are_listed() {
    let double = Double::start().await.unwrap();
    let head = |zone: &str, name: &str| {
        let labels = json!({"ray-node-type": "head", "ray-cluster-name": "a"});
        instance(zone, name, &labels, "10.0.0.1", None)
    };
    let ended = stopped(head(ZONE, "h2"));
    double.state().instances = vec![head(ZONE, "h1"), ended, head("us-east5-a", "h3")];
    let heads = view(&client(&double)).await.heads;
    let seen: Vec<_> = heads.iter().map(|h| (h.name.raw(), h.cluster.raw(), h.zone.raw())).collect();
    assert_eq!(seen, [("h1", "a", ZONE)]);
    assert_eq!(heads[0].address.as_ref().map(marin_tui::model::Text::raw), Some("10.0.0.1"));
}

#[tokio::test]
async fn groups_and_instances_are_listed_with_the_nodes_of_cloud_tpu() {
    let double = Double::start().await.unwrap();
    {
        let mut state = double.state();
        state.nodes =
            vec![tpu::node(ZONE, "v5p", "v5p-16", "READY", &labels("a"), &["10.5.0.1", "10.5.0.2"])];
        let (ironwood, hosts) = slice("ironwood", |n, mut host| {
            host["lastStartTimestamp"] = json!(format!("2026-11-21T0{n}:00:00.000-08:00"));
            host
        });
        state.instances = hosts;
        state.instances.push(stopped(tpu_instance(
            ZONE,
            "alone",
            "ct6e-standard-8t",
            &labels("a"),
            "10.6.0.1",
        )));
        let mut flex = tpu_instance(ZONE, "flex", "ct5p-hightpu-4t", &labels("a"), "");
        (flex["status"], flex["scheduling"]) = (json!("PENDING"), json!({"provisioningModel": "FLEX_START"}));
        state.instances.push(flex);
        state.instances.push(tpu_instance("us-east5-a", "elsewhere", TPU7X, &labels("a"), "10.8.0.1"));
        state.instances.push(tpu_instance(ZONE, "no-tpu", "n2-standard-8", &labels("a"), "10.9.0.1"));
        let many = manager(ZONE, "many", "template", 1, false);
        state.instances.push(made_by(tpu_instance(ZONE, "many-0", TPU7X, &labels("a"), "10.7.1.1"), &many));
        let mut coming = manager(ZONE, "coming", "template", 4, true);
        coming["status"] = json!({"isStable": false, "bulkInstanceOperation": {"inProgress": true,
            "lastProgressCheck": {"error": {"errors": [{"code": "STOCKOUT", "message": "no capacity"}]}}}});
        let mut of_others = manager(ZONE, "gke", "other", 3, false);
        of_others["status"]["isStable"] = json!(false);
        state.managers = vec![ironwood, many, coming, of_others];
        state.templates =
            vec![template("template", TPU7X, &labels("a")), template("other", "n2-standard-8", &json!({}))];
        state.page = 2;
    }
    let google = client(&double);
    let view = view(&google).await;
    assert!(view.is_whole());
    let vms: Vec<_> = view
        .vms
        .iter()
        .map(|vm| {
            (
                vm.name.raw(),
                vm.kind().label(),
                vm.accelerator_type.raw(),
                vm.chips(),
                vm.state,
                vm.hosts.len(),
            )
        })
        .collect();
    let expected = [
        ("v5p", "TPU VM", "v5p-16", 8, VmState::Ready, 2),
        ("alone", "instance", "v6e-8", 8, VmState::Preempted, 1),
        ("flex", "instance", "v5p-8", 4, VmState::Waiting, 1),
        ("ironwood", "instance group", "tpu7x-16", 8, VmState::Ready, 2),
        ("many-0", "instance", "tpu7x-8", 4, VmState::Ready, 1),
        ("coming", "instance group", "tpu7x-32", 16, VmState::Waiting, 0),
    ];
    assert_eq!(vms, expected);
    let ironwood = named(&view, "ironwood");
    assert_eq!(ironwood.hosts, ["10.7.0.0".into(), "10.7.0.1".into()]);
    assert_eq!((ironwood.capacity, ironwood.ray_type.clone()), (Capacity::Spot, Some("tpu_slice".into())));
    // The second host started at 01:00; the request is older.
    let started = "2026-11-21T09:00:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!(ironwood.started, Some(Timestamp::from_millis(started)));
    assert!(ironwood.created < ironwood.started && named(&view, "flex").started.is_none());
    assert_eq!(named(&view, "flex").capacity, Capacity::FlexStart);
    assert_eq!(named(&view, "coming").unhealthy, Some("no capacity".into()));
    assert!(view.vms.iter().all(|vm| vm.ray_cluster == Some("a".into())));
    // The template is read only for groups without all their instances.
    assert_eq!(double.requests_with("instanceTemplates"), 2);
}

#[tokio::test]
async fn a_slice_with_a_missing_host_is_unhealthy_but_not_preempted() {
    let double = Double::start().await.unwrap();
    let (group, mut hosts) = slice("s", |n, host| if n == 1 { stopped(host) } else { host });
    double.state().managers = vec![group];
    double.state().instances = hosts.clone();
    let google = client(&double);
    let seen = view(&google).await;
    let s = named(&seen, "s");
    assert_eq!((s.state, s.unhealthy.clone()), (VmState::Ready, Some("1 of 2 instances are up".into())));
    assert!(leftovers("a", &seen).is_empty());
    double.state().instances.pop();
    let seen = view(&google).await;
    assert_eq!(named(&seen, "s").hosts, ["10.7.0.0".into(), "".into()], "a missing host keeps its position");
    hosts[1]["labels"] = labels("b");
    double.state().instances = hosts;
    let seen = view(&google).await;
    assert_eq!(named(&seen, "s").ray_cluster, None, "a slice labelled for two clusters belongs to none");
}

#[tokio::test]
async fn an_error_of_compute_engine_does_not_hide_cloud_tpu_nodes() {
    let double = Double::start().await.unwrap();
    double.state().nodes = vec![tpu::node(ZONE, "n", "v4-8", "READY", &labels("a"), &["10.1.0.1"])];
    let fault = Fault::Refuse {
        code: 403,
        status: "PERMISSION_DENIED",
        reason: "forbidden",
        message: "Required 'compute.instanceGroupManagers.list' permission",
    };
    double.fail("aggregated/instanceGroupManagers", fault);
    let google = client(&double);
    let seen = view(&google).await;
    assert_eq!(seen.vms.len(), 1);
    let why = seen.unlisted.clone().unwrap();
    assert!(why.raw().contains("instanceGroupManagers.list") && !seen.is_whole() && seen.complete, "{why}");
    // A restart does not accept an incomplete list.
    let kinds = google.tpus_of_kind(&location(), "unmanaged").await;
    assert!(matches!(kinds, Err(GcpError::Forbidden { .. })), "{kinds:?}");
    double.recover();
    double.state().unreachable = vec![ZONE.to_owned()];
    assert!(view(&google).await.unlisted.unwrap().raw().contains(ZONE));
    double.state().unreachable = vec!["us-east1-z".to_owned()];
    assert!(view(&google).await.is_whole(), "an outage of another zone does not matter");
}

/// If anything differs from the selection, no deletion is built.
/// If instances were read first, a group that creates them between the two requests would look deleted.
#[tokio::test]
async fn groups_are_read_before_their_instances() {
    let double = Double::start().await.unwrap();
    view(&client(&double)).await;
    let requests = double.requests();
    let place = |words: [&str; 2]| requests.iter().position(|r| words.iter().all(|word| r.contains(word)));
    let groups = place(["aggregated/instanceGroupManagers", ""]).unwrap();
    assert!(groups < place(["aggregated/instances", "machineType"]).unwrap(), "{requests:?}");
}

#[tokio::test]
async fn a_group_is_deleted_only_if_it_matches_the_selection() {
    let double = Double::start().await.unwrap();
    let (group, hosts) = slice("s", |_, host| host);
    double.state().managers = vec![group.clone()];
    double.state().instances = hosts.clone();
    let google = client(&double);
    let chosen = ChosenTpu::from(named(&view(&google).await, "s"));
    let ask = async |kind| google.tpu_deletion_of(&location(), kind, &chosen).await;
    let deletion = ask(Some("unmanaged")).await.unwrap().unwrap();
    assert!(deletion.url.ends_with(&format!("/zones/{ZONE}/instanceGroupManagers/s")), "{deletion:?}");
    assert!(ask(Some("worker")).await.unwrap_err().to_string().contains("ray-node-type"));

    for (field, value, words) in [
        ("/labels/ray-cluster-name", json!("b"), "its label ray-cluster-name is b"),
        ("/labels", json!({}), "it has no label ray-cluster-name"),
        ("/id", json!("5"), "which was not selected"),
    ] {
        let mut other = hosts.clone();
        *other[1].pointer_mut(field).unwrap() = value;
        double.state().instances = other;
        let error = ask(None).await.unwrap_err().to_string();
        assert!(error.contains("s-1") && error.contains(words), "{error}");
    }
    double.state().instances = hosts.clone();
    for (field, value) in [("id", "5"), ("creationTimestamp", "2026-11-21T08:00:00Z")] {
        let mut other = group.clone();
        other[field] = json!(value);
        double.state().managers = vec![other];
        assert!(ask(None).await.unwrap_err().to_string().contains("recreated since it was selected"));
    }
    // Without instances, the labels of the template count, unless the group has its own labels.
    double.state().instances.clear();
    for (of_template, own, is_ours) in [
        ("a", Value::Null, true),
        ("b", Value::Null, false),
        ("b", labels("a"), true),
        ("a", labels("b"), false),
    ] {
        let mut coming = group.clone();
        coming["allInstancesConfig"] = json!({"properties": {"labels": own}});
        double.state().managers = vec![coming];
        double.state().templates = vec![template("template", TPU7X, &labels(of_template))];
        assert_eq!(ask(None).await.is_ok(), is_ours, "{of_template} {own}");
    }
    double.state().managers.clear();
    assert_eq!(ask(None).await.unwrap(), None);
    assert_eq!(double.requests_with("DELETE"), 0);
}

#[tokio::test]
async fn an_instance_of_a_group_is_deleted_through_its_group() {
    let double = Double::start().await.unwrap();
    let many = manager(ZONE, "many", "template", 2, false);
    let member = |n: u8| {
        let instance = tpu_instance(ZONE, &format!("many-{n}"), TPU7X, &labels("a"), &format!("10.7.1.{n}"));
        stopped(made_by(instance, &many))
    };
    let alone = stopped(tpu_instance(ZONE, "alone", "ct6e-standard-4t", &labels("a"), "10.6.0.1"));
    let theirs = stopped(tpu_instance(ZONE, "theirs", "ct6e-standard-4t", &labels("b"), "10.6.0.2"));
    let (gone, hosts) = slice("gone", |_, host| stopped(host));
    {
        let mut state = double.state();
        state.instances = vec![member(0), member(1), alone, theirs];
        state.instances.extend(hosts);
        state.managers = vec![many.clone(), gone];
    }
    let google = client(&double);
    let seen = view(&google).await;
    // A group recreates an instance that is deleted directly.
    let past = ChosenTpu::from(&TpuVm {
        compute: named(&seen, "many-0")
            .compute
            .clone()
            .map(|c| marin_tui::model::cloud::ComputeTpu { group: None, ..c }),
        ..named(&seen, "many-0").clone()
    });
    let refused = google.tpu_deletion_of(&location(), None, &past).await.unwrap_err();
    assert!(refused.to_string().contains("a different managed instance group"), "{refused}");

    let found = leftovers("a", &seen);
    let names: Vec<_> = found.iter().map(|l| (l.kind.label(), l.name.raw())).collect();
    let expected =
        [("instance", "alone"), ("instance", "many-0"), ("instance", "many-1"), ("instance group", "gone")];
    assert_eq!(names, expected);
    let done = google.clean(&location(), found, |_, _| {}).await;
    assert!(done.iter().all(|(_, cleaned)| *cleaned == Cleaned::Deleted), "{done:?}");
    let left: Vec<Value> = double.state().instances.iter().map(|i| i["name"].clone()).collect();
    assert_eq!(left, [json!("theirs")]);
    let groups = double.state().managers.clone();
    assert!(groups.len() == 1 && groups[0]["targetSize"] == 0, "{groups:?}");
    let deletions: Vec<String> = double
        .requests()
        .into_iter()
        .filter(|r| r.starts_with("DELETE") || r.contains("deleteInstances"))
        .collect();
    assert_eq!(deletions.len(), 4, "{deletions:?}");
}

#[tokio::test]
async fn a_resource_that_changed_since_it_was_listed_is_not_deleted() {
    let double = Double::start().await.unwrap();
    let (group, hosts) = slice("s", |_, host| stopped(host));
    double.state().managers = vec![group];
    double.state().instances = hosts.clone();
    let google = client(&double);
    let found = leftovers("a", &view(&google).await);
    assert_eq!(found.len(), 1);
    // One host is running again, or belongs to another cluster.
    for (field, value) in [("/status", json!("RUNNING")), ("/labels", labels("b"))] {
        let mut other = hosts.clone();
        *other[0].pointer_mut(field).unwrap() = value;
        double.state().instances = other;
        let done = google.clean(&location(), found.clone(), |_, _| {}).await;
        assert!(matches!(&done[0].1, Cleaned::Skipped(_)), "{done:?}");
    }
    assert_eq!(double.requests_with("DELETE"), 0);
    double.state().instances = hosts;
    double.state().failing_operations = Some("in use by another".into());
    let done = google.clean(&location(), found, |_, _| {}).await;
    assert!(
        matches!(&done[0].1, Cleaned::Failed { what, .. } if what.contains("in use by another")),
        "{done:?}"
    );
}

/// Resources created for a group are deleted with it, unless they belong to another cluster or are used elsewhere.
#[tokio::test]
async fn a_preempted_slice_is_deleted_with_the_resources_created_for_it() {
    let link = format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/regions/us-central1");
    let made = "Created by marin-tui for cluster a";
    let template = |cluster: &str, description: &str| {
        json!({"name": "s", "id": "1", "region": link, "selfLink": format!("{link}/instanceTemplates/s"),
            "description": description, "properties": {"machineType": TPU7X, "labels": labels(cluster)}})
    };
    let policy = |description: &str| {
        json!({"name": "s", "id": "2", "region": link, "selfLink": format!("{link}/resourcePolicies/s"),
            "description": description})
    };
    let other = |name: &str, policy: Value| {
        let mut other = manager(ZONE, name, "t", 1, false);
        other["resourcePolicies"] = json!({ "workloadPolicy": policy });
        other
    };
    let used = json!(format!("{link}/resourcePolicies/s"));
    for (template, policy, other, left) in [
        (template("a", made), policy(made), None, (0, 0)),
        // Written by earlier versions.
        (template("a", "made by marin-tui for cluster a"), policy(made), None, (0, 0)),
        (template("a", "by hand"), policy(made), None, (1, 0)),
        (template("b", made), policy("Created by marin-tui for cluster b"), None, (1, 1)),
        (template("a", made), policy(made), Some(other("o", used)), (0, 1)),
        (template("a", made), policy(made), Some(other("o", json!("x/resourcePolicies/s2"))), (0, 0)),
    ] {
        let double = Double::start().await.unwrap();
        let (group, hosts) = slice("s", |_, host| stopped(host));
        {
            let mut state = double.state();
            state.instances = hosts;
            state.managers = [group].into_iter().chain(other).collect();
            (state.templates, state.policies) = (vec![template], vec![policy]);
        }
        let google = client(&double);
        let found = leftovers("a", &view(&google).await);
        let done = google.clean(&location(), found, |_, _| {}).await;
        assert_eq!(done.iter().map(|(_, c)| c).collect::<Vec<_>>(), [&Cleaned::Deleted]);
        let state = double.state();
        assert_eq!((state.templates.len(), state.policies.len()), left);
    }
}

#[tokio::test]
async fn a_resource_is_not_considered_unused_if_a_zone_is_unreachable() {
    let double = Double::start().await.unwrap();
    let link = "https://www.googleapis.com/compute/v1/projects/hai-test/regions/us-central1";
    double.state().policies = vec![json!({"name": "s", "id": "2", "region": link,
        "description": "Created by marin-tui for cluster a"})];
    let google = client(&double);
    let ask = async || google.made_for_group(&location(), "zones/z/instanceGroupManagers/s", "s").await;
    assert_eq!(ask().await.unwrap().len(), 1);
    double.state().unreachable = vec!["us-central1-z".into()];
    assert!(ask().await.unwrap_err().to_string().contains("us-central1-z was unreachable"));
}
