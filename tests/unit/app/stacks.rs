//! The page of the stacks of a job's workers.

use super::*;
use marin_tui::app::StackRow;
use marin_tui::model::{DriverStacks, JobStacks, NodeId, Problem, StackGroup, StackThread, StackWorker};
use std::collections::BTreeSet;

fn worker(n: u8, moved: Option<bool>) -> StackWorker {
    let (host, address) = (format!("tb-w{n}").as_str().into(), format!("10.0.0.{n}").as_str().into());
    let node = NodeId::from_bytes(&[n; 28]).unwrap();
    StackWorker { node, host, address, hostname: "".into(), pid: 262, name: "W".into(), moved }
}

/// One of twenty workers has a stack that differs.
fn sample_stacks(moved: Option<bool>) -> JobStacks {
    let group = |top_frame: &str, workers| StackGroup {
        top_frame: top_frame.to_owned(),
        frames: vec![top_frame.to_owned(), "main (train.py:30)".to_owned()],
        workers,
    };
    let most = (0..19).map(|n| worker(n, moved.map(|_| true))).collect();
    let groups = vec![group("step (train.py:11)", most), group("load (data.py:88)", vec![worker(19, moved)])];
    JobStacks {
        at: NOW,
        over_ssh: true,
        groups,
        unread: vec![(worker(20, None), "the process has ended".into())],
        driver: None,
        raylets: Vec::new(),
    }
}

fn rows(app: &App) -> Vec<String> {
    details(app).iter().map(|(label, text)| format!("{label}: {text}")).collect()
}

#[test]
fn one_key_shows_the_worker_whose_stack_differs() {
    let mut app = shown();
    let driver = JobId("0a000000".into());
    let cluster = ClusterName::new(CLUSTER);
    let requests = press(&mut app, "W");
    assert_eq!(requests, [Effect::Stacks(cluster.clone(), driver.clone())]);
    assert!(rows(&app)[0].contains("reading the workers"), "{:?}", rows(&app));

    let answer = |app: &mut App, driver: &JobId, result| {
        app.update(Event::Stacks(cluster.clone(), driver.clone(), Arc::new(result)), NOW);
    };
    answer(&mut app, &JobId("0b000000".into()), Ok(sample_stacks(None)));
    assert!(rows(&app)[0].contains("reading the workers"), "an answer for another job is ignored");
    answer(&mut app, &driver, Ok(sample_stacks(None)));
    let first = rows(&app);
    assert!(first[0].starts_with("read: 21 workers, 0s ago; py-spy ran over SSH"), "{first:?}");
    assert!(first.contains(&"19 workers: step (train.py:11)".to_owned()), "{first:?}");
    let at = first.iter().position(|row| row == "1 worker: ! load (data.py:88)").unwrap();
    assert_eq!(first[at + 2], "on: tb-w19 (10.0.0.19) pid 262 W", "{first:?}");
    assert!(!first.contains(&"on: tb-w3 (10.0.0.3) pid 262 W".to_owned()), "{first:?}");
    assert_eq!(first.last().unwrap(), "not read: tb-w20 (10.0.0.20) pid 262 W: the process has ended");

    answer(&mut app, &driver, Ok(sample_stacks(Some(false))));
    assert!(
        rows(&app).contains(&"1 worker: ! load (data.py:88)  same in both samples".to_owned()),
        "{:?}",
        rows(&app)
    );
    assert_eq!(press(&mut app, "W"), [Effect::Stacks(cluster.clone(), driver.clone())], "the key refreshes");
    let problem = Problem::new(ProblemKind::Other, "no worker \u{1b}[31mruns", "wait", NOW);
    answer(&mut app, &driver, Err(problem));
    assert_eq!(rows(&app), ["problem: no worker ·[31mruns", "hint: wait"]);
}

/// A result of taking the stacks of the first job's workers.
fn answer(app: &mut App, result: Result<JobStacks, Problem>) {
    let (cluster, driver) = (ClusterName::new(CLUSTER), JobId("0a000000".into()));
    app.update(Event::Stacks(cluster, driver, Arc::new(result)), NOW);
}

