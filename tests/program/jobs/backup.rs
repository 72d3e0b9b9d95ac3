//! Jobs saved to a directory and restored from it, with their packages.

use super::fixture;
use crate::head_fixture::{HeadFixture, TOKEN};
use crate::program::Ran;
use marin_tui::demo::{Fault, FaultRule, Scenario};
use marin_tui::model::{JobStatus, Secret};
use marin_tui::ray::{Client, Endpoint};
use serde_json::{Value, json};
use std::fs;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Names of files and directories under a directory, with their permissions.
fn modes(dir: &Path) -> Vec<(String, u32)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        all.push((entry.file_name().into_string().unwrap(), mode));
        if entry.path().is_dir() {
            all.extend(modes(&entry.path()));
        }
    }
    all
}

#[test]
fn jobs_are_saved_and_restored_once() {
    let old = fixture();
    old.file("work/train.py", "print(1)\n");
    let submit = |args: &[&str]| old.ok(&[&["submit-job", "--no-wait", "--submission-id"], args].concat());
    submit(&["plain", "--metadata", "owner=alice", "--", "python x.py"]);
    submit(&["dir", "--working-dir", "work", "--env", "KEY=hunter2", "--", "python train.py"]);
    submit(&[
        "waits",
        "--entrypoint-num-cpus",
        "0.5",
        "--entrypoint-resources",
        "{\"TPU\": 4}",
        "--",
        "true",
    ]);
    submit(&["ended", "--", "true"]);
    submit(&["ours", "--metadata", "marin-tui=probe", "--", "true"]);
    submit(&["loop", "--", "python cluster.py start-cleanup --interval 600"]);
    submit(&["gone", "--runtime-env", "{\"working_dir\": \"gcs://_ray_pkg_0.zip\"}", "--", "true"]);
    old.head.turn_job("ended", JobStatus::Succeeded);
    let dir = old.home.path().join("saved");
    let saved = dir.to_str().unwrap();
    // One job cannot be restored.
    let said = old.run(&["backup-jobs", saved, "--json", "--dry-run"]).exits(1).json();
    assert!(!dir.exists());
    let mut report = old.run(&["backup-jobs", saved, "--json"]).exits(1).json();
    // A dry run prints the same, except for the outcome.
    assert!(report["jobs"].as_array().unwrap().iter().all(|j| j["outcome"] == "saved"), "{report}");
    report["jobs"].as_array_mut().unwrap().iter_mut().for_each(|j| j["outcome"] = json!("would be saved"));
    assert_eq!(said, report);
    let ids: Vec<_> = report["jobs"].as_array().unwrap().iter().map(|j| j["submission_id"].clone()).collect();
    assert_eq!(ids, ["dir", "gone", "plain", "waits"]);
    assert_eq!(report["jobs"][1]["missing_packages"], json!(["gcs://_ray_pkg_0.zip"]));
    assert_eq!(report["skipped"].as_array().unwrap().len(), 2);
    for (name, mode) in modes(&dir) {
        assert_eq!(mode, if name == "packages" { 0o700 } else { 0o600 }, "{name}");
    }
    assert_eq!(modes(old.home.path()).into_iter().find(|(n, _)| n == "saved").unwrap().1, 0o700);
    let mut twice = old.transcript();
    old.shows(&mut twice, &["backup-jobs", saved]);
    twice.is("a_folder_with_a_backup");

    // A new cluster without any of the jobs.
    let new = fixture();
    let rows = new.run(&["restore-jobs", saved, "--json"]).exits(1).json();
    let outcome = |i: usize| rows[i]["outcome"].as_str().unwrap().to_owned();
    assert_eq!([outcome(0), outcome(2), outcome(3)], ["submitted", "submitted", "submitted"]);
    assert!(outcome(1).contains("when the job was saved"), "{rows}");
    for id in ["plain", "dir", "waits"] {
        let (before, after) = (old.details(id), new.details(id));
        for part in ["entrypoint", "metadata", "runtime_env"] {
            assert_eq!(before[part], after[part], "{part} of {id}");
        }
    }
    // A head that stops responding does not hide which jobs were submitted before.
    let silent = fixture();
    silent.head.set_faults(vec![FaultRule { path: "/api/jobs/waits".into(), fault: Fault::HangUp }]);
    let ran = silent.run(&["restore-jobs", saved, "--json"]).exits(1);
    let ids: Vec<Value> =
        ran.json().as_array().unwrap().iter().map(|row| row["submission_id"].clone()).collect();
    assert!(ids == ["dir", "gone", "plain"] && !ran.err.is_empty(), "{}{}", ran.out, ran.err);
    let audited = silent.audited();
    assert_eq!(audited[0], ("restore-jobs".into(), format!("started: {saved}")));
    assert!(audited.len() == 2 && audited[1].1.starts_with("2 submitted; failed: "), "{audited:?}");
    // The first job fails already.
    let mute = fixture();
    mute.head.set_faults(vec![FaultRule { path: "/api/jobs/dir".into(), fault: Fault::HangUp }]);
    let ran = mute.run(&["restore-jobs", saved, "--json"]).exits(1);
    assert!(ran.json() == json!([]) && !ran.err.is_empty(), "{}{}", ran.out, ran.err);
    let again = new.run(&["restore-jobs", saved, "--json"]).json();
    assert_eq!(again[0]["outcome"], "already exists");
    // Resource requests are restored too: a backup of the new cluster has the same content.
    let copy = new.home.path().join("copy");
    new.ok(&["backup-jobs", copy.to_str().unwrap()]);
    let list = |dir: &Path| -> Value {
        serde_json::from_str(&fs::read_to_string(dir.join("jobs.json")).unwrap()).unwrap()
    };
    let needs = |list: &Value| {
        let jobs = list["jobs"].as_array().unwrap();
        jobs.iter().find(|j| j["submission"]["submission_id"] == "waits").unwrap().clone()
    };
    assert_eq!(needs(&list(&dir)), needs(&list(&copy)));
    assert_eq!(needs(&list(&dir))["submission"]["entrypoint_resources"], json!({"TPU": 4.0}));
    let log = new.ok(&["audit"]);
    assert!(log.contains("restore-jobs") && !log.contains("hunter2"), "{log}");
}

