//! The fleet: one row per cluster with its worst issue, the files that could not be read, and the totals.

use super::frame::{Title, more, pane};
use super::grid::{Cell, Column, Grid, put};
use super::names::Names;
use super::{Draw, alerts, filtered, split_bottom, words};
use crate::app::describe::number;
use crate::app::{Action, Area, Cluster, FLEET_COLUMNS, FULL, Running, Sum, Totals, Trend};
use crate::diagnose::{Finding, FindingKind, Severity};
use crate::model::text::printable;
use crate::model::{Chip, Link, Problem, Tally};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// Width of the link's column where there is no room for words.
const NARROW: u16 = 9;
/// Cells of the bar of used chips.
const BAR: u16 = 6;
/// From this width of the pane on the state of the connection is shown in words.
const ROOMY: u16 = 108;
/// From this width on there is room for everything.
const VAST: u16 = 150;
/// From this width on the history may be long.
const HUGE: u16 = 180;
/// Free rows below the table from which the selected row's issues are shown there.
const DETAILS: u16 = 5;

/// Narrowest and widest column of nodes.
const NODES: (u16, u16) = (9, 16);
/// The least width of the last column, which gives room to the nodes' column.
const SAYS: u16 = 12;

/// The columns; below [`ROOMY`] the ones that grow with their words are narrower. The nodes' is as
/// wide as the longest of them: the number of lost nodes is at the end.
fn columns(width: u16, names: &Names, d: &Draw<'_>) -> [Column; 12] {
    let (link, jobs, says, history): (u16, u16, u16, u16) = match width {
        0..ROOMY => (9, 9, 14, 8),
        ROOMY..VAST => (15, 10, 24, 8),
        VAST..HUGE => (17, 11, 33, 8),
        _ => (18, 12, 40, 20),
    };
    let counts = d.app.clusters().iter().filter(|c| c.known).map(words::node_counts);
    let counts = counts.map(|c| if width < ROOMY { words::squeezed(c, NODES.0) } else { c }.width());
    let nodes = u16::try_from(counts.max().unwrap_or(0)).unwrap_or(NODES.1).clamp(NODES.0, NODES.1);
    let says = says.saturating_sub(nodes - NODES.0).max(SAYS);
    [
        Column::text("", 1, 0),
        Column::text("CLUSTER", names.width, 0),
        Column::text("LINK", link, 0),
        Column::text("RAY", 7, 8),
        Column::text("NODES", nodes, 0),
        Column::text("", BAR, 4),
        Column::number("CHIPS", 9, 1),
        Column::text("USE", history, 7),
        Column::text("JOBS", jobs, 2),
        Column::number("PENDING", 8, 5),
        Column::number("DATA", 5, 6),
        Column::rest("ISSUE", says, 0),
    ]
}

