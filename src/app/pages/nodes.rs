//! Nodes: those of a cluster, in its pane, and those of all clusters.

use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::host::slices::{NEARLY_FULL, share};
use crate::app::pages::common::{self, Member};
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::app::text::describe::{death_label, node_state};
use crate::app::text::labels;
use crate::model::amount::{counted, grouped, number};
use crate::model::natural::natural;
use crate::model::{Node, NodeId, NodeState, Physical, Resource, SnapshotPart, Text, Timestamp};
use crate::reconcile::{HostsKey, HostsKind};
use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};

/// The nodes of a cluster, or of all.
#[derive(Debug)]
pub struct Nodes;

/// A node with its cluster.
#[derive(Clone, Copy, Debug)]
pub struct NodeRow<'f> {
    cluster: &'f Cluster,
    cluster_index: usize,
    number: usize,
    /// The node, as the snapshot has it.
    pub node: &'f Node,
    /// The name that is shown.
    name: &'f Text,
}

type Row<'f> = NodeRow<'f>;

impl Kind for Nodes {
    type Row<'f> = NodeRow<'f>;
    type Key = NodeId;

    const LACKS: &'static str = "no nodes";
    const PART: Option<SnapshotPart> = Some(SnapshotPart::Nodes);
    const FIELDS: &'static [&'static str] = &["node", "address", "host", "type", "state", "slice", "cluster"];

    fn title(of: Option<usize>) -> &'static str {
        if of.is_some() { "Nodes" } else { "All nodes" }
    }

    fn name(of: Option<usize>) -> &'static str {
        if of.is_some() { "nodes" } else { "all-nodes" }
    }

    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static> {
        host_counts(context, of, None)
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(cluster: &Cluster) -> usize {
        cluster.snapshot.nodes.len()
    }

    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Row<'_>> {
        let node = cluster.snapshot.nodes.get(number)?;
        Some(Row { cluster, cluster_index, number, node, name: cluster.node_name(node) })
    }

    fn key(row: &Row<'_>) -> NodeId {
        row.node.id
    }

    /// Lost nodes first, the latest first; then the head; then alive nodes by type and name; then nodes that died long
    /// ago or were stopped intentionally.
    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        (own(a).cmp(&own(b)))
            .then_with(|| natural(a.name.raw(), b.name.raw()))
            .then_with(|| a.node.id.cmp(&b.node.id))
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        let n = row.node;
        [
            // The name in the column; Ray's own name, which differs if it is an address, is accepted as well.
            ("node", row.name.raw()),
            ("node", n.name.raw()),
            ("address", n.address.raw()),
            ("host", n.hostname.raw()),
            ("type", n.node_type.raw()),
            ("state", n.state.label()),
            // The word in the column, for an hour.
            ("state", if n.died_unexpectedly() { "lost" } else { "" }),
            ("slice", n.slice().map_or("", Text::raw)),
            ("cluster", row.cluster.name().as_str()),
        ]
        .into_iter()
    }

    fn target(row: &Row<'_>) -> Target {
        Target::Node(row.cluster_index, row.node.id)
    }

    /// The page of a slice keeps the hosts of that name, even when the last of them dies and its row is merged with
    /// others.
    fn is_among(row: &Row<'_>, hosts: &HostsKey) -> bool {
        match hosts.kind {
            HostsKind::Slice => !row.node.is_head && row.node.slice() == Some(&hosts.name),
            _ => row.cluster.sliced.by_slice.row_of(row.number).is_some_and(|of| of.key == *hosts),
        }
    }

    fn copied(row: &Row<'_>) -> Option<(&'static str, String)> {
        Some(("node id", row.node.id.to_string()))
    }
}

fn own<'f>(row: &Row<'f>) -> impl Ord + use<'f> {
    let n = row.node;
    let rank = match n.state.is_alive() {
        true => 1,
        false if n.is_lost(row.cluster.snapshot.taken) => 0,
        false => 2,
    };
    (rank, Reverse(n.ended.filter(|_| rank != 1)), !n.is_head, n.node_type.raw())
}

impl Member for Nodes {
    fn cluster<'f>(row: &Self::Row<'f>) -> &'f Cluster {
        row.cluster
    }

    fn mark(row: &Row<'_>) -> (&'static str, Role) {
        let (glyph, role) = labels::node(row.node.state);
        match () {
            () if row.cluster.tpus.is_ghost(row.node) => ("◇", Role::Bad),
            // A node that died long ago, or was stopped, is not a current problem.
            () if row.node.state == NodeState::Dead && !row.node.is_lost(row.cluster.snapshot.taken) => {
                (glyph, Role::Dim)
            }
            () if row.node.is_head && row.node.state.is_alive() => ("⌂", role),
            () => (glyph, role),
        }
    }

    fn since(row: &Row<'_>) -> Option<Timestamp> {
        row.node.started
    }

    fn is_over(row: &Row<'_>) -> bool {
        row.node.state == NodeState::Dead
    }
}

