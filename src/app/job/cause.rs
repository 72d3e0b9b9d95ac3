//! The lines of the root cause: the earliest error, what followed, and how far the clocks differ.

use crate::app::log::LineTarget;
use crate::app::table::cell::Role;
use crate::job_workers::{
    JobWorkers, NamedWorker, Quiet, WorkersAnswer, WorkersReading, certainty_text, first_few, process_of,
    without_error, worker_of,
};
use crate::logs::{Evidence, Explanation, Followed, untimed};
use crate::model::amount::counted;
use crate::model::text::printable;
use crate::model::{Fix, Hint, Timestamp};

/// Maximum number of silent workers shown.
const MAX_SILENT_WORKERS: usize = 8;
/// Maximum number of other errors shown that may have been first.
const MAX_CANDIDATES: usize = 3;
/// Maximum number of lines of a traceback shown.
const MAX_TRACE_LINES: usize = 12;

/// A line of the root cause.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CauseLine {
    /// The kind of line: `first error`, `followed by`; empty for a line that belongs to the one above.
    pub label: &'static str,
    /// When it happened, if a log has the time.
    pub time: Option<Timestamp>,
    /// The process, or the host.
    pub who: String,
    /// The text, safe for a terminal.
    pub text: String,
    /// The role of its style.
    pub role: Role,
    /// The worker whose log has it, by its index in the list of workers, and whether it is on standard error.
    pub worker: Option<(usize, Option<bool>)>,
    /// The line in that log; `None` if it is not from a log.
    pub line: Option<LineTarget>,
    /// What to do next, shown in place of the text because its keys depend on the keymap; empty on other lines.
    pub hint: Hint,
}

impl CauseLine {
    fn plain(label: &'static str, text: &str, role: Role) -> Self {
        Self { label, text: printable(text).into_owned(), role, ..Self::default() }
    }

    fn of(
        label: &'static str,
        evidence: &Evidence,
        job_workers: &JobWorkers,
        text: &str,
        role: Role,
    ) -> Self {
        let (time, who, worker) =
            (evidence.time, process_of(evidence, job_workers), worker_of(evidence, job_workers));
        let line = evidence.source.map(|_| in_log(evidence, &evidence.text));
        Self { label, time, who, text: printable(text).into_owned(), role, worker, line, hint: Hint::none() }
    }
}

/// The first few silent workers, with their last lines.
fn quiet_lines(quiet: &[Quiet], job_workers: &JobWorkers) -> Vec<CauseLine> {
    let line = |(at, worker): (usize, &Quiet)| CauseLine {
        label: if at == 0 { "last lines" } else { "" },
        time: worker.time,
        who: job_workers.workers.get(worker.worker).map(NamedWorker::who).unwrap_or_default(),
        text: match worker.line.as_str() {
            "" => "has not written anything".to_owned(),
            line => printable(untimed(line)).into_owned(),
        },
        role: if at == 0 { Role::Warn } else { Role::Text },
        worker: Some((worker.worker, worker.is_err)),
        line: (!worker.line.is_empty())
            .then(|| LineTarget { text: worker.line.clone(), ..LineTarget::default() }),
        hint: Hint::none(),
    };
    let mut lines: Vec<CauseLine> = quiet.iter().take(MAX_SILENT_WORKERS).enumerate().map(line).collect();
    if quiet.len() > MAX_SILENT_WORKERS {
        let more = counted(quiet.len() - MAX_SILENT_WORKERS, "more worker");
        lines.push(CauseLine::plain("", &format!("{more}; see the overview for all of them"), Role::Dim));
    }
    lines
}

/// A line of the evidence in its log, with the lines of its traceback above it.
fn in_log(evidence: &Evidence, text: &str) -> LineTarget {
    let above = evidence.trace.iter().position(|line| line == text).unwrap_or(evidence.trace.len());
    LineTarget { text: text.to_owned(), before: evidence.trace[..above].to_vec(), at: None }
}

/// The text of an error, with its kind unless the text begins with that.
fn error_text(evidence: &Evidence) -> String {
    let (kind, text) = (evidence.fault.text(), untimed(&evidence.text));
    if text.starts_with(kind) { text.to_owned() } else { format!("{kind}: {text}") }
}

/// Whether the consequences consist of the first error alone, which is shown above.
fn is_itself(followed: &Followed, first: &Evidence) -> bool {
    let (own, is_same_kind) = (&followed.first, followed.fault == first.fault);
    followed.errors == 1 && is_same_kind && (own.time, &own.host) == (first.time, &first.host)
}

