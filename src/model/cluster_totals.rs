//! A state in a few numbers: what a row of the fleet shows.

use super::{JobStatus, Snapshot};

/// What chips are counted in: the best that a cluster has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chip {
    /// Google TPU chips.
    Tpu,
    /// NVIDIA or other GPUs.
    Gpu,
    /// CPUs, where there is nothing else.
    #[default]
    Cpu,
}

impl Chip {
    /// Name of the resource in Ray.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Tpu => "TPU",
            Self::Gpu => "GPU",
            Self::Cpu => "CPU",
        }
    }
}

/// Totals of a cluster's state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClusterTotals {
    /// Nodes alive, the head included.
    pub alive: usize,
    /// Nodes on their way: machines that have not joined, and launches asked for.
    pub pending: usize,
    /// Nodes that died, as far as Ray remembers.
    pub dead: usize,
    /// Those of them that were lost lately ([`super::Node::is_lost`]).
    pub lost: usize,
    /// Kind of chip that is counted.
    pub chip: Chip,
    /// Chips of live nodes.
    pub chips: f64,
    /// Chips in use; `None` if the channel does not report it.
    pub used: Option<f64>,
    /// Number of jobs that Ray calls running.
    pub running: usize,
    /// Number of pending jobs.
    pub waiting: usize,
    /// Number of running jobs that hold nothing and wait for a node, as their vitals show.
    pub held_up: usize,
    /// Number of unmet demands.
    pub wants: u64,
}

impl ClusterTotals {
    /// Computes the totals of a snapshot; what only vitals show is zero.
    pub fn of(snapshot: &Snapshot) -> Self {
        let alive = || snapshot.nodes.iter().filter(|n| n.state.is_alive());
        let report = &snapshot.autoscaler;
        let joining: usize = report.types.iter().map(|t| t.pending as usize).sum();
        let launching: usize = report.types.iter().map(|t| t.launching as usize).sum();
        let jobs = |status| snapshot.jobs.iter().filter(|j| j.status == status).count();
        let has =
            |chip: &Chip| alive().any(|n| n.resources.get(chip.resource()).is_some_and(|r| r.total > 0.0));
        let chip = [Chip::Tpu, Chip::Gpu].into_iter().find(has).unwrap_or_default();
        let resources = || alive().filter_map(|n| n.resources.get(chip.resource()));
        Self {
            alive: alive().count(),
            pending: report.pending.len().max(joining) + launching,
            dead: snapshot.nodes.len() - alive().count(),
            lost: snapshot.nodes.iter().filter(|n| n.is_lost(snapshot.taken)).count(),
            chip,
            chips: resources().map(|r| r.total).sum(),
            used: resources().map(|r| r.used).sum(),
            running: jobs(JobStatus::Running),
            waiting: jobs(JobStatus::Pending),
            held_up: 0,
            wants: report.demands.iter().map(|d| d.count).sum(),
        }
    }

    /// The numbers of jobs that run and that wait, whatever Ray calls them.
    pub const fn jobs(&self) -> (usize, usize) {
        (self.running.saturating_sub(self.held_up), self.waiting + self.held_up)
    }

    /// The share of the chips in use, 0 to 1; `None` when unknown or when there are none.
    pub fn share(&self) -> Option<f64> {
        self.used.filter(|_| self.chips > 0.0).map(|used| (used / self.chips).clamp(0.0, 1.0))
    }
}
