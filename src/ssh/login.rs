//! Arguments of `ssh`: the options of the control master and of its clients, and how the user's own configuration
//! resolves the host name.

use super::TunnelSpec;
use super::error::SshError;
use super::guard::{self, clean_environment};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// The word that the master prints on its standard output when the login is complete.
pub(super) const READY: &str = "marin-tui-ready";

/// Timeout of the small local programs (`ssh -G`, `ssh-keygen`).
const LOCAL_LIMIT: Duration = Duration::from_secs(10);

/// A spec as the user's ssh configuration resolves it (`ssh -G`).
#[derive(Clone, Debug)]
pub(super) struct Login {
    /// The user that logs in.
    pub user: String,
    /// The name of the host's key in `known_hosts`: `HostKeyAlias`, `host` or `[host]:port`.
    pub known_hosts_name: String,
}

impl Login {
    /// Runs `ssh -G`, which makes no connection.
    pub(super) async fn resolve(spec: &TunnelSpec) -> Result<Self, SshError> {
        let mut args = vec!["-G".into()];
        args.extend(target(spec));
        args.extend(["--".into(), spec.host.as_str().into()]);
        let output = local(&spec.ssh, &args).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let field = |name: &str| {
            text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')).unwrap_or_default().to_owned()
        };
        let host = field("hostname");
        if !output.status.success() || host.is_empty() {
            let lines: Vec<String> =
                String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
            return Err(SshError::connecting(spec, "", &lines, guard::code(output.status)));
        }
        let known_hosts_name = match (field("hostkeyalias"), field("port").as_str()) {
            (alias, _) if !alias.is_empty() => alias,
            (_, "22") => host,
            (_, port) => format!("[{host}]:{port}"),
        };
        Ok(Self { user: field("user"), known_hosts_name })
    }
}

/// Arguments that choose the configuration, the host's port, the user, the key and the proxy.
fn target(spec: &TunnelSpec) -> Vec<OsString> {
    let mut args: Vec<OsString> = Vec::new();
    if let Some(file) = &spec.ssh_config {
        args.extend(["-F".into(), file.into()]);
    }
    if let Some(user) = &spec.auth.user {
        args.extend(["-l".into(), user.into()]);
    }
    if let Some(port) = spec.auth.port {
        args.extend(["-p".into(), port.to_string().into()]);
    }
    if let Some(key) = &spec.auth.private_key {
        args.extend([
            "-o".into(),
            path_option("IdentityFile", key),
            "-o".into(),
            "IdentitiesOnly=yes".into(),
        ]);
    }
    if let Some(proxy) = &spec.auth.proxy_command {
        args.extend(["-o".into(), format!("ProxyCommand={proxy}").into()]);
    }
    args
}

/// Arguments of `ssh` for each of our connections, up to but without the host. They override the user's
/// configuration.
///
/// The global `known_hosts` stays in use: it may hold a site's certificate authority and revoked keys, and whoever
/// can write it owns this machine anyway. A host in our own file is checked strictly: accept-new would accept a
/// known host that offers a key of another type.
fn connect(spec: &TunnelSpec, known_hosts: &Path, checking: &str) -> Vec<OsString> {
    let mut args = vec![spec.ssh.clone().into()];
    args.extend(target(spec));
    let timeout = spec.connect_timeout.as_secs().max(1).to_string();
    let every = spec.keep_alive.every.as_secs().max(1).to_string();
    let misses = spec.keep_alive.misses.to_string();
    let options = [
        ("BatchMode", "yes"),
        ("StrictHostKeyChecking", checking),
        ("UpdateHostKeys", "no"),
        ("HashKnownHosts", "no"),
        ("CheckHostIP", "no"),
        ("VisualHostKey", "no"),
        ("ConnectTimeout", &timeout),
        ("ConnectionAttempts", "1"),
        ("ServerAliveInterval", &every),
        ("ServerAliveCountMax", &misses),
        // The messages that explain a failure have this level.
        ("LogLevel", "INFO"),
        ("RequestTTY", "no"),
        ("RemoteCommand", "none"),
        ("ForwardAgent", "no"),
        ("ForwardX11", "no"),
        ("Tunnel", "no"),
        ("ControlPersist", "no"),
        ("StreamLocalBindUnlink", "yes"),
        // The user's own LocalForward of 8265 would collide with ours; ours are added when the login is complete.
        ("ClearAllForwardings", "yes"),
    ];
    args.extend(
        options.into_iter().flat_map(|(name, value)| ["-o".into(), format!("{name}={value}").into()]),
    );
    args.extend(["-o".into(), path_option("UserKnownHostsFile", known_hosts)]);
    args
}

