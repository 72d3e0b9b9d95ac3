//! Manual operations on workers: adding one as a queued resource at Google or on a host of provider `local`, restarting
//! its Ray, and removing it.

use super::reach::Reach;
use super::run::{OperateArguments, RunOptions, operate};
use crate::model::time::limit;
use crate::model::{DRAIN_SECS, NewWorker, OperationKind, Task, Timestamp, worker_names};
use crate::operation::{Selection, select};
use clap::{Args, Subcommand, ValueEnum};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

const ADD_EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 add-worker --type v4-128 --capacity reserved
  marin-tui -c us-east5 add-worker --type v6e-8 --capacity flex-start
  marin-tui -c us-central2 add-worker --type v4-8 --dry-run     show the exact calls
  marin-tui -c lab add-worker --host 10.0.0.7                   a host of a local cluster, over SSH

While waiting for capacity, ctrl-c stops waiting but keeps the request in Google Cloud; run the same command with its \
--name to wait again. After a crash, use --resume to resume the operation or --abandon to abandon it.

Exit codes: 0 all hosts have joined Ray (with --no-wait: Google accepted the request), 1 failure.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 remove-worker worker-7 --drain       wait until running work ends
  marin-tui -c us-central2 remove-worker 10.128.0.7 --now       remove the host's TPU VM immediately
  marin-tui -c lab remove-worker 10.0.0.7 --dry-run             show affected jobs
  marin-tui -c us-central2 remove-worker w-1 w-2 w-3 --drain    several, one after another
  marin-tui -c us-central2 remove-worker --type v4-128 --drain  all of that type
  marin-tui -c us-central2 remove-worker --all-preempted        all that were preempted
  marin-tui -c lab remove-worker --resume                       resume an interrupted removal

With several workers, each is checked again right before it is removed: it must be the worker that was confirmed, and \
jobs submitted since then must be allowed. After a failure no further worker is removed; --resume continues with the remaining ones.

With --type, requests of that type that still wait for capacity are listed, not deleted; specify their names to delete them.

Exit codes: 0 the workers have been removed from Ray and Google, 1 failure.";

/// Operations on workers outside the autoscaler.
#[derive(Debug, Subcommand)]
#[allow(clippy::enum_variant_names, reason = "each is the name of a command")]
pub enum WorkerCommand {
    /// Add a worker outside the autoscaler; it also rejoins after a restart of the head
    #[command(after_help = ADD_EXAMPLES)]
    AddWorker(AddArguments),
    /// Rerun a worker's startup script and restart Ray on it
    #[command(after_help = "\
Examples:
  marin-tui -c us-central2 init-worker worker-7 --dry-run       show the commands and affected jobs
  marin-tui -c us-central2 init-worker worker-7

Exit codes: 0 all hosts have joined Ray again, 1 failure.")]
    InitWorker(InitArguments),
    /// Remove workers, after draining them or immediately (shows affected jobs first)
    #[command(after_help = REMOVE_EXAMPLES)]
    RemoveWorker(RemoveArguments),
}

/// Capacity type, as named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CapacityArg {
    /// Spot capacity, which can be preempted at any time.
    Preemptible,
    /// Best-effort capacity.
    #[value(alias = "best_effort")]
    BestEffort,
    /// Capacity as soon as it is available, for a limited time and without preemption.
    #[value(alias = "flex_start")]
    FlexStart,
    /// Capacity of the project's reservation.
    Reserved,
}

impl CapacityArg {
    /// Its name in the settings.
    const fn name(self) -> &'static str {
        match self {
            Self::Preemptible => "preemptible",
            Self::BestEffort => "best-effort",
            Self::FlexStart => "flex-start",
            Self::Reserved => "reserved",
        }
    }
}

/// Options of `add-worker`.
#[derive(Debug, Args)]
pub struct AddArguments {
    /// Node type in the cluster file, or its TPU type (v4-128)
    #[arg(long = "type", value_name = "TYPE", required_unless_present_any = ["host", "resume", "abandon"], conflicts_with_all = ["resume", "abandon"])]
    node_type: Option<String>,
    /// Capacity type to request
    #[arg(long, value_enum, default_value = "preemptible", conflicts_with_all = ["resume", "abandon"])]
    capacity: CapacityArg,
    /// Number of workers
    #[arg(long, alias = "at-once", value_name = "N", default_value = "1", conflicts_with_all = ["resume", "abandon"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    count: u32,
    /// Worker name; with --count NAME-1, NAME-2, ... [default: ray-worker-manual-<id>]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "abandon"])]
    name: Option<String>,
    /// Add this host to a local cluster over SSH
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["node_type", "capacity", "count", "name", "no_wait", "resume", "abandon"])]
    host: Option<String>,
    /// Do not wait for capacity
    #[arg(long)]
    no_wait: bool,
    /// Options of all operations.
    #[command(flatten)]
    common: OperateArguments,
}

