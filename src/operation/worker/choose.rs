//! Selects workers by their properties instead of their names: all of a type, all preempted ones. Only workers outside
//! the autoscaler are selected, by their label `ray-node-type: unmanaged`.

use super::super::failure;
use super::super::problem::problem;
use crate::model::cloud::{CloudView, QueuedResource, QueuedState, TpuVm, VmState};
use crate::model::command_line::shell_quote;
use crate::model::sort;
use crate::model::{ClusterSpec, Problem, Target, Text};
use crate::supervisor::{self, Options};
use std::collections::BTreeSet;

/// A selection of workers outside the autoscaler.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only of this type: an accelerator type (`v4-128`), or a node type of the cluster file.
    pub kind: Option<String>,
    /// Only those that Google has preempted or terminated.
    pub preempted: bool,
}

impl Selection {
    /// The selection in words.
    pub fn text(&self) -> String {
        let kind = self.kind.as_ref().map(|kind| format!("of type {}", Text::from(kind.as_str())));
        let preempted = self.preempted.then(|| "preempted".to_owned());
        let words: Vec<String> =
            preempted.into_iter().chain(Some("workers outside the autoscaler".into())).chain(kind).collect();
        words.join(" ")
    }

    fn matches(&self, vm: &TpuVm) -> bool {
        let is_kind = |kind: &String| {
            vm.accelerator_type.raw() == kind || vm.ray_type.as_ref().is_some_and(|t| t.raw() == kind)
        };
        vm.state != VmState::Deleting
            && (!self.preempted || vm.state.is_gone())
            && self.kind.as_ref().is_none_or(is_kind)
    }
}

/// The names of the selected workers, as a removal accepts them; and messages about workers that are only partly
/// selected and therefore skipped, safe to print.
pub async fn select(
    spec: &ClusterSpec,
    options: &Options,
    selection: &Selection,
) -> Result<(Vec<String>, Vec<String>), Problem> {
    let location = supervisor::tpu_location(spec)?;
    let view = supervisor::ask_cloud(spec, &options.google).await?;
    if !view.is_whole() {
        let what = "Google could not list everything, so workers may be missing";
        return Err(failure(what, "try again in a minute, or specify the names of the workers"));
    }
    let unmanaged = options.google.tpus_of_kind(&location, "unmanaged").await.map_err(|e| problem(&e))?;
    let (names, mut left) = chosen(&view, &unmanaged, selection);
    left.extend(waiting(&view, spec, selection).map(|request| {
        let line = Target::of(&spec.name).line(&format!("remove-worker {}", shell_quote(request.raw())));
        format!("{request}: this request is still waiting for capacity; `{line}` deletes it")
    }));
    Ok((names, left))
}

/// The cluster's requests of the selected type that have no TPU VM yet: future workers.
fn waiting<'a>(
    view: &'a CloudView,
    spec: &'a ClusterSpec,
    selection: &'a Selection,
) -> impl Iterator<Item = &'a Text> {
    // Ray's launcher gives the head of a slice a resource named after its TPU type.
    let gives = |kind: &str, accelerator: &Text| {
        let resource = format!("TPU-{}-head", accelerator.raw());
        let mut types = spec.node_types.iter().filter(|t| t.name == kind);
        types.any(|t| t.gives.iter().any(|(name, _)| *name == resource))
    };
    view.queued.iter().filter_map(move |q| {
        let kind = selection.kind.as_ref().filter(|_| !selection.preempted)?;
        let is_ours = q.ray_cluster.as_ref().is_some_and(|label| label.raw() == spec.name.as_str());
        let is_waiting = matches!(q.state, QueuedState::Waiting | QueuedState::Provisioning);
        let is_kind = q.accelerator_type.raw() == kind || gives(kind, &q.accelerator_type);
        let has_vm = view.vms.iter().any(|vm| holds(q, vm.name.raw(), view));
        (is_ours && is_waiting && is_kind && !has_vm).then_some(&q.name)
    })
}

/// Selects among `unmanaged`, the TPU VMs outside the autoscaler. A queued resource of several TPU VMs is deleted with
/// all of them, so it is only selected if all of them are.
fn chosen(view: &CloudView, unmanaged: &[TpuVm], selection: &Selection) -> (Vec<String>, Vec<String>) {
    let matching = unmanaged.iter().filter(|vm| selection.matches(vm));
    let matching: BTreeSet<&str> = sort::collected(matching.map(|vm| vm.name.raw()));
    let (mut names, mut left) = (BTreeSet::new(), BTreeSet::new());
    for name in &matching {
        let Some(queued) = view.queued.iter().find(|q| holds(q, name, view)) else {
            names.insert((*name).to_owned());
            continue;
        };
        let with: Vec<&TpuVm> = view.vms.iter().filter(|vm| holds(queued, vm.name.raw(), view)).collect();
        let all = with.len().max(queued.nodes.len());
        let others: Vec<String> = with
            .iter()
            .filter(|vm| !matching.contains(vm.name.raw()))
            .map(|vm| vm.name.to_string())
            .collect();
        if !others.is_empty() {
            left.insert(format!("{}: Google would also delete {}", queued.name, others.join(", ")));
        } else if all > 1 {
            names.insert(queued.name.raw().to_owned());
        } else {
            names.insert((*name).to_owned());
        }
    }
    (names.into_iter().collect(), left.into_iter().collect())
}

