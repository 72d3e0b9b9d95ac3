//! One OpenSSH connection to one head: forwards, remote commands and an interactive login, all over one control
//! master that is our child process.
//!
//! The system's `ssh` does the work, so that `~/.ssh/config`, agents, hardware keys and jump hosts keep working.
//! This module makes one attempt at a time and reports why it failed; the supervisor decides when to retry. It knows
//! nothing of Ray.

mod error;
mod files;
mod guard;
mod hostkey;
mod lines;
mod login;
mod machine;
mod ports;
mod program;
mod remote;
mod spec;
mod terminal;
mod tunnel;
mod visit;

pub use error::{KeyFault, SshError};
pub use files::clear_stale_sockets;
pub use guard::clean_environment;
pub use hostkey::trust;
pub use login::login;
pub use machine::{client_version, inspect_key};
pub use ports::{FreePort, PortPlan, PortsInUse};
pub use program::run as run_program;
pub use remote::{Output, Remote, RemoteStream, guarded, quote};
pub use spec::{Forward, KeepAlive, Local, TunnelSpec};
pub use terminal::Terminal;
pub use tunnel::{Refusals, Tunnel};
pub use visit::{Purpose, Visit};
