//! The issues of all clusters, in one table.

use crate::app::action::context::{Context, PAGES_BUT_LOGS};
use crate::app::action::impact::Impact;
use crate::app::action::table::Description;
use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::pages::common::{self, Member};
use crate::app::screen::pane::Pane;
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::app::table::list::List;
use crate::app::text::labels;
use crate::app::view::TablePage;
use crate::diagnose::{Finding, FindingKind, Severity, Subject};
use crate::model::Timestamp;
use crate::model::amount::counted;
use crate::reconcile::{HostsKey, HostsKind};
use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};

/// The table of the issues and warnings of all clusters.
pub static PAGE: TablePage = TablePage {
    opener: Description {
        impact: Impact::View,
        name: "issues",
        label: "issues",
        help: "Show the issues and warnings of all clusters in one table",
        keywords: "alerts alarms problems",
        contexts: PAGES_BUT_LOGS,
    },
    crumb: "issues",
    context: Context::Table,
    list: || Box::new(List::<Issues>::new(None).holding_top()),
};

/// The issues and warnings of all clusters.
#[derive(Debug)]
pub struct Issues;

/// An issue with its cluster.
#[derive(Clone, Copy, Debug)]
pub struct IssueRow<'f> {
    cluster: &'f Cluster,
    cluster_index: usize,
    number: usize,
    finding: &'f Finding,
}

type Row<'f> = IssueRow<'f>;

/// The pane of the cluster that shows issues of this kind; `None` if no pane in particular does.
pub fn pane(kind: FindingKind) -> Option<Pane> {
    match kind {
        FindingKind::NodesLost | FindingKind::SliceIncomplete => Some(Pane::Nodes),
        FindingKind::PendingTooLong => Some(Pane::Jobs),
        kind => kind.is_of_autoscaler().then_some(Pane::Autoscaler),
    }
}

impl Kind for Issues {
    type Row<'f> = IssueRow<'f>;
    /// Two issues of one kind differ in what they are about, or in their details; numbers in the details change.
    type Key = (FindingKind, Subject, String);

    const LACKS: &'static str = "no issues";
    const FIELDS: &'static [&'static str] = &["issue", "details", "severity", "cluster"];
    const BELOW: Option<&'static str> = Some("details");

    fn title(_: Option<usize>) -> &'static str {
        "Issues"
    }

    fn name(_: Option<usize>) -> &'static str {
        PAGE.opener.name
    }

    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static> {
        let of_severity = |severity| {
            Self::rows(context.fleet, of).filter(|(_, row)| row.finding.severity == severity).count()
        };
        let (bad, warn) = (of_severity(Severity::Bad), of_severity(Severity::Warn));
        Cell::new(format!("{} · {}", counted(bad, "issue"), counted(warn, "warning")), Role::Dim)
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(cluster: &Cluster) -> usize {
        cluster.findings.len()
    }

    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Row<'_>> {
        let finding = cluster.findings.get(number)?;
        (finding.severity < Severity::Info).then_some(Row { cluster, cluster_index, number, finding })
    }

    fn key(row: &Row<'_>) -> Self::Key {
        let Finding { kind, about, short, .. } = row.finding;
        let is_number = |word: &&str| word.trim_matches(|c: char| !c.is_ascii_alphabetic()).is_empty();
        let words: Vec<&str> = short.split_whitespace().filter(|word| !is_number(word)).collect();
        (*kind, about.clone(), words.join(" "))
    }

    /// The worst first, and the latest first among equals, because recent ones are of most interest.
    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        let rank =
            |row: &Row<'_>| (row.finding.severity, Reverse(row.finding.since), row.cluster_index, row.number);
        rank(a).cmp(&rank(b))
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        [
            ("issue", row.finding.label()),
            ("details", row.finding.long.as_str()),
            ("severity", row.finding.severity.label()),
            ("cluster", row.cluster.name().as_str()),
        ]
        .into_iter()
    }

    fn target(row: &Row<'_>) -> Target {
        let cluster_index = row.cluster_index;
        match &row.finding.about {
            Subject::Job(job) => Target::Job(cluster_index, job.clone()),
            Subject::Slice(name) => {
                let key = HostsKey { kind: HostsKind::Slice, name: name.clone(), lost: None };
                Target::Hosts(cluster_index, key)
            }
            Subject::Tpu(name) => Target::Tpu(cluster_index, name.clone()),
            Subject::Cluster => Target::Cluster(cluster_index),
        }
    }

    fn copied(row: &Row<'_>) -> Option<(&'static str, String)> {
        let text = format!("{}: {}", row.cluster.name(), row.finding.long);
        Some(("issue", text))
    }
}

impl Member for Issues {
    /// Issues such as a held quota have no beginning that Ray or Google report.
    const WITHOUT_AGE: &'static str = "-";

    fn cluster<'f>(row: &Self::Row<'f>) -> &'f Cluster {
        row.cluster
    }

    fn mark(row: &Row<'_>) -> (&'static str, Role) {
        labels::severity_mark(row.finding.severity)
    }

    fn since(row: &Row<'_>) -> Option<Timestamp> {
        row.finding.since
    }

    fn is_over(_: &Row<'_>) -> bool {
        false
    }
}

const COLUMNS: &[Column<Issues>] = &[
    common::mark(),
    common::cluster(),
    Column {
        id: "issue",
        title: "ISSUE",
        width: Width::text(12, 24, 0).firm(24),
        visibility: Visibility::Always,
        cell: |row, _| {
            let (_, role) = Issues::mark(row);
            Cell::new(Cow::Borrowed(row.finding.label()), role)
        },
        order: Some(|a, b| a.finding.label().cmp(b.finding.label())),
    },
    common::age("age", "AGE", 1),
    Column {
        id: "details",
        title: "DETAILS",
        width: Width::rest(20, 200, 0),
        visibility: Visibility::Always,
        cell: |row, context| {
            let hint = context.hint(&row.finding.hint);
            let long = row.finding.long.as_str();
            let text = if hint.is_empty() { long.to_owned() } else { format!("{long}. Hint: {hint}") };
            Cell::new(text, Issues::text(row, context))
        },
        order: None,
    },
];
