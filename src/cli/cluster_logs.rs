//! `marin-tui cluster-logs`: any log file of a node, or a pattern in the files of all nodes.

use super::jobs::{Following, GiveUp, TIMED_OUT};
use super::reach::{Progress, Reach};
use super::{columns, output};
use crate::app::Cluster;
use crate::config::nearest;
use crate::logs::{LineSplitter, Pattern};
use crate::model::amount::counted;
use crate::model::{Fix, Hint, Line, Node, NodeId, Problem, ProblemKind, Target, Text, Timestamp};
use crate::ray::{Client, EMPTY_OR_FAILED, LogFiles, RayError};
use crate::supervisor::{Session, lines_of, list_files, read_ends};
use clap::Args;
use futures_util::{StreamExt, stream};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui cluster-logs                                    the end of the autoscaler's monitor.log
  marin-tui -c us-central2 cluster-logs -f -n 200           follow it
  marin-tui cluster-logs --node 10.130.0.7                  list the log files of a node
  marin-tui cluster-logs --node 10.130.0.7 --file raylet.out
  marin-tui cluster-logs --node all -g RESOURCE_EXHAUSTED   which hosts logged it
  marin-tui cluster-logs --all-clusters -g RESOURCE_EXHAUSTED
  marin-tui cluster-logs --node all --file 'raylet*' -g 'low on memory' -n 5000

Files are read through the head's dashboard, the last N lines of each, at most 8 files at a time. Earlier lines are \
not searched. With --all-clusters, a cluster that cannot be read is reported on stderr, and the others are still \
searched.

Exit codes: 0 the log was printed, 1 it could not be read, or with --grep: no line matches, 4 with --follow: no response from the \
cluster for --give-up-after.";

/// Options of `cluster-logs`.
#[derive(Debug, Args)]
pub struct ClusterLogArguments {
    /// Name, address or id of a node, `head`, or `all` for all live nodes [default: head]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// With --grep: search all nodes of all clusters
    #[arg(long, requires = "grep", conflicts_with_all = ["node", "follow"])]
    all_clusters: bool,
    /// Print at most N lines from each file [default with --all-clusters: 20]
    #[arg(long, short, value_name = "N", conflicts_with = "follow")]
    max_count: Option<usize>,
    /// Name of a file in the node's log directory, or a pattern with * [default: monitor.log; with --node NODE: list
    /// its files; with --node all or --all-clusters: worker-*]
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// Read the last N lines of each file
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000)]
    lines: u32,
    /// Follow the file until ctrl-c
    #[arg(long, short)]
    follow: bool,
    /// Only lines that match this regular expression
    #[arg(long, short, value_name = "PATTERN", allow_hyphen_values = true)]
    grep: Option<Pattern>,
    /// Print JSON: one object per line, or a list of files
    #[arg(long, conflicts_with = "follow")]
    json: bool,
    /// Reconnection with `--follow`.
    #[command(flatten)]
    give_up: GiveUp,
}

/// The word for all nodes.
const ALL: &str = "all";
/// The log that tells why no workers start.
const MONITOR: &str = "monitor.log";
/// What is searched on all nodes.
const WORKERS: &str = "worker-*";
/// Clusters that are searched at a time.
const CLUSTERS: usize = 4;
/// Lines of each file that a search over all clusters prints.
const OF_EACH: usize = 20;

/// A node, and a file of it.
type Place = (NodeId, Text);

impl ClusterLogArguments {
    /// Whether all clusters are searched.
    pub(super) const fn is_of_all(&self) -> bool {
        self.all_clusters
    }
}

/// Prints the log, or lists the files.
pub(super) fn run(arguments: &ClusterLogArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        let progress = Progress::new();
        let session = reach.connect(&progress).await?;
        let done = with(arguments, reach, &session, &progress).await;
        session.close().await;
        done
    })
}

/// Searches the nodes of these clusters, some clusters at a time.
pub(super) fn run_all(arguments: &ClusterLogArguments, clusters: &[Reach]) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        let progress = Progress::new();
        progress.tell(format!("searching {}", counted(clusters.len(), "cluster")));
        let searches = clusters.iter().map(|reach| search_cluster(arguments, reach, &progress));
        let mut searches = stream::iter(searches.collect::<Vec<_>>()).buffer_unordered(CLUSTERS);
        let (mut all, mut read) = (Searched::default(), 0);
        while let Some(searched) = searches.next().await {
            match searched {
                Ok(searched) => {
                    all.add(&searched);
                    read += 1;
                }
                // Nobody reads what is printed.
                Err(error) if error.is::<std::io::Error>() => return Err(error),
                Err(error) => eprintln!("incomplete: {error:#}"),
            }
        }
        eprintln!("{} in {} of {}", all.words(), read, counted(clusters.len(), "cluster"));
        all.tell_unsearched(arguments.lines);
        Ok(if all.lines == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    })
}

