//! The fleet in every state: empty, loading, running, stale, broken; all nodes and all jobs.

use super::*;
use marin_tui::app::{Keymap, Listed, actions};
use std::collections::BTreeMap;
use std::time::Duration;

const NAMES: [&str; 8] = [
    "marin-us-central2",
    "marin-us-east5-b-vllm",
    "marin-us-east1-d",
    "marin-eu-west4",
    "marin-us-central1",
    "marin-us-west4",
    "marin-lab",
    "marin-us-east5",
];

fn with_broken_file(names: &[&str]) -> App {
    let mut listed: Vec<Listed> = names.iter().map(|n| Listed::Cluster(spec(n))).collect();
    let problem = problem(
        ProblemKind::Config,
        "infra/lab.yaml:3:1: found character that cannot start any token",
        "indent this line with spaces: YAML does not allow tabs",
    );
    listed.push(Listed::Broken { file: "infra/lab.yaml".into(), problem });
    App::new(listed, Keymap::with_changes(actions(), &BTreeMap::new()).unwrap())
}

/// Workers of one type, `busy` of them with all chips in use; no pending demand.
fn calm(workers: u8, busy: u8, running: usize) -> Snapshot {
    let mut state = snapshot();
    let mut nodes: Vec<Node> =
        (1..=workers).map(|n| node(n, "tpu_worker", 4.0, if n <= busy { 4.0 } else { 0.0 })).collect();
    let mut head = node(200, "head_default", 0.0, 0.0);
    (head.is_head, head.name) = (true, "head".into());
    nodes.push(head);
    let jobs = (0..running)
        .map(|n| Arc::new(job(&format!("train-{workers}-{n}"), JobStatus::Running, "alice", 600 + n as u64)));
    (state.nodes, state.jobs) = (Arc::new(nodes), Arc::new(jobs.collect()));
    let quiet =
        Autoscaler { version: AutoscalerVersion::V2, reported: Some(before(3)), ..Autoscaler::default() };
    state.autoscaler = Arc::new(quiet);
    state
}

/// Sends the states at intervals of half a minute, the last one a second ago.
fn send_states(app: &mut App, name: &str, states: &[Snapshot]) {
    send_update(app, name, ClusterEvent::Link(up()));
    for (i, state) in states.iter().enumerate() {
        let mut state = state.clone();
        state.taken = before(1 + 30 * (states.len() - 1 - i) as u64);
        let report = Arc::make_mut(&mut state.autoscaler);
        report.reported = Some(state.taken);
        send_update(app, name, ClusterEvent::Snapshot(Arc::new(state)));
    }
}

fn stuck() -> Snapshot {
    let mut state = calm(9, 9, 3);
    let report = Arc::make_mut(&mut state.autoscaler);
    let count = |name: &str, min, active| NodeTypeCount {
        name: name.into(),
        min: Some(min),
        max: Some(1024),
        active,
        ..NodeTypeCount::default()
    };
    report.types = vec![count("tpu_worker", 12, 9), count("tpu_slice_v4_32", 0, 0)];
    let shape = vec![("CPU".into(), 120.0), ("TPU".into(), 4.0)];
    report.demands = vec![Demand { shape, count: 37, kind: DemandKind::Task, infeasible: false }];
    state
}

fn scaling() -> Snapshot {
    let mut state = calm(4, 4, 5);
    let launching = NodeTypeCount {
        name: "tpu_slice_v5e_128".into(),
        min: Some(0),
        max: Some(32),
        active: 4,
        launching: 28,
        ..NodeTypeCount::default()
    };
    for worker in Arc::make_mut(&mut state.nodes).iter_mut().filter(|node| !node.is_head) {
        worker.node_type = launching.name.clone();
    }
    Arc::make_mut(&mut state.autoscaler).types = vec![launching];
    state
}

fn at_work() -> App {
    let mut app = with_broken_file(&NAMES);
    send_states(&mut app, NAMES[0], &vec![stuck(); 12]);
    let gone = unreachable("10.0.0.2", "no route to host");
    let retrying = Link::Retrying { problem: gone, at: NOW.plus(Duration::from_secs(12)) };
    send_update(&mut app, NAMES[1], ClusterEvent::Link(retrying));
    let refused = problem(
        ProblemKind::TokenRefused,
        "the cluster refuses the token (403)",
        "write the cluster's token into ~/.cache/marin-tui/tokens/clusters/marin-us-east1-d",
    );
    send_states(&mut app, NAMES[2], &[calm(2, 0, 0)]);
    send_update(&mut app, NAMES[2], ClusterEvent::Link(Link::Stopped { problem: refused }));
    send_states(&mut app, NAMES[3], &[calm(1, 1, 5), calm(2, 2, 5), scaling()]);
    send_states(
        &mut app,
        NAMES[4],
        &[calm(20, 0, 0), calm(20, 10, 4), calm(20, 15, 4), calm(20, 20, 4), calm(20, 3, 1)],
    );
    send_states(&mut app, NAMES[5], &[calm(0, 0, 0)]);
    send_update(
        &mut app,
        NAMES[6],
        ClusterEvent::Link(Link::Connecting { phase: Phase::Address, since: NOW }),
    );
    send_states(&mut app, NAMES[7], &[snapshot()]);
    app
}

