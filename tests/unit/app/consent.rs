//! Effects that end jobs or change a cluster leave the console only through a dialog.

use super::*;
use marin_tui::app::{Action, Impact};
use marin_tui::model::cloud::{Capacity, CloudView, TpuVm, VmState};

/// Every action that may change a cluster: how to reach its target on the sample cluster, and the dialog that it opens.
/// The list is written manually: it fails for a new action that is missing here, and for one whose class is lowered.
const ASKS: &[(Action, Impact, &str, Context)] = &[
    (Action::StopJob, Impact::Ends, "", Context::Ask),
    (Action::Restart, Impact::Ends, "", Context::Plan),
    (Action::StopCluster, Impact::Ends, "", Context::Plan),
    (Action::RemoveWorker, Impact::Ends, "1G", Context::Plan),
    (Action::InitWorker, Impact::Ends, "1G", Context::Plan),
    (Action::DeleteJob, Impact::Changes, "G", Context::Ask),
    (Action::CleanPreempted, Impact::Changes, "T", Context::Ask),
    (Action::HostKey, Impact::Changes, "", Context::Ask),
    (Action::Start, Impact::Changes, "", Context::Plan),
    (Action::AddWorker, Impact::Changes, "", Context::Form),
    (Action::Submit, Impact::Changes, "", Context::Form),
    (Action::Resubmit, Impact::Changes, "", Context::Form),
];

/// Keys of the progress page of an operation that was confirmed when it started.
const IN_PROGRESS: &[(Action, Impact)] = &[
    (Action::Resume, Impact::Ends),
    (Action::SkipStep, Impact::Ends),
    (Action::Abandon, Impact::Changes),
    (Action::Cancel, Impact::Changes),
];

fn preempted() -> ClusterEvent {
    let vm = TpuVm {
        id: None,
        name: "ray-leak".into(),
        accelerator_type: "v4-16".into(),
        state: VmState::Preempted,
        api_state: "".into(),
        unhealthy: None,
        hosts: vec!["10.130.0.66".into()],
        external: Vec::new(),
        capacity: Capacity::Preemptible,
        queued_resource: None,
        created: Some(before(600)),
        started: None,
        ray_cluster: Some(CLUSTER.into()),
        ray_type: None,
        compute: None,
    };
    ClusterEvent::Cloud(Ok(Arc::new(CloudView {
        vms: vec![vm],
        queued: Vec::new(),
        complete: true,
        unlisted: None,
        queried: before(20),
        heads: Vec::new(),
        resizes: Vec::new(),
    })))
}

fn at(keys: &str, action: Action) -> App {
    let mut app = shown();
    send_update(&mut app, CLUSTER, preempted());
    if action == Action::Start {
        // A running cluster cannot be started.
        let gone = problem(ProblemKind::Unreachable, "no route", "");
        send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Stopped { problem: gone }));
    }
    if action == Action::HostKey {
        let changed = ProblemKind::HostKeyChanged { known: "a".into(), offered: "b".into() };
        let stopped = Link::Stopped { problem: problem(changed, "changed", "") };
        send_update(&mut app, CLUSTER, ClusterEvent::Link(stopped));
    }
    press(&mut app, keys);
    app
}

#[test]
fn an_action_that_changes_a_cluster_only_opens_its_dialog() {
    for (action, impact, keys, dialog) in ASKS {
        assert_eq!(action.describe().impact, *impact, "{action:?}");
        let mut app = at(keys, *action);
        let effects = app.act(*action, NOW);
        assert_eq!(app.context(), *dialog, "{action:?}");
        assert!(effects.iter().all(|effect| effect.impact() <= Impact::Reads), "{action:?}: {effects:?}");
        // Cancel has the focus: pressing it has no effect either.
        if *dialog != Context::Form {
            assert!(press(&mut app, "<enter>").iter().all(|e| e.impact() <= Impact::Reads), "{action:?}");
        }
    }
    for (action, impact) in IN_PROGRESS {
        let description = action.describe();
        assert_eq!(
            (description.impact, description.contexts),
            (*impact, &[Context::Progress][..]),
            "{action:?}"
        );
    }
    let listed: Vec<Action> = ASKS
        .iter()
        .map(|(action, ..)| *action)
        .chain(IN_PROGRESS.iter().map(|(action, _)| *action))
        .collect();
    let changing = || actions().iter().filter(|action| action.describe().impact >= Impact::Changes);
    for action in changing() {
        assert!(listed.contains(action), "{action:?} is missing above");
    }
    assert_eq!(listed.len(), changing().count());
}

#[test]
fn confirmed_actions_are_carried_out() {
    let done = |action, keys: &str, confirm: &str| {
        let mut app = at(keys, action);
        app.act(action, NOW);
        press(&mut app, confirm).iter().map(Effect::impact).max()
    };
    assert_eq!(done(Action::StopJob, "", "y"), Some(Impact::Ends));
    assert_eq!(done(Action::DeleteJob, "G", "y"), Some(Impact::Changes));
    assert_eq!(done(Action::CleanPreempted, "T", "<tab><enter>"), Some(Impact::Changes));
}

#[test]
fn only_confirming_contexts_let_effects_through() {
    use Context::{Ask, Form, Plan, Progress};
    let contexts: std::collections::BTreeSet<Context> =
        actions().iter().flat_map(|action| action.describe().contexts).copied().collect();
    let confirming: Vec<Context> = contexts.into_iter().filter(|context| context.confirms()).collect();
    assert_eq!(confirming, [Progress, Ask, Plan, Form]);
}
