//! The local ports that are open for the services of all clusters.

use crate::app::cell::{Cell, Role};
use crate::app::cluster::Cluster;
use crate::app::column::{Column, Kind, When, Width};
use crate::app::context::{Context, PAGES};
use crate::app::fleet::Fleet;
use crate::app::list::List;
use crate::app::look::Look;
use crate::app::target::Target;
use crate::app::view::TablePage;
use crate::model::service::Service;
use std::cmp::Ordering;

/// The table.
pub static PAGE: TablePage = TablePage {
    name: "all-ports",
    label: "",
    help: "Show the local ports of all clusters in one table",
    crumb: "ports",
    context: Context::Table,
    from: PAGES,
    list: || Box::new(List::<Ports>::new(None)),
};

/// The local ports of all clusters.
#[derive(Debug)]
pub struct Ports;

/// A port with its cluster.
#[derive(Clone, Copy, Debug)]
pub struct PortRow<'f> {
    cluster: &'f Cluster,
    place: usize,
    number: usize,
    service: Service,
    port: u16,
}

type Row<'f> = PortRow<'f>;

fn row(cluster: &Cluster, place: usize, number: usize) -> Option<Row<'_>> {
    let (service, port) = cluster.ports.iter().nth(number)?;
    Some(Row { cluster, place, number, service: *service, port: *port })
}

impl Kind for Ports {
    type Row<'f> = PortRow<'f>;
    type Key = u16;

    const LACKS: &'static str = "no local port";
    const FIELDS: &'static [&'static str] = &["cluster"];

    fn title(_: Option<usize>) -> &'static str {
        "Local ports"
    }

    fn name(_: Option<usize>) -> &'static str {
        PAGE.name
    }

    fn counts(_: &Look<'_>, _: Option<usize>) -> Cell<'static> {
        Cell::default()
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn rows(fleet: &Fleet, of: Option<usize>) -> impl Iterator<Item = Row<'_>> {
        fleet.each(of).flat_map(|(place, cluster)| {
            (0..cluster.ports.len()).filter_map(move |number| row(cluster, place, number))
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

    fn key(row: &Row<'_>) -> u16 {
        row.port
    }

    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        (a.place, a.port).cmp(&(b.place, b.port))
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        std::iter::once(("cluster", row.cluster.name().as_str()))
    }

    fn target(row: &Row<'_>) -> Target {
        Target::Cluster(row.place)
    }

    fn copied(row: &Row<'_>) -> (&'static str, String) {
        ("address", row.service.address(row.cluster.name(), row.port))
    }
}

const COLUMNS: &[Column<Ports>] = &[
    Column {
        id: "mark",
        title: "",
        width: Width::text(1, 1, 0),
        when: When::Usually,
        cell: |_, _| Cell::new("●", Role::Good),
        order: None,
    },
    Column {
        id: "cluster",
        title: "CLUSTER",
        width: Width::text(12, 24, 0),
        when: When::Usually,
        cell: |row, look| look.fleet.name_cell(row.cluster, Role::Text),
        order: None,
    },
    Column {
        id: "address",
        title: "ADDRESS",
        width: Width::rest(20, 60, 0),
        when: When::Usually,
        cell: |row, _| Cell::text(row.service.address(row.cluster.name(), row.port)),
        order: None,
    },
];
