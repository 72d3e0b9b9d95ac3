//! What the eye meets: every view in every state, at the sizes people use.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod fleet;
mod operate;
#[path = "../sample/mod.rs"]
mod sample;

use marin_tui::app::{App, Event};
use marin_tui::model::*;
use marin_tui::ui::{Colors, Theme, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use sample::*;
use std::sync::Arc;

const CLUSTER: &str = "marin-us-central2";

fn paint(app: &mut App, colors: Colors, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    // Twice: what was drawn (heights) decides what is shown.
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

fn snap(name: &str, app: &mut App) {
    for (width, height) in [(80, 24), (120, 40), (200, 60), (20, 5)] {
        let seen = text(&paint(app, Colors::Full, width, height));
        insta::with_settings!({snapshot_path => "../snapshots"}, {
            insta::assert_snapshot!(format!("{name}_{width}x{height}"), seen);
        });
    }
}

#[test]
fn nothing_known_yet() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    let since = before(1);
    tell(&mut app, CLUSTER, News::Link(Link::Connecting { phase: Phase::Tunnel, since }));
    snap("connecting", &mut app);
}

#[test]
fn a_cluster_at_work() {
    let mut app = shown();
    snap("jobs", &mut app);
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
    tell(&mut app, CLUSTER, News::Link(up()));
    let empty = Snapshot { taken: NOW, ray_version: "2.53.0".into(), ..Snapshot::default() };
    tell(&mut app, CLUSTER, News::Snapshot(Arc::new(empty)));
    snap("empty", &mut app);
}

#[test]
fn stale_data_stays_with_the_reason() {
    let mut app = shown();
    let gone = problem(
        ProblemKind::Unreachable,
        "10.0.0.1 cannot be reached: connection refused",
        "is sshd running there? `ssh ray@10.0.0.1` by hand tells more",
    );
    tell(
        &mut app,
        CLUSTER,
        News::Link(Link::Retrying { problem: gone, at: NOW.plus(std::time::Duration::from_secs(8)) }),
    );
    snap("stale", &mut app);
}

#[test]
fn a_refused_token_shows_its_mend() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    let refused = problem(
        ProblemKind::TokenRefused,
        "the cluster refuses the token (403)",
        "write the cluster's token into ~/.cache/marin-tui/tokens/marin-us-central2",
    );
    tell(
        &mut app,
        CLUSTER,
        News::Link(Link::Retrying { problem: refused, at: NOW.plus(std::time::Duration::from_secs(4)) }),
    );
    snap("token_refused", &mut app);
}

#[test]
fn dialogs() {
    let mut app = shown();
    press(&mut app, "s");
    snap("stop", &mut app);
    press(&mut app, "<esc>?");
    snap("help", &mut app);
    press(&mut app, "<esc>1d");
    snap("describe_node", &mut app);
    let changed = ProblemKind::HostKeyChanged {
        known: "SHA256:r6cIlhaJz7C5q1WnVqsgbRs26lahr1I1I+jwowah3Wo".into(),
        offered: "SHA256:0Zf1QY1ZDpm7Vh5Tn2VbqkFv0ZC1cJ6dB7m1mX1aXyQ".into(),
    };
    press(&mut app, "<esc>");
    let problem = problem(changed, "the host key of 10.0.0.1 has changed", "compare it before you accept it");
    tell(&mut app, CLUSTER, News::Link(Link::Stopped { problem }));
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
    tell(&mut app, CLUSTER, News::JobStop { id, outcome: JobStopOutcome::StillThere("pending".into()) });
    snap("toast", &mut app);
}

#[test]
fn without_colours_everything_can_still_be_read() {
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
    assert_eq!(text(&plain), text(&full), "no state is told by colour alone");
    assert!(colours(&full) > 0);
}

#[test]
fn nothing_hostile_reaches_a_cell() {
    let mut app = app(&["evil\x1b]0;x\x07"]);
    let mut hostile = snapshot();
    let bad = "a\x1b[31m\u{202e}\u{9b}\x07\n\tb";
    let mut job = (*hostile.jobs[0]).clone();
    job.key = JobKey::Submission(SubmissionId(bad.into()));
    (job.entrypoint, job.message, job.status) = (bad.into(), bad.into(), JobStatus::Failed);
    job.metadata = vec![("owner".into(), bad.into())];
    let mut node = hostile.nodes[0].clone();
    (node.name, node.node_type, node.labels) = (bad.into(), bad.into(), vec![(bad.into(), bad.into())]);
    hostile.jobs = Arc::new(vec![Arc::new(job)]);
    hostile.nodes = Arc::new(vec![node]);
    let mut scaler = (*hostile.autoscaler).clone();
    scaler.failures[0].reason = bad.into();
    hostile.autoscaler = Arc::new(scaler);
    hostile.missing = vec![bad.to_owned()];
    app.start(None);
    let name = "evil\x1b]0;x\x07";
    tell(&mut app, name, News::Link(up()));
    tell(&mut app, name, News::Snapshot(Arc::new(hostile)));
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
fn no_size_is_too_small() {
    for keys in ["", "1", "3z", "s", "?", "/x", ":c", "m", "R", "n", "p"] {
        let mut app = shown();
        app.update(Event::Operation(ClusterName::new(CLUSTER), operate::stopped()), NOW);
        press(&mut app, if keys == "p" { "" } else { "<esc>" });
        if keys == "R" {
            // Nothing stands half way.
            app.update(Event::Operation(ClusterName::new(CLUSTER), OperationNews::Standing(None)), NOW);
        }
        press(&mut app, keys);
        for width in 1..32 {
            for height in 1..14 {
                paint(&mut app, Colors::Sixteen, width, height);
            }
        }
    }
}
