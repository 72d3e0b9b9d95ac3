//! The form of workers that are to be added.

use super::Draw;
use super::chrome::{clear, wrap};
use super::dialog::{buttons, middle};
use super::frame::{Title, pane};
use super::grid::{cut, cut_front, put};
use crate::app::worker::{Offered, WorkerField, WorkerForm};
use crate::app::{Area, Areas};
use crate::model::text::printable;
use crate::model::{MOST_WORKERS, NewWorker};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// Columns it takes where there is room.
const WIDEST: u16 = 100;
/// Columns of the labels.
const LABEL: u16 = 10;
/// Lines below the rows: what may stand in the row that has the focus, or what is wrong. So many are kept free, that
/// nothing jumps while the focus moves.
const WORDS: u16 = 4;

/// Draws it; returns the cursor's place when a line has the focus.
pub fn draw(
    buf: &mut Buffer,
    area: Rect,
    d: &Draw<'_>,
    form: &WorkerForm,
    areas: &mut Areas,
) -> Option<(u16, u16)> {
    let width = area.width.saturating_sub(4).min(WIDEST);
    let inside = usize::from(width.saturating_sub(4)).max(1);
    let words = words(form, d, inside);
    let rows = u16::try_from(form.rows().len()).unwrap_or(0);
    let said = if rows > 0 { WORDS } else { u16::try_from(words.len()).unwrap_or(WORDS) };
    let frame = middle(area, width, rows + said + 4 + u16::from(rows > 0));
    clear(buf, frame);
    let cluster = form.cluster.to_string();
    let title = Title { left: "add workers", right: &cluster, tone: None, focused: true };
    let inner = pane(buf, frame, d.theme, &title);
    areas.dialog = Some(Area { x: frame.x, y: frame.y, width: frame.width, height: frame.height });
    let (first, visible) = (inner.y, rows.min(inner.height.saturating_sub(2)));
    // Where not all has room, the row that has the focus stays.
    let at = u16::try_from(form.at).unwrap_or(rows).min(rows.saturating_sub(1));
    let top = usize::from((at + 1).saturating_sub(visible));
    let mut cursor = None;
    for (y, (i, field)) in (first..first + visible).zip(form.rows().iter().enumerate().skip(top)) {
        let place = Rect { y, height: 1, ..inner };
        cursor = cursor.or(row(buf, place, d, form, *field, i == form.at));
    }
    let gap = u16::from(rows > 0);
    let last = inner.bottom().saturating_sub(1);
    for (y, (text, style)) in (first + visible + gap..last).zip(&words) {
        put(buf, inner.x, y, inner.width, false, text, *style);
    }
    if inner.height > 0 {
        let known = matches!(form.offered, Offered::Known(_));
        areas.buttons = Some(buttons(buf, inner, d, if known { "Next" } else { "" }, form.button()));
    }
    cursor
}

/// One row: its word, what is chosen or typed, and beside it what is wrong. Returns the cursor's place.
fn row(
    buf: &mut Buffer,
    area: Rect,
    d: &Draw<'_>,
    form: &WorkerForm,
    field: WorkerField,
    focused: bool,
) -> Option<(u16, u16)> {
    let label = if focused { d.theme.accent } else { d.theme.dim };
    put(buf, area.x, area.y, LABEL.min(area.width), false, field.word(), label);
    let (x, room) = (area.x + LABEL, area.width.saturating_sub(LABEL));
    let style = if focused { d.theme.text.patch(d.theme.marked) } else { d.theme.text };
    if let Some((choices, at)) = form.choices(field) {
        let chosen = choices.get(at).map_or_else(String::new, |c| printable(c).into_owned());
        let place = format!("{} of {}", at + 1, choices.len());
        let space = usize::from(room).saturating_sub(place.width() + 6);
        let chosen = cut(&chosen, space).into_owned();
        let text = if focused { format!("‹ {chosen} ›") } else { format!("  {chosen}") };
        put(buf, x, area.y, room, false, &text, style);
        let after = x + u16::try_from(text.width()).unwrap_or(room) + 2;
        put(buf, after, area.y, area.right().saturating_sub(after), false, &place, d.theme.dim);
        return None;
    }
    let (x, room) = (x + 2, room.saturating_sub(2));
    let shown = printable(form.typed(field));
    let complaint = form.complaint(field).map(|why| format!("✕ {why}")).unwrap_or_default();
    // What is typed is seen at its end; what is wrong with it goes before, down to a few characters of it.
    let space = usize::from(room).saturating_sub(complaint.width() + 3).max(usize::from(room / 4));
    let text = cut_front(&shown, space);
    put(buf, x, area.y, room, false, &text, style);
    let end = x + u16::try_from(text.width()).unwrap_or(room).min(room.saturating_sub(1));
    put(buf, end + 2, area.y, area.right().saturating_sub(end + 2), false, &complaint, d.theme.bad);
    focused.then_some((end, area.y))
}

/// What is to be said below the rows.
fn words(form: &WorkerForm, d: &Draw<'_>, width: usize) -> Vec<(String, Style)> {
    let text = match (&form.offered, form.focused()) {
        (Offered::Looking, _) => {
            return vec![("◌ looking which workers can be added".to_owned(), d.theme.warn)];
        }
        (Offered::Failed(problem), _) => {
            let lines = |text: String, style| wrap(&text, width).into_iter().map(move |l| (l, style));
            let what = lines(format!("✕ {}", problem.what), d.theme.bad);
            let mend = lines(format!("  {}", problem.mend), d.theme.text);
            return what.chain(mend.filter(|(l, _)| !l.trim().is_empty())).collect();
        }
        (Offered::Known(_), None) => "next shows what will happen, and asks once more".to_owned(),
        (Offered::Known(offer), Some(field)) => match (form.complaint(field), field) {
            (Some(why), _) => {
                let lines = wrap(&format!("✕ {why}"), width);
                return lines.into_iter().map(|line| (line, d.theme.bad)).collect();
            }
            (None, WorkerField::Type | WorkerField::Capacity) => {
                let choices = form.choices(field).map(|(choices, _)| choices).unwrap_or_default();
                let choices = choices.iter().map(|c| printable(c).replace(' ', "\u{a0}"));
                let listed = choices.collect::<Vec<_>>().join(", ");
                format!("left and right choose, a letter goes to the next: {listed}")
            }
            (None, WorkerField::Count) => format!("1 to {MOST_WORKERS}; each is a request of its own"),
            (None, WorkerField::Name) if form.count.trim() == "1" => {
                "when this is empty, one is made up: ray-worker-manual-<id>".to_owned()
            }
            (None, WorkerField::Name) => {
                "each has its number behind it; when this is empty, ray-worker-manual-<id>-1 and so on"
                    .to_owned()
            }
            (None, WorkerField::Address) => {
                let last = match &offer.last {
                    Some(NewWorker::Host { address }) => format!("; added last: {}", printable(address)),
                    _ => String::new(),
                };
                format!("of a host that is there, as ray is to have it; it is reached by ssh{last}")
            }
        },
    };
    let mut lines = wrap(&text, width);
    if lines.len() > usize::from(WORDS) {
        lines.truncate(WORDS.into());
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} …"), width).into_owned();
        }
    }
    lines.into_iter().map(|l| (l.replace('\u{a0}', " "), d.theme.dim)).collect()
}
