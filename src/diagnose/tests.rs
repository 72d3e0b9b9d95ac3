//! Tests of the diagnosis of a cluster, with small snapshots written by hand.

use super::*;
use crate::model::{
    Autoscaler, AutoscalerVersion, Death, DeathReason, Demand, DemandKind, LaunchFailure, Node, NodeId,
    NodeState, NodeTypeCount, PendingNode, Phase, ProblemKind, Resource, Resources, Text,
};
use crate::model::{MissingPart, Problem, SnapshotPart, Timestamp};
use std::sync::Arc;
use std::time::Duration;

fn at(secs: u64) -> Timestamp {
    Timestamp::from_millis(1_795_000_000_000).plus(Duration::from_secs(secs))
}

fn worker(n: u8, state: NodeState) -> Node {
    let resource = |name: &str, total| Resource { name: name.into(), total, used: Some(0.0) };
    Node {
        id: NodeId::from_bytes(&[n; 28]).unwrap(),
        name: format!("worker-{n}").into(),
        address: format!("10.0.0.{n}").into(),
        hostname: Text::default(),
        node_type: "tpu_worker".into(),
        instance_id: Text::default(),
        is_head: false,
        state,
        started: Some(at(0)),
        ended: None,
        death: None,
        idle_ms: None,
        resources: Resources(vec![resource("CPU", 120.0), resource("TPU", 4.0)]),
        labels: Arc::default(),
    }
}

fn tpus(count: u64, kind: DemandKind, infeasible: bool) -> Demand {
    Demand { shape: vec![("TPU".into(), 4.0)], count, kind, infeasible }
}

fn report(version: AutoscalerVersion, secs: u64) -> Autoscaler {
    let workers = NodeTypeCount {
        name: "tpu_worker".into(),
        min: Some(0),
        max: Some(8),
        active: 1,
        ..NodeTypeCount::default()
    };
    Autoscaler { version, reported: Some(at(secs)), types: vec![workers], ..Autoscaler::default() }
}

fn state(secs: u64, autoscaler: Autoscaler) -> Snapshot {
    let nodes = Arc::new(vec![worker(1, NodeState::Alive)]);
    Snapshot { taken: at(secs), nodes, autoscaler: Arc::new(autoscaler), ..Snapshot::default() }
}

/// The findings after a state every 15 s up to `until`, created by `make`.
fn watched(until: u64, make: impl Fn(u64) -> Snapshot) -> Vec<Finding> {
    let mut history = History::default();
    for secs in (0..=until).step_by(15) {
        history.record(&make(secs));
    }
    findings(None, Some(&make(until)), &history, AtGoogle::default())
}

fn kinds(found: &[Finding]) -> Vec<FindingKind> {
    found.iter().map(|f| f.kind).collect()
}

fn wanting(version: AutoscalerVersion) -> impl Fn(u64) -> Snapshot {
    move |secs| {
        let demands = vec![tpus(37, DemandKind::Task, false)];
        state(secs, Autoscaler { demands, ..report(version, secs) })
    }
}

#[test]
fn demand_without_launches_is_stuck_only_after_a_while() {
    use FindingKind::{Stuck, Unmet};
    for version in [AutoscalerVersion::V1, AutoscalerVersion::V2] {
        assert_eq!(kinds(&watched(0, wanting(version))), [Unmet], "a single state proves nothing");
        assert_eq!(kinds(&watched(165, wanting(version))), [Unmet]);
        let found = watched(165, wanting(version)).remove(0);
        assert_eq!((found.age(at(59)), found.age(at(60))), (None, Some(Duration::from_secs(60))));
        let found = watched(180, wanting(version));
        assert_eq!((kinds(&found), found[0].since), (vec![Stuck], Some(at(0))));
        assert!(found[0].short.contains("37 demands unmet") && !found[0].hint.is_empty(), "{found:?}");
    }
}

