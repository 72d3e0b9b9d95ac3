//! The jobs that an operation would affect, determined before it starts: dialog and command show the same list.

use super::backup::{BackupContent, Kept, left_out};
use super::label_selectors::{Unread, open_submissions};
use super::worker::{affected, check_address, nodes_of, running_on};
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{
    AffectedJob, ClusterSpec, Job, JobIds, JobKey, Preview, Problem, Restoration, Snapshot, SnapshotPart,
    Task, Text, Timestamp,
};
use crate::ray::{Client, Poller, RayError, Recorded};
use crate::supervisor::Options;
use futures_util::stream::{self, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of jobs whose tasks are read; each costs the head three requests.
const DETAILED_MAX: usize = 64;
/// Maximum number of jobs whose tasks are read at a time.
const AT_ONCE: usize = 4;

/// The parts of the state without which affected jobs are unknown.
pub(super) const REQUIRED_PARTS: [SnapshotPart; 3] =
    [SnapshotPart::Nodes, SnapshotPart::Jobs, SnapshotPart::SomeJobs];
/// The parts of the state that an operation records before it changes anything.
pub(super) const RECORDED_PARTS: [SnapshotPart; 2] = [SnapshotPart::Nodes, SnapshotPart::Jobs];

/// How much is read about the affected jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Also the resources that they hold, and whether they will be restored: several requests per job.
    Whole,
    /// Jobs and their owners, as needed by the gates.
    Owners,
}

/// Determines which jobs `task` would end, what they hold and whether they will be restored; for a task on a worker,
/// what runs there. `me` is the operator.
pub async fn preview(
    client: &Client,
    cluster: (&ClusterSpec, &Options),
    me: &str,
    task: &Task,
    detail: Detail,
) -> Result<Preview, Problem> {
    let empty = Preview { me: me.to_owned(), ..Preview::default() };
    if !task.kind().may_end_jobs() {
        return Ok(empty);
    }
    let snapshot = Poller::new(client.clone())
        .refresh_all(&REQUIRED_PARTS)
        .await
        .map_err(|e| e.problem(Timestamp::now()))?;
    if task.kind().is_of_cluster() {
        let (jobs, warning) = jobs_of_cluster(client, &snapshot, task, detail).await?;
        return Ok(Preview { jobs, warnings: warning.into_iter().collect(), ..empty });
    }
    let machines = affected(cluster, task).await?;
    check_address(cluster.0, &snapshot, task).await?;
    let drains = task.removal().is_some_and(|(_, drain)| drain.is_some());
    let nodes = nodes_of(&snapshot, &machines)?;
    let (rows, problem) = running_on(client, &snapshot, &nodes, drains).await?;
    let rows = rows.into_iter().map(|(job, affected)| (job.map(|job| job.ids()), affected)).collect();
    let jobs = with_resources(client, rows, detail).await;
    let named = |name: &String| printable(name).into_owned();
    let workers = machines
        .iter()
        .map(|m| (printable(m.name()).into_owned(), m.hosts.iter().map(named).collect()))
        .collect();
    Ok(Preview { jobs, problem, workers, ..empty })
}

/// The jobs that have not ended, which a task on the whole cluster would end, and whether it restores them; and a
/// warning about those that it restores.
async fn jobs_of_cluster(
    client: &Client,
    snapshot: &Snapshot,
    task: &Task,
    detail: Detail,
) -> Result<(Vec<AffectedJob>, Option<String>), Problem> {
    let open: Vec<&Arc<Job>> = snapshot.jobs.iter().filter(|j| !j.status.is_ended()).collect();
    if detail == Detail::Owners {
        return Ok((open.into_iter().map(|job| AffectedJob::of(job)).collect(), None));
    }
    let mut unread = Unread::default();
    let saved = match task {
        Task::Restart { preserve: true } => {
            let (saved, unknown) = saved(client).await.map_err(|e| e.problem(Timestamp::now()))?;
            unread = unknown;
            Ok(saved)
        }
        Task::Restart { preserve: false } => Err("jobs are not saved (--preserve-jobs=0)"),
        _ => Err("stop does not save jobs; use backup-jobs"),
    };
    let row = |job: &Arc<Job>| {
        let restoration = match &saved {
            Ok(saved) => restoration(job, saved),
            Err(why) => Restoration::Lost((*why).to_owned()),
        };
        (Some(job.ids()), AffectedJob { restoration, ..AffectedJob::of(job) })
    };
    let jobs = with_resources(client, open.into_iter().map(row).collect(), detail).await;
    let restored = jobs.iter().filter(|job| job.restoration == Restoration::Back);
    let unknown = restored.filter_map(|job| match &job.key {
        JobKey::Submission(id) if unread.jobs.contains(id) => Some(id.clone()),
        _ => None,
    });
    let warning = unread.warning(&unknown.collect::<Vec<_>>());
    Ok((jobs, warning))
}

