//! A file in the head's log folder, read over ssh by position: followed from a byte on, or a part of it.
//!
//! Both scripts are for a POSIX `sh` with the programs of GNU or `BusyBox`. A file is known by its inode, so that it is
//! found again under another name when it was rotated meanwhile.

use super::container::{in_container, words};
use crate::logs::Grep;
use crate::model::{ClusterSpec, Problem, SubmissionId};
use crate::ssh::{Output, Remote, RemoteStream, SshError};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Where a head keeps the logs of the running session (`/tmp/ray` is Ray's default folder).
const LOGS: &str = "/tmp/ray/session_latest/logs";
/// Limit of a remote command that answers at once.
const QUICK: Duration = Duration::from_secs(20);
/// Limit of a search through a whole file.
const SEARCHED: Duration = Duration::from_secs(120);

/// `FILE INODE`: opens the file of that name as 3; if it has another inode than the given one, the file beside it that
/// has that, as `monitor.log.1` (Python's handlers) and `raylet.1.out` (spdlog) are beside theirs. `$1` and `$2` are then
/// the inode and the size of what is open.
const OPEN: &str = r#"n=$1 i=$2 f=$1 o=$3 c=$4
id() { stat -Lc '%i %s' "$1" 2>/dev/null || { [ -r "$1" ] && set -- "$1" $(ls -Li "$1") && echo "$2 $(($(wc -c <"$1")))"; }; }
for p in head tail; do command -v $p >/dev/null || { echo "$p: no such program" >&2; exit 127; }; done
[ -d "${f%/*}" ] || exit 83
[ -e "$f" ] || exit 80
[ -f "$f" ] || exit 84
[ -r "$f" ] || exit 85
set -- $(id "$f")
if [ "$i" ] && [ "$1" != "$i" ]; then
  for g in "${f%.*}".*; do
    set -- $(id "$g")
    if [ "$1" = "$i" ]; then f=$g; break; fi
  done
fi
exec 3<"$f" || exit 80
set -- $(id /dev/fd/3)
"#;

/// `FILE INODE FROM`: prints a line with the inode, the size, and the position of the first byte that follows it, and
/// then the file from there on as it grows. `FROM` is a position; without an inode also `c` and a number of bytes or `n`
/// and a number of lines before the end, where one byte more is printed: what follows the first line break is whole.
/// Of another file than the one with this inode it prints all.
///
/// `tail -F` would not say at which byte another file begins. `cat` goes on where the one before it ended, for both
/// read through 3, so that the byte behind the last one printed is always known. Ends with 81 when the file was
/// replaced and nothing was added to the old one for a while, with 82 when it was truncated.
const FOLLOW: &str = r#"if [ "$i" ] && [ "$1" != "$i" ]; then o=0; fi
case $o in
  c*) s=$(($2 - ${o#c} - 1)) ;;
  n*) s=$(($2 - $(tail -n "${o#n}" "$f" | wc -c) - 1)) ;;
  *) s=$o ;;
esac
if [ "$s" -lt 0 ] || [ "$s" -gt "$2" ]; then s=0; fi
echo "$1 $2 $s"
dd bs=1 skip="$s" count=0 <&3 2>/dev/null
l=$s r=0
while :; do
  set -- $(id /dev/fd/3)
  [ "$2" -ge "$l" ] || exit 82
  if [ "$2" -gt "$l" ]; then
    cat <&3 || exit
    l=$2 r=0
  else
    if [ -e "$n" ] && ! [ "$n" -ef /dev/fd/3 ]; then r=$((r + 1)); fi
    [ "$r" -lt 4 ] || exit 81
    sleep 0.3 2>/dev/null || sleep 1
  fi
done"#;

/// `FILE INODE FROM COUNT`: prints so many bytes of the file from a position on.
const PART: &str = r#"[ "$1" = "$i" ] || exit 81
tail -c "+$((o + 1))" "$f" | head -c "$c""#;

/// `FILE '' EXPRESSION LOCALE`: prints `NUMBER:POSITION:LINE` for the last lines that match an extended regular
/// expression, each cut, and then the exit status of grep. The expression begins with `i:` where case does not matter,
/// else with `x:`. Binary bytes are text (`-a`): a log may have some.
const SEARCH: &str = r#"case $o in i:*) g=-i ;; *) g= ;; esac
{ LC_ALL=$c grep -a -n -b $g -E -e "${o#?:}" <&3; echo "status $?"; } | LC_ALL=C cut -b 1-1000 | tail -n 2002"#;

/// `FILE '' EXPRESSION LOCALE`: prints the lines that match; the expression is that of [`SEARCH`].
const MATCHING: &str = r#"case $o in i:*) g=-i ;; *) g= ;; esac
LC_ALL=$c grep -a $g -E -e "${o#?:}" <&3
s=$?
[ $s -le 1 ] || exit $s"#;

/// `FILE INODE PART EXPRESSION`: prints a line with the inode, the position behind the last line break, and that of the
/// first byte that is searched, and then the lines between them that match; the expression is that of [`SEARCH`]. `PART` is
/// a locale and the first byte, or `n` and a number of lines before the end; and the position behind the last byte, if the
/// file with this inode was searched before. Ends with 81 if that is gone.
const MATCHED: &str = r#"d=$1 s=$2
set -- $o
l=$1 b=$2 e=$3
if [ "$i" ] && [ "$d" != "$i" ]; then exit 81; fi
if ! [ "$e" ]; then
  e=$s k=65536
  if [ "$s" -gt 0 ] && [ "$(tail -c "+$s" "$f" | head -c 1 | wc -l)" -eq 0 ]; then
    while :; do
      [ "$k" -lt "$s" ] || k=$s
      r=$(tail -c "+$((s - k + 1))" "$f" | head -c "$k" | tail -n 1 | wc -c)
      if [ "$r" -lt "$k" ] || [ "$k" -eq "$s" ]; then break; fi
      k=$((k * 16))
    done
    e=$((s - r))
  fi
  case $b in n*) b=$((e - $(head -c "$e" "$f" | tail -n "${b#n}" | wc -c))) ;; esac
