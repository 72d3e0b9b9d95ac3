//! A pattern as an extended regular expression, to search a file on its host with `grep -E`.
//!
//! Extended regular expressions (POSIX.1, 9.4) are the one dialect that every host's grep supports. The expression is
//! generated from the pattern's syntax tree, so that it either has the same meaning there or is refused. Grep matches
//! the bytes of a line, whereas the reader sees what a terminal displays: a second expression also matches across color
//! sequences and overwritten text. It may match more lines than the pattern; lines found by grep are matched again
//! here.

use super::Pattern;
use regex_syntax::ast::{
    Assertion, AssertionKind, Ast, ClassAsciiKind, ClassBracketed, ClassPerl, ClassPerlKind, ClassSet,
    ClassSetItem, FlagsItemKind, GroupKind, RepetitionKind, RepetitionRange,
};
use std::fmt::{self, Write as _};

/// The options and the expression for `grep -E`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grep {
    /// The extended regular expression; not yet quoted for a shell.
    pub expression: String,
    /// The same for lines as a terminal displays them: color and erase sequences (ECMA-48, 5.4) may be anywhere, and
    /// the line begins after the last carriage return.
    pub drawn: String,
    /// Whether `-i` is needed.
    pub any_case: bool,
    /// Whether it is all ASCII. Then `LC_ALL=C` makes grep compare bytes, which is fast and works with any file.
    pub is_ascii: bool,
}

