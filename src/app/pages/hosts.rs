//! The nodes of a cluster, or of all, by slice: one row per slice, per other node type, and per group of nodes that
//! died together.

use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::host::slices::{Why, Worst};
use crate::app::pages::common::{self, Member};
use crate::app::pages::nodes::host_counts;
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::app::text::describe::death_label;
use crate::app::text::labels;
use crate::diagnose::{MAX_ASSEMBLY, Severity};
use crate::model::amount::{counted, grouped, number};
use crate::model::natural::natural;
use crate::model::{DeathReason, Job, SnapshotPart, Timestamp};
use crate::reconcile::{Hosts, HostsKey, HostsKind};
use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

/// Nodes by slice.
#[derive(Debug)]
pub struct HostsTable;

/// Hosts in one row, with their cluster.
#[derive(Clone, Copy, Debug)]
pub struct HostsRow<'f> {
    cluster: &'f Cluster,
    cluster_index: usize,
    number: usize,
    /// The hosts of the row: a slice, a node type, or nodes that died together.
    pub hosts: &'f Hosts,
}

type Row<'f> = HostsRow<'f>;

impl<'f> HostsRow<'f> {
    /// The row of a cluster with this number.
    pub fn of(cluster: &'f Cluster, cluster_index: usize, number: usize) -> Option<Self> {
        Some(Self { cluster, cluster_index, number, hosts: cluster.sliced.by_slice.rows.get(number)? })
    }

    /// The row of a cluster with this key.
    pub fn find(cluster: &'f Cluster, cluster_index: usize, key: &HostsKey) -> Option<Self> {
        let number = cluster.sliced.by_slice.rows.iter().position(|row| row.key == *key)?;
        Self::of(cluster, cluster_index, number)
    }

