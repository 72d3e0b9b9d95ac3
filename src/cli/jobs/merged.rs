//! `job-logs --workers`: prints the lines of all workers of a job in order of time, or folded if many write the same.

use super::super::output;
use super::super::reach::{Progress, Reach};
use super::failed;
use super::reader::{JobReader, clock_time, report_incomplete, report_timeless, reporting, too_old};
use crate::job_workers::{
    DEFAULT_LINES, JobWorkers, NamedWorker, WorkerLine, first_few, fold, found_in_order, in_order,
};
use crate::logs::{LineSplitter, Pattern, Repeated, Row};
use crate::model::amount::counted;
use crate::model::cloud::TpuHost;
use crate::model::sort;
use crate::model::{FileMatches, FileSearch, FileSearchId, NodeId, SearchedNode, Text, Timestamp};
use crate::supervisor::{FileSearcher, HostAccess, SearchProgress, Session};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::mpsc;

/// Number of lines read of a file that cannot be searched on its host.
const TAIL_LINES: u32 = 1000;
/// Maximum number of lines found per file, the last ones.
const MAX_MATCHES: usize = 10_000;
/// The hosts of a row are named if there are at most this many.
const MAX_NAMED_HOSTS: usize = 3;

/// Options of `job-logs` about a job's workers.
#[derive(Clone, Copy, Debug, Args)]
pub struct WorkersOptions {
    /// Print the last lines of the logs of all the job's workers, merged by time [default: 100 per file; with --grep:
    /// whole files, on their hosts; with --follow: the last 100 per file, then new lines]
    #[arg(long)]
    pub workers: bool,
    /// With --workers: print identical lines once, with the number of workers that wrote them and the hosts that did not;
    /// with --follow, once per 10 seconds
    #[arg(long, requires = "workers")]
    pub fold: bool,
}

/// Selects the lines to print, and their format.
pub(super) struct Wanted<'a> {
    pub options: WorkersOptions,
    pub lines: Option<u32>,
    pub grep: Option<&'a Pattern>,
    pub since: Option<Duration>,
    pub json: bool,
}

