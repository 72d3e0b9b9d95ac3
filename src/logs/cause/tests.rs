//! Tests of the first cause of a failure, on lines of real logs.

use super::*;
use proptest::prelude::*;

fn at(seconds: f64) -> Timestamp {
    // Not a whole second, which counts as less exact.
    Timestamp::from_millis(1_795_424_400_007 + (seconds * 1000.0).round() as i64)
}

fn causes(workers: u32) -> Causes {
    let source = |n: u32| Source {
        host: format!("host-{}", n / 8),
        name: format!("rank {n}"),
        unsure_ms: 5,
        ..Source::default()
    };
    Causes::new((0..workers).map(source).collect(), Patterns::default())
}

const TRACE: [&str; 3] =
    ["Traceback (most recent call last):", "  File \"a.py\", line 3, in f", "ValueError: bad"];
/// Ray's report of it to the driver.
const COPY: [&str; 5] = [
    TRACE[0],
    "  File \"d.py\", line 1, in g",
    "ray.exceptions.RayTaskError(ValueError): ray::f() (pid=3)",
    TRACE[1],
    TRACE[2],
];

fn push(causes: &mut Causes, source: u32, seconds: f64, lines: &[&str]) {
    for line in lines {
        causes.push(source, 0, Some(at(seconds)), line);
    }
}

/// 24 workers on three hosts are training; one raises an exception, and the others lose it.
fn story() -> Causes {
    let mut causes = causes(24);
    for n in 0..24 {
        push(
            &mut causes,
            n,
            1.0,
            &["E1123 connecting: Connection refused", "step 1 loss 2", "step 2 loss 2"],
        );
        if n == 13 {
            push(&mut causes, n, 60.0, &["2026-11-23 ERROR x step failed"]);
            push(&mut causes, n, 60.001, &TRACE);
        } else {
            push(
                &mut causes,
                n,
                61.0 + f64::from(n) / 100.0,
                &["XlaRuntimeError: UNAVAILABLE: Socket closed"],
            );
            push(&mut causes, n, 62.0, &["Fatal Python error: Aborted"]);
        }
    }
    causes
}

#[test]
fn the_worker_that_failed_first_is_named_with_what_followed() {
    let found = story().explain().unwrap();
    assert_eq!(
        (found.first.source, found.first.host.as_str(), found.first.fault),
        (Some(13), "host-1", Fault::Exception)
    );
    assert_eq!((found.first.text.as_str(), found.first.trace.len()), ("ValueError: bad", 3));
    assert_eq!(found.certainty, Certainty::Earliest);
    assert_eq!(found.ahead_of_next, Some(Duration::from_millis(1999)), "the signals");
    let followed: Vec<_> = found.followed.iter().map(|f| (f.fault, f.errors, f.hosts)).collect();
    let in_order = [(Fault::Error, 1, 1), (Fault::PeerLost, 23, 3), (Fault::Signal, 23, 3)];
    assert_eq!(followed, in_order, "as they came");
    assert_eq!((found.survived, found.silent.len()), (24, 0), "the connections before the first step");
}

#[test]
fn a_node_that_died_before_it_is_the_cause() {
    let mut causes = story();
    causes.node_died("host-2", Some(at(59.0)), "preempted");
    let found = causes.explain().unwrap();
    assert_eq!((found.first.fault, found.first.host.as_str()), (Fault::NodeDied, "host-2"));
}

#[test]
fn errors_whose_order_the_clocks_cannot_determine_are_candidates() {
    let mut causes = causes(24);
    for n in [3, 4, 13, 21] {
        let seconds = if n == 21 { 70.0 } else { 60.0 + f64::from(n) / 1000.0 };
        push(&mut causes, n, seconds, &TRACE);
    }
    let found = causes.explain().unwrap();
    assert_eq!((found.first.source, found.certainty), (Some(3), Certainty::Close));
    assert_eq!(
        found.candidates.iter().map(|e| e.source).collect::<Vec<_>>(),
        [Some(13)],
        "not of its own host"
    );
    assert_eq!(found.silent.len(), 20);
}

