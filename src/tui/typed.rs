//! Writes typed lines to their file, on a thread of its own: the file may lie on a network home.

use crate::app::{Entered, Event, Outcome};
use crate::config::TypedLines;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Time that the last lines have to be written when the console is quit.
const LAST: Duration = Duration::from_secs(1);

/// Takes lines for the file.
pub(super) struct LineWriter {
    lines: mpsc::UnboundedSender<(Entered, String)>,
    thread: JoinHandle<()>,
}

impl LineWriter {
    /// Starts the thread. The first line that cannot be written is reported, and is the last one that is tried.
    pub fn start(file: TypedLines, events: mpsc::UnboundedSender<Event>) -> Self {
        let (lines, mut typed) = mpsc::unbounded_channel::<(Entered, String)>();
        let thread = tokio::task::spawn_blocking(move || {
            while let Some((kind, text)) = typed.blocking_recv() {
                if let Err(e) = file.add(kind.word(), &text) {
                    let path = file.path().display();
                    let why = format!("cannot save the input history: {path}: {e}; it will be lost on exit");
                    // The console may be on its way out.
                    let _ = events.send(Event::Done(Outcome::Failed(why)));
                    return;
                }
            }
        });
        Self { lines, thread }
    }

    /// Adds a line to the file, soon.
    pub fn add(&self, kind: Entered, text: String) {
        // After a failure the lines are not written.
        let _ = self.lines.send((kind, text));
    }

    /// Waits until all lines are written.
    pub async fn finish(self) {
        drop(self.lines);
        let _ = tokio::time::timeout(LAST, self.thread).await;
    }
}
