//! The pages of a job, a host and chips: their requests, and their content.

use super::*;

fn rows(app: &App) -> Vec<String> {
    details(app).iter().map(|(label, text)| format!("{label}: {text}")).collect()
}

fn has(app: &App, row: &str) {
    let rows = rows(app);
    assert!(rows.iter().any(|r| r == row), "{row}: {rows:#?}");
}

fn worker(node: NodeId, pid: u32, state: WorkerState) -> JobWorker {
    JobWorker { node, pid, name: "train_step".into(), kind: "train_step".into(), state, files: Vec::new() }
}

fn subject(effects: &[Effect]) -> Subject {
    let requests = effects.iter().find_map(|effect| match effect {
        Effect::Ask(_, Request::Inspect(subject)) => Some(subject.clone()),
        _ => None,
    });
    requests.unwrap_or_else(|| panic!("{effects:?}"))
}

fn answer(app: &mut App, subject: &Subject, result: Result<Inspection, String>) {
    send_update(app, CLUSTER, ClusterEvent::Inspected(subject.clone(), result.map(Box::new)));
}

/// The alive nodes of the cluster except the head.
fn hosts(app: &App) -> Vec<NodeId> {
    let nodes = &app.current().unwrap().snapshot.nodes;
    nodes.iter().filter(|n| n.state.is_alive() && !n.is_head).map(|n| n.id).collect()
}

fn job_inspection(hosts: &[NodeId]) -> JobInspection {
    let failed =
        WorkerState::Failed { why: "Traceback\nValueError: \u{1b}[31mbad".into(), at: Some(before(540)) };
    JobInspection {
        environment: Ok(vec![("env_vars.HF_TOKEN".into(), "***".into())]),
        groups: Ok(vec![PlacementGroup {
            id: "f7".into(),
            name: "gang".into(),
            state: "PENDING".into(),
            why: "NO_RESOURCES".into(),
            created: Some(before(720)),
            bundles: vec![(vec![("TPU".into(), 4.0)], None); 2],
        }]),
        workers: Ok(vec![worker(hosts[0], 262, WorkerState::Running), worker(hosts[1], 263, failed)]),
        log: Ok(vec!["step 7 loss=2.1".into()]),
    }
}

#[test]
fn the_page_of_a_job_shows_failed_workers_and_pending_groups() {
    let mut app = shown();
    let requests = subject(&press(&mut app, "d"));
    has(&app, "workers: querying Ray...");
    let hosts = hosts(&app);
    let other = Subject::Host(hosts[0]);
    answer(&mut app, &other, Err("another page's".into()));
    has(&app, "workers: querying Ray...");
    answer(&mut app, &requests, Ok(Inspection::Job(job_inspection(&hosts))));
    let page = rows(&app);
    let unhealthy = page.iter().find(|row| row.contains("pid 263")).unwrap();
    assert!(
        unhealthy.starts_with(" : ! ") && unhealthy.ends_with(": failed: ValueError: ·[31mbad"),
        "{unhealthy}"
    );
    assert!(page.iter().any(|row| row.contains("pid 262 train_step") && !row.contains('!')), "{page:#?}");
    has(&app, "gang: ! pending for 12m (no resources): 2 bundles of TPU 4");
    has(&app, "env_vars.HF_TOKEN: ***");
    assert!(page.iter().any(|row| row.starts_with("9m ago: ! first worker failed")), "{page:#?}");
    has(&app, ": step 7 loss=2.1");
    // On a refresh the page is unchanged until the answer arrives.
    let again = subject(&press(&mut app, "<^r>"));
    assert_eq!((&again, rows(&app)), (&requests, page));
    answer(&mut app, &again, Err("Ray returned HTTP 500: \u{1b}[31mno".into()));
    has(&app, "workers: ? (Ray returned HTTP 500: ·[31mno)");
}

