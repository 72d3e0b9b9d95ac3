//! The drivers of submitted jobs: each starts on a node that has the labels, and has free the resources, that its
//! entrypoint requests, and holds them until the job ends. An entrypoint that requests nothing starts on the head.

use super::Cluster;
use super::autoscaling::Wanted;
use super::job::{RequestedResources, SimJob};
use super::log::Log;
use super::node::{SLICES, SimNode, add_amounts};
use super::state::State;
use crate::model::{JobStatus, NodeId};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Time until the driver of a job starts on its node, in milliseconds.
const START_TAKES: i64 = 1000;

/// Resources by name.
type Shape = [(String, f64)];

/// What drivers hold on each node.
type Held = HashMap<NodeId, Vec<(String, f64)>>;

fn takes_chips(shape: &Shape) -> bool {
    shape.iter().any(|(name, _)| name == "TPU" || name.starts_with("TPU-"))
}

impl Cluster {
    /// Updates what drivers hold on their nodes; recounted only after a change.
    pub fn count_drivers(&mut self) {
        if self.counted == self.version {
            return;
        }
        self.counted = self.version;
        let (mut held, now) = (Held::new(), self.now);
        for job in &self.jobs {
            self.add_held(job, &mut held);
        }
        for node in &mut self.nodes {
            node.hold(held.remove(&node.id).unwrap_or_default(), now);
        }
    }

    /// Adds what the driver of a job holds. With simulated activity, chips include the head resource of their slice: a
    /// run needs all chips of a slice, so that its first host is of no use to another job without them.
    fn add_held(&self, job: &SimJob, held: &mut Held) {
        let shape = job.held();
        if shape.is_empty() {
            return;
        }
        let node = job.driver_node.unwrap_or_else(|| self.head());
        let has_chips = shape.iter().any(|(name, _)| name == "TPU");
        add_amounts(held.entry(node).or_default(), shape);
        let life = self.life.as_ref().filter(|_| has_chips);
        let Some(first) = life.and_then(|life| life.first_host(node)) else { return };
        let first_host = self.nodes.iter().find(|node| node.id == first && node.is_alive());
        if let Some((name, total, _)) = first_host.and_then(SimNode::slice_head) {
            add_amounts(held.entry(first).or_default(), vec![(name.clone(), *total)]);
        }
    }

    /// Gives a node to each job that waits for one, as far as nodes have free what the entrypoints request.
    pub fn place_drivers(&mut self) {
        self.end_with_nodes();
        if let Some(life) = &mut self.life {
            life.vacate(&mut self.state);
        }
        let queued = self.jobs.iter().enumerate().filter(|(_, job)| job.is_queued());
        let queued: Vec<usize> = queued.map(|(job_index, _)| job_index).collect();
        let mut kinds = Vec::new();
        for job_index in queued {
            let requested = self.jobs[job_index].requested.clone();
            let shape = requested.shape();
            if let Some(node) = self.node_for(&requested) {
                self.start_driver(job_index, node, &shape);
            } else if let Some(life) = &self.life
                && requested.labels.is_empty()
                && !shape.is_empty()
            {
                kinds.extend(life.kind_for(&shape));
            }
        }
        if let Some(life) = &mut self.life {
            life.ask(&kinds);
        }
    }

    /// The first node that takes work and has these labels, and these resources free. Chips are taken from the first
    /// host of a slice if possible, and the head is the first of all nodes.
    fn node_for(&self, requested: &RequestedResources) -> Option<NodeId> {
        let shape = requested.shape();
        let takes_work = |node: &SimNode| node.is_alive() && !self.is_draining(node.id);
        let has_labels = |node: &SimNode| requested.labels.iter().all(|label| node.labels.contains(label));
        let fits = |node: &&SimNode| takes_work(node) && has_labels(node) && node.has_free(&shape);
        let first = self.nodes.iter().find(fits)?;
        let mut heads = self.nodes.iter().filter(|node| takes_chips(&shape) && node.slice_head().is_some());
        Some(heads.find(fits).unwrap_or(first).id)
    }

