//! Every view in every state, at common window sizes.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod columns;
mod fleet;
mod job_workers;
mod log;
mod operate;
mod pages;
mod plain;
mod reach;
mod room;
#[path = "../support/sample.rs"]
mod sample;
mod slices;
#[path = "../support/spec.rs"]
mod spec;
mod vitals;
mod workers;
#[path = "../support/workers_reading.rs"]
mod workers_reading;

use crate::sample::*;
use marin_tui::app::{self, App, Event, actions};
use marin_tui::model::*;
use marin_tui::ssh::SshError;
use marin_tui::ui::{Colors, Theme, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use std::sync::Arc;
use std::time::Duration;

const CLUSTER: &str = "marin-us-central2";

/// The problem of a host that ssh cannot connect to.
fn unreachable(host: &str, why: &str) -> Problem {
    SshError::Unreachable { host: host.into(), why: why.into() }.problem(before(240))
}

fn paint(app: &mut App, colors: Colors, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    // Twice, because the drawn heights determine what is shown.
    for _ in 0..2 {
        let mut areas = None;
        terminal.draw(|frame| areas = Some(draw(frame, app, &Theme::new(colors), NOW))).unwrap();
        app.drawn(areas.unwrap());
    }
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let rows = buffer.content().chunks(usize::from(buffer.area.width));
    let line = |row: &[ratatui::buffer::Cell]| {
        row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
    };
    rows.map(line).collect::<Vec<_>>().join("\n")
}

/// Compares the screen with its snapshot.
fn snap(name: &str, app: &mut App) {
    snap_at(name, app, &[(120, 40)]);
}

/// The same at common sizes, for views whose layout depends on the size.
fn snap_at_sizes(name: &str, app: &mut App) {
    snap_at(name, app, &[(80, 24), (120, 40), (200, 60)]);
}

fn snap_at(name: &str, app: &mut App, sizes: &[(u16, u16)]) {
    for (width, height) in sizes.iter().copied() {
        let seen = text(&paint(app, Colors::Full, width, height));
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), seen);
    }
}

#[test]
fn nothing_known_yet() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    let since = before(1);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Connecting { phase: Phase::Tunnel, since }));
    snap("connecting", &mut app);
}

#[test]
fn a_running_cluster() {
    let mut app = shown();
    snap_at_sizes("jobs", &mut app);
    press(&mut app, "1");
    snap("nodes", &mut app);
    press(&mut app, "4");
    snap("autoscaler", &mut app);
    press(&mut app, "3z");
    snap("log_zoomed", &mut app);
}

#[test]
fn an_empty_cluster() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    let empty = Snapshot { taken: NOW, ray_version: "2.53.0".into(), ..Snapshot::default() };
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(empty)));
    snap("empty", &mut app);
}

#[test]
fn stale_data_stays_with_the_reason() {
    let mut app = shown();
    let gone = unreachable("10.0.0.1", "connection refused");
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Link(Link::Retrying { problem: gone, at: NOW.plus(std::time::Duration::from_secs(8)) }),
    );
    snap_at_sizes("stale", &mut app);
}

#[test]
fn a_refused_token_shows_its_hint() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    let refused = problem(
        ProblemKind::TokenRefused,
        "the cluster refuses the token (403)",
        "write the cluster's token into ~/.cache/marin-tui/tokens/clusters/marin-us-central2",
    );
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Link(Link::Retrying {
            problem: refused,
            at: NOW.plus(std::time::Duration::from_secs(4)),
        }),
    );
    snap("token_refused", &mut app);
}

#[test]
fn dialogs() {
    let mut app = shown();
    press(&mut app, "s");
    snap("stop", &mut app);
    press(&mut app, "<esc>?");
    snap_at_sizes("help", &mut app);
    press(&mut app, "<esc>1d");
    snap("describe_node", &mut app);
    press(&mut app, "<esc>2d");
    let job = app.target_job().map(|(_, j)| j).unwrap().ids();
    send_update(&mut app, CLUSTER, ClusterEvent::Work { job, work: Ok(Box::new(work())) });
    snap("describe_job", &mut app);
    press(&mut app, "<esc>1");
    let changed = ProblemKind::HostKeyChanged {
        known: "SHA256:r6cIlhaJz7C5q1WnVqsgbRs26lahr1I1I+jwowah3Wo".into(),
        offered: "SHA256:0Zf1QY1ZDpm7Vh5Tn2VbqkFv0ZC1cJ6dB7m1mX1aXyQ".into(),
    };
    press(&mut app, "<esc>");
    let compare = Verb::HostKey.to("compare it before you accept it");
    let problem = problem(changed, "the host key of 10.0.0.1 has changed", compare);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(Link::Stopped { problem }));
    press(&mut app, "h");
    snap("host_key", &mut app);
}

