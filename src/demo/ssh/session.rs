//! One session on a simulated head: a command sent by a client, or a small interactive shell.

use super::answer::{Answer, Files};
use super::commands::run;
use russh::server::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Error};
use std::collections::VecDeque;

/// Number of standard error in a channel (RFC 4254, section 5.2).
const STDERR: u32 = 1;
/// Exit code of an interrupted command (128 + SIGINT).
const INTERRUPTED: u32 = 130;
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;

/// Serves a session channel until it ends.
pub(super) async fn serve(channel: Channel<Msg>, files: Files) {
    let (half_in, half) = channel.split();
    let input = Input { half: half_in, ahead: VecDeque::new(), ended: false };
    let session = Session { input, output: Output { half, terminal: false }, files };
    // An error means that the connection is closed.
    let _ = session.run().await;
}

struct Session {
    input: Input,
    output: Output,
    files: Files,
}

/// The line being typed, and the exit code of the last command.
struct Line {
    text: Vec<u8>,
    status: u32,
}

/// The input of a session.
struct Input {
    half: ChannelReadHalf,
    /// Bytes received and not yet read.
    ahead: VecDeque<u8>,
    /// Whether the input has ended.
    ended: bool,
}

impl Input {
    /// The next typed byte; `None` at the end.
    async fn byte(&mut self) -> Option<u8> {
        while self.ahead.is_empty() && !self.ended {
            self.take().await;
        }
        self.ahead.pop_front()
    }

    /// Waits for Ctrl-C, for the channel to close, or, if `at_end`, for the end of its input. Keeps other input, except
    /// what precedes a Ctrl-C.
    async fn interrupted(&mut self, at_end: bool) {
        let mut closed = false;
        while !(closed || at_end && self.ended) {
            closed = self.take().await;
            if let Some(at) = self.ahead.iter().rposition(|b| *b == CTRL_C) {
                self.ahead.drain(..=at);
                return;
            }
        }
    }

    /// Handles one message; true if the channel is closed.
    async fn take(&mut self) -> bool {
        let message = self.half.wait().await;
        let closed = matches!(message, Some(ChannelMsg::Close) | None);
        self.ended |= closed || matches!(message, Some(ChannelMsg::Eof));
        if let Some(ChannelMsg::Data { data }) = message {
            self.ahead.extend(data);
        }
        closed
    }
}

/// The output of a session.
struct Output {
    half: ChannelWriteHalf<Msg>,
    /// Whether the other end is a terminal in raw mode, which needs echo and CRLF line ends.
    terminal: bool,
}

impl Output {
    async fn write(&self, text: &[u8]) -> Result<(), Error> {
        self.half.data_bytes(self.lines(text)).await
    }

    async fn error(&self, text: &str) -> Result<(), Error> {
        if self.terminal {
            return self.write(text.as_bytes()).await;
        }
        self.half.extended_data_bytes(STDERR, text.as_bytes().to_vec()).await
    }

    fn lines(&self, text: &[u8]) -> Vec<u8> {
        if !self.terminal {
            return text.to_vec();
        }
        let mut out = Vec::with_capacity(text.len());
        for byte in text {
            out.extend_from_slice(if *byte == b'\n' { b"\r\n" } else { std::slice::from_ref(byte) });
        }
        out
    }

    /// Writes a command's output until it ends.
    async fn show(&self, answer: Answer) -> Result<u32, Error> {
        self.error(&answer.err).await?;
        self.write(&answer.out).await?;
        if let Some(mut rest) = answer.rest {
            loop {
                match rest.next().await {
                    Ok(bytes) => self.write(&bytes).await?,
                    Err(status) => return Ok(status),
                }
            }
        }
        Ok(answer.status)
    }
}

impl Session {
    async fn run(mut self) -> Result<(), Error> {
        let status = loop {
            match self.input.half.wait().await {
                Some(ChannelMsg::RequestPty { .. }) => self.output.terminal = true,
                Some(ChannelMsg::Exec { command, .. }) => {
                    let command = String::from_utf8_lossy(&command);
                    let guarded = command.starts_with("exec sh -c ");
                    break self.show(run(&command, &self.files).await, guarded).await?;
                }
                Some(ChannelMsg::RequestShell { .. }) => break self.shell().await?,
                Some(ChannelMsg::Close) | None => return Ok(()),
                Some(_) => {}
            }
        };
        self.output.half.exit_status(status).await?;
        self.output.half.eof().await?;
        self.output.half.close().await
    }

    /// Writes the output of a command until it ends or the user interrupts it. A command with the console's guard also
    /// ends with the session's input.
    async fn show(&mut self, answer: Answer, guarded: bool) -> Result<u32, Error> {
        tokio::select! {
            status = self.output.show(answer) => status,
            () = self.input.interrupted(guarded) => Ok(INTERRUPTED),
        }
    }

    /// Reads and runs command lines until `exit`, Ctrl-D, or the end of the input; returns the exit code.
    async fn shell(&mut self) -> Result<u32, Error> {
        let banner = format!(
            "{}: a simulated Ray head for demos; type `help` for the commands, `exit` to leave\n",
            self.files.hostname
        );
        self.output.write(banner.as_bytes()).await?;
        let mut line = Line { text: Vec::new(), status: 0 };
        self.prompt().await?;
        while let Some(byte) = self.input.byte().await {
            if self.typed(byte, &mut line).await? {
                break;
            }
        }
        Ok(line.status)
    }

    /// Handles one typed byte; true if it ends the shell.
    async fn typed(&mut self, byte: u8, line: &mut Line) -> Result<bool, Error> {
        match byte {
            b'\r' | b'\n' => {
                self.echo(b"\n").await?;
                let text = std::mem::take(&mut line.text);
                let answer = run(&String::from_utf8_lossy(&text), &self.files).await;
                let exits = answer.exits;
                line.status = self.show(answer, false).await?;
                if line.status == INTERRUPTED {
                    self.echo(b"^C\n").await?;
                }
                if exits {
                    return Ok(true);
                }
                self.prompt().await?;
            }
            CTRL_C => {
                line.text.clear();
                self.echo(b"^C\n").await?;
                self.prompt().await?;
            }
            CTRL_D if line.text.is_empty() => {
                self.echo(b"exit\n").await?;
                return Ok(true);
            }
            0x7f | 0x08 if line.text.pop().is_some() => self.echo(b"\x08 \x08").await?,
            0x20..0x7f | 0x80.. => {
                line.text.push(byte);
                self.echo(&[byte]).await?;
            }
            _ => {}
        }
        Ok(false)
    }

    async fn prompt(&self) -> Result<(), Error> {
        self.echo(format!("ray@{}:logs$ ", self.files.hostname).as_bytes()).await
    }

    /// Writes to a terminal; does nothing without one.
    async fn echo(&self, text: &[u8]) -> Result<(), Error> {
        if self.output.terminal { self.output.write(text).await } else { Ok(()) }
    }
}
