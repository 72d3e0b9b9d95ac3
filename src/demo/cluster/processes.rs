//! The worker processes of simulated jobs, their tasks and their log files. With simulated activity there is one on
//! each host of a job's slice, otherwise a few for each running driver.

use super::super::life::gang::Gang;
use super::Cluster;
use super::job::{DASHBOARD, DRIVER_PID, SUPERVISOR, SimJob};
use super::log::Log;
use crate::model::{JobStatus, NodeId, WorkerFile};

/// Tasks of each running driver without simulated activity; the last of them waits for a node.
const TASKS: usize = 4;

/// A task and its worker process.
pub(in crate::demo) struct Task {
    /// Its driver's job id.
    pub job: String,
    pub id: String,
    /// The process that runs it; none while it waits for a node.
    pub process: Option<Process>,
    /// Ray's name for its state.
    pub state: &'static str,
    /// Times in milliseconds since the epoch.
    pub created: i64,
    pub began: Option<i64>,
    pub ended: Option<i64>,
    /// The error that it failed with.
    pub error: Option<String>,
    /// The resource that it requires in addition to a CPU.
    pub needs: (String, f64),
}

/// A worker process.
pub(in crate::demo) struct Process {
    pub node: NodeId,
    /// Ray's worker id.
    pub worker: String,
    pub pid: u32,
}

impl Process {
    /// The name of its log file with this suffix.
    pub fn file(&self, job: &str, suffix: &str) -> String {
        format!("worker-{}-{job}-{}.{suffix}", self.worker, self.pid)
    }
}

/// A worker process as its node reports it.
#[derive(Default)]
pub(in crate::demo) struct Serving {
    pub pid: u32,
    /// The job id of the driver that it serves, and the name of its task or actor; none while it is idle.
    pub job: Option<(String, String)>,
}

/// A placement group of a run.
pub(in crate::demo) struct Group<'a> {
    /// Its driver's job id.
    pub job: &'a str,
    /// When it was created, in milliseconds since the epoch.
    pub created: i64,
    /// What each bundle requests; while the group is pending, the head of a slice, which reserves it.
    pub needs: Vec<(String, f64)>,
    /// The host of each bundle; empty while it is pending.
    pub hosts: &'a [NodeId],
}

impl Cluster {
    /// The worker processes of a node that serve a job.
    pub fn serving(&self, node: NodeId) -> Vec<Serving> {
        let running = |task: Task| {
            let process = task.process.filter(|process| task.state == "RUNNING" && process.node == node)?;
            Some(Serving { pid: process.pid, job: Some((task.job, "train_step".to_owned())) })
        };
        let serving =
            |job: &str, name: &str, pid| Serving { pid, job: Some((job.to_owned(), name.to_owned())) };
        let actors = self.actors().filter(|(_, actor)| actor.node == node);
        let actors = actors.map(|(job, actor)| serving(job, "Holder", actor.pid));
        let supervisors = self.supervisors_on(node).map(|its| serving(DASHBOARD, SUPERVISOR, its.pid));
        self.tasks().into_iter().filter_map(running).chain(actors).chain(supervisors).collect()
    }

