//! `marin-tui completions`: shell completion for commands, options, names of clusters and ids of jobs. The shell's
//! script queries this program at each Tab, so it is never out of date.

use super::output;
use anyhow::Context as _;
use clap::{Args, Command, ValueEnum};
use clap_complete::engine;
use clap_complete::env::{Bash, CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
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
    const SHELLS: Shells<'_> = Shells(&[&JoiningBash, &Elvish, &Fish, &Powershell, &Zsh]);
    let env = CompleteEnv::with_factory(command).var(VARIABLE).shells(SHELLS);
    match env.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        // The shell shows nothing in that case.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Bash, which splits the line at each `=`: `--cluster=us` is the option, `=` and the value, and the candidates replace
/// the value.
struct JoiningBash;

impl EnvCompleter for JoiningBash {
    fn name(&self) -> &'static str {
        Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        Bash.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        Bash.write_registration(variable, name, program, completer, out)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        current_dir: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        // The variables of clap_complete's script.
        let variable = |name: &str| std::env::var(name).ok();
        let index = variable("_CLAP_COMPLETE_INDEX").and_then(|index| index.parse().ok()).unwrap_or_default();
        let (words, index) = without_equals(words, index);
        let candidates = engine::complete(command, words, index, current_dir)?;
        let values: Vec<_> = candidates.iter().map(|c| c.get_value().to_string_lossy()).collect();
        let separator = variable("_CLAP_IFS").unwrap_or_else(|| "\n".to_owned());
        write!(out, "{}", values.join(separator.as_str()))
    }
}

/// The words without each `=` between an option and its value, and the index of the word that is completed.
fn without_equals(words: Vec<OsString>, index: usize) -> (Vec<OsString>, usize) {
    let (mut kept, mut kept_index) = (Vec::with_capacity(words.len()), index);
    let mut is_after_option = false;
    for (i, word) in words.into_iter().enumerate() {
        if is_after_option && word == "=" && i != index {
            kept_index -= usize::from(i < index);
        } else {
            is_after_option = word.as_encoded_bytes().starts_with(b"-");
            kept.push(word);
        }
    }
    (kept, kept_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_and_its_value_are_two_words() {
        let joined = |line: &str, index| {
            let words = line.split(' ').map(OsString::from).collect();
            let (words, index) = without_equals(words, index);
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            (words.join(" "), index)
        };
        assert_eq!(joined("x --cluster = us", 3), ("x --cluster us".to_owned(), 2));
        assert_eq!(joined("x --cluster = us stop-job ev", 5), ("x --cluster us stop-job ev".to_owned(), 4));
        assert_eq!(joined("x stop-job ev --cluster = us", 2), ("x stop-job ev --cluster us".to_owned(), 2));
        assert_eq!(joined("x --cluster us a = b", 5), ("x --cluster us a = b".to_owned(), 5));
    }
}
