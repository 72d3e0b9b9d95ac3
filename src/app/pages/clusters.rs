//! The fleet: one row per cluster with its worst issue, and the files that could not be read.

use crate::app::action::table::Action;
use crate::app::action::target::Target;
use crate::app::fleet::Fleet;
use crate::app::fleet::cluster::Cluster;
use crate::app::fleet::trend::sparkline;
use crate::app::operation::progress::OperationProgress;
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, RowIndex, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::app::text::labels;
use crate::diagnose::{Finding, FindingKind, Severity, unhealthy_runs};
use crate::model::amount::number;
use crate::model::text::printable;
use crate::model::{Chip, ClusterTotals, Link, Problem, SnapshotPart};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Width of the bar of used chips.
const BAR: u16 = 6;
/// Number of samples of the chips' use: if there is room, and otherwise.
const SAMPLES_SHOWN: (u16, u16) = (20, 8);

/// The clusters, followed by the broken files.
#[derive(Debug)]
pub struct Clusters;

/// A row of the fleet.
#[derive(Clone, Copy, Debug)]
pub enum ClusterRow<'f> {
    /// A cluster, with its index.
    Cluster(usize, &'f Cluster),
    /// A file that could not be read, with its index after all clusters and its index among the files.
    Broken(usize, usize, &'f str, &'f Problem),
}

use ClusterRow::{Broken, Cluster as Known};

impl Kind for Clusters {
    type Row<'f> = ClusterRow<'f>;
    type Key = ();

    const LACKS: &'static str = "no clusters";
    const FIELDS: &'static [&'static str] = &["cluster", "issue"];
    const ALSO_SEARCHED: &'static [&'static str] = &["connection"];

    fn title(_: Option<usize>) -> &'static str {
        "Clusters"
    }

    fn name(_: Option<usize>) -> &'static str {
        "fleet"
    }

    fn counts(_: &CellContext<'_>, _: Option<usize>) -> Cell<'static> {
        Cell::default()
    }

    fn why_empty(_: &CellContext<'_>, _: Option<usize>) -> String {
        "no clusters; use --infra to set the directory with the cluster files".to_owned()
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(_: &Cluster) -> usize {
        1
    }

    fn row(cluster: &Cluster, cluster_index: usize, _: usize) -> Option<ClusterRow<'_>> {
        Some(Known(cluster_index, cluster))
    }

    fn row_indices(fleet: &Fleet, _: Option<usize>) -> impl Iterator<Item = RowIndex> {
        (0..fleet.clusters.len() + fleet.broken.len()).map(|cluster_index| (cluster_index, 0))
    }

    fn at(fleet: &Fleet, (cluster_index, number): RowIndex) -> Option<ClusterRow<'_>> {
        if let Some(cluster) = fleet.clusters.get(cluster_index) {
            return Self::row(cluster, cluster_index, number);
        }
        let among = cluster_index - fleet.clusters.len();
        fleet.broken.get(among).map(|(file, problem)| Broken(cluster_index, among, file, problem))
    }

    fn key(_: &ClusterRow<'_>) {}

    /// Rows with issues first; otherwise in the order in which they were listed.
    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        rank(a).cmp(&rank(b))
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        match *row {
            Known(_, c) => [("cluster", c.name().as_str()), ("issue", c.worst().map_or("", |f| f.label()))],
            Broken(_, _, file, _) => [("cluster", file), ("issue", "broken file")],
        }
        .into_iter()
    }

    fn target(row: &ClusterRow<'_>) -> Target {
        match row {
            Known(cluster_index, _) => Target::Cluster(*cluster_index),
            Broken(_, among, ..) => Target::Broken(*among),
        }
    }

    fn copied(row: &ClusterRow<'_>) -> Option<(&'static str, String)> {
        Some(match row {
            Known(_, cluster) => ("cluster name", cluster.name().as_str().to_owned()),
            Broken(_, _, file, _) => ("file name", printable(file).into_owned()),
        })
    }
}

type Row<'f> = ClusterRow<'f>;

