//! A simulated fleet, and a person's home from which commands reach it over the system's own `ssh`.

use crate::program::{Ran, program};
use marin_tui::demo::{Fleet, Plan};
use std::path::Path;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The fleet and the home.
pub struct Simulated {
    pub fleet: Fleet,
    home: TempDir,
    _runtime: Runtime,
}

impl Simulated {
    /// The clusters of a plan.
    pub fn new(plan: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let plan = Plan::parse(plan, Path::new("test")).unwrap();
        let fleet = runtime.block_on(Fleet::start(plan)).unwrap();
        Self { fleet, home: tempfile::tempdir().unwrap(), _runtime: runtime }
    }

    /// Runs a command.
    pub fn run(&self, words: &[&str]) -> Ran {
        let folder = self.fleet.folder();
        let mut command = program(self.home.path());
        command.envs(folder.env()).env("HOME", self.home.path()).env("NO_PROXY", "127.0.0.1");
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.home.path().join("none"));
        command.arg("--config").arg(folder.settings()).arg("--infra").arg(folder.infra());
        Ran::of(&command.args(words).output().unwrap())
    }
}
