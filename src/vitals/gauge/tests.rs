//! Runs that are healthy, failing, restarted, and hard to read.

use super::*;
use crate::model::{JobStatus, RunWarning};
use std::fmt::Write;

/// 2026-11-23 09:00 UTC.
const NOON: Timestamp = Timestamp::from_millis(1_795_424_400_000);

fn after(seconds: u64) -> Timestamp {
    NOON.plus(Duration::from_secs(seconds))
}

/// `line` as a worker writes it at that second, in a driver's log.
fn written(at: u64, line: &str) -> Line {
    let time = jiff::Timestamp::from_millisecond(after(at).as_millis()).unwrap();
    let time = time.strftime("%Y-%m-%d %H:%M:%S,000");
    Line::from(format!("(train pid=7, ip=10.0.0.1) {time} - INFO - {line}").as_str())
}

fn step(at: u64, step: u64, loss: f64) -> Line {
    written(
        at,
        &format!(
            "Progress on:train {step}it/20000it rate:2.0s/it remaining:1:00:00 elapsed:1 postfix:loss={loss:.3}"
        ),
    )
}

/// The same line, written by another process.
fn by(pid: u64, line: &Line) -> Line {
    Line::from(line.text().replace("pid=7", &format!("pid={pid}")).as_str())
}

/// A run with two seconds per step, from second 0 on.
fn steps(range: std::ops::Range<u64>) -> Vec<Line> {
    range.map(|n| step(n * 2, n, 3.0 + 6.0 / (1.0 + n as f64 / 60.0))).collect()
}

/// Four chips on a host.
fn holding() -> Holding {
    let holds = [("TPU".to_owned(), 4.0)].into();
    Holding { holds, tasks: 1, ..Holding::default() }
}

fn job() -> Job {
    Job::sample("eval-7", JobStatus::Running)
}

struct Watched {
    gauge: VitalsTracker,
    log: Vec<Line>,
}

impl Watched {
    fn new(log: Vec<Line>) -> Self {
        Self { gauge: VitalsTracker::new(VitalLimits::default(), Sampling::Often), log }
    }

    /// The vitals after another reading of the last lines at that second.
    fn poll(&mut self, at: u64) -> Vitals {
        self.poll_far(at, 200)
    }

    /// The same after a reading of that many lines.
    fn poll_far(&mut self, at: u64, lines: usize) -> Vitals {
        let clock = Clock::utc(after(at));
        let lines = &self.log[self.log.len().saturating_sub(lines)..];
        self.gauge.read(lines, None, clock);
        self.gauge.vitals(&job(), Some(&holding()), after(at))
    }
}

fn kinds(vitals: &Vitals) -> Vec<WarningKind> {
    vitals.signs.iter().map(|sign| sign.kind).collect()
}

#[test]
fn a_healthy_run_has_no_sign_for_an_hour() {
    let (all, mut watched) = (steps(0..2000), Watched::new(Vec::new()));
    for at in (30..3600).step_by(30) {
        watched.log = all[..at as usize / 2].to_vec();
        let vitals = watched.poll(at);
        let words = format!("step {}/20,000", crate::model::amount::grouped(at as usize / 2 - 1));
        assert_eq!((kinds(&vitals), vitals.text(after(at))), (vec![], words));
    }
    let vitals = watched.poll(3600);
    let run = vitals.run.as_ref().unwrap();
    assert_eq!((run.total, run.rate, run.typical_rate), (Some(20_000), Some(0.5), Some(0.5)));
    assert_eq!((vitals.chips().map(|(_, n)| n), run.losses.len()), (Some(4.0), MAX_LOSSES));
    assert!(vitals.time_left(after(3600)).is_some_and(|left| left.as_secs() > 3500));
}

#[test]
fn a_run_that_stops_is_stalled_after_a_while_and_recovers_with_the_next_step() {
    let mut watched = Watched::new(steps(0..600));
    assert_eq!(kinds(&watched.poll(1230)), []);
    assert_eq!(kinds(&watched.poll(1700)), [], "eight minutes");
    let vitals = watched.poll(1830);
    assert_eq!(kinds(&vitals), [WarningKind::Stalled]);
    assert_eq!((vitals.signs[0].since, vitals.text(after(1830))), (after(1198), "silent 10m".into()));
    assert!(vitals.signs[0].evidence.contains("at step 599/20,000, its log has no new lines"), "{vitals:?}");
    let autoscaler = "(autoscaler +20m0s) Adding 1 node(s) of type tpu_slice_v4_8.";
    watched.log.push(Line::from(autoscaler));
    let vitals = watched.poll(1860);
    let evidence = &vitals.signs[0].evidence;
    assert!(evidence.contains("its log has no new lines"), "Ray writes to it, not the run: {evidence}");
    // Its log has other new lines.
    watched.log.push(written(1880, "WARNING waited for a batch"));
    let vitals = watched.poll(1890);
    assert_eq!(
        (kinds(&vitals), vitals.text(after(1890))),
        (vec![WarningKind::Stalled], "step 599/20,000".into())
    );
    watched.log.push(step(1900, 600, 3.4));
    assert_eq!(kinds(&watched.poll(1910)), []);
}

