//! The fleet: rows by issue, totals and alerts, all nodes and all jobs.

use super::*;
use marin_tui::app::text::labels;
use marin_tui::app::{Change, PollIntervals};
use marin_tui::diagnose::{FindingKind, Severity};
use marin_tui::model::cloud::CloudView;

const NAMES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];

fn ask(name: &str, request: Request) -> Effect {
    Effect::Ask(ClusterName::new(name), request)
}

/// Four connected clusters without issues.
fn fleet() -> App {
    let mut app = app(&NAMES);
    for name in NAMES {
        send_update(&mut app, name, ClusterEvent::Link(up()));
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(calm(name))));
    }
    app
}

/// A state without issues: nodes and jobs that carry the cluster's name.
fn calm(name: &str) -> Snapshot {
    let mut calm = snapshot();
    let first = name.as_bytes()[0];
    let mut nodes = vec![node(first, "tpu_worker", 4.0, 4.0), node(first + 100, "tpu_worker", 4.0, 0.0)];
    nodes[0].name = format!("{name}-0").into();
    nodes[1].name = format!("{name}-1").into();
    calm.nodes = Arc::new(nodes);
    calm.jobs = Arc::new(vec![
        Arc::new(job(&format!("{name}-run"), JobStatus::Running, "alice", u64::from(first))),
        Arc::new(job(&format!("{name}-old"), JobStatus::Failed, "bo", 9000 + u64::from(first))),
    ]);
    let report = Arc::make_mut(&mut calm.autoscaler);
    report.demands.clear();
    report.failures.clear();
    report.pending.clear();
    report.types.clear();
    calm
}

fn order(app: &App) -> Vec<&str> {
    let list = &app.pages().clusters;
    let cluster_index = |p| list.target_at(app.fleet(), p).unwrap().cluster_index();
    let name = |cluster_index: usize| app.clusters()[cluster_index].name().as_str();
    (0..list.len()).map(|p| cluster_index(p).map_or("broken", name)).collect()
}

fn under_cursor(app: &App) -> &str {
    app.target_cluster().unwrap().name().as_str()
}

fn gone() -> Link {
    let problem = problem(ProblemKind::Unreachable, "it cannot be reached", "look");
    Link::Retrying { problem, at: NOW.plus(Duration::from_secs(8)) }
}

#[test]
fn clusters_with_issues_come_first_and_others_keep_their_order() {
    let mut app = fleet();
    assert_eq!(order(&app), NAMES);
    press(&mut app, "j");
    assert_eq!(under_cursor(&app), "beta");
    send_update(&mut app, "delta", ClusterEvent::Link(gone()));
    assert_eq!(order(&app), ["delta", "alpha", "beta", "gamma"]);
    assert_eq!(under_cursor(&app), "beta", "the selection stays with its cluster");
    // An attempt to reconnect does not resolve the issue, so the row does not move at each attempt.
    let trying = Link::Connecting { phase: Phase::Tunnel, since: NOW };
    send_update(&mut app, "delta", ClusterEvent::Link(trying));
    assert_eq!((order(&app)[0], app.fleet().alerts()), ("delta", 1));
    send_update(&mut app, "gamma", ClusterEvent::Link(gone()));
    assert_eq!(order(&app), ["gamma", "delta", "alpha", "beta"], "in listed order");
    for name in ["gamma", "delta"] {
        send_update(&mut app, name, ClusterEvent::Link(up()));
    }
    assert_eq!((order(&app), app.fleet().alerts()), (NAMES.to_vec(), 0));
}

