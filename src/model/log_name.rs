//! Names of log files: which one is an earlier part of a log that was rotated, and which one is compressed.

use super::amount::counted;
use super::command_line::shell_quote;
use super::text::printable;
use super::{ClusterName, Target, Text};

/// The log directory of the running session on a machine (`/tmp/ray` is Ray's default directory).
pub const LOG_DIRECTORY: &str = "/tmp/ray/session_latest/logs";

/// Endings of the names of compressed files, each with the program that prints such a file.
const COMPRESSED: [(&str, &str); 4] =
    [(".gz", "zcat"), (".xz", "xzcat"), (".zst", "zstdcat"), (".bz2", "bzcat")];
/// Endings of the names of logs. Only what follows one of them is taken for the suffix of a rotation.
const LOGS: [&str; 3] = [".log", ".out", ".err"];

/// The parts of the name of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogName<'a> {
    /// The name of the log: `raylet.out` for `raylet.out.1.gz`.
    pub log: &'a str,
    /// What was added to it when the log was rotated and compressed: `.1.gz`. Empty for the log itself, and for a file
    /// that is not part of a log.
    pub suffix: &'a str,
    /// The program that prints the file; `None` unless it is compressed.
    pub reader: Option<&'static str>,
}

impl<'a> LogName<'a> {
    /// Parses the name of a file in a log directory.
    pub fn parse(name: &'a str) -> Self {
        let compressed =
            COMPRESSED.iter().find_map(|(end, reader)| Some((name.strip_suffix(*end)?, *reader)));
        let plain = compressed.map_or(name, |(plain, _)| plain);
        let ends = LOGS.iter().filter_map(|ending| Some(plain.rfind(*ending)? + ending.len()));
        let is_end = |end: &usize| plain.len() == *end || is_rotation(&plain[*end..]);
        let (log, suffix) = name.split_at(ends.filter(is_end).max().unwrap_or(name.len()));
        Self { log, suffix, reader: compressed.map(|(_, reader)| reader) }
    }

    /// What the file is, in a few words that are safe to print; `None` for a log itself.
    pub fn note(&self) -> Option<String> {
        let rotated = (!self.suffix.is_empty()).then(|| format!("rotated from {}", printable(self.log)));
        let compressed = self.reader.map(|_| "compressed".to_owned());
        let words: Vec<String> = rotated.into_iter().chain(compressed).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// Whether a suffix is that of a rotation: `.1` (Ray, Python's handlers), or a date, as logrotate adds it: `-20261126`,
/// `-20261126-1795651200`, `-2026112609`, `.2026-11-26`.
fn is_rotation(suffix: &str) -> bool {
    let Some(rest) = suffix.strip_prefix(['.', '-']) else { return false };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<usize> =
        rest.split('-').map(|part| if is_number(part) { part.len() } else { 0 }).collect();
    match parts[..] {
        [1..=3] => suffix.starts_with('.'),
        [8 | 10] | [8, 9..=usize::MAX] | [4, 2, 2] => rest.starts_with("20"),
        _ => false,
    }
}

/// A compressed log file. It is not read as text; a command prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressedLog {
    cluster: ClusterName,
    /// The address of its host; `None` for the head.
    host: Option<Text>,
    name: Text,
    reader: &'static str,
}

impl CompressedLog {
    /// Maximum number of files named in a sentence.
    const MAX_NAMED: usize = 3;

    /// The file of this name in the log directory of a host, or of the head without one; `None` unless it is
    /// compressed.
    pub fn of(cluster: &ClusterName, host: Option<&Text>, name: &Text) -> Option<Self> {
        let reader = LogName::parse(name.raw()).reader?;
        Some(Self { cluster: cluster.clone(), host: host.cloned(), name: name.clone(), reader })
    }

    /// Why it is not opened, and the command that prints it; safe to print.
    pub fn why_not_opened(&self) -> String {
        let words = format!("{} {}", self.reader, shell_quote(&self.path()));
        format!("{} is compressed; print it with `{}`", self.name, self.exec(&words))
    }

    /// How many files were not `read` (in a word), some of their names, and the command that searches one of them;
    /// `None` without such files. Safe to print.
    pub fn skipped(files: &[Self], read: &str) -> Option<String> {
        let first = files.first()?;
        let named: Vec<String> = files.iter().take(Self::MAX_NAMED).map(Self::label).collect();
        let more = match files.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let count = counted(files.len(), "compressed file");
        let were = if files.len() == 1 { "was" } else { "were" };
        let line = format!("{} {} | grep PATTERN", first.reader, shell_quote(&first.path()));
        let command = first.exec(&shell_quote(&line));
        let named = named.join(", ");
        Some(format!("{count} {were} not {read}: {named}{more}; search one with `{command}`"))
    }

