//! Overview: the last line of each worker of a job, its age and its step; silent and lagging workers come first.

use super::level::{Level, level};
use super::prefix::{beginning, prefixed};
use super::progress::{Patterns, Phase};
use super::time::{Clock, Times};
use crate::model::Timestamp;
use crate::model::amount::grouped;
use crate::model::sort;
use crate::model::time::{brief, brief_secs};
use regex::Regex;
use std::cmp::Reverse;
use std::sync::LazyLock;
use std::time::Duration;

/// A worker in the overview.
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
    /// Why it no longer runs, e.g. `exited` or `node died`; such a worker is never reported as silent.
    pub ended: Option<String>,
}

/// What is unusual about a worker. Ordered by severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkerNote {
    /// Its process or its node has ended, while others run.
    Ended,
    /// It has written no lines, but most others have.
    NoLine,
    /// Its last line is much older than those of the others.
    Silent,
    /// Its step is behind those of the others.
    Lagging,
    /// Its last line reports an error, and those of most others do not.
    Error,
    /// Nothing unusual.
    None,
}

impl WorkerNote {
    /// The remark in a word, for output and JSON; `None` if nothing is unusual.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Ended => Some("ended"),
            Self::NoLine => Some("no-line"),
            Self::Silent => Some("silent"),
            Self::Lagging => Some("lagging"),
            Self::Error => Some("error"),
            Self::None => None,
        }
    }
}

/// The result of the overview for one worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Index of the worker in the overview's list.
    pub worker: u32,
    /// Its last line, without Ray's prefix; empty if it has written none.
    pub line: String,
    /// The time of that line by our clock: its own timestamp, or that of an earlier line.
    pub time: Option<Timestamp>,
    /// Age of that line.
    pub age: Option<Duration>,
    /// Its rank in the job, if known.
    pub rank: Option<u32>,
    /// The last step that it reported.
    pub step: Option<u64>,
    /// Its startup phase, if it has not reported a step.
    pub phase: Option<Phase>,
    /// What is unusual about it.
    pub remark: WorkerNote,
    /// The reason for the remark, e.g. `silent 22m; others 3s`; empty if there is none.
    pub reason: String,
}

impl Answer {
    /// Its age in seconds, as precisely as it is shown.
    pub fn shown_age(&self) -> Option<u64> {
        self.age.map(brief_secs)
    }

    /// Its place in the list: unusual workers come first, with the oldest line first within each kind, and the lowest
    /// step among lagging ones. The ages and steps of workers that log normally differ by chance.
    pub fn place(&self) -> impl Ord + use<> {
        let step = self.step.filter(|_| self.remark == WorkerNote::Lagging);
        let unusual = (self.remark != WorkerNote::None).then_some((Reverse(self.shown_age()), step));
        (self.remark, unusual)
    }
}

/// Compares the workers of a job by the lines that they write.
#[derive(Debug)]
pub struct Overview {
    workers: Vec<Worker>,
    seen: Vec<Seen>,
    patterns: Patterns,
}

#[derive(Debug)]
struct Seen {
    times: Times,
    line: String,
    time: Option<Timestamp>,
    /// The last step and the one before it, each with its time.
    step: Option<(u64, Option<Timestamp>)>,
    before: Option<(u64, Option<Timestamp>)>,
    phase: Option<Phase>,
    is_error: bool,
}

/// Maximum number of bytes kept of a worker's last line.
const MAX_LINE_BYTES: usize = 1024;
/// A worker that wrote within this time is not silent, whatever the others do.
const MIN_SILENCE: Duration = Duration::from_secs(30);

impl Overview {
    /// Creates an overview of these workers, numbered in this order; their timestamps are read with `clock`.
    pub fn new(workers: Vec<Worker>, clock: Clock, patterns: Patterns) -> Self {
        let seen = || Seen {
            times: Times::new(clock),
            line: String::new(),
            time: None,
            step: None,
            before: None,
            phase: None,
            is_error: false,
        };
        let seen = workers.iter().map(|_| seen()).collect();
        Self { workers, seen, patterns }
    }