/// The control master: logs in, prints [`READY`], listens on its socket and waits.
pub(super) fn master(spec: &TunnelSpec, socket: &Path, checking: &str) -> Vec<OsString> {
    let mut args = connect(spec, &spec.known_hosts, checking);
    let ready = format!("LocalCommand=echo {READY}").into();
    args.extend(["-o".into(), "PermitLocalCommand=yes".into(), "-o".into(), ready]);
    args.extend(["-o".into(), "ControlMaster=yes".into(), "-o".into(), path_option("ControlPath", socket)]);
    args.extend(["-N".into(), "--".into(), spec.host.as_str().into()]);
    args
}

/// An interactive login, to be run in the foreground of a terminal.
///
/// It makes its own connection: the control master would have to read the terminal for the client, and cannot
/// because it is not in the terminal's foreground process group. The host key was checked when the master connected,
/// so no unknown key is accepted here; ssh may ask for a passphrase.
pub(super) fn interactive(spec: &TunnelSpec) -> Vec<OsString> {
    let mut args = foreground(spec, "yes");
    args.extend(["-t".into(), "--".into(), spec.host.as_str().into()]);
    args
}

/// Arguments of a login in the foreground, up to but without the host; `checking` is `StrictHostKeyChecking`.
pub(super) fn foreground(spec: &TunnelSpec, checking: &str) -> Vec<OsString> {
    let mut args = target(spec);
    args.extend(["-o".into(), format!("StrictHostKeyChecking={checking}").into()]);
    for option in ["ClearAllForwardings=yes", "ControlMaster=no", "ControlPath=none"] {
        args.extend(["-o".into(), option.into()]);
    }
    args.extend(["-o".into(), path_option("UserKnownHostsFile", &spec.known_hosts)]);
    args
}

/// A connection that reads the host's key, writes it to `known_hosts` and stops: `none` is the only authentication
/// method that it may try.
pub(super) fn key_probe(spec: &TunnelSpec, known_hosts: &Path) -> Vec<OsString> {
    let mut args = connect(spec, known_hosts, "accept-new");
    for option in
        ["GlobalKnownHostsFile=none", "PreferredAuthentications=none", "ControlMaster=no", "ControlPath=none"]
    {
        args.extend(["-o".into(), option.into()]);
    }
    args.extend(["-T", "--"].map(OsString::from));
    args.extend([spec.host.as_str().into(), "exit".into()]);
    args
}

/// A client of the master. It reads no configuration, and never connects on its own when the master is gone.
pub(super) fn client(ssh: &Path, socket: &Path) -> Vec<OsString> {
    let mut args = vec![ssh.into(), "-F".into(), "none".into()];
    args.extend(["-o".into(), path_option("ControlPath", socket), "-o".into(), "ControlMaster=no".into()]);
    args.extend(["-o".into(), "ProxyCommand=false".into()]);
    args
}

/// `NAME="PATH"`, with blanks and percent signs kept as they are (`ssh_config(5)`, TOKENS).
fn path_option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(format!("{name}=\""));
    match path.to_str() {
        Some(text) => option.push(text.replace('%', "%%")),
        None => option.push(path),
    }
    option.push("\"");
    option
}

/// Runs a small local program until it exits.
pub(super) async fn local(program: &Path, args: &[OsString]) -> Result<Output, SshError> {
    let failed = |why: &str| SshError::Local {
        what: format!("cannot run {}: {why}", program.display()),
        hint: "install the OpenSSH client (Debian: apt install openssh-client), or set `ssh` in the settings"
            .into(),
    };
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    clean_environment(command.as_std_mut());
    let run = async {
        let child = command.spawn().map_err(|e| match e.kind() {
            ErrorKind::NotFound => SshError::SshMissing { program: program.into() },
            _ => failed(&e.to_string()),
        })?;
        child.wait_with_output().await.map_err(|e| failed(&e.to_string()))
    };
    tokio::time::timeout(LOCAL_LIMIT, run).await.map_err(|_| failed("it timed out"))?
}

/// An interactive login on a head that a [`super::Tunnel`] has connected to, to be run in the foreground of a terminal.
pub fn login(spec: &TunnelSpec) -> std::process::Command {
    let mut command = std::process::Command::new(&spec.ssh);
    command.args(interactive(spec));
    clean_environment(&mut command);
    command
}
