//! The methods of the simulated GCS: cluster status, nodes, drivers, and the jobs in the key-value store.

use super::super::cluster::Cluster;
use super::super::cluster::job::{DRIVER_PID, SimJob};
use super::super::cluster::node::SimNode;
use super::super::dashboard::status;
use super::super::json::dumps;
use super::super::shared::Shared;
use super::call::{Outcome, Status, ids, parse};
use super::drain::drain_node;
use crate::model::sort;
use crate::model::{AutoscalerVersion, DeathReason, NodeId};
use crate::proto::autoscaler::{
    AutoscalingState, ClusterResourceState, FailedInstanceRequest, GetClusterStatusReply,
    GetClusterStatusRequest, NodeState, NodeStatus, PendingInstance, PendingInstanceRequest, ResourceRequest,
    ResourceRequestByCount,
};
use crate::proto::gcs_node_info::GcsNodeState;
use crate::proto::node_death_info::Reason;
use crate::proto::{
    Address, CheckAliveReply, CheckAliveRequest, GcsNodeInfo, GcsStatus, GetAllJobInfoReply,
    GetAllJobInfoRequest, GetAllNodeInfoReply, GetAllNodeInfoRequest, InternalKvGetReply,
    InternalKvGetRequest, InternalKvKeysReply, InternalKvKeysRequest, InternalKvMultiGetReply,
    InternalKvMultiGetRequest, InternalKvPutReply, InternalKvPutRequest, JOB_KEY_PREFIX, JOB_NAMESPACE,
    JobConfig, JobTableData, JobsApiInfo, MapFieldEntry, NodeDeathInfo, RuntimeEnvInfo, STATUS_NOT_FOUND,
    V1_REPORT, path,
};
use bytes::Bytes;
use prost::Message;
use std::collections::BTreeMap;

/// The implementation of the method with this path.
pub(super) fn find(path: &str) -> Option<fn(&[u8], &Shared) -> Outcome> {
    Some(match path {
        path::GET_CLUSTER_STATUS => cluster_status,
        path::DRAIN_NODE => drain_node,
        path::GET_ALL_NODE_INFO => all_node_info,
        path::CHECK_ALIVE => check_alive,
        path::GET_ALL_JOB_INFO => all_job_info,
        path::KV_KEYS => keys,
        path::KV_GET => value,
        path::KV_MULTI_GET => values,
        path::KV_PUT => put,
        _ => return None,
    })
}

/// Success, as the GCS' own status inside a reply.
const OK: Option<GcsStatus> = Some(GcsStatus { code: 0, message: String::new() });

fn cluster_status(message: &[u8], shared: &Shared) -> Outcome {
    parse::<GetClusterStatusRequest>(message)?;
    let v2 = shared.scenario.autoscaler == AutoscalerVersion::V2;
    Ok(shared.kept("GetClusterStatus", |c| {
        let requests = c.demand().into_iter().map(|w| ResourceRequestByCount {
            request: Some(ResourceRequest { resources_bundle: sort::collected(w.shape) }),
            count: w.count,
        });
        let resources = ClusterResourceState {
            cluster_resource_state_version: c.version as i64,
            last_seen_autoscaler_state_version: if v2 { c.monitor.loops } else { 0 },
            pending_resource_requests: requests.collect(),
            node_states: c.nodes.iter().map(|n| node_state(n, c)).collect(),
            cluster_session_name: c.session.clone(),
            ..ClusterResourceState::default()
        };
        let status = GetClusterStatusReply {
            autoscaling_state: v2.then(|| autoscaling(c)),
            cluster_resource_state: Some(resources),
        };
        status.encode_to_vec().into()
    }))
}

