//! A simulated job, and its formats in the Jobs API and the GCS key-value store.

use super::super::json::dumps;
use super::super::random::Random;
use super::log::Log;
use crate::model::{JobStatus, NodeId};
use bytes::Bytes;
use serde_json::{Value, json};

/// The head's address. Drivers run there, unless their entrypoints request what another node has.
pub(in crate::demo) const HEAD_IP: &str = "10.128.0.1";
/// The process id of every driver.
pub(in crate::demo) const DRIVER_PID: u32 = 867;

/// The class of the actors that run the entrypoints of submissions.
pub(in crate::demo) const SUPERVISOR: &str = "JobSupervisor";
/// The job id of the dashboard's own driver, which starts these actors. No job in the job table has it.
pub(in crate::demo) const DASHBOARD: &str = "00000001";
/// Ray's error class for a job whose supervisor died.
pub(in crate::demo) const SUPERVISOR_DIED: &str = "JOB_SUPERVISOR_ACTOR_DIED";

const OWNERS: [&str; 8] = ["ahmed", "dlwh", "helw", "kaiyue", "rav", "rohith", "tonyhlee", "will"];
const WORK: [&str; 6] = ["train-8b", "tokenize-fineweb", "eval-mmlu", "sweep-lr", "dedup-stack", "sft-olmo"];
const PENDING_MESSAGE: &str = "Job has not started yet. It may be waiting for resources (CPUs, GPUs, memory, custom resources) to become available. It may be waiting for the runtime environment to be set up.";

/// The resources that an entrypoint itself requests, apart from its tasks.
#[derive(Clone, Debug, Default)]
pub(in crate::demo) struct RequestedResources {
    pub cpus: f64,
    pub gpus: f64,
    /// Bytes of memory.
    pub memory: i64,
    /// Other resources by name.
    pub resources: Option<Value>,
    /// Labels that the node must have, with their values.
    pub labels: Vec<(String, String)>,
}

impl RequestedResources {
    /// All resources by name, without those of which nothing is requested.
    pub fn shape(&self) -> Vec<(String, f64)> {
        let own = [("CPU", self.cpus), ("GPU", self.gpus), ("memory", self.memory as f64)];
        let own = own.into_iter().map(|(name, n)| (name.to_owned(), n));
        let others = self.resources.iter().filter_map(Value::as_object).flatten();
        let others = others.filter_map(|(name, n)| Some((name.clone(), n.as_f64()?)));
        own.chain(others).filter(|(_, n)| *n > 0.0).collect()
    }
}

/// A submission, or a driver started manually.
#[derive(Clone, Debug)]
pub(in crate::demo) struct SimJob {
    /// Submission id; `None` for a driver.
    pub submission: Option<String>,
    /// The driver's job id, once it called `ray.init`.
    pub driver: Option<String>,
    /// Ray's status.
    pub status: JobStatus,
    /// The shell command.
    pub entrypoint: String,
    /// Ray's message.
    pub message: Option<String>,
    /// Ray's error class.
    pub error: Option<&'static str>,
    /// When it was submitted, in milliseconds since the epoch.
    pub started: i64,
    pub ended: Option<i64>,
    /// The submitter's metadata.
    pub metadata: Option<Value>,
    /// `runtime_env` as Ray returns it, including secrets.
    pub runtime_env: Option<Value>,
    /// The resources that the entrypoint itself requests.
    pub requested: RequestedResources,
    /// When a requested stop takes effect, in milliseconds since the epoch.
    pub stopping: Option<i64>,
    /// Whether it waits for a node that has what its entrypoint requests, on which its driver then starts.
    pub queued: bool,
    /// When its driver starts, in milliseconds since the epoch; `None` until it has a node, and for a job that only the
    /// simulated activity starts.
    pub starting: Option<i64>,
    /// Whether it was stopped before its driver had a node.
    pub never_started: bool,
    /// The node of its driver; `None` for the head.
    pub driver_node: Option<NodeId>,
    /// The address of that node.
    pub driver_ip: Option<String>,
    pub log: Log,
    /// The JSON in `/api/jobs/`, cached until the next change.
    pub written: Option<String>,
    /// The JSON in the key-value store, cached until the next change.
    pub in_store: Option<Bytes>,
}