/// Reason why a pattern cannot be used with grep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not supported by grep on the host; rewrite it, e.g. with [0-9] or (a|b)")]
pub struct NotForGrep(&'static str);

impl Grep {
    /// The pattern as an extended regular expression; an error if a part of it cannot be expressed. `None` for the
    /// empty pattern.
    pub fn of(pattern: &Pattern) -> Result<Option<Self>, NotForGrep> {
        let Some(syntax) = pattern.syntax() else { return Ok(None) };
        let written = |drawn| {
            let mut writer = Writer { out: String::new(), any_case: pattern.is_any_case(), drawn };
            writer.any(syntax).map(|()| writer)
        };
        let (plain, drawn) = (written(false)?, written(true)?);
        Ok(Some(Self {
            expression: plain.out,
            drawn: drawn.out,
            any_case: plain.any_case,
            is_ascii: pattern.text().is_ascii(),
        }))
    }
}

/// Optional color and erase sequences.
const SEQUENCES: &str = "(\x1b\\[[0-9;:?]*[A-Za-z])*";

/// Writes one of the expressions.
struct Writer {
    out: String,
    any_case: bool,
    /// Whether it is for lines as displayed.
    drawn: bool,
}

impl Writer {
    fn put(&mut self, words: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(words);
    }

    fn any(&mut self, node: &Ast) -> Result<(), NotForGrep> {
        match node {
            Ast::Empty(_) => {}
            Ast::Flags(flags) => {
                for item in &flags.flags.items {
                    self.flag(&item.kind)?;
                }
            }
            Ast::Literal(literal) => self.literal(literal.c),
            Ast::Dot(_) => {
                self.out.push('.');
                self.passed();
            }
            Ast::Assertion(assertion) => self.assertion(assertion)?,
            Ast::ClassUnicode(_) => return Err(NotForGrep("a Unicode class (\\p)")),
            Ast::ClassPerl(class) => {
                let negated = if class.negated { "^" } else { "" };
                self.put(format_args!("[{negated}{}]", perl(class)));
                self.passed();
            }
            Ast::ClassBracketed(class) => {
                self.bracketed(class)?;
                self.passed();
            }
            Ast::Repetition(repetition) => {
                self.operand(&repetition.ast)?;
                // Greediness (`*?`) does not affect which lines match.
                match &repetition.op.kind {
                    RepetitionKind::ZeroOrOne => self.out.push('?'),
                    RepetitionKind::ZeroOrMore => self.out.push('*'),
                    RepetitionKind::OneOrMore => self.out.push('+'),
                    RepetitionKind::Range(range) => match range {
                        RepetitionRange::Exactly(n) => self.put(format_args!("{{{n}}}")),
                        RepetitionRange::AtLeast(n) => self.put(format_args!("{{{n},}}")),
                        RepetitionRange::Bounded(n, m) => self.put(format_args!("{{{n},{m}}}")),
                    },
                }
            }
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind
                    && !flags.items.is_empty()
                {
                    return Err(NotForGrep("a group with flags, (?i:...),"));
                }
                self.group(&group.ast)?;
            }
            Ast::Alternation(either) => {
                for (index, branch) in either.asts.iter().enumerate() {
                    if index > 0 {
                        self.out.push('|');
                    }
                    self.any(branch)?;
                }
            }
            Ast::Concat(parts) => {
                for part in &parts.asts {
                    self.any(part)?;
                }
            }
        }
        Ok(())
    }

    /// Called after a character was written.
    fn passed(&mut self) {
        if self.drawn {
            self.out.push_str(SEQUENCES);
        }
    }

    /// The operand of a repetition, in a group if it is more than one atom.
    fn operand(&mut self, node: &Ast) -> Result<(), NotForGrep> {
        let is_one =
            matches!(node, Ast::Literal(_) | Ast::Dot(_) | Ast::ClassPerl(_) | Ast::ClassBracketed(_));
        let is_atom = (is_one && !self.drawn) || matches!(node, Ast::Group(_));
        if is_atom { self.any(node) } else { self.group(node) }
    }

    fn group(&mut self, node: &Ast) -> Result<(), NotForGrep> {
        self.out.push('(');
        self.any(node)?;
        self.out.push(')');
        Ok(())
    }

    /// A line contains no line breaks, so the flags about them do not matter.
    fn flag(&mut self, kind: &FlagsItemKind) -> Result<(), NotForGrep> {
        use regex_syntax::ast::Flag;
        match kind {
            FlagsItemKind::Flag(Flag::CaseInsensitive) if self.out.is_empty() => self.any_case = true,
            FlagsItemKind::Flag(
                Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed | Flag::IgnoreWhitespace,
            ) => {}
            _ => return Err(NotForGrep("an inline flag")),
        }
        Ok(())
    }

    fn literal(&mut self, c: char) {
        if r".[]{}()*+?|^$\".contains(c) {
            self.out.push('\\');
        }
        self.out.push(c);
        self.passed();
    }

    fn assertion(&mut self, assertion: &Assertion) -> Result<(), NotForGrep> {
        self.out.push_str(match (&assertion.kind, self.drawn) {
            (AssertionKind::StartLine | AssertionKind::StartText, false) => "^",
            (AssertionKind::StartLine | AssertionKind::StartText, true) => "^(.*\r)?",
            (AssertionKind::EndLine | AssertionKind::EndText, false) => "$",
            (AssertionKind::EndLine | AssertionKind::EndText, true) => "\r*$",
            // Not in POSIX, but supported by GNU, BSD and BusyBox.
            (AssertionKind::WordBoundary, false) => r"\b",
            (AssertionKind::NotWordBoundary, false) => r"\B",
            // The letter that ends a sequence does not belong to a word, which cannot be expressed, so too many lines
            // are found.
            (AssertionKind::WordBoundary | AssertionKind::NotWordBoundary, true) => "",
            _ => return Err(NotForGrep("a half word boundary")),
        });
        self.passed();
        Ok(())
    }

    /// In brackets a backslash is literal (POSIX.1, 9.3.5): `]` must be first, `^` not first, `-` last.
    fn bracketed(&mut self, class: &ClassBracketed) -> Result<(), NotForGrep> {
        let ClassSet::Item(item) = &class.kind else { return Err(NotForGrep("a class intersection")) };
        let mut inside = Inside::default();
        inside.item(item)?;
        let Inside { closes, caret, dash, items } = inside;
        let close = if closes { "]" } else { "" };
        // `[^]` is not a class of one caret.
        let alone = caret && !class.negated && items.is_empty() && !closes;
        if alone {
            self.out.push_str(if dash { "[-^]" } else { r"\^" });
            return Ok(());
        }
        let open = if class.negated { "[^" } else { "[" };
        let caret = if caret { "^" } else { "" };
        let dash = if dash { "-" } else { "" };
        self.put(format_args!("{open}{close}{items}{caret}{dash}]"));
        Ok(())
    }
}

