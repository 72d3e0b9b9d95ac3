//! The launches that failed on all clusters, in one table.

use crate::app::cell::{Cell, Role};
use crate::app::cluster::Cluster;
use crate::app::column::{Column, Kind, When, Width};
use crate::app::context::{Context, FLEET};
use crate::app::fleet::Fleet;
use crate::app::list::List;
use crate::app::look::Look;
use crate::app::pages::common::{self, Member};
use crate::app::target::Target;
use crate::app::view::TablePage;
use crate::model::Timestamp;
use crate::model::amount::counted;
use crate::model::autoscaler::LaunchFailure;
use std::cmp::{Ordering, Reverse};

/// The table.
pub static PAGE: TablePage = TablePage {
    name: "failed-launches",
    label: "",
    help: "Show the failed launches of all clusters in one table",
    crumb: "failed launches",
    context: Context::Table,
    from: FLEET,
    list: || Box::new(List::<Launches>::new(None)),
};

/// The failed launches that the autoscalers report.
#[derive(Debug)]
pub struct Launches;

/// A failed launch with its cluster.
#[derive(Clone, Copy, Debug)]
pub struct LaunchRow<'f> {
    cluster: &'f Cluster,
    place: usize,
    number: usize,
    failure: &'f LaunchFailure,
}

type Row<'f> = LaunchRow<'f>;

fn row(cluster: &Cluster, place: usize, number: usize) -> Option<Row<'_>> {
    let failure = cluster.snapshot.autoscaler.failures.get(number)?;
    Some(Row { cluster, place, number, failure })
}

impl Kind for Launches {
    type Row<'f> = LaunchRow<'f>;
    type Key = (String, Option<Timestamp>);

    const LACKS: &'static str = "no failed launch";
    const FIELDS: &'static [&'static str] = &["type", "reason", "cluster"];
    const BELOW: Option<&'static str> = Some("reason");

    fn title(_: Option<usize>) -> &'static str {
        "Failed launches"
    }

    fn name(_: Option<usize>) -> &'static str {
        PAGE.name
    }

    fn counts(look: &Look<'_>, of: Option<usize>) -> Cell<'static> {
        Cell::new(counted(Self::rows(look.fleet, of).count(), "failed launch"), Role::Dim)
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn rows(fleet: &Fleet, of: Option<usize>) -> impl Iterator<Item = Row<'_>> {
        fleet.each(of).flat_map(|(place, cluster)| {
            let failures = 0..cluster.snapshot.autoscaler.failures.len();
            failures.filter_map(move |number| row(cluster, place, number))
        })
    }

    fn place(row: &Row<'_>) -> usize {
        row.place
    }

    fn number(row: &Row<'_>) -> usize {
        row.number
    }

    fn row(fleet: &Fleet, place: usize, number: usize) -> Option<Row<'_>> {
        row(fleet.clusters.get(place)?, place, number)
    }

    fn key(row: &Row<'_>) -> Self::Key {
        (row.failure.node_type.raw().to_owned(), row.failure.at)
    }

    /// The latest first.
    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        let rank = |row: &Row<'_>| (Reverse(row.failure.at), row.place, row.number);
        rank(a).cmp(&rank(b))
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        [
            ("type", row.failure.node_type.raw()),
            ("reason", row.failure.reason.raw()),
            ("cluster", row.cluster.name().as_str()),
        ]
        .into_iter()
    }

    fn target(row: &Row<'_>) -> Target {
        Target::Cluster(row.place)
    }

    fn copied(row: &Row<'_>) -> (&'static str, String) {
        ("reason", row.failure.reason.shown().into_owned())
    }
}

impl Member for Launches {
    fn cluster<'f>(row: &Self::Row<'f>) -> &'f Cluster {
        row.cluster
    }

    fn mark(_: &Row<'_>) -> (&'static str, Role) {
        ("!", Role::Warn)
    }

    fn since(row: &Row<'_>) -> Option<Timestamp> {
        row.failure.at
    }

    fn is_over(_: &Row<'_>) -> bool {
        false
    }
}

const COLUMNS: &[Column<Launches>] = &[
    common::mark(),
    common::cluster(),
    Column {
        id: "type",
        title: "TYPE",
        width: Width::text(12, 24, 0),
        when: When::Usually,
        cell: |row, look| Cell::new(row.failure.node_type.shown(), Launches::text(row, look)),
        order: Some(|a, b| a.failure.node_type.cmp(&b.failure.node_type)),
    },
    Column {
        id: "count",
        title: "NODES",
        width: Width::number(5, 1),
        when: When::Usually,
        cell: |row, look| Cell::new(row.failure.count.to_string(), Launches::text(row, look)),
        order: Some(|a, b| b.failure.count.cmp(&a.failure.count)),
    },
    common::age("age", "AGE", 1),
    Column {
        id: "reason",
        title: "REASON",
        width: Width::rest(20, 200, 0),
        when: When::Usually,
        cell: |row, look| Cell::new(row.failure.reason.shown(), Launches::text(row, look)),
        order: None,
    },
];
