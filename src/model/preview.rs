//! Data determined before an operation begins: the jobs that it would affect, the workers that it could add.

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
    /// Resources that its tasks, actors and entrypoint hold; none if they could not be read.
    pub holds: Option<Vec<(Text, f64)>>,
    /// Outcome of the operation for the job.
    pub restoration: Restoration,
}

/// Outcome of an operation for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restoration {
    /// Not determined yet.
    Unknown,
    /// It is saved, and resubmitted from its beginning.
    Back,
    /// It is lost, with the reason.
    Lost(String),
}

impl Restoration {
    /// Whether it is restored, in words, safe to print.
    pub fn text(&self) -> String {
        match self {
            Self::Unknown => "?".to_owned(),
            Self::Back => "yes".to_owned(),
            Self::Lost(why) => format!("no: {}", super::text::printable(why)),
        }
    }
}

impl AffectedJob {
    /// The entry for a job from the jobs table, without resources and outcome.
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
    pub fn owner_label(&self) -> String {
        self.owner.as_ref().map_or_else(|| OWNER_UNKNOWN.to_owned(), ToString::to_string)
    }

    /// Its main resource, chips first: `TPU 16`, `CPU 2`; `-` if it holds nothing, `?` if unknown.
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

/// The state that was read before an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Jobs that have not ended, in the order of the jobs table.
    pub jobs: Vec<AffectedJob>,
    /// The operator's name, to recognize other people's jobs.
    pub me: String,
    /// Why the affected jobs could not be determined.
    pub problem: Option<Problem>,
    /// Workers to be removed, by name, each with the addresses of its hosts. Safe to print.
    pub workers: Vec<(String, Vec<String>)>,
    /// Other resources that are deleted at Google besides the named ones. Safe to print.
    pub owned_resources: Vec<String>,
    /// Warnings about the request; they do not cause a refusal. Safe to print.
    pub warnings: Vec<String>,
    /// For an update: differences between the cluster file and the running cluster.
    pub changes: Vec<Drift>,
}

impl Preview {
    /// A preview for this operator without the affected jobs, which could not be determined.
    pub fn unknown(me: &str, problem: Problem) -> Self {
        Self { me: me.to_owned(), problem: Some(problem), ..Self::default() }
    }

    /// Other people whose jobs would end, and jobs of unknown owner.
    pub fn others(&self) -> Others {
        Others::of(self.jobs.iter().map(|j| (&j.key, j.owner.as_ref().map(Text::raw))), &self.me)
    }

    /// Whether the job is known to be the operator's own.
    pub fn is_ours(&self, job: &AffectedJob) -> bool {
        job.owner.as_ref().is_some_and(|o| !o.is_empty() && o.raw() == self.me)
    }

    /// Number of jobs that are restored.
    pub fn back(&self) -> usize {
        self.jobs.iter().filter(|j| j.restoration == Restoration::Back).count()
    }
}

/// Workers that can be added to a cluster, according to its file and the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerOffer {
    /// Types that can be requested from Google; empty if hosts are added by address.
    pub types: Vec<WorkerType>,
    /// Names of the capacity types that can be requested.
    pub capacities: Vec<String>,
    /// The last workers that were added to this cluster.
    pub last: Option<NewWorker>,
}

/// A node type of the cluster file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerType {
    /// Its name in the cluster file.
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
    fn holding_shows_the_main_resource() {
        let holding = |holds: Option<&[(&str, f64)]>| affected(None, holds).holding();
        assert_eq!(holding(Some(&[("CPU", 12.0), ("TPU", 16.0)])), "TPU 16");
        assert_eq!(holding(Some(&[("CPU", 0.1 + 0.2), ("memory", 2e9)])), "CPU 0.3");
        assert_eq!(holding(Some(&[("memory", 2e9)])), "2.0 GB");
        assert_eq!((holding(Some(&[("CPU", 0.0)])).as_str(), holding(None).as_str()), ("-", "?"));
    }

    #[test]
    fn others_are_the_owners_other_than_me() {
        let jobs = [Some("bo"), Some("me"), None, Some("al\x1bice"), Some("bo")];
        let jobs = jobs.into_iter().map(|o| affected(o, None)).collect();
        let preview = Preview { jobs, me: "me".into(), problem: None, ..Preview::default() };
        assert_eq!(preview.others().to_string(), "jobs owned by al·ice, bo or an unknown owner (j)");
        let ours: Vec<bool> = preview.jobs.iter().map(|j| preview.is_ours(j)).collect();
        assert_eq!(ours, [false, true, false, false, false]);
        assert_eq!(preview.jobs[2].owner_label(), "owner unknown");
        assert_eq!(preview.back(), 5);
    }
}
