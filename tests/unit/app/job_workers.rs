//! The page of a job's workers.

use super::*;
use crate::workers_reading::{reading, workers};
use marin_tui::app::WorkersView;
use marin_tui::job_workers::{
    Clocks, Findings, JobReadingCost, JobWorkers, Known, LastLines, Part, Verdict, WorkersAnswer,
    WorkersReading, causes, certainty_text, failure, fold, in_order, running, worker_of, worker_overview,
};
use marin_tui::logs::{Certainty, Clock, Fault, WorkerNote};

/// Answers the page's request.
pub(super) fn answer(app: &mut App, effects: &[Effect]) {
    let requests = effects.iter().find_map(|effect| match effect {
        Effect::JobWorkers(cluster, known, part) => Some((cluster.clone(), known.job.key.clone(), *part)),
        _ => None,
    });
    let (cluster, key, part) = requests.unwrap_or_else(|| panic!("{effects:?}"));
    let event = Ok(reading(app, part));
    let effects = app.update(Event::JobWorkers(cluster, key, part, Arc::new(event)), NOW);
    assert_eq!(effects, [], "an answer does not cause another read");
    paint(app, 120, 40);
}

fn rows(app: &App) -> &dyn Listing {
    app.listing().unwrap()
}

fn row(app: &App, position: usize) -> String {
    let cells = rows(app).cells(&app.cell_context(NOW), position);
    cells.iter().map(|cell| cell.text.trim()).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" | ")
}

fn row_here(app: &App) -> String {
    row(app, rows(app).cursor())
}

/// The page of the first running job with its overview.
fn opened() -> App {
    let mut app = shown();
    paint(&mut app, 120, 40);
    let requests = press(&mut app, "w");
    answer(&mut app, &requests);
    app
}

#[test]
fn silent_and_lagging_workers_come_first_and_the_cost_is_shown() {
    let app = opened();
    assert_eq!((app.context(), rows(&app).len()), (Context::JobWorkers, 8));
    assert!(row(&app, 0).contains("102 | 900 | 20m | silent 20m; others "), "{}", row(&app, 0));
    assert!(row(&app, 1).contains("104 | 1,000 | "), "{}", row(&app, 1));
    assert!(row(&app, 1).contains("step 1,000; others 1,200 | INFO step 1000"), "{}", row(&app, 1));
    let counts = rows(&app).counts(&app.cell_context(NOW)).text.into_owned();
    assert_eq!(
        counts,
        "8 workers: 1 silent, 1 lagging, steps 900 to 1,200 · 0s ago · 24 requests, 4.1 MB, 2.3 s"
    );
}

#[test]
fn ages_are_computed_in_the_heads_time_zone() {
    // The head's time zone is UTC+05:30, which the lines do not state.
    let app = opened();
    let clock = Clock { near: NOW, utc_offset: 19_800 };
    let job_workers = JobWorkers { clock, ..reading(&app, Part::Overview).job_workers };
    let age = |worker: usize| Duration::from_secs(if worker == 2 { 1200 } else { 60 });
    let line = |worker: usize| {
        let shows = NOW.plus(Duration::from_secs(19_800)).minus(age(worker)).as_millis();
        let shows = jiff::Timestamp::from_millisecond(shows).unwrap();
        Line::from(shows.strftime("%F %T,000 INFO loading").to_string())
    };
    let tails: Vec<LastLines> =
        (0..8).map(|worker| LastLines { worker, is_err: true, lines: vec![line(worker)] }).collect();
    let answers = worker_overview(&job_workers, &tails, NOW);
    assert_eq!((answers[0].worker, answers[0].remark), (2, WorkerNote::Silent), "{answers:?}");
    // Lines have whole seconds.
    let ages =
        answers.iter().map(|a| (a.age.unwrap().as_secs_f64() - age(a.worker as usize).as_secs_f64()).abs());
    assert!(ages.into_iter().all(|off| off < 1.0), "{answers:?}");
}

