//! Realistic sample state of a cluster, for tests that need state but no Ray.

#![allow(dead_code, reason = "each test binary uses its own part")]

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use marin_tui::app::{App, Cluster, Effect, Event, Keymap, Listed, actions};
use marin_tui::model::*;
use marin_tui::state::{ClusterState, Update};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The current time in all samples.
pub const NOW: Timestamp = Timestamp::from_millis(1_795_233_600_000);

pub fn before(secs: u64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() - i64::try_from(secs).unwrap() * 1000)
}

pub fn spec(name: &str) -> ClusterSpec {
    ClusterSpec {
        file: Some(format!("infra/{name}.yaml").into()),
        zone: Some("us-central2-b".into()),
        head: HeadAddress::Ssh(HostName::parse("10.0.0.1").unwrap()),
        ..crate::spec::spec(name)
    }
}

pub fn node(n: u8, kind: &str, tpu: f64, used: f64) -> Node {
    let resource =
        |name: &str, used: f64, total: f64| Resource { name: name.into(), total, used: Some(used) };
    let mut resources = vec![resource("CPU", used * 12.0, 120.0), resource("memory", used * 2e10, 4e11)];
    if tpu > 0.0 {
        resources.push(resource("TPU", used.min(tpu), tpu));
    }
    Node {
        id: NodeId::from_bytes(&[n; 28]).unwrap(),
        name: format!("worker-{n:02x}fe4a1c").into(),
        address: format!("10.130.0.{n}").into(),
        hostname: "".into(),
        node_type: kind.into(),
        instance_id: "".into(),
        is_head: false,
        state: NodeState::Alive,
        started: Some(before(3600 * u64::from(n) + 70)),
        ended: None,
        death: None,
        idle_ms: None,
        resources: Resources(resources),
        labels: [("ray.io/accelerator-type".into(), "TPU-V4".into())].into(),
    }
}

pub fn job(id: &str, status: JobStatus, owner: &str, started: u64) -> Job {
    let ended = status.is_ended().then(|| before(started / 2));
    Job {
        key: JobKey::Submission(SubmissionId(id.into())),
        driver: (status == JobStatus::Running).then(|| JobId("0a000000".into())),
        status,
        entrypoint: "python experiments/tootsie/exp600_tootsie.py --force_run_failed true".into(),
        message: if status == JobStatus::Failed {
            "Job entrypoint command failed with exit code 1".into()
        } else {
            "".into()
        },
        error_type: "".into(),
        started: Some(before(started)),
        ended,
        metadata: vec![("owner".into(), owner.into())],
        driver_node: None,
        exit_code: None,
        requested: None,
    }
}

pub fn snapshot() -> Snapshot {
    let mut nodes = vec![
        node(1, "tpu_slice_v4_32", 4.0, 4.0),
        node(2, "tpu_slice_v4_32", 4.0, 4.0),
        node(3, "tpu_worker", 4.0, 0.0),
    ];
    nodes[2].state = NodeState::Idle;
    let mut head = node(9, "head_default", 0.0, 0.0);
    (head.is_head, head.name) = (true, "ray-marin-us-central2-head".into());
    nodes.push(head);
    for n in [20, 21] {
        let mut dead = node(n, "tpu_worker", 4.0, 0.0);
        (dead.state, dead.ended) = (NodeState::Dead, Some(before(60 * u64::from(n))));
        let message = "health check failed due to missing too many heartbeats".into();
        dead.death = Some(Death {
            reason: if n == 20 { DeathReason::Preempted } else { DeathReason::Unexpected },
            message,
        });
        nodes.push(dead);
    }
    let mut jobs = vec![
        job("ray-run-alice-exp1395_qwen3_32b-4f1c", JobStatus::Running, "alice", 21_720),
        job("tokenize-fineweb-a28167", JobStatus::Pending, "bo", 1320),
        job("eval-tulu-99", JobStatus::Running, "carol", 180),
        job("exp600_tootsie-77a1", JobStatus::Succeeded, "dan", 90_000),
        job("dclm-run-02", JobStatus::Failed, "erin", 40_000),
    ];
    jobs[1].message = "Job has not started yet. It may be waiting for resources".into();
    jobs[1].requested = Some(vec![("TPU-v4-128-head".into(), 1.0)]);
    jobs.push(Job {
        key: JobKey::Driver(JobId("04000000".into())),
        metadata: Vec::new(),
        ..job("x", JobStatus::Running, "", 7200)
    });
    let count = |name: &str, min, active, idle, pending, failed| NodeTypeCount {
        name: name.into(),
        min: Some(min),
        max: Some(1024),
        active,
        idle,
        pending,
        launching: 0,
        failed,
    };
    let demand = |shape: &[(&str, f64)], n, kind, infeasible| Demand {
        shape: shape.iter().map(|(k, v)| ((*k).into(), *v)).collect(),
        count: n,
        kind,
        infeasible,
    };
    let autoscaler = Autoscaler {
        version: AutoscalerVersion::V2,
        reported: Some(before(3)),
        types: vec![count("tpu_slice_v4_32", 0, 2, 0, 1, 0), count("tpu_worker", 4, 0, 1, 0, 2)],
        max_workers: None,
        pending: vec![PendingNode {
            node_type: "tpu_slice_v4_32".into(),
            address: "10.130.0.77".into(),
            status: "setting-up".into(),
        }],
        demands: vec![
            demand(&[("CPU", 120.0), ("TPU", 4.0)], 29, DemandKind::Task, false),
            demand(&[("TPU", 4.0)], 8, DemandKind::Group("STRICT_SPREAD".into()), false),
            demand(&[("GPU", 1.0)], 1, DemandKind::Task, true),
        ],
        failures: vec![LaunchFailure {
            node_type: "tpu_worker".into(),
            count: 2,
            reason: "QUOTA_EXCEEDED: Quota 'TPUV4sPreemptiblePodPerProjectPerZone' exhausted".into(),
            at: Some(before(95)),
            from_text: false,
            day_unknown: false,
        }],
        error: "".into(),
    };
    Snapshot {
        taken: before(1),
        ray_version: "2.60.0".into(),
        session: "session_1".into(),
        nodes: Arc::new(nodes),
        jobs: Arc::new(jobs.into_iter().map(Arc::new).collect()),
        autoscaler: Arc::new(autoscaler),
        missing: Vec::new(),
    }
}

