//! A login in the foreground on any machine of a cluster, or a connection to one of its ports, directly or through its
//! head.

use super::error::SshError;
use super::login::{self, Login};
use super::remote::quote;
use super::{TunnelSpec, files, guard, hostkey};
use std::ffi::{OsStr, OsString};
use std::process::Command;

/// The target, the route and the command of a login.
#[derive(Clone, Debug)]
pub struct Visit {
    pub to: TunnelSpec,
    /// The head used as jump host; none when the machine can be reached directly.
    pub through: Option<TunnelSpec>,
    /// The name of the machine's key in `known_hosts`. Internal addresses are reused by later machines, so a key
    /// stored under an address would appear to have changed.
    pub known_hosts_name: Option<String>,
    pub purpose: Purpose,
}

/// What to run on the machine.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// Its shell, in a terminal.
    Shell,
    /// A command line for its shell, with or without a terminal.
    Command { line: String, terminal: bool },
    /// A command line for its shell whose output a program reads. Never prompts.
    Batch { line: String },
    /// Standard input and output are connected to this port of the machine. Never prompts.
    Port(u16),
}

impl Purpose {
    /// Arguments of `ssh` for this purpose, up to the host.
    fn options(&self) -> Vec<OsString> {
        match self {
            Self::Shell | Self::Command { terminal: true, .. } => vec!["-t".into()],
            Self::Command { terminal: false, .. } => vec!["-T".into()],
            Self::Batch { .. } => {
                let options = ["BatchMode=yes", "RemoteCommand=none"];
                let options = options.into_iter().flat_map(|option| ["-o".into(), option.into()]);
                options.chain(["-T".into()]).collect()
            }
            Self::Port(port) => {
                // The messages that explain a failure have the level INFO.
                let options = ["BatchMode=yes", "LogLevel=INFO", "RemoteCommand=none", "RequestTTY=no"];
                let options = options.into_iter().flat_map(|option| ["-o".into(), option.into()]);
                options.chain(["-W".into(), format!("localhost:{port}").into()]).collect()
            }
        }
    }
}

impl Visit {
    /// The `ssh` command, to be run in the foreground of a terminal. Reads the ssh configuration and our `known_hosts`
    /// file, but does not connect.
    pub async fn command(&self) -> Result<Command, SshError> {
        let mut args = known(&self.to, self.known_hosts_name.as_deref()).await?;
        if let Some(head) = &self.through {
            // This replaces the proxy command of the cluster file, which connects to the head; it contains the head's
            // own proxy command.
            args.extend(["-o".into(), proxy(head, &known(head, None).await?)]);
        }
        args.extend(self.purpose.options());
        args.extend(["--".into(), self.to.host.as_str().into()]);
        if let Purpose::Command { line, .. } | Purpose::Batch { line } = &self.purpose {
            args.push(line.into());
        }
        let mut command = Command::new(&self.to.ssh);
        command.args(args);
        guard::clean_environment(&mut command);
        Ok(command)
    }
}

/// Arguments up to the host. A known host key must match; the key of an unknown host is accepted.
async fn known(spec: &TunnelSpec, known_hosts_name: Option<&str>) -> Result<Vec<OsString>, SshError> {
    files::prepare(spec)?;
    let mut login = Login::resolve(spec).await?;
    if let Some(name) = known_hosts_name {
        name.clone_into(&mut login.known_hosts_name);
    }
    let checking = if hostkey::is_known(spec, &login).await? { "yes" } else { "accept-new" };
    let mut args = login::foreground(spec, checking);
    args.extend(known_hosts_name.into_iter().flat_map(|n| ["-o".into(), format!("HostKeyAlias={n}").into()]));
    Ok(args)
}

/// `ProxyCommand=ssh ... -W [%h]:%p -- HEAD`. ssh expands percent signs before a shell reads the line.
fn proxy(head: &TunnelSpec, args: &[OsString]) -> OsString {
    let word = |word: &OsStr| quote(&word.to_string_lossy()).replace('%', "%%");
    let words: Vec<String> =
        [head.ssh.clone().into_os_string()].iter().chain(args).map(|a| word(a.as_os_str())).collect();
    let host = word(OsStr::new(head.host.as_str()));
    let line = format!("ProxyCommand={} -W '[%h]:%p' -- {host}", words.join(" "));
    line.into()
}
