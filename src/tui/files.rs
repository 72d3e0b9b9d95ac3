//! Lines for use outside the console: written to a file, or passed to a program that shows them.

use crate::app::Viewer;
use crate::model::Target;
use crate::model::amount::counted;
use crate::model::text::printable;
use crate::operation::{Audit, Entry};
use crate::replace;
use crate::supervisor::clean_environment;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempPath;

/// Editors and pagers that accept `+NUMBER` for the first line to show.
const TAKES_LINE: [&str; 9] = ["less", "more", "vi", "vim", "nvim", "view", "nano", "emacs", "emacsclient"];
/// Characters that require a shell, as in git's `run-command.c`.
const OF_SHELLS: &str = "|&;<>()$`\\\"'*?[#~=%";

/// Maximum number of audit log entries shown; `marin-tui audit` prints all.
const MAX_ENTRIES: usize = 1000;

/// The latest entries of the audit log, newest first, with time, user, action, cluster and outcome. Safe to print.
pub(super) fn entries(audit: &Audit) -> Result<Vec<(String, String)>, String> {
    let (entries, unreadable) = audit.read().map_err(|e| e.to_string())?;
    let line = |entry: &Entry| {
        let Entry { cluster, what, outcome, who, .. } = entry;
        (entry.when(), printable(&format!("{cluster}: {what}: {outcome}  ({who})")).into_owned())
    };
    let mut lines: Vec<(String, String)> = entries.iter().rev().take(MAX_ENTRIES).map(line).collect();
    let more = entries.len().saturating_sub(MAX_ENTRIES);
    lines.extend(
        (more > 0)
            .then(|| (String::new(), format!("{more} older ones: `{}`", Target::default().line("audit")))),
    );
    lines.extend(
        (unreadable > 0).then(|| (String::new(), format!("{} cannot be read", counted(unreadable, "line")))),
    );
    Ok(lines)
}

/// The result of writing a file.
pub(super) enum Written {
    /// It was written; its path.
    Done(PathBuf),
    /// The file exists and must not be replaced.
    Exists,
    /// It was not written, with the reason.
    Failed(String),
}

/// Writes a file with mode 0600. A leading `~/` is the home directory. An existing file is replaced only if that is
/// allowed and it is a regular file.
pub(super) fn write(path: &str, text: &str, may_replace: bool) -> Written {
    let path = absolute(path);
    let failed = |e: io::Error| Written::Failed(format!("not saved: {}: {e}", path.display()));
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let written = match new {
        // An incomplete file is removed.
        Ok(mut file) => file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(&path))),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match fs::metadata(&path) {
            Ok(there) if !there.is_file() => Err(io::Error::other("it exists and is not a regular file")),
            Ok(_) if !may_replace => return Written::Exists,
            Ok(_) => fs::canonicalize(&path).and_then(|path| replace::write(&path, text.as_bytes())),
            Err(e) => Err(e),
        },
        Err(e) => Err(e),
    };
    written.map_or_else(failed, |()| Written::Done(path.clone()))
}

fn absolute(path: &str) -> PathBuf {
    let home = path.strip_prefix("~/").zip(env::home_dir());
    let path = home.map_or_else(|| PathBuf::from(path), |(rest, home)| home.join(rest));
    std::path::absolute(&path).unwrap_or(path)
}

/// The command that shows these lines, starting at the given one, and their file, which has mode 0600 and is removed
/// when the value is dropped. The environment of the command contains none of our secrets.
pub(super) fn lend(viewer: Viewer, text: &str, line: usize) -> io::Result<(Command, TempPath)> {
    let mut file = tempfile::Builder::new().prefix("marin-tui-").suffix(".log").tempfile()?;
    file.write_all(text.as_bytes())?;
    let path = file.into_temp_path();
    let variables: &[&str] = match viewer {
        Viewer::Pager => &["PAGER"],
        Viewer::Editor => &["VISUAL", "EDITOR"],
    };
    let named =
        variables.iter().find_map(|name| env::var(name).ok().filter(|words| !words.trim().is_empty()));
    let default = if viewer == Viewer::Pager { "less" } else { "vi" };
    Ok((command(named.as_deref().unwrap_or(default), &path, line), path))
}

/// The command: the words that the user configured, and a file.
fn command(words: &str, path: &Path, line: usize) -> Command {
    let program = words.split_whitespace().next().unwrap_or_default();
    let mut command = if words.contains(|c| OF_SHELLS.contains(c)) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{words} \"$@\""), program]);
        shell
    } else {
        let mut direct = Command::new(program);
        direct.args(words.split_whitespace().skip(1));
        direct
    };
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if line > 1 && TAKES_LINE.contains(&name) {
        command.arg(format!("+{line}"));
    }
    command.arg(path);
    clean_environment(&mut command);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SECRET_VARIABLES;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_audit_log_is_read_newest_first_and_cleaned() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::new(folder.path(), "alice@laptop");
        assert_eq!(entries(&audit), Ok(Vec::new()));
        for (what, outcome) in [("stop-job x", "stopped"), ("restart", "done\x1b[2J")] {
            audit.note(&crate::model::ClusterName::new("alpha"), what, outcome).unwrap();
        }
        let lines: Vec<String> = entries(&audit).unwrap().into_iter().map(|(_, text)| text).collect();
        assert!(lines[0].starts_with("alpha: restart: done") && !lines[0].contains('\x1b'), "{lines:?}");
        assert_eq!(lines[1..], ["alpha: stop-job x: stopped  (alice@laptop)"]);
    }

    #[test]
    fn a_file_is_private_and_replaced_only_if_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.log");
        let typed = path.to_str().unwrap();
        assert!(matches!(write(typed, "one\n", false), Written::Done(done) if done == path));
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("one\n", 0o600));
        assert!(matches!(write(typed, "two\n", false), Written::Exists));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        assert!(matches!(write(typed, "two\n", true), Written::Done(_)));
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("two\n", 0o600));
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        for path in [path, &format!("{path}/missing/a.log"), "/dev/null"] {
            let Written::Failed(why) = write(path, "one\n", true) else { panic!("{path}") };
            assert!(why.starts_with(&format!("not saved: {path}: ")), "{why}");
        }
    }

    #[test]
    fn configured_words_become_a_command() {
        let line = |words: &str, line| {
            let command = command(words, Path::new("/tmp/x.log"), line);
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(line("less -R  -S", 7), ["less", "-R", "-S", "+7", "/tmp/x.log"]);
        assert_eq!(line("/usr/bin/vim", 1), ["/usr/bin/vim", "/tmp/x.log"]);
        assert_eq!(line("code --wait", 7), ["code", "--wait", "/tmp/x.log"]);
        assert_eq!(
            line("'my pager' -x", 7),
            ["sh", "-c", "'my pager' -x \"$@\"", "'my", "/tmp/x.log"],
            "quotes require a shell"
        );
    }

    #[test]
    fn a_temporary_file_is_private_and_removed() {
        let (command, path) = lend(Viewer::Pager, "one\n", 1).unwrap();
        let lent = path.to_path_buf();
        assert_eq!((fs::read_to_string(&lent).unwrap().as_str(), mode(&lent)), ("one\n", 0o600));
        assert_eq!(command.get_args().last(), Some(lent.as_os_str()));
        assert!(command.get_envs().any(|(name, value)| name == SECRET_VARIABLES[0] && value.is_none()));
        drop(path);
        assert!(!lent.exists());
    }
}
