//! The confirmation of an operation: consequence, affected jobs, options, the name to type, the two buttons.

use super::buttons::buttons;
use super::frame::{Title, clear, dialog_width, middle, more_around, pane};
use super::grid::{Grid, cut_middle};
use super::line;
use super::part::DrawContext;
use super::sentence::{self, wrap};
use super::text::capitalized;
use crate::app::operation::confirmation::{Check, Control, Plan};
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{ColumnHeader, Width};
use crate::app::{Action, Area, Areas};
use crate::model::amount::counted;
use crate::model::sort;
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{AffectedJob, DRAIN_SECS, NewWorker, OperationKind, Restoration, Task};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// Maximum width, unless the jobs need more.
const MAX_WIDTH: u16 = 108;
/// Maximum width for jobs with long names.
const MAX_WIDTH_WITH_JOBS: u16 = 160;
/// Minimum number of rows of the table: titles and two jobs.
const MIN_TABLE_ROWS: u16 = 3;
/// Maximum number of jobs drawn.
const MAX_JOBS: usize = 10_000;

/// The mark before the focused line.
const MARK: &str = "▸ ";

/// A line below the table, its style, and its focusable control.
struct Line {
    text: String,
    style: Style,
    control: Option<Control>,
    /// Whether it continues the previous line.
    is_continuation: bool,
    /// The first column of the typed text and that of the cursor, for an input line.
    typed: Option<(u16, u16)>,
}

impl Line {
    /// Lines that cannot have the focus.
    fn wrapped(text: &str, style: Style, width: usize) -> impl Iterator<Item = Self> {
        wrap(text, width).into_iter().map(move |text| Self {
            text,
            style,
            control: None,
            is_continuation: false,
            typed: None,
        })
    }

    /// A control that can have the focus, over as many lines as it needs.
    fn of(control: Control, text: String, style: Style, width: usize) -> impl Iterator<Item = Self> {
        let room = width.saturating_sub(MARK.width()).max(1);
        let lines = if text.width() <= room { vec![text] } else { wrap(&text, room) };
        let line = move |(i, text)| Self {
            text,
            style,
            control: Some(control),
            is_continuation: i > 0,
            typed: None,
        };
        lines.into_iter().enumerate().map(line)
    }

    /// The name to type, next to the end of its label or, if there is no room, below it.
    fn of_name(plan: &Plan, style: Style, width: usize) -> Vec<Self> {
        /// Minimum width of the name.
        const MIN_NAME_WIDTH: usize = 12;
        let room = width.saturating_sub(MARK.width()).max(1);
        let mut label = wrap("type the cluster's name to continue:", room);
        let beside = label.pop_if(|end| end.width() + 1 + MIN_NAME_WIDTH <= room);
        let beside = beside.map_or_else(String::new, |end| format!("{end} "));
        let typed = printable(plan.name.text());
        let (text, column) = line::window(&typed, plan.name.cursor(), room - beside.width());
        let at = |column: usize| u16::try_from(MARK.width() + beside.width() + column).unwrap_or(u16::MAX);
        let cluster_indices = (at(0), at(column));
        label.push(format!("{beside}{text}"));
        let last = label.len() - 1;
        let line = |(i, text)| Self {
            text,
            style,
            control: Some(Control::Name),
            is_continuation: i > 0,
            typed: (i == last).then_some(cluster_indices),
        };
        label.into_iter().enumerate().map(line).collect()
    }
}

