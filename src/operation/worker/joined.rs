//! Determines which hosts have joined Ray, and which have left.

use super::super::performer::Performer;
use super::super::{failure, of_head};
use super::machine::POLL_INTERVAL;
use crate::model::{
    Fix, Hint, HostName, NewWorker, Node, NodeId, Problem, Snapshot, SnapshotPart, Task, Timestamp, Verb,
};
use crate::ray::{Client, Poller};
use crate::supervisor::Channel;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Maximum time from a host's boot until it has joined Ray: the image of a worker has many gigabytes.
const JOIN_TIMEOUT: Duration = Duration::from_secs(1200);

/// Polls Ray, and reconnects after a connection was lost.
pub(super) struct Watch<'a> {
    performer: &'a Performer,
    open: Option<(Channel, Poller)>,
}

impl<'a> Watch<'a> {
    /// Connects; a failure is an error.
    pub(super) async fn open(performer: &'a Performer) -> Result<Self, Problem> {
        let mut watch = Self { performer, open: None };
        watch.connect().await?;
        Ok(watch)
    }

    async fn connect(&mut self) -> Result<(), Problem> {
        let session = self.performer.connect().await?;
        let poller = Poller::new(session.client.clone());
        self.open = Some((session, poller));
        Ok(())
    }

    /// The connection, while it is open.
    pub(super) fn session(&self) -> Option<&Channel> {
        self.open.as_ref().map(|(session, _)| session)
    }

    /// Reads the current state of Ray.
    pub(super) async fn refresh(&mut self) -> Result<Snapshot, Problem> {
        if self.open.is_none() {
            self.connect().await?;
        }
        let Some((_, poller)) = &mut self.open else {
            return Err(failure("Ray was not queried", Verb::Resume.to("resume")));
        };
        match poller.refresh_all(&[SnapshotPart::Nodes]).await {
            Ok(snapshot) => Ok(snapshot),
            Err(e) => {
                // The head may have changed.
                self.open = None;
                Err(e.problem(Timestamp::now()))
            }
        }
    }

