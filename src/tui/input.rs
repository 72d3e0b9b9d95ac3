//! What the loop listens to.

use crate::model::Update;
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// The loop's sources, generic so that tests can play the keyboard.
pub struct Inputs<'a, K, Q> {
    /// Keys, mouse, paste and resize.
    pub keys: K,
    /// Resolves when a signal asks us to leave.
    pub quit: Q,
    /// News from the supervisor.
    pub updates: &'a mut mpsc::Receiver<Update>,
}

/// Resolves at SIGTERM, SIGHUP or SIGINT (Ctrl-C arrives as a key while the terminal is raw).
pub fn quit_signals() -> io::Result<impl Future<Output = ()>> {
    let mut term = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = hangup.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
