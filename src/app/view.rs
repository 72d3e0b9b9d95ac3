//! Which page is on the screen, and which of its panes has the focus.

use super::fleet::Fleet;
use crate::app::action::context::Context;
use crate::app::action::target::Target;
use crate::app::table::list::Listing;
use crate::app::text::words;
use crate::model::{Chips, Inspection, JobId, JobIds, JobStacks, Problem, Subject, Timestamp, Work};
use crate::reconcile::HostsKey;
use std::sync::Arc;

/// A page of the console.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// The fleet: one row per cluster.
    Clusters,
    /// A table of the rows of all clusters.
    Table(&'static TablePage),
    /// One cluster, by its place.
    Cluster(usize),
    /// The open log of a cluster in the whole window.
    Log(usize),
    /// The TPUs of one cluster.
    Tpus(usize),
    /// A slice of a cluster, or other hosts that stand in one row.
    Slice(usize, HostsKey),
    /// The workers of the job of a cluster that is watched.
    JobWorkers(usize),
    /// The operation on a cluster or its workers: its steps, their output, its outcome.
    Operation(usize),
    /// A thing in full.
    Details(Details),
}

impl View {
    /// The place of the cluster that the page is of; none for pages of the fleet.
    pub fn place(&self) -> Option<usize> {
        match self {
            Self::Cluster(place)
            | Self::Log(place)
            | Self::Tpus(place)
            | Self::JobWorkers(place)
            | Self::Operation(place)
            | Self::Slice(place, _) => Some(*place),
            Self::Details(details) => details.target.place(),
            Self::Clusters | Self::Table(_) => None,
        }
    }

    /// Whether the open log of that cluster is on it.
    pub fn shows_log(&self, of: usize) -> bool {
        matches!(self, Self::Cluster(place) | Self::Log(place) if *place == of)
    }

    /// Where its keys are looked up.
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
            Self::Cluster(place) => fleet.clusters[*place].name().to_string(),
            Self::Log(_) => "log".to_owned(),
            Self::Tpus(_) => "tpus".to_owned(),
            Self::Slice(_, hosts) => words::hosts(hosts),
            Self::JobWorkers(place) => {
                let cluster = &fleet.clusters[*place];
                let job = cluster.job_workers.job.as_ref().map(|job| cluster.job_name(job));
                job.map_or_else(|| "workers".to_owned(), |job| format!("workers of {job}"))
            }
            Self::Operation(_) => "operation".to_owned(),
            Self::Details(details) => details.target.words(fleet),
        }
    }
}

/// A page that is one table of the rows of all clusters, and the action that opens it.
#[derive(Debug)]
pub struct TablePage {
    /// The action's name in the keymap and the palette.
    pub name: &'static str,
    /// One or two words for the footer; empty keeps it out.
    pub label: &'static str,
    /// One line for the help: a capitalised imperative.
    pub help: &'static str,
    /// Other words by which an operator may look for it in the palette.
    pub also: &'static str,
    /// The contexts in which it can be opened.
    pub from: &'static [Context],
    /// Its name in the line at the top.
    pub crumb: &'static str,
    /// Where its keys are looked up: [`Context::Table`] where its rows have no actions of their own.
    pub context: Context,
    /// Makes its table.
    pub list: fn() -> Box<dyn Listing>,
}

impl PartialEq for TablePage {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// A region of a cluster's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// Pane 1: the cluster's nodes.
    Nodes,
    /// Pane 2: the cluster's jobs.
    Jobs,
    /// Pane 3: the open log.
    Log,
    /// Pane 4: the autoscaler's report.
    Autoscaler,
}

impl Pane {
    /// In the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Nodes, Self::Jobs, Self::Log, Self::Autoscaler];

    /// Where its keys are looked up.
    pub const fn context(self) -> Context {
        match self {
            Self::Nodes => Context::Nodes,
            Self::Jobs => Context::Jobs,
            Self::Log => Context::Log,
            Self::Autoscaler => Context::Autoscaler,
        }
    }
}

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
    /// The first line that is shown.
    pub top: usize,
    /// The highest first line, known once drawn.
    pub last: usize,
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
            top: 0,
            last: 0,
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
