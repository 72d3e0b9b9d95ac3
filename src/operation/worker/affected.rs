//! Finds the jobs whose tasks and actors run on a worker.

use super::joined::alive;
use super::machine::Machine;
use super::planned::{find, find_all, unknown};
use crate::model::sort;
use crate::model::{
    AffectedJob, ClusterSpec, Job, JobKey, JobStatus, NodeId, Problem, Provider, Restoration, Snapshot, Task,
    Text, Timestamp,
};
use crate::ray::{Client, RayError, Running, SUPERVISOR};
use crate::supervisor::Options;
use std::collections::{BTreeMap, BTreeSet};

/// A job that runs something on a node, unless it is unknown, and what it runs there.
type JobRow = (Option<Job>, AffectedJob);

/// The tasks and actors of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Share {
    tasks: usize,
    actors: usize,
    entrypoint: bool,
}

impl Share {
    fn text(&self, drains: bool) -> String {
        let count = |n: usize, word: &str| match n {
            0 => None,
            1 => Some(format!("1 {word}")),
            n => Some(format!("{n} {word}s")),
        };
        let entrypoint = self.entrypoint.then(|| "entrypoint".to_owned());
        let parts: Vec<String> = [entrypoint, count(self.tasks, "task"), count(self.actors, "actor")]
            .into_iter()
            .flatten()
            .collect();
        let end = if drains { " (allowed to finish)" } else { "" };
        parts.join(", ") + end
    }
}

