//! `marin-tui explain-job`: why a job failed, hangs or waits, with the evidence for it.

use super::super::reach::{Progress, Reach};
use super::super::{candidates, hints, output};
use super::gang::{Crew, Seat, age_words, clock_time, died, first_few, many, tails, tell_lost};
use super::{failed, workers};
use crate::app::words::waiting;
use crate::app::{Cluster, could_serve};
use crate::logs::{
    Answer, Causes, Certainty, Evidence, Explanation, LineSplitter, Patterns, Remark, Source, Times, Writer,
    Writers, prefixed,
};
use crate::model::time::brief;
use crate::model::{
    DeathReason, Hint, Job, JobStatus, News, Node, Target, Timestamp, VitalLimits, WorkerState,
};
use crate::ray::RayError;
use crate::state::ClusterState;
use crate::supervisor::{self, Session};
use clap::Args;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 explain-job eval-7        the first error of all workers, what followed
  marin-tui -c us-central2 explain-job eval-7 --json | jq -r '.first.host'

The end of the driver's log, the ends of all workers' files and the deaths of nodes are compared by time. An error after which \
its worker went on is not a cause, and neither is a lost connection to another worker.

Exit codes: 0 the job was explained, whatever its status is, 1 it could not be read, or there is no such job.";

/// Options of `explain-job`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// Submission id of the job, or the job id of a driver that was started by hand
    #[arg(value_name = "ID", add = candidates::jobs())]
    id: String,
    /// Read the last N lines of each log
    #[arg(long, short = 'n', value_name = "N", default_value_t = 400)]
    lines: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Clocks that NTP keeps differ by less, in milliseconds.
const CLOCKS: u64 = 250;
/// The GCS notices the death of a node this long after it, and a job may fail of it before.
const NOTICED: Duration = Duration::from_secs(90);
/// Lines of a traceback that are printed.
const TRACE: usize = 12;
/// A job whose workers all wrote nothing for this long may hang.
const QUIET: Duration = Duration::from_secs(300);

/// What is the matter with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It failed, and this is why.
    Failed,
    /// It failed, and the logs have no error.
    Unknown,
    /// It waits for resources.
    Waiting,
    /// A worker, or all of them, are silent.
    Silent,
    /// A worker is behind the others, or has failed while others run.
    Lagging,
    /// Nothing is wrong.
    Healthy,
    /// It has ended as intended.
    Ended,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Waiting => "waiting",
            Self::Silent => "silent",
            Self::Lagging => "lagging",
            Self::Healthy => "healthy",
            Self::Ended => "ended",
        }
    }
}

/// What is known of a job.
struct Findings {
    verdict: Verdict,
    /// In a sentence.
    summary: String,
    /// What supports it, a sentence each.
    evidence: Vec<String>,
    explanation: Option<Explanation>,
    hint: Hint,
}

