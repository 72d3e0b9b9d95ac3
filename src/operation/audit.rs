//! The audit log: who changed which cluster, what, when, and with what outcome. It is only ever appended to.

use super::folder;
use crate::model::{ClusterName, Timestamp};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// One entry of the audit log, a line of JSON in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The time, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The operator, as `user@host`.
    #[serde(rename = "user", alias = "who")]
    pub who: String,
    /// Name of the cluster that was changed.
    pub cluster: String,
    /// The action, e.g. `stop-job eval-7`.
    #[serde(rename = "action", alias = "what")]
    pub what: String,
    /// The outcome, as it was shown to the operator.
    pub outcome: String,
}

impl Entry {
    /// The time, in this machine's time zone: `2026-11-20 14:05:31`.
    pub fn when(&self) -> String {
        let at = jiff::Timestamp::from_millisecond(self.at_ms).unwrap_or_default();
        at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }
}

/// The audit log of this machine's user.
#[derive(Clone, Debug)]
pub struct Audit {
    path: PathBuf,
    who: String,
}

impl Audit {
    /// The log in the state directory, written as this operator.
    pub fn new(state: &Path, who: impl Into<String>) -> Self {
        Self { path: state.join("audit.jsonl"), who: who.into() }
    }

    /// Appends a line, in one write.
    pub fn note(&self, cluster: &ClusterName, what: &str, outcome: &str) -> io::Result<()> {
        let entry = Entry {
            at_ms: Timestamp::now().as_millis(),
            who: self.who.clone(),
            cluster: cluster.as_str().to_owned(),
            what: what.to_owned(),
            outcome: outcome.to_owned(),
        };
        if let Some(folder) = self.path.parent() {
            folder::make(folder)?;
        }
        let mut file =
            OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(&self.path)?;
        // A line that a full disk has truncated must not swallow this one.
        let mut line = if is_at_line_start(&file)? { Vec::new() } else { vec![b'\n'] };
        serde_json::to_writer(&mut line, &entry)?;
        line.push(b'\n');
        file.write_all(&line)?;
        file.sync_data()
    }

    /// All lines, oldest first, and how many could not be read.
    pub fn read(&self) -> io::Result<(Vec<Entry>, usize)> {
        let text = match std::fs::read(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        let lines = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
        let (good, bad): (Vec<_>, Vec<_>) = lines.map(serde_json::from_slice).partition(Result::is_ok);
        Ok((good.into_iter().filter_map(Result::ok).collect(), bad.len()))
    }
}

/// Whether the file is empty or ends with a line feed.
fn is_at_line_start(file: &File) -> io::Result<bool> {
    let mut last = [0];
    let Some(at) = file.metadata()?.len().checked_sub(1) else { return Ok(true) };
    file.read_exact_at(&mut last, at)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn lines_are_appended_and_a_truncated_one_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::new(dir.path(), "alice@laptop");
        audit.note(&ClusterName::new("a"), "stop-job x\ny", "stopped").unwrap();
        let path = dir.path().join("audit.jsonl");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        // The keys of earlier versions.
        file.write_all(
            b"{\"at_ms\": 1, \"who\": \"bob\", \"cluster\": \"a\", \"what\": \"start\", \"outcome\": \"\"}\n",
        )
        .unwrap();
        file.write_all(b"{\"at_ms\": 1, ").unwrap();
        audit.note(&ClusterName::new("b"), "restart", "done").unwrap();
        let (entries, unreadable) = audit.read().unwrap();
        assert_eq!(unreadable, 1);
        assert_eq!(
            entries.iter().map(|e| e.what.as_str()).collect::<Vec<_>>(),
            ["stop-job x\ny", "start", "restart"]
        );
        assert_eq!(entries[0].who, "alice@laptop");
    }
}
