//! The directory of a simulated fleet with all files that a console reads and writes. It is removed at the end.

use super::super::entropy;
use super::super::google::Google;
use super::super::ssh::Keys;
use crate::model::Secret;
use serde_json::json;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Maximum length of the base path in bytes, because the path of a control socket below it may have 86 bytes.
const MAX_BASE_LENGTH: usize = 24;

/// Marin's cluster files, as they are in `infra/`.
const INFRA: [(&str, &str); 14] = {
    macro_rules! file {
        ($name:literal) => {
            ($name, include_str!(concat!("../../../infra/", $name)))
        };
    }
    [
        file!("marin-big-run.yaml"),
        file!("marin-eu-west4-a.yaml"),
        file!("marin-eu-west4-vllm.yaml"),
        file!("marin-eu-west4.yaml"),
        file!("marin-us-central1.yaml"),
        file!("marin-us-central2-staging.yaml"),
        file!("marin-us-central2-vllm.yaml"),
        file!("marin-us-central2.yaml"),
        file!("marin-us-east1-d-vllm.yaml"),
        file!("marin-us-east1.yaml"),
        file!("marin-us-east5-a.yaml"),
        file!("marin-us-east5-b-vllm.yaml"),
        file!("marin-us-east5.yaml"),
        file!("marin-us-west4.yaml"),
    ]
};

/// Name and text of the file of one of Marin's clusters, by its `cluster_name`.
pub(super) fn cluster_file(name: &str) -> Option<(&'static str, &'static str)> {
    let named = |text: &str| text.lines().any(|l| l.strip_prefix("cluster_name: ") == Some(name));
    INFRA.into_iter().find(|(_, text)| named(text))
}

/// The text of the cluster file of a cluster of the fleet.
pub(super) fn text(name: &str) -> String {
    cluster_file(name).map_or_else(|| unknown(name), |(_, text)| text.to_owned())
}

/// A directory below `/tmp` that only its owner can access. Dropping it removes it with its contents.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Locked while the fleet runs: an unlocked directory belongs to a fleet that was killed.
    _lock: File,
}

/// The SSH address of a cluster.
pub(super) struct ClusterAddress {
    pub cluster: String,
    /// Its head's SSH port.
    pub port: u16,
    /// Its head's address, if Google does not return it.
    pub address: Option<&'static str>,
}

/// Prefix of the names of fleet directories.
const PREFIX: &str = "mt-demo-";

impl Folder {
    /// Creates a new directory.
    pub fn new() -> io::Result<Self> {
        let base = Some(std::env::temp_dir()).filter(|dir| dir.as_os_str().len() <= MAX_BASE_LENGTH);
        let base = base.unwrap_or_else(|| "/tmp".into());
        sweep(&base);
        let id = u32::from_ne_bytes(entropy::bytes()?);
        // It has another name until it is locked, because another fleet may be removing unlocked directories.
        let unlocked = base.join(format!("mt-new-{id:08x}"));
        DirBuilder::new().mode(0o700).create(&unlocked)?;
        let lock = File::create_new(unlocked.join("lock"))?;
        lock.lock()?;
        let path = base.join(format!("{PREFIX}{id:08x}"));
        fs::rename(&unlocked, &path)?;
        let folder = Self { path, _lock: lock };
        for part in ["infra", "config", "state", "run", "cache/marin-tui/tokens/clusters"] {
            DirBuilder::new().mode(0o700).recursive(true).create(folder.path.join(part))?;
        }
        // The user's own ssh configuration does not apply to these heads.
        folder.write("ssh_config", "")?;
        Ok(folder)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The settings file (`--config`).
    pub fn settings(&self) -> PathBuf {
        self.path.join("config.yaml")
    }

    /// The cluster files (`--infra`).
    pub fn infra(&self) -> PathBuf {
        self.path.join("infra")
    }

    /// The socket of the simulated `ray` command.
    pub(super) fn socket(&self) -> PathBuf {
        self.path.join("ray.sock")
    }

    /// The private key for logins to all heads.
    pub fn key(&self) -> PathBuf {
        self.path.join("key")
    }

    /// The environment variables with which a console uses only this directory. An empty value unsets the user's
    /// variable.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        let at = |name: &str| self.path.join(name).display().to_string();
        let mut env: Vec<_> =
            ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"].map(|name| (name, String::new())).into();
        env.extend([
            ("XDG_CONFIG_HOME", at("config")),
            ("XDG_STATE_HOME", at("state")),
            ("XDG_CACHE_HOME", at("cache")),
            ("XDG_RUNTIME_DIR", at("run")),
        ]);
        env
    }

