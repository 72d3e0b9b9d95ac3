//! The filter language: words that rows must or must not contain, in any column or in a named one.
//!
//! ```text
//! train v4-8         both words, in any column and in any case
//! !dead              rows without it
//! owner:dara         in that column; also `!owner:dara`, `owner:"two words"`
//! ~^w-[0-9]+$        a regular expression; also `/^w-[0-9]+$/` and `type:~v4-(8|16)`
//! "two words"        with the blank between them
//! ```

use regex::{Regex, RegexBuilder};
use std::fmt;

/// Maximum size of a compiled regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 1 << 20;
/// Pairs of names that operators use for the same column.
const SYNONYMS: [[&str; 2]; 3] = [["state", "status"], ["command", "entrypoint"], ["node", "name"]];

/// Why a text is not a valid filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The table has no such column.
    #[error("no column `{name}`; columns: {columns}")]
    Column {
        /// The name as typed.
        name: String,
        /// The names of the table's columns.
        columns: String,
    },
    /// The regular expression is invalid.
    #[error("invalid regular expression `{pattern}`: {why}")]
    Regex {
        /// The expression as typed.
        pattern: String,
        /// The reason, in the words of the parser.
        why: String,
    },
}

/// A filter, compiled: matching a row allocates nothing.
#[derive(Clone, Default)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
}

/// What a row must or must not contain.
#[derive(Clone)]
struct Term {
    /// The column to search; `None` for all of them.
    column: Option<Box<str>>,
    needle: Needle,
    is_inverted: bool,
}

#[derive(Clone)]
enum Needle {
    /// In lower case.
    Text(Box<str>),
    Regex(Regex),
}

impl Filter {
    /// Compiles the text of a filter. `columns` are the names that may precede a colon; if it is empty, a colon is an
    /// ordinary character.
    pub fn parse(text: &str, columns: &[&str]) -> Result<Self, FilterError> {
        let mut terms = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (term, after) = term(rest, columns)?;
            terms.extend(term);
            rest = after.trim_start();
        }
        Ok(Self { text: text.to_owned(), terms })
    }

    /// The filter as typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether every row matches.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The lines of a labeled text that match, in their label or their text; all of them if the text of the filter is
    /// empty or invalid.
    pub fn of_lines<'l>(text: &str, lines: &'l [(String, String)]) -> Vec<&'l (String, String)> {
        Self::numbers_of_lines(text, lines).into_iter().map(|number| &lines[number]).collect()
    }

    /// The numbers of the same lines, in ascending order.
    pub fn numbers_of_lines(text: &str, lines: &[(String, String)]) -> Vec<usize> {
        let filter = Self::parse(text, &[]).unwrap_or_default();
        let is_shown =
            |(label, text): &(String, String)| filter.accepts([("", label.as_str()), ("", text.as_str())]);
        (0..lines.len()).filter(|number| is_shown(&lines[*number])).collect()
    }

    /// Whether a row with these fields matches, each a column's name and its text.
    pub fn accepts<'a>(&self, fields: impl IntoIterator<Item = (&'a str, &'a str), IntoIter: Clone>) -> bool {
        self.matches_row(fields, &[], |_| None)
    }

    /// The same for a row of a table, whose columns outside the fields are queried for their text: the one that a term
    /// names, and those of `words` for a term that names none.
    pub fn matches_row<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, &'a str), IntoIter: Clone>,
        words: &[&str],
        text_of: impl Fn(&str) -> Option<String>,
    ) -> bool {
        let fields = fields.into_iter();
        let is_in = |term: &Term| {
            let is_in_column = |id: &str| text_of(id).is_some_and(|text| term.needle.is_in(&text));
            let is_in_columns = || match term.column.as_deref() {
                Some(named) => is_in_column(named),
                None => words.iter().any(|id| is_in_column(id)),
            };
            fields.clone().any(|field| term.is_in(field)) || is_in_columns()
        };
        self.terms.iter().all(|term| is_in(term) != term.is_inverted)
    }

    /// The field by which a row matches if none of the `seen` texts shows the match, and the text of that field.
    pub fn unseen<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, &'a str), IntoIter: Clone>,
        seen: &[impl AsRef<str>],
    ) -> Option<(&'a str, &'a str)> {
        self.hidden(fields, seen, |_| true)
    }

    /// The name of that field, for a word of the filter that does not itself name a column.
    pub fn unseen_field<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, &'a str), IntoIter: Clone>,
        seen: &[impl AsRef<str>],
    ) -> Option<&'a str> {
        self.hidden(fields, seen, |term| term.column.is_none()).map(|(name, _)| name)
    }

    fn hidden<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, &'a str), IntoIter: Clone>,
        seen: &[impl AsRef<str>],
        is_wanted: fn(&Term) -> bool,
    ) -> Option<(&'a str, &'a str)> {
        let fields = fields.into_iter();
        let is_seen = |term: &Term| seen.iter().any(|text| term.needle.is_in(text.as_ref()));
        let is_hidden = |term: &&Term| !term.is_inverted && is_wanted(term) && !is_seen(term);
        let mut hidden = self.terms.iter().filter(is_hidden);
        hidden.find_map(|term| fields.clone().find(|field| term.is_in(*field)))
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.text).finish()
    }
}

