//! Tests of the simulated activity: jobs, slices, preemptions, failed launches.

use super::super::super::cluster::Cluster;
use super::*;
use crate::demo::cluster::autoscaling::Wanted;
use crate::demo::cluster::job::{RequestedResources, SimJob};
use crate::demo::cluster::log::Log;
use crate::demo::cluster::node::SimNode;
use crate::demo::cluster::tpu_vm::slice_kind;
use crate::demo::life::Halved;
use crate::demo::{Clock, Refusal, TpuType};
use crate::model::{AutoscalerVersion, JobStatus};
use serde_json::{Value, json};
use std::sync::atomic::AtomicI64;

const T0: i64 = 1_795_000_000_000;
const MINUTE: i64 = 60_000;

/// Activity without random events.
fn quiet() -> Life {
    Life {
        types: vec![TpuType::new("tpu_worker", "v4-8", 2, 2), TpuType::new("tpu_slice_v4_64", "v4-64", 0, 0)],
        past_minutes: 0,
        jobs_per_hour: 0.0,
        preemptions_per_hour: 0.0,
        failing: 0.0,
        ..Life::default()
    }
}

fn scenario(life: Life) -> Scenario {
    let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
    Scenario { dead: 2, jobs: 20, life: Some(life), clock, ..Scenario::default() }
}

fn cluster(life: Life) -> Cluster {
    Cluster::new(&scenario(life))
}

fn living(cluster: &Cluster) -> Vec<&SimNode> {
    cluster.nodes.iter().filter(|n| n.is_alive()).collect()
}

fn of_type(cluster: &Cluster, name: &str) -> usize {
    living(cluster).iter().filter(|n| &*n.node_type == name).count()
}

fn state_texts(cluster: &mut Cluster) -> Vec<String> {
    let (head, now) = (cluster.head(), cluster.now);
    let nodes: Vec<String> = cluster.nodes.iter().map(|n| n.row(true).to_string()).collect();
    let texts = cluster.jobs.iter_mut().map(|j| {
        let log = String::from_utf8(j.log.tail(Some(20), now)).unwrap();
        format!("{}{log}", j.text(head))
    });
    let texts: Vec<String> = texts.collect();
    let demand = format!("{:?} {:?}", cluster.wanted, cluster.scaling);
    nodes.into_iter().chain(texts).chain([demand]).collect()
}

/// Advances the cluster in steps of five seconds until `holds`, for at most an hour.
fn until(cluster: &mut Cluster, holds: impl Fn(&Cluster) -> bool) {
    for _ in 0..720 {
        if holds(cluster) {
            return;
        }
        cluster.advance(cluster.now + 5000);
    }
    panic!("the condition did not hold within an hour");
}

/// Submits a job for a node type, and returns its index in the job table.
fn submit(cluster: &mut Cluster, kind: usize) -> usize {
    let job_index = cluster.jobs.len();
    cluster.life.as_mut().unwrap().submit(&mut cluster.state, kind, None);
    job_index
}

#[test]
fn a_deleted_job_does_not_affect_the_work_of_others() {
    let mut cluster = cluster(quiet());
    let first = submit(&mut cluster, 0);
    let second = submit(&mut cluster, 0);
    until(&mut cluster, |c| !c.hosts_of(second).is_empty());
    let (id, hosts) = (cluster.jobs[second].submission.clone().unwrap(), cluster.hosts_of(second).to_vec());
    let forgotten = cluster.jobs[..first].iter().position(|j| j.status.is_ended()).unwrap();
    let deleted = cluster.jobs[forgotten].submission.clone().unwrap();
    cluster.forget(&deleted);
    assert!(cluster.job(&deleted).is_none() && cluster.jobs[forgotten].is_forgotten());
    assert_eq!(cluster.jobs[second].submission.as_deref(), Some(&*id));
    assert_eq!(cluster.hosts_of(second), hosts);
    until(&mut cluster, |c| c.jobs[second].status == JobStatus::Succeeded);
    assert!(log(&cluster, second).contains("step"), "its own log");
}

fn log(cluster: &Cluster, job: usize) -> String {
    String::from_utf8(cluster.jobs[job].log.tail(None, cluster.now)).unwrap()
}

#[test]
fn a_seed_gives_the_same_events_however_often_the_cluster_advances() {
    let mut often = cluster(Life::default());
    for at in 0..400 {
        often.advance(T0 + at * 700);
    }
    let mut once = cluster(Life::default());
    often.advance(T0 + 280_000);
    once.advance(T0 + 280_000);
    assert_eq!(state_texts(&mut often), state_texts(&mut once));
    let mut other = Cluster::new(&Scenario { seed: 2, ..scenario(Life::default()) });
    other.advance(T0 + 280_000);
    assert_ne!(state_texts(&mut other), state_texts(&mut once));
}