/// Draws it; returns where the rows are.
pub fn draw(buf: &mut Buffer, area: Rect, d: &Draw<'_>) -> Area {
    let list = d.app.list();
    let (clusters, broken) = (d.app.clusters(), d.app.broken());
    let title = filtered("Clusters", list.filter().text(), list.len(), clusters.len() + broken.len());
    let by =
        list.sort().column.and_then(|c| FLEET_COLUMNS.get(c)).map_or("issue".into(), |c| c.to_lowercase());
    let order = format!("by {by}");
    let inner = pane(buf, area, d.theme, &Title { left: &title, right: &order, tone: None, focused: true });
    let room_for_totals = inner.height >= 4;
    let (totals, above) = split_bottom(inner, if room_for_totals { 2 } else { 0 });
    let needed = u16::try_from(list.len().max(1) + 1).unwrap_or(u16::MAX);
    let spare = above.height.saturating_sub(needed);
    let (details, rows) = split_bottom(above, if spare >= DETAILS { spare } else { 0 });
    let names = Names::of(
        d.app,
        match inner.width {
            0..ROOMY => 16,
            ROOMY..VAST => 20,
            _ => 32,
        },
    );
    let columns = columns(inner.width, &names, d);
    let grid = Grid {
        columns: &columns,
        sort: list.sort(),
        sortable: &FLEET_COLUMNS,
        top: list.window(usize::from(rows.height.saturating_sub(1))),
        rows: list.len(),
        selected: Some((list.cursor(), d.theme.selected)),
    };
    let drawn = grid.draw(buf, rows, d.theme, |position| {
        let Some(i) = list.row(position) else { return Vec::new() };
        match clusters.get(i) {
            Some(cluster) => row(cluster, d, &columns, &names),
            None => broken
                .get(i - clusters.len())
                .map(|(file, problem)| broken_row(file, problem, d))
                .unwrap_or_default(),
        }
    });
    if list.is_empty() && drawn.height > 0 {
        put(buf, drawn.x, drawn.y, drawn.width, false, &nothing(d), d.theme.dim);
    }
    if let Some(i) = list.selected_row() {
        tell(buf, details, d, i);
    }
    if room_for_totals {
        put(
            buf,
            totals.x + 2,
            totals.y + 1,
            totals.width.saturating_sub(2),
            false,
            &sums(&d.app.totals(), totals.width.saturating_sub(2).into()),
            d.theme.dim,
        );
    }
    drawn
}

/// Draws all issues of the selected row in full, with evidence and hints.
fn tell(buf: &mut Buffer, area: Rect, d: &Draw<'_>, selected: usize) {
    let width = area.width.saturating_sub(4);
    let clusters = d.app.clusters();
    let (name, lines) =
        match (clusters.get(selected), d.app.broken().get(selected - clusters.len().min(selected))) {
            (Some(cluster), _) => {
                let told = cluster.findings.iter().filter(|f| f.severity < Severity::Info);
                let lines = alerts::lines(told, d, width.into(), cluster.is_stale(d.now));
                (cluster.name().to_string(), lines)
            }
            (None, Some((file, problem))) => {
                let lines = alerts::lines([Finding::from(problem)].iter(), d, width.into(), false);
                (printable(file).into_owned(), lines)
            }
            (None, None) => return,
        };
    if lines.is_empty() || area.height == 0 {
        return;
    }
    put(buf, area.x + 2, area.y + 1, width, false, &name, d.theme.text.add_modifier(Modifier::BOLD));
    // A blank line ends each issue.
    let hidden = (lines.len() - 1).saturating_sub(usize::from(area.height.saturating_sub(2)));
    if hidden > 0 {
        let all = format!("{}: {} shows all", more((0, hidden), ""), d.key(Action::Describe));
        put(buf, area.x + 2, area.y + 1, width, true, &all, d.theme.warn);
    }
    for (y, (text, style)) in (area.y + 2..area.bottom()).zip(lines) {
        put(buf, area.x + 2, y, width, false, &text, style);
    }
}

/// Why the table is empty.
fn nothing(d: &Draw<'_>) -> String {
    if d.app.list().filter().is_empty() {
        return "no clusters; --infra names a folder of cluster files".into();
    }
    format!("no cluster matches the filter; {} clears it", d.key(Action::Back))
}

