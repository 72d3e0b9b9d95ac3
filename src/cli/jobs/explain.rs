//! `marin-tui explain-job`: why a job failed, hangs or is pending, with evidence.

use super::super::reach::{Progress, Reach};
use super::super::{candidates, hints, output};
use super::failed;
use super::reader::{JobReader, clock_time, report_incomplete, reporting};
use crate::app::Cluster;
use crate::job_workers::{
    Findings, JobWorkers, Known, Verdict, certainty_text, first_few, process_of, without_error,
};
use crate::logs::{Certainty, Evidence, Explanation};
use crate::model::amount::counted;
use crate::model::{ClusterEvent, ClusterVitals, JobStatus, Target, Timestamp};
use crate::state::ClusterState;
use crate::supervisor::{self, Session};
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 explain-job eval-7        the earliest error, and what followed
  marin-tui -c us-central2 explain-job eval-7 --json | jq -r '.first.host'

Compares the last lines of the driver's log, of all workers' log files, and node deaths by time. An error that its \
worker survived is not the cause, and neither is a lost connection to another worker.

Exit codes: 0 the job was explained, whatever its status; 1 it could not be read, or there is no such job.";

/// Options of `explain-job`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// Submission id of the job, or the job id of a manually started driver
    #[arg(value_name = "ID", add = candidates::jobs())]
    id: String,
    /// Read the last N lines of each log
    #[arg(long, short = 'n', value_name = "N", default_value_t = 400)]
    lines: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Number of lines of a traceback that are printed.
const MAX_TRACE_LINES: usize = 12;

/// Prints the explanation.
pub(super) async fn run(
    arguments: &ExplainArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let report = reporting(progress);
    let JobReader { mut worker_reader, mut job_workers, cluster } =
        JobReader::read(&arguments.id, reach, &session, &report).await?;
    if matches!(job_workers.known.job.status, JobStatus::Running | JobStatus::Pending) {
        progress.show("reading the vitals of the run");
        read_vitals(&mut job_workers, &cluster, &session, reach).await;
    }
    let (mut found, logs) =
        worker_reader.explain(&mut job_workers, arguments.lines).await.map_err(failed(reach))?;
    if let Some(logs) = logs {
        found = worker_reader.with_clocks(&mut job_workers, found, &logs).await;
    }
    session.close().await;
    report_incomplete(&job_workers);
    let target = Target::of(&reach.spec.name);
    if arguments.json {
        output::json(&for_scripts(&found, &job_workers, target))?;
    } else {
        print(&found, &mut output::stdout(), &job_workers, target)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds findings from the vitals of the job: what is wrong with its run according to the end of its driver's log, which
/// resources it waits for, and who holds them.
async fn read_vitals(job_workers: &mut JobWorkers, cluster: &Cluster, session: &Session, reach: &Reach) {
    let job = Arc::clone(&job_workers.known.job);
    let how = (reach.options.vitals, &reach.options.patterns);
    let from = (&session.client, session.log_host(&reach.spec));
    match supervisor::read_vitals_among(from, &cluster.snapshot, &job, how).await {
        Ok(cluster_vitals) => {
            let known = with_vitals(cluster, cluster_vitals).known_of(&job);
            job_workers.known = Known { job, ..known };
        }
        Err(why) => job_workers.incomplete.push(format!("cannot read the vitals of the run: {why}")),
    }
}

/// The cluster with these vitals.
fn with_vitals(cluster: &Cluster, cluster_vitals: ClusterVitals) -> Cluster {
    let mut state = ClusterState::clone(cluster.state());
    state.apply(&ClusterEvent::Vitals(Arc::new(cluster_vitals)));
    Cluster::of(cluster.spec.clone(), state)
}

/// Prints the verdict, the evidence and the hint.
fn print(
    found: &Findings,
    out: &mut impl Write,
    job_workers: &JobWorkers,
    target: Target<'_>,
) -> io::Result<()> {
    writeln!(out, "{}: {}", found.verdict.label(), found.summary)?;
    for line in found.evidence.iter().take(MAX_TRACE_LINES) {
        writeln!(out, "  {line}")?;
    }
    if let Some(cause) = &found.explanation {
        print_cause(out, cause, job_workers, found.verdict)?;
    }
    for clock in found.clock_text(job_workers) {
        writeln!(out, "clock of {clock}")?;
    }
    for fix in found.hint.fixes() {
        writeln!(out, "hint: {}", fix.in_commands(target))?;
    }
    Ok(())
}

/// As JSON: `submission_id`, `job_id`, `status`, `verdict`, `summary`, `evidence`, `workers`, `first`, `certainty`,
/// `candidates`, `followed`, `without_error`, `clocks`, `hint`, `fixes`.
fn for_scripts(findings: &Findings, job_workers: &JobWorkers, target: Target<'_>) -> Value {
    let job = &job_workers.known.job;
    let found = findings.explanation.as_ref();
    let mut value = json!({
        "submission_id": job.submission_id().map(|id| id.0.raw()), "job_id": job.driver.as_ref().map(|id| id.0.raw()),
        "status": job.status.label(), "verdict": findings.verdict.label(), "summary": findings.summary,
        "evidence": findings.evidence, "workers": job_workers.workers.len(),
        "first": found.map(|f| one(&f.first, job_workers)), "certainty": found.map(|f| certainty(f.certainty)),
        "candidates": found.map(|f| f.candidates.iter().map(|e| one(e, job_workers)).collect::<Vec<_>>()),
        "followed": found.map(|f| f.followed.iter().map(|followed| json!({
            "kind": followed.fault.text(), "errors": followed.errors, "hosts": followed.hosts,
            "first": one(&followed.first, job_workers),
        })).collect::<Vec<_>>()),
        "without_error": found.map(|f| without_error(f, job_workers)),
        "clocks": findings.clocks.iter().map(|(node, clock)| json!({
            "node_id": node.to_string(), "host": job_workers.known.name_of(node), "offset_ms": clock.ahead_ms,
            "uncertainty_ms": clock.unsure_ms,
        })).collect::<Vec<_>>(),
    });
    hints::add(&mut value, Some(&findings.hint), target);
    value
}

const fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Earliest => "earliest",
        Certainty::Close => "close",
        Certainty::AfterLosses => "after-losses",
        Certainty::OnlyConsequences => "only-consequences",
        Certainty::NoTime => "no-time",
    }
}

