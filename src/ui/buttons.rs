//! The two buttons at the bottom of a dialog.

use super::part::DrawContext;
use crate::app::Area;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr;

/// Draws Cancel and the button that confirms, one of which may be focused; returns their areas.
pub fn buttons(
    buf: &mut Buffer,
    inner: Rect,
    d: &DrawContext<'_>,
    yes: &str,
    on_yes: Option<bool>,
) -> [Area; 2] {
    let button = |text: &str, focused: bool| {
        let style = if focused { d.theme.selected } else { d.theme.text };
        (
            if focused { format!("[ {text} ]") } else { format!("  {text}  ") },
            style.add_modifier(Modifier::BOLD),
        )
    };
    let (cancel, cancel_style) = button("Cancel", on_yes == Some(false));
    let (accept, accept_style) = button(yes, on_yes == Some(true));
    let width = u16::try_from(cancel.width() + 3 + accept.width()).unwrap_or(0);
    let y = inner.bottom().saturating_sub(1);
    let x = inner.right().saturating_sub(width).max(inner.x);
    buf.set_stringn(x, y, &cancel, inner.width.into(), cancel_style);
    let at = x + u16::try_from(cancel.width() + 3).unwrap_or(0);
    buf.set_stringn(at, y, &accept, inner.right().saturating_sub(at).into(), accept_style);
    let button = |x: u16, text: &str| {
        let width = u16::try_from(text.width()).unwrap_or(0).min(inner.right().saturating_sub(x));
        Area { x, y, width, height: inner.height.min(1) }
    };
    [button(x, &cancel), button(at, &accept)]
}
