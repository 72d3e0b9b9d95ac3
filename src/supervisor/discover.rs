//! Finds a cluster's head: in its file, at Google Cloud by the labels that Ray's launcher sets, or by asking Ray.

use super::Options;
use super::out::UpdateSender;
use crate::config;
use crate::gcp::{GcpError, Head, Machines, Role};
use crate::model::{
    ClusterEvent, ClusterSpec, HeadAddress, Hint, HostName, Link, Problem, ProblemKind, Provider, Timestamp,
    Verb, several_heads,
};
use crate::ssh::clean_environment;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Time limit of `ray get-head-ip`, which may query a cloud.
const RAY_TIMEOUT: Duration = Duration::from_secs(60);

/// The head's address and how it was found.
pub struct Found {
    /// Address or ssh alias of the head.
    pub host: HostName,
    /// A message for the operator about how it was found.
    pub note: Option<String>,
}

impl From<HostName> for Found {
    fn from(host: HostName) -> Self {
        Self { host, note: None }
    }
}

/// An address reported by Ray, Google or a journal, checked before it is passed to ssh.
pub(super) fn host_name(text: &str) -> Result<HostName, Problem> {
    HostName::parse(text)
        .map_err(|e| Problem::new(ProblemKind::Address, e.to_string(), "nothing was sent", Timestamp::now()))
}

/// The head's current address. Looked up for every connection, because a recreated head has a new one. A missing Google
/// login is reported to `out` before the slower `ray get-head-ip` runs.
pub async fn head_address(
    spec: &ClusterSpec,
    options: &Options,
    out: Option<&UpdateSender>,
) -> Result<Found, Problem> {
    let host = match &spec.head {
        HeadAddress::Ssh(host) => host.clone(),
        HeadAddress::RayLookup if spec.provider == Provider::Gcp => {
            return ask_google(spec, options, out).await;
        }
        HeadAddress::RayLookup => ask_ray(spec, options).await?,
        HeadAddress::Direct { .. } => {
            let what = "SSH is not available: the dashboard is reached directly";
            return Err(Problem::new(ProblemKind::Address, what, "remove --address", Timestamp::now()));
        }
    };
    Ok(host.into())
}

/// Finds the head at Google by its labels. If Google cannot be queried, asks Ray.
async fn ask_google(
    spec: &ClusterSpec,
    options: &Options,
    out: Option<&UpdateSender>,
) -> Result<Found, Problem> {
    let Some(project) = &spec.google.project else { return Ok(ask_ray(spec, options).await?.into()) };
    match options.google.machines(project, Role::Head, Some(spec.name.as_str())).await {
        Ok(heads) => running_head(spec, project, heads),
        // `ray get-head-ip` asks the same API, and would only use up more of the quota.
        Err(e @ GcpError::Quota { .. }) => {
            let now = Timestamp::now();
            let kind = ProblemKind::Quota { after: e.retry_after().unwrap_or_default() };
            Err(Problem::new(kind, e.to_string(), e.hint(), now))
        }
        Err(e) => instead_of_google(spec, options, &e, out).await,
    }
}

/// The address of the running head among the machines that are labeled as heads of a cluster of this name.
fn running_head(spec: &ClusterSpec, project: &str, mut heads: Machines) -> Result<Found, Problem> {
    let elsewhere = heads.found.first().map(|head| head.zone.clone());
    if let Some(zone) = &spec.zone {
        heads.keep_within(zone);
    }
    if let Some(several) = several_heads(&spec.name, project, &heads.running_heads(), Timestamp::now()) {
        return Err(several);
    }
    let Some(head) = heads.running().first().copied() else {
        return Err(none_running(spec, project, &heads, elsewhere.as_deref()));
    };
    address(head, spec.google.internal_ips)
        .and_then(|address| HostName::parse(&address).ok())
        .map(Found::from)
        .ok_or_else(|| {
            let what = format!("the head {} has no external address", head.name);
            let hint = "set `provider.use_internal_ips` in its file, or give the machine an external address";
            Problem::new(ProblemKind::Address, what, hint, Timestamp::now())
        })
}

