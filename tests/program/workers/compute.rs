//! Workers with TPUs of Compute Engine: created part by part, resumed, rolled back when a part fails, and removed with
//! the resources that were created for them.

use crate::cloud_fixture::{CloudFixture, WORKER, ZONE};
use marin_tui::demo::google::managed::made_by;
use marin_tui::demo::google::{Fault, PROJECT, compute};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The second worker of the simulated head.
const SECOND: &str = "10.128.0.3";
const REGION: &str = "us-central2";

impl CloudFixture {
    /// A cluster whose file has TPUs of Compute Engine, with a head without jobs.
    fn of_compute() -> Self {
        let mut fixture = Self::new();
        fixture.head_of(|s| s.jobs = 0);
        let file = std::fs::read_to_string(fixture.home.path().join("infra/a.yaml")).unwrap();
        let types = [
            "slice: {resources: {TPU: 4}, node_config: {acceleratorType: tpu7x-16, runtimeVersion: r, tags: [t], \
             networkConfig: {network: net, subnetwork: sub}, labels: {team: x}, \
             metadata: {startup-script: echo own, other: y}}}",
            "long: {node_config: {acceleratorType: tpu7x-32}}",
            "host: {node_config: {machineType: ct6e-standard-4t, \
             metadata: {items: [{key: startup-script, value: echo own}]}}}",
            "odd: {node_config: {acceleratorType: tpu7x-24}}",
            "later: {node_config: {machineType: tpu9-standard-4t}}",
        ];
        fixture.file("infra/a.yaml", &format!("{file}  {}\n", types.join("\n  ")));
        fixture
    }

    /// Adds the group's instances, whose hosts are already workers in Ray.
    fn fill(&self, name: &str) {
        let mut double = self.double.state();
        let group = double.managers.iter_mut().find(|g| g["name"] == name).unwrap();
        group["status"] = json!({"isStable": true});
        let group = group.clone();
        let template = double.templates.iter().find(|t| t["selfLink"] == group["instanceTemplate"]).unwrap();
        let properties = template["properties"].clone();
        for (number, host) in [WORKER, SECOND].iter().enumerate() {
            let called = format!("{name}-{number}");
            let machine = properties["machineType"].as_str().unwrap();
            let instance = compute::tpu_instance(ZONE, &called, machine, &properties["labels"], host);
            double.instances.push(made_by(instance, &group));
        }
    }

    fn fails(&self, message: &str, code: &'static str, about: &'static str) {
        let mut state = self.double.state();
        (state.failing_operations, state.failing_code) = (Some(message.into()), Some((code, about)));
    }

    fn works(&self) {
        self.double.state().failing_operations = None;
    }

    /// Numbers of policies, templates and groups.
    fn parts(&self) -> (usize, usize, usize) {
        let state = self.double.state();
        (state.policies.len(), state.templates.len(), state.managers.len())
    }
}