#[test]
fn a_history_has_jobs_in_all_states_and_dead_hosts() {
    let cluster = cluster(Life { past_minutes: 600, ..Life::default() });
    let count = |s| cluster.jobs[20..].iter().filter(|j| j.status == s).count();
    for status in [JobStatus::Running, JobStatus::Succeeded, JobStatus::Failed] {
        assert!(count(status) > 0, "none is {}", status.label());
    }
    assert!(cluster.nodes.iter().filter(|n| !n.is_alive()).count() > 10);
    assert!(of_type(&cluster, "tpu_worker") >= 4, "min_workers");
    assert!(cluster.jobs.iter().filter_map(|j| j.ended).all(|at| at <= T0));
    let owned = |j: &&SimJob| j.metadata.as_ref().is_some_and(|m| m["user"].is_string());
    assert!(cluster.jobs.iter().filter(owned).count() > 50);
}

#[test]
fn a_slice_joins_host_by_host() {
    let mut cluster = cluster(quiet());
    let job = submit(&mut cluster, 1);
    until(&mut cluster, |c| !c.autoscaling().launching.is_empty());
    assert_eq!(&*cluster.autoscaling().launching[0].node_type, "tpu_slice_v4_64");
    assert_eq!(cluster.wanted[0].shape[1], ("TPU-v4-64-head".to_owned(), 1.0));
    until(&mut cluster, |c| !c.autoscaling().joining.is_empty());
    let joining = cluster.autoscaling().joining;
    let last = joining.last().unwrap();
    assert_eq!((&*last.node_type, joining.len()), ("tpu_slice_v4_64", 8));
    assert!(last.instance_id.ends_with("-tpu-w-7"), "{}", last.instance_id);
    let mut seen = vec![0];
    until(&mut cluster, |c| of_type(c, "tpu_slice_v4_64") == 1);
    let first_joined = cluster.now;
    let last_host = living(&cluster).into_iter().find(|n| n.node_type.ends_with("64")).unwrap();
    assert!(last_host.instance_id.ends_with("-w-7"), "{}", last_host.instance_id);
    while of_type(&cluster, "tpu_slice_v4_64") < 8 {
        seen.push(of_type(&cluster, "tpu_slice_v4_64"));
        assert!(cluster.hosts_of(job).is_empty() && offers(&cluster, "TPU-v4-64-head") == 0, "{seen:?}");
        cluster.advance(cluster.now + 1000);
    }
    assert_eq!(cluster.hosts_of(job).len(), 8, "at the same moment");
    seen.dedup();
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!((30_000..180_000).contains(&(cluster.now - first_joined)), "one to two minutes");
    let slice: Vec<_> = living(&cluster).into_iter().filter(|n| n.node_type.ends_with("64")).collect();
    let heads = slice.iter().filter(|n| n.resources.iter().any(|r| r.0 == "TPU-v4-64-head"));
    assert_eq!(heads.count(), 1);
    assert!(slice.iter().all(|n| n.labels.contains(&("ray.io/tpu-topology".into(), "2x4x4".into()))));
    assert!(slice.iter().all(|n| n.resources.iter().any(|r| r.0 == "CPU" && (r.1 - 120.0).abs() < 0.1)));
    until(&mut cluster, |c| c.jobs[job].status == JobStatus::Running && c.wanted.is_empty());
    until(&mut cluster, |c| c.autoscaling().joining.is_empty());
}

/// Number of living nodes with this resource.
fn offers(cluster: &Cluster, resource: &str) -> usize {
    living(cluster).iter().filter(|n| n.resources.iter().any(|(name, ..)| name == resource)).count()
}

/// The head resources that jobs wait for.
fn awaited(cluster: &Cluster) -> Vec<(String, f64)> {
    let kinds = cluster.life.as_ref().unwrap().kinds.iter().filter(|kind| !kind.waiting.is_empty());
    kinds.map(|kind| (format!("TPU-{}-head", kind.slice.pod_type), 1.0)).collect()
}

