//! Local TCP ports for users, opened on request. A cluster keeps the same ports unless another program uses one. The
//! program's own traffic goes over sockets and never through these ports.

use crate::model::{ClusterName, LocalPorts, Problem, ProblemKind, Service, Timestamp};
use crate::ssh::{PortPlan, SshError, Tunnel};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of attempts to open a free port: another program may take it between our check and ssh's bind.
const MAX_ATTEMPTS: usize = 5;

/// The first port that is tried for a service of the cluster at this index in the list; if another program uses it, the
/// next free one.
pub fn default_port(cluster_index: usize, service: Service) -> u16 {
    service.port().saturating_add(u16::try_from(cluster_index).unwrap_or(0))
}

/// The ports of one connection, released when this is dropped.
pub struct Ports {
    plan: Arc<Mutex<PortPlan>>,
    cluster_index: usize,
    open: LocalPorts,
}

impl Ports {
    /// No ports yet, for the cluster at this index in the list.
    pub fn new(plan: &Arc<Mutex<PortPlan>>, cluster_index: usize) -> Self {
        Self { plan: Arc::clone(plan), cluster_index, open: LocalPorts::new() }
    }

    /// The open ports.
    pub fn open(&self) -> &LocalPorts {
        &self.open
    }

    /// Opens those services that are not open yet. Returns a message about ports that had to be skipped, if any.
    pub async fn listen(
        &mut self,
        tunnel: &Tunnel,
        cluster: &ClusterName,
        services: impl IntoIterator<Item = Service>,
    ) -> Result<Option<String>, Problem> {
        let mut passed = Vec::new();
        for service in services {
            if !self.open.contains_key(&service) {
                passed.extend(self.listen_for(tunnel, cluster, service).await?);
            }
        }
        Ok((!passed.is_empty()).then(|| passed.join("; ")))
    }

    async fn listen_for(
        &mut self,
        tunnel: &Tunnel,
        cluster: &ClusterName,
        service: Service,
    ) -> Result<Option<String>, Problem> {
        let first = default_port(self.cluster_index, service);
        let mut tries = 0;
        loop {
            tries += 1;
            let pick = self.lock().take(first).ok_or_else(|| {
                Problem::new(
                    ProblemKind::PortInUse,
                    format!(
                        "no free local port from {first} upwards for the {} of {cluster}",
                        service.label()
                    ),
                    "close programs that listen there (list them: ss -ltnp)",
                    Timestamp::now(),
                )
            })?;
            match tunnel.listen(pick.port, service.port()).await {
                Ok(()) => {
                    self.open.insert(service, pick.port);
                    return Ok(pick.taken.map(|taken| format!("{taken}; using {}", pick.port)));
                }
                Err(e) => {
                    self.lock().release(pick.port);
                    if !(matches!(e, SshError::PortInUse { .. }) && tries < MAX_ATTEMPTS) {
                        return Err(e.problem(Timestamp::now()));
                    }
                }
            }
        }
    }

    /// Closes all ports.
    pub async fn close(&mut self, tunnel: &Tunnel) {
        for (service, port) in std::mem::take(&mut self.open) {
            tunnel.unlisten(port, service.port()).await;
            self.lock().release(port);
        }
    }

    /// The plan contains plain numbers, so a panic elsewhere cannot have left it inconsistent.
    fn lock(&self) -> std::sync::MutexGuard<'_, PortPlan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        let mut plan = self.lock();
        self.open.values().for_each(|port| plan.release(*port));
    }
}