#[test]
fn without_an_autoscaler_report_nothing_is_stuck() {
    let unattended = |max| {
        let found = watched(900, move |secs| {
            let mut state = wanting(AutoscalerVersion::None)(secs);
            Arc::make_mut(&mut state.autoscaler).types[0].max = Some(max);
            state
        });
        (found[0].kind, found[0].severity, found[0].short.clone())
    };
    let words = "37 demands unmet, no autoscaler is reporting".to_owned();
    assert_eq!(unattended(8), (FindingKind::Unmet, Severity::Warn, words.clone()));
    assert_eq!(unattended(0), (FindingKind::Unmet, Severity::Info, words));
}

#[test]
fn a_missing_minimum_is_stuck_too_and_named() {
    let found = watched(300, |secs| {
        let mut report = report(AutoscalerVersion::V1, secs);
        (report.types[0].min, report.types[0].active) = (Some(4), 4);
        let mut state = state(secs, report);
        let mut dead = worker(1, NodeState::Dead);
        dead.ended = Some(at(0));
        dead.death = Some(Death { reason: DeathReason::Expected, message: Text::default() });
        // v1 still counts the dead.
        state.nodes = Arc::new(vec![dead]);
        state
    });
    assert_eq!(kinds(&found), [FindingKind::Stuck]);
    assert_eq!(found[0].short, "tpu_worker: 0 of min 4");
}

#[test]
fn a_cluster_that_makes_progress_is_not_stuck() {
    let moving = |change: fn(&mut Snapshot, u64)| {
        let found = watched(600, |secs| {
            let mut state = wanting(AutoscalerVersion::V2)(secs);
            change(&mut state, secs);
            state
        });
        assert!(!kinds(&found).contains(&FindingKind::Stuck), "{found:?}");
        found
    };
    let scaling = moving(|s, _| Arc::make_mut(&mut s.autoscaler).types[0].launching = 2);
    assert_eq!(
        (kinds(&scaling), scaling[0].short.as_str()),
        (vec![FindingKind::Scaling], "tpu_worker 1 of 3 nodes up")
    );
    moving(|s, secs| {
        // A node joins every minute.
        let mut young = worker(2, NodeState::Alive);
        young.started = Some(at(secs / 60 * 60));
        Arc::make_mut(&mut s.nodes).push(young);
    });
    let full = moving(|s, _| Arc::make_mut(&mut s.autoscaler).types[0].max = Some(1));
    assert_eq!((full[0].kind, full[0].severity), (FindingKind::Unmet, Severity::Info));
}

#[test]
fn calls_of_request_resources_are_unmet_only_as_far_as_the_nodes_lack_room() {
    let called = |count| {
        watched(180, move |secs| {
            let demands = vec![tpus(count, DemandKind::Request, false)];
            state(secs, Autoscaler { demands, ..report(AutoscalerVersion::V2, secs) })
        })
    };
    let found = called(1);
    assert_eq!(kinds(&found), [FindingKind::Idle], "the worker has the chips");
    assert_eq!(found[0].short, "1 worker unused, kept by request_resources()");
    let found = called(3);
    assert_eq!((kinds(&found), found[0].short.as_str()), (vec![FindingKind::Stuck], "2 demands unmet"));
}

#[test]
fn any_host_of_a_slice_shows_that_its_type_provides_the_demand() {
    let found = watched(180, |secs| {
        let head = || Text::from("TPU-v4-32-head");
        let mut state = wanting(AutoscalerVersion::V1)(secs);
        Arc::make_mut(&mut state.autoscaler).demands[0].shape = vec![(head(), 1.0)];
        let mut first = worker(2, NodeState::Alive);
        first.resources.0.push(Resource { name: head(), total: 1.0, used: Some(1.0) });
        Arc::make_mut(&mut state.nodes).push(first);
        state
    });
    assert_eq!(kinds(&found), [FindingKind::Stuck]);
}

