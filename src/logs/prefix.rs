//! The writer of a line, from the prefix that Ray adds to the lines of tasks and actors in a driver's log.
//!
//! Written by `print_worker_logs` in `ray/_private/worker.py` and `ray/_private/log_monitor.py`:
//! `(train pid=1073, ip=10.0.0.7) `, `(pid=1073) ` for a worker without a task, `(raylet, ip=10.0.0.7) `,
//! `(autoscaler +1m3s) `. The address is left out for workers on the driver's own node.

use std::collections::HashMap;

/// The process that wrote a line, as Ray names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Writer<'a> {
    /// Name of the task, the actor's class, or `raylet`, `autoscaler` and similar commands; empty for a worker without
    /// a task.
    pub name: &'a str,
    /// Process id on its node; none for Ray's own processes.
    pub pid: Option<u32>,
    /// Address of its node; none on the driver's own node.
    pub ip: Option<&'a str>,
}

impl Writer<'_> {
    /// Whether it is one of Ray's own processes, whose messages go to all drivers of a cluster.
    pub const fn is_of_ray(&self) -> bool {
        self.pid.is_none()
    }
}

/// A line, split into prefix and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixed<'a> {
    /// The writer; `None` for the driver itself.
    pub writer: Option<Writer<'a>>,
    /// The text after the prefix.
    pub text: &'a str,
    /// The number of lines that it stands for: more than 1 if Ray appended `[repeated 12x across cluster]`, the number
    /// of equal lines of any worker of which Ray printed only this one (`ray/_private/ray_logging`, `LogDeduplicator`).
    pub times: u32,
}

/// Splits a line of a driver's log. A line of any other log is returned unchanged.
pub fn prefixed(line: &str) -> Prefixed<'_> {
    let (writer, text) = match writer(line) {
        Some((writer, text)) => (Some(writer), text),
        None => (None, line),
    };
    let (text, times) = repeated(text);
    Prefixed { writer, text, times }
}

