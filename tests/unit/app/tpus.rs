//! The view of a cluster's TPUs: how it opens, what its keys do, and how events change it.

use super::*;
use marin_tui::model::GoogleWait;
use marin_tui::model::cloud::{Capacity, CloudView, TpuVm, VmState};
use marin_tui::reconcile::TpuStatus;

fn vm(name: &str, state: VmState, host: &str) -> TpuVm {
    TpuVm {
        id: None,
        name: name.into(),
        accelerator_type: "v4-8".into(),
        state,
        api_state: "".into(),
        unhealthy: None,
        hosts: vec![host.into()],
        external: vec![None],
        capacity: Capacity::Preemptible,
        queued_resource: None,
        created: Some(before(9000)),
        started: None,
        ray_cluster: Some(CLUSTER.into()),
        ray_type: None,
        compute: None,
    }
}

/// Hosts .1, .2 and .3 are alive in the sample's Ray.
fn cloud() -> ClusterEvent {
    let vms = vec![
        vm("ray-one", VmState::Ready, "10.130.0.1"),
        vm("ray-ghost", VmState::Preempted, "10.130.0.2"),
        vm("ray-leak", VmState::Preempted, "10.130.0.66"),
        vm("ray-three", VmState::Ready, "10.130.0.3"),
        vm("ray-late", VmState::Ready, "10.130.0.55"),
    ];
    listed(vms)
}

/// Google's answer with these TPUs.
fn listed(vms: Vec<TpuVm>) -> ClusterEvent {
    ClusterEvent::Cloud(Ok(Arc::new(CloudView {
        vms,
        queued: Vec::new(),
        complete: true,
        unlisted: None,
        queried: before(20),
        heads: Vec::new(),
        resizes: Vec::new(),
    })))
}

fn names(app: &App) -> Vec<String> {
    keys(app, app.listing().unwrap())
}

/// The sample cluster's TPUs on the screen.
fn opened() -> App {
    let mut app = super::shown();
    press(&mut app, "T");
    send_update(&mut app, CLUSTER, cloud());
    paint(&mut app, 120, 40);
    app
}

#[test]
fn a_lost_connection_leaves_the_cursor_on_its_tpu() {
    let mut app = opened();
    let before = |app: &App| match app.target() {
        Some(Target::Tpu(_, name)) => name.to_string(),
        other => panic!("{other:?}"),
    };
    for row in 0..names(&app).len() {
        press(&mut app, &format!("gg{}", "j".repeat(row)));
        let chosen = before(&app);
        let gone = problem(ProblemKind::Unreachable, "no route", "");
        send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Stopped { problem: gone }));
        assert_eq!(before(&app), chosen);
        send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
        assert_eq!(before(&app), chosen);
    }
}

fn toast(app: &App) -> String {
    app.toasts().shown().last().map(|t| t.text.clone()).unwrap_or_default()
}

#[test]
fn it_opens_on_the_target_cluster_and_returns() {
    let name = ClusterName::new(CLUSTER);
    let asks = |requests: &[Request]| -> Vec<Effect> {
        requests.iter().map(|r| Effect::Ask(name.clone(), r.clone())).collect()
    };
    let mut app = super::shown();
    let opening = press(&mut app, "T");
    assert_eq!(opening, asks(&[Request::Cloud]));
    assert_eq!((app.view().clone(), app.context()), (View::Tpus(0), Context::Tpus));
    press(&mut app, "q");
    assert_eq!(app.view().clone(), View::Cluster(0));
    let mut app = super::app(&[CLUSTER, "b"]);
    press(&mut app, "T");
    assert_eq!(app.view().clone(), View::Tpus(0));
    assert_eq!(press(&mut app, "<esc>"), asks(&[Request::Focus(false)]));
    assert_eq!(app.view().clone(), View::Clusters);
    press(&mut app, ":tpus<enter>");
    assert_eq!(app.view().clone(), View::Tpus(0), "also from the palette");
    assert_eq!(press(&mut app, "<^r>"), asks(&[Request::Refresh, Request::Cloud]));
}

