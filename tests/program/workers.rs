//! Workers by hand and the restart of a cluster in Google Cloud, as a shell does them: against a Google, a head behind
//! SSH, and a ray command that is a script.

mod compute;
mod console;
mod dry;
mod many;

use crate::until::until;
use crate::world::{HEAD, WORKER, World, ZONE, labels};
use marin_tui::app::{Effect, Event};
use marin_tui::demo::google::{Fault, PROJECT, tpu};
use marin_tui::model::{
    ClusterName, Confirmed, Consent, NewWorker, OperationEnd, OperationNews, Order, Progress, Remains, Task,
    WorkerOffer, WorkerType,
};
use marin_tui::operation::Environment;
use marin_tui::tui::Performer;
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc};

/// The console's part that runs operations, without a screen.
struct Console<'a> {
    world: &'a World,
    performer: Performer,
}

impl World {
    fn console(&self, read_only: bool) -> Console<'_> {
        let environment = Environment { read_only, ..self.environment() };
        Console { world: self, performer: self.performer(environment, &mpsc::channel(1).0) }
    }
}

impl Console<'_> {
    fn order(&mut self, order: Order) {
        let _runtime = self.world.runtime.enter();
        self.performer.perform(Effect::Operate(ClusterName::new("marin-a"), order));
    }

    /// The next news of this kind.
    fn hears<T>(&mut self, wanted: impl Fn(OperationNews) -> Option<T>) -> T {
        let mut heard = Vec::new();
        let news = async {
            loop {
                let Event::Operation(_, news) = self.performer.done().await else { continue };
                heard.push(format!("{news:?}"));
                if let Some(found) = wanted(news) {
                    return found;
                }
            }
        };
        let news = async { tokio::time::timeout(Duration::from_secs(60), news).await };
        let found = self.world.runtime.block_on(news);
        found.unwrap_or_else(|_| panic!("it never came: {heard:#?}"))
    }

    fn offered(&mut self) -> WorkerOffer {
        self.order(Order::Offer);
        self.hears(|news| match news {
            OperationNews::Offered(offer) => Some(offer.unwrap()),
            _ => None,
        })
    }

    fn refused(&mut self, order: Order) -> String {
        self.order(order);
        self.hears(|news| match news {
            OperationNews::Refused(_, refusal) => {
                let problem = refusal.problem;
                Some(format!("{}; {}", problem.what, problem.hint))
            }
            _ => None,
        })
    }

    fn says(&mut self, words: &str) {
        self.hears(|news| match news {
            OperationNews::Progress(Progress::Output(line)) if line.contains(words) => Some(()),
            _ => None,
        });
    }

    fn ends(&mut self) -> OperationEnd {
        self.hears(|news| match news {
            OperationNews::Ended(end) => Some(end),
            _ => None,
        })
    }
}

#[test]
fn a_worker_is_asked_for_and_followed_until_it_has_joined() {
    let mut world = World::new();
    world.head();
    let mut adding = world.spawn("add-worker --type v4-8 --capacity best-effort --name extra --yes --json");
    adding.says("extra: waiting");
    let sent = world.double.state().queued[0].clone();
    assert_eq!(sent["bestEffort"], json!({}));
    let node = &sent["tpu"]["nodeSpec"][0]["node"];
    assert_eq!((&node["labels"], &node["acceleratorType"]), (&labels("unmanaged"), &json!("v4-8")));
    assert!(node["schedulingConfig"].is_null(), "the queued resource says it");
    assert!(node["metadata"]["startup-script"].as_str().unwrap().starts_with("#!"));
    assert!(world.double.asked("POST /v2alpha1/") == 1, "best effort is known to v2alpha1 only");
    world.turn("extra", "PROVISIONING");
    adding.says("extra: provisioning");
    world.grant("extra");
    let (code, out, said) = adding.ends();
    assert_eq!(code, Some(0), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&rows[0]["name"], &rows[0]["joined"]), (&json!("extra"), &json!(true)));
    // Once more: it is there, so it is followed and not asked for twice.
    let (code, _, said) = world.run("add-worker --type v4-8 --capacity best-effort --name extra --yes");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(world.double.state().queued.len(), 1);
    // Another one under that name is not passed off as what was asked for.
    let (code, _, said) = world.run("add-worker --type v4-8 --capacity reserved --name extra --yes");
    let refused = "extra was requested before and is another: capacity best effort, not reserved";
    assert!(code != Some(0) && said.contains(refused) && said.contains("choose another name"), "{said}");
    assert_eq!(world.double.state().queued.len(), 1);
    let (_, log, _) = world.run("audit");
    assert!(log.contains("add-worker extra") && log.contains("done"), "{log}");
}

