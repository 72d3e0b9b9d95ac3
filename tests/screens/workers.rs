//! Manually added and removed workers on the screen: the form, the confirmations, the progress.

use super::*;
use marin_tui::app::{Dialog, Effect};

fn send_event(app: &mut App, event: OperationEvent) -> Vec<Effect> {
    app.update(Event::Operation(ClusterName::new(CLUSTER), event), NOW)
}

/// Sends the preview that the dialog requested.
fn send_preview(app: &mut App, preview: Preview) {
    let Some(Dialog::Plan(plan)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    send_event(app, OperationEvent::Previewed(plan.operation.task.clone(), preview));
}

/// As many types as one of Marin's cluster files has.
fn offer() -> WorkerOffer {
    let slices = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096].iter();
    let slices =
        slices.map(|n| WorkerType { name: format!("tpu_slice_v4_{n}"), accelerator: format!("v4-{n}") });
    let worker = WorkerType { name: "tpu_worker".into(), accelerator: "v4-8".into() };
    WorkerOffer {
        types: std::iter::once(worker).chain(slices).collect(),
        capacities: ["preemptible", "best-effort", "reserved"].map(String::from).to_vec(),
        last: None,
    }
}

fn affected(id: &str, owner: &str, tpu: f64, restoration: Restoration) -> AffectedJob {
    let holds = Some(vec![("TPU".into(), tpu)]);
    AffectedJob { restoration, holds, ..AffectedJob::of(&job(id, JobStatus::Running, owner, 21_720)) }
}

#[test]
fn the_form_shows_loading_choices_and_errors() {
    let mut app = shown();
    press(&mut app, "a");
    snap("worker_form_looking", &mut app);
    send_event(&mut app, OperationEvent::Offered(Ok(offer())));
    press(&mut app, "<left><left>");
    snap_at_sizes("worker_form", &mut app);
    press(&mut app, "<down><down><backspace>70<down>My worker");
    snap("worker_form_wrong", &mut app);
    press(&mut app, "<esc><esc>a");
    let missing = problem(
        ProblemKind::Login,
        "not logged in to Google Cloud on this machine (no application-default credentials)",
        Fix::command("log in to Google", "gcloud auth application-default login"),
    );
    send_event(&mut app, OperationEvent::Offered(Err(missing)));
    snap("worker_form_failed", &mut app);
}

#[test]
fn a_host_is_added_by_its_address() {
    let mut app = shown();
    press(&mut app, "a");
    let last = Some(NewWorker::Host { address: "10.0.0.6".into() });
    send_event(&mut app, OperationEvent::Offered(Ok(WorkerOffer { last, ..WorkerOffer::default() })));
    press(&mut app, "10.0.0.7");
    snap("worker_form_host", &mut app);
}

#[test]
fn the_plan_shows_the_exact_request_to_google() {
    let mut app = shown();
    press(&mut app, "a");
    send_event(&mut app, OperationEvent::Offered(Ok(offer())));
    press(&mut app, "<left><tab><tab><backspace>12<tab>exp1395<tab><tab><enter>");
    send_preview(&mut app, Preview::default());
    snap("worker_plan_add", &mut app);
}

#[test]
fn secrets_in_a_request_are_reported_before_it_is_sent() {
    let mut app = shown();
    press(&mut app, "a");
    send_event(&mut app, OperationEvent::Offered(Ok(offer())));
    press(&mut app, "<tab><tab><tab><tab><tab><enter>");
    let warning =
        "in the cluster file, WANDB_API_KEY looks like a secret; the startup script is metadata of the TPU";
    send_preview(&mut app, Preview { warnings: vec![warning.into()], ..Preview::default() });
    snap("worker_plan_warned", &mut app);
}

#[test]
fn a_removal_lists_affected_jobs_and_options() {
    let mut app = shown();
    press(&mut app, "1/worker-02<enter>D");
    let there = |what: &str| Restoration::Lost(what.into());
    let jobs = vec![
        affected("exp1395_qwen3_32b", "alice", 4.0, there("entrypoint, 2 tasks (allowed to finish)")),
        affected("eval-tulu", "bo", 0.0, there("1 actor (allowed to finish)")),
    ];
    let owned_resources = vec!["instance template worker-02".into(), "workload policy worker-02".into()];
    let preview = Preview { jobs, me: "alice".into(), owned_resources, ..Preview::default() };
    send_preview(&mut app, preview);
    snap("worker_plan_remove", &mut app);
}

