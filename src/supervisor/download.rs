//! Searches a log that cannot be searched on its host: downloads the whole log through the dashboard and keeps only the
//! matching lines.

use super::log_access::LogAccess;
use super::out::UpdateSender;
use super::search::{MATCHES_MAX, SearchError};
use crate::logs::{LineSplitter, Pattern};
use crate::model::{ClusterEvent, Line, LogMatch, LogMatches, LogSource, MAX_DOWNLOAD, StreamId};
use crate::ray::Polled;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Interval between progress reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The result for the part received so far.
struct Found {
    pattern: Pattern,
    splitter: LineSplitter,
    /// Number of lines so far.
    lines: u64,
    last: VecDeque<LogMatch>,
    has_more: bool,
}

impl Found {
    fn of(pattern: Pattern) -> Self {
        let splitter = LineSplitter::default();
        Self { pattern, splitter, lines: 0, last: VecDeque::new(), has_more: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        for line in self.splitter.push(bytes) {
            self.push_line(line);
        }
    }

    fn push_line(&mut self, line: Line) {
        self.lines += 1;
        if !self.pattern.is_match(line.text()) {
            return;
        }
        self.last.push_back(LogMatch { number: self.lines, at: None, line });
        if self.last.len() > MATCHES_MAX {
            self.last.pop_front();
            self.has_more = true;
        }
    }

    fn finish(mut self, is_cut: bool) -> LogMatches {
        if let Some(line) = self.splitter.finish() {
            self.push_line(line);
        }
        LogMatches { last: self.last.into(), has_more: self.has_more, is_cut }
    }
}

/// Downloads the log of a stream, at most [`MAX_DOWNLOAD`] bytes, and searches it. Reports the number of bytes received
/// once a second.
pub async fn download(
    access: Option<LogAccess>,
    (stream, source): (StreamId, &LogSource),
    text: &str,
    out: &UpdateSender,
) -> Result<LogMatches, SearchError> {
    let access = access.ok_or(SearchError::NotConnected)?;
    let mut found = Found::of(Pattern::parse(text)?);
    let file = match source {
        LogSource::Job(id) => Polled::Job(id.clone()),
        LogSource::Monitor(name) => {
            Polled::File(access.head.ok_or(SearchError::NotConnected)?, name.as_str().into())
        }
        LogSource::File { node, name } => Polled::File(*node, name.clone()),
    };
    let mut log = access.client.whole_log(&file).await?;
    let (mut bytes, mut report_at) = (0, Instant::now() + REPORT_INTERVAL);
    while let Some(chunk) = log.chunk().await? {
        bytes += chunk.len() as u64;
        found.push(&chunk);
        if bytes >= MAX_DOWNLOAD {
            return Ok(found.finish(true));
        }
        if Instant::now() >= report_at {
            out.send(ClusterEvent::LogDownload { stream, bytes }).await;
            report_at = Instant::now() + REPORT_INTERVAL;
        }
    }
    Ok(found.finish(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_matches_are_kept() {
        let mut found = Found::of(Pattern::parse("x$").unwrap());
        for n in 0..MATCHES_MAX + 10 {
            found.push(format!("line {n} x\nbetween {n}\n").as_bytes());
        }
        found.push(b"no end x");
        let found = found.finish(true);
        assert_eq!((found.last.len(), found.has_more, found.is_cut), (MATCHES_MAX, true, true));
        let (first, last) = (&found.last[0], &found.last[MATCHES_MAX - 1]);
        assert_eq!((first.line.text(), first.number, first.at), ("line 11 x", 23, None));
        assert_eq!((last.line.text(), last.number), ("no end x", 2 * (MATCHES_MAX as u64 + 10) + 1));
    }
}
