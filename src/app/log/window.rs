//! The window in which lines are drawn, and how lines are wrapped.

use unicode_width::UnicodeWidthChar;

/// The window in columns and rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Width in columns.
    pub width: usize,
    /// Height in rows.
    pub height: usize,
}

/// Wraps a line into pieces of that many columns; at least one. It breaks after blanks, so that no number is split, and
/// breaks a word only if that is longer than half the width.
pub fn pieces(line: &str, width: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let mut room = width;
        let over = line.char_indices().find(|(i, c)| {
            let wide = c.width().unwrap_or(0);
            // A character wider than the window would never fit.
            let is_over = wide > room && *i > 0;
            room = room.saturating_sub(wide);
            is_over
        });
        let end = over.map_or(line.len(), |(i, _)| i);
        let broken = over.and_then(|_| line[..end].rfind(' ')).map(|blank| blank + 1);
        let (piece, left) = line.split_at(broken.filter(|at| *at > end / 2).unwrap_or(end));
        rest = over.map(|_| left);
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_characters_and_always_end() {
        let of = |line: &'static str, width| pieces(line, width).collect::<Vec<_>>();
        assert_eq!(of("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(of("", 4), [""]);
        assert_eq!(of("loss 6.2303 at step 7", 9), ["loss ", "6.2303 ", "at step 7"]);
        assert_eq!(of("loss 6.2303", 8), ["loss ", "6.2303"]);
        assert_eq!(of("a /very/long/path", 8), ["a /very/", "long/pat", "h"]);
        assert_eq!(of("日本語", 5), ["日本", "語"]);
        assert_eq!(of("日本", 1), ["日", "本"]);
        assert_eq!(of("ab", 0), ["a", "b"]);
    }
}
