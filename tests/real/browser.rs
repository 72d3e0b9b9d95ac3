//! Two dashboards with different tokens, logged in side by side in one real Chromium.

use crate::real_head::RealHead;
use marin_tui::model::ClusterName;
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Logs in to both dashboards, in order, and returns the status codes with which they then answer their own pages.
fn after_both_logins(urls: [String; 2], tokens: [&str; 2]) -> Vec<u16> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/two_dashboards.py");
    let mut browser = Command::new("python3")
        .arg(script)
        .args(urls)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    browser.stdin.take().unwrap().write_all(tokens.join("\n").as_bytes()).unwrap();
    let output = browser.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn port(head: &RealHead) -> u16 {
    let end = Instant::now() + Duration::from_secs(90);
    while TcpStream::connect(&head.dashboard).is_err() {
        assert!(Instant::now() < end, "no dashboard at {}", head.dashboard);
        std::thread::sleep(Duration::from_millis(200));
    }
    head.dashboard.rsplit_once(':').unwrap().1.parse().unwrap()
}

#[test]
fn each_cluster_has_its_own_origin_so_that_no_login_ends_another() {
    let tokens = ["first-token-0123456789", "second-token-0123456789"];
    let heads = tokens.map(|token| RealHead::start("2.60.0", token));
    let ports = heads.each_ref().map(port);
    let names = ["marin-us-central2", "marin-us-central2-staging"].map(ClusterName::new);
    let ours = [names[0].browser_url(ports[0]), names[1].browser_url(ports[1])];
    assert_eq!(after_both_logins(ours, tokens), [200, 200]);
    // If both are opened on `localhost`, the second login ends the first: the reason for separate origins.
    assert_eq!(after_both_logins(ports.map(|port| format!("http://localhost:{port}")), tokens), [403, 200]);
}
