//! Simulated jobs: they are submitted, set up their environment, wait for a slice, train, finish or fail, and wait
//! again when their slice is preempted.

use super::super::cluster::job::SimJob;
use super::super::cluster::log::Log;
use super::super::cluster::node::address;
use super::super::cluster::state::State;
use super::super::random::Random;
use super::engine::{Engine, Event};
use super::gang::{End, Gang, MAX_FAILURE_DELAY, peer_is_lost};
use super::tale::{Tale, What};
use super::train::{self, CHECKPOINT, Run, entrypoint, lost, succeed, traceback};
use super::work::Work;
use crate::model::JobStatus;
#[cfg(test)]
use crate::model::NodeId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Invented user names.
pub(super) const OWNERS: [&str; 9] =
    ["alice", "bogdan", "chiara", "dara", "emeka", "farid", "greta", "hana", "ivo"];
pub(super) const EXPERIMENTS: [&str; 12] = [
    "exp1395_qwen3_32b",
    "exp1529_32b_mup",
    "exp600_tootsie_8b",
    "exp1342_gemstones",
    "exp964_custom_chat",
    "exp859_mixture_sweep",
    "exp1290_muon_1_4b",
    "exp1752_long_context",
    "exp808_sft_mixture",
    "exp1063_upload_tootsie",
    "exp433_annealing",
    "exp1880_vlm_prefix",
];
/// Mean setup time of a runtime environment, in milliseconds.
const SET_UP: f64 = 35_000.0;
/// How long a scripted run without a failure lasts after the simulation begins, in milliseconds.
const FOREVER: i64 = 30 * 24 * 3_600_000;
/// Maximum number of gangs that are kept, with their log files.
const MAX_GANGS: usize = 64;
/// Share of the jobs that fail when their slice is preempted.
const GIVES_UP: f64 = 0.25;

impl Engine {
    /// Submits jobs for half of the free slices of each node type.
    pub(super) fn fill_initial_slices(&mut self, cluster: &mut State) {
        for kind in 0..self.kinds.len() {
            for _ in 0..self.kinds[kind].free.len().div_ceil(2) {
                self.submit(cluster, kind, None);
            }
        }
    }

    /// Submits a job for each accelerator type that no node type offers.
    pub(super) fn submit_infeasible_jobs(&mut self, cluster: &mut State) {
        for pod_type in self.life.infeasible.clone() {
            let kind = self.kind_of(&pod_type);
            self.submit(cluster, kind, Some(true));
        }
    }

    /// Submits the scripted runs in the order of the script; the simulation begins at `until`.
    pub(super) fn submit_scripted_runs(&mut self, cluster: &mut State, until: i64) {
        let (began, mut free) = (self.now, BTreeMap::new());
        let mut owners = Vec::new();
        for script in self.life.runs.clone() {
            let kind = self.kinds.iter().position(|kind| *kind.name == *script.node_type);
            let Some(kind) = kind else { continue };
            let free_at: &mut i64 = free.entry(script.node_type.clone()).or_insert(began);
            let mut run = self.new_run(kind);
            run.diverges = script.diverges.map(|minutes| until - i64::from(minutes) * 60_000);
            if let Some(minutes) = script.waits {
                // It waits for a run of another owner.
                while owners.contains(&run.owner) && owners.len() < OWNERS.len() {
                    run.owner = self.random.pick(&OWNERS);
                }
                *free_at = until - i64::from(minutes) * 60_000;
            }
            owners.push(run.owner);
            run.steps = train::STEPS;
            let mut work = self.work_of(run, kind, Some(false));
            work.fails = script.fails.is_some();
            let ends = script.fails.map_or(until + FOREVER, |m| until - i64::from(m.minutes_ago) * 60_000);
            work.ends = Some(ends);
            work.script = Some(script);
            let index = cluster.jobs.len();
            // Planned for when the slice is free: the autoscaler would launch another slice for a waiting job.
            if cluster.add_packed(table_row(&mut self.random, index, *free_at, &work)) {
                self.work.insert(index, work);
                self.plan(*free_at + 1000 - self.now, Event::SetUp(index));
            }
            *free_at = ends;
        }
    }

    /// A user submits a job; the first node types are requested more often.
    pub(super) fn arrive(&mut self, cluster: &mut State) {
        // Only those of the cluster file; there may be others, of slices that a person added.
        let all = self.life.types.len();
        if all > 0 {
            let kind = self.random.below(all).min(self.random.below(all));
            self.submit(cluster, kind, None);
        }
    }

