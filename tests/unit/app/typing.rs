//! Typed lines, their history, the filter language, the search of a text, and the answers to keys.

use super::*;
use crossterm::event::{KeyCode, KeyEvent};
use marin_tui::app::job::form::Field;
use marin_tui::app::operation::confirmation::Control;
use marin_tui::app::{Keymap, Listed};
use std::collections::BTreeMap;

fn prompt(app: &App) -> &str {
    app.prompt().unwrap().line.text()
}

fn entrypoint(app: &App) -> String {
    let Some(Dialog::Form(form)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    form.draft().entrypoint
}

/// The lines of the shown text that match its search.
fn lines(app: &App) -> Vec<String> {
    let Some(Dialog::Text { lines, search, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    search.of(lines).iter().map(|(label, text)| format!("{label} {text}")).collect()
}

#[test]
fn every_line_has_a_cursor() {
    let mut app = shown();
    press(&mut app, "/wner:dar<home>o<end>a<^w><^_>");
    assert_eq!(prompt(&app), "owner:dara");
    press(&mut app, "<esc>npython a.py<left><left><left>");
    app.update(Event::Paste("b\nc".into()), NOW);
    press(&mut app, "<^a>nice <tab>");
    assert_eq!(entrypoint(&app), "nice python ab.py");
    press(&mut app, "<esc><esc>R<tab>");
    let on_name =
        |app: &App| matches!(app.dialog(), Some(Dialog::Plan(plan)) if plan.control == Control::Name);
    while !on_name(&app) {
        press(&mut app, "<tab>");
    }
    press(&mut app, "arin<left><left><left><left>m");
    let Some(Dialog::Plan(plan)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert_eq!((plan.control, plan.name.text(), plan.name.cursor()), (Control::Name, "marin", 1));
}

#[test]
fn the_cursor_is_drawn_at_its_position() {
    let mut app = shown();
    press(&mut app, "/abc<left>");
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| _ = draw(frame, &app, &Theme::new(Colors::Full), NOW)).unwrap();
    let column = " filter: ab".len();
    assert_eq!(terminal.get_cursor_position().unwrap(), ratatui::layout::Position::new(column as u16, 23));
}

#[test]
fn filters_and_searches_have_separate_histories() {
    let mut app = shown();
    press(&mut app, "/tul<enter>/<^u>owner:alice<enter>3/step<enter>2/<^u>ex");
    assert_eq!(prompt(&app), "ex");
    press(&mut app, "<up>");
    assert_eq!(prompt(&app), "owner:alice");
    assert!(rows(&app).len() < JOBS.len(), "a recalled filter takes effect immediately");
    press(&mut app, "<up>");
    assert_eq!((prompt(&app), rows(&app)), ("tul", vec!["eval-tulu-99".to_owned()]));
    press(&mut app, "<up><down><^n>");
    assert_eq!(prompt(&app), "ex");
    press(&mut app, "<esc><esc>3/<^p>");
    assert_eq!(prompt(&app), "step");
}

#[test]
fn submitted_entrypoints_are_recalled() {
    let mut app = shown();
    press(&mut app, "n<up>");
    let Some(Dialog::Form(form)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert_eq!(form.button(), Some(true), "without one the arrow changes the field");
    press(&mut app, "<down>sleep 1<backtab>");
    let sent = press(&mut app, "<enter>");
    let [Effect::Submit(_, form, _)] = &sent[..] else { panic!("{sent:?}") };
    app.update(Event::Form(ClusterName::new(CLUSTER), *form, FormEvent::Submitted(id("a"))), NOW);
    press(&mut app, "npy<up>");
    assert_eq!(entrypoint(&app), "sleep 1");
    press(&mut app, "<down>");
    assert_eq!(entrypoint(&app), "py");
    press(&mut app, "<down>");
    let Some(Dialog::Form(form)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert_eq!(form.rows[form.at].field, Field::WorkingDir);
}

#[test]
fn a_filter_accepts_columns_and_reports_errors() {
    let mut app = shown();
    press(&mut app, "/owner:alice status:run");
    let matched = rows(&app);
    assert!(!matched.is_empty() && matched.len() < JOBS.len(), "{matched:?}");
    app.update(Event::Paste(" size:9".into()), NOW);
    let (wrong, kept) = (app.prompt().unwrap().wrong.clone(), rows(&app));
    let (error, columns) = wrong.split_once("; columns: ").unwrap();
    let columns: Vec<&str> = columns.split(", ").collect();
    assert_eq!((error, &columns[..3]), ("no column `size`", &["job", "owner", "status"][..]));
    assert_eq!(kept, matched, "the table is unchanged");
    assert!(footer(&mut app).contains("no column `size`"));
    press(&mut app, "<enter>");
    assert!(app.prompt().is_some(), "it has to be corrected first");
    press(&mut app, "<^w><^w><enter>");
    assert!(app.prompt().is_none() && rows(&app) == matched, "{:?}", app.prompt());
    press(&mut app, "/<^u>~(");
    assert!(app.prompt().unwrap().wrong.contains("unclosed group"));
    press(&mut app, "<esc>");
    assert_eq!(rows(&app), matched);
}

#[test]
fn a_filter_accepts_any_column_and_names_the_hidden_one_that_matched() {
    let mut app = shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(sliced())));
    press(&mut app, "2/");
    for column in app.listing().unwrap().fields() {
        press(&mut app, &format!("<^u>{column}:x"));
        assert_eq!(app.prompt().unwrap().wrong, "", "{column}");
    }
    press(&mut app, "<^u>driver:04000000<enter>");
    assert_eq!(rows(&app), ["04000000"], "the column is only shown in the wide table");
    let unseen =
        |app: &App, seen: &[usize]| app.listing().unwrap().matches_unseen(&app.cell_context(NOW), seen);
    assert_eq!(unseen(&app, &[1]), None);
    press(&mut app, "/<^u>alice<enter>");
    assert_eq!(unseen(&app, &[1, 2]), None, "the match is in the name");
    press(&mut app, "/<^u>python<enter>");
    let hidden = unseen(&app, &[1, 2]).unwrap();
    assert!(hidden.starts_with("matches in entrypoint: ") && hidden.contains("python"), "{hidden}");
    let fields = |app: &App| app.listing().unwrap().unseen_fields(&app.cell_context(NOW), &[1, 2], 20);
    assert_eq!(fields(&app), ["entrypoint"]);
    press(&mut app, "/<^u>entrypoint:python<enter>");
    assert!(fields(&app).is_empty(), "the filter names it");
    press(&mut app, "/<^u>alice<enter>");
    assert!(fields(&app).is_empty(), "the match is in the name");
}

#[test]
fn a_filter_for_nodes_matches_the_name_on_the_screen_and_that_of_ray() {
    let mut app = super::app(&[CLUSTER]);
    app.start(None);
    let mut named = snapshot();
    let node = &mut Arc::make_mut(&mut named.nodes)[0];
    // Ray names a node after its address if its start command gives it no name.
    (node.name, node.hostname) = (node.address.clone(), "t1v-n-7".into());
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(named)));
    for name in ["t1v-n-7", "10.130.0.1"] {
        press(&mut app, &format!("1/<^u>node:{name}<enter>"));
        assert_eq!(app.listing().unwrap().len(), 1, "{name}");
        press(&mut app, "<esc>");
    }
}

#[test]
fn the_columns_of_a_filter_are_those_of_its_table() {
    let mut app = super::app(&["a-us", "b-eu"]);
    for name in ["a-us", "b-eu"] {
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(snapshot())));
    }
    let wrong = |app: &App| app.prompt().unwrap().wrong.clone();
    press(&mut app, "/cluster:us");
    assert_eq!((wrong(&app).as_str(), app.pages().clusters.len()), ("", 1));
    press(&mut app, "<esc>J/owner:alice cluster:us");
    let of_alice = table(&app, &ALL_JOBS).len();
    assert_eq!(wrong(&app), "");
    press(&mut app, "<^w><^w>");
    assert!(table(&app, &ALL_JOBS).len() > of_alice);
    press(&mut app, "<esc>N/type:tpu cluster:eu");
    assert_eq!(wrong(&app), "");
    press(&mut app, " owner:alice");
    assert!(wrong(&app).contains("no column `owner`; columns: node, address"), "{}", wrong(&app));
    press(&mut app, "<esc>cj<enter>1/cluster:eu");
    assert!(wrong(&app).contains("no column `cluster`"), "all rows are of one cluster");
    press(&mut app, "<esc>T/managed:x");
    assert_eq!(wrong(&app), "");
}