/// Options of `init-worker`.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// TPU VM name, or host address
    #[arg(value_name = "NAME|ADDRESS", required_unless_present_any = ["resume", "abandon"], conflicts_with_all = ["resume", "abandon"])]
    worker: Option<String>,
    /// Allow ending other people's jobs there, and jobs without a known owner
    #[arg(long)]
    others: bool,
    /// Options of all operations.
    #[command(flatten)]
    common: OperateArguments,
}

/// Options of `remove-worker`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a separate flag")]
pub struct RemoveArguments {
    /// TPU VM or queued resource names, or host addresses
    #[arg(value_name = "NAME|ADDRESS", required_unless_present_any = ["kind", "all_preempted", "resume", "abandon"], conflicts_with_all = ["resume", "abandon"])]
    workers: Vec<String>,
    /// All workers outside the autoscaler of this TPU type or node type
    #[arg(long = "type", id = "kind", value_name = "TYPE", conflicts_with_all = ["workers", "resume", "abandon"])]
    kind: Option<String>,
    /// All workers outside the autoscaler that Google has preempted; with --type, those of that type
    #[arg(long, conflicts_with_all = ["workers", "resume", "abandon"])]
    all_preempted: bool,
    /// Number of workers to remove at the same time
    #[arg(long, alias = "at-once", value_name = "N", default_value = "1", conflicts_with_all = ["resume", "abandon"])]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=16))]
    parallel: u8,
    /// Allow ending other people's jobs there, and jobs without a known owner
    #[arg(long)]
    others: bool,
    /// Drain the worker: wait until running work ends
    #[arg(long, conflicts_with_all = ["now", "resume", "abandon"])]
    drain: bool,
    /// With --drain: how long to wait before the worker is removed anyway [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    #[arg(requires = "drain", conflicts_with_all = ["resume", "abandon"])]
    within: Option<Duration>,
    /// Remove immediately and end running work
    #[arg(long)]
    now: bool,
    /// Options of all operations.
    #[command(flatten)]
    common: OperateArguments,
}

impl AddArguments {
    fn task(&self) -> Option<Task> {
        let queued = |node_type: &String| NewWorker::Queued {
            node_type: node_type.clone(),
            capacity: self.capacity.name().to_owned(),
            names: worker_names(
                self.name.as_deref().unwrap_or_default(),
                self.count as usize,
                Timestamp::now(),
            ),
        };
        let host = self.host.clone().map(|address| NewWorker::Host { address });
        host.or_else(|| self.node_type.as_ref().map(queued)).map(Task::AddWorker)
    }
}

impl RemoveArguments {
    /// The removal of the named or selected workers; `None` if there are none.
    async fn task(&self, reach: &Reach) -> anyhow::Result<Option<Task>> {
        let workers = if self.kind.is_some() || self.all_preempted {
            let selection = Selection { kind: self.kind.clone(), preempted: self.all_preempted };
            let (workers, left) =
                select(&reach.spec, &reach.options, &selection).await.map_err(|p| reach.error(&p))?;
            for words in left {
                eprintln!("skipped: {words}");
            }
            if workers.is_empty() {
                eprintln!("{}: no {}", reach.spec.name, selection.text());
            }
            workers
        } else {
            let mut seen = BTreeSet::new();
            self.workers.iter().filter(|worker| seen.insert(*worker)).cloned().collect()
        };
        let drain = self.drain.then(|| self.within.map_or(DRAIN_SECS, |limit| limit.as_secs()));
        Ok(match workers.as_slice() {
            [] => None,
            [one] => Some(Task::RemoveWorker { worker: one.clone(), drain }),
            _ => Some(Task::RemoveWorkers { workers, drain, at_once: usize::from(self.parallel) }),
        })
    }

    async fn run(&self, reach: &Reach) -> anyhow::Result<ExitCode> {
        let task = self.task(reach).await?;
        let selects = self.kind.is_some() || self.all_preempted;
        if selects && task.is_none() {
            if self.common.json {
                super::output::json(&serde_json::json!([]))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let options = RunOptions {
            task,
            others: self.others,
            now: self.now,
            ..RunOptions::journaled(OperationKind::RemoveWorker, &self.common)
        };
        operate(&options, reach).await
    }
}

/// Runs the subcommand.
pub(super) fn run(command: &WorkerCommand, reach: &Reach) -> anyhow::Result<ExitCode> {
    let options = match command {
        WorkerCommand::AddWorker(a) => RunOptions {
            task: a.task(),
            no_wait: a.no_wait,
            ..RunOptions::journaled(OperationKind::AddWorker, &a.common)
        },
        WorkerCommand::InitWorker(a) => RunOptions {
            task: a.worker.clone().map(|worker| Task::InitWorker { worker }),
            others: a.others,
            ..RunOptions::journaled(OperationKind::InitWorker, &a.common)
        },
        WorkerCommand::RemoveWorker(a) => return Reach::block_on(a.run(reach)),
    };
    Reach::block_on(operate(&options, reach))
}