const COLUMNS: &[Column<Clusters>] = &[
    Column {
        id: "mark",
        title: "",
        width: Width::text(1, 1, 0),
        visibility: Visibility::Always,
        cell: |row, context| match row {
            Known(_, cluster) => mark(cluster, context),
            Broken(..) => Cell::new("✕", Role::Bad),
        },
        order: None,
    },
    Column {
        id: "cluster",
        title: "CLUSTER",
        width: Width::text(13, 32, 0).firm(24),
        visibility: Visibility::Always,
        cell: name,
        order: Some(|a, b| {
            let name = |row: &Row<'_>| match row {
                Known(_, c) => (false, c.name().as_str().to_owned()),
                Broken(_, _, file, _) => (true, (*file).to_owned()),
            };
            name(a).cmp(&name(b))
        }),
    },
    Column {
        id: "connection",
        title: "CONN",
        // A problem matters more than the latency.
        width: Width::text(4, 10, 0),
        visibility: Visibility::Always,
        cell: |row, context| match row {
            Known(_, cluster) => link(cluster, context),
            Broken(_, _, file, problem) => broken(file, problem, context),
        },
        order: None,
    },
    Column {
        id: "ray",
        title: "RAY",
        width: Width::text(7, 7, 8),
        visibility: Visibility::Always,
        cell: |row, _| known(row, |c| Cell::new(c.snapshot.ray_version.shown(), Role::Dim)),
        order: None,
    },
    Column {
        id: "nodes",
        title: "NODES",
        width: Width::text(9, 16, 0),
        visibility: Visibility::Always,
        cell: |row, context| {
            read(row, SnapshotPart::Nodes, |c| {
                // In a narrow column, lost nodes matter more than joining ones.
                let brief = aligned(&labels::node_counts_in_brief(c), NODES);
                Cell::new(aligned(&labels::node_counts(c), NODES), Role::Text.unless(c.is_stale(context.now)))
                    .or(brief)
            })
        },
        order: Some(|a, b| tally(b).alive.cmp(&tally(a).alive)),
    },
    Column {
        id: "bar",
        title: "",
        width: Width::text(BAR, BAR, 4),
        visibility: Visibility::Always,
        cell: |row, context| {
            let stale = |c: &Cluster| Role::Text.unless(c.is_stale(context.now));
            of(row, |c| Cell::new(bar(&c.tally), stale(c)))
        },
        order: None,
    },
    Column {
        id: "chips",
        title: "CHIPS",
        width: Width { most: 17, ..Width::number(9, 1) },
        visibility: Visibility::Always,
        cell: |row, context| {
            let role = |c: &Cluster| Role::Text.unless(c.is_stale(context.now));
            read(row, SnapshotPart::Nodes, |c| Cell::new(chips(&c.tally), role(c)).ungrouping())
        },
        order: Some(|a, b| tally(b).chips.total_cmp(&tally(a).chips)),
    },
    Column {
        id: "usage",
        title: "USAGE",
        width: Width::text(SAMPLES_SHOWN.1, SAMPLES_SHOWN.0, 7),
        visibility: Visibility::Always,
        cell: |row, context| {
            of(row, |c| {
                let [long, brief] =
                    [SAMPLES_SHOWN.0, SAMPLES_SHOWN.1].map(|n| sparkline(c.trend.levels(n.into())));
                Cell::new(long, Role::Accent.unless(c.is_stale(context.now))).or(brief)
            })
        },
        order: None,
    },
    Column {
        id: "jobs",
        title: "JOBS",
        width: Width::text(9, 12, 2),
        visibility: Visibility::Always,
        cell: |row, context| {
            read(row, SnapshotPart::Jobs, |c| {
                let counts = labels::job_counts(c, context.now);
                let brief = counts.replace(' ', "");
                let is_unsure = c.is_stale(context.now) || c.counts_waiting_as_running();
                Cell::new(aligned(&counts, JOBS), Role::Text.unless(is_unsure)).or(brief)
            })
        },
        order: Some(|a, b| {
            let jobs = |row: &Row<'_>| tally(row).jobs();
            jobs(b).cmp(&jobs(a))
        }),
    },
    Column {
        id: "demand",
        title: "DEMAND",
        width: Width::number(8, 5),
        visibility: Visibility::Always,
        cell: |row, context| {
            known(row, |c| match c.tally.unmet_demands {
                0 => Cell::new("-", Role::Text.unless(c.is_stale(context.now))),
                pending => Cell::new(pending.to_string(), Role::Warn.unless(c.is_stale(context.now))),
            })
        },
        order: Some(|a, b| tally(b).unmet_demands.cmp(&tally(a).unmet_demands)),
    },
    Column {
        id: "data-age",
        title: "DATA",
        width: Width::number(5, 6),
        visibility: Visibility::Always,
        cell: |row, context| {
            let role = |c: &Cluster| if c.is_stale(context.now) { Role::Warn } else { Role::Text };
            of(row, |c| Cell::new(labels::age(c.age(context.now), context.fresh), role(c)))
        },
        order: None,
    },
    Column {
        id: "issue",
        title: "ISSUE",
        width: Width::rest(20, 200, 0).firm(28),
        visibility: Visibility::Always,
        cell: |row, context| of(row, |c| issue(c, context)),
        order: None,
    },
];

