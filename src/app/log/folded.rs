//! The display options of a log, and the text in place of hidden lines.

use super::show::Show;
use super::view::LogView;
use crate::logs::{Noise, Series, noise};
use crate::model::amount::grouped;
use crate::model::{Line, LogEnd, Timestamp};
use std::time::Duration;

/// Progress is expected at least once per this many steps.
const STEPS: u32 = 30;
const MIN_SILENCE: Duration = Duration::from_secs(60);
/// Number of lines of a stretch of noise that are examined for their writer.
const MAX_EXAMINED: u64 = 64;

impl LogView {
    /// The display options.
    pub fn shows(&self) -> Show {
        self.show
    }

    /// Switches an option. The current line or a marked one stays in the window, otherwise the first line does.
    pub fn toggle(&mut self, what: impl Fn(&mut Show) -> &mut bool) {
        let kept = self.line_to_keep();
        let is_on = what(&mut self.show);
        *is_on = !*is_on;
        self.line_filter.set_quiet(self.show.folds());
        self.examine_more();
        if let Some((number, above)) = kept {
            self.keep(number, above);
        }
    }

    /// The text in place of hidden noise at this index: the number of lines, and their writers; `None` for a line that
    /// is shown.
    pub fn folded(&self, index: usize) -> Option<String> {
        if !self.line_filter.folds() {
            return None;
        }
        let number = self.number(index);
        let of = |number: u64| noise(self.buffer.get(self.buffer.index_of(number)).map(Line::text)?);
        let first = of(number)?;
        let end = self.number(index + 1);
        let mut from = vec![first.from];
        for Noise { from: next, .. } in (number + 1..end.min(number + MAX_EXAMINED)).filter_map(of) {
            if !from.contains(next) {
                from.push(next);
            }
        }
        let lines = match end.saturating_sub(number) {
            1 => "1 line".to_owned(),
            lines => format!("{} lines", grouped(usize::try_from(lines).unwrap_or(usize::MAX))),
        };
        let from = match &from[..] {
            [one] => (*one).to_owned(),
            [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
            [] => String::new(),
        };
        Some(format!("… {lines} of {from}"))
    }

    /// The displayed progress: its source, and its series.
    pub fn progress(&self) -> Option<(&str, &Series)> {
        self.runs.current().filter(|_| self.show.progress)
    }

    /// How long ago the last progress was written, if it has stopped: the log has ended, or no progress has been
    /// written for much longer than a step takes.
    pub fn stopped(&self, now: Timestamp) -> Option<Duration> {
        let (_, series) = self.runs.current()?;
        let age = series.last()?.time?.age(self.times.by_theirs(now));
        let step = series.rate().and_then(|rate| Duration::try_from_secs_f64(rate.recip()).ok());
        let limit = step.unwrap_or_default().saturating_mul(STEPS).max(MIN_SILENCE);
        (self.end != LogEnd::Open || age >= limit).then_some(age)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{NOW, first, lines, push, view};
    use super::*;
    use crate::model::{LogBatch, StreamId};

    const NOISE: [&str; 2] = [
        "I1114 09:32:22.280168 13509 tpu_hal.cc:448] Registered plugin from module: sdc_checker_callback",
        "computation_placer.cc:177] computation placer already registered",
    ];

    #[test]
    fn noise_is_shown_as_a_count_until_it_is_requested() {
        let mut view = view(5);
        lines(
            &mut view,
            [NOISE[0], NOISE[1], NOISE[0], "step 1", NOISE[1], "step 2"].map(Line::from).to_vec(),
        );
        push(&mut view, 11..60);
        view.go_to_top();
        assert_eq!((view.len(), view.loaded()), (58, 60));
        assert_eq!(view.folded(5).unwrap(), "… 3 lines of libtpu and XLA");
        assert_eq!((view.folded(6), view.folded(7).unwrap().as_str()), (None, "… 1 line of XLA"));
        view.scroll(8);
        assert_eq!(first(&view), "step 2");
        view.toggle(|show| &mut show.noise);
        assert_eq!((view.len(), view.folded(5), first(&view)), (60, None, "step 2"), "the position is kept");
        view.toggle(|show| &mut show.noise);
        view.toggle(|show| &mut show.raw);
        assert_eq!((view.len(), view.wraps()), (60, true));
        view.set_filter(super::super::line_filter::Filter::parse("registered").unwrap());
        view.toggle(|show| &mut show.raw);
        assert_eq!((view.len(), view.folded(0)), (4, None), "a filter determines the shown lines");
    }

    #[test]
    fn progress_is_shown_unless_turned_off() {
        let mut view = view(3);
        assert!(view.progress().is_none());
        lines(&mut view, vec!["Progress on:train 7it/9it rate:1.0it/s remaining:00:02".into()]);
        assert_eq!(view.progress().unwrap().1.last().unwrap().step, Some(7));
        view.toggle(|show| &mut show.progress);
        assert!(view.progress().is_none());
    }

    #[test]
    fn stopped_progress_shows_its_age() {
        let seconds = |n: u64| NOW.plus(Duration::from_secs(n));
        let step = |n: u64| {
            let time = jiff::Timestamp::from_millisecond(seconds(n * 4).as_millis()).unwrap();
            let bar = format!("Progress on:train {n}it/900it rate:4.0s/it remaining:1:00:00");
            Line::from(format!("{} - {bar}", time.strftime("%F %T,000")))
        };
        let mut view = view(0);
        lines(&mut view, (0..10).map(step).collect());
        assert_eq!((view.stopped(seconds(40)), view.stopped(seconds(150))), (None, None), "slow");
        assert_eq!(view.stopped(seconds(160)), Some(Duration::from_secs(124)), "thirty steps");
        let batch = LogBatch { stream: StreamId(1), part: Vec::new().into(), end: LogEnd::Complete };
        view.take(batch, seconds(40));
        assert_eq!(
            view.stopped(seconds(40)),
            Some(Duration::from_secs(4)),
            "nothing is received after the end"
        );
    }
}
