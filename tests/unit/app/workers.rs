//! Adding and removing workers manually: the form, the dialogs, their progress.

use super::*;
use marin_tui::app::operation::confirmation::{Check, Control};
use marin_tui::app::operation::progress::{Ending, OperationState};
use marin_tui::app::operation::worker_form::{Offered, WorkerField, WorkerForm};
use marin_tui::app::{Keymap, Listed, actions};
use marin_tui::model::cloud::{Capacity, CloudView, QueuedResource, QueuedState, TpuVm, VmState};

fn orders(order: Order) -> Effect {
    Effect::Operate(ClusterName::new(CLUSTER), order)
}

fn send_event(app: &mut App, event: OperationEvent) -> Vec<Effect> {
    app.update(Event::Operation(ClusterName::new(CLUSTER), event), NOW)
}

fn form(app: &App) -> &WorkerForm {
    let Some(Dialog::Worker(form)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    form
}

fn plan(app: &App) -> &marin_tui::app::Plan {
    let Some(Dialog::Plan(plan)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    plan
}

fn offer() -> WorkerOffer {
    let of = |name: &str, tpu: &str| WorkerType { name: name.into(), accelerator: tpu.into() };
    WorkerOffer {
        types: vec![
            of("tpu_worker", "v4-8"),
            of("tpu_slice_v4_32", "v4-32"),
            of("tpu_slice_v5e_16", "v5e-16"),
        ],
        capacities: ["preemptible", "best-effort", "reserved"].map(String::from).to_vec(),
        last: None,
    }
}

fn queued(node_type: &str, capacity: &str, names: &[&str]) -> Task {
    Task::AddWorker(NewWorker::Queued {
        node_type: node_type.into(),
        capacity: capacity.into(),
        names: names.iter().map(|n| (*n).to_owned()).collect(),
    })
}

fn remove(worker: &str, drain: Option<u64>) -> Task {
    Task::RemoveWorker { worker: worker.into(), drain }
}

fn previewed(task: Task, owners: &[&str]) -> OperationEvent {
    let job = |(i, owner): (usize, &&str)| {
        AffectedJob::of(&job(&format!("job-{i}"), JobStatus::Running, owner, 60))
    };
    let jobs = owners.iter().enumerate().map(job).collect();
    OperationEvent::Previewed(task, Preview { jobs, me: "alice".into(), problem: None, ..Preview::default() })
}

fn start_operation(app: &mut App, task: Task, steps: &[StepName]) {
    send_event(app, OperationEvent::Began(Operation::new(task, ClusterName::new(CLUSTER))));
    for (i, step) in steps.iter().enumerate() {
        if i > 0 {
            send_event(app, OperationEvent::Progress(Progress::Done(steps[i - 1], "seen".into())));
        }
        send_event(app, OperationEvent::Progress(Progress::Began(*step)));
    }
}

fn operation_state(app: &App) -> OperationState {
    app.clusters()[0].running.as_ref().unwrap().state.clone()
}

#[test]
fn the_form_opens_immediately_from_the_fleet_and_every_pane() {
    for keys in ["", "1", "3", "4", "c", "cN", "cJ", "T"] {
        let mut app = shown();
        press(&mut app, keys);
        assert_eq!(press(&mut app, "a"), [orders(Order::ListOffers)], "{keys}");
        assert_eq!((app.context(), &form(&app).offered), (Context::Form, &Offered::Pending), "{keys}");
        // Keys typed in the meantime have no effect.
        assert_eq!(press(&mut app, "qjx"), []);
        assert_eq!(app.context(), Context::Form, "{keys}");
        assert_eq!(press(&mut app, "<esc>"), []);
        assert!(app.dialog().is_none());
        send_event(&mut app, OperationEvent::Offered(Ok(offer())));
        assert!(app.dialog().is_none(), "the form was closed");
    }
    let mut app = shown();
    press(&mut app, ":add-w<tab><enter>");
    assert_eq!(form(&app).offered, Offered::Pending);
}

#[test]
fn workers_are_chosen_named_previewed_and_added() {
    let mut app = shown();
    press(&mut app, "a");
    let last =
        NewWorker::Queued { node_type: "v4-32".into(), capacity: "reserved".into(), names: vec!["x".into()] };
    send_event(&mut app, OperationEvent::Offered(Ok(WorkerOffer { last: Some(last), ..offer() })));
    assert_eq!((form(&app).node_type, form(&app).capacity), (1, 2), "as in the last request");
    press(&mut app, "<right><tab><left><tab><backspace>2<tab>Mine");
    assert_eq!((form(&app).node_type, form(&app).capacity, form(&app).count.text()), (2, 1, "2"));
    assert!(form(&app).validation_error(WorkerField::Name).unwrap().contains("lowercase letters"));
    assert_eq!(press(&mut app, "<tab><tab><enter>"), [], "invalid values are not sent");
    assert_eq!(form(&app).focused(), Some(WorkerField::Name), "the invalid field is focused");
    press(&mut app, "<^u>");
    app.update(Event::Paste("mine\nrm".into()), NOW);
    let task = queued("tpu_slice_v5e_16", "best-effort", &["mine-1", "mine-2"]);
    assert_eq!(
        press(&mut app, "<enter><enter>"),
        [orders(Order::Preview(task.clone()))],
        "Enter in the last field continues"
    );
    let controls = plan(&app).controls();
    assert_eq!((plan(&app).control, controls), (Control::Cancel, vec![Control::Cancel, Control::Go]));
    assert_eq!(press(&mut app, "<tab><enter>"), [], "not before the preview arrived");
    // Typed text is still there.
    press(&mut app, "<esc>");
    assert_eq!(form(&app).name.text(), "mine");
    press(&mut app, "<enter>");
    send_event(&mut app, previewed(task.clone(), &[]));
    assert_eq!(press(&mut app, "<tab><enter>"), [orders(begins(task, Others::default()))]);
    assert_eq!(app.context(), Context::Progress);
}

#[test]
fn up_and_down_move_between_the_fields_of_the_form() {
    let mut app = shown();
    press(&mut app, "a");
    send_event(&mut app, OperationEvent::Offered(Ok(offer())));
    let chosen = (form(&app).node_type, form(&app).capacity);
    let mut visited = Vec::new();
    for key in ["<down>", "<down>", "<up>", "<up>"] {
        press(&mut app, key);
        visited.extend(form(&app).focused());
    }
    assert_eq!(
        visited,
        [WorkerField::Capacity, WorkerField::Count, WorkerField::Capacity, WorkerField::Type]
    );
    assert_eq!((form(&app).node_type, form(&app).capacity), chosen, "the choices stay");
}

#[test]
fn help_returns_to_the_plan_which_receives_events_in_the_meantime() {
    let mut app = shown();
    press(&mut app, "a");
    send_event(&mut app, OperationEvent::Offered(Ok(offer())));
    press(&mut app, "<tab><tab><tab>mine");
    let task = queued("tpu_worker", "preemptible", &["mine"]);
    assert_eq!(press(&mut app, "<tab><tab><enter>"), [orders(Order::Preview(task.clone()))]);
    press(&mut app, "?");
    assert_eq!(app.context(), Context::Text);
    // Help over help replaces it.
    press(&mut app, "?");
    send_event(&mut app, previewed(task, &[]));
    press(&mut app, "<esc>");
    assert_eq!(plan(&app).check, Check::Done, "the preview arrived meanwhile");
    press(&mut app, "<esc>");
    assert_eq!(form(&app).name.text(), "mine", "the form is kept");
    press(&mut app, "<esc>");
    assert!(form(&app).is_warning(), "only a second Esc discards typed text");
    press(&mut app, "<esc>");
    assert!(app.dialog().is_none());
    // A refusal that arrives in the meantime is not lost either.
    press(&mut app, "R?");
    let refusal = Refusal::new(RefusalReason::NotOffered, problem(ProblemKind::Other, "no", ""));
    let previewed = Some(Task::Restart { preserve: true });
    send_event(&mut app, OperationEvent::Refused(OperationKind::Restart, previewed, refusal));
    press(&mut app, "q");
    assert!(matches!(&plan(&app).check, Check::Refused(p) if p.what == "no"));
}

#[test]
fn a_late_second_offer_does_not_reset_the_form() {
    let mut app = shown();
    // Two forms have requested offers, one after the other.
    press(&mut app, "a<esc>a");
    send_event(&mut app, OperationEvent::Offered(Ok(offer())));
    press(&mut app, "<right><tab>");
    let before = form(&app).clone();
    send_event(&mut app, OperationEvent::Offered(Ok(offer())));
    assert_eq!(*form(&app), before);
}

#[test]
fn a_name_is_generated_if_none_is_typed() {
    let mut app = shown();
    press(&mut app, "a");
    send_event(&mut app, OperationEvent::Offered(Ok(offer())));
    press(&mut app, "<backtab><enter>");
    let Task::AddWorker(NewWorker::Queued { names, .. }) = &plan(&app).operation.task else { panic!() };
    assert_eq!(names[..], [format!("ray-worker-manual-{:x}", NOW.as_millis())]);
}

#[test]
fn a_host_of_a_local_cluster_is_added_by_its_address() {
    let mut app = shown();
    press(&mut app, "a");
    send_event(&mut app, OperationEvent::Offered(Ok(WorkerOffer::default())));
    assert_eq!(press(&mut app, "<tab><tab><enter>"), []);
    assert!(form(&app).validation_error(WorkerField::Address).unwrap().contains("enter the host"));
    press(&mut app, "-oProxy");
    assert_eq!(press(&mut app, "<tab><tab><enter>"), []);
    press(&mut app, "<^u>10.0.0.7");
    let task = Task::AddWorker(NewWorker::Host { address: "10.0.0.7".into() });
    assert_eq!(press(&mut app, "<tab><tab><enter>"), [orders(Order::Preview(task))]);
}

#[test]
fn a_failed_offer_is_shown_in_the_form() {
    let mut app = shown();
    press(&mut app, "a");
    let missing = problem(ProblemKind::Login, "not logged in to Google Cloud", "run gcloud");
    send_event(&mut app, OperationEvent::Offered(Err(missing)));
    assert!(matches!(form(&app).offered, Offered::Failed(_)));
    assert_eq!(press(&mut app, "<tab><tab><enter>"), []);
    assert!(app.dialog().is_none(), "Cancel is the only button");
}

#[test]
fn the_mouse_presses_the_buttons_of_the_form() {
    let mut app = shown();
    press(&mut app, "a");
    send_event(&mut app, OperationEvent::Offered(Ok(offer())));
    paint(&mut app, 120, 40);
    let [_, next] = areas(&app, 120, 40).buttons.unwrap();
    point(&mut app, CLICK, 0, 0);
    assert_eq!(app.context(), Context::Form, "a click outside keeps typed text");
    assert_eq!(point(&mut app, CLICK, next.x + 2, next.y).len(), 1);
    assert_eq!(app.context(), Context::Plan);
}

/// The nodes pane with this node selected.
fn at_node(name: &str) -> App {
    let mut app = shown();
    press(&mut app, &format!("1/{name}<enter>"));
    app
}

#[test]
fn a_worker_is_removed_by_its_address_after_draining_or_immediately() {
    let mut app = at_node("worker-03");
    let drained = remove("10.130.0.3", Some(3600));
    assert_eq!(press(&mut app, "D"), [orders(Order::Preview(drained.clone()))]);
    assert_eq!(
        plan(&app).title(),
        "remove worker worker-03fe4a1c, 10.130.0.3 (marin-us-central2)",
        "named as in its row"
    );
    assert!(plan(&app).preview.jobs.is_empty(), "the jobs on it are not known yet");
    send_event(&mut app, previewed(drained.clone(), &["alice"]));
    assert_eq!(
        plan(&app).controls(),
        [Control::Cancel, Control::Drain, Control::Go],
        "no name has to be typed"
    );
    assert_eq!(plan(&app).control, Control::Cancel);
    assert_eq!(press(&mut app, "<tab> "), [orders(Order::Preview(remove("10.130.0.3", None)))]);
    assert_eq!(plan(&app).check, Check::Running);
    send_event(&mut app, previewed(remove("10.130.0.3", None), &["alice"]));
    assert_eq!(
        press(&mut app, "<enter>"),
        [orders(Order::Preview(drained.clone()))],
        "toggling returns to the first preview"
    );
    send_event(&mut app, previewed(drained.clone(), &["alice"]));
    assert_eq!(press(&mut app, "<tab><enter>"), [orders(begins(drained, Others::default()))]);
    // A preview of another worker does not apply to this one.
    let mut app = at_node("worker-03");
    press(&mut app, "D<esc>");
    press(&mut app, "<esc>/worker-02<enter>D");
    send_event(&mut app, previewed(remove("10.130.0.3", Some(3600)), &[]));
    assert_eq!(plan(&app).check, Check::Running);
    // Nothing runs there in Ray that could finish first.
    let mut app = at_node("worker-14");
    assert_eq!(press(&mut app, "D"), [orders(Order::Preview(remove("10.130.0.20", None)))]);
    let mut app = shown();
    press(&mut app, "cN/worker-02<enter>");
    assert_eq!(press(&mut app, "D"), [orders(Order::Preview(remove("10.130.0.2", Some(3600))))]);
}

#[test]
fn other_peoples_jobs_on_a_worker_block_removal_and_so_do_new_ones() {
    let mut app = at_node("worker-03");
    press(&mut app, "D");
    send_event(&mut app, previewed(remove("10.130.0.3", Some(3600)), &["alice", "bo"]));
    assert_eq!(plan(&app).controls(), [Control::Cancel, Control::Drain, Control::Others, Control::Go]);
    assert_eq!(press(&mut app, "<tab><tab><tab><enter>"), []);
    assert!(plan(&app).problem.contains("jobs owned by bo"), "{}", plan(&app).problem);
    press(&mut app, "<tab><tab><tab> ");
    assert!(plan(&app).others);
    press(&mut app, "<left> ");
    send_event(&mut app, previewed(remove("10.130.0.3", None), &["alice", "bo", "carol"]));
    assert!(!plan(&app).others, "carol was not included in the permission");
    press(&mut app, "<tab> <tab>");
    let others = Others { people: vec!["bo".into(), "carol".into()], unowned: Vec::new() };
    assert_eq!(press(&mut app, "<enter>"), [orders(begins(remove("10.130.0.3", None), others))]);
}

#[test]
fn the_head_cannot_be_removed_as_a_worker() {
    let mut app = at_node("head");
    assert_eq!(press(&mut app, "D"), []);
    assert!(app.dialog().is_none() && said(&app).contains("is the head") && said(&app).contains("X stops"));
    assert_eq!(press(&mut app, "i"), []);
    assert!(app.dialog().is_none() && said(&app).contains("R restarts"), "{}", said(&app));
    let text = footer(&mut app);
    assert!(!text.contains("D remove") && text.contains("a add worker"), "{text}");
    press(&mut app, "<esc><esc>/worker-03<enter>");
    assert!(footer(&mut app).contains("D remove"));
}

#[test]
fn a_host_names_its_slice_and_a_reassigned_address_is_refused() {
    let mut app = shown();
    let vm = TpuVm {
        id: None,
        name: "ray-slice".into(),
        accelerator_type: "v4-16".into(),
        state: VmState::Ready,
        api_state: "".into(),
        unhealthy: None,
        hosts: vec!["10.130.0.1".into(), "10.130.0.2".into()],
        external: vec![None, None],
        capacity: Capacity::Preemptible,
        queued_resource: None,
        created: None,
        started: None,
        ray_cluster: Some(CLUSTER.into()),
        ray_type: None,
        compute: None,
    };
    let view = CloudView {
        vms: vec![vm],
        queued: Vec::new(),
        complete: true,
        unlisted: None,
        queried: before(20),
        heads: Vec::new(),
        resizes: Vec::new(),
    };
    send_update(&mut app, CLUSTER, ClusterEvent::Cloud(Ok(Arc::new(view))));
    press(&mut app, "1/worker-02<enter>D");
    assert_eq!(plan(&app).note, "it is one of the 2 hosts of ray-slice; all of them are affected");
    let mut reborn = snapshot();
    let mut nodes = (*reborn.nodes).clone();
    let dead = nodes.iter_mut().find(|n| !n.state.is_alive()).unwrap();
    dead.address = "10.130.0.3".into();
    let name = dead.name.to_string();
    reborn.nodes = Arc::new(nodes);
    let mut app = shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(reborn)));
    press(&mut app, &format!("1/{name}<enter>"));
    for key in ["D", "i"] {
        assert_eq!(press(&mut app, key), []);
        assert!(app.dialog().is_none() && said(&app).contains("now belongs to worker-03"), "{}", said(&app));
    }
}