#[test]
fn a_clock_that_is_an_hour_off_is_corrected() {
    let mut causes = causes(16);
    causes.sources[0].ahead_ms = 3_600_000;
    push(&mut causes, 0, 3_600.0, &TRACE);
    push(&mut causes, 9, 5.0, &TRACE);
    let found = causes.explain().unwrap();
    assert_eq!(
        (found.first.source, found.first.time, found.certainty),
        (Some(0), Some(at(0.0)), Certainty::Earliest)
    );
}

#[test]
fn consequences_alone_are_not_reported_as_the_cause() {
    let mut causes = causes(16);
    push(&mut causes, 3, 1.0, &["XlaRuntimeError: UNAVAILABLE: Socket closed"]);
    push(&mut causes, 9, 2.0, &["ray.exceptions.ActorDiedError: The actor died unexpectedly"]);
    let found = causes.explain().unwrap();
    assert_eq!((found.first.source, found.certainty), (Some(3), Certainty::OnlyConsequences));
    // A worker that fails after others lost one is not the cause of that.
    push(&mut causes, 10, 5.0, &TRACE);
    let found = causes.explain().unwrap();
    assert_eq!((found.first.source, found.certainty), (Some(10), Certainty::AfterLosses));
    assert_eq!(
        found.before.iter().map(|e| e.source).collect::<Vec<_>>(),
        [Some(3)],
        "the other one is its host"
    );
}

#[test]
fn the_drivers_copy_of_a_workers_error_is_not_a_candidate() {
    let mut causes = causes(16);
    // The driver's clock is a little behind.
    push(&mut causes, 15, 0.0, &COPY);
    push(&mut causes, 0, 0.004, &TRACE);
    let found = causes.explain().unwrap();
    assert_eq!((found.first.source, found.certainty), (Some(0), Certainty::Earliest));
    assert!(found.candidates.is_empty());
}

#[test]
fn an_error_that_its_worker_survived_is_no_cause() {
    let mut causes = causes(2);
    push(&mut causes, 0, 0.0, &["ERROR cannot upload metrics"]);
    push(&mut causes, 0, 1.0, &vec!["ordinary"; WENT_ON as usize + 1]);
    assert_eq!(causes.explain(), None);
    for n in 0..100 {
        push(&mut causes, 0, f64::from(n), &["ERROR again", "CUDA out of memory"]);
    }
    let found = causes.explain().unwrap();
    assert_eq!((found.first.text.as_str(), found.survived), ("CUDA out of memory", 1), "it says more");
    assert_eq!(found.followed.iter().map(|f| f.errors).sum::<u64>(), 199);
}

/// Of two processes with two files each, the first one has survived an error: one file has it, the other one was
/// written hours later. The second process has failed.
fn processes(later: &[&str]) -> Causes {
    let mut causes = causes(4);
    let processes = [(0, "a"), (0, "a"), (1, "b"), (1, "b")];
    for (source, (process, host)) in causes.sources.iter_mut().zip(processes) {
        (source.process, source.host) = (Some(process), host.to_owned());
    }
    push(&mut causes, 0, 18_000.0, later);
    push(&mut causes, 1, 0.0, &["2026-11-23 09:00:00 ERROR wandb: upload failed"]);
    push(&mut causes, 2, 18_000.0, &["step 900 loss 2"]);
    push(&mut causes, 3, 18_001.0, &TRACE);
    causes
}

