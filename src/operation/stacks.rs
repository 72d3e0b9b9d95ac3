//! Takes the Python stacks of workers: through Ray's own route if the head provides it, otherwise with py-spy over ssh
//! on their hosts, in the cluster's container if its file names one. Changes nothing. Ray's own route pauses each
//! process while its stack is read; py-spy over ssh does not.

use super::event::ServiceEvent;
use super::executor::Executor;
use super::host::Host;
use super::request::Request;
use crate::model::text::printable;
use crate::model::{
    ClusterSpec, DriverStacks, HeadAddress, Hint, JobId, JobKey, JobStacks, JobWorker, Node, NodeId, Problem,
    ProblemKind, RayletThreads, Snapshot, SnapshotPart, StackGroup, StackThread, StackWorker, Text,
    Timestamp, WorkerState, node_names,
};
use crate::ray::{Client, Listed, Poller, RayError};
use crate::stacks::{Dump, Group, Raylet, StackLocation, groups, is_driver, is_worker, locations, moved};
use crate::supervisor::Options;
use futures_util::stream::{self, StreamExt};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

const SCRIPT: &str = include_str!("../../assets/stacks.sh");
/// Precedes the raylet in the output of the script.
const RAYLET: &str = "\nraylet\t";
/// Maximum number of concurrent requests to the head, or logins.
const AT_ONCE: usize = 8;
/// Time limit for a login and the stacks of all processes of one host.
const HOST_TIMEOUT: Duration = Duration::from_secs(60);

/// The processes of a job.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    /// Its workers that are running a task or an actor.
    pub workers: Vec<StackWorker>,
    /// Its driver; `None` if Ray does not report the process.
    pub driver: Option<StackWorker>,
}

impl Processes {
    /// The workers, followed by the driver.
    fn all(&self) -> Vec<&StackWorker> {
        self.workers.iter().chain(&self.driver).collect()
    }
}

/// The names, addresses and hostnames of the alive nodes.
struct Hosts(HashMap<NodeId, (Text, Text, Text)>);

impl Hosts {
    fn of(nodes: &[Node]) -> Self {
        let names = node_names(nodes);
        let host = |node: &Node| {
            let name = names.get(&node.id).unwrap_or(&node.address);
            (node.id, (name.clone(), node.address.clone(), node.hostname.clone()))
        };
        Self(nodes.iter().filter(|node| node.state.is_alive()).map(host).collect())
    }

    /// A process on one of them; `None` on another node.
    fn process(&self, node: NodeId, pid: u32, name: Text) -> Option<StackWorker> {
        let (host, address, hostname) = self.0.get(&node)?.clone();
        Some(StackWorker { node, host, address, hostname, pid, name, moved: None })
    }
}

/// The stacks of a job's processes, in their order, or why one could not be read.
#[derive(Clone, Debug, Default)]
pub struct StacksRead {
    dumps: Vec<Result<Dump, String>>,
    over_ssh: bool,
    /// By the addresses of their hosts.
    raylets: BTreeMap<String, Raylet>,
}

/// Takes stacks of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Stacks<'a> {
    /// The cluster of the job.
    pub spec: &'a ClusterSpec,
    /// Login options.
    pub options: &'a Options,
    /// Client of the head.
    pub client: &'a Client,
}

