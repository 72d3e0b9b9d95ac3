//! Operations on whole clusters: confirmed, run, watched, resumed.

use super::*;
use marin_tui::app::operation::confirmation::{Check, Control};
use marin_tui::app::operation::progress::{Ending, OperationState};
use marin_tui::app::{Keymap, Listed, actions};
use marin_tui::config::{Env, Folders, Settings};
use marin_tui::operation::preflight;
use marin_tui::supervisor::Options;
use marin_tui::token::TokenSources;

fn orders(order: Order) -> Effect {
    Effect::Operate(ClusterName::new(CLUSTER), order)
}

fn send_event(app: &mut App, event: OperationEvent) -> Vec<Effect> {
    app.update(Event::Operation(ClusterName::new(CLUSTER), event), NOW)
}

fn affected(id: &str, owner: &str, restoration: Restoration) -> AffectedJob {
    AffectedJob { restoration, ..AffectedJob::of(&job(id, JobStatus::Running, owner, 60)) }
}

fn previewed(owners: &[&str]) -> OperationEvent {
    let jobs =
        owners.iter().enumerate().map(|(i, o)| affected(&format!("job-{i}"), o, Restoration::Back)).collect();
    OperationEvent::Previewed(
        Task::Restart { preserve: true },
        Preview { jobs, me: "alice".into(), problem: None, ..Preview::default() },
    )
}

/// Makes the cluster unreachable: a running cluster cannot be started.
fn lose(app: &mut App) {
    let gone = problem(ProblemKind::Unreachable, "it cannot be reached", "");
    send_update(app, CLUSTER, ClusterEvent::Link(Link::Retrying { problem: gone, at: NOW }));
}

