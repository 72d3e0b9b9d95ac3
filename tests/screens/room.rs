//! What is omitted when space is short, and what is always shown.

use super::*;
use marin_tui::app::{Effect, Keymap, Listed, View, actions};
use std::collections::BTreeMap;

const LONG: &str = "ray-run-dara-exp964_custom_chat_with_a_long_name-ac58bf";

/// One cluster in this state.
fn with(state: Snapshot) -> App {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    app
}

fn seen(app: &mut App, width: u16, height: u16) -> String {
    text(&paint(app, Colors::None, width, height))
}

#[test]
fn truncated_job_ids_keep_their_unique_end() {
    let mut state = snapshot();
    let ids = ["sft_mistral_7b_on_everything-4f1c2a", "sft_mistral_7b_on_everything-99be01"];
    let jobs =
        ids.map(|id| Arc::new(job(&format!("ray-run-farid-exp808_{id}"), JobStatus::Running, "farid", 60)));
    state.jobs = Arc::new(jobs.to_vec());
    let mut app = with(state);
    press(&mut app, "2");
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let text = seen(&mut app, width, height);
        for end in ["-4f1c2a farid", "-99be01 farid"] {
            assert!(text.contains(end), "{width}: {text}");
        }
        assert!(!text.contains("MESSAGE") && !text.contains("DURATION"), "empty columns are omitted: {text}");
    }
    assert!(seen(&mut app, 200, 60).contains("ENTRYPOINT"), "the remaining space is used");
}

#[test]
fn a_title_names_the_omitted_columns_that_match_the_filter() {
    let mut app = with(snapshot());
    press(&mut app, "2/tootsie<enter>");
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let text = seen(&mut app, width, height);
        assert!(text.contains("/tootsie 6 of 6"), "{width}: {text}");
        let is_named = text.contains("/tootsie 6 of 6, also in entrypoint ");
        assert_eq!(is_named, !text.contains("ENTRYPOINT"), "{width}: {text}");
        assert!(is_named || width > 80, "{text}");
    }
    press(&mut app, "/<^u>entrypoint:tootsie<enter>");
    let text = seen(&mut app, 80, 24);
    assert!(text.contains("/entrypoint:tootsie 6 of 6 ") && !text.contains("also in"), "{text}");
}

#[test]
fn a_logs_state_stays_beside_a_long_name() {
    let mut state = snapshot();
    state.jobs = Arc::new(vec![Arc::new(job(LONG, JobStatus::Running, "dara", 60))]);
    let mut app = with(state);
    let stream = app.log().unwrap().stream();
    let lines: Vec<Line> = (0..100).map(|i| format!("step {i} loss=2").into()).collect();
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Log(LogBatch { stream, part: lines.into(), end: LogEnd::Open }),
    );
    let title = |app: &mut App| {
        let text = seen(app, 120, 40);
        text.lines().find_map(|l| l.split_once("3 Log ")).unwrap().1.to_owned()
    };
    let following = title(&mut app);
    assert!(following.starts_with("ray-run") && following.contains("ac58bf ─ FOLLOW ─"), "{following}");
    press(&mut app, "3/loss<enter>gg");
    let sought = title(&mut app);
    for part in ["ray-", "8bf  /loss 100 of 100", " below ─"] {
        assert!(sought.contains(part), "{part}: {sought}");
    }
}

