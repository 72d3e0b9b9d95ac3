//! The binary: parses arguments, chooses the front end, sets the exit code.

use clap::Parser;
use marin_tui::cli::{self, Arguments};
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
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
