//! Child processes that never outlive this one, not even after `kill -9`; their own children end too.
//!
//! `PR_SET_PDEATHSIG` is Linux only, needs `unsafe`, is bound to the spawning thread and does not reach a
//! `ProxyCommand`. A pipe works everywhere: its end here closes whenever this process ends, and a small shell at the
//! other end notices.

use super::SshError;
use crate::model::SECRET_VARIABLES;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

/// Runs `"$@"` in this shell's process group until it ends or standard input does, and exits with its code.
///
/// The left side of the pipeline waits for the life-line (standard input, kept as 3). A line means "please end":
/// TERM to the group, which both shells on the right survive to report the code. End of file means that we are
/// gone: KILL to the whole group, `ssh`, its `ProxyCommand` and these shells at once. Once `"$@"` has ended by
/// itself, TERM ends the left side and whatever is left of a `ProxyCommand`; the line through the pipe before
/// `"$@"` starts makes sure that the left side is there to receive it (a signal that meets a shell between its
/// fork and its first command is swallowed). From then on the pipe is the command's standard input: open and
/// empty. The shells' own messages ("Terminated") are discarded; 4 is the real standard error.
const GUARD: &str = r#"
trap : TERM
exec 3<&0 4>&2 2>/dev/null
(trap - TERM; echo; read -r _ <&3 && kill -TERM 0; kill -KILL 0) |
  (trap : TERM; read -r _; "$@" 2>&4 3<&- 4>&-; code=$?; trap '' TERM; kill -TERM 0; exit $code)
exit $?
"#;

/// The same guard on the remote host: runs the command line `$1` until it ends or the session does (then KILL to the
/// session's process group), and exits with its code. Background processes that left the group keep running. ssh
/// exits with 255 when the connection is lost, so exit code 255 of the command is reported as 254. One line without
/// single quotes, so that any login shell can pass it on.
pub(super) const REMOTE_GUARD: &str = r#"exec 3<&0; (read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & w=$!; sh -c "$1" </dev/null 3<&-; code=$?; kill -KILL $w; [ $code = 255 ] && code=254; exit $code"#;

/// Our end of the pipe that keeps a child alive: when it is dropped, the child and its children are killed.
#[derive(Debug)]
pub(super) struct Lifeline(ChildStdin);

impl Lifeline {
    /// Asks the child to exit; a child that is just starting may miss the request. It is no error when the child has
    /// exited already.
    pub(super) async fn ask_to_end(&mut self) {
        let _ = self.0.write_all(b"\n").await;
    }
}

/// Starts a command under the guard, with pipes on its standard output and error. Its messages are in English, and its
/// environment contains no token.
pub(super) fn spawn(command: Vec<OsString>) -> Result<(Child, Lifeline), SshError> {
    spawn_with(command, &[])
}

/// [`spawn`] with these environment variables, unless they are set already.
pub(super) fn spawn_with(
    command: Vec<OsString>,
    variables: &[(&str, &str)],
) -> Result<(Child, Lifeline), SshError> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", GUARD, "sh"]).args(command).process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    clean_environment(shell.as_std_mut()).env("LC_ALL", "C");
    shell.envs(variables.iter().filter(|(name, _)| std::env::var_os(name).is_none()).copied());
    let failed = |why: String| SshError::Local {
        what: format!("cannot start /bin/sh: {why}"),
        hint: "close some programs, then reconnect".into(),
    };
    let mut child = shell.spawn().map_err(|e| failed(e.to_string()))?;
    let lifeline =
        child.stdin.take().map(Lifeline).ok_or_else(|| failed("it has no standard input".into()))?;
    Ok((child, lifeline))
}

/// A program's exit code as a shell reports it: 128 plus the signal number when a signal ended it.
pub(super) fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(255)
}

/// Removes the token from a child's environment: `SendEnv` could send it to a host, and `ps e` shows it here.
pub fn clean_environment(command: &mut std::process::Command) -> &mut std::process::Command {
    SECRET_VARIABLES.iter().fold(command, |command, name| command.env_remove(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    fn sh(script: &str) -> (Child, Lifeline) {
        spawn(["sh", "-c", script].map(OsString::from).to_vec()).unwrap()
    }

    #[tokio::test]
    async fn exit_code_and_output_are_passed_on_without_messages_of_the_shells() {
        let (child, lifeline) = sh("echo out; echo err >&2; exit 7");
        let output = child.wait_with_output().await.unwrap();
        drop(lifeline);
        assert_eq!(output.status.code(), Some(7));
        assert_eq!((&*output.stdout, &*output.stderr), (&b"out\n"[..], &b"err\n"[..]));
    }

    #[tokio::test]
    async fn a_command_that_exits_immediately_ends_the_shells() {
        for _ in 0..200 {
            let (mut child, _lifeline) = sh("exit 5");
            let status = tokio::time::timeout(std::time::Duration::from_secs(20), child.wait()).await;
            assert_eq!(status.unwrap().unwrap().code(), Some(5));
        }
    }

    #[tokio::test]
    async fn a_request_to_end_lets_the_child_finish() {
        let (mut child, mut lifeline) = sh("trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done");
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).await.unwrap();
        lifeline.ask_to_end().await;
        assert_eq!(child.wait().await.unwrap().code(), Some(3));
    }

    #[tokio::test]
    async fn a_lost_lifeline_kills_a_child_that_ignores_sigterm_and_its_children() {
        let (mut child, lifeline) = sh("trap '' TERM; (trap '' TERM; sleep 600) & echo up; sleep 600");
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).await.unwrap();
        drop(lifeline);
        child.wait().await.unwrap();
        // End of file: no process of the group holds the pipe any more.
        assert_eq!(child.stdout.unwrap().read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn standard_input_stays_open_and_empty() {
        let (mut child, mut lifeline) = sh("echo up; cat; echo never");
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).await.unwrap();
        lifeline.ask_to_end().await;
        assert!(!child.wait().await.unwrap().success());
        assert_eq!(child.stdout.unwrap().read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }
}
