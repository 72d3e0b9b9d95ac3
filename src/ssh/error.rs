//! Errors of a connection, each with a hint, and how they are read from `ssh`'s standard error (OpenSSH 8 to 10,
//! English messages).

use super::TunnelSpec;
use crate::model::{Fix, Hint, Problem, ProblemKind, Timestamp, Verb};
use std::path::PathBuf;

/// Why a connection failed, was lost, or could not run a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SshError {
    /// DNS failure, no route, connection refused, timeout, or a server that does not speak ssh.
    #[error("cannot reach {host}: {why}")]
    Unreachable {
        host: String,
        /// The cause in the words of ssh or its proxy command.
        why: String,
    },
    /// The host refused the login.
    #[error("{host} refused {}", refused_with(user, key.as_ref()))]
    KeyRefused {
        host: String,
        /// The user that tried to log in.
        user: String,
        /// The key from the cluster file; none when ssh chose one on its own.
        key: Option<PathBuf>,
    },
    /// The private key cannot be used. ssh is not started: it would silently try other keys.
    #[error("private key {} {fault}", path.display())]
    KeyFile {
        path: PathBuf,
        /// What is wrong with it.
        fault: KeyFault,
    },
    /// The host key differs from the one in `known_hosts`.
    #[error("the host key of {host} has changed")]
    HostKeyChanged {
        host: String,
        /// The file with the known key when it is not our own: accepting the new key does not help then.
        elsewhere: Option<PathBuf>,
        /// Fingerprints in `known_hosts`, `SHA256:...`; empty when they could not be read.
        known: String,
        /// Fingerprint offered now; empty when it could not be read.
        offered: String,
    },
    /// Another program bound a forward's local port after it was chosen.
    #[error("port {port} on 127.0.0.1 is already in use")]
    PortInUse { port: u16 },
    /// The connection was established and ended.
    #[error("connection to {host} lost: {why}")]
    Lost { host: String, why: String },
    /// The ssh program does not exist or cannot be executed.
    #[error("cannot run ssh program {}", program.display())]
    SshMissing {
        /// The configured ssh program.
        program: PathBuf,
    },
    /// Too many commands over one connection at the same time (`MaxSessions` of sshd, 10 by default).
    #[error("too many sessions over the connection to {host} (sshd's MaxSessions)")]
    SessionsExhausted { host: String },
    /// A remote command ended with an error.
    #[error("command on {host} failed with exit code {status}: {stderr}")]
    Command {
        host: String,
        /// Its exit code; 128 plus the signal number when a signal ended it.
        status: i32,
        /// The beginning of its standard error.
        stderr: String,
    },
    /// A remote command exceeded its time limit and was killed.
    #[error("command on {host} timed out after {seconds} s")]
    TooSlow { host: String, seconds: u64 },
    /// A failure on this machine.
    #[error("{what}")]
    Local { what: String, hint: Hint },
    /// Anything else, in ssh's words.
    #[error("ssh to {host} failed: {why}")]
    Other {
        host: String,
        /// The last line that ssh wrote.
        why: String,
    },
}

/// What is wrong with a private key file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// It does not exist.
    #[error("does not exist")]
    Missing,
    /// It is a directory, or this user may not read it.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Other users may read it, so ssh ignores it.
    #[error("has permissions {0:04o}, which are too open: ssh ignores it")]
    TooOpen(u32),
    /// It is encrypted, and the console must not ask for a passphrase.
    #[error("has a passphrase and is not loaded in ssh-agent")]
    Locked,
    /// ssh cannot load it.
    #[error("cannot be used: {0}")]
    Unusable(String),
}

fn ssh_messages(host: &str) -> Fix {
    Fix::command("see ssh's own messages", format!("ssh {host}"))
}

fn refused_with(user: &str, key: Option<&PathBuf>) -> String {
    match key {
        Some(key) => format!("login as {user} with key {}", key.display()),
        None => format!("login as {user} with every key that ssh tried"),
    }
}

impl SshError {
    /// The problem to show, with its hint.
    pub fn problem(&self, since: Timestamp) -> Problem {
        Problem::new(self.kind(), self.to_string(), self.hint(), since)
    }

    fn kind(&self) -> ProblemKind {
        match self {
            Self::Unreachable { .. } => ProblemKind::Unreachable,
            Self::KeyRefused { .. } | Self::KeyFile { .. } => ProblemKind::KeyRefused,
            Self::HostKeyChanged { known, offered, elsewhere: None, .. } => {
                ProblemKind::HostKeyChanged { known: known.clone(), offered: offered.clone() }
            }
            Self::PortInUse { .. } => ProblemKind::PortInUse,
            Self::Lost { .. } => ProblemKind::TunnelLost,
            _ => ProblemKind::Other,
        }
    }