    /// The placement groups of runs; none without simulated activity.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let Some(life) = &self.life else { return Vec::new() };
        let running = life.gangs.iter().filter(|gang| gang.runs(self.now));
        let placed = running.map(|gang| Group {
            job: &gang.driver,
            created: gang.began() - 900,
            needs: vec![("CPU".into(), 1.0), chips()],
            hosts: &gang.hosts,
        });
        let waiting = self.waiting_runs().map(|(job_index, job, created)| Group {
            job,
            created,
            needs: vec![self.needs_of(job_index)],
            hosts: &[],
        });
        placed.chain(waiting).collect()
    }

    /// The tasks of all jobs. With simulated activity, only its runs have tasks.
    pub fn tasks(&self) -> Vec<Task> {
        if let Some(life) = &self.life {
            let ran =
                life.gangs.iter().flat_map(|gang| (0..gang.hosts.len()).map(|n| of_gang(gang, n, self.now)));
            let waiting_tasks = self.waiting_runs().map(|(job_index, job, started)| Task {
                needs: self.needs_of(job_index),
                ..waiting(job, started, 0)
            });
            return ran.chain(waiting_tasks).collect();
        }
        let alive: Vec<NodeId> = self.nodes.iter().filter(|n| n.is_alive()).map(|n| n.id).collect();
        let of_driver = |(number, (_, job, started)): (usize, (usize, &str, i64))| {
            let placed = (0..TASKS - 1)
                .map(|i| simple(job, started, i, alive[(number + i) % alive.len()]))
                .collect::<Vec<_>>();
            placed.into_iter().chain([waiting(job, started, TASKS - 1)])
        };
        self.running().enumerate().flat_map(of_driver).collect()
    }

    /// The resource that the task of a waiting run requires: the head resource of a slice, or four chips if unknown.
    fn needs_of(&self, job_index: usize) -> (String, f64) {
        let pod_type = self.jobs[job_index].metadata.as_ref().and_then(|pairs| pairs["tpu"].as_str());
        pod_type.map_or_else(chips, |kind| (format!("TPU-{kind}-head"), 1.0))
    }

    /// The drivers whose runs wait for a slice, as in [`Cluster::running`]. A driver without a run needs none.
    fn waiting_runs(&self) -> impl Iterator<Item = (usize, &str, i64)> {
        let waits = |job_index: usize| self.life.as_ref().is_some_and(|life| life.waits(job_index));
        self.running().filter(move |(job_index, ..)| waits(*job_index))
    }

    /// Running drivers: the index in the job table, the driver's job id, and when the job was submitted.
    pub fn running(&self) -> impl Iterator<Item = (usize, &str, i64)> {
        let running = self.jobs.iter().enumerate().filter(|(_, j)| j.status == JobStatus::Running);
        running.filter_map(|(job_index, j)| Some((job_index, j.driver.as_deref()?, j.started)))
    }

    /// One actor on the head for each running driver, with the driver's job id.
    pub fn actors(&self) -> impl Iterator<Item = (&str, Process)> {
        self.running().enumerate().map(|(i, (_, job, started))| {
            let worker = format!("{:08x}{started:048x}", 0xac70_0000 + i);
            (job, Process { node: self.head(), worker, pid: ACTOR_PID + i as u32 })
        })
    }

    /// The names of the log files of worker processes on a node: standard outputs and standard errors.
    pub fn worker_files(&self, node: NodeId) -> [Vec<String>; 2] {
        let names = |suffix: &str| -> Vec<String> {
            let of_actors =
                self.actors().filter(|_| node == self.head()).map(|(job, actor)| actor.file(job, suffix));
            let of_actors = of_actors.chain(self.supervisors_on(node).map(|its| its.file(DASHBOARD, suffix)));
            let Some(life) = &self.life else {
                let tasks = self.tasks();
                let here = tasks.iter().filter_map(|t| Some((t, t.process.as_ref()?)));
                let here = here.filter(|(_, process)| process.node == node);
                return here
                    .map(|(task, process)| process.file(&task.job, suffix))
                    .chain(of_actors)
                    .collect();
            };
            let here = life.gangs.iter().filter_map(|gang| {
                let worker = gang.hosts.iter().position(|host| *host == node)?;
                Some(of_worker(gang, worker).file(&gang.driver, suffix))
            });
            here.chain(of_actors).collect()
        };
        ["out", "err"].map(names)
    }

    /// The contents of a worker's log file on a node; none if there is no such file.
    pub fn worker_log(&self, node: NodeId, name: &str) -> Option<Log> {
        let file = WorkerFile::parse(name)?;
        if !self.worker_files(node)[usize::from(file.is_err)].iter().any(|known| known == name) {
            return None;
        }
        if file.job == DASHBOARD {
            let marks = format!(":job_id:{DASHBOARD}\n:actor_name:{SUPERVISOR}\n");
            return Some(Log::Written(marks.into_bytes()));
        }
        if !file.is_err {
            let marks = format!(":job_id:{}\n:task_name:train_step\n", file.job);
            return Some(Log::Written(marks.into_bytes()));
        }
        if self.actors().any(|(_, actor)| node == actor.node && actor.pid == file.pid) {
            return Some(Log::none());
        }
        let Some(life) = &self.life else { return Some(Log::growing(self.began, 100, 1)) };
        let is_it = |gang: &&Gang, worker: usize| gang.hosts[worker] == node && gang.pid(worker) == file.pid;
        let mut gangs = life.gangs.iter().filter(|gang| gang.driver == file.job);
        gangs.find_map(|gang| {
            let worker = (0..gang.hosts.len()).find(|worker| is_it(&gang, *worker))?;
            Some(Log::Simulated(gang.log(worker)))
        })
    }
}