#[test]
fn a_first_reading_for_a_screen_reports_nothing_as_stalled() {
    let mut watched = Watched::new(steps(0..600));
    assert_eq!(kinds(&watched.poll(4000)), [], "its log may have a different clock");
    assert_eq!(kinds(&watched.poll(4030)), [WarningKind::Stalled]);
    let mut once = Watched {
        gauge: VitalsTracker::new(VitalLimits::default(), Sampling::Once),
        ..Watched::new(steps(0..600))
    };
    assert_eq!(kinds(&once.poll(4000)), [WarningKind::Stalled], "a command reads only once");
    // A time zone that is wrong by an hour: new lines seem to be an hour old, but the run is not stalled.
    let mut watched = Watched::new(Vec::new());
    for at in (30..1200).step_by(30) {
        watched.log = steps(0..at / 2);
        assert_eq!(kinds(&watched.poll(3600 + at)), [], "{at}");
    }
}

#[test]
fn a_run_is_not_stalled_by_lines_older_than_its_job() {
    let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Once);
    let began = 3 * 86_400;
    let poll = |gauge: &mut VitalsTracker, started| {
        gauge.read(&steps(0..600), None, Clock::utc(after(began + 46)));
        gauge.vitals(&Job { started, ..job() }, Some(&holding()), after(began + 46))
    };
    let vitals = poll(&mut gauge, Some(after(began)));
    assert_eq!((kinds(&vitals), vitals.logged), (vec![], None), "it has run for 46 s");
    let vitals = poll(&mut gauge, Some(after(0)));
    assert_eq!(kinds(&vitals), [WarningKind::Stalled], "its own lines, three days old");
}

#[test]
fn runs_with_earlier_pauses_finished_runs_and_runs_without_limits_are_not_stalled() {
    let paused = |n: u64| step(n * 2 + n / 100 * 500, n, 3.0);
    let mut watched = Watched::new((0..600).map(paused).collect());
    let last = 599 * 2 + 5 * 500;
    watched.poll(last);
    assert_eq!(kinds(&watched.poll(last + 1200)), [], "an evaluation takes that long");
    assert_eq!(kinds(&watched.poll(last + 1600)), [WarningKind::Stalled]);
    let mut done = Watched::new((19_500..20_000).map(|n| step(n - 19_500, n, 3.0)).collect());
    done.poll(600);
    assert_eq!(kinds(&done.poll(9000)), [], "it has made its last step");
    let mut off = Watched::new(steps(0..600));
    off.gauge.limits.stalled = Duration::ZERO;
    off.poll(1300);
    assert_eq!(kinds(&off.poll(9000)), []);
}

#[test]
fn slow_and_diverging_runs_are_reported_with_their_figures() {
    let slow = |n: u64| step(if n < 900 { n * 2 } else { 1800 + (n - 900) * 8 / 3 }, n, 3.0);
    let mut watched = Watched::new(Vec::new());
    let mut last = Vec::new();
    for n in (100..1400).step_by(20) {
        watched.log = (0..n).map(slow).collect();
        let at = if n < 900 { n * 2 } else { 1800 + (n - 900) * 8 / 3 };
        last = watched.poll(at).signs;
    }
    assert_eq!((last[0].kind, last.len()), (WarningKind::Slowed, 1));
    assert!(last[0].evidence.contains("25% slower"), "{last:?}");
    assert!(last[0].since.age(after(1800)).max(after(1800).age(last[0].since)) < Duration::from_secs(90));
    let risen = |n: u64| step(n * 2, n, if n < 500 { 3.0 } else { 6.0 });
    let mut watched = Watched::new((0..520).map(risen).collect());
    let signs = watched.poll(1040).signs;
    assert_eq!((signs[0].kind, signs[0].since), (WarningKind::Diverging, after(1000)));
    assert_eq!(signs[0].evidence, "loss 6.000, was 3.000 until step 500");
    let none = |n: u64| step(n * 2, n, if n < 500 { 3.0 } else { f64::NAN });
    let mut watched = Watched::new((0..520).map(none).collect());
    let vitals = watched.poll(1040);
    assert_eq!((kinds(&vitals), vitals.signs[0].since), (vec![WarningKind::NotFinite], after(1000)));
    assert!(vitals.run.unwrap().losses.iter().all(|loss| loss.is_finite()));
}

#[test]
fn a_second_run_in_a_log_and_a_lower_step_reset_the_history() {
    let mut log = steps(0..400);
    // The second run is slower, and its loss is higher: it is not compared with the first.
    log.extend((100..400).map(|n| step(800 + (n - 100) * 4, n, 9.0)));
    let mut watched = Watched::new(log);
    let mut once = watched.gauge.clone();
    once.read(&watched.log, None, Clock::utc(after(2000)));
    let vitals = once.vitals(&job(), Some(&holding()), after(2000));
    assert_eq!((kinds(&vitals), vitals.restarts), (vec![], 1));
    assert_eq!(vitals.run.unwrap().rate.map(|rate| (rate * 100.0).round()), Some(25.0));
    // A single line with a low step, as of another loop, is a restart and not an alarm.
    watched.log.push(step(2010, 3, 1.0));
    watched.log.push(step(2012, 400, 9.0));
    assert_eq!(kinds(&watched.poll(2020)), []);
}

#[test]
fn writers_and_tasks_are_kept_apart() {
    let mut log = Vec::new();
    for n in 0..300_u64 {
        log.push(step(n * 2, n, 3.0));
        // Another worker is a step behind, and an evaluation starts again from 0.
        log.push(by(8, &step(n * 2, n.saturating_sub(1), 3.0)));
        log.push(written(
            n * 2,
            &format!("Progress on:eval {}it/20it rate:1it/s remaining:00:10 elapsed:1", n % 20),
        ));
    }
    let mut watched = Watched::new(log);
    watched.poll(600);
    let vitals = watched.poll(630);
    assert_eq!(
        (kinds(&vitals), vitals.restarts, vitals.text(after(630))),
        (vec![], 0, "step 299/20,000".into())
    );
}

