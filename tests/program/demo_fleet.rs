//! The simulated fleet through the system's own `ssh`, as the console's supervisor uses it. No cloud needed.

mod faults;

use crate::left::assert_no_process_names;
use crate::soon::soon;
use marin_tui::config::{self, Config, Entry, Env, Folders, Sources};
use marin_tui::demo::{Fault, FaultRule, Fleet, Head, Plan};
use marin_tui::model::{
    ClusterEvent, ClusterName, JobStatus, JobStopOutcome, Link, LogBatch, LogEnd, LogSource, ProblemKind,
    Provider, Request, Secret, StreamId, SubmissionId, Timestamp,
};
use marin_tui::state::Update;
use marin_tui::supervisor::{Options, Supervisor};
use marin_tui::token;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;

/// The production supervisor on a fleet, and its events.
struct Console {
    fleet: Fleet,
    supervisor: Supervisor,
    receiver: mpsc::Receiver<Update>,
}

impl Console {
    async fn on(plan: &str) -> Self {
        Self::reading(plan, None).await
    }

    /// As [`Self::on`]; clusters that are not on the screen are polled at this interval.
    async fn reading(plan: &str, background: Option<Duration>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let fleet = Fleet::start(Plan::parse(plan, Path::new("test")).unwrap()).await.unwrap();
        let (config, folders) = attached(&fleet);
        let specs: Vec<_> = config.entries.iter().filter_map(Entry::cluster).cloned().collect();
        assert_eq!(specs.len(), fleet.members().len());
        let token_sources =
            token::TokenSources { cache: folders.tokens.clone(), ..token::TokenSources::default() };
        let mut options = Options::new(&config.settings, &folders, token_sources);
        options.background = background.unwrap_or(options.background);
        let (updates, receiver) = mpsc::channel(256);
        let supervisor = Supervisor::start(specs, options, &updates);
        Self { fleet, supervisor, receiver }
    }

    /// Reads events until `is` returns true.
    async fn until(&mut self, what: &str, mut is: impl FnMut(&str, &ClusterEvent) -> bool) {
        soon(what, async {
            loop {
                let update = self.receiver.recv().await.expect("the supervisor runs");
                if is(update.cluster.as_str(), &update.event) {
                    return;
                }
            }
        })
        .await;
    }

    fn ask(&self, cluster: &str, request: Request) {
        self.supervisor.ask(&ClusterName::new(cluster), request);
    }

    async fn end(self) {
        soon("the supervisor ends", self.supervisor.shutdown()).await;
        let folder = self.fleet.folder().path().to_owned();
        drop(self.fleet);
        assert!(!folder.exists());
        assert_no_process_names(&folder);
    }
}

/// The configuration of a console that is attached to the fleet as by `marin-tui demo`.
fn attached(fleet: &Fleet) -> (Config, Folders) {
    let folder = fleet.folder();
    let env = Env::new(&[("HOME", "/nonexistent")], "/").with(&folder.env());
    let sources =
        Sources { config: Some(folder.settings()), infra: Some(folder.infra()), ..Sources::default() };
    (config::load(&sources, &env, Timestamp::now()).unwrap(), Folders::new(&env))
}

fn is_up(event: &ClusterEvent) -> bool {
    matches!(event, ClusterEvent::Link(Link::Up { .. }))
}

