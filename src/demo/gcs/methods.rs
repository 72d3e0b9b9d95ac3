//! What the simulated GCS answers to each method: cluster status, nodes, drivers, the jobs in the key-value store.

use super::super::cluster::Cluster;
use super::super::cluster::job::{HEAD_IP, SimJob};
use super::super::cluster::node::SimNode;
use super::super::dashboard::status;
use super::super::json::dumps;
use super::super::shared::Shared;
use super::call::{Outcome, Status, ids, parse};
use super::drain::drain_node;
use super::wire::{
    Address, AliveReply, AliveRequest, AutoscalingState, ClusterResourceState, ClusterStatus, DeathInfo,
    FailedRequest, GcsStatus, JobConfig, JobData, JobInfoReply, JobInfoRequest, JobsApiInfo, KeyRequest,
    KeyValue, KeysReply, NodeInfo, NodeInfoReply, NodeInfoRequest, NodeState, PendingInstance,
    PendingRequest, PutReply, PutRequest, RequestCount, ResourceRequest, RuntimeEnvInfo, ValueReply,
    ValuesReply,
};
use crate::model::{AutoscalerVersion, DeathReason, NodeId};
use bytes::Bytes;
use prost::Message;

/// Where the legacy autoscaler leaves its report; in no namespace.
const V1_REPORT: &[u8] = b"__autoscaling_status";
/// Before each submission id in the key-value store.
const JOB_KEY: &str = "_ray_internal_job_info_";
/// The GCS's own code inside an OK reply: no such key.
const NOT_FOUND: i32 = 17;

/// The method of a path.
pub(super) fn find(path: &str) -> Option<fn(&[u8], &Shared) -> Outcome> {
    Some(match path {
        "/ray.rpc.autoscaler.AutoscalerStateService/GetClusterStatus" => cluster_status,
        "/ray.rpc.autoscaler.AutoscalerStateService/DrainNode" => drain_node,
        "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo" => all_node_info,
        "/ray.rpc.NodeInfoGcsService/CheckAlive" => check_alive,
        "/ray.rpc.JobInfoGcsService/GetAllJobInfo" => all_job_info,
        "/ray.rpc.InternalKVGcsService/InternalKVKeys" => keys,
        "/ray.rpc.InternalKVGcsService/InternalKVGet" => value,
        "/ray.rpc.InternalKVGcsService/InternalKVMultiGet" => values,
        "/ray.rpc.InternalKVGcsService/InternalKVPut" => put,
        _ => return None,
    })
}

/// The GCS's own status inside a reply: success.
const OK: Option<GcsStatus> = Some(GcsStatus { code: 0, message: String::new() });

fn cluster_status(message: &[u8], shared: &Shared) -> Outcome {
    parse::<()>(message)?;
    let v2 = shared.scenario.autoscaler == AutoscalerVersion::V2;
    Ok(shared.kept("GetClusterStatus", |c| {
        let requests = c.wanted.iter().map(|w| RequestCount {
            request: Some(ResourceRequest { bundle: w.shape.iter().cloned().collect() }),
            count: w.count,
        });
        let resources = ClusterResourceState {
            version: c.version as i64,
            last_seen_autoscaler_state_version: if v2 { c.monitor.loops } else { 0 },
            pending: requests.collect(),
            nodes: c.nodes.iter().map(|n| node_state(n, c)).collect(),
            session: c.session.clone(),
        };
        let status = ClusterStatus { autoscaling: v2.then(|| autoscaling(c)), resources: Some(resources) };
        status.encode_to_vec().into()
    }))
}

