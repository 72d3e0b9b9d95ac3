//! The options of `cluster-logs`.

use super::super::jobs::GiveUp;
use crate::logs::Pattern;
use crate::model::Timestamp;
use crate::model::time::span;
use clap::Args;
use std::time::Duration;

/// The log that shows why no workers start.
pub(super) const MONITOR: &str = "monitor.log";
/// Maximum number of lines printed per file: for one cluster, and for all clusters.
pub(super) const OF_ONE: usize = 10_000;
pub(super) const OF_EACH: usize = 20;
/// Number of lines read of a file that is not searched on its host.
const TAIL_LINES: u32 = 1000;

/// Options of `cluster-logs`.
#[derive(Debug, Args)]
pub struct ClusterLogArguments {
    /// Name, address or id of a node, `head`, or `all` for all live nodes [default: head]
    #[arg(long, visible_alias = "host", value_name = "NODE")]
    pub(super) node: Option<String>,
    /// With --grep: search all nodes of all clusters
    #[arg(long, requires = "grep", conflicts_with_all = ["node", "follow"])]
    pub(super) all_clusters: bool,
    /// With --grep: print the last N matching lines of each file [default: 10000; with --all-clusters: 20]
    #[arg(long, short, value_name = "N", requires = "grep", conflicts_with = "follow")]
    pub(super) max_count: Option<usize>,
    /// Name of a file in the node's log directory, or a pattern with * [default: monitor.log; with --node NODE: list
    /// its files; with --node all or --all-clusters: job-driver-* and worker-*]
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<String>,
    /// Read the last N lines of each file [default: 1000; with --grep: whole files]
    #[arg(long, short = 'n', value_name = "N")]
    pub(super) lines: Option<u32>,
    /// Follow the file until ctrl-c
    #[arg(long, short)]
    pub(super) follow: bool,
    /// Only lines that match this regular expression; case-insensitive if all in lower case
    #[arg(long, short, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(super) grep: Option<Pattern>,
    /// Only lines newer than this, e.g. 10m or 2h, by their own timestamps
    #[arg(long, value_name = "DURATION", value_parser = span, conflicts_with = "follow")]
    pub(super) since: Option<Duration>,
    /// Print JSON: one object per line, or a list of files
    #[arg(long, conflicts_with = "follow")]
    pub(super) json: bool,
    /// Reconnection with `--follow`.
    #[command(flatten)]
    pub(super) give_up: GiveUp,
}

impl ClusterLogArguments {
    /// Whether all clusters are searched.
    pub(in crate::cli) const fn is_of_all(&self) -> bool {
        self.all_clusters
    }

    /// The requested file, if it is on the head.
    pub(super) fn of_head(&self) -> Option<&str> {
        let is_of_head = self.node.as_deref().is_none_or(|node| node == "head");
        let default = self.node.is_none().then_some(MONITOR);
        self.file.as_deref().or(default).filter(|file| is_of_head && !file.contains('*'))
    }

    /// The time from which lines are printed.
    pub(super) fn from(&self) -> Option<Timestamp> {
        self.since.map(|span| Timestamp::now().minus(span))
    }

    /// What a line that may be printed is called in messages.
    pub(super) const fn lines_label(&self) -> &'static str {
        if self.grep.is_some() { "matching line" } else { "line" }
    }

    /// Number of lines read of a file through the dashboard.
    pub(super) fn lines(&self) -> u32 {
        self.lines.unwrap_or(TAIL_LINES)
    }
}
