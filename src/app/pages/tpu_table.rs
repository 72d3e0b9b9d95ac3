//! The TPUs of a cluster: slices and requests at Google Cloud, joined with Ray's nodes.

use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::pages::common::{self, Member};
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::app::text::labels;
use crate::model::amount::grouped;
use crate::model::cloud::Capacity;
use crate::model::{Text, Timestamp};
use crate::reconcile::{Row as Tpu, TpuStatus, chips_by_generation};
use std::cmp::Ordering;

/// The TPUs of a cluster.
#[derive(Debug)]
pub struct TpuTable;

/// A slice or a request with its cluster.
#[derive(Clone, Copy, Debug)]
pub struct TpuRow<'f> {
    cluster: &'f Cluster,
    cluster_index: usize,
    /// The slice or request, joined with Ray's nodes.
    pub tpu: &'f Tpu,
}

type Row<'f> = TpuRow<'f>;

impl Kind for TpuTable {
    type Row<'f> = TpuRow<'f>;
    type Key = Text;

    const LACKS: &'static str = "no TPUs";
    const FIELDS: &'static [&'static str] =
        &["name", "type", "status", "managed-by", "capacity", "address", "cluster"];

    fn title(of: Option<usize>) -> &'static str {
        if of.is_some() { "TPUs" } else { "All TPUs" }
    }

    fn name(of: Option<usize>) -> &'static str {
        if of.is_some() { "tpus" } else { "all-tpus" }
    }

    /// Chips by generation, and the age of Google's answer.
    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static> {
        let Some(cluster) = of.and_then(|cluster_index| context.fleet.clusters.get(cluster_index)) else {
            return counts_of_all(context);
        };
        let tpus = &cluster.tpus;
        let chips = tpus.chips();
        let mut parts: Vec<String> =
            chips.iter().map(|(generation, chips)| chips.text(generation, tpus.knows_ray())).collect();
        parts.extend(
            tpus.requested_at().map(|at| format!("Google {} ago", labels::minutes(at.age(context.now)))),
        );
        let role = if cluster.is_google_stale(context.now) { Role::Warn } else { Role::Dim };
        Cell::new(parts.join(" · "), role)
    }

    fn why_empty(context: &CellContext<'_>, of: Option<usize>) -> String {
        let tpus = || context.fleet.each(of).map(|(_, cluster)| &cluster.tpus);
        match () {
            () if tpus().any(|t| t.requested_at().is_some()) && of.is_some() => "no TPUs here",
            () if tpus().any(|t| t.requested_at().is_some()) => "no TPUs on any cluster",
            () if tpus().any(|t| t.problem().is_some()) => "no data: Google has not responded yet",
            () => "querying Google Cloud",
        }
        .to_owned()
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(cluster: &Cluster) -> usize {
        cluster.tpus.rows().len()
    }

    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Row<'_>> {
        Some(Row { cluster, cluster_index, tpu: cluster.tpus.rows().get(number)? })
    }

    fn key(row: &Row<'_>) -> Text {
        row.tpu.name.clone()
    }

    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        (a.tpu.status, &a.tpu.name).cmp(&(b.tpu.status, &b.tpu.name))
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        let s = row.tpu;
        let words = [
            ("name", s.name.raw()),
            ("type", s.accelerator_type.raw()),
            ("status", s.status.label()),
            ("managed-by", s.keeper.label()),
            ("capacity", s.capacity.map_or("", Capacity::label)),
        ];
        let addresses = s.logins.iter().map(|h| ("address", h.internal.raw()));
        words.into_iter().chain(addresses).chain([("cluster", row.cluster.name().as_str())])
    }

    fn target(row: &Row<'_>) -> Target {
        Target::Tpu(row.cluster_index, row.tpu.name.clone())
    }

    fn copied(row: &Row<'_>) -> Option<(&'static str, String)> {
        Some(("tpu name", row.tpu.name.to_string()))
    }
}

impl Member for TpuTable {
    fn cluster<'f>(row: &Self::Row<'f>) -> &'f Cluster {
        row.cluster
    }

    fn mark(row: &Row<'_>) -> (&'static str, Role) {
        status(row.tpu.status)
    }

    fn since(row: &Row<'_>) -> Option<Timestamp> {
        row.tpu.created
    }

    fn is_over(_: &Row<'_>) -> bool {
        false
    }

    /// According to the age of Google's answer rather than Ray's.
    fn is_stale(row: &Row<'_>, context: &CellContext<'_>) -> bool {
        row.cluster.is_google_stale(context.now)
    }
}