/// A dead node keeps its id, address and status only; a resource that is used up is absent.
fn node_state(node: &SimNode, cluster: &Cluster) -> NodeState {
    let mut state = NodeState {
        node_id: node.id.as_bytes().to_vec(),
        instance_id: node.instance_id.clone(),
        node_type: node.node_type.to_string(),
        version: cluster.version as i64,
        ip: node.ip.clone(),
        ..NodeState::default()
    };
    if !node.is_alive() {
        state.status = 2;
        return state;
    }
    state.status = match node.idle_since {
        _ if cluster.is_draining(node.id) => 4,
        Some(_) => 3,
        None => 1,
    };
    state.idle_ms = node.idle_since.map_or(0, |since| (cluster.now - since).max(0));
    state.total = node.resources.iter().map(|(name, total, _)| (name.clone(), *total)).collect();
    let left = node.resources.iter().map(|(name, total, used)| (name.clone(), total - used));
    state.available = left.filter(|(_, left)| *left > 0.0).collect();
    if node.idle_since.is_none() {
        state.activity = vec!["Busy workers on node.".into(), "Resource: CPU currently in use.".into()];
    }
    state.labels = node.labels.iter().cloned().collect();
    state
}

fn autoscaling(cluster: &Cluster) -> AutoscalingState {
    let scaling = cluster.autoscaling();
    // Infeasible requests come one entry each, not counted.
    let infeasible = cluster.wanted.iter().filter(|w| w.infeasible).flat_map(|w| {
        let request = ResourceRequest { bundle: w.shape.iter().cloned().collect() };
        std::iter::repeat_n(request, usize::try_from(w.count).unwrap_or(0))
    });
    let pending = scaling.launching.into_iter().map(|l| PendingRequest {
        node_type: l.node_type.to_string(),
        count: l.count,
        request_ts: l.since / 1000,
    });
    let joining = scaling.joining.into_iter().map(|j| PendingInstance {
        node_type: j.node_type.to_string(),
        instance_id: j.instance_id,
        ip: j.ip,
        details: String::new(),
    });
    let failed = scaling.refused.into_iter().map(|r| FailedRequest {
        node_type: r.node_type.to_string(),
        count: r.count,
        reason: r.reason,
        start_ts: r.since / 1000,
        failed_ts: r.at / 1000,
    });
    AutoscalingState {
        last_seen_cluster_resource_state_version: cluster.monitor.saw as i64,
        version: cluster.monitor.loops,
        pending_requests: pending.collect(),
        infeasible: infeasible.collect(),
        joining: joining.collect(),
        failed: failed.collect(),
    }
}

fn all_node_info(message: &[u8], shared: &Shared) -> Outcome {
    let request: NodeInfoRequest = parse(message)?;
    let wanted = ids("GetAllNodeInfo", request.selectors.iter().filter_map(|s| s.node_id.as_ref()), shared)?;
    if wanted.is_empty() && request.state.is_none() && request.limit.is_none() {
        return Ok(shared.kept("GetAllNodeInfo", |c| node_infos(c, &request, &wanted)));
    }
    Ok(shared.now(|c| node_infos(c, &request, &wanted)))
}

fn node_infos(cluster: &Cluster, request: &NodeInfoRequest, wanted: &[NodeId]) -> Bytes {
    let of_state = |n: &&SimNode| request.state.is_none_or(|state| (state == 0) == n.is_alive());
    let nodes = cluster.nodes.iter().filter(of_state).filter(|n| wanted.is_empty() || wanted.contains(&n.id));
    let limit = request.limit.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let nodes: Vec<NodeInfo> = nodes.take(limit).map(|n| node_info(n, &cluster.session)).collect();
    let total = cluster.nodes.len() as i64;
    NodeInfoReply { status: OK, filtered: total - nodes.len() as i64, total, nodes }.encode_to_vec().into()
}

