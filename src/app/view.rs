//! The page on the screen.

use super::fleet::Fleet;
use super::pages::details::Details;
use super::pages::page::Page;
use super::screen::pane::Pane;
use crate::app::action::context::Context;
use crate::app::action::table::{Action, Description};
use crate::app::text::labels;
use crate::reconcile::HostsKey;

/// A page of the console.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// The fleet: one row per cluster.
    Clusters,
    /// A table of the rows of all clusters.
    Table(&'static TablePage),
    /// One cluster, by its index.
    Cluster(usize),
    /// The open log of a cluster in the whole window.
    Log(usize),
    /// The TPUs of one cluster.
    Tpus(usize),
    /// A slice of a cluster, or other hosts that share one row.
    Slice(usize, HostsKey),
    /// The workers of the watched job of a cluster.
    JobWorkers(usize),
    /// The operation on a cluster or its workers: its steps, their output, its outcome.
    Operation(usize),
    /// The details page of a thing.
    Details(Box<Details>),
}

impl View {
    /// The index of the cluster that the page belongs to; `None` for pages of the fleet.
    pub fn cluster_index(&self) -> Option<usize> {
        match self {
            Self::Cluster(cluster_index)
            | Self::Log(cluster_index)
            | Self::Tpus(cluster_index)
            | Self::JobWorkers(cluster_index)
            | Self::Operation(cluster_index)
            | Self::Slice(cluster_index, _) => Some(*cluster_index),
            Self::Details(details) => details.target.cluster_index(),
            Self::Clusters | Self::Table(_) => None,
        }
    }

    /// Whether it shows the open log of this cluster.
    pub fn shows_log(&self, of: usize) -> bool {
        matches!(self, Self::Cluster(cluster_index) | Self::Log(cluster_index) if *cluster_index == of)
    }

    /// The details page, if it is one.
    pub fn details(&self) -> Option<&Details> {
        let Self::Details(details) = self else { return None };
        Some(details)
    }

    /// The same, mutable.
    pub(super) fn details_mut(&mut self) -> Option<&mut Details> {
        let Self::Details(details) = self else { return None };
        Some(details)
    }

    /// The context in which its keys are looked up.
    pub fn context(&self, pane: Pane) -> Context {
        match self {
            Self::Clusters => Context::Clusters,
            Self::Table(page) => page.context,
            Self::Tpus(_) => Context::Tpus,
            Self::Slice(..) => Context::Slice,
            Self::JobWorkers(_) => Context::JobWorkers,
            Self::Log(_) => Context::Log,
            Self::Operation(_) => Context::Progress,
            Self::Details(details) => details.context(),
            Self::Cluster(_) => pane.context(),
        }
    }

    /// Its name in the line at the top.
    pub fn crumb(&self, fleet: &Fleet) -> String {
        match self {
            Self::Clusters => "fleet".to_owned(),
            Self::Table(page) => page.crumb.to_owned(),
            Self::Cluster(cluster_index) => fleet.clusters[*cluster_index].name().to_string(),
            Self::Log(_) => "log".to_owned(),
            Self::Tpus(_) => "tpus".to_owned(),
            Self::Slice(_, hosts) => labels::hosts(hosts),
            Self::JobWorkers(cluster_index) => {
                let cluster = &fleet.clusters[*cluster_index];
                let job = cluster.job_workers.job.as_ref().map(|job| cluster.job_name(job));
                job.map_or_else(|| "workers".to_owned(), |job| format!("workers of {job}"))
            }
            Self::Operation(_) => "operation".to_owned(),
            Self::Details(details) => details.target.text(fleet),
        }
    }
}

/// A page that consists of one table of the rows of all clusters.
#[derive(Debug)]
pub struct TablePage {
    /// The action that opens it.
    pub opener: Description,
    /// Its name in the line at the top.
    pub crumb: &'static str,
    /// The context in which its keys are looked up: [`Context::Table`] if its rows have no actions of their own.
    pub context: Context,
    /// Creates its table.
    pub list: fn() -> Box<dyn Page>,
}

impl TablePage {
    /// The action that opens it.
    pub const fn action(&'static self) -> Action {
        Action::Table(&self.opener)
    }
}

impl PartialEq for TablePage {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
