//! The settings of one connection.

use crate::model::{ClusterName, HostName, SshAuth};
use std::path::PathBuf;
use std::time::Duration;

/// A forward from this machine to a port of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The listening end on this machine.
    pub local: Local,
    /// Port on `localhost` as the head sees it.
    pub remote: u16,
}

/// The listening end of a forward on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// A Unix socket in the run directory, which only this user can enter; its path is [`super::Tunnel::socket`].
    Socket,
    /// A TCP port on 127.0.0.1 and, where this machine has it, on `[::1]`. Every user of this machine can connect to
    /// it.
    Port(u16),
}

/// When an unresponsive connection counts as lost (`ServerAliveInterval` and `ServerAliveCountMax`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Interval of keepalive messages on an idle connection; whole seconds, at least one.
    pub every: Duration,
    /// Unanswered keepalive messages after which the connection counts as lost.
    pub misses: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { every: Duration::from_secs(3), misses: 3 }
    }
}

/// The settings of one connection.
#[derive(Clone, Debug)]
pub struct TunnelSpec {
    /// The cluster's name, for the log file only.
    pub name: ClusterName,
    /// Host name, address or ssh alias of the head.
    pub host: HostName,
    /// How to log in. `private_key` with `~` expanded.
    pub auth: SshAuth,
    /// Forwards that exist once [`super::Tunnel::open`] returns.
    pub forwards: Vec<Forward>,
    /// Our own `known_hosts` file; created 0600 when missing.
    pub known_hosts: PathBuf,
    /// Directory of the control sockets and of the forwards' sockets; created 0700 when missing. Its path must be
    /// short: a Unix socket's path is limited to about 100 bytes.
    pub run_dir: PathBuf,
    /// The `ssh` program.
    pub ssh: PathBuf,
    /// An ssh configuration in place of the user's and the system's (`ssh -F`).
    pub ssh_config: Option<PathBuf>,
    /// Timeout of the TCP connection and of ssh's first exchange; whole seconds, at least one. The login as a whole
    /// may take three times as long: a hardware key waits for a touch.
    pub connect_timeout: Duration,
    /// Keepalive messages.
    pub keep_alive: KeepAlive,
}
