//! Operations on the screen: the confirmation, the progress, interrupted operations.

use super::*;
use marin_tui::app::Effect;

fn send_event(app: &mut App, event: OperationEvent) -> Vec<Effect> {
    app.update(Event::Operation(ClusterName::new(CLUSTER), event), NOW)
}

fn restart() -> Operation {
    Operation::new(Task::Restart { preserve: true }, ClusterName::new(CLUSTER))
}

/// A restart that was interrupted because a machine could not be cleaned up.
pub fn stopped() -> OperationEvent {
    use StepName::{Backup, Check, ReadState, Stop};
    OperationEvent::Journaled(Some(JournaledOperation {
        operation: restart(),
        since: before(600),
        done: [Check, ReadState, Backup, Stop].iter().map(|s| (*s, "seen \x1b[31m".to_owned())).collect(),
        why: "10.0.0.7 cannot be cleared\x1b]0;x\x07".into(),
        saved: Some("/state/backups/marin-us-central2-1".into()),
        elsewhere: false,
    }))
}

fn affected(id: &str, owner: &str, tpu: f64, restoration: Restoration) -> AffectedJob {
    let holds = Some(vec![("TPU".into(), tpu)]);
    AffectedJob { restoration, holds, ..AffectedJob::of(&job(id, JobStatus::Running, owner, 21_720)) }
}

fn seen(app: &mut App, width: u16, height: u16) -> String {
    text(&paint(app, Colors::Full, width, height))
}

#[test]
fn a_restart_lists_affected_jobs_and_whether_they_are_restored() {
    let mut app = shown();
    press(&mut app, "R");
    assert!(seen(&mut app, 120, 40).contains("◌ checking affected jobs"));
    let lost = Restoration::Lost("its package is gone".into());
    let mut jobs =
        vec![affected("exp1395", "alice", 16.0, Restoration::Back), affected("notebook", "bo", 0.0, lost)];
    jobs.extend((0..30).map(|i| affected(&format!("sweep-{i}"), "alice", 4.0, Restoration::Back)));
    send_event(
        &mut app,
        OperationEvent::Previewed(
            Task::Restart { preserve: true },
            Preview { jobs, me: "alice".into(), problem: None, ..Preview::default() },
        ),
    );
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let text = seen(&mut app, width, height);
        assert!(text.contains("31 of 32 jobs will be restored"), "{text}");
        let row = |name: &str| text.lines().find(|l| l.contains(name)).unwrap_or_default().to_owned();
        assert!(row("exp1395").contains("TPU 16") && row("exp1395").contains("6h 02m"), "{text}");
        assert!(row("notebook").contains("no: its pack") && row("notebook").contains("bo"), "{text}");
        for needed in [
            "[ ] also end jobs owned by bo",
            "[x] save the jobs",
            "9 wait for workers",
            "[ Cancel ]",
            "Restart cluster",
        ] {
            assert!(text.contains(needed), "{needed} is missing at {width}x{height}:\n{text}");
        }
        assert!(text.contains("type the cluster's name to continue:"), "{text}");
    }
    // The list can be scrolled to its end.
    assert!(!seen(&mut app, 80, 24).contains("sweep-29"));
    press(&mut app, "G");
    assert!(seen(&mut app, 80, 24).contains("sweep-29"));
}

#[test]
fn a_job_of_unknown_owner_counts_as_another_persons() {
    let mut app = shown();
    press(&mut app, "R");
    let jobs = vec![
        affected("mine", "alice", 16.0, Restoration::Back),
        affected("theirs", "bo", 16.0, Restoration::Back),
        AffectedJob { owner: None, ..affected("raysubmit_1", "", 16.0, Restoration::Back) },
    ];
    let preview = Preview { jobs, me: "alice".into(), problem: None, ..Preview::default() };
    send_event(&mut app, OperationEvent::Previewed(Task::Restart { preserve: true }, preview));
    let screen = paint(&mut app, Colors::Full, 80, 24);
    let shown = text(&screen);
    assert!(shown.contains("[ ] also end jobs owned by bo or an unknown owner"), "{shown}");
    let tone = |word: &str, row: &str| {
        let (y, line) = shown.lines().enumerate().find(|(_, l)| l.contains(row)).unwrap();
        let x = line.split(word).next().unwrap().chars().count();
        screen[(u16::try_from(x).unwrap(), u16::try_from(y).unwrap())].fg
    };
    assert_eq!(tone("owner unknown", "raysubmit_1"), tone("bo ", "theirs"));
    assert_ne!(tone("owner unknown", "raysubmit_1"), tone("alice", "mine"));
}

