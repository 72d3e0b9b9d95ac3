//! The files of a connection: the folder of control sockets, our `known_hosts`, the private key's permissions.
//!
//! Everything is created private from the first moment (the mode goes into the system call, so the umask can only
//! take away), and tightened when it was found loose.

use super::TunnelSpec;
use super::error::{KeyFault, SshError};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that a control socket's path may have: 104 with the final NUL on macOS, less the random suffix of 17
/// under which ssh first creates it.
const SOCKET_PATH_MAX: usize = 86;

/// Makes the folder and the `known_hosts` file of a connection.
pub(super) fn prepare(spec: &TunnelSpec) -> Result<(), SshError> {
    private_folder(&spec.run_dir).map_err(|e| cannot_use(&spec.run_dir, &e))?;
    if let Some(parent) = spec.known_hosts.parent().filter(|p| !p.exists()) {
        private_folder(parent).map_err(|e| cannot_use(parent, &e))?;
    }
    private_file(&spec.known_hosts).map_err(|e| cannot_use(&spec.known_hosts, &e))?;
    Ok(())
}

/// A path in the run folder that nobody else uses: `PID-NUMBER` and an extension, if any.
pub(super) fn own_path(run_dir: &Path, extension: &str) -> Result<PathBuf, SshError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}-{}{extension}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = run_dir.join(name);
    if path.as_os_str().len() > SOCKET_PATH_MAX {
        return Err(SshError::Local {
            what: format!("the path of the control socket is too long: {}", path.display()),
            mend: "choose a shorter folder for it, e.g. with XDG_RUNTIME_DIR".into(),
        });
    }
    // Left by a dead process that had our id.
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(cannot_use(&path, &e)),
        _ => Ok(path),
    }
}

/// Removes what a killed console left in its folder of control sockets: sockets that nobody listens on. Returns
/// how many. A folder that does not exist has none.
pub fn clear_stale_sockets(run_dir: &Path) -> io::Result<usize> {
    let entries = match fs::read_dir(run_dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut removed = 0;
    for path in entries.filter_map(Result::ok).map(|e| e.path()).filter(|p| is_our_socket(p)) {
        let deserted =
            UnixStream::connect(&path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
        if deserted {
            fs::remove_file(&path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn is_our_socket(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    name.split_once('-').is_some_and(|(pid, n)| pid.parse::<u32>().is_ok() && n.parse::<u32>().is_ok())
}

/// Whether ssh would use this private key. ssh itself only warns about a missing one and then tries the user's
/// other keys; its permission rule holds for the owner's own files only (`sshkey_perm_ok`).
pub(super) fn check_key(key: &Path, run_dir: &Path) -> Result<(), SshError> {
    let fault = match File::open(key).and_then(|f| f.metadata()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => KeyFault::Missing,
        Err(e) => KeyFault::Unreadable(e.kind().to_string()),
        Ok(found) if !found.is_file() => KeyFault::Unreadable("it is not a file".into()),
        Ok(found) => {
            let mode = found.mode() & 0o7777;
            // The run folder is ours, so its owner is us.
            let ours = fs::metadata(run_dir).is_ok_and(|dir| dir.uid() == found.uid());
            if !(ours && open_to_others(mode)) {
                return Ok(());
            }
            KeyFault::TooOpen(mode)
        }
    };
    Err(SshError::KeyFile { path: key.into(), fault })
}

fn open_to_others(mode: u32) -> bool {
    mode & 0o077 != 0
}

fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // Also proves that it is ours: only its owner may do this.
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if open_to_others(file.metadata()?.mode()) {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// A file or folder that we need and cannot have.
pub(super) fn cannot_use(path: &Path, e: &io::Error) -> SshError {
    SshError::Local {
        what: format!("{} cannot be used: {e}", path.display()),
        mend: format!("`ls -ld {}` shows whose it is; it must be yours", path.display()),
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
    fn folders_and_files_are_private_also_when_found_loose() {
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
    fn only_deserted_sockets_of_ours_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        drop(UnixListener::bind(at("4711-0")).unwrap());
        drop(UnixListener::bind(at("theirs")).unwrap());
        let live = UnixListener::bind(at("4711-1")).unwrap();
        assert_eq!(clear_stale_sockets(dir.path()).unwrap(), 1);
        assert!(!at("4711-0").exists() && at("4711-1").exists() && at("theirs").exists());
        drop(live);
        assert_eq!(clear_stale_sockets(&at("missing")).unwrap(), 0);
    }

    #[test]
    fn a_key_must_exist_be_a_file_and_be_private() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        let fault = |key: &Path| match check_key(key, dir.path()) {
            Err(SshError::KeyFile { fault, .. }) => Some(fault),
            other => other.map(|()| None).unwrap(),
        };
        assert_eq!(fault(&key), Some(KeyFault::Missing));
        assert!(matches!(fault(dir.path()), Some(KeyFault::Unreadable(_))));
        fs::write(&key, "").unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(fault(&key), Some(KeyFault::TooOpen(0o640)));
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fault(&key), None);
    }

    #[test]
    fn a_long_folder_is_refused_with_its_mend() {
        let long = PathBuf::from(format!("/{}", "x".repeat(90)));
        assert!(matches!(own_path(&long, ""), Err(SshError::Local { .. })));
    }
}