    /// Its host and its name.
    fn label(&self) -> String {
        self.host.as_ref().map_or_else(|| self.name.to_string(), |host| format!("{host} {}", self.name))
    }

    fn path(&self) -> String {
        format!("{LOG_DIRECTORY}/{}", self.name.raw())
    }

    /// The command line that runs these words where Ray runs on its host.
    fn exec(&self, words: &str) -> String {
        let host = self.host.as_ref().map(|host| format!("--host {} ", shell_quote(host.raw())));
        Target::of(&self.cluster).line(&format!("exec {}-- {words}", host.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rotated_and_compressed_files_belong_to_their_log() {
        for (name, log, reader) in [
            ("raylet.out", "raylet.out", None),
            ("raylet.out.1", "raylet.out", None),
            ("raylet.out-20261126", "raylet.out", None),
            ("raylet.out-2026112609", "raylet.out", None),
            ("raylet.out-20261126-1795651200", "raylet.out", None),
            ("gcs_server.err.2026-11-26", "gcs_server.err", None),
            ("worker-ab-01000000-7.out.20260101", "worker-ab-01000000-7.out", None),
            ("raylet.out.1.gz", "raylet.out", Some("zcat")),
            ("monitor.log-20261126.zst", "monitor.log", Some("zstdcat")),
            ("monitor.log.xz", "monitor.log", Some("xzcat")),
            ("monitor.log.2.bz2", "monitor.log", Some("bzcat")),
            ("trace.json.gz", "trace.json.gz", Some("zcat")),
            // The file of a second node on the same host.
            ("raylet.1.out", "raylet.1.out", None),
            ("job-driver-train-20261126.log", "job-driver-train-20261126.log", None),
            ("job-driver-a.log.1.log", "job-driver-a.log.1.log", None),
            ("raylet.out.bak", "raylet.out.bak", None),
            ("raylet.out-1", "raylet.out-1", None),
            ("raylet.out.12345678", "raylet.out.12345678", None),
            ("events", "events", None),
        ] {
            let parsed = LogName::parse(name);
            assert_eq!((parsed.log, parsed.reader), (log, reader), "{name}");
            assert_eq!(format!("{}{}", parsed.log, parsed.suffix), name);
        }
        let note = |name: &str| LogName::parse(name).note();
        assert_eq!(note("raylet.out"), None);
        assert_eq!(note("raylet.out.1").as_deref(), Some("rotated from raylet.out"));
        assert_eq!(note("raylet.out.1.gz").as_deref(), Some("rotated from raylet.out, compressed"));
        assert_eq!(note("trace.json.gz").as_deref(), Some("compressed"));
    }

    #[test]
    fn a_compressed_file_names_the_command_that_prints_it() {
        let lab = ClusterName::new("lab");
        let of = |host: Option<&str>, name: &str| {
            CompressedLog::of(&lab, host.map(Text::from).as_ref(), &Text::from(name))
        };
        assert_eq!(of(None, "raylet.out.1"), None);
        assert_eq!(
            of(None, "raylet.out.1.gz").unwrap().why_not_opened(),
            "raylet.out.1.gz is compressed; print it with `marin-tui -c lab exec -- zcat \
             /tmp/ray/session_latest/logs/raylet.out.1.gz`"
        );
        let files: Vec<CompressedLog> = ["a.out.zst", "b.out.gz", "c.out.gz", "d.out.gz"]
            .iter()
            .filter_map(|name| of(Some("10.0.0.7"), name))
            .collect();
        assert_eq!(
            CompressedLog::skipped(&files, "searched").unwrap(),
            "4 compressed files were not searched: 10.0.0.7 a.out.zst, 10.0.0.7 b.out.gz, 10.0.0.7 c.out.gz and 1 \
             more; search one with `marin-tui -c lab exec --host 10.0.0.7 -- 'zstdcat \
             /tmp/ray/session_latest/logs/a.out.zst | grep PATTERN'`"
        );
        assert_eq!(CompressedLog::skipped(&[], "searched"), None);
        let hostile = of(None, "a\x1b[2J'; reboot '.gz").unwrap().why_not_opened();
        assert!(!hostile.contains('\x1b'), "{hostile}");
    }

    proptest! {
        #[test]
        fn any_name_is_split_into_its_parts(name in "[a-z0-9.é-]{0,12}(\\.out|\\.log)?[0-9.-]{0,12}(\\.gz)?") {
            let parsed = LogName::parse(&name);
            prop_assert_eq!(format!("{}{}", parsed.log, parsed.suffix), name);
        }
    }
}