#[test]
fn a_running_fleet_with_every_kind_of_issue() {
    let mut app = at_work();
    snap_at_sizes("fleet", &mut app);
    press(&mut app, "N");
    snap_at_sizes("all_nodes", &mut app);
    press(&mut app, "J");
    snap_at_sizes("all_jobs", &mut app);
    press(&mut app, "/vllm");
    snap("all_jobs_filtered", &mut app);
}

#[test]
fn evidence_is_cut_in_favor_of_the_hint_that_follows_it() {
    let mut app = at_work();
    let mut cut = 0;
    for height in 16..=24 {
        let seen = text(&paint(&mut app, Colors::None, 80, height));
        let Some((evidence, hint)) = seen.find("37 demands unmet").zip(seen.find("read monitor.log")) else {
            continue;
        };
        assert!(evidence < hint, "{seen}");
        cut += usize::from(seen.contains("press d for all"));
    }
    assert!(cut > 0, "the evidence and the hint are both visible where not all of it fits");
}

#[test]
fn lost_nodes_are_counted_at_every_width() {
    let mut app = app(&["marin-us-east1-d", "marin-eu-west4"]);
    app.start(None);
    let mut state = snapshot();
    let nodes = Arc::make_mut(&mut state.nodes);
    nodes.truncate(4);
    nodes.extend((5..=233).map(|n| node(n, "tpu_worker", 4.0, 0.0)));
    nodes.extend((0..64).map(|n| {
        let id = NodeId::from_bytes(&[n; 28].map(|b: u8| b ^ 0xa5)).unwrap();
        let (state, ended) = (NodeState::Dead, Some(before(60)));
        Node { id, state, ended, ..node(n, "tpu_worker", 4.0, 0.0) }
    }));
    let report = Arc::make_mut(&mut state.autoscaler);
    report.pending.extend(std::iter::repeat_n(report.pending[0].clone(), 27));
    send_update(&mut app, "marin-us-east1-d", ClusterEvent::Link(up()));
    send_update(&mut app, "marin-us-east1-d", ClusterEvent::Snapshot(Arc::new(state)));
    for (width, height, counts) in
        [(80, 24, "233 ✕64 "), (120, 40, "233 +28 ✕64 "), (200, 60, "233 +28 ✕64 ")]
    {
        let seen = text(&paint(&mut app, Colors::None, width, height));
        assert!(seen.contains(counts) && seen.contains("JOBS"), "{width}: {seen}");
    }
}

#[test]
fn before_the_first_event() {
    snap("fleet_loading", &mut app(&NAMES));
    let mut all = app(&NAMES);
    press(&mut all, "N");
    snap("all_nodes_loading", &mut all);
}

#[test]
fn nothing_to_show() {
    snap("fleet_empty", &mut app(&[]));
    let mut filtered = at_work();
    press(&mut filtered, "/no such cluster");
    snap("fleet_filtered_empty", &mut filtered);
}

#[test]
fn lost_connections_keep_the_last_state() {
    let mut app = at_work();
    for name in NAMES {
        let lost = problem(ProblemKind::TunnelLost, "the connection broke: broken pipe", "");
        send_update(
            &mut app,
            name,
            ClusterEvent::Link(Link::Retrying { problem: lost, at: NOW.plus(Duration::from_secs(8)) }),
        );
    }
    snap("fleet_stale", &mut app);
    // Rows that do not fit below the table are counted.
    let mut hidden = |height: u16| {
        let seen = text(&paint(&mut app, Colors::None, 80, height));
        let counted =
            seen.split(" more below: press d for all").next().filter(|before| before.len() < seen.len());
        counted.map_or(0, |before| before.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
    };
    assert_eq!([24, 25, 26, 40].map(&mut hidden), [2, 1, 0, 0]);
}

#[test]
fn nothing_but_broken_files() {
    snap("fleet_error", &mut with_broken_file(&[]));
}

#[test]
fn a_stuck_autoscaler_is_explained_in_its_pane() {
    let mut app = at_work();
    press(&mut app, "<enter>4");
    assert_eq!(app.current().unwrap().name().as_str(), NAMES[0]);
    snap("autoscaler_stuck", &mut app);
}

#[test]
fn a_failed_launch_of_the_text_report_is_no_finding_while_its_day_is_unknown_but_is_listed() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    let mut state = calm(4, 4, 1);
    let failure = LaunchFailure {
        node_type: "tpu_worker".into(),
        count: 1,
        reason: "LaunchFailed (latest_attempt: 13:48:20)".into(),
        at: Some(before(600)),
        from_text: true,
        day_unknown: true,
    };
    Arc::make_mut(&mut state.autoscaler).failures = vec![failure];
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    press(&mut app, "4z");
    let screen = text(&paint(&mut app, Colors::None, 120, 40));
    assert!(screen.contains("tpu_worker ×1, 10m ago or on an earlier day: LaunchFailed"), "{screen}");
    assert!(!screen.contains("launches failing"), "{screen}");
}