#[test]
fn the_maximum_counts_slices_without_the_head_and_the_cluster_has_one_of_its_own() {
    use FindingKind::{Stuck, Unmet};
    let with = |change: fn(&mut Autoscaler)| {
        let found = watched(180, move |secs| {
            // One slice of four hosts.
            let mut state = sliced(secs, &[NodeState::Alive; 4]);
            let mut head = worker(9, NodeState::Alive);
            (head.is_head, head.node_type) = (true, "head".into());
            Arc::make_mut(&mut state.nodes).push(head);
            let report = Arc::make_mut(&mut state.autoscaler);
            report.types[0].active = 4;
            let mut of_head = report.types[0].clone();
            (of_head.name, of_head.active, of_head.max) = ("head".into(), 1, Some(0));
            report.types.push(of_head);
            report.demands = vec![tpus(1, DemandKind::Task, false)];
            change(report);
            state
        });
        found[0].kind
    };
    assert_eq!(with(|report| report.types[0].max = Some(2)), Stuck);
    assert_eq!(with(|report| report.types[0].max = Some(1)), Unmet);
    assert_eq!(with(|report| report.max_workers = Some(2)), Stuck);
    assert_eq!(with(|report| report.max_workers = Some(1)), Unmet);
}

/// Two slices of four hosts each, with a minimum of three slices.
fn two_slices(secs: u64) -> Snapshot {
    let host = |n: u8| {
        let name = if n < 4 { "slice-a" } else { "slice-b" };
        let labels = [("ray.io/tpu-slice-name", name), ("ray.io/tpu-topology", "2x2x4")];
        Node { labels: labels.map(|(k, v)| (k.into(), v.into())).into(), ..worker(n, NodeState::Alive) }
    };
    let mut report = report(AutoscalerVersion::V2, secs);
    // v2 counts hosts.
    (report.types[0].min, report.types[0].active) = (Some(3), 8);
    Snapshot { nodes: Arc::new((0..8).map(host).collect()), ..state(secs, report) }
}

#[test]
fn workers_of_a_type_are_slices_in_every_finding() {
    let found = watched(180, two_slices);
    assert_eq!((found[0].kind, found[0].short.as_str()), (FindingKind::Stuck, "tpu_worker: 2 of min 3"));
    let name = Text::from("tpu_worker");
    assert_eq!(below_minimum(&two_slices(0)), [(&name, 2, 3)]);
    let whole = "tpu_worker 2 of 3 slices up";
    assert_eq!(scaling_up(8, 0, 1), whole);
    assert_eq!(scaling_up(8, 1, 0), whole, "not the hosts of a slice");
    let unclear = "tpu_worker 2 slices up, 4 pending";
    assert_eq!(scaling_up(8, 4, 0), unclear, "a slice whose hosts are listed, or four slices");
}

/// The finding about pending nodes if this many hosts of [`two_slices`] are alive.
fn scaling_up(alive: usize, pending: u32, launching: u32) -> String {
    let found = watched(180, |secs| {
        let mut state = two_slices(secs);
        Arc::make_mut(&mut state.nodes).truncate(alive);
        let workers = &mut Arc::make_mut(&mut state.autoscaler).types[0];
        (workers.pending, workers.launching) = (pending, launching);
        state
    });
    found.into_iter().find(|f| f.kind == FindingKind::Scaling).unwrap().short
}

#[test]
fn hosts_are_counted_while_a_slice_is_joining() {
    assert_eq!(scaling_up(5, 3, 0), "tpu_worker 5 of 8 hosts up", "one slice, and one host of the next");
    assert_eq!(scaling_up(1, 7, 0), "tpu_worker 1 of 8 hosts up");
    assert_eq!(
        scaling_up(7, 2, 0),
        "tpu_worker 7 hosts up, 2 pending",
        "a host is lost, and two slices come"
    );
    assert_eq!(scaling_up(5, 3, 1), "tpu_worker 5 of 12 hosts up", "a requested slice has four hosts");
    assert_eq!(scaling_up(0, 8, 0), "tpu_worker 0 of 8 nodes up", "no host shows how large a slice is");
}

