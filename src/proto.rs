//! The messages of Ray's GCS and of libtpu's runtime metrics, and the names of their methods and keys.
//!
//! The messages in `generated` are those of `assets/ray/*.proto` and `assets/tpu/*.proto`; `tests/unit/proto.rs`
//! generates them. They are kept here so that a build needs no generator.
//!
//! The clients and the simulated heads and hosts use the same messages. Tests compare their names and numbers with a
//! real Ray and with the classes that Google generates.

#![allow(clippy::pedantic, reason = "most of it is generated")]
#![cfg_attr(not(feature = "demo"), allow(dead_code, reason = "only the simulated heads use some messages"))]

mod raw;

pub use raw::Raw;

/// The innermost cause of a tonic error, which names the reason; the outer ones say only that a transport failed.
pub fn innermost_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

include!("proto/generated/ray.rpc.rs");

/// Package `ray.rpc.autoscaler`.
pub mod autoscaler {
    include!("proto/generated/ray.rpc.autoscaler.rs");
}

/// Package `tpu_telemetry`: the state of a TensorCore.
pub mod tpu_telemetry {
    include!("proto/generated/tpu_telemetry.rs");
}

/// Package `tpu.monitoring.runtime`: libtpu's runtime metrics.
pub mod tpu {
    /// The messages, nested in two modules as the generated code of other packages expects.
    pub mod monitoring {
        /// Package `tpu.monitoring.runtime`.
        pub mod runtime {
            include!("proto/generated/tpu.monitoring.runtime.rs");
        }
    }

    /// One metric of all devices of a host.
    pub const GET_RUNTIME_METRIC: &str = "/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric";
    /// The state of each core of a host.
    pub const GET_RUNTIME_STATUS: &str = "/tpu.monitoring.runtime.RuntimeMetricService/GetTpuRuntimeStatus";
    /// Bytes of memory of each device (`MetricName.TOTAL_MEMORY` in tpu-info).
    pub const MEMORY_TOTAL: &str = "tpu.runtime.hbm.memory.total.bytes";
    /// Bytes of memory in use on each device (`MetricName.MEMORY_USAGE`).
    pub const MEMORY_USAGE: &str = "tpu.runtime.hbm.memory.usage.bytes";
    /// Percentage of the time in which each chip's TensorCore was busy (`MetricName.DUTY_CYCLE_PCT`).
    pub const DUTY_CYCLE: &str = "tpu.runtime.tensorcore.dutycycle.percent";
}

/// gRPC method paths.
pub mod path {
    /// Nodes with their current usage, demand, and the state of autoscaler v2.
    pub const GET_CLUSTER_STATUS: &str = "/ray.rpc.autoscaler.AutoscalerStateService/GetClusterStatus";
    /// Requests that a node accepts no new work.
    pub const DRAIN_NODE: &str = "/ray.rpc.autoscaler.AutoscalerStateService/DrainNode";
    /// Registration data of all nodes, dead ones included.
    pub const GET_ALL_NODE_INFO: &str = "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo";
    /// Ray's version, and whether nodes are alive.
    pub const CHECK_ALIVE: &str = "/ray.rpc.NodeInfoGcsService/CheckAlive";
    /// Drivers: those that called `ray.init`.
    pub const GET_ALL_JOB_INFO: &str = "/ray.rpc.JobInfoGcsService/GetAllJobInfo";
    /// Names of keys in the internal key-value store.
    pub const KV_KEYS: &str = "/ray.rpc.InternalKVGcsService/InternalKVKeys";
    /// Reads one value of the GCS's key-value store.
    pub const KV_GET: &str = "/ray.rpc.InternalKVGcsService/InternalKVGet";
    /// Reads several values of the GCS's key-value store.
    pub const KV_MULTI_GET: &str = "/ray.rpc.InternalKVGcsService/InternalKVMultiGet";
    /// Writes one value.
    pub const KV_PUT: &str = "/ray.rpc.InternalKVGcsService/InternalKVPut";
}

/// Namespace of the submissions in the internal key-value store.
pub const JOB_NAMESPACE: &[u8] = b"job";
/// Prefix of a submission's key; the submission id follows (`JobInfoStorageClient.JOB_DATA_KEY_PREFIX`).
pub const JOB_KEY_PREFIX: &[u8] = b"_ray_internal_job_info_";
/// Key of the legacy autoscaler's report; it has no namespace.
pub const V1_REPORT: &[u8] = b"__autoscaling_status";
/// `GcsStatus.code` of a key that does not exist, inside a reply that is OK (`StatusCode::NotFound` of Ray).
pub const STATUS_NOT_FOUND: i32 = 17;
