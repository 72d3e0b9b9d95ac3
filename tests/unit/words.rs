//! Checks string literals and comments of `src/`, the manual, README.md, CHANGELOG.md, `infra/`, scripts and other text
//! files against the vocabulary of assets/manual/style.md: one word for each thing, and no replaced words.

use regex::Regex;
use std::fs;
use std::path::{Path, PathBuf};

/// Words and phrases that are no longer used, as regular expressions in lower case, each with its replacement.
const BANNED: &[(&str, &str)] = &[
    (r"whom (it|they|this) hits?|would hit|doomed|the fates? of", "affected jobs, jobs that will end"),
    (r"strangers?", "other people's jobs"),
    (r"mend(s|ed|ing)?", "hint, fix"),
    (r"ailments?", "issue, finding"),
    (r"standings?", "status"),
    (
        r"(stands?|stopped) half way|goes on past|go on past|leave it so",
        "interrupted operation; skip failed step; abandon",
    ),
    (r"rests on (this|the) step", "later steps need this one"),
    (r"the program that was at it", "the process running it"),
    (r"say yes|say --[a-z]+|without being asked", "confirm, allow; use --yes"),
    (r"means nothing (t?here)", "not available here; use it in"),
    (r"(passes|pass) the filter", "matches"),
    (r"eats?( the)? quota|eats_quota", "holds quota"),
    (r"another host key|than the one on file", "host key changed"),
    (r"closed the door", "connection closed by the head"),
    (r"anew", "retry, reconnect, refresh, restart, redraw"),
    (r"turns? the (order round|switch)", "reverse sort order; toggle"),
    (r"lets? it end first|may end first|see them end", "wait: --drain; may finish; wait"),
    (r"makes? \{\} forget", "delete the records"),
    (r"can(not| ?not be| not) be told|nothing was known when", "cannot determine; unknown"),
    (r"(it|they) (is|are) still being looked at|looking whom", "still checking"),
    (r"nobody can be trusted", "no CA certificates found"),
    (r"seems to stand|stands? in the way", "possible; block"),
    (r"nothing came of", "timed out after"),
    (r"errands?", "task, request, job"),
    (r"told of", "outcome, result"),
    (r"patience", "poll interval, timeout, maximum backoff"),
    (r"manners", "connection settings"),
    (r"spared", "affected, kept, restored, lost"),
    (r"signs? of life", "update, answer"),
    (r"first look", "when the operation started; the first read"),
    (r"switch(es)? of (its|their) own", "a separate switch"),
    (r"if need be", "if necessary"),
    (r"(the )?time is over", "timed out, on timeout"),
    (r"kept in step", "in sync"),
    (r"slept", "was suspended"),
    (r"can(not|not be| not be) had", "is not available"),
    (r"stands? elsewhere", "has a stack that differs"),
    (r"the matter", "what is wrong; the verdict"),
    (r"(is|are|was|were|be) let go", "dropped"),
    (r"at what price", "the cost"),
    (r"(is|are) no number", "not finite; NaN or infinite"),
    (r"puts? right", "correct"),
    (r"passed over", "skipped, ignored"),
    (r"lets? through", "matches"),
    (r"calls? the roll", "list the workers"),
    (r"do(es)? not tell", "does not report, does not show"),
    (r"begun again", "restarted, started again"),
    (r"(words of|no words for|in the words of) `?grep`?", "an extended regular expression"),
    (r"roll calls?", "overview"),
    (r"folders?", "directory"),
    (r"colour(s|ed|ing)?|honour(s|ed|ing)?|licences?", "color, respect, license: American spelling"),
    (r"made by", "created by"),
    (r"from nothing", "from scratch"),
    (r"in vain", "without success; say what does not happen"),
    (r"speak up", "tell me"),
    (r"ray's mark", "the suffix `[repeated Nx across cluster]`"),
];

/// A string literal (its text is group 1, 2 or 3), a run of comment lines (group 4), or a character, which is neither.
const TOKEN: &str =
    r##"(?s)r#"(.*?)"#|r"([^"]*)"|"((?:[^"\\]|\\.)*)"|(//[^\n]*(?:\n[ \t]*//[^\n]*)*)|'(?:[^'\\\n]|\\.)'"##;

