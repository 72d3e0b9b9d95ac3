//! Follows a log: over ssh if its file is on the head, otherwise through Ray's API. A stream survives lost connections:
//! it waits for the next connection and continues at its position, without losing or repeating a line.

mod matching;
mod place;

use super::driver::{DriverPlace, MAX_UNANSWERED};
use super::log_access::{LogAccess, LogAccessWatch, clients, head};
use super::log_file::{ContentSearch, LogFile, Opened, ReadError, Start};
use super::position::{Arrived, FileChange, Position};
use crate::logs::Grep;
use crate::model::{ClusterSpec, LogSource, NodeId, SubmissionId};
use crate::ray::{self, Closed, JobDetail, LogEvent, LogStream, Outlet, Polled, RayError};
use crate::ssh::{Remote, RemoteStream};
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Pause before a broken stream is retried, and between checks for a file that does not exist yet.
const PAUSE: Duration = Duration::from_secs(1);
/// Idle time after which the job's status is requested, because its log file does not show that the job has ended.
const STATUS_AFTER: Duration = Duration::from_secs(3);
/// Number of lines to start with through Ray's API, which takes no number of bytes.
const INITIAL_LINES: u32 = 2000;
/// Maximum number of bytes, written during an interruption, that a stream that began near the end still reads; of more,
/// only the end is read.
const CATCH_UP: u64 = 16 << 20;

/// Follows a log. Lines are cut after `longest` bytes. The log of a job ends with the job; other files never end.
pub fn follow(
    access_watch: LogAccessWatch,
    spec: Arc<ClusterSpec>,
    source: LogSource,
    start: Start,
    longest: usize,
) -> LogStream {
    follow_from((start, None), access_watch, spec, source, longest)
}

/// Like [`follow`], but of the existing lines passes on only those that match, and then all new lines. The machine that
/// has the file searches it; if it cannot, all lines are passed on.
pub fn follow_matching(
    access_watch: LogAccessWatch,
    spec: Arc<ClusterSpec>,
    source: LogSource,
    (words, start): (Grep, Start),
    longest: usize,
) -> LogStream {
    let query = ContentSearch { start, to_end: false, ..ContentSearch::all(words) };
    follow_from((start, Some(query)), access_watch, spec, source, longest)
}

fn follow_from(
    (start, query): (Start, Option<ContentSearch>),
    access_watch: LogAccessWatch,
    spec: Arc<ClusterSpec>,
    source: LogSource,
    longest: usize,
) -> LogStream {
    LogStream::spawn(longest, move |out| async move {
        let (job, file, node) = match source {
            LogSource::Job(id) => (Some(id.clone()), LogFile::of_job(&id), None),
            LogSource::Monitor(name) => (None, LogFile::new(&name), None),
            LogSource::File { node, name } => (None, LogFile::new(name.raw()), Some(node)),
        };
        Follower::new(access_watch, spec, (job, node, file), (start, query), out).run().await
    })
}

struct Follower {
    access_watch: LogAccessWatch,
    spec: Arc<ClusterSpec>,
    /// The job, if the log is that of its driver.
    job: Option<SubmissionId>,
    /// The node that has the file; `None` for the log of a job and for files on the head.
    node: Option<NodeId>,
    file: LogFile,
    start: Start,
    /// The search of the existing lines, until it is complete.
    query: Option<ContentSearch>,
    position: Position,
    /// Whether the driver is known to run on the head. Until it starts, the head has a file with the name of its log,
    /// wherever it will run.
    is_placed: bool,
    /// Whether the job had no driver when its log was opened: then all lines of the driver are new.
    is_from_start: bool,
    /// Number of consecutive queries, since the job ended, for which Ray did not report the head's id.
    unanswered: u32,
    out: Outlet,
}

/// How an attempt to read the file on the head ended.
enum Ended {
    /// Retry: at once, or after a pause if it was interrupted.
    Again,
    Broken(String),
    /// Retry after a pause: the log does not exist yet.
    Waiting,
    /// The file is not on the head, or the head's shell cannot read it.
    Elsewhere,
    /// The job has ended and its log was read completely.
    Complete,
    Failed(RayError),
}

type StatusRequest = Pin<Box<dyn Future<Output = Result<JobDetail, RayError>> + Send>>;

impl Follower {
    fn new(
        access_watch: LogAccessWatch,
        spec: Arc<ClusterSpec>,
        (job, node, file): (Option<SubmissionId>, Option<NodeId>, LogFile),
        (start, query): (Start, Option<ContentSearch>),
        out: Outlet,
    ) -> Self {
        let position = Position::new(start);
        let (is_placed, is_from_start, unanswered) = (false, false, 0);
        Self {
            access_watch,
            spec,
            job,
            node,
            file,
            start,
            query,
            position,
            is_placed,
            is_from_start,
            unanswered,
            out,
        }
    }