/// Draws the dialog; records its area, its buttons, and how far the table can be scrolled.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    plan: &Plan,
    areas: &mut Areas,
) -> Option<(u16, u16)> {
    let jobs = by_loss(plan);
    let width = dialog_width(
        area,
        JobWidths::new(&jobs, plan).all().saturating_add(4).clamp(MAX_WIDTH, MAX_WIDTH_WITH_JOBS),
    );
    let inside = usize::from(width.saturating_sub(4)).max(1);
    let (head, below) = (head(plan, d, inside), below(plan, d, inside));
    let jobs = jobs.len().min(MAX_JOBS);
    let rows = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let table = if jobs > 0 { rows(jobs + 1) } else { 0 };
    // Blank lines around the table are dropped first, then jobs, because those can be scrolled. If even few of them
    // fit, the whole dialog scrolls.
    let fixed = rows(head.len()).saturating_add(rows(below.len())).saturating_add(3);
    let is_low = fixed.saturating_add(table.min(MIN_TABLE_ROWS)) > area.height;
    let shown = if is_low { table } else { table.min(area.height - fixed) };
    let blank = u16::from(fixed.saturating_add(shown).saturating_add(2) < area.height);
    let above = if table > 0 { blank } else { 0 };
    let space = (above, shown, blank);
    let sheet = sheet(plan, d, &head, &below, rows(inside), space);
    let frame = middle(area, width, sheet.lines.area.height.saturating_add(3));
    clear(buf, frame);
    let zone = d.app.fleet().named(&plan.operation.cluster);
    let zone = zone.and_then(|c| c.spec.zone.as_deref()).map(|z| printable(z).into_owned());
    // A worker's name may be long, and is followed by its address.
    let called = capitalized(&plan.title());
    let called = cut_middle(&called, usize::from(width.saturating_sub(6)));
    let title =
        Title { left: &called, right: zone.as_deref().unwrap_or_default(), tone: None, focused: true };
    let inner = pane(buf, frame, d.theme, &title);
    areas.dialog = Some(Area { x: frame.x, y: frame.y, width: frame.width, height: frame.height });
    let rect = Rect { height: inner.height.saturating_sub(1), ..inner };
    let first = if is_low { sheet.first(plan, usize::from(rect.height)) } else { (0, 0) };
    if is_low {
        more_around(buf, frame, d.theme, (first.0, first.1 - first.0), "");
        (areas.dialog_top, areas.dialog_last) = first;
        areas.dialog_lines = rect.height.into();
    } else {
        let (top, last) = sheet.jobs;
        more_around(buf, frame, d.theme, (top, last - top), if last == 1 { "job " } else { "jobs " });
        (areas.dialog_top, areas.dialog_last) = (top, last);
        // Below the titles of the table.
        areas.dialog_lines = usize::from(shown).saturating_sub(1);
    }
    let cursor = sheet.copy(buf, rect, rows(first.0));
    areas.controls = sheet.controls(rect, rows(first.0));
    let focused = match plan.control {
        Control::Cancel => Some(false),
        Control::Go => Some(true),
        _ => None,
    };
    areas.buttons = Some(buttons(buf, inner, d, go(plan), focused));
    cursor
}

/// Everything above the buttons; a small window shows a part of it.
struct Sheet {
    lines: Buffer,
    /// The focused line, or the one with the reason why the operation did not start.
    focus: Option<usize>,
    /// Column and line of the cursor.
    cursor: Option<(u16, u16)>,
    /// The lines that can have the focus.
    controls: Vec<(u16, Control)>,
    /// The first job that is drawn, and the maximum scroll position.
    jobs: (usize, usize),
}

impl Sheet {
    /// The first visible line for that height, and the maximum scroll position. The focused line is visible until the
    /// dialog is scrolled.
    fn first(&self, plan: &Plan, visible: usize) -> (usize, usize) {
        let last = usize::from(self.lines.area.height).saturating_sub(visible);
        let top = match self.focus.filter(|_| !plan.is_scrolled) {
            Some(focus) => plan.scroll.top().clamp((focus + 1).saturating_sub(visible), focus),
            None => plan.scroll.top(),
        };
        (top.min(last), last)
    }

    /// The areas of the lines that can have the focus, if the dialog is shown from that line on.
    fn controls(&self, rect: Rect, first: u16) -> Vec<(Area, Control)> {
        let line = |(y, control): &(u16, Control)| {
            let y = y.checked_sub(first).filter(|y| *y < rect.height)?;
            Some((Area { x: rect.x, y: rect.y + y, width: rect.width, height: 1 }, *control))
        };
        self.controls.iter().filter_map(line).collect()
    }

    /// Draws it from that line on; returns the position of the cursor.
    fn copy(&self, buf: &mut Buffer, rect: Rect, first: u16) -> Option<(u16, u16)> {
        let width = rect.width.min(self.lines.area.width);
        for y in 0..rect.height.min(self.lines.area.height.saturating_sub(first)) {
            for x in 0..width {
                buf[(rect.x + x, rect.y + y)] = self.lines[(x, first + y)].clone();
            }
        }
        let (x, line) = self.cursor?;
        let y = line.checked_sub(first).filter(|y| *y < rect.height)?;
        Some((rect.x + x.min(rect.width.saturating_sub(1)), rect.y + y))
    }
}

