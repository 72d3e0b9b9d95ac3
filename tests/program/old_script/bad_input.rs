//! Old lines that cannot be run, and the messages for those that can.

use super::desk::Desk;
use crate::program::Ran;
use crate::pty::Pty;
use std::fs;

#[test]
fn the_new_line_is_shown_once_on_a_terminal_and_not_to_a_script() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["list-configs"]).exits(0).err, "");
    let home = desk.dir.path().to_str().unwrap().to_owned();
    let line = [env!("CARGO_BIN_EXE_marin-tui"), "--config", "infra/marin-big-run.yaml", "list-configs"];
    let mut pty = Pty::start(
        &["/bin/sh", "-c", &format!("cd {home}; exec {}", line.join(" "))],
        &[("HOME", &home)],
        160,
        20,
    );
    let screen = pty.wait_text("marin-big-run.yaml clusters");
    assert_eq!(screen.matches("this command is now").count(), 1, "{screen}");
    assert!(
        screen.contains("this command is now `marin-tui --infra infra/marin-big-run.yaml clusters`"),
        "{screen}"
    );
    assert!(pty.wait_exit().success());
}

#[test]
fn no_secret_of_an_old_line_is_repeated() {
    let desk = Desk::new();
    for line in [
        "ray_run.py -c lab --auto-stop -e WANDB_API_KEY sesame-sesame -- python x.py",
        "ray_run.py -c lab --auto-stop --runtime-env '{\"env_vars\": {\"HF_TOKEN\": \"sesame=sesame\"}}' -- python x.py",
        "ray_run.py -c lab --auto-stop -- python x.py --token sesame-sesame",
        "cluster.py -c lab submit-job -e HF_TOKEN sesame-sesame --auto-stop 'python x.py'",
    ] {
        let err = desk.typed(line).exits(2).err;
        assert!(err.contains("submit-job") && !err.contains("sesame"), "{err}");
    }
}

#[test]
fn contradictory_lines_are_refused_and_nothing_is_run() {
    let desk = Desk::new();
    fs::create_dir(desk.at("my files")).unwrap();
    fs::copy(desk.at("infra/marin-big-run.yaml"), desk.at("my files/a b.yaml")).unwrap();
    fs::write(desk.at("notes.yaml"), "shopping: [milk]\n").unwrap();
    fs::write(desk.at("list.yaml"), "- milk\n").unwrap();
    let us = "--config infra/marin-us-central2.yaml";
    for (line, code, words) in [
        // A value is given twice.
        (
            format!("{us} --config infra/marin-big-run.yaml list-configs"),
            2,
            "is given twice: infra/marin-us-central2.yaml and",
        ),
        (format!("{us} add-worker v4-8 --type v4-16"), 2, "the TPU type is given twice: v4-8 and v4-16"),
        (format!("{us} init-worker a --name b"), 2, "the worker is given twice: a and b"),
        (format!("{us} show-logs --tail 1 --tail 2"), 2, "--tail is given twice: 1 and 2"),
        (format!("{us} show-logs --tail many"), 2, "`--tail many` is not a number"),
        (format!("{us} job-logs ID --tail 5 -n 6"), 2, "by --tail and by -n"),
        (format!("{us} remove-worker a --name b"), 2, "the worker is given twice: a and b"),
        (format!("{us} submit-job --no_wait --no-wait x"), 2, "'--no-wait' cannot be used multiple times"),
        // A mixture of old and new syntax.
        (format!("{us} submit-job -e A 1 2 -- python x.py"), 2, "write `--env A=VALUE`"),
        (format!("{us} submit-job python -- x.py"), 2, "`python` is before `--`"),
        (format!("{us} submit-job -e NAME 'python x.py'"), 2, "submit-job --env NAME -- 'python x.py'`"),
        (format!("{us} get-status --tail 3"), 2, "unexpected argument '--tail' found"),
        (format!("{us} list-configs -c us-east5"), 1, "no cluster `us-east5`"),
        ("-- stop-cluster".to_owned(), 2, "unexpected argument 'stop-cluster'"),
        ("--config".to_owned(), 2, "a value is required"),
        ("--config '' list-configs".to_owned(), 2, "a value is required for '--config <FILE>'"),
        ("--infra infra --config= list-configs".to_owned(), 2, "a value is required for '--config <FILE>'"),
        // Neither a settings file nor a cluster file.
        (
            "--config notes.yaml list-configs".to_owned(),
            1,
            "a cluster file has `cluster_name` and `provider`",
        ),
        ("--config list.yaml list-configs".to_owned(), 1, "list all settings, e.g. `infra`"),
        ("--config none.yaml list-configs".to_owned(), 1, "cannot be read"),
        ("--cluster infra/none.yaml list-configs".to_owned(), 1, "no cluster files found in"),
        ("--cluster infra/clusters.yaml get-status --check".to_owned(), 1, "has no `cluster_name`"),
        ("--config infra/clusters.yaml list-jobs".to_owned(), 1, "unknown setting `defaults`"),
        ("--infra infra/clusters.yaml list-jobs".to_owned(), 1, "has no `cluster_name`"),
        ("--marin-config other.yaml list-configs".to_owned(), 2, "run `marin-tui clusters`"),
        // Names with spaces and quotes are quoted for pasting.
        (
            "--config 'my files/a b.yaml' start-cleanup".to_owned(),
            2,
            "`marin-tui --infra 'my files/a b.yaml' run-cleanup --interval 10m`",
        ),
        // Commands that showed all clusters, or printed a token.
        ("dashboard".to_owned(), 2, "`dashboard` was not run: the console shows all clusters; "),
        (
            format!("{us} get-auth-token"),
            2,
            "run `marin-tui --infra infra/marin-us-central2.yaml token path`",
        ),
        (
            "get-auth-token --generate -c us-central2".to_owned(),
            2,
            "run `marin-tui token init-secret -c us-central2`",
        ),
        ("--auto-stop -- echo \"it's\"".to_owned(), 2, r"submit-job --working-dir . -- echo 'it'\''s'`"),
    ] {
        let Ran { code: got, out, err } = desk.typed(&format!("marin-tui {line}"));
        let said = out + &err;
        assert!(got == Some(code) && said.contains(words), "{line}: {got:?} {said}");
    }
    // A file name may contain spaces, and a pipe is read once.
    assert!(desk.typed("marin-tui --config 'my files/a b.yaml' clusters").good().contains("marin-big-run"));
    desk.script("settings", "echo 'refresh_seconds: 3'\n");
    desk.typed("settings >piped & marin-tui --config /dev/stdin clusters <piped; wait").exits(0);
}

#[test]
fn lists_succeed_when_their_pipe_is_closed() {
    let desk = Desk::with_fleet();
    for line in [
        "list-configs",
        "cluster-info",
        "-c us-central2 list-jobs --all",
        "get-status",
        "update-configs --diff",
    ] {
        for reader in ["| true", "| head -n 1", ">&-"] {
            let file = desk.at("code");
            let Ran { err, .. } =
                desk.typed(&format!("{{ marin-tui {line}; echo $? >{}; }} {reader}", file.display()));
            let code = fs::read_to_string(&file).unwrap();
            assert!(code == "0\n" && !err.contains("panicked"), "{line} {reader}: {code}{err}");
        }
    }
}
