//! Files that are ours alone, whole or not there at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a folder for its owner alone, and its parents so; what is there stays as it is.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file for its owner alone: first beside it, flushed to the disk, then renamed.
pub(super) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    let written = (|| {
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    })();
    if written.is_err() {
        // A half-written file on a full disk helps nobody.
        let _ = fs::remove_file(&part);
    }
    written
}
