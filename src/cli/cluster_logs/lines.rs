//! Prints lines of log files, and decides which lines `--since` omits.

use super::super::output;
use crate::model::amount::counted;
use crate::model::{Line, NodeId, Text, Timestamp};
use serde_json::json;
use std::io::Write;

/// Prints lines under the name of their file, if there are several files. As JSON: `node_id` (null while the dashboard
/// does not respond), `file`, `text`, and `cluster` if there are several.
pub(super) fn print(
    lines: &[&Line],
    head: Option<&str>,
    (cluster, node, file): (Option<&str>, Option<NodeId>, &Text),
    json: bool,
) -> anyhow::Result<()> {
    if json {
        let node = node.map(|node| node.to_string());
        let row = |line: &&Line| {
            let mut row = json!({"node_id": node, "file": file.raw(), "text": line.text()});
            if let Some(cluster) = cluster {
                row["cluster"] = cluster.into();
            }
            row
        };
        return lines.iter().try_for_each(|line| output::json_line(&row(line)));
    }
    let mut out = output::stdout();
    if let Some(head) = head.filter(|_| !lines.is_empty()) {
        writeln!(out, "==> {head} <==")?;
    }
    for line in lines {
        writeln!(out, "{}", line.text())?;
    }
    Ok(out.flush()?)
}

/// Reports how many matching lines of a file precede the printed ones.
pub(super) fn report_earlier(label: &str, more: usize) {
    if more > 0 {
        eprintln!("{label}: {} before these; -m prints more", counted(more, "matching line"));
    }
}

/// Whether to print a line with this time. Counts the lines that `--since` omits because they have none.
pub(super) fn is_since(from: Option<Timestamp>, time: Option<Timestamp>, timeless: &mut usize) -> bool {
    let Some(from) = from else { return true };
    *timeless += usize::from(time.is_none());
    time.is_some_and(|time| time >= from)
}