const COLUMNS: &[Column<Nodes>] = &[
    common::mark(),
    common::cluster(),
    Column {
        id: "node",
        title: "NODE",
        width: Width::text(15, 48, 0).firm(20),
        visibility: Visibility::Always,
        cell: |row, context| Cell::new(row.name.shown(), Nodes::text(row, context)).ending(),
        order: Some(|a, b| natural(a.name.raw(), b.name.raw())),
    },
    Column {
        id: "address",
        title: "ADDRESS",
        width: Width::text(15, 15, 8).hiding(),
        visibility: Visibility::Always,
        cell: |row, context| {
            // An address that is also the name is shown in the name's column.
            let address =
                if row.name == &row.node.address { Cow::Borrowed("-") } else { row.node.address.shown() };
            Cell::new(address, Nodes::text(row, context))
        },
        order: None,
    },
    Column {
        id: "type",
        title: "TYPE",
        width: Width::text(8, 32, 3),
        visibility: Visibility::Always,
        cell: |row, context| {
            let kind = match (row.node.is_head, row.node.node_type.is_empty()) {
                (true, _) => Cow::Borrowed("head"),
                (false, true) => Cow::Borrowed("-"),
                (false, false) => row.node.node_type.shown(),
            };
            // If there is no room for node types, the accelerator, as among the slices.
            let chips = row.node.chip_type().filter(|_| !row.node.is_head);
            let brief = chips.map_or_else(|| kind.clone(), |chips| chips.shown());
            Cell::new(kind, Nodes::text(row, context)).named().or(brief)
        },
        order: Some(|a, b| natural(a.node.node_type.raw(), b.node.node_type.raw())),
    },
    Column {
        id: "state",
        title: "STATE",
        width: Width::text(8, 8, 0),
        visibility: Visibility::Always,
        cell: state,
        order: Some(|a, b| a.node.state.cmp(&b.node.state)),
    },
    Column {
        id: "cpu",
        title: "RAY CPU",
        width: Width::number(7, 1),
        visibility: Visibility::Always,
        cell: |row, context| {
            Cell::new(used(row.node.resources.get("CPU"), number), Nodes::text(row, context))
        },
        order: Some(|a, b| gauge(a, b, "CPU")),
    },
    Column {
        id: "mem",
        title: "RAY GB",
        width: Width::number(7, 6),
        visibility: Visibility::Always,
        cell: |row, context| {
            Cell::new(used(row.node.resources.get("memory"), gigabytes), Nodes::text(row, context))
        },
        order: None,
    },
    Column {
        id: "tpu",
        title: "RAY TPU",
        width: Width::number(7, 2),
        visibility: Visibility::Always,
        cell: |row, context| {
            let chips = row.node.resources.get("TPU").or_else(|| row.node.resources.get("GPU"));
            Cell::new(used(chips, number), Nodes::text(row, context))
        },
        order: Some(|a, b| gauge(a, b, "TPU").then_with(|| gauge(a, b, "GPU"))),
    },
    Column {
        id: "cpu%",
        title: "CPU%",
        width: Width::number(4, 4),
        visibility: Visibility::Always,
        // A busy CPU is normal on a TPU host; full memory or a full disk ends jobs.
        cell: |row, context| percent(row, context, |p| p.cpu_percent, f64::INFINITY),
        order: None,
    },
    Column {
        id: "mem%",
        title: "MEM%",
        width: Width::number(4, 5),
        visibility: Visibility::Always,
        cell: |row, context| percent(row, context, |p| share(p.memory), NEARLY_FULL),
        order: None,
    },
    Column {
        id: "disk%",
        title: "DISK%",
        width: Width::number(5, 7),
        visibility: Visibility::Always,
        cell: |row, context| percent(row, context, |p| share(p.disk), NEARLY_FULL),
        order: None,
    },
    common::age("uptime", "UPTIME", 4),
    Column {
        id: "slice",
        title: "SLICE",
        width: Width::text(12, 40, 5),
        visibility: Visibility::Wide,
        cell: |row, context| {
            let slice = row.node.slice().map_or(Cow::Borrowed("-"), |slice| slice.shown());
            Cell::new(slice, Nodes::text(row, context)).ending()
        },
        order: Some(|a, b| {
            let slice = |node: &'_ Node| node.slice().cloned().unwrap_or_default();
            natural(slice(a.node).raw(), slice(b.node).raw())
        }),
    },
    Column {
        id: "id",
        title: "ID",
        width: Width::text(8, 56, 6),
        visibility: Visibility::Wide,
        cell: |row, _| Cell::new(row.node.id.to_string(), Role::Dim),
        order: None,
    },
    Column {
        id: "instance",
        title: "INSTANCE",
        width: Width::text(8, 40, 7),
        visibility: Visibility::Wide,
        cell: |row, _| Cell::new(row.node.instance_id.shown(), Role::Dim).ending(),
        order: None,
    },
];

