//! `cluster-logs --grep` and `job-logs` on a simulated fleet that is reached over the system's own `ssh`: whole files are
//! searched on their hosts, and files of a head are read while its dashboard does not respond.

use crate::simulated::Simulated;
use marin_tui::demo::{Fault, FaultRule};
use marin_tui::model::JobStatus;
use serde_json::Value;
use std::collections::BTreeSet;

/// A cluster whose job logs are written by the tests.
const BESIDE: &str = "
  - name: marin-eu
    dead: 0
    jobs: 2
    slices: {}
";

/// Node and file with the text of each line, and the messages about the search.
fn found(fixture: &Simulated, words: &[&str]) -> (BTreeSet<(String, String)>, String) {
    let ran =
        fixture.run(&[&["-c", "marin-big-run", "cluster-logs", "--json", "-g"], words].concat()).exits(0);
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let location = |row: &Value| text(row, "node_id") + " " + &text(row, "file");
    (ran.lines().iter().map(|row| (location(row), text(row, "text"))).collect(), ran.err)
}

#[test]
fn whole_files_are_searched_on_their_hosts() {
    let fixture = Simulated::with_big_run(BESIDE);
    // Far more lines than are read through the dashboard.
    let (whole, said) = found(&fixture, &["step \\d+", "--node", "all"]);
    assert!(said.contains("searched: all of ") && !said.contains("not searched"), "{said}");
    let hosts: BTreeSet<&str> =
        whole.iter().map(|(location, _)| location.split_once(' ').unwrap().0).collect();
    assert!(hosts.len() >= 8, "the workers of the run and its driver: {hosts:?}");
    let (ends, said) = found(&fixture, &["step \\d+", "--node", "all", "-n", "5"]);
    assert!(said.contains("searched: the last 5 lines of "), "{said}");
    assert!(!ends.is_empty() && ends.len() < whole.len(), "{} of {}", ends.len(), whole.len());
    let (few, said) = found(&fixture, &["step \\d+", "--node", "all", "-m", "1"]);
    let files: BTreeSet<&String> = few.iter().map(|(location, _)| location).collect();
    assert!(files.len() == few.len() && said.contains(" before these; -m prints more"), "{said}");
    let (recent, _) = found(&fixture, &["step \\d+", "--node", "all", "--since", "2m"]);
    assert!(!recent.is_empty() && recent.len() < whole.len() / 2, "{} of {}", recent.len(), whole.len());
    // grep does not support that pattern.
    let (_, said) = found(&fixture, &["\\Astep \\d|step \\pN+", "--node", "all"]);
    assert!(
        said.contains("not searched on its host: ") && said.contains("the last 1,000 lines of "),
        "{said}"
    );
    let nope = fixture.run(&["-c", "marin-big-run", "cluster-logs", "-g", "x", "--file", "nope.log"]).bad();
    assert!(nope.contains("has no log file `nope.log`; list them with `marin-tui "), "{nope}");
    // Far above the last thousand lines.
    let head = &fixture.fleet.member("marin-eu").unwrap().head;
    let text = format!("boom\n{}", "fine\n".repeat(3000));
    assert!(head.write_job_log(&head.submissions(JobStatus::Running)[0], text.as_bytes()));
    let boom = ["-c", "marin-eu", "cluster-logs", "--node", "all", "-g", "^boom$"];
    assert!(fixture.run(&boom).exits(0).out.ends_with(" <==\nboom\n"));
    fixture.run(&[&boom[..], &["-n", "1000"]].concat()).exits(1);
    let recent = fixture.run(&[&boom[..], &["--since", "1h"]].concat()).exits(1);
    assert!(recent.err.contains("--since omitted 1 matching line without a timestamp"), "{}", recent.err);
    assert!(head.write_job_log(&head.submissions(JobStatus::Running)[0], b"boom\n"));
    let recent = fixture.run(&[&boom[..], &["--since", "1h", "-m", "1"]].concat()).exits(1);
    let unchecked = "1 earlier matching line not checked against --since; -m reads more";
    assert!(recent.err.contains(unchecked) && !recent.err.contains("before these"), "{}", recent.err);
    let all = fixture.run(&["cluster-logs", "--all-clusters", "-g", "step \\d+", "--json"]).exits(0);
    assert!(all.err.contains(" in 2 of 2 clusters"), "{}", all.err);
    // A driver that runs on a TPU host writes its log there.
    let head = &fixture.fleet.member("marin-big-run").unwrap().head;
    let (id, node) = (head.submissions(JobStatus::Running).remove(0), head.nodes()[1]);
    assert!(head.place_driver(&id, node) && head.write_job_log(&id, b"boom on its node\n"));
    let (there, _) = found(&fixture, &["^boom", "--node", "all"]);
    let expected = (format!("{node} job-driver-{id}.log"), "boom on its node".to_owned());
    assert_eq!(there, BTreeSet::from([expected]));
}

