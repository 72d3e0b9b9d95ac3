//! The programs of a simulated head: those that the console runs, and a few that a person is likely to try. They can
//! access the head's log files, as its dashboard serves them, and no files of this machine.

use super::answer::{Answer, Files, LOGS, Rest, whole};
use super::{log_file, words};

/// A shell's exit code for an unknown command.
const NOT_FOUND: u32 = 127;
/// The available programs.
const PROGRAMS: &str = "cat, echo, exit, help, hostname, ls, pgrep, pwd, tail, true, wc, whoami";

/// The file that `ray up` writes to the home directory.
const BOOTSTRAP: &str = "~/ray_bootstrap_config.yaml";

/// Runs a command line as the head's `sh` would.
pub(super) async fn run(line: &str, files: &Files) -> Answer {
    let words = match words::split(line) {
        Ok(words) => words,
        Err(why) => return Answer::failure(2, format!("sh: {why}")),
    };
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.first() == Some(&"exec") {
        words.remove(0);
    }
    let Some((&program, arguments)) = words.split_first() else { return Answer::default() };
    match program {
        // `sh -c SCRIPT NAME COMMAND` is a wrapper around the command, such as the console's guard. `docker exec` is
        // also treated as a wrapper: everything here is in one container.
        "sh" => match arguments {
            ["-c", _, _, "docker" | "podman", _, _, _, command @ ..] => {
                Box::pin(run(&joined(command), files)).await
            }
            ["-c", _, script, path, arguments @ ..] if script.ends_with("-log") => {
                let other =
                    || Answer::failure(2, "sh: this head is simulated and does not support this script");
                log_file::run(script, path, arguments, files).await.unwrap_or_else(other)
            }
            ["-c", script] | ["-c", _, _, script] => Box::pin(run(script, files)).await,
            _ => Answer::failure(2, "sh: this head is simulated: only `sh -c` is supported"),
        },
        "bash" => match arguments {
            [.., script] if arguments.contains(&"-c") => Box::pin(run(in_shell(script), files)).await,
            _ => Answer::failure(2, "bash: this head is simulated: only `bash -c` is supported"),
        },
        "cat" => cat(arguments, files).await,
        "echo" => Answer::output(arguments.join(" ") + "\n"),
        "exit" | "logout" => {
            let status = arguments.first().and_then(|s| s.parse().ok()).unwrap_or(0);
            Answer { status, exits: true, ..Answer::default() }
        }
        "help" => Answer::output(format!("This head is simulated. Commands: {PROGRAMS}.\n")),
        "hostname" => Answer::output(files.hostname.clone() + "\n"),
        "ls" => list(arguments, files).await,
        "pgrep" => processes(arguments, files),
        "pwd" => Answer::output(LOGS.trim_end_matches('/').to_owned() + "\n"),
        "tail" => tail(arguments, files).await,
        "true" => Answer::default(),
        "wc" => count(arguments, files).await,
        "whoami" => Answer::output("ray\n"),
        other => {
            let note = format!("this head is simulated; commands: {PROGRAMS}");
            Answer::failure(NOT_FOUND, format!("sh: {other}: not found ({note})"))
        }
    }
}

fn no_file(program: &str, path: &str) -> Answer {
    Answer::failure(1, format!("{program}: cannot open '{path}' for reading: No such file or directory"))
}

/// Joins words to a line that [`words::split`] splits into the same words.
fn joined(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    quoted.collect::<Vec<_>>().join(" ")
}

/// The command in parentheses that follows the setup of a login shell.
fn in_shell(script: &str) -> &str {
    let inside = script.split_once("\n(").map(|(_, rest)| rest);
    inside.and_then(|rest| rest.strip_suffix("\n)")).unwrap_or(script)
}

async fn cat(arguments: &[&str], files: &Files) -> Answer {
    let mut out = Vec::new();
    for path in arguments.iter().filter(|a| **a != "--") {
        if *path == BOOTSTRAP {
            let config = files.shared.now(|c| c.bootstrap.clone());
            if config.is_empty() {
                return no_file("cat", path);
            }
            out.extend_from_slice(&config);
            continue;
        }
        match files.open(path, None, false) {
            Some(body) => out.extend_from_slice(&whole(body).await),
            None => return no_file("cat", path),
        }
    }
    Answer::output(out)
}

async fn list(arguments: &[&str], files: &Files) -> Answer {
    let path = arguments.iter().find(|a| !a.starts_with('-')).copied().unwrap_or(".");
    let names = files.names("*").await;
    if matches!(path, "." | "./") || format!("{}/", path.trim_end_matches('/')) == LOGS {
        return Answer::output(names.join("\n") + "\n");
    }
    let name = path.strip_prefix(LOGS).unwrap_or(path);
    if names.iter().any(|n| n == name) {
        return Answer::output(format!("{path}\n"));
    }
    Answer::failure(2, format!("ls: cannot access '{path}': No such file or directory"))
}

/// `pgrep -x NAME`, for Ray's processes on a head.
fn processes(arguments: &[&str], files: &Files) -> Answer {
    let gcs_runs = !files.shared.gcs_is_dead();
    match arguments {
        ["-x", "gcs_server"] if gcs_runs => Answer::output("1042\n"),
        ["-x", "raylet"] => Answer::output("1177\n"),
        ["-x", _] => Answer { status: 1, ..Answer::default() },
        _ => Answer::failure(2, "pgrep: this head is simulated: pgrep -x NAME"),
    }
}