    /// A new experiment of a random user on slices of a node type.
    fn new_run(&mut self, kind: usize) -> Run {
        let (owner, experiment) = (self.random.pick(&OWNERS), self.random.pick(&EXPERIMENTS));
        let slice = &self.kinds[kind].slice;
        Run {
            seed: self.random.next(),
            rate: self.log_rate,
            id: format!("ray-run-{owner}-{experiment}-{:08x}", self.random.next() >> 32),
            experiment: experiment.into(),
            owner,
            chips: slice.hosts as u64 * 4,
            pod_type: slice.pod_type.to_string(),
            bucket: self.life.bucket.clone(),
            diverges: None,
            steps: 0,
        }
    }

    /// Gives a job that ended before the simulated activity began the metadata and log of a simulated run.
    pub fn past(&mut self, mut row: SimJob) -> SimJob {
        let is_run = row.submission.is_some() && !self.kinds.is_empty();
        let Some(ended) = row.ended.filter(|_| is_run) else { return row };
        let kind = self.random.below(self.kinds.len());
        let mut run = self.new_run(kind);
        let ip = address(1 + self.random.below(200));
        let since = row.started + 6000;
        run.steps = run.steps_in(ended - since) * if row.status == JobStatus::Succeeded { 1 } else { 2 };
        let pid = run.pid(0, 1);
        row.submission = Some(run.id.clone());
        row.entrypoint = entrypoint(&run);
        row.metadata = Some(label(&run));
        row.requested.cpus = 0.0;
        let mut tale = Tale::new(run);
        tale.turn(row.started, What::Begins);
        tale.turn(since, What::Trains { step: 0, pid, ip: ip.as_str().into(), pace: train::STEADY });
        if row.status == JobStatus::Succeeded {
            tale.turn(ended, What::Lines(succeed(tale.run(), (pid, &ip), ended).into()));
        }
        if row.status == JobStatus::Failed {
            let last = traceback(tale.run(), train::error(&mut self.random), (pid, &ip));
            row.message = Some(failure(&last));
            tale.turn(ended, What::Lines(last.into()));
        }
        tale.close(ended);
        row.log = Log::Simulated(tale);
        row
    }

    /// The hosts that a job trains on; none while it waits.
    #[cfg(test)]
    pub fn hosts_of(&self, job: usize) -> &[NodeId] {
        self.work.get(&job).and_then(|w| w.slice).map_or(&[], |slice| self.hosts(slice))
    }

    /// Whether a job of the activity has no slice.
    pub fn waits(&self, job: usize) -> bool {
        self.work.get(&job).is_some_and(|work| work.slice.is_none())
    }

    /// Submits a job for a node type. `pends`: as in [`Engine::work_of`].
    pub(super) fn submit(&mut self, cluster: &mut State, kind: usize, pends: Option<bool>) {
        let index = cluster.jobs.len();
        let run = self.new_run(kind);
        let work = self.work_of(run, kind, pends);
        if cluster.add_packed(table_row(&mut self.random, index, self.now, &work)) {
            self.start_setup(index, work, SET_UP);
        }
    }

    /// The work of a run. `pends`: whether the entrypoint itself requests the slice; random if `None`.
    pub(super) fn work_of(&mut self, mut run: Run, kind: usize, pends: Option<bool>) -> Work {
        let left = self.about(self.life.job_minutes * 60_000.0);
        if run.steps == 0 {
            run.steps = run.steps_in(left.max(5000));
        }
        let fails = self.random.unit() < self.life.failing;
        Work {
            kind,
            slice: None,
            // A failing job fails at a random point of its training.
            left: if fails { (left as f64 * self.random.unit()) as i64 } else { left }.max(5000),
            since: self.now,
            fails,
            pends: pends.unwrap_or_else(|| self.random.below(4) == 0),
            step: 0,
            turn: 0,
            ends: None,
            script: None,
            ip: "".into(),
            tale: Tale::new(run.clone()),
            run,
        }
    }

    /// Starts the environment setup of the job at `index` in the job table; `set_up` is its mean time in milliseconds.
    pub(super) fn start_setup(&mut self, index: usize, work: Work, set_up: f64) {
        self.work.insert(index, work);
        self.changed = true;
        let takes = self.around(set_up);
        self.plan(takes, Event::SetUp(index));
    }

