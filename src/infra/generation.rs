//! The TPU generations of the table, and the node types that a cluster gets from them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One generation. Figures: cloud.google.com/tpu/docs/system-architecture-tpu-vm.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generation {
    /// Prefix of its accelerator types, e.g. `v5litepod`.
    pub accelerator: String,
    /// The TPU VM's image.
    pub runtime_version: String,
    /// 2 where the number in a type counts `TensorCores`, 1 where it counts chips.
    pub cores_per_chip: u32,
    /// Chips of one host, which is also the host's `TPU` resource in Ray.
    pub chips_per_host: u32,
    /// Number of the base worker's type.
    pub base: u32,
    /// Numbers of the slices' types.
    #[serde(default)]
    pub slices: Vec<u32>,
    /// Zones that offer it.
    pub zones: Vec<String>,
}

/// One of `available_node_types`, as a variable of templates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkerType {
    /// Its name in Ray: `tpu_worker`, or `tpu_slice_v4_32`.
    pub name: String,
    /// Its name in Google Cloud: `v4-32`.
    pub accelerator_type: String,
    /// The TPU VM's image.
    pub runtime_version: String,
    /// Chips of one host.
    pub chips_per_host: u32,
    /// Chips of the whole slice.
    pub chips: u32,
    /// `min_workers`.
    pub min_workers: u32,
    /// `max_workers`.
    pub max_workers: u32,
}

impl Generation {
    /// The node types of a cluster of this generation, called `name` in the table: the base worker, and each slice
    /// with its target by accelerator type or by `GENERATION-SIZE`.
    pub fn worker_types(
        &self,
        name: &str,
        min: u32,
        max: u32,
        targets: &BTreeMap<String, u32>,
    ) -> Vec<WorkerType> {
        let worker = |ray: String, size: u32, min_workers: u32| WorkerType {
            name: ray,
            accelerator_type: format!("{}-{size}", self.accelerator),
            runtime_version: self.runtime_version.clone(),
            chips_per_host: self.chips_per_host,
            chips: size / self.cores_per_chip.max(1),
            min_workers,
            max_workers: max,
        };
        let base = worker("tpu_worker".into(), self.base, min);
        let slice = |&size: &u32| {
            let target = targets
                .get(&format!("{name}-{size}"))
                .or(targets.get(&format!("{}-{size}", self.accelerator)));
            worker(format!("tpu_slice_{}_{size}", name.replace('-', "_")), size, target.copied().unwrap_or(0))
        };
        [base].into_iter().chain(self.slices.iter().map(slice)).collect()
    }

    /// Whether the target names one of this generation's slices.
    pub fn has_slice(&self, name: &str, target: &str) -> bool {
        let named = |size: &u32| {
            target == format!("{name}-{size}") || target == format!("{}-{size}", self.accelerator)
        };
        self.slices.iter().any(named)
    }
}
