//! Keys, palette, help, footer, and navigation.

use super::*;
use marin_tui::app::Action;

#[test]
fn every_action_is_in_the_keymap_the_help_and_the_palette() {
    let mut app = shown();
    press(&mut app, "?");
    let Some(Dialog::Text { lines, .. }) = app.dialog() else { panic!("no help: {:?}", app.dialog()) };
    for action in actions() {
        let d = action.describe();
        let keys: Vec<String> = app.keymap().keys_of(*action).collect();
        assert!(!keys.is_empty(), "{} has no key", d.name);
        let line = lines.iter().find(|(_, text)| text.ends_with(&format!("({})", d.name)));
        let (shown, _) = line.unwrap_or_else(|| panic!("{} is not in the help", d.name));
        assert_eq!(*shown, keys.join(" "));
    }
    press(&mut app, "<esc>");
    let mut reached = Vec::new();
    for (keys, context) in [
        ("1", Context::Nodes),
        ("2", Context::Jobs),
        ("3", Context::Log),
        ("4", Context::Autoscaler),
        ("c", Context::Clusters),
        ("A", Context::AllTpus),
        ("c", Context::Clusters),
        ("N", Context::AllNodes),
        ("J", Context::AllJobs),
        ("d", Context::Job),
        ("T", Context::Tpus),
    ] {
        press(&mut app, keys);
        assert_eq!(app.context(), context);
        press(&mut app, ":");
        let here = app.offers().into_iter().filter(|offer| offer.is_here);
        let offered: Vec<String> = here.map(|offer| offer.text).collect();
        press(&mut app, "<esc>");
        for d in actions().iter().map(|action| action.describe()) {
            // These accept their target by name instead.
            let names =
                ["stop-job", "delete-job", "log", "describe", "resubmit-job", "remove-worker", "init-worker"];
            let is_here = d.contexts.contains(&context) || names.contains(&d.name);
            assert_eq!(offered.iter().any(|c| c == d.name), is_here, "{}", d.name);
        }
        assert!(offered.iter().any(|c| c == "cluster"));
        reached.extend(offered);
    }
    // A dialog has no palette over it, and the page of workers has not been opened.
    let names = actions().iter().map(|action| action.describe().name);
    let out_of_reach = names.filter(|name| !reached.iter().any(|reached| reached == name));
    let unreachable_names = [
        "overview",
        "folded",
        "by-time",
        "follow-workers",
        "root-cause",
        "resume",
        "skip-step",
        "abandon",
        "cancel",
        "announce",
        "move-up",
        "move-down",
        "reset",
        "accept",
    ];
    assert_eq!(out_of_reach.collect::<Vec<_>>(), unreachable_names);
}

#[test]
fn the_palette_runs_the_same_actions_as_keys() {
    let mut app = shown();
    assert_eq!(press(&mut app, ":refr<tab><enter>"), [asks(Request::Refresh)]);
    press(&mut app, ":pane-1<enter>:mark<enter>");
    assert!(app.dialog().is_none() && said(&app).contains("is not available here"), "{}", said(&app));
    press(&mut app, ":no-such<enter>");
    assert!(said(&app).contains("no command matches `no-such`"));
    assert_eq!(press(&mut app, ":q<enter>"), [Effect::Quit]);
}

#[test]
fn the_footer_offers_only_available_actions() {
    let mut app = shown();
    let text = footer(&mut app);
    assert!(text.contains("s stop") && text.contains("l log") && text.contains("? help"), "{text}");
    for absent in ["reconnect", "host key", "c fleet"] {
        assert!(!text.contains(absent), "{absent} in: {text}");
    }
    for unstoppable in [2, 4, 5] {
        press(&mut app, &format!("gg{}", "j".repeat(unstoppable)));
        assert_eq!(selected(&app).unwrap(), JOBS[unstoppable]);
        assert!(!footer(&mut app).contains("s stop"), "{}", JOBS[unstoppable]);
    }
    press(&mut app, "4");
    let text = footer(&mut app);
    assert!(!text.contains("stop") && !text.contains("filter"), "nothing to stop or filter there: {text}");
    press(&mut app, "3");
    assert!(footer(&mut app).contains("f follow"));
    let gone = problem(ProblemKind::Unreachable, "it cannot be reached", "");
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Retrying { problem: gone, at: NOW }));
    let text = footer(&mut app);
    assert!(text.contains("r reconnect"), "{text}");
    assert!(!text.contains("dashboard") && !text.contains("ssh"), "{text}");
    press(&mut app, "2ggs");
    assert!(app.dialog().is_some());
    press(&mut app, "<esc>gg/");
    assert!(footer(&mut app).contains("filter: "));
}

