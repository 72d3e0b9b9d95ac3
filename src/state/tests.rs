//! Tests of a cluster's state.

use super::*;
use crate::diagnose::Severity;
use crate::model::cloud::{Capacity, CloudView, TpuVm, VmState};
use crate::model::{
    Autoscaler, AutoscalerVersion, Demand, DemandKind, Job, JobActivity, LaunchFailure, NodeTypeCount, Phase,
    ProblemKind, Provider, RunningHead, Verb, VitalLimits, Vitals, Wait, several_heads,
};

fn at(secs: u64) -> Timestamp {
    Timestamp::from_millis(1_795_000_000_000).plus(Duration::from_secs(secs))
}

fn state() -> ClusterState {
    ClusterState::new(Arc::new(ClusterSpec::sample("lab", Provider::Gcp)))
}

fn up() -> ClusterEvent {
    ClusterEvent::Link(Link::Up { since: at(0), latency: None, gcs: true, token_auth: true, dashboard: None })
}

fn session(name: &str, secs: u64, jobs: &[&str]) -> ClusterEvent {
    let job = |id: &&str| Arc::new(Job::sample(id, JobStatus::Running));
    ClusterEvent::Snapshot(Arc::new(Snapshot {
        session: name.into(),
        taken: at(secs),
        jobs: Arc::new(jobs.iter().map(job).collect()),
        ..Snapshot::default()
    }))
}

fn preempted() -> ClusterEvent {
    let vm = TpuVm {
        id: None,
        name: "slice-a".into(),
        accelerator_type: "v4-16".into(),
        state: VmState::Preempted,
        api_state: "".into(),
        unhealthy: None,
        hosts: vec!["10.0.0.9".into()],
        external: Vec::new(),
        capacity: Capacity::Preemptible,
        queued_resource: None,
        created: Some(at(0)),
        started: None,
        ray_cluster: Some("lab".into()),
        ray_type: None,
        compute: None,
    };
    ClusterEvent::Cloud(Ok(Arc::new(CloudView {
        vms: vec![vm],
        complete: true,
        unlisted: None,
        queried: at(5),
        ..CloudView::default()
    })))
}

fn kinds(state: &ClusterState) -> Vec<FindingKind> {
    state.findings.iter().map(|f| f.kind).collect()
}

#[test]
fn several_running_heads_are_one_finding_whether_the_cluster_answers_or_not() {
    let mut state = state();
    let head = |name: &str, cluster: &str| RunningHead {
        cluster: cluster.into(),
        name: name.into(),
        zone: "us-central2-b".into(),
        address: Some("34.0.0.1".into()),
    };
    let seen = |heads: &[RunningHead], secs| {
        ClusterEvent::Cloud(Ok(Arc::new(CloudView {
            heads: heads.to_vec(),
            queried: at(secs),
            ..CloudView::default()
        })))
    };
    let both = [head("h1", "lab"), head("h2", "lab"), head("h3", "other")];
    for event in [up(), session("one", 1, &["a"]), seen(&both, 5), seen(&both, 65)] {
        state.apply(&event);
    }
    let found = state.finding(FindingKind::MultipleHeads).unwrap().clone();
    assert_eq!((found.severity, found.since), (Severity::Warn, Some(at(5))), "it keeps its start time");
    assert!(
        found.long.contains("2 heads of lab are running: h1 in us-central2-b (34.0.0.1), h2"),
        "{found:?}"
    );
    let hint = found.hint.to_string();
    assert!(hint.contains("clusters.lab.address") && hint.contains("instances delete h2"), "{hint}");
    // The connection reports the same problem: it is listed once, and first.
    let several = several_heads(&state.spec.name, "p", &both[..2], at(70)).unwrap();
    state.apply(&ClusterEvent::Link(Link::Retrying { problem: several, at: at(80) }));
    assert_eq!((kinds(&state), state.issues()), (vec![FindingKind::MultipleHeads], 1));
    state.apply(&up());
    state.apply(&seen(&both[1..], 90));
    assert!(state.finding(FindingKind::MultipleHeads).is_none(), "{:?}", state.findings);
}

