//! The mouse.

use super::*;

#[test]
fn a_click_selects_and_focuses_and_the_wheel_moves_what_is_under_it() {
    let mut app = shown();
    press(&mut app, "4");
    paint(&mut app, 200, 60);
    let at = areas(&app, 200, 60);
    let (jobs, nodes, log) = (at.jobs.unwrap(), at.nodes.unwrap(), at.log.unwrap());
    point(&mut app, CLICK, jobs.rows.x + 5, jobs.rows.y + 3);
    assert_eq!((app.pane(), selected(&app).as_deref()), (Pane::Jobs, Some(JOBS[3])));
    point(&mut app, CLICK, nodes.rows.x, nodes.rows.y + 1);
    assert_eq!((app.pane(), page(&app).nodes.cursor()), (Pane::Nodes, 1));
    point(&mut app, CLICK, nodes.rows.x, nodes.rows.y + nodes.rows.height - 1);
    assert_eq!(page(&app).nodes.cursor(), 1, "no row there");
    point(&mut app, MouseEventKind::ScrollUp, log.x, log.y);
    assert_eq!((app.pane(), app.log().unwrap().follows()), (Pane::Nodes, false));
    point(&mut app, MouseEventKind::ScrollDown, jobs.rows.x, jobs.rows.y);
    assert_eq!(page(&app).jobs.cursor(), 5);
    point(&mut app, CLICK, 0, 0);
    assert_eq!(app.pane(), Pane::Nodes, "the header is nothing to focus");
}

#[test]
fn a_click_outside_closes_a_dialog_and_nothing_else() {
    let mut app = shown();
    press(&mut app, "s");
    paint(&mut app, 200, 60);
    let Area { x, y, .. } = areas(&app, 200, 60).dialog.unwrap();
    point(&mut app, CLICK, x, y);
    assert!(app.dialog().is_some(), "inside");
    point(&mut app, CLICK, 0, 59);
    assert!(app.dialog().is_none());
    // The next click may come before the next frame.
    let gone = problem(ProblemKind::Other, "x", "");
    tell(&mut app, CLUSTER, News::Link(Link::Retrying { problem: gone, at: NOW }));
    press(&mut app, "z");
    point(&mut app, CLICK, 0, 59);
    assert!(app.is_zoomed(), "no dialog is left to close");
}

#[test]
fn a_click_into_another_pane_ends_what_is_being_typed() {
    let mut app = shown();
    paint(&mut app, 200, 60);
    let nodes = areas(&app, 200, 60).nodes.unwrap();
    press(&mut app, "/tul");
    point(&mut app, CLICK, nodes.rows.x, nodes.rows.y);
    assert!(app.prompt().is_none());
    assert_eq!(rows(&app), ["eval-tulu-99"], "the filter stays with its table");
    assert_eq!(page(&app).nodes.filter().text(), "");
}

#[test]
fn a_click_opens_a_cluster_that_is_selected() {
    let mut app = app(&["a", "b", "c"]);
    paint(&mut app, 120, 40);
    let list = areas(&app, 120, 40).table.unwrap().rows;
    assert_eq!(point(&mut app, CLICK, list.x, list.y + 1), []);
    assert_eq!(app.pages().clusters.cursor(), 1);
    assert_eq!(point(&mut app, CLICK, list.x, list.y + 1), [asks_focus("b")]);
}

#[test]
fn a_click_presses_a_dialogs_button() {
    let mut app = shown();
    for (button, effects) in [(0, vec![]), (1, vec![asks(Request::StopJob(id("eval-tulu-99")))])] {
        press(&mut app, "s");
        paint(&mut app, 120, 40);
        let buttons = areas(&app, 120, 40).buttons.unwrap();
        let Area { x, y, width, .. } = buttons[button];
        assert_eq!(point(&mut app, CLICK, x + width / 2, y - 1), [], "above it");
        assert!(app.dialog().is_some());
        assert_eq!(point(&mut app, CLICK, x + width / 2, y), effects);
        assert!(app.dialog().is_none());
    }
    // A dialog that only tells has none, also when the one before it had.
    press(&mut app, "?");
    paint(&mut app, 120, 40);
    assert_eq!(areas(&app, 120, 40).buttons, None);
}

#[test]
fn a_click_on_a_tab_or_on_a_key_in_the_footer_does_what_it_names() {
    let mut app = shown();
    paint(&mut app, 80, 24);
    let tabs = areas(&app, 80, 24).tabs;
    assert_eq!(tabs.len(), 4);
    for (pane, tab) in tabs {
        point(&mut app, CLICK, tab.x + tab.width - 1, tab.y);
        assert_eq!(app.pane(), pane);
    }
    press(&mut app, "2");
    let (_, text) = paint(&mut app, 120, 40);
    let describe = text.find("d describe").unwrap();
    let column = u16::try_from(text[..describe].chars().count()).unwrap();
    point(&mut app, CLICK, column + 3, 39);
    assert!(matches!(app.view(), View::Details(_)), "{:?}", app.view());
    press(&mut app, "<esc>s");
    paint(&mut app, 120, 40);
    let hints = areas(&app, 120, 40).hints;
    let (_, back) = hints.last().unwrap();
    point(&mut app, CLICK, back.x, back.y);
    assert!(app.dialog().is_none(), "the footer of a dialog, too");
    // Where text is typed there are no keys.
    press(&mut app, "/");
    paint(&mut app, 120, 40);
    assert!(areas(&app, 120, 40).hints.is_empty());
}

#[test]
fn the_wheel_and_a_click_choose_in_the_palette() {
    let mut app = shown();
    press(&mut app, ":");
    paint(&mut app, 120, 40);
    let (list, top) = areas(&app, 120, 40).offers.unwrap();
    assert_eq!(top, 0);
    for _ in 0..2 {
        point(&mut app, MouseEventKind::ScrollDown, 0, 0);
    }
    assert_eq!((app.prompt().unwrap().chosen, app.prompt().unwrap().is_chosen), (1, true));
    point(&mut app, MouseEventKind::ScrollUp, list.x, list.y);
    assert_eq!(app.prompt().unwrap().chosen, 0);
    press(&mut app, "mess");
    paint(&mut app, 120, 40);
    let (list, _) = areas(&app, 120, 40).offers.unwrap();
    point(&mut app, CLICK, list.x + 3, list.y);
    assert!(
        app.prompt().is_none()
            && matches!(app.dialog(), Some(Dialog::Tell { title, .. }) if title == "messages")
    );
    press(&mut app, "<esc>:");
    paint(&mut app, 120, 40);
    point(&mut app, CLICK, 0, 0);
    assert!(app.prompt().is_none() && app.dialog().is_none(), "a click outside closes it");
}

#[test]
fn a_click_in_the_fleet_ends_what_is_being_typed() {
    let mut app = app(&["alpha", "beta", "gamma"]);
    press(&mut app, "/eta");
    paint(&mut app, 120, 40);
    let list = areas(&app, 120, 40).table.unwrap().rows;
    assert_eq!(point(&mut app, CLICK, list.x, list.y), [asks_focus("beta")]);
    assert_eq!((app.view().clone(), app.prompt()), (View::Cluster(1), None));
    assert_eq!(app.pages().clusters.filter().text(), "eta", "the filter stays with the fleet");
    assert_eq!(press(&mut app, "q"), [Effect::Ask(ClusterName::new("beta"), Request::Focus(false))]);
}
