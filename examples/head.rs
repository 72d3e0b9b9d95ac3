//! A simulated Ray head as a process of its own, for scripts: prints its ports as one line of JSON, then obeys
//! one command a line from standard input and answers each with one line of JSON. Ends with its input, so that it
//! never outlives a script (in the background: `tail -f /dev/null | head ...`).
//!
//! `cargo run --release --example head -- --nodes 1024 --jobs 1000`

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use marin_tui::demo::{Head, Scenario};
use marin_tui::model::{AutoscalerVersion, Secret};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A simulated Ray head.
///
/// Commands on standard input: `cost` prints what clients have cost so far; `running` prints the running jobs;
/// `kill-node N` ends the N-th node; `token TEXT` changes the token; `drop` closes all connections.
#[derive(Parser)]
struct Arguments {
    /// Living nodes, the head included.
    #[arg(long, default_value_t = 64)]
    nodes: usize,
    /// Dead nodes.
    #[arg(long, default_value_t = 3)]
    dead: usize,
    /// Jobs.
    #[arg(long, default_value_t = 200)]
    jobs: usize,
    /// Shapes of pending demand.
    #[arg(long, default_value_t = 3)]
    pending: usize,
    /// Nodes whose use changes each second.
    #[arg(long, default_value_t = 8)]
    changes: usize,
    /// Jobs that end, start and arrive each second.
    #[arg(long, default_value_t = 0)]
    turnover: usize,
    /// Lines that each running job logs in a second.
    #[arg(long, default_value_t = 2)]
    log_rate: u64,
    /// Which autoscaler reports.
    #[arg(long, value_enum, default_value = "v2")]
    autoscaler: Which,
    /// Seed of everything that looks random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File with the token that requests must carry; without it no token is asked for.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Address of the dashboard; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    dashboard: SocketAddr,
    /// Address of the GCS.
    #[arg(long, default_value = "127.0.0.1:0")]
    gcs: SocketAddr,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    V1,
    V2,
    None,
}

#[tokio::main]
async fn main() -> Result<()> {
    let given = Arguments::parse();
    let token = match &given.token_file {
        Some(file) => {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            Some(Secret::new(text.trim()))
        }
        None => None,
    };
    let scenario = Scenario {
        nodes: given.nodes,
        dead: given.dead,
        jobs: given.jobs,
        pending: given.pending,
        changes: given.changes,
        turnover: given.turnover,
        log_rate: given.log_rate,
        seed: given.seed,
        autoscaler: match given.autoscaler {
            Which::V1 => AutoscalerVersion::V1,
            Which::V2 => AutoscalerVersion::V2,
            Which::None => AutoscalerVersion::None,
        },
        token,
        ..Scenario::default()
    };
    let head = Head::start_at(scenario, given.dashboard, given.gcs).await.context("cannot listen")?;
    println!("{}", json!({"dashboard": head.dashboard.to_string(), "gcs": head.gcs.to_string()}));
    let obeying = tokio::task::spawn_blocking(move || -> Result<()> {
        for line in std::io::stdin().lines() {
            let answer = obey(&head, &line?).unwrap_or_else(|e| json!({"error": e.to_string()}));
            println!("{answer}");
        }
        Ok(())
    });
    obeying.await??;
    Ok(())
}

fn obey(head: &Head, line: &str) -> Result<Value> {
    let (command, argument) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    Ok(match command {
        "cost" => {
            let cost = head.cost();
            json!({"connections": cost.connections, "sent": cost.sent, "received": cost.received,
                "requests": cost.requests, "most_at_once": cost.most_at_once})
        }
        "running" => json!(head.submissions(marin_tui::model::JobStatus::Running)),
        "kill-node" => {
            let nodes = head.nodes();
            let number: usize = argument.parse()?;
            let id = nodes.get(number).with_context(|| format!("there are {} nodes", nodes.len()))?;
            json!({"killed": head.kill_node(*id)})
        }
        "token" => {
            head.set_token((!argument.is_empty()).then(|| Secret::new(argument)));
            json!({})
        }
        "drop" => {
            head.drop_connections();
            json!({})
        }
        other => bail!("unknown command `{other}`"),
    })
}
