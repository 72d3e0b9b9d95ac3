//! What is requested and drawn, and when; messages and dialogs that open automatically.

use super::*;

fn many_nodes() -> Snapshot {
    let nodes = (1..=100).map(|n| node(n, "tpu_worker", 4.0, 1.0)).collect();
    Snapshot { nodes: Arc::new(nodes), ..snapshot() }
}

#[test]
fn machine_figures_are_requested_only_for_rows_on_the_screen() {
    let mut app = shown();
    press(&mut app, "1");
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(many_nodes())));
    let visible = |effects: &[Effect]| match effects {
        [Effect::Ask(_, Request::Visible(ids))] => {
            ids.iter().map(|id| id.as_bytes().to_vec()).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let (effects, _) = paint(&mut app, 200, 60);
    let first = visible(&effects);
    let height = page(&app).nodes.height();
    assert_eq!(first.len(), height);
    assert!(height < 60);
    assert_eq!(paint(&mut app, 200, 60).0, [], "there is nothing new to request");
    press(&mut app, "G");
    let last = visible(&paint(&mut app, 200, 60).0);
    assert!(last.len() == height && last.iter().all(|n| !first.contains(n)));
    press(&mut app, "3z");
    assert!(visible(&paint(&mut app, 200, 60).0).is_empty(), "no node on the screen");
    let mut app = shown();
    let requests = visible(&paint(&mut app, 200, 60).0);
    assert!(
        !requests.is_empty() && requests.iter().all(|n| ![20, 21].contains(&n[0])),
        "dead nodes have no figures"
    );
}

#[test]
fn an_idle_screen_changes_only_when_a_clock_text_on_it_does() {
    let mut app = shown();
    // The sample was taken a second ago, and `NOW` is a full minute.
    let from = |app: &App, ms: i64| app.next_change(Timestamp::from_millis(NOW.as_millis() + ms)).unwrap();
    assert_eq!(NOW.as_millis() % 60_000, 0);
    assert_eq!(from(&app, 0), Duration::from_secs(4), "then the data is five seconds old");
    assert_eq!(from(&app, 4000), Duration::from_secs(1), "from then on its age is counted");
    let ahead = Snapshot { taken: NOW.plus(Duration::from_secs(59)), ..snapshot() };
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(ahead)));
    assert_eq!(from(&app, 58_000), Duration::from_secs(2), "the minute");
    app.update(
        Event::Done(Outcome::Copied("copied".into())),
        Timestamp::from_millis(NOW.as_millis() + 53_500),
    );
    assert_eq!(from(&app, 58_000), Duration::from_millis(500), "the toast expires");
    let gone = problem(ProblemKind::Unreachable, "it cannot be reached", "");
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Retrying { problem: gone, at: NOW }));
    assert!(from(&app, 1000) <= Duration::from_secs(1), "a countdown is on the screen");
}

#[test]
fn the_same_snapshot_again_draws_nothing() {
    let mut app = shown();
    paint(&mut app, 200, 60);
    let again = Snapshot { taken: NOW, ..snapshot() };
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(again)));
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, "another", ClusterEvent::Snapshot(Arc::new(snapshot())));
    assert!(!app.is_dirty());
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(jobs_snapshot(&[1]))));
    assert!(app.is_dirty());
}

#[test]
fn errors_stay_and_other_messages_expire() {
    let mut app = shown();
    let say = |app: &mut App, outcome| app.update(Event::Done(outcome), NOW);
    say(&mut app, Outcome::Failed("it broke".into()));
    for n in 0..6 {
        say(&mut app, Outcome::Copied(format!("copied {n}")));
    }
    let shown = |app: &App| app.toasts().shown().iter().map(|t| t.text.clone()).collect::<Vec<_>>();
    assert!(
        shown(&app).contains(&"it broke".to_owned()),
        "other messages do not displace an error: {:?}",
        shown(&app)
    );
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
    assert!(details(&app).iter().any(|(_, text)| text == "it broke"), "all is kept for the list of messages");
}

/// The screen as text, line by line.
pub(super) fn lines_of(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut areas = None;
    terminal.draw(|frame| areas = Some(draw(frame, app, &Theme::new(Colors::None), NOW))).unwrap();
    app.drawn(areas.unwrap());
    let buffer = terminal.backend().buffer();
    (0..height).map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect()).collect()
}