#[test]
fn ray_is_restarted_on_a_worker_without_other_peoples_jobs() {
    let mut app = at_node("worker-03");
    let task = Task::InitWorker { worker: "10.130.0.3".into() };
    assert_eq!(press(&mut app, "i"), [orders(Order::Preview(task.clone()))]);
    send_event(&mut app, previewed(task.clone(), &[]));
    assert_eq!(plan(&app).controls(), [Control::Cancel, Control::Go]);
    assert_eq!(press(&mut app, "<tab><enter>"), [orders(begins(task, Others::default()))]);
}

#[test]
fn in_the_tpu_table_a_worker_is_addressed_by_its_name() {
    let vm = |name: &str, state, hosts: &[&str]| TpuVm {
        id: None,
        name: name.into(),
        accelerator_type: "v4-8".into(),
        state,
        api_state: "".into(),
        unhealthy: None,
        hosts: hosts.iter().map(|h| Text::new(*h)).collect(),
        external: vec![None; hosts.len()],
        capacity: Capacity::Preemptible,
        queued_resource: None,
        created: Some(before(9000)),
        started: None,
        ray_cluster: Some(CLUSTER.into()),
        ray_type: None,
        compute: None,
    };
    let vms = vec![
        vm("ray-one", VmState::Ready, &["10.130.0.1"]),
        vm("ray-gone", VmState::Preempted, &["10.130.0.66"]),
        vm("ray-ended", VmState::Terminated, &["10.130.0.67"]),
        vm("ray-coming", VmState::Starting, &[]),
        vm("ray-two", VmState::Ready, &["10.130.0.2"]),
    ];
    let refused = QueuedResource {
        name: "ray-no".into(),
        state: QueuedState::Failed,
        api_state: "".into(),
        error: None,
        accelerator_type: "v4-128".into(),
        nodes: Vec::new(),
        capacity: Capacity::Reserved,
        created: None,
        ray_cluster: Some(CLUSTER.into()),
    };
    let view = CloudView {
        vms,
        queued: vec![refused],
        complete: true,
        unlisted: None,
        queried: before(20),
        heads: Vec::new(),
        resizes: Vec::new(),
    };
    let at = |filter: &str| {
        let mut app = shown();
        press(&mut app, "T");
        send_update(&mut app, CLUSTER, ClusterEvent::Cloud(Ok(Arc::new(view.clone()))));
        press(&mut app, &format!("/{filter}<enter>"));
        app
    };
    let previews = |task| [orders(Order::Preview(task))];
    assert_eq!(press(&mut at("ray-one"), "D"), previews(remove("ray-one", Some(3600))));
    assert_eq!(press(&mut at("ray-no"), "D"), previews(remove("ray-no", None)));
    assert_eq!(press(&mut at("ray-one"), "i"), previews(Task::InitWorker { worker: "ray-one".into() }));
    // Alive in Ray, unknown to Google: only its address is known.
    assert_eq!(press(&mut at("10.130.0.3"), "i"), previews(Task::InitWorker { worker: "10.130.0.3".into() }));
    for (name, why) in [
        ("ray-gone", "was preempted"),
        ("ray-ended", "was terminated"),
        ("ray-no", "was refused"),
        ("ray-coming", "no host yet"),
    ] {
        let mut app = at(name);
        assert_eq!(press(&mut app, "i"), [], "{name}");
        assert!(said(&app).contains(why), "{}", said(&app));
    }
    let mut app = at("ray-ended");
    assert_eq!(press(&mut app, "!"), []);
    assert_eq!(said(&app), "ray-ended was terminated: there is no host to log in to");
}

