//! `marin-tui demo`: the console on a simulated fleet that exists only while it runs.

use super::reach::{block_on, runtime};
use super::signals::Signals;
use super::{DisplayArguments, GlobalArguments, console};
use crate::cli::output;
use crate::config::{self, Env, Sources};
use crate::demo::{FaultKind, Fleet, Plan};
use crate::model::Timestamp;
use crate::model::json::object;
use crate::task;
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Runtime;

pub(super) const EXAMPLES: &str = "\
Scenarios: marin (Marin's 14 clusters with typical issues), calm (the same without issues), or a YAML file.
Faults: none, unreachable, rotated-token, slow, status-500, half-body, html, stall, hang-up.

Examples:
  marin-tui demo                                            simulate Marin's clusters
  marin-tui demo --scenario calm --clusters 20 --nodes 2000 --jobs 10000
  marin-tui demo --fault marin-big-run=unreachable          make one cluster unreachable
  marin-tui demo --log-rate 1000 --cluster big-run          write 1000 log lines per second
  marin-tui demo --serve                                    no console, for tests and measurements

No real resources are changed. The clusters, Google Cloud and the ray command are simulated in this process, behind servers on \
127.0.0.1; all files are in one directory under /tmp that is removed at exit. To run commands on a fleet started with \
--serve, pass the values it prints: `settings` as --config, `infra` as --infra, and the variables of `env`.";

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct Options {
    /// Built-in scenario, or a YAML file
    #[arg(long, value_name = "NAME|FILE", default_value = "marin")]
    scenario: PathBuf,
    /// Number of clusters: the first of the scenario, plus generated ones if it has fewer
    #[arg(long, value_name = "N")]
    clusters: Option<usize>,
    /// Number of nodes per cluster
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: Option<u32>,
    /// Number of jobs per cluster
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Log lines per second of each running job
    #[arg(long, value_name = "N")]
    log_rate: Option<u64>,
    /// Round-trip time to each head, in milliseconds
    #[arg(long, value_name = "MS")]
    latency: Option<u64>,
    /// Fault to inject into all clusters, or into one (`CLUSTER=KIND`); repeatable
    #[arg(long, value_name = "KIND")]
    fault: Vec<String>,
    /// Random seed; the same seed generates the same clusters
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Freeze the clusters' clock, e.g. at 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    fixed_time: Option<String>,
    /// Do not open the console; print paths and ports as one line of JSON and serve until stdin closes
    #[arg(long)]
    serve: bool,
    /// Display options of the console, after the command's name, too.
    #[command(flatten)]
    display: DisplayArguments,
    /// Global options that `demo` refuses.
    #[command(flatten)]
    refused: RefusedOptions,
}

/// Global options that a demo sets itself: it refuses them and hides them from its help.
#[derive(Clone, Debug, Args)]
struct RefusedOptions {
    #[arg(long, hide = true, value_name = "DIR")]
    infra: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "URL")]
    address: Option<String>,
    #[arg(long, hide = true, value_name = "HOST:PORT")]
    gcs: Option<String>,
}

impl RefusedOptions {
    fn is_given(&self) -> bool {
        self.infra.is_some() || self.config.is_some() || self.address.is_some() || self.gcs.is_some()
    }
}

/// Starts the fleet, runs the console on it (or serves), and removes it.
pub fn run(options: &Options, arguments: &GlobalArguments, env: &Env) -> anyhow::Result<()> {
    let given = &arguments.sources;
    if options.refused.is_given()
        || given.infra.is_some()
        || given.config.is_some()
        || given.address.is_some()
    {
        anyhow::bail!("demo uses its own clusters and settings; remove --infra, --config and --address");
    }
    let arguments = GlobalArguments { display: options.display.or(&arguments.display), ..arguments.clone() };
    if !options.serve {
        console::check_terminal(&arguments.display)?;
    }
    let plan = plan(options)?;
    let runtime = runtime()?;
    let ended = with_fleet(options, plan, &arguments, env, &runtime);
    // A blocking read of standard input cannot be cancelled.
    runtime.shutdown_background();
    ended
}