/// The page with these stacks of the first job's workers.
fn page_of(stacks: JobStacks) -> App {
    let mut app = shown();
    press(&mut app, "W");
    answer(&mut app, Ok(stacks));
    app
}

fn driver(threads: Result<Vec<StackThread>, String>) -> DriverStacks {
    let process = StackWorker { name: "driver".into(), pid: 867, ..worker(1, Some(false)) };
    DriverStacks { process, threads }
}

#[test]
fn the_threads_of_the_driver_are_shown_below_its_workers() {
    let thread = |name: &str, top_frame: &str| StackThread {
        name: name.into(),
        top_frame: top_frame.into(),
        frames: vec![top_frame.split(" in ").next().unwrap().into(), "run (train.py:9)".into()],
    };
    let threads = vec![thread("MainThread", "main (train.py:30) in get"), thread("", "save (io.py:7)")];
    let page = rows(&page_of(JobStacks { driver: Some(driver(Ok(threads))), ..sample_stacks(None) }));
    let at =
        page.iter().position(|row| row == "driver: tb-w1 (10.0.0.1) pid 867  same in both samples").unwrap();
    assert_eq!(
        page[at + 1..],
        [
            " : MainThread: main (train.py:30) in get",
            " :   run (train.py:9)",
            " : save (io.py:7)",
            " :   run (train.py:9)"
        ]
    );
    let page = rows(&page_of(JobStacks {
        driver: Some(driver(Err("no \u{1b}[31mright".into()))),
        ..sample_stacks(None)
    }));
    assert_eq!(page.last().unwrap(), "driver: tb-w1 (10.0.0.1) pid 867: no ·[31mright");
}

/// The same stacks, with the driver, while Ray lists the host of the worker whose stack differs.
fn page_with_host() -> App {
    let mut app = page_of(JobStacks { driver: Some(driver(Ok(Vec::new()))), ..sample_stacks(Some(false)) });
    let mut state = snapshot();
    let host = Node { address: "10.0.0.19".into(), ..node(19, "tpu_worker", 4.0, 4.0) };
    Arc::make_mut(&mut state.nodes).push(host);
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    app
}

/// The selected row as drawn.
fn selected(app: &mut App) -> Option<StackRow> {
    paint(app, 120, 40);
    let View::Details(page) = app.view() else { panic!("{:?}", app.view()) };
    page.cursor.selected().cloned()
}

fn row_of(n: u8) -> StackRow {
    StackRow::of(&worker(n, None))
}

/// The request for the log files of a worker.
fn lists_files(n: u8) -> Effect {
    let process = (worker(n, None).node, 262);
    Effect::WorkerFiles(ClusterName::new(CLUSTER), JobId("0a000000".into()), process)
}

/// The log in the whole window.
fn opened(app: &App) -> Option<LogSource> {
    let log = app.log().filter(|_| matches!(app.view(), View::Log(_)))?;
    log.source().cloned()
}

/// The entries of the open list.
fn listed(app: &App) -> Vec<String> {
    app.offers().into_iter().map(|offer| offer.text).collect()
}