fn bytes_of(id: NodeId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

fn alive(node: &SimNode) -> GcsNodeState {
    if node.is_alive() { GcsNodeState::Alive } else { GcsNodeState::Dead }
}

/// The total amount of each of a node's resources.
fn totals(node: &SimNode) -> BTreeMap<String, f64> {
    sort::collected(node.resources.iter().map(|(name, total, _)| (name.clone(), *total)))
}

/// A dead node has only its id, address and status; a resource that is fully used is absent.
fn node_state(node: &SimNode, cluster: &Cluster) -> NodeState {
    let mut state = NodeState {
        node_id: bytes_of(node.id),
        instance_id: node.instance_id.clone(),
        ray_node_type_name: node.node_type.to_string(),
        node_state_version: cluster.version as i64,
        node_ip_address: node.ip.clone(),
        ..NodeState::default()
    };
    if !node.is_alive() {
        state.set_status(NodeStatus::Dead);
        return state;
    }
    state.set_status(match node.idle_since {
        _ if cluster.is_draining(node.id) => NodeStatus::Draining,
        Some(_) => NodeStatus::Idle,
        None => NodeStatus::Running,
    });
    state.idle_duration_ms = node.idle_since.map_or(0, |since| (cluster.now - since).max(0));
    state.total_resources = totals(node);
    let left = node.resources.iter().map(|(name, total, used)| (name.clone(), total - used));
    state.available_resources = sort::collected(left.filter(|(_, left)| *left > 0.0));
    if node.idle_since.is_none() {
        state.node_activity = vec!["Busy workers on node.".into(), "Resource: CPU currently in use.".into()];
    }
    state.labels = sort::collected(node.labels.iter().cloned());
    state
}

fn autoscaling(cluster: &Cluster) -> AutoscalingState {
    let scaling = cluster.autoscaling();
    // Each infeasible request is a separate entry, without a count.
    let infeasible = cluster.reported_demand().into_iter().filter(|w| w.infeasible).flat_map(|w| {
        let request = ResourceRequest { resources_bundle: sort::collected(w.shape) };
        std::iter::repeat_n(request, usize::try_from(w.count).unwrap_or(0))
    });
    let pending = scaling.launching.into_iter().map(|l| PendingInstanceRequest {
        ray_node_type_name: l.node_type.to_string(),
        count: l.count,
        request_ts: l.since / 1000,
    });
    let joining = scaling.joining.into_iter().map(|j| PendingInstance {
        ray_node_type_name: j.node_type.to_string(),
        instance_id: j.instance_id,
        ip_address: j.ip,
        details: String::new(),
    });
    let failed = scaling.refused.into_iter().map(|r| FailedInstanceRequest {
        ray_node_type_name: r.node_type.to_string(),
        count: r.count,
        reason: r.reason,
        start_ts: r.since / 1000,
        failed_ts: r.at / 1000,
    });
    AutoscalingState {
        last_seen_cluster_resource_state_version: cluster.monitor.saw as i64,
        autoscaler_state_version: cluster.monitor.loops,
        pending_instance_requests: pending.collect(),
        infeasible_resource_requests: infeasible.collect(),
        pending_instances: joining.collect(),
        failed_instance_requests: failed.collect(),
        ..AutoscalingState::default()
    }
}

fn all_node_info(message: &[u8], shared: &Shared) -> Outcome {
    let request: GetAllNodeInfoRequest = parse(message)?;
    let wanted =
        ids("GetAllNodeInfo", request.node_selectors.iter().filter_map(|s| s.node_id.as_ref()), shared)?;
    if wanted.is_empty() && request.state_filter.is_none() && request.limit.is_none() {
        return Ok(shared.kept("GetAllNodeInfo", |c| node_infos(c, &request, &wanted)));
    }
    Ok(shared.now(|c| node_infos(c, &request, &wanted)))
}

fn node_infos(cluster: &Cluster, request: &GetAllNodeInfoRequest, wanted: &[NodeId]) -> Bytes {
    let of_state = |n: &&SimNode| request.state_filter.is_none_or(|state| state == i32::from(alive(n)));
    let nodes = cluster.nodes.iter().filter(of_state).filter(|n| wanted.is_empty() || wanted.contains(&n.id));
    let limit = request.limit.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let nodes: Vec<GcsNodeInfo> = nodes.take(limit).map(|n| node_info(n, &cluster.session)).collect();
    let total = cluster.nodes.len() as i64;
    GetAllNodeInfoReply { status: OK, num_filtered: total - nodes.len() as i64, total, node_info_list: nodes }
        .encode_to_vec()
        .into()
}

fn node_info(node: &SimNode, session: &str) -> GcsNodeInfo {
    let reason = |reason| match reason {
        DeathReason::Unspecified => Reason::Unspecified,
        DeathReason::Expected => Reason::ExpectedTermination,
        DeathReason::Unexpected => Reason::UnexpectedTermination,
        DeathReason::Preempted => Reason::AutoscalerDrainPreempted,
    };
    GcsNodeInfo {
        node_id: bytes_of(node.id),
        node_manager_address: node.ip.clone(),
        raylet_socket_name: format!("/tmp/ray/{session}/sockets/raylet").into(),
        object_store_socket_name: format!("/tmp/ray/{session}/sockets/plasma_store").into(),
        node_manager_port: 43_585,
        object_manager_port: 42_443,
        state: alive(node).into(),
        node_manager_hostname: node.hostname.clone(),
        metrics_export_port: 41_105,
        resources_total: totals(node),
        node_name: node.ip.clone(),
        instance_id: node.instance_id.clone(),
        node_type_name: node.node_type.to_string(),
        start_time_ms: node.started.unsigned_abs(),
        end_time_ms: node.end.map_or(0, |e| e.at.unsigned_abs()),
        is_head_node: node.is_head,
        labels: sort::collected(node.labels.iter().cloned()),
        death_info: node
            .end
            .map(|e| NodeDeathInfo { reason: reason(e.reason).into(), reason_message: e.message.into() }),
        dashboard_agent_listen_port: 52_365,
    }
}

fn check_alive(message: &[u8], shared: &Shared) -> Outcome {
    let request: CheckAliveRequest = parse(message)?;
    let wanted = ids("CheckAlive", request.node_ids.iter(), shared)?;
    let alive = shared.now(|c| wanted.iter().map(|id| c.node(*id).is_some_and(|n| n.is_alive())).collect());
    Ok(CheckAliveReply { status: OK, ray_version: shared.scenario.ray_version.clone(), raylet_alive: alive }
        .encode_to_vec()
        .into())
}

/// Lists drivers only: a submission appears here once its script has called `ray.init`.
fn all_job_info(message: &[u8], shared: &Shared) -> Outcome {
    let request: GetAllJobInfoRequest = parse(message)?;
    let limit = request.limit.and_then(|n| usize::try_from(n).ok());
    let skip = request.skip_submission_job_info_field.unwrap_or(false);
    let list = |c: &mut Cluster| {
        let head = c.head();
        let jobs =
            c.jobs.iter().filter_map(|j| driver(j, head, skip)).take(limit.unwrap_or(usize::MAX)).collect();
        GetAllJobInfoReply { status: OK, job_info_list: jobs }.encode_to_vec().into()
    };
    Ok(match (limit, skip) {
        (Some(_), _) => shared.now(list),
        (None, true) => shared.kept("GetAllJobInfo", list),
        (None, false) => shared.kept("GetAllJobInfo with submissions", list),
    })
}

fn driver(job: &SimJob, head: NodeId, skip_submission: bool) -> Option<JobTableData> {
    let id = job.driver.as_deref()?;
    let byte = |i: usize| u8::from_str_radix(id.get(2 * i..2 * i + 2)?, 16).ok();
    let job_id: Vec<u8> = (0..4).filter_map(byte).collect();
    let submission = job.submission.iter().map(|s| ("job_submission_id".to_owned(), s.clone()));
    let address = Address {
        node_id: bytes_of(job.driver_node.unwrap_or(head)),
        ip_address: job.driver_ip().into(),
        port: 11_171,
        worker_id: [job_id.as_slice(), &[0xff; 24]].concat().into(),
    };
    let runtime_env = RuntimeEnvInfo {
        serialized_runtime_env: job.runtime_env.as_ref().map_or_else(|| "{}".into(), dumps),
    };
    let has_info = !skip_submission && job.submission.is_some();
    let job_info = if has_info { submission_info(job, head).encode_to_vec().into() } else { Bytes::new() };
    Some(JobTableData {
        is_dead: job.status.is_ended(),
        timestamp: job.ended.unwrap_or(job.started),
        driver_ip_address: job.driver_ip().into(),
        driver_pid: DRIVER_PID.into(),
        config: Some(JobConfig {
            runtime_env_info: runtime_env.encode_to_vec().into(),
            ray_namespace: format!("{:08x}-{id}-4ffb-8f4a-{:012x}", job.started & 0xffff_ffff, job.started),
            metadata: sort::collected(submission),
            py_driver_sys_path: ["experiments", "src"]
                .map(|d| format!("/tmp/ray/runtime_resources/working_dir_files/_ray_pkg/{d}").into())
                .into(),
        }),
        start_time: job.started.unsigned_abs(),
        end_time: job.ended.unwrap_or(0).unsigned_abs(),
        entrypoint: job.entrypoint.clone(),
        job_info,
        driver_address: address.encode_to_vec().into(),
        job_id: job_id.into(),
    })
}

fn submission_info(job: &SimJob, head: NodeId) -> JobsApiInfo {
    let pairs = job.metadata.iter().filter_map(|m| m.as_object()).flatten();
    JobsApiInfo {
        status: job.status_label(),
        entrypoint: job.entrypoint.clone(),
        message: job.message.clone(),
        error_type: job.error.map(str::to_owned),
        start_time: Some(job.started.unsigned_abs()),
        end_time: job.ended.map(i64::unsigned_abs),
        metadata: sort::collected(pairs.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))),
        runtime_env_json: job.runtime_env.as_ref().map(dumps),
        entrypoint_num_cpus: Some(job.requested.cpus),
        driver_agent_http_address: Some(format!("http://{}:52365", job.driver_ip())),
        driver_node_id: Some(job.driver_node.unwrap_or(head).to_string()),
        driver_exit_code: job.exit_code(),
    }
}

