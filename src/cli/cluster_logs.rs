//! `marin-tui cluster-logs`: prints any log file of a node, or searches the files of all nodes.

mod selection;

use self::selection::{ALL, WORKERS, chosen, compressed, globs, no_file, node_file_label, with_drivers};
use super::jobs::{Following, GiveUp, LogSource, TIMED_OUT, head_alone, report_timeless};
use super::reach::{Progress, Reach};
use super::{columns, output};
use crate::app::Cluster;
use crate::logs::{Clock, Grep, LineSplitter, Pattern, Times};
use crate::model::amount::counted;
use crate::model::text::printable;
use crate::model::time::span;
use crate::model::{
    CompressedLog, FileMatches, FileSearch, FileSearchId, Line, LineMatch, LogName, Node, NodeId,
    SearchTally, SearchedNode, Text, Timestamp,
};
use crate::ray::{Client, EMPTY_OR_FAILED, LogFiles, RayError};
use crate::supervisor::{
    FileSearcher, HostAccess, LogFile, Remote, SearchProgress, Session, Start, lines_of, list_files,
    read_ends,
};
use clap::Args;
use futures_util::{StreamExt, stream};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui cluster-logs                                    monitor.log, the autoscaler's log
  marin-tui -c us-central2 cluster-logs -f -n 200           follow it
  marin-tui cluster-logs --node 10.130.0.7                  list the log files of a node
  marin-tui cluster-logs --node 10.130.0.7 --file raylet.out
  marin-tui cluster-logs --node all -g RESOURCE_EXHAUSTED   which hosts logged it
  marin-tui cluster-logs --all-clusters -g RESOURCE_EXHAUSTED --since 1h
  marin-tui cluster-logs --node all --file 'raylet*' -g 'low on memory' -n 5000

With --grep, whole files are searched on their hosts over SSH, at most 8 hosts of a cluster at a time; only the lines \
that match are sent. If the login to a host fails, and with -n, the last N lines of each file are read through \
the head's dashboard instead; stderr shows for how many files. With --all-clusters, a cluster that cannot be read is \
reported on stderr, and the others are still searched.

Exit codes: 0 the log was printed, 1 it could not be read, or with --grep: no line matches, 4 with --follow: no response from the \
cluster for --give-up-after.";

/// Options of `cluster-logs`.
#[derive(Debug, Args)]
pub struct ClusterLogArguments {
    /// Name, address or id of a node, `head`, or `all` for all live nodes [default: head]
    #[arg(long, visible_alias = "host", value_name = "NODE")]
    node: Option<String>,
    /// With --grep: search all nodes of all clusters
    #[arg(long, requires = "grep", conflicts_with_all = ["node", "follow"])]
    all_clusters: bool,
    /// With --grep: print the last N matching lines of each file [default: 10000; with --all-clusters: 20]
    #[arg(long, short, value_name = "N", requires = "grep", conflicts_with = "follow")]
    max_count: Option<usize>,
    /// Name of a file in the node's log directory, or a pattern with * [default: monitor.log; with --node NODE: list
    /// its files; with --node all or --all-clusters: job-driver-* and worker-*]
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// Read the last N lines of each file [default: 1000; with --grep: whole files]
    #[arg(long, short = 'n', value_name = "N")]
    lines: Option<u32>,
    /// Follow the file until ctrl-c
    #[arg(long, short)]
    follow: bool,
    /// Only lines that match this regular expression; case-insensitive if all in lower case
    #[arg(long, short, value_name = "PATTERN", allow_hyphen_values = true)]
    grep: Option<Pattern>,
    /// Only lines newer than this, e.g. 10m or 2h, by their own timestamps
    #[arg(long, value_name = "DURATION", value_parser = span, conflicts_with = "follow")]
    since: Option<Duration>,
    /// Print JSON: one object per line, or a list of files
    #[arg(long, conflicts_with = "follow")]
    json: bool,
    /// Reconnection with `--follow`.
    #[command(flatten)]
    give_up: GiveUp,
}