#[test]
fn read_only_refuses_the_form_and_the_dialogs() {
    let keymap = Keymap::with_changes(actions(), &std::collections::BTreeMap::new()).unwrap();
    let mut app = App::new(vec![Listed::Cluster(spec(CLUSTER))], keymap).with_read_only(true);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot())));
    press(&mut app, "1");
    for (key, name) in [("a", "add-worker"), ("D", "remove-worker"), ("i", "init-worker")] {
        assert_eq!(press(&mut app, key), []);
        assert!(app.dialog().is_none() && said(&app).starts_with(&format!("{name} refused: read-only")));
    }
}

#[test]
fn waiting_for_google_can_be_cancelled_and_the_outcome_is_reported() {
    use StepName::{Capacity, RequestTpus};
    let task = queued("tpu_worker", "preemptible", &["a"]);
    let mut app = shown();
    start_operation(&mut app, task.clone(), &[RequestTpus]);
    press(&mut app, "p");
    assert_eq!(press(&mut app, "C"), [], "the request is being sent");
    send_event(&mut app, OperationEvent::Progress(Progress::Done(RequestTpus, "calls".into())));
    send_event(&mut app, OperationEvent::Progress(Progress::Began(Capacity)));
    let running = app.watched().unwrap();
    assert_eq!((running.brief().as_str(), running.takes_down()), ("add worker 2/3", false));
    assert_eq!(press(&mut app, "C"), [orders(Order::Cancel)]);
    press(&mut app, "<esc><esc>");
    let how = Operation::new(task, ClusterName::new(CLUSTER)).cancelled_at(Capacity).unwrap();
    let requests = send_event(&mut app, OperationEvent::Ended(OperationEnd::Cancelled(how)));
    assert_eq!(
        requests,
        [asks(Request::Refresh), asks(Request::Cloud)],
        "the connection to the cluster is unaffected"
    );
    assert_eq!(operation_state(&app), OperationState::Ended(Ending::Cancelled(how)));
    assert!(said(&app).contains("remains in Google Cloud") && !said(&app).contains("nothing was changed"));
    // A cluster is not expected to be unreachable while one of its workers is removed.
    let mut app = shown();
    start_operation(&mut app, remove("10.130.0.3", None), &[StepName::Find, StepName::Remove]);
    let lost = problem(ProblemKind::TunnelLost, "the connection broke", "");
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Retrying { problem: lost, at: NOW }));
    assert_eq!(app.fleet().alerts(), 1);
    // No other operation can start in the meantime.
    assert_eq!(press(&mut app, "a"), []);
    assert_eq!(app.context(), Context::Progress);
}

