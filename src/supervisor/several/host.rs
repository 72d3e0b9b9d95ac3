//! Follows files of one host together with a single command, which is restarted at the last positions if it ends.

use super::super::container::{has_container, in_container, shell_join};
use super::super::host_search::HostAccess;
use super::super::log_access::{LogAccess, LogAccessWatch};
use super::super::log_file::{LOGS, ReadError, script};
use super::super::{Backoff, Options};
use crate::model::ClusterSpec;
use crate::model::cloud::TpuHost;
use crate::ray::{EndWatch, ends, has_ended};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

/// A host that sends nothing for this long, not even an empty round, counts as lost.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum backoff before logging in to a host again.
const MAX_BACKOFF: Duration = Duration::from_secs(15);
/// First byte of a line that is not part of a log.
const MARK: u8 = 0x1e;
/// Maximum length of such a line, in bytes.
const HEADER_MAX: usize = 200;

/// An event for the reader of a file.
#[derive(Debug)]
pub enum FileEvent {
    /// The next bytes of the log.
    Bytes(Bytes),
    /// The host sends data again.
    Again,
    /// The host sends nothing, with the reason; the connection is retried.
    Lost(String),
    /// A change of the file, such as a rotation.
    Note(String),
    /// The file is not read on its host; with the reason if the reader should report it.
    Elsewhere(Option<String>),
    /// The log has ended, and all its bytes were sent.
    Complete,
}

/// A file, and the channel to its reader.
pub struct FollowedFile {
    name: String,
    /// Its inode, and the position of the next byte; `None` before the first byte.
    position: Option<(u64, u64)>,
    /// Whether the bytes up to the first line break are the end of an earlier line, which is dropped.
    is_cut: bool,
    to: mpsc::Sender<FileEvent>,
}

impl FollowedFile {
    /// A file of which nothing has been read.
    pub fn new(name: String, to: mpsc::Sender<FileEvent>) -> Self {
        Self { name, position: None, is_cut: false, to }
    }

    /// Sends an event to the reader, ignoring a reader that is gone.
    async fn send(&self, what: FileEvent) {
        let _ = self.to.send(what).await;
    }

    /// Passes bytes to the reader.
    async fn bytes(&mut self, mut bytes: Bytes) {
        if let Some((_, at)) = &mut self.position {
            *at += bytes.len() as u64;
        }
        if self.is_cut {
            let Some(end) = bytes.iter().position(|b| *b == b'\n') else { return };
            bytes = bytes.slice(end + 1..);
            self.is_cut = false;
        }
        if !bytes.is_empty() {
            self.send(FileEvent::Bytes(bytes)).await;
        }
    }
}

/// The files of one host, with their positions.
pub struct Files {
    feeds: Vec<FollowedFile>,
    /// Number of lines before the end to start with, for each file.
    keep: u32,
    /// Whether the host has sent anything.
    has_output: bool,
    is_lost: bool,
    end: End,
}

/// How far ended files were read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The files had not ended when the command began.
    NotReached,
    /// They had, and are read to their ends; whether this round has sent any bytes.
    Near { has_new_bytes: bool },
    /// They were read to their ends.
    Reached,
}

/// The task that follows the files of one host with one remote command.
pub struct HostFiles {
    access_watch: LogAccessWatch,
    spec: Arc<ClusterSpec>,
    options: Arc<Options>,
    /// The host; `None` for the head.
    host: Option<TpuHost>,
    files: Files,
    logins: Arc<Semaphore>,
    ended: Option<EndWatch>,
    /// Whether to follow the files in the container that the cluster file names.
    inside: bool,
}

impl HostFiles {
    /// The files of this host, or of the head.
    pub fn new(
        access_watch: LogAccessWatch,
        (spec, options): (Arc<ClusterSpec>, Arc<Options>),
        host: Option<TpuHost>,
        files: Files,
        (logins, ended): (Arc<Semaphore>, Option<EndWatch>),
    ) -> Self {
        Self { access_watch, spec, options, host, files, logins, ended, inside: false }
    }

