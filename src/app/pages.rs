//! The pages of the console. A page owns what it shows of the fleet, and how: its rows, columns, cursor, filter.
//!
//! A page that is a table of all clusters' rows is a module below and a row of `TABLES`; it needs no drawing of its
//! own. Any other page is a module with a type that is a [`Page`], and a variant of [`View`].

pub mod cluster;
pub mod clusters;
mod common;
pub mod details;
pub mod found;
pub mod hosts;
pub mod issues;
pub mod job_workers;
pub mod jobs;
pub mod nodes;
pub mod operation;
pub mod page;
pub mod slice;
pub mod tpu_table;
pub mod tpus;

use super::fleet::Fleet;
use super::view::{TablePage, View};
use crate::app::action::context::{Context, PAGES, PAGES_BUT_LOGS};
use crate::app::action::impact::Impact;
use crate::app::action::table::Description;
use crate::app::table::list::{List, Listing};
use crate::reconcile::HostsKey;
use cluster::ClusterPage;
use clusters::Clusters;
use hosts::HostsTable;
use job_workers::WorkersPage;
use jobs::Jobs;
use nodes::Nodes;
use page::Page;
use slice::SlicePage;
use tpu_table::TpuTable;
use tpus::TpusPage;

/// The nodes of all clusters.
pub static ALL_NODES: TablePage = TablePage {
    opener: Description {
        impact: Impact::View,
        name: "all-nodes",
        label: "all nodes",
        help: "Show the nodes of all clusters in one table",
        keywords: "machines",
        contexts: PAGES_BUT_LOGS,
    },
    crumb: "all nodes",
    context: Context::AllNodes,
    list: || Box::new(List::<Nodes>::new(None).holding_top()),
};

/// The jobs of all clusters.
pub static ALL_JOBS: TablePage = TablePage {
    opener: Description {
        impact: Impact::View,
        name: "all-jobs",
        label: "all jobs",
        help: "Show the jobs of all clusters in one table",
        keywords: "user owner",
        contexts: PAGES,
    },
    crumb: "all jobs",
    context: Context::AllJobs,
    list: || Box::new(List::<Jobs>::new(None).holding_top()),
};

/// The TPUs of all clusters.
pub static ALL_TPUS: TablePage = TablePage {
    opener: Description {
        impact: Impact::View,
        name: "all-tpus",
        label: "all TPUs",
        help: "Show the Google Cloud TPUs of all clusters in one table",
        keywords: "quota",
        contexts: PAGES,
    },
    crumb: "all TPUs",
    context: Context::AllTpus,
    list: || Box::new(List::<TpuTable>::new(None).holding_top()),
};

/// The pages that are tables of the rows of all clusters. Each has an action that opens it.
pub static TABLES: &[&TablePage] = &[&ALL_NODES, &ALL_JOBS, &ALL_TPUS, &issues::PAGE, &found::PAGE];

/// The table of all clusters with that name.
pub fn table(name: &str) -> Option<&'static TablePage> {
    TABLES.iter().copied().find(|page| page.opener.name == name)
}

fn number(page: &TablePage) -> Option<usize> {
    TABLES.iter().position(|known| *known == page)
}

/// The state of each page. It stays while the page is not on the screen.
pub struct Pages {
    /// The fleet's table.
    pub clusters: List<Clusters>,
    /// Each of [`TABLES`], in that order.
    tables: Vec<Box<dyn Page>>,
    /// The nodes of all clusters by slice, shown instead of their table in that mode.
    slices: List<HostsTable>,
    is_by_slice: bool,
    /// The page of a slice that was opened last.
    pub slice: Option<SlicePage>,
    /// The page of each cluster, by its index.
    pub cluster: Vec<ClusterPage>,
    /// The TPUs of each cluster, by its index.
    pub tpus: Vec<TpusPage>,
    /// The workers of a job of each cluster, by its index.
    pub job_workers: Vec<WorkersPage>,
}

impl Pages {
    /// The pages before any cluster has reported.
    pub fn new(fleet: &Fleet) -> Self {
        let cluster_indices = || 0..fleet.clusters.len();
        let mut pages = Self {
            clusters: List::new(None).holding_top(),
            tables: TABLES.iter().map(|page| (page.list)()).collect(),
            slices: List::new(None),
            is_by_slice: true,
            slice: None,
            cluster: cluster_indices().map(ClusterPage::new).collect(),
            tpus: cluster_indices().map(TpusPage::new).collect(),
            job_workers: cluster_indices().map(WorkersPage::new).collect(),
        };
        pages.clusters.arrange(fleet);
        pages
    }

    /// Every page.
    fn all(&self) -> impl Iterator<Item = &dyn Page> {
        let each = [&self.clusters as &dyn Page, &self.slices].into_iter();
        each.chain(self.tables.iter().map(|table| table.as_ref() as &dyn Page))
            .chain(self.slice.iter().map(|page| page as &dyn Page))
            .chain(self.cluster.iter().map(|page| page as &dyn Page))
            .chain(self.tpus.iter().map(|page| page as &dyn Page))
            .chain(self.job_workers.iter().map(|page| page as &dyn Page))
    }

