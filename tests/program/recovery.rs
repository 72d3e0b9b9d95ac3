//! Commands that follow a job on a simulated head behind SSH: they continue after the connection is lost.

use crate::left::assert_no_process_names;
use crate::program::program;
use crate::running::{Running, count};
use crate::until::until;
use marin_tui::demo::{Fault, FaultRule, Fleet, Head, Plan};
use marin_tui::model::JobStatus;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use tokio::runtime::Runtime;

/// One cluster behind SSH, whose logs are written only by the test.
struct Fixture {
    runtime: Runtime,
    fleet: Fleet,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let plan = Plan::parse("clusters: [{name: a, log_rate: 0}]", Path::new("test")).unwrap();
        let fleet = runtime.block_on(Fleet::start(plan)).unwrap();
        Self { runtime, fleet }
    }

    fn head(&self) -> &Head {
        &self.fleet.member("a").unwrap().head
    }

    /// A running job that has not logged anything yet.
    fn job(&self) -> String {
        self.head().submissions(JobStatus::Running).pop().unwrap()
    }

    fn write(&self, id: &str, line: &str) {
        assert!(self.head().write_job_log(id, format!("{line}\n").as_bytes()));
    }

    /// Ends every SSH connection, as a network failure would; new ones are accepted.
    fn cut(&self) {
        self.runtime.block_on(async { self.fleet.member("a").unwrap().drop_connections() });
    }

    /// The tunnel stays open, but nothing responds behind it.
    fn silence(&self) {
        self.head().set_faults(vec![FaultRule { path: String::new(), fault: Fault::HangUp }]);
        self.head().drop_connections();
    }

    fn start(&self, words: &str) -> Running {
        let folder = self.fleet.folder();
        let mut command = program(Path::new("/"));
        command.env("HOME", "/nonexistent").envs(folder.env());
        command.arg("--config").arg(folder.settings()).arg("--infra").arg(folder.infra());
        command.args(words.split_whitespace());
        Running::start(command)
    }
}

#[test]
fn the_host_key_of_a_first_connection_is_reported_once_and_audited() {
    let fixture = Fixture::new();
    let output_of = |words: &str| {
        let mut running = fixture.start(words);
        (running.out.whole(), running.err.whole())
    };
    let (_, first) = output_of("list-jobs");
    assert!(first.contains("first connection to 127.0.0.1: accepted host key SHA256:"), "{first}");
    let (_, second) = output_of("list-jobs");
    assert!(!second.contains("first connection"), "{second}");
    let (log, _) = output_of("audit");
    assert_eq!(log.matches("accepted host key SHA256:").count(), 1, "{log}");
}

#[test]
fn a_followed_log_continues_after_a_reconnect_and_ends_with_its_job() {
    let fixture = Fixture::new();
    let id = fixture.job();
    fixture.write(&id, "line-1");
    let mut follower = fixture.start(&format!("job-logs -f {id}"));
    follower.out.until("line-1");
    fixture.cut();
    follower.err.until("connection lost");
    fixture.write(&id, "line-2");
    follower.out.until("line-2");
    // Once more, and no line is written before the connection is back.
    fixture.cut();
    follower.err.until_times("reconnected after", 2);
    fixture.write(&id, "line-3");
    follower.out.until("line-3");
    assert!(fixture.head().turn_job(&id, JobStatus::Failed));
    let (code, out, err) = follower.finish();
    let ours: Vec<_> = out.lines().filter(|line| line.starts_with("line-")).collect();
    assert_eq!(ours, ["line-1", "line-2", "line-3"], "no line is lost or repeated");
    assert_eq!(code, Some(3), "{err:?}");
    assert_eq!((count(&err, "connection lost"), count(&err, "reconnected after")), (2, 2), "{err:?}");
}

