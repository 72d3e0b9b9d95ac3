//! The tasks and actors that run on the nodes of a simulated head.

use marin_tui::demo::{Head, Scenario};
use marin_tui::model::{JobId, JobStatus, SubmissionId};
use marin_tui::ray::{Client, Endpoint, NODE_ID_LABEL, Poller, SUPERVISOR, Submission};
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
async fn a_required_node_is_kept_while_it_is_alive() {
    let head = Head::start(Scenario { jobs: 0, changes: 0, ..Scenario::default() }).await.unwrap();
    let dashboard = format!("http://{}", head.dashboard);
    let client = Client::new(Endpoint::Direct { dashboard, gcs: None }, None).unwrap();
    let nodes = head.nodes();
    let [own, worker, gone] = [nodes[0].to_string(), nodes[1].to_string(), "0".repeat(56)];
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let node = |id: &str| labels(&[(NODE_ID_LABEL, id)]);
    let cases = [
        ("plain", None, labels(&[]), labels(&[])),
        ("worker", None, node(&worker), node(&worker)),
        // Without the label Ray places it on the head as well.
        ("head", None, node(&own), labels(&[])),
        ("head-cpu", Some(0.5), node(&own), node(&own)),
        ("gone", None, labels(&[(NODE_ID_LABEL, &*gone), ("zone", "x")]), labels(&[("zone", "x")])),
    ];
    for (id, cpus, selector, _) in &cases {
        let job = Submission {
            entrypoint: "sleep 600".into(),
            submission_id: (*id).into(),
            entrypoint_num_cpus: *cpus,
            entrypoint_label_selector: selector.clone(),
            ..Submission::default()
        };
        client.submit_job(&job).await.unwrap();
    }
    let ids: Vec<_> = cases.iter().map(|(id, ..)| SubmissionId((*id).into())).collect();
    let all = client.label_selectors(&ids).await.unwrap();
    for (id, (name, _, _, kept)) in ids.iter().zip(&cases) {
        assert_eq!(all.get(id), Some(kept), "{name}");
        assert_eq!(client.label_selector(id).await, Ok(Some(kept.clone())), "{name}");
    }
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
