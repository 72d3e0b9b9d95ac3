//! The GCS messages that the simulated head speaks (tags of Ray's `gcs_service.proto`, `gcs.proto`, `common.proto`,
//! `autoscaler.proto`).
//!
//! They are written apart from the client's on purpose: a server also sends what the client skips, so that answers
//! weigh what they really weigh, and a wrong tag in one cannot hide behind the same mistake in the other.

use bytes::Bytes;
use std::collections::HashMap;

/// `rpc.GcsStatus`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GcsStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

/// `GetClusterStatusReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ClusterStatus {
    #[prost(message, optional, tag = "1")]
    pub autoscaling: Option<AutoscalingState>,
    #[prost(message, optional, tag = "2")]
    pub resources: Option<ClusterResourceState>,
}

/// `autoscaler.ClusterResourceState`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ClusterResourceState {
    #[prost(int64, tag = "1")]
    pub version: i64,
    #[prost(int64, tag = "2")]
    pub last_seen_autoscaler_state_version: i64,
    #[prost(message, repeated, tag = "3")]
    pub nodes: Vec<NodeState>,
    #[prost(message, repeated, tag = "4")]
    pub pending: Vec<RequestCount>,
    #[prost(string, tag = "7")]
    pub session: String,
}

/// `autoscaler.NodeState`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeState {
    #[prost(bytes = "vec", tag = "1")]
    pub node_id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub instance_id: String,
    #[prost(string, tag = "3")]
    pub node_type: String,
    #[prost(map = "string, double", tag = "4")]
    pub available: HashMap<String, f64>,
    #[prost(map = "string, double", tag = "5")]
    pub total: HashMap<String, f64>,
    #[prost(int64, tag = "7")]
    pub version: i64,
    #[prost(int32, tag = "8")]
    pub status: i32,
    #[prost(int64, tag = "9")]
    pub idle_ms: i64,
    #[prost(string, tag = "10")]
    pub ip: String,
    #[prost(string, repeated, tag = "12")]
    pub activity: Vec<String>,
    #[prost(map = "string, string", tag = "13")]
    pub labels: HashMap<String, String>,
}

/// `autoscaler.ResourceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResourceRequest {
    #[prost(map = "string, double", tag = "1")]
    pub bundle: HashMap<String, f64>,
}

/// `autoscaler.ResourceRequestByCount`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RequestCount {
    #[prost(message, optional, tag = "1")]
    pub request: Option<ResourceRequest>,
    #[prost(int64, tag = "2")]
    pub count: i64,
}

/// `autoscaler.AutoscalingState`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AutoscalingState {
    #[prost(int64, tag = "1")]
    pub last_seen_cluster_resource_state_version: i64,
    #[prost(int64, tag = "2")]
    pub version: i64,
    #[prost(message, repeated, tag = "3")]
    pub pending_requests: Vec<PendingRequest>,
    #[prost(message, repeated, tag = "4")]
    pub infeasible: Vec<ResourceRequest>,
    #[prost(message, repeated, tag = "7")]
    pub joining: Vec<PendingInstance>,
    #[prost(message, repeated, tag = "8")]
    pub failed: Vec<FailedRequest>,
}

/// `autoscaler.PendingInstance`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PendingInstance {
    #[prost(string, tag = "2")]
    pub node_type: String,
    #[prost(string, tag = "3")]
    pub instance_id: String,
    #[prost(string, tag = "4")]
    pub ip: String,
    #[prost(string, tag = "5")]
    pub details: String,
}

/// `autoscaler.PendingInstanceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PendingRequest {
    #[prost(string, tag = "2")]
    pub node_type: String,
    #[prost(int32, tag = "3")]
    pub count: i32,
    #[prost(int64, tag = "4")]
    pub request_ts: i64,
}

/// `autoscaler.FailedInstanceRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FailedRequest {
    #[prost(string, tag = "2")]
    pub node_type: String,
    #[prost(int32, tag = "3")]
    pub count: i32,
    #[prost(string, tag = "4")]
    pub reason: String,
    #[prost(int64, tag = "5")]
    pub start_ts: i64,
    #[prost(int64, tag = "6")]
    pub failed_ts: i64,
}

/// `DrainNodeRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DrainRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub node_id: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub reason: i32,
    #[prost(string, tag = "3")]
    pub words: String,
    /// Milliseconds since the epoch; 0 for none.
    #[prost(int64, tag = "4")]
    pub deadline: i64,
}

/// `DrainNodeReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DrainReply {
    #[prost(bool, tag = "1")]
    pub is_accepted: bool,
    #[prost(string, tag = "2")]
    pub rejection: String,
}

/// `GetAllNodeInfoRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeInfoRequest {
    #[prost(int64, optional, tag = "1")]
    pub limit: Option<i64>,
    #[prost(message, repeated, tag = "2")]
    pub selectors: Vec<NodeSelector>,
    #[prost(int32, optional, tag = "3")]
    pub state: Option<i32>,
}

/// `GetAllNodeInfoRequest.NodeSelector`, of which only the id matters here.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeSelector {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub node_id: Option<Vec<u8>>,
}

/// `GetAllNodeInfoReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeInfoReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    #[prost(message, repeated, tag = "2")]
    pub nodes: Vec<NodeInfo>,
    #[prost(int64, tag = "3")]
    pub total: i64,
    #[prost(int64, tag = "4")]
    pub filtered: i64,
}