#[test]
fn a_worker_is_asked_for_by_flex_start() {
    let mut world = World::new();
    world.head();
    let asked = "add-worker --type v4-8 --capacity flex_start --name flex --yes --no-wait";
    let (code, _, said) = world.run(asked);
    assert_eq!(code, Some(0), "{said}");
    let sent = world.double.state().queued[0].clone();
    assert_eq!(
        (&sent["provisioningModel"], &sent["runDuration"]),
        (&json!("FLEX_START"), &json!({"maxRunDuration": "604800s"}))
    );
    assert_eq!(world.double.asked("POST /v2alpha1/"), 1, "v2 has no field for it");
    let (_, out, _) = world.run("tpus --json");
    let rows: Value = serde_json::from_str(&out).unwrap();
    let row = rows["rows"].as_array().unwrap().iter().find(|row| row["name"] == "flex").unwrap();
    assert_eq!((&row["capacity"], &row["status"]), (&json!("flex-start"), &json!("waiting")), "{row}");
    // It is the same request, and another capacity is another.
    let (code, _, said) = world.run(asked);
    assert!(code == Some(0) && said.contains("already requested from Google"), "{said}");
    let (code, _, said) = world.run("add-worker --type v4-8 --name flex --yes --no-wait");
    assert!(code == Some(1) && said.contains("capacity flex-start, not spot"), "{said}");
    assert_eq!(world.run("add-worker --abandon").0, Some(0));
    // How long is a setting; a version of the API without the field refuses it in Google's words.
    let file = world.home.path().join("config.yaml");
    let mut settings: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let unknown = "Unknown name \"provisioningModel\"";
    for (api, ends, wanted) in [("v2alpha1", Some(0), ""), ("v2", Some(1), unknown)] {
        let field = json!({"provisioningModel": "FLEX_START", "runDuration": {"maxRunDuration": "3600s"}});
        settings["tpu_capacity"] = json!({"flex-start": {"api": api, "field": field}});
        world.file("config.yaml", &settings.to_string());
        let of_settings = asked.replace("--name flex", &format!("--name {api}"));
        let (code, _, said) = world.run(&of_settings);
        assert!(code == ends && said.contains(wanted), "{api}: {said}");
    }
    let state = world.double.state();
    assert_eq!(state.queued.len(), 2);
    assert_eq!(state.queued[1]["runDuration"], json!({"maxRunDuration": "3600s"}));
}

#[test]
fn a_request_that_comes_to_nothing_says_why_and_what_to_do() {
    let mut world = World::new();
    world.head();
    let (code, out, _) =
        world.run("add-worker --type tpu_worker --capacity reserved --count 2 --name r --dry-run");
    let calls: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((code, calls.len()), (Some(0), 2));
    assert!(
        calls[1]["url"].as_str().unwrap().ends_with("/queuedResources?queuedResourceId=r-2"),
        "{}",
        calls[1]
    );
    let reservation = format!("projects/{PROJECT}/locations/{ZONE}/reservations/-");
    assert_eq!(calls[0]["body"]["reservationName"], reservation.as_str());
    assert_eq!(world.double.asked("POST"), world.double.asked("POST /token"), "a dry run sends nothing");
    let (code, _, said) = world.run("add-worker --type v9-8 --yes");
    assert!(code == Some(1) && said.contains("available types: tpu_worker"), "{said}");
    let (code, _, said) = world.run("add-worker --type v4-8 --name ../x --yes");
    assert!(code == Some(1) && said.contains("is not a valid TPU VM name"), "{said}");

    let mut adding = world.spawn("add-worker --type v4-8 --name poor --yes");
    adding.says("poor: waiting");
    {
        let mut state = world.double.state();
        state.queued[0]["state"] = json!({"state": "FAILED",
            "failedData": {"error": {"code": 8, "message": "no quota for v4 in this zone"}}});
    }
    let (code, _, said) = adding.ends();
    assert_eq!(code, Some(1));
    assert!(said.contains("no quota for v4") && said.contains("remove-worker poor"), "{said}");
    assert_eq!(world.refused("remove-worker poor --yes").0, "interrupted");
    assert_eq!(world.run("add-worker --abandon").0, Some(0));
    let (code, _, said) = world.run("remove-worker poor --yes");
    assert_eq!((code, world.double.state().queued.len()), (Some(0), 0), "{said}");
    let (code, _, said) = world.run("remove-worker poor --yes");
    assert!(code == Some(1) && said.contains("no TPU VM, host or queued resource"), "{said}");
}