    /// Every page, mutable.
    fn all_mut(&mut self) -> impl Iterator<Item = &mut dyn Page> {
        let each = [&mut self.clusters as &mut dyn Page, &mut self.slices].into_iter();
        each.chain(self.tables.iter_mut().map(|table| table.as_mut() as &mut dyn Page))
            .chain(self.slice.iter_mut().map(|page| page as &mut dyn Page))
            .chain(self.cluster.iter_mut().map(|page| page as &mut dyn Page))
            .chain(self.tpus.iter_mut().map(|page| page as &mut dyn Page))
            .chain(self.job_workers.iter_mut().map(|page| page as &mut dyn Page))
    }

    /// Whether nodes are shown by slice.
    pub fn is_by_slice(&self) -> bool {
        self.is_by_slice
    }

    /// Shows nodes by slice, or one by one.
    pub fn show_by_slice(&mut self, is_by_slice: bool) {
        self.is_by_slice = is_by_slice;
        self.cluster.iter_mut().for_each(|page| page.show_by_slice(is_by_slice));
    }

    /// Opens the page of these hosts.
    pub fn open_slice(&mut self, cluster_index: usize, hosts: &HostsKey) {
        if self.slice.as_ref().is_some_and(|page| page.is_of(cluster_index, hosts)) {
            return;
        }
        let mut page = SlicePage::new(cluster_index, hosts.clone());
        if let Some(cluster) = self.cluster.get(cluster_index) {
            page.list.lay_out(&cluster.nodes.layout());
        }
        self.slice = Some(page);
    }

    /// A table with that name in the settings.
    pub fn named(&self, table: &str) -> Option<&dyn Listing> {
        self.all().flat_map(Page::tables).find(|listing| listing.name() == table)
    }

    /// Every table with that name, to be changed: each cluster has its own.
    pub fn named_mut(&mut self, table: &str) -> impl Iterator<Item = &mut dyn Listing> {
        self.all_mut().flat_map(Page::tables_mut).filter(move |listing| listing.name() == table)
    }

    /// The page that is a table of all clusters' rows.
    pub fn across(&self, page: &TablePage) -> Option<&dyn Page> {
        if self.is_by_slice && *page == ALL_NODES {
            return Some(&self.slices);
        }
        Some(self.tables.get(number(page)?)?.as_ref())
    }

    /// The page on the screen; the content of a details page is in the view itself.
    pub fn page<'p>(&'p self, view: &'p View) -> Option<&'p dyn Page> {
        Some(match view {
            View::Clusters => &self.clusters,
            View::Table(page) => self.across(page)?,
            View::Cluster(cluster_index) => self.cluster.get(*cluster_index)?,
            View::Log(cluster_index) => &self.cluster.get(*cluster_index)?.log,
            View::Operation(cluster_index) => &self.cluster.get(*cluster_index)?.operation,
            View::Tpus(cluster_index) => self.tpus.get(*cluster_index)?,
            View::Slice(cluster_index, hosts) => {
                self.slice.as_ref().filter(|page| page.is_of(*cluster_index, hosts))?
            }
            View::JobWorkers(cluster_index) => self.job_workers.get(*cluster_index)?,
            View::Details(details) => details.as_ref(),
        })
    }

    /// The page on the screen, mutable.
    pub fn page_mut<'p>(&'p mut self, view: &'p mut View) -> Option<&'p mut dyn Page> {
        Some(match view {
            View::Clusters => &mut self.clusters,
            View::Table(page) if self.is_by_slice && **page == ALL_NODES => &mut self.slices,
            View::Table(page) => self.tables.get_mut(number(page)?)?.as_mut(),
            View::Cluster(cluster_index) => self.cluster.get_mut(*cluster_index)?,
            View::Log(cluster_index) => &mut self.cluster.get_mut(*cluster_index)?.log,
            View::Operation(cluster_index) => &mut self.cluster.get_mut(*cluster_index)?.operation,
            View::Tpus(cluster_index) => self.tpus.get_mut(*cluster_index)?,
            View::Slice(cluster_index, hosts) => {
                self.slice.as_mut().filter(|page| page.is_of(*cluster_index, hosts))?
            }
            View::JobWorkers(cluster_index) => self.job_workers.get_mut(*cluster_index)?,
            View::Details(details) => details.as_mut(),
        })
    }
}

/// The tables by their name in the settings, each with the ids of its columns.
pub fn tables() -> Vec<(&'static str, Vec<&'static str>)> {
    let named =
        |list: &dyn Listing| (list.name(), list.choices().iter().map(|column| column.id).collect::<Vec<_>>());
    let across = TABLES.iter().map(|page| (page.list)());
    let of_cluster: [Box<dyn Page>; 3] =
        [Box::new(ClusterPage::new(0)), Box::new(TpusPage::new(0)), Box::new(WorkersPage::new(0))];
    let of_fleet: [Box<dyn Page>; 2] =
        [Box::new(List::<Clusters>::new(None)), Box::new(List::<HostsTable>::new(None))];
    let pages = of_fleet.into_iter().chain(of_cluster).chain(across);
    pages.flat_map(|page| page.tables().into_iter().map(named).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use crate::app::table::column::Kind;

    /// A filter on a column that does not exist would match nothing.
    fn words_are_columns<K: Kind>() {
        let is_there = |id: &&&str| K::columns().iter().any(|column| column.id == **id);
        assert_eq!(K::ALSO_SEARCHED.iter().find(|id| !is_there(id)), None);
    }

    #[test]
    fn filter_fields_are_columns() {
        words_are_columns::<super::jobs::Jobs>();
        words_are_columns::<super::clusters::Clusters>();
    }
}
