//! Open log streams. Each is a task of its own that outlives connections: it waits for the way to come back and goes
//! on where it was, without losing or repeating a line.

use super::out::Out;
use super::tail::Tail;
use crate::logs::LineSplitter;
use crate::model::{Line, LogBatch, LogEnd, LogSource, News, NodeId, StreamId, SubmissionId, Text};
use crate::ray::{self, Client, Clients, LogEvent, RayError};
use crate::ssh::{Remote, RemoteStream, SshError};
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
    /// Client of Ray's log API.
    pub client: Client,
    /// The head's shell; none with `--address`.
    pub remote: Option<Remote>,
    /// The head's node id, once known.
    pub head: Option<NodeId>,
    /// How often the streams were asked to prove themselves or to try again at once.
    pub nudges: u64,
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

    /// Makes each stream check its connection, or retry at once.
    pub fn nudge(&mut self) {
        self.way.send_if_modified(|way| way.as_mut().map(|w| w.nudges += 1).is_some());
    }

    /// Starts following a log.
    pub fn open(&mut self, stream: StreamId, source: LogSource, out: &Out) {
        let follower = Follower { stream, out: out.clone(), way: self.way.subscribe() };
        let task = tokio::spawn(follower.follow(source));
        if let Some(before) = self.open.insert(stream, task.abort_handle()) {
            before.abort();
        }
    }

    /// Stops following a log.
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
            LogSource::Monitor(name) => self.follow_on_head(&name, None).await,
            LogSource::File { node, name } => self.follow_on_node(node, name.raw()).await,
        }
    }

    async fn send(&self, lines: Vec<Line>, end: LogEnd) {
        self.out.send(News::Log(LogBatch { stream: self.stream, lines, end })).await;
    }

    /// The way, once there is one. None when the cluster's task is gone.
    async fn way(&mut self) -> Option<Way> {
        let way = self.way.wait_for(Option::is_some).await.ok()?;
        way.clone()
    }

    /// Follows a job's log over Ray's WebSocket. If Ray cannot deliver the log, the file is read over ssh instead,
    /// unless Ray does not know the job or some lines were delivered already, which would be repeated.
    async fn follow_job(&mut self, id: SubmissionId) {
        loop {
            let follow = |clients| ray::follow_job(clients, &id, PAST, LineSplitter::ON_A_SCREEN);
            let Some(Refused { error, told }) = self.through_ray(follow).await else { return };
            let Some(way) = self.way().await else { return };
            if told || matches!(error, RayError::NotFound(_)) {
                return self.send(Vec::new(), LogEnd::Failed(error.to_string())).await;
            }
            if way.remote.is_some() {
                let why = format!("{error}; reading over ssh instead");
                self.send(Vec::new(), LogEnd::Interrupted(why)).await;
                return self.follow_on_head(&format!("job-driver-{}.log", id.0.raw()), Some(error)).await;
            }
            if !error.is_token() {
                return self.send(Vec::new(), LogEnd::Failed(error.to_string())).await;
            }
            // Another token may still come; it has been waited for, so that this is no hurry.
        }
    }

    /// A file in the head's log folder: through its shell where there is one, else through Ray. What is read `instead`
    /// of Ray's answer has to be there; else it is waited for.
    async fn follow_on_head(&mut self, name: &str, instead: Option<RayError>) {
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
            let read = match (tail.open(&remote).await, &instead) {
                (Ok(_), Some(error)) if !tail.is_there() => {
                    let why = format!("{error}, and the head has no {name}");
                    return self.send(Vec::new(), LogEnd::Failed(why)).await;
                }
                (Ok(stream), _) => self.read_on(&mut tail, stream, name).await,
                (Err(e), _) => Err(e),
            };
            let why = match read {
                Ok(()) => "the remote command ended".to_owned(),
                Err(e) => e.to_string(),
            };
            self.send(Vec::new(), LogEnd::Interrupted(format!("{why}; trying again"))).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read_on(&self, tail: &mut Tail, mut stream: RemoteStream, name: &str) -> Result<(), SshError> {
        // The stream is open again; new lines may take a while.
        let stands = if tail.is_there() {
            LogEnd::Open
        } else {
            LogEnd::Interrupted(format!("the head has no {name}; waiting for it"))
        };
        self.send(Vec::new(), stands).await;
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
        loop {
            let follow = |clients| ray::follow_log(clients, node, &name, PAST);
            let Some(Refused { error, told }) = self.through_ray(follow).await else { return };
            if told || !error.is_token() {
                return self.send(Vec::new(), LogEnd::Failed(error.to_string())).await;
            }
        }
    }

    /// Follows what `open` opens, to its end. Returns why it cannot be read, if so. Ray's stream reconnects by
    /// itself, also by another client (another token, other ports).
    async fn through_ray(&mut self, open: impl FnOnce(Clients) -> ray::Tail) -> Option<Refused> {
        let way = self.way().await?;
        let mut nudges = way.nudges;
        let (clients, heard) = watch::channel(Some(way.client));
        let mut log = open(heard);
        let mut told = false;
        loop {
            tokio::select! {
                changed = self.way.changed() => {
                    changed.ok()?;
                    let way = self.way.borrow_and_update().clone();
                    let nudged = way.as_ref().is_some_and(|w| std::mem::replace(&mut nudges, w.nudges) != w.nudges);
                    // Without a way the client is taken back: nothing is sent to where the head was.
                    let now = way.map(|w| w.client);
                    clients.send_if_modified(|before| {
                        let is_same = match (&now, &*before) {
                            (Some(now), Some(before)) => now.is_same(before),
                            (now, before) => now.is_none() && before.is_none(),
                        };
                        *before = now;
                        nudged || !is_same
                    });
                }
                event = log.next() => match event? {
                    LogEvent::Lines(lines) => {
                        told = true;
                        self.send(lines, LogEnd::Open).await;
                    }
                    LogEvent::Interrupted(why) | LogEvent::LeftOut(why) => self.send(Vec::new(), LogEnd::Interrupted(why)).await,
                    LogEvent::Resumed => self.send(Vec::new(), LogEnd::Open).await,
                    LogEvent::Complete => {
                        self.send(Vec::new(), LogEnd::Complete).await;
                        return None;
                    }
                    LogEvent::Failed(error) => return Some(Refused { error, told }),
                },
            }
        }
    }
}

/// Ray does not give a log.
struct Refused {
    error: RayError,
    /// Whether some lines were delivered already.
    told: bool,
}
