//! Finds leftovers on a cluster's workers and removes them: processes that outlived their job or their raylet, and lock
//! files of libtpu that no process holds. Nearly full disks are only reported. [`leftovers`] determines what
//! counts as left over, and on what evidence.

mod leftovers;

use super::executor::Executor;
use super::host::Host;
use crate::config::Launch;
use crate::model::cloud::{CloudView, TpuHost, TpuVm, VmState};
use crate::model::sort;
use crate::model::{ClusterSpec, HeadAddress, Job, JobId, JobKey, Problem, Provider, Snapshot};
use crate::supervisor::Options;
use futures_util::stream::{self, StreamExt};
pub use leftovers::{FullDisk, HostLeftovers, LeftoverProcess};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const INSPECT_SCRIPT: &str = include_str!("../../assets/cleanup-inspect.sh");
const END_SCRIPT: &str = include_str!("../../assets/cleanup-end.sh");
/// Devices that count as TPUs, as an extended regular expression: v2 to v4 have `/dev/accel*`, later ones `/dev/vfio/*`
/// (Ray, `_private/accelerators/tpu.py`).
pub const DEVICES: &str = "^/dev/(accel[0-9]+|vfio/.+)$";
/// The lock files of libtpu, as a shell pattern. Containers share `/tmp` with their host if Ray's file says so.
const LOCKS: &str = "/tmp/libtpu_lockfile*";
/// Maximum number of concurrent logins.
const AT_ONCE: usize = 8;
/// Time limit for a login and the check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a login, six seconds until a process is killed, and three until it is gone.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// The cluster that is cleaned up.
#[derive(Clone, Copy, Debug)]
pub struct Cleanup<'a> {
    /// The cluster whose hosts are checked.
    pub spec: &'a ClusterSpec,
    /// Login options.
    pub options: &'a Options,
    /// Devices that count as TPUs; see [`DEVICES`].
    pub devices: &'a str,
}

/// A host, with its leftovers or the reason why it could not be checked.
#[derive(Clone, Debug)]
pub struct HostFound {
    /// The host that was checked.
    pub host: TpuHost,
    /// Its leftovers, or why the host could not be checked.
    pub left: Result<HostLeftovers, Problem>,
}

/// A leftover on a host: a process to end, or a file to remove.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The process with this id.
    Process(u32),
    /// The lock file at this path.
    Lock(String),
}

/// The outcome of cleaning up one leftover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The process was ended, or the file removed.
    Done,
    /// The process had already ended, or the file no longer existed.
    AlreadyGone,
    /// Skipped, with the reason.
    Skipped(String),
    /// It could not be ended or removed, with the reason.
    Failed(String),
}

impl Cleanup<'_> {
    /// Checks the hosts of all workers, eight at a time. Missing data of Ray or Google proves nothing: without Ray, no
    /// job counts as ended.
    pub async fn inspect_hosts(&self, ray: Option<&Snapshot>, cloud: Option<&CloudView>) -> Vec<HostFound> {
        let ended = &ended(ray);
        let checks = hosts(self.spec, ray, cloud).into_iter().map(|host| async move {
            let output =
                self.run(&host, INSPECT_SCRIPT, &["/proc", self.devices, LOCKS], CHECK_TIMEOUT).await;
            let left = output.and_then(|output| {
                let left = leftovers::parse(&output, ended);
                left.ok_or_else(|| {
                    super::failure(format!("{}: truncated output", host.internal), "try again")
                })
            });
            HostFound { host, left }
        });
        stream::iter(checks).buffered(AT_ONCE).collect().await
    }

    /// Cleans up the leftovers on these hosts, eight hosts at a time; returns the outcome of each.
    pub async fn end(&self, found: &[HostFound]) -> Vec<Vec<(Subject, Outcome)>> {
        let ends = found.iter().map(|found| async move {
            match &found.left {
                Ok(left) if !left.processes.is_empty() || !left.locks.is_empty() => {
                    self.end_on(&found.host, left).await
                }
                _ => Vec::new(),
            }
        });
        stream::iter(ends).buffered(AT_ONCE).collect().await
    }

    async fn end_on(&self, host: &TpuHost, left: &HostLeftovers) -> Vec<(Subject, Outcome)> {
        let mut arguments = vec!["/proc", self.devices, if left.locks.is_empty() { "" } else { LOCKS }];
        let processes: Vec<String> =
            left.processes.iter().map(|p| format!("{}:{}", p.pid, p.start)).collect();
        arguments.extend(processes.iter().map(String::as_str));
        let output = self.run(host, END_SCRIPT, &arguments, END_TIMEOUT).await;
        let locks = left.locks.iter().map(|lock| Subject::Lock(lock.raw().to_owned()));
        let all = left.processes.iter().map(|p| Subject::Process(p.pid)).chain(locks);
        match output {
            Ok(output) => all
                .map(|subject| {
                    let outcome = outcome(&output, &subject);
                    (subject, outcome)
                })
                .collect(),
            Err(problem) => all.map(|subject| (subject, Outcome::Failed(problem.what.clone()))).collect(),
        }
    }

    async fn run(
        &self,
        host: &TpuHost,
        script: &str,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<String, Problem> {
        let host =
            Host { spec: self.spec, options: self.options, executor: &Executor::Real, to: host.clone() };
        let output = host.script(script, arguments, limit).await?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }
}