#[test]
fn a_cluster_at_its_own_maximum_is_not_said_to_be_out_of_node_types() {
    let full = |limit| {
        let found = watched(180, move |secs| {
            let mut state = wanting(AutoscalerVersion::V2)(secs);
            let of = |n: u8| if n < 5 { "a" } else { "b" };
            let workers = (0..8).map(|n| Node { node_type: of(n).into(), ..worker(n, NodeState::Alive) });
            state.nodes = Arc::new(workers.collect());
            let report = Arc::make_mut(&mut state.autoscaler);
            let count = |name: &str, active, max| NodeTypeCount {
                name: name.into(),
                max: Some(max),
                active,
                ..NodeTypeCount::default()
            };
            report.max_workers = Some(limit);
            report.types = if limit == 8 {
                vec![count("a", 5, 8), count("b", 3, 8)]
            } else {
                vec![count("a", 5, 5), count("b", 3, 3)]
            };
            state
        });
        assert_eq!((found[0].kind, found[0].severity), (FindingKind::Unmet, Severity::Info));
        found[0].short.clone()
    };
    assert_eq!(full(8), "37 demands unmet, the cluster is at its maximum of 8 workers");
    assert_eq!(full(9), "37 demands unmet, matching node types are at their maximum");
}

#[test]
fn nodes_that_were_never_read_are_no_evidence_that_the_autoscaler_is_stuck() {
    let unread = |kind: DemandKind| {
        watched(600, move |secs| {
            let demands = vec![tpus(3, kind.clone(), false)];
            let mut state = state(secs, Autoscaler { demands, ..report(AutoscalerVersion::V2, secs) });
            Arc::make_mut(&mut state.autoscaler).types[0].min = Some(4);
            let missing = vec![MissingPart { part: SnapshotPart::Nodes, why: "timed out".to_owned() }];
            Snapshot { nodes: Arc::default(), missing, ..state }
        })
    };
    assert_eq!(kinds(&unread(DemandKind::Request)), [FindingKind::PartialData]);
    let found = unread(DemandKind::Task);
    assert_eq!(kinds(&found), [FindingKind::Unmet, FindingKind::PartialData]);
    assert_eq!(found[0].long, "3 demands unmet; the nodes could not be read");
}

#[test]
fn a_clock_that_is_set_back_a_little_keeps_the_history() {
    let make = wanting(AutoscalerVersion::V2);
    let mut history = History::default();
    for secs in (0..=3600).step_by(15) {
        history.record(&make(secs));
    }
    let last = Snapshot { taken: at(3600).minus(Duration::from_millis(50)), ..make(3600) };
    history.record(&last);
    let found = findings(None, Some(&last), &history, AtGoogle::default());
    assert_eq!((found[0].kind, found[0].since), (FindingKind::Stuck, Some(at(0))));
}

#[test]
fn a_clock_that_is_set_back_resets_the_history() {
    let make = wanting(AutoscalerVersion::V2);
    let mut history = History::default();
    for secs in (3600..=3615).step_by(15).chain((0..=180).step_by(15)) {
        history.record(&make(secs));
    }
    let found = findings(None, Some(&make(180)), &history, AtGoogle::default());
    assert_eq!((found[0].kind, found[0].since), (FindingKind::Stuck, Some(at(0))));
}

#[test]
fn a_gap_resets_the_history() {
    let mut history = History::default();
    for secs in [0, 15, 3600, 3615] {
        history.record(&wanting(AutoscalerVersion::V2)(secs));
    }
    let found = findings(None, Some(&wanting(AutoscalerVersion::V2)(3615)), &history, AtGoogle::default());
    assert_eq!((found[0].kind, found[0].since), (FindingKind::Unmet, Some(at(3600))));
}