#[test]
fn a_followed_search_begins_with_matches_from_the_head_and_continues() {
    let fixture = Fixture::new();
    let id = fixture.job();
    let others = "nothing to see here\n".repeat(5_000);
    fixture.write(
        &id,
        &format!("Wanted-0\n{others}Wanted-1\n{others}wanted, but not so\nWanted-2\nthe last but one"),
    );
    // The line that is incomplete when the search begins is read once, and as a whole.
    assert!(fixture.head().write_job_log(&id, b"Wan"));
    let mut all = fixture.start(&format!("job-logs -f -g Wanted-[0-9] {id}"));
    let mut last = fixture.start(&format!("job-logs -f -n 2 -g Wanted-[0-9] {id}"));
    all.out.until("Wanted-2");
    last.out.until("Wanted-2");
    fixture.write(&id, "ted-3");
    all.out.until("Wanted-3");
    last.out.until("Wanted-3");
    fixture.cut();
    all.err.until("connection lost");
    last.err.until("connection lost");
    fixture.write(&id, "not this\nWanted-4");
    all.out.until("Wanted-4");
    last.out.until("Wanted-4");
    assert!(fixture.head().turn_job(&id, JobStatus::Succeeded));
    for (run, first) in [(all, 0), (last, 2)] {
        let (code, out, err) = run.finish();
        let expected: Vec<String> = (first..5).map(|n| format!("Wanted-{n}")).collect();
        assert_eq!(
            (code, out.lines().collect::<Vec<_>>()),
            (Some(0), expected.iter().map(String::as_str).collect()),
            "{err:?}"
        );
        assert!(!err.contains("search"), "the head searched: {err:?}");
    }
}

