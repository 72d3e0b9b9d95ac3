//! The dialog before an operation: consequence, whom it hits, switches, the name to be typed, the two buttons.

use super::Draw;
use super::chrome::{clear, wrap};
use super::dialog::{buttons, middle};
use super::frame::{Title, more_below, pane};
use super::grid::{Cell, Column, Grid, cut, cut_middle, put};
use crate::app::plan::{Looked, Plan, Spot};
use crate::app::{Action, Area, Areas, Sort};
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{DRAIN_SECS, Doomed, Fate, OperationKind, Task};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// Columns it takes where there is room.
const WIDEST: u16 = 108;
/// Rows that the table gets at least: titles and two jobs.
const TABLE: u16 = 3;

/// What stands before the line that has the focus.
const MARK: &str = "▸ ";

/// A line below the table, its style, and what is focused there.
struct Line {
    text: String,
    style: Style,
    spot: Option<Spot>,
}

/// Draws it; notes where it and its buttons are, and how far the table can be scrolled.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &Draw<'_>,
    plan: &Plan,
    areas: &mut Areas,
) -> Option<(u16, u16)> {
    let width = area.width.saturating_sub(4).min(WIDEST);
    let inside = usize::from(width.saturating_sub(4)).max(1);
    let head = head(plan, d, inside);
    let below = below(plan, d, inside);
    let jobs = plan.preview.jobs.len();
    let table = if jobs > 0 { u16::try_from(jobs + 1).unwrap_or(u16::MAX) } else { 0 };
    // Air around the table goes first, then jobs: those can be scrolled.
    let rows = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let fixed = rows(head.len()).saturating_add(rows(below.len())).saturating_add(3);
    let room = area.height.saturating_sub(fixed);
    let table = table.min(room.max(TABLE));
    let air = u16::from(fixed + table + 2 < area.height);
    let above = if table > 0 { air } else { 0 };
    let frame = middle(area, width, fixed + table + above + air);
    clear(buf, frame);
    let zone = d.app.clusters().iter().find(|c| *c.name() == plan.operation.cluster);
    let zone = zone.and_then(|c| c.spec.zone.as_deref()).map(|z| printable(z).into_owned());
    // A worker's name may be long, and its address stands behind it.
    let called = plan.title();
    let called = cut_middle(&called, usize::from(width.saturating_sub(6)));
    let title =
        Title { left: &called, right: zone.as_deref().unwrap_or_default(), tone: None, focused: true };
    let inner = pane(buf, frame, d.theme, &title);
    areas.dialog = Some(Area { x: frame.x, y: frame.y, width: frame.width, height: frame.height });
    let mut y = inner.y;
    for (text, style) in head.iter().take(usize::from(inner.height)) {
        put(buf, inner.x, y, inner.width, false, text, *style);
        y += 1;
    }
    y += above;
    if table > 0 {
        let last_row = inner.bottom().saturating_sub(1);
        let place = Rect { y, height: table.min(last_row.saturating_sub(y)), ..inner };
        let (top, last) = draw_jobs(buf, place, d, plan);
        areas.dialog_last = last;
        more_below(buf, frame, d.theme, last - top, if last - top == 1 { "job " } else { "jobs " });
        y += table;
    }
    y += air;
    let mut cursor = None;
    for line in &below {
        if y + 1 >= inner.bottom() {
            break;
        }
        let (text, style) = shown(line, plan.spot, d);
        put(buf, inner.x, y, inner.width, false, &text, style);
        if line.spot == Some(Spot::Name) && plan.spot == Spot::Name {
            let column = u16::try_from(text.width()).unwrap_or(u16::MAX).min(inner.width.saturating_sub(1));
            cursor = Some((inner.x + column, y));
        }
        y += 1;
    }
    let focused = match plan.spot {
        Spot::Cancel => Some(false),
        Spot::Go => Some(true),
        _ => None,
    };
    areas.buttons = Some(buttons(buf, inner, d, go(plan), focused));
    cursor
}

/// A line; one that can have the focus shows by a mark and, as a button does, by its style whether it has it.
fn shown<'l>(line: &'l Line, focus: Spot, d: &Draw<'_>) -> (Cow<'l, str>, Style) {
    match line.spot {
        None => (Cow::Borrowed(&line.text), line.style),
        Some(spot) if spot != focus => {
            (format!("{}{}", " ".repeat(MARK.width()), line.text).into(), line.style)
        }
        // What is typed has the cursor besides.
        Some(Spot::Name) => (format!("{MARK}{}", line.text).into(), line.style.patch(d.theme.marked)),
        Some(_) => (format!("{MARK}{}", line.text).into(), d.theme.selected),
    }
}

