//! Commands on a head over its one connection: each is a client of the control master, guarded at both ends.

use super::SshError;
use super::guard::{self, Lifeline, REMOTE_GUARD};
use super::login;
use crate::model::text::printable;
use crate::task;
use bytes::{Bytes, BytesMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// Maximum number of concurrent commands over one connection: sshd's `MaxSessions` is 10 by default, and two are kept
/// for logins.
const MAX_SESSIONS: usize = 8;
/// Bytes of a command's standard output that are kept.
const OUTPUT_MAX: usize = 4 << 20;
/// Bytes of a command's standard error that are kept.
const STDERR_MAX: usize = 4 << 10;
/// Maximum number of bytes that are read from a stream at a time.
const MAX_CHUNK: usize = 64 << 10;

/// Runs commands on one head. Cheap to clone. Once the connection is closed every command fails with
/// [`SshError::Lost`]; it never connects on its own.
#[derive(Clone, Debug)]
pub struct Remote(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ssh: PathBuf,
    socket: PathBuf,
    host: String,
    sessions: Arc<Semaphore>,
}

/// The result of a command that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; 128 plus the signal number when a signal ended it. 255 is reported as 254.
    pub status: i32,
    /// The first 4 MiB of its standard output.
    pub stdout: Vec<u8>,
    /// Whether there was more.
    pub cut: bool,
    /// The first 4 KiB of its standard error, safe to print.
    pub stderr: String,
}

impl Remote {
    pub(super) fn new(ssh: PathBuf, socket: PathBuf, host: String) -> Self {
        Self(Arc::new(Inner { ssh, socket, host, sessions: Arc::new(Semaphore::new(MAX_SESSIONS)) }))
    }

    pub(super) fn socket(&self) -> &Path {
        &self.0.socket
    }

    /// Whether it is the same connection.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Runs a command line in the head's `sh` for at most `limit`; after that it is killed on the head. A nonzero exit
    /// code is no error here. Waits while eight other commands run.
    pub async fn run(&self, command: &str, limit: Duration) -> Result<Output, SshError> {
        let deadline = Instant::now() + limit;
        let turn = timeout_at(deadline, self.0.sessions.acquire()).await;
        let _turn = turn.ok().and_then(Result::ok).ok_or_else(|| self.exhausted())?;
        let too_slow = || SshError::TooSlow { host: self.0.host.clone(), seconds: limit.as_secs() };
        timeout_at(deadline, self.finish(command)).await.map_err(|_| too_slow())?
    }

    /// Starts a command line whose output is read as it arrives, e.g. `tail -F`. Fails immediately when eight others
    /// run. Dropping the stream ends the command on the head.
    pub fn stream(&self, command: &str) -> Result<RemoteStream, SshError> {
        let turn = self.0.sessions.clone().try_acquire_owned().map_err(|_| self.exhausted())?;
        let (mut child, lifeline) = self.start(command)?;
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let stderr = task::spawn(async move { keep(stderr, STDERR_MAX).await.0 });
        Ok(RemoteStream { remote: self.clone(), child, stdout, stderr, _lifeline: lifeline, _turn: turn })
    }

    fn start(&self, command: &str) -> Result<(Child, Lifeline), SshError> {
        let mut args = login::client(&self.0.ssh, &self.0.socket);
        args.extend(["-T".into(), "--".into(), self.0.host.clone().into(), guarded(command).into()]);
        guard::spawn(args)
    }

    async fn finish(&self, command: &str) -> Result<Output, SshError> {
        let (mut child, _lifeline) = self.start(command)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (status, (stdout, cut), (stderr, _)) =
            tokio::join!(child.wait(), keep(stdout, OUTPUT_MAX), keep(stderr, STDERR_MAX));
        let (status, stderr) = self.verdict(status, &stderr)?;
        Ok(Output { status, stdout, cut, stderr })
    }

    /// The remote exit code and standard error, or the error of the connection.
    fn verdict(
        &self,
        status: std::io::Result<std::process::ExitStatus>,
        stderr: &[u8],
    ) -> Result<(i32, String), SshError> {
        let lost = |why: &str| SshError::Lost { host: self.0.host.clone(), why: why.to_owned() };
        let code = guard::code(status.map_err(|e| lost(&e.to_string()))?);
        let stderr = String::from_utf8_lossy(stderr);
        // 255 is ssh's own: the remote guard never ends with it.
        match code {
            255 if stderr.contains("ession open refused by peer") => Err(self.exhausted()),
            255 => Err(lost("connection closed")),
            code => Ok((code, printable(stderr.trim()).into_owned())),
        }
    }

    fn exhausted(&self) -> SshError {
        SshError::SessionsExhausted { host: self.0.host.clone() }
    }
}

/// The output of a command that runs on a head, as it arrives.
#[derive(Debug)]
pub struct RemoteStream {
    remote: Remote,
    child: Child,
    stdout: Option<ChildStdout>,
    stderr: JoinHandle<Vec<u8>>,
    _lifeline: Lifeline,
    _turn: OwnedSemaphorePermit,
}

impl RemoteStream {
    /// The next chunk, which may end within a line. `None` when the command has succeeded; [`SshError::Command`] when
    /// it failed. Cancel safe.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, SshError> {
        if let Some(stdout) = &mut self.stdout {
            let mut chunk = BytesMut::with_capacity(MAX_CHUNK);
            let read = stdout.read_buf(&mut chunk).await;
            if read.is_ok_and(|n| n > 0) {
                return Ok(Some(chunk.freeze()));
            }
            self.stdout = None;
        }
        let status = self.child.wait().await;
        let stderr = (&mut self.stderr).await.unwrap_or_default();
        match self.remote.verdict(status, &stderr)? {
            (0, _) => Ok(None),
            (status, stderr) => Err(SshError::Command { host: self.remote.0.host.clone(), status, stderr }),
        }
    }
}

/// Reads to the end; returns the first `max` bytes, and whether there were more.
async fn keep(from: Option<impl AsyncRead + Unpin>, max: usize) -> (Vec<u8>, bool) {
    let (mut kept, mut cut) = (Vec::new(), false);
    let Some(mut from) = from else { return (kept, cut) };
    let mut chunk = vec![0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut chunk).await {
        let room = n.min(max - kept.len());
        kept.extend_from_slice(&chunk[..room]);
        cut |= room < n;
    }
    (kept, cut)
}

/// A command line that runs this one in a remote host's `sh`, and kills it with its children when the session's standard
/// input ends, even while it prints nothing.
pub fn guarded(command: &str) -> String {
    format!("exec sh -c {} sh {}", quote(REMOTE_GUARD), quote(command))
}

/// One word for a POSIX shell, whatever it contains (POSIX.1, Shell Command Language, 2.2.2). A NUL cannot be
/// passed to a program and is left out.
pub fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\0', "").replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_shell_reads_a_quoted_word_as_it_was(word in "[^\\x00]{0,40}|['\"\\\\$`!\n ]{0,12}") {
            let script = format!("printf %s {}", quote(&word));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            prop_assert_eq!(output.stdout, word.as_bytes());
        }
    }

    #[tokio::test]
    async fn long_output_is_truncated_and_marked() {
        assert_eq!(keep(Some(&b"12345"[..]), 5).await, (b"12345".to_vec(), false));
        assert_eq!(keep(Some(&b"12345"[..]), 4).await, (b"1234".to_vec(), true));
    }
}
