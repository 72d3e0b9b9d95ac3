//! Restart, stop, start, backup and restore on a real Ray of several hosts, brought up by `ray up` over real sshd.

use crate::bed::{self, Bed, INFRA, Ray};
use crate::pty::Pty;
use crate::running::Running;
use crate::until::until;
use serde_json::{Value, json};
use std::process::{Child, Command, Output, Stdio};

/// A command line of the program on the client host.
fn console(bed: Bed, args: &[&str]) -> Command {
    bed.program(args)
}

/// The same with another directory of cluster files.
fn console_of(bed: Bed, infra: &str, args: &[&str]) -> Command {
    let mut command = bed.command("client", &[env!("CARGO_BIN_EXE_marin-tui"), "--infra", infra]);
    command.args(args);
    command
}

fn run(bed: Bed, args: &[&str]) -> Output {
    console(bed, args).output().unwrap()
}

/// A healthy cluster without an interrupted operation, which a killed test may have left.
fn fresh(ray: Ray) -> Bed {
    let bed = Bed::restarted(ray);
    let _ = run(bed, &["restart-cluster", "--abandon"]);
    // Jobs of a test that failed would be restored as well, and slow down the start of Ray.
    let jobs: Vec<Value> =
        serde_json::from_slice(&run(bed, &["list-jobs", "--json"]).stdout).unwrap_or_default();
    let running = jobs.iter().filter(|job| job["status"] == "running");
    let ids: Vec<&str> = running.filter_map(|job| job["submission_id"].as_str()).collect();
    if !ids.is_empty() {
        let _ = run(bed, &[&["stop-job", "--yes", "--others"][..], &ids].concat());
    }
    bed
}

fn ok(bed: Bed, args: &[&str]) -> String {
    let out = run(bed, args);
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{args:?}: {stdout}\n{stderr}");
    format!("{stdout}{stderr}")
}

/// Submits five jobs of different kinds and returns their ids.
fn five_jobs(bed: Bed) -> Vec<String> {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    bed.write(
        "/home/ray/restart/dir/say.py",
        "import helper, time\nprint('in', helper.WHERE, flush=True)\ntime.sleep(3600)\n",
    );
    bed.write("/home/ray/restart/dir/helper.py", "WHERE = 'dir'\n");
    bed.write("/home/ray/restart/mod/ours/__init__.py", "WHERE = 'module'\n");
    let submit = |name: &str, args: &[&str]| {
        let id = format!("{name}-{now}");
        let head = ["submit-job", "--no-wait", "--submission-id", &id];
        ok(bed, &[&head[..], args].concat());
        id
    };
    let module =
        "{\"py_modules\": [\"/home/ray/restart/mod/ours\"], \"env_vars\": {\"SECRET\": \"s3cr3t-of-a-job\"}}";
    vec![
        submit("plain", &["--metadata", "owner=ray", "--", "echo $$; sleep 3600"]),
        submit("dir", &["--working-dir", "/home/ray/restart/dir", "--", "python", "say.py"]),
        submit(
            "module",
            &[
                "--runtime-env",
                module,
                "--",
                "python -c 'import ours, time; print(ours.WHERE, flush=True); time.sleep(3600)'",
            ],
        ),
        submit("worker", &["--entrypoint-resources", "{\"TPU\": 1}", "--", "sleep 3600"]),
        submit("waits", &["--entrypoint-resources", "{\"unobtainium\": 1}", "--", "sleep 3600"]),
    ]
}

/// Submits [`five_jobs`] and waits until four run and one is pending. Returns their ids, and Ray's details of them.
fn start_five_jobs(bed: Bed) -> (Vec<String>, Vec<Value>) {
    let ids = five_jobs(bed);
    let state = |id: &String| if id.starts_with("waits") { "PENDING" } else { "RUNNING" };
    let before = ids.iter().map(|id| bed.job_becomes(id, state(id))).collect();
    (ids, before)
}

