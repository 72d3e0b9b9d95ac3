//! Searches many log files of a cluster, at most eight hosts or files at a time: whole files on their hosts, or, if a
//! host cannot be logged in to, the last lines of each file through the head's dashboard. Shared by `cluster-logs` and
//! the console's search of all clusters.

use super::Options;
use super::host_search::{HostAccess, HostFile, Wanted};
use super::log_access::LogAccess;
use super::out::UpdateSender;
use crate::logs::{Clock, Grep, LineSplitter, Pattern, Times};
use crate::model::{
    ClusterEvent, ClusterName, ClusterSpec, CompressedLog, FileMatches, FileSearch, FileSearchEvent,
    FileSearchId, Line, LineMatch, LogMatch, NodeId, SearchTally, SearchedNode, Text, Timestamp,
};
use crate::ray::{AT_ONCE, Client, EMPTY_OR_FAILED, LogFiles, RayError};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Number of lines above a match that are sent with it.
const LINES_ABOVE: usize = 16;
/// Interval between reports of matches.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Lists the files of these nodes that match a glob, without directories, in the order of the nodes.
pub fn list_files<'a>(
    client: &'a Client,
    globs: Vec<(NodeId, &'a str)>,
) -> BoxStream<'a, (NodeId, Result<Vec<Text>, RayError>)> {
    let lists = globs.into_iter().map(move |(node, glob)| async move {
        let listed = client.log_files(node, glob).await;
        let names = |files: LogFiles| files.0.into_iter().flat_map(|(_, names)| names);
        // Ray appends a `/` to the names of directories.
        let is_file = |name: &Text| !name.raw().ends_with('/');
        (node, listed.map(|files| names(files).filter(is_file).collect()))
    });
    stream::iter(lists.collect::<Vec<_>>()).buffered(AT_ONCE).boxed()
}

/// Reads the last lines of these files, in their order. An error may mean that the file is empty
/// ([`RayError::may_mean_empty`]).
pub fn read_ends<'a>(
    client: &'a Client,
    files: &'a [(NodeId, Text)],
    lines: u32,
) -> BoxStream<'a, (NodeId, &'a Text, Result<Bytes, RayError>)> {
    let reads = files
        .iter()
        .map(move |(node, name)| async move { (*node, name, client.read_log(*node, name, lines).await) });
    stream::iter(reads.collect::<Vec<_>>()).buffered(AT_ONCE).boxed()
}

/// The lines of the end of a file, each cut after `longest` bytes, and whether the file may have more than `requested`
/// lines.
pub fn lines_of(bytes: &[u8], longest: usize, requested: u32) -> (Vec<Line>, bool) {
    let mut splitter = LineSplitter::new(longest);
    let mut all = splitter.push(bytes);
    all.extend(splitter.finish());
    let is_full = bytes.split(|b| *b == b'\n').count() > requested.max(1) as usize;
    (all, is_full)
}

/// Runs a search and reports its matches while it continues.
pub async fn search_files(
    access: Option<LogAccess>,
    (spec, options): (&ClusterSpec, &Options),
    request: FileSearch,
    out: UpdateSender,
) {
    let last = match (access, Pattern::parse(&request.pattern)) {
        (None, _) => FileSearchEvent::Failed("the cluster is not connected".to_owned()),
        (_, Err(why)) => FileSearchEvent::Failed(why.to_string()),
        (Some(access), Ok(pattern)) => {
            let hosts =
                access.remote.map(|remote| HostAccess { spec, options, remote, login: access.login.clone() });
            let (client, longest) = (&access.client, LineSplitter::ON_A_SCREEN);
            let searcher = FileSearcher { cluster: &spec.name, client, hosts, longest };
            let (found, reports) = mpsc::unbounded_channel();
            let search = searcher.search(&request, &pattern, found);
            match tokio::join!(search, report(reports, request.id, &out)).0 {
                Ok(tally) => FileSearchEvent::Done(tally),
                Err(why) => FileSearchEvent::Failed(why.to_string()),
            }
        }
    };
    out.send(ClusterEvent::FileSearch(request.id, last)).await;
}

/// What a search reports while it continues.
#[derive(Debug)]
pub enum SearchProgress {
    /// The matching lines of a file.
    Matches(FileMatches),
    /// One more node is searched.
    NodeSearched,
}

