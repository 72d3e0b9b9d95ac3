//! The simulated cluster: its nodes and jobs, and how they change second by second.
//!
//! `node`, `job` and its `log`; `system_log`: logs of Ray's own processes; `autoscaling`: unmet demand and launches;
//! `report`: what the autoscaler reports; `machines`: its TPU VMs at Google; `by_hand`: workers that a person added;
//! `processes`: worker processes of jobs; `chips`: TPU activity; `drivers`: where entrypoints run, with `supervisors`;
//! `draining`: draining nodes; `rebirth`: a restart of Ray.

pub(super) mod autoscaling;
mod by_hand;
mod chips;
mod draining;
mod drivers;
pub(super) mod job;
pub(super) mod log;
pub(super) mod machines;
pub(super) mod node;
pub(super) mod processes;
mod rebirth;
mod report;
pub(super) mod state;
pub(super) mod supervisors;
pub(super) mod system_log;
pub(super) mod tpu_vm;

use super::life::engine::Engine;
use super::random::Random;
use super::scenario::Scenario;
use crate::model::{DeathReason, JobStatus, NodeId};
use autoscaling::{Monitor, wanted};
use by_hand::ByHand;
use job::SimJob;
use log::Log;
use node::{ENDS, SLICES, SimNode, first_host};
use state::State;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// A second, in milliseconds.
const SECOND: i64 = 1000;
/// Maximum number of seconds that are simulated one by one after a pause; earlier ones are skipped.
const MOST_STEPS: i64 = 600;

/// The cluster at one moment, and the simulation that advances it.
pub(super) struct Cluster {
    /// The current state.
    pub(super) state: State,
    /// Workers that a person added.
    pub by_hand: ByHand,
    /// Without a [`Life`](super::Life): workers that will join a restarted head, one per second.
    coming: VecDeque<SimNode>,
    /// When the first of them may join (ms).
    coming_from: i64,
    /// The version at which the resources of drivers were last counted.
    counted: u64,
    /// Its simulated activity.
    pub(super) life: Option<Engine>,
    random: Random,
    steps: i64,
    scenario: Scenario,
}

/// Gives read access to the state of the cluster.
impl Deref for Cluster {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Cluster {
    /// The scenario's cluster as it is at `now`.
    pub fn new(scenario: &Scenario) -> Self {
        let now = scenario.clock.now().as_millis();
        let life = scenario.life.as_ref();
        // The history begins before the simulation does.
        let past = life.map_or(0, |l| i64::from(l.past_minutes) * 60 * SECOND);
        let mut cluster = Self::empty(scenario, now - past);
        cluster.began = now;
        let mut engine = life.map(|l| Engine::new(l, scenario, now - past));
        for n in 0..scenario.jobs {
            let job = cluster.invent(n);
            let job = match &mut engine {
                Some(engine) => engine.past(job),
                None => job,
            };
            cluster.add_packed(job);
        }
        if let Some(mut engine) = engine {
            engine.begin(&mut cluster.state, now);
            cluster.life = Some(engine);
            cluster.now = now;
        }
        for n in 0..scenario.unowned {
            // With simulated activity, only its runs have workers.
            let log = if cluster.life.is_some() { Log::growing_alone } else { Log::growing };
            let log = log(now, scenario.log_backlog, scenario.log_rate);
            cluster.add_packed(SimJob::unowned(n, now - (41 + 17 * n as i64) * 60 * SECOND, log));
        }
        cluster.count_drivers();
        cluster
    }

    /// The scenario's machines at `now`, without jobs.
    fn empty(scenario: &Scenario, now: i64) -> Self {
        let mut random = Random::new(scenario.seed);
        let nodes = nodes(scenario, &mut random, now);
        let state = State {
            wanted: if scenario.life.is_some() { Vec::new() } else { wanted(scenario.pending) },
            ..State::new(format!("session_2026-11-21_02-46-44_540387_{}", scenario.seed), nodes, now)
        };
        Self {
            state,
            by_hand: ByHand::new(scenario.network),
            coming: VecDeque::new(),
            coming_from: i64::MIN,
            counted: 0,
            life: None,
            random,
            steps: 0,
            scenario: scenario.clone(),
        }
    }

