//! Workers that are removed, and workers whose startup script is run again.

use crate::cloud_fixture::{CloudFixture, WORKER, ZONE, labels};
use crate::until::until;
use marin_tui::demo::google::{Fault, tpu};
use serde_json::{Value, json};
use std::fs;

#[test]
fn a_worker_is_removed_with_consent_and_completely() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    fixture.double.state().nodes =
        vec![tpu::node(ZONE, "by-hand", "v4-8", "READY", &labels("unmanaged"), &[WORKER])];
    let (code, out, said) = fixture.run("remove-worker by-hand --dry-run");
    assert!(code == Some(0) && out.trim_end().ends_with("/nodes/by-hand"), "{out}{said}");
    assert!(said.contains("RUNS ON WORKER") && said.contains("1 task"), "{said}");
    assert_eq!(fixture.refused("remove-worker by-hand --yes").0, "worker-busy");
    for words in ["remove-worker by-hand --now --yes", "init-worker by-hand --yes"] {
        assert_eq!(fixture.refused(words).0, "others-jobs", "{words}");
    }
    assert_eq!(fixture.double.requests_with("DELETE") + fixture.double.requests_with("PATCH"), 0);

    fixture.double.fail_at(
        "DELETE",
        "/nodes/",
        Fault::Refuse { code: 503, status: "UNAVAILABLE", reason: "", message: "try later" },
    );
    let (code, _, said) = fixture.run("remove-worker by-hand --now --others --yes");
    assert!(code == Some(1) && said.contains("[2/3] failed"), "{said}");
    fixture.double.recover();
    assert_eq!(fixture.refused("stop-cluster --yes --others").0, "interrupted");
    // Meanwhile somebody deletes it manually.
    fixture.double.state().nodes.clear();
    let head = &fixture.heads[0].0;
    assert!(head.kill_node(head.nodes()[1]));
    let (code, out, said) = fixture.run("remove-worker --resume --json");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("already done: TPU VM by-hand") && said.contains("by-hand is gone"), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        rows,
        json!([{"cluster": "marin-a", "worker": "by-hand", "hosts": [WORKER], "removed": true}])
    );
}

/// A login on a TPU host, instead of the host's sshd: its input is stored.
const LOGINS: &str = "case \" $* \" in *\" -T -- 127.\"*) ;; *\" -T -- \"*) \
     to=${*#* -T -- }; cat >\"$HOME/script-${to%% *}\"; echo \"$to\" >>\"$HOME/logins\"; exit 0;; esac\n\
     exec /usr/bin/ssh \"$@\"\n";

#[test]
fn the_startup_of_a_tpu_vm_is_repeated_on_each_host() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let hosts = [WORKER, "10.128.0.3"];
    fixture.program("ssh", LOGINS);
    let mut node = tpu::node(ZONE, "by-hand", "v4-16", "READY", &labels("unmanaged"), &hosts);
    node["metadata"] = json!({"startup-script": "#!old", "enable-oslogin": "TRUE"});
    fixture.double.state().nodes.push(node);
    let metadata = || fixture.double.state().nodes[0]["metadata"].clone();
    let (code, _, said) = fixture.run("init-worker by-hand --dry-run");
    assert!(code == Some(0) && metadata()["startup-script"] == "#!old", "{said}");
    assert!(!fixture.home.path().join("logins").exists());

    let starting = fixture.spawn("init-worker by-hand --yes --json");
    let script = |host: &str| fs::read_to_string(fixture.home.path().join(format!("script-{host}")));
    until("both hosts have the script", || hosts.iter().all(|h| script(h).is_ok_and(|s| !s.is_empty())));
    assert_eq!(metadata()["enable-oslogin"], "TRUE", "other metadata is kept");
    let written = metadata()["startup-script"].as_str().unwrap().to_owned();
    assert!(written.starts_with("#!") && written.contains("marin-a"), "{written}");
    for host in hosts {
        until("it is the same script", || script(host).unwrap() == written);
    }
    // Its old nodes do not count as having joined.
    for node in fixture.heads[0].0.nodes().into_iter().skip(1) {
        assert!(fixture.heads[0].0.renew_node(node));
    }
    let (code, out, said) = starting.finish();
    assert!(code == Some(0) && said.contains("joined"), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows, json!([{"cluster": "marin-a", "worker": "by-hand", "hosts": hosts, "joined": true}]));
    let logins = fs::read_to_string(fixture.home.path().join("logins")).unwrap();
    assert_eq!(logins.lines().filter(|l| l.starts_with("10.")).count(), 2, "each host once: {logins}");
    assert!(logins.contains("sudo -n sh -c"), "{logins}");
    let (_, log, _) = fixture.run("audit");
    assert!(log.contains("init-worker by-hand"), "{log}");
}