#[test]
fn texts_about_workers_do_not_mention_jobs_or_restarts() {
    let tasks = [
        queued("tpu_worker", "preemptible", &["a"]),
        Task::AddWorker(NewWorker::Host { address: "10.0.0.7".into() }),
        Task::InitWorker { worker: "10.0.0.7".into() },
        remove("10.0.0.7", Some(3600)),
    ];
    for task in tasks {
        let operation = Operation::new(task.clone(), ClusterName::new(CLUSTER));
        let mut app = shown();
        start_operation(&mut app, task, &operation.steps[..2]);
        let failed = problem(ProblemKind::Other, "no route to 10.0.0.7", "hint it");
        press(&mut app, "q");
        assert!(app.dialog().is_some(), "quitting requires confirmation");
        press(&mut app, "<esc>");
        send_event(&mut app, OperationEvent::Ended(OperationEnd::Stopped(failed, None)));
        let mut texts = vec![said(&app).to_owned()];
        press(&mut app, "px");
        texts.push(format!("{:?}", app.dialog()));
        assert_eq!(press(&mut app, "y"), [orders(Order::Abandon)]);
        send_event(&mut app, OperationEvent::Ended(OperationEnd::Abandoned));
        texts.push(said(&app).to_owned());
        for text in texts {
            // Its own name.
            let text = text.replace("restart Ray on", "").replace("restart-ray", "");
            let unrelated = ["restart", "jobs", "backup", "cluster stays", "stopped stays"];
            assert!(unrelated.iter().all(|w| !text.contains(w)), "{text}");
        }
    }
}

