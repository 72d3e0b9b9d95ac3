//! One table of scenarios before an operation, run through both front ends: the console's keys, effects and events, and
//! the command line. Both give the same verdict, asserted on facts: the reason of the refusal, or the first step's command.

mod console;

use crate::cloud_fixture::CloudFixture;
use crate::program::kill;
use crate::pty::Pty;
use crate::until::until;
use console::Console;
use marin_tui::app::operation::confirmation::Control;
use marin_tui::app::{App, Dialog, Effect, Event, Keymap, Listed, actions};
use marin_tui::demo::google::PROJECT;
use marin_tui::model::{
    ClusterName, Consent, JournaledOperation, Operation, OperationEvent, OperationKind, OperationLock, Order,
    RefusalReason, StepName, Task, Timestamp,
};
use marin_tui::operation::{Facts, Journal, Scope};
use marin_tui::supervisor::{self, Access, Connection, LockOwnership};
use marin_tui::tui::Performer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc;

const RESTART: Task = Task::Restart { preserve: false };

/// The outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Its first step began: the ray command was asked for its version.
    Began,
    /// It was refused for this reason, and no step began.
    Refused(RefusalReason),
}
use Verdict::{Began, Refused};

/// An action of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Begins a restart.
    Begin,
    /// Resumes the restart that is shown.
    Resume,
    /// Skips the step at which it failed.
    Skip,
}

/// A scenario, and its verdicts when nothing is allowed, and when everything that is asked for is allowed (`--others`,
/// the dialog's switches).
struct Scenario {
    name: &'static str,
    set: fn(&mut CloudFixture) -> Option<Journal>,
    act: Act,
    verdict: Verdict,
    allowed: Verdict,
}

const SCENARIOS: &[Scenario] = &[
    row("nothing in the way", |w| head(w, &[]), Act::Begin, Began, Began),
    row("our own job", |w| head(w, &["me"]), Act::Begin, Began, Began),
    row("somebody else's job", |w| head(w, &["bo"]), Act::Begin, Refused(RefusalReason::OthersJobs), Began),
    row("a job without an owner", |w| head(w, &[""]), Act::Begin, Refused(RefusalReason::OthersJobs), Began),
    row("no answer", |_| None, Act::Begin, Refused(RefusalReason::UnknownJobs), Began),
    row("no answer, unchanged", |w| begun(w, &[]), Act::Resume, Refused(RefusalReason::UnknownJobs), Began),
    row(
        "no answer, changed",
        |w| begun(w, &[StepName::Check, StepName::ReadState, StepName::Stop]),
        Act::Resume,
        Began,
        Began,
    ),
    row(
        "a job came since",
        |w| {
            head(w, &["bo"]);
            begun(w, &[])
        },
        Act::Resume,
        Refused(RefusalReason::OthersJobs),
        Began,
    ),
    row(
        "another operation was interrupted",
        |w| {
            head(w, &[]);
            Some(journal(w, &Task::Stop, &Scope::default(), &[]))
        },
        Act::Begin,
        Refused(RefusalReason::Interrupted),
        Refused(RefusalReason::Interrupted),
    ),
    row(
        "another program is at work",
        |w| Some(held(w)),
        Act::Begin,
        Refused(RefusalReason::OperationRunning),
        Refused(RefusalReason::OperationRunning),
    ),
    row(
        "another program resumed it",
        |w| Some(held(w)),
        Act::Resume,
        Refused(RefusalReason::OperationRunning),
        Refused(RefusalReason::OperationRunning),
    ),
    row(
        "the file is another cluster's",
        |w| {
            let other = Scope { file: Some("/elsewhere/a.yaml".into()), ..Scope::default() };
            Some(journal(w, &RESTART, &other, &[]))
        },
        Act::Resume,
        Refused(RefusalReason::OtherFile),
        Refused(RefusalReason::OtherFile),
    ),
    row(
        "an operation of another kind",
        |w| Some(journal(w, &Task::Stop, &Scope::default(), &[])),
        Act::Resume,
        Refused(RefusalReason::OtherKind),
        Refused(RefusalReason::OtherKind),
    ),
    row(
        "a step that later ones depend on",
        |w| begun(w, &[StepName::Check, StepName::ReadState]),
        Act::Skip,
        Refused(RefusalReason::NotSkippable),
        Refused(RefusalReason::NotSkippable),
    ),
    row(
        "a step that may be skipped",
        |w| begun(w, &[StepName::Check, StepName::ReadState, StepName::Stop]),
        Act::Skip,
        Began,
        Began,
    ),
    row(
        "nothing to resume",
        |w| {
            head(w, &[]);
            None
        },
        Act::Resume,
        Refused(RefusalReason::NothingToResume),
        Refused(RefusalReason::NothingToResume),
    ),
    row(
        "read-only",
        |w| {
            read_only(w);
            head(w, &[])
        },
        Act::Begin,
        Refused(RefusalReason::ReadOnly),
        Refused(RefusalReason::ReadOnly),
    ),
    row(
        "read-only, interrupted",
        |w| {
            read_only(w);
            begun(w, &[StepName::Check, StepName::ReadState, StepName::Stop])
        },
        Act::Resume,
        Refused(RefusalReason::ReadOnly),
        Refused(RefusalReason::ReadOnly),
    ),
    row(
        "another operator's mark",
        |w| {
            head(w, &[]);
            marked(w)
        },
        Act::Begin,
        Refused(RefusalReason::Locked),
        Began,
    ),
    row(
        "another operator's mark, interrupted",
        |w| {
            begun(w, &[StepName::Check, StepName::ReadState, StepName::Stop]);
            marked(w)
        },
        Act::Resume,
        Refused(RefusalReason::Locked),
        Began,
    ),
    row(
        "a provider that is not offered",
        |w| {
            let file = format!("cluster_name: marin-a\nprovider: {{type: aws, project_id: {PROJECT}}}\n");
            w.file("infra/a.yaml", &file);
            None
        },
        Act::Begin,
        Refused(RefusalReason::NotOffered),
        Refused(RefusalReason::NotOffered),
    ),
];

