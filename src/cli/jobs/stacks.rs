//! `marin-tui stacks`: the Python stacks of a job's workers, with identical stacks grouped.

use super::super::reach::{Progress, Reach};
use super::super::{candidates, output};
use super::{failed, id};
use crate::model::amount::counted;
use crate::model::raylet::raylet_lines;
use crate::model::text::printable;
use crate::model::{
    DriverStacks, Hint, JobId, JobStacks, Problem, ProblemKind, RayletThread, RayletThreads, StackGroup,
    StackThread, StackWorker, Timestamp,
};
use crate::operation::Stacks;
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 stacks eval-7                  where most workers are, and which differ
  marin-tui -c us-central2 stacks eval-7 --interval 5s    sample twice: which have not changed
  marin-tui -c us-central2 stacks eval-7 --frames         all frames and threads
  marin-tui stacks eval-7 --json | jq -r '.groups[] | select(.differs) | .workers[].address'

The stacks come from py-spy, at most 8 processes at a time. Through Ray, if the head provides them, py-spy pauses each \
process while it reads its stack, usually for less than a second: Ray starts it without --nonblocking. Otherwise it runs \
over SSH on the workers' hosts and pauses nothing.

Exit codes: 0 the stacks of all workers were read, 1 some or all of them could not be read (the message says why).";

/// Options of `stacks`.
#[derive(Debug, Args)]
pub struct StacksArguments {
    /// Submission id of the job, or the job id of a manually started driver
    #[arg(value_name = "ID", add = candidates::jobs())]
    id: String,
    /// Sample again after this time and show which stacks changed (seconds, or e.g. 5s, 1m)
    #[arg(long, value_name = "DURATION", value_parser = crate::model::time::span)]
    interval: Option<Duration>,
    /// Print all frames of each group, not only the summary line
    #[arg(long)]
    frames: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Takes the stacks of a job's workers and prints them in groups.
pub(super) async fn run(
    arguments: &StacksArguments,
    reach: &Reach,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    let session = reach.connect(progress).await?;
    let client = &session.client;
    progress.show("reading the workers of the job");
    let driver = driver(&arguments.id, reach, client).await?;
    let stacks = Stacks { spec: &reach.spec, options: &reach.options, client };
    let found = sample(&stacks, &driver, arguments.interval, progress).await;
    session.close().await;
    let found = found.map_err(|problem| reach.error(&problem))?;
    if arguments.json {
        output::json(&for_scripts(&arguments.id, &found))?;
    } else {
        print(&found, arguments.frames)?;
    }
    for (worker, why) in &found.unread {
        eprintln!("{}: {}", worker.text(), printable(why));
    }
    Ok(if found.unread.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn sample(
    stacks: &Stacks<'_>,
    driver: &JobId,
    again: Option<Duration>,
    progress: &Progress,
) -> Result<JobStacks, Problem> {
    let processes = stacks.processes(driver).await?;
    progress.show(format!("sampling the stacks of {}", counted(processes.workers.len(), "worker")));
    let first = stacks.take(&processes).await;
    let Some(pause) = again else { return Ok(first.group_by_stack(&processes, None)) };
    progress.show(format!("sampling again in {} s", pause.as_secs()));
    tokio::time::sleep(pause).await;
    Ok(stacks.take(&processes).await.group_by_stack(&processes, Some(&first)))
}

/// The driver's job id of a submission, or the id itself.
async fn driver(text: &str, reach: &Reach, client: &crate::ray::Client) -> anyhow::Result<JobId> {
    let is_driver = text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let detail = match client.job(&id(text)).await {
        Err(crate::ray::RayError::NotFound(_)) if is_driver => return Ok(JobId(text.into())),
        answer => answer.map_err(failed(reach))?,
    };
    detail.job.driver.ok_or_else(|| {
        let what = format!("{text} is {}: it has no workers yet", detail.job.status.label());
        reach.error(&Problem::new(ProblemKind::Other, what, Hint::default(), Timestamp::now()))
    })
}

fn print(found: &JobStacks, frames: bool) -> std::io::Result<()> {
    let mut out = output::stdout();
    for group in &found.groups {
        let pace = group.pace().map(|pace| format!("  {pace}")).unwrap_or_default();
        let mark = if group.differs(found) { "! " } else { "" };
        writeln!(out, "{:>5}  {mark}{}{pace}", group.workers.len(), group.top_frame)?;
        if frames {
            group.callers().iter().try_for_each(|frame| writeln!(out, "         {frame}"))?;
        }
        group.named(found).iter().try_for_each(|worker| writeln!(out, "         {}", worker.text()))?;
    }
    if let Some(driver) = &found.driver {
        writeln!(out, "{}", driver.text())?;
        for thread in driver.threads.iter().flatten() {
            writeln!(out, "       {}", thread.text())?;
            let shown = thread.callers().into_iter().filter(|_| frames);
            shown.into_iter().try_for_each(|frame| writeln!(out, "         {frame}"))?;
        }
    }
    raylet_lines(&found.raylets).iter().try_for_each(|line| writeln!(out, "raylets: {line}"))?;
    for raylet in found.raylets.iter().filter(|_| frames) {
        writeln!(out, "  {} pid {}", raylet.host, raylet.pid)?;
        raylet.threads.iter().try_for_each(|thread| writeln!(out, "         {}", thread.text()))?;
    }
    out.flush()
}

fn for_scripts(id: &str, found: &JobStacks) -> Value {
    let worker = |worker: &StackWorker| {
        let mut value = json!({
            "node_id": worker.node.to_string(), "host": worker.host.raw(), "address": worker.address.raw(),
            "pid": worker.pid, "name": worker.name.raw(),
        });
        if let Some(moved) = worker.moved {
            value["changed"] = moved.into();
        }
        value
    };
    let group = |group: &StackGroup| {
        let workers: Vec<_> = group.workers.iter().map(worker).collect();
        let differs = group.differs(found);
        json!({"count": workers.len(), "top_frame": group.top_frame, "frames": group.frames, "differs": differs, "workers": workers})
    };
    let unread = |(unread, why): &(StackWorker, String)| {
        let mut value = worker(unread);
        value["reason"] = why.as_str().into();
        value
    };
    let thread = |thread: &StackThread| json!({"name": thread.name, "top_frame": thread.top_frame, "frames": thread.frames});
    let driver = |driver: &DriverStacks| {
        let mut value = worker(&driver.process);
        match &driver.threads {
            Ok(threads) => value["threads"] = threads.iter().map(thread).collect(),
            Err(why) => value["reason"] = why.as_str().into(),
        }
        value
    };
    let raylet_thread = |thread: &RayletThread| {
        let cpu = thread.cpu.map(|cpu| (cpu * 10.0).round() / 10.0);
        json!({"name": thread.name.raw(), "state": thread.state.to_string(), "cpu_percent": cpu})
    };
    let raylet = |raylet: &RayletThreads| {
        json!({
            "host": raylet.host.raw(), "address": raylet.address.raw(), "pid": raylet.pid,
            "problem": raylet.problem(),
            "threads": raylet.threads.iter().map(raylet_thread).collect::<Vec<_>>(),
        })
    };
    json!({
        "raylets": found.raylets.iter().map(raylet).collect::<Vec<_>>(),
        "id": id, "driver": found.driver.as_ref().map(driver),
        "workers": found.workers(),
        "source": if found.over_ssh { "ssh" } else { "ray" }, "pauses": !found.over_ssh,
        "groups": found.groups.iter().map(group).collect::<Vec<_>>(),
        "unread": found.unread.iter().map(unread).collect::<Vec<_>>(),
    })
}
