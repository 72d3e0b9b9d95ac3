//! Workers by hand: added as a queued resource of Google's or on a host of provider `local`, started again, removed.

use super::reach::Reach;
use super::run::{OperateArguments, Wish, operate};
use crate::model::{DRAIN_SECS, NewWorker, OperationKind, Task, Timestamp, worker_names};
use clap::{Args, Subcommand, ValueEnum};
use std::process::ExitCode;

const ADD_EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 add-worker --type v4-128 --capacity reserved
  marin-tui -c us-central2 add-worker --type v4-8 --dry-run --json    the exact calls
  marin-tui -c lab add-worker --host 10.0.0.7                         a host of a local cluster, over ssh

While it waits for capacity, ^C cancels the wait; the request stays with Google, and the same command with its --name
follows it again. Killed at any step, --resume continues it, --abandon leaves it as it is.

Exit codes: 0 every host has joined Ray (with --no-wait: Google has the request), 1 otherwise; it says what to do.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 remove-worker ray-worker-manual-7 --drain    takes no new work; what runs may end
  marin-tui -c us-central2 remove-worker 10.128.0.7 --now               the TPU VM of that host, at once
  marin-tui -c lab remove-worker 10.0.0.7 --dry-run                     whose jobs it would hit
  marin-tui -c lab remove-worker --resume                               go on where it stopped

Exit codes: 0 it is gone, from Ray and from Google; 1 otherwise; it says what to do.";

/// What to do with workers.
#[derive(Debug, Subcommand)]
#[allow(clippy::enum_variant_names, reason = "each is the name of a command")]
pub enum WorkerCommand {
    /// Add a worker outside the autoscaler; it joins by itself, also after a restart of the head
    #[command(after_help = ADD_EXAMPLES)]
    AddWorker(AddArguments),
    /// Start Ray again on a worker: the steps of its startup
    InitWorker(InitArguments),
    /// Remove a worker, drained or at once; says first whose jobs that hits
    #[command(after_help = REMOVE_EXAMPLES)]
    RemoveWorker(RemoveArguments),
}

/// Capacity, in the words of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CapacityWord {
    /// May be taken away at any time.
    Preemptible,
    /// What is left over.
    #[value(alias = "best_effort")]
    BestEffort,
    /// From the project's reservation.
    Reserved,
}

impl CapacityWord {
    /// As the settings name it.
    const fn name(self) -> &'static str {
        match self {
            Self::Preemptible => "preemptible",
            Self::BestEffort => "best-effort",
            Self::Reserved => "reserved",
        }
    }
}

/// How a worker is added.
#[derive(Debug, Args)]
pub struct AddArguments {
    /// A worker type of the cluster's file, or its TPU (v4-128)
    #[arg(long = "type", value_name = "TYPE", required_unless_present_any = ["host", "resume", "abandon"])]
    node_type: Option<String>,
    /// How capacity is asked for
    #[arg(long, value_enum, default_value = "preemptible")]
    capacity: CapacityWord,
    /// How many
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    count: u32,
    /// Its name; with --count, NAME-1 and so on [default: ray-worker-manual-<id>]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A host of a local cluster, reached by ssh
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["node_type", "capacity", "count", "name", "no_wait"])]
    host: Option<String>,
    /// Do not wait for capacity
    #[arg(long)]
    no_wait: bool,
    /// What all operations take.
    #[command(flatten)]
    common: OperateArguments,
}

/// Which worker is started again.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// Name of a TPU VM, or address of a host
    #[arg(value_name = "NAME|ADDRESS", required_unless_present_any = ["resume", "abandon"])]
    worker: Option<String>,
    /// Do it although other people's jobs run there, or jobs of unknown owner
    #[arg(long)]
    others: bool,
    /// What all operations take.
    #[command(flatten)]
    common: OperateArguments,
}

/// Which worker is removed, and how.
#[derive(Debug, Args)]
pub struct RemoveArguments {
    /// Name of a TPU VM or a queued resource, or address of a host
    #[arg(value_name = "NAME|ADDRESS", required_unless_present_any = ["resume", "abandon"])]
    worker: Option<String>,
    /// Do it although other people's jobs run there, or jobs of unknown owner
    #[arg(long)]
    others: bool,
    /// Let what runs there end first
    #[arg(long, conflicts_with = "now")]
    drain: bool,
    /// With --drain: how long, in seconds, before it is removed all the same
    #[arg(long, value_name = "SECONDS", default_value_t = DRAIN_SECS, requires = "drain")]
    within: u64,
    /// At once, whatever runs there
    #[arg(long)]
    now: bool,
    /// What all operations take.
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

/// Runs it.
pub(super) fn run(command: &WorkerCommand, reach: &Reach) -> anyhow::Result<ExitCode> {
    let wish = match command {
        WorkerCommand::AddWorker(a) => {
            Wish { task: a.task(), no_wait: a.no_wait, ..Wish::standing(OperationKind::AddWorker, &a.common) }
        }
        WorkerCommand::InitWorker(a) => Wish {
            task: a.worker.clone().map(|worker| Task::InitWorker { worker }),
            others: a.others,
            ..Wish::standing(OperationKind::InitWorker, &a.common)
        },
        WorkerCommand::RemoveWorker(a) => {
            let drain = a.drain.then_some(a.within);
            Wish {
                task: a.worker.clone().map(|worker| Task::RemoveWorker { worker, drain }),
                others: a.others,
                now: a.now,
                ..Wish::standing(OperationKind::RemoveWorker, &a.common)
            }
        }
    };
    Reach::block_on(operate(&wish, reach))
}
