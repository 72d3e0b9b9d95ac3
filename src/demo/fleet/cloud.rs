//! The machines of a fleet's clusters in the simulated Google: lists them for each request, and applies the changes of
//! the request. No state of a cluster is kept here between two requests.

use super::super::cluster::tpu_vm::{TpuVm, slice_kind};
use super::super::google::answer::time;
use super::super::google::compute;
use super::super::google::managed;
use super::super::google::state::State;
use super::super::google::tpu;
use super::head_machine::HeadMachine;
use crate::model::machine_type::TpuMachine;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// Age of a slice of Compute Engine when the fleet starts, in milliseconds.
const GROUP_AGE: i64 = 5 * 3_600_000;
/// The machine type of its hosts, by the generation in the accelerator type (the part before the number).
const MACHINES: [(&str, &str); 3] =
    [("tpu7x", "tpu7x-standard-4t"), ("v6e", "ct6e-standard-4t"), ("v5p", "ct5p-hightpu-4t")];
/// Key of the machine type of the hosts in the body of a request to Compute Engine.
const MACHINE: &str = "machineType";
/// Key of the instance or group, as Compute Engine returns it, in that body.
const RESOURCE: &str = "resource";

/// Age of an unfulfilled request for a TPU when the fleet starts, in milliseconds.
const REQUEST_AGE: i64 = 47 * 60_000;

/// The clusters of one project. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::demo) struct Cloud {
    project: Arc<str>,
    heads: Arc<[HeadMachine]>,
}

/// Full names of the resources of a cluster that a request was shown.
struct Shown<'a> {
    head: &'a HeadMachine,
    vms: Vec<String>,
    queued: Vec<String>,
}

impl Cloud {
    /// The clusters with these heads.
    pub(super) fn of(project: &str, heads: impl Iterator<Item = HeadMachine>) -> Self {
        Self { project: project.into(), heads: heads.collect() }
    }

    /// Adds a request for a TPU that never becomes available.
    pub fn add_unavailable(&self, cluster: &str, accelerator: &str) {
        let Some(head) = self.heads.iter().find(|p| p.cluster() == cluster) else { return };
        let node_type = format!("tpu_slice_{}", accelerator.replace("litepod", "e").replace('-', "_"));
        let name = format!("ray-worker-manual-{accelerator}");
        let labels = json!({"ray-cluster-name": cluster, "ray-node-type": "unmanaged", "ray-user-node-type": node_type});
        let node = json!({"acceleratorType": accelerator, "labels": labels});
        let parent = format!("projects/{}/locations/{}", self.project, head.zone());
        let mut body = json!({"name": format!("{parent}/queuedResources/{name}"),
            "tpu": {"nodeSpec": [{"parent": parent, "nodeId": name, "node": node}]},
            "reservationName": format!("{parent}/reservations/-"), "state": {"stateInitiator": "USER"}});
        head.shared().now(|c| {
            let since = c.now - REQUEST_AGE;
            body["createTime"] = json!(time(since));
            let kind = slice_kind(&node_type, accelerator, head.zone());
            c.by_hand.add(&name, &name, kind, body, since, true);
        });
    }

    /// Adds a slice that a person created in Compute Engine: a managed instance group.
    pub fn add_group(&self, cluster: &str, accelerator: &str) {
        let Some(head) = self.heads.iter().find(|p| p.cluster() == cluster) else { return };
        let generation = accelerator.split('-').next().unwrap_or_default();
        let Some((_, machine)) = MACHINES.iter().find(|(known, _)| *known == generation) else { return };
        let node_type = format!("tpu_slice_{}", accelerator.replace('-', "_"));
        let name = format!("{cluster}-{accelerator}");
        let labels = json!({"ray-cluster-name": cluster, "ray-node-type": "unmanaged",
            "ray-user-node-type": node_type});
        head.shared().now(|c| {
            let kind = slice_kind(&node_type, accelerator, head.zone());
            let mut group = managed::manager(head.zone(), &name, &name, kind.hosts, true);
            let base = format!("https://www.googleapis.com/compute/v1/projects/{}", self.project);
            group["zone"] = json!(format!("{base}/zones/{}", head.zone()));
            group["creationTimestamp"] = json!(time(c.now - GROUP_AGE));
            let body = json!({ MACHINE: machine, RESOURCE: group, "labels": labels });
            c.add_existing_slice(&name, kind, body, c.now - GROUP_AGE);
        });
    }

