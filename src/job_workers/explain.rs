//! Explains the state of a job: why it failed, or whether it hangs, waits or is healthy.

use super::causes::{Clocks, is_without_error, worker_of_source};
use super::worker::{JobWorkers, NamedWorker, age_text, first_few, worker_count_text};
use crate::logs::{Answer, Certainty, Evidence, Explanation, Fault, WorkerNote};
use crate::model::amount::{counted, grouped};
use crate::model::sort;
use crate::model::text::log_line;
use crate::model::time::brief;
use crate::model::{Hint, Job, JobStatus, Timestamp, Verb, Wait};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A job may hang if none of its workers has written anything for this long. A job that has run for this long since a
/// worker ended continues without that worker.
const SILENCE_LIMIT: Duration = Duration::from_secs(300);
/// A worker that stopped writing this much earlier than all others was the first; otherwise they stopped together.
const MIN_LEAD: Duration = Duration::from_secs(2);

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It failed, and this is why.
    Failed,
    /// It failed, and the logs have no error.
    Unknown,
    /// It waits for resources.
    Waiting,
    /// Some workers, or all of them, are silent.
    Silent,
    /// A worker is behind the others, or has failed while others run.
    Lagging,
    /// Its workers write, but the run is unhealthy: it completes fewer steps or none, or its loss is abnormal.
    Unhealthy,
    /// Nothing is wrong.
    Healthy,
    /// It has ended as intended.
    Ended,
}

impl Verdict {
    /// The verdict in a word, for output and JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Waiting => "waiting",
            Self::Silent => "silent",
            Self::Lagging => "lagging",
            Self::Unhealthy => "unhealthy",
            Self::Healthy => "healthy",
            Self::Ended => "ended",
        }
    }
}

/// The verdict on a job, with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Why the job ended, waits or hangs, in one word.
    pub verdict: Verdict,
    /// The verdict in a sentence.
    pub summary: String,
    /// The evidence for it, one sentence each.
    pub evidence: Vec<String>,
    /// The first cause, if errors were found.
    pub explanation: Option<Explanation>,
    /// The clocks that were read to put the errors in order.
    pub clocks: Clocks,
    /// The silent workers, longest silence first.
    pub quiet: Vec<Quiet>,
    /// What to do next, in the order to try; empty if nothing needs to be done.
    pub hint: Hint,
}

/// A worker that has stopped writing.
#[derive(Clone, Debug, PartialEq)]
pub struct Quiet {
    /// Its index in the list of workers.
    pub worker: usize,
    /// Whether its last line is on standard error; `None` without a line.
    pub is_err: Option<bool>,
    /// When it wrote its last line.
    pub time: Option<Timestamp>,
    /// The age of its last line.
    pub age: Option<Duration>,
    /// Its last line; empty if it has written none.
    pub line: String,
}

impl Findings {
    fn plain(verdict: Verdict, summary: String) -> Self {
        let (evidence, explanation, clocks) = (Vec::new(), None, Clocks::new());
        Self { verdict, summary, evidence, explanation, clocks, quiet: Vec::new(), hint: Hint::none() }
    }

    /// The differences of the clocks, one line each: `host-1: 0.31 s ahead of this machine's clock (±0.02 s)`.
    pub fn clock_text(&self, job_workers: &JobWorkers) -> Vec<String> {
        let words = |(node, clock): (&_, &super::HostClock)| {
            let (ahead, unsure) = (clock.ahead_ms as f64 / 1000.0, clock.unsure_ms as f64 / 1000.0);
            let way = if clock.ahead_ms < 0 { "behind" } else { "ahead of" };
            let host = job_workers.known.name_of(node);
            format!("{host}: {:.2} s {way} this machine's clock (±{unsure:.2} s)", ahead.abs())
        };
        self.clocks.iter().map(words).collect()
    }
}

/// The findings for which the workers need not be read: the job has ended as intended, or has not started.
pub fn explained(job_workers: &JobWorkers) -> Option<Findings> {
    let (job, now) = (&job_workers.known.job, job_workers.clock.near);
    match job.status {
        JobStatus::Succeeded | JobStatus::Stopped => {
            let ended = job.ended.map(|at| format!("{} ago", brief(at.age(now)))).unwrap_or_default();
            let words = format!("{} {} {ended}", job.key, job.status.label());
            Some(Findings::plain(Verdict::Ended, words.trim_end().to_owned()))
        }
        JobStatus::Pending => Some(pending(job_workers)),
        JobStatus::Failed | JobStatus::Running | JobStatus::Unknown => None,
    }
}

