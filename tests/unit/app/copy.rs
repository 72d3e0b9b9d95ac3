//! Copying, and the list to choose from.

use super::*;

fn copied(effects: &[Effect]) -> (String, String) {
    match effects {
        [Effect::Copy { what, text }] => (what.clone(), text.clone()),
        other => panic!("{other:?}"),
    }
}

fn listed(app: &App) -> Vec<String> {
    app.offers().into_iter().map(|offer| offer.text).collect()
}

#[test]
fn the_list_has_the_facts_and_commands_of_the_selection() {
    let mut app = shown();
    press(&mut app, "Y");
    let all = listed(&app);
    for what in ["log command", "ssh command", "dashboard command", "id", "entrypoint", "owner"] {
        assert!(all.iter().any(|it| it == what), "{what}: {all:?}");
    }
    assert_eq!(
        copied(&press(&mut app, "<enter>")),
        ("log command".into(), format!("marin-tui -c {CLUSTER} job-logs eval-tulu-99"))
    );
    assert_eq!(copied(&press(&mut app, "Yent<enter>")).0, "entrypoint");
    assert!(app.prompt().is_none());
    // A failed job's message is one value that includes all of its lines.
    press(&mut app, "jjjjYmess");
    assert_eq!(listed(&app), ["message"]);
    let message = copied(&press(&mut app, "<enter>")).1;
    assert!(!message.is_empty());
    press(&mut app, "1Yaddr");
    assert_eq!(listed(&app)[0], "address");
    press(&mut app, "<esc>");
    let open = [(marin_tui::model::service::Service::Dashboard, 8300)].into_iter().collect();
    send_update(&mut app, CLUSTER, ClusterEvent::Ports { open, notes: Vec::new() });
    let url = copied(&press(&mut app, "Ydash<enter>"));
    assert_eq!(url, ("dashboard".into(), "http://marin-us-central2.localhost:8300".into()));
}

#[test]
fn the_list_has_log_lines_and_the_latest_message() {
    let mut app = shown();
    paint(&mut app, 200, 60);
    press(&mut app, "3/slow<enter>");
    app.update(Event::Done(Outcome::Failed("it broke".into())), NOW);
    press(&mut app, "Y");
    let all = listed(&app);
    assert!(all[0].ends_with(" lines") && all[1] == "current line", "{all:?}");
    press(&mut app, "<esc>");
    let line = copied(&press(&mut app, "Ycurrent<enter>")).1;
    assert!(line.starts_with("W1121") && !line.contains('\n'), "{line}");
    assert_eq!(copied(&press(&mut app, "Ylatest<enter>")), ("latest message".into(), "it broke".into()));
}

#[test]
fn messages_are_copied_as_filtered() {
    let mut app = shown();
    app.update(Event::Done(Outcome::Failed("it broke".into())), NOW);
    app.update(Event::Done(Outcome::Copied("something".into())), NOW);
    press(&mut app, "m");
    assert_eq!(copied(&press(&mut app, "y")).1.lines().count(), 2);
    press(&mut app, "/broke<enter>");
    assert!(copied(&press(&mut app, "y")).1.ends_with("it broke"));
    press(&mut app, "?/wrapping<enter>");
    assert!(copied(&press(&mut app, "y")).1.contains("Toggle wrapping"), "and so is the text of a dialog");
    let mut empty = super::app(&["a", "b"]);
    press(&mut empty, "/zzz<enter>");
    assert_eq!(press(&mut empty, "y"), []);
    assert_eq!(said(&empty), "nothing to copy here");
}
