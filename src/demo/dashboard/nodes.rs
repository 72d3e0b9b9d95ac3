//! A node in the dashboard's formats: `/nodes?view=summary`, `/nodes/{id}`, `/api/v0/nodes`, and its lines of logical
//! resource usage. Sizes are those of a real node: 4 kB of empty strings in the agent's command line, 5 kB in the
//! raylet's.

use super::super::cluster::node::SimNode;
use super::super::cluster::processes::Serving;
use super::super::json::{array, camel, dumps, dumps_with};
use crate::model::DeathReason;
use crate::model::json::object;
use serde_json::{Value, json};

const BYTES_OF_DISK: u64 = 270_553_174_016;

/// The job id of a process without a job.
const NO_JOB: &str = "ffffffff";
/// The process id of the idle worker.
const IDLE_PID: u32 = 612;

/// Ray's name for a death reason.
pub(super) fn reason_name(reason: DeathReason) -> &'static str {
    match reason {
        DeathReason::Unspecified => "UNSPECIFIED",
        DeathReason::Expected => "EXPECTED_TERMINATION",
        DeathReason::Unexpected => "UNEXPECTED_TERMINATION",
        DeathReason::Preempted => "AUTOSCALER_DRAIN_PREEMPTED",
    }
}

/// A number as Python prints floats.
pub(super) fn float(x: f64) -> String {
    format!("{x:?}")
}

/// Bytes in the dashboard's format: `0B`, `21.95GiB`.
pub(super) fn bytes(x: f64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    units.iter().find(|(_, power)| x >= (1_u64 << power) as f64).map_or_else(
        || format!("{x:.0}B"),
        |(unit, power)| format!("{:.2}{unit}", x / (1_u64 << power) as f64),
    )
}

/// A line of usage, such as `4.0/4.0 TPU`; memory with a unit.
pub(super) fn usage_line(name: &str, used: f64, total: f64) -> String {
    if name.ends_with("memory") {
        format!("{}/{} {name}", bytes(used), bytes(total))
    } else {
        format!("{}/{} {name}", float(used), float(total))
    }
}

/// Named amounts, with the keys in the dashboard's camel case.
fn mangled<'a, V: Into<Value>>(pairs: impl Iterator<Item = (&'a str, V)>) -> Value {
    object(pairs.map(|(k, v)| (camel(k), v)))
}

impl SimNode {
    /// The dashboard's lines of logical resource usage (`nodeLogicalResources`).
    pub fn logical_lines(&self) -> String {
        let shown = self.resources.iter().filter(|(name, ..)| !name.starts_with("node:"));
        shown.map(|(name, total, used)| usage_line(name, *used, *total)).collect::<Vec<_>>().join("\n")
    }

    /// A row of `/api/v0/nodes`.
    pub fn row(&self, detail: bool) -> Value {
        let mut row = json!({
            "node_id": self.id.to_string(),
            "node_ip": self.ip,
            "is_head_node": self.is_head,
            "state": self.state_label(),
            "state_message": self.state_message(),
            "node_name": self.ip,
            "resources_total": object(self.resources.iter().map(|(n, t, _)| (n.as_str(), *t))),
            "labels": object(self.labels.iter().map(|(k, v)| (k.as_str(), v.as_str()))),
        });
        if detail {
            row["start_time_ms"] = json!(self.started);
            row["end_time_ms"] = json!(self.end.map_or(0, |e| e.at));
        }
        row
    }

