//! Follows many log files of a cluster together: one [`LogStream`] per file, and one command per host. On the head the
//! command uses the open connection; on other hosts it logs in separately. The files of a host that cannot be logged in
//! to are followed one by one through the head's dashboard, and so is the log of a driver that is not on the head.

mod host;

use super::Options;
use super::driver::{DriverPlace, driver_place};
use super::log_access::{LogAccess, LogAccessWatch, clients, head};
use crate::model::cloud::TpuHost;
use crate::model::{ClusterSpec, LogSource, NodeId, SubmissionId, Text};
use crate::ray::{self, AT_ONCE, Closed, EndWatch, LogEvent, LogStream, Outlet, Polled};
use crate::task;
use host::{FileEvent, Files, FollowedFile, HostFiles};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;

/// Maximum number of concurrent logins: sshd refuses more (`MaxStartups` in `sshd_config(5)`).
const MAX_LOGINS: usize = 8;
/// Capacity of the channel of each reader, in batches of bytes.
const BATCHES: usize = 16;
/// Time after which Ray is asked again where a job's driver runs, until it has started; it doubles with each request.
const PLACE_INTERVAL: Duration = Duration::from_secs(3);
/// Maximum time between two such requests.
const MAX_PLACE_INTERVAL: Duration = Duration::from_secs(30);

/// A log that is followed together with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The source of its lines.
    pub source: LogSource,
    /// The address of its host; `None` for the head.
    pub host: Option<TpuHost>,
    /// Number of lines before its end to start with; `u32::MAX` for all.
    pub keep: u32,
}

/// Follows these logs until `ended`; the result has their order. Lines are cut after `longest` bytes. Following a job's
/// log does not end when the job ends.
pub fn follow_several(
    access_watch: &LogAccessWatch,
    (spec, options): (&Arc<ClusterSpec>, &Arc<Options>),
    logs: Vec<Followed>,
    ended: Option<&EndWatch>,
    longest: usize,
) -> Vec<LogStream> {
    let mut hosts: BTreeMap<(Option<TpuHost>, u32), Vec<FollowedFile>> = BTreeMap::new();
    let mut tails = Vec::new();
    let place_requests = Arc::new(Semaphore::new(AT_ONCE));
    for Followed { source, host, keep } in logs {
        let (sender, events) = mpsc::channel(BATCHES);
        let (name, polled) = match source {
            LogSource::Job(id) => (id.driver_log(), Polling::Job(id)),
            LogSource::Monitor(name) => (name.clone(), Polling::OfHead(name.into())),
            LogSource::File { node, name } => (name.raw().to_owned(), Polling::File(node, name)),
        };
        hosts.entry((host, keep)).or_default().push(FollowedFile::new(name, sender));
        let access = (access_watch.clone(), Arc::clone(&place_requests));
        let ended = ended.cloned();
        tails.push(LogStream::spawn(longest, move |out| read(events, access, (polled, keep), ended, out)));
    }
    let logins = Arc::new(Semaphore::new(MAX_LOGINS));
    for ((host, keep), files) in hosts {
        let (access_watch, logins) = (access_watch.clone(), Arc::clone(&logins));
        let (spec, options) = (Arc::clone(spec), Arc::clone(options));
        let files = Files::new(files, keep);
        let ended = ended.cloned();
        task::spawn(HostFiles::new(access_watch, (spec, options), host, files, (logins, ended)).run());
    }
    tails
}

/// How to request a log through Ray's API.
enum Polling {
    Job(SubmissionId),
    File(NodeId, Text),
    /// A file on the head, whose node id is not known yet.
    OfHead(Text),
}