/// The stack of a worker without simulated activity: in a training step.
const AT_WORK: &str = "    train_step (train.py:5)\n";

impl Cluster {
    /// The stacks of a running worker or driver as py-spy prints them; none if there is no such process on the node.
    pub fn stacks(&self, node: NodeId, pid: u32) -> Option<String> {
        let drives = |job: &SimJob| job.status == JobStatus::Running && job.driver_node == Some(node);
        if pid == DRIVER_PID && (node == self.head() || self.jobs.iter().any(drives)) {
            return Some(driver_stacks(pid));
        }
        if self.supervisors_on(node).any(|its| its.pid == pid) {
            return Some(worker_stacks(pid, &format!("ray::{SUPERVISOR}"), ""));
        }
        let is_actor =
            node == self.head() && (ACTOR_PID..ACTOR_PID + self.running().count() as u32).contains(&pid);
        if is_actor {
            return Some(worker_stacks(pid, "ray::Holder", ""));
        }
        let is_it = |task: &Task| {
            let process = task.process.as_ref();
            task.state == "RUNNING" && process.is_some_and(|p| p.node == node && p.pid == pid)
        };
        let task = self.tasks().into_iter().find(is_it)?;
        let gangs = self.life.iter().flat_map(|life| &life.gangs);
        let of_gang = gangs.filter(|gang| gang.driver == task.job).find_map(|gang| {
            let worker = (0..gang.hosts.len()).find(|n| gang.hosts[*n] == node && gang.pid(*n) == pid)?;
            Some(gang.frames(worker, self.now))
        });
        let frames = of_gang.unwrap_or_else(|| AT_WORK.to_owned());
        Some(worker_stacks(pid, "ray::train_step", &frames))
    }
}

/// Process id of the first driver's actor; those of the others follow.
const ACTOR_PID: u32 = 970;

/// The output of py-spy for a driver, which waits for its tasks.
fn driver_stacks(pid: u32) -> String {
    format!(
        "Process {pid}: python -m marin.run.train\nPython v3.11.13 (/home/ray/anaconda3/bin/python3.11)\n\nThread {pid} (idle): \
         \"MainThread\"\n    get_objects (ray/_private/worker.py:980)\n    get (ray/_private/worker.py:2962)\n    main \
         (marin/run/train.py:88)\n    <module> (marin/run/train.py:93)\nThread {} (idle): \
         \"ray_listen_error_messages\"\n    listen_error_messages (ray/_private/worker.py:2230)\n    run \
         (threading.py:982)\n    _bootstrap_inner (threading.py:1045)\n",
        pid + 30,
    )
}

/// The output of py-spy for a worker with these frames.
fn worker_stacks(pid: u32, process: &str, frames: &str) -> String {
    format!(
        "Process {pid}: {process}\nPython v3.11.13 (/home/ray/anaconda3/bin/python3.11)\n\nThread {pid} (idle): \
             \"MainThread\"\n{frames}    main_loop (ray/_private/worker.py:1031)\n    <module> \
             (ray/_private/workers/default_worker.py:322)\nThread {} (idle): \"PythonGCThread\"\n    wait \
             (threading.py:327)\n    run (ray/_private/gc_collect_manager.py:29)\n    _bootstrap_inner (threading.py:1045)\n",
        pid + 38
    )
}

