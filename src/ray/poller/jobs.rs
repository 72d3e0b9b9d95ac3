//! The job table from the GCS' key-value store. Ended jobs are not fetched at each refresh, because they do not change.
//! But a job that was deleted and submitted again under the same id between two refreshes has the same key; therefore an
//! ended job is fetched again when it has another driver, and some of the ended jobs every half minute.

use super::super::convert::interner::Interner;
use super::super::convert::jobs::{Drivers, one, sort};
use crate::model::amount::counted;
use crate::model::{Job, JobKey, JobStatus, MissingPart, SnapshotPart, SubmissionId, Text};
use crate::proto::JOB_KEY_PREFIX;
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which some of the ended submissions are fetched again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Number of submissions that are fetched again each time because they ended last: they are the most likely ones to be
/// submitted again.
const RECENTLY_ENDED: usize = 128;
/// Number of the other ended submissions that are fetched again each time, in turn. A record has about 1 kB.
const OTHER_ENDED: usize = 384;

/// Submissions by their key, and the drivers.
#[derive(Debug, Default)]
pub struct JobTable {
    /// The key is copied: a slice of a response would keep the whole response in memory.
    submissions: HashMap<Box<[u8]>, Arc<Job>>,
    /// Ended submissions to fetch again.
    outdated: HashSet<Box<[u8]>>,
    /// When to add to them.
    recheck_at: Option<Instant>,
    /// Number of the other ended submissions that were fetched again in this round.
    rechecked: usize,
    drivers: Drivers,
    /// Whether the table of drivers was read.
    has_drivers: bool,
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
    /// Removes submissions that no longer exist, and returns those to fetch: new ones, those that have not ended, and
    /// ended ones that may have been submitted again.
    pub fn wanted(&mut self, keys: Vec<Bytes>) -> Vec<Bytes> {
        if keys.len() < self.submissions.len()
            || keys.iter().any(|k| !self.submissions.contains_key(k.as_ref()))
        {
            let present: HashSet<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
            let before = self.submissions.len();
            self.submissions.retain(|key, _| present.contains(key.as_ref()));
            self.outdated.retain(|key| present.contains(key.as_ref()));
            self.changed |= self.submissions.len() != before;
        }
        // They are fetched again each time.
        self.unreadable = 0;
        let now = Instant::now();
        if *self.recheck_at.get_or_insert(now + RECHECK_INTERVAL) <= now {
            self.recheck_at = Some(now + RECHECK_INTERVAL);
            self.recheck();
        }
        let is_wanted = |key: &Bytes| {
            self.submissions.get(key.as_ref()).is_none_or(|job| !job.status.is_ended())
                || self.outdated.contains(key.as_ref())
        };
        keys.into_iter().filter(is_wanted).collect()
    }

    /// Selects ended submissions to fetch again: those that ended last, and the next ones of the others.
    fn recheck(&mut self) {
        let ended = self.submissions.iter().filter(|(_, job)| job.status.is_ended());
        let mut ended: Vec<_> = ended.map(|(key, job)| (Reverse(job.ended), key)).collect();
        ended.sort_unstable();
        let (recent, others) = ended.split_at(ended.len().min(RECENTLY_ENDED));
        let from = if self.rechecked < others.len() { self.rechecked } else { 0 };
        let others = &others[from..others.len().min(from + OTHER_ENDED)];
        self.rechecked = from + others.len();
        self.outdated.extend(recent.iter().chain(others).map(|(_, key)| (*key).clone()));
    }