    /// Follows the files while any of them has a reader, and until they have ended.
    pub async fn run(mut self) {
        let mut backoff = Backoff::default();
        while self.files.is_read() && self.files.end != End::Reached {
            let log_access = self.access_watch.borrow_and_update().clone();
            let Some(log_access) = log_access else {
                self.files.lost("cluster not connected").await;
                if self.access_watch.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let Err(why) = self.follow(&log_access).await else { continue };
            if self.enters_container(&why) {
                continue;
            }
            if !self.files.has_output {
                return self.elsewhere(&why).await;
            }
            if !self.files.is_lost {
                // The host has sent data since the last attempt.
                backoff.reset();
            }
            self.files.lost(&reason(&why)).await;
            // A new connection is tried at once.
            tokio::select! {
                () = sleep(backoff.next(MAX_BACKOFF)) => {}
                changed = self.access_watch.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Whether to follow the files in the cluster's container from now on: the host itself has no log directory. A host
    /// that has sent data before has one again once Ray has started there.
    fn enters_container(&mut self, why: &ReadError) -> bool {
        let is_wanted = why.is_missing() && !self.files.has_output && has_container(&self.spec);
        is_wanted && !std::mem::replace(&mut self.inside, true)
    }

    /// The name of the host in messages.
    fn name(&self) -> String {
        self.host.as_ref().map_or_else(|| "the head".to_owned(), |host| host.internal.to_string())
    }

    /// Hands the files over to the dashboard.
    async fn elsewhere(&self, why: &ReadError) {
        let why = format!("{}: {}", self.name(), reason(why));
        for (number, feed) in self.files.feeds.iter().enumerate() {
            let why = format!("{why}; its logs are read through the dashboard");
            // Report the reason only once per host.
            feed.send(FileEvent::Elsewhere((number == 0).then_some(why))).await;
        }
    }

    /// Runs the command until it ends, no file has a reader, the connection changes, or the files end: bytes that are
    /// under way may be of a round before their end, so the command begins again at their positions.
    async fn follow(&mut self, log_access: &LogAccess) -> Result<(), ReadError> {
        let Some(remote) = log_access.remote.clone() else {
            return Err(ReadError::Failed("SSH is not available".to_owned()));
        };
        let line = self.command()?;
        let access = HostAccess {
            spec: &self.spec,
            options: &self.options,
            remote: remote.clone(),
            login: log_access.login.clone(),
        };
        self.files.begin(has_ended(self.ended.as_ref()));
        // The login is complete with the first output.
        let mut permit = self.logins.clone().acquire_owned().await.ok();
        let mut stream = access.begin(self.host.as_ref(), &line).await?;
        let mut frames = Frames::default();
        loop {
            let chunk = tokio::select! {
                chunk = timeout(SILENCE_TIMEOUT, stream.chunk()) => chunk,
                changed = self.access_watch.changed() => {
                    let log_access = self.access_watch.borrow_and_update();
                    // A new token does not affect a login; a new connection affects a command that runs over the
                    // head's.
                    let now = log_access.as_ref().and_then(|access| access.remote.as_ref());
                    let is_same = now.is_some_and(|now| now.is_same(&remote));
                    if changed.is_ok() && (is_same || (log_access.is_some() && self.host.is_some())) {
                        continue;
                    }
                    return Ok(());
                }
                () = ends(&mut self.ended), if self.files.end == End::NotReached => return Ok(()),
            };
            let bytes = match chunk {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => return Err(ReadError::Lost("the remote command ended".to_owned())),
                Ok(Err(why)) => return Err(why),
                Err(_) => {
                    return Err(ReadError::Lost(format!(
                        "no data received for {} s",
                        SILENCE_TIMEOUT.as_secs()
                    )));
                }
            };
            drop(permit.take());
            frames.push(bytes);
            while let Some(frame) = frames.next() {
                if !self.files.take(frame?).await {
                    return Ok(());
                }
            }
        }
    }

    fn command(&self) -> Result<String, ReadError> {
        let program = self.files.program();
        if !self.inside {
            return Ok(shell_join(&program));
        }
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        in_container(&self.spec, self.host.as_ref().map(|host| host.internal.raw()), &program)?
            .ok_or(ReadError::NoFolder)
    }
}

/// Why the files of a host cannot be read, without its name.
fn reason(why: &ReadError) -> String {
    match why {
        ReadError::NoFolder => "no Ray log directory".to_owned(),
        why => why.to_string(),
    }
}

impl Files {
    /// Files of which nothing has been read.
    pub fn new(feeds: Vec<FollowedFile>, keep: u32) -> Self {
        Self { feeds, keep, has_output: false, is_lost: false, end: End::NotReached }
    }

    /// A command begins to follow the files, which have ended or not.
    const fn begin(&mut self, has_ended: bool) {
        self.end = if has_ended { End::Near { has_new_bytes: false } } else { End::NotReached };
    }

    fn is_read(&self) -> bool {
        self.feeds.iter().any(|feed| !feed.to.is_closed())
    }

    async fn lost(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_lost, true) {
            for feed in &self.feeds {
                feed.send(FileEvent::Lost(why.to_owned())).await;
            }
        }
    }

    /// The command line that follows the files from their positions.
    fn program(&self) -> Vec<String> {
        // The name appears in the machine's process list; the script is passed as an argument.
        let program = ["sh", "-c", script::FOLLOW_SEVERAL, "marin-tui-follow-logs", LOGS];
        let mut program = program.map(str::to_owned).to_vec();
        program.push(self.keep.to_string());
        for feed in &self.feeds {
            let (inode, at) =
                feed.position.map_or_else(Default::default, |(i, at)| (i.to_string(), at.to_string()));
            program.extend([feed.name.clone(), inode, at]);
        }
        program
    }

    /// Handles a frame; returns whether to go on: any file has a reader, and not all were read to their ends.
    async fn take(&mut self, frame: Frame) -> bool {
        self.has_output = true;
        if std::mem::take(&mut self.is_lost) {
            for feed in &self.feeds {
                feed.send(FileEvent::Again).await;
            }
        }
        match frame {
            Frame::RoundEnd => match self.end {
                End::Near { has_new_bytes: false } => {
                    self.end = End::Reached;
                    for feed in &self.feeds {
                        feed.send(FileEvent::Complete).await;
                    }
                    return false;
                }
                // A round sends only a part of a file that has grown much.
                End::Near { has_new_bytes: true } => self.end = End::Near { has_new_bytes: false },
                End::NotReached | End::Reached => return self.is_read(),
            },
            Frame::Begin { file, inode, from } => {
                if let Some(feed) = self.feeds.get_mut(file) {
                    feed.is_cut = feed.position.is_none() && from > 0;
                    feed.position = Some((inode, from));
                }
            }
            Frame::Bytes { file, bytes } => {
                if let End::Near { has_new_bytes } = &mut self.end {
                    *has_new_bytes = true;
                }
                if let Some(feed) = self.feeds.get_mut(file) {
                    feed.bytes(bytes).await;
                }
            }
            Frame::Lost(file) => self.note(file, "was deleted; its last lines may be missing").await,
            Frame::Overtaken(file) => {
                self.note(file, "was rotated more than once; lines written in between are lost").await;
            }
            Frame::Replaced(file) => self.note(file, "was rotated; lines of the new file follow").await,
            Frame::Truncated(file) => self.note(file, "was truncated; reading it from the beginning").await,
            Frame::Unread(file, why) => {
                let Some(feed) = self.feeds.get(file) else { return true };
                match (feed.position, why) {
                    // The driver runs on another node, which has the log.
                    (None, ReadError::Missing) => feed.send(FileEvent::Elsewhere(None)).await,
                    (_, why) => self.note(file, &format!("cannot be read: {why}")).await,
                }
            }
        }
        true
    }

    async fn note(&self, file: usize, what: &str) {
        if let Some(feed) = self.feeds.get(file) {
            feed.send(FileEvent::Note(format!("{} {what}", feed.name))).await;
        }
    }
}

/// A part of the script's output. Files are numbered from 0.
#[derive(Debug)]
enum Frame {
    /// Bytes of a file follow, starting at this position.
    Begin {
        file: usize,
        inode: u64,
        from: u64,
    },
    /// The next bytes of the file.
    Bytes {
        file: usize,
        bytes: Bytes,
    },
    /// The file is gone, with the bytes that were not read. [`Frame::Replaced`] follows.
    Lost(usize),
    /// It was rotated more than once, and a rotated file was not read. [`Frame::Replaced`] follows.
    Overtaken(usize),
    Replaced(usize),
    Truncated(usize),
    Unread(usize, ReadError),
    /// A round over all files is complete.
    RoundEnd,
}

fn unexpected_output() -> ReadError {
    ReadError::Failed("unexpected output from the host's shell".to_owned())
}

/// Parses the output of the script.
#[derive(Default)]
struct Frames {
    held: Vec<u8>,
    received: Bytes,
    /// The file whose bytes follow, and the number of bytes left.
    open: Option<(usize, usize)>,
}

impl Frames {
    fn push(&mut self, bytes: Bytes) {
        self.received = bytes;
    }

    /// The next frame of the output received so far; `None` if it is incomplete.
    fn next(&mut self) -> Option<Result<Frame, ReadError>> {
        if self.received.is_empty() {
            return None;
        }
        if let Some((file, left)) = self.open {
            let bytes = self.received.split_to(left.min(self.received.len()));
            self.open = Some((file, left - bytes.len())).filter(|(_, left)| *left > 0);
            return Some(Ok(Frame::Bytes { file, bytes }));
        }
        let Some(end) = self.received.iter().position(|b| *b == b'\n') else {
            self.held.extend_from_slice(&std::mem::take(&mut self.received));
            return (self.held.len() > HEADER_MAX).then(|| Err(unexpected_output()));
        };
        let line = [&std::mem::take(&mut self.held), &self.received.split_to(end + 1)[..end]].concat();
        Some(self.header(&line).ok_or_else(unexpected_output))
    }

    fn header(&mut self, line: &[u8]) -> Option<Frame> {
        let line = str::from_utf8(line.strip_prefix(&[MARK])?).ok()?;
        let mut fields = line.split(' ');
        let kind = fields.next()?;
        if kind == "." {
            return Some(Frame::RoundEnd);
        }
        let mut number = || fields.next()?.parse::<u64>().ok();
        let file = usize::try_from(number()?).ok()?.checked_sub(1)?;
        Some(match kind {
            "b" => {
                let (inode, from, count) = (number()?, number()?, usize::try_from(number()?).ok()?);
                self.open = Some((file, count)).filter(|(_, count)| *count > 0);
                Frame::Begin { file, inode, from }
            }
            "l" => Frame::Lost(file),
            "s" => Frame::Overtaken(file),
            "r" => Frame::Replaced(file),
            "t" => Frame::Truncated(file),
            "n" => Frame::Unread(file, ReadError::of(i32::try_from(number()?).ok()?)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