#[test]
fn an_error_is_survived_if_another_file_of_its_process_shows_that() {
    let ordinary = vec!["ordinary"; WENT_ON as usize + 1];
    for later in [&["step 900 loss 2"][..], &ordinary[..]] {
        let found = processes(later).explain().unwrap();
        assert_eq!((found.first.source, found.certainty), (Some(3), Certainty::Earliest));
        assert_eq!((found.before.len(), found.survived, found.silent), (0, 1, vec![0, 1, 2]));
    }
    // A few lines do not show it.
    let found = processes(&ordinary[1..]).explain().unwrap();
    assert_eq!((found.survived, found.silent), (0, vec![0, 2]));
}

#[test]
fn an_error_without_a_timestamp_is_not_older_than_the_lines_of_the_other_file() {
    let mut causes = causes(2);
    for source in &mut causes.sources {
        source.process = Some(0);
    }
    push(&mut causes, 0, 18_000.0, &["step 900 loss 2"]);
    // Its time is that of the line before.
    push(&mut causes, 1, 0.0, &["2026-11-23 09:00:00 WARNING slow"]);
    push(&mut causes, 1, 0.0, &TRACE);
    let found = causes.explain().unwrap();
    assert_eq!((found.first.source, found.is_outlived, found.survived), (Some(1), false, 0));
    // A later line shows when it had occurred at the latest.
    push(&mut causes, 1, 60.0, &["2026-11-23 09:01:00 WARNING retrying"]);
    assert_eq!(causes.explain(), None);
}

#[test]
fn the_last_of_many_errors_is_kept() {
    let mut causes = causes(2);
    for source in &mut causes.sources {
        source.process = Some(0);
    }
    for n in 0..100 {
        push(&mut causes, 1, f64::from(n), &["ERROR again"]);
    }
    push(&mut causes, 0, 1000.0, &["step 900 loss 2"]);
    push(&mut causes, 1, 2000.0, &TRACE);
    let found = causes.explain().unwrap();
    assert_eq!((found.first.text.as_str(), found.survived), ("ValueError: bad", 100), "also those not kept");
}

#[test]
fn an_error_after_steps_without_timestamps_is_not_as_old_as_the_last_timestamp() {
    let mut causes = causes(3);
    for source in &mut causes.sources[1..] {
        (source.process, source.host) = (Some(0), "host-1".to_owned());
    }
    push(&mut causes, 0, 18_000.0, &["step 900 loss 2"]);
    push(&mut causes, 0, 18_001.0, &["Fatal Python error: Aborted"]);
    push(&mut causes, 1, 0.0, &["2026-11-23 09:00:00 INFO started"]);
    causes.push(2, 0, None, "step 900 loss 2");
    push(&mut causes, 1, 0.0, &TRACE);
    let found = causes.explain().unwrap();
    assert_eq!((found.first.source, found.before.len()), (Some(1), 0));
    // The steps have timestamps again, and ended long before those of the other worker.
    push(&mut causes, 2, 1.0, &["step 901 loss 2"]);
    push(&mut causes, 1, 2.0, &["2026-11-23 09:00:02 INFO saving"]);
    push(&mut causes, 1, 2.0, &TRACE);
    assert_eq!(causes.explain().unwrap().first.source, Some(0));
}

#[test]
fn steps_of_a_process_that_did_not_fail_do_not_show_that_the_run_survived_a_failure() {
    let story = || {
        let mut causes = causes(24);
        for (n, source) in (0..).zip(&mut causes.sources) {
            source.process = Some(n);
        }
        causes.node_died("host-2", Some(at(0.0)), "preempted");
        push(&mut causes, 3, 0.0, &["step 7 loss 2"]);
        push(&mut causes, 12, 500.0, &["step 900 loss 2"]);
        push(&mut causes, 3, 600.0, &["Fatal Python error: Aborted"]);
        causes
    };
    let found = story().explain().unwrap();
    assert_eq!((found.first.fault, found.is_outlived), (Fault::NodeDied, false));
    let mut driven = story();
    driven.read_driver([(Some(at(500.0)), "step 900 loss 2")]);
    let found = driven.explain().unwrap();
    assert_eq!((found.first.source, found.before.len()), (Some(3), 1));
}

