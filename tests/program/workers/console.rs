//! Workers from the console, in a terminal.

use crate::cloud_fixture::{CloudFixture, WORKER, ZONE, labels};
use crate::pty::Pty;
use marin_tui::demo::google::tpu;

impl CloudFixture {
    fn terminal(&self) -> Pty {
        let path = |name: &str| self.home.path().join(name).display().to_string();
        let home = path("");
        let env = [
            ("HOME", home.clone()),
            ("XDG_CONFIG_HOME", path(".config")),
            ("XDG_STATE_HOME", path(".local/state")),
            ("XDG_CACHE_HOME", path(".cache")),
            ("XDG_RUNTIME_DIR", home),
            ("GOOGLE_APPLICATION_CREDENTIALS", path("adc.json")),
            ("GCE_METADATA_HOST", "127.0.0.1:9".into()),
            ("RAY_AUTH_TOKEN", String::new()),
            ("RAY_ADDRESS", String::new()),
        ];
        let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let (infra, config) = (path("infra"), path("config.yaml"));
        let argv = [env!("CARGO_BIN_EXE_marin-tui"), "--infra", &infra, "--config", &config];
        Pty::start(&argv, &env, 120, 40)
    }
}

#[test]
fn a_worker_is_added_left_waiting_followed_and_removed_from_the_console() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let mut pty = fixture.terminal();
    pty.wait_text("● up");
    pty.send("a");
    pty.wait_text("tpu_worker (v4-8)");
    // Reserved, one, with a name that is corrected before anything is sent.
    pty.send("\tr\t\tExtra");
    pty.wait_text("✕ use lowercase letters");
    pty.send("\x15extra\t\t\r");
    pty.wait_text("1 of type tpu_worker (v4-8), reserved: extra");
    pty.wait("the end of the check", |text| !text.contains("◌ checking"));
    assert!(fixture.double.state().queued.is_empty(), "nothing yet");
    pty.send("\t\r");
    pty.wait_text("◐ 2 wait for capacity");
    pty.wait_text("extra: waiting");
    assert!(fixture.double.state().queued[0].to_string().contains("reserv"));

    // A wait does not lock the console: it is left, and the same request is followed again.
    pty.send("C");
    pty.wait_text("cancelled; the request remains in Google Cloud");
    pty.send("q");
    pty.wait("the cluster", |text| !text.contains("cancelled; the request"));
    pty.send("a");
    pty.wait("what was chosen last", |text| text.contains("reserved  4 of 4"));
    pty.send("\t\t\textra\t\t\r");
    pty.wait_text("1 of type tpu_worker (v4-8), reserved: extra");
    pty.wait("the end of the check", |text| !text.contains("◌ checking"));
    pty.send("\t\r");
    pty.wait_text("extra: waiting");
    assert_eq!(fixture.double.state().queued.len(), 1, "it was requested once");
    fixture.grant("extra");
    pty.wait("that it has joined", |text| text.contains("add worker done"));

    // It is listed among the TPUs as registered, and is removed from there: the affected jobs are shown first.
    pty.send("q");
    pty.wait("the cluster", |text| !text.contains("add worker done"));
    pty.send("T");
    pty.wait("the TPU", |text| text.contains("extra") && text.contains("registered"));
    pty.send("G");
    pty.wait_text("extra: registered");
    pty.send("D");
    pty.wait_text("Remove worker extra (marin-a)");
    let seen =
        pty.wait("affected jobs", |text| text.contains("[x] drain first") && text.contains("[ ] also end"));
    assert!(seen.contains("1 task (allowed to finish)"), "{seen}");
    pty.send("\t ");
    pty.wait("the other plan", |text| text.contains("[ ] drain first") && text.contains("[ ] also end"));
    pty.send("\t\t\r");
    pty.wait_text("ask their owners, then allow it above");
    assert_eq!(fixture.deletions().len(), 0);
    pty.send("\t\t\t \t\r");
    pty.wait("that it is deleted", |_| fixture.deletions().len() == 1);
    let head = &fixture.heads[0].0;
    assert!(head.kill_node(head.nodes()[1]));
    pty.wait_text("remove worker done");
    pty.send("q");
    pty.wait("that it is gone", |text| text.contains("TPUs") && !text.contains("extra"));
    let (_, log, _) = fixture.run("audit");
    for entry in ["add-worker extra (tpu_worker, reserved)", "remove-worker extra"] {
        let line = |outcome: &str| log.lines().any(|l| l.contains(entry) && l.contains(outcome));
        assert!(line("begun") && line("done"), "{entry}: {log}");
    }
    pty.send("\x03");
    assert!(pty.wait_exit().success());
}

