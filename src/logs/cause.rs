//! Finds the root cause of a failure: the earliest among all errors of all workers and all nodes that died.

use super::fault::{Fault, of_unit};
use super::prefix::{beginning, prefixed};
use super::progress::Patterns;
use super::unit::{Unit, Units};
use crate::model::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A source of lines: a worker, the driver, a file of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The host; sources on the same host have the same clock.
    pub host: String,
    /// Its name on that host, such as `rank 3` or `pid 1073`.
    pub name: String,
    /// Milliseconds that the host's clock is ahead of ours.
    pub ahead_ms: i64,
    /// The uncertainty of that in milliseconds, in either direction: half of the round trip in which it was measured.
    pub unsure_ms: u64,
}

/// An error and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The kind of error.
    pub fault: Fault,
    /// Number of the source; `None` for reports of the cluster.
    pub source: Option<u32>,
    /// The host, or the node that died.
    pub host: String,
    /// Number of its first line, as counted by the caller.
    pub line: u64,
    /// Its time by our clock; `None` if the log has no time.
    pub time: Option<Timestamp>,
    /// Its text: the line, or the last exception of a traceback.
    pub text: String,
    /// The lines of a traceback; empty for a single line.
    pub trace: Vec<String>,
}

/// Errors of one kind that occurred with or after the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The kind of all these errors.
    pub fault: Fault,
    /// Number of errors on all hosts.
    pub errors: u64,
    /// Number of hosts with such errors.
    pub hosts: usize,
    /// The earliest of them.
    pub first: Evidence,
}

/// How certain it is that the first error is the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It is earlier than the errors of all other hosts by more than the clocks may differ.
    Earliest,
    /// Errors of other hosts are so close that the clocks do not determine the order; they are the candidates.
    Close,
    /// Other hosts had lost a worker before: the lost workers logged nothing, or are not among the sources.
    AfterLosses,
    /// All errors are consequences of another one, which is not in these logs.
    OnlyConsequences,
    /// It has no time, or others have none, so the order is not known.
    NoTime,
}

/// The root cause and what followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The earliest error that is not a consequence of another; a consequence if there is no other.
    pub first: Evidence,
    /// How certain it is that `first` is the root cause.
    pub certainty: Certainty,
    /// Errors of other hosts that may also have been first, in order of time, one per host.
    pub candidates: Vec<Evidence>,
    /// Losses of other hosts before it, one per host; see [`Certainty::AfterLosses`].
    pub before: Vec<Evidence>,
    /// All other errors except the candidates: consequences of another worker's failure, and later ones, in the order
    /// of their first times.
    pub followed: Vec<Followed>,
    /// Time from the first error to the next one of another host that is not a consequence.
    pub ahead_of_next: Option<Duration>,
    /// Number of errors after which their worker continued, so that they did not end the run.
    pub survived: u64,
    /// Sources without errors.
    pub silent: Vec<u32>,
}

/// Finds the root cause. All lines of all sources must be added, each source in its own order.
#[derive(Debug)]
pub struct Causes {
    sources: Vec<Source>,
    states: Vec<State>,
    deaths: Vec<Evidence>,
    patterns: Patterns,
}

#[derive(Debug, Default)]
struct State {
    units: Units,
    /// The first errors since it last continued, each with the number of lines before it.
    errors: Vec<(u64, Evidence)>,
    /// Number of further errors, by kind.
    more: BTreeMap<Fault, u64>,
    survived: u64,
    step: Option<u64>,
    /// Number of lines that are not errors.
    ordinary: u64,
}

/// Maximum number of errors kept per source.
const MAX_ERRORS: usize = 32;
/// A source that writes this many more lines that are not errors has survived an error: after a fatal one, a process
/// writes only a few lines.
const WENT_ON: u64 = 200;
/// Maximum number of bytes of an error's text.
const MAX_TEXT_BYTES: usize = 4096;

impl Causes {
    /// The sources, in the order of their numbers. The log of a driver has as many sources as writers
    /// ([`super::Writers`]), because their lines alternate.
    pub fn new(sources: Vec<Source>, patterns: Patterns) -> Self {
        let states = sources.iter().map(|_| State::default()).collect();
        Self { sources, states, deaths: Vec::new(), patterns }
    }