    /// Adds the next line of a worker.
    pub fn push(&mut self, worker: u32, line: &str) {
        let at = worker as usize;
        let (Some(worker), Some(state)) = (self.workers.get_mut(at), self.seen.get_mut(at)) else { return };
        let text = prefixed(line).text;
        if text.trim().is_empty() {
            return;
        }
        beginning(text, MAX_LINE_BYTES).clone_into(&mut state.line);
        let ours = |time: Timestamp| Timestamp::from_millis(time.as_millis().saturating_sub(worker.ahead_ms));
        state.time = state.times.next(line).map(ours);
        worker.rank = worker.rank.or_else(|| rank(text));
        if let Some(step) = self.patterns.step(text) {
            let is_new = state.step.is_none_or(|(last, _)| last != step);
            if is_new {
                state.before = state.step.filter(|(last, _)| *last < step);
            }
            state.step = Some((step, state.time));
        }
        state.phase = Phase::of(text).or(state.phase);
        state.is_error = level(text) == Some(Level::Error);
    }

    /// All results, unusual workers first: ended, without lines, silent, lagging, with an error; the oldest line first
    /// within each kind.
    pub fn call(&self, now: Timestamp) -> Vec<Answer> {
        let all = Others::of(self, now);
        let mut answers: Vec<Answer> = (0..self.seen.len()).map(|at| self.answer(at, now, &all)).collect();
        sort::by_key(&mut answers, |a| (a.place(), a.worker));
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
            age,
            rank: worker.rank,
            step: seen.step.map(|(step, _)| step),
            phase: seen.phase.filter(|_| seen.step.is_none()),
            remark,
            reason,
        }
    }
}

/// The rank that a line reports for its writer: `[rank3]: ...` (`PyTorch`), `[Rank 3] ...`, `rank 15 in world size 16`
/// (vLLM), `process_index=3` (JAX programs).
fn rank(text: &str) -> Option<u32> {
    static RANK: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let at_start = r"^\[[Rr]ank ?(\d{1,6})\]";
        let in_text =
            r"(?:[Rr]ank[ :=]+(\d{1,6}) (?:in world size|of|/) ?\d)|process_(?:index|id)[ :=]+(\d{1,6})";
        Regex::new(&format!("{at_start}|{in_text}")).ok()
    });
    let found = RANK.as_ref()?.captures(text)?;
    found.iter().skip(1).flatten().next()?.as_str().parse().ok()
}

/// Statistics of the running workers.
struct Others {
    running: usize,
    with_lines: usize,
    with_errors: usize,
    age: Option<Spread>,
    step: Option<Spread>,
    /// Medians of the times of their last steps, in milliseconds, and of their rates, in steps per second.
    step_time: Option<f64>,
    rate: Option<f64>,
}

/// The median of some numbers, and their median absolute deviation.
#[derive(Clone, Copy)]
struct Spread {
    middle: f64,
    deviation: f64,
}

impl Spread {
    fn of(numbers: &[f64]) -> Option<Self> {
        let middle = median(numbers.to_vec())?;
        let deviation = median(numbers.iter().map(|n| (n - middle).abs()).collect())?;
        Some(Self { middle, deviation })
    }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    sort::by(&mut numbers, f64::total_cmp);
    let half = numbers.len() / 2;
    let upper = *numbers.get(half)?;
    Some(if numbers.len() % 2 == 1 { upper } else { f64::midpoint(numbers[half - 1], upper) })
}