#[test]
fn v1_may_report_demand_that_no_type_meets() {
    let odd = |version| {
        let found = watched(600, move |secs| {
            let mut state = wanting(version)(secs);
            Arc::make_mut(&mut state.autoscaler).demands[0].shape = vec![("GPU".into(), 1.0)];
            let types = &mut Arc::make_mut(&mut state.autoscaler).types;
            types.push(NodeTypeCount { name: "never_seen".into(), max: Some(4), ..NodeTypeCount::default() });
            state
        });
        found[0].kind
    };
    assert_eq!(odd(AutoscalerVersion::V1), FindingKind::Unmet);
    assert_eq!(odd(AutoscalerVersion::V2), FindingKind::Stuck, "v2 would have called it infeasible");
}

#[test]
fn a_report_that_does_not_change_is_silent() {
    // Clocks differ: an old report that changes is alive.
    let skewed = |secs| state(secs, report(AutoscalerVersion::V1, secs.saturating_sub(500)));
    assert_eq!(kinds(&watched(900, skewed)), [FindingKind::Idle]);
    let found = watched(90, |secs| state(secs, report(AutoscalerVersion::V1, 0)));
    assert_eq!((found[0].kind, found[0].since), (FindingKind::Silent, Some(at(0))));
    // One state is enough for a report that is older than any plausible clock error.
    let stale = |secs| {
        let mut history = History::default();
        let only = state(secs, report(AutoscalerVersion::V1, 0));
        history.record(&only);
        findings(None, Some(&only), &history, AtGoogle::default()).remove(0)
    };
    assert_eq!((stale(1500).kind, stale(1500).since), (FindingKind::Silent, Some(at(0))));
    assert_eq!(stale(200).kind, FindingKind::Idle);
    let unread = watched(90, |secs| {
        let missing = vec![MissingPart { part: SnapshotPart::Autoscaler, why: "timed out".to_owned() }];
        Snapshot { missing, ..state(secs, report(AutoscalerVersion::V1, 0)) }
    });
    assert_eq!(kinds(&unread), [FindingKind::PartialData], "it could not be read");
    let jobs = watched(90, |secs| {
        let missing =
            vec![MissingPart { part: SnapshotPart::SomeJobs, why: "1 record cannot be read".to_owned() }];
        Snapshot { missing, ..state(secs, report(AutoscalerVersion::V1, 0)) }
    });
    assert_eq!(kinds(&jobs)[0], FindingKind::Silent, "an unreadable job does not affect the autoscaler");
}

#[test]
fn failed_launches_are_reported_with_reason_and_start() {
    let failing = |secs: u64| {
        let failure = LaunchFailure {
            node_type: "tpu_worker".into(),
            count: 1,
            reason: "ZONE_RESOURCE_POOL_EXHAUSTED".into(),
            at: Some(at(secs.saturating_sub(5))),
            from_text: false,
            day_unknown: false,
        };
        let mut state = wanting(AutoscalerVersion::V1)(secs);
        Arc::make_mut(&mut state.autoscaler).failures = vec![failure];
        state
    };
    let found = watched(600, failing);
    assert_eq!(kinds(&found), [FindingKind::LaunchesFailing]);
    assert_eq!((found[0].severity, found[0].since), (Severity::Bad, Some(at(0))));
    assert_eq!(found[0].short, "tpu_worker, no capacity");
    // The last attempt was long ago: launches are no longer retried.
    let given_up = watched(900, |secs| {
        let mut state = failing(secs);
        Arc::make_mut(&mut state.autoscaler).failures[0].at = Some(at(0));
        state
    });
    assert_eq!((kinds(&given_up), given_up[0].since), (vec![FindingKind::Stuck], Some(at(600))));
    // Another one, which the autoscaler still lists, says nothing about when this one began.
    let mut later = failing(600);
    let failures = &mut Arc::make_mut(&mut later.autoscaler).failures;
    let old = LaunchFailure { node_type: "other".into(), at: Some(at(0)), ..failures[0].clone() };
    failures.push(old);
    let found = findings(None, Some(&later), &History::default(), AtGoogle::default());
    assert_eq!((found[0].kind, found[0].since), (FindingKind::LaunchesFailing, Some(at(595))));
}