#[test]
fn no_node_has_free_what_a_job_waits_for() {
    let life = Life {
        types: vec![
            TpuType::new("tpu_worker", "v4-8", 1, 2),
            TpuType::new("tpu_slice_v4_32", "v4-32", 0, 1),
            TpuType::new("tpu_slice_v4_64", "v4-64", 0, 1),
        ],
        past_minutes: 0,
        jobs_per_hour: 60.0,
        job_minutes: 15.0,
        preemptions_per_hour: 60.0,
        ..Life::default()
    };
    let mut cluster = cluster(life);
    let (mut waits, mut joining) = (0, 0);
    for _ in 0..3600 {
        cluster.advance(cluster.now + 1000);
        for needs in awaited(&cluster) {
            let able = living(&cluster).into_iter().find(|n| n.has_free(std::slice::from_ref(&needs)));
            assert!(able.is_none(), "{needs:?} is free on {able:?}");
            waits += 1;
            let has_joined = |n: &&SimNode| n.started + 10_000 > cluster.now;
            let chips = [("TPU".to_owned(), 4.0)];
            joining += usize::from(living(&cluster).iter().any(|n| has_joined(n) && n.has_free(&chips)));
        }
        let reported: Vec<_> = cluster.wanted.iter().map(|wanted| wanted.shape[1].clone()).collect();
        assert_eq!(reported, awaited(&cluster), "the demand that is reported");
    }
    assert!(waits > 500 && joining > 50, "{waits} seconds of waiting, {joining} while hosts joined");
}

#[test]
fn what_a_waiting_run_requests_is_the_head_of_a_slice() {
    let mut cluster = cluster(Life { refusal: Some(Refusal::Stockout), refused: 1.0, ..quiet() });
    // Two slices of another type are free.
    let jobs: Vec<usize> = (0..4).map(|_| submit(&mut cluster, 1)).collect();
    cluster.advance(T0 + MINUTE);
    let waiting = jobs.iter().filter(|job| cluster.jobs[**job].status == JobStatus::Running).count();
    let head = ("TPU-v4-64-head".to_owned(), 1.0);
    assert!(waiting > 0 && cluster.tasks().iter().all(|task| task.needs == head && task.process.is_none()));
    assert_eq!((cluster.tasks().len(), cluster.groups().len()), (waiting, waiting));
    assert!(cluster.groups().iter().all(|group| group.needs == [head.clone()]));
}

#[test]
fn a_slice_that_lost_half_of_its_hosts_has_no_head_resource() {
    let halved = vec![Halved { node_type: "tpu_slice_v4_64".into(), minutes_ago: 5 }];
    let types = vec![TpuType::new("tpu_slice_v4_64", "v4-64", 0, 1)];
    let cluster = cluster(Life { types, halved, past_minutes: 10, ..quiet() });
    assert_eq!((of_type(&cluster, "tpu_slice_v4_64"), offers(&cluster, "TPU-v4-64-head")), (4, 0));
}

#[test]
fn a_job_gets_the_slice_that_a_person_added() {
    let life = Life {
        refusal: Some(Refusal::Stockout),
        refused: 1.0,
        infeasible: vec!["v4-16".into()],
        job_minutes: 600.0,
        ..quiet()
    };
    let mut cluster = cluster(life);
    let infeasible = cluster.jobs.len() - 1;
    let refused = submit(&mut cluster, 1);
    for (job, pod_type, hosts) in [(refused, "v4-64", 8), (infeasible, "v4-16", 2)] {
        until(&mut cluster, |c| awaited(c).iter().any(|(name, _)| name.contains(pod_type)));
        let (kind, now) = (slice_kind("by_hand", pod_type, "z"), cluster.now);
        cluster.by_hand.add("q", "added", kind, json!({}), now, false);
        until(&mut cluster, |c| c.hosts_of(job).len() == hosts);
        assert_eq!(cluster.jobs[job].status, JobStatus::Running);
        assert!(!awaited(&cluster).iter().any(|(name, _)| name.contains(pod_type)));
        let listed = cluster.tpu_vms().into_iter().filter(|vm| vm.name == "added").count();
        assert_eq!(listed, 1, "not twice");
        let now = cluster.now;
        assert!(cluster.by_hand.delete("added", now));
        until(&mut cluster, |c| c.hosts_of(job).is_empty());
        assert_eq!(of_type(&cluster, "by_hand"), 0);
        assert!(cluster.tpu_vms().iter().all(|vm| vm.name != "added"), "not one of the autoscaler's");
    }
}