pub fn app(clusters: &[&str]) -> App {
    let keymap = Keymap::with_changes(actions(), &BTreeMap::new()).unwrap();
    // One row per node: grouping by slice has separate tests.
    let layout = Layout { by_slice: Some(false), ..Layout::default() };
    let listed = clusters.iter().map(|c| Listed::Cluster(spec(c))).collect();
    App::new(listed, keymap).with_user("carol").arranged(&BTreeMap::new(), &layout)
}

/// A host of a TPU slice with this topology.
pub fn host(n: u8, slice: &str, kind: &str, topology: &str) -> Node {
    let labels =
        [("ray.io/tpu-pod-type", kind), ("ray.io/tpu-slice-name", slice), ("ray.io/tpu-topology", topology)];
    Node {
        name: format!("{slice}-w-{n}").as_str().into(),
        node_type: format!("tpu_slice_{}", kind.replace('-', "_")).as_str().into(),
        labels: labels.map(|(key, value)| (key.into(), value.into())).into(),
        started: Some(before(7200)),
        ..node(n, "", 4.0, 4.0)
    }
}

/// The node, dead for this many seconds.
pub fn dead(node: Node, secs: u64, reason: DeathReason) -> Node {
    let message = "health check failed due to missing too many heartbeats".into();
    Node { state: NodeState::Dead, ended: Some(before(secs)), death: Some(Death { reason, message }), ..node }
}

/// A healthy slice of 64 hosts, one with half of its hosts dead, one that was lost, and workers without chips.
pub fn sliced() -> Snapshot {
    let mut nodes: Vec<Node> =
        (1..=64).map(|n| host(n, "ray-m-worker-aa10-tpu", "v4-512", "4x8x8")).collect();
    let half = |n| host(n, "ray-m-worker-bb20-tpu", "v4-64", "2x4x4");
    nodes.extend((70..74).map(half));
    nodes.extend((74..78).map(half).map(|node| dead(node, 720, DeathReason::Unexpected)));
    let lost = |n| host(n, "ray-m-worker-cc30-tpu", "v4-128", "4x4x4");
    nodes.extend((100..116).map(lost).map(|node| dead(node, 1500, DeathReason::Preempted)));
    nodes.extend((200..203).map(|n| node(n, "cpu_worker", 0.0, 1.0)));
    let mut head = node(210, "head_default", 0.0, 0.0);
    (head.is_head, head.name) = (true, "ray-m-head".into());
    nodes.push(head);
    let mut all = snapshot();
    if let Some(job) = Arc::make_mut(&mut all.jobs).iter_mut().find(|j| j.key.raw() == "04000000") {
        Arc::make_mut(job).driver = Some(JobId("04000000".into()));
    }
    Snapshot { nodes: Arc::new(nodes), ..all }
}

/// The utilization of a machine, all in percent.
pub fn figures(cpu: f64, memory: u64, disk: u64) -> Physical {
    Physical {
        sampled: None,
        cpu_percent: Some(cpu),
        memory: Some((memory, 100)),
        disk: Some((disk, 100)),
        tpus: Vec::new(),
    }
}

