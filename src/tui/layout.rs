//! Writes down what was arranged, beside the loop: a home folder may be on a network.

use crate::config::{self, yaml::FileError};
use crate::model::Layout;
use std::path::PathBuf;
use tokio::task::JoinSet;

/// Writes what was arranged, one change after the other.
#[derive(Debug, Default)]
pub struct LayoutWriter {
    /// The file; without one nothing is kept.
    file: Option<PathBuf>,
    /// What is not being written yet.
    waiting: Option<Layout>,
    /// The one write that is under way.
    writing: JoinSet<Result<(), FileError>>,
}

impl LayoutWriter {
    /// A writer that writes to that file.
    pub fn of(file: PathBuf) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    /// Writes down what was arranged, after what is being written.
    pub fn keep(&mut self, change: Layout) {
        self.waiting.get_or_insert_default().take(change);
        self.go_on();
    }

    fn go_on(&mut self) {
        if let (true, Some(file)) = (self.writing.is_empty(), self.file.clone())
            && let Some(change) = self.waiting.take()
        {
            self.writing.spawn_blocking(move || config::keep_layout(&file, change));
        }
    }

    /// Waits for the write that is under way and begins the next one; for none, ends at once. Why the write failed, if
    /// it did.
    pub async fn written(&mut self) -> Option<Option<String>> {
        let written = self.writing.join_next().await?;
        self.go_on();
        Some(match written {
            Ok(Ok(())) => None,
            Ok(Err(e)) => Some(e.to_string()),
            Err(e) => Some(e.to_string()),
        })
    }

    /// Waits until all is written.
    pub async fn finish(&mut self) {
        while self.written().await.is_some() {}
    }
}
