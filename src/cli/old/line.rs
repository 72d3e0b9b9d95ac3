//! A command line in parts, for rewriting an old one.

use crate::model::command_line::shell_quote;
use crate::model::{is_secret_in, named_secrets};
use std::collections::BTreeSet;

/// Separates a command from the arguments of another program.
pub const REST: &str = "--";

/// Options of the retired `ray_run.py` that take a name and a value as two words.
pub const PAIRS: [&str; 2] = ["-e", "--env_vars"];

/// A command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The options before the command's name.
    pub first: Vec<String>,
    /// The words of the command's name; empty if the line names no command.
    pub name: Vec<String>,
    /// What follows the name, up to `--`.
    pub rest: Vec<String>,
    /// What follows `--`.
    pub tail: Option<Vec<String>>,
    /// Why the line is not run and its new form is suggested instead, as a sentence without a full stop.
    pub why: Option<String>,
    /// Options that take a value.
    pub valued: BTreeSet<String>,
}

impl Line {
    /// Splits a line without the program's name; `valued` are the options that take a value.
    pub fn new(words: &[String], valued: BTreeSet<String>) -> Self {
        let end = words.iter().position(|w| w == REST);
        let (head, tail) = words.split_at(end.unwrap_or(words.len()));
        let mut line = Self { first: head.to_vec(), valued, ..Self::default() };
        line.tail = end.map(|_| tail[1..].to_vec());
        line
    }

    /// Finds the command's name.
    pub fn find_name(&mut self) {
        if let Some(at) = self.plain(&self.first).first().copied() {
            self.rest = self.first.split_off(at);
            self.name = vec![self.rest.remove(0)];
        }
    }

    /// The words of the line without the program's name.
    pub fn args(&self) -> Vec<String> {
        let tail = self.tail.iter().flat_map(|tail| std::iter::once(REST.to_owned()).chain(tail.clone()));
        [&self.first, &self.name, &self.rest].into_iter().flatten().cloned().chain(tail).collect()
    }

    /// The line as it can be typed into a shell. A variable that seems to be a secret is printed without its value,
    /// which is then read from the environment; a job's command that seems to contain one is left out.
    pub fn shown(&self) -> String {
        let has_secret = |text: &str| is_secret_in(text) || !named_secrets(text).is_empty();
        let tail = self.tail.as_ref().filter(|tail| has_secret(&tail.join(" ")));
        let tail = tail.map(|_| vec!["...".to_owned()]);
        let mut shown = Self { tail: tail.or_else(|| self.tail.clone()), ..self.clone() };
        shown.replace(&["--cluster"], |_, name| Some(vec!["-c".to_owned(), name.to_owned()]));
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let safe = |word: String| match word.split_once('=') {
            _ if !has_secret(&word) => word,
            Some((name, _)) if is_name(name) => name.to_owned(),
            None if !is_plain(&word) => word,
            _ => "...".to_owned(),
        };
        let words = shown.args().into_iter().map(|w| shell_quote(&safe(w)));
        std::iter::once("marin-tui".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Marks the line as not to be run, with the reason.
    pub fn answer(&mut self, why: impl Into<String>) {
        self.why.get_or_insert(why.into());
    }

    /// Whether an option is given.
    pub fn has(&self, option: &str) -> bool {
        let is_it = |w: &String| w.split('=').next() == Some(option);
        self.first.iter().chain(&self.rest).any(is_it)
    }

    /// Replaces each of these options and its value, if `new` returns a replacement.
    pub fn replace(&mut self, options: &[&str], mut new: impl FnMut(&str, &str) -> Option<Vec<String>>) {
        for words in [&mut self.first, &mut self.rest] {
            let mut at = 0;
            while at < words.len() {
                let (name, value, length) = match (words[at].split_once('='), words.get(at + 1)) {
                    (Some((name, value)), _) => (name, value, 1),
                    (None, Some(value)) => (words[at].as_str(), value.as_str(), 2),
                    (None, None) => break,
                };
                let is_it = options.contains(&name);
                let other = if is_it { new(name, value) } else { None };
                let stays = if is_it { length } else { 1 };
                at += match other {
                    Some(other) => {
                        let count = other.len();
                        words.splice(at..at + length, other);
                        count
                    }
                    None => stays,
                };
            }
        }
    }

    /// Removes a switch and returns whether it was there.
    pub fn take(&mut self, switch: &str) -> bool {
        let before = self.first.len() + self.rest.len();
        self.first.retain(|w| w != switch);
        self.rest.retain(|w| w != switch);
        before > self.first.len() + self.rest.len()
    }

    /// Removes an option and returns its value.
    ///
    /// # Errors
    ///
    /// It is given twice.
    pub fn value(&mut self, option: &str) -> Result<Option<String>, String> {
        let mut all = Vec::new();
        self.replace(&[option], |_, value| {
            all.push(value.to_owned());
            Some(Vec::new())
        });
        one(all, option)
    }

    /// Removes the words after the name that are neither options nor their values.
    pub fn bare(&mut self) -> Vec<String> {
        let plain = self.plain(&self.rest);
        plain.iter().rev().map(|at| self.rest.remove(*at)).collect::<Vec<_>>().into_iter().rev().collect()
    }

    /// The positions of the words that are neither options nor their values.
    fn plain(&self, words: &[String]) -> Vec<usize> {
        let (mut plain, mut at) = (Vec::new(), 0);
        while let Some(word) = words.get(at) {
            if is_plain(word) {
                plain.push(at);
            }
            at += 1;
            if PAIRS.contains(&word.as_str()) {
                at += words[at..].iter().take_while(|w| is_plain(w)).count();
            } else if self.valued.contains(word) {
                at += 1;
            }
        }
        plain
    }
}

/// Whether a word is not an option.
pub fn is_plain(word: &str) -> bool {
    !word.starts_with('-') || word == "-"
}

/// The only value, if there is one.
///
/// # Errors
///
/// There are several.
pub fn one(all: Vec<String>, what: &str) -> Result<Option<String>, String> {
    match &all[..] {
        [] | [_] => Ok(all.into_iter().next()),
        [a, b, ..] => {
            Err(format!("{what} is given twice: {} and {}; specify it once", shell_quote(a), shell_quote(b)))
        }
    }
}