/// The submission id in a key of the namespace `job`.
fn submission<'a>(key: &'a [u8], namespace: &[u8]) -> Option<&'a str> {
    std::str::from_utf8(key.strip_prefix(JOB_KEY_PREFIX).filter(|_| namespace == JOB_NAMESPACE)?).ok()
}

fn keys(message: &[u8], shared: &Shared) -> Outcome {
    let request: InternalKvKeysRequest = parse(message)?;
    let results = shared.now(|c| {
        let all = c
            .jobs
            .iter()
            .filter(|_| request.namespace == JOB_NAMESPACE)
            .filter_map(|j| j.submission.as_deref());
        all.map(|id| Bytes::from([JOB_KEY_PREFIX, id.as_bytes()].concat()))
            .filter(|k| k.starts_with(&request.prefix))
            .collect()
    });
    Ok(InternalKvKeysReply { status: OK, results }.encode_to_vec().into())
}

/// The value of a key: a job in the namespace `job`; without a namespace, the report of autoscaler v1 or a package.
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
    let request: InternalKvGetRequest = parse(message)?;
    let none = || GcsStatus { code: STATUS_NOT_FOUND, message: "Failed to find the key".into() };
    let reply =
        shared.now(|c| read(&request.key, &request.namespace, c, shared.scenario.autoscaler)).map_or_else(
            || InternalKvGetReply { status: Some(none()), value: Bytes::new() },
            |value| InternalKvGetReply { status: OK, value },
        );
    Ok(reply.encode_to_vec().into())
}

/// Writes a package; the only values that can be written here.
fn put(message: &[u8], shared: &Shared) -> Outcome {
    let request: InternalKvPutRequest = parse(message)?;
    let key = String::from_utf8(request.key.into()).map_err(|_| Status::malformed())?;
    shared.report_request("POST", path::KV_PUT, &key.as_str().into());
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
    Ok(InternalKvPutReply { status: OK, added }.encode_to_vec().into())
}

/// Missing keys are omitted from the reply.
fn values(message: &[u8], shared: &Shared) -> Outcome {
    let request: InternalKvMultiGetRequest = parse(message)?;
    let pair = |key: Bytes, c: &mut Cluster| {
        read(&key, &request.namespace, c, shared.scenario.autoscaler)
            .map(|value| MapFieldEntry { key, value })
    };
    let results = shared.now(|c| request.keys.iter().filter_map(|key| pair(key.clone(), c)).collect());
    Ok(InternalKvMultiGetReply { status: OK, results }.encode_to_vec().into())
}
