//! Suggestions for a mistyped command. A command that changes a cluster is never suggested, because the user has not
//! decided to change anything.

use super::old::{REST, renamed};
use crate::config::nearest;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use strsim::osa_distance;

/// Commands that change nothing. A command missing here counts as one that changes something.
const READ_ONLY: [&str; 29] = [
    "audit",
    "auth",
    "auth-env",
    "chips",
    "cluster-logs",
    "clusters",
    "completions",
    "configs",
    "configs images",
    "configs list",
    "configs show",
    "configs validate",
    "demo",
    "explain-job",
    "forward",
    "help",
    "job-logs",
    "job-status",
    "job-workers",
    "list-jobs",
    "list-nodes",
    "man",
    "print-settings",
    "ssh",
    "stacks",
    "status",
    "token status",
    "tpus",
    "wait-job",
];

/// The error for an unknown word, with suggestions that replace those of clap.
pub fn instead(mut error: clap::Error, words: &[String], command: &Command) -> clap::Error {
    let tips = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) => {
            suggestions(typed, words, command)
        }
        // clap suggests removing the `--` before the name of a command.
        (ErrorKind::UnknownArgument, _) if words.iter().any(|word| word == REST) => Vec::new(),
        _ => return error,
    };
    error.remove(ContextKind::SuggestedSubcommand);
    let tips = tips.into_iter().map(Into::into).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

/// The suggestions for a mistyped word.
fn suggestions(typed: &str, words: &[String], command: &Command) -> Vec<String> {
    // The command whose subcommand the word should be.
    let (mut parent, mut path) = (command, String::new());
    for word in words.iter().take_while(|word| *word != typed) {
        if let Some(inner) = parent.find_subcommand(word) {
            (parent, path) = (inner, format!("{path}{} ", inner.get_name()));
        }
    }
    let all: Vec<&str> =
        parent.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
    let is_read_only = |name: &str| READ_ONLY.contains(&&*format!("{path}{name}"));
    // An old name is replaced by the new one.
    let old: Vec<(&str, &str)> = renamed().filter(|(_, new)| path.is_empty() && is_read_only(new)).collect();
    let candidates =
        all.iter().copied().filter(|name| is_read_only(name)).chain(old.iter().map(|(old, _)| *old));
    let near = nearest(typed, candidates)
        .map(|near| old.iter().find(|(old, _)| *old == near).map_or(near, |(_, new)| new));
    let similar: Vec<&str> =
        all.iter().copied().filter(|name| !is_read_only(name) && osa_distance(typed, name) <= 1).collect();
    let mut suggestions = Vec::new();
    suggestions.extend(near.map(|near| format!("did you mean `{path}{near}`?")));
    if !similar.is_empty() {
        suggestions.push(format!("commands with similar names: {}", similar.join(", ")));
    }
    suggestions.push("`marin-tui help` lists the commands".to_owned());
    suggestions
}
