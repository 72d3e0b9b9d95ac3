//! Times in a log: lines since a time, going to a time or a line, silence, and the histogram.

use super::times::{Dated, Since};
use super::view::LogView;
use crate::logs::{Clock, Histogram};
use crate::model::time::span;
use crate::model::{LogEnd, Timestamp};
use std::ops::Range;
use std::time::Duration;

/// Minimum silence that is displayed.
const MIN_SILENCE: Duration = Duration::from_secs(60);
/// One day.
const DAY: Duration = Duration::from_secs(86_400);
/// The spans of a key, as in k9s.
const SPANS: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(15 * 60),
    Duration::from_secs(3600),
];

/// Why a log does not go to a typed position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JumpError {
    /// The text is not a position.
    #[error("type a line (120), a percentage (50%), a time (14:05, 2026-11-21 14:05) or an age (-5m)")]
    Unknown,
    /// There is no line to go to.
    #[error("no lines are loaded")]
    NoLines,
    /// Only this many lines are loaded.
    #[error("lines 1 to {0} are loaded")]
    NotLoaded(usize),
    /// Times cannot be compared.
    #[error("no line has a timestamp")]
    NoTimes,
    /// The time is after that of the last line.
    #[error("the last line is older")]
    AfterEnd,
}

impl LogView {
    /// The time of the line at an index among the shown lines; `None` if it has none and existed before the log was
    /// opened.
    pub fn dated(&self, index: usize) -> Option<Dated> {
        let number = self.number(index);
        let text = self.line(index)?.text();
        let has_time = Clock::utc(self.times.near()).time(text).is_some();
        match self.times.own.time(number).filter(|_| has_time) {
            Some(time) => Some(Dated::Own(time)),
            None => self.times.came.time(number).map(Dated::Came),
        }
    }

    /// The time from which lines are shown; `None` if all are.
    pub fn since(&self) -> Option<Since> {
        self.since
    }

    /// Shows only the lines of the last period, by the clock of the lines, or all again. The first line in the window
    /// stays, or the next one that is shown. Returns whether lines have times.
    pub fn show_since(&mut self, last: Option<(Duration, Timestamp)>) -> bool {
        let has_times = !self.times.any().is_empty();
        self.since = last
            .filter(|_| has_times)
            .map(|(span, now)| Since { span, time: self.times.by_theirs(now).minus(span) });
        self.keep_since();
        if let Some(Since { time, .. }) = self.since
            && self.times.any().span().is_some_and(|(first, _)| first >= time)
        {
            self.read_back_to(time, false);
        }
        has_times
    }

    /// Switches to the next of the spans 1m, 5m, 15m, 1h, and to all lines. Returns whether lines have times.
    pub fn turn_since(&mut self, now: Timestamp) -> bool {
        let here = self.since.map_or(Duration::ZERO, |since| since.span);
        let next = SPANS.into_iter().find(|span| *span > here);
        self.show_since(next.map(|span| (span, now)))
    }

    /// Shows lines since a typed time: an age (`10m`), a time of day (`14:05`; yesterday's if it is in the future) or a
    /// date with time (`2026-11-20 14:05`). Nothing, or `all`, shows all lines.
    ///
    /// # Errors
    ///
    /// The text is none of these, the time is in the future, or no line has a time; the message names the valid forms.
    pub fn since_typed(&mut self, typed: &str, now: Timestamp) -> Result<(), String> {
        let typed = typed.trim();
        if typed.is_empty() || typed == "all" {
            self.show_since(None);
            return Ok(());
        }
        if self.times.any().is_empty() {
            return Err("no line has a timestamp".to_owned());
        }
        if let Ok(back) = span(typed) {
            self.show_since(Some((back, now)));
            return Ok(());
        }
        let here = self.times.by_theirs(now);
        let time =
            self.time_of(typed, here).ok_or("type 10m, 2h, a time (14:05, 2026-11-20 14:05) or all")?;
        let is_of_day = !typed.contains([' ', 'T']);
        let time = if time > here && is_of_day { time.minus(DAY) } else { time };
        if time > here {
            return Err("that time is in the future".to_owned());
        }
        self.show_since(Some((time.age(here), now)));
        Ok(())
    }

    /// Updates the first line that may be shown.
    pub(super) fn keep_since(&mut self) {
        let times = self.times.any();
        let from = self.since.map(|since| match times.first_from(since.time) {
            // Lines above may belong to it as well.
            _ if times.span().is_some_and(|(first, _)| first >= since.time) => 0,
            from => from.unwrap_or(u64::MAX),
        });
        self.line_filter.set_from(from.unwrap_or(0));
    }

