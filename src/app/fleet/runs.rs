//! What runs on a cluster: its largest and newest jobs, each with the number of its attempt.

use crate::model::cloud::chips;
use crate::model::sort;
use crate::model::{ClusterVitals, Job, JobStatus, Timestamp};
use std::cmp::Reverse;
use std::sync::Arc;

/// Maximum number of jobs kept per cluster: as many as the tallest screen shows.
const MAX_JOBS: usize = 20;

/// A job that has not ended.
#[derive(Clone, Debug)]
pub struct Run {
    /// The job, pending or running.
    pub job: Arc<Job>,
    /// The number of the attempt: its position among the submissions of the same entrypoint by the same owner since the
    /// last that succeeded.
    pub attempt: usize,
}

/// The jobs of a cluster that have not ended: those with a problem first, then pending ones, then the largest, then the
/// newest. Returns the first of them, and the number of all.
pub fn runs(jobs: &[Arc<Job>], vitals: &ClusterVitals, now: Timestamp) -> (Vec<Run>, usize) {
    let is_open = |job: &&Arc<Job>| matches!(job.status, JobStatus::Pending | JobStatus::Running);
    let mut open: Vec<&Arc<Job>> = jobs.iter().filter(is_open).collect();
    let size = |job: &Job| job.accelerator().and_then(|kind| chips(&kind)).unwrap_or(0);
    sort::by_key(&mut open, |job| {
        let worst = vitals.worst_warning(job, now).map(|warning| warning.kind);
        let is_running = vitals.status(job) != JobStatus::Pending;
        ((worst.is_none(), worst), is_running, Reverse(size(job)), Reverse(job.started), job.key.clone())
    });
    let all = open.len();
    let first = open.into_iter().take(MAX_JOBS);
    (first.map(|job| Run { job: Arc::clone(job), attempt: attempt(job, jobs) }).collect(), all)
}

/// Several submissions of one entrypoint that run at the same time are a sweep, not attempts: only those that ended
/// before this one started count.
fn attempt(job: &Job, jobs: &[Arc<Job>]) -> usize {
    let is_earlier =
        |other: &&Arc<Job>| other.ended.zip(job.started).is_some_and(|(ended, started)| ended <= started);
    let is_same = |other: &&Arc<Job>| other.entrypoint == job.entrypoint && other.owner() == job.owner();
    let mut earlier: Vec<&Arc<Job>> = jobs.iter().filter(is_earlier).filter(is_same).collect();
    sort::by_key(&mut earlier, |other| Reverse(other.ended));
    1 + earlier.iter().take_while(|other| other.status != JobStatus::Succeeded).count()
}

#[cfg(test)]
mod tests {
    use crate::app::fleet::runs::*;
    use crate::model::Timestamp;

    fn job(id: &str, status: JobStatus, started: i64, requests: &str) -> Arc<Job> {
        Arc::new(Job {
            entrypoint: "python train.py".into(),
            started: Some(Timestamp::from_millis(started)),
            ended: status.is_ended().then(|| Timestamp::from_millis(started + 5)),
            metadata: vec![("owner".into(), "alice".into())],
            requested: Some(vec![(requests.into(), 1.0)]),
            ..Job::sample(id, status)
        })
    }

    #[test]
    fn pending_jobs_come_first_then_the_largest_then_the_newest() {
        use JobStatus::{Pending, Running, Succeeded};
        let jobs = [
            job("small", Running, 1, "TPU-v4-8-head"),
            job("plain-old", Running, 2, "CPU"),
            job("plain-new", Running, 3, "CPU"),
            job("large", Running, 1, "TPU-v5litepod-256-head"),
            job("waits", Pending, 9, "TPU-v4-8-head"),
            job("over", Succeeded, 0, "TPU-v4-2048-head"),
        ];
        let (first, all) = runs(&jobs, &ClusterVitals::default(), Timestamp::default());
        let names: Vec<String> = first.iter().map(|run| run.job.key.to_string()).collect();
        assert_eq!((names.join(" ").as_str(), all), ("waits large small plain-new plain-old", 5));
    }

    #[test]
    fn attempts_are_counted_from_the_last_success() {
        use JobStatus::{Failed, Running, Stopped, Succeeded};
        let jobs = [
            job("1", Failed, 0, "CPU"),
            job("2", Succeeded, 10, "CPU"),
            job("3", Failed, 20, "CPU"),
            job("4", Stopped, 30, "CPU"),
            job("5", Running, 40, "CPU"),
            job("beside", Running, 41, "CPU"),
        ];
        assert_eq!([&jobs[4], &jobs[5], &jobs[0]].map(|job| attempt(job, &jobs)), [3, 3, 1]);
    }
}
