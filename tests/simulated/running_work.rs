//! The tasks and actors that run on the nodes of a simulated head.

use marin_tui::demo::{Head, Scenario};
use marin_tui::model::{JobId, JobStatus, SubmissionId};
use marin_tui::ray::{Client, Endpoint, Poller, SUPERVISOR};
use std::collections::BTreeMap;

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
    // The entrypoints of submissions are on the head, each as an actor.
    let supervisors: Vec<_> = everywhere
        .iter()
        .filter_map(|(node, running)| Some((*node, running.name.raw().strip_prefix(SUPERVISOR)?)))
        .collect();
    let submissions = head.submissions(JobStatus::Running);
    assert!(!submissions.is_empty() && supervisors.len() == submissions.len(), "{supervisors:?}");
    for (node, id) in supervisors {
        assert!(node == head.nodes()[0] && submissions.iter().any(|known| known == id), "{id}");
    }
    // What they hold is in the records of the jobs, and not counted twice.
    let holdings = client.holdings().await.unwrap();
    let jobs = Poller::new(client.clone()).refresh().await.unwrap().jobs;
    let is_known = |driver: &JobId| jobs.iter().any(|job| job.driver.as_ref() == Some(driver));
    assert!(holdings.by_job.keys().all(is_known), "{holdings:?}");
    let selectors = client.label_selectors(&[]).await.unwrap();
    assert!(selectors.values().all(BTreeMap::is_empty), "no submitter required a label: {selectors:?}");
}

#[tokio::test]
async fn without_its_actor_a_label_selector_is_unknown_since_ray_2_54() {
    let none = BTreeMap::<String, String>::new();
    for (version, selector) in [("2.53.0", Some(none)), ("2.60.0", None)] {
        let scenario = Scenario { ray_version: version.into(), changes: 0, ..Scenario::default() };
        let head = Head::start(scenario).await.unwrap();
        let dashboard = format!("http://{}", head.dashboard);
        let client = Client::new(Endpoint::Direct { dashboard, gcs: None }, None).unwrap();
        let job = [SubmissionId("without an actor".into())];
        let all = client.label_selectors(&job).await.unwrap();
        assert_eq!(all.get(&job[0]), selector.as_ref(), "{version}");
        assert_eq!(client.label_selector(&job[0]).await, Ok(selector), "{version}");
    }
}
