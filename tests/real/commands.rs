//! Everyday commands on a real cluster, in the order of the page "Coming from cluster.py".

use crate::bed::{Bed, HEAD, Job, Ray, TOKEN};
use crate::running::Running;
use serde_json::Value;

fn run(bed: Bed, words: &[&str]) -> (Option<i32>, String, String) {
    Running::start(bed.program(words)).finish()
}

/// Standard output of a command that must succeed.
fn stdout(bed: Bed, words: &[&str]) -> String {
    let (code, out, err) = run(bed, words);
    assert_eq!(code, Some(0), "{words:?}: {out} {err}");
    out
}

fn json(bed: Bed, words: &[&str]) -> Value {
    serde_json::from_str(&stdout(bed, words)).unwrap()
}

/// Body and status code that a URL returns on the client host; `token` is the path of the token to send.
fn fetch(bed: Bed, url: &str, token: Option<&str>) -> String {
    let read = "curl -sS -w '\n%{http_code}' ${1:+-H \"Authorization: Bearer $(cat $1)\"} \"$0\"";
    bed.on("client", &["bash", "-c", read, url, token.unwrap_or_default()])
}

#[test]
fn everyday_commands_work_on_a_real_cluster() {
    let bed = Bed::shared(Ray::Newest);
    let job: Job = bed.start("day", "echo good-morning; sleep 3600");
    bed.job_becomes(&job.id, "RUNNING");

    // No check of the setup fails, and nothing is missing.
    let rows = json(bed, &["setup", "--check", "--json"]);
    let failures: Vec<_> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["status"] == "failed" || row["status"] == "missing")
        .collect();
    assert!(failures.is_empty() && rows.to_string().contains("marin-bed"), "{rows}");

    assert_eq!(json(bed, &["clusters", "--json"])[0]["cluster"], "marin-bed");
    assert_eq!(json(bed, &["job-status", &job.id, "--json"])["status"], "running");
    assert!(stdout(bed, &["job-logs", &job.id]).contains("good-morning"));
    let nodes = json(bed, &["list-nodes", "--json"]);
    assert_eq!(
        nodes
            .as_array()
            .unwrap()
            .iter()
            .filter(|node| node["state"] == "alive" || node["state"] == "idle")
            .count(),
        3,
        "{nodes}"
    );

    // Login on the head, login on a worker through the head, and the exit code of a remote command.
    assert_eq!(stdout(bed, &["ssh", "--", "hostname"]), "bed-head\n");
    assert_eq!(stdout(bed, &["ssh", "10.77.0.2", "--", "hostname"]), "bed-w1\n");
    assert_eq!(stdout(bed, &["exec", "--host", "10.77.0.3", "--", "hostname"]), "bed-w2\n");
    assert_eq!(run(bed, &["exec", "--", "exit 7"]).0, Some(7));

    // Forwarded local ports, and Ray's own CLI over them with the variables of auth-env.
    let mut forward = Running::start(bed.program(&["forward", "--json"]));
    let ports: Value = serde_json::from_str(&forward.out.next()).unwrap();
    let port = |service: &str| {
        let named = [&ports[service], &ports["ports"][service]].into_iter().find_map(Value::as_u64);
        named.unwrap_or_else(|| panic!("{service}: {ports}"))
    };
    let version = format!("http://127.0.0.1:{}/api/version", port("dashboard"));
    assert!(fetch(bed, &version, None).ends_with("401"), "a request without a token is refused");
    let answer = fetch(bed, &version, Some(TOKEN));
    assert!(answer.contains("2.60.0") && answer.ends_with("200"), "{answer}");
    let rays_own = format!(
        "eval \"$('{}' auth-env)\" && ray job list --address http://127.0.0.1:{}",
        env!("CARGO_BIN_EXE_marin-tui"),
        port("dashboard")
    );
    let listed = bed.on("client", &["bash", "-c", &format!("{rays_own} 2>&1")]);
    assert!(listed.contains(&job.id), "{listed}");
    bed.signal("INT", "marin-tui");
    assert_eq!(forward.finish().0, Some(0));

    // The dashboard in a browser: the cluster has its own address while the command runs.
    let mut auth = Running::start(bed.program(&["auth", "--no-copy", "--no-open"]));
    auth.wait_for("tunnel open");
    let line = auth.err.all.clone();
    let address =
        line.split_whitespace().find(|word| word.starts_with("http://")).unwrap_or_else(|| panic!("{line}"));
    assert!(address.contains("marin-bed.localhost:"), "{line}");
    let here = address.replace("marin-bed.localhost", "127.0.0.1");
    assert!(fetch(bed, &format!("{}/api/version", here.trim_end_matches('/')), Some(TOKEN)).ends_with("200"));
    bed.signal("INT", "marin-tui");
    let (code, out, err) = auth.finish();
    assert_eq!(code, Some(0), "{out} {err}");
    let token = bed.read(TOKEN);
    assert!(![out, err, line].concat().contains(token.trim()), "the token was printed");

    // The job commands of cluster.py on this cluster.
    let backup = stdout(bed, &["backup-jobs", "saved"]);
    assert!(bed.on("client", &["sh", "-c", "cat saved/*.json"]).contains(&job.id), "{backup}");
    let stopped = json(bed, &["stop-job", "--yes", "--others", "--json", &job.id]);
    assert!(stopped.to_string().contains(&job.id), "{stopped}");
    bed.job_becomes(&job.id, "STOPPED");
    assert_eq!(json(bed, &["job-status", &job.id, "--json"])["status"], "stopped");
    assert!(!stdout(bed, &["list-jobs", "--json"]).contains(&job.id), "an ended job is not listed");
    let audit = stdout(bed, &["audit", "--json"]);
    assert!(audit.contains(&job.id), "{audit}");
    bed.on("client", &["rm", "-rf", "saved"]);
    assert!(
        bed.on("client", &["sh", "-c", &format!("ss -tln | grep -c ':{} ' || true", port("client"))]).trim()
            == "0",
        "the ports of {HEAD} are closed"
    );
}