#[test]
fn silent_workers_with_the_same_age_are_in_the_order_of_their_names() {
    let mut job_workers = workers(&opened()).0;
    for (worker, host) in job_workers.workers.iter_mut().zip(["w-15", "w-13", "w-5"]) {
        host.clone_into(&mut worker.host);
    }
    let line = |worker: u64| {
        // The first three stopped a few seconds apart, in the same minute.
        let ago = Duration::from_secs(if worker < 3 { 22 * 60 + 20 - worker * 5 } else { 3 });
        let at = jiff::Timestamp::from_millisecond(NOW.minus(ago).as_millis()).unwrap();
        Line::from(at.strftime("%F %T,000 INFO loading").to_string())
    };
    let tails = (0..8).map(|worker| LastLines { worker, is_err: true, lines: vec![line(worker as u64)] });
    let answers = worker_overview(&job_workers, &tails.collect::<Vec<_>>(), NOW);
    let first: Vec<&str> =
        answers[..3].iter().map(|a| job_workers.workers[a.worker as usize].host.as_str()).collect();
    assert_eq!(first, ["w-5", "w-13", "w-15"], "{answers:?}");
    assert!(answers[..3].iter().all(|answer| answer.remark == WorkerNote::Silent), "{answers:?}");
}

#[test]
fn it_is_refreshed_while_open_at_ten_times_the_read_time() {
    let mut app = opened();
    let later = |seconds| NOW.plus(Duration::from_secs(seconds));
    assert_eq!(app.update(Event::Tick, later(22)), []);
    let again = app.update(Event::Tick, later(23));
    assert!(matches!(again.as_slice(), [Effect::JobWorkers(_, _, Part::Overview)]), "{again:?}");
    assert_eq!(app.update(Event::Tick, later(24)), [], "one read at a time");
    press(&mut app, "<esc>");
    assert_eq!(app.update(Event::Tick, later(400)), [], "the page is closed");
}

#[test]
fn a_frozen_screen_reads_nothing_and_catches_up() {
    let mut app = opened();
    press(&mut app, "Z");
    assert_eq!(app.update(Event::Tick, NOW.plus(Duration::from_secs(60))), []);
    assert_eq!(press(&mut app, "2"), [], "not even another table");
    let effects = press(&mut app, "Z");
    assert!(matches!(effects.as_slice(), [Effect::JobWorkers(_, _, Part::Lines)]), "{effects:?}");
}

#[test]
fn tables_toggle_in_place() {
    let mut app = opened();
    press(&mut app, "j");
    let requests = press(&mut app, "3");
    answer(&mut app, &requests);
    assert!(row_here(&app).contains("| 104 | INFO step 1000"), "the worker that lags: {}", row_here(&app));
    assert_eq!(press(&mut app, "2"), [], "folded lines use the lines that were already read");
    assert!(row_here(&app).contains("INFO step 1000 loss 2.8"), "{}", row_here(&app));
    press(&mut app, "1");
    assert!(row_here(&app).contains("104 | 1,000"), "{}", row_here(&app));
    press(&mut app, "<backtab>");
    assert_eq!(app.pages().job_workers[0].view, WorkersView::Cause);
}

#[test]
fn a_folded_row_names_missing_workers_and_expands_to_all_workers() {
    let mut app = opened();
    let requests = press(&mut app, "2");
    answer(&mut app, &requests);
    press(&mut app, "/step 1200<enter>");
    assert!(row_here(&app).contains("6 of 8 | not "), "{}", row_here(&app));
    assert!(row_here(&app).ends_with("▸ INFO step 1200 loss 2.0"), "{}", row_here(&app));
    press(&mut app, "<enter>");
    assert_eq!(rows(&app).len(), 9, "six wrote it, two did not");
    assert!(row(&app, 1).contains("/102 | did not write it"), "{}", row(&app, 1));
    assert!(row(&app, 4).ends_with("/101 | INFO step 1200 loss 2.1"), "{}", row(&app, 4));
    press(&mut app, "<enter>");
    assert_eq!(rows(&app).len(), 1);
}

