//! Searches through the logs of several clusters, and the lines that Ray deduplicated in a driver's log.

use super::*;
use marin_tui::model::amount::counted;
use marin_tui::model::{
    ClusterName, CompressedLog, FileMatches, FileSearch, FileSearchEvent, FileSearchId, LineMatch,
    SearchTally,
};

fn search_of(effects: &[Effect]) -> FileSearch {
    let search = effects.iter().find_map(|effect| match effect {
        Effect::Ask(_, Request::SearchFiles(search)) => Some((**search).clone()),
        _ => None,
    });
    search.unwrap_or_else(|| panic!("{effects:?}"))
}

/// Presses Esc until this context is on the screen: the first press may only dismiss a message. Returns the effects.
fn back_to(app: &mut App, context: Context) -> Vec<Effect> {
    let mut effects = Vec::new();
    for _ in 0..3 {
        if app.context() != context {
            effects.extend(press(app, "<esc>"));
        }
    }
    assert_eq!(app.context(), context);
    effects
}

fn row(app: &App, position: usize) -> String {
    let cells = app.listing().unwrap().cells(&app.cell_context(NOW), position);
    cells.iter().map(|cell| cell.text.trim()).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" | ")
}

fn counts(app: &App) -> String {
    app.listing().unwrap().counts(&app.cell_context(NOW)).text.into_owned()
}

/// The latest message of the list.
fn kept(app: &App) -> &str {
    &app.toasts().messages().next().unwrap().text
}

/// Whether a message on the screen has this text.
fn shows(app: &App, text: &str) -> bool {
    app.toasts().shown().iter().any(|toast| toast.text.contains(text))
}

/// A file of the head with two matching lines.
fn file(app: &App, name: &str) -> FileMatches {
    let head = app.clusters()[0].snapshot.nodes.iter().find(|node| node.is_head).unwrap().id;
    let line = |n: u64| LineMatch {
        line: format!("boom {n}").into(),
        time: None,
        above: vec![format!("above {n}")],
        at: None,
    };
    FileMatches { node: head, name: name.into(), lines: vec![line(1), line(2)], more: 3, is_whole: false }
}

fn found(app: &mut App, id: FileSearchId, files: Vec<FileMatches>) {
    send_update(app, CLUSTER, ClusterEvent::FileSearch(id, FileSearchEvent::Found(files)));
}

