//! The nodes pane.

use super::frame::{Title, pane};
use super::grid::{Cell, Column, Grid};
use super::{Draw, filtered, words};
use crate::app::describe::{death_word, number};
use crate::app::{Area, Cluster, NODE_COLUMNS, Pane};
use crate::model::{Node, NodeState, Physical, Resource};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::borrow::Cow;

/// Place of the address among them.
const ADDRESS: usize = 2;

const COLUMNS: [Column; 12] = [
    Column::text("", 1, 0),
    Column::rest("NODE", 15, 0),
    Column::text("ADDRESS", 15, 8),
    Column::rest("TYPE", 8, 3),
    Column::text("STATE", 8, 0),
    Column::number("CPU", 7, 1),
    Column::number("MEM GB", 7, 6),
    Column::number("TPU", 7, 2),
    Column::number("CPU%", 4, 4),
    Column::number("MEM%", 4, 5),
    Column::number("DISK%", 5, 7),
    Column::number("UP", 7, 4),
];

/// The columns of a node. Without addresses where those are all that nodes have for names.
pub fn columns(addressed: bool) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    if !addressed {
        columns.remove(ADDRESS);
    }
    columns
}

/// Draws it; returns where the rows are.
pub fn draw(buf: &mut Buffer, area: Rect, d: &Draw<'_>, cluster: &Cluster) -> Area {
    let (alive, joining, lost) = cluster.node_counts();
    let dead = cluster.tally.dead;
    let mut counts = vec![format!("{alive} alive")];
    counts.extend((joining > 0).then(|| format!("{joining} joining")));
    counts.extend((lost > 0).then(|| format!("{lost} lost")));
    // A lost one is dead, too, and counted once.
    counts.extend((dead > lost).then(|| format!("{} dead", dead - lost)));
    let counts = if cluster.known { counts.join(" · ") } else { String::new() };
    let title =
        filtered("1 Nodes", cluster.nodes.filter().text(), cluster.nodes.len(), cluster.snapshot.nodes.len());
    let focused = d.is_focused(Pane::Nodes);
    let inner = pane(buf, area, d.theme, &Title { left: &title, right: &counts, tone: None, focused });
    let top = cluster.nodes.window(usize::from(inner.height.saturating_sub(1)));
    let addressed = cluster.shows_addresses();
    let columns = columns(addressed);
    let grid = Grid {
        columns: &columns,
        sort: cluster.nodes.sort(),
        sortable: &NODE_COLUMNS,
        top,
        rows: cluster.nodes.len(),
        selected: Some((cluster.nodes.cursor(), d.selection(Pane::Nodes))),
    };
    let rows = &cluster.snapshot.nodes;
    let drawn = grid.draw(buf, inner, d.theme, |position| {
        let node = cluster.nodes.row(position).and_then(|i| rows.get(i));
        node.map(|n| row(n, cluster.physical(&n.id, d.now), d, cluster, addressed)).unwrap_or_default()
    });
    if cluster.nodes.is_empty() {
        d.say_empty(buf, drawn, cluster, "no node", cluster.nodes.filter());
    }
    drawn
}

/// A node's cells, for the columns that [`columns`] gives.
pub fn row<'a>(
    node: &'a Node,
    physical: Option<&Physical>,
    d: &Draw<'_>,
    cluster: &'a Cluster,
    addressed: bool,
) -> Vec<Cell<'a>> {
    let stale = cluster.is_stale(d.now);
    let text = if stale || node.state == NodeState::Dead { d.theme.dim } else { d.theme.text };
    let ghost = cluster.tpus.is_ghost(node);
    let (glyph, tone) = if ghost { ("◇", d.theme.bad) } else { words::node(node.state, d.theme) };
    let tone = if stale { d.theme.dim } else { tone };
    let plain = |s: Cow<'a, str>| Cell::new(s, text);
    let kind = match (node.is_head, node.node_type.is_empty()) {
        (true, _) => Cow::Borrowed("head"),
        (false, true) => Cow::Borrowed("-"),
        (false, false) => node.node_type.shown(),
    };
    let glyph = if node.is_head && node.state.is_alive() { "⌂" } else { glyph };
    let mut cells = vec![Cell::new(glyph, tone), Cell::ending(cluster.node_name(node).shown(), text)];
    cells.extend(addressed.then(|| plain(node.address.shown())));
    cells.push(Cell::ending(kind, text));
    if node.state == NodeState::Dead {
        // A dead node has no figures: the row shows when and why it died.
        let when = node.ended.map_or_else(|| "?".into(), |t| words::minutes(t.age(d.now)));
        cells.push(Cell::new("dead", tone));
        let why = node.death.as_ref().map(|death| {
            let message =
                if death.message.is_empty() { String::new() } else { format!(": {}", death.message) };
            format!("{} {when} ago{message}", death_word(death.reason))
        });
        cells.push(Cell::spanning(why.unwrap_or_else(|| format!("{when} ago")), d.theme.dim));
        return cells;
    }
    cells.push(Cell::new(if ghost { "ghost" } else { node.state.word() }, tone));
    let accelerator = node.resources.get("TPU").or_else(|| node.resources.get("GPU"));
    cells.push(plain(used(node.resources.get("CPU"), number).into()));
    cells.push(plain(used(node.resources.get("memory"), gigabytes).into()));
    cells.push(plain(used(accelerator, number).into()));
    let share = |m: Option<(u64, u64)>| m.filter(|(_, t)| *t > 0).map(|(u, t)| 100.0 * u as f64 / t as f64);
    let percents = [
        physical.and_then(|p| p.cpu_percent),
        physical.and_then(|p| share(p.memory)),
        physical.and_then(|p| share(p.disk)),
    ];
    // A busy CPU is what a TPU host is there for; full memory or a full disk ends jobs.
    let fulls = [text, d.theme.bad, d.theme.bad];
    cells.extend(percents.into_iter().zip(fulls).map(|(p, full)| percent(p, text, full, d)));
    let up = node.started.map_or_else(|| "?".into(), |t| words::minutes(t.age(d.now)));
    cells.push(plain(up.into()));
    cells
}

/// `16/120`; `-` for a resource that the node does not have, `?` for a use that is unknown.
fn used(resource: Option<&Resource>, say: impl Fn(f64) -> String) -> String {
    match resource {
        None => "-".into(),
        Some(r) => format!("{}/{}", r.used.map_or_else(|| "?".into(), &say), say(r.total)),
    }
}

/// Memory without its unit: the column is narrow, and all are in GB.
fn gigabytes(value: f64) -> String {
    let gb = value / 1e9;
    if gb < 9.95 { number((gb * 10.0).round() / 10.0) } else { format!("{gb:.0}") }
}

fn percent(value: Option<f64>, text: Style, full: Style, d: &Draw<'_>) -> Cell<'static> {
    match value {
        None => Cell::new("?", d.theme.dim),
        Some(v) if v >= 90.0 => Cell::new(format!("{v:.0}%"), full),
        Some(v) => Cell::new(format!("{v:.0}%"), text),
    }
}
