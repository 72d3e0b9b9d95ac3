//! The hosts of simulated workers, which are reached through their head: they serve libtpu's metrics while a run holds
//! their chips, they answer the two scripts of a cleanup and a search of their logs, and
//! one of them has something left over, a process of a raylet that is gone and the lock file of libtpu.

use super::super::libtpu;
use super::super::locked;
use super::super::shared::Shared;
use super::answer::Files;
use super::{commands, log_file, words};
use crate::model::Timestamp;
use russh::keys::PublicKey;
use russh::server::{self, Auth, ChannelOpenHandle, Msg, Session};
use russh::{Channel, ChannelId, ChannelMsg, ChannelOpenFailure, Error};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// What a cleanup runs on a host, on its standard input.
const LOOK: &str = include_str!("../../../assets/cleanup-look.sh");
const END: &str = include_str!("../../../assets/cleanup-end.sh");
/// What says the time for each line that it reads.
const CLOCK: &str = include_str!("../../../assets/clock.sh");
/// Bytes of a script that are read.
const LONGEST: usize = 64 << 10;
/// A shell's message for an unknown command.
const NOT_FOUND: u32 = 127;

/// What is left over: the process, its start in ticks since the boot, and the lock file.
const LEFT: (u32, u64) = (4321, 40_000);
const LOCK: &str = "/tmp/libtpu_lockfile";
/// Seconds since the boot, ticks in a second, and the start of the raylet that runs, in ticks.
const UPTIME: u64 = 32_400;
const TICKS: u64 = 100;
const RAYLET: u64 = 90_000;

/// The workers of one cluster.
pub(super) struct Workers {
    shared: Arc<Shared>,
    /// Who may log in.
    client: PublicKey,
    left: Mutex<Left>,
}

/// What is left over, and where.
#[derive(Default)]
struct Left {
    /// The address of the host; none until somebody has looked.
    host: Option<String>,
    process_ended: bool,
    lock_removed: bool,
}

impl Workers {
    /// Of the cluster with this state; `client` is the key that opens them.
    pub fn new(shared: Arc<Shared>, client: PublicKey) -> Self {
        Self { shared, client, left: Mutex::default() }
    }

    /// Whether a host has that address: any machine of the cluster's network may, but one that is dead.
    pub fn has(&self, address: &str) -> bool {
        let is_private =
            address.parse().is_ok_and(|ip: IpAddr| matches!(ip, IpAddr::V4(ip) if ip.is_private()));
        let is_other = |c: &super::super::cluster::Cluster| {
            c.nodes.iter().any(|n| n.ip == address && (n.is_head || n.end.is_some()))
                && !c.nodes.iter().any(|n| n.ip == address && !n.is_head && n.end.is_none())
        };
        is_private && !self.shared.now(|c| is_other(c))
    }

    /// What the clock of a host says, if the command line asks for it: simulated hosts have that of this machine.
    fn time(line: &str) -> Option<String> {
        let words = words::split(line).unwrap_or_default();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ms = Timestamp::now().as_millis();
        (words == ["exec", "sh", "-c", CLOCK.trim_end()])
            .then(|| format!("{}.{:03}000000\n", ms.div_euclid(1000), ms.rem_euclid(1000)))
    }

    /// What the command line prints with this on its standard input, and its exit code.
    fn run(&self, address: &str, line: &str, input: &str) -> (String, u32) {
        let words = words::split(line).unwrap_or_default();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ["exec", "sh", "-c", _, "sh", "/proc", _, locks, processes @ ..] = words.as_slice() else {
            return (String::new(), NOT_FOUND);
        };
        match input {
            LOOK => (self.look(address), 0),
            END => (self.end(address, locks, processes), 0),
            _ => (String::new(), NOT_FOUND),
        }
    }

    fn look(&self, address: &str) -> String {
        let (runs, first) = self.shared.now(|c| {
            let workers = || c.nodes.iter().filter(|n| !n.is_head && n.end.is_none());
            let runs = workers().any(|n| n.ip == address);
            (runs, workers().map(|n| n.ip.clone()).min())
        });
        let mut said = format!("clock\t{UPTIME}\t{TICKS}\nprocess\t1\t0\t1\tS\tsystemd\n");
        if runs {
            let _ = write!(
                said,
                "process\t900\t1\t{RAYLET}\tS\traylet\nprocess\t950\t900\t{RAYLET}\tS\tray::IDLE\n"
            );
        }
        let mut left = locked(&self.left);
        if left.host.is_none() {
            left.host = first;
        }
        if left.host.as_deref() == Some(address) {
            if !left.process_ended {
                let (pid, start) = LEFT;
                let _ =
                    write!(said, "process\t{pid}\t1\t{start}\tS\tray::train\nholds\t{pid}\t/dev/accel0\n");
            }
            if !left.lock_removed {
                let _ = writeln!(said, "lock\t{LOCK}");
            }
        }
        said + "disk\t41\t52428800\t/\nend\n"
    }

    fn end(&self, address: &str, locks: &str, processes: &[&str]) -> String {
        let mut left = locked(&self.left);
        let is_here = left.host.as_deref() == Some(address);
        let mut said = String::new();
        for process in processes {
            let pid = process.split(':').next().unwrap_or_default();
            let is_left = is_here && !left.process_ended && *process == format!("{}:{}", LEFT.0, LEFT.1);
            left.process_ended |= is_left;
            let _ = writeln!(said, "{}\t{pid}", if is_left { "ended" } else { "gone" });
        }
        if is_here && !locks.is_empty() && !left.lock_removed {
            if left.process_ended {
                left.lock_removed = true;
                let _ = writeln!(said, "removed\t{LOCK}");
            } else {
                let _ = writeln!(said, "kept\t{LOCK}\ta process holds a TPU");
            }
        }
        said + "end\n"
    }
}

