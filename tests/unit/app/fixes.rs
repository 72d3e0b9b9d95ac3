//! Hints: the keys that they name are those of the current keymap, and work where the hint says.

use super::*;
use marin_tui::app::{Keymap, Listed, actions};
use std::collections::BTreeMap;

/// The sample cluster with these changes to the keymap.
fn with_keys(changes: &[(&str, &str)]) -> App {
    let changes = changes.iter().map(|(action, key)| ((*action).to_owned(), vec![(*key).to_owned()]));
    let keymap = Keymap::with_changes(actions(), &changes.collect::<BTreeMap<_, _>>()).unwrap();
    let mut app = App::new(vec![Listed::Cluster(spec(CLUSTER))], keymap);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot())));
    app
}

#[test]
fn a_line_feed_is_enter_unless_it_is_bound() {
    let mut app = with_keys(&[]);
    press(&mut app, "2<^j>");
    assert_eq!(app.context(), Context::Log);
    press(&mut app, "<esc>:pane-1<^j>");
    assert_eq!(app.context(), Context::Nodes);
    let mut app = with_keys(&[("filter", "ctrl-j")]);
    press(&mut app, "2<^j>");
    assert!(app.prompt().is_some() && app.context() == Context::Jobs);
}

/// An interrupted restart, so that its progress page can be opened.
fn interrupted() -> OperationEvent {
    let restart = Operation::new(Task::Restart { preserve: true }, ClusterName::new(CLUSTER));
    OperationEvent::Journaled(Some(JournaledOperation {
        operation: restart,
        since: before(600),
        done: vec![(StepName::Check, "ray 2.60.0".into())],
        why: "connection refused".into(),
        saved: None,
        elsewhere: false,
    }))
}

/// The keys that lead from the fleet to each page and pane, with its context.
const PAGES: [(&str, Context); 11] = [
    ("", Context::Clusters),
    ("N", Context::AllNodes),
    ("J", Context::AllJobs),
    ("<enter>1", Context::Nodes),
    ("<enter>2", Context::Jobs),
    ("<enter>3", Context::Log),
    ("<enter>4", Context::Autoscaler),
    ("T", Context::Tpus),
    ("d", Context::Info),
    ("<enter>1d", Context::Node),
    ("<enter>2d", Context::Job),
];

fn at((keys, context): (&str, Context)) -> App {
    let mut app = with_keys(&[]);
    press(&mut app, "<esc><esc>c");
    press(&mut app, keys);
    assert_eq!(app.context(), context, "{keys}");
    app
}

#[test]
fn keys_of_hints_work_where_they_are_shown() {
    for page in PAGES {
        for verb in Verb::ALL {
            let mut app = at(page);
            app.update(Event::Operation(ClusterName::new(CLUSTER), interrupted()), NOW);
            press(&mut app, "<esc>");
            assert_eq!(app.context(), page.1);
            let messages = app.toasts().messages().len();
            let hint = app.hint(&verb.to("do it").into());
            let keys = hint.strip_prefix("do it: ").unwrap_or_else(|| panic!("{verb:?}: {hint}"));
            if keys.contains(" in ") {
                assert!(!keys.contains("then"), "{keys}");
                continue;
            }
            for key in keys.split(", then ") {
                press(&mut app, &key[..1]);
            }
            let refused = |text: &str| text.contains("not available here");
            let new = app.toasts().messages().len() - messages;
            let refusal = app.toasts().messages().take(new).find(|toast| refused(&toast.text));
            assert!(refusal.is_none(), "{verb:?} on {page:?}: {keys}: {refusal:?}");
        }
    }
}

#[test]
fn the_keys_of_a_fix_depend_on_the_context() {
    let hint = |page| at(page).hint(&Verb::MonitorLog.to("read monitor.log").into());
    assert_eq!(hint(PAGES[0]), "read monitor.log: l in the cluster's autoscaler pane");
    assert_eq!(hint(PAGES[4]), "read monitor.log: 4, then l");
    assert_eq!(hint(PAGES[6]), "read monitor.log: l");
    // Pressed twice, the key would show monitor.err if monitor.log is already open.
    let hint = |page| at(page).hint(&Verb::MonitorOut.to("read it").into());
    assert_eq!(hint(PAGES[0]), "read it: l in the cluster's autoscaler pane, until it shows monitor.out");
    assert_eq!(hint(PAGES[6]), "read it: l until it shows monitor.out");
    let hint = |page| at(page).hint(&Verb::CleanPreempted.to("delete them").into());
    assert_eq!((hint(PAGES[0]), hint(PAGES[7])), ("delete them: T, then x".into(), "delete them: x".into()));
    let mut app = at(PAGES[0]);
    press(&mut app, "?");
    assert_eq!(app.context(), Context::Text);
    let restart = Verb::Restart.to("restart it").into();
    assert_eq!(app.dialog_hint(&restart), "restart it: R after closing this dialog");
    assert_eq!(app.hint(&restart), "restart it: R", "the hint on the page below is unchanged");
    let command = Hint::from(Fix::command("log in to Google", "gcloud auth login"));
    assert_eq!(app.hint(&command), "log in to Google: `gcloud auth login`");
}

#[test]
fn a_hint_names_the_key_of_the_changed_keymap() {
    let mut app = with_keys(&[("restart-cluster", "f9"), ("log", "L")]);
    let mut state = snapshot();
    let report = Arc::make_mut(&mut state.autoscaler);
    report.error = "KeyError".into();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    press(&mut app, "4");
    let finding = app.clusters()[0].findings.iter().find(|f| f.long == "KeyError").unwrap();
    assert_eq!(app.hint(&finding.hint), "read monitor.log for details: L");
    let restart = Verb::Restart.to("restart the cluster").into();
    assert_eq!(app.hint(&restart), "restart the cluster: f9");
    // An action without a key is shown by its name in the palette.
    let changes = BTreeMap::from([("restart-cluster".to_owned(), Vec::new())]);
    let app =
        App::new(vec![Listed::Cluster(spec(CLUSTER))], Keymap::with_changes(actions(), &changes).unwrap());
    assert_eq!(app.hint(&restart), "restart the cluster: :restart-cluster");
}

#[test]
fn read_only_hints_name_no_actions_that_change_a_cluster() {
    let keymap = Keymap::with_changes(actions(), &BTreeMap::new()).unwrap();
    let app = App::new(vec![Listed::Cluster(spec(CLUSTER))], keymap).with_read_only(true);
    assert_eq!(app.hint(&Verb::Restart.to("restart the cluster").into()), "restart the cluster");
    assert_eq!(app.hint(&Verb::Tpus.to("list them").into()), "list them: T");
}

#[test]
fn hints_on_a_details_page_name_the_pane() {
    let mut app = at(PAGES[0]);
    let mut state = snapshot();
    Arc::make_mut(&mut state.autoscaler).error = "KeyError".into();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    press(&mut app, "d");
    let lines = details(&app);
    let hint = lines.iter().find(|(label, text)| label == "hint" && text.contains("monitor.log")).unwrap();
    assert_eq!(hint.1, "read monitor.log for details: l in the cluster's autoscaler pane");
}
