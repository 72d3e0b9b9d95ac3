//! The fleet: one row per cluster with its worst issue, the files that could not be read, and the totals. If there is
//! room below, also the issues and jobs of the selected row, the TPUs of all clusters by type, and recent changes.

use super::frame::{Title, more, more_around, pane};
use super::grid::{Grid, put};
use super::part::{DrawContext, split_bottom, split_top};
use super::{alerts, sentence, table};
use crate::app::fleet::types::Kind;
use crate::app::job::state;
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{ColumnHeader, Width};
use crate::app::text::labels;
use crate::app::{Action, Cluster, Listing, Run, Sum, TableArea, Target, Totals};
use crate::diagnose::{Finding, Severity};
use crate::model::JobStatus;
use crate::model::amount::{counted, grouped};
use crate::model::text::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

/// From this width on, the recent changes are next to the issues.
const MIN_WIDTH_OF_TWO_COLUMNS: u16 = 150;
/// Width of the age of a change.
const AGE_WIDTH: u16 = 7;
/// Number of free rows below the table from which the selected row's issues are shown.
const MIN_ROWS_OF_DETAILS: u16 = 3;
/// Number of free rows from which its name is shown above its issues even if not all of them fit.
const MIN_NAMED_ROWS: u16 = 6;
/// Minimum number of lines of a part: a blank one, the title and two more.
const MIN_PART_LINES: u16 = 4;
/// Number of lines that are enough for a part while others lack room.
const ENOUGH_LINES: u16 = 8;

/// Draws it; returns the area of the rows.
pub fn draw(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>) -> TableArea {
    let list = &d.app.pages().clusters;
    let title = table::filtered(list.title(), list);
    let order = format!("by {}", list.sorted_by().map_or("issue".into(), str::to_lowercase));
    let inner = pane(buf, area, d.theme, &Title { left: &title, right: &order, tone: None, focused: true });
    let room_for_totals = inner.height >= 4;
    let (totals, above) = split_bottom(inner, if room_for_totals { 2 } else { 0 });
    let needed = u16::try_from(list.len().max(1) + 1).unwrap_or(u16::MAX);
    let spare = above.height.saturating_sub(needed);
    let (details, rows) = split_bottom(above, if spare >= MIN_ROWS_OF_DETAILS { spare } else { 0 });
    let drawn = table::rows(buf, rows, d, list, d.theme.selected);
    let visible = usize::from(drawn.rows.height);
    let hidden_above = list.window(visible);
    more_around(buf, area, d.theme, (hidden_above, list.len().saturating_sub(hidden_above + visible)), "");
    draw_details(buf, details, d, list.target(d.app.fleet()).as_ref());
    if room_for_totals {
        let width = totals.width.saturating_sub(2);
        let sums = sums(&d.app.fleet().totals(), width.into());
        put(buf, totals.x + 2, totals.y + 1, width, false, &sums, d.theme.dim);
    }
    drawn
}

/// Draws the parts below the table: first the issues of the selected row; next to or below them TPU types and recent
/// changes of all clusters; the jobs of the selected row.
fn draw_details(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, selected: Option<&Target>) {
    use Part::{Issues, Kinds, RecentChanges, Runs};
    let fleet = d.app.fleet();
    let cluster =
        selected.and_then(Target::cluster_index).and_then(|cluster_index| fleet.clusters.get(cluster_index));
    let parts = |area: Rect| Parts {
        issues: issues(d, selected, (inside(area).width.into(), None)),
        selected,
        kinds: fleet.kinds(),
        cluster,
    };
    let draw = |buf: &mut Buffer, area: Rect, parts: &Parts<'_>, order: &[Part]| {
        let needed: Vec<u16> = order.iter().map(|part| parts.lines(*part, d)).collect();
        let mut left = area;
        for (part, height) in order.iter().zip(shares(area.height, &needed)) {
            let (area, rest) = split_top(left, height);
            parts.draw(buf, area, d, *part);
            left = rest;
        }
    };
    if area.width >= MIN_WIDTH_OF_TWO_COLUMNS {
        let left = area.width * 3 / 5;
        let (issues, beside) =
            (Rect { width: left, ..area }, Rect { x: area.x + left, width: area.width - left, ..area });
        draw(buf, issues, &parts(issues), &[Issues, Runs]);
        draw(buf, beside, &parts(beside), &[Kinds, RecentChanges]);
    } else {
        draw(buf, area, &parts(area), &[Issues, Kinds, RecentChanges, Runs]);
    }
}

