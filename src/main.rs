//! The binary: parses arguments, chooses the front end, sets the exit code.

use marin_tui::cli;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::{ExitCode, exit};

fn main() -> ExitCode {
    end_on_panic();
    // A core file would contain the tokens in memory.
    let maximum = getrlimit(Resource::Core).maximum;
    if let Err(e) = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum }) {
        cli::error_line(format_args!(
            "marin-tui: cannot disable core dumps; a crash may write tokens to a core file: {e}"
        ));
    }
    if let Some(code) = cli::answer_shell() {
        return code;
    }
    let arguments = match cli::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        // The message repeats the arguments, which a script may have read from a cluster, so it is cleaned.
        Err(e) if e.use_stderr() => {
            cli::error_line(format_args!("{}", e.to_string().trim_end()));
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
        // `--help` and `--version`.
        Err(e) => e.exit(),
    };
    match cli::dispatch::run(&arguments) {
        Ok(code) => code,
        Err(e) if cli::is_closed(&e) => ExitCode::SUCCESS,
        Err(e) => {
            cli::error_line(format_args!("marin-tui: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Makes a panic in any thread or task end the process: without one of its parts, the program would show stale data as
/// current.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        exit(101);
    }));
}