/// Reports matches, several files at a time, and how many nodes are searched.
async fn report(mut found: mpsc::UnboundedReceiver<SearchProgress>, id: FileSearchId, out: &UpdateSender) {
    let (mut reports, mut nodes) = (Vec::new(), 0);
    while found.recv_many(&mut reports, usize::MAX).await > 0 {
        let before = nodes;
        let mut files = Vec::new();
        for report in reports.drain(..) {
            match report {
                SearchProgress::Matches(matches) => files.push(matches),
                SearchProgress::NodeSearched => nodes += 1,
            }
        }
        let found = (!files.is_empty()).then_some(FileSearchEvent::Found(files));
        let progress = (nodes > before).then_some(FileSearchEvent::NodesSearched(nodes));
        for event in found.into_iter().chain(progress) {
            out.send(ClusterEvent::FileSearch(id, event)).await;
        }
        sleep(REPORT_INTERVAL).await;
    }
}

/// Searches the files of a cluster.
pub struct FileSearcher<'a> {
    /// The cluster, for suggested commands.
    pub cluster: &'a ClusterName,
    /// Reads the ends of files through the head's dashboard.
    pub client: &'a Client,
    /// Searches whole files on their hosts; `None` to search only the ends.
    pub hosts: Option<HostAccess<'a>>,
    /// Maximum length of a line in bytes; longer lines are cut.
    pub longest: usize,
}

impl FileSearcher<'_> {
    /// Searches the files of these nodes on their hosts, as the hosts respond, and then the last lines of the files
    /// that could not be searched there. Files with matching lines are reported as they are found. Compressed files
    /// are skipped.
    ///
    /// # Errors
    ///
    /// The token was refused; matches reported before remain valid.
    pub async fn search(
        &self,
        request: &FileSearch,
        pattern: &Pattern,
        progress: mpsc::UnboundedSender<SearchProgress>,
    ) -> Result<SearchTally, RayError> {
        let zone = self.client.utc_offset().await.unwrap_or_default();
        let clock = Clock { near: Timestamp::now(), utc_offset: zone };
        let tally = SearchTally::default();
        let mut search = RunningSearch { searcher: self, request, pattern, clock, progress, tally };
        let Unsearched { nodes, mut files } = search.search_hosts().await;
        files.extend(search.list_files(&nodes).await?);
        search.search_ends(&nodes, &files).await?;
        Ok(search.tally)
    }
}

/// A search and what it has covered so far.
struct RunningSearch<'a> {
    searcher: &'a FileSearcher<'a>,
    request: &'a FileSearch,
    pattern: &'a Pattern,
    clock: Clock,
    progress: mpsc::UnboundedSender<SearchProgress>,
    tally: SearchTally,
}

/// What could not be searched on its host.
struct Unsearched<'a> {
    /// Nodes of which no file was searched.
    nodes: Vec<&'a SearchedNode>,
    /// Files of the other nodes.
    files: Vec<(NodeId, Text)>,
}

