//! A real Ray head of one node, started with `ray start` in a pid namespace of its own: when the test ends, however
//! it ends, its end of the pipe closes, the namespace's first process leaves, and the kernel takes the rest along.

use crate::ports::free_ports;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running head.
pub struct RealHead {
    /// Where the dashboard listens.
    pub dashboard: String,
    /// Where the GCS listens.
    pub gcs: String,
    /// The Python that Ray is installed in.
    pub python: PathBuf,
    /// Its first process; its standard input holds the head alive.
    process: Child,
    _folder: tempfile::TempDir,
}

impl RealHead {
    /// Starts a head of that version, with token authentication, from the virtual environment that `tests/run` makes.
    pub fn start(version: &str, token: &str) -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from);
        let bin = target.join(format!("ray-{version}/bin"));
        let ray = bin.join("ray");
        assert!(ray.exists(), "Ray {version} is not installed at {}: run tests/run", ray.display());
        // Ray's socket paths must stay short.
        let folder = tempfile::Builder::new().prefix("ray").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let [gcs, dashboard, client, agent] = free_ports();
        let script = format!(
            "'{}' start --head --block --port={gcs} --dashboard-port={dashboard} --ray-client-server-port={client} \
             --dashboard-agent-listen-port={agent} --num-cpus=2 --object-store-memory=100000000 \
             --temp-dir='{}' --disable-usage-stats >'{}/ray.out' 2>&1 & cat >/dev/null",
            ray.display(),
            folder.path().display(),
            folder.path().display(),
        );
        let process = Command::new("unshare")
            .args(["--map-root-user", "--pid", "--fork", "--mount-proc", "sh", "-c", &script])
            .env("RAY_AUTH_MODE", "token")
            // py-spy lies beside ray.
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