#[test]
fn calls_of_request_resources_say_whether_they_are_met() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    let mut state = calm(4, 4, 1);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    press(&mut app, "4z");
    for (count, words) in
        [(1, "requested, met"), (20, "20× TPU 1  requested, 4 unmet"), (3, "3× GPU 1  requested")]
    {
        let kind = if words.contains("GPU") { "GPU" } else { "TPU" };
        let shape = vec![(kind.into(), 1.0)];
        let call = Demand { shape, count, kind: DemandKind::Request, infeasible: false };
        Arc::make_mut(&mut state.autoscaler).demands = vec![call];
        send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state.clone())));
        let screen = text(&paint(&mut app, Colors::None, 120, 40));
        let line = screen.lines().find(|line| line.contains(words));
        let line = line.unwrap_or_else(|| panic!("{words}: {screen}"));
        if kind == "GPU" {
            assert!(!line.contains(", met") && !line.contains(" unmet"), "{line}");
        }
    }
    // Without nodes, it is unknown.
    let missing = vec![MissingPart { part: SnapshotPart::Nodes, why: "timed out".to_owned() }];
    let unread = Snapshot { nodes: Arc::default(), missing, ..state };
    let mut app = self::app(&[CLUSTER]);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    press(&mut app, "4z");
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(unread)));
    let screen = text(&paint(&mut app, Colors::None, 120, 40));
    assert!(screen.contains("3× GPU 1  requested"), "{screen}");
    assert!(!screen.contains(", met") && !screen.contains(" unmet"), "{screen}");
}

#[test]
fn nodes_without_names_show_their_address_once() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    let mut state = snapshot();
    for node in Arc::make_mut(&mut state.nodes) {
        node.name = node.address.clone();
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state.clone())));
    press(&mut app, "1");
    let wide = |app: &mut App| text(&paint(app, Colors::None, 200, 60));
    assert!(!wide(&mut app).contains("ADDRESS") && wide(&mut app).contains("● 10.130.0.1 "));
    for (n, node) in (0..).zip(Arc::make_mut(&mut state.nodes)) {
        node.hostname = format!("t1v-n-{n}").into();
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state.clone())));
    assert!(wide(&mut app).contains("ADDRESS") && wide(&mut app).contains("t1v-n-1 "), "{}", wide(&mut app));
    // Containers on one machine all have its name.
    for node in Arc::make_mut(&mut state.nodes) {
        node.hostname = "laptop".into();
    }
    let mut app = self::app(&[CLUSTER]);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    press(&mut app, "1");
    assert!(!wide(&mut app).contains("laptop") && wide(&mut app).contains("● 10.130.0.1 "));
}

#[test]
fn a_node_keeps_its_name_while_others_join() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    let mut state = snapshot();
    for (n, node) in (0..).zip(Arc::make_mut(&mut state.nodes)) {
        (node.name, node.hostname) = (node.address.clone(), format!("t1v-n-{n}").into());
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state.clone())));
    press(&mut app, "1");
    let first = text(&paint(&mut app, Colors::None, 120, 40));
    assert!(first.contains("t1v-n-0 "), "{first}");
    // Ray lists new nodes before it reports their host names; in one case it reported no host names at all.
    let mut joining = state.clone();
    for n in [30, 31] {
        let mut node = node(n, "tpu_worker", 4.0, 0.0);
        (node.name, node.hostname) = (node.address.clone(), "".into());
        Arc::make_mut(&mut joining.nodes).push(node);
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(joining.clone())));
    let seen = text(&paint(&mut app, Colors::None, 120, 40));
    for name in ["t1v-n-0 ", "t1v-n-1 ", "t1v-n-2 ", "t1v-n-3 ", " 10.130.0.30 "] {
        assert!(seen.contains(name), "{name}: {seen}");
    }
    for node in Arc::make_mut(&mut joining.nodes) {
        node.hostname = "".into();
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(joining.clone())));
    assert_eq!(text(&paint(&mut app, Colors::None, 120, 40)), seen);
    // A joining node whose name is already in use does not change the existing node's name.
    for node in Arc::make_mut(&mut joining.nodes).iter_mut().filter(|n| n.state.is_alive()) {
        node.hostname = "t1v-n-0".into();
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(joining)));
    assert_eq!(text(&paint(&mut app, Colors::None, 120, 40)), seen);
}

#[test]
fn the_fleet_is_drawn_at_every_size() {
    for keys in ["", "N", "J", "J/x", "NI", "?", ":c"] {
        let mut app = at_work();
        press(&mut app, keys);
        fits(&mut app, keys);
    }
}
