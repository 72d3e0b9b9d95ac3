//! The binary without a terminal: stdout and stderr for scripts, and the exit code.

use crate::program::{Ran, program};
use marin_tui::config::DEFAULTS;
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

/// A working directory with three good cluster files, a broken one and a template.
fn dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let infra = dir.path().join("infra");
    fs::create_dir(&infra).unwrap();
    let types =
        "available_node_types:\n  head: {}\n  tpu: {min_workers: 2, max_workers: 8}\nhead_node_type: head\n";
    for (file, zone) in [("us-east1", "us-east1-d"), ("us-east5", "us-east5-a"), ("eu-west4", "eu-west4-b")] {
        let text = format!(
            "cluster_name: marin-{file}\nprovider: {{type: gcp, availability_zone: {zone}}}\n{types}"
        );
        fs::write(infra.join(format!("{file}.yaml")), text).unwrap();
    }
    fs::write(infra.join("lab.yaml"), "cluster_name: lab\nprovider:\n\ttype: local\n").unwrap();
    fs::write(infra.join("template.yaml"), "cluster_name: {{NAME}}\n").unwrap();
    dir
}

/// Runs the binary in this directory without a terminal: exit code, stdout, stderr.
fn run(dir: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let Ran { code, out, err } = Ran::of(&program(dir.path()).args(arguments).output().unwrap());
    (code.unwrap(), out, err)
}

#[test]
fn clusters_are_listed_for_people() {
    let (code, out, err) = run(&dir(), &["clusters"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("CLUSTER"), "{out}");
    assert!(lines[1].starts_with("marin-eu-west4  gcp") && lines[1].ends_with("eu-west4.yaml"), "{out}");
    assert_eq!(lines.len(), 5);
    assert!(lines[4].starts_with("broken: ") && lines[4].contains("lab.yaml:3:1"), "{out}");
}

#[test]
fn clusters_are_listed_for_scripts() {
    let (code, out, err) = run(&dir(), &["clusters", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[1]["cluster"], "marin-us-east1");
    assert_eq!(rows[1]["zone"], "us-east1-d");
    assert_eq!(rows[1]["head"]["command"], "ray get-head-ip");
    let tpu = rows[1]["node_types"].as_array().unwrap().iter().find(|t| t["name"] == "tpu").unwrap();
    assert_eq!((&tpu["min"], &tpu["max"]), (&Value::from(2), &Value::from(8)));
    assert!(rows[3]["error"].as_str().unwrap().contains("lab.yaml:3:1") && rows[3]["hint"].is_string());
}

#[test]
fn the_settings_that_are_printed_are_read_back() {
    let dir = dir();
    let (code, out, _) = run(&dir, &["print-settings"]);
    assert_eq!((code, out.as_str()), (0, DEFAULTS));
    fs::write(dir.path().join("config.yaml"), out).unwrap();
    let (code, _, err) = run(&dir, &["clusters", "--config", "config.yaml"]);
    assert_eq!((code, err.as_str()), (0, ""));
}

#[test]
fn without_a_terminal_the_error_names_alternatives() {
    let (code, out, err) = run(&dir(), &[]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(
        err,
        "marin-tui: the console needs a terminal; use --plain to print changes line by line, or use a command (see --help)\n"
    );
}

#[test]
fn errors_have_a_hint() {
    let dir = dir();
    fs::create_dir(dir.path().join("empty")).unwrap();
    fs::write(dir.path().join("typo.yaml"), "refresh_second: 3\n").unwrap();
    for (arguments, code, words) in [
        (&["clusters", "--infra", "empty"][..], 1, ["no cluster files", "--infra"]),
        (&["clusters", "--config", "typo.yaml"], 1, ["refresh_second", "did you mean `refresh_seconds`?"]),
        (&["clusters", "--config", "none.yaml"], 1, ["none.yaml", "marin-tui:"]),
        (&["clusters", "--address", "localhost:8265"], 1, ["not a dashboard address", "http://HOST:8265"]),
        (&["clusters", "--gcs", "localhost:6379"], 2, ["--address", "Usage"]),
        (&["--clutser", "x"], 2, ["--clutser", "--cluster"]),
        (&["cluster"], 2, ["cluster", "clusters"]),
    ] {
        let (got, out, err) = run(&dir, arguments);
        assert_eq!((got, out.as_str()), (code, ""), "{arguments:?}: {err}");
        assert!(words.iter().all(|w| err.contains(w)), "{arguments:?}: {err}");
    }
}

#[test]
fn help_and_version_succeed() {
    let dir = dir();
    let (code, out, _) = run(&dir, &["--help"]);
    assert!(code == 0 && out.contains("Examples:") && out.contains("--address"), "{out}");
    let (code, out, _) = run(&dir, &["--version"]);
    assert_eq!((code, out), (0, format!("marin-tui {}\n", env!("CARGO_PKG_VERSION"))));
}
