//! Text for the screen: lines that fit.

use std::borrow::Cow;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

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
