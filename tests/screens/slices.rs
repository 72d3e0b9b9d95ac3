//! Nodes by slice: the pane, and the page of a slice.

use super::*;

/// A healthy slice of 64 hosts with one outlier, a slice that lost half of its hosts, and a lost slice.
fn by_slice() -> App {
    let mut app = shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(sliced())));
    press(&mut app, "1vgg");
    let figures = |n: u8| (node(n, "", 0.0, 0.0).id, figures(if n == 17 { 2.0 } else { 70.0 }, 40, 30));
    send_update(&mut app, CLUSTER, ClusterEvent::Physical((1..=64).map(figures).collect()));
    send_update(&mut app, CLUSTER, held("04000000", 1..=64));
    app
}

#[test]
fn slices_in_the_nodes_pane() {
    let mut app = by_slice();
    snap_at_sizes("slices", &mut app);
    press(&mut app, "z");
    snap("slices_zoomed", &mut app);
}

#[test]
fn the_page_of_a_slice() {
    let mut app = by_slice();
    press(&mut app, "jj<enter>");
    snap_at_sizes("slice", &mut app);
    press(&mut app, "<esc>k<enter>");
    snap("slice_half", &mut app);
    press(&mut app, "<esc>k<enter>");
    snap_at("slice_lost", &mut app, &[(80, 24), (40, 10)]);
}

#[test]
fn hosts_of_an_earlier_slice_of_the_same_name_are_not_counted_as_lost() {
    let mut state = sliced();
    // Four of eight hosts are alive. The slice was created ten minutes ago, and one of its hosts has died since.
    let half = &mut Arc::make_mut(&mut state.nodes)[64..72];
    for host in &mut half[..4] {
        host.started = Some(before(600));
    }
    half[4].ended = Some(before(120));
    let mut app = shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    press(&mut app, "1vggj<enter>");
    let page = text(&paint(&mut app, Colors::None, 120, 40));
    assert!(page.contains("slice ray-m-worker-bb20-tpu") && page.contains("2m ago: 1 host: "), "{page}");
}

#[test]
fn slices_of_all_clusters() {
    let mut app = app(&["alpha", "beta"]);
    for name in ["alpha", "beta"] {
        send_update(&mut app, name, ClusterEvent::Link(up()));
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(sliced())));
    }
    press(&mut app, "Nv");
    snap_at_sizes("all_slices", &mut app);
}