/// Vitals in which a driver has something running on these nodes.
pub fn held(driver: &str, nodes: impl IntoIterator<Item = u8>) -> ClusterEvent {
    let vitals = Vitals {
        read: NOW,
        log: LogRead::None,
        activity: JobActivity::Running { tasks: 0, actors: 1 },
        since: None,
        holds: None,
        nodes: nodes.into_iter().map(|n| node(n, "", 0.0, 0.0).id).collect(),
        waits: Vec::new(),
        run: None,
        logged: None,
        restarts: 0,
        signs: Vec::new(),
    };
    let jobs = [(JobKey::Driver(JobId(driver.into())), Arc::new(vitals))].into();
    ClusterEvent::Vitals(Arc::new(ClusterVitals { read: Some(NOW), jobs, ..ClusterVitals::default() }))
}

/// An update as the cluster's task sends it: the event, and the displayed state with the event applied.
pub fn update(app: &App, cluster: &str, event: ClusterEvent) -> Event {
    let name = ClusterName::new(cluster);
    let shown = app.fleet().named(&name);
    let mut state = shown.map_or_else(
        || ClusterState::new(Arc::new(spec(cluster))),
        |cluster| ClusterState::clone(cluster.state()),
    );
    state.apply_operation(shown.is_some_and(Cluster::is_operated), NOW);
    state.apply(&event);
    Event::Update(Update { cluster: name, event, state: Arc::new(state) })
}

pub fn send_update(app: &mut App, cluster: &str, event: ClusterEvent) -> Vec<Effect> {
    let event = update(app, cluster, event);
    app.update(event, NOW)
}

/// The work of a driver that trains on some chips and waits for more.
pub fn work() -> Work {
    let counted = |name: &str, states: &[(&str, u64)]| Counted {
        name: name.into(),
        states: states.iter().map(|(state, n)| ((*state).into(), *n)).collect(),
    };
    let shape = |tpu: f64| vec![("CPU".into(), 1.0), ("TPU".into(), tpu)];
    Work {
        holds: shape(16.0),
        waits: vec![Wait { shape: shape(4.0), count: 3, since: Some(before(22 * 60)) }],
        tasks: vec![
            counted("tokenize", &[("FINISHED", 4096)]),
            counted("train_step", &[("RUNNING", 4), ("PENDING_NODE_ASSIGNMENT", 3)]),
        ],
        actors: vec![counted("Holder", &[("ALIVE", 1), ("DEAD", 1)])],
        died: vec![DeadActor {
            class: "Holder".into(),
            name: "".into(),
            node: snapshot().nodes.first().map(|n| n.id),
            address: "10.0.0.1".into(),
            why: "The actor died because its node has died.".into(),
        }],
    }
}

pub fn up() -> Link {
    Link::Up {
        since: before(100),
        latency: Some(Duration::from_millis(12)),
        gcs: true,
        token_auth: true,
        dashboard: None,
    }
}

pub fn problem(kind: ProblemKind, what: &str, hint: impl Into<Hint>) -> Problem {
    Problem::new(kind, what, hint, before(240))
}

/// An app that shows the sample cluster, connected, with its newest log.
pub fn shown() -> App {
    let mut app = app(&["marin-us-central2"]);
    app.start(None);
    send_update(&mut app, "marin-us-central2", ClusterEvent::Link(up()));
    send_update(&mut app, "marin-us-central2", ClusterEvent::Snapshot(Arc::new(snapshot())));
    let lines = (0..40).map(|i| match i {
        33 => "W1121 13:58:14 WARNING slow collective on worker-73274c62".to_owned(),
        _ => format!(
            "I1121 13:58:{i:02} step {} loss=2.{:03} mfu=48.9% tokens/s=1.02e6 lr=3.0e-04",
            18_200 + i,
            180 - i
        ),
    });
    let stream = app.log().unwrap().stream();
    send_update(
        &mut app,
        "marin-us-central2",
        ClusterEvent::Log(LogBatch {
            stream,
            part: lines.map(Into::into).collect::<Vec<Line>>().into(),
            end: LogEnd::Open,
        }),
    );
    app
}

/// Presses keys: characters, and `<name>` for enter, esc, tab, up, down, left, right, end, home, backspace, `^x`.
pub fn press(app: &mut App, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut rest = keys;
    while let Some(first) = rest.chars().next() {
        let (event, after) = match rest.strip_prefix('<').and_then(|r| r.split_once('>')) {
            Some((name, after)) => (named(name), after),
            None => (KeyEvent::from(KeyCode::Char(first)), &rest[first.len_utf8()..]),
        };
        effects.extend(app.update(Event::Key(event), NOW));
        rest = after;
    }
    effects
}

fn named(name: &str) -> KeyEvent {
    KeyEvent::from(match name {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "up" => KeyCode::Up,
        "backtab" => KeyCode::BackTab,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "down" => KeyCode::Down,
        "end" => KeyCode::End,
        "home" => KeyCode::Home,
        "backspace" => KeyCode::Backspace,
        "pgdn" => KeyCode::PageDown,
        "pgup" => KeyCode::PageUp,
        c => return KeyEvent::new(KeyCode::Char(c.chars().nth(1).unwrap()), KeyModifiers::CONTROL),
    })
}
