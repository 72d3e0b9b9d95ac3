//! The jobs: selection, filter, stopping, logs.

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Rows(Vec<u8>),
    Key(&'static str),
    Draw(u16),
}

/// Keys arrive one by one: a filter is live, so a partial filter may match fewer rows than the complete one.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    const KEYS: &[&str] = &[
        "j",
        "j",
        "k",
        "G",
        "gg",
        ">",
        "<",
        "I",
        "/",
        "1",
        "!",
        "b",
        "o",
        "<enter>",
        "<esc>",
        "<backspace>",
    ];
    let rows = proptest::collection::vec(0u8..30, 0..25).prop_map(Step::Rows);
    let keys = || proptest::sample::select(KEYS).prop_map(Step::Key);
    let step = prop_oneof![rows, keys(), keys(), keys(), (10u16..50).prop_map(Step::Draw)];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_selection_follows_its_job(steps in steps()) {
        let mut app = shown();
        for step in steps {
            let before = selected(&app);
            let mut moves = false;
            match step {
                Step::Rows(mut ids) => {
                    ids.sort_unstable();
                    ids.dedup();
                    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(jobs_snapshot(&ids))));
                }
                // The nodes pane has another table, and the log is another page.
                Step::Key("1" | "<enter>") if app.prompt().is_none() => {}
                Step::Key(key) => {
                    moves = "jkGgg".contains(key);
                    press(&mut app, key);
                }
                Step::Draw(height) => {
                    paint(&mut app, 120, height);
                }
            }
            let rows = rows(&app);
            if let Some(before) = before.filter(|b| rows.contains(b) && !moves) {
                prop_assert_eq!(selected(&app), Some(before));
            } else {
                prop_assert_eq!(selected(&app).is_some(), !rows.is_empty());
            }
            let on_cursor = app.target_job().map(|(_, j)| j).map(|j| j.key.to_string());
            prop_assert_eq!(selected(&app), on_cursor);
        }
    }
}

#[test]
fn a_filter_is_live_inverts_and_esc_restores_it() {
    let mut app = shown();
    assert_eq!(rows(&app), JOBS);
    press(&mut app, "/TUL");
    assert_eq!(rows(&app), ["eval-tulu-99"]);
    press(&mut app, "<backspace><backspace><backspace>!tul");
    assert_eq!(rows(&app), JOBS[1..]);
    press(&mut app, "<enter>/x");
    assert_eq!(app.prompt().unwrap().line.text(), "!tul x");
    press(&mut app, "<esc>");
    assert_eq!(rows(&app), JOBS[1..], "the previous filter is restored");
    press(&mut app, "<esc>");
    assert_eq!(rows(&app), JOBS, "esc outside the prompt clears it");
    press(&mut app, "1/tpu_slice<enter>");
    assert_eq!((page(&app).nodes.len(), page(&app).jobs.len()), (2, 6), "each table has its own filter");
}

#[test]
fn stopping_requires_confirmation() {
    let mut app = shown();
    for cancel in ["<enter>", "<esc>", "q", "<tab><tab><enter>"] {
        press(&mut app, "s");
        assert_eq!(app.context(), Context::Ask);
        let Some(Dialog::Ask { on_yes, lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
        assert!(!on_yes, "cancel has the focus");
        let has = |what: &str| lines.iter().any(|(_, text)| text.contains(what));
        assert!(has("eval-tulu-99") && has(CLUSTER), "{lines:?}");
        assert_eq!(press(&mut app, cancel), [], "{cancel}");
        assert!(app.dialog().is_none());
    }
    for confirm in ["y", "<tab><enter>"] {
        press(&mut app, "s");
        assert_eq!(press(&mut app, confirm), [asks(Request::StopJob(id("eval-tulu-99")))]);
        assert!(app.dialog().is_none());
    }
}

#[test]
fn the_confirmed_job_is_stopped_even_if_the_rows_change() {
    let mut app = shown();
    press(&mut app, "s");
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(jobs_snapshot(&[1, 2, 3]))));
    assert_eq!(press(&mut app, "y"), [asks(Request::StopJob(id("eval-tulu-99")))]);
}

#[test]
fn a_job_that_cannot_be_stopped_is_refused_with_the_reason() {
    let mut app = shown();
    assert_eq!(press(&mut app, "jjs"), []);
    assert!(app.dialog().is_none() && said(&app).contains("started manually"), "{}", said(&app));
    assert_eq!(press(&mut app, "jjs"), []);
    assert!(app.dialog().is_none() && said(&app).contains("has already ended (failed)"), "{}", said(&app));
}

