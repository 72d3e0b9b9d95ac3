//! Details pages: a job, a node, a TPU, a cluster.

use super::page::{NodesInView, Page};
use crate::app::action::context::Context;
use crate::app::action::target::Target;
use crate::app::fleet::Fleet;
use crate::app::job::stack_rows::StackCursor;
use crate::app::screen::areas::Areas;
use crate::app::screen::pane::Pane;
use crate::app::screen::scroll::Scroll;
use crate::model::{Chips, Inspection, JobId, JobIds, JobStacks, NodeId, Problem, Subject, Timestamp, Work};
use std::sync::Arc;

/// A details page with everything that is known of its subject. Two pages are equal if they have the same subject.
#[derive(Clone, Debug)]
pub struct Details {
    /// What is shown.
    pub target: Target,
    /// The work of a job's driver in Ray, requested when its page is opened.
    pub work: WorkRequest,
    /// The stacks of a job's workers, taken when that page is opened.
    pub stacks: Stacks,
    /// The selection among these stacks.
    pub cursor: StackCursor,
    /// Ray's answer about a job or a host, requested when its page is opened.
    pub inspected: Box<Inspected>,
    /// The hosts whose chips the page shows; empty if there are none now.
    pub chip_hosts: Vec<NodeId>,
    /// When the page of chips was opened: older vitals of its job are not used.
    pub chips_since: Option<Timestamp>,
    /// The utilization of the page's chips; `None` while it is read.
    pub chips: Option<Arc<Result<Chips, Problem>>>,
    /// When the chips of the page were last requested, while there is no result of that request.
    pub chips_requested: Option<Timestamp>,
    /// When the last result was received, or there was no host to read.
    pub chips_read: Option<Timestamp>,
    /// The text of the filter: only lines that match it are shown.
    pub filter: String,
    /// The scroll position.
    pub scroll: Scroll,
}

/// The state of the request for a driver's work in Ray.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkRequest {
    /// It is not requested.
    No,
    /// Requested for this driver.
    Waiting(JobIds),
    /// Ray's answer, or why there is none.
    Answered(Result<Box<Work>, String>),
}

/// The state of the request about a job or a host.
#[derive(Clone, Debug, PartialEq)]
pub enum Inspected {
    /// It is not requested.
    No,
    /// Requested.
    Waiting(Subject),
    /// The last answer and its time, or an error; another one may follow.
    Answered(Subject, Timestamp, Arc<Result<Inspection, String>>),
}

/// The state of taking the stacks of a job's workers.
#[derive(Clone, Debug, PartialEq)]
pub enum Stacks {
    /// They are not taken: the job has no driver.
    No,
    /// The stacks of this driver's workers are being taken.
    Waiting(JobId),
    /// The last result, or an error; another one may follow.
    Answered(JobId, Arc<Result<JobStacks, Problem>>),
}

impl PartialEq for Details {
    fn eq(&self, other: &Self) -> bool {
        self.target == other.target
    }
}

impl Details {
    /// The page of a subject, scrolled to its beginning.
    pub fn of(target: Target) -> Self {
        Self {
            target,
            work: WorkRequest::No,
            stacks: Stacks::No,
            cursor: StackCursor::default(),
            inspected: Box::new(Inspected::No),
            chip_hosts: Vec::new(),
            chips_since: None,
            chips: None,
            chips_requested: None,
            chips_read: None,
            filter: String::new(),
            scroll: Scroll::default(),
        }
    }

    /// The context of its keys.
    pub fn context(&self) -> Context {
        match self.target {
            Target::Node(..) => Context::Node,
            Target::Job(..) | Target::Stacks(..) => Context::Job,
            Target::Tpu(..) => Context::Tpu,
            Target::Chips(..)
            | Target::Cluster(_)
            | Target::Hosts(..)
            | Target::Broken(_)
            | Target::Messages => Context::Info,
        }
    }
}

impl Page for Details {
    fn scroll(&mut self, _fleet: &Fleet, _pane: Pane, by: isize) {
        match self.cursor.step(by) {
            Some(top) => self.scroll.go_to(top),
            None => self.scroll.step(by),
        }
    }

    fn page_height(&self, areas: &Areas, _pane: Pane) -> usize {
        areas.details.unwrap_or_default().height.into()
    }

    fn measure(&mut self, areas: &Areas) {
        let drawn = areas.details_rows.as_ref();
        self.cursor.drawn(drawn);
        match drawn {
            Some(drawn) => self.scroll.drawn_from(drawn.top, areas.details_last),
            None => self.scroll.drawn(areas.details_last),
        }
    }

    fn nodes_in_view(&self, _fleet: &Fleet, _areas: &Areas) -> NodesInView {
        match self.target {
            Target::Node(cluster_index, id) => vec![(cluster_index, vec![id])],
            _ => Vec::new(),
        }
    }
}
