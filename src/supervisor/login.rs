//! How to log in to a cluster's machines, and whose host keys are trusted.

use super::Options;
use super::discover::head_address;
use crate::model::{ClusterSpec, HostName, Problem, Timestamp};
use crate::ssh::{self, Forward, KeepAlive, Tunnel, TunnelSpec};
use std::net::IpAddr;
use std::time::Duration;

/// The message for a login that accepted the key of an unknown host: its fingerprint, for the operator to compare. It
/// is also written to the audit log.
pub fn first_contact(tunnel: &Tunnel, spec: &ClusterSpec, options: &Options) -> Option<String> {
    let (host, fingerprint) = (tunnel.host(), tunnel.first_contact()?);
    options.note.record(
        &spec.name,
        &format!("first connection to {host}"),
        &format!("accepted host key {fingerprint}"),
    );
    // A loopback connection cannot be intercepted on the network.
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    (!is_here).then(|| format!("first connection to {host}: accepted host key {fingerprint}"))
}

/// Removes the known key of the cluster's head and accepts the one with this fingerprint, which is written to the audit
/// log.
pub async fn trust(spec: &ClusterSpec, options: &Options, fingerprint: &str) -> Result<(), Problem> {
    let found = head_address(spec, options, None).await?;
    let to = tunnel_spec(spec, options, found.host, Vec::new());
    ssh::trust(&to, fingerprint).await.map_err(|e| e.problem(Timestamp::now()))?;
    options.note.record(
        &spec.name,
        &format!("changed host key of {}", to.host),
        &format!("accepted {fingerprint}"),
    );
    Ok(())
}

/// How to log in to that cluster's head.
pub fn tunnel_spec(
    spec: &ClusterSpec,
    options: &Options,
    host: HostName,
    forwards: Vec<Forward>,
) -> TunnelSpec {
    TunnelSpec {
        name: spec.name.clone(),
        host,
        auth: spec.auth.clone(),
        forwards,
        known_hosts: options.known_hosts.clone(),
        run_dir: options.run_dir.clone(),
        ssh: options.ssh.clone(),
        ssh_config: options.ssh_config.clone(),
        connect_timeout: Duration::from_secs(10),
        keep_alive: KeepAlive::default(),
    }
}