#[test]
fn a_reconnect_attempt_does_not_change_the_screen() {
    let mut app = fleet();
    press(&mut app, "<enter>");
    let of = |app: &mut App| {
        let panes = areas(app, 120, 40);
        let [nodes, jobs] =
            [panes.nodes, panes.jobs].map(|table| table.map(|table| (table.rows, table.headers)));
        let cluster = app.current().unwrap();
        (cluster.problem().cloned(), cluster.is_stale(NOW), app.fleet().alerts(), nodes, jobs)
    };
    let healthy = of(&mut app);
    send_update(&mut app, "alpha", ClusterEvent::Link(gone()));
    let broken = of(&mut app);
    assert_ne!(broken, healthy);
    send_update(
        &mut app,
        "alpha",
        ClusterEvent::Link(Link::Connecting { phase: Phase::Dashboard, since: NOW }),
    );
    assert_eq!(of(&mut app), broken);
    send_update(&mut app, "alpha", ClusterEvent::Link(up()));
    assert_eq!(of(&mut app), healthy);
}

#[test]
fn data_within_a_long_poll_interval_is_not_stale() {
    let minutes = |n: u64| Duration::from_secs(n * 60);
    let poll_intervals = PollIntervals { focused: minutes(1), background: minutes(10), cloud: minutes(60) };
    let mut app = fleet().with_poll_intervals(poll_intervals);
    send_update(
        &mut app,
        "alpha",
        ClusterEvent::Cloud(Ok(Arc::new(CloudView { queried: NOW, ..CloudView::default() }))),
    );
    let at = |age: Duration| calm("alpha").taken.plus(age);
    let stale = |app: &App, age: Duration| app.clusters()[0].is_stale(at(age));
    assert!(!stale(&app, minutes(19)) && stale(&app, minutes(20)), "in the list");
    assert_eq!(app.fresh(), minutes(20));
    press(&mut app, "<enter>");
    assert!(!stale(&app, minutes(1)) && stale(&app, minutes(2)), "on the screen");
    press(&mut app, "q");
    assert!(!stale(&app, minutes(19)), "in the list again");
    let alpha = &app.clusters()[0];
    assert!(!alpha.is_google_stale(NOW.plus(minutes(119))) && alpha.is_google_stale(NOW.plus(minutes(120))));
    let usual = fleet();
    assert!(!stale(&usual, Duration::from_secs(29)) && stale(&usual, Duration::from_secs(30)));
}

#[test]
fn the_fleet_can_be_sorted_by_a_column_and_reversed() {
    let mut app = fleet();
    let mut large = calm("gamma");
    let nodes = Arc::make_mut(&mut large.nodes);
    nodes.extend((1..9).map(|n| node(n, "tpu_worker", 4.0, 1.0)));
    send_update(&mut app, "gamma", ClusterEvent::Snapshot(Arc::new(large)));
    press(&mut app, ">");
    assert_eq!(order(&app), ["alpha", "beta", "delta", "gamma"], "by name");
    press(&mut app, "I");
    assert_eq!(order(&app), ["gamma", "delta", "beta", "alpha"]);
    press(&mut app, ">");
    assert_eq!(order(&app), ["gamma", "alpha", "beta", "delta"], "by nodes");
    press(&mut app, "<<");
    assert_eq!(order(&app), NAMES, "by issue again");
}

#[test]
fn totals_keep_known_values() {
    let mut app = fleet();
    let all = app.fleet().totals();
    assert_eq!((all.clusters, all.up, all.nodes, all.running), (4, 4, 8, 4));
    assert_eq!(all.tpus, Sum { used: Some(16.0), is_lower_bound: false, all: 32.0 });
    send_update(&mut app, "alpha", ClusterEvent::Link(gone()));
    assert_eq!((app.fleet().totals().up, app.fleet().totals().nodes), (3, 8), "known values are kept");
}

#[test]
fn unknown_use_is_not_counted_as_zero() {
    let mut app = fleet();
    let unknown = |app: &mut App, name: &str| {
        let mut state = calm(name);
        for node in Arc::make_mut(&mut state.nodes) {
            for resource in &mut node.resources.0 {
                resource.used = None;
            }
        }
        send_update(app, name, ClusterEvent::Snapshot(Arc::new(state)));
    };
    unknown(&mut app, "beta");
    assert_eq!(app.fleet().totals().tpus, Sum { used: Some(12.0), is_lower_bound: true, all: 32.0 });
    for name in ["alpha", "gamma", "delta"] {
        unknown(&mut app, name);
    }
    assert_eq!(app.fleet().totals().tpus, Sum { used: None, is_lower_bound: true, all: 32.0 });
}