    /// Its name: that of the slice, `12 slices`, the node type, `head`.
    pub fn name(&self) -> Cow<'f, str> {
        let hosts = self.hosts;
        match hosts.key.kind {
            _ if !hosts.name.is_empty() => hosts.name.shown(),
            HostsKind::Head => Cow::Borrowed("head"),
            _ if hosts.slices > 1 => Cow::Owned(format!("{} slices", hosts.slices)),
            _ if !hosts.node_type.is_empty() => hosts.node_type.shown(),
            _ => Cow::Borrowed("-"),
        }
    }

    /// The type of their chips; without chips, or if Ray does not report it, their node type.
    pub fn kind(&self) -> Cow<'f, str> {
        let of = [&self.hosts.chip_type, &self.hosts.node_type].into_iter().find(|text| !text.is_empty());
        let of = of.filter(|_| self.hosts.key.kind != HostsKind::Head);
        of.map_or(Cow::Borrowed("-"), |text| text.shown())
    }

    /// Alive and expected hosts: `57/64`; for dead ones their number.
    pub fn counted(&self) -> String {
        let hosts = self.hosts;
        match (hosts.key.kind, hosts.expected) {
            (HostsKind::Dead, _) => grouped(hosts.nodes.len()),
            (_, Some(expected)) => {
                format!("{}/{}", grouped(hosts.alive as usize), grouped(expected as usize))
            }
            (_, None) => grouped(hosts.alive as usize),
        }
    }

    /// The state in a word.
    pub fn state(&self) -> &'static str {
        let hosts = self.hosts;
        match hosts.key.lost {
            Some(_) if hosts.is_lost() => "lost",
            Some(_) => "dead",
            None if self.is_ghost() => "stale node",
            None if hosts.is_incomplete() && self.is_joining() => "joining",
            None if hosts.is_incomplete() => "incomplete",
            None if hosts.draining > 0 => "draining",
            None => "alive",
        }
    }

    /// Whether missing hosts may still join: the slice is new, and none of its hosts has died.
    fn is_joining(&self) -> bool {
        let taken = self.cluster.snapshot.taken;
        self.hosts.ended.is_none() && self.hosts.started.is_some_and(|at| at.age(taken) < MAX_ASSEMBLY)
    }

    /// Whether Google has taken the machines away and Ray has not noticed.
    fn is_ghost(&self) -> bool {
        let nodes = &self.cluster.snapshot.nodes;
        let mut hosts = self.hosts.nodes.iter().filter_map(|number| nodes.get(*number as usize));
        hosts.any(|node| self.cluster.tpus.is_ghost(node))
    }

    /// What died, when and why: `lost 25m ago: 1 slice, 256 hosts, preempted`. `None` if nothing has.
    pub fn loss(&self, now: Timestamp) -> Option<String> {
        let lost = self.hosts.key.lost.is_some();
        let slices = if lost { self.hosts.slices as usize } else { 0 };
        let mut parts = Vec::new();
        parts.extend((slices > 0).then(|| counted(slices, "slice")));
        parts.push(counted(self.hosts.dead as usize, "host"));
        self.lost(now, parts)
    }

    /// The same for a row with the counts in other columns: `lost 25m ago: preempted`.
    fn brief_loss(&self, now: Timestamp) -> Option<String> {
        self.lost(now, Vec::new())
    }

    fn lost(&self, now: Timestamp, mut parts: Vec<String>) -> Option<String> {
        let (ended, message) = self.hosts.ended.as_ref()?;
        let lost = &self.hosts.key.lost;
        let word = if lost.is_some() { self.state() } else { "lost" };
        // The word already says "lost".
        let cause = lost.map(|(reason, _)| death_label(reason)).filter(|cause| *cause != word);
        parts.extend(cause.map(str::to_owned));
        // Ray's message about an intended end adds nothing.
        let has_message = !message.is_empty() && !matches!(lost, Some((DeathReason::Expected, _)));
        let parts = Some(parts.join(", ")).filter(|parts| !parts.is_empty());
        let what = [Some(format!("{word} {} ago", labels::minutes(ended.age(now)))), parts];
        let what = what.into_iter().chain([has_message.then(|| message.to_string())]).flatten();
        Some(what.collect::<Vec<_>>().join(": "))
    }

    /// Chips in use and in total: `240/256`; `None` without chips.
    pub fn chips(&self) -> Option<String> {
        let (used, all) = self.hosts.chips;
        let used = used.map_or_else(|| "?".into(), number);
        (all > 0.0).then(|| format!("{used}/{}", number(all)))
    }

    /// The jobs whose tasks, actors or drivers are on these hosts, as far as Ray reported them.
    pub fn jobs(&self) -> &'f [Arc<Job>] {
        self.cluster.sliced.jobs(self.number)
    }

    /// Whether the jobs on its alive hosts are not requested because of the settings.
    pub fn is_not_requested(&self) -> bool {
        self.cluster.vitals.limits.every.is_zero() && self.hosts.alive > 0 && self.jobs().is_empty()
    }

    /// Whether vitals were read, and no job has tasks, actors or its driver on the alive hosts.
    pub fn is_unused(&self) -> bool {
        let vitals = &self.cluster.vitals;
        let is_read = vitals.read.is_some() && vitals.missing.is_empty();
        is_read && self.hosts.alive > 0 && self.jobs().is_empty()
    }

    /// The worst host, while it is alive and its figures are fresh.
    pub fn worst(&self, now: Timestamp) -> Option<&'f Worst> {
        let worst = self.cluster.sliced.worst(self.number);
        let is_alive = |worst: &&Worst| self.cluster.node(&worst.node).is_some_and(|n| n.state.is_alive());
        worst.filter(is_alive).filter(|worst| self.cluster.physical(&worst.node, now).is_some())
    }

    /// That host in words: `mem 93% w-7`. If its name begins with the slice's, only the rest is shown.
    pub fn worst_text(&self, now: Timestamp) -> Option<(String, Role)> {
        let worst = self.worst(now)?;
        let name = self.cluster.node(&worst.node).map(|node| self.cluster.node_name(node).shown())?;
        let slice = self.hosts.name.shown();
        let own = name.split_once(&*slice).filter(|_| !slice.is_empty());
        let own = own.map(|(_, own)| own.trim_start_matches('-')).filter(|own| !own.is_empty());
        Some((format!("{} {:.0}% {}", worst.what, worst.percent, own.unwrap_or(&name)), role(worst)))
    }

    /// Whether one of its hosts is an outlier, by figures that were fresh at the last snapshot: a mark and an order
    /// have no other time.
    fn has_outlier(&self) -> bool {
        self.worst(self.cluster.snapshot.taken).is_some_and(|worst| worst.why.is_some())
    }

    /// The problem of one of its hosts, in a word or two.
    fn outlier_cell(&self, now: Timestamp) -> Option<(String, Role)> {
        let worst = self.worst(now)?;
        let words = match worst.why? {
            Why::Full => format!("{} nearly full", worst.what),
            Why::Apart(_) => "outlier".to_owned(),
        };
        Some((words, role(worst)))
    }
}