#[test]
fn a_backup_warns_if_label_selectors_cannot_be_read() {
    let fixture = fixture();
    fixture.ok(&["submit-job", "--no-wait", "--submission-id", "a", "--", "true"]);
    let warns = |folder: &str| {
        let dir = fixture.home.path().join(folder);
        let ran = fixture.run(&["backup-jobs", dir.to_str().unwrap(), "--json"]).exits(0);
        let warning = ran.json()["warnings"][0].as_str().unwrap_or_default().to_owned();
        assert_eq!(ran.err.contains("warning: "), !warning.is_empty(), "{}", ran.err);
        warning.starts_with("label selectors cannot be read")
    };
    assert!(!warns("one"));
    let fault = FaultRule { path: "/api/v0/actors".into(), fault: Fault::Status(500) };
    fixture.head.set_faults(vec![fault]);
    assert!(warns("two"), "the job is saved nevertheless");
}

/// A list of saved jobs, one with a label selector.
fn list_with(id: &str, selector: &Value) -> String {
    let submission =
        json!({"entrypoint": "true", "submission_id": id, "entrypoint_label_selector": selector});
    let job = json!({"submission": submission, "missing": [], "is_selector_known": true});
    json!({"version": 1, "cluster": "x", "jobs": [job], "packages": {}}).to_string()
}

#[test]
fn a_job_is_restored_without_a_required_node_that_no_longer_exists() {
    let fixture = fixture();
    let alive = fixture.head.nodes()[1].to_string();
    for (id, node, is_kept) in [("on-worker", alive, true), ("on-lost", "0".repeat(56), false)] {
        let saved = json!({"disk": "ssd", "ray.io/node-id": node});
        fixture.file("saved/jobs.json", &list_with(id, &saved));
        fixture.ok(&["restore-jobs", "saved"]);
        let (_, actors) = fixture.get("/api/v0/actors?detail=1&limit=10000");
        let actors: Value = serde_json::from_str(&actors).unwrap();
        let rows = actors["data"]["result"]["result"].as_array().unwrap();
        let name = format!("_ray_internal_job_actor_{id}");
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        let expected = if is_kept { saved } else { json!({"disk": "ssd"}) };
        assert_eq!(row["label_selector"], expected, "{id}");
    }
}