#[test]
fn other_providers_have_no_tpu_view() {
    let keymap = marin_tui::app::Keymap::with_changes(actions(), &std::collections::BTreeMap::new()).unwrap();
    let local = ClusterSpec { provider: marin_tui::model::Provider::Local, ..spec("lab") };
    let mut app = App::new(vec![marin_tui::app::Listed::Cluster(local)], keymap);
    app.start(None);
    assert!(press(&mut app, "T").is_empty());
    assert_eq!(app.view().clone(), View::Cluster(0));
    assert!(toast(&app).contains("the provider of lab is local"), "{}", toast(&app));
    assert!(!footer(&mut app).contains("tpus"));
}

#[test]
fn rows_join_google_and_ray_and_can_be_sorted_filtered_copied_and_described() {
    let mut app = opened();
    assert_eq!(names(&app), ["ray-ghost", "ray-late", "ray-leak", "ray-one", "ray-three"]);
    press(&mut app, ">>");
    assert_eq!(names(&app), ["ray-ghost", "ray-late", "ray-leak", "ray-one", "ray-three"]);
    press(&mut app, "I");
    assert_eq!(names(&app)[0], "ray-three");
    press(&mut app, "/holds<enter>");
    assert_eq!(names(&app), ["ray-leak"]);
    assert_eq!(press(&mut app, "y"), [Effect::Copy { what: "tpu name".into(), text: "ray-leak".into() }]);
    press(&mut app, "d");
    let lines = details(&app);
    assert!(
        lines.iter().any(|(l, t)| l == "hint" && t == "delete the preempted TPUs: x on the TPU page"),
        "{lines:?}"
    );
    assert!(lines.iter().any(|(l, t)| l == "Google state" && t == "preempted"), "{lines:?}");
    press(&mut app, "<esc><esc>");
    assert_eq!((names(&app).len(), app.view().clone()), (5, View::Tpus(0)), "Esc clears the filter first");
}

#[test]
fn the_border_counts_the_tpus_above_and_below_the_visible_ones() {
    let mut app = opened();
    let host = |n: u8| vm(&format!("ray-{n:02}"), VmState::Ready, &format!("10.130.1.{n}"));
    send_update(&mut app, CLUSTER, listed((0..20).map(host).collect()));
    paint(&mut app, 120, 12);
    press(&mut app, "G");
    paint(&mut app, 120, 12);
    let rows = usize::from(areas(&app, 120, 12).table.unwrap().rows.height);
    press(&mut app, &"k".repeat(rows));
    paint(&mut app, 120, 12);
    let (above, len) = (app.listing().unwrap().window(rows), app.listing().unwrap().len());
    let below = len - above - rows;
    assert!(above > 0 && below > 0, "{above} {rows} {below}");
    let mut terminal = Terminal::new(TestBackend::new(120, 12)).unwrap();
    terminal.draw(|f| _ = draw(f, &app, &Theme::new(Colors::None), NOW)).unwrap();
    let seen = terminal.backend().to_string();
    assert!(seen.contains(&format!(" {above} more above · {below} below ")), "{seen}");
}

#[test]
fn ssh_opens_the_host_of_the_row() {
    let mut app = opened();
    let login = press(&mut app, "!");
    let [Effect::SshHost(_, host)] = &login[..] else { panic!("{login:?}") };
    assert_eq!((host.vm.raw(), host.internal.raw()), ("ray-ghost", "10.130.0.2"));
    assert!(press(&mut app, "jj!").is_empty());
    assert!(toast(&app).contains("ray-leak was preempted"), "{}", toast(&app));
}

