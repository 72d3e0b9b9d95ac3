//! Plays a [`Life`]: a queue of future events, each of which changes the cluster at its own time. There is no work per
//! second, so the cost depends on events and not on the size of the cluster; the same seed gives the same events,
//! however often the cluster is read.

use super::super::cluster::node::first_host;
use super::super::cluster::state::State;
use super::super::random::Random;
use super::super::scenario::Scenario;
use super::Life;
use super::gang::Gang;
use super::slice::{Kind, Slice};
use super::tale::Tale;
use super::work::Work;
use crate::model::NodeId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

/// The autoscaler's loop, in milliseconds.
const LOOP: i64 = 5000;
/// How long before the simulation begins a stuck autoscaler ran into its exception, in milliseconds.
const STUCK_SINCE: i64 = 25 * 60_000;

/// A future event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The autoscaler works through its loop.
    Look,
    /// Somebody submits a job.
    Arrive,
    /// A job's runtime environment is there.
    SetUp(usize),
    /// A job's work is done, if nothing came between: the number counts its turns on a slice.
    End(usize, u32),
    /// The first of a job's workers fails, if nothing came between.
    Break(usize, u32),
    /// Google takes a slice back.
    Preempt,
    /// The GCS misses the heartbeats of a slice's hosts.
    Lost(u64),
    /// The autoscaler sees that a slice's machines are no use any more, and deletes them.
    Noticed(u64),
    /// Google has made a slice's machines, or says why not.
    Launched(u64),
    /// A slice's next host joins.
    Join(u64),
    /// A slice has had no work for long, if nothing came between.
    Idle(u64, u32),
    /// Half of the hosts of a slice die.
    Halve(u64),
    /// Every slice dies, and the autoscaler does not notice.
    Stick,
}

/// The simulated activity of a cluster.
pub(in crate::demo) struct Engine {
    /// What to play.
    pub(super) life: Life,
    /// Lines a second of each job that trains.
    pub(super) log_rate: u64,
    /// Everything that looks random here.
    pub(super) random: Random,
    /// The node types, and what waits for them.
    pub(super) kinds: Vec<Kind>,
    /// Slices, from the request until the last host is gone.
    pub(super) slices: BTreeMap<u64, Slice>,
    /// Lost slices whose machines were not deleted: they hold quota.
    pub(super) left: BTreeMap<u64, Slice>,
    /// Jobs that have not ended, by their place in the job table.
    pub(super) work: HashMap<usize, Work>,
    /// The workers of the latest runs, oldest first.
    pub(in crate::demo) gangs: Vec<Gang>,
    /// Accelerator types that nobody offers, and how many jobs wait for each.
    pub(super) infeasible: BTreeMap<String, i64>,
    /// `monitor.log`.
    pub(super) monitor_log: Tale,
    /// Hosts so far: the next one's number.
    pub(super) hosts: usize,
    /// The moment of the event that is being played.
    pub(super) now: i64,
    /// Whether the autoscaler's loop throws.
    pub stuck: bool,
    /// Whether the demand or the machines have changed since the last look.
    pub(super) changed: bool,
    due: BinaryHeap<Reverse<(i64, u64, Event)>>,
    serial: u64,
}

impl Engine {
    /// Nothing has happened yet at `began`.
    pub fn new(life: &Life, scenario: &Scenario, began: i64) -> Self {
        Self {
            kinds: life.types.iter().map(|t| Kind::new(t, &life.zone)).collect(),
            life: life.clone(),
            log_rate: scenario.log_rate,
            random: Random::new(scenario.seed ^ 0x6c69_6665),
            slices: BTreeMap::new(),
            left: BTreeMap::new(),
            work: HashMap::new(),
            gangs: Vec::new(),
            infeasible: BTreeMap::new(),
            monitor_log: Tale::new(super::train::Run::default()),
            hosts: first_host(scenario.network) + scenario.dead,
            now: began,
            stuck: false,
            changed: true,
            due: BinaryHeap::new(),
            serial: 0,
        }
    }

    /// Puts the first slices and jobs there and lives through the past, up to `until`.
    pub fn begin(&mut self, cluster: &mut State, until: i64) {
        self.monitor_log.turn(self.now, super::tale::What::Loops);
        self.found(cluster);
        self.set_apart(until);
        self.tell_stories(cluster, until);
        self.ask_for_the_impossible(cluster);
        if !self.life.idle && self.life.jobs_per_hour > 0.0 {
            self.crowd(cluster);
        }
        self.go_on();
        if self.life.stuck {
            self.plan((until - STUCK_SINCE - self.now).max(0), Event::Stick);
        }
        self.run(cluster, until);
        for node in cluster.nodes.iter_mut().filter(|n| n.is_alive()) {
            node.sampled.get_or_insert(until);
        }
    }

