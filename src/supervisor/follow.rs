//! Follows a log: over ssh if its file is on the head, else through Ray's API. A stream outlives connections: it
//! waits for the way to come back and goes on where it was, without losing or repeating a line.

mod matching;

use super::connection::{Channel, Connection, ConnectionState};
use super::log_file::{ContentSearch, LogFile, Opened, ReadError, Start};
use super::position::{Another, Arrived, Position};
use crate::logs::Grep;
use crate::model::{ClusterSpec, LogSource, NodeId, SubmissionId};
use crate::ray::{self, Client, Clients, Closed, JobDetail, LogEvent, Outlet, Polled, RayError, Tail};
use crate::ssh::{Remote, RemoteStream, TunnelSpec};
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Pause before a broken stream is tried again, and between two looks for a file that is not there.
const PAUSE: Duration = Duration::from_secs(1);
/// Idle time after which a job's status is asked for: its file does not show when the job has ended.
const IDLE: Duration = Duration::from_secs(3);
/// Lines to begin with through Ray's API, in place of a number of bytes.
const LINES: u32 = 2000;
/// Bytes written during an interruption that a stream which began near the end still reads; of more, the end only.
const CATCH_UP: u64 = 16 << 20;

/// How to get at logs while a session is up.
#[derive(Clone)]
pub struct LogAccess {
    /// Client of Ray's log API.
    pub client: Client,
    /// The head's shell; none with `--address`.
    pub remote: Option<Remote>,
    /// The way over the head to other hosts; none with `--address`.
    pub login: Option<TunnelSpec>,
    /// The head's node id, once known.
    pub head: Option<NodeId>,
    /// How often the streams were asked to prove themselves or to try again at once.
    pub nudges: u64,
}

impl From<Channel> for LogAccess {
    fn from(Channel { client, remote, login, .. }: Channel) -> Self {
        Self { client, remote, login, head: None, nudges: 0 }
    }
}

/// The way that there is now; none while the cluster is not connected.
pub type LogAccessWatch = watch::Receiver<Option<LogAccess>>;

/// The ways of a connection, as they come and go.
pub fn ways(connection: &Connection) -> LogAccessWatch {
    let mut state = connection.watch();
    let (ways, heard) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            let way = match state.borrow_and_update().clone() {
                ConnectionState::Up(channel) => Some(LogAccess::from(*channel)),
                ConnectionState::Connecting(_) | ConnectionState::Down { .. } => None,
            };
            ways.send_replace(way);
            tokio::select! {
                () = ways.closed() => return,
                changed = state.changed() => if changed.is_err() { return },
            }
        }
    });
    heard
}

/// How long a log that could be shown waits for the head to say where the job's driver runs.
const TOLD: Duration = Duration::from_secs(2);

/// Whether a job's driver runs on another node than the head, so that its log is not there. A head that does not answer in
/// time may have the log.
pub async fn is_elsewhere(client: &Client, id: &SubmissionId, head: Option<NodeId>) -> bool {
    timeout(TOLD, client.is_elsewhere(id, head)).await.is_ok_and(|told| told.unwrap_or(false))
}

/// Follows a log. Lines are cut after `longest` bytes. A job's log ends with its job, other files never end.
pub fn follow(
    ways: LogAccessWatch,
    spec: Arc<ClusterSpec>,
    source: LogSource,
    start: Start,
    longest: usize,
) -> Tail {
    follow_from((start, None), ways, spec, source, longest)
}

/// The same, which of what the log has at the beginning passes on the lines that match, and then all that follows. Its
/// machine searches for them; where it cannot, all lines are passed on.
pub fn follow_matching(
    ways: LogAccessWatch,
    spec: Arc<ClusterSpec>,
    source: LogSource,
    (words, start): (Grep, Start),
    longest: usize,
) -> Tail {
    let sought = ContentSearch { start, to_end: false, ..ContentSearch::all(words) };
    follow_from((start, Some(sought)), ways, spec, source, longest)
}

