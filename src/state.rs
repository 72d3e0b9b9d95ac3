//! The state of one cluster, ready for display: totals, one table of TPUs and findings, derived from what Ray, Google
//! and the connection report.
//!
//! Pure, and a plain value: the next state follows from the last one and the event. The cluster's task builds it and
//! sends it with every update, so that screens and commands have the same data. It contains timestamps, not ages;
//! whoever displays it calculates the ages.

mod tpus;

pub use tpus::Tpus;

use crate::diagnose::{self, Finding, FindingKind, History, Pending, Restart, RestartedBy, Severity};
use crate::model::{
    ClusterEvent, ClusterName, ClusterSpec, ClusterTotals, ClusterVitals, Hint, Job, JobKey, JobStatus, Link,
    Liveness, Node, NodeId, OperationLock, Problem, Snapshot, SubmissionId, Text, Timestamp,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A new Ray session seen within this time after the end of an operation is attributed to that operation.
const ATTRIBUTED_FOR: Duration = Duration::from_secs(120);

/// An event of one cluster, and its state after it.
#[derive(Clone, Debug)]
pub struct Update {
    /// The cluster of the event.
    pub cluster: ClusterName,
    /// The event.
    pub event: ClusterEvent,
    /// The state of the cluster, the event included.
    pub state: Arc<ClusterState>,
}

/// The state of one cluster.
#[derive(Clone, Debug)]
pub struct ClusterState {
    spec: Arc<ClusterSpec>,
    /// The state of the connection; none before the first event.
    pub link: Option<Link>,
    /// The last state that was read from Ray.
    pub snapshot: Arc<Snapshot>,
    /// Whether `snapshot` was read at least once.
    pub known: bool,
    /// Totals of the last state.
    pub tally: ClusterTotals,
    /// The number of unmet requests of each demand of the autoscaler's report ([`Snapshot::unmet`]).
    pub unmet: Vec<u64>,
    /// The node types with fewer workers than their minimum.
    pub below_minimum: Vec<Text>,
    /// The index of each node in the snapshot.
    node_indices: Arc<HashMap<NodeId, usize>>,
    /// End times of its failed jobs, latest first.
    pub failed: Vec<Timestamp>,
    /// What is wrong with the cluster, worst first.
    pub findings: Vec<Finding>,
    /// Why each of its pending jobs is pending.
    pub pending: HashMap<JobKey, Pending>,
    /// The vitals of its running jobs.
    pub vitals: Arc<ClusterVitals>,
    /// Its TPUs at Google.
    pub tpus: Arc<Tpus>,
    history: History,
    lock: Option<OperationLock>,
    operated: Operated,
}

/// Whether an operation on this machine stops or starts the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operated {
    No,
    Now,
    /// One did, and ended at that time.
    Before(Timestamp),
}

impl ClusterState {
    /// The state of a cluster before the first event.
    pub fn new(spec: Arc<ClusterSpec>) -> Self {
        Self {
            spec,
            link: None,
            snapshot: Arc::default(),
            known: false,
            tally: ClusterTotals::default(),
            unmet: Vec::new(),
            below_minimum: Vec::new(),
            node_indices: Arc::default(),
            failed: Vec::new(),
            findings: Vec::new(),
            pending: HashMap::new(),
            vitals: Arc::default(),
            tpus: Arc::default(),
            history: History::default(),
            lock: None,
            operated: Operated::No,
        }
    }

    /// The node with that id; none when Ray does not list it.
    pub fn node(&self, id: &NodeId) -> Option<&Node> {
        self.snapshot.nodes.get(*self.node_indices.get(id)?)
    }

    /// Whether the event affects the state, so that [`Self::apply`] has to be called.
    pub const fn concerns(event: &ClusterEvent) -> bool {
        matches!(
            event,
            ClusterEvent::Link(_)
                | ClusterEvent::Snapshot(_)
                | ClusterEvent::Vitals(_)
                | ClusterEvent::Cloud(_)
                | ClusterEvent::Lock(_)
        )
    }

    /// Applies an event. Events must come in the order in which they happened.
    pub fn apply(&mut self, event: &ClusterEvent) {
        match event {
            ClusterEvent::Link(link) => self.apply_link(link),
            ClusterEvent::Snapshot(snapshot) => self.apply_snapshot(Arc::clone(snapshot)),
            ClusterEvent::Cloud(answer) => {
                Arc::make_mut(&mut self.tpus).take(&self.spec, answer.clone());
                self.join_tpus();
                self.diagnose();
            }
            ClusterEvent::Vitals(cluster_vitals) => {
                self.vitals = Arc::clone(cluster_vitals);
                self.tally.blocked = self.blocked();
                self.diagnose();
            }
            ClusterEvent::Lock(lock) => self.lock.clone_from(lock),
            _ => {}
        }
    }