/// A part below the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The issues of the selected row, with evidence and hints.
    Issues,
    /// TPUs and GPUs of all clusters by type.
    Kinds,
    /// The recent changes on all clusters.
    RecentChanges,
    /// The jobs of the selected cluster that have not ended.
    Runs,
}

/// The content of the parts.
struct Parts<'a> {
    issues: Vec<(String, Style)>,
    selected: Option<&'a Target>,
    kinds: Vec<Kind>,
    cluster: Option<&'a Cluster>,
}

impl Parts<'_> {
    /// The number of lines that a part needs, including a blank one and its title; 0 if it is empty. The first issue
    /// already has the title.
    fn lines(&self, part: Part, d: &DrawContext<'_>) -> u16 {
        let lines = match part {
            Part::Issues => self.issues.len(),
            Part::Kinds => self.kinds.len(),
            Part::RecentChanges => d.app.fleet().recent_changes.changes().len(),
            Part::Runs => self.cluster.map_or(0, |c| c.runs.0.len()),
        };
        let title = usize::from(part != Part::Issues);
        if lines > 0 { u16::try_from(lines + title + 1).unwrap_or(u16::MAX) } else { 0 }
    }

    fn draw(&self, buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, part: Part) {
        let body = inside(area);
        if body.height == 0 {
            return;
        }
        match part {
            Part::Issues => self.draw_issues(buf, area, d),
            Part::Kinds => draw_kinds(buf, body, d, &self.kinds),
            Part::RecentChanges => draw_recent_changes(buf, body, d),
            Part::Runs => {
                if let Some(cluster) = self.cluster {
                    draw_runs(buf, body, d, cluster);
                }
            }
        }
    }

    /// Draws the issues. If not all fits, evidence is cut in favor of the hint; in a few lines the name is omitted, because
    /// the selected row is just above.
    fn draw_issues(&self, buf: &mut Buffer, area: Rect, d: &DrawContext<'_>) {
        let body = inside(area);
        let height = usize::from(body.height);
        let is_cut = self.issues.len() > height;
        let omitted = usize::from(is_cut && area.height < MIN_NAMED_ROWS);
        // Below the name.
        let rows = (height + omitted).saturating_sub(1);
        let cut = is_cut.then(|| issues(d, self.selected, (body.width.into(), Some(rows))));
        let shown = &cut.as_ref().unwrap_or(&self.issues)[omitted..];
        let hidden = self.issues.len().saturating_sub(height + omitted);
        for (y, (text, style)) in (body.y..body.bottom()).zip(shown) {
            sentence::put(buf, (body.x, y), body.width, text, *style, d.theme);
        }
        if hidden > 0 {
            let key = d.app.keymap().key_of(Action::Describe);
            let all = format!("{}: press {key} for all", more((0, hidden), ""));
            put(buf, body.x, body.y, body.width, true, &all, d.theme.warn);
        }
    }
}

/// The number of lines given to each part: to the first as many as it needs; then to each its minimum, in order of
/// need; then the rest.
fn shares(room: u16, needed: &[u16]) -> Vec<u16> {
    let mut left = room;
    let mut given = vec![0; needed.len()];
    for most in [MIN_PART_LINES, ENOUGH_LINES, u16::MAX] {
        for (i, lines) in needed.iter().enumerate() {
            let more = (*lines).min(if i == 0 { u16::MAX } else { most }) - given[i];
            // A title without two lines below it is useless.
            if given[i] > 0 || i == 0 || more <= left {
                given[i] += more.min(left);
                left -= more.min(left);
            }
        }
    }
    given
}

