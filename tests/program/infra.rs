//! `marin-tui configs` on directories on the disk: the one that ships, and broken ones.

use crate::program::{Ran, program};
use crate::transcript::Transcript;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/infra");

/// A copy of the directory that ships.
fn copy() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(OURS).unwrap().map(Result::unwrap).filter(|e| e.path().is_file()) {
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}

/// Runs `configs` on the directory without a terminal: exit code, stdout, stderr.
fn configs(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = program(folder);
    command.arg("configs").args(arguments).arg("--infra").arg(folder);
    let Ran { code, out, err } = Ran::of(&command.output().unwrap());
    (code.unwrap(), out, err)
}

/// An empty transcript of commands on the directory.
fn transcript(folder: &Path) -> Transcript {
    // Parts that differ with every change of the templates that ship.
    let picture = Transcript::new(folder).varying("what follows: [0-9a-f]{40}", "what follows: SUM");
    picture.varying("@@ [-+,0-9 ]+ @@", "@@ LINES @@")
}

/// Runs `configs` and adds its output to a transcript; returns its exit code.
fn shows(shown: &mut Transcript, folder: &Path, arguments: &[&str]) -> i32 {
    let (code, out, err) = configs(folder, arguments);
    shown.add(&format!("configs {}", arguments.join(" ")), &Ran { code: Some(code), out, err });
    code
}

fn change(folder: &Path, file: &str, old: &str, new: &str) {
    let file = folder.join(file);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(old), "{old} is not in {}", file.display());
    fs::write(file, text.replacen(old, new, 1)).unwrap();
}

/// Every file of the directory with its text.
fn everything(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|f| (f.clone(), fs::read_to_string(f).unwrap_or_default()))
        .collect();
    files.sort();
    files
}

