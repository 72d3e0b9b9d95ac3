//! A line of a driver's log that stands for equal lines, of which Ray printed only this one: `... [repeated 12x across
//! cluster]`.
//!
//! Ray's `LogDeduplicator` (`ray/_private/ray_logging/__init__.py`) treats lines as equal if they have the same words,
//! ignoring words with a digit. The lines themselves are in the files of the workers.

use super::prefix::prefixed;

/// Maximum number of words in a pattern; anything may follow them.
const MAX_WORDS: usize = 32;
/// Maximum total length of the words in a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1024;
/// A word with a digit.
const NUMBER: &str = r"\S*[0-9]\S*";

/// The lines that such a line stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The number of lines that it stands for, itself included.
    pub count: u64,
    /// The latest of them, without the writer's prefix and without Ray's suffix.
    pub text: String,
    /// A regular expression ([`super::Pattern`], [`super::Grep`]) for whole lines of the workers' files that Ray treats
    /// as equal to this one. It contains no single quote, so that it can be single-quoted in a shell.
    pub pattern: String,
}

impl Repeated {
    /// Reads a line; `None` if it has no mark.
    pub fn of(line: &str) -> Option<Self> {
        let split = prefixed(line);
        (split.times > 1).then(|| Self::new(split.text, split.times.into()))
    }

    /// From the text of a line without the mark, and the number of lines.
    pub(super) fn new(text: &str, count: u64) -> Self {
        Self { count, text: text.to_owned(), pattern: pattern_of(text) }
    }
}

/// The pattern of the lines that Ray treats as equal to this text. Words with digits are optional.
fn pattern_of(text: &str) -> String {
    let mut pattern = "^".to_owned();
    let (mut bytes, mut is_cut, mut is_after_numbers) = (0, false, false);
    for (index, word) in text.split_whitespace().enumerate() {
        bytes += word.len();
        if index >= MAX_WORDS || bytes > MAX_PATTERN_BYTES {
            is_cut = true;
            break;
        }
        let is_number = word.bytes().any(|b| b.is_ascii_digit());
        match (is_number, is_after_numbers) {
            (true, true) => {}
            (true, false) if index == 0 => pattern.extend([r"(\s*", NUMBER, ")*"]),
            (true, false) => pattern.extend([r"(\s+", NUMBER, ")*"]),
            (false, _) => {
                pattern.push_str(if index == 0 || pattern.len() == 1 { r"\s*" } else { r"\s+" });
                pattern.push_str(&regex::escape(word).replace('\'', "."));
            }
        }
        is_after_numbers = is_number;
    }
    pattern.push_str(if is_cut { "" } else { r"\s*$" });
    pattern
}

#[cfg(test)]
mod tests {
    use super::super::{Grep, Pattern};
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> Pattern {
        let line = format!("(train pid=7, ip=10.0.0.1) {text} [repeated 12x across cluster]");
        let found = Repeated::of(&line).unwrap();
        assert_eq!((found.count, found.text.as_str()), (12, text));
        let pattern = Pattern::parse(&found.pattern).unwrap();
        assert!(Grep::of(&pattern).unwrap().is_some(), "{}", found.pattern);
        pattern
    }

    #[test]
    fn the_pattern_finds_the_real_lines() {
        let shard = pattern("loading shard 3 of s3://bucket/7.zst (retry)");
        assert_eq!(
            shard.text(),
            r"^\s*loading\s+shard(\s+\S*[0-9]\S*)*\s+of(\s+\S*[0-9]\S*)*\s+\(retry\)\s*$"
        );
        for (line, is_equal) in [
            ("loading shard 3 of s3://bucket/7.zst (retry)", true),
            ("  loading shard    12 of s3://bucket/8.zst (retry)\t", true),
            ("loading shard 3 of 4 5 6 (retry)", true),
            ("loading shard 3 of s3://bucket/7.zst (retry) failed", false),
            ("not loading shard 3 of s3://bucket/7.zst (retry)", false),
            ("loading shard three of s3://bucket/7.zst (retry)", false),
        ] {
            assert_eq!(shard.is_match(line), is_equal, "{line}");
        }
        let log = pattern("I1121 08:11:00.582 123 train.py:88] mesh is ready");
        assert!(log.is_match("I1122 09:00:01.001 4 train.py:88] mesh is ready"));
        assert!(!log.is_match("I1122 09:00:01.001 4 train.py:88] the mesh is ready"));
        let quoted = pattern("worker 7 isn't ready");
        assert!(quoted.is_match("worker 8 isn't ready") && !quoted.text().contains('\''));
        assert!(pattern("12 13").is_match("4711 1.5") && !pattern("12 13").is_match("4711 x"));
    }

    #[test]
    fn a_line_without_the_mark_is_not_repeated() {
        for line in
            ["", "(train pid=7) step 3", "[repeated 12x across cluster]", "x [repeated 1x across cluster]"]
        {
            assert_eq!(Repeated::of(line), None, "{line}");
        }
    }

    #[test]
    fn the_pattern_of_a_long_line_covers_its_beginning() {
        let long = pattern("word 7 ".repeat(5_000).trim_end());
        assert!(long.text().len() < 4_096 && long.is_match(&"word 8 ".repeat(4_000)));
        assert!(pattern(&"x".repeat(100_000)).is_match("anything"));
    }

    /// Ray's `_canonicalise_log_line`.
    fn canonical(line: &str) -> String {
        let words = line.split_whitespace().filter(|word| !word.bytes().any(|b| b.is_ascii_digit()));
        words.collect::<Vec<_>>().join(" ")
    }

    proptest! {
        #[test]
        fn lines_that_ray_treats_as_equal_match(
            words in prop::collection::vec("[a-c(.*\\[\\\\é]{1,3}", 0..5),
            numbers in prop::collection::vec("[a-c]{0,2}[0-9][x.]{0,2}", 12),
            kept in prop::collection::vec(any::<bool>(), 12),
        ) {
            // The same words with other numbers at the same places.
            let line = |numbers: &[String]| {
                let mut line = Vec::new();
                for at in 0..=words.len() {
                    line.extend(kept[at].then(|| numbers[at].clone()));
                    line.extend(words.get(at).cloned());
                }
                line.join(" ")
            };
            let (one, other) = (line(&numbers[..6]), line(&numbers[6..]));
            prop_assume!(!one.is_empty());
            prop_assert_eq!(canonical(&one), canonical(&other));
            prop_assert!(pattern(&one).is_match(&other), "{} {}", one, other);
        }
    }
}