/// Nodes by state, with a word for alive ones: `317 hosts alive · 9 joining`.
pub fn host_counts(context: &CellContext<'_>, of: Option<usize>, called: Option<&str>) -> Cell<'static> {
    let noun = |n: &str| match called {
        None => n.to_owned(),
        Some(one) if n == "1" => format!("1 {one}"),
        Some(one) => format!("{n} {one}s"),
    };
    let Some(cluster) = of.and_then(|cluster_index| context.fleet.clusters.get(cluster_index)) else {
        let totals = context.fleet.totals();
        let alive = totals.text(totals.nodes, totals.nodes_known);
        // Clusters that were never read have an unknown number of nodes.
        let is_part = totals.nodes_known < totals.clusters;
        let known = if is_part { format!("{} of ", totals.nodes_known) } else { String::new() };
        let clusters = counted(totals.clusters, "cluster");
        return Cell::new(format!("{} alive in {known}{clusters}", noun(&alive)), Role::Dim);
    };
    if cluster.unread(SnapshotPart::Nodes).is_some() {
        return Cell::new(format!("{} alive", noun("?")), Role::Dim);
    }
    let (alive, pending, lost) = cluster.node_counts();
    let dead = cluster.tally.dead;
    let mut counts = vec![format!("{} alive", noun(&grouped(alive)))];
    counts.extend((pending > 0).then(|| format!("{} pending", grouped(pending))));
    counts.extend((lost > 0).then(|| format!("{} lost", grouped(lost))));
    // A lost node is also dead, and is counted once.
    counts.extend((dead > lost).then(|| format!("{} dead", grouped(dead - lost))));
    Cell::new(if cluster.known { counts.join(" · ") } else { String::new() }, Role::Dim)
}

/// The state; for a dead node, which has no figures, also when and why it died.
fn state<'f>(row: &Row<'f>, context: &CellContext<'f>) -> Cell<'f> {
    let (_, role) = Nodes::mark(row);
    let role = role.unless(Nodes::is_stale(row, context));
    let word = node_state(row.node, row.cluster, context.now);
    if row.node.state != NodeState::Dead {
        return Cell::new(word, role);
    }
    let when = row.node.ended.map_or_else(|| "?".into(), |t| labels::minutes(t.age(context.now)));
    let why = row.node.death.as_ref().map_or_else(String::new, |death| {
        let message = if death.message.is_empty() { String::new() } else { format!(": {}", death.message) };
        match death_label(death.reason) {
            label if label == word => format!("{when} ago{message}"),
            label => format!("{label} {when} ago{message}"),
        }
    });
    let why = if why.is_empty() { format!("{when} ago") } else { why };
    Cell::new(format!("{word:<9}{why}"), role).or(word).spanning()
}

fn gauge(a: &Row<'_>, b: &Row<'_>, name: &str) -> Ordering {
    let used = |n: &Node| n.resources.get(name).and_then(|r| r.used).unwrap_or(-1.0);
    used(b.node).total_cmp(&used(a.node))
}

/// `16/120`; `-` for a resource that the node does not have, `?` for a use that is unknown.
fn used(resource: Option<&Resource>, to_text: impl Fn(f64) -> String) -> String {
    match resource {
        None => "-".into(),
        Some(r) => format!("{}/{}", r.used.map_or_else(|| "?".into(), &to_text), to_text(r.total)),
    }
}

/// Memory without its unit: the column is narrow, and all are in GB.
fn gigabytes(value: f64) -> String {
    let gb = value / 1e9;
    if gb < 9.95 { number((gb * 10.0).round() / 10.0) } else { format!("{gb:.0}") }
}

/// A percentage of the machine, which is bad from `much` on.
fn percent(
    row: &Row<'_>,
    context: &CellContext<'_>,
    of: impl Fn(&Physical) -> Option<f64>,
    much: f64,
) -> Cell<'static> {
    match row.cluster.physical(&row.node.id, context.now).and_then(of) {
        None => Cell::new("?", Role::Dim),
        Some(v) if v >= much => Cell::new(format!("{v:.0}%"), Role::Bad),
        Some(v) => Cell::new(format!("{v:.0}%"), Nodes::text(row, context)),
    }
}
