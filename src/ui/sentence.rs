//! Sentences with commands and other text to be typed between backticks: that text is drawn in the accent color,
//! without the backticks, and kept on one line.

use super::grid;
use super::text;
use super::theme::{Colors, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// A non-breaking space.
const FIXED: &str = "\u{a0}";

/// Wraps a sentence into lines of that width. A command stays on one line if it fits; otherwise each of its parts is
/// put between its own backticks.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    // An unpaired backtick is an ordinary character.
    if !text.contains(['`', '\u{a0}']) || is_odd(text) {
        return text::wrap(text, width);
    }
    let parts = text.split('`').enumerate();
    let joined = parts.map(|(at, part)| match at % 2 {
        1 if part.width() + 2 <= width => part.replace(' ', FIXED),
        _ => part.to_owned(),
    });
    let joined = joined.collect::<Vec<_>>().join("`");
    let mut is_open = false;
    let line = |line: String| {
        let before = if is_open { "`" } else { "" };
        is_open ^= is_odd(&line);
        let after = if is_open { "`" } else { "" };
        format!("{before}{}{after}", line.replace(FIXED, " "))
    };
    text::wrap(&joined, width).into_iter().map(line).collect()
}

/// Whether the text has an unpaired backtick.
fn is_odd(text: &str) -> bool {
    text.matches('`').count() % 2 == 1
}

/// The number of cells of a sentence as [`put`] writes it.
pub fn width(sentence: &str, theme: &Theme) -> usize {
    if has_backticks(sentence, theme) { sentence.width() } else { sentence.replace('`', "").width() }
}

/// Whether backticks are written: without colors nothing else shows a command, and an unpaired one is no mark.
fn has_backticks(sentence: &str, theme: &Theme) -> bool {
    theme.colors == Colors::None || is_odd(sentence)
}

/// Writes a sentence into that many cells, cut with an ellipsis. Without colors the backticks are kept.
pub fn put(buf: &mut Buffer, (x, y): (u16, u16), width: u16, sentence: &str, style: Style, theme: &Theme) {
    if has_backticks(sentence, theme) {
        return grid::put(buf, x, y, width, false, sentence, style);
    }
    grid::put(buf, x, y, width, false, &sentence.replace('`', ""), style);
    let mut at = 0_u16;
    for (number, part) in sentence.split('`').enumerate() {
        let columns = u16::try_from(part.width()).unwrap_or(u16::MAX).min(width.saturating_sub(at));
        if number % 2 == 1 && columns > 0 {
            buf.set_style(Rect { x: x + at, y, width: columns, height: 1 }, style.patch(theme.accent));
        }
        at += columns;
    }
}

/// Draws texts above a page, each in at most three lines, and not over its last lines; returns the area below them.
pub fn above(
    buf: &mut Buffer,
    area: Rect,
    texts: impl IntoIterator<Item = (String, Style)>,
    theme: &Theme,
) -> Rect {
    /// Lines that stay for the page.
    const PAGE: u16 = 4;
    /// Maximum number of lines of a text.
    const MAX_LINES: usize = 3;
    let width = area.width.saturating_sub(2);
    let mut y = area.y;
    for (text, style) in texts {
        let room = usize::from(area.bottom().saturating_sub(y + PAGE));
        for line in wrap(&text, width.into()).iter().take(room.min(MAX_LINES)) {
            put(buf, (area.x + 1, y), width, line, style, theme);
            y += 1;
        }
    }
    Rect { y, height: area.bottom() - y, ..area }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_stays_on_one_line_if_it_fits() {
        assert_eq!(wrap("see its messages: `ssh 10.0.0.1`", 22), ["see its messages:", "`ssh 10.0.0.1`"]);
        assert_eq!(wrap("run `ray up cluster.yaml` now", 14), ["run `ray up`", "`cluster.yaml`", "now"]);
        assert_eq!(wrap("it`s one tick", 8), ["it`s one", "tick"]);
        assert_eq!(wrap("GCS\u{a0}10.0.0.1:6379", 30), ["GCS 10.0.0.1:6379"]);
    }

    #[test]
    fn a_command_has_the_accent_in_place_of_backticks() {
        let area = Rect { x: 0, y: 0, width: 12, height: 1 };
        let mut buf = Buffer::empty(area);
        let theme = Theme::new(Colors::Full);
        put(&mut buf, (0, 0), 12, "no `theme` here", theme.text, &theme);
        let shown: String = buf.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(shown, "no theme he…");
        assert_eq!(buf[(3, 0)].fg, theme.accent.fg.unwrap_or_default());
        assert_ne!(buf[(9, 0)].fg, buf[(3, 0)].fg);
        let plain = Theme::new(Colors::None);
        put(&mut buf, (0, 0), 12, "no `theme`", plain.text, &plain);
        assert_eq!(buf[(3, 0)].symbol(), "`");
    }
}
