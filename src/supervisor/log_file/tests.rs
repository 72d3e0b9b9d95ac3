//! Tests of the scripts in the shell of this machine.

use super::*;
use crate::logs::Pattern;
use std::path::Path;
use std::process::Command;

/// The exit status and the output of a search script.
fn answer(file: &Path, script: &str, query: &ContentSearch) -> (Option<i32>, String) {
    let mut sh = Command::new("sh");
    let script = format!("{}{}{script}", script::OPEN, script::GREP);
    sh.args(["-c", &script, "search"]).arg(file).args(query.arguments());
    let output = sh.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn words(pattern: &str) -> Grep {
    Grep::of(&Pattern::parse(pattern).unwrap()).unwrap().unwrap()
}

fn searched(file: &Path, pattern: &str) -> (Option<i32>, String) {
    answer(file, script::SEARCH, &ContentSearch::all(words(pattern)))
}

#[test]
fn whole_files_are_searched_with_grep() {
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
    assert!(
        found("error").ends_with(":error two\nstatus 0\n"),
        "case is ignored, and the last line needs no line break"
    );
    std::fs::write(&file, "yes\n".repeat(5000)).unwrap();
    let all = found("yes");
    assert!(all.starts_with("3000:11996:yes\n") && all.lines().count() == 2002);
}

fn matched(file: &Path, query: &ContentSearch) -> (Option<i32>, String) {
    answer(file, script::MATCHED, query)
}

#[test]
fn lines_with_colors_or_overwritten_text_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let red = "\x1b[1;31mERROR\x1b[0m: out of memory";
    std::fs::write(&file, format!("plain\n{red}\n10%|#\r20%|## done\r\n")).unwrap();
    let found = |pattern: &str| searched(&file, pattern).1;
    assert_eq!(found("^ERROR: out"), format!("2:6:{red}\nstatus 0\n"));
    assert!(found("^20%.* done$").starts_with("3:"), "the text as a terminal shows it");
    let mut query = ContentSearch { to_end: false, ..ContentSearch::all(words("^ERROR: out")) };
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&file).unwrap());
    let size = std::fs::metadata(&file).unwrap().len();
    assert_eq!(matched(&file, &query).1, format!("{inode} {size} 0 1\n{red}\n"));
    // The part above the colors is searched again in the same way.
    query.opened = Some(Opened { inode, size: 6, from: 0, is_drawn: false });
    query.grep = words("plain");
    assert_eq!(matched(&file, &query).1, format!("{inode} 6 0 1\nplain\n"));
}

#[test]
fn utf_16_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let wide: Vec<u8> = "\u{feff}ERROR: wide\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(&file, &wide).unwrap();
    assert_eq!(searched(&file, "wide").0, Some(86));
    std::fs::write(&file, [b":job_id:01000000\n".repeat(100), wide.repeat(50)].concat()).unwrap();
    assert_eq!(searched(&file, "wide").0, Some(86), "after the lines with which Ray starts the file");
    // NULs as at the start of a truncated file, and some bytes that are not text.
    std::fs::write(&file, [&[0; 4096][..], b"ERROR: wide\n", &b"a\0b of a line\n".repeat(50)].concat())
        .unwrap();
    assert_eq!(searched(&file, "wide$").0, Some(0));
}

#[test]
fn a_part_is_searched_to_its_end_or_to_the_last_line_break() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    std::fs::write(&file, "step 1\nstep 2\nstep 3").unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&file).unwrap());
    let mut query =
        ContentSearch { start: Start::At { inode, from: 7 }, ..ContentSearch::all(words("step")) };
    assert_eq!(matched(&file, &query).1, format!("{inode} 20 7 0\nstep 2\nstep 3\n"));
    query.to_end = false;
    assert_eq!(matched(&file, &query).1, format!("{inode} 14 7 0\nstep 2\n"));
    query.start = Start::At { inode, from: 14 };
    assert_eq!(matched(&file, &query).1, format!("{inode} 14 14 0\n"), "following starts there");
    query.start = Start::At { inode: inode + 1_000_000, from: 14 };
    assert_eq!(matched(&file, &query).0, Some(81));
}

