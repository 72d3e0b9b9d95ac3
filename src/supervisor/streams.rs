//! The open log streams of one cluster, for the console. Each is a separate task that survives lost connections.

use super::Options;
use super::download::download;
use super::file_search::search_files;
use super::follow::follow;
use super::log_access::{LogAccess, LogAccessWatch};
use super::log_file::Start;
use super::out::UpdateSender;
use super::search::search;
use super::several::{Followed, follow_several};
use crate::logs::LineSplitter;
use crate::model::cloud::TpuHost;
use crate::model::{
    ClusterEvent, ClusterSpec, FileSearch, Line, LogBatch, LogEnd, LogPart, LogSource, NodeId, NotSearched,
    StreamId,
};
use crate::ray::{Client, LogEvent, LogStream};
use crate::task;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;

/// Number of bytes read when a log is opened: several screens of lines.
const OPENING_READ: Start = Start::Bytes(256 << 10);

/// Number of lines read of each log when several are opened together.
const FIRST_OF_SEVERAL: u32 = 200;

/// Pause before the time zone is requested again after an error; it doubles with each error, up to the maximum.
const ZONE_PAUSE: Duration = Duration::from_secs(5);
const MAX_ZONE_PAUSE: Duration = Duration::from_secs(300);

/// The open streams of one cluster.
pub struct Streams {
    spec: Arc<ClusterSpec>,
    options: Arc<Options>,
    access: watch::Sender<Option<LogAccess>>,
    open: HashMap<StreamId, Open>,
    /// The UTC offset of the head's clock in seconds, once it was read. It is read for the first log that is opened.
    utc_offset: Option<watch::Receiver<Option<i32>>>,
    /// The search through many files, if one is running.
    search_files: Option<AbortHandle>,
}

struct Open {
    source: LogSource,
    task: AbortHandle,
    /// The search of the whole file on its host, if one is running.
    search: Option<AbortHandle>,
    /// The download of the whole file for a search, if one is running.
    download: Option<AbortHandle>,
    /// Requests for older parts, each by the position where the part ends.
    older: mpsc::UnboundedSender<u64>,
}

impl Streams {
    /// No streams, and no access yet.
    pub fn new(spec: Arc<ClusterSpec>, options: Arc<Options>) -> Self {
        let (access, open) = (watch::Sender::new(None), HashMap::new());
        Self { spec, options, access, open, utc_offset: None, search_files: None }
    }

    /// Sets the access to logs, or removes it.
    pub fn set_access(&mut self, access: Option<LogAccess>) {
        self.access.send_replace(access);
    }

    /// Sets the head's node id.
    pub fn set_head(&mut self, head: Option<NodeId>) {
        self.access.send_if_modified(|access| match access {
            Some(access) if access.head != head => {
                access.head = head;
                true
            }
            _ => false,
        });
    }

    /// Sets the client for a new token.
    pub fn set_client(&mut self, client: &Client) {
        self.access.send_if_modified(|access| access.as_mut().map(|w| w.client = client.clone()).is_some());
    }

    /// Makes each stream check its connection, or retry at once.
    pub fn nudge(&mut self) {
        self.access.send_if_modified(|access| access.as_mut().map(|w| w.nudges += 1).is_some());
    }

    /// Starts following a log.
    pub fn open(&mut self, stream: StreamId, source: LogSource, out: &UpdateSender) {
        let (access_watch, spec) = (self.access.subscribe(), Arc::clone(&self.spec));
        let tail = follow(access_watch, spec, source.clone(), OPENING_READ, LineSplitter::ON_A_SCREEN);
        self.start(stream, source, tail, out);
    }

    fn start(&mut self, stream: StreamId, source: LogSource, tail: LogStream, out: &UpdateSender) {
        let zone = report_time_zone(self.utc_offset(), stream, out.clone());
        let (older, requests) = mpsc::unbounded_channel();
        let lines = pass_on(tail, requests, stream, out.clone());
        let task = task::spawn(async move { tokio::join!(zone, lines) }).abort_handle();
        if let Some(before) =
            self.open.insert(stream, Open { source, task, search: None, download: None, older })
        {
            before.abort();
        }
    }

    /// The UTC offset of the head's clock, which is read once for all streams. If the head refused the request for an
    /// earlier stream, it is requested again.
    fn utc_offset(&mut self) -> watch::Receiver<Option<i32>> {
        let access = &self.access;
        let was_refused =
            |read: &watch::Receiver<Option<i32>>| read.borrow().is_none() && read.has_changed().is_err();
        if self.utc_offset.as_ref().is_some_and(was_refused) {
            self.utc_offset = None;
        }
        let read = self.utc_offset.get_or_insert_with(|| {
            let (sender, receiver) = watch::channel(None);
            // Ends with these streams, whose access it waits for.
            task::spawn(read_utc_offset(access.subscribe(), sender, ZONE_PAUSE));
            receiver
        });
        read.clone()
    }