#[test]
fn a_wait_for_capacity_is_resumed_when_it_was_killed_and_makes_room_when_it_is_cancelled() {
    let mut world = World::new();
    world.head();
    let mut adding = world.spawn("add-worker --type v4-8 --name extra --yes");
    adding.says("extra: waiting");
    assert_eq!(world.refused("restart-cluster --yes --others").0, "at-work", "one operation at a time");
    adding.child.kill().unwrap();
    adding.child.wait().unwrap();
    for another in ["restart-cluster --yes --others", "add-worker --type v4-8 --name other --yes"] {
        assert_eq!(world.refused(another).0, "interrupted", "{another}");
    }
    let mut adding = world.spawn("add-worker --resume");
    adding.says("already requested from Google");
    adding.says("extra: waiting");
    assert_eq!(world.double.state().queued.len(), 1);

    rustix::process::kill_process(
        rustix::process::Pid::from_child(&adding.child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let (code, _, said) = adding.ends();
    assert!(code == Some(1) && said.contains("cancelled; the request stays with Google"), "{code:?}: {said}");
    let (code, _, said) = world.run("restart-cluster --dry-run");
    assert_eq!(code, Some(0), "there is room: {said}");
    let mut adding = world.spawn("add-worker --type v4-8 --name extra --yes --json");
    adding.says("extra: waiting");
    world.grant("extra");
    let (code, out, said) = adding.ends();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()[0]["hosts"], json!([WORKER]));
    assert_eq!(world.double.state().queued.len(), 1, "it was asked for once");
    let (_, log, _) = world.run("audit");
    let deed = "add-worker extra (v4-8, preemptible)";
    let line = |outcome: &str| log.lines().any(|l| l.contains(deed) && l.contains(outcome));
    assert!(line("begun") && line("cancelled") && line("done"), "{log}");
}

#[test]
fn a_request_that_somebody_deleted_is_asked_for_anew_when_it_is_resumed() {
    let mut world = World::new();
    world.head();
    let (code, out, said) = world.run("add-worker --type v4-8 --name later --no-wait --yes --json");
    assert_eq!(code, Some(0), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows, json!([{"name": "later", "hosts": [], "joined": false}]));
    let (code, out, said) = world.run("remove-worker later --yes --json");
    assert_eq!(code, Some(0), "nothing stands in the way of another: {said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows, json!([{"name": "later", "hosts": [], "removed": true}]));

    let mut adding = world.spawn("add-worker --type v4-8 --name gone --yes");
    adding.says("gone: waiting");
    world.double.state().queued.clear();
    let (code, _, said) = adding.ends();
    assert!(
        code == Some(1) && said.contains("it was deleted; ask who deleted it; or resume to request"),
        "{said}"
    );
    let mut adding = world.spawn("add-worker --resume");
    adding.says("gone: Google accepted the request");
    adding.says("gone: waiting");
    world.grant("gone");
    let (code, _, said) = adding.ends();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(world.refused("add-worker --resume").0, "nothing-to-resume");
}

#[test]
fn the_console_adds_a_worker_cancels_the_wait_and_offers_the_same_again() {
    let mut world = World::new();
    world.head();
    let mut console = world.console(false);
    let offer = console.offered();
    assert_eq!(offer.types, [WorkerType { name: "tpu_worker".into(), accelerator: "v4-8".into() }]);
    assert_eq!(offer.capacities, ["preemptible", "best-effort", "flex-start", "reserved"]);
    assert_eq!(offer.last, None);
    let wanted = |node_type: &str| NewWorker::Queued {
        node_type: node_type.into(),
        capacity: "best-effort".into(),
        names: vec!["by-console".into()],
    };
    let said = console.refused(Order::Look(Task::AddWorker(wanted("v9-8"))));
    assert!(said.contains("available types: tpu_worker"), "{said}");

    let add = Task::AddWorker(wanted("v4-8"));
    let agreed = Consent { confirmed: Confirmed::Yes, ..Consent::default() };
    console.order(Order::Begin(add.clone(), agreed.clone()));
    console.says("by-console: waiting");
    let busy = console.refused(Order::Begin(Task::Stop, agreed.clone()));
    assert!(busy.contains("add worker by-console (marin-a), started"), "{busy}");
    assert!(busy.contains("cancel it where it runs"), "{busy}");
    console.order(Order::Cancel);
    let OperationEnd::Cancelled(how) = console.ends() else { panic!("it was not cancelled") };
    assert_eq!(how, Remains::Requested);
    assert_eq!(console.offered().last, Some(wanted("v4-8")));
    console.order(Order::Begin(add, agreed.clone()));
    console.says("already requested from Google");
    world.grant("by-console");
    assert_eq!(console.ends(), OperationEnd::Done);

    let remove = |worker: &str| Task::RemoveWorker { worker: worker.into(), drain: Some(60) };
    console.order(Order::Look(remove("by-console")));
    let seen = console.hears(|news| match news {
        OperationNews::Previewed(_, seen) => Some(seen),
        _ => None,
    });
    assert!(!seen.others().is_empty() && seen.trouble.is_none(), "{seen:?}");
    let fates = seen.jobs.iter().map(|j| j.fate.words()).collect::<String>();
    assert!(fates.contains("1 task runs there; may finish"), "{fates}");
    let mut locked = world.console(true);
    let said = locked.refused(Order::Begin(remove("by-console"), agreed));
    assert!(said.contains("remove-worker refused: read-only"), "{said}");
}

#[test]
fn a_worker_is_removed_with_consent_and_to_its_end() {
    let mut world = World::new();
    world.head();
    world.double.state().nodes =
        vec![tpu::node(ZONE, "by-hand", "v4-8", "READY", &labels("unmanaged"), &[WORKER])];
    let (code, out, said) = world.run("remove-worker by-hand --dry-run");
    assert!(code == Some(0) && out.trim_end().ends_with("/nodes/by-hand"), "{out}{said}");
    assert!(said.contains("RUNS ON WORKER") && said.contains("1 task runs there"), "{said}");
    assert_eq!(world.refused("remove-worker by-hand --yes").0, "runs-there");
    for words in ["remove-worker by-hand --now --yes", "init-worker by-hand --yes"] {
        assert_eq!(world.refused(words).0, "others-jobs", "{words}");
    }
    assert_eq!(world.double.asked("DELETE") + world.double.asked("PATCH"), 0);

    world.double.fail_at(
        "DELETE",
        "/nodes/",
        Fault::Refuse { code: 503, status: "UNAVAILABLE", reason: "", message: "try later" },
    );
    let (code, _, said) = world.run("remove-worker by-hand --now --others --yes");
    assert!(code == Some(1) && said.contains("[2/3] failed"), "{said}");
    world.double.recover();
    assert_eq!(world.refused("stop-cluster --yes --others").0, "interrupted");
    // Meanwhile somebody deletes it by hand.
    world.double.state().nodes.clear();
    let head = &world.heads[0].0;
    assert!(head.kill_node(head.nodes()[1]));
    let (code, out, said) = world.run("remove-worker --resume --json");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("already done: TPU VM by-hand") && said.contains("by-hand is gone"), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows, json!([{"name": "by-hand", "hosts": [WORKER], "removed": true}]));
}

#[test]
fn a_restart_deletes_the_head_first_and_keeps_what_a_person_added() {
    let mut world = World::new();
    world.head();
    world.double.state().nodes = vec![
        tpu::node(ZONE, "of-autoscaler-1", "v4-8", "READY", &labels("worker"), &["10.9.9.1"]),
        tpu::node(ZONE, "of-autoscaler-2", "v4-8", "READY", &labels("worker"), &["10.9.9.2"]),
        tpu::node(ZONE, "by-hand", "v4-8", "READY", &labels("unmanaged"), &[WORKER]),
        tpu::node(
            ZONE,
            "others",
            "v4-8",
            "READY",
            &json!({"ray-cluster-name": "b", "ray-node-type": "worker"}),
            &["10.9.9.4"],
        ),
    ];
    let (code, out, said) = world.run("restart-cluster --dry-run");
    assert_eq!(code, Some(0), "{said}");
    let calls: Vec<&str> = out.lines().collect();
    let place = |words: &str| {
        calls.iter().position(|c| c.contains(words)).unwrap_or_else(|| panic!("{words}: {out}"))
    };
    assert!(place("(head-1)") < place("nodes/of-autoscaler-1"), "{out}");
    assert!(
        place("nodes/of-autoscaler-2") < place(" down -y")
            && place(" down -y") < place(" up -y --no-config-cache")
    );
    assert!(!out.contains("by-hand") && !out.contains("others"), "{out}");
    assert!(out.contains(r#""method":"POST","url":"/api/jobs/""#) && !out.contains("ssh "), "{out}");
    assert!(out.contains(r#""HF_TOKEN":"***""#), "a variable is a secret: {out}");
    assert_eq!(world.double.asked("DELETE"), 0);

    let restarting = world.spawn("restart-cluster --yes --others --preserve-jobs=0");
    let begin = Instant::now();
    let asked = world.home.path().join("asked");
    while !fs::read_to_string(&asked).unwrap_or_default().contains("up -y") {
        assert!(begin.elapsed() < Duration::from_secs(60), "ray up was never run: {}", restarting.ends().2);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(world.double.state().instances.len(), 0, "the head is gone before ray up");
    world.head();
    world.file("is-up", "");
    let (code, _, said) = restarting.ends();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 manually added workers have rejoined"), "{said}");
    let asked = fs::read_to_string(asked).unwrap();
    let words: Vec<&str> = asked.lines().filter_map(|l| l.split(' ').next()).collect();
    assert_eq!(words, ["--version", "--version", "down", "up"], "the dry run looks for the ray command, too");
    let deleted = world.deletions();
    assert!(deleted.len() == 3 && deleted[0].contains("/instances/7"), "{deleted:?}");
    let names = world.double.state().nodes.iter().map(|n| n["name"].to_string()).collect::<String>();
    assert!(
        names.contains("by-hand") && names.contains("others") && !names.contains("of-autoscaler"),
        "{names}"
    );
}

#[test]
fn a_dry_restart_of_a_local_cluster_names_each_machine_and_each_job() {
    let mut world = World::new();
    world.head_of(|s| s.jobs = 0);
    let local = format!("provider: {{type: local, head_ip: {HEAD}, worker_ips: [{WORKER}]}}");
    let start = "worker_start_ray_commands: ['ray start --address=$RAY_HEAD_IP:6379']";
    world.file("infra/a.yaml", &format!("cluster_name: marin-a\n{local}\n{start}\n"));
    world.file("work/train.py", "print(1)\n");
    for submit in [
        "submit-job --no-wait --submission-id first --working-dir work -- python train.py",
        "submit-job --no-wait --submission-id lost --runtime-env {\"working_dir\":\"gcs://_ray_pkg_0.zip\"} -- true",
        "submit-job --no-wait --submission-id second --working-dir work -- python train.py",
    ] {
        let (code, _, said) = world.run(submit);
        assert_eq!(code, Some(0), "{said}");
    }
    let (code, out, said) = world.run("restart-cluster --dry-run");
    assert_eq!(code, Some(0), "{said}");
    // What a line says for itself, without files, scripts and the package's name.
    let short = |l: &str| {
        let l = l.replace(world.home.path().to_str().unwrap(), "");
        match l.split_once("    (") {
            Some((call, note)) if call.starts_with("ssh ") => {
                format!("{} ({note}", call.split(' ').take(2).collect::<Vec<_>>().join(" "))
            }
            Some((call, note)) => {
                let sent: Value = serde_json::from_str(call).unwrap();
                format!("{} {} ({note}", sent["method"].as_str().unwrap(), sent["url"].as_str().unwrap())
            }
            None => l.split("_ray_pkg_").next().unwrap().split(" -y").next().unwrap().to_owned(),
        }
    };
    let lines: Vec<String> = out.lines().map(short).collect();
    assert_eq!(
        lines,
        [
            "RAY_UP_enable_autoscaler_v2=1 /ray down",
            "ssh 10.128.0.2 (ends remaining processes of Ray and its jobs)",
            "ssh 10.128.0.3 (ends remaining processes of Ray and its jobs)",
            "ssh 127.0.0.11 (ends remaining processes of Ray and its jobs)",
            "RAY_UP_enable_autoscaler_v2=1 /ray up",
            "PUT /api/packages/gcs/",
            "POST /api/jobs/ (first)",
            "POST /api/jobs/ (second)",
            "ssh 10.128.0.3 (starts Ray)",
        ],
        "{out}"
    );
    let (_, out, _) = world.run("restart-cluster --dry-run --preserve-jobs=0");
    assert!(!out.contains("/api/") && out.contains("ssh 10.128.0.2 "), "{out}");
    let (_, out, _) = world.run("stop-cluster --dry-run");
    assert_eq!(out.lines().map(short).collect::<Vec<_>>(), lines[..4], "{out}");
    // A cluster that is silent tells nothing of its workers, and of its jobs nothing that could be saved.
    world.heads.clear();
    let (code, out, said) = world.run("restart-cluster --dry-run");
    assert!(code == Some(1) && out.is_empty() && said.contains("--preserve-jobs=0"), "{out}{said}");
    let (code, out, said) = world.run("restart-cluster --dry-run --preserve-jobs=0");
    assert_eq!(code, Some(0), "{said}");
    assert!(!out.contains("10.128.0.2") && out.contains("ssh 127.0.0.11 "), "{out}");
    assert!(world.asked().iter().all(|word| word == "--version"), "nothing was done: {:?}", world.asked());
}

#[test]
fn a_cluster_is_started_alone() {
    let mut world = World::new();
    world.file("hold-down", "");
    let (code, out, said) = world.run("start-cluster --dry-run");
    assert!(
        code == Some(0) && out.lines().count() == 1 && out.contains(" up -y --no-config-cache"),
        "{out}{said}"
    );
    let starting = world.spawn("start-cluster");
    until("ray up is run", || world.asked().iter().any(|w| w == "up"));
    world.head();
    world.file("is-up", "");
    let (code, _, said) = starting.ends();
    assert_eq!(code, Some(0), "{said}");
    // The dry run looked for the ray command, too.
    assert_eq!(
        (world.asked(), world.deletions().len()),
        (["--version", "--version", "up"].map(str::to_owned).to_vec(), 0)
    );
    // It runs: nothing is begun again.
    for again in ["start-cluster", "start-cluster --dry-run"] {
        let (code, out, said) = world.run(again);
        assert!(
            code == Some(0) && out.is_empty() && said.contains("marin-a: already running, with"),
            "{out}{said}"
        );
    }
    assert_eq!(world.asked().iter().filter(|w| *w == "up").count(), 1);
}

#[test]
fn a_cluster_is_stopped_head_first_then_its_tpus_side_by_side_then_ray_down() {
    let mut world = World::new();
    world.head_of(|s| s.jobs = 0);
    let own = ["of-autoscaler-1", "of-autoscaler-2", "of-autoscaler-3"];
    let one = |name: &str, kind: &str| tpu::node(ZONE, name, "v4-8", "READY", &labels(kind), &["10.9.9.1"]);
    world.double.state().nodes = own.map(|name| one(name, "worker")).to_vec();
    world.double.state().nodes.push(one("by-hand", "unmanaged"));
    // None is answered before all are asked for.
    let all = Arc::new(Semaphore::new(0));
    world.double.fail_at("DELETE", "/nodes/", Fault::Held(all.clone()));
    world.file("hold-down", "");
    let head = world.double.state().instances[0]["id"].as_str().unwrap().to_owned();
    let deletions = || world.deletions();
    let stopping = world.spawn("stop-cluster --yes");
    until("all are asked for", || deletions().iter().filter(|d| d.contains("/nodes/")).count() == 3);
    assert!(deletions()[0].contains(&format!("/instances/{head}")), "{:#?}", deletions());
    all.add_permits(3);
    until("ray down is run", || world.asked().iter().any(|w| w == "down"));
    {
        let state = world.double.state();
        assert!(state.instances.is_empty(), "the machines are gone before ray down");
        assert_eq!(state.nodes.len(), 1, "only what a person added is left");
    }
    fs::remove_file(world.home.path().join("hold-down")).unwrap();
    let (code, _, said) = stopping.ends();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(world.asked(), ["--version", "down"]);
}

/// A login on a TPU host, in the place of sshd there: what came in is kept.
const LOGINS: &str = "case \" $* \" in *\" -T -- 127.\"*) ;; *\" -T -- \"*) \
     to=${*#* -T -- }; cat >\"$HOME/script-${to%% *}\"; echo \"$to\" >>\"$HOME/logins\"; exit 0;; esac\n\
     exec /usr/bin/ssh \"$@\"\n";

#[test]
fn a_tpu_vm_gets_its_startup_anew_on_each_host() {
    let mut world = World::new();
    world.head_of(|s| s.jobs = 0);
    let hosts = [WORKER, "10.128.0.3"];
    world.program("ssh", LOGINS);
    let mut node = tpu::node(ZONE, "by-hand", "v4-16", "READY", &labels("unmanaged"), &hosts);
    node["metadata"] = json!({"startup-script": "#!old", "enable-oslogin": "TRUE"});
    world.double.state().nodes.push(node);
    let metadata = || world.double.state().nodes[0]["metadata"].clone();
    let (code, _, said) = world.run("init-worker by-hand --dry-run");
    assert!(code == Some(0) && metadata()["startup-script"] == "#!old", "{said}");
    assert!(!world.home.path().join("logins").exists());

    let starting = world.spawn("init-worker by-hand --yes --json");
    let script = |host: &str| fs::read_to_string(world.home.path().join(format!("script-{host}")));
    until("both hosts have the script", || hosts.iter().all(|h| script(h).is_ok_and(|s| !s.is_empty())));
    assert_eq!(metadata()["enable-oslogin"], "TRUE", "what else is there stays");
    let written = metadata()["startup-script"].as_str().unwrap().to_owned();
    assert!(written.starts_with("#!") && written.contains("marin-a"), "{written}");
    for host in hosts {
        until("it is the same script", || script(host).unwrap() == written);
    }
    // Its old nodes are no sign that it has joined.
    for node in world.heads[0].0.nodes().into_iter().skip(1) {
        assert!(world.heads[0].0.renew_node(node));
    }
    let (code, out, said) = starting.ends();
    assert!(code == Some(0) && said.contains("joined"), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows, json!([{"name": "by-hand", "hosts": hosts, "joined": true}]));
    let logins = fs::read_to_string(world.home.path().join("logins")).unwrap();
    assert_eq!(logins.lines().filter(|l| l.starts_with("10.")).count(), 2, "each host once: {logins}");
    assert!(logins.contains("sudo -n sh -c"), "{logins}");
    let (_, log, _) = world.run("audit");
    assert!(log.contains("init-worker by-hand"), "{log}");
}

#[test]
fn a_living_tpu_vm_is_removed_from_google_and_seen_gone_from_ray() {
    let mut world = World::new();
    world.head_of(|s| s.jobs = 0);
    let hosts = [WORKER, "10.128.0.3"];
    let node = tpu::node(ZONE, "by-hand", "v4-16", "READY", &labels("unmanaged"), &hosts);
    world.double.state().nodes.push(node);
    let (code, out, said) = world.run("remove-worker by-hand --dry-run");
    assert!(code == Some(0) && format!("{out}{said}").contains("by-hand"), "{out}{said}");
    assert_eq!(world.double.asked("DELETE"), 0);
    let removing = world.spawn("remove-worker by-hand --now --yes");
    until("google has deleted it", || world.double.state().nodes.is_empty());
    for node in world.heads[0].0.nodes().into_iter().skip(1) {
        world.heads[0].0.kill_node(node);
    }
    let (code, _, said) = removing.ends();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(world.deletions().len(), 1);
    let (_, log, _) = world.run("audit");
    assert!(log.contains("remove-worker by-hand"), "{log}");
}