/// The area below the blank line above a part, with margins.
fn inside(area: Rect) -> Rect {
    let width = area.width.saturating_sub(4);
    Rect { x: area.x + 2, width, ..split_top(area, 1).1 }
}

fn heading(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, text: &str) -> Rect {
    let (line, below) = split_top(area, 1);
    put(buf, line.x, line.y, line.width, false, text, d.theme.text.add_modifier(Modifier::BOLD));
    below
}

/// All issues of the selected row in full, with evidence and hints, below its name.
fn issues(
    d: &DrawContext<'_>,
    selected: Option<&Target>,
    layout: (usize, Option<usize>),
) -> Vec<(String, Style)> {
    let fleet = d.app.fleet();
    let Some(selected) = selected else { return Vec::new() };
    let (name, mut lines) = match selected {
        Target::Broken(among) => {
            let Some((file, problem)) = fleet.broken.get(*among) else { return Vec::new() };
            let finding = Finding::from(problem);
            (printable(file).into_owned(), alerts::lines([finding].iter(), d, layout, false, |_| Vec::new()))
        }
        target => {
            let Some(cluster_index) = target.cluster_index() else { return Vec::new() };
            let Some(cluster) = fleet.clusters.get(cluster_index) else { return Vec::new() };
            let findings = cluster.findings.iter().filter(|f| f.severity < Severity::Info);
            let others = |finding: &Finding| fleet.others_with(cluster_index, finding);
            (cluster.name().to_string(), alerts::lines(findings, d, layout, cluster.is_stale(d.now), others))
        }
    };
    // Each issue ends with a blank line.
    if lines.pop().is_some() {
        lines.insert(0, (name, d.theme.text.add_modifier(Modifier::BOLD)));
    }
    lines
}

/// Draws the TPUs and GPUs of all clusters by type.
fn draw_kinds(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, kinds: &[Kind]) {
    // It is shown below the issues of a single cluster.
    const TITLE: &str = "TPUS OF ALL CLUSTERS";
    let name = kinds.iter().map(|kind| kind.name.width()).max().unwrap_or(0).max(TITLE.len());
    let headers = [
        ColumnHeader::plain(TITLE, Width::text(u16::try_from(name).unwrap_or(u16::MAX).min(24), 24, 0)),
        ColumnHeader::plain("SLICES", Width::number(6, 0)),
        ColumnHeader::plain("CHIPS", Width::number(13, 0)),
        ColumnHeader::plain("LOST", Width::number(5, 1)),
        ColumnHeader::plain("PENDING", Width::number(8, 1)),
    ];
    let some = |n: usize, role| if n > 0 { Cell::new(grouped(n), role) } else { Cell::text("-") };
    let row = |position: usize| {
        let kind = &kinds[position];
        vec![
            Cell::text(printable(&kind.name)),
            Cell::new(grouped(kind.slices), Role::Text),
            if kind.chips.all > 0.0 { Cell::new(of(kind.chips, true), Role::Text) } else { Cell::text("-") },
            some(kind.lost, Role::Warn),
            some(usize::try_from(kind.pending).unwrap_or(usize::MAX), Role::Text),
        ]
    };
    Grid { headers: &headers, top: 0, rows: kinds.len(), selected: None }.draw(buf, area, d.theme, row);
    not_shown(buf, area, d, kinds.len());
}

/// Writes next to the titles of a part the number of rows that do not fit.
fn not_shown(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, rows: usize) {
    let hidden = rows.saturating_sub(usize::from(area.height.saturating_sub(1)));
    if hidden > 0 {
        put(buf, area.x, area.y, area.width, true, &format!("and {hidden} more"), d.theme.dim);
    }
}