/// The chips of a host.
fn chips() -> (String, f64) {
    ("TPU".into(), 4.0)
}

fn of_worker(gang: &Gang, worker: usize) -> Process {
    Process { node: gang.hosts[worker], worker: gang.worker_id(worker), pid: gang.pid(worker) }
}

fn of_gang(gang: &Gang, worker: usize, now: i64) -> Task {
    let (state, ended, error) = gang.state(worker, now);
    Task {
        job: gang.driver.clone(),
        id: task_id(gang.began(), worker, &gang.driver),
        process: Some(of_worker(gang, worker)),
        state,
        needs: chips(),
        created: gang.began() - 900,
        began: Some(gang.began()),
        ended,
        error,
    }
}

fn simple(job: &str, started: i64, i: usize, node: NodeId) -> Task {
    let worker = format!("{:056x}", started + i as i64);
    Task {
        process: Some(Process { node, worker, pid: 1073 + i as u32 }),
        state: "RUNNING",
        began: Some(started + 900),
        ..waiting(job, started, i)
    }
}

fn waiting(job: &str, started: i64, i: usize) -> Task {
    Task {
        job: job.to_owned(),
        id: task_id(started, i, job),
        process: None,
        needs: chips(),
        state: "PENDING_NODE_ASSIGNMENT",
        created: started,
        began: None,
        ended: None,
        error: None,
    }
}

fn task_id(at: i64, i: usize, job: &str) -> String {
    format!("{:032x}ffffffff{job}", at + i as i64)
}

#[cfg(test)]
mod tests {
    use super::super::super::life::gang::{Moment, ScriptedRun};
    use super::*;
    use crate::demo::{Clock, Life, Scenario, TpuType};
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    const T0: i64 = 1_795_000_000_000;

    /// A slice of 16 hosts on which one run has failed, and another is running.
    fn cluster() -> Cluster {
        busy_cluster(60, 0.0)
    }

    /// The same after `past_minutes` in which other users also submitted jobs.
    fn busy_cluster(past_minutes: u32, jobs_per_hour: f64) -> Cluster {
        let scripted = |fails, silent, slow| ScriptedRun {
            node_type: "tpu_slice_v4_128".into(),
            fails,
            silent,
            slow,
            ..ScriptedRun::default()
        };
        let life = Life {
            types: vec![TpuType::new("tpu_slice_v4_128", "v4-128", 1, 1)],
            past_minutes,
            jobs_per_hour,
            preemptions_per_hour: 0.0,
            runs: vec![
                scripted(Some(Moment { worker: 5, minutes_ago: 30 }), None, None),
                scripted(None, Some(Moment { worker: 9, minutes_ago: 20 }), Some(3)),
            ],
            ..Life::default()
        };
        let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
        Cluster::new(&Scenario { dead: 0, jobs: 0, life: Some(life), clock, ..Scenario::default() })
    }

    /// The standard error logs of a job's workers, in the order of the hosts.
    fn logs(cluster: &Cluster, job: usize) -> Vec<String> {
        let driver = cluster.jobs[job].driver.clone().unwrap();
        let nodes = cluster.nodes.iter().filter(|node| !node.is_head);
        let files = nodes.map(|node| {
            let [out, err] = cluster.worker_files(node.id);
            assert_eq!((out.len(), err.len()), (2, 2), "of both runs");
            let name = err.into_iter().find(|name| name.contains(&format!("-{driver}-"))).unwrap();
            let out = cluster.worker_log(node.id, &name.replace(".err", ".out")).unwrap().tail(None, T0);
            assert!(out.starts_with(format!(":job_id:{driver}").as_bytes()));
            String::from_utf8(cluster.worker_log(node.id, &name).unwrap().tail(None, T0)).unwrap()
        });
        files.collect()
    }

