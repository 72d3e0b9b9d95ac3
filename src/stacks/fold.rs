//! What of a process's stacks tells where it stands: the thread that does its work, without the frames of Ray and of
//! Python's own machinery around it.

use super::{Dump, Frame, Thread};

/// Where a process stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The frames of the program itself, the innermost first; what is further in of Python's library or of Ray stands
    /// before them as one frame. Empty when only Ray's own code runs: the worker waits for a task.
    pub frames: Vec<Frame>,
}

/// Modules of Python's own library in which a thread waits or is started, relative to Python's path.
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

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Program,
    Library,
    Ray,
}

fn whose(frame: &Frame) -> Whose {
    let file = frame.file.raw();
    // A path that py-spy could not shorten is absolute.
    let file = ["/site-packages/", "/dist-packages/"]
        .iter()
        .find_map(|folder| file.rsplit_once(folder).map(|(_, rest)| rest))
        .unwrap_or(file);
    match () {
        () if file.starts_with("ray/") => Whose::Ray,
        () if LIBRARY.iter().any(|module| file.starts_with(module)) => Whose::Library,
        // Native frames have no line: a library that is called from somewhere.
        () if frame.line.is_none() => Whose::Library,
        () => Whose::Program,
    }
}

/// Where a process stands: by its main thread if code of the program runs there, else by the first thread in which it
/// does (actors with threads or asyncio run their methods elsewhere).
pub fn place(dump: &Dump) -> Place {
    places(dump).next().map_or(Place { frames: Vec::new() }, |(_, place)| place)
}

/// The threads in which code of the program runs, the main one first.
pub fn places(dump: &Dump) -> impl Iterator<Item = (&Thread, Place)> {
    let is_main = |thread: &&Thread| thread.name.raw() == "MainThread";
    let (main, others) = dump.threads.iter().partition::<Vec<_>, _>(is_main);
    let folded = main.into_iter().chain(others).map(|thread| (thread, folded(thread)));
    folded.filter(|(_, place)| !place.is_idle())
}

/// Whether it is a worker of Ray, which calls itself `ray::` and what it runs.
pub fn is_worker(dump: &Dump) -> bool {
    dump.process.raw().starts_with("ray::")
}

/// Whether it is a driver: Ray's code runs in it, as in the thread that waits for errors of the cluster
/// (`ray_listen_error_messages`), and it is no worker.
pub fn is_driver(dump: &Dump) -> bool {
    let mut frames = dump.threads.iter().flat_map(|thread| &thread.frames);
    !is_worker(dump) && frames.any(|frame| whose(frame) == Whose::Ray)
}

fn folded(thread: &Thread) -> Place {
    let of_program = |frame: &&Frame| whose(frame) == Whose::Program;
    let mut frames: Vec<Frame> = thread.frames.iter().filter(of_program).cloned().collect();
    // What it waits in: the outermost function that the program has called.
    let called = thread.frames.iter().take_while(|frame| !of_program(frame)).last();
    if !frames.is_empty()
        && let Some(called) = called
    {
        frames.insert(0, called.clone());
    }
    Place { frames }
}

impl Place {
    /// Whether no code of the program runs: the worker waits for a task.
    pub fn is_idle(&self) -> bool {
        self.frames.is_empty()
    }

    /// The innermost frame of the program itself.
    pub fn at(&self) -> Option<&Frame> {
        self.frames.iter().find(|frame| whose(frame) == Whose::Program)
    }

    /// What it waits in, when that is not the program's own code.
    pub fn within(&self) -> Option<&Frame> {
        self.frames.first().filter(|frame| whose(frame) != Whose::Program)
    }

    /// In one line: `W.stuck (gang.py:13) in Event.wait`.
    pub fn words(&self) -> String {
        match (self.at(), self.within()) {
            (None, _) => "no task: waits for Ray".to_owned(),
            (Some(at), None) => at.to_string(),
            (Some(at), Some(within)) => format!("{at} in {}", within.function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Place {
        place(&Dump::read(text).unwrap())
    }

    #[test]
    fn the_frames_of_ray_and_of_threads_are_folded_away() {
        let place = of(
            "Thread 9 (idle): \"Other\"\n    f (a.py:1)\nThread 1 (idle): \"MainThread\"\n    wait (threading.py:331)\n    wait (threading.py:629)\n    W.stuck (gang.py:13)\n    W.run (gang.py:30)\n    _resume_span (ray/util/tracing/tracing_helper.py:467)\n    main_loop (ray/_private/worker.py:1031)\n    <module> (ray/_private/workers/default_worker.py:322)\n",
        );
        let frames: Vec<_> = place.frames.iter().map(ToString::to_string).collect();
        assert_eq!(frames, ["wait (threading.py:629)", "W.stuck (gang.py:13)", "W.run (gang.py:30)"]);
        assert_eq!(place.words(), "W.stuck (gang.py:13) in wait");
    }

    #[test]
    fn a_method_in_a_thread_is_found_there() {
        let place = of(
            "Thread 1 (idle): \"MainThread\"\n    main_loop (/opt/lib/python3.11/site-packages/ray/_private/worker.py:1031)\nThread 2 (active): \"ThreadPoolExecutor-0_0\"\n    step (train.py:9)\n    run (concurrent/futures/thread.py:58)\n    _bootstrap (threading.py:1002)\n",
        );
        assert_eq!(place.words(), "step (train.py:9)");
    }

    #[test]
    fn a_worker_without_a_task_stands_nowhere() {
        let place = of(
            "Thread 1 (idle): \"MainThread\"\n    main_loop (ray/_private/worker.py:1031)\n    <module> (ray/_private/workers/default_worker.py:322)\n",
        );
        assert!(place.is_idle());
        assert_eq!(place.words(), "no task: waits for Ray");
    }

    #[test]
    fn a_call_of_ray_and_of_native_code_is_named() {
        let place = of(
            "Thread 1 (idle): \"MainThread\"\n    get_objects (ray/_private/worker.py:980)\n    get (ray/_private/worker.py:2962)\n    main (driver.py:10)\n",
        );
        assert_eq!(place.words(), "main (driver.py:10) in get");
        let place = of("Thread 1 (active): \"MainThread\"\n    __poll (libc.so.6)\n    step (train.py:7)\n");
        assert_eq!(place.words(), "step (train.py:7) in __poll");
    }
}