/// Checks that all five jobs are as before: in status, entrypoint, metadata, runtime environment and output; and that
/// the process of the worker's job exists only once.
fn check_restored(bed: Bed, ids: &[String], before: &[Value]) {
    for (id, before) in ids.iter().zip(before) {
        let state = if id.starts_with("waits") { "PENDING" } else { "RUNNING" };
        let job = bed.job_becomes(id, state);
        for part in ["entrypoint", "metadata", "runtime_env"] {
            assert_eq!(job[part], before[part], "{part} of {id}");
        }
    }
    for (id, words) in [(&ids[1], "in dir"), (&ids[2], "module")] {
        until(&format!("{id} logs {words}"), || ok(bed, &["job-logs", id]).contains(words).then_some(()));
    }
    let on = ["head", "w1", "w2"];
    let count = |id: &str| -> usize {
        let script = format!(
            "grep -lzF -e '\"job_submission_id\": \"{id}\"' /proc/[0-9]*/environ 2>/dev/null | while read f; do tr '\\0' ' ' <${{f%environ}}cmdline; echo; done | grep -c '^sleep 3600' || true"
        );
        on.iter().map(|h| bed.on(h, &["sh", "-c", &script]).trim().parse::<usize>().unwrap()).sum()
    };
    until("the worker's job runs once", || (count(&ids[3]) == 1).then_some(()));
}

fn session(bed: Bed) -> String {
    bed.api("/api/version")["session_name"].as_str().unwrap().to_owned()
}

#[test]
fn a_restart_brings_every_job_back() {
    restart_with_jobs(fresh(Ray::Newest));
}

#[test]
fn a_restart_of_the_oldest_ray_brings_every_job_back() {
    restart_with_jobs(fresh(Ray::Oldest));
}

/// The end of the autoscaler's logs: why a worker was not started.
fn autoscaler_log(bed: Bed) -> String {
    let script =
        "cd /tmp/ray/session_latest/logs && tail -n 25 monitor.log && tail -n 15 monitor.out monitor.err";
    bed.on("head", &["sh", "-c", script])
}

