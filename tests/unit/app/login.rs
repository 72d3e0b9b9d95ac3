//! Logging in: to the host of the selection or the page, and to the head only on pages without a host.

use super::*;
use marin_tui::app::Action;

fn is_worker(node: &Node) -> bool {
    node.state.is_alive() && !node.is_head
}

/// Moves the cursor to the first node of the focused table for which this holds.
fn go_to(app: &mut App, is_it: impl Fn(&Node) -> bool) -> Node {
    press(app, "gg");
    for _ in 0..200 {
        if let Some((_, node)) = app.target_node().filter(|(_, node)| is_it(node)) {
            return node.clone();
        }
        press(app, "j");
    }
    panic!("no such node");
}

/// The address of the host that the key logs in to.
fn login(app: &mut App) -> String {
    match &press(app, "!")[..] {
        [Effect::SshHost(_, host)] => host.internal.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Why the key does not log in.
fn refusal(app: &mut App) -> String {
    assert_eq!(press(app, "!"), []);
    assert!(!app.offers_action(Action::Ssh), "the footer omits it");
    said(app).to_owned()
}

/// The nodes pane by slice.
fn by_slice() -> App {
    let mut app = shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(sliced())));
    press(&mut app, "1vgg");
    app
}

#[test]
fn the_selected_node_counts_in_every_table_and_on_its_page() {
    let mut app = shown();
    press(&mut app, "1");
    let node = go_to(&mut app, is_worker);
    assert_eq!(login(&mut app), node.address.raw());
    press(&mut app, "d");
    assert_eq!((app.context(), login(&mut app)), (Context::Node, node.address.to_string()));

    let mut app = super::app(&["alpha", "beta"]);
    for name in ["alpha", "beta"] {
        send_update(&mut app, name, ClusterEvent::Link(up()));
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(snapshot())));
    }
    press(&mut app, "N");
    let node = go_to(&mut app, is_worker);
    assert_eq!((app.context(), login(&mut app)), (Context::AllNodes, node.address.to_string()));

    let mut app = by_slice();
    press(&mut app, "j<enter>");
    let node = go_to(&mut app, is_worker);
    assert_eq!((app.context(), login(&mut app)), (Context::Slice, node.address.to_string()));
}

#[test]
fn the_host_of_a_log_file_counts_while_the_log_has_the_focus() {
    let mut app = shown();
    press(&mut app, "1");
    let node = go_to(&mut app, is_worker);
    press(&mut app, "l");
    assert_eq!((app.context(), login(&mut app)), (Context::Log, node.address.to_string()));
}

#[test]
fn in_a_slice_a_host_has_to_be_selected() {
    let mut app = by_slice();
    for _ in 0..3 {
        assert!(refusal(&mut app).ends_with("to open it, and select a host there"));
        press(&mut app, "j");
    }
    press(&mut app, "G");
    assert_eq!(press(&mut app, "!"), [Effect::SshHead(ClusterName::new(CLUSTER))], "the row of the head");
}

#[test]
fn the_head_does_not_stand_in_for_a_node_that_is_gone() {
    let mut app = shown();
    press(&mut app, "1");
    let node = go_to(&mut app, is_worker);
    press(&mut app, "d");
    let mut later = snapshot();
    Arc::make_mut(&mut later.nodes).retain(|other| other.id != node.id);
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(later)));
    assert!(refusal(&mut app).starts_with("Ray no longer lists node "));
}

#[test]
fn a_dead_node_is_not_logged_in_to_at_its_old_address() {
    let mut app = shown();
    press(&mut app, "1");
    let node = go_to(&mut app, |node| !node.state.is_alive());
    let why = refusal(&mut app);
    assert!(why.contains(" is dead, and its address may belong to another machine"), "{why}");
    assert!(why.ends_with(&format!("`marin-tui -c {CLUSTER} ssh {}`", node.address)), "{why}");
    let mut later = snapshot();
    let successor = Node { address: node.address.clone(), ..super::node(40, "tpu_worker", 4.0, 4.0) };
    Arc::make_mut(&mut later.nodes).push(successor);
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(later)));
    let why = refusal(&mut app);
    assert!(why.contains("now belongs to worker-28"), "{why}");
    press(&mut app, "d");
    assert_eq!(app.context(), Context::Node);
    assert!(refusal(&mut app).contains("now belongs to worker-28"));
}

#[test]
fn pages_without_a_host_log_in_to_the_head() {
    let head = Effect::SshHead(ClusterName::new(CLUSTER));
    let mut app = shown();
    for pane in ["2", "3", "4"] {
        press(&mut app, pane);
        assert_eq!(press(&mut app, "!"), std::slice::from_ref(&head), "{pane}");
    }
    press(&mut app, "c");
    assert_eq!(press(&mut app, "!"), [head], "the fleet");
}

#[test]
fn a_hint_names_the_host_to_log_in_to() {
    let mut app = shown();
    let hint = |app: &mut App, keys: &str, fix: Fix| {
        press(app, keys);
        app.hint(&fix.into())
    };
    let on_host = || Verb::Ssh.on("10.0.0.7", "check");
    let on_head = || Verb::Ssh.to("check");
    assert_eq!(hint(&mut app, "1", on_host()), "check: ! on its row");
    assert_eq!(hint(&mut app, "1", on_head()), "check: ! in the jobs pane");
    assert_eq!(hint(&mut app, "2", on_host()), "check: 1, then ! on its row");
    assert_eq!(hint(&mut app, "2", on_head()), "check: !");
    // On a job's page it may be the host of the driver.
    assert_eq!(hint(&mut app, "d", on_head()), "check: ! in the jobs pane");
    let elsewhere = "check: ! on its row in the nodes or slices pane or on the TPU page";
    assert_eq!(hint(&mut app, "<esc>c", on_host()), elsewhere);
}