#[test]
fn an_alert_anywhere_changes_the_screen_of_every_cluster() {
    let mut app = fleet();
    press(&mut app, "<enter>");
    paint(&mut app, 120, 40);
    send_update(&mut app, "delta", ClusterEvent::Link(Link::Connecting { phase: Phase::Tunnel, since: NOW }));
    assert!(!app.is_dirty(), "another cluster's connection phase is not on the screen");
    send_update(&mut app, "delta", ClusterEvent::Link(gone()));
    assert!(app.is_dirty());
    assert!(paint(&mut app, 120, 40).1.contains("⚑ 1 issue"));
}

#[test]
fn leaving_returns_to_the_same_row_and_scroll() {
    let names: Vec<String> = (0..60).map(|n| format!("cluster-{n:02}")).collect();
    let mut app = app(&names.iter().map(String::as_str).collect::<Vec<_>>());
    paint(&mut app, 80, 24);
    press(&mut app, &"j".repeat(40));
    press(&mut app, "kkk");
    paint(&mut app, 80, 24);
    let before = (app.pages().clusters.cursor(), app.pages().clusters.window(app.pages().clusters.height()));
    assert!(before.1 > 0);
    press(&mut app, "<enter>");
    assert_eq!(app.view().clone(), View::Cluster(37));
    paint(&mut app, 80, 24);
    press(&mut app, "q");
    paint(&mut app, 80, 24);
    assert_eq!(
        (app.pages().clusters.cursor(), app.pages().clusters.window(app.pages().clusters.height())),
        before
    );
}

#[test]
fn an_idle_fleet_draws_nothing() {
    let mut app = fleet();
    paint(&mut app, 200, 60);
    for name in NAMES {
        let again = Snapshot { taken: NOW, ..calm(name) };
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(again)));
    }
    assert!(!app.is_dirty(), "the same state again");
    let next = |app: &App| app.next_change(NOW).unwrap();
    assert!(next(&app) > Duration::from_secs(20), "{:?}", next(&app));
    let refused = problem(ProblemKind::HostKeyChanged { known: "a".into(), offered: "b".into() }, "x", "");
    send_update(&mut app, "alpha", ClusterEvent::Link(Link::Stopped { problem: refused }));
    assert!(next(&app) > Duration::from_secs(20), "no countdown there: {:?}", next(&app));
    send_update(&mut app, "alpha", ClusterEvent::Link(gone()));
    assert!(next(&app) <= Duration::from_secs(1), "a countdown is on the screen");
}

/// Snapshots of a cluster with unmet demand, every 15 s.
fn starve(app: &mut App, name: &str, secs: u64) {
    for at in (0..=secs).step_by(15) {
        let mut state = calm(name);
        state.taken = NOW.plus(Duration::from_secs(at));
        let report = Arc::make_mut(&mut state.autoscaler);
        report.reported = Some(state.taken);
        report.demands = vec![Demand {
            shape: vec![("TPU".into(), 4.0)],
            count: 37,
            kind: DemandKind::Task,
            infeasible: false,
        }];
        send_update(app, name, ClusterEvent::Snapshot(Arc::new(state)));
    }
}

#[test]
fn a_stuck_autoscaler_becomes_an_alert_after_a_while() {
    let mut app = fleet();
    starve(&mut app, "gamma", 165);
    let found = |app: &App| app.clusters()[2].worst().map(|f| (f.kind, f.severity));
    assert_eq!((found(&app), app.fleet().alerts()), (Some((FindingKind::Unmet, Severity::Warn)), 0));
    assert_eq!(order(&app)[0], "gamma");
    starve(&mut app, "delta", 180);
    assert_eq!(app.fleet().alerts(), 1);
    assert_eq!(order(&app), ["delta", "gamma", "alpha", "beta"], "the worse first");
}

