//! `marin-tui cluster-logs`: prints any log file of a node, or searches the files of all nodes.

mod arguments;
mod lines;
mod search;
mod selection;

pub use self::arguments::ClusterLogArguments;
pub(super) use self::search::run_all;

use self::arguments::{MONITOR, OF_ONE};
use self::lines::{is_since, print, report_earlier};
use self::search::Search;
use self::selection::{ALL, WORKERS, chosen, compressed, globs, no_file, node_file_label, with_drivers};
use super::jobs::{Following, LogSource, TIMED_OUT, head_alone, report_timeless};
use super::reach::{Progress, Reach};
use super::{columns, output};
use crate::app::Cluster;
use crate::logs::{Clock, Grep, LineSplitter, Times};
use crate::model::amount::counted;
use crate::model::{CompressedLog, Line, LogName, Node, NodeId, SearchTally, Text, Timestamp};
use crate::ray::{Client, EMPTY_OR_FAILED, LogFiles, RayError};
use crate::supervisor::{LogFile, Remote, Session, Start, lines_of, list_files, read_ends};
use futures_util::StreamExt;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

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

/// A node and one of its files.
type NodeFile = (NodeId, Text);

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

/// Reason why reading files ended early.
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
