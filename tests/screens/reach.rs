//! All text of a dialog can be reached in a small window.

use super::*;
use marin_tui::app::Dialog;

const SMALL: [(u16, u16); 2] = [(80, 24), (40, 10)];

fn send_event(app: &mut App, event: OperationEvent) {
    app.update(Event::Operation(ClusterName::new(CLUSTER), event), NOW);
}

fn send_preview(app: &mut App, preview: Preview) {
    let Some(Dialog::Plan(plan)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    send_event(app, OperationEvent::Previewed(plan.operation.task.clone(), preview));
}

fn seen(app: &mut App, (width, height): (u16, u16)) -> String {
    text(&paint(app, Colors::None, width, height))
}

/// The text of all screens while a key is pressed until nothing changes; each screen must show whether more follows.
fn all_screens(app: &mut App, size: (u16, u16), key: &str, more: &str) -> String {
    // Other keys reach the fields that follow.
    let follows = |screen: &str| screen.lines().any(|row| row.contains(more) && !row.contains(" more field"));
    let mut all: Vec<String> = Vec::new();
    loop {
        let screen = seen(app, size);
        if all.last() == Some(&screen) {
            assert!(!follows(&screen), "the end was reached: {screen}");
            return all.join("\n");
        }
        if let Some(before) = all.last() {
            assert!(follows(before), "the border shows that more follows: {before}");
        }
        assert!(all.len() < 2000, "it never ends");
        all.push(screen);
        press(app, key);
    }
}

/// The words of a text that are missing in `seen`, except words that a narrow line may break.
fn lacking(said: &str, seen: &str) -> Vec<String> {
    said.split_whitespace().filter(|w| w.len() <= 20 && !seen.contains(*w)).map(str::to_owned).collect()
}

fn lines(app: &App) -> String {
    let (Dialog::Ask { lines, .. } | Dialog::Text { lines, .. }) = app.dialog().unwrap() else { panic!() };
    lines.iter().flat_map(|(label, text)| [label.as_str(), " ", text, " "]).collect()
}

#[test]
fn a_question_can_be_read_to_its_end() {
    for size in SMALL {
        let mut app = shown();
        let changed = ProblemKind::HostKeyChanged {
            known: "SHA256:r6cIlhaJz7C".into(),
            offered: "SHA256:0Zf1QY1ZDpm".into(),
        };
        let problem = problem(changed, "the host key of 10.0.0.1 has changed", "compare it");
        send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Stopped { problem }));
        if app.dialog().is_none() {
            press(&mut app, "h");
        }
        let said = lines(&app);
        let seen = all_screens(&mut app, size, "<down>", " below ─╯");
        assert_eq!(lacking(&said, &seen), Vec::<String>::new(), "{size:?}: {seen}");
        assert!(seen.lines().filter(|l| l.contains("Cancel") && l.contains("Accept")).count() > 0);
        all_screens(&mut app, size, "<up>", " above ");
    }
}

#[test]
fn help_can_be_read_to_its_end_and_from_a_question() {
    for size in SMALL {
        let mut app = shown();
        press(&mut app, "s?");
        let said = lines(&app);
        // Its 170 keys take as many screens by single rows.
        let seen = all_screens(&mut app, size, "<pgdn>", " below ─╯");
        assert_eq!(lacking(&said, &seen), Vec::<String>::new(), "{size:?}: {seen}");
        press(&mut app, "<esc>");
        assert!(matches!(app.dialog(), Some(Dialog::Ask { .. })), "{:?}", app.dialog());
    }
}

/// A restart of an unreachable cluster, with the jobs of its last state: the messages, the table and the options do not
/// fit together.
fn restart() -> App {
    let mut app = shown();
    press(&mut app, "R");
    let gone = unreachable("10.0.0.1", "not an ssh server, or the server closed the connection");
    send_preview(
        &mut app,
        Preview { jobs: Vec::new(), me: "alice".into(), problem: Some(gone), ..Preview::default() },
    );
    app
}

#[test]
fn a_plan_can_be_read_to_its_end_and_shows_the_focused_control() {
    for size in SMALL {
        let mut app = restart();
        let seen_all = all_screens(&mut app, size, "<down>", " below ─╯");
        let words = "server network alice carol RESTORED save continue without read state wait Ray";
        assert_eq!(lacking(words, &seen_all), Vec::<String>::new(), "{size:?}: {seen_all}");
        all_screens(&mut app, size, "<up>", " above ");
        // Each option, and the input line, is visible while it has the focus.
        for words in
            ["▸ [x] save", "▸ [ ] also end jobs owned by bo", "▸ [ ] continue without", "▸ type the cluster"]
        {
            press(&mut app, "<tab>");
            let screen = seen(&mut app, size);
            assert!(screen.contains(words), "{size:?}: {words}: {screen}");
        }
        press(&mut app, "<up><up><up><up>");
        press(&mut app, "marin-u");
        assert!(seen(&mut app, size).contains(": marin-u"), "typed text is visible");
        press(&mut app, "<tab><enter>");
        let screen = seen(&mut app, size);
        assert!(screen.contains("above"), "the reason of the refusal is visible: {screen}");
        let Some(Dialog::Plan(plan)) = app.dialog() else { panic!() };
        let last = plan.problem.rsplit(' ').next().unwrap().to_owned();
        assert!(screen.contains(&last), "{last}: {screen}");
    }
}