impl SimJob {
    /// Job number `n` of a cluster, with the given status.
    pub fn invent(random: &mut Random, n: usize, started: i64, status: JobStatus, log: Log) -> Self {
        let (owner, work) = (random.pick(&OWNERS), random.pick(&WORK));
        let submission = if n.is_multiple_of(3) {
            let id: String = (0..16)
                .map(|_| char::from(random.pick(b"abcdefghijkmnpqrstuvwxyzABCDEFGH23456789")))
                .collect();
            format!("raysubmit_{id}")
        } else {
            format!("ray-run-{owner}-{work}-{n}")
        };
        let runs = !matches!(status, JobStatus::Pending);
        let mut job = Self {
            submission: Some(submission),
            driver: (runs && n % 4 != 1).then(|| format!("{:02x}{:02x}0000", n % 256, n / 256 % 256)),
            status,
            entrypoint: format!(
                "python experiments/{work}.py --config_path gs://marin-us-central2/configs/{work}-{n}.yaml --force_run_failed true"
            ),
            message: None,
            error: None,
            started,
            ended: None,
            metadata: (n.is_multiple_of(2)).then(|| json!({"owner": owner, "experiment": work})),
            runtime_env: Some(json!({
                "working_dir": format!("gcs://_ray_pkg_{:016x}.zip", random.next()),
                "env_vars": {
                    "WANDB_API_KEY": format!("{:040x}", random.next()), "HF_TOKEN": "hf_simulated",
                    "TPU_CI": "true", "MARIN_PREFIX": "gs://marin-us-central2", "GIT_COMMIT": format!("{:040x}", random.next()),
                    "WANDB_ENTITY": "marin-community", "WANDB_PROJECT": "marin", "JAX_TRACEBACK_FILTERING": "off",
                },
                "pip": {"packages": ["jax[tpu]==0.6.2", "levanter>=1.2", "haliax"], "pip_check": false},
                "config": {"setup_timeout_seconds": 1800},
            })),
            requested: RequestedResources {
                cpus: f64::from(u8::from(n.is_multiple_of(5))),
                ..RequestedResources::default()
            },
            stopping: None,
            queued: false,
            starting: None,
            never_started: false,
            driver_node: None,
            driver_ip: None,
            log,
            written: None,
            in_store: None,
        };
        let lasted = 60_000 + random.below(4 * 3_600_000) as i64;
        job.turn(status, started + lasted);
        job
    }

    /// Job number `n` of a plain `ray job submit`: with an id from Ray and without an owner. It runs on the head alone.
    pub fn unowned(n: usize, started: i64, log: Log) -> Self {
        let mut job =
            Self::invent(&mut Random::new(n as u64), 243 + 12 * n, started, JobStatus::Running, log);
        (job.metadata, job.ended) = (Some(json!({})), None);
        job.requested = RequestedResources::default();
        job
    }

    /// A driver that was started manually: it has no log and cannot be stopped.
    pub fn by_hand(n: usize, started: i64, now: i64) -> Self {
        let ended = (n.is_multiple_of(2)).then_some(now.min(started + 600_000));
        Self {
            submission: None,
            driver: Some(format!("{:02x}{:02x}0000", n % 256, n / 256 % 256)),
            status: if ended.is_some() { JobStatus::Succeeded } else { JobStatus::Running },
            entrypoint: "python -c \"import ray; ray.init(address='auto')\"".into(),
            message: None,
            error: None,
            started,
            ended,
            metadata: Some(json!({})),
            runtime_env: Some(json!({})),
            requested: RequestedResources::default(),
            stopping: None,
            queued: false,
            starting: None,
            never_started: false,
            driver_node: None,
            driver_ip: None,
            log: Log::none(),
            written: None,
            in_store: None,
        }
    }

    /// Sets the job's status, with Ray's message for it.
    pub fn turn(&mut self, status: JobStatus, at: i64) {
        let has_no_node = self.status == JobStatus::Pending && self.starting.is_none();
        self.never_started = status == JobStatus::Stopped && has_no_node;
        self.status = status;
        self.stopping = None;
        self.starting = None;
        self.error = None;
        let message = match status {
            JobStatus::Pending => PENDING_MESSAGE.into(),
            JobStatus::Running => "Job is currently running.".into(),
            JobStatus::Succeeded => "Job finished successfully.".into(),
            JobStatus::Stopped => "Job was intentionally stopped.".into(),
            JobStatus::Failed | JobStatus::Unknown => {
                self.error = Some("JOB_ENTRYPOINT_COMMAND_ERROR");
                "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\nTraceback (most recent call last):\n  File \"train.py\", line 88, in main\njax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: out of memory in memory space hbm\n".into()
            }
        };
        self.message = Some(message);
        self.queued &= status == JobStatus::Pending;
        if status.is_ended() {
            self.ended = Some(at);
            self.log.close(at);
        }
        (self.written, self.in_store) = (None, None);
    }

    /// It fails because the node of its driver has died.
    pub fn die_with_node(&mut self, at: i64) {
        self.turn(JobStatus::Failed, at);
        let ip = self.driver_ip();
        self.message = Some(format!(
            "Job supervisor actor died: The actor died unexpectedly before finishing this task.\n\tclass_name: JobSupervisor\nThe actor died because its node has died.\n\tthe actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats ({ip})."
        ));
        self.error = Some(SUPERVISOR_DIED);
    }