    fn start_driver(&mut self, job_index: usize, node: NodeId, shape: &Shape) {
        let (at, rate) = (self.now + START_TAKES, self.scenario.log_rate);
        let worker = self.nodes.iter().find(|n| n.id == node && !n.is_head);
        let address = worker.map(|n| n.ip.clone());
        // With simulated activity, only its runs have workers.
        let growing = if self.life.is_some() { Log::growing_alone } else { Log::growing };
        let State { jobs, due, version, .. } = &mut self.state;
        let job = &mut jobs[job_index];
        if let Some(ip) = address {
            job.place(node, &ip);
        }
        (job.queued, job.starting) = (false, Some(at));
        // A test may have written the log.
        if matches!(&job.log, Log::Written(bytes) if bytes.is_empty()) {
            job.log = growing(at, 0, rate);
        }
        due.push(Reverse((at, job_index)));
        *version += 1;
        if let Some(life) = self.life.as_mut().filter(|_| takes_chips(shape)) {
            life.occupy(job_index, node);
        }
        // Only what is new: counting the drivers of all jobs for each job would take too long if many start at once.
        let (mut held, now) = (Held::new(), self.now);
        self.add_held(&self.jobs[job_index], &mut held);
        for (id, amounts) in held {
            if let Some(node) = self.node(id) {
                node.hold_also(amounts, now);
            }
        }
    }

    /// Fails the jobs whose drivers ran on nodes that have died.
    fn end_with_nodes(&mut self) {
        let State { jobs, nodes, version, now, .. } = &mut self.state;
        let runs = |job: &&mut SimJob| job.submission.is_some() && job.status == JobStatus::Running;
        for job in jobs.iter_mut().filter(runs) {
            let has_died = |node: NodeId| !nodes.iter().any(|n| n.id == node && n.is_alive());
            if job.driver_node.is_some_and(has_died) {
                job.die_with_node(*now);
                *version += 1;
            }
        }
    }

    /// Unmet demand: that of the simulated activity, or of the scenario, and of jobs that wait for a node.
    pub fn demand(&self) -> Vec<Wanted> {
        let mut all = self.wanted.clone();
        for job in self.jobs.iter().filter(|job| job.is_queued()) {
            let shape = job.requested.shape();
            if shape.is_empty() {
                continue;
            }
            if let Some(same) = all.iter_mut().find(|wanted| wanted.shape == shape) {
                same.count += 1;
                continue;
            }
            let node_type = self.node_type_for(&shape);
            let infeasible = node_type.is_none() && !self.nodes.iter().any(|n| n.is_alive() && n.has(&shape));
            let node_type = node_type.unwrap_or_else(|| "".into());
            all.push(Wanted { shape, count: 1, infeasible, node_type });
        }
        all
    }