/// The content of brackets.
#[derive(Default)]
struct Inside {
    closes: bool,
    caret: bool,
    dash: bool,
    items: String,
}

impl Inside {
    fn item(&mut self, item: &ClassSetItem) -> Result<(), NotForGrep> {
        match item {
            ClassSetItem::Empty(_) => {}
            ClassSetItem::Literal(literal) => match literal.c {
                ']' => self.closes = true,
                '^' => self.caret = true,
                '-' => self.dash = true,
                // `[.`, `[=` and `[:` would have another meaning.
                '[' => self.items.insert(0, '['),
                c => self.items.push(c),
            },
            ClassSetItem::Range(range) => {
                let (from, to) = (range.start.c, range.end.c);
                if [from, to].iter().any(|c| !c.is_ascii_alphanumeric()) {
                    return Err(NotForGrep("a range of characters other than letters or digits"));
                }
                self.items.extend([from, '-', to]);
            }
            ClassSetItem::Ascii(class) if !class.negated && class.kind != ClassAsciiKind::Word => {
                self.items.extend(["[:", ascii(&class.kind)?, ":]"]);
            }
            ClassSetItem::Perl(class) if !class.negated => self.items.push_str(perl(class)),
            ClassSetItem::Union(union) => {
                for item in &union.items {
                    self.item(item)?;
                }
            }
            _ => return Err(NotForGrep("a nested class")),
        }
        Ok(())
    }
}

fn perl(class: &ClassPerl) -> &'static str {
    match class.kind {
        ClassPerlKind::Digit => "0-9",
        ClassPerlKind::Space => "[:space:]",
        ClassPerlKind::Word => "[:alnum:]_",
    }
}

