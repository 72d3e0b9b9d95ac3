//! `submit-job` in the form of the retired scripts and of `ray job submit`.

use super::cluster_options;
use super::line::{Line, PAIRS, is_plain};
use crate::config::Env;

/// Options of the retired `ray_run.py`, which had no commands.
const OPTIONS: [&str; 8] = [
    "--no_wait",
    "--env_vars",
    "-e",
    "--extra",
    "--tpu",
    "--auto-stop",
    "--submission-id",
    "--entrypoint-resources",
];

/// Variables that `ray_run.py` sent with each job if they were set.
const SENT_VARIABLES: [&str; 3] = ["GIT_COMMIT", "HF_TOKEN", "WANDB_API_KEY"];

/// What a rewritten line of `ray_run.py` does not do.
pub const NOTE: &str = "the project's dependencies are not added to the job; to install them, put `uv run --extra tpu` before its command";

/// Whether a line without a command's name is one of `ray_run.py`: `--cluster X -e NAME VALUE -- python x.py`. Without an
/// option of that script, the line has to select a cluster.
pub fn is_ray_run(line: &Line) -> bool {
    let has_command = line.tail.as_ref().is_some_and(|tail| !tail.is_empty());
    has_command && (has_own_option(line) || cluster_options::is_named(line))
}

/// Whether the line has an option that only a submission has.
pub fn has_own_option(line: &Line) -> bool {
    let is_entrypoint = |word: &String| word.starts_with("--entrypoint-");
    OPTIONS.iter().any(|option| line.has(option)) || line.first.iter().any(is_entrypoint)
}

/// `-c X -- stop-cluster`: a command of this program, which must not be submitted as a job.
#[allow(clippy::unnecessary_wraps, reason = "all forms have this signature")]
pub fn own_command(line: &mut Line) -> Result<(), String> {
    line.rest.extend(line.tail.take().unwrap_or_default());
    line.answer(
        "what follows `--` would be submitted as a job; a command of marin-tui is typed without `--`",
    );
    Ok(())
}

/// `--tpu` without a value meant the cluster's own node type.
pub fn own_type(line: &mut Line) {
    if line.tail.is_none() {
        return;
    }
    for at in 0..line.first.len() {
        if line.first[at] == "--tpu" && line.first.get(at + 1).is_none_or(|next| !is_plain(next)) {
            "--tpu=auto".clone_into(&mut line.first[at]);
        }
    }
}

/// Sends the variables that `ray_run.py` sent, unless the line sets them itself.
pub fn pass_variables(line: &mut Line, env: &Env) {
    for name in SENT_VARIABLES.into_iter().filter(|name| env.var(name).is_some()) {
        let is_it = |word: &String| word == name || word.starts_with(&format!("{name}="));
        if !line.rest.iter().any(is_it) {
            line.rest.extend(["--pass-env", name].map(str::to_owned));
        }
    }
}

/// Rewrites a line of `ray_run.py`, which packs the working directory.
pub fn ray_run(line: &mut Line) -> Result<(), String> {
    rewrite(line, true)?;
    if !line.has("--working-dir") {
        line.rest.extend(["--working-dir", "."].map(str::to_owned));
    }
    Ok(())
}

/// `submit-job "python x.py" --no_wait`, and the words that Ray takes without `--`.
pub fn form(line: &mut Line) -> Result<(), String> {
    rewrite(line, false)
}

/// Rewrites a submission. With `is_empty`, a variable without a value is empty; otherwise it is read from the
/// environment.
fn rewrite(line: &mut Line, is_empty: bool) -> Result<(), String> {
    if line.take("--no_wait") {
        line.rest.push("--no-wait".to_owned());
    }
    let is_last = variables(line, is_empty)?;
    let extra = line.value("--extra")?;
    let bare = line.bare();
    match &mut line.tail {
        None if !bare.is_empty() => line.tail = Some(bare),
        Some(_) if !bare.is_empty() => {
            return Err(format!(
                "`{}` is before `--`; the job's whole command must come after it",
                bare.join(" ")
            ));
        }
        _ => {}
    }
    if is_last {
        line.answer("the last word could be the variable's value or the job's command");
    }
    if line.take("--auto-stop") {
        line.answer("ctrl-c only stops following the log; the job keeps running until `stop-job ID`");
    }
    if let (Some(extra), Some(tail)) = (extra.filter(|e| !e.is_empty()), &mut line.tail) {
        let mut uv: Vec<String> = ["uv", "run"].map(str::to_owned).into();
        uv.extend(extra.split(',').flat_map(|one| ["--extra".to_owned(), one.to_owned()]));
        match &mut tail[..] {
            // A single word is a shell command line.
            [shell] => *shell = format!("{} {shell}", uv.join(" ")),
            _ => drop(tail.splice(0..0, uv)),
        }
        line.answer("install project extras with uv, in the job's command");
    }
    Ok(())
}