/// The hosts of workers: of Ray's alive nodes, of the cluster file, and of Google's running TPU VMs. Never the head. On
/// a local cluster also those of dead nodes, because a host does not end with its raylet.
fn hosts(spec: &ClusterSpec, ray: Option<&Snapshot>, cloud: Option<&CloudView>) -> Vec<TpuHost> {
    let mut all: BTreeMap<String, TpuHost> = BTreeMap::new();
    let is_ours = |vm: &&TpuVm| {
        vm.state == VmState::Ready && vm.ray_cluster.as_ref().is_some_and(|l| l.raw() == spec.name.as_str())
    };
    let vms = cloud.into_iter().flat_map(|view| view.vms.iter().filter(is_ours));
    all.extend(vms.flat_map(TpuVm::logins).map(|host| (host.internal.raw().to_owned(), host)));
    let is_local = spec.provider == Provider::Local;
    let nodes = || ray.into_iter().flat_map(|snapshot| snapshot.nodes.iter());
    let workers = nodes().filter(|n| is_local || n.state.is_alive()).map(TpuHost::of);
    let listed =
        if is_local { Launch::of(spec).map(|l| l.worker_ips).unwrap_or_default() } else { Vec::new() };
    for host in workers.chain(listed.iter().map(|address| TpuHost::at(address))) {
        all.entry(host.internal.raw().to_owned()).or_insert(host);
    }
    for head in nodes().filter(|n| n.is_head) {
        all.remove(head.address.raw());
    }
    if let HeadAddress::Ssh(head) = &spec.head {
        all.remove(head.as_str());
    }
    all.into_values().collect()
}

/// The jobs that Ray lists as ended, by their drivers' ids, after they have had time to end their processes.
fn ended(ray: Option<&Snapshot>) -> BTreeSet<JobId> {
    let Some(ray) = ray else { return BTreeSet::new() };
    let is_over = |job: &Job| {
        job.status.is_ended()
            && job.ended.is_none_or(|at| at.age(ray.taken) > Duration::from_secs(leftovers::MIN_AGE))
    };
    let drivers = |over: bool| {
        ray.jobs.iter().filter(move |job| is_over(job) == over).filter_map(|job| match &job.key {
            JobKey::Driver(id) => Some(id.clone()),
            JobKey::Submission(_) => job.driver.clone(),
        })
    };
    let open: BTreeSet<JobId> = sort::collected(drivers(false));
    sort::collected(drivers(true).filter(|id| !open.contains(id)))
}