#[test]
fn whole_lines_are_searched_before_a_file_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let mut query = ContentSearch { to_end: false, ..ContentSearch::all(words("-?step [0-9]*5$")) };
    let lines = |numbers: Range<u32>| numbers.fold(String::new(), |text, n| text + &format!("step {n}\n"));
    let mut found = |text: &str, lines: Option<u32>| {
        std::fs::write(&file, text).unwrap();
        query.start = lines.map_or(Start::Beginning, Start::Lines);
        let (status, answer) = matched(&file, &query);
        assert_eq!(status, Some(0), "{answer}");
        let (head, rest) = answer.split_once('\n').unwrap();
        let opened = Opened::parse(head.as_bytes()).unwrap();
        (opened.from, opened.size, rest.to_owned())
    };
    assert_eq!(found("", None), (0, 0, String::new()));
    assert_eq!(found("step 5", None), (0, 0, String::new()), "an incomplete line is left for following");
    assert_eq!(found(&lines(0..10), None), (0, 70, "step 5\n".into()));
    assert_eq!(found(&(lines(0..10) + "step 15"), None), (0, 70, "step 5\n".into()));
    assert_eq!(found(&(lines(0..10) + "step 15"), Some(4)), (42, 70, String::new()));
    assert_eq!(found(&lines(0..10), Some(5)), (35, 70, "step 5\n".into()));
    let bar = "x".repeat(200_000);
    assert_eq!(found(&(lines(4..6) + &bar), None), (0, 14, "step 5\n".into()));
    assert_eq!(found(&bar, None), (0, 0, String::new()));
    // The same part is searched again, in a file that has grown and in one that is gone.
    let opened = |inode| Some(Opened { inode, size: 70, from: 0, is_drawn: false });
    std::fs::write(&file, lines(0..20)).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&file).unwrap());
    query.opened = opened(inode);
    assert_eq!(matched(&file, &query), (Some(0), format!("{inode} 70 0 0\nstep 5\n")));
    query.opened = opened(inode + 1_000_000);
    assert_eq!(matched(&file, &query).0, Some(81));
}

#[test]
fn reasons_why_a_file_cannot_be_searched_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let status = |name: &str| searched(&folder.path().join(name), "x").0;
    assert_eq!((status("missing"), status("."), status("no/directory")), (Some(80), Some(84), Some(83)));
    // A machine without one of the programs.
    std::fs::write(folder.path().join("log"), "x\n").unwrap();
    for (has, lacks) in [("head", "tail"), ("tail", "head"), ("head tail", "grep")] {
        let tools = folder.path().join(lacks);
        std::fs::create_dir(&tools).unwrap();
        for tool in has.split(' ').chain(["sh", "stat", "wc", "dd", "tr"]) {
            let there = ["/bin", "/usr/bin"].map(|dir| Path::new(dir).join(tool));
            let there = there.iter().find(|path| path.exists()).unwrap();
            std::os::unix::fs::symlink(there, tools.join(tool)).unwrap();
        }
        let mut sh = Command::new("/bin/sh");
        let script = format!("{}{}{}", script::OPEN, script::GREP, script::MATCHED);
        sh.args(["-c", &script, "matched"]).arg(folder.path().join("log"));
        let output =
            sh.args(ContentSearch::all(words("x")).arguments()).env("PATH", &tools).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(127) && stderr.contains(lacks), "{stderr}");
    }
}

/// A fake `docker` whose container has the log directory `logs` next to the script.
const DOCKER: &str = r#"#!/bin/sh
dir=${0%/*}
if [ "$1" = inspect ]; then echo true; exit; fi
[ "$1 $2 $3" = "exec -i ray_docker" ] || exit 125
shift 3
n=$#
while [ "$n" -gt 0 ]; do
  a=$1
  shift
  case $a in /tmp/ray/session_latest/logs/*) a=$dir/logs/${a##*/} ;; esac
  set -- "$@" "$a"
  n=$((n - 1))
