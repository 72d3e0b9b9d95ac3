//! The feed: one line per change, without repetition.

use super::*;
use marin_tui::app::Feed;

const LAB: &str = "marin-us-central2";

struct Watched {
    app: App,
    feed: Feed,
}

impl Watched {
    fn new() -> Self {
        Self { app: app(&[LAB]), feed: Feed::default() }
    }

    fn apply(&mut self, event: ClusterEvent) -> Vec<String> {
        send_update(&mut self.app, LAB, event);
        self.feed.changes(&self.app.clusters()[0], NOW)
    }

    fn state(&mut self, change: impl FnOnce(&mut Vec<Job>)) -> Vec<String> {
        let mut snapshot = snapshot();
        let mut jobs: Vec<Job> = snapshot.jobs.iter().map(|job| (**job).clone()).collect();
        change(&mut jobs);
        snapshot.jobs = Arc::new(jobs.into_iter().map(Arc::new).collect());
        self.apply(ClusterEvent::Snapshot(Arc::new(snapshot)))
    }
}

fn one(lines: &[String]) -> &str {
    let [line] = lines else { panic!("{lines:#?}") };
    line.strip_prefix("marin-us-central2: ").unwrap()
}

#[test]
fn a_connection_is_reported_when_it_changes() {
    let mut lab = Watched::new();
    let connecting = ClusterEvent::Link(Link::Connecting { phase: Phase::Tunnel, since: before(1) });
    assert!(lab.apply(connecting.clone()).is_empty());
    assert_eq!(one(&lab.apply(ClusterEvent::Link(up()))), "connected");
    assert!(lab.apply(ClusterEvent::Link(up())).is_empty());
    let refused = problem(ProblemKind::Unreachable, "connection refused", "check sshd");
    let retrying = |secs| {
        ClusterEvent::Link(Link::Retrying {
            problem: refused.clone(),
            at: NOW.plus(Duration::from_secs(secs)),
        })
    };
    assert_eq!(one(&lab.apply(retrying(4))), "down, retrying: connection refused. Hint: check sshd");
    assert!(lab.apply(connecting).is_empty() && lab.apply(retrying(8)).is_empty());
    assert_eq!(
        one(&lab.apply(ClusterEvent::Link(Link::Stopped { problem: refused }))),
        "down: connection refused. Hint: check sshd"
    );
    assert_eq!(one(&lab.apply(ClusterEvent::Link(up()))), "reconnected");
}

#[test]
fn the_first_state_is_summarized_and_then_jobs_are_reported_one_by_one() {
    let mut lab = Watched::new();
    lab.apply(ClusterEvent::Link(up()));
    let first = lab.state(|_| ());
    assert!(
        first[0].contains(" alive") && first[0].contains(" running, 1 pending, 1 failed in 24h"),
        "{first:#?}"
    );
    assert!(!first.iter().any(|line| line.contains(": job ")), "{first:#?}");
    assert!(lab.state(|_| ()).is_empty());
    let started = lab.state(|jobs| jobs[1].status = JobStatus::Running);
    assert_eq!(one(&started), "job tokenize-fineweb-a28167 (owner bo) started");
    let ended = lab.state(|jobs| {
        jobs[1].status = JobStatus::Failed;
        jobs[1].message = "exit code 1\nand much more\x1b[31m".into();
    });
    assert_eq!(one(&ended), "job tokenize-fineweb-a28167 (owner bo) failed: exit code 1");
    let gone = lab.state(|jobs| _ = (jobs.remove(1), jobs.remove(0)));
    assert_eq!(
        one(&gone),
        "job ray-run-alice-exp1395_qwen3_32b-4f1c is no longer listed",
        "the ended job is not reported"
    );
    let many = lab.state(|jobs| {
        jobs.remove(1);
        jobs.remove(0);
        jobs.extend((0..50).map(|n| job(&format!("sweep-{n}"), JobStatus::Pending, "dan", 1)));
    });
    assert_eq!(many.len(), 21);
    assert!(many[0].ends_with("job sweep-0 (owner dan) submitted"), "{}", many[0]);
    assert!(many[20].ends_with("and 30 more jobs changed"), "{}", many[20]);
}

#[test]
fn jobs_that_could_not_be_read_are_neither_counted_nor_reported_as_started() {
    let mut lab = Watched::new();
    lab.apply(ClusterEvent::Link(up()));
    let missing = vec![MissingPart { part: SnapshotPart::Jobs, why: "timed out".into() }];
    let unread = Snapshot { jobs: Arc::default(), missing, ..snapshot() };
    let first = lab.apply(ClusterEvent::Snapshot(Arc::new(unread)));
    assert!(first[0].ends_with("; jobs: not read (timed out)"), "{first:#?}");
    let then = lab.state(|_| ());
    assert!(!then.iter().any(|line| line.contains(": job ")), "{then:#?}");
}

