//! The simulated cluster: its nodes and jobs, and how they change second by second.
//!
//! `node`, `job` and its `log`, the demand and its `autoscaling`, the `machines` that Google has of it,
//! workers that are added `by_hand`, what `drivers` hold, the `draining` of nodes, and its `rebirth` under another Ray.

pub(super) mod autoscaling;
mod by_hand;
mod draining;
mod drivers;
pub(super) mod job;
pub(super) mod log;
pub(super) mod machines;
pub(super) mod node;
mod rebirth;

use super::life::engine::Engine;
use super::random::Random;
use super::scenario::Scenario;
use crate::model::{DeathReason, JobStatus, NodeId};
use autoscaling::{Autoscaling, Monitor, Wanted, terminated, wanted};
use by_hand::ByHand;
use bytes::Bytes;
use job::SimJob;
use log::Log;
use node::{ENDS, SLICES, SimNode, first_host};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// A second, in milliseconds.
const SECOND: i64 = 1000;
/// Seconds that are played one by one after a pause; longer ones are skipped over.
const MOST_STEPS: i64 = 600;
/// Milliseconds until a plain program ends after a stop; Ray sends SIGTERM and allows three seconds.
const STOP_TAKES: i64 = 1400;
/// An empty package.
const EMPTY_ZIP: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The cluster at one moment.
pub(super) struct Cluster {
    /// `session_name`; a new one is a new cluster.
    pub session: String,
    /// The head first.
    pub nodes: Vec<SimNode>,
    /// Oldest first.
    pub jobs: Vec<SimJob>,
    /// Unmet demand.
    pub wanted: Vec<Wanted>,
    /// What the autoscaler did about it; see [`Cluster::autoscaling`].
    pub scaling: Autoscaling,
    /// Counts changes, so that answers can be kept until the next one.
    pub version: u64,
    /// The moment, in milliseconds since the epoch.
    pub now: i64,
    pub monitor: Monitor,
    /// The moment when the simulation began.
    pub began: i64,
    /// Written log files by name; every node has them.
    pub files: HashMap<String, Log>,
    /// Uploaded packages by URI.
    pub packages: HashMap<String, Bytes>,
    /// Workers that persons have added.
    pub by_hand: ByHand,
    /// Nodes that take no new work, and when they go at the latest, in milliseconds since the epoch.
    draining: Vec<(NodeId, i64)>,
    /// Without a life: workers that are to join a new head, one after the other.
    coming: VecDeque<SimNode>,
    by_submission: HashMap<String, usize>,
    /// The version of which the drivers' CPUs were counted.
    counted: u64,
    /// Jobs that start or stop, and when.
    due: BinaryHeap<Reverse<(i64, usize)>>,
    pub(super) life: Option<Engine>,
    random: Random,
    steps: i64,
    scenario: Scenario,
}

