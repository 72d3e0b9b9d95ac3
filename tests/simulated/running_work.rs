//! The tasks and actors that run on the nodes of a simulated head.

use marin_tui::demo::{Head, Scenario};
use marin_tui::ray::{Client, Endpoint, Poller};

#[tokio::test]
async fn one_list_for_the_cluster_has_what_runs_on_each_node() {
    let head = Head::start(Scenario { changes: 0, ..Scenario::default() }).await.unwrap();
    let dashboard = format!("http://{}", head.dashboard);
    let client = Client::new(Endpoint::Direct { dashboard, gcs: None }, None).unwrap();
    let everywhere = client.running_everywhere().await.unwrap();
    let nodes = Poller::new(client.clone()).refresh().await.unwrap().nodes;
    for (node, running) in &everywhere {
        assert!(nodes.iter().any(|known| known.id == *node), "{running:?} on {node}");
    }
    for kind in ["task", "actor"] {
        assert!(everywhere.iter().any(|(_, running)| running.kind == kind), "{kind}: {everywhere:?}");
    }
    assert!(everywhere.iter().any(|(node, _)| *node != everywhere[0].0), "on several nodes: {everywhere:?}");
}