#[test]
fn a_slice_is_created_part_by_part_followed_and_removed_with_its_parts() {
    let fixture = CloudFixture::of_compute();
    let (code, out, said) = fixture.run("add-worker --type slice --name s --dry-run --json");
    assert_eq!(code, Some(0), "{said}");
    let calls: Vec<Value> = serde_json::from_str(&out).unwrap();
    let urls: Vec<&str> = calls.iter().map(|c| c["url"].as_str().unwrap()).collect();
    let base = format!("{}/compute/v1/projects/{PROJECT}", fixture.double.url());
    let wanted = [
        format!("{base}/regions/{REGION}/resourcePolicies"),
        format!("{base}/regions/{REGION}/instanceTemplates"),
        format!("{base}/zones/{ZONE}/instanceGroupManagers"),
    ];
    assert_eq!(urls, wanted);
    assert_eq!(
        fixture.double.requests_with("POST"),
        fixture.double.requests_with("POST /token"),
        "a dry run sends nothing"
    );
    let made = "Created by marin-tui for cluster marin-a";
    assert_eq!(
        calls[0]["body"],
        json!({"name": "s", "description": made,
        "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2"}})
    );
    let properties = &calls[1]["body"]["properties"];
    assert_eq!(properties["machineType"], "tpu7x-standard-4t");
    assert_eq!(
        properties["labels"],
        json!({"ray-cluster-name": "marin-a", "ray-node-type": "unmanaged",
        "ray-user-node-type": "slice", "team": "x"})
    );
    assert_eq!(properties["tags"], json!({"items": ["t"]}));
    assert_eq!(properties["scheduling"]["provisioningModel"], "SPOT");
    assert_eq!(
        properties["networkInterfaces"],
        json!([{
        "network": format!("projects/{PROJECT}/global/networks/net"),
        "subnetwork": format!("projects/{PROJECT}/regions/{REGION}/subnetworks/sub"),
        "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]}])
    );
    let image = properties["disks"][0]["initializeParams"]["sourceImage"].as_str().unwrap();
    assert!(image.ends_with("/family/ubuntu-accel-2404-amd64-tpu-tpu7x"), "{image}");
    assert_eq!(
        properties["serviceAccounts"],
        json!([{"email": "default", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}])
    );
    for of_cloud_tpu in ["acceleratorType", "runtimeVersion", "networkConfig", "schedulingConfig"] {
        assert!(properties[of_cloud_tpu].is_null(), "{of_cloud_tpu}");
    }
    let items = properties["metadata"]["items"].as_array().unwrap();
    let item = |key: &str| items.iter().find(|i| i["key"] == key).unwrap()["value"].as_str().unwrap();
    assert!(item("startup-script").starts_with("#!") && item("startup-script").contains("echo own"));
    assert_eq!((item("other"), items.len()), ("y", 2));
    let group = &calls[2]["body"];
    assert_eq!((&group["targetSize"], &group["targetSizePolicy"]), (&json!(2), &json!({"mode": "BULK"})));
    assert_eq!(group["instanceLifecyclePolicy"], json!({"defaultActionOnFailure": "DO_NOTHING"}));

    let mut adding = fixture.spawn("add-worker --type slice --name s --yes --json");
    for part in ["workload policy", "instance template", "instance group"] {
        adding.wait_for(&format!("s: {part} created"));
    }
    adding.wait_for("s: waiting");
    fixture.fill("s");
    let (code, out, said) = adding.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 of 2 hosts have joined Ray"), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    let expected = json!({"cluster": "marin-a", "worker": "s", "hosts": [WORKER, SECOND], "joined": true});
    assert_eq!(rows, json!([expected]));
    // The same request again is followed; another one under that name is refused.
    let (code, _, said) = fixture.run("add-worker --type slice --name s --yes");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fixture.parts(), (1, 1, 1));
    let (code, _, said) = fixture.run("add-worker --type long --name s --yes");
    let refused = "s was already requested with other settings: type tpu7x-16, not tpu7x-32";
    assert!(code == Some(1) && said.contains(refused) && said.contains("choose another name"), "{said}");
    assert_eq!(fixture.run("add-worker --abandon").0, Some(0));

    let (code, out, said) = fixture.run("remove-worker s --dry-run --json");
    let calls: Vec<Value> = serde_json::from_str(&out).unwrap();
    let ends: Vec<String> = calls
        .iter()
        .map(|c| {
            format!(
                "{} {}",
                c["method"].as_str().unwrap(),
                c["url"].as_str().unwrap().rsplit(REGION).next().unwrap()
            )
        })
        .collect();
    assert_eq!(
        ends,
        ["DELETE -b/instanceGroupManagers/s", "DELETE /instanceTemplates/s", "DELETE /resourcePolicies/s"]
    );
    assert!(code == Some(0) && said.contains("instance template s, workload policy s"), "{said}");
    assert_eq!(fixture.parts(), (1, 1, 1));
    let head = &fixture.heads[0].0;
    for node in &head.nodes()[1..] {
        head.kill_node(*node);
    }
    let (code, _, said) = fixture.run("remove-worker s --now --yes");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fixture.parts(), (0, 0, 0));
}

