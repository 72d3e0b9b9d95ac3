//! Logs of a real Ray behind a real sshd: read from the end, followed by position through changes of the file and
//! losses of the connection, and read through Ray's API where ssh cannot reach them.

use crate::bed::{Bed, Ray};
use crate::pty::Pty;
use crate::running::Running;
use crate::until::until;
use marin_tui::model::text::log_line;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time limit for a reconnection, or for a file of a gigabyte, on two busy cores.
const LONG: Duration = Duration::from_secs(120);
const LOGS: &str = "/tmp/ray/session_latest/logs";
/// Address of a worker node.
const WORKER: &str = "10.77.0.2";

/// A job that runs until the end of the test.
struct Job {
    bed: Bed,
    id: String,
}

impl Job {
    fn new(bed: Bed, entrypoint: &str, fields: &serde_json::Value) -> Self {
        let job = Self { bed, id: bed.submit_with("log", entrypoint, fields) };
        bed.job_becomes(&job.id, "RUNNING");
        job
    }

    fn file(&self) -> String {
        format!("{LOGS}/job-driver-{}.log", self.id)
    }

    /// Runs a script on the head with the log as `$f`.
    fn on_head(&self, script: &str) {
        self.bed.on("head", &["sh", "-c", &format!("f={}; {script}", self.file())]);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let script = format!(
            "ray job stop --no-wait --address http://127.0.0.1:8265 {}; rm -f {}*",
            self.id,
            self.file()
        );
        let _ = self.bed.command("head", &["sh", "-c", &script]).output();
    }
}

fn command(bed: Bed, words: &[&str]) -> Running {
    Running::start(bed.program(words))
}

/// Opens the console and selects a job.
fn console(job: &Job) -> Pty {
    job.bed.on("client", &["rm", "-rf", ".local/state/marin-tui", ".cache/marin-tui"]);
    let mut console = job.bed.console(160, 40);
    console.wait_for("connection", LONG, |text| text.contains("● up") && text.contains(" alive"));
    console.send(&format!("2/{}\r", job.id));
    console.wait_text(&format!("/{}", job.id));
    console
}

/// Bytes that the client has received over the network so far.
fn received(bed: Bed) -> u64 {
    let sum = "awk 'NR > 2 && $1 != \"lo:\" { sum += $2 } END { printf \"%d\", sum }' /proc/net/dev";
    bed.on("client", &["sh", "-c", sum]).trim().parse().unwrap()
}

