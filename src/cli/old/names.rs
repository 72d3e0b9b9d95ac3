//! The old names of commands: those of the retired `cluster.py`, of related scripts, and of Ray's command line.

use super::cluster_options::{self, is_file, only_one};
use super::line::{Line, is_plain, one};
use super::submit;

/// Rewrites a line apart from its command's name.
pub type Form = fn(&mut Line) -> Result<(), String>;

/// An old name, the words of the new one, and how the rest of the line is rewritten. A form refuses contradictions, and
/// suggests a new line if the old one has another meaning now or would end something without confirmation.
const NAMES: [(&str, &str, Form); 38] = [
    ("list-configs", "clusters", same),
    ("cluster-info", "clusters --wide", same),
    ("update-configs", "configs update", of_the_folder),
    ("get-status", "status", same),
    ("monitor-cluster", "status", monitor),
    ("list-workers", "list-nodes", same),
    ("ssh-head", "ssh", a_command),
    ("ssh-tpu", "ssh", tpu_host),
    ("ssh", "ssh", without_zone),
    ("attach", "exec", of_a_file),
    ("exec", "exec", exec),
    ("dashboard", "forward dashboard", dashboard),
    ("open-dashboard", "forward dashboard", dashboard),
    ("forward", "forward", own_port),
    ("show-logs", "cluster-logs", autoscaler_log),
    ("cluster-logs", "cluster-logs", last_lines),
    ("clean-preempted-tpus", "clean-preempted", same),
    ("start-cleanup", "run-cleanup", repeated),
    ("clean-tpu-processes", "run-cleanup --only processes", clean_processes),
    ("run-cleanup", "run-cleanup", clean_processes),
    ("get-secrets", "token fetch", same),
    ("get-auth-token", "token path", token_file),
    ("add-worker", "add-worker", add_worker),
    ("init-worker", "init-worker", named_worker),
    ("remove-worker", "remove-worker", named_worker),
    ("submit-job", "submit-job", submit::form),
    ("stop-job", "stop-job", stop_job),
    ("up", "start-cluster", up),
    ("down", "stop-cluster", down),
    ("job submit", "submit-job", submit::form),
    ("job status", "job-status", same),
    ("job logs", "job-logs", last_lines),
    ("job-logs", "job-logs", last_lines),
    ("job stop", "stop-job", stop_job),
    ("job delete", "delete-job", same),
    ("job list", "list-jobs --all", same),
    ("list jobs", "list-jobs --all", same),
    ("list nodes", "list-nodes", same),
];

/// The new name of an old command, and how the rest of its line is rewritten.
pub fn row(old: &str) -> Option<(&'static str, Form)> {
    NAMES.iter().find(|(name, ..)| *name == old).map(|(_, new, form)| (*new, *form))
}

/// Old names that are no longer commands, each with its replacement.
pub fn renamed() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = NAMES.iter().filter(|(old, new, _)| old != new);
    rows.map(|(old, new, _)| (*old, new.split(" --").next().unwrap_or(new)))
}

/// Keeps the rest of the line.
#[allow(clippy::unnecessary_wraps, reason = "all forms have this signature")]
fn same(_: &mut Line) -> Result<(), String> {
    Ok(())
}

/// Replaces a file given with `--infra` by its directory: all cluster files are generated from one table there.
#[allow(clippy::unnecessary_wraps, reason = "all forms have this signature")]
fn of_the_folder(line: &mut Line) -> Result<(), String> {
    line.replace(&["--infra"], |_, path| {
        let path = std::path::Path::new(path);
        let folder = path.parent().filter(|_| !path.is_dir())?;
        let folder = if folder.as_os_str().is_empty() { ".".into() } else { folder.display().to_string() };
        Some(vec!["--infra".to_owned(), folder])
    });
    Ok(())
}

#[allow(clippy::unnecessary_wraps, reason = "all forms have this signature")]
fn monitor(line: &mut Line) -> Result<(), String> {
    if line.take("--wandb") {
        line.answer("nothing is sent to Weights & Biases; `status --json` is for programs");
    }
    Ok(())
}