#[test]
fn created_parts_are_rolled_back_when_a_later_part_fails_permanently() {
    let fixture = CloudFixture::of_compute();
    fixture.fails("Quota 'TPUS_PER_PROJECT' exceeded", "QUOTA_EXCEEDED", "/instanceGroupManagers/");
    let (code, _, said) = fixture.run("add-worker --type slice --name s --yes");
    assert_eq!(code, Some(1), "{said}");
    for words in [
        "s: instance template deleted",
        "s: workload policy deleted",
        "quota exceeded: Quota 'TPUS_PER_PROJECT' exceeded",
        "request more quota",
        "resume to request it again",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let position = |words: &str| said.find(words).unwrap();
    assert!(position("template deleted") < position("policy deleted"), "in reverse order: {said}");
    assert_eq!(fixture.parts(), (0, 0, 0));
    fixture.works();
    // After an error that may be temporary nothing is rolled back.
    let busy = Fault::Refuse { code: 503, status: "UNAVAILABLE", reason: "", message: "later" };
    fixture.double.fail_at("POST", "instanceGroupManagers", busy);
    let (code, _, said) = fixture.run("add-worker --resume");
    assert!(code == Some(1) && said.contains("Google is unavailable"), "{said}");
    assert_eq!(fixture.parts(), (1, 1, 0));
    fixture.double.recover();
    let mut adding = fixture.spawn("add-worker --resume");
    adding.wait_for("s: the instance template already exists");
    adding.wait_for("s: instance group created");
    adding.wait_for("s: waiting");
    fixture.fill("s");
    assert_eq!(adding.finish().0, Some(0));
    assert_eq!(fixture.parts(), (1, 1, 1));
}

#[test]
fn an_interrupted_creation_continues_and_still_knows_what_it_created() {
    let fixture = CloudFixture::of_compute();
    let gate = Arc::new(Semaphore::new(0));
    fixture.double.fail_at("POST", "instanceGroupManagers", Fault::Held(gate));
    let mut adding = fixture.spawn("add-worker --type slice --name s --yes");
    adding.wait_for("s: instance template created");
    adding.child.kill().unwrap();
    adding.child.wait().unwrap();
    fixture.double.recover();
    assert_eq!(fixture.parts(), (1, 1, 0));
    fixture.fails("no such zone", "RESOURCE_NOT_FOUND", "/instanceGroupManagers/");
    let (code, _, said) = fixture.run("add-worker --resume");
    assert!(code == Some(1) && said.contains("s: workload policy deleted"), "{said}");
    assert_eq!(fixture.parts(), (0, 0, 0));
    assert_eq!(fixture.run("add-worker --abandon").0, Some(0));
}

/// Resources of somebody else are used if they are equivalent, refused if not, and never deleted.
#[test]
fn resources_of_others_under_that_name_are_not_deleted() {
    let fixture = CloudFixture::of_compute();
    let link = format!("https://www.googleapis.com/compute/v1/projects/{PROJECT}/regions/{REGION}");
    let policy = |topology: &str| {
        json!({"id": "77", "name": "s", "region": link, "selfLink": format!("{link}/resourcePolicies/s"),
            "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": topology}})
    };
    fixture.double.state().policies = vec![policy("4x4x4")];
    let (code, _, said) = fixture.run("add-worker --type slice --name s --yes");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("acceleratorTopology 4x4x4, not 2x2x2"), "{said}");
    assert!(
        said.contains(&format!(
            "gcloud compute resource-policies delete s --region={REGION} --project={PROJECT}"
        )),
        "{said}"
    );
    assert_eq!(fixture.parts(), (1, 0, 0));
    fixture.double.state().policies = vec![policy("2x2x2")];
    fixture.fails("no", "INTERNAL_ERROR", "/instanceGroupManagers/");
    let (code, _, said) = fixture.run("add-worker --resume");
    assert!(code == Some(1) && said.contains("Google's operation failed: no"), "{said}");
    assert_eq!(fixture.parts(), (1, 0, 0), "the policy is not this operation's");
    fixture.works();
    let (code, _, said) = fixture.run("add-worker --resume --no-wait");
    assert_eq!(code, Some(0), "{said}");
    // By now another group uses the template.
    let mut other = fixture.double.state().managers[0].clone();
    (other["name"], other["id"]) = (json!("other"), json!("78"));
    other["resourcePolicies"] = Value::Null;
    fixture.double.state().managers.push(other);
    let (_, _, said) = fixture.run("remove-worker s --dry-run");
    assert!(!said.contains("also deletes"), "{said}");
    let (code, _, said) = fixture.run("remove-worker s --now --yes");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fixture.parts(), (1, 1, 1));
}