#[test]
fn the_logs_of_a_cluster_are_searched_and_a_line_opens_its_log() {
    let mut app = shown();
    press(&mut app, "g/(<enter>");
    assert!(!app.prompt().unwrap().wrong.is_empty(), "the pattern has to be corrected");
    let search = search_of(&press(&mut app, "<backspace>boom<enter>"));
    let head = search.nodes.iter().find(|node| node.is_head).unwrap();
    assert_eq!(search.pattern, "boom");
    assert!(search.nodes.len() > 1, "{search:?}");
    assert!(search.nodes.iter().all(|node| node.globs == ["job-driver-*", "worker-*"]), "{search:?}");
    let address = app.clusters()[0].node(&head.node).unwrap().address.clone();
    assert_eq!(head.host.internal, address);
    let nodes = counted(search.nodes.len(), "node");
    let title = counts(&app);
    for part in [&format!("`boom` in {CLUSTER}"), "0 lines of 0 files", &format!("searched 0 of {nodes}")] {
        assert!(title.contains(part), "{part}: {title}");
    }
    let files = [file(&app, "worker-ab-01000000-77.err"), file(&app, "raylet.out")];
    found(&mut app, search.id, files.to_vec());
    found(&mut app, FileSearchId(u64::MAX), files.to_vec());
    assert_eq!(app.listing().unwrap().len(), 4, "the results of another search are ignored");
    send_update(&mut app, CLUSTER, ClusterEvent::FileSearch(search.id, FileSearchEvent::NodesSearched(1)));
    assert!(counts(&app).contains(&format!("searched 1 of {nodes}")), "{}", counts(&app));
    let tally = SearchTally {
        files: 9,
        whole: 5,
        incomplete: vec!["cannot read x".into(), "y".into()],
        ..SearchTally::default()
    };
    send_update(&mut app, CLUSTER, ClusterEvent::FileSearch(search.id, FileSearchEvent::Done(tally)));
    assert!(kept(&app).contains("cannot read x, and 1 more"), "{}", kept(&app));
    assert!(!shows(&app, "cannot read x"), "the title has it");
    let title = counts(&app);
    let (omissions, found) = title.split_once(" · `boom`").unwrap();
    assert_eq!(omissions, "done · only the last 1,000 lines of 4 files · incomplete");
    assert!(title.ends_with(&format!(" · {CLUSTER}: cannot read x, and 1 more")), "{title}");
    assert!(found.contains("4 lines of 2 files · 6 more"), "{title}");
    assert!(row(&app, 0).contains(" raylet.out | boom 1"), "{}", row(&app, 0));
    assert!(row(&app, 3).contains("/77 err | boom 2"), "{}", row(&app, 3));
    press(&mut app, "jj");
    let effects = press(&mut app, "<enter>");
    let is_it = |effect: &Effect| match effect {
        Effect::Ask(_, Request::Follow(_, LogSource::File { name, .. })) => name.raw().ends_with("-77.err"),
        _ => false,
    };
    assert!(effects.iter().any(is_it), "{effects:?}");
    let stream = app.log().unwrap().stream();
    let text = ["above 0", "boom 1", "above 1", "boom 1", "above 0", "boom 1"];
    let part = text.map(Line::from).to_vec().into();
    send_update(&mut app, CLUSTER, ClusterEvent::Log(LogBatch { stream, part, end: LogEnd::Open }));
    assert!(app.log().unwrap().is_at(3), "the line with the same line above it");
    back_to(&mut app, Context::Table);
    assert_eq!(app.listing().unwrap().cursor(), 2);
}

#[test]
fn compressed_files_are_reported_as_not_searched() {
    let mut app = shown();
    let search = search_of(&press(&mut app, "g/boom<enter>"));
    let of = |name: &str| CompressedLog::of(&ClusterName::new(CLUSTER), None, &name.into());
    let compressed: Vec<CompressedLog> = ["a.out.1.gz", "b.out.1.zst"].into_iter().filter_map(of).collect();
    let tally = SearchTally { files: 9, whole: 9, compressed, ..SearchTally::default() };
    send_update(&mut app, CLUSTER, ClusterEvent::FileSearch(search.id, FileSearchEvent::Done(tally)));
    let said = kept(&app);
    assert!(
        said.contains("2 compressed files were not searched: a.out.1.gz, b.out.1.zst; search one"),
        "{said}"
    );
    assert!(counts(&app).starts_with("done · 2 compressed files not searched · "), "{}", counts(&app));
    let mut files = vec![file(&app, "worker-ab-01000000-77.err.1")];
    files[0].lines.truncate(1);
    let search = search_of(&press(&mut app, "g/boom<enter>"));
    found(&mut app, search.id, files);
    assert!(row(&app, 0).contains("/77 err.1 | boom 1"), "{}", row(&app, 0));
}