/// `wc -c < FILE` and `wc -l FILE`.
async fn count(arguments: &[&str], files: &Files) -> Answer {
    let Some(path) = arguments.iter().find(|a| !a.starts_with(['-', '<'])) else {
        return Answer::failure(1, "wc: this head is simulated: wc -l FILE or wc -c < FILE");
    };
    let Some(body) = files.open(path, None, false) else { return no_file("wc", path) };
    let bytes = whole(body).await;
    let lines = arguments.contains(&"-l");
    let number = if lines { bytes.split(|b| *b == b'\n').count() - 1 } else { bytes.len() };
    Answer::output(format!("{number}\n"))
}

/// The position at which `tail` begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The last N lines.
    Lines(u64),
    /// The last N bytes.
    Last(u64),
    /// This byte; the first byte is 1.
    Byte(u64),
}

/// The arguments of `tail`.
#[derive(Debug, PartialEq, Eq)]
struct Tail<'a> {
    from: From,
    follow: bool,
    path: &'a str,
}

impl<'a> Tail<'a> {
    fn parse(arguments: &[&'a str]) -> Option<Self> {
        let mut tail = Self { from: From::Lines(10), follow: false, path: "" };
        let mut left = arguments.iter().copied();
        while let Some(word) = left.next() {
            match word {
                "-f" | "-F" => tail.follow = true,
                "--" => {}
                "-c" => tail.from = Self::bytes(left.next()?)?,
                "-n" => tail.from = From::Lines(left.next()?.parse().ok()?),
                _ => match word.strip_prefix('-') {
                    Some(lines) => tail.from = From::Lines(lines.trim_start_matches('n').parse().ok()?),
                    None => tail.path = word,
                },
            }
        }
        (!tail.path.is_empty()).then_some(tail)
    }

    fn bytes(text: &str) -> Option<From> {
        match text.strip_prefix('+') {
            Some(first) => first.parse().ok().map(From::Byte),
            None => text.parse().ok().map(From::Last),
        }
    }
}

async fn tail(arguments: &[&str], files: &Files) -> Answer {
    let Some(Tail { from, follow, path }) = Tail::parse(arguments) else {
        return Answer::failure(1, "tail: this head is simulated: tail [-n LINES | -c [+]BYTES] [-F] FILE");
    };
    let lines = match from {
        From::Lines(0) => Some(1),
        From::Lines(n) => Some(n),
        From::Last(_) | From::Byte(_) => None,
    };
    let body = files.open(path, lines, follow);
    if !follow {
        let Some(body) = body else { return no_file("tail", path) };
        let bytes = whole(body).await;
        let skip = skipped(from, bytes.len() as u64).min(bytes.len() as u64);
        return Answer::output(bytes.slice(skip as usize..));
    }
    let err = if body.is_some() { String::new() } else { no_file("tail", path).err };
    let size = match from {
        From::Last(_) => match files.open(path, None, false) {
            Some(body) => whole(body).await.len() as u64,
            None => 0,
        },
        From::Lines(_) | From::Byte(_) => 0,
    };
    let rest = Rest::of_name(files, path, body, skipped(from, size));
    Answer { err, rest: Some(rest), ..Answer::default() }
}

/// Number of bytes that `tail` skips in a text of this size; `tail -n 0` prints nothing of the existing text.
fn skipped(from: From, size: u64) -> u64 {
    match from {
        From::Lines(0) => size,
        From::Lines(_) => 0,
        From::Last(n) => size.saturating_sub(n),
        From::Byte(n) => n.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{Head, Scenario};

    async fn files() -> (Head, Files) {
        let head = Head::start(Scenario::default()).await.unwrap();
        head.write_file("monitor.log", b"one\ntwo\nthree\n");
        let files = Files::new(head.shared.clone(), "c");
        (head, files)
    }

    #[tokio::test]
    async fn programs_behave_like_the_real_ones() {
        let (_head, files) = files().await;
        let log = format!("{LOGS}monitor.log");
        let cases = [
            ("hostname", "ray-c-head\n", 0),
            (&*format!("wc -c < '{log}'"), "14\n", 0),
            (&format!("exec tail -c +5 -- '{log}'"), "two\nthree\n", 0),
            ("tail -n 1 monitor.log", "three\n", 0),
            ("tail -1 monitor.log", "three\n", 0),
            ("tail -c 6 monitor.log", "three\n", 0),
            ("cat monitor.log", "one\ntwo\nthree\n", 0),
            ("exec sh -c 'a guard' sh 'echo '\\''it is'\\'''", "it is\n", 0),
            ("cat /etc/passwd", "", 1),
            ("cat ../../etc/passwd", "", 1),
            ("rm -rf /", "", NOT_FOUND),
            ("echo x; echo y", "", 2),
            ("", "", 0),
        ];
        for (line, out, status) in cases {
            let answer = run(line, &files).await;
            assert_eq!((&*answer.out, answer.status), (out.as_bytes(), status), "{line}: {}", answer.err);
            assert_eq!(status == 0, answer.err.is_empty(), "{line}");
        }
        assert!(String::from_utf8_lossy(&run("ls", &files).await.out).contains("monitor.log\n"));
    }

    #[tokio::test]
    async fn a_followed_file_starts_at_the_requested_position() {
        let (head, files) = files().await;
        let mut rest = run("tail -c +5 -F monitor.log", &files).await.rest.unwrap();
        assert_eq!(rest.next().await.unwrap(), "two\nthree\n");
        head.write_file("monitor.log", b"four\n");
        assert_eq!(rest.next().await.unwrap(), "four\n");
        let late = run("tail -F late.log", &files).await;
        assert!(late.err.contains("No such file"));
        head.write_file("late.log", b"here\n");
        assert_eq!(late.rest.unwrap().next().await.unwrap(), "here\n");
    }
}