fn with_fleet(
    options: &Options,
    plan: Plan,
    arguments: &GlobalArguments,
    env: &Env,
    runtime: &Runtime,
) -> anyhow::Result<()> {
    // Listen before the directory is created, so that no signal leaves it behind.
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let started = block_on(runtime, async {
        tokio::select! {
            fleet = start(plan) => fleet.map(Some),
            () = signals.any() => Ok(None),
        }
    });
    let Some(fleet) = started? else { return Ok(()) };
    if options.serve {
        return block_on(runtime, serve(&fleet, &mut signals));
    }
    let folder = fleet.folder();
    let env = env.with(&folder.env());
    let sources =
        Sources { config: Some(folder.settings()), infra: Some(folder.infra()), ..Sources::default() };
    let config = config::load(&sources, &env, Timestamp::now())?;
    // From here on the console listens for signals itself.
    if runtime.block_on(async { tokio::time::timeout(Duration::ZERO, signals.any()).await }).is_ok() {
        return Ok(());
    }
    console::run(arguments, config, &env)
}

async fn start(plan: Plan) -> anyhow::Result<Fleet> {
    let count = plan.clusters.len();
    // If the path is not UTF-8, the simulated ray command refuses every request.
    let program = std::env::current_exe().ok().and_then(|p| Some(p.to_str()?.to_owned()));
    let ray: Vec<String> = program.into_iter().flat_map(|p| [p, "demo-ray".into()]).collect();
    let starting = Fleet::start_with_ray(plan, &ray);
    tokio::pin!(starting);
    let fleet = tokio::select! {
        fleet = &mut starting => fleet,
        () = tokio::time::sleep(Duration::from_secs(1)) => {
            eprintln!("starting {count} simulated clusters...");
            starting.await
        }
    };
    fleet.context("cannot start the simulated clusters")
}

/// Prints the paths and ports of the fleet and waits for a signal or the end of standard input.
async fn serve(fleet: &Fleet, signals: &mut Signals) -> anyhow::Result<()> {
    let folder = fleet.folder();
    let env = object(folder.env());
    let clusters: Vec<Value> =
        fleet.members().iter().map(|m| json!({"cluster": m.name, "ssh_port": m.port()})).collect();
    let line = json!({
        "dir": output::path(folder.path()),
        "settings": output::path(&folder.settings()),
        "infra": output::path(&folder.infra()),
        "key": output::path(&folder.key()),
        "env": env,
        "clusters": clusters,
    });
    output::json_line(&line)?;
    tokio::select! {
        () = signals.any() => {}
        () = end_of_input() => {}
    }
    Ok(())
}

async fn end_of_input() {
    // A read error counts as the end of input.
    let _ = task::spawn_blocking(|| io::copy(&mut io::stdin().lock(), &mut io::sink())).await;
}

/// The plan of the scenario with the changes of the command line.
fn plan(options: &Options) -> anyhow::Result<Plan> {
    let mut plan = Plan::find(&options.scenario)?;
    if let Some(count) = options.clusters {
        plan.resize(count);
    }
    let fixed_time = options.fixed_time.as_deref().map(time).transpose()?;
    for cluster in &mut plan.clusters {
        cluster.fixed_time = fixed_time;
        if let Some(nodes) = options.nodes {
            cluster.nodes = nodes as usize;
        }
        if let Some(jobs) = options.jobs {
            cluster.jobs = jobs;
        }
        if let Some(rate) = options.log_rate {
            cluster.log_rate = rate;
        }
        if let Some(ms) = options.latency {
            cluster.latency_ms = ms;
        }
        if let Some(seed) = options.seed {
            cluster.seed = seed;
        }
    }
    for fault in &options.fault {
        apply(fault, &mut plan)?;
    }
    if plan.clusters.is_empty() {
        anyhow::bail!("--clusters must be at least 1");
    }
    Ok(plan)
}