    /// Answers a request about instances: adds the heads and the slices of Compute Engine to `state`, and applies
    /// deletions and creations to the clusters.
    pub fn around_machines<R>(&self, state: &mut State, answer: impl FnOnce(&mut State) -> R) -> R {
        let shown: Vec<(&HeadMachine, Value)> =
            self.heads.iter().filter_map(|p| Some((p, p.instance()?))).collect();
        state.instances = shown.iter().map(|(_, instance)| instance.clone()).collect();
        state.managers.clear();
        let mut made: Vec<String> = Vec::new();
        for head in &*self.heads {
            head.shared().now(|cluster| {
                for (_, body) in cluster.by_hand.queued(cluster.now).filter(|(_, b)| !b[MACHINE].is_null()) {
                    let vm = cluster.by_hand.tpu_vms(cluster.now).find(|vm| vm.name == name(&body[RESOURCE]));
                    let hosts = vm.map_or_else(Vec::new, |vm| vm.hosts);
                    Self::show_resource(body, &hosts, state);
                    made.push(name(&body[RESOURCE]).to_owned());
                }
            });
        }
        let before: HashSet<String> = all_of(state).map(|r| name(r).to_owned()).collect();
        let answer = answer(state);
        let left: HashSet<&str> = all_of(state).map(name).collect();
        for (machine, instance) in &shown {
            if !left.contains(name(instance)) {
                machine.delete();
            }
        }
        for gone in made.iter().filter(|one| !left.contains(one.as_str())) {
            for head in &*self.heads {
                head.shared().now(|c| c.by_hand.delete(gone, c.now));
            }
        }
        for new in all_of(state).filter(|r| !before.contains(name(r))) {
            self.add_created(new, &state.templates);
        }
        answer
    }

    /// Adds an instance, or a group from one of these templates, that was created by a request, to the cluster that its
    /// labels name.
    fn add_created(&self, resource: &Value, templates: &[Value]) {
        let template = templates.iter().find(|t| t["selfLink"] == resource["instanceTemplate"]);
        let properties = template.map_or(resource, |t| &t["properties"]);
        let machine = last(properties["machineType"].as_str().unwrap_or_default());
        let Some(tpu) = TpuMachine::parse(machine) else { return };
        let labels = &properties["labels"];
        let zone = last(resource["zone"].as_str().unwrap_or_default());
        let has_label = |p: &&HeadMachine| p.zone() == zone && labels["ray-cluster-name"] == p.cluster();
        let Some(head) = self.heads.iter().find(has_label) else { return };
        let hosts = resource["targetSize"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
        let accelerator = tpu.slice(hosts);
        let kind = labels["ray-user-node-type"].as_str().unwrap_or(&accelerator);
        let kind = slice_kind(kind, &accelerator, zone);
        let body = json!({ MACHINE: machine, RESOURCE: resource, "labels": labels,
            "scheduling": properties["scheduling"] });
        head.shared().now(|c| c.by_hand.add(name(resource), name(resource), kind, body, c.now, false));
    }

    /// Adds an instance to `state`, or a group with an instance for each of its hosts. Hosts have addresses once they
    /// are created.
    fn show_resource(body: &Value, hosts: &[String], state: &mut State) {
        let mut resource = body[RESOURCE].clone();
        if resource["targetSize"].is_null() {
            if let Some(host) = hosts.first() {
                resource["status"] = json!("RUNNING");
                resource["networkInterfaces"][0]["networkIP"] = json!(host);
            }
            state.instances.push(resource);
            return;
        }
        let zone = last(resource["zone"].as_str().unwrap_or_default()).to_owned();
        resource["status"] = json!({"isStable": !hosts.is_empty()});
        let machine = body[MACHINE].as_str().unwrap_or_default();
        for (number, host) in hosts.iter().enumerate() {
            let instance_name = format!("{}-{number}", name(&resource));
            let mut instance = compute::tpu_instance(&zone, &instance_name, machine, &body["labels"], host);
            (instance["zone"], instance["creationTimestamp"]) =
                (resource["zone"].clone(), resource["creationTimestamp"].clone());
            if body["scheduling"].is_object() {
                instance["scheduling"] = body["scheduling"].clone();
            }
            state.instances.push(managed::made_by(instance, &resource));
        }
        state.managers.push(resource);
    }

    /// Answers a request about TPUs in `zone`: adds the resources of these kinds (`nodes`, `queuedResources`) to
    /// `state`, and applies the changes to the clusters.
    pub fn around<R>(
        &self,
        zone: &str,
        kinds: &[&str],
        state: &mut State,
        answer: impl FnOnce(&mut State) -> R,
    ) -> R {
        let here = self.heads.iter().filter(|p| zone == "-" || p.zone() == zone);
        let shown: Vec<Shown> = here.map(|head| self.show(head, kinds, state)).collect();
        let answer = answer(state);
        for one in &shown {
            one.apply_deletions(state);
        }
        let theirs: HashSet<&str> = shown.iter().flat_map(|s| &s.queued).map(String::as_str).collect();
        state.queued.retain(|q| !theirs.contains(name(q)));
        let (ours, others): (Vec<Value>, Vec<Value>) =
            std::mem::take(&mut state.queued).into_iter().partition(|q| self.head_of(q).is_some());
        state.queued = others;
        for body in ours {
            if let Some(head) = self.head_of(&body) {
                add_request(head, body);
            }
        }
        state.nodes.clear();
        answer
    }

    fn show<'a>(&self, head: &'a HeadMachine, kinds: &[&str], state: &mut State) -> Shown<'a> {
        let mut shown = Shown { head, vms: Vec::new(), queued: Vec::new() };
        head.shared().now(|cluster| {
            let vms = if kinds.contains(&"nodes") { cluster.tpu_vms() } else { Vec::new() };
            let is_node = |vm: &TpuVm| cluster.by_hand.body(&vm.name).is_none_or(|b| b[MACHINE].is_null());
            for vm in vms.into_iter().filter(is_node) {
                let node = self.node(head, &vm, cluster.by_hand.body(&vm.name));
                shown.vms.push(name(&node).to_owned());
                state.nodes.push(node);
            }
            let shows_queued = kinds.contains(&"queuedResources");
            let queued = cluster.by_hand.queued(cluster.now).filter(|(_, body)| body[MACHINE].is_null());
            for (word, body) in queued.filter(|_| shows_queued) {
                let mut body = body.clone();
                body["state"]["state"] = json!(word);
                shown.queued.push(name(&body).to_owned());
                state.queued.push(body);
            }
        });
        shown
    }

    /// A TPU VM as Google returns it; one that was added manually has the properties of its request.
    fn node(&self, head: &HeadMachine, vm: &TpuVm, request: Option<&Value>) -> Value {
        let labels = json!({"ray-cluster-name": head.cluster(), "ray-node-type": "worker",
            "ray-user-node-type": vm.node_type, "ray-node-name": format!("ray-{}-worker", head.cluster())});
        let ips: Vec<&str> = vm.hosts.iter().map(String::as_str).collect();
        let mut node = tpu::node(head.zone(), &vm.name, &vm.accelerator, vm.state, &labels, &ips);
        let parent = format!("projects/{}/locations/{}", self.project, head.zone());
        node["name"] = json!(format!("{parent}/nodes/{}", vm.name));
        node["createTime"] = json!(time(vm.since));
        if let Some(request) = request {
            node["queuedResource"] = request["name"].clone();
            let spec = &request["tpu"]["nodeSpec"][0]["node"];
            for key in ["labels", "metadata", "networkConfig", "runtimeVersion", "serviceAccount"] {
                if !spec[key].is_null() {
                    node[key] = spec[key].clone();
                }
            }
            let reserved =
                request["reservationName"].is_string() || request["guaranteed"]["reserved"] == true;
            let spot = !request["spot"].is_null();
            node["schedulingConfig"] =
                json!({"reserved": reserved, "spot": spot, "preemptible": !reserved && !spot});
        }
        node
    }

    /// The cluster of a queued resource, by its zone and its label.
    fn head_of(&self, queued: &Value) -> Option<&HeadMachine> {
        let zone = name(queued).split('/').nth(3)?;
        let label = queued["tpu"]["nodeSpec"][0]["node"]["labels"]["ray-cluster-name"].as_str()?;
        self.heads.iter().find(|p| p.zone() == zone && p.cluster() == label)
    }
}