#[test]
fn a_retry_is_the_run_although_the_attempt_before_has_more_lines() {
    let failing = |n: u64| if n < 1490 { 3.0 } else { f64::NAN };
    let mut watched = Watched::new((0..1500).map(|n| step(n * 2, n, failing(n))).collect());
    assert_eq!(kinds(&watched.poll_far(3000, 1000)), [WarningKind::NotFinite]);
    // Ray starts its task again, in another process, ten minutes later.
    let again = |n: u64| by(8, &step(3600 + (n - 1400) * 2, n, 3.0));
    watched.log.extend((1400..1405).map(again));
    let vitals = watched.poll(3610);
    assert_eq!((kinds(&vitals), vitals.text(after(3610))), (vec![], "step 1,404/20,000".into()));
    // A single reading of both attempts, with and without timestamps.
    let once = |log: &[Line], at: u64| {
        let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Once);
        gauge.read(log, None, Clock::utc(after(at)));
        let vitals = gauge.vitals(&job(), Some(&holding()), after(at));
        (kinds(&vitals), vitals.text(after(at)))
    };
    assert_eq!(once(&watched.log, 3610), (vec![], "step 1,404/20,000".into()));
    let untimed = |pid: u64, n: u64, loss: f64| {
        Line::from(format!("(train pid={pid}, ip=10.0.0.1) step {n}/9000 loss={loss}").as_str())
    };
    let dead = (0..1500).map(|n| untimed(7, n, failing(n)));
    let both: Vec<Line> = dead.chain((1000..1400).map(|n| untimed(8, n, 3.0))).collect();
    assert_eq!(once(&both, 0), (vec![], "step 1,399/9,000".into()));
}

#[test]
fn a_retry_that_hangs_after_a_few_steps_is_stalled() {
    let mut watched = Watched::new(steps(0..600));
    watched.poll(1200);
    watched.log.extend((590..593).map(|n| by(8, &step(1800 + (n - 590) * 2, n, 3.0))));
    let vitals = watched.poll(1810);
    assert_eq!((kinds(&vitals), vitals.text(after(1810))), (vec![], "step 592/20,000".into()));
    assert_eq!(kinds(&watched.poll(2370)), [], "nine minutes");
    let vitals = watched.poll(2430);
    assert_eq!(kinds(&vitals), [WarningKind::Stalled]);
    assert!(vitals.signs[0].evidence.contains("at step 592/20,000"), "{vitals:?}");
    // A retry that only had a few steps left is done.
    watched.log.extend((19_997..20_000).map(|n| by(9, &step(3000 + n - 19_997, n, 3.0))));
    watched.poll(3010);
    assert_eq!(kinds(&watched.poll(9000)), []);
}

#[test]
fn a_run_is_not_replaced_because_one_reading_skipped_its_lines() {
    // Two workers, of which one is ahead and writes more. A reading every ten minutes brings 100 lines.
    let ahead = |n: u64| step(n * 2, n, 3.0);
    let behind = |n: u64| by(8, &step(n * 2, n / 4, 3.0));
    let lines = |n: u64| [Some(ahead(n)), n.is_multiple_of(4).then(|| behind(n))].into_iter().flatten();
    let mut watched = Watched::new((0..800).flat_map(lines).collect());
    let words = |vitals: &Vitals, at: u64| vitals.text(after(at));
    assert_eq!(words(&watched.poll_far(1600, 1000), 1600), "step 799/20,000");
    watched.log.extend((800..1100).map(behind));
    assert_eq!(
        words(&watched.poll_far(2200, 100), 2200),
        "step 799/20,000",
        "its lines may have been skipped"
    );
    watched.log.extend((1100..1400).map(behind));
    assert_eq!(words(&watched.poll_far(2800, 100), 2800), "step 349/20,000", "two readings had none of them");
}

/// A bar of `datasets`, written until shortly before its end.
fn unfinished_map() -> Vec<Line> {
    let bar = |n: u64| {
        let bar = format!("Map:  97%|#########7| {}/1000000 [10:00<00:18, 1600.00 examples/s]", n * 1000);
        Line::from(format!("(train pid=7, ip=10.0.0.1) {bar}").as_str())
    };
    (1..=970).map(bar).collect()
}

#[test]
fn a_bar_that_was_given_up_does_not_stay_the_run() {
    let mut watched = Watched::new(unfinished_map());
    assert_eq!(watched.poll_far(30, 1000).text(after(30)), "step 970,000/1,000,000");
    watched.log.extend((0..300).map(|n| step(60 + n * 2, n, 3.0)));
    assert_eq!(watched.poll_far(660, 1300).text(after(660)), "step 299/20,000");
}

#[test]
fn a_run_that_rarely_logs_is_not_compared_with_another_task() {
    let mut watched = Watched::new(unfinished_map());
    watched.poll_far(30, 1000);
    for (n, at) in [60, 900].into_iter().enumerate() {
        watched.log.push(step(at, n as u64 * 400, 3.0));
        watched.poll_far(at + 10, 1300);
    }
    let vitals = watched.poll_far(1700, 1300);
    assert_eq!((kinds(&vitals), vitals.text(after(1700))), (vec![], "step 400/20,000".into()));
}

