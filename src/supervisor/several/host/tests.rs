//! Tests of following several files of one host.

use super::*;
use crate::config::{Env, Folders, Settings};
use crate::model::Provider;
use crate::token::TokenSources;
use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;

/// Files of a directory that this machine's shell follows, and their readers.
struct Shell {
    files: Files,
    readers: Vec<mpsc::Receiver<FileEvent>>,
    /// Maximum number of bytes that are received at a time.
    chunk: usize,
}

impl Shell {
    fn new(names: &[&str], keep: u32) -> Self {
        let pairs = names.iter().map(|name| {
            let (to, reader) = mpsc::channel(1000);
            (FollowedFile::new((*name).to_owned(), to), reader)
        });
        let (feeds, readers) = pairs.unzip();
        // A chunk may end anywhere.
        Self { files: Files::new(feeds, keep), readers, chunk: 7 }
    }

    /// Runs the script until `enough` accepts the events that the readers received.
    async fn run(&mut self, folder: &Path, events: &mut Vec<String>, enough: impl Fn(&[String]) -> bool) {
        let mut program = self.files.program();
        program[4] = folder.to_str().unwrap().to_owned();
        let mut sh = tokio::process::Command::new(&program[0]);
        sh.args(&program[1..]).stdout(std::process::Stdio::piped()).kill_on_drop(true);
        let mut sh = sh.spawn().unwrap();
        let mut stdout = sh.stdout.take().unwrap();
        let (mut frames, mut chunk) = (Frames::default(), vec![0; self.chunk]);
        while !enough(events) {
            let n = stdout.read(&mut chunk).await.unwrap();
            assert!(n > 0, "the script ended after {events:?}");
            frames.push(Bytes::copy_from_slice(&chunk[..n]));
            while let Some(frame) = frames.next() {
                self.files.take(frame.unwrap()).await;
            }
            for (number, reader) in self.readers.iter_mut().enumerate() {
                while let Ok(fed) = reader.try_recv() {
                    events.push(match fed {
                        FileEvent::Bytes(bytes) => {
                            format!("{number} {}", String::from_utf8_lossy(&bytes))
                        }
                        other => format!("{number} {other:?}"),
                    });
                }
            }
        }
    }
}

/// The bytes that the reader of a file received, in one piece.
fn of(events: &[String], number: usize) -> String {
    events.iter().filter_map(|events| events.strip_prefix(&format!("{number} "))).collect()
}

fn add(file: &Path, text: &str) {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn files_begin_with_their_last_lines_and_grow() {
    let folder = tempfile::tempdir().unwrap();
    let name = "it's a $(x).out";
    let (a, b) = (folder.path().join(name), folder.path().join("b.err"));
    add(&a, "one\ntwo\n\x1eb 2 1 1 3\nfour");
    add(&b, "first\n");
    let mut shell = Shell::new(&[name, "b.err", "gone.out"], 2);
    let mut events = Vec::new();
    let is_read = |events: &[String]| of(events, 0).ends_with("four") && !of(events, 2).is_empty();
    shell.run(folder.path(), &mut events, is_read).await;
    assert_eq!(of(&events, 0), "\x1eb 2 1 1 3\nfour", "control lines in a log are passed on as text");
    assert_eq!((of(&events, 1), of(&events, 2)), ("first\n".to_owned(), "Elsewhere(None)".to_owned()));
    // After a restart, each file continues at its position.
    add(&a, " and\nfive\n");
    add(&b, "last\n");
    let mut events = Vec::new();
    let is_read = |events: &[String]| of(events, 0).ends_with("five\n") && of(events, 1).ends_with("last\n");
    shell.run(folder.path(), &mut events, is_read).await;
    assert_eq!((of(&events, 0), of(&events, 1)), (" and\nfive\n".to_owned(), "last\n".to_owned()));
    add(&a, "six\n");
    let mut events = Vec::new();
    shell.run(folder.path(), &mut events, |events| of(events, 0).ends_with("six\n")).await;
    assert_eq!(of(&events, 0), "six\n", "no line is sent twice");
}

/// A log of one line, which has been read.
async fn one_line_read() -> (tempfile::TempDir, PathBuf, Shell, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("worker.out");
    add(&log, "one\n");
    let (mut shell, mut events) = (Shell::new(&["worker.out"], u32::MAX), Vec::new());
    shell.run(folder.path(), &mut events, |events| of(events, 0).ends_with("one\n")).await;
    (folder, log, shell, events)
}

#[tokio::test]
async fn no_line_is_lost_in_a_rotation() {
    let (folder, log, mut shell, mut events) = one_line_read().await;
    add(&log, "two\n");
    std::fs::rename(&log, folder.path().join("worker.out.1")).unwrap();
    add(&log, "three\n");
    shell.run(folder.path(), &mut events, |events| of(events, 0).ends_with("three\n")).await;
    std::fs::write(&log, "x\n").unwrap();
    shell.run(folder.path(), &mut events, |events| of(events, 0).ends_with("x\n")).await;
    add(&folder.path().join("new"), "new\n");
    std::fs::rename(folder.path().join("new"), &log).unwrap();
    shell.run(folder.path(), &mut events, |events| of(events, 0).ends_with("new\n")).await;
    let note_of = |what: &str| format!("Note(\"worker.out {what}\")");
    let note = |what: &str| note_of(&format!("was {what}"));
    let (rotated, cut) =
        (note("rotated; lines of the new file follow"), note("truncated; reading it from the beginning"));
    let gone = note_of("was deleted; its last lines may be missing");
    assert_eq!(of(&events, 0), format!("one\ntwo\n{rotated}three\n{cut}x\n{gone}{rotated}new\n"));
}

#[tokio::test]
async fn a_second_rotation_in_an_interruption_is_reported() {
    // The suffixes of the file that was read and of the one after it.
    for [first, second] in [[".2", ".1"], ["-20261126", "-20261127"]] {
        let (folder, log, mut shell, mut events) = one_line_read().await;
        add(&log, "two\n");
        let old = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
        old.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(60)).unwrap();
        std::fs::rename(&log, folder.path().join(format!("worker.out{first}"))).unwrap();
        add(&folder.path().join(format!("worker.out{second}")), "not read\n");
        add(&log, "three\n");
        shell.run(folder.path(), &mut events, |events| of(events, 0).ends_with("three\n")).await;
        let note = |what: &str| format!("Note(\"worker.out was rotated{what}\")");
        let lost = note(" more than once; lines written in between are lost");
        let rotated = note("; lines of the new file follow");
        assert_eq!(of(&events, 0), format!("one\ntwo\n{lost}{rotated}three\n"), "{second}");
    }
}

