//! Reads the workers of a job for a command, and reports on stderr what could not be read.

use super::super::reach::{Progress, Reach};
use super::super::seen;
use super::status::find;
use crate::app::Cluster;
use crate::job_workers::{JobWorkers, lost_workers_text};
use crate::model::Timestamp;
use crate::model::amount::counted;
use crate::model::time::brief;
use crate::operation::WorkerReader;
use crate::supervisor::Session;
use anyhow::Result;

/// A job's workers, and a reader for their files.
pub(super) struct JobReader<'a> {
    pub worker_reader: WorkerReader<'a>,
    pub job_workers: JobWorkers,
    pub cluster: Cluster,
}

impl<'a> JobReader<'a> {
    /// Reads the job of this id, its cluster and its workers. `report` receives progress messages.
    pub async fn read(
        id: &str,
        reach: &'a Reach,
        session: &'a Session,
        report: &'a (dyn Fn(String) + Sync),
    ) -> Result<Self> {
        report("reading the cluster".to_owned());
        let cluster = seen::read_open(reach, session).await?;
        let job = find(&cluster, id).map_err(|problem| reach.error(&problem))?.clone();
        let mut worker_reader = WorkerReader::new((&reach.spec, &reach.options), &session.client, report);
        let job_workers =
            worker_reader.job_workers(cluster.known_of(&job)).await.map_err(super::failed(reach))?;
        Ok(Self { worker_reader, job_workers, cluster })
    }
}

/// Shows progress messages.
pub(super) fn reporting(progress: &Progress) -> impl Fn(String) + Sync + '_ {
    |text| progress.show(text)
}

/// Reports on stderr what could not be read of the list of workers.
pub(super) fn report_incomplete(job_workers: &JobWorkers) {
    for part in job_workers.incomplete.iter().cloned().chain(lost_workers_text(&job_workers.workers)) {
        eprintln!("incomplete: {part}");
    }
}

/// A time of day with milliseconds in the local time zone, as in logs.
pub(super) fn clock_time(at: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%m-%d %H:%M:%S%.3f").to_string()
}

/// Explains why `--since` finds no line in a log whose last time is this.
pub(super) fn too_old(last: Timestamp) -> String {
    let (ago, at) = (brief(last.age(Timestamp::now())), clock_time(last));
    format!("no lines since then: the newest is from {at}, {ago} ago by this machine's clock")
}

/// Reports on stderr how many lines `--since` omitted because they have no timestamp.
pub(in crate::cli) fn report_timeless(count: usize, label: &str) {
    if count > 0 {
        eprintln!("--since omitted {} without a timestamp", counted(count, label));
    }
}
