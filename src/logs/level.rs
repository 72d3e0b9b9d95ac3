//! The level of a line, by the words and letters that loggers write.

use super::prefix::{beginning, prefixed};

/// The severity of a line, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Debugging and tracing.
    Debug,
    /// Information, and lines that state no level.
    Info,
    /// A warning: `WARN`, `WARNING`, glog's `W`.
    Warning,
    /// An error, also a fatal one, and the first line of a traceback.
    Error,
}

/// Number of bytes that are examined: loggers put the level at the beginning.
const MAX_PREFIX_BYTES: usize = 120;

/// Words that name a level, as Python's `logging`, absl, Rust's `tracing` and Ray write them.
const LEVEL_NAMES: [(&str, Level); 15] = [
    ("ERROR", Level::Error),
    ("CRITICAL", Level::Error),
    ("FATAL", Level::Error),
    ("Fatal", Level::Error),
    ("Traceback", Level::Error),
    ("SEVERE", Level::Error),
    ("WARNING", Level::Warning),
    ("WARN", Level::Warning),
    ("UserWarning", Level::Warning),
    ("INFO", Level::Info),
    ("DEBUG", Level::Debug),
    ("TRACE", Level::Debug),
    ("error", Level::Error),
    ("fatal", Level::Error),
    ("warning", Level::Warning),
];

/// The level in a line; `None` if it has none. Ray's prefix may precede it.
pub fn level(line: &str) -> Option<Level> {
    let text = prefixed(line).text;
    if let Some(level) = letter(text) {
        return Some(level);
    }
    let head = beginning(text, MAX_PREFIX_BYTES);
    // The first word that names a level is the logger's; later ones may be part of a report about another program.
    words(head).find_map(|(at, word)| {
        match LEVEL_NAMES.iter().find(|(name, _)| *name == word) {
            // In lower case they are ordinary words: only `error:` names a level.
            Some((name, level)) if name.as_bytes()[0].is_ascii_lowercase() => {
                head[at + word.len()..].starts_with(':').then_some(*level)
            }
            Some((_, level)) => Some(*level),
            None => exception(head, at, word),
        }
    })
}

/// `ValueError: ...`, `torch.cuda.OutOfMemoryError: ...` or `ray.exceptions.RayTaskError(ValueError): ...` at the
/// beginning, as the last line of a traceback, and `FutureWarning: ...` anywhere.
fn exception(head: &str, at: usize, word: &str) -> Option<Level> {
    let rest = &head[at + word.len()..];
    if word.ends_with("Warning") && rest.starts_with(':') {
        return Some(Level::Warning);
    }
    let is_said = rest.starts_with([':', '(']);
    let is_named = ["Error", "Exception"].iter().any(|end| word.len() > end.len() && word.ends_with(end));
    let is_first = head[..at].bytes().all(|b| b.is_ascii_alphanumeric() || b"._".contains(&b));
    (is_named && is_first && is_said).then_some(Level::Error)
}

/// Words of ASCII letters with their positions.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_letter = |b: u8| b.is_ascii_alphabetic();
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = at + bytes[at..].iter().position(|b| is_letter(*b))?;
        let to = bytes[from..].iter().position(|b| !is_letter(*b)).map_or(bytes.len(), |n| from + n);
        at = to;
        Some((from, &text[from..to]))
    })
}

/// The letter of glog and absl: `E1121 08:11:00.582 ...`, and `I20261121 ...` with a year
/// (`google::LogSink::ToString`, `absl/log/internal/log_format.cc`).
fn letter(text: &str) -> Option<Level> {
    let bytes = text.as_bytes();
    let level = match bytes.first()? {
        b'D' => Level::Debug,
        b'I' => Level::Info,
        b'W' => Level::Warning,
        b'E' | b'F' => Level::Error,
        _ => return None,
    };
    let digits = bytes[1..].iter().take_while(|b| b.is_ascii_digit()).count();
    (matches!(digits, 4 | 8) && bytes.get(1 + digits) == Some(&b' ')).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_from_words_and_letters() {
        for (line, expected) in [
            ("2026-11-21 13:58:14,123 - ERROR - out of quota", Some(Level::Error)),
            (
                "2026-02-14 04:25:57,876 [WARNING] marin.training.training Failed to find git",
                Some(Level::Warning),
            ),
            ("2026-02-14 04:25:57,876 [INFO] marin.training.training Using run ID: x", Some(Level::Info)),
            (
                "E0926 17:26:32.075402  157988 coordination_service_agent.cc:332] Polled an error",
                Some(Level::Error),
            ),
            ("F0926 17:26:32.075587  157988 client.h:77] Terminating process", Some(Level::Error)),
            ("W20261121 08:11:00.582 1 x.cc:1] y", Some(Level::Warning)),
            ("(train pid=7, ip=10.0.0.1) I1121 04:53:01.001 train.py:88] step 3", Some(Level::Info)),
            ("Traceback (most recent call last):", Some(Level::Error)),
            ("ValueError: bad shape", Some(Level::Error)),
            ("ray.exceptions.RayTaskError(ValueError): ray::f() (pid=3)", Some(Level::Error)),
            ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: x", Some(Level::Error)),
            ("/a/b.py:3: FutureWarning: old", Some(Level::Warning)),
            ("2026-11-21 INFO raylet: a task failed with ERROR", Some(Level::Info)),
            ("warning: unused", Some(Level::Warning)),
            ("error: no such file", Some(Level::Error)),
            ("there was an error in step 3", None),
            ("the error: rate is 0.1", Some(Level::Error)),
            ("step 12 loss 2.1", None),
            ("0 ERRORS found", None),
            ("Intel 1121 x", None),
            ("", None),
        ] {
            assert_eq!(level(line), expected, "{line}");
        }
        let late = format!("{}ERROR", "x ".repeat(80));
        assert_eq!(level(&late), None, "long lines are judged by their beginning");
    }
}
