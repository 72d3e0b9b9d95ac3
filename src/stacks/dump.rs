//! Parses the text of `py-spy dump` (`print_trace` in py-spy's `src/dump.rs`), as returned by Ray's routes
//! `/worker/traceback` and `/task/traceback`.

use crate::model::Text;
use std::fmt;

/// Maximum number of frames kept per thread; a runaway recursion has ten thousand.
const MAX_FRAMES: usize = 256;
/// Maximum number of threads kept.
const MAX_THREADS: usize = 512;

/// The stacks of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Its process id.
    pub pid: Option<u32>,
    /// Its command line or process title, e.g. `ray::train_step`.
    pub process: Text,
    /// Its threads, in the order of the dump.
    pub threads: Vec<Thread>,
}

/// A thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name, e.g. `MainThread`; empty if it has none.
    pub name: Text,
    /// Its state, as reported by py-spy: `idle`, `active`, `active+gil`.
    pub state: Text,
    /// Its frames, innermost first.
    pub frames: Vec<Frame>,
    /// Number of outer frames that are omitted.
    pub left_out: usize,
}

/// A frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The function, e.g. `Trainer.step`.
    pub function: Text,
    /// Its file, relative to Python's path if it is below that.
    pub file: Text,
    /// The line; `None` in native code.
    pub line: Option<u32>,
}

impl Dump {
    /// Reads a dump. Other lines, such as warnings of py-spy, are skipped; `None` if it contains no thread.
    pub fn read(text: &str) -> Option<Self> {
        let mut dump = Self::default();
        for line in text.lines() {
            if let Some(thread) = line.strip_prefix("Thread ") {
                if dump.threads.len() < MAX_THREADS {
                    dump.threads.extend(Thread::read(thread));
                }
            } else if let Some(frame) = line.strip_prefix("    ") {
                let Some(thread) = dump.threads.last_mut() else { continue };
                let Some(frame) = Frame::read(frame) else { continue };
                if thread.frames.len() < MAX_FRAMES {
                    thread.frames.push(frame);
                } else {
                    thread.left_out += 1;
                }
            } else if let Some((pid, process)) =
                line.strip_prefix("Process ").and_then(|rest| rest.split_once(": "))
                && dump.threads.is_empty()
            {
                (dump.pid, dump.process) = (pid.parse().ok(), process.into());
            }
        }
        (!dump.threads.is_empty()).then_some(dump)
    }
}

impl Thread {
    /// `1226 (idle): "MainThread"`, `0x7F3A (active)`.
    fn read(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once(" (")?;
        let (state, rest) = rest.split_once(')')?;
        let name = rest.strip_prefix(": \"").and_then(|name| name.strip_suffix('"')).unwrap_or_default();
        Some(Self { name: name.into(), state: state.into(), frames: Vec::new(), left_out: 0 })
    }
}

impl Frame {
    /// `Worker.main_loop (ray/_private/worker.py:1031)`, `__poll (libc.so.6)`.
    fn read(text: &str) -> Option<Self> {
        // The lines that --locals adds are indented further.
        let (function, location) =
            text.strip_suffix(')')?.rsplit_once(" (").filter(|_| !text.starts_with(' '))?;
        let at = location.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let (file, line) = at.map_or((location, None), |(file, line)| (file, Some(line)));
        Some(Self { function: function.into(), file: file.into(), line })
    }
}

/// `train_step (trainer.py:412)`, safe for a terminal.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{} ({}:{line})", self.function, self.file),
            None => write!(f, "{} ({})", self.function, self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A response of Ray 2.53.
    pub const WORKER: &str = "Process 1226: ray::train_step\nPython v3.11.7 (/opt/python/bin/python3.11)\n\nThread 1226 (idle): \"MainThread\"\n    train_step (busy.py:5)\n    Worker.main_loop (ray/_private/worker.py:1031)\n    <module> (ray/_private/workers/default_worker.py:322)\nThread 1264 (idle): \"PythonGCThread\"\n    Condition.wait (threading.py:327)\n    Event.wait (threading.py:629)\n    PythonGCThread.run (ray/_private/gc_collect_manager.py:29)\n    Thread._bootstrap_inner (threading.py:1045)\n    Thread._bootstrap (threading.py:1002)\n";

    #[test]
    fn a_dump_is_read() {
        let dump = Dump::read(WORKER).unwrap();
        assert_eq!((dump.pid, dump.process.raw()), (Some(1226), "ray::train_step"));
        let threads: Vec<_> =
            dump.threads.iter().map(|t| (t.name.raw(), t.state.raw(), t.frames.len())).collect();
        assert_eq!(threads, [("MainThread", "idle", 3), ("PythonGCThread", "idle", 5)]);
        assert_eq!(dump.threads[0].frames[0].to_string(), "train_step (busy.py:5)");
    }

    #[test]
    fn native_code_names_without_spaces_and_threads_without_names_are_read() {
        let text = "Thread 0x7F12 (active+gil)\n    __poll (libc.so.6)\n    <lambda> (a b.py:3)\n        Locals:\n            x: 1 (of:2)\n    f\n";
        let dump = Dump::read(text).unwrap();
        let frames: Vec<_> = dump.threads[0].frames.iter().map(ToString::to_string).collect();
        assert_eq!(frames, ["__poll (libc.so.6)", "<lambda> (a b.py:3)"]);
        assert_eq!((dump.threads[0].name.raw(), dump.threads[0].state.raw()), ("", "active+gil"));
    }

    #[test]
    fn an_endless_recursion_is_truncated_and_counted() {
        let text = format!("Thread 1 (idle): \"MainThread\"\n{}", "    f (deep.py:2)\n".repeat(10_000));
        let thread = &Dump::read(&text).unwrap().threads[0];
        assert_eq!((thread.frames.len(), thread.left_out), (MAX_FRAMES, 10_000 - MAX_FRAMES));
    }

    #[test]
    fn other_text_is_not_a_dump() {
        for text in
            ["", "Failed to execute `['py-spy', 'dump', '-p', '9']`.\n", "Process 1: x\nPython v3\n\n"]
        {
            assert_eq!(Dump::read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(Thread |    |Process |\\PC|\n|\\(|\\)|:|\"){0,60}") {
            let _ = Dump::read(&text);
        }
    }
}
