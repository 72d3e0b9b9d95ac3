//! Selects the files of a directory that belong to its package.

use super::PackError;
use super::wildmatch::Patterns;
use std::fs;
use std::path::{Path, PathBuf};

/// An entry of a packed directory.
#[derive(Debug)]
pub(super) struct Entry {
    /// Path from the root, with `/`; `.` is the root.
    pub name: String,
    /// A regular file, or a link to one.
    pub is_file: bool,
    /// An empty directory.
    pub is_empty_folder: bool,
    /// Size of a file.
    pub bytes: u64,
}

/// Maximum depth; a deeper path is a loop of links.
const MAX_DEPTH: usize = 256;

/// All entries under `root` that no pattern excludes; links are followed.
pub(super) fn walk(root: &Path, excludes: &[String]) -> Result<Vec<Entry>, PackError> {
    let patterns = Patterns::new(excludes.iter().map(String::as_str)).map_err(PackError::Refused)?;
    let mut walk = Walk { root, rules: vec![(root.to_owned(), patterns)], entries: Vec::new() };
    walk.visit(root, 0)?;
    Ok(walk.entries)
}

struct Walk<'a> {
    root: &'a Path,
    /// Active patterns with the directory that they are relative to.
    rules: Vec<(PathBuf, Patterns)>,
    entries: Vec<Entry>,
}

impl Walk<'_> {
    fn visit(&mut self, path: &Path, depth: usize) -> Result<(), PackError> {
        if depth > MAX_DEPTH {
            return Err(PackError::Refused(format!("{} has a loop of symbolic links", path.display())));
        }
        let before = self.rules.len();
        // A dangling or circular link is neither file nor directory.
        let meta = fs::metadata(path).ok();
        let is_dir = meta.as_ref().is_some_and(fs::Metadata::is_dir);
        if is_dir {
            self.add_ignore_files(path)?;
        }
        if !self.is_left_out(path)? {
            let children = if is_dir { children(path)? } else { Vec::new() };
            let file = meta.filter(fs::Metadata::is_file);
            self.entries.push(Entry {
                name: relative(path, self.root)?,
                is_file: file.is_some(),
                is_empty_folder: is_dir && children.is_empty(),
                bytes: file.map_or(0, |m| m.len()),
            });
            for child in children {
                self.visit(&child, depth + 1)?;
            }
        }
        self.rules.truncate(before);
        Ok(())
    }

    /// Adds the directory's own ignore files.
    fn add_ignore_files(&mut self, folder: &Path) -> Result<(), PackError> {
        for name in [".gitignore", ".rayignore"] {
            let path = folder.join(name);
            if path.is_file() {
                let text = fs::read(&path).map_err(|e| PackError::unreadable(&path, e))?;
                let patterns = Patterns::new(String::from_utf8_lossy(&text).lines());
                let patterns =
                    patterns.map_err(|why| PackError::Refused(format!("{}: {why}", path.display())))?;
                self.rules.push((folder.to_owned(), patterns));
            }
        }
        Ok(())
    }

    fn is_left_out(&self, path: &Path) -> Result<bool, PackError> {
        for (folder, patterns) in &self.rules {
            if patterns.leave_out(&relative(path, folder)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn children(folder: &Path) -> Result<Vec<PathBuf>, PackError> {
    let read = || fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>();
    let mut children = read().map_err(|e| PackError::unreadable(folder, e))?;
    children.sort();
    Ok(children)
}

fn relative(path: &Path, folder: &Path) -> Result<String, PackError> {
    let rest = path.strip_prefix(folder).unwrap_or(path);
    let name = rest.to_str().ok_or_else(|| {
        PackError::Refused(format!("the file name {} is not UTF-8, so Ray cannot pack it", path.display()))
    })?;
    Ok(if name.is_empty() { ".".to_owned() } else { name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignore_files_apply_to_their_folder_and_below() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(".gitignore", "*.log\n/out/\n");
        put("a/.rayignore", "data\n");
        for name in ["x.py", "x.log", "out/y", "a/data/z", "a/z", "b/data/z"] {
            put(name, "");
        }
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
        let names: Vec<_> = walk(dir.path(), &["b".into()]).unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, [".", ".gitignore", "a", "a/.rayignore", "a/z", "dangling", "out", "x.py"]);
    }

    #[test]
    fn a_loop_of_links_does_not_hang() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(".", dir.path().join("me")).unwrap();
        // The system itself gives up after 40 links; either result is fine.
        let _ = walk(dir.path(), &[]);
    }
}
