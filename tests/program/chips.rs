//! `chips` on a simulated fleet: libtpu is queried over the system's own `ssh`, through the head, on each host of a
//! slice.

use crate::program::Ran;
use crate::simulated::Simulated;
use serde_json::Value;

/// Another cluster, whose chips are unused.
const BESIDE: &str = "
  - name: marin-us-central2
    dead: 0
    jobs: 0
    activity: {jobs_per_hour: 0, preemptions_per_hour: 0, past_minutes: 10}
    slices: {tpu_worker: 1}
";

fn chips(fixture: &Simulated, cluster: &str, words: &[&str]) -> Ran {
    fixture.run(&[&["--cluster", cluster, "chips"], words].concat())
}

#[test]
fn the_host_that_the_others_wait_for_is_named() {
    let fixture = Simulated::with_big_run(BESIDE);
    let output = chips(&fixture, "marin-big-run", &["tpu_slice_v4_64", "--json"]).exits(0).json();
    let hosts = output.as_array().unwrap();
    assert_eq!(hosts.len(), 8);
    for (number, host) in hosts.iter().enumerate() {
        let is_it = number == 5;
        assert_eq!(
            (host["host_number"].as_u64(), &host["source"]),
            (Some(number as u64), &Value::from("libtpu"))
        );
        assert_eq!(host["behind"], is_it, "{host}");
        let chips = host["chips"].as_array().unwrap();
        assert_eq!((chips.len(), host["expected"].as_u64()), (4, Some(4)));
        assert!(chips.iter().all(|chip| chip["outlier"] == is_it), "{host}");
        assert!(chips.iter().all(|chip| chip["memory_total"] == 32_u64 << 30), "{host}");
    }
    let address = hosts[5]["address"].as_str().unwrap();
    let table = chips(&fixture, "marin-big-run", &["tpu_slice_v4_64"]).good();
    let line = table.lines().find(|line| line.contains(&format!(" {address} "))).unwrap();
    assert!(line.contains("0! 0! 0! 0!") && line.contains("behind the other hosts"), "{table}");
    let one = chips(&fixture, "marin-big-run", &[address, "--json"]).exits(0).json();
    assert_eq!(
        (one.as_array().unwrap().len(), &one[0]["behind"]),
        (1, &Value::from(false)),
        "a single host is not behind"
    );
}

#[test]
fn chips_that_no_program_uses_cannot_be_read() {
    let fixture = Simulated::with_big_run(BESIDE);
    let ran = chips(&fixture, "marin-us-central2", &["--json"]).exits(1);
    for host in ran.json().as_array().unwrap() {
        let why = host["reason"].as_str().unwrap();
        assert!(why.contains("port 8431") && why.contains("while a program uses"), "{host}");
    }
    assert!(ran.err.contains("could not be read"), "{}", ran.err);
    let nobody = chips(&fixture, "marin-us-central2", &["10.9.9.9"]).bad();
    assert!(nobody.contains("TPU chips or GPUs"), "{nobody}");
}
