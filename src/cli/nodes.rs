//! `marin-tui list-nodes`: prints the console's table of nodes, read once.

use super::reach::{Progress, Reach};
use super::{columns, output, seen};
use crate::app::pages::nodes::{NodeRow, Nodes};
use crate::app::{Cluster, Fleet, Keymap, actions, sheet};
use crate::model::json::object;
use crate::model::{Death, Node, Resource, SnapshotPart, Text, Timestamp};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 list-nodes                    live nodes
  marin-tui -c us-central2 list-nodes --all              dead nodes, too, with the cause
  marin-tui -c us-central2 list-nodes --type tpu_worker
  marin-tui -c us-central2 list-nodes --slices           one row per slice, and lost nodes
  marin-tui -c us-central2 list-nodes --slices --json | jq '.[] | select(.state == \"lost\")'
  marin-tui -c us-central2 list-nodes --json | jq -r '.[] | select(.head | not) | .address'

RAY CPU, RAY GB and RAY TPU show the node's logical Ray resources, used/total. Only the console shows the physical \
usage of the machine.

Exit codes: 0 the nodes were listed, 1 they could not be read, or there is no such type.";

/// Options of `list-nodes`.
#[derive(Debug, Args)]
pub struct NodeArguments {
    /// Include dead nodes
    #[arg(long, short)]
    all: bool,
    /// Only nodes of this node type in the cluster file
    #[arg(long = "type", value_name = "TYPE")]
    node_type: Option<String>,
    /// List slices: one row per slice, other workers by node type, and nodes that were lost together
    #[arg(long)]
    slices: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the nodes.
pub(super) fn run(arguments: &NodeArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    if arguments.slices {
        let node_type = arguments.node_type.as_deref();
        return super::slices::run(reach, (arguments.all, arguments.json), node_type);
    }
    let cluster = Reach::block_on(async { seen::read(reach, &Progress::new()).await })?;
    seen::require(SnapshotPart::Nodes, reach, cluster.state())?;
    seen::check_type(arguments.node_type.as_deref(), reach, &cluster)?;
    let wanted = |node: &Node| {
        let of_type = |t: &String| node.node_type.raw() == t;
        (arguments.all || node.state.is_alive()) && arguments.node_type.as_ref().is_none_or(of_type)
    };
    if arguments.json {
        let nodes = cluster.snapshot.nodes.iter().filter(|node| wanted(node));
        output::json(&nodes.map(|node| for_scripts(node, &cluster)).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (keymap, fleet) = (Keymap::with_changes(actions(), &BTreeMap::new())?, Fleet::of(cluster));
    let table = sheet::<Nodes>((&fleet, &keymap), Timestamp::now(), |row: &NodeRow<'_>| wanted(row.node));
    columns::print(&mut output::stdout(), &table.titles, &table.rows)?;
    Ok(ExitCode::SUCCESS)
}

/// As JSON: `node_id`, `name`, `address`, `host_name`, `type`, `instance`, `head`, `state`, `stale`, `started_ms`,
/// `ended_ms`, `cause`, `message`, `idle_ms`, `slice`, `resources`, `labels`.
fn for_scripts(node: &Node, cluster: &Cluster) -> Value {
    let cause =
        node.death.as_ref().map(|Death { reason, .. }| crate::app::text::describe::death_label(*reason));
    let resource =
        |Resource { name, total, used }: &Resource| json!({"name": name.raw(), "total": total, "used": used});
    let labels = object(node.labels.iter().map(|(k, v)| (k.raw(), v.raw())));
    let or_null = |text: &Text| (!text.is_empty()).then(|| text.raw().to_owned());
    json!({
        "node_id": node.id.to_string(), "name": cluster.node_name(node).raw(), "address": node.address.raw(),
        "host_name": or_null(&node.hostname), "type": or_null(&node.node_type), "instance": or_null(&node.instance_id),
        "head": node.is_head, "state": node.state.label(), "stale": cluster.tpus.is_ghost(node),
        "started_ms": node.started.map(Timestamp::as_millis), "ended_ms": node.ended.map(Timestamp::as_millis),
        "cause": cause, "message": node.death.as_ref().map(|death| death.message.raw()), "idle_ms": node.idle_ms,
        "slice": node.slice().map(Text::raw), "resources": node.resources.0.iter().map(resource).collect::<Vec<_>>(), "labels": labels,
    })
}
