//! `marin-tui remove-worker`.

use super::super::reach::{Progress, Reach, confirm};
use super::{RemoveArguments, journal};
use crate::model::text::printable;
use crate::model::{Job, Node, Problem, Timestamp};
use crate::operation::stop_ray;
use crate::operation::worker::{self, Doomed};
use crate::ray::{Poller, Running};
use crate::supervisor::{self, Session};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Ray misses heartbeats for some seconds before it calls a node dead.
const GOING: Duration = Duration::from_secs(120);

pub(super) async fn run(arguments: &RemoveArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let common = &arguments.common;
    let doomed = find(&arguments.worker, reach).await?;
    let name =
        doomed.vm.clone().or_else(|| doomed.queued.clone()).unwrap_or_else(|| arguments.worker.clone());
    let shown = printable(&name).into_owned();
    // Without Ray it cannot be told whom it hits; a TPU that eats quota is removed all the same.
    let session = match reach.connect(&Progress::new()).await {
        Ok(session) => Some(session),
        Err(e) if arguments.drain || doomed.vm.is_none() && doomed.queued.is_none() => return Err(e),
        Err(e) => {
            eprintln!("whose jobs run there cannot be told: {e}");
            None
        }
    };
    let alive = match &session {
        Some(session) => hit(session, &doomed, reach).await?,
        None => Vec::new(),
    };
    let is_busy = alive.iter().any(|(_, running)| !running.is_empty());
    steps(arguments, &doomed, &shown);
    if common.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::ensure!(
        !is_busy || arguments.drain || arguments.now,
        "something runs on {shown}: --drain lets it end first, --now ends it"
    );
    confirm(&format!("removes {shown} from {}", reach.spec.name), common.yes)?;
    let mut journal = journal(reach)?;
    let deed = format!("remove-worker {shown}");
    journal.note(&deed)?;
    let nodes: Vec<Node> = alive.into_iter().map(|(node, _)| node).collect();
    let done = remove(arguments, &doomed, &nodes, session.as_ref(), reach).await;
    if let Some(session) = session {
        session.close().await;
    }
    let outcome = done.as_ref().map_or_else(|e| format!("{e:#}"), |()| "gone".into());
    journal.note(&format!("{deed}: {outcome}"))?;
    reach.note(&deed, &outcome);
    done?;
    if common.json {
        println!("{}", json!({"name": name, "hosts": doomed.hosts, "removed": true}));
    } else {
        eprintln!("{shown} is gone");
    }
    Ok(ExitCode::SUCCESS)
}

/// What is meant: at Google, or a host of a local cluster.
async fn find(worker: &str, reach: &Reach) -> anyhow::Result<Doomed> {
    match reach.spec.provider.as_str() {
        "gcp" => {
            let place = supervisor::tpu_place(&reach.spec).map_err(|p| reach.error(&p))?;
            let view = supervisor::ask_cloud(&reach.spec, &reach.options.google).await;
            let view = view.map_err(|p| reach.error(&p))?;
            worker::find(&view, &place, worker).map_err(|p| reach.error(&p))
        }
        "local" => Ok(Doomed { queued: None, vm: None, hosts: vec![worker.to_owned()] }),
        provider => anyhow::bail!("remove-worker is for clusters of provider gcp or local, not `{provider}`"),
    }
}

/// Says what runs on its nodes, and whose it is; the nodes that live, each with what runs there.
async fn hit(session: &Session, doomed: &Doomed, reach: &Reach) -> anyhow::Result<Vec<(Node, Vec<Running>)>> {
    let failed = |e: crate::ray::RayError| {
        let problem: Problem = e.problem(Timestamp::now());
        reach.error(&problem)
    };
    let snapshot = Poller::new(session.client.clone()).refresh().await.map_err(failed)?;
    let here = snapshot
        .nodes
        .iter()
        .filter(|n| n.state.is_alive() && doomed.hosts.iter().any(|h| h == n.address.raw()));
    let mut all = Vec::new();
    for node in here {
        anyhow::ensure!(
            !node.is_head,
            "{} is the head of {}; stop-cluster stops it",
            node.address,
            reach.spec.name
        );
        let running = session.client.running_on(node.id).await.map_err(failed)?;
        all.push((Node::clone(node), running));
    }
    if all.is_empty() && doomed.queued.is_none() && doomed.vm.is_none() {
        let host = doomed.hosts.first().map(String::as_str).unwrap_or_default();
        anyhow::bail!(
            "{}: ray has no living node at {}; `marin-tui` lists them",
            reach.spec.name,
            printable(host)
        );
    }
    let mut by_job: BTreeMap<String, usize> = BTreeMap::new();
    for running in all.iter().flat_map(|(_, r)| r) {
        let job = snapshot.jobs.iter().find(|j| j.driver.as_ref() == Some(&running.job));
        *by_job.entry(format!("{}  {} {}", owner(job, running), running.kind, running.name)).or_default() +=
            1;
    }
    if by_job.is_empty() {
        eprintln!("nothing runs there");
    } else {
        eprintln!("what runs there:");
    }
    for (what, n) in &by_job {
        eprintln!("  {what}  x{n}");
    }
    Ok(all)
}

