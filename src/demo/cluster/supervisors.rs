//! The actors that run the entrypoints of submitted jobs (`JobSupervisor` in Ray's
//! `dashboard/modules/job/job_supervisor.py`): one for each submission, on the node of its driver.

use super::Cluster;
use super::job::{DASHBOARD, SimJob};
use super::processes::Process;
use crate::model::{JobStatus, NodeId};

/// The beginning of an actor's name, before the submission id.
const NAME: &str = "_ray_internal_job_actor_";
/// Process id of the first one.
const FIRST_PID: u32 = 20_000;
/// Beginning of Ray's ids of their worker processes, as a number.
const FIRST_WORKER: usize = 0x5500_0000;
/// Maximum number of actors of ended jobs that are listed.
const MAX_ENDED: usize = 200;

/// The actor that runs a job's entrypoint.
pub(in crate::demo) struct Supervisor<'a> {
    pub job: &'a SimJob,
    /// Ray's id of the actor.
    pub id: String,
    pub name: String,
    /// Its process; none before it has a node, and if it never had one.
    pub process: Option<Process>,
}

impl Supervisor<'_> {
    /// Ray's name for its state.
    pub fn state(&self) -> &'static str {
        match self.job.status {
            JobStatus::Pending => "PENDING_CREATION",
            JobStatus::Running => "ALIVE",
            _ => "DEAD",
        }
    }
}

impl Cluster {
    /// The actors of all open submissions, and of the last ones that ended.
    pub fn supervisors(&self) -> Vec<Supervisor<'_>> {
        let submissions = self.jobs.iter().enumerate().filter(|(_, job)| job.submission.is_some());
        let (ended, open): (Vec<_>, Vec<_>) = submissions.partition(|(_, job)| job.status.is_ended());
        let ended = ended[ended.len().saturating_sub(MAX_ENDED)..].iter().copied();
        ended.chain(open).map(|(number, job)| self.supervisor(number, job)).collect()
    }

    /// The processes of those that run on a node.
    pub fn supervisors_on(&self, node: NodeId) -> impl Iterator<Item = Process> {
        let running = self.jobs.iter().enumerate().filter(|(_, job)| job.status == JobStatus::Running);
        let here = running.filter(move |(_, job)| {
            job.submission.is_some() && job.driver_node.unwrap_or_else(|| self.head()) == node
        });
        here.filter_map(|(number, job)| self.supervisor(number, job).process)
    }

    fn supervisor<'a>(&self, number: usize, job: &'a SimJob) -> Supervisor<'a> {
        let process = job.has_started().then(|| Process {
            node: job.driver_node.unwrap_or_else(|| self.head()),
            worker: format!("{:08x}{:048x}", FIRST_WORKER + number, job.started),
            pid: FIRST_PID + number as u32,
        });
        let name = format!("{NAME}{}", job.submission.as_deref().unwrap_or_default());
        Supervisor { job, id: format!("{number:024x}{DASHBOARD}"), name, process }
    }

    /// The labels that the node of a job's actor must have: those that the submitter required. An entrypoint that
    /// requests nothing is placed on the head; Ray 2.60 does so by the label of the head's id, 2.53 does not.
    pub fn labels_of(&self, job: &SimJob) -> Vec<(String, String)> {
        let requested = &job.requested;
        let requests_nothing = requested.labels.is_empty() && requested.shape().is_empty();
        if requests_nothing && !self.scenario.ray_version.starts_with("2.53") {
            return vec![("ray.io/node-id".into(), self.head().to_string())];
        }
        requested.labels.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::SUPERVISOR;
    use super::*;
    use crate::demo::{Clock, Scenario};
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    #[test]
    fn each_submission_has_one_on_the_node_of_its_driver_while_it_runs() {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(1_795_000_000_000)));
        let scenario = Scenario { nodes: 3, jobs: 60, changes: 0, clock, ..Scenario::default() };
        let mut cluster = Cluster::new(&scenario);
        let is_running = |job: &&mut SimJob| job.status == JobStatus::Running && job.submission.is_some();
        let (worker, ip) = (cluster.nodes[1].id, cluster.nodes[1].ip.clone());
        let moved = cluster.jobs.iter_mut().find(is_running).unwrap();
        moved.place(worker, &ip);
        let moved = moved.submission.clone().unwrap();
        let head = cluster.head();
        let supervisors = cluster.supervisors();
        assert!(supervisors.iter().all(|supervisor| supervisor.job.submission.is_some()));
        for job in cluster.jobs.iter().filter(|job| job.submission.is_some()) {
            let id = job.submission.as_deref().unwrap();
            let mut its = supervisors.iter().filter(|s| s.name == format!("_ray_internal_job_actor_{id}"));
            let supervisor = its.next().unwrap();
            assert!(its.next().is_none());
            let node = supervisor.process.as_ref().map(|process| process.node);
            let expected = match job.status {
                JobStatus::Pending => ("PENDING_CREATION", None),
                JobStatus::Running if id == moved => ("ALIVE", Some(worker)),
                JobStatus::Running => ("ALIVE", Some(head)),
                _ => ("DEAD", Some(head)),
            };
            assert_eq!((supervisor.state(), node), expected, "{id}");
        }
        let pids: Vec<u32> = cluster.supervisors_on(worker).map(|process| process.pid).collect();
        assert_eq!(pids.len(), 1, "of the job that was placed there");
        assert!(cluster.stacks(worker, pids[0]).unwrap().contains("ray::JobSupervisor"));
        assert!(cluster.stacks(head, pids[0]).is_none(), "it is on another node");
        // Its process is among those of the node, with files.
        let serving = cluster.serving(worker);
        let its = serving.iter().find(|process| process.pid == pids[0]).unwrap();
        assert_eq!(its.job, Some((DASHBOARD.to_owned(), SUPERVISOR.to_owned())));
        let files = cluster.worker_files(worker);
        for names in &files {
            let name =
                names.iter().find(|name| name.contains(&format!("-{DASHBOARD}-{}.", pids[0]))).unwrap();
            let log = cluster.worker_log(worker, name).unwrap().tail(None, cluster.now);
            assert!(log.starts_with(format!(":job_id:{DASHBOARD}\n").as_bytes()));
        }
    }

    #[test]
    fn no_job_has_the_id_of_the_driver_that_starts_them() {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(1_795_000_000_000)));
        let cluster = Cluster::new(&Scenario { jobs: 1000, clock, ..Scenario::default() });
        assert!(cluster.jobs.iter().all(|job| job.driver.as_deref() != Some(DASHBOARD)));
        let supervisors = cluster.supervisors();
        let ended = supervisors.iter().filter(|supervisor| supervisor.state() == "DEAD").count();
        assert_eq!(ended, MAX_ENDED, "the last ones");
    }
}
