//! Selects the logs that are read next. A reading takes a few of them, and each running job has its turn, because
//! a job whose log is not read has no vitals.

use crate::model::sort;
use crate::model::{Job, JobKey, Timestamp};
use crate::ray::Holdings;
use crate::vitals::{VitalsTracker, held_chips};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// A run with a warning is read this many times sooner than another one.
const WARNING_WEIGHT: u64 = 4;

/// More chips than a job can hold: a larger or infinite figure from Ray is ignored.
const CHIPS_MAX: f64 = 1e6;

/// Selects the logs of a reading.
#[derive(Clone, Debug, Default)]
pub(super) struct LogSelection {
    /// Jobs whose page was opened.
    pub opened: Vec<JobKey>,
    /// Maximum number of logs per reading.
    pub most: usize,
}

impl LogSelection {
    /// The jobs to read: those whose page was opened; then those that have not been read, and those that seem to have
    /// stopped after a single reading, the largest first; then those that have not been read for the longest time,
    /// large runs and runs with a warning sooner.
    pub fn next<'j>(
        &self,
        jobs: &'j [Arc<Job>],
        trackers: &HashMap<JobKey, VitalsTracker>,
        holdings: &Holdings,
        now: Timestamp,
    ) -> Vec<&'j Arc<Job>> {
        let rank = |job: &Arc<Job>| {
            let chips = chips(job, holdings);
            let tracker = trackers.get(&job.key);
            let weight = (1 + u64::from((1 + chips).ilog2()) / 4)
                * if tracker.is_some_and(VitalsTracker::has_log_warning) { WARNING_WEIGHT } else { 1 };
            let age = tracker.and_then(VitalsTracker::tried).map_or(0, |tried| tried.age(now).as_secs());
            let is_first = is_unread(tracker) || tracker.is_some_and(VitalsTracker::is_doubtful);
            let urgency = if is_first { chips } else { (1 + age).saturating_mul(weight) };
            Reverse((self.opened.contains(&job.key), is_first, urgency, job.started, job.key.clone()))
        };
        let mut logs: Vec<&Arc<Job>> = jobs.iter().filter(|job| job.submission_id().is_some()).collect();
        sort::by_key(&mut logs, |job| rank(job));
        logs.truncate(self.most);
        logs
    }

    /// Whether a log has not been read yet, or must be read again before it is conclusive.
    pub fn is_behind(&self, jobs: &[Arc<Job>], trackers: &HashMap<JobKey, VitalsTracker>) -> bool {
        let is_first = |job: &Arc<Job>| {
            let tracker = trackers.get(&job.key);
            is_unread(tracker) || tracker.is_some_and(VitalsTracker::is_doubtful)
        };
        self.most > 0 && jobs.iter().filter(|job| job.submission_id().is_some()).any(is_first)
    }
}

fn is_unread(tracker: Option<&VitalsTracker>) -> bool {
    tracker.and_then(VitalsTracker::tried).is_none()
}

