//! Compares the clock of a host with the local one over ssh: the host is queried twice in one login, so that the second
//! response takes no longer than the round trip.

use super::failure;
use super::host::Host;
use crate::job_workers::HostClock;
use crate::model::{Problem, Timestamp};
use crate::ssh::quote;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

/// Prints the time for each line that it reads. `%N` (nanoseconds) is GNU's; others print it literally, or nothing.
const SCRIPT: &str = include_str!("../../assets/clock.sh");
/// Time limit for the login and both responses.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the clock of a host.
///
/// # Errors
///
/// The login fails, or the host does not report the time.
pub(super) async fn read_clock(host: &Host<'_>) -> Result<HostClock, Problem> {
    let work = async {
        let mut child = host.begin(&format!("exec sh -c {}", quote(SCRIPT.trim_end()))).await?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else { return Ok(None) };
        query_twice(stdin, stdout).await.map_err(|e| failure(format!("no response: {e}"), ""))
    };
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(Ok(Some(clock))) => Ok(clock),
        Ok(Ok(None)) => Err(failure("the host did not report its time", "")),
        Ok(Err(problem)) => Err(problem),
        Err(_) => Err(failure(format!("no response within {} s", TIMEOUT.as_secs()), "")),
    }
}

async fn query_twice(mut stdin: ChildStdin, stdout: ChildStdout) -> std::io::Result<Option<HostClock>> {
    let mut lines = BufReader::new(stdout).lines();
    let mut clock = None;
    for _ in 0..2 {
        let before = Timestamp::now();
        stdin.write_all(b"\n").await?;
        stdin.flush().await?;
        let Some(line) = lines.next_line().await? else { break };
        clock = clock_between(&line, before, Timestamp::now());
    }
    Ok(clock)
}

/// Evaluates the time that a clock reported between these two local times.
fn clock_between(reported: &str, before: Timestamp, after: Timestamp) -> Option<HostClock> {
    let (seconds, fraction) = reported.trim().split_once('.').unwrap_or((reported.trim(), ""));
    let seconds: i64 = seconds.parse().ok()?;
    let digits = fraction.get(..3).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    // Without a fraction it may be up to a second later.
    let (millis, half_unit) = digits.and_then(|d| d.parse().ok()).map_or((500, 500), |ms: i64| (ms, 1));
    let (before, after) = (before.as_millis(), after.as_millis());
    let round_trip = (after - before).max(0);
    Some(HostClock {
        ahead_ms: seconds.checked_mul(1000)?.checked_add(millis)?.checked_sub(before + round_trip / 2)?,
        unsure_ms: (round_trip / 2 + half_unit).unsigned_abs(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uncertainty_of_a_clock_depends_on_the_round_trip() {
        let at = Timestamp::from_millis;
        let clock = |reported| {
            clock_between(reported, at(100_000_000), at(100_000_040)).map(|c| (c.ahead_ms, c.unsure_ms))
        };
        assert_eq!(clock("100000.520123456\n"), Some((500, 21)));
        assert_eq!(clock("103600.020000000"), Some((3_600_000, 21)), "an hour ahead");
        assert_eq!(clock("100000"), Some((480, 520)), "whole seconds");
        assert_eq!(clock("100000.%N"), Some((480, 520)));
        assert_eq!((clock("sh: date: not found"), clock("")), (None, None));
        assert_eq!(clock("99999999999999999999"), None);
        assert_eq!(clock("9223372036854775807.0"), None);
    }
}
