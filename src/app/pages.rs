//! The pages of the console. A page owns what it shows of the fleet, and how: its rows, columns, cursor, filter.
//!
//! A page that is a table of all clusters' rows is a module below and a row of `TABLES`; it needs no drawing of its
//! own. Any other page is a variant of [`View`].

pub mod clusters;
mod common;
pub mod found;
pub mod hosts;
pub mod issues;
pub mod job_workers;
pub mod jobs;
pub mod nodes;
pub mod slice;
pub mod slices;

use super::fleet::Fleet;
use super::log::{LineTarget, LogView, Opened};
use super::view::{Pane, TablePage, View};
use crate::app::action::context::{Context, PAGES_BUT_LOGS};
use crate::app::table::list::{List, Listing};
use crate::model::{JobStatus, LogBatch, LogEnd, LogSource, SubmissionId, Timestamp};
use crate::reconcile::HostsKey;
use clusters::Clusters;
use hosts::HostsTable;
use job_workers::WorkersPage;
use jobs::Jobs;
use nodes::Nodes;
pub use slice::SlicePage;
use slices::Slices;

/// The nodes of all clusters.
pub static ALL_NODES: TablePage = TablePage {
    name: "all-nodes",
    label: "all nodes",
    help: "Show the nodes of all clusters in one table",
    also: "machines",
    from: PAGES_BUT_LOGS,
    crumb: "all nodes",
    context: Context::AllNodes,
    list: || Box::new(List::<Nodes>::new(None).holding_top()),
};

/// The jobs of all clusters.
pub static ALL_JOBS: TablePage = TablePage {
    name: "all-jobs",
    label: "all jobs",
    help: "Show the jobs of all clusters in one table",
    also: "user owner",
    from: PAGES_BUT_LOGS,
    crumb: "all jobs",
    context: Context::AllJobs,
    list: || Box::new(List::<Jobs>::new(None).holding_top()),
};

/// The TPUs of all clusters.
pub static ALL_TPUS: TablePage = TablePage {
    name: "all-tpus",
    label: "all TPUs",
    help: "Show the TPUs of all clusters in Google Cloud in one table",
    also: "quota",
    from: PAGES_BUT_LOGS,
    crumb: "all TPUs",
    context: Context::AllTpus,
    list: || Box::new(List::<Slices>::new(None).holding_top()),
};

/// The pages that are tables of the rows of all clusters. Each has an action that opens it.
pub static TABLES: &[&TablePage] = &[&ALL_NODES, &ALL_JOBS, &ALL_TPUS, &issues::PAGE, &found::PAGE];

/// The table of all clusters with that name.
pub fn table(name: &str) -> Option<&'static TablePage> {
    TABLES.iter().copied().find(|page| page.name == name)
}

fn number(page: &TablePage) -> Option<usize> {
    TABLES.iter().position(|known| *known == page)
}

/// The state of each page. It stays while the page is not on the screen.
#[derive(Debug)]
pub struct Pages {
    /// The fleet's table.
    pub clusters: List<Clusters>,
    /// Each of [`TABLES`], in that order.
    tables: Vec<Box<dyn Listing>>,
    /// The nodes of all clusters by slice, in place of their table while nodes are shown so.
    slices: List<HostsTable>,
    is_by_slice: bool,
    /// The page of a slice that was opened last.
    pub slice: Option<SlicePage>,
    /// The page of each cluster, by its place.
    pub cluster: Vec<ClusterPage>,
    /// The TPUs of each cluster, by its place.
    pub tpus: Vec<TpusPage>,
    /// The workers of a job of each cluster, by its place.
    pub job_workers: Vec<WorkersPage>,
}

/// A log that was left for another one of its cluster.
#[derive(Clone, Debug)]
pub struct Left {
    /// Number of the page, from the first one, that showed it.
    pub at: usize,
    /// The log, or several.
    pub opened: Opened,
    /// The line there; none while its end was followed.
    pub line: Option<LineTarget>,
}

