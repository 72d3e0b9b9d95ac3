//! A cluster whose file names a container: whatever is read on a host is read inside the container. Mount namespaces
//! stand for containers: the sshd of each host runs in one in which Ray's directory is empty, and a stub of `docker`
//! enters the one in which Ray runs.

use crate::bed::{Bed, HOME, Job, Ray, YAML};
use crate::running::Running;
use crate::until::until;
use serde_json::Value;

/// The directory of cluster files with a container.
const INFRA: &str = "/home/ray/infra-of-a-container";
/// Hosts that run sshd and Ray.
const HOSTS: [&str; 3] = ["head", "w1", "w2"];

/// A stub of `docker` that enters the namespace of the host's first process, as docker enters that of a container.
const DOCKER: &str = r#"#!/bin/sh
[ "$1" = inspect ] && { [ "$6" = ray_docker ] && exec echo true; echo "Error: No such container: $6" >&2; exit 1; }
[ "$1" = exec ] || { echo "this docker knows inspect and exec alone" >&2; exit 1; }
shift
while case $1 in -*) ;; *) false ;; esac do shift; done
shift
exec /run/enter --target 1 --mount --wd=/home/ray --setuid 2077 --setgid 2077 -- "$@"
"#;

/// Starts the sshd of a host in a namespace in which Ray's directory is empty and `docker` is the stub.
const OUTSIDE: &str = "set -e
cp \"$(command -v nsenter)\" /run/enter && chmod 4755 /run/enter
mkdir -p /run/stub && cat >/run/stub/docker && chmod 755 /run/stub/docker
exec unshare --mount --propagation private sh -c '
  mount -t tmpfs empty /tmp/ray
  exec /usr/sbin/sshd -E /run/sshd.log -o SetEnv=PATH=/run/stub:/usr/local/bin:/usr/bin:/bin'";

/// The hosts of a bed, with Ray in a container until this value is dropped.
struct Containers(Bed);

impl Containers {
    fn new(bed: Bed) -> Self {
        let yaml = bed.read(YAML) + "docker: {image: stub, container_name: ray_docker}\n";
        bed.write(&format!("{INFRA}/marin-bed.yaml"), &yaml);
        let containers = Self(bed);
        for host in HOSTS {
            bed.sshd_stop(host);
            bed.on_root_with(host, &["sh", "-c", OUTSIDE], DOCKER);
        }
        containers
    }

    /// Standard output of a command of the program that must succeed.
    fn stdout(&self, words: &[&str]) -> String {
        let (code, out, err) = self.run(words);
        assert_eq!(code, Some(0), "{words:?}: {out} {err}");
        out
    }

    fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let program = [env!("CARGO_BIN_EXE_marin-tui"), "--infra", INFRA];
        Running::start(self.0.command("client", &[&program[..], words].concat())).finish()
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        for host in HOSTS {
            self.0.sshd_stop(host);
            self.0.sshd_start(host);
        }
    }
}

/// Actors, one of which waits forever; the others print a line when they start.
const GANG: &str = "import ray, threading, time
ray.init()
@ray.remote(num_cpus=0.01, scheduling_strategy='SPREAD')
class W:
    def train(self):
        print('worker at work', flush=True)
        while True:
            time.sleep(0.5)
    def stuck(self):
        threading.Event().wait()
ws = [W.remote() for _ in range(6)]
print('gang is made', flush=True)
ray.get([w.stuck.remote() if i == 4 else w.train.remote() for i, w in enumerate(ws)])
";

#[test]
fn hosts_are_read_inside_their_containers() {
    let bed = Bed::shared(Ray::Newest);
    let entrypoint = format!("cat >gang.py <<'END'\n{GANG}END\nexec python gang.py");
    let job: Job = bed.start("container", &entrypoint);
    bed.job_becomes(&job.id, "RUNNING");
    let containers = Containers::new(bed);

    // Ray's directory is empty on the host itself, and has its content in the container.
    let list = "ls /tmp/ray; echo; pwd; hostname; [ -t 0 ] && echo terminal";
    let seen = containers.stdout(&["ssh", "--", &format!("{list}; true")]);
    assert_eq!(seen, format!("\n{HOME}\nbed-head\n"));
    let seen = containers.stdout(&["exec", "--", &format!("{list}; true")]);
    assert!(seen.contains("session_latest") && seen.ends_with("bed-head\n"), "{seen}");
    let seen = containers.stdout(&["exec", "--host", "10.77.0.2", "--", "ls /tmp/ray; hostname"]);
    assert!(seen.contains("session_latest") && seen.ends_with("bed-w1\n"), "{seen}");
    // The exit code is that of the command, and `ray` is found as in a login shell.
    assert_eq!(containers.run(&["exec", "--", "exit 7"]).0, Some(7));
    assert!(containers.stdout(&["exec", "--", "ray", "--version"]).contains("2.60.0"));

    // Logs of the head are read by position, and all hosts are searched.
    until("the driver has printed its line", || {
        containers.stdout(&["job-logs", &job.id]).contains("gang is made").then_some(())
    });
    bed.signal_dashboard("STOP");
    let unanswered = containers.run(&["job-logs", &job.id]);
    bed.signal_dashboard("CONT");
    assert!(unanswered.1.contains("gang is made"), "read over ssh, in the container: {unanswered:?}");
    let found = until("all workers are found", || {
        let (_, out, err) = containers.run(&["cluster-logs", "--node", "all", "-g", "^worker at work"]);
        (out.matches("worker at work").count() == 5).then_some((out, err))
    });
    assert!(found.1.contains("searched: all of "), "no host was read through the dashboard: {found:?}");

    // Stacks, by py-spy in the container of each host.
    let stacks: Value = until("all workers are in their methods", || {
        let out = containers.run(&["stacks", &job.id, "--json"]).1;
        let found: Value = serde_json::from_str(&out).ok()?;
        let counts: Vec<_> = found["groups"].as_array()?.iter().map(|g| g["count"].as_u64()).collect();
        (counts == [Some(5), Some(1)]).then_some(found)
    });
    assert_eq!(stacks["source"], "ssh");

    // A missing container is named, with a hint.
    bed.on("client", &["sed", "-i", "s/ray_docker/other/", &format!("{INFRA}/marin-bed.yaml")]);
    let (code, _, err) = containers.run(&["exec", "--", "true"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("no container other on bed-head") && err.contains("docker ps"), "{err}");
}