#[test]
fn processes_can_be_opened_logged_in_to_copied_and_saved() {
    let mut app = page_with_host();
    let host = |effects: &[Effect]| match effects {
        [Effect::SshHost(_, host)] => host.internal.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(host(&press(&mut app, "!")), "10.0.0.19", "the worker whose stack differs");
    press(&mut app, "<enter>");
    assert_eq!(app.target(), Some(Target::Node(0, worker(19, None).node)));
    press(&mut app, "<esc>");

    selected(&mut app);
    assert_eq!(press(&mut app, "gg!"), []);
    assert_eq!(said(&app), "press ⏎ to open it, and select a host there");
    press(&mut app, "<enter>");
    let processes = listed(&app);
    assert_eq!((processes.len(), processes[3].as_str()), (19, "tb-w3 (10.0.0.3) pid 262 W"));
    press(&mut app, "tb-w3<enter>");
    assert_eq!(app.target(), Some(Target::Node(0, worker(3, None).node)));
    press(&mut app, "<esc><esc>");
    selected(&mut app);
    press(&mut app, "j");

    let copied = press(&mut app, "y");
    let [Effect::Copy { what, text }] = &copied[..] else { panic!("{copied:?}") };
    assert!(
        what == "stacks" && text.contains("1 worker  ! load (data.py:88)  same in both samples"),
        "{text}"
    );
    assert!(text.contains("\non  tb-w19 (10.0.0.19) pid 262 W\n"), "{text}");
    press(&mut app, "Y");
    assert!(app.offers().iter().any(|offer| offer.text == "on" && offer.help.contains("10.0.0.19")));
    assert!(app.offers().iter().any(|offer| offer.text == "worker" && offer.help == "tb-w19/262"));
    let saved = press(&mut app, "<esc><^s><enter>");
    let [Effect::WriteFile { path, text: written, replace: false, .. }] = &saved[..] else {
        panic!("{saved:?}")
    };
    assert_eq!((path.as_str(), written.trim_end()), ("stacks-of-eval-tulu-99.txt", text.as_str()));

    // The file exists: what was to be saved replaces it, although another page is on the screen by now.
    let (path, written) = (path.clone(), written.clone());
    press(&mut app, "<esc><esc>l");
    app.update(Event::FileExists { path: path.clone(), text: written.clone(), loaded_lines: 9 }, NOW);
    assert_eq!(
        press(&mut app, "y"),
        [Effect::WriteFile { path, text: written, replace: true, loaded_lines: 9 }]
    );
}

#[test]
fn the_head_does_not_stand_in_for_the_host_of_a_worker_that_ray_does_not_list() {
    let mut app = page_of(sample_stacks(Some(false)));
    assert_eq!(press(&mut app, "!"), []);
    assert!(said(&app).starts_with("Ray no longer lists the node of tb-w19 "), "{}", said(&app));
}

#[test]
fn the_names_of_processes_are_complete_before_their_stacks_are() {
    let named = |n: u8| StackWorker {
        host: format!("ray-marin-us-central2-worker-4f1c-tpu-w-{n}").as_str().into(),
        ..worker(n, None)
    };
    let frame = "wait_at_the_barrier (jax/experimental/multihost_utils.py:88)";
    let group = StackGroup {
        top_frame: frame.to_owned(),
        frames: vec![frame.to_owned()],
        workers: vec![named(14), named(24)],
    };
    let mut app = page_of(JobStacks { groups: vec![group], unread: Vec::new(), ..sample_stacks(None) });
    press(&mut app, "<enter>");
    for width in [80, 120, 200] {
        let lines = super::screen::lines_of(&mut app, width, 40);
        for n in [14, 24] {
            let row = format!("│ {}", named(n).text());
            let row =
                lines.iter().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("{lines:#?}"));
            assert_eq!(row.contains(frame), width == 200, "the list takes the width that it needs: {row}");
        }
    }
}

#[test]
fn a_job_that_has_ended_has_no_stacks() {
    let mut app = shown();
    press(&mut app, "G");
    assert!(!footer(&mut app).contains("W stacks"), "{}", footer(&mut app));
}