#[test]
fn a_launch_of_the_text_report_may_fail_ten_minutes_after_its_request() {
    let failing_on = |age: u64, from_text, day_unknown| {
        let failure = LaunchFailure {
            node_type: "tpu_worker".into(),
            count: 1,
            reason: "LaunchFailed".into(),
            at: Some(at(0)),
            from_text,
            day_unknown,
        };
        let mut state = wanting(AutoscalerVersion::V2)(age);
        Arc::make_mut(&mut state.autoscaler).failures = vec![failure];
        let found = findings(None, Some(&state), &History::default(), AtGoogle::default());
        kinds(&found).contains(&FindingKind::LaunchesFailing)
    };
    let failing = |age, from_text| failing_on(age, from_text, false);
    assert!(failing(599, false) && !failing(600, false));
    assert!(failing(600, true) && failing(1199, true) && !failing(1200, true));
    assert!(!failing_on(0, true, true), "it may have been requested days earlier");
}

#[test]
fn a_node_that_joins_late_is_reported_although_others_join() {
    let joining = |until: u64| {
        watched(until, |secs| {
            let pending = vec![PendingNode {
                node_type: "tpu_worker".into(),
                address: "10.0.0.9".into(),
                status: "setting-up".into(),
            }];
            let mut state = state(secs, Autoscaler { pending, ..report(AutoscalerVersion::V1, secs) });
            // One more joins each minute.
            Arc::make_mut(&mut state.nodes)[0].started = Some(at(secs / 60 * 60));
            state
        })
    };
    assert!(!kinds(&joining(585)).contains(&FindingKind::JoinDelayed));
    let found = joining(600);
    let late = found.iter().find(|f| f.kind == FindingKind::JoinDelayed).unwrap();
    assert_eq!((late.since, late.short.as_str()), (Some(at(0)), "10.0.0.9 (tpu_worker, setting-up)"));
}

#[test]
fn infeasible_demands_are_reported_and_never_stuck() {
    let found = watched(600, |secs| {
        let demands = vec![tpus(3, DemandKind::Request, true)];
        state(secs, Autoscaler { demands, ..report(AutoscalerVersion::V2, secs) })
    });
    assert_eq!((kinds(&found), found[0].since), (vec![FindingKind::Infeasible], Some(at(0))));
    assert_eq!(found[0].short, "3 demands for TPU 4");
}

#[test]
fn recent_deaths_of_nodes_are_reported_for_a_while() {
    let lost = |now: u64| {
        watched(now, move |secs| {
            let mut state = state(secs, report(AutoscalerVersion::V2, secs));
            let reasons = [DeathReason::Preempted, DeathReason::Unexpected, DeathReason::Expected];
            for (n, reason) in (2..).zip(reasons) {
                let mut dead = worker(n, NodeState::Dead);
                dead.ended = Some(at(0));
                dead.death = Some(Death { reason, message: Text::default() });
                Arc::make_mut(&mut state.nodes).push(dead);
            }
            state
        })
    };
    let found = lost(60);
    assert_eq!((found[0].kind, found[0].short.as_str()), (FindingKind::NodesLost, "2, 1 of them preempted"));
    assert_eq!(found[0].severity, Severity::Warn);
    // Its age is that of the first of them.
    assert_eq!(found[0].when("23m"), "in the last 23m");
    assert_eq!(Finding { members: vec!["a".into()], ..found[0].clone() }.when("23m"), "23m ago");
    let later = lost(915);
    assert_eq!((later[0].kind, later[0].severity), (FindingKind::NodesLost, Severity::Info));
    assert_eq!(kinds(&lost(3700)), [FindingKind::Idle]);
}