    /// The environment is set up: the driver starts and waits for a slice, or the job stays pending until one is
    /// available.
    pub(super) fn set_up(&mut self, cluster: &mut State, job: usize) {
        let (now, waits) = (self.now, self.waiting_lines());
        let Some(work) = self.work.get_mut(&job).filter(|_| !cluster.jobs[job].status.is_ended()) else {
            return;
        };
        let kind = work.kind;
        if !work.pends {
            start(cluster, job, work, now);
            // Unless it gets a slice before.
            work.tale.turn(now + 5000, waits);
            publish_log(cluster, job, work);
        }
        self.kinds[kind].waiting.push_back(job);
        self.changed = true;
        self.serve(cluster, kind);
    }

    /// The lines of a driver that begins to wait for a slice.
    const fn waiting_lines(&self) -> What {
        if self.stuck { What::WaitsInVain } else { What::Waits }
    }

    /// The autoscaler gets stuck: it writes nothing more to the logs of the drivers that wait.
    pub(super) fn end_autoscaler_lines(&mut self, cluster: &mut State) {
        let now = self.now;
        for (&job, work) in &mut self.work {
            if work.slice.is_none() && cluster.jobs[job].status == JobStatus::Running {
                work.tale.turn(now, What::Lines(Vec::<String>::new().into()));
                publish_log(cluster, job, work);
            }
        }
    }

    /// Assigns free slices of a node type to the jobs that wait for one.
    pub(super) fn serve(&mut self, cluster: &mut State, kind: usize) {
        while let (Some(job), Some(&slice)) = (self.next(cluster, kind), self.kinds[kind].free.first()) {
            self.kinds[kind].waiting.retain(|waits| *waits != job);
            if !cluster.jobs[job].status.is_ended() {
                self.kinds[kind].free.remove(&slice);
                self.train(cluster, job, slice);
            }
            self.changed = true;
        }
    }

    /// The job that gets the next free slice of a node type: a scripted run, or, if no scripted run still needs a
    /// slice, the first job that waits.
    fn next(&self, cluster: &State, kind: usize) -> Option<usize> {
        let waiting = &self.kinds[kind].waiting;
        let is_scripted = |job: &usize| self.work.get(job).is_some_and(|work| work.script.is_some());
        if let Some(job) = waiting.iter().find(|job| is_scripted(job)) {
            return Some(*job);
        }
        let needs_slice = |(job, work): (&usize, &Work)| {
            let waits = work.script.is_some() && work.kind == kind && work.slice.is_none();
            waits && !cluster.jobs[*job].status.is_ended()
        };
        waiting.front().copied().filter(|_| !self.work.iter().any(needs_slice))
    }

    fn train(&mut self, cluster: &mut State, job: usize, id: u64) {
        let now = self.now;
        let Some(slice) = self.slices.get_mut(&id) else { return };
        slice.job = Some(job);
        slice.turn += 1;
        let first = slice.hosts.first().copied();
        let cpus = 4.0 + self.random.below(28) as f64;
        self.each_host(cluster, id, |node| node.train(cpus));
        let ip: Arc<str> =
            first.and_then(|id| cluster.node(id)).map_or_else(|| "".into(), |n| n.ip.as_str().into());
        let Some(work) = self.work.get_mut(&job) else { return };
        if cluster.jobs[job].status == JobStatus::Pending {
            // Its entrypoint has requested the head resource of the slice.
            start(cluster, job, work, now);
            if let Some(host) = first {
                cluster.jobs[job].place(host, &ip);
            }
        }
        work.tale.cut(now);
        // Startup takes 6 s, as does the restore after a preemption.
        let from = now + 6000;
        let began = cluster.began;
        let before = |minutes: u32| began - i64::from(minutes) * 60_000;
        let script = work.script.clone().unwrap_or_default();
        let (slows, stalls) =
            (script.slows.map(before), script.stalls.map(|m| (m.worker, before(m.minutes_ago))));
        let pid = work.run.pid(0, work.turn + 1);
        let trains = |step, pace| What::Trains { step, pid, ip: ip.clone(), pace };
        work.tale.turn(from, trains(work.step, train::STEADY));
        if let Some(at) = slows.filter(|at| *at > from) {
            let step = work.step + work.tale.steps(from, at, train::STEADY);
            work.tale.turn(at, trains(step, train::LATER));
        }
        if let Some((_, at)) = stalls {
            work.tale.close(at);
        }
        (work.slice, work.since, work.ip) = (Some(id), from, ip);
        work.turn += 1;
        publish_log(cluster, job, work);
        if let Some(ends) = work.ends {
            work.left = (ends - from).max(5000);
        }
        let (takes, turn) = (6000 + work.left, work.turn);
        let (first_step, fails) = (work.step, work.fails);
        let run = Arc::new(work.run.clone());
        let (hosts, driver) = (self.hosts(id).to_vec(), cluster.jobs[job].driver.clone().unwrap_or_default());
        self.gangs.push(Gang {
            job,
            driver,
            hosts,
            run,
            turn,
            since: from,
            step: first_step,
            silent: stalls.or_else(|| script.silent.map(|m| (m.worker, before(m.minutes_ago)))),
            slow: script.slow,
            stalls: stalls.is_some(),
            slows,
            end: None,
        });
        let surplus = self.gangs.len().saturating_sub(MAX_GANGS);
        self.gangs.drain(..surplus);
        if fails {
            self.plan(takes - MAX_FAILURE_DELAY, Event::Break(job, turn));
        }
        self.plan(takes, Event::End(job, turn));
    }

