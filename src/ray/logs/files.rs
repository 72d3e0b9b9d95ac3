//! Log files of a node's session directory: list and read (state API, `/api/v0/logs`).

use super::super::RayError;
use super::super::client::{Client, encoded};
use super::super::convert::envelope;
use super::super::json::{Table, read_with};
use crate::logs::LineSplitter;
use crate::model::{Line, LogName, NodeId, SubmissionId, Text};
use bytes::Bytes;
use serde_json::Value;
use std::collections::HashMap;

/// Log files by Ray's category (`raylet`, `worker_out`, ...), each sorted; directories end with `/`. A rotated file is in
/// the category of its log.
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
            (Text::from(category), names.map(Text::from).collect())
        });
        Ok(LogFiles(with_their_logs(files.collect())))
    })
}

/// Sorts the files, and moves rotated files to the category of their log: Ray determines categories by the end of the
/// name.
fn with_their_logs(files: Vec<(Text, Vec<Text>)>) -> Vec<(Text, Vec<Text>)> {
    let of_category = |(at, (_, names)): (usize, &(Text, Vec<Text>))| {
        names.iter().map(move |name| (name.clone(), at)).collect::<Vec<_>>()
    };
    let categories: HashMap<Text, usize> = files.iter().enumerate().flat_map(of_category).collect();
    let mut all: Vec<(Text, Vec<Text>)> = files.iter().map(|(name, _)| (name.clone(), Vec::new())).collect();
    for (at, (_, names)) in files.into_iter().enumerate() {
        for name in names {
            let of_log = categories.get(LogName::parse(name.raw()).log);
            all[of_log.copied().unwrap_or(at)].1.push(name);
        }
    }
    for (_, names) in &mut all {
        names.sort();
    }
    all
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
    fn rotated_files_are_listed_with_their_log() {
        let listing = r#"{"result": true, "msg": "", "data": {"result": {
            "internal": ["worker-a-01-7.out.1", "worker-a-01-7.out-20261126.gz", "log_monitor.log", "old.out.1"],
            "worker_out": ["worker-b-01-8.out", "worker-a-01-7.out"]}}}"#;
        let files = list(listing.as_bytes()).unwrap().0;
        let names = |category: &str| {
            let (_, names) = files.iter().find(|(name, _)| name.raw() == category).unwrap();
            names.iter().map(Text::raw).collect::<Vec<_>>()
        };
        assert_eq!(names("internal"), ["log_monitor.log", "old.out.1"]);
        assert_eq!(
            names("worker_out"),
            [
                "worker-a-01-7.out",
                "worker-a-01-7.out-20261126.gz",
                "worker-a-01-7.out.1",
                "worker-b-01-8.out"
            ]
        );
    }

    #[test]
    fn a_file_may_end_without_a_line_break() {
        assert_eq!(cleaned(b"a\nb"), ["a", "b"].map(Line::from));
        assert_eq!(cleaned(b"a\n"), [Line::from("a")]);
        assert!(cleaned(b"").is_empty());
    }
}