    /// Job `n` of the history: the last tenth is running or pending, the others have ended. With simulated activity,
    /// all have ended.
    fn invent(&mut self, n: usize) -> SimJob {
        let (all, now) = (self.scenario.jobs, self.now);
        let from_end = all - n;
        let started = now - 20_000 - from_end as i64 * 97_000 - self.random.below(60_000) as i64;
        if n % 40 == 7 {
            return SimJob::by_hand(n, started, now);
        }
        let open = self.scenario.life.is_none() && from_end <= (all / 10).clamp(4, 200);
        let status = match n % 10 {
            2 | 6 if open => JobStatus::Pending,
            _ if open => JobStatus::Running,
            0..7 => JobStatus::Succeeded,
            7 | 8 => JobStatus::Failed,
            _ => JobStatus::Stopped,
        };
        let (backlog, rate) = (self.scenario.log_backlog, self.scenario.log_rate);
        let log = match status {
            JobStatus::Pending => Log::none(),
            _ => Log::growing(now, backlog, rate),
        };
        let mut job = SimJob::invent(&mut self.random, n, started, status, log);
        if let Some(ended) = job.ended.map(|at| at.min(now - 1000)) {
            job.ended = Some(ended);
            job.log = Log::growing(ended, backlog, rate);
            job.log.close(ended);
        }
        job
    }

    /// Ends a node as if its raylet had crashed, and its slice; false if no such node is alive.
    pub fn kill(&mut self, id: NodeId) -> bool {
        let (reason, message) = ENDS[0];
        self.end(id, reason, message)
    }

    /// Ends a node for a reason, and its slice; false if no such node is alive.
    pub fn end(&mut self, id: NodeId, reason: DeathReason, message: &'static str) -> bool {
        let now = self.now;
        let Some(node) = self.node(id).filter(|n| n.is_alive()) else { return false };
        node.die(now, reason, message);
        self.version += 1;
        if let Some(life) = &mut self.life {
            life.lose_with(&mut self.state, id);
        }
        true
    }

    /// Ends a node and starts another on its machine; false if no such node is alive.
    pub fn renew(&mut self, id: NodeId) -> bool {
        let Some(mut other) = self.node(id).cloned() else { return false };
        let was_alive = self.kill(id);
        if was_alive {
            other.id = NodeId::from_bytes(&self.random.bytes::<28>()).unwrap_or(id);
            other.started = self.now;
            other.hold(Vec::new(), self.now);
            self.nodes.push(other);
        }
        was_alive
    }

    /// Adds a node like `like` with another address; false if there is no such node.
    pub fn join(&mut self, like: NodeId, address: &str) -> bool {
        let Some(mut other) = self.node(like).cloned() else { return false };
        other.id = NodeId::from_bytes(&self.random.bytes::<28>()).unwrap_or(like);
        other.ip = address.into();
        other.started = self.now;
        other.hold(Vec::new(), self.now);
        self.nodes.push(other);
        self.version += 1;
        true
    }

    /// The hosts that a job trains on, by its index in the job table; none without simulated activity.
    #[cfg(test)]
    pub fn hosts_of(&self, job: usize) -> &[NodeId] {
        self.life.as_ref().map_or(&[], |l| l.hosts_of(job))
    }

    /// Advances the simulation to `now`, second by second.
    pub fn advance(&mut self, now: i64) {
        let due = (now - self.now) / SECOND;
        if due > MOST_STEPS {
            self.now += (due - MOST_STEPS) * SECOND;
        }
        while self.now + SECOND <= now {
            self.now += SECOND;
            self.step();
            self.count_drivers();
            self.place_drivers();
        }
        while let Some(&Reverse((at, index))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            let job = &mut self.jobs[index];
            let next = match (job.stopping, job.starting) {
                (Some(at), _) if at <= now => JobStatus::Stopped,
                (None, Some(at)) if at <= now => JobStatus::Running,
                _ => continue,
            };
            job.turn(next, now);
            self.version += 1;
            if let Some(life) = &mut self.life {
                life.stopped(&mut self.state, index);
            }
        }
        self.count_drivers();
    }

    fn step(&mut self) {
        self.steps += 1;
        self.version += 1;
        for host in self.by_hand.advance(&mut self.state, &mut self.random) {
            self.kill(host);
        }
        self.adopt_slices();
        self.end_drained();
        self.join_next();
        let (state, random, step) = (&mut self.state, &mut self.random, self.steps);
        let now = state.now;
        if self.scenario.life.is_none() {
            let alive = state.nodes.iter().take_while(|n| n.is_alive()).count();
            for _ in 0..self.scenario.changes {
                state.nodes[random.below(alive)].work(random, now);
            }
        }
        // Each agent measures every five seconds, at different times.
        let first = usize::try_from((5 - step % 5) % 5).unwrap_or(0);
        let silent = self.life.as_ref().map(|life| life.silent(now)).unwrap_or_default();
        for node in state.nodes.iter_mut().skip(first).step_by(5).filter(|n| n.is_alive()) {
            node.sample(random, now, silent.contains(&node.id));
        }
        if let Some(life) = &mut self.life {
            life.run(state, now);
            return;
        }
        if step % 5 == 0 && self.monitor.alive {
            self.monitor = Monitor { alive: true, at: now, loops: self.monitor.loops + 1, saw: self.version };
            self.last_report = None;
        }
        for _ in 0..self.scenario.turnover {
            self.turn_over();
        }
    }

