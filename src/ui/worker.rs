//! The form that adds workers.

use super::buttons::buttons;
use super::form::discard_warning;
use super::frame::{Title, clear, dialog_width, middle, more, more_around, pane};
use super::grid::{cut, put};
use super::line;
use super::part::DrawContext;
use super::sentence::{self, wrap};
use crate::app::operation::worker_form::{Offered, WorkerField, WorkerForm};
use crate::app::{Area, Areas, Rows};
use crate::model::text::printable;
use crate::model::{MOST_WORKERS, NewWorker};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// Width if there is room.
const MAX_WIDTH: u16 = 100;
/// Width of the labels.
const LABEL_WIDTH: u16 = 10;
/// Lines below the rows for the hint or error of the focused row. They are reserved so that nothing moves with the
/// focus.
const MIN_TEXT_LINES: u16 = 4;
/// Maximum number of choices shown; the list scrolls.
const MAX_CHOICES: usize = 8;
/// Minimum number of lines below the rows, before rows are hidden.
const MIN_LINES: u16 = 3;
/// The mark before the chosen item.
const MARK: &str = "▸ ";

/// Draws it; returns the position of the cursor if a text field has the focus.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    form: &WorkerForm,
    areas: &mut Areas,
) -> Option<(u16, u16)> {
    let width = dialog_width(area, MAX_WIDTH);
    let inside = usize::from(width.saturating_sub(4)).max(1);
    let text = text_lines(form, d, inside);
    let rows = u16::try_from(form.rows().len()).unwrap_or(0);
    let text_height =
        if rows > 0 { below(form) } else { u16::try_from(text.len()).unwrap_or(MIN_TEXT_LINES) };
    let frame = middle(area, width, rows + text_height + 4 + u16::from(rows > 0));
    clear(buf, frame);
    let cluster = form.cluster.to_string();
    let title = Title { left: "Add workers", right: &cluster, tone: None, focused: true };
    let inner = pane(buf, frame, d.theme, &title);
    areas.dialog = Some(Area { x: frame.x, y: frame.y, width: frame.width, height: frame.height });
    let (upper, lower) = parts(Rect { height: inner.height.saturating_sub(1), ..inner }, rows, text_height);
    // If there is not enough room, the focused row stays visible.
    let at = u16::try_from(form.at).unwrap_or(rows).min(rows.saturating_sub(1));
    let top = usize::from((at + 1).min(rows).saturating_sub(upper.height));
    let rect = Area { x: upper.x, y: upper.y, width: upper.width, height: upper.height };
    areas.dialog_rows = Some(Rows { area: rect, first: top, all: form.rows().len() });
    let mut cursor = None;
    for (y, (i, field)) in (upper.y..upper.bottom()).zip(form.rows().iter().enumerate().skip(top)) {
        let rect = Rect { y, height: 1, ..inner };
        cursor = cursor.or(row(buf, rect, d, form, *field, i == form.at));
    }
    let hidden = (top, usize::from(rows.saturating_sub(upper.height)).saturating_sub(top));
    more_around(buf, frame, d.theme, hidden, if hidden.0 + hidden.1 == 1 { "field " } else { "fields " });
    let last = if rows > 0 { 0 } else { text.len().saturating_sub(lower.height.into()) };
    let first = form.scroll.top().min(last);
    more_around(buf, frame, d.theme, (first, last - first), "");
    (areas.dialog_top, areas.dialog_last, areas.dialog_lines) = (first, last, lower.height.into());
    for (y, (text, style)) in (lower.y..lower.bottom()).zip(text.iter().skip(first)) {
        sentence::put(buf, (inner.x, y), inner.width, text, *style, d.theme);
    }
    if let Some((choices, chosen)) = form.focused().and_then(|field| form.choices(field)) {
        let used = u16::try_from(text.len()).unwrap_or(MIN_TEXT_LINES).min(lower.height);
        let rect = Rect { y: lower.y + used, height: lower.height - used, ..lower };
        draw_choices(buf, rect, d, &choices, chosen);
    }
    if inner.height > 0 {
        let known = matches!(form.offered, Offered::Known(_));
        areas.buttons = Some(buttons(buf, inner, d, if known { "Next" } else { "" }, form.button()));
    }
    cursor
}

/// Lines reserved below the rows: for text, and for the longest list of choices.
fn below(form: &WorkerForm) -> u16 {
    let choices = form.rows().iter().filter_map(|field| form.choices(*field));
    let longest = choices.map(|(choices, _)| choices.len()).max().unwrap_or(0);
    u16::try_from(longest.min(MAX_CHOICES) + 1).unwrap_or(MIN_TEXT_LINES).max(MIN_TEXT_LINES)
}

/// The areas of the rows and of the text below them. In a small window the blank line is dropped first, then lines of
/// the text, then rows.
fn parts(area: Rect, rows: u16, text_height: u16) -> (Rect, Rect) {
    let visible = rows.min(area.height.saturating_sub(MIN_LINES).max(1)).min(area.height);
    let gap = u16::from(rows > 0 && area.height - visible > MIN_LINES.max(MIN_TEXT_LINES));
    let height = area.height - visible - gap;
    (
        Rect { height: visible, ..area },
        Rect { y: area.y + visible + gap, height: height.min(text_height.max(MIN_LINES)), ..area },
    )
}