    /// Adds a source; returns its number.
    pub fn add(&mut self, source: Source) -> u32 {
        self.sources.push(source);
        self.states.push(State::default());
        (self.sources.len() - 1) as u32
    }

    /// Records that a node died, with the time (by our clock) and the reason reported by the cluster.
    pub fn node_died(&mut self, host: &str, time: Option<Timestamp>, reason: &str) {
        let (host, text) = (host.to_owned(), beginning(reason, MAX_TEXT_BYTES).to_owned());
        let (source, line, trace) = (None, 0, Vec::new());
        self.deaths.push(Evidence { fault: Fault::NodeDied, source, host, line, time, text, trace });
    }

    /// Adds a line of a source: its number there, its time by that host's clock or that of the line before
    /// ([`super::Times`]), and its text, with or without Ray's prefix.
    pub fn push(&mut self, source: u32, line: u64, time: Option<Timestamp>, text: &str) {
        let at = source as usize;
        let (Some(known), Some(state)) = (self.sources.get(at), self.states.get_mut(at)) else { return };
        let said = prefixed(text);
        let mut units = std::mem::take(&mut state.units);
        units.push((line, time, said.times), said.text, |unit| {
            state.add(unit, (source, known), &self.patterns);
        });
        state.units = units;
    }

    /// The root cause according to the lines so far; `None` if there is no error.
    pub fn explain(&mut self) -> Option<Explanation> {
        for (at, (known, state)) in self.sources.iter().zip(&mut self.states).enumerate() {
            let mut units = std::mem::take(&mut state.units);
            units.flush(|unit| state.add(unit, (at as u32, known), &self.patterns));
        }
        let mut errors: Vec<&Evidence> =
            self.deaths.iter().chain(self.states.iter().flat_map(State::ending)).collect();
        // Errors without a time come last, because they cannot be shown to be early.
        errors.sort_by_key(|e| (e.time.is_none(), e.time, e.source, e.line));
        let first = first_of(&errors)?;
        errors.retain(|e| !std::ptr::eq(*e, first));
        let others = || errors.iter().copied().filter(|e| e.host != first.host);
        // Errors that explain as much as the first one.
        let rivals = || {
            let is_alike = |e: &&Evidence| e.fault.is_consequence() == first.fault.is_consequence();
            others().filter(is_alike).filter(|e| !is_copy_of(e, first))
        };
        let is_close = |e: &&Evidence| match (first.time, e.time) {
            (Some(first_time), Some(time)) => first_time.age(time) <= self.unsure(first, e),
            _ => true,
        };
        let is_before = |e: &&Evidence| match (e.time, first.time) {
            (Some(time), Some(first_time)) => time.age(first_time) > self.unsure(first, e),
            _ => false,
        };
        let candidates = one_of_each_host(rivals().filter(is_close));
        let losses = others().filter(|e| e.fault.is_consequence() && !first.fault.is_consequence());
        let before = one_of_each_host(losses.filter(is_before));
        let certainty = match () {
            () if first.fault.is_consequence() => Certainty::OnlyConsequences,
            () if first.time.is_none() || candidates.iter().any(|e| e.time.is_none()) => Certainty::NoTime,
            () if !before.is_empty() => Certainty::AfterLosses,
            () if !candidates.is_empty() => Certainty::Close,
            () => Certainty::Earliest,
        };
        let named: Vec<(Option<u32>, u64, &str)> =
            candidates.iter().chain(&before).map(|e| (e.source, e.line, &*e.host)).collect();
        let rest: Vec<&Evidence> =
            errors.iter().copied().filter(|e| !named.contains(&(e.source, e.line, &*e.host))).collect();
        let next = rivals().filter_map(|e| e.time).min();
        let none = self.states.iter().enumerate().filter(|(_, s)| s.ending().next().is_none());
        Some(Explanation {
            first: first.clone(),
            certainty,
            followed: self.followed(&rest),
            candidates,
            before,
            ahead_of_next: first.time.zip(next).map(|(first, next)| first.age(next)),
            survived: self.states.iter().map(State::survived).sum(),
            silent: none.map(|(at, _)| at as u32).collect(),
        })
    }

