//! Command lines that the program suggests, typed into a shell unchanged.

use crate::head_fixture::HeadFixture;
use crate::program::{Ran, program};
use marin_tui::demo::Scenario;
use marin_tui::model::JobStatus;
use std::fs;
use std::process::Command;

/// The text between the last two backticks.
fn suggested(said: &str) -> &str {
    said.rsplit('`').nth(1).unwrap_or_else(|| panic!("{said}"))
}

/// Runs the line in a shell, in the environment of a command of the program.
fn typed(line: &str, like: &Command) -> Ran {
    let rest = line.strip_prefix("marin-tui ").unwrap_or_else(|| panic!("{line}"));
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{} {rest}", env!("CARGO_BIN_EXE_marin-tui"))]).env_clear();
    shell.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::of(&shell.current_dir(like.get_current_dir().unwrap()).output().unwrap())
}

#[test]
fn a_suggested_line_uses_the_same_cluster() {
    let fixture = HeadFixture::new(Scenario { jobs: 0, ..Scenario::default() });
    fixture.file("config.yaml", "refresh_seconds: 5\n");
    for id in ["one", "two"] {
        fixture.ok(&["submit-job", "--no-wait", "--submission-id", id, "--", "true"]);
        fixture.head.turn_job(id, JobStatus::Running);
    }
    let command = fixture.command(&["stop-job", "--yes", "one"]);
    let refused = fixture.run(&["stop-job", "--yes", "one"]).exits(1);
    let line = suggested(&refused.err);
    for option in ["--config ", "--address http://", "--gcs ", "stop-job one --others --yes"] {
        assert!(line.contains(option), "{line}");
    }
    assert!(!line.contains(" -c "), "{line}");
    let done = typed(line, &command).good();
    assert!(done.contains("stopped"), "{done}");
    assert_eq!(fixture.head.submissions(JobStatus::Stopped), ["one"]);
}

#[test]
fn a_suggested_line_has_the_same_files() {
    let home = tempfile::tempdir().unwrap();
    let infra = home.path().join("it's infra");
    fs::create_dir(&infra).unwrap();
    let text = "cluster_name: lab\nprovider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\nauth: {ssh_user: me}\n";
    fs::write(infra.join("lab.yaml"), text).unwrap();
    fs::write(home.path().join("my.yaml"), "{}\n").unwrap();
    let run = |words: &[&str]| {
        let mut command = program(home.path());
        command.args(["--infra", "it's infra", "--config", "my.yaml"]).args(words);
        (Ran::of(&command.output().unwrap()), command)
    };
    let (unknown, command) = run(&["-c", "nobody", "status"]);
    let line = suggested(&unknown.err);
    assert_eq!(line, r"marin-tui --infra 'it'\''s infra' --config my.yaml clusters");
    assert!(typed(line, &command).good().contains("lab"));
}
