//! What `submit-job` checks before it sends anything, and job ids that `stop-job` and `delete-job` read from stdin.

use crate::cloud_fixture::CloudFixture;
use crate::program::Ran;
use crate::transcript::Transcript;
use marin_tui::demo::google::PROJECT;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

const TABLE: &str = "defaults: {project: p, template: t.yaml, image: i, token_secret: s, zone: us-central2-b, tag: latest, tpu: v4}\n\
    generations: {v4: {accelerator: v4, runtime_version: r, cores_per_chip: 2, chips_per_host: 4, base: 8, zones: [us-central2-b]}}\n\
    buckets: {marin-us-central2: us-central2, marin-us-east1: us-east1, marin-eu-west4: europe-west4}\n\
    clusters:\n  a: {cluster_name: marin-a, bucket: marin-us-central2}\n";

impl CloudFixture {
    /// The exit code of a dry run, the submission that it would send, and its stderr.
    fn submission(&self, words: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, Value, String) {
        let mut command = self.command("submit-job --dry-run");
        command.args(words).envs(variables.iter().copied()).current_dir(self.home.path());
        let Ran { code, out, err } = Ran::of(&command.output().unwrap());
        (code, serde_json::from_str(&out).unwrap_or(Value::Null), err)
    }

    /// Adds the stderr of a submission that is not sent to a transcript.
    fn shows(&self, shown: &mut Transcript, words: &[&str], code: i32) {
        let (ended, sent, err) = self.submission(words, &[]);
        assert_eq!(ended, Some(code), "{words:?}: {sent}: {err}");
        shown.add(&format!("submit-job {}", words.join(" ")), &Ran { code: ended, out: String::new(), err });
    }

    fn git(&self, words: &str) -> String {
        let mut git = Command::new("git");
        git.args(words.split(' ')).current_dir(self.home.path().join("repo")).env("HOME", self.home.path());
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "me").env(format!("GIT_{role}_EMAIL"), "me@here");
        }
        let output = git.output().unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

#[test]
fn variables_are_passed_by_name_and_never_shown() {
    let fixture = CloudFixture::new();
    let words = ["--pass-env", "HF_TOKEN", "--pass-env", "HF_TOKEN", "--", "true"];
    let (code, sent, said) = fixture.submission(&words, &[("HF_TOKEN", "hunter2")]);
    assert_eq!((code, &sent["runtime_env"]["env_vars"]), (Some(0), &json!({"HF_TOKEN": "***"})), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    let mut shown = Transcript::new(fixture.home.path());
    fixture.shows(&mut shown, &["--pass-env", "HF_TOKEN", "--", "true"], 1);
    shown.is("a_variable_that_is_not_set");
    for wrong in ["HF_TOKEN=hunter2", ""] {
        let (code, _, said) = fixture.submission(&["--pass-env", wrong, "--", "true"], &[]);
        assert_eq!(code, Some(2), "{wrong}: {said}");
    }
}

/// The commit that a job was submitted with, from anywhere in a backup.
fn commit_of(saved: &Value, id: &str) -> Option<String> {
    match saved {
        Value::Object(job) if job.get("submission_id").is_some_and(|of| of == id) => {
            saved["runtime_env"]["env_vars"]["GIT_COMMIT"].as_str().map(str::to_owned)
        }
        Value::Object(fields) => fields.values().find_map(|value| commit_of(value, id)),
        Value::Array(items) => items.iter().find_map(|value| commit_of(value, id)),
        _ => None,
    }
}

#[test]
fn the_commit_is_that_of_the_working_directory_and_marks_differing_files() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    fixture.file("repo/train.py", "print(1)\n");
    fixture.git("init -q");
    let submit = |id: &str| {
        let words = format!(
            "submit-job --no-wait --submission-id {id} --working-dir repo --pass-env GIT_COMMIT -- true"
        );
        let output = fixture.command(&words).current_dir(fixture.home.path()).output().unwrap();
        let Ran { code, err, .. } = Ran::of(&output);
        let (_, _, said) = fixture.run(&format!("backup-jobs {}/saved-{id}", fixture.home.path().display()));
        let saved =
            fs::read_to_string(fixture.home.path().join(format!("saved-{id}/jobs.json"))).expect(&said);
        let saved: Value = serde_json::from_str(&saved).unwrap();
        (code, commit_of(&saved, id), err)
    };
    let (code, _, err) = submit("unborn");
    let ran = Ran { code, out: String::new(), err };
    // The reason is in git's own words.
    let shown = Transcript::new(fixture.home.path()).varying(r"determine it: [^\n]*", "determine it: WHY");
    shown.with("submit-job --pass-env GIT_COMMIT", &ran.exits(1)).is("no_commit_yet");
    fixture.git("add train.py");
    fixture.git("commit -q -m first");
    let commit = fixture.git("rev-parse HEAD");
    assert_eq!(submit("clean").1.as_deref(), Some(&*commit));
    fixture.file("repo/train.py", "print(2)\n");
    assert_eq!(submit("dirty").1, Some(format!("{commit}-dirty")));
}