/// Adds a queued resource that a person requested for a cluster.
fn add_request(head: &HeadMachine, body: Value) {
    let queued = last(name(&body)).to_owned();
    let spec = &body["tpu"]["nodeSpec"][0];
    let vm = spec["nodeId"].as_str().unwrap_or(&queued).to_owned();
    let accelerator = spec["node"]["acceleratorType"].as_str().unwrap_or("v4-8");
    let node_type = spec["node"]["labels"]["ray-user-node-type"].as_str().unwrap_or(accelerator);
    let kind = slice_kind(node_type, accelerator, head.zone());
    head.shared().now(|c| c.by_hand.add(&queued, &vm, kind, body, c.now, false));
}

impl Shown<'_> {
    /// Deletes resources from the cluster that are no longer in `state`.
    fn apply_deletions(&self, state: &State) {
        let left: HashSet<&str> = state.nodes.iter().chain(&state.queued).map(name).collect();
        let gone = |all: &[String]| -> Vec<String> {
            all.iter().filter(|n| !left.contains(n.as_str())).map(|n| last(n).to_owned()).collect()
        };
        let (vms, queued) = (gone(&self.vms), gone(&self.queued));
        if vms.is_empty() && queued.is_empty() {
            return;
        }
        self.head.shared().now(|c| {
            for name in &vms {
                c.delete_tpu_vm(name);
            }
            for name in &queued {
                c.by_hand.delete(name, c.now);
            }
        });
    }
}

fn all_of(state: &State) -> impl Iterator<Item = &Value> {
    state.instances.iter().chain(&state.managers)
}

fn name(resource: &Value) -> &str {
    resource["name"].as_str().unwrap_or_default()
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
