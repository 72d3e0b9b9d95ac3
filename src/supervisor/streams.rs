//! Open log streams. Each is a task of its own that outlives connections: it waits for the way to come back and goes
//! on where it was, without losing or repeating a line.

use super::tail::Tail;
use super::task::Out;
use crate::model::{LogBatch, LogEnd, LogSource, News, NodeId, StreamId, SubmissionId, Text};
use crate::ray::{self, Client, LogEvent, RayError};
use crate::ssh::{Remote, SshError};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Lines of the past that are worth reading.
const PAST: usize = 10_000;
/// Pause before a broken stream is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// How to get at logs while a session is up.
#[derive(Clone)]
pub struct Way {
    /// Ray's own log API.
    pub client: Client,
    /// The head's shell; none with `--address`.
    pub remote: Option<Remote>,
    /// The head's node id, once known.
    pub head: Option<NodeId>,
}

/// The open streams of one cluster.
pub struct Streams {
    way: watch::Sender<Option<Way>>,
    open: HashMap<StreamId, AbortHandle>,
}

impl Streams {
    /// None open, no way yet.
    pub fn new() -> Self {
        Self { way: watch::Sender::new(None), open: HashMap::new() }
    }

    /// The way appeared or went.
    pub fn set_way(&mut self, way: Option<Way>) {
        self.way.send_replace(way);
    }

    /// The head's node id is known now.
    pub fn set_head(&mut self, head: Option<NodeId>) {
        self.way.send_if_modified(|way| match way {
            Some(way) if way.head != head => {
                way.head = head;
                true
            }
            _ => false,
        });
    }

    /// Another token is in force.
    pub fn set_client(&mut self, client: &Client) {
        self.way.send_if_modified(|way| way.as_mut().map(|w| w.client = client.clone()).is_some());
    }

    /// Starts following.
    pub fn open(&mut self, stream: StreamId, source: LogSource, out: &Out) {
        let follower = Follower { stream, out: out.clone(), way: self.way.subscribe() };
        let task = tokio::spawn(follower.follow(source));
        if let Some(before) = self.open.insert(stream, task.abort_handle()) {
            before.abort();
        }
    }

    /// Stops following.
    pub fn close(&mut self, stream: StreamId) {
        if let Some(task) = self.open.remove(&stream) {
            task.abort();
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.open.values().for_each(AbortHandle::abort);
    }
}

struct Follower {
    stream: StreamId,
    out: Out,
    way: watch::Receiver<Option<Way>>,
}

impl Follower {
    async fn follow(mut self, source: LogSource) {
        match source {
            LogSource::Job(id) => self.follow_job(id).await,
            LogSource::Monitor(name) => self.follow_on_head(&name).await,
            LogSource::File { node, name } => self.follow_on_node(node, name.raw()).await,
        }
    }

    async fn send(&self, lines: Vec<String>, end: LogEnd) {
        self.out.send(News::Log(LogBatch { stream: self.stream, lines, end })).await;
    }

    /// The way, once there is one. None when the cluster's task is gone.
    async fn way(&mut self) -> Option<Way> {
        let way = self.way.wait_for(Option::is_some).await.ok()?;
        way.clone()
    }

    /// Ray's WebSocket first. When Ray cannot give the log at all, the same file comes through the head's shell.
    async fn follow_job(&mut self, id: SubmissionId) {
        let Some(error) = self.through_ray(|client, keep| client.follow_job(&id, keep)).await else { return };
        if self.way.borrow().as_ref().is_none_or(|w| w.remote.is_none()) {
            return self.send(Vec::new(), LogEnd::Failed(error.to_string())).await;
        }
        let why = format!("{error}; reading it over ssh instead");
        self.send(Vec::new(), LogEnd::Interrupted(why)).await;
        self.follow_on_head(&format!("job-driver-{}.log", id.0.raw())).await;
    }

    /// A file in the head's log folder: through its shell where there is one, else through Ray.
    async fn follow_on_head(&mut self, name: &str) {
        let mut tail = Tail::new(name);
        while let Some(way) = self.way().await {
            let Some(remote) = way.remote else {
                let Some(head) = way.head else {
                    // Without ssh the head's id is needed; it comes with the first snapshot.
                    if self.way.changed().await.is_err() {
                        return;
                    }
                    continue;
                };
                return self.follow_on_node(head, name).await;
            };
            let why = match self.read_on(&mut tail, &remote).await {
                Ok(()) => "the remote command ended".to_owned(),
                Err(e) => e.to_string(),
            };
            self.send(Vec::new(), LogEnd::Interrupted(format!("{why}; trying again"))).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read_on(&self, tail: &mut Tail, remote: &Remote) -> Result<(), SshError> {
        let mut stream = tail.open(remote).await?;
        // The stream stands again; nothing may come for a while.
        self.send(Vec::new(), LogEnd::Open).await;
        while let Some(chunk) = stream.chunk().await? {
            let lines = tail.take(&chunk);
            if !lines.is_empty() {
                self.send(lines, LogEnd::Open).await;
            }
        }
        Ok(())
    }

    /// A file in any node's log folder, through Ray.
    async fn follow_on_node(&mut self, node: NodeId, name: &str) {
        let name = Text::from(name);
        if let Some(error) = self.through_ray(|client, keep| client.follow_log(node, &name, keep)).await {
            self.send(Vec::new(), LogEnd::Failed(error.to_string())).await;
        }
    }

    /// Follows what `open` opens, to its end. Returns why it cannot be read, if so. Ray's stream reconnects by
    /// itself; only another client (another token, other ports) has to begin anew, and then reads no past.
    async fn through_ray(&mut self, open: impl Fn(&Client, usize) -> ray::Tail) -> Option<RayError> {
        let mut client = self.way().await?.client;
        let mut log = open(&client, PAST);
        loop {
            tokio::select! {
                changed = self.way.changed() => {
                    changed.ok()?;
                    let now = self.way.borrow_and_update().as_ref().map(|w| w.client.clone());
                    if let Some(now) = now.filter(|now| !now.is_same(&client)) {
                        log = open(&now, 0);
                        client = now;
                    }
                }
                event = log.next() => match event? {
                    LogEvent::Lines(lines) => self.send(lines, LogEnd::Open).await,
                    LogEvent::Interrupted(why) => self.send(Vec::new(), LogEnd::Interrupted(why)).await,
                    LogEvent::Complete => {
                        self.send(Vec::new(), LogEnd::Complete).await;
                        return None;
                    }
                    LogEvent::Failed(error) => return Some(error),
                },
            }
        }
    }
}