/// Submits a job that is not one of the activity, and returns its index in the job table.
fn submit_other(cluster: &mut Cluster, resources: Value) -> usize {
    let n = cluster.jobs.len();
    let mut job = SimJob::invent(&mut Random::new(1), n, cluster.now, JobStatus::Pending, Log::none());
    (job.queued, job.submission) = (true, Some(format!("other-{n}")));
    job.requested = RequestedResources { resources: Some(resources), ..RequestedResources::default() };
    assert!(cluster.add(job));
    n
}

#[test]
fn other_jobs_take_slices_from_the_activity_and_give_them_back() {
    let mut cluster = cluster(quiet());
    let free = |c: &Cluster, kind: usize| c.life.as_ref().unwrap().kinds[kind].free.len();
    assert_eq!(free(&cluster, 0), 2);
    let job = submit_other(&mut cluster, json!({"TPU": 4.0}));
    until(&mut cluster, |c| c.jobs[job].status == JobStatus::Running);
    let busy = living(&cluster).into_iter().find(|n| n.idle_since.is_none()).unwrap();
    assert_eq!(cluster.jobs[job].driver_node, Some(busy.id));
    assert!(!busy.has_free(&[("TPU-v4-8-head".to_owned(), 1.0)]), "its head is of no use without its chips");
    assert_eq!(free(&cluster, 0), 1);
    let id = cluster.jobs[job].submission.clone().unwrap();
    assert!(cluster.stop(&id));
    until(&mut cluster, |c| free(c, 0) == 2);
    assert!(living(&cluster).iter().all(|n| n.idle_since.is_some()));
    // The autoscaler launches what no node has.
    let job = submit_other(&mut cluster, json!({"TPU-v4-64-head": 1.0}));
    cluster.advance(cluster.now + 1000);
    assert_eq!(cluster.demand()[0].shape, [("TPU-v4-64-head".to_owned(), 1.0)]);
    assert_eq!(&*cluster.demand()[0].node_type, "tpu_slice_v4_64");
    until(&mut cluster, |c| c.jobs[job].status == JobStatus::Running);
    let host = cluster.jobs[job].driver_node.unwrap();
    assert!(cluster.demand().is_empty() && of_type(&cluster, "tpu_slice_v4_64") == 8);
    assert_eq!(
        cluster.nodes.iter().find(|n| n.id == host).map(|n| n.instance_id.ends_with("-w-0")),
        Some(true)
    );
    cluster.advance(cluster.now + 10 * MINUTE);
    assert_eq!(of_type(&cluster, "tpu_slice_v4_64"), 8, "it is not idle");
}

/// The living nodes that have the head of a v4-64 free.
fn free_heads(cluster: &Cluster) -> usize {
    let head = [("TPU-v4-64-head".to_owned(), 1.0)];
    living(cluster).iter().filter(|n| n.has_free(&head)).count()
}

#[test]
fn a_slice_whose_chips_were_taken_while_it_joined_is_not_given_to_a_run() {
    let types = vec![TpuType::new("tpu_slice_v4_64", "v4-64", 0, 0)];
    let mut cluster = cluster(Life { types, job_minutes: 600.0, ..quiet() });
    let free = |c: &Cluster| c.life.as_ref().unwrap().kinds[0].free.len();
    let run = submit(&mut cluster, 0);
    until(&mut cluster, |c| of_type(c, "tpu_slice_v4_64") > 0);
    let job = submit_other(&mut cluster, json!({"TPU": 4.0}));
    cluster.advance(cluster.now + 1000);
    let host = cluster.jobs[job].driver_node.unwrap();
    assert!(of_type(&cluster, "tpu_slice_v4_64") < 8, "the slice is joining");
    until(&mut cluster, |c| offers(c, "TPU-v4-64-head") == 1);
    assert!(cluster.hosts_of(run).is_empty() && free(&cluster) == 0);
    assert_eq!((awaited(&cluster).len(), free_heads(&cluster)), (1, 0));
    // The run gets another slice, and the first one is free once the job has ended.
    until(&mut cluster, |c| !c.hosts_of(run).is_empty());
    assert!(!cluster.hosts_of(run).contains(&host) && free(&cluster) == 0);
    let id = cluster.jobs[job].submission.clone().unwrap();
    assert!(cluster.stop(&id));
    until(&mut cluster, |c| free(c) == 1);
    assert_eq!(free_heads(&cluster), 1);
}

