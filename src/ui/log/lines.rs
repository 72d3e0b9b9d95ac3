//! The lines in the window: their colors, search matches, and the columns next to them.

use crate::app::{Dated, LogView, Window, pieces};
use crate::logs::{Level, clock, level};
use crate::model::Line;
use crate::ui::grid::{cut, cut_middle};
use crate::ui::part::DrawContext;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::ops::Range;
use unicode_width::UnicodeWidthStr;

/// Replaces the name of a worker that is shown in the line above.
const SAME: &str = "┆ ";

/// A row of the window.
struct Row<'a> {
    /// Index of the line among the shown ones.
    index: usize,
    line: &'a Line,
    /// The part of the line that is in the row, in bytes.
    part: Range<usize>,
    /// The text before it.
    lead: &'static str,
    /// The count of hidden lines, shown in place of the first of them.
    count: Option<String>,
}

/// `13:58:14` if the line contains its time, `~13:58:14` if it is the time at which the line was received.
fn time(log: &LogView, index: usize, d: &DrawContext<'_>) -> String {
    match log.dated(index) {
        Some(Dated::Own(time)) => format!(" {}", clock(time, d.now)),
        Some(Dated::Came(time)) => format!("~{}", clock(time, d.now)),
        None => String::new(),
    }
}

/// Width of the time before a line: a mark, the time, and a blank.
pub const TIME_WIDTH: u16 = 10;

/// Maximum width of the name of a line's log, in a view of several logs.
const MAX_NAME_WIDTH: u16 = 32;

/// Width of the names of logs and a blank; 0 in a view of one log.
pub fn parts(log: &LogView, width: u16) -> u16 {
    let longest = log.logs().map(|(log, _)| log.name.width()).max().map(|longest| longest as u16 + 1);
    longest.unwrap_or(0).min(MAX_NAME_WIDTH).min(width / 3)
}

/// Draws the lines in the window, with their times and the names of their logs before them, in columns of these widths.
pub fn draw(buf: &mut Buffer, area: Rect, (times, parts): (u16, u16), d: &DrawContext<'_>, log: &LogView) {
    let size = Window { width: area.width.into(), height: area.height.into() };
    let rows = if log.wraps() { wrapped(log, size) } else { cut_off(log, size) };
    for (y, mut row) in (area.y..area.bottom()).zip(rows) {
        let (glyph, style) = match () {
            () if row.part.start > 0 && row.lead.is_empty() => ("", d.theme.dim),
            () if log.is_marked(row.index) => ("◆", d.theme.accent),
            () if log.is_at(row.index) => ("▸", d.theme.accent),
            () => ("", d.theme.dim),
        };
        let left = area.x - times - parts;
        if !glyph.is_empty() && left > 0 {
            buf.set_string(left - 1, y, glyph, style);
        }
        let begins = row.part.start == 0 || !row.lead.is_empty();
        if times > 0 && begins {
            let time = time(log, row.index, d);
            buf.set_stringn(left, y, time, usize::from(times), d.theme.dim);
        }
        if let Some((number, name)) = log.part(row.index).filter(|_| parts > 0 && begins) {
            let name = cut_middle(name, usize::from(parts) - 1);
            buf.set_stringn(area.x - parts, y, name, usize::from(parts) - 1, d.theme.hue(number));
        }
        if let Some(count) = row.count.take() {
            buf.set_stringn(area.x, y, count, area.width.into(), d.theme.dim);
            continue;
        }
        draw_row(buf, Rect { y, height: 1, ..area }, d, log, &row);
    }
}

/// One row per line, cut if it is too long. The name of a worker is shown once for its consecutive lines.
fn cut_off(log: &LogView, size: Window) -> Vec<Row<'_>> {
    let top = log.top(size);
    let mut above: Option<&str> = None;
    let row = |index: usize| {
        let line = log.line(index)?;
        let text = line.text();
        let named = above.and_then(|above| named_again(text, above));
        above = Some(text);
        let lead = if named.is_some() { SAME } else { "" };
        let count = log.folded(index);
        Some(Row { index, line, part: named.unwrap_or(0)..text.len(), lead, count })
    };
    (top..log.len().min(top + size.height)).map_while(row).collect()
}

/// Wraps long lines; when following, the end of the last one is at the bottom.
fn wrapped(log: &LogView, size: Window) -> Vec<Row<'_>> {
    let mut rows = Vec::with_capacity(size.height * 2);
    for index in log.top(size)..log.len() {
        let Some(line) = log.line(index) else { break };
        if let Some(count) = log.folded(index) {
            rows.push(Row { index, line, part: 0..0, lead: "", count: Some(count) });
            continue;
        }
        let mut at = 0;
        for piece in pieces(line.text(), size.width) {
            rows.push(Row { index, line, part: at..at + piece.len(), lead: "", count: None });
            at += piece.len();
        }
        if !log.follows() && rows.len() >= size.height {
            break;
        }
    }
    let above = if log.follows() { rows.len().saturating_sub(size.height) } else { 0 };
    rows.split_off(above)
}

fn draw_row(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, log: &LogView, row: &Row<'_>) {
    let text = row.line.text();
    let style = match level(text) {
        Some(Level::Error) => d.theme.bad,
        Some(Level::Warning) => d.theme.warn,
        Some(Level::Debug) => d.theme.dim,
        Some(Level::Info) | None => d.theme.text,
    };
    let lead = u16::try_from(row.lead.width()).unwrap_or(0).min(area.width);
    buf.set_stringn(area.x, area.y, row.lead, area.width.into(), d.theme.dim);
    let rest = Rect { x: area.x + lead, width: area.width - lead, ..area };
    let shown = cut(&text[row.part.clone()], rest.width.into());
    buf.set_stringn(rest.x, rest.y, &shown, rest.width.into(), style);
    for (range, style) in row.line.styles() {
        paint(buf, rest, row, range, d.theme.text_style(style));
    }
    let found = if log.is_at(row.index) { d.theme.found_here } else { d.theme.found };
    for range in log.search().pattern().matches_in(text) {
        paint(buf, rest, row, range, found);
    }
}

/// Applies a style to a range of the line, as far as it is in the row.
fn paint(buf: &mut Buffer, area: Rect, row: &Row<'_>, range: Range<usize>, style: Style) {
    let (from, to) = (range.start.max(row.part.start), range.end.min(row.part.end));
    if from >= to {
        return;
    }
    let text = row.line.text();
    let left = text[row.part.start..from].width();
    let right = (left + text[from..to].width()).min(area.width.into());
    for column in left..right {
        buf[(area.x + column as u16, area.y)].set_style(style);
    }
}

/// The position after the worker's name, if the line above is from the same worker: Ray puts about forty characters
/// before each line of a task, `(train_lm_task pid=4021, ip=10.128.3.55) ` (`print_worker_logs` in
/// `ray/_private/worker.py`).
fn named_again(line: &str, above: &str) -> Option<usize> {
    let end = line.starts_with('(').then(|| line.find(") "))?? + 2;
    (line[..end].contains("pid=") && above.starts_with(&line[..end])).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_named_once_for_its_lines() {
        let line = "(train pid=7, ip=10.0.0.1) step 2 (of 9) done";
        let rest = named_again(line, "(train pid=7, ip=10.0.0.1) step 1").map(|at| &line[at..]);
        assert_eq!(rest, Some("step 2 (of 9) done"));
        assert_eq!(named_again(line, "(train pid=8, ip=10.0.0.1) step 1"), None);
        assert_eq!(named_again("(sum) of 3", "(sum) of 2"), None);
        assert_eq!(named_again("(pid=", "(pid="), None);
    }
}
