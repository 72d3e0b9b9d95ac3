//! What Ray says of hosts: which of them have joined, and which have left.

use super::super::performer::Performer;
use super::super::{failure, of_head};
use super::machine::LOOK;
use crate::model::{Hint, HostName, Node, NodeId, Problem, Snapshot, Timestamp, Verb};
use crate::ray::{Client, Poller};
use crate::supervisor::Channel;
use std::time::{Duration, Instant};

/// What a host may take from its boot until it has joined Ray: the image of a worker has many gigabytes.
const JOINING: Duration = Duration::from_secs(1200);

/// Looks at Ray again and again, over a new connection when one broke.
pub(super) struct Watch<'a> {
    performer: &'a Performer,
    open: Option<(Channel, Poller)>,
}

impl<'a> Watch<'a> {
    /// Connects; that must succeed at once.
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

    /// The connection, as long as it holds.
    pub(super) fn session(&self) -> Option<&Channel> {
        self.open.as_ref().map(|(session, _)| session)
    }

    /// Reads the current state of Ray.
    pub(super) async fn look(&mut self) -> Result<Snapshot, Problem> {
        if self.open.is_none() {
            self.connect().await?;
        }
        let Some((_, poller)) = &mut self.open else {
            return Err(failure("Ray was not queried", Verb::Resume.to("resume")));
        };
        match poller.refresh().await {
            Ok(snapshot) => Ok(snapshot),
            Err(e) => {
                // The head may be another one by now.
                self.open = None;
                Err(e.problem(Timestamp::now()))
            }
        }
    }

    /// Waits until nodes of all these addresses live in Ray; those of `before` are being replaced and do not count.
    /// `tell` receives the number of joined hosts.
    pub(super) async fn joined(
        &mut self,
        hosts: &[String],
        before: &[NodeId],
        mut tell: impl FnMut(String),
    ) -> Result<(), Problem> {
        let (deadline, mut last) = (Instant::now() + JOINING, usize::MAX);
        loop {
            let problem = match self.look().await {
                Ok(snapshot) => {
                    let missing = missing(&snapshot, hosts, before);
                    if missing.len() != last {
                        last = missing.len();
                        tell(format!("{} of {} hosts have joined Ray", hosts.len() - last, hosts.len()));
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
            tokio::time::sleep(LOOK).await;
        }
    }

    fn why_not(&self) -> Hint {
        let log = if self.performer.is_google() {
            "see the startup script's log: `journalctl -u google-startup-scripts` there, or logs/GCEMetadataScripts in \
             Cloud Logging"
        } else {
            "see /tmp/ray/session_latest/logs/raylet.out there"
        };
        Hint::from(log).and([
            Verb::Resume.to("resume to wait again"),
            Verb::Abandon.to("or abandon this operation"),
            Verb::InitWorker.on(self.performer.first_name(), "and restart Ray on it"),
        ])
    }

    /// Waits until no node of these addresses lives in Ray, `within` at most; those that still do.
    pub(super) async fn left(&mut self, hosts: &[String], within: Duration) -> Result<Vec<String>, Problem> {
        let deadline = Instant::now() + within.max(LOOK);
        loop {
            match self.look().await {
                Ok(snapshot) => {
                    let gone = missing(&snapshot, hosts, &[]);
                    let is_there = |h: &&String| !gone.contains(&h.as_str());
                    let still: Vec<String> = hosts.iter().filter(is_there).cloned().collect();
                    if still.is_empty() || Instant::now() > deadline {
                        return Ok(still);
                    }
                }
                Err(problem) if Instant::now() > deadline => return Err(problem),
                Err(_) => {}
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Which of these addresses no living node of Ray has, but for those nodes that were there `before`.
pub(super) fn missing<'a>(snapshot: &Snapshot, hosts: &'a [String], before: &[NodeId]) -> Vec<&'a str> {
    let counts = |n: &Node| n.state.is_alive() && !before.contains(&n.id);
    let has = |host: &str| snapshot.nodes.iter().any(|n| counts(n) && n.address.raw() == host);
    hosts.iter().map(String::as_str).filter(|h| !has(h)).collect()
}

/// The living nodes of these addresses; the head is none that may be touched.
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

/// The head's address as Ray itself has it: workers join there.
pub(in super::super) async fn head_address(client: &Client) -> Result<String, Problem> {
    let snapshot = Poller::new(client.clone()).refresh().await.map_err(|e| e.problem(Timestamp::now()))?;
    head_of(&snapshot)
}

/// The same, of what Ray just said.
pub(super) fn head_of(snapshot: &Snapshot) -> Result<String, Problem> {
    let head = snapshot.nodes.iter().find(|n| n.is_head && n.state.is_alive());
    let address = head.map(|n| n.address.raw());
    let address = address.ok_or_else(|| failure("Ray reports no head node", "check `ray status` there"))?;
    // It goes into the workers' commands.
    let host = HostName::parse(address).map_err(|e| failure(e.to_string(), "Ray reports it as its head"))?;
    Ok(host.to_string())
}