/// The role of the worst host.
pub fn role(worst: &Worst) -> Role {
    match worst.why {
        Some(Why::Full) => Role::Bad,
        Some(Why::Apart(_)) => Role::Warn,
        None => Role::Text,
    }
}

impl Kind for HostsTable {
    type Row<'f> = HostsRow<'f>;
    type Key = HostsKey;

    const LACKS: &'static str = "no slices";
    const PART: Option<SnapshotPart> = Some(SnapshotPart::Nodes);
    const FIELDS: &'static [&'static str] =
        &["slice", "type", "state", "job", "node", "address", "host", "cluster"];

    fn title(of: Option<usize>) -> &'static str {
        if of.is_some() { "Slices" } else { "All nodes by slice" }
    }

    fn name(of: Option<usize>) -> &'static str {
        if of.is_some() { "slices" } else { "all-slices" }
    }

    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static> {
        // Rows are slices and the head, while the counts of a cluster are of hosts.
        let hosts = host_counts(context, of, Some("host"));
        let slices = of
            .and_then(|cluster_index| context.fleet.clusters.get(cluster_index))
            .filter(|cluster| cluster.known);
        let slices = slices.map_or(0, Cluster::slices);
        if slices == 0 {
            hosts
        } else {
            Cell::new(format!("{} · {}", counted(slices, "slice"), hosts.text), hosts.role)
        }
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(cluster: &Cluster) -> usize {
        cluster.sliced.by_slice.rows.len()
    }

    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Row<'_>> {
        Row::of(cluster, cluster_index, number)
    }

    fn key(row: &Row<'_>) -> HostsKey {
        row.hosts.key.clone()
    }

    /// Recent losses first, the latest first; then incomplete slices, and those with an outlier; then other alive ones
    /// by type and name; then the head; then earlier losses.
    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        (own(a).cmp(&own(b)))
            .then_with(|| natural(a.hosts.node_type.raw(), b.hosts.node_type.raw()))
            .then_with(|| natural(a.hosts.name.raw(), b.hosts.name.raw()))
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        let (hosts, cluster) = (row.hosts, row.cluster);
        let own = [
            ("slice", hosts.name.raw()),
            ("type", hosts.chip_type.raw()),
            ("type", hosts.node_type.raw()),
            ("state", row.state()),
        ];
        let nodes = hosts.nodes.iter().filter_map(|number| cluster.snapshot.nodes.get(*number as usize));
        let of_nodes = nodes.flat_map(|node| {
            [
                ("node", cluster.node_name(node).raw()),
                ("address", node.address.raw()),
                ("host", node.hostname.raw()),
            ]
        });
        let jobs = row.jobs().iter().map(|job| ("job", job.key.raw()));
        own.into_iter().chain(jobs).chain(of_nodes).chain([("cluster", cluster.name().as_str())])
    }

    fn target(row: &Row<'_>) -> Target {
        // A row of a single host has the actions of that host: its page, its log, its removal.
        let nodes = &row.cluster.snapshot.nodes;
        match row.hosts.nodes.as_slice() {
            [only] if row.hosts.expected.is_none_or(|expected| expected == 1) => {
                let node = nodes.get(*only as usize);
                node.map_or(Target::Cluster(row.cluster_index), |node| {
                    Target::Node(row.cluster_index, node.id)
                })
            }
            _ => Target::Hosts(row.cluster_index, row.hosts.key.clone()),
        }
    }

    /// The id of a single host, or the name of a slice; other groups of hosts have no name.
    fn copied(row: &Row<'_>) -> Option<(&'static str, String)> {
        let Hosts { key, name, .. } = row.hosts;
        match (Self::target(row), key.kind) {
            (Target::Node(_, id), _) => Some(("node id", id.to_string())),
            (_, HostsKind::Slice | HostsKind::Dead) if !name.is_empty() => {
                Some(("slice name", name.to_string()))
            }
            _ => None,
        }
    }
}