    fn hint(&self) -> Hint {
        match self {
            Self::Unreachable { host, .. } => {
                Hint::from("check the machine, the network and any VPN").and(ssh_messages(host))
            }
            Self::KeyRefused { user, key: Some(key), .. } => format!(
                "check auth.ssh_user and auth.ssh_private_key in the cluster file; {}.pub must be in \
                 ~{user}/.ssh/authorized_keys on the head",
                key.display()
            )
            .into(),
            Self::KeyRefused { .. } => {
                Hint::from("set auth.ssh_private_key in the cluster file").and(Fix::command("or load a key", "ssh-add"))
            }
            Self::KeyFile { path, fault } => fault.hint(&path.display().to_string()),
            Self::HostKeyChanged { elsewhere: Some(file), offered, .. } => {
                format!("if {offered} is the right key, update it in {}", file.display()).into()
            }
            Self::HostKeyChanged { host, offered, .. } => Hint::from(format!(
                "unless {host} was recreated, this may be a man-in-the-middle attack"
            ))
            .and(Verb::HostKey.on(offered, "compare the fingerprints, and accept the new key only if it is the right one")),
            Self::PortInUse { .. } => "the console uses the next free port".into(),
            Self::SshMissing { .. } => {
                "install the OpenSSH client (Debian: apt install openssh-client), or set `ssh` in the settings".into()
            }
            Self::SessionsExhausted { .. } => "close a log that is followed over SSH, then retry".into(),
            Self::TooSlow { .. } => "retry; the head may be overloaded".into(),
            Self::Local { hint, .. } => hint.clone(),
            Self::Other { host, .. } => ssh_messages(host).into(),
            Self::Lost { .. } | Self::Command { .. } => Hint::none(),
        }
    }

    /// The error of a failed login, from ssh's standard error and exit code. After a failed host key check the
    /// fingerprints are still empty: `hostkey::changed` reads them.
    pub(super) fn connecting(spec: &TunnelSpec, user: &str, lines: &[String], code: i32) -> Self {
        let host = spec.host.to_string();
        let has = |what: &str| lines.iter().any(|l| l.contains(what));
        if matches!(code, 126 | 127) {
            return Self::SshMissing { program: spec.ssh.clone() };
        }
        if let Some(fault) = lines.iter().find_map(|l| unloadable_key(l))
            && let Some(path) = spec.auth.private_key.clone()
            && has("Permission denied")
        {
            return Self::KeyFile { path, fault };
        }
        if has(": Permission denied (") || has("Too many authentication failures") {
            return Self::KeyRefused { host, user: user.to_owned(), key: spec.auth.private_key.clone() };
        }
        if has("Host key verification failed") && !has("REVOKED HOST KEY") {
            let file = lines.iter().find_map(|l| offending_file(l));
            let elsewhere = file.filter(|f| *f != spec.known_hosts);
            return Self::HostKeyChanged { host, elsewhere, known: String::new(), offered: String::new() };
        }
        if let Some(why) = lines.iter().rev().find_map(|l| unreachable(l, &host, lines)) {
            return Self::Unreachable { host, why };
        }
        Self::Other { host, why: last_message(lines, code) }
    }

    /// Why a working connection ended.
    pub(super) fn lost(host: &str, lines: &[String], code: i32) -> Self {
        let has = |what: &str| lines.iter().any(|l| l.contains(what));
        let why = if has("not responding") {
            "the host does not respond (keepalive timeout)".into()
        } else if has("closed by remote host") {
            "connection closed by the host".into()
        } else {
            last_message(lines, code)
        };
        Self::Lost { host: host.into(), why }
    }
}

impl KeyFault {
    fn hint(&self, path: &str) -> Hint {
        match self {
            Self::Missing => "correct auth.ssh_private_key in the cluster file".into(),
            Self::Unreadable(_) => Fix::command("check its owner and mode", format!("ls -l {path}")).into(),
            Self::TooOpen(_) => Fix::command("", format!("chmod 600 {path}")).into(),
            Self::Locked => Fix::command("", format!("ssh-add {path}")).into(),
            Self::Unusable(_) => {
                Fix::command("check that it is a private key", format!("ssh-keygen -y -f {path}")).into()
            }
        }
    }
}

/// `Load key "FILE": reason`.
fn unloadable_key(line: &str) -> Option<KeyFault> {
    let (_, reason) = line.strip_prefix("Load key \"")?.split_once("\": ")?;
    Some(KeyFault::Unusable(reason.to_owned()))
}

/// `Offending ED25519 key in FILE:LINE`.
fn offending_file(line: &str) -> Option<PathBuf> {
    let (_, location) = line.strip_prefix("Offending ")?.split_once(" key in ")?;
    Some(location.rsplit_once(':')?.0.into())
}

