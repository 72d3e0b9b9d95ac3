//! Validates the command lines that the program prints: gcloud commands by a table of their required arguments
//! (`gcloud help COMMAND`), commands of this program by its own parser.

#![allow(dead_code, reason = "each test crate uses its part")]

use clap::Parser as _;
use marin_tui::cli::Arguments;
use marin_tui::model::{ClusterName, Hint, Target};

/// A gcloud command: its words, its number of positional arguments, its required flags (alternatives separated by
/// bars), and its optional flags.
struct Known(&'static str, usize, &'static [&'static str], &'static [&'static str]);

const SOURCE: &str = "--credential-source-file|--credential-source-url|--executable-command|--aws";
const FORMAT: &[&str] = &[
    "--service-account",
    "--subject-token-type",
    "--credential-source-type",
    "--credential-source-field-name",
];

const GCLOUD: &[Known] = &[
    Known("auth login", 0, &[], &[]),
    Known("auth application-default login", 0, &[], &["--impersonate-service-account"]),
    Known("auth application-default set-quota-project", 1, &[], &[]),
    Known("billing projects describe", 1, &[], &[]),
    Known("compute instances delete", 1, &["--zone", "--project"], &[]),
    Known("iam service-accounts keys create", 1, &["--iam-account"], &[]),
    Known("iam workload-identity-pools create-cred-config", 1, &["--output-file", SOURCE], FORMAT),
    Known(
        "iam workforce-pools create-cred-config",
        1,
        &["--output-file", "--workforce-pool-user-project", SOURCE],
        FORMAT,
    ),
    Known("org-policies describe", 1, &["--project"], &["--effective"]),
    Known("secrets versions add", 1, &["--project", "--data-file"], &[]),
    Known("secrets versions enable", 1, &["--project", "--secret"], &[]),
    Known("services enable", 1, &["--project"], &[]),
];

/// Flags that take no value.
const SWITCHES: &[&str] = &["--aws", "--effective"];

/// Checks every command line of a hint, including those in its text; returns them.
pub fn checked(hint: &Hint) -> Vec<String> {
    let cluster = ClusterName::new("lab");
    let target = Target::of(&cluster).with("restart-cluster");
    let mut lines = Vec::new();
    for fix in hint.fixes() {
        lines.extend(fix.line(target));
        lines.extend(fix.purpose().split('`').skip(1).step_by(2).map(str::to_owned));
    }
    for line in &lines {
        check(line).unwrap_or_else(|why| panic!("`{line}` cannot be pasted: {why}"));
    }
    lines
}

/// Checks a command line; returns why a shell or the command would reject it.
pub fn check(line: &str) -> Result<(), String> {
    for part in line.split("&&") {
        let words = words(part)?;
        let is_assignment = |w: &&String| w.split_once('=').is_some_and(|(name, _)| is_name(name));
        let words: Vec<&str> = words.iter().skip_while(is_assignment).map(String::as_str).collect();
        match words.first() {
            Some(&"gcloud") => gcloud(&words[1..])?,
            Some(&"marin-tui") => {
                Arguments::try_parse_from(&words).map_err(|e| e.to_string())?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn gcloud(words: &[&str]) -> Result<(), String> {
    let matches =
        |known: &&Known| known.0.split(' ').enumerate().all(|(i, word)| words.get(i) == Some(&word));
    let Known(name, positional, required, optional) = GCLOUD
        .iter()
        .filter(matches)
        .max_by_key(|known| known.0.len())
        .ok_or("gcloud has no such command here")?;
    let (flags, others): (Vec<&str>, Vec<&str>) =
        words[name.split(' ').count()..].iter().partition(|w| w.starts_with("--"));
    if others.len() != *positional || others.iter().any(|w| w.is_empty()) {
        return Err(format!("it takes {positional} arguments, not {others:?}"));
    }
    let mut given = Vec::new();
    for flag in flags {
        let (flag, value) = flag.split_once('=').unwrap_or((flag, ""));
        if value.is_empty() != SWITCHES.contains(&flag) {
            return Err(format!("{flag} needs a value, or takes none"));
        }
        given.push(flag);
    }
    for needed in *required {
        if !needed.split('|').any(|one| given.contains(&one)) {
            return Err(format!("{needed} is missing"));
        }
    }
    let known = |flag: &&str| {
        required.iter().flat_map(|r| r.split('|')).chain(optional.iter().copied()).any(|k| k == *flag)
    };
    given.iter().find(|flag| !known(flag)).map_or(Ok(()), |flag| Err(format!("it has no {flag}")))
}

/// Splits a line into words as a POSIX shell does; `$(...)` belongs to the adjacent word.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut begun) = (Vec::new(), String::new(), false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' if begun => {
                words.push(std::mem::take(&mut word));
                begun = false;
            }
            ' ' => {}
            '\'' => {
                begun = true;
                loop {
                    match chars.next().ok_or("a quote is open")? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '\\' => {
                begun = true;
                word.extend(chars.next());
            }
            '$' if chars.as_str().starts_with('(') => {
                begun = true;
                loop {
                    let c = chars.next().ok_or("a bracket is open")?;
                    word.push(c);
                    if c == ')' {
                        break;
                    }
                }
            }
            '<' | '>' | '|' | '[' | ']' | '*' | '?' | '#' | ';' | '(' | ')' => {
                return Err(format!("a shell acts on {c}"));
            }
            c => {
                begun = true;
                word.push(c);
            }
        }
    }
    words.extend(begun.then_some(word));
    Ok(words)
}