#[test]
fn ray_google_and_the_connection_make_one_state() {
    let mut state = state();
    for event in [up(), session("one", 1, &["a"]), preempted()] {
        assert!(ClusterState::concerns(&event));
        state.apply(&event);
    }
    assert_eq!((state.tally.running, state.tpus.rows().len(), state.tpus.leftovers().len()), (1, 1, 1));
    assert!(state.tpus.knows_ray() && state.problem().is_none());
    assert_eq!((kinds(&state), state.issues()), (vec![FindingKind::HoldsQuota], 0));
    let gone = Problem::new(ProblemKind::Unreachable, "no route", "", at(9));
    state.apply(&ClusterEvent::Link(Link::Retrying { problem: gone, at: at(12) }));
    assert_eq!(kinds(&state), [FindingKind::Unreachable, FindingKind::HoldsQuota]);
    assert_eq!((state.issues(), state.tpus.knows_ray()), (1, false), "Ray's nodes may have changed");
    state.apply(&ClusterEvent::Link(Link::Connecting { phase: Phase::Tunnel, since: at(13) }));
    assert!(state.problem().is_some(), "until a retry succeeds");
    state.apply(&up());
    assert_eq!((kinds(&state), state.tpus.knows_ray()), (vec![FindingKind::HoldsQuota], true));
}

#[test]
fn operations_that_the_cluster_refuses_are_advice_only() {
    let hints = |file: Option<&str>, provider| {
        let sample = ClusterSpec::sample("lab", provider);
        let spec = ClusterSpec { file: file.map(Into::into), ..sample };
        let mut state = ClusterState::new(Arc::new(spec));
        let start = Verb::Start.to("start the cluster");
        let problem = Problem::new(ProblemKind::DashboardSilent, "nothing listens", start, at(0));
        state.apply(&ClusterEvent::Link(Link::Stopped { problem }));
        let hint = state.problem().unwrap().hint.to_string();
        assert_eq!(state.worst().unwrap().hint.to_string(), hint);
        hint
    };
    for provider in [Provider::Gcp, Provider::Local] {
        let hint = hints(Some("lab.yaml"), provider);
        assert_eq!(hint, "start the cluster: `marin-tui start-cluster`");
    }
    let direct = hints(None, Provider::None);
    assert_eq!(direct, "start the cluster (needs the cluster file instead of --address)");
    let aws = hints(Some("lab.yaml"), Provider::Other("aws"));
    assert_eq!(aws, "start the cluster (not supported for provider aws)");
}

#[test]
fn a_tpu_that_google_repairs_or_creates_for_too_long_is_a_finding_with_its_time() {
    let answer = |api_state: &str, minutes: u64| {
        let ClusterEvent::Cloud(Ok(view)) = preempted() else { unreachable!() };
        let mut view = CloudView::clone(&view);
        view.vms[0].state = VmState::from_api(api_state);
        view.vms[0].api_state = api_state.into();
        view.queried = at(minutes * 60);
        ClusterEvent::Cloud(Ok(Arc::new(view)))
    };
    let mut state = state();
    let mut delayed = |api_state: &str, minutes| {
        state.apply(&answer(api_state, minutes));
        let late = state.finding(FindingKind::TpuDelayed);
        let row = state.tpus.rows()[0].clone();
        assert_eq!(late.is_some(), row.status.label() == "delayed", "{row:?}");
        assert_eq!(row.state.as_ref().map(Text::raw), Some(api_state));
        late.map(|f| (f.since, f.short.clone(), f.hint.is_empty()))
    };
    // It was requested at 0; a repair is timed from the first response that reports it.
    assert_eq!(delayed("CREATING", 29), None);
    assert_eq!(delayed("CREATING", 31), Some((Some(at(0)), "slice-a is CREATING".into(), false)));
    assert_eq!(delayed("READY", 32), None);
    assert_eq!(delayed("REPAIRING", 60), None);
    assert_eq!(delayed("REPAIRING", 89), None);
    assert_eq!(delayed("REPAIRING", 91), Some((Some(at(3600)), "slice-a is REPAIRING".into(), false)));
    assert_eq!(delayed("RESTARTING", 92), None, "another state");
    assert_eq!(delayed("HIBERNATED", 93), None);
}