/// The cause, if this line reports that no ssh server could be reached.
fn unreachable(line: &str, host: &str, all: &[String]) -> Option<String> {
    if let Some(rest) = line.strip_prefix("ssh: connect to host ") {
        return Some(rest.rsplit_once(": ").map_or(rest, |(_, why)| why).to_lowercase());
    }
    if let Some(rest) = line.strip_prefix("ssh: Could not resolve hostname ") {
        return Some(format!(
            "cannot resolve host name ({})",
            rest.trim_start_matches(host).trim_matches([':', ' '])
        ));
    }
    if line.contains("timed out") {
        return Some("connection timed out".into());
    }
    let no_server =
        ["kex_exchange_identification", "banner exchange", "Connection closed by ", "Connection reset by "];
    if !no_server.iter().any(|w| line.starts_with(w)) {
        return None;
    }
    // A failed proxy command reported the cause before ssh did.
    let proxy =
        all.iter().find(|l| !no_server.iter().any(|w| l.starts_with(w)) && !l.starts_with("Warning: "));
    Some(proxy.cloned().unwrap_or_else(|| "not an ssh server, or the server closed the connection".into()))
}

/// The last line with a message, or the exit code.
fn last_message(lines: &[String], code: i32) -> String {
    let line = lines.iter().rev().find(|l| !l.is_empty() && !l.starts_with("Warning: Permanently added"));
    line.cloned().unwrap_or_else(|| format!("ssh exited with code {code} and no message"))
}

/// `channel_setup_fwd_listener_tcpip: cannot listen to port: 8265`.
pub(super) fn port_in_use(lines: &[String]) -> Option<u16> {
    lines.iter().rev().find_map(|l| l.rsplit_once("cannot listen to port: ")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterName, HostName, SshAuth};

    fn spec() -> TunnelSpec {
        TunnelSpec {
            name: ClusterName::new("tb"),
            host: HostName::parse("10.77.0.1").unwrap(),
            auth: SshAuth { private_key: Some("/k".into()), ..SshAuth::default() },
            forwards: Vec::new(),
            known_hosts: "/kh".into(),
            run_dir: "/run/x".into(),
            ssh: "ssh".into(),
            ssh_config: None,
            connect_timeout: std::time::Duration::from_secs(5),
            keep_alive: super::super::KeepAlive::default(),
        }
    }

    /// Parses standard error that was recorded from OpenSSH 9.2.
    fn read(stderr: &str, code: i32) -> SshError {
        let lines: Vec<String> = stderr.lines().map(str::to_owned).collect();
        SshError::connecting(&spec(), "ray", &lines, code)
    }

    #[test]
    fn an_unreachable_host_is_reported_with_the_cause() {
        let why = |stderr| match read(stderr, 255) {
            SshError::Unreachable { why, .. } => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why("ssh: connect to host 10.77.0.1 port 2299: Connection refused"), "connection refused");
        assert_eq!(why("ssh: connect to host 10.77.0.199 port 22: No route to host"), "no route to host");
        assert_eq!(
            why("ssh: Could not resolve hostname 10.77.0.1: Temporary failure in name resolution"),
            "cannot resolve host name (Temporary failure in name resolution)"
        );
        assert_eq!(
            why(
                "kex_exchange_identification: Connection closed by remote host\nConnection closed by 10.77.0.1 port 8265"
            ),
            "not an ssh server, or the server closed the connection"
        );
        assert_eq!(
            why(
                "ERROR: (gcloud) login expired\nkex_exchange_identification: Connection closed by remote host"
            ),
            "ERROR: (gcloud) login expired"
        );
        assert_eq!(
            why("Connection timed out during banner exchange\nConnection to 127.0.0.1 port 2222 timed out"),
            "connection timed out"
        );
    }

    #[test]
    fn refused_keys_and_broken_keys_differ() {
        assert!(matches!(
            read("ray@10.77.0.1: Permission denied (publickey).", 255),
            SshError::KeyRefused { user, key: Some(_), .. } if user == "ray"
        ));
        assert!(matches!(
            read("Load key \"/k\": error in libcrypto\nray@10.77.0.1: Permission denied (publickey).", 255),
            SshError::KeyFile { fault: KeyFault::Unusable(why), .. } if why == "error in libcrypto"
        ));
    }

    #[test]
    fn a_changed_key_names_the_file_with_the_known_key() {
        let text = "Offending ED25519 key in /etc/ssh/ssh_known_hosts:1\nHost key verification failed.";
        assert!(matches!(
            read(text, 255),
            SshError::HostKeyChanged { elsewhere: Some(file), .. } if file.ends_with("ssh/ssh_known_hosts")
        ));
    }

    #[test]
    fn every_connection_problem_has_a_hint() {
        for (stderr, code) in [
            ("ssh: connect to host x port 22: Connection refused", 255),
            ("ray@x: Permission denied (publickey).", 255),
            ("Host key verification failed.", 255),
            ("Bad configuration option: nonsense", 255),
            ("", 127),
        ] {
            let problem = read(stderr, code).problem(Timestamp::default());
            assert!(!problem.what.is_empty() && !problem.hint.is_empty(), "{problem:?}");
        }
    }

    #[test]
    fn the_port_in_use_is_read() {
        let lines = [
            "bind [127.0.0.1]:18270: Address already in use",
            "channel_setup_fwd_listener_tcpip: cannot listen to port: 18270",
        ];
        assert_eq!(port_in_use(&lines.map(str::to_owned)), Some(18270));
        assert_eq!(port_in_use(&[]), None);
    }
}
