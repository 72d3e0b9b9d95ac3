//! What the autoscaler reports: Ray keeps the last report of an autoscaler whose process has ended.

use super::Cluster;
use super::autoscaling::{Autoscaling, LastReport, Wanted, terminated};
use super::node::SimNode;

impl Cluster {
    /// Ends or starts the process of the autoscaler. The first loop of a new one replaces the previous report.
    pub fn run_monitor(&mut self, is_running: bool) {
        if !is_running && self.last_report.is_none() {
            let (nodes, demand) = (self.nodes.clone(), self.reported_demand());
            let (scaling, at) = (self.autoscaling(), self.now);
            self.last_report = Some(LastReport { nodes, demand, scaling, at });
        }
        self.monitor.alive = is_running;
    }

    /// The nodes in the report, and the time as of which it lists terminated ones.
    pub fn reported_nodes(&self) -> (&[SimNode], i64) {
        let live = || (self.nodes.as_slice(), self.now);
        self.last_report.as_ref().map_or_else(live, |report| (report.nodes.as_slice(), report.at))
    }

    /// The unmet demand in the report: an autoscaler that is stuck or has ended does not notice later demand.
    pub fn reported_demand(&self) -> Vec<Wanted> {
        let last = self.last_report.as_ref().map(|report| &report.demand).or(self.stuck_demand.as_ref());
        last.cloned().unwrap_or_else(|| self.demand())
    }

    /// The launches and failures in the report.
    pub fn autoscaling(&self) -> Autoscaling {
        match (&self.last_report, &self.life) {
            (Some(report), _) => report.scaling.clone(),
            (None, Some(_)) => self.scaling.clone(),
            (None, None) => Autoscaling::for_demand(&self.demand(), self.monitor.at),
        }
    }

    /// The nodes among these that the report lists as terminated at that time; none without simulated activity, or if
    /// the autoscaler is stuck.
    pub fn terminated<'a>(&self, nodes: &'a [SimNode], at: i64) -> Vec<&'a SimNode> {
        let notices = self.life.as_ref().is_some_and(|l| !l.stuck);
        if notices { terminated(nodes, at) } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{Clock, Life, Scenario};
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    const T0: i64 = 1_795_000_000_000;

    /// Nodes, demand, launches and time of the report.
    fn report(cluster: &Cluster) -> String {
        let parts = (cluster.reported_nodes(), cluster.reported_demand(), cluster.autoscaling());
        format!("{parts:?} {} {}", cluster.monitor.at, cluster.monitor.loops)
    }

    #[test]
    fn the_report_of_an_autoscaler_that_has_ended_stays_until_another_one_has_run() {
        let busy = Life { jobs_per_hour: 60.0, preemptions_per_hour: 30.0, ..Life::default() };
        for life in [None, Some(busy)] {
            let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
            let mut cluster = Cluster::new(&Scenario { life, clock, ..Scenario::default() });
            cluster.run_monitor(false);
            let (last, demand) = (report(&cluster), format!("{:?}", cluster.demand()));
            let victim = cluster.nodes.iter().find(|n| n.is_alive() && !n.is_head).unwrap().id;
            assert!(cluster.kill(victim));
            cluster.advance(T0 + 600_000);
            assert_eq!(report(&cluster), last);
            if cluster.life.is_some() {
                assert_ne!(format!("{:?}", cluster.demand()), demand, "the GCS knows the current demand");
            }
            cluster.run_monitor(true);
            assert_eq!(report(&cluster), last, "its first loop has not completed");
            cluster.advance(cluster.now + 6000);
            assert_ne!(report(&cluster), last);
            assert_eq!(cluster.reported_nodes().0.len(), cluster.nodes.len());
            assert!(cluster.monitor.at > T0 + 590_000, "{}", cluster.monitor.at);
        }
    }
}