    /// The minimum difference of two times for their order to be known.
    fn unsure(&self, a: &Evidence, b: &Evidence) -> Duration {
        let unsure = |e: &Evidence| {
            let clock = e.source.and_then(|s| self.sources.get(s as usize)).map_or(0, |s| s.unsure_ms);
            // A time in whole seconds may be up to a second too early.
            let is_whole = e.time.is_some_and(|time| time.as_millis() % 1000 == 0);
            clock.saturating_add(if is_whole { 1000 } else { 1 })
        };
        Duration::from_millis(unsure(a).saturating_add(unsure(b)))
    }

    fn followed(&self, rest: &[&Evidence]) -> Vec<Followed> {
        let mut kinds: BTreeMap<Fault, Vec<&Evidence>> = BTreeMap::new();
        for e in rest {
            kinds.entry(e.fault).or_default().push(e);
        }
        let kind = |(fault, all): (Fault, Vec<&Evidence>)| {
            let hosts = all.iter().map(|e| &e.host).collect::<BTreeSet<_>>().len();
            let more: u64 = self.states.iter().filter_map(|s| s.more.get(&fault)).sum();
            Followed { fault, errors: all.len() as u64 + more, hosts, first: all[0].clone() }
        };
        let mut all: Vec<Followed> = kinds.into_iter().map(kind).collect();
        all.sort_by_key(|f| (f.first.time.is_none(), f.first.time, Reverse(f.errors), f.fault));
        all
    }
}

/// The first error that is not a consequence of another; the errors are in order of time.
fn first_of<'a>(errors: &[&'a Evidence]) -> Option<&'a Evidence> {
    let own = || errors.iter().copied().filter(|e| !e.fault.is_consequence());
    // Ray reports a worker's exception to the driver: the worker's own log is preferred, whatever the clocks say.
    let is_copy = |e: &Evidence| own().any(|other| is_copy_of(e, other));
    let first = own().find(|e| !is_copy(e)).or_else(|| own().next()).or_else(|| errors.first().copied())?;
    if first.fault != Fault::Error {
        return Some(first);
    }
    // A logger's line before the traceback, or before the kernel's message, is less informative.
    let is_same = |e: &&Evidence| e.source == first.source && e.fault != Fault::Error;
    let soon =
        |e: &&Evidence| first.time.zip(e.time).is_none_or(|(a, b)| a.age(b) <= Duration::from_secs(10));
    own().filter(is_same).find(soon).or(Some(first))
}

/// Whether it is Ray's report of the other error to the driver, or to a task that waited for it: `RayTaskError` in
/// `ray/exceptions.py` repeats the worker's traceback.
fn is_copy_of(e: &Evidence, other: &Evidence) -> bool {
    let repeats = |e: &Evidence| e.trace.iter().any(|line| line.contains("RayTaskError("));
    repeats(e) && !repeats(other) && e.text == other.text
}

fn one_of_each_host<'a>(all: impl Iterator<Item = &'a Evidence>) -> Vec<Evidence> {
    let mut seen = BTreeSet::new();
    all.filter(|e| seen.insert(&*e.host)).cloned().collect()
}

impl State {
    fn add(&mut self, unit: Unit<'_>, (source, known): (u32, &Source), patterns: &Patterns) {
        let Some(fault) = of_unit(&unit) else {
            self.ordinary += 1;
            if let Some(step) = patterns.step(&unit.text) {
                // It continued, or was restarted: earlier errors did not end this run.
                if self.step != Some(step) {
                    self.survived += self.errors.len() as u64 + self.more.values().sum::<u64>();
                    self.errors.clear();
                    self.more.clear();
                }
                self.step = Some(step);
            }
            return;
        };
        if self.errors.len() >= MAX_ERRORS {
            let gone = self.gone() as usize;
            self.survived += gone as u64;
            self.errors.drain(..gone);
        }
        if self.errors.len() >= MAX_ERRORS {
            *self.more.entry(fault).or_default() += 1;
            return;
        }
        let time = unit.time.map(|t| Timestamp::from_millis(t.as_millis().saturating_sub(known.ahead_ms)));
        let text = beginning(&unit.text, MAX_TEXT_BYTES).to_owned();
        let (source, host) = (Some(source), known.host.clone());
        let evidence = Evidence { fault, source, host, line: unit.line, time, text, trace: unit.trace };
        self.errors.push((self.ordinary, evidence));
    }

