//! A program started by a test, whose output is read line by line.

#![allow(dead_code, reason = "each test crate uses its part")]

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Time limit for a line of output.
const DEADLINE: Duration = Duration::from_secs(90);

/// An output stream of a program, read line by line.
pub struct Output {
    lines: Receiver<String>,
    /// All lines read so far, each with its line end.
    pub all: String,
}

impl Output {
    fn new(from: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(from).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        Self { lines, all: String::new() }
    }

    fn record(&mut self, line: &str) {
        self.all.push_str(line);
        self.all.push('\n');
    }

    fn line(&mut self, what: &str) -> String {
        let line = self.lines.recv_timeout(DEADLINE);
        let line = line.unwrap_or_else(|e| panic!("{e}: not in the output: {what}: {}", self.all));
        self.record(&line);
        line
    }

    /// The next line.
    pub fn next(&mut self) -> String {
        self.line("a line")
    }

    /// The lines received since the last read.
    pub fn received(&mut self) -> Vec<String> {
        let lines: Vec<String> = self.lines.try_iter().collect();
        for line in &lines {
            self.record(line);
        }
        lines
    }

    /// Reads until a further line contains these words.
    pub fn wait_for(&mut self, words: &str) {
        while !self.line(words).contains(words) {}
    }

    /// Reads until these words have appeared in this many lines.
    pub fn until_times(&mut self, words: &str, times: usize) {
        while count(&self.all, words) < times {
            self.line(words);
        }
    }

    /// Reads until these words have appeared, including in earlier lines.
    pub fn until(&mut self, words: &str) {
        self.until_times(words, 1);
    }

    /// Reads until the program ends; returns all output.
    pub fn whole(&mut self) -> String {
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            self.record(&line);
        }
        std::mem::take(&mut self.all)
    }
}

/// A running program; killed when this is dropped.
pub struct Running {
    /// Its process.
    pub child: Child,
    /// Its standard output.
    pub out: Output,
    /// Its standard error.
    pub err: Output,
}

impl Running {
    /// Starts a program with empty standard input.
    pub fn start(mut command: Command) -> Self {
        Self::of(command.stdin(Stdio::null()))
    }

    /// Starts a program with a standard input for [`Self::send_line`].
    pub fn listening(mut command: Command) -> Self {
        Self::of(command.stdin(Stdio::piped()))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, out: Output::new(out), err: Output::new(err) }
    }

    /// Reads until a further line of its standard error contains these words.
    pub fn wait_for(&mut self, words: &str) {
        self.err.wait_for(words);
    }

    /// Writes a line to its standard input.
    pub fn send_line(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for the program to end; returns the exit code, standard output and standard error.
    pub fn finish(mut self) -> (Option<i32>, String, String) {
        let (out, err) = (self.out.whole(), self.err.whole());
        (self.child.wait().unwrap().code(), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Number of lines that contain these words.
pub fn count(text: &str, words: &str) -> usize {
    text.lines().filter(|line| line.contains(words)).count()
}
