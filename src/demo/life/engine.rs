//! Simulates a [`Life`]: a queue of future events, each of which changes the cluster at its own time. There is no work
//! per second, so the cost depends on the number of events and not on the size of the cluster. The same seed gives the
//! same events, however often the cluster is read.

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

/// Period of the autoscaler's loop, in milliseconds.
const LOOP: i64 = 5000;
/// Time between the first exception of a stuck autoscaler and the beginning of the simulation, in milliseconds.
const STUCK_SINCE: i64 = 25 * 60_000;

/// A future event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The autoscaler runs an iteration of its loop.
    Iterate,
    /// A user submits a job.
    Arrive,
    /// A job's runtime environment is set up.
    SetUp(usize),
    /// A job ends, unless its slice has changed since: the number is the job's `turn`.
    End(usize, u32),
    /// The first of a job's workers fails, unless the job's slice has changed since.
    Break(usize, u32),
    /// Google preempts a slice.
    Preempt,
    /// The GCS misses the heartbeats of a slice's hosts.
    Lost(u64),
    /// The autoscaler notices that a slice was lost, and deletes its machines.
    Noticed(u64),
    /// Google has created a slice's machines, or refuses to.
    Launched(u64),
    /// A slice's next host joins.
    Join(u64),
    /// A slice has reached the idle timeout, unless it was used since.
    Idle(u64, u32),
    /// Half of a slice's hosts die.
    Halve(u64),
    /// All slices die, and the autoscaler does not notice.
    Stick,
}

/// The simulated activity of a cluster.
pub(in crate::demo) struct Engine {
    /// The parameters of the activity.
    pub(super) life: Life,
    /// Lines per second of each training job.
    pub(super) log_rate: u64,
    /// Source of all random decisions.
    pub(super) random: Random,
    /// The node types, and the jobs that wait for them.
    pub(super) kinds: Vec<Kind>,
    /// Slices, from the request until they are lost or terminated.
    pub(super) slices: BTreeMap<u64, Slice>,
    /// Lost slices whose machines are not deleted yet: they hold quota.
    pub(super) left: BTreeMap<u64, Slice>,
    /// Jobs that have not ended, by their index in the job table.
    pub(super) work: HashMap<usize, Work>,
    /// The workers of the latest runs, oldest first.
    pub(in crate::demo) gangs: Vec<Gang>,
    /// Submitted jobs whose drivers have taken chips of a slice, by their index in the job table, and the host.
    pub(super) occupied: BTreeMap<usize, NodeId>,
    /// Number of slices that a person has added.
    pub(super) added: u64,
    /// `monitor.log`.
    pub(super) monitor_log: Tale,
    /// The number of the next host.
    pub(super) hosts: usize,
    /// The time of the current event, in milliseconds since the epoch.
    pub(super) now: i64,
    /// Whether the autoscaler's loop raises an exception.
    pub stuck: bool,
    /// Whether the demand or the machines have changed since the last iteration.
    pub(super) changed: bool,
    due: BinaryHeap<Reverse<(i64, u64, Event)>>,
    serial: u64,
}

