//! The fleet: one row per cluster with its worst issue, the files that could not be read, and the totals.

use super::frame::{Title, more, pane};
use super::grid::put;
use super::part::{Draw, split_bottom, split_top};
use super::{alerts, table};
use crate::app::{Action, Headed, Listing, Sum, Target, Totals, words};
use crate::diagnose::{Finding, Severity};
use crate::model::text::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr;

/// From this width on what has changed stands beside the issues.
const BESIDE: u16 = 150;
/// Cells of the age of a change.
const AGE: u16 = 7;
/// Free rows below the table from which the selected row's issues are shown there.
const DETAILS: u16 = 5;

/// Draws it; returns where the rows are.
pub fn draw(buf: &mut Buffer, area: Rect, d: &Draw<'_>) -> Headed {
    let list = &d.app.pages().clusters;
    let title = table::filtered(list.title(), list);
    let order = format!("by {}", list.sorted_by().map_or("issue".into(), str::to_lowercase));
    let inner = pane(buf, area, d.theme, &Title { left: &title, right: &order, tone: None, focused: true });
    let room_for_totals = inner.height >= 4;
    let (totals, above) = split_bottom(inner, if room_for_totals { 2 } else { 0 });
    let needed = u16::try_from(list.len().max(1) + 1).unwrap_or(u16::MAX);
    let spare = above.height.saturating_sub(needed);
    let (details, rows) = split_bottom(above, if spare >= DETAILS { spare } else { 0 });
    let drawn = table::rows(buf, rows, d, list, d.theme.selected);
    let (issues, lately) = if details.width >= BESIDE {
        let left = details.width * 3 / 5;
        (
            Rect { width: left, ..details },
            Rect { x: details.x + left, width: details.width - left, ..details },
        )
    } else {
        (details, Rect { height: 0, ..details })
    };
    let used = list.target(d.app.fleet()).map_or(0, |target| tell(buf, issues, d, &target));
    // In a narrower window what has changed comes below the issues, where they leave room.
    let below = split_top(details, used).1;
    draw_lately(buf, if lately.height > 0 { lately } else { below }, d);
    if room_for_totals {
        let width = totals.width.saturating_sub(2);
        let sums = sums(&d.app.fleet().totals(), width.into());
        put(buf, totals.x + 2, totals.y + 1, width, false, &sums, d.theme.dim);
    }
    drawn
}

/// Draws what has changed on any cluster, newest first, where there is room for three lines of it.
fn draw_lately(buf: &mut Buffer, area: Rect, d: &Draw<'_>) {
    let changes = d.app.fleet().lately.len();
    if changes == 0 || area.height < 5 {
        return;
    }
    let width = area.width.saturating_sub(4);
    put(buf, area.x + 2, area.y + 1, width, false, "lately", d.theme.text.add_modifier(Modifier::BOLD));
    for (y, (at, change)) in (area.y + 2..area.bottom()).zip(&d.app.fleet().lately) {
        let age = words::minutes(at.age(d.now));
        put(buf, area.x + 2, y, AGE, true, &age, d.theme.dim);
        put(buf, area.x + 3 + AGE, y, width.saturating_sub(AGE + 1), false, change, d.theme.text);
    }
}

/// Draws all issues of the selected row in full, with evidence and hints; returns the lines that it took.
fn tell(buf: &mut Buffer, area: Rect, d: &Draw<'_>, selected: &Target) -> u16 {
    let width = area.width.saturating_sub(4);
    let fleet = d.app.fleet();
    let (name, lines) = match selected {
        Target::Broken(among) => {
            let Some((file, problem)) = fleet.broken.get(*among) else { return 0 };
            let lines = alerts::lines([Finding::from(problem)].iter(), d, width.into(), false);
            (printable(file).into_owned(), lines)
        }
        target => {
            let Some(cluster) = target.place().and_then(|place| fleet.clusters.get(place)) else { return 0 };
            let told = cluster.findings.iter().filter(|f| f.severity < Severity::Info);
            let lines = alerts::lines(told, d, width.into(), cluster.is_stale(d.now));
            (cluster.name().to_string(), lines)
        }
    };
    if lines.is_empty() || area.height == 0 {
        return 0;
    }
    put(buf, area.x + 2, area.y + 1, width, false, &name, d.theme.text.add_modifier(Modifier::BOLD));
    // A blank line ends each issue.
    let hidden = (lines.len() - 1).saturating_sub(usize::from(area.height.saturating_sub(2)));
    if hidden > 0 {
        let all = format!("{}: {} shows all", more((0, hidden), ""), d.key(Action::Describe));
        put(buf, area.x + 2, area.y + 1, width, true, &all, d.theme.warn);
    }
    let taken = u16::try_from(lines.len() + 1).unwrap_or(u16::MAX).min(area.height);
    for (y, (text, style)) in (area.y + 2..area.bottom()).zip(lines) {
        put(buf, area.x + 2, y, width, false, &text, style);
    }
    taken
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

#[cfg(test)]
mod tests {
    use super::*;

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