impl Stacks<'_> {
    /// The workers of a job that are running a task or an actor, and its driver.
    ///
    /// # Errors
    ///
    /// Ray does not list them, or there are none.
    pub async fn processes(&self, job: &JobId) -> Result<Processes, Problem> {
        let failed = |error: RayError| error.problem(Timestamp::now());
        let snapshot =
            Poller::new(self.client.clone()).refresh_all(&[SnapshotPart::Nodes]).await.map_err(failed)?;
        let hosts = Hosts::of(&snapshot.nodes);
        // Their files are not needed, so no node is queried for them.
        let gang = self.client.gang(job, &[], &mut Listed::default()).await.map_err(failed)?;
        let running = gang.workers.into_iter().filter(|worker| worker.state == WorkerState::Running);
        let worker = |worker: JobWorker| hosts.process(worker.node, worker.pid, worker.name);
        let workers: Vec<StackWorker> = running.filter_map(worker).collect();
        let driver = self.driver(job, &snapshot, &hosts).await;
        if workers.is_empty() && driver.is_none() {
            let what = format!(
                "no worker of job {job} is running a task or an actor, and Ray reports no driver process"
            );
            return Err(Problem::new(ProblemKind::Other, what, Hint::default(), Timestamp::now()));
        }
        Ok(Processes { workers, driver })
    }

    /// The process of a job's driver; `None` if Ray does not report it.
    async fn driver(&self, job: &JobId, snapshot: &Snapshot, hosts: &Hosts) -> Option<StackWorker> {
        let known = snapshot.jobs.iter().find(|known| known.driver.as_ref() == Some(job));
        let key = known.map_or_else(|| JobKey::Driver(job.clone()), |known| known.key.clone());
        let reported = self.client.driver_process(&key).await;
        let (address, pid) =
            reported.inspect_err(|e| tracing::info!(error = %e, "no driver process")).ok()??;
        let node = snapshot.nodes.iter().find(|n| n.state.is_alive() && n.address == address)?.id;
        hosts.process(node, pid, Text::from("driver"))
    }

    /// Takes the stacks of these processes, eight at a time.
    pub async fn take(&self, processes: &Processes) -> StacksRead {
        self.read(&processes.all()).await.of(processes)
    }

    async fn read(&self, processes: &[&StackWorker]) -> StacksRead {
        let Some((first, others)) = processes.split_first() else { return StacksRead::default() };
        let first = match self.client.stacks(first.node, first.pid).await {
            Err(RayError::Forbidden(off)) => return self.over_ssh(processes, &off).await,
            answer => answer,
        };
        let others: Vec<_> = others.iter().map(|process| (process.node, process.pid)).collect();
        let calls = others.into_iter().map(|(node, pid)| self.client.stacks(node, pid));
        let others: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
        let describe = |error: RayError| match error {
            RayError::Status { message, .. } => reason(&message),
            error => error.to_string(),
        };
        let dumps = std::iter::once(first).chain(others).map(|dump| dump.map_err(describe)).collect();
        StacksRead { dumps, ..StacksRead::default() }
    }

    /// Takes the stacks on the hosts. `off` is Ray's reason for not providing them.
    async fn over_ssh(&self, processes: &[&StackWorker], off: &str) -> StacksRead {
        let mut dumps: Vec<Result<Dump, String>> = processes.iter().map(|_| Err(off.to_owned())).collect();
        if matches!(self.spec.head, HeadAddress::Direct { .. }) {
            return StacksRead { dumps, ..StacksRead::default() };
        }
        let mut hosts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, process) in processes.iter().enumerate() {
            hosts.entry(process.address.raw()).or_default().push(number);
        }
        let reads = hosts.into_iter().map(|(address, numbers)| async move {
            let pids: Vec<String> = numbers.iter().map(|n| processes[*n].pid.to_string()).collect();
            let pids: Vec<&str> = pids.iter().map(String::as_str).collect();
            let executor = Executor::Real;
            let to = processes[numbers[0]].login();
            let host = Host { spec: self.spec, options: self.options, executor: &executor, to };
            let output = host.script_where_ray_runs(SCRIPT, &pids, HOST_TIMEOUT).await;
            (address, numbers, output)
        });
        let mut reads = stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        let mut raylets = BTreeMap::new();
        while let Some((address, numbers, output)) = reads.next().await {
            let output = output.map(|output| String::from_utf8_lossy(&output).into_owned());
            let raylet = output.as_ref().ok().and_then(|output| Raylet::read(output.split_once(RAYLET)?.1));
            raylets.extend(raylet.map(|raylet| (address.to_owned(), raylet)));
            for number in numbers {
                dumps[number] = match &output {
                    Ok(output) => parse_output(output, processes[number].pid),
                    Err(problem) => Err(problem.what.clone()),
                };
            }
        }
        StacksRead { dumps, over_ssh: true, raylets }
    }
}

