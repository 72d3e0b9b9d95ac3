//! The slice that a TPU host belongs to, from Ray's data about the host.
//!
//! Ray sets the labels `ray.io/tpu-slice-name`, `ray.io/tpu-topology` and `ray.io/tpu-pod-type` on each host of a slice
//! (`ray/_private/accelerators/tpu.py`, since 2.47). Earlier versions only have a resource that is named after the TPU
//! pod, one unit on each of its hosts.

use super::cloud::chips;
use super::{Chip, Node, Resource, Text};

/// Maximum plausible number of chips of a slice; the largest existing one is v5p-12288.
const MAX_CHIPS: u32 = 16_384;

impl Node {
    /// Its TPU chips, else its GPUs; none if it has neither.
    pub fn chips(&self) -> Option<&Resource> {
        let has = |chip: Chip| self.resources.get(chip.resource()).filter(|r| r.total > 0.0);
        has(Chip::Tpu).or_else(|| has(Chip::Gpu))
    }

    /// The name of its slice: the label, else the resource that is named after the TPU pod, else the provider's id of
    /// the machine, which the hosts of a pod share. None if it has no TPU, or if none of these is reported.
    pub fn slice(&self) -> Option<&Text> {
        let labelled = self.label("ray.io/tpu-slice-name").filter(|name| !name.is_empty());
        labelled.or_else(|| {
            self.resources.get(Chip::Tpu.resource()).filter(|r| r.total > 0.0)?;
            let pod = self.resources.0.iter().map(|r| &r.name).find(|name| name.raw().ends_with("-tpu"));
            pod.or(Some(&self.instance_id).filter(|id| !id.is_empty()))
        })
    }

    /// Ray's name for its accelerator type: `v4-128` for a host of a slice, `A100` for a host with GPUs.
    pub fn chip_type(&self) -> Option<&Text> {
        let labels = ["ray.io/tpu-pod-type", "ray.io/accelerator-type"].into_iter();
        labels.filter_map(|key| self.label(key)).find(|kind| !kind.is_empty())
    }

    /// Topology of its slice, e.g. `4x4x8`.
    pub fn topology(&self) -> Option<&Text> {
        self.label("ray.io/tpu-topology").filter(|topology| !topology.is_empty())
    }

    /// Number of hosts of its slice: the chips of the topology or type, divided by the host's own chips. None if the
    /// labels do not show it.
    pub fn hosts_of_slice(&self) -> Option<u32> {
        let here = self.resources.get(Chip::Tpu.resource()).map(|r| r.total).filter(|t| *t >= 1.0)?;
        let chips = self
            .topology()
            .and_then(|topology| chips_of_topology(topology.raw()))
            .or_else(|| chips(self.label("ray.io/tpu-pod-type")?.raw()))?;
        (chips <= MAX_CHIPS).then(|| (f64::from(chips) / here).ceil() as u32)
    }
}

/// `2x2x4` is 16 chips.
fn chips_of_topology(topology: &str) -> Option<u32> {
    topology.split('x').map(|n| n.parse::<u32>().ok()).try_fold(1u32, |all, n| all.checked_mul(n?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Resources;

    fn host(resources: &[(&str, f64)], labels: &[(&str, &str)], instance: &str) -> Node {
        let resource =
            |(name, total): &(&str, f64)| Resource { name: (*name).into(), total: *total, used: None };
        Node {
            resources: Resources(resources.iter().map(resource).collect()),
            labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            instance_id: instance.into(),
            ..Node::sample(1)
        }
    }

    #[test]
    fn a_topology_is_the_product_of_its_sides() {
        assert_eq!(chips_of_topology("2x2x4"), Some(16));
        assert_eq!(chips_of_topology("4x4"), Some(16));
        assert_eq!(chips_of_topology(""), None);
        assert_eq!(chips_of_topology("99999x99999"), None);
    }

    #[test]
    fn a_slice_is_named_by_its_label_then_its_pod_then_its_machine() {
        let pod = [("TPU", 4.0), ("ray-c-worker-7-tpu", 1.0)];
        let name = |node: &Node| node.slice().map(|name| name.raw().to_owned());
        assert_eq!(name(&host(&pod, &[("ray.io/tpu-slice-name", "s")], "i")).as_deref(), Some("s"));
        assert_eq!(
            name(&host(&pod, &[("ray.io/tpu-slice-name", "")], "i")).as_deref(),
            Some("ray-c-worker-7-tpu")
        );
        assert_eq!(name(&host(&[("TPU", 4.0)], &[], "i")).as_deref(), Some("i"));
        assert_eq!(name(&host(&[("TPU", 4.0)], &[], "")), None);
        assert_eq!(name(&host(&[("CPU", 4.0)], &[], "i")), None, "a host without TPU chips has no slice");
    }

    #[test]
    fn hosts_are_derived_from_chips_and_implausible_sizes_are_ignored() {
        let of = |labels: &[(&str, &str)]| host(&[("TPU", 4.0)], labels, "").hosts_of_slice();
        assert_eq!(of(&[("ray.io/tpu-topology", "4x4x8"), ("ray.io/tpu-pod-type", "v4-8")]), Some(32));
        assert_eq!(of(&[("ray.io/tpu-pod-type", "v4-64")]), Some(8));
        assert_eq!(of(&[("ray.io/tpu-topology", "64x64x64")]), None);
        assert_eq!(of(&[("ray.io/tpu-pod-type", "v9-16")]), None, "unknown generation");
        assert_eq!(of(&[]), None);
        assert_eq!(host(&[("TPU", f64::NAN)], &[("ray.io/tpu-topology", "4x4")], "").hosts_of_slice(), None);
    }
}
