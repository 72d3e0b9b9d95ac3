//! Log files of a node's session directory: list and read (state API, `/api/v0/logs`).

use super::super::RayError;
use super::super::client::{Client, encoded};
use super::super::convert::envelope;
use super::super::json::{Table, read_with};
use crate::logs::LineSplitter;
use crate::model::{Line, NodeId, SubmissionId, Text};
use bytes::Bytes;
use serde_json::Value;

/// Log files by Ray's category (`raylet`, `worker_out`, ...), each sorted; directories end with `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFiles(pub Vec<(Text, Vec<Text>)>);

impl Client {
    /// Lists a node's log files that match a glob relative to its log directory; `*` for all (`GET /api/v0/logs`).
    pub async fn log_files(&self, node: NodeId, glob: &str) -> Result<LogFiles, RayError> {
        let body = self.get(&format!("/api/v0/logs?node_id={node}&glob={}", encoded(glob))).await?;
        list(&body)
    }

    /// The last `lines` lines of a file, as bytes (`GET /api/v0/logs/file`).
    pub async fn read_log(&self, node: NodeId, name: &Text, lines: u32) -> Result<Bytes, RayError> {
        // Ray treats 0 as its default of 1000.
        let (name, lines) = (encoded(name.raw()), lines.max(1));
        self.get(&format!("/api/v0/logs/file?node_id={node}&filename={name}&lines={lines}")).await
    }

    /// The last `lines` lines of a job's driver log, as bytes, which may not be UTF-8. `node` is any live node; Ray
    /// finds the right one.
    pub async fn read_job_log(&self, id: &SubmissionId, node: NodeId, lines: u32) -> Result<Bytes, RayError> {
        let (id, lines) = (encoded(id.0.raw()), lines.max(1));
        self.get(&format!("/api/v0/logs/file?node_id={node}&submission_id={id}&lines={lines}")).await
    }

    /// The result of a read of a node's file, without bytes if the file is empty. Ray 2.53 returns the same unspecific
    /// error for an empty file as for a node that is gone ([`RayError::may_mean_empty`]), but such a node cannot list
    /// its files either.
    pub(super) async fn or_empty(
        &self,
        read: Result<Bytes, RayError>,
        node: NodeId,
        name: &str,
    ) -> Result<Bytes, RayError> {
        match read {
            Err(e) if e.may_mean_empty() && self.log_files(node, name).await.is_ok() => Ok(Bytes::new()),
            read => read,
        }
    }
}

fn list(body: &[u8]) -> Result<LogFiles, RayError> {
    read_with("/api/v0/logs", body, |text| {
        let categories: Table<Value> = envelope::result(text)?;
        let files = categories.0.into_iter().map(|(category, files)| {
            let names = files.as_array().into_iter().flatten().filter_map(Value::as_str);
            let mut names: Vec<Text> = names.map(Text::from).collect();
            names.sort();
            (Text::from(category), names)
        });
        Ok(LogFiles(files.collect()))
    })
}

/// The lines of a complete file, cleaned for a terminal.
pub fn cleaned(bytes: &[u8]) -> Vec<Line> {
    let mut splitter = LineSplitter::default();
    let mut lines = splitter.push(bytes);
    lines.extend(splitter.finish());
    lines
}

#[cfg(test)]
mod tests {
    use super::super::super::convert::fixtures::{VERSIONS, body};
    use super::*;

    #[test]
    fn a_recorded_listing_is_sorted() {
        for version in VERSIONS {
            let files = list(&body(version, "v0_logs_head")).unwrap().0;
            let internal = &files.iter().find(|(category, _)| category.raw() == "internal").unwrap().1;
            assert!(internal.iter().any(|f| f.raw() == "job-driver-busy-1.log"), "{version}");
            assert!(internal.is_sorted());
        }
    }

    #[test]
    fn a_file_may_end_without_a_line_break() {
        assert_eq!(cleaned(b"a\nb"), ["a", "b"].map(Line::from));
        assert_eq!(cleaned(b"a\n"), [Line::from("a")]);
        assert!(cleaned(b"").is_empty());
    }
}
