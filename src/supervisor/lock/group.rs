//! A lock as an empty instance group in the cluster's zone. It outlives the head, `insert` answers 409 if it exists,
//! and every user who may launch machines may create one.
//!
//! The operator and the operation are in its description, which cannot be changed; the step and the time of the last
//! update are in its named ports, which are set with their fingerprint.

use super::super::cloud::kind_or_login;
use super::LockOwnership;
use crate::gcp::{GcpError, Google, InstanceGroup, TpuLocation};
use crate::model::{ClusterName, OperationLock, Problem, ProblemKind, Timestamp};
use crc32c::crc32c;

/// Maximum length of a group's name (RFC 1035).
const NAME_MAX: usize = 63;
/// The named port whose number is the step.
const STEP: &str = "step";
/// The named port whose number is the step, once the operation has stopped there.
const STOPPED: &str = "stopped";
/// Prefix of the named port that ends with the time of the last update, in milliseconds since the epoch.
const SEEN: &str = "seen-";

/// The group's name: that of the cluster, with a checksum if characters had to be replaced.
pub fn name(cluster: &ClusterName) -> String {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let (prefix, shown) = ("marin-tui-operation-", cluster.as_str());
    let name: String = prefix.chars().chain(shown.chars().map(plain)).collect();
    if name[prefix.len()..] == *shown && name.len() <= NAME_MAX && !name.ends_with('-') {
        return name;
    }
    let sum = format!("-{:08x}", crc32c(shown.as_bytes()));
    name.chars().take(NAME_MAX - sum.len()).collect::<String>() + &sum
}

fn project_and_zone(location: &TpuLocation) -> (&str, &str) {
    (&location.project, &location.zone)
}

/// `verb` is what failed: read or write.
fn problem(verb: &str, e: &GcpError) -> Problem {
    let what = format!("cannot {verb} the operation lock in Google Cloud: {e}");
    Problem::new(kind_or_login(e), what, e.hint(), Timestamp::now())
}

/// The group, and the lock that it represents; `None` if there is no group.
async fn find(
    google: &Google,
    location: &TpuLocation,
    cluster: &ClusterName,
) -> Result<Option<(InstanceGroup, OperationLock)>, Problem> {
    let name = name(cluster);
    let found = google.instance_group(project_and_zone(location), &name).await;
    let Some(group) = found.map_err(|e| problem("read", &e))? else { return Ok(None) };
    let Some(lock) = OperationLock::parse(&group.description, cluster) else {
        let what =
            format!("the instance group {name} in {} is not an operation lock for {cluster}", location.zone);
        let hint = "check it in the Google Cloud console; marin-tui does not delete it";
        return Err(Problem::new(ProblemKind::Other, what, hint, Timestamp::now()));
    };
    let lock = with_ports(lock, &group.named_ports);
    Ok(Some((group, lock)))
}

fn ports(lock: &OperationLock) -> Vec<(String, u16)> {
    let step = u16::try_from(lock.step).unwrap_or(u16::MAX).max(1);
    let word = if lock.stopped { STOPPED } else { STEP };
    vec![(word.to_owned(), step), (format!("{SEEN}{}", lock.seen_ms.max(0)), 1)]
}

fn with_ports(mut lock: OperationLock, ports: &[(String, u16)]) -> OperationLock {
    for (word, port) in ports {
        if matches!(word.as_str(), STEP | STOPPED) {
            lock.step = usize::from(*port).clamp(1, lock.steps.max(1));
            lock.stopped = word == STOPPED;
        }
        if let Some(at) = word.strip_prefix(SEEN).and_then(|at| at.parse().ok()) {
            lock.seen_ms = at;
        }
    }
    lock
}

pub async fn read(
    google: &Google,
    location: &TpuLocation,
    cluster: &ClusterName,
) -> Result<Option<OperationLock>, Problem> {
    Ok(find(google, location, cluster).await?.map(|(_, lock)| lock))
}

pub async fn acquire(
    google: &Google,
    location: &TpuLocation,
    cluster: &ClusterName,
    lock: &OperationLock,
) -> Result<LockOwnership, Problem> {
    let text = serde_json::to_string(lock).unwrap_or_default();
    let made =
        google.create_instance_group(project_and_zone(location), &name(cluster), &text, &ports(lock)).await;
    // Compute may accept a request and fail at the end of the operation, so read which lock exists now.
    let there = find(google, location, cluster).await;
    match (made, there) {
        (_, Ok(Some((_, found)))) if found.id == lock.id => Ok(LockOwnership::Ours),
        (_, Ok(Some((_, found)))) => Ok(LockOwnership::Lost(Some(Box::new(found)))),
        (Ok(()), Ok(None)) => Ok(LockOwnership::Lost(None)),
        (Err(GcpError::Exists { .. }), Err(e)) => Ok(LockOwnership::Unreadable(Box::new(e))),
        (Err(e), Ok(None) | Err(_)) => Err(problem("write", &e)),
        (Ok(()), Err(e)) => Err(e),
    }
}

pub async fn renew(
    google: &Google,
    location: &TpuLocation,
    cluster: &ClusterName,
    lock: &OperationLock,
) -> Result<LockOwnership, Problem> {
    let group = match find(google, location, cluster).await? {
        Some((group, found)) if found.id == lock.id => group,
        other => return Ok(LockOwnership::Lost(other.map(|(_, found)| Box::new(found)))),
    };
    match google.set_named_ports(project_and_zone(location), &group, &ports(lock)).await {
        Ok(()) => Ok(LockOwnership::Ours),
        Err(GcpError::NotFound { .. }) => {
            Ok(LockOwnership::Lost(read(google, location, cluster).await?.map(Box::new)))
        }
        Err(e) => Err(problem("write", &e)),
    }
}

pub async fn remove(
    google: &Google,
    location: &TpuLocation,
    cluster: &ClusterName,
    id: &str,
) -> Result<(), Problem> {
    let Some((group, _)) = find(google, location, cluster).await?.filter(|(_, found)| found.id == id) else {
        return Ok(());
    };
    match google.delete_instance_group(project_and_zone(location), &group).await {
        Ok(()) | Err(GcpError::NotFound { .. }) => Ok(()),
        Err(e) => Err(problem("write", &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_valid_at_compute_engine() {
        let of = |cluster: &str| name(&ClusterName::new(cluster));
        assert_eq!(of("marin-us-central2"), "marin-tui-operation-marin-us-central2");
        let long = "a".repeat(63);
        let names = ["a_b", "a-b", "a.b", "A-b", "a-b-", &long, &format!("{long}b")].map(of);
        for name in &names {
            assert!(name.len() <= NAME_MAX && !name.ends_with('-'), "{name}");
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{name}"
            );
        }
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }
}
