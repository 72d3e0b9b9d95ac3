//! Where a cluster's TPUs are at Google.

/// Where a cluster's TPUs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpuPlace {
    pub project: String,
    pub zone: String,
    /// Label `ray-cluster-name`.
    pub cluster: String,
}