/// Draws the choices, one per line, with a mark before the chosen one.
fn draw_choices(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, choices: &[String], chosen: usize) {
    let visible = choices.len().min(usize::from(area.height));
    // The chosen one is in the middle, so that those before and after it are visible.
    let top = chosen.saturating_sub(visible / 2).min(choices.len() - visible);
    let hidden = (top, choices.len() - visible - top);
    for (i, y) in (0..visible).zip(area.y..) {
        let above = if i == 0 { hidden.0 } else { 0 };
        let below = if i + 1 == visible { hidden.1 } else { 0 };
        let counts = more((above, below), "");
        let width = u16::try_from(counts.width()).unwrap_or(area.width).min(area.width);
        put(buf, area.x, y, area.width, true, &counts, d.theme.warn);
        let (mark, style) = if top + i == chosen { (MARK, d.theme.marked) } else { ("  ", d.theme.dim) };
        let text = format!("{mark}{}", printable(&choices[top + i]));
        let room = area.width.saturating_sub(width + u16::from(width > 0));
        put(buf, area.x, y, room, false, &text, style);
    }
}

/// Draws one row: its label, the chosen or typed value, and next to it the error. Returns the position of the cursor.
fn row(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    form: &WorkerForm,
    field: WorkerField,
    focused: bool,
) -> Option<(u16, u16)> {
    let label = if focused { d.theme.accent } else { d.theme.dim };
    put(buf, area.x, area.y, LABEL_WIDTH.min(area.width), false, field.label(), label);
    let (x, room) = (area.x + LABEL_WIDTH, area.width.saturating_sub(LABEL_WIDTH));
    let style = if focused { d.theme.text.patch(d.theme.marked) } else { d.theme.text };
    if let Some((choices, at)) = form.choices(field) {
        let chosen = choices.get(at).map_or_else(String::new, |c| printable(c).into_owned());
        let position = format!("{} of {}", at + 1, choices.len());
        let space = usize::from(room).saturating_sub(position.width() + 6);
        let chosen = cut(&chosen, space).into_owned();
        let text = if focused { format!("‹ {chosen} ›") } else { format!("  {chosen}") };
        put(buf, x, area.y, room, false, &text, style);
        let after = x + u16::try_from(text.width()).unwrap_or(room) + 2;
        put(buf, after, area.y, area.right().saturating_sub(after), false, &position, d.theme.dim);
        return None;
    }
    let (x, room) = (x + 2, room.saturating_sub(2));
    let typed = form.typed(field)?;
    let shown = printable(typed.text());
    let validation_error = form.validation_error(field).map(|why| format!("✕ {why}")).unwrap_or_default();
    // The error gets its room first, except for a few characters of the text.
    let space =
        room.saturating_sub(u16::try_from(validation_error.width() + 2).unwrap_or(room)).max(room / 4 + 1);
    let at = if focused { typed.cursor() } else { shown.chars().count() };
    let rect = Rect { x, width: space.min(room), height: 1, ..area };
    let cursor = line::draw(buf, rect, &shown, at, style);
    line::mark_field(buf, rect);
    let end = x + u16::try_from(shown.width()).unwrap_or(room).min(rect.width.saturating_sub(1));
    put(buf, end + 2, area.y, area.right().saturating_sub(end + 2), false, &validation_error, d.theme.bad);
    focused.then_some((cursor, area.y))
}

/// The text below the rows: a hint or an error.
fn text_lines(form: &WorkerForm, d: &DrawContext<'_>, width: usize) -> Vec<(String, Style)> {
    if form.is_warning() {
        let lines = wrap(&discard_warning(d), width);
        return lines.into_iter().map(|line| (line, d.theme.warn)).collect();
    }
    let text = match (&form.offered, form.focused()) {
        (Offered::Pending, _) => {
            return vec![("◌ checking which workers can be added".to_owned(), d.theme.dim)];
        }
        (Offered::Failed(problem), _) => {
            let lines = |text: String, style| wrap(&text, width).into_iter().map(move |l| (l, style));
            let what = lines(format!("✕ {}", problem.what), d.theme.bad);
            let hint = lines(format!("  {}", d.app.dialog_hint(&problem.hint)), d.theme.text);
            return what.chain(hint.filter(|(l, _)| !l.trim().is_empty())).collect();
        }
        (Offered::Known(_), None) => "Next shows what will happen and asks for confirmation".to_owned(),
        (Offered::Known(offer), Some(field)) => match (form.validation_error(field), field) {
            (Some(why), _) => {
                let lines = wrap(&format!("✕ {why}"), width);
                return lines.into_iter().map(|line| (line, d.theme.bad)).collect();
            }
            (None, WorkerField::Type | WorkerField::Capacity) => "press left, right or a letter".to_owned(),
            (None, WorkerField::Count) => format!("1 to {MOST_WORKERS}; each is a separate request"),
            (None, WorkerField::Name) if form.count.text().trim() == "1" => {
                "leave empty to generate one: ray-worker-manual-<id>".to_owned()
            }
            (None, WorkerField::Name) => {
                "a number is appended to each; leave empty to generate ray-worker-manual-<id>-1 and so on"
                    .to_owned()
            }
            (None, WorkerField::Address) => {
                let last = match &offer.last {
                    Some(NewWorker::Host { address }) => format!("; last added: {}", printable(address)),
                    _ => String::new(),
                };
                format!(
                    "address of an existing host, as Ray will use it; the console connects to it over SSH{last}"
                )
            }
        },
    };
    let mut lines = wrap(&text, width);
    if lines.len() > usize::from(MIN_TEXT_LINES) {
        lines.truncate(MIN_TEXT_LINES.into());
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} …"), width).into_owned();
        }
    }
    lines.into_iter().map(|l| (l, d.theme.dim)).collect()
}
