//! Runs the startup script of a worker as root on a separate host (namespaces), with the Google double as metadata
//! server, Compute Engine and Secret Manager, and with stubs for docker and ray.

use crate::until::until;
use marin_tui::config::{self, Env, Launch, Sources};
use marin_tui::demo::google::{Fault, Google, PROJECT, compute};
use marin_tui::model::Timestamp;
use marin_tui::operation::{Services, startup_script};
use serde_json::json;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CLUSTER: &str = "marin-us-central2";
const TOKEN: &str = "the-cluster's-own-ray-token";
const DOUBLE: &str = "http://169.254.169.254";

/// Runs the calling test in a new process of this binary, on a separate host.
fn on_a_host(body: impl FnOnce()) {
    const MARK: &str = "MARIN_TEST_HOST";
    if std::env::var_os(MARK).is_some() {
        let _report = Report;
        return body();
    }
    let test = std::thread::current().name().unwrap().to_owned();
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/startup/enter"));
    command.arg(std::env::current_exe().unwrap()).args(["--exact", &test, "--nocapture"]).env(MARK, "1");
    let out = command.stdin(Stdio::null()).output().unwrap();
    let stdout = String::from_utf8_lossy(&out.stdout);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
}

/// Prints the output of the script and of its stubs when a test fails.
struct Report;

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", report());
        }
    }
}

fn read(name: &str) -> String {
    fs::read_to_string(Path::new("/srv/stub").join(name)).unwrap_or_default()
}

fn report() -> String {
    ["script", "log", "docker", "ray"].map(|n| format!("--- {n}\n{}", read(n))).join("\n")
}

/// Writes the startup script of a worker of Marin's own cluster file, as Google's agent would.
fn write_script() {
    write_script_of(&marins_file());
}

fn marins_file() -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/infra/marin-us-central2.yaml");
    fs::read_to_string(file).unwrap().replace("hai-gcp-models", PROJECT)
}

fn write_script_of(yaml: &str) {
    fs::create_dir("/srv/infra").unwrap();
    let file = Path::new("/srv/infra/c.yaml");
    fs::write(file, yaml).unwrap();
    let sources = Sources { infra: Some(file.into()), ..Sources::default() };
    let config = config::load(&sources, &Env::new(&[("HOME", "/srv")], "/srv"), Timestamp::now()).unwrap();
    let spec = config.entries.iter().find_map(config::Entry::cluster).unwrap();
    let launch = Launch::read(file).unwrap();
    let (_, node) = launch.find("v4-16").unwrap();
    let interval = Duration::from_millis(100);
    let services =
        Services { compute: DOUBLE.into(), secret_manager: DOUBLE.into(), poll_interval: interval };
    let script = startup_script(spec, &launch, node, &services).unwrap();
    fs::write("/srv/startup-script", script).unwrap();
}

