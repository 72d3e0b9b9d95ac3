//! Jobs with their activity: healthy, hanging, pending.

use super::*;

/// The sample's running jobs with vitals: every second one hangs.
fn cluster_vitals(app: &App) -> ClusterVitals {
    let jobs = &app.clusters()[0].snapshot.jobs;
    let running = jobs.iter().filter(|job| job.status == JobStatus::Running);
    let run = |losses: Vec<f64>| Run {
        step: Some(18_223),
        total: Some(200_000),
        loss: losses.last().copied(),
        losses,
        rate: Some(0.8),
        typical_rate: Some(1.1),
        ends: Some(NOW.plus(Duration::from_secs(200_000))),
        at: Some(before(2)),
        checkpoint: Some(Checkpoint { step: Some(18_000), at: Some(before(280)) }),
    };
    let of = |hangs: bool| Vitals {
        read: before(4),
        log: LogRead::At(before(4)),
        activity: if hangs { JobActivity::Silent(before(1330)) } else { JobActivity::Training },
        since: None,
        holds: Some(vec![("CPU".into(), 4.0), ("TPU".into(), 16.0)]),
        nodes: Vec::new(),
        waits: Vec::new(),
        run: Some(run((0..24).map(|n| 4.0 - f64::from(n) * 0.08).collect())),
        logged: Some(before(2)),
        restarts: 1,
        signs: Vec::from_iter(hangs.then(|| RunWarning {
            kind: WarningKind::Stalled,
            since: before(1330),
            evidence: "at step 18,223/200,000, its log has no new lines".into(),
        })),
    };
    ClusterVitals {
        read: Some(before(4)),
        jobs: running.zip(0..).map(|(job, n)| (job.key.clone(), Arc::new(of(n % 2 == 1)))).collect(),
        ..ClusterVitals::default()
    }
}

#[test]
fn jobs_show_their_activity_at_every_size() {
    let mut app = shown();
    let cluster_vitals = cluster_vitals(&app);
    send_update(&mut app, CLUSTER, ClusterEvent::Vitals(Arc::new(cluster_vitals)));
    snap_at("vitals", &mut app, &[(80, 24), (120, 40), (200, 60)]);
    press(&mut app, "2d");
    snap("vitals_job", &mut app);
    let seen = text(&paint(&mut app, Colors::None, 120, 40));
    assert!(seen.contains("activity"), "{seen}");
}

#[test]
fn the_narrowest_screen_shows_a_hanging_run() {
    let mut app = shown();
    let cluster_vitals = cluster_vitals(&app);
    send_update(&mut app, CLUSTER, ClusterEvent::Vitals(Arc::new(cluster_vitals)));
    let seen = text(&paint(&mut app, Colors::None, 80, 24));
    assert!(seen.contains("silent 22m"), "{seen}");
}

#[test]
fn the_narrowest_screen_shows_when_jobs_ended_next_to_their_activity() {
    let names = ["marin-us-central2", "marin-us-east5-b-vllm"];
    let mut app = app(&names);
    for name in names {
        send_update(&mut app, name, ClusterEvent::Link(up()));
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(snapshot())));
    }
    let cluster_vitals = Arc::new(cluster_vitals(&app));
    for name in names {
        send_update(&mut app, name, ClusterEvent::Vitals(Arc::clone(&cluster_vitals)));
    }
    press(&mut app, "J");
    let all = text(&paint(&mut app, Colors::None, 80, 24));
    let of_one = text(&paint(&mut shown_with(&cluster_vitals), Colors::None, 80, 24));
    for seen in [all, of_one] {
        let line = |part: &str| seen.lines().find(|line| line.contains(part)).unwrap_or_default();
        for title in ["JOB", "OWNER", "ACTIVITY", "AGE", "ENDED"] {
            assert!(line("ACTIVITY").contains(title), "{title}: {seen}");
        }
        let ages: Vec<&str> = line("dclm-run-02").split_whitespace().rev().skip(1).take(2).collect();
        assert_eq!(ages, ["5h", "11h"], "{seen}");
        assert!(line("a28167 bo ").contains("tokenize-"), "{seen}");
        assert!(line("4f1c").contains("exp1395_"), "{seen}");
    }
}

/// The sample's cluster with these vitals.
fn shown_with(cluster_vitals: &Arc<ClusterVitals>) -> App {
    let mut app = shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Vitals(Arc::clone(cluster_vitals)));
    app
}

#[test]
fn the_fleet_shows_the_cluster_with_the_stalled_run() {
    let mut app = app(&["marin-us-central2", "marin-us-east5-b-vllm"]);
    for name in ["marin-us-central2", "marin-us-east5-b-vllm"] {
        send_update(&mut app, name, ClusterEvent::Link(up()));
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(snapshot())));
    }
    let mut cluster_vitals = cluster_vitals(&app);
    send_update(&mut app, CLUSTER, ClusterEvent::Vitals(Arc::new(cluster_vitals.clone())));
    // The stalled run is the worst finding.
    let row = |app: &mut App, text_of_row: &str| {
        let seen = text(&paint(app, Colors::None, 120, 40));
        let rows: Vec<&str> = seen.lines().filter(|row| row.contains(text_of_row)).collect();
        assert!(rows.len() == 1 && rows[0].contains("central2"), "{text_of_row}: {seen}");
    };
    row(&mut app, "<30s run stalled 22m: eval-tulu-");
    for vitals in cluster_vitals.jobs.values_mut() {
        Arc::make_mut(vitals).signs.iter_mut().for_each(|sign| sign.kind = WarningKind::Slowed);
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Vitals(Arc::new(cluster_vitals)));
    row(&mut app, "<30s 1 run slowed; launches fail");
}
