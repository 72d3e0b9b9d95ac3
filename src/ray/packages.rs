//! Packages of working dirs and modules, named and zipped exactly as by Ray's own client
//! (`ray._private.runtime_env.packaging`): the name is a hash of the content, so a package that either has uploaded is
//! not uploaded again.

mod error;
mod walk;
mod wildmatch;

pub use error::{PackError, UPLOAD_LIMIT};

use crate::model::sort;
use crate::model::text::hex;
use bytes::Bytes;
use sha1::{Digest, Sha1};
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use walk::Entry;
use zip::write::SimpleFileOptions;

/// Names that Ray excludes from every working dir since 2.54 (`RAY_RUNTIME_ENV_DEFAULT_EXCLUDES`).
pub const DEFAULT_EXCLUDES: [&str; 4] = [".git", ".venv", "venv", "__pycache__"];

/// A scanned directory: its package's name and files.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    entries: Vec<Entry>,
    /// `gcs://_ray_pkg_<hash>.zip`.
    pub uri: String,
    /// Total size of its files in bytes.
    pub bytes: u64,
}

impl Folder {
    /// Scans a directory. `excludes` are patterns relative to it; `.gitignore` and `.rayignore` apply at every level.
    /// Fails when it is larger than a dashboard accepts.
    pub fn survey(root: &Path, excludes: &[String]) -> Result<Self, PackError> {
        let root = std::path::absolute(root).map_err(|e| PackError::unreadable(root, e))?;
        if !root.is_dir() {
            return Err(PackError::Refused(format!("{} is not a directory", root.display())));
        }
        let entries = walk::walk(&root, excludes)?;
        let bytes = entries.iter().map(|e| e.bytes).sum();
        if bytes > UPLOAD_LIMIT {
            return Err(PackError::TooLarge { bytes, largest: largest(&entries), path: root });
        }
        // Ray XORs the 20 bytes of SHA-1 into the first eight.
        let mut hash = *b"00000000";
        for entry in &entries {
            let digest = digest(&root, entry)?;
            hash.iter_mut().zip(digest).for_each(|(a, b)| *a ^= b);
        }
        let uri = format!("gcs://_ray_pkg_{}.zip", hex(&hash));
        Ok(Self { root, entries, uri, bytes })
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.entries.iter().filter(|e| e.is_file).count()
    }

    /// The zip with files and empty directories, uncompressed. With `parent` everything is below a directory of the
    /// root's own name (`py_modules` are imported by it).
    pub fn zip(&self, parent: bool) -> Result<Bytes, PackError> {
        let top = match self.root.file_name() {
            Some(name) if parent => format!("{}/", name.to_string_lossy()),
            _ => String::new(),
        };
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::with_capacity(self.bytes as usize)));
        for entry in self.entries.iter().filter(|e| e.is_file || (e.is_empty_folder && e.name != ".")) {
            let path = self.root.join(&entry.name);
            let failed = |why: io::Error| PackError::unreadable(&path, why);
            let mode = fs::metadata(&path).map_err(failed)?.permissions().mode();
            let options = SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Stored)
                .unix_permissions(mode & 0o7777);
            let name = format!("{top}{}", entry.name);
            let refused = |e: zip::result::ZipError| PackError::Refused(format!("{}: {e}", path.display()));
            if entry.is_file {
                zip.start_file(name, options).map_err(refused)?;
                zip.write_all(&fs::read(&path).map_err(failed)?).map_err(failed)?;
            } else {
                zip.add_directory(name, options).map_err(refused)?;
            }
        }
        let zip = zip.finish().map_err(|e| PackError::Refused(e.to_string()))?;
        let bytes = Bytes::from(zip.into_inner());
        fits(&self.root, bytes.len() as u64)?;
        Ok(bytes)
    }
}

/// A package that is a file already (`.zip`, `.whl`): its URI and content.
pub fn archive(path: &Path) -> Result<(String, Bytes), PackError> {
    let failed = |why| PackError::unreadable(path, why);
    fits(path, fs::metadata(path).map_err(failed)?.len())?;
    let content = fs::read(path).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let uri = if name.ends_with(".whl") {
        format!("gcs://{name}")
    } else {
        format!("gcs://_ray_pkg_{}.zip", hex(&Sha1::digest(&content)))
    };
    Ok((uri, content.into()))
}