#[test]
fn a_worker_opens_its_file_and_its_host() {
    let mut app = opened();
    let login = press(&mut app, "!");
    assert!(
        matches!(login.as_slice(), [Effect::SshHost(_, host)] if host.internal.raw() == "10.130.0.1"),
        "{login:?}"
    );
    let effects = press(&mut app, "<enter>");
    let is_file = |effect: &Effect| match effect {
        Effect::Ask(_, Request::Follow(_, LogSource::File { name, .. })) => name.raw().ends_with("-102.err"),
        _ => false,
    };
    assert!(effects.iter().any(is_file), "{effects:?}");
    assert_eq!(app.context(), Context::Log);
    press(&mut app, "gw");
    assert_eq!(
        (app.context(), rows(&app).cursor()),
        (Context::JobWorkers, 0),
        "back to the workers of its job"
    );
    assert!(press(&mut app, "W").iter().any(|effect| matches!(effect, Effect::Stacks(..))));
}

#[test]
fn the_head_does_not_stand_in_for_the_host_of_a_worker_whose_node_died() {
    let mut app = opened();
    let mut later = snapshot();
    let nodes = Arc::make_mut(&mut later.nodes);
    nodes[0] = dead(nodes[0].clone(), 30, DeathReason::Unexpected);
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(later)));
    assert_eq!(press(&mut app, "!"), []);
    assert!(said(&app).contains(" is dead, and its address may belong to another machine"), "{}", said(&app));
}

#[test]
fn the_first_cause_is_read_once_and_opens_its_log() {
    let mut app = opened();
    let requests = press(&mut app, "4");
    answer(&mut app, &requests);
    let all: Vec<String> = (0..rows(&app).len()).map(|position| row(&app, position)).collect();
    let first = all.iter().position(|row| row.starts_with("first error")).unwrap();
    assert!(all[first].ends_with("/105 | exception: ValueError: bad"), "{all:#?}");
    assert!(all[first + 1].contains("Traceback"), "{all:#?}");
    assert_eq!(app.update(Event::Tick, NOW.plus(Duration::from_secs(600))), []);
    let again = press(&mut app, "<^r>");
    assert!(again.iter().any(|effect| matches!(effect, Effect::JobWorkers(_, _, Part::Cause))), "{again:?}");
    press(&mut app, &"j".repeat(first));
    let effects = press(&mut app, "l");
    assert!(!effects.is_empty() && app.context() == Context::Log);
}

#[test]
fn silent_workers_of_a_hanging_job_are_rows_that_open_their_logs() {
    let mut app = opened();
    let requests = press(&mut app, "4");
    let job = requests.iter().find_map(|effect| match effect {
        Effect::JobWorkers(cluster, known, Part::Cause) => Some((cluster.clone(), known.job.key.clone())),
        _ => None,
    });
    let (cluster, key) = job.unwrap_or_else(|| panic!("{requests:?}"));
    let job_workers = reading(&app, Part::Overview).job_workers;
    let WorkersAnswer::Overview { answers, last } = reading(&app, Part::Overview).what else {
        panic!("an overview")
    };
    let found = running(&job_workers, &answers, &[], &last);
    assert_eq!((found.verdict, found.quiet.len()), (Verdict::Silent, 1), "{found:?}");
    let what = WorkersAnswer::Cause(Box::new(found));
    let event = WorkersReading { at: NOW, cost: JobReadingCost::default(), job_workers, idle: 0, what };
    app.update(Event::JobWorkers(cluster, key, Part::Cause, Arc::new(Ok(event))), NOW);
    paint(&mut app, 120, 40);
    let all: Vec<String> = (0..rows(&app).len()).map(|position| row(&app, position)).collect();
    assert!(all[0].starts_with("silent | "), "{all:#?}");
    let quiet =
        all.iter().position(|row| row.starts_with("last lines | ")).unwrap_or_else(|| panic!("{all:#?}"));
    assert!(all[quiet].contains("/102 | ") && all[quiet].contains("step 900"), "{all:#?}");
    press(&mut app, &"j".repeat(quiet));
    let effects = press(&mut app, "<enter>");
    let is_file = |effect: &Effect| match effect {
        Effect::Ask(_, Request::Follow(_, LogSource::File { name, .. })) => name.raw().ends_with("-102.err"),
        _ => false,
    };
    assert!(effects.iter().any(is_file), "{effects:?}");
}