#[test]
fn help_can_be_searched_and_opens_the_manual() {
    let mut app = shown();
    press(&mut app, "?");
    let all = lines(&app).len();
    press(&mut app, "/follow log");
    let found = lines(&app);
    assert!(found.len() < all && found.iter().all(|l| l.to_lowercase().contains("follow")), "{found:?}");
    assert!(footer(&mut app).contains("search: follow log"));
    press(&mut app, "<enter>j<esc>");
    assert_eq!(lines(&app).len(), all, "esc clears the search first");
    press(&mut app, "<enter>trbl<enter>");
    assert!(lines(&app)[0].contains("# Troubleshooting"), "{:?}", lines(&app)[0]);
    press(&mut app, "/<^a>zzzz<esc><esc>");
    assert_eq!(lines(&app).len(), all, "back in the list of keys");
    press(&mut app, "<esc>");
    assert!(app.dialog().is_none());
    press(&mut app, ":help set<enter>");
    assert!(lines(&app)[0].contains("# Settings"));
    press(&mut app, "??<esc>");
    assert!(lines(&app)[0].contains("# Settings"), "only one help was open over it");
}

#[test]
fn a_key_that_is_not_available_in_a_dialog_is_answered_in_its_footer() {
    let mut app = shown();
    press(&mut app, "?");
    let before = app.toasts().messages().len();
    press(&mut app, "R");
    assert_eq!(app.note(), "R is not available in this dialog; close it with esc to use it (restart)");
    assert!(footer(&mut app).contains("R is not available"));
    press(&mut app, "w");
    assert_eq!(app.note(), "w is not available in this dialog; close it with esc to use it (workers)");
    assert_eq!(app.toasts().messages().len(), before, "no message is added under the dialog");
    press(&mut app, "j");
    assert_eq!(app.note(), "");
    press(&mut app, "B");
    assert_eq!(app.note(), "B is not bound to an action; ? lists the keys");
}

