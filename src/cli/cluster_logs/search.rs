//! Searches the log files of nodes for a pattern, on one cluster or on all clusters.

use super::super::jobs::report_timeless;
use super::super::reach::{Progress, Reach};
use super::super::seen;
use super::arguments::{ClusterLogArguments, OF_EACH, OF_ONE};
use super::lines::{is_since, print, report_earlier};
use super::selection::{ALL, chosen, globs, node_file_label, with_drivers};
use crate::app::Cluster;
use crate::model::amount::counted;
use crate::model::text::printable;
use crate::model::{
    FileMatches, FileSearch, FileSearchId, Line, LineMatch, SearchTally, SearchedNode, Timestamp,
};
use crate::supervisor::{FileSearcher, HostAccess, SearchProgress, Session};
use futures_util::{StreamExt, stream};
use std::collections::BTreeSet;
use std::process::ExitCode;
use tokio::sync::mpsc;

/// Number of clusters that are searched at a time.
const MAX_CONCURRENT_CLUSTERS: usize = 4;
/// Maximum number of bytes of a matching line; longer lines are cut.
const MAX_LINE: usize = 64 << 10;

/// The result of a search.
#[derive(Default)]
pub(super) struct Searched {
    /// Number of matching lines.
    pub(super) lines: usize,
    /// Number of nodes with matching lines.
    nodes: usize,
    /// Number of further matching lines that `--since` omits because they have no timestamp.
    pub(super) timeless: usize,
    /// What was searched.
    pub(super) tally: SearchTally,
}

impl Searched {
    fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.nodes += other.nodes;
        self.timeless += other.timeless;
        self.tally.add(other.tally);
    }

    /// `3 matching lines on 1 node; searched: all of 512 files`.
    pub(super) fn text(&self, arguments: &ClusterLogArguments) -> String {
        let (lines, nodes) = (counted(self.lines, "matching line"), counted(self.nodes, "node"));
        format!("{lines} on {nodes}; searched: {}", self.tally.text(arguments.lines()))
    }

    /// Reports matching lines without a timestamp, and what was not searched.
    pub(super) fn report_omitted(&self, arguments: &ClusterLogArguments) {
        report_timeless(self.timeless, arguments.lines_label());
        self.tally.unsearched(arguments.lines()).iter().for_each(|what| eprintln!("{what}"));
    }
}

/// A search of one cluster.
pub(super) struct Search<'a> {
    pub(super) arguments: &'a ClusterLogArguments,
    pub(super) reach: &'a Reach,
    pub(super) session: &'a Session,
    pub(super) cluster: &'a Cluster,
    /// Whether it is one of several clusters.
    pub(super) is_of_all: bool,
}