/// The startup script would start Ray again on each host whose drained node has ended, as a new node that takes jobs.
#[test]
fn a_drain_stops_the_startup_script_and_waits_only_for_the_nodes_that_it_drains() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let hosts = [WORKER, "10.128.0.3"];
    // The login on the first host takes as long as it is held, and the one on the second fails.
    let login = "case \" $* \" in *\" -T -- 127.\"*) ;; *\" -T -- 10.128.0.3 \"*) echo 'no route' >&2; exit 255;; \
                 *\" -T -- \"*) echo \"$*\" >>\"$HOME/logins\"; while [ -e \"$HOME/held\" ]; do sleep 0.05; done; \
                 echo stopped; exit 0;; esac\nexec /usr/bin/ssh \"$@\"\n";
    fixture.program("ssh", login);
    fixture.file("held", "");
    let node = tpu::node(ZONE, "by-hand", "v4-16", "READY", &labels("unmanaged"), &hosts);
    fixture.double.state().nodes.push(node);
    let (code, out, said) = fixture.run("remove-worker by-hand --drain --dry-run");
    let position = |words: &str| out.find(words).unwrap_or_else(|| panic!("no `{words}`: {out}{said}"));
    assert!(code == Some(0) && position("marin-tui-worker") < position("DrainNode"), "{out}{said}");

    let drained: Vec<_> = fixture.heads[0].0.nodes().into_iter().skip(1).collect();
    let mut removing = fixture.spawn("remove-worker by-hand --drain --within 600 --yes");
    let logins = || fs::read_to_string(fixture.home.path().join("logins")).unwrap_or_default();
    until("the script is being stopped", || !logins().is_empty());
    assert!(logins().contains("sudo -n sh -c") && logins().contains("kill"), "{}", logins());
    // Another node joins at the same address, which is not drained.
    let head = &fixture.heads[0].0;
    assert!(head.join_node(drained[0], WORKER));
    fs::remove_file(fixture.home.path().join("held")).unwrap();
    removing.wait_for("startup script stopped on 1 host");
    removing.wait_for("waiting up to");
    for node in drained {
        // An idle node may have ended already.
        head.kill_node(node);
    }
    let (code, _, said) = removing.finish();
    assert!(
        said.contains("10.128.0.3: cannot stop the startup script") && said.contains("no route"),
        "{said}"
    );
    assert!(said.contains("to start both again, run `") && said.contains("init-worker by-hand`"), "{said}");
    assert!(said.contains("running work has ended"), "it does not wait for the new node: {said}");
    assert!(code == Some(1) && said.contains("another node has since joined Ray at 10.128.0.2"), "{said}");
    assert_eq!(fixture.deletions(), Vec::<String>::new());
}

#[test]
fn a_live_tpu_vm_is_removed_from_google_and_from_ray() {
    let mut fixture = CloudFixture::new();
    fixture.head_of(|s| s.jobs = 0);
    let hosts = [WORKER, "10.128.0.3"];
    let node = tpu::node(ZONE, "by-hand", "v4-16", "READY", &labels("unmanaged"), &hosts);
    fixture.double.state().nodes.push(node);
    let (code, out, said) = fixture.run("remove-worker by-hand --dry-run");
    assert!(code == Some(0) && format!("{out}{said}").contains("by-hand"), "{out}{said}");
    assert_eq!(fixture.double.requests_with("DELETE"), 0);
    let removing = fixture.spawn("remove-worker by-hand --now --yes");
    until("google has deleted it", || fixture.double.state().nodes.is_empty());
    for node in fixture.heads[0].0.nodes().into_iter().skip(1) {
        fixture.heads[0].0.kill_node(node);
    }
    let (code, _, said) = removing.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fixture.deletions().len(), 1);
    let (_, log, _) = fixture.run("audit");
    assert!(log.contains("remove-worker by-hand"), "{log}");
}
