//! The messages of Ray's GCS that the console uses, written by hand: a subset of `ray/protobuf/*.proto`.
//!
//! Field numbers were read from the descriptors of Ray 2.53.0 and 2.60.0 and agree in both; whatever a newer Ray
//! adds is skipped, as proto3 requires. Public, because the simulated heads use the same messages; a test against a
//! real Ray checks the numbers.

use crate::model::NodeId;
use bytes::Bytes;
use prost::Message;
use std::collections::BTreeMap;

/// Method paths, as gRPC names them.
pub mod path {
    /// Nodes with live use, demand, and the state of autoscaler v2.
    pub const GET_CLUSTER_STATUS: &str = "/ray.rpc.autoscaler.AutoscalerStateService/GetClusterStatus";
    /// Registration data of all nodes, dead ones included.
    pub const GET_ALL_NODE_INFO: &str = "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo";
    /// Ray's version, and whether nodes are alive.
    pub const CHECK_ALIVE: &str = "/ray.rpc.NodeInfoGcsService/CheckAlive";
    /// Drivers: those that called `ray.init`.
    pub const GET_ALL_JOB_INFO: &str = "/ray.rpc.JobInfoGcsService/GetAllJobInfo";
    /// Names of keys in the internal key-value store.
    pub const KV_KEYS: &str = "/ray.rpc.InternalKVGcsService/InternalKVKeys";
    pub const KV_GET: &str = "/ray.rpc.InternalKVGcsService/InternalKVGet";
    pub const KV_MULTI_GET: &str = "/ray.rpc.InternalKVGcsService/InternalKVMultiGet";
    /// Writes one value.
    pub const KV_PUT: &str = "/ray.rpc.InternalKVGcsService/InternalKVPut";
}

/// Namespace of the submissions in the internal key-value store.
pub const JOB_NAMESPACE: &[u8] = b"job";
/// What a submission's key begins with; the submission id follows (`JobInfoStorageClient.JOB_DATA_KEY_PREFIX`).
pub const JOB_KEY_PREFIX: &[u8] = b"_ray_internal_job_info_";
/// `GcsStatus.code` of a key that does not exist, inside a reply that is OK (`StatusCode::NotFound` of Ray).
pub const STATUS_NOT_FOUND: i32 = 17;

/// `GcsNodeInfo.GcsNodeState` of a dead node, 0 being alive; also to filter by.
pub const NODE_DEAD: i32 = 1;

/// `GcsStatus`: the outcome inside a reply.
#[derive(Clone, PartialEq, Message)]
pub struct GcsStatus {
    /// 0 is success.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Ray's words.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// `GetClusterStatusRequest`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct GetClusterStatusRequest {}

/// `GetClusterStatusReply`.
#[derive(Clone, PartialEq, Message)]
pub struct GetClusterStatusReply {
    /// Filled by autoscaler v2 only.
    #[prost(message, optional, tag = "1")]
    pub autoscaling_state: Option<AutoscalingState>,
    /// Filled by the GCS itself, with either autoscaler.
    #[prost(message, optional, tag = "2")]
    pub cluster_resource_state: Option<ClusterResourceState>,
}

/// The GCS' view of resources and pending demand.
#[derive(Clone, PartialEq, Message)]
pub struct ClusterResourceState {
    /// Grows with each report.
    #[prost(int64, tag = "1")]
    pub cluster_resource_state_version: i64,
    /// The last autoscaler report that the GCS got; 0 without autoscaler v2.
    #[prost(int64, tag = "2")]
    pub last_seen_autoscaler_state_version: i64,
    #[prost(message, repeated, tag = "3")]
    pub node_states: Vec<NodeState>,
    /// Pending tasks and actors.
    #[prost(message, repeated, tag = "4")]
    pub pending_resource_requests: Vec<ResourceRequestByCount>,
    /// Pending placement groups.
    #[prost(message, repeated, tag = "5")]
    pub pending_gang_resource_requests: Vec<GangResourceRequest>,
    /// `request_resources()`.
    #[prost(message, repeated, tag = "6")]
    pub cluster_resource_constraints: Vec<ClusterResourceConstraint>,
    /// `session_name`.
    #[prost(string, tag = "7")]
    pub cluster_session_name: String,
}

/// A node with its live use.
#[derive(Clone, PartialEq, Message)]
pub struct NodeState {
    /// 28 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub node_id: Bytes,
    /// The provider's id.
    #[prost(string, tag = "2")]
    pub instance_id: String,
    /// The autoscaler's type.
    #[prost(string, tag = "3")]
    pub ray_node_type_name: String,
    /// Available amounts; a fully used resource is absent.
    #[prost(btree_map = "string, double", tag = "4")]
    pub available_resources: BTreeMap<String, f64>,
    /// Total amounts.
    #[prost(btree_map = "string, double", tag = "5")]
    pub total_resources: BTreeMap<String, f64>,
    /// See [`NodeStatus`].
    #[prost(enumeration = "NodeStatus", tag = "8")]
    pub status: i32,
    /// 0 when busy.
    #[prost(int64, tag = "9")]
    pub idle_duration_ms: i64,
    /// Address of the raylet.
    #[prost(string, tag = "10")]
    pub node_ip_address: String,
    /// The provider's machine type.
    #[prost(string, tag = "11")]
    pub instance_type_name: String,
    #[prost(btree_map = "string, string", tag = "13")]
    pub labels: BTreeMap<String, String>,
}

/// `ray.rpc.autoscaler.NodeStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum NodeStatus {
    /// Ray did not say.
    Unspecified = 0,
    /// Alive and busy.
    Running = 1,
    /// Dead; listed for a while.
    Dead = 2,
    /// Alive and idle.
    Idle = 3,
    /// About to be removed.
    Draining = 4,
}