    #[test]
    fn one_worker_fails_first_and_the_others_report_it_as_lost() {
        let cluster = cluster();
        assert_eq!(cluster.jobs[0].status, JobStatus::Failed);
        let logs = logs(&cluster, 0);
        assert_eq!(logs.len(), 16);
        let failed = |text: &str| text.lines().find(|l| l.contains(" ERROR ")).unwrap()[..23].to_owned();
        for (n, text) in logs.iter().enumerate() {
            let last = text.lines().last().unwrap();
            assert_eq!(last.contains("RESOURCE_EXHAUSTED"), n == 5, "{n}: {last}");
            assert!(n == 5 || last.contains("UNAVAILABLE") && failed(text) > failed(&logs[5]), "{n}: {last}");
        }
        let driver = String::from_utf8(cluster.jobs[0].log.tail(None, T0)).unwrap();
        assert!(driver.lines().last().unwrap().contains("UNAVAILABLE"), "{driver}");
        let tasks = cluster.tasks();
        let errors = tasks.iter().filter(|task| task.state == "FAILED" && task.error.is_some());
        assert_eq!(errors.count(), 16);
    }

    #[test]
    fn one_worker_is_silent_and_one_is_slow() {
        let cluster = cluster();
        assert_eq!(cluster.jobs[1].status, JobStatus::Running);
        let logs = logs(&cluster, 1);
        let lines = |n: usize| logs[n].lines().count();
        assert!(lines(9) + 1000 < lines(0), "20 minutes of two lines a second: {} {}", lines(9), lines(0));
        assert!(lines(3) + 100 < lines(0) && lines(3) > lines(9));
        let driver = String::from_utf8(cluster.jobs[1].log.tail(Some(1), T0)).unwrap();
        let step =
            |line: &str| line.split(" step ").nth(1).map(|rest| rest.split(' ').next().unwrap().to_owned());
        assert_eq!(
            step(&driver),
            step(logs[0].lines().last().unwrap()),
            "the driver repeats its first worker"
        );
        assert_eq!(cluster.tasks().iter().filter(|task| task.state == "RUNNING").count(), 16);
    }

    #[test]
    fn the_slice_of_a_scripted_run_is_reserved_for_the_next_one() {
        let cluster = busy_cluster(400, 6.0);
        let statuses: Vec<JobStatus> = cluster.jobs.iter().map(|job| job.status).collect();
        assert_eq!(statuses[..2], [JobStatus::Failed, JobStatus::Running], "{statuses:?}");
        assert!(cluster.hosts_of(1).len() == 16 && statuses.len() > 10, "others wait: {statuses:?}");
    }

    #[test]
    fn only_log_files_of_workers_on_the_node_are_found() {
        let cluster = cluster();
        let (head, host) = (cluster.nodes[0].id, cluster.nodes[1].id);
        let name = cluster.worker_files(host)[1][0].clone();
        assert!(cluster.worker_log(host, &name).is_some());
        assert!(cluster.worker_log(head, &name).is_none(), "the file is on another node");
        assert!(cluster.worker_log(host, "raylet.out").is_none());
        let [_, on_head] = cluster.worker_files(head);
        assert_eq!(on_head.len(), 2, "of the running job's actor and of its supervisor: {on_head:?}");
    }

    #[test]
    fn a_driver_without_a_run_waits_for_nothing_although_its_log_has_steps() {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(T0)));
        let life = Life { idle: true, past_minutes: 0, ..Life::default() };
        let scenario =
            Scenario { dead: 0, jobs: 8, unowned: 1, life: Some(life), clock, ..Scenario::default() };
        let cluster = Cluster::new(&scenario);
        let drivers: Vec<&SimJob> =
            cluster.running().map(|(job_index, ..)| &cluster.jobs[job_index]).collect();
        let submitted: Vec<bool> = drivers.iter().map(|job| job.submission.is_some()).collect();
        assert_eq!(submitted, [false, true], "one that was started manually, and a plain submission");
        assert!(drivers[1].log.end_position(T0 + 10_000) > drivers[1].log.end_position(T0));
        assert!(cluster.tasks().is_empty() && cluster.groups().is_empty());
    }
}