    /// Starts following several logs together.
    pub fn open_several(&mut self, logs: Vec<(StreamId, LogSource, Option<TpuHost>)>, out: &UpdateSender) {
        let access_watch = self.access.subscribe();
        let followed = logs.iter().map(|(_, source, host)| Followed {
            source: source.clone(),
            host: host.clone(),
            keep: FIRST_OF_SEVERAL,
        });
        let of = (&self.spec, &self.options);
        let tails = follow_several(&access_watch, of, followed.collect(), None, LineSplitter::ON_A_SCREEN);
        for ((stream, source, _), tail) in logs.into_iter().zip(tails) {
            self.start(stream, source, tail, out);
        }
    }

    /// Requests the part of an open log that ends at this position.
    pub fn ask_older(&self, stream: StreamId, before: u64) {
        if let Some(open) = self.open.get(&stream) {
            // A stream that has failed does not answer.
            let _ = open.older.send(before);
        }
    }

    /// Searches the whole file of an open log, on its host; cancels an earlier search of it.
    pub fn search(&mut self, stream: StreamId, pattern: String, out: &UpdateSender) {
        let Some(open) = self.open.get_mut(&stream) else { return };
        let (access, source) = (self.access.borrow().clone(), open.source.clone());
        let (spec, out) = (Arc::clone(&self.spec), out.clone());
        let task = task::spawn(async move {
            let found = search(access, &spec, &source, &pattern).await.map_err(NotSearched::from);
            out.send(ClusterEvent::LogMatches { stream, pattern, found }).await;
        });
        if let Some(before) = open.search.replace(task.abort_handle()) {
            before.abort();
        }
    }

    /// Downloads the whole file of an open log and searches it; cancels an earlier download of it.
    pub fn download(&mut self, stream: StreamId, pattern: String, out: &UpdateSender) {
        let Some(open) = self.open.get_mut(&stream) else { return };
        let (access, source, out) = (self.access.borrow().clone(), open.source.clone(), out.clone());
        let task = task::spawn(async move {
            let found = download(access, (stream, &source), &pattern, &out).await.map_err(NotSearched::from);
            out.send(ClusterEvent::LogMatches { stream, pattern, found }).await;
        });
        if let Some(before) = open.download.replace(task.abort_handle()) {
            before.abort();
        }
    }

    /// Searches many files; cancels an earlier search of this kind.
    pub fn search_files(&mut self, request: FileSearch, out: &UpdateSender) {
        let (spec, options) = (Arc::clone(&self.spec), Arc::clone(&self.options));
        let (access, out) = (self.access.borrow().clone(), out.clone());
        let task = task::spawn(async move { search_files(access, (&spec, &options), request, out).await });
        if let Some(before) = self.search_files.replace(task.abort_handle()) {
            before.abort();
        }
    }

    /// Stops following a log.
    pub fn close(&mut self, stream: StreamId) {
        if let Some(open) = self.open.remove(&stream) {
            open.abort();
        }
    }
}

impl Open {
    fn abort(&self) {
        self.task.abort();
        self.search.iter().chain(&self.download).for_each(AbortHandle::abort);
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.open.values().for_each(Open::abort);
        self.search_files.iter().for_each(AbortHandle::abort);
    }
}

/// Reports the time zone of the head's clock to the reader of a stream once it is known. Until then, the head is
/// assumed to use UTC, like Google's images.
async fn report_time_zone(mut known: watch::Receiver<Option<i32>>, stream: StreamId, out: UpdateSender) {
    let utc_offset = known.wait_for(Option::is_some).await.ok().and_then(|known| *known);
    if let Some(utc_offset) = utc_offset {
        out.send(ClusterEvent::LogZone { stream, utc_offset }).await;
    }
}

/// Reads the UTC offset of the head's clock once the cluster is connected. It is requested again after each change of
/// the access and after this pause, which doubles each time, until the head reports it or refuses the request.
async fn read_utc_offset(
    mut access_watch: LogAccessWatch,
    known: watch::Sender<Option<i32>>,
    mut pause: Duration,
) {
    loop {
        let client = match access_watch.wait_for(Option::is_some).await {
            Ok(access) => access.as_ref().map(|access| access.client.clone()),
            Err(_) => None,
        };
        let Some(client) = client else { return };
        match client.utc_offset().await {
            Ok(utc_offset) => {
                known.send_replace(Some(utc_offset));
                return;
            }
            Err(error) if error.is_final() && !error.is_token() => return,
            Err(_) => tokio::select! {
                changed = access_watch.changed() => if changed.is_err() { return },
                () = sleep(pause) => pause = (pause * 2).min(MAX_ZONE_PAUSE),
            },
        }
    }
}

