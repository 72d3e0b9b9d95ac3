//! The console's scripts that read a log file by position, as a simulated head runs them: `marin-tui-follow-log`,
//! `marin-tui-part-log`, `marin-tui-samples-log`, `marin-tui-search-log`, `marin-tui-matched-log`, `marin-tui-place-log`,
//! `marin-tui-rest-log`, `marin-tui-last-log` and `marin-tui-several-log`.

use super::answer::{Answer, Files, LOGS, Rest, whole};
use bytes::Bytes;
use regex::bytes::RegexBuilder;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Exit codes of the scripts: no such file, and a different file (inode) than expected.
const NO_SUCH_FILE: u32 = 80;
const FILE_REPLACED: u32 = 81;
/// Exit code of a search in a UTF-16 file.
const UTF_16: u32 = 86;

/// The script that searches several files in a directory.
pub(super) const SEVERAL: &str = "marin-tui-several-log";
/// The script that follows several files in a directory, which is not simulated.
pub(super) const FOLLOW_SEVERAL: &str = "marin-tui-follow-logs";

/// Runs a script with a file and its other arguments; `None` for an unknown script or invalid arguments.
pub(super) async fn run(script: &str, path: &str, arguments: &[&str], files: &Files) -> Option<Answer> {
    if script == SEVERAL {
        return several(arguments, files).await;
    }
    let number = |at: usize| arguments.get(at).and_then(|n| n.parse::<u64>().ok());
    let Some(body) = files.open(path, None, false) else {
        return Some(Answer { status: NO_SUCH_FILE, ..Answer::default() });
    };
    let bytes = whole(body).await;
    let inode = inode(path, files);
    Some(match script {
        "marin-tui-follow-log" => {
            let is_other = number(0).is_some_and(|known| known != inode);
            let from = if is_other { 0 } else { start(arguments.get(1)?, &bytes, path, files).await? };
            let rest = Rest::of_one_file(files, path, from, FILE_REPLACED);
            let out = format!("{inode} {} {from}\n", bytes.len()).into();
            Answer { out, rest: Some(rest), ..Answer::default() }
        }
        "marin-tui-part-log" if number(0)? != inode => Answer { status: FILE_REPLACED, ..Answer::default() },
        "marin-tui-part-log" => {
            let from = bytes.len().min(number(1)? as usize);
            let end = bytes.len().min(from.saturating_add(number(2)? as usize));
            Answer { out: bytes.slice(from..end), ..Answer::default() }
        }
        "marin-tui-place-log" => {
            Answer { out: format!("{inode} {} 0\n", bytes.len()).into(), ..Answer::default() }
        }
        // The other scripts require the file to have the given inode, if there is one.
        "marin-tui-search-log" | "marin-tui-matched-log" | "marin-tui-rest-log"
            if number(0).is_some_and(|known| known != inode) =>
        {
            Answer { status: FILE_REPLACED, ..Answer::default() }
        }
        "marin-tui-search-log" | "marin-tui-matched-log" if is_utf_16(&bytes) => {
            Answer { status: UTF_16, ..Answer::default() }
        }
        "marin-tui-search-log" => {
            let mut out = Search::of(arguments)?.matches(&bytes, true)?;
            out.extend_from_slice(if out.is_empty() { b"status 1\n" } else { b"status 0\n" });
            Answer { out: out.into(), ..Answer::default() }
        }
        "marin-tui-matched-log" => {
            let search = Search::of(arguments)?;
            let (from, end) = search.part(&bytes)?;
            let (part, is_drawn) = (bytes.slice(from..end), u8::from(is_drawn(&bytes[from..])));
            let mut out = format!("{inode} {end} {from} {is_drawn}\n").into_bytes();
            out.extend(search.matches(&part, false)?);
            Answer { out: out.into(), ..Answer::default() }
        }
        "marin-tui-rest-log" => {
            Answer { out: bytes.slice(bytes.len().min(number(1)? as usize)..), ..Answer::default() }
        }
        "marin-tui-samples-log" => {
            let (parts, count) = (number(1)? as usize, number(2)? as usize);
            let part = |n: usize| {
                let from = bytes.len() / parts * n;
                let part = &bytes[from..bytes.len().min(from + count)];
                [b"\n\x1e\n", part].concat()
            };
            Answer { out: (0..parts).flat_map(part).collect::<Vec<u8>>().into(), ..Answer::default() }
        }
        "marin-tui-last-log" => Answer { out: last(path, number(0)?, files).await, ..Answer::default() },
        _ => return None,
    })
}

