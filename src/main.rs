//! The binary: parses arguments, starts tracing, chooses the front end, sets the exit code.

fn main() {}