#[tokio::test]
async fn ended_files_are_read_to_their_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.out"), folder.path().join("b.err"));
    add(&a, "one\n");
    add(&b, "");
    let mut shell = Shell::new(&["a.out", "b.err"], u32::MAX);
    let mut events = Vec::new();
    shell.run(folder.path(), &mut events, |events| of(events, 0) == "one\n").await;
    // More than a round sends of a file.
    add(&a, &"x".repeat(5 << 20));
    add(&b, "last\n");
    shell.files.begin(true);
    shell.chunk = 1 << 16;
    let is_complete =
        |events: &[String]| events.iter().filter(|event| event.ends_with("Complete")).count() == 2;
    shell.run(folder.path(), &mut events, is_complete).await;
    assert!(shell.files.end == End::Reached);
    let rest = of(&events, 0).strip_prefix("one\n").unwrap().strip_suffix("Complete").unwrap().len();
    assert_eq!((rest, of(&events, 1)), (5 << 20, "last\nComplete".to_owned()));
}

#[tokio::test]
async fn a_rotation_that_is_noticed_late_loses_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("worker.out");
    // More than a pipe holds: while nothing is read, the script waits, and further rounds wait for it.
    let long = format!("{}\n", "x".repeat(1 << 20));
    add(&log, &long);
    let mut shell = Shell::new(&["worker.out"], u32::MAX);
    shell.chunk = 1 << 16;
    let is_rotated = Cell::new(false);
    let mut events = Vec::new();
    let rotate = |events: &[String]| {
        if !events.is_empty() && !is_rotated.replace(true) {
            add(&log, "two\n");
            // Some rounds find the new size.
            std::thread::sleep(Duration::from_millis(1500));
            std::fs::rename(&log, folder.path().join("worker.out.1")).unwrap();
            add(&log, "three\n");
        }
        of(events, 0).ends_with("three\n")
    };
    shell.run(folder.path(), &mut events, rotate).await;
    let all = of(&events, 0);
    let rest = all.strip_prefix(&long).expect("the first line is complete");
    assert_eq!(rest, "two\nNote(\"worker.out was rotated; lines of the new file follow\")three\n");
}

#[tokio::test]
async fn only_a_host_that_was_never_read_is_looked_for_in_its_container() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.yaml");
    std::fs::write(&path, "cluster_name: lab\ndocker: {image: i, container_name: ray_docker}\n").unwrap();
    let env = Env::new(&[("HOME", folder.path().to_str().unwrap())], folder.path());
    let options = Options::new(&Settings::default(), &Folders::new(&env), TokenSources::default());
    let options = Arc::new(options);
    let (_access, access_watch) = watch::channel(None);
    let host = |file: Option<&Path>, has_output: bool| {
        let spec =
            ClusterSpec { file: file.map(Path::to_owned), ..ClusterSpec::sample("lab", Provider::Local) };
        let files = Files { has_output, ..Files::new(Vec::new(), 5) };
        let of = (Arc::new(spec), Arc::clone(&options));
        let logins = Arc::new(Semaphore::new(1));
        HostFiles::new(access_watch.clone(), of, Some(TpuHost::at("10.0.0.2")), files, (logins, None))
    };
    let file = Some(path.as_path());
    let (mut unread, mut read) = (host(file, false), host(file, true));
    assert!(!unread.enters_container(&ReadError::Refused("permission denied")));
    assert!(unread.enters_container(&ReadError::NoFolder) && unread.inside);
    assert!(!unread.enters_container(&ReadError::NoFolder), "it is entered only once");
    assert!(!read.enters_container(&ReadError::NoFolder), "Ray has not started again on the host");
    let mut plain = host(None, false);
    assert!(!plain.enters_container(&ReadError::NoFolder) && plain.command().is_ok());
    assert_eq!(reason(&ReadError::NoFolder), "no Ray log directory", "the reader knows the host");
}

#[tokio::test]
async fn a_directory_is_reported_once_as_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("dir.out")).unwrap();
    let mut shell = Shell::new(&["dir.out"], 5);
    let mut events = Vec::new();
    shell.run(folder.path(), &mut events, |events| !events.is_empty()).await;
    assert_eq!(of(&events, 0), "Note(\"dir.out cannot be read: it is not a regular file\")");
}
