//! A file in the head's log directory, read over ssh by position: followed from a byte, searched, or read in part. It
//! is identified by its inode, so that it is found under another name after a rotation.

pub(super) mod script;
mod since;

use super::container::{has_container, in_container, shell_join};
use crate::logs::Grep;
use crate::model::{ClusterSpec, LOG_DIRECTORY, Problem, SubmissionId};
use crate::ssh::{Output, Remote, RemoteStream, SshError};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The log directory of the running session on a head.
pub(super) const LOGS: &str = LOG_DIRECTORY;
/// Time limit of a remote command that responds at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
/// Separator before each part that [`script::SAMPLES`] prints.
const SEPARATOR: &[u8] = b"\n\x1e\n";
/// Time limit of a search through a whole file.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(120);

/// Where to begin in a file that has not been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first byte.
    Beginning,
    /// So many lines before its end.
    Lines(u32),
    /// So many bytes before its end.
    Bytes(u64),
    /// At this byte of the file with this inode, the first byte of a line.
    At {
        /// The inode of the file.
        inode: u64,
        /// Position of the byte.
        from: u64,
    },
}

/// A search of a part of a file.
#[derive(Clone, Debug)]
pub struct ContentSearch {
    /// The pattern.
    pub grep: Grep,
    /// Where the part begins. With a number of bytes before the end, everything is searched.
    pub start: Start,
    /// Whether an incomplete last line is searched as well.
    pub to_end: bool,
    /// The part that is searched, once it is known: a search that was cut off begins at the same byte again.
    pub opened: Option<Opened>,
    /// Number of bytes of its result received so far.
    pub received: u64,
}

/// The file that the remote script has opened, as its first line of output reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The file's inode.
    pub inode: u64,
    /// Its size in bytes when it was opened.
    pub size: u64,
    /// Position of the first byte that is printed.
    pub from: u64,
    /// Whether lines are searched as they are displayed ([`Grep::drawn`]).
    pub is_drawn: bool,
}

impl Opened {
    /// Takes the first line of a script's output from the received bytes; `None` while it is incomplete.
    pub fn take(received: &mut Vec<u8>) -> Option<Result<Self, ReadError>> {
        let end = received.iter().position(|b| *b == b'\n')? + 1;
        let line: Vec<u8> = received.drain(..end).collect();
        let unexpected = || ReadError::Failed("unexpected output from the head's shell".to_owned());
        Some(Self::parse(&line).ok_or_else(unexpected))
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let mut numbers = str::from_utf8(line).ok()?.split_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self { inode: next()?, size: next()?, from: next()?, is_drawn: next() == Some(1) })
    }
}

/// Reason why a file cannot be read at the moment.
#[derive(Clone, Debug)]
pub enum ReadError {
    /// There is no such file.
    Missing,
    /// There is no log directory: Ray keeps its files elsewhere.
    NoFolder,
    /// The name refers to another file now, and the requested part is gone or was read.
    Replaced,
    /// Like [`ReadError::Replaced`], and it was rotated more than once: a newer rotated file was not read.
    Overtaken,
    /// It has fewer bytes than were already read.
    Truncated,
    /// It is a directory or a device, it is compressed, or reading it is not permitted; with the message.
    Refused(&'static str),
    /// It is encoded in UTF-16, which grep cannot read.
    Utf16,
    /// The command failed.
    Failed(String),
    /// The connection was lost.
    Lost(String),
}

impl From<SshError> for ReadError {
    fn from(error: SshError) -> Self {
        match &error {
            SshError::Command { status, .. } => {
                Self::of(*status).unwrap_or_else(|| Self::Failed(error.to_string()))
            }
            _ => Self::Lost(error.to_string()),
        }
    }
}

impl From<Problem> for ReadError {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem.what)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "no such file",
            Self::NoFolder => "the head has no log directory",
            Self::Replaced => "it was replaced",
            Self::Overtaken => "it was rotated more than once",
            Self::Truncated => "it was truncated",
            Self::Refused(why) => why,
            Self::Utf16 => "it is in UTF-16, which grep on the head cannot read",
            Self::Failed(why) | Self::Lost(why) => why,
        })
    }
}

