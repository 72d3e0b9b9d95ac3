//! Runs in a shell: every command line of the page "Coming from cluster.py", of the tutorials, README, manual and help
//! texts.

mod bad_input;
mod desk;
mod guesses;

use crate::program::{Ran, kill};
use crate::running::Running;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use desk::{Desk, OURS};
use marin_tui::cli::{Arguments, old};
use marin_tui::config::Env;
use marin_tui::manual::{PAGES, page};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// The job of the page; a job of the simulated cluster is used instead.
const JOB: &str = "raysubmit_pAJM8vKfHPhiyHBa";

/// The rows of the page: the old and the new cell.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let cells =
        page("old-script").unwrap().lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = cells.map(|row| row.split_once(" | ").unwrap_or_else(|| panic!("no two cells: {row}")));
    rows.filter(|(before, _)| !matches!(*before, "before" | "---"))
}

/// The texts in backticks.
fn lines(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The line of a cell that contains nothing else, if it calls the program.
fn ours(cell: &'static str) -> Option<&'static str> {
    let line = cell.strip_prefix('`')?.strip_suffix('`').filter(|line| !line.contains('`'))?;
    OURS.iter().any(|name| line.split([' ', '(']).any(|word| word == *name)).then_some(line)
}

#[test]
fn every_new_line_of_the_page_is_parsed() {
    let desk = Desk::new();
    let mut read = 0;
    for (before, now) in rows() {
        let new: Vec<&str> = lines(now).into_iter().filter(|line| line.contains("marin-tui")).collect();
        assert!(!new.is_empty(), "{before} has no line to type");
        for line in new {
            let words = desk.text(line);
            let all = ["marin-tui".to_owned()].into_iter().chain(words.clone());
            Arguments::try_parse_from(all).unwrap_or_else(|e| panic!("{line}: {e}"));
            // It is not an old line itself.
            let renewed = old::renew(&words, &Arguments::command(), &Env::new(&[], desk.dir.path()));
            assert_eq!(renewed, Ok(None), "{line}");
            read += 1;
        }
    }
    assert!(read > 70, "only {read} lines were read");
}

#[test]
fn every_old_line_of_the_page_becomes_its_new_line() {
    let desk = Desk::new();
    let (mut run, mut answered) = (0, 0);
    for (line, now) in rows().filter_map(|(before, now)| Some((ours(before)?, lines(now)[0]))) {
        match desk.renewed(line) {
            Ok(new) => {
                let (new, now) = (desk.text(&new), desk.text(now));
                let short = |words: Vec<String>| words.join(" ").replace("--cluster ", "-c ");
                assert_eq!(short(new), short(now), "{line}");
                run += 1;
            }
            Err(why) => {
                assert!(why.ends_with(&format!("; run `{now}`")), "{line}: {why}");
                let Ran { code, out, err } = desk.typed(line);
                assert_eq!((code, out, err), (Some(2), String::new(), format!("error: {why}\n")), "{line}");
                answered += 1;
            }
        }
    }
    assert!(run > 30 && answered > 6, "{run} {answered}");
}

/// The command line in a line of text: without its comment, shell redirections and pipes, and the optional parts of a
/// synopsis.
fn typed(line: &str) -> String {
    let line = line.trim_start();
    let ends = ["  ", " # ", " | ", " > ", " < ", " && ", " &"].iter();
    let ends = ends.flat_map(|end| line.match_indices(end)).map(|(at, _)| at);
    // Text in quotes belongs to the command.
    let is_whole = |at: &usize| ['\'', '"'].iter().all(|quote| line[..*at].matches(*quote).count() % 2 == 0);
    let line = &line[..ends.filter(is_whole).min().unwrap_or(line.len())];
    let left_out = regex::Regex::new(r" \[[^\]]*\]|(?:\|[A-Z]+)").unwrap();
    left_out.replace_all(line, "").into_owned()
}

#[test]
fn every_line_of_the_readme_the_manual_and_the_help_texts_is_parsed() {
    fn helps(command: &clap::Command, into: &mut Vec<String>) {
        into.push(command.clone().render_long_help().to_string());
        command.get_subcommands().for_each(|inner| helps(inner, into));
    }
    let (desk, mut all) = (Desk::new(), Vec::new());
    let mut program = Arguments::command();
    program.build();
    helps(&program, &mut all);
    let pages = PAGES.iter().map(|(_, text)| *text).chain([include_str!("../../README.md")]);
    let lines = pages.flat_map(str::lines).filter(|line| line.starts_with("    marin-tui "));
    let of_helps = all.iter().flat_map(|help| help.lines()).filter(|line| line.starts_with("  marin-tui "));
    let lines: BTreeSet<String> = lines.chain(of_helps).map(typed).collect();
    assert!(lines.len() > 150, "only {} lines were found", lines.len());
    let refused = |line: &String| {
        let words = ["marin-tui".to_owned()].into_iter().chain(desk.text(line));
        let error = Arguments::try_parse_from(words).err()?;
        let is_shown = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        (!is_shown).then(|| format!("{line}: {}", error.to_string().lines().next().unwrap_or_default()))
    };
    let refused: Vec<String> = lines.iter().filter_map(refused).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// The words of a line without the options that select the cluster.
fn without_location(mut words: Vec<String>) -> Vec<String> {
    while let Some(at) =
        words.iter().position(|w| ["-c", "--infra", "--address", "--gcs"].contains(&w.as_str()))
    {
        words.drain(at..at + 2);
    }
    words
}

#[test]
fn lines_of_ray_s_own_command_are_known() {
    let desk = Desk::new();
    let mut known = 0;
    let ray =
        |cell: &'static str| cell.strip_prefix("`ray ")?.strip_suffix('`').filter(|line| !line.contains('`'));
    for (line, now) in rows().filter_map(|(before, now)| Some((ray(before)?, lines(now)[0]))) {
        let old = format!("HEAD_SERVER=10.138.0.13; marin-tui {line}");
        let new = match desk.renewed(&old) {
            Ok(new) => desk.text(&new),
            Err(why) => desk.text(why.rsplit('`').nth(1).unwrap()),
        };
        assert_eq!(without_location(new), without_location(desk.text(now)), "{line}");
        known += 1;
    }
    assert!(known > 10, "{known}");
}

/// Commands that change something, each with the option that prevents it.
const CHANGES: [(&str, &str); 17] = [
    ("add-worker", "--dry-run"),
    ("init-worker", "--dry-run"),
    ("remove-worker", "--dry-run"),
    ("restart-cluster", "--dry-run"),
    // In a simulated fleet only the head accepts logins.
    ("run-cleanup", "--dry-run --only tpus"),
    ("restore-jobs", "--dry-run"),
    ("setup", "--check"),
    ("start-cluster", "--dry-run"),
    ("stop-cluster", "--dry-run"),
    ("stop-job", "--dry-run"),
    ("submit-job", "--dry-run"),
    ("update-cluster", "--dry-run"),
    ("ray_run.py", "--dry-run"),
    ("manual_ray_worker_launch.py", "--dry-run"),
    ("update-configs", "--check"),
    ("init-secret", "--yes"),
    ("backup-jobs", ""),
];

/// Commands that run until ctrl-c.
const STAYS: [&str; 6] = ["dashboard", "open-dashboard", "show-logs", "--no-open", "auth", "cluster-logs -f"];

/// A simulated fleet, with a job and a worker in place of those of the page.
struct Fleet {
    desk: Desk,
    job: String,
    worker: String,
}

impl Fleet {
    fn new() -> Self {
        let desk = Desk::with_fleet();
        let row = |words: &[&str], of: &dyn Fn(&Value) -> bool| {
            let ran = desk.run(&[&["-c", "us-central2"], words].concat()).exits(0).json();
            let rows = ran.as_array().or_else(|| ran["rows"].as_array()).unwrap().clone();
            rows.into_iter().find(|row| of(row)).unwrap()
        };
        let job = row(&["list-jobs", "--all", "--json"], &|job| job["status"] == "succeeded");
        let tpu = row(&["tpus", "--json"], &|tpu| tpu["accelerator_type"] == "v4-8");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self { job: text(&job["submission_id"]), worker: text(&tpu["name"]), desk }
    }

    /// Runs a line of the page with options that prevent all changes to the fleet but that of a secret.
    fn run(&self, line: &str) {
        let line =
            line.replace(JOB, &self.job).replace("--name my-worker", &format!("--name {}", self.worker));
        let line = line.replace("NAME --drain", &format!("{} --drain", self.worker));
        let change = CHANGES.iter().find(|(name, _)| line.split(' ').any(|word| word == *name));
        let line = match (line.split_once(" -- "), change) {
            (_, None) => line,
            (_, Some((_, dry))) if line.ends_with(dry) => line,
            (Some((first, rest)), Some((_, dry))) => format!("{first} {dry} -- {rest}"),
            (None, Some((_, dry))) => format!("{line} {dry}"),
        };
        let words: Vec<&str> = line.split(' ').collect();
        let stays = |word: &&str| word.split(' ').all(|part| words.contains(&part));
        if !STAYS.iter().any(stays) {
            let ran = self.desk.typed(&line);
            // A search that finds nothing is a failure, as with grep.
            let is_search = words.contains(&"-g");
            assert!(ran.code == Some(0) || (is_search && ran.code == Some(1)), "{line}: {}", ran.err);
            return;
        }
        let of_auth = words.contains(&"auth");
        let quiet = if of_auth && !line.contains("--no-open") { " --no-open --no-copy" } else { "" };
        let mut running = Running::start(self.desk.shell(&format!("exec {line}{quiet}")));
        if of_auth {
            running.err.next();
        } else {
            running.out.next();
        }
        kill("-INT", running.child.id());
    }
}

#[test]
fn old_lines_run_on_a_fleet() {
    let fleet = Fleet::new();
    let mut ran = 0;
    for line in rows().filter_map(|(before, _)| ours(before)) {
        let is_run = fleet.desk.renewed(line).is_ok();
        // There is no browser here, and an address of the tutorials is not a host.
        if is_run && !line.ends_with(" auth") && !line.contains("ssh-tpu") {
            fleet.run(line);
            ran += 1;
        }
    }
    assert!(ran > 30, "only {ran} lines were run");
}

#[test]
fn new_lines_for_other_old_commands_run_on_a_fleet() {
    let fleet = Fleet::new();
    let token = fleet.desk.at(".ray/auth_token");
    fs::create_dir_all(token.parent().unwrap()).unwrap();
    fs::write(token, "tok-0f1e2d3c4b5a\n").unwrap();
    // Images, registries and shells in a container have their own tests, and the console needs a terminal.
    let elsewhere = ["image ", "registry ", "exec"];
    let is_here = |line: &&str| line.contains("marin-tui ") && !elsewhere.iter().any(|of| line.contains(of));
    let (mut ran, mut secrets) = (0, 0);
    for (_, now) in rows().filter(|(before, _)| ours(before).is_none()) {
        for line in lines(now).into_iter().filter(is_here) {
            // The tag that the files already have: a new one cannot be applied to a running cluster.
            let mut line = line.replace("--env WANDB_API_KEY", "--env HOME").replace("20261120", "latest");
            if line.contains("init-secret") && !line.contains("--rotate") {
                // A secret that does not exist yet.
                secrets += 1;
                line = format!("{line} --secret NEW_TOKEN_{secrets}");
            }
            fleet.run(&line);
            ran += 1;
        }
    }
    assert!(ran > 30, "only {ran} lines were run");
}

/// The lines that an operator and the owner of a job type when they follow the tutorials.
#[test]
fn a_session_of_the_tutorials_still_works() {
    let desk = Desk::with_fleet();
    let cluster = "uv run scripts/ray/cluster.py --config infra/marin-us-central2.yaml";
    let good = |line: &str| desk.typed(line).good();
    let has = |line: &str, words: &str| {
        let out = good(line);
        assert!(out.contains(words), "{line}: {out}");
        out
    };
    has("uv run scripts/ray/cluster.py list-configs", "infra/marin-us-central2.yaml");
    has(&format!("{cluster} get-status"), "marin-us-central2: up");
    has(
        "eval \"$(uv run scripts/ray/cluster.py --cluster us-central2 auth-env)\" && echo $RAY_AUTH_MODE",
        "token",
    );
    // A job: submitted, listed, read, stopped.
    fs::create_dir_all(desk.at("experiments/tutorials")).unwrap();
    fs::write(desk.at("experiments/tutorials/hello_world.py"), "print('hello')\n").unwrap();
    let id = good(
        "export WANDB_API_KEY=0123456789; uv run lib/marin/src/marin/run/ray_run.py --cluster \
         infra/marin-us-central2.yaml --no_wait -e WANDB_API_KEY ${WANDB_API_KEY} -- python \
         experiments/tutorials/hello_world.py",
    );
    let id = id.trim();
    assert!(id.starts_with("raysubmit_"), "{id}");
    has(&format!("{cluster} list-jobs"), id);
    good(&format!("{cluster} job-logs -n 200 {id}"));
    // A stop needs a confirmation, for which there is no terminal here.
    let Ran { code, err, .. } = desk.typed(&format!("{cluster} stop-job {id}"));
    assert!(code == Some(1) && err.contains("--yes"), "{err}");
    good(&format!("{cluster} stop-job --no-wait {id} --yes"));
    let other = good(&format!("{cluster} submit-job \"python my_script.py\" --no_wait"));
    has(&format!("{cluster} list-jobs"), other.trim());
    // The cluster itself: other people's jobs are listed, and kept.
    has(&format!("{cluster} cluster-info"), "marin-us-central2");
    good(&format!("{cluster} restart-cluster --dry-run"));
    let Ran { code, err, .. } = desk.typed(&format!("{cluster} restart-cluster --preserve-jobs=0"));
    assert!(code == Some(1) && err.contains("--others"), "{err}");
    // Reserved capacity, in both forms.
    let launch = "python infra/manual_ray_worker_launch.py --cluster_yaml infra/marin-us-central2.yaml";
    for line in [
        format!("{cluster} add-worker v4-128 --capacity reserved --dry-run"),
        format!("{launch} \\\n       --reserved --tpu_type v4-128 --dry-run"),
    ] {
        has(&line, "reservations/-");
    }
    // New images: the files are generated again.
    has("uv run scripts/ray/cluster.py update-configs", "14 files current");
    // Two commands that are no longer run.
    for (line, new) in [
        ("start-cleanup --interval 600", "run-cleanup --interval 10m"),
        ("clean-tpu-processes --tpu-type v4-8", "run-cleanup --only processes"),
    ] {
        let err = desk.typed(&format!("{cluster} {line}")).exits(2).err;
        let new = format!("run `marin-tui --infra infra/marin-us-central2.yaml {new}`");
        assert!(err.trim_end().ends_with(&new), "{err}");
    }
}
