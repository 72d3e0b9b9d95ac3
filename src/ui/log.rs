//! The log pane: the lines in the window, a scroll bar, and a title with the log's source and state.

mod bar;
mod lines;
mod progress;
mod strip;

use super::frame::{Title, inside, pane};
use super::grid::{cut, cut_middle};
use super::part::{DrawContext, Shown, split_bottom, split_top};
use super::text::wrap;
use crate::app::text::labels;
use crate::app::{Action, Area, Cluster, LogView, Older, Pane, Window, could_serve};
use crate::logs::{Level, clock};
use crate::model::amount::{bytes, counted, grouped};
use crate::model::sort;
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{JobKey, LogEnd, LogSource};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// Maximum width of the search text in the title, and minimum width of the log's name.
const MAX_PATTERN_WIDTH: usize = 20;
const MIN_NAME_WIDTH: usize = 6;

/// The label of the pane next to others, with the key that focuses it; a page of its own has no such key.
const NUMBERED: &str = "3 Log";

/// Below this number of rows there is no room for anything next to lines, or for the histogram.
const LOW: u16 = 5;
const MIDDLE: u16 = 9;

/// Draws the pane; returns the area of the lines.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    (cluster, page): Shown<'_>,
    is_alone: bool,
) -> Area {
    let log = &page.log;
    let inner = inside(area);
    let mut note = note(cluster, log).map_or_else(Vec::new, |note| wrap(&note, inner.width.into()));
    note.truncate(MAX_NOTE_ROWS.min(usize::from(inner.height)));
    let (below, body) = split_bottom(inner, note.len() as u16);
    let has_progress = log.progress().is_some() && body.height > LOW;
    let (progress, body) = split_bottom(body, u16::from(has_progress));
    let has_strip = log.shows().histogram && body.height >= MIDDLE;
    let (strip, body) = split_top(body, if has_strip { strip::HEIGHT } else { 0 });
    let times = if log.shows().times { lines::TIME_WIDTH.min(body.width / 2) } else { 0 };
    let parts = lines::parts(log, body.width - times);
    let left = times + parts;
    let body = Rect { x: body.x + left, width: body.width - left, ..body };
    let size = Window { width: body.width.into(), height: body.height.into() };
    let (state, tone) = state(log, size, d);
    let silent = silent(cluster, log, d);
    let state = [silent.clone(), Some(state)].into_iter().flatten().filter(|word| !word.is_empty());
    let state = state.collect::<Vec<_>>().join(", ");
    // The word is dropped in favor of the log's name.
    let beside = |state: &str| usize::from(area.width).saturating_sub(state.width() + 9);
    let label = if is_alone { "Log" } else { NUMBERED };
    let is_tight = title(label, cluster, log, d, usize::MAX).width() > beside(&state);
    let state = if is_tight { state.replace(" lines below", " below") } else { state };
    let title = title(label, cluster, log, d, beside(&state));
    let focused = is_alone || d.is_focused(Pane::Log);
    pane(buf, area, d.theme, &Title { left: title.trim_end(), right: &state, tone: Some(tone), focused });
    highlight_silence(buf, area, d, (&state, silent.as_deref()));
    if log.is_empty() {
        let waits = waits(cluster, log, d);
        let lines = std::iter::once(nothing(log, d)).chain(waits).collect::<Vec<_>>();
        let lines = lines.iter().flat_map(|text| wrap(text, body.width.into()));
        for (y, line) in (body.y..body.bottom()).zip(lines) {
            buf.set_stringn(body.x, y, line, body.width.into(), d.theme.dim);
        }
    } else {
        lines::draw(buf, body, (times, parts), d, log);
        bar::draw(buf, area, body, d, log);
    }
    strip::draw(buf, strip, d, log);
    progress::draw(buf, progress, d, log);
    for (y, line) in (below.y..below.bottom()).zip(note) {
        buf.set_stringn(inner.x, y, line, inner.width.into(), d.theme.warn);
    }
    Area { x: body.x, y: body.y, width: body.width, height: body.height }
}