fn follow_from(
    (start, sought): (Start, Option<ContentSearch>),
    ways: LogAccessWatch,
    spec: Arc<ClusterSpec>,
    source: LogSource,
    longest: usize,
) -> Tail {
    Tail::spawn(longest, move |out| async move {
        let (job, file, node) = match source {
            LogSource::Job(id) => (Some(id.clone()), LogFile::of_job(&id), None),
            LogSource::Monitor(name) => (None, LogFile::new(&name), None),
            LogSource::File { node, name } => (None, LogFile::new(name.raw()), Some(node)),
        };
        let position = Position::new(start);
        let follower = Follower { ways, spec, job, node, file, start, sought, position, out };
        follower.run().await
    })
}

struct Follower {
    ways: LogAccessWatch,
    spec: Arc<ClusterSpec>,
    /// The job whose driver log it is.
    job: Option<SubmissionId>,
    /// The node that the file is on; none for a job's, and for files of the head.
    node: Option<NodeId>,
    file: LogFile,
    start: Start,
    /// The lines that match in what the log has now, until they have come.
    sought: Option<ContentSearch>,
    position: Position,
    out: Outlet,
}

/// How one attempt to read the file on the head ended.
enum Ended {
    /// To be tried again: at once, or after a pause because of an interruption.
    Again,
    Broken(String),
    /// To be tried again after a pause: the log is not there yet.
    Waiting,
    /// The file is not on the head, or the head's shell cannot read it.
    Elsewhere,
    /// The job has ended and its log was read.
    Complete,
    Failed(RayError),
}

type Asked = Pin<Box<dyn Future<Output = Result<JobDetail, RayError>> + Send>>;

impl Follower {
    async fn run(mut self) -> Result<(), Closed> {
        let way = self.way().await?;
        let is_on_head = self.node.is_none() || self.node == way.head;
        if way.remote.is_some() && is_on_head && !self.over_ssh().await? {
            return Ok(());
        }
        if self.sought.take().is_some() {
            self.note("not searched on its host: all lines are read through the dashboard").await?;
        }
        self.through_ray().await
    }

    /// The way, once there is one.
    async fn way(&mut self) -> Result<LogAccess, Closed> {
        loop {
            if let Some(way) = &*self.ways.borrow_and_update() {
                return Ok(way.clone());
            }
            self.out.interrupted("cluster not connected").await?;
            self.rest(std::future::pending()).await?;
        }
    }

