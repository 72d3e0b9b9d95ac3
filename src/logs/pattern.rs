//! Search patterns: regular expressions with smart case, as in ripgrep.

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{self, Ast, Visitor, parse::Parser};
use std::convert::Infallible;
use std::ops::Range;
use std::str::FromStr;

/// Maximum size of a compiled regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 4 << 20;

/// A compiled regular expression. It is case-insensitive unless it contains an upper-case letter (ripgrep's
/// `--smart-case`). The empty pattern matches nothing.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    text: String,
    compiled: Option<Compiled>,
}

#[derive(Clone, Debug)]
struct Compiled {
    regex: Regex,
    syntax: Ast,
    any_case: bool,
}

/// Why a text is not a valid regular expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid regular expression: {why}{}", at.map_or_else(String::new, |at| format!(" (column {at})")))]
pub struct PatternError {
    /// The reason, as reported by the parser.
    pub why: String,
    /// The position in the text, in characters, from 1.
    pub at: Option<usize>,
}

/// Parses command-line options.
impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

impl Pattern {
    /// Compiles a text.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        if let Some(at) = text.find(['\n', '\r']) {
            let why = "a pattern cannot contain a line break; use a|b for alternatives".to_owned();
            return Err(PatternError { why, at: Some(text[..at].chars().count() + 1) });
        }
        let syntax = Parser::new().parse(text).map_err(|e| PatternError {
            why: e.kind().to_string(),
            at: Some(text[..e.span().start.offset].chars().count() + 1),
        })?;
        let any_case = is_any_case(&syntax);
        let regex = RegexBuilder::new(text).case_insensitive(any_case).size_limit(MAX_REGEX_BYTES).build();
        let regex = regex.map_err(|e| {
            // The message of a syntax error has several lines, with the reason on the last.
            let why = e.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            PatternError { why, at: None }
        })?;
        Ok(Self { text: text.to_owned(), compiled: Some(Compiled { regex, syntax, any_case }) })
    }

    /// The text as typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern is empty, so that it matches nothing.
    pub fn is_empty(&self) -> bool {
        self.compiled.is_none()
    }

    /// Whether it is case-insensitive.
    pub fn is_any_case(&self) -> bool {
        self.compiled.as_ref().is_some_and(|c| c.any_case)
    }

    /// Its syntax tree; `None` for the empty pattern.
    pub(super) fn syntax(&self) -> Option<&Ast> {
        self.compiled.as_ref().map(|c| &c.syntax)
    }

    /// Whether a line matches.
    pub fn is_match(&self, line: &str) -> bool {
        self.compiled.as_ref().is_some_and(|c| c.regex.is_match(line))
    }

    /// The byte ranges of its matches in a text. Empty matches (`x*`) are omitted.
    pub fn matches_in(&self, text: &str) -> Vec<Range<usize>> {
        let Some(compiled) = &self.compiled else { return Vec::new() };
        compiled.regex.find_iter(text).map(|found| found.range()).filter(|range| !range.is_empty()).collect()
    }
}

/// Whether the expression has no upper-case letter. Escapes such as `\S` and names of groups do not count.
fn is_any_case(syntax: &Ast) -> bool {
    let Ok(has_upper) = ast::visit(syntax, Upper(false));
    !has_upper
}

/// Searches for an upper-case letter.
struct Upper(bool);

impl Visitor for Upper {
    type Output = bool;
    type Err = Infallible;

    fn finish(self) -> Result<bool, Infallible> {
        Ok(self.0)
    }

    fn visit_pre(&mut self, node: &Ast) -> Result<(), Infallible> {
        if let Ast::Literal(literal) = node {
            self.0 |= literal.c.is_uppercase();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ast::ClassSetItem) -> Result<(), Infallible> {
        self.0 |= match item {
            ast::ClassSetItem::Literal(literal) => literal.c.is_uppercase(),
            ast::ClassSetItem::Range(range) => range.start.c.is_uppercase() || range.end.c.is_uppercase(),
            _ => false,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn patterns_are_case_insensitive_unless_they_have_a_capital() {
        for (text, line, expected) in [
            ("loss", "LOSS 2", true),
            ("Loss", "loss 2", false),
            ("Loss", "Loss 2", true),
            (r"\Soss", "LOSS", true),
            (r"(?P<Name>oss)", "LOSS", true),
            ("[a-c]1", "B1", true),
            ("[A-C]1", "b1", false),
            ("straße", "STRAßE", true),
            ("step [0-9]+ ", "step 12 loss", true),
        ] {
            assert_eq!(pattern(text).is_match(line), expected, "{text} in {line}");
        }
    }

    #[test]
    fn matches_in_a_line_are_found() {
        assert_eq!(pattern("loss").matches_in("loss 2, LOSS 3"), [0..4, 8..12]);
        assert_eq!(pattern("[0-9]*").matches_in("a 12 3"), [2..4, 5..6]);
        assert!(pattern("").matches_in("loss").is_empty() && !pattern("").is_match("loss"));
    }

    #[test]
    fn an_invalid_expression_reports_reason_and_position() {
        for (text, message) in [
            ("(loss", "invalid regular expression: unclosed group (column 1)"),
            ("é[a-", "invalid regular expression: unclosed character class (column 2)"),
            ("*", "invalid regular expression: repetition operator missing expression (column 1)"),
            (
                "(?=x)",
                "invalid regular expression: look-around, including look-ahead and look-behind, is not supported (column 1)",
            ),
        ] {
            assert_eq!(Pattern::parse(text).unwrap_err().to_string(), message);
        }
        let large = Pattern::parse("(x{1000}){1000}").unwrap_err();
        assert!(large.at.is_none() && large.why.contains("exceeds size limit"), "{large}");
    }
}