/// A login on one worker.
pub(super) struct Login {
    pub workers: Arc<Workers>,
    /// The address of the host.
    pub address: String,
}

impl Login {
    fn judge(&self, key: &PublicKey) -> Auth {
        if key.key_data() == self.workers.client.key_data() { Auth::Accept } else { Auth::reject() }
    }
}

impl server::Handler for Login {
    type Error = Error;

    async fn auth_publickey_offered(&mut self, _user: &str, key: &PublicKey) -> Result<Auth, Self::Error> {
        Ok(self.judge(key))
    }

    async fn auth_publickey(&mut self, _user: &str, key: &PublicKey) -> Result<Auth, Self::Error> {
        Ok(self.judge(key))
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        let (workers, address) = (self.workers.clone(), self.address.clone());
        tokio::spawn(async move {
            // An error means that the connection is closed.
            let _ = serve(channel, &workers, &address).await;
        });
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _originator: &str,
        _originator_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        let (shared, address) = (self.workers.shared.clone(), self.address.clone());
        let runtime = move || shared.now(|c| c.tpu_runtime(&address));
        let is_served = host == "localhost" && port == libtpu::PORT && runtime().is_some();
        if !is_served {
            reply.reject(ChannelOpenFailure::ConnectFailed).await;
            return Ok(());
        }
        reply.accept().await;
        tokio::spawn(libtpu::serve(channel.into_stream(), move || runtime().unwrap_or_default()));
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        _command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)
    }
}

/// Reads what the command of a session gets on its standard input, and answers.
async fn serve(mut channel: Channel<Msg>, workers: &Workers, address: &str) -> Result<(), Error> {
    let (mut line, mut input) = (None, Vec::new());
    loop {
        match channel.wait().await {
            Some(ChannelMsg::Exec { command, .. }) => {
                line = Some(String::from_utf8_lossy(&command).into_owned());
            }
            Some(ChannelMsg::Data { .. })
                if let Some(time) = line.as_deref().and_then(|line: &str| Workers::time(line)) =>
            {
                channel.data(time.as_bytes()).await?;
            }
            Some(ChannelMsg::Data { data }) if input.len() < LONGEST => input.extend_from_slice(&data),
            Some(ChannelMsg::Eof) if line.is_some() => break,
            Some(ChannelMsg::Close) | None => return Ok(()),
            // A shell has no end of its input that anybody waits for.
            Some(ChannelMsg::RequestShell { .. }) => break,
            Some(_) => {}
        }
    }
    let line = line.unwrap_or_default();
    let (said, code) = if line.contains(log_file::SEVERAL) {
        let files = Files::of_worker(Arc::clone(&workers.shared), address);
        let answer = commands::run(&line, &files).await;
        (answer.out, answer.status)
    } else {
        let (said, code) = workers.run(address, &line, &String::from_utf8_lossy(&input));
        (said.into(), code)
    };
    channel.data(&said[..]).await?;
    if code != 0 {
        let why = "this worker is simulated: it answers run-cleanup and searches of its logs alone\n";
        channel.extended_data(1, why.as_bytes()).await?;
    }
    channel.exit_status(code).await?;
    channel.eof().await?;
    channel.close().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{Head, Keys, Scenario};

    #[tokio::test]
    async fn one_worker_has_something_left_over_until_it_is_ended() {
        let head = Head::start(Scenario { nodes: 4, dead: 1, ..Scenario::default() }).await.unwrap();
        let workers = Workers::new(head.shared.clone(), Keys::new().unwrap().client.public_key().clone());
        let alive = head.shared.now(|c| {
            let alive = c.nodes.iter().filter(|n| !n.is_head && n.end.is_none());
            alive.map(|n| n.ip.clone()).collect::<Vec<_>>()
        });
        let dead =
            head.shared.now(|c| c.nodes.iter().find(|n| n.end.is_some()).map(|n| n.ip.clone())).unwrap();
        assert!(alive.iter().all(|ip| workers.has(ip)) && !workers.has(&dead) && !workers.has("8.8.8.8"));
        let line = |more: &str| format!("exec sh -c 'sudo or \"$@\"' sh '/proc' '^/dev/x$' {more}");
        let look = |ip: &String| workers.run(ip, &line("'/tmp/libtpu_lockfile*'"), LOOK).0;
        let with = |ip: &&String| look(ip).contains("lock\t/tmp/libtpu_lockfile\n");
        let host = alive.iter().filter(with).collect::<Vec<_>>();
        assert_eq!((host.len(), alive.iter().filter(|ip| look(ip).contains("ray::train")).count()), (1, 1));
        let end = |more: &str| workers.run(host[0], &line(more), END).0;
        assert_eq!(
            end("'/tmp/l*' 4321:1"),
            "gone\t4321\nkept\t/tmp/libtpu_lockfile\ta process holds a TPU\nend\n"
        );
        assert_eq!(end("'/tmp/l*' 4321:40000"), "ended\t4321\nremoved\t/tmp/libtpu_lockfile\nend\n");
        assert_eq!(end("'' 4321:40000"), "gone\t4321\nend\n");
        assert!(look(host[0]).ends_with("end\n") && !look(host[0]).contains("4321"));
        assert_eq!(workers.run(host[0], "rm -rf /", "").1, NOT_FOUND);
        let time = Workers::time("exec sh -c 'while read -r x; do date +%s.%N; done'").unwrap();
        assert!(time.trim_end().parse::<f64>().is_ok_and(|seconds| seconds > 1e9), "{time}");
    }
}