#[test]
fn a_stop_is_watched_until_the_job_is_seen_ended() {
    let mut app = shown();
    let outcome = |app: &mut App, outcome| {
        send_update(app, CLUSTER, ClusterEvent::JobStop { id: id("eval-tulu-99"), outcome });
        app.current().unwrap().stopping.contains(&id("eval-tulu-99"))
    };
    assert!(outcome(&mut app, JobStopOutcome::Requested));
    assert!(!outcome(&mut app, JobStopOutcome::StillThere(JobStatus::Running)));
    assert!(said(&app).contains("still running"));
    outcome(&mut app, JobStopOutcome::Requested);
    assert!(!outcome(&mut app, JobStopOutcome::Ended("stopped".into())));
    assert!(said(&app).contains("has ended (stopped)"));
    let unknown = |watching| JobStopOutcome::Unknown { why: "timed out".into(), watching };
    assert!(outcome(&mut app, unknown(true)), "it is still watched");
    assert!(said(&app).contains("outcome of stopping"), "{}", said(&app));
    assert!(!outcome(&mut app, unknown(false)));
}

#[test]
fn the_newest_running_jobs_log_opens_automatically() {
    let mut app = app(&[CLUSTER]);
    assert_eq!(app.start(None), [asks(Request::Focus(true))]);
    let none_runs = Snapshot { jobs: Arc::default(), ..snapshot() };
    assert_eq!(send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(none_runs))), []);
    let effects = send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot())));
    let stream = app.log().unwrap().stream();
    assert_eq!(effects, [asks(Request::Follow(stream, LogSource::Job(id("eval-tulu-99"))))]);
    assert_eq!(
        send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(jobs_snapshot(&[1])))),
        [],
        "the log stays open"
    );
}

#[test]
fn l_follows_the_selected_job_and_lines_of_the_closed_log_are_dropped() {
    let mut app = shown();
    let old = app.log().unwrap().stream();
    let effects = press(&mut app, "jl");
    let new = app.log().unwrap().stream();
    assert_ne!(old, new);
    let source = LogSource::Job(id(JOBS[1]));
    assert_eq!(effects, [asks(Request::Unfollow(old)), asks(Request::Follow(new, source))]);
    assert!(app.log().unwrap().is_empty());
    let batch = |stream, line: &str| {
        ClusterEvent::Log(LogBatch { stream, part: vec![Line::from(line)].into(), end: LogEnd::Open })
    };
    send_update(&mut app, CLUSTER, batch(old, "late"));
    send_update(&mut app, CLUSTER, batch(new, "mine"));
    let log = &app.log().unwrap();
    assert_eq!((log.len(), log.line(0).map(marin_tui::model::Line::text)), (1, Some("mine")));
    assert_eq!(app.view().clone(), View::Log(0), "in the whole window");
    assert_eq!(press(&mut app, "<esc>jl"), [], "a manually started driver has no log");
    assert!(said(&app).contains("Ray keeps no log"));
    assert_eq!(
        (app.log().unwrap().stream(), app.view().clone()),
        (new, View::Cluster(0)),
        "the open log stays"
    );
    assert_eq!(press(&mut app, "kl"), [], "the open log is not reopened");
    assert_eq!(app.view().clone(), View::Log(0));
}

#[test]
fn the_autoscalers_files_are_cycled_and_a_node_opens_its_raylet_log() {
    let mut app = shown();
    press(&mut app, "4");
    for name in ["monitor.log", "monitor.out", "monitor.err", "monitor.log"] {
        let before = app.log().unwrap().stream();
        let effects = press(&mut app, "l");
        let now = app.log().unwrap().stream();
        let follow = Request::Follow(now, LogSource::Monitor(name.into()));
        assert_eq!(effects, [asks(Request::Unfollow(before)), asks(follow)]);
    }
    press(&mut app, "1gg");
    assert_eq!(press(&mut app, "l"), [], "dead nodes come first");
    assert!(said(&app).contains("cannot be read"));
    // After the two lost nodes.
    let effects = press(&mut app, "jjl");
    let head = NodeId::from_bytes(&[9; 28]).unwrap();
    let file = LogSource::File { node: head, name: "raylet.out".into() };
    assert!(matches!(&effects[..], [_, Effect::Ask(_, Request::Follow(_, f))] if *f == file), "{effects:?}");
}