fn row<'a>(cluster: &'a Cluster, d: &Draw<'_>, columns: &[Column], names: &Names) -> Vec<Cell<'a>> {
    let stale = cluster.is_stale(d.now);
    let text = if stale { d.theme.dim } else { d.theme.text };
    let (glyph, tone) = mark(cluster, d);
    let (link, link_tone) = link(cluster, d, columns[2].width);
    let (nodes, jobs) = (words::node_counts(cluster), words::job_counts(cluster, d.now));
    let t = &cluster.tally;
    let known = |s: String| if cluster.known { s } else { "?".into() };
    let (nodes, jobs) = (words::squeezed(nodes, columns[4].width), words::squeezed(jobs, columns[8].width));
    let (says, says_tone) = says(cluster, d, columns[2].width > NARROW);
    let name = if says_tone == d.theme.bad { text.patch(d.theme.bad) } else { text };
    let wants = if t.wants > 0 { t.wants.to_string() } else { "-".into() };
    let wants_tone = if t.wants > 0 && !stale { d.theme.warn } else { text };
    vec![
        Cell::new(glyph, tone),
        Cell::new(names.shown(cluster), name),
        Cell::new(link, link_tone),
        Cell::new(if cluster.known { cluster.snapshot.ray_version.shown() } else { "?".into() }, d.theme.dim),
        Cell::new(known(nodes), text),
        Cell::new(bar(t), text),
        Cell::new(known(chips(t)), text),
        Cell::new(
            sparkline(&cluster.trend, columns[7].width.into()),
            if stale { d.theme.dim } else { d.theme.accent },
        ),
        Cell::new(known(jobs), text),
        Cell::new(known(wants), wants_tone),
        Cell::new(words::age(cluster.age(d.now), d.app.fresh()), if stale { d.theme.warn } else { text }),
        Cell::new(says, says_tone),
    ]
}

/// The row's state in a glyph.
fn mark(cluster: &Cluster, d: &Draw<'_>) -> (&'static str, Style) {
    match cluster.operating() {
        Some(running) if running.is_stopped() => return ("▲", d.theme.bad),
        Some(_) => return ("◐", d.theme.accent),
        None if cluster.mark.is_some() => return ("◐", d.theme.accent),
        None => {}
    }
    match (cluster.says(), &cluster.link) {
        (Some(Finding { kind: FindingKind::Unreachable, .. }), _) => ("✕", d.theme.bad),
        (Some(Finding { severity: Severity::Bad, .. }), _) => ("▲", d.theme.bad),
        (_, None | Some(Link::Connecting { .. })) => ("◌", d.theme.warn),
        (Some(Finding { severity: Severity::Warn, .. }), _) => ("!", d.theme.warn),
        (Some(Finding { kind: FindingKind::Idle, .. }), _) => ("○", d.theme.dim),
        _ if cluster.is_stale(d.now) => ("●", d.theme.warn),
        _ => ("●", d.theme.good),
    }
}

/// The state of the connection, as far as the column allows; the last column has the problem in full.
fn link(cluster: &Cluster, d: &Draw<'_>, width: u16) -> (String, Style) {
    let roomy = width > NARROW;
    if cluster.problem().is_some() && cluster.operating().is_some_and(Running::takes_down) {
        return ("◌ down".into(), d.theme.accent);
    }
    match &cluster.link {
        Some(Link::Up { dashboard: Some(_), .. }) if !roomy => ("! GCS only".into(), d.theme.warn),
        Some(Link::Up { latency: Some(latency), .. }) if !roomy => {
            let tone = if cluster.is_stale(d.now) { d.theme.warn } else { d.theme.good };
            (format!("● {}", words::trip(*latency)), tone)
        }
        Some(Link::Connecting { .. }) if !roomy => ("◌ opening".into(), d.theme.warn),
        Some(Link::Retrying { at, .. }) if !roomy => {
            (format!("✕ in {}", words::countdown(at.until(d.now))), d.theme.bad)
        }
        Some(Link::Stopped { .. }) if !roomy => ("✕ down".into(), d.theme.bad),
        Some(Link::Retrying { problem, .. } | Link::Stopped { problem }) => {
            (format!("✕ {}", words::kind(&problem.kind)), d.theme.bad)
        }
        _ => words::link(cluster, d.now, d.theme),
    }
}