#[test]
fn a_single_reading_with_samples_of_the_past_shows_the_retry() {
    let dead = (0..18_000).map(|n| step(n, n, 3.0));
    let retry = (0..210).map(|n| by(8, &step(18_600 + n * 2, 17_000 + n, 3.0)));
    let log: Vec<Line> = dead.chain(retry).collect();
    let (last, clock) = (&log[log.len() - 200..], Clock::utc(after(19_020)));
    let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Once);
    gauge.past(&samples(&log), last, clock);
    gauge.read(last, None, clock);
    let vitals = gauge.vitals(&job(), Some(&holding()), after(19_020));
    assert_eq!(vitals.text(after(19_020)), "step 17,209/20,000");
}

#[test]
fn the_bar_of_an_epoch_replaces_that_of_the_previous_one_whose_end_was_not_read() {
    let bar = |n: u64| {
        let (epoch, step) = (n / 960, n % 960 + 1);
        let bar = format!("Epoch {epoch}:  45%|####5     | {step}/1000 [00:10<00:12,  2.00s/it, loss=2.3]");
        Line::from(format!("(train pid=7, ip=10.0.0.1) {bar}").as_str())
    };
    let (mut watched, mut words) = (Watched::new(Vec::new()), String::new());
    for at in (30..=2310).step_by(30) {
        watched.log = (0..at / 2).map(bar).collect();
        words = watched.poll(at).text(after(at));
    }
    assert_eq!(words, "step 195/1,000");
}

#[test]
fn a_hang_is_found_although_the_bar_of_the_previous_epoch_is_complete() {
    let bar = |n: u64| {
        let (epoch, step) = (n / 100, n % 100 + 1);
        let bar = format!("Epoch {epoch}:  45%|####5     | {step}/100 [00:10<00:12,  2.00s/it, loss=2.3]");
        Line::from(format!("(train pid=7, ip=10.0.0.1) {bar}").as_str())
    };
    let mut watched = Watched::new(Vec::new());
    for at in (30..=1110).step_by(30) {
        watched.log = (0..at / 2).map(bar).collect();
        assert_eq!(kinds(&watched.poll(at)), [], "{at}");
    }
    assert_eq!(kinds(&watched.poll(1680)), [], "nine minutes");
    let vitals = watched.poll(1740);
    assert_eq!(kinds(&vitals), [WarningKind::Stalled]);
    assert!(vitals.signs[0].evidence.contains("at step 55/100"), "{vitals:?}");
}

/// A line of the bar of an epoch of 100 steps, which begin at 1; with or without the number of the epoch.
fn epoch_bar(n: u64, is_named: bool) -> Line {
    let name = if is_named { format!("Epoch {}: ", n / 100) } else { String::new() };
    let bar = format!("{name} 45%|####5     | {}/100 [00:10<00:12,  2.00s/it, loss=2.3]", n % 100 + 1);
    Line::from(format!("(train pid=7, ip=10.0.0.1) {bar}").as_str())
}

#[test]
fn a_hang_in_the_first_lines_of_an_epoch_is_found() {
    for is_named in [true, false] {
        let mut watched = Watched::new(Vec::new());
        for at in (30..=390).step_by(30) {
            watched.log = (0..at / 2).map(|n| epoch_bar(n, is_named)).collect();
            assert_eq!(kinds(&watched.poll(at)), [], "{at}");
        }
        watched.log = (0..203).map(|n| epoch_bar(n, is_named)).collect();
        assert_eq!(kinds(&watched.poll(410)), []);
        assert_eq!(kinds(&watched.poll(980)), [], "nine minutes");
        let vitals = watched.poll(1040);
        assert_eq!(kinds(&vitals), [WarningKind::Stalled], "named: {is_named}");
        assert!(vitals.signs[0].evidence.contains("at step 3/100"), "{vitals:?}");
    }
}

#[test]
fn an_epoch_that_begins_with_a_long_pause_is_not_stalled() {
    for is_named in [true, false] {
        // Loading the data takes 12 minutes after the first step of each epoch.
        let time = |n: u64| n * 2 + n.div_ceil(100) * 720;
        let (mut watched, mut read) = (Watched::new(Vec::new()), 0);
        for at in (30..3600).step_by(30) {
            while time(read) <= at {
                watched.log.push(epoch_bar(read, is_named));
                read += 1;
            }
            assert_eq!(kinds(&watched.poll(at)), [], "at {at}, named: {is_named}");
        }
        assert!(read > 300, "{read}");
        // The epoch before was not read from its beginning: nothing is known about such a pause.
        let mut watched = Watched::new(Vec::new());
        watched.poll(0);
        watched.log = (50..102).map(|n| epoch_bar(n, is_named)).collect();
        watched.poll(30);
        assert_eq!(kinds(&watched.poll(720)), [], "named: {is_named}");
    }
}

#[test]
fn a_run_that_waits_again_has_no_current_figures() {
    let mut log = steps(0..600);
    log.push(written(1200, "Saved checkpoint at step 599 to gs://b/step-599"));
    let mut watched = Watched::new(log);
    let run = watched.poll(1210).run.unwrap();
    assert!(run.step == Some(599) && run.rate.is_some() && run.checkpoint.is_some(), "{run:?}");
    let wait = Wait { shape: vec![("TPU-v4-256-head".into(), 1.0)], count: 1, since: Some(after(1220)) };
    let waits = Holding { waits: vec![wait], ..Holding::default() };
    watched.gauge.read(&watched.log, None, Clock::utc(after(1240)));
    let vitals = watched.gauge.vitals(&job(), Some(&waits), after(1240));
    assert_eq!((vitals.label(), vitals.time_left(after(1240))), ("waiting", None));
    let saved = vitals.run.as_ref().and_then(|run| run.checkpoint).and_then(|saved| saved.step);
    assert_eq!(saved, Some(599), "where it will continue");
    assert_eq!(vitals.run, Some(Run { at: run.at, checkpoint: run.checkpoint, ..Run::default() }));
    // It has its slice again, and continues.
    watched.log.push(step(1300, 600, 3.0));
    let run = watched.poll(1310).run.unwrap();
    assert_eq!((run.step, run.loss), (Some(600), Some(3.0)));
}

