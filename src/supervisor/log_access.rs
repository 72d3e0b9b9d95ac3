//! Access to logs: published while the cluster is connected, and handed to everything that follows a log.

use super::connection::{Channel, Connection, ConnectionState};
use crate::model::NodeId;
use crate::ray::{Client, Clients, Closed};
use crate::ssh::{Remote, TunnelSpec};
use crate::task;
use tokio::sync::watch;

/// Access to logs while a session is open.
#[derive(Clone)]
pub struct LogAccess {
    /// Client of Ray's log API.
    pub client: Client,
    /// The head's shell; `None` with `--address`.
    pub remote: Option<Remote>,
    /// How to reach other hosts through the head; `None` with `--address`.
    pub login: Option<TunnelSpec>,
    /// The head's node id, once known.
    pub head: Option<NodeId>,
    /// Number of times that the streams were asked to check their connection or to retry at once.
    pub nudges: u64,
}

impl From<Channel> for LogAccess {
    fn from(Channel { client, remote, login, .. }: Channel) -> Self {
        Self { client, remote, login, head: None, nudges: 0 }
    }
}

/// The current access; `None` while the cluster is not connected.
pub type LogAccessWatch = watch::Receiver<Option<LogAccess>>;

/// Publishes the access that the current connection provides.
pub fn watch_log_access(connection: &Connection) -> LogAccessWatch {
    let mut state = connection.watch();
    let (sender, receiver) = watch::channel(None);
    task::spawn(async move {
        loop {
            let access = match state.borrow_and_update().clone() {
                ConnectionState::Up(channel) => Some(LogAccess::from(*channel)),
                ConnectionState::Connecting(_) | ConnectionState::Down { .. } => None,
            };
            sender.send_replace(access);
            tokio::select! {
                () = sender.closed() => return,
                changed = state.changed() => if changed.is_err() { return },
            }
        }
    });
    receiver
}

/// Waits for the head's node id.
pub(super) async fn head(access_watch: &mut LogAccessWatch) -> Result<NodeId, Closed> {
    loop {
        let head = access_watch.borrow_and_update().as_ref().and_then(|access| access.head);
        if let Some(head) = head {
            return Ok(head);
        }
        access_watch.changed().await.map_err(|_| Closed)?;
    }
}

/// The client of each access. Without access the client is withdrawn, so that nothing is sent to the old address of the
/// head.
pub(super) fn clients(mut access_watch: LogAccessWatch) -> Clients {
    let access = access_watch.borrow_and_update().clone();
    let mut nudges = access.as_ref().map_or(0, |access| access.nudges);
    let (clients, receiver) = watch::channel(access.map(|access| access.client));
    task::spawn(async move {
        loop {
            tokio::select! {
                () = clients.closed() => return,
                changed = access_watch.changed() => if changed.is_err() { return },
            }
            let access = access_watch.borrow_and_update().clone();
            let nudged =
                access.as_ref().is_some_and(|a| std::mem::replace(&mut nudges, a.nudges) != a.nudges);
            let now = access.map(|access| access.client);
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
    receiver
}