fn problem(event: &ClusterEvent) -> Option<&ProblemKind> {
    match event {
        ClusterEvent::Link(Link::Retrying { problem, .. } | Link::Stopped { problem }) => Some(&problem.kind),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_fleet_connects_and_its_faults_are_reported() {
    let plan = Plan::find(Path::new("marin")).unwrap();
    let text = include_str!("../../assets/demo/marin.yaml");
    let mut console = Console::on(text).await;
    // The cluster files are like Marin's own: provider gcp, with a zone.
    let (config, folders) = attached(&console.fleet);
    assert!(
        config
            .entries
            .iter()
            .filter_map(Entry::cluster)
            .all(|c| c.provider == Provider::Gcp && c.zone.is_some())
    );
    assert!(
        folders.tokens.join("clusters/marin-big-run").exists(),
        "tokens are where the console looks for them"
    );
    let mut seen = BTreeMap::new();
    let wanted = plan.clusters.len();
    console
        .until("every cluster has reported", |cluster, event| {
            match (event, problem(event)) {
                (ClusterEvent::Snapshot(s), _) => {
                    let alive = s.nodes.iter().filter(|n| n.state.is_alive()).count();
                    seen.insert(cluster.to_owned(), format!("{alive} nodes"));
                }
                (_, Some(ProblemKind::Unreachable)) => {
                    seen.insert(cluster.to_owned(), "unreachable".into());
                }
                (_, Some(ProblemKind::TokenRefused)) => {
                    seen.insert(cluster.to_owned(), "refused".into());
                }
                // A slow machine may be late with its first answers.
                (_, None | Some(ProblemKind::DashboardSilent)) => {}
                (_, Some(other)) => panic!("{cluster}: {other:?}"),
            }
            seen.len() == wanted
        })
        .await;
    for cluster in &plan.clusters {
        let expected = match cluster.name.as_str() {
            "marin-us-east5" => "unreachable".to_owned(),
            "marin-us-central2-staging" => "refused".to_owned(),
            // Its autoscaler has not noticed that its machines are gone.
            "marin-us-central2" => "1 nodes".to_owned(),
            // The number of nodes of a cluster with simulated activity varies.
            name if cluster.life.is_some() => {
                assert!(seen[name].ends_with(" nodes") && seen[name] != "0 nodes", "{name}: {}", seen[name]);
                continue;
            }
            _ => format!("{} nodes", cluster.nodes),
        };
        assert_eq!(seen[&cluster.name], expected, "{}", cluster.name);
    }
    console.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_stopped_and_a_log_followed() {
    let mut console = Console::on("clusters: [{name: a}]").await;
    console.until("a is up", |_, event| is_up(event)).await;
    let running = console.fleet.member("a").unwrap().head.submissions(JobStatus::Running).pop().unwrap();
    let id = SubmissionId(running.as_str().into());
    console.ask("a", Request::Follow(StreamId(1), LogSource::Job(id.clone())));
    console.ask("a", Request::Follow(StreamId(2), LogSource::Monitor("monitor.log".into())));
    let head = &console.fleet.member("a").unwrap().head;
    assert!(head.write_job_log(&running, b"the first line\n"));
    head.write_file("monitor.log", b"the autoscaler's first\n");
    let mut both = [false; 2];
    console
        .until("both logs", |_, event| {
            if let ClusterEvent::Log(batch) = event {
                assert!(!matches!(batch.end, LogEnd::Failed(_)), "{batch:?}");
                both[0] |= batch.part.lines.iter().any(|l| l.text().contains("the first line"));
                both[1] |= batch.part.lines.iter().any(|l| l.text().contains("the autoscaler's first"));
            }
            both == [true; 2]
        })
        .await;
    console.fleet.member("a").unwrap().head.write_job_log(&running, b"the second line\n");
    console
        .until("the log's growth", |_, event| {
            matches!(event, ClusterEvent::Log(batch) if batch.part.lines.iter().any(|l| l.text().contains("the second line")))
        })
        .await;
    console.ask("a", Request::StopJob(id.clone()));
    console
        .until("the job has ended", |_, event| {
            matches!(event, ClusterEvent::JobStop { id: which, outcome: JobStopOutcome::Ended(word) } if *which == id && word == "stopped")
        })
        .await;
    assert!(console.fleet.member("a").unwrap().head.submissions(JobStatus::Stopped).contains(&running));
    console.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_with_a_truncated_response_is_unknown_until_the_job_has_ended() {
    let mut console = Console::on("clusters: [{name: a}]").await;
    console.until("a is up", |_, event| is_up(event)).await;
    let head = &console.fleet.member("a").unwrap().head;
    let running = head.submissions(JobStatus::Running).pop().unwrap();
    let path = format!("/api/jobs/{running}/stop");
    head.set_faults(vec![FaultRule { path, fault: Fault::HalfBody }]);
    console.ask("a", Request::StopJob(SubmissionId(running.as_str().into())));
    let mut outcomes = Vec::new();
    console
        .until("the job is seen ended", |_, event| {
            if let ClusterEvent::JobStop { outcome, .. } = event {
                outcomes.push(outcome.clone());
            }
            matches!(outcomes.last(), Some(JobStopOutcome::Ended(_)))
        })
        .await;
    let [JobStopOutcome::Unknown { watching: true, .. }, JobStopOutcome::Ended(word)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(word, "stopped");
    console.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_trip_during_a_poll_does_not_report_the_gcs_as_lost() {
    let mut console = Console::on("clusters: [{name: a}]").await;
    console.until("a is up", |_, event| is_up(event)).await;
    let head = &console.fleet.member("a").unwrap().head;
    head.set_faults(vec![FaultRule { path: "/ray.rpc.".into(), fault: Fault::Stall }]);
    console.ask("a", Request::Refresh);
    let mut over_gcs = None;
    console
        .until("the first round trip, while the gcs is read", |_, event| {
            if let ClusterEvent::Link(Link::Up { gcs, .. }) = event {
                over_gcs = Some(*gcs);
            }
            over_gcs.is_some()
        })
        .await;
    assert_eq!(over_gcs, Some(true));
    console.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_round_trip_does_not_keep_the_previous_latency() {
    let mut console = Console::on("clusters: [{name: a}]").await;
    let is = |measured: bool| move |_: &str, event: &ClusterEvent| matches!(event, ClusterEvent::Link(Link::Up { latency, .. }) if latency.is_some() == measured);
    console.until("a round trip", is(true)).await;
    let fault = vec![FaultRule { path: "/api/authentication_mode".into(), fault: Fault::HangUp }];
    console.fleet.member("a").unwrap().head.set_faults(fault);
    console.until("none, while the gcs answers", is(false)).await;
    console.end().await;
}

/// A dashboard that hangs, as after SIGSTOP; the GCS responds.
fn hung_dashboard() -> Vec<FaultRule> {
    let hangs = |path: &str| FaultRule { path: path.into(), fault: Fault::Stall };
    vec![hangs("/api"), hangs("/nodes")]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_dashboard_and_a_gcs_that_responds_are_reported_separately() {
    let mut console = Console::on("clusters: [{name: a}]").await;
    console.ask("a", Request::Focus(true));
    let is_silent = |silent: bool| move |_: &str, event: &ClusterEvent| matches!(event, ClusterEvent::Link(Link::Up { dashboard, gcs: true, .. }) if dashboard.is_some() == silent);
    console.until("both answer", is_silent(false)).await;
    console.fleet.member("a").unwrap().head.set_faults(hung_dashboard());
    console.until("the dashboard is silent", is_silent(true)).await;
    // A new connection still receives the state.
    console.ask("a", Request::Reconnect);
    let (mut connects, mut states) = (false, 0);
    console
        .until("the state from the gcs alone", |_, event| {
            connects |= matches!(event, ClusterEvent::Link(Link::Connecting { .. }));
            states += usize::from(connects && matches!(event, ClusterEvent::Snapshot(_)));
            states > 0
        })
        .await;
    console.until("the dashboard is still silent", is_silent(true)).await;
    console.fleet.member("a").unwrap().head.set_faults(Vec::new());
    console.until("it is back by itself", is_silent(false)).await;
    console.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_ray_refuses_has_a_reason_and_is_not_followed() {
    let mut console = Console::on("clusters: [{name: a}]").await;
    console.until("a is up", |_, event| is_up(event)).await;
    // Ray does not know the first job, as after a restart of the head; it refuses the second, whose file does not
    // exist.
    let fault = FaultRule { path: "/api/jobs/refused".into(), fault: Fault::Status(400) };
    console.fleet.member("a").unwrap().head.set_faults(vec![fault]);
    let nobodys = |id: &str| LogSource::Job(SubmissionId(id.into()));
    console.ask("a", Request::Follow(StreamId(1), nobodys("gone")));
    console.ask("a", Request::Follow(StreamId(2), nobodys("refused")));
    console.ask("a", Request::Follow(StreamId(3), LogSource::Monitor("not-yet.log".into())));
    let mut ends = BTreeMap::new();
    console
        .until("three ends", |_, event| {
            if let ClusterEvent::Log(batch) = event {
                assert!(batch.end != LogEnd::Open, "{batch:?}");
                assert!(batch.stream != StreamId(1) || matches!(batch.end, LogEnd::Failed(_)), "{batch:?}");
                let last = match &batch.end {
                    LogEnd::Interrupted(why) => why.contains("waiting for it"),
                    _ => true,
                };
                if last {
                    ends.insert(batch.stream, batch.end.clone());
                }
            }
            ends.len() == 3
        })
        .await;
    let failed = |n: u64| match &ends[&StreamId(n)] {
        LogEnd::Failed(why) => why.as_str(),
        other => panic!("{n}: {other:?}"),
    };
    assert!(failed(1).contains("gone") && !failed(1).contains("ssh"), "{}", failed(1));
    assert!(failed(2).contains("400"), "{}", failed(2));
    // A file that did not exist is followed once it is created.
    console.fleet.member("a").unwrap().head.write_file("not-yet.log", b"at last\n");
    let there = |event: &ClusterEvent| matches!(event, ClusterEvent::Log(b) if b.stream == StreamId(3) && b.end == LogEnd::Open && b.part.lines == ["at last".into()]);
    console.until("the late file", |_, event| there(event)).await;
    console.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_followed_log_continues_at_its_position_with_another_token() {
    let mut console = Console::on("clusters: [{name: a}]").await;
    console.until("a is up", |_, event| is_up(event)).await;
    let running = console.fleet.member("a").unwrap().head.submissions(JobStatus::Running).pop().unwrap();
    let write = |console: &Console, line: &str| {
        let head = &console.fleet.member("a").unwrap().head;
        assert!(head.write_job_log(&running, format!("{line}\n").as_bytes()));
    };
    write(&console, "line-1");
    console.ask("a", Request::Follow(StreamId(1), LogSource::Job(SubmissionId(running.as_str().into()))));
    let mut ours: Vec<String> = Vec::new();
    let mut note = |event: &ClusterEvent| {
        let ClusterEvent::Log(batch) = event else { return 0 };
        ours.extend(batch.part.lines.iter().map(ToString::to_string).filter(|l| l.starts_with("line-")));
        ours.len()
    };
    console.until("the first line", |_, event| note(event) == 1).await;
    let head = &console.fleet.member("a").unwrap().head;
    head.set_token(Some(Secret::new("another")));
    head.drop_connections();
    let waits = |event: &ClusterEvent| matches!(event, ClusterEvent::Log(LogBatch { end: LogEnd::Interrupted(why), .. }) if why.contains("waiting for a new token"));
    console.until("the refusal", |_, event| waits(event)).await;
    write(&console, "line-2");
    console.fleet.folder().write_token("a", &Secret::new("another")).unwrap();
    console.ask("a", Request::Refresh);
    console.until("what was written meanwhile", |_, event| note(event) == 2).await;
    write(&console, "line-3");
    console.until("what comes then", |_, event| note(event) == 3).await;
    // Lines that are on the screen are not read again over SSH.
    let head = &console.fleet.member("a").unwrap().head;
    head.set_faults(vec![FaultRule { path: format!("/api/jobs/{running}"), fault: Fault::Status(400) }]);
    head.drop_connections();
    let failed =
        |event: &ClusterEvent| matches!(event, ClusterEvent::Log(LogBatch { end: LogEnd::Failed(_), .. }));
    console.until("why it ends", |_, event| note(event) > 3 || failed(event)).await;
    assert_eq!(ours, ["line-1", "line-2", "line-3"]);
    console.end().await;
}

fn head(console: &Console) -> &Head {
    &console.fleet.member("a").unwrap().head
}

/// The state of a log stream after this event; `None` for other events.
fn log_end(event: &ClusterEvent) -> Option<&LogEnd> {
    match event {
        ClusterEvent::Log(batch) => Some(&batch.end),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_log_is_followed_again_once_its_cluster_is_back() {
    let mut console = Console::on("clusters: [{name: a, log_rate: 0}]").await;
    console.until("a is up", |_, event| is_up(event)).await;
    let running = console.fleet.member("a").unwrap().head.submissions(JobStatus::Running).pop().unwrap();
    assert!(head(&console).write_job_log(&running, b"line-1\n"));
    console.ask("a", Request::Follow(StreamId(1), LogSource::Job(SubmissionId(running.as_str().into()))));
    let mut ours: Vec<String> = Vec::new();
    let mut note = |event: &ClusterEvent| {
        let ClusterEvent::Log(batch) = event else { return 0 };
        ours.extend(batch.part.lines.iter().map(ToString::to_string).filter(|l| l.starts_with("line-")));
        ours.len()
    };
    console.until("the first line", |_, event| note(event) == 1).await;
    let interrupted = |event: &ClusterEvent| matches!(log_end(event), Some(LogEnd::Interrupted(_)));

    // The connection is lost.
    console.fleet.member("a").unwrap().drop_connections();
    console.until("the interruption", |_, event| note(event) > 1 || interrupted(event)).await;
    console.until("the log again", |_, event| note(event) > 1 || log_end(event) == Some(&LogEnd::Open)).await;

    // The connection is up, but nothing responds behind it; then a refresh is requested.
    head(&console).set_faults(vec![FaultRule { path: String::new(), fault: Fault::HangUp }]);
    head(&console).drop_connections();
    console.ask("a", Request::Refresh);
    let mut both = [false; 2];
    console
        .until("both troubles", |_, event| {
            both[0] |= interrupted(event);
            both[1] |= problem(event).is_some();
            both == [true; 2]
        })
        .await;
    head(&console).set_faults(Vec::new());
    console.ask("a", Request::Refresh);
    console
        .until("the log once more", |_, event| note(event) > 1 || log_end(event) == Some(&LogEnd::Open))
        .await;
    assert!(head(&console).write_job_log(&running, b"line-2\n"));
    console.until("what is written then", |_, event| note(event) == 2).await;
    assert_eq!(ours, ["line-1", "line-2"]);
    console.end().await;
}

/// A dialog waits for the answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_drivers_work_fails_when_the_connection_is_lost() {
    let mut console = Console::on("clusters: [{name: a}]").await;
    let mut driver = None;
    console
        .until("a driver runs", |_, event| {
            if let ClusterEvent::Snapshot(snapshot) = event {
                let mut running = snapshot.jobs.iter().filter(|j| j.status == JobStatus::Running);
                driver = running.find(|j| j.driver.is_some()).map(|j| j.ids());
            }
            driver.is_some()
        })
        .await;
    let ours = driver.unwrap();
    console.ask("a", Request::Work(ours.clone()));
    console
        .until("its work", |_, event| {
            matches!(event, ClusterEvent::Work { job, work: Ok(work) } if *job == ours && !work.actors.is_empty())
        })
        .await;
    let member = console.fleet.member("a").unwrap();
    member.head.set_faults(vec![FaultRule { path: "/api/v0/tasks".into(), fault: Fault::Stall }]);
    let requests = || member.head.cost().requests.get("/api/v0/tasks").copied();
    let before = requests();
    console.ask("a", Request::Work(ours.clone()));
    soon("the head is asked", async {
        while requests() == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    member.drop_connections();
    console
        .until(
            "the reason of the failure",
            |_, event| matches!(event, ClusterEvent::Work { job, work: Err(_) } if *job == ours),
        )
        .await;
    console.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_recovers_from_dropped_connections_and_a_rotated_token() {
    let mut console = Console::on("clusters: [{name: a}, {name: b}]").await;
    let mut up = BTreeSet::new();
    console
        .until("both are up", |cluster, event| {
            if is_up(event) {
                up.insert(cluster.to_owned());
            }
            up.len() == 2
        })
        .await;
    console.fleet.member("a").unwrap().drop_connections();
    let mut lost = false;
    console
        .until("a is lost and comes back, b stays", |cluster, event| {
            assert!(cluster == "a" || problem(event).is_none(), "{cluster}: {event:?}");
            lost |= problem(event).is_some();
            lost && cluster == "a" && is_up(event)
        })
        .await;
    let member = console.fleet.member("b").unwrap();
    member.head.set_token(Some(Secret::new("another")));
    console.ask("b", Request::Refresh);
    console
        .until("b refuses the token", |cluster, event| {
            cluster == "b" && problem(event) == Some(&ProblemKind::TokenRefused)
        })
        .await;
    console.fleet.folder().write_token("b", &Secret::new("another")).unwrap();
    console.ask("b", Request::Reconnect);
    console.until("b takes the new token", |cluster, event| cluster == "b" && is_up(event)).await;
    console.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_all_hung_at_once_recover_soon() {
    let names: Vec<String> = (0..14).map(|n| format!("c{n}")).collect();
    let listed: Vec<String> =
        names.iter().map(|name| format!("{{name: {name}, nodes: 8, jobs: 8}}")).collect();
    let mut console = Console::on(&format!("clusters: [{}]", listed.join(", "))).await;
    console.ask("c0", Request::Focus(true));
    let mut read = BTreeSet::new();
    let mut every = |name: &str, event: &ClusterEvent| {
        if matches!(event, ClusterEvent::Snapshot(_)) {
            read.insert(name.to_owned());
        }
        read.len() == names.len()
    };
    console.until("all are read", &mut every).await;
    for member in console.fleet.members() {
        member.head.set_faults(vec![FaultRule { path: String::new(), fault: Fault::Stall }]);
    }
    console
        .until("the one on the screen does not answer", |name, event| {
            name == "c0" && matches!(event, ClusterEvent::Link(Link::Retrying { .. }))
        })
        .await;
    for member in console.fleet.members() {
        // Requests that were in progress are never answered.
        member.head.set_faults(Vec::new());
    }
    let mut read = BTreeSet::new();
    console
        .until("the one on the screen is up", |name, event| {
            if matches!(event, ClusterEvent::Snapshot(_)) {
                read.insert(name.to_owned());
            }
            name == "c0" && is_up(event)
        })
        .await;
    console
        .until("all are read again", |name, event| {
            if matches!(event, ClusterEvent::Snapshot(_)) {
                read.insert(name.to_owned());
            }
            read.len() == names.len()
        })
        .await;
    console.end().await;
}