fn plan(app: &App) -> &marin_tui::app::Plan {
    let Some(Dialog::Plan(plan)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    plan
}

fn restart() -> Operation {
    Operation::new(Task::Restart { preserve: true }, ClusterName::new(CLUSTER))
}

fn operation_state(app: &App) -> &OperationState {
    &app.current().unwrap().running.as_ref().unwrap().state
}

#[test]
fn letters_typed_in_a_confirmation_are_entered_as_the_name() {
    let mut app = shown();
    press(&mut app, "R");
    send_event(&mut app, previewed(&["alice"]));
    press(&mut app, "marin");
    assert_eq!((plan(&app).control, plan(&app).name.text()), (Control::Name, "marin"));
    press(&mut app, "<esc>R");
    send_event(&mut app, previewed(&["alice"]));
    let copied = press(&mut app, "Y");
    assert!(matches!(&copied[..], [Effect::Copy { .. }]), "the key copies the announcement: {copied:?}");
    press(&mut app, "j");
    assert!(plan(&app).name.text().is_empty(), "it scrolls");
    // Removing a worker does not require typing a name.
    let removes = Task::RemoveWorker { worker: "w".into(), drain: None };
    assert!(!marin_tui::app::Plan::new(removes, ClusterName::new("lab"), Vec::new()).requires_name());
}

#[test]
fn a_control_key_is_not_the_first_letter_of_the_name() {
    let mut app = app(&["us-central2"]);
    app.start(None);
    send_update(&mut app, "us-central2", ClusterEvent::Link(up()));
    send_update(&mut app, "us-central2", ClusterEvent::Snapshot(Arc::new(snapshot())));
    press(&mut app, "R<^u>");
    assert!(plan(&app).control == Control::Cancel && plan(&app).is_scrolled, "it scrolls");
    press(&mut app, "us");
    assert_eq!((plan(&app).control, plan(&app).name.text()), (Control::Name, "us"));
}

#[test]
fn a_restart_requires_the_complete_name() {
    let mut app = shown();
    assert_eq!(press(&mut app, "R"), [orders(Order::Preview(Task::Restart { preserve: true }))]);
    assert_eq!((app.context(), plan(&app).control), (Context::Plan, Control::Cancel));
    let open: Vec<String> = plan(&app).preview.jobs.iter().map(|j| j.key.to_string()).collect();
    assert_eq!(open.len(), 4, "known jobs are shown during the check: {open:?}");
    // Cancel has the focus.
    assert_eq!(press(&mut app, "<enter>"), []);
    assert!(app.dialog().is_none());

    press(&mut app, "R");
    send_event(&mut app, previewed(&["alice"]));
    press(&mut app, "<tab><tab>");
    assert_eq!(plan(&app).control, Control::Name);
    press(&mut app, "marin-us-centralq<backspace>");
    assert_eq!(press(&mut app, "<enter><enter>"), []);
    assert!(plan(&app).problem.contains("cluster's name"), "{}", plan(&app).problem);
    press(&mut app, "<tab><tab><tab>");
    app.update(Event::Paste("2\nrm -rf".into()), NOW);
    assert_eq!(plan(&app).name.text(), CLUSTER, "only one line is pasted");
    assert_eq!(
        press(&mut app, "<enter><enter>"),
        [orders(begins(Task::Restart { preserve: true }, Others::default()))]
    );
    assert_eq!(app.context(), Context::Progress);
}

#[test]
fn other_peoples_jobs_block_a_restart_until_allowed() {
    let mut app = shown();
    press(&mut app, "R");
    send_event(&mut app, previewed(&["alice", "bo", "carol"]));
    let controls = [Control::Cancel, Control::Jobs, Control::Others, Control::Name, Control::Go];
    assert_eq!(plan(&app).controls(), controls);
    press(&mut app, "<tab><tab><tab>marin-us-central2<enter>");
    assert_eq!(press(&mut app, "<enter>"), []);
    assert!(plan(&app).problem.contains("jobs owned by bo or carol"), "{}", plan(&app).problem);
    press(&mut app, "<tab><tab><tab> <tab><tab>");
    assert!(plan(&app).others && plan(&app).control == Control::Go);
    let others = Others { people: vec!["bo".into(), "carol".into()], unowned: Vec::new() };
    assert_eq!(press(&mut app, "<enter>"), [orders(begins(Task::Restart { preserve: true }, others))]);
}

#[test]
fn jobs_of_unknown_owner_block_a_restart_like_other_peoples_jobs() {
    let mut app = shown();
    press(&mut app, "R");
    let unowned = |id: &str| AffectedJob { owner: None, ..affected(id, "", Restoration::Back) };
    let seen = |jobs| {
        let preview = Preview { jobs, me: "alice".into(), problem: None, ..Preview::default() };
        OperationEvent::Previewed(Task::Restart { preserve: true }, preview)
    };
    send_event(&mut app, seen(vec![affected("mine", "alice", Restoration::Back), unowned("raysubmit_1")]));
    assert_eq!(
        plan(&app).controls(),
        [Control::Cancel, Control::Jobs, Control::Others, Control::Name, Control::Go]
    );
    press(&mut app, "<tab><tab><tab>marin-us-central2<enter>");
    assert_eq!(press(&mut app, "<enter>"), []);
    assert!(plan(&app).problem.contains("unknown owner (raysubmit_1)"), "{}", plan(&app).problem);
    let [Effect::Copy { text, .. }] = &press(&mut app, "<tab>Y")[..] else { panic!("nothing is copied") };
    assert!(text.contains("raysubmit_1 (owner unknown): will be restored"), "{text}");
    press(&mut app, "<tab><tab> ");
    assert!(plan(&app).others);
    // Another job of unknown owner: the permission did not include it.
    send_event(&mut app, seen(vec![unowned("raysubmit_1"), unowned("raysubmit_2")]));
    assert!(!plan(&app).others);
    press(&mut app, " <tab><tab>");
    let unowned =
        ["raysubmit_1", "raysubmit_2"].map(|id| JobKey::Submission(SubmissionId(id.into()))).to_vec();
    let others = Others { people: Vec::new(), unowned };
    assert_eq!(press(&mut app, "<enter>"), [orders(begins(Task::Restart { preserve: true }, others))]);
}

#[test]
fn the_announcement_lists_every_job_and_whether_it_is_restored() {
    let mut app = shown();
    press(&mut app, "R");
    let lost = affected("04000000", "bo", Restoration::Lost("started by hand".into()));
    let jobs = vec![affected("train\x1b-1", "alice", Restoration::Back), lost];
    send_event(
        &mut app,
        OperationEvent::Previewed(
            Task::Restart { preserve: true },
            Preview { jobs, me: "alice".into(), problem: None, ..Preview::default() },
        ),
    );
    let effects = press(&mut app, "Y");
    let [Effect::Copy { what, text }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(what, "announcement");
    assert!(
        text.contains("restart marin-us-central2") && text.contains("train·-1 (alice): will be restored"),
        "{text}"
    );
    assert!(text.contains("04000000 (bo): will be lost: started by hand"), "{text}");
}

#[test]
fn disabling_the_backup_requires_a_new_preview() {
    let mut app = shown();
    press(&mut app, "R");
    send_event(&mut app, previewed(&["alice"]));
    assert_eq!(press(&mut app, "<tab> "), [orders(Order::Preview(Task::Restart { preserve: false }))]);
    assert!(plan(&app).operation.consequence.contains("lost") && plan(&app).check == Check::Running);
}

#[test]
fn the_mouse_presses_the_buttons_of_a_plan_and_of_a_form() {
    let mut app = shown();
    lose(&mut app);
    press(&mut app, "S");
    send_event(&mut app, OperationEvent::Previewed(Task::Start, Preview::default()));
    paint(&mut app, 120, 40);
    let [cancel, go] = areas(&app, 120, 40).buttons.unwrap();
    let started = point(&mut app, CLICK, go.x + 2, go.y);
    assert_eq!(started, [orders(begins(Task::Start, Others::default()))]);
    press(&mut app, "<esc>S");
    send_event(&mut app, OperationEvent::Previewed(Task::Start, Preview::default()));
    paint(&mut app, 120, 40);
    assert_eq!(point(&mut app, CLICK, cancel.x + 2, cancel.y), []);
    assert!(app.dialog().is_none());
    press(&mut app, "nhalf a command");
    paint(&mut app, 120, 40);
    point(&mut app, CLICK, 0, 0);
    assert_eq!(app.context(), Context::Form, "a click outside keeps typed text");
}

#[test]
fn a_refused_operation_offers_only_cancel() {
    let mut app = shown();
    lose(&mut app);
    press(&mut app, "S");
    let refused = problem(ProblemKind::Other, "start is not offered for provider x", "use ray by hand");
    let refused = Refusal::new(RefusalReason::NotOffered, refused);
    // The refusal of an earlier preview belongs to a confirmation that is closed.
    let of_task = |task| OperationEvent::Refused(OperationKind::Start, task, refused.clone());
    send_event(&mut app, of_task(Some(Task::Restart { preserve: true })));
    assert_eq!(plan(&app).check, Check::Running);
    assert!(said(&app).contains("start is not offered"), "{}", said(&app));
    send_event(&mut app, of_task(Some(Task::Start)));
    assert_eq!(plan(&app).controls(), [Control::Cancel]);
    press(&mut app, "<tab><tab>");
    assert_eq!(press(&mut app, "<enter>"), []);
    assert!(app.dialog().is_none());
}

/// Changes since the preview are refused by the service, and allowed by an operator who has read the question: never by
/// the same key press.
#[test]
fn what_is_refused_can_be_allowed_in_a_separate_question() {
    let mut app = shown();
    let stopped = JournaledOperation {
        operation: restart(),
        since: before(600),
        done: Vec::new(),
        why: String::new(),
        saved: None,
        elsewhere: false,
    };
    send_event(&mut app, OperationEvent::Journaled(Some(stopped)));
    assert_eq!(press(&mut app, "u"), [orders(Order::Resume(consent()))]);
    let allowed = Order::Resume(Consent { unknown: true, ..consent() });
    let refusal = Refusal {
        reason: RefusalReason::UnknownJobs,
        problem: problem(
            ProblemKind::Unreachable,
            "cannot determine affected jobs on marin-us-central2",
            "wait",
        ),
        allow: Some(Box::new(allowed.clone())),
    };
    let refused = OperationEvent::Refused(OperationKind::Restart, None, refusal);
    send_event(&mut app, refused.clone());
    assert_eq!(press(&mut app, "<enter>"), [], "cancel has the focus");
    assert!(app.dialog().is_none());
    press(&mut app, "p");
    send_event(&mut app, refused.clone());
    assert_eq!(press(&mut app, "y"), [orders(allowed)]);
    assert_eq!(app.context(), Context::Progress);
    // An operator on another page only gets a message, and no dialog waits for a key that was meant for something else.
    press(&mut app, "<esc>");
    send_event(&mut app, refused);
    assert!(
        app.dialog().is_none() && said(&app).contains("cannot determine affected jobs"),
        "{}",
        said(&app)
    );
}

#[test]
fn progress_can_be_watched_closed_and_reopened() {
    let mut app = shown();
    // The cluster's task is notified, because Ray's restart is then expected.
    let began = send_event(&mut app, OperationEvent::Began(restart()));
    assert_eq!(began, [asks(Request::Operated(true))]);
    press(&mut app, "p");
    assert_eq!(app.context(), Context::Progress);
    send_event(&mut app, OperationEvent::Progress(Progress::Began(StepName::Check)));
    assert!(app.next_change(NOW).unwrap() <= Duration::from_secs(1), "its duration is counted");
    assert_eq!(press(&mut app, "C"), [orders(Order::Cancel)]);
    assert_eq!(*operation_state(&app), OperationState::Cancelling);
    send_event(&mut app, OperationEvent::Progress(Progress::Began(StepName::Stop)));
    assert_eq!(*operation_state(&app), OperationState::Running, "the cancellation came too late");
    assert_eq!(press(&mut app, "C"), []);
    assert!(said(&app).contains("changes have already been made"), "{}", said(&app));
    press(&mut app, "<esc><esc>");
    assert!(app.dialog().is_none());
    // No other operation can start in the meantime.
    press(&mut app, "X");
    assert_eq!(app.context(), Context::Progress);
    press(&mut app, "<esc><esc>");
    let lost = problem(ProblemKind::TunnelLost, "the connection broke", "");
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Retrying { problem: lost, at: NOW }));
    assert_eq!(app.fleet().alerts(), 0, "a cluster is expected to be unreachable during a restart");
    let answer = Progress::Done(StepName::WaitForRay, "session".into());
    assert_eq!(send_event(&mut app, OperationEvent::Progress(answer)), [asks(Request::Refresh)]);
    let ended = send_event(&mut app, OperationEvent::Ended(OperationEnd::Done));
    assert_eq!(ended, [asks(Request::Operated(false)), asks(Request::Refresh)]);
    assert!(said(&app).contains("restart marin-us-central2: done"), "{}", said(&app));
}

