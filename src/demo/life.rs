//! The activity of a simulated cluster: TPU slices that join host by host and are preempted, users who submit jobs, an
//! autoscaler that launches, fails or is stuck. Plain values, which a scenario file can set.
//!
//! `engine` runs the events, with `slices`, `jobs` (`again`: resubmitted jobs; `entrypoints`: other submitted jobs that
//! take a slice) and `machines` (the TPU VMs that Google lists). `gang` is the workers of a run. `tale` is the text of
//! a log; `monitor` writes the autoscaler's lines, `train` those of a training job.

mod again;
pub(super) mod engine;
mod entrypoints;
pub(super) mod gang;
mod jobs;
mod machines;
mod monitor;
mod slice;
mod slices;
pub(super) mod stamp;
pub(super) mod tale;
mod train;
mod work;

use gang::ScriptedRun;
use serde::Deserialize;

/// A TPU node type of the cluster's YAML, such as `tpu_slice_v4_32`, and its slices.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpuType {
    /// The autoscaler's name for it.
    pub name: String,
    /// Google's `acceleratorType`: `v4-32`, `v5litepod-16`. It determines how many hosts a slice has.
    pub accelerator_type: String,
    /// Minimum number of slices, which the autoscaler keeps.
    #[serde(default)]
    pub min_workers: usize,
    /// Maximum number of slices.
    #[serde(default = "most")]
    pub max_workers: usize,
    /// Slices that exist when the simulation begins; at least `min_workers` are created.
    #[serde(default)]
    pub slices: usize,
}

/// Marin's limit for every node type.
fn most() -> usize {
    1024
}

impl TpuType {
    /// A node type of Marin's clusters with the given number of initial slices.
    pub fn new(name: &str, accelerator_type: &str, min_workers: usize, slices: usize) -> Self {
        let (name, accelerator_type) = (name.to_owned(), accelerator_type.to_owned());
        Self { name, accelerator_type, min_workers, max_workers: most(), slices }
    }
}

/// Why Google refuses to create a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The zone has no capacity left.
    Stockout,
    /// The project's quota is exceeded.
    Quota,
}

/// A slice that loses half of its hosts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halved {
    /// Its node type.
    pub node_type: String,
    /// When the hosts die, in minutes before the simulation begins.
    pub minutes_ago: u32,
}

/// The simulated activity of a cluster. Rates are averages of random events, which the scenario's seed determines.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Life {
    /// `cluster_name`, which is part of the machines' names.
    pub cluster: String,
    /// The zone of its machines.
    pub zone: String,
    /// The bucket of the checkpoints, without `gs://`.
    pub bucket: String,
    /// The TPU node types of the YAML; jobs request the first ones more often than the last ones.
    pub types: Vec<TpuType>,
    /// Length of the history that is simulated before the simulation begins, in minutes.
    pub past_minutes: u32,
    /// Jobs submitted per hour.
    pub jobs_per_hour: f64,
    /// Mean training time of a job without interruptions, in minutes.
    pub job_minutes: f64,
    /// Share of the jobs that fail on their own, 0 to 1.
    pub failing: f64,
    /// Slices that Google preempts per hour, in the whole cluster.
    pub preemptions_per_hour: f64,
    /// Mean time from the request for a slice until Google creates or refuses it, in seconds.
    pub launch_seconds: f64,
    /// Why launches fail; `None` if none fails.
    pub refusal: Option<Refusal>,
    /// Share of the launches that fail for this reason, 0 to 1.
    pub refused: f64,
    /// Accelerator types that no node type offers; one job waits for each.
    pub infeasible: Vec<String>,
    /// Runs that exist when the simulation begins, with the events that affect their workers. Runs of one node type use
    /// its first slice one after the other.
    pub runs: Vec<ScriptedRun>,
    /// Slices that lose half of their hosts; no job runs on them.
    #[serde(rename = "half_lost")]
    pub halved: Vec<Halved>,
    /// Whether the cluster is unused: no job runs and none is submitted.
    pub idle: bool,
    /// The autoscaler has not noticed that all spot TPUs died: only the head is left, and each loop fails because it
    /// requests a machine from Google that no longer exists (ray#29698).
    pub stuck: bool,
}

impl Default for Life {
    /// Typical activity of the v4 cluster.
    fn default() -> Self {
        Self {
            cluster: "marin-us-central2".into(),
            zone: "us-central2-b".into(),
            bucket: "marin-us-central2".into(),
            types: vec![
                TpuType::new("tpu_worker", "v4-8", 4, 6),
                TpuType::new("tpu_slice_v4_32", "v4-32", 0, 3),
                TpuType::new("tpu_slice_v4_64", "v4-64", 0, 1),
                TpuType::new("tpu_slice_v4_128", "v4-128", 0, 1),
            ],
            past_minutes: 180,
            jobs_per_hour: 14.0,
            job_minutes: 35.0,
            failing: 0.2,
            preemptions_per_hour: 3.0,
            launch_seconds: 75.0,
            refusal: None,
            refused: 0.5,
            infeasible: Vec::new(),
            runs: Vec::new(),
            halved: Vec::new(),
            idle: false,
            stuck: false,
        }
    }
}