#[test]
fn a_log_opens_at_the_chosen_line_and_esc_returns_to_its_row() {
    let mut app = opened();
    press(&mut app, "j");
    let worker = row_here(&app);
    let text_of_row = app.pages().job_workers[0].line_target(app.fleet()).unwrap().text;
    press(&mut app, "<enter>");
    let stream = app.log().unwrap().stream();
    paint(&mut app, 120, 40);
    let line = |n: u64| Line::from(if n == 900 { text_of_row.clone() } else { format!("line {n}") });
    let part = (0..1000).map(line).collect::<Vec<_>>().into();
    send_update(&mut app, CLUSTER, ClusterEvent::Log(LogBatch { stream, part, end: LogEnd::Open }));
    let log = app.log().unwrap();
    let above = log.visible().position(|text| text == text_of_row);
    assert!(log.is_at(900) && above == Some(log.size().height / 2), "{above:?} of {:?}", log.size());
    assert!(
        app.update(Event::Tick, NOW.plus(Duration::from_secs(1))).is_empty()
            && !app.log().unwrap().is_seeking()
    );
    press(&mut app, "<esc>");
    assert_eq!(row_here(&app), worker);
}

#[test]
fn read_errors_are_shown_and_earlier_data_is_kept() {
    let mut app = opened();
    let (cluster, key) = (ClusterName::new(CLUSTER), app.clusters()[0].job_workers.job.clone().unwrap());
    let problem = Problem::new(ProblemKind::Other, "the dashboard \u{1b}[31mdoes not answer", "wait", NOW);
    let failed = |part| Event::JobWorkers(cluster.clone(), key.clone(), part, Arc::new(Err(problem.clone())));
    app.update(failed(Part::Overview), NOW);
    assert_eq!(rows(&app).len(), 8);
    assert!(rows(&app).counts(&app.cell_context(NOW)).text.ends_with("not read"));
    press(&mut app, "3");
    app.update(failed(Part::Lines), NOW);
    assert_eq!(rows(&app).why_empty(&app.cell_context(NOW)), "the dashboard ·[31mdoes not answer; wait");
    let other = JobKey::Driver(JobId("77000000".into()));
    let event = Ok(reading(&app, Part::Lines));
    app.update(Event::JobWorkers(cluster.clone(), other, Part::Lines, Arc::new(event)), NOW);
    assert!(rows(&app).is_empty(), "an answer for another job is ignored");
}

#[test]
fn a_failed_job_opens_with_the_first_cause_and_is_not_refreshed() {
    let mut app = shown();
    press(&mut app, "/dclm<enter>");
    let requests = press(&mut app, "w");
    let known = requests.iter().find_map(|effect| match effect {
        Effect::JobWorkers(_, known, Part::Cause) => Some((**known).clone()),
        _ => None,
    });
    let known = known.unwrap_or_else(|| panic!("{requests:?}"));
    let key = known.job.key.clone();
    let job_workers = JobWorkers::new(known, Vec::new(), Clock::utc(NOW));
    let answer = |app: &mut App, what: WorkersAnswer| {
        let reading = WorkersReading {
            at: NOW,
            cost: JobReadingCost::default(),
            job_workers: job_workers.clone(),
            idle: 0,
            what,
        };
        let part = reading.what.part();
        app.update(
            Event::JobWorkers(ClusterName::new(CLUSTER), key.clone(), part, Arc::new(Ok(reading))),
            NOW,
        );
    };
    answer(&mut app, WorkersAnswer::Cause(Box::new(failure(&job_workers, None))));
    assert!(row(&app, 0).contains("no errors found"), "{}", row(&app, 0));
    press(&mut app, "1");
    answer(&mut app, WorkersAnswer::Overview { answers: Vec::new(), last: Vec::new() });
    let why = rows(&app).why_empty(&app.cell_context(NOW));
    assert_eq!(why, "dclm-run-02 has failed: it has not called ray.init, so it has no workers");
    assert_eq!(app.update(Event::Tick, NOW.plus(Duration::from_secs(900))), []);
}