fn fits(path: &Path, bytes: u64) -> Result<(), PackError> {
    if bytes <= UPLOAD_LIMIT {
        return Ok(());
    }
    let largest = vec![path.display().to_string()];
    Err(PackError::TooLarge { path: path.to_owned(), bytes, largest })
}

fn largest(entries: &[Entry]) -> Vec<String> {
    let mut files: Vec<&Entry> = entries.iter().filter(|e| e.is_file).collect();
    sort::by_key(&mut files, |e| std::cmp::Reverse(e.bytes));
    files.iter().take(3).map(|e| format!("{} ({} MiB)", e.name, e.bytes.div_ceil(1 << 20))).collect()
}

/// SHA-1 of a name and, unless it is a directory, its content. Of a dangling link or a socket only the name counts; a
/// regular file that cannot be read is an error, because it would be missing in the package.
fn digest(root: &Path, entry: &Entry) -> Result<[u8; 20], PackError> {
    let mut sha = Sha1::new();
    sha.update(entry.name.as_bytes());
    if entry.is_file {
        let path = root.join(&entry.name);
        let failed = |why| PackError::unreadable(&path, why);
        let mut file = File::open(&path).map_err(failed)?;
        let mut buffer = vec![0; 256 << 10];
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => break,
                n => sha.update(&buffer[..n]),
            }
        }
    }
    Ok(sha.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn a_name_depends_only_on_content() {
        let a = tree(&[("x.py", "1"), ("sub/y.py", "2")]);
        let b = tree(&[("sub/y.py", "2"), ("x.py", "1")]);
        let uri = |d: &tempfile::TempDir| Folder::survey(d.path(), &[]).unwrap().uri;
        assert_eq!(uri(&a), uri(&b));
        // As `get_uri_for_directory` of Ray 2.60 names this directory.
        assert_eq!(uri(&a), "gcs://_ray_pkg_e256676cb62ab716.zip");
        fs::write(b.path().join("x.py"), "3").unwrap();
        assert_ne!(uri(&a), uri(&b));
    }

    #[test]
    fn a_zip_holds_files_and_empty_folders_and_modes() {
        let dir = tree(&[("run.sh", "#!/bin/sh\n"), ("sub/y.py", "2")]);
        fs::create_dir(dir.path().join("empty")).unwrap();
        fs::set_permissions(dir.path().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        let folder = Folder::survey(dir.path(), &[]).unwrap();
        let mut zip = zip::ZipArchive::new(Cursor::new(folder.zip(false).unwrap())).unwrap();
        let mut names: Vec<_> = zip.file_names().map(str::to_owned).collect();
        names.sort();
        assert_eq!(names, ["empty/", "run.sh", "sub/y.py"]);
        assert_eq!(zip.by_name("run.sh").unwrap().unix_mode().unwrap() & 0o777, 0o755);
        let parent = zip::ZipArchive::new(Cursor::new(folder.zip(true).unwrap())).unwrap();
        let top = format!("{}/sub/y.py", dir.path().file_name().unwrap().to_str().unwrap());
        assert!(parent.file_names().any(|n| n == top), "{top}");
    }

    #[test]
    fn a_folder_that_is_too_large_is_reported_with_its_largest_files() {
        let dir = tree(&[("small", "1")]);
        File::create(dir.path().join("weights.bin")).unwrap().set_len(UPLOAD_LIMIT + 1).unwrap();
        let e = Folder::survey(dir.path(), &[]).unwrap_err().to_string();
        assert!(
            e.contains("101 MiB") && e.contains("weights.bin (101 MiB)") && e.contains(".rayignore"),
            "{e}"
        );
        assert!(Folder::survey(dir.path(), &["*.bin".into()]).is_ok());
        assert!(archive(&dir.path().join("weights.bin")).is_err());
    }
}