#[test]
fn progress_of_adding_a_worker_is_shown_until_it_fails() {
    let mut app = shown();
    let names = vec!["ray-worker-manual-1".to_owned()];
    let worker = NewWorker::Queued { node_type: "tpu_worker".into(), capacity: "reserved".into(), names };
    let operation = Operation::new(Task::AddWorker(worker), ClusterName::new(CLUSTER));
    app.update(Event::Operation(ClusterName::new(CLUSTER), OperationEvent::Began(operation)), before(68));
    press(&mut app, "p");
    let progress = |app: &mut App, p| send_event(app, OperationEvent::Progress(p));
    progress(&mut app, Progress::Began(StepName::RequestTpus));
    progress(&mut app, Progress::Done(StepName::RequestTpus, "Google accepted the request".into()));
    progress(&mut app, Progress::Began(StepName::Capacity));
    progress(&mut app, Progress::Output("ray-worker-manual-1: waiting for resources".into()));
    snap("worker_progress", &mut app);
    let refused = problem(
        ProblemKind::Other,
        "ray-worker-manual-1 is refused: quota",
        [
            Verb::Abandon.to("abandon this operation"),
            Verb::RemoveNow.on("ray-worker-manual-1", "delete it"),
            Verb::AddWorker.to("then add it again, or with another capacity"),
        ],
    );
    progress(&mut app, Progress::Failed(StepName::Capacity, refused.clone()));
    send_event(&mut app, OperationEvent::Ended(OperationEnd::Stopped(refused, None)));
    snap("worker_stopped", &mut app);
    press(&mut app, "<esc>");
    let seen = text(&paint(&mut app, Colors::Full, 120, 40));
    assert!(seen.contains("add worker 2/3 interrupted"), "{seen}");
}

#[test]
fn a_restart_with_unknown_affected_jobs_shows_a_warning() {
    let mut app = shown();
    press(&mut app, "R");
    let gone = unreachable("10.0.0.1", "connection refused");
    let preview = Preview { jobs: Vec::new(), me: "alice".into(), problem: Some(gone), ..Preview::default() };
    send_preview(&mut app, preview);
    snap("plan_blind", &mut app);
}

#[test]
fn hostile_offers_are_drawn_at_every_size() {
    let bad = "a\x1b[31m\u{202e}\u{9b}\x07\n\tb";
    let types = vec![WorkerType { name: bad.into(), accelerator: bad.into() }; 3];
    let offer = WorkerOffer { types, capacities: vec![bad.into()], last: None };
    let mut app = shown();
    press(&mut app, "a");
    send_event(&mut app, OperationEvent::Offered(Ok(offer)));
    for keys in ["", "<down>", "<down>9999", "<down>UPPER", "<down>", "<down>"] {
        paint(&mut app, Colors::Full, 200, 40);
        press(&mut app, keys);
        for cell in paint(&mut app, Colors::Full, 200, 40).content() {
            assert!(!cell.symbol().chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)));
        }
        fits(&mut app, keys);
    }
}

/// Twenty types, of which a small window shows only a few.
fn twenty() -> WorkerOffer {
    let one = |n: u32| WorkerType { name: format!("tpu_type_{n:02}"), accelerator: format!("v4-{}", 8 * n) };
    WorkerOffer { types: (1..=20).map(one).collect(), ..offer() }
}

#[test]
fn every_type_can_be_scrolled_to_in_a_small_window() {
    for (width, height) in [(80, 24), (40, 10)] {
        let mut app = shown();
        press(&mut app, "a");
        send_event(&mut app, OperationEvent::Offered(Ok(twenty())));
        let lines = |app: &mut App| {
            let seen = text(&paint(app, Colors::Full, width, height));
            // The markers of the list; those in the border belong to the fields.
            let of_list: String = seen.lines().filter(|l| l.contains("tpu_type_")).collect();
            (seen, of_list.contains(" above"), of_list.contains(" below"))
        };
        let (first, above, below) = lines(&mut app);
        assert!(first.contains("▸ tpu_type_01 (v4-8)") && !above && below, "{first}");
        for n in 2..=20 {
            press(&mut app, "<right>");
            let (seen, above, below) = lines(&mut app);
            assert!(seen.contains(&format!("▸ tpu_type_{n:02}")), "{width}x{height}: {seen}");
            assert!(above || n < 10, "{n}: {seen}");
            assert!(below || n > 12, "{n}: {seen}");
        }
        let (end, above, _) = lines(&mut app);
        assert!(above && end.contains("20 of 20"), "{end}");
        snap_at("worker_form_twenty", &mut app, &[(width, height)]);
        // The list does not jump, and each field is visible while it has the focus.
        for field in ["capacity", "count", "name"] {
            press(&mut app, "<tab>");
            let (seen, ..) = lines(&mut app);
            assert!(seen.contains(&format!("│ {field} ")), "{width}x{height}: {seen}");
            assert!(seen.contains("Cancel") && seen.contains("Next"), "{seen}");
        }
    }
}
