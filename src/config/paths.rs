//! Folders of our own, and how they are made.

use super::Env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where things are kept (XDG Base Directory Specification).
#[derive(Clone, Debug)]
pub struct Folders {
    /// The settings file.
    pub config: PathBuf,
    /// Known hosts and the log file.
    pub state: PathBuf,
    /// Cached tokens.
    pub tokens: PathBuf,
    /// Control sockets: short, because a Unix socket's path has room for about 100 bytes.
    pub run: PathBuf,
}

impl Folders {
    /// From `XDG_*` and `HOME`; without a home everything lies in the working folder's `.marin-tui`.
    pub fn new(env: &Env) -> Self {
        let home = env.home().unwrap_or_else(|| env.cwd().join(".marin-tui"));
        let place = |var, default: &str| {
            env.var(var).map_or_else(|| home.join(default), PathBuf::from).join("marin-tui")
        };
        let run = match env.var("XDG_RUNTIME_DIR").filter(|d| d.len() < 40 && Path::new(d).is_dir()) {
            Some(dir) => Path::new(dir).join("marin-tui"),
            None => PathBuf::from(format!("/tmp/marin-tui-{}", owner_of_this_process())),
        };
        Self {
            config: place("XDG_CONFIG_HOME", ".config"),
            state: place("XDG_STATE_HOME", ".local/state"),
            tokens: place("XDG_CACHE_HOME", ".cache").join("tokens"),
            run,
        }
    }
}

/// Our user id, without unsafe code: who owns our own entry in /proc, or our home.
fn owner_of_this_process() -> u32 {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let meta = fs::metadata("/proc/self").or_else(|_| fs::metadata(home.unwrap_or_else(|| "/".into())));
    meta.map_or(0, |m| m.uid())
}

/// Makes the folder for its owner alone, parents as usual. An existing one must be ours: in /tmp somebody else may
/// have been first.
pub fn create_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let meta = fs::symlink_metadata(folder)?;
    if !meta.is_dir() || meta.uid() != owner_of_this_process() {
        return Err(io::Error::other(format!("{} is not a folder of ours", folder.display())));
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
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
    fn a_private_folder_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        create_private(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        create_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        std::os::unix::fs::symlink(&folder, dir.path().join("link")).unwrap();
        assert!(create_private(&dir.path().join("link")).is_err());
    }
}
