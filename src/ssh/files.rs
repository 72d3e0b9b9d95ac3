//! The files of a connection: the directory of control sockets, our `known_hosts`, the private key's permissions.
//!
//! Files and directories are created private (the mode goes into the system call, so the umask can only remove bits);
//! the mode of an existing one is tightened when it is too open.

use super::TunnelSpec;
use super::error::{KeyFault, SshError};
use crate::model::Fix;
use rustix::process::getuid;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum length of a control socket's path in bytes: 104 with the final NUL on macOS, less the random suffix of 17
/// under which ssh first creates it. The sockets of forwards are at most six bytes longer and have no such suffix.
const SOCKET_PATH_MAX: usize = 86;

/// Creates the run directory and the `known_hosts` file of a connection.
pub(super) fn prepare(spec: &TunnelSpec) -> Result<(), SshError> {
    private_folder(&spec.run_dir).map_err(|e| cannot_use(&spec.run_dir, &e))?;
    if let Some(parent) = spec.known_hosts.parent().filter(|p| !p.exists()) {
        private_folder(parent).map_err(|e| cannot_use(parent, &e))?;
    }
    private_file(&spec.known_hosts).map_err(|e| cannot_use(&spec.known_hosts, &e))?;
    Ok(())
}

/// A path in the run directory that nothing else uses: `PID-NUMBER` and an extension, if any. It does not contain the
/// cluster's name, whose length therefore does not matter.
pub(super) fn own_path(run_dir: &Path, extension: &str) -> Result<PathBuf, SshError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}-{}{extension}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = run_dir.join(name);
    if path.as_os_str().len() > SOCKET_PATH_MAX {
        return Err(SshError::Local {
            what: format!(
                "path of the control socket is too long ({} bytes, limit {SOCKET_PATH_MAX}): {}",
                path.as_os_str().len(),
                path.display()
            ),
            hint: "set XDG_RUNTIME_DIR to a shorter directory that only you can access".into(),
        });
    }
    // A dead process with the same id may have left this file behind.
    remove(&path).map_err(|e| cannot_use(&path, &e))?;
    Ok(path)
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The sockets of a connection's forwards, by the head's port: `PID-NUMBER.PORT` next to the control socket. ssh leaves
/// such files behind when it ends; these are removed with this value.
#[derive(Debug, Default)]
pub(super) struct Sockets(BTreeMap<u16, PathBuf>);

impl Sockets {
    /// Chooses a path for the forward to each of these ports, and removes a stale file there.
    pub fn beside(control: &Path, ports: impl Iterator<Item = u16>) -> Result<Self, SshError> {
        let mut sockets = Self::default();
        for port in ports {
            let path = control.with_extension(port.to_string());
            remove(&path).map_err(|e| cannot_use(&path, &e))?;
            sockets.0.insert(port, path);
        }
        Ok(sockets)
    }

    /// Denies other users access. ssh applies `StreamLocalBindMask` of the user's configuration even if an argument
    /// sets another value (OpenSSH 9.2: the last one counts); until then the directory's mode keeps other users out.
    pub fn seal(&self) -> Result<(), SshError> {
        let private = || Permissions::from_mode(0o600);
        self.0
            .values()
            .try_for_each(|path| fs::set_permissions(path, private()).map_err(|e| cannot_use(path, &e)))
    }

    /// The socket that forwards to this port.
    pub fn to(&self, port: u16) -> Option<&Path> {
        self.0.get(&port).map(PathBuf::as_path)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in self.0.values() {
            if let Err(e) = remove(path) {
                tracing::warn!("cannot remove {}, retrying at the next start: {e}", path.display());
            }
        }
    }
}