    /// Records whether an operation on this machine currently stops or starts the cluster.
    pub fn apply_operation(&mut self, is_running: bool, now: Timestamp) {
        self.operated = match (is_running, self.operated) {
            (true, _) => Operated::Now,
            (false, Operated::Now) => Operated::Before(now),
            (false, before) => before,
        };
        self.diagnose();
    }

    fn apply_link(&mut self, link: &Link) {
        let mut link = link.clone();
        if let Link::Retrying { problem, .. } | Link::Stopped { problem } = &mut link {
            self.advise(&mut problem.hint);
        }
        if self.link.as_ref() == Some(&link) {
            return;
        }
        self.history.record_link(&link);
        let was_up = self.is_up();
        self.link = Some(link);
        if was_up != self.is_up() {
            self.join_tpus();
        }
        self.diagnose();
    }

    fn apply_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        let snapshot = self.history.dated(snapshot);
        let before = std::mem::replace(&mut self.snapshot, snapshot);
        let now = &self.snapshot;
        if let Some(restart) = Restart::between(&before, now, self.restarted_by()) {
            self.history.record_restart(restart, &now.jobs);
        }
        if before.session != now.session {
            self.vitals = Arc::new(ClusterVitals { limits: self.vitals.limits, ..ClusterVitals::default() });
        } else if !self.vitals.jobs.is_empty() && !self.vitals.is_fresh(now.taken) {
            // A job that waited for a node at the last reading may have started long ago.
            Arc::make_mut(&mut self.vitals).jobs.clear();
        }
        let first = !std::mem::replace(&mut self.known, true);
        let ids = |snapshot: &Snapshot| snapshot.nodes.iter().map(|node| node.id).collect::<Vec<_>>();
        if ids(&before) != ids(&self.snapshot) {
            self.node_indices = Arc::new(ids(&self.snapshot).into_iter().zip(0..).collect());
        }
        self.tally = ClusterTotals { blocked: self.blocked(), ..ClusterTotals::of(&self.snapshot) };
        self.unmet = self.snapshot.unmet();
        let below_minimum = diagnose::below_minimum(&self.snapshot).into_iter();
        self.below_minimum = below_minimum.map(|(name, ..)| name.clone()).collect();
        if !Arc::ptr_eq(&before.jobs, &self.snapshot.jobs) {
            let failed = self.snapshot.jobs.iter().filter(|job| job.status == JobStatus::Failed);
            self.failed = failed.filter_map(|job| job.ended).collect();
            self.failed.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.history.record(&self.snapshot);
        if first || before.nodes != self.snapshot.nodes {
            self.join_tpus();
        }
        self.diagnose();
    }

    /// The number of jobs that Ray reports as running, but that wait for their first node.
    fn blocked(&self) -> usize {
        let is_held = |job: &&Arc<Job>| {
            job.status == JobStatus::Running && self.vitals.status(job) == JobStatus::Pending
        };
        self.snapshot.jobs.iter().filter(is_held).count()
    }

    /// Whether the number of running jobs is Ray's own, which includes those that wait for their first node: their
    /// vitals have not been read yet.
    pub fn counts_waiting_as_running(&self) -> bool {
        self.tally.running > 0 && self.vitals.read.is_none() && !self.vitals.limits.every.is_zero()
    }

    /// Who restarted Ray, if known.
    fn restarted_by(&self) -> RestartedBy {
        let now = self.snapshot.taken;
        let is_ours = match self.operated {
            Operated::No => false,
            Operated::Now => true,
            // An operation that ended long ago did not cause it.
            Operated::Before(until) => until.age(now) < ATTRIBUTED_FOR,
        };
        let is_theirs = |lock: &&OperationLock| {
            lock.liveness(now) == Liveness::Fresh && lock.command.ends_with("-cluster")
        };
        match self.lock.as_ref().filter(is_theirs) {
            _ if is_ours => RestartedBy::Us,
            Some(lock) => RestartedBy::Operator(lock.who.as_str().into()),
            None => RestartedBy::Unknown,
        }
    }

    /// Joins the last states of Google and Ray. While Ray cannot be reached, only Google's is used.
    fn join_tpus(&mut self) {
        if self.tpus.requested_at().is_some() {
            let is_known = self.known && self.is_up();
            Arc::make_mut(&mut self.tpus).join(&self.spec, &self.snapshot, is_known);
        }
    }

    /// Makes operations that the cluster refuses advice only.
    fn advise(&self, hint: &mut Hint) {
        if let Some(why) = self.spec.no_operations() {
            *hint = hint.without_operations(&why);
        }
    }

