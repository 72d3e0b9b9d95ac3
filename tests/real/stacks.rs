//! `marin-tui stacks` on a real Ray: of 24 workers over three hosts the one that is stuck stands apart, through Ray where
//! its head gives stacks (2.53), and over ssh where it does not (2.60).

use crate::bed::{Bed, Ray};
use crate::until::until;
use serde_json::Value;

const WORKERS: usize = 24;

/// A gang of actors of which one waits for what never comes.
const GANG: &str = "import ray, threading, time
ray.init()
@ray.remote(num_cpus=0.01, scheduling_strategy='SPREAD')
class W:
    def train(self):
        while True:
            time.sleep(0.5)
    def stuck(self):
        threading.Event().wait()
ws = [W.remote() for _ in range(24)]
ray.get([w.stuck.remote() if i == 17 else w.train.remote() for i, w in enumerate(ws)])
";

fn the_one_that_is_stuck_stands_apart(bed: Bed, through: &str) {
    let job = bed.submit("stacks", &format!("cat >gang.py <<'END'\n{GANG}END\nexec python gang.py"));
    bed.job_becomes(&job, "RUNNING");
    let found: Value = until("all workers are in their methods", || {
        let out = bed.program(&["stacks", &job, "--json"]).output().unwrap();
        let found: Value = serde_json::from_slice(&out.stdout).ok()?;
        let counts: Vec<_> = found["groups"].as_array()?.iter().map(|g| g["count"].as_u64()).collect();
        (counts == [Some(WORKERS as u64 - 1), Some(1)]).then_some(found)
    });
    assert_eq!(found["through"], through, "{found}");
    let (all, one) = (&found["groups"][0], &found["groups"][1]);
    let stands = |group: &Value, function: &str, line: &str| {
        let at = group["at"].as_str().unwrap();
        at.contains(function) && at.contains(line)
    };
    assert!(stands(all, "train (", "gang.py:7)") && stands(one, "stuck (", "gang.py:9)"), "{found}");
    let hosts: std::collections::BTreeSet<_> =
        all["workers"].as_array().unwrap().iter().map(|w| w["address"].as_str().unwrap()).collect();
    assert!(hosts.len() > 1, "{hosts:?}");

    let out = bed.program(&["stacks", &job, "--interval", "2s"]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && said.contains("gang.py:9)"), "{said}");
    let line = said.lines().find(|line| line.contains("stuck")).unwrap();
    assert!(line.trim_start().starts_with("1  ") && line.ends_with("same in both samples"), "{said}");
    let pid = one["workers"][0]["pid"].to_string();
    assert!(said.contains(&format!("pid {pid} W")), "{said}");
    assert!(bed.program(&["stop-job", "--yes", "--others", &job]).output().unwrap().status.success());
}

#[test]
fn over_ssh_where_the_head_gives_none() {
    the_one_that_is_stuck_stands_apart(Bed::shared(Ray::Newest), "ssh");
}

#[test]
fn through_ray_where_its_head_gives_them() {
    the_one_that_is_stuck_stands_apart(Bed::shared(Ray::Oldest), "ray");
}