#[test]
fn whole_files_of_the_workers_of_a_job_are_searched_on_their_hosts() {
    let fixture = Simulated::with_big_run(BESIDE);
    let on = |id: &str, words: &[&str]| {
        let words =
            [&["-c", "marin-big-run", "job-logs", id, "--workers", "--json", "-g", "step \\d+"], words]
                .concat();
        fixture.run(&words).exits(0)
    };
    let run = fixture.fleet.member("marin-big-run").unwrap().head.submissions(JobStatus::Running);
    let searched = run.iter().map(|id| (id, on(id, &[]))).find(|(_, ran)| !ran.out.is_empty());
    let (id, whole) = searched.expect("a run whose workers log steps");
    assert!(whole.err.contains("searched: all of ") && !whole.err.contains("not searched"), "{}", whole.err);
    let rows = whole.lines();
    let hosts: BTreeSet<&str> = rows.iter().map(|row| row["node_id"].as_str().unwrap()).collect();
    assert!(hosts.len() >= 8, "{hosts:?}");
    let times: Vec<i64> = rows.iter().filter_map(|row| row["time_ms"].as_i64()).collect();
    assert!(times.len() == rows.len() && times.is_sorted(), "in the order of time");
    let ends = on(id, &["-n", "5"]).lines();
    assert!(!ends.is_empty() && ends.len() < rows.len(), "{} of {}", ends.len(), rows.len());
    let folded = on(id, &["--fold"]).lines();
    assert!(!folded.is_empty() && folded.len() < rows.len() / 4, "{} of {}", folded.len(), rows.len());
}

#[test]
fn files_of_a_head_are_read_while_its_dashboard_does_not_respond() {
    let fixture = Simulated::with_big_run(BESIDE);
    let head = &fixture.fleet.member("marin-eu").unwrap().head;
    let job = head.submissions(JobStatus::Running)[0].clone();
    assert!(head.write_job_log(&job, b"first\nboom 1\nlast\n"));
    head.set_faults(vec![FaultRule { path: "/api/".into(), fault: Fault::HangUp }]);
    let on = |words: &[&str]| fixture.run(&[&["-c", "marin-eu"], words].concat());
    let whole = on(&["job-logs", &job]).exits(0);
    assert_eq!(whole.out, "first\nboom 1\nlast\n");
    assert!(whole.err.contains("marin-eu: ") && whole.err.contains("on the head over SSH"), "{}", whole.err);
    assert_eq!(on(&["job-logs", &job, "-g", "boom"]).exits(0).out, "boom 1\n");
    assert_eq!(on(&["job-logs", &job, "-n", "1"]).exits(0).out, "last\n");
    assert_eq!(on(&["cluster-logs", "-n", "3"]).exits(0).out.lines().count(), 3, "monitor.log");
    for searching in [&["cluster-logs"][..], &["job-logs", &job]] {
        assert_eq!(on(&[searching, &["-g", "nowhere-to-be-found"]].concat()).exits(1).out, "");
    }
    let (all, recent) = (on(&["cluster-logs"]), on(&["cluster-logs", "--since", "1m"]));
    assert!(recent.out.lines().count() < all.out.lines().count(), "{}{}", recent.out, all.out);
    let row = on(&["cluster-logs", "-n", "1", "--json"]).exits(0).lines()[0].clone();
    assert!(row["file"] == "monitor.log" && row["node_id"].is_null(), "{row}");
    let (now, file) = (jiff::Timestamp::now(), format!("job-driver-{job}.log"));
    let text = format!("2020-01-01T00:00:00Z boom 2\n{now} start\nboom 3\n{now} boom 4\n");
    assert!(head.write_job_log(&job, text.as_bytes()));
    let boom = ["cluster-logs", "--file", &file, "-g", "boom"];
    let recent = on(&[&boom[..], &["--since", "1h"]].concat()).exits(0);
    assert_eq!(recent.out, format!("boom 3\n{now} boom 4\n"), "a line has the time of the line above");
    assert!(recent.err.contains("--since omitted 1 matching line without a timestamp"), "{}", recent.err);
    let last = on(&[&boom[..], &["-m", "1"]].concat()).exits(0);
    assert_eq!(last.out, format!("{now} boom 4\n"));
    assert!(last.err.contains(&format!("{file}: 3 matching lines before these; -m")), "{}", last.err);
    for words in [&["job-logs", "nobody"][..], &["cluster-logs", "--file", "nope.log"]] {
        let nope = on(words).bad();
        assert!(nope.contains("no such file"), "{nope}");
    }
    // Commands that need Ray report the actual problem.
    for words in [&["job-logs", "-f", &job][..], &["cluster-logs", "--node", "all", "-g", "x"]] {
        let nope = on(words).bad();
        assert!(!nope.contains("over SSH"), "{nope}");
    }
}
