//! The binary: parses arguments, chooses the front end, sets the exit code.

use clap::Parser;
use marin_tui::cli::{self, Arguments};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    // A core would hold the tokens that we hold.
    let maximum = getrlimit(Resource::Core).maximum;
    if let Err(e) = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum }) {
        cli::error_line(format_args!("marin-tui: a crash may leave a core with tokens in it: {e}"));
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // It repeats what was typed, which a script may have from a cluster.
        Err(e) if e.use_stderr() => {
            cli::error_line(format_args!("{}", e.to_string().trim_end()));
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
        // `--help` and `--version`.
        Err(e) => e.exit(),
    };
    match cli::run(&arguments) {
        Ok(code) => code,
        // Whoever read our output has had enough (`marin-tui configs update --diff | head`).
        Err(e) if e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(e) => {
            cli::error_line(format_args!("marin-tui: {e:#}"));
            ExitCode::FAILURE
        }
    }
}