/// Simulates a boot: runs the script as root, with only what Google's agent provides.
fn boot() -> Child {
    let log = fs::File::options().create(true).append(true).open("/srv/stub/script").unwrap();
    let mut command = Command::new("bash");
    command
        .arg("/srv/startup-script")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/srv/stub");
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

fn head(google: &Google, address: &str, since: &str, status: &str) {
    head_of(google, CLUSTER, address, since, status);
}

fn head_of(google: &Google, cluster: &str, address: &str, since: &str, status: &str) {
    let labels = json!({"ray-node-type": "head", "ray-cluster-name": cluster});
    let mut head = compute::instance("us-central2-b", &format!("head-{address}"), &labels, address, None);
    head["creationTimestamp"] = since.into();
    head["status"] = status.into();
    google.state().instances.push(head);
}

fn joins() -> Vec<String> {
    read("ray").lines().map(str::to_owned).collect()
}

#[test]
fn a_worker_finds_its_head_and_rejoins_it() {
    on_a_host(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let google = runtime.block_on(Google::start_at("169.254.169.254:80")).unwrap();
        write_script();
        let checked = Command::new("bash").args(["-n", "/srv/startup-script"]).status().unwrap();
        assert!(checked.success());
        google.put_secret("RAY_AUTH_TOKEN", TOKEN);
        google.state().page = 1;
        let mut script = boot();

        until("it reports that there is no head", || read("script").contains("no head of marin-us-central2"));
        head(&google, "10.9.0.9", "2026-11-20T09:00:00.000-08:00", "TERMINATED");
        head(&google, "10.9.0.8", "2026-11-18T09:00:00.000-08:00", "RUNNING");
        head(&google, "10.9.0.1", "2026-11-19T09:00:00.000-08:00", "RUNNING");
        until("it waits for ray on the head", || read("script").contains("10.9.0.1 does not accept"));
        assert_eq!(joins().len(), 0);
        let _gcs = TcpListener::bind("10.9.0.1:6379").unwrap();
        until("it joins", || joins().len() == 1);
        let join = &joins()[0];
        assert!(join.starts_with("start --address=10.9.0.1:6379"), "{join}");
        assert!(join.contains(r#"resources={"CPU":120,"TPU":4} mode=token"#), "{join}");
        let sum =
            Command::new("sh").args(["-c", &format!("printf %s \"{TOKEN}\" | md5sum")]).output().unwrap();
        assert!(join.ends_with(&String::from_utf8_lossy(&sum.stdout)[..32]), "not the token: {join}");

        // The machine was prepared once, outside the container.
        let prepared = read("sudo");
        assert!(prepared.starts_with("root: usermod -aG docker root\n"), "{prepared}");
        assert_eq!(prepared.matches("usermod").count(), 1, "{prepared}");

        // Only root and the container's user can read the token, and no call contains it.
        let mode = "stat -c %a /var/lib/marin-tui-worker /var/lib/marin-tui-worker/run/auth_token";
        let mode = Command::new("sh").args(["-c", mode]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&mode.stdout), "700\n400\n");
        let seen = read("docker") + &read("script") + &fs::read_to_string("/srv/startup-script").unwrap();
        assert!(!seen.contains(TOKEN) && !seen.contains("ya29."), "{seen}");
        assert!(read("registry-password").starts_with("ya29."));
        let run = read("docker").lines().find(|l| l.starts_with("run -d")).unwrap().to_owned();
        assert!(run.contains("--privileged") && run.contains("--restart=no --net=host"), "{run}");

        // Compute Engine fails: the running Ray continues.
        google.fail("/compute/", Fault::Html(502));
        let requests = google.requests_with("/aggregated/");
        until("its requests have failed", || google.requests_with("/aggregated/") > requests + 3);
        google.recover();
        assert_eq!(joins().len(), 1);

        // The worker's Ray crashes.
        assert!(Command::new("pkill").args(["-KILL", "-x", "raylet"]).status().unwrap().success());
        until("it joins again", || joins().len() == 2);

        // A new head starts at another address, with a new token.
        google.put_secret("RAY_AUTH_TOKEN", "another");
        head(&google, "10.9.0.2", "2026-11-21T09:00:00.000-08:00", "RUNNING");
        let _other = TcpListener::bind("10.9.0.2:6379").unwrap();
        until("it joins the new head", || joins().len() == 3);
        assert!(joins()[2].starts_with("start --address=10.9.0.2:6379"), "{}", joins()[2]);
        assert_ne!(joins()[2][joins()[2].len() - 32..], joins()[1][joins()[1].len() - 32..]);

        // A reboot: only the disk remains.
        script.kill().unwrap();
        script.wait().unwrap();
        assert!(Command::new("docker").args(["rm", "-f", "ray_docker"]).status().unwrap().success());
        let mut first = boot();
        until("it joins after the boot", || joins().len() == 4);
        // `init-worker` starts the script again: only one instance remains.
        let mut second = boot();
        until("the first ends", || first.try_wait().unwrap().is_some());
        let kill = || Command::new("pkill").args(["-KILL", "-x", "raylet"]).status().unwrap().success();
        until("a raylet is killed", kill);
        until("the second joins", || joins().len() >= 5);
        second.kill().unwrap();
        second.wait().unwrap();
    });
}

/// The script replaces the cluster file's own startup script, and runs it first, whatever its exit code.
#[test]
fn the_files_own_startup_script_runs_first_at_each_boot() {
    on_a_host(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let google = runtime.block_on(Google::start_at("169.254.169.254:80")).unwrap();
        google.put_secret("RAY_AUTH_TOKEN", TOKEN);
        let mut yaml: serde_json::Value = serde_yaml::from_str(&marins_file()).unwrap();
        let kinds = yaml["available_node_types"].as_object_mut().unwrap();
        let kind = kinds.values_mut().find(|k| k["node_config"]["acceleratorType"] == "v4-16").unwrap();
        let own = "#!/usr/bin/env python3\nimport os\nopen('/srv/stub/own', 'a').write(str(os.path.exists('/srv/stub/docker')))\nexit(7)\n";
        kind["node_config"]["metadata"] = json!({"startup-script": own});
        write_script_of(&yaml.to_string());
        head(&google, "10.9.0.1", "2026-11-19T09:00:00.000-08:00", "RUNNING");
        let _gcs = TcpListener::bind("10.9.0.1:6379").unwrap();
        let mut script = boot();
        until("it joins", || joins().len() == 1);
        assert!(read("script").contains("exited with 7"), "{}", report());
        assert_eq!(read("own"), "False", "before any container");
        script.kill().unwrap();
        script.wait().unwrap();
        let mut script = boot();
        until("it runs at the next boot", || {
            read("own").starts_with("False") && read("own").len() > "False".len()
        });
        script.kill().unwrap();
        script.wait().unwrap();
    });
}

