//! Command lines of the retired `cluster.py`, related scripts and Ray's own command: rewritten to current ones
//! before parsing, or refused with the line to type if the meaning differs.
//!
//! `assets/manual/old-script.md` lists all of them, and `tests/program/old_script.rs` runs that table.

mod cluster_options;
mod line;
mod names;
mod submit;

use crate::config::Env;
use clap::Command;
use line::Line;
use std::collections::BTreeSet;

pub use line::REST;
pub use names::renamed;

/// Options of the old scripts that are followed by a value, in lines without a command's name.
const VALUE_OPTIONS: [&str; 8] =
    ["--extra", "--tpu", "--tpu_type", "--tpu_name", "--head", "--project", "--zone", "--submission-id"];

/// An old command line in its current form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Its arguments, without the program's name.
    pub words: Vec<String>,
    /// The whole line as it can be typed, without the values of secrets.
    pub line: String,
    /// What the old line did and the new one does not, as a sentence without a full stop.
    pub note: Option<&'static str>,
}

/// The current form of an old command line, given without the program's name; `None` if nothing in it is old.
///
/// # Errors
///
/// Why the line is not run: it contradicts itself, or has another meaning now; the latter with the line to type.
pub fn renew(words: &[String], command: &Command, env: &Env) -> Result<Option<Rewritten>, String> {
    let mut valued = valued(command, "submit-job");
    valued.extend(VALUE_OPTIONS.map(str::to_owned));
    let mut line = Line::new(words, valued);
    cluster_options::renew(&mut line, env)?;
    submit::own_type(&mut line);
    line.find_name();
    if ["job", "list"].iter().any(|first| line.name == [*first])
        && line.rest.first().is_some_and(|word| line::is_plain(word))
    {
        line.name.push(line.rest.remove(0));
    }
    let old = line.name.join(" ");
    let row = match &*old {
        "" if line.has("--tpu_type") => Some(("add-worker", names::add_worker as names::Form)),
        "" if submit::is_ray_run(&line)
            && !submit::has_own_option(&line)
            && names_command(&line, command) =>
        {
            Some(("", submit::own_command as names::Form))
        }
        "" if submit::is_ray_run(&line) => Some(("submit-job", submit::ray_run as names::Form)),
        "dashboard" | "open-dashboard" if !cluster_options::is_named(&line) => {
            Some(("", names::all_clusters as names::Form))
        }
        "get-auth-token" if line.has("--generate") => {
            Some(("token init-secret", names::generated as names::Form))
        }
        old => names::row(old),
    };
    let is_ray_run = old.is_empty() && row.is_some_and(|(new, _)| new == "submit-job");
    if let Some((new, form)) = row {
        if old.is_empty() {
            line.rest = std::mem::take(&mut line.first);
            cluster_options::to_front(&mut line);
        }
        line.valued = self::valued(command, new);
        form(&mut line)?;
        if is_ray_run {
            submit::pass_variables(&mut line, env);
        }
        line.name = new.split_whitespace().map(str::to_owned).collect();
    }
    let new = line.args();
    match line.why.take() {
        Some(why) if old.is_empty() => Err(format!("not run: {why}; run `{}`", line.shown())),
        Some(why) => Err(format!("`{old}` was not run: {why}; run `{}`", line.shown())),
        None => Ok((new != words).then(|| Rewritten {
            line: line.shown(),
            words: new,
            note: is_ray_run.then_some(submit::NOTE),
        })),
    }
}

/// Whether the text after `--` begins with the name of a command, old or new.
fn names_command(line: &Line, command: &Command) -> bool {
    let first = line.tail.as_ref().and_then(|tail| tail.first());
    first.is_some_and(|word| command.find_subcommand(word).is_some() || names::row(word).is_some())
}

/// The options that take a value, of all commands and of one.
fn valued(command: &Command, name: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut add = |command: &Command| {
        for argument in command.get_arguments().filter(|a| a.get_action().takes_values()) {
            all.extend(
                argument.get_long_and_visible_aliases().into_iter().flatten().map(|long| format!("--{long}")),
            );
            all.extend(argument.get_all_aliases().into_iter().flatten().map(|long| format!("--{long}")));
            all.extend(argument.get_short().map(|short| format!("-{short}")));
        }
    };
    add(command);
    let mut inner = command;
    for word in name.split(' ') {
        let Some(found) = inner.find_subcommand(word) else { break };
        add(found);
        inner = found;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn renewed(line: &str) -> Result<Option<Rewritten>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        renew(&words, &crate::cli::Arguments::command(), &Env::new(&[("GIT_COMMIT", "1a2b")], "/"))
    }

    #[test]
    fn a_line_of_ray_run_needs_no_option_but_a_place() {
        for (old, new) in [
            (
                "-c lab -- python x.py",
                "-c lab submit-job --working-dir . --pass-env GIT_COMMIT -- python x.py",
            ),
            (
                "--entrypoint-num-cpus 2 -- python x.py",
                "submit-job --entrypoint-num-cpus 2 --working-dir . --pass-env GIT_COMMIT -- python x.py",
            ),
            (
                "-c lab --tpu -e A 1 -- x",
                "-c lab submit-job --tpu=auto --env A=1 --working-dir . --pass-env GIT_COMMIT -- x",
            ),
        ] {
            let renewed = renewed(old).unwrap().unwrap_or_else(|| panic!("{old}"));
            assert_eq!(renewed.words.join(" "), new, "{old}");
            assert_eq!(renewed.note, Some(submit::NOTE), "{old}");
        }
        assert_eq!(renewed("-- stop-cluster"), Ok(None));
        assert_eq!(renewed("-c lab --"), Ok(None));
        for (line, new) in [
            ("-c lab -- stop-cluster", "run `marin-tui -c lab stop-cluster`"),
            ("-c lab -- get-status", "run `marin-tui -c lab get-status`"),
        ] {
            assert!(renewed(line).unwrap_err().ends_with(new), "{line}");
        }
    }

    #[test]
    fn the_suggested_line_can_be_typed() {
        for (old, new) in [
            ("dashboard --port 9999", "marin-tui"),
            ("-c lab start-cleanup --interval", "marin-tui -c lab run-cleanup --interval 10m"),
            ("start-cleanup", "marin-tui -c NAME run-cleanup --interval 10m"),
            ("-c lab ssh-tpu 10.0.0.1 -- -L 1:localhost:1", "marin-tui -c lab ssh 10.0.0.1"),
            ("ssh-tpu 10.0.0.1 --project p --zone z", "marin-tui -c NAME ssh 10.0.0.1"),
            ("clean-tpu-processes --tpu-type v4-8", "marin-tui -c NAME run-cleanup --only processes"),
        ] {
            let why = renewed(old).unwrap_err();
            assert!(why.ends_with(&format!("; run `{new}`")), "{old}: {why}");
        }
    }

    #[test]
    fn the_log_of_the_autoscaler_is_followed_once() {
        for (old, new) in [
            ("-c lab show-logs -f -n 3", "-c lab cluster-logs -f -n 3"),
            ("-c lab show-logs", "-c lab cluster-logs -f -n 100"),
        ] {
            assert_eq!(renewed(old).unwrap().unwrap().words.join(" "), new);
        }
    }
}
