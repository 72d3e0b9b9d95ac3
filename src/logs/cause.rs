//! Finds the root cause of a failure: the earliest among all errors of all workers and all nodes that died.

use super::fault::{Fault, of_unit};
use super::prefix::{beginning, prefixed};
use super::progress::Patterns;
use super::time::Clock;
use super::unit::{Unit, Units};
use crate::model::Timestamp;
use crate::model::sort;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
    /// Number of the process whose output it is, if several sources are: they show together whether it survived an
    /// error.
    pub process: Option<u32>,
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
    /// Other hosts had lost a worker before: the lost workers logged nothing, or are not among the sources. Or there
    /// were failures before it after which the run continued.
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
    /// Failures after which the run continued, one per host, and losses of other hosts before it, one per host; see
    /// [`Certainty::AfterLosses`].
    pub before: Vec<Evidence>,
    /// All other errors except the candidates: consequences of another worker's failure, and later ones, in the order
    /// of their first times.
    pub followed: Vec<Followed>,
    /// Time from the first error to the next one of another host that is not a consequence.
    pub ahead_of_next: Option<Duration>,
    /// Number of other errors after which their worker or the run continued, so that they did not end the run.
    pub survived: u64,
    /// Whether the run continued after `first`, and no later error explains its end.
    pub is_outlived: bool,
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
    /// The last traceback of the driver; empty if the driver continued after it.
    raised: Vec<String>,
    /// When the driver last reported a new step.
    stepped: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct State {
    units: Units,
    /// The first and the last errors since it last continued.
    errors: Vec<Kept>,
    /// Number of the errors between them, by kind.
    more: BTreeMap<Fault, u64>,
    survived: u64,
    step: Option<u64>,
    /// When it last reported a new step.
    stepped: Option<Timestamp>,
    /// The time of its last line.
    last: Option<Timestamp>,
    /// Whether it reported steps without timestamps since then, so that it was alive later than that.
    is_stale: bool,
    /// Number of lines that are not errors.
    ordinary: u64,
    /// The times of the last of them, one more than [`WENT_ON`].
    times: VecDeque<Option<Timestamp>>,
}

/// An error of a source.
#[derive(Debug)]
struct Kept {
    /// Number of lines before it that are not errors.
    ordinary: u64,
    /// A time at which it had certainly occurred: its own, or that of a later line. The time of an error without a
    /// timestamp is that of the line before, which may be hours older.
    until: Option<Timestamp>,
    evidence: Evidence,
}

/// What all sources of a process show about the end of one of them.
#[derive(Clone, Copy, Debug)]
struct Activity {
    /// When another source showed that the process continues.
    continued: Option<Timestamp>,
    /// When the process last reported a new step.
    stepped: Option<Timestamp>,
    /// The time of the last line of the process, if it reports steps; `None` if it was alive later than that.
    last: Option<Timestamp>,
}

/// The errors, in order of time.
struct Compared<'a> {
    /// Those that may have ended the run.
    errors: Vec<&'a Evidence>,
    /// Those after which the run continued, if others may have ended it.
    past: Vec<&'a Evidence>,
    /// Whether the run continued after all errors that are not consequences.
    is_outlived: bool,
}

/// Maximum number of errors kept per source.
const MAX_ERRORS: usize = 32;
/// A source that writes this many more lines that are not errors has survived an error: after a fatal one, a process
/// writes only a few lines.
const WENT_ON: u64 = 200;
/// A run that reports new steps this long after a failure has survived it: workers that depend on the failed one have
/// stopped by then.
const OUTLIVED: Duration = Duration::from_secs(300);
/// Maximum number of bytes of an error's text.
const MAX_TEXT_BYTES: usize = 4096;

