//! Finds the first line of a given time in a log, on the machine that has the log, by bisection of the file. The times
//! of the lines ascend, except that lines of workers may arrive a moment late.

use super::{LogFile, Opened, ReadError, Start, script};
use crate::logs::{Clock, LineSplitter};
use crate::model::{ClusterSpec, Timestamp};
use crate::ssh::Remote;
use std::ops::Range;

/// Maximum number of bytes per read.
const PART: u64 = 64 << 10;
/// Number of bytes of the first read when searching for a line with a time.
const FIRST_READ: u64 = 4 << 10;
/// Maximum number of bytes read to find a line with a time. A log with a longer part without times is not searched.
const SCAN_MAX: u64 = 4 << 20;

impl LogFile {
    /// The position of the first line of that time, by the times in the lines. `None` if no line has a time, or all are
    /// older.
    pub async fn since(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        since: Timestamp,
        clock: Clock,
    ) -> Result<Option<Start>, ReadError> {
        let output =
            remote.run(&self.command(spec, ("place", script::STAT), &[])?, super::COMMAND_TIMEOUT).await?;
        let mut stdout = output.stdout;
        let opened = match (ReadError::of(output.status), Opened::take(&mut stdout)) {
            (Some(why), _) => return Err(why),
            (None, Some(opened)) => opened?,
            (None, None) => return Err(ReadError::Failed(output.stderr)),
        };
        let inode = opened.inode;
        let read = async |bytes| self.part((remote, spec), inode, bytes).await;
        let from = first_since(since, clock, opened.size, read).await?;
        Ok(from.map(|from| Start::At { inode, from }))
    }
}

/// The position of the first line of that time or later, within the given number of bytes.
async fn first_since(
    since: Timestamp,
    clock: Clock,
    size: u64,
    mut read: impl AsyncFnMut(Range<u64>) -> Result<Vec<u8>, ReadError>,
) -> Result<Option<u64>, ReadError> {
    // Lines above `low` are older; the first line with a time from `high` on is `found`.
    let (mut low, mut high, mut found) = (0, size, None);
    while high - low > 2 * PART {
        let middle = u64::midpoint(low, high);
        let Some(Seen { first, line }) = timed(middle..high, clock, &mut read).await? else {
            return Ok(None);
        };
        match line {
            Some((lines, time)) if time < since => low = lines.end,
            // Lines without a time belong to the lines above them.
            line => {
                found = line.map(|(lines, _)| lines.start).or(found);
                if first == high {
                    break;
                }
                high = first;
            }
        }
    }
    if high - low > SCAN_MAX {
        return Ok(None);
    }
    let rest = if low < high { read(low..high).await? } else { Vec::new() };
    for line in rest.split_inclusive(|b| *b == b'\n') {
        if time_of(line, clock).is_some_and(|time| time >= since) {
            return Ok(Some(low));
        }
        low += line.len() as u64;
    }
    Ok(found)
}

/// Result of scanning a range of bytes for a line with a time.
struct Seen {
    /// Position of the first line that was examined.
    first: u64,
    /// The bytes of the first line with a time, and that time.
    line: Option<(Range<u64>, Timestamp)>,
}

/// Finds a line with a time. Bytes before the first line break may be the end of a line and are skipped. `None` if
/// there is no such line within [`SCAN_MAX`] bytes.
async fn timed(
    bytes: Range<u64>,
    clock: Clock,
    read: &mut impl AsyncFnMut(Range<u64>) -> Result<Vec<u8>, ReadError>,
) -> Result<Option<Seen>, ReadError> {
    let mut first = None;
    // The beginning of an incomplete line, and its position.
    let (mut held, mut at) = (Vec::new(), bytes.start);
    let (mut next, mut most) = (bytes.start, FIRST_READ);
    while next < bytes.end {
        if next - bytes.start >= SCAN_MAX {
            return Ok(None);
        }
        let part = read(next..bytes.end.min(next + most)).await?;
        most = PART.min(most * 4);
        if part.is_empty() {
            break;
        }
        next += part.len() as u64;
        for piece in part.split_inclusive(|b| *b == b'\n') {
            held.extend_from_slice(piece);
            if !piece.ends_with(b"\n") {
                break;
            }
            let line = std::mem::take(&mut held);
            let lines = at..at + line.len() as u64;
            at = lines.end;
            let Some(first) = first else {
                first = Some(at);
                continue;
            };
            if let Some(time) = time_of(&line, clock) {
                return Ok(Some(Seen { first, line: Some((lines, time)) }));
            }
        }
    }
    // The last line may be incomplete.
    let line = first.and_then(|_| time_of(&held, clock)).map(|time| (at..next, time));
    Ok(Some(Seen { first: first.unwrap_or(bytes.end), line }))
}

