//! A restart of Ray: a new session with an empty job table, and an autoscaler that works and has launched nothing yet.

use super::super::life::Life;
use super::super::life::engine::Engine;
use super::Cluster;
use std::time::Duration;

impl Cluster {
    /// Restarts Ray: resets the cluster, except for workers that were added manually, which join the new head.
    pub fn restart(&mut self) {
        let seed = self.random.next();
        let mut scenario = self.scenario.clone();
        (scenario.seed, scenario.dead, scenario.pending) = (seed, 0, 0);
        (scenario.jobs, scenario.unowned) = (0, 0);
        let life = scenario.life.take().map(|life| Life { stuck: false, infeasible: Vec::new(), ..life });
        scenario.life.clone_from(&life);
        let mut next = Self::empty(&scenario, self.now);
        next.nodes[0].started = self.now;
        next.session = session(self.now, seed);
        next.version = self.version + 1;
        next.monitor.saw = next.version;
        next.by_hand = self.by_hand.for_new_head(self.now);
        if let Some(life) = &life {
            let mut engine = Engine::new(life, &scenario, self.now);
            if let Some(previous) = self.life.take() {
                engine.take_over(previous);
            }
            next.life = Some(engine);
        } else {
            next.coming = next.nodes.split_off(1).into();
        }
        *self = next;
    }

    /// No worker joins a restarted head before this time has passed.
    pub fn delay_joins(&mut self, delay: Duration) {
        self.coming_from = self.now.saturating_add_unsigned(delay.as_millis() as u64);
    }

    /// Lets the next worker join a restarted head: one per second, without simulated activity.
    pub fn join_next(&mut self) {
        let now = self.now;
        if now < self.coming_from {
            return;
        }
        if let Some(mut node) = self.coming.pop_front() {
            // Its agent has not measured anything yet.
            (node.started, node.sampled, node.written) = (now, None, None);
            node.rest(now);
            self.nodes.push(node);
        }
    }
}

/// A session name as Ray builds it: the start time and the process id.
fn session(now: i64, seed: u64) -> String {
    let began = jiff::Timestamp::from_millisecond(now).unwrap_or_default();
    format!("session_{}_{}", began.strftime("%Y-%m-%d_%H-%M-%S_%6f"), seed >> 44)
}

#[cfg(test)]
mod tests {
    use super::super::job::SimJob;
    use super::super::log::Log;
    use super::super::tpu_vm::slice_kind;
    use super::*;
    use crate::demo::{Clock, Scenario, TpuType};
    use crate::model::JobStatus;
    use serde_json::json;
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    const T0: i64 = 1_795_000_000_000;

    fn cluster(life: Option<Life>) -> Cluster {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
        Cluster::new(&Scenario { nodes: 6, dead: 2, jobs: 20, life, clock, ..Scenario::default() })
    }

    fn stuck() -> Life {
        let types = vec![TpuType::new("tpu_worker", "v4-16", 2, 3)];
        Life { types, past_minutes: 60, stuck: true, preemptions_per_hour: 0.0, ..Life::default() }
    }

    fn alive(cluster: &Cluster) -> usize {
        cluster.nodes.iter().filter(|n| n.is_alive()).count()
    }

    /// The numbers of live nodes, sampled each second until there are `to`, without repetitions.
    fn growth(cluster: &mut Cluster, to: usize) -> Vec<usize> {
        let mut seen = vec![alive(cluster)];
        for _ in 0..600 {
            cluster.advance(cluster.now + 1000);
            seen.push(alive(cluster));
            if alive(cluster) == to {
                seen.dedup();
                return seen;
            }
        }
        panic!("{seen:?}");
    }

