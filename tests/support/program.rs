//! Runs the program as a command.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program with this home directory, without the environment of the user who runs the tests.
pub fn program(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marin-tui"));
    command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").current_dir(home).stdin(Stdio::null());
    // No metadata server listens there.
    command.env("GCE_METADATA_HOST", "127.0.0.1:9");
    command
}

/// The exit code and output of a command.
pub struct Ran {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Ran {
    /// Converts the output to text.
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Asserts the exit code.
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self
    }

    /// Asserts success; returns the standard output.
    pub fn good(self) -> String {
        self.exits(0).out
    }

    /// Asserts failure without standard output; returns the standard error.
    pub fn bad(self) -> String {
        assert!(self.code != Some(0) && self.out.is_empty(), "{}{}", self.out, self.err);
        self.err
    }

    /// The gate that rejected the operation, as `--json` reports it, and the standard error.
    pub fn refused(self) -> (String, String) {
        let ran = self.exits(1);
        let rows = ran.json();
        assert_eq!(rows.as_array().map(Vec::len), Some(1), "{}{}", ran.out, ran.err);
        (rows[0]["refused"].as_str().unwrap_or_else(|| panic!("{}{}", ran.out, ran.err)).to_owned(), ran.err)
    }

    /// The JSON objects in its standard output, one per line.
    pub fn lines(&self) -> Vec<Value> {
        let objects = self.out.lines().map(serde_json::from_str);
        objects.collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }

    /// Its standard output parsed as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }
}

/// Sends a signal (`-INT`, `-TERM`..) to a process.
pub fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}
