//! The simulated cluster: its nodes and jobs, and what happens to them second by second.

use super::job::SimJob;
use super::log::Log;
use super::node::{ENDS, SLICES, SimNode};
use super::random::Random;
use super::scenario::Scenario;
use crate::model::{JobStatus, NodeId};
use bytes::Bytes;
use std::collections::HashMap;

/// A second, in milliseconds.
const SECOND: i64 = 1000;
/// Seconds that are played one by one after a pause; longer ones are skipped over.
const MOST_STEPS: i64 = 600;
/// Ray sends SIGTERM and gives the job three seconds; a plain program is gone after this.
const STOP_TAKES: i64 = 1400;

/// Slices that somebody asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The bundle.
    pub shape: Vec<(String, f64)>,
    /// How many.
    pub count: i64,
    /// No node type can satisfy it.
    pub infeasible: bool,
    /// The node type that is being launched for it.
    pub node_type: &'static str,
}

/// The autoscaler's process, which works through its loop every five seconds while it lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Monitor {
    /// Whether it runs.
    pub alive: bool,
    /// When it last worked through its loop, in milliseconds since the epoch.
    pub at: i64,
    /// How often it has done so.
    pub loops: i64,
    /// The cluster's version then.
    pub saw: u64,
}

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
    /// Counts changes, so that answers can be kept until the next one.
    pub version: u64,
    /// The moment, in milliseconds since the epoch.
    pub now: i64,
    /// The autoscaler's process.
    pub monitor: Monitor,
    /// The moment when the simulation began.
    pub began: i64,
    /// Log files that somebody wrote, by name; every node has them.
    pub files: HashMap<String, Log>,
    /// Uploaded packages by URI.
    pub packages: HashMap<String, Bytes>,
    by_submission: HashMap<String, usize>,
    random: Random,
    steps: i64,
    scenario: Scenario,
}

impl Cluster {
    /// The scenario's cluster as it is at `now`.
    pub fn new(scenario: &Scenario) -> Self {
        let now = scenario.clock.now().as_millis();
        let mut random = Random::new(scenario.seed);
        let nodes = nodes(scenario, &mut random, now);
        let mut cluster = Self {
            session: format!("session_2026-11-21_02-46-44_540387_{}", scenario.seed),
            nodes,
            jobs: Vec::new(),
            wanted: wanted(scenario.pending),
            version: 1,
            now,
            monitor: Monitor { alive: true, at: now, loops: 1, saw: 1 },
            began: now,
            files: HashMap::new(),
            packages: HashMap::new(),
            by_submission: HashMap::new(),
            random,
            steps: 0,
            scenario: scenario.clone(),
        };
        for n in 0..scenario.jobs {
            let job = cluster.invent(n);
            cluster.add(job);
        }
        cluster
    }

    /// A job of the history: the last tenth runs or waits, the others have ended.
    fn invent(&mut self, n: usize) -> SimJob {
        let (all, now) = (self.scenario.jobs, self.now);
        let from_end = all - n;
        let started = now - 20_000 - from_end as i64 * 97_000 - self.random.below(60_000) as i64;
        if n % 40 == 7 {
            return SimJob::by_hand(n, started, now);
        }
        let open = from_end <= (all / 10).clamp(4, 200);
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

    /// Adds a job; false when a job of that id exists.
    pub fn add(&mut self, job: SimJob) -> bool {
        if let Some(id) = &job.submission {
            if self.by_submission.contains_key(id) {
                return false;
            }
            self.by_submission.insert(id.clone(), self.jobs.len());
        }
        self.jobs.push(job);
        self.version += 1;
        true
    }

    /// The job of a submission id or a driver's job id.
    pub fn job(&mut self, id: &str) -> Option<&mut SimJob> {
        let by_driver = || self.jobs.iter().position(|j| j.driver.as_deref() == Some(id));
        let at = self.by_submission.get(id).copied().or_else(by_driver)?;
        self.jobs.get_mut(at)
    }

    /// Forgets a submission.
    pub fn forget(&mut self, id: &str) {
        if let Some(at) = self.by_submission.remove(id) {
            self.jobs.remove(at);
            self.by_submission.values_mut().filter(|i| **i > at).for_each(|i| *i -= 1);
            self.version += 1;
        }
    }

    /// The node of an id.
    pub fn node(&mut self, id: NodeId) -> Option<&mut SimNode> {
        self.nodes.iter_mut().find(|n| n.id == id)
    }

    /// The head's id.
    pub fn head(&self) -> NodeId {
        self.nodes[0].id
    }

    /// Lets time pass: everything that happens up to `now`, second by second.
    pub fn advance(&mut self, now: i64) {
        let due = (now - self.now) / SECOND;
        if due > MOST_STEPS {
            self.now += (due - MOST_STEPS) * SECOND;
        }
        while self.now + SECOND <= now {
            self.now += SECOND;
            self.step();
        }
        for job in &mut self.jobs {
            let next = match (job.stopping, job.starting) {
                (Some(at), _) if at <= now => JobStatus::Stopped,
                (None, Some(at)) if at <= now => JobStatus::Running,
                _ => continue,
            };
            job.turn(next, now);
            self.version += 1;
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        self.version += 1;
        let (now, step, random) = (self.now, self.steps, &mut self.random);
        let alive = self.nodes.iter().take_while(|n| n.is_alive()).count();
        for _ in 0..self.scenario.changes {
            self.nodes[random.below(alive)].work(random, now);
        }
        // Each agent measures every five seconds, not all at once.
        for (i, node) in self.nodes.iter_mut().enumerate() {
            if node.is_alive() && (i as i64 + step) % 5 == 0 {
                node.sample(random, now);
            }
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
        self.add(job);
    }

    /// Asks a job to stop, as `POST /api/jobs/{id}/stop`: whether there was something to stop.
    pub fn stop(&mut self, id: &str) -> bool {
        let at = self.now + STOP_TAKES;
        match self.job(id) {
            Some(job) if !job.status.is_ended() => {
                job.stopping.get_or_insert(at);
                true
            }
            _ => false,
        }
    }
}

/// The head, the slices that fit, and then the dead.
fn nodes(scenario: &Scenario, random: &mut Random, now: i64) -> Vec<SimNode> {
    let mut all = vec![SimNode::head(random, now)];
    let hosts = scenario.nodes.max(1) + scenario.dead;
    for kind in SLICES.iter().cycle() {
        if all.len() >= hosts {
            break;
        }
        let slice = format!("marin-{}-{:06x}", kind.pod_type, random.next() & 0xff_ffff);
        for worker in 0..kind.hosts.min(hosts - all.len()) {
            all.push(SimNode::of_slice(random, now, all.len(), kind, &slice, worker));
        }
    }
    for node in &mut all {
        node.work(random, now - random.clone().below(600_000) as i64);
    }
    for (i, node) in all.iter_mut().skip(scenario.nodes.max(1)).enumerate() {
        let (reason, message) = ENDS[i % ENDS.len()];
        node.die(now - 30_000 - i as i64 * 61_000, reason, message);
    }
    all
}

/// Slices that are asked for: the first can never be had, the others wait for quota.
fn wanted(count: usize) -> Vec<Wanted> {
    let one = |i: usize| {
        let kind = &SLICES[i % SLICES.len()];
        let name = if i == 0 { "TPU-v7x-128-head".to_owned() } else { format!("TPU-{}-head", kind.pod_type) };
        Wanted {
            shape: vec![("CPU".into(), 1.0), (name, 1.0)],
            count: 1 + i as i64 % 5,
            infeasible: i == 0,
            node_type: kind.node_type,
        }
    };
    (0..count).map(one).collect()
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