#[test]
fn of_many_workers_only_those_with_problems_are_named() {
    let mut app = shown();
    let requests = subject(&press(&mut app, "d"));
    let hosts = hosts(&app);
    let workers = (0..200).map(|n| worker(hosts[n % 2], 1000 + n as u32, WorkerState::Running)).collect();
    let many = JobInspection { workers: Ok(workers), ..job_inspection(&hosts) };
    answer(&mut app, &requests, Ok(Inspection::Job(many)));
    let page = rows(&app);
    assert!(page.iter().any(|row| row.contains("workers on") && row.contains("running")), "{page:#?}");
    assert!(!page.iter().any(|row| row.contains("pid 1000")), "{page:#?}");
    let gone = NodeId::from_bytes(&[0xee; 28]).unwrap();
    let workers =
        (0..200).map(|n| worker(if n == 7 { gone } else { hosts[0] }, 1000 + n, WorkerState::Running));
    let many = JobInspection { workers: Ok(workers.collect()), ..job_inspection(&hosts) };
    answer(&mut app, &requests, Ok(Inspection::Job(many)));
    let page = rows(&app);
    assert!(
        page.iter().any(|row| row.contains("pid 1007") && row.ends_with("its node no longer exists")),
        "{page:#?}"
    );
}

#[test]
fn parts_that_could_not_be_read_show_the_reason() {
    let mut app = shown();
    let requests = subject(&press(&mut app, "d"));
    let no = || "no \u{1b}[2J route".to_owned();
    let nothing =
        JobInspection { environment: Err(no()), groups: Err(no()), workers: Err(no()), log: Err(no()) };
    answer(&mut app, &requests, Ok(Inspection::Job(nothing)));
    let unread = rows(&app).iter().filter(|row| **row == "not read: no ·[2J route").count();
    assert_eq!(unread, 4, "{:#?}", rows(&app));
}

fn host_inspection(job: &str) -> HostInspection {
    let process = |pid, title: &str, job: Option<&str>| HostProcess {
        pid,
        title: title.into(),
        job: job.map(|id| JobId(id.into())),
        cpu_percent: Some(98.2),
        memory: Some(2_000_000_000),
        started: Some(before(1800)),
    };
    HostInspection {
        chips: Vec::new(),
        processes: vec![
            process(262, "ray::train", Some(job)),
            process(263, "ray::old", Some("ee000000")),
            process(264, "ray::JobSupervisor", Some("02000000")),
            process(90, "ray::IDLE", None),
        ],
        logs: Ok(vec![(
            "raylet".into(),
            ["raylet.out", "raylet.err", "raylet.out.1.gz", "old/"].map(Text::from).to_vec(),
        )]),
    }
}

#[test]
fn the_page_of_a_host_shows_the_jobs_of_its_processes_and_opens_its_files() {
    let mut app = shown();
    let job = app.current().unwrap().snapshot.jobs.iter().find_map(|job| job.driver.clone()).unwrap();
    press(&mut app, "1gg");
    while app.target_node().is_none_or(|(_, node)| node.is_head || !node.state.is_alive()) {
        press(&mut app, "j");
    }
    let node = app.target_node().unwrap().1.clone();
    let requests = subject(&press(&mut app, "d"));
    assert_eq!(requests, Subject::Host(node.id));
    answer(&mut app, &requests, Ok(Inspection::Host(host_inspection(job.0.raw()))));
    let page = rows(&app);
    let serves = page.iter().find(|row| row.starts_with("262: ")).unwrap();
    assert!(serves.contains("ray::train  2.0 GB  98% CPU  30m  worker of "), "{serves}");
    let unlisted = page.iter().find(|row| row.starts_with("263: ")).unwrap();
    assert!(unlisted.contains("worker of driver ee000000, which is not in the list of jobs"), "{unlisted}");
    // Ray's own driver, to which it belongs, is never listed.
    let supervisor = page.iter().find(|row| row.starts_with("264: ")).unwrap();
    assert!(supervisor.ends_with("  runs the entrypoint of a job"), "{supervisor}");
    has(&app, "idle: 1 worker without a task");

    let host = press(&mut app, "!");
    assert!(matches!(&host[..], [Effect::SshHost(_, to)] if to.internal == node.address), "{host:?}");
    assert_eq!(press(&mut app, "<enter>"), []);
    let files: Vec<&str> = app.prompt().unwrap().given.iter().map(|offer| offer.text.as_str()).collect();
    assert_eq!(files, ["raylet.out", "raylet.err", "raylet.out.1.gz"], "folders are not listed");
    let help: Vec<&str> = app.prompt().unwrap().given.iter().map(|offer| offer.help.as_str()).collect();
    assert_eq!(help, ["raylet", "raylet", "raylet, rotated from raylet.out, compressed"]);
    press(&mut app, "<down>");
    let opened = press(&mut app, "<enter>");
    let follows = |effect: &Effect| matches!(effect, Effect::Ask(_, Request::Follow(_, LogSource::File { node: of, name })) if *of == node.id && name.raw() == "raylet.err");
    assert!(opened.iter().any(follows), "{opened:?}");
    assert!(matches!(app.view(), View::Log(_)));
    press(&mut app, "<esc>");
    press(&mut app, "<enter>");
    let opened = press(&mut app, "<down><down><enter>");
    assert!(!opened.iter().any(|effect| matches!(effect, Effect::Ask(_, Request::Follow(..)))), "{opened:?}");
    let LogEnd::Failed(why) = app.log().unwrap().end() else { panic!("{:?}", app.log().unwrap().end()) };
    assert!(why.starts_with("raylet.out.1.gz is compressed; print it with `marin-tui -c "), "{why}");
    let command =
        format!("exec --host {} -- zcat /tmp/ray/session_latest/logs/raylet.out.1.gz`", node.address);
    assert!(why.ends_with(&command), "{why}");
}