/// The findings if each worker last wrote a step this many milliseconds before now.
fn found(job_workers: &JobWorkers, wrote: [(u64, u64); 8]) -> Findings {
    let line = |(ago, step): (u64, u64)| {
        let at =
            jiff::Timestamp::from_millisecond(NOW.minus(Duration::from_millis(ago)).as_millis()).unwrap();
        Line::from(format!("{} INFO step {step} loss 2.5", at.strftime("%F %T,%3f")))
    };
    let tails = wrote.into_iter().enumerate();
    let tails: Vec<LastLines> =
        tails.map(|(worker, wrote)| LastLines { worker, is_err: true, lines: vec![line(wrote)] }).collect();
    running(job_workers, &worker_overview(job_workers, &tails, NOW), &[], &[])
}

#[test]
fn one_of_all_silent_workers_is_named_only_if_it_stopped_before_the_others() {
    let job_workers = workers(&opened()).0;
    let together = found(&job_workers, std::array::from_fn(|n| (1_320_000 + n as u64 * 18, 22_672)));
    assert_eq!(together.verdict, Verdict::Silent);
    let how =
        "all stopped at the same time at step 22,672: compare their stacks to find the one that differs";
    assert!(together.summary.ends_with(how), "{}", together.summary);
    let hint = together.hint.to_string();
    assert!(
        hint.contains(" stacks ") && hint.contains(together.summary.split(' ').next().unwrap()),
        "{hint}"
    );
    let one_before = |n| (if n == 5 { 1_325_000 } else { 1_320_000 }, 22_672);
    let first = found(&job_workers, std::array::from_fn(one_before));
    assert!(
        first.summary.contains("first to go silent: ") && first.summary.contains("/105"),
        "{}",
        first.summary
    );
}

#[test]
fn an_actor_on_the_head_is_not_counted_among_the_workers() {
    let mut job_workers = workers(&opened()).0;
    let head = job_workers.known.head().unwrap().id;
    let mut counts = |kind: &str, wrote: fn(u64) -> (u64, u64)| {
        let worker = &mut job_workers.workers[7].process;
        (worker.node, worker.kind) = (head, kind.into());
        let summary = found(&job_workers, std::array::from_fn(|n| wrote(n as u64))).summary;
        (job_workers.count_text(), summary.split_once(" is running").unwrap().1.to_owned())
    };
    // The actor has written nothing since the run began.
    let quiet = |n: u64| if n == 7 { (9_000_000, 0) } else { (1_320_000 + n * 18, 1200) };
    let (count, summary) = counts("Holder", quiet);
    assert_eq!(count, "7 workers and 1 on the head");
    let all = ", but neither its 7 workers nor the 1 on the head has logged anything for 22m; all";
    assert!(summary.starts_with(all), "the actor was not the first to go silent: {summary}");
    let (_, summary) = counts("Holder", |_| (2_000, 1200));
    assert!(summary.starts_with(": 7 workers and 1 on the head, at step 1,200, last"), "{summary}");
    let (_, summary) = counts("Holder", |n| if n == 2 { (1_320_000, 900) } else { (2_000, 1200) });
    assert!(summary.starts_with(", but 1 of 7 workers is silent: "), "{summary}");
    // It does the work of the others.
    let (count, summary) = counts("train", |n| (1_320_000 + n * 18, 1200));
    assert_eq!(count, "8 workers");
    assert!(summary.starts_with(", but none of its 8 workers has logged anything for 22m; "), "{summary}");
}

