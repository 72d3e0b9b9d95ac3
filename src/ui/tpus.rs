//! The TPUs of a cluster: Google's data, Ray's data and the file's limits, those with issues first.

use super::frame::{Title, more_around, more_below, pane};
use super::grid::{Cell, Column, Grid, put};
use super::text::wrap;
use super::{Draw, Theme, filtered, split_bottom, words};
use crate::app::{Action, Area, Cluster, TPU_COLUMNS, Tpus};
use crate::model::cloud::Capacity;
use crate::reconcile::{Row, Standing, TypeCount};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

const COLUMNS: [Column; 10] = [
    Column::text("", 1, 0),
    Column::text("STATUS", 15, 0),
    Column::rest("NAME", 18, 0),
    Column::text("TYPE", 13, 1),
    Column::number("CHIPS", 5, 3),
    Column::number("IN RAY", 7, 0),
    Column::text("CAPACITY", 11, 5),
    Column::text("MANAGED BY", 10, 6),
    Column::number("AGE", 7, 4),
    Column::rest("HINT", 33, 7),
];

/// From this width on there is room for a whole name, and the rest of the width goes to the hint.
const WIDE: u16 = 150;
/// The status column's place; it is as wide as the longest status on the screen, up to `preempted, holds quota`.
const STATUS: (usize, u16) = (1, 22);
const NAME: (usize, Column) = (2, Column::text("NAME", 42, 0));
/// Lines that the worker types take at most, where the rows above have need of more.
const TYPES: usize = 6;
/// Below this height the table needs every line.
const LOW: u16 = 14;

/// Draws it; returns where the rows are, and the highest first worker type.
pub fn draw(buf: &mut Buffer, area: Rect, d: &Draw<'_>, cluster: &Cluster) -> (Area, usize) {
    let tpus = &cluster.tpus;
    let area = troubles(buf, area, d, cluster);
    let mut wanted: Vec<&TypeCount> = tpus.types().iter().filter(|t| t.min > 0 || t.there > 0).collect();
    wanted.sort_by_key(|t| t.short() == 0);
    // What the rows above leave, with both borders, both titles and a line of advice.
    let left = usize::from(area.height).saturating_sub(tpus.table().len() + 7);
    let lines = if area.height < LOW { 0 } else { wanted.len().min(TYPES.max(left)) };
    let below = if lines > 0 { u16::try_from(lines).unwrap_or(0) + 3 } else { 0 };
    let (limits, area) = split_bottom(area, below);
    if lines > 0 {
        types(buf, limits, d, &wanted, cluster);
    }
    let (advice, area) = split_bottom(area, u16::from(area.height >= LOW && tpus.selected().is_some()));
    let drawn = table(buf, area, d, cluster);
    if let Some(row) = tpus.selected().filter(|_| advice.height > 0) {
        let width = advice.width.saturating_sub(4);
        put(buf, advice.x + 2, advice.y, width, false, &said(row, d), d.theme.text);
    }
    (drawn, if lines > 0 { wanted.len() - lines } else { 0 })
}

/// The status and the hint of the selected row in a line.
fn said(row: &Row, d: &Draw<'_>) -> String {
    let mut parts = vec![format!("{}: {}", row.name, row.standing.word())];
    parts.extend(row.note.as_ref().map(ToString::to_string));
    let waits = matches!(row.standing, Standing::Incomplete | Standing::NeverRegistered | Standing::Joining);
    if waits && !row.missing.is_empty() {
        let missing: Vec<String> = row.missing.iter().map(ToString::to_string).collect();
        parts.push(format!("not in Ray: {}", missing.join(", ")));
    }
    parts.extend(Some(d.app.hint(&row.hint())).filter(|hint| !hint.is_empty()));
    parts.join("; ")
}

