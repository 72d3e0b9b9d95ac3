//! The scroll bar of a log: the position of the window, and of lines of interest.

use crate::app::{Landmark, LogView, Window};
use crate::ui::part::DrawContext;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

/// Draws it over the right border of the pane, next to the lines; draws nothing if all lines are in the window.
pub fn draw(buf: &mut Buffer, pane: Rect, lines: Rect, d: &DrawContext<'_>, log: &LogView) {
    let size = Window { width: lines.width.into(), height: lines.height.into() };
    let parts = usize::from(lines.height);
    let window = log.extent(size, parts);
    if window.len() >= parts || pane.width == 0 {
        return;
    }
    let x = pane.right() - 1;
    for (part, landmark) in log.landmarks(parts).into_iter().enumerate() {
        let (glyph, style) = match landmark {
            Some(Landmark::Mark) => ("◆", d.theme.accent),
            Some(Landmark::Match) => ("▸", d.theme.warn),
            Some(Landmark::Error) => ("✕", d.theme.bad),
            None if window.contains(&part) => ("█", d.theme.border),
            None => continue,
        };
        let is_in_window = landmark.is_some() && window.contains(&part);
        let style = if is_in_window { style.add_modifier(Modifier::REVERSED) } else { style };
        buf.set_string(x, lines.y + part as u16, glyph, style);
    }
}
