//! Workers that a person adds and removes, outside the autoscaler: a queued resource of Google's, its states until its
//! hosts have joined Ray, and its end.

use super::startup::{Services, startup_script};
use super::trouble;
use crate::config::{CapacityField, Launch, TpuVersion};
use crate::gcp::{GcpError, Google, TpuApi, TpuPlace};
use crate::model::cloud::{CloudView, QueuedState, VmState};
use crate::model::{ClusterSpec, Node, NodeId, Problem, Snapshot, Timestamp, is_worker_name};
use crate::ray::{Client, Poller};
use crate::supervisor;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Between two looks at Google, and at Ray.
const LOOK: Duration = Duration::from_secs(2);
/// Looks at Google that may fail one after another.
const DEAF: u32 = 15;
/// What a host may take from its boot until it has joined Ray: the image of a worker has many gigabytes.
const JOINING: Duration = Duration::from_secs(1200);
/// What Ray and Google may take to see that something has gone.
const GOING: Duration = Duration::from_secs(180);

/// One request for a worker, as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedRequest {
    /// Name of the queued resource and of its TPU VM.
    pub name: String,
    /// Version of the API.
    pub api: TpuApi,
    /// What is sent.
    pub body: Value,
}

/// What a person wants.
#[derive(Clone, Debug)]
pub struct Wish {
    /// A node type of the cluster's file, or an accelerator type (`v4-128`).
    pub node_type: String,
    /// How capacity is asked for.
    pub capacity: CapacityField,
    /// One for each.
    pub names: Vec<String>,
}

/// The requests for workers of that type.
pub fn plan(
    spec: &ClusterSpec,
    launch: &Launch,
    wish: &Wish,
    google: &Google,
) -> Result<Vec<QueuedRequest>, Problem> {
    let place = supervisor::tpu_place(spec)?;
    let Some((kind, node)) = launch.find(&wish.node_type) else {
        let types: Vec<&str> = launch.types.keys().map(String::as_str).collect();
        let what = format!("{} has no worker type {}", spec.name, wish.node_type);
        return Err(trouble(what, format!("its types are {}", types.join(", "))));
    };
    if node.config["acceleratorType"].is_null() && node.config["acceleratorConfig"].is_null() {
        let mend = "only TPUs are added by hand; other machines are the autoscaler's (`min_workers`)";
        return Err(trouble(format!("{kind} is no TPU"), mend));
    }
    let script = startup_script(spec, launch, node, &Services::at(google.endpoints()))?;
    let fill = |text: &str| text.replace("{project}", &place.project).replace("{zone}", &place.zone);
    let one = |name: &String| {
        if !is_worker_name(name) {
            let mend = "write 1 to 63 small letters, digits and hyphens, a letter first";
            return Err(trouble(format!("`{name}` is no name for a TPU VM"), mend));
        }
        let parent = format!("projects/{}/locations/{}", place.project, place.zone);
        let node = tpu_node(spec, kind, &node.config, &script);
        let mut body = json!({"tpu": {"nodeSpec": [{"parent": parent, "nodeId": name, "node": node}]}});
        for (key, value) in &wish.capacity.field {
            body[key] = filled(value, &fill);
        }
        let api = match wish.capacity.api {
            TpuVersion::V2 => TpuApi::V2,
            TpuVersion::V2Alpha1 => TpuApi::V2Alpha1,
        };
        Ok(QueuedRequest { name: name.clone(), api, body })
    };
    wish.names.iter().map(one).collect()
}

/// The TPU VM: the type's `node_config`, but for how it is scheduled, which the queued resource says.
fn tpu_node(spec: &ClusterSpec, kind: &str, config: &Value, script: &str) -> Value {
    let mut node = config.as_object().cloned().unwrap_or_default();
    node.remove("schedulingConfig");
    let external = !spec.google.internal_ips;
    node.entry("networkConfig").or_insert_with(|| json!({ "enableExternalIps": external }));
    let scope = "https://www.googleapis.com/auth/cloud-platform";
    node.entry("serviceAccount").or_insert_with(|| json!({"scope": [scope]}));
    let map = |node: &Map<String, Value>, key: &str| node.get(key).and_then(Value::as_object).cloned();
    let mut labels = map(&node, "labels").unwrap_or_default();
    // `unmanaged` (Ray, autoscaler/tags.py): the autoscaler neither counts it nor takes it down.
    for (key, value) in [
        ("ray-cluster-name", spec.name.as_str()),
        ("ray-node-type", "unmanaged"),
        ("ray-user-node-type", kind),
    ] {
        labels.insert(key.into(), value.into());
    }
    node.insert("labels".into(), labels.into());
    let mut metadata = map(&node, "metadata").unwrap_or_default();
    metadata.insert("startup-script".into(), script.into());
    node.insert("metadata".into(), metadata.into());
    node.into()
}

