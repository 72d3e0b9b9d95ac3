//! Operations that cannot begin or cannot continue: the errors, and that nothing is changed. The ray command is a
//! script.

use crate::program::{Ran, kill, program};
use crate::pty::Pty;
use crate::sshd::{self, Sshd};
use crate::transcript::Transcript;
use crate::until::until;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A home with a cluster of provider `local` whose head refuses connections, and a ray command.
struct Fixture {
    home: TempDir,
    head: Option<Sshd>,
}

impl Fixture {
    fn new(ray: &str) -> Self {
        // The path of a control socket is limited to about 100 bytes.
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let fixture = Self { home, head: None };
        fixture.ray(ray);
        fixture.file(
            "settings.yaml",
            &format!("ray: [{}]\nclusters: {{lab: {{port: 9}}}}\n", fixture.path("ray")),
        );
        fixture.file(
            "infra/lab.yaml",
            "cluster_name: lab\nprovider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\n",
        );
        fixture
    }

    /// The same, but the head is this machine behind a real sshd, and no Ray runs there.
    fn with_head(ray: &str) -> Self {
        let mut fixture = Self::new(ray);
        // Other Ray processes on this machine are ignored.
        fixture.program("bin/pgrep", "#!/bin/sh\nexit 1\n");
        let head = Sshd::start(&format!("SetEnv PATH={}:/usr/bin:/bin", fixture.path("bin")));
        let (cluster, dir) = (cluster_at(&head), head.dir());
        fixture.file(
            "settings.yaml",
            &format!(
                "ray: [{}]\nssh_config: {}\nclusters: {{{cluster}: {{port: {}, key: {}, user: {}}}}}\n",
                fixture.path("ray"),
                dir.path("ssh_config").display(),
                head.port,
                dir.path("key").display(),
                sshd::user()
            ),
        );
        fixture.file(
            "infra/lab.yaml",
            &format!(
                "cluster_name: {cluster}\nprovider: {{type: local, head_ip: 127.0.0.1, worker_ips: []}}\n"
            ),
        );
        fixture.head = Some(head);
        fixture
    }

    /// Whether the journal belongs to this process.
    fn holds(&self, process: u32) -> bool {
        let journal = fs::read_to_string(self.path(".local/state/marin-tui/operations/lab.jsonl")).unwrap();
        journal.contains(&format!("{{\"process\":{process}}}"))
    }

    /// Replaces the ray command.
    fn ray(&self, script: &str) {
        self.program("ray", &format!("#!/bin/sh\ncd {0}\necho \"$@\" >>calls\n{script}\n", self.path("")));
    }

    fn program(&self, name: &str, text: &str) {
        self.file(name, text);
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = program(self.home.path());
        command.args(["--infra", &self.path("infra"), "--config", &self.path("settings.yaml")]).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must fail; returns its stderr.
    fn fails(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stderr).unwrap()
    }

    /// Runs a command and adds its output to the transcript.
    fn shows(&self, shown: &mut Transcript, args: &[&str], code: i32) {
        let ran = Ran::of(&self.run(args)).exits(code);
        shown.add(&args.join(" "), &ran);
    }

    /// An empty transcript.
    fn transcript(&self) -> Transcript {
        Transcript::new(self.home.path())
    }

    /// The gate that refuses this operation, as named by `--json`.
    fn refused(&self, args: &[&str]) -> String {
        Ran::of(&self.run(&[args, &["--json"]].concat())).refused().0
    }

    /// The arguments of all ray calls so far.
    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(head) = &self.head {
            // The lock of an operation that was not completed; there may be none.
            let _ = fs::remove_file(format!("/var/tmp/marin-tui-operation-{}.json", cluster_at(head)));
        }
    }
}

/// The name of the cluster with this head. The lock of an operation is a file on the head, which is this machine.
fn cluster_at(head: &Sshd) -> String {
    format!("lab-{}", head.port)
}