done
exec "$@"
"#;

#[test]
fn without_a_log_directory_the_file_is_read_in_the_container() {
    use crate::model::Provider;
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let docker = file("docker", DOCKER);
    std::fs::set_permissions(docker, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    file("logs/a 'log'", "step 1\nERROR 2\nstep 3\n");
    let spec = |text: &str| ClusterSpec {
        file: Some(file("lab.yaml", text)),
        ..ClusterSpec::sample("lab", Provider::Local)
    };
    let has_none = spec("cluster_name: lab\n");
    let missing = [ReadError::NoFolder, ReadError::Missing];
    let enters = |spec: &ClusterSpec, why: &ReadError| LogFile::new("a 'log'").enter_after(why, spec);
    assert!(!missing.iter().any(|why| enters(&has_none, why)), "the cluster file names no container");
    let has_one = spec("cluster_name: lab\ndocker: {image: i, container_name: ray_docker}\n");
    assert!(missing.iter().all(|why| enters(&has_one, why)));
    assert!(!enters(&has_one, &ReadError::Refused("permission denied")), "the file exists");
    let mut log = LogFile::new("a 'log'");
    let mut enters = || log.enter_after(&ReadError::NoFolder, &has_one);
    assert!(enters() && !enters(), "it is entered only once");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let answer = |script: (&str, &str), arguments: &[String]| {
        let line = log.command(&has_one, script, arguments).unwrap();
        let output = Command::new("sh").args(["-c", &line]).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let search = format!("{}{}", script::GREP, script::SEARCH);
    let query = ContentSearch::all(words("ERROR")).arguments();
    assert_eq!(answer(("search", &search), &query), "2:7:ERROR 2\nstatus 0\n");
    assert_eq!(answer(("last", script::LAST), &["1".to_owned()]), "step 3\n");
}

#[test]
fn a_rotated_file_is_read_to_its_end_and_a_newer_one_is_reported() {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let script = format!("{}{}", script::OPEN, script::FOLLOW);
    // The names of Python's handlers, of spdlog and of logrotate.
    for [newest, older, oldest] in [
        ["monitor.log", "monitor.log.1", "monitor.log.2"],
        ["raylet.out", "raylet.1.out", "raylet.2.out"],
        ["gcs_server.out", "gcs_server.out-20261126", "gcs_server.out-20261125"],
    ] {
        for (name, modified) in [(oldest, 60), (older, 120), (newest, 180)] {
            let file = std::fs::File::create(at(name)).unwrap();
            (&file).write_all(b"one\ntwo\n").unwrap();
            file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(modified)).unwrap();
        }
        let followed = |name: &str| {
            let inode = std::fs::metadata(at(name)).unwrap().ino();
            let mut sh = Command::new("sh");
            sh.args(["-c", &script, "follow"]).arg(at(newest)).args([&inode.to_string(), "4"]);
            let output = sh.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(text, format!("{inode} 8 4\ntwo\n"));
            output.status.code()
        };
        assert_eq!((followed(older), followed(oldest)), (Some(81), Some(89)), "{newest}");
    }
}

#[test]
fn samples_are_evenly_spaced_from_the_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let script = format!("{}{}", script::OPEN, script::SAMPLES);
    let sampled = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut sh = Command::new("sh");
        sh.args(["-c", &script, "samples"]).arg(&file).args(["", "4", "5"]);
        let out = sh.output().unwrap().stdout;
        let parts = split(&out, SEPARATOR).skip(1);
        parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(sampled("0123456789abcdefghijklmnopqrstuvwxyzABCD"), ["01234", "abcde", "klmno", "uvwxy"]);
    assert_eq!(sampled("ab\nc"), ["ab\nc", "b\nc", "\nc", "c"], "a short file");
    assert_eq!(sampled(""), ["", "", "", ""]);
}