#[test]
fn a_dead_host_is_not_queried() {
    let mut app = shown();
    press(&mut app, "1gg");
    while app.target_node().is_none_or(|(_, node)| node.state.is_alive()) {
        press(&mut app, "j");
    }
    assert_eq!(press(&mut app, "d"), []);
    // As in the table; after an hour, both show `dead`.
    has(&app, "state: lost");
}

fn host_chips(node: NodeId, n: u8, duty: f64) -> HostChips {
    let chip = |number| ChipUse {
        number,
        name: Text::default(),
        duty_percent: Some(duty),
        memory: Some((20_000_000_000, 32_000_000_000)),
    };
    let read = ChipsRead {
        source: ChipSource::Libtpu,
        chips: (0..4).map(chip).collect(),
        run: Some(7),
        error: None,
    };
    HostChips {
        node,
        address: format!("10.0.0.{n}").as_str().into(),
        worker: Some(n.into()),
        group: "slice-a".into(),
        expected: 4,
        used: Some(4),
        read: Ok(read),
        is_behind: false,
    }
}

#[test]
fn a_host_with_idle_chips_is_marked_in_the_grid_and_named() {
    let mut app = shown();
    press(&mut app, "1gg");
    for _ in 0..200 {
        if app
            .target_node()
            .is_some_and(|(_, node)| node.resources.get("TPU").is_some() && node.state.is_alive())
        {
            break;
        }
        press(&mut app, "j");
    }
    let requests = press(&mut app, "%");
    let [Effect::Chips(cluster, nodes)] = &requests[..] else { panic!("{requests:?}") };
    assert!(rows(&app)[0].contains("reading the chips of"), "{:?}", rows(&app));
    let mut hosts: Vec<HostChips> = (0..16).map(|n| host_chips(nodes[0], n, 96.0)).collect();
    hosts[13] = HostChips { is_behind: true, ..host_chips(nodes[0], 13, 2.0) };
    hosts[5].read = Err("no \u{1b}[31mway".into());
    let chips = Chips { at: before(60), hosts };
    let send = |app: &mut App, nodes: &[NodeId], result| {
        app.update(Event::Chips(cluster.clone(), nodes.to_vec(), Arc::new(result)), NOW);
    };
    send(&mut app, &[], Ok(chips.clone()));
    assert!(rows(&app)[0].contains("reading the chips of"), "another page's");
    send(&mut app, nodes, Ok(chips));
    let page = rows(&app);
    has(&app, "hosts 0-11:   9999 9999 9999 9999 9999 ???? 9999 9999 9999 9999 9999 9999");
    has(&app, "hosts 12-15: ! 9999 0000!9999 9999");
    assert!(
        page.iter().any(|row| row.starts_with("outliers: ! 10.0.0.13 (host 13): chip 0 at 2%")),
        "{page:#?}"
    );
    has(&app, "host: ! 10.0.0.13 (host 13): behind the other hosts, at program launch 7");
    has(&app, "not read: 10.0.0.5: no ·[31mway");
    assert_eq!(press(&mut app, "%"), [Effect::Chips(cluster.clone(), nodes.clone())], "the key refreshes");
    send(&mut app, nodes, Err(Problem::new(ProblemKind::Other, "no node", "wait", NOW)));
    assert_eq!(rows(&app), ["problem: no node", "hint: wait"]);
}