fn go(plan: &Plan) -> &'static str {
    match plan.operation.kind() {
        OperationKind::Restart => "Restart",
        OperationKind::Start => "Start",
        OperationKind::Stop => "Stop the cluster",
        OperationKind::AddWorker => "Add",
        OperationKind::InitWorker => "Start ray anew",
        OperationKind::RemoveWorker => "Remove",
    }
}

/// What happens, and to how many.
fn head(plan: &Plan, d: &Draw<'_>, width: usize) -> Vec<(String, Style)> {
    let mut lines = Vec::new();
    let keys = |mend: &str| d.app.keys_for(mend);
    let mut say = |text: &str, style| lines.extend(wrap(text, width).into_iter().map(|line| (line, style)));
    if let Some(wish) = plan.wish() {
        say(&printable(&wish), d.theme.text);
    }
    say(&plan.operation.consequence, d.theme.text);
    if !plan.note.is_empty() {
        say(&plan.note, d.theme.warn);
    }
    let of_cluster = plan.operation.kind().is_of_cluster();
    let (jobs, back) = (plan.preview.jobs.len(), plan.preview.back());
    match (&plan.looked, &plan.preview.trouble) {
        (Looked::Refused(problem), _) => {
            say(&format!("✕ {}", problem.what), d.theme.bad);
            say(&format!("  {}", problem.mend), d.theme.text);
            if !keys(&problem.mend).is_empty() {
                say(&format!("  {}", keys(&problem.mend)), d.theme.text);
            }
        }
        (Looked::Looking, _) if plan.wish().is_some() => say("◌ looking whether it can begin", d.theme.warn),
        (Looked::Looking, _) => say("◌ looking whom it hits", d.theme.warn),
        (Looked::Seen, Some(trouble)) => {
            let what = format!("! whom it hits cannot be told: {}", trouble.what);
            say(&what, d.theme.warn);
            if !trouble.mend.is_empty() {
                say(&format!("  {}", trouble.mend), d.theme.text);
            }
            if jobs > 0 {
                say("  the jobs below are those that this console remembers", d.theme.text);
            }
        }
        (Looked::Seen, None) if !plan.operation.destructive => {}
        (Looked::Seen, None) if jobs == 0 && of_cluster => say("no job runs or waits here", d.theme.text),
        (Looked::Seen, None) if jobs == 0 => say("no job works there", d.theme.text),
        (Looked::Seen, None) if !of_cluster => {
            say(&format!("{jobs} {} there", if jobs == 1 { "job works" } else { "jobs work" }), d.theme.warn);
        }
        (Looked::Seen, None) => {
            let tone = if back == jobs { d.theme.text } else { d.theme.warn };
            say(&format!("{back} of {jobs} jobs come back"), tone);
        }
    }
    lines
}

/// The switches, the announcement, the steps, the name.
fn below(plan: &Plan, d: &Draw<'_>, width: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let switch = |on: bool, text: String| format!("{} {text}", if on { "[x]" } else { "[ ]" });
    let spots = plan.spots();
    if spots.contains(&Spot::Jobs) {
        let text = switch(plan.preserves(), "save the jobs and submit them again".into());
        lines.push(Line { text, style: d.theme.text, spot: Some(Spot::Jobs) });
    }
    if let (true, Task::RemoveWorker { drain, .. }) = (spots.contains(&Spot::Drain), &plan.operation.task) {
        let minutes = drain.unwrap_or(DRAIN_SECS) / 60;
        let text =
            switch(drain.is_some(), format!("drain it: what runs there may end first, within {minutes} min"));
        lines.push(Line { text, style: d.theme.text, spot: Some(Spot::Drain) });
    }
    if spots.contains(&Spot::Others) {
        let deed = if plan.operation.kind().is_of_cluster() { "end" } else { "hit" };
        let text = switch(plan.others, format!("{deed} the jobs of {}, too", plan.strangers().join(", ")));
        let text = cut(&text, width.saturating_sub(MARK.width())).into_owned();
        lines.push(Line { text, style: d.theme.warn, spot: Some(Spot::Others) });
    }
    if spots.contains(&Spot::Blind) {
        let text = switch(plan.blind, "go on although it cannot be told whom it hits".into());
        lines.push(Line { text, style: d.theme.warn, spot: Some(Spot::Blind) });
    }
    if plan.operation.destructive && spots.contains(&Spot::Go) {
        let text = format!("{} copies an announcement for the team's channel", d.key(Action::Copy));
        lines.push(Line { text, style: d.theme.dim, spot: None });
    }
    let steps = plan.operation.steps.iter().enumerate().map(|(i, s)| format!("{} {}", i + 1, s.word()));
    // Steps are not broken in two.
    let steps = steps.map(|s| s.replace(' ', "\u{a0}")).collect::<Vec<_>>().join("   ");
    for line in wrap(&steps, width) {
        lines.push(Line { text: line.replace('\u{a0}', " "), style: d.theme.dim, spot: None });
    }
    if spots.contains(&Spot::Name) {
        let text = format!("type the cluster's name to go on: {}", printable(&plan.name));
        lines.push(Line { text, style: d.theme.text, spot: Some(Spot::Name) });
    }
    for line in wrap(&plan.said, width).into_iter().filter(|l| !l.is_empty()) {
        lines.push(Line { text: line, style: d.theme.bad, spot: None });
    }
    lines
}