#[test]
fn a_match_on_a_host_opens_at_its_position() {
    let mut app = shown();
    let search = search_of(&press(&mut app, "g/boom<enter>"));
    let mut files = vec![file(&app, "raylet.out")];
    files[0].lines.truncate(1);
    files[0].lines[0] = LineMatch { above: Vec::new(), at: Some(512), ..files[0].lines[0].clone() };
    found(&mut app, search.id, files);
    let tally = SearchTally {
        files: 9,
        whole: 9,
        ends: vec!["10.0.0.7: Permission denied".into()],
        ..SearchTally::default()
    };
    send_update(&mut app, CLUSTER, ClusterEvent::FileSearch(search.id, FileSearchEvent::Done(tally)));
    assert!(kept(&app).contains("10.0.0.7: Permission"), "{}", kept(&app));
    assert!(!counts(&app).contains("compressed"), "{}", counts(&app));
    assert!(counts(&app).ends_with("searched all of 9 files"), "{}", counts(&app));
    press(&mut app, "<enter>");
    let stream = app.log().unwrap().stream();
    let part = |from: u64, texts: [&str; 3]| LogPart {
        lines: texts.map(Line::from).to_vec(),
        bytes: from..from + 512,
        begin: Some(0),
    };
    let end = part(1024, ["boom 1", "fine", "boom 1"]);
    send_update(&mut app, CLUSTER, ClusterEvent::Log(LogBatch { stream, part: end, end: LogEnd::Open }));
    assert!(app.log().unwrap().follows(), "other lines with the same text do not match");
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::OlderLog { stream, part: Ok(part(512, ["boom 1", "x", "y"])) },
    );
    assert!(app.log().unwrap().is_at(0), "the line at that position");
}

#[test]
fn a_cluster_that_was_not_searched_is_reported() {
    let mut app = shown();
    let search = search_of(&press(&mut app, "g/boom<enter>"));
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::FileSearch(search.id, FileSearchEvent::Failed("the token was refused".into())),
    );
    assert!(kept(&app).contains("logs not searched"), "{}", kept(&app));
    assert!(counts(&app).contains("1 cluster not searched"), "{}", counts(&app));
    assert!(!shows(&app, "not searched"), "messages would cover the results");
    let why = app.listing().unwrap().why_empty(&app.cell_context(NOW));
    assert!(why.contains("no clusters were searched"), "{why}");
    press(&mut app, "Y");
    let offered = app.offers();
    assert!(offered.iter().any(|offer| offer.text == "not searched"), "{offered:?}");
}

#[test]
fn what_was_not_searched_is_a_passing_message_on_another_page() {
    let mut app = shown();
    let search = search_of(&press(&mut app, "g/boom<enter>"));
    press(&mut app, "<esc>");
    assert_ne!(app.context(), Context::Table);
    let failed = FileSearchEvent::Failed("the token was refused".into());
    send_update(&mut app, CLUSTER, ClusterEvent::FileSearch(search.id, failed));
    assert!(shows(&app, "logs not searched: the token was refused"));
    app.update(Event::Tick, NOW.plus(Duration::from_secs(60)));
    assert!(!shows(&app, "not searched") && kept(&app).contains("the token was refused"));
}

#[test]
fn the_names_of_all_clusters_fit_even_if_the_first_one_has_most_results() {
    let names = ["marin-a", "marin-with-a-longer-name"];
    let mut app = app(&names);
    app.start(None);
    for name in names {
        send_update(&mut app, name, ClusterEvent::Link(up()));
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(snapshot())));
    }
    let id = search_of(&press(&mut app, "g/boom<enter>")).id;
    for (name, files) in names.into_iter().zip([80, 1]) {
        let files = (0..files).map(|n| file(&app, &format!("worker-{n}.err"))).collect();
        send_update(&mut app, name, ClusterEvent::FileSearch(id, FileSearchEvent::Found(files)));
    }
    let headers = app.listing().unwrap().headers(&app.cell_context(NOW), 20);
    let cluster = headers.iter().find(|head| head.title == "CLUSTER").unwrap();
    assert_eq!(usize::from(cluster.widest), "with-a-longer-name".len());
}