fn filled(value: &Value, fill: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => fill(text).into(),
        Value::Array(items) => items.iter().map(|v| filled(v, fill)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(k, v)| (k.clone(), filled(v, fill))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

fn problem(e: &GcpError) -> Problem {
    trouble(e.to_string(), e.mend())
}

/// Sends a request. `false` when Google has one of that name already, of this cluster: then that one is followed.
pub async fn ask(google: &Google, place: &TpuPlace, request: &QueuedRequest) -> Result<bool, Problem> {
    let at = (place.project.as_str(), place.zone.as_str());
    match google.create_queued(request.api, at, &request.name, &request.body).await {
        Ok(()) => Ok(true),
        Err(e @ GcpError::Exists { .. }) => {
            let view =
                google.tpus(&place.project, &place.zone, Timestamp::now()).await.map_err(|e| problem(&e))?;
            let ours = |l: &Option<crate::model::Text>| l.as_ref().is_some_and(|l| l.raw() == place.cluster);
            let is_ours = view.queued.iter().any(|q| q.name.raw() == request.name && ours(&q.ray_cluster));
            if is_ours { Ok(false) } else { Err(problem(&e)) }
        }
        Err(e) => Err(problem(&e)),
    }
}

/// Follows a queued resource until its TPU VM is up; the addresses of its hosts. `tell` hears of each state.
pub async fn follow(
    google: &Google,
    place: &TpuPlace,
    name: &str,
    mut tell: impl FnMut(&str),
) -> Result<Vec<String>, Problem> {
    let (mut last, mut deaf) = (String::new(), 0);
    loop {
        match google.tpus(&place.project, &place.zone, Timestamp::now()).await {
            Ok(view) => {
                deaf = 0;
                let (word, hosts) = standing(&view, name)?;
                if word != last {
                    tell(&word);
                    last = word;
                }
                if let Some(hosts) = hosts {
                    return Ok(hosts);
                }
            }
            Err(e) if deaf < DEAF => {
                deaf += 1;
                tracing::warn!("{name}: {e}");
            }
            Err(e) => return Err(problem(&e)),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Its state in words, and its hosts once it is up.
fn standing(view: &CloudView, name: &str) -> Result<(String, Option<Vec<String>>), Problem> {
    let Some(queued) = view.queued.iter().find(|q| q.name.raw() == name) else {
        if !view.complete {
            return Ok(("google could not list everything".into(), None));
        }
        return Err(trouble(format!("{name} is gone: somebody has deleted it"), "ask who, or add it again"));
    };
    let again =
        format!("`remove-worker {name}` deletes it; then add it again, perhaps with another --capacity");
    match queued.state {
        QueuedState::Failed => {
            let why =
                queued.error.as_ref().map_or_else(|| "google does not say why".into(), ToString::to_string);
            Err(trouble(format!("{name} is refused: {why}"), again))
        }
        QueuedState::Suspended => Err(trouble(
            format!("{name} is suspended: its TPU VM was taken away and does not come back"),
            again,
        )),
        QueuedState::Deleting => Err(trouble(format!("{name} is being deleted"), "ask who did that")),
        QueuedState::Active => {
            let vm = view.vms.iter().find(|vm| queued.nodes.contains(&vm.name));
            let Some(vm) = vm else { return Ok(("active".into(), None)) };
            if vm.state.is_gone() {
                return Err(trouble(format!("{name} was {} already", vm.state.word()), again));
            }
            let hosts: Vec<String> = vm.hosts.iter().map(|h| h.raw().to_owned()).collect();
            let is_up = vm.state == VmState::Ready && !hosts.is_empty();
            Ok((format!("active, its TPU VM is {}", vm.state.word()), is_up.then_some(hosts)))
        }
        state => Ok((state.word().into(), None)),
    }
}

/// Which of these addresses no living node of Ray has, but for those nodes that were there `before`.
pub fn missing<'a>(snapshot: &Snapshot, hosts: &'a [String], before: &[NodeId]) -> Vec<&'a str> {
    let counts = |n: &Node| n.state.is_alive() && !before.contains(&n.id);
    let has = |host: &str| snapshot.nodes.iter().any(|n| counts(n) && n.address.raw() == host);
    hosts.iter().map(String::as_str).filter(|h| !has(h)).collect()
}

/// The head's address as Ray itself has it: workers join there.
pub async fn head_address(client: &Client) -> Result<String, Problem> {
    let snapshot = Poller::new(client.clone()).refresh().await.map_err(|e| e.problem(Timestamp::now()))?;
    let head = snapshot.nodes.iter().find(|n| n.is_head && n.state.is_alive());
    head.map(|n| n.address.raw().to_owned())
        .ok_or_else(|| trouble("ray names no head", "look at `ray status` there"))
}

/// Waits until nodes of all these addresses live in Ray; those of `before` are being replaced and do not count. `tell` hears how many do.
pub async fn joined(
    client: &Client,
    hosts: &[String],
    before: &[NodeId],
    mut tell: impl FnMut(&str),
) -> Result<(), Problem> {
    let mut poller = Poller::new(client.clone());
    let (deadline, mut last) = (Instant::now() + JOINING, usize::MAX);
    loop {
        let trouble = match poller.refresh().await {
            Ok(snapshot) => {
                let missing = missing(&snapshot, hosts, before);
                if missing.len() != last {
                    last = missing.len();
                    tell(&format!("{} of {} hosts have joined ray", hosts.len() - last, hosts.len()));
                }
                if missing.is_empty() {
                    return Ok(());
                }
                let what = format!("not in ray: {}", missing.join(", "));
                let mend = "the startup script says why: `journalctl -u google-startup-scripts` there, or \
                            logs/GCEMetadataScripts in Cloud Logging; init-worker starts it again";
                trouble(what, mend)
            }
            Err(e) => e.problem(Timestamp::now()),
        };
        if Instant::now() > deadline {
            return Err(trouble);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until no node of these addresses lives in Ray, `within` at most; those that still do.
pub async fn left(client: &Client, hosts: &[String], within: Duration) -> Result<Vec<String>, Problem> {
    let mut poller = Poller::new(client.clone());
    let deadline = Instant::now() + within.max(LOOK);
    loop {
        match poller.refresh().await {
            Ok(snapshot) => {
                let gone = missing(&snapshot, hosts, &[]);
                let still: Vec<String> =
                    hosts.iter().filter(|h| !gone.contains(&h.as_str())).cloned().collect();
                if still.is_empty() || Instant::now() > deadline {
                    return Ok(still);
                }
            }
            Err(e) if Instant::now() > deadline => return Err(e.problem(Timestamp::now())),
            Err(_) => {}
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What Google is to delete: the queued resource when there is one, for its TPU VM goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// Queued resource.
    pub queued: Option<String>,
    /// TPU VM.
    pub vm: Option<String>,
    /// Addresses of its hosts.
    pub hosts: Vec<String>,
}

/// Finds what that name or address means among this cluster's TPUs.
pub fn find(view: &CloudView, place: &TpuPlace, wish: &str) -> Result<Doomed, Problem> {
    let ours = |label: &Option<crate::model::Text>| label.as_ref().is_some_and(|l| l.raw() == place.cluster);
    let is_it = |vm: &&crate::model::cloud::TpuVm| {
        ours(&vm.ray_cluster) && (vm.name.raw() == wish || vm.hosts.iter().any(|h| h.raw() == wish))
    };
    let vm = view.vms.iter().find(is_it);
    let named = vm.and_then(|vm| vm.queued_resource.as_ref()).map_or(wish, |q| q.raw());
    let queued = view.queued.iter().find(|q| q.name.raw() == named && ours(&q.ray_cluster));
    // A queued resource's own name is not its TPU VM's when another program made it.
    let vm = vm.or_else(|| view.vms.iter().find(|vm| queued.is_some_and(|q| q.nodes.contains(&vm.name))));
    if queued.is_none() && vm.is_none() {
        let what = format!("no TPU VM, host or queued resource of {} is called {wish}", place.cluster);
        return Err(trouble(what, "`marin-tui tpus` lists them"));
    }
    Ok(Doomed {
        queued: queued.map(|q| q.name.raw().to_owned()),
        vm: vm.map(|vm| vm.name.raw().to_owned()),
        hosts: vm.into_iter().flat_map(|vm| &vm.hosts).map(|h| h.raw().to_owned()).collect(),
    })
}

/// Deletes it, and sees that Google no longer lists it.
pub async fn delete(google: &Google, place: &TpuPlace, doomed: &Doomed) -> Result<(), Problem> {
    let (project, zone) = (place.project.as_str(), place.zone.as_str());
    let done = match (&doomed.queued, &doomed.vm) {
        (Some(queued), _) => google.delete_queued(project, zone, queued).await,
        (None, Some(vm)) => google.delete_tpu(project, zone, vm).await,
        (None, None) => Ok(()),
    };
    match done {
        Ok(()) | Err(GcpError::NotFound { .. }) => {}
        Err(e) => return Err(problem(&e)),
    }
    let deadline = Instant::now() + GOING;
    loop {
        let view = google.tpus(project, zone, Timestamp::now()).await.map_err(|e| problem(&e))?;
        let vm = view.vms.iter().any(|v| doomed.vm.as_deref() == Some(v.name.raw()));
        let queued = view.queued.iter().any(|q| doomed.queued.as_deref() == Some(q.name.raw()));
        if !vm && !queued {
            return Ok(());
        }
        if Instant::now() > deadline {
            let what = "google says that it is deleted, and still lists it";
            return Err(trouble(what, "`marin-tui tpus` shows it; run this again in some minutes"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_capacity_field_are_filled_in() {
        let fill = |text: &str| text.replace("{zone}", "z");
        let value = json!({"reservationName": "l/{zone}/-", "list": ["{zone}"], "n": 1});
        assert_eq!(filled(&value, &fill), json!({"reservationName": "l/z/-", "list": ["z"], "n": 1}));
    }
}