/// Columns of the first of several counts, for aligning those of all clusters.
const NODES: usize = 3;
const JOBS: usize = 3;

/// Counts, the first of them right-aligned in that many columns.
fn aligned(counts: &str, columns: usize) -> String {
    let first = counts.find(' ').unwrap_or(counts.len());
    format!("{}{counts}", " ".repeat(columns.saturating_sub(first)))
}

/// The cell of a cluster, read or not; empty for a file.
fn of<'f>(row: &Row<'f>, cell: impl Fn(&'f Cluster) -> Cell<'f>) -> Cell<'f> {
    match *row {
        Known(_, cluster) => cell(cluster),
        Broken(..) => Cell::default(),
    }
}

/// The cell of a cluster whose state was read; `?` before.
fn known<'f>(row: &Row<'f>, cell: impl Fn(&'f Cluster) -> Cell<'f>) -> Cell<'f> {
    of(row, |c| if c.known { cell(c) } else { Cell::text("?") })
}

/// The cell of a cluster whose nodes or jobs were read; `?` before.
fn read<'f>(row: &Row<'f>, part: SnapshotPart, cell: impl Fn(&'f Cluster) -> Cell<'f>) -> Cell<'f> {
    of(row, |c| if c.knows(part) { cell(c) } else { Cell::text("?") })
}

fn tally(row: &Row<'_>) -> ClusterTotals {
    match row {
        Known(_, cluster) => cluster.tally,
        Broken(..) => ClusterTotals::default(),
    }
}

/// Rank of a row in the default order: bad, doubtful, in progress, good, idle.
fn rank(row: &Row<'_>) -> u8 {
    let Known(_, cluster) = row else { return 0 };
    match cluster.operating() {
        Some(running) if running.is_interrupted() => return 0,
        Some(_) => return 1,
        None => {}
    }
    match cluster.worst().map(|f| (f.kind, f.severity)) {
        Some((_, Severity::Bad)) => 0,
        Some((_, Severity::Warn)) => 1,
        Some((FindingKind::Idle, _)) => 4,
        Some((_, Severity::Info)) => 2,
        None => 3,
    }
}

