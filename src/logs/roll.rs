//! Roll call: what each worker of a job wrote last, how long ago, and at which step; the silent and the lagging first.

use super::prefix::prefixed;
use super::progress::{Patterns, Phase};
use super::time::{Clock, Times};
use crate::model::Timestamp;
use crate::model::time::brief;
use std::cmp::Reverse;
use std::time::Duration;

/// A worker that is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worker {
    /// Name or address of its host.
    pub host: String,
    /// Name of its slice; empty if it is not part of one.
    pub slice: String,
    /// Task or actor that it runs; empty if unknown.
    pub name: String,
    /// Process id on the host.
    pub pid: Option<u32>,
    /// Its rank in the job.
    pub rank: Option<u32>,
    /// Milliseconds that its host's clock is ahead of ours.
    pub ahead_ms: i64,
    /// Why it no longer runs, as `exited` or `node died`; such a worker is never called silent.
    pub ended: Option<String>,
}

/// What is remarkable about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remark {
    /// Its process or its node has ended, while others run.
    Ended,
    /// It has written nothing at all, while most others have.
    NoLine,
    /// Its last line is much older than those of the others.
    Silent,
    /// Its step is behind those of the others.
    Lagging,
    /// Its last line reports an error, and those of most others do not.
    Error,
    /// Nothing.
    None,
}

/// The answer of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Place of the worker in the list that was called.
    pub worker: u32,
    /// Its last line, without Ray's prefix; empty if it has written none.
    pub line: String,
    /// The time of that line by our clock: what it says itself, or when it was seen first.
    pub time: Option<Timestamp>,
    /// Whether the line, or one before it, says the time itself.
    pub is_own_time: bool,
    /// How long ago.
    pub age: Option<Duration>,
    /// The last step that it reported.
    pub step: Option<u64>,
    /// What it does before its first step.
    pub phase: Option<Phase>,
    /// What is remarkable.
    pub remark: Remark,
    /// Why, as `silent 22m; others 3s`; empty if nothing is.
    pub reason: String,
}

/// Calls the workers of a job by the lines that they write.
#[derive(Debug)]
pub struct Roll {
    workers: Vec<Worker>,
    seen: Vec<Seen>,
    patterns: Patterns,
}

#[derive(Debug)]
struct Seen {
    times: Times,
    line: String,
    time: Option<Timestamp>,
    is_own: bool,
    /// The last step and the one before it with their own times.
    step: Option<(u64, Option<Timestamp>)>,
    before: Option<(u64, Option<Timestamp>)>,
    phase: Option<Phase>,
    is_error: bool,
}

/// Bytes that are kept of a worker's last line.
const LONGEST: usize = 1024;
/// A worker that wrote within this time is not silent, whatever the others do.
const QUIET: Duration = Duration::from_secs(30);

impl Roll {
    /// The workers, in the order of their numbers, and the clock that their logs are read by.
    pub fn new(workers: Vec<Worker>, clock: Clock, patterns: Patterns) -> Self {
        let seen = || Seen {
            times: Times::new(clock),
            line: String::new(),
            time: None,
            is_own: false,
            step: None,
            before: None,
            phase: None,
            is_error: false,
        };
        let seen = workers.iter().map(|_| seen()).collect();
        Self { workers, seen, patterns }
    }

    /// The workers.
    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// States that a worker has ended, and why.
    pub fn set_ended(&mut self, worker: u32, why: impl Into<String>) {
        if let Some(worker) = self.workers.get_mut(worker as usize) {
            worker.ended = Some(why.into());
        }
    }

    /// Takes in the next line of a worker. `seen` is when it was read if it came while we followed the file; none for
    /// what was there before, whose age is not known unless it says its time.
    pub fn push(&mut self, worker: u32, line: &str, seen: Option<Timestamp>) {
        let at = worker as usize;
        let (Some(worker), Some(state)) = (self.workers.get(at), self.seen.get_mut(at)) else { return };
        let text = prefixed(line).text;
        if text.trim().is_empty() {
            return;
        }
        super::prefix::beginning(text, LONGEST).clone_into(&mut state.line);
        let own = state.times.next(line).map(|time| ahead(time, -worker.ahead_ms));
        state.is_own = own.is_some();
        state.time = own.or(seen);
        if let Some(step) = self.patterns.step(text) {
            let is_new = state.step.is_none_or(|(last, _)| last != step);
            if is_new {
                state.before = state.step.filter(|(last, _)| *last < step);
            }
            state.step = Some((step, state.time));
        }
        state.phase = Phase::of(text).or(state.phase);
        state.is_error = super::level::level(text) == Some(super::level::Level::Error);
    }

    /// The answers, the remarkable ones first: ended, without a line, silent, lagging, then by age.
    pub fn call(&self, now: Timestamp) -> Vec<Answer> {
        let all = Others::of(self, now);
        let mut answers: Vec<Answer> = (0..self.seen.len()).map(|at| self.answer(at, now, &all)).collect();
        answers.sort_by_key(|a| (a.remark, Reverse(a.age), a.step, a.worker));
        answers
    }

