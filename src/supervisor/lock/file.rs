//! A lock as a file on the head's machine of a cluster of provider `local`: in `/var/tmp`, which `ray down` and a
//! reboot do not clear (FHS 3.0, section 5.15), readable by every user of that machine and writable by its owner.
//!
//! The file is written under a temporary name and then linked, which fails if a lock exists, so that no reader sees a
//! partial lock. The sticky bit of the directory keeps other users from removing it.

use crate::model::{ClusterName, Fix, OperationLock, Problem, ProblemKind, Timestamp};
use crate::ssh::{Output, quote};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters of a cluster's name that are encoded in the file name.
const OUTSIDE_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');
/// Exit code of the scripts: there is another lock, or not the expected one.
const OTHER: i32 = 3;
/// Maximum number of bytes read of a lock.
const LOCK_BYTES_MAX: usize = 4096;

/// Path of the lock file on the head, as shown to operators.
pub fn path(cluster: &ClusterName) -> String {
    format!("/var/tmp/marin-tui-operation-{}.json", utf8_percent_encode(cluster.as_str(), OUTSIDE_NAME))
}

fn script(cluster: &ClusterName, body: &str) -> String {
    format!("f={}; {body}", quote(&path(cluster)))
}

/// Prints the lock, or nothing if there is none. Only a regular file counts, because opening a pipe would never end.
pub fn reading(cluster: &ClusterName) -> String {
    script(cluster, &format!("[ ! -f \"$f\" ] || [ -h \"$f\" ] || head -c {LOCK_BYTES_MAX} \"$f\""))
}

