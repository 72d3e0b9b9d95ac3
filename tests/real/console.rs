//! The console in a terminal on one host, with a real Ray behind a real sshd on others: what it shows is compared with
//! Ray's own API, also under the failures that occur in practice.

use crate::bed::{Bed, Job, Ray, TOKEN};
use crate::pty::Pty;
use crate::until::until;
use serde_json::json;
use std::time::Duration;

/// Time limit for slow events on two busy cores: a node's death, a stop that Ray ignores, a reconnection.
const LONG: Duration = Duration::from_secs(90);
/// Address of the host that a test joins and kills.
const SPARE: &str = "10.77.0.4";
/// Prints a number twice a second, starting at 1. The output cannot be mistaken for the command itself.
const TICKS: &str = "for i in $(seq 1 100000); do printf 'ti%s=%d\\n' ck $i; sleep 0.5; done";

/// Opens the console on the client host without state of an earlier session.
fn open(bed: Bed) -> Pty {
    bed.on("client", &["rm", "-rf", ".local/state/marin-tui", ".cache/marin-tui"]);
    bed.console(200, 90)
}

/// Opens the console and waits until it is connected.
fn connected(bed: Bed) -> Pty {
    let console = open(bed);
    console.wait_for("connection", LONG, |text| text.contains("● up") && text.contains(" alive"));
    console
}

/// Filters a pane to one row, which is then selected.
fn select(console: &mut Pty, pane: &str, row: &str) {
    console.send(&format!("{pane}/{row}\r"));
    console.wait_text(&format!("/{row}"));
}

/// The numbers printed by a job of [`TICKS`] that are on the screen.
fn ticks(text: &str) -> Vec<u64> {
    let after = text.split("tick=").skip(1);
    after
        .filter_map(|t| t.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok())
        .collect()
}

/// Opens the job's log and returns the highest number on the screen.
fn follow(console: &mut Pty, job: &str) -> u64 {
    select(console, "2", job);
    console.send("l");
    let text = console.wait("log", |text| text.contains(&format!("─ Log {job}")) && ticks(text).len() > 3);
    *ticks(&text).last().unwrap()
}

fn ticking(bed: Bed) -> Job {
    bed.start("ticking", TICKS)
}

#[test]
fn a_job_is_followed_live_and_stopped() {
    let bed = Bed::shared(Ray::Newest);
    let mut console = connected(bed);
    let job = ticking(bed);
    console.wait_for("the job, running", LONG, |text| {
        text.lines().any(|line| line.contains(&job.id) && line.contains("running"))
    });
    let seen = follow(&mut console, &job.id);
    console.wait("growing log", |text| ticks(text).last().is_some_and(|last| *last > seen + 3));
    console.send("2s");
    console.wait_text("[ Cancel ]");
    console.send("\r");
    console.wait("no dialog", |text| !text.contains("Stop job") && !text.contains("stop requested for"));
    console.send("s");
    console.wait_text("[ Cancel ]");
    assert_eq!(bed.job(&job.id)["status"], "RUNNING", "Cancel stops nothing");
    console.send("y");
    console.wait_text("Stop jobs of an unknown owner?");
    assert_eq!(
        bed.job(&job.id)["status"],
        "RUNNING",
        "a job of unknown owner requires a second confirmation"
    );
    console.send("y");
    console.wait_text(&format!("{} has ended (stopped)", job.id));
    assert_eq!(bed.job(&job.id)["status"], "STOPPED");
}

#[test]
fn a_pending_job_is_stopped_or_reported_as_still_pending() {
    let bed = Bed::shared(Ray::Newest);
    let job = bed.submit_with("never", "true", &json!({"entrypoint_num_gpus": 64}));
    let mut console = connected(bed);
    select(&mut console, "2", &job);
    console.wait_text("pending");
    console.send("s");
    console.wait_text("The job has not started.");
    console.send("y");
    console.wait_text("Stop jobs of an unknown owner?");
    console.send("y");
    // The longer message is wrapped.
    let ended = format!("{job} has ended (stopped)");
    let waits = format!("Ray reported {job} as stopped, but");
    let text = console.wait_for("the outcome", LONG, |text| text.contains(&ended) || text.contains(&waits));
    let status = if text.contains(&ended) { "STOPPED" } else { "PENDING" };
    assert_eq!(bed.job(&job)["status"], status);
    assert!(status == "STOPPED" || text.contains("still pending"), "{text}");
}

