//! Totals over the reconciled rows: chips by generation, and each node type's limits and existing machines.

use super::{Row, TpuStatus};
use crate::model::amount::grouped;
use crate::model::text::printable;
use crate::model::{Node, NodeTypeLimits};
use std::collections::BTreeMap;

/// Chips of one generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chips {
    /// Held: they count against the quota.
    pub held: u32,
    /// Of these, on hosts that are alive in Ray.
    pub in_ray: u32,
    /// Of these, preempted or terminated, and not deleted.
    pub holds_quota: u32,
    /// Of `holds_quota`, terminated by Google.
    pub terminated: u32,
    /// Requested and not created yet.
    pub waiting: u32,
}

impl Chips {
    /// In words, e.g. `v4 84 chips, 32 in Ray, 40 preempted, 64 more requested`; Ray's part only if `ray_known`.
    pub fn text(&self, generation: &str, ray_known: bool) -> String {
        let chips = |n: u32| grouped(n as usize);
        let mut parts = vec![format!("{} {} chips", printable(generation), chips(self.held))];
        parts.extend(ray_known.then(|| format!("{} in Ray", chips(self.in_ray))));
        let preempted = self.holds_quota - self.terminated;
        let rest =
            [(preempted, "preempted"), (self.terminated, "terminated"), (self.waiting, "more requested")];
        parts.extend(rest.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{} {word}", chips(*n))));
        parts.join(", ")
    }
}

/// Chips by generation (`v4`, `v5e`, ...).
pub fn chips_by_generation<'r>(rows: impl IntoIterator<Item = &'r Row>) -> BTreeMap<&'r str, Chips> {
    let mut all: BTreeMap<&str, Chips> = BTreeMap::new();
    for row in rows {
        // A ghost that Google does not know holds no chips.
        let Some(generation) = generation(row.accelerator_type.raw()) else { continue };
        let chips = all.entry(generation).or_default();
        match row.status {
            TpuStatus::Waiting => chips.waiting += row.chips,
            // The chips of a stopped instance are no longer held.
            TpuStatus::Refused | TpuStatus::Preempted | TpuStatus::Stopped => {}
            status => {
                chips.held += row.chips;
                let (hosts, joined) = row.hosts;
                let gone = matches!(status, TpuStatus::HoldsQuota | TpuStatus::Terminated | TpuStatus::Ghost);
                if gone {
                    chips.holds_quota += row.chips;
                    chips.terminated += if status == TpuStatus::Terminated { row.chips } else { 0 };
                } else if hosts > 0 {
                    chips.in_ray +=
                        row.chips * u32::try_from(joined).unwrap_or(0) / u32::try_from(hosts).unwrap_or(1);
                }
            }
        }
    }
    all
}

/// The generation of an accelerator type; the API has another name for v5e.
fn generation(accelerator_type: &str) -> Option<&str> {
    match accelerator_type.rsplit_once('-')?.0 {
        "v5litepod" => Some("v5e"),
        generation => Some(generation),
    }
}

/// One node type of the cluster file, with its limits and existing machines. A slice counts as one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeCount {
    /// The name of the node type.
    pub name: String,
    /// `min_workers` of the cluster file.
    pub min: u32,
    /// `max_workers` of the cluster file.
    pub max: u32,
    /// Its machines at Google, up or starting.
    pub there: usize,
    /// Of these, those with all hosts in Ray; `None` if Ray did not respond.
    pub registered: Option<usize>,
}

impl TypeCount {
    /// The number of machines missing to reach its minimum.
    pub fn short(&self) -> usize {
        (self.min as usize).saturating_sub(self.registered.unwrap_or(self.there))
    }
}