#[test]
fn a_hidden_option_is_scrolled_into_view_when_toggled() {
    let mut app = restart();
    press(&mut app, "<tab>");
    let size = SMALL[1];
    all_screens(&mut app, size, "<up>", " above ");
    assert!(!seen(&mut app, size).contains("save the jobs"));
    press(&mut app, " ");
    assert!(seen(&mut app, size).contains("▸ [ ] save the jobs"), "{}", seen(&mut app, size));
}

#[test]
fn progress_can_be_read_from_its_first_step() {
    for size in SMALL {
        let mut app = shown();
        let operation = Operation::new(Task::Restart { preserve: true }, ClusterName::new(CLUSTER));
        let steps = operation.steps.clone();
        send_event(&mut app, OperationEvent::Began(operation));
        press(&mut app, "p");
        for (i, step) in steps[..4].iter().enumerate() {
            send_event(&mut app, OperationEvent::Progress(Progress::Began(*step)));
            send_event(&mut app, OperationEvent::Progress(Progress::Done(*step, format!("done-{i}"))));
        }
        send_event(&mut app, OperationEvent::Progress(Progress::Began(steps[4])));
        for i in 0..30 {
            send_event(&mut app, OperationEvent::Progress(Progress::Output(format!("output-{i:02}"))));
        }
        let failed = problem(
            ProblemKind::Other,
            "10.128.0.3 cannot be cleared: it gives no answer by ssh within sixty seconds, nor by anything else",
            "look whether it is there, end what runs on it by hand; then resume, or go on past it",
        );
        send_event(&mut app, OperationEvent::Progress(Progress::Failed(steps[4], failed.clone())));
        send_event(&mut app, OperationEvent::Ended(OperationEnd::Stopped(failed, None)));
        let rest = seen(&mut app, size);
        assert!(rest.contains("resumes") && rest.contains("abandons it"), "the actions are visible: {rest}");
        let all = all_screens(&mut app, size, "<up>", " above ");
        let said: String =
            (0..4).map(|i| format!("done-{i} ")).chain((0..30).map(|i| format!("output-{i:02} "))).collect();
        let said = format!("{said} cleared: sixty anything past");
        assert_eq!(lacking(&said, &all), Vec::<String>::new(), "{size:?}: {all}");
        press(&mut app, "<end>");
        assert_eq!(seen(&mut app, size), rest);
    }
}

#[test]
fn a_form_shows_the_focused_field_and_the_error() {
    for size in SMALL {
        let mut app = shown();
        press(&mut app, "n");
        let fields = [
            "command",
            "working dir",
            "variable",
            "runtime env",
            "cpus",
            "gpus",
            "memory",
            "resources",
            "label selector",
            "tpu",
        ];
        for field in fields {
            let screen = seen(&mut app, size);
            assert!(screen.contains(&format!("│ {field} ")), "{size:?}: {field}: {screen}");
            assert!(screen.contains("Cancel") && screen.contains("Submit"), "{screen}");
            press(&mut app, "<down>");
        }
        // The error takes space from the rows, and is scrolled page by page if that is not enough.
        let Some(Dialog::Form(form)) = app.dialog() else { panic!() };
        let (id, why) = (form.id, "the package is too large for this head ".repeat(12) + "end");
        let failed = Event::Form(ClusterName::new(CLUSTER), id, FormEvent::Failed(why));
        app.update(failed, NOW);
        let screen = seen(&mut app, size);
        assert!(screen.contains("│ resources ") || screen.contains("│ submission id "), "{size:?}: {screen}");
        let all = all_screens(&mut app, size, "<pgdn>", " below ─╯");
        assert!(all.contains(" end ") && all.matches("large").count() >= 12, "{size:?}: {all}");
        assert!(size == SMALL[0] || all.contains(" more lines below"), "{all}");
        all_screens(&mut app, size, "<pgup>", " above ");
    }
}

#[test]
fn the_reason_why_no_worker_can_be_added_can_be_read_to_its_end() {
    for size in SMALL {
        let mut app = shown();
        press(&mut app, "a");
        let what = "not logged in to Google Cloud on this machine (no application-default credentials)";
        let hint = "run `gcloud auth application-default login`, then press the key once more; nothing was asked of google";
        send_event(&mut app, OperationEvent::Offered(Err(problem(ProblemKind::Login, what, hint))));
        let all = all_screens(&mut app, size, "<down>", " below ─╯");
        assert_eq!(lacking(&format!("{what} {hint}"), &all), Vec::<String>::new(), "{size:?}: {all}");
        assert!(all.contains("Cancel"));
    }
}
