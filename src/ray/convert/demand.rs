//! Demand as the GCS reports it: pending and infeasible requests.

use crate::model::{Demand, DemandKind, Text};
use crate::proto::autoscaler::{
    AutoscalingState, ClusterResourceState, GangResourceRequest, ResourceRequest,
};
use std::collections::BTreeMap;

/// A bundle usable as a key: amounts in units of 1/10000, as Ray counts.
type Shape = Vec<(String, i64)>;

#[derive(Default)]
struct DemandCount {
    waiting: u64,
    infeasible: u64,
}

/// Demand by kind and shape.
#[derive(Default)]
struct DemandCounts(BTreeMap<(u8, String, Shape), DemandCount>);

const TASK: u8 = 0;
const GROUP: u8 = 1;
const REQUEST: u8 = 2;

impl DemandCounts {
    fn entry(&mut self, kind: u8, detail: &str, shape: Shape) -> &mut DemandCount {
        self.0.entry((kind, detail.to_owned(), shape)).or_default()
    }

    fn groups(&mut self, groups: &[GangResourceRequest], count: fn(&mut DemandCount)) {
        for group in groups {
            let bundles = match group.bundle_selectors.first() {
                Some(preferred) if group.requests.is_empty() => &preferred.resource_requests,
                _ => &group.requests,
            };
            count(self.entry(GROUP, strategy(&group.details), sum(bundles.iter())));
        }
    }

    fn finish(self) -> Vec<Demand> {
        let mut demands = Vec::new();
        for ((kind, detail, shape), tally) in self.0 {
            let kind = match kind {
                TASK => DemandKind::Task,
                GROUP => DemandKind::Group(Text::from(detail)),
                _ => DemandKind::Request,
            };
            let shape: Vec<_> =
                shape.into_iter().map(|(name, n)| (Text::from(name), n as f64 / 10_000.0)).collect();
            // The autoscaler lists infeasible requests; others of the same shape may still be satisfied.
            let parts = [(tally.infeasible, true), (tally.waiting.saturating_sub(tally.infeasible), false)];
            for (count, infeasible) in parts.into_iter().filter(|(count, _)| *count > 0) {
                demands.push(Demand { shape: shape.clone(), count, kind: kind.clone(), infeasible });
            }
        }
        demands
    }
}

/// All pending demand.
pub fn demands(state: &ClusterResourceState, autoscaling: Option<&AutoscalingState>) -> Vec<Demand> {
    let mut ledger = DemandCounts::default();
    for waiting in &state.pending_resource_requests {
        let shape = sum(waiting.request.iter());
        add(&mut ledger.entry(TASK, "", shape).waiting, waiting.count);
    }
    ledger.groups(&state.pending_gang_resource_requests, |t| t.waiting += 1);
    for constraint in &state.cluster_resource_constraints {
        for wanted in &constraint.resource_requests {
            let shape = sum(wanted.request.iter());
            add(&mut ledger.entry(REQUEST, "", shape).waiting, wanted.count);
        }
    }
    if let Some(autoscaling) = autoscaling {
        for request in &autoscaling.infeasible_resource_requests {
            ledger.entry(TASK, "", sum(std::iter::once(request))).infeasible += 1;
        }
        ledger.groups(&autoscaling.infeasible_gang_resource_requests, |t| t.infeasible += 1);
        for constraint in &autoscaling.infeasible_cluster_resource_constraints {
            for wanted in &constraint.resource_requests {
                let shape = sum(wanted.request.iter());
                add(&mut ledger.entry(REQUEST, "", shape).infeasible, wanted.count);
            }
        }
    }
    ledger.finish()
}

fn add(tally: &mut u64, more: i64) {
    *tally = tally.saturating_add(u64::try_from(more).unwrap_or(0));
}

fn sum<'a>(bundles: impl Iterator<Item = &'a ResourceRequest>) -> Shape {
    let mut all: BTreeMap<&str, i64> = BTreeMap::new();
    for bundle in bundles {
        for (name, amount) in &bundle.resources_bundle {
            let n = all.entry(name).or_default();
            *n = n.saturating_add((amount * 10_000.0).round() as i64);
        }
    }
    all.into_iter().map(|(name, n)| (name.to_owned(), n)).collect()
}

/// `STRICT_SPREAD` of `1b3c...:STRICT_SPREAD|PENDING` (`FormatPlacementGroupDetails` in Ray's GCS).
fn strategy(details: &str) -> &str {
    let tail = details.split_once(':').map_or(details, |(_, tail)| tail);
    tail.split('|').next().unwrap_or(tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::autoscaler::ResourceRequestByCount;

    fn bundle(all: &[(&str, f64)]) -> ResourceRequest {
        ResourceRequest { resources_bundle: all.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect() }
    }

    #[test]
    fn infeasible_demand_is_split_from_the_rest() {
        let state = ClusterResourceState {
            pending_resource_requests: vec![ResourceRequestByCount {
                request: Some(bundle(&[("TPU", 4.0), ("CPU", 0.1)])),
                count: 3,
            }],
            pending_gang_resource_requests: vec![GangResourceRequest {
                requests: vec![bundle(&[("TPU", 8.0)]), bundle(&[("TPU", 8.0), ("CPU", 1.0)])],
                details: "e9154e:STRICT_SPREAD|PENDING".to_owned(),
                bundle_selectors: Vec::new(),
            }],
            ..ClusterResourceState::default()
        };
        let autoscaling = AutoscalingState {
            infeasible_resource_requests: vec![bundle(&[("CPU", 0.1), ("TPU", 4.0)]), bundle(&[("X", 1.0)])],
            ..AutoscalingState::default()
        };
        let found: Vec<_> = demands(&state, Some(&autoscaling))
            .into_iter()
            .map(|d| {
                let shape: Vec<_> = d.shape.iter().map(|(n, v)| format!("{n}:{v}")).collect();
                (shape.join(" "), d.count, d.kind, d.infeasible)
            })
            .collect();
        let group = DemandKind::Group("STRICT_SPREAD".into());
        assert_eq!(
            found,
            [
                ("CPU:0.1 TPU:4".to_owned(), 1, DemandKind::Task, true),
                ("CPU:0.1 TPU:4".to_owned(), 2, DemandKind::Task, false),
                ("X:1".to_owned(), 1, DemandKind::Task, true),
                ("CPU:1 TPU:16".to_owned(), 1, group, false),
            ]
        );
    }
}
