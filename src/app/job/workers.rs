//! The readings of the workers of one job of a cluster, for its page.

use crate::app::job::cause::{CauseLine, cause_lines};
use crate::job_workers::{Folded, JobWorkers, Part, WorkerLine, WorkersAnswer, WorkersReading};
use crate::model::{JobKey, Problem, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Minimum interval between readings.
const MIN_PAUSE: Duration = Duration::from_secs(10);
/// Maximum share of the time spent reading, so that a slow head is left alone.
const SHARE: u32 = 10;
/// Interval after a failed reading.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// A reading that takes longer counts as lost.
const READ_TIMEOUT: Duration = Duration::from_secs(180);

/// The readings of a job's workers.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// The job; `None` before a page was opened.
    pub job: Option<JobKey>,
    overview: Slot,
    lines: Slot,
    cause: Slot,
    /// Marks of the expanded rows.
    open: BTreeSet<u64>,
    /// The rows as they are shown, folded or expanded.
    shown: Vec<FoldedLine>,
    /// The lines of the root cause.
    root_cause: Vec<CauseLine>,
}

/// The readings of one part: the last one, and the next.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// The last one that succeeded.
    pub reading: Option<Arc<WorkersReading>>,
    /// Why the last one failed, if it did.
    pub problem: Option<Problem>,
    /// Start time of the current reading.
    pub requested: Option<Timestamp>,
    /// When the last one ended.
    ended: Option<Timestamp>,
}

/// A line of the folded table, by the number of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldedLine {
    /// A text that many workers wrote.
    Row(usize),
    /// A line of its traceback.
    Trace(usize, usize),
    /// A worker that wrote it.
    Member(usize, usize),
    /// A worker that did not write it, by its index in the list of workers.
    Missing(usize, usize),
}

impl FoldedLine {
    /// The number of its row.
    pub const fn row(self) -> usize {
        match self {
            Self::Row(row) | Self::Trace(row, _) | Self::Member(row, _) | Self::Missing(row, _) => row,
        }
    }
}

impl Slot {
    /// How long until the next reading; `None` if nothing is read automatically.
    fn wait(&self, part: Part, now: Timestamp) -> Option<Duration> {
        if let Some(requested) = self.requested {
            return Some(READ_TIMEOUT.saturating_sub(requested.age(now)));
        }
        let Some(ended) = self.ended else { return Some(Duration::ZERO) };
        let pause = match (&self.problem, &self.reading) {
            (Some(_), _) | (None, None) => RETRY_AFTER,
            // The lines of an ended job do not change, and the root cause is read separately.
            (None, Some(reading))
                if part == Part::Cause || reading.job_workers.known.job.status.is_ended() =>
            {
                return None;
            }
            (None, Some(reading)) => MIN_PAUSE.max(reading.cost.took * SHARE),
        };
        Some(pause.saturating_sub(ended.age(now)))
    }
}

impl Watched {
    /// Starts watching a job; readings of another one are dropped.
    pub(in crate::app) fn begin(&mut self, job: &JobKey) {
        if self.job.as_ref() != Some(job) {
            *self = Self { job: Some(job.clone()), ..Self::default() };
        }
    }

    /// The readings of a part.
    pub fn slot(&self, part: Part) -> &Slot {
        match part {
            Part::Overview => &self.overview,
            Part::Lines => &self.lines,
            Part::Cause => &self.cause,
        }
    }

    fn slot_mut(&mut self, part: Part) -> &mut Slot {
        match part {
            Part::Overview => &mut self.overview,
            Part::Lines => &mut self.lines,
            Part::Cause => &mut self.cause,
        }
    }

    /// How long until the next reading of a part; `None` if nothing is read automatically.
    pub(in crate::app) fn wait(&self, part: Part, now: Timestamp) -> Option<Duration> {
        self.job.as_ref()?;
        self.slot(part).wait(part, now)
    }

    /// Records that a part is being read. A reading of another part is cancelled.
    pub(in crate::app) fn ask(&mut self, part: Part, now: Timestamp) {
        for slot in [&mut self.overview, &mut self.lines, &mut self.cause] {
            slot.requested = None;
        }
        self.slot_mut(part).requested = Some(now);
    }

    /// Reads a part again, at once.
    pub(in crate::app) fn refresh(&mut self, part: Part) {
        let slot = self.slot_mut(part);
        (slot.requested, slot.ended) = (None, None);
    }

    /// Stores a reading; returns whether it is of the watched job.
    pub(in crate::app) fn take(
        &mut self,
        job: &JobKey,
        part: Part,
        reading: &Arc<Result<WorkersReading, Problem>>,
        now: Timestamp,
    ) -> bool {
        if self.job.as_ref() != Some(job) {
            return false;
        }
        let slot = self.slot_mut(part);
        (slot.requested, slot.ended) = (None, Some(now));
        match &**reading {
            Ok(reading) => (slot.reading, slot.problem) = (Some(Arc::new(reading.clone())), None),
            Err(problem) => slot.problem = Some(problem.clone()),
        }
        self.lay_out();
        true
    }

    /// The workers of the last reading of a part.
    pub fn job_workers(&self, part: Part) -> Option<&JobWorkers> {
        self.slot(part).reading.as_ref().map(|reading| &reading.job_workers)
    }

    /// The lines of the workers in order of time, and folded.
    pub fn lines(&self) -> Option<(&JobWorkers, &[WorkerLine], &Folded)> {
        let reading = self.lines.reading.as_ref()?;
        let WorkersAnswer::Lines { said, folded, .. } = &reading.what else { return None };
        Some((&reading.job_workers, said, folded))
    }

    /// The folded rows as they are shown.
    pub fn folded(&self) -> &[FoldedLine] {
        &self.shown
    }

    /// The lines of the root cause.
    pub fn cause(&self) -> &[CauseLine] {
        &self.root_cause
    }

    /// Whether a row is expanded.
    pub fn is_open(&self, row: usize) -> bool {
        self.lines().is_some_and(|(_, _, folded)| self.open.contains(&folded.marks[row]))
    }

    /// Expands a row to show its writers, or folds it.
    pub(in crate::app) fn toggle(&mut self, row: usize) {
        let Some(mark) = self.lines().and_then(|(_, _, folded)| folded.marks.get(row).copied()) else {
            return;
        };
        if !self.open.remove(&mark) {
            self.open.insert(mark);
        }
        self.lay_out();
    }

    /// Watches the shown job, with the same rows expanded.
    pub(in crate::app) fn show_as(&mut self, shown: &Self) {
        if let Some(job) = &shown.job {
            self.begin(job);
            self.open.clone_from(&shown.open);
            self.lay_out();
        }
    }

    fn lay_out(&mut self) {
        let mut shown = Vec::new();
        if let Some((_, _, folded)) = self.lines() {
            for (number, row) in folded.rows.iter().enumerate() {
                shown.push(FoldedLine::Row(number));
                if !self.open.contains(&folded.marks[number]) {
                    continue;
                }
                let trace = (0..row.trace.len()).filter(|line| row.trace[*line] != row.text);
                shown.extend(trace.map(|line| FoldedLine::Trace(number, line)));
                let missing = folded.among[number].notable().iter();
                shown.extend(missing.map(|worker| FoldedLine::Missing(number, *worker as usize)));
                shown.extend((0..row.members().len()).map(|member| FoldedLine::Member(number, member)));
            }
        }
        self.shown = shown;
        self.root_cause = self.cause.reading.as_ref().map(|reading| cause_lines(reading)).unwrap_or_default();
    }
}
