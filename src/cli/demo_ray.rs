//! `marin-tui demo-ray`: stands in for the ray command in a demo. It passes its arguments to the demo's process and
//! prints the result; it changes nothing real.

use anyhow::Context;
use clap::Args;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Write, stdin};
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of the hidden `demo-ray` command.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct RayArguments {
    /// Socket of the demo
    socket: PathBuf,
    /// Arguments of the ray command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Sends the arguments to the demo, prints its output and exits with its code. Questions are asked in a terminal only,
/// as Ray does.
pub fn run(arguments: &RayArguments) -> anyhow::Result<ExitCode> {
    let mut words = arguments.words.clone();
    loop {
        match pass_on(&arguments.socket, &words)? {
            Answer::Ended(code) => return Ok(ExitCode::from(code)),
            Answer::Asks(question) => {
                if !stdin().is_terminal() {
                    anyhow::bail!(
                        "This command requires user confirmation. When running non-interactively, supply --yes to skip."
                    );
                }
                print!("{question}");
                let mut answer = String::new();
                stdin().lock().read_line(&mut answer)?;
                anyhow::ensure!(answer.trim() == "y", "Exiting...");
                words.insert(1, "-y".into());
            }
        }
    }
}

/// The demo's answer to a request.
enum Answer {
    /// The command ended with this exit code.
    Ended(u8),
    /// The command asks this question.
    Asks(String),
}

fn pass_on(socket: &Path, words: &[OsString]) -> anyhow::Result<Answer> {
    let demo_ended = "the demo that runs this cluster has exited; start a new one";
    let mut demo = UnixStream::connect(socket).context(demo_ended)?;
    let words: Vec<&[u8]> = words.iter().map(|w| w.as_bytes()).collect();
    demo.write_all(&words.join(&0)).and_then(|()| demo.shutdown(Shutdown::Write)).context(demo_ended)?;
    let mut stdout = super::output::stdout();
    for line in BufReader::new(demo).lines() {
        let line = line.context(demo_ended)?;
        if let Some(question) = line.strip_prefix('?') {
            return Ok(Answer::Asks(question.to_owned()));
        }
        match (line.strip_prefix('+'), line.strip_prefix('=').and_then(|code| code.parse::<u8>().ok())) {
            (Some(text), _) => {
                writeln!(stdout, "{text}")?;
                stdout.flush()?;
            }
            (None, Some(code)) => return Ok(Answer::Ended(code)),
            (None, None) => break,
        }
    }
    anyhow::bail!(demo_ended)
}

#[cfg(test)]
mod tests {
    use super::super::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn all_arguments_are_passed_on() {
        for words in [
            &["--version"][..],
            &["up", "-y", "--no-config-cache", "--log-style", "pretty", "a.yaml"],
            &["--help"],
        ] {
            let given = [&["marin-tui", "demo-ray", "/s"], words].concat();
            match Arguments::try_parse_from(given).unwrap().command {
                Some(Command::DemoRay(arguments)) => assert_eq!(arguments.words, words),
                other => panic!("{other:?}"),
            }
        }
    }
}