/// Passes on what the host of a log sends, or what the dashboard sends once that is the only source. All logs of jobs
/// share `place_requests`, the requests that find out where a driver runs.
async fn read(
    mut events: mpsc::Receiver<FileEvent>,
    (mut access_watch, place_requests): (LogAccessWatch, Arc<Semaphore>),
    (polling, mut keep): (Polling, u32),
    ended: Option<EndWatch>,
    mut out: Outlet,
) -> Result<(), Closed> {
    let mut is_lost = false;
    let elsewhere = elsewhere(access_watch.clone(), &polling, place_requests);
    tokio::pin!(elsewhere);
    loop {
        let idle_limit = out.idle_limit();
        tokio::select! {
            event = events.recv() => match event {
                Some(FileEvent::Bytes(bytes)) => out.feed(&bytes).await?,
                Some(FileEvent::Again) => {
                    is_lost = false;
                    out.quiet().await?;
                }
                Some(FileEvent::Lost(why)) => {
                    is_lost = true;
                    out.interrupted(why).await?;
                }
                Some(FileEvent::Note(what)) => {
                    out.flush().await?;
                    out.send(LogEvent::Note(what)).await?;
                }
                Some(FileEvent::Elsewhere(why)) => {
                    if let Some(why) = why {
                        out.flush().await?;
                        out.send(LogEvent::Note(why)).await?;
                    }
                    break;
                }
                Some(FileEvent::Complete) => return out.complete().await,
                None => return Err(Closed),
            },
            is_from_start = &mut elsewhere => {
                if is_from_start {
                    keep = u32::MAX;
                }
                break;
            }
            _ = out.older_request() => {
                let why = "older lines are not read while several logs are followed together";
                out.send(LogEvent::Older(Err(why.to_owned()))).await?;
            }
            () = sleep(idle_limit.unwrap_or_default()), if idle_limit.is_some() => {
                if is_lost { out.flush().await? } else { out.quiet().await? }
            }
        }
    }
    // The host's task must not wait for a reader that is gone.
    drop(events);
    let polled = match polling {
        Polling::Job(id) => Polled::Job(id),
        Polling::File(node, name) => Polled::File(node, name),
        Polling::OfHead(name) => Polled::File(head(&mut access_watch).await?, name),
    };
    ray::poll(clients(access_watch), polled, keep, ended, out).await
}

/// Resolves when the driver of a job runs on a node other than the head, on which there may be a file with the name of
/// its log. Returns whether it started only after this was called: then all its lines are new. Never resolves for other
/// logs, for a driver on the head, and for a job that has ended without a driver.
fn elsewhere(
    mut access_watch: LogAccessWatch,
    polling: &Polling,
    place_requests: Arc<Semaphore>,
) -> impl Future<Output = bool> + Send + use<> {
    let job = match polling {
        Polling::Job(id) => Some(id.clone()),
        Polling::File(..) | Polling::OfHead(_) => None,
    };
    async move {
        let Some(id) = job else { return std::future::pending().await };
        let (mut is_from_start, mut pause) = (false, PLACE_INTERVAL);
        loop {
            let permit = place_requests.acquire().await;
            let access = access_watch.borrow_and_update().clone();
            let place = match &access {
                Some(access) => driver_place(&access.client, &id, access.head).await,
                None => DriverPlace::Unknown,
            };
            drop(permit);
            match place {
                DriverPlace::Elsewhere => return is_from_start,
                DriverPlace::Head | DriverPlace::Never => break,
                DriverPlace::NotStarted => is_from_start = true,
                DriverPlace::Unknown => {}
            }
            tokio::select! {
                () = sleep(pause) => pause = MAX_PLACE_INTERVAL.min(pause * 2),
                changed = other_access(&mut access_watch, access.as_ref()) => {
                    if changed.is_err() {
                        break;
                    }
                    pause = PLACE_INTERVAL;
                }
            }
        }
        std::future::pending().await
    }
}