/// One bundle of resources.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceRequest {
    /// Name and amount.
    #[prost(btree_map = "string, double", tag = "1")]
    pub resources_bundle: BTreeMap<String, f64>,
}

/// Equal bundles, counted.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceRequestByCount {
    #[prost(message, optional, tag = "1")]
    pub request: Option<ResourceRequest>,
    #[prost(int64, tag = "2")]
    pub count: i64,
}

/// A placement group.
#[derive(Clone, PartialEq, Message)]
pub struct GangResourceRequest {
    /// Its bundles (2.53, and 2.60 beside the selectors).
    #[prost(message, repeated, tag = "1")]
    pub requests: Vec<ResourceRequest>,
    /// `id:strategy|state`, in the GCS' words.
    #[prost(string, tag = "2")]
    pub details: String,
    /// Alternatives, the first one preferred.
    #[prost(message, repeated, tag = "3")]
    pub bundle_selectors: Vec<BundleSelector>,
}

/// One alternative of a placement group.
#[derive(Clone, PartialEq, Message)]
pub struct BundleSelector {
    #[prost(message, repeated, tag = "1")]
    pub resource_requests: Vec<ResourceRequest>,
}

/// One `request_resources()`.
#[derive(Clone, PartialEq, Message)]
pub struct ClusterResourceConstraint {
    #[prost(message, repeated, tag = "1")]
    pub resource_requests: Vec<ResourceRequestByCount>,
}

/// The report of autoscaler v2.
#[derive(Clone, PartialEq, Message)]
pub struct AutoscalingState {
    /// The cluster state that this report answers.
    #[prost(int64, tag = "1")]
    pub last_seen_cluster_resource_state_version: i64,
    /// Grows with each iteration of its loop.
    #[prost(int64, tag = "2")]
    pub autoscaler_state_version: i64,
    /// Nodes requested from the provider.
    #[prost(message, repeated, tag = "3")]
    pub pending_instance_requests: Vec<PendingInstanceRequest>,
    /// Demand that no node type can satisfy, one entry each, not counted.
    #[prost(message, repeated, tag = "4")]
    pub infeasible_resource_requests: Vec<ResourceRequest>,
    /// The same for placement groups.
    #[prost(message, repeated, tag = "5")]
    pub infeasible_gang_resource_requests: Vec<GangResourceRequest>,
    /// The same for `request_resources()`.
    #[prost(message, repeated, tag = "6")]
    pub infeasible_cluster_resource_constraints: Vec<ClusterResourceConstraint>,
    /// Machines without Ray yet.
    #[prost(message, repeated, tag = "7")]
    pub pending_instances: Vec<PendingInstance>,
    /// Launches that failed.
    #[prost(message, repeated, tag = "8")]
    pub failed_instance_requests: Vec<FailedInstanceRequest>,
}

