//! Workers by hand: added as a queued resource of Google's or on a host of provider `local`, started again, removed.

mod add;
mod remove;

use super::reach::Reach;
use crate::config::Launch;
use crate::model::{Node, Problem, Timestamp};
use crate::operation::Journal;
use crate::ray::Poller;
use crate::supervisor::Session;
use clap::{Args, Subcommand, ValueEnum};
use std::process::ExitCode;

const ADD_EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 add-worker --type v4-128 --capacity reserved
  marin-tui -c us-central2 add-worker --type tpu_worker --count 2 --dry-run    the exact calls, as JSON lines
  marin-tui -c lab add-worker --host 10.0.0.7                                  a host of a local cluster, over ssh

Interrupted, the request stays with Google: the same command with its --name follows it again.

Exit codes: 0 every host has joined Ray (with --no-wait: Google has the request), 1 otherwise; it says what to do.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 remove-worker ray-worker-manual-7 --drain    takes no new work; what runs may end
  marin-tui -c us-central2 remove-worker 10.128.0.7 --now               the TPU VM of that host, at once
  marin-tui -c lab remove-worker 10.0.0.7 --dry-run                     whose jobs it would hit

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
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "host")]
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
    /// What all take.
    #[command(flatten)]
    common: CommonArguments,
}

/// Which worker is started again.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// Name of a TPU VM, or address of a host
    #[arg(value_name = "NAME|ADDRESS")]
    worker: String,
    /// What all take.
    #[command(flatten)]
    common: CommonArguments,
}

/// Which worker is removed, and how.
#[derive(Debug, Args)]
pub struct RemoveArguments {
    /// Name of a TPU VM or a queued resource, or address of a host
    #[arg(value_name = "NAME|ADDRESS")]
    worker: String,
    /// Let what runs there end first
    #[arg(long, conflicts_with = "now")]
    drain: bool,
    /// With --drain: how long, in seconds, before it is removed all the same
    #[arg(long, value_name = "SECONDS", default_value = "3600", requires = "drain")]
    within: u64,
    /// At once, whatever runs there
    #[arg(long)]
    now: bool,
    /// What all take.
    #[command(flatten)]
    common: CommonArguments,
}

/// What all take.
#[derive(Debug, Args)]
struct CommonArguments {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Say the exact steps and calls, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl WorkerCommand {
    /// The command's name, if it would change a cluster.
    pub(super) fn changes(&self) -> Option<&'static str> {
        let (name, common) = match self {
            Self::AddWorker(a) => ("add-worker", &a.common),
            Self::InitWorker(a) => ("init-worker", &a.common),
            Self::RemoveWorker(a) => ("remove-worker", &a.common),
        };
        (!common.dry_run).then_some(name)
    }
}

/// Runs it.
pub(super) fn run(command: &WorkerCommand, reach: &Reach) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        match command {
            WorkerCommand::AddWorker(a) => add::add(a, reach).await,
            WorkerCommand::InitWorker(a) => add::init(a, reach).await,
            WorkerCommand::RemoveWorker(a) => remove::run(a, reach).await,
        }
    })
}

/// The cluster's journal, held so that nobody restarts the cluster meanwhile; one of an operation that stopped half
/// way stands in the way.
fn journal(reach: &Reach) -> anyhow::Result<Journal> {
    let journal = Journal::open(&reach.folders.state, &reach.spec.name)?;
    if let Some(u) = journal.unfinished() {
        let kind = u.task.kind();
        anyhow::bail!(
            "{} of {} stopped half way: {} --resume goes on with it, --abandon forgets it",
            kind.word(),
            reach.spec.name,
            kind.command()
        );
    }
    Ok(journal)
}

/// How the cluster's file starts its workers.
fn launch(reach: &Reach) -> anyhow::Result<Launch> {
    let file = reach.spec.file.as_deref();
    let file =
        file.ok_or_else(|| anyhow::anyhow!("{} has no cluster file to start a worker by", reach.spec.name))?;
    Launch::read(file).map_err(|e| anyhow::anyhow!("{}; {}", e.what(), e.mend))
}

/// Nodes that Ray has now.
async fn nodes(session: &Session, reach: &Reach) -> anyhow::Result<Vec<Node>> {
    let snapshot = Poller::new(session.client.clone()).refresh().await;
    let snapshot = snapshot.map_err(|e: crate::ray::RayError| -> anyhow::Error {
        let problem: Problem = e.problem(Timestamp::now());
        reach.error(&problem)
    })?;
    Ok(snapshot.nodes.iter().map(Node::clone).collect())
}
