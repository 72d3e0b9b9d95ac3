//! The form that submits a job.

use super::buttons::buttons;
use super::frame::{Title, clear, dialog_width, middle, more_around, pane};
use super::grid::put;
use super::line;
use super::part::DrawContext;
use super::sentence::{self, wrap};
use crate::app::job::form::{Form, Row};
use crate::app::{Action, Area, Areas, Rows};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Maximum width.
const MAX_WIDTH: u16 = 100;
/// Width of the labels.
const LABEL_WIDTH: u16 = 15;

/// Draws it; returns the position of the cursor if a row has the focus.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    form: &Form,
    areas: &mut Areas,
) -> Option<(u16, u16)> {
    let width = dialog_width(area, MAX_WIDTH);
    let inside = usize::from(width.saturating_sub(4)).max(1);
    let words = words(form, d, inside);
    let rows = u16::try_from(form.rows.len()).unwrap_or(u16::MAX);
    // Rows are hidden in favor of the text below them, because they scroll with the focus: down to three, or to one in
    // a small window.
    let most = area.height.saturating_sub(8).max(area.height.saturating_sub(4).min(4));
    let text_height = u16::try_from(words.len()).unwrap_or(most).min(most);
    let frame = middle(area, width, rows.saturating_add(text_height + 5));
    clear(buf, frame);
    let left = match &form.like {
        Some(id) => format!("Resubmit {id}"),
        None => "Submit job".to_owned(),
    };
    let cluster = form.cluster.to_string();
    let inner = pane(buf, frame, d.theme, &Title { left: &left, right: &cluster, tone: None, focused: true });
    areas.dialog = Some(Area { x: frame.x, y: frame.y, width: frame.width, height: frame.height });
    let (upper, lower) = parts(inner, rows, text_height);
    let at = u16::try_from(form.at).unwrap_or(u16::MAX).min(rows.saturating_sub(1));
    let top = usize::from(at.saturating_sub(upper.height.saturating_sub(1)));
    let rect = Area { x: upper.x, y: upper.y, width: upper.width, height: upper.height };
    areas.dialog_rows = Some(Rows { area: rect, first: top, all: form.rows.len() });
    let mut cursor = None;
    for (y, (i, row)) in (upper.y..upper.bottom()).zip(form.rows.iter().enumerate().skip(top)) {
        cursor = cursor.or(draw_row(buf, Rect { y, height: 1, ..upper }, d, row, i == form.at));
    }
    let last = words.len().saturating_sub(text_height.into());
    let first = form.scroll.top().min(last);
    (areas.dialog_top, areas.dialog_last) = (first, last);
    if last > 0 {
        more_around(buf, frame, d.theme, (first, last - first), "lines ");
    } else {
        let hidden = (top, usize::from(rows.saturating_sub(upper.height)).saturating_sub(top));
        more_around(buf, frame, d.theme, hidden, if hidden.0 + hidden.1 == 1 { "field " } else { "fields " });
    }
    for (y, (line, tone)) in (lower.y..lower.bottom()).zip(words.iter().skip(first)) {
        sentence::put(buf, (lower.x, y), lower.width, line, *tone, d.theme);
    }
    if inner.height > 0 {
        areas.buttons = Some(buttons(buf, inner, d, "Submit", form.button()));
    }
    cursor
}

/// The areas of the rows and of the text below them; the buttons are in the last line. If there is room, blank lines
/// separate the text from both.
fn parts(inner: Rect, rows: u16, text_height: u16) -> (Rect, Rect) {
    let room = inner.height.saturating_sub(text_height + 1);
    let blank = room.saturating_sub(1).min(2);
    let visible = (room - blank).min(rows);
    let y = inner.y + visible + u16::from(blank > 0);
    let height = inner.bottom().saturating_sub(1).saturating_sub(y);
    (Rect { height: visible, ..inner }, Rect { y, height, ..inner })
}

/// Draws a row; returns the position of the cursor if the row has the focus.
fn draw_row(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    row: &Row,
    is_focused: bool,
) -> Option<(u16, u16)> {
    let label = if is_focused { d.theme.accent } else { d.theme.dim };
    put(buf, area.x, area.y, LABEL_WIDTH, false, row.field.label(), label);
    let room = area.width.saturating_sub(LABEL_WIDTH + 1);
    let field = Rect { x: area.x + LABEL_WIDTH, width: room + 1, ..area };
    let shown = row.shown();
    let cursor = if is_focused {
        let style = d.theme.text.patch(d.theme.marked);
        Some((line::draw(buf, field, &shown, row.line.cursor(), style), area.y))
    } else {
        put(buf, field.x, field.y, field.width, false, &shown, d.theme.text);
        None
    };
    line::mark_field(buf, field);
    cursor
}

/// The warning of a form that Esc would discard typed text.
pub fn discard_warning(d: &DrawContext<'_>) -> String {
    format!("press {} again to discard what was typed", d.app.keymap().key_of(Action::Back))
}

/// The text below the rows: what is in progress, the warning about Esc, why the submission failed, or a hint for the
/// focused row.
fn words(form: &Form, d: &DrawContext<'_>, width: usize) -> Vec<(String, Style)> {
    let hint = || form.rows.get(form.at).map_or("", |row| row.field.hint());
    let mut words = Vec::new();
    if let Some(in_progress) = &form.in_progress {
        words.push((format!("◌ {in_progress}"), d.theme.dim));
    } else {
        words.extend(form.is_warning().then(|| (discard_warning(d), d.theme.warn)));
        let why = crate::model::text::printable(&form.problem);
        words.extend((!why.is_empty()).then(|| (format!("✕ not submitted: {why}"), d.theme.bad)));
        words.extend(words.is_empty().then(|| (hint().to_owned(), d.theme.dim)));
    }
    words.iter().flat_map(|(text, tone)| wrap(text, width).into_iter().map(|line| (line, *tone))).collect()
}
