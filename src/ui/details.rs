//! A details page: labels next to texts, long texts over several lines.

use super::frame::{Title, more_around, pane};
use super::grid::put;
use super::part::DrawContext;
use super::sentence;
use super::text::{self, Line, lay_out};
use super::theme::Theme;
use crate::app::text::describe::{BROKEN, WARNS};
use crate::app::text::details;
use crate::app::{Area, Areas, Details, DrawnRows, Filter, Sections, StackRow};
use crate::model::text::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::ops::Range;

/// Maximum width of the labels, because the texts matter more.
const MAX_LABEL_WIDTH: usize = 16;

/// Draws the page; records the area of its lines.
pub fn draw(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, page: &Details, areas: &mut Areas) {
    let (title, rows, selectable) = details::with_rows(&d.app.cell_context(d.now), page);
    let numbers = Filter::numbers_of_lines(&page.filter, &rows);
    let shown: Vec<&(String, String)> = numbers.iter().map(|number| &rows[*number]).collect();
    let filter = match page.filter.as_str() {
        "" => String::new(),
        filter => format!("/{}  {} of {}", printable(filter), shown.len(), rows.len()),
    };
    let inner = pane(buf, area, d.theme, &Title { left: title, right: &filter, tone: None, focused: true });
    // Other texts come from jobs and machines, and are shown unchanged.
    let is_hint = |label: &str| label == "hint";
    let wrap = |label: &str, text: &str, width| {
        if is_hint(label) { sentence::wrap(text, width) } else { text::wrap(text, width) }
    };
    let (lines, label_width) = lay_out(&shown, inner.width.into(), MAX_LABEL_WIDTH, wrap);
    let last = lines.len().saturating_sub(inner.height.into());
    let drawn = drawn_rows(page, selectable, |line| numbers[lines[line].row], (lines.len(), inner.height));
    let top = drawn.as_ref().map_or(page.scroll.top().min(last), |drawn| drawn.top);
    more_around(buf, area, d.theme, (top, last - top), "");
    let styles = styles(&lines, label_width, d.theme);
    let selected = drawn.as_ref().and_then(|drawn| Some(lines.get(drawn.line?)?.row));
    for (y, (line, style)) in (inner.y..inner.bottom()).zip(lines.iter().zip(styles).skip(top)) {
        let whole = Rect { y, height: 1, ..inner };
        let (label, text) = label_and_text(line, label_width, whole);
        let label_style = if line.text.is_empty() { d.theme.heading } else { d.theme.dim };
        let (label_style, style) = if selected == Some(line.row) {
            buf.set_style(whole, d.theme.selected);
            (d.theme.selected, d.theme.selected)
        } else {
            (label_style, style)
        };
        put(buf, label.x, y, label.width, false, &line.label, label_style);
        if is_hint(&shown[line.row].0) {
            sentence::put(buf, (text.x, y), text.width, &line.text, style, d.theme);
        } else {
            put(buf, text.x, y, text.width, false, &line.text, style);
        }
    }
    areas.details = Some(Area { x: inner.x, y: inner.y, width: inner.width, height: inner.height });
    areas.details_last = last;
    areas.details_rows = drawn;
}

/// Where the rows that can be selected begin, and which is selected; `None` if none is shown. `number_of` is the number
/// of the row of text that a line shows.
fn drawn_rows(
    page: &Details,
    rows: Vec<(StackRow, Range<usize>)>,
    number_of: impl Fn(usize) -> usize,
    (count, height): (usize, u16),
) -> Option<DrawnRows> {
    let numbers: Vec<usize> = (0..count).map(number_of).collect();
    let line_of = |number: usize| numbers.partition_point(|shown| *shown < number);
    let lines = |row: &Range<usize>| line_of(row.start)..line_of(row.end);
    let placed = rows.into_iter().map(|(row, numbers)| (row, lines(&numbers)));
    let (rows, lines): (Vec<StackRow>, Vec<Range<usize>>) =
        placed.filter(|(_, lines)| !lines.is_empty()).unzip();
    let selected = page.selected_among(&rows)?;
    let sections = Sections::new(&lines, count, height.into())?;
    let before = page.scroll.top();
    let top = if page.cursor.is_drawn() {
        sections.follow(selected, before)
    } else {
        sections.reveal(selected, before)
    };
    let line = lines[selected].start.max(top);
    let line = (line < lines[selected].end.min(top + usize::from(height))).then_some(line);
    Some(DrawnRows { rows, sections, selected, top, line })
}

/// The parts of a row of the screen that the label and the text of a line take. A label without a text takes the whole
/// row; the text of a continuation line contains its indentation.
pub fn label_and_text(line: &Line, label_width: usize, row: Rect) -> (Rect, Rect) {
    let is_beside = label_width > 0 && !line.label.is_empty();
    let shift = if is_beside { u16::try_from(label_width + 2).unwrap_or(0) } else { 0 };
    let room = if line.text.is_empty() { row.width } else { u16::try_from(label_width).unwrap_or(0) };
    let text = Rect { x: row.x + shift, width: row.width.saturating_sub(shift), ..row };
    (Rect { width: room, ..row }, text)
}

/// The style of each text; a continuation line has that of the line before.
fn styles(lines: &[Line], label_width: usize, theme: &Theme) -> Vec<Style> {
    let indent = " ".repeat(label_width + 2);
    let mut style = theme.text;
    let next = |line: &Line| {
        style = match () {
            () if line.text.starts_with(BROKEN) => theme.bad,
            () if line.text.starts_with(WARNS) => theme.warn,
            () if line.label.is_empty() && line.text.starts_with(&indent) => style,
            () => theme.text,
        };
        style
    };
    lines.iter().map(next).collect()
}
