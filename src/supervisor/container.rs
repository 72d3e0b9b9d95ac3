//! Command lines that run in a cluster's container, in the same way as Ray's own launcher (`DockerCommandRunner` and
//! `_with_interactive` in `ray/autoscaler/_private/command_runner.py`): in an interactive login shell, so that settings
//! in `.bashrc` apply.

use crate::config::Launch;
use crate::model::command_line::shell_quote;
use crate::model::{ClusterSpec, Hint, Problem, ProblemKind, Target, Timestamp};
use crate::ssh::quote;

/// Enters the container `$2` of `$1` (docker or podman) with the options `$3` and runs the remaining arguments, or
/// prints why that is not possible. `$4` is how to log in to the machine itself.
const ENTER: &str = r#"d=$1 n=$2 o=$3 login=$4
shift 4
fail() { printf '%s\n' "marin-tui: $*" >&2; exit 1; }
command -v "$d" >/dev/null 2>&1 || fail "$d is not installed on $(hostname), but the cluster file uses the container $n; install it, or run the command on the machine itself: \`$login\`"
s=$("$d" inspect --type container -f '{{.State.Running}}' "$n" 2>&1)
case $s in
  true) exec "$d" exec $o "$n" "$@" ;;
  false) fail "the container $n on $(hostname) is stopped; start it there with \`$d start $n\`, or restart the cluster" ;;
  *[Pp]'ermission denied'*) fail "$(id -un) has no permission to use $d on $(hostname); add the user to its group there: \`sudo usermod -aG $d $(id -un)\`, then log in again" ;;
  *[Nn]'o such'*) fail "no container $n on $(hostname); list the running ones: \`$login -- $d ps\`" ;;
  *) fail "$d on $(hostname): $s" ;;
esac"#;

/// Runs first in the shell, in the container or on the machine.
const BEFORE: &str = "[ ! -f ~/.bashrc ] || . ~/.bashrc\nexport OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore\n";

/// A command line that runs `line` on a machine of the cluster: in the container that the cluster file names, or else
/// on the machine itself. Without a line it opens a shell. `terminal`: whether the line has a terminal. Exits with the
/// code of the line, or with 1 and a reason if there is no such container.
pub fn inside(
    spec: &ClusterSpec,
    host: Option<&str>,
    line: Option<&str>,
    terminal: bool,
) -> Result<String, Problem> {
    Ok(shell_join(&[enter(spec, host, terminal)?, shell(line, terminal)].concat()))
}

/// A command line that prints a file in the home directory of Ray's user on the head.
pub fn reading(spec: &ClusterSpec, name: &str) -> Result<String, Problem> {
    let read = ["sh", "-c", &format!("cat ~/{name}")].map(str::to_owned);
    Ok(shell_join(&[enter(spec, None, false)?, read.to_vec()].concat()))
}

/// A command line that runs a program with its arguments in the container on a machine of the cluster (`None`: the
/// head); `None` if the cluster file names no container.
pub fn in_container(
    spec: &ClusterSpec,
    host: Option<&str>,
    program: &[&str],
) -> Result<Option<String>, Problem> {
    let enter = enter(spec, host, false)?;
    let program = program.iter().map(|word| (*word).to_owned());
    Ok((!enter.is_empty()).then(|| shell_join(&enter.into_iter().chain(program).collect::<Vec<_>>())))
}

/// Whether the cluster file names a container. An invalid name counts: it is reported when the container is entered.
pub(super) fn has_container(spec: &ClusterSpec) -> bool {
    !matches!(in_container(spec, None, &[]), Ok(None))
}

/// The arguments that precede a program that runs in the container; `None` if the file names no container.
fn enter(spec: &ClusterSpec, host: Option<&str>, terminal: bool) -> Result<Vec<String>, Problem> {
    let launch = spec.file.is_some().then(|| Launch::of(spec)).transpose();
    let launch = launch.map_err(|e| failure(e.what(), &e.hint))?.filter(|launch| launch.in_container);
    let Some(launch) = launch else { return Ok(Vec::new()) };
    let name = &launch.container;
    // Docker's own rule for names, which also excludes options.
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    if !is_name {
        let what = format!("`docker.container_name: {name}` is not a valid container name");
        return Err(failure(what, "use letters, digits, `_`, `.` and `-` in the cluster file"));
    }
    let program = if launch.use_podman { "podman" } else { "docker" };
    let login = host.map_or_else(|| "ssh".to_owned(), |host| format!("ssh {}", shell_quote(host)));
    let login = Target::of(&spec.name).line(&login);
    let options = if terminal { "-it" } else { "-i" };
    Ok(["sh", "-c", ENTER, "sh", program, name, options, &login].map(str::to_owned).to_vec())
}

/// The shell that runs the line, as arguments.
fn shell(line: Option<&str>, terminal: bool) -> Vec<String> {
    let Some(line) = line else { return vec!["bash".to_owned()] };
    let script = format!("{BEFORE}({line}\n)");
    if terminal {
        return ["bash", "--login", "-c", "-i", &script].map(str::to_owned).to_vec();
    }
    // Without a terminal, an interactive bash prints a warning that is not output of the command.
    let quiet = r#"exec bash --login -c -i "$0" 3>&2 2>/dev/null"#;
    ["bash", "-c", quiet, &format!("exec 2>&3 3>&-\n{script}")].map(str::to_owned).to_vec()
}

fn failure(what: impl AsRef<str>, hint: impl Into<Hint>) -> Problem {
    Problem::new(ProblemKind::Other, what, hint, Timestamp::now())
}

/// Joins arguments to a command line.
pub(super) fn shell_join(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!("exec {}", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    /// The output of the line in a shell with a home directory without `.bashrc`.
    fn stdout_of(line: &str) -> Vec<u8> {
        let home = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
        let out = shell.output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{line}: {out:?}");
        out.stdout
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn a_word_passes_through_all_shells_unchanged(word in "[^\\x00]{0,30}|['\"\\\\$`!#\n -]{0,12}") {
            let line = shell_join(&shell(Some(&format!("printf %s {}", quote(&word))), false));
            prop_assert_eq!(stdout_of(&line), word.as_bytes());
        }
    }

    #[test]
    fn a_comment_ends_with_its_line() {
        assert_eq!(stdout_of(&shell_join(&shell(Some("echo a # b"), false))), b"a\n");
    }
}
