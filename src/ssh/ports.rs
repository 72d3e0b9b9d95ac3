//! Local ports for forwards: the first free port from a preferred number on, and the programs that use the others.

use crate::model::sort;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;

/// Number of ports tried, beginning with the preferred one.
const MAX_TRIED_PORTS: u16 = 200;

/// The ports given out so far. One for all clusters, so that two never get the same.
#[derive(Debug, Default)]
pub struct PortPlan {
    given: BTreeSet<u16>,
}

/// A free port, and the ports that were skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreePort {
    /// The free port.
    pub port: u16,
    /// Skipped ports that other programs use; ports given to other clusters are not among them.
    pub taken: Option<PortsInUse>,
}

/// Ports that other programs use. Displays as `8265 is in use by ssh (pid 4711)`, or, when more than one was skipped,
/// `8265 and 6 more are in use, the first by ssh (pid 4711)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortsInUse {
    /// The first of them.
    pub port: u16,
    /// The program that uses it, e.g. `ssh (pid 4711)`; known on Linux only, and only for the user's own processes.
    /// Finding it reads every process, so it is not done for the other ports: a second console may use dozens.
    pub holder: Option<String>,
    /// How many more.
    pub more: usize,
}

impl fmt::Display for PortsInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (port, holder) = (self.port, self.holder.as_deref().unwrap_or("another program"));
        match self.more {
            0 => write!(f, "{port} is in use by {holder}"),
            more => write!(f, "{port} and {more} more are in use, the first by {holder}"),
        }
    }
}

impl PortPlan {
    /// A plan with nothing given out.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives out the first free port from `first` on; none when 200 in a row are taken. Between this and ssh's own
    /// binding another program may take it: that is `SshError::PortInUse`, and the next call gives the next port.
    pub fn take(&mut self, first: u16) -> Option<FreePort> {
        let ours = &self.given;
        let mut ports = (first..=u16::MAX).take(usize::from(MAX_TRIED_PORTS)).filter(|p| !ours.contains(p));
        let mut taken = Vec::new();
        let port = ports.find(|port| {
            let free = is_free(*port);
            taken.extend((!free).then_some(*port));
            free
        })?;
        self.given.insert(port);
        let taken =
            taken.first().map(|&port| PortsInUse { port, holder: holder(port), more: taken.len() - 1 });
        Some(FreePort { port, taken })
    }

    /// Releases a port.
    pub fn release(&mut self, port: u16) {
        self.given.remove(&port);
    }
}

/// Whether the port is free. Browsers try `::1` first for `NAME.localhost`: a program that listens there would get
/// the requests, and the token, that are meant for the forward.
fn is_free(port: u16) -> bool {
    let bind = |address: SocketAddr| TcpListener::bind(address).map_err(|e| e.kind());
    let six = bind((Ipv6Addr::LOCALHOST, port).into());
    bind((Ipv4Addr::LOCALHOST, port).into()).is_ok() && !matches!(six, Err(ErrorKind::AddrInUse))
}

/// The listener's program, from Linux's `/proc` (`proc_net_tcp(5)`).
fn holder(port: u16) -> Option<String> {
    let inodes = ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listeners(&table, port))
        .map(|inode| format!("socket:[{inode}]"));
    let inodes: BTreeSet<String> = sort::collected(inodes);
    if inodes.is_empty() {
        return None;
    }
    let entries = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.find(|pid| holds(&Path::new("/proc").join(pid.to_string()), &inodes))?;
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("{} (pid {pid})", comm.trim_end()))
}

fn holds(process: &Path, sockets: &BTreeSet<String>) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    links.into_iter().any(|link| link.to_str().is_some_and(|l| sockets.contains(l)))
}

/// Inodes of the sockets that listen on a port (state 0A), on whichever address.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|f| f.len() > 9 && f[1].ends_with(&suffix) && f[3] == "0A").map(|f| f[9].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named_with_its_holder_and_the_next_one_given() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let first = listener.local_addr().unwrap().port();
        let mut plan = PortPlan::new();
        let pick = plan.take(first).unwrap();
        assert!(pick.port > first);
        let taken = pick.taken.clone().unwrap();
        assert_eq!(taken.port, first);
        if cfg!(target_os = "linux") {
            let us = format!("(pid {})", std::process::id());
            assert!(taken.holder.as_ref().unwrap().ends_with(&us), "{pick:?}");
        }
        let displayed =
            |more| PortsInUse { port: 8265, holder: Some("ssh (pid 4711)".into()), more }.to_string();
        assert_eq!(displayed(0), "8265 is in use by ssh (pid 4711)");
        assert_eq!(displayed(6), "8265 and 6 more are in use, the first by ssh (pid 4711)");
        drop(listener);
        assert_eq!(plan.take(first).unwrap(), FreePort { port: first, taken: None });
        assert_ne!(plan.take(first).unwrap().port, first, "given out already");
        plan.release(first);
        assert_eq!(plan.take(first).unwrap().port, first);
    }

    #[test]
    fn a_port_in_use_on_the_ipv6_loopback_address_is_not_free() {
        let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
            return; // This machine has no IPv6.
        };
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }

    #[test]
    fn the_highest_port_number_does_not_panic() {
        let pick = PortPlan::new().take(u16::MAX);
        assert!(pick.is_none_or(|p| p.port == u16::MAX));
    }

    #[test]
    fn only_listeners_on_that_port_are_read() {
        let table = "  sl  local_address rem_address   st\n\
            0: 0100007F:2049 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 4242 1\n\
            1: 0100007F:2049 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 1000 0 4243 1\n\
            2: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 4244 1\n";
        assert_eq!(listeners(table, 0x2049), ["4242"]);
    }
}
