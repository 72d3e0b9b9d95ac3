//! Atomically writes files that only their owner can read: a reader sees the old or the new content, even if this
//! process is killed or the disk is full.
//!
//! The new content goes into a temporary file next to the old one, `.NAME.RANDOM.part`, which is flushed and renamed. A
//! temporary file that is dropped before that is removed; a killed process leaves it behind.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// Replaces the file's content.
///
/// # Errors
///
/// The errors of creating, writing and renaming the temporary file. The old file is then unchanged.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut part = begin(path)?;
    part.write_all(content)?;
    keep(part, path)
}

/// Creates the temporary file for the new content, with mode 0600; [`keep`] renames it.
pub fn begin(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    tempfile::Builder::new().prefix(&format!(".{name}.")).suffix(".part").tempfile_in(folder(path))
}

/// Flushes the temporary file to the disk and renames it.
pub fn keep(part: NamedTempFile, path: &Path) -> io::Result<()> {
    part.as_file().sync_all()?;
    part.persist(path)?;
    File::open(folder(path))?.sync_all()
}

/// The name of the file that a temporary file of this name would replace; none if it is not a temporary file.
pub fn target(name: &str) -> Option<&str> {
    Some(name.strip_prefix('.')?.strip_suffix(".part")?.rsplit_once('.')?.0)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        entries.map(|e| e.file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_replaced_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("list.json");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        write(&file, b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(dir.path()), ["list.json"]);
    }

    #[test]
    fn a_dropped_temporary_file_is_removed_and_its_name_is_recognized() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("list.json");
        let part = begin(&file).unwrap();
        assert_eq!(names(dir.path()).iter().map(|n| target(n)).collect::<Vec<_>>(), [Some("list.json")]);
        drop(part);
        assert!(names(dir.path()).is_empty());
        assert_eq!(["list.json", ".part", ".x.part"].map(target), [None; 3]);
        assert!(write(dir.path(), b"x").is_err(), "a directory");
    }
}