#[test]
fn a_label_selector_is_refused_before_ray_2_54() {
    let old = HeadFixture::new(Scenario { jobs: 0, ray_version: "2.53.0".into(), ..Scenario::default() });
    let selector = ["--entrypoint-label-selector", r#"{"disk": "ssd"}"#];
    let words = ["submit-job", "--no-wait", "--submission-id", "labeled"];
    let submit = [&words[..], &selector[..], &["--", "true"][..]].concat();
    let refused = old.run(&submit).exits(1);
    assert!(refused.err.contains("Ray 2.53.0 does not support label selectors"), "{}", refused.err);
    old.file("saved/jobs.json", &list_with("labeled", &json!({"disk": "ssd"})));
    let restored = old.run(&["restore-jobs", "saved", "--json"]).exits(1).json();
    let outcome = restored[0]["outcome"].as_str().unwrap();
    assert!(outcome.contains("Ray 2.53.0 does not support label selectors"), "{restored}");
    assert_eq!(old.get("/api/jobs/labeled").0, 404, "nothing is submitted");
    let new = fixture();
    new.ok(&submit);
    let dir = new.home.path().join("saved");
    new.ok(&["backup-jobs", dir.to_str().unwrap()]);
    let list: Value = serde_json::from_str(&fs::read_to_string(dir.join("jobs.json")).unwrap()).unwrap();
    assert_eq!(list["jobs"][0]["submission"]["entrypoint_label_selector"], json!({"disk": "ssd"}));
    let wrong = new.run(&["submit-job", "--entrypoint-label-selector", "disk=ssd", "--", "true"]).exits(1);
    assert!(wrong.err.contains("the label selector is not JSON"), "{}", wrong.err);
}

/// A package larger than the dashboard accepts: `ray.init` uploads such packages without the dashboard. The commands
/// never hold the whole package in memory.
#[test]
fn a_package_of_500_megabytes_is_saved_and_restored_in_little_memory() {
    const SIZE: u64 = (500 << 20) - 100;
    let (old, new) = (fixture(), fixture());
    let uri = "gcs://_ray_pkg_1a46e.zip";
    let client = |fixture: &HeadFixture| {
        let endpoint = Endpoint::Direct {
            dashboard: format!("http://{}", fixture.head.dashboard),
            gcs: Some(fixture.head.gcs.to_string()),
        };
        Client::new(endpoint, Some(Secret::new(TOKEN))).unwrap()
    };
    let large = old.home.path().join("large");
    let mut file = fs::File::create(&large).unwrap();
    file.set_len(SIZE).unwrap();
    // The file is not all zeros.
    for at in [0, 1 << 20, 300_000_001, SIZE - 5] {
        file.seek(std::io::SeekFrom::Start(at)).unwrap();
        file.write_all(b"bytes").unwrap();
    }
    let upload = client(&old);
    old.runtime.block_on(upload.upload_package_file(uri, fs::File::open(&large).unwrap())).unwrap();
    let env = json!({"working_dir": uri}).to_string();
    old.ok(&["submit-job", "--no-wait", "--submission-id", "large", "--runtime-env", &env, "--", "true"]);
    let saved = old.home.path().join("saved");
    for (fixture, command) in [(&old, "backup-jobs"), (&new, "restore-jobs")] {
        let kilobytes = peak(fixture, &[command, saved.to_str().unwrap()]);
        assert!(kilobytes < 100_000, "{command} held {kilobytes} kB");
    }
    let files = |dir: &Path| fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(files(&saved.join("packages")), ["0"]);
    let mut find = Command::new("find");
    let left = find.arg(new.home.path()).args(["-size", "+1M"]).output().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&left), "", "no part of it is left on the disk");
    let back = new.home.path().join("back");
    let mut to = fs::File::create(&back).unwrap();
    new.runtime.block_on(client(&new).package(uri, &mut to)).unwrap().unwrap();
    let same = Command::new("cmp").arg(&large).arg(saved.join("packages/0")).status().unwrap();
    assert!(same.success() && Command::new("cmp").arg(&large).arg(back).status().unwrap().success());
}

