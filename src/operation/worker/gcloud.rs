//! Workers that this program does not create: TPUs that Google makes with Compute Engine only, or that the cluster file
//! describes as such. It says the commands that do.

use super::super::trouble;
use crate::config::{CapacityField, NodeLaunch};
use crate::gcp::TpuPlace;
use crate::model::machine_type::TpuMachine;
use crate::model::text::printable;
use crate::model::{Hint, Problem, Verb};

/// Google's images for TPUs on Compute Engine, by the beginning of the machine type; see contributing.md.
const IMAGES: [(&str, &str); 3] = [
    ("ct5p-", "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"),
    ("ct6e-", "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"),
    ("tpu7x-", "ubuntu-accel-2404-amd64-tpu-tpu7x"),
];

/// The topologies of `TPU7x` by their chips, of slices of more than one host.
const TPU7X: [(u32, &str); 6] =
    [(8, "2x2x2"), (16, "2x2x4"), (32, "2x4x4"), (64, "4x4x4"), (128, "4x4x8"), (256, "4x8x8")];

/// Why a type's workers cannot be requested here, with the commands that create them; none for a TPU of Cloud TPU.
pub(super) fn refusal(
    place: &TpuPlace,
    (kind, node): (&str, &NodeLaunch),
    capacity: &CapacityField,
    names: &[String],
) -> Option<Problem> {
    let accelerator = node.config["acceleratorType"].as_str().unwrap_or_default();
    let machine = node.config["machineType"].as_str().and_then(|url| url.rsplit('/').next());
    let (machine, chips) = match accelerator.strip_prefix("tpu7x-") {
        Some(cores) => ("tpu7x-standard-4t", cores.parse::<u32>().ok()? / 2),
        None if accelerator.is_empty() => {
            let machine = machine?;
            (machine, TpuMachine::parse(machine)?.chips)
        }
        None => return None,
    };
    let hosts = chips.div_ceil(TpuMachine::parse(machine)?.chips).max(1);
    let what = format!("{kind} ({machine}) is created with Compute Engine, which add-worker does not do");
    let order = Order { place, kind, machine, hosts, chips, flags: flags(capacity) };
    let Some(commands) = order.commands(names) else {
        let hint = "see docs.cloud.google.com/tpu/docs/tpus-in-compute-engine, and label it as the others";
        return Some(trouble(what, hint));
    };
    let mut hint = Hint::from(format!("run `{commands}`"));
    if order.flags.contains("RESERVATION ") {
        let list = format!("gcloud compute reservations list --project={}", place.project);
        hint = hint.and(format!("RESERVATION is the name of yours: `{list}`"));
    }
    let name = names.first().map_or("", String::as_str);
    Some(trouble(what, hint.and(Verb::InitWorker.on(name, "once it is up, start Ray there"))))
}

/// How `gcloud` asks for that capacity.
fn flags(capacity: &CapacityField) -> &'static str {
    if capacity.field.contains_key("reservationName") {
        "--provisioning-model=RESERVATION_BOUND --reservation-affinity=specific --reservation=RESERVATION \
         --instance-termination-action=DELETE"
    } else {
        "--provisioning-model=SPOT --instance-termination-action=STOP"
    }
}

/// What is to be created.
struct Order<'a> {
    place: &'a TpuPlace,
    /// The type in the cluster file.
    kind: &'a str,
    machine: &'a str,
    hosts: u32,
    chips: u32,
    flags: &'static str,
}