#[test]
fn worker_types_use_the_available_space() {
    let limits = |i: u32| NodeTypeLimits {
        name: format!("tpu_type_{i:02}"),
        min: i + 1,
        max: 1024,
        is_head: false,
        gives: Vec::new(),
    };
    let spec = ClusterSpec { node_types: (0..8).map(limits).collect(), ..spec(CLUSTER) };
    let keymap = Keymap::with_changes(actions(), &BTreeMap::new()).unwrap();
    let mut app = App::new(vec![Listed::Cluster(spec)], keymap);
    app.start(None);
    send_update(&mut app, CLUSTER, ClusterEvent::Link(up()));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot())));
    press(&mut app, "T");
    let mut view = cloud();
    let more = (0..14).map(|i| cloud::TpuVm { name: format!("worker-{i:02}").into(), ..view.vms[4].clone() });
    let more: Vec<_> = more.collect();
    view.vms.extend(more);
    send_update(&mut app, CLUSTER, ClusterEvent::Cloud(Ok(Arc::new(view))));
    let wide = seen(&mut app, 200, 60);
    assert!(
        (0..8).all(|i| wide.contains(&format!("tpu_type_{i:02}"))) && !wide.contains("more below"),
        "{wide}"
    );
    let narrow = seen(&mut app, 80, 24);
    let borders =
        narrow.lines().filter(|l| l.ends_with(" more below ─╯") || l.contains("more below")).count();
    assert_eq!(borders, 2, "both tables count their hidden rows: {narrow}");
    // Past the last row the types scroll; scrolling back starts with them.
    for _ in 0..app.listing().unwrap().len() - 1 {
        assert!(seen(&mut app, 80, 24).contains("tpu_type_00"));
        press(&mut app, "<down>");
    }
    let end = seen(&mut app, 80, 24);
    assert_eq!(end.matches("more below").count(), 1, "the upper table is at its end: {end}");
    press(&mut app, "<down>");
    let next = seen(&mut app, 80, 24);
    assert!(next.contains("1 more above · 1 below") && next.contains("tpu_type_06"), "{next}");
    press(&mut app, "G");
    let end = seen(&mut app, 80, 24);
    assert!(end.contains("tpu_type_07") && end.contains("2 more above") && !end.contains("below"), "{end}");
    press(&mut app, "<up><up>");
    let back = seen(&mut app, 80, 24);
    assert!(back.contains("tpu_type_00") && back.contains("worker-13"), "{back}");
    press(&mut app, "Ggg");
    let begin = seen(&mut app, 80, 24);
    assert!(begin.contains("tpu_type_00") && !begin.contains("worker-13"), "{begin}");
}

#[test]
fn demand_comes_before_a_long_table_of_types() {
    let mut state = snapshot();
    let scaler = Arc::make_mut(&mut state.autoscaler);
    let kind = scaler.types[0].clone();
    scaler
        .types
        .extend((0..14).map(|i| NodeTypeCount { name: format!("type_{i:02}").into(), ..kind.clone() }));
    let mut app = with(state);
    press(&mut app, "4");
    let text = seen(&mut app, 120, 40);
    assert!(text.contains("DEMAND") && text.contains("29× TPU 4, CPU 120"), "{text}");
    assert!(!text.contains("type_13") && text.contains(" more below ─╯"), "{text}");
    press(&mut app, "G");
    let end = seen(&mut app, 120, 40);
    assert!(end.contains("type_13") && !end.contains("more below"), "{end}");
}

#[test]
fn keys_have_no_effect_in_a_window_that_is_too_small() {
    let mut app = app(&["a", "b"]);
    app.start(None);
    let text = seen(&mut app, 20, 5).replace('\n', " ");
    assert!(text.contains("at least 40x10"), "{text}");
    assert!(
        press(&mut app, "<enter>").is_empty() && app.view().clone() == View::Clusters,
        "the selection is not visible"
    );
    assert_eq!(press(&mut app, "q"), [Effect::Quit]);
    seen(&mut app, 40, 10);
    press(&mut app, "<enter>");
    assert!(matches!(app.view().clone(), View::Cluster(_)));
    assert!(seen(&mut app, 20, 5).contains("enlarge the window"));
    assert_eq!(press(&mut app, "<^c>"), [Effect::Quit]);
}

#[test]
fn a_hint_that_is_longer_than_its_pane_is_wrapped() {
    let mut state = snapshot();
    state.jobs = Arc::default();
    let text = seen(&mut with(state), 120, 40);
    assert!(text.contains("no log open") && text.contains("open its log"), "{text}");
}