/// Draws the jobs, those that are lost first; returns the first that is shown, and the highest that could be.
fn draw_jobs(buf: &mut Buffer, area: Rect, d: &Draw<'_>, plan: &Plan) -> (usize, usize) {
    let mut jobs: Vec<&Doomed> = plan.preview.jobs.iter().collect();
    jobs.sort_by_key(|j| !matches!(j.fate, Fate::Lost(_)));
    let columns = columns(&jobs, area.width, plan);
    let visible = usize::from(area.height.saturating_sub(1));
    let last = jobs.len().saturating_sub(visible);
    let top = plan.top.min(last);
    let grid = Grid {
        columns: &columns,
        sort: Sort::default(),
        sortable: &[],
        top,
        rows: jobs.len(),
        selected: None,
    };
    grid.draw(buf, area, d.theme, |i| jobs.get(i).map(|j| row(j, d, plan)).unwrap_or_default());
    (top, last)
}

/// Each as wide as what stands in it. Where that has no room the ids give way first, which are cut in their middle,
/// then what becomes of the jobs, then what they hold.
fn columns(jobs: &[&Doomed], width: u16, plan: &Plan) -> [Column; 5] {
    const LEAST: (u16, u16, u16) = (20, 18, 9);
    let widest = |say: &dyn Fn(&Doomed) -> usize, least: u16, most: u16| {
        let widest = jobs.iter().map(|j| say(j)).max().unwrap_or(0);
        u16::try_from(widest).unwrap_or(most).clamp(least, most)
    };
    let owner = widest(&|j| j.owner.as_ref().map_or(1, |o| o.shown().width()), 5, 12);
    let mut job = widest(&|j| j.key.to_string().width(), 3, 80);
    let mut fate = widest(&|j| plan.fate(j).width(), 10, 80);
    let mut holds = widest(&|j| j.holding().width(), 5, 40);
    let room = width.saturating_sub(owner + 7 + 4);
    let mut over = (job + fate + holds).saturating_sub(room);
    for (column, least) in [(&mut job, LEAST.0), (&mut fate, LEAST.1), (&mut holds, LEAST.2)] {
        let less = over.min(column.saturating_sub(least));
        (*column, over) = (*column - less, over - less);
    }
    [
        Column::text("JOB", job, 0),
        Column::text("OWNER", owner, 0),
        Column::number("AGE", 7, 1),
        Column::text("HOLDS", holds, 0),
        Column::rest(
            if plan.operation.kind().is_of_cluster() { "COMES BACK" } else { "WHAT RUNS THERE" },
            fate,
            0,
        ),
    ]
}

fn row<'a>(job: &Doomed, d: &Draw<'_>, plan: &Plan) -> Vec<Cell<'a>> {
    let age = job.started.map_or_else(|| "?".to_owned(), |at| brief(at.age(d.now)));
    let owner = job.owner.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    let ours = job.owner.as_ref().is_none_or(|o| o.raw() == plan.preview.me);
    let of_cluster = plan.operation.kind().is_of_cluster();
    let tone = match &job.fate {
        Fate::Lost(_) if !of_cluster => d.theme.warn,
        Fate::Lost(_) => d.theme.bad,
        Fate::Back => d.theme.good,
        Fate::Unknown => d.theme.dim,
    };
    vec![
        Cell::named(job.key.to_string(), d.theme.text),
        Cell::new(owner, if ours || plan.looked != Looked::Seen { d.theme.text } else { d.theme.warn }),
        Cell::new(age, d.theme.text),
        Cell::new(job.holding(), d.theme.text),
        Cell::new(plan.fate(job), tone),
    ]
}