/// The classes that POSIX has as well.
fn ascii(kind: &ClassAsciiKind) -> Result<&'static str, NotForGrep> {
    Ok(match kind {
        ClassAsciiKind::Alnum => "alnum",
        ClassAsciiKind::Alpha => "alpha",
        ClassAsciiKind::Blank => "blank",
        ClassAsciiKind::Cntrl => "cntrl",
        ClassAsciiKind::Digit => "digit",
        ClassAsciiKind::Graph => "graph",
        ClassAsciiKind::Lower => "lower",
        ClassAsciiKind::Print => "print",
        ClassAsciiKind::Punct => "punct",
        ClassAsciiKind::Space => "space",
        ClassAsciiKind::Upper => "upper",
        ClassAsciiKind::Xdigit => "xdigit",
        ClassAsciiKind::Ascii | ClassAsciiKind::Word => return Err(NotForGrep("[:ascii:]")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::text::log_line;
    use proptest::prelude::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn grep(text: &str) -> Result<Grep, NotForGrep> {
        Grep::of(&Pattern::parse(text).unwrap()).map(Option::unwrap)
    }

    #[test]
    fn patterns_are_translated_for_grep() {
        for (text, written) in [
            ("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"),
            (r"step \d+ loss=(?:nan|inf)", r"step [0-9]+ loss=(nan|inf)"),
            (r"^\s*\w+?: \S", "^[[:space:]]*[[:alnum:]_]+: [^[:space:]]"),
            (r"a{2,3}(?P<x>b){2,}", "a{2,3}(b){2,}"),
            (r"[\]^\-a-f[:upper:]\d]", "[]a-f[:upper:]0-9^-]"),
            (r"[\^]x|[\^-]|[^\^]", r"\^x|[-^]|[^^]"),
            (r"\[x\]\{1\}\\|'", r"\[x\]\{1\}\\|'"),
            (r"\bout\b", r"\bout\b"),
            ("-e x", "-e x"),
            ("(?:ab)+*", "((ab)+)*"),
        ] {
            assert_eq!(grep(text).unwrap().expression, written, "{text}");
        }
        assert!(grep("(?i)Loss").unwrap().any_case && grep("loss").unwrap().any_case);
        assert!(!grep("Loss").unwrap().any_case && !grep("é").unwrap().is_ascii);
        assert_eq!(Grep::of(&Pattern::default()), Ok(None));
    }

    #[test]
    fn unsupported_syntax_is_refused() {
        for text in
            [r"\pL", "[a-z&&[^b]]", "a(?i)b", "(?i:a)", "[^[a]]", r"\b{start}x", r"[\x00-\x1f]", r"[\D]"]
        {
            let why = grep(text).unwrap_err().to_string();
            assert!(why.contains("not supported by grep"), "{text}: {why}");
        }
    }

    /// The numbers of the lines that the system's grep finds.
    fn found(expression: &str, any_case: bool, text: &str) -> Vec<usize> {
        let mut command = Command::new("grep");
        command.env("LC_ALL", "C").args(["-a", "-n", "-E"]);
        if any_case {
            command.arg("-i");
        }
        command.args(["-e", expression, "--", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let found = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        found.lines().map(|l| l.split(':').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn color_sequences_and_overwritten_text_do_not_match() {
        let red = "\x1b[1;31mERROR\x1b[0m: out of \x1b[2Kmemory";
        let bar = "10%|#\r\x1b[32m20%\x1b[m|##";
        let text = format!("{red}\n{bar}\nfine\r\n");
        for (pattern, lines) in [
            ("ERROR: out", vec![1]),
            ("^ERROR", vec![1]),
            (r"\bout of memory$", vec![1]),
            (r"\bERROR\b", vec![1]),
            (r"^20%\|#", vec![2]),
            (r"o\But of mem|20%\|##$", vec![1, 2]),
            ("(of )+mem", vec![1]),
            ("e$", vec![3]),
        ] {
            let words = grep(pattern).unwrap();
            assert_eq!(found(&words.drawn, words.any_case, &text), lines, "{pattern} as {:?}", words.drawn);
            assert_ne!(found(&words.expression, words.any_case, &text), lines, "{pattern} finds it anyway");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Colors hide no lines.
        #[test]
        fn colored_lines_are_found(
            text in r"\^?(\\d|\\w|\\b|[a-c]|A|\.|\[ab\]|\[\^a\]| ){1,4}([*+?]|\{2\}|\{1,2\})?(\|[ab1]{1,2}|\$)?",
            lines in prop::collection::vec(prop::collection::vec("[abcA1 ]|\x1b\\[[0-9]{0,2}m", 0..8), 1..20),
        ) {
            let Ok(pattern) = Pattern::parse(&text) else { return Ok(()) };
            let Ok(Some(words)) = Grep::of(&pattern) else { return Ok(()) };
            let lines: Vec<String> = lines.iter().map(|parts| parts.concat()).collect();
            let found = found(&words.drawn, words.any_case, &(lines.join("\n") + "\n"));
            for (number, line) in (1..).zip(&lines) {
                let is_one = pattern.is_match(&log_line(line));
                prop_assert!(!is_one || found.contains(&number), "{line:?}: {text} as {:?}", words.drawn);
            }
        }

        /// The system's grep finds the same lines as the pattern.
        #[test]
        fn grep_and_the_pattern_find_the_same_lines(
            text in r"(\\d|\\w|\\s|\\S|[a-c]|A|\.|\[ab\]|\[\^a\]|\[\\\]x\^-\]|-|'| ){1,4}([*+?]|\{2\}|\{1,2\})?(\|[ab1]{1,2}|\$)?",
            lines in prop::collection::vec("[abcAx1 '^.\\]-]{0,6}", 1..30),
        ) {
            let Ok(pattern) = Pattern::parse(&text) else { return Ok(()) };
            let Ok(Some(words)) = Grep::of(&pattern) else { return Ok(()) };
            let found = found(&words.expression, words.any_case, &(lines.join("\n") + "\n"));
            let expected: Vec<usize> = (1..).zip(&lines).filter(|(_, l)| pattern.is_match(l)).map(|(n, _)| n).collect();
            prop_assert_eq!(found, expected, "{} as {}", text, words.expression);
        }
    }
}