/// A request for nodes to the provider.
#[derive(Clone, PartialEq, Message)]
pub struct PendingInstanceRequest {
    /// The autoscaler's type.
    #[prost(string, tag = "2")]
    pub ray_node_type_name: String,
    #[prost(int32, tag = "3")]
    pub count: i32,
    /// When; seconds since the Unix epoch.
    #[prost(int64, tag = "4")]
    pub request_ts: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PendingInstance {
    /// The autoscaler's type.
    #[prost(string, tag = "2")]
    pub ray_node_type_name: String,
    /// The autoscaler's id of it.
    #[prost(string, tag = "3")]
    pub instance_id: String,
    /// Its address, when it has one.
    #[prost(string, tag = "4")]
    pub ip_address: String,
    #[prost(string, tag = "5")]
    pub details: String,
}

/// A launch that failed.
#[derive(Clone, PartialEq, Message)]
pub struct FailedInstanceRequest {
    /// The autoscaler's type.
    #[prost(string, tag = "2")]
    pub ray_node_type_name: String,
    /// How many nodes.
    #[prost(int32, tag = "3")]
    pub count: i32,
    /// The provider's words.
    #[prost(string, tag = "4")]
    pub reason: String,
    /// Time of the request; seconds since the Unix epoch.
    #[prost(int64, tag = "5")]
    pub start_ts: i64,
    /// Time of the failure; seconds since the Unix epoch.
    #[prost(int64, tag = "6")]
    pub failed_ts: i64,
}

/// `GetAllNodeInfoRequest`, without its node selectors: a malformed id in one kills the `gcs_server`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct GetAllNodeInfoRequest {
    /// Maximum number of rows.
    #[prost(int64, optional, tag = "1")]
    pub limit: Option<i64>,
    /// Only nodes in this state, as in [`GcsNodeInfo::state`].
    #[prost(int32, optional, tag = "3")]
    pub state_filter: Option<i32>,
}

/// `GetAllNodeInfoReply`.
#[derive(Clone, PartialEq, Message)]
pub struct GetAllNodeInfoReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    /// Nodes, dead ones included.
    #[prost(message, repeated, tag = "2")]
    pub node_info_list: Vec<GcsNodeInfo>,
    /// How many there are.
    #[prost(int64, tag = "3")]
    pub total: i64,
}

/// A node's registration and its death.
#[derive(Clone, PartialEq, Message)]
pub struct GcsNodeInfo {
    /// 28 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub node_id: Bytes,
    /// Address of the raylet.
    #[prost(string, tag = "2")]
    pub node_manager_address: String,
    /// 0 alive, 1 dead.
    #[prost(int32, tag = "7")]
    pub state: i32,
    #[prost(string, tag = "8")]
    pub node_manager_hostname: String,
    /// Total amounts.
    #[prost(btree_map = "string, double", tag = "11")]
    pub resources_total: BTreeMap<String, f64>,
    /// Ray's name of it.
    #[prost(string, tag = "12")]
    pub node_name: String,
    /// The provider's id.
    #[prost(string, tag = "13")]
    pub instance_id: String,
    /// The autoscaler's type.
    #[prost(string, tag = "14")]
    pub node_type_name: String,
    /// Registered at; milliseconds since the Unix epoch.
    #[prost(uint64, tag = "23")]
    pub start_time_ms: u64,
    /// Died at; 0 while alive.
    #[prost(uint64, tag = "24")]
    pub end_time_ms: u64,
    /// Whether this is the head.
    #[prost(bool, tag = "25")]
    pub is_head_node: bool,
    #[prost(btree_map = "string, string", tag = "26")]
    pub labels: BTreeMap<String, String>,
    /// Why it died.
    #[prost(message, optional, tag = "29")]
    pub death_info: Option<NodeDeathInfo>,
}

/// Why a node died.
#[derive(Clone, PartialEq, Message)]
pub struct NodeDeathInfo {
    /// See [`NodeDeathReason`].
    #[prost(enumeration = "NodeDeathReason", tag = "1")]
    pub reason: i32,
    /// Ray's sentence.
    #[prost(string, tag = "2")]
    pub reason_message: String,
}

/// `NodeDeathInfo.Reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum NodeDeathReason {
    /// Ray did not say.
    Unspecified = 0,
    /// Stopped as intended.
    ExpectedTermination = 1,
    /// Missed its heartbeats or crashed.
    UnexpectedTermination = 2,
    /// The machine was preempted.
    AutoscalerDrainPreempted = 3,
    /// Terminated because it was idle.
    AutoscalerDrainIdle = 4,
}

/// `GetAllJobInfoRequest`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct GetAllJobInfoRequest {
    /// Maximum number of rows.
    #[prost(int32, optional, tag = "1")]
    pub limit: Option<i32>,
    /// Leaves out the submission's own record, which is in the key-value store.
    #[prost(bool, optional, tag = "3")]
    pub skip_submission_job_info_field: Option<bool>,
    /// Skips asking every driver whether it runs tasks.
    #[prost(bool, optional, tag = "4")]
    pub skip_is_running_tasks_field: Option<bool>,
}

/// `GetAllJobInfoReply`.
#[derive(Clone, PartialEq, Message)]
pub struct GetAllJobInfoReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    #[prost(message, repeated, tag = "2")]
    pub job_info_list: Vec<JobTableData>,
}

