//! What was read of the workers of one job of a cluster, for its page.

use crate::app::job::cause::{CauseLine, cause_lines};
use crate::job_workers::{Folded, JobWorkers, Part, WorkerLine, WorkersAnswer, WorkersReading};
use crate::model::{JobKey, Problem, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The least time from one reading to the next.
const PAUSE: Duration = Duration::from_secs(10);
/// A reading takes at most this part of the time, so that a head that is slow is left alone.
const SHARE: u32 = 10;
/// After a reading that failed.
const AGAIN: Duration = Duration::from_secs(30);
/// A reading that has not ended by then was lost.
const LOST: Duration = Duration::from_secs(180);

/// What was read of a job's workers.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// The job; none before a page was opened.
    pub job: Option<JobKey>,
    roll: Slot,
    lines: Slot,
    cause: Slot,
    /// Marks of the rows that are open.
    open: BTreeSet<u64>,
    /// The rows as they are shown, folded or open.
    shown: Vec<FoldedLine>,
    /// The lines of the first cause.
    told_cause: Vec<CauseLine>,
}

/// One part of it: the last reading, and the next.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// The last one that succeeded.
    pub reading: Option<Arc<WorkersReading>>,
    /// Why the last one failed, if it did.
    pub problem: Option<Problem>,
    /// Since when one is under way.
    pub asked: Option<Timestamp>,
    /// When the last one ended.
    ended: Option<Timestamp>,
}

/// A line of what is folded, by the number of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldedLine {
    /// What many say, once.
    Row(usize),
    /// A line of its traceback.
    Trace(usize, usize),
    /// One of those who say it.
    Member(usize, usize),
    /// A worker that does not say it, by its place in the list of workers.
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
    /// How long until it is to be read; none if it is not to be read by itself.
    fn wait(&self, part: Part, now: Timestamp) -> Option<Duration> {
        if let Some(asked) = self.asked {
            return Some(LOST.saturating_sub(asked.age(now)));
        }
        let Some(ended) = self.ended else { return Some(Duration::ZERO) };
        let pause = match (&self.problem, &self.reading) {
            (Some(_), _) | (None, None) => AGAIN,
            // What is said of a job that has ended stays, and the first cause is a matter of its own.
            (None, Some(reading))
                if part == Part::Cause || reading.job_workers.known.job.status.is_ended() =>
            {
                return None;
            }
            (None, Some(reading)) => PAUSE.max(reading.price.took * SHARE),
        };
        Some(pause.saturating_sub(ended.age(now)))
    }
}

impl Watched {
    /// Begins to watch a job; what was read of another one is dropped.
    pub(in crate::app) fn begin(&mut self, job: &JobKey) {
        if self.job.as_ref() != Some(job) {
            *self = Self { job: Some(job.clone()), ..Self::default() };
        }
    }

    /// What was read of a part.
    pub fn slot(&self, part: Part) -> &Slot {
        match part {
            Part::Roll => &self.roll,
            Part::Lines => &self.lines,
            Part::Cause => &self.cause,
        }
    }

    fn slot_mut(&mut self, part: Part) -> &mut Slot {
        match part {
            Part::Roll => &mut self.roll,
            Part::Lines => &mut self.lines,
            Part::Cause => &mut self.cause,
        }
    }

    /// How long until a part is to be read; none if it is not to be read by itself.
    pub(in crate::app) fn wait(&self, part: Part, now: Timestamp) -> Option<Duration> {
        self.job.as_ref()?;
        self.slot(part).wait(part, now)
    }

    /// Notes that a part is being read. A reading of another part is given up.
    pub(in crate::app) fn ask(&mut self, part: Part, now: Timestamp) {
        for slot in [&mut self.roll, &mut self.lines, &mut self.cause] {
            slot.asked = None;
        }
        self.slot_mut(part).asked = Some(now);
    }

    /// Has a part read once more, at once.
    pub(in crate::app) fn ask_again(&mut self, part: Part) {
        let slot = self.slot_mut(part);
        (slot.asked, slot.ended) = (None, None);
    }

    /// Stores a reading; whether it is of the job that is watched.
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
        (slot.asked, slot.ended) = (None, Some(now));
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

    /// What the workers wrote, in the order of time, and folded.
    pub fn said(&self) -> Option<(&JobWorkers, &[WorkerLine], &Folded)> {
        let reading = self.lines.reading.as_ref()?;
        let WorkersAnswer::Lines { said, folded, .. } = &reading.what else { return None };
        Some((&reading.job_workers, said, folded))
    }

    /// The folded rows as they are shown.
    pub fn folded(&self) -> &[FoldedLine] {
        &self.shown
    }

    /// The lines of the first cause.
    pub fn cause(&self) -> &[CauseLine] {
        &self.told_cause
    }

    /// Whether a row is open.
    pub fn is_open(&self, row: usize) -> bool {
        self.said().is_some_and(|(_, _, folded)| self.open.contains(&folded.marks[row]))
    }

    /// Opens a row to who says it, or folds it again.
    pub(in crate::app) fn toggle(&mut self, row: usize) {
        let Some(mark) = self.said().and_then(|(_, _, folded)| folded.marks.get(row).copied()) else {
            return;
        };
        if !self.open.remove(&mark) {
            self.open.insert(mark);
        }
        self.lay_out();
    }

    /// Watches the job that is shown, with the same rows open.
    pub(in crate::app) fn show_as(&mut self, shown: &Self) {
        if let Some(job) = &shown.job {
            self.begin(job);
            self.open.clone_from(&shown.open);
            self.lay_out();
        }
    }

    fn lay_out(&mut self) {
        let mut shown = Vec::new();
        if let Some((_, _, folded)) = self.said() {
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
        self.told_cause = self.cause.reading.as_ref().map(|reading| cause_lines(reading)).unwrap_or_default();
    }
}