#[test]
fn attempts_that_ended_make_room_for_new_ones() {
    let mut watched = Watched::new(Vec::new());
    for attempt in 0..100 {
        let lines = (0..20).map(|n| by(100 + attempt, &step(attempt * 600 + n * 2, attempt * 10 + n, 3.0)));
        watched.log.extend(lines);
        let at = attempt * 600 + 40;
        let words = format!("step {}/20,000", crate::model::amount::grouped(attempt as usize * 10 + 19));
        let vitals = watched.poll(at);
        assert_eq!((kinds(&vitals), vitals.text(after(at))), (vec![], words));
    }
}

#[test]
fn more_writers_than_can_be_distinguished_do_not_replace_each_other() {
    let lines = (0..60).flat_map(|n| (0..100).map(move |worker| by(100 + worker, &step(n * 2, n, 3.0))));
    let mut watched = Watched::new(lines.collect());
    let vitals = watched.poll_far(120, 6000);
    assert_eq!((kinds(&vitals), vitals.text(after(120))), (vec![], "step 59/20,000".into()));
    assert_eq!(kinds(&watched.poll(800)), [WarningKind::Stalled]);
}

/// Adds the lines of an evaluation from this second on, with a reading every 30 seconds; the run is at this step.
fn evaluate(watched: &mut Watched, from: u64, lasts: u64, words: &str) {
    let tests = |n: u64| {
        let bar = format!("Progress on:mmlu {n}it/1000it rate:0.2it/s remaining:00:10 elapsed:1");
        written(from + n * 5, &bar)
    };
    for at in (from..from + lasts).step_by(30) {
        watched.log.extend((0..6).map(|n| tests((at - from) / 5 + n)));
        let vitals = watched.poll(at + 30);
        assert_eq!((kinds(&vitals), vitals.text(after(at + 30))), (vec![], words.to_owned()));
    }
}

#[test]
fn an_evaluation_of_several_minutes_does_not_replace_the_run() {
    let mut watched = Watched::new(steps(0..600));
    watched.poll(1200);
    evaluate(&mut watched, 1200, 240, "step 599/20,000");
    watched.log.extend((600..660).map(|n| step(1440 + (n - 600) * 2, n, 3.0)));
    watched.poll(1560);
    evaluate(&mut watched, 1560, 420, "step 659/20,000");
}

#[test]
fn a_first_evaluation_of_seven_minutes_does_not_replace_the_run() {
    let mut watched = Watched::new(steps(0..600));
    watched.poll(1200);
    evaluate(&mut watched, 1200, 420, "step 599/20,000");
    let gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Once);
    let mut once = Watched { gauge, log: watched.log };
    let vitals = once.poll_far(1620, 1000);
    assert_eq!((kinds(&vitals), vitals.text(after(1620))), (vec![], "step 599/20,000".into()));
}

#[test]
fn a_bar_without_a_name_and_with_another_total_is_another_task() {
    // Hugging Face: a bar for training, one for each evaluation, and lines with nothing but the loss.
    let bar = |n: u64, total: u64| {
        Line::from(format!("  5%|5         | {n}/{total} [10:00<3:00:00,  1.00it/s]").as_str())
    };
    let loss = "{'loss': 2.5, 'grad_norm': 0.5, 'learning_rate': 3e-05, 'epoch': 0.31}";
    let (mut watched, mut at) = (Watched::new(Vec::new()), 0);
    let mut last = None;
    for round in 0..3 {
        let steps = (1..=100).map(|n| bar(round * 100 + n, 10_000));
        let tests = (1..=50).map(|n| bar(n, 50));
        let lines: Vec<Line> = steps.chain([Line::from(loss)]).chain(tests).collect();
        for part in lines.chunks(10) {
            at += 30;
            watched.log.extend_from_slice(part);
            let vitals = watched.poll(at);
            assert_eq!((kinds(&vitals), vitals.restarts), (vec![], 0), "{at}");
            last = vitals.run;
        }
    }
    let run = last.unwrap();
    assert_eq!((run.step, run.total, run.loss), (Some(300), Some(10_000), Some(2.5)));
    // It hangs after the evaluation, whose bar is complete.
    assert_eq!(kinds(&watched.poll(at + 570)), []);
    let vitals = watched.poll(at + 630);
    assert_eq!(kinds(&vitals), [WarningKind::Stalled]);
    assert!(vitals.signs[0].evidence.contains("at step 300/10,000"), "{vitals:?}");
}

#[test]
fn a_clock_that_was_set_back_does_not_delay_a_warning() {
    let mut watched = Watched::new(steps(0..2400));
    watched.poll(4770);
    watched.poll(4800);
    for at in (1200..1800).step_by(30) {
        assert_eq!(kinds(&watched.poll(at)), [], "{at}");
    }
    assert_eq!(kinds(&watched.poll(1800)), [WarningKind::Stalled]);
}

#[test]
fn checkpoints_are_late_compared_with_earlier_ones_while_steps_are_completed() {
    checkpoints_are_late(None);
}

#[test]
fn checkpoints_are_late_also_in_a_log_that_begins_with_a_line_without_a_timestamp() {
    checkpoints_are_late(Some("Connected to Ray cluster."));
}