/// Removes stale sockets of a killed console: control sockets without a listener, and the forwards' sockets of
/// closed connections. Returns the number of removed files; 0 when the directory does not exist.
pub fn clear_stale_sockets(run_dir: &Path) -> io::Result<usize> {
    let entries = match fs::read_dir(run_dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut paths: Vec<_> =
        entries.filter_map(Result::ok).map(|e| e.path()).filter(|p| is_our_socket(p)).collect();
    // A control socket sorts before its forwards' sockets, which are removed once it does not exist.
    paths.sort();
    let mut removed = 0;
    for path in paths {
        // A forward's own socket is not probed: a connection to it would be forwarded to the head.
        let is_stale = if path.extension().is_some() {
            !path.with_extension("").exists()
        } else {
            UnixStream::connect(&path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
        };
        if is_stale {
            remove(&path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether it is named like a control socket (`PID-NUMBER`) or a forward's socket next to one (`PID-NUMBER.PORT`).
fn is_our_socket(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let (name, port) = name.split_once('.').unwrap_or((name, "0"));
    let is_number = |word: &str| word.parse::<u32>().is_ok();
    name.split_once('-').is_some_and(|(pid, n)| is_number(pid) && is_number(n) && is_number(port))
}

/// Checks whether ssh would use this private key. ssh itself only warns about a missing one and then tries the user's
/// other keys; it checks the permissions of the user's own files only (`sshkey_perm_ok`).
pub(super) fn check_key(key: &Path) -> Result<(), KeyFault> {
    Err(match File::open(key).and_then(|f| f.metadata()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => KeyFault::Missing,
        Err(e) => KeyFault::Unreadable(e.kind().to_string()),
        Ok(found) if !found.is_file() => KeyFault::Unreadable("not a regular file".into()),
        Ok(found) => {
            let mode = found.mode() & 0o7777;
            if !(getuid().as_raw() == found.uid() && open_to_others(mode)) {
                return Ok(());
            }
            KeyFault::TooOpen(mode)
        }
    })
}

fn open_to_others(mode: u32) -> bool {
    mode & 0o077 != 0
}

fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // This also proves that we own it: only the owner may change the mode.
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if open_to_others(file.metadata()?.mode()) {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// The error for a file or directory that is needed and cannot be used.
pub(super) fn cannot_use(path: &Path, e: &io::Error) -> SshError {
    SshError::Local {
        what: format!("cannot use {}: {e}", path.display()),
        hint: Fix::command("it must be owned by you: check that", format!("ls -ld {}", path.display()))
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn folders_and_files_are_private_even_if_they_exist() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("a/b"), dir.path().join("known_hosts"));
        private_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        fs::write(&file, "x").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        private_file(&file).unwrap();
        assert_eq!((mode(&file), fs::read_to_string(&file).unwrap().as_str()), (0o600, "x"));
    }

    #[test]
    fn only_our_stale_sockets_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        drop(UnixListener::bind(at("4711-0")).unwrap());
        drop(UnixListener::bind(at("theirs")).unwrap());
        let live = UnixListener::bind(at("4711-1")).unwrap();
        // Forwards of a dead connection, of one whose ssh exited normally, and of the open one.
        let forwards = ["4711-0.8265", "4711-2.6379", "4711-1.8265"].map(&at);
        for forward in &forwards {
            drop(UnixListener::bind(forward).unwrap());
        }
        assert_eq!(clear_stale_sockets(dir.path()).unwrap(), 3);
        assert!(!at("4711-0").exists() && at("4711-1").exists() && at("theirs").exists());
        assert_eq!(forwards.map(|forward| forward.exists()), [false, false, true]);
        drop(live);
        assert_eq!(clear_stale_sockets(&at("missing")).unwrap(), 0);
    }

    #[test]
    fn a_key_must_exist_be_a_file_and_be_private() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        let fault = |key: &Path| check_key(key).err();
        assert_eq!(fault(&key), Some(KeyFault::Missing));
        assert!(matches!(fault(dir.path()), Some(KeyFault::Unreadable(_))));
        fs::write(&key, "").unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(fault(&key), Some(KeyFault::TooOpen(0o640)));
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fault(&key), None);
    }

    #[test]
    fn a_long_run_folder_is_refused_with_a_hint() {
        let long = PathBuf::from(format!("/{}", "x".repeat(90)));
        let Err(SshError::Local { what, hint }) = own_path(&long, "") else { panic!("it is too long") };
        assert!(what.contains("too long") && what.contains(" bytes, limit 86"), "{what}");
        assert!(hint.to_string().contains("XDG_RUNTIME_DIR"), "{hint}");
    }

    #[test]
    fn a_forwards_socket_fits_where_its_control_socket_does() {
        // Every system accepts 103 bytes and the final NUL (macOS, `sun_path`).
        let control = PathBuf::from(format!("/{}", "x".repeat(SOCKET_PATH_MAX - 1)));
        let sockets = Sockets::beside(&control, [u16::MAX].into_iter()).unwrap();
        assert!(sockets.to(u16::MAX).unwrap().as_os_str().len() <= 103);
    }

    #[test]
    fn a_forwards_socket_replaces_a_stale_one_and_is_removed_with_its_connection() {
        let dir = tempfile::tempdir().unwrap();
        let control = dir.path().join("4711-0");
        fs::write(control.with_extension("8265"), "left by a dead process").unwrap();
        let sockets = Sockets::beside(&control, [8265].into_iter()).unwrap();
        let path = sockets.to(8265).unwrap().to_owned();
        assert!(!path.exists());
        let listener = UnixListener::bind(&path).unwrap();
        drop((sockets, listener));
        assert!(!path.exists());
    }
}