#[test]
fn the_logs_of_marked_jobs_are_followed_together() {
    let mut app = shown();
    press(&mut app, " j<down> ");
    let effects = press(&mut app, "l");
    let requests = effects.iter().find_map(|effect| match effect {
        Effect::Ask(_, Request::FollowSeveral(logs)) => Some(logs.clone()),
        _ => None,
    });
    let [(first, LogSource::Job(_), None), (second, LogSource::Job(_), None)] = requests.as_deref().unwrap()
    else {
        panic!("{effects:?}")
    };
    let lines = |app: &mut App, stream, text: &str| {
        let part = vec![Line::from(text)].into();
        send_update(app, CLUSTER, ClusterEvent::Log(LogBatch { stream, part, end: LogEnd::Open }));
    };
    lines(&mut app, *second, "10:00:02 later");
    lines(&mut app, *first, "10:00:01 earlier");
    app.update(Event::Tick, NOW.plus(Duration::from_secs(2)));
    let log = app.log().unwrap();
    let shown: Vec<_> =
        (0..log.len()).map(|at| (log.part(at).unwrap().0, log.line(at).unwrap().text())).collect();
    assert_eq!(shown, [(0, "10:00:01 earlier"), (1, "10:00:02 later")]);
    let named = [0, 1].map(|at| JOBS.contains(&log.part(at).unwrap().1));
    assert_eq!(named, [true, true]);
    // Opening another log closes both.
    let ended = press(&mut app, "gl<enter>");
    let ends =
        |stream| ended.iter().any(|e| matches!(e, Effect::Ask(_, Request::Unfollow(s)) if *s == stream));
    assert!(ends(*first) && ends(*second), "{ended:?}");
}

#[test]
fn esc_returns_to_several_logs() {
    let mut app = shown();
    let followed = |effects: &[Effect]| {
        let requests = effects.iter().find_map(|effect| match effect {
            Effect::Ask(_, Request::FollowSeveral(logs)) => Some(logs),
            _ => None,
        });
        requests.map(|logs| logs.iter().map(|(_, source, _)| source.clone()).collect::<Vec<_>>())
    };
    press(&mut app, " j<down> ");
    let both = followed(&press(&mut app, "l"));
    assert_eq!(both.as_ref().map(Vec::len), Some(2));
    let one = press(&mut app, ":describe eval-tulu-99<enter>l");
    assert!(one.iter().any(|effect| matches!(effect, Effect::Ask(_, Request::Follow(..)))), "{one:?}");
    press(&mut app, "<esc>");
    assert_eq!((app.context(), followed(&press(&mut app, "<esc>"))), (Context::Job, both));
    assert_eq!((app.context(), app.log().unwrap().logs().count()), (Context::Log, 2));
}

#[test]
fn a_range_of_jobs_is_marked_from_the_nearest_mark_without_drivers() {
    let mut app = shown();
    press(&mut app, "<^ >");
    assert_eq!(app.marked(), 0, "a range begins at a mark");
    assert!(said(&app).contains("no job is marked"), "{}", said(&app));
    // The cursor moves on to the second job; the third is a driver, and the range ends at the fourth.
    press(&mut app, " jj<^ >");
    assert_eq!(app.marked(), 3, "the first, the second and the fourth");
    // Without a mark above, the range goes down to the next one.
    press(&mut app, "<esc>G gg<^ >");
    assert_eq!(app.marked(), app.listing().unwrap().len() - 1, "all but the driver");
}

#[test]
fn marked_jobs_are_stopped_together_and_the_dialog_lists_them() {
    let mut app = shown();
    // The third is a driver, which cannot be marked.
    press(&mut app, "   ");
    assert_eq!(app.marked(), 2);
    assert!(said(&app).contains("started manually"), "{}", said(&app));
    press(&mut app, "j<down> ");
    assert_eq!(app.marked(), 3, "ended jobs can be marked as well");
    press(&mut app, "s");
    let Some(Dialog::Ask { lines, title, on_yes: false, .. }) = app.dialog() else {
        panic!("{:?}", app.dialog())
    };
    assert_eq!(*title, format!("Stop 2 jobs on {CLUSTER}?"));
    let has = |what: &str| lines.iter().any(|(_, text)| text.contains(what));
    assert!(
        has(JOBS[0]) && has(JOBS[1]) && has("bo") && has("Not affected: 1 of the marked jobs"),
        "{lines:?}"
    );
    assert_eq!(press(&mut app, "<esc>"), []);
    assert_eq!(app.marked(), 3, "cancelling keeps the marks");
    // Marks of jobs that are gone are removed.
    let mut fewer = snapshot();
    fewer.jobs = Arc::new(fewer.jobs.iter().filter(|j| j.key.to_string() != JOBS[4]).cloned().collect());
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(fewer)));
    assert_eq!(press(&mut app, "sy"), [], "bo's jobs require a second confirmation");
    let Some(Dialog::Ask { title, lines, on_yes: false, .. }) = app.dialog() else {
        panic!("{:?}", app.dialog())
    };
    assert_eq!(title, "Stop jobs owned by bo?");
    let has = |what: &str| lines.iter().any(|(_, text)| text.contains(what));
    assert!(has(JOBS[1]) && !has(JOBS[0]), "{lines:?}");
    assert_eq!(press(&mut app, "<enter>"), [], "cancel has the focus");
    assert!(app.dialog().is_none() && app.marked() == 2);
    let mut effects = press(&mut app, "syy");
    effects.sort_by_key(|e| format!("{e:?}"));
    assert_eq!(effects, [asks(Request::StopJob(id(JOBS[0]))), asks(Request::StopJob(id(JOBS[1])))]);
    assert_eq!(app.marked(), 0);
}

