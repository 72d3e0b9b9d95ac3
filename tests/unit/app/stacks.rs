//! The page of the stacks of a job's workers.

use super::*;
use marin_tui::model::{DriverStacks, JobStacks, NodeId, Problem, StackGroup, StackThread, StackWorker};

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

/// The page with these stacks of the first job's workers.
fn page_of(stacks: JobStacks) -> App {
    let mut app = shown();
    press(&mut app, "W");
    let (cluster, driver) = (ClusterName::new(CLUSTER), JobId("0a000000".into()));
    app.update(Event::Stacks(cluster, driver, Arc::new(Ok(stacks))), NOW);
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

#[test]
fn processes_can_be_opened_logged_in_to_copied_and_saved() {
    let mut app = page_of(JobStacks { driver: Some(driver(Ok(Vec::new()))), ..sample_stacks(Some(false)) });
    let mut state = snapshot();
    let host = Node { address: "10.0.0.19".into(), ..node(19, "tpu_worker", 4.0, 4.0) };
    Arc::make_mut(&mut state.nodes).push(host);
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    let host = |effects: &[Effect]| match effects {
        [Effect::SshHost(_, host)] => host.internal.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(host(&press(&mut app, "!")), "10.0.0.19", "the worker whose stack differs");
    press(&mut app, "<enter>");
    let offers: Vec<String> = app.offers().iter().map(|offer| offer.text.clone()).collect();
    assert_eq!(
        offers[..3],
        ["tb-w19 (10.0.0.19) pid 262 W", "tb-w20 (10.0.0.20) pid 262 W", "tb-w1 (10.0.0.1) pid 867 driver"]
    );
    assert_eq!(offers.len(), 22, "including workers with the common stack");
    press(&mut app, "<enter>");
    assert_eq!(app.target(), Some(Target::Node(0, worker(19, None).node)));
    press(&mut app, "<esc>");

    let copied = press(&mut app, "y");
    let [Effect::Copy { what, text }] = &copied[..] else { panic!("{copied:?}") };
    assert!(
        what == "stacks" && text.contains("1 worker  ! load (data.py:88)  same in both samples"),
        "{text}"
    );
    assert!(text.contains("\non  tb-w19 (10.0.0.19) pid 262 W\n"), "{text}");
    press(&mut app, "Y");
    assert!(app.offers().iter().any(|offer| offer.text == "on" && offer.help.contains("10.0.0.19")));
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
