//! Files that are ours alone, whole or not there at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Makes a folder for its owner alone, and its parents so; what is there stays as it is.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file for its owner alone: first beside it, flushed to the disk, then renamed.
pub(super) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut part = Part::new(path)?;
    part.file.write_all(content)?;
    part.keep()
}

/// A temporary file, readable only by its owner, next to the file that it will replace. It is removed if it is dropped
/// before it is complete, for example on a full disk.
pub(super) struct Part<'a> {
    /// The open temporary file.
    pub file: File,
    path: &'a Path,
    beside: PathBuf,
    is_kept: bool,
}

impl<'a> Part<'a> {
    /// Creates the temporary file next to the target path.
    pub fn new(path: &'a Path) -> io::Result<Self> {
        let beside = path.with_extension("part");
        let mut how = OpenOptions::new();
        let file = how.create(true).write(true).truncate(true).mode(0o600).open(&beside)?;
        Ok(Self { file, path, beside, is_kept: false })
    }

    /// Flushes the file to disk and renames it to its final path.
    pub fn keep(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.beside, self.path)?;
        self.is_kept = true;
        self.path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            // It may never have been there.
            let _ = fs::remove_file(&self.beside);
        }
    }
}