/// Why a job has not started.
fn pending(job_workers: &JobWorkers) -> Findings {
    let job = &job_workers.known.job;
    let since =
        job.started.map(|at| format!(" for {}", brief(at.age(job_workers.clock.near)))).unwrap_or_default();
    let why = job_workers.known.pending.as_ref();
    let words = why.map_or_else(|| job.message.to_string(), |why| why.text.clone());
    Findings {
        evidence: why
            .and_then(|why| why.finding.clone())
            .into_iter()
            .chain(job_workers.known.served.clone())
            .collect(),
        hint: why.map_or_else(Hint::none, |why| why.hint.clone()),
        ..Findings::plain(Verdict::Waiting, format!("{} has been pending{since}: {words}", job.key))
    }
}

/// Why a failed job failed.
pub fn failure(job_workers: &JobWorkers, explanation: Option<Explanation>) -> Findings {
    let job = &job_workers.known.job;
    let ago =
        job.ended.map(|at| format!(" {} ago", brief(at.age(job_workers.clock.near)))).unwrap_or_default();
    let text = Job::in_a_line(job.message.raw()).map(|text| log_line(&text)).unwrap_or_default();
    let hint = lost_log_hint(job_workers, explanation.as_ref());
    let (verdict, summary) = match &explanation {
        Some(found) => {
            let (kind, host) = (found.first.fault.text(), &found.first.host);
            (Verdict::Failed, format!("{} failed{ago}: {kind} on {host}", job.key))
        }
        None => (
            Verdict::Unknown,
            format!("{} failed{ago}: no errors found in the logs that could be read", job.key),
        ),
    };
    Findings {
        evidence: vec![format!("Ray reports: {text}")].into_iter().filter(|_| !text.is_empty()).collect(),
        explanation,
        hint,
        ..Findings::plain(verdict, summary)
    }
}

/// What to do if the log with the first error was lost with its node, or may have been.
fn lost_log_hint(job_workers: &JobWorkers, explanation: Option<&Explanation>) -> Hint {
    let is_lost = |at: usize| job_workers.workers.get(at).is_some_and(|worker| worker.is_lost);
    let is_missing = match explanation {
        Some(found) if found.certainty != Certainty::OnlyConsequences => {
            worker_of(&found.first, job_workers).is_some_and(|(at, _)| is_lost(at))
        }
        _ => job_workers.workers.iter().any(|worker| worker.is_lost),
    };
    if !is_missing {
        return Hint::none();
    }
    job_workers.known.job_log_hint("read the job's log, which may have the lines of the lost worker")
}

/// Whether a running job makes progress, and which worker does not. `last` contains, by worker index, whether the last
/// line is on standard error. A run with unhealthy vitals is not healthy, even if its workers write.
pub fn running(
    job_workers: &JobWorkers,
    answers: &[Answer],
    waits: &[Wait],
    last: &[Option<bool>],
) -> Findings {
    let remarks = Remarks::of(job_workers, answers);
    let waits = wait_texts(job_workers, waits);
    let (verdict, summary) = remarks.verdict(&waits);
    let (quiet, hint) = match verdict {
        Verdict::Silent => {
            let (id, purpose) = (job_workers.known.job.key.raw(), "find the worker whose stack differs");
            (quiet(&remarks.running, last, remarks.all_quiet), Verb::JobStacks.on(id, purpose).into())
        }
        Verdict::Unhealthy => (Vec::new(), job_workers.known.issues[0].hint.clone()),
        _ => (Vec::new(), Hint::none()),
    };
    let evidence = remarks.into_evidence(verdict, &waits);
    Findings { evidence, quiet, hint, ..Findings::plain(verdict, summary) }
}

/// What the job waits for, each kind of resources once; first what it waits for if it does nothing else.
fn wait_texts(job_workers: &JobWorkers, waits: &[Wait]) -> Vec<String> {
    let first = job_workers.known.waits.as_ref();
    let others = waits.iter().filter(|wait| first.is_none_or(|first| first.shape != wait.shape));
    first.into_iter().chain(others).map(|wait| wait.text(job_workers.clock.near)).collect()
}