#[test]
fn a_killed_node_is_shown_dead_with_its_reason() {
    let bed = Bed::shared(Ray::Newest);
    let mut console = connected(bed);
    // Node by node: a row of the slice view covers several nodes.
    console.send("1v");
    select(&mut console, "1", SPARE);
    let node = bed.join_spare();
    let is_alive = |text: &str| {
        let alive = |l: &&str| l.contains("│ ● ") || l.contains("│ ○ ");
        text.lines().filter(alive).any(|l| l.contains(SPARE))
    };
    console.wait_for("the new node", LONG, is_alive);
    bed.kill_raylet("w3");
    // Other nodes may have died there before.
    console.wait_for("the death and its reason", LONG, |text| {
        !is_alive(text) && text.contains("lost ") && text.contains("<1m ago: health check failed")
    });
    // The latest death is first.
    console.send("ggd");
    console.wait("that node", |text| {
        text.contains(&node) && text.contains("cause") && text.contains("lost: health")
    });
    let dead = bed.node_becomes(&node, "DEAD");
    assert!(dead["state_message"].as_str().unwrap().contains("health check failed"), "{dead}");
}

#[test]
fn a_lost_connection_is_restored_and_the_log_continues() {
    let bed = Bed::shared(Ray::Newest);
    let job = ticking(bed);
    bed.job_becomes(&job.id, "RUNNING");
    let mut console = connected(bed);
    follow(&mut console, &job.id);
    // Back to the panes, where the log stays open.
    console.send("q");
    console.wait_text(" alive");
    bed.sshd_stop("head");
    let text = console.wait_for("the loss, with a countdown", LONG, |text| {
        (text.contains("✕ unreachable, retry in") || text.contains("✕ connection lost, retry in"))
            && text.contains(" s ")
    });
    assert!(text.contains(" alive") && text.contains(&job.id), "known data stays on the screen:\n{text}");
    let before = *ticks(&text).last().unwrap();
    console.wait_text("✕ unreachable, retry in");
    bed.sshd_start("head");
    console.wait_for("recovery", LONG, |text| text.contains("● up"));
    console.send("3z");
    let text = console
        .wait_for("the log's next lines", LONG, |text| ticks(text).last().is_some_and(|t| *t > before + 20));
    let seen = ticks(&text);
    assert!(seen.contains(&before), "the interruption is on the screen:\n{text}");
    let whole: Vec<u64> = (seen[0]..=*seen.last().unwrap()).collect();
    assert_eq!(seen, whole, "no line is lost or repeated");
}

/// Restores the client's token on drop.
struct Token {
    bed: Bed,
    right: String,
}

impl Drop for Token {
    fn drop(&mut self) {
        self.bed.write(TOKEN, &self.right);
    }
}

#[test]
fn a_refused_token_is_reported_and_the_right_one_is_used() {
    let bed = Bed::shared(Ray::Newest);
    let token = Token { bed, right: bed.read(TOKEN) };
    bed.write(TOKEN, "not-the-token-of-this-cluster-at-all");
    let mut console = open(bed);
    let hint = "write the cluster's token to /home/ray/.ray/auth_token";
    let refused = |text: &str| text.contains("token refused") && text.contains(hint);
    let text = console.wait_for("the refusal and its hint", LONG, refused);
    assert!(!text.contains("not-the-token"), "{text}");
    drop(token);
    console.send("r");
    console.wait_for("recovery", LONG, |text| text.contains("● up") && text.contains(" alive"));
}

/// Waits until no process on the client has ssh in its command line.
fn no_ssh_is_left(bed: Bed) {
    until("no ssh is left", || (bed.running(".*ssh .*") == 0).then_some(()));
}

#[test]
fn no_ssh_outlives_the_console_however_it_ends() {
    let bed = Bed::shared(Ray::Newest);
    for end in ["KILL", "TERM", "q"] {
        let mut console = connected(bed);
        assert!(bed.running("ssh .*") > 0);
        match end {
            "q" => console.send("q"),
            signal => bed.signal(signal, "marin-tui"),
        }
        let status = console.wait_exit();
        no_ssh_is_left(bed);
        assert!(end == "KILL" || status.success() && console.is_restored(), "{end}: {status:?}");
    }
}

