//! The overview of a job's workers, separately for each kind.

use super::worker::{JobWorkers, LastLines};
use crate::logs::{Answer, Merge, Overview, Times, WorkerNote};
use crate::model::amount::grouped;
use crate::model::natural::natural;
use crate::model::sort;
use crate::model::{Line, Timestamp};
use std::collections::BTreeMap;

/// Number of lines of each file that an overview reads: enough to find the last step, and the one before it.
pub const OVERVIEW_LINES: u32 = 40;

/// Compares the workers by the last lines of their files, separately for each kind: different actors do different work.
/// Unusual workers come first; [`Answer::worker`] is the index in [`JobWorkers::workers`].
pub fn worker_overview(job_workers: &JobWorkers, tails: &[LastLines], now: Timestamp) -> Vec<Answer> {
    let mut lines_of: Vec<Merge<&Line>> = job_workers.workers.iter().map(|_| Merge::default()).collect();
    for tail in tails {
        let mut times = Times::new(job_workers.clock);
        // The lines may have been read for another purpose: only the last ones are used.
        let first = tail.lines.len().saturating_sub(OVERVIEW_LINES as usize);
        for line in &tail.lines[first..] {
            lines_of[tail.worker].push(u32::from(tail.is_err), times.next(line.text()), line);
        }
    }
    let mut kinds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, worker) in job_workers.workers.iter().enumerate() {
        kinds.entry(worker.process.kind.raw()).or_default().push(at);
    }
    let mut answers = Vec::new();
    for indices in kinds.into_values() {
        let of_kind = indices.iter().map(|at| job_workers.workers[*at].called()).collect();
        let mut overview = Overview::new(of_kind, job_workers.clock, job_workers.patterns.clone());
        for (number, at) in (0..).zip(&indices) {
            while let Some(merged) = lines_of[*at].pop() {
                overview.push(number, merged.item.text());
            }
        }
        let of_all = |answer: Answer| Answer { worker: indices[answer.worker as usize] as u32, ..answer };
        answers.extend(overview.call(now).into_iter().map(of_all));
    }
    let host = |a: &Answer| {
        let is_usual = a.remark == WorkerNote::None;
        if is_usual { "" } else { job_workers.workers[a.worker as usize].host.as_str() }
    };
    sort::by(&mut answers, |a, b| {
        let by_host = || natural(host(a), host(b));
        a.place().cmp(&b.place()).then_with(by_host).then(a.worker.cmp(&b.worker))
    });
    answers
}

/// By index in [`JobWorkers::workers`]: whether a worker's last line is on standard error; `None` without a line.
pub fn last_files(job_workers: &JobWorkers, tails: &[LastLines]) -> Vec<Option<bool>> {
    let mut last: Vec<Option<(Option<Timestamp>, bool)>> = vec![None; job_workers.workers.len()];
    for tail in tails.iter().filter(|tail| !tail.lines.is_empty()) {
        let mut times = Times::new(job_workers.clock);
        let time = tail.lines.iter().filter_map(|line| times.next(line.text())).last();
        let known = &mut last[tail.worker];
        *known = (*known).max(Some((time, tail.is_err)));
    }
    last.into_iter().map(|last| last.map(|(_, is_err)| is_err)).collect()
}

/// The number of unusual workers by remark: `1 silent, 2 lagging`; empty if there are none.
pub fn remark_counts(answers: &[Answer]) -> String {
    let remarks =
        [WorkerNote::Ended, WorkerNote::NoLine, WorkerNote::Silent, WorkerNote::Lagging, WorkerNote::Error];
    let count = |remark: WorkerNote| {
        let n = answers.iter().filter(|a| a.remark == remark).count();
        (n > 0).then(|| format!("{n} {}", remark.label().unwrap_or_default()))
    };
    remarks.into_iter().filter_map(count).collect::<Vec<_>>().join(", ")
}

/// The steps of the workers: `all at step 1,200`, `steps 1,180 to 1,200`; empty if none reports a step.
pub fn steps_text(answers: &[Answer]) -> String {
    let steps = || answers.iter().filter_map(|answer| answer.step);
    let (Some(least), Some(most)) = (steps().min(), steps().max()) else { return String::new() };
    let (first, last) = (grouped(least as usize), grouped(most as usize));
    match steps().count() {
        n if least == most && n == answers.len() => format!("all at step {last}"),
        n if least == most => format!("{n} at step {last}"),
        _ => format!("steps {first} to {last}"),
    }
}