#[test]
fn flex_start_has_a_duration_and_no_reservation() {
    let fixture = CloudFixture::of_compute();
    let (_, out, _) = fixture.run("add-worker --type slice --capacity flex-start --name s --dry-run --json");
    let calls: Vec<Value> = serde_json::from_str(&out).unwrap();
    let flex = &calls[1]["body"]["properties"];
    assert_eq!(
        (&flex["scheduling"]["provisioningModel"], &flex["scheduling"]["maxRunDuration"]),
        (&json!("FLEX_START"), &json!({"seconds": "604800"}))
    );
    assert_eq!(flex["reservationAffinity"], json!({"consumeReservationType": "NO_RESERVATION"}));
}

#[test]
fn one_host_is_an_instance_that_may_find_no_capacity() {
    let fixture = CloudFixture::of_compute();
    fixture.fails("The zone does not have enough resources", "ZONE_RESOURCE_POOL_EXHAUSTED", "/instances/");
    let (code, _, said) = fixture.run("add-worker --type host --name one --yes");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("The zone does not have enough resources"), "{said}");
    assert!(said.contains("request another kind of capacity"), "{said}");
    fixture.works();
    let mut adding = fixture.spawn("add-worker --resume");
    adding.wait_for("one: instance created");
    adding.wait_for("one: starting");
    {
        let mut state = fixture.double.state();
        let one = state.instances.iter_mut().find(|i| i["name"] == "one").unwrap();
        assert_eq!(one["labels"]["ray-user-node-type"], "host");
        assert_eq!(one["description"], "Created by marin-tui for cluster marin-a");
        let items = one["metadata"]["items"].as_array().unwrap();
        assert!(items.len() == 1 && items[0]["value"].as_str().unwrap().contains("echo own"), "{items:?}");
        one["status"] = json!("RUNNING");
        one["networkInterfaces"][0]["networkIP"] = json!(WORKER);
    }
    let (code, _, said) = adding.finish();
    assert_eq!(code, Some(0), "{said}");
    // A preempted instance does not count as the requested one.
    fixture.double.state().instances.iter_mut().find(|i| i["name"] == "one").unwrap()["status"] =
        json!("TERMINATED");
    let (code, _, said) = fixture.run("add-worker --type host --name one --yes");
    assert!(code == Some(1) && said.contains("it is preempted"), "{said}");
}

#[test]
fn impossible_requests_are_refused_before_anything_is_sent() {
    let fixture = CloudFixture::of_compute();
    for (words, refused, hint) in [
        ("--type odd", "no known slice of tpu7x-standard-4t for tpu7x-24", "acceleratorConfig"),
        ("--type later", "no known image for tpu9-standard-4t", "sourceImage"),
        ("--type slice --capacity best-effort", "no best-effort capacity", "--capacity preemptible"),
        ("--type slice --capacity reserved", "name of the reservation", "reservationAffinity"),
        (
            "--type slice --name a-name-of-more-than-fifty-eight-characters-which-a-group-refuses",
            "not a valid TPU VM name",
            "63",
        ),
        (
            "--type slice --name a-name-of-fifty-nine-characters-which-an-instance-group-has",
            "too long for an instance group",
            "58",
        ),
    ] {
        let (code, _, said) = fixture.run(&format!("add-worker {words} --yes"));
        assert!(code == Some(1) && said.contains(refused) && said.contains(hint), "{words}: {said}");
    }
    assert_eq!(fixture.double.requests_with("POST"), fixture.double.requests_with("POST /token"));
}