fn all_nodes(app: &App) -> Vec<String> {
    keys(app, table(app, &ALL_NODES))
}

fn all_jobs(app: &App) -> Vec<String> {
    keys(app, table(app, &ALL_JOBS))
}

#[test]
fn nodes_of_all_clusters_share_one_table_filter_and_order() {
    let mut app = fleet();
    press(&mut app, "N");
    assert_eq!((app.view().clone(), all_nodes(&app).len()), (View::Table(&ALL_NODES), 8));
    press(&mut app, "/gam");
    assert_eq!(all_nodes(&app), ["gamma-0", "gamma-1"], "the filter also matches the cluster's name");
    press(&mut app, "<esc>>");
    assert_eq!(all_nodes(&app)[..3], ["alpha-0", "alpha-1", "beta-0"], "by cluster");
    press(&mut app, "I");
    assert_eq!(all_nodes(&app)[0], "gamma-0");
    press(&mut app, "J");
    assert_eq!(app.view().clone(), View::Table(&ALL_JOBS));
    assert_eq!(
        all_jobs(&app)[..4],
        ["alpha-run", "beta-run", "delta-run", "gamma-run"],
        "newest running first"
    );
    press(&mut app, "<esc>");
    assert_eq!(app.view().clone(), View::Table(&ALL_NODES), "the page that it was opened from");
    assert_eq!(press(&mut app, "q"), [], "q leads to the fleet first");
    assert_eq!(app.view().clone(), View::Clusters);
    // From a cluster as well.
    press(&mut app, "<enter>");
    let cluster = app.view().clone();
    press(&mut app, "J");
    assert_eq!(app.view().clone(), View::Table(&ALL_JOBS));
    press(&mut app, "<esc>");
    assert_eq!(app.view().clone(), cluster);
}

#[test]
fn a_row_of_all_clusters_opens_its_cluster_and_leaving_returns_to_the_row() {
    let mut app = fleet();
    press(&mut app, "J/delta<enter>j");
    let effects = press(&mut app, "<enter>");
    assert!(effects.contains(&ask("delta", Request::Focus(true))), "{effects:?}");
    let stream = app.log().unwrap().stream();
    let follow = Request::Follow(stream, LogSource::Job(id("delta-old")));
    assert!(effects.contains(&ask("delta", follow)), "its log, and not another job's: {effects:?}");
    assert_eq!(app.view().clone(), View::Log(3));
    press(&mut app, "q");
    assert_eq!((app.view().clone(), table(&app, &ALL_JOBS).cursor()), (View::Table(&ALL_JOBS), 1));
    assert_eq!(table(&app, &ALL_JOBS).filter().text(), "delta");
    press(&mut app, "N/beta-1<enter><enter>");
    assert_eq!((app.view().clone(), app.pane()), (View::Cluster(1), Pane::Nodes));
    assert_eq!(app.target_node().map(|(_, n)| n).unwrap().name.raw(), "beta-1");
    // A filter of the cluster's own that hides the row is cleared.
    press(&mut app, "/beta-0<enter>qkq");
    press(&mut app, "N<enter>");
    assert_eq!(app.target_node().map(|(_, n)| n).unwrap().name.raw(), "beta-1");
}

