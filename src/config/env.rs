//! The process environment as a value, so that nothing deeper reads it and tests need not change it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Variables, working folder and home.
#[derive(Clone, Default)]
pub struct Env {
    vars: BTreeMap<String, String>,
    cwd: PathBuf,
}

impl Env {
    /// The process's own. Variables that are not UTF-8 are left out: none that we read may be so.
    pub fn current() -> Self {
        let vars =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Self { vars: vars.collect(), cwd: std::env::current_dir().unwrap_or_default() }
    }

    /// A made-up one.
    pub fn new(vars: &[(&str, &str)], cwd: impl Into<PathBuf>) -> Self {
        Self { vars: vars.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(), cwd: cwd.into() }
    }

    /// This one with some variables changed.
    #[must_use]
    pub fn with(&self, vars: &[(&str, String)]) -> Self {
        let mut changed = self.clone();
        changed.vars.extend(vars.iter().map(|(k, v)| ((*k).into(), v.clone())));
        changed
    }

    /// A variable; none when unset or empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// The home folder, from `HOME`.
    pub fn home(&self) -> Option<PathBuf> {
        self.var("HOME").map(PathBuf::from)
    }

    /// The working folder.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// A path with a leading `~` replaced by the home folder, made absolute.
    pub fn expand(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), self.home()) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => self.cwd.join(path),
        }
    }
}

/// Variables may hold tokens: only their names are shown.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("cwd", &self.cwd).field("vars", &self.vars.keys()).finish()
    }
}