/// A manually started driver, killed on drop.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// Starts two jobs of unknown owner and waits until they run: a plain `ray job submit`, and a driver, started manually
/// on the head, which ends with its process. Returns their ids, and the driver.
fn two_of_unknown_owner(bed: Bed) -> ([String; 2], Driver) {
    let submit = "RAY_AUTH_TOKEN=$(cat ~/.ray/auth_token) ray job submit --address http://10.77.0.1:8265 --no-wait \
                  -- sleep 3602 2>&1";
    let output = bed.on("client", &["sh", "-c", submit]);
    let mut words = output.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let id = words.find(|w| w.starts_with("raysubmit_")).unwrap().to_owned();
    bed.job_becomes(&id, "RUNNING");
    let script = "import ray, time; ray.init(address='auto', log_to_driver=False); time.sleep(3602)";
    let mut driver = bed.command("head", &["python3", "-c", script]);
    let driver = Driver(driver.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let is_manual = |job: &Value| job["type"] == "DRIVER" && job["status"] == "RUNNING";
    let job = until("the manual driver is listed", || {
        bed.api("/api/jobs/").as_array().unwrap().iter().find(|j| is_manual(j)).cloned()
    });
    ([id, job["job_id"].as_str().unwrap().to_owned()], driver)
}

fn restart_with_jobs(bed: Bed) {
    let (mut ids, before) = start_five_jobs(bed);
    let jobs: Value = serde_json::from_slice(&run(bed, &["list-jobs", "--json"]).stdout).unwrap();
    let owner = |id: &String| {
        let row = jobs.as_array().unwrap().iter().find(|j| j["submission_id"] == id.as_str());
        row.unwrap()["owner"].clone()
    };
    assert!(ids.iter().all(|id| owner(id) == "ray"), "submitted jobs have an owner: {jobs}");
    let (unowned, driver) = two_of_unknown_owner(bed);
    let old = session(bed);
    let refused = run(bed, &["restart-cluster", "--yes"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("--others"), "{error}");
    let row = |id: &str| error.lines().find(|l| l.starts_with(id)).unwrap_or_default().to_owned();
    let unknown = unowned.iter().filter(|id| row(id).contains("owner unknown")).count();
    assert!(unknown == 2 && unowned.iter().all(|id| error.matches(id.as_str()).count() == 2), "{error}");
    assert!(ids.iter().all(|id| !row(id).contains("unknown")), "{error}");
    assert_eq!(session(bed), old, "nothing was changed");
    let output = ok(bed, &["restart-cluster", "--yes", "--others"]);
    let all_back = output.contains("jobs restored") && output.contains("all workers have rejoined");
    assert!(all_back, "{}\n{output}", autoscaler_log(bed));
    assert!(output.contains(&format!("ended: {} (started manually)", unowned[1])), "{output}");
    assert!(!output.contains("s3cr3t-of-a-job"), "{output}");
    assert_ne!(session(bed), old);
    drop(driver);
    check_restored(bed, &ids, &before);
    // Its owner is still unknown.
    assert!(bed.job_becomes(&unowned[0], "RUNNING")["metadata"]["owner"].is_null());
    ids.insert(0, unowned[0].clone());
    let secrets = "find ~/.local/state/marin-tui -type f -perm /077 | wc -l; find ~/.local/state/marin-tui -type d -perm /077 | wc -l";
    assert_eq!(bed.on("client", &["sh", "-c", secrets]).split_whitespace().collect::<Vec<_>>(), ["0", "0"]);
    let log: Value = serde_json::from_slice(&run(bed, &["audit", "--json"]).stdout).unwrap();
    assert_eq!(log.as_array().unwrap().last().unwrap()["outcome"], "done");
    let again = run(bed, &["restart-cluster", "--resume"]);
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("no interrupted operation"),
        "nothing is left to resume"
    );

    // The backup still exists; restoring it again submits nothing.
    let dir = bed.on("client", &["sh", "-c", "ls -d ~/.local/state/marin-tui/backups/*"]);
    let newest = dir.lines().last().unwrap();
    let rows: Value =
        serde_json::from_slice(&run(bed, &["restore-jobs", newest, "--dry-run", "--json"]).stdout).unwrap();
    assert!(rows.as_array().unwrap().iter().all(|r| r["outcome"] == "already exists"), "{rows}");
    let rows: Value = serde_json::from_slice(&run(bed, &["restore-jobs", newest, "--json"]).stdout).unwrap();
    assert!(rows.as_array().unwrap().iter().all(|r| r["outcome"] == "already exists"), "{rows}");
    // After a restart, the configuration on the head matches the file.
    let update = ok(bed, &["update-cluster"]);
    assert!(update.contains("matches its cluster file"), "{update}");
    // The owner of one of them is unknown. Ray ignores a request to stop a pending job (ray-project/ray#58353); it does
    // not affect the next test's `up`.
    let ids: Vec<_> = ids[..5].iter().map(String::as_str).collect();
    let refused = run(bed, &[&["stop-job", "--yes"][..], &ids].concat());
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    ok(bed, &[&["stop-job", "--yes", "--others"][..], &ids].concat());
}

/// Runs a shell command on the client as root as soon as the journal records this step as done. One process on the
/// client polls the journal, because the next step may take only milliseconds.
fn once_done(bed: Bed, step: &str, command: &str) {
    let is_done = format!("/\"begin\"/ {{ d = 0 }} /\"done\"/ && /\"{step}\"/ {{ d = 1 }} END {{ exit !d }}");
    let journal = "cat /home/ray/.local/state/marin-tui/operations/*.jsonl 2>/dev/null";
    let script = format!("until {journal} | awk '{is_done}'; do sleep 0.02; done; {command}");
    let timeout = bed::TIMEOUT.as_secs().to_string();
    bed.on_root("client", &["timeout", &timeout, "sh", "-c", &script]);
}

/// Runs an operation that is killed with SIGKILL after each of these steps, and resumes it to its end.
fn killed_after_each(bed: Bed, steps: &[&str], args: &[&str]) {
    // Journals of earlier operations must not be mistaken for that of this one.
    bed.on("client", &["sh", "-c", "rm -f ~/.local/state/marin-tui/operations/*"]);
    let mut child = console(bed, args).spawn().unwrap();
    for (i, step) in steps.iter().enumerate() {
        // A process that was resumed a moment ago may still be starting; one that has finished no longer exists.
        once_done(
            bed,
            step,
            "for i in $(seq 50); do pkill -KILL -x marin-tui && break; sleep 0.02; done; true",
        );
        let is_last = i + 1 == steps.len();
        let ended = child.wait().unwrap().success();
        // The operation may end immediately after the last step.
        if ended
            || bed
                .on("client", &["sh", "-c", "tail -qn 1 ~/.local/state/marin-tui/operations/*"])
                .contains("\"end\"")
        {
            assert!(is_last, "it ended before it was killed after {step}");
            let marks = bed.on("head", &["sh", "-c", "ls /var/tmp | grep marin-tui-operation || true"]);
            assert_eq!(marks, "", "no lock is left that would block the next operation");
            return;
        }
        if !is_last {
            let refused = run(bed, args);
            let error = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success() && error.contains("--resume"), "{error}");
        }
        child = console(bed, &[args[0], "--resume"]).spawn().unwrap();
    }
    assert!(child.wait().unwrap().success(), "{args:?} was not resumed to its end");
}