    /// The node type that the autoscaler launches for these resources; none if no type has them.
    fn node_type_for(&self, shape: &Shape) -> Option<Arc<str>> {
        match &self.life {
            Some(life) => life.kind_for(shape).map(|kind| life.type_name(kind)),
            None => SLICES.iter().find(|kind| kind.fits(shape)).map(|kind| (*kind.node_type).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::SUPERVISOR_DIED;
    use super::*;
    use crate::demo::random::Random;
    use crate::demo::{Clock, Scenario};
    use serde_json::{Value, json};
    use std::sync::atomic::AtomicI64;

    const T0: i64 = 1_795_000_000_000;

    #[test]
    fn drivers_use_the_cpus_of_the_head_that_they_requested() {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
        let mut cluster =
            Cluster::new(&Scenario { nodes: 2, jobs: 0, changes: 0, clock, ..Scenario::default() });
        cluster.nodes[0].rest(T0);
        let now = |c: &Cluster| {
            let cpu = c.nodes[0].resources.iter().find(|r| r.0 == "CPU").unwrap();
            (cpu.2, c.nodes[0].idle_since)
        };
        let mut at = T0;
        let mut advance = |c: &mut Cluster| {
            at += 1000;
            c.advance(at);
            now(c)
        };
        for (n, cpus) in [(0, 0.0), (1, 2.0), (2, 0.3), (3, 40.0)] {
            let status = if n == 3 { JobStatus::Pending } else { JobStatus::Running };
            let mut job = SimJob::invent(&mut Random::new(n), n as usize, T0, status, Log::none());
            job.requested.cpus = cpus;
            assert!(cluster.add(job));
        }
        assert_eq!(advance(&mut cluster), (2.3, None), "a pending job holds nothing");
        let ids: Vec<String> = cluster.jobs.iter().filter_map(|j| j.submission.clone()).collect();
        cluster.job(&ids[3]).unwrap().turn(JobStatus::Running, T0);
        cluster.version += 1;
        assert_eq!(advance(&mut cluster), (32.0, None), "all CPUs of the head");
        cluster.nodes[0].rest(T0);
        assert_eq!(now(&cluster), (32.0, None), "the end of other work does not change it");
        assert!(cluster.stop(&ids[3]));
        advance(&mut cluster);
        assert_eq!(advance(&mut cluster), (2.3, None));
        for id in &ids[1..3] {
            cluster.job(id).unwrap().turn(JobStatus::Failed, T0);
        }
        let idle = advance(&mut cluster);
        assert_eq!(idle, (0.0, Some(T0 + 5000)), "idle since the last driver ended");
        assert_eq!(advance(&mut cluster), idle);
    }

    /// A head, four hosts of a v5e-16 and one of a v5p-8, all of them idle.
    fn idle_cluster() -> Cluster {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
        let scenario =
            Scenario { nodes: 6, dead: 0, jobs: 0, pending: 0, changes: 0, clock, ..Scenario::default() };
        let mut cluster = Cluster::new(&scenario);
        for node in &mut cluster.nodes {
            node.rest(T0);
        }
        cluster
    }

    /// Submits job number `n`, whose entrypoint requests these resources, and returns its index in the job table.
    fn submit(cluster: &mut Cluster, n: usize, cpus: f64, resources: Option<Value>) -> usize {
        let mut job =
            SimJob::invent(&mut Random::new(n as u64), n, cluster.now, JobStatus::Pending, Log::none());
        (job.queued, job.submission) = (true, Some(format!("job-{n}")));
        job.requested = RequestedResources { cpus, resources, ..RequestedResources::default() };
        assert!(cluster.add(job));
        cluster.jobs.len() - 1
    }

    fn advance(cluster: &mut Cluster, seconds: usize) {
        for _ in 0..seconds {
            cluster.advance(cluster.now + 1000);
        }
    }

    #[test]
    fn a_submitted_job_runs_on_a_node_that_has_free_what_it_requests() {
        let mut cluster = idle_cluster();
        let slice = || Some(json!({"TPU": 4.0, "TPU-v5p-8-head": 1.0}));
        let requests = [slice(), slice(), Some(json!({"nowhere": 1})), None].into_iter().enumerate();
        let jobs: Vec<usize> = requests.map(|(n, request)| submit(&mut cluster, n, 0.0, request)).collect();
        advance(&mut cluster, 2);
        let status = |c: &Cluster, n: usize| c.jobs[jobs[n]].status;
        let all: Vec<JobStatus> = (0..4).map(|n| status(&cluster, n)).collect();
        assert_eq!(all, [JobStatus::Running, JobStatus::Pending, JobStatus::Pending, JobStatus::Running]);
        let host = cluster.nodes[5].clone();
        assert_eq!(cluster.jobs[jobs[0]].driver_node, Some(host.id));
        assert_eq!(cluster.jobs[jobs[3]].driver_node, None, "it requests nothing: the head");
        let text = cluster.jobs[jobs[0]].text(host.id).to_owned();
        assert!(text.contains(&format!("\"http://{}:52365\"", host.ip)), "{text}");
        assert!(!host.has_free(&[("TPU".to_owned(), 1.0)]) && host.idle_since.is_none());
        let demand = cluster.demand();
        let infeasible: Vec<bool> = demand.iter().map(|wanted| wanted.infeasible).collect();
        assert_eq!(infeasible, [false, true], "{demand:?}");
        // The second job gets the node once the first one has ended.
        assert!(cluster.stop("job-0"));
        advance(&mut cluster, 4);
        assert_eq!((status(&cluster, 0), status(&cluster, 1)), (JobStatus::Stopped, JobStatus::Running));
        assert_eq!(cluster.demand().len(), 1);
        // What waits for a node can be stopped, too.
        assert!(cluster.stop("job-2"));
        advance(&mut cluster, 3);
        assert_eq!(status(&cluster, 2), JobStatus::Stopped);
        assert!(cluster.demand().is_empty());
        // Its entrypoint had no node, unlike that of a job that was stopped before its driver started.
        let starting = submit(&mut cluster, 4, 0.0, None);
        cluster.place_drivers();
        assert!(cluster.stop("job-4"));
        advance(&mut cluster, 3);
        let had_node = [jobs[0], jobs[2], starting].map(|job_index| cluster.jobs[job_index].has_started());
        assert_eq!((cluster.jobs[starting].status, had_node), (JobStatus::Stopped, [true, false, true]));
    }

    #[test]
    fn a_node_gets_no_more_jobs_than_it_has_room_for_and_none_while_it_is_drained() {
        let mut cluster = idle_cluster();
        let [head, drained, next] = [0, 1, 2].map(|n: usize| cluster.nodes[n].id);
        let jobs: Vec<usize> = (0..3).map(|n| submit(&mut cluster, n, 20.0, None)).collect();
        cluster.drain(drained, i64::MAX, "");
        cluster.place_drivers();
        let node = |job_index: &usize| cluster.jobs[*job_index].driver_node.unwrap_or(head);
        let nodes: Vec<NodeId> = jobs.iter().map(node).collect();
        assert_eq!(nodes, [head, next, next], "20 of 32 CPUs, then twice 20 of 112");
    }

    #[test]
    fn fractions_of_a_resource_add_up() {
        let mut cluster = idle_cluster();
        let [head, next] = [0, 1].map(|n: usize| cluster.nodes[n].id);
        let cpus = [31.8, 0.2, 0.1, 0.2].into_iter().enumerate();
        let jobs: Vec<usize> = cpus.map(|(n, cpus)| submit(&mut cluster, n, cpus, None)).collect();
        cluster.place_drivers();
        let node = |job_index: &usize| cluster.jobs[*job_index].driver_node.unwrap_or(head);
        let nodes: Vec<NodeId> = jobs.iter().map(node).collect();
        assert_eq!(nodes, [head, head, next, next], "31.8 and 0.2 are all 32 CPUs");
        let used = |n: usize| cluster.nodes[n].resources.iter().find(|r| r.0 == "CPU").map(|r| r.2);
        assert_eq!((used(0), used(1)), (Some(32.0), Some(0.3)));
    }

    #[test]
    fn many_jobs_that_start_at_once_are_counted_once() {
        let mut cluster = idle_cluster();
        for n in 0..40_usize {
            submit(&mut cluster, n, 1.5, n.is_multiple_of(4).then(|| json!({"TPU": 1.0})));
        }
        let used = |c: &Cluster| c.nodes.iter().map(|node| node.resources.clone()).collect::<Vec<_>>();
        let (counted, idle) = (cluster.counted, used(&cluster));
        cluster.place_drivers();
        assert!(cluster.jobs.iter().all(|job| job.starting.is_some()));
        assert_eq!(cluster.counted, counted);
        let placed = used(&cluster);
        cluster.count_drivers();
        assert!(cluster.counted > counted && placed != idle);
        assert_eq!(used(&cluster), placed, "the same amounts");
    }

    #[test]
    fn a_job_that_requires_a_label_starts_on_a_node_that_has_it() {
        let mut cluster = idle_cluster();
        let label = |value: &str| vec![("ray.io/tpu-pod-type".to_owned(), value.to_owned())];
        let jobs = [submit(&mut cluster, 0, 0.0, None), submit(&mut cluster, 1, 0.0, None)];
        cluster.jobs[jobs[0]].requested.labels = label("v5p-8");
        cluster.jobs[jobs[1]].requested.labels = label("v5p-16");
        cluster.place_drivers();
        assert_eq!(cluster.jobs[jobs[0]].driver_node, Some(cluster.nodes[5].id));
        assert!(cluster.jobs[jobs[1]].is_queued() && cluster.demand().is_empty());
        assert_eq!(cluster.labels_of(&cluster.jobs[jobs[0]]), label("v5p-8"));
    }

    #[test]
    fn a_job_fails_with_the_node_of_its_driver() {
        let mut cluster = idle_cluster();
        let job_index = submit(&mut cluster, 0, 0.0, Some(json!({"TPU": 1.0})));
        advance(&mut cluster, 2);
        let node = cluster.jobs[job_index].driver_node.unwrap();
        assert_eq!(node, cluster.nodes[1].id, "the first host of the first slice");
        assert!(cluster.kill(node));
        advance(&mut cluster, 1);
        let job = &cluster.jobs[job_index];
        assert_eq!((job.status, job.error), (JobStatus::Failed, Some(SUPERVISOR_DIED)));
    }
}
