//! The logs of Ray's own processes on a node, such as `raylet.out`: older lines since the node started, and one line per
//! second since the simulation began. Each line is a function of its number.

use super::super::life::stamp::stamp;
use super::node::SimNode;
use crate::model::NodeId;
use std::fmt::Write;

/// Milliseconds between two lines.
const PERIOD: u64 = 1000;
/// Number of lines that a process wrote before the simulation began.
const OLDER: u64 = 500;
/// Number of lines that a process writes at its start.
const OPENING: u64 = 4;

/// The process that writes a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Raylet,
    Gcs,
    Dashboard,
    Agent,
}

/// A log of one of Ray's own processes.
#[derive(Clone, Debug)]
pub(in crate::demo) struct SystemLog {
    writer: Writer,
    node: NodeId,
    ip: String,
    /// When the process started, in milliseconds since the epoch.
    started: i64,
    /// When it began to write a line per second.
    since: i64,
    /// Number of lines before that.
    older: u64,
}

impl SystemLog {
    /// The log with this file name on a node of a simulation that began at `began`; none if another process writes it.
    pub fn of(file: &str, node: &SimNode, began: i64) -> Option<Self> {
        let writer = match file {
            "raylet.out" => Writer::Raylet,
            "gcs_server.out" => Writer::Gcs,
            "dashboard.log" => Writer::Dashboard,
            "dashboard_agent.log" => Writer::Agent,
            _ => return None,
        };
        let is_older = node.started < began;
        Some(Self {
            writer,
            node: node.id,
            ip: node.ip.clone(),
            started: node.started,
            since: if is_older { began } else { node.started },
            older: if is_older { OLDER } else { OPENING },
        })
    }

    /// Number of lines at `now`.
    pub fn lines(&self, now: i64) -> u64 {
        self.older + u64::try_from(now - self.since).unwrap_or(0) / PERIOD
    }

    /// When line `n` was written, in milliseconds since the epoch.
    fn time(&self, n: u64) -> i64 {
        let (from, after) = match n.checked_sub(self.older) {
            Some(later) => (self.since, (later + 1) * PERIOD),
            None if n < OPENING => (self.started, n),
            None => {
                let age = u64::try_from(self.since - self.started).unwrap_or(0);
                (self.started, (age * n / self.older).max(OPENING))
            }
        };
        from + i64::try_from(after).unwrap_or(0)
    }

    /// Writes line `n` with its line break.
    pub fn line(&self, out: &mut String, n: u64) {
        let at = self.time(n);
        // Writing to a String cannot fail.
        let _ = match self.writer {
            Writer::Raylet => writeln!(out, "[{} I 312 312] (raylet) {}", stamp(at), self.raylet(n)),
            Writer::Gcs => writeln!(out, "[{} I 300 300] (gcs_server) {}", stamp(at), gcs(n)),
            Writer::Dashboard => web_request(out, at, "127.0.0.1", n),
            Writer::Agent => web_request(out, at, &self.ip, n),
        };
    }

    /// The message of line `n` of the raylet.
    fn raylet(&self, n: u64) -> String {
        let (id, ip) = (self.node, &self.ip);
        match n {
            0 => format!(
                "raylet.cc:160: Raylet of id, {id} started. Raylet consists of node_manager and object_manager. node_manager address: {ip}:43585 object_manager address: {ip}:42443 hostname: {ip}"
            ),
            1 => format!("accessor.cc:768: Received notification for node {id}, IsAlive = 1"),
            2 => "worker_pool.cc:501: Started worker process with pid 347, the token is 0".into(),
            3 => "agent_manager.cc:86: Monitor agent process with name dashboard_agent".into(),
            _ => match n % 6 {
                0 => format!("node_manager.cc:525: [state-dump] Node ID: {id}"),
                1 => format!("node_manager.cc:525: [state-dump] Node name: {ip}"),
                2 => "node_manager.cc:525: [state-dump] num PYTHON drivers: 0".into(),
                3 => "node_manager.cc:525: [state-dump] Waiting tasks size: 0".into(),
                4 => "node_manager.cc:525: [state-dump] num object ids in use: 0".into(),
                _ => {
                    format!(
                        "node_manager.cc:525: [state-dump] Global stats: {} total (23 active)",
                        1_000 + 31 * n
                    )
                }
            },
        }
    }
}

/// The message of line `n` of the GCS.
fn gcs(n: u64) -> String {
    match n % 3 {
        0 => "gcs_server.cc:863: Main service Event stats:".into(),
        1 => format!("gcs_server.cc:863: Global stats: {} total (64 active)", 1_000 + 97 * n),
        _ => "gcs_server.cc:863: Queueing time: mean = 0.213 ms, max = 41.204 ms".into(),
    }
}

/// Line `n` of the access log of a web server at this address.
fn web_request(out: &mut String, at: i64, ip: &str, n: u64) -> std::fmt::Result {
    let path = ["/api/version", "/api/gcs_healthz", "/api/local_raylet_healthz"][(n % 3) as usize];
    let (bytes, took) = (180 + n % 3 * 40, 900 + n * 7919 % 400);
    let at = stamp(at);
    writeln!(out, "{at}\tINFO web_log.py:211 -- {ip} \"GET {path} HTTP/1.1\" 200 {bytes} bytes {took} us")
}

#[cfg(test)]
mod tests {
    use super::super::super::random::Random;
    use super::super::node::SLICES;
    use super::*;
    use jiff::tz::TimeZone;

    const T0: i64 = 1_795_000_000_000;

    /// The times of the lines of a log at `now`, in milliseconds since the epoch, and its text.
    fn read(log: &SystemLog, now: i64) -> (Vec<i64>, String) {
        let mut text = String::new();
        (0..log.lines(now)).for_each(|n| log.line(&mut text, n));
        let time = |line: &str| {
            let stamp = line.trim_start_matches('[').get(..23).unwrap().replace(',', ".");
            let time: jiff::civil::DateTime = stamp.parse().unwrap();
            time.to_zoned(TimeZone::UTC).unwrap().timestamp().as_millisecond()
        };
        (text.lines().map(time).collect(), text)
    }

    #[test]
    fn the_log_of_a_process_fits_its_node() {
        let mut node = SimNode::of_slice(&mut Random::new(1), T0, 7, &SLICES[0], "ray-m-worker-0f-tpu", 0);
        for (started, now) in [(T0 - 7 * 3_600_000, T0 + 90_000), (T0 + 60_000, T0 + 90_000)] {
            node.started = started;
            for file in ["raylet.out", "gcs_server.out", "dashboard.log", "dashboard_agent.log"] {
                let (times, text) = read(&SystemLog::of(file, &node, T0).unwrap(), now);
                assert!(
                    times.is_sorted() && times.iter().all(|at| (started..=now).contains(at)),
                    "{file}: {text}"
                );
                assert!(times.last().is_some_and(|last| now - last < 2000), "{file}: {text}");
                assert!(!text.contains(" step "), "{file}: {text}");
            }
            let (_, raylet) = read(&SystemLog::of("raylet.out", &node, T0).unwrap(), now);
            assert!(raylet.lines().all(|line| line.contains("] (raylet) ")), "{raylet}");
            assert!(raylet.contains(&node.ip) && raylet.contains(&node.id.to_string()), "{raylet}");
        }
        assert!(SystemLog::of("monitor.out", &node, T0).is_none());
    }
}
