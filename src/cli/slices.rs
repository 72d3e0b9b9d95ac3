//! `marin-tui list-nodes --slices`: prints the console's table of slices, read once.

use super::reach::{Progress, Reach};
use super::{columns, output, seen};
use crate::app::pages::hosts::{HostsRow, HostsTable};
use crate::app::{Cluster, Fleet, Keymap, actions, sheet};
use crate::model::{JobStatus, SnapshotPart, Text, Timestamp};
use crate::reconcile::{Hosts, HostsKind};
use crate::supervisor;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Prints the slices with matching hosts: those that are alive or were lost recently; with `all` also those that died
/// earlier.
pub(super) fn run(
    reach: &Reach,
    (all, is_json): (bool, bool),
    node_type: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let cluster = Reach::block_on(read(reach))?;
    seen::require(SnapshotPart::Nodes, reach, cluster.state())?;
    seen::check_type(node_type, reach, &cluster)?;
    let wanted = |hosts: &Hosts| {
        let is_listed = all || hosts.alive > 0 || hosts.is_lost();
        is_listed && node_type.is_none_or(|wanted| hosts.node_type.raw() == wanted)
    };
    if is_json {
        let rows = (0..).map_while(|number| HostsRow::of(&cluster, 0, number));
        let rows = rows.filter(|row| wanted(row.hosts));
        output::json(&rows.map(|row| for_scripts(&row, &cluster)).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (keymap, fleet) = (Keymap::with_changes(actions(), &BTreeMap::new())?, Fleet::of(cluster));
    let table = sheet::<HostsTable>((&fleet, &keymap), Timestamp::now(), |row| wanted(row.hosts));
    columns::print(&mut output::stdout(), &table.titles, &table.rows)?;
    Ok(ExitCode::SUCCESS)
}

/// The cluster, with the jobs that hold its slices if Ray reports them.
async fn read(reach: &Reach) -> anyhow::Result<Cluster> {
    let progress = Progress::new();
    let session = reach.connect(&progress).await?;
    progress.show("reading the nodes");
    let mut cluster = seen::read_open(reach, &session).await?;
    let snapshot = cluster.snapshot.clone();
    let running = snapshot.jobs.iter().filter(|job| job.status == JobStatus::Running).cloned().collect();
    let cluster_vitals =
        supervisor::read_holdings(&session.client, &snapshot, running, reach.options.vitals).await;
    session.close().await;
    match cluster_vitals {
        Ok(cluster_vitals) => {
            cluster_vitals.missing.iter().for_each(|part| eprintln!("incomplete: {part}"));
            cluster.sliced.hold(&cluster_vitals, &snapshot);
        }
        Err(why) => eprintln!("incomplete: cannot read which jobs hold the slices: {why}"),
    }
    Ok(cluster)
}

/// As JSON: `kind`, `slice`, `slices`, `type`, `topology`, `node_type`, `state`, `hosts`, `alive`, `expected`, `chips`,
/// `chips_used`, `jobs`, `started_ms`, `lost_ms`, `cause`, `message`, `nodes`.
fn for_scripts(row: &HostsRow<'_>, cluster: &Cluster) -> Value {
    let hosts = row.hosts;
    let or_null = |text: &Text| (!text.is_empty()).then(|| text.raw().to_owned());
    let kind = match hosts.key.kind {
        HostsKind::Head => "head",
        HostsKind::Slice => "slice",
        HostsKind::Type => "workers",
        HostsKind::Dead => "dead",
    };
    let nodes = hosts.nodes.iter().filter_map(|number| cluster.snapshot.nodes.get(*number as usize));
    let jobs = row.jobs().iter().map(|job| job.key.raw());
    let cause = hosts.key.lost.map(|(reason, _)| crate::app::text::describe::death_label(reason));
    let (used, chips) = hosts.chips;
    json!({
        "kind": kind, "slice": or_null(&hosts.name).filter(|_| hosts.slices > 0), "slices": hosts.slices,
        "type": or_null(&hosts.chip_type), "topology": or_null(&hosts.topology),
        "node_type": or_null(&hosts.node_type), "state": row.state(), "hosts": hosts.nodes.len(),
        "alive": hosts.alive, "expected": hosts.expected, "chips": chips, "chips_used": used,
        "jobs": jobs.collect::<Vec<_>>(), "started_ms": hosts.started.map(Timestamp::as_millis),
        "lost_ms": hosts.ended.as_ref().map(|(at, _)| at.as_millis()), "cause": cause,
        "message": hosts.ended.as_ref().and_then(|(_, message)| or_null(message)),
        "nodes": nodes.map(|node| node.id.to_string()).collect::<Vec<_>>(),
    })
}