#[test]
fn ended_jobs_are_deleted_and_esc_clears_marks() {
    let mut app = shown();
    assert_eq!(press(&mut app, "x"), []);
    assert!(app.dialog().is_none() && said(&app).contains("has not ended; stop it first"), "{}", said(&app));
    press(&mut app, "jjjj x");
    let Some(Dialog::Ask { lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert!(lines.iter().any(|(_, text)| text.contains(JOBS[4])), "{lines:?}");
    assert_eq!(press(&mut app, "y"), [asks(Request::DeleteJob(id(JOBS[4])))]);
    let outcome = ClusterEvent::JobDelete { id: id(JOBS[4]), outcome: Err("no route".into()) };
    let noted = send_update(&mut app, CLUSTER, outcome);
    assert!(said(&app).contains("was not deleted: no route"));
    let note = (format!("delete-job {}", JOBS[4]), "not deleted: no route".to_owned());
    assert_eq!(noted, [Effect::Note(ClusterName::new(CLUSTER), note.0, note.1)]);
    press(&mut app, "<esc>gg ");
    assert_eq!(app.marked(), 1);
    press(&mut app, "<esc>");
    assert_eq!(app.marked(), 0);
    // On the page of all jobs, jobs of every cluster count.
    press(&mut app, " cJs");
    assert_eq!(app.marked(), 1);
    let Some(Dialog::Ask { lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert!(lines.iter().any(|(_, text)| text.contains(JOBS[1])), "{lines:?}");
}

/// The rows of the job's page.
fn page_rows(app: &App) -> Vec<String> {
    details(app).iter().map(|(label, text)| format!("{label}: {text}")).collect()
}

#[test]
fn a_job_page_queries_ray_about_its_driver_and_ignores_other_answers() {
    let mut app = shown();
    let requests = press(&mut app, "d");
    let driver = JobId("0a000000".into());
    let ids = app.target_job().map(|(_, j)| j).unwrap().ids();
    assert_eq!((&ids.driver, ids.submission.is_some()), (&Some(driver), true));
    let request = Effect::Ask(ClusterName::new(CLUSTER), Request::Work(ids.clone()));
    assert!(
        matches!(&requests[..], [Effect::Ask(_, Request::Inspect(_)), work] if *work == request),
        "{requests:?}"
    );
    let before = page_rows(&app);
    assert!(before.contains(&"holds: querying Ray...".to_owned()), "{before:?}");

    let answer = |job: &JobIds, work| ClusterEvent::Work { job: job.clone(), work };
    let another = JobIds { driver: Some(JobId("0b000000".into())), ..ids.clone() };
    send_update(&mut app, CLUSTER, answer(&another, Ok(Box::new(work()))));
    assert_eq!(page_rows(&app), before, "an answer for another driver is ignored");
    send_update(&mut app, CLUSTER, answer(&ids, Ok(Box::new(work()))));
    let after = page_rows(&app);
    assert!(after.contains(&"holds: TPU 16, CPU 1".to_owned()), "{after:?}");
    assert!(after.contains(&"waits for: 3 x TPU 4, CPU 1, for 22m".to_owned()), "{after:?}");
    send_update(&mut app, CLUSTER, answer(&ids, Err("too late".into())));
    assert_eq!(page_rows(&app), after);

    press(&mut app, "<esc>");
    press(&mut app, "d");
    send_update(&mut app, CLUSTER, answer(&ids, Err("Ray returned HTTP 500: \u{1b}[31mno".into())));
    assert!(page_rows(&app).contains(&"holds: ? (Ray returned HTTP 500: ·[31mno)".to_owned()));
}

#[test]
fn the_driver_of_an_ended_job_is_not_queried() {
    let mut app = shown();
    press(&mut app, "G");
    assert!(app.target_job().map(|(_, j)| j).unwrap().status.is_ended());
    let requests = press(&mut app, "d");
    assert!(matches!(&requests[..], [Effect::Ask(_, Request::Inspect(_))]), "{requests:?}");
    assert!(!page_rows(&app).iter().any(|row| row.starts_with("holds")));
}

#[test]
fn an_ended_driver_is_reported_as_ended() {
    let mut app = app(&[CLUSTER]);
    app.start(None);
    let driver = JobKey::Driver(JobId("05000000".into()));
    let ended = Job { key: driver, ..job("05000000", JobStatus::Succeeded, "bo", 60) };
    let state = Snapshot { jobs: Arc::new(vec![Arc::new(ended)]), ..snapshot() };
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    for keys in ["s", "x"] {
        press(&mut app, keys);
        assert!(app.dialog().is_none());
        assert!(
            said(&app).contains("has ended (succeeded)") && !said(&app).contains("end its"),
            "{}",
            said(&app)
        );
    }
}

#[test]
fn a_failed_log_is_reopened_once_its_job_is_listed_again() {
    let mut app = shown();
    press(&mut app, "jl");
    let followed = id(JOBS[1]);
    let stream = app.log().unwrap().stream();
    // As during a restart of Ray: the job is not listed.
    let mut without = (*app.current().unwrap().snapshot).clone();
    let with = without.clone();
    without.jobs = Arc::new(
        with.jobs.iter().filter(|job| job.submission_id() != Some(&followed)).cloned().collect::<Vec<_>>(),
    );
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(without.clone())));
    let failed = LogEnd::Failed("Job does not exist".into());
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Log(LogBatch { stream, part: LogPart::default(), end: failed.clone() }),
    );
    assert_eq!(send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(without))), []);
    let effects = send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(with.clone())));
    let again = app.log().unwrap().stream();
    let source = LogSource::Job(followed);
    assert_eq!(effects, [asks(Request::Unfollow(stream)), asks(Request::Follow(again, source))]);
    // It fails again, and nothing has changed since.
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Log(LogBatch { stream: again, part: LogPart::default(), end: failed }),
    );
    assert_eq!(send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(with))), []);
    // Its own key opens it again.
    let effects = press(&mut app, "<esc>l");
    let source = LogSource::Job(id(JOBS[1]));
    let third = app.log().unwrap().stream();
    assert_eq!(effects, [asks(Request::Unfollow(again)), asks(Request::Follow(third, source))]);
}

