//! The TPUs of a cluster: data from Google, from Ray and from the cluster file, those with issues first.

use super::frame::{Title, more_around, pane};
use super::grid::Grid;
use super::part::{DrawContext, split_bottom};
use super::{sentence, table};
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{ColumnHeader, Width};
use crate::app::text::labels;
use crate::app::{Cluster, Listing, TableArea, TpusPage};
use crate::model::sort;
use crate::reconcile::{Row, TpuStatus, TypeCount};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Maximum number of lines for the node types if the rows above need the space.
const MAX_TYPES: usize = 6;
/// Below this height the table gets all lines.
const LOW: u16 = 14;

/// Draws it; returns the area of the rows, and the maximum scroll position of the node types.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    cluster: &Cluster,
    page: &TpusPage,
) -> (TableArea, usize) {
    let tpus = &cluster.tpus;
    let area = problems(buf, area, d, cluster);
    let mut wanted: Vec<&TypeCount> = tpus.types().iter().filter(|t| t.min > 0 || t.there > 0).collect();
    sort::by_key(&mut wanted, |t| t.short() == 0);
    // The space left by the rows above, both borders, both titles and the hint line.
    let left = usize::from(area.height).saturating_sub(page.list.len() + 7);
    let lines = if area.height < LOW { 0 } else { wanted.len().min(MAX_TYPES.max(left)) };
    let below = if lines > 0 { u16::try_from(lines).unwrap_or(0) + 3 } else { 0 };
    let (limits, area) = split_bottom(area, below);
    if lines > 0 {
        types(buf, limits, d, &wanted, (cluster, page.types.top()));
    }
    let selected = d.app.target_tpu();
    let (advice, area) = split_bottom(area, u16::from(area.height >= LOW && selected.is_some()));
    let drawn = table::page(buf, area, d, &page.list);
    if let Some(row) = selected.filter(|_| advice.height > 0) {
        let width = advice.width.saturating_sub(4);
        sentence::put(buf, (advice.x + 2, advice.y), width, &hint_line(row, d), d.theme.text, d.theme);
    }
    (drawn, if lines > 0 { wanted.len() - lines } else { 0 })
}

/// The status and the hint of the selected row, in one line.
fn hint_line(row: &Row, d: &DrawContext<'_>) -> String {
    let mut parts = vec![format!("{}: {}", row.name, row.status.label())];
    parts.extend(row.note.as_ref().map(ToString::to_string));
    let waits = matches!(row.status, TpuStatus::Incomplete | TpuStatus::NotInRay | TpuStatus::Joining);
    if waits && !row.missing.is_empty() {
        let missing: Vec<String> = row.missing.iter().map(ToString::to_string).collect();
        parts.push(format!("not in Ray: {}", missing.join(", ")));
    }
    parts.extend(Some(d.app.hint(&row.hint())).filter(|hint| !hint.is_empty()));
    parts.join("; ")
}

/// Problems and gaps in the data, with hints.
fn problems(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, cluster: &Cluster) -> Rect {
    let tpus = &cluster.tpus;
    let mut lines: Vec<(String, Style)> = Vec::new();
    lines.extend(cluster.google_wait(d.now).map(|wait| (format!("◌ {wait}"), d.theme.warn)));
    if let Some(problem) = tpus.problem() {
        let since = labels::minutes(problem.since.age(d.now));
        lines.push((format!("✕ {} ({since})", problem.what), d.theme.bad));
        lines.push((format!("  {}", d.app.hint(&problem.hint)), d.theme.text));
    }
    if let Some(why) = tpus.unlisted() {
        lines.push((
            format!("! Compute Engine TPUs may be missing, and stale nodes are not shown: {why}"),
            d.theme.warn,
        ));
    } else if !tpus.is_complete() {
        let text =
            "! Google could not list everything: there may be more TPUs, and stale nodes are not shown";
        lines.push((text.to_owned(), d.theme.warn));
    }
    if tpus.requested_at().is_some() && !tpus.knows_ray() {
        let why = cluster.problem().map_or("Ray has not responded yet", |p| p.what.as_str());
        lines.push((format!("! Google's data only: {why}"), d.theme.warn));
    }
    if cluster.cleaning {
        lines.push(("◌ deleting preempted TPUs".to_owned(), d.theme.accent));
    }
    sentence::above(buf, area, lines, d.theme)
}

/// The limits of the cluster file, and the existing machines.
fn types(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    wanted: &[&TypeCount],
    (cluster, top): (&Cluster, usize),
) {
    let headers = [
        ColumnHeader::of_names("NODE TYPE", wanted.iter().map(|t| t.name.as_str())),
        ColumnHeader::plain("MIN", Width::number(5, 0)),
        ColumnHeader::plain("MAX", Width::number(5, 1)),
        ColumnHeader::plain("EXISTING", Width::number(8, 0)),
        ColumnHeader::plain("IN RAY", Width::number(7, 0)),
        ColumnHeader::plain("MISSING", Width::number(7, 0)),
    ];
    let title = Title { left: "Node types", right: "", tone: None, focused: false };
    let inner = pane(buf, area, d.theme, &title);
    let last = wanted.len().saturating_sub(usize::from(inner.height.saturating_sub(1)));
    let top = top.min(last);
    more_around(buf, area, d.theme, (top, last - top), "");
    let grid = Grid { headers: &headers, top, rows: wanted.len(), selected: None };
    let role = Role::Text.unless(cluster.is_google_stale(d.now));
    grid.draw(buf, inner, d.theme, |position| {
        let Some(count) = wanted.get(position) else { return Vec::new() };
        let short = count.short();
        let missing = if short > 0 { Role::Warn } else { role };
        let number = |n: usize| Cell::new(n.to_string(), role);
        vec![
            Cell::new(crate::model::text::printable(&count.name), role).named(),
            number(count.min as usize),
            number(count.max as usize),
            number(count.there),
            Cell::new(count.registered.map_or_else(|| "?".into(), |n| n.to_string()), role),
            Cell::new(if short > 0 { short.to_string() } else { "-".into() }, missing),
        ]
    });
}
