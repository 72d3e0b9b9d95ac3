//! The first cause of a failure: of all errors of all workers, and of the nodes that died, the one before all others.

use super::fault::{Fault, fault};
use super::level::Level;
use super::prefix::prefixed;
use super::progress::Patterns;
use super::unit::{Unit, Units};
use crate::model::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A source of lines: a worker, the driver, a file of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The host; sources with the same one have the same clock.
    pub host: String,
    /// What it is on that host, as `rank 3` or `pid 1073`.
    pub name: String,
    /// Milliseconds that the host's clock is ahead of ours.
    pub ahead_ms: i64,
    /// How wrong that may be, in milliseconds either way; half of the round trip in which it was measured.
    pub unsure_ms: u64,
}

/// An error, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What kind of error.
    pub fault: Fault,
    /// Number of the source; none for what the cluster reports.
    pub source: Option<u32>,
    /// The host, or the node that died.
    pub host: String,
    /// Number of its first line, as the caller counts them.
    pub line: u64,
    /// When, by our clock; none if the log says no time.
    pub time: Option<Timestamp>,
    /// What it says.
    pub text: String,
    /// The lines of a traceback; empty for a line of its own.
    pub trace: Vec<String>,
}

/// Errors of one kind that follow from the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// What kind.
    pub fault: Fault,
    /// How many.
    pub errors: u64,
    /// On how many hosts.
    pub hosts: usize,
    /// The earliest of them.
    pub first: Evidence,
}

/// How sure it is that the first one is the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It is earlier than every other error of another host by more than the clocks may differ.
    Earliest,
    /// Errors of other hosts are so close that the clocks cannot tell which was first.
    Close,
    /// The logs have only errors that follow from another one: the cause is not in them.
    OnlyConsequences,
    /// It says no time, or others say none: the order is not known.
    NoTime,
}

/// The first cause and what followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The earliest error that no other one explains; of those that follow if there is no other.
    pub first: Evidence,
    /// How sure that is.
    pub certainty: Certainty,
    /// Errors of other hosts that may have been first as well, in the order of their times.
    pub candidates: Vec<Evidence>,
    /// What came later: what follows from another worker's failure, and other errors, most frequent first.
    pub followed: Vec<Followed>,
    /// How long after the first one the next error of another host came.
    pub ahead_of_next: Option<Duration>,
    /// Errors after which their worker still made progress: none of them ended the run.
    pub survived: u64,
    /// Sources without any error.
    pub silent: Vec<u32>,
}

/// Finds the first cause. Feed it all lines of all sources, each source in its own order.
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
    errors: Vec<Evidence>,
    /// Errors beyond those that are kept, by kind.
    more: BTreeMap<Fault, u64>,
    survived: u64,
    step: Option<u64>,
}

/// Errors that are kept of a source: the first ones since it last made progress.
const KEPT: usize = 32;

impl Causes {
    /// The sources, in the order of their numbers.
    pub fn new(sources: Vec<Source>, patterns: Patterns) -> Self {
        let states = sources.iter().map(|_| State::default()).collect();
        Self { sources, states, deaths: Vec::new(), patterns }
    }

    /// States that a node died, when (by our clock) and why, as the cluster reports it.
    pub fn node_died(&mut self, host: &str, time: Option<Timestamp>, reason: &str) {
        let (host, text) = (host.to_owned(), reason.to_owned());
        let (source, line, trace) = (None, 0, Vec::new());
        self.deaths.push(Evidence { fault: Fault::NodeDied, source, host, line, time, text, trace });
    }

    /// Takes in a line of a source: its number there, its time by that host's clock or that of the line before it
    /// ([`super::Times`]), and its text, with Ray's prefix or without.
    pub fn push(&mut self, source: u32, line: u64, time: Option<Timestamp>, text: &str) {
        let at = source as usize;
        let (Some(known), Some(state)) = (self.sources.get(at), self.states.get_mut(at)) else { return };
        let said = prefixed(text);
        let State { units, .. } = state;
        let mut units = std::mem::take(units);
        let patterns = &self.patterns;
        units.push((line, time, said.times), said.text, |unit| state.add(unit, (source, known), patterns));
        state.units = units;
    }

