//! Totals of a cluster's state, as shown in a row of the fleet table.

use super::{JobStatus, Snapshot};

/// Kind of chip that is counted: the first of these that a cluster has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chip {
    /// Google TPU chips.
    Tpu,
    /// NVIDIA or other GPUs.
    Gpu,
    /// CPUs, if there are no TPUs or GPUs.
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
    /// Number of live nodes, including the head.
    pub alive: usize,
    /// Number of pending nodes: machines that have not joined, and requested launches.
    pub pending: usize,
    /// Number of dead nodes that Ray still reports.
    pub dead: usize,
    /// Number of dead nodes that were lost recently ([`super::Node::is_lost`]).
    pub lost: usize,
    /// Kind of chip that is counted.
    pub chip: Chip,
    /// Number of chips of live nodes.
    pub chips: f64,
    /// Number of chips in use; `None` if the channel does not report it.
    pub used: Option<f64>,
    /// Number of jobs that Ray reports as running.
    pub running: usize,
    /// Number of pending jobs.
    pub waiting: usize,
    /// Number of running jobs that hold nothing and wait for a node, according to their vitals.
    pub blocked: usize,
    /// Number of unmet demands.
    pub unmet_demands: u64,
}

impl ClusterTotals {
    /// Computes the totals of a snapshot. `blocked` is zero because it requires vitals.
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
            blocked: 0,
            unmet_demands: snapshot.unmet().iter().sum(),
        }
    }

    /// The number of jobs that actually run, and of jobs that wait, including those that Ray reports as running.
    pub const fn jobs(&self) -> (usize, usize) {
        (self.running.saturating_sub(self.blocked), self.waiting + self.blocked)
    }

    /// The fraction of chips in use, 0 to 1; `None` if unknown or if there are no chips.
    pub fn share(&self) -> Option<f64> {
        self.used.filter(|_| self.chips > 0.0).map(|used| (used / self.chips).clamp(0.0, 1.0))
    }
}