fi
echo "$d $e $b"
dd bs=1 skip="$b" count=0 <&3 2>/dev/null
case $c in i:*) g=-i ;; *) g= ;; esac
head -c "$((e - b))" <&3 | LC_ALL=$l grep -a $g -E -e "${c#?:}"
s=$?
[ $s -le 1 ] || exit $s"#;

/// `FILE`: prints all of the file.
const WHOLE: &str = "cat <&3";

/// `FILE LINES`: prints the last lines of the file.
const LAST: &str = r#"tail -n "$i" "$f""#;

/// Where to begin in a file that nothing was read of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With its first byte.
    Beginning,
    /// With so many lines before its end.
    Lines(u32),
    /// With so many bytes before its end.
    Bytes(u64),
}

/// The lines that match in what a file has when it begins to be followed.
#[derive(Clone, Debug)]
pub struct Sought {
    /// What is searched for.
    pub words: Grep,
    /// So many lines before the end are searched; none: all.
    pub lines: Option<u32>,
    /// The part that is searched, once it is known: a search that was cut off begins with the same byte again.
    pub opened: Option<Opened>,
    /// Bytes of its answer that have come.
    pub came: u64,
}

/// What is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    pub inode: u64,
    /// Bytes that it had when it was opened.
    pub size: u64,
    /// Position of the first byte that is printed.
    pub from: u64,
}

impl Opened {
    /// From the first line that [`FOLLOW`] prints.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut numbers = str::from_utf8(line).ok()?.split_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self { inode: next()?, size: next()?, from: next()? })
    }
}

