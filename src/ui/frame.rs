//! A pane's border: number and title on the left, counts on the right.

use super::Theme;
use super::grid::cut;
use crate::model::amount::grouped;
use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Block, BorderType, Clear, Widget as _};
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// The texts in a border.
pub struct Title<'a> {
    /// The title on the left.
    pub left: &'a str,
    /// The counts or the state on the right.
    pub right: &'a str,
    /// The style of the text on the right; `None` for that of the border.
    pub tone: Option<Style>,
    /// Whether the pane has the focus, which makes the border brighter.
    pub focused: bool,
}

/// Draws a rounded border with its titles; returns the inner area, with a margin of one column on the left and right.
pub fn pane(buf: &mut Buffer, area: Rect, theme: &Theme, title: &Title<'_>) -> Rect {
    if area.width < 4 || area.height < 2 {
        return inside(area);
    }
    let style = if title.focused { theme.focused } else { theme.border };
    Block::bordered().border_type(BorderType::Rounded).border_style(style).render(area, buf);
    let room = usize::from(area.width.saturating_sub(6));
    let left = cut(title.left, room);
    let left_style = if title.focused { style.add_modifier(Modifier::BOLD) } else { theme.text };
    if room > 0 && !left.is_empty() {
        buf.set_string(area.x + 2, area.y, format!(" {left} "), left_style);
    }
    let right = whole_parts(title.right, room.saturating_sub(left.width() + 3));
    if right.width() > 1 {
        let width = u16::try_from(right.width()).unwrap_or(0);
        buf.set_string(
            area.right() - 4 - width,
            area.y,
            format!(" {right} "),
            title.tone.unwrap_or(theme.dim),
        );
    }
    inside(area)
}

/// The first parts of a list that fit completely, and a mark for the others: a truncated word or number would be
/// misleading.
fn whole_parts(text: &str, room: usize) -> Cow<'_, str> {
    const MARK: &str = " …";
    if text.width() <= room {
        return Cow::Borrowed(text);
    }
    let ends = [" · ", ", "].into_iter().flat_map(|between| text.match_indices(between));
    let fitting = ends.map(|(at, _)| &text[..at]).filter(|part| part.width() + MARK.width() <= room);
    let most = fitting.max_by_key(|part| part.len());
    most.map_or_else(|| cut(text, room), |part| Cow::Owned(format!("{part}{MARK}")))
}

/// Writes on the lower border how many `things` are below the visible part.
pub fn more_below(buf: &mut Buffer, area: Rect, theme: &Theme, hidden: usize, things: &str) {
    more_around(buf, area, theme, (0, hidden), things);
}

/// Writes on the lower border how many `things` are above and below the visible part; returns the width of that text.
pub fn more_around(buf: &mut Buffer, area: Rect, theme: &Theme, hidden: (usize, usize), things: &str) -> u16 {
    let text = more(hidden, things);
    let width = u16::try_from(text.width() + 2).unwrap_or(u16::MAX);
    if text.is_empty() || area.height < 2 || area.width <= width.saturating_add(4) {
        return 0;
    }
    buf.set_string(area.right() - 2 - width, area.bottom() - 1, format!(" {text} "), theme.dim);
    width
}

/// Writes a text on the left of the lower border, cut if there is no room.
pub fn on_lower_border(buf: &mut Buffer, area: Rect, text: &str, style: Style) {
    let room = usize::from(area.width.saturating_sub(6));
    if room > 0 && area.height > 1 && !text.is_empty() {
        buf.set_string(area.x + 2, area.bottom() - 1, format!(" {} ", cut(text, room)), style);
    }
}

/// The number of `things` above and below the visible part; empty when all are visible.
pub fn more((above, below): (usize, usize), things: &str) -> String {
    match (above, below) {
        (0, 0) => String::new(),
        (0, _) => format!("{} more {things}below", grouped(below)),
        (_, 0) => format!("{} more {things}above", grouped(above)),
        _ => format!("{} more {things}above · {} below", grouped(above), grouped(below)),
    }
}

/// The area inside a border.
pub fn inside(area: Rect) -> Rect {
    area.inner(Margin::new(2, 1))
}

/// Width of a dialog. If little of the page would be visible next to it, it takes the whole width, so that its border
/// is not next to those of panes.
pub fn dialog_width(area: Rect, widest: u16) -> u16 {
    /// Minimum number of columns next to it, on both sides together.
    const MIN_MARGINS: u16 = 12;
    if area.width < widest.saturating_add(MIN_MARGINS) { area.width } else { widest }
}

/// A frame of that size in the middle of the area.
pub fn middle(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

/// Clears an area for something drawn over it.
pub fn clear(buf: &mut Buffer, area: Rect) {
    Clear.render(area, buf);
}

#[cfg(test)]
mod tests {
    use super::whole_parts;

    #[test]
    fn a_title_drops_whole_parts() {
        let title = "v4 4,028 chips, 1,456 preempted · v5p 1,488 chips";
        for (room, shown) in [
            (60, title),
            (48, "v4 4,028 chips, 1,456 preempted …"),
            (30, "v4 4,028 chips …"),
            (16, "v4 4,028 chips …"),
            (15, "v4 4,028 chips…"),
            (6, "v4 4,…"),
        ] {
            assert_eq!(whole_parts(title, room), shown);
        }
    }
}
