//! The signals that end a command which runs until it is stopped.

use anyhow::{Result, bail};
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT (ctrl-c) and SIGHUP.
pub(super) struct Signals([Signal; 3]);

impl Signals {
    /// Listens from now on; none of these signals ends the process by default any more.
    pub(super) fn listen() -> io::Result<Self> {
        let of = |kind: fn() -> SignalKind| signal(kind());
        Ok(Self([of(SignalKind::terminate)?, of(SignalKind::interrupt)?, of(SignalKind::hangup)?]))
    }

    /// Waits for any of these signals.
    pub(super) async fn any(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// Does the work until a signal: dropping it ends its child processes and removes its files.
pub(super) async fn until_interrupted(work: impl Future<Output = Result<()>>) -> Result<()> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        done = work => done,
        () = signals.any() => bail!("interrupted"),
    }
}
