//! A simulated fleet, and a home directory from which commands reach it with the system's `ssh`.

use crate::program::{Ran, program};
use marin_tui::demo::{Fleet, Plan};
use std::path::Path;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// `marin-big-run`: one of eight hosts waits for a batch and logs nothing; the others wait for it.
const BIG_RUN: &str = "
clusters:
  - name: marin-big-run
    dead: 0
    jobs: 0
    activity:
      jobs_per_hour: 0
      failing: 0
      preemptions_per_hour: 0
      past_minutes: 60
      runs: [{node_type: tpu_slice_v4_64, silent: {worker: 5, minutes_ago: 20}}]
    slices: {tpu_slice_v4_64: 1}
";

/// The fleet and the home directory.
pub struct Simulated {
    pub fleet: Fleet,
    home: TempDir,
    _runtime: Runtime,
}

impl Simulated {
    /// Starts `marin-big-run` and the clusters listed in the YAML.
    pub fn with_big_run(beside: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let plan = format!("{BIG_RUN}{}", beside.trim_start_matches('\n'));
        let plan = Plan::parse(&plan, Path::new("test")).unwrap();
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
