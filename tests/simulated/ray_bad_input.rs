//! Invalid responses of a head: the client returns a clear error for each, does not crash and loses no data.

use crate::soon::soon;
use marin_tui::logs::LineSplitter;
use marin_tui::model::{
    JobStatus, Line, LogPart, NodeId, ProblemKind, Secret, SnapshotPart, SubmissionId, Timestamp,
};
use marin_tui::ray::{
    Client, Endpoint, Limits, LogEvent, LogStream, Polled, Poller, RayError, follow_whole, poll,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Placeholder for the server's response to the client's key (RFC 6455, section 4.2.2).
const ACCEPT: &[u8] = b"{accept}";

/// The response bytes of the test server for a route.
type Answer = Arc<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// Serves one request per connection with raw bytes; stalls if there are none.
async fn serve(answer: Answer) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(one(stream, answer.clone()));
        }
    });
    Endpoint::Direct { dashboard: format!("http://127.0.0.1:{port}"), gcs: None }
}

async fn one(mut stream: TcpStream, answer: Answer) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read_exact(&mut byte).await.is_err() {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    for forbidden in ["origin:", "referer:", "sec-websocket-extensions:"] {
        assert!(!head.to_lowercase().contains(forbidden), "{head}");
    }
    let mut bytes = answer(head.split_whitespace().nth(1).unwrap());
    let key =
        head.lines().find_map(|l| l.to_lowercase().starts_with("sec-websocket-key: ").then(|| &l[19..]));
    if let (Some(key), Some(at)) = (key, bytes.windows(ACCEPT.len()).position(|w| w == ACCEPT)) {
        bytes.splice(at..at + ACCEPT.len(), derive_accept_key(key.as_bytes()).into_bytes());
    }
    if bytes.is_empty() {
        std::future::pending::<()>().await;
    }
    // The client may disconnect once it has read enough.
    let _ = stream.write_all(&bytes).await;
}