/// All worker node types of the cluster file. Types without TPU VMs (machines without TPUs) are counted in Ray.
pub fn types(limits: &[NodeTypeLimits], rows: &[Row], nodes: Option<&[Node]>) -> Vec<TypeCount> {
    let count = |limit: &NodeTypeLimits| {
        let mine = || rows.iter().filter(|r| r.ray_type.as_ref().is_some_and(|t| t.raw() == limit.name));
        let registered = nodes.map(|nodes| {
            let in_rows = mine().filter(|r| r.status == TpuStatus::Registered).count();
            let is_mine = |n: &&Node| n.state.is_alive() && !n.is_head && n.node_type.raw() == limit.name;
            let plain = |n: &&Node| n.resources.get("TPU").is_none_or(|r| r.total <= 0.0);
            in_rows + nodes.iter().filter(is_mine).filter(plain).count()
        });
        let is_there = |s: TpuStatus| {
            matches!(
                s,
                TpuStatus::Registered
                    | TpuStatus::Up
                    | TpuStatus::Joining
                    | TpuStatus::Delayed
                    | TpuStatus::Incomplete
                    | TpuStatus::NotInRay
            )
        };
        let there = mine().filter(|r| is_there(r.status)).count().max(registered.unwrap_or(0));
        TypeCount { name: limit.name.clone(), min: limit.min, max: limit.max, there, registered }
    };
    limits.iter().filter(|l| !l.is_head).map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Resource, Resources, Text};
    use crate::reconcile::ManagedBy;

    fn row(kind: &str, chips: u32, status: TpuStatus, hosts: (usize, usize), ray_type: &str) -> Row {
        Row {
            name: "x".into(),
            accelerator_type: kind.into(),
            chips,
            status,
            resource: None,
            state: None,
            ray_type: Some(ray_type.into()),
            hosts,
            logins: Vec::new(),
            missing: Vec::new(),
            capacity: None,
            keeper: ManagedBy::Autoscaler,
            created: None,
            note: None,
        }
    }

    #[test]
    fn chips_are_summed_by_generation() {
        let rows = [
            row("v4-32", 16, TpuStatus::Registered, (4, 4), "t"),
            row("v4-32", 16, TpuStatus::Incomplete, (4, 3), "t"),
            row("v4-8", 4, TpuStatus::HoldsQuota, (1, 0), "t"),
            row("v4-8", 4, TpuStatus::Ghost, (1, 1), "t"),
            row("v4-8", 4, TpuStatus::Waiting, (0, 0), "t"),
            row("v4-8", 4, TpuStatus::Refused, (0, 0), "t"),
            row("v4-8", 4, TpuStatus::Stopped, (1, 0), "t"),
            row("v5litepod-8", 8, TpuStatus::Joining, (0, 0), "t"),
            row("", 4, TpuStatus::Ghost, (0, 1), "t"),
        ];
        let all = chips_by_generation(&rows);
        let v4 = Chips { held: 40, in_ray: 28, holds_quota: 8, waiting: 4, ..Chips::default() };
        let v5e = Chips { held: 8, ..Chips::default() };
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [("v4", v4), ("v5e", v5e)]);
    }

    #[test]
    fn the_minimum_of_a_type_counts_registered_machines() {
        let limit = |name: &str, min| NodeTypeLimits {
            name: name.into(),
            min,
            max: 8,
            is_head: name == "head",
            gives: Vec::new(),
        };
        let limits = [limit("head", 0), limit("tpu", 3), limit("cpu", 1)];
        let rows = [
            row("v4-8", 4, TpuStatus::Registered, (1, 1), "tpu"),
            row("v4-8", 4, TpuStatus::Joining, (1, 0), "tpu"),
            row("v4-8", 4, TpuStatus::HoldsQuota, (1, 0), "tpu"),
        ];
        let node = Node {
            node_type: "cpu".into(),
            resources: Resources(vec![Resource { name: Text::new("CPU"), total: 8.0, used: None }]),
            ..Node::sample(1)
        };
        let counts = |nodes: Option<&[Node]>| {
            let all = types(&limits, &rows, nodes);
            all.iter().map(|t| (t.name.clone(), t.there, t.registered, t.short())).collect::<Vec<_>>()
        };
        assert_eq!(
            counts(Some(&[node])),
            [("tpu".to_owned(), 2, Some(1), 2), ("cpu".to_owned(), 1, Some(1), 0)]
        );
        assert_eq!(counts(None), [("tpu".to_owned(), 2, None, 1), ("cpu".to_owned(), 0, None, 1)]);
    }
}
