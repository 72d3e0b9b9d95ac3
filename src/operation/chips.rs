//! Reads the utilization of hosts' chips: from Ray, whose agents report GPUs, and TPUs if a device plug-in exposes
//! them; on other TPU hosts over ssh, from the libtpu of the program that uses them. Changes nothing.

use super::event::ServiceEvent;
use super::request::Request;
use crate::libtpu::{Libtpu, LibtpuError, PORT, RunState};
use crate::model::cloud::TpuHost;
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{
    ChipSource, Chips, ChipsRead, ClusterSpec, HeadAddress, Hint, HostChips, Node, NodeId, Problem,
    ProblemKind, SnapshotPart, Text, Timestamp,
};
use crate::ray::{Client, Poller, RayError};
use crate::ssh::TunnelSpec;
use crate::supervisor::{Options, dial};
use futures_util::stream::{self, StreamExt};
use std::net::IpAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

/// Maximum number of concurrent requests to the head, or logins.
const AT_ONCE: usize = 8;
/// Time limit for a login to a host and libtpu's response.
const HOST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for reading the error output of an ssh that has failed.
const STDERR_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes of error output that are read.
const STDERR_MAX: u64 = 8 << 10;

/// Selects the chips to read, and how.
#[derive(Clone, Copy, Debug)]
pub struct ChipReader<'a> {
    /// The cluster of the hosts.
    pub spec: &'a ClusterSpec,
    /// Login options.
    pub options: &'a Options,
    /// Client of the head.
    pub client: &'a Client,
    /// How to log in to other hosts through the head.
    pub through: Option<&'a TunnelSpec>,
}

