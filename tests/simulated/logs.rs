//! The log of a driver on another node that is followed on the head. Uses the system's `ssh` with a simulated Ray head.

use crate::connection::Fixture;
use crate::soon::soon;
use marin_tui::demo::{Fault, FaultRule, Head, Scenario};
use marin_tui::logs::LineSplitter;
use marin_tui::model::{JobStatus, LogSource, NodeId, SubmissionId};
use marin_tui::ray::{LogEvent, LogStream};
use marin_tui::supervisor::{Connection, LogAccess, LogAccessWatch, Start, follow};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Access to the logs of a cluster over this connection; `head` is the head's id, if it is known.
async fn access(
    connection: &Connection,
    head: Option<NodeId>,
) -> (watch::Sender<Option<LogAccess>>, LogAccessWatch) {
    let channel = soon("a channel", connection.channel()).await.unwrap();
    watch::channel(Some(LogAccess { head, ..LogAccess::from(channel) }))
}

/// Follows the log of a job.
fn open(fixture: &Fixture, access_watch: &LogAccessWatch, id: &str, start: Start) -> LogStream {
    let source = LogSource::Job(SubmissionId(id.into()));
    follow(access_watch.clone(), Arc::new(fixture.spec()), source, start, LineSplitter::MAX_LINE)
}

/// The lines of a stream up to the first one with this text, and the position of the first of them.
async fn lines_until(stream: &mut LogStream, last: &str) -> (Vec<String>, u64) {
    let (mut lines, mut from) = (Vec::<String>::new(), None);
    let reading = async {
        while lines.last().is_none_or(|line| line != last) {
            match stream.next().await {
                Some(LogEvent::Lines(part)) => {
                    from.get_or_insert(part.bytes.start);
                    lines.extend(part.lines.iter().map(ToString::to_string));
                }
                Some(LogEvent::Interrupted(_) | LogEvent::Resumed) => {}
                other => panic!("{other:?} instead of {last}"),
            }
        }
    };
    soon(last, reading).await;
    (lines, from.unwrap())
}

/// Waits until a stream has requested the record of its job so many times. Each request follows the answer to the one
/// before.
async fn until_requested(head: &Head, id: &str, times: u64) {
    let route = format!("/api/jobs/{id}");
    let requesting = async {
        while head.cost().requests.get(&route).is_none_or(|requests| *requests < times) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    soon("its record was requested", requesting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_opened_before_its_driver_starts_continues_on_the_node_of_the_driver() {
    let fixture = Fixture::new(Scenario { jobs: 200, ..Scenario::default() }).await;
    let (console, connection) = fixture.console();
    let head = fixture.head();
    let (_access, access_watch) = access(&connection, Some(head.nodes()[0])).await;
    // Of the lines from before, each shows a different part; all lines of the driver are new.
    let starts = [Start::Beginning, Start::Lines(1), Start::Bytes(1 << 10)];
    let mut logs = Vec::new();
    for (start, id) in starts.into_iter().zip(head.submissions(JobStatus::Pending)) {
        assert!(head.place_driver(&id, head.nodes()[1]) && head.write_job_log(&id, b"step 1\nstep 2\n"));
        let stream = open(&fixture, &access_watch, &id, start);
        logs.push((start, id, stream));
    }
    assert_eq!(logs.len(), starts.len());
    for (_, id, stream) in &mut logs {
        assert_eq!(lines_until(stream, "Runtime env is setting up.").await.0.len(), 1);
        // The first request has a short time limit; the second one was answered: the job has no driver.
        until_requested(head, id, 3).await;
    }
    for (_, id, _) in &logs {
        assert!(head.turn_job(id, JobStatus::Running));
    }
    for (start, id, stream) in &mut logs {
        let (lines, from) = lines_until(stream, "step 2").await;
        assert_eq!(lines, ["step 1", "step 2"]);
        assert!(head.write_job_log(id, b"step 3\n") && head.turn_job(id, JobStatus::Succeeded));
        assert_eq!(lines_until(stream, "step 3").await.0, ["step 3"]);
        assert_eq!(soon("the end", stream.next()).await, Some(LogEvent::Complete));
        // A stream that does not show a log from its beginning responds to requests for older lines.
        stream.ask_older(from);
        let answer = soon("an answer", stream.next()).await;
        let is_read = matches!(answer, Some(LogEvent::Older(Ok(_))));
        assert_eq!(is_read, *start != Start::Beginning, "{answer:?}");
    }
    console.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_complete_only_once_the_node_of_its_driver_is_known() {
    let fixture = Fixture::new(Scenario::default()).await;
    let (console, connection) = fixture.console();
    let head = fixture.head();
    let (_access, access_watch) = access(&connection, None).await;
    head.set_faults(vec![FaultRule { path: "/api/v0/nodes".into(), fault: Fault::Status(503) }]);
    let id = head.submissions(JobStatus::Pending).remove(0);
    assert!(head.place_driver(&id, head.nodes()[1]) && head.write_job_log(&id, b"step 1\n"));
    assert!(head.turn_job(&id, JobStatus::Succeeded));
    let mut stream = open(&fixture, &access_watch, &id, Start::Bytes(1 << 10));
    assert_eq!(lines_until(&mut stream, "Runtime env is setting up.").await.0.len(), 1);
    // Once when the log was opened, and twice for a job that has ended.
    until_requested(head, &id, 3).await;
    head.set_faults(Vec::new());
    assert_eq!(lines_until(&mut stream, "step 1").await.0, ["step 1"]);
    assert_eq!(soon("the end", stream.next()).await, Some(LogEvent::Complete));
    console.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_complete_although_the_head_never_reports_its_id() {
    let fixture = Fixture::new(Scenario::default()).await;
    let (console, connection) = fixture.console();
    let head = fixture.head();
    let (_access, access_watch) = access(&connection, None).await;
    let id = head.submissions(JobStatus::Pending).remove(0);
    assert!(head.place_driver(&id, head.nodes()[0]) && head.write_job_log(&id, b"step 1\n"));
    assert!(head.turn_job(&id, JobStatus::Succeeded));
    for status in [404, 503] {
        head.set_faults(vec![FaultRule { path: "/api/v0/nodes".into(), fault: Fault::Status(status) }]);
        let mut stream = open(&fixture, &access_watch, &id, Start::Bytes(1 << 10));
        let ending = async {
            loop {
                match stream.next().await {
                    Some(LogEvent::Complete) => break,
                    Some(LogEvent::Lines(_) | LogEvent::Interrupted(_) | LogEvent::Resumed) => {}
                    other => panic!("{other:?} instead of the end"),
                }
            }
        };
        soon("the end", ending).await;
    }
    console.shutdown().await;
}