impl Request {
    /// Takes the stacks of a driver's workers over the cluster's own connection, twice, and reports each result.
    pub async fn stacks(&self, driver: JobId) {
        /// Pause between the two samples.
        const PAUSE_BETWEEN_SAMPLES: Duration = Duration::from_secs(5);
        let sampled = self.sample_twice(&driver, PAUSE_BETWEEN_SAMPLES).await;
        if let Err(problem) = sampled {
            self.report_stacks(&driver, Err(problem)).await;
        }
    }

    async fn sample_twice(&self, driver: &JobId, pause: Duration) -> Result<(), Problem> {
        let channel = self.connection.channel().await?;
        let stacks = Stacks { spec: &self.spec, options: &self.environment.options, client: &channel.client };
        let processes = stacks.processes(driver).await?;
        let first = stacks.take(&processes).await;
        self.report_stacks(driver, Ok(first.group_by_stack(&processes, None))).await;
        tokio::time::sleep(pause).await;
        let second = stacks.take(&processes).await;
        self.report_stacks(driver, Ok(second.group_by_stack(&processes, Some(&first)))).await;
        Ok(())
    }

    /// Lists the log files of one of a driver's workers, by its node and its process id, and reports them.
    pub async fn worker_files(&self, driver: JobId, process: (NodeId, u32)) {
        let files = Arc::new(self.list_worker_files(&driver, process).await);
        // The front end may be shutting down.
        let _ = self.events.send(ServiceEvent::WorkerFiles(self.spec.name.clone(), process, files)).await;
    }

    async fn list_worker_files(&self, driver: &JobId, process: (NodeId, u32)) -> Result<Vec<Text>, Problem> {
        let channel = self.connection.channel().await?;
        let files = channel.client.files_of_worker(process, driver).await;
        files.map_err(|error| error.problem(Timestamp::now()))
    }

    async fn report_stacks(&self, driver: &JobId, result: Result<JobStacks, Problem>) {
        // The front end may be shutting down.
        let _ = self
            .events
            .send(ServiceEvent::Stacks(self.spec.name.clone(), driver.clone(), Arc::new(result)))
            .await;
    }
}

impl StacksRead {
    /// Removes the stacks of other processes, because process ids are reused.
    fn of(mut self, processes: &Processes) -> Self {
        for (number, dump) in self.dumps.iter_mut().enumerate() {
            let is_it = if number < processes.workers.len() { is_worker } else { is_driver };
            let other = dump.as_ref().ok().filter(|dump| !is_it(dump)).map(|dump| dump.process.clone());
            if let Some(other) = other {
                *dump = Err(format!(
                    "the process has ended; its process id now belongs to another process: {other}"
                ));
            }
        }
        self
    }

    /// Groups workers with equal stacks; with an earlier sample, each is marked as moved or not.
    pub fn group_by_stack(&self, processes: &Processes, before: Option<&Self>) -> JobStacks {
        let all = processes.all();
        let worker = |n: usize| {
            let before = before.and_then(|before| before.dumps.get(n)?.as_ref().ok());
            let after = self.dumps.get(n).and_then(|dump| dump.as_ref().ok());
            StackWorker { moved: before.zip(after).map(|(a, b)| moved(a, b)), ..all[n].clone() }
        };
        let group = |group: Group| StackGroup {
            top_frame: group.location.text(),
            frames: frames(&group.location),
            workers: group.members.iter().map(|n| worker(*n)).collect(),
        };
        let count = processes.workers.len();
        let dumps = || self.dumps.iter().enumerate().take(count);
        let read = dumps().filter_map(|(n, dump)| Some((n, dump.as_ref().ok()?)));
        JobStacks {
            at: Timestamp::now(),
            over_ssh: self.over_ssh,
            groups: groups(read).into_iter().map(group).collect(),
            unread: dumps().filter_map(|(n, dump)| Some((worker(n), dump.as_ref().err()?.clone()))).collect(),
            driver: self.dumps.get(count).map(|dump| DriverStacks {
                process: worker(count),
                threads: dump.as_ref().map(threads).map_err(Clone::clone),
            }),
            raylets: self.raylets_of(&all, before),
        }
    }
}

