//! A details page: labels next to texts, long texts over several lines.

use super::frame::{Title, more_around, pane};
use super::grid::put;
use super::part::DrawContext;
use super::sentence;
use super::text::{self, Line, lay_out};
use super::theme::Theme;
use crate::app::text::describe::{BROKEN, WARNS};
use crate::app::text::details;
use crate::app::{Area, Areas, Details, Filter};
use crate::model::text::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Maximum width of the labels, because the texts matter more.
const MAX_LABEL_WIDTH: usize = 16;

/// Draws the page; records the area of its lines.
pub fn draw(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, page: &Details, areas: &mut Areas) {
    let (title, rows) = details::lines(&d.app.cell_context(d.now), page);
    let shown = Filter::of_lines(&page.filter, &rows);
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
    let top = page.scroll.top().min(last);
    more_around(buf, area, d.theme, (top, last - top), "");
    let styles = styles(&lines, label_width, d.theme);
    for (y, (line, style)) in (inner.y..inner.bottom()).zip(lines.iter().zip(styles).skip(top)) {
        let (label, text) = label_and_text(line, label_width, Rect { y, height: 1, ..inner });
        let label_style = if line.text.is_empty() { d.theme.heading } else { d.theme.dim };
        put(buf, label.x, y, label.width, false, &line.label, label_style);
        if is_hint(&shown[line.row].0) {
            sentence::put(buf, (text.x, y), text.width, &line.text, style, d.theme);
        } else {
            put(buf, text.x, y, text.width, false, &line.text, style);
        }
    }
    areas.details = Some(Area { x: inner.x, y: inner.y, width: inner.width, height: inner.height });
    areas.details_last = last;
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
