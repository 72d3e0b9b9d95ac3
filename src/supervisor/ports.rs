//! Local ports for the forwards of all clusters: always the same for the same place in the list, unless another
//! program holds one.

use crate::model::{ClusterName, Problem, ProblemKind, Timestamp};
use crate::ssh::PortPlan;
use std::sync::{Arc, Mutex, PoisonError};

/// Ray's ports on a head, and the first local ones: dashboard, GCS, Ray client.
pub const RAY: [u16; 3] = [8265, 6379, 10001];

/// Three ports, given back when dropped.
pub struct Ports {
    plan: Arc<Mutex<PortPlan>>,
    /// Local ports in the order of [`RAY`].
    pub local: [u16; 3],
    /// Ports that had to be passed over, in words: one line, or none.
    pub notes: Vec<String>,
}

impl Ports {
    /// Takes the first free ports from those of the cluster's place on.
    pub fn take(plan: &Arc<Mutex<PortPlan>>, place: usize, cluster: &ClusterName) -> Result<Self, Problem> {
        let mut ports = Self { plan: Arc::clone(plan), local: [0; 3], notes: Vec::new() };
        let mut passed = Vec::new();
        for (i, first) in RAY.into_iter().enumerate() {
            let preferred = first.saturating_add(u16::try_from(place).unwrap_or(0));
            let pick = ports.lock().take(preferred).ok_or_else(|| {
                Problem::new(
                    ProblemKind::PortInUse,
                    format!("no local port is free from {preferred} on for {cluster}"),
                    "close some of the programs that listen there (ss -ltnp names them)",
                    Timestamp::now(),
                )
            })?;
            ports.local[i] = pick.port;
            passed.extend(pick.taken.iter().map(|taken| format!("{taken}, using {}", pick.port)));
        }
        ports.notes.extend((!passed.is_empty()).then(|| passed.join("; ")));
        Ok(ports)
    }

    /// The plan holds plain numbers: a panic elsewhere cannot have left it half-changed.
    fn lock(&self) -> std::sync::MutexGuard<'_, PortPlan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        let mut plan = self.lock();
        self.local.iter().for_each(|port| plan.give_back(*port));
    }
}