impl<'a> RunningSearch<'a> {
    /// Searches the files on their hosts, if that is possible for this cluster and this pattern.
    async fn search_hosts(&mut self) -> Unsearched<'a> {
        let all = Unsearched { nodes: self.request.nodes.iter().collect(), files: Vec::new() };
        match (&self.searcher.hosts, Grep::of(self.pattern)) {
            (None, _) | (_, Ok(None)) => all,
            (_, Err(why)) => {
                self.tally.ends.push(why.to_string());
                all
            }
            (Some(hosts), Ok(Some(words))) => self.search_with(hosts, &words).await,
        }
    }

    /// Searches the files of all nodes on their hosts, as the hosts respond.
    async fn search_with(&mut self, hosts: &HostAccess<'_>, grep: &Grep) -> Unsearched<'a> {
        let (request, longest) = (self.request, self.searcher.longest);
        let wanted = Wanted { pattern: self.pattern, grep, most: request.most, longest };
        let mut unsearched = Unsearched { nodes: Vec::new(), files: Vec::new() };
        let logins = Logins::default();
        let searches = request.nodes.iter().map(|node| logins.search(hosts, node, wanted));
        let mut searches = stream::iter(searches.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        while let Some((node, searched)) = searches.next().await {
            match searched {
                Err(why) => {
                    self.tally.ends.push(format!("{}: {why}", node.host.internal));
                    unsearched.nodes.push(node);
                }
                Ok(files) => {
                    self.report_nodes(1);
                    for HostFile { name, found } in files {
                        if self.skips(node, &name) {
                            continue;
                        }
                        match found {
                            Ok(found) => self.take_searched(node.node, name, found),
                            Err(why) => {
                                self.tally.ends.push(format!("{} {name}: {why}", node.host.internal));
                                unsearched.files.push((node.node, name));
                            }
                        }
                    }
                }
            }
        }
        unsearched
    }

    /// Whether the file is compressed; if so, records that it is not searched.
    fn skips(&mut self, node: &SearchedNode, name: &Text) -> bool {
        let host = (!node.is_head).then_some(&node.host.internal);
        let compressed = CompressedLog::of(self.searcher.cluster, host, name);
        let is_skipped = compressed.is_some();
        self.tally.compressed.extend(compressed);
        is_skipped
    }

    /// Counts a file that was searched on its host, and reports the matches.
    fn take_searched(&mut self, node: NodeId, name: Text, (matches, more): (Vec<LogMatch>, usize)) {
        self.tally.files += 1;
        self.tally.whole += 1;
        let lines = matches.into_iter().map(|found| on_host(found, self.clock)).collect();
        self.report(FileMatches { node, name, lines, more, is_whole: true });
    }

    /// Lists the files of these nodes through the head's dashboard.
    ///
    /// # Errors
    ///
    /// The token was refused.
    async fn list_files(&mut self, nodes: &[&SearchedNode]) -> Result<Vec<(NodeId, Text)>, RayError> {
        let globs = nodes.iter().flat_map(|node| node.globs.iter().map(|glob| (node.node, glob.as_str())));
        let mut lists = list_files(self.searcher.client, globs.collect());
        let mut files = Vec::new();
        while let Some((node, listed)) = lists.next().await {
            match listed {
                Ok(names) => {
                    let searched = nodes.iter().find(|searched| searched.node == node);
                    let is_text = |name: &Text| !searched.is_some_and(|searched| self.skips(searched, name));
                    files.extend(names.into_iter().filter(is_text).map(|name| (node, name)));
                }
                Err(e) if e.is_token() => return Err(e),
                Err(e) => {
                    let address = self.address(node);
                    self.tally.incomplete.push(format!("cannot list the files of {address}: {e}"));
                }
            }
        }
        Ok(files)
    }

    /// Searches the last lines of these files, and reports when each of these nodes is searched.
    ///
    /// # Errors
    ///
    /// The token was refused.
    async fn search_ends(
        &mut self,
        nodes: &[&SearchedNode],
        files: &[(NodeId, Text)],
    ) -> Result<(), RayError> {
        let mut empty = 0;
        let mut reads = read_ends(self.searcher.client, files, self.request.lines);
        // The files of a node are read one after another: those before the current node are done.
        let mut remaining: Vec<NodeId> = nodes.iter().map(|node| node.node).collect();
        while let Some((node, name, bytes)) = reads.next().await {
            if let Some(current) = remaining.iter().position(|remaining| *remaining == node) {
                remaining.drain(..current);
                self.report_nodes(current);
            }
            match bytes {
                Ok(bytes) => self.take_end(node, name, &bytes),
                Err(e) if e.may_mean_empty() => (self.tally.files, empty) = (self.tally.files + 1, empty + 1),
                Err(e) if e.is_token() => return Err(e),
                Err(e) => {
                    let address = self.address(node);
                    self.tally.incomplete.push(format!("cannot read {address} {name}: {e}"));
                }
            }
        }
        self.report_nodes(remaining.len());
        if empty > 0 && empty == self.tally.files {
            self.tally.incomplete.push(EMPTY_OR_FAILED.to_owned());
        }
        Ok(())
    }

    /// Counts a file whose last lines were read, and reports the matches in them.
    fn take_end(&mut self, node: NodeId, name: &Text, bytes: &[u8]) {
        let (lines, is_full) = lines_of(bytes, self.searcher.longest, self.request.lines);
        let (lines, more) = matching(&lines, self.pattern, self.clock, self.request.most);
        self.tally.files += 1;
        self.tally.full += usize::from(is_full);
        self.report(FileMatches { node, name: name.clone(), lines, more, is_whole: !is_full });
    }

    /// Reports the matches of a file, if it has any.
    fn report(&self, matches: FileMatches) {
        if !matches.lines.is_empty() {
            self.send(SearchProgress::Matches(matches));
        }
    }

    /// Reports that so many more nodes are searched.
    fn report_nodes(&self, count: usize) {
        for _ in 0..count {
            self.send(SearchProgress::NodeSearched);
        }
    }

    fn send(&self, progress: SearchProgress) {
        // A receiver that is gone also drops the search.
        drop(self.progress.send(progress));
    }

    /// The address of a node, for messages.
    fn address(&self, node: NodeId) -> String {
        let known = self.request.nodes.iter().find(|known| known.node == node);
        known.map_or_else(|| node.to_string(), |known| known.host.internal.to_string())
    }
}

/// The results of logins to hosts: if none of the first succeeds, waiting for the others would be futile.
#[derive(Default)]
struct Logins {
    failed: AtomicUsize,
    is_any_open: AtomicBool,
}

impl Logins {
    async fn search<'n>(
        &self,
        hosts: &HostAccess<'_>,
        node: &'n SearchedNode,
        wanted: Wanted<'_>,
    ) -> (&'n SearchedNode, Result<Vec<HostFile>, String>) {
        if !node.is_head
            && !self.is_any_open.load(Ordering::Relaxed)
            && self.failed.load(Ordering::Relaxed) >= AT_ONCE
        {
            return (node, Err("not tried, because no login to other hosts succeeded".to_owned()));
        }
        let globs: Vec<&str> = node.globs.iter().map(String::as_str).collect();
        let searched = hosts.search((!node.is_head).then_some(&node.host), &globs, wanted).await;
        match &searched {
            _ if node.is_head => {}
            Ok(_) => self.is_any_open.store(true, Ordering::Relaxed),
            Err(_) => _ = self.failed.fetch_add(1, Ordering::Relaxed),
        }
        (node, searched)
    }
}