/// `-e NAME VALUE`, `-e NAME=VALUE` and `-e NAME`, also as `--env_vars`. Returns whether the last word may have been
/// meant as the job's command.
fn variables(line: &mut Line, is_empty: bool) -> Result<bool, String> {
    let has_command = line.tail.is_some() || !line.clone().bare().is_empty();
    let (mut new, mut old, mut unclear) =
        (Vec::new(), std::mem::take(&mut line.rest).into_iter().peekable(), false);
    while let Some(word) = old.next() {
        if !PAIRS.contains(&word.as_str()) {
            new.push(word);
            continue;
        }
        let mut values = Vec::new();
        while let Some(next) = old.next_if(|next| is_plain(next)) {
            values.push(next);
        }
        // Without `--`, the last words are the job's command.
        let is_end = !has_command && old.peek().is_none();
        let pairs = values.first().is_some_and(|name| !name.contains('='));
        unclear |= is_end && pairs && values.len() == 2;
        let ours = if pairs && !unclear { 2 } else { 1 };
        let command = if is_end { values.split_off(values.len().min(ours)) } else { Vec::new() };
        match &values[..] {
            [] => new.push(word),
            [name] if name.contains('=') || !(is_empty || word == "--env_vars") => {
                // This form is also current.
                let option = if word == "-e" && !is_end { "-e" } else { "--env" };
                new.extend([option.to_owned(), name.clone()]);
            }
            [name] => new.extend(["--env".to_owned(), format!("{name}=")]),
            [name, value] if !name.contains('=') => {
                new.extend(["--env".to_owned(), format!("{name}={value}")]);
            }
            [name, ..] => {
                let name = name.split('=').next().unwrap_or_default();
                return Err(format!("{word} takes a name and a value; write `--env {name}=VALUE`"));
            }
        }
        new.extend(command);
    }
    line.rest = new;
    Ok(unclear)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submitted(words: &str) -> Result<Line, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let valued = ["--working-dir", "--env", "--entrypoint-resources"].map(str::to_owned);
        let mut line = Line::new(&words, valued.into());
        line.rest = std::mem::take(&mut line.first);
        form(&mut line).map(|()| line)
    }

    #[test]
    fn variables_take_one_or_two_words() {
        for (old, new) in [
            ("-e A 1 -- x", "--env A=1 -- x"),
            ("-e A=1 -- x", "-e A=1 -- x"),
            ("-e A -- x", "-e A -- x"),
            ("--env_vars A -- x", "--env A= -- x"),
            ("-e A 1 -e B 2 --no_wait -- x", "--env A=1 --env B=2 --no-wait -- x"),
            ("-e A 1 x y", "--env A=1 -- x y"),
            ("-e A=1 x", "--env A=1 -- x"),
            ("x -e A 1 --no-wait", "--env A=1 --no-wait -- x"),
            ("x -e A 1", "--env A=1 -- x"),
        ] {
            let line = submitted(old).unwrap();
            assert_eq!((line.args().join(" "), line.why), (new.to_owned(), None), "{old}");
        }
        assert!(submitted("-e A x").unwrap().why.unwrap().contains("could be"));
        for wrong in ["-e A 1 2 -- x", "-e A=1 2 -- x", "x -- y"] {
            assert!(submitted(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_in_the_environment_are_sent_once() {
        let env = Env::new(&[("HF_TOKEN", "a"), ("WANDB_API_KEY", "b")], "/");
        let mut line = submitted("-e HF_TOKEN c -- x").unwrap();
        pass_variables(&mut line, &env);
        assert_eq!(line.args().join(" "), "--env HF_TOKEN=c --pass-env WANDB_API_KEY -- x");
    }

    #[test]
    fn extras_come_before_the_command() {
        let line = submitted("--extra tpu,eval -- python x.py").unwrap();
        assert_eq!(line.tail.unwrap().join(" "), "uv run --extra tpu --extra eval python x.py");
        assert!(line.why.is_some());
        let line = submitted("--extra tpu x.py").unwrap();
        assert_eq!(line.tail.unwrap(), ["uv run --extra tpu x.py"]);
        assert_eq!(submitted("--auto-stop -- x").unwrap().args(), ["--", "x"]);
    }
}