/// The chips that a job holds, if the figure is plausible.
fn chips(job: &Job, holdings: &Holdings) -> u64 {
    let holding = job.driver.as_ref().and_then(|driver| holdings.by_job.get(driver));
    held_chips(job, holding).clamp(0.0, CHIPS_MAX) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::Clock;
    use crate::model::{JobStatus, Line, VitalLimits};
    use crate::vitals::Sampling;
    use std::time::Duration;

    fn at(minute: u64) -> Timestamp {
        Timestamp::from_millis(1_795_000_000_000).plus(Duration::from_secs(minute * 60))
    }

    /// Jobs that request this many chips each.
    fn jobs(chips: &[u32]) -> Vec<Arc<Job>> {
        let job = |(n, chips): (usize, &u32)| Job {
            requested: Some(vec![("TPU".into(), f64::from(*chips))]),
            ..Job::sample(&format!("j{n}"), JobStatus::Running)
        };
        chips.iter().enumerate().map(|pair| Arc::new(job(pair))).collect()
    }

    struct Watched {
        jobs: Vec<Arc<Job>>,
        trackers: HashMap<JobKey, VitalsTracker>,
        selection: LogSelection,
    }

    impl Watched {
        fn new(chips: &[u32], most: usize) -> Self {
            Self {
                jobs: jobs(chips),
                trackers: HashMap::new(),
                selection: LogSelection { opened: Vec::new(), most },
            }
        }

        fn next(&self, now: Timestamp) -> Vec<String> {
            let next = self.selection.next(&self.jobs, &self.trackers, &Holdings::default(), now);
            next.iter().map(|job| job.key.to_string()).collect()
        }

        /// Reads the selected logs, which have no progress lines.
        fn read(&mut self, now: Timestamp) -> Vec<String> {
            let next = self.next(now);
            for job in &self.jobs {
                if next.contains(&job.key.to_string()) {
                    let tracker = self.trackers.entry(job.key.clone());
                    let tracker = tracker
                        .or_insert_with(|| VitalsTracker::new(VitalLimits::default(), Sampling::Often));
                    tracker.read(&[Line::from("hello")], None, Clock::utc(now));
                }
            }
            next
        }
    }

    #[test]
    fn each_log_is_read_once_the_largest_first_and_then_all_take_turns() {
        let mut watched = Watched::new(&[4, 256, 0, 4, 4], 2);
        assert_eq!(watched.read(at(0)), ["j1", "j4"], "the highest id first among equal jobs");
        assert!(watched.selection.is_behind(&watched.jobs, &watched.trackers));
        assert_eq!(watched.read(at(1)), ["j3", "j0"]);
        assert_eq!(watched.read(at(2))[0], "j2");
        assert!(!watched.selection.is_behind(&watched.jobs, &watched.trackers));
        let mut seen: Vec<String> = (3..10).flat_map(|minute| watched.read(at(minute))).collect();
        let large = seen.iter().filter(|job| *job == "j1").count();
        assert!(large > seen.iter().filter(|job| *job == "j2").count(), "{seen:?}");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 5, "each had its turn");
        watched.selection.opened.push(watched.jobs[2].key.clone());
        assert_eq!(watched.next(at(10))[0], "j2", "its page was opened");
    }

    #[test]
    fn infinite_figures_and_nan_do_not_starve_any_log() {
        let mut watched = Watched::new(&[4, 4, 4, 4], 2);
        for (job, n) in watched.jobs.iter_mut().zip([f64::INFINITY, f64::NAN, 1e308, f64::NEG_INFINITY]) {
            let requested = vec![("TPU".into(), n), ("GPU".into(), n)];
            *job = Arc::new(Job { requested: Some(requested), ..Job::clone(job) });
        }
        let mut seen: Vec<String> = (0..9).flat_map(|minute| watched.read(at(minute))).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn an_unreadable_log_is_retried_in_its_turn() {
        let mut watched = Watched::new(&[4, 4], 1);
        let key = watched.jobs[1].key.clone();
        let tracker = watched
            .trackers
            .entry(key)
            .or_insert_with(|| VitalsTracker::new(VitalLimits::default(), Sampling::Often));
        tracker.missed(at(0));
        assert_eq!(watched.read(at(1)), ["j0"]);
        assert!(!watched.selection.is_behind(&watched.jobs, &watched.trackers));
        assert_eq!(watched.read(at(2)), ["j1"]);
    }

    #[test]
    fn a_run_that_seems_to_have_stopped_is_read_again_first() {
        let mut watched = Watched::new(&[4, 256, 256], 1);
        for minute in 0..3 {
            watched.read(at(minute));
        }
        let step = |n: u64| {
            let time = jiff::Timestamp::from_millisecond(at(n / 60).as_millis()).unwrap();
            Line::from(format!("{} step {n}/900 loss 2.0", time.strftime("%F %T")).as_str())
        };
        let steps: Vec<Line> = (0..600).map(step).collect();
        let key = watched.jobs[0].key.clone();
        let tracker = VitalsTracker::new(VitalLimits::default(), Sampling::Often);
        watched.trackers.insert(key, tracker);
        watched.trackers.get_mut(&watched.jobs[0].key).unwrap().read(&steps, None, Clock::utc(at(60)));
        assert_eq!(watched.next(at(60)), ["j0"], "its last step was 50 minutes ago");
        assert!(watched.selection.is_behind(&watched.jobs, &watched.trackers));
        watched.trackers.get_mut(&watched.jobs[0].key).unwrap().read(&steps, None, Clock::utc(at(61)));
        assert!(
            !watched.selection.is_behind(&watched.jobs, &watched.trackers),
            "the second reading is conclusive"
        );
        assert_ne!(watched.next(at(61)), ["j0"]);
    }
}