#[test]
fn a_restart_that_is_killed_at_every_step_is_resumed() {
    let bed = fresh(Ray::Newest);
    let (ids, before) = start_five_jobs(bed);
    let old = session(bed);
    let steps = ["read-state", "backup", "stop", "clean-up", "start", "wait-for-ray", "restore"];
    killed_after_each(bed, &steps, &["restart-cluster", "--yes", "--others"]);
    assert_ne!(session(bed), old);
    check_restored(bed, &ids, &before);
    // Ray ignores a request to stop a pending job (ray-project/ray#58353); it does not affect the next test's `up`.
    ok(bed, &[&["stop-job", "--yes"][..], &ids[..4].iter().map(String::as_str).collect::<Vec<_>>()].concat());
}

#[test]
fn a_cluster_is_stopped_and_started() {
    let bed = fresh(Ray::Newest);
    let id = bed.submit("orphan", "sleep 3601");
    bed.job_becomes(&id, "RUNNING");
    let dry = ok(bed, &["stop-cluster", "--dry-run"]);
    assert!(dry.contains("ray down") && dry.contains(&id), "{dry}");
    bed.job_becomes(&id, "RUNNING");
    let refused = run(bed, &["stop-cluster", "--yes"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains(&format!("unknown owner ({id})")), "{error}");
    ok(bed, &["stop-cluster", "--yes", "--others"]);
    for host in ["head", "w1", "w2"] {
        let left = bed.on(host, &["sh", "-c", "pgrep -c -x raylet; pgrep -cf '^sleep 3601'; true"]);
        assert_eq!(left.split_whitespace().collect::<Vec<_>>(), ["0", "0"], "{host}");
    }
    ok(bed, &["start-cluster", "--yes"]);
    assert_eq!(bed.api("/api/jobs/"), json!([]));
    let alive = || bed.nodes().iter().filter(|n| n["state"] == "ALIVE").count();
    until("all three nodes are alive", || (alive() == 3).then_some(()));
    let running = ok(bed, &["start-cluster"]);
    assert!(running.contains("already running"), "{running}");
}

#[test]
fn without_a_local_ray_nothing_is_stopped() {
    let bed = fresh(Ray::Newest);
    let old = session(bed);
    bed.write("/home/ray/restart/settings.yaml", "ray: [/nowhere/ray]\n");
    let args = ["--config", "/home/ray/restart/settings.yaml", "restart-cluster", "--yes", "--others"];
    let out = run(bed, &args);
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && error.contains("nothing was changed"), "{error}");
    assert_eq!(session(bed), old);
    ok(bed, &["restart-cluster", "--abandon"]);
}

