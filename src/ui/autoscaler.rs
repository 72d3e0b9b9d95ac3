//! The autoscaler pane: is it alive, what it has, what it is asked for, what it fails at.

use super::frame::{Title, pane};
use super::grid::{Cell, Column, Grid, put};
use super::{Draw, words};
use crate::app::describe::{ago, amount};
use crate::app::{Area, Cluster, Pane, Sort};
use crate::model::{Autoscaler, AutoscalerVersion, Demand, DemandKind, NodeTypeCount, Timestamp};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::time::Duration;

/// The monitor's loop takes about 5 s: a report older than this means that it hangs or is dead.
const SILENT: Duration = Duration::from_secs(30);

const COLUMNS: [Column; 8] = [
    Column::rest("TYPE", 12, 0),
    Column::number("MIN", 4, 2),
    Column::number("MAX", 4, 2),
    Column::number("BUSY", 4, 0),
    Column::number("IDLE", 4, 1),
    Column::number("PEND", 4, 0),
    Column::number("LAUN", 4, 3),
    Column::number("FAIL", 4, 0),
];

/// Draws it; returns where its lines are, and the highest first line.
pub fn draw(buf: &mut Buffer, area: Rect, d: &Draw<'_>, cluster: &Cluster) -> (Area, usize) {
    let report = &*cluster.snapshot.autoscaler;
    let title = match report.version {
        AutoscalerVersion::V1 => "4 Autoscaler v1",
        AutoscalerVersion::V2 => "4 Autoscaler v2",
        AutoscalerVersion::None => "4 Autoscaler",
    };
    let (verdict, tone) = verdict(cluster, d);
    let focused = d.is_focused(Pane::Autoscaler);
    let inner = pane(buf, area, d.theme, &Title { left: title, right: &verdict, tone: Some(tone), focused });
    let drawn = Area { x: inner.x, y: inner.y, width: inner.width, height: inner.height };
    if inner.height == 0 {
        return (drawn, 0);
    }
    let stale = cluster.is_stale(d.now);
    let lines = lines(report, d, stale);
    let table = u16::try_from(report.types.len() + 1).unwrap_or(u16::MAX);
    let total = report.types.len() + 1 + lines.len();
    let last = total.saturating_sub(inner.height.into());
    let top = cluster.autoscaler_top.min(last);
    let mut y = inner.y;
    if top == 0 || top < usize::from(table) {
        let area =
            Rect { height: inner.height.min(table.saturating_sub(u16::try_from(top).unwrap_or(0))), ..inner };
        let text = if stale { d.theme.dim } else { d.theme.text };
        let grid = Grid {
            columns: &COLUMNS,
            sort: Sort::default(),
            sortable: &[],
            top,
            rows: report.types.len(),
            selected: None,
        };
        grid.draw(buf, area, d.theme, |i| row(&report.types[i], text, d));
        y += area.height;
    }
    let skip = top.saturating_sub(usize::from(table));
    for (y, (text, style)) in (y..inner.bottom()).zip(lines.iter().skip(skip)) {
        put(buf, inner.x, y, inner.width, false, text, *style);
    }
    (drawn, last)
}

/// Is its word worth anything: how old is it.
fn verdict(cluster: &Cluster, d: &Draw<'_>) -> (String, Style) {
    let report = &*cluster.snapshot.autoscaler;
    match (report.version, report.reported) {
        _ if !cluster.known => (String::new(), d.theme.dim),
        (AutoscalerVersion::None, _) => ("none reports".into(), d.theme.dim),
        (_, None) => ("no turn seen yet".into(), d.theme.dim),
        (_, Some(at)) => age(at.age(d.now), d),
    }
}

fn age(age: Duration, d: &Draw<'_>) -> (String, Style) {
    if age < SILENT {
        (format!("report <{} s old", SILENT.as_secs()), d.theme.dim)
    } else {
        (format!("▲ SILENT for {}", words::minutes(age)), d.theme.bad)
    }
}

