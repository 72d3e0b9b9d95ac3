//! Commands and their output as a snapshot stored next to the test.

use crate::program::Ran;
use regex::Regex;
use std::fmt::Write as _;
use std::path::Path;

/// Patterns that differ between runs, and their replacements.
const VARIES: &[(&str, &str)] = &[
    // Progress messages of commands that take more than a second.
    (
        "(?m)^(checking (affected jobs|workers|which images are in use in \\S+|\\S+\\.pkg\\.dev/\\S+)|looking up the head|connecting over SSH|querying \
         (Ray|Google( and Ray)?)|logging in to (the head|Google)|reading (\\d+ clusters|the (nodes|jobs|log)|Ray's nodes( and jobs)?|\\S+\\.pkg\\.dev/\\S+))\n",
        "",
    ),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"SHA256:[A-Za-z0-9+/]{43}", "FINGERPRINT"),
    // The width of a column with a path in it.
    (r"(\S) {3,}", "$1  "),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "TIME"),
];

/// A shell session: commands, their output, and their exit codes if not 0.
pub struct Transcript {
    text: String,
    varies: Vec<(Regex, &'static str)>,
}

impl Transcript {
    /// An empty transcript of a user with this home directory, which is shown as `~`.
    pub fn new(home: &Path) -> Self {
        let home = (regex::escape(home.to_str().unwrap()), "~");
        let varies = VARIES.iter().map(|(pattern, shown)| ((*pattern).to_owned(), *shown));
        let all = std::iter::once(home).chain(varies);
        Self {
            text: String::new(),
            varies: all.map(|(pattern, shown)| (Regex::new(&pattern).unwrap(), shown)).collect(),
        }
    }

    /// Replaces matches of the pattern with `shown`.
    #[must_use]
    pub fn varying(mut self, pattern: &str, shown: &'static str) -> Self {
        self.varies.insert(0, (Regex::new(pattern).unwrap(), shown));
        self
    }

    /// Adds a command as typed, its output and its exit code.
    pub fn add(&mut self, typed: &str, ran: &Ran) {
        let Ran { code, out, err } = ran;
        let code = match code {
            Some(0) => String::new(),
            Some(code) => format!("[exit {code}]\n"),
            None => "[signal]\n".to_owned(),
        };
        write!(self.text, "$ {typed}\n{out}{err}{code}\n").unwrap();
    }

    /// Returns the transcript with a command added.
    #[must_use]
    pub fn with(mut self, typed: &str, ran: &Ran) -> Self {
        self.add(typed, ran);
        self
    }

    /// Compares it with the snapshot of this name in `tests/program/snapshots`.
    pub fn is(self, name: &str) {
        let vary =
            |text: String, (pattern, shown): &(Regex, &str)| pattern.replace_all(&text, *shown).into_owned();
        let text = self.varies.iter().fold(self.text, vary);
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../program/snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, text));
    }
}