#[test]
fn the_progress_of_a_search_never_decreases_and_its_end_is_shown() {
    let mut app = app(&[CLUSTER, "marin-eu"]);
    app.start(None);
    for name in [CLUSTER, "marin-eu"] {
        send_update(&mut app, name, ClusterEvent::Link(up()));
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(snapshot())));
    }
    let search = search_of(&press(&mut app, "g/boom<enter>"));
    let (one, all) = (search.nodes.len(), counted(search.nodes.len() * 2, "node"));
    assert!(counts(&app).starts_with(&format!("searched 0 of {all}")), "{}", counts(&app));
    let mut send = |name: &str, event| {
        send_update(&mut app, name, ClusterEvent::FileSearch(search.id, event));
        counts(&app)
    };
    send("marin-eu", FileSearchEvent::NodesSearched(1));
    let failed = send(CLUSTER, FileSearchEvent::Failed("the token was refused".into()));
    assert!(failed.starts_with(&format!("searched {} of {all}", one + 1)), "{failed}");
    let tally = SearchTally { files: 9, whole: 9, ..SearchTally::default() };
    let done = send("marin-eu", FileSearchEvent::Done(tally));
    assert!(done.starts_with("done · 1 cluster not searched · "), "{done}");
    assert!(done.contains("searched all of 9 files"), "{done}");
}

#[test]
fn a_cluster_with_unknown_nodes_is_not_searched_and_is_reported() {
    let mut app = app(&[CLUSTER, "marin-eu"]);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot())));
    let requests = press(&mut app, "g/boom<enter>");
    assert_eq!(requests.iter().filter(|e| matches!(e, Effect::Ask(_, Request::SearchFiles(_)))).count(), 1);
    assert!(kept(&app).contains("marin-eu: logs not searched"), "{}", kept(&app));
    assert!(counts(&app).contains("1 cluster not searched"), "{}", counts(&app));
}

#[test]
fn only_the_logs_of_marked_jobs_are_searched_when_some_are_marked() {
    let mut app = shown();
    press(&mut app, "/dclm<enter> ");
    let job = app.target_job().unwrap().1.key.clone();
    let search = search_of(&press(&mut app, "g/boom<enter>"));
    assert!(search.nodes[0].globs[0].starts_with("job-driver-"), "{search:?}");
    // Another search from the results covers the same job, though its marks are not on the screen.
    let again = search_of(&press(&mut app, "g/bang<enter>"));
    assert_eq!(again.nodes, search.nodes);
    // The page of a job needs no mark.
    press(&mut app, "<esc><esc>");
    assert_eq!(app.marked(), 0);
    assert_eq!(app.target_job().unwrap().1.key, job);
    press(&mut app, "d");
    assert_eq!(search_of(&press(&mut app, "g/boom<enter>")).nodes, search.nodes);
}

#[test]
fn a_cluster_is_searched_from_its_page_and_all_clusters_from_the_fleet() {
    let mut app = app(&[CLUSTER, "marin-eu"]);
    app.start(None);
    for name in [CLUSTER, "marin-eu"] {
        send_update(&mut app, name, ClusterEvent::Link(up()));
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(snapshot())));
    }
    let requests = |effects: &[Effect]| -> Vec<String> {
        let name = |effect: &Effect| match effect {
            Effect::Ask(name, Request::SearchFiles(_)) => Some(name.to_string()),
            _ => None,
        };
        effects.iter().filter_map(name).collect()
    };
    assert_eq!(requests(&press(&mut app, "g/boom<enter>")).len(), 2);
    press(&mut app, "<esc><enter>");
    let name = app.target_cluster().unwrap().name().to_string();
    press(&mut app, "g/");
    assert_eq!(app.search_scope_label(), name);
    assert_eq!(requests(&press(&mut app, "boom<enter>")), *std::slice::from_ref(&name));
    assert_eq!(
        requests(&press(&mut app, "g/bang<enter>")),
        *std::slice::from_ref(&name),
        "another search covers the same"
    );
    assert!(counts(&app).contains(&name), "{}", counts(&app));
}

