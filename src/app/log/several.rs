//! Several logs in one view, from one or more clusters: their lines in order of time, each with the name of its log.

use super::joined::Joined;
use super::view::LogView;
use crate::logs::Clock;
use crate::model::{FollowedLog, Line, LogBatch, LogEnd, StreamId, Timestamp};
use std::time::Duration;

impl LogView {
    /// Whether a stream belongs to this view.
    pub fn reads(&self, stream: StreamId) -> bool {
        self.stream == stream || self.joined.as_ref().is_some_and(|joined| joined.number(stream).is_some())
    }

    /// The logs of a view of several logs, with their streams.
    pub fn logs(&self) -> impl Iterator<Item = (&FollowedLog, StreamId)> {
        self.joined.iter().flat_map(Joined::logs)
    }

    /// Adds lines of one of several logs. They are shown once those of the others have had time to arrive.
    pub(super) fn take_joined(&mut self, batch: LogBatch, now: Timestamp) {
        let Some(joined) = &mut self.joined else { return };
        let Some(number) = joined.number(batch.stream) else { return };
        if batch.end != LogEnd::Open || !batch.part.lines.is_empty() {
            joined.merge.push(number as u32, batch.part.lines, now);
        }
        joined.parts[number].end = batch.end;
        self.end = joined.end();
        self.settle(now);
    }

    /// Sets the time zone of one of several logs.
    pub(super) fn zone_joined(&mut self, stream: StreamId, utc_offset: i32, now: Timestamp) {
        if let Some(joined) = &mut self.joined {
            joined.set_clock(stream, Clock { near: now, utc_offset });
        }
    }

    /// How long until waiting lines are shown; `None` if there are none.
    pub fn next_joined(&self, now: Timestamp) -> Option<Duration> {
        self.joined.as_ref()?.merge.wait(now)
    }

    /// Shows the lines that have waited for others; returns whether there were any.
    pub fn settle(&mut self, now: Timestamp) -> bool {
        let Some(joined) = &mut self.joined else { return false };
        let lines = joined.merge.take(now);
        let is_any = !lines.is_empty();
        if is_any {
            self.add_joined(lines.into_iter().map(|line| (line.source as u16, line.item)).collect(), now);
        }
        is_any
    }

    /// Adds lines with the numbers of their logs.
    fn add_joined(&mut self, lines: Vec<(u16, Line)>, now: Timestamp) {
        let (numbers, lines): (Vec<u16>, Vec<Line>) = lines.into_iter().unzip();
        let end = self.buffer.end();
        if let Some(joined) = &mut self.joined {
            if joined.from.is_empty() {
                joined.first = end;
            }
            joined.from.extend(numbers);
        }
        self.add(lines.into(), now);
        if let Some(joined) = &mut self.joined {
            let gone = self.buffer.first().saturating_sub(joined.first).min(joined.from.len() as u64);
            joined.from.drain(..gone as usize);
            joined.first += gone;
        }
    }

    /// Continues with the lines that another view of the same streams has received since. If other logs were opened
    /// meanwhile, they stay as they are.
    pub fn go_on_with(&mut self, mut after: Self, now: Timestamp) {
        if self.stream != after.stream {
            return;
        }
        let (Some(joined), Some(later)) = (&mut self.joined, after.joined.take()) else {
            return self.take(after.into_batch(), now);
        };
        // Lines that waited here are older than those received there.
        let mut lines: Vec<(u16, Line)> =
            joined.merge.take_all().into_iter().map(|line| (line.source as u16, line.item)).collect();
        lines.extend(later.from.into_iter().zip(after.buffer.into_part().lines));
        (joined.merge, joined.parts) = (later.merge, later.parts);
        self.end = joined.end();
        self.add_joined(lines, now);
    }

    /// The log of a shown line, by its number among the logs, and its name; `None` in a view of one log.
    pub fn part(&self, index: usize) -> Option<(usize, &str)> {
        self.part_of(self.number(index))
    }

    /// The same by the number of the line.
    pub(super) fn part_of(&self, line: u64) -> Option<(usize, &str)> {
        let joined = self.joined.as_ref()?;
        let at = usize::try_from(line.checked_sub(joined.first)?).ok()?;
        let number = usize::from(*joined.from.get(at)?);
        Some((number, joined.parts.get(number)?.log.name.as_str()))
    }