impl Search<'_> {
    /// Prints matching lines file by file as they are found.
    pub(super) async fn run(
        &self,
        nodes: Vec<SearchedNode>,
        progress: &Progress,
    ) -> anyhow::Result<Searched> {
        let Self { arguments, reach, session, .. } = *self;
        let Some(pattern) = &arguments.grep else { return Ok(Searched::default()) };
        let channel = session.connection().channel().await.map_err(|problem| reach.error(&problem))?;
        let (spec, options) = (&reach.spec, &reach.options);
        let remote = channel.remote.filter(|_| arguments.lines.is_none());
        let hosts = remote.map(|remote| HostAccess { spec, options, remote, login: channel.login });
        progress.show(format!("searching the logs of {}", counted(nodes.len(), "node")));
        let is_one = !self.is_of_all && nodes.len() == 1 && nodes[0].globs.iter().all(|g| !g.contains('*'));
        let most = arguments.max_count.unwrap_or(if self.is_of_all { OF_EACH } else { OF_ONE });
        let lines = arguments.lines();
        let wanted =
            FileSearch { id: FileSearchId(0), pattern: pattern.text().to_owned(), nodes, lines, most };
        let (cluster, client) = (&spec.name, &channel.client);
        let searcher = FileSearcher { cluster, client, hosts, longest: MAX_LINE };
        let (found, mut matches_of_files) = mpsc::unbounded_channel();
        let (mut searched, mut hosts, from) = (Searched::default(), BTreeSet::new(), arguments.from());
        let print_all = async {
            while let Some(progress) = matches_of_files.recv().await {
                let SearchProgress::Matches(matches) = progress else { continue };
                let matches = since(matches, from, &mut searched.timeless);
                if !matches.lines.is_empty() {
                    searched.lines += matches.lines.len() + matches.more;
                    hosts.insert(matches.node);
                }
                self.print(&matches, is_one)?;
            }
            anyhow::Ok(())
        };
        let search = async {
            let tally = searcher.search(&wanted, pattern, found).await;
            tally.map_err(|e| reach.error(&e.problem(Timestamp::now())))
        };
        let (tally, ()) = tokio::try_join!(search, print_all)?;
        for what in &tally.incomplete {
            eprintln!("incomplete: {}", printable(what));
        }
        Ok(Searched { nodes: hosts.len(), tally, ..searched })
    }

    fn print(&self, matches: &FileMatches, is_one: bool) -> anyhow::Result<()> {
        let FileMatches { node, name, lines, more, .. } = matches;
        let cluster = self.is_of_all.then_some(self.reach.spec.name.as_str());
        let label = node_file_label(self.cluster, *node, Some(name));
        let label = cluster.map_or_else(|| label.clone(), |cluster| format!("{cluster} {label}"));
        let texts: Vec<&Line> = lines.iter().map(|found| &found.line).collect();
        let head = (!is_one).then_some(label.as_str());
        print(&texts, head, (cluster, Some(*node), name), self.arguments.json)?;
        if lines.is_empty() && *more > 0 && self.arguments.since.is_some() {
            let earlier = counted(*more, "earlier matching line");
            eprintln!("{label}: {earlier} not checked against --since; -m reads more");
        } else {
            report_earlier(&label, *more);
        }
        Ok(())
    }
}

/// The lines from this time on. All lines before an older one are older as well; if no line has a time, those before
/// them may be newer.
fn since(mut matches: FileMatches, from: Option<Timestamp>, timeless: &mut usize) -> FileMatches {
    let is_older = |found: &LineMatch| from.zip(found.time).is_some_and(|(from, time)| time < from);
    if matches.lines.iter().any(is_older) {
        matches.more = 0;
    }
    matches.lines.retain(|found| is_since(from, found.time, timeless));
    matches
}

/// Searches the nodes of these clusters, several clusters at a time.
pub(in crate::cli) fn run_all(
    arguments: &ClusterLogArguments,
    clusters: &[Reach],
) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        let progress = Progress::new();
        progress.show(format!("searching {}", counted(clusters.len(), "cluster")));
        let searches = clusters.iter().map(|reach| search_cluster(arguments, reach, &progress));
        let mut searches =
            stream::iter(searches.collect::<Vec<_>>()).buffer_unordered(MAX_CONCURRENT_CLUSTERS);
        let (mut all, mut read) = (Searched::default(), 0);
        while let Some(searched) = searches.next().await {
            match searched {
                Ok(searched) => {
                    all.add(searched);
                    read += 1;
                }
                // The reader has closed the output.
                Err(error) if error.is::<std::io::Error>() => return Err(error),
                Err(error) => eprintln!("incomplete: {error:#}"),
            }
        }
        eprintln!("{} in {} of {}", all.text(arguments), read, counted(clusters.len(), "cluster"));
        all.report_omitted(arguments);
        Ok(if all.lines == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    })
}

/// Searches all nodes of one of several clusters.
async fn search_cluster(
    arguments: &ClusterLogArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<Searched> {
    let session = reach.connect(progress).await?;
    let searched = async {
        let cluster = seen::read_open(reach, &session).await?;
        let nodes = chosen(&cluster, ALL).map_err(|problem| reach.error(&problem))?;
        let files = with_drivers(arguments.file.as_deref());
        let search = Search { arguments, reach, session: &session, cluster: &cluster, is_of_all: true };
        search.run(globs(&nodes, &files), progress).await
    };
    let searched = searched.await;
    session.close().await;
    searched
}
