//! The way up: the head's address, the tunnel, the dashboard's first answer, the token.

use super::ports::{Ports, RAY};
use super::task::Out;
use super::{Options, Reach, SECRET_VARIABLES};
use crate::model::{ClusterSpec, HeadAddress, Link, News, Phase, Problem, ProblemKind, Secret, Timestamp};
use crate::ray::{Client, Endpoint, RayError};
use crate::ssh::{self, Forward, KeepAlive, PortPlan, SshError, Tunnel, TunnelSpec};
use crate::token;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::sync::watch;

/// A dashboard that has just started accepts connections 5 to 12 s before it answers (measured on 2.53 and 2.60).
const FIRST_ANSWER: Duration = Duration::from_secs(15);
/// `ray get-head-ip` may ask a cloud.
const ASK_RAY: Duration = Duration::from_secs(60);
/// Tries to find three free ports before giving up; another program may take one between our look and ssh's bind.
const PORT_TRIES: usize = 5;
/// An open way to a cluster.
pub struct Session {
    /// The SSH connection and the local ports of its forwards; none with `--address`.
    pub tunnel: Option<(Tunnel, Ports)>,
    /// Ray through it, with the token in force.
    pub client: Client,
    /// The client's token; none without token auth.
    pub token: Option<Secret>,
    /// Round trip of the dashboard's answer.
    pub latency: Duration,
}

impl Session {
    /// Ends the connection; its ports are free afterwards, and the next one gets the same.
    pub async fn close(self) {
        if let Some((tunnel, ports)) = self.tunnel {
            tunnel.close().await;
            drop(ports);
        }
    }

    /// Connections to the head's ports that the head refused so far.
    pub fn refusals(&self) -> u64 {
        self.tunnel.as_ref().map_or(0, |(tunnel, _)| tunnel.refusals().borrow().count)
    }
}

/// Where a session is to be opened to, and how.
pub struct Opener {
    /// The client of the session before, if any: log streams that still use it go on.
    pub before: Option<Client>,
    /// The cluster.
    pub spec: Arc<ClusterSpec>,
    /// Its place in the list: decides its local ports.
    pub place: usize,
    /// What all tasks share.
    pub options: Arc<Options>,
    /// Local ports of all clusters.
    pub ports: Arc<Mutex<PortPlan>>,
    /// Progress goes here.
    pub out: Out,
    /// What a front end can reach goes here.
    pub reach: watch::Sender<Reach>,
}

impl Opener {
    /// Opens a session; one attempt.
    pub async fn open(self) -> Result<Session, Problem> {
        let (tunnel, endpoint) = if let HeadAddress::Direct { dashboard, gcs } = &self.spec.head {
            self.reach.send_replace(Reach { url: Some(dashboard.clone()), login: None });
            (None, Endpoint { dashboard: dashboard.clone(), gcs: gcs.clone() })
        } else {
            self.tell(Phase::Address).await;
            let host = head_address(&self.spec, &self.options).await?;
            self.tell(Phase::Tunnel).await;
            let (tunnel, ports) = self.open_tunnel(host.clone()).await?;
            let [dashboard, gcs, _] = ports.local;
            let url = Some(self.spec.name.browser_url(dashboard));
            let login = Some(tunnel_spec(&self.spec, &self.options, host, Vec::new()));
            self.reach.send_replace(Reach { url, login });
            let endpoint = Endpoint {
                dashboard: format!("http://127.0.0.1:{dashboard}"),
                gcs: Some(format!("127.0.0.1:{gcs}")),
            };
            (Some((tunnel, ports)), endpoint)
        };
        self.tell(Phase::Dashboard).await;
        self.attach(tunnel, endpoint).await
    }

    async fn tell(&self, phase: Phase) {
        self.out.send(News::Link(Link::Connecting { phase, since: Timestamp::now() })).await;
    }