#[test]
fn a_manually_added_worker_survives_a_restart_and_is_removed() {
    const SPARE: &str = "10.77.0.4";
    let bed = fresh(Ray::Newest);
    let alive = || -> Vec<String> {
        let is_it = |n: &Value| n["node_ip"] == SPARE && n["state"] == "ALIVE";
        bed.nodes().iter().filter(|n| is_it(n)).map(|n| n["node_id"].as_str().unwrap().to_owned()).collect()
    };
    // Remove what a killed test may have left.
    bed.on("client", &["sh", "-c", "rm -f ~/.local/state/marin-tui/operations/*"]);
    let _ = run(bed, &["remove-worker", SPARE, "--now", "--yes"]);
    let _ = run(bed, &["remove-worker", "--abandon"]);
    until("no node is left on the spare host", || alive().is_empty().then_some(()));
    let token = bed.read(bed::TOKEN);
    let output = ok(bed, &["add-worker", "--host", SPARE, "--dry-run"]);
    assert!(output.contains("ray start") && alive().is_empty(), "{output}");
    let output = ok(bed, &["add-worker", "--host", SPARE, "--yes"]);
    assert!(output.contains("1 of 1 hosts have joined Ray") && !output.contains(token.trim()), "{output}");
    let twice = run(bed, &["add-worker", "--host", SPARE, "--yes"]);
    let error = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert!(!twice.status.success() && error.contains("a live node at 10.77.0.4"), "{error}");
    ok(bed, &["add-worker", "--abandon"]);
    let first = alive();
    assert_eq!(first.len(), 1);
    let mode = bed.on(
        "w3",
        &[
            "sh",
            "-c",
            "stat -c %a ~/.ray/auth_token; ps -eo args | grep -cF -- \"$(cat ~/.ray/auth_token)\" || true",
        ],
    );
    assert_eq!(mode.lines().next(), Some("600"));

    // A restart of the head: the autoscaler restores its own workers, the operation restores this one.
    let output = ok(bed, &["restart-cluster", "--yes", "--others", "--preserve-jobs=0"]);
    assert!(
        output.contains("1 worker added manually") && output.contains("all workers have rejoined"),
        "{output}"
    );
    let second = alive();
    assert!(second.len() == 1 && second != first, "{second:?} after {first:?}");

    // Restarted from a cluster file with more file mounts and initialization commands.
    let more = "mkdir -p ~/more 'mount me/in' && echo deep >'mount me/in/file' && chmod 751 'mount me/in' && \
                sed -e 's|^file_mounts:|&\\n  \"~/mounted there\": \"~/mount me\"|' \
                -e 's|^initialization_commands:.*|initialization_commands: [\"cat ~/mounted*/in/file >~/initialized\"]|' \
                infra/*.yaml >more/more.yaml";
    bed.on("client", &["sh", "-c", more]);
    let out = console_of(bed, "/home/ray/more", &["init-worker", SPARE, "--yes"]).output().unwrap();
    let output = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && output.contains("joined"), "{output}");
    until("it has joined again as a new node", || (alive().len() == 1 && alive() != second).then_some(()));
    let seen = "cat ~/initialized; stat -c %a ~/mounted*/in; ls /tmp/ray/cluster-marin-bed.state";
    let seen = bed.on("w3", &["sh", "-c", seen]);
    assert_eq!(seen.lines().collect::<Vec<_>>(), ["deep", "751", "/tmp/ray/cluster-marin-bed.state"]);

    // A job runs there: it is named, and the node is not removed without confirmation; with --drain the job may finish.
    let node = alive()[0].clone();
    let pin = json!({"entrypoint_resources": {format!("node:{SPARE}"): 0.01}});
    let id = bed.submit_with("pinned", "sleep 30", &pin);
    bed.job_becomes(&id, "RUNNING");
    let refused = run(bed, &["remove-worker", SPARE, "--yes"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("--drain") && error.contains(&id), "{error}");
    let output = ok(bed, &["remove-worker", SPARE, "--drain", "--yes", "--others"]);
    assert!(output.contains("10.77.0.4: draining") && output.contains("is gone"), "{output}");
    let mut states = vec![bed.job(&id)["status"].clone()];
    bed.node_becomes(&node, "DEAD");

    // The same again, killed after every step.
    killed_after_each(bed, &["find", "start-ray"], &["add-worker", "--host", SPARE, "--yes"]);
    assert_eq!(alive().len(), 1, "there is one node, however often the operation was resumed");
    let node = alive()[0].clone();
    let id = bed.submit_with("pinned", "sleep 20", &pin);
    bed.job_becomes(&id, "RUNNING");
    killed_after_each(
        bed,
        &["find", "drain", "remove"],
        &["remove-worker", SPARE, "--drain", "--yes", "--others"],
    );
    states.push(bed.job(&id)["status"].clone());
    assert_eq!(states, ["SUCCEEDED", "SUCCEEDED"], "the jobs could finish and were not killed");
    bed.node_becomes(&node, "DEAD");
    let left = bed.on("w3", &["sh", "-c", "pgrep -c -x raylet; true"]);
    assert_eq!(left.trim(), "0");
}

