//! The autoscaler pane: whether it is alive, its node types, demand, and failures.

use super::frame::{Title, more_below, pane};
use super::grid::{Grid, put};
use super::part::{DrawContext, Shown};
use super::{alerts, sentence};
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{ColumnHeader, Width};
use crate::app::text::describe::ago;
use crate::app::text::labels;
use crate::app::{Area, Cluster, Pane};
use crate::diagnose::{Finding, FindingKind, Severity};
use crate::model::amount::shape;
use crate::model::{AutoscalerVersion, Demand, DemandKind, NodeTypeCount, SnapshotPart, Timestamp};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::time::Duration;

/// The monitor's loop takes about 5 s, so a younger report counts as fresh.
const MAX_FRESH_AGE: Duration = Duration::from_secs(30);

/// The columns of a node type; autoscaler v1 reports which nodes are up, not which are busy. If there is no room for
/// all of them, those without any number are omitted first.
fn headers(types: &[NodeTypeCount], has_idle: bool) -> Vec<ColumnHeader> {
    const EMPTY: u8 = Width::OMITTED_FIRST + 2;
    let number = |title: &'static str, spare| {
        ColumnHeader::plain(title, Width::number(title.len().max(4) as u16, spare))
    };
    let count = |title, spare, of: fn(&NodeTypeCount) -> u32| {
        let is_empty = types.iter().all(|t| of(t) == 0);
        number(title, if is_empty { spare + EMPTY } else { spare })
    };
    let busy_idle = [number("BUSY", 0), number("IDLE", 1)];
    let up = [number("UP", 0)];
    let before = [
        ColumnHeader::of_names("TYPE", types.iter().map(|t| t.name.raw())),
        number("MIN", Width::OMITTED_FIRST),
        number("MAX", 2),
    ];
    let after = [
        count("PENDING", 0, |t| t.pending),
        count("LAUNCHING", Width::OMITTED_FIRST + 1, |t| t.launching),
        count("FAILED", 0, |t| t.failed),
    ];
    [&before[..], if has_idle { &busy_idle } else { &up }, &after].concat()
}

/// Draws the pane; returns the area of its lines, and the maximum scroll position.
pub fn draw(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, (cluster, page): Shown<'_>) -> (Area, usize) {
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
    let mut alerts = alerts::lines(actionable(cluster), d, (inner.width.into(), None), stale, |_| Vec::new());
    alerts.extend(wanted(cluster, d, stale));
    let lines = lines(cluster, d, stale);
    let table = report.types.len() + 1;
    let has_idle = report.version != AutoscalerVersion::V1;
    let total = alerts.len() + table + lines.len();
    let last = total.saturating_sub(inner.height.into());
    let top = page.autoscaler.top().min(last);
    more_below(buf, area, d.theme, last - top, "");
    let above = alerts.len();
    alerts.drain(..top.min(above));
    let mut y = inner.y;
    for (text, style) in alerts.iter().take(inner.height.into()) {
        sentence::put(buf, (inner.x, y), inner.width, text, *style, d.theme);
        y += 1;
    }
    let below = top.saturating_sub(above);
    if below < table {
        let height = u16::try_from(table - below).unwrap_or(u16::MAX).min(inner.bottom() - y);
        let role = Role::Text.unless(stale);
        let grid = Grid {
            headers: &headers(&report.types, has_idle),
            top: below,
            rows: report.types.len(),
            selected: None,
        };
        grid.draw(buf, Rect { y, height, ..inner }, d.theme, |i| {
            let t = &report.types[i];
            row(t, cluster.below_minimum.contains(&t.name), has_idle, role)
        });
        y += height;
    }
    let skip = below.saturating_sub(table);
    for (y, (text, style)) in (y..inner.bottom()).zip(lines.iter().skip(skip)) {
        put(buf, inner.x, y, inner.width, false, text, *style);
    }
    (drawn, last)
}

/// Findings about the autoscaler that need action; infeasible demands are shown in the list of demands.
fn actionable(cluster: &Cluster) -> impl Iterator<Item = &Finding> {
    let is_reported = |f: &&Finding| f.kind.is_of_autoscaler() && f.kind != FindingKind::Infeasible;
    cluster.findings.iter().filter(is_reported).filter(|f| f.severity < Severity::Info)
}

/// The age of the report.
fn verdict(cluster: &Cluster, d: &DrawContext<'_>) -> (String, Style) {
    let report = &*cluster.snapshot.autoscaler;
    match (report.version, report.reported) {
        _ if !cluster.known => (String::new(), d.theme.dim),
        (AutoscalerVersion::None, _) => ("no autoscaler is reporting".into(), d.theme.dim),
        (_, None) if report.types.is_empty() && report.demands.is_empty() && report.failures.is_empty() => {
            ("no report yet".into(), d.theme.dim)
        }
        // The pane shows a report whose time is not known yet.
        (_, None) => ("report age unknown".into(), d.theme.dim),
        (_, Some(at)) if at.age(d.now) < MAX_FRESH_AGE => {
            (format!("report <{}s old", MAX_FRESH_AGE.as_secs()), d.theme.dim)
        }
        (_, Some(at)) => {
            let silent = cluster.findings.iter().any(|f| f.kind == FindingKind::Silent);
            let tone = if silent { d.theme.bad } else { d.theme.dim };
            (format!("report {} old", labels::minutes(at.age(d.now))), tone)
        }
    }
}