    /// `ALIVE` or `DEAD`.
    pub fn state_label(&self) -> &'static str {
        if self.is_alive() { "ALIVE" } else { "DEAD" }
    }

    /// The node in `/nodes?view=summary`, cached until it changes.
    pub fn summary(&mut self, session: &str) -> &str {
        if self.written.is_none() {
            self.written = Some(self.write(
                session,
                &[("coreWorkersStats", &array(self.core_workers().iter().map(String::as_str)))],
                &[],
            ));
        }
        self.written.as_deref().unwrap_or_default()
    }

    /// The node in `/nodes/{id}`: with its worker processes (those that serve a job, and an idle one) instead of the
    /// workers' statistics.
    pub fn detail(&self, session: &str, serving: &[Serving]) -> String {
        let idle = self.is_alive().then(|| Serving { pid: IDLE_PID, ..Serving::default() });
        let workers = serving.iter().chain(&idle).enumerate().map(|(i, worker)| {
            let (title, job) = match &worker.job {
                Some((job, title)) => (format!("ray::{title}"), job.as_str()),
                None => ("ray::IDLE".to_owned(), NO_JOB),
            };
            let process = process(&title, 852, worker.pid as usize, self.started);
            let stats = self.core_worker(i, worker.pid as usize, job, worker.job.is_some());
            dumps_with(
                &json!({"language": "PYTHON", "jobId": job}),
                &[("coreWorkerStats", &format!("[{stats}]"))],
            )
            .replacen('{', &format!("{}, ", process.trim_end_matches('}')), 1)
        });
        let workers: Vec<String> = workers.collect();
        let workers = array(workers.iter().map(String::as_str));
        self.write(session, &[], &[("workers", &workers), ("actors", "{}")])
    }

    fn write(&self, session: &str, in_raylet: &[(&str, &str)], members: &[(&str, &str)]) -> String {
        let raylet = dumps_with(&self.raylet(session), in_raylet);
        let Some(sampled) = self.sampled else {
            return dumps_with(&json!({"tpus": []}), &[members, &[("raylet", &raylet)]].concat());
        };
        let agent = process("ray::DashboardAgent", 1001, 347, self.started);
        let command = dumps(&json!(self.raylet_command(session)));
        let gcs = if self.is_head { process("gcs_server", 1, 300, self.started) } else { "null".into() };
        let all = [members, &[("raylet", &raylet), ("agent", &agent), ("cmdline", &command), ("gcs", &gcs)]];
        dumps_with(&self.measured(sampled), &all.concat())
    }

    /// The measurements of the agent.
    fn measured(&self, sampled: i64) -> Value {
        let total = self.resources.iter().find(|r| r.0 == "memory").map_or(1, |r| (r.1 * 1.4) as u64);
        let used = (total as f64 * self.memory_share) as u64;
        let cpus = self.resources.iter().find(|r| r.0 == "CPU").map_or(8, |r| r.1 as u64);
        let disk_used = (BYTES_OF_DISK as f64 * self.disk_share()) as u64;
        let disk = json!({"total": BYTES_OF_DISK, "used": disk_used, "free": BYTES_OF_DISK - disk_used,
            "percent": (self.disk_share() * 1000.0).round() / 10.0});
        let load = self.cpu_percent / 100.0 * cpus as f64;
        json!({
            "now": sampled as f64 / 1000.0,
            "hostname": self.hostname,
            "ip": self.ip,
            "cpu": self.cpu_percent,
            "cpus": [cpus, cpus],
            "mem": [total, total - used, (self.memory_share * 1000.0).round() / 10.0, used],
            "hostMem": [used, total],
            "cgroupMem": null,
            "shm": 9_105_408,
            "bootTime": (self.started / 1000 - 120) as f64,
            "loadAvg": [[load, load * 0.9, load * 0.8], [0.37, 0.91, 1.48]],
            "disk": {"/": disk, "/tmp/ray": disk},
            "diskIo": [5_381_071_872_u64, 5_444_612_096_u64, 247_292, 24_439],
            "diskIoSpeed": [126_106.936_244_125, 37_995.502_388_888_635, 21.345_339_568, 3.225_074_670],
            "gpus": [],
            "tpus": [],
            "network": [8_123_456_789_u64, 9_876_543_210_u64],
            "networkSpeed": [1_234_567.891, 2_345_678.912],
        })
    }

    /// The data of the GCS in the dashboard's format. Most of them are empty for a dead node.
    fn raylet(&self, session: &str) -> Value {
        let store = self.resources.iter().find(|r| r.0 == "object_store_memory").map_or(0.0, |r| r.1);
        let temp = "/tmp/ray";
        if let Some(end) = self.end {
            return json!({
                "numWorkers": 0, "objectStoreUsedMemory": 0, "objectStoreAvailableMemory": store as u64,
                "storeStats": {"objectStoreBytesAvail": (store as u64).to_string()},
                "nodeId": self.id.to_string(), "state": "DEAD", "endTimeMs": end.at.to_string(),
                "deathInfo": {"reason": reason_name(end.reason), "reasonMessage": end.message},
                "nodeManagerAddress": "", "rayletSocketName": "", "objectStoreSocketName": "",
                "nodeManagerPort": 0, "objectManagerPort": 0, "nodeManagerHostname": "", "metricsExportPort": 0,
                "runtimeEnvAgentPort": 0, "metricsAgentPort": 0, "dashboardAgentListenPort": 0,
                "resourcesTotal": {}, "nodeName": "", "instanceId": "", "nodeTypeName": "",
                "instanceTypeName": "", "startTimeMs": "0", "isHeadNode": false, "labels": {},
                "tempDir": "", "sessionDir": "", "stateMessage": self.state_message(),
            });
        }
        let state = if self.idle_since.is_some() { "IDLE" } else { "ACTIVE" };
        json!({
            "numWorkers": self.core_workers().len(),
            "storeStats": {"objectStoreBytesAvail": (store as u64).to_string(),
                "cumulativeCreatedObjects": "13", "cumulativeCreatedBytes": "104"},
            "objectStoreUsedMemory": 0, "objectStoreAvailableMemory": store as u64,
            "nodeId": self.id.to_string(), "nodeManagerAddress": self.ip,
            "rayletSocketName": format!("{temp}/{session}/sockets/raylet"),
            "objectStoreSocketName": format!("{temp}/{session}/sockets/plasma_store"),
            "nodeManagerPort": 43_585, "objectManagerPort": 42_443, "nodeManagerHostname": self.hostname,
            "metricsExportPort": 41_105, "runtimeEnvAgentPort": 33_189, "metricsAgentPort": 42_273,
            "dashboardAgentListenPort": 52_365,
            "resourcesTotal": mangled(self.resources.iter().map(|(n, t, _)| (n.as_str(), *t))),
            "nodeName": self.ip, "instanceId": self.instance_id, "nodeTypeName": *self.node_type,
            "instanceTypeName": "", "startTimeMs": self.started.to_string(), "endTimeMs": "0",
            "isHeadNode": self.is_head,
            "labels": mangled(self.labels.iter().map(|(k, v)| (k.as_str(), v.as_str()))),
            "stateSnapshot": {"state": state, "idleDurationMs": "0", "nodeActivity": []},
            "tempDir": temp, "sessionDir": format!("{temp}/{session}"),
            "state": "ALIVE", "stateMessage": null,
        })
    }

    /// Statistics of the workers: an idle one, and on a busy node also one that trains.
    fn core_workers(&self) -> Vec<String> {
        let busy = self.is_alive() && self.idle_since.is_none();
        let count = if busy { 2 } else { usize::from(self.is_alive()) };
        (0..count).map(|i| self.core_worker(i, 1000 + i, "01000000", busy && i == 0)).collect()
    }

    fn core_worker(&self, i: usize, pid: usize, job: &str, is_busy: bool) -> String {
        let mut stats = json!({
            "ipAddress": self.ip, "port": (13_003 + i).to_string(), "actorId": "f".repeat(32),
            "numExecutedTasks": 1, "jobId": job, "workerId": format!("{:056x}", self.started + i as i64),
            "pid": pid, "numPendingTasks": 0, "numObjectRefsInScope": 0, "usedResources": {},
            "numInPlasma": 0, "numLocalObjects": 0, "usedObjectStoreMemory": "0", "taskQueueLength": 0,
            "objectRefs": [], "language": "PYTHON", "workerType": "WORKER", "objectsTotal": "0",
            "numOwnedObjects": "0", "numOwnedActors": "0", "numRunningTasks": "0",
            "numInFlightArgPinningRequests": "0", "numOfFailedArgPinningRequests": "0",
        });
        if is_busy {
            stats["numRunningTasks"] = json!("1");
            stats["usedResources"] = json!({"CPU": {"resourceSlots": [{"allocation": 1.0, "slot": "0"}]}});
        }
        dumps(&stats)
    }

    /// The raylet's command line with its real length.
    fn raylet_command(&self, session: &str) -> Vec<String> {
        let (ip, id) = (&self.ip, self.id);
        let site = "/opt/ray/lib/python3.11/site-packages/ray";
        let dir = format!("/tmp/ray/{session}");
        let common = format!(
            "--node-ip-address={ip} --node-manager-port=RAY_NODE_MANAGER_PORT_PLACEHOLDER \
             --object-store-name={dir}/sockets/plasma_store --raylet-name={dir}/sockets/raylet \
             --redis-address=10.128.0.1:6379 --metrics-agent-port=0 --logging-rotate-bytes=536870912 \
             --logging-rotate-backup-count=5 --runtime-env-agent-port=0 --gcs-address=10.128.0.1:6379 \
             --session-name={session} --temp-dir=/tmp/ray --webui=127.0.0.1:8265 --log-dir={dir}/logs"
        );
        let python =
            |script: &str| format!("/opt/ray/bin/python3 -u {site}/{script} --node-id={id} {common}");
        let resources: Vec<String> = self.resources.iter().map(|(n, t, _)| format!("{n},{t}")).collect();
        let labels: Vec<String> = self.labels.iter().map(|(k, v)| format!("\"{k}\": \"{v}\"")).collect();
        vec![
            format!("{site}/core/src/ray/raylet/raylet"),
            format!("--raylet_socket_name={dir}/sockets/raylet"),
            format!("--store_socket_name={dir}/sockets/plasma_store"),
            "--object_manager_port=0".into(),
            "--min_worker_port=10002".into(),
            "--max_worker_port=19999".into(),
            format!("--node_id={id}"),
            format!("--node_ip_address={ip}"),
            format!("--static_resource_list={}", resources.join(",")),
            format!("--python_worker_command={}", python("_private/workers/setup_worker.py")),
            format!("--java_worker_command={}", python("_private/workers/setup_worker.py")),
            "--cpp_worker_command=".into(),
            format!("--native_library_path={site}/cpp/lib"),
            format!("--session_dir={dir}"),
            format!("--resource_dir={dir}/runtime_resources"),
            format!("--labels={{{}}}", labels.join(", ")),
            format!("--stdout_filepath={dir}/logs/raylet.out"),
            format!("--stderr_filepath={dir}/logs/raylet.err"),
            format!("--dashboard_agent_command={}", python("dashboard/agent.py")),
            format!("--runtime_env_agent_command={}", python("_private/runtime_env/agent/main.py")),
        ]
    }
}