/// The log that shows why no workers start.
const MONITOR: &str = "monitor.log";
/// Number of clusters that are searched at a time.
const MAX_CONCURRENT_CLUSTERS: usize = 4;
/// Maximum number of lines printed per file: for one cluster, and for all clusters.
const OF_ONE: usize = 10_000;
const OF_EACH: usize = 20;
/// Number of lines read of a file that is not searched on its host.
const TAIL_LINES: u32 = 1000;
/// Maximum number of bytes of a matching line; longer lines are cut.
const MAX_LINE: usize = 64 << 10;

/// A node and one of its files.
type NodeFile = (NodeId, Text);

impl ClusterLogArguments {
    /// Whether all clusters are searched.
    pub(super) const fn is_of_all(&self) -> bool {
        self.all_clusters
    }

    /// The requested file, if it is on the head.
    fn of_head(&self) -> Option<&str> {
        let is_of_head = self.node.as_deref().is_none_or(|node| node == "head");
        let default = self.node.is_none().then_some(MONITOR);
        self.file.as_deref().or(default).filter(|file| is_of_head && !file.contains('*'))
    }

    /// The time from which lines are printed.
    fn from(&self) -> Option<Timestamp> {
        self.since.map(|span| Timestamp::now().minus(span))
    }

    /// What a line that may be printed is called in messages.
    const fn lines_label(&self) -> &'static str {
        if self.grep.is_some() { "matching line" } else { "line" }
    }

    /// Number of lines read of a file through the dashboard.
    fn lines(&self) -> u32 {
        self.lines.unwrap_or(TAIL_LINES)
    }
}

/// Prints the log, or lists the files.
pub(super) fn run(arguments: &ClusterLogArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        let progress = Progress::new();
        let session = match reach.open(&progress).await {
            Ok(session) => session,
            Err(problem) => {
                let file = arguments.of_head().filter(|_| !arguments.follow);
                let login = head_alone(&problem, file.is_none(), reach, &progress).await;
                let Some((file, login)) = file.zip(login) else { return Err(reach.error(&problem)) };
                let done = print_of_head(arguments, reach, login.remote(), file).await;
                login.close().await;
                return done;
            }
        };
        let done = with(arguments, reach, &session, &progress).await;
        session.close().await;
        done
    })
}

