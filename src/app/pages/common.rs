//! Columns shared by several kinds of rows.

use crate::app::fleet::cluster::Cluster;
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::app::text::labels;
use crate::model::Timestamp;
use std::time::Duration;

/// Rows that belong to one cluster and have one state.
pub trait Member: Kind {
    /// The age of a row if it is unknown when it began.
    const WITHOUT_AGE: &'static str = "?";

    /// The cluster that the row is of.
    fn cluster<'f>(row: &Self::Row<'f>) -> &'f Cluster;

    /// The glyph and the role of the row's state.
    fn mark(row: &Self::Row<'_>) -> (&'static str, Role);

    /// When it began; `None` if unknown.
    fn since(row: &Self::Row<'_>) -> Option<Timestamp>;

    /// Whether it has ended, so that it does not change any more.
    fn is_over(row: &Self::Row<'_>) -> bool;

    /// Whether its data is out of date.
    fn is_stale(row: &Self::Row<'_>, context: &CellContext<'_>) -> bool {
        Self::cluster(row).is_stale(context.now)
    }

    /// The role of ordinary cells of the row.
    fn text(row: &Self::Row<'_>, context: &CellContext<'_>) -> Role {
        Role::Text.unless(Self::is_stale(row, context) || Self::is_over(row))
    }
}

/// The glyph of the state.
pub const fn mark<K: Member>() -> Column<K> {
    Column {
        id: "mark",
        title: "",
        width: Width::text(1, 1, 0),
        visibility: Visibility::Always,
        cell: |row, context| {
            let (glyph, role) = K::mark(row);
            Cell::new(glyph, role.unless(K::is_stale(row, context)))
        },
        order: None,
    }
}

/// The name of the cluster, in tables with rows of several clusters.
pub const fn cluster<K: Member>() -> Column<K> {
    Column {
        id: "cluster",
        title: "CLUSTER",
        width: Width::text(12, 32, 0).firm(20),
        visibility: Visibility::AllClusters,
        cell: |row, context| {
            context.fleet.name_cell(K::cluster(row), Role::Text.unless(K::is_stale(row, context)))
        },
        order: Some(|a, b| K::cluster(a).name().cmp(K::cluster(b).name())),
    }
}

/// An age; its larger unit alone (`12h`) in a column that has no room for both.
pub fn age_cell(age: Duration, role: Role) -> Cell<'static> {
    let age = labels::minutes(age);
    let larger = age.split_once(' ').map(|(larger, _)| larger.to_owned());
    let cell = Cell::new(age, role);
    match larger {
        Some(larger) => cell.or(larger),
        None => cell,
    }
}

/// The time since it began.
pub const fn age<K: Member>(id: &'static str, title: &'static str, spare: u8) -> Column<K> {
    Column {
        id,
        title,
        width: Width::number(7, spare),
        visibility: Visibility::Always,
        cell: |row, context| {
            let role = K::text(row, context);
            match K::since(row) {
                Some(at) => age_cell(at.age(context.now), role),
                None => Cell::new(K::WITHOUT_AGE, role),
            }
        },
        order: Some(|a, b| K::since(b).cmp(&K::since(a))),
    }
}
