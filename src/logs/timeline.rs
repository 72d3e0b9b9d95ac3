//! The times of the held lines, and their number per interval of time.

use super::time::{Clock, Times};
use crate::model::Timestamp;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// The times of the held lines, to the second. Lines are added without gaps at either end: upwards from the end, or
/// downwards.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Numbers of lines, ascending, and the times of these lines and those below them. A line is listed only if its
    /// second differs from that of the line above.
    marks: VecDeque<(u64, Timestamp)>,
}

/// The number of lines in equal intervals of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Start of the first interval.
    pub start: Timestamp,
    /// Length of each interval.
    pub width: Duration,
    /// For each interval, the number of lines, and of those that report an error.
    pub bins: Vec<(usize, usize)>,
}

/// Permitted interval lengths, in seconds: round numbers.
const INTERVALS: [i64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];

impl Timeline {
    /// Adds the timestamp of a line that follows or precedes the known ones. `near` is the time at which it was read;
    /// it completes timestamps without a date.
    pub fn record(&mut self, number: u64, line: &str, near: Timestamp) {
        let is_below = self.marks.back().is_none_or(|(last, _)| number > *last);
        let beside = if is_below { self.marks.back() } else { self.marks.front() };
        let mut times = Times::beside(Clock::utc(near), beside.map(|(_, time)| *time));
        if let Some(time) = times.stamp(line) {
            self.put(number, time);
        }
    }

    /// Adds the time of a line, and of those below it, which follow or precede the known ones.
    pub fn put(&mut self, number: u64, time: Timestamp) {
        let is_same =
            |other: Timestamp| other.as_millis().div_euclid(1000) == time.as_millis().div_euclid(1000);
        let (Some((first, after)), Some((last, before))) =
            (self.marks.front().copied(), self.marks.back().copied())
        else {
            self.marks.push_back((number, time));
            return;
        };
        if number > last && !is_same(before) {
            self.marks.push_back((number, time));
        } else if number < first {
            if is_same(after) {
                self.marks.pop_front();
            }
            self.marks.push_front((number, time));
        }
    }

    /// Forgets lines that are no longer held.
    pub fn keep(&mut self, buffer: Range<u64>) {
        while self.marks.back().is_some_and(|(number, _)| *number >= buffer.end) {
            self.marks.pop_back();
        }
        // The first held line may have its time from one above.
        while self.marks.get(1).is_some_and(|(number, _)| *number <= buffer.start) {
            self.marks.pop_front();
        }
        if let Some((number, _)) = self.marks.front_mut() {
            *number = (*number).max(buffer.start);
        }
    }

    /// Whether no line has a timestamp.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The time of a line: its own timestamp, or the last one above it.
    pub fn time(&self, number: u64) -> Option<Timestamp> {
        let end = self.marks.partition_point(|(n, _)| *n <= number);
        Some(self.marks.get(end.checked_sub(1)?)?.1)
    }

    /// Number and time of the last line with a different second from the line above.
    pub fn last(&self) -> Option<(u64, Timestamp)> {
        self.marks.back().copied()
    }

    /// The time of the first line that has one, and of the last.
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.marks.front()?.1, self.marks.back()?.1))
    }

    /// The first line of this time or later; `None` if all are older.
    pub fn first_from(&self, time: Timestamp) -> Option<u64> {
        self.marks.iter().find(|(_, at)| *at >= time).map(|(number, _)| *number)
    }

    /// The number of lines up to `end`, exclusive, in at most `most` intervals; `None` if no line has a time. `errors`
    /// are the numbers of the lines that report an error, ascending.
    pub fn histogram(&self, end: u64, errors: &VecDeque<u64>, most: usize) -> Option<Histogram> {
        // Clocks may go back, and the lines of several writers may be out of order.
        let times = || self.marks.iter().map(|(_, time)| time.as_millis().div_euclid(1000));
        let (first, last) = (times().min()?, times().max()?);
        let most = i64::try_from(most.max(1)).ok()?;
        let fits = |width: &i64| last.div_euclid(*width) - first.div_euclid(*width) < most;
        let day = INTERVALS[INTERVALS.len() - 1];
        let width =
            INTERVALS.into_iter().find(fits).unwrap_or_else(|| (last - first) / most / day * day + day);
        // Years may not fit into `most` intervals of whole days: the last interval takes the rest.
        let bin = |time: i64| {
            usize::try_from((time.div_euclid(width) - first.div_euclid(width)).min(most - 1)).unwrap_or(0)
        };
        let mut bins = vec![(0, 0); bin(last) + 1];
        let mut errors = errors.iter().copied().skip_while(|n| self.time(*n).is_none()).peekable();
        let ends = self.marks.iter().skip(1).map(|(number, _)| *number).chain([end]);
        for (((number, _), until), time) in self.marks.iter().zip(ends).zip(times()) {
            let (lines, wrong) = &mut bins[bin(time)];
            *lines += usize::try_from(until.saturating_sub(*number)).unwrap_or(0);
            while errors.next_if(|error| *error < until).is_some() {
                *wrong += 1;
            }
        }
        let start = Timestamp::from_millis(first.div_euclid(width) * width * 1000);
        Some(Histogram { start, width: Duration::from_secs(width.unsigned_abs()), bins })
    }
}

