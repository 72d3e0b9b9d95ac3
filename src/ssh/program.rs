//! A program on this machine that cannot outlive us, its output line by line as it comes.

use super::error::SshError;
use super::guard;
use super::lines::Lines;
use crate::model::text::log_line;
use std::ffi::OsString;
use std::time::{Duration, Instant};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

/// What a program's children that go on in the background (ssh's own masters) may hold its output open.
const GRACE: Duration = Duration::from_secs(1);
/// Of a line that is written over and over one is handed on so often.
const PASSING: Duration = Duration::from_secs(5);

/// Runs a program to its end and hands on each line of its output, cleaned; its exit code. One that writes faster
/// than its lines are taken has to wait. Dropping the future kills it and what it started.
pub async fn run(command: Vec<OsString>, lines: mpsc::Sender<String>) -> Result<i32, SshError> {
    // Both its outputs are one, so that the lines keep their order: the last one tells why it failed.
    let both = ["sh", "-c", "exec \"$@\" 2>&1", "sh"].map(OsString::from);
    let (mut child, lifeline) = guard::spawn([&both[..], &command].concat())?;
    let mut reading = tokio::spawn(read(child.stdout.take(), lines));
    let status = child.wait().await;
    if tokio::time::timeout(GRACE, &mut reading).await.is_err() {
        reading.abort();
    }
    drop(lifeline);
    status.map(guard::code).map_err(|e| SshError::Local {
        what: format!("the program cannot be waited for: {e}"),
        mend: "look by hand whether it still runs".into(),
    })
}

async fn read(from: Option<impl AsyncRead + Unpin>, to: mpsc::Sender<String>) {
    let Some(from) = from else { return };
    let (mut lines, mut passed) = (Lines::new(from), None::<Instant>);
    while let Some(line) = lines.next().await {
        if line.is_passing {
            if passed.is_some_and(|at| at.elapsed() < PASSING) {
                continue;
            }
            passed = Some(Instant::now());
        }
        // Nobody listens any more when the front end is gone; the program may go on.
        let _ = to.send(log_line(String::from_utf8_lossy(&line.bytes).trim_end())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_from_both_in_order_and_the_code_too() {
        let (lines, mut heard) = mpsc::channel(8);
        let command = ["sh", "-c", "echo out; echo err >&2; echo last; exit 7"].map(OsString::from).to_vec();
        assert_eq!(run(command, lines).await.unwrap(), 7);
        let mut all = Vec::new();
        while let Ok(line) = heard.try_recv() {
            all.push(line);
        }
        assert_eq!(all, ["out", "err", "last"]);
    }
}