#[test]
fn a_message_does_not_cover_the_selected_row() {
    let mut app = shown();
    press(&mut app, "2zG");
    // The height of the window at which the last row is where a message in a frame would be, above the footer.
    let row = |app: &mut App, height| {
        let lines = lines_of(app, 100, height);
        lines.iter().position(|line| line.contains("exp600_tootsie-77a1")).map(|y| (y, lines))
    };
    let is_low = |app: &mut App, height| row(app, height).is_some_and(|(y, _)| y + 4 >= height.into());
    let height = (10..40).find(|height| is_low(&mut app, *height)).unwrap();
    let (y, before) = row(&mut app, height).unwrap();
    let wide = format!("it broke: {}", "no reply ".repeat(12));
    app.update(Event::Done(Outcome::Failed(wide)), NOW);
    let (_, after) = row(&mut app, height).unwrap();
    assert_eq!(after[y], before[y], "{after:#?}");
    assert!(after[..y].iter().any(|line| line.contains("it broke")), "{after:#?}");
}

#[test]
fn a_message_on_the_lower_border_leaves_its_other_texts() {
    let mut app = shown();
    press(&mut app, "2z");
    let border = |app: &mut App| lines_of(app, 100, 10).into_iter().nth_back(1).unwrap();
    let _ = border(&mut app);
    let before = border(&mut app);
    assert!(before.contains(" more below ─╯"), "{before}");
    app.update(Event::Done(Outcome::Failed("it broke".into())), NOW);
    let after = border(&mut app);
    assert!(after.contains("─ ✕ it broke ─ esc ─") && after.contains(" more below ─╯"), "{after}");
}

#[test]
fn a_message_of_one_line_covers_only_the_lower_border() {
    let mut app = shown();
    let _ = lines_of(&mut app, 100, 30);
    let before = lines_of(&mut app, 100, 30);
    let changed = |app: &mut App| {
        let after = lines_of(app, 100, 30);
        (0..30).filter(|y| before[*y] != after[*y]).map(|y| (y, after[y].clone())).collect::<Vec<_>>()
    };
    app.update(Event::Done(Outcome::Failed("it broke".into())), NOW);
    let only = changed(&mut app);
    let is_on_border = |(y, line): &(usize, String)| *y == 28 && line.ends_with(" ✕ it broke ─ esc ─╯");
    assert!(only.len() == 1 && is_on_border(&only[0]), "{only:#?}");
    app.update(Event::Done(Outcome::Copied("copied".into())), NOW);
    let both = changed(&mut app);
    assert!(both.len() > 1 && both.last().unwrap().1.contains(" copied ─╯"), "{both:#?}");
    assert!(both.iter().any(|(y, line)| *y < 28 && line.contains("✕ it broke")), "{both:#?}");
    press(&mut app, "<esc>");
    assert!(changed(&mut app).is_empty());
}

#[test]
fn messages_other_than_errors_give_way_to_the_next_action_once_they_could_be_read() {
    let mut app = shown();
    app.update(Event::Done(Outcome::Failed("it broke".into())), NOW);
    app.update(Event::Done(Outcome::Copied("copied".into())), NOW);
    let shown = |app: &App| app.toasts().shown().iter().map(|t| t.text.clone()).collect::<Vec<_>>();
    let key = |app: &mut App, c, ms| {
        let event = crossterm::event::KeyEvent::from(crossterm::event::KeyCode::Char(c));
        app.update(Event::Key(event), NOW.plus(Duration::from_millis(ms)));
    };
    key(&mut app, 'j', 1999);
    assert_eq!(shown(&app), ["it broke", "copied"]);
    // The first key of a sequence does not act.
    key(&mut app, 'g', 2000);
    assert_eq!(shown(&app), ["it broke", "copied"]);
    key(&mut app, 'g', 2000);
    assert_eq!(shown(&app), ["it broke"]);
}

#[test]
fn fields_are_visible_before_anything_is_typed() {
    let mut app = shown();
    for keys in ["n", "<esc>R"] {
        press(&mut app, keys);
        let mut terminal = Terminal::new(TestBackend::new(100, 40)).unwrap();
        terminal.draw(|frame| drop(draw(frame, &app, &Theme::new(Colors::None), NOW))).unwrap();
        let is_field = |cell: &ratatui::buffer::Cell| {
            cell.symbol() == " " && cell.modifier.contains(ratatui::style::Modifier::UNDERLINED)
        };
        let fields = terminal.backend().buffer().content().iter().filter(|cell| is_field(cell)).count();
        assert!(fields > 30, "{keys}: {fields}");
    }
}