impl Cluster {
    /// The scenario's cluster as it is at `now`.
    pub fn new(scenario: &Scenario) -> Self {
        let now = scenario.clock.now().as_millis();
        let life = scenario.life.as_ref();
        // A life's history begins before the simulation does.
        let past = life.map_or(0, |l| i64::from(l.past_minutes) * 60 * SECOND);
        let mut cluster = Self { began: now, ..Self::empty(scenario, now - past) };
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
            engine.begin(&mut cluster, now);
            cluster.life = Some(engine);
            cluster.now = now;
        }
        for n in 0..scenario.unowned {
            let log = Log::growing(now, scenario.log_backlog, scenario.log_rate);
            cluster.add_packed(SimJob::unowned(n, now - (41 + 17 * n as i64) * 60 * SECOND, log));
        }
        cluster.count_drivers();
        cluster
    }

    /// The scenario's machines at `now`, without a job.
    fn empty(scenario: &Scenario, now: i64) -> Self {
        let mut random = Random::new(scenario.seed);
        let nodes = nodes(scenario, &mut random, now);
        Self {
            session: format!("session_2026-11-21_02-46-44_540387_{}", scenario.seed),
            nodes,
            jobs: Vec::new(),
            wanted: if scenario.life.is_some() { Vec::new() } else { wanted(scenario.pending) },
            scaling: Autoscaling::default(),
            version: 1,
            now,
            monitor: Monitor { alive: true, at: now, loops: 1, saw: 1 },
            began: now,
            files: HashMap::new(),
            packages: HashMap::new(),
            by_hand: ByHand::new(scenario.network),
            draining: Vec::new(),
            coming: VecDeque::new(),
            by_submission: HashMap::new(),
            counted: 0,
            due: BinaryHeap::new(),
            life: None,
            random,
            steps: 0,
            scenario: scenario.clone(),
        }
    }

    /// A job of the history: the last tenth runs or waits, the others have ended.
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
        let rate = if open { self.scenario.log_rate } else { 0 };
        let log = match status {
            JobStatus::Pending => Log::none(),
            _ => Log::growing(now, self.scenario.log_backlog, rate),
        };
        let mut job = SimJob::invent(&mut self.random, n, started, status, log);
        job.ended = job.ended.map(|at| at.min(now - 1000));
        job
    }

    /// Adds a job with an uploaded package; false when a job of that id exists.
    pub fn add_packed(&mut self, job: SimJob) -> bool {
        if let Some(uri) = job.package().filter(|_| !job.status.is_ended()) {
            self.packages.insert(uri.to_owned(), Bytes::from_static(EMPTY_ZIP));
        }
        self.add(job)
    }

    /// Adds a job; false when a job of that id exists.
    pub fn add(&mut self, job: SimJob) -> bool {
        if let Some(id) = &job.submission {
            if self.by_submission.contains_key(id) {
                return false;
            }
            self.by_submission.insert(id.clone(), self.jobs.len());
        }
        if let Some(at) = job.starting {
            self.due.push(Reverse((at, self.jobs.len())));
        }
        self.jobs.push(job);
        self.version += 1;
        true
    }

    /// The job of a submission id or a driver's job id.
    pub fn job(&mut self, id: &str) -> Option<&mut SimJob> {
        let at = self.index(id)?;
        self.jobs.get_mut(at)
    }

    fn index(&self, id: &str) -> Option<usize> {
        let by_driver = || self.jobs.iter().position(|j| j.driver.as_deref() == Some(id));
        self.by_submission.get(id).copied().or_else(by_driver)
    }

    /// Deletes a submission. Its place stays, because jobs are referred to by place.
    pub fn forget(&mut self, id: &str) {
        if let Some(at) = self.by_submission.remove(id) {
            let job = &mut self.jobs[at];
            (job.submission, job.driver, job.written) = (None, None, None);
            self.version += 1;
        }
    }

    /// The node of an id.
    pub fn node(&mut self, id: NodeId) -> Option<&mut SimNode> {
        self.nodes.iter_mut().find(|n| n.id == id)
    }

    /// Ends a node as if its raylet had crashed, and what cannot live without it; false when no such node lives.
    pub fn kill(&mut self, id: NodeId) -> bool {
        let (reason, message) = ENDS[0];
        self.end(id, reason, message)
    }

    /// Ends a node for that reason, and what cannot live without it; false when no such node lives.
    pub fn end(&mut self, id: NodeId, reason: DeathReason, message: &'static str) -> bool {
        let now = self.now;
        let Some(node) = self.node(id).filter(|n| n.is_alive()) else { return false };
        node.die(now, reason, message);
        self.version += 1;
        if let Some(mut life) = self.life.take() {
            life.lose_with(self, id);
            self.life = Some(life);
        }
        true
    }

    /// Ends a node and starts another on its machine; false when no such node lives.
    pub fn renew(&mut self, id: NodeId) -> bool {
        let Some(mut other) = self.node(id).cloned() else { return false };
        let was_alive = self.kill(id);
        if was_alive {
            other.id = NodeId::from_bytes(&self.random.bytes::<28>()).unwrap_or(id);
            other.started = self.now;
            other.hold(0.0, self.now);
            self.nodes.push(other);
        }
        was_alive
    }

    /// Another machine joins, like that node's but at that address; false when there is no such node.
    pub fn join(&mut self, like: NodeId, address: &str) -> bool {
        let Some(mut other) = self.node(like).cloned() else { return false };
        other.id = NodeId::from_bytes(&self.random.bytes::<28>()).unwrap_or(like);
        other.ip = address.into();
        other.started = self.now;
        other.hold(0.0, self.now);
        self.nodes.push(other);
        self.version += 1;
        true
    }

    /// The hosts that a job has to itself, by its place in the job table: none outside a life.
    pub fn hosts_of(&self, job: usize) -> &[NodeId] {
        self.life.as_ref().map_or(&[], |l| l.hosts_of(job))
    }

    /// Whether jobs have hosts to themselves.
    pub fn lives(&self) -> bool {
        self.life.is_some()
    }

    /// The head's id.
    pub fn head(&self) -> NodeId {
        self.nodes[0].id
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
            if let Some(mut life) = self.life.take() {
                life.stopped(self, index);
                self.life = Some(life);
            }
        }
        self.count_drivers();
    }

    fn step(&mut self) {
        self.steps += 1;
        self.version += 1;
        self.tend_by_hand();
        self.tend_draining();
        self.join_next();
        let (now, step, random) = (self.now, self.steps, &mut self.random);
        if self.scenario.life.is_none() {
            let alive = self.nodes.iter().take_while(|n| n.is_alive()).count();
            for _ in 0..self.scenario.changes {
                self.nodes[random.below(alive)].work(random, now);
            }
        }
        // Each agent measures every five seconds, at different times.
        let first = usize::try_from((5 - step % 5) % 5).unwrap_or(0);
        for node in self.nodes.iter_mut().skip(first).step_by(5).filter(|n| n.is_alive()) {
            node.sample(random, now);
        }
        if let Some(mut life) = self.life.take() {
            life.run(self, now);
            self.life = Some(life);
            return;
        }
        if step % 5 == 0 && self.monitor.alive {
            self.monitor = Monitor { alive: true, at: now, loops: self.monitor.loops + 1, saw: self.version };
        }
        for _ in 0..self.scenario.turnover {
            self.turn_over();
        }
    }

    /// The oldest running job ends, a waiting one starts, a new one is submitted.
    fn turn_over(&mut self) {
        let now = self.now;
        let rate = self.scenario.log_rate;
        let open = |s: JobStatus| move |j: &&mut SimJob| j.status == s && j.submission.is_some();
        if let Some(job) = self.jobs.iter_mut().find(open(JobStatus::Running)) {
            let status = if self.random.below(4) == 0 { JobStatus::Failed } else { JobStatus::Succeeded };
            job.turn(status, now);
        }
        if let Some(job) = self.jobs.iter_mut().find(open(JobStatus::Pending)) {
            job.log = Log::growing(now, 0, rate);
            job.turn(JobStatus::Running, now);
        }
        let n = self.jobs.len();
        let job = SimJob::invent(&mut self.random, n, now, JobStatus::Pending, Log::none());
        self.add_packed(job);
    }

    /// Asks a job to stop, as `POST /api/jobs/{id}/stop`: whether there was something to stop.
    pub fn stop(&mut self, id: &str) -> bool {
        let at = self.now + STOP_TAKES;
        let Some(index) = self.index(id).filter(|&i| !self.jobs[i].status.is_ended()) else { return false };
        let at = *self.jobs[index].stopping.get_or_insert(at);
        self.due.push(Reverse((at, index)));
        true
    }

    /// What the autoscaler does about the demand.
    pub fn autoscaling(&self) -> Autoscaling {
        match self.life {
            Some(_) => self.scaling.clone(),
            None => Autoscaling::for_want(&self.wanted, self.monitor.at),
        }
    }

    /// Terminated nodes that the autoscaler's report names: in a life those that it has noticed.
    pub fn terminated(&self) -> Vec<&SimNode> {
        let notices = self.life.as_ref().is_some_and(|l| !l.stuck);
        if notices { terminated(&self.nodes, self.now) } else { Vec::new() }
    }
}