/// The pane's truth in one line, for the tabs.
pub fn summary(cluster: &Cluster, d: &Draw<'_>) -> (String, Style) {
    let report = &*cluster.snapshot.autoscaler;
    let silent = report.reported.is_some_and(|t| t.age(d.now) >= SILENT);
    let wanted: u64 = report.demands.iter().map(|x| x.count).sum();
    match () {
        () if silent => ("▲ silent".into(), d.theme.bad),
        () if !report.failures.is_empty() => (format!("{} failing", report.failures.len()), d.theme.warn),
        () if wanted > 0 => (format!("wants {wanted}"), d.theme.warn),
        () if report.version == AutoscalerVersion::None => ("-".into(), d.theme.dim),
        () => ("quiet".into(), d.theme.dim),
    }
}

fn row<'a>(t: &'a NodeTypeCount, text: Style, d: &Draw<'_>) -> Vec<Cell<'a>> {
    let count = |n: u32, style| Cell::new(if n == 0 { "-".into() } else { n.to_string() }, style);
    let limit = |n: Option<u32>| Cell::new(n.map_or_else(|| "?".into(), |n| n.to_string()), d.theme.dim);
    let missing = t.min.is_some_and(|min| t.active + t.idle < min);
    vec![
        Cell::new(t.name.shown(), if missing { d.theme.warn } else { text }),
        limit(t.min),
        limit(t.max),
        count(t.active, text),
        count(t.idle, text),
        count(t.pending, d.theme.warn),
        count(t.launching, d.theme.warn),
        count(t.failed, d.theme.bad),
    ]
}

fn lines(report: &Autoscaler, d: &Draw<'_>, stale: bool) -> Vec<(String, Style)> {
    let tone = |style: Style| if stale { d.theme.dim } else { style };
    let mut lines = Vec::new();
    let mut section = |title: &str, rows: Vec<(String, Style)>| {
        if !rows.is_empty() {
            lines.push((String::new(), d.theme.text));
            lines.push((title.to_owned(), d.theme.heading));
            lines.extend(rows);
        }
    };
    if !report.error.is_empty() {
        section("ERROR", vec![(report.error.to_string(), tone(d.theme.bad))]);
    }
    section("WANTED", report.demands.iter().map(|x| demand(x, d)).map(|(t, s)| (t, tone(s))).collect());
    let failures = report.failures.iter().map(|f| {
        let since = f.at.map(|t| format!(", {}", ago_minutes(t, d.now))).unwrap_or_default();
        let reason = if f.reason.is_empty() {
            "no reason given; see monitor.log".into()
        } else {
            f.reason.to_string()
        };
        (format!("✕ {} ×{}{since}: {reason}", f.node_type, f.count), tone(d.theme.bad))
    });
    section("FAILED TO LAUNCH", failures.collect());
    let pending = report.pending.iter().map(|p| {
        let status = if p.status.is_empty() { "no word yet".into() } else { p.status.to_string() };
        (format!("◌ {} {}: {status}", p.node_type, p.address), tone(d.theme.warn))
    });
    section("ON THEIR WAY", pending.collect());
    lines
}

fn ago_minutes(at: Timestamp, now: Timestamp) -> String {
    if at.age(now) < Duration::from_secs(60) { "just now".into() } else { ago(at, now) }
}

fn demand(demand: &Demand, d: &Draw<'_>) -> (String, Style) {
    let shape: Vec<String> =
        demand.shape.iter().map(|(n, v)| format!("{n} {}", amount(n.raw(), *v))).collect();
    let shape = if shape.is_empty() { "no resources".into() } else { shape.join(", ") };
    let who = match &demand.kind {
        DemandKind::Task => String::new(),
        DemandKind::Group(strategy) if strategy.is_empty() => "  placement group".into(),
        DemandKind::Group(strategy) => format!("  group {strategy}"),
        DemandKind::Request => "  requested".into(),
    };
    let text = format!("{:>5}× {shape}{who}", demand.count);
    if demand.infeasible {
        (format!("{text}  infeasible: no node type has it"), d.theme.bad)
    } else {
        (text, d.theme.text)
    }
}
