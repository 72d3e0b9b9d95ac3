//! Searches a whole log on the head, where the file is: only matching lines are sent.

use super::driver::is_elsewhere;
use super::log_access::LogAccess;
use super::log_file::{LogFile, ReadError};
use crate::logs::{Grep, LineSplitter, NotForGrep, Pattern, PatternError};
use crate::model::{ClusterSpec, LogMatch, LogMatches, LogSource, NotSearched};
use crate::ray::RayError;

/// Maximum number of matching lines that are shown, the last ones; the script sends one more and its exit status.
pub(super) const MATCHES_MAX: usize = 2000;
/// Maximum number of bytes of a line that the script sends, including its number and position.
const LINE_BYTES_MAX: usize = 1000;

/// Reason why a log cannot be searched on its host.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The cluster is not connected.
    #[error("the cluster is not connected; search again once it is")]
    NotConnected,
    /// There is no shell on the machine that has the file.
    #[error("{0}")]
    NoShell(&'static str),
    /// The dashboard cannot provide it.
    #[error(transparent)]
    Ray(#[from] RayError),
    /// The pattern is not a valid regular expression.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// grep does not support the pattern.
    #[error(transparent)]
    NotForGrep(#[from] NotForGrep),
    /// The file cannot be read.
    #[error("{0}")]
    ReadError(ReadError),
    /// The program failed, with its message.
    #[error("grep on the head: {0}")]
    Grep(String),
}

impl From<SearchError> for NotSearched {
    fn from(why: SearchError) -> Self {
        match why {
            SearchError::NoShell(_) | SearchError::ReadError(ReadError::Utf16) => {
                Self::Remote(why.to_string())
            }
            _ => Self::Failed(why.to_string()),
        }
    }
}

impl From<ReadError> for SearchError {
    fn from(why: ReadError) -> Self {
        Self::ReadError(why)
    }
}

/// Searches the file of a log on the head, on the machine itself or in the container that the cluster file names.
pub async fn search(
    access: Option<LogAccess>,
    spec: &ClusterSpec,
    source: &LogSource,
    text: &str,
) -> Result<LogMatches, SearchError> {
    let access = access.ok_or(SearchError::NotConnected)?;
    let remote = access.remote.ok_or(SearchError::NoShell("there is no SSH connection to the head"))?;
    let mut file = match source {
        LogSource::Job(id) => LogFile::of_job(id),
        LogSource::Monitor(name) => LogFile::new(name),
        LogSource::File { node, name } if Some(*node) == access.head => LogFile::new(name.raw()),
        LogSource::File { .. } => {
            return Err(SearchError::NoShell("its file is not on the head"));
        }
    };
    if let LogSource::Job(id) = source
        && is_elsewhere(&access.client, id, access.head).await
    {
        return Err(SearchError::NoShell("the driver does not run on the head;"));
    }
    let pattern = Pattern::parse(text)?;
    let Some(words) = Grep::of(&pattern)? else { return Ok(LogMatches::default()) };
    let over = (&remote, spec);
    let output = match file.search(over, &words).await {
        Err(why) if file.enter_after(&why, spec) => file.search(over, &words).await?,
        output => output?,
    };
    read(&output.stdout, &output.stderr, &pattern)
}

/// Parses the script's output: `NUMBER:POSITION:LINE` per line, and grep's exit status at the end.
fn read(stdout: &[u8], stderr: &str, pattern: &Pattern) -> Result<LogMatches, SearchError> {
    let mut lines: Vec<&[u8]> = stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect();
    let status =
        lines.pop().and_then(|last| str::from_utf8(last).ok()?.strip_prefix("status ")?.parse().ok());
    match status {
        // 1: no line matches.
        Some(0 | 1) => {}
        Some(127) => return Err(SearchError::Grep("no such program".to_owned())),
        Some(status) if stderr.is_empty() => return Err(SearchError::Grep(format!("exit status {status}"))),
        _ => return Err(SearchError::Grep(stderr.lines().next().unwrap_or("no response").to_owned())),
    }
    let has_more = lines.len() > MATCHES_MAX;
    let last = lines[lines.len().saturating_sub(MATCHES_MAX)..].iter().filter_map(|line| {
        let mut fields = line.splitn(3, |b| *b == b':');
        let mut number = || str::from_utf8(fields.next()?).ok()?.parse().ok();
        let (number, at) = (number()?, number()?);
        let text = fields.next()?;
        let is_cut = line.len() >= LINE_BYTES_MAX;
        let line = LineSplitter::default().push(&[text, b"\n"].concat()).pop()?;
        // grep also matches color sequences, and in a long line the part that is not sent.
        (is_cut || pattern.is_match(line.text())).then_some(LogMatch { number, at: Some(at), line })
    });
    Ok(LogMatches { last: last.collect(), has_more, is_cut: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn matching_lines_are_parsed_and_matched_again() {
        let stdout = b"7:100:\x1b[31mERROR: a:b\x1b[0m\n12:2000:\x1b[31mfine\nstatus 0\n";
        let found = read(stdout, "", &pattern("(?i)error|31m")).unwrap();
        let texts: Vec<_> = found.last.iter().map(|m| (m.number, m.at.unwrap(), m.line.text())).collect();
        assert_eq!((texts, found.has_more), (vec![(7, 100, "ERROR: a:b")], false));
        assert_eq!(read(b"status 1\n", "", &pattern("x")).unwrap(), LogMatches::default());
        let many: Vec<String> =
            (0..=MATCHES_MAX).map(|n| format!("{n}:{n}:x")).chain(["status 0".into()]).collect();
        let found = read(many.join("\n").as_bytes(), "", &pattern("x")).unwrap();
        assert_eq!((found.last.len(), found.last[0].number, found.has_more), (MATCHES_MAX, 1, true));
    }

    #[test]
    fn grep_errors_are_reported() {
        let why = |stdout: &[u8], stderr: &str| read(stdout, stderr, &pattern("x")).unwrap_err().to_string();
        assert_eq!(
            why(b"status 2\n", "grep: unrecognized option: b\nBusyBox"),
            "grep on the head: grep: unrecognized option: b"
        );
        assert_eq!(why(b"status 127\n", "sh: grep: not found"), "grep on the head: no such program");
        assert_eq!(why(b"", ""), "grep on the head: no response");
    }
}