impl Histogram {
    /// The interval that contains a time; the first or the last one for a time outside.
    pub fn bin(&self, time: Timestamp) -> usize {
        let after = time.as_millis().saturating_sub(self.start.as_millis()).max(0);
        let width = i64::try_from(self.width.as_millis()).unwrap_or(i64::MAX).max(1);
        usize::try_from(after / width).unwrap_or(usize::MAX).min(self.bins.len().saturating_sub(1))
    }

    /// The start of an interval; after the last one, its end.
    pub fn begins(&self, bin: usize) -> Timestamp {
        self.start.plus(self.width.saturating_mul(u32::try_from(bin).unwrap_or(u32::MAX)))
    }
}

/// A time in eight cells, in UTC: `13:58:14`, or `21 13:58` if it is a day or more from `now`.
pub fn clock(time: Timestamp, now: Timestamp) -> String {
    let near = time.as_millis().abs_diff(now.as_millis()) < 86_400_000;
    let form = if near { "%H:%M:%S" } else { "%d %H:%M" };
    jiff::Timestamp::from_millisecond(time.as_millis())
        .map_or_else(|_| String::new(), |time| time.strftime(form).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_millis(1_795_424_400_000);

    fn line(second: u32) -> String {
        format!("2026-11-21 13:{:02}:{:02},123 INFO step", second / 60, second % 60)
    }

    fn recorded(lines: &[(u64, &str)]) -> Timeline {
        let mut timeline = Timeline::default();
        for (number, line) in lines {
            timeline.record(*number, line, NOW);
        }
        timeline
    }

    #[test]
    fn a_line_has_its_time_or_that_of_the_line_above() {
        let (one, two) = (line(1), line(2));
        for order in [[10, 11, 12, 13], [13, 12, 11, 10], [12, 13, 11, 10]] {
            let text = |n: u64| match n {
                11 => one.as_str(),
                13 => two.as_str(),
                _ => "  File \"a.py\", line 3",
            };
            let timeline = recorded(&order.map(|n| (n, text(n))));
            let times = [10, 11, 12, 13].map(|n| timeline.time(n));
            assert_eq!((times[0], times[1]), (None, times[2]), "{order:?}");
            assert_eq!(times[1].unwrap().age(times[3].unwrap()), Duration::from_secs(1));
            assert_eq!(timeline.first_from(times[3].unwrap()), Some(13));
        }
    }

    #[test]
    fn dropped_lines_are_forgotten() {
        let lines: Vec<_> = (0..10).map(line).collect();
        let mut timeline =
            recorded(&(0..10).map(|n| (n * 10, lines[n as usize].as_str())).collect::<Vec<_>>());
        let before = timeline.time(35);
        timeline.keep(35..60);
        assert_eq!((timeline.time(34), timeline.time(35)), (None, before));
        assert_eq!(timeline.time(99), timeline.time(50), "what was dropped at the end");
        assert_eq!(timeline.histogram(60, &VecDeque::new(), 80).unwrap().bins, [(5, 0), (10, 0), (10, 0)]);
    }

    #[test]
    fn intervals_have_round_lengths() {
        let lines: Vec<_> = (0..300).map(|n| (n, line(u32::try_from(n).unwrap() * 2))).collect();
        let lines: Vec<_> = lines.iter().map(|(n, line)| (*n, line.as_str())).collect();
        let timeline = recorded(&lines);
        let histogram = timeline.histogram(300, &VecDeque::from([0, 31, 299]), 40).unwrap();
        assert_eq!((histogram.width, histogram.bins.len()), (Duration::from_secs(15), 40));
        assert_eq!(histogram.bins.iter().map(|(lines, _)| lines).sum::<usize>(), 300);
        assert_eq!((histogram.bins[0], histogram.bins[4].1, histogram.bins[39].1), ((8, 1), 1, 1));
        assert_eq!(histogram.bin(timeline.time(31).unwrap()), 4);
        assert_eq!(timeline.first_from(histogram.begins(4)), Some(30));
        assert_eq!(recorded(&[(1, "no time")]).histogram(2, &VecDeque::new(), 40), None);
    }

    proptest! {
        #[test]
        fn no_line_is_lost_and_the_intervals_fit(
            times in prop::collection::vec(-1_000_000_000_000i64..1_000_000_000_000, 1..40), most in 1usize..200
        ) {
            let mut timeline = Timeline::default();
            (0..).zip(&times).for_each(|(n, time)| timeline.put(n, Timestamp::from_millis(*time)));
            let end = times.len() as u64;
            let histogram = timeline.histogram(end, &(0..end).collect(), most).unwrap();
            prop_assert!(histogram.bins.len() <= most);
            let all = histogram.bins.iter().fold((0, 0), |all, bin| (all.0 + bin.0, all.1 + bin.1));
            prop_assert_eq!(all, (times.len(), times.len()));
        }
    }
}
