//! Checks whether another user can change or replace a file, as sshd's `StrictModes` does before it trusts
//! `authorized_keys` (`safe_path` in OpenSSH's `misc.c`).
//!
//! Every directory and every symbolic link of the path is checked: whoever can write to one of them can replace the
//! file. The superuser does not count as another user.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symbolic links that are followed, as on Linux (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;
/// Mode bit of a directory in which only the owner of an entry may remove or rename it.
const STICKY: u32 = 0o1000;

/// Why another user can change a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsafe {
    /// The file, directory or link that another user can change.
    pub path: PathBuf,
    /// Who can change it.
    pub why: String,
    pub fix: String,
}

/// The current user, with `/etc/passwd` and `/etc/group` to find groups without other members.
pub struct CurrentUser {
    uid: u32,
    passwd: String,
    group: String,
}

impl CurrentUser {
    /// The user of this process.
    pub fn here() -> Self {
        let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let uid = rustix::process::getuid().as_raw();
        Self { uid, passwd: text("/etc/passwd"), group: text("/etc/group") }
    }

    fn owns(&self, uid: u32) -> bool {
        uid == self.uid || uid == 0
    }

    /// Whether the group is this user's private group, as Debian and Red Hat create one for each user: it has the
    /// user's name and no other member. A group that is not in `/etc/group` may have any members.
    fn is_alone_in(&self, gid: u32) -> bool {
        let fields = |text: &'_ str| -> Vec<Vec<String>> {
            text.lines().map(|l| l.split(':').map(str::to_owned).collect()).collect()
        };
        let number = |field: Option<&String>| field.and_then(|n| n.parse::<u32>().ok());
        let people = fields(&self.passwd);
        let Some(me) = people.iter().find(|p| number(p.get(2)) == Some(self.uid)).and_then(|p| p.first())
        else {
            return false;
        };
        let others_primary =
            people.iter().any(|p| number(p.get(3)) == Some(gid) && number(p.get(2)) != Some(self.uid));
        let groups = fields(&self.group);
        let mut same = groups.iter().filter(|g| number(g.get(2)) == Some(gid)).peekable();
        let is_private = |g: &Vec<String>| {
            let members = g.get(3).map(String::as_str).unwrap_or_default();
            g.first() == Some(me) && members.split(',').all(|m| m.is_empty() || m == me)
        };
        same.peek().is_some() && same.all(is_private) && !others_primary
    }

    /// How another user could change this entry; for a link the metadata are the link's own.
    fn fault(&self, path: &Path, meta: &Metadata) -> Option<Unsafe> {
        let shown = path.display();
        let found = |why: String, fix: String| Some(Unsafe { path: path.into(), why, fix });
        if !self.owns(meta.uid()) {
            let why = format!("is owned by another user (uid {})", meta.uid());
            return found(why, "copy the directory, so that you own it".to_owned());
        }
        let mode = meta.mode();
        // A link's mode has no meaning; in a sticky directory other users cannot remove or rename our entries.
        if meta.is_symlink() || (meta.is_dir() && mode & STICKY != 0) {
            return None;
        }
        if mode & 0o002 != 0 {
            return found("is writable by every user".into(), format!("chmod o-w {shown}"));
        }
        if mode & 0o020 != 0 && !self.is_alone_in(meta.gid()) {
            let why = format!("is writable by its group (gid {}), which may have other members", meta.gid());
            return found(why, format!("chmod g-w {shown}"));
        }
        None
    }

    /// Resolves the path as the system does, including links, and fails at the first entry that another user can change.
    /// `path` is absolute.
    pub fn walk(&self, path: &Path) -> io::Result<Result<PathBuf, Unsafe>> {
        let mut left: VecDeque<OsString> = VecDeque::new();
        let push_front = |left: &mut VecDeque<OsString>, path: &Path| {
            for part in path.components().rev() {
                left.push_front(part.as_os_str().to_owned());
            }
        };
        push_front(&mut left, path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            match Path::new(&part).components().next() {
                Some(Component::RootDir) => at = "/".into(),
                Some(Component::ParentDir) => {
                    at.pop();
                    continue;
                }
                Some(Component::Normal(name)) => at.push(name),
                _ => continue,
            }
            let meta = fs::symlink_metadata(&at)?;
            if let Some(fault) = self.fault(&at, &meta) {
                return Ok(Err(fault));
            }
            if meta.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::other("too many symbolic links"));
                }
                let target = fs::read_link(&at)?;
                at.pop();
                push_front(&mut left, &target);
            }
        }
        Ok(Ok(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn us() -> CurrentUser {
        // No group counts as private, so that the result does not depend on who runs the tests.
        CurrentUser { passwd: String::new(), group: String::new(), ..CurrentUser::here() }
    }

    #[test]
    fn every_entry_of_the_path_is_checked() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (folder, file) = (root.join("a/b"), root.join("a/b/c.yaml"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(&file, "x").unwrap();
        for path in [&root, &root.join("a"), &folder] {
            mode(path, 0o755);
        }
        mode(&file, 0o644);
        let us = us();
        let fault = |path: &Path| us.walk(path).unwrap().map_err(|e| (e.path, e.fix));
        assert_eq!(fault(&file), Ok(file.clone()));
        assert_eq!(fault(&root.join("a/../a/./b/c.yaml")), Ok(file.clone()));
        for path in [&root.join("a"), &folder, &file] {
            let kept = fs::metadata(path).unwrap().permissions();
            for (bits, word) in [(0o002, "o-w"), (0o020, "g-w")] {
                mode(path, kept.mode() | bits);
                assert_eq!(fault(&file), Err((path.clone(), format!("chmod {word} {}", path.display()))));
            }
            fs::set_permissions(path, kept).unwrap();
        }
        // As in /tmp: other users can create entries, but not remove ours.
        mode(&folder, 0o1777);
        assert_eq!(fault(&file), Ok(file.clone()));
        mode(&folder, 0o755);
        // A link through a directory that other users can write to.
        let open = root.join("open");
        fs::create_dir(&open).unwrap();
        fs::write(open.join("t.yaml"), "x").unwrap();
        symlink("../../open/t.yaml", folder.join("l.yaml")).unwrap();
        assert_eq!(fault(&folder.join("l.yaml")), Ok(open.join("t.yaml")));
        mode(&open, 0o777);
        assert_eq!(fault(&folder.join("l.yaml")).unwrap_err().0, open);
        symlink("loop", folder.join("loop")).unwrap();
        assert!(us.walk(&folder.join("loop")).is_err() && us.walk(&folder.join("none")).is_err());
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().canonicalize().unwrap().join("f");
        fs::write(&file, "x").unwrap();
        mode(&file, 0o600);
        let other_user = CurrentUser { uid: us().uid + 1, ..us() };
        let fault = other_user.walk(&file).unwrap();
        // If the superuser runs the tests, their file is trusted.
        assert_eq!(fault.is_err(), us().uid != 0, "{fault:?}");
        if fs::metadata(&file).unwrap().uid() == 0 {
            std::os::unix::fs::chown(&file, Some(65_534), None).unwrap();
            assert!(us().walk(&file).unwrap().unwrap_err().why.contains("another user (uid 65534)"));
        }
    }

    #[test]
    fn a_private_group_has_one_member() {
        let us = |group: &str| CurrentUser {
            uid: 1000,
            passwd: "root:x:0:0::/:/bin/sh\nme:x:1000:1000::/h:/bin/sh\nyou:x:1001:1001::/h:/bin/sh\n\
                     him:x:1002:20::/h:/bin/sh\n"
                .into(),
            group: group.into(),
        };
        assert!(us("me:x:1000:").is_alone_in(1000));
        assert!(us("me:x:1000:me").is_alone_in(1000));
        assert!(!us("me:x:1000:you").is_alone_in(1000));
        assert!(!us("team:x:50:me").is_alone_in(50), "a directory service may have other members");
        assert!(!us("me:x:20:").is_alone_in(20), "the primary group of another user");
        assert!(!us("").is_alone_in(1000) && !us("me:x:1000:").is_alone_in(7));
        assert!(!us("me:x:1000:\nalias:x:1000:you").is_alone_in(1000));
    }
}
