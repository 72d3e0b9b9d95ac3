//! The location of a cluster's TPUs at Google.

/// The location of a cluster's TPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpuLocation {
    pub project: String,
    pub zone: String,
    /// Label `ray-cluster-name`.
    pub cluster: String,
}

impl TpuLocation {
    /// The region of its zone.
    pub fn region(&self) -> &str {
        self.zone.rsplit_once('-').map_or(&self.zone, |(region, _)| region)
    }
}
