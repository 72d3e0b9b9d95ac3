//! A program that uses the terminal for a while: a login, a pager, an editor.

use super::input::{QuitSignals, SignalRequest};
use crate::app::Outcome;
use crate::model::Target;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::io;
use std::process::Command;
use std::time::Duration;
use tokio::process::Child;

/// How long a program may take to exit after SIGTERM; then it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a command in the foreground of the terminal until it exits; `None` if a signal asked the console to quit, which
/// ends the command too.
pub(super) async fn hand_over(command: Command, signals: &mut QuitSignals) -> Option<Outcome> {
    let program = command.get_program().to_string_lossy().into_owned();
    let terminal = io::stdin();
    let modes = tcgetattr(&terminal);
    let mut child = match tokio::process::Command::from(command).spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // Only a name without a slash is looked up in $PATH.
            let why = if program.contains('/') { "no such file" } else { "not found in $PATH" };
            return Some(Outcome::Failed(format!("cannot start {program}: {why}")));
        }
        Err(e) => return Some(Outcome::Failed(format!("cannot start {program}: {e}"))),
    };
    let ended = loop {
        tokio::select! {
            ended = child.wait() => break Some(ended),
            request = signals.ended_or_stopped() => match request {
                SignalRequest::Quit => break None,
                // The key stops all programs in the foreground; the shell waits for the console too.
                SignalRequest::Stop => signals.stop().await,
            },
        }
    };
    if ended.is_none() {
        end(&mut child).await;
    }
    if let Ok(modes) = modes {
        // A killed program leaves the terminal in raw mode. If the terminal is gone, nothing is needed.
        let _ = tcsetattr(&terminal, OptionalActions::Now, &modes);
    }
    signals.forget_interrupts().await;
    Some(match ended? {
        Ok(status) if status.success() => Outcome::Returned(format!("{program} exited")),
        // The messages of ssh were on its own screen.
        Ok(status) if status.code() == Some(255) && program.ends_with("ssh") => Outcome::Failed(format!(
            "{program} failed to connect (exit status 255); `{}` in a shell shows its messages",
            Target::default().line("ssh")
        )),
        // POSIX: the shell did not find the command.
        Ok(status) if status.code() == Some(127) => {
            Outcome::Failed(format!("{program} exited immediately ({status}): no such program"))
        }
        Ok(status) => Outcome::Returned(format!("{program} exited ({status})")),
        Err(e) => Outcome::Failed(format!("{program}: {e}")),
    })
}

/// Ends a program that uses the terminal, with SIGTERM if possible, so that it can restore the terminal.
async fn end(child: &mut Child) {
    if let Some(id) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It may have exited on its own.
        let _ = kill_process(id, Signal::TERM);
    }
    if tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