/// The pane's status in a few words, for the tabs.
pub fn summary(cluster: &Cluster, d: &DrawContext<'_>) -> (String, Style) {
    let report = &*cluster.snapshot.autoscaler;
    let wanted = cluster.tally.unmet_demands;
    if let Some(finding) = actionable(cluster).next() {
        let since = finding.age(d.now).map_or_else(String::new, |age| format!(" {}", labels::minutes(age)));
        // The tab already names the autoscaler.
        let word = match finding.kind {
            FindingKind::Stuck => "stuck",
            FindingKind::Silent => "silent",
            FindingKind::AutoscalerError => "error",
            kind => kind.label(),
        };
        let (mark, role) = labels::severity_mark(finding.severity);
        return (format!("{mark} {word}{since}"), d.theme.role(role));
    }
    match () {
        () if !cluster.known => ("?".into(), d.theme.dim),
        () if wanted > 0 => (format!("demand {wanted}"), d.theme.text),
        () if report.version == AutoscalerVersion::None => ("-".into(), d.theme.dim),
        () => ("no demand".into(), d.theme.dim),
    }
}

fn row(t: &NodeTypeCount, is_short: bool, has_idle: bool, role: Role) -> Vec<Cell<'_>> {
    let count = |n: u32, some: Role| match n {
        0 => Cell::new("-", role),
        n => Cell::new(n.to_string(), some),
    };
    let limit = |n: Option<u32>| Cell::new(n.map_or_else(|| "?".into(), |n| n.to_string()), Role::Dim);
    let up: &[u32] = if has_idle { &[t.active, t.idle] } else { &[t.active + t.idle] };
    let name = Cell::new(t.name.shown(), if is_short { Role::Warn } else { role }).named();
    let mut cells = vec![name, limit(t.min), limit(t.max)];
    cells.extend(up.iter().map(|n| count(*n, role)));
    cells.extend([count(t.pending, role), count(t.launching, role), count(t.failed, Role::Bad)]);
    cells
}

/// The demands, with a blank line after them: they come before the node types, whose list may be long.
fn wanted(cluster: &Cluster, d: &DrawContext<'_>, stale: bool) -> Vec<(String, Style)> {
    let report = &*cluster.snapshot.autoscaler;
    if report.demands.is_empty() {
        return Vec::new();
    }
    let is_known = cluster.knows(SnapshotPart::Nodes);
    let demands = report.demands.iter().zip(&cluster.unmet);
    let demands = demands.map(|(x, unmet)| demand(x, if is_known { *unmet } else { x.count }, d));
    let demands = demands.map(|(text, style)| (text, if stale { d.theme.dim } else { style }));
    let title = std::iter::once(("DEMAND".to_owned(), d.theme.heading));
    title.chain(demands).chain([(String::new(), d.theme.text)]).collect()
}

fn lines(cluster: &Cluster, d: &DrawContext<'_>, stale: bool) -> Vec<(String, Style)> {
    let report = &*cluster.snapshot.autoscaler;
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
    let failures = report.failures.iter().map(|f| {
        let day = if f.day_unknown { " or on an earlier day" } else { "" };
        let since = f.at.map(|t| format!(", {}{day}", ago_minutes(t, d.now))).unwrap_or_default();
        let reason = if f.reason.is_empty() {
            "no reason given; see monitor.log".into()
        } else {
            f.reason.to_string()
        };
        (format!("✕ {} ×{}{since}: {reason}", f.node_type, f.count), tone(d.theme.bad))
    });
    section("FAILED TO LAUNCH", failures.collect());
    let pending = report.pending.iter().map(|p| {
        let status = if p.status.is_empty() { "not reporting yet".into() } else { p.status.to_string() };
        let age = cluster.pending_since(&p.address).map(|at| at.age(d.now));
        let age = age
            .filter(|age| *age >= Duration::from_secs(60))
            .map_or_else(String::new, |age| format!(" {}", labels::minutes(age)));
        (format!("◌ {} {}: {status}{age}", p.node_type, p.address), tone(d.theme.text))
    });
    section("PENDING", pending.collect());
    lines
}

fn ago_minutes(at: Timestamp, now: Timestamp) -> String {
    if at.age(now) < Duration::from_secs(60) { "just now".into() } else { ago(at, now) }
}

/// A demand; of a call of `request_resources()`, also whether it is met, if at least part of it is.
fn demand(demand: &Demand, unmet: u64, d: &DrawContext<'_>) -> (String, Style) {
    let shape = if demand.shape.is_empty() { "no resources".into() } else { shape(&demand.shape) };
    let who = match &demand.kind {
        DemandKind::Task => String::new(),
        DemandKind::Group(strategy) if strategy.is_empty() => "  placement group".into(),
        DemandKind::Group(strategy) => format!("  group {strategy}"),
        DemandKind::Request if unmet == 0 => "  requested, met".into(),
        DemandKind::Request if unmet < demand.count => format!("  requested, {unmet} unmet"),
        DemandKind::Request => "  requested".into(),
    };
    let text = format!("{:>5}× {shape}{who}", demand.count);
    if demand.infeasible {
        (
            format!("{text}  infeasible: no node type provides it, or those that do are at their maximum"),
            d.theme.bad,
        )
    } else {
        (text, d.theme.text)
    }
}