fn table(buf: &mut Buffer, area: Rect, d: &Draw<'_>, cluster: &Cluster) -> Area {
    let tpus = &cluster.tpus;
    let order = tpus.table();
    let title = filtered("TPUs", order.filter().text(), order.len(), tpus.rows().len());
    let counts = counts(tpus, d);
    let tone = if tpus.is_stale(d.now) { d.theme.warn } else { d.theme.dim };
    let title = Title { left: &title, right: &counts, tone: Some(tone), focused: true };
    let inner = pane(buf, area, d.theme, &title);
    let mut columns = COLUMNS;
    let longest = tpus.rows().iter().map(|row| row.standing.word().len()).max().unwrap_or(0);
    let status = &mut columns[STATUS.0];
    status.width = u16::try_from(longest).unwrap_or(STATUS.1).clamp(status.width, STATUS.1);
    if inner.width >= WIDE {
        columns[NAME.0] = NAME.1;
    }
    let grid = Grid {
        columns: &columns,
        sort: order.sort(),
        sortable: &TPU_COLUMNS,
        top: order.window(usize::from(inner.height.saturating_sub(1))),
        rows: order.len(),
        selected: Some((order.cursor(), d.theme.selected)),
    };
    let drawn = grid.draw(buf, inner, d.theme, |position| {
        tpus.row(position).map(|row| cells(row, tpus, d)).unwrap_or_default()
    });
    let hidden = order.len().saturating_sub(grid.top + usize::from(drawn.height));
    more_below(buf, area, d.theme, hidden, "");
    if order.is_empty() && drawn.height > 0 {
        let text = match () {
            () if !order.filter().is_empty() => {
                format!("no TPU matches the filter; {} clears it", d.key(Action::Back))
            }
            () if tpus.asked().is_some() => "no TPU here".to_owned(),
            () if tpus.problem().is_some() => "no data: Google never answered".to_owned(),
            () => "asking Google".to_owned(),
        };
        put(buf, drawn.x, drawn.y, drawn.width, false, &text, d.theme.dim);
    }
    drawn
}

/// What is missing in the answer, with hints.
fn troubles(buf: &mut Buffer, area: Rect, d: &Draw<'_>, cluster: &Cluster) -> Rect {
    let tpus = &cluster.tpus;
    let mut lines: Vec<(String, Style)> = Vec::new();
    if let Some(problem) = tpus.problem() {
        let since = words::minutes(problem.since.age(d.now));
        lines.push((format!("✕ {} ({since})", problem.what), d.theme.bad));
        lines.push((format!("  {}", d.app.hint(&problem.hint)), d.theme.text));
    }
    if !tpus.is_complete() {
        let text = "! Google could not list everything: there may be more TPUs, and ghosts are not shown";
        lines.push((text.to_owned(), d.theme.warn));
    }
    if tpus.asked().is_some() && !tpus.knows_ray() {
        let why = cluster.problem().map_or("Ray has not answered yet", |p| p.what.as_str());
        lines.push((format!("! Google's data only: {why}"), d.theme.warn));
    }
    if tpus.is_cleaning() {
        lines.push(("◌ deleting preempted TPUs".to_owned(), d.theme.accent));
    }
    let mut y = area.y;
    for (text, style) in lines {
        let wrapped = wrap(&text, usize::from(area.width.saturating_sub(2)));
        for line in wrapped.iter().take(usize::from(area.bottom().saturating_sub(y + 4)).min(3)) {
            put(buf, area.x + 1, y, area.width.saturating_sub(2), false, line, style);
            y += 1;
        }
    }
    Rect { y, height: area.bottom() - y, ..area }
}

/// Chips by generation, and how old Google's answer is.
fn counts(tpus: &Tpus, d: &Draw<'_>) -> String {
    let chips = tpus.chips();
    let mut parts: Vec<String> =
        chips.iter().map(|(generation, chips)| chips.words(generation, tpus.knows_ray())).collect();
    parts.extend(tpus.asked().map(|at| format!("Google {} ago", words::minutes(at.age(d.now)))));
    parts.join(" · ")
}