fn own<'f>(row: &Row<'f>) -> impl Ord + use<'f> {
    let hosts = row.hosts;
    let rank = match hosts.key.kind {
        HostsKind::Dead if hosts.is_lost() => 0,
        _ if hosts.is_incomplete() => 1,
        _ if row.has_outlier() => 2,
        HostsKind::Slice => 3,
        HostsKind::Type => 4,
        HostsKind::Head => 5,
        HostsKind::Dead => 6,
    };
    let ended = hosts.ended.as_ref().map(|(at, _)| *at);
    (rank, Reverse(ended.filter(|_| hosts.key.kind == HostsKind::Dead)))
}

impl Member for HostsTable {
    fn cluster<'f>(row: &Self::Row<'f>) -> &'f Cluster {
        row.cluster
    }

    fn mark(row: &Row<'_>) -> (&'static str, Role) {
        match row.state() {
            "lost" => ("✕", Role::Bad),
            "dead" => ("✕", Role::Dim),
            "stale node" => ("◇", Role::Bad),
            "joining" => ("◌", Role::Text),
            "incomplete" => ("◐", Role::Bad),
            "draining" => ("◐", Role::Text),
            _ if row.hosts.key.kind == HostsKind::Head => ("⌂", Role::Good),
            _ if row.has_outlier() => labels::severity_mark(Severity::Warn),
            _ => ("●", Role::Good),
        }
    }

    fn since(row: &Row<'_>) -> Option<Timestamp> {
        row.hosts.started
    }

    fn is_over(row: &Row<'_>) -> bool {
        row.hosts.key.kind == HostsKind::Dead
    }
}

