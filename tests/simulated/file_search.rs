//! A search through the logs of several clusters: one with matches, one without logs, one that fails to read them, and
//! one that is unreachable.

use crate::soon::soon;
use crate::spec::spec;
use marin_tui::config::{Env, Folders, Settings};
use marin_tui::demo::{Fault, FaultRule, Head, Scenario};
use marin_tui::model::cloud::TpuHost;
use marin_tui::model::{
    ClusterEvent, ClusterName, ClusterSpec, FileMatches, FileSearch, FileSearchEvent, FileSearchId,
    HeadAddress, JobStatus, Link, NodeId, Provider, Request, SearchTally, SearchedNode,
};
use marin_tui::state::Update;
use marin_tui::supervisor::{Options, Supervisor};
use marin_tui::token::TokenSources;
use std::collections::BTreeMap;
use tokio::sync::mpsc;

const ID: FileSearchId = FileSearchId(7);

/// The results of the search on a cluster.
#[derive(Default)]
struct Results {
    files: Vec<FileMatches>,
    nodes: usize,
    last: Option<Result<SearchTally, String>>,
}

fn at(name: &str, dashboard: String) -> ClusterSpec {
    let head = HeadAddress::Direct { dashboard, gcs: None };
    ClusterSpec { provider: Provider::Local, head, ..spec(name) }
}

fn search(nodes: &[NodeId]) -> Request {
    let searched = |node: &NodeId| SearchedNode {
        node: *node,
        host: TpuHost::at("10.0.0.1"),
        is_head: false,
        globs: ["job-driver-*", "worker-*"].map(str::to_owned).to_vec(),
    };
    let nodes = nodes.iter().map(searched).collect();
    Request::SearchFiles(Box::new(FileSearch { id: ID, pattern: "boom".into(), nodes, lines: 100, most: 2 }))
}

async fn next(receiver: &mut mpsc::Receiver<Update>) -> Update {
    soon("the clusters report something", receiver.recv()).await.expect("the supervisor is running")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_cluster_reports_its_matches_or_why_it_was_not_searched() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let home = tempfile::tempdir().unwrap();
    let start = async |jobs| Head::start(Scenario { jobs, ..Scenario::default() }).await.unwrap();
    let (has, empty, fails) = (start(6).await, start(0).await, start(6).await);
    let running = has.submissions(JobStatus::Running);
    assert!(has.write_job_log(&running[0], b"fine\nboom 1\nboom 2\nfine\nboom 3\n"));
    let trouble = FaultRule { path: "/api/v0/logs/file".into(), fault: Fault::Status(503) };
    fails.set_faults(vec![trouble]);
    let url = |head: &Head| format!("http://{}", head.dashboard);
    let specs = [
        at("has", url(&has)),
        at("empty", url(&empty)),
        at("fails", url(&fails)),
        at("down", "http://127.0.0.1:9".to_owned()),
    ];
    let env = Env::new(&[("HOME", home.path().to_str().unwrap())], home.path());
    let options = Options::new(&Settings::default(), &Folders::new(&env), TokenSources::default());
    let (updates, mut receiver) = mpsc::channel(256);
    let supervisor = Supervisor::start(specs.to_vec(), options, &updates);
    let mut links = BTreeMap::new();
    while links.len() < specs.len() {
        let Update { cluster, event, .. } = next(&mut receiver).await;
        if let ClusterEvent::Link(Link::Up { .. } | Link::Retrying { .. }) = event {
            links.insert(cluster.to_string(), matches!(event, ClusterEvent::Link(Link::Up { .. })));
        }
    }
    assert_eq!(
        links.iter().filter(|(_, up)| !**up).map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["down"]
    );
    for (name, nodes) in
        [("has", has.nodes()), ("empty", empty.nodes()), ("fails", fails.nodes()), ("down", has.nodes())]
    {
        supervisor.ask(&ClusterName::new(name), search(&nodes));
    }
    let mut results: BTreeMap<String, Results> = BTreeMap::new();
    while results.values().filter(|r| r.last.is_some()).count() < specs.len() {
        let Update { cluster, event, .. } = next(&mut receiver).await;
        let ClusterEvent::FileSearch(id, progress) = event else { continue };
        assert_eq!(id, ID);
        let results = results.entry(cluster.to_string()).or_default();
        assert!(results.last.is_none(), "{cluster} reports nothing after the end");
        match progress {
            FileSearchEvent::Found(files) => results.files.extend(files),
            FileSearchEvent::NodesSearched(nodes) => results.nodes = nodes,
            FileSearchEvent::Done(tally) => results.last = Some(Ok(tally)),
            FileSearchEvent::Failed(why) => results.last = Some(Err(why)),
        }
    }
    let files = &results["has"].files;
    assert_eq!(files.len(), 1, "{files:?}");
    let lines: Vec<&str> = files[0].lines.iter().map(|found| found.line.text()).collect();
    assert_eq!((lines, files[0].more), (vec!["boom 2", "boom 3"], 1));
    assert_eq!(files[0].name.raw(), format!("job-driver-{}.log", running[0]));
    let tally = |name: &str| results[name].last.clone().unwrap();
    let of_has = tally("has").unwrap();
    assert!(of_has.files > 1 && of_has.incomplete.is_empty(), "{of_has:?}");
    assert_eq!((of_has.whole, of_has.ends.len()), (0, 0), "without ssh there is nothing to try: {of_has:?}");
    assert_eq!(results["has"].nodes, has.nodes().len(), "each node was reported as searched");
    assert_eq!(tally("empty"), Ok(SearchTally::default()), "there was nothing to search");
    let of_fails = tally("fails").unwrap();
    assert!(of_fails.files == 0 && !of_fails.incomplete.is_empty(), "{of_fails:?}");
    let is_reported =
        |why: &String| why.starts_with("cannot read 10.0.0.1 job-driver-") && why.contains("503");
    assert!(of_fails.incomplete.iter().any(is_reported), "{of_fails:?}");
    assert_eq!(tally("down"), Err("the cluster is not connected".to_owned()));
    assert!(results.iter().all(|(name, r)| name == "has" || r.files.is_empty()));
    soon("the supervisor ends", supervisor.shutdown()).await;
}