/// Follows a run with three checkpoints, whose log begins with this line.
fn checkpoints_are_late(first: Option<&str>) {
    let saved = |n: u64| written(n * 2, &format!("Saved checkpoint at step {n} to gs://b/step-{n}"));
    let mut watched = Watched::new(Vec::new());
    let mut kinds_at = |until: u64| {
        watched.log = first.map(Line::from).into_iter().collect();
        for n in 0..until / 2 {
            watched.log.push(step(n * 2, n, 3.0));
            if n > 0 && n % 300 == 0 && n <= 900 {
                watched.log.push(saved(n));
            }
        }
        let vitals = watched.poll(until);
        (kinds(&vitals), vitals.run.and_then(|run| run.checkpoint).and_then(|c| c.step))
    };
    for until in (60..5300).step_by(60) {
        let (kinds, step) = kinds_at(until);
        assert_eq!(
            (kinds, step),
            (vec![], Some(900.min((until / 2 - 1) / 300 * 300)).filter(|n| *n > 0)),
            "{until}"
        );
    }
    for until in (5300..5460).step_by(60) {
        kinds_at(until);
    }
    assert_eq!(kinds_at(5460), (vec![WarningKind::CheckpointOverdue], Some(900)), "an hour after the last");
}

#[test]
fn the_activity_of_a_job_without_steps_comes_from_ray_and_its_phases() {
    let wait = Wait { shape: vec![("TPU-v4-256-head".into(), 1.0)], count: 1, since: Some(after(0)) };
    let of = |holding: Holding, log: &[Line], at: u64| {
        let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Often);
        gauge.read(log, None, Clock::utc(after(at)));
        let vitals = gauge.vitals(&job(), Some(&holding), after(at));
        (vitals.text(after(at)), kinds(&vitals))
    };
    let cpu = Holding { holds: [("CPU".to_owned(), 1.0)].into(), actors: 1, ..Holding::default() };
    let waits = Holding { waits: vec![wait], ..cpu.clone() };
    assert_eq!(of(waits.clone(), &[], 720), ("waits for v4-256, 12m".into(), vec![]));
    assert_eq!(of(waits, &[], 1860), ("waits for v4-256, 31m".into(), vec![WarningKind::PendingTooLong]));
    assert_eq!(of(Holding::default(), &[], 60).0, "driver only, 0s");
    assert_eq!(of(cpu, &[], 60).0, "1 actor");
    let first =
        written(100, "First batch loaded in 2.1s, starting first train step (includes JIT compilation)...");
    assert_eq!(of(holding(), &[first, written(110, "Lowered train_step in 9.0s")], 350).0, "compiling 4m");
}

#[test]
fn extreme_figures_are_displayed_and_raise_no_other_alarm() {
    let line = |n: u64, words: &str| written(n * 2, words);
    let odd = [
        "step 18446744073709551615/18446744073709551615 loss=1e999 rate:1e999it/s",
        "step 99999999999999999999999/1 loss=-inf",
        "Progress on:train infit/nanit rate:nan remaining:99999999999:00:00 postfix:loss=inf",
        "step=-5 loss=NaN lr=1e-999 tokens/s=1e400",
        "Saved checkpoint at step 99999999999999999999 to gs://b in 1e999s",
    ];
    let log: Vec<Line> = (0..200).map(|n| line(n, odd[n as usize % odd.len()])).collect();
    let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Once);
    gauge.read(&log, None, Clock::utc(after(400)));
    let huge = Holding {
        holds: [("TPU".to_owned(), f64::INFINITY), ("GPU".to_owned(), f64::NAN)].into(),
        tasks: u64::MAX,
        restarts: u64::MAX,
        waits: vec![Wait { shape: vec![("TPU".into(), f64::INFINITY)], count: u64::MAX, since: None }],
        ..Holding::default()
    };
    gauge.measured(Some(f64::INFINITY), Some(f64::NAN), after(400));
    let vitals = gauge.vitals(&job(), Some(&huge), after(400));
    assert!(!vitals.text(after(400)).is_empty());
    assert!(kinds(&vitals).iter().all(|kind| *kind == WarningKind::NotFinite), "{:?}", vitals.signs);
    let run = vitals.run.expect("its lines have steps");
    assert!(run.losses.iter().all(|loss| loss.is_finite()), "{:?}", run.losses);
    assert!(run.rate.is_none_or(f64::is_finite), "{:?}", run.rate);
}

#[test]
fn a_driver_is_alone_only_after_it_had_workers() {
    let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Often);
    let mut poll = |holding: &Holding, at| kinds(&gauge.vitals(&job(), Some(holding), after(at)));
    let alone = Holding::default();
    assert_eq!((poll(&alone, 0), poll(&alone, 9000)), (vec![], vec![]), "it never had any");
    assert_eq!(poll(&holding(), 9100), []);
    assert_eq!((poll(&alone, 9200), poll(&alone, 9800)), (vec![], vec![]));
    assert_eq!(poll(&alone, 10_200), [WarningKind::DriverAlone]);
    assert_eq!(poll(&holding(), 10_300), []);
}