    /// Waits, but not longer than until the way changes; older parts that are asked for meanwhile are read.
    async fn rest(&mut self, over: impl Future<Output = ()>) -> Result<(), Closed> {
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return Ok(()),
                // Without a sender the program is shutting down.
                changed = self.ways.changed() => return changed.map_err(|_| Closed),
                before = self.out.asked() => self.answer(before).await?,
            }
        }
    }

    /// Follows the file on the head. Whether it is elsewhere.
    async fn over_ssh(&mut self) -> Result<bool, Closed> {
        loop {
            let way = self.way().await?;
            let Some(remote) = way.remote.clone() else { return Ok(true) };
            match self.read(&remote).await? {
                Ended::Again => {}
                Ended::Broken(why) => {
                    self.out.interrupted(why).await?;
                    self.rest(sleep(PAUSE)).await?;
                }
                Ended::Waiting => {
                    self.out.quiet().await?;
                    self.rest(sleep(PAUSE)).await?;
                }
                Ended::Elsewhere => return Ok(true),
                Ended::Failed(error) => {
                    self.out.failed(error).await?;
                    return Ok(false);
                }
                Ended::Complete => {
                    self.out.complete().await?;
                    loop {
                        self.rest(std::future::pending()).await?;
                    }
                }
            }
        }
    }

    /// Reads one stream of the file to its end.
    async fn read(&mut self, remote: &Remote) -> Result<Ended, Closed> {
        if self.sought.is_some() {
            return self.search(remote).await;
        }
        let from = self.position.next();
        let mut stream = match self.file.follow((remote, &self.spec), from) {
            Ok(stream) => stream,
            Err(why) => return self.unread(why).await,
        };
        let elsewhere = self.is_elsewhere();
        let (opened, elsewhere) = tokio::join!(self.opened(&mut stream), elsewhere);
        if elsewhere {
            return Ok(Ended::Elsewhere);
        }
        let (opened, rest) = match opened? {
            Ok(opened) => opened,
            Err(why) => return self.unread(why).await,
        };
        if matches!(self.start, Start::Bytes(_)) && self.position.is_behind(&opened, CATCH_UP) {
            self.note(
                "more lines were written in the meantime than can be read at once; scroll up to see them",
            )
            .await?;
            self.position.begin_again(self.start);
            return Ok(Ended::Again);
        }
        if let Some(another) = self.position.opened(&opened, &mut self.out).await? {
            self.note(&another.said(self.file.name())).await?;
        }
        // The stream is open again; new lines may take a while.
        self.out.quiet().await?;
        if let Arrived::Other = self.position.take(&rest, &mut self.out).await? {
            return self.rewritten().await;
        }
        let mut ask_at = Instant::now() + IDLE;
        let mut asked: Option<Asked> = None;
        loop {
            let patience = self.out.patience();
            let has_job = self.job.is_some();
            tokio::select! {
                chunk = stream.chunk() => match chunk {
                    Ok(Some(bytes)) => {
                        ask_at = Instant::now() + IDLE;
                        if let Arrived::Other = self.position.take(&bytes, &mut self.out).await? {
                            return self.rewritten().await;
                        }
                    }
                    Ok(None) => return Ok(Ended::Broken("the remote command ended".to_owned())),
                    Err(error) => return self.unread(error.into()).await,
                },
                before = self.out.asked() => self.answer(before).await?,
                changed = self.ways.changed() => {
                    changed.map_err(|_| Closed)?;
                    if self.ways.borrow_and_update().is_none() {
                        return Ok(Ended::Again);
                    }
                    // Another token, or somebody wants to know whether it works.
                    (ask_at, asked) = (Instant::now(), None);
                }
                () = sleep(patience.unwrap_or_default()), if patience.is_some() => {
                    if !has_job || !self.out.is_interrupted() {
                        self.out.quiet().await?;
                    } else {
                        self.out.flush().await?;
                    }
                }
                () = sleep_until(ask_at), if has_job && asked.is_none() => asked = self.ask(),
                answer = answer(&mut asked) => {
                    (ask_at, asked) = (Instant::now() + IDLE, None);
                    if let Some(ended) = self.heed(answer, remote).await? {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    /// The first line of a stream, and what came with it.
    async fn opened(
        &mut self,
        stream: &mut RemoteStream,
    ) -> Result<Result<(Opened, Vec<u8>), ReadError>, Closed> {
        let mut came = Vec::new();
        loop {
            match self.chunk(stream).await? {
                Ok(Some(bytes)) => came.extend_from_slice(&bytes),
                Ok(None) => return Ok(Err(ReadError::Lost("the remote command ended".to_owned()))),
                Err(why) => return Ok(Err(why)),
            }
            if let Some(opened) = Opened::take(&mut came) {
                return Ok(opened.map(|opened| (opened, came)));
            }
        }
    }

    /// The next bytes of a stream; none at its end. It is lost with the connection.
    async fn chunk(&mut self, stream: &mut RemoteStream) -> Result<Result<Option<Bytes>, ReadError>, Closed> {
        loop {
            tokio::select! {
                chunk = stream.chunk() => return Ok(chunk.map_err(ReadError::from)),
                changed = self.ways.changed() => {
                    changed.map_err(|_| Closed)?;
                    if self.ways.borrow_and_update().is_none() {
                        return Ok(Err(ReadError::Lost("cluster not connected".to_owned())));
                    }
                }
            }
        }
    }

    async fn note(&mut self, what: &str) -> Result<(), Closed> {
        self.out.flush().await?;
        self.out.send(LogEvent::Note(what.to_owned())).await
    }

    /// What stands at the position is not what was read there.
    async fn rewritten(&mut self) -> Result<Ended, Closed> {
        self.note(&Another::Replaced.said(self.file.name())).await?;
        self.position.begin_again(Start::Beginning);
        Ok(Ended::Again)
    }

    /// What it means that the file cannot be read.
    async fn unread(&mut self, why: ReadError) -> Result<Ended, Closed> {
        let name = self.file.name().to_owned();
        let is_new = self.position.is_new();
        match why {
            ReadError::Replaced => {
                self.note(&format!("{name} was rotated; the new file follows")).await?;
                self.position.begin_again(Start::Beginning);
                Ok(Ended::Again)
            }
            ReadError::Truncated => {
                self.note(&Another::Truncated.said(&name)).await?;
                self.position.begin_again(Start::Beginning);
                Ok(Ended::Again)
            }
            ReadError::NoFolder if is_new && self.file.enter(&self.spec) => Ok(Ended::Again),
            ReadError::NoFolder if is_new => Ok(Ended::Elsewhere),
            ReadError::Failed(_) | ReadError::Refused(_) | ReadError::Utf16 if is_new => {
                self.note(&self.file.elsewhere(&why)).await?;
                Ok(Ended::Elsewhere)
            }
            ReadError::Missing | ReadError::NoFolder => self.missing(&name).await,
            ReadError::Refused(_) | ReadError::Utf16 => Ok(Ended::Broken(format!("{name}: {why}"))),
            ReadError::Lost(why) | ReadError::Failed(why) => Ok(Ended::Broken(why)),
        }
    }

    /// The head has no such file: it is not there yet, or on another node, or gone with its job.
    async fn missing(&mut self, name: &str) -> Result<Ended, Closed> {
        let Some(asked) = self.ask() else {
            return Ok(Ended::Broken(format!("{name} does not exist on the head; waiting for it")));
        };
        Ok(match asked.await {
            Ok(JobDetail { job, .. }) => match job.driver_node {
                None if job.status.is_ended() => Ended::Complete,
                Some(_) if job.status.is_ended() && !self.position.is_new() => Ended::Complete,
                Some(node) if self.position.is_new() && self.head() != Some(node) => Ended::Elsewhere,
                Some(_) if job.status.is_ended() => Ended::Elsewhere,
                None | Some(_) => Ended::Waiting,
            },
            Err(error) => refused(error),
        })
    }

    fn head(&self) -> Option<NodeId> {
        self.ways.borrow().as_ref()?.head
    }

    /// Whether the job's driver runs on another node, if that is not known by what was read before.
    fn is_elsewhere(&self) -> impl Future<Output = bool> + use<> {
        let way = self.ways.borrow().clone();
        let job = self.job.clone().filter(|_| self.position.is_new());
        async move {
            let (Some(way), Some(job)) = (way, job) else { return false };
            is_elsewhere(&way.client, &job, way.head).await
        }
    }

    /// Asks for the job's status; none when there is no job or no way.
    fn ask(&self) -> Option<Asked> {
        let id = self.job.clone()?;
        let client = self.ways.borrow().as_ref()?.client.clone();
        Some(Box::pin(async move { client.job(&id).await }))
    }

    /// What the job's status means for its log, of which nothing has come for a while.
    async fn heed(
        &mut self,
        answer: Result<JobDetail, RayError>,
        remote: &Remote,
    ) -> Result<Option<Ended>, Closed> {
        match answer {
            Ok(detail) if detail.job.status.is_ended() => {
                let rest = match self.position.known() {
                    Some((inode, at)) => self.file.part((remote, &self.spec), inode, at..at + 1).await,
                    None => Ok(Vec::new()),
                };
                Ok(match rest {
                    Ok(rest) if !rest.is_empty() => None,
                    Ok(_) | Err(ReadError::Missing | ReadError::Replaced | ReadError::NoFolder) => {
                        Some(Ended::Complete)
                    }
                    Err(why) => Some(self.unread(why).await?),
                })
            }
            Ok(_) => {
                self.out.quiet().await?;
                Ok(None)
            }
            Err(error) => match refused(error) {
                // Lines still come.
                Ended::Broken(why) => {
                    self.out.interrupted(why).await?;
                    Ok(None)
                }
                ended => Ok(Some(ended)),
            },
        }
    }

    /// Reads an older part of the file and passes it on.
    async fn answer(&mut self, before: u64) -> Result<(), Closed> {
        let remote = self.ways.borrow().as_ref().and_then(|way| way.remote.clone());
        let part = match remote {
            Some(remote) => self.position.older(before, &self.file, (&remote, &self.spec)).await,
            None => Err("the cluster is not connected".to_owned()),
        };
        self.out.send(LogEvent::Older(part)).await
    }

    /// Follows the file through Ray's API.
    async fn through_ray(mut self) -> Result<(), Closed> {
        let lines = match self.start {
            Start::Beginning | Start::At { .. } => u32::MAX,
            Start::Lines(lines) => lines,
            Start::Bytes(_) => LINES,
        };
        let clients = clients(self.ways.clone());
        if let Some(id) = self.job {
            if matches!(self.start, Start::Beginning | Start::At { .. }) {
                return ray::follow_whole(clients, id, self.out).await;
            }
            return ray::poll(clients, Polled::Job(id), lines, self.out).await;
        }
        let node = match self.node {
            Some(node) => node,
            // Without ssh the head's id is needed; it comes with the first snapshot.
            None => head(&mut self.ways).await?,
        };
        ray::poll(clients, Polled::File(node, self.file.name().into()), lines, self.out).await
    }
}

/// Resolves with the answer that is waited for, never without one.
async fn answer(asked: &mut Option<Asked>) -> Result<JobDetail, RayError> {
    match asked {
        Some(asked) => asked.await,
        None => std::future::pending().await,
    }
}

/// The head's node id, once it is known.
pub(super) async fn head(ways: &mut LogAccessWatch) -> Result<NodeId, Closed> {
    loop {
        let head = ways.borrow_and_update().as_ref().and_then(|way| way.head);
        if let Some(head) = head {
            return Ok(head);
        }
        ways.changed().await.map_err(|_| Closed)?;
    }
}

/// The client of each way. Without a way the client is taken back: nothing is sent to where the head was.
pub(super) fn clients(mut ways: LogAccessWatch) -> Clients {
    let way = ways.borrow_and_update().clone();
    let mut nudges = way.as_ref().map_or(0, |way| way.nudges);
    let (clients, heard) = watch::channel(way.map(|way| way.client));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = clients.closed() => return,
                changed = ways.changed() => if changed.is_err() { return },
            }
            let way = ways.borrow_and_update().clone();
            let nudged = way.as_ref().is_some_and(|w| std::mem::replace(&mut nudges, w.nudges) != w.nudges);
            let now = way.map(|way| way.client);
            clients.send_if_modified(|before| {
                let is_same = match (&now, &*before) {
                    (Some(now), Some(before)) => now.is_same(before),
                    (now, before) => now.is_none() && before.is_none(),
                };
                *before = now;
                nudged || !is_same
            });
        }
    });
    heard
}

/// What it means that Ray's API refuses to give a log.
fn refused(error: RayError) -> Ended {
    match error {
        error if error.is_token() => Ended::Broken(format!("{error}; waiting for a new token")),
        error if error.is_final() => Ended::Failed(error),
        error => Ended::Broken(error.to_string()),
    }
}
