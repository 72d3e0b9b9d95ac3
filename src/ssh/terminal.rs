//! A pseudo-terminal for a program that prompts on a terminal only, and the answers to its prompts.

use super::error::SshError;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// A pseudo-terminal. Text that is written to it counts as typed by a person; nothing is read from it.
#[derive(Debug)]
pub struct Terminal {
    ours: File,
    theirs: PathBuf,
}

impl Terminal {
    /// Opens a new pseudo-terminal, which no other program uses.
    pub fn open() -> Result<Self, SshError> {
        Self::make().map_err(|e| SshError::Local {
            what: format!("cannot open a pseudo-terminal: {e}"),
            hint: "close some programs, then try again".into(),
        })
    }

    fn make() -> io::Result<Self> {
        let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        // Children must not inherit it: one could read what is meant for another.
        rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
        grantpt(ours.as_fd())?;
        unlockpt(ours.as_fd())?;
        let name = ptsname(ours.as_fd(), Vec::new())?;
        let theirs = PathBuf::from(std::ffi::OsString::from_vec(name.into_bytes()));
        Ok(Self { ours: ours.into(), theirs })
    }

    /// The path that a program opens as its standard input.
    pub fn path(&self) -> &Path {
        &self.theirs
    }

    /// Types a line.
    pub fn answer(&self, line: &str) -> io::Result<()> {
        (&self.ours).write_all(format!("{line}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_sees_a_terminal_and_reads_the_answer() {
        let terminal = Terminal::open().unwrap();
        terminal.answer("y").unwrap();
        let script = "exec <\"$0\"; [ -t 0 ] && read -r answer && echo \"$answer\"";
        let out = Command::new("sh").args(["-c", script]).arg(terminal.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout), "y\n");
    }
}