impl Term {
    fn is_in(&self, (column, text): (&str, &str)) -> bool {
        self.column.as_deref().is_none_or(|wanted| wanted == column) && self.needle.is_in(text)
    }
}

/// The first term of a text that does not begin with a space, and the text after it. An incomplete term is `None`: `!`,
/// `owner:`, `~`.
fn term<'t>(text: &'t str, columns: &[&str]) -> Result<(Option<Term>, &'t str), FilterError> {
    let (is_inverted, text) = text.strip_prefix('!').map_or((false, text), |after| (true, after));
    let (column, text) = column(text, columns)?;
    let (needle, after) = if let Some(quoted) = text.strip_prefix('"') {
        let (word, after) = quoted.split_once('"').unwrap_or((quoted, ""));
        (Some(Needle::text(word)), after)
    } else if let Some((pattern, after)) = between_slashes(text) {
        (Some(Needle::regex(pattern)?), after)
    } else {
        let (word, after) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        let needle = match word.strip_prefix('~') {
            Some("") => None,
            Some(pattern) => Some(Needle::regex(pattern)?),
            None => Some(Needle::text(word)),
        };
        (needle, after)
    };
    let needle = needle.filter(|needle| !matches!(needle, Needle::Text(word) if word.is_empty()));
    Ok((needle.map(|needle| Term { column, needle, is_inverted }), after))
}

/// The column before a colon, if any, and the text after it. Addresses (`gs://`) have none.
fn column<'t>(text: &'t str, columns: &[&str]) -> Result<(Option<Box<str>>, &'t str), FilterError> {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '-' || c == '_';
    let name = &text[..text.find(|c| !is_letter(c)).unwrap_or(text.len())];
    let after = text[name.len()..].strip_prefix(':').filter(|after| !after.starts_with("//"));
    match after {
        Some(after) if !name.is_empty() && !columns.is_empty() => {
            let known = known(&name.to_ascii_lowercase(), columns)
                .ok_or_else(|| FilterError::Column { name: name.to_owned(), columns: columns.join(", ") })?;
            Ok((Some(known.into()), after))
        }
        _ => Ok((None, text)),
    }
}

/// The column with this name or a synonym of it, or the only one with this prefix.
fn known<'c>(name: &str, columns: &[&'c str]) -> Option<&'c str> {
    let of = |name: &str| columns.iter().find(|column| **column == name).copied();
    let synonym = || {
        let pair = SYNONYMS.iter().find(|pair| pair.contains(&name))?;
        pair.iter().find_map(|name| of(name))
    };
    let beginning = || {
        let mut begin = columns.iter().filter(|column| column.starts_with(name));
        begin.next().filter(|_| begin.next().is_none()).copied()
    };
    of(name).or_else(synonym).or_else(beginning)
}

/// The text between two slashes, the second of which ends a word, and the text after them. A path that is being typed
/// has no such end.
fn between_slashes(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('/')?;
    let ends = inside.match_indices('/').map(|(at, _)| at);
    let end = ends.filter(|at| *at > 0).find(|at| {
        let next = inside[at + 1..].chars().next();
        next.is_none_or(char::is_whitespace)
    })?;
    Some((&inside[..end], &inside[end + 1..]))
}

impl Needle {
    fn is_in(&self, text: &str) -> bool {
        match self {
            Self::Text(needle) => contains(text, needle),
            Self::Regex(regex) => regex.is_match(text),
        }
    }

    fn text(word: &str) -> Self {
        Self::Text(word.to_lowercase().into())
    }

    fn regex(pattern: &str) -> Result<Self, FilterError> {
        let compiled = RegexBuilder::new(pattern).case_insensitive(true).size_limit(MAX_REGEX_BYTES).build();
        compiled.map(Self::Regex).map_err(|e| {
            let why = e.to_string();
            // A syntax error takes several lines; the last one has the reason.
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            FilterError::Regex { pattern: pattern.to_owned(), why }
        })
    }
}

/// Whether the text contains the needle, ignoring case; the needle is in lower case.
fn contains(text: &str, needle: &str) -> bool {
    if needle.is_ascii() {
        let (text, needle) = (text.as_bytes(), needle.as_bytes());
        return text.windows(needle.len().max(1)).any(|part| part.eq_ignore_ascii_case(needle));
    }
    text.char_indices().any(|(at, _)| {
        let mut lower = text[at..].chars().flat_map(char::to_lowercase);
        needle.chars().all(|c| lower.next() == Some(c))
    })
}

