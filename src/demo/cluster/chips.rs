//! The activity of simulated TPU chips: busy while a run trains on them. If one worker hangs while it reads a batch,
//! the chips of its host are idle, and the others are busy in a collective operation that waits for it.

use super::super::libtpu::{SimChip, TpuRuntime};
use super::super::life::gang::Gang;
use super::Cluster;
use super::node::SimNode;

const GIB: u64 = 1 << 30;
/// Duration of a training step in milliseconds.
const STEP: i64 = 900;

impl Cluster {
    /// The metrics of libtpu on the host with this address; none while no program holds its chips.
    pub fn tpu_runtime(&self, address: &str) -> Option<TpuRuntime> {
        let node = self.nodes.iter().find(|node| node.ip == address && node.is_alive())?;
        let chips = node.resources.iter().find(|(name, ..)| name == "TPU")?.1 as usize;
        let gangs = self.life.iter().flat_map(|life| &life.gangs).filter(|gang| gang.runs(self.now));
        let mut running =
            gangs.filter_map(|gang| Some((gang, gang.hosts.iter().position(|host| *host == node.id)?)));
        let (worker, run, hangs) = match running.next_back() {
            Some((gang, worker)) => activity(gang, worker, self.now),
            // Without simulated activity a host is either busy or idle.
            None if self.life.is_none() && node.idle_since.is_none() => {
                (0, (self.now - node.started) / STEP, false)
            }
            None => return None,
        };
        let total = memory(node);
        let chip = |number: usize| {
            let spread = ((worker * 31 + number * 17) % 9) as f64 / 2.0;
            SimChip {
                duty: if hangs { 0.0 } else { 93.0 + spread },
                used: total / 100 * (71 + (worker + number) as u64 % 5),
                total,
            }
        };
        Some(TpuRuntime {
            host: node.hostname.clone(),
            first_core: (worker * chips) as i32,
            chips: (0..chips).map(chip).collect(),
            run: Some(run),
        })
    }
}

/// A worker's number, the number of its current program run, and whether it is the worker that the others wait for.
fn activity(gang: &Gang, worker: usize, now: i64) -> (usize, i64, bool) {
    let at = |ms: i64| (ms - gang.began()).max(0) / STEP;
    match gang.silent_worker(now) {
        None => (worker, at(now), false),
        Some((silent, since)) if silent == worker => (worker, at(since), true),
        Some((_, since)) => (worker, at(since) + 1, false),
    }
}

/// Memory of a chip by the accelerator's generation (`TpuChip` in tpu-info's `device.py`).
fn memory(node: &SimNode) -> u64 {
    let label = node.labels.iter().find(|(key, _)| key == "ray.io/tpu-pod-type");
    match label.and_then(|(_, pod)| pod.split('-').next()).unwrap_or_default() {
        "v5litepod" => 16 * GIB,
        "v5p" => 95 * GIB,
        "tpu7x" => 192 * GIB,
        _ => 32 * GIB,
    }
}