#[test]
fn issues_are_reported_and_resolved_once() {
    let mut lab = Watched::new();
    lab.apply(ClusterEvent::Link(up()));
    let first = lab.state(|_| ());
    let issues: Vec<_> =
        first.iter().filter(|line| line.contains("issue: ") || line.contains("warning: ")).collect();
    assert!(!issues.is_empty(), "{first:#?}");
    let calm = Snapshot { taken: NOW, ray_version: "2.53.0".into(), ..Snapshot::default() };
    let over = lab.apply(ClusterEvent::Snapshot(Arc::new(calm)));
    assert_eq!(over.iter().filter(|line| line.contains(": resolved: ")).count(), issues.len(), "{over:#?}");
}

/// One finding covers all jobs that have been pending for long, and names three of them.
#[test]
fn another_long_pending_job_is_reported_beside_earlier_ones() {
    let mut lab = Watched::new();
    lab.apply(ClusterEvent::Link(up()));
    lab.state(|_| ());
    let waiting = |n: usize| (0..n).map(|n| job(&format!("sweep-{n}"), JobStatus::Pending, "dan", 7200));
    let reported = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| line.contains("job pending too long")).cloned().collect()
    };
    assert_eq!(reported(&lab.state(|jobs| *jobs = waiting(1).collect())).len(), 1);
    assert_eq!(reported(&lab.state(|jobs| *jobs = waiting(1).collect())), [""; 0]);
    let more = reported(&lab.state(|jobs| *jobs = waiting(2).collect()));
    assert!(one(&more).contains("2 jobs: sweep-0") && one(&more).contains("sweep-1"), "{more:?}");
    assert_eq!(reported(&lab.state(|jobs| *jobs = waiting(1).collect())), [""; 0], "one has started");
    let many = reported(&lab.state(|jobs| *jobs = waiting(5).collect()));
    assert!(one(&many).contains("and 2 more; new: sweep-3, sweep-4"), "{many:?}");
}

#[test]
fn operations_of_others_are_reported_step_by_step() {
    let mut lab = Watched::new();
    let restart = Operation::new(Task::Restart { preserve: true }, ClusterName::new(LAB));
    let mark = OperationLock::new("0123456789abcdef".into(), &restart, "alice@laptop", 7, NOW);
    let report =
        |lab: &mut Watched, mark: Option<&OperationLock>| lab.apply(ClusterEvent::Lock(mark.cloned()));
    assert_eq!(one(&report(&mut lab, Some(&mark))), "operation: restart by alice, step 1 of 9");
    assert!(report(&mut lab, Some(&mark)).is_empty());
    let next = OperationLock { step: 2, ..mark };
    assert_eq!(one(&report(&mut lab, Some(&next))), "operation: restart by alice, step 2 of 9");
    assert_eq!(one(&report(&mut lab, None)), "operation finished: restart by alice, step 2 of 9");
}

#[test]
fn each_stalled_run_is_reported_and_resolved_separately() {
    let mut lab = Watched::new();
    lab.apply(ClusterEvent::Link(up()));
    lab.state(|_| ());
    let keys: Vec<JobKey> = snapshot().jobs.iter().map(|job| job.key.clone()).collect();
    let running: Vec<&JobKey> = keys
        .iter()
        .zip(snapshot().jobs.iter())
        .filter(|(_, job)| job.status == JobStatus::Running)
        .map(|(key, _)| key)
        .collect();
    let [one_run, other] = running[..2] else { panic!("{running:?}") };
    let mut stalled = |runs: &[&JobKey]| {
        let sign =
            RunWarning { kind: WarningKind::Stalled, since: before(900), evidence: "at step 9".into() };
        let ClusterEvent::Vitals(mut cluster_vitals) = held("04000000", []) else { panic!() };
        let all = Arc::make_mut(&mut cluster_vitals);
        let mut vitals = (*all.jobs.drain().next().unwrap().1).clone();
        vitals.signs = vec![sign];
        all.jobs = runs.iter().map(|key| ((*key).clone(), Arc::new(vitals.clone()))).collect();
        lab.apply(ClusterEvent::Vitals(cluster_vitals))
    };
    let first = stalled(&[one_run]);
    assert!(one(&first).starts_with(&format!("issue: run stalled: {one_run} of ")), "{first:?}");
    let second = stalled(&[one_run, other]);
    assert!(one(&second).starts_with(&format!("issue: run stalled: {other} of ")), "{second:?}");
    assert_eq!(stalled(&[one_run, other]), [""; 0]);
    assert_eq!(one(&stalled(&[other])), format!("resolved: run stalled: {one_run}"));
}
