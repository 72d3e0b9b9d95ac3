//! The binary: parses arguments, chooses the front end, sets the exit code.

use clap::Parser;
use marin_tui::cli::{self, Arguments};
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("marin-tui: {e:#}");
            ExitCode::FAILURE
        }
    }
}
