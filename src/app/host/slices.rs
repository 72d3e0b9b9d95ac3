//! The nodes of a cluster by slice, with what is known about each slice besides Ray's nodes: the jobs that hold it, and
//! its worst host. Computed once per state or answer; tables and pages only read it.

use crate::model::sort;
use crate::model::{ClusterVitals, Job, JobKey, Node, NodeId, Physical, Snapshot};
use crate::reconcile::{BySlice, Hosts};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// From this share of memory or disk in use, in percent, a host is at risk: jobs may be killed.
pub const NEARLY_FULL: f64 = 90.0;
/// Minimum distance of a host's CPU from that of most others before it is reported, because all hosts of a slice do the
/// same work. In percent of the machine.
const MIN_CPU_DISTANCE: f64 = 30.0;
/// Minimum number of hosts for an outlier to be meaningful.
const MIN_HOSTS: usize = 4;

/// The host of a slice that is closest to a problem, as far as its figures are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// Ray's id of the host's node.
    pub node: NodeId,
    /// Its worst figure: `cpu`, `mem`, `disk`.
    pub what: &'static str,
    /// The value of that figure, in percent.
    pub percent: f64,
    /// Why it stands out; `None` if it is only the busiest.
    pub why: Option<Why>,
    /// The number of hosts whose figures are known.
    pub known: usize,
}

/// Why a host stands out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Its memory or its disk is nearly full.
    Full,
    /// Its CPU is far from the median of all hosts of the slice, which is this.
    Apart(f64),
}

/// Additional facts about a row.
#[derive(Clone, Debug, Default)]
struct Facts {
    jobs: Vec<Arc<Job>>,
    worst: Option<Worst>,
}

/// The nodes of a cluster by slice.
#[derive(Clone, Debug, Default)]
pub struct SliceTable {
    /// The nodes grouped by slice, type and death, one row per group.
    pub by_slice: BySlice,
    facts: Vec<Facts>,
    /// The jobs that have tasks and actors on each node, from the last vitals.
    held: HashMap<NodeId, Vec<JobKey>>,
}

impl SliceTable {
    /// Stores a new state of the cluster; `physical` returns the figures of its machines.
    pub fn update<'p>(&mut self, new: &Snapshot, physical: impl Fn(&NodeId) -> Option<&'p Physical>) {
        self.by_slice = BySlice::of(&new.nodes, new.taken);
        self.facts = vec![Facts::default(); self.by_slice.rows.len()];
        self.find_jobs(new);
        for (row, facts) in self.by_slice.rows.iter().zip(&mut self.facts) {
            facts.worst = worst_of(row, &new.nodes, &physical);
        }
    }

    /// Stores which jobs have tasks and actors on which nodes.
    pub fn hold(&mut self, cluster_vitals: &ClusterVitals, now: &Snapshot) {
        let mut by_node: HashMap<NodeId, Vec<JobKey>> = HashMap::new();
        for (key, vitals) in &cluster_vitals.jobs {
            for node in &vitals.nodes {
                by_node.entry(*node).or_default().push(key.clone());
            }
        }
        for jobs in by_node.values_mut() {
            jobs.sort();
        }
        if by_node != self.held {
            self.held = by_node;
            self.find_jobs(now);
        }
    }

    /// Stores the figures of the node with this number.
    pub fn measure<'p>(
        &mut self,
        number: usize,
        nodes: &[Node],
        physical: impl Fn(&NodeId) -> Option<&'p Physical>,
    ) {
        let Some(row_index) = self.by_slice.row_index_of(number) else { return };
        if let Some((row, facts)) = self.by_slice.rows.get(row_index).zip(self.facts.get_mut(row_index)) {
            facts.worst = worst_of(row, nodes, &physical);
        }
    }

    /// The jobs that run on hosts of the row at this index: their tasks, actors or drivers.
    pub fn jobs(&self, row_index: usize) -> &[Arc<Job>] {
        self.facts.get(row_index).map_or(&[], |facts| &facts.jobs)
    }

    /// The worst host of the row at this index.
    pub fn worst(&self, row_index: usize) -> Option<&Worst> {
        self.facts.get(row_index)?.worst.as_ref()
    }

    fn find_jobs(&mut self, now: &Snapshot) {
        let open = || now.jobs.iter().filter(|job| !job.status.is_ended());
        let by_key: HashMap<&JobKey, &Arc<Job>> = open().map(|job| (&job.key, job)).collect();
        let mut driven: HashMap<NodeId, Vec<&Arc<Job>>> = HashMap::new();
        for job in open() {
            if let Some(node) = job.driver_node {
                driven.entry(node).or_default().push(job);
            }
        }
        for (row, facts) in self.by_slice.rows.iter().zip(&mut self.facts) {
            let mut seen = HashSet::new();
            let alive = row.nodes.iter().filter_map(|number| now.nodes.get(*number as usize));
            let of_node = |node: &Node| {
                let held = self.held.get(&node.id).into_iter().flatten();
                let held = held.filter_map(|key| by_key.get(key).copied());
                held.chain(driven.get(&node.id).into_iter().flatten().copied()).cloned().collect::<Vec<_>>()
            };
            let jobs = alive.filter(|node| node.state.is_alive()).flat_map(of_node);
            facts.jobs = jobs.filter(|job| seen.insert(job.key.clone())).collect();
        }
    }
}

