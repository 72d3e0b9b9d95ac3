//! Hosts of a local cluster that are named by something other than the address that Ray uses for them: their jobs must
//! not end without having been listed.

use crate::cloud_fixture::{CloudFixture, HEAD, WORKER};
use serde_json::Value;
use std::fs;

/// A listed host without a node in Ray.
const LISTED: &str = "10.0.0.8";

/// Writes the file of a local cluster with these workers.
fn lists(fixture: &CloudFixture, workers: &[&str]) {
    let workers = workers.join(", ");
    fixture.file(
        "infra/a.yaml",
        &format!(
            "cluster_name: marin-a\nprovider: {{type: local, head_ip: {HEAD}, worker_ips: [{workers}]}}\n\
             worker_start_ray_commands: ['ray start --address=$RAY_HEAD_IP:6379']\n"
        ),
    );
}

/// A local cluster. Each of its hosts reports these addresses, and notes every other command that it receives.
fn local(addresses: &str) -> CloudFixture {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    lists(&fixture, &[WORKER, LISTED]);
    fixture.program(
        "ssh",
        &format!(
            "case \" $* \" in *\" -T -- 127.\"*) ;;\n*\" -T -- \"*\"hostname -I\"*) echo {addresses}; exit 0;;\n\
             *\" -T -- \"*) echo \"$*\" >>\"$HOME/received\"; exit 0;;\nesac\nexec /usr/bin/ssh \"$@\"\n"
        ),
    );
    fixture
}

/// The commands that hosts have received.
fn received(fixture: &CloudFixture) -> String {
    fs::read_to_string(fixture.home.path().join("received")).unwrap_or_default()
}

/// The host name of the node at this address.
fn host_name(fixture: &CloudFixture, address: &str) -> String {
    let (_, out, said) = fixture.run("list-nodes --json");
    let nodes: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{said}"));
    let node = nodes.as_array().unwrap().iter().find(|n| n["address"] == address).unwrap();
    node["host_name"].as_str().unwrap().to_owned()
}

#[test]
fn ray_is_restarted_only_on_a_host_that_is_named_by_its_address() {
    let fixture = local(WORKER);
    for (named, words) in [
        (host_name(&fixture, WORKER), format!("init-worker {WORKER}`")),
        (host_name(&fixture, "10.128.0.1"), "is the head (10.128.0.1), not a worker".to_owned()),
        ("gpu7".to_owned(), "Ray has no node with the address gpu7".to_owned()),
        ("10.0.0.9".to_owned(), "add-worker --host 10.0.0.9`".to_owned()),
    ] {
        let (reason, said) = fixture.refused(&format!("init-worker {named} --yes --others"));
        assert!(reason == "not-checked" && said.contains(&words), "{named}: {reason}: {said}");
    }
    let (reason, said) = fixture.refused("add-worker --host gpu7 --yes");
    assert!(reason == "not-supported" && said.contains("gpu7 is not an IP address"), "{reason}: {said}");
    assert_eq!(received(&fixture), "");
}

#[test]
fn another_address_of_a_worker_or_of_the_head_is_found_before_ray_is_started() {
    for (others, words) in [
        (WORKER, "is another address of 10.128.0.2, where Ray already has a live node"),
        ("10.128.0.1 172.17.0.1", "is the head (10.128.0.1), not a worker"),
    ] {
        let fixture = local(&format!("192.168.0.7 {others}"));
        for (command, worker) in [("add-worker", "--host 10.0.0.7"), ("init-worker", LISTED)] {
            let (code, _, said) = fixture.run(&format!("{command} {worker} --yes"));
            assert!(code == Some(1) && said.contains(words), "{command}: {said}");
            assert!(said.contains(&format!("{command} --abandon`")), "{command}: {said}");
            assert_eq!(fixture.run(&format!("{command} --abandon")).0, Some(0));
        }
        assert_eq!(received(&fixture), "");
    }
}

#[test]
fn a_host_that_is_not_in_ray_is_added() {
    let fixture = local("10.0.0.7 172.17.0.1");
    let mut adding = fixture.spawn("add-worker --host 10.0.0.7 --yes");
    adding.wait_for("starting Ray on 10.0.0.7");
    let head = &fixture.heads[0].0;
    assert!(head.join_node(head.nodes()[1], "10.0.0.7"));
    let (code, _, said) = adding.finish();
    assert_eq!(code, Some(0), "{said}");
    assert!(received(&fixture).contains("RAY_HEAD_IP"), "{}", received(&fixture));
}

/// Ray's autoscaler restarts the listed workers itself; a second start would end a job that has been restored there.
#[test]
fn a_restart_leaves_a_worker_that_is_listed_by_its_host_name_to_the_autoscaler() {
    let fixture = local(WORKER);
    let (one, other) = (host_name(&fixture, WORKER), host_name(&fixture, "10.128.0.3"));
    let started = || -> Vec<String> {
        let (code, out, said) = fixture.run("restart-cluster --preserve-jobs=0 --dry-run");
        assert_eq!(code, Some(0), "{said}");
        let lines = out.lines().filter(|line| line.contains("(starts Ray)"));
        lines.map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect()
    };
    lists(&fixture, &[&one]);
    assert_eq!(started(), ["10.128.0.3"]);
    lists(&fixture, &[&one, &other]);
    assert_eq!(started(), [""; 0]);
}
