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
        eprintln!("marin-tui: a crash may leave a core with tokens in it: {e}");
    }
    match cli::run(&Arguments::parse()) {
        Ok(code) => code,
        // Whoever read our output has had enough (`marin-tui configs update --diff | head`).
        Err(e) if e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("marin-tui: {e:#}");
            ExitCode::FAILURE
        }
    }
}