/// The remarks on the workers of a running job, one sentence per worker.
struct Remarks<'a> {
    job_workers: &'a JobWorkers,
    answers: &'a [Answer],
    /// The answers of the workers that run; all answers if none runs.
    running: Vec<&'a Answer>,
    /// Number of workers that run, without those on the head that a run has besides, unless only these run.
    runs: usize,
    /// Number of those on the head that run ([`JobWorkers::beside`]).
    beside: usize,
    /// The age of the last line of any worker that runs.
    youngest: Option<Duration>,
    /// Whether no worker that runs has written anything for [`SILENCE_LIMIT`].
    all_quiet: bool,
    /// The silent workers.
    silent: Vec<String>,
    /// The workers that have ended, are behind the others, or report an error.
    behind: Vec<String>,
    /// The workers that have ended, but without which the others continue.
    replaced: Vec<String>,
}

impl<'a> Remarks<'a> {
    fn of(job_workers: &'a JobWorkers, answers: &'a [Answer]) -> Self {
        let runs = job_workers.workers.iter().filter(|worker| worker.runs()).count();
        let beside_at = job_workers.beside();
        let beside = beside_at.iter().filter(|at| job_workers.workers[**at].runs()).count();
        let beside = if beside < runs { beside } else { 0 };
        let running = of_running(answers, job_workers);
        let youngest = running.iter().filter_map(|a| a.age).min();
        // The time of a worker that a run has besides its own says nothing about these.
        let is_own = |a: &&&Answer| !beside_at.contains(&(a.worker as usize));
        let is_timed = beside == 0 || running.iter().filter(is_own).any(|a| a.age.is_some());
        let all_quiet = is_timed && runs > 0 && youngest.is_some_and(|age| age >= SILENCE_LIMIT);
        let with = |remark: WorkerNote| answers.iter().filter(move |a| a.remark == remark);
        let sentences = |remark| with(remark).map(|a| in_a_line(a, job_workers)).collect::<Vec<_>>();
        let is_replaced = |answer: &&Answer| {
            let ended = job_workers.workers.get(answer.worker as usize).and_then(|worker| worker.ended_at);
            runs > 0 && !all_quiet && ended.is_some_and(|at| at.age(job_workers.clock.near) >= SILENCE_LIMIT)
        };
        let (replaced, ended): (Vec<&Answer>, Vec<&Answer>) = with(WorkerNote::Ended).partition(is_replaced);
        let ended = ended.into_iter().map(|a| in_a_line(a, job_workers));
        let replaced = replaced.into_iter().map(|a| in_a_line(a, job_workers));
        Self {
            job_workers,
            answers,
            running,
            runs: runs - beside,
            beside,
            youngest,
            all_quiet,
            silent: [WorkerNote::Silent, WorkerNote::NoLine].into_iter().flat_map(sentences).collect(),
            behind: ended
                .chain([WorkerNote::Lagging, WorkerNote::Error].into_iter().flat_map(sentences))
                .collect(),
            replaced: replaced.map(|worker| format!("the others continued without {worker}")).collect(),
        }
    }

    /// The verdict, in a word and in a sentence.
    fn verdict(&self, waits: &[String]) -> (Verdict, String) {
        let known = &self.job_workers.known;
        let id = &known.job.key;
        match () {
            () if known.waits.is_some() || self.runs == 0 && self.silent.is_empty() && !waits.is_empty() => {
                (Verdict::Waiting, format!("{id} is running, but waits for {}", waits[0]))
            }
            () if self.all_quiet => (Verdict::Silent, self.all_quiet_text()),
            () if !self.silent.is_empty() => (Verdict::Silent, self.silent_text()),
            () if !self.behind.is_empty() => {
                (Verdict::Lagging, format!("{id} is running, but {}", self.behind[0]))
            }
            () if !known.issues.is_empty() => {
                (Verdict::Unhealthy, format!("{id} is running, but unhealthy: {}", known.issues[0].text))
            }
            () => (Verdict::Healthy, self.healthy_text()),
        }
    }

    fn all_quiet_text(&self) -> String {
        let id = &self.job_workers.known.job.key;
        let (age, how) = (age_text(self.youngest), how_silent(&self.own(), self.job_workers));
        match (self.runs, self.beside) {
            (1, 0) => format!("{id} is running, but its worker has logged nothing for {age}; {how}"),
            (runs, 0) => format!(
                "{id} is running, but none of its {runs} workers has logged anything for {age}; {how}"
            ),
            (runs, beside) => format!(
                "{id} is running, but neither its {} nor the {beside} on the head {} logged anything for {age}; {how}",
                counted(runs, "worker"),
                if beside == 1 { "has" } else { "have" },
            ),
        }
    }