/// Prints the explanation.
pub(super) async fn run(
    arguments: &ExplainArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let crew = Crew::read(&arguments.id, reach, &session, progress).await?;
    let found = explain(&crew, &session, arguments.lines, progress).await.map_err(failed(reach))?;
    session.close().await;
    tell_lost(&crew.seats);
    let target = Target::of(&reach.spec.name);
    if arguments.json {
        output::json(&found.for_scripts(&crew, target))?;
    } else {
        found.print(&mut output::stdout(), &crew, target)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn explain(
    crew: &Crew,
    session: &Session,
    lines: u32,
    progress: &Progress,
) -> Result<Findings, RayError> {
    let job = &crew.job;
    let ended = || job.ended.map(|at| format!("{} ago", brief(at.age(crew.clock.near)))).unwrap_or_default();
    let plain = |verdict, summary: String| Findings {
        verdict,
        summary,
        evidence: Vec::new(),
        explanation: None,
        hint: Hint::none(),
    };
    match job.status {
        JobStatus::Succeeded | JobStatus::Stopped => {
            let words = format!("{} {} {}", job.key, job.status.word(), ended());
            Ok(plain(Verdict::Ended, words.trim_end().to_owned()))
        }
        JobStatus::Pending => Ok(pending(crew)),
        JobStatus::Failed => failure(crew, session, lines, progress).await,
        JobStatus::Running | JobStatus::Unknown => running(crew, session, lines, progress).await,
    }
}

/// Why a job has not begun.
fn pending(crew: &Crew) -> Findings {
    let (job, cluster) = (&crew.job, &crew.cluster);
    let since = job.started.map(|at| format!(" for {}", brief(at.age(crew.clock.near)))).unwrap_or_default();
    let why = cluster.pending.get(&job.key);
    let finding = why.and_then(|why| cluster.findings.iter().find(|f| Some(f.kind) == why.finding));
    let words = why.map_or_else(|| job.message.to_string(), |why| why.words.clone());
    Findings {
        verdict: Verdict::Waiting,
        summary: format!("{} has been pending{since}: {words}", job.key),
        evidence: finding.map(|f| f.long.clone()).into_iter().chain(could_serve(job, cluster)).collect(),
        explanation: None,
        hint: finding.map_or_else(Hint::none, |f| f.hint.clone()),
    }
}

/// The first cause of a job that failed.
async fn failure(
    crew: &Crew,
    session: &Session,
    lines: u32,
    progress: &Progress,
) -> Result<Findings, RayError> {
    let explanation = causes(crew, session, lines, progress).await?;
    let job = &crew.job;
    let ago = job.ended.map(|at| format!(" {} ago", brief(at.age(crew.clock.near)))).unwrap_or_default();
    let said = crate::model::text::log_line(job.message.raw().lines().next().unwrap_or_default());
    let evidence = vec![format!("Ray says: {said}")].into_iter().filter(|_| !said.is_empty()).collect();
    let summary = match &explanation {
        Some(found) => {
            let host = &found.first.host;
            format!("{} failed{ago}: {} on {host}", job.key, found.first.fault.words())
        }
        None => format!("{} failed{ago}: no log that can be read has an error", job.key),
    };
    let verdict = if explanation.is_some() { Verdict::Failed } else { Verdict::Unknown };
    Ok(Findings { verdict, summary, evidence, explanation, hint: Hint::none() })
}

/// Whether a job that runs makes progress, and which worker does not.
async fn running(
    crew: &Crew,
    session: &Session,
    lines: u32,
    progress: &Progress,
) -> Result<Findings, RayError> {
    let mut at_work = Crew {
        cluster: crew.cluster.clone(),
        job: crew.job.clone(),
        seats: crew.seats.clone(),
        clock: crew.clock,
    };
    at_work.leave_out_idle();
    let crew = &at_work;
    let waits = session.client.work(&crew.job.ids()).await?.waits;
    // Who holds what it waits for is in the vitals of the others; without them the rest is said.
    let served = match waits.first() {
        Some(_) => with_vitals(crew, session).await.map(|cluster| could_serve(&crew.job, &cluster)),
        None => None,
    };
    let answers = workers::call(crew, &session.client, progress).await?;
    let runs = crew.seats.iter().filter(|s| s.worker.state == WorkerState::Running && !s.is_lost).count();
    let of = |remark: Remark| answers.iter().filter(move |a| a.remark == remark);
    let unwell = |remark| of(remark).map(|a| in_a_line(a, crew)).collect::<Vec<_>>();
    let silent: Vec<String> = unwell(Remark::Silent).into_iter().chain(unwell(Remark::NoLine)).collect();
    let behind: Vec<String> =
        [Remark::Ended, Remark::Lagging, Remark::Error].into_iter().flat_map(unwell).collect();
    let id = &crew.job.key;
    let youngest = answers.iter().filter_map(|a| a.age).min();
    let all_quiet = runs > 0 && youngest.is_some_and(|age| age >= QUIET);
    let waits: Vec<String> = waits.iter().map(|wait| waiting(wait, crew.clock.near)).collect();
    let (verdict, summary) = match () {
        () if all_quiet => {
            let oldest = answers.iter().max_by_key(|a| a.age).map(|a| in_a_line(a, crew));
            let oldest = oldest.map(|words| format!("; silent first: {words}")).unwrap_or_default();
            let age = age_words(youngest);
            (Verdict::Silent, format!("{id} runs, and no worker of {runs} has written for {age}{oldest}"))
        }
        () if !silent.is_empty() => {
            let words = format!("{id} runs, and {} of {} silent: {}", silent.len(), answers.len(), silent[0]);
            (Verdict::Silent, words)
        }
        () if runs == 0 && !waits.is_empty() => {
            (Verdict::Waiting, format!("{id} runs, and waits for {}", waits[0]))
        }
        () if !behind.is_empty() => (Verdict::Lagging, format!("{id} runs, but {}", behind[0])),
        () => {
            let step = answers.iter().filter_map(|a| a.step).max();
            let step = step.map(|step| format!(", at step {step}")).unwrap_or_default();
            let age = youngest.map(|age| format!(", the last line {} old", brief(age))).unwrap_or_default();
            (Verdict::Healthy, format!("{id} runs: {}{step}{age}", many(runs, "worker")))
        }
    };
    let explanation =
        if verdict == Verdict::Healthy { None } else { causes(crew, session, lines, progress).await? };
    let evidence = silent
        .into_iter()
        .chain(behind)
        .chain(waits.iter().map(|what| format!("waits for {what}")))
        .chain(served.into_iter().flatten())
        .collect();
    Ok(Findings { verdict, summary, evidence, explanation, hint: Hint::none() })
}

/// The cluster with what all its running jobs hold, from Ray's lists alone.
async fn with_vitals(crew: &Crew, session: &Session) -> Option<Cluster> {
    let snapshot = &crew.cluster.snapshot;
    let running = snapshot.jobs.iter().filter(|job| job.status == JobStatus::Running).cloned().collect();
    let roster = supervisor::read_holdings(&session.client, snapshot, running, VitalLimits::default()).await;
    let mut state = ClusterState::clone(crew.cluster.state());
    state.learn(&News::Vitals(Arc::new(roster.ok()?)));
    Some(Cluster::of(crew.cluster.spec.clone(), state))
}

/// `10.0.0.7/4123: silent 22m; others 3s`.
fn in_a_line(answer: &Answer, crew: &Crew) -> String {
    let who = crew.seats.get(answer.worker as usize).map(Seat::who).unwrap_or_default();
    let reason = if answer.reason.is_empty() { age_words(answer.age) } else { answer.reason.clone() };
    format!("{who}: {reason}")
}

/// Compares the errors of the driver, of the workers and the deaths of their nodes.
async fn causes(
    crew: &Crew,
    session: &Session,
    lines: u32,
    progress: &Progress,
) -> Result<Option<Explanation>, RayError> {
    let (job, client) = (&crew.job, &session.client);
    let source =
        |host: &str, name: String| Source { host: host.to_owned(), name, ahead_ms: 0, unsure_ms: CLOCKS };
    let driver_node = job.driver_node.and_then(|id| crew.cluster.node(&id));
    let driver_host =
        driver_node.map_or_else(|| "the driver's node".into(), |n| crew.cluster.node_name(n).to_string());
    // The driver, then two files and Ray's own words of each worker.
    let mut sources = vec![source(&driver_host, "driver".into())];
    for seat in &crew.seats {
        for part in ["out", "err", "task"] {
            sources.push(source(&seat.host, format!("pid {} {part}", seat.worker.pid)));
        }
    }
    let mut causes = Causes::new(sources, Patterns::default());
    let mut own = Vec::new();
    let head = crew.cluster.snapshot.nodes.iter().find(|node| node.is_head && node.state.is_alive());
    if let (Some(id), Some(head)) = (job.submission_id(), head) {
        match client.read_job_log(id, head.id, lines).await {
            Ok(bytes) => {
                let (mut splitter, mut times) = (LineSplitter::default(), Times::new(crew.clock));
                let mut said = splitter.push(&bytes);
                said.extend(splitter.finish());
                let mut writers = Writers::default();
                let mut numbers = Vec::new();
                for (number, line) in (0..).zip(said) {
                    let time = times.next(line.text());
                    let source = match prefixed(line.text()).writer {
                        None => {
                            own.push((number, time, line));
                            continue;
                        }
                        // Its own file has all that it wrote.
                        Some(writer) if has_file(crew, &writer) => continue,
                        Some(writer) => {
                            let at = writers.number(&writer) as usize;
                            if at >= numbers.len() {
                                let host = writer.ip.unwrap_or(&driver_host);
                                numbers.push(causes.add(source(host, writer.name.to_owned())));
                            }
                            numbers[at]
                        }
                    };
                    causes.push(source, number, time, line.text());
                }
            }
            Err(e) if e.is_token() => return Err(e),
            Err(e) => eprintln!("incomplete: cannot read the driver's log: {e}"),
        }
    }
    tails(client, &crew.seats, lines, progress, |at, file, lines| {
        let mut times = Times::new(crew.clock);
        for (number, line) in (0..).zip(lines) {
            causes.push(
                1 + at as u32 * 3 + u32::from(file.is_err),
                number,
                times.next(line.text()),
                line.text(),
            );
        }
    })
    .await?;
    for node in crew.cluster.snapshot.nodes.iter().filter(|node| killed(node, crew)) {
        let words = died(node, crew.clock.near);
        causes.node_died(crew.cluster.node_name(node).raw(), node.ended, &words);
    }
    // Of a worker that was killed Ray alone knows why.
    let silent = causes.explain().map(|found| found.silent);
    for (at, seat) in (0_u32..).zip(&crew.seats) {
        let says_nothing = |part: u32| silent.as_ref().is_none_or(|all| all.contains(&(1 + at * 3 + part)));
        if let WorkerState::Failed { why, at: time } = &seat.worker.state
            && says_nothing(0)
            && says_nothing(1)
        {
            for (number, line) in (0..).zip(why.raw().lines()) {
                causes.push(3 + at * 3, number, *time, &crate::model::text::log_line(line));
            }
        }
    }
    let found = causes.explain();
    let is_told = found.as_ref().is_some_and(|found| found.certainty != Certainty::OnlyConsequences);
    if is_told || own.is_empty() {
        return Ok(found);
    }
    // The driver repeats what a worker failed with, at a time that it seldom says: it is asked if no worker tells.
    for (number, time, line) in own {
        causes.push(0, number, time, line.text());
    }
    Ok(causes.explain())
}

/// Whether a writer of lines in the driver's log is a worker whose files can be read.
fn has_file(crew: &Crew, writer: &Writer<'_>) -> bool {
    let address = |seat: &Seat| crew.cluster.node(&seat.worker.node).map(|node| node.address.raw());
    let is_there = |seat: &&Seat| {
        Some(seat.worker.pid) == writer.pid && writer.ip.is_none_or(|ip| address(seat) == Some(ip))
    };
    crew.seats.iter().find(is_there).is_some_and(|seat| !seat.worker.files.is_empty())
}

/// Whether the death of this node, which a worker or the driver ran on, may have ended the job.
fn killed(node: &Node, crew: &Crew) -> bool {
    let job: &Job = &crew.job;
    let ran = job.driver_node == Some(node.id) || crew.seats.iter().any(|seat| seat.worker.node == node.id);
    let Some(at) = node.ended.filter(|_| ran && !node.state.is_alive()) else { return false };
    let is_after = job.ended.is_some_and(|ended| at > ended.plus(NOTICED));
    // A slice that the autoscaler takes away has no work any more.
    let in_order = node.death.as_ref().is_some_and(|death| death.reason == DeathReason::Expected);
    job.started.is_none_or(|started| at >= started)
        && !is_after
        && !(in_order && job.ended.is_some_and(|e| at > e))
}

impl Findings {
    fn print(&self, out: &mut impl Write, crew: &Crew, target: Target<'_>) -> io::Result<()> {
        writeln!(out, "{}: {}", self.verdict.word(), self.summary)?;
        for line in self.evidence.iter().take(TRACE) {
            writeln!(out, "  {line}")?;
        }
        if let Some(found) = &self.explanation {
            print_cause(out, found, crew, self.verdict)?;
        }
        for fix in self.hint.fixes() {
            writeln!(out, "hint: {}", fix.in_commands(target))?;
        }
        Ok(())
    }

    /// As JSON: `submission_id`, `job_id`, `status`, `verdict`, `summary`, `evidence`, `workers`, `first`, `certainty`,
    /// `candidates`, `followed`, `without_error`, `hint`, `fixes`.
    fn for_scripts(&self, crew: &Crew, target: Target<'_>) -> Value {
        let job = &crew.job;
        let found = self.explanation.as_ref();
        let mut value = json!({
            "submission_id": job.submission_id().map(|id| id.0.raw()), "job_id": job.driver.as_ref().map(|id| id.0.raw()),
            "status": job.status.word(), "verdict": self.verdict.word(), "summary": self.summary,
            "evidence": self.evidence, "workers": crew.seats.len(),
            "first": found.map(|f| one(&f.first, crew)), "certainty": found.map(|f| certainty(f.certainty)),
            "candidates": found.map(|f| f.candidates.iter().map(|e| one(e, crew)).collect::<Vec<_>>()),
            "followed": found.map(|f| f.followed.iter().map(|followed| json!({
                "kind": followed.fault.words(), "errors": followed.errors, "hosts": followed.hosts,
                "first": one(&followed.first, crew),
            })).collect::<Vec<_>>()),
            "without_error": found.map(|f| without_error(f, crew)),
        });
        hints::add(&mut value, Some(&self.hint), target);
        value
    }
}

/// The workers of whom no log has an error.
fn without_error(found: &Explanation, crew: &Crew) -> Vec<String> {
    let is_silent = |at: u32| (1..4).all(|part| found.silent.contains(&(at * 3 + part)));
    (0_u32..).zip(&crew.seats).filter(|(at, _)| is_silent(*at)).map(|(_, seat)| seat.who()).collect()
}

/// The process that an error was found in; the host alone for what the cluster reports.
fn place(evidence: &Evidence, crew: &Crew) -> String {
    match evidence.source {
        None => evidence.host.clone(),
        Some(0) => format!("driver on {}", evidence.host),
        Some(source) => {
            let seat = crew.seats.get((source as usize - 1) / 3);
            seat.map_or_else(|| evidence.host.clone(), Seat::who)
        }
    }
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

/// How long before the next error of another host the first one was.
fn ahead(found: &Explanation) -> Option<Duration> {
    let others = found.followed.iter().map(|followed| &followed.first).filter(|e| e.host != found.first.host);
    let next = others.filter_map(|e| e.time).min()?;
    let behind = found.first.time?.age(next);
    Some(found.ahead_of_next.map_or(behind, |ahead| ahead.min(behind)))
}

/// As JSON: `kind`, `host`, `process`, `time_ms`, `text`, `trace`.
fn one(evidence: &Evidence, crew: &Crew) -> Value {
    json!({
        "kind": evidence.fault.words(), "host": evidence.host, "process": place(evidence, crew),
        "time_ms": evidence.time.map(Timestamp::as_millis), "text": evidence.text, "trace": evidence.trace,
    })
}

fn print_cause(out: &mut impl Write, found: &Explanation, crew: &Crew, verdict: Verdict) -> io::Result<()> {
    let time = |e: &Evidence| e.time.map(|at| format!("{}  ", clock_time(at))).unwrap_or_default();
    let first = &found.first;
    let label = if verdict == Verdict::Failed { "first error" } else { "last errors in the logs begin with" };
    writeln!(out, "{label}: {}{}: {}", time(first), place(first, crew), first.fault.words())?;
    let skipped = first.trace.len().saturating_sub(TRACE);
    if skipped > 0 {
        writeln!(out, "    ... {skipped} lines")?;
    }
    for line in first.trace.iter().skip(skipped).filter(|line| **line != first.text) {
        writeln!(out, "    {line}")?;
    }
    writeln!(out, "    {}", first.text)?;
    let sure = match found.certainty {
        Certainty::Earliest => ahead(found)
            .map(|ahead| format!("{:.1} s before the first error of another host", ahead.as_secs_f64())),
        Certainty::Close => {
            let hosts: Vec<&str> = found.candidates.iter().map(|e| e.host.as_str()).collect();
            Some(format!("as early, as far as clocks can tell, on: {}", first_few(&hosts)))
        }
        Certainty::AfterLosses => {
            let hosts: Vec<&str> = found.before.iter().map(|e| e.host.as_str()).collect();
            let hosts = first_few(&hosts);
            Some(format!(
                "not certain: other hosts had lost a worker before, whose logs say nothing: {hosts}"
            ))
        }
        Certainty::OnlyConsequences => {
            Some("it follows from another worker's failure, which no log that can be read has".to_owned())
        }
        Certainty::NoTime => Some("not all errors say a time: which came first is not certain".to_owned()),
    };
    if let Some(sure) = sure {
        writeln!(out, "  {sure}")?;
    }
    for followed in &found.followed {
        writeln!(
            out,
            "followed by: {}: {} on {}; the first {}{}: {}",
            followed.fault.words(),
            many(followed.errors as usize, "error"),
            many(followed.hosts, "host"),
            time(&followed.first),
            place(&followed.first, crew),
            followed.first.text,
        )?;
    }
    let quiet = without_error(found, crew);
    if !quiet.is_empty() && quiet.len() < crew.seats.len() {
        let quiet: Vec<&str> = quiet.iter().map(String::as_str).collect();
        writeln!(out, "no error in the logs of {}: {}", many(quiet.len(), "worker"), first_few(&quiet))?;
    }
    if found.survived > 0 {
        writeln!(out, "{} before were survived", many(found.survived as usize, "error"))?;
    }
    Ok(())
}