#[test]
fn lines_since_a_time_are_searched_on_the_head_and_followed() {
    let fixture = Fixture::new();
    let id = fixture.job();
    // Two hours ago and five minutes ago; matching lines have no timestamp of their own, and one of them is colored.
    let now = jiff::Timestamp::now();
    let lines = |minutes: i64, color: &str| {
        let time = (now - jiff::SignedDuration::from_mins(minutes)).strftime("%Y-%m-%d %H:%M:%S,000");
        (0..3_000).fold(String::new(), |text, n| {
            let what =
                if n == 2_999 { format!("{color}wan\x1b[0mted {minutes}") } else { format!("step {n}") };
            text + &format!("{time} INFO next\n  {what}\n")
        })
    };
    fixture.write(&id, &(lines(120, "") + &lines(5, "\x1b[36m") + "  wanted, and no more times"));
    let since = |words: &str| fixture.start(&format!("job-logs --since 10m -g wanted {words} {id}")).finish();
    let expected = "  wanted 5\n  wanted, and no more times\n";
    let (code, out, err) = since("");
    assert_eq!((code, &*out), (Some(0), expected), "{err}");
    let (_, json, _) = since("--json");
    assert!(
        json.lines().all(|line| line.contains(r#""time_ms":null"#)),
        "the line above did not match: {json}"
    );
    let mut follows = fixture.start(&format!("job-logs -f --since 10m -g wanted {id}"));
    follows.out.until("no more times");
    fixture.cut();
    follows.err.until("connection lost");
    fixture.write(&id, "wanted again\nnot this");
    follows.out.until("wanted again");
    assert!(fixture.head().turn_job(&id, JobStatus::Succeeded));
    let (code, out, err) = follows.finish();
    assert_eq!((code, out), (Some(0), format!("{expected}wanted again\n")), "{err}");
    // All lines are older.
    let (code, out, err) = fixture.start(&format!("job-logs --since 1m {id}")).finish();
    assert_eq!((code, &*out), (Some(0), ""), "{err}");
    assert!(err.contains("the newest is from "), "{err}");
}

/// Presses ^C: the signal itself ends the command, which a shell shows as code 130. Returns the output until then.
fn interrupted(mut running: Running) -> (String, String) {
    let pid = running.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = running.child.wait().unwrap();
    let (out, err) = (running.out.whole(), running.err.whole());
    assert_eq!(status.signal(), Some(2), "{status}: {out}{err}");
    (out, err)
}

#[test]
fn ctrl_c_ends_every_log_command_while_the_head_does_not_respond() {
    let fixture = Fixture::new();
    let id = fixture.job();
    fixture.write(&id, "line-1");
    let (mut follows, mut searches) =
        (fixture.start(&format!("job-logs -f {id}")), fixture.start(&format!("job-logs -f -g line {id}")));
    follows.out.until("line-1");
    searches.out.until("line-1");
    fixture.head().set_faults(vec![FaultRule { path: String::new(), fault: Fault::Stall }]);
    for running in [follows, searches] {
        assert_eq!(interrupted(running).0, "line-1\n");
    }
    // A head that never responds, and one on which the requests about nodes and files hang.
    for path in ["", "/api/v0/"] {
        fixture.head().set_faults(vec![FaultRule { path: path.into(), fault: Fault::Stall }]);
        let requests = || {
            let requests = fixture.head().cost().requests;
            requests.iter().filter(|(route, _)| route.starts_with(path)).map(|(_, times)| times).sum::<u64>()
        };
        let mut commands = vec![
            "cluster-logs -f".to_owned(),
            "cluster-logs --node all -g x".to_owned(),
            "cluster-logs --all-clusters -g x".to_owned(),
            format!("job-logs --workers {id}"),
            format!("job-workers {id}"),
            format!("explain-job {id}"),
        ];
        if path.is_empty() {
            commands.extend(["-f", "-g line", "-f -g line"].map(|words| format!("job-logs {words} {id}")));
        }
        for words in commands {
            let before = requests();
            let running = fixture.start(&words);
            until("it waits for the head", || requests() > before);
            let (out, err) = interrupted(running);
            assert_eq!(out, "", "{words}: {err}");
        }
    }
    assert_no_process_names(fixture.fleet.folder().path());
}

#[test]
fn a_log_in_utf_16_is_reported_and_still_searched() {
    let fixture = Fixture::new();
    let id = fixture.job();
    let wide: Vec<u8> = "one\nERROR: wide\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(fixture.head().write_job_log(&id, &wide));
    let (code, out, err) = fixture.start(&format!("job-logs -g wide {id}")).finish();
    assert_eq!((code, &*out), (Some(0), "ERROR: wide\n"), "{err}");
    assert!(err.contains("UTF-16"), "{err}");
    let mut follows = fixture.start(&format!("job-logs -f -g wide {id}"));
    follows.out.until("ERROR: wide");
    follows.err.until("cannot search on the head: it is in UTF-16");
    let more: Vec<u8> = "two\nwider\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(fixture.head().write_job_log(&id, &more));
    assert!(fixture.head().turn_job(&id, JobStatus::Succeeded));
    let (code, out, err) = follows.finish();
    assert_eq!((code, &*out), (Some(0), "ERROR: wide\nwider\n"), "{err}");
}

#[test]
fn a_job_that_ends_during_an_outage_ends_its_command() {
    let fixture = Fixture::new();
    let id = fixture.job();
    let mut waits = fixture.start("submit-job --submission-id s1 -- true");
    let mut watches = fixture.start(&format!("wait-job {id}"));
    waits.err.until("submitted s1");
    until("it runs", || fixture.head().submissions(JobStatus::Running).contains(&"s1".to_owned()));
    fixture.silence();
    waits.err.until("connection lost");
    watches.err.until("connection lost");
    for (id, status) in [("s1", JobStatus::Failed), (id.as_str(), JobStatus::Succeeded)] {
        assert!(fixture.head().turn_job(id, status));
    }
    fixture.head().set_faults(Vec::new());
    let ((failed, _, said), (succeeded, _, also)) = (waits.finish(), watches.finish());
    assert_eq!((failed, succeeded), (Some(3), Some(0)), "{said:?} {also:?}");
    for said in [said, also] {
        assert_eq!((count(&said, "connection lost"), count(&said, "reconnected after")), (1, 1), "{said:?}");
    }
}

#[test]
fn a_command_gives_up_after_the_given_time() {
    let fixture = Fixture::new();
    let id = fixture.job();
    fixture.write(&id, "line-1");
    let mut follower = fixture.start(&format!("wait-job --show-logs --give-up-after 1 {id}"));
    follower.out.until("line-1");
    fixture.silence();
    let (code, _, said) = follower.finish();
    assert_eq!(code, Some(4), "{said:?}");
    let last = said.lines().last().unwrap();
    assert!(last.contains("timed out after 1 s") && last.contains(&format!("wait-job {id}")), "{said:?}");
    assert!(fixture.head().submissions(JobStatus::Running).contains(&id), "the job still runs");
}

#[test]
fn a_line_of_any_length_is_printed_whole() {
    let fixture = Fixture::new();
    let id = fixture.job();
    let long = "x".repeat(200_000);
    fixture.write(&id, &long);
    let (code, out, _) = fixture.start(&format!("job-logs {id}")).finish();
    assert!(code == Some(0) && out.contains(&long));
    let mut follower = fixture.start(&format!("job-logs -f {id}"));
    follower.out.until(&long);
    assert!(fixture.head().turn_job(&id, JobStatus::Succeeded));
    assert_eq!(follower.finish().0, Some(0));
}