/// Draws it with these numbers of blank lines above the table, of lines of the table, and of blank lines below.
fn sheet(
    plan: &Plan,
    d: &DrawContext<'_>,
    head: &[(String, Style)],
    below: &[Line],
    width: u16,
    (above, table, blank): (u16, u16, u16),
) -> Sheet {
    let rows = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let upper = rows(head.len()) + above;
    let height = upper.saturating_add(table).saturating_add(blank).saturating_add(rows(below.len()));
    let mut lines = Buffer::empty(Rect { x: 0, y: 0, width, height });
    for (y, (text, style)) in (0..height).zip(head) {
        sentence::put(&mut lines, (0, y), width, text, *style, d.theme);
    }
    let rect = Rect { x: 0, y: upper, width, height: table };
    let jobs = if table > 0 { draw_jobs(&mut lines, rect, d, plan) } else { (0, 0) };
    let (mut cursor, mut focus, mut controls) = (None, None, Vec::new());
    let first = upper.saturating_add(table).saturating_add(blank);
    for (y, line) in (first..height).zip(below) {
        let (text, style) = shown(line, plan.control, d);
        sentence::put(&mut lines, (0, y), width, &text, style, d.theme);
        controls.extend(line.control.map(|control| (y, control)));
        if line.control == Some(plan.control) {
            focus = Some(usize::from(y));
            cursor = line.typed.map(|(_, column)| (column.min(width.saturating_sub(1)), y));
        }
        if let Some((x, _)) = line.typed.filter(|(x, _)| *x < width) {
            line::mark_field(&mut lines, Rect { x, y, width: width - x, height: 1 });
        }
    }
    if !plan.problem.is_empty() {
        focus = height.checked_sub(1).map(usize::from);
    }
    Sheet { lines, focus, cursor, controls, jobs }
}

/// A line. If it can have the focus, a mark and, as for buttons, its style show whether it has it.
fn shown<'l>(line: &'l Line, focus: Control, d: &DrawContext<'_>) -> (Cow<'l, str>, Style) {
    match line.control {
        None => (Cow::Borrowed(&line.text), line.style),
        Some(control) if control != focus => {
            (format!("{}{}", " ".repeat(MARK.width()), line.text).into(), line.style)
        }
        Some(control) => {
            let mark = if line.is_continuation { " ".repeat(MARK.width()) } else { MARK.to_owned() };
            // The typed text also has the cursor.
            let style =
                if control == Control::Name { line.style.patch(d.theme.marked) } else { d.theme.selected };
            (format!("{mark}{}", line.text).into(), style)
        }
    }
}

fn go(plan: &Plan) -> &'static str {
    match plan.operation.kind() {
        OperationKind::Restart => "Restart cluster",
        OperationKind::Start => "Start cluster",
        OperationKind::Stop => "Stop cluster",
        OperationKind::Update => "Update cluster",
        OperationKind::AddWorker => match &plan.operation.task {
            Task::AddWorker(NewWorker::Queued { names, .. }) if names.len() > 1 => "Add workers",
            _ => "Add worker",
        },
        OperationKind::InitWorker => "Restart Ray",
        OperationKind::RemoveWorker => "Remove worker",
    }
}

/// The consequence, and the number of affected jobs.
fn head(plan: &Plan, d: &DrawContext<'_>, width: usize) -> Vec<(String, Style)> {
    let mut lines = Vec::new();
    let mut add = |text: &str, style| lines.extend(wrap(text, width).into_iter().map(|line| (line, style)));
    if let Some(requested_workers) = plan.requested_workers() {
        add(&printable(&requested_workers), d.theme.text);
    }
    add(&plan.operation.consequence, d.theme.text);
    if !plan.note.is_empty() {
        add(&plan.note, d.theme.warn);
    }
    if !plan.preview.owned_resources.is_empty() {
        add(&format!("Also deletes {}.", plan.preview.owned_resources.join(", ")), d.theme.text);
    }
    for warning in &plan.preview.warnings {
        add(&format!("! {warning}"), d.theme.warn);
    }
    let of_cluster = plan.operation.kind().is_of_cluster();
    let (jobs, back) = (plan.preview.jobs.len(), plan.preview.back());
    match (&plan.check, &plan.preview.problem) {
        (Check::Refused(problem), _) => {
            add(&format!("✕ {}", problem.what), d.theme.bad);
            add(&format!("  {}", d.app.dialog_hint(&problem.hint)), d.theme.text);
        }
        (Check::Running, _) if plan.requested_workers().is_some() => {
            add("◌ checking whether it can start", d.theme.dim);
        }
        (Check::Running, _) => add("◌ checking affected jobs", d.theme.dim),
        (Check::Done, Some(problem)) => {
            let what = format!("! cannot determine affected jobs: {}", problem.what);
            add(&what, d.theme.warn);
            if !problem.hint.is_empty() {
                add(&format!("  {}", d.app.dialog_hint(&problem.hint)), d.theme.text);
            }
            if jobs > 0 {
                add("  the jobs below are from the last data that this console received", d.theme.text);
            }
        }
        (Check::Done, None) if !plan.operation.destructive => {}
        (Check::Done, None) if jobs == 0 && of_cluster => add("no jobs running or pending", d.theme.text),
        (Check::Done, None) if jobs == 0 => add("no jobs are running on it", d.theme.text),
        (Check::Done, None) if !of_cluster => {
            add(&format!("{jobs} {} on it", if jobs == 1 { "job runs" } else { "jobs run" }), d.theme.warn);
        }
        (Check::Done, None) => {
            let tone = if back == jobs { d.theme.text } else { d.theme.warn };
            let why = lost_alike(plan).map_or_else(String::new, |why| format!(": {}", printable(why)));
            add(&format!("{back} of {} will be restored{why}", counted(jobs, "job")), tone);
        }
    }
    lines
}