#[test]
fn groups_workers_and_the_driver_are_selected_in_turn() {
    let mut app = page_with_host();
    assert_eq!(selected(&mut app), Some(row_of(19)), "the worker whose stack differs");
    let process = |pid| StackRow::Process(worker(1, None).node, pid);
    let usual = StackRow::of_group(&sample_stacks(None).groups[0]);
    for (key, row) in [
        ("j", row_of(20)),
        ("<down>", process(867)),
        ("j", process(867)),
        ("gg", usual.clone()),
        ("k", usual.clone()),
        ("j", row_of(19)),
        ("G", process(867)),
        ("<up>", row_of(20)),
        ("<pgup>", usual),
        ("<pgdn>", process(867)),
        ("k", row_of(20)),
    ] {
        press(&mut app, key);
        assert_eq!(selected(&mut app), Some(row), "{key}");
    }
    let shown = footer(&mut app);
    assert!(shown.contains("⏎ open") && shown.contains("l log"), "{shown}");

    // The selection stays with the process and the stack in a later reading.
    press(&mut app, "W");
    assert_eq!(selected(&mut app), Some(row_of(20)));
    let mut stacks = sample_stacks(Some(true));
    let unread = std::mem::take(&mut stacks.unread);
    stacks.groups[0].workers.extend(unread.into_iter().map(|(worker, _)| worker));
    let common = StackRow::of_group(&stacks.groups[0]);
    answer(&mut app, Ok(stacks));
    assert_eq!(selected(&mut app), Some(common.clone()), "its group, in which no worker is listed");
    let mut fewer = sample_stacks(Some(true));
    fewer.groups[0].workers.truncate(9);
    answer(&mut app, Ok(fewer));
    assert_eq!(selected(&mut app), Some(common), "the same stack of other workers");
    answer(&mut app, Err(Problem::new(ProblemKind::Other, "no worker runs", "wait", NOW)));
    paint(&mut app, 120, 40);
    assert!(press(&mut app, "jk<enter>").is_empty() && app.prompt().is_none());
}

#[test]
fn the_only_worker_of_a_job_is_selected() {
    let group = StackGroup {
        top_frame: "step (train.py:11)".into(),
        frames: vec!["step (train.py:11)".into()],
        workers: vec![worker(3, None)],
    };
    let mut app = page_of(JobStacks { groups: vec![group], unread: Vec::new(), ..sample_stacks(None) });
    assert_eq!(selected(&mut app), Some(row_of(3)));
    press(&mut app, "jk");
    assert_eq!(press(&mut app, "l"), [lists_files(3)]);
    // Without workers, only the driver is left.
    let none = JobStacks { groups: Vec::new(), unread: Vec::new(), ..sample_stacks(None) };
    answer(&mut app, Ok(JobStacks { driver: Some(driver(Ok(Vec::new()))), ..none.clone() }));
    assert_eq!(selected(&mut app), Some(StackRow::Process(worker(1, None).node, 867)));
    answer(&mut app, Ok(none));
    paint(&mut app, 120, 40);
    press(&mut app, "l");
    assert_eq!(opened(&app), Some(LogSource::Job(id("eval-tulu-99"))));
}

#[test]
fn the_selected_row_is_clicked_and_highlighted_and_the_filter_selects_among_the_shown_ones() {
    let mut app = page_with_host();
    let lines = super::screen::lines_of(&mut app, 120, 40);
    let y = lines.iter().position(|line| line.contains("not read")).unwrap();
    let y = u16::try_from(y).unwrap();
    point(&mut app, CLICK, 20, y);
    assert_eq!(selected(&mut app), Some(row_of(20)));
    let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
    let theme = Theme::new(Colors::None);
    terminal.draw(|frame| drop(draw(frame, &app, &theme, NOW))).unwrap();
    let is_marked = |y: u16| terminal.backend().buffer()[(20, y)].modifier == theme.selected.add_modifier;
    assert_eq!((0..40).filter(|y| is_marked(*y)).collect::<Vec<_>>(), [y]);
    point(&mut app, CLICK, 20, y);
    assert_eq!(app.target(), Some(Target::Node(0, worker(20, None).node)));
    press(&mut app, "<esc>");

    press(&mut app, "/load<enter>");
    assert_eq!(selected(&mut app), Some(row_of(19)));
    press(&mut app, "jk");
    assert_eq!(selected(&mut app), Some(row_of(19)), "the only one");
    press(&mut app, "<esc>");
    assert_eq!(selected(&mut app), Some(row_of(19)));
    press(&mut app, "/nothing at all<enter>");
    paint(&mut app, 120, 40);
    press(&mut app, "l");
    assert_eq!(opened(&app), Some(LogSource::Job(id("eval-tulu-99"))));
}