    /// The answers of the workers that run, without those on the head that a run has besides: these may be idle.
    fn own(&self) -> Vec<&'a Answer> {
        let beside = self.job_workers.beside();
        let is_own = |a: &&&Answer| self.beside == 0 || !beside.contains(&(a.worker as usize));
        self.running.iter().filter(is_own).copied().collect()
    }

    fn silent_text(&self) -> String {
        let is_silent = |a: &Answer| matches!(a.remark, WorkerNote::Silent | WorkerNote::NoLine);
        let beside = self.job_workers.beside();
        let is_counted = |a: &&Answer| is_silent(a) || !beside.contains(&(a.worker as usize));
        format!(
            "{} is running, but {} of {} {} silent: {}",
            self.job_workers.known.job.key,
            self.silent.len(),
            counted(self.answers.iter().filter(is_counted).count(), "worker"),
            if self.silent.len() == 1 { "is" } else { "are" },
            self.silent[0]
        )
    }

    fn healthy_text(&self) -> String {
        let id = &self.job_workers.known.job.key;
        let step = self.running.iter().filter_map(|a| a.step).max();
        let step = step.map(|step| format!(", at step {}", grouped(step as usize))).unwrap_or_default();
        let age = self.youngest.map(|age| format!(", last log line {} ago", brief(age))).unwrap_or_default();
        format!("{id} is running: {}{step}{age}", worker_count_text(self.runs, self.beside))
    }

    /// The evidence for the verdict: issues of the run, remarks, and what the job waits for.
    fn into_evidence(self, verdict: Verdict, waits: &[String]) -> Vec<String> {
        let known = &self.job_workers.known;
        // If nothing else is wrong, the worst issue is in the summary.
        let used = usize::from(verdict == Verdict::Unhealthy);
        let issues = known.issues.iter().skip(used).map(|issue| issue.text.clone());
        let remarks = self.silent.into_iter().chain(self.behind).chain(self.replaced);
        let served = known.served.iter().filter(|_| !waits.is_empty()).cloned();
        let waits = waits.iter().map(|what| format!("waits for {what}"));
        issues.chain(remarks).chain(waits).chain(served).collect()
    }
}

/// The answers of the workers that run; all answers if none runs. The last lines of a worker that has ended, which may
/// belong to an earlier attempt, do not show what the run is doing.
fn of_running<'a>(answers: &'a [Answer], job_workers: &JobWorkers) -> Vec<&'a Answer> {
    let runs = |a: &&Answer| job_workers.workers.get(a.worker as usize).is_some_and(NamedWorker::runs);
    let running: Vec<&Answer> = answers.iter().filter(runs).collect();
    if running.is_empty() { answers.iter().collect() } else { running }
}

/// Which worker stopped first if all are silent: the others may only wait for it. It is unknown if all stopped
/// together, as workers do that synchronize at each step.
fn how_silent(answers: &[&Answer], job_workers: &JobWorkers) -> String {
    let mut ages: Vec<&Answer> = answers.iter().copied().filter(|a| a.age.is_some()).collect();
    sort::by_key(&mut ages, |a| Reverse(a.age));
    let lead = match ages[..] {
        [first, second, ..] => first.age.zip(second.age).map(|(a, b)| a.saturating_sub(b)),
        _ => None,
    };
    match ages.first() {
        Some(first) if lead.is_none_or(|lead| lead >= MIN_LEAD) => {
            format!("first to go silent: {}", in_a_line(first, job_workers))
        }
        _ => {
            let steps: BTreeSet<u64> = sort::collected(answers.iter().filter_map(|a| a.step));
            let step = steps.first().filter(|_| steps.len() == 1);
            let step = step.map(|step| format!(" at step {}", grouped(*step as usize))).unwrap_or_default();
            format!("all stopped at the same time{step}: compare their stacks to find the one that differs")
        }
    }
}

/// The silent workers, or all of them, longest silence first.
fn quiet(answers: &[&Answer], last: &[Option<bool>], all: bool) -> Vec<Quiet> {
    let is_quiet = |answer: &&Answer| all || matches!(answer.remark, WorkerNote::Silent | WorkerNote::NoLine);
    let mut quiet: Vec<Quiet> = answers
        .iter()
        .copied()
        .filter(is_quiet)
        .map(|answer| Quiet {
            worker: answer.worker as usize,
            is_err: last.get(answer.worker as usize).copied().flatten(),
            time: answer.time,
            age: answer.age,
            line: answer.line.clone(),
        })
        .collect();
    sort::by_key(&mut quiet, |worker| (Reverse(worker.age), worker.worker));
    quiet
}

