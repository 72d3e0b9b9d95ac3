//! Command lines as the retired `cluster.py`, the scripts beside it and Ray's own command had them: rewritten as ours
//! before they are read, or answered with the line to type where the meaning differs.
//!
//! `assets/manual/old-script.md` has all of them in a table, and `tests/program/old_script.rs` types it.

mod line;
mod names;
mod places;
mod submit;

use crate::config::Env;
use clap::Command;
use line::Line;
use std::collections::BTreeSet;

pub use line::REST;
pub use names::renamed;

/// Options of the old scripts that are followed by a value, in lines without a command's name.
const VALUED: [&str; 8] =
    ["--extra", "--tpu", "--tpu_type", "--tpu_name", "--head", "--project", "--zone", "--submission-id"];

/// An old command line as it is written now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Its words, without the program's name.
    pub words: Vec<String>,
    /// The whole line as it can be typed, without the values of secrets.
    pub line: String,
}

/// The new form of an old command line, given without the program's name; none when it has nothing old.
///
/// # Errors
///
/// A sentence why the line is not run: it contradicts itself, or it has another meaning now. It has the line to type then.
pub fn renew(words: &[String], command: &Command, env: &Env) -> Result<Option<Renewed>, String> {
    let mut valued = valued(command, "submit-job");
    valued.extend(VALUED.map(str::to_owned));
    let mut line = Line::new(words, valued);
    places::renew(&mut line, env)?;
    line.find_name();
    if ["job", "list"].iter().any(|first| line.name == [*first])
        && line.rest.first().is_some_and(|word| line::is_plain(word))
    {
        line.name.push(line.rest.remove(0));
    }
    let old = line.name.join(" ");
    let row = match &*old {
        "" if line.has("--tpu_type") => Some(("add-worker", names::add_worker as names::Form)),
        "" if submit::is_ray_run(&line) => Some(("submit-job", submit::ray_run as names::Form)),
        "dashboard" if !places::is_named(&line) => Some(("", names::all_clusters as names::Form)),
        "get-auth-token" if line.has("--generate") => {
            Some(("token init-secret", names::generated as names::Form))
        }
        old => names::row(old),
    };
    if let Some((new, form)) = row {
        if old.is_empty() {
            line.rest = std::mem::take(&mut line.first);
            places::to_front(&mut line);
        }
        line.valued = self::valued(command, new);
        form(&mut line)?;
        line.name = new.split_whitespace().map(str::to_owned).collect();
    }
    let new = line.words();
    match line.why.take() {
        Some(why) if old.is_empty() => Err(format!("not run: {why}; run `{}`", line.shown())),
        Some(why) => Err(format!("`{old}` was not run: {why}; run `{}`", line.shown())),
        None => Ok((new != words).then(|| Renewed { line: line.shown(), words: new })),
    }
}

/// The options that are followed by a value, of all commands and of one.
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
