//! Completion in bash, zsh and fish, each in a terminal, with input as a user types it.

use crate::pty::Pty;
use marin_tui::demo::{Head, Scenario};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How each shell starts without a configuration, and what it needs before the script.
const SHELLS: [(&str, &[&str], &str); 3] = [
    ("bash", &["bash", "--norc", "--noprofile", "-i"], "PS1='ready> '"),
    ("zsh", &["zsh", "-f", "-i"], "PS1='ready> '; autoload -U compinit; compinit -u"),
    ("fish", &["fish", "--no-config", "-i"], "function fish_prompt; echo 'ready> '; end"),
];

/// A home with cluster files in `infra`, and the cluster whose jobs are completed.
struct Fixture {
    home: TempDir,
    head: Head,
    _runtime: Runtime,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let head = runtime.block_on(Head::start(Scenario { jobs: 0, ..Scenario::default() })).unwrap();
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("infra")).unwrap();
        fs::create_dir_all(home.path().join("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_marin-tui"), home.path().join("bin/marin-tui")).unwrap();
        for name in ["lab-north", "lab-south", "team-south-2", "odd;name"] {
            let text = format!(
                "cluster_name: {name}\nprovider: {{type: local, head_ip: 127.0.0.1, worker_ips: []}}\nauth: {{ssh_user: me}}\n"
            );
            fs::write(home.path().join(format!("infra/{name}.yaml")), text).unwrap();
        }
        let fixture = Self { home, head, _runtime: runtime };
        for id in ["eval-open", "eval-ended", "eval-$(touch made)"] {
            fixture.run(&["submit-job", "--no-wait", "--submission-id", id, "--", "sleep 1000"]);
        }
        fixture.run(&["stop-job", "--yes", "--others", "eval-ended"]);
        fixture
    }

    fn env(&self) -> [(&str, String); 5] {
        let home = self.home.path().display().to_string();
        [
            ("PATH", format!("{home}/bin:/usr/bin:/bin")),
            ("GCE_METADATA_HOST", "127.0.0.1:9".into()),
            ("XDG_CONFIG_HOME", format!("{home}/.config")),
            ("XDG_STATE_HOME", format!("{home}/.local/state")),
            ("HOME", home),
        ]
    }

    fn address(&self) -> String {
        format!("http://{}", self.head.dashboard)
    }

    fn run(&self, words: &[&str]) -> Vec<u8> {
        let mut command = Command::new(self.home.path().join("bin/marin-tui"));
        command.env_clear().envs(self.env()).current_dir(self.home.path()).stdin(Stdio::null());
        let out = command.env("RAY_ADDRESS", self.address()).args(words).output().unwrap();
        assert!(out.status.success(), "{words:?}: {out:?}");
        out.stdout
    }

    /// Starts the shell at its prompt, in the home, with the program's script loaded.
    fn shell(&self, name: &str, argv: &[&str], begin: &str) -> Pty {
        let script: PathBuf = self.home.path().join(format!("script.{name}"));
        fs::write(&script, self.run(&["completions", name])).unwrap();
        let env = self.env();
        let env: Vec<(&str, &str)> = env.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let mut shell = Pty::start(argv, &env, 120, 30);
        let home = self.home.path().display();
        shell.send(&format!("cd {home}; {begin}; source {}; echo load''ed\r", script.display()));
        shell.wait_text("loaded");
        shell.wait("a prompt", |text| text.trim_end().ends_with("ready>"));
        shell
    }
}

/// Asserts what a line becomes after Tab; a unique candidate is followed by a space.
#[track_caller]
fn becomes(shell: &mut Pty, typed: &str, expected: &str) {
    // The whole line is sent first: a shell that is still drawing takes a Tab in the middle of it for a paste.
    shell.send(typed);
    shows(shell, &format!("ready> {typed}"));
    shell.send("\t");
    shows(shell, &format!("ready> {expected}"));
    shell.send("\x15");
    shows(shell, "ready>");
}

/// Waits for a line on the screen; below it a shell may list several candidates.
#[track_caller]
fn shows(shell: &Pty, line: &str) {
    shell.wait(line, |text| text.lines().any(|shown| shown.trim_end() == line));
}