fn owner(job: Option<&Arc<Job>>, running: &Running) -> String {
    match job {
        Some(job) => {
            format!("{}  {}", job.key, job.owner().map_or("-".into(), |o| printable(o).into_owned()))
        }
        None => format!("{}  -", running.job),
    }
}

fn steps(arguments: &RemoveArguments, doomed: &Doomed, shown: &str) {
    if arguments.drain {
        eprintln!(
            "- ask ray to give {shown} no new work, and wait {} s at most until what runs has ended",
            arguments.within
        );
    }
    match (&doomed.queued, &doomed.vm) {
        (Some(queued), _) => {
            eprintln!("- DELETE queuedResources/{}?force=true, with its TPU VM", printable(queued));
        }
        (None, Some(vm)) => eprintln!("- DELETE nodes/{}", printable(vm)),
        (None, None) => eprintln!("- by ssh on {shown}: ray stop --force"),
    }
    eprintln!("- see that it is gone, from google and from ray");
}

async fn remove(
    arguments: &RemoveArguments,
    doomed: &Doomed,
    nodes: &[Node],
    session: Option<&Session>,
    reach: &Reach,
) -> anyhow::Result<()> {
    if let (true, Some(session)) = (arguments.drain, session) {
        drain(nodes, Duration::from_secs(arguments.within), session, reach).await?;
    }
    if doomed.queued.is_some() || doomed.vm.is_some() {
        eprintln!("deleting it; a large slice takes some minutes");
        let place = supervisor::tpu_place(&reach.spec).map_err(|p| reach.error(&p))?;
        worker::delete(&reach.options.google, &place, doomed).await.map_err(|p| reach.error(&p))?;
    } else {
        for host in &doomed.hosts {
            let to = supervisor::find_host(&reach.spec, &reach.options, host, |_| ())
                .await
                .map_err(|p| reach.error(&p))?;
            eprintln!("stopping ray on {}", printable(host));
            stop_ray(&reach.spec, &reach.options, &to).await.map_err(|p| reach.error(&p))?;
        }
    }
    let Some(session) = session else { return Ok(()) };
    eprintln!("waiting until ray calls it dead");
    let still = worker::left(&session.client, &doomed.hosts, GOING).await.map_err(|p| reach.error(&p))?;
    anyhow::ensure!(
        still.is_empty(),
        "{}: it is deleted, but ray still has a living node at {}; look at it with `marin-tui ssh`",
        reach.spec.name,
        still.join(", ")
    );
    Ok(())
}

/// Asks Ray for no new work on these nodes; Ray itself ends a drained node once it is idle.
async fn drain(nodes: &[Node], within: Duration, session: &Session, reach: &Reach) -> anyhow::Result<()> {
    for node in nodes {
        let answer = session.client.drain(node.id, "removed by hand (marin-tui)", within).await;
        match answer.map_err(|e| reach.error(&e.problem(Timestamp::now())))? {
            Ok(()) => eprintln!("{}: takes no new work", node.address),
            Err(why) => anyhow::bail!("ray does not drain {}: {why}; --now removes it at once", node.address),
        }
    }
    let hosts: Vec<String> = nodes.iter().map(|n| n.address.raw().to_owned()).collect();
    eprintln!("waiting until what runs there has ended, {} s at most", within.as_secs());
    let still = worker::left(&session.client, &hosts, within).await.map_err(|p| reach.error(&p))?;
    if !still.is_empty() {
        eprintln!("{}: something still runs after {} s; it ends now", still.join(", "), within.as_secs());
    }
    Ok(())
}
