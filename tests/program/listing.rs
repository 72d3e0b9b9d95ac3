//! `marin-tui list-nodes` and `job-status` on a simulated cluster: the same rows and lines as in the console.

use crate::cloud_fixture::CloudFixture;
use crate::program::Ran;
use serde_json::Value;

fn fixture() -> CloudFixture {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| {
        s.nodes = 4;
        s.dead = 2;
        s.jobs = 6;
    });
    fixture
}

fn run(fixture: &CloudFixture, words: &str) -> Ran {
    Ran::of(&fixture.command(words).output().unwrap())
}

#[test]
fn nodes_are_listed_as_the_console_lists_them() {
    let fixture = fixture();
    let table = run(&fixture, "list-nodes").good();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 5, "{table}");
    let titles: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(titles[0], "NODE");
    for title in ["TYPE", "STATE", "CPU", "TPU", "UPTIME"] {
        assert!(titles.contains(&title), "{table}");
    }
    assert!(!titles.contains(&"CPU%"), "machine usage is not read: {table}");
    assert!(lines[1].contains(" head "), "the head is first: {table}");
    let all = run(&fixture, "list-nodes --all").good();
    assert!(all.lines().count() == 7 && all.contains(" dead ") && all.contains("NOTE"), "{all}");
    assert!(
        all.lines().nth(1).unwrap().contains(" lost ") && all.contains(" ago"),
        "dead nodes are first: {all}"
    );

    let nodes: Vec<Value> = serde_json::from_str(&run(&fixture, "list-nodes --all --json").good()).unwrap();
    assert_eq!(nodes.iter().filter(|node| node["state"] == "dead").count(), 2);
    let head = nodes.iter().find(|node| node["head"] == true).unwrap();
    assert_eq!(head["node_id"].as_str().unwrap().len(), 56);
    let worker = nodes.iter().find(|node| node["head"] == false && node["state"] != "dead").unwrap();
    let kind = worker["type"].as_str().unwrap();
    let of_type = run(&fixture, &format!("list-nodes --type {kind}")).good();
    let count = nodes.iter().filter(|node| node["type"] == *kind && node["state"] != "dead").count();
    assert_eq!(of_type.lines().count(), count + 1, "{of_type}");
    for option in ["", "--json", "--slices"] {
        let err = run(&fixture, &format!("list-nodes --type {kind}x {option}")).exits(1).err;
        assert!(
            err.contains(&format!("has no node type `{kind}x`; did you mean `{kind}`? its types: ")),
            "{err}"
        );
    }
}

#[test]
fn nodes_are_listed_by_slice_with_lost_hosts() {
    let fixture = fixture();
    let table = run(&fixture, "list-nodes --slices").good();
    let titles: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    for title in ["SLICE", "TYPE", "HOSTS", "STATE", "CHIPS", "JOB"] {
        assert!(titles.contains(&title), "{table}");
    }
    assert!(!table.contains("WORST"), "machine usage is not read: {table}");
    let rows = |words: &str| -> Vec<Value> { serde_json::from_str(&run(&fixture, words).good()).unwrap() };
    let nodes = rows("list-nodes --all --json");
    let slices = rows("list-nodes --slices --all --json");
    let hosts: u64 = slices.iter().map(|row| row["hosts"].as_u64().unwrap()).sum();
    assert_eq!(hosts as usize, nodes.len(), "every node is in one row: {slices:?}");
    let slice = slices.iter().find(|row| row["kind"] == "slice").unwrap();
    let of_it = nodes.iter().filter(|node| node["slice"] == slice["slice"]);
    assert_eq!(of_it.count() as u64, slice["hosts"].as_u64().unwrap());
    // Three of its four hosts are alive in Ray, and the simulated Google knows none of them.
    let of_slice = (&slice["state"], &slice["alive"], &slice["expected"]);
    assert_eq!(of_slice, (&"stale node".into(), &3.into(), &4.into()));
    assert!(!slice["jobs"].as_array().unwrap().is_empty(), "tasks run there: {slice}");
    assert!(table.contains("3/4") && table.contains("stale node"), "{table}");
}

#[test]
fn a_job_is_shown_in_any_status_and_an_unknown_one_is_named() {
    let fixture = fixture();
    let jobs: Vec<Value> = serde_json::from_str(&run(&fixture, "list-jobs --all --json").good()).unwrap();
    for job in &jobs {
        let Some(id) = job["submission_id"].as_str() else { continue };
        let text = run(&fixture, &format!("job-status {id}")).good();
        let status = job["status"].as_str().unwrap();
        assert!(text.lines().any(|line| line.starts_with("status ") && line.ends_with(status)), "{text}");
        assert!(text.contains("entrypoint"), "{text}");
        let one = run(&fixture, &format!("job-status {id} --json")).json();
        for key in [
            "submission_id",
            "status",
            "owner",
            "entrypoint",
            "started_ms",
            "exit_code",
            "message",
            "requested",
        ] {
            assert_eq!(one[key], job[key], "{id}: {key}");
        }
    }
    let with_driver = jobs.iter().find(|job| job["job_id"].is_string() && job["submission_id"].is_string());
    let with_driver = with_driver.unwrap();
    let (id, driver) =
        (with_driver["submission_id"].as_str().unwrap(), with_driver["job_id"].as_str().unwrap());
    assert_eq!(run(&fixture, &format!("job-status {driver} --json")).json()["submission_id"], id);

    let said = run(&fixture, &format!("job-status {}x", &id[..id.len() - 1])).exits(1).bad();
    assert!(said.contains(&format!("did you mean `{id}`?")), "{said}");
    assert!(said.contains(" -c marin-a list-jobs --all`"), "{said}");
    let said = run(&fixture, "job-status zzzzzzzzzzzzzzzzzzzzzzzz").exits(1).bad();
    assert!(said.contains("marin-a: no job `zzz") && !said.contains("did you mean"), "{said}");
}

#[test]
fn a_cluster_that_is_down_is_reported() {
    let fixture = CloudFixture::new();
    for words in ["list-nodes", "list-nodes --json", "list-nodes --slices", "job-status x"] {
        let said = run(&fixture, words).exits(1).bad();
        assert!(said.contains("marin-a: ") && said.contains("head"), "{words}: {said}");
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let fixture = fixture();
    run(&fixture, "list-nodes").good();
    let mut command = std::process::Command::new("bash");
    let ours = fixture.command("list-nodes --all");
    command
        .args(["-c", "\"$@\" | true; exit ${PIPESTATUS:-0}", "sh"])
        .arg(ours.get_program())
        .args(ours.get_args());
    command.env_clear().envs(ours.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let out = command.output().unwrap();
    // On a slow machine it reports its progress.
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && !stderr.contains("pipe"), "{stderr}");
}
