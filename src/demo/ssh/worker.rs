//! The hosts of simulated workers, which are reached through their head. They serve libtpu's metrics while a run holds
//! their chips, and support the two scripts of a cleanup and searches of their logs. One host has leftovers: a process
//! of a raylet that has ended, and the lock file of libtpu.

use super::super::libtpu;
use super::super::locked;
use super::super::shared::Shared;
use super::answer::Files;
use super::{commands, log_file, words};
use crate::model::Timestamp;
use crate::task;
use russh::keys::PublicKey;
use russh::server::{ChannelOpenHandle, Msg};
use russh::{Channel, ChannelMsg, ChannelOpenFailure, Error};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// The scripts that a cleanup runs on a host, from standard input.
const INSPECT: &str = include_str!("../../../assets/cleanup-inspect.sh");
const END: &str = include_str!("../../../assets/cleanup-end.sh");
/// The script that prints the time for each line that it reads.
const CLOCK: &str = include_str!("../../../assets/clock.sh");
/// Maximum number of bytes read from standard input.
const MAX_INPUT: usize = 64 << 10;
/// A shell's exit code for an unknown command.
const NOT_FOUND: u32 = 127;

/// The leftovers: a process (its id, and its start in ticks since boot) and the lock file.
const LEFTOVER: (u32, u64) = (4321, 40_000);
const LOCK: &str = "/tmp/libtpu_lockfile";
/// Uptime in seconds, clock ticks per second, and the start of the running raylet in ticks.
const UPTIME: u64 = 32_400;
const TICKS: u64 = 100;
const RAYLET: u64 = 90_000;

/// The workers of one cluster.
pub(super) struct Workers {
    shared: Arc<Shared>,
    /// The key that may log in.
    client: PublicKey,
    leftovers: Mutex<Leftovers>,
}

/// The leftovers that remain, and their host.
#[derive(Default)]
struct Leftovers {
    /// The address of the host; `None` before the first check.
    host: Option<String>,
    process_ended: bool,
    lock_removed: bool,
}

impl Workers {
    /// The workers of the cluster with this state; `client` is the key that may log in.
    pub fn new(shared: Arc<Shared>, client: PublicKey) -> Self {
        Self { shared, client, leftovers: Mutex::default() }
    }

    /// Whether a host has this address: any private address may, except those of the head and of dead nodes.
    pub fn has(&self, address: &str) -> bool {
        let is_private =
            address.parse().is_ok_and(|ip: IpAddr| matches!(ip, IpAddr::V4(ip) if ip.is_private()));
        let is_other = |c: &super::super::cluster::Cluster| {
            c.nodes.iter().any(|n| n.ip == address && (n.is_head || n.end.is_some()))
                && !c.nodes.iter().any(|n| n.ip == address && !n.is_head && n.end.is_none())
        };
        is_private && !self.shared.now(|c| is_other(c))
    }

    /// The output of the clock script, if the command line is that script: simulated hosts use this machine's clock.
    fn time(line: &str) -> Option<String> {
        let words = words::split(line).unwrap_or_default();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ms = Timestamp::now().as_millis();
        (words == ["exec", "sh", "-c", CLOCK.trim_end()])
            .then(|| format!("{}.{:03}000000\n", ms.div_euclid(1000), ms.rem_euclid(1000)))
    }

    /// Runs a command line with this standard input; returns its output and exit code.
    fn run(&self, address: &str, line: &str, input: &str) -> (String, u32) {
        let words = words::split(line).unwrap_or_default();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // No startup script runs on a simulated host, so there is nothing to stop.
        if let ["sudo", "-n", "sh", "-c", script] = words.as_slice()
            && script.starts_with("cd /var/lib/marin-tui-worker ")
        {
            return (String::new(), 0);
        }
        let ["exec", "sh", "-c", _, "sh", "/proc", _, locks, processes @ ..] = words.as_slice() else {
            return (String::new(), NOT_FOUND);
        };
        match input {
            INSPECT => (self.inspect(address), 0),
            END => (self.end(address, locks, processes), 0),
            _ => (String::new(), NOT_FOUND),
        }
    }

    fn inspect(&self, address: &str) -> String {
        let (runs, first) = self.shared.now(|c| {
            let workers = || c.nodes.iter().filter(|n| !n.is_head && n.end.is_none());
            let runs = workers().any(|n| n.ip == address);
            (runs, workers().map(|n| n.ip.clone()).min())
        });
        let mut output = format!("clock\t{UPTIME}\t{TICKS}\nprocess\t1\t0\t1\tS\tsystemd\n");
        if runs {
            let _ = write!(
                output,
                "process\t900\t1\t{RAYLET}\tS\traylet\nprocess\t950\t900\t{RAYLET}\tS\tray::IDLE\n"
            );
        }
        let mut leftovers = locked(&self.leftovers);
        if leftovers.host.is_none() {
            leftovers.host = first;
        }
        if leftovers.host.as_deref() == Some(address) {
            if !leftovers.process_ended {
                let (pid, start) = LEFTOVER;
                let _ =
                    write!(output, "process\t{pid}\t1\t{start}\tS\tray::train\nholds\t{pid}\t/dev/accel0\n");
            }
            if !leftovers.lock_removed {
                let _ = writeln!(output, "lock\t{LOCK}");
            }
        }
        output + "disk\t41\t52428800\t/\nend\n"
    }

