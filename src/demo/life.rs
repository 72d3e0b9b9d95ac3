//! The activity of a simulated cluster: TPU slices that join host by host and are preempted, users who submit jobs, an
//! autoscaler that launches, fails or is stuck. Plain values, which a scenario file can set.
//!
//! `engine` plays them out, with `slices`, `jobs` (`again`: submitted once more) and the `machines` that
//! Google sees; `gang`: the workers of a run; `tale` is the text of a log, in the words of the autoscaler's `monitor` or of a job that is
//! in `train`.

mod again;
pub(super) mod engine;
pub(super) mod gang;
mod jobs;
mod machines;
mod monitor;
mod slice;
mod slices;
mod stamp;
pub(super) mod tale;
mod train;
mod work;

use gang::Told;
use serde::Deserialize;

/// A node type of the cluster's YAML: `tpu_slice_v4_32` and what stands behind it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpuType {
    /// The autoscaler's name for it.
    pub name: String,
    /// Google's `acceleratorType`: `v4-32`, `v5litepod-16`. It says how many hosts a slice has.
    pub accelerator_type: String,
    /// Slices that the autoscaler keeps.
    #[serde(default)]
    pub min_workers: usize,
    /// Slices that it never goes beyond.
    #[serde(default = "most")]
    pub max_workers: usize,
    /// Slices that are there when the simulation begins; never fewer than `min_workers`.
    #[serde(default)]
    pub slices: usize,
}

/// Marin's limit for every node type.
fn most() -> usize {
    1024
}

impl TpuType {
    /// A type of Marin's clusters, with that many slices at the beginning.
    pub fn new(name: &str, accelerator_type: &str, min_workers: usize, slices: usize) -> Self {
        let (name, accelerator_type) = (name.to_owned(), accelerator_type.to_owned());
        Self { name, accelerator_type, min_workers, max_workers: most(), slices }
    }
}

/// Why Google gives no machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The zone has none left.
    Stockout,
    /// The project may not have more.
    Quota,
}

/// A slice of which half the hosts die.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halved {
    /// Its node type.
    pub node_type: String,
    /// Minutes before the simulation begins.
    pub minutes_ago: u32,
}

/// The life of a cluster. Rates are means of chance that the scenario's seed decides.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Life {
    /// `cluster_name`, of which Ray makes the machines' names.
    pub cluster: String,
    /// The zone that its machines are in.
    pub zone: String,
    /// Where checkpoints go, without `gs://`.
    pub bucket: String,
    /// The YAML's TPU node types; jobs ask for an early one more often than for a late one.
    pub types: Vec<TpuType>,
    /// How long the cluster had lived so when the simulation begins, in minutes: what happened in that time is its
    /// history.
    pub past_minutes: u32,
    /// Jobs that arrive in an hour.
    pub jobs_per_hour: f64,
    /// How long a job trains when nothing disturbs it, in minutes.
    pub job_minutes: f64,
    /// Share of the jobs that fail by themselves, 0 to 1.
    pub failing: f64,
    /// Slices that Google takes back in an hour, over the whole cluster.
    pub preemptions_per_hour: f64,
    /// How long a slice takes from the request until its first host is there, in seconds.
    pub launch_seconds: f64,
    /// What launches meet that fail; `None`: none fails.
    pub refusal: Option<Refusal>,
    /// Share of the launches that fail so, 0 to 1.
    pub refused: f64,
    /// Accelerator types that jobs wait for though no node type offers them: one job each.
    pub infeasible: Vec<String>,
    /// Runs that are there when the simulation begins, with what befalls their workers; those of one node type have its
    /// first slice one after the other.
    pub runs: Vec<Told>,
    /// Slices of which half the hosts die, without work on them.
    pub halved: Vec<Halved>,
    /// Whether the cluster is unused: no job runs and none arrives.
    pub idle: bool,
    /// The autoscaler has failed to notice that all spot TPUs died: only the head is left, and it asks Google again
    /// and again for a machine that is gone (ray#29698).
    pub stuck: bool,
}

impl Default for Life {
    /// A day at the v4 cluster.
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