    /// Number of the first kept errors that it has survived, according to the lines that it wrote since.
    fn gone(&self) -> u64 {
        self.errors.iter().take_while(|(at, _)| self.ordinary - at > WENT_ON).count() as u64
    }

    /// The errors that it has not survived.
    fn ending(&self) -> impl Iterator<Item = &Evidence> {
        self.errors.iter().skip(self.gone() as usize).map(|(_, e)| e)
    }

    fn survived(&self) -> u64 {
        self.survived + self.gone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: f64) -> Timestamp {
        // Not a whole second, which counts as less exact.
        Timestamp::from_millis(1_795_424_400_007 + (seconds * 1000.0).round() as i64)
    }

    fn causes(workers: u32) -> Causes {
        let source = |n: u32| Source {
            host: format!("host-{}", n / 8),
            name: format!("rank {n}"),
            unsure_ms: 5,
            ..Source::default()
        };
        Causes::new((0..workers).map(source).collect(), Patterns::default())
    }

    const TRACE: [&str; 3] =
        ["Traceback (most recent call last):", "  File \"a.py\", line 3, in f", "ValueError: bad"];

    fn push(causes: &mut Causes, source: u32, seconds: f64, lines: &[&str]) {
        for line in lines {
            causes.push(source, 0, Some(at(seconds)), line);
        }
    }

    /// 24 workers on three hosts are training; one raises an exception, and the others lose it.
    fn story() -> Causes {
        let mut causes = causes(24);
        for n in 0..24 {
            push(
                &mut causes,
                n,
                1.0,
                &["E1123 connecting: Connection refused", "step 1 loss 2", "step 2 loss 2"],
            );
            if n == 13 {
                push(&mut causes, n, 60.0, &["2026-11-23 ERROR x step failed"]);
                push(&mut causes, n, 60.001, &TRACE);
            } else {
                push(
                    &mut causes,
                    n,
                    61.0 + f64::from(n) / 100.0,
                    &["XlaRuntimeError: UNAVAILABLE: Socket closed"],
                );
                push(&mut causes, n, 62.0, &["Fatal Python error: Aborted"]);
            }
        }
        causes
    }

    #[test]
    fn the_worker_that_failed_first_is_named_with_what_followed() {
        let found = story().explain().unwrap();
        assert_eq!(
            (found.first.source, found.first.host.as_str(), found.first.fault),
            (Some(13), "host-1", Fault::Exception)
        );
        assert_eq!((found.first.text.as_str(), found.first.trace.len()), ("ValueError: bad", 3));
        assert_eq!(found.certainty, Certainty::Earliest);
        assert_eq!(found.ahead_of_next, Some(Duration::from_millis(1999)), "the signals");
        let followed: Vec<_> = found.followed.iter().map(|f| (f.fault, f.errors, f.hosts)).collect();
        let in_order = [(Fault::Error, 1, 1), (Fault::PeerLost, 23, 3), (Fault::Signal, 23, 3)];
        assert_eq!(followed, in_order, "as they came");
        assert_eq!((found.survived, found.silent.len()), (24, 0), "the connections before the first step");
    }

    #[test]
    fn a_node_that_died_before_it_is_the_cause() {
        let mut causes = story();
        causes.node_died("host-2", Some(at(59.0)), "preempted");
        let found = causes.explain().unwrap();
        assert_eq!((found.first.fault, found.first.host.as_str()), (Fault::NodeDied, "host-2"));
    }

    #[test]
    fn errors_whose_order_the_clocks_cannot_determine_are_candidates() {
        let mut causes = causes(24);
        for n in [3, 4, 13, 21] {
            let seconds = if n == 21 { 70.0 } else { 60.0 + f64::from(n) / 1000.0 };
            push(&mut causes, n, seconds, &TRACE);
        }
        let found = causes.explain().unwrap();
        assert_eq!((found.first.source, found.certainty), (Some(3), Certainty::Close));
        assert_eq!(
            found.candidates.iter().map(|e| e.source).collect::<Vec<_>>(),
            [Some(13)],
            "not of its own host"
        );
        assert_eq!(found.silent.len(), 20);
    }

