//! Typos, and `RAY_ADDRESS` together with `-c`.

use super::desk::Desk;
use crate::program::Ran;

/// A table of typos, and the only command that may be proposed for each.
#[test]
fn a_typo_never_proposes_a_command_that_changes_a_cluster() {
    let desk = Desk::new();
    let error_of = |typed: &str| desk.run(&typed.split(' ').collect::<Vec<_>>()).exits(2).err;
    for (typed, near) in [
        ("get-stats", "status"),
        ("getstatus", "status"),
        ("stat", "status"),
        ("staus", "status"),
        ("statsu", "status"),
        ("cluster", "clusters"),
        ("clutsers", "clusters"),
        ("list-config", "clusters"),
        ("cluster-inf", "clusters"),
        ("list-job", "list-jobs"),
        ("lits-jobs", "list-jobs"),
        ("job-log", "job-logs"),
        ("jobs-logs", "job-logs"),
        ("wait-jobs", "wait-job"),
        ("tpu", "tpus"),
        ("audti", "audit"),
        ("hlep", "help"),
        ("dmeo", "demo"),
        ("authenv", "auth-env"),
        ("auht", "auth"),
        ("configs lst", "configs list"),
        ("configs validte", "configs validate"),
        ("token statsu", "token status"),
    ] {
        let err = error_of(typed);
        assert!(err.contains(&format!("did you mean `{near}`?")), "{typed}: {err}");
    }
    for (typed, similar) in [
        ("restart-clutser", "restart-cluster"),
        ("restart-clusters", "restart-cluster"),
        ("stop-clustr", "stop-cluster"),
        ("start-cluste", "start-cluster"),
        ("stop-jobs", "stop-job"),
        ("submit-jobb", "submit-job"),
        ("delete-jobs", "delete-job"),
        ("remove-workers", "remove-worker"),
        ("ad-worker", "add-worker"),
        ("clean-preemptd", "clean-preempted"),
        ("configs updat", "update"),
        ("token init-secrt", "init-secret"),
    ] {
        let err = error_of(typed);
        assert!(err.contains(&format!("commands with similar names: {similar}")), "{typed}: {err}");
        assert!(!err.contains(&format!("`{similar}`")), "{typed}: {err}");
    }
    for typed in [
        "start",
        "stop",
        "restart",
        "delete",
        "remove",
        "clean",
        "submit",
        "add",
        "init",
        "kill",
        "zzz",
        "token init",
        "-- stop-cluster",
    ] {
        let err = error_of(typed);
        assert!(!err.contains("-cluster`") && !err.contains("similar"), "{typed}: {err}");
        assert!(!err.contains("exists"), "{typed}: {err}");
    }
}

#[test]
fn help_knows_the_old_names() {
    let desk = Desk::new();
    for (old, new, usage) in [
        ("get-status", "status", "status"),
        ("dashboard", "forward dashboard", "forward"),
        ("job logs", "job-logs", "job-logs"),
        ("clean-tpu-processes", "run-cleanup", "run-cleanup"),
    ] {
        let words: Vec<&str> = ["help"].into_iter().chain(old.split(' ')).collect();
        let out = desk.run(&words).good();
        assert!(out.starts_with(&format!("`{old}` is now `{new}`.\n")), "{out}");
        assert!(out.contains(&format!("Usage: marin-tui {usage} ")), "{out}");
    }
    assert!(desk.run(&["help", "get-statu"]).exits(1).err.contains("no command or topic `get-statu`"));
}

#[test]
fn an_old_line_without_a_cluster_gets_a_hint_that_names_one() {
    let desk = Desk::new();
    let err = desk.run(&["ssh-tpu", "10.128.0.42"]).exits(1).err;
    assert!(err.contains("--cluster: marin-big-run, "), "{err}");
    assert!(err.ends_with("; run `marin-tui -c NAME ssh 10.128.0.42`\n"), "{err}");
    // The author of a new line is assumed to know its options.
    assert!(!desk.run(&["ssh", "10.128.0.42"]).exits(1).err.contains("NAME"));
}

#[test]
fn a_given_cluster_takes_precedence_over_ray_address() {
    let desk = Desk::with_fleet();
    let with = |address: &str, words: &[&str]| {
        Ran::of(&desk.command(words).env("RAY_ADDRESS", address).output().unwrap())
    };
    let url = "http://127.0.0.1:9";
    let ran = with(url, &["-c", "us-central2", "list-jobs"]);
    assert_eq!(
        ran.err.lines().filter(|line| line.contains("RAY_ADDRESS")).collect::<Vec<_>>(),
        [
            "RAY_ADDRESS (http://127.0.0.1:9) is ignored because `-c us-central2` selects a cluster; omit -c to use that address"
        ]
    );
    assert!(ran.exits(0).out.starts_with("JOB"));
    // Without -c it selects the cluster; other forms of it are for Ray only.
    let err = with(url, &["list-jobs", "--all"]).err;
    assert!(!err.contains("is not used"), "{err}");
    assert!(
        !with("ray://127.0.0.1:10001", &["-c", "us-central2", "list-jobs"])
            .exits(0)
            .err
            .contains("RAY_ADDRESS")
    );
    let err = with("10.0.0.1:6379", &["list-nodes"]).exits(1).err;
    assert!(err.starts_with("RAY_ADDRESS (10.0.0.1:6379) is ignored"), "{err}");
    // `HOST:6379` is the GCS of a cluster that needs no ssh.
    let clusters = desk.run(&["--address", "10.0.0.1:6379", "clusters", "--json"]).exits(0).json();
    assert_eq!(clusters[0]["cluster"], "10.0.0.1:8265", "{clusters}");
}