/// Prints the logs of the job's workers.
pub(super) async fn run(
    id: &str,
    wanted: &Wanted<'_>,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let report = reporting(progress);
    let JobReader { mut worker_reader, mut job_workers, .. } =
        JobReader::read(id, reach, &session, &report).await?;
    let whole = wanted.grep.filter(|_| wanted.lines.is_none());
    let all: Box<dyn Iterator<Item = WorkerLine>> = if let Some(pattern) = whole {
        report("searching the logs of the workers".to_owned());
        Box::new(search(pattern, &mut job_workers, reach, &session).await?)
    } else {
        let lines = wanted.lines.unwrap_or(DEFAULT_LINES);
        let tails = worker_reader.tails(&mut job_workers, lines).await.map_err(failed(reach))?;
        Box::new(in_order(&job_workers, tails))
    };
    session.close().await;
    report_incomplete(&job_workers);
    if job_workers.workers.is_empty() {
        eprintln!("{}", job_workers.why_empty());
        return Ok(if wanted.grep.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let since = wanted.since.map(|span| Timestamp::now().minus(span));
    let (mut timeless, mut newest, mut printed) = (0, None, 0);
    let lines = all.filter(|found| {
        newest = newest.max(found.time);
        let is_match = wanted.grep.is_none_or(|grep| grep.is_match(found.line.text()));
        timeless += usize::from(is_match && since.is_some() && found.time.is_none());
        let is_wanted = is_match && since.is_none_or(|since| found.time.is_some_and(|time| time >= since));
        printed += usize::from(is_wanted);
        is_wanted
    });
    print(lines, &job_workers, wanted)?;
    if let (Some(newest), Some(since)) = (newest, since)
        && newest < since
    {
        eprintln!("{}", too_old(newest));
    }
    report_timeless(timeless, if wanted.grep.is_some() { "matching line" } else { "line" });
    Ok(if wanted.grep.is_some() && printed == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Searches whole files of the workers on their hosts. Files that were not searched in this way are reported on stderr.
async fn search(
    pattern: &Pattern,
    job_workers: &mut JobWorkers,
    reach: &Reach,
    session: &Session,
) -> anyhow::Result<impl Iterator<Item = WorkerLine> + use<>> {
    let channel = session.connection().channel().await.map_err(|problem| reach.error(&problem))?;
    let (spec, options) = (&reach.spec, &reach.options);
    let hosts = channel.remote.map(|remote| HostAccess { spec, options, remote, login: channel.login });
    // The worker of each file, by node and name.
    let mut writers: BTreeMap<(NodeId, Text), (usize, bool)> = BTreeMap::new();
    let mut nodes: BTreeMap<NodeId, SearchedNode> = BTreeMap::new();
    for log in job_workers.logs() {
        let node = || SearchedNode {
            node: log.node.id,
            host: TpuHost::of(log.node),
            is_head: log.node.is_head,
            globs: Vec::new(),
        };
        writers.insert((log.node.id, log.name.clone()), (log.worker, log.is_err));
        nodes.entry(log.node.id).or_insert_with(node).globs.push(log.name.raw().to_owned());
    }
    let wanted = FileSearch {
        id: FileSearchId(0),
        pattern: pattern.text().to_owned(),
        nodes: nodes.into_values().collect(),
        lines: TAIL_LINES,
        most: MAX_MATCHES,
    };
    let (client, longest) = (&channel.client, LineSplitter::MAX_LINE);
    let searcher = FileSearcher { cluster: &spec.name, client, hosts, longest };
    let (found, mut matches) = mpsc::unbounded_channel();
    let tally = searcher.search(&wanted, pattern, found).await.map_err(failed(reach))?;
    let mut all = Vec::new();
    while let Some(progress) = matches.recv().await {
        let SearchProgress::Matches(FileMatches { node, name, lines, more, .. }) = progress else { continue };
        let Some((worker, is_err)) = writers.get(&(node, name)) else { continue };
        if more > 0 {
            let who = job_workers.workers[*worker].who();
            eprintln!("{who}: {} before these", counted(more, "matching line"));
        }
        all.push((*worker, *is_err, lines));
    }
    eprintln!("searched: {}", tally.text(TAIL_LINES));
    tally.unsearched(TAIL_LINES).iter().for_each(|what| eprintln!("{what}"));
    job_workers.incomplete.extend(tally.incomplete);
    // The order of the results is arbitrary.
    sort::by_key(&mut all, |(worker, is_err, _)| (*worker, *is_err));
    Ok(found_in_order(all))
}

/// Prints the selected lines of workers, in order or folded.
pub(super) fn print(
    lines: impl Iterator<Item = WorkerLine>,
    job_workers: &JobWorkers,
    wanted: &Wanted<'_>,
) -> anyhow::Result<()> {
    if wanted.options.fold {
        print_folded(lines, job_workers, wanted.json)
    } else {
        print_merged(lines, &job_workers.workers, wanted.json)
    }
}

/// Prints lines, each with its worker.
fn print_merged(
    lines: impl Iterator<Item = WorkerLine>,
    workers: &[NamedWorker],
    json: bool,
) -> anyhow::Result<()> {
    let width = workers.iter().map(|worker| worker.who().chars().count()).max().unwrap_or(0);
    let mut out = output::stdout();
    for found in lines {
        let worker = &workers[found.worker];
        if json {
            output::json_line(&for_scripts(&found, worker))?;
        } else {
            let time = found.time.map_or_else(|| "-".repeat(18), clock_time);
            writeln!(out, "{time}  {:<width$}  {}", worker.who(), found.line.text())?;
        }
    }
    Ok(out.flush()?)
}

/// As JSON: `time_ms`, `node_id`, `host`, `slice`, `pid`, `name`, `stream`, `text`.
fn for_scripts(found: &WorkerLine, worker: &NamedWorker) -> Value {
    let or_null = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "time_ms": found.time.map(Timestamp::as_millis), "node_id": worker.process.node.to_string(), "host": worker.host,
        "slice": or_null(&worker.slice), "pid": worker.process.pid, "name": or_null(worker.process.name.raw()),
        "stream": if found.is_err { "err" } else { "out" }, "text": found.line.text(),
    })
}

/// Prints a row for equal lines of many workers.
fn print_folded(
    lines: impl Iterator<Item = WorkerLine>,
    job_workers: &JobWorkers,
    json: bool,
) -> anyhow::Result<()> {
    let (folded, workers) = (fold(lines, job_workers), &job_workers.workers);
    if folded.left_out > 0 {
        eprintln!("the first {} rows are omitted: too many lines differ", folded.left_out);
    }
    let mut out = output::stdout();
    let digits = workers.len().to_string().len();
    for (row, among) in folded.rows.iter().zip(&folded.among) {
        let names = |of: &mut dyn Iterator<Item = u32>| -> Vec<String> {
            of.filter_map(|at| workers.get(at as usize)).map(NamedWorker::who).collect()
        };
        let writers = names(&mut row.members().iter().map(|member| member.source));
        let missing = names(&mut among.missing.iter().copied());
        if json {
            output::json_line(&row_for_scripts(row, &writers, (&missing, among.workers)))?;
            continue;
        }
        let time = row.time.map_or_else(|| "-".repeat(18), |(first, _)| clock_time(first));
        let who = if writers.len() <= MAX_NAMED_HOSTS && workers.len() > MAX_NAMED_HOSTS {
            format!("[{}] ", writers.join(", "))
        } else {
            String::new()
        };
        writeln!(out, "{time}  {:>digits$} of {}  {who}{}", writers.len(), among.workers, row.text)?;
        let pad = " ".repeat(20 + 2 * digits + 6);
        if let Some(repeated) = row.repeated() {
            writeln!(out, "{pad}{}", stands_for(&repeated))?;
        }
        for line in row.trace.iter().filter(|line| **line != row.text) {
            writeln!(out, "{pad}{line}")?;
        }
        if !among.notable().is_empty() {
            let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
            writeln!(out, "{pad}missing: {}", first_few(&missing))?;
        }
    }
    Ok(out.flush()?)
}

/// Describes a line that Ray repeated, with the options that find the lines.
fn stands_for(repeated: &Repeated) -> String {
    let Repeated { count, pattern, .. } = repeated;
    format!(
        "represents {count} lines, itself included, that Ray deduplicated; find them with --workers -g '{pattern}'"
    )
}

/// As JSON: `first_ms`, `last_ms`, `workers`, `total_workers`, `lines`, `level`, `step`, `text`, `trace`, `written_by`,
/// `missing`, `repeated`.
fn row_for_scripts(row: &Row, writers: &[String], (missing, of): (&[String], usize)) -> Value {
    json!({
        "first_ms": row.time.map(|(first, _)| first.as_millis()), "last_ms": row.time.map(|(_, last)| last.as_millis()),
        "workers": writers.len(), "total_workers": of, "lines": row.times(),
        "level": row.level.map(level_label), "step": row.step, "text": row.text, "trace": row.trace,
        "written_by": writers, "missing": missing, "repeated": row.repeated().as_ref().map(repeated_for_scripts),
    })
}

/// As JSON: `count`, `pattern`.
pub(super) fn repeated_for_scripts(repeated: &Repeated) -> Value {
    json!({ "count": repeated.count, "pattern": repeated.pattern })
}

const fn level_label(level: crate::logs::Level) -> &'static str {
    use crate::logs::Level;
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    }
}
