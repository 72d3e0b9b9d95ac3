//! Events in, state and effects out: what keys, the mouse and news do, without a terminal and without a cluster.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod sample;

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use marin_tui::app::actions::ACTIONS;
use marin_tui::app::{Action, App, Area, Context, Dialog, Effect, Event, Outcome, Pane, View};
use marin_tui::model::*;
use marin_tui::ui::{Colors, Theme, draw};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use sample::*;
use std::sync::Arc;
use std::time::Duration;

const CLUSTER: &str = "marin-us-central2";
/// In the order of the jobs pane: what has not ended first, newest first.
const JOBS: [&str; 6] = [
    "eval-tulu-99",
    "tokenize-fineweb-a28167",
    "04000000",
    "ray-run-alice-exp1395_qwen3_32b-4f1c",
    "dclm-run-02",
    "exp600_tootsie-77a1",
];

/// Draws a frame as the loop does; returns what the app asks for then, and the footer.
fn paint(app: &mut App, width: u16, height: u16) -> (Vec<Effect>, String) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut areas = None;
    terminal.draw(|frame| areas = Some(draw(frame, app, &Theme::new(Colors::None), NOW))).unwrap();
    let effects = app.drawn(areas.unwrap());
    let buffer = terminal.backend().buffer();
    let footer = (0..width).map(|x| buffer[(x, height - 1)].symbol()).collect();
    (effects, footer)
}

fn footer(app: &mut App) -> String {
    paint(app, 200, 60).1
}

fn selected(app: &App) -> Option<String> {
    app.current()?.jobs.selected().map(ToString::to_string)
}

fn rows(app: &App) -> Vec<String> {
    let cluster = app.current().unwrap();
    let jobs = &cluster.snapshot.jobs;
    (0..cluster.jobs.len()).map(|p| jobs[cluster.jobs.row(p).unwrap()].key.to_string()).collect()
}

fn asks(request: Request) -> Effect {
    Effect::Ask(ClusterName::new(CLUSTER), request)
}

fn id(name: &str) -> SubmissionId {
    SubmissionId(name.into())
}

fn said(app: &App) -> &str {
    &app.toasts().said().next().unwrap().text
}

fn mouse(app: &mut App, kind: MouseEventKind, column: u16, row: u16) -> Vec<Effect> {
    app.update(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }), NOW)
}

const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);

/// Where the parts of the screen are, from a frame that was drawn.
fn areas(app: &App, width: u16, height: u16) -> marin_tui::app::Areas {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut areas = None;
    terminal.draw(|frame| areas = Some(draw(frame, app, &Theme::new(Colors::None), NOW))).unwrap();
    areas.unwrap()
}

#[test]
fn every_action_is_in_the_keymap_the_help_and_the_palette() {
    let mut app = shown();
    press(&mut app, "?");
    let Some(Dialog::Tell { lines, .. }) = app.dialog() else { panic!("no help: {:?}", app.dialog()) };
    for d in ACTIONS {
        let keys: Vec<String> = app.keymap().keys_of(d.action).collect();
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
    ] {
        press(&mut app, keys);
        assert_eq!(app.context(), context);
        let offered = app.commands();
        for d in ACTIONS {
            assert_eq!(offered.iter().any(|c| c == d.name), d.contexts.contains(&context), "{}", d.name);
        }
        assert!(offered.contains(&format!("cluster {CLUSTER}")));
        reached.extend(offered);
    }
    // A dialog has no palette over it, so that what only answers a dialog is the one thing left.
    let out_of_reach = ACTIONS.iter().filter(|d| !reached.iter().any(|c| c == d.name));
    assert_eq!(out_of_reach.map(|d| d.action).collect::<Vec<_>>(), [Action::Accept]);
}

#[test]
fn the_palette_runs_what_the_key_runs() {
    let mut app = shown();
    assert_eq!(press(&mut app, ":refr<tab><enter>"), [asks(Request::Refresh)]);
    press(&mut app, ":pane-1<enter>:stop-job<enter>");
    assert!(app.dialog().is_none() && said(&app).contains("means nothing here"), "{}", said(&app));
    press(&mut app, ":no-such<enter>");
    assert!(said(&app).contains("no action `no-such`"));
    assert_eq!(press(&mut app, ":q<enter>"), [Effect::Quit]);
}

