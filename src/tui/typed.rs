//! Saves typed lines to their file on a separate thread: the file may be on a network home directory.

use crate::app::{Entered, Event, Outcome};
use crate::config::TypedLines;
use crate::task;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How long writing the last lines may take when the console quits.
const SAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Accepts lines for the file.
pub(super) struct LineWriter {
    lines: mpsc::UnboundedSender<(Entered, String)>,
    thread: JoinHandle<()>,
}

impl LineWriter {
    /// Starts the thread. The first line that cannot be written is reported, and nothing is written after it.
    pub fn start(file: TypedLines, events: mpsc::UnboundedSender<Event>) -> Self {
        let (lines, mut typed) = mpsc::unbounded_channel::<(Entered, String)>();
        let thread = task::spawn_blocking(move || {
            while let Some((kind, text)) = typed.blocking_recv() {
                if let Err(e) = file.add(kind.label(), &text) {
                    let path = file.path().display();
                    let why = format!("cannot save the input history: {path}: {e}; it will be lost on exit");
                    // The console may be quitting.
                    let _ = events.send(Event::Done(Outcome::Failed(why)));
                    return;
                }
            }
        });
        Self { lines, thread }
    }

    /// Queues a line for the file.
    pub fn add(&self, kind: Entered, text: String) {
        // After a failure, lines are not written.
        let _ = self.lines.send((kind, text));
    }

    /// Waits until all lines are written.
    pub async fn finish(self) {
        drop(self.lines);
        let _ = tokio::time::timeout(SAVE_TIMEOUT, self.thread).await;
    }
}
