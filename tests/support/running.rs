//! A program that is started by a test and says things, line by line.

#![allow(dead_code, reason = "each test crate uses its part")]

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a line may take to come before a test gives up.
const DEADLINE: Duration = Duration::from_secs(90);

/// What a program writes, line by line.
pub struct Said {
    lines: Receiver<String>,
    /// What was read so far.
    pub all: Vec<String>,
}

impl Said {
    fn new(from: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(from).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        Self { lines, all: Vec::new() }
    }

    /// Reads on until these words were said so many times.
    pub fn until_times(&mut self, words: &str, times: usize) {
        while count(&self.all, words) < times {
            let line = self.lines.recv_timeout(DEADLINE);
            self.all.push(line.unwrap_or_else(|e| panic!("{e}: not said: {words}: {:?}", self.all)));
        }
    }

    /// Reads on until these words were said.
    pub fn until(&mut self, words: &str) {
        self.until_times(words, 1);
    }

    /// Everything, once the program has ended.
    pub fn whole(mut self) -> Vec<String> {
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            self.all.push(line);
        }
        self.all
    }
}

/// A program that runs.
pub struct Running {
    child: Child,
    /// Its standard output.
    pub out: Said,
    /// Its standard error.
    pub err: Said,
}

impl Running {
    /// Starts it, with nothing on its standard input.
    pub fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, out: Said::new(out), err: Said::new(err) }
    }

    /// Waits for its end: code, standard output, standard error.
    pub fn ends(mut self) -> (Option<i32>, Vec<String>, Vec<String>) {
        let (out, err) = (self.out.whole(), self.err.whole());
        (self.child.wait().unwrap().code(), out, err)
    }
}

/// How many lines have these words.
pub fn count(lines: &[String], words: &str) -> usize {
    lines.iter().filter(|line| line.contains(words)).count()
}