/// `10.0.0.7/4123: silent 22m, others 3s`, without semicolons, which separate the parts of a summary.
fn in_a_line(answer: &Answer, job_workers: &JobWorkers) -> String {
    let who = job_workers.workers.get(answer.worker as usize).map(NamedWorker::who).unwrap_or_default();
    let reason =
        if answer.reason.is_empty() { age_text(answer.age) } else { answer.reason.replace("; ", ", ") };
    format!("{who}: {reason}")
}

/// The workers that have no error in any log.
pub fn without_error(found: &Explanation, job_workers: &JobWorkers) -> Vec<String> {
    let all = job_workers.workers.iter().enumerate();
    all.filter(|(at, _)| is_without_error(found, *at)).map(|(_, worker)| worker.who()).collect()
}

/// The index of the worker that an error belongs to, and whether it was written to standard error; `None` for the
/// latter if Ray reported it.
pub fn worker_of(evidence: &Evidence, job_workers: &JobWorkers) -> Option<(usize, Option<bool>)> {
    let (worker, part) = evidence.source.and_then(worker_of_source)?;
    (worker < job_workers.workers.len()).then(|| (worker, [Some(false), Some(true), None][part as usize % 3]))
}

/// The process that an error belongs to; only the host for errors that the cluster reports.
pub fn process_of(evidence: &Evidence, job_workers: &JobWorkers) -> String {
    match (evidence.source, worker_of(evidence, job_workers)) {
        (_, Some((worker, _))) => job_workers.workers[worker].who(),
        (Some(0), None) => format!("driver on {}", evidence.host),
        _ => evidence.host.clone(),
    }
}

/// The time from the first error to the next error of another host.
pub fn ahead(found: &Explanation) -> Option<Duration> {
    let others = found.followed.iter().map(|followed| &followed.first).filter(|e| e.host != found.first.host);
    let next = others.filter_map(|e| e.time).min()?;
    let behind = found.first.time?.age(next);
    Some(found.ahead_of_next.map_or(behind, |ahead| ahead.min(behind)))
}

/// How certain it is that the first error is the cause, in a sentence; `None` if there is nothing to compare it with.
pub fn certainty_text(found: &Explanation) -> Option<String> {
    let hosts = |all: &[Evidence]| first_few(&all.iter().map(|e| e.host.as_str()).collect::<Vec<_>>());
    match found.certainty {
        Certainty::Earliest if found.is_outlived => Some(
            "not certain: the run continued after it, but no later error that could be the cause was found"
                .to_owned(),
        ),
        Certainty::Earliest => ahead(found)
            .map(|ahead| format!("{:.1} s before the first error of another host", ahead.as_secs_f64())),
        Certainty::Close => Some(format!(
            "within clock error, the first error may instead be on: {}",
            hosts(&found.candidates)
        )),
        Certainty::AfterLosses => Some(format!("not certain: {}", before_text(&found.before))),
        Certainty::OnlyConsequences => Some(
            "a consequence of another worker's failure, which is not in any log that could be read"
                .to_owned(),
        ),
        Certainty::NoTime => {
            Some("some errors have no timestamp, so it is not certain which came first".to_owned())
        }
    }
}

/// What happened before the first error, by kind.
fn before_text(before: &[Evidence]) -> String {
    let (mut lost, mut failures) = (Vec::new(), BTreeMap::<Fault, Vec<&str>>::new());
    for e in before {
        if e.fault.is_consequence() {
            lost.push(e.host.as_str());
        } else {
            failures.entry(e.fault).or_default().push(&e.host);
        }
    }
    let failures = failures.into_iter().map(|(fault, on)| format!("{} on {}", fault.text(), first_few(&on)));
    let failures: Vec<String> = failures.collect();
    let lost = (!lost.is_empty()).then(|| {
        format!("these hosts lost a worker earlier, without an error in their logs: {}", first_few(&lost))
    });
    let failures = (!failures.is_empty()).then(|| {
        let failures = failures.join(", ");
        format!("the run continued after earlier failures, but one of them may be the cause: {failures}")
    });
    lost.into_iter().chain(failures).collect::<Vec<_>>().join("; ")
}
