//! The panes of a cluster's page.

use crate::app::action::context::Context;

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

    /// The context in which its keys are looked up.
    pub const fn context(self) -> Context {
        match self {
            Self::Nodes => Context::Nodes,
            Self::Jobs => Context::Jobs,
            Self::Log => Context::Log,
            Self::Autoscaler => Context::Autoscaler,
        }
    }
}
