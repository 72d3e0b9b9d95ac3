//! The program as a command.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program at somebody's home, with nothing of the environment of the person who runs the tests.
pub fn program(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_marin-tui"));
    command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").current_dir(home).stdin(Stdio::null());
    // Nobody's metadata server.
    command.env("GCE_METADATA_HOST", "127.0.0.1:9");
    command
}

/// How a command ended, and what it wrote.
pub struct Ran {
    /// Its exit code; nothing when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Ran {
    /// All of it as text.
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// The same, when it ended with this exit code.
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        self
    }

    /// The standard output of one that has succeeded.
    pub fn good(self) -> String {
        self.exits(0).out
    }

    /// The standard error of one that has failed and written nothing else.
    pub fn bad(self) -> String {
        assert!(self.code != Some(0) && self.out.is_empty(), "{}{}", self.out, self.err);
        self.err
    }

    /// The gate that has refused the operation, as `--json` names it, and what the command says beside it.
    pub fn refused(self) -> (String, String) {
        let ran = self.exits(1);
        let rows = ran.json();
        assert_eq!(rows.as_array().map(Vec::len), Some(1), "{}{}", ran.out, ran.err);
        (rows[0]["refused"].as_str().unwrap_or_else(|| panic!("{}{}", ran.out, ran.err)).to_owned(), ran.err)
    }

    /// The objects of its standard output, one a line.
    pub fn lines(&self) -> Vec<Value> {
        let objects = self.out.lines().map(serde_json::from_str);
        objects.collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }

    /// Its standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }
}

/// Sends a signal (`-INT`, `-TERM`..) to a process.
pub fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}
