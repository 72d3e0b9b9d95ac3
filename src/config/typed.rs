//! History of the lines typed into the console, in a file in the state directory: one per line, as JSON, newest last.
//!
//! Several consoles may add lines at once: each reads the file, adds its line and replaces the file while it holds a
//! lock.

use crate::{regular, replace};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Maximum number of lines kept of each kind.
const MAX_LINES: usize = 50;
/// Maximum length of a line that is kept, in bytes.
const MAX_LENGTH: usize = 2000;
/// Maximum size of the file in bytes, several times that of all kept lines.
const MAX_SIZE: u64 = 4 << 20;

/// A kind of line, e.g. `filter`, and its text.
pub type TypedLine = (String, String);

/// The history file.
#[derive(Clone, Debug)]
pub struct TypedLines {
    file: PathBuf,
}

impl TypedLines {
    /// The file in the state directory, which need not exist.
    pub fn new(state: &Path) -> Self {
        Self { file: state.join("input-history.jsonl") }
    }

    /// The path of the file, for messages.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// The lines, newest last; empty if there is no file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is too large, or has other content.
    pub fn read(&self) -> io::Result<Vec<TypedLine>> {
        let bytes = match regular::read(&self.file, MAX_SIZE) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read?,
        };
        let lines = bytes.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
        let parsed = lines.map(|(i, line)| {
            let wrong = |_| io::Error::other(format!("line {} is not [\"KIND\", \"TEXT\"]", i + 1));
            serde_json::from_slice(line).map_err(wrong)
        });
        parsed.collect()
    }

    /// Adds a line as the newest. Each text is kept once, and only the newest lines of each kind; a very long line is
    /// not kept.
    ///
    /// # Errors
    ///
    /// Those of [`Self::read`], of locking and of writing. The file is then unchanged.
    pub fn add(&self, kind: &str, text: &str) -> io::Result<()> {
        if text.len() > MAX_LENGTH {
            return Ok(());
        }
        let lock = self.lock_file()?;
        lock.lock()?;
        let mut lines = self.read()?;
        lines.retain(|(k, t)| (k.as_str(), t.as_str()) != (kind, text));
        lines.push((kind.to_owned(), text.to_owned()));
        let mut over = lines.iter().filter(|(k, _)| k == kind).count().saturating_sub(MAX_LINES);
        lines.retain(|(k, _)| {
            let is_removed = k == kind && over > 0;
            over -= usize::from(is_removed);
            !is_removed
        });
        let mut content = Vec::new();
        for line in &lines {
            serde_json::to_writer(&mut content, line)?;
            content.push(b'\n');
        }
        replace::write(&self.file, &content)
    }

    /// Opens the lock file, whose lock permits writing. Closing the file releases the lock.
    fn lock_file(&self) -> io::Result<File> {
        let options = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).clone();
        options.open(self.file.with_extension("lock"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn texts(lines: &TypedLines, kind: &str) -> Vec<String> {
        let all = lines.read().unwrap().into_iter();
        all.filter(|(k, _)| k == kind).map(|(_, text)| text).collect()
    }

    #[test]
    fn lines_are_kept_once_private_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let lines = TypedLines::new(dir.path());
        assert_eq!(lines.read().unwrap(), [], "there is no file yet");
        for text in ["one", "two\n\"x\"", "one"] {
            lines.add("filter", text).unwrap();
        }
        lines.add("search", "one").unwrap();
        lines.add("filter", &"x".repeat(MAX_LENGTH + 1)).unwrap();
        assert_eq!(texts(&lines, "filter"), ["two\n\"x\"", "one"]);
        assert_eq!(texts(&lines, "search"), ["one"]);
        let mode = fs::metadata(lines.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for i in 0..MAX_LINES + 3 {
            lines.add("filter", &i.to_string()).unwrap();
        }
        let kept = texts(&lines, "filter");
        assert_eq!((kept.len(), kept[0].as_str()), (MAX_LINES, "3"));
        assert_eq!(texts(&lines, "search"), ["one"], "each kind has its own");
    }

    #[test]
    fn concurrent_consoles_lose_no_lines() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for console in 0..4 {
                let lines = TypedLines::new(dir.path());
                scope.spawn(move || {
                    for n in 0..10 {
                        lines.add("command", &format!("{console} {n}")).unwrap();
                    }
                });
            }
        });
        assert_eq!(texts(&TypedLines::new(dir.path()), "command").len(), 40);
    }

    #[test]
    fn a_file_with_other_content_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let lines = TypedLines::new(dir.path());
        fs::write(lines.path(), "[\"filter\",\"x\"]\nnot typed\n").unwrap();
        assert_eq!(lines.read().unwrap_err().to_string(), "line 2 is not [\"KIND\", \"TEXT\"]");
        assert!(lines.add("filter", "y").is_err());
        assert!(fs::read_to_string(lines.path()).unwrap().ends_with("not typed\n"));
        fs::remove_file(lines.path()).unwrap();
        fs::create_dir(lines.path()).unwrap();
        assert!(lines.read().is_err() && lines.add("filter", "y").is_err());
    }
}