/// The worst finding and its age. A broken connection shows when it is retried, unless the link column shows the kind
/// of problem in words.
fn says(cluster: &Cluster, d: &Draw<'_>, roomy: bool) -> (String, Style) {
    if let Some(running) = cluster.operating() {
        let tone = if running.is_stopped() { d.theme.bad } else { d.theme.accent };
        return (format!("{}: {}", running.brief(), d.key(Action::Progress)), tone);
    }
    if let Some(mark) = cluster.marked_by_others() {
        return (format!("{}: {}", mark.brief(d.now), d.key(Action::Progress)), d.theme.accent);
    }
    if let (Some(problem), Some(link)) = (cluster.problem(), &cluster.link) {
        let since = words::minutes(problem.since.age(d.now));
        let state = match link {
            Link::Retrying { at, .. } if roomy => {
                format!("down {since}, retry in {}", words::countdown(at.until(d.now)))
            }
            _ if roomy => format!("down {since}"),
            _ => format!("{} {since}", words::kind(&problem.kind)),
        };
        return (format!("{state}: {}", problem.joined(&d.app.hint(&problem.hint))), d.theme.bad);
    }
    let age = cluster.age(d.now);
    let old = age
        .filter(|age| *age >= d.app.fresh())
        .map(|_| format!("data {} old", words::age(age, d.app.fresh())));
    match (cluster.says(), old) {
        (Some(finding), Some(old)) => (format!("{old}; {}", words::finding(finding, d.now)), d.theme.dim),
        (Some(finding), None) => (words::finding(finding, d.now), words::severity(finding.severity, d.theme)),
        (None, Some(old)) => (old, d.theme.warn),
        (None, None) => (if cluster.known { String::new() } else { "-".into() }, d.theme.dim),
    }
}

/// Used and all chips, with their kind unless they are TPUs.
fn chips(t: &Tally) -> String {
    let unit = match t.chip {
        Chip::Tpu => "",
        Chip::Gpu => " gpu",
        Chip::Cpu => " cpu",
    };
    match t.used {
        _ if t.chips <= 0.0 => "-".into(),
        used => format!(
            "{}/{}{unit}",
            used.map_or_else(|| "?".into(), |u| number(u.round())),
            number(t.chips.round())
        ),
    }
}

/// `▇▇▇░░░`; nothing where nothing is known.
fn bar(t: &Tally) -> String {
    let Some(share) = t.share() else { return String::new() };
    // Something used is never shown as nothing, nor something free as full.
    let cells = usize::from(BAR);
    let full = match (share * f64::from(BAR)).round() as usize {
        0 if share > 0.0 => 1,
        n if n >= cells && share < 1.0 => cells - 1,
        n => n.min(cells),
    };
    "▇".repeat(full) + &"░".repeat(cells - full)
}

fn sparkline(trend: &Trend, width: usize) -> String {
    const LEVELS: [&str; FULL as usize + 1] = ["▁", "▁", "▂", "▃", "▄", "▅", "▆", "▇"];
    trend
        .levels(width)
        .map(|level| level.and_then(|l| LEVELS.get(usize::from(l))).unwrap_or(&" "))
        .copied()
        .collect()
}

/// `14 clusters · 13 up · 611 nodes · 2,512 of 2,904 chips · 31 jobs running, 7 waiting`; with fewer words where
/// those have no room: `13 of 14 up · 611 nodes · 2,512/2,904 chips · 31 run, 7 wait`.
fn sums(t: &Totals, width: usize) -> String {
    let long = sums_in(t, false);
    if long.width() > width { sums_in(t, true) } else { long }
}

