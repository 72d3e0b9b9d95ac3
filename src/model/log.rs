//! Log streams: their sources, lines and states.

use super::cloud::TpuHost;
use super::text::colored_line;
use super::{ClusterName, NodeId, SubmissionId, Text, TextStyle};
use std::fmt;
use std::ops::Range;

/// A log line: safe for a terminal, with the colors that the program wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    text: String,
    /// Looks, each with the byte offset at which it starts.
    styles: Box<[(u32, TextStyle)]>,
}

impl Line {
    /// A line written by a program, cleaned as by [`super::text::log_line`] except that its colors are kept.
    pub fn cleaned(raw: &str) -> Self {
        let mut style = TextStyle::default();
        let mut styles: Vec<(u32, TextStyle)> = Vec::new();
        let text = colored_line(raw, |at, parameters| {
            style.apply(parameters);
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            styles.pop_if(|(before, _)| *before == at);
            styles.push((at, style));
        });
        // Most lines have no colors, and many end with a reset sequence.
        if styles.iter().all(|(at, style)| style.is_plain() || *at as usize >= text.len()) {
            styles.clear();
        }
        Self { text, styles: styles.into() }
    }

    /// The text of the line, without its line break.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The parts of the text that are not plain, in order.
    pub fn styles(&self) -> impl Iterator<Item = (Range<usize>, TextStyle)> + '_ {
        let ends = self.styles.iter().skip(1).map(|(at, _)| *at as usize).chain([self.text.len()]);
        let parts = self.styles.iter().zip(ends).map(|((from, style), to)| (*from as usize..to, *style));
        parts.filter(|(range, style)| !range.is_empty() && !style.is_plain())
    }

    /// Memory usage in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.styles) + size_of::<Self>()
    }

    /// The line with plain text appended.
    #[must_use]
    pub fn and(mut self, more: &str) -> Self {
        if let Some((_, last)) = self.styles.last()
            && !last.is_plain()
        {
            let end = (u32::try_from(self.text.len()).unwrap_or(u32::MAX), TextStyle::default());
            self.styles = self.styles.iter().copied().chain([end]).collect();
        }
        self.text.push_str(more);
        self
    }
}

/// From text that is already safe, without colors.
impl From<String> for Line {
    fn from(text: String) -> Self {
        Self { text, styles: Box::default() }
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// A log that can be followed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogSource {
    /// The driver log of a submitted job.
    Job(SubmissionId),
    /// The autoscaler's `monitor.log`, `monitor.out` or `monitor.err` on the head.
    Monitor(String),
    /// Any file in a node's session log directory.
    File {
        /// Node that the file is on.
        node: NodeId,
        /// File name relative to the session's `logs/`.
        name: Text,
    },
}

/// A log that is followed together with others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FollowedLog {
    /// Its cluster.
    pub cluster: ClusterName,
    /// Where its lines come from.
    pub source: LogSource,
    /// Its host; none for the head.
    pub host: Option<TpuHost>,
    /// Label of its lines, safe to print.
    pub name: String,
}

impl FollowedLog {
    /// Maximum number of hosts of a cluster that are followed at a time: each needs an open SSH session.
    pub const MAX_HOSTS: usize = 64;
    /// Maximum number of logs that are followed at a time without SSH: the dashboard is polled for each of them.
    pub const MAX_POLLED: usize = 32;

    /// Why this many hosts or logs of a cluster cannot be followed together, in a sentence; none if they can.
    /// `has_shell`: whether its hosts can be reached by SSH.
    pub fn too_many(hosts: usize, logs: usize, has_shell: bool) -> Option<String> {
        match has_shell {
            true if hosts > Self::MAX_HOSTS => Some(format!(
                "its logs are on {hosts} hosts; at most {} can be followed at a time",
                Self::MAX_HOSTS
            )),
            false if logs > Self::MAX_POLLED => Some(format!(
                "it has {logs} log files; without SSH, at most {} can be followed at a time",
                Self::MAX_POLLED
            )),
            true | false => None,
        }
    }
}

/// Identifies an open stream, so that lines of a closed stream are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// State of a log stream after a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// The stream is open; more lines may follow.
    Open,
    /// The job has ended, and the stream is complete.
    Complete,
    /// The stream is interrupted. It reconnects without repeating lines; the text gives the cause and the fallback.
    Interrupted(String),
    /// The log cannot be read; the text gives the cause and what to do.
    Failed(String),
}

/// A part of a log: lines and their position.
///
/// A position is a byte offset. It continues when the file is replaced by another one, and is the same whenever the
/// same part is read again. Where only lines can be requested (Ray's state API), it is relative to an arbitrary start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPart {
    /// Complete lines, in order.
    pub lines: Vec<Line>,
    /// The byte range of the lines. A part whose `start` equals the `end` of another one follows it directly.
    pub bytes: Range<u64>,
    /// Position of the log's first byte; none while the amount of earlier output is unknown.
    pub begin: Option<u64>,
}

/// From lines without a position in the file, such as messages of this program.
impl From<Vec<Line>> for LogPart {
    fn from(lines: Vec<Line>) -> Self {
        Self { lines, ..Self::default() }
    }
}

/// New lines of a stream, or its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBatch {
    /// Stream that the lines belong to.
    pub stream: StreamId,
    /// The lines. They directly follow those of the previous batch unless the positions differ: then lines between them
    /// were omitted.
    pub part: LogPart,
    /// State of the stream.
    pub end: LogEnd,
}

#[cfg(test)]
mod tests {
    use super::super::SgrColor;
    use super::*;

    #[test]
    fn colors_keep_their_position() {
        let line = Line::cleaned("\x1b[36m(train pid=7)\x1b[0m a\tb \x1b[1;31mERROR\x1b[m\n");
        assert_eq!(line.text(), "(train pid=7) a b ERROR");
        let styles: Vec<_> = line.styles().map(|(range, style)| (&line.text()[range], style)).collect();
        let cyan = TextStyle { color: Some(SgrColor::Indexed(6)), ..TextStyle::default() };
        let red = TextStyle { color: Some(SgrColor::Indexed(1)), bold: true, ..TextStyle::default() };
        assert_eq!(styles, [("(train pid=7)", cyan), ("ERROR", red)]);
        let more = Line::cleaned("\x1b[31mlong").and(" more");
        assert_eq!(more.styles().map(|(range, _)| &more.text()[range]).collect::<Vec<_>>(), ["long"]);
    }

    #[test]
    fn a_line_without_colors_stores_none() {
        for raw in ["plain", "\x1b[0mplain\x1b[0m", "plain\x1b[31m", "\x1b[2Kplain"] {
            assert_eq!(Line::cleaned(raw), Line::from("plain"), "{raw}");
        }
    }

    #[test]
    fn overwritten_text_has_no_colors() {
        let line = Line::cleaned("\x1b[31m10%\r\x1b[32m20%");
        let styles: Vec<_> = line.styles().collect();
        assert_eq!((line.text(), styles.len(), styles[0].1.color), ("20%", 1, Some(SgrColor::Indexed(2))));
    }
}
