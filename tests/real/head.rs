//! A real single-node Ray head with token auth, on free ports, under a temporary directory. Its processes are killed
//! when it is dropped.

use crate::ports::free_ports;
use marin_tui::model::{AutoscalerVersion, Secret};
use marin_tui::ray::{Client, Endpoint};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The token of every test head.
pub const TOKEN: &str = "sesame-for-tests-only";

/// A running head.
pub struct Head {
    dir: tempfile::TempDir,
    dashboard: u16,
    gcs: u16,
    version: String,
    venv: PathBuf,
    drivers: Vec<Child>,
}

/// The virtual environment of one Ray version: `MARIN_TUI_RAY_<VERSION>`, or `target/ray-<VERSION>`.
pub fn venv(version: &str) -> PathBuf {
    let name = format!("MARIN_TUI_RAY_{}", version.replace('.', "_"));
    let path = std::env::var_os(&name).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(format!("ray-{version}")),
        PathBuf::from,
    );
    assert!(
        path.join("bin/ray").exists(),
        "no Ray {version}: {} has no bin/ray; tests/run installs it, or set {name}",
        path.display()
    );
    path
}

impl Head {
    /// Starts a head with this version of the autoscaler (without node types to launch) and waits until its dashboard
    /// answers. Tries twice, in case another program has taken a port in the meantime.
    pub async fn start(version: &str, autoscaler: AutoscalerVersion) -> Self {
        let head = Self::launch(version, autoscaler).or_else(|log| {
            eprintln!("{log}");
            Self::launch(version, autoscaler)
        });
        let head = head.unwrap_or_else(|log| panic!("ray start failed twice: {log}"));
        let client = head.client();
        head.until("the dashboard answers", async || client.version().await.ok()).await;
        head
    }

    /// Runs `ray start`. Returns its log if it fails.
    fn launch(version: &str, autoscaler: AutoscalerVersion) -> Result<Self, String> {
        let venv = venv(version);
        // Short: Ray puts sockets below it, whose paths are limited to 107 bytes.
        let dir = tempfile::Builder::new().prefix("ray").rand_bytes(4).tempdir_in("/tmp").unwrap();
        let [gcs, dashboard, agent, grpc, manager, objects, metrics, env] = free_ports();
        // Jobs must find this Ray's Python.
        let path = format!("{}:{}", venv.join("bin").display(), std::env::var("PATH").unwrap());
        let log = fs::File::create(dir.path().join("start.log")).unwrap();
        let status = Command::new(venv.join("bin/ray"))
            .args(["start", "--head", "--num-cpus=2", "--disable-usage-stats"])
            .args(["--object-store-memory=80000000", "--node-ip-address=127.0.0.1"])
            .arg(format!("--temp-dir={}", dir.path().display()))
            .args([
                format!("--port={gcs}"),
                format!("--dashboard-port={dashboard}"),
                format!("--dashboard-agent-listen-port={agent}"),
                format!("--dashboard-agent-grpc-port={grpc}"),
                format!("--node-manager-port={manager}"),
                format!("--object-manager-port={objects}"),
                format!("--metrics-export-port={metrics}"),
                format!("--runtime-env-agent-port={env}"),
            ])
            .env("PATH", path)
            .env("RAY_enable_autoscaler_v2", if autoscaler == AutoscalerVersion::V2 { "1" } else { "0" })
            // Workers that Ray would start with the first job have no job's environment, so no job would use them.
            .env("RAY_prestart_worker_first_driver", "0")
            .env("RAY_AUTH_MODE", "token")
            .env("RAY_AUTH_TOKEN", TOKEN)
            .env("RAY_TMPDIR", dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .status()
            .unwrap();
        let head = Self { dir, dashboard, gcs, version: version.to_owned(), venv, drivers: Vec::new() };
        if status.success() { Ok(head) } else { Err(head.start_log()) }
    }

    fn start_log(&self) -> String {
        fs::read_to_string(self.dir.path().join("start.log")).unwrap_or_default()
    }

    /// The endpoint of the head.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::Direct {
            dashboard: format!("http://127.0.0.1:{}", self.dashboard),
            gcs: Some(format!("127.0.0.1:{}", self.gcs)),
        }
    }

    /// A client with the right token and both channels.
    pub fn client(&self) -> Client {
        Client::new(self.endpoint(), Some(Secret::new(TOKEN))).unwrap()
    }

    /// A client that has only the dashboard.
    pub fn dashboard_client(&self) -> Client {
        let endpoint =
            Endpoint::Direct { dashboard: format!("http://127.0.0.1:{}", self.dashboard), gcs: None };
        Client::new(endpoint, Some(Secret::new(TOKEN))).unwrap()
    }

    /// The running Ray version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The session's log directory.
    pub fn logs(&self) -> PathBuf {
        self.dir.path().join("session_latest/logs")
    }

    /// Submits a job by a plain POST, as `ray job submit` does.
    pub async fn submit(&self, job: serde_json::Value) {
        let url = format!("http://127.0.0.1:{}/api/jobs/", self.dashboard);
        let answer = http().post(url).bearer_auth(TOKEN).body(job.to_string()).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{status}: {}", answer.text().await.unwrap());
    }

    /// Uploads a package by a plain PUT, as Ray's own client does.
    pub async fn upload(&self, name: &str, body: Vec<u8>) {
        let url = format!("http://127.0.0.1:{}/api/packages/gcs/{name}", self.dashboard);
        let answer = http().put(url).bearer_auth(TOKEN).body(body).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }

    /// Starts a driver manually: Python that connects with `ray.init` and then runs `code`.
    pub fn drive(&mut self, code: &str) {
        let script = format!("import ray\nray.init(address='127.0.0.1:{}')\n{code}", self.gcs);
        let log = fs::File::create(self.dir.path().join("driver.log")).unwrap();
        let mut python = Command::new(self.venv.join("bin/python"));
        python.args(["-c", &script]).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        python.env("RAY_AUTH_MODE", "token").env("RAY_AUTH_TOKEN", TOKEN).env("RAY_TMPDIR", self.dir.path());
        self.drivers.push(python.spawn().unwrap());
    }

    /// Polls until a value is available, for at most 90 s.
    pub async fn until<T>(&self, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            assert!(Instant::now() < deadline, "Ray {}: timed out waiting until {what}", self.version);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// HTTP client for requests that the console itself never makes.
fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

impl Drop for Head {
    /// Kills only the processes of this head's directory: `ray stop` would end every Ray on the machine.
    fn drop(&mut self) {
        let folder = self.dir.path().to_string_lossy().into_owned();
        for _ in 0..3 {
            for pid in processes_of(&folder) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
            }
        }
        for driver in &mut self.drivers {
            let _ = driver.wait();
        }
    }
}

/// Processes that name the directory in their command line or environment.
fn processes_of(folder: &str) -> Vec<u32> {
    let own = std::process::id();
    let mentions = |pid: u32, file: &str| {
        let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        text.windows(folder.len()).any(|w| w == folder.as_bytes())
    };
    let all = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    all.filter(|pid| *pid != own && (mentions(*pid, "cmdline") || mentions(*pid, "environ"))).collect()
}
