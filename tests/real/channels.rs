//! A second user on the console's machine, with a real Ray behind a real sshd: this user tries the sockets and listens
//! on every port that becomes free, while a log is followed across a lost connection.

use crate::bed::{Bed, INFRA, Ray, TIMEOUT, TOKEN};
use crate::running::Running;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// Prints a number twice a second, starting at 1. The output cannot be mistaken for the command itself.
const TICKS: &str = "for i in $(seq 1 100000); do printf 'ti%s=%d\\n' ck $i; sleep 0.5; done";
/// Id of a user other than root and `ray`.
const SECOND_USER: &str = "4242";
/// Connects to each socket in its arguments, and prints the results.
const TRY_SOCKETS: &str = "
import socket, sys
for path in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(path)
        print('connected')
    except OSError as e:
        print(type(e).__name__)
";
/// Binds ports at both loopback addresses as soon as they are free, listens until its input ends, and then prints how
/// many connections and bytes it received.
const TAKE_PORTS: &str = "
import select, socket, sys, time
heard, bytes_, listeners, streams = 0, 0, [], []
for port in sys.argv[1:]:
    for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
        s = socket.socket(family)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        while True:
            try:
                s.bind((address, int(port)))
                break
            except OSError:
                time.sleep(0.05)
        s.listen()
        listeners.append(s)
print('ready', flush=True)
while True:
    ready = select.select([sys.stdin] + listeners + streams, [], [])[0]
    if sys.stdin in ready:
        break
    for s in ready:
        if s in listeners:
            heard += 1
            streams.append(s.accept()[0])
        else:
            data = s.recv(65536)
            bytes_ += len(data)
            if not data:
                streams.remove(s)
print(heard, bytes_)
";

/// Reads a token from its input and then, at each further line, searches everything that this user may read: files in
/// the usual directories, and what /proc shows of each process. Prints how many files it read, and which ones contain
/// the token.
const SEARCH: &str = r"
import os, sys
needle = sys.stdin.readline().strip().encode()
assert len(needle) > 8
for _ in sys.stdin:
    read, found = 0, []
    paths = [f'/proc/{pid}/{name}' for pid in os.listdir('/proc') if pid.isdigit() for name in ('cmdline', 'environ')]
    for top in ('/tmp', '/var/tmp', '/run', '/dev/shm', '/home', '/var/log'):
        for folder, _, names in os.walk(top):
            paths += [os.path.join(folder, name) for name in names]
    for path in paths:
        try:
            if not path.startswith('/proc') and not os.path.isfile(path):
                continue
            with open(path, 'rb') as file:
                data = file.read(1 << 26)
        except OSError:
            continue
        read += 1
        if needle in data:
            found.append(path)
    print(read, *found, flush=True)
";
/// Variable with the duration of the faults in minutes, for `tests/soak`; without it, each fault occurs once.
const SOAK: &str = "SOAK_MINUTES";

/// Starts the program on the client host.
fn start(bed: Bed, words: &str) -> Running {
    Running::start(bed.program(&words.split(' ').collect::<Vec<_>>()))
}

/// A command that runs a Python script as the second user on the client host.
fn second_user(bed: Bed, script: &str, arguments: impl IntoIterator<Item = String>) -> Command {
    let argv = bed.on_client(&[]);
    let (client, start) = argv.split_last().unwrap();
    let mut command = Command::new(&start[0]);
    command.args(&start[1..]).args(["-r", client]);
    command.args(["setpriv", "--reuid", SECOND_USER, "--regid", SECOND_USER, "--clear-groups", "--"]);
    command.args(["python3", "-c", script]).args(arguments);
    command
}

fn tick(line: &str) -> Option<u64> {
    line.strip_prefix("tick=")?.parse().ok()
}

#[test]
fn a_second_user_reaches_no_socket_and_receives_nothing_while_a_log_continues() {
    let bed = Bed::shared(Ray::Newest);
    let job = bed.submit("ticking", TICKS);
    bed.job_becomes(&job, "RUNNING");
    let mut log = start(bed, &format!("job-logs -f {job}"));
    let mut seen: Vec<u64> = Vec::new();
    while seen.len() < 4 {
        seen.extend(tick(&log.out.next()));
    }

    // The sockets that the log is read through: visible to root, and not accessible to the second user.
    let folders = ["/run", "/tmp", "/home"];
    // The checkout, with the files of the beds, may be below one of them.
    let others = ["-path", "*/target", "-prune", "-o"];
    let wanted = ["-type", "s", "-name", "*-*.[0-9]*", "-print"];
    let sockets = bed.on_root("client", &[&["find"][..], &folders, &others, &wanted].concat());
    let sockets: Vec<String> = sockets.lines().map(str::to_owned).collect();
    assert!(sockets.len() >= 2, "{sockets:?}");
    let tried = second_user(bed, TRY_SOCKETS, sockets.clone()).output().unwrap();
    let tried = String::from_utf8(tried.stdout).unwrap();
    assert_eq!(tried.lines().collect::<Vec<_>>(), vec!["PermissionError"; sockets.len()]);

    let mut forward = start(bed, "forward --json");
    let ports = |line: String| {
        let ports: Value = serde_json::from_str(&line).unwrap();
        ["dashboard", "gcs", "client"].map(|service| ports[service].as_u64().unwrap())
    };
    let before = ports(forward.out.next());
    bed.sshd_stop("head");
    log.wait_for("connection lost");
    forward.wait_for("connection lost");
    let mut listener = Running::listening(second_user(bed, TAKE_PORTS, before.map(|port| port.to_string())));
    assert_eq!(listener.out.next(), "ready");
    log.wait_for("retrying");
    bed.sshd_start("head");
    log.wait_for("reconnected after");
    let last = *seen.last().unwrap();
    while *seen.last().unwrap() < last + 20 {
        seen.extend(tick(&log.out.next()));
    }
    assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>(), "no line is lost or repeated");
    // The second user holds the previous ports: the program uses other ones and reports them.
    let after = ports(forward.out.next());
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{before:?} {after:?}");
    drop(listener.child.stdin.take());
    assert_eq!(listener.out.next(), "0 0", "connections and bytes that the second user received");

    bed.post(&format!("/api/jobs/{job}/stop"), &json!({}));
    bed.job_becomes(&job, "STOPPED");
    assert_eq!(log.finish().0, Some(3));
}