    /// Opens the tunnel on three free ports and tells which had to give way. Another program may take one between
    /// our look and ssh's bind.
    async fn open_tunnel(&self, host: String) -> Result<(Tunnel, Ports), Problem> {
        let mut tries = 0;
        loop {
            tries += 1;
            let ports = Ports::take(&self.ports, self.place, &self.spec.name)?;
            let forwards =
                ports.local.iter().zip(RAY).map(|(&local, remote)| Forward { local, remote }).collect();
            match Tunnel::open(tunnel_spec(&self.spec, &self.options, host.clone(), forwards)).await {
                Ok(tunnel) => {
                    let [dashboard, gcs, client] = ports.local;
                    self.out.send(News::Ports { dashboard, gcs, client, notes: ports.notes.clone() }).await;
                    return Ok((tunnel, ports));
                }
                Err(SshError::PortInUse { .. }) if tries < PORT_TRIES => {}
                Err(e) => return Err(e.problem(Timestamp::now())),
            }
        }
    }

    /// Asks the dashboard how it wants to be spoken to, and finds the token if it wants one.
    async fn attach(&self, tunnel: Option<(Tunnel, Ports)>, endpoint: Endpoint) -> Result<Session, Problem> {
        let client = match &self.before {
            Some(before) if *before.endpoint() == endpoint => before.clone(),
            _ => Client::new(endpoint, None).map_err(|e| e.problem(Timestamp::now()))?,
        };
        let mut session = Session { tunnel, client, token: None, latency: Duration::ZERO };
        let opened = async {
            if first_answer(&mut session).await? {
                renew_token(&self.spec, &self.options, &mut session).await?;
            }
            Ok(())
        };
        match opened.await {
            Ok(()) => Ok(session),
            Err(problem) => {
                session.close().await;
                Err(problem)
            }
        }
    }
}

/// Whether the cluster wants a token. The first answer may take long on a head that has just started; a refused channel is an answer too.
async fn first_answer(session: &mut Session) -> Result<bool, Problem> {
    let began = Instant::now();
    let answer = tokio::time::timeout(FIRST_ANSWER, wants_token(&session.client)).await;
    session.latency = began.elapsed();
    let now = Timestamp::now();
    match answer {
        Ok(Ok(wanted)) => Ok(wanted),
        Ok(Err(_)) if session.refusals() > 0 => Err(dashboard_down(now)),
        Ok(Err(e)) => Err(e.problem(now)),
        Err(_) => Err(Problem::new(
            ProblemKind::DashboardSilent,
            format!(
                "the dashboard accepts connections but has not answered within {} s",
                FIRST_ANSWER.as_secs()
            ),
            "a head that has just started needs some seconds; if it stays so, look at dashboard.log on the head",
            now,
        )),
    }
}

/// Forgets the known key of the cluster's head and accepts the one with this fingerprint.
pub async fn trust(spec: &ClusterSpec, options: &Options, fingerprint: &str) -> Result<(), Problem> {
    let host = head_address(spec, options).await?;
    let spec = tunnel_spec(spec, options, host, Vec::new());
    ssh::trust(&spec, fingerprint).await.map_err(|e| e.problem(Timestamp::now()))
}

/// ssh said that nothing listens behind the forward: the only proof of "host up, Ray down".
pub fn dashboard_down(now: Timestamp) -> Problem {
    Problem::new(
        ProblemKind::DashboardSilent,
        "the tunnel works, but no dashboard listens on the head",
        "is ray running there? `ray status` on the head tells (! logs in), `ray up` starts it",
        now,
    )
}

/// Ray before 2.52 knows neither tokens nor this route.
async fn wants_token(client: &Client) -> Result<bool, RayError> {
    match client.wants_token().await {
        Err(RayError::NotFound(_)) => Ok(false),
        answer => answer,
    }
}

/// A small request that needs no token: its time is the round trip.
pub async fn ping(client: &Client) -> Result<Duration, RayError> {
    let began = Instant::now();
    wants_token(client).await.map(|_| began.elapsed())
}

