//! Glyphs, and their replacements if only ASCII characters may be shown.
//!
//! Drawing uses the glyphs of this table freely. With [`Glyphs::Plain`] the finished screen is translated cell by cell,
//! so that a terminal, font or screen reader without them shows ASCII in the same columns. Letters in text from
//! clusters and users are kept; box-drawing characters, blocks and braille in it are translated too.

use ratatui::buffer::Buffer;

/// Which glyphs are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Glyphs {
    /// Boxes, bars and symbols of Unicode.
    #[default]
    Full,
    /// ASCII only.
    Plain,
}

impl Glyphs {
    /// Translates a drawn screen.
    pub(super) fn apply(self, buf: &mut Buffer) {
        if self == Self::Full {
            return;
        }
        for cell in &mut buf.content {
            let mut characters = cell.symbol().chars();
            if let (Some(glyph), None) = (characters.next(), characters.next())
                && let Some(plain) = plain(glyph)
            {
                cell.set_char(plain);
            }
        }
    }
}

/// Glyphs, and the ASCII character that replaces each of them.
const PLAIN: &[(&str, char)] = &[
    // States.
    ("●", '*'),
    ("○", 'o'),
    ("◐", '~'),
    ("◌", ':'),
    ("✕", 'x'),
    ("✓", '+'),
    ("■", '#'),
    ("◇", '?'),
    ("▲", 'A'),
    ("⚑", '!'),
    ("⌂", '@'),
    // Marks and directions.
    ("◆", '+'),
    ("▸›→≥", '>'),
    ("‹←≤", '<'),
    ("▾▼↓", 'v'),
    ("▴↑", '^'),
    // Punctuation. Like Emacs and nano, which mark a continued line with $.
    ("…", '$'),
    ("·┆", '|'),
    ("•", '*'),
    ("×", 'x'),
    ("–—−", '-'),
    // Bars and trends, from low to high.
    ("▁", '_'),
    ("░▂", '.'),
    ("▃▒", '-'),
    ("▄▓", '='),
    ("▅", '+'),
    ("▆", '*'),
    ("▇█▉▊▋", '#'),
    ("▌▍▎▏▐", '|'),
    // Box drawing.
    ("─━═╌╍┄┅┈┉╴╶╸╺", '-'),
    ("│┃║╎╏┇┊┋╵╷╹╻", '|'),
    ("╱", '/'),
    ("╲", '\\'),
    // Braille without dots.
    ("\u{2800}", ' '),
];

/// The ASCII character that replaces a glyph; `None` for other characters.
pub(super) fn plain(glyph: char) -> Option<char> {
    if glyph.is_ascii() {
        return None;
    }
    let row = PLAIN.iter().find(|(glyphs, _)| glyphs.contains(glyph));
    row.map(|(_, plain)| *plain).or(match glyph {
        // Junctions of box lines, other blocks, braille.
        '\u{2500}'..='\u{257f}' => Some('+'),
        '\u{2580}'..='\u{259f}' => Some('#'),
        '\u{2801}'..='\u{28ff}' => Some('*'),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::text::labels;
    use crate::diagnose::Severity;
    use crate::model::{JobStatus, NodeState};
    use ratatui::layout::Rect;
    use ratatui::style::Style;
    use std::collections::BTreeSet;

    #[test]
    fn a_screen_keeps_its_columns_and_its_letters() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 12, 1));
        buf.set_string(0, 0, "╭─ ●▇░ 日é ⠿│", Style::new());
        Glyphs::Full.apply(&mut buf);
        assert_eq!(buf[(3, 0)].symbol(), "●");
        Glyphs::Plain.apply(&mut buf);
        let seen: Vec<&str> = buf.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(seen.concat().replace("日 ", "日"), "+- *#. 日é *");
    }

    #[test]
    fn bars_and_trends_keep_their_order() {
        let steps = "▁▂▃▄▅▆▇".chars().map(|c| plain(c).unwrap());
        assert_eq!(steps.collect::<String>(), "_.-=+*#");
    }

    /// No state is distinguished by color alone: each has its own glyph, also in ASCII.
    #[test]
    fn every_state_has_its_own_glyph() {
        let nodes = [NodeState::Alive, NodeState::Idle, NodeState::Draining, NodeState::Dead];
        let jobs = [
            JobStatus::Pending,
            JobStatus::Running,
            JobStatus::Succeeded,
            JobStatus::Stopped,
            JobStatus::Failed,
            JobStatus::Unknown,
        ];
        let issues = [Severity::Bad, Severity::Warn, Severity::Info].map(|s| labels::severity_mark(s).0);
        for glyphs in [
            issues.to_vec(),
            nodes.map(|s| labels::node(s).0).to_vec(),
            jobs.map(|s| labels::job(s).0).to_vec(),
        ] {
            let ascii = |glyph: &str| glyph.chars().map(|c| plain(c).unwrap_or(c)).collect::<String>();
            let full: BTreeSet<&str> = glyphs.iter().copied().collect();
            let plain: BTreeSet<String> = glyphs.iter().map(|glyph| ascii(glyph)).collect();
            assert!(plain.iter().all(|glyph| glyph.is_ascii()), "{plain:?}");
            assert_eq!((full.len(), plain.len()), (glyphs.len(), glyphs.len()), "{glyphs:?}");
        }
    }
}