/// A restart that loses the last of these jobs.
fn losing() -> App {
    let mut app = shown();
    press(&mut app, "R");
    let mut jobs: Vec<AffectedJob> =
        (0..11).map(|i| affected(&format!("sweep-{i}"), "alice", 4.0, Restoration::Back)).collect();
    jobs.push(affected(
        "notebook",
        "alice",
        0.0,
        Restoration::Lost("stop does not save jobs; use backup-jobs".into()),
    ));
    jobs[0].holds = Some(vec![("TPU-v4-32-head".into(), 1.0)]);
    let preview = Preview { jobs, me: "alice".into(), problem: None, ..Preview::default() };
    send_event(&mut app, OperationEvent::Previewed(Task::Restart { preserve: true }, preview));
    app
}

#[test]
fn lost_jobs_come_first_and_the_border_counts_the_hidden_ones() {
    let mut app = losing();
    let text = seen(&mut app, 80, 24);
    let (title, first) = (text.find("RESTORED").unwrap(), text.find("notebook").unwrap());
    assert!(title < first && first < text.find("sweep-0").unwrap_or(usize::MAX), "{text}");
    assert!(text.contains("more jobs below ─╯"), "{text}");
    let text = seen(&mut app, 120, 40);
    for whole in ["no: stop does not save jobs; use backup-jobs", "TPU-v4-32-head 1"] {
        assert!(text.contains(whole), "{text}");
    }
}

#[test]
fn the_focused_option_is_marked() {
    let mut app = losing();
    assert!(!seen(&mut app, 80, 24).contains('▸'), "Cancel has the focus");
    press(&mut app, "<tab>");
    for colors in [Colors::Full, Colors::Sixteen, Colors::None] {
        let buffer = paint(&mut app, colors, 80, 24);
        assert!(text(&buffer).contains("▸ [x] save the jobs"), "{}", text(&buffer));
        let marked = buffer.content().iter().find(|c| c.symbol() == "▸").unwrap();
        assert_eq!(marked.style().add_modifier, Theme::new(colors).selected.add_modifier);
        assert_eq!(marked.bg, Theme::new(colors).selected.bg.unwrap_or_default());
    }
}

#[test]
fn the_output_of_a_long_step_is_not_truncated() {
    let mut app = shown();
    app.update(Event::Operation(ClusterName::new(CLUSTER), OperationEvent::Began(restart())), before(68));
    press(&mut app, "p");
    let output = format!(
        "19 jobs are saved in /home/someone/{}/marin-us-central2-1; 0 left out",
        "folder/".repeat(12)
    );
    send_event(&mut app, OperationEvent::Progress(Progress::Began(StepName::Check)));
    send_event(&mut app, OperationEvent::Progress(Progress::Done(StepName::Check, output)));
    for (width, height) in [(80, 24), (120, 40)] {
        let text = seen(&mut app, width, height);
        assert!(text.contains("0 left out") && text.contains("9 "), "{text}");
    }
}

