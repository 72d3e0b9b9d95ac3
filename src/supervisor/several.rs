//! Follows many log files of a cluster together: one [`LogStream`] per file, and one command per host. On the head the
//! command uses the open connection; on other hosts it logs in separately. The files of a host that cannot be logged in
//! to are followed one by one through the head's dashboard.

mod host;

use super::Options;
use super::follow::{LogAccessWatch, clients, head};
use crate::model::cloud::TpuHost;
use crate::model::{ClusterSpec, LogSource, NodeId, SubmissionId, Text};
use crate::ray::{self, Closed, EndWatch, LogEvent, LogStream, Outlet, Polled};
use host::{FileEvent, Files, FollowedFile, HostFiles};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;

/// Maximum number of concurrent logins: sshd refuses more (`MaxStartups` in `sshd_config(5)`).
const MAX_LOGINS: usize = 8;
/// Capacity of the channel of each reader, in batches of bytes.
const BATCHES: usize = 16;

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
    for Followed { source, host, keep } in logs {
        let (sender, events) = mpsc::channel(BATCHES);
        let (name, polled) = match source {
            LogSource::Job(id) => (id.driver_log(), Polling::Job(id)),
            LogSource::Monitor(name) => (name.clone(), Polling::OfHead(name.into())),
            LogSource::File { node, name } => (name.raw().to_owned(), Polling::File(node, name)),
        };
        hosts.entry((host, keep)).or_default().push(FollowedFile::new(name, sender));
        let (access_watch, ended) = (access_watch.clone(), ended.cloned());
        tails.push(LogStream::spawn(longest, move |out| {
            read(events, access_watch, (polled, keep), ended, out)
        }));
    }
    let logins = Arc::new(Semaphore::new(MAX_LOGINS));
    for ((host, keep), files) in hosts {
        let (access_watch, logins) = (access_watch.clone(), Arc::clone(&logins));
        let (spec, options) = (Arc::clone(spec), Arc::clone(options));
        let files = Files::new(files, keep);
        let ended = ended.cloned();
        tokio::spawn(HostFiles::new(access_watch, (spec, options), host, files, (logins, ended)).run());
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

/// Passes on what the host of a log sends, or what the dashboard sends once that is the only source.
async fn read(
    mut events: mpsc::Receiver<FileEvent>,
    mut access_watch: LogAccessWatch,
    (polling, keep): (Polling, u32),
    ended: Option<EndWatch>,
    mut out: Outlet,
) -> Result<(), Closed> {
    let mut is_lost = false;
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