    /// Fails the workers of a run that will fail: one of them first, and the others because of it.
    pub(super) fn break_down(&mut self, cluster: &State, job: usize, turn: u32) {
        let Some(work) = self.work.get_mut(&job).filter(|w| w.turn == turn) else { return };
        if cluster.jobs[job].status.is_ended() {
            return;
        }
        let mut random = Random::new(work.run.seed);
        let first = work.script.as_ref().and_then(|t| t.fails).map(|m| m.worker);
        let error: Arc<str> = match first {
            Some(_) => train::OUT_OF_MEMORY,
            None => train::error(&mut random),
        }
        .into();
        let last = work.slice.map_or(0, |slice| self.hosts(slice).len().saturating_sub(1));
        self.end_gang(job, End::Failed { first: first.unwrap_or(0).min(last), error });
    }

    /// Records how the workers of a job ended, unless that is already recorded.
    fn end_gang(&mut self, job: usize, end: End) {
        let now = self.now;
        if let Some(gang) = self.gangs.iter_mut().rev().find(|gang| gang.job == job) {
            gang.end.get_or_insert((now, end));
        }
    }

    /// A job succeeds or fails.
    pub(super) fn end(&mut self, cluster: &mut State, job: usize, turn: u32) {
        let Some(work) = self.work.get_mut(&job).filter(|w| w.turn == turn) else { return };
        if !cluster.jobs[job].status.is_ended() {
            if work.fails {
                let gang = self.gangs.iter().rev().find(|gang| gang.job == job);
                // The driver calls `ray.get` on its workers in order, and gets the error of worker 0.
                let error = match gang.and_then(|gang| gang.end.as_ref()) {
                    Some((_, End::Failed { first: 0, error })) => error.to_string(),
                    Some((_, End::Failed { first, .. })) => peer_is_lost(0, *first),
                    _ => train::OUT_OF_MEMORY.to_owned(),
                };
                let pid = work.run.pid(0, work.turn);
                fail(cluster, job, work, traceback(&work.run, &error, (pid, &work.ip)), self.now);
            } else {
                let last = succeed(&work.run, (work.run.pid(0, work.turn), &work.ip), self.now);
                work.tale.turn(self.now, What::Lines(last.into()));
                publish_log(cluster, job, work);
                cluster.jobs[job].turn(JobStatus::Succeeded, self.now);
                self.end_gang(job, End::Done);
            }
        }
        self.stopped(cluster, job);
    }

    /// Frees the slice of a job that has ended, and removes its demand.
    pub fn stopped(&mut self, cluster: &mut State, job: usize) {
        if !cluster.jobs[job].status.is_ended() {
            return;
        }
        self.end_gang(job, End::Gone);
        let Some(work) = self.work.remove(&job) else { return };
        self.changed = true;
        self.kinds[work.kind].waiting.retain(|j| *j != job);
        if let Some(slice) = work.slice {
            self.release(cluster, slice);
        }
    }

    /// A job's slice was lost: the job waits for another and continues from its checkpoint, or fails.
    pub(super) fn lose_slice(&mut self, cluster: &mut State, job: usize) {
        self.end_gang(job, End::Gone);
        let (now, gives_up) = (self.now, self.random.unit() < GIVES_UP && !self.life.stuck);
        let waits = self.waiting_lines();
        let Some(work) = self.work.get_mut(&job) else { return };
        work.slice = None;
        work.turn += 1;
        work.left = (work.left - (now - work.since).max(0)).max(5000);
        let kind = work.kind;
        if cluster.jobs[job].status.is_ended() {
            self.work.remove(&job);
            return;
        }
        if work.pends {
            // Its driver ran on the slice, which has the resource that the entrypoint requested.
            cluster.jobs[job].die_with_node(now);
            self.work.remove(&job);
            return;
        }
        if gives_up {
            let last = lost(&work.run, &work.ip);
            fail(cluster, job, work, last, now);
            self.work.remove(&job);
            return;
        }
        work.step = (work.step + work.run.steps_in(now - work.since)) / CHECKPOINT * CHECKPOINT;
        if !work.fails {
            work.left = work.run.time_of(work.run.steps.saturating_sub(work.step)).max(1);
        }
        let lines = [
            format!(
                "\u{1b}[33m(raylet, ip={})\u{1b}[0m The node with node id and address {} has been marked dead because the detector has missed too many heartbeats from it.",
                work.ip, work.ip
            ),
            format!(
                "WARNING marin.execution The TPU slice was preempted; {} resumes from step {} on another {}.",
                work.run.experiment, work.step, work.run.pod_type
            ),
        ];
        work.tale.turn(now, What::Lines(lines.into()));
        work.tale.turn(now, waits);
        publish_log(cluster, job, work);
        self.kinds[kind].waiting.push_front(job);
        self.changed = true;
        self.serve(cluster, kind);
    }
}