/// Prints a file of a head whose dashboard does not respond.
async fn print_of_head(
    arguments: &ClusterLogArguments,
    reach: &Reach,
    remote: Remote,
    file: &str,
) -> anyhow::Result<ExitCode> {
    let name = Text::from(file);
    if let Some(file) = CompressedLog::of(&reach.spec.name, None, &name) {
        anyhow::bail!("{}: {}", reach.spec.name, file.why_not_opened());
    }
    let (grep, from) = (arguments.grep.as_ref(), arguments.from());
    // With --since a line may have its time from a line above it that does not match.
    let words = grep.filter(|_| from.is_none()).and_then(|pattern| Grep::of(pattern).ok().flatten());
    let start = match (grep, arguments.lines) {
        (Some(_), None) => Start::Beginning,
        _ => Start::Lines(arguments.lines()),
    };
    let mut source = LogSource::on_head(reach, remote, LogFile::new(file));
    let most = arguments.max_count.unwrap_or(OF_ONE);
    let (mut last, mut more, mut timeless) = (Vec::new(), 0, 0);
    // Without its dashboard, a head does not report its time zone; Google's images use UTC.
    let mut times = Times::new(Clock::utc(Timestamp::now()));
    let show =
        |lines: &[Line]| print(&lines.iter().collect::<Vec<_>>(), None, (None, None, &name), arguments.json);
    let mut read = Ok(());
    if let Some(log) = source.open(start, words.as_ref()).await? {
        let each = log.for_lines(|mut lines| {
            lines.retain(|line| {
                let time = from.and_then(|_| times.next(line.text()));
                grep.is_none_or(|grep| grep.is_match(line.text())) && is_since(from, time, &mut timeless)
            });
            if grep.is_none() {
                return show(&lines);
            }
            last.append(&mut lines);
            let excess = last.len().saturating_sub(most);
            last.drain(..excess);
            more += excess;
            Ok(())
        });
        read = each.await;
    }
    // The matches up to a break of the connection.
    show(&last)?;
    report_earlier(file, more);
    report_timeless(timeless, arguments.lines_label());
    read?;
    Ok(if grep.is_some() && last.is_empty() && more == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reports how many matching lines of a file precede the printed ones.
fn report_earlier(label: &str, more: usize) {
    if more > 0 {
        eprintln!("{label}: {} before these; -m prints more", counted(more, "matching line"));
    }
}

/// Searches the nodes of these clusters, several clusters at a time.
pub(super) fn run_all(arguments: &ClusterLogArguments, clusters: &[Reach]) -> anyhow::Result<ExitCode> {
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
        let cluster = super::seen::read_open(reach, &session).await?;
        let nodes = chosen(&cluster, ALL).map_err(|problem| reach.error(&problem))?;
        let files = with_drivers(arguments.file.as_deref());
        let search = Search { arguments, reach, session: &session, cluster: &cluster, is_of_all: true };
        search.run(globs(&nodes, &files), progress).await
    };
    let searched = searched.await;
    session.close().await;
    searched
}

async fn with(
    arguments: &ClusterLogArguments,
    reach: &Reach,
    session: &Session,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let failed = |e: RayError| reach.error(&e.problem(Timestamp::now()));
    progress.show("reading the nodes");
    let cluster = super::seen::read_open(reach, session).await?;
    let node = arguments.node.as_deref();
    let nodes = chosen(&cluster, node.unwrap_or("head")).map_err(|problem| reach.error(&problem))?;
    let is_all = node == Some(ALL);
    let default = if is_all { Some(WORKERS) } else { node.is_none().then_some(MONITOR) };
    let Some(file) = arguments.file.as_deref().or(default) else {
        let files = session.client.log_files(nodes[0].id, "*").await.map_err(failed)?;
        return list(&files, nodes[0], arguments.json);
    };
    let is_pattern = file.contains('*');
    if let Some(file) = compressed(&cluster, nodes[0], &Text::from(file)).filter(|_| !is_all && !is_pattern) {
        anyhow::bail!("{}: {}", reach.spec.name, file.why_not_opened());
    }
    if arguments.follow {
        if is_all || is_pattern {
            anyhow::bail!("--follow takes one file: specify it with --node and --file");
        }
        return follow(arguments, reach, session, (&cluster, nodes[0], &Text::from(file))).await;
    }
    if arguments.grep.is_some() {
        let named = arguments.file.as_deref();
        let files = if is_all { with_drivers(named) } else { vec![file.to_owned()] };
        let search = Search { arguments, reach, session, cluster: &cluster, is_of_all: false };
        let searched = search.run(globs(&nodes, &files), progress).await?;
        let SearchTally { files: count, incomplete, compressed, .. } = &searched.tally;
        if !is_pattern && *count == 0 && incomplete.is_empty() && compressed.is_empty() {
            anyhow::bail!("{}: {}", reach.spec.name, no_file(&cluster, file, &nodes));
        }
        if is_all || is_pattern {
            eprintln!("{}", searched.text(arguments));
        } else if searched.lines == 0 && searched.timeless == 0 && named.is_none() {
            eprintln!("no matching lines in {file} on the head; --node all searches the logs of all nodes");
        }
        searched.report_omitted(arguments);
        return Ok(if searched.lines == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    if is_all {
        anyhow::bail!("--node all needs a pattern to search for: --grep PATTERN");
    }
    let files = if is_pattern {
        matching(&session.client, &nodes, file, &cluster, progress).await.map_err(failed)?
    } else {
        nodes.iter().map(|node| (node.id, Text::from(file))).collect()
    };
    print_ends(arguments, &session.client, &cluster, &files, progress).await.map_err(|e| e.of(failed))?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the files of a node.
fn list(files: &LogFiles, node: &Node, json: bool) -> anyhow::Result<ExitCode> {
    let all = || files.0.iter().flat_map(|(category, names)| names.iter().map(move |name| (category, name)));
    if json {
        let rows = all().map(|(category, name)| {
            let parts = LogName::parse(name.raw());
            let log = (!parts.suffix.is_empty()).then_some(parts.log);
            json!({
                "node_id": node.id.to_string(), "category": category.raw(), "file": name.raw(),
                "rotated_from": log, "compressed": parts.reader.is_some(),
            })
        });
        output::json(&rows.collect::<Vec<_>>())?;
    } else {
        let note = |name: &Text| LogName::parse(name.raw()).note();
        let has_notes = all().any(|(_, name)| note(name).is_some());
        let row = |(category, name): (&Text, &Text)| {
            let note = has_notes.then(|| note(name).unwrap_or_default());
            [category.to_string(), name.to_string()].into_iter().chain(note).collect::<Vec<String>>()
        };
        let rows: Vec<_> = all().map(row).collect();
        let header = &["CATEGORY", "FILE", "NOTE"][..2 + usize::from(has_notes)];
        columns::print(&mut output::stdout(), header, &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The files on these nodes that match the pattern, without compressed ones, which are reported on stderr.
async fn matching(
    client: &Client,
    nodes: &[&Node],
    pattern: &str,
    cluster: &Cluster,
    progress: &Progress,
) -> Result<Vec<NodeFile>, RayError> {
    let mut lists = list_files(client, nodes.iter().map(|node| (node.id, pattern)).collect());
    progress.show(format!("listing the files of {}", counted(nodes.len(), "node")));
    let (mut files, mut skipped) = (Vec::new(), Vec::new());
    while let Some((id, listed)) = lists.next().await {
        match listed {
            Ok(names) => {
                let node = nodes.iter().find(|node| node.id == id);
                for name in names {
                    match node.and_then(|node| compressed(cluster, node, &name)) {
                        Some(file) => skipped.push(file),
                        None => files.push((id, name)),
                    }
                }
            }
            Err(e) if e.is_token() => return Err(e),
            Err(e) => incomplete(&e, "list the files of", &node_file_label(cluster, id, None)),
        }
    }
    if let Some(what) = CompressedLog::skipped(&skipped, "read") {
        eprintln!("{what}");
    }
    Ok(files)
}

fn incomplete(error: &RayError, action: &str, what: &str) {
    eprintln!("incomplete: cannot {action} {what}: {error}");
}

/// Reason why a search ended early.
enum ReadError {
    Ray(RayError),
    Output(anyhow::Error),
}

impl ReadError {
    fn of(self, failed: impl Fn(RayError) -> anyhow::Error) -> anyhow::Error {
        match self {
            Self::Ray(e) => failed(e),
            Self::Output(e) => e,
        }
    }
}

/// The result of a search.
#[derive(Default)]
struct Searched {
    /// Number of matching lines.
    lines: usize,
    /// Number of nodes with matching lines.
    nodes: usize,
    /// Number of further matching lines that `--since` omits because they have no timestamp.
    timeless: usize,
    /// What was searched.
    tally: SearchTally,
}

impl Searched {
    fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.nodes += other.nodes;
        self.timeless += other.timeless;
        self.tally.add(other.tally);
    }

    /// `3 matching lines on 1 node; searched: all of 512 files`.
    fn text(&self, arguments: &ClusterLogArguments) -> String {
        let (lines, nodes) = (counted(self.lines, "matching line"), counted(self.nodes, "node"));
        format!("{lines} on {nodes}; searched: {}", self.tally.text(arguments.lines()))
    }

    /// Reports matching lines without a timestamp, and what was not searched.
    fn report_omitted(&self, arguments: &ClusterLogArguments) {
        report_timeless(self.timeless, arguments.lines_label());
        self.tally.unsearched(arguments.lines()).iter().for_each(|what| eprintln!("{what}"));
    }
}

/// A search of one cluster.
struct Search<'a> {
    arguments: &'a ClusterLogArguments,
    reach: &'a Reach,
    session: &'a Session,
    cluster: &'a Cluster,
    /// Whether it is one of several clusters.
    is_of_all: bool,
}

impl Search<'_> {
    /// Prints matching lines file by file as they are found.
    async fn run(&self, nodes: Vec<SearchedNode>, progress: &Progress) -> anyhow::Result<Searched> {
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

/// Whether to print a line with this time. Counts the lines that `--since` omits because they have none.
fn is_since(from: Option<Timestamp>, time: Option<Timestamp>, timeless: &mut usize) -> bool {
    let Some(from) = from else { return true };
    *timeless += usize::from(time.is_none());
    time.is_some_and(|time| time >= from)
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

/// Prints the last lines of these files, file by file.
async fn print_ends(
    arguments: &ClusterLogArguments,
    client: &Client,
    cluster: &Cluster,
    files: &[NodeFile],
    progress: &Progress,
) -> Result<(), ReadError> {
    let (lines, from) = (arguments.lines(), arguments.from());
    let utc_offset = if from.is_some() { client.utc_offset().await.unwrap_or_default() } else { 0 };
    let clock = Clock { near: Timestamp::now(), utc_offset };
    let mut reads = read_ends(client, files, lines);
    progress.show(format!("reading the last lines of {}", counted(files.len(), "file")));
    let (mut empty, mut unread, mut timeless) = (0, None, 0);
    while let Some((node, file, bytes)) = reads.next().await {
        let label = || node_file_label(cluster, node, Some(file));
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(e) if e.may_mean_empty() => {
                empty += 1;
                continue;
            }
            Err(e) if e.is_no_file() && files.len() == 1 => {
                let nodes: Vec<&Node> = cluster.node(&node).into_iter().collect();
                let why = no_file(cluster, file.raw(), &nodes);
                return Err(ReadError::Output(anyhow::anyhow!("{}: {why}", cluster.name())));
            }
            Err(e) if e.is_token() || files.len() == 1 => return Err(ReadError::Ray(e)),
            Err(e) => {
                incomplete(&e, "read", &label());
                unread = Some((e, 1 + unread.map_or(0, |(_, n)| n)));
                continue;
            }
        };
        let (all, _) = lines_of(&bytes, LineSplitter::MAX_LINE, lines);
        let mut times = Times::new(clock);
        let mut is_wanted = |line: &Line| {
            let time = from.and_then(|_| times.next(line.text()));
            is_since(from, time, &mut timeless)
        };
        let all: Vec<&Line> = all.iter().filter(|line| is_wanted(line)).collect();
        let head = (files.len() > 1).then(label);
        print(&all, head.as_deref(), (None, Some(node), file), arguments.json).map_err(ReadError::Output)?;
    }
    if let Some((error, unread)) = unread
        && unread == files.len()
    {
        return Err(ReadError::Ray(error));
    }
    if empty > 0 && empty == files.len() {
        eprintln!("{EMPTY_OR_FAILED}");
    }
    report_timeless(timeless, arguments.lines_label());
    Ok(())
}

/// Prints lines under the name of their file, if there are several files. As JSON: `node_id` (null while the dashboard
/// does not respond), `file`, `text`, and `cluster` if there are several.
fn print(
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

/// Prints the last lines of a file and follows it until ctrl-c, across lost connections.
async fn follow(
    arguments: &ClusterLogArguments,
    reach: &Reach,
    session: &Session,
    (cluster, node, file): (&Cluster, &Node, &Text),
) -> anyhow::Result<ExitCode> {
    // A file that cannot be read at all is an error now, not an interruption.
    match session.client.worker_log(node.id, file, 1).await {
        Err(e) if e.is_no_file() => {
            anyhow::bail!("{}: {}", reach.spec.name, no_file(cluster, file.raw(), &[node]));
        }
        first => first.map_err(|e| reach.error(&e.problem(Timestamp::now())))?,
    };
    let mut following = Following::new(reach, session, arguments.give_up);
    let grep = arguments.grep.as_ref();
    following
        .file(node, file, arguments.lines(), |lines| {
            let mut out = output::stdout();
            for line in lines.iter().filter(|line| grep.is_none_or(|grep| grep.is_match(line.text()))) {
                writeln!(out, "{}", line.text())?;
            }
            out.flush()
        })
        .await?;
    eprintln!("{}: no response; gave up", reach.spec.name);
    Ok(ExitCode::from(TIMED_OUT))
}