impl Others {
    fn of(overview: &Overview, now: Timestamp) -> Self {
        let both = overview.workers.iter().zip(&overview.seen);
        let running: Vec<&Seen> = both.filter(|(w, _)| w.ended.is_none()).map(|(_, seen)| seen).collect();
        let ages: Vec<f64> = running.iter().filter_map(|s| Some(s.time?.age(now).as_secs_f64())).collect();
        let steps: Vec<f64> = running.iter().filter_map(|s| Some(s.step?.0 as f64)).collect();
        let times = running.iter().filter_map(|s| Some(s.step?.1?.as_millis() as f64)).collect();
        let rate = |seen: &&&Seen| {
            let ((before, since), (step, time)) = (seen.before?, seen.step?);
            let seconds = since?.age(time?).as_secs_f64();
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

    fn remark(&self, worker: &Worker, seen: &Seen, age: Option<Duration>) -> (WorkerNote, String) {
        if let Some(why) = &worker.ended {
            let remark = if self.running > 0 { WorkerNote::Ended } else { WorkerNote::None };
            return (remark, why.clone());
        }
        let most = |n: usize| n * 2 > self.running;
        if seen.line.is_empty() && most(self.with_lines) {
            return (
                WorkerNote::NoLine,
                format!("no log lines; {} other workers have some", self.with_lines),
            );
        }
        let lag = self.lag(seen);
        if let (Some(age), Some(others)) = (age, self.age)
            && age >= MIN_SILENCE
            && age.as_secs_f64() > others.middle * 3.0 + others.deviation * 5.0
        {
            let usual = brief(Duration::try_from_secs_f64(others.middle).unwrap_or_default());
            let silent = format!("silent {}; others {usual}", brief(age));
            let reason = match lag {
                Some(lag) => format!("{silent}; {}", steps(lag)),
                None => silent,
            };
            return (WorkerNote::Silent, reason);
        }
        if let Some(lag) = lag {
            return (WorkerNote::Lagging, steps(lag));
        }
        if seen.is_error && !most(self.with_errors) {
            return (WorkerNote::Error, "its last line is an error".into());
        }
        (WorkerNote::None, String::new())
    }

    /// Its step and the median step of the others, if it is behind by more than their usual deviation and by more than
    /// they advance between the times at which the steps were read.
    fn lag(&self, seen: &Seen) -> Option<(u64, u64)> {
        let ((step, time), others) = (seen.step?, self.step?);
        let since =
            time.zip(self.step_time).map_or(0.0, |(t, middle)| (middle - t.as_millis() as f64) / 1000.0);
        // A stalled worker is already behind at its last line, so at most 10 s of reading time count.
        let read = self.rate.unwrap_or_default() * since.clamp(0.0, 10.0);
        let behind = others.middle - step as f64 - read;
        (behind > f64::max(2.0, others.deviation * 5.0)).then_some((step, others.middle as u64))
    }
}

fn steps((step, others): (u64, u64)) -> String {
    format!("step {}; others {}", grouped(step as usize), grouped(others as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-23 09:00 UTC.
    const NOW: Timestamp = Timestamp::from_millis(1_795_424_400_000);

    fn ago(seconds: u64) -> Timestamp {
        Timestamp::from_millis(NOW.as_millis() - seconds.cast_signed() * 1000)
    }

    fn stamp(time: Timestamp) -> String {
        jiff::Timestamp::from_millisecond(time.as_millis()).unwrap().strftime("%F %T,%3f").to_string()
    }

    fn overview(workers: u32) -> Overview {
        let worker = |n| Worker { host: format!("host-{n}"), pid: Some(1000 + n), ..Worker::default() };
        Overview::new((0..workers).map(worker).collect(), Clock::utc(NOW), Patterns::default())
    }

    fn remarks(overview: &Overview) -> Vec<(u32, WorkerNote, String)> {
        let all = overview.call(NOW).into_iter().filter(|a| a.remark != WorkerNote::None);
        all.map(|a| (a.worker, a.remark, a.reason)).collect()
    }

    #[test]
    fn silent_and_lagging_workers_come_first_with_a_reason() {
        let mut overview = overview(256);
        for n in 0..256 {
            let (seconds, step) = match n {
                17 => (22 * 60, 1180),
                40 => (3, 1180),
                99 => continue,
                _ => (3, 1240),
            };
            overview.push(n, &format!("{} INFO step {step} loss 2.1", stamp(ago(seconds))));
        }
        overview.workers[200].ended = Some("node died".into());
        assert_eq!(
            remarks(&overview),
            [
                (200, WorkerNote::Ended, "node died".into()),
                (99, WorkerNote::NoLine, "no log lines; 254 other workers have some".into()),
                (17, WorkerNote::Silent, "silent 22m; others 3s; step 1,180; others 1,240".into()),
                (40, WorkerNote::Lagging, "step 1,180; others 1,240".into()),
            ]
        );
        let first = &overview.call(NOW)[2];
        assert_eq!((first.age, first.step), (Some(Duration::from_secs(1320)), Some(1180)));
    }

    #[test]
    fn silent_workers_that_stopped_in_the_same_minute_keep_their_order() {
        let mut overview = overview(24);
        for n in 0..24 {
            let seconds = if n < 3 { 22 * 60 + u64::from(n) } else { 3 };
            overview.push(n, &format!("{} INFO step {} loss 2.1", stamp(ago(seconds)), 1240 - n));
        }
        let first: Vec<u32> = remarks(&overview).into_iter().map(|(worker, ..)| worker).collect();
        assert_eq!(first, [0, 1, 2]);
    }

    #[test]
    fn nothing_is_reported_when_all_workers_are_similar() {
        for seconds in [0, 3, 7200] {
            let mut overview = overview(24);
            assert_eq!(remarks(&overview), []);
            for n in 0..24 {
                // Times within a second, and steps that differ by one because a worker was read between two steps.
                let time = Timestamp::from_millis(ago(seconds).as_millis() - i64::from(n) * 40);
                overview.push(n, &format!("{} step {} loss 2", stamp(time), 100 + n % 2));
            }
            assert_eq!(remarks(&overview), [], "{seconds} s ago");
        }
    }

    #[test]
    fn a_worker_that_was_read_earlier_does_not_lag() {
        let mut overview = overview(24);
        for n in 0..24 {
            // Ten steps a second, and three seconds to read them all.
            let read = i64::from(n) * 125;
            for step in 0..2u64 {
                let time = Timestamp::from_millis(NOW.as_millis() - 4000 + read + step.cast_signed() * 100);
                overview.push(n, &format!("{} step {} loss 2", stamp(time), 1000 + read as u64 / 100 + step));
            }
        }
        assert_eq!(remarks(&overview), []);
    }

    #[test]
    fn a_clock_that_is_an_hour_off_is_corrected() {
        let mut all = overview(3).workers;
        all[1].ahead_ms = 3_600_000;
        let mut overview = Overview::new(all, Clock::utc(NOW), Patterns::default());
        for n in 0..3 {
            let time = if n == 1 { NOW.plus(Duration::from_secs(3590)) } else { ago(10) };
            overview.push(n, &format!("{} x", stamp(time)));
        }
        assert_eq!(remarks(&overview), []);
        assert!(overview.call(NOW).iter().all(|a| a.age == Some(Duration::from_secs(10))));
    }

    #[test]
    fn a_line_without_a_timestamp_gets_the_time_of_the_line_before() {
        let mut overview = overview(1);
        overview.push(0, "plain");
        assert_eq!(overview.call(NOW)[0].time, None);
        overview.push(0, &format!("{} started", stamp(ago(9000))));
        overview.push(0, "plain");
        assert_eq!(overview.call(NOW)[0].time, Some(ago(9000)));
    }

    #[test]
    fn ranks_errors_and_phases_are_detected() {
        let mut overview = overview(4);
        let lines =
            ["[rank3]: x", "rank 15 in world size 16 is assigned", "process_index=7", "rank 3 of the others"];
        for (n, line) in (0..).zip(lines) {
            overview.push(n, line);
        }
        assert_eq!(
            overview.workers.iter().map(|w| w.rank).collect::<Vec<_>>(),
            [Some(3), Some(15), Some(7), None]
        );
        overview.push(0, "ValueError: bad");
        overview.push(1, "Tracing train_step for jaxpr...");
        assert_eq!(remarks(&overview), [(0, WorkerNote::Error, "its last line is an error".into())]);
        assert!(overview.call(NOW).iter().any(|a| a.worker == 1 && a.phase == Some(Phase::Tracing)));
        overview.push(9, "no such worker");
        overview.push(2, &"x".repeat(1 << 20));
        assert!(overview.call(NOW).iter().all(|a| a.line.len() <= MAX_LINE_BYTES));
    }

    proptest! {
        #[test]
        fn equal_workers_are_never_reported(
            workers in 1u32..40, seconds in 0u64..100_000, step in 0u64..1_000_000
        ) {
            let mut overview = overview(workers);
            for n in 0..workers {
                overview.push(n, &format!("{} step {step} loss 2", stamp(ago(seconds))));
            }
            prop_assert_eq!(remarks(&overview), []);
            prop_assert_eq!(overview.call(NOW).len(), workers as usize);
        }

        #[test]
        fn a_stalled_worker_comes_first(workers in 3u32..40, stalled in 120u64..100_000, jitter in 0u64..20) {
            let mut overview = overview(workers);
            for n in 0..workers {
                let seconds = if n == 1 { stalled } else { u64::from(n) * jitter / u64::from(workers) };
                overview.push(n, &format!("{} x", stamp(ago(seconds))));
            }
            let top = &overview.call(NOW)[0];
            prop_assert_eq!((top.worker, top.remark), (1, WorkerNote::Silent));
        }
    }
}