#[test]
fn a_restart_that_could_not_submit_all_jobs_is_not_reported_as_a_success() {
    let mut app = shown();
    send_event(&mut app, OperationEvent::Began(restart()));
    let changed = Changed {
        saved: Some("/backups/one".into()),
        not_restored: vec!["orphan".into()],
        ..Changed::default()
    };
    send_event(&mut app, OperationEvent::Changed(changed));
    send_event(&mut app, OperationEvent::Ended(OperationEnd::Done));
    let said = said(&app);
    assert!(said.contains("not restored: orphan") && said.contains("restore-jobs /backups/one"), "{said}");
    press(&mut app, "<esc>p");
    let shortfall = app.watched().unwrap().shortfall.as_ref().map(|missing| missing.what.as_str());
    assert_eq!(shortfall, Some("not restored: orphan"), "its page keeps it");
}

#[test]
fn an_interrupted_operation_opens_automatically_and_can_be_resumed_skipped_or_abandoned() {
    let journaled = |done: &[StepName], elsewhere| JournaledOperation {
        operation: restart(),
        since: before(600),
        done: done.iter().map(|s| (*s, String::new())).collect(),
        why: "10.0.0.7 cannot be cleared".into(),
        saved: Some("/state/backups/x".into()),
        elsewhere,
    };
    let before_clear = [StepName::Check, StepName::ReadState, StepName::Backup, StepName::Stop];
    let mut app = shown();
    send_event(&mut app, OperationEvent::Journaled(Some(journaled(&before_clear[..2], true))));
    assert!(app.dialog().is_none(), "another process is running it: no dialog is opened");
    press(&mut app, "p");
    assert_eq!(press(&mut app, "u"), [], "only the process that runs it can resume it");
    press(&mut app, "<esc>");
    send_event(&mut app, OperationEvent::Journaled(None));

    let mut app = shown();
    send_event(&mut app, OperationEvent::Journaled(Some(journaled(&before_clear, false))));
    assert_eq!(app.context(), Context::Progress, "it opens automatically");
    assert_eq!(app.watched().unwrap().brief(), "restart 5/9 interrupted");
    assert_eq!(press(&mut app, "u"), [orders(Order::Resume(consent()))]);
    assert_eq!(press(&mut app, "f"), [orders(Order::SkipStep(consent()))]);
    assert_eq!(press(&mut app, "x<enter>"), [], "cancel has the focus");
    assert_eq!(press(&mut app, "xy"), [orders(Order::Abandon)]);
    send_event(&mut app, OperationEvent::Ended(OperationEnd::Abandoned));
    assert_eq!(*operation_state(&app), OperationState::Ended(Ending::Abandoned), "its page shows the end");

    // Later steps depend on the stop.
    let mut app = shown();
    send_event(&mut app, OperationEvent::Journaled(Some(journaled(&before_clear[..3], false))));
    assert_eq!(press(&mut app, "f"), []);
    assert!(said(&app).contains("cannot skip"), "{}", said(&app));
}