fn cells<'a>(row: &'a Row, tpus: &Tpus, d: &Draw<'_>) -> Vec<Cell<'a>> {
    let stale = tpus.is_stale(d.now);
    let (glyph, tone) = standing(row.standing, d.theme);
    let (tone, text) = if stale { (d.theme.dim, d.theme.dim) } else { (tone, d.theme.text) };
    let (hosts, joined) = row.hosts;
    let in_ray = match (tpus.knows_ray(), hosts) {
        (_, 0) if joined == 0 => "-".to_owned(),
        // Google knows of no host.
        (_, 0) => joined.to_string(),
        (false, hosts) => format!("?/{hosts}"),
        (true, hosts) => format!("{joined}/{hosts}"),
    };
    let kind = if row.accelerator_type.is_empty() { "-".into() } else { row.accelerator_type.shown() };
    let age = row.created.map_or_else(|| "-".into(), |at| words::minutes(at.age(d.now)));
    let advice = match &row.note {
        Some(note) => note.shown(),
        None => d.app.hint(&row.hint()).into(),
    };
    vec![
        Cell::new(glyph, tone),
        Cell::new(row.standing.word(), tone),
        Cell::ending(row.name.shown(), text),
        Cell::new(kind, text),
        Cell::new(row.chips.to_string(), text),
        Cell::new(in_ray, text),
        Cell::new(row.capacity.map_or("-", Capacity::word), text),
        Cell::new(row.keeper.word(), text),
        Cell::new(age, text),
        Cell::new(advice, d.theme.dim),
    ]
}

fn standing(standing: Standing, theme: &Theme) -> (&'static str, Style) {
    match standing {
        Standing::Ghost => ("◇", theme.bad),
        Standing::Incomplete | Standing::NeverRegistered | Standing::EatsQuota | Standing::Refused => {
            ("✕", theme.bad)
        }
        Standing::Stopped => ("■", theme.warn),
        Standing::Joining | Standing::Waiting | Standing::Leaving => ("◐", theme.warn),
        Standing::Up => ("○", theme.text),
        Standing::Registered => ("●", theme.good),
    }
}

/// The file's limits and the machines that exist.
fn types(buf: &mut Buffer, area: Rect, d: &Draw<'_>, wanted: &[&TypeCount], cluster: &Cluster) {
    const COLUMNS: [Column; 6] = [
        Column::rest("WORKER TYPE", 16, 0),
        Column::number("MIN", 5, 0),
        Column::number("MAX", 5, 1),
        Column::number("EXIST", 6, 0),
        Column::number("IN RAY", 7, 0),
        Column::number("MISSING", 7, 0),
    ];
    let title = Title { left: "Worker types", right: "", tone: None, focused: false };
    let inner = pane(buf, area, d.theme, &title);
    let last = wanted.len().saturating_sub(usize::from(inner.height.saturating_sub(1)));
    let top = cluster.tpus.types_top().min(last);
    more_around(buf, area, d.theme, (top, last - top), "");
    let sort = crate::app::Sort::default();
    let grid = Grid { columns: &COLUMNS, sort, sortable: &[], top, rows: wanted.len(), selected: None };
    let text = if cluster.tpus.is_stale(d.now) { d.theme.dim } else { d.theme.text };
    grid.draw(buf, inner, d.theme, |position| {
        let Some(count) = wanted.get(position) else { return Vec::new() };
        let short = count.short();
        let tone = if short > 0 { d.theme.warn } else { text };
        let number = |n: usize| Cell::new(n.to_string(), text);
        vec![
            Cell::ending(crate::model::text::printable(&count.name).into_owned(), text),
            number(count.min as usize),
            number(count.max as usize),
            number(count.there),
            Cell::new(count.registered.map_or_else(|| "?".into(), |n| n.to_string()), text),
            Cell::new(if short > 0 { short.to_string() } else { "-".into() }, tone),
        ]
    });
}