/// A cluster that another machine started: a full disk during the backup, then a lost network while the jobs are
/// restored. Each failure is reported, and the operation is resumed.
#[test]
fn a_cluster_that_another_machine_started_is_restarted_despite_a_full_disk_and_a_lost_network() {
    const BACKUPS: &str = "/home/ray/.local/state/marin-tui/backups";
    let bed = fresh(Ray::Newest);
    let (ids, before) = start_five_jobs(bed);
    // As after a reboot or on another laptop: `ray down` then stops nothing and exits with 0.
    bed.on("client", &["sh", "-c", "rm /tmp/ray/cluster-*.state"]);
    let old = session(bed);
    // Unmount what a killed test may have left, and mount a file system of one page.
    let _ = bed.command("client", &["mkdir", "-p", "-m", "700", BACKUPS]).status();
    let tiny = format!(
        "umount {BACKUPS} 2>/dev/null; mount -t tmpfs -o size=4k,mode=700,uid=$(id -u ray) tmpfs {BACKUPS}"
    );
    bed.on_root("client", &["sh", "-c", &tiny]);
    let out = run(bed, &["restart-cluster", "--yes", "--others"]);
    bed.on_root("client", &["umount", BACKUPS]);
    let output = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && output.contains("No space left on device"), "{output}");
    assert!(output.contains("nothing was changed") && output.contains("then resume"), "{output}");
    assert_eq!(session(bed), old, "nothing was stopped");
    for id in &ids[..4] {
        assert_eq!(bed.job(id)["status"], "RUNNING");
    }

    let mut resuming = console(bed, &["restart-cluster", "--resume"]);
    let child = resuming.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Stopped at this point, because the next step may be over before the link is cut.
    once_done(bed, "wait-for-ray", "pkill -STOP -x marin-tui");
    bed.cut("head");
    // `nsenter` stops together with its program, and continues the program when it is continued itself.
    assert!(Command::new("kill").args(["-CONT", &child.id().to_string()]).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    bed.heal("head");
    let output = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        !out.status.success() && output.contains("] failed: ") && output.contains("jobs saved in"),
        "{output}"
    );
    assert!((String::from_utf8_lossy(&out.stdout) + &*output).contains("no Ray launcher state"), "{output}");
    let output = ok(bed, &["restart-cluster", "--resume"]);
    // A pending job of an earlier test, which nothing stops, is restored, too.
    assert!(output.contains(" jobs restored\n") && output.contains("all workers have rejoined"), "{output}");
    assert_ne!(session(bed), old);
    check_restored(bed, &ids, &before);
    // Ray ignores a request to stop a pending job (ray-project/ray#58353); it does not affect the next test's `up`.
    ok(bed, &[&["stop-job", "--yes"][..], &ids[..4].iter().map(String::as_str).collect::<Vec<_>>()].concat());
}

