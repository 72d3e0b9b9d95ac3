//! A slice in words: what its page shows above its hosts.

use crate::app::host::slices::Why;
use crate::app::pages::hosts::HostsRow;
use crate::app::table::cell::Role;
use crate::app::text::describe::Lines;
use crate::app::text::labels;
use crate::model::Timestamp;
use crate::model::amount::counted;
use crate::reconcile::HostsKind;

/// What is known about the hosts of a row; each line with its label and its role.
pub fn facts(row: &HostsRow<'_>, now: Timestamp) -> Vec<(&'static str, String, Role)> {
    let hosts = row.hosts;
    let mut lines: Vec<(&'static str, String, Role)> = Vec::new();
    let topology = if hosts.topology.is_empty() { String::new() } else { format!(" {}", hosts.topology) };
    let is_other = !hosts.node_type.is_empty() && hosts.node_type != hosts.chip_type;
    let node_type = if is_other { format!(", node type {}", hosts.node_type) } else { String::new() };
    lines.push(("type", format!("{}{topology}{node_type}", row.kind()), Role::Text));
    let (alive, role_of_hosts) = match (hosts.key.kind, hosts.expected) {
        (HostsKind::Dead, _) => (counted(hosts.nodes.len(), "host"), Role::Text),
        (_, Some(expected)) => {
            let missing = expected.saturating_sub(hosts.alive);
            let missing = if missing > 0 { format!(", {missing} missing") } else { String::new() };
            let role = if row.state() == "incomplete" { Role::Bad } else { Role::Text };
            (format!("{} of {expected} alive{missing}", hosts.alive), role)
        }
        (_, None) => (format!("{} alive", hosts.alive), Role::Text),
    };
    let draining = if hosts.draining > 0 { format!(", {} draining", hosts.draining) } else { String::new() };
    lines.push(("hosts", format!("{alive}{draining}"), role_of_hosts));
    lines.extend(row.chips().map(|chips| ("chips", format!("{chips} in use"), Role::Text)));
    let age = hosts.started.map(|at| labels::minutes(at.age(now)));
    lines.extend(age.map(|age| ("uptime", age, Role::Text)));
    let jobs = row.jobs().iter().map(|job| format!("{} ({})", job.key, job.owner_label()));
    let jobs: Vec<String> = jobs.collect();
    lines.extend((!jobs.is_empty()).then(|| ("job", jobs.join(", "), Role::Text)));
    lines.extend(row.is_unused().then(|| ("job", "none".to_owned(), Role::Dim)));
    let off = "unknown: vitals are off (vitals.refresh_seconds is 0 in the settings)";
    lines.extend(row.is_not_requested().then(|| ("job", off.to_owned(), Role::Dim)));
    lines.extend(row.loss(now).map(|loss| {
        let is_loss = hosts.is_lost() || hosts.is_incomplete();
        ("lost", loss.strip_prefix("lost ").unwrap_or(&loss).to_owned(), Role::Bad.unless(!is_loss))
    }));
    if let (Some((text, role)), Some(worst)) = (row.worst_text(now), row.worst(now)) {
        let mut about = Vec::new();
        if let Some(Why::Apart(median)) = worst.why {
            about.push(format!("others {median:.0}%"));
        }
        // Machines are read one after the other: the actual worst may not have been read yet.
        if worst.known < hosts.alive as usize {
            about.push(format!("{} of {} hosts read so far", worst.known, hosts.alive));
        }
        let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
        let label = match worst.why {
            Some(Why::Full) => "fullest",
            Some(Why::Apart(_)) => "outlier",
            None => "busiest",
        };
        lines.push((label, format!("{text}{about}"), role));
    }
    lines
}

/// The same lines as a description.
pub fn lines(row: &HostsRow<'_>, now: Timestamp) -> Lines {
    let name = ("name".to_owned(), row.name().into_owned());
    let state = ("state".to_owned(), row.state().to_owned());
    let facts = facts(row, now).into_iter().map(|(label, text, _)| (label.to_owned(), text));
    [name, state].into_iter().chain(facts).collect()
}