#[test]
fn progress_shows_steps_output_and_what_can_be_done() {
    let mut app = shown();
    app.update(Event::Operation(ClusterName::new(CLUSTER), OperationEvent::Began(restart())), before(68));
    press(&mut app, "p");
    for step in [StepName::Check, StepName::ReadState] {
        send_event(&mut app, OperationEvent::Progress(Progress::Began(step)));
        send_event(&mut app, OperationEvent::Progress(Progress::Done(step, "2 workers".into())));
    }
    send_event(&mut app, OperationEvent::Progress(Progress::Began(StepName::Backup)));
    for i in 0..40 {
        send_event(&mut app, OperationEvent::Progress(Progress::Output(format!("line {i} of ray up"))));
    }
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let text = seen(&mut app, width, height);
        for needed in
            ["✓ 2 read state: 2 workers", "◐ 3 save jobs", "restart 3/9 · 1m 08s", "line 39", "C cancels"]
        {
            assert!(text.contains(needed), "{needed} is missing at {width}x{height}:\n{text}");
        }
    }
    press(&mut app, "<esc>");
    assert!(seen(&mut app, 120, 40).contains("◐ restart 3/9: save jobs"), "the banner");
    send_event(&mut app, OperationEvent::Progress(Progress::Done(StepName::Backup, String::new())));
    send_event(&mut app, OperationEvent::Progress(Progress::Began(StepName::Stop)));
    let gone = problem(ProblemKind::TunnelLost, "the connection broke", "");
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Retrying { problem: gone, at: NOW }));
    let text = seen(&mut app, 120, 40);
    assert!(
        text.contains("during the restart (expected)") && !text.contains("the connection broke"),
        "{text}"
    );
}

#[test]
fn a_completed_restart_shows_the_jobs_that_are_missing_and_how_to_restore_them() {
    let mut app = shown();
    send_event(&mut app, OperationEvent::Began(restart()));
    let not_restored = vec!["orphan".into()];
    let saved = Some("/backups/one".into());
    send_event(&mut app, OperationEvent::Changed(Changed { saved, not_restored, ..Changed::default() }));
    send_event(&mut app, OperationEvent::Ended(OperationEnd::Done));
    press(&mut app, "<esc>p");
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let text = seen(&mut app, width, height);
        for needed in ["restart done", "✕ not restored: orphan", "restore-jobs /backups/one"] {
            assert!(text.contains(needed), "{needed} is missing at {width}x{height}:\n{text}");
        }
    }
}

#[test]
fn an_interrupted_operation_is_shown_with_its_actions() {
    let mut app = shown();
    send_event(&mut app, stopped());
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let buffer = paint(&mut app, Colors::Full, width, height);
        assert!(buffer.content().iter().all(|c| !c.symbol().chars().any(char::is_control)));
        let text = text(&buffer);
        for needed in [
            "restart 5/9 interrupted",
            "✕ 5 stop leftover Ray processes",
            "10.0.0.7 cannot be cleared",
            "marin-us-central2-1",
            "u resumes",
            "f skips the failed step",
            "x abandons it",
        ] {
            assert!(text.contains(needed), "{needed} is missing at {width}x{height}:\n{text}");
        }
    }
    press(&mut app, "<esc>c");
    let text = seen(&mut app, 120, 40);
    assert!(text.contains("restart 5/9 interrupted: p"), "the fleet shows it, too:\n{text}");
}

#[test]
fn another_operators_operation_is_shown_on_the_page_and_by_the_progress_key() {
    let operation = restart();
    let mark = OperationLock::new("00000000aaaaaaaa".into(), &operation, "alice@laptop", 77, before(120));
    let mark = OperationLock { step: 4, ..mark };
    let mut app = shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Lock(Some(mark.clone())));
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let text = seen(&mut app, width, height);
        assert!(text.contains("restart by alice, step 4 of 9 (alice@laptop, started 2m ago)"), "{text}");
    }
    press(&mut app, "p");
    let text = seen(&mut app, 120, 40);
    for words in ["Another operator", "alice@laptop (process 77)", "ps -p", "on its option"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    press(&mut app, "<esc>");
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Lock(Some(OperationLock { seen_ms: before(600).as_millis(), ..mark })),
    );
    let text = seen(&mut app, 200, 60);
    assert!(text.contains("restart by alice, step 4 of 9, no update for 10m"), "{text}");
    // Our own operation takes precedence.
    send_event(&mut app, stopped());
    assert!(!seen(&mut app, 200, 60).contains("by alice"));
    send_update(&mut app, CLUSTER, ClusterEvent::Lock(None));
    send_event(&mut app, OperationEvent::Journaled(None));
    assert!(!seen(&mut app, 200, 60).contains("by alice"));
}
