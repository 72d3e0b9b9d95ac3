//! Completion candidates for a shell: names of clusters, ids of jobs.
//!
//! A shell starts a process for each Tab and waits for it; the words of the line follow a `--`.

use crate::config::{self, Env, Sources};
use crate::model::{Timestamp, without_first_word};
use crate::supervisor;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use serde_json::Value;
use std::ffi::OsStr;
use std::time::Duration;

/// Time limit for reading a cluster's jobs after a Tab.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The options that select the clusters.
const CLUSTER_OPTIONS: [&str; 6] =
    ["--cluster", "--accept-host-key", "--infra", "--config", "--address", "--gcs"];

/// Names of clusters; without their first word if no full name begins with the typed word.
pub(super) fn clusters() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let Some(typed) = typed.to_str() else { return Vec::new() };
        // The line is about to name a cluster.
        let names = names(Some(String::new())).unwrap_or_default();
        let beginning = |names: &mut dyn Iterator<Item = &str>| -> Vec<CompletionCandidate> {
            names.filter(|name| name.starts_with(typed)).filter_map(|name| candidate(name, "")).collect()
        };
        let full = beginning(&mut names.iter().map(String::as_str));
        if full.is_empty() { beginning(&mut names.iter().map(|name| without_first_word(name))) } else { full }
    })
}

/// Ids of the jobs to which the command applies.
pub(super) fn jobs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| typed.to_str().map(ids).unwrap_or_default())
}

/// A candidate for the command line, if it needs no quotes: names come from files and from clusters.
fn candidate(word: &str, help: &str) -> Option<CompletionCandidate> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_safe = !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain);
    is_safe.then(|| CompletionCandidate::new(word).help((!help.is_empty()).then(|| help.to_owned().into())))
}

/// The words of the line.
fn args() -> impl Iterator<Item = String> {
    std::env::args_os().skip_while(|word| word != "--").skip(1).filter_map(|word| word.into_string().ok())
}

/// The value of an option in the line.
fn option(name: &str) -> Option<String> {
    let short = (name == "--cluster").then_some("-c");
    let mut words = args();
    while let Some(word) = words.next() {
        if word == name || Some(&*word) == short {
            // Bash splits `--cluster=us` at the `=`.
            return words.find(|word| word != "=");
        }
        if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value.to_owned());
        }
    }
    None
}

/// The names of the clusters among which the line selects; a cluster that it names overrides `RAY_ADDRESS`.
fn names(cluster: Option<String>) -> Option<Vec<String>> {
    let sources = Sources {
        infra: option("--infra").map(Into::into),
        config: option("--config").map(Into::into),
        address: option("--address"),
        gcs: option("--gcs"),
        cluster,
    };
    let loaded = config::read(&sources, &Env::current(), Timestamp::now()).ok()?;
    // Only names are used, so this needs no trust.
    let clusters = loaded.into_displayed().ok()?.entries;
    Some(clusters.iter().filter_map(|entry| Some(entry.cluster()?.name.to_string())).collect())
}

fn ids(typed: &str) -> Vec<CompletionCandidate> {
    let is_for = |commands: &[&str]| args().any(|word| commands.contains(&&*word));
    let (open, ended) = (is_for(&["stop-job", "wait-job"]), is_for(&["delete-job"]));
    let rows = listed().unwrap_or_default();
    let has_ended = |row: &&Value| !row["ended_ms"].is_null();
    let wanted = rows.iter().filter(|row| if has_ended(row) { !open } else { !ended });
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let named = wanted
        .map(|row| (text(row, "submission_id"), format!("{} {}", text(row, "status"), text(row, "owner"))));
    let matching = named.filter(|(id, _)| id.starts_with(typed));
    matching.filter_map(|(id, about)| candidate(&id, about.trim_end())).collect()
}

/// Runs `list-jobs` in a separate process without a terminal, so that it never prompts; its errors are ignored.
/// Commands with ids of jobs need the name of a cluster if there are several.
fn listed() -> Option<Vec<Value>> {
    if option("--cluster").is_none() && names(None)?.len() > 1 {
        return None;
    }
    let options = CLUSTER_OPTIONS.iter().filter_map(|name| Some(format!("{name}={}", option(name)?)));
    let words: Vec<String> = options.chain(["list-jobs", "--all", "--json"].map(str::to_owned)).collect();
    serde_json::from_slice(&supervisor::run_self(&words, TIMEOUT)?).ok()
}
