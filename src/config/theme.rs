//! The user's own theme files: their paths, and errors with the file, the line and the valid names.

use super::nearest::nearest;
use super::yaml::{self, FileError};
use super::{Env, Folders};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// The file of a theme that is not built in: the given path, or for a name `themes/NAME.yaml` next to the settings
/// file.
pub fn theme_file(theme: &str, env: &Env, folders: &Folders) -> PathBuf {
    let path = Path::new(theme);
    if theme.contains('/') || path.extension().is_some_and(|extension| extension == "yaml") {
        return env.expand(path);
    }
    folders.config.join("themes").join(format!("{theme}.yaml"))
}

/// Reads a theme file as `T`, which validates the names of roles and colors.
pub fn read_theme<T: DeserializeOwned>(file: &Path) -> Result<T, FileError> {
    yaml::parse(&yaml::read(file)?, file).map_err(with_names)
}

/// Turns serde's "unknown variant `x`, expected one of `a`, `b`" into an unknown role with the names that exist.
fn with_names(mut e: FileError) -> FileError {
    let kind = [("unknown variant", "role"), ("unknown field", "part of a theme")];
    let kind = kind.into_iter().find(|(words, _)| e.why.contains(words)).map(|(_, kind)| kind);
    let mut quoted = e.why.split('`').skip(1).step_by(2);
    if let (Some(kind), Some(word)) = (kind, quoted.next()) {
        let known: Vec<&str> = quoted.collect();
        let meant = nearest(word, known.iter().copied());
        let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
        e.hint = format!("{meant}use {}", known.join(", "));
        e.why = format!("unknown {kind} `{word}`");
    }
    e
}