    /// Waits until all these addresses have alive nodes in Ray; the nodes `before` are being replaced and do not count.
    /// `progress` receives the number of joined hosts.
    pub(super) async fn joined(
        &mut self,
        hosts: &[String],
        before: &[NodeId],
        mut progress: impl FnMut(String),
    ) -> Result<(), Problem> {
        let (deadline, mut last) = (Instant::now() + JOIN_TIMEOUT, usize::MAX);
        loop {
            let problem = match self.refresh().await {
                Ok(snapshot) => {
                    let missing = missing(&snapshot, hosts, before);
                    if missing.len() != last {
                        last = missing.len();
                        progress(format!("{} of {} hosts have joined Ray", hosts.len() - last, hosts.len()));
                    }
                    if missing.is_empty() {
                        return Ok(());
                    }
                    failure(format!("not in Ray: {}", missing.join(", ")), self.why_not())
                }
                Err(problem) => problem,
            };
            if Instant::now() > deadline {
                return Err(problem);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn why_not(&self) -> Hint {
        let log = if self.performer.is_google() {
            "see the startup script's log: `journalctl -u google-startup-scripts` there, or logs/GCEMetadataScripts in \
             Cloud Logging"
        } else {
            "see /tmp/ray/session_latest/logs/raylet.out there"
        };
        // Ray does not know a host that has never joined.
        let again = if matches!(self.performer.task, Task::AddWorker(NewWorker::Host { .. })) {
            Fix::from("and add it again")
        } else {
            Verb::InitWorker.on(self.performer.first_name(), "and restart Ray on it")
        };
        Hint::from(log).and([
            Verb::Resume.to("resume to wait again"),
            Verb::Abandon.to("or abandon this operation"),
            again,
        ])
    }

    /// Waits until these addresses have no alive nodes in Ray, for at most `within`; returns those that still have one.
    pub(super) async fn wait_until_gone(
        &mut self,
        hosts: &[String],
        within: Duration,
    ) -> Result<Vec<String>, Problem> {
        let still = |snapshot: &Snapshot| {
            let gone = missing(snapshot, hosts, &[]);
            hosts.iter().filter(|h| !gone.contains(&h.as_str())).cloned().collect::<Vec<String>>()
        };
        self.wait_until_none(still, within).await
    }

    /// Waits until these nodes are dead, for at most `within`; returns the addresses of those that are still alive.
    pub(super) async fn wait_until_dead(
        &mut self,
        nodes: &[NodeId],
        within: Duration,
    ) -> Result<Vec<String>, Problem> {
        self.wait_until_none(|snapshot| addresses_of(snapshot, nodes), within).await
    }

    /// Waits until `still` finds nothing in the state of Ray, for at most `within`; returns what it finds at the end.
    async fn wait_until_none(
        &mut self,
        still: impl Fn(&Snapshot) -> Vec<String>,
        within: Duration,
    ) -> Result<Vec<String>, Problem> {
        let deadline = Instant::now() + within.max(POLL_INTERVAL);
        loop {
            match self.refresh().await {
                Ok(snapshot) => {
                    let still = still(&snapshot);
                    if still.is_empty() || Instant::now() > deadline {
                        return Ok(still);
                    }
                }
                Err(problem) if Instant::now() > deadline => return Err(problem),
                Err(_) => {}
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// The addresses without an alive node in Ray other than those of `before`.
pub(super) fn missing<'a>(snapshot: &Snapshot, hosts: &'a [String], before: &[NodeId]) -> Vec<&'a str> {
    let counts = |n: &Node| n.state.is_alive() && !before.contains(&n.id);
    let has = |host: &str| snapshot.nodes.iter().any(|n| counts(n) && n.address.raw() == host);
    hosts.iter().map(String::as_str).filter(|h| !has(h)).collect()
}

/// The addresses of those of these nodes that are alive.
fn addresses_of(snapshot: &Snapshot, nodes: &[NodeId]) -> Vec<String> {
    let alive = snapshot.nodes.iter().filter(|n| n.state.is_alive() && nodes.contains(&n.id));
    alive.map(|n| n.address.raw().to_owned()).collect()
}

/// The alive node at one of these addresses of a host.
pub(super) fn alive_at<'a>(snapshot: &'a Snapshot, addresses: &[IpAddr]) -> Option<&'a Node> {
    let is_here = |n: &&Node| n.address.raw().parse().is_ok_and(|a: IpAddr| addresses.contains(&a));
    snapshot.nodes.iter().filter(|n| n.state.is_alive()).find(is_here)
}

/// The alive nodes at these addresses; an error if one is the head, which must not be touched.
pub(super) fn alive(snapshot: &Snapshot, hosts: &[String]) -> Result<Vec<Node>, Problem> {
    let is_here = |n: &&Node| n.state.is_alive() && hosts.iter().any(|h| h == n.address.raw());
    let here: Vec<Node> = snapshot.nodes.iter().filter(is_here).cloned().collect();
    match here.iter().find(|n| n.is_head) {
        None => Ok(here),
        Some(head) => {
            let what = format!("{} is the head, not a worker", head.address);
            Err(failure(what, of_head()))
        }
    }
}

/// The head's address according to Ray: workers join there.
pub(in super::super) async fn head_address(client: &Client) -> Result<String, Problem> {
    let snapshot = Poller::new(client.clone())
        .refresh_all(&[SnapshotPart::Nodes])
        .await
        .map_err(|e| e.problem(Timestamp::now()))?;
    head_of(&snapshot)
}

/// Like [`head_address`], from a snapshot.
pub(super) fn head_of(snapshot: &Snapshot) -> Result<String, Problem> {
    let head = snapshot.nodes.iter().find(|n| n.is_head && n.state.is_alive());
    let address = head.map(|n| n.address.raw());
    let address = address.ok_or_else(|| failure("Ray reports no head node", "check `ray status` there"))?;
    // It becomes part of the workers' commands.
    let host = HostName::parse(address).map_err(|e| failure(e.to_string(), "Ray reports it as its head"))?;
    Ok(host.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeState;
    use std::sync::Arc;

    #[test]
    fn a_node_that_joins_at_the_address_of_a_drained_one_does_not_count_as_drained() {
        let (ended, busy) = (Node { state: NodeState::Dead, ..Node::sample(1) }, Node::sample(2));
        let rejoined = Node { address: ended.address.clone(), ..Node::sample(3) };
        let drained = [ended.id, busy.id];
        let snapshot = Snapshot { nodes: Arc::new(vec![ended, busy, rejoined]), ..Snapshot::default() };
        assert_eq!(addresses_of(&snapshot, &drained), ["10.0.0.2"]);
        let hosts = ["10.0.0.1", "10.0.0.2"].map(str::to_owned);
        assert_eq!(missing(&snapshot, &hosts, &[]), [""; 0], "both addresses have a live node");
    }

    #[test]
    fn a_host_is_in_ray_with_any_of_its_addresses() {
        let (ended, alive) = (Node { state: NodeState::Dead, ..Node::sample(1) }, Node::sample(2));
        let snapshot = Snapshot { nodes: Arc::new(vec![ended, alive]), ..Snapshot::default() };
        let at = |addresses: &[&str]| {
            let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
            alive_at(&snapshot, &addresses).map(|node| node.address.raw().to_owned())
        };
        assert_eq!(at(&["192.168.0.7", "10.0.0.2"]).as_deref(), Some("10.0.0.2"));
        assert_eq!(at(&["192.168.0.7", "10.0.0.1"]), None);
    }
}
