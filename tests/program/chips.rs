//! `chips` on a simulated fleet: libtpu is asked over the system's own `ssh`, through the head, on each host of a slice.

use crate::program::{Ran, program};
use marin_tui::demo::{Fleet, Plan};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Of eight hosts one waits for a batch, and the others for it. Another cluster's chips are free.
const PLAN: &str = "
clusters:
  - name: marin-big-run
    dead: 0
    jobs: 0
    life:
      jobs_per_hour: 0
      failing: 0
      preemptions_per_hour: 0
      past_minutes: 60
      runs: [{node_type: tpu_slice_v4_64, silent: {worker: 5, minutes_ago: 20}}]
    slices: {tpu_slice_v4_64: 1}
  - name: marin-us-central2
    dead: 0
    jobs: 0
    life: {jobs_per_hour: 0, preemptions_per_hour: 0, past_minutes: 10}
    slices: {tpu_worker: 1}
";

struct World {
    fleet: Fleet,
    home: TempDir,
    _runtime: Runtime,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let plan = Plan::parse(PLAN, Path::new("test")).unwrap();
        let fleet = runtime.block_on(Fleet::start(plan)).unwrap();
        Self { fleet, home: tempfile::tempdir().unwrap(), _runtime: runtime }
    }

    fn run(&self, cluster: &str, words: &[&str]) -> Ran {
        let folder = self.fleet.folder();
        let mut command = program(self.home.path());
        command.envs(folder.env()).env("HOME", self.home.path()).env("NO_PROXY", "127.0.0.1");
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.home.path().join("none"));
        command.arg("--config").arg(folder.settings()).arg("--infra").arg(folder.infra());
        Ran::of(&command.args(["--cluster", cluster, "chips"]).args(words).output().unwrap())
    }
}

#[test]
fn the_host_that_the_others_wait_for_is_named() {
    let world = World::new();
    let told = world.run("marin-big-run", &["tpu_slice_v4_64", "--json"]).exits(0).json();
    let hosts = told.as_array().unwrap();
    assert_eq!(hosts.len(), 8);
    for (number, host) in hosts.iter().enumerate() {
        let is_it = number == 5;
        assert_eq!(
            (host["worker"].as_u64(), &host["through"]),
            (Some(number as u64), &Value::from("libtpu"))
        );
        assert_eq!(host["behind"], is_it, "{host}");
        let chips = host["chips"].as_array().unwrap();
        assert_eq!((chips.len(), host["expected"].as_u64()), (4, Some(4)));
        assert!(chips.iter().all(|chip| chip["outlier"] == is_it), "{host}");
        assert!(chips.iter().all(|chip| chip["memory_total"] == 32_u64 << 30), "{host}");
    }
    let address = hosts[5]["address"].as_str().unwrap();
    let table = world.run("marin-big-run", &["tpu_slice_v4_64"]).good();
    let line = table.lines().find(|line| line.contains(&format!(" {address} "))).unwrap();
    assert!(
        line.contains("0* 0* 0* 0*") && line.contains("behind the other hosts, at program launch"),
        "{table}"
    );
    let one = world.run("marin-big-run", &[address, "--json"]).exits(0).json();
    assert_eq!(
        (one.as_array().unwrap().len(), &one[0]["behind"]),
        (1, &Value::from(false)),
        "alone it is behind nobody"
    );
}

#[test]
fn chips_that_no_program_holds_say_why_they_cannot_be_read() {
    let world = World::new();
    let ran = world.run("marin-us-central2", &["--json"]).exits(1);
    for host in ran.json().as_array().unwrap() {
        let why = host["why"].as_str().unwrap();
        assert!(why.contains("port 8431") && why.contains("only while a program uses the chips"), "{host}");
    }
    assert!(ran.err.contains("could not be read"), "{}", ran.err);
    let nobody = world.run("marin-us-central2", &["10.9.9.9"]).bad();
    assert!(nobody.contains("none of the selected live nodes has TPU chips or GPUs"), "{nobody}");
}
