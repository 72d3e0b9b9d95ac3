//! What is determined before an operation begins: the jobs that it would affect, the workers that it could add.

use super::amount::{is_bytes, rank};
use super::{Drift, Job, JobKey, JobStatus, NewWorker, OWNER_UNKNOWN, Others, Problem, Text, Timestamp};

/// A job that an operation would end.
#[derive(Clone, Debug, PartialEq)]
pub struct AffectedJob {
    /// Key of the job.
    pub key: JobKey,
    /// Owner of the job; none when it is unknown, which counts as another person.
    pub owner: Option<Text>,
    /// Status of the job.
    pub status: JobStatus,
    /// Time of submission or start.
    pub started: Option<Timestamp>,
    /// What its tasks, actors and entrypoint hold, by resource; none when that could not be read.
    pub holds: Option<Vec<(Text, f64)>>,
    /// Outcome of the operation for the job.
    pub restoration: Restoration,
}

/// What becomes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restoration {
    /// Not determined yet.
    Unknown,
    /// It is saved and resubmitted, from its beginning.
    Back,
    /// It is lost, and why.
    Lost(String),
}

impl Restoration {
    /// Whether it comes back, in words, safe to print.
    pub fn words(&self) -> String {
        match self {
            Self::Unknown => "?".to_owned(),
            Self::Back => "yes".to_owned(),
            Self::Lost(why) => format!("no: {}", super::text::printable(why)),
        }
    }
}

impl AffectedJob {
    /// The entry for a job from the table of jobs, without its resources and its outcome.
    pub fn of(job: &Job) -> Self {
        Self {
            key: job.key.clone(),
            owner: job.owner().map(Text::from),
            status: job.status,
            started: job.started,
            holds: None,
            restoration: Restoration::Unknown,
        }
    }

    /// The job's owner, or a note that it is unknown, safe to print.
    pub fn owner_words(&self) -> String {
        self.owner.as_ref().map_or_else(|| OWNER_UNKNOWN.to_owned(), ToString::to_string)
    }

    /// What it holds in a few words, chips first: `TPU 16`, `CPU 2`; `-` for nothing, `?` when that is not known.
    pub fn holding(&self) -> String {
        let Some(holds) = &self.holds else { return "?".to_owned() };
        let held = holds.iter().filter(|(_, n)| *n > 0.0);
        match held.min_by_key(|(name, _)| rank(name.raw())) {
            Some((name, n)) if is_bytes(name.raw()) => format!("{:.1} GB", n / 1e9),
            Some((name, n)) => format!("{name} {}", (n * 100.0).round() / 100.0),
            None => "-".to_owned(),
        }
    }
}

/// What was seen before an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Jobs that have not ended, in the order of the jobs' table.
    pub jobs: Vec<AffectedJob>,
    /// The operator's name, to recognize other people's jobs.
    pub me: String,
    /// Why the affected jobs could not be determined.
    pub problem: Option<Problem>,
    /// The workers that a removal is about, by name, each with the addresses of its hosts. Safe to print.
    pub workers: Vec<(String, Vec<String>)>,
    /// What else is deleted at Google, besides what is named. Safe to print.
    pub also: Vec<String>,
    /// What is known to be unwise in what is asked for; nothing is refused for it. Safe to print.
    pub warnings: Vec<String>,
    /// Of an update: where the cluster's file differs from what runs.
    pub changes: Vec<Drift>,
}

impl Preview {
    /// Other people whose jobs would end, including jobs of unknown owner.
    pub fn others(&self) -> Others {
        Others::of(self.jobs.iter().map(|j| (&j.key, j.owner.as_ref().map(Text::raw))), &self.me)
    }

    /// Whether that job is ours for sure.
    pub fn is_ours(&self, job: &AffectedJob) -> bool {
        job.owner.as_ref().is_some_and(|o| !o.is_empty() && o.raw() == self.me)
    }

    /// How many jobs come back.
    pub fn back(&self) -> usize {
        self.jobs.iter().filter(|j| j.restoration == Restoration::Back).count()
    }
}

/// Workers that can be added to a cluster, by its file and the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerOffer {
    /// Types that Google is asked for; empty where hosts are added by their address.
    pub types: Vec<WorkerType>,
    /// Words for how capacity is asked for.
    pub capacities: Vec<String>,
    /// What was added last on this cluster.
    pub last: Option<NewWorker>,
}

/// A node type of the cluster file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerType {
    /// Its name in the cluster's file.
    pub name: String,
    /// Accelerator type, e.g. `v4-128`.
    pub accelerator: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SubmissionId;

    fn affected(owner: Option<&str>, holds: Option<&[(&str, f64)]>) -> AffectedJob {
        let holds = holds.map(|h| h.iter().map(|(name, n)| ((*name).into(), *n)).collect());
        AffectedJob {
            key: JobKey::Submission(SubmissionId("j".into())),
            owner: owner.map(Text::from),
            status: JobStatus::Running,
            started: None,
            holds,
            restoration: Restoration::Back,
        }
    }

    #[test]
    fn what_a_job_holds_is_said_by_its_dearest_resource() {
        let said = |holds: Option<&[(&str, f64)]>| affected(None, holds).holding();
        assert_eq!(said(Some(&[("CPU", 12.0), ("TPU", 16.0)])), "TPU 16");
        assert_eq!(said(Some(&[("CPU", 0.1 + 0.2), ("memory", 2e9)])), "CPU 0.3");
        assert_eq!(said(Some(&[("memory", 2e9)])), "2.0 GB");
        assert_eq!((said(Some(&[("CPU", 0.0)])).as_str(), said(None).as_str()), ("-", "?"));
    }

    #[test]
    fn who_is_named_as_another_is_none_of_us() {
        let jobs = [Some("bo"), Some("me"), None, Some("al\x1bice"), Some("bo")];
        let jobs = jobs.into_iter().map(|o| affected(o, None)).collect();
        let preview = Preview { jobs, me: "me".into(), problem: None, ..Preview::default() };
        assert_eq!(preview.others().to_string(), "jobs of al·ice, bo and of unknown owner (j)");
        let ours: Vec<bool> = preview.jobs.iter().map(|j| preview.is_ours(j)).collect();
        assert_eq!(ours, [false, true, false, false, false]);
        assert_eq!(preview.jobs[2].owner_words(), "owner unknown");
        assert_eq!(preview.back(), 5);
    }
}