impl Engine {
    /// The activity at `began`, before the first event.
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
            occupied: BTreeMap::new(),
            added: 0,
            monitor_log: Tale::new(super::train::Run::default()),
            hosts: first_host(scenario.network) + scenario.dead,
            now: began,
            stuck: false,
            changed: true,
            due: BinaryHeap::new(),
            serial: 0,
        }
    }

    /// Creates the initial slices and jobs, and simulates the history up to `until`.
    pub fn begin(&mut self, cluster: &mut State, until: i64) {
        self.monitor_log.turn(self.now, super::tale::What::Loops);
        self.create_initial_slices(cluster);
        self.reserve_halved_slices(until);
        self.submit_scripted_runs(cluster, until);
        self.submit_infeasible_jobs(cluster);
        if !self.life.idle && self.life.jobs_per_hour > 0.0 {
            self.fill_initial_slices(cluster);
        }
        self.start_events();
        if self.life.stuck {
            self.plan((until - STUCK_SINCE - self.now).max(0), Event::Stick);
        }
        self.run(cluster, until);
        for node in cluster.nodes.iter_mut().filter(|n| n.is_alive()) {
            node.sampled.get_or_insert(until);
        }
    }

    /// The hosts whose worker has stopped writing.
    pub fn silent(&self, now: i64) -> Vec<NodeId> {
        let gangs = self.gangs.iter().filter(|gang| gang.end.is_none());
        let silent = gangs.filter_map(|gang| Some((gang, gang.silent.filter(|(_, since)| *since <= now)?)));
        silent.filter_map(|(gang, (worker, _))| gang.hosts.get(worker).copied()).collect()
    }

    /// Plans the recurring events: iterations of the autoscaler, submissions and preemptions.
    pub(super) fn start_events(&mut self) {
        if !self.life.idle {
            self.plan_rate(self.life.jobs_per_hour, Event::Arrive);
        }
        self.plan_rate(self.life.preemptions_per_hour, Event::Preempt);
        self.plan(0, Event::Iterate);
    }

    /// Processes all events up to `until`.
    pub fn run(&mut self, cluster: &mut State, until: i64) {
        while let Some(&Reverse((at, _, event))) = self.due.peek()
            && at <= until
        {
            self.due.pop();
            self.now = at;
            self.process(cluster, event);
        }
        self.now = until;
        // The GCS knows the demand before the next iteration of the autoscaler.
        if self.changed {
            cluster.wanted = self.demand();
        }
    }

    fn process(&mut self, cluster: &mut State, event: Event) {
        match event {
            Event::Iterate => self.iterate(cluster),
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
            Event::Noticed(slice) => self.delete_lost(cluster, slice),
            Event::Launched(slice) => self.launched(cluster, slice),
            Event::Join(slice) => self.join(cluster, slice),
            Event::Idle(slice, turn) => self.terminate_idle(cluster, slice, turn),
            Event::Halve(slice) => self.halve(cluster, slice),
            Event::Stick => self.stick(cluster),
        }
        cluster.version += 1;
    }

    /// Plans an event `after` milliseconds from now.
    pub(super) fn plan(&mut self, after: i64, event: Event) {
        self.serial += 1;
        self.due.push(Reverse((self.now + after, self.serial, event)));
    }

    /// Plans the next event of a kind with this average rate; none if the rate is 0.
    fn plan_rate(&mut self, per_hour: f64, event: Event) {
        if per_hour > 0.0 {
            let after = self.about(3_600_000.0 / per_hour);
            self.plan(after, event);
        }
    }

    /// A random duration with this mean, exponentially distributed; at least 1 ms.
    pub(super) fn about(&mut self, mean: f64) -> i64 {
        ((-(1.0 - self.random.unit()).ln() * mean) as i64).max(1)
    }

    /// A random duration between 0.5 and 1.5 times `mean`.
    pub(super) fn around(&mut self, mean: f64) -> i64 {
        ((0.5 + self.random.unit()) * mean) as i64
    }

    /// One iteration of the autoscaler's loop, if its process runs and is not stuck; then updates the reported demand.
    fn iterate(&mut self, cluster: &mut State) {
        if cluster.monitor.alive && !self.stuck {
            cluster.monitor.at = self.now;
            cluster.monitor.loops += 1;
            cluster.monitor.saw = cluster.version;
            cluster.last_report = None;
            self.scale(cluster);
        }
        if std::mem::take(&mut self.changed) {
            cluster.wanted = self.demand();
            self.report(cluster);
        }
        self.plan(LOOP, Event::Iterate);
    }

    /// All spot TPUs die; from now on each iteration of the autoscaler's loop raises an exception.
    fn stick(&mut self, cluster: &mut State) {
        let slices: Vec<u64> = self.slices.keys().copied().collect();
        let first = slices.iter().find_map(|s| Some(self.slices.get(s)?.name.clone()));
        for slice in slices {
            self.lose(cluster, slice);
        }
        self.stuck = true;
        self.end_autoscaler_lines(cluster);
        cluster.monitor.at = self.now;
        let name = first.unwrap_or_else(|| format!("ray-{}-worker-0f3a91c2-tpu", self.life.cluster));
        let machine = super::monitor::Machine { name, zone: self.life.zone.clone() };
        let what = super::tale::What::Throws(Arc::new(machine));
        self.monitor_log.turn(self.now, what);
        self.changed = true;
        cluster.wanted = self.demand();
        cluster.stuck_demand = Some(cluster.wanted.clone());
        self.report(cluster);
    }
}

#[cfg(test)]
mod tests;