/// A match found on its host. The lines around it were not sent, so only its own text can give its time.
fn on_host(found: LogMatch, clock: Clock) -> LineMatch {
    let time = Times::new(clock).next(found.line.text());
    LineMatch { time, line: found.line, above: Vec::new(), at: found.at }
}

/// The last matching lines, and the number of matching lines before them.
fn matching(lines: &[Line], pattern: &Pattern, clock: Clock, most: usize) -> (Vec<LineMatch>, usize) {
    let mut times = Times::new(clock);
    let dated: Vec<Option<Timestamp>> = lines.iter().map(|line| times.next(line.text())).collect();
    let all: Vec<usize> = (0..lines.len()).filter(|at| pattern.is_match(lines[*at].text())).collect();
    let more = all.len().saturating_sub(most);
    let last = all[more..].iter().map(|at| LineMatch {
        line: lines[*at].clone(),
        time: dated[*at],
        at: None,
        above: lines[at.saturating_sub(LINES_ABOVE)..*at].iter().map(|line| line.text().to_owned()).collect(),
    });
    (last.collect(), more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_matches_are_sent_with_the_lines_above_them() {
        let text = b"2026-11-23 09:00:01 INFO a\nboom 1\n2026-11-23 09:00:02 INFO b\nboom 2\nboom 3";
        let (lines, is_full) = lines_of(text, LineSplitter::ON_A_SCREEN, 5);
        assert_eq!((lines.len(), is_full), (5, false));
        assert!(lines_of(text, LineSplitter::ON_A_SCREEN, 4).1, "it may have more");
        let clock = Clock::utc(Timestamp::from_millis(1_795_424_400_000));
        let (found, more) = matching(&lines, &Pattern::parse("boom").unwrap(), clock, 2);
        let texts: Vec<&str> = found.iter().map(|found| found.line.text()).collect();
        assert_eq!((texts, more), (vec!["boom 2", "boom 3"], 1));
        assert_eq!(found[0].above.last().unwrap(), "2026-11-23 09:00:02 INFO b");
        assert_eq!(
            found[1].time,
            Some(Timestamp::from_millis(1_795_424_402_000)),
            "the time of the line above"
        );
    }
}