fn holds(queued: &QueuedResource, name: &str, view: &CloudView) -> bool {
    view.vms.iter().any(|vm| vm.name.raw() == name && queued.has(vm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cloud::Capacity;
    use crate::model::{NodeTypeLimits, Provider};

    fn vm(name: &str, kind: &str, state: VmState, queued: Option<&str>) -> TpuVm {
        TpuVm {
            id: None,
            name: name.into(),
            accelerator_type: kind.into(),
            state,
            api_state: "".into(),
            unhealthy: None,
            hosts: vec![name.into()],
            external: vec![None],
            capacity: Capacity::Spot,
            queued_resource: queued.map(Text::from),
            created: None,
            started: None,
            ray_cluster: Some("marin".into()),
            ray_type: Some("tpu_slice".into()),
            compute: None,
        }
    }

    fn queued(name: &str, nodes: &[&str]) -> QueuedResource {
        QueuedResource {
            name: name.into(),
            state: QueuedState::Active,
            api_state: "".into(),
            error: None,
            accelerator_type: "v4-8".into(),
            nodes: nodes.iter().map(|n| Text::from(*n)).collect(),
            capacity: Capacity::Spot,
            created: None,
            ray_cluster: Some("marin".into()),
        }
    }

    #[test]
    fn requests_of_the_type_without_a_machine_are_reported() {
        let of = |name: &str, state: QueuedState, kind: &str, cluster: Option<&str>| QueuedResource {
            state,
            accelerator_type: kind.into(),
            ray_cluster: cluster.map(Text::from),
            ..queued(name, &[name])
        };
        let view = CloudView {
            vms: vec![vm("has-one", "v4-8", VmState::Starting, Some("has-one"))],
            queued: vec![
                of("waits", QueuedState::Waiting, "v4-8", Some("marin")),
                of("comes", QueuedState::Provisioning, "v4-8", Some("marin")),
                of("has-one", QueuedState::Provisioning, "v4-8", Some("marin")),
                of("failed", QueuedState::Failed, "v4-8", Some("marin")),
                of("large", QueuedState::Waiting, "v4-128", Some("marin")),
                of("others", QueuedState::Waiting, "v4-8", Some("b")),
                of("unlabeled", QueuedState::Waiting, "v4-8", None),
            ],
            complete: true,
            ..CloudView::default()
        };
        let limits = NodeTypeLimits {
            name: "tpu_slice".into(),
            min: 0,
            max: 1,
            is_head: false,
            gives: vec![("TPU-v4-128-head".into(), 1)],
        };
        let spec = ClusterSpec { node_types: vec![limits], ..ClusterSpec::sample("marin", Provider::Gcp) };
        let named = |kind: Option<&str>, preempted| -> Vec<String> {
            let selection = Selection { kind: kind.map(str::to_owned), preempted };
            waiting(&view, &spec, &selection).map(|name| name.raw().to_owned()).collect()
        };
        assert_eq!(named(Some("v4-8"), false), ["waits", "comes"]);
        assert_eq!(named(Some("tpu_slice"), false), ["large"]);
        assert_eq!(named(Some("v4-8"), true), [""; 0]);
        assert_eq!(named(None, true), [""; 0]);
    }

    #[test]
    fn workers_are_selected_by_type_or_preemption_and_queued_resources_only_as_a_whole() {
        let unmanaged = vec![
            vm("a", "v4-8", VmState::Ready, None),
            vm("b", "v4-8", VmState::Preempted, Some("qb")),
            vm("big", "v4-128", VmState::Terminated, None),
            vm("going", "v4-8", VmState::Deleting, None),
            vm("m-0", "v4-8", VmState::Preempted, Some("m")),
            vm("m-1", "v4-8", VmState::Ready, Some("m")),
            vm("n-0", "v4-8", VmState::Preempted, Some("n")),
            vm("n-1", "v4-8", VmState::Preempted, Some("n")),
        ];
        let queues = vec![queued("qb", &["b"]), queued("m", &["m-0", "m-1"]), queued("n", &["n-0", "n-1"])];
        let mut vms = unmanaged.clone();
        vms.push(vm("of-autoscaler", "v4-8", VmState::Preempted, None));
        let view = CloudView { vms, queued: queues, complete: true, ..CloudView::default() };
        let of = |kind: Option<&str>, preempted| {
            chosen(&view, &unmanaged, &Selection { kind: kind.map(str::to_owned), preempted })
        };
        assert_eq!(of(Some("v4-8"), false).0, ["a", "b", "m", "n"]);
        let (names, left) = of(None, true);
        assert_eq!(names, ["b", "big", "n"]);
        assert_eq!(left, ["m: Google would also delete m-1"]);
        assert_eq!(of(Some("v4-128"), true).0, ["big"]);
        assert_eq!(of(Some("tpu_slice"), true).0, names);
        assert_eq!(of(Some("v5p-8"), false), (Vec::new(), Vec::new()));
    }
}