    /// The first cause, of what has been read so far; none if there is no error.
    pub fn explain(&mut self) -> Option<Explanation> {
        for (at, (known, state)) in self.sources.iter().zip(&mut self.states).enumerate() {
            let mut units = std::mem::take(&mut state.units);
            units.flush(|unit| state.add(unit, (at as u32, known), &self.patterns));
        }
        let mut errors: Vec<&Evidence> =
            self.deaths.iter().chain(self.states.iter().flat_map(|s| &s.errors)).collect();
        // What says no time goes last: it cannot be shown to be early.
        errors.sort_by_key(|e| (e.fault.is_consequence(), e.time.is_none(), e.time, e.source, e.line));
        let first = *errors.first()?;
        let rest: Vec<&Evidence> = errors[1..].to_vec();
        let others = || rest.iter().copied().filter(|e| e.host != first.host);
        let comparable = |e: &&Evidence| e.fault.is_consequence() == first.fault.is_consequence();
        let is_close = |e: &&Evidence| match (first.time, e.time) {
            (Some(first_time), Some(time)) => first_time.age(time) <= self.unsure(first, e),
            _ => true,
        };
        let mut seen = BTreeSet::new();
        let candidates: Vec<Evidence> = others()
            .filter(comparable)
            .filter(is_close)
            .filter(|e| seen.insert(e.host.clone()))
            .cloned()
            .collect();
        let certainty = match () {
            () if first.fault.is_consequence() => Certainty::OnlyConsequences,
            () if first.time.is_none() => Certainty::NoTime,
            () if candidates.iter().any(|e| e.time.is_none()) => Certainty::NoTime,
            () if !candidates.is_empty() => Certainty::Close,
            () => Certainty::Earliest,
        };
        let next = others().filter(comparable).filter_map(|e| e.time).min();
        Some(Explanation {
            first: first.clone(),
            certainty,
            followed: self.followed(&rest, &candidates),
            candidates,
            ahead_of_next: first.time.zip(next).map(|(first, next)| first.age(next)),
            survived: self.states.iter().map(|s| s.survived).sum(),
            silent: self.without_error(),
        })
    }

    /// How far apart two times must be for their order to be known.
    fn unsure(&self, a: &Evidence, b: &Evidence) -> Duration {
        let unsure = |e: &Evidence| {
            let clock = e.source.and_then(|s| self.sources.get(s as usize)).map_or(0, |s| s.unsure_ms);
            // A time in whole seconds is up to a second early.
            let whole = e.time.is_some_and(|time| time.as_millis() % 1000 == 0);
            clock + if whole { 1000 } else { 1 }
        };
        Duration::from_millis(unsure(a) + unsure(b))
    }

    fn followed(&self, rest: &[&Evidence], candidates: &[Evidence]) -> Vec<Followed> {
        let mut kinds: BTreeMap<Fault, (u64, BTreeSet<&str>, &Evidence)> = BTreeMap::new();
        for e in rest.iter().filter(|e| !candidates.contains(e)) {
            let kind = kinds.entry(e.fault).or_insert_with(|| (0, BTreeSet::new(), e));
            kind.0 += 1;
            kind.1.insert(&e.host);
        }
        let mut all: Vec<Followed> = kinds
            .into_iter()
            .map(|(fault, (errors, hosts, first))| {
                let more: u64 = self.states.iter().filter_map(|s| s.more.get(&fault)).sum();
                Followed { fault, errors: errors + more, hosts: hosts.len(), first: first.clone() }
            })
            .collect();
        all.sort_by_key(|f| (std::cmp::Reverse(f.errors), f.fault));
        all
    }

    fn without_error(&self) -> Vec<u32> {
        let none = self.states.iter().enumerate().filter(|(_, s)| s.errors.is_empty());
        none.map(|(at, _)| at as u32).collect()
    }
}

impl State {
    fn add(&mut self, unit: Unit<'_>, (source, known): (u32, &Source), patterns: &Patterns) {
        let Some(fault) = of_unit(&unit) else {
            if let Some(step) = patterns.step(&unit.text) {
                // It went on, or was started again: what went before did not end the run.
                if self.step.is_some_and(|last| last != step) || self.step.is_none() {
                    self.survived += self.errors.len() as u64 + self.more.values().sum::<u64>();
                    self.errors.clear();
                    self.more.clear();
                }
                self.step = Some(step);
            }
            return;
        };
        if self.errors.len() >= KEPT {
            *self.more.entry(fault).or_default() += 1;
            return;
        }
        let time = unit.time.map(|t| Timestamp::from_millis(t.as_millis().saturating_sub(known.ahead_ms)));
        self.errors.push(Evidence {
            fault,
            source: Some(source),
            host: known.host.clone(),
            line: unit.line,
            time,
            text: unit.text.into_owned(),
            trace: unit.trace,
        });
    }
}

/// The kind of error that a unit is; none if it is none. A traceback is what its exceptions are: a frame may name
/// anything.
fn of_unit(unit: &Unit<'_>) -> Option<Fault> {
    if unit.is_traceback() {
        let said = unit
            .trace
            .iter()
            .filter(|line| !line.starts_with([' ', '\t']) && !line.contains("Traceback (most"));
        let all =
            said.filter_map(|line| fault(line)).filter(|f| !matches!(f, Fault::Exception | Fault::Error));
        // One that says what happened explains the others of the chain.
        return Some(all.min().unwrap_or(Fault::Exception));
    }
    if super::noise::noise(&unit.text).is_some() {
        return None;
    }
    match (fault(&unit.text), unit.level) {
        // A warning or an information that names another worker's end is no error of this one.
        (Some(found), Some(Level::Debug | Level::Info | Level::Warning)) => {
            let is_certain =
                matches!(found, Fault::Preempted | Fault::HostMemory | Fault::Signal | Fault::Hardware);
            is_certain.then_some(found)
        }
        (Some(found), _) => Some(found),
        (None, Some(Level::Error)) => Some(Fault::Error),
        (None, _) => None,
    }
}
