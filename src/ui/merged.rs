//! The nodes and the jobs of all clusters: the same columns as within a cluster, the cluster's before them.

use super::frame::{Title, inside, pane};
use super::grid::{Cell, Column, Grid, put};
use super::names::Names;
use super::{Draw, filtered, jobs, nodes};
use crate::app::{ALL_JOB_COLUMNS, ALL_NODE_COLUMNS, Action, Area, Cluster, Merged, Totals};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Widest column of cluster names; it is the second one, after the glyph.
const NAMES: u16 = 20;
/// The same on a narrow screen.
const NARROW: (u16, u16) = (100, 16);

/// Draws all nodes; returns where the rows are.
pub fn nodes(buf: &mut Buffer, area: Rect, d: &Draw<'_>) -> Area {
    let clusters = d.app.clusters();
    let rows = d.app.all_nodes();
    let addressed = clusters.iter().any(Cluster::shows_addresses);
    let totals = d.app.totals();
    let alive = told(totals.nodes, &totals);
    let counts = format!("{alive} alive in {} clusters", totals.clusters);
    let names = names(area, d);
    let columns = with_cluster(nodes::columns(addressed), &names);
    let titles = ("All nodes", counts.as_str(), "no node");
    table(buf, area, d, rows, titles, (&columns, &ALL_NODE_COLUMNS, &names), |position| {
        let (place, node) = rows.node(clusters, position)?;
        let cluster = clusters.get(place)?;
        Some((cluster, nodes::row(node, cluster.physical(&node.id, d.now), d, cluster, addressed)))
    })
}

/// Draws all jobs; returns where the rows are.
pub fn jobs(buf: &mut Buffer, area: Rect, d: &Draw<'_>) -> Area {
    let clusters = d.app.clusters();
    let rows = d.app.all_jobs();
    let totals = d.app.totals();
    let marked = d.app.marked();
    let marked = if marked > 0 { format!(" · {marked} marked") } else { String::new() };
    let (running, waiting) = (told(totals.running, &totals), told(totals.waiting, &totals));
    let counts = format!("{running} running · {waiting} waiting{marked}");
    let names = names(area, d);
    let width = inside(area).width.saturating_sub(names.width + 1);
    let columns = with_cluster(jobs::columns(clusters, width), &names);
    let titles = ("All jobs", counts.as_str(), "no job");
    table(buf, area, d, rows, titles, (&columns, &ALL_JOB_COLUMNS, &names), |position| {
        let (place, job) = rows.job(clusters, position)?;
        let cluster = clusters.get(place)?;
        Some((cluster, jobs::row(job, d, cluster)))
    })
}

/// A total; `?` before anything is known.
fn told(n: usize, totals: &Totals) -> String {
    if totals.known > 0 { n.to_string() } else { "?".to_owned() }
}

fn names(area: Rect, d: &Draw<'_>) -> Names {
    Names::of(d.app, if area.width < NARROW.0 { NARROW.1 } else { NAMES })
}

fn with_cluster(mut columns: Vec<Column>, names: &Names) -> Vec<Column> {
    columns.insert(1, Column::text("CLUSTER", names.width, 0));
    columns
}

/// Draws the rows of `row` with the cluster's name inserted. The texts are the pane's title, its counts, and what an
/// empty table lacks.
fn table<'a, K: Clone + PartialEq>(
    buf: &mut Buffer,
    area: Rect,
    d: &Draw<'_>,
    rows: &Merged<K>,
    (title, counts, lacks): (&str, &str, &str),
    (columns, sortable, names): (&[Column], &[&'static str], &Names),
    row: impl Fn(usize) -> Option<(&'a Cluster, Vec<Cell<'a>>)>,
) -> Area {
    let order = rows.table();
    let title = filtered(title, order.filter().text(), order.len(), rows.rows());
    let inner = pane(buf, area, d.theme, &Title { left: &title, right: counts, tone: None, focused: true });
    let grid = Grid {
        columns,
        sort: order.sort(),
        sortable,
        top: order.window(usize::from(inner.height.saturating_sub(1))),
        rows: order.len(),
        selected: Some((order.cursor(), d.theme.selected)),
    };
    let drawn = grid.draw(buf, inner, d.theme, |position| {
        let Some((cluster, mut cells)) = row(position) else { return Vec::new() };
        let style = if cluster.is_stale(d.now) { d.theme.dim } else { d.theme.text };
        cells.insert(1, Cell::new(names.shown(cluster), style));
        cells
    });
    if order.is_empty() && drawn.height > 0 {
        let text = match () {
            () if !order.filter().is_empty() => {
                format!("{lacks} matches the filter; {} clears it", d.key(Action::Back))
            }
            () if d.app.clusters().iter().any(|c| c.known) => format!("{lacks} on any cluster"),
            () => "waiting for the first answer".to_owned(),
        };
        put(buf, drawn.x, drawn.y, drawn.width, false, &text, d.theme.dim);
    }
    drawn
}