/// Converts the events of a stream to events of its cluster.
async fn pass_on(
    mut tail: LogStream,
    mut requests: mpsc::UnboundedReceiver<u64>,
    stream: StreamId,
    out: UpdateSender,
) {
    loop {
        let event = tokio::select! {
            event = tail.next() => event,
            Some(before) = requests.recv() => {
                tail.ask_older(before);
                continue;
            }
        };
        let Some(event) = event else { return };
        let batch = |part, end| ClusterEvent::Log(LogBatch { stream, part, end });
        let event = match event {
            LogEvent::Lines(part) => batch(part, LogEnd::Open),
            LogEvent::Note(what) => batch(vec![Line::from(format!("--- {what} ---"))].into(), LogEnd::Open),
            LogEvent::Older(part) => ClusterEvent::OlderLog { stream, part },
            LogEvent::Interrupted(why) => batch(LogPart::default(), LogEnd::Interrupted(why)),
            LogEvent::Resumed => batch(LogPart::default(), LogEnd::Open),
            LogEvent::Complete => batch(LogPart::default(), LogEnd::Complete),
            LogEvent::Failed(error) => batch(LogPart::default(), LogEnd::Failed(error.to_string())),
        };
        out.send(event).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{Fault, FaultRule, Head, Scenario};
    use crate::model::Provider;
    use crate::ray::Endpoint;
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    /// A head that answers requests for its time zone with this status, the task that reads it with this first pause,
    /// and the access of the task.
    async fn read_zone(
        (status, pause): (u16, Duration),
        known: watch::Sender<Option<i32>>,
    ) -> (Head, JoinHandle<()>, watch::Sender<Option<LogAccess>>) {
        let head = Head::start(Scenario::default()).await.unwrap();
        head.set_faults(vec![FaultRule { path: "/timezone".into(), fault: Fault::Status(status) }]);
        let dashboard = format!("http://{}", head.dashboard);
        let client = Client::new(Endpoint::Direct { dashboard, gcs: None }, None).unwrap();
        let access = LogAccess { client, remote: None, login: None, head: None, nudges: 0 };
        let (access, access_watch) = watch::channel(Some(access));
        let task = tokio::spawn(read_utc_offset(access_watch, known, pause));
        while requests(&head) == 0 {
            sleep(Duration::from_millis(20)).await;
        }
        (head, task, access)
    }

    fn requests(head: &Head) -> u64 {
        head.cost().requests.get("/timezone").copied().unwrap_or(0)
    }

    #[tokio::test]
    async fn a_time_zone_that_could_not_be_read_is_requested_again_once_for_all_streams() {
        let (sender, known) = watch::channel(None);
        let (head, task, access) = read_zone((500, Duration::from_secs(300)), sender).await;
        let (updates, mut events) = mpsc::channel(4);
        let out = UpdateSender::new(ClusterSpec::sample("lab", Provider::Local), updates);
        for stream in [StreamId(7), StreamId(8)] {
            tokio::spawn(report_time_zone(known.clone(), stream, out.clone()));
        }
        sleep(Duration::from_millis(200)).await;
        head.set_faults(Vec::new());
        access.send_modify(|access| access.as_mut().unwrap().nudges += 1);
        let mut streams = Vec::new();
        for _ in 0..2 {
            match timeout(Duration::from_secs(30), events.recv()).await.unwrap().map(|update| update.event) {
                Some(ClusterEvent::LogZone { stream, utc_offset: 0 }) => streams.push(stream.0),
                event => panic!("{event:?}"),
            }
        }
        streams.sort_unstable();
        assert_eq!((streams, requests(&head)), (vec![7, 8], 2));
        task.await.unwrap();
    }

    #[tokio::test]
    async fn a_time_zone_that_the_head_does_not_report_is_requested_once() {
        let (sender, known) = watch::channel(None);
        let (head, task, _access) = read_zone((404, Duration::from_millis(20)), sender).await;
        timeout(Duration::from_secs(30), task).await.unwrap().unwrap();
        assert_eq!((*known.borrow(), requests(&head)), (None, 1));
        assert!(known.has_changed().is_err(), "the next stream requests it again");
    }

    #[tokio::test]
    async fn a_time_zone_that_could_not_be_read_is_requested_again_after_a_pause() {
        let (sender, mut known) = watch::channel(None);
        let (head, task, _access) = read_zone((500, Duration::from_millis(20)), sender).await;
        head.set_faults(Vec::new());
        let utc_offset = timeout(Duration::from_secs(30), known.wait_for(Option::is_some)).await.unwrap();
        assert_eq!(utc_offset.ok().and_then(|known| *known), Some(0));
        task.await.unwrap();
    }
}