#[test]
fn read_only_refuses_actions_that_change_a_cluster_with_a_message() {
    let keymap = Keymap::with_changes(actions(), &std::collections::BTreeMap::new()).unwrap();
    let mut app = App::new(vec![Listed::Cluster(spec(CLUSTER))], keymap).with_read_only(true);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot())));
    // Written manually: a list derived from the table would agree with whatever it contains.
    let changing = [
        "restart-cluster",
        "start-cluster",
        "stop-cluster",
        "add-worker",
        "remove-worker",
        "init-worker",
        "resume",
        "skip-step",
        "abandon",
        "cancel",
        "stop-job",
        "delete-job",
        "submit-job",
        "resubmit-job",
        "clean-preempted",
        "host-key",
    ];
    for name in changing {
        let action = marin_tui::app::action_named(name).unwrap();
        assert_eq!(app.act(action, NOW), [], "{name}");
        assert!(app.dialog().is_none() && said(&app).starts_with(&format!("{name} refused: read-only")));
    }
    for action in actions().iter().filter(|action| !changing.contains(&action.describe().name)) {
        assert!(!action.changes_a_cluster(), "{action:?} is refused; is it in the list above?");
    }
    assert!(!footer(&mut app).contains("R restart"));
    // The progress of an operation can still be seen.
    send_event(&mut app, OperationEvent::Began(restart()));
    press(&mut app, "p");
    assert_eq!(app.context(), Context::Progress);
}