/// Parses the output of [`reading`].
pub fn read(output: &Output, cluster: &ClusterName) -> Result<Option<OperationLock>, Problem> {
    if output.status != 0 {
        return Err(failed("read", output, "make it and /var/tmp there readable"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    if text.trim().is_empty() {
        return Ok(None);
    }
    let path = path(cluster);
    let invalid = || {
        let what = format!("{path} on the head is not an operation lock for {cluster}");
        Problem::new(
            ProblemKind::Other,
            what,
            Fix::command("inspect it there and remove it", format!("rm {path}")),
            Timestamp::now(),
        )
    };
    OperationLock::parse(text.trim(), cluster).map(Some).ok_or_else(invalid)
}

/// Writes the text of the lock to a separate file that everybody may read; `$t` is its path.
fn written(lock: &OperationLock) -> String {
    let text = serde_json::to_string(lock).unwrap_or_default();
    format!(
        "t=$(mktemp \"$f.XXXXXX\") && printf '%s\\n' {} >\"$t\" && chmod 644 \"$t\" || {{ rm -f \"$t\"; exit 1; }}",
        quote(&text)
    )
}

/// A shell condition: whether the lock with this id exists.
fn has(id: &str) -> String {
    format!("[ ! -h \"$f\" ] && grep -qsF {} \"$f\"", quote(&format!("\"id\":\"{id}\"")))
}

/// Creates the lock if there is none.
pub fn placing(cluster: &ClusterName, lock: &OperationLock) -> String {
    let body = format!(
        "{}; if ln -T \"$t\" \"$f\" 2>/dev/null; then rm -f \"$t\"; exit 0; fi; rm -f \"$t\"; \
         [ -e \"$f\" ] || [ -h \"$f\" ] && exit {OTHER}; echo \"cannot make $f\" >&2; exit 1",
        written(lock)
    );
    script(cluster, &body)
}

/// Replaces an older lock with the same id.
pub fn renewing(cluster: &ClusterName, lock: &OperationLock) -> String {
    let body = format!(
        "{} || exit {OTHER}; {}; mv -fT \"$t\" \"$f\" || {{ rm -f \"$t\"; exit 1; }}",
        has(&lock.id),
        written(lock)
    );
    script(cluster, &body)
}

/// Removes the lock with this id.
pub fn removing(cluster: &ClusterName, id: &str) -> String {
    script(cluster, &format!("{} || exit {OTHER}; rm -f \"$f\"", has(id)))
}

/// Whether a script succeeded; false if there was another lock, or none.
pub fn done(output: &Output) -> Result<bool, Problem> {
    match output.status {
        0 => Ok(true),
        OTHER => Ok(false),
        _ => Err(failed("write", output, "free space in /var/tmp there, or make it writable")),
    }
}

/// `verb` is what failed: read or write.
fn failed(verb: &str, output: &Output, hint: &str) -> Problem {
    let message = if output.stderr.is_empty() { "no error message" } else { &output.stderr };
    let what = format!("cannot {verb} the operation lock on the head ({}): {message}", output.status);
    Problem::new(ProblemKind::Other, what, hint, Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Operation, Task};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::Command;

    fn lock(id: &str) -> OperationLock {
        let stop = Operation::new(Task::Stop, ClusterName::new("lab"));
        OperationLock::new(id.into(), &stop, "al'ice@a $(touch x)", 7, Timestamp::from_millis(1000))
    }

    /// Runs a script with the directory in place of /var/tmp.
    fn run(dir: &Path, script: &str) -> Output {
        let script = script.replacen("/var/tmp", dir.to_str().unwrap(), 1);
        let out = Command::new("sh").args(["-c", &script]).current_dir(dir).output().unwrap();
        Output {
            status: out.status.code().unwrap(),
            stdout: out.stdout,
            cut: false,
            stderr: String::from_utf8(out.stderr).unwrap(),
        }
    }

    #[test]
    fn one_of_two_operators_gets_the_lock_and_only_its_owner_changes_it() {
        let (dir, lab) = (tempfile::tempdir().unwrap(), ClusterName::new("lab"));
        let run = |script: String| run(dir.path(), &script);
        let there = || read(&run(reading(&lab)), &lab).unwrap();
        let (ours, theirs) = (lock("00000000aaaaaaaa"), lock("00000000bbbbbbbb"));
        assert_eq!(there(), None);
        assert!(done(&run(placing(&lab, &ours))).unwrap());
        assert!(!done(&run(placing(&lab, &theirs))).unwrap());
        assert_eq!(there(), Some(ours.clone()));
        let moved = OperationLock { step: 3, ..ours.clone() };
        assert!(done(&run(renewing(&lab, &moved))).unwrap());
        assert!(!done(&run(renewing(&lab, &theirs))).unwrap());
        assert_eq!(there(), Some(moved));
        assert!(!done(&run(removing(&lab, &theirs.id))).unwrap());
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(
            names,
            ["marin-tui-operation-lab.json"],
            "no other file remains, and no text was executed"
        );
        let mode = std::fs::metadata(dir.path().join(&names[0])).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert!(done(&run(removing(&lab, &ours.id))).unwrap());
        assert_eq!(there(), None);
        assert!(!done(&run(renewing(&lab, &ours))).unwrap(), "a removed lock is not created again");
    }

    #[test]
    fn an_error_names_what_failed() {
        let lab = ClusterName::new("lab");
        let output =
            Output { status: 1, stdout: Vec::new(), cut: false, stderr: "head: Permission denied".into() };
        let (read, write) = (read(&output, &lab).unwrap_err(), done(&output).unwrap_err());
        assert_eq!(read.what, "cannot read the operation lock on the head (1): head: Permission denied");
        assert_eq!(write.what, "cannot write the operation lock on the head (1): head: Permission denied");
        assert!(!read.hint.to_string().contains("free space"), "{read:?}");
    }

    #[test]
    fn symlinks_and_other_files_are_not_locks() {
        let (dir, lab) = (tempfile::tempdir().unwrap(), ClusterName::new("lab"));
        let file = dir.path().join("marin-tui-operation-lab.json");
        let secret = dir.path().join("secret");
        std::fs::write(&secret, serde_json::to_string(&lock("00000000aaaaaaaa")).unwrap()).unwrap();
        std::os::unix::fs::symlink(&secret, &file).unwrap();
        assert_eq!(read(&run(dir.path(), &reading(&lab)), &lab).unwrap(), None);
        assert!(!done(&run(dir.path(), &placing(&lab, &lock("00000000aaaaaaaa")))).unwrap());
        assert!(!done(&run(dir.path(), &removing(&lab, "00000000aaaaaaaa"))).unwrap());
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, "x".repeat(1 << 20)).unwrap();
        let problem = read(&run(dir.path(), &reading(&lab)), &lab).unwrap_err();
        assert!(
            problem.what.contains("is not an operation lock")
                && problem.hint.to_string().contains("rm /var/tmp/"),
            "{problem:?}"
        );
        assert!(path(&ClusterName::new("../a b")).starts_with("/var/tmp/marin-tui-operation-%2E%2E%2Fa%20b"));
    }
}