    /// Makes its driver run on a node with this address.
    pub fn place(&mut self, node: NodeId, ip: &str) {
        (self.driver_node, self.driver_ip) = (Some(node), Some(ip.to_owned()));
        (self.written, self.in_store) = (None, None);
    }

    /// The address of its driver's node.
    pub fn driver_ip(&self) -> &str {
        self.driver_ip.as_deref().unwrap_or(HEAD_IP)
    }

    /// Whether it waits for a node, and is not being stopped.
    pub const fn is_queued(&self) -> bool {
        self.queued && self.stopping.is_none()
    }

    /// The file with the name of its log on a node. Ray writes a line into it on the head before the driver starts.
    pub fn log_on(&self, node: NodeId) -> Log {
        match self.driver_node {
            Some(driver) if driver != node => Log::Written(b"Runtime env is setting up.\n".to_vec()),
            Some(_) | None => self.log.clone(),
        }
    }

    /// The URI of its working directory's package.
    pub fn package(&self) -> Option<&str> {
        self.runtime_env.as_ref()?["working_dir"].as_str()
    }

    /// The driver's exit code, if there is one.
    pub fn exit_code(&self) -> Option<i32> {
        match self.status {
            JobStatus::Succeeded if self.submission.is_some() => Some(0),
            JobStatus::Failed => Some(1),
            _ => None,
        }
    }

    /// Whether its record was deleted, so that it has no id.
    pub fn is_forgotten(&self) -> bool {
        self.submission.is_none() && self.driver.is_none()
    }

    /// Whether it is a submission whose entrypoint has run, or was about to when it was stopped.
    pub fn has_started(&self) -> bool {
        self.submission.is_some() && self.status != JobStatus::Pending && !self.never_started
    }

    /// What its entrypoint holds on the node of its driver: from the moment at which it has that node until it ends.
    pub fn held(&self) -> Vec<(String, f64)> {
        let has_node =
            self.status == JobStatus::Running || self.status == JobStatus::Pending && self.starting.is_some();
        if self.submission.is_some() && has_node { self.requested.shape() } else { Vec::new() }
    }

    /// Ray's name for the status.
    pub fn status_label(&self) -> String {
        self.status.label().to_uppercase()
    }

    /// The JSON in `/api/jobs/` and `/api/jobs/{id}`, cached until the job changes.
    pub fn text(&mut self, head: NodeId) -> &str {
        if self.written.is_none() {
            self.written = Some(dumps(&self.details(head)));
        }
        self.written.as_deref().unwrap_or_default()
    }

    fn details(&self, head: NodeId) -> Value {
        let by_hand = self.submission.is_none();
        let driver_info = self.driver.as_ref().filter(|_| by_hand || !self.status.is_ended());
        json!({
            "type": if by_hand { "DRIVER" } else { "SUBMISSION" },
            "job_id": self.driver,
            "submission_id": self.submission,
            "driver_info": driver_info.map(|id| json!({"id": id, "node_ip_address": self.driver_ip(), "pid": DRIVER_PID.to_string()})),
            "status": self.status_label(),
            "entrypoint": self.entrypoint,
            "message": self.message,
            "error_type": self.error,
            "start_time": self.started,
            // It is 0 for a running driver and null for a submission.
            "end_time": self.ended.or(by_hand.then_some(0)),
            "metadata": self.metadata,
            "runtime_env": self.runtime_env,
            "driver_agent_http_address": self.has_started().then(|| format!("http://{}:52365", self.driver_ip())),
            "driver_node_id": self.has_started().then(|| self.driver_node.unwrap_or(head).to_string()),
            "driver_exit_code": self.exit_code(),
        })
    }

    /// The value under `_ray_internal_job_info_<id>` in the GCS, cached until the job changes.
    pub fn stored(&mut self, head: NodeId) -> Bytes {
        if self.in_store.is_none() {
            self.in_store = Some(self.info(head).into());
        }
        self.in_store.clone().unwrap_or_default()
    }

    fn info(&self, head: NodeId) -> String {
        let mut info = json!({
            "status": self.status_label(),
            "entrypoint": self.entrypoint,
            "message": self.message,
            "error_type": self.error,
            "start_time": self.started,
            "end_time": self.ended,
            "metadata": self.metadata,
            "entrypoint_num_cpus": self.requested.cpus,
            "entrypoint_num_gpus": self.requested.gpus,
            "entrypoint_memory": self.requested.memory,
            "entrypoint_resources": self.requested.resources,
            "driver_agent_http_address": self.has_started().then(|| format!("http://{}:52365", self.driver_ip())),
            "driver_node_id": self.has_started().then(|| self.driver_node.unwrap_or(head).to_string()),
            "driver_exit_code": self.exit_code(),
        });
        if let Some(env) = &self.runtime_env {
            info["runtime_env_json"] = json!(dumps(env));
        }
        dumps(&info)
    }
}
