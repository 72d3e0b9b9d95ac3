//! The pages of a job, a host, stacks and chips, with the answers to their requests.

use super::*;
use marin_tui::app::Effect;

fn alive_hosts(app: &App) -> Vec<NodeId> {
    let nodes = &app.current().unwrap().snapshot.nodes;
    nodes.iter().filter(|n| n.state.is_alive() && !n.is_head).map(|n| n.id).collect()
}

#[test]
fn the_page_of_a_job() {
    let mut app = shown();
    let hosts = alive_hosts(&app);
    press(&mut app, "2d");
    let job = app.target_job().map(|(_, j)| j).unwrap().ids();
    send_update(&mut app, CLUSTER, ClusterEvent::Work { job: job.clone(), work: Ok(Box::new(work())) });
    let failed = |n| WorkerState::Failed {
        why: "Traceback (most recent call last):\nRESOURCE_EXHAUSTED: out of memory".into(),
        at: Some(before(n)),
    };
    let worker = |host: usize, pid, state| JobWorker {
        node: hosts[host],
        pid,
        name: "train_step".into(),
        kind: "train_step".into(),
        state,
        files: Vec::new(),
    };
    let group = |name: &str, state: &str, why: &str, node| PlacementGroup {
        id: "f7".into(),
        name: name.into(),
        state: state.into(),
        why: why.into(),
        created: Some(before(720)),
        bundles: vec![(vec![("TPU".into(), 4.0), ("CPU".into(), 1.0)], node); 2],
    };
    let inspection = JobInspection {
        environment: Ok(vec![
            ("env_vars.HF_TOKEN".into(), "***".into()),
            ("pip.packages".into(), "jax[tpu]==0.6.2, levanter>=1.2".into()),
        ]),
        groups: Ok(vec![
            group("train", "CREATED", "", Some(hosts[0])),
            group("eval", "PENDING", "NO_RESOURCES", None),
        ]),
        workers: Ok(vec![
            worker(0, 262, WorkerState::Running),
            worker(1, 263, failed(540)),
            worker(2, 264, failed(530)),
        ]),
        log: Ok(vec!["step 1200 loss=2.104 mfu=48.9%".into(), "step 1201 loss=2.101 mfu=48.7%".into()]),
    };
    let nodes = &app.current().unwrap().snapshot.nodes;
    let through = nodes.iter().find(|n| n.is_head).map(|n| n.id);
    let subject = Subject::Job { ids: job, through };
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Inspected(subject, Ok(Box::new(Inspection::Job(inspection)))),
    );
    snap_at("page_job", &mut app, &[(80, 24), (120, 60)]);
}

#[test]
fn the_page_of_a_host() {
    let mut app = shown();
    press(&mut app, "1gg");
    while app.target_node().is_none_or(|(_, node)| node.is_head || !node.state.is_alive()) {
        press(&mut app, "j");
    }
    let node = app.target_node().unwrap().1.id;
    press(&mut app, "d");
    let process = |pid, title: &str, job: Option<&str>, memory| HostProcess {
        pid,
        title: title.into(),
        job: job.map(|id| JobId(id.into())),
        cpu_percent: Some(98.2),
        memory: Some(memory),
        started: Some(before(1800)),
    };
    let gpu = |number, duty| ChipUse {
        number,
        name: "NVIDIA H100 80GB HBM3".into(),
        duty_percent: Some(duty),
        memory: Some((61_000_000_000, 80_000_000_000)),
    };
    let inspection = HostInspection {
        chips: vec![gpu(0, 97.0), gpu(1, 4.0)],
        processes: vec![
            process(262, "ray::train_step", Some("0a000000"), 31_000_000_000),
            process(811, "ray::DashboardAgent", None, 140_000_000),
            process(90, "ray::IDLE", None, 90_000_000),
        ],
        logs: Ok(vec![("raylet".into(), vec!["raylet.err".into(), "raylet.out".into()])]),
    };
    let event = ClusterEvent::Inspected(Subject::Host(node), Ok(Box::new(Inspection::Host(inspection))));
    send_update(&mut app, CLUSTER, event);
    snap_at("page_host", &mut app, &[(80, 24), (120, 40)]);
    press(&mut app, "<enter>");
    snap("page_host_files", &mut app);
}