#[test]
fn prompts_and_messages() {
    let mut app = shown();
    press(&mut app, "2/tok");
    snap("filter", &mut app);
    press(&mut app, "<enter>:so");
    snap("palette", &mut app);
    press(&mut app, "<esc>");
    let id = SubmissionId("tokenize-fineweb-a28167".into());
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::JobStop { id, outcome: JobStopOutcome::StillThere(JobStatus::Pending) },
    );
    snap("toast", &mut app);
}

#[test]
fn the_age_of_the_data_stays_in_the_header_beside_read_only() {
    let name = "marin-us-central2-with-a-name-that-is-longer-than-most";
    let mut app = app(&[name]).with_read_only(true);
    app.start(None);
    send_update(&mut app, name, ClusterEvent::Link(up()));
    send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(snapshot())));
    let header =
        |app: &mut App, width| text(&paint(app, Colors::Full, width, 24)).lines().next().unwrap().to_owned();
    let calm = header(&mut app, 120);
    assert!(calm.contains("read-only  data "), "{calm}");
    let silent = problem(ProblemKind::DashboardSilent, "it does not answer", "look");
    send_update(
        &mut app,
        name,
        ClusterEvent::Link(Link::Retrying { problem: silent, at: NOW.plus(Duration::from_secs(8)) }),
    );
    let seen = header(&mut app, 80);
    assert!(seen.contains("✕ dashboard not responding, retry in 8s") && seen.contains("  data "), "{seen}");
}

#[test]
fn a_long_prompt_shows_its_end() {
    let mut app = shown();
    press(&mut app, "/");
    press(&mut app, &"0123456789".repeat(12));
    press(&mut app, "the-end");
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| _ = draw(frame, &app, &Theme::new(Colors::Full), NOW)).unwrap();
    let seen = text(terminal.backend().buffer());
    let footer = seen.lines().last().unwrap();
    assert!(footer.starts_with(" filter: …") && footer.ends_with("9the-end"), "{footer}");
    let cursor = terminal.get_cursor_position().unwrap();
    assert_eq!((usize::from(cursor.x), cursor.y), (footer.chars().count(), 23), "right after it");
}

#[test]
fn lines_that_wrap_are_all_drawn_page_by_page() {
    let mut app = shown();
    press(&mut app, "3zw%");
    let stream = app.log().unwrap().stream();
    let lines: Vec<Line> = (0..100).map(|i| format!("line {i:03} {}", "-".repeat(240)).into()).collect();
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Log(LogBatch { stream, part: lines.into(), end: LogEnd::Open }),
    );
    let see = |app: &mut App| text(&paint(app, Colors::Full, 80, 24));
    assert!(see(&mut app).contains("line 099"));
    press(&mut app, "gg");
    assert!(see(&mut app).contains("below"));
    let mut shown_lines = String::new();
    while !app.log().unwrap().follows() {
        shown_lines += &see(&mut app);
        press(&mut app, "<^f>");
    }
    shown_lines += &see(&mut app);
    for i in 0..100 {
        assert!(shown_lines.contains(&format!("line {i:03}")), "{i}");
    }
    press(&mut app, "k");
    let seen = see(&mut app);
    assert!(
        seen.contains("1 line below") && seen.contains("line 094") && !seen.contains("line 099"),
        "{seen}"
    );
}

#[test]
fn without_colors_the_text_is_unchanged() {
    let mut app = shown();
    let plain = paint(&mut app, Colors::None, 120, 40);
    let colours = |b: &Buffer| {
        b.content()
            .iter()
            .filter(|c| c.fg != ratatui::style::Color::Reset || c.bg != ratatui::style::Color::Reset)
            .count()
    };
    assert_eq!(colours(&plain), 0);
    let full = paint(&mut app, Colors::Full, 120, 40);
    assert_eq!(text(&plain), text(&full), "no state is shown by colour alone");
    assert!(colours(&full) > 0);
}

