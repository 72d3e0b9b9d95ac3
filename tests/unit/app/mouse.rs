//! The mouse.

use super::*;

#[test]
fn a_click_selects_and_focuses_and_the_wheel_scrolls_under_the_pointer() {
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
    assert_eq!(page(&app).nodes.cursor(), 1, "there is no row at that position");
    point(&mut app, MouseEventKind::ScrollUp, log.x, log.y);
    assert_eq!((app.pane(), app.log().unwrap().follows()), (Pane::Nodes, false));
    point(&mut app, MouseEventKind::ScrollDown, jobs.rows.x, jobs.rows.y);
    assert_eq!(page(&app).jobs.cursor(), 5);
    point(&mut app, CLICK, 0, 0);
    assert_eq!(app.pane(), Pane::Nodes, "the header cannot be focused");
}

#[test]
fn a_click_outside_only_closes_the_dialog() {
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
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Retrying { problem: gone, at: NOW }));
    press(&mut app, "z");
    point(&mut app, CLICK, 0, 59);
    assert!(app.is_zoomed(), "there is no dialog to close");
}

#[test]
fn a_click_into_another_pane_closes_the_prompt() {
    let mut app = shown();
    paint(&mut app, 200, 60);
    let nodes = areas(&app, 200, 60).nodes.unwrap();
    press(&mut app, "/tul");
    point(&mut app, CLICK, nodes.rows.x, nodes.rows.y);
    assert!(app.prompt().is_none());
    assert_eq!(rows(&app), ["eval-tulu-99"], "the filter stays with its table");
    assert_eq!(page(&app).nodes.filter().text(), "");
    // A click on a title of another pane does so, too.
    press(&mut app, "1/a");
    paint(&mut app, 200, 60);
    let jobs = areas(&app, 200, 60).jobs.unwrap();
    point(&mut app, CLICK, jobs.headers[2].0, jobs.rows.y - 1);
    assert!(app.prompt().is_none());
    press(&mut app, "<esc>");
    assert_eq!(page(&app).jobs.filter().text(), "", "Esc clears the jobs' own filter");
    assert_eq!(page(&app).nodes.filter().text(), "a");
}

#[test]
fn a_click_opens_the_selected_cluster() {
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
        assert_eq!(point(&mut app, CLICK, x + width / 2, y - 1), [], "above the button");
        assert!(app.dialog().is_some());
        assert_eq!(point(&mut app, CLICK, x + width / 2, y), effects);
        assert!(app.dialog().is_none());
    }
    // A dialog that only shows text has no buttons, even if the previous dialog had some.
    press(&mut app, "?");
    paint(&mut app, 120, 40);
    assert_eq!(areas(&app, 120, 40).buttons, None);
}

#[test]
fn a_click_on_a_tab_or_a_key_in_the_footer_activates_it() {
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
    assert!(app.dialog().is_none(), "also in the footer of a dialog");
    // While text is typed, the footer has no keys.
    press(&mut app, "/");
    paint(&mut app, 120, 40);
    assert!(areas(&app, 120, 40).hints.is_empty());
}

#[test]
fn a_click_in_the_fleet_closes_the_prompt() {
    let mut app = app(&["alpha", "beta", "gamma"]);
    press(&mut app, "/eta");
    paint(&mut app, 120, 40);
    let list = areas(&app, 120, 40).table.unwrap().rows;
    assert_eq!(point(&mut app, CLICK, list.x, list.y), [asks_focus("beta")]);
    assert_eq!((app.view().clone(), app.prompt()), (View::Cluster(1), None));
    assert_eq!(app.pages().clusters.filter().text(), "eta", "the filter stays with the fleet");
    assert_eq!(press(&mut app, "q"), [Effect::Ask(ClusterName::new("beta"), Request::Focus(false))]);
}

const DRAG: MouseEventKind = MouseEventKind::Drag(MouseButton::Left);
const DROP: MouseEventKind = MouseEventKind::Up(MouseButton::Left);