#[test]
fn preempted_tpus_are_deleted_after_confirmation() {
    let mut app = opened();
    press(&mut app, "x");
    let Some(Dialog::Ask { lines, on_yes: false, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    let texts: Vec<_> = lines.iter().map(|(_, t)| t.as_str()).collect();
    assert!(texts.contains(&"ray-leak  v4-8") && texts.contains(&"ray-ghost  v4-8"), "{texts:?}");
    assert!(press(&mut app, "<enter>").is_empty(), "cancel was focused");
    let effects = press(&mut app, "xy");
    let [Effect::Ask(_, Request::CleanPreempted(left))] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(left.iter().map(|l| l.name.raw()).collect::<Vec<_>>(), ["ray-ghost", "ray-leak"]);
    let left = left.clone();
    assert!(press(&mut app, "x").is_empty() && app.dialog().is_none(), "not while a deletion is in progress");
    let failed = Cleaned::Failed { what: "permission denied by Google".into(), hint: "ask".into() };
    let done = vec![(left[0].clone(), Cleaned::Deleted), (left[1].clone(), failed)];
    send_update(&mut app, CLUSTER, ClusterEvent::Cleaned(Ok(done)));
    let said = toast(&app);
    assert!(said.contains("1 of 2 deleted") && said.contains("ray-leak") && said.contains("ask"), "{said}");
    press(&mut app, "x");
    assert!(app.dialog().is_some(), "it can be retried");
}

#[test]
fn an_error_is_shown_beside_earlier_data() {
    let mut app = opened();
    let gone = problem(ProblemKind::Other, "Google cannot be reached", "check the network");
    send_update(&mut app, CLUSTER, ClusterEvent::Cloud(Err(gone)));
    let cluster = app.tpus().unwrap();
    assert_eq!(names(&app).len(), 5);
    assert!(cluster.is_google_stale(NOW) && cluster.tpus.problem().is_some());
    send_update(&mut app, CLUSTER, cloud());
    assert!(!app.tpus().unwrap().is_google_stale(NOW));
}

#[test]
fn a_missing_login_is_reported_once_for_all_clusters() {
    let mut app = super::app(&["a", "b"]);
    let missing =
        || ClusterEvent::Cloud(Err(problem(ProblemKind::Login, "not logged in to Google Cloud", "log in")));
    for cluster in ["a", "b", "a", "b"] {
        send_update(&mut app, cluster, missing());
    }
    let said = app.toasts().messages().filter(|t| t.text.contains("not logged in")).count();
    assert_eq!(said, 1);
}

#[test]
fn without_ray_rows_show_no_ray_state() {
    let mut app = opened();
    let gone = problem(ProblemKind::Unreachable, "10.0.0.1 cannot be reached", "");
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Retrying { problem: gone, at: NOW }));
    let tpus = &app.tpus().unwrap().tpus;
    let statuses: Vec<_> = tpus.rows().iter().map(|r| r.status).collect();
    let (quota, up) = (TpuStatus::HoldsQuota, TpuStatus::Up);
    assert_eq!(statuses, [quota, quota, up, up, up]);
    // A connection attempt is not a success: Ray's last state is as old as before.
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Connecting { phase: Phase::Tunnel, since: NOW }));
    let cluster = app.tpus().unwrap();
    assert!(cluster.tpus.rows().iter().all(|r| r.status != TpuStatus::Ghost));
    assert!(!cluster.tpus.knows_ray() && !cluster.snapshot.nodes.iter().any(|n| cluster.tpus.is_ghost(n)));
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up_link()));
    assert_eq!(app.tpus().unwrap().tpus.rows()[0].status, TpuStatus::Ghost);
}

fn up_link() -> Link {
    crate::sample::up()
}

#[test]
fn ghosts_are_marked_among_the_nodes_and_the_fleet_reports_held_quota() {
    let mut app = opened();
    let cluster = app.tpus().unwrap();
    let ghosts: Vec<_> = cluster.snapshot.nodes.iter().filter(|n| cluster.tpus.is_ghost(n)).collect();
    assert_eq!(ghosts.iter().map(|n| n.address.raw()).collect::<Vec<_>>(), ["10.130.0.2"]);
    let quota = cluster.findings.iter().find(|f| f.kind == marin_tui::diagnose::FindingKind::HoldsQuota);
    assert_eq!(quota.unwrap().short, "2 preempted TPUs hold quota, 8 chips");
    let screen = |app: &App| {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
        terminal.draw(|f| _ = draw(f, app, &Theme::new(Colors::None), NOW)).unwrap();
        terminal.backend().to_string()
    };
    // Nobody reports since when the quota is held.
    press(&mut app, "E");
    let issues = screen(&app);
    let held = issues.lines().find(|line| line.contains("2 preempted TPUs hold quota")).unwrap();
    assert!(held.contains(" - ") && !held.contains(" ? "), "{issues}");
    press(&mut app, "<esc>q1z");
    let seen = screen(&app);
    assert!(seen.lines().any(|l| l.contains("◇") && l.contains("stale")), "{seen}");
    press(&mut app, "/worker-02<enter>d");
    let lines = details(&app);
    assert!(lines[0].0 == "stale node" && lines[0].1.contains("deleted in Google Cloud"), "{lines:?}");
}