const fn row(
    name: &'static str,
    set: fn(&mut CloudFixture) -> Option<Journal>,
    act: Act,
    verdict: Verdict,
    allowed: Verdict,
) -> Scenario {
    Scenario { name, set, act, verdict, allowed }
}

fn state(fixture: &CloudFixture) -> PathBuf {
    fixture.home.path().join(".local/state/marin-tui")
}

fn cluster() -> ClusterName {
    ClusterName::new("marin-a")
}

/// A head that responds, with a job of each of these owners; `""` stands for a job without an owner.
fn head(fixture: &mut CloudFixture, owners: &[&str]) -> Option<Journal> {
    fixture.head_of(|s| s.jobs = 0);
    for (n, owner) in owners.iter().enumerate() {
        job(fixture, n, owner);
    }
    None
}

fn job(fixture: &CloudFixture, n: usize, owner: &str) {
    let owner = if owner.is_empty() { "x=y".to_owned() } else { format!("owner={owner}") };
    let words = format!("submit-job --no-wait --submission-id job-{n} --metadata {owner} -- true");
    // The submitter becomes the owner of a job that names none.
    let out = fixture.command(&words).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// An operation that was started and interrupted after these steps.
fn journal(fixture: &CloudFixture, task: &Task, scope: &Scope, done: &[StepName]) -> Journal {
    let mut journal = Journal::open(&state(fixture), &cluster()).unwrap();
    journal.begin(task, scope).unwrap();
    let stopping = done.contains(&StepName::Stop);
    journal.facts(&Facts { stopping, ..Facts::default() }).unwrap();
    for step in done {
        journal.done(*step, "").unwrap();
    }
    journal
}

fn begun(fixture: &mut CloudFixture, done: &[StepName]) -> Option<Journal> {
    // No process holds it.
    drop(journal(fixture, &RESTART, &Scope::default(), done));
    None
}

/// The same, held by this process.
fn held(fixture: &mut CloudFixture) -> Journal {
    head(fixture, &[]);
    journal(fixture, &RESTART, &Scope::default(), &[])
}

/// Another operator has started an operation from another machine.
fn marked(fixture: &CloudFixture) -> Option<Journal> {
    let environment = fixture.environment();
    let stop = Operation::new(Task::Stop, cluster());
    let mark = OperationLock::new("00000000aaaaaaaa".into(), &stop, "bo@elsewhere", 77, Timestamp::now());
    let access = Access {
        spec: &environment.clusters[0],
        options: &environment.options,
        connection: &Connection::closed(cluster()),
    };
    let placed = fixture.runtime.block_on(supervisor::acquire_lock(access, &mark));
    assert_eq!(placed.unwrap(), LockOwnership::Ours);
    None
}

fn read_only(fixture: &CloudFixture) {
    let path = fixture.home.path().join("config.yaml");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    settings["read_only"] = true.into();
    fs::write(path, settings.to_string()).unwrap();
}

/// A fixture in which an operation gets no further than its first step.
fn fixture() -> CloudFixture {
    let fixture = CloudFixture::new();
    let home_dir = fixture.home.path().display();
    fixture.program("ray", &format!("echo \"$@\" >>{home_dir}/calls\nexit 1\n"));
    fixture
}

fn has_begun(fixture: &CloudFixture) -> bool {
    // The head's address is looked up with other arguments.
    fixture.calls().iter().any(|word| word == "--version")
}

fn by_command(scenario: &Scenario, allows: bool) -> Verdict {
    let mut fixture = fixture();
    let held = (scenario.set)(&mut fixture).filter(|_| scenario.name.starts_with("another program"));
    let act = match scenario.act {
        Act::Begin => "--preserve-jobs=0 --yes",
        Act::Resume => "--resume",
        Act::Skip => "--resume --skip-failed-step",
    };
    let others = if allows { "--others --take-over" } else { "" };
    let mut command = fixture.command(&format!("restart-cluster --json {act} {others}"));
    let out = command.env("USER", "me").output().unwrap();
    drop(held);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{}: {said}", scenario.name);
    let rows: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    if let Some(name) = rows[0]["refused"].as_str() {
        assert!(!has_begun(&fixture), "{}: {said}", scenario.name);
        Refused(refusal_reason(name))
    } else {
        assert!(has_begun(&fixture), "{}: neither begun nor refused: {said}", scenario.name);
        Began
    }
}

fn refusal_reason(name: &str) -> RefusalReason {
    let all = [
        RefusalReason::ReadOnly,
        RefusalReason::NotOffered,
        RefusalReason::AlreadyRunning,
        RefusalReason::Interrupted,
        RefusalReason::OperationRunning,
        RefusalReason::NothingToResume,
        RefusalReason::OtherKind,
        RefusalReason::OtherFile,
        RefusalReason::NotSkippable,
        RefusalReason::UnknownJobs,
        RefusalReason::WorkerBusy,
        RefusalReason::OthersJobs,
        RefusalReason::Locked,
        RefusalReason::NotChecked,
        RefusalReason::NotConfirmed,
        RefusalReason::Journal,
    ];
    *all.iter().find(|g| g.name() == name).unwrap_or_else(|| panic!("no reason {name}"))
}

fn by_console(scenario: &Scenario, allows: bool) -> Verdict {
    let mut fixture = fixture();
    let held = (scenario.set)(&mut fixture).filter(|_| scenario.name.starts_with("another program"));
    let mut console = Console::new(&fixture);
    let verdict = match scenario.act {
        Act::Begin => console.begins(allows, || ()),
        act => console.resumes(act, allows),
    };
    if verdict == Began {
        until("its first step is begun", || has_begun(&fixture));
    } else {
        assert!(!has_begun(&fixture), "{}", scenario.name);
    }
    drop(held);
    verdict
}

/// The wrong verdicts on a scenario, as messages.
fn wrong(scenario: &Scenario) -> Vec<String> {
    let name = scenario.name;
    let verdicts = [(false, scenario.verdict), (true, scenario.allowed)].into_iter().filter_map(|(allows, right)| {
        let (command, console) = (by_command(scenario, allows), by_console(scenario, allows));
        ((command, console) != (right, right)).then(|| {
            format!(
                "{name} (allowed: {allows}): {right:?} is right; {command:?} by the command, {console:?} by the console"
            )
        })
    });
    verdicts.collect()
}

#[test]
fn both_front_ends_give_the_same_verdict() {
    // The scenarios mostly wait, so they run in parallel.
    let wrong: Vec<String> = thread::scope(|scope| {
        let rows = SCENARIOS.chunks(SCENARIOS.len().div_ceil(6));
        let works: Vec<_> =
            rows.map(|rows| scope.spawn(|| rows.iter().flat_map(wrong).collect::<Vec<_>>())).collect();
        works.into_iter().flat_map(|work| work.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_job_submitted_between_preview_and_confirmation_is_not_ended() {
    let mut by_console = fixture();
    head(&mut by_console, &["me"]);
    let verdict = Console::new(&by_console).begins(false, || job(&by_console, 1, "bo"));
    assert_eq!(verdict, Refused(RefusalReason::OthersJobs));
    assert!(!has_begun(&by_console));

    let mut by_command = fixture();
    head(&mut by_command, &["me"]);
    let mut command = by_command.command("restart-cluster --preserve-jobs=0");
    command.env("USER", "me");
    let mut terminal = Pty::of(&command, 160, 40);
    terminal.wait_text("Type the cluster name");
    job(&by_command, 1, "bo");
    terminal.send("marin-a\r");
    terminal.wait_text("jobs owned by bo run on marin-a");
    assert!(!terminal.wait_exit().success() && !has_begun(&by_command));
}

#[test]
fn one_login_serves_from_the_start_to_a_resumed_operation() {
    let mut fixture = fixture();
    head(&mut fixture, &["me"]);
    let before = fixture.heads[0].1.logins();
    let mut console = Console::new(&fixture);
    // The offers for a new worker, the preview, the steps, and the steps once more.
    console.perform(vec![Effect::Operate(cluster(), Order::ListOffers)]);
    console.wait_for_event(|event| matches!(event, OperationEvent::Offered(_)).then_some(()));
    assert_eq!(console.begins(false, || ()), Began);
    let is_stopped = |event: &OperationEvent| matches!(event, OperationEvent::Ended(_)).then_some(());
    console.wait_for_event(is_stopped);
    let meant = Consent { expected_kind: Some(OperationKind::Restart), ..Consent::default() };
    console.perform(vec![Effect::Operate(cluster(), Order::Resume(meant))]);
    console.wait_for_event(is_stopped);
    assert_eq!(fixture.calls().iter().filter(|word| *word == "--version").count(), 2);
    assert_eq!(fixture.heads[0].1.logins() - before, 1);
}

/// Whether an interrupted operation is left to resume.
fn is_interrupted(fixture: &CloudFixture) -> bool {
    Journal::open(&state(fixture), &cluster()).unwrap().unfinished().is_some()
}

#[test]
fn a_cancel_before_any_change_leaves_nothing_and_after_one_an_interrupted_operation() {
    for (done, remains) in
        [(&[][..], false), (&[StepName::Check, StepName::ReadState, StepName::Stop][..], true)]
    {
        let hangs = |fixture: &CloudFixture| {
            let home_dir = fixture.home.path().display().to_string();
            let script = format!(
                "echo \"$@\" >>{home_dir}/calls\nwhile [ ! -e {home_dir}/go-on ]; do sleep 0.05; done\nexit 1\n"
            );
            fixture.program("ray", &script);
        };
        let mut by_command = fixture();
        head(&mut by_command, &[]);
        begun(&mut by_command, done);
        hangs(&by_command);
        let child = by_command.spawn("restart-cluster --resume --others");
        until("its first step is begun", || has_begun(&by_command));
        kill("-INT", child.child.id());
        let (code, _, said) = child.finish();
        assert_eq!((code, is_interrupted(&by_command)), (Some(1), remains), "{said}");

        let mut by_console = fixture();
        head(&mut by_console, &[]);
        begun(&mut by_console, done);
        hangs(&by_console);
        let mut console = Console::new(&by_console);
        assert_eq!(console.resumes(Act::Resume, true), Began);
        until("its first step is begun", || has_begun(&by_console));
        let cancel = vec![Effect::Operate(cluster(), Order::Cancel)];
        console.perform(cancel);
        if remains {
            // The cancel comes too late, and the step fails on its own.
            by_console.file("go-on", "");
        }
        console.wait_for_event(|event| matches!(event, OperationEvent::Ended(_)).then_some(()));
        drop(console);
        assert_eq!(is_interrupted(&by_console), remains);
    }
}