#[test]
fn a_missing_permission_for_the_secret_is_reported_and_retried() {
    on_a_host(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let google = runtime.block_on(Google::start_at("169.254.169.254:80")).unwrap();
        write_script();
        google.put_secret("RAY_AUTH_TOKEN", TOKEN);
        head(&google, "10.9.0.1", "2026-11-19T09:00:00.000-08:00", "RUNNING");
        let _gcs = TcpListener::bind("10.9.0.1:6379").unwrap();
        google.fail(
            "/secrets/",
            Fault::Refuse {
                code: 403,
                status: "PERMISSION_DENIED",
                reason: "IAM_PERMISSION_DENIED",
                message: "Permission 'secretmanager.versions.access' denied",
            },
        );
        let mut script = boot();
        until("it reports the missing role", || read("script").contains("secretmanager.secretAccessor"));
        assert_eq!(joins().len(), 0);
        google.recover();
        until("it joins", || joins().len() == 1);
        script.kill().unwrap();
        script.wait().unwrap();
    });
}

/// Every value of the cluster file remains a value: none ends a quotation, a word or a command.
#[test]
fn hostile_values_are_only_values() {
    on_a_host(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let google = runtime.block_on(Google::start_at("169.254.169.254:80")).unwrap();
        google.put_secret("RAY_AUTH_TOKEN", TOKEN);
        let evil = |what: &str| format!("{what}'$(touch owned1)`touch owned2`; touch owned3 #");
        let mut yaml: serde_json::Value = serde_yaml::from_str(&marins_file()).unwrap();
        yaml["cluster_name"] = evil("m").into();
        yaml["docker"]["image"] = "img'$(touch${IFS}owned4)`touch${IFS}owned5`;x".into();
        yaml["docker"]["container_name"] = evil("c").into();
        let kinds = yaml["available_node_types"].as_object_mut().unwrap();
        let kind = kinds.values_mut().find(|k| k["node_config"]["acceleratorType"] == "v4-16").unwrap();
        kind["resources"] = json!({ evil("r"): 1 });
        kind["docker"]["worker_run_options"] = json!([
            "--privileged",
            "; touch owned6;",
            "-e L=$(touch owned7)`touch owned8`",
            "&& touch owned9"
        ]);
        write_script_of(&yaml.to_string());
        head_of(&google, &evil("m"), "10.9.0.1", "2026-11-19T09:00:00.000-08:00", "RUNNING");
        // An address that contains a shell command.
        head_of(
            &google,
            &evil("m"),
            "10.9.0.2;touch${IFS}owned10",
            "2026-11-20T09:00:00.000-08:00",
            "TERMINATED",
        );
        let _gcs = TcpListener::bind("10.9.0.1:6379").unwrap();
        let mut script = boot();
        until("it starts its container", || read("docker").contains("run -d"));
        let run = read("docker").lines().find(|l| l.starts_with("run -d")).unwrap().to_owned();
        for literal in [
            &evil("c"),
            "; touch owned6;",
            "L=$(touch owned7)`touch owned8`",
            "&& touch owned9",
            &evil("{\"r"),
        ] {
            assert!(run.contains(literal), "{literal}: {run}");
        }
        assert!(run.contains("img'$(touch${IFS}owned4)`touch${IFS}owned5`;x bash --login"), "{run}");
        // The newest head's address is invalid: the whole page is rejected, and nothing in it is executed.
        google.state().instances.clear();
        head_of(
            &google,
            &evil("m"),
            "10.9.0.2;touch${IFS}owned11",
            "2026-11-20T09:00:00.000-08:00",
            "RUNNING",
        );
        let requests = google.requests_with("/aggregated/");
        until("it has polled again", || google.requests_with("/aggregated/") > requests + 2);
        script.kill().unwrap();
        script.wait().unwrap();
        let left: Vec<_> = fs::read_dir("/srv/stub").unwrap().map(|e| e.unwrap().file_name()).collect();
        let owned = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("owned");
        assert!(!left.iter().any(owned), "{left:?}\n{}", report());
    });
}