impl StacksRead {
    fn raylets_of(&self, processes: &[&StackWorker], before: Option<&Self>) -> Vec<RayletThreads> {
        let threads = |(address, raylet): (&String, &Raylet)| {
            let process = processes.iter().find(|process| process.address.raw() == address)?;
            let before = before.and_then(|before| before.raylets.get(address));
            let (host, address) = (process.host.clone(), process.address.clone());
            Some(RayletThreads { host, address, pid: raylet.pid, threads: raylet.threads(before) })
        };
        self.raylets.iter().filter_map(threads).collect()
    }
}

fn frames(location: &StackLocation) -> Vec<String> {
    location.frames.iter().map(ToString::to_string).collect()
}

fn threads(dump: &Dump) -> Vec<StackThread> {
    let thread = |(thread, location): (&crate::stacks::Thread, StackLocation)| StackThread {
        name: thread.name.to_string(),
        top_frame: location.text(),
        frames: frames(&location),
    };
    locations(dump).map(thread).collect()
}

/// The script's output for one process.
fn parse_output(output: &str, pid: u32) -> Result<Dump, String> {
    let mark = format!("stacks\t{pid}\n");
    let part = output.split_once(&mark).map(|(_, rest)| rest).ok_or("the host did not report it")?;
    let part = part.split("\nstacks\t").next().unwrap_or(part);
    let part = part.split(RAYLET).next().unwrap_or(part);
    if let Some(why) = part.strip_prefix("failed\t") {
        return Err(reason(why.lines().next().unwrap_or_default()));
    }
    Dump::read(part).ok_or_else(|| "py-spy printed no stack".to_owned())
}