/// The options, the announcement, the steps, the name.
fn below(plan: &Plan, d: &DrawContext<'_>, width: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let switch = |on: bool, text: String| format!("{} {text}", if on { "[x]" } else { "[ ]" });
    let controls = plan.controls();
    if controls.contains(&Control::Jobs) {
        let text = switch(plan.preserves(), "save the jobs and restore them".into());
        lines.extend(Line::of(Control::Jobs, text, d.theme.text, width));
    }
    if let (true, Task::RemoveWorker { drain, .. }) =
        (controls.contains(&Control::Drain), &plan.operation.task)
    {
        let minutes = drain.unwrap_or(DRAIN_SECS) / 60;
        let text =
            switch(drain.is_some(), format!("drain first: wait up to {minutes} min for running work to end"));
        lines.extend(Line::of(Control::Drain, text, d.theme.text, width));
    }
    if controls.contains(&Control::Others) {
        let effect = if plan.operation.kind().is_of_cluster() { "end" } else { "end work of" };
        let text =
            switch(plan.others, format!("also {effect} {} (required)", plan.affected_others().brief()));
        lines.extend(Line::of(Control::Others, text, d.theme.warn, width));
    }
    if controls.contains(&Control::UnknownJobs) {
        let text = switch(plan.allow_unknown_jobs, "continue without knowing which jobs are affected".into());
        lines.extend(Line::of(Control::UnknownJobs, text, d.theme.warn, width));
    }
    if let (Some(others), true) = (&plan.others_lock, controls.contains(&Control::TakeOver)) {
        let lock = &others.lock;
        let refusal = lock.refusal(d.now);
        // The option to take over follows.
        let text = refusal.joined(&d.app.dialog_hint(&refusal.hint.without_permissions()));
        lines.extend(Line::wrapped(&text, d.theme.bad, width));
        let text = switch(
            others.take_over,
            format!("take over from {}: their program stops at its next step", lock.user()),
        );
        lines.extend(Line::of(Control::TakeOver, text, d.theme.warn, width));
    }
    if plan.operation.destructive && controls.contains(&Control::Go) {
        let text = format!(
            "{} copies an announcement for the team's channel",
            d.app.keymap().key_of(Action::Announce)
        );
        lines.extend(Line::wrapped(&text, d.theme.dim, width));
    }
    let steps = plan.operation.steps.iter().enumerate().map(|(i, s)| format!("{} {}", i + 1, s.label()));
    // Steps are not split across lines.
    let steps = steps.map(|s| s.replace(' ', "\u{a0}")).collect::<Vec<_>>().join("   ");
    let whole = |line: Line| Line { text: line.text.replace('\u{a0}', " "), ..line };
    lines.extend(Line::wrapped(&steps, d.theme.dim, width).map(whole));
    if controls.contains(&Control::Name) {
        lines.extend(Line::of_name(plan, d.theme.text, width));
    }
    // Why the operation did not start, or a blank line before the buttons.
    lines.extend(Line::wrapped(&plan.problem, d.theme.bad, width));
    lines
}

/// Why none of several jobs is restored, if the reason is the same for all: the table need not repeat it.
fn lost_alike(plan: &Plan) -> Option<&str> {
    let (first, others) = plan.preview.jobs.split_first()?;
    let Restoration::Lost(why) = &first.restoration else { return None };
    let is_same = others.iter().all(|job| job.restoration == first.restoration);
    (is_same && plan.operation.kind().is_of_cluster() && plan.check == Check::Done).then_some(why)
}

/// The affected jobs, lost ones first.
fn by_loss(plan: &Plan) -> Vec<&AffectedJob> {
    let mut jobs: Vec<&AffectedJob> = plan.preview.jobs.iter().collect();
    sort::by_key(&mut jobs, |j| !matches!(j.restoration, Restoration::Lost(_)));
    jobs
}