#[test]
fn a_ray_command_that_fails_is_found_before_anything_is_stopped() {
    let fixture = Fixture::new("echo 'no module named ray' >&2; exit 1");
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, &["restart-cluster", "--yes", "--others"], 1);
    assert_eq!(fixture.calls(), "--version\n");
    assert_eq!(fixture.refused(&["restart-cluster", "--yes", "--others"]), "interrupted");
    assert_eq!(fixture.refused(&["stop-cluster", "--abandon"]), "different-operation");
    assert_eq!(fixture.refused(&["--read-only", "restart-cluster", "--abandon"]), "read-only");
    assert!(fixture.run(&["restart-cluster", "--abandon"]).status.success());
    fixture.shows(&mut shown, &["restart-cluster", "--abandon"], 1);
    shown.is("a_ray_command_that_fails");
    assert_eq!(fixture.refused(&["restart-cluster", "--abandon"]), "nothing-to-resume");
}

#[test]
fn a_head_that_is_gone_is_stopped_only_with_consent() {
    let fixture = Fixture::new("echo 'ray, version 2.60.0'");
    let said = fixture.fails(&["restart-cluster", "--yes", "--others"]);
    assert!(said.contains("--preserve-jobs=0"), "{said}");
    assert_eq!(fixture.calls(), "--version\n", "nothing was stopped");
    assert_eq!(fixture.refused(&["stop-cluster", "--resume", "--others"]), "different-operation");
    let log = String::from_utf8(fixture.run(&["audit"]).stdout).unwrap();
    assert!(log.contains("restart lab") && log.contains("stopped: "), "{log}");
}

#[test]
fn nothing_is_done_without_confirmation_or_in_a_dry_run() {
    let fixture = Fixture::new("exit 0");
    assert_eq!(fixture.refused(&["restart-cluster"]), "unknown-jobs");
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, &["restart-cluster", "--others"], 1);
    fixture.shows(&mut shown, &["restart-cluster", "--dry-run", "--preserve-jobs=0"], 0);
    shown.is("a_restart_that_nobody_confirms");
    assert_eq!(fixture.calls(), "--version\n", "a dry run checks the ray command, as the restart does");
    assert!(fixture.run(&["restart-cluster", "--preserve-jobs=maybe"]).status.code() == Some(2));
}

#[test]
fn read_only_refuses_what_changes_a_cluster_by_switch_and_by_setting() {
    let fixture = Fixture::new("exit 0");
    let locked = Fixture::new("exit 0");
    locked.file("settings.yaml", "read_only: true\n");
    for command in [
        &["restart-cluster", "--yes"][..],
        &["start-cluster", "--yes"],
        &["stop-cluster", "--yes"],
        &["restore-jobs", "/nowhere"],
        &["submit-job", "--", "true"],
        &["stop-job", "--yes", "x"],
        &["delete-job", "--yes", "x"],
        &["token", "init-secret"],
        &["clean-preempted", "--yes"],
    ] {
        let by_switch = fixture.fails(&[&["--read-only"], command].concat());
        let by_setting = String::from_utf8(locked.run(command).stderr).unwrap();
        for said in [by_switch, by_setting] {
            assert!(said.contains(command[0]) && said.contains("read-only"), "{command:?}: {said}");
        }
    }
    assert!(fixture.run(&["--read-only", "start-cluster", "--dry-run"]).status.success());
    assert_eq!(fixture.calls() + &locked.calls(), "--version\n");
}

