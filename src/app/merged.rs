//! Rows of all clusters in one table: all nodes, all jobs. A row is identified by its cluster and its own key, so that
//! the selection follows it through any reorder.

use super::cluster::Cluster;
use super::order;
use super::table::{Sort, Table};
use crate::model::{Job, JobKey, Node, NodeId};
use std::cmp::Ordering;
use std::sync::Arc;

/// Columns that all nodes can be sorted by.
pub const ALL_NODE_COLUMNS: [&str; 7] = with_cluster(order::NODE_COLUMNS);
/// Columns that all jobs can be sorted by.
pub const ALL_JOB_COLUMNS: [&str; 6] = with_cluster(order::JOB_COLUMNS);

/// The columns with the cluster's before them.
const fn with_cluster<const N: usize, const M: usize>(columns: [&'static str; N]) -> [&'static str; M] {
    let mut all = ["CLUSTER"; M];
    let mut i = 0;
    while i < N {
        all[i + 1] = columns[i];
        i += 1;
    }
    all
}

/// The origin of a row.
#[derive(Clone, Debug)]
struct Place<K> {
    /// The cluster's place.
    cluster: usize,
    /// The row in its last state.
    row: usize,
    key: K,
}

/// Rows of all clusters.
#[derive(Debug)]
pub struct Merged<K> {
    places: Vec<Place<K>>,
    table: Table<(usize, K)>,
}

impl<K> Default for Merged<K> {
    fn default() -> Self {
        Self { places: Vec::new(), table: Table::default() }
    }
}

impl<K: Clone + PartialEq> Merged<K> {
    /// `placed` is asked once a row for what its place in the order depends on, `compare` often.
    fn arrange<'c, R: 'c, P, const N: usize>(
        &mut self,
        clusters: &'c [Cluster],
        rows: impl Fn(&'c Cluster) -> &'c [R],
        key: impl Fn(&'c R) -> K,
        fields: impl Fn(&'c R) -> [(&'c str, &'c str); N],
        placed: impl Fn(&'c Cluster, &'c R) -> P,
        compare: impl Fn(&P, &P, Sort) -> Ordering,
    ) {
        self.places.clear();
        let mut all: Vec<(&Cluster, &R, P)> = Vec::new();
        for (cluster, c) in clusters.iter().enumerate() {
            let rows = rows(c);
            all.extend(rows.iter().map(|r| (c, r, placed(c, r))));
            self.places.extend((0..).zip(rows).map(|(row, r)| Place { cluster, row, key: key(r) }));
        }
        let places = &self.places;
        self.table.arrange(
            all.len(),
            |i| (places[i].cluster, places[i].key.clone()),
            |i, filter| {
                let (c, row) = (all[i].0, all[i].1);
                filter.admits(fields(row).into_iter().chain([("cluster", c.name().as_str())]))
            },
            |a, b, sort| match sort.column {
                Some(0) => {
                    let by = all[a].0.name().cmp(all[b].0.name());
                    let by = if sort.inverted { by.reverse() } else { by };
                    by.then_with(|| compare(&all[a].2, &all[b].2, Sort::default()))
                }
                column => compare(&all[a].2, &all[b].2, Sort { column: column.map(|c| c - 1), ..sort }),
            },
        );
    }

    /// Moves the cursor by `by` rows.
    pub fn step(&mut self, by: isize) {
        let places = &self.places;
        self.table.step(by, |i| (places[i].cluster, places[i].key.clone()));
    }

    /// Puts the cursor on a row of the order.
    pub fn go(&mut self, position: usize) {
        let places = &self.places;
        self.table.go(position, |i| (places[i].cluster, places[i].key.clone()));
    }

    /// The order, the selection, the filter.
    pub fn table(&self) -> &Table<(usize, K)> {
        &self.table
    }

    /// The number of rows before the filter.
    pub fn rows(&self) -> usize {
        self.places.len()
    }

    pub(super) fn table_mut(&mut self) -> &mut Table<(usize, K)> {
        &mut self.table
    }

    /// The cluster's place and the row in its state, for a position of the order.
    fn place(&self, position: usize) -> Option<(usize, usize)> {
        let place = self.places.get(self.table.row(position)?)?;
        Some((place.cluster, place.row))
    }

    /// Place of the selected row's cluster.
    pub fn cluster(&self) -> Option<usize> {
        Some(self.place(self.table.cursor())?.0)
    }
}

impl Merged<NodeId> {
    /// Puts all nodes in order.
    pub(super) fn arrange_nodes(&mut self, clusters: &[Cluster]) {
        let compare = |a: &order::Placed<'_>, b: &order::Placed<'_>, sort| order::nodes(a, b, sort);
        let placed = order::Placed::of;
        self.arrange(clusters, |c| &c.snapshot.nodes, |n| n.id, order::node_fields, placed, compare);
    }

    /// The node shown at a position, and its cluster's place.
    pub fn node<'c>(&self, clusters: &'c [Cluster], position: usize) -> Option<(usize, &'c Node)> {
        let (cluster, row) = self.place(position)?;
        Some((cluster, clusters.get(cluster)?.snapshot.nodes.get(row)?))
    }
}

impl Merged<JobKey> {
    /// Puts all jobs in order.
    pub(super) fn arrange_jobs(&mut self, clusters: &[Cluster]) {
        let compare = |a: &&Arc<Job>, b: &&Arc<Job>, sort| order::jobs(a, b, sort);
        let key = |j: &Arc<Job>| j.key.clone();
        self.arrange(clusters, |c| &c.snapshot.jobs, key, |j| order::job_fields(j), |_, j| j, compare);
    }

    /// The job shown at a position, and its cluster's place.
    pub fn job<'c>(&self, clusters: &'c [Cluster], position: usize) -> Option<(usize, &'c Arc<Job>)> {
        let (cluster, row) = self.place(position)?;
        Some((cluster, clusters.get(cluster)?.snapshot.jobs.get(row)?))
    }
}
