//! The log pane: the visible lines of the ring, and a title with the log's source and state.

use super::frame::{Title, inside, pane};
use super::grid::{cut, cut_middle};
use super::part::{Draw, Shown};
use super::text::wrap;
use crate::app::{Area, Cluster, LogView, Pane, Window, pieces};
use crate::model::{Line, LogEnd, LogSource};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// Cells in the title: of the search text at most, and of the log's name at least.
const SOUGHT: usize = 20;
const SHORTEST: usize = 6;

/// Draws it; returns where the lines are.
pub fn draw(buf: &mut Buffer, area: Rect, d: &Draw<'_>, (cluster, page): Shown<'_>, is_alone: bool) -> Area {
    let log = &page.log;
    let inner = inside(area);
    let mut note = note(cluster, log).map_or_else(Vec::new, |note| wrap(&note, inner.width.into()));
    note.truncate(NOTE.min(usize::from(inner.height)));
    let height = inner.height.saturating_sub(note.len() as u16);
    let body = Rect { height, ..inner };
    let size = Window { width: body.width.into(), height: height.into() };
    let (state, tone) = state(log, size, d);
    let title = title(log, usize::from(area.width).saturating_sub(state.width() + 9));
    let focused = is_alone || d.is_focused(Pane::Log);
    pane(buf, area, d.theme, &Title { left: title.trim_end(), right: &state, tone: Some(tone), focused });
    if log.is_empty() {
        let hint = if log.source().is_some() {
            "no line yet"
        } else {
            "no log open: select a job, a node or the autoscaler and open its log"
        };
        for (y, line) in (body.y..body.bottom()).zip(wrap(hint, body.width.into())) {
            buf.set_stringn(body.x, y, line, body.width.into(), d.theme.dim);
        }
    } else if log.wraps() {
        wrapped(buf, body, d, log, size);
    } else {
        let top = log.top(size);
        for (y, i) in (body.y..body.bottom()).zip(top..log.len()) {
            let line = log.line(i).map_or("", Line::text);
            let style = style(i, log, d);
            let above = i.checked_sub(1).filter(|_| y > body.y).and_then(|i| log.line(i)).map(Line::text);
            let (left, shown) = match told_again(line, above) {
                Some(rest) => {
                    buf.set_stringn(body.x, y, SAME, body.width.into(), d.theme.dim);
                    (SAME.width() as u16, rest)
                }
                None => (0, line),
            };
            let (x, width) = (body.x + left, body.width.saturating_sub(left));
            write(buf, x, y, width, shown, style);
            mark(buf, (x, y), width, shown, (i, log), d);
        }
    }
    for (y, line) in (body.bottom()..inner.bottom()).zip(note) {
        buf.set_stringn(inner.x, y, line, inner.width.into(), d.theme.warn);
    }
    Area { x: body.x, y: body.y, width: body.width, height: body.height }
}

/// The log's name and the search, in that many cells: the name is cut first, in its middle.
fn title(log: &LogView, width: usize) -> String {
    let found = match log.search().text() {
        "" => String::new(),
        sought => {
            let sought = cut(sought, SOUGHT);
            match log.match_place() {
                Some(place) => format!("  /{sought} {place} of {}", log.search().len()),
                None => format!("  /{sought} {} found", log.search().len()),
            }
        }
    };
    let name = source(log.source());
    let room = width.saturating_sub("3 Log ".len() + found.width()).max(SHORTEST);
    format!("3 Log {}{found}", cut_middle(&name, room))
}

/// Long lines over several rows; when following, the end of the last one is at the bottom.
fn wrapped(buf: &mut Buffer, area: Rect, d: &Draw<'_>, log: &LogView, size: Window) {
    let mut rows: Vec<(&str, usize, Style)> = Vec::with_capacity(size.height * 2);
    for i in log.top(size)..log.len() {
        let line = log.line(i).map_or("", Line::text);
        let style = style(i, log, d);
        rows.extend(pieces(line, size.width).map(|p| (p, i, style)));
        if !log.follows() && rows.len() >= size.height {
            break;
        }
    }
    let from = if log.follows() { rows.len().saturating_sub(size.height) } else { 0 };
    for (y, (text, i, style)) in (area.y..area.bottom()).zip(rows.into_iter().skip(from)) {
        buf.set_stringn(area.x, y, text, area.width.into(), style);
        mark(buf, (area.x, y), area.width, text, (i, log), d);
    }
}