#[test]
fn two_operations_cannot_run_on_one_cluster() {
    let fixture = Fixture::new("exec sleep 600");
    // Both start at once: only one gets the cluster.
    let start =
        || fixture.command(&["restart-cluster", "--yes", "--others"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut both = [start(), start()];
    let over = |child: &mut Child| child.try_wait().unwrap().is_some();
    until("one of two is refused", || both.iter_mut().any(over));
    until("the other one is at work", || !fixture.calls().is_empty());
    let [one, other] = both;
    let [mut first, second] = if fixture.holds(one.id()) { [one, other] } else { [other, one] };
    let refused = second.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("on this machine"));
    let said = fixture.fails(&["stop-cluster", "--yes", "--others"]);
    let who = format!("at step 1 of 9 (check), by process {}", first.id());
    assert!(
        said.contains(": restart lab, started ") && said.contains("s ago, ") && said.contains(&who),
        "{said}"
    );
    assert_eq!(fixture.calls(), "--version\n");
    first.kill().unwrap();
    first.wait().unwrap();
    // A killed process holds nothing, and its operation is found again; another program resumes it.
    assert_eq!(fixture.refused(&["restart-cluster", "--yes", "--others"]), "interrupted");
    fixture.ray(&up("exit 1"));
    let said = fixture.fails(&["restart-cluster", "--resume", "--others"]);
    assert!(said.contains("[1/9] ray, version 2.60.0") && said.contains("[2/9] failed"), "{said}");
}

/// A command restarts; the console shows it, starts nothing in parallel, and notices when it is killed.
#[test]
fn the_console_waits_for_a_command_and_resumes_its_operation() {
    let fixture = Fixture::new("exec sleep 600");
    let mut first =
        fixture.command(&["restart-cluster", "--yes", "--others"]).stderr(Stdio::null()).spawn().unwrap();
    until("the command is at work", || !fixture.calls().is_empty());
    let (infra, settings) = (fixture.path("infra"), fixture.path("settings.yaml"));
    let home = fixture.home.path().to_str().unwrap();
    let argv = [env!("CARGO_BIN_EXE_marin-tui"), "--infra", &infra, "--config", &settings];
    let mut console = Pty::start(&argv, &[("HOME", home), ("PATH", "/usr/bin:/bin")], 160, 40);
    console.wait_text("restart 1/9");
    console.send("R");
    console.wait_text("another process");
    console.send("\x1b");
    let mut stop = fixture.command(&["stop-cluster", "--yes", "--others"]);
    assert!(stop.stderr(Stdio::null()).status().is_ok_and(|s| !s.success()));
    first.kill().unwrap();
    first.wait().unwrap();
    console.wait_text("restart 1/9 interrupted");
    assert_eq!(fixture.calls(), "--version\n");
    fixture.ray(&up("exit 1"));
    console.send("p");
    console.wait_text("resumes at this step");
    console.send("u");
    // The owners of the affected jobs are unknown: the console asks for permission, as the command asks for --others.
    console.wait_text("Allow it to continue");
    assert_eq!(fixture.calls(), "--version\n");
    console.send("y");
    console.wait_text("restart 2/9 interrupted");
    assert_eq!(fixture.calls(), "--version\n--version\n");
}

#[test]
fn other_providers_are_refused() {
    let fixture = Fixture::new("exit 0");
    fixture.file("infra/lab.yaml", "cluster_name: lab\nprovider: {type: aws, region: a}\n");
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, &["restart-cluster", "--yes", "--others"], 1);
    shown.is("a_provider_that_is_not_supported");
    assert_eq!(fixture.calls(), "");
}

#[test]
fn no_worker_is_started_outside_the_containers_of_its_cluster() {
    let fixture = Fixture::new("exit 0");
    let file = "cluster_name: lab\nprovider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\n\
                worker_start_ray_commands: ['ray start --address=\"$RAY_HEAD_IP\":7001']\n";
    fixture.file("infra/lab.yaml", &format!("{file}docker: {{image: i, container_name: ray_docker}}\n"));
    let mut shown = fixture.transcript();
    for command in [
        &["add-worker", "--host", "10.0.0.7", "--yes"][..],
        &["add-worker", "--host", "10.0.0.7", "--dry-run"],
        &["init-worker", "10.0.0.7", "--yes"],
    ] {
        fixture.shows(&mut shown, command, 1);
    }
    fixture.shows(&mut shown, &["add-worker", "--abandon"], 1);
    shown.is("workers_of_a_cluster_in_containers");
    // Without a name there is no container; Ray does the same.
    fixture.file("infra/lab.yaml", &format!("{file}docker: {{image: i, container_name: ''}}\n"));
    let said = fixture.fails(&["add-worker", "--host", "10.0.0.7"]);
    assert!(!said.contains("container") && said.contains("--yes"), "{said}");
}