/// Why no line is shown.
fn nothing(log: &LogView, d: &DrawContext<'_>) -> String {
    let hint = match log.since() {
        Some(since) if log.loaded() > 0 => {
            return format!(
                "no lines since {}; press {} for more",
                clock(since.time, d.now),
                d.app.keymap().key_of(Action::Since)
            );
        }
        _ if log.loaded() > 0 => "no lines match the filter",
        _ if log.is_open() => "no lines yet",
        _ => "no log open: select a job, a node or the autoscaler and open its log",
    };
    hint.to_owned()
}

/// What the job of a log waits for, and what could serve it, as the reason why there are no lines.
fn waits(cluster: &Cluster, log: &LogView, d: &DrawContext<'_>) -> Vec<String> {
    let Some(LogSource::Job(id)) = log.source().filter(|_| log.loaded() == 0) else { return Vec::new() };
    let Some(job) = cluster.job(&JobKey::Submission(id.clone())) else { return Vec::new() };
    let vitals = cluster.vitals.jobs.get(&job.key).filter(|vitals| vitals.is_waiting());
    let why = cluster.pending.get(&job.key).map(|why| why.text.clone());
    let why = why.or_else(|| vitals.map(|vitals| vitals.text(d.now)));
    let mut lines: Vec<String> = why.into_iter().map(|why| format!("the job {why}")).collect();
    lines.extend(could_serve(job, cluster));
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

/// How long nothing has been written to an open log; `None` if it is the log of a job that has ended.
fn silent(cluster: &Cluster, log: &LogView, d: &DrawContext<'_>) -> Option<String> {
    if let Some(LogSource::Job(id)) = log.source()
        && cluster.job(&JobKey::Submission(id.clone())).is_some_and(|job| job.status.is_ended())
    {
        return None;
    }
    Some(format!("silent for {}", brief(log.silent(d.now)?)))
}

/// Highlights the text about silence at the beginning of the state in the title as a warning.
fn highlight_silence(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    (state, silent): (&str, Option<&str>),
) {
    let width = |text: &str| u16::try_from(text.width()).unwrap_or(u16::MAX);
    let from = area.right().saturating_sub(width(state).saturating_add(3));
    if let Some(silent) = silent.filter(|_| from > area.x + 2) {
        buf.set_style(Rect { x: from, y: area.y, width: width(silent), height: 1 }, d.theme.warn);
    }
}

/// The label, the log's name, the search and the filter in that many cells: the name is cut first, in its middle.
fn title(label: &str, cluster: &Cluster, log: &LogView, d: &DrawContext<'_>, width: usize) -> String {
    let raw = if log.shows().raw { "  raw" } else { "" };
    let narrowed = format!("{}{}{}{raw}", search(log), filter(log), since(log, d));
    let name = name(cluster, log);
    let room = width.saturating_sub(label.width() + 1 + narrowed.width()).max(MIN_NAME_WIDTH);
    format!("{label} {}{narrowed}", cut_middle(&name, room))
}

/// `/loss 3 of 35`: the pattern, and the number of matches.
fn search(log: &LogView) -> String {
    let sought = log.search().pattern().text();
    if sought.is_empty() {
        return String::new();
    }
    let (sought, count) = (printable(sought), log.search().found().len());
    let sought = cut(&sought, MAX_PATTERN_WIDTH);
    match log.match_number() {
        Some(number) => format!("  /{sought} {} of {}", grouped(number), grouped(count)),
        None if log.is_examining() => format!("  /{sought} {} so far", grouped(count)),
        None => format!("  /{sought} {} found", grouped(count)),
    }
}

/// `&loss errors ±2, 35 of 5000 lines`: the lines that are shown, with that many around each.
fn filter(log: &LogView) -> String {
    let line_filter = log.line_filter();
    if !line_filter.is_filtered() {
        return String::new();
    }
    let text = printable(line_filter.text());
    let levels =
        line_filter.least().map(|least| if least == Level::Error { "errors" } else { "warnings and errors" });
    let text = Some(cut(&text, MAX_PATTERN_WIDTH).into_owned()).filter(|text| !text.is_empty());
    let what = text.into_iter().chain(levels.map(str::to_owned)).collect::<Vec<_>>().join(" ");
    let around =
        if line_filter.around() == 0 { String::new() } else { format!(" ±{}", line_filter.around()) };
    format!("  &{what}{around}, {} of {} lines", grouped(log.len()), grouped(log.loaded()))
}

/// `since 13:05:00 (5m)`: the time since which lines are shown.
fn since(log: &LogView, d: &DrawContext<'_>) -> String {
    log.since().map_or_else(String::new, |since| {
        format!("  since {} ({})", clock(since.time, d.now), brief(since.span))
    })
}

/// Maximum number of rows of a note.
const MAX_NOTE_ROWS: usize = 3;

/// The name of the log, or the number of open logs and of their clusters.
fn name(cluster: &Cluster, log: &LogView) -> String {
    match log.source() {
        None => {
            let clusters = sort::distinct(log.logs().map(|(log, _)| &log.cluster));
            match (log.logs().count(), clusters.len()) {
                (0, _) => String::new(),
                (logs, 1) => counted(logs, "log"),
                (logs, clusters) => format!("{} of {}", counted(logs, "log"), counted(clusters, "cluster")),
            }
        }
        Some(LogSource::Job(id)) => id.to_string(),
        Some(LogSource::Monitor(name)) => printable(name).into_owned(),
        Some(LogSource::File { node, name }) => labels::log_file_in_full(cluster, node, name),
    }
}

fn state(log: &LogView, size: Window, d: &DrawContext<'_>) -> (String, Style) {
    match (log.end(), log.follows()) {
        _ if !log.is_open() => (String::new(), d.theme.dim),
        (LogEnd::Failed(_), _) => ("FAILED".into(), d.theme.bad),
        (LogEnd::Interrupted(_), _) => ("INTERRUPTED".into(), d.theme.warn),
        (_, false) => {
            let below = log.below(size);
            let more = if log.is_cut() { "+" } else { "" };
            let below = match (below, log.end()) {
                (0, LogEnd::Complete) if more.is_empty() => "COMPLETE".to_owned(),
                (0, _) if more.is_empty() => "not following".to_owned(),
                (1, _) if more.is_empty() => "1 line below".to_owned(),
                _ => format!("{}{more} lines below", grouped(below)),
            };
            // Loaded lines above the window mean that it does not show the beginning.
            let is_shown = log.since().is_none() && (log.above() != Some(0) || log.top(size) == 0);
            let words = [above(log).filter(|_| is_shown), Some(below)];
            (words.into_iter().flatten().collect::<Vec<_>>().join(", "), d.theme.dim)
        }
        (LogEnd::Complete, true) => ("COMPLETE".into(), d.theme.dim),
        (LogEnd::Open, true) => ("FOLLOW".into(), d.theme.good),
    }
}

/// How much of the log is above the loaded lines.
fn above(log: &LogView) -> Option<String> {
    match (log.older(), log.above()) {
        (Older::Requested(_), _) => Some("reading older lines".to_owned()),
        (_, Some(0)) => Some("from the beginning".to_owned()),
        (_, Some(n)) => Some(format!("{} above", bytes(n as f64))),
        (_, None) => log.is_placed().then(|| "more above".to_owned()),
    }
}

/// Why the log has ended or is interrupted, or its older lines cannot be read.
fn note(cluster: &Cluster, log: &LogView) -> Option<String> {
    match log.end() {
        LogEnd::Interrupted(_) | LogEnd::Failed(_)
            if let Some(LogSource::Job(id)) = log.source()
                && let Some(why) = cluster.why_lost(id) =>
        {
            Some(why)
        }
        LogEnd::Interrupted(why) | LogEnd::Failed(why) => Some(printable(why).into_owned()),
        LogEnd::Open | LogEnd::Complete => match log.older() {
            Older::Failed(why) if log.top(log.size()) == 0 => {
                let why = printable(why);
                Some(format!("older lines cannot be read: {why}; scroll up to try again"))
            }
            Older::Failed(_) | Older::Requested(_) | Older::NotRequested => None,
        },
    }
}

/// The pane's status in a few words, for the tabs.
pub fn summary(cluster: &Cluster, log: &LogView, d: &DrawContext<'_>) -> String {
    let name = name(cluster, log);
    let name = cut_middle(&name, 18).into_owned();
    let (state, _) = state(log, log.size(), d);
    [name, state.to_lowercase()].into_iter().filter(|s| s.width() > 0).collect::<Vec<_>>().join(" ")
}
