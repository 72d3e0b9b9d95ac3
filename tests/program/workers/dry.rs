//! Dry runs for scripts: for every command one list on stdout, and nothing is changed.

use crate::cloud_fixture::{CloudFixture, HEAD, WORKER, ZONE, labels};
use crate::until::until;
use marin_tui::demo::google::tpu;
use serde_json::{Value, json};

impl CloudFixture {
    /// The list that a command prints, which is the whole of its stdout.
    fn list(&self, command: &str) -> Vec<Value> {
        let (code, out, said) = self.run(&format!("{command} --json"));
        assert_eq!(code, Some(0), "{command}: {said}");
        match serde_json::from_str(&out) {
            Ok(Value::Array(all)) => all,
            other => panic!("{command} prints no list: {other:?}: {out}"),
        }
    }

    /// The list of a dry run; asserts the keys of each call.
    fn planned(&self, command: &str) -> Vec<Value> {
        let calls = self.list(&format!("{command} --dry-run"));
        for call in &calls {
            let keys: Vec<&str> = call.as_object().unwrap().keys().map(String::as_str).collect();
            let wanted: &[&str] = match call["kind"].as_str().unwrap() {
                "http" => &["body", "kind", "method", "note", "url"],
                "run" => &["command", "kind", "note"],
                "ssh" => &["command", "host", "input", "kind", "note"],
                "copy" => &["from", "host", "kind", "note", "to"],
                other => panic!("{command}: {other}"),
            };
            assert_eq!(keys, wanted, "{command}");
        }
        calls
    }

    fn local(&self) {
        // Each host reports the address at which it is reached.
        self.program(
            "ssh",
            "before=; for word; do [ \"$before\" != -- ] || host=$word; before=$word; done\n\
             case \"$before\" in *'hostname -I'*) echo \"$host\"; exit 0;; esac\nexec /usr/bin/ssh \"$@\"\n",
        );
        let local = format!("provider: {{type: local, head_ip: {HEAD}, worker_ips: [{WORKER}]}}");
        self.file("here", "a file");
        let node = format!(
            "file_mounts: {{/there: {}}}\n\
             worker_start_ray_commands: ['ray start --address=$RAY_HEAD_IP:6379']",
            self.home.path().join("here").display()
        );
        self.file("infra/a.yaml", &format!("cluster_name: marin-a\n{local}\n{node}\n"));
    }
}

/// A short form of each call: its target and its action.
fn short(calls: &[Value]) -> Vec<String> {
    let word = |call: &Value, key: &str| call[key].as_str().unwrap_or_default().to_owned();
    let last = |text: String| text.rsplit('/').next().unwrap_or_default().to_owned();
    let one = |c: &Value| match word(c, "kind").as_str() {
        "http" => format!("{} {}", word(c, "method"), last(word(c, "url"))),
        "run" => word(c, "command").split("/ray ").last().unwrap().split(' ').next().unwrap().to_owned(),
        "ssh" => format!("{}: {}", word(c, "host"), word(c, "note")),
        _ => format!("{}: {} to {}", word(c, "host"), last(word(c, "from")), word(c, "to")),
    };
    calls.iter().map(one).collect()
}