impl Causes {
    /// The sources, in the order of their numbers. The log of a driver has as many sources as writers
    /// ([`super::Writers`]), because their lines alternate.
    pub fn new(sources: Vec<Source>, patterns: Patterns) -> Self {
        let states = sources.iter().map(|_| State::default()).collect();
        Self { sources, states, deaths: Vec::new(), patterns, raised: Vec::new(), stepped: None }
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

    /// Reads the driver's own lines, with their times, for its steps and for the exception that ended it. Their errors
    /// are compared only if they are added to source 0 ([`Self::push`]).
    pub fn read_driver<'l>(&mut self, lines: impl IntoIterator<Item = (Option<Timestamp>, &'l str)>) {
        let ahead_ms = self.sources.first().map_or(0, |driver| driver.ahead_ms);
        let (mut units, mut last_step, mut raised_at) = (Units::default(), None, None);
        let mut read = |unit: Unit<'_>| {
            if unit.is_traceback() {
                (raised_at, self.raised) = (unit.time, unit.trace);
                return;
            }
            if has_outlived(raised_at, unit.time) {
                self.raised.clear();
            }
            let step = self.patterns.step(&unit.text);
            if step.is_some() && step != last_step {
                self.stepped = self.stepped.max(unit.time.map(|time| by_our_clock(time, ahead_ms)));
                last_step = step;
            }
        };
        for (time, text) in lines {
            units.push((0, time, 1), prefixed(text).text, &mut read);
        }
        units.flush(&mut read);
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
        self.flush();
        let activities = self.activities();
        let Compared { mut errors, past, is_outlived } = self.compared(&activities);
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
        let is_copy = |e: &Evidence| is_copied(e, past.iter().chain(&errors).copied());
        let failures = past.iter().copied().filter(|e| !e.fault.is_consequence() && !is_copy(e));
        let mut before = one_of_each_host(failures);
        let other_past = past.len() - before.len();
        before.extend(one_of_each_host(losses.filter(is_before)));
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
        let ending = |at: usize| self.ending(at, &activities);
        let silent = (0..self.states.len()).filter(|at| ending(*at).next().is_none());
        // The errors that were not kept are later than the first kept one.
        let is_open = |at: &usize| {
            let first = ending(*at).next().map(|kept| &kept.evidence);
            let kept = self.states[*at].errors.first().map(|kept| &kept.evidence);
            let is_first = first.zip(kept).is_some_and(|(first, kept)| std::ptr::eq(first, kept));
            is_first && !past.iter().any(|e| first.is_some_and(|first| std::ptr::eq(*e, first)))
        };
        let more = (0..self.states.len()).filter(|at| !self.states[*at].more.is_empty());
        let open: BTreeSet<usize> = sort::collected(more.filter(is_open));
        let survived = |(at, state): (usize, &State)| {
            let more: u64 = if open.contains(&at) { 0 } else { state.more.values().sum() };
            state.survived + (state.errors.len() - ending(at).count()) as u64 + more
        };
        Some(Explanation {
            first: first.clone(),
            certainty,
            followed: self.followed(&rest, &open),
            candidates,
            before,
            ahead_of_next: first.time.zip(next).map(|(first, next)| first.age(next)),
            survived: self.states.iter().enumerate().map(survived).sum::<u64>() + other_past as u64,
            silent: silent.map(|at| at as u32).collect(),
            is_outlived,
        })
    }

    /// Ends open tracebacks.
    fn flush(&mut self) {
        for (at, (known, state)) in self.sources.iter().zip(&mut self.states).enumerate() {
            let mut units = std::mem::take(&mut state.units);
            units.flush(|unit| state.add(unit, (at as u32, known), &self.patterns));
        }
    }

    /// By source: what it and the other sources of its process show.
    fn activities(&self) -> Vec<Activity> {
        let mut processes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, source) in self.sources.iter().enumerate() {
            if let Some(process) = source.process {
                processes.entry(process).or_default().push(at);
            }
        }
        let activity = |(at, source): (usize, &Source)| {
            let own = &self.states[at];
            let mut continued: Option<Timestamp> = None;
            let (mut last, mut has_steps) = (own.last, own.step.is_some());
            let (mut stepped, mut is_stale) = (own.stepped, own.is_stale);
            let all = source.process.and_then(|process| processes.get(&process));
            for other in all.into_iter().flatten().filter(|other| **other != at) {
                let other = &self.states[*other];
                continued = continued.max(other.stepped).max(other.went_on());
                last = last.max(other.last);
                has_steps |= other.step.is_some();
                stepped = stepped.max(other.stepped);
                is_stale |= other.is_stale;
            }
            Activity { continued, stepped, last: last.filter(|_| has_steps && !is_stale) }
        };
        self.sources.iter().enumerate().map(activity).collect()
    }

    /// The errors of a source that its process has not survived.
    fn ending<'s>(&'s self, at: usize, activities: &[Activity]) -> impl Iterator<Item = &'s Kept> + use<'s> {
        let state = &self.states[at];
        let continued = activities[at].continued;
        let is_survived =
            move |kept: &Kept| kept.until.zip(continued).is_some_and(|(until, continued)| until < continued);
        state.errors.iter().skip(state.gone() as usize).filter(move |kept| !is_survived(kept))
    }

    /// Separates the errors after which the run continued from those that may have ended it. If there is none of the
    /// latter, any may have: independent workers may fail long before the driver notices.
    fn compared(&self, activities: &[Activity]) -> Compared<'_> {
        let any_step = activities.iter().filter_map(|activity| activity.stepped).max().max(self.stepped);
        // The errors, each with a time at which it had occurred.
        let mut all: Vec<(&Evidence, Option<Timestamp>)> = self.deaths.iter().map(|e| (e, e.time)).collect();
        for (at, activity) in activities.iter().enumerate() {
            let kept = self.ending(at, activities);
            all.extend(kept.map(|kept| (&kept.evidence, kept.until.or(activity.last))));
        }
        // Errors without a time come last, because they cannot be shown to be early.
        sort::by_key(&mut all, |(e, _)| (e.time.is_none(), e.time, e.source, e.line));
        // What the driver raised at its end has ended the run, however old it is, unless it occurred again.
        let is_raised = |e: &Evidence| self.raised.contains(&e.text);
        let split = |step: Option<Timestamp>| {
            let is_again =
                all.iter().any(|(e, until)| !has_outlived(*until, step) && is_raised(e) && !is_report(e));
            let is_past = |(e, until): &(&Evidence, Option<Timestamp>)| {
                has_outlived(*until, step) && (is_again || !is_raised(e))
            };
            all.iter().copied().partition::<Vec<_>, _>(is_past)
        };
        let is_cause = |(e, _): &(&Evidence, Option<Timestamp>)| {
            !e.fault.is_consequence() && !is_copied(e, all.iter().map(|(other, _)| *other))
        };
        // The steps of another process do not show that the one that failed had continued: their task may not depend on
        // what failed before.
        let step_before = |e: &Evidence| {
            let at = e.source.map(|source| source as usize);
            let at = at.filter(|at| self.sources[*at].process.is_some());
            at.map_or(any_step, |at| activities[at].stepped.max(self.stepped))
        };
        let (past, errors) = split(any_step);
        let last_step = errors.iter().filter(|known| is_cause(known)).map(|(e, _)| step_before(e)).max();
        let Some(last_step) = last_step else {
            let is_outlived = past.iter().any(is_cause);
            return Compared { errors: evidence_of(all), past: Vec::new(), is_outlived };
        };
        let (past, errors) = split(last_step);
        Compared { errors: evidence_of(errors), past: evidence_of(past), is_outlived: false }
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

    /// The rest of the errors by kind. `open` are the sources whose errors that were not kept belong to them.
    fn followed(&self, rest: &[&Evidence], open: &BTreeSet<usize>) -> Vec<Followed> {
        let mut kinds: BTreeMap<Fault, Vec<&Evidence>> = BTreeMap::new();
        for e in rest {
            kinds.entry(e.fault).or_default().push(e);
        }
        let kind = |(fault, all): (Fault, Vec<&Evidence>)| {
            let hosts = sort::distinct(all.iter().map(|e| &e.host)).len();
            let more: u64 = open.iter().filter_map(|at| self.states[*at].more.get(&fault)).sum();
            Followed { fault, errors: all.len() as u64 + more, hosts, first: all[0].clone() }
        };
        let mut all: Vec<Followed> = kinds.into_iter().map(kind).collect();
        sort::by_key(&mut all, |f| (f.first.time.is_none(), f.first.time, Reverse(f.errors), f.fault));
        all
    }
}