fn node_info(node: &SimNode, session: &str) -> NodeInfo {
    let reason = |reason| match reason {
        DeathReason::Unspecified => 0,
        DeathReason::Expected => 1,
        DeathReason::Unexpected => 2,
        DeathReason::Preempted => 3,
    };
    NodeInfo {
        node_id: node.id.as_bytes().to_vec(),
        ip: node.ip.clone(),
        raylet_socket: format!("/tmp/ray/{session}/sockets/raylet"),
        store_socket: format!("/tmp/ray/{session}/sockets/plasma_store"),
        manager_port: 43_585,
        object_port: 42_443,
        state: i32::from(!node.is_alive()),
        hostname: node.hostname.clone(),
        metrics_port: 41_105,
        total: node.resources.iter().map(|(name, total, _)| (name.clone(), *total)).collect(),
        name: node.ip.clone(),
        instance_id: node.instance_id.clone(),
        node_type: node.node_type.to_string(),
        started: node.started.unsigned_abs(),
        ended: node.end.map_or(0, |e| e.at.unsigned_abs()),
        is_head: node.is_head,
        labels: node.labels.iter().cloned().collect(),
        death: node.end.map(|e| DeathInfo { reason: reason(e.reason), message: e.message.into() }),
        agent_port: 52_365,
    }
}

fn check_alive(message: &[u8], shared: &Shared) -> Outcome {
    let request: AliveRequest = parse(message)?;
    let wanted = ids("CheckAlive", request.node_ids.iter(), shared)?;
    let alive = shared.now(|c| wanted.iter().map(|id| c.node(*id).is_some_and(|n| n.is_alive())).collect());
    Ok(AliveReply { status: OK, ray_version: shared.scenario.ray_version.clone(), alive }
        .encode_to_vec()
        .into())
}

/// Drivers only: a submission is in this list once its script called `ray.init`.
fn all_job_info(message: &[u8], shared: &Shared) -> Outcome {
    let request: JobInfoRequest = parse(message)?;
    let limit = request.limit.and_then(|n| usize::try_from(n).ok());
    let skip = request.skip_submission.unwrap_or(false);
    let list = |c: &mut Cluster| {
        let head = c.head();
        let jobs =
            c.jobs.iter().filter_map(|j| driver(j, head, skip)).take(limit.unwrap_or(usize::MAX)).collect();
        JobInfoReply { status: OK, jobs }.encode_to_vec().into()
    };
    Ok(match (limit, skip) {
        (Some(_), _) => shared.now(list),
        (None, true) => shared.kept("GetAllJobInfo", list),
        (None, false) => shared.kept("GetAllJobInfo with submissions", list),
    })
}

fn driver(job: &SimJob, head: NodeId, skip_submission: bool) -> Option<JobData> {
    let id = job.driver.as_deref()?;
    let byte = |i: usize| u8::from_str_radix(id.get(2 * i..2 * i + 2)?, 16).ok();
    let job_id: Vec<u8> = (0..4).filter_map(byte).collect();
    let submission = job.submission.iter().map(|s| ("job_submission_id".to_owned(), s.clone()));
    let address = Address {
        node_id: head.as_bytes().to_vec(),
        ip: HEAD_IP.into(),
        port: 11_171,
        worker_id: [job_id.as_slice(), &[0xff; 24]].concat(),
    };
    Some(JobData {
        is_dead: job.status.is_ended(),
        timestamp: job.ended.unwrap_or(job.started),
        driver_ip: HEAD_IP.into(),
        driver_pid: 867,
        config: Some(JobConfig {
            runtime_env: Some(RuntimeEnvInfo {
                serialized: job.runtime_env.as_ref().map_or_else(|| "{}".into(), dumps),
            }),
            namespace: format!("{:08x}-{id}-4ffb-8f4a-{:012x}", job.started & 0xffff_ffff, job.started),
            metadata: submission.collect(),
            sys_path: ["experiments", "src"]
                .map(|d| format!("/tmp/ray/runtime_resources/working_dir_files/_ray_pkg/{d}"))
                .into(),
        }),
        started: job.started.unsigned_abs(),
        ended: job.ended.unwrap_or(0).unsigned_abs(),
        entrypoint: job.entrypoint.clone(),
        job_info: (!skip_submission && job.submission.is_some()).then(|| submission_info(job, head)),
        driver_address: Some(address),
        job_id,
    })
}