impl ReadError {
    /// Whether the file or the log directory does not exist on the machine itself: Ray may keep it in a container.
    pub(super) const fn is_missing(&self) -> bool {
        matches!(self, Self::Missing | Self::NoFolder)
    }

    pub(super) fn of(status: i32) -> Option<Self> {
        Some(match status {
            80 => Self::Missing,
            81 => Self::Replaced,
            82 => Self::Truncated,
            83 => Self::NoFolder,
            84 => Self::Refused("it is not a regular file"),
            85 => Self::Refused("permission denied"),
            86 => Self::Utf16,
            89 => Self::Overtaken,
            90 => Self::Refused("it is compressed"),
            _ => return None,
        })
    }
}

/// A file in the log directory of a head.
#[derive(Clone, Debug)]
pub struct LogFile {
    name: String,
    /// Whether to read the file in the container that the cluster file names.
    in_container: bool,
}

impl LogFile {
    /// The file of this name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), in_container: false }
    }

    /// The driver log of a job.
    pub fn of_job(id: &SubmissionId) -> Self {
        Self::new(&id.driver_log())
    }

    /// The name of the file in Ray's log directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the file in the container from now on, if it was not found outside of it and the cluster file names one.
    /// Returns whether that is a change, so that reading it should be tried again.
    pub fn enter_after(&mut self, why: &ReadError, spec: &ClusterSpec) -> bool {
        why.is_missing() && has_container(spec) && !std::mem::replace(&mut self.in_container, true)
    }

    /// A message that the file is read through the dashboard because it cannot be read over ssh.
    pub fn elsewhere(&self, why: &ReadError) -> String {
        format!("{} cannot be read on the head: {why}; reading it through the dashboard", self.name)
    }

    /// Follows the file from a position in the file with this inode, or from a start. The first line of output
    /// identifies the opened file.
    pub fn follow(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        from: Result<(u64, u64), Start>,
    ) -> Result<RemoteStream, ReadError> {
        let (inode, from) = match from {
            Ok((inode, from)) => (inode.to_string(), from.to_string()),
            Err(Start::Beginning) => (String::new(), "0".to_owned()),
            Err(Start::Lines(lines)) => (String::new(), format!("n{lines}")),
            Err(Start::Bytes(bytes)) => (String::new(), format!("c{bytes}")),
            // As with a position before the end, one more byte is printed.
            Err(Start::At { inode, from }) => (inode.to_string(), from.saturating_sub(1).to_string()),
        };
        Ok(remote.stream(&self.command(spec, ("follow", script::FOLLOW), &[inode, from])?)?)
    }

    /// These bytes of the file with this inode, or fewer if the file ends before.
    pub async fn part(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        inode: u64,
        bytes: Range<u64>,
    ) -> Result<Vec<u8>, ReadError> {
        let count = bytes.end.saturating_sub(bytes.start);
        let words = [inode, bytes.start, count].map(|n| n.to_string());
        let output =
            remote.run(&self.command(spec, ("part", script::PART), &words)?, COMMAND_TIMEOUT).await?;
        match (output.status, ReadError::of(output.status)) {
            (0, _) => Ok(output.stdout),
            (_, Some(why)) => Err(why),
            (_, None) => Err(ReadError::Failed(output.stderr)),
        }
    }

    /// Samples of the file: so many bytes at each of so many evenly spaced positions. The first and the last line of
    /// each sample are cut.
    pub async fn samples(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        (samples, bytes): (u32, u32),
    ) -> Result<Vec<Vec<u8>>, ReadError> {
        let arguments = [String::new(), samples.to_string(), bytes.to_string()];
        let output = remote
            .run(&self.command(spec, ("samples", script::SAMPLES), &arguments)?, COMMAND_TIMEOUT)
            .await?;
        match (output.status, ReadError::of(output.status)) {
            (0, _) => Ok(split(&output.stdout, SEPARATOR).skip(1).map(<[u8]>::to_vec).collect()),
            (_, Some(why)) => Err(why),
            (_, None) => Err(ReadError::Failed(output.stderr)),
        }
    }

    /// The last matching lines as `NUMBER:POSITION:LINE`, followed by `status` and grep's exit status.
    pub async fn search(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        grep: &Grep,
    ) -> Result<Output, ReadError> {
        let query = ContentSearch::all(grep.clone()).arguments();
        let script = format!("{}{}", script::GREP, script::SEARCH);
        let output = remote.run(&self.command(spec, ("search", &script), &query)?, SEARCH_TIMEOUT).await?;
        match ReadError::of(output.status) {
            Some(why) => Err(why),
            None => Ok(output),
        }
    }

    /// The matching lines of a part as they are found, after a line that identifies the open file; the part ends at its
    /// size.
    pub fn matched(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        query: &ContentSearch,
    ) -> Result<RemoteStream, ReadError> {
        let script = format!("{}{}", script::GREP, script::MATCHED);
        Ok(remote.stream(&self.command(spec, ("matched", &script), &query.arguments())?)?)
    }

    /// Streams the content from `start` to the end of the file.
    pub fn rest(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        start: Start,
    ) -> Result<RemoteStream, ReadError> {
        let (script, arguments) = match start {
            Start::Lines(lines) => (("last", script::LAST), vec![lines.to_string()]),
            Start::At { inode, from } => (("rest", script::REST), vec![inode.to_string(), from.to_string()]),
            Start::Beginning | Start::Bytes(_) => {
                (("rest", script::REST), vec![String::new(), "0".to_owned()])
            }
        };
        Ok(remote.stream(&self.command(spec, script, &arguments)?)?)
    }

    fn command(
        &self,
        spec: &ClusterSpec,
        (name, script): (&str, &str),
        arguments: &[String],
    ) -> Result<String, Problem> {
        let path = format!("{LOGS}/{}", self.name);
        let script = format!("{}{script}", script::OPEN);
        // The name appears in the machine's process list; the script is passed as an argument.
        let program = ["sh".to_owned(), "-c".to_owned(), script, format!("marin-tui-{name}-log"), path];
        let program = [&program[..], arguments].concat();
        let inside = if self.in_container {
            in_container(spec, None, &program.iter().map(String::as_str).collect::<Vec<_>>())?
        } else {
            None
        };
        Ok(inside.unwrap_or_else(|| shell_join(&program)))
    }
}