/// Runs `LOCALE CASE MOST LONGEST EXPRESSION DRAWN GLOB...`: prints the last matching lines of each file.
async fn several(arguments: &[&str], files: &Files) -> Option<Answer> {
    let [_, case, most, longest, plain, drawn, globs @ ..] = arguments else { return None };
    let (most, longest): (usize, usize) = (most.parse().ok()?, longest.parse().ok()?);
    let search = Search { any_case: *case == "i", from: "0", to: "all", expressions: [plain, drawn] };
    let mut out = Vec::new();
    for glob in globs {
        for name in files.names(glob).await.into_iter().filter(|name| !name.ends_with('/')) {
            let Some(body) = files.open(&format!("{LOGS}{name}"), None, false) else { continue };
            let bytes = whole(body).await;
            if is_utf_16(&bytes) {
                out.extend_from_slice(format!("\x1e{UTF_16} 0 {name}\n").as_bytes());
                continue;
            }
            let matches = search.matches(&bytes, true)?;
            let lines: Vec<&[u8]> = matches.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect();
            out.extend_from_slice(format!("\x1e0 {} {name}\n", lines.len()).as_bytes());
            for line in &lines[lines.len().saturating_sub(most)..] {
                out.extend_from_slice(&line[..line.len().min(longest)]);
                out.push(b'\n');
            }
        }
    }
    out.extend_from_slice(b"\x1eend\n");
    Some(Answer { out: out.into(), ..Answer::default() })
}

/// A search: the part of the file, and the expressions.
struct Search<'a> {
    any_case: bool,
    from: &'a str,
    to: &'a str,
    /// The expression, and the expression for lines with escape sequences or carriage returns.
    expressions: [&'a str; 2],
}

impl<'a> Search<'a> {
    fn of(arguments: &[&'a str]) -> Option<Self> {
        let [_, part, plain, drawn] = arguments else { return None };
        let mut part = part.split(' ').skip(1);
        Some(Self {
            any_case: part.next()? == "i",
            from: part.next()?,
            to: part.next()?,
            expressions: [plain, drawn],
        })
    }

    fn part(&self, bytes: &Bytes) -> Option<(usize, usize)> {
        let end = match self.to {
            "all" => bytes.len(),
            "line" => bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1),
            end => end.parse::<usize>().ok()?.min(bytes.len()),
        };
        let from = match self.from.strip_prefix('n') {
            Some(lines) => {
                let lines = bytes[..end].split_inclusive(|b| *b == b'\n').rev().take(lines.parse().ok()?);
                end - lines.map(<[u8]>::len).sum::<usize>()
            }
            None => self.from.parse::<usize>().ok()?.min(end),
        };
        Some((from, end))
    }

    /// The matching lines, each prefixed with `NUMBER:POSITION:` if `with_positions` is set.
    fn matches(&self, bytes: &[u8], with_positions: bool) -> Option<Vec<u8>> {
        let expression = self.expressions[usize::from(is_drawn(bytes))];
        let regex = RegexBuilder::new(expression).case_insensitive(self.any_case).build().ok()?;
        let (mut out, mut at) = (Vec::new(), 0);
        for (number, line) in (1..).zip(bytes.split(|b| *b == b'\n')) {
            // There is no line after the last line break.
            if regex.is_match(line) && (at < bytes.len()) {
                if with_positions {
                    out.extend_from_slice(format!("{number}:{at}:").as_bytes());
                }
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            at += line.len() + 1;
        }
        Some(out)
    }
}

/// Whether more than a third of the last bytes are NULs.
fn is_utf_16(bytes: &[u8]) -> bool {
    let last = &bytes[bytes.len().saturating_sub(512)..];
    last.split(|b| *b == 0).count() > 1 + last.len() / 3
}

/// Whether the lines contain escape sequences (colors) or carriage returns that overwrite them.
fn is_drawn(bytes: &[u8]) -> bool {
    bytes.iter().any(|b| [b'\r', 0x1b].contains(b))
}

/// The position of the first byte to print.
async fn start(from: &str, bytes: &Bytes, path: &str, files: &Files) -> Option<u64> {
    let size = bytes.len() as u64;
    let before = |bytes: u64| size.saturating_sub(bytes.saturating_add(1));
    Some(match (from.strip_prefix('c'), from.strip_prefix('n')) {
        (Some(bytes), _) => before(bytes.parse().ok()?),
        (_, Some(lines)) => before(last(path, lines.parse().ok()?, files).await.len() as u64),
        (None, None) => from.parse().ok().filter(|from| *from <= size).unwrap_or(0),
    })
}

async fn last(path: &str, lines: u64, files: &Files) -> Bytes {
    match files.open(path, Some(lines), false) {
        // The dashboard treats 0 as its default.
        Some(body) if lines > 0 => whole(body).await,
        Some(_) | None => Bytes::new(),
    }
}

/// The inode of a file; different in each session of the head.
fn inode(path: &str, files: &Files) -> u64 {
    let mut hasher = DefaultHasher::new();
    (files.session(), path).hash(&mut hasher);
    hasher.finish() >> 1
}