#[test]
fn an_empty_cluster_offers_nothing_to_do_with_a_selection() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(Snapshot::default())));
    for pane in ["1", "2"] {
        press(&mut app, pane);
        let text = footer(&mut app);
        for absent in ["stop", "log", "describe", "copy", "open"] {
            assert!(!text.contains(&format!(" {absent} ")), "{absent} in: {text}");
        }
        assert_eq!(press(&mut app, "sldyjkGgg<enter>"), []);
        assert!(app.dialog().is_none());
    }
}

#[test]
fn pasted_text_is_not_handled_as_keys() {
    let mut app = shown();
    assert_eq!(app.update(Event::Paste("sqy\x03".into()), NOW), []);
    assert!(app.dialog().is_none() && app.prompt().is_none());
    press(&mut app, "s");
    assert_eq!(app.update(Event::Paste("y\n".into()), NOW), []);
    assert!(app.dialog().is_some());
    press(&mut app, "<esc>/");
    assert_eq!(app.update(Event::Paste("tul\x1b\nmore".into()), NOW), []);
    assert_eq!(app.prompt().unwrap().line.text(), "tul");
    assert_eq!(rows(&app), ["eval-tulu-99"]);
}

#[test]
fn esc_leaves_the_innermost_level_and_never_the_console() {
    let mut app = shown();
    press(&mut app, "/tul<enter>z");
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::JobStop { id: id("x"), outcome: JobStopOutcome::Failed("no".into()) },
    );
    press(&mut app, "?");
    press(&mut app, "<esc>");
    assert!(app.dialog().is_none() && app.toasts().shown().len() == 1);
    assert!(rows(&app).len() < 6);
    press(&mut app, "<esc>");
    assert!(app.toasts().shown().is_empty() && rows(&app).len() == 6, "a message does not consume the key");
    assert!(app.is_zoomed());
    press(&mut app, "<esc>");
    assert!(!app.is_zoomed());
    assert_eq!(press(&mut app, "<esc><esc>"), []);
    assert_eq!(app.view().clone(), View::Cluster(0), "a single cluster has no fleet page");
    assert_eq!(press(&mut app, "q"), [Effect::Quit]);
}

#[test]
fn the_footer_offers_to_quit_on_the_first_page_only() {
    let mut app = shown();
    assert!(app.offers_action(Action::Quit), "the page of a single cluster");
    press(&mut app, "T");
    assert!(!app.offers_action(Action::Quit));
    press(&mut app, "q");
    assert!(app.offers_action(Action::Quit));
    let mut app = super::app(&["a", "b"]);
    app.start(None);
    assert!(app.offers_action(Action::Quit), "the fleet");
    press(&mut app, "<enter>");
    assert!(!app.offers_action(Action::Quit));
}

#[test]
fn with_several_clusters_back_and_q_return_to_the_fleet() {
    for leave in ["<esc>", "q", "c"] {
        let mut app = app(&["a", "b", "c"]);
        assert_eq!(app.start(None), []);
        assert_eq!(app.view().clone(), View::Clusters);
        let ask = |name: &str, request| Effect::Ask(ClusterName::new(name), request);
        assert_eq!(press(&mut app, "j<enter>"), [ask("b", Request::Focus(true))]);
        assert_eq!(app.view().clone(), View::Cluster(1));
        press(&mut app, "?");
        assert_eq!(press(&mut app, "q"), [], "q closes a dialog first");
        assert_eq!(press(&mut app, leave), [ask("b", Request::Focus(false))]);
        assert_eq!((app.view().clone(), app.pages().clusters.cursor()), (View::Clusters, 1));
        assert_eq!(press(&mut app, "<esc>"), []);
        assert_eq!(
            press(&mut app, ":cluster c<enter>"),
            [ask("c", Request::Focus(true))],
            "the palette opens it directly"
        );
        assert_eq!(
            press(&mut app, ":cluster a<enter>"),
            [ask("c", Request::Focus(false)), ask("a", Request::Focus(true))]
        );
        assert_eq!(press(&mut app, "cq"), [ask("a", Request::Focus(false)), Effect::Quit]);
    }
    let mut app = app(&["a", "b"]);
    assert_eq!(press(&mut app, "<enter>/x<^c>"), [asks_focus("a"), Effect::Quit], "ctrl-c always quits");
}

