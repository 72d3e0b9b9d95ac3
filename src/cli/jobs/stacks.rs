//! `marin-tui stacks`: where each worker of a job stands, equal stacks together.

use super::super::reach::{Progress, Reach};
use super::super::{candidates, output};
use super::{failed, id};
use crate::model::amount::counted;
use crate::model::text::printable;
use crate::model::{
    Fix, Hint, JobId, JobWorker, Node, NodeId, Problem, ProblemKind, Target, Timestamp, WorkerState,
};
use crate::operation::{Process, Stacks, StacksWay};
use crate::ray::Poller;
use crate::stacks::{Dump, Group, groups, moved};
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 stacks eval-7                  the one that stands elsewhere is below the others
  marin-tui -c us-central2 stacks eval-7 --interval 5s    look twice: who has not moved
  marin-tui -c us-central2 stacks eval-7 --frames
  marin-tui -c us-central2 stacks eval-7 --json | jq -r '.groups[-1].workers[].address'

The stacks come from py-spy, which pauses no process: through Ray where its head gives them, else over ssh on the hosts of \
the workers, at most 8 at a time.

Exit codes: 0 the stacks of all workers were read, 1 none or not all of them (the message says why).";

/// Workers of a group that are listed.
const LISTED: usize = 8;

/// Options of `stacks`.
#[derive(Debug, Args)]
pub struct StacksArguments {
    /// Submission id of the job, or the job id of a driver that was started by hand
    #[arg(value_name = "ID", add = candidates::jobs())]
    id: String,
    /// Look again after this time, and say who has moved: seconds, or as 5s, 1m
    #[arg(long, value_name = "DURATION", value_parser = crate::model::time::span)]
    interval: Option<Duration>,
    /// Print the frames of each group
    #[arg(long)]
    frames: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found.
struct Found {
    workers: Vec<JobWorker>,
    nodes: Arc<Vec<Node>>,
    way: StacksWay,
    dumps: Vec<Result<Dump, String>>,
    /// With a second look: which have moved.
    moved: Option<Vec<Option<bool>>>,
}

/// Takes the stacks of a job's workers, and prints them in groups.
pub(super) async fn run(
    arguments: &StacksArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let found = look(arguments, reach, progress, &session.client).await;
    session.close().await;
    let found = found?;
    if arguments.json {
        output::json(&found.for_scripts(&arguments.id))?;
    } else {
        found.print(arguments)?;
    }
    for (worker, why) in found.unread() {
        let address = found.address(worker);
        eprintln!("{address} pid {}: {}", found.workers[worker].pid, printable(why));
    }
    let all = !found.workers.is_empty() && found.dumps.iter().all(Result::is_ok);
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn look(
    arguments: &StacksArguments,
    reach: &Reach,
    progress: &Progress,
    client: &crate::ray::Client,
) -> anyhow::Result<Found> {
    progress.tell("looking for the workers of the job");
    let snapshot = Poller::new(client.clone()).refresh().await.map_err(failed(reach))?;
    let driver = driver(&arguments.id, reach, client).await?;
    let alive: Vec<NodeId> = snapshot.nodes.iter().filter(|n| n.state.is_alive()).map(|n| n.id).collect();
    let gang = client.gang(&driver, &alive, |_| ()).await.map_err(failed(reach))?;
    gang.cut.iter().for_each(|cut| eprintln!("incomplete: {cut}"));
    let runs = |worker: &JobWorker| worker.state == WorkerState::Running && alive.contains(&worker.node);
    let workers: Vec<JobWorker> = gang.workers.into_iter().filter(runs).collect();
    if workers.is_empty() {
        let list = Fix::command(
            "see its status",
            Target::of(&reach.spec.name).line(&format!("job-status {driver}")),
        );
        let what = format!("no worker of {} runs a task or an actor now", arguments.id);
        return Err(reach.error(&Problem::new(ProblemKind::Other, what, Hint::from(list), Timestamp::now())));
    }
    let nodes = Arc::clone(&snapshot.nodes);
    let processes: Vec<Process> = workers
        .iter()
        .map(|worker| Process {
            node: worker.node,
            address: address(&nodes, worker.node).into(),
            pid: worker.pid,
        })
        .collect();
    let stacks = Stacks { spec: &reach.spec, options: &reach.options, client };
    progress.tell(format!("taking the stacks of {}", counted(processes.len(), "worker")));
    let first = stacks.take(&processes).await;
    let mut found = Found { workers, nodes, way: first.way, dumps: first.dumps, moved: None };
    if let Some(pause) = arguments.interval {
        progress.tell(format!("looking again in {} s", pause.as_secs()));
        tokio::time::sleep(pause).await;
        let second = stacks.take(&processes).await;
        let both = found.dumps.iter().zip(&second.dumps);
        let has_moved = |(a, b): (&Result<Dump, String>, &Result<Dump, String>)| {
            Some(moved(a.as_ref().ok()?, b.as_ref().ok()?))
        };
        found.moved = Some(both.map(has_moved).collect());
        found.dumps = second.dumps;
    }
    Ok(found)
}

/// The driver's job id of a submission, or the id itself.
async fn driver(text: &str, reach: &Reach, client: &crate::ray::Client) -> anyhow::Result<JobId> {
    let is_driver = text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let detail = match client.job(&id(text)).await {
        Err(crate::ray::RayError::NotFound(_)) if is_driver => return Ok(JobId(text.into())),
        answer => answer.map_err(failed(reach))?,
    };
    detail.job.driver.ok_or_else(|| {
        let what = format!("{text} is {}: it has no worker yet", detail.job.status.word());
        reach.error(&Problem::new(ProblemKind::Other, what, Hint::default(), Timestamp::now()))
    })
}

fn address(nodes: &[Node], id: NodeId) -> String {
    let node = nodes.iter().find(|node| node.id == id);
    node.map_or_else(|| id.to_string(), |node| node.address.raw().to_owned())
}

impl Found {
    fn groups(&self) -> Vec<Group> {
        let read = self.dumps.iter().enumerate();
        groups(read.filter_map(|(n, dump)| Some((n, dump.as_ref().ok()?))))
    }

    fn unread(&self) -> impl Iterator<Item = (usize, &str)> {
        let all = self.dumps.iter().enumerate();
        all.filter_map(|(n, dump)| Some((n, dump.as_ref().err()?.as_str())))
    }

    fn address(&self, worker: usize) -> String {
        printable(&address(&self.nodes, self.workers[worker].node)).into_owned()
    }

    /// How many of a group have not moved between the two looks; none without a second one.
    fn stand(&self, group: &Group) -> Option<usize> {
        let moved = self.moved.as_ref()?;
        Some(group.members.iter().filter(|n| moved[**n] == Some(false)).count())
    }

    fn print(&self, arguments: &StacksArguments) -> std::io::Result<()> {
        let groups = self.groups();
        let mut out = output::stdout();
        for group in &groups {
            let stand = match (self.stand(group), group.members.len()) {
                (None, _) => String::new(),
                (Some(0), _) => "  has moved".to_owned(),
                (Some(n), all) if n == all => "  has not moved".to_owned(),
                (Some(n), all) => format!("  {n} of {all} have not moved"),
            };
            writeln!(out, "{:>5}  {}{stand}", group.members.len(), group.place.words())?;
            if arguments.frames {
                group.place.frames.iter().try_for_each(|frame| writeln!(out, "         {frame}"))?;
            }
            // Who stands where nearly all stand is of no interest.
            if groups.len() > 1 && group.members.len() <= LISTED {
                for member in &group.members {
                    writeln!(out, "         {}", self.words(*member))?;
                }
            }
        }
        out.flush()
    }

    /// `10.0.0.7 pid 262 train_step`.
    fn words(&self, worker: usize) -> String {
        let JobWorker { pid, name, .. } = &self.workers[worker];
        format!("{} pid {pid} {name}", self.address(worker)).trim_end().to_owned()
    }

    fn for_scripts(&self, id: &str) -> Value {
        let worker = |n: usize| {
            let JobWorker { node, pid, name, .. } = &self.workers[n];
            let mut value = json!({
                "node_id": node.to_string(), "address": address(&self.nodes, *node), "pid": pid, "name": name.raw(),
            });
            if let Some(moved) = &self.moved {
                value["moved"] = moved[n].into();
            }
            value
        };
        let group = |group: &Group| {
            let frames: Vec<_> = group.place.frames.iter().map(ToString::to_string).collect();
            let workers: Vec<_> = group.members.iter().map(|n| worker(*n)).collect();
            json!({"count": workers.len(), "at": group.place.words(), "frames": frames, "workers": workers})
        };
        let unread = |(n, why): (usize, &str)| {
            let mut value = worker(n);
            value["why"] = why.into();
            value
        };
        let way = match self.way {
            StacksWay::Ray => "ray",
            StacksWay::Ssh => "ssh",
        };
        json!({
            "id": id,
            "workers": self.workers.len(),
            "through": way,
            "groups": self.groups().iter().map(group).collect::<Vec<_>>(),
            "unread": self.unread().map(unread).collect::<Vec<_>>(),
        })
    }
}
