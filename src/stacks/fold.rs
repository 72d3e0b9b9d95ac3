//! Reduces the stacks of a process to where its program is: the thread that does its work, without the frames of Ray
//! and of Python's own machinery.

use super::{Dump, Frame, Thread};

/// Where the program of a process is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackLocation {
    /// The frames of the program itself, innermost first. If it has called into Python's library or Ray, one frame for
    /// that call precedes them. Empty if only Ray's own code runs: the worker waits for a task.
    pub frames: Vec<Frame>,
}

/// Modules of Python's standard library in which a thread waits or is started, relative to Python's path.
const LIBRARY: &[&str] = &[
    "_bootstrap",
    "asyncio/",
    "concurrent/futures/",
    "contextlib.py",
    "functools.py",
    "multiprocessing/",
    "queue.py",
    "runpy.py",
    "selectors.py",
    "socket.py",
    "ssl.py",
    "subprocess.py",
    "threading.py",
];

/// The owner of a frame's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Program,
    Library,
    Ray,
}

fn owner(frame: &Frame) -> Owner {
    let file = frame.file.raw();
    // A path that py-spy could not shorten is absolute.
    let file = ["/site-packages/", "/dist-packages/"]
        .iter()
        .find_map(|folder| file.rsplit_once(folder).map(|(_, rest)| rest))
        .unwrap_or(file);
    match () {
        () if file.starts_with("ray/") => Owner::Ray,
        () if LIBRARY.iter().any(|module| file.starts_with(module)) => Owner::Library,
        // Native frames have no line number; they belong to a library.
        () if frame.line.is_none() => Owner::Library,
        () => Owner::Program,
    }
}

/// Where the program of a process is: in its main thread if code of the program runs there, otherwise in the first
/// thread in which it does (actors with threads or asyncio run their methods in other threads).
pub fn location(dump: &Dump) -> StackLocation {
    locations(dump).next().map_or(StackLocation { frames: Vec::new() }, |(_, location)| location)
}

/// The threads in which code of the program runs, the main thread first.
pub fn locations(dump: &Dump) -> impl Iterator<Item = (&Thread, StackLocation)> {
    let is_main = |thread: &&Thread| thread.name.raw() == "MainThread";
    let (main, others) = dump.threads.iter().partition::<Vec<_>, _>(is_main);
    let folded = main.into_iter().chain(others).map(|thread| (thread, folded(thread)));
    folded.filter(|(_, location)| !location.is_idle())
}

/// Whether it is a worker of Ray, whose process title is `ray::` and the name of what it runs.
pub fn is_worker(dump: &Dump) -> bool {
    dump.process.raw().starts_with("ray::")
}

/// Whether it is a driver: not a worker, but with Ray's code in one of its threads, such as the one that listens for
/// errors of the cluster (`ray_listen_error_messages`).
pub fn is_driver(dump: &Dump) -> bool {
    let mut frames = dump.threads.iter().flat_map(|thread| &thread.frames);
    !is_worker(dump) && frames.any(|frame| owner(frame) == Owner::Ray)
}

fn folded(thread: &Thread) -> StackLocation {
    let of_program = |frame: &&Frame| owner(frame) == Owner::Program;
    let mut frames: Vec<Frame> = thread.frames.iter().filter(of_program).cloned().collect();
    // The function that the program has called.
    let called = thread.frames.iter().take_while(|frame| !of_program(frame)).last();
    if !frames.is_empty()
        && let Some(called) = called
    {
        frames.insert(0, called.clone());
    }
    StackLocation { frames }
}

impl StackLocation {
    /// Whether no code of the program runs, because the worker waits for a task.
    pub fn is_idle(&self) -> bool {
        self.frames.is_empty()
    }

    /// The innermost frame of the program itself.
    pub fn at(&self) -> Option<&Frame> {
        self.frames.iter().find(|frame| owner(frame) == Owner::Program)
    }

    /// The function that the program has called, if it is not the program's own code.
    pub fn within(&self) -> Option<&Frame> {
        self.frames.first().filter(|frame| owner(frame) != Owner::Program)
    }

    /// The location in one line: `W.stuck (gang.py:13) in Event.wait`.
    pub fn text(&self) -> String {
        match (self.at(), self.within()) {
            (None, _) => "idle (no task)".to_owned(),
            (Some(at), None) => at.to_string(),
            (Some(at), Some(within)) => format!("{at} in {}", within.function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> StackLocation {
        location(&Dump::read(text).unwrap())
    }

    #[test]
    fn the_frames_of_ray_and_of_threads_are_removed() {
        let location = of(
            "Thread 9 (idle): \"Other\"\n    f (a.py:1)\nThread 1 (idle): \"MainThread\"\n    wait (threading.py:331)\n    wait (threading.py:629)\n    W.stuck (gang.py:13)\n    W.run (gang.py:30)\n    _resume_span (ray/util/tracing/tracing_helper.py:467)\n    main_loop (ray/_private/worker.py:1031)\n    <module> (ray/_private/workers/default_worker.py:322)\n",
        );
        let frames: Vec<_> = location.frames.iter().map(ToString::to_string).collect();
        assert_eq!(frames, ["wait (threading.py:629)", "W.stuck (gang.py:13)", "W.run (gang.py:30)"]);
        assert_eq!(location.text(), "W.stuck (gang.py:13) in wait");
    }

    #[test]
    fn a_method_in_a_thread_is_found_there() {
        let location = of(
            "Thread 1 (idle): \"MainThread\"\n    main_loop (/opt/lib/python3.11/site-packages/ray/_private/worker.py:1031)\nThread 2 (active): \"ThreadPoolExecutor-0_0\"\n    step (train.py:9)\n    run (concurrent/futures/thread.py:58)\n    _bootstrap (threading.py:1002)\n",
        );
        assert_eq!(location.text(), "step (train.py:9)");
    }

    #[test]
    fn a_worker_without_a_task_is_idle() {
        let location = of(
            "Thread 1 (idle): \"MainThread\"\n    main_loop (ray/_private/worker.py:1031)\n    <module> (ray/_private/workers/default_worker.py:322)\n",
        );
        assert!(location.is_idle());
        assert_eq!(location.text(), "idle (no task)");
    }

    #[test]
    fn a_call_of_ray_and_of_native_code_is_named() {
        let location = of(
            "Thread 1 (idle): \"MainThread\"\n    get_objects (ray/_private/worker.py:980)\n    get (ray/_private/worker.py:2962)\n    main (driver.py:10)\n",
        );
        assert_eq!(location.text(), "main (driver.py:10) in get");
        let location =
            of("Thread 1 (active): \"MainThread\"\n    __poll (libc.so.6)\n    step (train.py:7)\n");
        assert_eq!(location.text(), "step (train.py:7) in __poll");
    }
}