#[test]
fn a_worker_that_ended_while_the_others_continue_does_not_lag() {
    let mut job_workers = workers(&opened()).0;
    let wrote = std::array::from_fn(|n| if n == 3 { (1_080_000, 400) } else { (2_000, 1200) });
    let mut ended = |minutes: u64| {
        let at = NOW.minus(Duration::from_secs(minutes * 60));
        job_workers.workers[3].ended = Some("failed: its node is lost".into());
        job_workers.workers[3].ended_at = Some(at);
        found(&job_workers, wrote)
    };
    assert_eq!(ended(1).verdict, Verdict::Lagging, "the others may not have noticed yet");
    let replaced = ended(18);
    assert_eq!(replaced.verdict, Verdict::Healthy, "{replaced:?}");
    assert!(replaced.evidence.iter().any(|words| words.contains("continued without")), "{replaced:?}");
}

#[test]
fn a_worker_of_an_earlier_attempt_is_not_the_first_to_go_silent() {
    let mut job_workers = workers(&opened()).0;
    let (worker, failed) = (&mut job_workers.workers[2], before(18_000));
    worker.process.state = WorkerState::Failed { why: "preempted".into(), at: Some(failed) };
    (worker.ended, worker.ended_at) = (Some("failed 5h ago: preempted".into()), Some(failed));
    let wrote = |millis: u64| -> [(u64, u64); 8] {
        std::array::from_fn(|n| match n {
            2 => (18_000_000, 30_000),
            _ => (millis + n as u64 * 18, 22_672),
        })
    };
    let hangs = found(&job_workers, wrote(600_000));
    let how =
        "all stopped at the same time at step 22,672: compare their stacks to find the one that differs";
    assert!(hangs.summary.ends_with(how), "{}", hangs.summary);
    let silent: Vec<usize> = hangs.quiet.iter().map(|quiet| quiet.worker).collect();
    assert_eq!(silent, [7, 6, 5, 4, 3, 1, 0], "the longest silence first");
    let healthy = found(&job_workers, wrote(2_000));
    assert_eq!(healthy.verdict, Verdict::Healthy, "{healthy:?}");
    assert!(healthy.summary.contains(", at step 22,672, "), "{}", healthy.summary);
}

/// A line that was written this many seconds before now.
fn written(ago: u64, text: &str) -> Line {
    let at = jiff::Timestamp::from_millisecond(before(ago).as_millis()).unwrap();
    Line::from(format!("{},007 {text}", at.strftime("%F %T")))
}

/// A traceback, after a line that was written this many seconds before now.
fn raised(ago: u64) -> Vec<Line> {
    let trace = ["Traceback (most recent call last):", "  File \"a.py\", line 3, in f", "ValueError: bad"];
    [written(ago, "INFO saving")].into_iter().chain(trace.map(Line::from)).collect()
}

/// A job that failed 100 seconds ago, with a worker on each of two nodes. The second node has died this many seconds
/// ago; its worker has this state.
fn on_dead_node(state: WorkerState, reason: DeathReason, ago: u64) -> JobWorkers {
    let mut snapshot = snapshot();
    let nodes = Arc::make_mut(&mut snapshot.nodes);
    nodes[1] = dead(nodes[1].clone(), ago, reason);
    let worker = |node: usize, state| JobWorker {
        node: nodes[node].id,
        pid: 100,
        name: "train".into(),
        kind: "train".into(),
        state,
        files: Vec::new(),
    };
    let both = vec![worker(0, WorkerState::Running), worker(1, state)];
    let job = Job { started: Some(before(20_000)), ..job("a", JobStatus::Failed, "carol", 200) };
    let known = workers(&opened()).0.known;
    let known = Known { job: Arc::new(job), snapshot: Arc::new(snapshot), ..known };
    JobWorkers::new(known, both, Clock::utc(NOW))
}