/// A process object. Ray overwrites the process title in place, so that the remaining arguments are empty strings.
fn process(title: &str, arguments: usize, pid: usize, started: i64) -> String {
    let mut command = format!("[\"{title}\"");
    command.push_str(&", \"\"".repeat(arguments.saturating_sub(1)));
    command.push(']');
    let fields = json!({
        "pid": pid,
        "createTime": started as f64 / 1000.0,
        "cpuPercent": 2.2,
        "cpuTimes": {"user": 4.2, "system": 0.68, "childrenUser": 0.0, "childrenSystem": 0.0},
        "memoryInfo": {"rss": 142_229_504.0, "vms": 1_773_084_672.0, "pfaults": null, "pageins": null},
        "memoryFullInfo": null, "numFds": 75, "gpuMemoryUsage": null, "gpuUtilization": null,
    });
    dumps_with(&fields, &[("cmdline", &command)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::cluster::node::SLICES;
    use crate::demo::random::Random;

    fn host() -> SimNode {
        SimNode::of_slice(&mut Random::new(1), 1_795_000_000_000, 7, &SLICES[0], "marin-v5e-16-ab12", 0)
    }

    #[test]
    fn a_node_has_the_size_of_a_real_one() {
        let mut node = host();
        node.idle_since = None;
        let session = "session_2026-11-21_02-46-44_540387_29";
        let summary = node.summary(session).len();
        assert!((12_500..17_000).contains(&summary), "{summary} bytes in /nodes?view=summary");
        let serving = [Serving { pid: 1000, job: Some(("01000000".to_owned(), "train_step".to_owned())) }];
        let detail = node.detail(session, &serving).len();
        assert!((15_000..34_000).contains(&detail), "{detail} bytes in /nodes/{{id}}");
        assert!(
            serde_json::from_str::<Value>(&node.detail(session, &serving)).unwrap()["workers"][0]["pid"]
                .is_u64()
        );
    }

    #[test]
    fn usage_has_the_units_of_ray() {
        assert_eq!(usage_line("CPU", 0.5, 2.0), "0.5/2.0 CPU");
        assert_eq!(usage_line("memory", 0.0, 23_564_369_408.0), "0B/21.95GiB memory");
    }
}