#[test]
fn chips_are_idle_only_when_machines_and_log_are_quiet_for_long() {
    let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Often);
    let mut poll = |cpu: f64, at| {
        gauge.measured(None, Some(cpu), after(at));
        kinds(&gauge.vitals(&job(), Some(&holding()), after(at)))
    };
    assert_eq!((poll(1.0, 0), poll(1.0, 300), poll(40.0, 600)), (vec![], vec![], vec![]));
    assert_eq!((poll(0.5, 700), poll(0.5, 1200)), (vec![], vec![]));
    assert_eq!(poll(0.5, 1700), [], "its log was not read yet");
    gauge.read(&[], None, Clock::utc(after(1800)));
    let mut poll = |cpu: f64, at| {
        gauge.measured(None, Some(cpu), after(at));
        kinds(&gauge.vitals(&job(), Some(&holding()), after(at)))
    };
    assert_eq!(poll(0.5, 1800), [WarningKind::ChipsIdle]);
    assert_eq!(poll(60.0, 1900), []);
}

#[test]
fn a_step_ends_the_time_for_which_chips_were_idle() {
    let mut watched = Watched::new(Vec::new());
    let sample = |watched: &mut Watched, at: u64| {
        watched.gauge.measured(Some(0.0), None, after(at));
        let signs = watched.poll(at).signs;
        signs.iter().find(|sign| sign.kind == WarningKind::ChipsIdle).map(|sign| sign.since)
    };
    // While it loads its data.
    assert_eq!([0, 300, 600].map(|at| sample(&mut watched, at)), [None; 3]);
    // While it makes steps, its machines are not sampled.
    watched.log = steps(350..5000);
    watched.poll(10_000);
    assert_eq!([10_300, 10_600, 10_900].map(|at| sample(&mut watched, at)), [None; 3]);
    assert_eq!(sample(&mut watched, 11_200), Some(after(10_300)));
}

#[test]
fn a_bar_that_overwrites_itself_is_read_each_time() {
    let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Often);
    let mut words = String::new();
    for n in 0..40_u64 {
        let mut bar = String::new();
        write!(bar, "train:  45%|####5     | {n}/100 [00:10<00:12,  4.5it/s, loss=2.3]").unwrap();
        let at = after(n * 30);
        gauge.read(&[], Some(&Line::from(bar.as_str())), Clock::utc(at));
        let vitals = gauge.vitals(&job(), Some(&holding()), at);
        assert_eq!(kinds(&vitals), []);
        words = vitals.text(at);
    }
    assert_eq!(words, "step 39/100");
}

#[test]
fn truncated_lists_and_a_log_without_times_prove_nothing() {
    let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Often);
    let lines: Vec<Line> = (0..50).map(|n| Line::from(format!("step {n}/900 loss 2.0").as_str())).collect();
    for at in [0, 60, 500] {
        gauge.read(&lines, None, Clock::utc(after(at)));
        let vitals = gauge.vitals(&job(), Some(&holding()), after(at));
        assert_eq!((kinds(&vitals), vitals.text(after(at))), (vec![], "step 49/900".into()));
    }
    let vitals = gauge.vitals(&job(), None, after(9000));
    assert_eq!((vitals.holds, vitals.nodes.len()), (None, 0));
    gauge.read(&lines, None, Clock::utc(after(9000)));
    let vitals = gauge.vitals(&job(), Some(&holding()), after(9000));
    assert_eq!(kinds(&vitals), [WarningKind::Stalled], "by our own clock");
}

#[test]
fn lines_without_timestamps_are_not_as_old_as_the_line_above_them() {
    let mut watched = Watched::new(vec![written(0, "Connected to Ray cluster.")]);
    for at in (30..3600).step_by(30) {
        watched
            .log
            .push(Line::from(format!("completed step: {}, seconds: 30.0, loss: 3.0", at / 30).as_str()));
        assert_eq!(kinds(&watched.poll(at)), [], "{at}");
    }
    assert_eq!(kinds(&watched.poll(4100)), [], "nine minutes");
    assert_eq!(kinds(&watched.poll(4200)), [WarningKind::Stalled]);
    let mut once = Watched {
        gauge: VitalsTracker::new(VitalLimits::default(), Sampling::Once),
        ..Watched::new(watched.log)
    };
    assert_eq!(kinds(&once.poll(4200)), [], "one reading is not enough");
}

#[test]
fn a_log_that_was_not_read_again_is_not_silent() {
    let mut watched = Watched::new(steps(0..600));
    watched.poll(1200);
    let ask = |watched: &mut Watched, at: u64| watched.gauge.vitals(&job(), Some(&holding()), after(at));
    // Only other runs were read for half an hour.
    let vitals = ask(&mut watched, 3000);
    assert_eq!((kinds(&vitals), vitals.activity.clone()), (vec![], JobActivity::Training));
    assert_eq!(
        (vitals.log, vitals.text(after(3000))),
        (LogRead::At(after(1200)), "step 599, 30m ago".into())
    );
    watched.log = steps(0..1500);
    assert_eq!((kinds(&watched.poll(3010)), ask(&mut watched, 3010).log), (vec![], LogRead::At(after(3010))));
    // The run has stopped since then, as the next reading shows.
    assert_eq!(kinds(&ask(&mut watched, 9000)), []);
    assert_eq!(kinds(&watched.poll(9000)), [WarningKind::Stalled]);
}

