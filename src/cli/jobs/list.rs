//! `list-jobs`: lists the jobs of a cluster, or of all clusters.

use super::super::reach::{Progress, Reach};
use super::super::seen;
use super::follow::failed;
use super::row::JobRow;
use super::{table, vitals};
use crate::model::amount::counted;
use crate::model::sort;
use crate::model::{ClusterName, Job, JobStatus, SnapshotPart};
use crate::ray::Poller;
use crate::state::ClusterState;
use crate::supervisor::{self, Session};
use clap::Args;
use futures_util::future::join_all;
use std::process::ExitCode;
use std::sync::Arc;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui list-jobs                                    jobs of all clusters that have not ended
  marin-tui list-jobs --all --status failed              jobs of all clusters that have failed
  marin-tui -c us-central2 list-jobs --vitals            what the jobs of one cluster are doing
  marin-tui -c us-central2 list-jobs --all --status failed --owner hana

Without -c, the jobs of all clusters are listed with their cluster, newest first. A cluster that cannot be read is \
reported on stderr, and the others are still listed.

Exit codes: 0 the jobs were listed, also if some of several clusters could not be read, 1 no cluster could be read.";

/// Options of `list-jobs`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Include ended jobs
    #[arg(long, short)]
    all: bool,
    /// Only jobs with this status: pending, running, succeeded, stopped, failed
    #[arg(long, value_name = "STATUS", value_parser = state)]
    status: Option<JobStatus>,
    /// Only jobs of this owner (`me`: your own)
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Also show the activity of running jobs: steps, loss, chips, time left, issues (reads the last lines of their logs).
    /// A job that waits for its first node is then pending; Ray itself reports it as running
    #[arg(long)]
    vitals: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn state(word: &str) -> Result<JobStatus, String> {
    match JobStatus::parse(&word.to_uppercase()) {
        JobStatus::Unknown => Err("one of pending, running, succeeded, stopped, failed".into()),
        status => Ok(status),
    }
}

impl ListArguments {
    /// Whether a job is listed, as far as its vitals need not be known.
    fn wants(&self, job: &Job, reach: &Reach) -> bool {
        let open = self.all || self.status.is_some() || !job.status.is_ended();
        // With vitals, a job that Ray reports as running may be pending.
        let status = self.status.is_none_or(|s| {
            s == job.status || (self.vitals && s == JobStatus::Pending && job.status == JobStatus::Running)
        });
        let owner = match self.owner.as_deref() {
            Some("me") => Some(reach.env.user().unwrap_or_default()),
            owner => owner,
        };
        open && status && owner.is_none_or(|owner| job.owner() == Some(owner))
    }
}

/// The listed jobs of a cluster.
struct ClusterJobs {
    cluster: ClusterName,
    state: ClusterState,
    jobs: Vec<Arc<Job>>,
}

/// Lists the jobs of a cluster.
pub(super) async fn run(
    arguments: &ListArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let jobs = read(arguments, reach, progress).await?;
    print(arguments, &[jobs], false)?;
    Ok(ExitCode::SUCCESS)
}

/// Lists the jobs of several clusters, which are read at the same time; reports those that cannot be read.
pub(super) async fn run_all(arguments: &ListArguments, clusters: &[Reach]) -> anyhow::Result<ExitCode> {
    let progress = Progress::new();
    progress.show(format!("reading the jobs of {}", counted(clusters.len(), "cluster")));
    // The steps of several clusters at once would not be readable.
    let silent = Progress::silent();
    let all = join_all(clusters.iter().map(|reach| read(arguments, reach, &silent))).await;
    drop(progress);
    let mut lists = Vec::with_capacity(all.len());
    for list in all {
        match list {
            Ok(list) => lists.push(list),
            Err(error) => eprintln!("incomplete: {error:#}"),
        }
    }
    if lists.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    print(arguments, &lists, true)?;
    Ok(ExitCode::SUCCESS)
}

async fn read(arguments: &ListArguments, reach: &Reach, progress: &Progress) -> anyhow::Result<ClusterJobs> {
    let session = reach.connect(progress).await?;
    let jobs = read_open(arguments, reach, &session, progress).await;
    session.close().await;
    jobs
}

async fn read_open(
    arguments: &ListArguments,
    reach: &Reach,
    session: &Session,
    progress: &Progress,
) -> anyhow::Result<ClusterJobs> {
    progress.show("reading the jobs");
    let snapshot = Poller::new(session.client.clone()).refresh().await.map_err(failed(reach))?;
    let mut state = supervisor::state_of(&reach.spec, snapshot);
    seen::require(SnapshotPart::Jobs, reach, &state)?;
    let wanted = state.snapshot.jobs.iter().filter(|job| arguments.wants(job, reach));
    let mut jobs: Vec<_> = wanted.cloned().collect();
    if arguments.vitals {
        vitals::read_vitals(&mut state, &jobs, reach, session, progress).await?;
        jobs.retain(|job| arguments.status.is_none_or(|status| status == state.vitals.status(job)));
    }
    Ok(ClusterJobs { cluster: reach.spec.name.clone(), state, jobs })
}

/// Prints the jobs, newest first, and reports what could not be read.
fn print(arguments: &ListArguments, all: &[ClusterJobs], is_several: bool) -> anyhow::Result<()> {
    let mut rows: Vec<JobRow<'_>> = Vec::new();
    for ClusterJobs { cluster, state, jobs } in all {
        rows.extend(jobs.iter().map(|job| JobRow { cluster, state, job }));
    }
    sort::by(&mut rows, |a, b| b.job.started.cmp(&a.job.started));
    if arguments.vitals && !arguments.json {
        vitals::print(&rows, is_several)?;
    } else {
        table::print(&rows, is_several, arguments.json)?;
    }
    for ClusterJobs { cluster, state, .. } in all {
        let of = if is_several { format!("{cluster}: ") } else { String::new() };
        for part in &state.snapshot.missing {
            eprintln!("{of}incomplete: {part}");
        }
        for part in &state.vitals.missing {
            eprintln!("{of}incomplete: {part}");
        }
    }
    Ok(())
}
