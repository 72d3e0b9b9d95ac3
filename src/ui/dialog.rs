//! Dialogs: a question with two buttons, or a text.

use super::buttons::buttons;
use super::details::label_and_text;
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
    let content = match dialog {
        Dialog::Ask { title, lines, yes, on_yes, scroll, .. } => Content {
            title,
            searched: String::new(),
            rows: lines.iter().collect(),
            top: scroll.top(),
            confirms: Some((yes.as_str(), *on_yes)),
        },
        Dialog::Text { title, lines, scroll, search, .. } => {
            let rows = search.of(lines);
            let searched = match search.line.text() {
                "" => String::new(),
                typed => {
                    format!("/{}  {} of {}", printable(typed), grouped(rows.len()), grouped(lines.len()))
                }
            };
            Content { title, searched, rows, top: scroll.top(), confirms: None }
        }
        Dialog::Plan(plan) => return plan::draw(buf, area, d, plan, areas),
        Dialog::Form(form) => return form::draw(buf, area, d, form, areas),
        Dialog::Worker(form) => return worker::draw(buf, area, d, form, areas),
        Dialog::Columns(chooser) => {
            columns::draw(buf, area, d, chooser, areas);
            return None;
        }
    };
    content.draw(buf, area, d, areas);
    None
}

/// The content of a question or a text.
struct Content<'a> {
    title: &'a str,
    /// The search and the number of its matches; empty without a search.
    searched: String,
    /// The labels and the texts.
    rows: Vec<&'a (String, String)>,
    /// The scroll position.
    top: usize,
    /// The button that confirms a question, and whether it is focused; `None` for a text.
    confirms: Option<(&'a str, bool)>,
}

impl Content<'_> {
    /// Whether it is a text, where commands and headings are marked. What a question names, e.g. an entrypoint, is
    /// shown unchanged.
    fn is_text(&self) -> bool {
        self.confirms.is_none()
    }

    fn draw(&self, buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, areas: &mut Areas) {
        let (widest, extra) = if self.is_text() { (110, 2) } else { (84, 4) };
        let width = dialog_width(area, widest);
        let inside = usize::from(width.saturating_sub(4));
        let wrap = if self.is_text() { sentence::wrap } else { text::wrap };
        let (lines, label_width) =
            lay_out(&self.rows, inside, usize::MAX, |_, text, width| wrap(text, width));
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(extra).min(area.height);
        let frame = middle(area, width, height);
        clear(buf, frame);
        let body = usize::from(height.saturating_sub(extra));
        let last = lines.len().saturating_sub(body);
        let top = self.top.min(last);
        let title = Title { left: self.title, right: &self.searched, tone: None, focused: true };
        let inner = pane(buf, frame, d.theme, &title);
        more_around(buf, frame, d.theme, (top, last - top), "");
        for (y, line) in (inner.y..inner.bottom()).zip(lines.iter().skip(top).take(body)) {
            self.draw_line(buf, line, label_and_text(line, label_width, Rect { y, height: 1, ..inner }), d);
        }
        if let Some(confirms) = self.confirms {
            areas.buttons = Some(draw_buttons(buf, inner, d, confirms));
        }
        areas.dialog = Some(Area { x: frame.x, y: frame.y, width, height });
        (areas.dialog_top, areas.dialog_last, areas.dialog_lines) = (top, last, body);
    }

    fn draw_line(&self, buf: &mut Buffer, line: &Line, (label, text): (Rect, Rect), d: &DrawContext<'_>) {
        if self.is_text() {
            sentence::put(buf, (label.x, label.y), label.width, &line.label, d.theme.dim, d.theme);
            let (words, style) = of_manual(&line.text, self.rows[line.row], d);
            sentence::put(buf, (text.x, text.y), text.width, words, style, d.theme);
        } else {
            put(buf, label.x, label.y, label.width, false, &line.label, d.theme.dim);
            put(buf, text.x, text.y, text.width, false, &line.text, d.theme.text);
        }
    }
}

/// Draws the buttons of a question, and beside them the keys for them, if there is room; returns the buttons' areas.
fn draw_buttons(
    buf: &mut Buffer,
    inner: Rect,
    d: &DrawContext<'_>,
    (yes, on_yes): (&str, bool),
) -> [Area; 2] {
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
    placed
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
