//! Reads a cluster once, in the same form as the console, so that both report the same.

use super::reach::{Progress, Reach};
use crate::app::Cluster;
use crate::config::nearest;
use crate::model::SnapshotPart;
use crate::model::sort;
use crate::state::ClusterState;
use crate::supervisor::{self, Session};
use anyhow::bail;
use std::collections::BTreeSet;

/// Reads the cluster. Fails if Ray does not respond; other missing data is reported on stderr.
pub(super) async fn read(reach: &Reach, progress: &Progress) -> anyhow::Result<Cluster> {
    reach.accept_host_key().await.map_err(|problem| reach.error(&problem))?;
    let on_phase = |phase| progress.phase(phase);
    let state =
        supervisor::read_state(&reach.spec, reach.cluster_index, (&reach.options, false), on_phase).await;
    checked(reach, state)
}

/// Like [`read`], over an open session.
pub(super) async fn read_open(reach: &Reach, session: &Session) -> anyhow::Result<Cluster> {
    checked(reach, supervisor::read_open(&reach.spec, &reach.options, session).await)
}

fn checked(reach: &Reach, state: ClusterState) -> anyhow::Result<Cluster> {
    if let (false, Some(problem)) = (state.known, state.problem()) {
        return Err(reach.error(problem));
    }
    for part in &state.snapshot.missing {
        eprintln!("incomplete: {part}");
    }
    Ok(Cluster::of(reach.spec.clone(), state))
}

/// An error if a part of the state, such as `jobs`, could not be read: nothing is known of it.
pub(super) fn require(part: SnapshotPart, reach: &Reach, state: &ClusterState) -> anyhow::Result<()> {
    match state.snapshot.lacks(&[part]) {
        Some(missing) => bail!(
            "{}: cannot read {missing}; retry, and check dashboard.log and gcs_server.out on the head",
            reach.spec.name
        ),
        None => Ok(()),
    }
}

/// An error if the cluster has no such node type, neither in its file nor among its nodes.
pub(super) fn check_type(wanted: Option<&str>, reach: &Reach, cluster: &Cluster) -> anyhow::Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let of_file = reach.spec.node_types.iter().map(|t| t.name.as_str());
    let of_nodes = cluster.snapshot.nodes.iter().map(|node| node.node_type.raw());
    let known: BTreeSet<&str> = sort::collected(of_file.chain(of_nodes).filter(|name| !name.is_empty()));
    if known.contains(wanted) {
        return Ok(());
    }
    let near = nearest(wanted, known.iter().copied());
    let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let all =
        if known.is_empty() { "none".to_owned() } else { known.into_iter().collect::<Vec<_>>().join(", ") };
    bail!("{} has no node type `{wanted}`; {near}its types: {all}", reach.spec.name)
}