#[test]
fn borders_between_panes_are_dragged_and_saved() {
    let mut app = shown();
    paint(&mut app, 120, 40);
    let seams = areas(&app, 120, 40).seams.unwrap();
    let (right, lower) = (seams.right.unwrap(), seams.lower);
    // By the left pane's border: the border moves with the pointer.
    point(&mut app, CLICK, right - 1, lower + 5);
    assert_eq!(point(&mut app, DRAG, 49, lower + 9), []);
    paint(&mut app, 120, 40);
    let now = areas(&app, 120, 40).seams.unwrap();
    assert_eq!((now.right, now.lower), (Some(50), lower));
    let kept = point(&mut app, DROP, 49, lower + 9);
    let Some(Effect::Remember(layout)) = kept.first() else { panic!("{kept:?}") };
    assert_eq!(layout.panes, Some(app.panes()));
    // At the intersection of all four panes both borders are dragged; each pane keeps its minimum size.
    point(&mut app, CLICK, 50, lower);
    point(&mut app, DRAG, 0, 39);
    paint(&mut app, 120, 40);
    let now = areas(&app, 120, 40);
    assert_eq!(now.seams.unwrap().right, Some(24));
    assert_eq!(now.jobs.unwrap().rows.height, 1);
    point(&mut app, DROP, 0, 39);
    let panes = app.panes();
    assert_eq!(point(&mut app, DRAG, 60, 20), [], "no border is grabbed");
    assert_eq!((app.panes(), point(&mut app, DROP, 60, 20)), (panes, vec![]));
}

#[test]
fn in_a_small_window_the_border_above_the_log_is_dragged() {
    let mut app = shown();
    press(&mut app, "2");
    paint(&mut app, 80, 24);
    let before = areas(&app, 80, 24);
    let seams = before.seams.unwrap();
    assert_eq!(seams.right, None);
    point(&mut app, CLICK, 10, seams.lower);
    point(&mut app, DRAG, 10, seams.lower - 3);
    paint(&mut app, 80, 24);
    let after = areas(&app, 80, 24);
    assert_eq!(after.seams.unwrap().lower, seams.lower - 3);
    assert_eq!(after.log.unwrap().height, before.log.unwrap().height + 3);
    assert_eq!(point(&mut app, DROP, 10, seams.lower - 3).len(), 1);
    assert_eq!(app.panes().upper, PaneLayout::default().upper, "the layout of a wide window is independent");
}

#[test]
fn the_palette_handles_clicks() {
    let mut app = shown();
    press(&mut app, ":");
    paint(&mut app, 120, 40);
    let (frame, list) = areas(&app, 120, 40).palette.unwrap();
    point(&mut app, CLICK, list.area.x + 3, list.area.y + 2);
    assert_eq!(app.prompt().map(|p| p.chosen), Some(2));
    point(&mut app, MouseEventKind::ScrollDown, list.area.x, list.area.y);
    assert_eq!(app.prompt().map(|p| p.chosen), Some(3), "the wheel chooses");
    point(&mut app, CLICK, frame.x, frame.y);
    assert!(app.prompt().is_some(), "a click on its border keeps it open");
    point(&mut app, CLICK, frame.x, frame.y - 1);
    assert!(app.prompt().is_none(), "a click outside closes it");
    press(&mut app, ":describe");
    paint(&mut app, 120, 40);
    let (_, list) = areas(&app, 120, 40).palette.unwrap();
    point(&mut app, CLICK, list.area.x, list.area.y);
    assert!(matches!(app.view(), View::Details(_)), "a click on the chosen entry runs it");
}