#[test]
fn a_job_that_fails_on_the_screen_is_reported_with_its_error() {
    let failed = |id: &str| {
        let mut state = snapshot();
        let jobs = Arc::make_mut(&mut state.jobs);
        let job = jobs.iter_mut().map(Arc::make_mut).find(|j| j.key.raw() == id).unwrap();
        (job.status, job.ended) = (JobStatus::Failed, Some(NOW));
        job.message = "exit code 1, last available logs:\nTraceback\nValueError: no such bucket\n".into();
        ClusterEvent::Snapshot(Arc::new(state))
    };
    let mut app = shown();
    let before = app.toasts().messages().len();
    send_update(&mut app, CLUSTER, failed(JOBS[0]));
    assert_eq!(app.toasts().messages().len(), before + 1);
    assert!(
        said(&app).contains(JOBS[0]) && said(&app).ends_with("ValueError: no such bucket"),
        "{}",
        said(&app)
    );
    // It is not reported again with the next snapshot.
    send_update(&mut app, CLUSTER, failed(JOBS[0]));
    assert_eq!(app.toasts().messages().len(), before + 1);
    // In the fleet the list of changes reports it.
    let mut app = super::app(&["a-us", "b-eu"]);
    send_update(&mut app, "a-us", ClusterEvent::Snapshot(Arc::new(snapshot())));
    send_update(&mut app, "a-us", failed(JOBS[0]));
    assert_eq!(app.toasts().messages().len(), 0);
    press(&mut app, "J");
    send_update(&mut app, "a-us", ClusterEvent::Snapshot(Arc::new(snapshot())));
    send_update(&mut app, "a-us", failed(JOBS[0]));
    assert_eq!(app.toasts().messages().len(), 1);
}