/// The reason why py-spy failed, and a fix.
fn reason(words: &str) -> String {
    let lower = words.to_lowercase();
    let words = printable(words.trim().trim_start_matches("Error: "));
    match () {
        () if lower.contains("permission denied") || lower.contains("operation not permitted") => format!(
            "py-spy has no permission to read the process ({words}); give its container the capability SYS_PTRACE, or \
             allow the SSH user passwordless sudo"
        ),
        () if lower.contains("py-spy is not installed") || lower.contains("py-spy` not found") => {
            "py-spy is not installed with Ray; `pip install 'ray[default]'` installs it".to_owned()
        }
        () if lower.contains("failed to get process executable name") => "the process has ended".to_owned(),
        () if lower.contains("failed to get agent address") => {
            "its node has died, or Ray's agent there does not respond".to_owned()
        }
        () => words.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "stacks\t7\nProcess 7: ray::W.train\nPython v3.11\n\nThread 7 (idle): \"MainThread\"\n    train (gang.py:11)\nstacks\t8\nfailed\tthe process has ended\nstacks\t77\nProcess 77: sleep 9\n\nThread 77 (idle): \"MainThread\"\n    x (y.py:1)\nend\n";

    #[test]
    fn the_output_of_a_host_is_split_by_process() {
        let dump = parse_output(OUTPUT, 7).unwrap();
        assert_eq!((dump.pid, dump.threads.len()), (Some(7), 1));
        assert_eq!(parse_output(OUTPUT, 8).unwrap_err(), "the process has ended");
        assert_eq!(parse_output(OUTPUT, 9).unwrap_err(), "the host did not report it");
    }

    #[test]
    fn a_process_that_reuses_a_process_id_does_not_belong_to_the_job() {
        let process = |pid| StackWorker {
            node: NodeId::from_bytes(&[7; 28]).unwrap(),
            host: "tb-w7".into(),
            address: "10.0.0.7".into(),
            hostname: "".into(),
            pid,
            name: "W".into(),
            moved: None,
        };
        let dump = |process: &str, file: &str| {
            let text = format!(
                "Process 1: {process}\n\nThread 1 (idle): \"MainThread\"\n    f (a.py:1)\n    g ({file}:2)\n"
            );
            Dump::read(&text)
        };
        let worker = dump("ray::W.train", "ray/_private/worker.py").unwrap();
        let driver = dump("python train.py", "ray/_private/worker.py").unwrap();
        let other = dump("python -m http.server", "http/server.py").unwrap();
        let processes = Processes { workers: [7, 8, 9].map(process).into(), driver: Some(process(5)) };
        let taken = |last: &Dump| {
            let dumps = [&worker, &driver, &worker, last].map(|dump| Ok(dump.clone())).into();
            StacksRead { dumps, over_ssh: true, ..StacksRead::default() }
                .of(&processes)
                .group_by_stack(&processes, None)
        };
        let found = taken(&driver);
        assert_eq!((found.groups.len(), found.groups[0].workers.len(), found.workers()), (1, 2, 3));
        let (unread, why) = &found.unread[0];
        assert!(
            unread.pid == 8
                && why.ends_with("its process id now belongs to another process: python train.py"),
            "{why}"
        );
        let threads = found.driver.unwrap().threads.unwrap();
        assert_eq!((threads[0].name.as_str(), threads[0].top_frame.as_str()), ("MainThread", "f (a.py:1)"));
        for no_driver in [&worker, &other] {
            assert!(taken(no_driver).driver.unwrap().threads.unwrap_err().contains("another process"));
        }
    }

    #[test]
    fn py_spy_errors_are_explained_with_a_fix() {
        let denied =
            reason("Permission Denied: Try running again with elevated permissions by going 'sudo env ...'");
        assert!(denied.contains("SYS_PTRACE"), "{denied}");
        assert!(reason("py-spy is not installed").contains("ray[default]"));
        assert_eq!(reason("Error: something \u{1b}[31melse"), "something ·[31melse");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn names_that_are_not_utf_8_are_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let spy = folder.path().join("py-spy");
        let dump = "#!/bin/sh\nprintf 'Process 7: ray::W\\n\\nThread 7 (idle): \"MainThread\"\\n    caf\\351 (tra\\377in.py:3)\\n'\n";
        std::fs::write(&spy, dump).unwrap();
        std::fs::set_permissions(&spy, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut child =
            std::process::Command::new("/bin/sleep").arg("60").env("PATH", folder.path()).spawn().unwrap();
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", SCRIPT, "sh", &child.id().to_string()])
            .output()
            .unwrap();
        let _ = (child.kill(), child.wait());
        let read = parse_output(&String::from_utf8_lossy(&output.stdout), child.id()).unwrap();
        let frame = read.threads[0].frames[0].to_string();
        assert_eq!(frame, "caf\u{fffd} (tra\u{fffd}in.py:3)");
    }

    #[test]
    fn the_script_reports_an_ended_process_and_a_missing_py_spy() {
        let mut child =
            std::process::Command::new("/bin/sleep").arg("60").env("PATH", "/nowhere").spawn().unwrap();
        let run = |pid: &str| {
            let mut shell = std::process::Command::new("/bin/sh");
            let shell = shell.args(["-c", SCRIPT, "sh", pid]).env_clear().env("PATH", "/usr/bin:/bin");
            String::from_utf8(shell.output().unwrap().stdout).unwrap()
        };
        let alive = run(&child.id().to_string());
        let _ = (child.kill(), child.wait());
        let gone = run(&child.id().to_string());
        assert_eq!(
            parse_output(&alive, child.id()).unwrap_err(),
            reason("py-spy is not installed"),
            "{alive}"
        );
        assert_eq!(parse_output(&gone, child.id()).unwrap_err(), "the process has ended", "{gone}");
    }
}