#[test]
fn a_changed_host_key_is_reported_and_confirming_trusts_the_offered_key() {
    let changed = || ProblemKind::HostKeyChanged { known: "SHA256:old".into(), offered: "SHA256:new".into() };
    let stopped = || {
        ClusterEvent::Link(Link::Stopped {
            problem: problem(changed(), "the host key has changed", "compare"),
        })
    };
    let mut app = shown();
    assert_eq!(send_update(&mut app, CLUSTER, stopped()), []);
    assert!(app.dialog().is_none(), "a key that was meant for the page would answer it");
    assert!(app.toasts().messages().next().unwrap().text.contains("h shows both keys"));
    press(&mut app, "h");
    let Some(Dialog::Ask { on_yes: false, lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    let text: String = lines.iter().map(|(_, t)| t.as_str()).collect();
    assert!(text.contains("SHA256:old") && text.contains("SHA256:new"));
    assert_eq!(press(&mut app, "<enter>"), [], "enter cancels");
    assert!(app.dialog().is_none());
    assert!(footer(&mut app).contains("h host key"));
    assert_eq!(press(&mut app, "hy"), [asks(Request::TrustHostKey("SHA256:new".into()))]);
    let mut app = shown().with_read_only(true);
    send_update(&mut app, CLUSTER, stopped());
    assert_eq!((press(&mut app, "h"), app.dialog().is_none()), (vec![], true), "read-only");
}

fn figures(secs: i64) -> Physical {
    // The machine's clock is off by one hour.
    let sampled = Some(Timestamp::from_millis(NOW.as_millis() + (3600 + secs) * 1000));
    Physical { sampled, cpu_percent: Some(77.0), memory: None, disk: None, tpus: Vec::new() }
}

#[test]
fn machine_figures_that_do_not_change_expire() {
    let mut app = shown();
    press(&mut app, "1z");
    paint(&mut app, 120, 40);
    let id = snapshot().nodes[0].id;
    let at = |secs: i64| Timestamp::from_millis(NOW.as_millis() + secs * 1000);
    let report = |app: &mut App, sample: i64, secs: i64| {
        let event = ClusterEvent::Physical(vec![(id, figures(sample))]);
        let event = update(app, CLUSTER, event);
        app.update(event, at(secs));
    };
    let seen = |app: &App, secs: i64| {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
        terminal.draw(|f| _ = draw(f, app, &Theme::new(Colors::None), at(secs))).unwrap();
        terminal.backend().to_string().contains("77%")
    };
    report(&mut app, 0, 0);
    assert!(seen(&app, 29) && !seen(&app, 30));
    assert!(app.next_change(at(29)).unwrap() <= Duration::from_secs(1), "the screen changes by itself");
    // A running agent takes new samples; for a dead agent the last sample is returned repeatedly.
    report(&mut app, 28, 28);
    assert!(seen(&app, 57));
    report(&mut app, 28, 57);
    assert!(!seen(&app, 58));
}

#[test]
fn a_cluster_that_was_never_reached_has_no_counts() {
    let mut app = super::app(&[CLUSTER]);
    app.start(None);
    let tabs = lines_of(&mut app, 100, 30).remove(1);
    assert!(tabs.contains("Nodes ?") && tabs.contains("Jobs ?") && tabs.contains("Autoscaler ?"), "{tabs}");
}

#[test]
fn a_page_begins_with_its_problem() {
    let mut app = shown();
    press(&mut app, ":describe dclm-run-02<enter>");
    let (label, text) = details(&app).remove(0);
    assert!(label == "issue" && text.starts_with("▲ failed"), "{label} {text}");
    press(&mut app, "<esc>:describe tokenize-fineweb-a28167<enter>");
    let (label, text) = details(&app).remove(0);
    assert!(label == "reason" && text.starts_with("! waits for"), "{label} {text}");
    let theme = Theme::new(Colors::Full);
    let mut terminal = Terminal::new(TestBackend::new(60, 40)).unwrap();
    terminal.draw(|frame| drop(draw(frame, &app, &theme, NOW))).unwrap();
    let buffer = terminal.backend().buffer();
    let of_line = |y: u16| buffer[(30, y)].fg;
    assert_eq!(
        [of_line(2), of_line(3)].map(|fg| Some(fg) == theme.warn.fg),
        [true; 2],
        "also on the continuation line"
    );
}

#[test]
fn the_autoscaler_pane_omits_columns_without_numbers_first() {
    let titles = |launching: u32, width| {
        let mut app = shown();
        let mut state = snapshot();
        let report = Arc::make_mut(&mut state.autoscaler);
        for count in &mut report.types {
            (count.pending, count.launching, count.failed) = (0, launching, 0);
        }
        send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
        let lines = lines_of(&mut app, width, 60);
        let line = lines.iter().find(|line| line.contains(" MAX ")).unwrap_or_else(|| panic!("{lines:#?}"));
        let titles = ["MIN", "PENDING", "LAUNCHING", "FAILED"];
        titles.into_iter().filter(|title| line.contains(title)).collect::<Vec<_>>()
    };
    assert_eq!(titles(0, 120), ["MIN", "PENDING"]);
    assert_eq!(titles(1, 120), ["MIN", "LAUNCHING"]);
    assert_eq!(titles(0, 200), ["MIN", "PENDING", "LAUNCHING", "FAILED"]);
}