#[test]
fn a_restart_of_an_unreachable_cluster_must_be_allowed() {
    let mut app = shown();
    press(&mut app, "R");
    let unreachable = Some(problem(ProblemKind::Unreachable, "10.0.0.1 cannot be reached", "is it up?"));
    let unseen = Preview { jobs: Vec::new(), me: "alice".into(), problem: unreachable, ..Preview::default() };
    send_event(&mut app, OperationEvent::Previewed(Task::Restart { preserve: true }, unseen.clone()));
    let controls =
        [Control::Cancel, Control::Jobs, Control::Others, Control::UnknownJobs, Control::Name, Control::Go];
    assert_eq!(
        plan(&app).controls(),
        controls,
        "the jobs of bo and carol and a manually started driver are known from the last state"
    );
    press(&mut app, "<tab><tab> <tab><tab>marin-us-central2<enter>");
    assert_eq!(press(&mut app, "<enter>"), []);
    assert!(plan(&app).problem.contains("cannot determine affected jobs"), "{}", plan(&app).problem);
    press(&mut app, "<tab><tab><tab><tab> <tab><tab>");
    let others = Others {
        people: vec!["bo".into(), "carol".into()],
        unowned: vec![JobKey::Driver(JobId("04000000".into()))],
    };
    let Order::Begin(task, consent) = begins(Task::Restart { preserve: true }, others) else { panic!() };
    let order = Order::Begin(task, Consent { unknown: true, ..consent });
    assert_eq!(press(&mut app, "<enter>"), [orders(order)]);
    // Once the cluster responds, the affected jobs are known.
    let mut app = shown();
    press(&mut app, "X");
    send_event(&mut app, OperationEvent::Previewed(Task::Stop, unseen));
    assert!(plan(&app).has_unknown_jobs());
    send_event(&mut app, previewed(Task::Stop, &[]));
    assert!(!plan(&app).has_unknown_jobs() && !plan(&app).controls().contains(&Control::UnknownJobs));
}

#[test]
fn the_warning_about_typed_text_ends_when_more_is_typed() {
    let mut app = shown();
    press(&mut app, "a");
    app.update(Event::Audit(Ok(vec![("now".into(), "something".into())])), NOW);
    send_event(&mut app, OperationEvent::Offered(Ok(offer())));
    press(&mut app, "<esc>");
    assert!(matches!(form(&app).offered, Offered::Known(_)), "the offer has reached the form below the text");
    press(&mut app, "<tab><tab>");
    app.update(Event::Paste("5".into()), NOW);
    assert_eq!(form(&app).count.text(), "5", "a pasted number replaces the preset one");
    press(&mut app, "<esc>");
    assert!(form(&app).is_warning());
    press(&mut app, "1");
    assert!(!form(&app).is_warning());
}