impl ChipReader<'_> {
    /// The alive nodes with chips that match.
    pub async fn hosts(&self, wanted: impl Fn(&Node) -> bool) -> Result<Vec<Node>, Problem> {
        let failed = |error: RayError| error.problem(Timestamp::now());
        let snapshot =
            Poller::new(self.client.clone()).refresh_all(&[SnapshotPart::Nodes]).await.map_err(failed)?;
        let has_chips = |node: &&Node| node.state.is_alive() && count(node).is_some() && wanted(node);
        let nodes: Vec<Node> = snapshot.nodes.iter().filter(has_chips).cloned().collect();
        if nodes.is_empty() {
            let what = "none of the selected live nodes has TPU chips or GPUs";
            return Err(Problem::new(ProblemKind::Other, what, Hint::default(), Timestamp::now()));
        }
        Ok(nodes)
    }

    /// Reads the chips of these nodes, eight nodes at a time, and reads those that appear to be behind a second time.
    pub async fn read(&self, nodes: &[Node]) -> Chips {
        let read = nodes.iter().map(|node| async move {
            let (expected, used) = count(node).unwrap_or_default();
            HostChips {
                node: node.id,
                address: node.address.clone(),
                worker: node.label("ray.io/tpu-worker-id").and_then(|n| n.raw().parse().ok()),
                group: group(node),
                expected,
                used,
                read: self.read_node(node).await,
                is_behind: false,
            }
        });
        let mut hosts: Vec<HostChips> =
            stream::iter(read.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await;
        let order = |host: &HostChips| {
            let address = host.address.raw().parse::<IpAddr>().ok();
            (host.group.clone(), host.worker.is_none(), host.worker, address, host.address.clone())
        };
        sort::by_key(&mut hosts, order);
        let mut chips = Chips { at: Timestamp::now(), hosts };
        let seen = chips.behind();
        let again = seen.iter().map(|(index, furthest)| {
            let address = &chips.hosts[*index].address;
            let node = nodes.iter().find(|node| node.address == *address);
            let host = node.map_or_else(|| TpuHost::at(address.raw()), TpuHost::of);
            async move {
                let run = self.query_host(&host).await.ok().and_then(|read| read.run);
                run.is_some_and(|run| run < *furthest).then_some(*index)
            }
        });
        let behind: Vec<Option<usize>> =
            stream::iter(again.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await;
        for index in behind.into_iter().flatten() {
            chips.hosts[index].is_behind = true;
        }
        chips
    }

    async fn read_node(&self, node: &Node) -> Result<ChipsRead, String> {
        let reported = self.client.chips(node.id).await.map_err(|e| e.to_string());
        if let Ok(chips) = &reported
            && !chips.is_empty()
        {
            return Ok(ChipsRead { source: ChipSource::Ray, chips: chips.clone(), run: None, error: None });
        }
        if !has_tpus(node) {
            reported?;
            return Err(
                "Ray's agent on the host sees no GPU; is the NVIDIA driver installed there?".to_owned()
            );
        }
        if matches!(self.spec.head, HeadAddress::Direct { .. }) {
            return Err("Ray sees no chips there, and its libtpu cannot be read without SSH".to_owned());
        }
        self.query_host(&TpuHost::of(node)).await
    }

    /// Queries libtpu on a host.
    async fn query_host(&self, host: &TpuHost) -> Result<ChipsRead, String> {
        let command = dial(self.spec, self.options, host, self.through.cloned(), PORT).await;
        let mut command = Command::from(command.map_err(|problem| problem.what)?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut ssh = command.spawn().map_err(|e| format!("cannot run ssh: {e}"))?;
        let (Some(stdout), Some(stdin)) = (ssh.stdout.take(), ssh.stdin.take()) else {
            return Err("ssh has no standard input and output".to_owned());
        };
        match tokio::time::timeout(HOST_TIMEOUT, query_libtpu(tokio::io::join(stdout, stdin))).await {
            Err(_) => Err(format!("the host timed out after {} s", HOST_TIMEOUT.as_secs())),
            Ok(Ok((chips, state))) => {
                let RunState { run, error } = state;
                Ok(ChipsRead { source: ChipSource::Libtpu, chips, run, error })
            }
            Ok(Err(LibtpuError::Silent(why))) => Err(ssh_error(&mut ssh).await.unwrap_or(why)),
            Ok(Err(e)) => Err(e.to_string()),
        }
    }
}

async fn query_libtpu(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
) -> Result<(Vec<crate::model::ChipUse>, RunState), LibtpuError> {
    let libtpu = Libtpu::over(stream).await?;
    let chips = libtpu.chips().await?;
    // Older versions do not provide the state; their chips are reported anyway.
    let state = libtpu.state().await.unwrap_or_default();
    Ok((chips, state))
}

/// The reason why ssh failed: its last error message, or an explanation of it.
async fn ssh_error(ssh: &mut Child) -> Option<String> {
    let mut output = Vec::new();
    let stderr = ssh.stderr.take()?;
    let mut stderr = stderr.take(STDERR_MAX);
    // On a timeout, the output received so far is used.
    let _ = tokio::time::timeout(STDERR_TIMEOUT, stderr.read_to_end(&mut output)).await;
    explain_ssh_error(&String::from_utf8_lossy(&output))
}

fn explain_ssh_error(stderr: &str) -> Option<String> {
    let lower = stderr.to_lowercase();
    if lower.contains("connection refused") || lower.contains("open failed: connect failed") {
        return Some(format!(
            "nothing listens on port {PORT} there: libtpu serves metrics only while a program uses the chips"
        ));
    }
    if lower.contains("administratively prohibited") {
        return Some(
            "sshd on the host forbids forwarding; set AllowTcpForwarding to yes in its configuration"
                .to_owned(),
        );
    }
    // The line before the last is the cause of `stdio forwarding failed`.
    let mut lines =
        stderr.lines().map(str::trim).filter(|l| !l.is_empty() && !l.contains("stdio forwarding failed"));
    lines.next_back().map(|line| printable(line).into_owned())
}

/// The number of chips of a node, and of those in use; `None` for a node without chips.
fn count(node: &Node) -> Option<(u32, Option<u32>)> {
    let of = |name: &str| node.resources.get(name).filter(|r| r.total >= 1.0);
    let chips = of("TPU").or_else(|| of("GPU"))?;
    Some((chips.total as u32, chips.used.map(|used| used.ceil() as u32)))
}

fn has_tpus(node: &Node) -> bool {
    node.resources.get("TPU").is_some_and(|r| r.total > 0.0)
}

/// The slice of a node, or its type if it is not in a slice.
fn group(node: &Node) -> Text {
    node.slice().unwrap_or(&node.node_type).clone()
}

impl Request {
    /// Reads the chips of these nodes over the cluster's own connection and reports them.
    pub async fn chips(&self, nodes: Vec<NodeId>) {
        let result = self.read_chips(&nodes).await;
        // The front end may be shutting down.
        let _ = self.events.send(ServiceEvent::Chips(self.spec.name.clone(), nodes, Arc::new(result))).await;
    }

    async fn read_chips(&self, nodes: &[NodeId]) -> Result<Chips, Problem> {
        let channel = self.connection.channel().await?;
        let reader = ChipReader {
            spec: &self.spec,
            options: &self.environment.options,
            client: &channel.client,
            through: channel.login.as_ref(),
        };
        let hosts = reader.hosts(|node| nodes.contains(&node.id)).await?;
        Ok(reader.read(&hosts).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_errors_about_the_port_are_explained() {
        let refused =
            "channel 0: open failed: connect failed: Connection refused\r\nstdio forwarding failed\r\n";
        assert!(explain_ssh_error(refused).unwrap().contains("while a program uses"));
        let forbidden =
            "channel 0: open failed: administratively prohibited: open failed\nstdio forwarding failed\n";
        assert!(explain_ssh_error(forbidden).unwrap().contains("AllowTcpForwarding"));
        let other = "ssh: connect to host 10.0.0.7 port 22: No route to host\u{1b}[31m\n";
        assert!(explain_ssh_error(other).unwrap().starts_with("ssh: connect to host"));
        assert!(!explain_ssh_error(other).unwrap().contains('\u{1b}'));
        assert_eq!(explain_ssh_error("\n"), None);
    }

    #[test]
    fn a_node_is_counted_by_its_tpus_or_else_its_gpus() {
        let mut node = Node::sample(1);
        assert_eq!(count(&node), None);
        let resource = |name: &str, total, used| crate::model::Resource { name: name.into(), total, used };
        node.resources.0 = vec![resource("GPU", 8.0, Some(7.5))];
        assert_eq!((count(&node), has_tpus(&node)), (Some((8, Some(8))), false));
        node.resources.0.push(resource("TPU", 4.0, None));
        assert_eq!((count(&node), has_tpus(&node)), (Some((4, None)), true));
        assert_eq!(group(&node), node.node_type);
    }
}