/// A cluster with a run that waits, because Google creates no slices, and the run's index in the job table.
fn with_a_waiting_run() -> (Cluster, usize) {
    let types = vec![TpuType::new("tpu_slice_v4_64", "v4-64", 0, 0)];
    let refusal = Some(Refusal::Stockout);
    let mut cluster = cluster(Life { types, refusal, refused: 1.0, job_minutes: 600.0, ..quiet() });
    let run = submit(&mut cluster, 0);
    until(&mut cluster, |c| awaited(c).len() == 1);
    let (kind, now) = (slice_kind("by_hand", "v4-64", "z"), cluster.now);
    cluster.by_hand.add("q", "added", kind, json!({}), now, false);
    (cluster, run)
}

#[test]
fn the_same_holds_for_a_slice_that_a_person_adds() {
    let (mut cluster, run) = with_a_waiting_run();
    until(&mut cluster, |c| of_type(c, "by_hand") > 0);
    let job = submit_other(&mut cluster, json!({"TPU": 4.0}));
    cluster.advance(cluster.now + 1000);
    assert!(cluster.jobs[job].driver_node.is_some() && of_type(&cluster, "by_hand") < 8);
    until(&mut cluster, |c| offers(c, "TPU-v4-64-head") == 1);
    cluster.advance(cluster.now + MINUTE);
    assert!(cluster.hosts_of(run).is_empty());
    assert_eq!((awaited(&cluster).len(), free_heads(&cluster)), (1, 0));
    let id = cluster.jobs[job].submission.clone().unwrap();
    assert!(cluster.stop(&id));
    until(&mut cluster, |c| c.hosts_of(run).len() == 8);
}

#[test]
fn the_other_hosts_of_an_added_slice_that_lost_one_are_idle() {
    let (mut cluster, run) = with_a_waiting_run();
    until(&mut cluster, |c| c.hosts_of(run).len() == 8);
    cluster.advance(cluster.now + MINUTE);
    let host = cluster.hosts_of(run)[3];
    assert!(cluster.kill(host));
    cluster.advance(cluster.now + 1000);
    assert!(cluster.hosts_of(run).is_empty());
    let left = living(&cluster).into_iter().filter(|n| &*n.node_type == "by_hand");
    assert_eq!(left.map(|n| n.idle_since.is_some()).collect::<Vec<_>>(), [true; 7]);
    assert_eq!(free_heads(&cluster), 0, "no run can use it");
}

#[test]
fn a_job_waits_trains_and_finishes_and_its_slice_is_terminated() {
    let mut cluster = cluster(Life { job_minutes: 10.0, ..quiet() });
    let job = submit(&mut cluster, 1);
    assert_eq!(cluster.jobs[job].status, JobStatus::Pending);
    assert!(cluster.jobs[job].submission.as_deref().unwrap().starts_with("ray-run-"));
    until(&mut cluster, |c| log(c, job).contains("INFO levanter.callbacks step 1"));
    let busy = living(&cluster).iter().filter(|n| n.idle_since.is_none()).count();
    assert_eq!(busy, 8, "all hosts of the slice");
    until(&mut cluster, |c| c.jobs[job].status.is_ended());
    assert_eq!(cluster.jobs[job].status, JobStatus::Succeeded);
    let at_the_end = log(&cluster, job);
    assert!(at_the_end.contains("Running entrypoint for job ray-run-"));
    until(&mut cluster, |c| of_type(c, "tpu_slice_v4_64") == 0);
    assert_eq!(log(&cluster, job), at_the_end, "an ended job logs nothing");
    let end = cluster.nodes.iter().rev().find_map(|n| n.end).unwrap();
    assert_eq!(end.message, "Terminated by autoscaler.");
    assert_eq!(of_type(&cluster, "tpu_worker"), 2, "min_workers stay");
}

#[test]
fn a_job_that_fails_leaves_a_traceback() {
    let mut cluster = cluster(Life { failing: 1.0, job_minutes: 5.0, ..quiet() });
    let job = submit(&mut cluster, 0);
    until(&mut cluster, |c| c.jobs[job].status == JobStatus::Failed);
    assert!(log(&cluster, job).contains("Traceback (most recent call last):"));
    let message = cluster.jobs[job].message.clone().unwrap();
    assert!(message.contains("exit code 1") && message.contains("Traceback"), "{message}");
}