/// Finds banned words in readable text.
struct Scanner {
    token: Regex,
    /// Names of variables in a literal, e.g. `{hint}`.
    variable: Regex,
    /// The end of a line that a literal continues on the next one.
    broken: Regex,
    /// Identifiers in backticks.
    identifier: Regex,
    /// The beginning of a further comment line.
    slashes: Regex,
    /// Matches any banned word: most texts contain none.
    any: Regex,
    banned: Vec<(Regex, &'static str)>,
}

impl Scanner {
    fn new() -> Self {
        let regex = |text: &str| Regex::new(text).unwrap();
        let whole = |words: &str| regex(&format!(r"(?-u:\b)(?:{words})(?-u:\b)"));
        Self {
            token: regex(TOKEN),
            variable: regex(r"\{[a-z_.:?0-9]*\}"),
            broken: regex(r"\\\n[ \t]*"),
            identifier: regex(r"`[^`\n]*`"),
            slashes: regex(r"\n[ \t]*//[/!]?"),
            any: whole(&BANNED.iter().map(|(words, _)| *words).collect::<Vec<_>>().join("|")),
            banned: BANNED.iter().map(|(words, instead)| (whole(words), *instead)).collect(),
        }
    }

    /// The readable text of Rust source: string literals without the names of their variables, comments without the
    /// identifiers in backticks.
    fn readable(&self, source: &str) -> Vec<String> {
        let text = |token: regex::Captures<'_>| {
            if let Some(comment) = token.get(4) {
                let words = self.slashes.replace_all(comment.as_str(), "\n");
                return Some(self.without_identifiers(&words));
            }
            let literal = (1..=3).find_map(|group| token.get(group))?;
            let whole = self.broken.replace_all(literal.as_str(), "");
            Some(self.variable.replace_all(&whole, "{}").into_owned())
        };
        self.token.captures_iter(source).filter_map(text).collect()
    }

    /// The text without the identifiers in backticks.
    fn without_identifiers(&self, text: &str) -> String {
        self.identifier.replace_all(text, "``").into_owned()
    }

    /// Each banned word in the text, with its context and its replacement.
    fn found(&self, text: &str) -> Vec<String> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let mut found = Vec::new();
        if !self.any.is_match(&text) {
            return found;
        }
        for (words, instead) in &self.banned {
            for hit in words.find_iter(&text) {
                let skipped = text[..hit.start()].chars().count().saturating_sub(30);
                let before: String = text[..hit.start()].chars().skip(skipped).collect();
                let after: String = text[hit.end()..].chars().take(30).collect();
                found.push(format!("{before}[{}]{after}: say {instead}", hit.as_str()));
            }
        }
        found
    }
}

/// Text files that are checked as a whole: directories with the extension of their files (empty: all files), and files.
const WHOLE: &[(&str, &str)] = &[
    ("assets/manual", "md"),
    ("assets", "sh"),
    ("assets/demo", "yaml"),
    ("assets/packaging", ""),
    ("assets/ray", "proto"),
    ("assets/tpu", "proto"),
    ("infra", ""),
    ("README.md", ""),
    ("CHANGELOG.md", ""),
];

/// Files below the directory with this extension (empty: all files), or the file itself.
fn files(path: &Path, extension: &str) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut all = Vec::new();
    for path in fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            all.extend(files(&path, extension));
        } else if extension.is_empty() || path.extension().is_some_and(|e| e == extension) {
            all.push(path);
        }
    }
    all
}

#[test]
fn replaced_words_are_not_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scanner = Scanner::new();
    let mut wrong = Vec::new();
    let mut texts = 0;
    let mut check = |path: &Path, text: &str| {
        texts += 1;
        wrong.extend(scanner.found(text).into_iter().map(|what| format!("{}: {what}", path.display())));
    };
    for path in files(&root.join("src"), "rs") {
        for text in scanner.readable(&fs::read_to_string(&path).unwrap()) {
            check(&path, &text);
        }
    }
    let whole = WHOLE.iter().flat_map(|(path, extension)| files(&root.join(path), extension));
    for path in whole.filter(|path| !path.ends_with("style.md")) {
        let text = fs::read_to_string(&path).unwrap();
        // The changelog quotes old names.
        let text = if path.ends_with("CHANGELOG.md") { scanner.without_identifiers(&text) } else { text };
        check(&path, &text);
    }
    assert!(texts > 10_000, "only {texts} texts were read");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_scanner_finds_banned_words() {
    let source = r##"
        /// Says first whom
        /// it hits; `mend` and [`JobStacks`] are identifiers.
        let mend = JobStacks::of(problem.mend, '"'); // Looks anew.
        let a = "it eats \
                 quota; {mend}";
        let b = r#"a "MEND" of {what}"#;
    "##;
    let scanner = Scanner::new();
    let texts = scanner.readable(source);
    let found: Vec<String> = texts.iter().flat_map(|text| scanner.found(text)).collect();
    let words = ["[whom it hits]", "[anew]", "[eats quota]", "[mend]"];
    assert_eq!(found.len(), words.len(), "{found:#?}");
    assert!(words.iter().zip(&found).all(|(word, found)| found.contains(word)), "{found:#?}");
    assert!(scanner.found("he commends understanding; may end at first").is_empty());
}