/// `ssh-head ls -l`, with and without `--`.
#[allow(clippy::unnecessary_wraps, reason = "all forms have this signature")]
fn a_command(line: &mut Line) -> Result<(), String> {
    let mut command = line.bare();
    if !command.is_empty() {
        command.extend(line.tail.take().unwrap_or_default());
        line.tail = Some(command);
    }
    Ok(())
}

/// Adds a placeholder for the cluster to a suggested line: the old script searched the machines of a whole project.
fn on_a_cluster(line: &mut Line) {
    if !cluster_options::is_named(line) {
        line.first.splice(0..0, ["-c", "NAME"].map(str::to_owned));
    }
}

/// Removes project and zone: a machine is looked up in those of its cluster.
fn without_zone(line: &mut Line) -> Result<(), String> {
    if line.value("--project")?.is_some() | line.value("--zone")?.is_some() {
        line.answer("project and zone come from the cluster file");
        on_a_cluster(line);
    }
    Ok(())
}

fn tpu_host(line: &mut Line) -> Result<(), String> {
    without_zone(line)?;
    let mut bare = line.bare().into_iter();
    let host = bare.next();
    let mut command: Vec<String> = bare.chain(line.tail.take().unwrap_or_default()).collect();
    if command.first().is_some_and(|word| !is_plain(word)) {
        command.clear();
        line.answer("put ssh options in ~/.ssh/config, and use `forward` for the cluster's ports");
        on_a_cluster(line);
    }
    line.rest.extend(host);
    line.tail = Some(command).filter(|command| !command.is_empty());
    Ok(())
}

/// Passes the cluster file, the first word of Ray's commands, with `--infra`.
fn of_a_file(line: &mut Line) -> Result<(), String> {
    let mut bare = line.bare();
    let is_file = bare.first().is_some_and(|word| is_file(word));
    if is_file {
        line.first.extend(["--infra".to_owned(), bare.remove(0)]);
        only_one(line)?;
    }
    line.rest.extend(bare);
    Ok(())
}

/// Ray's `exec FILE "df -h"`. Without a file the line is a current one: everything after the name belongs to the
/// command.
fn exec(line: &mut Line) -> Result<(), String> {
    if !line.rest.iter().find(|word| is_plain(word)).is_some_and(|word| is_file(word)) {
        return Ok(());
    }
    of_a_file(line)?;
    a_command(line)
}

fn dashboard(line: &mut Line) -> Result<(), String> {
    of_a_file(line)?;
    own_port(line)
}

fn own_port(line: &mut Line) -> Result<(), String> {
    if line.value("--port")?.is_some() {
        line.answer("each cluster has its own local port; `marin-tui clusters` lists them");
    }
    Ok(())
}

/// `dashboard` without a cluster: a page with all of them.
#[allow(clippy::unnecessary_wraps, reason = "all forms have this signature")]
pub fn all_clusters(line: &mut Line) -> Result<(), String> {
    line.rest.clear();
    line.answer(
        "the console shows all clusters; `marin-tui -c NAME forward dashboard` opens the dashboard of one",
    );
    Ok(())
}

/// `ray get-auth-token`, which prints the token.
#[allow(clippy::unnecessary_wraps, reason = "all forms have this signature")]
fn token_file(line: &mut Line) -> Result<(), String> {
    line.answer("tokens are never printed; the path of the token file is printed instead");
    Ok(())
}

/// `ray get-auth-token --generate`, which writes a new token into a file on this machine.
#[allow(clippy::unnecessary_wraps, reason = "all forms have this signature")]
pub fn generated(line: &mut Line) -> Result<(), String> {
    line.take("--generate");
    line.answer("a cluster's token is created in its secret, which all its machines read");
    Ok(())
}

fn autoscaler_log(line: &mut Line) -> Result<(), String> {
    if !line.has("-f") && !line.has("--follow") {
        line.rest.push("-f".to_owned());
    }
    last_lines(line)?;
    if !has_line_count(line) {
        line.rest.extend(["-n", "100"].map(str::to_owned));
    }
    Ok(())
}