#[test]
fn a_preempted_slice_dies_completely_and_its_job_continues_on_another() {
    let mut cluster = cluster(Life { job_minutes: 600.0, ..quiet() });
    let jobs: Vec<usize> = (0..4).map(|_| submit(&mut cluster, 1)).collect();
    until(&mut cluster, |c| of_type(c, "tpu_slice_v4_64") == 32 && c.wanted.is_empty());
    cluster.advance(cluster.now + 10 * MINUTE);
    let life = cluster.life.as_mut().unwrap();
    let taken: Vec<u64> = life.slices.iter().filter(|(_, s)| s.kind == 1).map(|(id, _)| *id).collect();
    for id in taken {
        life.lose(&mut cluster.state, id);
    }
    assert_eq!(of_type(&cluster, "tpu_slice_v4_64"), 0);
    let dead = cluster.nodes.iter().rev().find(|n| !n.is_alive()).unwrap();
    let message = "Unexpected termination: health check failed due to missing too many heartbeats";
    assert_eq!(dead.state_message().as_deref(), Some(message));
    let waiting: Vec<usize> =
        jobs.iter().copied().filter(|j| cluster.jobs[*j].status == JobStatus::Running).collect();
    assert!(!waiting.is_empty());
    until(&mut cluster, |c| c.wanted.iter().map(|w| w.count).sum::<i64>() == waiting.len() as i64);
    until(&mut cluster, |c| of_type(c, "tpu_slice_v4_64") == waiting.len() * 8 && c.wanted.is_empty());
    cluster.advance(cluster.now + MINUTE);
    let text = log(&cluster, waiting[0]);
    assert!(text.contains("was preempted; ") && text.contains("Saved checkpoint at step 500 to gs://"));
    assert!(text.lines().last().unwrap().contains("step"), "training resumed");
}

#[test]
fn a_slice_dies_with_any_of_its_hosts() {
    let mut cluster = cluster(Life { job_minutes: 600.0, ..quiet() });
    let job = submit(&mut cluster, 1);
    until(&mut cluster, |c| of_type(c, "tpu_slice_v4_64") == 8 && !c.hosts_of(job).is_empty());
    let host = cluster.hosts_of(job)[3];
    assert!(cluster.kill(host));
    assert_eq!(of_type(&cluster, "tpu_slice_v4_64"), 0);
    assert!(cluster.hosts_of(job).is_empty());
    assert!(!cluster.kill(host), "already dead");
}

#[test]
fn jobs_of_the_history_have_the_metadata_and_logs_of_simulated_jobs() {
    let cluster = cluster(quiet());
    for job in cluster.jobs.iter().filter(|j| j.submission.is_some()) {
        assert!(job.metadata.as_ref().unwrap()["user"].is_string());
        let text = String::from_utf8(job.log.tail(None, T0)).unwrap();
        assert!(text.contains("Running entrypoint for job ray-run-"), "{text}");
        assert_eq!(text.contains("Traceback"), job.status == JobStatus::Failed);
        assert!(text.contains("INFO levanter.callbacks step 0"), "{text}");
    }
}

#[test]
fn slices_are_preempted_at_random() {
    let mut cluster = cluster(Life { preemptions_per_hour: 30.0, ..quiet() });
    cluster.advance(T0 + 60 * MINUTE);
    let dead = cluster.nodes.iter().filter(|n| !n.is_alive()).count() - 2;
    assert!((10..60).contains(&dead), "{dead} in an hour");
    assert!(cluster.nodes.len() < 100);
}

#[test]
fn with_a_stuck_autoscaler_only_the_head_is_left() {
    for version in [AutoscalerVersion::V1, AutoscalerVersion::V2] {
        let life = Life { stuck: true, jobs_per_hour: 60.0, ..Life::default() };
        let mut cluster = Cluster::new(&Scenario { autoscaler: version, ..scenario(life) });
        let stuck_at = cluster.monitor.at;
        cluster.advance(T0 + 10 * MINUTE);
        assert_eq!(living(&cluster).len(), 1, "only the head");
        assert_eq!(cluster.monitor.at, stuck_at, "the report's time");
        assert!(!cluster.wanted.is_empty());
        assert!(cluster.autoscaling().launching.is_empty() && cluster.autoscaling().joining.is_empty());
        let log = String::from_utf8(cluster.files["monitor.log"].tail(Some(9), cluster.now)).unwrap();
        assert!(log.contains("HttpError 404 when requesting"), "{log}");
        let later = String::from_utf8(cluster.files["monitor.log"].tail(None, cluster.now)).unwrap();
        assert!(later.matches("HttpError 404").count() > 400, "every five seconds for 35 minutes");
    }
}