/// The parts of the output between separators.
fn split<'b>(bytes: &'b [u8], separator: &'static [u8]) -> impl Iterator<Item = &'b [u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let bytes = rest?;
        let at = bytes.windows(separator.len()).position(|found| found == separator);
        rest = at.map(|at| &bytes[at + separator.len()..]);
        Some(&bytes[..at.unwrap_or(bytes.len())])
    })
}

impl ContentSearch {
    /// The whole file as it is.
    pub const fn all(words: Grep) -> Self {
        Self { grep: words, start: Start::Beginning, to_end: true, opened: None, received: 0 }
    }

    /// The arguments of the search scripts after the file name.
    fn arguments(&self) -> [String; 4] {
        let Grep { expression, drawn, any_case, is_ascii } = &self.grep;
        // The same part is searched in the same way, whatever was appended after it.
        let (plain, drawn) = match &self.opened {
            Some(opened) if opened.is_drawn => (drawn, drawn),
            Some(_) => (expression, expression),
            None => (expression, drawn),
        };
        let locale = if *is_ascii { "C" } else { "C.UTF-8" };
        let case = if *any_case { "i" } else { "x" };
        let end = if self.to_end { "all" } else { "line" };
        let (inode, part) = match (&self.opened, self.start) {
            (Some(Opened { inode, size, from, .. }), _) => (inode.to_string(), format!("{from} {size}")),
            (None, Start::At { inode, from }) => (inode.to_string(), format!("{from} {end}")),
            (None, Start::Lines(lines)) => (String::new(), format!("n{lines} {end}")),
            (None, Start::Beginning | Start::Bytes(_)) => (String::new(), format!("0 {end}")),
        };
        [inode, format!("{locale} {case} {part}"), plain.clone(), drawn.clone()]
    }
}

#[cfg(test)]
mod tests;
