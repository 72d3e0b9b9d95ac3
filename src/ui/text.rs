//! Text for the screen: lines that fit.

use std::borrow::Cow;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};
use unicode_width::UnicodeWidthStr;

/// Wraps text into lines of that width. A line that goes on begins where the first one does; only a word longer than a
/// line is split.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let indent = &text[..text.len() - text.trim_start_matches(' ').len()];
    let options = Options::new(width)
        .subsequent_indent(indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).into_iter().map(Cow::into_owned).collect()
}

/// The text with a capital at its beginning, as titles have.
pub fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

/// A value as a bar of one cell: the lowest at `low` or below, the highest at `high` or above.
pub fn level(value: f64, low: f64, high: f64) -> &'static str {
    const LEVELS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let share = if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
    LEVELS[(share * (LEVELS.len() - 1) as f64).round() as usize]
}

/// A line of labels beside texts.
pub struct Line {
    /// The number of the row that it is of.
    pub row: usize,
    /// The label; empty beside the lines that go on.
    pub label: String,
    /// The text, indented where it goes on.
    pub text: String,
}

/// Labels beside texts, long texts over several lines. A text that has no label, nor goes on from one that has,
/// takes the whole width, and so does a label that is longer than its column, which has `most` cells at most. The width of the
/// labels comes with them. `wrap` wraps the text of a label.
pub fn lay_out(
    rows: &[&(String, String)],
    width: usize,
    most: usize,
    wrap: impl Fn(&str, &str, usize) -> Vec<String>,
) -> (Vec<Line>, usize) {
    let beside = rows.iter().filter(|(_, text)| !text.is_empty()).map(|(label, _)| label.width());
    let label = beside.max().unwrap_or(0).min(width / 3).min(most);
    let indent = if label > 0 { label + 2 } else { 0 };
    let mut lines = Vec::with_capacity(rows.len());
    for (row, (name, text)) in rows.iter().enumerate() {
        let line = |label: String, text: String| Line { row, label, text };
        if name.is_empty() {
            lines.extend(wrap(name, text, width.max(1)).into_iter().map(|text| line(String::new(), text)));
            continue;
        }
        let is_long = name.width() > label;
        if is_long {
            lines.extend(wrap("", name, width.max(1)).into_iter().map(|name| line(name, String::new())));
        }
        if is_long && text.is_empty() {
            continue;
        }
        for (i, text) in wrap(name, text, width.saturating_sub(indent).max(1)).into_iter().enumerate() {
            let first = i == 0 && !is_long;
            let text = if first { text } else { format!("{}{text}", " ".repeat(indent)) };
            lines.push(line(if first { name.clone() } else { String::new() }, text));
        }
    }
    (lines, label)
}

#[cfg(test)]
mod tests {
    use super::wrap;
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    proptest! {
        #[test]
        fn nothing_is_lost_or_too_wide(text in " {0,4}[a-z日\\- ]{0,60}", width in 0_usize..30) {
            let lines = wrap(&text, width);
            let indent = text.len() - text.trim_start().len();
            let room = width.max(indent + 2);
            prop_assert!(lines.iter().all(|line| line.width() <= room), "{:?}", lines);
            prop_assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        }
    }

    #[test]
    fn a_line_that_goes_on_begins_where_the_first_does() {
        assert_eq!(wrap("opens it  (open)", 8), ["opens it", "(open)"]);
        assert_eq!(wrap("opens it  (open)", 10), ["opens it", "(open)"]);
        assert_eq!(wrap("  the hint of it", 10), ["  the hint", "  of it"]);
        assert_eq!(wrap("a submission-id", 8), ["a", "submissi", "on-id"]);
        assert_eq!(wrap("", 8), [""]);
    }
}