/// Names of the files that differ.
fn differing(before: &[(PathBuf, String)], folder: &Path) -> Vec<String> {
    let now = everything(folder);
    assert_eq!(now.len(), before.len(), "no file came or went");
    let differ = before.iter().zip(&now).filter(|(a, b)| a != b).map(|(a, _)| &a.0);
    differ.map(|f| f.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn the_shipped_files_are_up_to_date_and_have_no_findings() {
    let (code, out, err) = configs(Path::new(OURS), &["update", "--check"]);
    assert_eq!((code, err.as_str()), (0, ""), "run `marin-tui configs update`:\n{out}");
    assert!(out.ends_with("14 files current, 0 to change\n"), "{out}");
    let (code, out, _) = configs(Path::new(OURS), &["validate"]);
    assert_eq!((code, out.as_str()), (0, "14 files checked: 0 errors, 0 warnings\n"));
    let examples = ["gcp", "local"].map(|name| format!("{OURS}/examples/{name}.yaml"));
    let (code, out, _) = configs(Path::new(OURS), &["validate", &examples[0], &examples[1]]);
    assert_eq!((code, out.as_str()), (0, "2 files checked: 0 errors, 0 warnings\n"));
}

#[test]
fn one_value_changes_the_expected_files_and_the_diff_shows_it() {
    let dir = copy();
    change(dir.path(), "clusters.yaml", "slices: {v5p-64: 4}", "slices: {v5p-64: 5}");
    let before = everything(dir.path());
    let mut shown = transcript(dir.path());
    assert_eq!(shows(&mut shown, dir.path(), &["update", "--check"]), 1);
    assert_eq!(shows(&mut shown, dir.path(), &["update", "--diff"]), 0);
    shown.is("a_value_that_changes_one_file");
    assert!(differing(&before, dir.path()).is_empty(), "neither writes");
    let (code, out, _) = configs(dir.path(), &["update"]);
    assert_eq!(code, 0);
    assert!(out.contains("+    min_workers: 5") && out.ends_with("13 files current, 1 written\n"), "{out}");
    assert_eq!(differing(&before, dir.path()), ["marin-us-east5-a.yaml"]);
    let (code, out, _) = configs(dir.path(), &["update", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!((code, rows.len()), (0, 14));
    assert!(rows.iter().all(|r| r["state"] == "current" && r["written"] == false && r["diff"] == ""));
}

#[test]
fn an_image_is_set_for_all_or_for_one_and_comments_stay() {
    let dir = copy();
    let before = everything(dir.path());
    let (code, out, err) = configs(dir.path(), &["set-image", "20261120", "us-east1", "marin-big-run"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.contains("+    tag: \"20261120\"") && out.contains("+  image: us-east1-docker.pkg.dev"),
        "{out}"
    );
    assert_eq!(
        differing(&before, dir.path()),
        ["clusters.yaml", "marin-big-run.yaml", "marin-us-east1.yaml"]
    );
    let table = fs::read_to_string(dir.path().join("clusters.yaml")).unwrap();
    let lines = |text: &str| {
        text.lines().filter(|l| !l.contains("tag: \"2026")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&table), lines(&fs::read_to_string(format!("{OURS}/clusters.yaml")).unwrap()));
    let (_, out, _) = configs(dir.path(), &["set-image", "b2f1"]);
    assert!(out.contains("own tag 20261120"), "{out}");
    let (_, out, _) = configs(dir.path(), &["list", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(rows.iter().filter(|r| r["tag"] == "b2f1" && r["state"] == "current").count(), 12);
    let mut shown = transcript(dir.path());
    assert_eq!(shows(&mut shown, dir.path(), &["set-image", "a b"]), 1);
    assert_eq!(shows(&mut shown, dir.path(), &["set-image", "x", "us-esat1"]), 1);
    shown.is("images_that_cannot_be_set");
}

#[test]
fn a_manual_edit_is_shown_and_kept_until_it_is_discarded() {
    let dir = copy();
    change(dir.path(), "marin-us-west4.yaml", "diskSizeGb: 200", "diskSizeGb: 999");
    let (_, out, _) = configs(dir.path(), &["list"]);
    assert!(out.lines().any(|l| l.contains("marin-us-west4 ") && l.ends_with("edited manually")), "{out}");
    let before = everything(dir.path());
    let mut shown = transcript(dir.path());
    assert_eq!(shows(&mut shown, dir.path(), &["update"]), 1);
    shown.is("a_file_that_was_edited_by_hand");
    assert!(differing(&before, dir.path()).is_empty());
    assert_eq!(configs(dir.path(), &["update", "--yes"]).0, 0);
    assert_eq!(differing(&before, dir.path()), ["marin-us-west4.yaml"]);
}

#[test]
fn a_renamed_cluster_needs_confirmation_and_a_removed_one_is_reported() {
    let dir = copy();
    change(dir.path(), "clusters.yaml", "cluster_name: marin-us-east1-d", "cluster_name: marin-us-east1");
    let mut shown = transcript(dir.path());
    assert_eq!(shows(&mut shown, dir.path(), &["update"]), 1);
    assert_eq!(shows(&mut shown, dir.path(), &["validate"]), 1);
    shown.is("a_cluster_that_was_renamed");

    let dir = copy();
    let table = fs::read_to_string(dir.path().join("clusters.yaml")).unwrap();
    let entry = table.find("  marin-us-west4:\n").unwrap()..table.find("  marin-us-east1:\n").unwrap();
    fs::write(dir.path().join("clusters.yaml"), table.replace(&table[entry], "")).unwrap();
    let mut shown = transcript(dir.path());
    assert_eq!(shows(&mut shown, dir.path(), &["update", "--check"]), 1);
    shown.is("a_cluster_that_is_in_no_table");
    // In JSON, a cluster has its own name, not that of its file.
    change(dir.path(), "marin-us-west4.yaml", "cluster_name: marin-us-west4", "cluster_name: west");
    let (_, out, _) = configs(dir.path(), &["update", "--check", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    let name = |file: &str| {
        let is_it = |row: &&Value| row["file"].as_str().is_some_and(|path| path.ends_with(file));
        rows.iter().find(is_it).unwrap()["cluster"].as_str().unwrap().to_owned()
    };
    assert_eq!(name("/marin-us-east1.yaml"), "marin-us-east1-d");
    assert_eq!(name("/marin-us-west4.yaml"), "west", "an orphan");
    assert!(dir.path().join("marin-us-west4.yaml").exists());
}

/// A transcript of commands on several temporary directories.
fn temporary() -> Transcript {
    transcript(&std::env::temp_dir()).varying(r"\S*/\.tmp\w+", "~")
}

/// The error of `update` on a broken directory; asserts that nothing was written.
fn refused(dir: &TempDir) -> String {
    let before = everything(dir.path());
    let (code, out, err) = configs(dir.path(), &["update", "--yes"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(differing(&before, dir.path()).is_empty());
    err
}

#[test]
fn a_template_error_names_template_line_and_cluster() {
    let with = |old: &str, new: &str| {
        let dir = copy();
        change(dir.path(), "tpu-template.yaml", old, new);
        refused(&dir)
    };
    let missing = with("{{ zone }}", "{{ zome }}");
    let broken = with("{%- endfor %}", "");
    let tabs = with("  head_default:\n", "\thead_default:\n");
    for said in [&missing, &broken, &tabs] {
        let (_, message) = said.trim_end().rsplit_once("tpu-template.yaml").unwrap();
        let parts: Vec<&str> = message.split([';', ':']).map(str::trim).filter(|p| !p.is_empty()).collect();
        let distinct: std::collections::BTreeSet<&&str> = parts.iter().collect();
        assert_eq!(parts.len(), distinct.len(), "repeated in the message: {said}");
    }
    let dir = copy();
    change(dir.path(), "vllm-template.yaml", "tpu-template.yaml", "../tpu-template.yaml");
    let outside = refused(&dir);
    let dir = copy();
    change(dir.path(), "clusters.yaml", "template: vllm-template.yaml", "template: vlm-template.yaml");
    let unknown = refused(&dir);
    let all = [missing, broken, tabs, outside, unknown];
    let shown = all.into_iter().fold(temporary(), |shown, err| {
        shown.with("configs update --yes", &Ran { code: Some(1), out: String::new(), err })
    });
    shown.is("templates_that_are_broken");
}

#[test]
fn one_template_that_cannot_be_rendered_does_not_hide_other_clusters() {
    let dir = copy();
    change(dir.path(), "vllm-template.yaml", "block setup_commands", "blok setup_commands");
    let (code, out, err) = configs(dir.path(), &["list"]);
    let row =
        |name: &str| out.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{name}: {out}"));
    assert!(row("marin-us-central2-vllm.yaml").ends_with("cannot be rendered"));
    assert!(row("marin-us-west4.yaml").ends_with("current"));
    assert!(code == 1 && err.contains("vllm-template.yaml:") && err.contains("for cluster"), "{err}");
    let (code, out, _) = configs(dir.path(), &["list", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!((code, rows.len()), (1, 14));
    assert!(rows.iter().any(|r| r["state"] == "broken") && rows.iter().any(|r| r["state"] == "current"));
    let (code, out, _) = configs(dir.path(), &["validate", "--json"]);
    let findings: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!((code, findings.len(), &findings[0]["rule"]), (1, 1, &Value::from("template")), "{out}");
    // With a broken template, other clusters can be updated alone; this one and all together cannot.
    change(dir.path(), "clusters.yaml", "slices: {v5p-64: 4}", "slices: {v5p-64: 5}");
    let before = everything(dir.path());
    let (code, _, err) = configs(dir.path(), &["update"]);
    assert!(code == 1 && err.contains("vllm-template.yaml:"), "{err}");
    let (code, _, err) = configs(dir.path(), &["set-image", "b2f1", "marin-us-east5-a"]);
    assert!(code == 1 && err.contains("vllm-template.yaml:"), "{err}");
    assert!(differing(&before, dir.path()).is_empty());
    assert_eq!(configs(dir.path(), &["update", "marin-us-east5-a"]).0, 0);
    assert_eq!(differing(&before, dir.path()), ["marin-us-east5-a.yaml"]);
}

#[test]
fn a_file_that_would_break_a_rule_is_not_written() {
    let dir = copy();
    change(dir.path(), "clusters.yaml", "    zone: us-east5-a\n", "    zone: us-east5-c\n");
    let err = refused(&dir);
    let ran = Ran { code: Some(1), out: String::new(), err };
    let mut shown = transcript(dir.path()).with("configs update --yes", &ran);
    let before = everything(dir.path());
    assert_eq!(shows(&mut shown, dir.path(), &["set-image", "20261120", "marin-us-east5-a"]), 1);
    let (code, out, _) = configs(dir.path(), &["update", "--check", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    let row = rows.iter().find(|r| r["cluster"] == "marin-us-east5-a").unwrap();
    assert_eq!((code, &row["findings"][0]["rule"]), (1, &Value::from("zone-without-tpu")), "{row}");
    assert!(differing(&before, dir.path()).is_empty());
    assert_eq!(shows(&mut shown, dir.path(), &["update", "--diff"]), 1);
    shown.is("a_zone_without_that_tpu");
    // Findings in another cluster's file do not block this update.
    assert_eq!(configs(dir.path(), &["update", "marin-us-west4"]).0, 0);
}

#[test]
fn a_tag_that_yaml_would_read_as_a_number_stays_a_string() {
    let dir = copy();
    for tag in ["1e5", "0x1f", "_next", "2026-11-20"] {
        let (code, _, err) = configs(dir.path(), &["set-image", tag]);
        assert_eq!((code, err.as_str()), (0, ""), "{tag}");
        let (_, out, _) = configs(dir.path(), &["show", "us-west4", "--json"]);
        let shown: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(shown["values"]["tag"]["value"], tag);
        let file = fs::read_to_string(dir.path().join("marin-us-west4.yaml")).unwrap();
        assert!(file.contains(&format!("/marin_cluster:{tag}\n")), "{tag}");
    }
}

#[test]
fn errors_in_the_table_have_a_line_and_a_hint() {
    let with = |old: &str, new: &str| {
        let dir = copy();
        change(dir.path(), "clusters.yaml", old, new);
        let said = refused(&dir);
        said.rsplit_once("/clusters.yaml").unwrap().1.trim_end().to_owned()
    };
    let cases = [
        ("    tpu: v6e-serve\n", "    tpu: v6e-srve\n"),
        ("    zone: us-east5-b\n", "    zonn: us-east5-b\n"),
        ("    zone: us-west4-a\n", ""),
        ("    zone: us-west4-a\n", "    zone: 'x; rm -rf /'\n"),
        ("    min_workers: 8\n", "    min_workers: many\n"),
        ("{v6e-128: 2}", "{v6e-129: 2}"),
        ("{v6e-128: 2}", "lots"),
        ("cluster_name: marin-us-east1-d", "cluster_name: marin-us-west4"),
        ("clusters:\n", "clusters:\n  marin-us-west4: {}\n"),
        ("    tpu: v4\n", "\ttpu: v4\n"),
        ("    base: 16\n", "    base: 16\n    hosts: 1\n"),
        ("clusters:\n", "x:\n"),
        ("clusters:\n", "clusters: 1\nbuckets:\n"),
    ];
    let mut shown = temporary();
    for (old, new) in cases {
        let said = with(old, new);
        let ran = Ran { code: Some(1), out: String::new(), err: format!("{said}\n") };
        shown.add(&format!("{new:?} in place of {old:?}"), &ran);
        assert!(
            said.starts_with(':') && said[1..].starts_with(|c: char| c.is_ascii_digit()),
            "no line: {said}"
        );
    }
    let dir = copy();
    fs::write(dir.path().join("clusters.yaml"), vec![b'#'; 5 << 20]).unwrap();
    let mut add =
        |words: &str, err: String| shown.add(words, &Ran { code: Some(1), out: String::new(), err });
    add("a table of 5 MB", refused(&dir));
    fs::remove_file(dir.path().join("clusters.yaml")).unwrap();
    add("no table", refused(&dir));
    shown.is("tables_that_are_broken");
}

#[test]
fn anchors_and_merge_keys_work() {
    let dir = copy();
    change(dir.path(), "clusters.yaml", "  marin-us-west4:\n", "  marin-us-west4: &west\n");
    let table = dir.path().join("clusters.yaml");
    let text = fs::read_to_string(&table).unwrap();
    fs::write(&table, format!("{text}\n  marin-west:\n    <<: *west\n    min_workers: 3\n")).unwrap();
    assert_eq!(configs(dir.path(), &["update"]).0, 0);
    let (_, out, _) = configs(dir.path(), &["show", "marin-west", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["values"]["zone"]["value"], "us-west4-a");
    assert_eq!(shown["values"]["min_workers"]["value"], 3);
}

#[test]
fn every_value_is_shown_with_where_it_comes_from() {
    let (code, out, _) = configs(Path::new(OURS), &["show", "us-east1", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    let from = |key: &str| shown["values"][key]["source"].as_str().unwrap();
    assert_eq!((code, &shown["values"]["cluster_name"]["value"]), (0, &Value::from("marin-us-east1-d")));
    assert_eq!(from("region"), "derived from the zone");
    assert!(from("zone").starts_with("clusters.yaml:") && from("project").ends_with(", defaults"));
    let line: usize = from("bucket").rsplit_once(':').unwrap().1.parse().unwrap();
    let table = fs::read_to_string(format!("{OURS}/clusters.yaml")).unwrap();
    assert_eq!(table.lines().nth(line - 1).unwrap(), "    bucket: marin-us-east1");
}

#[test]
fn each_rule_reports_its_finding() {
    // Replaces `old` in the file by `new`; returns the line of the finding with this rule, and the number of other
    // findings.
    let finding = |old: &str, new: &str, rule: &str| {
        let dir = copy();
        change(dir.path(), "marin-us-east5-a.yaml", old, new);
        let (code, out, _) = configs(dir.path(), &["validate", "--json"]);
        let findings: Vec<Value> = serde_json::from_str(&out).unwrap();
        assert_eq!(code, i32::from(findings.iter().any(|f| f["severity"] == "error")), "{out}");
        let found = findings.iter().find(|f| f["rule"] == rule).unwrap_or_else(|| panic!("no {rule}: {out}"));
        assert!(!found["hint"].as_str().unwrap().is_empty());
        let file = fs::read_to_string(dir.path().join("marin-us-east5-a.yaml")).unwrap();
        let line = file.lines().nth(found["line"].as_u64().unwrap() as usize - 1).unwrap().trim().to_owned();
        (line, findings.len() - 1)
    };
    let cases = [
        ("max_workers: 1024\nhead", "max_workers: 9\nhead", "min-over-max", "max_workers: 9"),
        (
            "    min_workers: 8\n    max_workers: 1024",
            "    min_workers: 8\n    max_workers: 7",
            "min-over-max",
            "min_workers: 8",
        ),
        (
            "head_node_type: head_default",
            "head_node_type: head_defualt",
            "head-type",
            "head_node_type: head_defualt",
        ),
        ("{CPU: 0, head_node: 1}", "{head_node: 1}", "head-runs-tasks", "resources: {head_node: 1}"),
        (
            "availability_zone: us-east5-a",
            "availability_zone: us-east5-c",
            "zone-without-tpu",
            "acceleratorType: v5p-8",
        ),
        ("region: us-east5", "region: us-east4", "zone", "availability_zone: us-east5-a"),
        (
            "gs://marin-us-east5",
            "gs://marin-us-west4",
            "bucket-region",
            "- -e MARIN_PREFIX=gs://marin-us-west4",
        ),
        (
            "image: us-east5-docker",
            "image: us-east1-docker",
            "image-region",
            "image: us-east1-docker.pkg.dev/hai-gcp-models/marin/marin_cluster:latest",
        ),
        ("setup_commands:", "setup_comands:", "unknown-key", "setup_comands:"),
        ("ssh_user: ray", "ssh_usr: ray", "unknown-key", "ssh_usr: ray"),
        (
            "cluster_name: marin-us-east5-a",
            "cluster_name: marin-us-east5",
            "same-name",
            "cluster_name: marin-us-east5",
        ),
        (
            "    - --privileged",
            "    - -e HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz",
            "secret",
            "- -e HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz",
        ),
        (
            "    - --privileged",
            "    - -e WANDB_API_KEY=0123456789abcdef",
            "secret",
            "- -e WANDB_API_KEY=0123456789abcdef",
        ),
        (
            "setup_commands:",
            "setup_commands:\n  - docker login -u me -p hunter2",
            "secret",
            "- docker login -u me -p hunter2",
        ),
        ("provider:", "provider:\n\tx: 1", "shape", "x: 1"),
        ("    resources: {CPU: 120, TPU: 4}\n", "", "shape", "tpu_worker:"),
    ];
    for (old, new, rule, line) in cases {
        let more = match rule {
            // Another region makes the regions of bucket and image wrong, too.
            "zone" => 2,
            // The name also differs from the one in the table.
            "same-name" => 1,
            _ => 0,
        };
        assert_eq!(finding(old, new, rule), (line.to_owned(), more), "{rule}: {new}");
    }
}