    /// Writes a cluster's token to the file in which the console stores its own.
    pub fn write_token(&self, cluster: &str, token: &Secret) -> io::Result<()> {
        self.write(&format!("cache/marin-tui/tokens/clusters/{cluster}"), &format!("{}\n", token.expose()))
    }

    /// Writes the key, the cluster files, the Google login and the settings of a fleet. `ray` is the command line that
    /// sends the arguments of `ray` to the socket.
    pub(super) fn write_files(
        &self,
        keys: &Keys,
        clusters: &[ClusterAddress],
        google: &Google,
        ray: &[String],
    ) -> io::Result<()> {
        keys.write_client(&self.key())?;
        let key = self.key();
        let mut overrides = serde_json::Map::new();
        for ClusterAddress { cluster: name, port, address } in clusters {
            let mut login = json!({"port": port, "user": "ray", "key": key});
            if let Some(address) = address {
                login["address"] = json!(address);
            }
            overrides.insert(name.clone(), login);
            match cluster_file(name) {
                Some((file, text)) => self.write(&format!("infra/{file}"), text)?,
                None => self.write(&format!("infra/{name}.yaml"), &unknown(name))?,
            }
        }
        self.write("ray", &self.ray(ray))?;
        let settings = json!({"clusters": overrides, "ssh_config": self.path.join("ssh_config"),
            // The cluster files are those of real clusters: a real `ray down` would terminate them.
            "ray": ["/bin/sh", self.path.join("ray")],
            // No real service receives requests about these clusters, and the user's own login is not used.
            "google_endpoint": google.url(),
            "google_credentials": google.write_adc(&self.path)?});
        // JSON is YAML.
        self.write("config.yaml", &format!("{settings:#}\n"))
    }

    /// The script that replaces the ray command.
    fn ray(&self, command: &[String]) -> String {
        if command.is_empty() {
            return NO_RAY.into();
        }
        let socket = self.socket().display().to_string();
        let quoted = command.iter().chain([&socket]).map(|w| format!("'{}'", w.replace('\'', r"'\''")));
        format!("exec {} \"$@\"\n", quoted.collect::<Vec<_>>().join(" "))
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.path.join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        file?.write_all(text.as_bytes())
    }
}

/// The script that replaces the ray command when it is not simulated.
const NO_RAY: &str =
    "echo 'demo: the cluster files name real clusters; no ray command was run' >&2\nexit 1\n";

/// Removes the directories of fleets that were killed or crashed.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX)) {
        // Directories of other users cannot be opened, and directories of running fleets cannot be locked.
        let lock = File::open(entry.path().join("lock"));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A file may still be written while the directory is removed; a second pass removes that too.
        for _ in 0..2 {
            if fs::remove_dir_all(&self.path).is_ok() {
                return;
            }
        }
    }
}

/// A cluster file for a cluster that is not Marin's.
fn unknown(name: &str) -> String {
    format!("cluster_name: {name}\nprovider: {{type: local, head_ip: 127.0.0.1}}\nauth: {{ssh_user: ray}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn all_files_are_private_and_removed_with_the_folder() {
        let folder = Folder::new().unwrap();
        let keys = Keys::new().unwrap();
        let google = Google::start().await.unwrap();
        let address_of =
            |cluster: &str, port| ClusterAddress { cluster: cluster.into(), port, address: None };
        folder
            .write_files(&keys, &[address_of("marin-us-east1-d", 1), address_of("other", 2)], &google, &[])
            .unwrap();
        folder.write_token("other", &Secret::new("t")).unwrap();
        let path = folder.path().to_owned();
        let tokens = path.join("cache/marin-tui/tokens/clusters");
        for (file, mode) in [
            (&path, 0o700),
            (&folder.key(), 0o600),
            (&path.join("adc.json"), 0o600),
            (&tokens.join("other"), 0o600),
        ] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, mode, "{}", file.display());
        }
        assert!(
            folder.infra().join("marin-us-east1.yaml").exists(),
            "its file name differs from the cluster name"
        );
        assert!(folder.infra().join("other.yaml").exists());
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn folders_of_killed_fleets_are_removed_and_those_of_running_ones_kept() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(format!("{PREFIX}{name}"));
        for name in ["killed", "living", "young"] {
            fs::create_dir(at(name)).unwrap();
        }
        File::create(at("killed").join("lock")).unwrap();
        let living = File::create(at("living").join("lock")).unwrap();
        living.lock().unwrap();
        sweep(base.path());
        assert_eq!(["killed", "living", "young"].map(|name| at(name).exists()), [false, true, true]);
    }
}
