//! A real single-node Ray head, started with `ray start` in its own PID namespace. When the test ends, for whatever
//! reason, its end of the pipe closes, the namespace's first process exits, and the kernel kills the others.

use crate::ports::free_ports;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running head.
pub struct RealHead {
    /// Address of the dashboard.
    pub dashboard: String,
    /// Address of the GCS.
    pub gcs: String,
    /// The Python interpreter of this Ray.
    pub python: PathBuf,
    /// The namespace's first process, which runs until its standard input is closed.
    process: Child,
    _folder: tempfile::TempDir,
}

impl RealHead {
    /// Starts a head of this version, with token authentication, from the virtual environment that `tests/run` creates.
    pub fn start(version: &str, token: &str) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from);
        let bin = target.join(format!("ray-{version}/bin"));
        let ray = bin.join("ray");
        assert!(ray.exists(), "Ray {version} is not installed at {}: run tests/run", ray.display());
        // Ray's socket paths must stay short.
        let folder = tempfile::Builder::new().prefix("ray").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let [gcs, dashboard, agent] = free_ports();
        let script = format!(
            "'{}' start --head --block --port={gcs} --dashboard-port={dashboard} \
             --dashboard-agent-listen-port={agent} --num-cpus=2 --object-store-memory=100000000 \
             --temp-dir='{}' --disable-usage-stats >'{}/ray.out' 2>&1 & cat >/dev/null",
            ray.display(),
            folder.path().display(),
            folder.path().display(),
        );
        let process = Command::new("unshare")
            .args(["--map-root-user", "--pid", "--fork", "--mount-proc", "sh", "-c", &script])
            .env("RAY_AUTH_MODE", "token")
            // Workers that Ray would start with the first job have no job's environment, so no job would use them.
            .env("RAY_prestart_worker_first_driver", "0")
            // py-spy is in the same directory as ray.
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("RAY_AUTH_TOKEN", token)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let local = |port: u16| format!("127.0.0.1:{port}");
        Self {
            dashboard: local(dashboard),
            gcs: local(gcs),
            python: bin.join("python"),
            process,
            _folder: folder,
        }
    }
}

impl Drop for RealHead {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }
}