#[test]
fn the_page_of_a_jobs_chips_follows_the_job_to_other_hosts() {
    let cluster = ClusterName::new(CLUSTER);
    let ids = |nodes: &[u8]| nodes.iter().map(|n| node(*n, "", 0.0, 0.0).id).collect::<Vec<_>>();
    let request = |nodes: &[u8]| Effect::Chips(cluster.clone(), ids(nodes));
    let hold = |app: &mut App, nodes: &[u8]| {
        send_update(app, CLUSTER, held("04000000", nodes.iter().copied()));
    };
    let read = |app: &mut App, nodes: &[u8]| {
        let hosts = nodes.iter().map(|n| host_chips(node(*n, "", 0.0, 0.0).id, *n, 96.0)).collect();
        let chips = Chips { at: NOW, hosts };
        app.update(Event::Chips(cluster.clone(), ids(nodes), Arc::new(Ok(chips))), NOW);
    };
    let mut app = shown();
    hold(&mut app, &[1, 2]);
    press(&mut app, "2/job:04000000<enter>");
    assert_eq!(press(&mut app, "%"), [request(&[1, 2])]);
    read(&mut app, &[1, 2]);
    assert!(rows(&app)[0].starts_with("read: "), "{:?}", rows(&app));

    hold(&mut app, &[3]);
    assert_eq!(press(&mut app, "%"), [request(&[3])]);
    assert_eq!(rows(&app), [": reading the chips of 1 host..."], "figures of other hosts are dropped");
    read(&mut app, &[1, 2]);
    assert_eq!(rows(&app).len(), 1, "a late answer for the previous hosts is ignored");
    read(&mut app, &[3]);

    hold(&mut app, &[]);
    assert_eq!(press(&mut app, "%"), []);
    let page = rows(&app);
    assert!(page[0].starts_with("hosts: ! no live host with chips now"), "{page:#?}");
    assert!(page[1].starts_with("read: "), "{page:#?}");

    hold(&mut app, &[1]);
    let effects = app.update(Event::Tick, NOW.plus(Duration::from_secs(10)));
    assert!(effects.contains(&request(&[1])), "the hosts are looked up before each read: {effects:?}");
}

#[test]
fn the_page_of_chips_is_refreshed_while_it_is_shown() {
    let mut app = shown();
    let job = app.clusters()[0]
        .snapshot
        .jobs
        .iter()
        .find(|job| job.status == JobStatus::Running)
        .unwrap()
        .key
        .clone();
    press(&mut app, "2gg");
    while app.target_job().is_some_and(|(_, at)| at.key != job) {
        press(&mut app, "j");
    }
    assert_eq!(press(&mut app, "%"), [], "its hosts are unknown");
    let mut vitals_event = held("04000000", [3, 4]);
    if let ClusterEvent::Vitals(cluster_vitals) = &mut vitals_event {
        let all = Arc::make_mut(cluster_vitals);
        let vitals = all.jobs.drain().next().unwrap().1;
        all.jobs.insert(job, vitals);
    }
    send_update(&mut app, CLUSTER, vitals_event);
    let requests = press(&mut app, "%");
    let [Effect::Chips(cluster, nodes)] = &requests[..] else { panic!("{requests:?}") };
    let (cluster, nodes) = (cluster.clone(), nodes.clone());
    let wants = |effects: Vec<Effect>| effects.iter().any(|effect| matches!(effect, Effect::Chips(..)));
    let at = |seconds: u64| NOW.plus(Duration::from_secs(seconds));
    assert!(!wants(app.update(Event::Tick, at(60))), "the first read is in progress");
    let read = |app: &mut App, seconds| {
        let chips = Chips { at: at(seconds), hosts: vec![host_chips(nodes[0], 0, 96.0)] };
        app.update(Event::Chips(cluster.clone(), nodes.clone(), Arc::new(Ok(chips))), at(seconds))
    };
    assert!(!wants(read(&mut app, 61)));
    assert!(!wants(app.update(Event::Tick, at(70))), "nine seconds old");
    assert!(wants(app.update(Event::Tick, at(71))));
    assert!(!wants(app.update(Event::Tick, at(90))), "a read is already in progress");
    assert!(wants(app.update(Event::Tick, at(191))), "the read counts as lost");
    read(&mut app, 192);
    press(&mut app, "<esc>");
    assert!(!wants(app.update(Event::Tick, at(300))), "the page is closed");
}
