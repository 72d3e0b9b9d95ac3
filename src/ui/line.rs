//! Input lines: as much as fits, with the cursor visible.

use super::grid::put;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthChar;

/// Draws an input line in one row; its last cell is for a cursor at the end. `shown` has a character for each typed
/// one, `cursor` of them before the cursor. Returns the cursor's column.
pub fn draw(buf: &mut Buffer, area: Rect, shown: &str, cursor: usize, style: Style) -> u16 {
    let (text, column) = window(shown, cursor, area.width.into());
    put(buf, area.x, area.y, area.width, false, &text, style);
    area.x + u16::try_from(column).unwrap_or(area.width).min(area.width.saturating_sub(1))
}

/// Underlines an input field, so that it is visible even if it is empty.
pub fn mark_field(buf: &mut Buffer, area: Rect) {
    buf.set_style(area, Style::new().add_modifier(Modifier::UNDERLINED));
}

/// The visible part of a line in that many columns, with cut ends marked by `…`, and the cursor's column in it.
pub fn window(shown: &str, cursor: usize, width: usize) -> (String, usize) {
    let cells = |c: char| c.width().unwrap_or(0);
    let column: usize = shown.chars().take(cursor).map(cells).sum();
    let total: usize = shown.chars().map(cells).sum();
    if total < width || width < 3 {
        return (shown.to_owned(), column.min(width.saturating_sub(1)));
    }
    // The cursor is in the middle, so that text on both sides is visible.
    let first = column.saturating_sub(width / 2).min(total + 1 - width);
    let (is_cut_before, is_cut_after) = (first > 0, total > first + width);
    let (from, to) = (first + usize::from(is_cut_before), first + width - usize::from(is_cut_after));
    let mut text = String::from(if is_cut_before { "…" } else { "" });
    let mut end = 0;
    for c in shown.chars() {
        let start = end;
        end += cells(c);
        if start < from && end > from {
            // Half of a wide character.
            text.push(' ');
        } else if start >= from && end <= to {
            text.push(c);
        }
    }
    text.push_str(if is_cut_after { "…" } else { "" });
    (text, column - first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn the_window_follows_the_cursor() {
        let text = "abcdefghij";
        assert_eq!(window(text, 10, 11), (text.to_owned(), 10));
        assert_eq!(window(text, 10, 10), ("…cdefghij".to_owned(), 9));
        assert_eq!(window(text, 10, 5), ("…hij".to_owned(), 4));
        assert_eq!(window(text, 5, 5), ("…efg…".to_owned(), 2));
        assert_eq!(window(text, 0, 5), ("abcd…".to_owned(), 0));
        assert_eq!(
            window("日本語日本語", 6, 7),
            ("… 本語".to_owned(), 6),
            "half of a wide character is blank"
        );
    }

    proptest! {
        #[test]
        fn the_cursor_is_visible_and_the_text_fits(text in "[a-z日本語é ]{0,40}", cursor in 0usize..40, width in 3usize..30) {
            let cursor = cursor.min(text.chars().count());
            let (shown, column) = window(&text, cursor, width);
            prop_assert!(shown.width() <= width && column < width, "{shown:?} {column}");
            // The text before the cursor is what was typed before it.
            let typed: String = text.chars().take(cursor).collect();
            if let (Some(before), true) = (typed.chars().last(), column > 2) {
                let mut cells = 0;
                let last = shown.chars().take_while(|c| { cells += c.width().unwrap_or(0); cells <= column }).last();
                prop_assert_eq!(last, Some(before), "{:?}", shown);
            }
        }
    }
}