/// Resolves when the access is another one: after a new connection, with a new token, or once the head's id is known.
async fn other_access(access_watch: &mut LogAccessWatch, before: Option<&LogAccess>) -> Result<(), Closed> {
    let waited = access_watch.wait_for(|now| match (now, before) {
        (Some(now), Some(before)) => !now.client.is_same(&before.client) || now.head != before.head,
        (now, before) => now.is_some() != before.is_some(),
    });
    waited.await.map(drop).map_err(|_| Closed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{Head, Scenario};
    use crate::logs::LineSplitter;
    use crate::model::JobStatus;
    use crate::ray::{Client, Endpoint};
    use futures_util::FutureExt;
    use tokio::sync::watch;
    use tokio::time::timeout;

    /// The next lines of a stream.
    async fn next(stream: &mut LogStream) -> Vec<String> {
        let event = timeout(Duration::from_secs(30), stream.next()).await.unwrap().unwrap();
        match event {
            LogEvent::Lines(part) => part.lines.iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Access through a new client of this head.
    fn access_to(head: &Head) -> LogAccess {
        let dashboard = format!("http://{}", head.dashboard);
        let client = Client::new(Endpoint::Direct { dashboard, gcs: None }, None).unwrap();
        LogAccess { client, remote: None, login: None, head: None, nudges: 0 }
    }

    /// Number of requests for the record of a job.
    fn requests(head: &Head, id: &str) -> u64 {
        head.cost().requests.get(&format!("/api/jobs/{id}")).copied().unwrap_or(0)
    }

    /// The log of a pending job, whose driver then starts on the head or on another node, read with one line to start
    /// with.
    async fn lines_of_a_driver(is_on_head: bool) -> Vec<String> {
        let head = Head::start(Scenario::default()).await.unwrap();
        let id = head.submissions(JobStatus::Pending).remove(0);
        let node = head.nodes()[usize::from(!is_on_head)];
        assert!(head.place_driver(&id, node) && head.write_job_log(&id, b"step 1\nstep 2\n"));
        let (access, access_watch) = watch::channel(Some(access_to(&head)));
        let place_requests = Arc::new(Semaphore::new(AT_ONCE));
        let (host, events) = mpsc::channel(BATCHES);
        let polling = Polling::Job(SubmissionId(id.as_str().into()));
        let mut stream = LogStream::spawn(LineSplitter::ON_A_SCREEN, move |out| {
            read(events, (access_watch, place_requests), (polling, 1), None, out)
        });
        host.send(FileEvent::Bytes("setting up\n".into())).await.unwrap();
        assert_eq!(next(&mut stream).await, ["setting up"]);
        // Ray is asked again at once, as with a new token. Returns whether it was.
        let renew = async || {
            let before = requests(&head, &id);
            access.send_replace(Some(access_to(&head)));
            sleep(Duration::from_millis(200)).await;
            requests(&head, &id) > before
        };
        // The second request follows the answer to the first one.
        while requests(&head, &id) < 2 {
            renew().await;
        }
        assert!(!host.is_closed(), "the job has no driver yet");
        head.turn_job(&id, JobStatus::Running);
        renew().await;
        if is_on_head {
            // Ray is not asked again.
            while renew().await {}
            host.send(FileEvent::Bytes("step 1\n".into())).await.unwrap();
        }
        let lines = next(&mut stream).await;
        assert_eq!(host.is_closed(), !is_on_head);
        lines
    }

    #[tokio::test]
    async fn a_log_is_read_on_the_node_on_which_its_driver_starts() {
        assert_eq!(lines_of_a_driver(false).await, ["step 1", "step 2"], "all lines of the driver are new");
        assert_eq!(lines_of_a_driver(true).await, ["step 1"]);
    }

    #[tokio::test]
    async fn the_requests_of_many_logs_wait_for_each_other() {
        let head = Head::start(Scenario::default()).await.unwrap();
        let id = head.submissions(JobStatus::Pending).remove(0);
        let (_access, access_watch) = watch::channel(Some(access_to(&head)));
        let place_requests = Arc::new(Semaphore::new(1));
        let others = Arc::clone(&place_requests).acquire_owned().await.unwrap();
        let polling = Polling::Job(SubmissionId(id.as_str().into()));
        let waits = tokio::spawn(elsewhere(access_watch, &polling, place_requests));
        sleep(Duration::from_millis(200)).await;
        assert_eq!(requests(&head, &id), 0);
        drop(others);
        let asked = async {
            while requests(&head, &id) == 0 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(30), asked).await.unwrap();
        waits.abort();
    }

    #[tokio::test]
    async fn only_another_access_is_a_reason_to_ask_again() {
        let head = Head::start(Scenario::default()).await.unwrap();
        let (access, mut access_watch) = watch::channel(Some(access_to(&head)));
        let mut changes = |change: &dyn Fn(&mut Option<LogAccess>)| {
            let before = access_watch.borrow_and_update().clone();
            access.send_modify(change);
            other_access(&mut access_watch, before.as_ref()).now_or_never().is_some()
        };
        assert!(!changes(&|access| access.as_mut().unwrap().nudges += 1));
        assert!(changes(&|access| access.as_mut().unwrap().head = Some(head.nodes()[0])));
        assert!(changes(&|access| *access = Some(access_to(&head))));
        assert!(changes(&|access| *access = None));
        assert!(changes(&|access| *access = Some(access_to(&head))));
    }
}