#[derive(Clone, PartialEq, Message)]
pub struct JobTableData {
    /// Four bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub job_id: Bytes,
    /// Whether it has ended.
    #[prost(bool, tag = "2")]
    pub is_dead: bool,
    /// Where it runs.
    #[prost(string, tag = "4")]
    pub driver_ip_address: String,
    #[prost(int64, tag = "5")]
    pub driver_pid: i64,
    #[prost(message, optional, tag = "6")]
    pub config: Option<JobConfig>,
    /// Started at; milliseconds since the Unix epoch.
    #[prost(uint64, tag = "7")]
    pub start_time: u64,
    /// Ended at; 0 while it runs.
    #[prost(uint64, tag = "8")]
    pub end_time: u64,
    #[prost(string, tag = "9")]
    pub entrypoint: String,
}

/// The part of `JobConfig` that identifies the submission of a driver.
#[derive(Clone, PartialEq, Message)]
pub struct JobConfig {
    /// `_ray_internal_*` for Ray's own drivers.
    #[prost(string, tag = "5")]
    pub ray_namespace: String,
    /// Holds `job_submission_id` for the driver of a submission.
    #[prost(btree_map = "string, string", tag = "6")]
    pub metadata: BTreeMap<String, String>,
}

/// `InternalKVKeysRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct KvKeysRequest {
    /// Prefix of the keys.
    #[prost(bytes = "bytes", tag = "1")]
    pub prefix: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub namespace: Bytes,
}

/// `InternalKVKeysReply`.
#[derive(Clone, PartialEq, Message)]
pub struct KvKeysReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    /// Whole keys, prefix included, in no order.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub results: Vec<Bytes>,
}

/// `InternalKVGetRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct KvGetRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    /// Namespace; empty for packages.
    #[prost(bytes = "bytes", tag = "2")]
    pub namespace: Bytes,
}

/// `InternalKVGetReply`.
#[derive(Clone, PartialEq, Message)]
pub struct KvGetReply {
    /// Outcome; a missing key is [`STATUS_NOT_FOUND`].
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// `InternalKVPutReply`.
#[derive(Clone, PartialEq, Message)]
pub struct KvPutReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
}

/// `InternalKVMultiGetRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct KvMultiGetRequest {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub keys: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "2")]
    pub namespace: Bytes,
}

/// `InternalKVMultiGetReply`.
#[derive(Clone, PartialEq, Message)]
pub struct KvMultiGetReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    #[prost(message, repeated, tag = "2")]
    pub results: Vec<KvEntry>,
}

/// A key and its value (`MapFieldEntry`).
#[derive(Clone, PartialEq, Message)]
pub struct KvEntry {
    /// The whole key.
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// `CheckAliveRequest`. Node ids go in only as [`crate::model::NodeId`] bytes: another length kills the GCS.
#[derive(Clone, PartialEq, Message)]
pub struct CheckAliveRequest {
    /// Nodes asked for; none is fine.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    node_ids: Vec<Bytes>,
}

impl CheckAliveRequest {
    /// Asks for these nodes.
    pub fn of(nodes: &[NodeId]) -> Self {
        Self { node_ids: nodes.iter().map(|id| Bytes::copy_from_slice(id.as_bytes())).collect() }
    }

    /// The ids as a server receives them.
    pub fn node_ids(&self) -> &[Bytes] {
        &self.node_ids
    }
}

/// `CheckAliveReply`.
#[derive(Clone, PartialEq, Message)]
pub struct CheckAliveReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    /// Ray's version.
    #[prost(string, tag = "2")]
    pub ray_version: String,
    /// One answer for each node asked for.
    #[prost(bool, repeated, tag = "3")]
    pub raylet_alive: Vec<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_a_request_is_always_28_bytes() {
        let request = CheckAliveRequest::of(&[NodeId::from_bytes(&[7; 28]).unwrap(); 3]);
        assert_eq!(request.node_ids().iter().map(Bytes::len).collect::<Vec<_>>(), [28; 3]);
    }

    /// A malformed node id kills the GCS, so no request may offer a field to put raw bytes for one in.
    #[test]
    fn no_request_takes_a_node_id_as_raw_bytes() {
        let source = include_str!("wire.rs");
        let requests = source.split("\npub struct ").filter(|s| {
            s.split_whitespace().next().is_some_and(|name| name.contains("Request")) && s.contains("#[prost(")
        });
        for request in requests {
            let body = request.split("\n}").next().unwrap();
            for line in body.lines().map(str::trim).filter(|l| l.starts_with("pub ")) {
                assert!(!line.contains("node_id") && !line.contains("node_selector"), "{line}");
            }
        }
        assert!(source.contains("\n    node_ids: Vec<Bytes>,"), "CheckAliveRequest keeps its ids to itself");
    }
}