#[test]
fn jobs_and_nodes_that_could_not_be_read_are_unknown() {
    let unread = |part| vec![MissingPart { part, why: "timed out".into() }];
    let jobs = || Snapshot { jobs: Arc::default(), missing: unread(SnapshotPart::Jobs), ..calm("alpha") };
    let nodes = || Snapshot { nodes: Arc::default(), missing: unread(SnapshotPart::Nodes), ..calm("beta") };
    let connected = |states: Vec<(&str, Snapshot)>| {
        let mut app = app(&states.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for (name, state) in states {
            send_update(&mut app, name, ClusterEvent::Link(up()));
            send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(state)));
        }
        app
    };
    let title = |app: &App| app.listing().unwrap().counts(&app.cell_context(NOW)).text.into_owned();
    let why = |app: &App| app.listing().unwrap().why_empty(&app.cell_context(NOW));

    let mut app = connected(vec![("alpha", jobs()), ("beta", nodes())]);
    let cell = |name: &str, title: &str| {
        let (list, context) = (&app.pages().clusters, app.cell_context(NOW));
        let row = order(&app).iter().position(|cluster| *cluster == name).unwrap();
        let column = list.headers(&context, 10).iter().position(|header| header.title == title).unwrap();
        list.cells(&context, row)[column].text.trim().to_owned()
    };
    assert_eq!([cell("alpha", "JOBS"), cell("alpha", "NODES"), cell("alpha", "CHIPS")], ["?", "2", "4/8"]);
    assert_eq!([cell("beta", "NODES"), cell("beta", "CHIPS")], ["?", "?"]);
    assert!(cell("beta", "JOBS").starts_with('1'), "{}", cell("beta", "JOBS"));
    press(&mut app, "N");
    assert!(title(&app).starts_with("2 alive in 1 of 2 clusters"), "{}", title(&app));

    let mut app = connected(vec![("alpha", jobs()), ("beta", jobs())]);
    press(&mut app, "J");
    assert_eq!(title(&app), "? running · ? pending");
    assert_eq!(why(&app), "not read on alpha and beta: timed out");

    let mut app = connected(vec![("alpha", jobs())]);
    app.start(None);
    press(&mut app, "2");
    assert_eq!((title(&app).as_str(), why(&app).as_str()), ("? running", "not read: timed out"));
    // An empty list that was read stays known until Ray is started again.
    let none = Snapshot { jobs: Arc::default(), ..calm("alpha") };
    let new_session = Snapshot { session: "another".into(), ..jobs() };
    for (state, shown) in [(none, "0 running"), (jobs(), "0 running"), (new_session, "? running")] {
        send_update(&mut app, "alpha", ClusterEvent::Snapshot(Arc::new(state)));
        assert_eq!(title(&app), shown);
    }
    let mut app = connected(vec![("beta", nodes())]);
    app.start(None);
    press(&mut app, "1");
    assert_eq!((title(&app).as_str(), why(&app).as_str()), ("? alive", "not read: timed out"));
    press(&mut app, "v");
    assert_eq!((title(&app).as_str(), why(&app).as_str()), ("? hosts alive", "not read: timed out"));
}