#[test]
fn effects_on_a_cluster_name_it() {
    let mut app = shown();
    let name = ClusterName::new(CLUSTER);
    assert_eq!(
        press(&mut app, "to!"),
        [Effect::CopyToken(name.clone()), Effect::OpenDashboard(name.clone()), Effect::SshHead(name)]
    );
}

#[test]
fn a_key_that_is_not_available_here_reports_where_it_is() {
    let mut app = shown();
    press(&mut app, "4");
    for (key, words) in [
        ("s", "s is not available here; use it in the jobs pane (stop)"),
        ("x", "use it in the jobs pane (delete)"),
        ("w", "the jobs pane (workers)"),
        (" ", "space is not available here; use it in "),
    ] {
        assert_eq!(press(&mut app, key), []);
        assert!(said(&app).contains(words) && said(&app).len() <= 70, "{}", said(&app));
        press(&mut app, "<esc>");
    }
    press(&mut app, "T");
    press(&mut app, "T");
    assert_eq!(app.toasts().shown(), [], "the page is already open");
    press(&mut app, "<esc>4B");
    assert_eq!(said(&app), "B is not bound to an action; ? lists the keys");
    press(&mut app, "dd");
    assert!(app.dialog().is_none() && said(&app).contains("(describe)"));
    press(&mut app, ":mark<enter>");
    let refused = "`mark` is not available here; use it in the jobs pane, all jobs or dialogs";
    assert!(said(&app).contains(refused), "{}", said(&app));
    press(&mut app, "<esc>?");
    let Some(Dialog::Text { lines, .. }) = app.dialog() else { panic!("no help") };
    let zoom = lines.iter().find(|(_, text)| text.ends_with("(wrap)")).unwrap();
    assert_eq!(zoom.1, "in the log pane: Toggle wrapping of long lines  (wrap)");
    let fleet = &mut super::app(&["a", "b"]);
    for (key, words) in
        [("z", "a cluster's panes (zoom)"), ("1", "a cluster's panes (focus the nodes or slices pane)")]
    {
        press(fleet, key);
        assert!(said(fleet).contains(words), "{}", said(fleet));
    }
    // Bound keys that need a row but have none.
    press(fleet, "/nowhere<enter>n");
    assert!(
        fleet.dialog().is_none() && said(fleet).contains("submit-job: no row selected"),
        "{}",
        said(fleet)
    );
    press(fleet, "d");
    assert!(fleet.dialog().is_none() && said(fleet).contains("describe: no row selected"));
}

#[test]
fn an_unknown_or_ambiguous_cluster_name_is_reported() {
    let names =
        ["marin-us-central1", "marin-us-central2", "marin-us-east1", "marin-us-east5", "marin-us-west4"];
    let mut app = app(&names);
    press(&mut app, ":cluster us<enter>");
    let ambiguous = "`us` is ambiguous: marin-us-central1, marin-us-central2, marin-us-east1, marin-us-east5, 1 more; type more";
    assert!(said(&app).contains(ambiguous), "{}", said(&app));
    press(&mut app, ":cluster foo<enter>");
    assert!(said(&app).contains("no cluster `foo`"), "{}", said(&app));
    assert_eq!(app.view().clone(), View::Clusters);
    press(&mut app, ":cluster us-west<enter>");
    assert_eq!(app.view().clone(), View::Cluster(4), "a unique prefix");
}