/// Explains why no head is running in the zone of the cluster. `elsewhere` is the zone of the newest machine in any
/// zone.
fn none_running(spec: &ClusterSpec, project: &str, heads: &Machines, elsewhere: Option<&str>) -> Problem {
    if !heads.unreachable.is_empty() {
        let zones: Vec<_> = heads.unreachable.iter().map(ToString::to_string).collect();
        let what = format!("no head found; Google could not list {}", zones.join(", "));
        let hint = "wait; see status.cloud.google.com for known outages";
        return Problem::new(ProblemKind::Address, what, hint, Timestamp::now());
    }
    let what = if let Some(head) = heads.found.first() {
        format!("the head {} in {} is {}", head.name, head.zone, head.status.to_lowercase())
    } else {
        let zone = spec.zone.as_deref().filter(|_| elsewhere.is_some());
        let location = zone.map_or_else(|| project.to_owned(), |zone| format!("{zone} of {project}"));
        let other = elsewhere.map_or_else(String::new, |zone| format!(", but one in {zone} is"));
        format!("no machine in {location} is labeled as the head of {}{other}", spec.name.as_str())
    };
    let hint = Hint::from(Verb::Start.to("start the cluster"))
        .and("or check `provider.project_id` and `provider.availability_zone` in its file");
    Problem::new(ProblemKind::Address, what, hint, Timestamp::now())
}

/// The address to connect to: the internal one if the cluster file sets `use_internal_ips`.
fn address(head: &Head, internal: bool) -> Option<String> {
    if internal { head.internal.clone() } else { head.external.clone() }
}

/// Asks Ray. The reason why Google could not be queried is reported in any case; a missing login at once.
async fn instead_of_google(
    spec: &ClusterSpec,
    options: &Options,
    why: &GcpError,
    out: Option<&UpdateSender>,
) -> Result<Found, Problem> {
    if let Some(out) = out.filter(|_| why.is_login()) {
        let now = Timestamp::now();
        let hint = why.hint().and("trying `ray get-head-ip`");
        let problem = Problem::new(ProblemKind::Address, why.to_string(), hint, now);
        out.send(ClusterEvent::Link(Link::Retrying { problem, at: now })).await;
    }
    match ask_ray(spec, options).await {
        Ok(host) => {
            let note = format!("{why}: using the address from `ray get-head-ip`; {}", why.hint());
            tracing::warn!(cluster = %spec.name, "{note}");
            Ok(Found { host, note: Some(note) })
        }
        Err(ray) => {
            let (what, hint) = (format!("{why}; and {}", ray.what), why.hint().and(ray.hint));
            let kind = if why.is_login() { ProblemKind::Login } else { ProblemKind::Address };
            Err(Problem::new(kind, what, hint, ray.since))
        }
    }
}

/// Runs `ray get-head-ip FILE`, which supports every provider. The last line of its output is the address.
async fn ask_ray(spec: &ClusterSpec, options: &Options) -> Result<HostName, Problem> {
    let words = options.ray.join(" ");
    let failed = |what: String| {
        let hint = format!(
            "set `clusters.{}.address` in the settings to the head's address or an ssh alias, or check `{words} get-head-ip`",
            spec.name
        );
        Problem::new(ProblemKind::Address, what, hint, Timestamp::now())
    };
    let file = config::file_of(spec)
        .map_err(|e| Problem::new(ProblemKind::Config, e.what(), &e.hint, Timestamp::now()))?;
    let Some((program, arguments)) = options.ray.split_first() else {
        return Err(failed("no ray command found to look up the head's address".into()));
    };
    let mut command = Command::new(program);
    command.args(arguments).arg("get-head-ip").arg(file).kill_on_drop(true).stdin(Stdio::null());
    clean_environment(command.as_std_mut());
    let output = match tokio::time::timeout(RAY_TIMEOUT, command.output()).await {
        Err(_) => {
            return Err(failed(format!("`{words} get-head-ip` timed out after {} s", RAY_TIMEOUT.as_secs())));
        }
        Ok(Err(e)) => return Err(failed(format!("cannot start `{program}`: {e}"))),
        Ok(Ok(output)) => output,
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    match stdout.lines().rev().map(str::trim).find(|l| !l.is_empty()) {
        Some(address) if output.status.success() => HostName::parse(address)
            .map_err(|e| failed(format!("`{words} get-head-ip` printed no address: {e}"))),
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