/// Colours what the search matches in a line that was written at a place; the current match in a colour of its own.
fn mark(
    buf: &mut Buffer,
    (x, y): (u16, u16),
    width: u16,
    text: &str,
    (index, log): (usize, &LogView),
    d: &Draw<'_>,
) {
    let style = if log.is_at(index) { d.theme.found_here } else { d.theme.found };
    for found in log.search().matches_in(text) {
        let left = text[..found.start].width();
        let right = (left + text[found].width()).min(width.into());
        for column in left..right {
            buf[(x + column as u16, y)].set_style(style);
        }
    }
}

fn write(buf: &mut Buffer, x: u16, y: u16, width: u16, line: &str, style: Style) {
    let text = cut(line, width.into());
    buf.set_stringn(x, y, &text, width.into(), style);
}

/// Rows that a note has at most.
const NOTE: usize = 3;

/// Replaces a worker's name that the line above shows already.
const SAME: &str = "┆ ";

/// The line without the worker that wrote it, if the line above is the same worker's: Ray puts some forty cells
/// before every line of a task, `(train_lm_task pid=4021, ip=10.128.3.55) ` (`print_worker_logs` in
/// `ray/_private/worker.py`).
fn told_again<'a>(line: &'a str, above: Option<&str>) -> Option<&'a str> {
    let worker = &line[..worker(line)?];
    above?.starts_with(worker).then(|| &line[worker.len()..])
}

/// Where the worker's name ends, with the blank after it.
fn worker(line: &str) -> Option<usize> {
    let end = line.starts_with('(').then(|| line.find(") "))?? + 2;
    line[..end].contains(" pid=").then_some(end)
}

/// The style of a line: a log level by its usual words.
fn style(index: usize, log: &LogView, d: &Draw<'_>) -> Style {
    let line = log.line(index).map_or("", Line::text);
    // Long lines are judged by their beginning, where loggers put the level.
    let head = line.char_indices().nth(120).map_or(line, |(i, _)| &line[..i]);
    let says = |words: [&str; 3]| words.iter().any(|w| head.contains(w));
    match () {
        () if says(["ERROR", "Traceback", "CRITICAL"]) => d.theme.bad,
        () if says(["WARN", "Warning", "warning:"]) => d.theme.warn,
        () => d.theme.text,
    }
}

fn source(source: Option<&LogSource>) -> String {
    match source {
        None => String::new(),
        Some(LogSource::Job(id)) => id.to_string(),
        Some(LogSource::Monitor(name)) => crate::model::text::printable(name).into_owned(),
        Some(LogSource::File { node, name }) => {
            let id = node.to_string();
            format!("{name} {}", &id[..8])
        }
    }
}

fn state(log: &LogView, size: Window, d: &Draw<'_>) -> (String, Style) {
    match (log.end(), log.follows()) {
        _ if log.source().is_none() => (String::new(), d.theme.dim),
        (LogEnd::Failed(_), _) => ("FAILED".into(), d.theme.bad),
        (LogEnd::Interrupted(_), _) => ("INTERRUPTED".into(), d.theme.warn),
        (_, false) => (format!("{} below", log.below(size)), d.theme.dim),
        (LogEnd::Complete, true) => ("COMPLETE".into(), d.theme.dim),
        (LogEnd::Open, true) => ("FOLLOW".into(), d.theme.good),
    }
}

/// Why the log has ended or is interrupted.
fn note(cluster: &Cluster, log: &LogView) -> Option<String> {
    match log.end() {
        LogEnd::Interrupted(_) | LogEnd::Failed(_)
            if let Some(LogSource::Job(id)) = log.source()
                && let Some(why) = cluster.why_lost(id) =>
        {
            Some(why)
        }
        LogEnd::Interrupted(why) | LogEnd::Failed(why) => {
            Some(crate::model::text::printable(why).into_owned())
        }
        LogEnd::Open | LogEnd::Complete => None,
    }
}

/// The pane's status in a few words, for the tabs.
pub fn summary(log: &LogView, d: &Draw<'_>) -> String {
    let name = source(log.source());
    let name = cut_middle(&name, 18).into_owned();
    let (state, _) = state(log, log.size(), d);
    [name, state.to_lowercase()].into_iter().filter(|s| s.width() > 0).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_named_once_for_its_lines() {
        let line = "(train pid=7, ip=10.0.0.1) step 2 (of 9) done";
        assert_eq!(told_again(line, Some("(train pid=7, ip=10.0.0.1) step 1")), Some("step 2 (of 9) done"));
        assert_eq!(told_again(line, Some("(train pid=8, ip=10.0.0.1) step 1")), None);
        assert_eq!(told_again(line, None), None);
        assert_eq!(told_again("(sum) of 3", Some("(sum) of 2")), None);
        assert_eq!(told_again("(pid=", Some("(pid=")), None);
    }
}
