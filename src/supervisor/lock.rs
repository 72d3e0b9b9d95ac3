//! Stores the lock of an operation where other operators can read it while the cluster is down: on provider `gcp` as an
//! empty instance group in the cluster's zone, on provider `local` as a file on the head's machine.
//!
//! Acquiring is atomic: of two operators who acquire a lock at the same time, one receives the lock of the other. Changes
//! and removals always apply to the lock with a given id, never to any lock of that name.

mod file;
mod group;
mod own;

pub use own::{LockOwnership, OwnLocks};

use super::access::{Access, run_on};
use super::cloud::tpu_location;
use super::out::UpdateSender;
use super::{Options, discover};
use crate::model::{ClusterEvent, ClusterSpec, OperationLock, Problem, Provider};
use crate::ssh::Remote;
use crate::task;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Poll interval of a head without a lock.
const UNLOCKED_INTERVAL: Duration = Duration::from_secs(60);
/// Poll interval of a head with a lock, because the progress of the operation changes.
const LOCKED_INTERVAL: Duration = Duration::from_secs(10);
/// Time limit for reading or writing a file on a head.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Whether locks are stored for this cluster: only for the two providers whose clusters can be operated.
pub fn keeps_locks(spec: &ClusterSpec) -> bool {
    spec.file.is_some() && matches!(spec.provider, Provider::Gcp | Provider::Local)
}

/// The current lock on the cluster.
pub async fn read_lock(access: Access<'_>) -> Result<Option<OperationLock>, Problem> {
    let spec = access.spec;
    if is_at_google(spec) {
        return read_group(spec, access.options).await;
    }
    run(access, &file::reading(&spec.name)).await.and_then(|o| file::read(&o, &spec.name))
}

/// The lock on a cluster of provider `gcp`.
pub(super) async fn read_group(
    spec: &ClusterSpec,
    options: &Options,
) -> Result<Option<OperationLock>, Problem> {
    group::read(&options.google, &tpu_location(spec)?, &spec.name).await
}

fn is_at_google(spec: &ClusterSpec) -> bool {
    spec.provider == Provider::Gcp
}

/// Reads the lock over an open connection to the head and reports it unless it is ours. Does nothing for a cluster
/// whose locks are not stored on its head.
pub(super) async fn report(
    remote: &Remote,
    spec: &ClusterSpec,
    options: &Options,
    out: &UpdateSender,
) -> bool {
    if !keeps_locks(spec) || spec.provider != Provider::Local {
        return false;
    }
    let read = async {
        let output = remote.run(&file::reading(&spec.name), TIMEOUT).await.map_err(|e| e.to_string())?;
        file::read(&output, &spec.name).map_err(|p| p.what)
    };
    match read.await {
        Ok(lock) => {
            let lock = lock.filter(|m| !options.own_locks.has(&m.id));
            let is_locked = lock.is_some();
            out.send(ClusterEvent::Lock(lock)).await;
            is_locked
        }
        Err(_) => false,
    }
}

/// Reads the lock at intervals over the connection of a session, until the returned value is dropped.
pub(super) fn watch(
    remote: Remote,
    spec: Arc<ClusterSpec>,
    options: Arc<Options>,
    out: UpdateSender,
) -> Option<AbortOnDrop> {
    let is_there = keeps_locks(&spec) && spec.provider == Provider::Local;
    is_there.then(|| {
        AbortOnDrop(task::spawn(async move {
            loop {
                let is_locked = report(&remote, &spec, &options, &out).await;
                tokio::time::sleep(if is_locked { LOCKED_INTERVAL } else { UNLOCKED_INTERVAL }).await;
            }
        }))
    })
}

/// A task that ends with its owner.
pub(super) struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Acquires a lock where there is none.
pub async fn acquire_lock(access: Access<'_>, lock: &OperationLock) -> Result<LockOwnership, Problem> {
    let Access { spec, options, .. } = access;
    options.own_locks.add(&lock.id);
    if is_at_google(spec) {
        return group::acquire(&options.google, &tpu_location(spec)?, &spec.name, lock).await;
    }
    let output = run(access, &file::placing(&spec.name, lock)).await?;
    let is_placed = file::done(&output)?;
    let owned = verified(access, &lock.id, is_placed).await;
    owned.or_else(|problem| Ok(LockOwnership::Unreadable(Box::new(problem))))
}

/// Updates step, time and state in a lock that was placed before.
pub async fn renew_lock(access: Access<'_>, lock: &OperationLock) -> Result<LockOwnership, Problem> {
    let Access { spec, options, .. } = access;
    if is_at_google(spec) {
        return group::renew(&options.google, &tpu_location(spec)?, &spec.name, lock).await;
    }
    let output = run(access, &file::renewing(&spec.name, lock)).await?;
    verified(access, &lock.id, file::done(&output)?).await
}

/// Removes the lock with this id. A missing lock, or that of another operation, is left as it is.
pub async fn remove_lock(access: Access<'_>, id: &str) -> Result<(), Problem> {
    let Access { spec, options, .. } = access;
    if is_at_google(spec) {
        return group::remove(&options.google, &tpu_location(spec)?, &spec.name, id).await;
    }
    let output = run(access, &file::removing(&spec.name, id)).await?;
    file::done(&output).map(|_| ())
}

/// The result for the lock with this id. A script whose connection was lost is run again and finds its earlier effect.
async fn verified(access: Access<'_>, id: &str, is_done: bool) -> Result<LockOwnership, Problem> {
    if is_done {
        return Ok(LockOwnership::Ours);
    }
    Ok(match read_lock(access).await? {
        Some(lock) if lock.id == id => LockOwnership::Ours,
        other => LockOwnership::Lost(other.map(Box::new)),
    })
}

async fn run(access: Access<'_>, line: &str) -> Result<crate::ssh::Output, Problem> {
    let head = discover::head_address(access.spec, access.options, None).await?.host;
    run_on(access, head.as_str(), line, TIMEOUT).await
}