/// The first error that is not a consequence of another; the errors are in order of time.
fn first_of<'a>(errors: &[&'a Evidence]) -> Option<&'a Evidence> {
    let own = || errors.iter().copied().filter(|e| !e.fault.is_consequence());
    // Ray reports a worker's exception to the driver: the worker's own log is preferred, whatever the clocks say.
    let is_copy = |e: &Evidence| is_copied(e, own());
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
    is_copied(e, std::iter::once(other))
}

/// Whether it is a copy of any of the others, as in [`is_copy_of`].
fn is_copied<'a>(e: &Evidence, mut others: impl Iterator<Item = &'a Evidence>) -> bool {
    is_report(e) && others.any(|other| e.text == other.text && !is_report(other))
}

fn evidence_of(all: Vec<(&Evidence, Option<Timestamp>)>) -> Vec<&Evidence> {
    all.into_iter().map(|(e, _)| e).collect()
}

/// Whether it is Ray's report of an error of another worker.
fn is_report(e: &Evidence) -> bool {
    e.trace.iter().any(|line| line.contains("RayTaskError("))
}

/// Whether the later time shows that the run survived what happened at the first one.
fn has_outlived(time: Option<Timestamp>, later: Option<Timestamp>) -> bool {
    time.zip(later).is_some_and(|(time, later)| time.plus(OUTLIVED) < later)
}

