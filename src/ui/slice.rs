//! The page of a slice: its data, each host as a cell of a grid, and the hosts as a table.

use super::frame::{Title, pane};
use super::grid::put;
use super::part::{DrawContext, split_top};
use super::table;
use crate::app::pages::hosts::{HostsRow, role};
use crate::app::table::cell::Role;
use crate::app::text::labels;
use crate::app::{Cluster, SlicePage, TableArea, host};
use crate::diagnose::Severity;
use crate::model::{Node, NodeId};
use crate::reconcile::HostsKey;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// Minimum height of the table below, with its titles.
const MIN_TABLE_HEIGHT: u16 = 6;

/// Draws it; returns the area of the table.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    (cluster, cluster_index, key): (&Cluster, usize, &HostsKey),
    page: &SlicePage,
) -> TableArea {
    let row = HostsRow::find(cluster, cluster_index, key);
    let stale = cluster.is_stale(d.now);
    let title = table::filtered(&labels::hosts(key), &page.list);
    let state = row.map_or("no longer listed", |row| row.state());
    let inner = pane(buf, area, d.theme, &Title { left: &title, right: state, tone: None, focused: true });
    let rows = row.map(|row| host::slice::facts(&row, d.now)).unwrap_or_default();
    let above = inner.height.saturating_sub(MIN_TABLE_HEIGHT);
    let (facts, rest) = split_top(inner, u16::try_from(rows.len()).unwrap_or(0).min(above));
    let labels = rows.iter().map(|(label, ..)| label.len()).max().unwrap_or(0) as u16;
    let (at, room) = (facts.x + labels + 1, facts.width.saturating_sub(labels + 1));
    for (y, (label, text, role)) in (facts.y..facts.bottom()).zip(&rows) {
        put(buf, facts.x, y, labels, false, label, d.theme.dim);
        put(buf, at, y, room, false, text, d.theme.role(role.unless(stale)));
    }
    let rest = grid(buf, rest, d, (cluster, row), page);
    table::rows(buf, rest, d, &page.list, d.theme.selected)
}

/// Draws a cell for each host if the table leaves room for all of them; returns the remaining area.
fn grid(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    (cluster, row): (&Cluster, Option<HostsRow<'_>>),
    page: &SlicePage,
) -> Rect {
    let listed: Vec<&Node> = page.cells(cluster).collect();
    let expected = row.and_then(|row| row.hosts.expected).map_or(0, |hosts| hosts as usize);
    let all = listed.len().max(expected);
    let in_line = usize::from(area.width / 2).max(1);
    let lines = u16::try_from(all.div_ceil(in_line)).unwrap_or(u16::MAX);
    // A single host needs no grid; an incomplete one might hide the host in question.
    if all < 2 || lines.saturating_add(2 + MIN_TABLE_HEIGHT) > area.height {
        return area;
    }
    let (cells, rest) = split_top(area, lines + 2);
    let worst = row.and_then(|row| row.worst(d.now)).filter(|worst| worst.why.is_some());
    let selected = page.list.selected(d.app.fleet()).map(|row| row.node.id);
    let stale = cluster.is_stale(d.now);
    for at in 0..all {
        let (line, column) = (at / in_line, at % in_line);
        let x = cells.x + u16::try_from(column * 2).unwrap_or(0);
        let y = cells.y + 1 + u16::try_from(line).unwrap_or(0);
        let (glyph, tone) = match listed.get(at) {
            Some(node) if worst.is_some_and(|worst| worst.node == node.id) => {
                (labels::severity_mark(Severity::Warn).0, worst.map_or(Role::Warn, role))
            }
            Some(node) => labels::node(node.state),
            None => ("·", Role::Bad),
        };
        let style = d.theme.role(tone.unless(stale));
        let is_selected = |id: NodeId| listed.get(at).is_some_and(|node| node.id == id);
        let style = if selected.is_some_and(is_selected) { marked(style) } else { style };
        put(buf, x, y, 1, false, glyph, style);
    }
    rest
}

/// The style of the cell of the host under the cursor.
fn marked(style: Style) -> Style {
    style.add_modifier(Modifier::REVERSED)
}
