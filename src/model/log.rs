//! Log streams: where lines come from and how they arrive.

use super::text::coloured_line;
use super::{ClusterName, Look, NodeId, SubmissionId, Text};
use std::fmt;
use std::ops::Range;

/// A line of a log: safe for a terminal, with the colours that its writer gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    text: String,
    /// From which byte on the text looks so.
    looks: Box<[(u32, Look)]>,
}

impl Line {
    /// The line that a program wrote, cleaned as by [`super::text::log_line`]; its colours stay.
    pub fn cleaned(raw: &str) -> Self {
        let mut look = Look::default();
        let mut looks: Vec<(u32, Look)> = Vec::new();
        let text = coloured_line(raw, |at, parameters| {
            look.apply(parameters);
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            looks.pop_if(|(before, _)| *before == at);
            looks.push((at, look));
        });
        // Most lines have no colours, and many end with the sequence that takes them back.
        if looks.iter().all(|(at, look)| look.is_plain() || *at as usize >= text.len()) {
            looks.clear();
        }
        Self { text, looks: looks.into() }
    }

    /// The text of the line, without its line break.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The parts of the text that have a look of their own, in order.
    pub fn looks(&self) -> impl Iterator<Item = (Range<usize>, Look)> + '_ {
        let ends = self.looks.iter().skip(1).map(|(at, _)| *at as usize).chain([self.text.len()]);
        let parts = self.looks.iter().zip(ends).map(|((from, look), to)| (*from as usize..to, *look));
        parts.filter(|(range, look)| !range.is_empty() && !look.is_plain())
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.looks) + size_of::<Self>()
    }

    /// The same with a text behind it.
    #[must_use]
    pub fn and(mut self, more: &str) -> Self {
        if let Some((_, last)) = self.looks.last()
            && !last.is_plain()
        {
            let end = (u32::try_from(self.text.len()).unwrap_or(u32::MAX), Look::default());
            self.looks = self.looks.iter().copied().chain([end]).collect();
        }
        self.text.push_str(more);
        self
    }
}

/// A text that is safe already, without colours.
impl From<String> for Line {
    fn from(text: String) -> Self {
        Self { text, looks: Box::default() }
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

/// The log to follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogSource {
    /// The driver log of a submitted job.
    Job(SubmissionId),
    /// The autoscaler's `monitor.log`, `monitor.out` or `monitor.err` on the head.
    Monitor(String),
    /// Any file in a node's session log folder.
    File {
        /// Node that the file is on.
        node: NodeId,
        /// File name relative to the session's `logs/`.
        name: Text,
    },
}

/// One of several logs that are followed together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogPlace {
    /// Its cluster.
    pub cluster: ClusterName,
    /// Where its lines come from.
    pub source: LogSource,
    /// The address of its host; none for the head.
    pub host: Option<Text>,
    /// What its lines are marked with, safe to print.
    pub name: String,
}

impl LogPlace {
    /// Hosts of a cluster that are followed at a time: each takes a login that stays open.
    pub const HOSTS: usize = 64;
    /// Logs that are followed at a time where the dashboard is the only way: it is asked for each of them.
    pub const POLLED: usize = 32;

    /// Why logs of so many hosts of a cluster are not followed together, in a sentence; none if they are. `has_shell`: its
    /// hosts can be logged in to.
    pub fn too_many(hosts: usize, logs: usize, has_shell: bool) -> Option<String> {
        match has_shell {
            true if hosts > Self::HOSTS => Some(format!(
                "{hosts} hosts have logs of it, and at most {} are followed at a time",
                Self::HOSTS
            )),
            false if logs > Self::POLLED => Some(format!(
                "it has {logs} log files, and without SSH at most {} are followed at a time",
                Self::POLLED
            )),
            true | false => None,
        }
    }
}

/// Identifies one open stream, so that lines of a stream that was closed are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// State of a log stream after a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEnd {
    /// The stream is open; more lines may follow.
    Open,
    /// The job has ended and this was all of it.
    Complete,
    /// The stream is interrupted. It reconnects without repeating lines; the text gives the cause and the fallback.
    Interrupted(String),
    /// It cannot be read at all; why, and what to do.
    Failed(String),
}

/// A part of a log: lines, and where they stand in it.
///
/// A position is a number of bytes. It counts on when the file is replaced by another one, and is the same whenever
/// the same part is read again. Where only lines can be asked for (Ray's state API) it counts from an arbitrary start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPart {
    /// Complete lines, in order.
    pub lines: Vec<Line>,
    /// The bytes that the lines were made of. A part whose `start` is the `end` of another one follows it.
    pub bytes: Range<u64>,
    /// Position of the log's first byte; none as long as it is unknown how much lies above.
    pub begin: Option<u64>,
}

/// Lines that have no place in the file, such as words of this program.
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
    /// The lines. They follow those of the batch before unless their position says otherwise: then something between
    /// them was left out.
    pub part: LogPart,
    /// State of the stream.
    pub end: LogEnd,
}

#[cfg(test)]
mod tests {
    use super::super::Colour;
    use super::*;

    #[test]
    fn colours_stay_where_they_were() {
        let line = Line::cleaned("\x1b[36m(train pid=7)\x1b[0m a\tb \x1b[1;31mERROR\x1b[m\n");
        assert_eq!(line.text(), "(train pid=7) a b ERROR");
        let looks: Vec<_> = line.looks().map(|(range, look)| (&line.text()[range], look)).collect();
        let cyan = Look { colour: Some(Colour::Indexed(6)), ..Look::default() };
        let red = Look { colour: Some(Colour::Indexed(1)), bold: true, ..Look::default() };
        assert_eq!(looks, [("(train pid=7)", cyan), ("ERROR", red)]);
        let more = Line::cleaned("\x1b[31mlong").and(" more");
        assert_eq!(more.looks().map(|(range, _)| &more.text()[range]).collect::<Vec<_>>(), ["long"]);
    }

    #[test]
    fn a_line_without_colours_holds_none() {
        for raw in ["plain", "\x1b[0mplain\x1b[0m", "plain\x1b[31m", "\x1b[2Kplain"] {
            assert_eq!(Line::cleaned(raw), Line::from("plain"), "{raw}");
        }
    }

    #[test]
    fn what_was_overwritten_has_no_colours() {
        let line = Line::cleaned("\x1b[31m10%\r\x1b[32m20%");
        let looks: Vec<_> = line.looks().collect();
        assert_eq!((line.text(), looks.len(), looks[0].1.colour), ("20%", 1, Some(Colour::Indexed(2))));
    }
}
