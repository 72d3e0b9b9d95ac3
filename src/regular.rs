//! Opens regular files without blocking: a pipe or a device in place of a file would block the program for ever.

use rustix::fs::{Mode, OFlags};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
///
/// The errors of `open(2)`, and one when the path is not a regular file.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let meta = file.metadata()?;
    match () {
        () if meta.is_dir() => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")),
        // Such as `<(command)` of a shell: most files are read more than once, and a pipe only once.
        () if meta.file_type().is_fifo() => {
            Err(io::Error::other("it is not a regular file but a pipe; write its content to a file"))
        }
        () if !meta.is_file() => Err(io::Error::other("it is not a regular file")),
        () => Ok((file, meta)),
    }
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
///
/// The errors of [`open()`] and of reading, and one when the file is larger.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, _) = open(path)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_a_regular_file_is_an_immediate_error() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, file) = (dir.path().join("pipe"), dir.path().join("file"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::fs::write(&file, "12345").unwrap();
        let why = read(&pipe, 9).unwrap_err().to_string();
        assert_eq!(why, "it is not a regular file but a pipe; write its content to a file");
        assert_eq!(read(Path::new("/dev/zero"), 9).unwrap_err().to_string(), "it is not a regular file");
        assert_eq!(read(dir.path(), 9).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        assert!(read(&file, 4).unwrap_err().to_string().contains("larger than 4 bytes"));
    }
}