const COLUMNS: &[Column<TpuTable>] = &[
    common::mark(),
    common::cluster(),
    Column {
        id: "status",
        title: "STATUS",
        width: Width::text(12, 23, 0).firm(23),
        visibility: Visibility::Always,
        cell: |row, context| {
            let (_, role) = status(row.tpu.status);
            let cell = Cell::new(row.tpu.status.label(), role.unless(TpuTable::is_stale(row, context)));
            match row.tpu.status {
                // The most important fact is that it uses quota.
                TpuStatus::HoldsQuota | TpuStatus::Terminated => cell.or("holds quota"),
                _ => cell,
            }
        },
        order: Some(|a, b| a.tpu.status.cmp(&b.tpu.status)),
    },
    Column {
        id: "name",
        title: "NAME",
        width: Width::text(18, 48, 0),
        visibility: Visibility::Always,
        cell: |row, context| Cell::new(row.tpu.name.shown(), TpuTable::text(row, context)).ending(),
        order: Some(|a, b| a.tpu.name.cmp(&b.tpu.name)),
    },
    Column {
        id: "type",
        title: "TYPE",
        width: Width::text(13, 20, 1),
        visibility: Visibility::Always,
        cell: |row, context| {
            let kind = &row.tpu.accelerator_type;
            Cell::new(if kind.is_empty() { "-".into() } else { kind.shown() }, TpuTable::text(row, context))
        },
        order: Some(|a, b| a.tpu.accelerator_type.cmp(&b.tpu.accelerator_type)),
    },
    Column {
        id: "chips",
        title: "CHIPS",
        width: Width::number(6, 3),
        visibility: Visibility::Always,
        cell: |row, context| Cell::new(grouped(row.tpu.chips as usize), TpuTable::text(row, context)),
        order: Some(|a, b| b.tpu.chips.cmp(&a.tpu.chips)),
    },
    Column {
        id: "in-ray",
        title: "IN RAY",
        width: Width::number(7, 0),
        visibility: Visibility::Always,
        cell: |row, context| Cell::new(in_ray(row), TpuTable::text(row, context)),
        order: Some(|a, b| b.tpu.hosts.1.cmp(&a.tpu.hosts.1)),
    },
    Column {
        id: "capacity",
        title: "CAPACITY",
        width: Width::text(11, 11, 5),
        visibility: Visibility::Always,
        cell: |row, context| {
            Cell::new(row.tpu.capacity.map_or("-", Capacity::label), TpuTable::text(row, context))
        },
        order: None,
    },
    Column {
        id: "managed-by",
        title: "MANAGED BY",
        width: Width::text(10, 16, 6),
        visibility: Visibility::Always,
        cell: |row, context| Cell::new(row.tpu.keeper.label(), TpuTable::text(row, context)),
        order: None,
    },
    common::age("age", "AGE", 4),
    Column {
        id: "note",
        title: "NOTE",
        width: Width::rest(33, 120, 7),
        visibility: Visibility::Always,
        cell: |row, context| {
            let advice = match &row.tpu.note {
                Some(note) => note.shown(),
                None => context.hint(&row.tpu.hint()).into(),
            };
            Cell::new(advice, Role::Dim)
        },
        order: None,
    },
];

/// Chips of all clusters by generation, and the age of Google's oldest answer.
fn counts_of_all(context: &CellContext<'_>) -> Cell<'static> {
    let all = || context.fleet.clusters.iter().filter(|cluster| cluster.tpus.requested_at().is_some());
    let knows_ray = all().all(|cluster| cluster.tpus.knows_ray());
    let chips = chips_by_generation(all().flat_map(|cluster| cluster.tpus.rows()));
    let mut parts: Vec<String> =
        chips.iter().map(|(generation, chips)| chips.text(generation, knows_ray)).collect();
    let oldest = all().filter_map(|cluster| cluster.tpus.requested_at()).min();
    parts.extend(oldest.map(|at| format!("Google {} ago", labels::minutes(at.age(context.now)))));
    let role = if all().any(|cluster| cluster.is_google_stale(context.now)) { Role::Warn } else { Role::Dim };
    Cell::new(parts.join(" · "), role)
}

/// Hosts that have joined Ray, and all hosts: `2/4`.
fn in_ray(row: &Row<'_>) -> String {
    let (hosts, joined) = row.tpu.hosts;
    match (row.cluster.tpus.knows_ray(), hosts) {
        (_, 0) if joined == 0 => "-".to_owned(),
        // Google reports no hosts.
        (_, 0) => joined.to_string(),
        (false, hosts) => format!("?/{hosts}"),
        (true, hosts) => format!("{joined}/{hosts}"),
    }
}

/// The glyph and role of a slice's state.
fn status(status: TpuStatus) -> (&'static str, Role) {
    match status {
        TpuStatus::Ghost => ("◇", Role::Bad),
        TpuStatus::Incomplete
        | TpuStatus::NotInRay
        | TpuStatus::HoldsQuota
        | TpuStatus::Terminated
        | TpuStatus::Preempted
        | TpuStatus::Refused => ("✕", Role::Bad),
        TpuStatus::Stopped | TpuStatus::Unknown => ("■", Role::Warn),
        TpuStatus::Delayed => ("◐", Role::Warn),
        TpuStatus::Joining | TpuStatus::Waiting | TpuStatus::Leaving => ("◐", Role::Text),
        TpuStatus::Up => ("○", Role::Text),
        TpuStatus::Registered => ("●", Role::Good),
    }
}