impl Order<'_> {
    /// One line for a shell; none where image or topology are not known here.
    fn commands(&self, names: &[String]) -> Option<String> {
        let image = IMAGES.iter().find(|(family, _)| self.machine.starts_with(family))?.1;
        let TpuPlace { project, zone, cluster } = self.place;
        let words = [project, zone, cluster, &self.kind.to_owned()];
        // They stand unquoted in a line that somebody pastes.
        let is_plain =
            |w: &str| w.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'));
        if !words.iter().all(|w| is_plain(w)) || !names.iter().all(|n| is_plain(n)) {
            return None;
        }
        let labels =
            format!("ray-cluster-name={cluster},ray-node-type=unmanaged,ray-user-node-type={}", self.kind);
        let same = format!(
            "--machine-type={} --maintenance-policy=TERMINATE {} --image-project=ubuntu-os-accelerator-images \
             --image-family={image} --scopes=cloud-platform --labels={labels}",
            self.machine, self.flags
        );
        if self.hosts == 1 {
            let names = names.join(" ");
            return Some(format!(
                "gcloud compute instances create {names} --project={project} --zone={zone} {same}"
            ));
        }
        let (topology, (region, _)) =
            (TPU7X.iter().find(|(chips, _)| *chips == self.chips)?.1, zone.rsplit_once('-')?);
        let one = |name: &String| {
            format!(
                "gcloud compute resource-policies create workload-policy {name} --project={project} --region={region} \
                 --type=HIGH_THROUGHPUT --accelerator-topology={topology} && \
                 gcloud compute instance-templates create {name} --project={project} \
                 --instance-template-region={region} {same} && \
                 gcloud compute instance-groups managed create {name} --project={project} --zone={zone} \
                 --template=projects/{project}/regions/{region}/instanceTemplates/{name} --size={} \
                 --target-size-policy-mode=bulk --default-action-on-vm-failure=do-nothing \
                 --workload-policy=projects/{project}/regions/{region}/resourcePolicies/{name}",
                self.hosts
            )
        };
        Some(printable(&names.iter().map(one).collect::<Vec<_>>().join(" && ")).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(config: Value, field: &Value, names: &[&str]) -> Option<String> {
        let place = TpuPlace { project: "p".into(), zone: "us-central1-c".into(), cluster: "marin".into() };
        let node = NodeLaunch { config, ..NodeLaunch::default() };
        let capacity: CapacityField = serde_json::from_value(json!({"api": "v2", "field": field})).unwrap();
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        refusal(&place, ("slice", &node), &capacity, &names).map(|p| format!("{}: {}", p.what, p.hint))
    }

    #[test]
    fn what_cloud_tpu_does_not_make_is_refused_with_the_commands_that_do() {
        let spot = json!({"spot": {}});
        for known in [json!({"acceleratorType": "v5p-16"}), json!({"machineType": "n2-standard-8"})] {
            assert_eq!(said(known, &spot, &["w"]), None);
        }
        let one = said(json!({"machineType": "zones/z/machineTypes/ct6e-standard-4t"}), &spot, &["a", "b"])
            .unwrap();
        for part in [
            "slice (ct6e-standard-4t) is created with Compute Engine",
            "`gcloud compute instances create a b --project=p --zone=us-central1-c --machine-type=ct6e-standard-4t ",
            "--provisioning-model=SPOT",
            "--labels=ray-cluster-name=marin,ray-node-type=unmanaged,ray-user-node-type=slice`",
            "init-worker a",
        ] {
            assert!(one.contains(part), "{part}: {one}");
        }
        let slice =
            said(json!({"acceleratorType": "tpu7x-16"}), &json!({"reservationName": "x"}), &["w"]).unwrap();
        for part in [
            "create workload-policy w --project=p --region=us-central1 --type=HIGH_THROUGHPUT --accelerator-topology=2x2x2 &&",
            "gcloud compute instance-templates create w --project=p --instance-template-region=us-central1 ",
            "managed create w --project=p --zone=us-central1-c ",
            "--size=2 --target-size-policy-mode=bulk",
            "`gcloud compute reservations list --project=p`",
        ] {
            assert!(slice.contains(part), "{part}: {slice}");
        }
        let later = said(json!({"machineType": "tpu9-standard-4t"}), &spot, &["w"]).unwrap();
        assert!(later.contains("tpus-in-compute-engine") && !later.contains("gcloud"), "{later}");
        let odd = said(json!({"acceleratorType": "tpu7x-24"}), &spot, &["w"]).unwrap();
        assert!(!odd.contains("gcloud"), "{odd}");
    }
}
