//! Searches many log files of a cluster, at most eight hosts or files at a time: whole files on their hosts, or, if a
//! host cannot be logged in to, the last lines of each file through the head's dashboard. Shared by `cluster-logs` and
//! the console's search of all clusters.

use super::Options;
use super::follow::LogAccess;
use super::host_search::{HostAccess, HostFile, Wanted};
use super::out::UpdateSender;
use crate::logs::{Clock, Grep, LineSplitter, Pattern, Times};
use crate::model::{
    ClusterEvent, ClusterSpec, FileMatches, FileSearch, FileSearchEvent, FileSearchId, Line, LineMatch,
    LogMatch, NodeId, SearchTally, SearchedNode, Text, Timestamp,
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
            let searcher = FileSearcher { client: &access.client, hosts, longest: LineSplitter::ON_A_SCREEN };
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
    /// Reads the ends of files through the head's dashboard.
    pub client: &'a Client,
    /// Searches whole files on their hosts; `None` to search only the ends.
    pub hosts: Option<HostAccess<'a>>,
    /// Maximum length of a line in bytes; longer lines are cut.
    pub longest: usize,
}

impl FileSearcher<'_> {
    /// Searches the files of these nodes on their hosts, as the hosts respond, and then the last lines of the files
    /// that could not be searched there. Files with matching lines are reported as they are found.
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
        // A receiver that is gone also drops the search.
        let send = |matches| drop(progress.send(SearchProgress::Matches(matches)));
        let node_searched = |_: NodeId| drop(progress.send(SearchProgress::NodeSearched));
        let mut tally = SearchTally::default();
        let zone = self.client.utc_offset().await.unwrap_or_default();
        let clock = Clock { near: Timestamp::now(), utc_offset: zone };
        // Nodes, and files of other nodes, whose ends are still to be read.
        let (mut nodes, mut files): (Vec<&SearchedNode>, Vec<(NodeId, Text)>) = Default::default();
        match (&self.hosts, Grep::of(pattern)) {
            (None, _) | (_, Ok(None)) => nodes.extend(&request.nodes),
            (_, Err(why)) => {
                tally.ends.push(why.to_string());
                nodes.extend(&request.nodes);
            }
            (Some(hosts), Ok(Some(words))) => {
                let wanted = Wanted { pattern, grep: &words, most: request.most, longest: self.longest };
                let logins = Logins::default();
                let searches = request.nodes.iter().map(|node| logins.search(hosts, node, wanted));
                let mut searches = stream::iter(searches.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
                while let Some((node, searched)) = searches.next().await {
                    match searched {
                        Err(why) => {
                            tally.ends.push(format!("{}: {why}", node.host.internal));
                            nodes.push(node);
                        }
                        Ok(of_node) => {
                            node_searched(node.node);
                            for HostFile { name, found: matches } in of_node {
                                match matches {
                                    Err(why) => {
                                        tally.ends.push(format!("{} {name}: {why}", node.host.internal));
                                        files.push((node.node, name));
                                    }
                                    Ok((matches, more)) => {
                                        (tally.files, tally.whole) = (tally.files + 1, tally.whole + 1);
                                        if !matches.is_empty() {
                                            let lines = matches.into_iter().map(|m| on_host(m, clock));
                                            let (node, lines) = (node.node, lines.collect());
                                            send(FileMatches { node, name, lines, more, is_whole: true });
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        let address = |node: NodeId| {
            let known = request.nodes.iter().find(|known| known.node == node);
            known.map_or_else(|| node.to_string(), |known| known.host.internal.to_string())
        };
        let globs = nodes.iter().flat_map(|node| node.globs.iter().map(|glob| (node.node, glob.as_str())));
        let mut lists = list_files(self.client, globs.collect());
        while let Some((node, listed)) = lists.next().await {
            match listed {
                Ok(names) => files.extend(names.into_iter().map(|name| (node, name))),
                Err(e) if e.is_token() => return Err(e),
                Err(e) => tally.incomplete.push(format!("cannot list the files of {}: {e}", address(node))),
            }
        }
        let mut empty = 0;
        let mut reads = read_ends(self.client, &files, request.lines);
        // The files of a node are read one after another: those before the current node are done.
        let mut remaining: Vec<NodeId> = nodes.iter().map(|node| node.node).collect();
        while let Some((node, name, bytes)) = reads.next().await {
            if let Some(current) = remaining.iter().position(|remaining| *remaining == node) {
                remaining.drain(..current).for_each(node_searched);
            }
            match bytes {
                Ok(bytes) => {
                    let (lines, is_full) = lines_of(&bytes, self.longest, request.lines);
                    let (lines, more) = matching(&lines, pattern, clock, request.most);
                    (tally.files, tally.full) = (tally.files + 1, tally.full + usize::from(is_full));
                    if !lines.is_empty() {
                        send(FileMatches { node, name: name.clone(), lines, more, is_whole: !is_full });
                    }
                }
                Err(e) if e.may_mean_empty() => (tally.files, empty) = (tally.files + 1, empty + 1),
                Err(e) if e.is_token() => return Err(e),
                Err(e) => tally.incomplete.push(format!("cannot read {} {name}: {e}", address(node))),
            }
        }
        remaining.into_iter().for_each(node_searched);
        if empty > 0 && empty == tally.files {
            tally.incomplete.push(EMPTY_OR_FAILED.to_owned());
        }
        Ok(tally)
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