/// `GcsNodeInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NodeInfo {
    #[prost(bytes = "vec", tag = "1")]
    pub node_id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub ip: String,
    #[prost(string, tag = "3")]
    pub raylet_socket: String,
    #[prost(string, tag = "4")]
    pub store_socket: String,
    #[prost(int32, tag = "5")]
    pub manager_port: i32,
    #[prost(int32, tag = "6")]
    pub object_port: i32,
    #[prost(int32, tag = "7")]
    pub state: i32,
    #[prost(string, tag = "8")]
    pub hostname: String,
    #[prost(int32, tag = "9")]
    pub metrics_port: i32,
    #[prost(map = "string, double", tag = "11")]
    pub total: HashMap<String, f64>,
    #[prost(string, tag = "12")]
    pub name: String,
    #[prost(string, tag = "13")]
    pub instance_id: String,
    #[prost(string, tag = "14")]
    pub node_type: String,
    #[prost(uint64, tag = "23")]
    pub started: u64,
    #[prost(uint64, tag = "24")]
    pub ended: u64,
    #[prost(bool, tag = "25")]
    pub is_head: bool,
    #[prost(map = "string, string", tag = "26")]
    pub labels: HashMap<String, String>,
    #[prost(message, optional, tag = "29")]
    pub death: Option<DeathInfo>,
    #[prost(int32, tag = "31")]
    pub agent_port: i32,
}

/// `NodeDeathInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeathInfo {
    #[prost(int32, tag = "1")]
    pub reason: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

/// `CheckAliveRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AliveRequest {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub node_ids: Vec<Vec<u8>>,
}

/// `CheckAliveReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AliveReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    #[prost(string, tag = "2")]
    pub ray_version: String,
    #[prost(bool, repeated, tag = "3")]
    pub alive: Vec<bool>,
}

/// `GetAllJobInfoReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct JobInfoReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    #[prost(message, repeated, tag = "2")]
    pub jobs: Vec<JobData>,
}

/// `JobTableData`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct JobData {
    #[prost(bytes = "vec", tag = "1")]
    pub job_id: Vec<u8>,
    #[prost(bool, tag = "2")]
    pub is_dead: bool,
    #[prost(int64, tag = "3")]
    pub timestamp: i64,
    #[prost(string, tag = "4")]
    pub driver_ip: String,
    #[prost(int64, tag = "5")]
    pub driver_pid: i64,
    #[prost(message, optional, tag = "6")]
    pub config: Option<JobConfig>,
    #[prost(uint64, tag = "7")]
    pub started: u64,
    #[prost(uint64, tag = "8")]
    pub ended: u64,
    #[prost(string, tag = "9")]
    pub entrypoint: String,
    #[prost(message, optional, tag = "10")]
    pub job_info: Option<JobsApiInfo>,
    #[prost(message, optional, tag = "12")]
    pub driver_address: Option<Address>,
}

/// `Address`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Address {
    #[prost(bytes = "vec", tag = "1")]
    pub node_id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub ip: String,
    #[prost(int32, tag = "3")]
    pub port: i32,
    #[prost(bytes = "vec", tag = "4")]
    pub worker_id: Vec<u8>,
}

/// `JobsAPIInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct JobsApiInfo {
    #[prost(string, tag = "1")]
    pub status: String,
    #[prost(string, tag = "2")]
    pub entrypoint: String,
    #[prost(string, optional, tag = "3")]
    pub message: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub error_type: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    pub started: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub ended: Option<u64>,
    #[prost(map = "string, string", tag = "7")]
    pub metadata: HashMap<String, String>,
    #[prost(string, optional, tag = "8")]
    pub runtime_env_json: Option<String>,
    #[prost(double, optional, tag = "9")]
    pub cpus: Option<f64>,
    #[prost(string, optional, tag = "12")]
    pub agent: Option<String>,
    #[prost(string, optional, tag = "13")]
    pub node_id: Option<String>,
    #[prost(int32, optional, tag = "14")]
    pub exit_code: Option<i32>,
}

/// `RuntimeEnvInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RuntimeEnvInfo {
    #[prost(string, tag = "1")]
    pub serialized: String,
}

/// `GetAllJobInfoRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct JobInfoRequest {
    #[prost(int32, optional, tag = "1")]
    pub limit: Option<i32>,
    #[prost(bool, optional, tag = "3")]
    pub skip_submission: Option<bool>,
}

/// `JobConfig`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct JobConfig {
    #[prost(message, optional, tag = "4")]
    pub runtime_env: Option<RuntimeEnvInfo>,
    #[prost(string, tag = "5")]
    pub namespace: String,
    #[prost(map = "string, string", tag = "6")]
    pub metadata: HashMap<String, String>,
    #[prost(string, repeated, tag = "8")]
    pub sys_path: Vec<String>,
}

/// Requests of the key-value store: `InternalKVKeys` and `InternalKVGet` have one key, `InternalKVMultiGet` many.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyRequest {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub keys: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "2")]
    pub namespace: Bytes,
}

/// `InternalKVPutRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    #[prost(bool, tag = "3")]
    pub overwrite: bool,
    #[prost(bytes = "bytes", tag = "4")]
    pub namespace: Bytes,
}

/// `InternalKVPutReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PutReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    #[prost(bool, tag = "2")]
    pub added: bool,
}

/// `InternalKVKeysReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeysReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub results: Vec<Vec<u8>>,
}

/// `InternalKVGetReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ValueReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// `InternalKVMultiGetReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ValuesReply {
    #[prost(message, optional, tag = "1")]
    pub status: Option<GcsStatus>,
    #[prost(message, repeated, tag = "2")]
    pub results: Vec<KeyValue>,
}

/// `MapFieldEntry`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}