#[test]
fn a_slice_is_requested_by_its_head_where_the_cluster_offers_it() {
    let fixture = CloudFixture::new();
    let (code, sent, said) = fixture.submission(&["--tpu", "v4-8", "--", "true"], &[]);
    // The slice has one host, all of whose chips are requested.
    let resources = json!({"TPU": 4.0, "TPU-v4-8-head": 1.0});
    assert_eq!((code, &sent["entrypoint_resources"]), (Some(0), &resources), "{said}");
    let mut shown = Transcript::new(fixture.home.path());
    fixture.shows(&mut shown, &["--tpu", "v4-128", "--", "true"], 1);
    fixture.shows(&mut shown, &["--tpu", "a b", "--", "true"], 1);
    let (code, _, said) = fixture.submission(&["--tpu", "v4-8", "--tpu", "v4-8", "--", "true"], &[]);
    assert_eq!(code, Some(2), "{said}");
    let words = ["--tpu", "v4-8", "--entrypoint-resources", "{\"TPU-v4-8-head\": 2}", "--", "true"];
    fixture.shows(&mut shown, &words, 1);
    fixture.shows(&mut shown, &["--entrypoint-resources", "{\"TPU\": 8}", "--", "true"], 0);
    shown.is("tpus_that_cannot_be_requested");
}

#[test]
fn data_in_another_region_causes_a_warning_where_regions_are_known() {
    let fixture = CloudFixture::new();
    let far = [
        "--env",
        "CACHE=gs://marin-us-east1/secret-path",
        "--",
        "python",
        "x.py",
        "--in=gs://marin-eu-west4/d",
        "gs://unknown/x",
        "gs://marin-us-central2/y",
    ];
    let (code, _, said) = fixture.submission(&far, &[]);
    assert!(code == Some(0) && !said.contains("warning"), "no regions are known: {said}");
    fixture.file("infra/clusters.yaml", TABLE);
    let (code, _, said) = fixture.submission(&far, &[]);
    let warnings: Vec<&str> = said.lines().filter(|l| l.starts_with("warning")).collect();
    let own = "us-central2; transfer between regions costs money; its own bucket is gs://marin-us-central2";
    assert_eq!(
        (code, warnings),
        (
            Some(0),
            vec![
                &*format!("warning: gs://marin-eu-west4 is in europe-west4, but marin-a is in {own}"),
                &*format!("warning: gs://marin-us-east1 (in CACHE) is in us-east1, but marin-a is in {own}"),
            ]
        ),
        "{said}"
    );
    assert!(!said.contains("secret-path") && PROJECT != "p", "{said}");
}

fn with_input(fixture: &CloudFixture, words: &str, input: &str) -> Ran {
    let mut command = fixture.command(words);
    let mut child = command
        .env("USER", "me")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Ran::of(&child.wait_with_output().unwrap())
}

#[test]
fn thousands_of_jobs_come_from_stdin() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    for id in ["one", "two"] {
        with_input(&fixture, &format!("submit-job --no-wait --submission-id {id} -- true"), "").good();
    }
    let mut ids = String::from("one\n\n  two  \none\n");
    for i in 0..5000 {
        writeln!(ids, "nobody-{i}").unwrap();
    }
    let Ran { code, out, err } = with_input(&fixture, "stop-job - --yes --json", &ids);
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {err}"));
    assert_eq!((code, rows.len()), (Some(1), 5002), "{err}");
    assert!(rows[..2].iter().all(|row| row["done"] == true), "{:?}", &rows[..2]);
    assert_eq!((&rows[2]["submission_id"], &rows[2]["done"]), (&json!("nobody-0"), &json!(false)));
    let Ran { code, out, err } = with_input(&fixture, "delete-job - --yes --json", "one\ntwo\n");
    assert_eq!(code, Some(0), "{out}{err}");
    let mut shown = Transcript::new(fixture.home.path());
    let few: String = ids.lines().take(15).flat_map(|id| [id, "\n"]).collect();
    for (words, input, code) in
        [("stop-job -", "a\nb\n", 1), ("stop-job - --dry-run", &few, 1), ("stop-job - --yes", "\n \n", 0)]
    {
        shown.add(words, &with_input(&fixture, words, input).exits(code));
    }
    shown.is("jobs_from_stdin");
    fixture.heads.clear();
    let Ran { code, err, .. } = with_input(&fixture, "stop-job - --yes", "one\n");
    assert!(code == Some(1) && !err.is_empty(), "the cluster is down: {err}");
}