/// Restores the head's network link on drop.
struct Cut(Bed);

impl Drop for Cut {
    fn drop(&mut self) {
        self.0.heal("head");
    }
}

#[test]
fn no_ssh_outlives_a_console_killed_while_connecting() {
    let bed = Bed::shared(Ray::Newest);
    bed.cut("head");
    let _cut = Cut(bed);
    let mut console = open(bed);
    until("ssh is connecting", || (bed.running("ssh .*") > 0).then_some(()));
    bed.signal("KILL", "marin-tui");
    console.wait_exit();
    no_ssh_is_left(bed);
}

/// Replaces the head's host key. Returns the fingerprints of the old and the new key.
fn change_host_key(bed: Bed) -> (String, String) {
    let script = r#"set -e; key=$(sed -n 's/^HostKey //p' /etc/ssh/sshd_config); ssh-keygen -lf "$key"
                    rm "$key" "$key.pub"; ssh-keygen -q -t ed25519 -N '' -f "$key"; ssh-keygen -lf "$key""#;
    let out = bed.on_root("head", &["sh", "-c", script]);
    bed.sshd_stop("head");
    bed.sshd_start("head");
    let mut fingerprints = out.lines().map(|line| line.split(' ').nth(1).unwrap().to_owned());
    (fingerprints.next().unwrap(), fingerprints.next().unwrap())
}

#[test]
fn a_changed_host_key_stops_the_cluster_until_it_is_accepted() {
    let bed = Bed::shared(Ray::Newest);
    let mut console = connected(bed);
    let (known, offered) = change_host_key(bed);
    console.wait_for("the message", LONG, |text| text.contains("h shows both keys"));
    console.send("h");
    let text = console.wait_for("the question", LONG, |text| text.contains("Accept the changed host key"));
    assert!(text.contains(&known) && text.contains(&offered), "{known} {offered}\n{text}");
    assert!(text.contains("✕ host key changed") && !text.contains("retry in"), "{text}");
    console.send("y");
    console.wait_for("connection", LONG, |text| text.contains("● up"));
    assert!(bed.read(".local/state/marin-tui/known_hosts").lines().count() == 1);
}

#[test]
fn the_oldest_ray_fills_every_pane() {
    let bed = Bed::shared(Ray::Oldest);
    let job = ticking(bed);
    bed.job_becomes(&job.id, "RUNNING");
    let mut console = connected(bed);
    // Node by node.
    console.send("1v");
    // Only autoscaler v1 knows the types of its nodes, and it reports a worker seconds after the GCS does.
    let typed = |text: &str, worker: &str| {
        text.lines().any(|line| line.contains(worker) && line.contains(".cluster.node"))
    };
    let text = console.wait_for("all panes", LONG, |text| {
        text.contains("3 alive")
            && text.contains("4 Autoscaler v1")
            && text.contains(&job.id)
            && ["10.77.0.2", "10.77.0.3"].iter().all(|worker| typed(text, worker))
    });
    assert!(text.contains("Ray 2.53.0"), "{text}");
    console.wait_for("the types in the autoscaler's own table", LONG, |text| {
        text.contains("││ local.cluster.node ")
    });
    follow(&mut console, &job.id);
}

#[test]
fn the_suspend_key_is_refused_in_a_container_whose_session_began_outside() {
    // The session leader is outside the PID namespace and has the id 0 in it.
    let container = ["--map-root-user", "--pid", "--fork", "sh", "-c", "\"$@\"; exit $?", "sh"];
    let console = [env!("CARGO_BIN_EXE_marin-tui"), "--address", "http://127.0.0.1:9"];
    let home = tempfile::tempdir().unwrap();
    let argv = [&["unshare"], &container[..], &console].concat();
    let mut pty = Pty::start(&argv, &[("HOME", home.path().to_str().unwrap())], 120, 40);
    pty.wait_text("retry in");
    pty.send("\x1a");
    pty.wait_text("cannot suspend");
    pty.send("q");
    assert!(pty.wait_exit().success());
}
