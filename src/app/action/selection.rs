//! What an action acts on: the row under the cursor, or the subject of the page.

use crate::app::{App, Cluster, Target, View};
use crate::model::{Job, Node};
use crate::reconcile::Row as Slice;
use std::sync::Arc;

impl App {
    /// What an action acts on: the row under the cursor, or the subject of the page.
    pub fn target(&self) -> Option<Target> {
        match (self.listing(), self.view()) {
            (_, View::Details(details)) => Some(details.target.clone()),
            (Some(listing), view) => {
                listing.target(&self.fleet).or_else(|| view.place().map(Target::Cluster))
            }
            (None, view) => view.place().map(Target::Cluster),
        }
    }

    /// The cluster that an action acts on, or that contains its target.
    pub fn target_cluster(&self) -> Option<&Cluster> {
        self.fleet.clusters.get(self.target_place()?)
    }

    pub(in crate::app) fn target_place(&self) -> Option<usize> {
        let of_page = self.view().place();
        of_page.or_else(|| self.listing()?.target(&self.fleet)?.place())
    }

    /// The node that an action acts on, and the index of its cluster.
    pub fn target_node(&self) -> Option<(usize, &Node)> {
        let Target::Node(place, id) = self.target()? else { return None };
        let cluster = self.fleet.clusters.get(place)?;
        // A table of nodes knows the number of its row; the page of a node, or a table by slice, searches for it.
        let here = self
            .number_of_row()
            .and_then(|number| cluster.snapshot.nodes.get(number))
            .filter(|node| node.id == id);
        Some((place, here.or_else(|| cluster.node(&id))?))
    }

    /// All jobs of the target: several may hold a slice or a host.
    pub fn target_runs(&self) -> Option<(usize, &[Arc<Job>])> {
        let (place, row) = match self.target()? {
            Target::Hosts(place, hosts) => (
                place,
                self.fleet.clusters.get(place)?.sliced.by_slice.rows.iter().position(|r| r.key == hosts)?,
            ),
            Target::Node(place, id) => (place, self.fleet.clusters.get(place)?.row_of_node(&id)?),
            _ => return self.target_job().map(|(place, job)| (place, std::slice::from_ref(job))),
        };
        Some((place, self.fleet.clusters.get(place)?.sliced.jobs(row)))
    }

    /// The job that an action acts on, and the index of its cluster.
    pub fn target_job(&self) -> Option<(usize, &Arc<Job>)> {
        let (Target::Job(place, key) | Target::Stacks(place, key)) = self.target()? else { return None };
        let cluster = self.fleet.clusters.get(place)?;
        // A table of jobs knows the number of its row; other pages search for it.
        let here = self
            .number_of_row()
            .and_then(|number| cluster.snapshot.jobs.get(number))
            .filter(|job| job.key == key);
        Some((place, here.or_else(|| cluster.job(&key))?))
    }

    /// The slice that an action acts on.
    pub fn target_slice(&self) -> Option<&Slice> {
        let Target::Tpu(place, name) = self.target()? else { return None };
        let cluster = self.fleet.clusters.get(place)?;
        // A table of TPUs knows the number of its row; other pages search for it.
        let here = self.number_of_row().and_then(|number| cluster.tpus.rows().get(number));
        here.filter(|row| row.name == name).or_else(|| cluster.tpu(&name))
    }

    /// The number, within its cluster, of the row under the cursor of the focused table.
    fn number_of_row(&self) -> Option<usize> {
        self.listing()?.place().map(|(_, number)| number)
    }

    /// The cluster whose TPUs are on the screen, or whose TPU an action acts on.
    pub fn tpus(&self) -> Option<&Cluster> {
        let place = match (self.view(), self.target()) {
            (View::Tpus(place), _) => *place,
            (_, Some(Target::Tpu(place, _))) => place,
            _ => return None,
        };
        self.fleet.clusters.get(place)
    }
}