/// Searches all nodes of one cluster of several.
async fn search_cluster(
    arguments: &ClusterLogArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<Searched> {
    let session = reach.connect(progress).await?;
    let searched = async {
        let cluster = super::seen::read_open(reach, &session).await?;
        let failed = |e: RayError| reach.error(&e.problem(Timestamp::now()));
        let nodes = chosen(&cluster, ALL).map_err(|problem| reach.error(&problem))?;
        let file = arguments.file.as_deref().unwrap_or(WORKERS);
        let places = matching(&session.client, &nodes, file, &cluster, progress).await.map_err(failed)?;
        let name = Some(reach.spec.name.as_str());
        let searched = search(arguments, &session.client, (&cluster, name), &places, progress).await;
        searched.map_err(|e| e.of(failed))
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
    progress.tell("reading the nodes");
    let cluster = super::seen::read_open(reach, session).await?;
    let asked = arguments.node.as_deref();
    let nodes = chosen(&cluster, asked.unwrap_or("head")).map_err(|problem| reach.error(&problem))?;
    let is_all = asked == Some(ALL);
    let default = if is_all { Some(WORKERS) } else { asked.is_none().then_some(MONITOR) };
    let Some(file) = arguments.file.as_deref().or(default) else {
        let files = session.client.log_files(nodes[0].id, "*").await.map_err(failed)?;
        return list(&files, nodes[0], arguments.json);
    };
    let is_pattern = file.contains('*');
    if arguments.follow {
        if is_all || is_pattern {
            anyhow::bail!("--follow takes one file: give it with --node and --file");
        }
        return follow(arguments, reach, session, (nodes[0], &Text::from(file))).await;
    }
    if is_all && arguments.grep.is_none() {
        anyhow::bail!("--node all needs a pattern to search for: --grep PATTERN");
    }
    let places = if is_pattern {
        matching(&session.client, &nodes, file, &cluster, progress).await.map_err(failed)?
    } else {
        nodes.iter().map(|node| (node.id, Text::from(file))).collect()
    };
    let searched = search(arguments, &session.client, (&cluster, None), &places, progress).await;
    let searched = searched.map_err(|e| e.of(failed))?;
    if arguments.grep.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    if places.len() != 1 {
        eprintln!("{}", searched.words());
    }
    searched.tell_unsearched(arguments.lines);
    Ok(if searched.lines == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The living nodes that the word means.
fn chosen<'c>(cluster: &'c Cluster, word: &str) -> Result<Vec<&'c Node>, Problem> {
    let alive = || cluster.snapshot.nodes.iter().filter(|node| node.state.is_alive());
    let is_it = |node: &&Node| {
        word == cluster.node_name(node).raw()
            || word == node.address.raw()
            || (word.len() >= 8 && node.id.to_string().starts_with(word))
            || (word == "head" && node.is_head)
    };
    let found: Vec<&Node> =
        if word == ALL { alive().collect() } else { alive().filter(is_it).take(1).collect() };
    if !found.is_empty() {
        return Ok(found);
    }
    let dead = cluster.snapshot.nodes.iter().find(|node| is_it(node));
    let list = Target::of(cluster.name()).line("list-nodes");
    let list = Hint::from(Fix::command("list the nodes that are alive", list));
    let now = Timestamp::now();
    let Some(dead) = dead else {
        let names: Vec<String> = alive().map(|node| cluster.node_name(node).to_string()).collect();
        let like = nearest(word, names.iter().map(String::as_str));
        let hint = like.map_or(list.clone(), |like| Hint::from(format!("did you mean `{like}`?")).and(list));
        return Err(Problem::new(ProblemKind::Other, format!("no node `{word}`"), hint, now));
    };
    let words = format!("{word}: its logs were lost with it: {}", dead.died(now));
    Err(Problem::new(ProblemKind::Other, words, list, now))
}

/// Lists the files of a node.
fn list(files: &LogFiles, node: &Node, json: bool) -> anyhow::Result<ExitCode> {
    let all = || files.0.iter().flat_map(|(category, names)| names.iter().map(move |name| (category, name)));
    if json {
        let rows = all().map(|(category, name)| {
            json!({"node_id": node.id.to_string(), "category": category.raw(), "file": name.raw()})
        });
        output::json(&rows.collect::<Vec<_>>())?;
    } else {
        let rows: Vec<Vec<String>> = all().map(|(c, name)| vec![c.to_string(), name.to_string()]).collect();
        columns::print(&mut output::stdout(), &["CATEGORY", "FILE"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The files on these nodes that match the pattern.
async fn matching(
    client: &Client,
    nodes: &[&Node],
    pattern: &str,
    cluster: &Cluster,
    progress: &Progress,
) -> Result<Vec<Place>, RayError> {
    let mut lists = list_files(client, nodes.iter().map(|node| (node.id, pattern)).collect());
    progress.tell(format!("listing the files of {}", counted(nodes.len(), "node")));
    let mut places = Vec::new();
    while let Some((node, files)) = lists.next().await {
        match files {
            Ok(names) => places.extend(names.into_iter().map(|name| (node, name))),
            Err(e) if e.is_token() => return Err(e),
            Err(e) => incomplete(&e, "list the files of", &place_words(cluster, node, None)),
        }
    }
    Ok(places)
}

fn incomplete(error: &RayError, deed: &str, what: &str) {
    eprintln!("incomplete: cannot {deed} {what}: {error}");
}

/// A node's name, and a file of it: `10.0.0.7 raylet.out`.
fn place_words(cluster: &Cluster, node: NodeId, file: Option<&Text>) -> String {
    let node =
        cluster.node(&node).map_or_else(|| node.to_string(), |node| cluster.node_name(node).to_string());
    file.map_or_else(|| node.clone(), |file| format!("{node} {file}"))
}

/// Why a search ended early.
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

/// What a search found and looked at.
#[derive(Default)]
struct Searched {
    /// Lines that match.
    lines: usize,
    /// Nodes that have some.
    nodes: usize,
    files: usize,
    /// Files that Ray fails to read: those of Ray 2.53 that are empty.
    empty: usize,
    /// Files that may have more lines than were read.
    full: usize,
}

impl Searched {
    fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.nodes += other.nodes;
        self.files += other.files;
        self.full += other.full;
    }

    /// `3 matching lines on 1 node; searched: 512 files`.
    fn words(&self) -> String {
        let (lines, nodes) = (counted(self.lines, "matching line"), counted(self.nodes, "node"));
        format!("{lines} on {nodes}; searched: {}", counted(self.files, "file"))
    }

    fn tell_unsearched(&self, n: u32) {
        if self.full > 0 {
            let files = counted(self.full, "file");
            eprintln!("only the last {n} lines of {files} were searched; -n reads more");
        }
    }
}

/// Prints the lines of these files that match, file by file; with the cluster's name where there are several.
async fn search(
    arguments: &ClusterLogArguments,
    client: &Client,
    (cluster, name): (&Cluster, Option<&str>),
    places: &[Place],
    progress: &Progress,
) -> Result<Searched, ReadError> {
    let mut reads = read_ends(client, places, arguments.lines);
    progress.tell(format!("reading the last lines of {}", counted(places.len(), "file")));
    let mut searched = Searched { files: places.len(), ..Searched::default() };
    let mut hosts = std::collections::BTreeSet::new();
    let is_one = places.len() == 1 && name.is_none();
    let most = arguments.max_count.or(name.map(|_| OF_EACH)).unwrap_or(usize::MAX);
    while let Some((node, file, bytes)) = reads.next().await {
        let place = || match name {
            Some(name) => format!("{name} {}", place_words(cluster, node, Some(file))),
            None => place_words(cluster, node, Some(file)),
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(e) if e.may_mean_empty() => {
                searched.empty += 1;
                continue;
            }
            Err(e) if e.is_token() || is_one => return Err(ReadError::Ray(e)),
            Err(e) => {
                incomplete(&e, "read", &place());
                continue;
            }
        };
        let (matches, is_full) = lines(&bytes, arguments);
        searched.full += usize::from(is_full);
        if !matches.is_empty() {
            hosts.insert(node);
        }
        searched.lines += matches.len();
        let head = (!is_one).then(place);
        let shown = &matches[..matches.len().min(most)];
        print(shown, head.as_deref(), (name, node, file), arguments.json).map_err(ReadError::Output)?;
        if shown.len() < matches.len() && !arguments.json {
            let more = counted(matches.len() - shown.len(), "more line");
            println!("... {more}; -m prints more");
        }
    }
    searched.nodes = hosts.len();
    if searched.empty > 0 && searched.empty == searched.files {
        eprintln!("{EMPTY_OR_FAILED}");
    }
    Ok(searched)
}

/// The lines that match, and whether the file may have more than were read.
fn lines(bytes: &[u8], arguments: &ClusterLogArguments) -> (Vec<Line>, bool) {
    let (mut all, is_full) = lines_of(bytes, LineSplitter::WHOLE, arguments.lines);
    all.retain(|line| arguments.grep.as_ref().is_none_or(|grep| grep.is_match(line.text())));
    (all, is_full)
}

/// Prints lines under the name of their file, if there are several. As JSON: `node_id`, `file`, `text`, and `cluster`
/// where there are several.
fn print(
    lines: &[Line],
    head: Option<&str>,
    (cluster, node, file): (Option<&str>, NodeId, &Text),
    json: bool,
) -> anyhow::Result<()> {
    if json {
        let node = node.to_string();
        let row = |line: &Line| {
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

/// Prints a file from its last lines on, until ctrl-c, across lost connections.
async fn follow(
    arguments: &ClusterLogArguments,
    reach: &Reach,
    session: &Session,
    (node, file): (&Node, &Text),
) -> anyhow::Result<ExitCode> {
    // What cannot be read at all is an error now, not an interruption.
    let first = session.client.worker_log(node.id, file, 1).await;
    first.map_err(|e| reach.error(&e.problem(Timestamp::now())))?;
    let mut following = Following::new(reach, session, arguments.give_up);
    let grep = arguments.grep.as_ref();
    following
        .file(node, file, arguments.lines, |lines| {
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
