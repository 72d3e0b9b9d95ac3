//! `marin-tui forward`: opens local TCP ports that forward to a head's services, while the command runs.

use super::output;
use super::reach::{Progress, Reach};
use super::signals::Signals;
use crate::model::service::OPEN_TO_ALL;
use crate::model::sort;
use crate::model::{LocalPorts, Service};
use crate::supervisor::{Connection, ConnectionState};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use tokio::time::Instant;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui forward -c us-central2            forward dashboard, GCS and Ray client
  marin-tui forward -c us-central2 client     for ray.init(\"ray://127.0.0.1:10001\")

The ports listen on 127.0.0.1 and [::1] and stay the same unless another program uses one; `marin-tui clusters` lists \
them. Other users of this machine can connect to them: without token authentication they can use the cluster while the \
ports are open.

Exit codes: 0 ended by ctrl-c, 1 the ports could not be opened.";

/// A forwarded service, as named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServiceArg {
    /// The dashboard and the Jobs API.
    Dashboard,
    /// The GCS port.
    Gcs,
    /// The Ray client server.
    Client,
}

/// Options of `forward`.
#[derive(Debug, Args)]
pub struct ForwardArguments {
    /// Services to forward [default: all]
    #[arg(value_enum, value_name = "SERVICE")]
    services: Vec<ServiceArg>,
    /// Print JSON: one object with the port of each service, printed again when a reconnection changes a port
    #[arg(long)]
    json: bool,
}

impl ForwardArguments {
    fn services(&self) -> BTreeSet<Service> {
        if self.services.is_empty() {
            return sort::collected(Service::ALL);
        }
        let service = |word: &ServiceArg| match word {
            ServiceArg::Dashboard => Service::Dashboard,
            ServiceArg::Gcs => Service::Gcs,
            ServiceArg::Client => Service::Client,
        };
        sort::collected(self.services.iter().map(service))
    }
}

/// Opens the ports, prints them and keeps them open until ctrl-c.
pub(super) fn run(arguments: &ForwardArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    Reach::block_on(async {
        let mut signals = Signals::listen()?;
        let progress = Progress::new();
        let session = tokio::select! {
            session = reach.connect(&progress) => session?,
            () = signals.any() => return Ok(ExitCode::SUCCESS),
        };
        progress.show("opening the ports");
        let done = tokio::select! {
            done = serve(arguments, reach, session.connection(), session.token.is_some()) => done,
            () = signals.any() => Ok(()),
        };
        session.close().await;
        done.map(|()| ExitCode::SUCCESS)
    })
}

async fn serve(
    arguments: &ForwardArguments,
    reach: &Reach,
    connection: &Connection,
    token_auth: bool,
) -> anyhow::Result<()> {
    let name = &reach.spec.name;
    let mut open = connection.forward(arguments.services()).await.map_err(|p| reach.error(&p))?;
    print(arguments, reach, &open)?;
    if !token_auth {
        eprintln!("{name}: {OPEN_TO_ALL}");
    }
    eprintln!("ports open; press ctrl-c to close them");
    let (mut state, mut lost) = (connection.watch(), None::<Instant>);
    loop {
        let now = state.borrow_and_update().clone();
        match now {
            ConnectionState::Up(channel) => {
                if let Some(since) = lost.take() {
                    eprintln!("{name}: reconnected after {} s", since.elapsed().as_secs());
                }
                if channel.ports != open {
                    open = channel.ports;
                    print(arguments, reach, &open)?;
                }
            }
            // Reconnecting cannot succeed without action by the operator.
            ConnectionState::Down { problem, retry_at: None, .. } => return Err(reach.error(&problem)),
            ConnectionState::Down { problem, .. } if lost.is_none() => {
                lost = Some(Instant::now());
                eprintln!("{name}: connection lost: {}; reconnecting", problem.what);
            }
            ConnectionState::Down { .. } | ConnectionState::Connecting(_) => {}
        }
        state.changed().await?;
    }
}

fn print(arguments: &ForwardArguments, reach: &Reach, ports: &LocalPorts) -> anyhow::Result<()> {
    if arguments.json {
        return output::json_line(&as_json(|service| ports.get(&service).copied()));
    }
    let mut out = output::stdout();
    for (service, port) in ports {
        writeln!(out, "{:<10}  {}", service.label(), service.address(&reach.spec.name, *port))?;
    }
    Ok(out.flush()?)
}

/// Ports by service, for scripts: `dashboard`, `gcs`, `client`, each a number or null.
pub(super) fn as_json(port: impl Fn(Service) -> Option<u16>) -> serde_json::Value {
    json!({
        "dashboard": port(Service::Dashboard), "gcs": port(Service::Gcs), "client": port(Service::Client),
    })
}
