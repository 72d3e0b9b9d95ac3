//! A program on this machine that cannot outlive us, its output line by line as it comes.

use super::error::SshError;
use super::guard;
use super::tunnel::read_lines;
use std::ffi::OsString;
use std::time::Duration;
use tokio::sync::mpsc;

/// What a program's children that go on in the background (ssh's own masters) may hold its output open.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a program to its end and hands on each line of its output, cleaned; its exit code. Dropping the future kills
/// it and what it started.
pub async fn run(command: Vec<OsString>, lines: mpsc::UnboundedSender<String>) -> Result<i32, SshError> {
    let (mut child, lifeline) = guard::spawn(command)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (a, b) = (lines.clone(), lines);
    // Nobody listens any more when the front end is gone.
    let mut reading = tokio::spawn(async move {
        tokio::join!(
            read_lines(out, move |line| drop(a.send(line))),
            read_lines(err, move |line| drop(b.send(line)))
        )
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_from_both_and_the_code_too() {
        let (lines, mut heard) = mpsc::unbounded_channel();
        let command = ["sh", "-c", "echo out; echo err >&2; exit 7"].map(OsString::from).to_vec();
        assert_eq!(run(command, lines).await.unwrap(), 7);
        let mut all = Vec::new();
        while let Ok(line) = heard.try_recv() {
            all.push(line);
        }
        all.sort();
        assert_eq!(all, ["err", "out"]);
    }
}
