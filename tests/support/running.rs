//! A program that is started by a test and says things, line by line.

#![allow(dead_code, reason = "each test crate uses its part")]

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a line may take to come before a test gives up.
const DEADLINE: Duration = Duration::from_secs(90);

/// What a program writes, line by line.
pub struct Said {
    lines: Receiver<String>,
    /// What was read so far, each line with its end.
    pub all: String,
}

impl Said {
    fn new(from: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(from).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        Self { lines, all: String::new() }
    }

    fn note(&mut self, line: &str) {
        self.all.push_str(line);
        self.all.push('\n');
    }

    fn line(&mut self, what: &str) -> String {
        let line = self.lines.recv_timeout(DEADLINE);
        let line = line.unwrap_or_else(|e| panic!("{e}: not said: {what}: {}", self.all));
        self.note(&line);
        line
    }

    /// The next line.
    pub fn next(&mut self) -> String {
        self.line("a line")
    }

    /// The lines that have come meanwhile.
    pub fn at_hand(&mut self) -> Vec<String> {
        let lines: Vec<String> = self.lines.try_iter().collect();
        for line in &lines {
            self.note(line);
        }
        lines
    }

    /// Reads on until a further line has these words.
    pub fn says(&mut self, words: &str) {
        while !self.line(words).contains(words) {}
    }

    /// Reads on until these words were said so many times.
    pub fn until_times(&mut self, words: &str, times: usize) {
        while count(&self.all, words) < times {
            self.line(words);
        }
    }

    /// Reads on until these words were said, perhaps long ago.
    pub fn until(&mut self, words: &str) {
        self.until_times(words, 1);
    }

    /// Everything, once the program has ended.
    pub fn whole(&mut self) -> String {
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            self.note(&line);
        }
        std::mem::take(&mut self.all)
    }
}

/// A program that runs, until this is dropped at the latest.
pub struct Running {
    /// Its process.
    pub child: Child,
    /// Its standard output.
    pub out: Said,
    /// Its standard error.
    pub err: Said,
}

impl Running {
    /// Starts it, with nothing on its standard input.
    pub fn start(mut command: Command) -> Self {
        Self::of(command.stdin(Stdio::null()))
    }

    /// Starts it, with a standard input for [`Self::tell`].
    pub fn listening(mut command: Command) -> Self {
        Self::of(command.stdin(Stdio::piped()))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, out: Said::new(out), err: Said::new(err) }
    }

    /// Reads on until a further line of its standard error has these words.
    pub fn says(&mut self, words: &str) {
        self.err.says(words);
    }

    /// Writes a line to its standard input.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for its end: code, standard output, standard error.
    pub fn ends(mut self) -> (Option<i32>, String, String) {
        let (out, err) = (self.out.whole(), self.err.whole());
        (self.child.wait().unwrap().code(), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many lines have these words.
pub fn count(text: &str, words: &str) -> usize {
    text.lines().filter(|line| line.contains(words)).count()
}