#[cfg(test)]
mod tests {
    use crate::app::table::filter::*;
    use proptest::prelude::*;

    const COLUMNS: &[&str] = &["job", "owner", "state", "command", "cluster"];

    fn parse(text: &str) -> Filter {
        Filter::parse(text, COLUMNS).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn row() -> [(&'static str, &'static str); 5] {
        [
            ("job", "ray-run-Dara-exp12"),
            ("owner", "dara"),
            ("state", "failed"),
            ("command", "python train.py --out gs://bucket/Über x:y"),
            ("cluster", "marin-us-central2"),
        ]
    }

    #[test]
    fn a_row_is_matched_by_words_columns_and_expressions() {
        for (text, is_matched) in [
            ("", true),
            ("  ", true),
            ("EXP12 python", true),
            ("exp12 nothing", false),
            ("!exp12", false),
            ("!nothing train", true),
            ("!", true),
            ("owner:dara", true),
            ("owner:exp12", false),
            ("Own:DARA", true),
            ("!owner:dara", false),
            ("owner:", true),
            ("status:failed entrypoint:train cluster:us", true),
            ("\"train.py --out\"", true),
            ("command:\"out train\"", false),
            ("command:\"train.py", true),
            ("~exp[0-9]+$", true),
            ("~", true),
            ("/PYTHON train\\.py/ owner:~^d", true),
            ("/python eval/", false),
            ("job:/^ray-.*\\d$/", true),
            ("!job:~^ray", false),
            ("/bucket/", true),
            ("/bucket/ü", true),
            ("gs://bucket", true),
            ("ÜBER", true),
            ("übers", false),
            ("10:30", false),
        ] {
            assert_eq!(parse(text).accepts(row()), is_matched, "{text}");
        }
        assert!(parse("! owner:").is_empty() && !parse("x").is_empty());
        assert_eq!(parse(" a  b").text(), " a  b");
        assert!(Filter::parse("x:y", &[]).unwrap().accepts(row()), "without columns a colon is a character");
    }

    #[test]
    fn a_column_outside_the_fields_is_queried_for_its_text() {
        let columns = [COLUMNS, &["activity"]].concat();
        let admits_with = |text: &str, words: &[&str]| {
            let filter = Filter::parse(text, &columns).unwrap();
            filter.matches_row(row(), words, |column| (column == "activity").then(|| "step 1,200".to_owned()))
        };
        let accepts = |text: &str| admits_with(text, &[]);
        assert!(
            accepts("activity:STEP") && !accepts("activity:train") && accepts("!activity:train owner:dara")
        );
        assert!(!accepts("step"), "a term without the column's name does not search it");
        let accepts = |text: &str| admits_with(text, &["activity"]);
        assert!(accepts("step") && !accepts("!step") && !accepts("owner:step"), "unless it is in `words`");
    }

    #[test]
    fn a_match_in_a_hidden_column_is_named() {
        let unseen = |text: &str| parse(text).unseen(row(), &["ray-run-dara-exp12", "dara"]);
        assert_eq!(unseen("exp12"), None);
        assert_eq!(unseen("!nothing"), None);
        assert_eq!(unseen("dara failed"), Some(("state", "failed")));
        assert_eq!(unseen("dara train").map(|(name, _)| name), Some("command"));
        let field = |text: &str| parse(text).unseen_field(row(), &["ray-run-dara-exp12", "dara"]);
        assert_eq!((field("dara"), field("train dara")), (None, Some("command")));
        assert_eq!(field("command:train"), None, "the filter names it");
    }

    #[test]
    fn errors_name_the_cause() {
        let error = |text| Filter::parse(text, COLUMNS).map(|_| ()).unwrap_err().to_string();
        assert_eq!(error("foo:x"), "no column `foo`; columns: job, owner, state, command, cluster");
        assert!(error("c:x").contains("no column `c`"), "the prefix is ambiguous");
        assert_eq!(error("a ~(b"), "invalid regular expression `(b`: unclosed group");
        assert!(error("/a{1000}{1000}{1000}/").contains("invalid regular expression"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_filter_or_an_error(text in ".{0,30}", typed in "[a-z!:~/\" ]{0,20}") {
            for text in [text, typed] {
                if let Ok(filter) = Filter::parse(&text, COLUMNS) {
                    prop_assert!(!filter.is_empty() || filter.accepts(row()));
                }
            }
        }

        #[test]
        fn a_word_is_found_in_any_case(before in "[a-zé]{0,5}", word in "[a-zäéß]{1,5}", after in "[a-z]{0,5}") {
            let text = format!("{before}{}{after}", word.to_uppercase());
            let upper = word.to_uppercase();
            // Some letters become two in upper case and do not convert back.
            if upper.to_lowercase() == word {
                let filter = Filter::parse(&format!("\"{word}\""), COLUMNS).unwrap();
                prop_assert!(filter.accepts([("job", text.as_str())]), "{text} {word}");
            }
        }
    }
}
