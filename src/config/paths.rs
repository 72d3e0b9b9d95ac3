//! Directories of this program, and how they are created.

use super::Env;
use rustix::process::getuid;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The program's directories (XDG Base Directory Specification).
#[derive(Clone, Debug)]
pub struct Folders {
    pub config: PathBuf,
    /// Known hosts and the log file.
    pub state: PathBuf,
    /// Token files: `clusters/NAME`, and `secrets/PROJECT.SECRET` for the copies of secrets.
    pub tokens: PathBuf,
    /// Control sockets: short, because a Unix socket's path has room for about 100 bytes.
    pub run: PathBuf,
}

impl Folders {
    /// From `XDG_*` and `HOME`; without a home directory, everything is in `.marin-tui` in the working directory.
    pub fn new(env: &Env) -> Self {
        let home = env.home().unwrap_or_else(|| env.cwd().join(".marin-tui"));
        let dir = |var, default: &str| {
            env.var(var).map_or_else(|| home.join(default), PathBuf::from).join("marin-tui")
        };
        let run = match env.var("XDG_RUNTIME_DIR").filter(|d| d.len() < 40 && Path::new(d).is_dir()) {
            Some(dir) => Path::new(dir).join("marin-tui"),
            None => PathBuf::from(format!("/tmp/marin-tui-{}", getuid().as_raw())),
        };
        Self {
            config: dir("XDG_CONFIG_HOME", ".config"),
            state: dir("XDG_STATE_HOME", ".local/state"),
            tokens: dir("XDG_CACHE_HOME", ".cache").join("tokens"),
            run,
        }
    }
}

/// Creates the directory with mode 0700, and its parents with the default mode. An existing directory must belong to
/// this user, and no other user may be able to write into it or replace it: in /tmp another user may have created it
/// first.
pub fn create_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    if let Some(why) = not_ours(folder, &fs::symlink_metadata(folder)?) {
        let what = format!("{} {why}; check who created it, then remove it", folder.display());
        let hint = if folder.starts_with("/tmp") {
            ", or set XDG_RUNTIME_DIR to a directory of your own"
        } else {
            ""
        };
        return Err(io::Error::other(format!("{what}{hint}")));
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

/// Why a directory is not safe for private files; `None` when it is.
fn not_ours(folder: &Path, meta: &fs::Metadata) -> Option<String> {
    let us = getuid().as_raw();
    let parent = folder.parent().and_then(|p| fs::metadata(p).ok());
    if meta.is_symlink() {
        Some("is a symbolic link".to_owned())
    } else if !meta.is_dir() {
        Some("is not a directory".to_owned())
    } else if meta.uid() != us {
        Some(format!("is owned by uid {}, not by uid {us}", meta.uid()))
    } else if meta.mode() & 0o022 != 0 {
        Some(format!("can be written by others (mode {:o})", meta.mode() & 0o777))
    } else if parent.is_some_and(|p| p.mode() & 0o1002 == 0o002) {
        Some("is in a directory where any user can replace it".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_follow_the_environment() {
        let f = Folders::new(&Env::new(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")], "/"));
        assert_eq!(f.config, Path::new("/c/marin-tui"));
        assert_eq!(f.state, Path::new("/h/.local/state/marin-tui"));
        assert_eq!(f.tokens, Path::new("/h/.cache/marin-tui/tokens"));
        assert!(f.run.starts_with("/tmp"));
        assert_eq!(Folders::new(&Env::new(&[], "/w")).config, Path::new("/w/.marin-tui/.config/marin-tui"));
    }

    #[test]
    fn a_private_folder_is_accessible_only_to_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        create_private(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        create_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        std::os::unix::fs::symlink(&folder, dir.path().join("link")).unwrap();
        let link = create_private(&dir.path().join("link")).unwrap_err().to_string();
        assert!(link.contains("link is a symbolic link"), "{link}");
    }

    #[test]
    fn a_folder_that_others_could_write_or_replace_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a");
        create_private(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        let why = create_private(&folder).unwrap_err().to_string();
        assert!(why.contains("can be written by others (mode 770)") && why.contains("remove it"), "{why}");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(create_private(&folder).unwrap_err().to_string().contains("any user can replace it"));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        create_private(&folder).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(
            create_private(&dir.path().join("file")).unwrap_err().to_string().contains("is not a directory")
        );
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = dir.path().join("a");
        create_private(&folder).unwrap();
        if getuid().is_root() {
            std::os::unix::fs::chown(&folder, Some(12_345), None).unwrap();
        } else {
            folder = PathBuf::from("/usr");
        }
        let why = create_private(&folder).unwrap_err().to_string();
        assert!(why.contains("is owned by uid"), "{why}");
    }

    #[test]
    fn the_run_folder_is_named_by_our_own_id() {
        let named = format!("/tmp/marin-tui-{}", getuid().as_raw());
        assert_eq!(Folders::new(&Env::new(&[("HOME", "/h")], "/")).run, Path::new(&named));
    }
}