#[test]
fn a_node_that_was_stopped_in_order_ended_the_job_only_if_its_worker_had_not_ended_before() {
    let lost = |at: Option<Timestamp>| WorkerState::Failed {
        why: "The actor died because its node has died.".into(),
        at,
    };
    let first = |state: WorkerState, reason: DeathReason| {
        let job_workers = on_dead_node(state, reason, 600);
        let lines = vec![written(110, "ERROR failed")];
        let tails = [LastLines { worker: 0, is_err: true, lines }];
        causes(&job_workers, &tails, None, &Clocks::new()).unwrap().first.fault
    };
    assert_eq!(first(WorkerState::Ended, DeathReason::Expected), Fault::Error, "removed when idle");
    assert_eq!(first(lost(Some(before(7200))), DeathReason::Expected), Fault::Error);
    assert_eq!(first(lost(Some(before(610))), DeathReason::Expected), Fault::NodeDied);
    assert_eq!(first(lost(None), DeathReason::Expected), Fault::NodeDied);
    assert_eq!(first(WorkerState::Ended, DeathReason::Preempted), Fault::NodeDied);
}

#[test]
fn the_jobs_log_is_the_way_on_if_the_log_of_the_first_error_was_lost() {
    let failed = |ago| WorkerState::Failed { why: "ValueError: bad".into(), at: Some(before(ago)) };
    let explained = |job_workers: &JobWorkers| {
        let found = causes(job_workers, &[], None, &Clocks::new());
        assert!(found.is_some());
        failure(job_workers, found)
    };
    // The node died after the job had ended, so its death is not an error of the job.
    let job_workers = on_dead_node(failed(110), DeathReason::Unexpected, 5);
    let found = explained(&job_workers);
    assert!(found.hint.to_string().ends_with(": `marin-tui job-logs a`"), "{}", found.hint);
    let mut in_a_file = job_workers.clone();
    in_a_file.workers[0].process.state = failed(150);
    assert!(explained(&in_a_file).hint.is_empty(), "the worker's file can be read");
    assert!(!failure(&job_workers, None).hint.is_empty(), "the error may have been in the lost file");
    let mut app = opened();
    let requests = press(&mut app, "4");
    let requested = requests.iter().find_map(|effect| match effect {
        Effect::JobWorkers(cluster, known, Part::Cause) => Some((cluster.clone(), known.job.key.clone())),
        _ => None,
    });
    let (cluster, key) = requested.unwrap_or_else(|| panic!("{requests:?}"));
    let what = WorkersAnswer::Cause(Box::new(found));
    let event = WorkersReading { at: NOW, cost: JobReadingCost::default(), job_workers, idle: 0, what };
    app.update(Event::JobWorkers(cluster, key, Part::Cause, Arc::new(Ok(event))), NOW);
    paint(&mut app, 120, 40);
    let all: Vec<String> = (0..rows(&app).len()).map(|position| row(&app, position)).collect();
    let hint = all.iter().find(|row| row.starts_with("hint | ")).unwrap_or_else(|| panic!("{all:#?}"));
    assert!(hint.ends_with(" lost worker: l on its row in the jobs pane"), "{hint}");
    let first = all.iter().position(|row| row.starts_with("first error")).unwrap();
    press(&mut app, &"j".repeat(first));
    assert_eq!(press(&mut app, "<enter>"), []);
    assert!(said(&app).ends_with("; read the job's log: l on its row in the jobs pane"), "{}", said(&app));
    let stacks = app.hint(&Verb::JobStacks.to("compare them").into());
    assert_eq!(stacks, "compare them: W", "the page is about one job");
}

