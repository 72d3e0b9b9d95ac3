//! A details page: labels next to texts, long texts over several lines.

use super::frame::{Title, more_around, pane};
use super::grid::put;
use super::part::DrawContext;
use super::sentence;
use super::text::{self, Line, lay_out};
use crate::app::text::describe::{BROKEN, WARNS};
use crate::app::text::details;
use crate::app::{Area, Areas, Details, Filter};
use crate::model::text::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

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
    let (lines, label) = lay_out(&shown, inner.width.into(), MAX_LABEL_WIDTH, wrap);
    let last = lines.len().saturating_sub(inner.height.into());
    let top = page.scroll.top().min(last);
    more_around(buf, area, d.theme, (top, last - top), "");
    // A continued line has the style of the previous one.
    let indent = " ".repeat(label + 2);
    let mut style = d.theme.text;
    let styles: Vec<_> = lines
        .iter()
        .map(|Line { label: name, text, .. }| {
            style = match () {
                () if text.starts_with(BROKEN) => d.theme.bad,
                () if text.starts_with(WARNS) => d.theme.warn,
                () if name.is_empty() && text.starts_with(&indent) => style,
                () => d.theme.text,
            };
            style
        })
        .collect();
    for (y, (Line { row, label: name, text }, style)) in
        (inner.y..inner.bottom()).zip(lines.iter().zip(styles).skip(top))
    {
        let shift = if label > 0 && !name.is_empty() { u16::try_from(label + 2).unwrap_or(0) } else { 0 };
        let room = if text.is_empty() { inner.width } else { u16::try_from(label).unwrap_or(0) };
        let label = if text.is_empty() { d.theme.heading } else { d.theme.dim };
        put(buf, inner.x, y, room, false, name, label);
        let (at, width) = (inner.x + shift, inner.width.saturating_sub(shift));
        if is_hint(&shown[*row].0) {
            sentence::put(buf, (at, y), width, text, style, d.theme);
        } else {
            put(buf, at, y, width, false, text, style);
        }
    }
    areas.details = Some(Area { x: inner.x, y: inner.y, width: inner.width, height: inner.height });
    areas.details_last = last;
}