/// Runs a command that must succeed; returns its peak memory in kB.
fn peak(fixture: &HeadFixture, args: &[&str]) -> u64 {
    let mut child = fixture.command(args).stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        // VmHWM only rises: the last value is the peak.
        let text = fs::read_to_string(&status).unwrap_or_default();
        let mark =
            text.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak = mark.unwrap_or(peak).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success() && peak > 0, "{args:?}");
            return peak;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_full_disk_leaves_no_backup_that_looks_complete() {
    let fixture = fixture();
    fs::create_dir(fixture.home.path().join("work")).unwrap();
    fs::write(fixture.home.path().join("work/data"), vec![1; 200_000]).unwrap();
    fixture.ok(&["submit-job", "--no-wait", "--working-dir", "work", "--", "true"]);
    // A write beyond the limit fails as on a full disk.
    let command = fixture.command(&["backup-jobs", "saved"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$@\"", "sh"]).arg(command.get_program());
    limited.args(command.get_args()).env_clear().current_dir(fixture.home.path()).stdin(Stdio::null());
    limited.envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let out = limited.output().unwrap();
    let transcript = fixture.transcript().varying(r"\.0\.\w+\.part", "PART");
    transcript.with("backup-jobs saved", &Ran::of(&out)).is("a_backup_on_a_full_disk");
    assert_eq!(fixture.run(&["restore-jobs", "saved"]).code, Some(1));
    assert_eq!(
        fs::read_dir(fixture.home.path().join("saved/packages")).unwrap().count(),
        0,
        "no partial file"
    );
    fixture.ok(&["backup-jobs", "saved"]);
}

#[test]
fn a_backup_changes_no_other_files() {
    let fixture = fixture();
    fixture.submit("one");
    fixture.file("notes/mine.txt", "mine");
    let mut refused = fixture.transcript();
    fixture.shows(&mut refused, &["backup-jobs", "notes"]);
    assert_eq!(fs::read_dir(fixture.home.path().join("notes")).unwrap().count(), 1);
    fixture.shows(&mut refused, &["restore-jobs", "notes"]);
    // An interrupted backup is resumed.
    fixture.file("half/marin-tui-backup", "");
    fixture.file("half/packages/0", "torn");
    fixture.ok(&["backup-jobs", "half"]);
    assert!(fixture.home.path().join("half/jobs.json").exists());
    // A path in the list that leads out of its directory is not followed.
    let list = json!({"version": 1, "cluster": "x", "jobs": [], "packages": {"gcs://a.zip": "packages/../../notes/mine.txt"}});
    fixture.file("evil/jobs.json", &list.to_string());
    fixture.shows(&mut refused, &["restore-jobs", "evil"]);
    // A symbolic link is not followed either, and local paths in a record are not read.
    let job = json!({"submission": {
        "entrypoint": "true", "submission_id": "evil",
        "runtime_env": {"working_dir": "gcs://a.zip", "py_modules": ["~/notes"], "pip": "notes/mine.txt"}
    }, "missing": []});
    let list =
        json!({"version": 1, "cluster": "x", "jobs": [job], "packages": {"gcs://a.zip": "packages/0"}});
    fixture.file("evil/jobs.json", &list.to_string());
    fs::create_dir(fixture.home.path().join("evil/packages")).unwrap();
    let package = fixture.home.path().join("evil/packages/0");
    std::os::unix::fs::symlink("../../notes/mine.txt", &package).unwrap();
    fixture.shows(&mut refused, &["restore-jobs", "evil"]);
    refused.is("folders_that_are_no_backups");
    assert_eq!(fixture.get("/api/packages/gcs/a.zip").0, 404, "nothing is uploaded");
    fs::remove_file(&package).unwrap();
    fs::write(&package, "zip").unwrap();
    fixture.ok(&["restore-jobs", "evil"]);
    assert_eq!(fixture.details("evil")["runtime_env"], job["submission"]["runtime_env"], "verbatim");
}
