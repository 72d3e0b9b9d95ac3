//! The page of a cluster: its nodes, its jobs, a log, and its autoscaler.

use super::hosts::HostsTable;
use super::jobs::Jobs;
use super::nodes::Nodes;
use super::operation::OperationPage;
use super::page::Page;
use crate::app::fleet::Fleet;
use crate::app::log::{LineTarget, LogView, Opened};
use crate::app::screen::areas::Areas;
use crate::app::screen::pane::Pane;
use crate::app::screen::scroll::Scroll;
use crate::app::table::list::{List, Listing};
use crate::model::{JobStatus, LogBatch, LogEnd, LogSource, SubmissionId, Timestamp};

/// A log that was left for another one of its cluster.
#[derive(Clone, Debug)]
pub struct PreviousLog {
    /// Number of the page, from the first one, that showed it.
    pub at: usize,
    /// The log, or several.
    pub opened: Opened,
    /// The current line; `None` while its end was followed.
    pub line: Option<LineTarget>,
}

#[derive(Debug)]
pub struct ClusterPage {
    /// The index of the cluster.
    pub(in crate::app) cluster_index: usize,
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
    /// Logs to which Esc returns from the pages that were opened from them; the earliest first.
    pub previous_logs: Vec<PreviousLog>,
    /// The state of the job whose log could not be read, at that time; `None` for a job that was not listed.
    log_failed_at: Option<JobStatus>,
    /// The scroll position of the autoscaler pane.
    pub autoscaler: Scroll,
    /// The page of the operation on the cluster.
    pub operation: OperationPage,
    /// The job just submitted from here: it is selected and its log opened once it is in the table, unless another log
    /// is opened before.
    pub awaited: Option<SubmissionId>,
}

impl ClusterPage {
    /// The page of the cluster at this index.
    pub fn new(cluster_index: usize) -> Self {
        Self {
            cluster_index,
            nodes: List::new(Some(cluster_index)),
            slices: List::new(Some(cluster_index)),
            is_by_slice: true,
            jobs: List::new(Some(cluster_index)),
            log: LogView::default(),
            previous_logs: Vec::new(),
            log_failed_at: None,
            autoscaler: Scroll::default(),
            operation: OperationPage::default(),
            awaited: None,
        }
    }

    /// Whether the nodes pane is shown by slice.
    pub fn is_by_slice(&self) -> bool {
        self.is_by_slice
    }

    /// Shows the nodes pane by slice, or node by node.
    pub(in crate::app) fn show_by_slice(&mut self, is_by_slice: bool) {
        self.is_by_slice = is_by_slice;
    }

    /// Adds lines of the log, or its end.
    pub fn take_log(&mut self, fleet: &Fleet, batch: LogBatch, now: Timestamp) {
        self.log.take(batch, now);
        self.log_failed_at = self.failed_job().and_then(|id| self.status(fleet, id));
    }

    /// Continues with the lines that another view of the same streams has received since.
    pub fn go_on_with(&mut self, fleet: &Fleet, after: LogView, now: Timestamp) {
        self.log.go_on_with(after, now);
        self.log_failed_at = self.failed_job().and_then(|id| self.status(fleet, id));
    }

    /// The job whose log could not be read before but may be readable now: it is listed again, for example because a
    /// restart has restored it, or its state has changed.
    pub fn readable_again(&self, fleet: &Fleet) -> Option<SubmissionId> {
        let id = self.failed_job()?;
        let now = self.status(fleet, id)?;
        (Some(now) != self.log_failed_at).then(|| id.clone())
    }

    /// The job whose log cannot be read.
    fn failed_job(&self) -> Option<&SubmissionId> {
        match (self.log.end(), self.log.source()) {
            (LogEnd::Failed(_), Some(LogSource::Job(id))) => Some(id),
            _ => None,
        }
    }

    fn status(&self, fleet: &Fleet, id: &SubmissionId) -> Option<JobStatus> {
        let jobs = &fleet.clusters.get(self.cluster_index)?.snapshot.jobs;
        jobs.iter().find(|job| job.submission_id() == Some(id)).map(|job| job.status)
    }
}

impl Page for ClusterPage {
    fn tables(&self) -> Vec<&dyn Listing> {
        vec![&self.nodes, &self.slices, &self.jobs]
    }

    fn tables_mut(&mut self) -> Vec<&mut dyn Listing> {
        vec![&mut self.nodes, &mut self.slices, &mut self.jobs]
    }

    fn listing(&self, pane: Pane) -> Option<&dyn Listing> {
        match pane {
            Pane::Nodes if self.is_by_slice => Some(&self.slices),
            Pane::Nodes => Some(&self.nodes),
            Pane::Jobs => Some(&self.jobs),
            Pane::Log | Pane::Autoscaler => None,
        }
    }

    fn listing_mut(&mut self, pane: Pane) -> Option<&mut dyn Listing> {
        match pane {
            Pane::Nodes if self.is_by_slice => Some(&mut self.slices),
            Pane::Nodes => Some(&mut self.nodes),
            Pane::Jobs => Some(&mut self.jobs),
            Pane::Log | Pane::Autoscaler => None,
        }
    }

    fn scroll(&mut self, fleet: &Fleet, pane: Pane, by: isize) {
        match pane {
            Pane::Nodes | Pane::Jobs => {
                if let Some(listing) = self.listing_mut(pane) {
                    listing.step(fleet, by);
                }
            }
            Pane::Log => self.log.scroll(by),
            Pane::Autoscaler => self.autoscaler.step(by),
        }
    }

    fn page_height(&self, areas: &Areas, pane: Pane) -> usize {
        match pane {
            Pane::Nodes | Pane::Jobs => self.listing(pane).map_or(1, Listing::height),
            Pane::Log => self.log.page(),
            Pane::Autoscaler => areas.autoscaler.unwrap_or_default().height.into(),
        }
    }

    fn measure(&mut self, areas: &Areas) {
        for (pane, table) in [(Pane::Nodes, &areas.nodes), (Pane::Jobs, &areas.jobs)] {
            if let Some((table, listing)) = table.as_ref().zip(self.listing_mut(pane)) {
                listing.drawn(table);
            }
        }
        self.log.measure(areas);
        self.autoscaler.drawn(areas.autoscaler_last);
    }
}