/// The page of a cluster.
#[derive(Debug)]
pub struct ClusterPage {
    /// The nodes pane, node by node.
    pub nodes: List<Nodes>,
    /// The nodes pane by slice.
    pub slices: List<HostsTable>,
    /// Whether the nodes pane is shown by slice.
    is_by_slice: bool,
    /// The jobs pane.
    pub jobs: List<Jobs>,
    /// The log that is open.
    pub log: LogView,
    /// Logs that are returned to from pages that were opened from them; the earliest first.
    pub left: Vec<Left>,
    /// The state of the job whose log could not be read, when that failed; none of a job that was not listed.
    log_failed_at: Option<JobStatus>,
    /// First line of the autoscaler pane.
    pub autoscaler_top: usize,
    /// Lines of the operation below the screen: it is shown from its end.
    pub operation_below: usize,
    /// The highest of these, known once drawn.
    pub operation_most: usize,
    /// The job just submitted from here: it is selected and its log opened as soon as it is in the table.
    pub awaited: Option<SubmissionId>,
}

/// The page of a cluster's TPUs.
#[derive(Debug)]
pub struct TpusPage {
    /// The slices and requests.
    pub list: List<Slices>,
    /// First of the node types below them that is shown.
    pub types_top: usize,
    /// The highest of these, known once drawn.
    pub types_last: usize,
}

impl Pages {
    /// The pages before any cluster has reported.
    pub fn new(fleet: &Fleet) -> Self {
        let places = || 0..fleet.clusters.len();
        let mut pages = Self {
            clusters: List::new(None).holding_top(),
            tables: TABLES.iter().map(|page| (page.list)()).collect(),
            slices: List::new(None),
            is_by_slice: true,
            slice: None,
            cluster: places().map(ClusterPage::new).collect(),
            tpus: places().map(TpusPage::new).collect(),
            job_workers: places().map(WorkersPage::new).collect(),
        };
        pages.clusters.arrange(fleet);
        pages
    }

    /// Every table of every page, each cluster's own included.
    fn all(&self) -> impl Iterator<Item = &dyn Listing> {
        let fleet = std::iter::once(&self.clusters as &dyn Listing);
        let tables = self
            .tables
            .iter()
            .map(|table| table.as_ref() as &dyn Listing)
            .chain([&self.slices as &dyn Listing]);
        let slice = self.slice.iter().map(|page| &page.list as &dyn Listing);
        let panes = self.cluster.iter();
        let panes =
            panes.flat_map(|page| [&page.nodes as &dyn Listing, &page.slices, &page.jobs]).chain(slice);
        let tpus = self.tpus.iter().map(|page| &page.list as &dyn Listing);
        let workers = self.job_workers.iter().flat_map(WorkersPage::all);
        fleet.chain(tables).chain(panes).chain(tpus).chain(workers)
    }

    /// The same, to be changed.
    fn all_mut(&mut self) -> impl Iterator<Item = &mut dyn Listing> {
        let fleet = std::iter::once(&mut self.clusters as &mut dyn Listing);
        let tables = self.tables.iter_mut().map(|table| table.as_mut() as &mut dyn Listing);
        let tables = tables.chain([&mut self.slices as &mut dyn Listing]);
        let slice = self.slice.iter_mut().map(|page| &mut page.list as &mut dyn Listing);
        let panes = self.cluster.iter_mut();
        let panes =
            panes.flat_map(|page| [&mut page.nodes as &mut dyn Listing, &mut page.slices, &mut page.jobs]);
        let panes = panes.chain(slice);
        let tpus = self.tpus.iter_mut().map(|page| &mut page.list as &mut dyn Listing);
        let workers = self.job_workers.iter_mut().flat_map(WorkersPage::all_mut);
        fleet.chain(tables).chain(panes).chain(tpus).chain(workers)
    }

    /// Whether nodes are shown by slice.
    pub fn is_by_slice(&self) -> bool {
        self.is_by_slice
    }

    /// Shows nodes by slice, or one by one.
    pub fn show_by_slice(&mut self, is_by_slice: bool) {
        self.is_by_slice = is_by_slice;
        self.cluster.iter_mut().for_each(|page| page.is_by_slice = is_by_slice);
    }