#[test]
fn rows_of_dialogs_handle_clicks() {
    let mut app = shown();
    press(&mut app, "C");
    paint(&mut app, 120, 40);
    let list = areas(&app, 120, 40).dialog_rows.unwrap();
    let at = |app: &App| match app.dialog() {
        Some(Dialog::Columns(chooser)) => (chooser.at, chooser.shown()),
        Some(Dialog::Form(form)) => (form.at, 0),
        other => panic!("{other:?}"),
    };
    let shown = at(&app).1;
    point(&mut app, CLICK, list.area.x, list.area.y + 2);
    assert_eq!(at(&app), (2, shown));
    point(&mut app, CLICK, list.area.x, list.area.y + 2);
    assert_eq!(at(&app), (2, shown - 1), "a second click hides it");
    point(&mut app, MouseEventKind::ScrollDown, list.area.x, list.area.y);
    assert_eq!(at(&app).0, 5);
    press(&mut app, "<esc>n");
    paint(&mut app, 120, 40);
    let rows = areas(&app, 120, 40).dialog_rows.unwrap();
    point(&mut app, CLICK, rows.area.x, rows.area.y + 4);
    assert_eq!(at(&app), (4, 0));
    press(&mut app, "<esc>R");
    paint(&mut app, 120, 40);
    let controls = areas(&app, 120, 40).controls;
    let (line, control) = controls[0];
    point(&mut app, CLICK, line.x, line.y);
    let Some(Dialog::Plan(plan)) = app.dialog() else { panic!("no plan") };
    assert_eq!(plan.control, control);
    let preserves = plan.preserves();
    point(&mut app, CLICK, line.x, line.y);
    let Some(Dialog::Plan(plan)) = app.dialog() else { panic!("no plan") };
    assert_eq!(plan.preserves(), !preserves, "a second click toggles the option");
}

#[test]
fn the_wheel_and_titles_work_in_every_table() {
    let mut app = app(&["a", "b", "c", "d", "e"]);
    for (keys, wheels) in [("", true), ("N", false), ("J", false)] {
        press(&mut app, keys);
        paint(&mut app, 200, 40);
        let table = areas(&app, 200, 40).table.unwrap();
        let sortable = app.listing().unwrap().choices().iter().position(|c| c.id == "cluster").unwrap();
        point(&mut app, CLICK, table.headers[sortable].0, table.rows.y - 1);
        assert_eq!(app.listing().unwrap().sorted_by(), Some("CLUSTER"), "{keys}");
        point(&mut app, MouseEventKind::ScrollDown, table.rows.x, table.rows.y);
        assert_eq!(app.listing().unwrap().cursor(), if wheels { 3 } else { 0 }, "{keys}");
    }
}

#[test]
fn a_click_in_an_ambiguous_list_chooses_an_entry() {
    let mut app = app(&["alpha", "beta"]);
    for cluster in ["alpha", "beta"] {
        send_update(&mut app, cluster, ClusterEvent::Link(up()));
        send_update(&mut app, cluster, ClusterEvent::Snapshot(Arc::new(jobs_snapshot(&[1]))));
    }
    press(&mut app, ":stop-job job-1");
    paint(&mut app, 120, 40);
    let (_, list) = areas(&app, 120, 40).palette.unwrap();
    point(&mut app, CLICK, list.area.x, list.area.y);
    assert_eq!(app.prompt().map(|prompt| (prompt.chosen, prompt.is_chosen)), Some((0, true)));
    point(&mut app, CLICK, list.area.x, list.area.y);
    assert_eq!((app.context(), app.view().cluster_index()), (Context::Ask, Some(0)));
}

#[test]
fn a_click_on_another_field_leaves_the_focused_one() {
    let mut app = shown();
    press(&mut app, "n");
    paint(&mut app, 120, 40);
    let rows = areas(&app, 120, 40).dialog_rows.unwrap();
    let click = |app: &mut App, row: u16| {
        point(app, CLICK, rows.area.x, rows.area.y + row);
    };
    let form = |app: &App| match app.dialog() {
        Some(Dialog::Form(form)) => form.clone(),
        other => panic!("{other:?}"),
    };
    click(&mut app, 2);
    press(&mut app, "A=1");
    let (before, below) = (form(&app).rows.len(), form(&app).rows[3].field);
    click(&mut app, 3);
    let after = form(&app);
    assert_eq!(after.rows.len(), before + 1, "an empty row is added after the last variable");
    assert_eq!(after.rows[after.at].field, below, "and the clicked row has the focus");
    // A recalled command is not written into another field.
    press(&mut app, "<esc><esc>nsleep 1<backtab><enter>");
    let id = form(&app).id;
    app.update(Event::Form(ClusterName::new(CLUSTER), id, FormEvent::Failed("no route".into())), NOW);
    press(&mut app, "<tab><^u>typed<up>");
    assert_eq!(form(&app).draft().entrypoint, "sleep 1");
    click(&mut app, 1);
    assert_eq!(form(&app).problem, "");
    press(&mut app, "<down>");
    assert_eq!(form(&app).draft().working_dir, "");
}