fn sliced(secs: u64, hosts: &[NodeState]) -> Snapshot {
    let host = |(n, state): (u8, &NodeState)| {
        let mut host = worker(n, *state);
        host.ended = (*state == NodeState::Dead).then_some(at(30));
        let labels = [("ray.io/tpu-slice-name", "slice-a"), ("ray.io/tpu-topology", "2x2x4")];
        host.labels = labels.map(|(k, v)| (k.into(), v.into())).into();
        host
    };
    let nodes = Arc::new((1..).zip(hosts).map(host).collect());
    Snapshot { nodes, ..state(secs, report(AutoscalerVersion::V2, secs)) }
}

#[test]
fn a_slice_lacks_hosts_once_they_are_late_or_dead() {
    use NodeState::{Alive, Dead};
    let kinds = |until, hosts: &'static [NodeState]| kinds(&watched(until, |secs| sliced(secs, hosts)));
    assert_eq!(kinds(60, &[Alive, Alive]), [FindingKind::Idle], "the other hosts may still join");
    assert_eq!(kinds(600, &[Alive, Alive])[0], FindingKind::SliceIncomplete);
    assert_eq!(kinds(60, &[Alive, Alive, Alive, Dead])[0], FindingKind::SliceIncomplete);
    assert_eq!(kinds(600, &[Alive; 4]), [FindingKind::Idle]);
    let found = watched(60, |secs| sliced(secs, &[Alive, Alive, Alive, Dead]));
    assert_eq!((found[0].short.as_str(), found[0].since), ("slice-a has 3 of 4 hosts", Some(at(30))));
}

#[test]
fn hosts_of_an_earlier_slice_of_the_same_name_are_not_missing() {
    use NodeState::{Alive, Dead};
    let incomplete = |until| {
        let found = watched(until, |secs| {
            // The hosts of the earlier slice died at 30.
            let mut state = sliced(secs, &[Alive, Alive, Dead, Dead]);
            let nodes = Arc::make_mut(&mut state.nodes);
            for host in nodes.iter_mut().filter(|host| host.state.is_alive()) {
                host.started = Some(at(60));
            }
            state
        });
        found.into_iter().find(|f| f.kind == FindingKind::SliceIncomplete).map(|f| f.since)
    };
    assert_eq!(incomplete(645), None, "the others may still join");
    assert_eq!(incomplete(660), Some(Some(at(60))));
}

#[test]
fn a_broken_connection_comes_first_and_stays_during_a_retry() {
    let problem = Problem::new(ProblemKind::TokenRefused, "the token is refused", "write another", at(7));
    let mut history = History::default();
    let broken = Link::Retrying { problem, at: at(9) };
    history.record_link(&broken);
    let trying = Link::Connecting { phase: Phase::Tunnel, since: at(9) };
    history.record_link(&trying);
    for link in [&broken, &trying] {
        let found =
            findings(Some(link), Some(&wanting(AutoscalerVersion::V2)(9)), &history, AtGoogle::default());
        assert_eq!((found[0].kind, found[0].since), (FindingKind::Unreachable, Some(at(7))));
        assert_eq!(found[0].hint.to_string(), "write another");
    }
    let up = Link::Up { since: at(10), latency: None, gcs: true, token_auth: true, dashboard: None };
    history.record_link(&up);
    assert_eq!(findings(Some(&up), None, &history, AtGoogle::default()), []);
}

#[test]
fn text_from_a_cluster_is_made_printable() {
    let found = watched(0, |secs| {
        let mut report = report(AutoscalerVersion::V1, secs);
        report.error = "a\x1b]0;x\x07\nb".into();
        state(secs, report)
    });
    assert_eq!((found[0].kind, found[0].long.as_str()), (FindingKind::AutoscalerError, "a·]0;x· b"));
}
