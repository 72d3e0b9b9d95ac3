//! The job form: typed, filled from a job, submitted, rejected.

use super::*;
use marin_tui::app::job::form::{Field, Form};

fn form(app: &App) -> &Form {
    let Some(Dialog::Form(form)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    form
}

/// Sends an event to the open form.
fn send_event(app: &mut App, event: FormEvent) -> Vec<Effect> {
    let id = form(app).id;
    send_event_to(app, id, event)
}

fn send_event_to(app: &mut App, form: FormId, event: FormEvent) -> Vec<Effect> {
    app.update(Event::Form(ClusterName::new(CLUSTER), form, event), NOW)
}

fn filled(job: &str, command: &str) -> FormEvent {
    FormEvent::Filled(Box::new(Draft { like: Some(id(job)), entrypoint: command.into(), ..Draft::default() }))
}

/// Moves the focus to this field with Tab.
fn go_to(app: &mut App, field: Field) {
    for _ in 0..40 {
        if form(app).rows.get(form(app).at).is_some_and(|row| row.field == field) {
            return;
        }
        press(app, "<tab>");
    }
    panic!("no {field:?}");
}

fn press_submit(app: &mut App) -> Vec<Effect> {
    while form(app).button() != Some(true) {
        press(app, "<tab>");
    }
    press(app, "<enter>")
}

#[test]
fn a_typed_form_is_submitted_unchanged() {
    let mut app = shown();
    press(&mut app, "n");
    assert_eq!(app.context(), Context::Form);
    // Keys that are bound elsewhere are letters here.
    press(&mut app, "qjk ./x:?<tab>");
    app.update(Event::Paste("~/src\nrm".into()), NOW);
    press(&mut app, "<tab>A=1<enter>B=s3cret<enter>");
    assert_eq!(form(&app).rows[form(&app).at].field, Field::Variable, "an empty row follows");
    go_to(&mut app, Field::Cpus);
    press(&mut app, "12<backspace>");
    go_to(&mut app, Field::LabelSelector);
    press(&mut app, r#"{"disk": "ssd"}"#);
    go_to(&mut app, Field::Metadata);
    press(&mut app, "owner=alice");
    let effects = press_submit(&mut app);
    let [Effect::Submit(cluster, _, draft)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((cluster.as_str(), draft.entrypoint.as_str()), (CLUSTER, "qjk ./x:?"));
    assert_eq!((draft.working_dir.as_str(), draft.cpus.as_str()), ("~/src", "1"));
    assert_eq!(draft.label_selector, r#"{"disk": "ssd"}"#);
    assert_eq!(
        (&draft.variables[..2], &draft.metadata[0]),
        (&["A=1".into(), "B=s3cret".into()][..], &"owner=alice".into())
    );
    assert!(!format!("{effects:?}").contains("s3cret"), "no secret in debug output");
    assert_eq!(press(&mut app, "<enter>"), [], "it is not submitted twice");
    send_event(&mut app, FormEvent::Failed("its package is gone".into()));
    assert_eq!(form(&app).problem, "its package is gone");
    assert_eq!(form(&app).draft(), **draft, "typed text is kept");
    assert_eq!(press_submit(&mut app).len(), 1);
    let sent = send_event(&mut app, FormEvent::Submitted(id("raysubmit_1")));
    assert_eq!(sent, [asks(Request::Refresh)]);
    assert!(app.dialog().is_none() && said(&app).contains("raysubmit_1 submitted"));

    // The job is selected and its log opened as soon as it is listed, but not again.
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot())));
    assert_ne!(selected(&app).as_deref(), Some("raysubmit_1"), "the snapshot predates the submission");
    let mut with_it = snapshot();
    Arc::make_mut(&mut with_it.jobs).push(Arc::new(job("raysubmit_1", JobStatus::Pending, "alice", 1)));
    let with_it = Arc::new(with_it);
    let effects = send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::clone(&with_it)));
    let is_its = |e: &Effect| matches!(e, Effect::Ask(_, Request::Follow(_, LogSource::Job(of))) if *of == id("raysubmit_1"));
    assert!(effects.iter().any(is_its), "{effects:?}");
    assert_eq!(selected(&app).as_deref(), Some("raysubmit_1"));
    press(&mut app, "2G");
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(with_it));
    assert_ne!(selected(&app).as_deref(), Some("raysubmit_1"));
}

