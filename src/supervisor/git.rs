//! The commit of a working directory, by the `git` of this machine.

use std::path::Path;
use std::process::{Command, Stdio};

/// The commit that is checked out in a directory, with the suffix `-dirty` if files differ from it.
///
/// # Errors
///
/// git is missing, or the directory is not in a repository with a commit; with git's message, safe to print.
pub fn git_commit(folder: &Path) -> Result<String, String> {
    let commit = git(folder, &["rev-parse", "--verify", "HEAD"])?;
    let dirty = if git(folder, &["status", "--porcelain"])?.is_empty() { "" } else { "-dirty" };
    Ok(format!("{commit}{dirty}"))
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    // git must not receive tokens.
    git.env_clear();
    git.envs(["PATH", "HOME"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    // Run no program that the repository's configuration names, and do not write its index.
    git.args(["--no-optional-locks", "-c", "core.fsmonitor=false", "-C"]).arg(folder).args(arguments);
    let output = git.stdin(Stdio::null()).output().map_err(|e| format!("cannot run git: {e}"))?;
    let text =
        |bytes: &[u8]| crate::model::text::printable(String::from_utf8_lossy(bytes).trim()).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
