//! `marin-tui completions`: shell completion for commands, options, names of clusters and ids of jobs. The shell's
//! script queries this program at each Tab, so it is never out of date.

use super::output;
use anyhow::Context as _;
use clap::{Args, Command, ValueEnum};
use clap_complete::env::{CompleteEnv, Shells};
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui completions bash > ~/.local/share/bash-completion/completions/marin-tui
  marin-tui completions zsh > ~/.zfunc/_marin-tui        with ~/.zfunc in `fpath`, before compinit
  marin-tui completions fish > ~/.config/fish/completions/marin-tui.fish

The script calls the first `marin-tui` in PATH. Cluster names come from the cluster files; job ids are queried from \
the cluster, for at most 5 seconds.";

/// Environment variable with the name of the shell, set by its script when it asks for candidates.
const VARIABLE: &str = "MARIN_TUI_COMPLETE";

/// Options of `completions`.
#[derive(Clone, Copy, Debug, Args)]
pub struct CompletionsArguments {
    /// Shell to print the script for
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
    /// Microsoft PowerShell.
    Powershell,
}

/// Prints the shell's script.
pub(super) fn run(arguments: CompletionsArguments) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let name = arguments.shell.to_possible_value();
    let shell = name.as_ref().and_then(|name| shells.completer(name.get_name()));
    let shell = shell.context("clap_complete has no script for this shell")?;
    Ok(shell.write_registration(VARIABLE, "marin-tui", "marin-tui", "marin-tui", &mut output::stdout())?)
}

/// Prints candidates for a line of `command` if a shell's script asks for them; nothing otherwise.
pub(super) fn answer(command: fn() -> Command) -> Option<ExitCode> {
    let env = CompleteEnv::with_factory(command).var(VARIABLE);
    match env.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        // The shell shows nothing in that case.
        Err(_) => Some(ExitCode::FAILURE),
    }
}