    /// How long nothing has been written to an open log, by the writer's clock if known; `None` below a minute.
    pub fn silent(&self, now: Timestamp) -> Option<Duration> {
        let silent = self.times.age(now).filter(|_| self.end == LogEnd::Open)?;
        (silent >= MIN_SILENCE).then_some(silent)
    }

    /// When the text about silence changes next; `None` if there is none.
    pub fn next_silence(&self, now: Timestamp) -> Option<Duration> {
        let silent = self.times.age(now).filter(|_| self.end == LogEnd::Open)?;
        match silent.as_secs() {
            0..60 => Some(MIN_SILENCE.saturating_sub(silent)),
            secs @ 60..3600 => Some(Duration::from_secs(60 - secs % 60)),
            _ => None,
        }
    }

    /// Lines and errors over time, in at most that many bins; `None` while no line has a time.
    pub fn histogram(&self, most: usize) -> Option<Histogram> {
        self.times.any().histogram(self.buffer.end(), self.errors.lines(), most)
    }

    /// The bins of a histogram that the window shows.
    pub fn seen_bins(&self, histogram: &Histogram) -> Option<Range<usize>> {
        let (seen, times) = (self.seen(), self.times.any());
        let bin = |index: usize| Some(histogram.bin(times.time(self.number(index))?));
        let last = bin(seen.end.checked_sub(1)?)?;
        let first = bin(seen.start).unwrap_or(0);
        Some(first.min(last)..last.max(first) + 1)
    }

    /// Goes to the first line of the next bin of the histogram that has lines, or of the previous one. False at the
    /// end; `None` while no line has a time.
    pub fn next_bin(&mut self, most: usize, forward: bool) -> Option<bool> {
        let histogram = self.histogram(most)?;
        let here = self.seen_bins(&histogram)?;
        let has_lines = |bin: &usize| histogram.bins[*bin].0 > 0;
        let bin = if forward {
            let after = if self.follow { here.end } else { here.start + 1 };
            (after..histogram.bins.len()).find(has_lines)
        } else {
            (0..here.start).rev().find(has_lines)
        };
        let number = bin.and_then(|bin| self.times.any().first_from(histogram.begins(bin)));
        if let Some(number) = number {
            self.go_to_line(number);
        }
        Some(number.is_some())
    }

    /// Goes to a typed position: a line number of the loaded lines (`120`), a percentage (`50%`), a time of day
    /// (`14:05`, `14:05:30`), a date with time (`2026-11-21 14:05`), or an age (`-5m`). Stops following.
    ///
    /// # Errors
    ///
    /// The text is none of these, or the position is not among the loaded lines.
    pub fn jump(&mut self, typed: &str, now: Timestamp) -> Result<(), JumpError> {
        let typed = typed.trim();
        if self.buffer.is_empty() {
            return Err(JumpError::NoLines);
        }
        if let Ok(number) = typed.parse::<u64>() {
            let loaded = self.loaded();
            if number == 0 || number > loaded as u64 {
                return Err(JumpError::NotLoaded(loaded));
            }
            self.go_to_line(self.buffer.first() + number - 1);
            return Ok(());
        }
        if let Some(percent) = typed.strip_suffix('%').and_then(|n| n.trim().parse::<u64>().ok()) {
            let lines = self.loaded() as u64;
            self.go_to_line(self.buffer.first() + (lines * percent.min(100) / 100).min(lines - 1));
            return Ok(());
        }
        let time = self.typed_time(typed, now).ok_or(JumpError::Unknown)?;
        let times = self.times.any();
        let Some((first, _)) = times.span() else { return Err(JumpError::NoTimes) };
        match times.first_from(time) {
            // Lines of that time are above, and are read now.
            Some(_) if time < first => {
                self.go_to_top();
                self.read_back_to(time, true);
            }
            Some(number) => self.go_to_line(number),
            None => return Err(JumpError::AfterEnd),
        }
        Ok(())
    }

    /// A typed time, by the clock of the lines; `None` if the text is neither a time nor an age.
    fn typed_time(&self, typed: &str, now: Timestamp) -> Option<Timestamp> {
        let now = self.times.by_theirs(now);
        match typed.strip_prefix('-') {
            Some(age) => span(age).ok().map(|back| now.minus(back)),
            None => self.time_of(typed, now),
        }
    }

    /// `14:05` or `2026-11-21 14:05`, optionally with seconds, by the clock of the lines, which shows `now`.
    fn time_of(&self, typed: &str, now: Timestamp) -> Option<Timestamp> {
        // `14:05` means its first second.
        let clock = typed.rsplit([' ', 'T']).next().unwrap_or(typed);
        let seconds = if clock.matches(':').count() == 1 { ":00" } else { "" };
        // The day is that of the log.
        let near = self.times.any().span().map_or(now, |(_, last)| last);
        Clock::utc(near).time(&format!("{typed}{seconds}"))
    }