/// As JSON: `kind`, `host`, `process`, `time_ms`, `text`, `trace`.
fn one(evidence: &Evidence, job_workers: &JobWorkers) -> Value {
    json!({
        "kind": evidence.fault.text(), "host": evidence.host, "process": process_of(evidence, job_workers),
        "time_ms": evidence.time.map(Timestamp::as_millis), "text": evidence.text, "trace": evidence.trace,
    })
}

fn print_cause(
    out: &mut impl Write,
    found: &Explanation,
    job_workers: &JobWorkers,
    verdict: Verdict,
) -> io::Result<()> {
    let time = |e: &Evidence| e.time.map(|at| format!("{}  ", clock_time(at))).unwrap_or_default();
    let first = &found.first;
    let label = if verdict == Verdict::Failed {
        "first error"
    } else {
        "the earliest of the last errors in the logs"
    };
    writeln!(out, "{label}: {}{}: {}", time(first), process_of(first, job_workers), first.fault.text())?;
    let skipped = first.trace.len().saturating_sub(MAX_TRACE_LINES);
    if skipped > 0 {
        writeln!(out, "    ... {skipped} lines")?;
    }
    for line in first.trace.iter().skip(skipped).filter(|line| **line != first.text) {
        writeln!(out, "    {line}")?;
    }
    writeln!(out, "    {}", first.text)?;
    if let Some(words) = certainty_text(found) {
        writeln!(out, "  {words}")?;
    }
    for followed in &found.followed {
        writeln!(
            out,
            "followed by: {}: {} on {}; the first {}{}: {}",
            followed.fault.text(),
            counted(followed.errors as usize, "error"),
            counted(followed.hosts, "host"),
            time(&followed.first),
            process_of(&followed.first, job_workers),
            followed.first.text,
        )?;
    }
    let quiet = without_error(found, job_workers);
    if !quiet.is_empty() && quiet.len() < job_workers.workers.len() {
        let quiet: Vec<&str> = quiet.iter().map(String::as_str).collect();
        writeln!(out, "no error in the logs of {}: {}", counted(quiet.len(), "worker"), first_few(&quiet))?;
    }
    if found.survived > 0 {
        writeln!(out, "{} did not stop the run", counted(found.survived as usize, "earlier error"))?;
    }
    Ok(())
}