fn http(status: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn json(body: &str) -> Vec<u8> {
    http("200 OK", "application/json; charset=utf-8", body.as_bytes())
}

async fn client(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Client {
    limited(Limits::default(), answer).await
}

async fn limited(limits: Limits, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Client {
    Client::with_limits(serve(Arc::new(answer)).await, Some(Secret::new("t")), limits).unwrap()
}

async fn version_of(bytes: Vec<u8>) -> RayError {
    client(move |_| bytes.clone()).await.version().await.unwrap_err()
}

#[tokio::test]
async fn other_servers_are_reported_as_not_ray() {
    let page = http("200 OK", "text/html", b"<!doctype html><h1>Welcome to nginx</h1>");
    let error = version_of(page).await;
    assert!(matches!(error, RayError::NotRay(_)), "{error}");
    assert_eq!(error.problem(Timestamp::now()).kind, ProblemKind::NotRay);
    let unlabelled = http("200 OK", "application/json", b"<html>proxy error</html>");
    assert!(matches!(version_of(unlabelled).await, RayError::NotRay(_)));
    let login = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/login\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(version_of(login.to_vec()).await, RayError::NotRay(_)));
    let other = http("404 Not Found", "text/html", b"<html>nope</html>");
    assert!(matches!(version_of(other).await, RayError::NotRay(_)));
}

#[tokio::test]
async fn an_incomplete_response_is_an_error() {
    assert!(matches!(version_of(json(r#"{"version": "4", "ray_ver"#)).await, RayError::Malformed { .. }));
    assert!(matches!(version_of(json("{}")).await, RayError::Malformed { .. }));
    let cut =
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{\"ray_version\": ";
    assert!(matches!(version_of(cut.to_vec()).await, RayError::Silent(_)));
    assert!(matches!(version_of(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()).await, RayError::Silent(_)));
}

#[tokio::test]
async fn a_traceback_is_reduced_to_its_last_line() {
    let body =
        b"Traceback (most recent call last):\n  File \"/opt/ray/x.py\", line 3\nValueError: too many cooks\n";
    let error = version_of(http("500 Internal Server Error", "text/plain", body)).await;
    assert_eq!(error, RayError::Status { code: 500, message: "ValueError: too many cooks".to_owned() });
}

#[tokio::test]
async fn authentication_errors_are_distinguished() {
    let missing = http("401 Unauthorized", "text/plain", b"Unauthorized: Missing authentication token");
    assert_eq!(version_of(missing).await, RayError::TokenMissing);
    let wrong = http("403 Forbidden", "text/plain", b"Forbidden: Invalid authentication token");
    assert_eq!(version_of(wrong).await, RayError::TokenRefused);
    let profiling =
        http("403 Forbidden", "text/plain", b"Profiling is disabled by default for security reasons.");
    assert!(matches!(version_of(profiling).await, RayError::Forbidden(_)));
}

#[tokio::test]
async fn a_stalled_response_times_out() {
    let limits = Limits { call: Duration::from_secs(1), ..Limits::default() };
    let error = limited(limits, |_| Vec::new()).await.version().await.unwrap_err();
    assert!(matches!(error, RayError::Silent(_)), "{error}");
    assert_eq!(error.problem(Timestamp::now()).kind, ProblemKind::DashboardSilent);
}

#[tokio::test]
async fn a_refused_connection_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let endpoint = Endpoint::Direct { dashboard: format!("http://127.0.0.1:{port}"), gcs: None };
    let error = Client::new(endpoint, None).unwrap().version().await.unwrap_err();
    assert!(matches!(&error, RayError::Silent(why) if why.contains("refused")), "{error}");
}

#[tokio::test]
async fn a_huge_response_is_rejected_and_a_large_one_is_not() {
    let body = |size: usize| {
        let mut body = vec![b' '; size];
        body.extend_from_slice(br#"{"ray_version": "2.60.0"}"#);
        body
    };
    let endless = move |_: &str| [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &body(2 << 20)].concat();
    let small = Limits { body: 1 << 20, ..Limits::default() };
    assert_eq!(limited(small, endless).await.version().await, Err(RayError::TooLarge(1 << 20)));
    let announced = move |_: &str| http("200 OK", "application/json", &body(2 << 20));
    assert_eq!(limited(small, announced).await.version().await, Err(RayError::TooLarge(1 << 20)));
    let large = move |_: &str| http("200 OK", "application/json", &body(50 << 20));
    assert!(limited(Limits::default(), large).await.version().await.is_ok());
}

/// A head with one broken part.
fn partly_broken(route: &str) -> Vec<u8> {
    match route.split('?').next().unwrap() {
        "/api/version" => json(r#"{"ray_version": "2.60.0", "session_name": "session_1"}"#),
        "/api/v0/nodes" => json(
            r#"{"result": true, "data": {"result": {"num_filtered": 3, "result": [
                {"node_id": "00000000000000000000000000000000000000000000000000000001", "node_ip": "10.0.0.1",
                 "is_head_node": true, "state": "ALIVE", "resources_total": {"CPU": NaN, "TPU": "4"}},
                {"node_id": "0101", "state": "ALIVE"}, null]}}}"#,
        ),
        "/api/jobs/" => json(r#"[{"submission_id": "a", "status": "RUNNING", "start_time": Infinity}, 7]"#),
        "/api/jobs/a" => json(r#"{"submission_id": "a", "status": "SUCCEEDED"}"#),
        _ => http(
            "500 Internal Server Error",
            "text/plain",
            b"500 Internal Server Error\n\nServer got itself in trouble",
        ),
    }
}

#[tokio::test]
async fn a_broken_part_affects_that_part_only() {
    let mut poller = Poller::new(client(partly_broken).await);
    let snapshot = poller.refresh().await.unwrap();
    assert_eq!(snapshot.nodes.len(), 1, "a row without a valid id is omitted");
    assert_eq!(snapshot.nodes[0].resources.get("TPU").map(|r| r.total), Some(4.0));
    assert_eq!((snapshot.jobs.len(), snapshot.jobs[0].status), (1, JobStatus::Running));
    assert!(snapshot.missing.iter().any(|m| m.part == SnapshotPart::Autoscaler && m.why.contains("trouble")));
    let again = poller.refresh().await.unwrap();
    assert!(Arc::ptr_eq(&again.nodes, &snapshot.nodes) && Arc::ptr_eq(&again.jobs, &snapshot.jobs));
}

#[tokio::test]
async fn a_dead_gcs_falls_back_to_the_dashboard() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let Endpoint::Direct { dashboard, .. } = serve(Arc::new(partly_broken)).await else { unreachable!() };
    let endpoint = Endpoint::Direct { dashboard, gcs: Some(closed.to_string()) };
    let client = Client::new(endpoint, None).unwrap();
    let mut poller = Poller::new(client.clone());
    assert_eq!(poller.refresh().await.unwrap().nodes.len(), 1);
    assert!(!poller.over_gcs());
    let requests = client.meter().gcs.requests();
    poller.refresh().await.unwrap();
    assert_eq!(client.meter().gcs.requests(), requests, "the GCS is not retried at once");
}

/// The whole log of a job.
fn whole(client: &Client) -> LogStream {
    let clients = watch::channel(Some(client.clone())).1;
    let follow = |out| follow_whole(clients, SubmissionId("a".into()), out);
    LogStream::spawn(LineSplitter::ON_A_SCREEN, follow)
}

/// A file of a node.
fn file() -> Polled {
    Polled::File(NodeId::from_bytes(&[7; 28]).unwrap(), "worker.out".into())
}

/// The last lines of that file, which has ended.
fn polled(client: &Client, keep: u32) -> LogStream {
    let (clients, ended) = (watch::channel(Some(client.clone())).1, watch::channel(true).1);
    LogStream::spawn(LineSplitter::ON_A_SCREEN, move |out| poll(clients, file(), keep, Some(ended), out))
}

#[tokio::test]
async fn a_file_whose_lines_take_too_long_is_read_with_fewer_lines() {
    let limits = Limits { call: Duration::from_secs(1), ..Limits::default() };
    let client = limited(limits, |route| match route.rsplit_once("&lines=") {
        Some((_, "1000000")) => Vec::new(),
        Some((_, lines)) => http("200 OK", "text/plain", "x\n".repeat(lines.parse().unwrap()).as_bytes()),
        None => partly_broken(route),
    })
    .await;
    let mut tail = polled(&client, u32::MAX);
    let (mut lines, mut messages) = (0, Vec::new());
    loop {
        match tail.next().await.unwrap() {
            LogEvent::Lines(part) => lines += part.lines.len(),
            LogEvent::Interrupted(why) | LogEvent::Note(why) => messages.push(why),
            end => {
                assert_eq!(end, LogEvent::Complete);
                break;
            }
        }
    }
    assert_eq!(lines, 125_000);
    let expected = [
        "no response: the response timed out; retrying with 125000 lines",
        "earlier lines are missing here: only the last 125000 could be read",
    ];
    assert_eq!(messages, expected);
}

/// A file that is followed, of a node whose dashboard returns its last lines.
struct Followed {
    file: Arc<Mutex<String>>,
    client: Client,
    clients: watch::Sender<Option<Client>>,
    tail: LogStream,
}

impl Followed {
    /// Follows a file with this content from its last `keep` lines on; returns after the first read.
    async fn new(content: &str, keep: u32) -> Self {
        let (file, reads) = (Arc::new(Mutex::new(content.to_owned())), Arc::new(AtomicUsize::new(0)));
        let (served, count) = (Arc::clone(&file), Arc::clone(&reads));
        let client = client(move |route| {
            let Some((_, lines)) = route.rsplit_once("&lines=") else { return partly_broken(route) };
            let served = served.lock().unwrap();
            let skipped = served.lines().count().saturating_sub(lines.parse().unwrap());
            let end: String = served.split_inclusive('\n').skip(skipped).collect();
            count.fetch_add(1, Ordering::SeqCst);
            http("200 OK", "text/plain", end.as_bytes())
        })
        .await;
        let (clients, receiver) = watch::channel(Some(client.clone()));
        let follow = move |out| poll(receiver, self::file(), keep, None, out);
        let tail = LogStream::spawn(LineSplitter::ON_A_SCREEN, follow);
        let read = async {
            while reads.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("the file is read", read).await;
        Self { file, client, clients, tail }
    }

    /// Changes the file, and requests a read.
    fn change(&self, change: impl FnOnce(&mut String)) {
        change(&mut self.file.lock().unwrap());
        self.clients.send_replace(Some(self.client.clone()));
    }

    async fn next(&mut self) -> LogEvent {
        soon("the stream continues", self.tail.next()).await.unwrap()
    }

    /// The next `count` lines, and the position of the first one and of the log's beginning.
    async fn lines(&mut self, count: usize) -> (Vec<String>, (u64, Option<u64>)) {
        let (mut lines, mut first) = (Vec::new(), None);
        while lines.len() < count {
            let LogEvent::Lines(part) = self.next().await else { panic!("no lines after {lines:?}") };
            first.get_or_insert((part.bytes.start, part.begin));
            lines.extend(part.lines.iter().map(Line::to_string));
        }
        (lines, first.unwrap())
    }
}

/// Lines with these numbers.
fn numbered(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|n| format!("line number {n:06}")).collect()
}

/// Lines with these numbers, as in a file.
fn text(numbers: std::ops::Range<u32>) -> String {
    numbered(numbers).into_iter().map(|line| line + "\n").collect()
}

#[tokio::test]
async fn the_first_lines_of_an_empty_file_are_read_completely() {
    // A partial line is not passed on until it is complete.
    for content in ["", "line num"] {
        let mut followed = Followed::new(content, 100).await;
        followed.change(|file| *file = text(0..500));
        let (lines, (start, begin)) = followed.lines(500).await;
        assert_eq!((lines, begin), (numbered(0..500), Some(start)));
        // Emptied, and then written again.
        followed.change(String::clear);
        let replaced = "the file was replaced or truncated; its lines follow";
        assert_eq!(followed.next().await, LogEvent::Note(replaced.to_owned()));
        followed.change(|file| *file = text(1000..1500));
        assert_eq!(followed.lines(500).await.0, numbered(1000..1500));
    }
}

#[tokio::test]
async fn a_file_that_is_followed_without_existing_lines_continues_with_new_ones() {
    for existing in [0, 1, 300] {
        let mut followed = Followed::new(&text(0..existing), 0).await;
        followed.change(|file| file.push_str(&text(1000..1001)));
        assert_eq!(followed.lines(1).await.0, numbered(1000..1001), "after {existing} lines");
        followed.change(|file| file.push_str(&text(1001..1500)));
        assert_eq!(followed.lines(499).await.0, numbered(1001..1500));
    }
}

#[tokio::test]
async fn an_unspecific_error_means_an_empty_file_if_the_node_lists_its_files() {
    let empty = client(|route| {
        if route.starts_with("/api/v0/logs?") {
            return json(
                r#"{"result": true, "msg": "", "data": {"result": {"worker_out": ["worker.out"]}}}"#,
            );
        }
        partly_broken(route)
    })
    .await;
    assert_eq!(polled(&empty, 10).next().await, Some(LogEvent::Complete));
    assert_eq!(empty.whole_log(&file()).await.unwrap().chunk().await, Ok(None));
    let gone = client(partly_broken).await;
    let end = polled(&gone, 10).next().await;
    assert!(matches!(end, Some(LogEvent::Failed(RayError::Status { code: 500, .. }))), "{end:?}");
    assert!(gone.whole_log(&file()).await.is_err());
}

/// A text frame of a server (RFC 6455, section 5.2).
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80 | opcode];
    match payload.len() {
        n @ 0..126 => bytes.push(n as u8),
        n if n < 1 << 16 => {
            bytes.push(126);
            bytes.extend_from_slice(&(n as u16).to_be_bytes());
        }
        n => {
            bytes.push(127);
            bytes.extend_from_slice(&(n as u64).to_be_bytes());
        }
    }
    [&bytes, payload].concat()
}

fn switched(frames: &[Vec<u8>]) -> Vec<u8> {
    let head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ";
    [&head[..], ACCEPT, b"\r\n\r\n", &frames.concat()].concat()
}

#[tokio::test]
async fn a_wrong_websocket_accept_key_is_rejected() {
    let accept = str::from_utf8(ACCEPT).unwrap();
    for theirs in ["", "AAAA"] {
        let client = client(move |_| {
            let answer = String::from_utf8(switched(&[])).unwrap().replace(accept, theirs);
            [answer.into_bytes(), frame(1, b"from a cache\n")].concat()
        });
        let mut tail = whole(&client.await);
        let Some(LogEvent::Interrupted(why)) = tail.next().await else { panic!("the handshake is accepted") };
        assert!(why.contains("does not support WebSocket"), "{why}");
    }
}

#[tokio::test]
async fn an_interrupted_log_resumes_where_it_stopped() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let client = client(move |route| {
        if !route.ends_with("/logs/tail") {
            return partly_broken(route);
        }
        let done = frame(8, &1000u16.to_be_bytes());
        match count.fetch_add(1, Ordering::SeqCst) {
            // Breaks in the middle of a line.
            0 => switched(&[frame(1, b"one\n"), frame(1, b"two\nthr")]),
            1 => switched(&[frame(1, b"one\ntwo\nthree\nfour\n"), frame(8, &1001u16.to_be_bytes())]),
            _ => switched(&[frame(1, b"one\n"), frame(1, b"two\nthree\nfour\n"), frame(1, b"five"), done]),
        }
    })
    .await;
    let mut tail = whole(&client);
    let (mut lines, mut interruptions) = (Vec::new(), 0);
    let end = loop {
        match tail.next().await.unwrap() {
            LogEvent::Lines(more) => lines.extend(more.lines.iter().map(Line::to_string)),
            LogEvent::Interrupted(_) => interruptions += 1,
            end => break end,
        }
    };
    assert_eq!((lines.join(" "), end), ("one two three four five".to_owned(), LogEvent::Complete));
    assert_eq!((interruptions, connections.load(Ordering::SeqCst)), (2, 3));
}

const NODE: &str = "07070707070707070707070707070707070707070707070707070707";

/// The lines and notes of a log, until it is complete.
async fn read_completely(mut tail: LogStream) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        match soon("the log continues", tail.next()).await.unwrap() {
            LogEvent::Lines(part) => all.extend(part.lines.iter().map(Line::to_string)),
            LogEvent::Note(note) => all.push(format!("--- {note} ---")),
            LogEvent::Interrupted(_) | LogEvent::Resumed => {}
            LogEvent::Complete => return all,
            end => panic!("{end:?} after {all:?}"),
        }
    }
}