#[test]
fn a_log_of_a_gigabyte_opens_at_its_end_and_is_read_backwards() {
    let bed = Bed::shared(Ray::Newest);
    let entry = "seq -f 'step %010.0f of a run that logs some sixty bytes a line' 17000000; \
                 printf 'new%s\\n' est-line; sleep 3600";
    let job = Job::new(bed, entry, &json!({}));
    let is_written = || bed.on("head", &["tail", "-n", "1", &job.file()]).contains("newest-line");
    let began = Instant::now();
    while !is_written() {
        assert!(began.elapsed() < LONG, "the log is not written");
        std::thread::sleep(Duration::from_millis(500));
    }
    // Counted from the connection on: the log pane follows the only job before a key is pressed.
    let before = received(bed);
    let mut console = console(&job);
    console.send("l");
    console.wait_text("newest-line");
    let bytes = received(bed) - before;
    assert!((200_000..1_000_000).contains(&bytes), "{bytes} bytes were received for one screen");
    // One page upwards: the number of the first line is smaller by at most a page.
    console.send("gg");
    let text = console.wait("the amount above", |text| text.contains("GB above"));
    assert!(text.contains("below"), "{text}");
    let first = |text: &str| {
        let line = text.lines().find_map(|l| l.split_once("step 00")?.1.split(' ').next())?;
        line.parse::<u64>().ok()
    };
    let top = first(&text).unwrap();
    console.send("\x1b[5~");
    console.wait("the lines above", |text| first(text).is_some_and(|n| n < top && n + 45 > top));
    // Back to the end.
    console.send("G");
    console.wait("the end", |text| text.contains("newest-line") && text.contains("FOLLOW"));
    // The whole file is searched on the host, and only matches are sent.
    let before = received(bed);
    let (code, out, stderr) =
        command(bed, &["job-logs", &job.id, "-g", "STEP 001234567[78] OF|newest-line"]).finish();
    assert_eq!(
        (code, out.lines().count()),
        (Some(0), 1),
        "a capital letter makes the search case-sensitive: {out} {stderr}"
    );
    let (code, out, stderr) =
        command(bed, &["job-logs", &job.id, "-g", "step 001234567[78] of|newest-line"]).finish();
    assert_eq!(
        (code, out.lines().count(), out.lines().last()),
        (Some(0), 3, Some("newest-line")),
        "{stderr}"
    );
    let (code, out, stderr) = command(bed, &["job-logs", &job.id, "-g", "-e never 'said' (here)"]).finish();
    assert_eq!((code, &*out), (Some(1), ""), "{stderr}");
    assert!(received(bed) - before < 1_000_000, "more than the matching lines was received");
    let (code, out, stderr) = command(bed, &["job-logs", "-n", "2", &job.id]).finish();
    assert_eq!(
        (code, out.lines().count(), out.lines().last()),
        (Some(0), 2, Some("newest-line")),
        "{stderr}"
    );
    // The same with -f; lines that are written before the search has ended are not lost.
    let before = received(bed);
    let mut follows = command(bed, &["job-logs", "-f", "-g", "step 001234567[78] of|newest-line", &job.id]);
    job.on_head("printf 'newest-li' >>$f");
    follows.out.until("newest-line");
    job.on_head("echo ne-of-all >>$f; echo other >>$f");
    follows.out.until("newest-line-of-all");
    assert!(received(bed) - before < 1_000_000, "more than the matching lines was received");
    bed.sshd_stop("head");
    follows.wait_for("connection lost");
    job.on_head("echo newest-line-2 >>$f; mv $f $f.1; echo newest-line-3 >>$f.1; echo newest-line-4 >>$f");
    bed.sshd_start("head");
    follows.out.until("newest-line-4");
    let lines: Vec<&str> = follows.out.all.lines().collect();
    let (steps, newest) = lines.split_at(2);
    assert!(steps.iter().all(|line| line.starts_with("step 001234567")), "{lines:?}");
    let newest_lines =
        ["newest-line", "newest-line-of-all", "newest-line-2", "newest-line-3", "newest-line-4"];
    assert_eq!(newest, newest_lines);
}