#[test]
fn a_run_whose_steps_are_among_lines_that_were_not_read_is_not_stalled() {
    // Five lines per second, and from the tenth minute until the fourth hour a step every two minutes.
    let line = |n: u64| match (n / 5, n % 5) {
        (at, 0) if at < 600 && at % 2 == 0 => step(at, at / 2, 3.0),
        (at, 0) if at < 14_400 && at % 120 == 60 => step(at, 300 + at / 120, 3.0),
        (at, _) => written(at, &format!("fetched shard {n}")),
    };
    let ending = |at: u64| ((at * 5).saturating_sub(1000)..at * 5).map(line).collect::<Vec<_>>();
    let mut watched = Watched::new(ending(590));
    watched.poll_far(590, 1000);
    for at in (720..7200).step_by(120) {
        watched.log = ending(at);
        let vitals = watched.poll(at);
        assert_eq!(
            (kinds(&vitals), vitals.activity),
            (vec![], JobActivity::Training),
            "at {at}: no step is among the last lines"
        );
    }
    assert!(watched.gauge.is_chatty(), "so that more of them are read");
    let mut found = Vec::new();
    for at in (7200..18_000).step_by(120) {
        watched.log = ending(at);
        found.extend(kinds(&watched.poll_far(at, 1000)).into_iter().map(|kind| (kind, at)));
    }
    assert_eq!(found.first(), Some(&(WarningKind::Stalled, 15_000)), "the last step was at 14,340");
}

#[test]
fn a_log_that_was_not_read_yet_is_reported_as_such() {
    let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Often);
    let vitals = gauge.vitals(&job(), Some(&holding()), after(0));
    assert_eq!((vitals.log, vitals.text(after(0))), (LogRead::Unread, "1 task, log not read yet".into()));
    let by_hand = Job { key: crate::model::JobKey::Driver(crate::model::JobId("0a000000".into())), ..job() };
    assert_eq!(gauge.vitals(&by_hand, Some(&holding()), after(0)).text(after(0)), "1 task");
}

#[test]
fn a_run_of_long_steps_is_not_stalled_by_two_readings_of_a_line_with_another_clock() {
    // Its clock is an hour behind, and a step takes 40 seconds.
    let slow: Vec<Line> = (0..60).map(|n| step(n * 40, n, 3.0)).collect();
    let mut watched = Watched::new(slow.clone());
    let hour = 3600 + 59 * 40;
    watched.poll(hour + 5);
    assert!(watched.gauge.is_doubtful());
    assert_eq!(kinds(&watched.poll(hour + 15)), [], "a step takes longer than that");
    watched.log.push(step(60 * 40, 60, 3.0));
    assert_eq!(kinds(&watched.poll(hour + 50)), [], "it has a new line");
}

/// Samples of 40 lines from 24 positions of a log.
fn samples(log: &[Line]) -> Vec<Vec<Line>> {
    (0..24).map(|n| log[log.len() / 24 * n..].iter().take(40).cloned().collect()).collect()
}

/// The signs of a run after the first two readings of its last lines, with samples of its past.
fn found_late(log: &[Line], at: u64) -> Vec<RunWarning> {
    let mut gauge = VitalsTracker::new(VitalLimits::default(), Sampling::Often);
    let clock = |at| Clock { near: after(at), utc_offset: 0 };
    let last = &log[log.len().saturating_sub(1000)..];
    gauge.past(&samples(log), last, clock(at));
    gauge.read(last, None, clock(at));
    gauge.read(last, None, clock(at + 30));
    gauge.vitals(&job(), Some(&holding()), after(at + 30)).signs
}

#[test]
fn earlier_events_are_found_in_the_past_of_the_log() {
    // Seven hours, of which the last two are slower by a quarter.
    let time = |n: u64| if n < 18_000 { n } else { 18_000 + (n - 18_000) * 4 / 3 };
    let slow: Vec<Line> = (0..23_400).map(|n| step(time(n), n, 3.0)).collect();
    let signs = found_late(&slow, time(23_400));
    assert_eq!((signs.len(), signs[0].kind), (1, WarningKind::Slowed), "{signs:?}");
    let late = after(18_000).age(signs[0].since).max(signs[0].since.age(after(18_000)));
    assert!(late < Duration::from_secs(1200), "as exact as the distance between samples: {signs:?}");
    let risen = |n: u64| if n < 18_000 { 3.0 } else { 3.0 + (n - 18_000) as f64 / 1500.0 };
    let diverging: Vec<Line> = (0..23_400).map(|n| step(n, n, risen(n))).collect();
    let signs = found_late(&diverging, 23_400);
    assert_eq!((signs.len(), signs[0].kind), (1, WarningKind::Diverging), "{signs:?}");
}

#[test]
fn the_past_of_a_healthy_run_raises_no_sign() {
    let falling = |n: u64| 2.0 + 8.0 / (1.0 + n as f64 / 900.0);
    let steady: Vec<Line> = (0..23_400).map(|n| step(n, n, falling(n))).collect();
    assert_eq!(found_late(&steady, 23_400), []);
    // An evaluation of two minutes every half hour.
    let time = |n: u64| n + n / 1800 * 120;
    let pausing: Vec<Line> = (0..23_400).map(|n| step(time(n), n, falling(n))).collect();
    assert_eq!(found_late(&pausing, time(23_400)), []);
    // It was restarted from a checkpoint, on fewer chips: the steps of the earlier run are not compared with those of
    // this one.
    let first = (0..9000).map(|n| step(n, n, falling(n)));
    let again = (5000..12_000).map(|n| step(9000 + (n - 5000) * 2, n, falling(n)));
    let restarted: Vec<Line> = first.chain(again).collect();
    assert_eq!(found_late(&restarted, 9000 + 14_000), []);
    // Clocks that go back, and samples without times.
    let mixed: Vec<Line> = (0..9000).map(|n| step(if n < 3000 { 9000 - n } else { n }, n, 3.0)).collect();
    assert_eq!(found_late(&mixed, 9000), []);
    let untimed: Vec<Line> = (0..9000).map(|n| Line::from(format!("step {n} loss=3.0").as_str())).collect();
    assert_eq!(found_late(&untimed, 9000), []);
}