#[tokio::test]
async fn the_log_of_a_job_that_was_submitted_again_is_read_from_its_beginning() {
    const OLD: &str = "start\nstep 1\nstep 2\n";
    // Another beginning, and a shorter log.
    for new in ["start again\nstep 1\nstep 2\nstep 3\n", "start\nstep 1\n"] {
        let connections = AtomicUsize::new(0);
        let client = client(move |route| match route.split('?').next().unwrap() {
            "/api/jobs/a/logs/tail" if connections.fetch_add(1, Ordering::SeqCst) == 0 => {
                switched(&[frame(1, OLD.as_bytes())])
            }
            "/api/jobs/a/logs/tail" => {
                switched(&[frame(1, new.as_bytes()), frame(8, &1000u16.to_be_bytes())])
            }
            "/api/jobs/a" => json(&format!(
                r#"{{"submission_id": "a", "status": "SUCCEEDED", "driver_node_id": "{NODE}"}}"#
            )),
            "/api/v0/logs/file" => http("200 OK", "text/plain", new.as_bytes()),
            _ => partly_broken(route),
        })
        .await;
        let note = "--- the log was replaced; its lines follow ---";
        let expected: Vec<&str> = OLD.lines().chain([note]).chain(new.lines()).collect();
        assert_eq!(read_completely(whole(&client)).await, expected);
    }
}