/// The glyph of the row's state.
fn mark(cluster: &Cluster, context: &CellContext<'_>) -> Cell<'static> {
    let (glyph, role) = match (cluster.operating(), cluster.worst(), &cluster.link) {
        (Some(running), ..) if running.is_interrupted() => ("▲", Role::Bad),
        (Some(_), ..) => ("◐", Role::Accent),
        _ if cluster.lock.is_some() => ("◐", Role::Accent),
        (_, Some(Finding { problem: Some(_), .. }), _) => ("✕", Role::Bad),
        (_, Some(Finding { severity: Severity::Bad, .. }), _) => ("▲", Role::Bad),
        (_, _, None | Some(Link::Connecting { .. })) => ("◌", Role::Dim),
        (_, Some(Finding { severity: Severity::Warn, .. }), _) => ("!", Role::Warn),
        (_, Some(Finding { kind: FindingKind::Idle, .. }), _) => ("○", Role::Dim),
        _ if cluster.is_stale(context.now) => ("●", Role::Warn),
        _ => ("●", Role::Good),
    };
    Cell::new(glyph, role)
}

fn name<'f>(row: &Row<'f>, context: &CellContext<'f>) -> Cell<'f> {
    match *row {
        Known(_, cluster) => {
            let role = match (issue(cluster, context).role, cluster.is_stale(context.now)) {
                (Role::Bad, _) => Role::Bad,
                (_, stale) => Role::Text.unless(stale),
            };
            context.fleet.name_cell(cluster, role)
        }
        Broken(_, _, file, _) => Cell::text(printable(file.rsplit('/').next().unwrap_or(file))),
    }
}

/// The state of the connection; the last column has the problem in full.
fn link(cluster: &Cluster, context: &CellContext<'_>) -> Cell<'static> {
    if cluster.problem().is_some() && cluster.operating().is_some_and(OperationProgress::takes_down) {
        return Cell::new("◌ down", Role::Accent).or("◌");
    }
    let (text, role) = labels::link(cluster, context.now);
    match &cluster.link {
        Some(Link::Up { dashboard: Some(_), .. }) => Cell::new("! GCS only", role).or("!"),
        Some(Link::Up { latency: Some(latency), .. }) => {
            Cell::new(format!("● {}", labels::trip(*latency)), role).or("●")
        }
        Some(Link::Connecting { .. }) => Cell::new("◌ opening", role).or("◌"),
        Some(Link::Retrying { at, .. }) => {
            Cell::new(format!("✕ in {}", labels::countdown(at.until(context.now))), role).or("✕")
        }
        Some(Link::Stopped { .. }) => Cell::new("✕ down", role).or("✕"),
        Some(Link::Up { .. }) => Cell::new(text, role).or("●"),
        None => Cell::new(text, role).or("○"),
    }
}

/// The worst issue and its age, with a hint; or first of all the operation in progress.
fn issue<'f>(cluster: &'f Cluster, context: &CellContext<'_>) -> Cell<'f> {
    if let Some(running) = cluster.operating() {
        let role = if running.is_interrupted() { Role::Bad } else { Role::Accent };
        return Cell::new(format!("{}: {}", running.brief(), context.keymap.key_of(Action::Progress)), role);
    }
    if let Some(mark) = cluster.locked_by_others() {
        return Cell::new(
            format!("{}: {}", mark.brief(context.now), context.keymap.key_of(Action::Progress)),
            Role::Accent,
        );
    }
    if let Some(problem) = cluster.problem() {
        let (kind, since) = (problem.kind.text(), labels::minutes(problem.since.age(context.now)));
        let text = problem.joined(&context.hint(&problem.hint));
        return Cell::new(format!("{kind} {since}: {text}"), Role::Bad);
    }
    let age = cluster.age(context.now).filter(|age| *age >= context.fresh);
    let old = age.map(|age| format!("data {} old", labels::age(Some(age), context.fresh)));
    let words = |finding: &Finding| {
        let unhealthy_runs = unhealthy_runs(&cluster.findings);
        // A single unhealthy run that is the worst finding is named by it.
        let unhealthy_runs = unhealthy_runs.filter(|_| {
            finding.job().is_none() || cluster.findings.iter().filter(|f| f.job().is_some()).count() > 1
        });
        let unhealthy_runs =
            unhealthy_runs.map(|unhealthy_runs| format!("{unhealthy_runs}; ")).unwrap_or_default();
        format!("{unhealthy_runs}{}", labels::finding(finding, context.now))
    };
    match (cluster.worst(), old) {
        (Some(finding), Some(old)) => Cell::new(format!("{old}; {}", words(finding)), Role::Dim),
        (Some(finding), None) => Cell::new(words(finding), labels::severity(finding.severity)),
        (None, Some(old)) => Cell::new(old, Role::Warn),
        (None, None) => Cell::new(if cluster.known { "" } else { "-" }, Role::Dim),
    }
}

/// The problem of a file, in place of all other cells.
fn broken<'f>(file: &'f str, problem: &'f Problem, context: &CellContext<'_>) -> Cell<'f> {
    // The name column already shows the file's name.
    let what = problem.what.strip_prefix(file).map_or(problem.what.as_str(), |w| w.trim_start_matches(':'));
    let text = if problem.hint.is_empty() {
        Cow::Borrowed(what.trim_start())
    } else {
        format!("{}; {}", what.trim_start(), context.hint(&problem.hint)).into()
    };
    Cell::new(format!("broken file: {text}"), Role::Bad).spanning()
}

/// Used and total chips, with their kind unless they are TPUs.
fn chips(t: &ClusterTotals) -> String {
    let unit = match t.chip {
        Chip::Tpu => "",
        Chip::Gpu => " gpu",
        Chip::Cpu => " cpu",
    };
    match t.used {
        _ if t.chips <= 0.0 => "-".into(),
        used => format!(
            "{}/{}{unit}",
            used.map_or_else(|| "?".into(), |u| number(u.round())),
            number(t.chips.round())
        ),
    }
}

/// `▇▇▇░░░`; empty if unknown.
fn bar(t: &ClusterTotals) -> String {
    let Some(share) = t.share() else { return String::new() };
    // A non-zero use is never shown as empty, nor a partial one as full.
    let cells = usize::from(BAR);
    let full = match (share * f64::from(BAR)).round() as usize {
        0 if share > 0.0 => 1,
        n if n >= cells && share < 1.0 => cells - 1,
        n => n.min(cells),
    };
    "▇".repeat(full) + &"░".repeat(cells - full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_or_empty_only_when_the_chips_are() {
        let bar = |used| bar(&ClusterTotals { chips: 1000.0, used, ..ClusterTotals::default() });
        assert_eq!(bar(Some(0.0)), "░░░░░░");
        assert_eq!(bar(Some(1.0)), "▇░░░░░");
        assert_eq!(bar(Some(999.0)), "▇▇▇▇▇░");
        assert_eq!(bar(Some(1000.0)), "▇▇▇▇▇▇");
        assert_eq!(bar(None), "");
    }
}