/// The head, the slices that fit, and then the dead.
fn nodes(scenario: &Scenario, random: &mut Random, now: i64) -> Vec<SimNode> {
    let lives = scenario.life.is_some();
    let head = if lives { SimNode::head_default } else { SimNode::head };
    let mut all = vec![head(random, now)];
    let first = first_host(scenario.network);
    let living = if lives { 1 } else { scenario.nodes.max(1) };
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
    for node in all.iter_mut().filter(|_| !lives) {
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

    fn story(at: i64) -> Vec<String> {
        let mut cluster = Cluster::new(&scenario());
        cluster.advance(at);
        let head = cluster.head();
        let nodes: Vec<String> = cluster.nodes.iter().map(SimNode::logical_lines).collect();
        let jobs = cluster.jobs.iter_mut().map(|j| j.text(head).to_owned());
        nodes.into_iter().chain(jobs).collect()
    }

    #[test]
    fn a_seed_tells_one_story() {
        assert_eq!(story(T0 + 30_000), story(T0 + 30_000));
        assert_ne!(story(T0), story(T0 + 30_000));
    }

    #[test]
    fn the_cluster_is_as_large_as_asked() {
        let cluster = Cluster::new(&scenario());
        assert_eq!(cluster.nodes.iter().filter(|n| n.is_alive()).count(), 40);
        assert_eq!(cluster.nodes.len(), 43);
        assert_eq!(cluster.jobs.len(), 200);
        let running = cluster.jobs.iter().filter(|j| j.status == JobStatus::Running).count();
        assert!((5..30).contains(&running), "{running} running");
    }

    #[test]
    fn a_stopped_job_stops_a_little_later() {
        let mut cluster = Cluster::new(&scenario());
        let running = cluster.jobs.iter().find(|j| j.status == JobStatus::Running && j.submission.is_some());
        let id = running.and_then(|j| j.submission.clone()).unwrap();
        assert!(cluster.stop(&id));
        assert_eq!(cluster.job(&id).unwrap().status, JobStatus::Running);
        cluster.scenario.turnover = 0;
        cluster.advance(T0 + 1500);
        assert_eq!(cluster.job(&id).unwrap().status, JobStatus::Stopped);
        assert!(!cluster.stop(&id), "nothing left to stop");
    }
}
