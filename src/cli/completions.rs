//! `marin-tui completions`: a shell completes commands, options, names of clusters and ids of jobs. Its script asks this
//! program at each Tab, so that nothing can be out of date.

use super::reach::Reach;
use super::{Arguments, SourceArguments, output};
use crate::config::{self, Env, Sources};
use crate::model::{Timestamp, without_first_word};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui completions bash > ~/.local/share/bash-completion/completions/marin-tui
  marin-tui completions zsh > ~/.zfunc/_marin-tui        with ~/.zfunc in `fpath`, before compinit
  marin-tui completions fish > ~/.config/fish/completions/marin-tui.fish

The script calls the `marin-tui` that is first in PATH. Names of clusters come from the cluster files; for the id of a job \
the cluster is asked, for 5 seconds at most.";

/// Set by the shells' scripts when they ask for candidates, to the name of the shell.
const VARIABLE: &str = "MARIN_TUI_COMPLETE";

/// How long a Tab waits for a cluster.
const PATIENCE: Duration = Duration::from_secs(5);

/// Options of `completions`.
#[derive(Clone, Copy, Debug, Args)]
pub struct CompletionsArguments {
    /// Shell that the script is for
    #[arg(value_enum)]
    shell: Shell,
}

/// A shell that can ask for candidates.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    /// bash 4 or later.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
    /// Elvish.
    Elvish,
    /// `PowerShell`.
    Powershell,
}

/// Prints the shell's script.
pub(super) fn run(arguments: CompletionsArguments) -> anyhow::Result<()> {
    let name = arguments.shell.to_possible_value().expect("no shell is hidden");
    let shells = Shells::builtins();
    let shell = shells.completer(name.get_name()).expect("the list is that of clap_complete");
    Ok(shell.write_registration(VARIABLE, "marin-tui", "marin-tui", "marin-tui", &mut output::stdout())?)
}

/// Prints candidates if a shell's script asks for them; nothing otherwise.
pub fn answer() -> Option<ExitCode> {
    let env = CompleteEnv::with_factory(Arguments::command).var(VARIABLE);
    match env.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        // The shell shows nothing then.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Names of clusters; those without their first word for a word that begins no full name.
pub(super) fn clusters() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let Some(typed) = typed.to_str() else { return Vec::new() };
        let names = names().unwrap_or_default();
        let beginning = |names: &mut dyn Iterator<Item = &str>| -> Vec<CompletionCandidate> {
            names.filter(|name| name.starts_with(typed)).filter_map(|name| candidate(name, "")).collect()
        };
        let full = beginning(&mut names.iter().map(String::as_str));
        if full.is_empty() { beginning(&mut names.iter().map(|name| without_first_word(name))) } else { full }
    })
}

/// Ids of the jobs that the command can do something with.
pub(super) fn jobs() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| typed.to_str().map(ids).unwrap_or_default())
}

/// What the shell puts into the command line, if it needs no quotes there: names come from files and from clusters.
fn candidate(word: &str, help: &str) -> Option<CompletionCandidate> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_safe = !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain);
    is_safe.then(|| CompletionCandidate::new(word).help((!help.is_empty()).then(|| help.to_owned().into())))
}

/// The words of the command line, as far as they are one. They follow a `--` that the script puts there.
fn matches() -> Option<ArgMatches> {
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1);
    Arguments::command().ignore_errors(true).try_get_matches_from(words).ok()
}

fn names() -> Option<Vec<String>> {
    let asked = SourceArguments::from_arg_matches(&matches()?).ok()?;
    // A cluster is about to be named, which wins over RAY_ADDRESS.
    let cluster = Some(String::new());
    let sources =
        Sources { infra: asked.infra, config: asked.config, address: asked.address, gcs: asked.gcs, cluster };
    let loaded = config::read(&sources, &Env::current(), Timestamp::now()).ok()?;
    // Only names are used, so this needs no trust.
    let clusters = loaded.look().ok()?.entries;
    Some(clusters.iter().filter_map(|entry| Some(entry.cluster()?.name.to_string())).collect())
}

fn ids(typed: &str) -> Vec<CompletionCandidate> {
    let Some(matches) = matches() else { return Vec::new() };
    let is_wanted = |has_ended: bool| match matches.subcommand_name() {
        Some("stop-job" | "wait-job") => !has_ended,
        Some("delete-job") => has_ended,
        _ => true,
    };
    let listed = Reach::block_on(async { Ok(tokio::time::timeout(PATIENCE, list_jobs(&matches)).await?) });
    let rows = listed.ok().flatten().unwrap_or_default();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let wanted = rows.iter().filter(|row| is_wanted(!row["ended_ms"].is_null()));
    let named = wanted
        .map(|row| (text(row, "submission_id"), format!("{} {}", text(row, "status"), text(row, "owner"))));
    let begun = named.filter(|(id, _)| id.starts_with(typed));
    begun.filter_map(|(id, about)| candidate(&id, about.trim_end())).collect()
}

/// Asks `list-jobs` in a process of its own, which has no terminal: it never asks anything, and its errors are dropped.
async fn list_jobs(matches: &ArgMatches) -> Option<Vec<Value>> {
    let asked = SourceArguments::from_arg_matches(matches).ok()?;
    let mut command = tokio::process::Command::new(std::env::current_exe().ok()?);
    let mut option = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            command.arg(name).arg(value);
        }
    };
    option("--cluster", asked.cluster.map(Into::into));
    option("--accept-host-key", asked.accept_host_key.map(Into::into));
    option("--infra", asked.infra.map(Into::into));
    option("--config", asked.config.map(Into::into));
    option("--address", asked.address.map(Into::into));
    option("--gcs", asked.gcs.map(Into::into));
    command
        .args(["list-jobs", "--all", "--json"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    serde_json::from_slice(&command.output().await.ok()?.stdout).ok()
}
