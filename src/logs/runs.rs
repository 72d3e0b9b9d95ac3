//! The progress that a log reports for each task, read line by line.

use super::progress::{Patterns, Progress};
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
    /// In the order of their latest reports, the newest at the end. Those without a name differ in their totals.
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
            let (total, step) = (series.total(), series.last().and_then(|last| last.step));
            let known =
                self.index_of(&Progress { task: task.as_str().into(), total, step, ..Progress::default() });
            match known {
                Some(index) => self.tasks[index].1.precede(&series),
                None if self.tasks.len() < MAX_TASKS => self.tasks.insert(0, (task, series)),
                None => {}
            }
        }
    }

    fn read(&mut self, line: &str) {
        let Some(progress) = self.patterns.read(line) else { return };
        let (task, mut series) = match self.index_of(&progress) {
            Some(index) => self.tasks.remove(index),
            None => (progress.task.clone().into_owned(), Series::default()),
        };
        // A line with nothing but a loss belongs to the last step.
        let step = progress.step.or_else(|| series.last().and_then(|last| last.step));
        series.push(&Progress { step, ..progress }, self.last);
        self.tasks.push((task, series));
        if self.tasks.len() > MAX_TASKS {
            self.tasks.remove(0);
        }
    }

    /// The task of a progress line. Lines without a name may be of several bars, such as those of a training and of its
    /// evaluations, which have different totals; one without a total is of the bar that reports losses, or else of the
    /// newest.
    fn index_of(&self, progress: &Progress<'_>) -> Option<usize> {
        let mut of_task = self.tasks.iter().enumerate().filter(|(_, (task, _))| *task == progress.task);
        if !progress.task.is_empty() {
            return of_task.next().map(|(index, _)| index);
        }
        let is_ahead = |series: &Series| {
            let last = series.last().and_then(|last| last.step);
            progress.step.zip(last).is_none_or(|(step, last)| step >= last)
        };
        let takes = |series: &Series| match (progress.total, series.total()) {
            (Some(total), Some(known)) => total == known,
            (Some(_), None) => is_ahead(series),
            (None, _) => true,
        };
        let fit = |series: &Series| {
            let has_loss =
                progress.total.is_none() && series.points().iter().any(|point| point.loss.is_some());
            (series.total() == progress.total && progress.total.is_some(), has_loss)
        };
        let fits = of_task.filter(|(_, (_, series))| takes(series));
        fits.max_by_key(|(index, (_, series))| (fit(series), *index)).map(|(index, _)| index)
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

    /// The step, the total and the number of runs of each task, the one that was reported last at the end.
    fn tasks(runs: &Runs) -> Vec<(Option<u64>, Option<u64>, u32)> {
        let of = |series: &Series| (series.last().unwrap().step, series.total(), series.runs());
        runs.tasks.iter().map(|(_, series)| of(series)).collect()
    }

    #[test]
    fn bars_without_a_name_are_distinguished_by_their_totals() {
        let bar = |step: u32, total: u32| {
            Line::from(format!("  5%|5  | {step}/{total} [10:00<3:00:00,  1.00it/s]"))
        };
        let loss = || Line::from("{'loss': 2.5, 'grad_norm': 0.5, 'learning_rate': 3e-05, 'epoch': 0.31}");
        let mut buffer = LogBuffer::new(usize::MAX, usize::MAX);
        let mut runs = Runs::default();
        for round in 2..4 {
            (1..=10).for_each(|step| _ = buffer.push(bar(round * 10 + step, 1000)));
            buffer.push(loss());
            (1..=5).for_each(|step| _ = buffer.push(bar(step, 50)));
        }
        buffer.push(loss());
        while !runs.step(&buffer, NOW) {}
        // Each evaluation is another run of its bar.
        assert_eq!(tasks(&runs), [(Some(5), Some(50), 2), (Some(40), Some(1000), 1)]);
        let losses = |runs: &Runs| runs.current().unwrap().1.losses(9);
        assert_eq!(losses(&runs), [2.5, 2.5, 2.5]);
        runs.read_above(&[bar(20, 1000), loss()], NOW);
        assert_eq!((tasks(&runs).len(), losses(&runs)), (2, vec![2.5; 4]));
    }

    #[test]
    fn a_bar_continues_lines_without_a_total() {
        let mut buffer = LogBuffer::new(usize::MAX, usize::MAX);
        let bar = |step: u32, total: u32| format!("  5%|5  | {step}/{total} [10:00<3:00:00,  1.00it/s]");
        for text in ["step 7 loss=3.5".to_owned(), bar(7, 90), bar(1, 50), "step 8 loss=3.5".to_owned()] {
            buffer.push(text.into());
        }
        let mut runs = Runs::default();
        while !runs.step(&buffer, NOW) {}
        assert_eq!(tasks(&runs), [(Some(1), Some(50), 1), (Some(8), Some(90), 1)]);
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