    fn end(&self, address: &str, locks: &str, processes: &[&str]) -> String {
        let mut leftovers = locked(&self.leftovers);
        let is_here = leftovers.host.as_deref() == Some(address);
        let mut output = String::new();
        for process in processes {
            let pid = process.split(':').next().unwrap_or_default();
            let is_leftover =
                is_here && !leftovers.process_ended && *process == format!("{}:{}", LEFTOVER.0, LEFTOVER.1);
            leftovers.process_ended |= is_leftover;
            let _ = writeln!(output, "{}\t{pid}", if is_leftover { "ended" } else { "gone" });
        }
        if is_here && !locks.is_empty() && !leftovers.lock_removed {
            if leftovers.process_ended {
                leftovers.lock_removed = true;
                let _ = writeln!(output, "removed\t{LOCK}");
            } else {
                let _ = writeln!(output, "kept\t{LOCK}\ta process holds a TPU");
            }
        }
        output + "end\n"
    }
}

/// A login to one worker.
pub(super) struct WorkerLogin {
    pub workers: Arc<Workers>,
    /// The address of the host.
    pub address: String,
}

impl WorkerLogin {
    /// The key that the worker accepts.
    pub(super) fn client(&self) -> &PublicKey {
        &self.workers.client
    }

    /// Serves a session.
    pub(super) fn serve(&self, channel: Channel<Msg>) {
        let (workers, address) = (self.workers.clone(), self.address.clone());
        task::spawn(async move {
            // An error means that the connection is closed.
            let _ = serve(channel, &workers, &address).await;
        });
    }

    /// Connects a channel with the metrics of the worker's TPU.
    pub(super) async fn forward(
        &self,
        channel: Channel<Msg>,
        (host, port): (&str, u32),
        reply: ChannelOpenHandle,
    ) {
        let (shared, address) = (self.workers.shared.clone(), self.address.clone());
        let runtime = move || shared.now(|c| c.tpu_runtime(&address));
        let is_served = host == "localhost" && port == libtpu::PORT && runtime().is_some();
        if !is_served {
            return reply.reject(ChannelOpenFailure::ConnectFailed).await;
        }
        reply.accept().await;
        task::spawn(libtpu::serve(channel.into_stream(), move || runtime().unwrap_or_default()));
    }
}

/// Reads the command of a session and its standard input, runs it and writes the result.
async fn serve(mut channel: Channel<Msg>, workers: &Workers, address: &str) -> Result<(), Error> {
    let (mut line, mut input) = (None, Vec::new());
    loop {
        match channel.wait().await {
            Some(ChannelMsg::Exec { command, .. }) => {
                let command = line.insert(String::from_utf8_lossy(&command).into_owned());
                // The input of a log script stays open until the script has ended.
                if [log_file::SEVERAL, log_file::FOLLOW_SEVERAL].iter().any(|name| command.contains(name)) {
                    break;
                }
            }
            Some(ChannelMsg::Data { .. })
                if let Some(time) = line.as_deref().and_then(|line: &str| Workers::time(line)) =>
            {
                channel.data(time.as_bytes()).await?;
            }
            Some(ChannelMsg::Data { data }) if input.len() < MAX_INPUT => input.extend_from_slice(&data),
            Some(ChannelMsg::Eof) if line.is_some() => break,
            Some(ChannelMsg::Close) | None => return Ok(()),
            // A shell does not wait for the end of its input.
            Some(ChannelMsg::RequestShell { .. }) => break,
            Some(_) => {}
        }
    }
    let line = line.unwrap_or_default();
    let (output, code) = if line.contains(log_file::SEVERAL) {
        let files = Files::of_worker(Arc::clone(&workers.shared), address);
        let answer = commands::run(&line, &files).await;
        (answer.out, answer.status)
    } else {
        let (output, code) = workers.run(address, &line, &String::from_utf8_lossy(&input));
        (output.into(), code)
    };
    channel.data(&output[..]).await?;
    if code != 0 {
        let why = "this worker is simulated: it supports only run-cleanup and log searches\n";
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
    async fn one_worker_has_leftovers_until_they_are_removed() {
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
        let inspect = |ip: &String| workers.run(ip, &line("'/tmp/libtpu_lockfile*'"), INSPECT).0;
        let with = |ip: &&String| inspect(ip).contains("lock\t/tmp/libtpu_lockfile\n");
        let host = alive.iter().filter(with).collect::<Vec<_>>();
        assert_eq!(
            (host.len(), alive.iter().filter(|ip| inspect(ip).contains("ray::train")).count()),
            (1, 1)
        );
        let end = |more: &str| workers.run(host[0], &line(more), END).0;
        assert_eq!(
            end("'/tmp/l*' 4321:1"),
            "gone\t4321\nkept\t/tmp/libtpu_lockfile\ta process holds a TPU\nend\n"
        );
        assert_eq!(end("'/tmp/l*' 4321:40000"), "ended\t4321\nremoved\t/tmp/libtpu_lockfile\nend\n");
        assert_eq!(end("'' 4321:40000"), "gone\t4321\nend\n");
        assert!(inspect(host[0]).ends_with("end\n") && !inspect(host[0]).contains("4321"));
        assert_eq!(workers.run(host[0], "rm -rf /", "").1, NOT_FOUND);
        let time = Workers::time("exec sh -c 'while read -r x; do date +%s.%N; done'").unwrap();
        assert!(time.trim_end().parse::<f64>().is_ok_and(|seconds| seconds > 1e9), "{time}");
    }
}