#[test]
fn a_stuck_autoscaler_reports_no_later_demand_and_writes_nothing_to_the_logs_of_drivers() {
    let life = Life { stuck: true, jobs_per_hour: 60.0, ..Life::default() };
    let mut cluster = Cluster::new(&Scenario { autoscaler: AutoscalerVersion::V1, ..scenario(life) });
    let count = |all: &[Wanted]| all.iter().map(|wanted| wanted.count).sum::<i64>();
    let reported = cluster.reported_demand();
    assert!(!reported.is_empty() && count(&reported) < count(&cluster.demand()), "{reported:?}");
    let lines = |c: &Cluster| -> Vec<(i64, usize, bool)> {
        let running = c.jobs.iter().enumerate().filter(|(_, job)| job.status == JobStatus::Running);
        let texts = running.map(|(index, job)| (job.started, log(c, index)));
        texts
            .map(|(at, text)| (at, text.matches("(autoscaler +").count(), text.contains("(raylet)")))
            .collect()
    };
    let (stuck_at, before) = (cluster.monitor.at, lines(&cluster));
    assert!(before.iter().any(|(at, count, waits)| *at > stuck_at && *count == 0 && *waits), "{before:?}");
    assert!(before.iter().all(|(at, count, _)| *at <= stuck_at || *count == 0), "{before:?}");
    cluster.advance(T0 + 10 * MINUTE);
    assert_eq!(format!("{:?}", cluster.reported_demand()), format!("{reported:?}"));
    for one in before {
        let now = lines(&cluster).into_iter().find(|(at, ..)| *at == one.0);
        assert!(now.is_none_or(|now| now.1 == one.1), "{one:?} {now:?}");
    }
}

/// Checks that the driver's log names the process and the address of the first worker of the run.
fn check_first_worker(cluster: &Cluster, job: usize) {
    let host = cluster.hosts_of(job)[0];
    let ip = &cluster.nodes.iter().find(|node| node.id == host).unwrap().ip;
    let tasks = cluster.tasks().into_iter().filter(|task| task.state == "RUNNING");
    let pid = tasks.filter_map(|task| task.process).find(|process| process.node == host).unwrap().pid;
    let text = log(cluster, job);
    let line = text.lines().rfind(|line| line.contains("train_lm_task")).unwrap();
    assert!(line.contains(&format!("(train_lm_task pid={pid}, ip={ip})")), "{pid} {ip}: {line}");
}

#[test]
fn the_log_of_a_driver_names_its_first_worker_and_ends_with_the_last_step() {
    let mut cluster = cluster(Life { job_minutes: 10.0, ..quiet() });
    let job = cluster.jobs.len();
    let life = cluster.life.as_mut().unwrap();
    life.submit(&mut cluster.state, 1, Some(false));
    // A run of such a cluster does not give up when it loses its slice.
    life.life.stuck = true;
    until(&mut cluster, |c| log(c, job).contains("INFO levanter.callbacks step 1/"));
    check_first_worker(&cluster, job);
    let host = cluster.hosts_of(job)[3];
    assert!(cluster.kill(host));
    until(&mut cluster, |c| {
        c.hosts_of(job).len() == 8 && log(c, job).lines().last().unwrap().contains("pid=")
    });
    check_first_worker(&cluster, job);
    until(&mut cluster, |c| c.jobs[job].status.is_ended());
    assert_eq!(cluster.jobs[job].status, JobStatus::Succeeded);
    let text = log(&cluster, job);
    let (_, config) = text.split_once("num_train_steps: ").unwrap();
    let total: u64 = config.lines().next().unwrap().parse().unwrap();
    let steps: Vec<&str> =
        text.lines().filter(|line| line.contains("INFO levanter.callbacks step ")).collect();
    assert!(steps.last().unwrap().contains(&format!(" step {total}/{total} ")), "{text}");
    assert!(steps[..steps.len() - 1].iter().all(|line| !line.contains(&format!(" step {total}/"))), "{text}");
    assert!(text.contains("Finished training"), "{text}");
}

#[test]
fn succeeded_jobs_of_the_history_end_with_their_last_step() {
    let cluster = cluster(quiet());
    let succeeded = |job: &&SimJob| job.submission.is_some() && job.status == JobStatus::Succeeded;
    let texts = cluster.jobs.iter().filter(succeeded).map(|job| job.log.tail(Some(4), T0));
    let texts: Vec<String> = texts.map(|text| String::from_utf8(text).unwrap()).collect();
    assert!(!texts.is_empty());
    for text in texts {
        let (_, step) = text.split_once("INFO levanter.callbacks step ").unwrap();
        let (done, total) = step.split_whitespace().next().unwrap().split_once('/').unwrap();
        assert!(done == total && text.contains("Finished training"), "{text}");
    }
}

