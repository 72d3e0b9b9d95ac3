//! Compares a job's request for TPU slices with the node types in the cluster file. A slice of several hosts is
//! requested by the resource `TPU-<type>-head`, of which Ray gives 1 to its first host
//! (`get_current_node_additional_resources` in Ray's `_private/accelerators/tpu.py`); `TPU` alone is a number of chips
//! on one host.

use super::submit::{SubmitError, unfit};
use crate::config::{Launch, NodeLaunch};
use crate::model::ClusterSpec;
use crate::model::cloud::chips;
use crate::model::sort;
use crate::model::text::printable;
use std::collections::{BTreeMap, BTreeSet};

/// A kind of slice in the cluster file.
#[derive(Clone, Debug, PartialEq)]
struct Slice {
    accelerator: String,
    chips: u32,
    /// The amount of Ray's resource `TPU` on one of its hosts.
    per_host: f64,
}

impl Slice {
    fn is_of_several_hosts(&self) -> bool {
        self.per_host > 0.0 && f64::from(self.chips) > self.per_host
    }
}

/// The slices in the cluster file, by size; empty without a file or TPUs.
fn offered(spec: &ClusterSpec) -> Vec<Slice> {
    let types = Launch::of(spec).map(|launch| launch.types).unwrap_or_default();
    let slice = |node: &NodeLaunch| {
        let accelerator = node.config["acceleratorType"].as_str()?.to_owned();
        let per_host = node.resources["TPU"].as_f64().unwrap_or(0.0);
        Some(Slice { chips: chips(&accelerator)?, accelerator, per_host })
    };
    let mut all: Vec<Slice> = types.values().filter_map(slice).collect();
    sort::by(&mut all, |a, b| (a.chips, &a.accelerator).cmp(&(b.chips, &b.accelerator)));
    all.dedup_by(|a, b| a.accelerator == b.accelerator);
    all
}

/// The name of a type at Google and in Ray: `v5litepod` for v5e.
fn official(requested: &str) -> String {
    let requested = requested.to_lowercase();
    requested.strip_prefix("v5e-").map_or(requested.clone(), |size| format!("v5litepod-{size}"))
}

/// Requests the cluster's own type, chosen as the retired `ray_run.py` did.
const OWN: &str = "auto";

/// The TPU type of the node type `tpu_worker`, or else the smallest in the cluster file.
fn own_type(spec: &ClusterSpec) -> Result<String, SubmitError> {
    let types = Launch::of(spec).map(|launch| launch.types).unwrap_or_default();
    let worker = types.get("tpu_worker").and_then(|node| node.config["acceleratorType"].as_str());
    let own = worker.map(str::to_owned).or_else(|| Some(offered(spec).first()?.accelerator.clone()));
    own.ok_or_else(|| unfit!("the cluster file of {} has no TPU type; name one: --tpu v4-8", spec.name))
}

/// The resources that request a slice of this type: its head, and for a slice of one host its chips, so that nothing
/// else is scheduled on them.
///
/// # Errors
///
/// It is not a TPU type, or the cluster file has TPUs but none of this type; the nearest types are named.
pub fn slice_resources(spec: &ClusterSpec, requested: &str) -> Result<BTreeMap<String, f64>, SubmitError> {
    let wanted = if requested.eq_ignore_ascii_case(OWN) { own_type(spec)? } else { official(requested) };
    let Some(size) = chips(&wanted) else {
        return Err(unfit!("`{}` is not a TPU type like v4-128", printable(requested)));
    };
    let mut offered = offered(spec);
    let same = offered.iter().find(|slice| slice.accelerator == wanted);
    if offered.is_empty() || same.is_some() {
        let mut resources: BTreeMap<String, f64> = sort::collected([(format!("TPU-{wanted}-head"), 1.0)]);
        let on_one_host = same.filter(|slice| !slice.is_of_several_hosts()).map(|slice| slice.per_host);
        resources.extend(on_one_host.filter(|chips| *chips > 0.0).map(|chips| ("TPU".to_owned(), chips)));
        return Ok(resources);
    }
    let family = |kind: &str| kind.rsplit_once('-').map(|(family, _)| family.to_owned());
    let of_wanted = family(&wanted);
    sort::by_key(&mut offered, |slice| (family(&slice.accelerator) != of_wanted, slice.chips.abs_diff(size)));
    let nearest: Vec<&str> = offered.iter().take(3).map(|slice| slice.accelerator.as_str()).collect();
    let resource = format!("'{{\"TPU-{wanted}-head\": 1}}'");
    Err(unfit!(
        "{} has no node type for {wanted}; the nearest are {}; if a worker of that type was added manually, request \
         the resources {resource}",
        spec.name,
        printable(&nearest.join(", "))
    ))
}

