//! One connection for one command: the console's own way up, once, without retrying and without a screen.

use super::connect::{Opener, Session};
use super::task::Out;
use super::{Options, Reach};
use crate::model::{ClusterSpec, Link, News, Phase, Problem, Timestamp};
use crate::ssh::PortPlan;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, watch};

/// Connects to a cluster, and has it answer a first question with the token in force. `place` is the cluster's in the
/// list; `tell` hears what is being done. The session ends when it is dropped or closed.
pub async fn connect(
    spec: ClusterSpec,
    place: usize,
    options: Options,
    mut tell: impl FnMut(Phase),
) -> Result<Session, Problem> {
    let (updates, mut news) = mpsc::channel(16);
    let out = Out { cluster: spec.name.clone(), updates };
    let (reach, _) = watch::channel(Reach::default());
    let ports = Arc::new(Mutex::new(PortPlan::new()));
    let (spec, options) = (Arc::new(spec), Arc::new(options));
    let opening = Opener { before: None, spec, place, options, ports, out, reach }.open();
    tokio::pin!(opening);
    let session = loop {
        tokio::select! {
            opened = &mut opening => break opened?,
            Some(update) = news.recv() => {
                if let News::Link(Link::Connecting { phase, .. }) = update.news {
                    tell(phase);
                }
            }
        }
    };
    match session.client.version().await {
        Ok(_) => Ok(session),
        Err(e) => {
            session.close().await;
            Err(e.problem(Timestamp::now()))
        }
    }
}