fn sums_in(t: &Totals, brief: bool) -> String {
    let many =
        |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{} {what}s", grouped(n)) };
    // Before anything is known a total is unknown, not 0.
    let told =
        |text: String, what: &str| if t.known > 0 || t.clusters == 0 { text } else { format!("? {what}") };
    let (least, over) = if brief { ("≥", "/") } else { ("at least ", " of ") };
    let of = |sum: Sum, what: &str| {
        let least = if sum.is_least { least } else { "" };
        let used = sum
            .used
            .map_or_else(|| "?".to_owned(), |used| format!("{least}{}", grouped(used.round() as usize)));
        (sum.all > 0.0).then(|| format!("{used}{over}{} {what}", grouped(sum.all.round() as usize)))
    };
    let mut parts = if brief {
        vec![format!("{} of {} up", t.up, t.clusters)]
    } else {
        vec![many(t.clusters, "cluster"), format!("{} up", t.up)]
    };
    let broken = if brief { format!("{} broken", t.broken) } else { many(t.broken, "broken file") };
    parts.extend((t.broken > 0).then_some(broken));
    parts.push(told(many(t.nodes, "node"), "nodes"));
    parts.extend(of(t.tpus, "chips"));
    parts.extend(of(t.gpus, "gpus"));
    let (running, waiting) = if brief {
        (format!("{} run", grouped(t.running)), "wait")
    } else {
        (format!("{} running", many(t.running, "job")), "waiting")
    };
    let waiting = if t.waiting > 0 { format!(", {} {waiting}", grouped(t.waiting)) } else { String::new() };
    parts.push(told(format!("{running}{waiting}"), "jobs"));
    parts.join(" · ")
}

/// `2904` as `2,904`.
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

fn broken_row<'a>(file: &'a str, problem: &'a Problem, d: &Draw<'_>) -> Vec<Cell<'a>> {
    let name = file.rsplit('/').next().unwrap_or(file);
    // The name column shows the file's name already.
    let what = problem.what.strip_prefix(file).map_or(problem.what.as_str(), |w| w.trim_start_matches(':'));
    let says = if problem.hint.is_empty() {
        Cow::Borrowed(what.trim_start())
    } else {
        format!("{}; {}", what.trim_start(), d.app.hint(&problem.hint)).into()
    };
    vec![
        Cell::new("✕", d.theme.bad),
        Cell::new(printable(name), d.theme.text),
        Cell::spanning(format!("broken file: {says}"), d.theme.bad),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_or_empty_only_when_the_chips_are() {
        let bar = |used| bar(&Tally { chips: 1000.0, used, ..Tally::default() });
        assert_eq!(bar(Some(0.0)), "░░░░░░");
        assert_eq!(bar(Some(1.0)), "▇░░░░░");
        assert_eq!(bar(Some(999.0)), "▇▇▇▇▇░");
        assert_eq!(bar(Some(1000.0)), "▇▇▇▇▇▇");
        assert_eq!(bar(None), "");
    }

    #[test]
    fn a_sum_says_where_use_is_not_known() {
        let said = |used, is_least| {
            sums(&Totals { tpus: Sum { used, is_least, all: 2048.0 }, ..Totals::default() }, 200)
        };
        assert!(said(Some(1000.0), false).contains("· 1,000 of 2,048 chips"));
        assert!(said(Some(1000.0), true).contains("· at least 1,000 of 2,048 chips"));
        assert!(said(None, true).contains("· ? of 2,048 chips"));
    }

    #[test]
    fn a_sum_has_room_for_what_waits() {
        let tpus = Sum { used: Some(11_000.0), is_least: true, all: 24_048.0 };
        let (known, clusters) = (20, 20);
        let all = Totals {
            clusters,
            known,
            up: 19,
            nodes: 2344,
            tpus,
            running: 146,
            waiting: 14,
            ..Totals::default()
        };
        assert!(
            sums(&all, 120).ends_with("· at least 11,000 of 24,048 chips · 146 jobs running, 14 waiting")
        );
        let brief = "19 of 20 up · 2,344 nodes · ≥11,000/24,048 chips · 146 run, 14 wait";
        assert_eq!(sums(&all, 74), brief);
        assert!(brief.width() <= 74);
        let unknown = Totals { clusters: 20, ..Totals::default() };
        assert_eq!(sums(&unknown, 74), "20 clusters · 0 up · ? nodes · ? jobs");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(
            [0, 999, 1000, 2_904, 1_234_567].map(grouped),
            ["0", "999", "1,000", "2,904", "1,234,567"]
        );
    }
}