/// A time of a clock that is ahead of ours by this many milliseconds.
const fn by_our_clock(time: Timestamp, ahead_ms: i64) -> Timestamp {
    Timestamp::from_millis(time.as_millis().saturating_sub(ahead_ms))
}

/// Whether the first line of a unit has a timestamp.
fn is_stamped(unit: &Unit<'_>, time: Timestamp) -> bool {
    Clock::utc(time).time(unit.trace.first().map_or(&*unit.text, String::as_str)).is_some()
}

fn one_of_each_host<'a>(all: impl Iterator<Item = &'a Evidence>) -> Vec<Evidence> {
    let mut seen = BTreeSet::new();
    all.filter(|e| seen.insert(&*e.host)).cloned().collect()
}

impl State {
    fn add(&mut self, unit: Unit<'_>, (source, known): (u32, &Source), patterns: &Patterns) {
        let time = unit.time.map(|time| by_our_clock(time, known.ahead_ms));
        // A line without a timestamp has the time of the line before.
        let is_new = time.is_some() && time != self.last;
        if is_new {
            for kept in self.errors.iter_mut().filter(|kept| kept.until.is_none()) {
                kept.until = time.max(kept.evidence.time);
            }
            (self.last, self.is_stale) = (time, false);
        }
        let Some(fault) = of_unit(&unit) else {
            self.add_ordinary(&unit, (time, is_new), patterns);
            return;
        };
        if self.errors.len() >= MAX_ERRORS {
            let gone = self.gone() as usize;
            self.survived += gone as u64;
            self.errors.drain(..gone);
        }
        if self.errors.len() >= MAX_ERRORS {
            // The last errors stay, because the first ones may turn out to be survived.
            let dropped = self.errors.remove(MAX_ERRORS / 2);
            *self.more.entry(dropped.evidence.fault).or_default() += 1;
        }
        let until = time.filter(|time| is_new || is_stamped(&unit, *time));
        let text = beginning(&unit.text, MAX_TEXT_BYTES).to_owned();
        let (source, host) = (Some(source), known.host.clone());
        let evidence = Evidence { fault, source, host, line: unit.line, time, text, trace: unit.trace };
        self.errors.push(Kept { ordinary: self.ordinary, until, evidence });
    }

    /// Adds a line that is not an error, and whether its time differs from that of the line before.
    fn add_ordinary(
        &mut self,
        unit: &Unit<'_>,
        (time, is_new): (Option<Timestamp>, bool),
        patterns: &Patterns,
    ) {
        self.ordinary += 1;
        if self.times.len() as u64 > WENT_ON {
            self.times.pop_front();
        }
        self.times.push_back(time);
        let Some(step) = patterns.step(&unit.text) else { return };
        self.is_stale |= !is_new && time.is_none_or(|time| !is_stamped(unit, time));
        if self.step != Some(step) {
            // It continued, or was restarted: earlier errors did not end this run.
            self.survived += self.errors.len() as u64 + self.more.values().sum::<u64>();
            self.errors.clear();
            self.more.clear();
            self.stepped = self.stepped.max(time);
        }
        self.step = Some(step);
    }

    /// Number of the first kept errors that it has survived, according to the lines that it wrote since.
    fn gone(&self) -> u64 {
        self.errors.iter().take_while(|kept| self.ordinary - kept.ordinary > WENT_ON).count() as u64
    }

    /// The time of the line that [`WENT_ON`] other lines follow, without the errors.
    fn went_on(&self) -> Option<Timestamp> {
        self.times.front().filter(|_| self.times.len() as u64 > WENT_ON).copied().flatten()
    }
}

#[cfg(test)]
mod tests;
