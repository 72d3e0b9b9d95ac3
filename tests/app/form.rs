//! The form of a job: typed, filled from a job, sent, refused.

use super::*;
use marin_tui::app::form::{Field, Form};

fn form(app: &App) -> &Form {
    let Some(Dialog::Form(form)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    form
}

fn hears(app: &mut App, news: FormNews) -> Vec<Effect> {
    app.update(Event::Form(ClusterName::new(CLUSTER), news), NOW)
}

/// Types into the field that is reached by tab from where the focus is.
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
fn a_form_is_typed_and_sent_as_it_stands() {
    let mut app = shown();
    press(&mut app, "n");
    assert_eq!(app.context(), Context::Form);
    // Keys that mean something elsewhere are letters here.
    press(&mut app, "qjk ./x:?<tab>");
    app.update(Event::Paste("~/src\nrm".into()), NOW);
    press(&mut app, "<tab>A=1<enter>B=s3cret<enter>");
    assert_eq!(form(&app).rows[form(&app).at].field, Field::Variable, "another empty row is there");
    go_to(&mut app, Field::Cpus);
    press(&mut app, "12<backspace>");
    go_to(&mut app, Field::Metadata);
    press(&mut app, "owner=alice");
    let effects = press_submit(&mut app);
    let [Effect::Submit(cluster, draft)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((cluster.as_str(), draft.entrypoint.as_str()), (CLUSTER, "qjk ./x:?"));
    assert_eq!((draft.working_dir.as_str(), draft.cpus.as_str()), ("~/src", "1"));
    assert_eq!(
        (&draft.variables[..2], &draft.metadata[0]),
        (&["A=1".into(), "B=s3cret".into()][..], &"owner=alice".into())
    );
    assert!(!format!("{effects:?} {app:?}").contains("s3cret"), "no secret in what is written down");
    assert_eq!(press(&mut app, "<enter>"), [], "it is not sent twice");
    hears(&mut app, FormNews::Failed("its package is gone".into()));
    assert_eq!(form(&app).said, "its package is gone");
    assert_eq!(form(&app).draft(), **draft, "what was typed stays");
    assert_eq!(press_submit(&mut app).len(), 1);
    let sent = hears(&mut app, FormNews::Submitted(id("raysubmit_1")));
    assert_eq!(sent, [asks(Request::Refresh)]);
    assert!(app.dialog().is_none() && said(&app).contains("raysubmit_1 is submitted"));
}

#[test]
fn a_job_is_submitted_again_with_changes() {
    let mut app = shown();
    assert_eq!(press(&mut app, "e"), [Effect::Fill(ClusterName::new(CLUSTER), id(JOBS[0]))]);
    assert_eq!(press_submit(&mut app), [], "not before it is read");
    press(&mut app, "q x");
    assert_eq!(app.context(), Context::Form, "what is typed meanwhile presses no keys");
    let draft = Draft {
        like: Some(id(JOBS[0])),
        entrypoint: "python eval.py".into(),
        variables: vec!["KEY=***".into()],
        ..Draft::default()
    };
    hears(&mut app, FormNews::Filled(Box::new(draft)));
    go_to(&mut app, Field::Command);
    press(&mut app, " --again");
    let effects = press_submit(&mut app);
    let [Effect::Submit(_, draft)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(
        (draft.entrypoint.as_str(), draft.like.as_ref()),
        ("python eval.py --again", Some(&id(JOBS[0])))
    );
    assert_eq!(draft.variables[0], "KEY=***");
    press(&mut app, "<esc>");
    hears(&mut app, FormNews::Failed("no route".into()));
    assert!(said(&app).contains("no route"), "told also when the form is gone");
    press(&mut app, "<esc>jj");
    assert_eq!(press(&mut app, "e"), []);
    assert!(said(&app).contains("started by hand"));
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