/// Looks the token up again after the cluster refused ours. True when another one was found; the session's client
/// has it then.
pub async fn renew_token(
    spec: &ClusterSpec,
    options: &Options,
    session: &mut Session,
) -> Result<bool, Problem> {
    let token = find_token(spec, options).await?;
    if session.client.token() == Some(&token) {
        session.token = Some(token);
        return Ok(false);
    }
    let endpoint = session.client.endpoint().clone();
    session.client = Client::new(endpoint, Some(token.clone())).map_err(|e| e.problem(Timestamp::now()))?;
    session.token = Some(token);
    Ok(true)
}

async fn find_token(spec: &ClusterSpec, options: &Options) -> Result<Secret, Problem> {
    let (name, options) = (spec.name.clone(), options.clone());
    // The file may lie on a network home.
    let look = move || {
        token::find(&options.token, &name).map_err(|e| e.problem(&name, &options.token, Timestamp::now()))
    };
    match tokio::task::spawn_blocking(look).await {
        Ok(Ok(found)) => {
            if found.exposed {
                tracing::warn!(cluster = %spec.name, "others can read {}: chmod 600 it", found.source);
            }
            Ok(found.token)
        }
        Ok(Err(problem)) => Err(problem),
        Err(e) => Err(Problem::new(ProblemKind::Other, e.to_string(), "", Timestamp::now())),
    }
}

pub async fn head_address(spec: &ClusterSpec, options: &Options) -> Result<String, Problem> {
    match &spec.head {
        HeadAddress::Ssh(host) => Ok(host.clone()),
        HeadAddress::AskRay => ask_ray(spec, options).await,
        HeadAddress::Direct { dashboard, .. } => Ok(dashboard.clone()),
    }
}

/// `ray get-head-ip FILE` knows every provider. Its last line is the address.
async fn ask_ray(spec: &ClusterSpec, options: &Options) -> Result<String, Problem> {
    let words = options.ray.join(" ");
    let failed = |what: String| {
        let mend = format!(
            "set `clusters.{}.address` in the settings to the head's address or an ssh alias, or check `{words} get-head-ip` by hand",
            spec.name
        );
        Problem::new(ProblemKind::Address, what, mend, Timestamp::now())
    };
    let (Some((program, arguments)), Some(file)) = (options.ray.split_first(), &spec.file) else {
        return Err(failed("there is no ray command to ask for the head's address".into()));
    };
    let mut command = Command::new(program);
    command.args(arguments).arg("get-head-ip").arg(file).kill_on_drop(true).stdin(Stdio::null());
    for name in SECRET_VARIABLES {
        command.env_remove(name);
    }
    let output = match tokio::time::timeout(ASK_RAY, command.output()).await {
        Err(_) => {
            return Err(failed(format!("`{words} get-head-ip` took longer than {} s", ASK_RAY.as_secs())));
        }
        Ok(Err(e)) => return Err(failed(format!("`{program}` could not be started: {e}"))),
        Ok(Ok(output)) => output,
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    match stdout.lines().rev().map(str::trim).find(|l| !l.is_empty()) {
        Some(address) if output.status.success() && !address.contains(char::is_whitespace) => {
            Ok(address.to_owned())
        }
        _ => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let last = stderr
                .lines()
                .rev()
                .map(str::trim)
                .find(|l| !l.is_empty())
                .unwrap_or("it printed no address");
            Err(failed(format!("`{words} get-head-ip` failed: {last}")))
        }
    }
}

/// How to log in to that cluster's head.
pub fn tunnel_spec(
    spec: &ClusterSpec,
    options: &Options,
    host: String,
    forwards: Vec<Forward>,
) -> TunnelSpec {
    TunnelSpec {
        name: spec.name.clone(),
        host,
        auth: spec.auth.clone(),
        forwards,
        known_hosts: options.known_hosts.clone(),
        run_dir: options.run_dir.clone(),
        ssh: options.ssh.clone(),
        ssh_config: options.ssh_config.clone(),
        connect_timeout: Duration::from_secs(10),
        keep_alive: KeepAlive::default(),
    }
}