#[test]
fn a_failed_launch_that_the_text_report_lists_for_days_is_not_new_each_day() {
    const DAY: u64 = 86_400;
    let head = |started| Node { is_head: true, started: Some(at(started)), ..Node::sample(1) };
    // The report has only the time of day, which is 0 here.
    let listed = |session: &str, secs: u64, reason: &str, head_started: Option<u64>| {
        let failure = LaunchFailure {
            node_type: "tpu".into(),
            count: 1,
            reason: reason.into(),
            at: Some(at(secs / DAY * DAY)),
            from_text: true,
            day_unknown: true,
        };
        let report =
            Autoscaler { version: AutoscalerVersion::V2, failures: vec![failure], ..Autoscaler::default() };
        ClusterEvent::Snapshot(Arc::new(Snapshot {
            session: session.into(),
            taken: at(secs),
            nodes: Arc::new(head_started.map(head).into_iter().collect()),
            autoscaler: Arc::new(report),
            ..Snapshot::default()
        }))
    };
    let seen = |state: &mut ClusterState, event: &ClusterEvent| {
        state.apply(event);
        let dated = state.snapshot.autoscaler.failures[0].at;
        (state.finding(FindingKind::LaunchesFailing).is_some(), dated)
    };
    let mut first = state();
    let mut failing = |session, secs, reason| seen(&mut first, &listed(session, secs, reason, None));
    assert_eq!(failing("one", 60, "a"), (false, Some(at(0))), "it may be days old");
    assert_eq!(failing("one", 120, "a"), (false, Some(at(0))));
    assert_eq!(failing("one", 180, "b"), (true, Some(at(0))), "it was not listed a minute ago");
    assert_eq!(failing("one", 7200, "b"), (false, Some(at(0))));
    for day in 1..4 {
        assert_eq!(failing("one", day * DAY + 60, "b"), (false, Some(at(0))), "day {day}");
    }
    assert_eq!(failing("one", 9 * DAY + 60, "b"), (false, Some(at(0))), "after some days of sleep");
    assert_eq!(failing("one", 9 * DAY + 120, "c"), (true, Some(at(9 * DAY))), "another launch");
    assert_eq!(failing("two", 9 * DAY + 180, "c"), (true, Some(at(9 * DAY))));
    assert_eq!(failing("three", 10 * DAY + 60, "c"), (true, Some(at(10 * DAY))), "another autoscaler");
    assert_eq!(failing("three", 12 * DAY + 60, "d"), (false, Some(at(12 * DAY))), "of any of these days");
    // The head's start shows the day, also if it is read later.
    for (started, is_certain) in [(8 * DAY, false), (8 * DAY + 1, true), (9 * DAY, true)] {
        let mut state = state();
        let mut read = |secs, start| seen(&mut state, &listed("one", 9 * DAY + secs, "a", start));
        assert_eq!(read(60, None), (false, Some(at(9 * DAY))));
        assert_eq!(read(120, Some(started)), (is_certain, Some(at(9 * DAY))), "{started}");
    }
    // The launches of the GCS have other times and reasons.
    let mut state = state();
    let mut over_gcs = listed("one", 60, "quota", None);
    let ClusterEvent::Snapshot(snapshot) = &mut over_gcs else { unreachable!() };
    let report = Arc::make_mut(&mut Arc::make_mut(snapshot).autoscaler);
    (report.failures[0].from_text, report.failures[0].day_unknown) = (false, false);
    assert!(seen(&mut state, &over_gcs).0);
    assert!(!seen(&mut state, &listed("one", 120, "a", None)).0);
    assert!(seen(&mut state, &listed("one", 180, "b", None)).0);
}

#[test]
fn the_unmet_demands_and_missing_workers_of_a_state_are_kept() {
    let mut state = state();
    let call = |kind, count| Demand { shape: vec![("TPU".into(), 4.0)], count, kind, infeasible: false };
    let short = |min| NodeTypeCount { name: "tpu".into(), min: Some(min), ..NodeTypeCount::default() };
    let report = |min| Autoscaler {
        demands: vec![call(DemandKind::Request, 3), call(DemandKind::Task, 2)],
        types: vec![short(min)],
        ..Autoscaler::default()
    };
    for (min, below) in [(1, vec![Text::from("tpu")]), (0, Vec::new())] {
        let autoscaler = Arc::new(report(min));
        state.apply(&ClusterEvent::Snapshot(Arc::new(Snapshot { autoscaler, ..Snapshot::default() })));
        assert_eq!((&state.unmet[..], &state.below_minimum), (&[3, 2][..], &below));
    }
}

#[test]
fn a_state_that_was_sent_does_not_change() {
    let mut next = Arc::new(state());
    Arc::make_mut(&mut next).apply(&preempted());
    let shown = Arc::clone(&next);
    Arc::make_mut(&mut next).apply(&ClusterEvent::Cloud(Ok(Arc::new(CloudView::default()))));
    assert_eq!((shown.tpus.leftovers().len(), next.tpus.leftovers().len()), (1, 0));
}