    /// Goes to a line, shown or not, and puts it as close to the top of the window as possible.
    pub(super) fn go_to_line(&mut self, number: u64) {
        let index = self.index_of(number).min(self.len().saturating_sub(1));
        self.at = Some(self.number(index));
        self.show(index);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{NOW, first, view};
    use super::*;
    use crate::model::{Line, LogBatch, StreamId};

    fn minutes(n: u64) -> Duration {
        Duration::from_secs(n * 60)
    }

    /// Lines from 08:00:00 to 08:59:40 UTC, three per minute.
    fn dated() -> LogView {
        let mut view = view(0);
        let line = |n: u64| format!("2026-11-23 08:{:02}:{:02},000 INFO line {n}", n / 3, n % 3 * 20).into();
        take(&mut view, (0..180).map(line).collect(), NOW);
        view
    }

    fn take(view: &mut LogView, lines: Vec<Line>, now: Timestamp) {
        view.take(LogBatch { stream: StreamId(1), part: lines.into(), end: LogEnd::Open }, now);
    }

    fn top(view: &LogView) -> &str {
        first(view).rsplit_once(' ').unwrap().1
    }

    #[test]
    fn lines_since_a_time_are_shown_and_the_position_is_kept() {
        let mut view = dated();
        view.go_to_top();
        view.scroll(150);
        assert!(view.turn_since(NOW) && view.len() == 3 && top(&view) == "177");
        assert!(view.turn_since(NOW) && view.len() == 15 && top(&view) == "165");
        assert!(view.turn_since(NOW) && view.len() == 45 && top(&view) == "150");
        take(
            &mut view,
            vec!["2026-11-23 09:00:30,000 INFO line 180".into(), "  File".into()],
            NOW.plus(minutes(1)),
        );
        assert_eq!(view.len(), 47);
        assert!(view.turn_since(NOW) && view.since().unwrap().span == minutes(60));
        assert!(view.turn_since(NOW) && view.since().is_none() && view.len() == 182);
        assert_eq!(top(&view), "150");
        let mut plain = super::super::sample::view(5);
        assert!(!plain.turn_since(NOW) && plain.len() == 5, "no line has a timestamp");
    }

    #[test]
    fn silence_uses_the_time_zone_of_the_host_until_a_line_is_received() {
        // Written at 08:58 UTC by a clock that shows 14:28.
        let mut view = view(0);
        take(&mut view, vec!["2026-11-23 14:28:00,000 step 1".into()], NOW);
        assert_eq!(view.silent(NOW), None);
        view.take_zone(StreamId(1), 19_800, NOW);
        assert_eq!(view.silent(NOW), Some(minutes(2)));
        view.take_zone(StreamId(7), -3600, NOW);
        assert_eq!(view.silent(NOW), Some(minutes(2)), "the zone of another log");
        assert!(view.turn_since(NOW) && view.is_empty(), "none within the last minute");
        assert!(view.turn_since(NOW) && view.len() == 1, "one within the last five");
        // The line's own time is more precise than the zone.
        let later = NOW.plus(minutes(1));
        take(&mut view, vec!["2026-11-23 14:30:55,000 step 2".into()], later);
        assert_eq!(view.silent(later.plus(minutes(3))), Some(minutes(3)));
        // A time with a zone is read in that zone.
        let mut zoned = super::super::sample::view(0);
        zoned.take_zone(StreamId(1), 19_800, NOW);
        take(&mut zoned, vec!["2026-11-23T14:28:00.000+05:30 step 1".into()], NOW);
        assert_eq!(zoned.silent(NOW), Some(minutes(2)));
    }

    #[test]
    fn lines_are_shown_since_a_typed_time() {
        let mut view = dated();
        let mut since = |typed: &str| view.since_typed(typed, NOW).map(|()| view.len());
        assert_eq!(since("10m"), Ok(30));
        assert_eq!(since(" 2h "), Ok(180));
        assert_eq!(since("08:50"), Ok(30));
        assert_eq!(since("08:50:30"), Ok(28));
        assert_eq!(since("2026-11-23 08:30"), Ok(90));
        assert_eq!(since("2026-11-20 14:05"), Ok(180));
        assert_eq!(since("14:05"), Ok(180), "yesterday's");
        for wrong in ["soon", "08:99", "120 lines", "2026-11-24 08:00"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (since("08:50"), since("all"), since("08:50"), since("")),
            (Ok(30), Ok(180), Ok(30), Ok(180))
        );
        let mut plain = super::super::sample::view(5);
        assert_eq!(plain.since_typed("10m", NOW), Err("no line has a timestamp".to_owned()));
    }

    #[test]
    fn jumps_to_a_time_a_line_or_a_percentage() {
        let mut view = dated();
        let mut go = |typed: &str| view.jump(typed, NOW).map(|()| top(&view).to_owned());
        assert_eq!(go("1").as_deref(), Ok("0"));
        assert_eq!(go("91").as_deref(), Ok("90"));
        assert_eq!(go("50%").as_deref(), Ok("90"));
        assert_eq!(go("08:10").as_deref(), Ok("30"));
        assert_eq!(go("08:10:20").as_deref(), Ok("31"));
        assert_eq!(go("2026-11-23 08:20").as_deref(), Ok("60"));
        assert_eq!(go("-30m").as_deref(), Ok("90"));
        assert_eq!(go("07:00").as_deref(), Ok("0"));
        for wrong in ["0", "999", "08:99", "soon", "-soon", "", "2026-11-24 08:00"] {
            assert!(go(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (go("999"), go("2026-11-24 08:00")),
            (Err(JumpError::NotLoaded(180)), Err(JumpError::AfterEnd))
        );
    }

    #[test]
    fn moves_from_bin_to_bin() {
        let mut view = dated();
        view.jump("08:30", NOW).unwrap();
        assert_eq!(view.histogram(60).unwrap().width, minutes(1));
        assert_eq!(view.next_bin(60, true), Some(true));
        assert_eq!(top(&view), "93");
        assert_eq!((view.next_bin(60, false), view.next_bin(60, false)), (Some(true), Some(true)));
        assert_eq!(top(&view), "87");
        let histogram = view.histogram(60).unwrap();
        assert_eq!(view.seen_bins(&histogram), Some(29..33));
        view.go_to_end();
        assert_eq!(view.next_bin(60, true), Some(false));
    }

    #[test]
    fn silence_uses_the_clock_of_the_writer() {
        let mut view = dated();
        // It wrote last at 08:59:40.
        assert_eq!(
            (view.silent(NOW), view.silent(NOW.plus(minutes(2)))),
            (None, Some(Duration::from_secs(140)))
        );
        // A line with the time 10:00 is received at 09:00: the writer's clock is an hour ahead.
        let minute = NOW.plus(minutes(1));
        take(&mut view, vec!["2026-11-23 10:01:00,000 INFO line 180".into()], minute);
        assert_eq!(view.silent(minute.plus(minutes(3))), Some(minutes(3)));
        // Lines written during an interruption arrive late.
        take(&mut view, vec!["2026-11-23 10:05:00,000 INFO line 181".into()], NOW.plus(minutes(9)));
        assert_eq!(view.silent(NOW.plus(minutes(9))), Some(minutes(4)));
        take(&mut view, vec!["a line without a time".into()], NOW.plus(minutes(10)));
        assert_eq!(view.silent(NOW.plus(minutes(12))), Some(minutes(2)));
        view.end = LogEnd::Complete;
        assert_eq!(view.silent(NOW.plus(minutes(9))), None);
    }

    #[test]
    fn the_end_of_a_log_received_in_parts_has_the_age_of_its_timestamps() {
        let mut view = view(0);
        let soon = NOW.plus(Duration::from_secs(2));
        take(&mut view, vec!["2026-11-23 08:20:00,000 INFO line 1".into()], NOW);
        take(&mut view, vec!["2026-11-23 08:35:00,000 INFO line 2".into(), "  no time".into()], soon);
        take(&mut view, vec!["  no time".into()], soon);
        assert_eq!(view.silent(NOW), Some(minutes(25)));
        assert_eq!(view.dated(3), None, "it existed before");
    }

    #[test]
    fn a_line_without_a_time_has_the_time_of_its_receipt() {
        let mut view = dated();
        take(&mut view, vec!["no time".into()], NOW.plus(minutes(1)));
        assert_eq!(view.dated(180), Some(Dated::Came(NOW.plus(minutes(1)))));
        assert!(matches!(view.dated(179), Some(Dated::Own(time)) if time < NOW));
        let mut plain = super::super::sample::view(5);
        assert_eq!(plain.dated(4), None, "it existed before");
        let minute = NOW.plus(minutes(1));
        take(&mut plain, vec!["new".into()], minute);
        assert_eq!(
            (plain.dated(5), plain.silent(minute.plus(minutes(1)))),
            (Some(Dated::Came(minute)), Some(minutes(1)))
        );
    }
}