#[test]
fn quitting_during_an_operation_requires_confirmation() {
    let mut app = shown();
    assert_eq!(press(&mut app, "q"), [Effect::Quit]);
    send_event(&mut app, OperationEvent::Began(restart()));
    assert_eq!(press(&mut app, "q"), []);
    assert_eq!(press(&mut app, "<enter>"), [], "cancel has the focus");
    assert_eq!(press(&mut app, "qy"), [Effect::Quit]);
    assert_eq!(press(&mut app, "<^c>"), [Effect::Quit], "immediately");
}

#[test]
fn hints_offer_operations_only_on_clusters_that_do_not_refuse_them() {
    let home = tempfile::tempdir().unwrap();
    let env = Env::new(&[("HOME", home.path().to_str().unwrap())], home.path());
    let options = Options::new(&Settings::default(), &Folders::new(&env), TokenSources::default());
    for file in [None, Some("lab.yaml".into())] {
        for provider in [Provider::None, Provider::Gcp, Provider::Local, Provider::Other("aws")] {
            let google = GoogleNames { project: Some("hai-test".into()), ..GoogleNames::default() };
            let cluster = ClusterSpec { file: file.clone(), provider, google, ..spec("lab") };
            let is_refused = preflight(&cluster, &options, &Task::Stop).is_err();
            assert_eq!(cluster.no_operations().is_some(), is_refused, "{:?} {provider}", cluster.file);
        }
    }
}