/// The row of a new job in the job table.
fn table_row(random: &mut Random, index: usize, now: i64, work: &Work) -> SimJob {
    let run = &work.run;
    let mut row = SimJob::invent(random, index, now, JobStatus::Pending, Log::none());
    row.submission = Some(run.id.clone());
    row.entrypoint = entrypoint(run);
    row.metadata = Some(label(run));
    // The head of these clusters offers no CPU: a driver that requested one could not be scheduled there.
    row.requested.cpus = 0.0;
    row.requested.resources = work.pends.then(|| json!({format!("TPU-{}-head", run.pod_type): 1.0}));
    row
}

/// The metadata of a run's submission.
fn label(run: &Run) -> Value {
    json!({"user": run.owner, "experiment": run.experiment, "tpu": run.pod_type})
}

/// Ray's message about a driver that failed with these last lines.
fn failure(last: &[String]) -> String {
    let logs = last.join("\n");
    format!(
        "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n{logs}\n"
    )
}

/// Starts the driver.
fn start(cluster: &mut State, job: usize, work: &mut Work, now: i64) {
    let row = &mut cluster.jobs[job];
    row.turn(JobStatus::Running, now);
    row.driver = Some(format!("{:02x}{:02x}{:02x}00", job % 256, job / 256 % 256, job / 65_536 % 256));
    work.tale.turn(now, What::Begins);
    publish_log(cluster, job, work);
}

/// Copies the log to the job table, unless a test has written a log.
fn publish_log(cluster: &mut State, job: usize, work: &Work) {
    let log = &mut cluster.jobs[job].log;
    if matches!(log, Log::Simulated(_)) || log.end_position(i64::MAX) == 0 {
        *log = Log::Simulated(work.tale.clone());
    }
}

fn fail(cluster: &mut State, job: usize, work: &mut Work, last: Vec<String>, now: i64) {
    let message = failure(&last);
    work.tale.turn(now, What::Lines(last.into()));
    publish_log(cluster, job, work);
    let row = &mut cluster.jobs[job];
    row.turn(JobStatus::Failed, now);
    row.message = Some(message);
}

#[cfg(test)]
mod tests {
    use super::super::super::cluster::Cluster;
    use super::*;
    use crate::demo::{Clock, Life, Scenario, TpuType};
    use std::sync::atomic::AtomicI64;

    #[test]
    fn an_entrypoint_that_requested_a_slice_runs_only_while_it_has_one() {
        let life = Life {
            types: vec![TpuType::new("tpu_worker", "v4-16", 0, 6)],
            past_minutes: 0,
            jobs_per_hour: 60.0,
            preemptions_per_hour: 60.0,
            ..Life::default()
        };
        let clock = Clock::Manual(Arc::new(AtomicI64::new(1_795_000_000_000)));
        let mut cluster = Cluster::new(&Scenario { jobs: 0, life: Some(life), clock, ..Scenario::default() });
        let mut ran = 0;
        for _ in 0..300 {
            cluster.advance(cluster.now + 60_000);
            for (job_index, job) in cluster.jobs.iter().enumerate() {
                if job.requested.resources.is_some() && job.status == JobStatus::Running {
                    let first = cluster.hosts_of(job_index).first().copied();
                    assert!(first.is_some(), "{:?} runs without a slice", job.submission);
                    assert_eq!(job.driver_node, first, "the node with the resource that it requested");
                    ran += 1;
                }
            }
        }
        let died = cluster.jobs.iter().filter(|j| j.error == Some("JOB_SUPERVISOR_ACTOR_DIED")).count();
        assert!(ran > 0 && died > 0, "{ran} {died}");
    }
}