    /// Adds fetched records. True when a submission has started to run, so that its driver should be fetched.
    pub fn absorb(&mut self, fetched: Fetched) -> bool {
        let mut started = false;
        self.unreadable = fetched.unreadable;
        for (key, mut job) in fetched.jobs {
            self.outdated.remove(&key);
            let old = self.submissions.get(&key);
            let driver = job.submission_id().and_then(|id| self.drivers.of_submission.get(id));
            // Ray may have removed the driver of an ended job from its table.
            let known = || old.filter(|old| old.started == job.started)?.driver.clone();
            job.driver = driver.cloned().or_else(known);
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
        for (key, job) in &mut self.submissions {
            let driver = job.submission_id().and_then(|id: &SubmissionId| drivers.of_submission.get(id));
            if driver.is_some() && job.driver.as_ref() != driver {
                // It may be the driver of a new submission.
                if self.has_drivers && job.status.is_ended() {
                    self.outdated.insert(key.clone());
                }
                let driver = driver.cloned();
                Arc::make_mut(job).driver = driver;
                self.changed = true;
            }
        }
        self.changed |= self.drivers.by_hand != drivers.by_hand;
        self.drivers = drivers;
        self.has_drivers = true;
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
    use crate::model::JobId;

    const RUNS: &str = r#"{"status": "RUNNING", "entrypoint": "sleep 1"}"#;
    const FAILED: &str = r#"{"status": "FAILED", "entrypoint": "sleep 1"}"#;

    fn record(id: &str, value: &'static str) -> (Bytes, Bytes) {
        ([JOB_KEY_PREFIX, id.as_bytes()].concat().into(), Bytes::from_static(value.as_bytes()))
    }

    #[test]
    fn unreadable_jobs_are_reported_until_they_can_be_read() {
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

    #[test]
    fn an_ended_job_with_a_new_driver_is_fetched_again() {
        let wanted = |table: &mut JobTable| table.wanted(vec![record("a", FAILED).0]).len();
        let driver = |id: &str| {
            let of_submission = HashMap::from([(SubmissionId("a".into()), JobId(id.into()))]);
            Drivers { of_submission, by_hand: Vec::new() }
        };
        for first in [driver("01000000"), Drivers::default()] {
            let mut table = JobTable::default();
            assert_eq!(wanted(&mut table), 1);
            table.absorb(Fetched::of([record("a", FAILED)].into_iter()));
            table.update(first);
            assert_eq!(wanted(&mut table), 0, "it has ended");
            // It is deleted and submitted again.
            table.update(driver("02000000"));
            assert_eq!(wanted(&mut table), 1);
            assert!(table.absorb(Fetched::of([record("a", RUNS)].into_iter())), "it runs");
            let job = table.all()[0].clone();
            assert_eq!(
                (job.status, job.driver.clone()),
                (JobStatus::Running, Some(JobId("02000000".into())))
            );
            table.absorb(Fetched::of([record("a", FAILED)].into_iter()));
            table.update(driver("02000000"));
            assert_eq!(wanted(&mut table), 0, "it has ended again");
        }
    }

    #[test]
    fn an_ended_job_keeps_its_driver_when_it_is_fetched_again() {
        let mut table = JobTable::default();
        let of_submission = HashMap::from([(SubmissionId("a".into()), JobId("01000000".into()))]);
        for drivers in [Drivers { of_submission, by_hand: Vec::new() }, Drivers::default()] {
            table.update(drivers);
            table.absorb(Fetched::of([record("a", FAILED)].into_iter()));
            assert_eq!(table.all()[0].driver, Some(JobId("01000000".into())));
        }
    }

    #[test]
    fn ended_jobs_are_fetched_again_in_turn() {
        const COUNT: usize = RECENTLY_ENDED + 2 * OTHER_ENDED + 1;
        let record = |n: usize| {
            let value = format!(r#"{{"status": "FAILED", "entrypoint": "x", "end_time": {}}}"#, n + 1);
            (Bytes::from([JOB_KEY_PREFIX, n.to_string().as_bytes()].concat()), Bytes::from(value))
        };
        let records: Vec<(Bytes, Bytes)> = (0..COUNT).map(record).collect();
        let keys: Vec<Bytes> = records.iter().map(|(key, _)| key.clone()).collect();
        let mut table = JobTable::default();
        assert_eq!(table.wanted(keys.clone()).len(), COUNT);
        table.absorb(Fetched::of(records.iter().cloned()));
        assert!(table.wanted(keys.clone()).is_empty(), "they have just been fetched");
        let (before, mut again) = (table.all(), HashSet::new());
        for _ in 0..3 {
            table.recheck_at = Some(Instant::now());
            let wanted = table.wanted(keys.clone());
            assert!(wanted.len() <= RECENTLY_ENDED + OTHER_ENDED);
            assert!(wanted.contains(&keys[COUNT - 1]), "the one that ended last");
            assert_eq!(table.wanted(keys.clone()).len(), wanted.len(), "until they are fetched");
            table.absorb(Fetched::of(records.iter().filter(|(key, _)| wanted.contains(key)).cloned()));
            assert!(table.wanted(keys.clone()).is_empty());
            again.extend(wanted);
        }
        assert_eq!(again.len(), COUNT, "each of them");
        assert!(Arc::ptr_eq(&before, &table.all()), "nothing has changed");
    }
}