#[test]
fn actions_on_a_row_of_all_clusters_name_its_cluster() {
    let mut app = fleet();
    press(&mut app, "J/beta-run<enter>");
    press(&mut app, "s");
    let Some(Dialog::Ask { lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert!(lines.iter().any(|(_, text)| text == "beta"));
    assert_eq!(press(&mut app, "yy"), [ask("beta", Request::StopJob(id("beta-run")))]);
    assert_eq!(press(&mut app, "!"), [Effect::SshHead(ClusterName::new("beta"))]);
    assert!(matches!(&press(&mut app, "y")[..], [Effect::Copy { text, .. }] if text == "beta-run"));
    press(&mut app, "d");
    assert!(details(&app).iter().any(|(_, text)| text == "beta-run"));
    press(&mut app, "<esc>");
    let effects = press(&mut app, "l");
    let stream = app.log().unwrap().stream();
    let follow = Request::Follow(stream, LogSource::Job(id("beta-run")));
    assert_eq!(effects, [ask("beta", follow), ask("beta", Request::Focus(true))]);
}

#[test]
fn the_selection_of_all_clusters_follows_its_row_through_updates() {
    let mut app = fleet();
    press(&mut app, "Jjjj");
    let chosen = |app: &App| app.target_job().map(|(_, j)| j.key.to_string());
    assert_eq!(chosen(&app).as_deref(), Some("gamma-run"));
    let mut more = calm("alpha");
    Arc::make_mut(&mut more.jobs).push(Arc::new(job("alpha-new", JobStatus::Running, "x", 1)));
    send_update(&mut app, "alpha", ClusterEvent::Snapshot(Arc::new(more)));
    assert_eq!(all_jobs(&app).len(), 9);
    assert_eq!(chosen(&app).as_deref(), Some("gamma-run"));
    let none = Snapshot { jobs: Arc::default(), ..calm("gamma") };
    send_update(&mut app, "gamma", ClusterEvent::Snapshot(Arc::new(none)));
    assert_eq!(all_jobs(&app).len(), 7);
    assert!(chosen(&app).is_some(), "the cursor moves to another row");
}

#[test]
fn machine_figures_are_requested_from_each_cluster_and_cancelled() {
    let mut app = fleet();
    press(&mut app, "N");
    let requests = |effects: Vec<Effect>| {
        let one = |e: Effect| match e {
            Effect::Ask(name, Request::Visible(ids)) => (name.to_string(), ids.len()),
            other => panic!("{other:?}"),
        };
        effects.into_iter().map(one).collect::<std::collections::BTreeMap<_, _>>()
    };
    let all = |n: usize| NAMES.map(|name| (name.to_owned(), n)).into();
    assert_eq!(requests(paint(&mut app, 120, 40).0), all(2));
    assert_eq!(paint(&mut app, 120, 40).0, []);
    press(&mut app, "q");
    assert_eq!(requests(paint(&mut app, 120, 40).0), all(0));
}

#[test]
fn a_click_in_the_table_of_all_clusters_selects_and_a_second_one_opens() {
    let mut app = fleet();
    press(&mut app, "N");
    paint(&mut app, 120, 40);
    let rows = areas(&app, 120, 40).table.unwrap().rows;
    assert_eq!(point(&mut app, CLICK, rows.x, rows.y + 2), []);
    assert_eq!(table(&app, &ALL_NODES).cursor(), 2);
    point(&mut app, MouseEventKind::ScrollDown, rows.x, rows.y);
    assert_eq!(table(&app, &ALL_NODES).cursor(), 5);
    point(&mut app, CLICK, rows.x, rows.y + 5);
    assert!(matches!(app.view().clone(), View::Cluster(_)));
}

#[test]
fn leaving_a_single_cluster_returns_to_the_page_that_opened_it() {
    let mut app = shown();
    press(&mut app, "cN<enter>");
    assert_eq!(app.view().clone(), View::Cluster(0));
    press(&mut app, "q");
    assert_eq!(app.view().clone(), View::Table(&ALL_NODES));
    assert_eq!(press(&mut app, "q"), []);
    assert_eq!(app.view().clone(), View::Clusters);
    assert_eq!(press(&mut app, "q"), [Effect::Quit]);
}

#[test]
fn a_clusters_description_lists_all_findings() {
    let mut app = fleet();
    starve(&mut app, "alpha", 180);
    press(&mut app, "d");
    let lines = details(&app);
    let at = lines.iter().position(|(_, text)| text.starts_with("▲ autoscaler stuck")).unwrap();
    assert!(lines[at].1.contains("37 demands unmet") && lines[at].1.contains("nothing launching"));
    let View::Details(page) = app.view() else { panic!("{:?}", app.view()) };
    let later = app.cell_context(NOW.plus(Duration::from_secs(180)));
    let lines_later = marin_tui::app::text::details::lines(&later, page).1;
    assert!(lines_later[at].1.contains(" (for "), "{lines_later:?}");
    assert!(lines[at + 1].0 == "hint" && lines[at + 1].1.contains("monitor.log"));
}

#[test]
fn a_restart_by_another_operator_is_reported_and_ours_is_not() {
    let restarted = |name: &str| Snapshot { session: "another".into(), jobs: Arc::default(), ..calm(name) };
    let mut app = fleet();
    send_update(&mut app, "beta", ClusterEvent::Snapshot(Arc::new(restarted("beta"))));
    let found = &app.clusters()[1].findings[0];
    assert_eq!((found.kind, found.severity), (FindingKind::Restarted, Severity::Bad));
    assert!(found.long.contains("1 job lost: beta-run (alice)"), "{found:?}");
    assert_eq!(order(&app)[0], "beta");
    assert!(said(&app).contains("outside this console; 1 job lost"), "{}", said(&app));
    // An operation of this console is running on another cluster.
    let restart = Operation::new(Task::Restart { preserve: false }, ClusterName::new("gamma"));
    app.update(Event::Operation(ClusterName::new("gamma"), OperationEvent::Began(restart)), NOW);
    send_update(&mut app, "gamma", ClusterEvent::Snapshot(Arc::new(restarted("gamma"))));
    assert!(app.clusters()[2].findings.iter().all(|f| f.kind != FindingKind::Restarted));
}

#[test]
fn recent_changes_are_kept_and_the_first_state_is_not_a_change() {
    let mut app = fleet();
    assert_eq!(app.fleet().recent_changes.changes().len(), 0, "there are no changes yet");
    let mut state = calm("beta");
    let failed = Job { status: JobStatus::Failed, ended: Some(NOW), ..(*state.jobs[0]).clone() };
    let short = failed.short_name().into_owned();
    Arc::make_mut(&mut state.jobs)[0] = Arc::new(failed);
    send_update(&mut app, "beta", ClusterEvent::Snapshot(Arc::new(state)));
    send_update(&mut app, "gamma", ClusterEvent::Link(gone()));
    let line = |change: &Change| format!("{}: {}", labels::named(&change.clusters), change.what);
    let recent_changes: Vec<String> = app.fleet().recent_changes.changes().map(line).collect();
    assert!(recent_changes[0].starts_with("gamma: down"), "the newest first: {recent_changes:?}");
    assert!(
        recent_changes[1].starts_with("beta: ") && recent_changes[1].contains(&format!("failed {short}")),
        "{recent_changes:?}"
    );
    assert_eq!(recent_changes.len(), 2, "{recent_changes:?}");
    // The fleet shows them if there is room, below the issues.
    press(&mut app, "c");
    for (width, height) in [(120, 40), (200, 60)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|f| _ = draw(f, &app, &Theme::new(Colors::None), NOW)).unwrap();
        assert!(terminal.backend().to_string().contains("Hint: look  gamma"), "{width}");
    }
}

#[test]
fn issues_of_all_clusters_are_one_table() {
    let mut app = app(&["alpha", "beta", "gamma"]);
    for name in ["alpha", "gamma"] {
        let gone = problem(ProblemKind::Unreachable, &format!("no route to {name}"), "start it");
        send_update(&mut app, name, ClusterEvent::Link(Link::Retrying { problem: gone, at: NOW }));
    }
    press(&mut app, "<down><down>E");
    let issues = |app: &App| {
        let listing = app.listing().unwrap();
        let rows = (0..listing.len()).map(|at| listing.cells(&app.cell_context(NOW), at));
        rows.map(|cells| cells.iter().map(|c| c.text.to_string()).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let found = issues(&app);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("alpha") && found[0].contains("no route to alpha. Hint: start it"),
        "{found:?}"
    );
    // During a restart it is expected to be unreachable; the next update of any kind has the new issues.
    let operation = Operation::new(Task::Restart { preserve: true }, ClusterName::new("alpha"));
    app.update(Event::Operation(ClusterName::new("alpha"), OperationEvent::Began(operation)), NOW);
    send_update(&mut app, "alpha", ClusterEvent::Cost(Cost::default()));
    let found = issues(&app);
    assert!(found.len() == 1 && found[0].contains("gamma"), "{found:?}");
    press(&mut app, "/gamma<enter>");
    assert_eq!(issues(&app).len(), 1);
    press(&mut app, "<enter>");
    assert_eq!(*app.view(), View::Cluster(2));
    // A click on the number of alerts opens the same table.
    let (_, footer) = paint(&mut app, 120, 40);
    let column = footer.chars().position(|c| c == '⚑').unwrap();
    point(&mut app, CLICK, u16::try_from(column).unwrap(), 39);
    assert_eq!(app.context(), Context::Table);
}