#[test]
fn a_repeated_line_opens_the_lines_that_ray_deduplicated() {
    let mut app = shown();
    let stream = app.log().unwrap().stream();
    press(&mut app, "3z");
    let lines = ["(train pid=7, ip=10.0.0.1) ready in 3s", "(train pid=7, ip=10.0.0.1) saved 7 files"];
    let send_lines = |app: &mut App, lines: Vec<Line>| {
        send_update(
            app,
            CLUSTER,
            ClusterEvent::Log(LogBatch { stream, part: lines.into(), end: LogEnd::Open }),
        );
        paint(app, 120, 40);
    };
    send_lines(&mut app, lines.map(Line::from).to_vec());
    assert_eq!(press(&mut app, "<enter>"), []);
    assert!(said(&app).contains("[repeated Nx across cluster]"), "{}", said(&app));
    let mark = |line: &str| Line::from(format!("{line} [repeated 12x across cluster]"));
    send_lines(&mut app, lines.map(mark).to_vec());
    let last = search_of(&press(&mut app, "<enter>"));
    assert!(last.pattern.contains("saved"), "the last one in the window: {}", last.pattern);
    assert!(
        last.nodes.iter().flat_map(|node| &node.globs).all(|glob| glob.starts_with("worker-*")),
        "{last:?}"
    );
    assert!(counts(&app).contains("Ray printed 1 of 12"), "{}", counts(&app));
    back_to(&mut app, Context::Log);
    press(&mut app, "/ready in 3s .rep<enter>");
    let current = search_of(&press(&mut app, "<enter>"));
    assert!(current.pattern.contains("ready") && current.id > last.id, "{}", current.pattern);
    back_to(&mut app, Context::Log);
}

#[test]
fn a_log_is_shown_since_a_typed_time() {
    let mut app = shown();
    press(&mut app, "3zglmonitor.log<enter>");
    let stream = app.log().unwrap().stream();
    let line = |minute: u64| Line::from(format!("2026-11-20 08:{minute:02}:00,000 INFO line"));
    let part = (0..60).map(line).collect::<Vec<_>>().into();
    send_update(&mut app, CLUSTER, ClusterEvent::Log(LogBatch { stream, part, end: LogEnd::Open }));
    press(&mut app, "gdsoon<enter>");
    assert!(app.prompt().unwrap().wrong.starts_with("type 10m"), "{:?}", app.prompt());
    for _ in 0..4 {
        press(&mut app, "<backspace>");
    }
    press(&mut app, "2026-11-20 08:50<enter>");
    assert_eq!((app.prompt(), app.log().unwrap().len()), (None, 10));
    press(&mut app, "gd<enter>");
    assert_eq!(app.log().unwrap().len(), 60);
}

#[test]
fn esc_returns_from_a_workers_log_to_the_line_of_the_driver_log() {
    let mut app = shown();
    press(&mut app, "l");
    let driver = app.log().unwrap().source().cloned();
    let stream = app.log().unwrap().stream();
    let line = |n: u64| match n {
        500 => Line::from("(train pid=7, ip=10.0.0.1) ready [repeated 12x across cluster]"),
        _ => Line::from(format!("line {n}")),
    };
    let part: Vec<Line> = (0..1000).map(line).collect();
    let batch = |stream| ClusterEvent::Log(LogBatch { stream, part: part.clone().into(), end: LogEnd::Open });
    send_update(&mut app, CLUSTER, batch(stream));
    paint(&mut app, 120, 40);
    press(&mut app, "/ready<enter>");
    let search = search_of(&press(&mut app, "<enter>"));
    let files = vec![file(&app, "worker-ab-01000000-77.err")];
    found(&mut app, search.id, files);
    press(&mut app, "<enter>");
    assert!(app.context() == Context::Log && app.log().unwrap().source() != driver.as_ref());
    back_to(&mut app, Context::Table);
    let effects = back_to(&mut app, Context::Log);
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Ask(_, Request::Follow(..)))),
        "{effects:?}"
    );
    assert_eq!(app.log().unwrap().source(), driver.as_ref());
    let stream = app.log().unwrap().stream();
    send_update(&mut app, CLUSTER, batch(stream));
    assert!(app.log().unwrap().is_at(500), "at the line where it was left");
}