/// The affected jobs, each with the resources that it holds if `detail` includes them. Jobs without ids, and jobs after
/// the first [`DETAILED_MAX`], are not read.
async fn with_resources(
    client: &Client,
    rows: Vec<(Option<JobIds>, AffectedJob)>,
    detail: Detail,
) -> Vec<AffectedJob> {
    let max = if detail == Detail::Whole { DETAILED_MAX } else { 0 };
    let reads = rows.into_iter().enumerate().map(|(i, (ids, affected))| async move {
        let holds = match ids {
            Some(ids) if i < max => client.held(&ids).await.ok(),
            _ => None,
        };
        AffectedJob { holds, ..affected }
    });
    stream::iter(reads).buffered(AT_ONCE).collect().await
}

/// Submissions as they were recorded, each with its packages that no longer exist.
type Saved = BTreeMap<String, (Recorded, Vec<String>)>;

/// The submissions that have not ended, by id, and those whose label selectors cannot be read.
async fn saved(client: &Client) -> Result<(Saved, Unread), RayError> {
    let (open, unread) = open_submissions(client).await?;
    let packages: BTreeSet<String> = sort::collected(open.iter().flat_map(|r| r.submission.packages()));
    let reads = packages.into_iter().map(|uri| async move {
        let there = client.has_package(&uri).await;
        there.map(|there| (uri, there))
    });
    let there: Vec<Result<(String, bool), RayError>> = stream::iter(reads).buffered(AT_ONCE).collect().await;
    let there: Vec<(String, bool)> = there.into_iter().collect::<Result<_, _>>()?;
    let gone = there.into_iter().filter(|(_, there)| !there).map(|(uri, _)| uri);
    let gone: BTreeSet<String> = sort::collected(gone);
    let rows = open.into_iter().map(|record| {
        let missing = record.submission.packages().into_iter().filter(|p| gone.contains(p)).collect();
        (record.submission.submission_id.clone(), (record, missing))
    });
    Ok((sort::collected(rows), unread))
}

/// What a backup would save now; nothing is fetched.
pub async fn would_back_up(client: &Client) -> Result<BackupContent, Problem> {
    let (open, unread) = saved(client).await.map_err(|e| e.problem(Timestamp::now()))?;
    let mut backed = BackupContent { kept: Vec::new(), left_out: Vec::new(), warning: None };
    for (Recorded { submission, .. }, missing) in open.into_values() {
        match left_out(&submission) {
            Some(why) => backed.left_out.push((submission.id(), why)),
            None => backed.kept.push(Kept {
                is_selector_known: !unread.jobs.contains(&submission.id()),
                submission,
                missing,
            }),
        }
    }
    backed.warn(&unread);
    Ok(backed)
}

/// Whether a restart restores this job.
fn restoration(job: &Job, saved: &Saved) -> Restoration {
    let JobKey::Submission(id) = &job.key else {
        return Restoration::Lost("started manually, not submitted".to_owned());
    };
    let Some((record, missing)) = saved.get(id.0.raw()) else {
        return Restoration::Lost("Ray has no record of its submission".to_owned());
    };
    match (left_out(&record.submission), missing.as_slice()) {
        (Some(why), _) => Restoration::Lost(format!("not saved: {why}")),
        (None, []) => Restoration::Back,
        (None, gone) => {
            Restoration::Lost(format!("its package no longer exists ({})", Text::from(gone.join(", "))))
        }
    }
}
