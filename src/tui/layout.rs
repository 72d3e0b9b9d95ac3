//! Saves the layout in the background: the home directory may be on a network.

use crate::config::{self, yaml::FileError};
use crate::model::Layout;
use std::path::PathBuf;
use tokio::task::JoinSet;

/// Saves layout changes, one after the other.
#[derive(Debug, Default)]
pub struct LayoutWriter {
    /// The file; without one nothing is saved.
    file: Option<PathBuf>,
    /// Changes that are not yet being written.
    waiting: Option<Layout>,
    /// The write in progress.
    writing: JoinSet<Result<(), FileError>>,
}

impl LayoutWriter {
    /// A writer that writes to that file.
    pub fn of(file: PathBuf) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    /// Saves a change after the write in progress.
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

    /// Waits for the write in progress and starts the next one; returns `None` at once if there is none. The inner
    /// value is the reason if the write failed.
    pub async fn written(&mut self) -> Option<Option<String>> {
        let written = self.writing.join_next().await?;
        self.go_on();
        Some(match written {
            Ok(Ok(())) => None,
            Ok(Err(e)) => Some(e.to_string()),
            Err(e) => Some(e.to_string()),
        })
    }

    /// Waits until all changes are written.
    pub async fn finish(&mut self) {
        while self.written().await.is_some() {}
    }
}