#[test]
fn the_page_of_stacks() {
    let mut app = shown();
    let hosts = alive_hosts(&app);
    let requests = press(&mut app, "2W");
    let Some(Effect::Stacks(cluster, driver)) = requests.into_iter().next() else {
        panic!("nothing is read")
    };
    let worker = |n: u32| StackWorker {
        node: hosts[n as usize % hosts.len()],
        host: format!("ray-worker-35112151-tpu-w-{n}").as_str().into(),
        address: format!("10.130.0.{}", n + 2).as_str().into(),
        hostname: "".into(),
        pid: 1072 + n,
        name: "train_step".into(),
        moved: Some(n < 30),
    };
    let group = |frames: &[&str], workers: Vec<StackWorker>| StackGroup {
        top_frame: frames[0].to_owned(),
        frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
        workers,
    };
    let usual = ["all_reduce (levanter/trainer.py:612)", "train_step (levanter/trainer.py:498)"];
    let outside = ["main (marin/run/train.py:88)", "<module> (marin/run/train.py:93)"];
    let loads = ["read_batch (levanter/data/loader.py:204)", "__next__ (levanter/data/loader.py:131)"];
    let groups = vec![
        group(&[&usual[..], &outside[..]].concat(), (0..29).map(worker).collect()),
        group(&[&loads[..], &outside[..]].concat(), vec![worker(30), worker(31)]),
        group(&["save (levanter/checkpoint.py:77)"], vec![worker(29)]),
    ];
    let process = StackWorker { pid: 867, name: "driver".into(), ..worker(0) };
    let stacks = JobStacks {
        at: before(2),
        over_ssh: false,
        groups,
        unread: vec![(worker(32), "the process has ended".into())],
        driver: Some(DriverStacks { process, threads: Ok(Vec::new()) }),
        raylets: Vec::new(),
    };
    app.update(Event::Stacks(cluster, driver, Arc::new(Ok(stacks))), NOW);
    snap_at("page_stacks", &mut app, &[(80, 24), (120, 40)]);
    press(&mut app, "gg<enter>");
    snap("page_stacks_workers", &mut app);
}

#[test]
fn the_page_of_chips() {
    let mut app = shown();
    press(&mut app, "1gg");
    while app.target_node().is_none_or(|(_, node)| node.is_head || !node.state.is_alive()) {
        press(&mut app, "j");
    }
    let requests = press(&mut app, "%");
    let Some(Effect::Chips(cluster, nodes)) = requests.into_iter().next() else { panic!("nothing is read") };
    snap("page_chips_reading", &mut app);
    let chip = |number, duty| ChipUse {
        number,
        name: "".into(),
        duty_percent: Some(duty),
        memory: Some((23_400_000_000, 34_400_000_000)),
    };
    let host = |n: u32| HostChips {
        node: nodes[0],
        address: format!("10.130.0.{}", n + 2).as_str().into(),
        worker: Some(n),
        group: "ray-worker-35112151-tpu".into(),
        expected: 4,
        used: Some(4),
        read: if n == 3 {
            Err("nothing listens on port 8431 there".into())
        } else {
            let duty = if n == 17 { 0.0 } else { 96.0 };
            let chips = (0..4).map(|number| chip(number, duty)).collect();
            Ok(ChipsRead { source: ChipSource::Libtpu, chips, run: Some(792), error: None })
        },
        is_behind: n == 17,
    };
    let chips = Chips { at: before(2), hosts: (0..32).map(host).collect() };
    app.update(Event::Chips(cluster, nodes, Arc::new(Ok(chips))), NOW);
    snap_at("page_chips", &mut app, &[(80, 24), (120, 40)]);
}