#[test]
fn a_search_steps_through_matches_and_reports_wrapping_around() {
    let mut app = shown();
    let stream = app.log().unwrap().stream();
    let lines =
        ["waiting for a slice", "step 1", "still waiting for a slice", "step 2"].map(Into::into).to_vec();
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Log(LogBatch { stream, part: lines.into(), end: LogEnd::Open }),
    );
    press(&mut app, "3z");
    let text = footer(&mut app);
    assert!(text.contains("/ search") && !text.contains("/ filter"), "{text}");
    let at = |app: &App| {
        let log = &app.log().unwrap();
        (0..log.len()).filter(|i| log.is_at(*i)).map(|i| log.line(i).unwrap().to_string()).collect::<Vec<_>>()
    };
    press(&mut app, "n");
    assert!(said(&app).contains("no search; / starts one"), "{}", said(&app));
    press(&mut app, "<esc>/waiting for<enter>");
    assert_eq!((at(&app), app.toasts().shown().len()), (vec!["still waiting for a slice".to_owned()], 0));
    press(&mut app, "N");
    assert_eq!((at(&app), app.toasts().shown().len()), (vec!["waiting for a slice".to_owned()], 0));
    press(&mut app, "N");
    assert_eq!(at(&app), ["still waiting for a slice"], "it wraps around, as in less");
    assert!(said(&app).contains("to the last match"), "{}", said(&app));
    press(&mut app, "n");
    assert_eq!(at(&app), ["waiting for a slice"]);
    assert!(said(&app).contains("to the first match"), "{}", said(&app));
    assert!(!app.log().unwrap().follows(), "a match does not scroll away");
    press(&mut app, "/WAITING for<enter>");
    assert_eq!(at(&app), [""; 0], "a capital letter makes it case-sensitive");
    press(&mut app, "/(nowhere<enter>");
    let prompt = app.prompt().expect("the pattern has to be corrected");
    assert_eq!(prompt.wrong, "invalid regular expression: unclosed group (column 1)");
    press(&mut app, "<esc>");
    press(&mut app, "/<^u>nowhere<enter>");
    assert!(said(&app).contains("`nowhere`: no match"));
}

#[test]
fn port_notes_of_many_clusters_share_one_toast_and_each_note_is_one_message() {
    let names = ["a", "b", "c"];
    let mut app = app(&names);
    let ports = |note: &str| ClusterEvent::Ports { open: LocalPorts::new(), notes: vec![note.to_owned()] };
    send_update(&mut app, "a", ports("8265 is in use by ssh (pid 7), using 8300"));
    assert!(said(&app).contains("a: 8265 is in use by ssh"), "{}", said(&app));
    for name in names {
        send_update(&mut app, name, ports("8265 is in use by ssh (pid 7), using 8300"));
    }
    let shown = |app: &App| app.toasts().shown().iter().map(|t| t.text.clone()).collect::<Vec<_>>();
    assert_eq!(shown(&app), ["a and 2 more: 8265 is in use by ssh (pid 7), using 8300"]);
    assert_eq!(app.toasts().messages().len(), 1, "one note is one message");
    send_update(&mut app, "b", ports("8265 is in use by ssh (pid 7), using 8301"));
    assert_eq!(shown(&app), ["a and 2 more use different local ports than usual; m lists them"]);
    assert_eq!(app.toasts().messages().len(), 2, "one message per note");
}

#[test]
fn errors_on_the_screen_leave_room_for_answers_and_keep_the_newest() {
    let mut app = app(&["a", "b"]);
    for n in 1..=4 {
        app.update(Event::Done(Outcome::Failed(format!("error {n}"))), NOW);
    }
    app.update(Event::Done(Outcome::Announced("an answer".into())), NOW);
    let shown = |app: &App| app.toasts().shown().iter().map(|t| t.text.clone()).collect::<Vec<_>>();
    assert_eq!(shown(&app), ["error 2", "error 3", "error 4", "an answer"]);
    let ports = |text: &str| ClusterEvent::Note(text.into());
    send_update(&mut app, "a", ports("one"));
    send_update(&mut app, "b", ports("two"));
    assert!(shown(&app).contains(&"error 4".to_owned()), "{:?}", shown(&app));
}

#[test]
fn a_missing_login_is_one_message_for_all_clusters_until_it_is_resolved() {
    let mut app = app(&["a", "b", "c"]);
    let refused = || ClusterEvent::Cloud(Err(problem(ProblemKind::Login, "no login for Google", "")));
    for name in ["a", "b", "c", "a"] {
        send_update(&mut app, name, refused());
    }
    send_update(&mut app, "b", ClusterEvent::Note("a new head".into()));
    let shown = |app: &App| app.toasts().shown().iter().map(|t| t.text.clone()).collect::<Vec<_>>();
    assert_eq!(shown(&app), ["a and 2 more: cannot list TPUs: no login for Google", "b: a new head"]);
    assert_eq!(app.toasts().messages().len(), 2);
    send_update(&mut app, "a", ClusterEvent::Cloud(Ok(Arc::default())));
    send_update(&mut app, "a", refused());
    assert_eq!(
        app.toasts().messages().next().unwrap().text,
        "b and 2 more: cannot list TPUs: no login for Google"
    );
}

