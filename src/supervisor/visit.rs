//! Logins to any machine of a cluster: finds the machine, determines whether it can be reached directly or only through
//! the head, and builds the command that logs in.

use super::discover::{head_address, host_name};
use super::login::tunnel_spec;
use super::{Options, ask_cloud};
use crate::model::cloud::{CloudView, TpuHost, TpuVm};
use crate::model::{
    ClusterSpec, HeadAddress, Hint, HostName, Problem, ProblemKind, Provider, Timestamp, Verb,
};
use crate::ssh::{Purpose, TunnelSpec, Visit, clean_environment};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

fn problem(what: String, hint: impl Into<Hint>) -> Problem {
    Problem::new(ProblemKind::Address, what, hint, Timestamp::now())
}

/// The host that the operator names: an address, a TPU VM's name (`NAME/2` for its third host), or (not with provider
/// gcp) any host name. If Google does not answer, an address is used as given and `note` receives the cause.
pub async fn find_host(
    spec: &ClusterSpec,
    options: &Options,
    target: &str,
    note: impl FnOnce(&Problem),
) -> Result<TpuHost, Problem> {
    let is_address = target.parse::<IpAddr>().is_ok();
    // `NAME/2` is a TPU VM's third host.
    let name = if spec.provider == Provider::Gcp {
        target.rsplit_once('/').map_or(target, |(name, _)| name)
    } else {
        target
    };
    HostName::parse(name).map_err(|e| problem(e.to_string(), "use an address or a TPU VM name"))?;
    if spec.provider != Provider::Gcp {
        return Ok(TpuHost::at(target));
    }
    match ask_cloud(spec, &options.google).await {
        Ok(view) if is_address => {
            let found = view.at(target).into_iter().next().map(|(_, host)| host);
            Ok(found.unwrap_or_else(|| TpuHost::at(target)))
        }
        Ok(view) => by_name(&view, spec.name.as_str(), target),
        // The head may be able to resolve it without Google.
        Err(e) if is_address => {
            note(&e);
            Ok(TpuHost::at(target))
        }
        Err(e) => Err(e),
    }
}

/// The TPU VM with this name, or else the only one of this cluster whose name contains it.
fn by_name(view: &CloudView, cluster: &str, target: &str) -> Result<TpuHost, Problem> {
    let (name, worker) = match target.rsplit_once('/') {
        Some((name, number)) => {
            let number = number.parse().map_err(|_| {
                problem(format!("`{number}` is not a host number"), "use NAME/0 for the first host")
            })?;
            (name, number)
        }
        None => (target, 0),
    };
    let ours = || view.vms.iter().filter(|vm| vm.ray_cluster.as_ref().is_some_and(|c| c.raw() == cluster));
    let exact = view.vms.iter().find(|vm| vm.name.raw() == name);
    let alike: Vec<&TpuVm> = ours().filter(|vm| vm.name.raw().contains(name)).collect();
    let vm = match (exact, alike.as_slice()) {
        (Some(vm), _) | (None, &[vm]) => vm,
        (None, []) => {
            let hint = Hint::from(Verb::Tpus.to("list them")).and("omit the name for the head");
            return Err(problem(format!("{cluster} has no TPU VM named {name}"), hint));
        }
        (None, several) => {
            let names: Vec<_> = several.iter().map(|vm| vm.name.to_string()).collect();
            return Err(problem(format!("multiple TPU VMs match: {}", names.join(", ")), "use a full name"));
        }
    };
    let host = vm.logins().nth(worker).filter(|h| !h.internal.is_empty() || h.external.is_some());
    host.ok_or_else(|| match vm.hosts.len() {
        0 => problem(
            format!("{} is {} and has no address", vm.name, vm.state_label()),
            "choose another, or wait",
        ),
        n => problem(
            format!("{} has no host {worker} with an address", vm.name),
            format!("use 0 to {}", n - 1),
        ),
    })
}

/// The command that logs in to a host of the cluster (`None`: its head) in the foreground terminal, or runs a command
/// line there, with `terminal` in a terminal. `through` is how to log in through the head if that is already known;
/// otherwise it is determined when needed.
pub async fn visit(
    spec: &ClusterSpec,
    options: &Options,
    host: Option<&TpuHost>,
    through: Option<TunnelSpec>,
    command: Option<String>,
    terminal: bool,
) -> Result<Command, Problem> {
    let purpose = match command {
        Some(line) => Purpose::Command { line, terminal },
        None => Purpose::Shell,
    };
    login_command(spec, options, host, through, purpose).await
}