/// The outcome that the script reports for a subject. A subject without a report may still exist.
fn outcome(output: &str, subject: &Subject) -> Outcome {
    let name = match subject {
        Subject::Process(pid) => pid.to_string(),
        Subject::Lock(path) => path.clone(),
    };
    let lines = output.lines().map(|line| line.splitn(3, '\t').collect::<Vec<_>>());
    let mut about = lines.rev().filter(|fields| fields.get(1) == Some(&name.as_str()));
    let fields = about.next().unwrap_or_default();
    match (fields.first().copied(), subject) {
        (Some("ended" | "removed"), _) => Outcome::Done,
        (Some("gone"), _) => Outcome::AlreadyGone,
        (Some("other"), _) => Outcome::Skipped("its process id now belongs to another process".into()),
        (Some("kept"), _) => Outcome::Skipped(fields.get(2).copied().unwrap_or("in use").to_owned()),
        (Some("refused"), _) => {
            Outcome::Failed("the SSH user has no permission to kill it: it belongs to another user".into())
        }
        (Some("alive"), _) => Outcome::Failed("still running after SIGKILL: blocked on a device".into()),
        // Gone before the script reached it.
        (_, Subject::Lock(_)) if output.lines().last() == Some("end") => Outcome::AlreadyGone,
        _ => Outcome::Failed("the host did not report the outcome".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Text;
    use std::process::{Child, Command, Stdio};

    fn start_of(pid: u32) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().to_owned()
    }

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// The script's output for these processes.
    fn end(processes: &[String]) -> String {
        let mut script = Command::new("sh");
        script.args(["-c", END_SCRIPT, "sh", "/proc", "^/dev/none$", ""]).args(processes);
        String::from_utf8(script.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_process_is_ended_only_if_its_start_time_has_not_changed() {
        let sleeping = shell("exec sleep 600");
        let mut deaf = shell("trap '' TERM; echo; while :; do sleep 1; done");
        let mut another = shell("exec sleep 600");
        // It ignores SIGTERM once it has written its first output.
        std::io::Read::read_exact(deaf.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let one = |child: &Child| format!("{}:{}", child.id(), start_of(child.id()));
        let gone = u32::MAX;
        let output = end(&[one(&sleeping), one(&deaf), format!("{}:1", another.id()), format!("{gone}:1")]);
        let of = |pid: u32| outcome(&output, &Subject::Process(pid));
        assert_eq!(of(sleeping.id()), Outcome::Done, "{output}");
        assert_eq!(of(deaf.id()), Outcome::Done, "by SIGKILL: {output}");
        assert_eq!(
            of(another.id()),
            Outcome::Skipped("its process id now belongs to another process".into())
        );
        assert_eq!(of(gone), Outcome::AlreadyGone);
        assert_eq!(another.try_wait().unwrap(), None, "it must keep running");
        another.kill().unwrap();
        for mut child in [sleeping, deaf, another] {
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_lock_file_whose_name_has_control_characters_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let file = |name: &str, content: &str| {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), content).unwrap();
        };
        file("proc/uptime", "5000.00 1.00\n");
        let fields = ["0"; 17].join(" ");
        for (pid, name, parent, start) in
            [(1, "systemd", 0, 1), (50, "raylet", 1, 50000), (60, "ray::train", 50, 60000)]
        {
            let stat = format!("{pid} ({name}) S {parent} {fields} {start} 0 0\n");
            file(&format!("proc/{pid}/stat"), &stat);
            std::fs::create_dir(at(&format!("proc/{pid}/fd"))).unwrap();
        }
        let forged = "libtpu_lockfile\nprocess\t50\t1\t1\tS\tx";
        for name in ["libtpu_lockfile", "libtpu_lockfile\tx", forged] {
            file(name, "");
        }
        let (proc, locks) = (at("proc"), at("libtpu_lockfile*"));
        let run = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).arg(&proc).arg("^/dev/none$").arg(&locks);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let output = run(INSPECT_SCRIPT);
        assert!(output.contains("process\t60\t50\t60000\tS\tray::train\n"), "{output}");
        assert!(!output.contains("process\t50\t1\t1\t"), "{output}");
        let lock = at("libtpu_lockfile");
        let left = leftovers::parse(&output, &BTreeSet::new()).unwrap();
        assert!(left.processes.is_empty(), "{output}");
        assert_eq!(left.locks, [Text::from(lock.to_str().unwrap())], "{output}");
        assert_eq!(run(END_SCRIPT), format!("removed\t{}\nend\n", lock.display()));
        assert!(!lock.exists() && at(forged).exists());
    }

    #[test]
    fn a_missing_report_does_not_count_as_done() {
        let process = |output: &str| outcome(output, &Subject::Process(7));
        let lock = |output: &str| outcome(output, &Subject::Lock("/l".into()));
        assert_eq!(process("ended\t7\nend\n"), Outcome::Done);
        for output in ["", "end\n", "ended\t77\nend\n", "nonsense\t7\n"] {
            assert!(matches!(process(output), Outcome::Failed(_)), "{output}");
        }
        assert!(matches!(process("refused\t7\n"), Outcome::Failed(_)));
        assert!(matches!(process("alive\t7\nend\n"), Outcome::Failed(_)));
        assert_eq!(
            lock("kept\t/l\ta process holds a TPU\nend\n"),
            Outcome::Skipped("a process holds a TPU".into())
        );
        assert_eq!((lock("removed\t/l\nend\n"), lock("end\n")), (Outcome::Done, Outcome::AlreadyGone));
        assert!(matches!(lock(""), Outcome::Failed(_)), "it may have been cut off");
    }
}