#[test]
fn a_delay_requested_by_google_is_counted_down_and_then_removed() {
    let mut app = opened();
    let project = app.tpus().unwrap().spec.google.project.clone().unwrap_or_default();
    let wait = |project: &str| GoogleWait {
        project: project.to_owned(),
        reason: "quota exceeded: no more reads".into(),
        requested: Duration::from_secs(42),
        left: Duration::from_millis(41_500),
    };
    let seen = |app: &mut App, now: Timestamp| {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
        terminal.draw(|f| _ = draw(f, app, &Theme::new(Colors::None), now)).unwrap();
        terminal.backend().to_string()
    };
    let at = |seconds| NOW.plus(Duration::from_secs(seconds));
    app.update(Event::GoogleWait(wait("of-others")), NOW);
    assert!(!seen(&mut app, NOW).contains("requested by Google"), "another project's quota");
    // Without a project, the delay concerns access tokens and applies to every cluster.
    for project in [project.as_str(), ""] {
        app.update(Event::GoogleWait(wait(project)), NOW);
        let words = " as requested by Google (quota exceeded: no more reads); next try in ";
        assert!(seen(&mut app, NOW).contains(&format!("{words}42 s")), "{}", seen(&mut app, NOW));
        assert!(seen(&mut app, at(30)).contains(&format!("{words}12 s")), "{}", seen(&mut app, at(30)));
        assert!(app.next_change(NOW).is_some_and(|next| next <= Duration::from_secs(1)));
        assert!(!seen(&mut app, at(42)).contains("requested by Google"));
    }
}

#[test]
fn a_click_selects_a_row_and_a_second_one_opens_it() {
    let mut app = opened();
    let (effects, _) = paint(&mut app, 120, 40);
    assert!(effects.is_empty());
    let click = |app: &mut App, row| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let mouse = MouseEvent { kind, column: 10, row, modifiers: KeyModifiers::NONE };
        app.update(Event::Mouse(mouse), NOW);
    };
    // The header, the border and the titles are above it.
    click(&mut app, 5);
    assert_eq!(app.target_tpu().unwrap().name.raw(), "ray-leak");
    click(&mut app, 5);
    assert!(matches!(app.view(), View::Details(_)));
}

#[test]
fn an_unchanged_answer_draws_nothing_on_other_pages() {
    let mut app = opened();
    press(&mut app, "q");
    paint(&mut app, 120, 40);
    send_update(&mut app, CLUSTER, cloud());
    assert!(!app.is_dirty());
    send_update(&mut app, CLUSTER, ClusterEvent::Cloud(Ok(Arc::new(CloudView::default()))));
    assert!(app.is_dirty(), "the node is no longer a ghost");
}

#[test]
fn a_slice_with_all_its_hosts_is_alive_on_their_pages() {
    const SLICE: &str = "ray-m-worker-aa10-tpu";
    let mut app = super::shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(sliced())));
    let nodes = &app.clusters()[0].snapshot.nodes;
    let hosts: Vec<Text> = nodes
        .iter()
        .filter(|node| node.slice().is_some_and(|slice| slice.raw() == SLICE))
        .map(|node| node.address.clone())
        .collect();
    let external = vec![None; hosts.len()];
    let whole = TpuVm {
        accelerator_type: "v4-512".into(),
        hosts,
        external,
        ..vm(SLICE, VmState::Ready, "10.130.0.1")
    };
    press(&mut app, "T");
    send_update(&mut app, CLUSTER, listed(vec![whole]));
    let statuses: Vec<_> = app.tpus().unwrap().tpus.rows().iter().map(|row| row.status).collect();
    assert!(statuses.contains(&TpuStatus::Registered), "{statuses:?}");
    press(&mut app, "q1/aa10<enter>d");
    let lines = details(&app);
    assert!(lines.contains(&("slice".to_owned(), format!("{SLICE}, alive"))), "{lines:?}");
}
