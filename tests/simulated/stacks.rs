//! The stacks of a job's workers, read through a head while hosts and processes end.

use crate::spec::spec;
use marin_tui::config::{Env, Folders, Settings};
use marin_tui::demo::{Head, Scenario};
use marin_tui::model::{ClusterSpec, HeadAddress, JobStacks, JobStatus, WorkerFile};
use marin_tui::operation::Stacks;
use marin_tui::ray::{Client, Endpoint, Poller};
use marin_tui::supervisor::Options;
use marin_tui::token::TokenSources;

/// Number of simulated workers of a driver, each on its own host, including its actor on the head.
const WORKERS: usize = 4;

/// Why a worker could not be read.
fn why(found: &JobStacks, pid: u32) -> &str {
    &found.unread.iter().find(|(worker, _)| worker.pid == pid).unwrap().1
}

#[tokio::test]
async fn a_lost_host_affects_its_own_workers_only() {
    // Ray 2.53 provides stacks without a setting.
    let scenario = Scenario { ray_version: "2.53.0".into(), changes: 0, ..Scenario::default() };
    let head = Head::start(scenario).await.unwrap();
    let (dashboard, gcs) = (format!("http://{}", head.dashboard), head.gcs.to_string());
    let client = Client::new(Endpoint::Direct { dashboard: dashboard.clone(), gcs: None }, None).unwrap();
    let head_address = HeadAddress::Direct { dashboard, gcs: Some(gcs) };
    let spec = ClusterSpec { head: head_address, ..spec("a") };
    let home = tempfile::tempdir().unwrap();
    let env = Env::new(&[("HOME", home.path().to_str().unwrap())], home.path());
    let options = Options::new(&Settings::default(), &Folders::new(&env), TokenSources::default());
    let stacks = Stacks { spec: &spec, options: &options, client: &client };

    let snapshot = Poller::new(client.clone()).refresh().await.unwrap();
    let running = snapshot.jobs.iter().find(|job| job.status == JobStatus::Running && job.driver.is_some());
    let driver = running.unwrap().driver.as_ref().unwrap();
    let mut processes = stacks.processes(driver).await.unwrap();
    assert_eq!(processes.workers.len(), WORKERS);
    assert!(processes.driver.is_some());
    let before = stacks.take(&processes).await;
    let found = before.group_by_stack(&processes, None);
    assert_eq!((found.workers(), found.unread.len(), found.over_ssh), (WORKERS, 0, false), "{found:?}");

    let lost = processes.workers.iter().find(|worker| worker.name.raw() != "Holder").unwrap().clone();
    // The log of a single worker is found without listing those of the others.
    let files = client.files_of_worker((lost.node, lost.pid), driver).await.unwrap();
    let parsed: Vec<_> = files.iter().map(|name| WorkerFile::parse(name.raw()).unwrap()).collect();
    assert!(parsed.iter().all(|file| file.pid == lost.pid && file.is_of(driver)), "{files:?}");
    assert_eq!(parsed.iter().map(|file| file.is_err).collect::<Vec<_>>(), [false, true]);
    assert!(client.files_of_worker((lost.node, 4_000_000), driver).await.unwrap().is_empty());
    assert!(head.kill_node(lost.node));
    // A process that Ray still lists may also have ended.
    let ended = processes.workers.iter_mut().find(|worker| worker.node != lost.node).unwrap();
    ended.pid = 4_000_000;
    let found = stacks.take(&processes).await.group_by_stack(&processes, Some(&before));
    let read: usize = found.groups.iter().map(|group| group.workers.len()).sum();
    assert_eq!((found.workers(), read), (WORKERS, WORKERS - 2), "{found:?}");
    assert!(why(&found, lost.pid).starts_with("its node has died"), "{found:?}");
    assert_eq!(why(&found, 4_000_000), "the process has ended");
    let rest = found.groups.iter().flat_map(|group| &group.workers);
    assert!(rest.into_iter().all(|worker| worker.moved == Some(false)), "{found:?}");
}
