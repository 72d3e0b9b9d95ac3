//! Reading YAML files with errors that say where and what to do.

use crate::model::text::printable;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// No cluster file or settings file is as large; one that is was named by mistake.
const LIMIT: u64 = 2 << 20;

/// What is wrong with a file, where, and the mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub file: PathBuf,
    /// Line and column from 1, when known.
    pub at: Option<(usize, usize)>,
    /// What is wrong.
    pub why: String,
    /// What to do.
    pub mend: String,
}

impl FileError {
    /// An error about the whole file.
    pub fn new(file: &Path, why: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { file: file.into(), at: None, why: why.into(), mend: mend.into() }
    }

    /// `FILE:LINE:COLUMN: what`.
    pub fn what(&self) -> String {
        let file = self.file.display();
        let what = match self.at {
            Some((line, column)) => format!("{file}:{line}:{column}: {}", self.why),
            None => format!("{file}: {}", self.why),
        };
        printable(&what).into_owned()
    }
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.what(), printable(&self.mend))
    }
}

impl std::error::Error for FileError {}

/// The file's text.
pub fn read(file: &Path) -> Result<String, FileError> {
    let fail = |e: std::io::Error| {
        FileError::new(file, format!("cannot be read: {e}"), "check that it exists and that you may read it")
    };
    let mut bytes = Vec::new();
    fs::File::open(file).and_then(|f| f.take(LIMIT + 1).read_to_end(&mut bytes)).map_err(fail)?;
    if bytes.len() as u64 > LIMIT {
        return Err(FileError::new(
            file,
            "is larger than 2 MB",
            "this is no cluster file; move it elsewhere",
        ));
    }
    String::from_utf8(bytes).map_err(|e| {
        let sound = String::from_utf8_lossy(&e.as_bytes()[..e.utf8_error().valid_up_to()]);
        let line = sound.matches('\n').count() + 1;
        FileError { at: Some((line, 1)), ..FileError::new(file, "is not UTF-8 text", "save it as UTF-8") }
    })
}

/// Parses the text into `T`.
pub fn parse<T: serde::de::DeserializeOwned>(text: &str, file: &Path) -> Result<T, FileError> {
    if text.lines().all(|l| l.trim().is_empty() || l.trim_start().starts_with('#')) {
        return Err(FileError::new(file, "is empty", "fill it in or delete it"));
    }
    serde_yaml::from_str(text).map_err(|e| {
        let at = e.location().map(|l| (l.line(), l.column()));
        let tab = at
            .and_then(|(line, _)| text.lines().nth(line - 1))
            .is_some_and(|l| l.trim_start_matches(' ').starts_with('\t'));
        // The library repeats the position at the end of its sentence.
        let why = e.to_string();
        let why = why.split(" at line ").next().unwrap_or(&why);
        let mend = if tab { "YAML wants spaces where this line has a tab" } else { "correct this line" };
        FileError { at, ..FileError::new(file, why, mend) }
    })
}