/// The writer, and the text after the prefix.
fn writer(line: &str) -> Option<(Writer<'_>, &str)> {
    let inner = line.strip_prefix('(')?;
    // A name may contain parentheses and spaces (`MapBatches(f)->Write`), so the pid is searched for.
    let head = beginning(inner, MAX_PREFIX_BYTES);
    for (at, word) in head.match_indices("pid=") {
        let name = &head[..at];
        if !name.is_empty() && !name.ends_with(' ') {
            continue;
        }
        let rest = &inner[at + word.len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(pid) = rest[..digits].parse() else { continue };
        if let Some((ip, text)) = node(&rest[digits..]) {
            return Some((Writer { name: name.trim_end(), pid: Some(pid), ip }, text));
        }
    }
    let end = head.find([')', ',', ' '])?;
    let (name, rest) = inner.split_at(end);
    match name {
        "raylet" | "gcs_server" => node(rest).map(|(ip, text)| (Writer { name, pid: None, ip }, text)),
        "autoscaler" => {
            let (_, text) = rest.strip_prefix(" +")?.split_once(") ")?;
            Some((Writer { name, pid: None, ip: None }, text))
        }
        _ => None,
    }
}

/// The beginning of a text, at most `bytes` long, cut at a character boundary.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Number of bytes in which a prefix is searched for; names of tasks may be long.
const MAX_PREFIX_BYTES: usize = 256;

/// Parses `) text` or `, ip=10.0.0.7) text`. A line without text ends with the parenthesis.
fn node(rest: &str) -> Option<(Option<&str>, &str)> {
    let (ip, rest) = match rest.strip_prefix(", ip=") {
        Some(rest) => {
            let (ip, _) = rest.split_once(')')?;
            (Some(ip), &rest[ip.len()..])
        }
        None => (None, rest),
    };
    let text = rest.strip_prefix(')')?;
    let is_address =
        |ip: &str| !ip.is_empty() && ip.bytes().all(|b| b.is_ascii_hexdigit() || b".:".contains(&b));
    if !ip.is_none_or(is_address) {
        return None;
    }
    if text.is_empty() { Some((ip, text)) } else { Some((ip, text.strip_prefix(' ')?)) }
}

/// The text without Ray's deduplication suffix, and the number of lines that it stands for.
fn repeated(text: &str) -> (&str, u32) {
    /// Ray appends this explanation to the first suffix.
    const DEDUP_EXPLANATION: &str = " (Ray deduplicates logs by default.";
    let marked = match text.find(DEDUP_EXPLANATION) {
        Some(at) if text.ends_with(')') => &text[..at],
        _ => text,
    };
    let found = marked.strip_suffix("x across cluster]").and_then(|rest| rest.rsplit_once(" [repeated "));
    match found.and_then(|(text, times)| Some((text, times.parse().ok()?))) {
        Some((text, times)) => (text, u32::max(times, 1)),
        None => (text, 1),
    }
}

/// Numbers the writers of a driver's log, in the order in which they appear.
#[derive(Clone, Debug, Default)]
pub struct Writers {
    numbers: HashMap<(Option<u32>, Box<str>), u32>,
}

impl Writers {
    /// Maximum number of writers with numbers of their own; further writers share the last number.
    pub const MAX_WRITERS: usize = 65_536;

    /// The number of a writer. It belongs to the process and stays the same when the name changes.
    pub fn number(&mut self, writer: &Writer<'_>) -> u32 {
        let own = if writer.pid.is_none() { writer.name } else { "" };
        let key = (writer.pid, format!("{}/{own}", writer.ip.unwrap_or_default()).into_boxed_str());
        let next = self.numbers.len().min(Self::MAX_WRITERS - 1) as u32;
        *self.numbers.entry(key).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str) -> (&str, Option<u32>, &str, &str, u32) {
        let p = prefixed(line);
        let w = p.writer.unwrap_or_default();
        (w.name, w.pid, w.ip.unwrap_or_default(), p.text, p.times)
    }

    #[test]
    fn a_prefix_is_removed() {
        // Lines from public reports; the first two are from Ray's page on logging.
        assert_eq!(parts("(pid=45601) task"), ("", Some(45601), "", "task", 1));
        assert_eq!(
            parts("(MyActor pid=480956) actor log message"),
            ("MyActor", Some(480_956), "", "actor log message", 1)
        );
        assert_eq!(
            parts(
                "(RayWorkerWrapper pid=394716, ip=10.65.144.3) INFO 02-05 09:08:19 rocm.py:121] Using Triton MLA \
                 backend. [repeated 31x across cluster]"
            ),
            (
                "RayWorkerWrapper",
                Some(394_716),
                "10.65.144.3",
                "INFO 02-05 09:08:19 rocm.py:121] Using Triton MLA backend.",
                31
            )
        );
        assert_eq!(
            parts(
                "(WorkerDict pid=295845) after load model cls [repeated 3x across cluster] (Ray deduplicates logs by \
                 default. Set RAY_DEDUP_LOGS=0 to disable log deduplication, or see https://docs.ray.io/en/master/\
                 ray-observability/user-guides/configure-logging.html#log-deduplication for more options.)"
            ),
            ("WorkerDict", Some(295_845), "", "after load model cls", 3)
        );
        assert_eq!(
            parts("(MapBatches(tokenize (fast))->Write pid=7, ip=fd00::7) (done)"),
            ("MapBatches(tokenize (fast))->Write", Some(7), "fd00::7", "(done)", 1)
        );
        assert_eq!(parts("(train pid=7)"), ("train", Some(7), "", "", 1));
        assert_eq!(parts("(raylet, ip=10.0.0.4) oom"), ("raylet", None, "10.0.0.4", "oom", 1));
        assert_eq!(parts("(autoscaler +1m3s) Adding 2 nodes"), ("autoscaler", None, "", "Adding 2 nodes", 1));
    }

    #[test]
    fn other_lines_are_unchanged() {
        for line in [
            "",
            "(",
            "()",
            "(sum) of 3",
            "(pid=",
            "(pid=x) y",
            "(a pid=99999999999) y",
            "(a pid=7, ip=) y",
            "(a pid=7, ip=no address) y",
            "(grapid=7) y",
            "[repeated 3x across cluster]",
            " [repeated x across cluster]",
            "(é",
        ] {
            assert_eq!(prefixed(line), Prefixed { writer: None, text: line, times: 1 });
        }
        assert_eq!(prefixed("x [repeated 0x across cluster]").times, 1);
    }

    #[test]
    fn a_process_keeps_its_number_when_its_task_changes() {
        let mut writers = Writers::default();
        let numbers: Vec<_> =
            ["(a pid=7) x", "(b pid=7, ip=10.0.0.1) x", "(c pid=7) x", "(raylet) x", "(gcs_server) x"]
                .map(|line| writers.number(&prefixed(line).writer.unwrap()))
                .into();
        assert_eq!(numbers, [0, 1, 0, 2, 3]);
    }
}