#[test]
fn a_key_opens_and_closes_local_ports_and_open_access_is_reported() {
    let mut app = shown();
    assert_eq!(press(&mut app, "P"), [Effect::Ask(ClusterName::new(CLUSTER), Request::Ports(true))]);
    let up = |token_auth| {
        ClusterEvent::Link(Link::Up { since: NOW, latency: None, gcs: true, token_auth, dashboard: None })
    };
    let open = |port| ClusterEvent::Ports { open: [(Service::Gcs, port)].into(), notes: Vec::new() };
    send_update(&mut app, CLUSTER, up(true));
    send_update(&mut app, CLUSTER, open(6380));
    assert!(said(&app).contains("GCS 127.0.0.1:6380") && !said(&app).contains("any user"), "{}", said(&app));
    send_update(&mut app, CLUSTER, up(false));
    send_update(&mut app, CLUSTER, open(6381));
    assert!(said(&app).contains("any user"), "{}", said(&app));
    assert_eq!(press(&mut app, "P"), [Effect::Ask(ClusterName::new(CLUSTER), Request::Ports(false))]);
    send_update(&mut app, CLUSTER, ClusterEvent::Ports { open: LocalPorts::new(), notes: Vec::new() });
    assert_eq!(press(&mut app, "P"), [Effect::Ask(ClusterName::new(CLUSTER), Request::Ports(true))]);
}

#[test]
fn a_running_cluster_cannot_be_started() {
    let mut app = shown();
    assert_eq!(press(&mut app, "S"), []);
    let Some(Dialog::Text { lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert_eq!(lines[0], (CLUSTER.to_owned(), "already running, with 4 jobs that have not ended".to_owned()));
    press(&mut app, "<esc>");
    let gone = problem(ProblemKind::Unreachable, "it cannot be reached", "");
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Retrying { problem: gone, at: NOW }));
    press(&mut app, "S");
    assert!(matches!(app.dialog(), Some(Dialog::Plan(_))));
}

#[test]
fn a_single_cluster_has_no_page_before_its_first() {
    let mut app = shown();
    press(&mut app, "-");
    assert_eq!(app.view().clone(), View::Cluster(0));
    press(&mut app, "2j");
    assert_eq!(app.context(), Context::Jobs);
    press(&mut app, "T--");
    assert_eq!(app.view().clone(), View::Tpus(0));
}

#[test]
fn zoom_on_a_log_page_returns_to_the_panes_of_its_cluster() {
    let mut app = app(&["a", "b"]);
    app.start(None);
    for name in ["a", "b"] {
        send_update(&mut app, name, ClusterEvent::Link(up()));
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(snapshot())));
    }
    press(&mut app, "Jl");
    let View::Log(cluster_index) = *app.view() else { panic!("{:?}", app.view()) };
    press(&mut app, "z");
    assert!(*app.view() == View::Cluster(cluster_index) && !app.is_zoomed(), "{:?}", app.view());
}

#[test]
fn a_key_returns_to_the_previous_page() {
    let mut app = app(&["a", "b"]);
    app.start(None);
    press(&mut app, "-");
    assert_eq!(app.view().clone(), View::Clusters);
    press(&mut app, "j<enter>");
    assert_eq!(app.view().clone(), View::Cluster(1));
    press(&mut app, "q");
    press(&mut app, "J-");
    assert_eq!(app.view().clone(), View::Clusters);
    press(&mut app, "-");
    assert_eq!(app.view().clone(), View::Table(&ALL_JOBS));
    press(&mut app, ":cluster a<enter>-");
    assert_eq!(app.view().clone(), View::Table(&ALL_JOBS));
    let focus = Effect::Ask(ClusterName::new("a"), Request::Focus(true));
    assert!(press(&mut app, "-").contains(&focus), "it is polled more often again");
    assert_eq!(app.view().clone(), View::Cluster(0));
}