const COLUMNS: &[Column<HostsTable>] = &[
    common::mark(),
    common::cluster(),
    Column {
        id: "slice",
        title: "SLICE",
        width: Width::text(12, 24, 0).firm(16),
        visibility: Visibility::Always,
        cell: |row, context| Cell::new(row.name(), HostsTable::text(row, context)).ending(),
        order: Some(|a, b| natural(&a.name(), &b.name())),
    },
    Column {
        id: "type",
        title: "TYPE",
        // The widest type of a slice is `v5litepod-256`: it has no shorter form, because no other page would have it.
        width: Width::text(7, 16, 3).firm(13),
        visibility: Visibility::Always,
        cell: |row, context| Cell::new(row.kind(), HostsTable::text(row, context)).named(),
        order: Some(|a, b| natural(&a.kind(), &b.kind())),
    },
    Column {
        id: "topology",
        title: "TOPOLOGY",
        width: Width::text(8, 10, 9).hiding(),
        visibility: Visibility::Always,
        cell: |row, context| {
            let topology = &row.hosts.topology;
            let text = if topology.is_empty() { Cow::Borrowed("-") } else { topology.shown() };
            Cell::new(text, HostsTable::text(row, context))
        },
        order: None,
    },
    Column {
        id: "hosts",
        title: "HOSTS",
        width: Width { most: 11, ..Width::number(7, 0) },
        visibility: Visibility::Always,
        cell: |row, context| {
            let role = if row.state() == "incomplete" { Role::Bad } else { HostsTable::text(row, context) };
            Cell::new(row.counted(), role.unless(HostsTable::is_stale(row, context))).ungrouping()
        },
        order: Some(|a, b| b.hosts.nodes.len().cmp(&a.hosts.nodes.len())),
    },
    Column {
        id: "state",
        title: "STATE",
        width: Width::text(10, 18, 0),
        visibility: Visibility::Always,
        cell: state,
        order: Some(|a, b| a.state().cmp(b.state())),
    },
    Column {
        id: "chips",
        title: "CHIPS",
        width: Width { most: 13, ..Width::number(9, 2) },
        visibility: Visibility::Always,
        cell: |row, context| {
            let chips = row.chips().unwrap_or_else(|| "-".into());
            Cell::new(chips, HostsTable::text(row, context)).ungrouping()
        },
        order: Some(|a, b| b.hosts.chips.1.total_cmp(&a.hosts.chips.1)),
    },
    Column {
        id: "job",
        title: "JOB",
        width: Width::rest(10, 24, 4),
        visibility: Visibility::Always,
        cell: |row, context| match row.jobs() {
            [] => Cell::new(if row.is_not_requested() { "vitals off" } else { "-" }, Role::Dim),
            [job] => {
                let cell = Cell::new(job.key.to_string(), HostsTable::text(row, context)).named();
                cell.or(job.short_name())
            }
            [job, more @ ..] => {
                let text = format!("{} and {} more", job.key, more.len());
                Cell::new(text, HostsTable::text(row, context)).or(format!("{} jobs", more.len() + 1))
            }
        },
        order: Some(|a, b| {
            let first = |row: &Row<'_>| row.jobs().first().map(|job| job.key.clone());
            // Slices without a job come last.
            (first(a).is_none(), first(a)).cmp(&(first(b).is_none(), first(b)))
        }),
    },
    Column {
        id: "load",
        title: "HOST LOAD",
        width: Width::text(12, 24, 5),
        visibility: Visibility::Always,
        cell: |row, context| {
            let stale = HostsTable::is_stale(row, context);
            match row.worst_text(context.now) {
                Some((text, role)) => {
                    // The figure comes before a name that is too long.
                    let brief = text.rsplit_once(' ').map_or("", |(figure, _)| figure).to_owned();
                    Cell::new(text, role.unless(stale)).or(brief)
                }
                None => Cell::new(if row.hosts.alive > 0 { "?" } else { "-" }, Role::Dim),
            }
        },
        order: Some(|a, b| {
            let figure = |row: &Row<'_>| {
                let worst = row.worst(row.cluster.snapshot.taken);
                worst.map_or((false, -1.0), |w| (w.why.is_some(), w.percent))
            };
            let (a, b) = (figure(a), figure(b));
            b.0.cmp(&a.0).then_with(|| b.1.total_cmp(&a.1))
        }),
    },
    common::age("uptime", "UPTIME", 6),
];

/// The state; for dead nodes, which have no figures, also when and why they died.
fn state<'f>(row: &Row<'f>, context: &CellContext<'f>) -> Cell<'f> {
    let (_, role) = HostsTable::mark(row);
    let role = role.unless(HostsTable::is_stale(row, context));
    match row.brief_loss(context.now).filter(|_| row.hosts.key.kind == HostsKind::Dead) {
        Some(loss) => Cell::new(loss, role).or(row.state()).spanning(),
        None => match row.outlier_cell(context.now) {
            Some((text, role)) if row.state() == "alive" => {
                Cell::new(text, role.unless(HostsTable::is_stale(row, context)))
            }
            _ => Cell::new(row.state(), role),
        },
    }
}