    /// The hosts whose worker writes nothing any more.
    pub fn silent(&self, now: i64) -> Vec<NodeId> {
        let gangs = self.gangs.iter().filter(|gang| gang.end.is_none());
        let silent = gangs.filter_map(|gang| Some((gang, gang.silent.filter(|(_, since)| *since <= now)?)));
        silent.filter_map(|(gang, (worker, _))| gang.hosts.get(worker).copied()).collect()
    }

    /// From now on the autoscaler looks, people submit jobs, and Google takes slices back.
    pub(super) fn go_on(&mut self) {
        if !self.life.idle {
            self.plan_rate(self.life.jobs_per_hour, Event::Arrive);
        }
        self.plan_rate(self.life.preemptions_per_hour, Event::Preempt);
        self.plan(0, Event::Look);
    }

    /// Plays everything up to `until`.
    pub fn run(&mut self, cluster: &mut State, until: i64) {
        while let Some(&Reverse((at, _, event))) = self.due.peek()
            && at <= until
        {
            self.due.pop();
            self.now = at;
            self.play(cluster, event);
        }
        self.now = until;
    }

    fn play(&mut self, cluster: &mut State, event: Event) {
        match event {
            Event::Look => self.look(cluster),
            Event::Arrive => {
                self.arrive(cluster);
                self.plan_rate(self.life.jobs_per_hour, Event::Arrive);
            }
            Event::SetUp(job) => self.set_up(cluster, job),
            Event::End(job, turn) => self.end(cluster, job, turn),
            Event::Break(job, turn) => self.break_down(cluster, job, turn),
            Event::Preempt => {
                self.preempt();
                self.plan_rate(self.life.preemptions_per_hour, Event::Preempt);
            }
            Event::Lost(slice) => self.lose(cluster, slice),
            Event::Noticed(slice) => self.clear(cluster, slice),
            Event::Launched(slice) => self.launched(cluster, slice),
            Event::Join(slice) => self.join(cluster, slice),
            Event::Idle(slice, turn) => self.retire(cluster, slice, turn),
            Event::Halve(slice) => self.halve(cluster, slice),
            Event::Stick => self.stick(cluster),
        }
        cluster.version += 1;
    }

    /// Plans an event, in milliseconds from now.
    pub(super) fn plan(&mut self, after: i64, event: Event) {
        self.serial += 1;
        self.due.push(Reverse((self.now + after, self.serial, event)));
    }

    /// Plans the next event of a kind that happens so often in an hour on average; never when it never does.
    fn plan_rate(&mut self, per_hour: f64, event: Event) {
        if per_hour > 0.0 {
            let after = self.about(3_600_000.0 / per_hour);
            self.plan(after, event);
        }
    }

    /// A time of that mean, distributed as the gaps between things that happen by chance; at least a millisecond.
    pub(super) fn about(&mut self, mean: f64) -> i64 {
        ((-(1.0 - self.random.unit()).ln() * mean) as i64).max(1)
    }

    /// A time between half of `mean` and half as much again.
    pub(super) fn around(&mut self, mean: f64) -> i64 {
        ((0.5 + self.random.unit()) * mean) as i64
    }

    /// The autoscaler's loop, while its process runs and does not throw.
    fn look(&mut self, cluster: &mut State) {
        if cluster.monitor.alive && !self.stuck {
            cluster.monitor.at = self.now;
            cluster.monitor.loops += 1;
            cluster.monitor.saw = cluster.version;
            self.scale(cluster);
        }
        if std::mem::take(&mut self.changed) {
            cluster.wanted = self.demand();
            self.report(cluster);
        }
        self.plan(LOOP, Event::Look);
    }

    /// Every spot TPU dies; the autoscaler's loop throws from the next round on.
    fn stick(&mut self, cluster: &mut State) {
        let slices: Vec<u64> = self.slices.keys().copied().collect();
        let first = slices.iter().find_map(|s| Some(self.slices.get(s)?.name.clone()));
        for slice in slices {
            self.lose(cluster, slice);
        }
        self.stuck = true;
        cluster.monitor.at = self.now;
        let name = first.unwrap_or_else(|| format!("ray-{}-worker-0f3a91c2-tpu", self.life.cluster));
        let machine = super::monitor::Machine { name, zone: self.life.zone.clone() };
        let what = super::tale::What::Throws(Arc::new(machine));
        self.monitor_log.turn(self.now, what);
        self.changed = true;
        cluster.wanted = self.demand();
        self.report(cluster);
    }
}

#[cfg(test)]
mod tests;