/// Why a file cannot be read now.
#[derive(Clone, Debug)]
pub enum Unread {
    /// There is no such file.
    Missing,
    /// There is no log folder: Ray keeps its files elsewhere.
    NoFolder,
    /// It is another file now, and what was asked for is gone or was read.
    Replaced,
    /// It has fewer bytes than were read already.
    Truncated,
    /// It is a folder or a device, or it may not be read; the words say which.
    Refused(&'static str),
    /// The command failed.
    Failed(String),
    /// The connection was lost.
    Lost(String),
}

impl From<SshError> for Unread {
    fn from(error: SshError) -> Self {
        match &error {
            SshError::Command { status, .. } => {
                Self::of(*status).unwrap_or_else(|| Self::Failed(error.to_string()))
            }
            _ => Self::Lost(error.to_string()),
        }
    }
}

impl From<Problem> for Unread {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem.what)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "no such file",
            Self::NoFolder => "the head has no log folder",
            Self::Replaced => "it was replaced by another file",
            Self::Truncated => "it was truncated",
            Self::Refused(why) => why,
            Self::Failed(why) | Self::Lost(why) => why,
        })
    }
}

impl Unread {
    fn of(status: i32) -> Option<Self> {
        Some(match status {
            80 => Self::Missing,
            81 => Self::Replaced,
            82 => Self::Truncated,
            83 => Self::NoFolder,
            84 => Self::Refused("it is not a regular file"),
            85 => Self::Refused("permission denied"),
            _ => return None,
        })
    }
}

/// A file in the log folder of a head.
#[derive(Clone, Debug)]
pub struct LogFile {
    name: String,
    /// Whether it is looked for in the container that the cluster's file names.
    in_container: bool,
}

impl LogFile {
    /// The file of that name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), in_container: false }
    }

    /// The driver log of a job.
    pub fn of_job(id: &SubmissionId) -> Self {
        Self::new(&id.driver_log())
    }

    /// The name of the file in Ray's log folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Looks for it in the container from now on, if the cluster's file names one. Whether that makes a difference.
    pub fn enter(&mut self, spec: &ClusterSpec) -> bool {
        // What is wrong with its name is said when it is entered.
        let has_one = !matches!(in_container(spec, None, &[]), Ok(None));
        has_one && !std::mem::replace(&mut self.in_container, true)
    }

    /// Follows it from a position of the file with that inode, or from its start. What was opened comes first.
    pub fn follow(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        from: Result<(u64, u64), Start>,
    ) -> Result<RemoteStream, Unread> {
        let (inode, from) = match from {
            Ok((inode, from)) => (inode.to_string(), from.to_string()),
            Err(Start::Beginning) => (String::new(), "0".to_owned()),
            Err(Start::Lines(lines)) => (String::new(), format!("n{lines}")),
            Err(Start::Bytes(bytes)) => (String::new(), format!("c{bytes}")),
        };
        Ok(remote.stream(&self.command(spec, ("follow", FOLLOW), &[inode, from])?)?)
    }

    /// These bytes of the file with that inode, or fewer when it ends before.
    pub async fn part(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        inode: u64,
        bytes: Range<u64>,
    ) -> Result<Vec<u8>, Unread> {
        let count = bytes.end.saturating_sub(bytes.start);
        let words = [inode, bytes.start, count].map(|n| n.to_string());
        let output = remote.run(&self.command(spec, ("part", PART), &words)?, QUICK).await?;
        match (output.status, Unread::of(output.status)) {
            (0, _) => Ok(output.stdout),
            (_, Some(why)) => Err(why),
            (_, None) => Err(Unread::Failed(output.stderr)),
        }
    }

    /// The last lines in it that match, as `NUMBER:POSITION:LINE`, and then `status` and that of grep.
    pub async fn search(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        words: &Grep,
    ) -> Result<Output, Unread> {
        let output = remote.run(&self.command(spec, ("search", SEARCH), &sought(words))?, SEARCHED).await?;
        match Unread::of(output.status) {
            Some(why) => Err(why),
            None => Ok(output),
        }
    }

    /// All lines in it that match, as they come.
    pub fn matching(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        words: &Grep,
    ) -> Result<RemoteStream, Unread> {
        Ok(remote.stream(&self.command(spec, ("matching", MATCHING), &sought(words))?)?)
    }

    /// The lines that match in a part of it, as they come, behind a line that says how large the file is: that part
    /// ends there.
    pub fn matched(
        &self,
        (remote, spec): (&Remote, &ClusterSpec),
        sought: &Sought,
    ) -> Result<RemoteStream, Unread> {
        Ok(remote.stream(&self.command(spec, ("matched", MATCHED), &sought.arguments())?)?)
    }

    /// All of it, as it comes.
    pub fn whole(&self, (remote, spec): (&Remote, &ClusterSpec)) -> Result<RemoteStream, Unread> {
        Ok(remote.stream(&self.command(spec, ("whole", WHOLE), &[])?)?)
    }

    /// Its last lines, as they come.
    pub fn last(&self, (remote, spec): (&Remote, &ClusterSpec), lines: u32) -> Result<RemoteStream, Unread> {
        Ok(remote.stream(&self.command(spec, ("last", LAST), &[lines.to_string()])?)?)
    }

    fn command(
        &self,
        spec: &ClusterSpec,
        (name, script): (&str, &str),
        arguments: &[String],
    ) -> Result<String, Problem> {
        let path = format!("{LOGS}/{}", self.name);
        let script = format!("{OPEN}{script}");
        // The name is what the machine lists; a script is its own program.
        let program = ["sh".to_owned(), "-c".to_owned(), script, format!("marin-tui-{name}-log"), path];
        let program = [&program[..], arguments].concat();
        let inside = if self.in_container {
            in_container(spec, None, &program.iter().map(String::as_str).collect::<Vec<_>>())?
        } else {
            None
        };
        Ok(inside.unwrap_or_else(|| words(&program)))
    }
}

