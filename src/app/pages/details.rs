//! The page of a thing in full: a job, a node, a TPU, a cluster.

use super::page::{NodesInView, Page};
use crate::app::action::context::Context;
use crate::app::action::target::Target;
use crate::app::fleet::Fleet;
use crate::app::screen::areas::Areas;
use crate::app::screen::pane::Pane;
use crate::app::screen::scroll::Scroll;
use crate::model::{Chips, Inspection, JobId, JobIds, JobStacks, Problem, Subject, Timestamp, Work};
use std::sync::Arc;

/// A thing in full: everything that is known of it, as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct Details {
    /// What is shown.
    pub target: Target,
    /// What a job's driver does in Ray, which is asked for when its page is opened.
    pub work: Asked,
    /// Where the workers of a job stand, which is asked for when that page is opened.
    pub stacks: Stacks,
    /// What Ray answered about a job or a host, which is asked for when its page is opened.
    pub inspected: Box<Inspected>,
    /// What the chips of the page do; none while they are read.
    pub chips: Option<Arc<Result<Chips, Problem>>>,
    /// When the chips of the page were last asked for.
    pub chips_asked: Option<Timestamp>,
    /// The text of the filter: only lines that match it are shown.
    pub filter: String,
    /// Which of its lines are shown.
    pub scroll: Scroll,
}

/// What a driver does in Ray, as far as that is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// It is not asked for.
    No,
    /// Ray is being asked about this driver.
    Waiting(JobIds),
    /// Ray's answer, or why there is none.
    Answered(Result<Box<Work>, String>),
}

/// What Ray answered about a job or a host, as far as that is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Inspected {
    /// It is not asked for.
    No,
    /// Ray is being asked.
    Waiting(Subject),
    /// The last answer and when it came, or why there is none; another may follow.
    Answered(Subject, Timestamp, Arc<Result<Inspection, String>>),
}

/// Where the workers of a job stand, as far as that is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Stacks {
    /// It is not asked for: the job has no driver.
    No,
    /// The workers of this driver are being looked at.
    Waiting(JobId),
    /// The last result, or why there is none; a look may follow.
    Answered(JobId, Arc<Result<JobStacks, Problem>>),
}

impl Details {
    /// The page of a thing, from its beginning.
    pub fn of(target: Target) -> Self {
        Self {
            target,
            work: Asked::No,
            stacks: Stacks::No,
            inspected: Box::new(Inspected::No),
            chips: None,
            chips_asked: None,
            filter: String::new(),
            scroll: Scroll::default(),
        }
    }

    /// Where its keys are looked up.
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
        self.scroll.step(by);
    }

    fn page_height(&self, areas: &Areas, _pane: Pane) -> usize {
        areas.details.unwrap_or_default().height.into()
    }

    fn measure(&mut self, areas: &Areas) {
        self.scroll.drawn(areas.details_last);
    }

    fn nodes_in_view(&self, _fleet: &Fleet, _areas: &Areas) -> NodesInView {
        match self.target {
            Target::Node(place, id) => vec![(place, vec![id])],
            _ => Vec::new(),
        }
    }
}