#[test]
fn an_interrupted_start_on_a_host_is_not_done_because_nobody_waits_for_it() {
    let fixture = Fixture::new("exit 0");
    let file = "cluster_name: lab\nprovider: {type: local, head_ip: 127.0.0.1, worker_ips: []}\n\
                worker_start_ray_commands: ['ray start --address=\"$RAY_HEAD_IP\":7001']\n";
    fixture.file("infra/lab.yaml", file);
    fixture.fails(&["add-worker", "--host", "127.0.0.2", "--yes"]);
    for _ in 0..2 {
        let said = fixture.fails(&["add-worker", "--resume", "--no-wait"]);
        assert!(said.contains("[1/3] failed"), "{said}");
    }
}

/// A ray command whose `up` runs this script.
fn up(script: &str) -> String {
    format!("if [ \"$1\" = --version ]; then echo 'ray, version 2.60.0'; exit; fi\n{script}")
}

/// Runs an operation, and interrupts it once a file named `began` exists.
fn interrupted(fixture: &Fixture, args: &[&str], signal: &str) -> Output {
    let _ = fs::remove_file(fixture.path("began"));
    let child = fixture.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("ray has begun", || fs::exists(fixture.path("began")).unwrap());
    kill(signal, child.id());
    child.wait_with_output().unwrap()
}

fn is_running(pid: &str) -> bool {
    let out = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

#[test]
fn a_ray_up_that_hangs_is_ended_by_ctrl_c_with_all_its_children() {
    let fixture = Fixture::with_head(&up(
        "trap '' TERM INT HUP; rm -f pids; echo $$ >>pids; sleep 600 & echo $! >>pids; \
         sh -c 'echo $$ >>pids; exec sleep 600' & while [ $(wc -l <pids) != 3 ]; do sleep 0.01; done; \
         echo 'Checking AWS'; sleep 0.5; : >began; sleep 600; sleep 600",
    ));
    for (round, signal) in ["-INT", "-TERM", "-HUP"].into_iter().enumerate() {
        let args: &[&str] = if round == 0 { &["start-cluster"] } else { &["start-cluster", "--resume"] };
        let out = interrupted(&fixture, args, signal);
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains("Checking AWS") && said.contains("step 2 of 3 (ray up)"), "{said}");
        assert!(said.contains("start-cluster --resume`") && !said.contains("panicked"), "{said}");
        let pids = fs::read_to_string(fixture.path("pids")).unwrap();
        assert_eq!(pids.lines().filter(|pid| pid.parse::<u32>().is_ok()).count(), 3, "{pids}");
        until("none of its processes runs any more", || !pids.lines().any(is_running));
    }
    let said = fixture.fails(&["start-cluster"]);
    assert!(said.contains("(ray up): interrupted at step 2"), "{said}");
    let log = String::from_utf8(fixture.run(&["audit"]).stdout).unwrap();
    assert_eq!(log.matches("stopped: interrupted at step 2").count(), 3, "{log}");
}

#[test]
fn ctrl_c_before_anything_is_changed_leaves_nothing_to_resume() {
    let fixture = Fixture::new(": >began; exec sleep 600");
    let out = interrupted(&fixture, &["restart-cluster", "--yes", "--others"], "-INT");
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(1) && said.contains("cancelled; nothing was changed"), "{said}");
    assert_eq!(fixture.refused(&["restart-cluster", "--resume", "--others"]), "nothing-to-resume");

    // Changes of an earlier attempt remain when the first step of the resumed one is cancelled.
    let fixture = Fixture::with_head(&up("exit 9"));
    assert!(fixture.fails(&["start-cluster"]).contains("failed with exit code 9"));
    fixture.ray(": >began; exec sleep 600");
    let said =
        String::from_utf8(interrupted(&fixture, &["start-cluster", "--resume"], "-INT").stderr).unwrap();
    assert!(
        said.contains("interrupted at step 1 of 3") && said.contains("start-cluster --resume`"),
        "{said}"
    );
    assert_eq!(fixture.refused(&["start-cluster"]), "interrupted");
}