/// A console on the TPUs of a cluster with a manually added one.
fn at_tpus_by_hand() -> (CloudFixture, Pty) {
    let mut fixture = CloudFixture::new();
    fixture.head();
    fixture.double.state().nodes =
        vec![tpu::node(ZONE, "by-hand", "v4-8", "READY", &labels("unmanaged"), &[WORKER])];
    let mut pty = fixture.terminal();
    pty.wait_text("● up");
    pty.send("T");
    pty.wait_text("by-hand");
    (fixture, pty)
}

#[test]
fn a_node_of_a_manually_added_worker_names_the_worker() {
    let (fixture, mut pty) = at_tpus_by_hand();
    // In the list of nodes.
    pty.send("q1v/");
    pty.send(WORKER);
    pty.send("\rD");
    pty.wait_text(&format!("{WORKER} (marin-a)"));
    pty.wait_text("it is the host of by-hand");
    pty.wait_text("1 task");
    assert_eq!(fixture.double.requests_with("DELETE"), 0);
    pty.send("\x03");
    assert!(pty.wait_exit().success());
}

/// Replaces ssh for interactive logins only.
fn login_is(fixture: &CloudFixture, script: &str) {
    let login = format!("case \" $* \" in *\" -t \"*)\n{script}\nesac\nexec /usr/bin/ssh \"$@\"\n");
    fixture.program("ssh", &login);
}

#[test]
fn an_interrupt_of_a_login_keeps_the_console_and_a_signal_to_the_console_ends_both() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let mut pty = fixture.terminal();
    pty.wait_text("● up");
    // The terminal is not raw until a login has a session: ^C and ^\ go to all foreground processes.
    for (key, signal) in [("\x03", "SIGINT"), ("\x1c", "SIGQUIT")] {
        login_is(&fixture, "echo it does not answer; exec sleep 1000");
        pty.send("!");
        pty.wait("the login", |text| text.contains("it does not answer") && !text.contains("● up"));
        pty.send(key);
        pty.wait("the console", |text| text.contains("● up") && text.contains(signal));
        pty.send("\x1b");
        pty.wait("the message is gone", |text| !text.contains(signal));
    }
    // A login that ignores SIGTERM, and has made the terminal raw.
    let login = fixture.home.path().join("login").display().to_string();
    login_is(
        &fixture,
        &format!("stty raw -echo; trap '' TERM; echo $$ >{login}; echo it is raw; exec sleep 1000"),
    );
    pty.send("!");
    pty.wait_text("it is raw");
    assert!(!pty.is_restored());
    let sent = std::process::Command::new("kill").args(["-TERM", &pty.pid().to_string()]).status().unwrap();
    assert!(sent.success());
    assert!(pty.wait_exit().success());
    assert!(pty.is_restored());
    let id = std::fs::read_to_string(&login).unwrap();
    assert!(!std::path::Path::new("/proc").join(id.trim()).exists(), "the login has ended, too");
}

#[test]
fn a_login_on_a_host_is_prepared_in_the_background() {
    let (fixture, mut pty) = at_tpus_by_hand();
    pty.send("/by-hand\r");
    pty.wait_text("by-hand: registered");
    // The ssh queries before a login take arbitrarily long.
    let go = fixture.home.path().join("go");
    let prepared = format!("while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let login = "case \" $* \" in *\" -t \"*) echo logged in; read line; exit 0;; esac";
    let slow = format!("case \" $* \" in *\" -G \"*) {prepared};; esac\n{login}\nexec /usr/bin/ssh \"$@\"\n");
    fixture.program("ssh", &slow);
    pty.send("!");
    pty.wait_text("logging in to by-hand");
    pty.send(":host");
    pty.wait_text("Review a changed host key");
    std::fs::write(&go, "").unwrap();
    pty.wait_text("a dialog or a prompt was opened");
    pty.send("\x1b");
    pty.wait("the TPUs", |text| !text.contains(":host"));
    pty.send("!");
    pty.wait("the login", |text| text.contains("logged in") && !text.contains("● up"));
    pty.send("\r");
    pty.wait_text("exited");
    pty.send("\x03");
    assert!(pty.wait_exit().success());
}
