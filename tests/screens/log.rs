//! Log features: progress, hidden noise with a count, times, and the histogram.

use super::*;

/// A Levanter run: startup with noise, then steps, one of which fails.
fn training() -> App {
    let mut app = shown();
    press(&mut app, "3z");
    let noise = [
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "I0000 00:00:1731576742.280168 13509 tpu_hal.cc:448] Registered plugin from module: sdc_checker_callback",
        "computation_placer.cc:177] computation placer already registered",
    ];
    let mut lines: Vec<Line> =
        vec!["2026-11-21 13:40:00,000 [INFO] marin.training Using run ID: tootsie".into()];
    lines.extend(noise.map(Line::from));
    for step in 0..120_u32 {
        let (minute, second) = (41 + step / 8, step % 8 * 7);
        lines.push(
            format!(
                "2026-11-21 13:{minute}:{second:02},000 [INFO] levanter Progress on:train {step}.0it/7000.0it rate:7.0s/it remaining:13:22:40 elapsed:14:00 postfix:loss={:.3}",
                4.0 - f64::from(step) / 60.0
            )
            .into(),
        );
        if step == 100 {
            lines.push("2026-11-21 13:53:29,000 [ERROR] levanter RESOURCE_EXHAUSTED: out of memory".into());
        }
    }
    let stream = app.log().unwrap().stream();
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Log(LogBatch { stream, part: lines.into(), end: LogEnd::Open }),
    );
    app
}

#[test]
fn a_log_shows_its_progress_histogram_and_noise() {
    let mut app = training();
    snap_at_sizes("log_progress", &mut app);
    press(&mut app, "iD");
    snap_at_sizes("log_histogram", &mut app);
    press(&mut app, "gt41<enter>");
    snap("log_noise", &mut app);
    press(&mut app, ".");
    assert!(text(&paint(&mut app, Colors::Full, 120, 40)).contains("tpu_hal.cc:448"));
}

#[test]
fn the_progress_line_is_hidden_in_a_small_window() {
    let mut app = training();
    for (height, has) in [(24, true), (12, true), (9, false)] {
        let seen = text(&paint(&mut app, Colors::Full, 80, height));
        assert_eq!(seen.contains("step 119/7,000"), has, "{seen}");
    }
    paint(&mut app, Colors::Full, 80, 24);
    press(&mut app, "%");
    assert!(!text(&paint(&mut app, Colors::Full, 80, 24)).contains("step 119/7,000"));
}

#[test]
fn toggles_keep_the_current_line_on_the_screen() {
    let mut app = training();
    press(&mut app, "/step 50|50.0it<enter>");
    paint(&mut app, Colors::Full, 80, 24);
    for key in ["D", "i", ".", "%", "x", "w", "D", "i", ".", "%", "x", "w"] {
        press(&mut app, key);
        let seen = text(&paint(&mut app, Colors::Full, 80, 24));
        assert!(seen.contains("50.0it/"), "{key}: {seen}");
    }
}

#[test]
fn lines_of_several_logs_are_shown_with_their_names() {
    let mut app = shown();
    let effects = press(&mut app, " j<down> l");
    let requests = effects.iter().find_map(|effect| match effect {
        app::Effect::Ask(_, Request::FollowSeveral(logs)) => Some(logs.clone()),
        _ => None,
    });
    let [(first, ..), (second, ..)] = requests.as_deref().unwrap() else { panic!("{effects:?}") };
    for (stream, second) in [(*first, 1), (*second, 2)] {
        let line = |n: u32| Line::from(format!("2026-11-21 13:5{n}:0{second},000 [INFO] step {n} loss 2.5"));
        let part = (0..9).map(line).collect::<Vec<_>>().into();
        send_update(&mut app, CLUSTER, ClusterEvent::Log(LogBatch { stream, part, end: LogEnd::Open }));
    }
    app.update(Event::Tick, NOW.plus(Duration::from_secs(2)));
    snap_at_sizes("log_several", &mut app);
    // Lines that do not repeat their writer's prefix are named as well.
    let line = |n: u32| Line::from(format!("(train pid=7) 2026-11-21 13:59:0{n},000 step {n}"));
    let part = (1..4).map(line).collect::<Vec<_>>().into();
    send_update(&mut app, CLUSTER, ClusterEvent::Log(LogBatch { stream: *second, part, end: LogEnd::Open }));
    app.update(Event::Tick, NOW.plus(Duration::from_secs(4)));
    let seen = text(&paint(&mut app, Colors::None, 120, 40));
    let is_named = |line: &&str| line.contains("13:59:0") && line.contains("eval-tulu-99");
    assert_eq!(seen.lines().filter(is_named).count(), 3, "{seen}");
}

#[test]
fn the_log_of_a_job_is_silent_only_until_the_job_has_ended() {
    let mut app = shown();
    press(&mut app, "2/ray-run<enter>l");
    let stream = app.log().unwrap().stream();
    let part = vec![Line::from("2026-11-21T03:57:00.000+00:00 step 1 loss 2.5")].into();
    send_update(&mut app, CLUSTER, ClusterEvent::Log(LogBatch { stream, part, end: LogEnd::Open }));
    // No key focuses the only pane of a page, so that its title has no number.
    let title = |app: &mut App| {
        let seen = text(&paint(app, Colors::None, 120, 40));
        let line = seen.lines().find(|line| line.contains("─ Log ray-run-"));
        line.unwrap_or_else(|| panic!("{seen}")).to_owned()
    };
    let running = title(&mut app);
    assert!(running.contains("silent for 3m, FOLLOW"), "{running}");
    let mut state = snapshot();
    for job in Arc::make_mut(&mut state.jobs) {
        if job.key.raw().starts_with("ray-run-") {
            Arc::make_mut(job).status = JobStatus::Succeeded;
        }
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    let ended = title(&mut app);
    assert!(ended.contains("FOLLOW") && !ended.contains("silent"), "{ended}");
}