    /// The oldest running job ends, a pending one starts, and a new one is submitted.
    fn turn_over(&mut self) {
        let now = self.now;
        let rate = self.scenario.log_rate;
        let open = |s: JobStatus| move |j: &&mut SimJob| j.status == s && j.submission.is_some();
        if let Some(job) = self.state.jobs.iter_mut().find(open(JobStatus::Running)) {
            let status = if self.random.below(4) == 0 { JobStatus::Failed } else { JobStatus::Succeeded };
            job.turn(status, now);
        }
        if let Some(job) = self.jobs.iter_mut().find(|job| open(JobStatus::Pending)(job) && !job.queued) {
            job.log = Log::growing(now, 0, rate);
            job.turn(JobStatus::Running, now);
        }
        let n = self.jobs.len();
        let job = SimJob::invent(&mut self.random, n, now, JobStatus::Pending, Log::none());
        self.add_packed(job);
    }
}

/// The head, the hosts of slices, and then the dead nodes.
fn nodes(scenario: &Scenario, random: &mut Random, now: i64) -> Vec<SimNode> {
    let has_life = scenario.life.is_some();
    let head = if has_life { SimNode::head_default } else { SimNode::head };
    let mut all = vec![head(random, now)];
    let first = first_host(scenario.network);
    let living = if has_life { 1 } else { scenario.nodes.max(1) };
    let hosts = living + scenario.dead;
    for kind in SLICES.iter().cycle() {
        if all.len() >= hosts {
            break;
        }
        let slice = format!("ray-{}-worker-{:06x}-tpu", scenario.cluster, random.next() & 0xff_ffff);
        for worker in 0..kind.hosts.min(hosts - all.len()) {
            all.push(SimNode::of_slice(random, now, first + all.len() - 1, kind, &slice, worker));
        }
    }
    for node in all.iter_mut().filter(|_| !has_life) {
        node.work(random, now - random.clone().below(600_000) as i64);
    }
    for (i, node) in all.iter_mut().skip(living).enumerate() {
        let (reason, message) = ENDS[i % ENDS.len()];
        node.die(now - 30_000 - i as i64 * 61_000, reason, message);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Clock;
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    const T0: i64 = 1_795_000_000_000;

    fn scenario() -> Scenario {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
        Scenario { nodes: 40, dead: 3, jobs: 200, turnover: 1, clock, ..Scenario::default() }
    }

    fn state_texts(at: i64) -> Vec<String> {
        let mut cluster = Cluster::new(&scenario());
        cluster.advance(at);
        let head = cluster.head();
        let nodes: Vec<String> = cluster.nodes.iter().map(SimNode::logical_lines).collect();
        let jobs = cluster.jobs.iter_mut().map(|j| j.text(head).to_owned());
        nodes.into_iter().chain(jobs).collect()
    }

    #[test]
    fn a_seed_gives_the_same_cluster() {
        assert_eq!(state_texts(T0 + 30_000), state_texts(T0 + 30_000));
        assert_ne!(state_texts(T0), state_texts(T0 + 30_000));
    }

    #[test]
    fn the_cluster_has_the_requested_size() {
        let cluster = Cluster::new(&scenario());
        assert_eq!(cluster.nodes.iter().filter(|n| n.is_alive()).count(), 40);
        assert_eq!(cluster.nodes.len(), 43);
        assert_eq!(cluster.jobs.len(), 200);
        let running = cluster.jobs.iter().filter(|j| j.status == JobStatus::Running).count();
        assert!((5..30).contains(&running), "{running} running");
    }

    #[test]
    fn a_stopped_job_ends_a_little_later() {
        let mut cluster = Cluster::new(&scenario());
        let running = cluster.jobs.iter().find(|j| j.status == JobStatus::Running && j.submission.is_some());
        let id = running.and_then(|j| j.submission.clone()).unwrap();
        assert!(cluster.stop(&id));
        assert_eq!(cluster.job(&id).unwrap().status, JobStatus::Running);
        cluster.scenario.turnover = 0;
        cluster.advance(T0 + 1500);
        assert_eq!(cluster.job(&id).unwrap().status, JobStatus::Stopped);
        assert!(!cluster.stop(&id), "already stopped");
    }
}