    /// A line as it is copied and saved, with the name of its log in a view of several.
    pub(super) fn with_part(&self, line: u64, text: &str) -> String {
        match self.part_of(line) {
            Some((_, name)) => format!("{name}  {text}"),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::NOW;
    use super::*;
    use crate::model::{ClusterName, LogSource, SubmissionId};

    fn view() -> LogView {
        let log = |(number, cluster, id): (u64, &str, &str)| {
            let log = FollowedLog {
                cluster: ClusterName::parse(cluster).unwrap(),
                source: LogSource::Job(SubmissionId(id.into())),
                host: None,
                name: format!("{cluster} {id}"),
            };
            (log, StreamId(number))
        };
        let mut view = LogView::default();
        view.begin_several([(7, "east", "a"), (9, "west", "b")].map(log).to_vec(), NOW);
        view
    }

    fn came(view: &mut LogView, stream: u64, lines: &[&str], now: Timestamp) {
        let lines: Vec<Line> = lines.iter().map(|line| Line::from(*line)).collect();
        view.take(LogBatch { stream: StreamId(stream), part: lines.into(), end: LogEnd::Open }, now);
    }

    fn shown(view: &LogView) -> Vec<String> {
        view.taken_out().unwrap().lines().map(str::to_owned).collect()
    }

    fn after(seconds: u64) -> Timestamp {
        NOW.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn lines_of_several_logs_are_in_order_of_time_with_names() {
        let mut view = view();
        came(&mut view, 7, &["2026-01-01 10:00:02 two", "and more"], NOW);
        assert!(view.is_empty() && view.next_joined(NOW).is_some(), "the other may have earlier lines");
        came(&mut view, 9, &["2026-01-01 10:00:01 one"], NOW);
        came(&mut view, 8, &["of another stream"], after(2));
        view.settle(after(2));
        view.examine_more();
        let want = ["west b  2026-01-01 10:00:01 one", "east a  2026-01-01 10:00:02 two", "east a  and more"];
        assert_eq!(shown(&view), want);
        assert_eq!((view.part(0), view.part(2)), (Some((1, "west b")), Some((0, "east a"))));
        assert!(view.reads(StreamId(7)) && view.reads(StreamId(9)) && !view.reads(StreamId(8)));
    }

    #[test]
    fn memory_is_bounded_and_each_line_keeps_its_log() {
        let mut view = view();
        view.limit(50 * Line::from("line 000").bytes());
        for number in 0..200 {
            came(
                &mut view,
                if number % 3 == 0 { 7 } else { 9 },
                &[&format!("line {number:03}")],
                after(number * 2),
            );
        }
        view.settle(after(1000));
        view.examine_more();
        let lines = shown(&view);
        assert_eq!((lines.len(), lines[0].as_str()), (50, "east a  line 150"));
        assert_eq!(lines[49], "west b  line 199");
        assert_eq!(view.joined.as_ref().unwrap().from.len(), 50);
    }

    #[test]
    fn lines_received_behind_a_frozen_screen_are_added_with_names() {
        let mut view = view();
        came(&mut view, 9, &["before"], NOW);
        let mut behind = view.after_this(NOW).unwrap();
        came(&mut behind, 7, &["while frozen"], after(1));
        came(&mut behind, 9, &["waits"], after(9));
        view.go_on_with(behind, after(9));
        view.settle(after(11));
        view.examine_more();
        assert_eq!(shown(&view), ["west b  before", "east a  while frozen", "west b  waits"]);
    }

    #[test]
    fn logs_that_were_opened_on_a_frozen_screen_stay_open() {
        let mut view = view();
        let behind = view.after_this(NOW).unwrap();
        let log = |id: &str| FollowedLog {
            cluster: ClusterName::parse("north").unwrap(),
            source: LogSource::Job(SubmissionId(id.into())),
            host: None,
            name: id.to_owned(),
        };
        view.begin_several(vec![(log("c"), StreamId(21)), (log("d"), StreamId(22))], NOW);
        came(&mut view, 22, &["of the new log"], NOW);
        view.go_on_with(behind, after(9));
        assert!(view.reads(StreamId(21)) && !view.reads(StreamId(7)));
        view.settle(after(9));
        view.examine_more();
        assert_eq!(shown(&view), ["d  of the new log"]);
    }

    #[test]
    fn times_are_read_by_the_time_zone_of_their_log_after_a_freeze() {
        let mut view = view();
        view.take_zone(StreamId(7), -3600, NOW);
        let mut behind = view.after_this(NOW).unwrap();
        behind.take_zone(StreamId(9), 3600, NOW);
        came(&mut behind, 7, &["2026-01-01 09:00:02 second"], after(1));
        came(&mut behind, 9, &["2026-01-01 11:00:01 first"], after(1));
        behind.settle(after(9));
        view.go_on_with(behind, after(9));
        came(&mut view, 7, &["2026-01-01 09:00:04 fourth"], after(10));
        came(&mut view, 9, &["2026-01-01 11:00:03 third"], after(10));
        view.settle(after(20));
        view.examine_more();
        let order: Vec<String> =
            shown(&view).iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
        assert_eq!(order, ["first", "second", "third", "fourth"]);
    }

    #[test]
    fn an_interrupted_log_is_named_and_the_others_continue() {
        let mut view = view();
        let end = |view: &mut LogView, stream, end| {
            view.take(LogBatch { stream: StreamId(stream), part: Vec::new().into(), end }, NOW);
        };
        end(&mut view, 9, LogEnd::Interrupted("cluster not connected".into()));
        assert_eq!(*view.end(), LogEnd::Interrupted("west b: cluster not connected".into()));
        end(&mut view, 9, LogEnd::Complete);
        assert_eq!(*view.end(), LogEnd::Open);
        end(&mut view, 7, LogEnd::Complete);
        assert_eq!(*view.end(), LogEnd::Complete);
        end(&mut view, 7, LogEnd::Failed("no such job".into()));
        assert_eq!(
            *view.end(),
            LogEnd::Interrupted("east a: no such job".into()),
            "the other one is readable"
        );
    }
}
