//! Checks of this machine before anything is connected: its ssh, its keys, and other programs.

use crate::model::{Problem, Timestamp};
use crate::ssh::{self, SshError};
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::sync::mpsc;

pub use crate::ssh::KeyFault;

/// The version of the ssh program, if this program can use it.
pub async fn ssh_version(ssh: &Path) -> Result<String, Problem> {
    ssh::client_version(ssh).await.map_err(|e| e.problem(Timestamp::now()))
}

/// Checks a private key as ssh does.
///
/// # Errors
///
/// The fault, and the same as a problem with a hint.
pub async fn inspect_key(key: &Path) -> Result<(), (KeyFault, Problem)> {
    let problem = |fault| SshError::KeyFile { path: key.into(), fault }.problem(Timestamp::now());
    ssh::inspect_key(key).await.map_err(|fault| (fault.clone(), problem(fault)))
}

/// Runs a program on this machine; sends its output to `lines` and returns its exit code. Dropping the future kills it.
pub async fn run_program(command: Vec<OsString>, lines: mpsc::Sender<String>) -> Result<i32, Problem> {
    ssh::run_program(command, lines).await.map_err(|e| e.problem(Timestamp::now()))
}

/// Runs this program again without a terminal and returns its standard output, unless it takes longer than `limit`.
pub fn run_self(words: &[String], limit: Duration) -> Option<Vec<u8>> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = command.spawn().ok()?;
    let mut output = running.stdout.take()?;
    let (send, read) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if output.read_to_end(&mut text).is_ok() {
            // An error means that the limit was exceeded and nobody reads the result.
            let _ = send.send(text);
        }
    });
    let text = read.recv_timeout(limit);
    let _ = running.kill();
    let _ = running.wait();
    text.ok()
}
