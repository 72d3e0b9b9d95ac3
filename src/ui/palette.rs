//! The palette's list, above the command line.

use super::frame::{Title, clear, more_around, pane};
use super::grid::{cut, cut_middle, put};
use super::part::DrawContext;
use super::sentence;
use crate::app::{Area, Areas, Offer, OfferList, PromptKind, Rows};
use crate::model::text::printable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// Maximum width, unless names of objects need more.
const MAX_WIDTH: u16 = 120;
/// Maximum number of commands visible at once.
const MAX_VISIBLE: usize = 12;
/// Maximum width of the names, unless half of the list is more.
const MAX_NAME_WIDTH: usize = 34;

/// The part of the area above the list, which messages take.
pub fn above(area: Rect, list: &OfferList) -> Rect {
    let list = match list.offers.len() {
        0 if list.why_none.is_some() => 3,
        0 => 0,
        offers => visible(area, offers) + 2,
    };
    Rect { height: area.height.saturating_sub(u16::try_from(list).unwrap_or(area.height)), ..area }
}

/// The number of commands that are visible at once.
fn visible(area: Rect, offers: usize) -> usize {
    offers.min(MAX_VISIBLE).min(usize::from(area.height.saturating_sub(2)).max(1))
}

/// Draws the list at the bottom of the area, with the chosen command visible; nothing while no command is typed.
/// Records its area.
pub fn draw(buf: &mut Buffer, area: Rect, d: &DrawContext<'_>, list: &OfferList, areas: &mut Areas) {
    let Some((prompt, title)) = d.app.prompt().and_then(|prompt| Some((prompt, prompt.kind.list()?))) else {
        return;
    };
    // These lines are long and have nothing next to them.
    let is_text = prompt.kind == PromptKind::Found;
    let OfferList { offers, why_none: why } = list;
    if offers.is_empty() && why.is_none() {
        return;
    }
    // The widths are those of all offers, so that columns do not move while scrolling.
    let name = offers.iter().map(|o| o.text.width()).max().unwrap_or(0);
    let width = |text: &str| if text.is_empty() { 0 } else { text.width() + 2 };
    let beside = offers.iter().map(|o| width(&o.help) + width(&o.key)).max().unwrap_or(0);
    // Names of hosts, logs and jobs may differ anywhere, so they are complete before the help is.
    let is_of_objects = matches!(prompt.kind, PromptKind::Files | PromptKind::Processes | PromptKind::Runs);
    let needed = if is_of_objects { u16::try_from(name + beside + 4).unwrap_or(u16::MAX) } else { 0 };
    let visible = visible(area, offers.len().max(1));
    let height = u16::try_from(visible + 2).unwrap_or(area.height).min(area.height);
    let frame = Rect {
        y: area.bottom() - height,
        height,
        width: if is_text { area.width } else { area.width.min(MAX_WIDTH.max(needed)) },
        ..area
    };
    clear(buf, frame);
    let inner = pane(buf, frame, d.theme, &Title { left: title, right: "", tone: None, focused: true });
    if let Some(why) = why {
        sentence::put(buf, (inner.x, inner.y), inner.width, &printable(why), d.theme.warn, d.theme);
        return;
    }
    let top = (prompt.chosen + 1).saturating_sub(visible).min(offers.len() - visible);
    more_around(buf, frame, d.theme, (top, offers.len() - visible - top), "");
    let to_area = |r: Rect| Area { x: r.x, y: r.y, width: r.width, height: r.height };
    areas.palette = Some((to_area(frame), Rows { area: to_area(inner), first: top, all: offers.len() }));
    let shown = &offers[top..top + visible];
    let chosen = prompt.chosen_offer(offers);
    let least = MAX_NAME_WIDTH.max(usize::from(inner.width) / 2);
    // Commands that were typed before may be long: they leave their width to the help.
    let most = least.max(usize::from(inner.width).saturating_sub(beside));
    let name = if is_text || is_of_objects { name } else { name.min(most) }.min(inner.width.into());
    for (i, (y, offer)) in (inner.y..inner.bottom()).zip(shown).enumerate() {
        row(buf, Rect { y, height: 1, ..inner }, d, offer, (chosen == Some(top + i), name, is_text));
    }
}

/// A command: its name with the matching letters, its description, its key.
fn row(
    buf: &mut Buffer,
    area: Rect,
    d: &DrawContext<'_>,
    offer: &Offer,
    (is_chosen, name, is_text): (bool, usize, bool),
) {
    let (text, dim, accent) = match (is_chosen, offer.is_here) {
        (true, _) => {
            buf.set_style(area, d.theme.selected);
            (d.theme.selected, d.theme.selected, d.theme.selected.patch(d.theme.accent))
        }
        (false, true) => (d.theme.text, d.theme.dim, d.theme.accent),
        (false, false) => (d.theme.dim, d.theme.dim, d.theme.dim),
    };
    let narrow = |columns: usize| u16::try_from(columns).unwrap_or(area.width).min(area.width);
    let words = printable(&offer.text);
    let is_cut = words.width() > name;
    // A line of a log is read from its beginning.
    let (shown, end) =
        if is_text { (cut(&words, name), name) } else { (cut_middle(&words, name), name / 2 + 1) };
    let whole = if is_cut { end.saturating_sub(1) } else { name };
    put(buf, area.x, area.y, narrow(name), false, &shown, text);
    let mut column = 0;
    for (at, c) in words.chars().enumerate() {
        let width = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        // The mark of a cut is followed by other letters.
        if offer.hits.contains(&at) && column + width <= whole {
            let matched = Rect { x: area.x + narrow(column), width: narrow(width), ..area };
            buf.set_style(matched, accent.add_modifier(ratatui::style::Modifier::UNDERLINED));
        }
        column += width;
    }
    let at = area.x + narrow(name + 2);
    let key = if offer.key.is_empty() { 0 } else { offer.key.width() + 2 };
    let room = area.right().saturating_sub(at + narrow(key));
    sentence::put(buf, (at.min(area.right()), area.y), room, &printable(&offer.help), dim, d.theme);
    let at = area.right().saturating_sub(narrow(offer.key.width()));
    if room > 0 {
        put(buf, at, area.y, narrow(offer.key.width()), false, &offer.key, accent);
    }
}