#[test]
fn a_job_is_not_pending_because_of_vitals_that_are_too_old() {
    let mut state = state();
    state.apply(&session("one", 0, &["a"]));
    let job = Arc::clone(&state.snapshot.jobs[0]);
    let wait = Wait { shape: vec![("TPU".into(), 4.0)], count: 1, since: None };
    let vitals = Vitals::sample(JobActivity::Waiting(wait), at(0));
    let limits = VitalLimits { pending: Duration::from_secs(60), ..VitalLimits::default() };
    let cluster_vitals = ClusterVitals {
        read: Some(at(0)),
        jobs: [(job.key.clone(), Arc::new(vitals))].into(),
        limits,
        ..ClusterVitals::default()
    };
    state.apply(&ClusterEvent::Vitals(Arc::new(cluster_vitals)));
    let seen = |state: &ClusterState| (state.vitals.status(&job), state.tally.blocked, state.pending.len());
    assert_eq!(seen(&state), (JobStatus::Pending, 1, 1));
    state.apply(&session("one", 900, &["a"]));
    assert_eq!(seen(&state), (JobStatus::Pending, 1, 1), "they apply for 15 minutes");
    state.apply(&session("one", 901, &["a"]));
    assert_eq!(seen(&state), (JobStatus::Running, 0, 0));
    assert_eq!((state.vitals.limits, state.vitals.read), (limits, Some(at(0))), "they are kept");
}

#[test]
fn the_jobs_that_run_are_only_known_once_their_vitals_were_read() {
    let mut state = state();
    assert!(!state.counts_waiting_as_running(), "no job runs");
    state.apply(&session("one", 0, &["a"]));
    assert!(state.counts_waiting_as_running());
    let mut seen = |read, every| {
        let limits = VitalLimits { every: Duration::from_secs(every), ..VitalLimits::default() };
        let cluster_vitals = ClusterVitals { read, limits, ..ClusterVitals::default() };
        state.apply(&ClusterEvent::Vitals(Arc::new(cluster_vitals)));
        state.counts_waiting_as_running()
    };
    assert_eq!((seen(None, 30), seen(None, 0), seen(Some(at(1)), 30)), (true, false, false));
}

#[test]
fn ages_grow_without_events() {
    let mut state = state();
    let gone = Problem::new(ProblemKind::Unreachable, "no route", "", at(0));
    state.apply(&ClusterEvent::Link(Link::Retrying { problem: gone, at: at(3) }));
    let age = |secs| state.worst().and_then(|f| f.age(at(secs)));
    assert_eq!(age(60), Some(Duration::from_secs(60)));
    assert_eq!(age(4000), Some(Duration::from_secs(4000)));
}

#[test]
fn an_operation_here_takes_the_head_away_without_a_finding() {
    let mut state = state();
    state.apply(&session("one", 0, &["a"]));
    state.apply_operation(true, at(1));
    let gone = Problem::new(ProblemKind::Address, "no head", "", at(2));
    state.apply(&ClusterEvent::Link(Link::Retrying { problem: gone, at: at(3) }));
    assert_eq!(kinds(&state), []);
    assert!(state.problem().is_some(), "the connection is shown as it is");
    // The head should be back by now.
    state.apply_operation(false, at(50));
    assert_eq!(kinds(&state), [FindingKind::Unreachable]);
}

#[test]
fn a_restart_is_reported_unless_it_is_ours() {
    let restarted = |operate: &dyn Fn(&mut ClusterState)| {
        let mut state = state();
        state.apply(&session("one", 0, &["a"]));
        operate(&mut state);
        state.apply(&session("two", 100, &[]));
        state.findings.iter().find(|f| f.kind == FindingKind::Restarted).map(|f| f.severity)
    };
    assert_eq!(restarted(&|_| ()), Some(Severity::Bad));
    assert_eq!(restarted(&|s| s.apply_operation(true, at(1))), None);
    let over = |s: &mut ClusterState, until| {
        s.apply_operation(true, at(1));
        s.apply_operation(false, until);
        // A repeated report changes nothing.
        s.apply_operation(false, at(99));
    };
    assert_eq!(restarted(&|s| over(s, at(50))), None, "it was seen late");
    let early = Timestamp::from_millis(at(0).as_millis() - 60_000);
    assert_eq!(restarted(&|s| over(s, early)), Some(Severity::Bad), "not caused by the operation");
    assert_eq!(restarted(&|s| s.apply_operation(false, at(50))), Some(Severity::Bad));
}