    async fn run(mut self) -> Result<(), Closed> {
        let access = self.wait_for_access().await?;
        let is_on_head = self.node.is_none() || self.node == access.head;
        if access.remote.is_some() && is_on_head && !self.over_ssh().await? {
            return Ok(());
        }
        if self.query.take().is_some() {
            self.note("not searched on its host: all lines are read through the dashboard").await?;
        }
        self.through_ray().await
    }

    /// Waits for access to the log.
    async fn wait_for_access(&mut self) -> Result<LogAccess, Closed> {
        loop {
            if let Some(access) = &*self.access_watch.borrow_and_update() {
                return Ok(access.clone());
            }
            self.out.interrupted("cluster not connected").await?;
            self.wait(std::future::pending()).await?;
        }
    }

    /// Waits for `over` or a change of access. Meanwhile, sends older parts that are requested.
    async fn wait(&mut self, over: impl Future<Output = ()>) -> Result<(), Closed> {
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return Ok(()),
                // If the sender is gone, the program is shutting down.
                changed = self.access_watch.changed() => return changed.map_err(|_| Closed),
                before = self.out.older_request() => self.send_older(before).await?,
            }
        }
    }

    /// Follows the file on the head. Returns whether it is elsewhere.
    async fn over_ssh(&mut self) -> Result<bool, Closed> {
        loop {
            let access = self.wait_for_access().await?;
            let Some(remote) = access.remote.clone() else { return Ok(true) };
            match self.read(&remote).await? {
                Ended::Again => {}
                Ended::Broken(why) => {
                    self.out.interrupted(why).await?;
                    self.wait(sleep(PAUSE)).await?;
                }
                Ended::Waiting => {
                    self.out.quiet().await?;
                    self.wait(sleep(PAUSE)).await?;
                }
                Ended::Elsewhere => return Ok(true),
                Ended::Failed(error) => {
                    self.out.failed(error).await?;
                    return Ok(false);
                }
                Ended::Complete => {
                    self.out.complete().await?;
                    loop {
                        self.wait(std::future::pending()).await?;
                    }
                }
            }
        }
    }

    /// Reads a stream of the file to its end.
    async fn read(&mut self, remote: &Remote) -> Result<Ended, Closed> {
        if self.query.is_some() {
            return self.search(remote).await;
        }
        let from = self.position.next();
        let mut stream = match self.file.follow((remote, &self.spec), from) {
            Ok(stream) => stream,
            Err(why) => return self.unread(why).await,
        };
        let place = self.place();
        let (opened, place) = tokio::join!(self.opened(&mut stream), place);
        if self.take_place(place) {
            return Ok(Ended::Elsewhere);
        }
        let (opened, rest) = match opened? {
            Ok(opened) => opened,
            Err(why) => return self.unread(why).await,
        };
        if let Some(ended) = self.begin(&opened, &rest).await? {
            return Ok(ended);
        }
        self.read_on(&mut stream, remote).await
    }

    /// Takes up the position in the opened file. `rest` are the bytes that were received with it. Returns how the
    /// attempt ended if the stream cannot be read on.
    async fn begin(&mut self, opened: &Opened, rest: &[u8]) -> Result<Option<Ended>, Closed> {
        if matches!(self.start, Start::Bytes(_)) && self.position.is_behind(opened, CATCH_UP) {
            self.note(
                "more lines were written in the meantime than can be read at once; scroll up to see them",
            )
            .await?;
            self.position.begin_again(self.start);
            return Ok(Some(Ended::Again));
        }
        if let Some(change) = self.position.opened(opened, &mut self.out).await? {
            self.is_placed = false;
            self.note(&change.message(self.file.name())).await?;
        }
        // The stream is open again, but new lines may take a while.
        self.out.quiet().await?;
        match self.position.take(rest, &mut self.out).await? {
            Arrived::Same => Ok(None),
            Arrived::Other => self.rewritten().await.map(Some),
        }
    }

    /// Passes on the lines of an open stream. Requests the job's status whenever the log has been idle for a while.
    async fn read_on(&mut self, stream: &mut RemoteStream, remote: &Remote) -> Result<Ended, Closed> {
        let mut request_at = Instant::now() + STATUS_AFTER;
        let mut pending: Option<StatusRequest> = None;
        loop {
            let idle_limit = self.out.idle_limit();
            let has_job = self.job.is_some();
            tokio::select! {
                chunk = stream.chunk() => match chunk {
                    Ok(Some(bytes)) => {
                        request_at = Instant::now() + STATUS_AFTER;
                        if let Arrived::Other = self.position.take(&bytes, &mut self.out).await? {
                            return self.rewritten().await;
                        }
                    }
                    Ok(None) => return Ok(Ended::Broken("the remote command ended".to_owned())),
                    Err(error) => return self.unread(error.into()).await,
                },
                before = self.out.older_request() => self.send_older(before).await?,
                changed = self.access_watch.changed() => {
                    changed.map_err(|_| Closed)?;
                    if self.access_watch.borrow_and_update().is_none() {
                        return Ok(Ended::Again);
                    }
                    // The token changed, or a check of the connection was requested.
                    (request_at, pending) = (Instant::now(), None);
                }
                () = sleep(idle_limit.unwrap_or_default()), if idle_limit.is_some() => {
                    if !has_job || !self.out.is_interrupted() {
                        self.out.quiet().await?;
                    } else {
                        self.out.flush().await?;
                    }
                }
                () = sleep_until(request_at), if has_job && pending.is_none() => pending = self.request_status(),
                answer = resolved(&mut pending) => {
                    (request_at, pending) = (Instant::now() + STATUS_AFTER, None);
                    if let Some(ended) = self.handle_status(answer, remote).await? {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    /// Reads the first line of a stream, and the bytes received with it.
    async fn opened(
        &mut self,
        stream: &mut RemoteStream,
    ) -> Result<Result<(Opened, Vec<u8>), ReadError>, Closed> {
        let mut received = Vec::new();
        loop {
            match self.chunk(stream).await? {
                Ok(Some(bytes)) => received.extend_from_slice(&bytes),
                Ok(None) => return Ok(Err(ReadError::Lost("the remote command ended".to_owned()))),
                Err(why) => return Ok(Err(why)),
            }
            if let Some(opened) = Opened::take(&mut received) {
                return Ok(opened.map(|opened| (opened, received)));
            }
        }
    }

    /// The next bytes of a stream; `None` at its end. An error means that the connection was lost.
    async fn chunk(&mut self, stream: &mut RemoteStream) -> Result<Result<Option<Bytes>, ReadError>, Closed> {
        loop {
            tokio::select! {
                chunk = stream.chunk() => return Ok(chunk.map_err(ReadError::from)),
                changed = self.access_watch.changed() => {
                    changed.map_err(|_| Closed)?;
                    if self.access_watch.borrow_and_update().is_none() {
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

    /// Handles a file whose content at the position differs from what was read there.
    async fn rewritten(&mut self) -> Result<Ended, Closed> {
        self.note(&FileChange::Replaced.message(self.file.name())).await?;
        self.position.begin_again(Start::Beginning);
        Ok(Ended::Again)
    }

    /// Handles a file that cannot be read.
    async fn unread(&mut self, why: ReadError) -> Result<Ended, Closed> {
        let name = self.file.name().to_owned();
        let is_new = self.position.is_new();
        if is_new && self.file.enter_after(&why, &self.spec) {
            return Ok(Ended::Again);
        }
        match why {
            ReadError::Replaced => {
                self.note(&format!("{name} was rotated; lines of the new file follow")).await?;
                self.position.begin_again(Start::Beginning);
                Ok(Ended::Again)
            }
            ReadError::Overtaken => {
                self.note(&FileChange::Overtaken.message(&name)).await?;
                self.position.begin_again(Start::Beginning);
                Ok(Ended::Again)
            }
            ReadError::Truncated => {
                self.note(&FileChange::Truncated.message(&name)).await?;
                self.position.begin_again(Start::Beginning);
                Ok(Ended::Again)
            }
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

    /// Handles a file that is missing on the head: it does not exist yet, is on another node, or was removed with its
    /// job.
    async fn missing(&mut self, name: &str) -> Result<Ended, Closed> {
        let Some(request) = self.request_status() else {
            return Ok(Ended::Broken(format!("{name} does not exist on the head; waiting for it")));
        };
        Ok(match request.await {
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
        self.access_watch.borrow().as_ref()?.head
    }

    /// Requests the job's status; `None` if there is no job or no access.
    fn request_status(&self) -> Option<StatusRequest> {
        let id = self.job.clone()?;
        let client = self.access_watch.borrow().as_ref()?.client.clone();
        Some(Box::pin(async move { client.job(&id).await }))
    }

    /// Interprets the job's status for a log that has been idle for a while.
    async fn handle_status(
        &mut self,
        answer: Result<JobDetail, RayError>,
        remote: &Remote,
    ) -> Result<Option<Ended>, Closed> {
        let place = match &answer {
            Ok(detail) => self.place_of(&detail.job).await,
            Err(_) => DriverPlace::Unknown,
        };
        if self.take_place(place) {
            return Ok(Some(Ended::Elsewhere));
        }
        match answer {
            Ok(detail)
                if detail.job.status.is_ended()
                    && place == DriverPlace::Unknown
                    && self.unanswered < MAX_UNANSWERED =>
            {
                // It may be another node, which has the log.
                self.out.interrupted("Ray does not report which node is the head").await?;
                Ok(None)
            }
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
                // Lines are still arriving.
                Ended::Broken(why) => {
                    self.out.interrupted(why).await?;
                    Ok(None)
                }
                ended => Ok(Some(ended)),
            },
        }
    }

    /// Reads an older part of the file and passes it on.
    async fn send_older(&mut self, before: u64) -> Result<(), Closed> {
        let remote = self.access_watch.borrow().as_ref().and_then(|access| access.remote.clone());
        let part = match remote {
            Some(remote) => self.position.older(before, &self.file, (&remote, &self.spec)).await,
            None => Err("the cluster is not connected".to_owned()),
        };
        self.out.send(LogEvent::Older(part)).await
    }

    /// Follows the file through Ray's API.
    async fn through_ray(mut self) -> Result<(), Closed> {
        if !self.position.is_new() {
            // The lines that the head had before the driver started on another node are complete.
            self.out.seek(self.out.at(), Some(0)).await?;
        }
        let lines = match self.start {
            Start::Lines(lines) if !self.is_from_start => lines,
            Start::Bytes(_) if !self.is_from_start => INITIAL_LINES,
            Start::Beginning | Start::At { .. } | Start::Lines(_) | Start::Bytes(_) => u32::MAX,
        };
        let clients = clients(self.access_watch.clone());
        if let Some(id) = self.job {
            if matches!(self.start, Start::Beginning | Start::At { .. }) {
                return ray::follow_whole(clients, id, self.out).await;
            }
            return ray::poll(clients, Polled::Job(id), lines, None, self.out).await;
        }
        let node = match self.node {
            Some(node) => node,
            // Without ssh, the head's node id is needed; the first snapshot has it.
            None => head(&mut self.access_watch).await?,
        };
        ray::poll(clients, Polled::File(node, self.file.name().into()), lines, None, self.out).await
    }
}

/// Resolves with the pending answer; pends forever if there is none.
async fn resolved(pending: &mut Option<StatusRequest>) -> Result<JobDetail, RayError> {
    match pending {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

/// Interprets an error of Ray's log API.
fn refused(error: RayError) -> Ended {
    match error {
        error if error.is_token() => Ended::Broken(format!("{error}; waiting for a new token")),
        error if error.is_final() => Ended::Failed(error),
        error => Ended::Broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::LineSplitter;
    use crate::model::Provider;
    use tokio::sync::watch;

    #[tokio::test]
    async fn lines_between_two_rotations_are_reported_as_lost() {
        let (_access, access_watch) = watch::channel(None);
        let spec = Arc::new(ClusterSpec::sample("lab", Provider::Local));
        let mut stream = LogStream::spawn(LineSplitter::ON_A_SCREEN, move |out| async move {
            let (file, from) = (LogFile::new("monitor.log"), (Start::Beginning, None));
            let mut follower = Follower::new(access_watch, spec, (None, None, file), from, out);
            let ended = follower.unread(ReadError::Overtaken).await?;
            follower.note(&matches!(ended, Ended::Again).to_string()).await
        });
        for what in ["monitor.log was rotated more than once; lines written in between are lost", "true"] {
            assert_eq!(stream.next().await, Some(LogEvent::Note(what.to_owned())));
        }
    }

    #[tokio::test]
    async fn a_log_that_the_head_does_not_have_is_looked_for_in_its_container() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.yaml");
        let text = "cluster_name: lab\ndocker: {image: i, container_name: ray_docker}\n";
        std::fs::write(&path, text).unwrap();
        let has_none = ClusterSpec::sample("lab", Provider::Local);
        let has_one = ClusterSpec { file: Some(path), ..has_none.clone() };
        let (_access, access_watch) = watch::channel(None);
        for (spec, is_entered) in [(has_one, true), (has_none, false)] {
            let (access_watch, file) = (access_watch.clone(), LogFile::new("monitor.log"));
            let mut stream = LogStream::spawn(LineSplitter::ON_A_SCREEN, move |out| async move {
                let from = (Start::Beginning, None);
                let mut follower = Follower::new(access_watch, Arc::new(spec), (None, None, file), from, out);
                let first = follower.unread(ReadError::Missing).await?;
                let second = follower.unread(ReadError::Missing).await?;
                let is_waiting = matches!(&second, Ended::Broken(why) if why.contains("waiting for it"));
                let outcome = format!("{} {is_waiting}", matches!(first, Ended::Again));
                follower.note(&outcome).await
            });
            assert_eq!(stream.next().await, Some(LogEvent::Note(format!("{is_entered} true"))));
        }
    }
}
