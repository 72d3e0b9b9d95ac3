//! Dialogs: a question with two buttons, or a text.

use super::buttons::buttons;
use super::frame::{Title, clear, dialog_width, middle, more_around, pane};
use super::grid::put;
use super::part::DrawContext;
use super::text::{self, Line, lay_out};
use super::{columns, form, plan, sentence, worker};
use crate::app::{Action, Area, Areas, Dialog};
use crate::model::amount::grouped;
use crate::model::text::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

/// Draws the dialog in the middle; records its area, its buttons and the maximum scroll position. Returns the cursor's
/// position if a line has the focus.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    dialog: &Dialog,
    areas: &mut Areas,
) -> Option<(u16, u16)> {
    let (title, rows, top, pressed) = match dialog {
        Dialog::Ask { title, lines, yes, on_yes, scroll, .. } => {
            (title, lines.iter().collect(), scroll.top(), Some((yes.as_str(), *on_yes)))
        }
        Dialog::Text { title, lines, scroll, search, .. } => (title, search.of(lines), scroll.top(), None),
        Dialog::Plan(plan) => return plan::draw(buf, area, d, plan, areas),
        Dialog::Form(form) => return form::draw(buf, area, d, form, areas),
        Dialog::Worker(form) => return worker::draw(buf, area, d, form, areas),
        Dialog::Columns(chooser) => {
            columns::draw(buf, area, d, chooser, areas);
            return None;
        }
    };
    let widest = if pressed.is_some() { 84 } else { 110 };
    let width = dialog_width(area, widest);
    let inside = usize::from(width.saturating_sub(4));
    // What a question names, e.g. an entrypoint, is shown unchanged.
    let is_text = pressed.is_none();
    let wrap = if is_text { sentence::wrap } else { text::wrap };
    let (lines, label) = lay_out(&rows, inside, usize::MAX, |_, text, width| wrap(text, width));
    let extra = if pressed.is_some() { 4 } else { 2 };
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(extra).min(area.height);
    let frame = middle(area, width, height);
    clear(buf, frame);
    let body = usize::from(height.saturating_sub(extra));
    let last = lines.len().saturating_sub(body);
    let top = top.min(last);
    let searched = match dialog {
        Dialog::Text { search, lines, .. } if !search.line.is_empty() => {
            format!("/{}  {} of {}", printable(search.line.text()), grouped(rows.len()), grouped(lines.len()))
        }
        _ => String::new(),
    };
    let title = Title { left: title, right: &searched, tone: None, focused: true };
    let inner = pane(buf, frame, d.theme, &title);
    more_around(buf, frame, d.theme, (top, last - top), "");
    for (y, Line { row, label: name, text }) in
        (inner.y..inner.bottom()).zip(lines.iter().skip(top).take(body))
    {
        let shift = if label > 0 && !name.is_empty() { u16::try_from(label + 2).unwrap_or(0) } else { 0 };
        let room = if text.is_empty() { inner.width } else { u16::try_from(label).unwrap_or(0) };
        let (at, width) = (inner.x + shift, inner.width.saturating_sub(shift));
        if !is_text {
            put(buf, inner.x, y, room, false, name, d.theme.dim);
            put(buf, at, y, width, false, text, d.theme.text);
            continue;
        }
        sentence::put(buf, (inner.x, y), room, name, d.theme.dim, d.theme);
        let (text, style) = of_manual(text, rows[*row], d);
        sentence::put(buf, (at, y), width, text, style, d.theme);
    }
    if let Some((yes, on_yes)) = pressed {
        let placed = buttons(buf, inner, d, yes, Some(on_yes));
        // In other dialogs, the confirming key copies.
        let keys = format!(
            "{} confirms, {} cancels",
            d.app.keymap().key_of(Action::Accept),
            d.app.keymap().key_of(Action::Back)
        );
        if inner.x.saturating_add(u16::try_from(keys.width()).unwrap_or(u16::MAX)) < placed[0].x {
            put(buf, inner.x, placed[0].y, inner.width, false, &keys, d.theme.dim);
        }
        areas.buttons = Some(placed);
    }
    areas.dialog = Some(Area { x: frame.x, y: frame.y, width, height });
    (areas.dialog_top, areas.dialog_last, areas.dialog_lines) = (top, last, body);
    None
}

/// A line of a row of a text as it is drawn: headings of the manual are bold, its blocks of code have the accent.
fn of_manual<'l>(line: &'l str, (label, text): &(String, String), d: &DrawContext<'_>) -> (&'l str, Style) {
    match () {
        () if !label.is_empty() => (line, d.theme.text),
        () if text.starts_with('#') => {
            (line.trim_start_matches('#').trim_start(), d.theme.text.add_modifier(Modifier::BOLD))
        }
        () if text.starts_with("    ") => (line, d.theme.accent),
        () => (line, d.theme.text),
    }
}