#[test]
fn a_stack_that_is_longer_than_the_window_is_scrolled() {
    let frames: Vec<String> = (0..60).map(|n| format!("slow_{n} (slow.py:{n})")).collect();
    let long =
        StackGroup { top_frame: frames[0].clone(), frames, workers: vec![worker(3, None), worker(4, None)] };
    let mut app = page_of(JobStacks { groups: vec![long], ..sample_stacks(None) });
    let mut seen = BTreeSet::new();
    for _ in 0..70 {
        let lines = super::screen::lines_of(&mut app, 80, 24);
        let is_shown = |n: &usize| lines.iter().any(|line| line.contains(&format!("slow_{n} (")));
        seen.extend((0..60).filter(is_shown));
        press(&mut app, "j");
    }
    assert_eq!(seen.len(), 60);
    assert_eq!(selected(&mut app), Some(row_of(20)));
}

/// The files of a process, as its node lists them.
fn files(names: &[&str]) -> Arc<Result<Vec<Text>, Problem>> {
    Arc::new(Ok(names.iter().map(|name| Text::from(*name)).collect()))
}

#[test]
fn the_log_of_the_selected_worker_is_opened() {
    let mut app = page_with_host();
    selected(&mut app);
    let (cluster, process) = (ClusterName::new(CLUSTER), (worker(19, None).node, 262));
    let found = |app: &mut App, files| app.update(Event::WorkerFiles(cluster.clone(), process, files), NOW);
    let (out, err) = ("worker-7f2a-0a000000-262.out", "worker-7f2a-0a000000-262.err");
    assert_eq!(press(&mut app, "l"), [lists_files(19)]);
    assert_eq!(said(&app), "listing the log files of tb-w19 (10.0.0.19) pid 262 W");
    found(&mut app, files(&[out, err]));
    assert_eq!(opened(&app), Some(LogSource::File { node: process.0, name: out.into() }));
    assert!(app.toasts().shown().iter().all(|toast| !toast.text.starts_with("listing")));
    press(&mut app, "<esc>");
    assert_eq!(selected(&mut app), Some(row_of(19)));

    let failed = Problem::new(ProblemKind::Other, "no answer", Hint::default(), NOW);
    for (answer, message) in [
        (files(&[]), "tb-w19 (10.0.0.19) pid 262 W: its files are missing"),
        (Arc::new(Err(failed)), "cannot list the log files of tb-w19 (10.0.0.19) pid 262 W: no answer"),
    ] {
        assert_eq!(press(&mut app, "l"), [lists_files(19)]);
        assert_eq!(found(&mut app, answer), []);
        assert_eq!(said(&app), message);
    }
    press(&mut app, "<esc>");

    // Nothing is opened over what the operator does meanwhile.
    for keys in ["lk", "l:"] {
        press(&mut app, keys);
        assert_eq!(found(&mut app, files(&[out])), [], "{keys}");
        press(&mut app, "<esc>ggj");
        assert_eq!(selected(&mut app), Some(row_of(19)), "{keys}");
    }
    press(&mut app, "l<enter>");
    assert_eq!(found(&mut app, files(&[out])), []);
    assert_eq!(app.target(), Some(Target::Node(0, process.0)));
}

#[test]
fn any_worker_of_a_group_has_its_log_and_the_driver_that_of_the_job() {
    let mut app = page_with_host();
    selected(&mut app);
    assert_eq!(press(&mut app, "jl"), [], "its node is dead");
    let lost = "tb-w20 (10.0.0.20) pid 262 W: its files are lost with its node; read the job's log";
    assert!(said(&app).starts_with(lost), "{}", said(&app));
    assert_eq!(press(&mut app, "<esc>ggl"), []);
    assert_eq!(listed(&app).len(), 19);
    assert_eq!(press(&mut app, "tb-w3<enter>"), [lists_files(3)]);
    press(&mut app, "Gl");
    assert_eq!(opened(&app), Some(LogSource::Job(id("eval-tulu-99"))));
}
