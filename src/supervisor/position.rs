//! The read position in a log: the file, the next byte, and the last bytes read. Positions of lines continue across
//! files, so that a rotated log is one log.

use super::log_file::{LogFile, Opened, ReadError, Start};
use crate::model::{ClusterSpec, LogPart};
use crate::ray::{Closed, Outlet, cleaned};
use crate::ssh::Remote;

/// Number of last bytes that a new connection reads again, to check that the file is the same.
const OVERLAP: usize = 512;
/// Size of an older part in bytes.
const PART: u64 = 256 << 10;
/// Maximum size of an older part in bytes, which applies if a line is longer than [`PART`].
const PART_MAX: u64 = 4 << 20;

/// A file of the log, and the position of its first byte in the log.
#[derive(Clone, Copy, Debug)]
struct Piece {
    inode: u64,
    base: u64,
}

/// The bytes at the start of a stream, before the new ones.
#[derive(Debug)]
enum First {
    /// There are no bytes before them.
    New,
    /// Bytes that were read before; contains the number of them that were received again.
    Known(usize),
    /// Possibly the end of a line whose beginning was not read, up to so many bytes; with the bytes received of it.
    Partial(Vec<u8>, usize),
}

impl First {
    /// The beginning of a stream that may begin within a line.
    fn partial(opened: &Opened) -> Self {
        let there = opened.size.saturating_sub(opened.from);
        Self::Partial(Vec::new(), usize::try_from(there).unwrap_or(usize::MAX))
    }
}

/// Whether bytes belong to the file that was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    Same,
    Other,
}

/// How the file at the name of the log has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    Replaced,
    /// It was rotated more than once since it was last read.
    Overtaken,
    Truncated,
}

impl FileChange {
    /// The message for the reader of the log.
    pub fn message(self, name: &str) -> String {
        match self {
            Self::Replaced => {
                format!("{name} was replaced; lines written to the old file in the meantime are lost")
            }
            Self::Overtaken => {
                format!("{name} was rotated more than once; lines written in between are lost")
            }
            Self::Truncated => format!("{name} was truncated; lines that were not read before are lost"),
        }
    }
}

/// The read position in a log across rotations: file, byte, and the last bytes read.
#[derive(Debug)]
pub struct Position {
    /// How to begin in a file that has not been read.
    start: Start,
    /// All files so far, the newest last.
    pieces: Vec<Piece>,
    /// Whether reading of the newest file continues; otherwise `start` applies.
    is_open: bool,
    /// Position in the newest file after the last byte read.
    at: u64,
    /// The last bytes before that position.
    last: Vec<u8>,
    first: First,
}

impl Position {
    /// The position before anything was read.
    pub const fn new(start: Start) -> Self {
        Self { start, pieces: Vec::new(), is_open: false, at: 0, last: Vec::new(), first: First::New }
    }