/// Draws the recent changes on all clusters, newest first.
fn draw_recent_changes(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>) {
    let body = heading(buf, area, d, "recent changes");
    for (y, change) in (body.y..body.bottom()).zip(d.app.fleet().recent_changes.changes()) {
        let age = labels::minutes(change.at.age(d.now));
        put(buf, body.x, y, AGE_WIDTH, true, &age, d.theme.dim);
        // The text is cut before the names of the clusters.
        let names = labels::named(&change.clusters);
        let (x, width) = (body.x + AGE_WIDTH + 1, body.width.saturating_sub(AGE_WIDTH + 1));
        let columns = |text: &str| u16::try_from(text.width()).unwrap_or(u16::MAX);
        let room = width.saturating_sub(columns(&names) + 2);
        put(buf, x, y, room, false, &change.what, d.theme.text);
        let taken = columns(&change.what).min(room) + 2;
        put(buf, x + taken.min(width), y, width.saturating_sub(taken), false, &names, d.theme.dim);
    }
}

/// Draws the jobs of a cluster that have not ended, pending ones with the reason.
fn draw_runs(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, cluster: &Cluster) {
    let (runs, all) = &cluster.runs;
    let widest = |of: &dyn Fn(&Run) -> usize, title: &str| {
        let most = runs.iter().map(of).max().unwrap_or(0).max(title.len());
        u16::try_from(most).unwrap_or(u16::MAX)
    };
    // The owner is shown next to it.
    let id_width = widest(&|run| run.job.short_name().width(), "JOB");
    let owner = widest(&|run| run.job.owner().map_or(1, UnicodeWidthStr::width), "OWNER");
    let tpu = widest(&|run| run.job.accelerator().map_or(1, |tpu| tpu.width()), "TPU TYPE");
    let headers = [
        ColumnHeader::plain("", Width::text(1, 1, 0)),
        ColumnHeader { widest: id_width, ..ColumnHeader::plain("JOB", Width::text(20, 48, 0).firm(48)) },
        ColumnHeader { widest: owner, ..ColumnHeader::plain("OWNER", Width::text(6, 12, 3)) },
        ColumnHeader { widest: tpu, ..ColumnHeader::plain("TPU TYPE", Width::text(8, 16, 1)) },
        ColumnHeader::plain("AGE", Width::number(7, 0)),
        ColumnHeader::plain("ATTEMPT", Width::number(7, 4)),
        ColumnHeader { widest: 28, ..ColumnHeader::plain("ACTIVITY", Width::rest(9, 60, 0)) },
    ];
    let stale = cluster.is_stale(d.now);
    let row = |position: usize| {
        let Run { job, attempt } = &runs[position];
        let (glyph, role) = state::mark(job, &cluster.vitals, d.now);
        let text = Role::Text.unless(stale);
        let age = job.started.map_or_else(|| "?".to_owned(), |at| labels::minutes(at.age(d.now)));
        let why = cluster
            .pending
            .get(&job.key)
            .filter(|_| job.status == JobStatus::Pending)
            .map(|why| Cell::text(why.text.as_str()));
        let activity = why.or_else(|| state::activity(job, &cluster.vitals, d.now));
        let activity = activity.unwrap_or_else(|| Cell::text(cluster.vitals.status(job).label()));
        vec![
            Cell::new(glyph, role.unless(stale)),
            Cell::new(job.short_name(), text).named(),
            Cell::new(job.owner().map_or("-".into(), printable), text),
            Cell::new(job.accelerator().unwrap_or("-".into()), text),
            Cell::new(age, text),
            Cell::new(attempt.to_string(), if *attempt > 1 { text } else { Role::Dim }),
            Cell { role: activity.role.unless(stale), ..activity },
        ]
    };
    Grid { headers: &headers, top: 0, rows: runs.len(), selected: None }.draw(buf, area, d.theme, row);
    not_shown(buf, area, d, *all);
}

/// `14 clusters · 13 up · 611 nodes · 2,512 of 2,904 chips · 31 jobs running, 7 pending`; shortened if there is no
/// room: `13 of 14 up · 611 nodes · 2,512/2,904 chips · 31 running, 7 pending`.
fn sums(t: &Totals, width: usize) -> String {
    let long = sums_in(t, false);
    if long.width() > width { sums_in(t, true) } else { long }
}