#[test]
fn esc_returns_to_the_log_in_the_pane_of_its_cluster() {
    let mut app = shown();
    press(&mut app, "3z");
    let driver = app.log().unwrap().source().cloned();
    assert!(driver.is_some());
    let requests = press(&mut app, "gw");
    super::job_workers::answer(&mut app, &requests);
    let at_work = press(&mut app, "<enter>");
    assert!(at_work.iter().any(|effect| matches!(effect, Effect::Ask(_, Request::Follow(..)))));
    assert!(app.context() == Context::Log && app.log().unwrap().source() != driver.as_ref());
    back_to(&mut app, Context::JobWorkers);
    // Another worker's log, and back to the page twice.
    press(&mut app, "j<enter>");
    back_to(&mut app, Context::JobWorkers);
    let effects = back_to(&mut app, Context::Log);
    assert_eq!(app.log().unwrap().source(), driver.as_ref(), "{effects:?}");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Ask(_, Request::Follow(..)))));
    // If the operator goes to the panes with a worker's log open, it stays open there.
    press(&mut app, "gw<enter>");
    let worker = app.log().unwrap().source().cloned();
    press(&mut app, "2");
    assert_eq!((app.context(), app.log().unwrap().source()), (Context::Jobs, worker.as_ref()));
    press(&mut app, "w<esc>");
    assert_eq!(app.log().unwrap().source(), worker.as_ref());
}

#[test]
fn another_log_is_chosen_from_a_list_by_letters_of_its_name() {
    let mut app = shown();
    press(&mut app, "3zgl");
    let offers: Vec<String> = app.offers().into_iter().map(|offer| offer.text).collect();
    assert!(offers.contains(&"monitor.err".to_owned()), "{offers:?}");
    for name in ["raylet.out", "gcs_server.out", "dashboard.log"] {
        assert!(offers.iter().any(|words| words.ends_with(&format!(" {name}"))), "{offers:?}");
    }
    let effects = press(&mut app, "monitor.err<enter>");
    let is_it = |effect: &Effect| match effect {
        Effect::Ask(_, Request::Follow(_, LogSource::Monitor(name))) => name == "monitor.err",
        _ => false,
    };
    assert!(effects.iter().any(is_it) && app.context() == Context::Log, "{effects:?}");
}

#[test]
fn matches_are_listed_only_over_the_log_that_was_searched() {
    let mut app = shown();
    press(&mut app, "3");
    let stream = app.log().unwrap().stream();
    let matches = || {
        let found = LogMatch { number: 7, line: "boom".into(), at: None };
        ClusterEvent::LogMatches {
            stream,
            pattern: "boom".into(),
            found: Ok(LogMatches { last: vec![found], ..LogMatches::default() }),
        }
    };
    press(&mut app, "T");
    send_update(&mut app, CLUSTER, matches());
    assert!(app.prompt().is_none(), "another page is on the screen: {:?}", app.view());
    back_to(&mut app, Context::Log);
    send_update(&mut app, CLUSTER, matches());
    assert!(app.prompt().is_some());
}

#[test]
fn the_driver_log_of_a_job_is_searched_on_the_head_that_runs() {
    let mut app = shown();
    let mut nodes = snapshot();
    let mut old = nodes.nodes.iter().find(|node| node.is_head).unwrap().clone();
    old.id = NodeId::from_bytes(&[77; 28]).unwrap();
    old.state = NodeState::Dead;
    Arc::make_mut(&mut nodes.nodes).insert(0, old.clone());
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(nodes)));
    let search = search_of(&press(&mut app, "2 g/boom<enter>"));
    assert!(search.nodes.iter().all(|node| node.node != old.id), "{search:?}");
}
