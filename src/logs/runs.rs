//! The progress that a log reports for each task, read line by line.

use super::progress::Patterns;
use super::series::Series;
use super::time::{Clock, Times};
use super::{LogBuffer, STEP};
use crate::model::{Line, Timestamp};

/// Maximum number of tasks that are kept: `train`, `eval`, and bars with names of their own.
const MAX_TASKS: usize = 8;

/// The series of each task of a log.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    patterns: Patterns,
    /// In the order of their latest reports, the newest at the end.
    tasks: Vec<(String, Series)>,
    /// Number of the next line to read; `None` before the first step.
    next: Option<u64>,
    last: Option<Timestamp>,
}

impl Runs {
    /// Empty; `patterns` recognize the progress lines.
    pub fn of(patterns: Patterns) -> Self {
        Self { patterns, ..Self::default() }
    }

    /// Empty, with the same patterns, for another log.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self::of(self.patterns.clone())
    }

    /// Reads lines that were not read yet, a quarter of [`STEP`] bytes at most. Returns whether all were read. `near`
    /// is the time at which they were received; it completes timestamps without a date.
    pub fn step(&mut self, buffer: &LogBuffer, near: Timestamp) -> bool {
        let mut next = self.next.unwrap_or(buffer.first()).max(buffer.first());
        let mut left = STEP / 4;
        while next < buffer.end() && left > 0 {
            let Some(line) = buffer.get(buffer.index_of(next)) else { break };
            left = left.saturating_sub(line.text().len() + 64);
            let mut times = Times::beside(Clock::utc(near), self.last);
            self.last = times.next(line.text());
            self.read(line.text());
            next += 1;
        }
        self.next = Some(next);
        next >= buffer.end()
    }

    /// Whether every held line was read.
    pub fn is_done(&self, buffer: &LogBuffer) -> bool {
        buffer.is_empty() || self.next.is_some_and(|next| next >= buffer.end())
    }

    /// Adds lines before those that were read: the beginning of each series.
    pub fn read_above(&mut self, lines: &[Line], near: Timestamp) {
        let mut above = self.emptied();
        let mut times = Times::new(Clock::utc(near));
        for line in lines {
            above.last = times.next(line.text());
            above.read(line.text());
        }
        for (task, series) in above.tasks {
            let known = self.tasks.iter().position(|(name, _)| *name == task);
            match known {
                Some(index) => self.tasks[index].1.precede(&series),
                None if self.tasks.len() < MAX_TASKS => self.tasks.insert(0, (task, series)),
                None => {}
            }
        }
    }

    fn read(&mut self, line: &str) {
        let Some(progress) = self.patterns.read(line) else { return };
        let known = self.tasks.iter().position(|(task, _)| *task == progress.task);
        let (task, mut series) = match known {
            Some(index) => self.tasks.remove(index),
            None => (progress.task.clone().into_owned(), Series::default()),
        };
        series.push(&progress, self.last);
        self.tasks.push((task, series));
        if self.tasks.len() > MAX_TASKS {
            self.tasks.remove(0);
        }
    }

    /// The task that was reported last, and its series; `None` if no line reports progress.
    pub fn current(&self) -> Option<(&str, &Series)> {
        self.tasks.last().map(|(task, series)| (task.as_str(), series))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: u32) -> Line {
        format!("Progress on:train {step}.0it/100it rate:2.0it/s remaining:0:30 postfix:loss={step}.5").into()
    }

    const NOW: Timestamp = Timestamp::from_millis(1_795_424_400_000);

    #[test]
    fn the_task_that_was_reported_last_is_shown() {
        let mut buffer = LogBuffer::new(usize::MAX, usize::MAX);
        (50..60).for_each(|step| _ = buffer.push(line(step)));
        buffer.push("Progress on:eval 3it/9it rate:1.0it/s".into());
        let mut runs = Runs::default();
        assert!(runs.step(&buffer, NOW) && runs.is_done(&buffer));
        assert_eq!(runs.current().unwrap().0, "eval");
        buffer.push(line(60));
        assert!(!runs.is_done(&buffer) && runs.step(&buffer, NOW));
        let (task, series) = runs.current().unwrap();
        assert_eq!((task, series.last().unwrap().step, series.points().len()), ("train", Some(60), 11));
    }

    #[test]
    fn lines_above_are_the_beginning_of_the_series() {
        let mut buffer = LogBuffer::new(usize::MAX, usize::MAX);
        (50..60).for_each(|step| _ = buffer.push(line(step)));
        let mut runs = Runs::default();
        runs.step(&buffer, NOW);
        runs.read_above(&(40..50).map(line).collect::<Vec<_>>(), NOW);
        let series = runs.current().unwrap().1;
        assert_eq!((series.points().len(), series.losses(2)), (20, vec![45.0, 55.0]));
        runs.read_above(&(90..99).map(line).collect::<Vec<_>>(), NOW);
        assert_eq!(runs.current().unwrap().1.points().len(), 20, "points of an earlier run are not added");
    }

    #[test]
    fn tasks_are_bounded() {
        let mut runs = Runs::default();
        let mut buffer = LogBuffer::new(usize::MAX, usize::MAX);
        for shard in 0..100 {
            buffer.push(format!("shard {shard}:  45%|####5     | 45/100 [00:10<00:12,  4.5it/s]").into());
        }
        while !runs.step(&buffer, NOW) {}
        assert_eq!((runs.tasks.len(), runs.current().unwrap().0), (MAX_TASKS, "shard 99"));
    }
}
