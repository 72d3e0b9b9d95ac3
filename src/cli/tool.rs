//! Runs programs of this machine for commands: docker, git, ray.

use crate::config::Env;
use crate::model::Target;
use crate::supervisor;
use anyhow::anyhow;
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// The result of a program.
pub(super) struct Ran {
    /// Its exit code.
    pub code: i32,
    /// Its output and error output, line by line and cleaned.
    pub lines: Vec<String>,
}

impl Ran {
    /// Its output, or an error with its last line if it failed.
    pub fn require_success(self, what: &str) -> anyhow::Result<Vec<String>> {
        if self.code == 0 {
            return Ok(self.lines);
        }
        let last =
            self.lines.iter().rfind(|line| !line.trim().is_empty()).map_or("no output", String::as_str);
        Err(anyhow!("{what} failed with exit code {}: {last}", self.code))
    }
}

/// The file that a shell would run under this name.
pub(super) fn find(program: &Path, env: &Env) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.components().count() > 1 {
        return Some(env.expand(program)).filter(is_program);
    }
    std::env::split_paths(env.var("PATH")?).map(|folder| folder.join(program)).find(is_program)
}

/// A directory that only this user can access, removed when the value is dropped.
pub(super) fn private_folder() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("marin-tui-").permissions(Permissions::from_mode(0o700)).tempdir()
}

/// Runs a program until it ends, and passes on each line as it is received.
pub(super) async fn run(command: &[impl AsRef<OsStr>], mut on_line: impl FnMut(&str)) -> anyhow::Result<Ran> {
    let command: Vec<OsString> = command.iter().map(|word| word.as_ref().to_owned()).collect();
    let (sender, mut receiver) = mpsc::channel(256);
    let running = supervisor::run_program(command, sender);
    tokio::pin!(running);
    let mut lines = Vec::new();
    let mut take = |line: String| {
        on_line(&line);
        lines.push(line);
    };
    let code = loop {
        tokio::select! {
            biased;
            Some(line) = receiver.recv() => take(line),
            code = &mut running => break code.map_err(|p| anyhow!("{}", p.in_commands(Target::default())))?,
        }
    };
    while let Ok(line) = receiver.try_recv() {
        take(line);
    }
    Ok(Ran { code, lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_where_a_shell_finds_it() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        std::fs::create_dir_all(two.join("directory")).unwrap();
        std::fs::create_dir(&one).unwrap();
        for (file, mode) in [(one.join("tool"), 0o644), (two.join("tool"), 0o755)] {
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = format!("{}:{}", one.display(), two.display());
        let env = Env::new(&[("PATH", &path)], "/");
        assert_eq!(
            find(Path::new("tool"), &env),
            Some(two.join("tool")),
            "a file that is not executable is skipped"
        );
        assert_eq!(find(&two.join("tool"), &env), Some(two.join("tool")));
        assert_eq!(find(&one.join("tool"), &env), None);
        assert_eq!(find(Path::new("directory"), &env), None);
    }

    #[tokio::test]
    async fn a_failure_is_reported_with_the_last_line() {
        let mut lines = Vec::new();
        let ran = run(&["sh", "-c", "echo one; echo two >&2; exit 3"], |line| lines.push(line.to_owned()));
        let ran = ran.await.unwrap();
        assert_eq!((ran.code, &ran.lines), (3, &lines));
        assert_eq!(ran.require_success("`x`").unwrap_err().to_string(), "`x` failed with exit code 3: two");
        let none = run(&["no-such-program-here"], |_| ()).await.unwrap();
        assert_eq!(none.code, 127);
    }
}