impl Sought {
    /// The arguments of [`MATCHED`] after the file.
    fn arguments(&self) -> [String; 3] {
        let [_, expression, locale] = sought(&self.words);
        let (inode, part) = match (&self.opened, self.lines) {
            (Some(Opened { inode, size, from }), _) => (inode.to_string(), format!("{from} {size}")),
            (None, Some(lines)) => (String::new(), format!("n{lines}")),
            (None, None) => (String::new(), "0".to_owned()),
        };
        [inode, format!("{locale} {part}"), expression]
    }
}

/// The arguments of [`SEARCH`] after the file.
fn sought(words: &Grep) -> [String; 3] {
    let case = if words.any_case { 'i' } else { 'x' };
    let locale = if words.is_ascii { "C" } else { "C.UTF-8" };
    [String::new(), format!("{case}:{}", words.expression), locale.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::Pattern;
    use std::path::Path;
    use std::process::Command;

    /// What a shell makes of the script.
    fn searched(file: &Path, pattern: &str) -> (Option<i32>, String) {
        let words = Grep::of(&Pattern::parse(pattern).unwrap()).unwrap().unwrap();
        let mut sh = Command::new("sh");
        sh.args(["-c", &format!("{OPEN}{SEARCH}"), "search"]).arg(file).args(sought(&words));
        let output = sh.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    #[test]
    fn a_whole_file_is_searched_by_the_systems_grep() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a 'log'.txt");
        let long = format!("Error {}", "x".repeat(2000));
        std::fs::write(&file, format!("-e one\n\0binary 'quoted' \u{e9}\n$(id) {long}\nerror two")).unwrap();
        let found = |pattern: &str| searched(&file, pattern).1;
        assert_eq!(found("-e one"), "1:0:-e one\nstatus 0\n");
        assert_eq!(found("'quoted' "), "2:7:\0binary 'quoted' \u{e9}\nstatus 0\n");
        assert_eq!(found("\u{c9}\u{e9}|\u{e9}$"), "2:7:\0binary 'quoted' \u{e9}\nstatus 0\n");
        assert_eq!(found("nowhere"), "status 1\n");
        assert_eq!(found("Error").len(), 1000 + "\nstatus 0\n".len(), "a long line is cut");
        assert!(found("error").ends_with(":error two\nstatus 0\n"), "any case, and the line without an end");
        std::fs::write(&file, "yes\n".repeat(5000)).unwrap();
        let all = found("yes");
        assert!(all.starts_with("3000:11996:yes\n") && all.lines().count() == 2002);
    }

    /// What the search of a file answers that begins to be followed.
    fn matched(file: &Path, sought: &Sought) -> (Option<i32>, String) {
        let mut sh = Command::new("sh");
        sh.args(["-c", &format!("{OPEN}{MATCHED}"), "matched"]).arg(file).args(sought.arguments());
        let output = sh.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    #[test]
    fn whole_lines_are_searched_before_a_file_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        let words = Grep::of(&Pattern::parse("-?step [0-9]*5$").unwrap()).unwrap().unwrap();
        let mut sought = Sought { words, lines: None, opened: None, came: 0 };
        let lines =
            |numbers: Range<u32>| numbers.fold(String::new(), |text, n| text + &format!("step {n}\n"));
        let mut found = |text: &str, lines: Option<u32>| {
            std::fs::write(&file, text).unwrap();
            sought.lines = lines;
            let (status, answer) = matched(&file, &sought);
            assert_eq!(status, Some(0), "{answer}");
            let (head, rest) = answer.split_once('\n').unwrap();
            let opened = Opened::parse(head.as_bytes()).unwrap();
            (opened.from, opened.size, rest.to_owned())
        };
        assert_eq!(found("", None), (0, 0, String::new()));
        assert_eq!(found("step 5", None), (0, 0, String::new()), "a line that has not ended is followed");
        assert_eq!(found(&lines(0..10), None), (0, 70, "step 5\n".into()));
        assert_eq!(found(&(lines(0..10) + "step 15"), None), (0, 70, "step 5\n".into()));
        assert_eq!(found(&(lines(0..10) + "step 15"), Some(4)), (42, 70, String::new()));
        assert_eq!(found(&lines(0..10), Some(5)), (35, 70, "step 5\n".into()));
        let bar = "x".repeat(200_000);
        assert_eq!(found(&(lines(4..6) + &bar), None), (0, 14, "step 5\n".into()));
        assert_eq!(found(&bar, None), (0, 0, String::new()));
        // Once more of the same part, of a file that has grown, and of one that is gone.
        let opened = |inode| Some(Opened { inode, size: 70, from: 0 });
        std::fs::write(&file, lines(0..20)).unwrap();
        let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&file).unwrap());
        sought.opened = opened(inode);
        assert_eq!(matched(&file, &sought), (Some(0), format!("{inode} 70 0\nstep 5\n")));
        sought.opened = opened(inode + 1_000_000);
        assert_eq!(matched(&file, &sought).0, Some(81));
    }

    #[test]
    fn a_file_that_cannot_be_searched_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let status = |name: &str| searched(&folder.path().join(name), "x").0;
        assert_eq!((status("missing"), status("."), status("no/folder")), (Some(80), Some(84), Some(83)));
        // A machine that lacks a program.
        std::fs::write(folder.path().join("log"), "x\n").unwrap();
        for (has, lacks) in [("head", "tail"), ("tail", "head"), ("head tail", "grep")] {
            let tools = folder.path().join(lacks);
            std::fs::create_dir(&tools).unwrap();
            for tool in has.split(' ').chain(["sh", "stat", "wc", "dd", "cut"]) {
                let there = ["/bin", "/usr/bin"].map(|place| Path::new(place).join(tool));
                let there = there.iter().find(|path| path.exists()).unwrap();
                std::os::unix::fs::symlink(there, tools.join(tool)).unwrap();
            }
            let mut sh = Command::new("/bin/sh");
            sh.args(["-c", &format!("{OPEN}{MATCHING}"), "matching"]).arg(folder.path().join("log"));
            let output = sh.args(["", "x:x", "C"]).env("PATH", &tools).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(127) && said.contains(lacks), "{said}");
        }
    }
}
