//! The log of a driver that starts on another node while it is followed on the head. Uses the system's `ssh` with a
//! simulated Ray head.

use crate::connection::Fixture;
use crate::soon::soon;
use marin_tui::demo::Scenario;
use marin_tui::logs::LineSplitter;
use marin_tui::model::{JobStatus, LogSource, SubmissionId};
use marin_tui::ray::{LogEvent, LogStream};
use marin_tui::supervisor::{Start, follow, watch_log_access};
use std::sync::Arc;

/// The lines of a stream up to the first one with this text.
async fn lines_until(stream: &mut LogStream, last: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let reading = async {
        while lines.last().is_none_or(|line| line != last) {
            match stream.next().await {
                Some(LogEvent::Lines(part)) => lines.extend(part.lines.iter().map(ToString::to_string)),
                Some(LogEvent::Interrupted(_) | LogEvent::Resumed) => {}
                other => panic!("{other:?} instead of {last}"),
            }
        }
    };
    soon(last, reading).await;
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_opened_before_its_driver_starts_continues_on_the_node_of_the_driver() {
    let fixture = Fixture::new(Scenario::default()).await;
    let (console, connection) = fixture.console();
    soon("a channel", connection.channel()).await.unwrap();
    let head = fixture.head();
    let id = head.submissions(JobStatus::Pending).remove(0);
    assert!(head.place_driver(&id, head.nodes()[1]) && head.write_job_log(&id, b"step 1\nstep 2\n"));
    let (access, spec) = (watch_log_access(&connection), Arc::new(fixture.spec()));
    let source = LogSource::Job(SubmissionId(id.as_str().into()));
    // Of the lines from before, each shows a different part; all lines of the driver are new.
    let mut streams = [Start::Beginning, Start::Lines(1), Start::Bytes(1 << 10)].map(|start| {
        follow(access.clone(), Arc::clone(&spec), source.clone(), start, LineSplitter::MAX_LINE)
    });
    for stream in &mut streams {
        assert_eq!(lines_until(stream, "Runtime env is setting up.").await.len(), 1);
    }
    head.turn_job(&id, JobStatus::Running);
    for stream in &mut streams {
        assert_eq!(lines_until(stream, "step 2").await, ["step 1", "step 2"]);
    }
    head.write_job_log(&id, b"step 3\n");
    head.turn_job(&id, JobStatus::Succeeded);
    for stream in &mut streams {
        assert_eq!(lines_until(stream, "step 3").await, ["step 3"]);
        assert_eq!(soon("the end", stream.next()).await, Some(LogEvent::Complete));
    }
    console.shutdown().await;
}