#[test]
fn control_characters_never_reach_a_cell() {
    let mut app = app(&["evil\x1b]0;x\x07"]);
    let mut hostile = snapshot();
    let bad = "a\x1b[31m\u{202e}\u{9b}\x07\n\tb";
    let mut job = (*hostile.jobs[0]).clone();
    job.key = JobKey::Submission(SubmissionId(bad.into()));
    (job.entrypoint, job.message, job.status) = (bad.into(), bad.into(), JobStatus::Failed);
    job.metadata = vec![("owner".into(), bad.into())];
    let mut node = hostile.nodes[0].clone();
    (node.name, node.node_type, node.labels) = (bad.into(), bad.into(), [(bad.into(), bad.into())].into());
    hostile.jobs = Arc::new(vec![Arc::new(job)]);
    hostile.nodes = Arc::new(vec![node]);
    let mut scaler = (*hostile.autoscaler).clone();
    scaler.failures[0].reason = bad.into();
    hostile.autoscaler = Arc::new(scaler);
    hostile.missing = vec![MissingPart { part: SnapshotPart::Autoscaler, why: bad.to_owned() }];
    app.start(None);
    let name = "evil\x1b]0;x\x07";
    send_update(&mut app, name, ClusterEvent::Link(up()));
    send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(hostile)));
    for keys in ["", "s", "<esc>R", "<esc>y", "<esc> s", "<esc><esc>d", "<esc>1d", "<esc>/\x1b", "<esc>m"] {
        press(&mut app, keys);
        let buffer = paint(&mut app, Colors::Full, 120, 40);
        for cell in buffer.content() {
            assert!(
                !cell.symbol().chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)),
                "{keys}: {:?}",
                cell.symbol()
            );
        }
    }
}

#[test]
fn every_page_is_drawn_at_every_size() {
    for keys in ["", "1", "3z", "s", "?", "/x", ":c", "m", "R", "n", "p"] {
        let mut app = shown();
        app.update(Event::Operation(ClusterName::new(CLUSTER), operate::stopped()), NOW);
        press(&mut app, if keys == "p" { "" } else { "<esc>" });
        if keys == "R" {
            // There is no interrupted operation.
            app.update(Event::Operation(ClusterName::new(CLUSTER), OperationEvent::Journaled(None)), NOW);
        }
        press(&mut app, keys);
        fits(&mut app, keys);
    }
}

/// Checks every small window: below 40 columns and 10 rows it only asks for a larger one, otherwise no part of the
/// screen is empty.
fn fits(app: &mut App, what: &str) {
    for (width, height) in (1..56).flat_map(|width| (1..20).map(move |height| (width, height))) {
        let seen = text(&paint(app, Colors::Sixteen, width, height));
        if width < 40 || height < 10 {
            let letters: String = seen.split_whitespace().collect();
            // A window narrower than the longest word truncates it.
            let is_asked = width < 8 || "enlargethewindow:atleast40x10".starts_with(&letters);
            assert!(is_asked && !letters.is_empty(), "{what} {width}x{height}: {seen}");
        } else {
            assert!(!seen.contains("enlarge"), "{what} {width}x{height}: {seen}");
            let rows: Vec<&str> = seen.lines().collect();
            for row in [0, rows.len() / 2, rows.len() - 1] {
                assert!(!rows[row].is_empty(), "{what} {width}x{height}: row {row} of {seen}");
            }
        }
    }
}

