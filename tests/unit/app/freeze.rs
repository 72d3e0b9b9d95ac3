//! A frozen screen: what stays, what continues behind it, and what is refused.

use super::*;
use marin_tui::state::{ClusterState, Update};

/// The text of a frame.
fn text(app: &App, now: Timestamp) -> String {
    let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
    terminal.draw(|frame| _ = draw(frame, app, &Theme::new(Colors::None), now)).unwrap();
    terminal.backend().to_string()
}

/// The frame without the header, which shows the age of the freeze, and without the footer, which offers fewer actions.
fn body(app: &App, now: Timestamp) -> String {
    text(app, now).lines().skip(1).take(38).collect()
}

/// The cluster's task, whose state advances while the screen is frozen.
struct Behind(ClusterState);

impl Behind {
    fn of(app: &App) -> Self {
        Self(ClusterState::clone(app.fleet().named(&ClusterName::new(CLUSTER)).unwrap().state()))
    }

    fn apply(&mut self, app: &mut App, event: ClusterEvent) {
        self.0.apply(&event);
        let state = Arc::new(self.0.clone());
        app.update(Event::Update(Update { cluster: ClusterName::new(CLUSTER), event, state }), NOW);
    }
}

#[test]
fn a_frozen_screen_does_not_change_and_then_returns_to_live_data() {
    let mut app = shown();
    press(&mut app, "j");
    paint(&mut app, 120, 40);
    let (kept, before) = (selected(&app), body(&app, NOW));
    press(&mut app, "Z");
    let later = NOW.plus(Duration::from_secs(200));
    let mut behind = Behind::of(&app);
    behind.apply(&mut app, ClusterEvent::Snapshot(Arc::new(jobs_snapshot(&[1, 2]))));
    let lost = Link::Retrying { problem: problem(ProblemKind::Other, "x", ""), at: NOW };
    behind.apply(&mut app, ClusterEvent::Link(lost));
    assert_eq!(body(&app, later), before, "rows and ages do not change");
    let header = text(&app, later).lines().next().unwrap().to_owned();
    assert!(header.contains("FROZEN 3m, Z for live") && !header.contains("data"), "{header}");
    assert!(app.next_change(NOW).unwrap() > Duration::from_secs(10), "no countdown is shown");
    // Actions that only view still use the frozen rows.
    press(&mut app, "I");
    assert_eq!((rows(&app).len(), selected(&app)), (JOBS.len(), kept));
    press(&mut app, "/tul<enter>");
    assert_eq!(rows(&app), ["eval-tulu-99"]);
    press(&mut app, "<esc>Z");
    assert_eq!(rows(&app).len(), 2);
    assert!(!app.is_frozen() && text(&app, later).contains("retry in"));
}

#[test]
fn nothing_is_changed_from_a_frozen_screen() {
    let mut app = shown();
    press(&mut app, " Z");
    for keys in ["s", "R", "X", "n", ":stop-job<enter>"] {
        assert_eq!(press(&mut app, keys), [], "{keys}");
        assert!(app.dialog().is_none(), "{keys}");
        assert!(said(&app).contains("press Z"), "{}", said(&app));
        press(&mut app, "<esc>");
    }
    assert!(!footer(&mut app).contains("s stop"), "what is refused is not offered");
    // A refresh returns to live data.
    assert_eq!(press(&mut app, "<^r>"), [asks(Request::Refresh)]);
    assert!(!app.is_frozen());
    press(&mut app, "s");
    assert!(app.dialog().is_some());
}

#[test]
fn lines_of_an_open_log_are_held_back_and_those_of_a_new_log_are_not() {
    let mut app = shown();
    let stream = page(&app).log.stream();
    let lines = |app: &mut App, stream, text: &str| {
        let lines = vec![text.into()];
        send_update(
            app,
            CLUSTER,
            ClusterEvent::Log(LogBatch { stream, part: lines.into(), end: LogEnd::Open }),
        );
    };
    let before = page(&app).log.len();
    press(&mut app, "Z");
    for n in 0..3 {
        lines(&mut app, stream, &format!("held {n}"));
    }
    assert_eq!(page(&app).log.len(), before);
    press(&mut app, "Z");
    let log = &page(&app).log;
    assert_eq!(
        (log.len(), log.line(before + 2).map(marin_tui::model::Line::text)),
        (before + 3, Some("held 2")),
        "in order"
    );
    // A log that is opened on a frozen screen is shown live.
    press(&mut app, "Z2jl");
    let other = page(&app).log.stream();
    assert_ne!(other, stream);
    lines(&mut app, other, "at once");
    assert_eq!(page(&app).log.len(), 1);
    press(&mut app, "Z");
    assert_eq!(page(&app).log.len(), 1);
}

#[test]
fn marks_and_questions_are_updated_after_the_freeze() {
    let mut app = shown();
    press(&mut app, " ");
    assert_eq!(app.marked(), 1);
    press(&mut app, "Z");
    let mut behind = Behind::of(&app);
    behind.apply(&mut app, ClusterEvent::Snapshot(Arc::new(jobs_snapshot(&[1]))));
    assert_eq!(app.marked(), 1);
    let changed = ProblemKind::HostKeyChanged { known: "a".into(), offered: "b".into() };
    let stopped = Link::Stopped { problem: problem(changed, "changed", "") };
    behind.apply(&mut app, ClusterEvent::Link(stopped));
    assert!(app.dialog().is_none(), "no question is opened automatically");
    press(&mut app, "Z");
    assert_eq!(app.marked(), 0, "the marked job is gone");
    press(&mut app, "h");
    assert_eq!(app.context(), Context::Ask);
}