    #[test]
    fn a_clock_that_is_an_hour_off_is_corrected() {
        let mut causes = causes(16);
        causes.sources[0].ahead_ms = 3_600_000;
        push(&mut causes, 0, 3_600.0, &TRACE);
        push(&mut causes, 9, 5.0, &TRACE);
        let found = causes.explain().unwrap();
        assert_eq!(
            (found.first.source, found.first.time, found.certainty),
            (Some(0), Some(at(0.0)), Certainty::Earliest)
        );
    }

    #[test]
    fn consequences_alone_are_not_reported_as_the_cause() {
        let mut causes = causes(16);
        push(&mut causes, 3, 1.0, &["XlaRuntimeError: UNAVAILABLE: Socket closed"]);
        push(&mut causes, 9, 2.0, &["ray.exceptions.ActorDiedError: The actor died unexpectedly"]);
        let found = causes.explain().unwrap();
        assert_eq!((found.first.source, found.certainty), (Some(3), Certainty::OnlyConsequences));
        // A worker that fails after others lost one is not the cause of that.
        push(&mut causes, 10, 5.0, &TRACE);
        let found = causes.explain().unwrap();
        assert_eq!((found.first.source, found.certainty), (Some(10), Certainty::AfterLosses));
        assert_eq!(
            found.before.iter().map(|e| e.source).collect::<Vec<_>>(),
            [Some(3)],
            "the other one is its host"
        );
    }

    #[test]
    fn the_drivers_copy_of_a_workers_error_is_not_a_candidate() {
        let mut causes = causes(16);
        let copy = [
            TRACE[0],
            "  File \"d.py\", line 1, in g",
            "ray.exceptions.RayTaskError(ValueError): ray::f() (pid=3)",
            TRACE[1],
            TRACE[2],
        ];
        // The driver's clock is a little behind.
        push(&mut causes, 15, 0.0, &copy);
        push(&mut causes, 0, 0.004, &TRACE);
        let found = causes.explain().unwrap();
        assert_eq!((found.first.source, found.certainty), (Some(0), Certainty::Earliest));
        assert!(found.candidates.is_empty());
    }

    #[test]
    fn an_error_that_its_worker_survived_is_no_cause() {
        let mut causes = causes(2);
        push(&mut causes, 0, 0.0, &["ERROR cannot upload metrics"]);
        push(&mut causes, 0, 1.0, &vec!["ordinary"; WENT_ON as usize + 1]);
        assert_eq!(causes.explain(), None);
        for n in 0..100 {
            push(&mut causes, 0, f64::from(n), &["ERROR again", "CUDA out of memory"]);
        }
        let found = causes.explain().unwrap();
        assert_eq!((found.first.text.as_str(), found.survived), ("CUDA out of memory", 1), "it says more");
        assert_eq!(found.followed.iter().map(|f| f.errors).sum::<u64>(), 199);
    }

    #[test]
    fn without_times_the_order_is_not_known() {
        let mut causes = causes(16);
        for n in [3, 12] {
            for line in TRACE {
                causes.push(n, 0, None, line);
            }
        }
        let found = causes.explain().unwrap();
        assert_eq!((found.certainty, found.candidates.len()), (Certainty::NoTime, 1));
        assert_eq!(Causes::new(Vec::new(), Patterns::default()).explain(), None);
    }

    proptest! {
        #[test]
        fn the_earliest_of_its_kind_is_found(times in prop::collection::vec(0u32..100_000, 1..24)) {
            let mut causes = causes(24);
            for (n, ms) in times.iter().enumerate() {
                push(&mut causes, n as u32, f64::from(*ms) / 1000.0, &TRACE);
            }
            let found = causes.explain().unwrap();
            let first = found.first.source.unwrap() as usize;
            prop_assert_eq!(times[first], *times.iter().min().unwrap());
            let errors: u64 = found.followed.iter().map(|f| f.errors).sum();
            prop_assert_eq!(errors as usize + found.candidates.len(), times.len() - 1);
            let is_sure = found.certainty == Certainty::Earliest;
            prop_assert_eq!(is_sure, found.candidates.is_empty());
        }
    }
}