/// Creates the home directory of a second operator on the client, with the same keys and files. Returns the start of a
/// command line of that operator.
fn second_home(bed: Bed) -> Vec<String> {
    let make = "rm -rf ~/bo && mkdir -p ~/bo/run && cp -r ~/.ssh ~/.ray ~/bo/ && chmod 700 ~/bo/run";
    bed.on("client", &["sh", "-c", make]);
    let variables = ["HOME=/home/ray/bo", "USER=bo", "HOSTNAME=desk", "XDG_RUNTIME_DIR=/home/ray/bo/run"];
    let program =
        ["env"].into_iter().chain(variables).chain([env!("CARGO_BIN_EXE_marin-tui"), "--infra", INFRA]);
    [bed.on_client(&[]), program.map(str::to_owned).collect()].concat()
}

#[test]
fn a_second_operator_is_refused_during_a_restart_and_followers_continue_with_the_restored_job() {
    let bed = fresh(Ray::Newest);
    let bo = second_home(bed);
    let by_bo = |args: &[&str]| {
        let mut command = Command::new(&bo[0]);
        command.args(&bo[1..]).args(args);
        command
    };
    let job = format!("kept-{}", std::time::UNIX_EPOCH.elapsed().unwrap().as_millis());
    let entrypoint = "echo begun by process $$; sleep 3600";
    ok(bed, &["submit-job", "--no-wait", "--submission-id", &job, "--", "sh", "-c", entrypoint]);
    bed.job_becomes(&job, "RUNNING");
    let mut log = Running::start(by_bo(&["job-logs", "-f", &job]));
    log.out.until("begun by process ");
    let mut wait = Running::start(by_bo(&["wait-job", &job]));
    wait.err.until("waiting for");
    let argv: Vec<&str> = bo.iter().map(String::as_str).collect();
    let screen = Pty::start(&argv, &[], 160, 50);
    screen.wait_for("connection", bed::TIMEOUT, |text| text.contains("● up"));

    // Journals of earlier operations must not be mistaken for that of this one.
    bed.on("client", &["sh", "-c", "rm -f ~/.local/state/marin-tui/operations/*"]);
    let mut restart = console(bed, &["restart-cluster", "--yes", "--others"]);
    let restart = restart.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Stopped when Ray is up again and no job is submitted yet: the state that a second operator finds during the
    // restart.
    once_done(bed, "wait-for-ray", "pkill -STOP -f '^[^ ]*marin-tui .*restart-clus[t]er'");
    for command in ["restart-cluster", "stop-cluster"] {
        let out = by_bo(&[command, "--yes", "--others"]).output().unwrap();
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{command}: {error}");
        assert!(
            error.contains("restart by ray, step ") && error.contains("--take-over"),
            "{command}: {error}"
        );
    }
    screen.wait_for("the notice of the restart", bed::TIMEOUT, |text| text.contains("restart by ray, step "));
    for follower in [&mut log, &mut wait] {
        follower.err.until("connection lost");
        follower.err.until("waiting for the job to be restored");
    }
    bed.on_root("client", &["pkill", "-CONT", "-f", "^[^ ]*marin-tui .*restart-clus[t]er"]);
    let _ = Command::new("kill").args(["-CONT", &restart.id().to_string()]).status().unwrap();
    let out = restart.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));

    for follower in [&mut log, &mut wait] {
        follower.err.until("was restarted with the cluster");
    }
    log.out.until_times("begun by process ", 2);
    screen.wait_for("the end of the restart", bed::TIMEOUT, |text| {
        !text.contains("restart by ray, step ") && text.contains(&job)
    });
    ok(bed, &["stop-job", "--yes", &job]);
    for follower in [log, wait] {
        let (code, _, err) = follower.finish();
        assert_eq!(code, Some(3), "{err:?}");
    }
}