    #[test]
    fn a_new_head_launches_min_workers_host_by_host_and_deletes_old_machines() {
        let mut cluster = cluster(Some(stuck()));
        cluster.advance(T0 + 10_000);
        let (session, lost) = (cluster.session.clone(), cluster.tpu_vms());
        assert!(!lost.is_empty() && lost.iter().all(|vm| vm.state == "PREEMPTED"));
        cluster.restart();
        assert_ne!(cluster.session, session);
        assert!(cluster.session.starts_with("session_2026-11-"), "{}", cluster.session);
        assert_eq!((alive(&cluster), cluster.nodes.len(), cluster.jobs.len()), (1, 1, 0));
        assert_eq!(cluster.tpu_vms().len(), lost.len(), "lost machines are not deleted yet");
        assert_eq!(growth(&mut cluster, 5), [1, 2, 3, 4, 5]);
        assert!(cluster.monitor.alive && cluster.monitor.at > T0 + 10_000);
        assert!(cluster.tpu_vms().iter().all(|vm| vm.state == "READY"), "{:?}", cluster.tpu_vms());
        let log = String::from_utf8(cluster.files["monitor.log"].tail(None, cluster.now)).unwrap();
        assert!(!log.contains("HttpError 404"), "{log}");
    }

    #[test]
    fn a_resubmitted_job_waits_for_its_slice_and_trains() {
        let mut cluster = cluster(Some(stuck()));
        let old =
            cluster.jobs.iter().rfind(|j| !j.status.is_ended() && j.submission.is_some()).unwrap().clone();
        assert!(cluster.packages.contains_key(old.package().unwrap()));
        cluster.restart();
        assert!(cluster.packages.is_empty());
        let (id, submission) = (old.submission.clone().unwrap(), json!({"metadata": old.metadata}));
        let resubmission = cluster.recognize(&id, &submission).unwrap();
        let status = JobStatus::Pending;
        cluster.add(SimJob { status, log: Log::none(), ..old });
        cluster.attach_resubmission(resubmission);
        for _ in 0..600 {
            cluster.advance(cluster.now + 1000);
            if !cluster.hosts_of(0).is_empty() {
                assert_eq!((cluster.jobs[0].status, cluster.hosts_of(0).len()), (JobStatus::Running, 2));
                return;
            }
        }
        panic!("{:?}", cluster.jobs[0].status);
    }

    #[test]
    fn without_a_life_the_workers_rejoin_one_per_second() {
        let mut cluster = cluster(None);
        let version = cluster.version;
        cluster.restart();
        assert!(cluster.version > version, "cached responses are invalid");
        assert_eq!((alive(&cluster), cluster.jobs.len()), (1, 0));
        assert_eq!(growth(&mut cluster, 6), [1, 2, 3, 4, 5, 6]);
        cluster.restart();
        cluster.delay_joins(Duration::from_secs(3));
        cluster.advance(cluster.now + 2000);
        assert_eq!(alive(&cluster), 1);
        cluster.advance(cluster.now + 1000);
        assert_eq!(alive(&cluster), 2);
    }

    #[test]
    fn workers_added_by_hand_join_the_new_head() {
        let mut cluster =
            cluster(Some(Life { stuck: false, jobs_per_hour: 0.0, past_minutes: 0, ..stuck() }));
        let kind = slice_kind("tpu_slice_v4_32", "v4-32", "z");
        cluster.by_hand.add("q", "w", kind, json!({}), T0, false);
        cluster.advance(T0 + 60_000);
        let joined = |c: &Cluster| {
            let hosts = c.by_hand.tpu_vms(c.now).next().unwrap().hosts;
            c.nodes.iter().filter(|n| n.is_alive() && hosts.contains(&n.ip)).count()
        };
        assert_eq!(joined(&cluster), 4);
        cluster.restart();
        assert_eq!(joined(&cluster), 0);
        cluster.advance(T0 + 63_000);
        assert_eq!(joined(&cluster), 1, "host by host");
        cluster.advance(T0 + 75_000);
        assert_eq!(joined(&cluster), 4);
        assert!(cluster.by_hand.delete("w", cluster.now));
    }
}