    fn diagnose(&mut self) {
        // What is missing then is missing on purpose, and the operation reports what goes wrong.
        if self.operated == Operated::Now {
            self.findings.clear();
            self.pending.clear();
            return;
        }
        let known = self.known.then_some(&*self.snapshot);
        let mut findings =
            diagnose::findings(self.link.as_ref(), known, &self.history, self.tpus.at_google());
        for finding in &mut findings {
            self.advise(&mut finding.hint);
        }
        self.findings = findings;
        let (node_types, vitals) = (&self.spec.node_types, &self.vitals);
        self.pending = diagnose::pending(&self.snapshot, &self.unmet, vitals, node_types, &self.findings);
        let of_jobs = diagnose::of_jobs(&self.snapshot, &self.vitals, |key| self.pending.get(key));
        if !of_jobs.is_empty() {
            // A broken connection stays first because it has the worst severity.
            self.findings.retain(|f| f.kind != FindingKind::Idle);
            self.findings.extend(of_jobs);
            self.findings.sort_by_key(|f| f.severity);
        }
    }

    /// The lock of another operator's operation, as last read.
    pub const fn lock(&self) -> Option<&OperationLock> {
        self.lock.as_ref()
    }

    /// When a pending node was first seen pending.
    pub fn pending_since(&self, address: &Text) -> Option<Timestamp> {
        self.history.pending_since(address)
    }

    /// Why a job no longer exists, if a restart of Ray ended it.
    pub fn why_lost(&self, id: &SubmissionId) -> Option<String> {
        self.history.restart()?.why_lost(id, &self.snapshot.jobs)
    }

    /// The problem of the connection, if there is one. It stays until a retry succeeds.
    pub const fn problem(&self) -> Option<&Problem> {
        match &self.link {
            Some(Link::Retrying { problem, .. } | Link::Stopped { problem }) => Some(problem),
            Some(Link::Connecting { .. }) => self.history.problem(),
            Some(Link::Up { .. }) | None => None,
        }
    }

    /// Whether the connection is up.
    pub const fn is_up(&self) -> bool {
        matches!(self.link, Some(Link::Up { .. }))
    }

    /// The worst finding of a kind.
    pub fn finding(&self, kind: FindingKind) -> Option<&Finding> {
        self.findings.iter().find(|f| f.kind == kind)
    }

    /// The worst finding.
    pub fn worst(&self) -> Option<&Finding> {
        self.findings.first()
    }

    /// The number of findings that need action; 1 for an unreachable cluster, whose other findings may be out of date.
    pub fn issues(&self) -> usize {
        if self.problem().is_some() {
            return 1;
        }
        self.findings.iter().filter(|f| f.severity == Severity::Bad).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::Severity;
    use crate::model::cloud::{Capacity, CloudView, TpuVm, VmState};
    use crate::model::{
        Autoscaler, AutoscalerVersion, Demand, DemandKind, Job, JobActivity, LaunchFailure, NodeTypeCount,
        Phase, ProblemKind, Provider, RunningHead, Verb, VitalLimits, Vitals, Wait, several_heads,
    };

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(1_795_000_000_000).plus(Duration::from_secs(secs))
    }

    fn state() -> ClusterState {
        ClusterState::new(Arc::new(ClusterSpec::sample("lab", Provider::Gcp)))
    }

    fn up() -> ClusterEvent {
        ClusterEvent::Link(Link::Up {
            since: at(0),
            latency: None,
            gcs: true,
            token_auth: true,
            dashboard: None,
        })
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
        // The report has only the time of day, which is 0 here.
        let listed = |session: &str, secs: u64, reason: &str| {
            let failure = LaunchFailure {
                node_type: "tpu".into(),
                count: 1,
                reason: reason.into(),
                at: Some(at(secs / DAY * DAY)),
                from_text: true,
            };
            let report = Autoscaler {
                version: AutoscalerVersion::V2,
                failures: vec![failure],
                ..Autoscaler::default()
            };
            ClusterEvent::Snapshot(Arc::new(Snapshot {
                session: session.into(),
                taken: at(secs),
                autoscaler: Arc::new(report),
                ..Snapshot::default()
            }))
        };
        let mut state = state();
        let mut failing = |session, secs, reason| {
            state.apply(&listed(session, secs, reason));
            let dated = state.snapshot.autoscaler.failures[0].at;
            (state.finding(FindingKind::LaunchesFailing).is_some(), dated)
        };
        assert_eq!(failing("one", 60, "a"), (true, Some(at(0))));
        assert_eq!(failing("one", 7200, "a"), (false, Some(at(0))));
        for day in 1..4 {
            assert_eq!(failing("one", day * DAY + 60, "a"), (false, Some(at(0))), "day {day}");
        }
        assert_eq!(failing("one", 9 * DAY + 60, "a"), (false, Some(at(0))), "after some days of sleep");
        assert_eq!(failing("one", 9 * DAY + 120, "b"), (true, Some(at(9 * DAY))), "another launch");
        assert_eq!(failing("two", 9 * DAY + 180, "b"), (true, Some(at(9 * DAY))));
        assert_eq!(failing("three", 10 * DAY + 60, "b"), (true, Some(at(10 * DAY))), "another autoscaler");
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
        let seen =
            |state: &ClusterState| (state.vitals.status(&job), state.tally.blocked, state.pending.len());
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
}