/// The lines of a reading; empty for a reading of another part.
pub fn cause_lines(reading: &WorkersReading) -> Vec<CauseLine> {
    let WorkersAnswer::Cause(findings) = &reading.what else { return Vec::new() };
    let job_workers = &reading.job_workers;
    let plain = CauseLine::plain;
    // One row per part of the sentence, which is wider than a small window.
    let mut parts = findings.summary.split("; ");
    let mut lines = vec![plain(findings.verdict.label(), parts.next().unwrap_or_default(), Role::Accent)];
    // Enter on the verdict goes to its evidence.
    if let Some(first) = findings.explanation.as_ref().map(|found| &found.first) {
        lines[0].worker = worker_of(first, job_workers);
        lines[0].line = first.source.map(|_| in_log(first, &first.text));
    }
    lines.extend(parts.map(|words| plain("", words, Role::Accent)));
    lines.extend(quiet_lines(&findings.quiet, job_workers));
    lines.extend(findings.evidence.iter().map(|words| plain("", words, Role::Text)));
    lines.extend(findings.explanation.iter().flat_map(|found| explanation_lines(found, job_workers)));
    let clocks = findings.clock_text(job_workers).into_iter();
    lines.extend(clocks.map(|words| plain("clock", &words, Role::Dim)));
    lines.extend(hint_line(&findings.hint));
    lines
}

/// The line of the hint, with the purposes of its fixes as text; `None` if there is none.
fn hint_line(hint: &Hint) -> Option<CauseLine> {
    let purposes: Vec<&str> = hint.fixes().iter().map(Fix::purpose).collect();
    let line = CauseLine::plain("hint", &purposes.join("; "), Role::Text);
    (!hint.is_empty()).then(|| CauseLine { hint: hint.clone(), ..line })
}

/// The first error, how certain it is that it is the cause, and the other errors.
fn explanation_lines(found: &Explanation, job_workers: &JobWorkers) -> Vec<CauseLine> {
    let plain = CauseLine::plain;
    let mut lines = first_error_lines(&found.first, job_workers);
    lines.extend(certainty_text(found).map(|words| plain("certainty", &words, Role::Text)));
    let others = found.candidates.len() + found.before.len();
    for other in found.candidates.iter().chain(&found.before).take(MAX_CANDIDATES) {
        let words = error_text(other);
        lines.push(CauseLine::of("or", other, job_workers, &words, Role::Warn));
    }
    if others > MAX_CANDIDATES {
        let words = format!("{} listed above", counted(others - MAX_CANDIDATES, "more host"));
        lines.push(plain("", &words, Role::Dim));
    }
    for followed in found.followed.iter().filter(|followed| !is_itself(followed, &found.first)) {
        let (errors, hosts) = (counted(followed.errors as usize, "error"), counted(followed.hosts, "host"));
        let kind = followed.fault.text();
        let first = untimed(&followed.first.text);
        let words = format!("{kind}: {errors} on {hosts}, first: {first}");
        lines.push(CauseLine::of("followed by", &followed.first, job_workers, &words, Role::Text));
    }
    let quiet = without_error(found, job_workers);
    if !quiet.is_empty() && quiet.len() < job_workers.workers.len() {
        let quiet: Vec<&str> = quiet.iter().map(String::as_str).collect();
        let words = format!("{}: {}", counted(quiet.len(), "worker"), first_few(&quiet));
        lines.push(plain("no error", &words, Role::Dim));
    }
    if found.survived > 0 {
        let words = format!("{} did not stop the run", counted(found.survived as usize, "earlier error"));
        lines.push(plain("survived", &words, Role::Dim));
    }
    lines
}

/// The first error, and the end of its traceback.
fn first_error_lines(first: &Evidence, job_workers: &JobWorkers) -> Vec<CauseLine> {
    let mut lines = vec![CauseLine::of("first error", first, job_workers, &error_text(first), Role::Bad)];
    let skipped = first.trace.len().saturating_sub(MAX_TRACE_LINES);
    let trace = first.trace.iter().skip(skipped).filter(|line| **line != first.text);
    lines.extend(trace.map(|text| CauseLine {
        // Time and process are shown above.
        time: None,
        who: String::new(),
        line: first.source.map(|_| in_log(first, text)),
        ..CauseLine::of("", first, job_workers, text, Role::Dim)
    }));
    lines
}