#[test]
fn a_job_is_resubmitted_with_changes() {
    let mut app = shown();
    let effects = press(&mut app, "e");
    assert_eq!(effects, [Effect::Fill(ClusterName::new(CLUSTER), form(&app).id, id(JOBS[0]))]);
    assert_eq!(press_submit(&mut app), [], "not before the job was read");
    press(&mut app, "q x");
    assert_eq!(app.context(), Context::Form, "keys typed meanwhile have no effect");
    let draft = Draft {
        like: Some(id(JOBS[0])),
        entrypoint: "python eval.py".into(),
        variables: vec!["KEY=***".into()],
        label_selector: r#"{"disk":"ssd"}"#.into(),
        ..Draft::default()
    };
    send_event(&mut app, FormEvent::Filled(Box::new(draft)));
    go_to(&mut app, Field::Command);
    press(&mut app, " --again");
    let effects = press_submit(&mut app);
    let [Effect::Submit(_, _, draft)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(
        (draft.entrypoint.as_str(), draft.like.as_ref()),
        ("python eval.py --again", Some(&id(JOBS[0])))
    );
    assert_eq!(
        (draft.variables[0].as_str(), draft.label_selector.as_str()),
        ("KEY=***", r#"{"disk":"ssd"}"#)
    );
    let closed = form(&app).id;
    press(&mut app, "<esc>");
    send_event_to(&mut app, closed, FormEvent::Failed("no route".into()));
    assert!(said(&app).contains("no route"), "reported even if the form is closed");
    press(&mut app, "<esc>jj");
    assert_eq!(press(&mut app, "e"), []);
    assert!(said(&app).contains("started manually"));
}

#[test]
fn the_values_of_variables_are_not_shown() {
    let mut app = shown();
    press(&mut app, "n<tab><tab>KEY=s3cret");
    for (width, height) in [(80, 24), (120, 40)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| _ = draw(frame, &app, &Theme::new(Colors::Full), NOW)).unwrap();
        let text: String =
            terminal.backend().buffer().content().iter().map(ratatui::buffer::Cell::symbol).collect();
        assert!(text.contains("KEY=••••••") && !text.contains("s3cret"), "{text}");
    }
}

#[test]
fn typed_text_is_discarded_by_a_second_esc_only() {
    let mut app = shown();
    press(&mut app, "n<esc>");
    assert!(app.dialog().is_none(), "nothing was typed");
    press(&mut app, "nsleep 1<esc>");
    assert!(form(&app).is_warning() && form(&app).problem.is_empty());
    press(&mut app, "2<esc>");
    assert_eq!(form(&app).draft().entrypoint, "sleep 12", "typing clears the warning");
    press(&mut app, "<esc>");
    assert!(app.dialog().is_none());
}

#[test]
fn a_job_read_for_a_closed_form_does_not_fill_another_form() {
    let mut app = shown();
    press(&mut app, "e");
    let first = form(&app).id;
    press(&mut app, "<esc>je");
    let second = form(&app).id;
    send_event_to(&mut app, first, filled(JOBS[0], "the first job"));
    assert!(form(&app).in_progress.is_some() && form(&app).draft().entrypoint.is_empty(), "{:?}", form(&app));
    send_event_to(&mut app, second, filled(JOBS[1], "the second job"));
    go_to(&mut app, Field::Command);
    press(&mut app, " --more");
    send_event_to(&mut app, first, filled(JOBS[0], "the first job"));
    assert_eq!(form(&app).draft().entrypoint, "the second job --more");
    // An empty form that was opened while a job was being read keeps what is typed.
    press(&mut app, "<esc><esc>e");
    let third = form(&app).id;
    press(&mut app, "<esc>n");
    press(&mut app, "sleep 1");
    send_event_to(&mut app, third, filled(JOBS[1], "the second job"));
    assert_eq!(form(&app).draft().entrypoint, "sleep 1");
}

#[test]
fn the_outcome_of_a_closed_form_is_reported_and_does_not_change_the_open_form() {
    let mut app = shown();
    press(&mut app, "nsleep 1");
    press_submit(&mut app);
    let closed = form(&app).id;
    press(&mut app, "<esc>nsleep 2");
    let open = form(&app).clone();
    send_event_to(&mut app, closed, FormEvent::InProgress("uploading".into()));
    send_event_to(&mut app, closed, FormEvent::Failed("its package is gone".into()));
    assert_eq!(*form(&app), open);
    assert!(said(&app).contains("its package is gone"));
    let effects = send_event_to(&mut app, closed, FormEvent::Submitted(id("raysubmit_1")));
    assert_eq!((effects, form(&app)), (vec![asks(Request::Refresh)], &open));
    assert!(said(&app).contains("raysubmit_1 submitted"));
}

#[test]
fn a_job_with_a_warning_is_submitted_after_a_second_confirmation() {
    let mut app = shown();
    press(&mut app, "ntrain");
    go_to(&mut app, Field::Tpu);
    press(&mut app, "v4-64");
    let first = press_submit(&mut app);
    let [Effect::Submit(_, _, draft)] = &first[..] else { panic!("{first:?}") };
    assert_eq!((draft.tpu.as_str(), draft.seen.len()), ("v4-64", 0));
    let warning = "no node type provides TPU 8: the job will stay pending".to_owned();
    send_event(&mut app, FormEvent::Warned(vec![warning.clone()]));
    assert_eq!(form(&app).problem, format!("{warning}; press Submit again to submit it anyway"));
    let again = press(&mut app, "<enter>");
    let [Effect::Submit(_, _, draft)] = &again[..] else { panic!("{again:?}") };
    assert_eq!(draft.seen, std::slice::from_ref(&warning));
    let closed = form(&app).id;
    send_event(&mut app, FormEvent::Failed("no route".into()));
    press(&mut app, "<esc><esc>");
    send_event_to(&mut app, closed, FormEvent::Warned(vec![warning]));
    assert!(said(&app).contains("no node type provides TPU 8"), "{}", said(&app));
}

#[test]
fn a_log_that_is_opened_after_a_submission_stays_open() {
    let submitted = |mut app: App| {
        press(&mut app, "nsleep 1");
        press_submit(&mut app);
        send_event(&mut app, FormEvent::Submitted(id("raysubmit_1")));
        app
    };
    let mut listed = snapshot();
    Arc::make_mut(&mut listed.jobs).push(Arc::new(job("raysubmit_1", JobStatus::Pending, "alice", 1)));
    let listed = Arc::new(listed);
    for keys in ["J", "2"] {
        let mut app = shown();
        press(&mut app, keys);
        let mut app = submitted(app);
        press(&mut app, "jl");
        let open = app.log().unwrap().source().cloned();
        assert!(open.is_some() && app.context() == Context::Log, "{keys}");
        let effects = send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::clone(&listed)));
        assert_eq!((effects, app.log().unwrap().source()), (vec![], open.as_ref()), "{keys}");
    }
}