#[test]
fn the_welcome_message_names_help_and_the_guide() {
    let mut app = shown();
    app.welcome(NOW);
    let text = said(&app).to_owned();
    assert!(text.contains("? lists the keys") && text.contains(":help getting-started"), "{text}");
    press(&mut app, ":help getting-started<enter>");
    assert!(matches!(app.dialog(), Some(Dialog::Text { title, .. }) if title == "Manual: getting-started"));
}

#[test]
fn the_whole_log_is_searched_on_the_head_and_a_match_can_be_opened() {
    let mut app = shown();
    let stream = app.log().unwrap().stream();
    let text = |n: u64| Line::from(format!("step {n}"));
    let part = |lines: std::ops::Range<u64>| LogPart {
        lines: lines.clone().map(text).collect(),
        bytes: lines.start * 10..lines.end * 10,
        begin: Some(0),
    };
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Log(LogBatch { stream, part: part(900..1000), end: LogEnd::Open }),
    );
    press(&mut app, "3z");
    press(&mut app, "g/");
    assert!(said(&app).contains("no search; / starts one"), "{}", said(&app));
    press(&mut app, "/step 9.0<enter>");
    let requests = press(&mut app, "g/");
    assert_eq!(requests, [asks(Request::SearchLog(stream, "step 9.0".into()))]);
    let found = |numbers: &[u64]| LogMatches {
        last: numbers.iter().map(|n| LogMatch { number: n + 1, at: Some(n * 10), line: text(*n) }).collect(),
        has_more: false,
        is_cut: false,
    };
    let answer = |found| ClusterEvent::LogMatches { stream, pattern: "step 9.0".into(), found };
    send_update(&mut app, CLUSTER, answer(Err(NotSearched::Failed("permission denied".into()))));
    assert!(said(&app).contains("permission denied"), "{}", said(&app));
    send_update(&mut app, CLUSTER, answer(Ok(found(&[]))));
    assert!(app.prompt().is_none() && said(&app).contains("no match in the whole log"));
    send_update(&mut app, CLUSTER, answer(Ok(found(&[90, 910, 990]))));
    let offers: Vec<String> = app.offers().into_iter().map(|offer| offer.text).collect();
    assert_eq!(offers, ["91 step 90", "911 step 910", "991 step 990"]);
    press(&mut app, "<up><enter>");
    assert_eq!(app.log().unwrap().current(), Some("step 910"));
    send_update(&mut app, CLUSTER, answer(Ok(found(&[90, 910]))));
    press(&mut app, "<up><enter>");
    assert!(said(&app).contains("above the loaded lines"), "{}", said(&app));
}

#[test]
fn a_step_that_finds_nothing_loaded_names_the_search_of_the_whole_log() {
    let mut app = shown();
    let receive = |app: &mut App, from: u64| {
        let stream = app.log().unwrap().stream();
        let lines = (from..from + 100).map(|n| Line::from(format!("step {n}"))).collect();
        let part = LogPart { lines, bytes: from * 10..(from + 100) * 10, begin: Some(0) };
        send_update(app, CLUSTER, ClusterEvent::Log(LogBatch { stream, part, end: LogEnd::Open }));
    };
    receive(&mut app, 900);
    press(&mut app, "3ze");
    let how = "no error in the loaded lines; / sets a pattern, g/ searches the whole log for it";
    assert_eq!(said(&app), how);
    press(&mut app, "/epoch<enter>n");
    assert_eq!(said(&app), "`epoch`: no match in the loaded lines; g/ searches the whole log");
    let mut app = shown();
    receive(&mut app, 0);
    press(&mut app, "3zE");
    assert_eq!(said(&app), "no error in the log", "all lines are loaded");
}