#[test]
fn each_dry_run_is_one_list_on_a_cluster_in_google_cloud() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let node = |name: &str, of: &str| tpu::node(ZONE, name, "v4-8", "READY", &labels(of), &[WORKER]);
    fixture.double.state().nodes = vec![node("by-hand", "unmanaged"), node("of-autoscaler", "worker")];

    let adding = fixture.planned("add-worker --type v4-8 --capacity best-effort --count 2 --name extra");
    let wanted =
        ["POST queuedResources?queuedResourceId=extra-1", "POST queuedResources?queuedResourceId=extra-2"];
    assert_eq!(short(&adding), wanted);
    assert_eq!(adding[0]["body"]["bestEffort"], json!({}));
    let starting = fixture.planned("init-worker by-hand");
    let script = format!("{WORKER}: the startup script is passed on standard input");
    assert_eq!(short(&starting), ["PATCH by-hand?updateMask=metadata", &script]);
    let script = &starting[0]["body"]["metadata"]["startup-script"];
    assert!(script.as_str().unwrap().starts_with("#!"));
    assert_eq!(&starting[1]["input"], script, "what is sent is shown");
    assert_eq!(short(&fixture.planned("remove-worker by-hand")), ["DELETE by-hand"]);
    let restarting = fixture.planned("restart-cluster --preserve-jobs=0");
    // By its id, which is never reused.
    let head = format!("DELETE {}", fixture.double.state().instances[0]["id"].as_str().unwrap());
    assert_eq!(restarting[0]["note"], "head-1");
    assert_eq!(short(&restarting), [&head, "DELETE of-autoscaler", "down", "up"]);
    assert_eq!(short(&fixture.planned("stop-cluster")), [&head, "DELETE of-autoscaler", "down"]);
    assert!(fixture.list("start-cluster --dry-run").is_empty(), "it is running");
    assert!(fixture.list("clean-preempted --dry-run").is_empty(), "nothing was preempted");
    fixture.double.state().nodes.push(tpu::node(ZONE, "gone", "v4-8", "PREEMPTED", &labels("worker"), &[]));
    let cleaned = fixture.list("clean-preempted --dry-run");
    assert_eq!((&cleaned[0]["name"], &cleaned[0]["outcome"]), (&json!("gone"), &json!("would be deleted")));
    assert_eq!(fixture.double.requests_with("DELETE") + fixture.double.requests_with("PATCH"), 0);
    assert!(
        fixture.calls().iter().all(|word| word == "--version"),
        "nothing was done: {:?}",
        fixture.calls()
    );
}

#[test]
fn each_dry_run_is_one_list_on_a_local_cluster() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    fixture.local();
    let host = "10.0.0.7";
    let starts = [format!("{host}: here to /there"), format!("{host}: starts Ray")];
    let adding = fixture.planned(&format!("add-worker --host {host}"));
    assert_eq!(short(&adding), starts);
    assert!(adding[1]["command"].as_str().unwrap().contains("RAY_HEAD_IP"), "{}", adding[1]);
    let starts = starts.map(|line| line.replace(host, WORKER));
    assert_eq!(short(&fixture.planned(&format!("init-worker {WORKER}"))), starts);
    let (code, out, said) = fixture.run(&format!("init-worker {host} --dry-run --json"));
    assert!(code == Some(1) && said.contains("Ray has no node at 10.0.0.7"), "{out}{said}");
    assert_eq!(short(&fixture.planned(&format!("remove-worker {WORKER}"))), [format!("{WORKER}: stops Ray")]);
    let (code, out, said) = fixture.run(&format!("remove-worker {host} --dry-run --json"));
    assert!(
        code == Some(1) && out.is_empty() && said.contains("no live node"),
        "as in the real run: {out}{said}"
    );
    let stopping = short(&fixture.planned("stop-cluster"));
    let clears = format!("{WORKER}: stops leftover processes of Ray and its jobs");
    assert_eq!(stopping[..2], ["down".to_owned(), clears]);
    let submit = "submit-job --no-wait --submission-id first --entrypoint-num-cpus 1 -- true";
    assert_eq!(fixture.run(submit).0, Some(0));
    let restarting = fixture.planned("restart-cluster");
    let again = restarting.iter().find(|c| c["method"] == "POST").unwrap();
    assert_eq!((&again["url"], &again["note"]), (&json!("/api/jobs/"), &json!("first")));
    assert_eq!(
        (&again["body"]["entrypoint"], &again["body"]["entrypoint_num_cpus"]),
        (&json!("true"), &json!(1.0))
    );
    assert!(
        fixture.calls().iter().all(|word| word == "--version"),
        "nothing was done: {:?}",
        fixture.calls()
    );
    fixture.heads.clear();
    assert_eq!(short(&fixture.planned("start-cluster")), ["up"]);
}

