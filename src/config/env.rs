//! The process environment as a value, so that other code does not read it and tests need not change it.

use super::shared;
use crate::model::sort;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Variables, working directory and home.
#[derive(Clone, Default)]
pub struct Env {
    vars: BTreeMap<String, String>,
    /// Variables of `.marin.yaml` that are not set in the environment.
    shared: BTreeMap<String, String>,
    cwd: PathBuf,
}

impl Env {
    /// The environment of this process. Variables that are not UTF-8 are left out.
    pub fn current() -> Self {
        let vars =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        let cwd = std::env::current_dir().unwrap_or_default();
        Self { vars: sort::collected(vars), cwd, ..Self::default() }
    }

    /// An environment with given variables, for tests.
    pub fn new(vars: &[(&str, &str)], cwd: impl Into<PathBuf>) -> Self {
        let vars = sort::collected(vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        Self { vars, cwd: cwd.into(), ..Self::default() }
    }

    /// A copy with the variables of a `.marin.yaml` that are not set. Child processes do not inherit them: the process
    /// environment does not change.
    #[must_use]
    pub(super) fn with_shared(mut self, shared: BTreeMap<String, String>) -> Self {
        self.shared = shared;
        self.shared.retain(|name, _| !self.vars.contains_key(name));
        self
    }

    /// A copy with another working directory.
    #[must_use]
    pub fn within(mut self, cwd: PathBuf) -> Self {
        self.cwd = cwd;
        self
    }

    /// A copy with some variables changed.
    #[must_use]
    pub fn with(&self, vars: &[(&str, String)]) -> Self {
        let mut changed = self.clone();
        changed.vars.extend(vars.iter().map(|(k, v)| ((*k).into(), v.clone())));
        changed
    }

    /// A variable; `None` when unset or empty. From `.marin.yaml` only the variables for reaching a cluster are used.
    pub fn var(&self, name: &str) -> Option<&str> {
        let shared = shared::NAMES.contains(&name).then(|| self.shared.get(name)).flatten();
        self.vars.get(name).or(shared).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// A variable to pass to a job, from the environment or from `.marin.yaml`.
    pub fn for_job(&self, name: &str) -> Option<&str> {
        self.var(name).or_else(|| self.shared.get(name).map(String::as_str).filter(|v| !v.is_empty()))
    }

    /// The user's name, for owners of jobs and the audit log: `USER`, else `LOGNAME`.
    pub fn user(&self) -> Option<&str> {
        self.var("USER").or_else(|| self.var("LOGNAME"))
    }

    /// The home directory, from `HOME`.
    pub fn home(&self) -> Option<PathBuf> {
        self.var("HOME").map(PathBuf::from)
    }

    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// A path with a leading `~` replaced by the home directory, made absolute.
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
        f.debug_struct("Env")
            .field("cwd", &self.cwd)
            .field("vars", &self.vars.keys())
            .field("shared", &self.shared.keys())
            .finish()
    }
}
