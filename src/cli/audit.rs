//! `marin-tui audit`: the record of who changed which cluster, what, and when.

use super::{columns, output};
use crate::config::{Env, Folders};
use crate::model::{ClusterName, Registry};
use crate::operation::{Audit, Entry};

/// The operator of this machine as `user@host`.
pub(super) fn who(env: &Env) -> String {
    let user = env.user().unwrap_or("unknown");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = env.var("HOSTNAME").map_or_else(|| host.trim().to_owned(), str::to_owned);
    if host.is_empty() { user.to_owned() } else { format!("{user}@{host}") }
}

/// The audit log of this user.
pub(super) fn log(env: &Env, folders: &Folders) -> Audit {
    Audit::new(&folders.state, who(env))
}

/// Appends a line. A failure is reported on stderr and does not undo the action.
pub(super) fn write(audit: &Audit, cluster: &ClusterName, what: &str, outcome: &str) {
    if let Err(e) = audit.note(cluster, what, outcome) {
        eprintln!("cannot write the audit log: {e}");
    }
}

/// Records an action on a registry instead of a cluster.
pub(super) fn of_registry(
    audit: &Audit,
    registry: &Registry,
    what: &str,
    outcome: Result<&str, impl std::fmt::Display>,
) {
    let outcome = outcome.map_or_else(|e| format!("failed: {e}"), str::to_owned);
    write(audit, &ClusterName::new(registry.to_string()), what, &outcome);
}

/// Prints the audit log, oldest entry first.
pub(super) fn print(audit: &Audit, as_json: bool) -> anyhow::Result<()> {
    let (entries, unreadable) = audit.read()?;
    if as_json {
        output::json(&entries)?;
    } else {
        let rows: Vec<_> = entries.into_iter().map(row).collect();
        columns::print(&mut output::stdout(), &["TIME", "USER", "CLUSTER", "ACTION", "OUTCOME"], &rows)?;
    }
    if unreadable > 0 {
        eprintln!("cannot read {unreadable} lines of the audit log");
    }
    Ok(())
}

fn row(entry: Entry) -> Vec<String> {
    vec![entry.when(), entry.who, entry.cluster, entry.what, entry.outcome]
}