    /// Whether nothing has been read.
    pub fn is_new(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Starts again in the file that now has the name.
    pub fn begin_again(&mut self, start: Start) {
        (self.start, self.is_open) = (start, false);
        self.last.clear();
    }

    /// The file, and the position after the last byte read.
    pub fn known(&self) -> Option<(u64, u64)> {
        self.pieces.last().filter(|_| self.is_open).map(|piece| (piece.inode, self.at))
    }

    /// Where to continue reading.
    pub fn next(&self) -> Result<(u64, u64), Start> {
        self.known().map(|(inode, at)| (inode, at - self.last.len() as u64)).ok_or(self.start)
    }

    /// Whether a file has more than so many unread bytes.
    pub fn is_behind(&self, opened: &Opened, bytes: u64) -> bool {
        self.known()
            .is_some_and(|(inode, at)| inode == opened.inode && opened.size.saturating_sub(at) > bytes)
    }

    /// Handles the opening of a stream.
    pub async fn opened(&mut self, opened: &Opened, out: &mut Outlet) -> Result<Option<FileChange>, Closed> {
        if let Ok((inode, from)) = self.next() {
            if (opened.inode, opened.from) == (inode, from) {
                self.first = match self.first {
                    // The stream before ended within its first line.
                    First::Partial(..) => First::partial(opened),
                    First::New | First::Known(_) => First::Known(0),
                };
                return Ok(None);
            }
            let change = if opened.inode == inode { FileChange::Truncated } else { FileChange::Replaced };
            self.begin(opened.inode, out.at(), out).await?;
            return Ok(Some(change));
        }
        let same = self.pieces.last().copied().filter(|p| p.inode == opened.inode && opened.from > 0);
        let base = match same {
            Some(piece) => piece.base,
            None if self.pieces.is_empty() => 0,
            None => out.at(),
        };
        if same.is_some() {
            self.pieces.pop();
        }
        self.begin(opened.inode, base, out).await?;
        self.at = opened.from;
        if opened.from > 0 {
            self.first = First::partial(opened);
        }
        Ok(None)
    }

    async fn begin(&mut self, inode: u64, base: u64, out: &mut Outlet) -> Result<(), Closed> {
        self.pieces.push(Piece { inode, base });
        (self.is_open, self.at, self.first) = (true, 0, First::New);
        self.last.clear();
        out.seek(base, Some(0)).await
    }

    /// Continues reading at this position of a file; the bytes before it were received in another way.
    pub async fn read_on(&mut self, inode: u64, at: u64, out: &mut Outlet) -> Result<(), Closed> {
        self.begin(inode, 0, out).await?;
        self.at = at;
        out.seek(at, Some(0)).await
    }

    /// Takes bytes of the stream and passes on the new ones.
    pub async fn take(&mut self, bytes: &[u8], out: &mut Outlet) -> Result<Arrived, Closed> {
        match &mut self.first {
            First::New => self.pass(bytes, out).await?,
            First::Known(seen) => {
                let again = bytes.len().min(self.last.len() - *seen);
                if bytes[..again] != self.last[*seen..*seen + again] {
                    return Ok(Arrived::Other);
                }
                *seen += again;
                if *seen == self.last.len() {
                    self.first = First::New;
                }
                self.pass(&bytes[again..], out).await?;
            }
            First::Partial(held, there) => {
                held.extend_from_slice(bytes);
                let line = held.iter().position(|b| *b == b'\n').map(|end| end + 1);
                // Without a line break in the existing part, the line is shown without its beginning.
                let Some(from) = line.or_else(|| (held.len() >= *there).then_some(1.min(held.len()))) else {
                    return Ok(Arrived::Same);
                };
                let held = std::mem::take(held);
                self.first = First::New;
                self.at += from as u64;
                let base = self.pieces.last().map_or(0, |piece| piece.base);
                out.seek(base + self.at, Some(0)).await?;
                self.pass(&held[from..], out).await?;
            }
        }
        Ok(Arrived::Same)
    }

    async fn pass(&mut self, bytes: &[u8], out: &mut Outlet) -> Result<(), Closed> {
        self.at += bytes.len() as u64;
        self.last.extend_from_slice(&bytes[bytes.len().saturating_sub(OVERLAP)..]);
        let surplus = self.last.len().saturating_sub(OVERLAP);
        self.last.drain(..surplus);
        out.feed(bytes).await
    }

    /// The part of the log that ends at a position, in whole lines; or a piece of a line, if the line is longer than
    /// the maximum part.
    pub async fn older(
        &self,
        before: u64,
        file: &LogFile,
        over: (&Remote, &ClusterSpec),
    ) -> Result<LogPart, String> {
        let Some(piece) = self.pieces.iter().rev().find(|piece| piece.base < before) else {
            return Ok(LogPart { bytes: before..before, begin: Some(before), ..LogPart::default() });
        };
        let end = before - piece.base;
        let mut size = PART;
        loop {
            let from = end.saturating_sub(size);
            let bytes = file.part(over, piece.inode, from..end).await.map_err(|why| match why {
                ReadError::Failed(_) | ReadError::Lost(_) | ReadError::Refused(_) | ReadError::Utf16 => {
                    why.to_string()
                }
                ReadError::Missing
                | ReadError::NoFolder
                | ReadError::Replaced
                | ReadError::Overtaken
                | ReadError::Truncated => {
                    format!("the file of {} that contained them no longer exists", file.name())
                }
            })?;
            if bytes.len() as u64 != end - from {
                return Err(format!("{} is shorter than before", file.name()));
            }
            let line = bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| at + 1);
            if from > 0 && line == bytes.len() && size < PART_MAX {
                size *= 4;
                continue;
            }
            let cut = if from == 0 || line == bytes.len() { 0 } else { line };
            let start = piece.base + from + cut as u64;
            return Ok(LogPart { lines: cleaned(&bytes[cut..]), bytes: start..before, begin: Some(0) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::LineSplitter;
    use crate::model::Line;
    use crate::ray::{LogEvent, LogStream};

    /// The lines that are passed on of these streams, each after an interruption, and their positions. All begin at
    /// byte 100; `is_whole` if a line is known to begin there.
    async fn received(streams: Vec<&'static [u8]>, is_whole: bool) -> (String, u64, u64) {
        let opened = Opened { inode: 7, size: 111, from: 100, is_drawn: false };
        let mut stream = LogStream::spawn(LineSplitter::ON_A_SCREEN, move |mut out| async move {
            let mut position = Position::new(Start::Bytes(10));
            if is_whole {
                position.read_on(opened.inode, opened.from, &mut out).await?;
            }
            for bytes in streams {
                assert_eq!(position.opened(&opened, &mut out).await?, None);
                assert_eq!(position.take(bytes, &mut out).await?, Arrived::Same);
            }
            out.complete().await
        });
        let mut parts = Vec::new();
        while let Some(LogEvent::Lines(part)) = stream.next().await {
            parts.push(part);
        }
        let lines: Vec<&str> = parts.iter().flat_map(|part| &part.lines).map(Line::text).collect();
        (lines.join("|"), parts[0].bytes.start, parts[parts.len() - 1].bytes.end)
    }

    #[tokio::test]
    async fn an_interruption_within_the_first_line_does_not_shift_positions() {
        let (cut, all) = (&b"cu"[..], &b"cut\nwhole\nx"[..]);
        assert_eq!(received(vec![all], false).await, ("whole|x".to_owned(), 104, 111));
        assert_eq!(received(vec![cut, all], false).await, ("whole|x".to_owned(), 104, 111));
        // The bytes before were searched on the host.
        assert_eq!(received(vec![cut, all], true).await, ("cut|whole|x".to_owned(), 100, 111));
    }
}
