//! Text layout for the screen.

use std::borrow::Cow;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};
use unicode_width::UnicodeWidthStr;

/// Wraps text into lines of that width. Continuation lines have the indentation of the first one; only a word longer
/// than a line is split.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let indent = &text[..text.len() - text.trim_start_matches(' ').len()];
    let options = Options::new(width)
        .subsequent_indent(indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).into_iter().map(Cow::into_owned).collect()
}

/// The text with its first letter in upper case, as in titles.
pub fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

/// A value as a bar of one cell: the lowest bar for `low` or less, the highest for `high` or more.
pub fn level(value: f64, low: f64, high: f64) -> &'static str {
    const LEVELS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let share = if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
    LEVELS[(share * (LEVELS.len() - 1) as f64).round() as usize]
}

/// A line of a label and a text.
pub struct Line {
    /// Index of its row.
    pub row: usize,
    /// The label; empty on continuation lines.
    pub label: String,
    /// The text, indented on continuation lines.
    pub text: String,
}

/// Lays out labels and texts in two columns, wrapping long texts. A text without a label that does not continue a
/// labeled one takes the whole width, and so does a label longer than its column, whose maximum width is `most`. Also
/// returns the width of the labels. `wrap` wraps the text of a label.
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
    fn continuation_lines_keep_the_indentation() {
        assert_eq!(wrap("opens it  (open)", 8), ["opens it", "(open)"]);
        assert_eq!(wrap("opens it  (open)", 10), ["opens it", "(open)"]);
        assert_eq!(wrap("  the hint of it", 10), ["  the hint", "  of it"]);
        assert_eq!(wrap("a submission-id", 8), ["a", "submissi", "on-id"]);
        assert_eq!(wrap("", 8), [""]);
    }
}
