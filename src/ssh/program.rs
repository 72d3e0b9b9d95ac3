//! Runs a program on this machine that cannot outlive this process, and passes on its output line by line.

use super::error::SshError;
use super::guard;
use super::lines::Lines;
use crate::model::Fix;
use crate::model::text::log_line;
use crate::task;
use std::ffi::OsString;
use std::time::{Duration, Instant};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

/// How long a program's background children (ssh's own masters) may hold its output open after it ended.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// Shortest time between two updates of a line that is overwritten again and again (a progress bar).
const MIN_UPDATE_INTERVAL: Duration = Duration::from_secs(5);

/// Runs a program until it exits, passes on each line of its output, cleaned, and returns its exit code. A program
/// that writes faster than its lines are read is blocked. Dropping the future kills it and its children.
pub async fn run(command: Vec<OsString>, lines: mpsc::Sender<String>) -> Result<i32, SshError> {
    // Standard output and error share one pipe, so that the lines keep their order: the last one explains a failure.
    let both = ["sh", "-c", "exec \"$@\" 2>&1", "sh"].map(OsString::from);
    let (mut child, lifeline) = guard::spawn([&both[..], &command].concat())?;
    let mut reading = task::spawn(read(child.stdout.take(), lines));
    let status = child.wait().await;
    if tokio::time::timeout(OUTPUT_GRACE, &mut reading).await.is_err() {
        reading.abort();
    }
    drop(lifeline);
    status.map(guard::code).map_err(|e| SshError::Local {
        what: format!("cannot wait for the program: {e}"),
        hint: Fix::command("check whether it is still running", "ps aux").into(),
    })
}

async fn read(from: Option<impl AsyncRead + Unpin>, to: mpsc::Sender<String>) {
    let Some(from) = from else { return };
    let (mut lines, mut passed) = (Lines::new(from), None::<Instant>);
    while let Some(line) = lines.next().await {
        if line.is_passing {
            if passed.is_some_and(|at| at.elapsed() < MIN_UPDATE_INTERVAL) {
                continue;
            }
            passed = Some(Instant::now());
        }
        // The receiver is closed when the front end has ended; the program may continue.
        let _ = to.send(log_line(String::from_utf8_lossy(&line.bytes).trim_end())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_outputs_are_read_in_order_and_the_exit_code_is_returned() {
        let (lines, mut received) = mpsc::channel(8);
        let command = ["sh", "-c", "echo out; echo err >&2; echo last; exit 7"].map(OsString::from).to_vec();
        assert_eq!(run(command, lines).await.unwrap(), 7);
        let mut all = Vec::new();
        while let Ok(line) = received.try_recv() {
            all.push(line);
        }
        assert_eq!(all, ["out", "err", "last"]);
    }
}