#[test]
fn a_host_is_listed_as_pending_until_it_is_alive() {
    let mut cluster = cluster(quiet());
    submit(&mut cluster, 1);
    until(&mut cluster, |c| !c.autoscaling().launching.is_empty());
    while of_type(&cluster, "tpu_slice_v4_64") < 8 {
        let scaling = cluster.autoscaling();
        let launching: i32 = scaling.launching.iter().map(|launching| launching.count).sum();
        let listed = 8 * launching.unsigned_abs() as usize + scaling.joining.len();
        assert!(of_type(&cluster, "tpu_slice_v4_64") + listed >= 8, "{scaling:?}");
        assert!(cluster.now < T0 + 60 * MINUTE, "{scaling:?}");
        cluster.advance(cluster.now + 1000);
    }
}

#[test]
fn an_idle_cluster_has_no_new_jobs() {
    let mut cluster = cluster(Life { idle: true, ..Life::default() });
    cluster.advance(T0 + 20 * MINUTE);
    assert_eq!(cluster.jobs.len(), 20, "the history");
    assert!(living(&cluster).iter().all(|n| n.idle_since.is_some()));
    assert_eq!(of_type(&cluster, "tpu_worker"), 4);
}

#[test]
fn a_failed_launch_is_reported_with_its_reason_and_retried() {
    for (refusal, message) in
        [(Refusal::Stockout, "no more capacity in the zone"), (Refusal::Quota, "has been exceeded")]
    {
        let life = Life { refusal: Some(refusal), refused: 1.0, ..quiet() };
        let mut cluster = cluster(life);
        submit(&mut cluster, 1);
        until(&mut cluster, |c| !c.autoscaling().refused.is_empty());
        let first = cluster.autoscaling().refused[0].clone();
        assert!(first.reason.contains(message), "{}", first.reason);
        until(&mut cluster, |c| c.autoscaling().refused.iter().any(|r| r.at > first.at));
        assert_eq!(of_type(&cluster, "tpu_slice_v4_64"), 0);
        assert_eq!(cluster.wanted.len(), 1);
    }
}

#[test]
fn an_accelerator_type_that_no_node_type_offers_is_infeasible() {
    let mut cluster = cluster(Life { infeasible: vec!["v4-4096".into()], ..quiet() });
    cluster.advance(T0 + 10 * MINUTE);
    assert!(cluster.wanted.iter().any(|w| w.infeasible && w.shape[1].0 == "TPU-v4-4096-head"));
    assert!(cluster.autoscaling().launching.is_empty());
    let job = cluster.jobs.last().unwrap();
    assert_eq!(job.status, JobStatus::Pending);
    assert_eq!(job.requested.resources.as_ref().unwrap()["TPU-v4-4096-head"], 1.0);
}

#[test]
fn a_stopped_job_gives_its_slice_back() {
    let mut cluster = cluster(Life { job_minutes: 600.0, ..quiet() });
    let job = submit(&mut cluster, 0);
    until(&mut cluster, |c| living(c).iter().any(|n| n.idle_since.is_none()));
    let id = cluster.jobs[job].submission.clone().unwrap();
    assert!(cluster.stop(&id));
    cluster.advance(cluster.now + 2000);
    assert_eq!(cluster.jobs[job].status, JobStatus::Stopped);
    assert!(living(&cluster).iter().all(|n| n.idle_since.is_some()));
}

#[test]
fn the_cost_of_a_large_cluster_depends_on_its_events() {
    let types = vec![TpuType::new("tpu_slice_v4_256", "v4-256", 60, 62)];
    let life = Life { types, past_minutes: 0, ..Life::default() };
    let mut cluster = Cluster::new(&Scenario { jobs: 10_000, ..scenario(life) });
    assert!(living(&cluster).len() > 1900);
    let before = cluster.life.as_ref().unwrap().serial;
    cluster.advance(T0 + 10 * MINUTE);
    let events = cluster.life.as_ref().unwrap().serial - before;
    assert!(events < 1500, "{events} events in ten minutes of {} nodes", cluster.nodes.len());
}

#[test]
fn a_life_is_read_from_yaml() {
    let text =
        "stuck: true\nrefusal: stockout\ntypes:\n- {name: tpu_worker, accelerator_type: v5litepod-16}\n";
    let life: Life = serde_yaml::from_str(text).unwrap();
    assert!(life.stuck);
    assert_eq!(life.types, [TpuType::new("tpu_worker", "v5litepod-16", 0, 0)]);
    assert_eq!(life.refusal, Some(Refusal::Stockout));
    assert!(serde_yaml::from_str::<Life>("stucked: true").is_err());
}