/// Looks up the workers of a task.
pub(in super::super) async fn affected(
    (spec, options): (&ClusterSpec, &Options),
    task: &Task,
) -> Result<Vec<Machine>, Problem> {
    match (task, task.removal()) {
        (_, Some((workers, _))) => find_all(spec, options, workers, true).await,
        (Task::InitWorker { worker }, None) => {
            let found = find(spec, options, worker, false).await?;
            Ok(vec![found.ok_or_else(|| unknown(spec, worker))?])
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether a worker of a task no longer exists. One that cannot be looked up at Google may exist.
pub(in super::super) async fn is_gone((spec, options): (&ClusterSpec, &Options), task: &Task) -> bool {
    let workers = match (task, task.removal()) {
        (_, Some((workers, _))) => workers,
        (Task::InitWorker { worker }, None) => std::slice::from_ref(worker),
        _ => &[],
    };
    for worker in workers {
        match find(spec, options, worker, true).await {
            Ok(None) => return true,
            Err(_) if spec.provider != Provider::Gcp => return true,
            Ok(Some(_)) | Err(_) => {}
        }
    }
    false
}

/// The live nodes of these workers.
pub(in super::super) fn nodes_of(snapshot: &Snapshot, machines: &[Machine]) -> Result<Vec<NodeId>, Problem> {
    let hosts: Vec<String> = machines.iter().flat_map(|m| &m.hosts).cloned().collect();
    Ok(alive(snapshot, &hosts)?.iter().map(|node| node.id).collect())
}

/// The jobs that run something on these nodes, with what they run. With `drains`, these may finish. If more may run on
/// the cluster than Ray lists, there are no jobs but a problem, and the operator may continue without knowing them.
pub(in super::super) async fn running_on(
    client: &Client,
    snapshot: &Snapshot,
    nodes: &[NodeId],
    drains: bool,
) -> Result<(Vec<JobRow>, Option<Problem>), Problem> {
    let running = match running(client, nodes).await {
        Ok(running) => running,
        Err(e @ RayError::TooMany { .. }) => return Ok((Vec::new(), Some(e.problem(Timestamp::now())))),
        Err(e) => return Err(e.problem(Timestamp::now())),
    };
    let jobs: Vec<&Job> = snapshot.jobs.iter().map(|j| &**j).collect();
    let shares = shares(&jobs, nodes, &running);
    let mut rows: Vec<JobRow> = Vec::new();
    for job in &jobs {
        if let Some(share) = shares.get(&job.key) {
            let restoration = Restoration::Lost(share.text(drains));
            rows.push((Some((*job).clone()), AffectedJob { restoration, ..AffectedJob::of(job) }));
        }
    }
    // Something that outlives its job, such as a detached actor.
    for (key, share) in shares.iter().filter(|(key, _)| !jobs.iter().any(|j| j.key == **key)) {
        let restoration = Restoration::Lost(share.text(drains));
        let (key, status) = (key.clone(), JobStatus::Unknown);
        rows.push((None, AffectedJob { key, owner: None, status, started: None, holds: None, restoration }));
    }
    Ok((rows, None))
}

/// The tasks and actors on these nodes.
async fn running(client: &Client, nodes: &[NodeId]) -> Result<Vec<Running>, RayError> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let here: BTreeSet<NodeId> = sort::collected(nodes.iter().copied());
    let all = client.running_everywhere().await?;
    Ok(all.into_iter().filter(|(node, _)| here.contains(node)).map(|(_, item)| item).collect())
}

/// The share of each job, by job.
fn shares(jobs: &[&Job], nodes: &[NodeId], running: &[Running]) -> BTreeMap<JobKey, Share> {
    let mut all: BTreeMap<JobKey, Share> = BTreeMap::new();
    for item in running {
        let submitted = item.name.raw().strip_prefix(SUPERVISOR).filter(|_| item.kind == "actor");
        let supervised = submitted
            .and_then(|id| jobs.iter().find(|j| j.submission_id().is_some_and(|s| s.0 == Text::from(id))));
        if let Some(job) = supervised {
            all.entry(job.key.clone()).or_default().entrypoint = true;
            continue;
        }
        let job = jobs.iter().find(|j| j.driver.as_ref() == Some(&item.job));
        let key = job.map_or_else(|| JobKey::Driver(item.job.clone()), |j| j.key.clone());
        let share = all.entry(key).or_default();
        if item.kind == "actor" {
            share.actors += 1;
        } else {
            share.tasks += 1;
        }
    }
    // A manually started driver has no actor that would show its node.
    let here = |job: &&&Job| !job.status.is_ended() && job.driver_node.is_some_and(|n| nodes.contains(&n));
    for job in jobs.iter().filter(here) {
        all.entry(job.key.clone()).or_default().entrypoint = true;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobId, SubmissionId};

    fn job(key: JobKey, driver: Option<&str>, on: Option<NodeId>) -> Job {
        Job {
            key,
            driver: driver.map(|d| JobId(d.into())),
            status: JobStatus::Running,
            entrypoint: "x".into(),
            message: Text::default(),
            error_type: Text::default(),
            started: None,
            ended: None,
            metadata: Vec::new(),
            driver_node: on,
            exit_code: None,
            requested: None,
        }
    }

    #[test]
    fn running_work_is_grouped_by_submission_or_driver() {
        let here = NodeId::from_bytes(&[1; 28]).unwrap();
        let submitted = JobKey::Submission(SubmissionId("train".into()));
        let by_hand = JobKey::Driver(JobId("05000000".into()));
        let jobs = [
            job(submitted.clone(), Some("04000000"), None),
            job(by_hand.clone(), Some("05000000"), Some(here)),
        ];
        let jobs: Vec<&Job> = jobs.iter().collect();
        let one = |of: &str, kind: &'static str, name: &str| Running {
            job: JobId(of.into()),
            kind,
            name: name.into(),
        };
        let running = [
            one("04000000", "task", "step"),
            one("04000000", "task", "step"),
            one("02000000", "actor", "_ray_internal_job_actor_train"),
            one("09000000", "actor", "left_over"),
        ];
        let shares = shares(&jobs, &[here], &running);
        assert_eq!(shares[&submitted].text(false), "entrypoint, 2 tasks");
        assert_eq!(shares[&by_hand].text(false), "entrypoint");
        let orphan = JobKey::Driver(JobId("09000000".into()));
        assert_eq!(shares[&orphan].text(true), "1 actor (allowed to finish)");
        assert_eq!(shares.len(), 3);
    }
}