#[tokio::test]
async fn the_end_of_a_log_is_read_after_a_temporary_error() {
    let busy = ("503 Service Unavailable", "busy", true);
    let refused = ("403 Forbidden", "Forbidden: Invalid authentication token", true);
    let lost = ("500 Internal Server Error", "A file is not found at: /tmp/ray/x.log", false);
    for (status, message, is_temporary) in [busy, refused, lost] {
        let reads = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reads);
        let client = client(move |route| match route.split('?').next().unwrap() {
            // Ray closes the connection at a byte that it cannot decode.
            "/api/jobs/a/logs/tail" => switched(&[frame(1, b"step 1\n"), frame(8, &1000u16.to_be_bytes())]),
            "/api/jobs/a" => {
                json(&format!(r#"{{"submission_id": "a", "status": "FAILED", "driver_node_id": "{NODE}"}}"#))
            }
            "/api/v0/logs/file" if count.fetch_add(1, Ordering::SeqCst) == 0 => {
                http(status, "text/plain", message.as_bytes())
            }
            "/api/v0/logs/file" => http("200 OK", "text/plain", b"step 1\ncaf\xe9\nthe error\n"),
            _ => partly_broken(route),
        })
        .await;
        let lines = read_completely(whole(&client)).await;
        let expected = ["step 1", "caf\u{fffd}", "the error"];
        assert_eq!(lines, expected[..if is_temporary { 3 } else { 1 }], "{status}");
        assert_eq!(reads.load(Ordering::SeqCst), if is_temporary { 2 } else { 1 });
    }
}

#[tokio::test]
async fn the_end_of_a_log_that_is_lost_in_the_meantime_is_reported() {
    let reads = AtomicUsize::new(0);
    let client = client(move |route| match route.split('?').next().unwrap() {
        "/api/jobs/a/logs/tail" => switched(&[frame(1, b"step 1\n"), frame(8, &1000u16.to_be_bytes())]),
        "/api/jobs/a" => {
            json(&format!(r#"{{"submission_id": "a", "status": "FAILED", "driver_node_id": "{NODE}"}}"#))
        }
        "/api/v0/logs/file" if reads.fetch_add(1, Ordering::SeqCst) == 0 => {
            http("503 Service Unavailable", "text/plain", b"busy")
        }
        _ => http("500 Internal Server Error", "text/plain", b"it is gone"),
    })
    .await;
    let note = "--- the end of the log cannot be read: Ray returned HTTP 500: it is gone ---";
    assert_eq!(read_completely(whole(&client)).await, ["step 1", note]);
}

#[tokio::test]
async fn a_line_of_a_megabyte_is_truncated_and_later_lines_are_kept() {
    let client = client(move |route| {
        if !route.ends_with("/logs/tail") {
            return partly_broken(route);
        }
        let mut long = vec![b'x'; 1 << 20];
        long.extend_from_slice(b"\n\x1b[31mred\x1b[0m\n");
        switched(&[frame(1, &long), frame(8, &1000u16.to_be_bytes())])
    })
    .await;
    let mut tail = whole(&client);
    let Some(LogEvent::Lines(LogPart { lines, .. })) = tail.next().await else { panic!("no lines") };
    assert!(lines[0].text().len() < 20_000 && lines[0].text().ends_with("more bytes)"));
    assert_eq!(lines[1], Line::cleaned("\x1b[31mred\x1b[0m"), "with its color");
    assert_eq!(tail.next().await, Some(LogEvent::Complete));
}

#[tokio::test]
async fn stacks_with_invalid_utf_8_and_escapes_are_read() {
    let client = client(|route| {
        assert!(route.starts_with("/worker/traceback?"), "{route}");
        let body = b"Process 7: ray::\xff\xfe\n\nThread 7 (idle): \"Main\xc3Thread\"\n    st\xe9p\x1b[31m (tr\xff.py:7)\n";
        http("200 OK", "text/plain", body)
    })
    .await;
    let dump = client.stacks(NodeId::from_bytes(&[7; 28]).unwrap(), 7).await.unwrap();
    assert_eq!(dump.process.raw(), "ray::\u{fffd}\u{fffd}");
    let frame = dump.threads[0].frames[0].to_string();
    assert!(frame.starts_with("st\u{fffd}p") && frame.ends_with("(tr\u{fffd}.py:7)"), "{frame}");
    assert!(!frame.contains('\u{1b}'), "{frame}");
}

#[test]
fn invalid_addresses_are_rejected_at_once() {
    for dashboard in ["", "127.0.0.1:8265", "ftp://x", "http://"] {
        let endpoint = Endpoint::Direct { dashboard: dashboard.to_owned(), gcs: None };
        assert!(matches!(Client::new(endpoint, None), Err(RayError::Setup(_))), "{dashboard:?}");
    }
    // Whether https works depends on the certificate authorities of this machine; it never crashes.
    let https = Endpoint::Direct { dashboard: "https://127.0.0.1:1".to_owned(), gcs: None };
    assert!(matches!(Client::new(https, None), Ok(_) | Err(RayError::Setup(_))));
    let endpoint = Endpoint::Direct { dashboard: "http://127.0.0.1:1".to_owned(), gcs: None };
    let error = Client::new(endpoint, Some(Secret::new("hunter2\n"))).unwrap_err();
    assert!(!error.to_string().contains("hunter2"));
}