/// The command whose standard input and output are a connection to a port of a host, as programs on that host reach it.
/// `through` is how to log in through the head, if that is already known.
pub async fn dial(
    spec: &ClusterSpec,
    options: &Options,
    host: &TpuHost,
    through: Option<TunnelSpec>,
    port: u16,
) -> Result<Command, Problem> {
    login_command(spec, options, Some(host), through, Purpose::Port(port)).await
}

/// The command that runs a command line on a host for a program that reads its output; like [`dial`], it never prompts.
pub async fn batch(
    spec: &ClusterSpec,
    options: &Options,
    host: &TpuHost,
    through: Option<TunnelSpec>,
    line: String,
) -> Result<Command, Problem> {
    login_command(spec, options, Some(host), through, Purpose::Batch { line }).await
}

async fn login_command(
    spec: &ClusterSpec,
    options: &Options,
    host: Option<&TpuHost>,
    through: Option<TunnelSpec>,
    purpose: Purpose,
) -> Result<Command, Problem> {
    let head = async || match through {
        Some(head) => Ok(head),
        None => match &spec.head {
            HeadAddress::Direct { .. } => {
                let hint = "use a cluster with a file or settings, without --address";
                Err(problem("SSH is not available: the dashboard is reached directly".into(), hint))
            }
            _ => Ok(tunnel_spec(spec, options, head_address(spec, options, None).await?.host, Vec::new())),
        },
    };
    let visit = match host {
        None => Visit { to: head().await?, through: None, known_hosts_name: None, purpose },
        Some(host) => {
            let (address, needs_head) = route(spec, host);
            let mut to = tunnel_spec(spec, options, host_name(&address)?, Vec::new());
            let through = if needs_head { Some(head().await?) } else { None };
            if through.is_some() {
                // The proxy command leads to the head, not to this host.
                to.auth.proxy_command = None;
            }
            Visit { to, through, known_hosts_name: known_hosts_name(spec, host), purpose }
        }
    };
    visit.command().await.map_err(|e| e.problem(Timestamp::now()))
}

/// The command that writes the contents of a directory to its standard output, for `tar -x` on a machine.
pub fn pack(folder: &Path) -> Command {
    let mut tar = Command::new("tar");
    clean_environment(&mut tar);
    // Leave out the files that macOS would add.
    tar.env("COPYFILE_DISABLE", "1").arg("-C").arg(folder).args(["-cf", "-", "."]);
    tar
}

/// Whether the host can be reached only through the head.
pub fn needs_head(spec: &ClusterSpec, host: &TpuHost) -> bool {
    route(spec, host).1
}

/// The address to connect to, and whether it can be reached only through the head.
fn route(spec: &ClusterSpec, host: &TpuHost) -> (String, bool) {
    let internal = host.internal.raw().to_owned();
    match &host.external {
        // This machine is in the network of the cluster, whose head is also reached by its internal address.
        _ if spec.google.internal_ips && !internal.is_empty() => (internal, false),
        Some(external) => (external.raw().to_owned(), false),
        None => {
            let is_inside = spec.provider == Provider::Gcp && internal.parse().is_ok_and(is_private);
            (internal, is_inside)
        }
    }
}

/// Whether an address is private (RFC 1918, RFC 6598, RFC 4193).
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private() || (v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

/// The name of the host's key in `known_hosts`: that of the TPU VM, or its hostname. Google reuses addresses for later
/// machines; machines of a local cluster keep theirs.
fn known_hosts_name(spec: &ClusterSpec, host: &TpuHost) -> Option<String> {
    let is_word = |w: &str| {
        !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    let (vm, hostname, cluster) = (host.vm.raw(), host.hostname.raw(), spec.name.as_str());
    match () {
        () if !is_word(cluster) => None,
        () if is_word(vm) => Some(format!("{vm}.{}.{cluster}", host.worker)),
        () if spec.provider == Provider::Gcp && is_word(hostname) => Some(format!("{hostname}.{cluster}")),
        () => None,
    }
}