#[test]
fn a_failure_after_which_the_run_continued_is_not_the_cause_if_a_later_error_is() {
    let mut causes = causes(24);
    causes.node_died("host-2", Some(at(0.0)), "preempted");
    let lost = "XlaRuntimeError: UNAVAILABLE: Socket closed";
    push(&mut causes, 3, 1.0, &["step 7 loss 2", "Fatal Python error: Aborted"]);
    push(&mut causes, 12, 2.0, &["step 7 loss 2", lost]);
    let found = causes.explain().unwrap();
    assert_eq!((found.first.fault, found.is_outlived), (Fault::NodeDied, false));
    push(&mut causes, 4, 18_000.0, &["step 900 loss 2"]);
    let found = causes.explain().unwrap();
    assert_eq!((found.first.fault, found.is_outlived), (Fault::NodeDied, true));
    push(&mut causes, 4, 18_001.0, &TRACE);
    let found = causes.explain().unwrap();
    assert_eq!((found.first.source, found.certainty), (Some(4), Certainty::AfterLosses));
    let before: Vec<_> = found.before.iter().map(|e| (e.fault, &*e.host)).collect();
    assert_eq!(before, [(Fault::NodeDied, "host-2"), (Fault::Signal, "host-0")]);
    assert_eq!((found.survived, found.followed.len(), found.is_outlived), (1, 0, false), "the lost peer");
}

#[test]
fn the_exception_that_ended_the_driver_is_the_cause_however_old_it_is() {
    let story = || {
        let mut causes = causes(24);
        push(&mut causes, 3, 0.0, &TRACE);
        push(&mut causes, 9, 18_000.0, &["step 900 loss 2"]);
        push(&mut causes, 9, 18_001.0, &["*** SIGTERM received at time=1795442401 on cpu 3 ***"]);
        causes
    };
    let found = story().explain().unwrap();
    assert_eq!((found.first.source, found.before.len()), (Some(9), 1));
    let mut raised = story();
    raised.read_driver(COPY.map(|line| (None, line)));
    let found = raised.explain().unwrap();
    assert_eq!((found.first.source, found.certainty), (Some(3), Certainty::Earliest));
    let mut again = story();
    again.read_driver(COPY.map(|line| (None, line)));
    push(&mut again, 10, 18_000.5, &TRACE);
    assert_eq!(again.explain().unwrap().first.source, Some(10));
    let mut caught = story();
    let later = [(Some(at(18_000.0)), "retrying")];
    caught.read_driver(COPY.map(|line| (Some(at(1.0)), line)).into_iter().chain(later));
    assert_eq!(caught.explain().unwrap().first.source, Some(9));
}

#[test]
fn without_times_the_order_is_not_known() {
    let mut causes = causes(16);
    for n in [3, 12] {
        for line in TRACE {
            causes.push(n, 0, None, line);
        }
    }
    let found = causes.explain().unwrap();
    assert_eq!((found.certainty, found.candidates.len()), (Certainty::NoTime, 1));
    assert_eq!(Causes::new(Vec::new(), Patterns::default()).explain(), None);
}

proptest! {
    #[test]
    fn the_earliest_of_its_kind_is_found(times in prop::collection::vec(0u32..100_000, 1..24)) {
        let mut causes = causes(24);
        for (n, ms) in times.iter().enumerate() {
            push(&mut causes, n as u32, f64::from(*ms) / 1000.0, &TRACE);
        }
        let found = causes.explain().unwrap();
        let first = found.first.source.unwrap() as usize;
        prop_assert_eq!(times[first], *times.iter().min().unwrap());
        let errors: u64 = found.followed.iter().map(|f| f.errors).sum();
        prop_assert_eq!(errors as usize + found.candidates.len(), times.len() - 1);
        let is_sure = found.certainty == Certainty::Earliest;
        prop_assert_eq!(is_sure, found.candidates.is_empty());
    }
}
