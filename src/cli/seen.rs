//! A cluster as a command reads it once: in the console's own shape, so that both say the same of it.

use super::reach::{Progress, Reach};
use crate::app::Cluster;
use crate::state::ClusterState;
use crate::supervisor::{self, Session};

/// Reads the cluster. Fails when Ray does not answer; what else is missing is said on stderr.
pub(super) async fn read(reach: &Reach, progress: &Progress) -> anyhow::Result<Cluster> {
    reach.accept_host_key().await.map_err(|problem| reach.error(&problem))?;
    let tell = |phase| progress.phase(phase);
    let state = supervisor::read_state(&reach.spec, reach.place, (&reach.options, false), tell).await;
    checked(reach, state)
}

/// The same over a session that is open already.
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