#[test]
fn a_node_that_a_run_lost_hours_before_it_failed_is_only_a_possible_cause() {
    let state = WorkerState::Failed { why: "The actor died because its node has died.".into(), at: None };
    let job_workers = on_dead_node(state, DeathReason::Preempted, 18_000);
    let steps = vec![written(160, "INFO step 900 loss 2.5")];
    let out = LastLines { worker: 0, is_err: false, lines: steps };
    let err = LastLines { worker: 0, is_err: true, lines: raised(150) };
    let clocks = Clocks::new();
    let by_worker = causes(&job_workers, &[out.clone(), err], None, &clocks).unwrap();
    assert_eq!(worker_of(&by_worker.first, &job_workers), Some((0, Some(true))));
    let by_driver = causes(&job_workers, std::slice::from_ref(&out), Some(&raised(150)), &clocks).unwrap();
    assert_eq!(by_driver.first.source, Some(0), "the driver's own error");
    for found in [by_worker, by_driver] {
        assert_eq!((found.first.fault, found.certainty), (Fault::Exception, Certainty::AfterLosses));
        assert_eq!((found.before.len(), found.before[0].fault), (1, Fault::NodeDied));
        let text = certainty_text(&found).unwrap();
        assert!(text.contains("the run continued after earlier failures"), "{text}");
        assert!(text.contains(": node died on "), "{text}");
    }
    let alone = causes(&job_workers, &[out], None, &clocks).unwrap();
    let text = certainty_text(&alone).unwrap();
    assert!(alone.first.fault == Fault::NodeDied && text.contains("the run continued after it"), "{text}");
}

#[test]
fn an_error_in_one_file_of_a_worker_that_trains_on_in_the_other_is_no_cause() {
    let job_workers = workers(&opened()).0;
    let steps = vec![written(60, "INFO step 900 loss 2.5")];
    let tail = |worker, is_err, lines| LastLines { worker, is_err, lines };
    let tails = [
        tail(0, false, steps.clone()),
        tail(0, true, vec![written(18_000, "ERROR wandb: upload failed")]),
        tail(5, false, steps),
        tail(5, true, raised(50)),
    ];
    let found = causes(&job_workers, &tails, None, &Clocks::new()).unwrap();
    assert_eq!(worker_of(&found.first, &job_workers), Some((5, Some(true))));
    assert_eq!(
        (found.certainty, found.before.len(), found.survived),
        (Certainty::Earliest, 0, 1),
        "{found:?}"
    );
}

#[test]
fn a_line_of_one_kind_of_worker_is_not_missing_from_another_kind() {
    let (mut job_workers, tails) = workers(&opened());
    job_workers.workers[7].process.kind = "holder".into();
    let lines: Vec<_> = in_order(&job_workers, tails).collect();
    let folded = fold(lines.iter(), &job_workers);
    let step = folded.rows.iter().position(|row| row.text.contains("step 1200")).unwrap();
    let of_holder = folded.rows[step].members().iter().any(|member| member.source == 7);
    assert!(of_holder, "it wrote the line as well, so its kind counts");
    let lagging = folded.rows.iter().position(|row| row.text.contains("step 1000")).unwrap();
    assert_eq!(folded.among[lagging].workers, 7, "workers of the same kind as the one that wrote it");
    assert!(folded.among[lagging].notable().is_empty() && folded.among[step].missing == [2, 4]);
}

#[test]
fn the_logs_of_all_workers_open_over_the_page_that_was_opened_from_a_log() {
    let mut app = shown();
    paint(&mut app, 120, 40);
    press(&mut app, "2l");
    let log = app.log().unwrap().source().cloned();
    assert_eq!((app.context(), log.is_some()), (Context::Log, true));
    let requests = press(&mut app, "gw");
    answer(&mut app, &requests);
    let effects = press(&mut app, "f");
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Ask(_, Request::FollowSeveral(_)))),
        "{effects:?}"
    );
    assert_eq!(app.context(), Context::Log);
    press(&mut app, "<esc>");
    assert_eq!(app.context(), Context::JobWorkers);
    press(&mut app, "<esc>");
    assert_eq!((app.context(), app.log().unwrap().source().cloned()), (Context::Log, log));
}