#[test]
fn typed_lines_are_saved_and_restored_if_there_is_a_file() {
    let line = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
    let before = [line("filter", "tul"), line("entrypoint", "python a.py"), line("working-dir", "/work")];
    let mut app = shown().with_history(&before);
    press(&mut app, "/<up>");
    assert_eq!(app.prompt().unwrap().line.text(), "tul");
    let saved = |effects: Vec<Effect>| match effects.as_slice() {
        [Effect::Save(kind, text), ..] => (kind.label(), text.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(saved(press(&mut app, "<^u>carol<enter>")), ("filter", "carol".to_owned()));
    // The line is saved before the console quits.
    let effects = press(&mut app, ":quit<esc>:exit<enter>");
    assert_eq!(effects.last(), Some(&Effect::Quit));
    assert_eq!(saved(effects), ("command", "exit".to_owned()));
    press(&mut app, "n<up>");
    let Some(Dialog::Form(form)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert_eq!(form.rows[0].line.text(), "python a.py");
    press(&mut app, "<tab><up>");
    let Some(Dialog::Form(form)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert_eq!(form.rows[1].line.text(), "/work", "each field has its own history");
}

#[test]
fn a_key_without_an_action_is_answered() {
    let mut app = shown();
    press(&mut app, "B");
    assert_eq!(said(&app), "B is not bound to an action; ? lists the keys");
    press(&mut app, "<^g>");
    assert_eq!(said(&app), "^g is not bound to an action; ? lists the keys");
}

#[test]
fn messages_name_the_keys_of_the_keymap() {
    let keys = [("bottom", "f6"), ("palette", ";"), ("back", "f7")];
    let changes: BTreeMap<String, Vec<String>> =
        keys.into_iter().map(|(action, key)| (action.to_owned(), vec![key.to_owned()])).collect();
    let keymap = Keymap::with_changes(actions(), &changes).unwrap();
    let mut app = App::new(vec![Listed::Cluster(spec(CLUSTER))], keymap);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot())));
    let back = |app: &mut App| app.update(Event::Key(KeyEvent::from(KeyCode::F(7))), NOW);
    let seen = |app: &App| {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
        terminal.draw(|frame| drop(draw(frame, app, &Theme::new(Colors::None), NOW))).unwrap();
        terminal.backend().to_string()
    };
    press(&mut app, "?");
    assert!(lines(&app).iter().any(|line| line.ends_with("or use `;help TOPIC`")), "{:?}", lines(&app));
    back(&mut app);
    press(&mut app, "nsleep 1");
    back(&mut app);
    assert!(seen(&app).contains("press f7 again to discard"), "{}", seen(&app));
    back(&mut app);
    let stream = app.log().unwrap().stream();
    let part = vec![Line::from("2026-11-20 08:00:00,000 INFO line")].into();
    send_update(&mut app, CLUSTER, ClusterEvent::Log(LogBatch { stream, part, end: LogEnd::Open }));
    press(&mut app, "3zgt2026-11-21 08:00<enter>");
    let wrong = &app.prompt().unwrap().wrong;
    assert_eq!(wrong, "the last line is older; press f6 to go to the end");
}

#[test]
fn pasted_text_begins_a_new_recall() {
    let mut app = shown();
    press(&mut app, ":refresh<enter>:<^p>");
    app.update(Event::Paste(" x".into()), NOW);
    press(&mut app, "<^p><^n>");
    assert_eq!(app.prompt().unwrap().line.text(), "refresh x");
}