#[test]
fn the_footer_offers_only_what_can_be_done_now() {
    let mut app = shown();
    let text = footer(&mut app);
    assert!(text.contains("s stop") && text.contains("l log") && text.contains("? help"), "{text}");
    for absent in ["reconnect", "host key", "c clusters", "q quit"] {
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
    tell(&mut app, CLUSTER, News::Link(Link::Retrying { problem: gone, at: NOW }));
    let text = footer(&mut app);
    assert!(text.contains("r reconnect"), "{text}");
    assert!(!text.contains("dashboard") && !text.contains("ssh"), "{text}");
    press(&mut app, "2ggs");
    assert!(app.dialog().is_some());
    press(&mut app, "<esc>gg/");
    assert!(footer(&mut app).contains("filter (! inverts)"));
}

#[test]
fn an_empty_cluster_offers_nothing_to_do_with_a_selection() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    tell(&mut app, CLUSTER, News::Link(up()));
    tell(&mut app, CLUSTER, News::Snapshot(Arc::new(Snapshot::default())));
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

fn jobs_snapshot(ids: &[u8]) -> Snapshot {
    let jobs = ids.iter().map(|n| {
        Arc::new(job(&format!("job-{n}"), JobStatus::Running, ["alice", "bo"][usize::from(n % 2)], 60))
    });
    Snapshot { jobs: Arc::new(jobs.collect()), ..snapshot() }
}

#[derive(Clone, Debug)]
enum Step {
    Rows(Vec<u8>),
    Key(&'static str),
    Draw(u16),
}

/// Keys come one by one: a filter is live, so that half of it may let fewer rows pass than the whole.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    const KEYS: &[&str] =
        &["j", "j", "k", "G", "g", ">", "<", "I", "/", "1", "!", "b", "o", "<enter>", "<esc>", "<backspace>"];
    let rows = proptest::collection::vec(0u8..30, 0..25).prop_map(Step::Rows);
    let keys = || proptest::sample::select(KEYS).prop_map(Step::Key);
    let step = prop_oneof![rows, keys(), keys(), keys(), (10u16..50).prop_map(Step::Draw)];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_selection_follows_its_job(steps in steps()) {
        let mut app = shown();
        for step in steps {
            let before = selected(&app);
            let mut moves = false;
            match step {
                Step::Rows(mut ids) => {
                    ids.sort_unstable();
                    ids.dedup();
                    tell(&mut app, CLUSTER, News::Snapshot(Arc::new(jobs_snapshot(&ids))));
                }
                // The nodes pane is another table.
                Step::Key("1") if app.prompt().is_none() => {}
                Step::Key(key) => {
                    moves = "jkGg".contains(key);
                    press(&mut app, key);
                }
                Step::Draw(height) => {
                    paint(&mut app, 120, height);
                }
            }
            let rows = rows(&app);
            if let Some(before) = before.filter(|b| rows.contains(b) && !moves) {
                prop_assert_eq!(selected(&app), Some(before));
            } else {
                prop_assert_eq!(selected(&app).is_some(), !rows.is_empty());
            }
            let on_cursor = app.current().unwrap().job().map(|j| j.key.to_string());
            prop_assert_eq!(selected(&app), on_cursor);
        }
    }
}

#[test]
fn a_filter_is_live_inverts_and_esc_restores_it() {
    let mut app = shown();
    assert_eq!(rows(&app), JOBS);
    press(&mut app, "/TUL");
    assert_eq!(rows(&app), ["eval-tulu-99"]);
    press(&mut app, "<backspace><backspace><backspace>!tul");
    assert_eq!(rows(&app), JOBS[1..]);
    press(&mut app, "<enter>/x");
    assert_eq!(app.prompt().unwrap().text, "!tulx");
    press(&mut app, "<esc>");
    assert_eq!(rows(&app), JOBS[1..], "the filter that was in force is back");
    press(&mut app, "<esc>");
    assert_eq!(rows(&app), JOBS, "esc outside the prompt clears it");
    press(&mut app, "1/tpu_slice<enter>");
    let cluster = app.current().unwrap();
    assert_eq!((cluster.nodes.len(), cluster.jobs.len()), (2, 6), "each table has its own");
}

#[test]
fn stopping_asks_first_and_only_yes_stops() {
    let mut app = shown();
    for refusal in ["<enter>", "<esc>", "q", "<tab><tab><enter>"] {
        press(&mut app, "s");
        assert_eq!(app.context(), Context::Ask);
        let Some(Dialog::Ask { on_yes, lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
        assert!(!on_yes, "cancel has the focus");
        let told = |what: &str| lines.iter().any(|(_, text)| text.contains(what));
        assert!(told("eval-tulu-99") && told(CLUSTER), "{lines:?}");
        assert_eq!(press(&mut app, refusal), [], "{refusal}");
        assert!(app.dialog().is_none());
    }
    for consent in ["y", "<tab><enter>"] {
        press(&mut app, "s");
        assert_eq!(press(&mut app, consent), [asks(Request::StopJob(id("eval-tulu-99")))]);
        assert!(app.dialog().is_none());
    }
}

#[test]
fn the_job_that_was_asked_about_is_stopped_wherever_the_rows_went() {
    let mut app = shown();
    press(&mut app, "s");
    tell(&mut app, CLUSTER, News::Snapshot(Arc::new(jobs_snapshot(&[1, 2, 3]))));
    assert_eq!(press(&mut app, "y"), [asks(Request::StopJob(id("eval-tulu-99")))]);
}

#[test]
fn what_cannot_be_stopped_is_refused_with_the_reason() {
    let mut app = shown();
    assert_eq!(press(&mut app, "jjs"), []);
    assert!(app.dialog().is_none() && said(&app).contains("started by hand"), "{}", said(&app));
    assert_eq!(press(&mut app, "jjs"), []);
    assert!(app.dialog().is_none() && said(&app).contains("has ended already (failed)"), "{}", said(&app));
}

#[test]
fn a_stop_is_watched_until_the_job_is_seen_ended() {
    let mut app = shown();
    let outcome = |app: &mut App, outcome| {
        tell(app, CLUSTER, News::JobStop { id: id("eval-tulu-99"), outcome });
        app.current().unwrap().stopping.contains(&id("eval-tulu-99"))
    };
    assert!(outcome(&mut app, JobStopOutcome::Asked));
    assert!(!outcome(&mut app, JobStopOutcome::StillThere("running".into())));
    assert!(said(&app).contains("still running"));
    outcome(&mut app, JobStopOutcome::Asked);
    assert!(!outcome(&mut app, JobStopOutcome::Ended("stopped".into())));
    assert!(said(&app).contains("has ended (stopped)"));
}

#[test]
fn the_newest_running_jobs_log_opens_by_itself() {
    let mut app = app(&[CLUSTER]);
    assert_eq!(app.start(None), [asks(Request::Focus(true))]);
    let none_runs = Snapshot { jobs: Arc::default(), ..snapshot() };
    assert_eq!(tell(&mut app, CLUSTER, News::Snapshot(Arc::new(none_runs))), []);
    let effects = tell(&mut app, CLUSTER, News::Snapshot(Arc::new(snapshot())));
    let stream = app.current().unwrap().log.stream();
    assert_eq!(effects, [asks(Request::Follow(stream, LogSource::Job(id("eval-tulu-99"))))]);
    assert_eq!(tell(&mut app, CLUSTER, News::Snapshot(Arc::new(jobs_snapshot(&[1])))), [], "it stays open");
}

#[test]
fn l_follows_the_selected_job_and_lines_of_the_closed_log_are_dropped() {
    let mut app = shown();
    let old = app.current().unwrap().log.stream();
    let effects = press(&mut app, "jl");
    let new = app.current().unwrap().log.stream();
    assert_ne!(old, new);
    let source = LogSource::Job(id(JOBS[1]));
    assert_eq!(effects, [asks(Request::Unfollow(old)), asks(Request::Follow(new, source))]);
    assert!(app.current().unwrap().log.is_empty());
    let batch =
        |stream, line: &str| News::Log(LogBatch { stream, lines: vec![line.into()], end: LogEnd::Open });
    tell(&mut app, CLUSTER, batch(old, "late"));
    tell(&mut app, CLUSTER, batch(new, "mine"));
    let log = &app.current().unwrap().log;
    assert_eq!((log.len(), log.line(0)), (1, Some("mine")));
    assert_eq!(press(&mut app, "jl"), [], "a driver started by hand has no log");
    assert!(said(&app).contains("ray keeps no log"));
    assert_eq!(app.current().unwrap().log.stream(), new, "the open log stays");
}

#[test]
fn the_autoscalers_files_come_in_turn_and_a_node_gives_its_raylets() {
    let mut app = shown();
    press(&mut app, "4");
    for name in ["monitor.log", "monitor.out", "monitor.err", "monitor.log"] {
        let before = app.current().unwrap().log.stream();
        let effects = press(&mut app, "l");
        let now = app.current().unwrap().log.stream();
        let follow = Request::Follow(now, LogSource::Monitor(name.into()));
        assert_eq!(effects, [asks(Request::Unfollow(before)), asks(follow)]);
    }
    press(&mut app, "1gg");
    assert_eq!(press(&mut app, "l"), [], "dead nodes stand first");
    assert!(said(&app).contains("out of reach"));
    let effects = press(&mut app, "Gl");
    let head = NodeId::from_bytes(&[9; 28]).unwrap();
    let file = LogSource::File { node: head, name: "raylet.out".into() };
    assert!(matches!(&effects[..], [_, Effect::Ask(_, Request::Follow(_, f))] if *f == file), "{effects:?}");
}

#[test]
fn a_changed_host_key_asks_by_itself_and_yes_trusts_what_was_offered() {
    let changed = || ProblemKind::HostKeyChanged { known: "SHA256:old".into(), offered: "SHA256:new".into() };
    let stopped =
        || News::Link(Link::Stopped { problem: problem(changed(), "the host key has changed", "compare") });
    let mut app = shown();
    assert_eq!(tell(&mut app, CLUSTER, stopped()), []);
    let Some(Dialog::Ask { on_yes: false, lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    let told: String = lines.iter().map(|(_, t)| t.as_str()).collect();
    assert!(told.contains("SHA256:old") && told.contains("SHA256:new"));
    assert_eq!(press(&mut app, "<enter>"), [], "enter cancels");
    assert!(app.dialog().is_none());
    assert!(footer(&mut app).contains("h host key"));
    assert_eq!(press(&mut app, "hy"), [asks(Request::TrustHostKey("SHA256:new".into()))]);
    // What is being typed must not answer a question that comes up meanwhile.
    let mut app = shown();
    press(&mut app, "/y");
    tell(&mut app, CLUSTER, stopped());
    assert!(app.dialog().is_none());
    assert_eq!(press(&mut app, "y"), []);
}

#[test]
fn pasted_text_presses_no_keys() {
    let mut app = shown();
    assert_eq!(app.update(Event::Paste("sqy\x03".into()), NOW), []);
    assert!(app.dialog().is_none() && app.prompt().is_none());
    press(&mut app, "s");
    assert_eq!(app.update(Event::Paste("y\n".into()), NOW), []);
    assert!(app.dialog().is_some());
    press(&mut app, "<esc>/");
    assert_eq!(app.update(Event::Paste("tul\x1b\nmore".into()), NOW), []);
    assert_eq!(app.prompt().unwrap().text, "tul");
    assert_eq!(rows(&app), ["eval-tulu-99"]);
}

#[test]
fn esc_leaves_the_innermost_and_never_the_console() {
    let mut app = shown();
    press(&mut app, "/tul<enter>z");
    tell(&mut app, CLUSTER, News::JobStop { id: id("x"), outcome: JobStopOutcome::Failed("no".into()) });
    press(&mut app, "?");
    press(&mut app, "<esc>");
    assert!(app.dialog().is_none() && app.toasts().shown().len() == 1);
    press(&mut app, "<esc>");
    assert!(app.toasts().shown().is_empty() && rows(&app).len() < 6);
    press(&mut app, "<esc>");
    assert!(rows(&app).len() == 6 && app.is_zoomed());
    press(&mut app, "<esc>");
    assert!(!app.is_zoomed());
    assert_eq!(press(&mut app, "<esc><esc>"), []);
    assert_eq!(app.view(), View::Cluster(0), "an only cluster has no list above it");
    assert_eq!(press(&mut app, "q"), [Effect::Quit]);
}

#[test]
fn among_several_clusters_back_and_q_lead_to_the_list() {
    for leave in ["<esc>", "q", "c"] {
        let mut app = app(&["a", "b", "c"]);
        assert_eq!(app.start(None), []);
        assert_eq!(app.view(), View::Clusters);
        let ask = |name: &str, request| Effect::Ask(ClusterName::new(name), request);
        assert_eq!(press(&mut app, "j<enter>"), [ask("b", Request::Focus(true))]);
        assert_eq!(app.view(), View::Cluster(1));
        press(&mut app, "?");
        assert_eq!(press(&mut app, "q"), [], "q closes a dialog first");
        assert_eq!(press(&mut app, leave), [ask("b", Request::Focus(false))]);
        assert_eq!((app.view(), app.list().selected_row()), (View::Clusters, Some(1)));
        assert_eq!(press(&mut app, "<esc>"), []);
        assert_eq!(
            press(&mut app, ":cluster c<enter>"),
            [ask("c", Request::Focus(true))],
            "the palette goes there at once"
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

fn asks_focus(name: &str) -> Effect {
    Effect::Ask(ClusterName::new(name), Request::Focus(true))
}

fn many_nodes() -> Snapshot {
    let nodes = (1..=100).map(|n| node(n, "tpu_worker", 4.0, 1.0)).collect();
    Snapshot { nodes: Arc::new(nodes), ..snapshot() }
}

#[test]
fn machine_figures_are_asked_for_rows_on_the_screen_only() {
    let mut app = shown();
    press(&mut app, "1");
    tell(&mut app, CLUSTER, News::Snapshot(Arc::new(many_nodes())));
    let visible = |effects: &[Effect]| match effects {
        [Effect::Ask(_, Request::Visible(ids))] => ids.iter().map(|i| i.as_bytes()[0]).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let (effects, _) = paint(&mut app, 200, 60);
    let first = visible(&effects);
    let height = app.current().unwrap().nodes.height();
    assert_eq!(first.len(), height);
    assert!(height < 60);
    assert_eq!(paint(&mut app, 200, 60).0, [], "nothing new to ask");
    press(&mut app, "G");
    let last = visible(&paint(&mut app, 200, 60).0);
    assert!(last.len() == height && last.iter().all(|n| !first.contains(n)));
    press(&mut app, "3z");
    assert!(visible(&paint(&mut app, 200, 60).0).is_empty(), "no node on the screen");
    let mut app = shown();
    let asked = visible(&paint(&mut app, 200, 60).0);
    assert!(!asked.is_empty() && asked.iter().all(|n| ![20, 21].contains(n)), "the dead have no figures");
}

#[test]
fn an_idle_screen_changes_only_when_a_clock_text_on_it_does() {
    let mut app = shown();
    // The sample was taken a second ago, and `NOW` is a full minute.
    let from = |app: &App, ms: i64| app.next_change(Timestamp::from_millis(NOW.as_millis() + ms)).unwrap();
    assert_eq!(NOW.as_millis() % 60_000, 0);
    assert_eq!(from(&app, 0), Duration::from_secs(4), "then the data is five seconds old");
    assert_eq!(from(&app, 4000), Duration::from_secs(1), "from there on its age counts");
    let ahead = Snapshot { taken: NOW.plus(Duration::from_secs(59)), ..snapshot() };
    tell(&mut app, CLUSTER, News::Snapshot(Arc::new(ahead)));
    assert_eq!(from(&app, 58_000), Duration::from_secs(2), "the minute");
    app.update(
        Event::Done(Outcome::Copied("copied".into())),
        Timestamp::from_millis(NOW.as_millis() + 53_500),
    );
    assert_eq!(from(&app, 58_000), Duration::from_millis(500), "the toast goes");
    let gone = problem(ProblemKind::Unreachable, "it cannot be reached", "");
    tell(&mut app, CLUSTER, News::Link(Link::Retrying { problem: gone, at: NOW }));
    assert!(from(&app, 1000) <= Duration::from_secs(1), "a countdown is on the screen");
}

#[test]
fn the_same_snapshot_again_draws_nothing() {
    let mut app = shown();
    paint(&mut app, 200, 60);
    let again = Snapshot { taken: NOW, ..snapshot() };
    tell(&mut app, CLUSTER, News::Snapshot(Arc::new(again)));
    tell(&mut app, CLUSTER, News::Link(up()));
    tell(&mut app, "another", News::Snapshot(Arc::new(snapshot())));
    assert!(!app.is_dirty());
    tell(&mut app, CLUSTER, News::Snapshot(Arc::new(jobs_snapshot(&[1]))));
    assert!(app.is_dirty());
}

#[test]
fn errors_stay_and_other_messages_go() {
    let mut app = shown();
    let say = |app: &mut App, outcome| app.update(Event::Done(outcome), NOW);
    say(&mut app, Outcome::Failed("it broke".into()));
    for n in 0..6 {
        say(&mut app, Outcome::Copied(format!("copied {n}")));
    }
    let shown = |app: &App| app.toasts().shown().iter().map(|t| t.text.clone()).collect::<Vec<_>>();
    assert!(shown(&app).contains(&"it broke".to_owned()), "good news drive no error out: {:?}", shown(&app));
    let at = |ms| NOW.plus(Duration::from_millis(ms));
    app.update(Event::Tick, at(4999));
    assert!(shown(&app).len() > 1);
    app.update(Event::Tick, at(5000));
    assert_eq!(shown(&app), ["it broke"]);
    app.update(Event::Tick, at(3_600_000));
    assert_eq!(shown(&app), ["it broke"]);
    press(&mut app, "<esc>");
    assert_eq!(shown(&app), [""; 0]);
    press(&mut app, "m");
    let Some(Dialog::Tell { lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert!(lines.iter().any(|(_, text)| text == "it broke"), "all is kept for the list of messages");
}

#[test]
fn a_click_selects_and_focuses_and_the_wheel_moves_what_is_under_it() {
    let mut app = shown();
    press(&mut app, "4");
    paint(&mut app, 200, 60);
    let at = areas(&app, 200, 60);
    let (jobs, nodes, log) = (at.jobs.unwrap(), at.nodes.unwrap(), at.log.unwrap());
    mouse(&mut app, CLICK, jobs.x + 5, jobs.y + 3);
    assert_eq!((app.pane(), selected(&app).as_deref()), (Pane::Jobs, Some(JOBS[3])));
    mouse(&mut app, CLICK, nodes.x, nodes.y + 1);
    assert_eq!((app.pane(), app.current().unwrap().nodes.cursor()), (Pane::Nodes, 1));
    mouse(&mut app, CLICK, nodes.x, nodes.y + nodes.height - 1);
    assert_eq!(app.current().unwrap().nodes.cursor(), 1, "no row there");
    mouse(&mut app, MouseEventKind::ScrollUp, log.x, log.y);
    assert_eq!((app.pane(), app.current().unwrap().log.follows()), (Pane::Nodes, false));
    mouse(&mut app, MouseEventKind::ScrollDown, jobs.x, jobs.y);
    assert_eq!(app.current().unwrap().jobs.cursor(), 5);
    mouse(&mut app, CLICK, 0, 0);
    assert_eq!(app.pane(), Pane::Nodes, "the header is nothing to focus");
}

#[test]
fn a_click_outside_closes_a_dialog_and_nothing_else() {
    let mut app = shown();
    press(&mut app, "s");
    paint(&mut app, 200, 60);
    let Area { x, y, .. } = areas(&app, 200, 60).dialog.unwrap();
    mouse(&mut app, CLICK, x, y);
    assert!(app.dialog().is_some(), "inside");
    mouse(&mut app, CLICK, 0, 59);
    assert!(app.dialog().is_none());
    // The next click may come before the next frame.
    let gone = problem(ProblemKind::Other, "x", "");
    tell(&mut app, CLUSTER, News::Link(Link::Retrying { problem: gone, at: NOW }));
    press(&mut app, "z");
    mouse(&mut app, CLICK, 0, 59);
    assert!(app.is_zoomed(), "no dialog is left to close");
}

#[test]
fn a_click_into_another_pane_ends_what_is_being_typed() {
    let mut app = shown();
    paint(&mut app, 200, 60);
    let nodes = areas(&app, 200, 60).nodes.unwrap();
    press(&mut app, "/tul");
    mouse(&mut app, CLICK, nodes.x, nodes.y);
    assert!(app.prompt().is_none());
    assert_eq!(rows(&app), ["eval-tulu-99"], "the filter stays with its table");
    assert_eq!(app.current().unwrap().nodes.filter().text(), "");
}

#[test]
fn a_click_opens_a_cluster_that_is_selected() {
    let mut app = app(&["a", "b", "c"]);
    paint(&mut app, 120, 40);
    let list = areas(&app, 120, 40).list.unwrap();
    assert_eq!(mouse(&mut app, CLICK, list.x, list.y + 1), []);
    assert_eq!(app.list().selected_row(), Some(1));
    assert_eq!(mouse(&mut app, CLICK, list.x, list.y + 1), [asks_focus("b")]);
}

#[test]
fn an_effect_of_every_action_that_concerns_a_cluster_names_it() {
    let mut app = shown();
    let name = ClusterName::new(CLUSTER);
    assert_eq!(
        press(&mut app, "to!"),
        [Effect::CopyToken(name.clone()), Effect::OpenDashboard(name.clone()), Effect::SshHead(name)]
    );
}