fn submission_info(job: &SimJob, head: NodeId) -> JobsApiInfo {
    let pairs = job.metadata.iter().filter_map(|m| m.as_object()).flatten();
    JobsApiInfo {
        status: job.status_word(),
        entrypoint: job.entrypoint.clone(),
        message: job.message.clone(),
        error_type: job.error.map(str::to_owned),
        started: Some(job.started.unsigned_abs()),
        ended: job.ended.map(i64::unsigned_abs),
        metadata: pairs.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect(),
        runtime_env_json: job.runtime_env.as_ref().map(dumps),
        cpus: Some(job.asked.cpus),
        agent: Some(format!("http://{HEAD_IP}:52365")),
        node_id: Some(head.to_string()),
        exit_code: job.exit_code(),
    }
}

/// The submission id in a key of the namespace `job`.
fn submission<'a>(key: &'a [u8], namespace: &[u8]) -> Option<&'a str> {
    std::str::from_utf8(key).ok().filter(|_| namespace == b"job")?.strip_prefix(JOB_KEY)
}

fn keys(message: &[u8], shared: &Shared) -> Outcome {
    let request: KeyRequest = parse(message)?;
    let prefix = request.keys.first().cloned().unwrap_or_default();
    let results = shared.now(|c| {
        let all =
            c.jobs.iter().filter(|_| request.namespace == "job").filter_map(|j| j.submission.as_deref());
        all.map(|id| format!("{JOB_KEY}{id}").into_bytes()).filter(|k| k.starts_with(&prefix)).collect()
    });
    Ok(KeysReply { status: OK, results }.encode_to_vec().into())
}

/// The value of a key of the namespace `job`.
fn read(key: &[u8], namespace: &[u8], cluster: &mut Cluster, autoscaler: AutoscalerVersion) -> Option<Bytes> {
    if key == V1_REPORT && namespace.is_empty() && autoscaler == AutoscalerVersion::V1 {
        return Some(status::stored(cluster).into());
    }
    if namespace.is_empty() {
        return cluster.packages.get(std::str::from_utf8(key).ok()?).cloned();
    }
    let id = submission(key, namespace)?;
    let head = cluster.head();
    cluster.job(id).filter(|j| j.submission.is_some()).map(|j| j.stored(head))
}

fn value(message: &[u8], shared: &Shared) -> Outcome {
    let request: KeyRequest = parse(message)?;
    let key = request.keys.first().cloned().unwrap_or_default();
    let none = || GcsStatus { code: NOT_FOUND, message: "Failed to find the key".into() };
    let reply = shared.now(|c| read(&key, &request.namespace, c, shared.scenario.autoscaler)).map_or_else(
        || ValueReply { status: Some(none()), value: Bytes::new() },
        |value| ValueReply { status: OK, value },
    );
    Ok(reply.encode_to_vec().into())
}

/// Only packages can be written here.
fn put(message: &[u8], shared: &Shared) -> Outcome {
    let request: PutRequest = parse(message)?;
    let key = String::from_utf8(request.key).map_err(|_| Status::malformed())?;
    shared.hear("POST", "/ray.rpc.InternalKVGcsService/InternalKVPut", &key.as_str().into());
    if !request.namespace.is_empty() {
        return Err(Status::unimplemented());
    }
    let added = shared.now(|c| {
        let is_new = !c.packages.contains_key(&key);
        if is_new || request.overwrite {
            c.packages.insert(key, request.value);
        }
        is_new
    });
    Ok(PutReply { status: OK, added }.encode_to_vec().into())
}

/// Keys that are not there are left out.
fn values(message: &[u8], shared: &Shared) -> Outcome {
    let request: KeyRequest = parse(message)?;
    let pair = |key: Bytes, c: &mut Cluster| {
        read(&key, &request.namespace, c, shared.scenario.autoscaler).map(|value| KeyValue { key, value })
    };
    let results = shared.now(|c| request.keys.iter().filter_map(|key| pair(key.clone(), c)).collect());
    Ok(ValuesReply { status: OK, results }.encode_to_vec().into())
}