    fn answer(&self, at: usize, now: Timestamp, all: &Others) -> Answer {
        let (worker, seen) = (&self.workers[at], &self.seen[at]);
        let age = seen.time.map(|time| time.age(now));
        let (remark, reason) = all.remark(worker, seen, age);
        Answer {
            worker: at as u32,
            line: seen.line.clone(),
            time: seen.time,
            is_own_time: seen.is_own,
            age,
            step: seen.step.map(|(step, _)| step),
            phase: seen.phase.filter(|_| seen.step.is_none()),
            remark,
            reason,
        }
    }
}

fn ahead(time: Timestamp, by_ms: i64) -> Timestamp {
    Timestamp::from_millis(time.as_millis().saturating_add(by_ms))
}

/// What the workers that run have in common.
struct Others {
    running: usize,
    with_lines: usize,
    with_errors: usize,
    age: Option<Spread>,
    step: Option<Spread>,
    /// Median of the times of their last steps, in milliseconds, and of their rates in steps a second.
    step_time: Option<f64>,
    rate: Option<f64>,
}

/// The middle of some numbers, and how far from it they usually are (median absolute deviation).
#[derive(Clone, Copy)]
struct Spread {
    middle: f64,
    usual: f64,
}

impl Spread {
    fn of(numbers: &[f64]) -> Option<Self> {
        let middle = median(numbers.to_vec())?;
        let usual = median(numbers.iter().map(|n| (n - middle).abs()).collect())?;
        Some(Self { middle, usual })
    }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let half = numbers.len() / 2;
    let upper = *numbers.get(half)?;
    Some(if numbers.len() % 2 == 1 { upper } else { f64::midpoint(numbers[half - 1], upper) })
}

impl Others {
    fn of(roll: &Roll, now: Timestamp) -> Self {
        let both = roll.workers.iter().zip(&roll.seen);
        let running: Vec<&Seen> = both.filter(|(w, _)| w.ended.is_none()).map(|(_, seen)| seen).collect();
        let ages: Vec<f64> = running.iter().filter_map(|s| Some(s.time?.age(now).as_secs_f64())).collect();
        let steps: Vec<f64> = running.iter().filter_map(|s| Some(s.step?.0 as f64)).collect();
        let times = running.iter().filter_map(|s| Some(s.step?.1?.as_millis() as f64)).collect();
        let rate = |seen: &&&Seen| {
            let ((before, since), (step, time)) = (seen.before?, seen.step?);
            let seconds = time?.age(since?).as_secs_f64();
            (seconds > 0.0).then(|| (step - before) as f64 / seconds)
        };
        Self {
            running: running.len(),
            with_lines: running.iter().filter(|s| !s.line.is_empty()).count(),
            with_errors: running.iter().filter(|s| s.is_error).count(),
            age: Spread::of(&ages),
            step: Spread::of(&steps),
            step_time: median(times),
            rate: median(running.iter().filter_map(|s| rate(&s)).collect()),
        }
    }

    fn remark(&self, worker: &Worker, seen: &Seen, age: Option<Duration>) -> (Remark, String) {
        if let Some(why) = &worker.ended {
            let remark = if self.running > 0 { Remark::Ended } else { Remark::None };
            return (remark, why.clone());
        }
        let most = |n: usize| n * 2 > self.running;
        if seen.line.is_empty() && most(self.with_lines) {
            return (Remark::NoLine, format!("no line; {} others have some", self.with_lines));
        }
        let lag = self.lag(seen);
        if let (Some(age), Some(others)) = (age, self.age)
            && age >= QUIET
            && age.as_secs_f64() > others.middle * 3.0 + others.usual * 5.0
        {
            let usual = brief(Duration::try_from_secs_f64(others.middle).unwrap_or_default());
            let mut reason = format!("silent {}; others {usual}", brief(age));
            if let Some((step, others)) = lag {
                reason += &format!("; step {}; others {}", grouped(step), grouped(others));
            }
            return (Remark::Silent, reason);
        }
        if let Some((step, others)) = lag {
            return (Remark::Lagging, format!("step {}; others {}", grouped(step), grouped(others)));
        }
        if seen.is_error && !most(self.with_errors) {
            return (Remark::Error, "its last line is an error".into());
        }
        (Remark::None, String::new())
    }

    /// Its step and that of the others, if it is behind by more than what is usual among them, and by more than what
    /// they do between the times at which each was read.
    fn lag(&self, seen: &Seen) -> Option<(u64, u64)> {
        let ((step, time), others) = (seen.step?, self.step?);
        let since =
            time.zip(self.step_time).map_or(0.0, |(t, middle)| (middle - t.as_millis() as f64) / 1000.0);
        // A worker that has stalled is behind at its last line already, so at most some seconds of reading count.
        let read = self.rate.unwrap_or_default() * since.clamp(0.0, 10.0);
        let behind = others.middle - step as f64 - read;
        (behind > f64::max(2.0, others.usual * 5.0)).then_some((step, others.middle as u64))
    }
}

/// `1,240`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
