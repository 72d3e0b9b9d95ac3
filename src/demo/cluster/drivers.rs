//! Resources of entrypoints: a job's entrypoint CPUs are used on its driver's node, the head, while it runs.

use super::Cluster;
use super::job::SimJob;

impl Cluster {
    /// Updates the CPUs that drivers use on the head; recounted only after a change.
    pub fn count_drivers(&mut self) {
        if self.counted != self.version {
            self.counted = self.version;
            let cpus = self.jobs.iter().map(SimJob::held_cpus).sum();
            let now = self.now;
            self.nodes[0].hold(cpus, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::Log;
    use super::*;
    use crate::demo::random::Random;
    use crate::demo::{Clock, Scenario};
    use crate::model::JobStatus;
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    const T0: i64 = 1_795_000_000_000;

    #[test]
    fn drivers_use_the_cpus_of_the_head_that_they_requested() {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
        let mut cluster =
            Cluster::new(&Scenario { nodes: 2, jobs: 0, changes: 0, clock, ..Scenario::default() });
        cluster.nodes[0].rest(T0);
        let now = |c: &Cluster| {
            let cpu = c.nodes[0].resources.iter().find(|r| r.0 == "CPU").unwrap();
            (cpu.2, c.nodes[0].idle_since)
        };
        let mut at = T0;
        let mut advance = |c: &mut Cluster| {
            at += 1000;
            c.advance(at);
            now(c)
        };
        for (n, cpus) in [(0, 0.0), (1, 2.0), (2, 0.3), (3, 40.0)] {
            let status = if n == 3 { JobStatus::Pending } else { JobStatus::Running };
            let mut job = SimJob::invent(&mut Random::new(n), n as usize, T0, status, Log::none());
            job.requested.cpus = cpus;
            assert!(cluster.add(job));
        }
        assert_eq!(advance(&mut cluster), (2.3, None), "a pending job holds nothing");
        let ids: Vec<String> = cluster.jobs.iter().filter_map(|j| j.submission.clone()).collect();
        cluster.job(&ids[3]).unwrap().turn(JobStatus::Running, T0);
        cluster.version += 1;
        assert_eq!(advance(&mut cluster), (32.0, None), "all CPUs of the head");
        cluster.nodes[0].rest(T0);
        assert_eq!(now(&cluster), (32.0, None), "the end of other work does not change it");
        assert!(cluster.stop(&ids[3]));
        advance(&mut cluster);
        assert_eq!(advance(&mut cluster), (2.3, None));
        for id in &ids[1..3] {
            cluster.job(id).unwrap().turn(JobStatus::Failed, T0);
        }
        let idle = advance(&mut cluster);
        assert_eq!(idle, (0.0, Some(T0 + 5000)), "idle since the last driver ended");
        assert_eq!(advance(&mut cluster), idle);
    }
}