#[test]
fn a_log_without_ssh_access_is_downloaded_only_after_confirmation() {
    let mut app = shown();
    let stream = app.log().unwrap().stream();
    press(&mut app, "3z");
    let lines: Vec<Line> = (0..50).map(|n| format!("step {n}").into()).collect();
    let part = LogPart { lines, bytes: 1000..1500, begin: None };
    send_update(&mut app, CLUSTER, ClusterEvent::Log(LogBatch { stream, part, end: LogEnd::Open }));
    press(&mut app, "/step 4<enter>");
    let answer = |found| ClusterEvent::LogMatches { stream, pattern: "step 4".into(), found };
    let remote = || NotSearched::Remote("there is no SSH connection to the head".into());
    send_update(&mut app, CLUSTER, answer(Err(remote())));
    let Some(Dialog::Ask { lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    let text = lines.iter().map(|(label, text)| format!("{label} {text}")).collect::<Vec<_>>().join("\n");
    assert!(text.contains("no SSH connection") && text.contains("at least the 500 B"), "{text}");
    assert_eq!(press(&mut app, "<enter>"), [], "Cancel is focused");
    send_update(&mut app, CLUSTER, answer(Err(remote())));
    let requests = press(&mut app, "<tab><enter>");
    assert_eq!(requests, [asks(Request::DownloadLog(stream, "step 4".into()))]);
    send_update(&mut app, CLUSTER, ClusterEvent::LogDownload { stream, bytes: 20_000_000 });
    let kept = app.toasts().messages().len();
    send_update(&mut app, CLUSTER, ClusterEvent::LogDownload { stream, bytes: 40_000_000 });
    let shown = app.toasts().shown().iter().filter(|toast| toast.text.contains("searched so far")).count();
    assert!(shown == 1 && said(&app).contains("40.0 MB searched so far"), "{}", said(&app));
    assert_eq!(app.toasts().messages().len(), kept, "progress is not kept");
    let found = |n: u64| LogMatch { number: n + 1, at: None, line: format!("step {n}").into() };
    let found = LogMatches { last: vec![found(4), found(41)], has_more: false, is_cut: true };
    send_update(&mut app, CLUSTER, answer(Ok(found)));
    assert!(said(&app).contains("2 lines of the log's first 1.0 GB"), "{}", said(&app));
    press(&mut app, "<enter>");
    assert_eq!(app.log().unwrap().current(), Some("step 41"));
}

#[test]
fn a_page_of_a_dialog_has_the_height_of_the_dialog() {
    let mut app = app(&["a", "b", "c"]);
    press(&mut app, "?");
    paint(&mut app, 120, 40);
    press(&mut app, "<pgdn>");
    paint(&mut app, 120, 40);
    let Some(Dialog::Text { scroll, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert_eq!(scroll.top(), areas(&app, 120, 40).dialog_lines, "not of the page below it");
    assert!(scroll.top() > 20);
}

#[test]
fn one_marked_job_is_the_one_whose_log_is_opened() {
    let mut app = shown();
    press(&mut app, "2 ");
    assert_eq!((app.marked(), selected(&app).as_deref()), (1, Some(JOBS[1])));
    let opens = |effects: Vec<Effect>, job: &str| {
        let is_it = |effect: &Effect| matches!(effect, Effect::Ask(_, Request::Follow(_, LogSource::Job(of))) if *of == id(job));
        assert!(effects.iter().any(is_it), "{job}: {effects:?}");
    };
    opens(press(&mut app, "<enter>"), JOBS[1]);
    press(&mut app, "<esc>");
    opens(press(&mut app, "l"), JOBS[0]);
}

#[test]
fn local_ports_that_were_opened_on_a_frozen_screen_are_closed_by_the_second_press() {
    let mut app = shown();
    press(&mut app, "Z");
    assert_eq!(press(&mut app, ":ports<enter>"), [asks(Request::Ports(true))]);
    let open = LocalPorts::from([(Service::Dashboard, 8265)]);
    send_update(&mut app, CLUSTER, ClusterEvent::Ports { open, notes: Vec::new() });
    assert_eq!(press(&mut app, ":ports<enter>"), [asks(Request::Ports(false))]);
}

#[test]
fn a_details_page_is_open_once_whatever_it_shows() {
    let mut app = shown();
    press(&mut app, "m/x<enter>J");
    let open = app.stack().len();
    press(&mut app, "m");
    assert_eq!(app.stack().len(), open - 1, "back to the page that is open, with its filter");
    // The page of a job below the page of its stacks is returned to.
    press(&mut app, "<esc><esc>2d");
    let (open, job) = (app.stack().len(), app.view().clone());
    press(&mut app, "W");
    assert_eq!(app.stack().len(), open + 1);
    press(&mut app, "<esc>");
    assert_eq!((app.stack().len(), app.view()), (open, &job));
}