#[test]
fn shells_complete_commands_clusters_and_jobs() {
    let fixture = Fixture::new();
    for (name, argv, begin) in SHELLS {
        let mut shell = fixture.shell(name, argv, begin);
        for (typed, expected) in [
            ("marin-tui list-n", "marin-tui list-nodes"),
            ("marin-tui list-jobs --ow", "marin-tui list-jobs --owner"),
            ("marin-tui -c lab-n", "marin-tui -c lab-north"),
            ("marin-tui --cluster=lab-n", "marin-tui --cluster=lab-north"),
            ("marin-tui --cluster=lab-north list-n", "marin-tui --cluster=lab-north list-nodes"),
            // By its name without the first word; no full name begins with it.
            ("marin-tui --cluster south-", "marin-tui --cluster south-2"),
        ] {
            becomes(&mut shell, typed, expected);
        }
        shell.send(&format!("export RAY_ADDRESS={}; clear\r", fixture.address()));
        shell.wait("an empty line", |text| text.trim() == "ready>");
        for (typed, expected) in [
            ("marin-tui stop-job ev", "marin-tui stop-job eval-open"),
            ("marin-tui delete-job ev", "marin-tui delete-job eval-ended"),
            // Both jobs match: their common prefix.
            ("marin-tui job-logs ev", "marin-tui job-logs eval-"),
        ] {
            becomes(&mut shell, typed, expected);
        }
        shell.send("exit\r");
    }
    // Values that a shell would have to quote are never completed.
    let answered = |words: &[&str], address: &str| {
        let mut command = crate::program::program(fixture.home.path());
        command.env("MARIN_TUI_COMPLETE", "fish").env("RAY_ADDRESS", address).args(["--", "marin-tui"]);
        let text = String::from_utf8(command.args(words).output().unwrap().stdout).unwrap();
        let word = |line: &str| line.split('\t').next().unwrap().to_owned();
        let mut words: Vec<_> = text.lines().map(word).filter(|word| !word.starts_with('-')).collect();
        words.sort();
        words
    };
    assert_eq!(answered(&["job-logs", ""], &fixture.address()), ["eval-ended", "eval-open"]);
    assert_eq!(answered(&["--cluster", ""], &fixture.address()), ["lab-north", "lab-south", "team-south-2"]);
}

#[test]
fn a_cluster_that_does_not_respond_completes_to_nothing() {
    let home = tempfile::tempdir().unwrap();
    let words = ["--", "marin-tui", "--address", "http://127.0.0.1:9", "stop-job", ""];
    let mut command = crate::program::program(home.path());
    command.env("MARIN_TUI_COMPLETE", "fish").args(words);
    let out = command.output().unwrap();
    // Options are offered; ids are not, and nothing is printed into the line that the user is typing.
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{text}");
    assert!(text.lines().all(|line| line.starts_with('-')), "{text}");
}

#[test]
fn ids_of_jobs_are_completed_only_for_one_cluster() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name);
    fs::create_dir_all(file("infra")).unwrap();
    fs::create_dir_all(file(".config/marin-tui")).unwrap();
    for name in ["lab-a", "lab-b"] {
        let text = format!(
            "cluster_name: {name}\nprovider: {{type: local, head_ip: 127.0.0.1, worker_ips: []}}\nauth: {{ssh_user: me}}\n"
        );
        fs::write(file(&format!("infra/{name}.yaml")), text).unwrap();
    }
    let ran = file("ran");
    fs::write(file("ssh"), format!("#!/bin/sh\ntouch {}\nexit 255\n", ran.display())).unwrap();
    fs::set_permissions(file("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(file(".config/marin-tui/config.yaml"), format!("ssh: {}\n", file("ssh").display())).unwrap();
    let complete = |words: &[&str]| {
        let mut command = crate::program::program(home.path());
        command.env("MARIN_TUI_COMPLETE", "fish").args(["--", "marin-tui", "--infra", "infra"]).args(words);
        assert!(command.output().unwrap().status.success(), "{words:?}");
        ran.exists()
    };
    assert!(!complete(&["job-logs", ""]), "no cluster is connected to");
    assert!(complete(&["-c", "lab-a", "job-logs", ""]));
}