fn worst_of<'p>(
    row: &Hosts,
    nodes: &[Node],
    physical: &impl Fn(&NodeId) -> Option<&'p Physical>,
) -> Option<Worst> {
    let alive = row.nodes.iter().filter_map(|number| nodes.get(*number as usize));
    let alive = alive.filter(|node| node.state.is_alive());
    worst(alive.filter_map(|node| Some((node.id, physical(&node.id)?))))
}

/// The worst of these hosts: one that is nearly full, else one whose CPU is far from that of the others, else the one
/// with the highest figure. `None` if no figure is known.
pub fn worst<'p>(hosts: impl Iterator<Item = (NodeId, &'p Physical)>) -> Option<Worst> {
    let mut fullest: Option<Worst> = None;
    let mut cpus: Vec<(f64, NodeId)> = Vec::new();
    let mut known = 0;
    for (node, figures) in hosts {
        known += 1;
        let cpu = figures.cpu_percent.filter(|cpu| cpu.is_finite());
        cpus.extend(cpu.map(|cpu| (cpu, node)));
        for (what, share) in [("mem", share(figures.memory)), ("disk", share(figures.disk))] {
            let Some(percent) = share else { continue };
            if fullest.is_none_or(|full| percent > full.percent) {
                let why = (percent >= NEARLY_FULL).then_some(Why::Full);
                fullest = Some(Worst { node, what, percent, why, known: 0 });
            }
        }
    }
    let fullest = fullest.map(|full| Worst { known, ..full });
    if let Some(full) = fullest.filter(|full| full.why.is_some()) {
        return Some(full);
    }
    sort::by(&mut cpus, |a, b| a.0.total_cmp(&b.0));
    let Some(busiest) = cpus.last().copied() else { return fullest };
    let of = |(percent, node): (f64, NodeId), why| Worst { node, what: "cpu", percent, why, known };
    let median = cpus[cpus.len() / 2].0;
    let furthest = [cpus[0], busiest].into_iter().max_by(|a, b| {
        let far = |(cpu, _): &(f64, NodeId)| (cpu - median).abs();
        far(a).total_cmp(&far(b))
    })?;
    // If the hosts do different work, none of them stands out.
    let alike = cpus.iter().filter(|(cpu, _)| (cpu - median).abs() <= MIN_CPU_DISTANCE / 2.0).count();
    let is_alone = cpus.len() - alike <= (cpus.len() / 8).max(1);
    if cpus.len() >= MIN_HOSTS && is_alone && (furthest.0 - median).abs() >= MIN_CPU_DISTANCE {
        return Some(of(furthest, Some(Why::Apart(median))));
    }
    let busiest = of(busiest, None);
    Some(fullest.filter(|full| full.percent > busiest.percent).unwrap_or(busiest))
}

/// Used of total, in percent.
pub fn share(of: Option<(u64, u64)>) -> Option<f64> {
    of.filter(|(_, all)| *all > 0).map(|(used, all)| 100.0 * used as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use crate::app::host::slices::*;

    fn of(all: &[(f64, u64, u64)]) -> Option<(u8, &'static str, f64, Option<Why>)> {
        let figures: Vec<(NodeId, Physical)> = (0..)
            .zip(all)
            .map(|(n, (cpu, memory, disk))| {
                let figures = Physical {
                    sampled: None,
                    cpu_percent: Some(*cpu),
                    memory: Some((*memory, 100)),
                    disk: Some((*disk, 100)),
                    tpus: Vec::new(),
                };
                (NodeId::from_bytes(&[n; 28]).unwrap(), figures)
            })
            .collect();
        let worst = worst(figures.iter().map(|(id, figures)| (*id, figures)))?;
        Some((worst.node.as_bytes()[0], worst.what, worst.percent, worst.why))
    }

    #[test]
    fn a_full_disk_comes_before_an_idle_cpu_and_that_before_the_busiest() {
        let even = [(70.0, 40, 30), (72.0, 41, 30), (71.0, 42, 30), (69.0, 40, 30)];
        assert_eq!(of(&even), Some((1, "cpu", 72.0, None)));
        let mut idle = even;
        idle[2].0 = 2.0;
        assert_eq!(of(&idle), Some((2, "cpu", 2.0, Some(Why::Apart(70.0)))));
        assert_eq!(of(&idle[1..]), Some((0, "cpu", 72.0, None)), "three hosts have no outlier");
        let halves = [(70.0, 40, 30), (72.0, 41, 30), (1.0, 42, 30), (2.0, 40, 30)];
        assert_eq!(of(&halves), Some((1, "cpu", 72.0, None)), "half of them are idle: none stands out");
        idle[3].2 = 97;
        assert_eq!(of(&idle), Some((3, "disk", 97.0, Some(Why::Full))));
    }

    #[test]
    fn invalid_figures_are_ignored() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(f64::NAN, 10, 20)]), Some((0, "disk", 20.0, None)));
        assert_eq!(of(&[(f64::INFINITY, 95, 10), (1.0, 1, 1)]), Some((0, "mem", 95.0, Some(Why::Full))));
        assert_eq!(share(Some((1, 0))), None);
    }
}