#[test]
fn ray_up_is_not_run_for_a_local_head_that_cannot_be_reached() {
    let fixture = Fixture::new(&up("exit 9"));
    for args in [&["start-cluster"][..], &["start-cluster", "--resume"]] {
        let said = fixture.fails(args);
        assert!(said.contains("[2/3] failed") && said.contains("cannot reach 127.0.0.1"), "{said}");
        assert!(said.contains("check the machine, the network") && said.contains("then resume"), "{said}");
    }
    assert_eq!(fixture.calls(), "--version\n--version\n");
}

#[test]
fn a_ray_up_that_fails_is_reported_and_run_again() {
    let fixture = Fixture::with_head(&up(
        "echo 'Local node IP: 10.0.0.1'; echo 'Error: no such machine' >&2; echo; exit 3",
    ));
    let said = fixture.fails(&["start-cluster"]);
    assert!(said.contains("exit code 3: Error: no such machine"), "{said}");
    assert!(said.contains("then resume") && said.contains("Local node IP"), "{said}");
    let said = fixture.fails(&["start-cluster"]);
    assert!(said.contains("(ray up): `ray up` failed with exit code 3"), "{said}");
    assert!(fixture.fails(&["start-cluster", "--resume"]).contains("failed with exit code 3"));
    // A signal from elsewhere (the kernel, out of memory) is treated like any other exit.
    fixture.ray(&up("kill -9 $$"));
    assert!(fixture.fails(&["start-cluster", "--resume"]).contains("exit code 137"));
    assert_eq!(fixture.calls().lines().filter(|l| l.starts_with("up ")).count(), 3);
}

/// Colors, a bell, a title, invalid UTF-8, a progress bar, a line of 64 MB, and 200,000 short ones.
#[test]
fn output_of_a_ray_command_is_sanitized_and_uses_little_memory() {
    let garbage = "grep VmHWM /proc/$(cat pid)/status >before; \
         printf '\\033]0;owned\\007\\033[2J\\033[31mred\\033[0m \\377\\376 \\342\\200\\256 bell\\007\\n'; \
         printf '1%%\\r2%%\\r100%%\\n'; head -c 64000000 /dev/zero | tr '\\0' x; echo; \
         seq 200000 | sed 's/$/ xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/'; \
         printf 'the end is near\\n\\377\\n' >&2; grep VmHWM /proc/$(cat pid)/status >peak; exit 1";
    let fixture = Fixture::with_head(&up(garbage));
    let mut child = Command::new("sh");
    let command = fixture.command(&["start-cluster"]);
    child.args(["-c", "echo $$ >pid; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    child.env_clear().envs(command.get_envs().filter_map(|(k, v)| Some((k, v?)))).stdin(Stdio::null());
    let out = child.current_dir(fixture.home.path()).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1));
    let odd = said.chars().find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
    assert_eq!(odd, None);
    assert!(said.contains("red \u{fffd}\u{fffd} · bell·\n"), "{}", &said[..400]);
    let end = &said[said.len() - 1000..];
    assert!(said.contains(" 100%\n") && said.contains(" lines omitted)\n"), "{}", &said[..400]);
    assert!(end.contains("the end is near\n") && end.contains("200000 xxx"), "{end}");
    assert!(said.lines().all(|l| l.len() < 3000), "a line of 64 MB is cut");
    assert!(said.contains("exit code 1:"), "{end}");
    let kilobytes = |file| {
        let high = fs::read_to_string(fixture.path(file)).unwrap();
        high.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let more = kilobytes("peak") - kilobytes("before");
    assert!(more < 20_000, "a line of 64 MB takes {more} kB");
}