#[test]
fn events_reach_a_form_below_a_text() {
    let mut app = shown();
    press(&mut app, "e");
    app.update(Event::Audit(Ok(vec![("now".into(), "something".into())])), NOW);
    assert_eq!(app.context(), Context::Text);
    let Some(Dialog::Text { under: Some(under), .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    let Dialog::Form(below) = &**under else { panic!("{under:?}") };
    let below = below.id;
    send_event_to(&mut app, below, filled(JOBS[0], "python eval.py"));
    press(&mut app, "<esc>");
    assert_eq!((form(&app).draft().entrypoint.as_str(), &form(&app).in_progress), ("python eval.py", &None));
    press_submit(&mut app);
    app.update(Event::Audit(Ok(vec![("now".into(), "something".into())])), NOW);
    send_event_to(&mut app, below, FormEvent::Submitted(id("raysubmit_1")));
    assert_eq!(app.context(), Context::Text, "the text stays");
    press(&mut app, "<esc>");
    assert!(app.dialog().is_none());
}

#[test]
fn an_edited_command_begins_a_new_recall() {
    let mut app = shown().with_history(&[("entrypoint".to_owned(), "sleep 1".to_owned())]);
    press(&mut app, "n<up>23<down>");
    assert_eq!(form(&app).draft().entrypoint, "sleep 123", "the edited text is kept");
}