/// The sample's nodes as Google lists them, and other TPUs.
fn cloud() -> cloud::CloudView {
    use cloud::{Capacity, QueuedResource, QueuedState, TpuVm, VmState};
    let vm = |name: &str, kind: &str, state, hosts: &[&str]| TpuVm {
        id: None,
        name: format!("ray-marin-us-central2-worker-{name}-tpu").into(),
        accelerator_type: kind.into(),
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
        ray_type: Some("tpu_worker".into()),
        compute: None,
    };
    let vms = vec![
        vm("4d1a77e0", "v4-16", VmState::Ready, &["10.130.0.1", "10.130.0.44"]),
        vm("9f00beef", "v4-8", VmState::Preempted, &["10.130.0.2"]),
        vm("0aa1b2c3", "v4-8", VmState::Ready, &["10.130.0.3"]),
        vm("5151aaaa", "v4-64", VmState::Preempted, &["10.130.0.66"]),
        vm("c0ffee00", "v4-8", VmState::Starting, &[]),
    ];
    let refused = QueuedResource {
        name: "ray-worker-manual-98".into(),
        state: QueuedState::Failed,
        api_state: "".into(),
        error: Some("Quota limit 'TPUV4PodPerProjectPerZone' has been exceeded.".into()),
        accelerator_type: "v4-128".into(),
        nodes: vec!["ray-worker-manual-98".into()],
        capacity: Capacity::Reserved,
        created: Some(before(600)),
        ray_cluster: Some(CLUSTER.into()),
    };
    cloud::CloudView {
        vms,
        queued: vec![refused],
        complete: true,
        unlisted: None,
        queried: before(70),
        heads: Vec::new(),
        resizes: Vec::new(),
    }
}

/// The sample cluster with limits in its file, and its TPUs on the screen.
fn tpus(answer: ClusterEvent) -> App {
    let limits = |name: &str, min| NodeTypeLimits {
        name: name.into(),
        min,
        max: 1024,
        is_head: false,
        gives: Vec::new(),
    };
    let node_types = vec![limits("tpu_worker", 4), limits("tpu_slice_v4_32", 0)];
    let spec = ClusterSpec { node_types, ..spec(CLUSTER) };
    let keymap = app::Keymap::with_changes(actions(), &std::collections::BTreeMap::new()).unwrap();
    let mut app = App::new(vec![marin_tui::app::Listed::Cluster(spec)], keymap);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot())));
    press(&mut app, "T");
    send_update(&mut app, CLUSTER, answer);
    app
}

#[test]
fn the_tpus_of_a_cluster() {
    let mut app = tpus(ClusterEvent::Cloud(Ok(Arc::new(cloud()))));
    snap_at_sizes("tpus", &mut app);
    press(&mut app, "x");
    snap("tpus_clean", &mut app);
    press(&mut app, "<esc>");
    let gone = problem(
        ProblemKind::Other,
        "permission denied by Google: Permission 'tpu.nodes.list' denied",
        "ask the project's owner for a role with tpu.nodes.list",
    );
    send_update(&mut app, CLUSTER, ClusterEvent::Cloud(Err(gone)));
    snap("tpus_stale", &mut app);
}

#[test]
fn unknown_tpus() {
    let missing = problem(
        ProblemKind::Login,
        "not logged in to Google Cloud on this machine (no application-default credentials)",
        Fix::command("log in to Google", "gcloud auth application-default login"),
    );
    let mut app = tpus(ClusterEvent::Cloud(Err(missing)));
    press(&mut app, "<esc>T");
    snap("tpus_no_login", &mut app);
    // No ghosts are reported if Google may have left nodes out.
    let empty = cloud::CloudView { complete: false, queried: before(1), ..cloud::CloudView::default() };
    send_update(&mut app, CLUSTER, ClusterEvent::Cloud(Ok(Arc::new(empty))));
    let seen = text(&paint(&mut app, Colors::None, 80, 24));
    assert!(seen.contains("no TPUs here") && seen.contains("could not list everything"), "{seen}");
}

#[test]
fn hostile_tpus_are_drawn_at_every_size() {
    let mut view = cloud();
    let bad = "a\x1b[31m\u{202e}\u{9b}\x07\n\tb";
    (view.vms[0].name, view.vms[0].accelerator_type) = (bad.into(), bad.into());
    (view.vms[0].unhealthy, view.vms[0].ray_type) = (Some(bad.into()), Some(bad.into()));
    view.vms[0].hosts = vec![bad.into()];
    (view.vms[3].name, view.queued[0].error) = (bad.into(), Some(bad.into()));
    view.complete = false;
    let mut app = tpus(ClusterEvent::Cloud(Ok(Arc::new(view))));
    for keys in ["", "d", "<esc>jd", "<esc>x", "<esc>/\x1b", "<esc>m"] {
        paint(&mut app, Colors::Full, 200, 40);
        press(&mut app, keys);
        for cell in paint(&mut app, Colors::Full, 200, 40).content() {
            assert!(!cell.symbol().chars().any(|c| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)));
        }
        fits(&mut app, keys);
    }
}