    /// Makes the page of these hosts the one that is shown.
    pub fn open_slice(&mut self, fleet: &Fleet, place: usize, hosts: &HostsKey) -> &mut SlicePage {
        let is_it = self.slice.as_ref().is_some_and(|page| page.is_of(place, hosts));
        let layout = self.cluster.get(place).map(|page| page.nodes.layout());
        let open = self.slice.take().filter(|_| is_it);
        let page = self.slice.insert(open.unwrap_or_else(|| {
            let mut page = SlicePage::new(place, hosts.clone());
            page.list.lay_out(&layout.unwrap_or_default());
            page
        }));
        page.arrange(fleet);
        page
    }

    /// A table with that name in the settings.
    pub fn named(&self, table: &str) -> Option<&dyn Listing> {
        self.all().find(|listing| listing.name() == table)
    }

    /// Every table with that name, to be changed: each cluster has its own.
    pub fn named_mut(&mut self, table: &str) -> impl Iterator<Item = &mut dyn Listing> {
        self.all_mut().filter(move |listing| listing.name() == table)
    }

    /// The table of a page; on a cluster's page, that of the pane.
    pub fn listing(&self, view: &View, pane: Pane) -> Option<&dyn Listing> {
        match view {
            View::Clusters => Some(&self.clusters),
            View::Table(page) if self.is_by_slice && **page == ALL_NODES => Some(&self.slices),
            View::Table(page) => self.tables.get(number(page)?).map(Box::as_ref),
            View::Slice(place, hosts) => self
                .slice
                .as_ref()
                .filter(|page| page.is_of(*place, hosts))
                .map(|page| &page.list as &dyn Listing),
            View::Tpus(place) => Some(&self.tpus.get(*place)?.list),
            View::JobWorkers(place) => Some(self.job_workers.get(*place)?.listing()),
            View::Cluster(place) => self.cluster.get(*place)?.listing(pane),
            View::Log(_) | View::Operation(_) | View::Details(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn listing_mut(&mut self, view: &View, pane: Pane) -> Option<&mut dyn Listing> {
        match view {
            View::Clusters => Some(&mut self.clusters),
            View::Table(page) if self.is_by_slice && **page == ALL_NODES => Some(&mut self.slices),
            View::Table(page) => Some(self.tables.get_mut(number(page)?)?.as_mut()),
            View::Slice(place, hosts) => {
                let page = self.slice.as_mut().filter(|page| page.is_of(*place, hosts))?;
                Some(&mut page.list)
            }
            View::Tpus(place) => Some(&mut self.tpus.get_mut(*place)?.list),
            View::JobWorkers(place) => Some(self.job_workers.get_mut(*place)?.listing_mut()),
            View::Cluster(place) => self.cluster.get_mut(*place)?.listing_mut(pane),
            View::Log(_) | View::Operation(_) | View::Details(_) => None,
        }
    }
}

/// The tables by their name in the settings, each with the ids of its columns.
pub fn tables() -> Vec<(&'static str, Vec<&'static str>)> {
    let (clusters, page, tpus) = (List::<Clusters>::new(None), ClusterPage::new(0), TpusPage::new(0));
    let of_cluster: [&dyn Listing; 5] = [&clusters, &page.nodes, &page.slices, &page.jobs, &tpus.list];
    let named =
        |list: &dyn Listing| (list.name(), list.choices().iter().map(|column| column.id).collect::<Vec<_>>());
    let across = TABLES.iter().map(|page| named((page.list)().as_ref()));
    let slices = named(&List::<HostsTable>::new(None));
    let job_workers = WorkersPage::new(0);
    of_cluster
        .into_iter()
        .map(named)
        .chain(across)
        .chain([slices])
        .chain(job_workers.all().map(named))
        .collect()
}

impl ClusterPage {
    fn new(place: usize) -> Self {
        Self {
            nodes: List::new(Some(place)),
            slices: List::new(Some(place)),
            is_by_slice: true,
            jobs: List::new(Some(place)),
            log: LogView::default(),
            left: Vec::new(),
            log_failed_at: None,
            autoscaler_top: 0,
            operation_below: 0,
            operation_most: 0,
            awaited: None,
        }
    }

    /// The table of a pane; none of a pane that has none.
    pub fn listing(&self, pane: Pane) -> Option<&dyn Listing> {
        match pane {
            Pane::Nodes if self.is_by_slice => Some(&self.slices),
            Pane::Nodes => Some(&self.nodes),
            Pane::Jobs => Some(&self.jobs),
            Pane::Log | Pane::Autoscaler => None,
        }
    }

    /// Whether the nodes pane is shown by slice.
    pub fn is_by_slice(&self) -> bool {
        self.is_by_slice
    }

    /// The same, to be changed.
    pub fn listing_mut(&mut self, pane: Pane) -> Option<&mut dyn Listing> {
        match pane {
            Pane::Nodes if self.is_by_slice => Some(&mut self.slices),
            Pane::Nodes => Some(&mut self.nodes),
            Pane::Jobs => Some(&mut self.jobs),
            Pane::Log | Pane::Autoscaler => None,
        }
    }

    /// Adds lines of the log, or its end.
    pub fn take_log(&mut self, fleet: &Fleet, place: usize, batch: LogBatch, now: Timestamp) {
        self.log.take(batch, now);
        self.log_failed_at = self.failed_job().and_then(|id| status(fleet, place, id));
    }

    /// Goes on with what another view of the same streams has taken in since.
    pub fn go_on_with(&mut self, fleet: &Fleet, place: usize, after: LogView, now: Timestamp) {
        self.log.go_on_with(after, now);
        self.log_failed_at = self.failed_job().and_then(|id| status(fleet, place, id));
    }

    /// The job whose log could not be read before but may be readable now: it is listed again, as after a restart that
    /// has restored it, or its state has changed.
    pub fn readable_again(&self, fleet: &Fleet, place: usize) -> Option<SubmissionId> {
        let id = self.failed_job()?;
        let now = status(fleet, place, id)?;
        (Some(now) != self.log_failed_at).then(|| id.clone())
    }

    /// The job whose log cannot be read.
    fn failed_job(&self) -> Option<&SubmissionId> {
        match (self.log.end(), self.log.source()) {
            (LogEnd::Failed(_), Some(LogSource::Job(id))) => Some(id),
            _ => None,
        }
    }
}

fn status(fleet: &Fleet, place: usize, id: &SubmissionId) -> Option<JobStatus> {
    let jobs = &fleet.clusters.get(place)?.snapshot.jobs;
    jobs.iter().find(|job| job.submission_id() == Some(id)).map(|job| job.status)
}

impl TpusPage {
    fn new(place: usize) -> Self {
        Self { list: List::new(Some(place)).holding_top(), types_top: 0, types_last: 0 }
    }

    /// Moves the cursor; behind the last row the node types are scrolled, and back before it moves up again.
    pub fn step(&mut self, fleet: &Fleet, by: isize) {
        let left = self.list.len().saturating_sub(self.list.cursor() + 1);
        let (rest, back) = (by.unsigned_abs(), self.types_top);
        if by > 0 {
            self.types_top = back.saturating_add(rest.saturating_sub(left)).min(self.types_last);
            self.list.step(fleet, by);
        } else {
            self.types_top = back.saturating_sub(rest);
            self.list.step(fleet, by.saturating_add_unsigned(back).min(0));
        }
    }

    /// Takes in how many of the node types are hidden.
    pub fn measured(&mut self, types_last: usize) {
        self.types_last = types_last;
        self.types_top = self.types_top.min(types_last);
    }
}

#[cfg(test)]
mod tests {
    use crate::app::table::column::Kind;

    /// A filter would search a column that does not exist for nothing.
    fn words_are_columns<K: Kind>() {
        let is_there = |id: &&&str| K::columns().iter().any(|column| column.id == **id);
        assert_eq!(K::WORDS.iter().find(|id| !is_there(id)), None);
    }

    #[test]
    fn the_words_that_a_filter_searches_are_those_of_columns() {
        words_are_columns::<super::jobs::Jobs>();
        words_are_columns::<super::clusters::Clusters>();
    }
}
