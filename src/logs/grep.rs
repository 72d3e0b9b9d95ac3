//! A pattern as an extended regular expression, to search a file on its host with `grep -E`.
//!
//! Extended regular expressions (POSIX.1, 9.4) are the one dialect that every host's grep has. The expression is written
//! from the pattern's syntax tree, so that it means the same there or is refused. What grep finds is matched again here:
//! grep sees the bytes of a line, with the sequences that colour it.

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
    /// Whether `-i` is needed.
    pub any_case: bool,
    /// Whether it has only ASCII in it. Then `LC_ALL=C` makes grep compare bytes, which is fast and takes any file.
    pub is_ascii: bool,
}

/// Why a pattern cannot be given to grep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} cannot be searched for on the host; write it in another way, e.g. as [0-9] or (a|b)")]
pub struct NotForGrep(&'static str);

impl Grep {
    /// The pattern as an extended regular expression; refused if a part of it cannot be expressed in one. None for the empty
    /// pattern.
    pub fn of(pattern: &Pattern) -> Result<Option<Self>, NotForGrep> {
        let Some(syntax) = pattern.syntax() else { return Ok(None) };
        let mut written = Self {
            expression: String::new(),
            any_case: pattern.is_any_case(),
            is_ascii: pattern.text().is_ascii(),
        };
        written.any(syntax)?;
        Ok(Some(written))
    }

    fn put(&mut self, words: fmt::Arguments<'_>) {
        // Nothing fails that is written to a string.
        let _ = self.expression.write_fmt(words);
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
            Ast::Dot(_) => self.expression.push('.'),
            Ast::Assertion(assertion) => self.assertion(assertion)?,
            Ast::ClassUnicode(_) => return Err(NotForGrep("a class of Unicode (\\p)")),
            Ast::ClassPerl(class) => {
                let negated = if class.negated { "^" } else { "" };
                self.put(format_args!("[{negated}{}]", perl(class)));
            }
            Ast::ClassBracketed(class) => self.bracketed(class)?,
            Ast::Repetition(repetition) => {
                self.operand(&repetition.ast)?;
                // Which of the possible matches is taken (`*?`) makes no difference to which lines match.
                match &repetition.op.kind {
                    RepetitionKind::ZeroOrOne => self.expression.push('?'),
                    RepetitionKind::ZeroOrMore => self.expression.push('*'),
                    RepetitionKind::OneOrMore => self.expression.push('+'),
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
                for (place, branch) in either.asts.iter().enumerate() {
                    if place > 0 {
                        self.expression.push('|');
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

    /// What is repeated, in a group where it is more than one atom.
    fn operand(&mut self, node: &Ast) -> Result<(), NotForGrep> {
        let is_atom = matches!(
            node,
            Ast::Literal(_) | Ast::Dot(_) | Ast::ClassPerl(_) | Ast::ClassBracketed(_) | Ast::Group(_)
        );
        if is_atom { self.any(node) } else { self.group(node) }
    }

    fn group(&mut self, node: &Ast) -> Result<(), NotForGrep> {
        self.expression.push('(');
        self.any(node)?;
        self.expression.push(')');
        Ok(())
    }

    /// A line has no end of line in it, so that the flags about those make no difference.
    fn flag(&mut self, kind: &FlagsItemKind) -> Result<(), NotForGrep> {
        use regex_syntax::ast::Flag;
        match kind {
            FlagsItemKind::Flag(Flag::CaseInsensitive) if self.expression.is_empty() => self.any_case = true,
            FlagsItemKind::Flag(
                Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed | Flag::IgnoreWhitespace,
            ) => {}
            _ => return Err(NotForGrep("a flag within the pattern")),
        }
        Ok(())
    }

    fn literal(&mut self, c: char) {
        if r".[]{}()*+?|^$\".contains(c) {
            self.expression.push('\\');
        }
        self.expression.push(c);
    }

    fn assertion(&mut self, assertion: &Assertion) -> Result<(), NotForGrep> {
        self.expression.push_str(match assertion.kind {
            AssertionKind::StartLine | AssertionKind::StartText => "^",
            AssertionKind::EndLine | AssertionKind::EndText => "$",
            // Not of POSIX, but GNU, BSD and BusyBox have both.
            AssertionKind::WordBoundary => r"\b",
            AssertionKind::NotWordBoundary => r"\B",
            _ => return Err(NotForGrep("a half of a word boundary")),
        });
        Ok(())
    }

    /// In brackets a backslash is no escape (POSIX.1, 9.3.5): `]` stands first, `^` not first, `-` last.
    fn bracketed(&mut self, class: &ClassBracketed) -> Result<(), NotForGrep> {
        let ClassSet::Item(item) = &class.kind else { return Err(NotForGrep("an intersection of classes")) };
        let mut inside = Inside::default();
        inside.item(item)?;
        let Inside { closes, caret, dash, items } = inside;
        let close = if closes { "]" } else { "" };
        // `[^]` is no class of one caret.
        let alone = caret && !class.negated && items.is_empty() && !closes;
        if alone {
            self.expression.push_str(if dash { "[-^]" } else { r"\^" });
            return Ok(());
        }
        let open = if class.negated { "[^" } else { "[" };
        let caret = if caret { "^" } else { "" };
        let dash = if dash { "-" } else { "" };
        self.put(format_args!("{open}{close}{items}{caret}{dash}]"));
        Ok(())
    }
}

/// What is in brackets.
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
                // `[.`, `[=` and `[:` would begin something else.
                '[' => self.items.insert(0, '['),
                c => self.items.push(c),
            },
            ClassSetItem::Range(range) => {
                let (from, to) = (range.start.c, range.end.c);
                if [from, to].iter().any(|c| !c.is_ascii_alphanumeric()) {
                    return Err(NotForGrep("a range of other characters than letters or digits"));
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
            _ => return Err(NotForGrep("a class within a class")),
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

/// The classes that POSIX has, too.
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
    use proptest::prelude::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn grep(text: &str) -> Result<Grep, NotForGrep> {
        Grep::of(&Pattern::parse(text).unwrap()).map(Option::unwrap)
    }

    #[test]
    fn a_pattern_is_written_in_greps_words() {
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
    fn what_grep_has_no_words_for_is_refused() {
        for text in
            [r"\pL", "[a-z&&[^b]]", "a(?i)b", "(?i:a)", "[^[a]]", r"\b{start}x", r"[\x00-\x1f]", r"[\D]"]
        {
            let why = grep(text).unwrap_err().to_string();
            assert!(why.contains("cannot be searched for on the host"), "{text}: {why}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// The system's grep finds the lines that the pattern finds.
        #[test]
        fn grep_and_the_pattern_find_the_same_lines(
            text in r"(\\d|\\w|\\s|\\S|[a-c]|A|\.|\[ab\]|\[\^a\]|\[\\\]x\^-\]|-|'| ){1,4}([*+?]|\{2\}|\{1,2\})?(\|[ab1]{1,2}|\$)?",
            lines in prop::collection::vec("[abcAx1 '^.\\]-]{0,6}", 1..30),
        ) {
            let Ok(pattern) = Pattern::parse(&text) else { return Ok(()) };
            let Ok(Some(words)) = Grep::of(&pattern) else { return Ok(()) };
            let mut command = Command::new("grep");
            command.env("LC_ALL", "C").args(["-a", "-n", "-E"]);
            if words.any_case {
                command.arg("-i");
            }
            command.args(["-e", &words.expression, "--", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
            let found = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
            let found: Vec<usize> = found.lines().map(|l| l.split(':').next().unwrap().parse().unwrap()).collect();
            let expected: Vec<usize> = (1..).zip(&lines).filter(|(_, l)| pattern.is_match(l)).map(|(n, _)| n).collect();
            prop_assert_eq!(found, expected, "{} as {}", text, words.expression);
        }
    }
}