/// Draws the jobs; returns the first one shown, and the maximum scroll position.
fn draw_jobs(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, plan: &Plan) -> (usize, usize) {
    let jobs = by_loss(plan);
    let headers = JobWidths::new(&jobs, plan).in_width(area.width).headers(plan);
    let visible = usize::from(area.height.saturating_sub(1));
    let last = jobs.len().saturating_sub(visible);
    let top = plan.scroll.top().min(last);
    let grid = Grid { headers: &headers, top, rows: jobs.len(), selected: None };
    grid.draw(buf, area, d.theme, |i| jobs.get(i).map(|j| row(j, d, plan)).unwrap_or_default());
    (top, last)
}

/// The widths of the columns of the jobs; each is as wide as its longest cell.
#[derive(Clone, Copy)]
struct JobWidths {
    id: u16,
    owner: u16,
    holds: u16,
    /// 0 if all jobs are lost for the same reason, which is shown above them.
    restoration: u16,
}

impl JobWidths {
    /// Width of the ages, and of the gaps between the columns.
    const AGE_WIDTH: u16 = 7;
    const GAPS: u16 = 4;

    fn new(jobs: &[&AffectedJob], plan: &Plan) -> Self {
        let widest = |width_of: &dyn Fn(&AffectedJob) -> usize, least: u16, most: u16| {
            let widest = jobs.iter().map(|j| width_of(j)).max().unwrap_or(0);
            u16::try_from(widest).unwrap_or(most).clamp(least, most)
        };
        let is_shared = lost_alike(plan).is_some();
        Self {
            id: widest(&|j| j.key.to_string().width(), 3, 80),
            owner: widest(&|j| j.owner_label().width(), 5, 13),
            holds: widest(&|j| j.holding().width(), 5, 40),
            restoration: if is_shared { 0 } else { widest(&|j| plan.restoration(j).width(), 10, 80) },
        }
    }

    /// The width of the table.
    const fn all(self) -> u16 {
        self.id + self.owner + Self::AGE_WIDTH + self.holds + self.restoration + Self::GAPS
    }

    /// The widths for a table of that width: if they do not fit, the ids are cut first, in their middle, then what
    /// happens to the jobs, then what they hold.
    fn in_width(mut self, width: u16) -> Self {
        const MIN_WIDTHS: (u16, u16, u16) = (20, 18, 9);
        const NARROW: (u16, u16, u16) = (9, 12, 5);
        let least = if width < 50 { NARROW } else { MIN_WIDTHS };
        let mut over = self.all().saturating_sub(width);
        for (column, least) in
            [(&mut self.id, least.0), (&mut self.restoration, least.1), (&mut self.holds, least.2)]
        {
            let less = over.min(column.saturating_sub(least));
            (*column, over) = (*column - less, over - less);
        }
        self
    }

    fn headers(self, plan: &Plan) -> Vec<ColumnHeader> {
        let Self { id, owner, holds, restoration } = self;
        let mut headers = vec![
            ColumnHeader::plain("JOB", Width::text(id, id, 0)),
            ColumnHeader::plain("OWNER", Width::text(owner, owner, 0)),
            ColumnHeader::plain("AGE", Width::number(Self::AGE_WIDTH, 1)),
            ColumnHeader::plain("HOLDS", Width::text(holds, holds, 2)),
        ];
        if lost_alike(plan).is_none() {
            let title = if plan.operation.kind().is_of_cluster() { "RESTORED" } else { "RUNS ON WORKER" };
            headers.push(ColumnHeader::plain(title, Width::rest(restoration, restoration, 0)));
        }
        headers
    }
}

fn row<'a>(job: &AffectedJob, d: &DrawContext<'_>, plan: &Plan) -> Vec<Cell<'a>> {
    let age = job.started.map_or_else(|| "?".to_owned(), |at| brief(at.age(d.now)));
    let ours = plan.preview.is_ours(job);
    let of_cluster = plan.operation.kind().is_of_cluster();
    let role = match &job.restoration {
        Restoration::Lost(_) if !of_cluster => Role::Warn,
        Restoration::Lost(_) => Role::Bad,
        Restoration::Back => Role::Good,
        Restoration::Unknown => Role::Dim,
    };
    let owner = if ours || plan.check != Check::Done { Role::Text } else { Role::Warn };
    vec![
        Cell::text(job.key.to_string()).named(),
        Cell::new(job.owner_label(), owner),
        Cell::text(age),
        Cell::text(job.holding()),
        Cell::new(plan.restoration(job), role),
    ]
}