#[test]
fn lines_of_the_last_minutes_are_found_by_their_timestamps() {
    let bed = Bed::shared(Ray::Newest);
    // Two hours, a step every second.
    let entry = r#"bash -c 'now=$(date +%s); for i in $(seq 7200 -1 0); do at=$((now - i));
        printf "%(%F %T)T,000 INFO step %s\n  of\n" $at $at; done; printf "al%s\n" l-said; sleep 3600'"#;
    let job = Job::new(bed, entry, &json!({}));
    until("the log", || bed.on("head", &["tail", "-n", "1", &job.file()]).contains("all-said"));
    let lines = |words: &[&str]| {
        let (code, out, stderr) = command(bed, &[&["job-logs", &job.id][..], words].concat()).finish();
        assert_eq!(code, Some(0), "{stderr}");
        out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let recent = lines(&["--since", "10m"]);
    // Less than five minutes have passed since the job was started.
    assert!((600..=1202).contains(&recent.len()), "{}", recent.len());
    assert_eq!(recent.last().unwrap(), "all-said");
    assert!(recent[0].contains(" INFO step "), "{}", recent[0]);
    assert!(lines(&["--since", "1h", "-g", "INFO"]).len() > 3000);
    // The matching lines have no timestamp: that of the line above applies.
    let untimed = lines(&["--since", "10m", "-g", "^  of$"]);
    assert!((300..=601).contains(&untimed.len()), "{}", untimed.len());
    let before = received(bed);
    let mut follows = command(bed, &["job-logs", "-f", "--since", "10m", "-g", "all-said|added", &job.id]);
    follows.out.until("all-said");
    job.on_head("echo added >>$f");
    follows.out.until("added");
    assert_eq!(follows.out.all, "all-said\nadded\n");
    assert!(received(bed) - before < 200_000, "more than some parts and the matching lines was received");
    let json = lines(&["--since", "10m", "--json"]);
    let time = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()["time_ms"].as_i64();
    assert!(
        json.iter().all(|line| time(line).is_some()),
        "a line without a timestamp has that of the line before"
    );
}

#[test]
fn an_unreadable_log_reports_the_reason_and_a_coloured_one_is_searched() {
    let bed = Bed::shared(Ray::Newest);
    let entry =
        r"printf '\033[1;31mERROR\033[0m: out of \033[36mmemory\033[m\r\n10%%|#\r20%%|##\n'; sleep 3600";
    let job = Job::new(bed, entry, &json!({}));
    until("the log", || bed.on("head", &["cat", &job.file()]).contains("20%"));
    let found = |pattern: &str| command(bed, &["job-logs", &job.id, "-g", pattern]).finish();
    for (pattern, line) in [("^ERROR: out of memory$", "ERROR: out of memory"), ("^20%", "20%|##")] {
        let (code, out, stderr) = found(pattern);
        assert_eq!((code, out), (Some(0), format!("{line}\n")), "{pattern}: {stderr}");
        assert!(!stderr.contains("cannot be"), "{stderr}");
    }
    let mut console = console(&job);
    console.send("l");
    console.wait_text("out of memory");
    console.send("/ERROR: out\r");
    console.wait_text("/ERROR: out");
    console.send("g/");
    console.wait_text("1 line of the whole log");
    drop(console);
    // A log in UTF-16 is read through the dashboard.
    job.on_head(r"printf '\377\376E\0R\0R\0O\0R\0 \0w\0i\0d\0e\0\n\0' >$f.new; cat $f.new >$f; rm $f.new");
    let (code, out, stderr) = found("wide");
    assert_eq!((code, &*out), (Some(0), "ERROR wide\n"), "{stderr}");
    assert!(stderr.contains("UTF-16"), "{stderr}");
    // A directory in its place, and then a file of another user.
    job.on_head("mv $f $f.1; mkdir $f");
    let (code, out, stderr) = found("wide");
    assert!(stderr.contains("not a regular file"), "{code:?} {out} {stderr}");
    assert!(code != Some(0) && out.is_empty(), "{code:?} {out} {stderr}");
    job.on_head("rmdir $f; mv $f.1 $f");
    let protect = format!("chown root:root {0}; chmod 000 {0}", job.file());
    bed.on_root("head", &["sh", "-c", &protect]);
    let (code, out, stderr) = found("wide");
    assert!(stderr.contains("permission denied"), "{code:?} {out} {stderr}");
    assert!(code != Some(0) && out.is_empty(), "{code:?} {out} {stderr}");
}

#[test]
fn no_line_is_lost_whatever_happens_to_the_file_and_the_connection() {
    let bed = Bed::shared(Ray::Newest);
    let job = Job::new(bed, "printf 'li%s\\n' ne-0; sleep 3600", &json!({}));
    let mut log = command(bed, &["job-logs", "-f", &job.id]);
    log.out.until("line-0");
    job.on_head("echo line-1 >>$f");
    log.out.until("line-1");
    // Rotated while it is followed: lines added to the old file come before those of the new one.
    job.on_head("echo line-2 >>$f; mv $f $f.1; echo line-3 >>$f.1; echo line-4 >>$f; echo padding >>$f");
    log.out.until("padding");
    log.wait_for("was rotated");
    // Truncated.
    job.on_head("echo line-5 >$f");
    log.out.until("line-5");
    log.wait_for("was truncated");
    // Written to, rotated and written to while the connection is lost.
    bed.sshd_stop("head");
    log.wait_for("connection lost");
    job.on_head("echo line-6 >>$f; mv $f $f.1; echo line-7 >>$f.1; echo line-8 >>$f");
    bed.sshd_start("head");
    log.wait_for("reconnected after");
    log.out.until("line-8");
    // Replaced by a longer file while the connection is lost: the old one is gone, which is reported.
    bed.sshd_stop("head");
    log.wait_for("connection lost");
    job.on_head("rm $f.1; { echo line-9; seq -f 'line-%g' 10 100; } >$f.new; mv $f.new $f");
    bed.sshd_start("head");
    log.wait_for("was replaced");
    log.out.until("line-100");
    bed.post(&format!("/api/jobs/{}/stop", job.id), &json!({}));
    let (code, out, stderr) = log.finish();
    assert_eq!(code, Some(3), "{stderr}");
    let numbers: Vec<u32> = out.lines().filter_map(|l| l.strip_prefix("line-")?.parse().ok()).collect();
    assert_eq!(numbers, (0..=100).collect::<Vec<_>>(), "{stderr}");
}

fn a_driver_on_a_worker_is_read(bed: Bed) {
    let on_worker = json!({"entrypoint_resources": {format!("node:{WORKER}"): 0.001}});
    let entry = "seq -f 'li%gne' 5000; for i in $(seq 1 60); do printf 'ti%s=%d\\n' ck $i; sleep 0.5; done";
    let job = Job::new(bed, entry, &on_worker);
    let mut log = command(bed, &["job-logs", "-f", "-n", "1", &job.id]);
    let all = command(bed, &["job-logs", "-f", &job.id]);
    log.out.until("tick=");
    let mut console = console(&job);
    console.send("l");
    console.wait_text("tick=");
    for _ in 0..6 {
        console.send("gg");
        std::thread::sleep(Duration::from_secs(1));
    }
    console.wait_for("the first line", LONG, |text| {
        let at = text.contains("from the beginning") && text.contains("li1ne");
        at || !text.contains("li1ne ") && text.contains("li1ne")
    });
    drop(console);
    let (code, out, stderr) = log.finish();
    assert_eq!(code, Some(0), "{stderr}");
    let ticks = |out: &str| -> Vec<u32> {
        out.lines().filter_map(|l| l.strip_prefix("tick=")?.parse().ok()).collect()
    };
    let seen = ticks(&out);
    let first = seen[0];
    assert_eq!(seen, (first..=60).collect::<Vec<_>>(), "{stderr}");
    let (_, out, _) = all.finish();
    assert_eq!(ticks(&out), (1..=60).collect::<Vec<_>>());
    let (code, out, _) = command(bed, &["job-logs", "-n", "2", &job.id]).finish();
    assert_eq!((code, out.as_str()), (Some(0), "tick=59\ntick=60\n"));
}

#[test]
fn a_driver_on_a_worker_is_read_through_the_newest_ray() {
    a_driver_on_a_worker_is_read(Bed::shared(Ray::Newest));
}

#[test]
fn a_driver_on_a_worker_is_read_through_the_oldest_ray() {
    a_driver_on_a_worker_is_read(Bed::shared(Ray::Oldest));
}

#[test]
fn an_address_alone_gives_the_same_lines() {
    let bed = Bed::shared(Ray::Newest);
    let entry = "for i in $(seq 1 30); do printf 'ti%s=%d\\n' ck $i; sleep 0.3; done";
    let job = Job::new(bed, entry, &json!({}));
    let address = ["--address", "http://127.0.0.1:8265", "job-logs"];
    let start = |words: &[&str]| {
        let words = [&[env!("CARGO_BIN_EXE_marin-tui")][..], &address, words, &[&job.id]].concat();
        Running::start(bed.command("head", &words))
    };
    let (all, end) = (start(&["-f"]), start(&["-f", "-n", "1"]));
    let ticks = |running: Running| {
        let (code, out, stderr) = running.finish();
        assert_eq!(code, Some(0), "{stderr}");
        let ticks = out.lines().filter_map(|l| l.strip_prefix("tick=")?.parse().ok());
        ticks.collect::<Vec<u32>>()
    };
    assert_eq!(ticks(all), (1..=30).collect::<Vec<_>>());
    let seen = ticks(end);
    assert_eq!(seen, (seen[0]..=30).collect::<Vec<_>>());
    assert_eq!(ticks(start(&["-n", "3"])), [28, 29, 30]);
}

/// The kind of a log file, independent of its process or job: its name up to the first number or id.
fn kind(name: &str) -> &str {
    let id = name
        .split(['-', '_', '.'])
        .find(|part| part.len() > 1 && part.contains(|c: char| c.is_ascii_digit()));
    id.and_then(|id| name.find(id)).map_or(name, |at| &name[..at])
}

/// Reads a file of each kind of Ray's own logs on the head and on a worker: the last lines, through the dashboard and
/// by a search on the host, are those on the disk. The logs of workers and drivers have their own tests.
fn files_of_ray_are_read_as_they_are_on_the_disk(bed: Bed) {
    let run = |words: &[&str]| {
        let (code, out, stderr) = command(bed, &[&["cluster-logs"], words].concat()).finish();
        assert_eq!(code, Some(0), "{words:?}: {stderr}");
        out
    };
    let mut read = Vec::new();
    let mut kinds = BTreeSet::new();
    for (host, node) in [("head", "head"), ("w1", WORKER)] {
        let names = run(&["--node", node, "--json"]);
        for row in serde_json::from_str::<Vec<Value>>(&names).unwrap() {
            let name = row["file"].as_str().unwrap().to_owned();
            if name.starts_with("worker-") || name.starts_with("job-driver-") {
                continue;
            }
            let disk = || {
                let cat = format!("f={LOGS}/$0; [ ! -f $f ] || cat $f");
                let bytes = bed.command(host, &["sh", "-c", &cat, &name]).output().unwrap().stdout;
                String::from_utf8_lossy(&bytes).lines().map(log_line).collect::<Vec<_>>()
            };
            // Skip kinds already read, directories and empty files.
            if kinds.contains(&(host, kind(&name).to_owned()))
                || disk().iter().all(|line| line.trim().is_empty())
            {
                continue;
            }
            kinds.insert((host, kind(&name).to_owned()));
            // A file that is written to has more lines afterwards. One that was rewritten, like debug_state.txt every ten
            // seconds, is read again.
            let (last, found, disk) = loop {
                let before = disk();
                let last = run(&["--node", node, "--file", &name, "-n", "20"]);
                let found = run(&["--node", node, "--file", &name, "-g", "[^ ]", "-m", "20", "--json"]);
                let after = disk();
                if after.starts_with(&before) {
                    break (last, found, after);
                }
            };
            let last: Vec<&str> = last.lines().collect();
            let is_there =
                |lines: &[&str], disk: &[&str]| disk.windows(lines.len()).any(|part| part == lines);
            let all: Vec<&str> = disk.iter().map(String::as_str).collect();
            assert!(!last.is_empty() && is_there(&last, &all), "{host} {name}: {last:#?} is not in {all:#?}");
            let text = |line: &str| {
                serde_json::from_str::<Value>(line).unwrap()["text"].as_str().unwrap().to_owned()
            };
            let found: Vec<String> = found.lines().map(text).collect();
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            let full: Vec<&str> = all.iter().copied().filter(|line| !line.trim().is_empty()).collect();
            assert!(
                !found.is_empty() && is_there(&found, &full),
                "{host} {name}: {found:#?} is not in {full:#?}"
            );
            read.push(format!("{host} {name}"));
        }
    }
    for file in
        ["head raylet.out", "head gcs_server.out", "head dashboard.log", "head monitor.log", "w1 raylet.out"]
    {
        assert!(read.iter().any(|read| read == file), "{file} is not among {read:?}");
    }
}

#[test]
fn the_newest_rays_own_files_are_read_as_they_are_on_the_disk() {
    files_of_ray_are_read_as_they_are_on_the_disk(Bed::shared(Ray::Newest));
}

#[test]
fn the_oldest_rays_own_files_are_read_as_they_are_on_the_disk() {
    files_of_ray_are_read_as_they_are_on_the_disk(Bed::shared(Ray::Oldest));
}
