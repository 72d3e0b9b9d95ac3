//! The job table from the GCS' key-value store: ended jobs are fetched only once.

use super::super::convert::interner::Interner;
use super::super::convert::jobs::{Drivers, one, sort};
use crate::model::amount::counted;
use crate::model::{Job, JobKey, JobStatus, MissingPart, SnapshotPart, SubmissionId, Text};
use crate::proto::JOB_KEY_PREFIX;
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Submissions by their key, and the drivers.
#[derive(Debug, Default)]
pub struct JobTable {
    /// The key is copied: a slice of a response would keep the whole response in memory.
    submissions: HashMap<Box<[u8]>, Arc<Job>>,
    drivers: Drivers,
    list: Arc<Vec<Arc<Job>>>,
    changed: bool,
    /// Submissions whose record could not be parsed at the last fetch.
    unreadable: usize,
}

/// The result of one round of fetching.
#[derive(Debug, Default)]
pub struct Fetched {
    jobs: Vec<(Box<[u8]>, Job)>,
    unreadable: usize,
}

impl Fetched {
    /// Reads records; one that cannot be read is counted and left out.
    pub fn of(records: impl Iterator<Item = (Bytes, Bytes)>) -> Self {
        let (mut fetched, words) = (Self::default(), Interner::default());
        for (key, value) in records {
            let id = Text::new(String::from_utf8_lossy(key.strip_prefix(JOB_KEY_PREFIX).unwrap_or(&key)));
            match one("the job table", &value, Some(&id), &words) {
                Ok(job) => fetched.jobs.push((key.as_ref().into(), job)),
                Err(_) => fetched.unreadable += 1,
            }
        }
        fetched
    }
}

impl JobTable {
    /// Removes submissions that no longer exist, and returns those to fetch: new ones and those that have not ended.
    pub fn wanted(&mut self, keys: Vec<Bytes>) -> Vec<Bytes> {
        if keys.len() < self.submissions.len()
            || keys.iter().any(|k| !self.submissions.contains_key(k.as_ref()))
        {
            let present: HashSet<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
            let before = self.submissions.len();
            self.submissions.retain(|key, _| present.contains(key.as_ref()));
            self.changed |= self.submissions.len() != before;
        }
        // They are fetched again each time.
        self.unreadable = 0;
        let open = |key: &Bytes| self.submissions.get(key.as_ref()).is_none_or(|job| !job.status.is_ended());
        keys.into_iter().filter(open).collect()
    }

    /// Adds fetched records. True when a submission has started to run, so that its driver should be fetched.
    pub fn absorb(&mut self, fetched: Fetched) -> bool {
        let mut started = false;
        self.unreadable = fetched.unreadable;
        for (key, mut job) in fetched.jobs {
            let old = self.submissions.get(&key);
            job.driver = job.submission_id().and_then(|id| self.drivers.of_submission.get(id)).cloned();
            started |=
                job.status == JobStatus::Running && old.is_none_or(|old| old.status != JobStatus::Running);
            if old.is_none_or(|old| **old != job) {
                self.submissions.insert(key, Arc::new(job));
                self.changed = true;
            }
        }
        started
    }

    /// Adds the table of drivers.
    pub fn update(&mut self, mut drivers: Drivers) {
        let known: HashMap<&JobKey, &Arc<Job>> = self.drivers.by_hand.iter().map(|j| (&j.key, j)).collect();
        for job in &mut drivers.by_hand {
            if let Some(same) = known.get(&job.key).filter(|old| **old == job) {
                *job = Arc::clone(same);
            }
        }
        for job in self.submissions.values_mut() {
            let driver = job.submission_id().and_then(|id: &SubmissionId| drivers.of_submission.get(id));
            if driver.is_some() && job.driver.as_ref() != driver {
                let driver = driver.cloned();
                Arc::make_mut(job).driver = driver;
                self.changed = true;
            }
        }
        self.changed |= self.drivers.by_hand != drivers.by_hand;
        self.drivers = drivers;
    }

    /// The jobs that are missing in the list or outdated.
    pub fn missing(&self) -> Option<MissingPart> {
        let why = format!("{} cannot be read", counted(self.unreadable, "record"));
        (self.unreadable > 0).then_some(MissingPart { part: SnapshotPart::SomeJobs, why })
    }

    /// All jobs, newest first; the same list as long as nothing changes.
    pub fn all(&mut self) -> Arc<Vec<Arc<Job>>> {
        if self.changed {
            let mut jobs: Vec<_> = self.submissions.values().chain(&self.drivers.by_hand).cloned().collect();
            sort(&mut jobs);
            self.list = Arc::new(jobs);
            self.changed = false;
        }
        self.list.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, value: &'static str) -> (Bytes, Bytes) {
        ([JOB_KEY_PREFIX, id.as_bytes()].concat().into(), Bytes::from_static(value.as_bytes()))
    }

    #[test]
    fn unreadable_jobs_are_reported_until_they_can_be_read() {
        const RUNS: &str = r#"{"status": "RUNNING", "entrypoint": "sleep 1"}"#;
        let mut table = JobTable::default();
        let mut read = |records: &[(Bytes, Bytes)]| {
            let keys = records.iter().map(|(key, _)| key.clone()).collect();
            let wanted = table.wanted(keys);
            if !wanted.is_empty() {
                let records = records.iter().filter(|(key, _)| wanted.contains(key)).cloned();
                table.absorb(Fetched::of(records));
            }
            (table.all().len(), table.missing())
        };
        let expected = |n: usize, why: &str| {
            (n, Some(MissingPart { part: SnapshotPart::SomeJobs, why: why.to_owned() }))
        };
        let good = record("a", RUNS);
        let bad = [good.clone(), record("b", "{"), record("c", "no json")];
        assert_eq!(read(&bad), expected(1, "2 records cannot be read"));
        assert_eq!(read(&bad), expected(1, "2 records cannot be read"), "as long as they cannot be read");
        assert_eq!(read(&bad[..2]), expected(1, "1 record cannot be read"));
        assert_eq!(read(&[good, record("b", RUNS)]), (2, None));
        assert_eq!(read(&[]), (0, None));
    }
}