#[test]
fn a_started_cluster_is_reported_as_a_list() {
    let mut fixture = CloudFixture::new();
    let starting = fixture.spawn("start-cluster --json");
    until("ray up is run", || fixture.calls().iter().any(|w| w == "up"));
    fixture.head();
    fixture.file("is-up", "");
    let (code, out, said) = starting.finish();
    assert_eq!(code, Some(0), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows, json!([{"cluster": "marin-a", "started": true, "backup": null}]));
    assert!(fixture.list("start-cluster").is_empty(), "already running");
}

#[test]
fn an_abandoned_operation_is_reported_as_an_empty_list() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let mut adding = fixture.spawn("add-worker --type v4-8 --name extra --yes");
    adding.wait_for("extra: waiting");
    adding.child.kill().unwrap();
    adding.child.wait().unwrap();
    assert!(fixture.list("add-worker --abandon").is_empty());
}

/// The startup script is metadata, which many people may read: it contains what the cluster file contains, and nothing
/// of this machine.
#[test]
fn secrets_in_a_startup_script_cause_a_warning_before_it_is_sent() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let file = fixture.home.path().join("infra/a.yaml");
    let plain = std::fs::read_to_string(&file).unwrap();
    let (code, _, said) = fixture.run("add-worker --type v4-8 --name extra --dry-run");
    assert!(code == Some(0) && !said.contains("warning"), "{said}");
    let (code, out, said) = fixture.run(&format!("configs validate {}", file.display()));
    assert!(!out.contains("[secret]"), "{code:?} {out}{said}");

    let own = "#!/bin/sh\\nmount /dev/sdb /data\\n";
    let secrets = "setup_commands:\n  - echo WANDB_API_KEY=0123hunter2hunter2 >>~/.env\n  - >-\n    docker login -u me\n    -p hunter2\n";
    let plain = plain
        .replace(
            "container_name: ray_docker",
            "container_name: ray_docker, run_options: ['-e DB_PASSWORD=hunter2']",
        )
        .replace(
            "runtimeVersion: r",
            &format!("metadata: {{startup-script: \"{own}\", api-token: hunter2hunter2}}, runtimeVersion: r"),
        );
    fixture.file("infra/a.yaml", &format!("{plain}{secrets}"));
    let (code, _, said) = fixture.run("add-worker --type v4-8 --name extra --dry-run");
    let warning = said.lines().find(|l| l.starts_with("warning: ")).unwrap_or_else(|| panic!("{said}"));
    assert!(
        code == Some(0) && warning.contains("-p, DB_PASSWORD, WANDB_API_KEY, api-token look like a secret"),
        "{warning}"
    );
    assert!(
        warning.contains("tpu.nodes.get in") && warning.contains("gcloud secrets versions access"),
        "{warning}"
    );
    assert!(!warning.contains("hunter2"), "{warning}");
    let (_, out, _) = fixture.run(&format!("configs validate {}", file.display()));
    for name in ["-p", "DB_PASSWORD", "WANDB_API_KEY", "api-token"] {
        assert!(out.contains(&format!("warning: `{name}` looks like a secret [secret]")), "{name}: {out}");
    }
    assert!(!out.contains("hunter2"), "{out}");

    let requests = fixture.planned("add-worker --type v4-8 --name extra");
    let metadata = &requests[0]["body"]["tpu"]["nodeSpec"][0]["node"]["metadata"];
    let script = metadata["startup-script"].as_str().unwrap();
    assert!(script.contains("mount /dev/sdb /data"), "the file's own script runs, too");
    assert_eq!(metadata["api-token"], "hunter2hunter2", "other metadata of the file is kept");
    assert!(
        script.contains("https://compute.googleapis.com/")
            && script.contains("https://secretmanager.googleapis.com/")
    );
    assert!(
        !script.contains("127.0.0.1") && !script.contains(&fixture.double.url()),
        "workers cannot reach these addresses"
    );
    // The request that was shown is the one that is sent.
    let (code, _, said) = fixture.run("add-worker --type v4-8 --name extra --yes --no-wait");
    assert!(code == Some(0) && said.contains("warning: "), "{said}");
    let sent = fixture.double.state().queued[0].clone();
    assert_eq!(sent["tpu"]["nodeSpec"][0]["node"]["metadata"], *metadata);
}