fn time_of(line: &[u8], clock: Clock) -> Option<Timestamp> {
    let mut splitter = LineSplitter::default();
    let line = splitter.push(line).pop().or_else(|| splitter.finish())?;
    clock.time(line.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_millis(1_795_424_400_000);

    /// Position of the lines since that time, and the number of bytes read to find it.
    fn found(log: &[u8], since: Timestamp) -> (Option<u64>, u64) {
        let mut bytes = 0;
        let read = async |part: Range<u64>| {
            let part = log[part.start as usize..log.len().min(part.end as usize)].to_vec();
            bytes += part.len() as u64;
            Ok(part)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(first_since(since, Clock::utc(NOW), log.len() as u64, read)).unwrap();
        (found, bytes)
    }

    /// A line that is `ago` seconds old, followed by `untimed` lines without a time.
    fn line(ago: u64, untimed: usize) -> String {
        let time = NOW.minus(std::time::Duration::from_secs(ago)).as_millis();
        let time = jiff::Timestamp::from_millisecond(time).unwrap();
        format!("{} INFO step\n{}", time.strftime("%Y-%m-%d %H:%M:%S"), "  of it\n".repeat(untimed))
    }

    #[test]
    fn only_a_small_part_of_a_large_log_is_read() {
        let log: String = (0..60_000).rev().map(|ago| line(ago, 1)).collect();
        let (at, bytes) = found(log.as_bytes(), NOW.minus(std::time::Duration::from_secs(600)));
        assert!(log[at.unwrap() as usize..].starts_with(&line(600, 1)), "{at:?}");
        assert!(bytes * 10 < log.len() as u64, "{bytes} of {}", log.len());
        // A log without times, and one with older lines only.
        let untimed = "step 12 of 400\n".repeat(400_000);
        assert_eq!(found(untimed.as_bytes(), NOW).0, None);
        assert_eq!(found(line(60, 3).as_bytes(), NOW).0, None);
        assert_eq!(found(b"", NOW), (None, 0));
    }

    #[test]
    fn lines_longer_than_a_part_are_found() {
        let long = |ago: u64| line(ago, 0).replace("step", &"x".repeat(3 * PART as usize));
        let log: String = [500, 400, 300, 200, 100].map(long).concat();
        let (at, _) = found(log.as_bytes(), NOW.minus(std::time::Duration::from_secs(300)));
        assert!(log[at.unwrap() as usize..].starts_with(&long(300)[..24]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Checks that the found line is the first one of that time, for any lines in between.
        #[test]
        fn the_first_line_is_found(
            steps in prop::collection::vec((0u64..40, 0usize..1500), 1..120),
            since in 0u64..2400,
        ) {
            let mut ago = steps.iter().map(|(step, _)| step).sum::<u64>();
            let (mut log, mut expected) = (String::new(), None);
            for (step, untimed) in steps {
                ago -= step;
                if ago <= since && expected.is_none() {
                    expected = Some(log.len() as u64);
                }
                log += &line(ago, untimed);
            }
            let since = NOW.minus(std::time::Duration::from_secs(since));
            prop_assert_eq!(found(log.as_bytes(), since).0, expected);
        }
    }
}