/// Warnings about the TPUs that an entrypoint requests, one sentence each; safe to print.
pub(super) fn tpu_warnings(spec: &ClusterSpec, resources: &BTreeMap<String, f64>) -> Vec<String> {
    let offered = offered(spec);
    let has_head = resources.keys().any(|name| name.starts_with("TPU-") && name.ends_with("-head"));
    let wanted = resources.get("TPU").copied().unwrap_or(0.0);
    let known: Vec<&Slice> = offered.iter().filter(|slice| slice.per_host > 0.0).collect();
    if wanted <= 0.0 || has_head || known.is_empty() {
        return Vec::new();
    }
    let fitting: Vec<&&Slice> = known.iter().filter(|slice| slice.per_host >= wanted).collect();
    let names = |slices: &[&Slice]| {
        let names = slices.iter().map(|s| printable(&s.accelerator).into_owned());
        let names: BTreeSet<String> = sort::collected(names);
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    if fitting.is_empty() {
        let most = known.iter().map(|slice| slice.per_host).fold(0.0, f64::max);
        let whole = known.iter().find(|slice| f64::from(slice.chips) >= wanted);
        let hint =
            whole.map_or_else(String::new, |s| format!("; for a slice: --tpu {}", printable(&s.accelerator)));
        return vec![format!(
            "TPU {wanted} is requested from a single host, but no host of {} has more than {most}: the job will stay pending{hint}",
            spec.name
        )];
    }
    let slices: Vec<&Slice> =
        fitting.iter().map(|s| **s).filter(|slice| slice.is_of_several_hosts()).collect();
    let Some(first) = slices.first() else { return Vec::new() };
    let single = fitting.iter().find(|slice| !slice.is_of_several_hosts());
    // Ray places it on any host that has the chips.
    let (takes, hint, of) = match single {
        Some(single) => ("may take", "to request a slice of one host", &single.accelerator),
        None => ("takes", "to request all of it", &first.accelerator),
    };
    vec![format!(
        "TPU {wanted} {takes} a single host of a multi-host slice ({}), so nothing else can use the whole slice; {hint}: \
         --tpu {}",
        names(&slices),
        printable(of)
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Settings, cluster_of};
    use std::fs;

    fn spec(types: &[(&str, &str, u32)]) -> (tempfile::TempDir, ClusterSpec) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.yaml");
        let mut text = String::from(
            "cluster_name: lab\nhead_node_type: head\nprovider: {type: gcp, project_id: p, availability_zone: z-a}\n\
             available_node_types:\n  head: {}\n",
        );
        for (name, kind, tpu) in types {
            let node = format!("{{resources: {{TPU: {tpu}}}, node_config: {{acceleratorType: {kind}}}}}");
            text.extend(["  ", name, ": ", &node, "\n"]);
        }
        fs::write(&file, &text).unwrap();
        let spec = cluster_of(&text, &file, &Settings::default()).unwrap();
        (dir, spec)
    }

    #[test]
    fn a_slice_is_requested_by_its_head_and_only_where_it_is_offered() {
        let (_dir, lab) =
            spec(&[("a", "v4-8", 4), ("b", "v4-32", 4), ("c", "v4-512", 4), ("d", "v5litepod-16", 4)]);
        let of = |requested: &str| slice_resources(&lab, requested).map_err(|e| e.to_string());
        assert_eq!(of("v4-32").unwrap(), BTreeMap::from([("TPU-v4-32-head".to_owned(), 1.0)]));
        let one_host = [("TPU".to_owned(), 4.0), ("TPU-v4-8-head".to_owned(), 1.0)];
        assert_eq!(of("v4-8").unwrap(), BTreeMap::from(one_host));
        assert!(of("v5e-16").unwrap().contains_key("TPU-v5litepod-16-head"));
        let message = of("v4-64").unwrap_err();
        assert!(
            message.contains("lab has no node type for v4-64; the nearest are v4-32, v4-8, v4-512"),
            "{message}"
        );
        for wrong in ["", "v4", "tpu 8", "4", "v4-x"] {
            assert!(of(wrong).unwrap_err().contains("is not a TPU type"), "{wrong}");
        }
        assert_eq!(of("auto").unwrap(), of("v4-8").unwrap(), "the smallest");
        let (_dir, own) = spec(&[("a", "v4-8", 4), ("tpu_worker", "v4-32", 4)]);
        assert!(slice_resources(&own, "auto").unwrap().contains_key("TPU-v4-32-head"));
        let (_dir, without) = spec(&[]);
        assert!(slice_resources(&without, "auto").is_err());
        assert!(slice_resources(&without, "v4-64").is_ok(), "nothing is refused without known types");
    }

    #[test]
    fn requests_for_part_of_a_slice_or_more_than_a_host_has_give_warnings() {
        let tpu = |n: f64| BTreeMap::from([("TPU".to_owned(), n)]);
        let (_dir, slices) = spec(&[("b", "v4-32", 4), ("c", "v4-512", 4)]);
        assert!(
            tpu_warnings(&slices, &tpu(4.0))[0]
                .contains("takes a single host of a multi-host slice (v4-32, v4-512)")
        );
        assert!(tpu_warnings(&slices, &tpu(4.0))[0].ends_with("--tpu v4-32"));
        assert!(tpu_warnings(&slices, &tpu(8.0))[0].contains("stay pending; for a slice: --tpu v4-32"));
        let (_dir, both) = spec(&[("a", "v4-8", 4), ("b", "v4-32", 4)]);
        let message = &tpu_warnings(&both, &tpu(4.0))[0];
        assert!(message.contains("may take a single host of a multi-host slice (v4-32)"), "{message}");
        assert!(message.ends_with("--tpu v4-8"), "{message}");
        let (_dir, single) = spec(&[("a", "v4-8", 4)]);
        assert_eq!(tpu_warnings(&single, &tpu(4.0)), [""; 0]);
        let whole = BTreeMap::from([("TPU".to_owned(), 4.0), ("TPU-v4-32-head".to_owned(), 1.0)]);
        assert_eq!(tpu_warnings(&slices, &whole), [""; 0]);
        assert_eq!(tpu_warnings(&slices, &BTreeMap::new()), [""; 0]);
        let (_dir, without) = spec(&[]);
        assert_eq!(tpu_warnings(&without, &tpu(400.0)), [""; 0]);
    }
}
