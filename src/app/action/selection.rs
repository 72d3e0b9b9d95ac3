//! What an action acts on: the row under the cursor, or the subject of the page.

use crate::app::{App, Cluster, Target, View};
use crate::model::{Job, Node};
use crate::reconcile::Row as Tpu;
use std::sync::Arc;

impl App {
    /// What an action acts on: the row under the cursor, or the subject of the page.
    pub fn target(&self) -> Option<Target> {
        match (self.listing(), self.view()) {
            (_, View::Details(details)) => Some(details.target.clone()),
            (Some(listing), view) => {
                listing.target(&self.fleet).or_else(|| view.cluster_index().map(Target::Cluster))
            }
            (None, view) => view.cluster_index().map(Target::Cluster),
        }
    }

    /// The cluster that an action acts on, or that contains its target.
    pub fn target_cluster(&self) -> Option<&Cluster> {
        self.fleet.clusters.get(self.target_cluster_index()?)
    }

    pub(in crate::app) fn target_cluster_index(&self) -> Option<usize> {
        let of_page = self.view().cluster_index();
        of_page.or_else(|| self.listing()?.target(&self.fleet)?.cluster_index())
    }

    /// The node that an action acts on, and the index of its cluster.
    pub fn target_node(&self) -> Option<(usize, &Node)> {
        let Target::Node(cluster_index, id) = self.target()? else { return None };
        let cluster = self.fleet.clusters.get(cluster_index)?;
        // A table of nodes knows the number of its row; the page of a node, or a table by slice, searches for it.
        let here = self
            .number_of_row()
            .and_then(|number| cluster.snapshot.nodes.get(number))
            .filter(|node| node.id == id);
        Some((cluster_index, here.or_else(|| cluster.node(&id))?))
    }

    /// All jobs of the target: several may hold a slice or a host.
    pub fn target_runs(&self) -> Option<(usize, &[Arc<Job>])> {
        let (cluster_index, row) = match self.target()? {
            Target::Hosts(cluster_index, hosts) => (
                cluster_index,
                self.fleet
                    .clusters
                    .get(cluster_index)?
                    .sliced
                    .by_slice
                    .rows
                    .iter()
                    .position(|r| r.key == hosts)?,
            ),
            Target::Node(cluster_index, id) => {
                (cluster_index, self.fleet.clusters.get(cluster_index)?.row_of_node(&id)?)
            }
            _ => {
                return self
                    .target_job()
                    .map(|(cluster_index, job)| (cluster_index, std::slice::from_ref(job)));
            }
        };
        Some((cluster_index, self.fleet.clusters.get(cluster_index)?.sliced.jobs(row)))
    }

    /// The job that an action acts on, and the index of its cluster.
    pub fn target_job(&self) -> Option<(usize, &Arc<Job>)> {
        let (Target::Job(cluster_index, key) | Target::Stacks(cluster_index, key)) = self.target()? else {
            return None;
        };
        let cluster = self.fleet.clusters.get(cluster_index)?;
        // A table of jobs knows the number of its row; other pages search for it.
        let here = self
            .number_of_row()
            .and_then(|number| cluster.snapshot.jobs.get(number))
            .filter(|job| job.key == key);
        Some((cluster_index, here.or_else(|| cluster.job(&key))?))
    }

    /// The TPU that an action acts on.
    pub fn target_tpu(&self) -> Option<&Tpu> {
        let Target::Tpu(cluster_index, name) = self.target()? else { return None };
        let cluster = self.fleet.clusters.get(cluster_index)?;
        // A table of TPUs knows the number of its row; other pages search for it.
        let here = self.number_of_row().and_then(|number| cluster.tpus.rows().get(number));
        here.filter(|row| row.name == name).or_else(|| cluster.tpu(&name))
    }

    /// The number, within its cluster, of the row under the cursor of the focused table.
    fn number_of_row(&self) -> Option<usize> {
        self.listing()?.row_index().map(|(_, number)| number)
    }

    /// The cluster whose TPUs are on the screen, or whose TPU an action acts on.
    pub fn tpus(&self) -> Option<&Cluster> {
        let cluster_index = match (self.view(), self.target()) {
            (View::Tpus(cluster_index), _) => *cluster_index,
            (_, Some(Target::Tpu(cluster_index, _))) => cluster_index,
            _ => return None,
        };
        self.fleet.clusters.get(cluster_index)
    }
}