/// `--tail 200`, which is `-n 200` now.
fn last_lines(line: &mut Line) -> Result<(), String> {
    let Some(lines) = line.value("--tail")? else { return Ok(()) };
    lines.parse::<u32>().map_err(|_| format!("`--tail {lines}` is not a number of lines"))?;
    if has_line_count(line) {
        return Err("the number of lines is given twice, by --tail and by -n; specify it once".to_owned());
    }
    line.rest.extend(["-n".to_owned(), lines]);
    Ok(())
}

fn has_line_count(line: &Line) -> bool {
    line.has("-n") || line.has("--lines")
}

fn repeated(line: &mut Line) -> Result<(), String> {
    let interval = line.value("--interval")?.unwrap_or_else(|| "600".to_owned());
    // The option without its value.
    line.take("--interval");
    on_a_cluster(line);
    let interval = match interval.parse::<u32>() {
        Ok(seconds) if seconds % 60 == 0 => format!("{}m", seconds / 60),
        Ok(seconds) => format!("{seconds}s"),
        // It already has the current form.
        Err(_) => interval,
    };
    line.rest.extend(["--interval".to_owned(), interval]);
    line.answer("cleanup runs on this machine until ctrl-c, not as a job on the cluster");
    Ok(())
}

fn clean_processes(line: &mut Line) -> Result<(), String> {
    if line.value("--tpu-type")?.is_some() {
        line.answer("all workers are checked for leftovers, whatever their type");
        on_a_cluster(line);
    }
    Ok(())
}

/// Rewrites a type without an option before it, and the options of `manual_ray_worker_launch.py`.
pub fn add_worker(line: &mut Line) -> Result<(), String> {
    for (old, capacity) in [
        ("--reserved", "reserved"),
        ("--preemptible", "preemptible"),
        ("--best_effort", "best-effort"),
        ("--best-effort", "best-effort"),
    ] {
        if line.take(old) {
            line.rest.extend(["--capacity".to_owned(), capacity.to_owned()]);
        }
    }
    if let Some(name) = line.value("--tpu_name")? {
        line.rest.extend(["--name".to_owned(), name]);
    }
    // The head is found by its label.
    line.value("--head")?;
    if line.value("--project")?.is_some()
        | line.value("--zone")?.is_some()
        | line.value("--version")?.is_some()
    {
        line.answer("project, zone and runtime version come from the cluster file");
    }
    let long = line.value("--tpu_type")?;
    let old: Vec<String> = line.bare().into_iter().chain(long).collect();
    if !old.is_empty() {
        let all = old.into_iter().chain(line.value("--type")?).collect();
        let kind = one(all, "the TPU type")?.unwrap_or_default();
        line.rest.splice(0..0, ["--type".to_owned(), kind]);
    }
    Ok(())
}

fn named_worker(line: &mut Line) -> Result<(), String> {
    let Some(name) = line.value("--name")? else { return Ok(()) };
    let all = line.bare().into_iter().chain([name]).collect();
    line.rest.splice(0..0, one(all, "the worker")?);
    Ok(())
}

/// Removes `--no-wait`: the command waits until the jobs have ended; ctrl-c ends the wait at any time.
#[allow(clippy::unnecessary_wraps, reason = "all forms have this signature")]
fn stop_job(line: &mut Line) -> Result<(), String> {
    line.take("--no-wait");
    line.take("--no_wait");
    Ok(())
}

fn up(line: &mut Line) -> Result<(), String> {
    launcher(line)?;
    line.answer("starting a cluster needs confirmation; for a running cluster use `update-cluster`");
    Ok(())
}

fn down(line: &mut Line) -> Result<(), String> {
    launcher(line)?;
    line.answer("stopping a cluster needs confirmation, after a list of the affected jobs");
    Ok(())
}

/// `ray up` and `ray down`: removes the options that skip questions or belong to Ray.
fn launcher(line: &mut Line) -> Result<(), String> {
    of_a_file(line)?;
    for option in ["-y", "--yes", "--no-config-cache", "--no-restart", "--restart-only"] {
        line.take(option);
    }
    Ok(())
}
