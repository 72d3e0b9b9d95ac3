//! The data of all clusters, and the totals.

pub(super) mod changes;
pub(super) mod chips;
pub mod cluster;
pub(super) mod feed;
pub(super) mod intervals;
pub(super) mod ports;
pub(super) mod runs;
pub(super) mod trend;
pub mod types;

use crate::app::fleet::changes::RecentChanges;
use crate::app::fleet::chips::Sum;
use crate::app::fleet::cluster::{Cluster, Listed};
use crate::app::fleet::types::{Kind, together};
use crate::app::log::results::Searched;
use crate::app::table::cell::{Cell, Role};
use crate::diagnose::Finding;
use crate::model::amount::grouped;
use crate::model::text::printable;
use crate::model::{Chip, ClusterName, Problem, SnapshotPart};

/// All clusters, and the files that could not be read.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The clusters, in listed order. The index of a cluster never changes.
    pub clusters: Vec<Cluster>,
    /// Cluster files that could not be read, each with its problem.
    pub broken: Vec<(String, Problem)>,
    /// What has changed on any cluster since its first state.
    pub recent_changes: RecentChanges,
    /// The last search of the logs.
    pub searched: Option<Searched>,
    /// Length in bytes of the prefix that the names of all clusters share.
    shared: usize,
}

/// Totals over all clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// The number of clusters.
    pub clusters: usize,
    /// Clusters with a working connection.
    pub up: usize,
    /// Clusters whose state was read; if there are none, the totals of nodes, chips and jobs are unknown.
    pub known: usize,
    /// Those whose nodes were read.
    pub nodes_known: usize,
    /// Those whose jobs were read.
    pub jobs_known: usize,
    /// Files that could not be read.
    pub broken: usize,
    /// The number of nodes alive.
    pub nodes: usize,
    /// TPU chips of all clusters.
    pub tpus: Sum,
    /// GPUs of all clusters.
    pub gpus: Sum,
    /// The number of running jobs.
    pub running: usize,
    /// The number of pending jobs.
    pub waiting: usize,
}

impl Totals {
    /// A total over this number of known clusters as text; `?` while there are none.
    pub fn text(&self, n: usize, known: usize) -> String {
        if known > 0 || self.clusters == 0 { grouped(n) } else { "?".to_owned() }
    }
}

impl Fleet {
    /// The fleet before any cluster has reported.
    pub fn new(listed: Vec<Listed>) -> Self {
        let mut fleet = Self::default();
        for row in listed {
            match row {
                Listed::Cluster(spec) => fleet.clusters.push(Cluster::new(spec)),
                Listed::Broken { file, problem } => fleet.broken.push((file, problem)),
            }
        }
        fleet.shared = ClusterName::shared(fleet.clusters.iter().map(Cluster::name));
        fleet
    }

    /// A fleet of this cluster alone.
    pub fn of(cluster: Cluster) -> Self {
        Self { clusters: vec![cluster], ..Self::default() }
    }

    /// The index of the cluster with this name.
    pub fn cluster_index(&self, name: &ClusterName) -> Option<usize> {
        self.clusters.iter().position(|c| c.name() == name)
    }

    /// The cluster with this name.
    pub fn named(&self, name: &ClusterName) -> Option<&Cluster> {
        self.clusters.iter().find(|c| c.name() == name)
    }

    /// Mutable access to the cluster with this name.
    pub fn named_mut(&mut self, name: &ClusterName) -> Option<&mut Cluster> {
        self.clusters.iter_mut().find(|c| c.name() == name)
    }

    /// One cluster with its index, or all of them.
    pub fn each(&self, of: Option<usize>) -> impl Iterator<Item = (usize, &Cluster)> {
        let all = self.clusters.iter().enumerate();
        all.filter(move |(cluster_index, _)| of.is_none_or(|of| of == *cluster_index))
    }

    /// The name of a cluster as a cell; its shorter form omits the prefix that all names share.
    pub fn name_cell<'f>(&self, cluster: &'f Cluster, role: Role) -> Cell<'f> {
        let name = cluster.name().as_str();
        // Names with a shared prefix differ at their end.
        let cell = Cell::new(printable(name), role).named();
        match name.get(self.shared..).filter(|_| self.shared > 0) {
            Some(rest) => cell.or(format!("…{}", printable(rest))),
            None => cell,
        }
    }

    /// The name of a cluster without the prefix that all names share, if no other cluster has that name.
    pub fn short_name(&self, name: &ClusterName) -> Option<String> {
        name.short_among(self.clusters.iter().map(Cluster::name)).map(str::to_owned)
    }

    /// Whether there is only one cluster, so that a page of the fleet adds nothing.
    pub fn is_single(&self) -> bool {
        self.clusters.len() == 1 && self.broken.is_empty()
    }

    /// Totals over all clusters, as far as they are known.
    pub fn totals(&self) -> Totals {
        let mut all =
            Totals { clusters: self.clusters.len(), broken: self.broken.len(), ..Totals::default() };
        for c in &self.clusters {
            let t = &c.tally;
            all.up += usize::from(c.is_up());
            all.known += usize::from(c.known);
            all.nodes_known += usize::from(c.knows(SnapshotPart::Nodes));
            all.jobs_known += usize::from(c.knows(SnapshotPart::Jobs));
            all.nodes += t.alive;
            let (running, waiting) = t.jobs();
            (all.running, all.waiting) = (all.running + running, all.waiting + waiting);
            match t.chip {
                Chip::Tpu => all.tpus.add(t.used, t.chips),
                Chip::Gpu => all.gpus.add(t.used, t.chips),
                Chip::Cpu => {}
            }
        }
        all
    }

    /// The TPUs and GPUs of all clusters by type.
    pub fn kinds(&self) -> Vec<Kind> {
        together(self.clusters.iter().flat_map(|c| &c.kinds))
    }

    /// Other clusters with an issue of the same cause.
    pub fn others_with(&self, cluster_index: usize, finding: &Finding) -> Vec<&ClusterName> {
        let others = self.clusters.iter().enumerate().filter(|(at, _)| *at != cluster_index);
        let has = |c: &&Cluster| c.findings.iter().any(|other| other.is_of_same_cause(finding));
        others.map(|(_, c)| c).filter(has).map(Cluster::name).collect()
    }

    /// The number of findings in the fleet that need action.
    pub fn alerts(&self) -> usize {
        self.broken.len() + self.clusters.iter().map(Cluster::alerts).sum::<usize>()
    }
}