/// `KIND` or `CLUSTER=KIND`.
fn apply(fault: &str, plan: &mut Plan) -> anyhow::Result<()> {
    let (cluster, kind) = fault.split_once('=').map_or((None, fault), |(c, k)| (Some(c), k));
    let fault = FaultKind::named(kind).with_context(|| {
        let known: Vec<&str> = FaultKind::ALL.iter().map(|(name, _)| *name).collect();
        format!("unknown fault `{kind}`; known faults: {}", known.join(", "))
    })?;
    let mut is_found = false;
    for planned in plan.clusters.iter_mut().filter(|c| cluster.is_none_or(|name| c.name == name)) {
        (planned.trouble, is_found) = (fault, true);
    }
    if let (Some(cluster), false) = (cluster, is_found) {
        let names: Vec<&str> = plan.clusters.iter().map(|c| c.name.as_str()).collect();
        anyhow::bail!("no cluster `{cluster}` in the scenario; its clusters: {}", names.join(", "));
    }
    Ok(())
}

fn time(text: &str) -> anyhow::Result<Timestamp> {
    let parsed: jiff::Timestamp = text
        .parse()
        .with_context(|| format!("`{text}` is not a time; use a format like 2026-01-31T12:00:00Z"))?;
    Ok(Timestamp::from_millis(parsed.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Arguments, Command};
    use clap::CommandFactory as _;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        options: Options,
    }

    fn planned(arguments: &[&str]) -> anyhow::Result<Plan> {
        plan(&Only::parse_from([&["demo"], arguments].concat()).options)
    }

    #[test]
    fn the_command_line_changes_the_scenario() {
        let plan =
            planned(&["--clusters=15", "--nodes=3", "--jobs=4", "--fault=slow", "--fault=demo-15=html"]);
        let plan = plan.unwrap();
        assert_eq!(plan.clusters.len(), 15);
        assert!(plan.clusters.iter().all(|c| (c.nodes, c.jobs) == (3, 4)));
        assert_eq!((plan.clusters[0].trouble, plan.clusters[14].trouble), (FaultKind::Slow, FaultKind::Html));
        let fixed = planned(&["--fixed-time=1970-01-01T00:00:01Z"]).unwrap().clusters[0].fixed_time;
        assert_eq!(fixed, Some(Timestamp::from_millis(1000)));
    }

    #[test]
    fn unknown_names_are_reported_with_the_known_ones() {
        for (argument, words) in [
            ("--fault=flu", "rotated-token"),
            ("--fault=nowhere=slow", "marin-big-run"),
            ("--scenario=nowhere", "calm"),
            ("--fixed-time=noon", "2026-01-31T12:00:00Z"),
            ("--clusters=0", "--clusters must be at least 1"),
        ] {
            let why = format!("{:#}", planned(&[argument]).unwrap_err());
            assert!(why.contains(words), "{argument}: {why}");
        }
    }

    #[test]
    fn options_that_a_demo_sets_itself_are_hidden_and_refused() {
        let mut all = Arguments::command();
        all.build();
        let help = all.find_subcommand_mut("demo").unwrap().render_long_help().to_string();
        for switch in ["--infra", "--config", "--address", "--gcs"] {
            assert!(!help.contains(&format!("{switch} <")), "{help}");
            for words in [["marin-tui", "demo", switch, "x"], ["marin-tui", switch, "x", "demo"]] {
                let Ok(arguments) = Arguments::try_parse_from(words) else {
                    assert_eq!(switch, "--gcs", "it requires --address");
                    continue;
                };
                let Some(Command::Demo(options)) = &arguments.command else { panic!("{arguments:?}") };
                let refused = run(options, &arguments.global, &Env::default()).unwrap_err().to_string();
                assert!(refused.contains("demo uses its own clusters"), "{refused}");
            }
        }
    }
}