/// Resident memory, in KiB, of the program on the client that has these arguments.
fn resident(bed: Bed, arguments: &str) -> u64 {
    let script = format!("ps -o rss= -p $(pgrep -n -f '{arguments}')");
    bed.on_root("client", &["sh", "-c", &script]).trim().parse().unwrap()
}

/// The link is cut, sshd stops, ssh is killed, the dashboard hangs: a console and followers recover from each fault,
/// while a second user on their machine binds the ports that become free and reads every readable file.
#[test]
fn faults_leave_a_second_user_no_token() {
    let minutes: u64 = std::env::var(SOAK).map_or(0, |minutes| minutes.parse().unwrap());
    let deadline = Instant::now() + Duration::from_secs(60 * minutes);
    let bed = Bed::shared(Ray::Newest);
    let job = bed.submit("ticking", TICKS);
    bed.job_becomes(&job, "RUNNING");
    let mut console = bed.console(160, 50);
    let is_up = |text: &str| text.contains("● up") && text.contains("3 hosts alive");
    console.wait_for("connection", TIMEOUT, is_up);
    let mut log = start(bed, &format!("job-logs -f -n 1 {job}"));
    let mut wait = start(bed, &format!("wait-job --show-logs {job}"));
    let mut forward = start(bed, "forward --json");
    let mut search = Running::listening(second_user(bed, SEARCH, []));
    search.send_line(bed.read(TOKEN).trim());
    // A follower that has not connected yet may give up at the first fault.
    let mut seen: Vec<u64> = tick(&log.out.next()).into_iter().collect();
    wait.out.next();
    let mut ports: Value = serde_json::from_str(&forward.out.next()).unwrap();
    let began = resident(bed, &format!("marin-tui --infra {INFRA}$"));
    let (mut rounds, mut files) = (0, 0);
    loop {
        for fault in ["cut", "sshd", "ssh killed", "dashboard stopped"] {
            let previous = ["dashboard", "gcs", "client"].map(|service| ports[service].to_string());
            match fault {
                "cut" => bed.cut("head"),
                "sshd" => bed.sshd_stop("head"),
                "ssh killed" => bed.signal("KILL", "ssh"),
                _ => bed.signal_dashboard("STOP"),
            }
            let closes = fault != "dashboard stopped";
            if closes {
                forward.wait_for("connection lost");
            }
            console.wait_for("the loss", TIMEOUT, |text| !is_up(text));
            search.send_line("now");
            let listener = (fault == "sshd").then(|| {
                let mut listener = Running::listening(second_user(bed, TAKE_PORTS, previous));
                assert_eq!(listener.out.next(), "ready");
                listener
            });
            match fault {
                "cut" => bed.heal("head"),
                "sshd" => bed.sshd_start("head"),
                "ssh killed" => {}
                _ => bed.signal_dashboard("CONT"),
            }
            console.wait_for("recovery", TIMEOUT, is_up);
            if closes {
                forward.wait_for("reconnected after");
            }
            // The ports are printed again only if they have changed.
            let first = listener.is_some().then(|| forward.out.next());
            for line in first.into_iter().chain(forward.out.received()) {
                ports = serde_json::from_str(&line).unwrap();
            }
            if let Some(mut listener) = listener {
                drop(listener.child.stdin.take());
                assert_eq!(listener.out.next(), "0 0", "connections and bytes that the second user received");
            }
            let result = search.out.next();
            let (read, found) = result.split_once(' ').unwrap_or((&result, ""));
            assert_eq!(found, "", "after {fault} in round {rounds} the second user read the token");
            files = files.max(read.parse::<u64>().unwrap());
            // The followers have recovered, too, without losing a line.
            let last = seen.last().copied();
            while seen.last().copied() <= last.map(|last| last + 4) {
                seen.extend(tick(&log.out.next()));
            }
            assert!(
                seen.windows(2).all(|pair| pair[0] + 1 == pair[1]),
                "a line is lost or repeated: {seen:?}"
            );
        }
        rounds += 1;
        if Instant::now() >= deadline {
            break;
        }
    }
    assert!(
        files > 20,
        "the second user read {files} files; the search finds nothing because it reads nothing"
    );
    let ended = resident(bed, &format!("marin-tui --infra {INFRA}$"));
    println!("{rounds} rounds, {} lines, {files} files searched; memory {began} to {ended} KiB", seen.len());
    bed.post(&format!("/api/jobs/{job}/stop"), &json!({}));
    for follower in [log, wait] {
        let (code, _, stderr) = follower.finish();
        assert_eq!(code, Some(3), "{stderr}");
    }
    console.send("q");
    console.wait_exit();
}