fn sums_in(t: &Totals, brief: bool) -> String {
    // Before any data, a total is unknown rather than 0.
    let total = |known: usize, text: String, what: &str| {
        if known > 0 || t.clusters == 0 { text } else { format!("? {what}") }
    };
    let of = |sum: Sum, what: &str| (sum.all > 0.0).then(|| format!("{} {what}", of(sum, brief)));
    let mut parts = if brief {
        vec![format!("{} of {} up", t.up, t.clusters)]
    } else {
        vec![counted(t.clusters, "cluster"), format!("{} up", t.up)]
    };
    let broken = if brief { format!("{} broken", t.broken) } else { counted(t.broken, "broken file") };
    parts.extend((t.broken > 0).then_some(broken));
    parts.push(total(t.nodes_known, counted(t.nodes, "node"), "nodes"));
    parts.extend(of(t.tpus, "chips"));
    parts.extend(of(t.gpus, "gpus"));
    let running = if brief { grouped(t.running) } else { counted(t.running, "job") };
    let waiting = if t.waiting > 0 { format!(", {} pending", grouped(t.waiting)) } else { String::new() };
    parts.push(total(t.jobs_known, format!("{running} running{waiting}"), "jobs"));
    parts.join(" · ")
}

/// `2,512 of 2,904`, or in brief `2,512/2,904`.
fn of(sum: Sum, brief: bool) -> String {
    let (least, over) = if brief { ("≥", "/") } else { ("at least ", " of ") };
    let least = if sum.is_lower_bound { least } else { "" };
    let used =
        sum.used.map_or_else(|| "?".to_owned(), |used| format!("{least}{}", grouped(used.round() as usize)));
    format!("{used}{over}{}", grouped(sum.all.round() as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shared_out_in_order_of_need() {
        assert_eq!(shares(20, &[9, 0, 0, 0]), [9, 0, 0, 0]);
        assert_eq!(
            shares(20, &[9, 6, 30, 12]),
            [9, 6, 5, 0],
            "a part with too little room gives it to others"
        );
        assert_eq!(shares(30, &[9, 6, 30, 12]), [9, 6, 8, 7]);
        assert_eq!(shares(60, &[9, 6, 30, 12]), [9, 6, 30, 12]);
        assert_eq!(shares(5, &[9, 6, 30, 12]), [5, 0, 0, 0]);
        assert_eq!(shares(6, &[0, 3, 9, 9]), [0, 3, 0, 0]);
    }

    #[test]
    fn totals_show_unknown_use() {
        let text = |used, is_lower_bound| {
            sums(&Totals { tpus: Sum { used, is_lower_bound, all: 2048.0 }, ..Totals::default() }, 200)
        };
        assert!(text(Some(1000.0), false).contains("· 1,000 of 2,048 chips"));
        assert!(text(Some(1000.0), true).contains("· at least 1,000 of 2,048 chips"));
        assert!(text(None, true).contains("· ? of 2,048 chips"));
    }

    #[test]
    fn totals_have_room_for_pending_jobs() {
        let tpus = Sum { used: Some(11_000.0), is_lower_bound: true, all: 24_048.0 };
        let (known, clusters) = (20, 20);
        let all = Totals {
            clusters,
            known,
            nodes_known: known,
            jobs_known: known,
            up: 19,
            nodes: 2344,
            tpus,
            running: 146,
            waiting: 14,
            ..Totals::default()
        };
        assert!(
            sums(&all, 120).ends_with("· at least 11,000 of 24,048 chips · 146 jobs running, 14 pending")
        );
        let brief = "19 of 20 up · 2,344 nodes · ≥11,000/24,048 chips · 146 running, 14 pending";
        assert_eq!(sums(&all, 74), brief);
        assert!(brief.width() <= 74);
        let unknown = Totals { clusters: 20, ..Totals::default() };
        assert_eq!(sums(&unknown, 74), "20 clusters · 0 up · ? nodes · ? jobs");
    }
}
