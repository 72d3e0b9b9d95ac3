//! `marin-tui setup` on machines that lack something: it reports what is missing, and sets up what it can.

use crate::cloud_fixture::CloudFixture;
use crate::program::{Ran, program};
use crate::shell;
use crate::transcript::Transcript;
use marin_tui::demo::google::{Fault, PROJECT};
use marin_tui::demo::{Head, Scenario};
use marin_tui::model::Secret;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOKEN: &str = "tok-7be0c1d2a9-never-shown";

/// The result of the check with that name; of several, the last one.
fn of<'a>(rows: &'a Value, check: &str) -> &'a Value {
    rows.as_array()
        .unwrap()
        .iter()
        .rfind(|row| row["check"] == check)
        .unwrap_or_else(|| panic!("{check}: {rows}"))
}

fn status<'a>(rows: &'a Value, check: &str) -> &'a str {
    of(rows, check)["status"].as_str().unwrap()
}

/// A cluster whose head requires a token, and a new user who has only a Google login.
struct Newcomer {
    fixture: CloudFixture,
    home: tempfile::TempDir,
    /// The key that the head accepts.
    key: String,
}

impl Newcomer {
    fn new() -> Self {
        let mut fixture = CloudFixture::new();
        fixture.head_of(|scenario| scenario.token = Some(Secret::new(TOKEN)));
        let key = fs::read_to_string(fixture.home.path().join("key")).unwrap();
        fs::remove_file(fixture.home.path().join("key")).unwrap();
        fixture.double.put_secret("RAY_AUTH_TOKEN", TOKEN);
        fixture.double.put_secret("RAY_KEY", &key);
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let newcomer = Self { fixture, home, key };
        let file = newcomer.key_file().display().to_string();
        newcomer.settings(|settings| settings["clusters"]["marin-a"]["key"] = file.into());
        newcomer
    }

    fn key_file(&self) -> PathBuf {
        self.home.path().join(".ssh/cluster.pem")
    }

    /// Changes the settings file.
    fn settings(&self, change: impl FnOnce(&mut Value)) {
        let file = self.fixture.home.path().join("config.yaml");
        let mut settings = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        change(&mut settings);
        fs::write(file, settings.to_string()).unwrap();
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.fixture.command(words);
        command.env("HOME", self.home.path()).current_dir(self.home.path());
        command
    }

    fn run(&self, words: &str) -> Ran {
        seen(&mut self.command(words))
    }

    /// Rows of a run with this exit code; asserts that every command in a hint can be pasted.
    fn rows(&self, words: &str, code: i32) -> Value {
        let rows = self.run(words).exits(code).json();
        let commands = rows.as_array().unwrap().iter().flat_map(|row| row["fixes"].as_array().unwrap());
        for line in commands.filter_map(|fix| fix["command"].as_str()) {
            shell::check(line).unwrap_or_else(|why| panic!("`{line}`: {why}"));
        }
        rows
    }

    /// An empty transcript.
    fn transcript(&self) -> Transcript {
        let fixture = regex::escape(&self.fixture.home.path().display().to_string());
        // The reason is in the words of this machine's `ssh-keygen`.
        let picture =
            Transcript::new(self.home.path()).varying(r"cannot be used: [^\n]*", "cannot be used: WHY");
        picture.varying(&fixture, "WORLD").varying(r"127\.0\.0\.\d+:\d+", "HEAD")
    }

    /// As [`Self::rows`]; also adds the results and hints of these checks to the transcript.
    fn shows(&self, shown: &mut Transcript, (words, code): (&str, i32), checks: &[&str]) -> Value {
        let rows = self.rows(words, code);
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let is_shown = |row: &&Value| checks.contains(&row["check"].as_str().unwrap());
        let mut out = String::new();
        for row in rows.as_array().unwrap().iter().filter(is_shown) {
            let [check, status, what, hint] =
                ["check", "status", "message", "hint"].map(|key| text(row, key));
            writeln!(out, "{check}: {status}: {what}").unwrap();
            if !hint.is_empty() {
                writeln!(out, "  hint: {hint}").unwrap();
            }
        }
        shown.add(words, &Ran { code: Some(code), out, err: String::new() });
        rows
    }

    fn write_key(&self, text: &str, mode: u32) {
        fs::create_dir_all(self.key_file().parent().unwrap()).unwrap();
        fs::write(self.key_file(), text).unwrap();
        fs::set_permissions(self.key_file(), fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Runs a command; asserts that it printed neither the token nor a line of a key.
fn seen(command: &mut Command) -> Ran {
    let ran = Ran::of(&command.output().unwrap());
    let all = [ran.out.as_str(), &ran.err].concat();
    assert!(!all.contains("7be0c1d2a9") && !all.contains("PRIVATE KEY"), "{all}");
    ran
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[test]
fn setup_reports_what_an_empty_home_lacks_and_then_sets_it_up() {
    let newcomer = Newcomer::new();
    let mut shown = newcomer.transcript();
    let needed = ["ssh-key", "token", "head"];
    let checked = newcomer.shows(&mut shown, ("setup --check --json --key-secret RAY_KEY", 1), &needed);
    let needs: Vec<&str> = checked
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["status"] == "needs-action")
        .map(|row| row["check"].as_str().unwrap())
        .collect();
    assert_eq!(needs, needed, "{checked}");
    assert_eq!(fs::read_dir(newcomer.home.path()).unwrap().count(), 0, "a check changes nothing");

    let done = newcomer.shows(&mut shown, ("setup --json --key-secret RAY_KEY", 0), &needed);
    shown.is("an_empty_home_is_set_up");
    for check in ["directories", "ssh-key", "token"] {
        assert_eq!(status(&done, check), "fixed", "{done}");
    }
    for check in ["settings", "cluster-files", "ssh", "google-login", "google-permissions", "head", "ray"] {
        assert_eq!(status(&done, check), "ok", "{done}");
    }
    assert_eq!(fs::read_to_string(newcomer.key_file()).unwrap().trim(), newcomer.key.trim());
    assert_eq!((mode(&newcomer.key_file()), mode(newcomer.key_file().parent().unwrap())), (0o600, 0o700));
    // A second run has nothing to do.
    let again = newcomer.rows("setup --json --key-secret RAY_KEY", 0);
    assert!(again.as_array().unwrap().iter().all(|row| row["status"] == "ok"), "{again}");
    let table = newcomer.run("setup --check").good();
    assert!(table.starts_with("STATUS") && table.contains("google-permissions  hai-test  "), "{table}");
    // The setup is complete.
    newcomer.run("list-jobs").good();
}

#[test]
fn without_a_google_login_the_hint_is_how_to_log_in() {
    let newcomer = Newcomer::new();
    let mut command = newcomer.command("setup --json --key-secret RAY_KEY");
    command.env_remove("GOOGLE_APPLICATION_CREDENTIALS").env_remove("GCE_METADATA_HOST");
    let rows = seen(&mut command).exits(1).json();
    let login = "gcloud auth application-default login";
    for check in ["google-login", "ssh-key", "token"] {
        assert!(of(&rows, check)["hint"].as_str().unwrap().contains(login), "{rows}");
    }
    assert_eq!(
        [status(&rows, "ssh-key"), status(&rows, "token"), status(&rows, "head")],
        ["needs-action"; 3]
    );
    let text = newcomer.run("setup --key-secret RAY_KEY").good();
    let fixed = text.lines().filter(|line| line.starts_with("fixed")).count();
    assert_eq!(fixed, 2, "key and token: {text}");
}

#[test]
fn permissions_that_are_missing_are_named_with_their_role() {
    let newcomer = Newcomer::new();
    for permission in ["tpu.nodes.delete", "tpu.nodes.list", "compute.instances.list"] {
        newcomer.fixture.double.state().denied.insert(permission.into());
    }
    let mut shown = newcomer.transcript();
    let check = ["google-permissions"];
    let rows = newcomer.shows(&mut shown, ("setup --json --check", 1), &check);
    let missing: Vec<&Value> =
        rows.as_array().unwrap().iter().filter(|row| row["check"] == "google-permissions").collect();
    assert_eq!(missing.len(), 3, "{rows}");
    for row in missing {
        assert_eq!((&row["target"], &row["status"]), (&json!(PROJECT), &json!("needs-action")));
    }
    let off = Fault::Recorded {
        code: 403,
        body: r#"{"error": {"code": 403, "message": "Cloud Resource Manager API has not been used in project 1234567890 before or it is disabled.", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com", "metadata": {"service": "cloudresourcemanager.googleapis.com", "consumer": "projects/1234567890"}}]}}"#,
    };
    newcomer.fixture.double.fail(":testIamPermissions", off);
    let rows = newcomer.shows(&mut shown, ("setup --json --check", 1), &check);
    assert_eq!(status(&rows, "google-permissions"), "not-checked");
    newcomer.fixture.double.recover();
    // A project of somebody else.
    let file = newcomer.fixture.home.path().join("infra/a.yaml");
    fs::write(&file, fs::read_to_string(&file).unwrap().replace(PROJECT, "theirs")).unwrap();
    newcomer.shows(&mut shown, ("setup --json --check", 1), &check);
    shown.is("permissions_that_are_missing");
}

#[test]
fn a_key_is_made_private_and_never_replaced() {
    let newcomer = Newcomer::new();
    newcomer.settings(|settings| settings["ssh_key_secret"] = "RAY_KEY".into());
    newcomer.write_key(&newcomer.key, 0o644);
    let rows = newcomer.rows("setup --check --json", 1);
    let chmod = format!("chmod 600 {}", newcomer.key_file().display());
    assert_eq!(of(&rows, "ssh-key")["fixes"][0]["command"], chmod.as_str());
    assert_eq!(mode(&newcomer.key_file()), 0o644);
    let mut shown = newcomer.transcript();
    let rows = newcomer.shows(&mut shown, ("setup --json", 0), &["ssh-key"]);
    assert!(status(&rows, "ssh-key") == "fixed" && mode(&newcomer.key_file()) == 0o600);

    // The secret has another key: only the user knows which of them is right.
    let other = newcomer.home.path().join("other");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&other).status();
    assert!(made.unwrap().success());
    newcomer.fixture.double.put_secret("RAY_KEY", &fs::read_to_string(&other).unwrap());
    let rows = newcomer.shows(&mut shown, ("setup --json", 1), &["ssh-key"]);
    let key = of(&rows, "ssh-key");
    assert!(key["fixes"][0]["command"].as_str().unwrap().starts_with("mv "), "{key}");
    assert_eq!(fs::read_to_string(newcomer.key_file()).unwrap(), newcomer.key);
    // A secret that cannot be read is not a problem for a key that works.
    newcomer.fixture.double.fail("RAY_KEY", Fault::Html(502));
    newcomer.shows(&mut shown, ("setup --json", 0), &["ssh-key"]);
    shown.is("keys_that_are_not_as_they_should_be");
}

#[test]
fn a_secret_that_is_not_a_key_is_not_written() {
    let newcomer = Newcomer::new();
    newcomer.fixture.double.put_secret("RAY_KEY", "-----BEGIN NOTHING-----\n");
    let mut shown = newcomer.transcript();
    let rows = newcomer.shows(&mut shown, ("setup --json --key-secret RAY_KEY", 1), &["ssh-key"]);
    let key = of(&rows, "ssh-key");
    assert!(
        key["fixes"][0]["command"].as_str().unwrap().starts_with("gcloud secrets versions add RAY_KEY"),
        "{key}"
    );
    assert!(!newcomer.key_file().exists());
    newcomer.shows(&mut shown, ("setup --json --key-secret NONE", 1), &["ssh-key"]);
    newcomer.shows(&mut shown, ("setup --json", 1), &["ssh-key"]);
    newcomer.write_key("not a key\n", 0o600);
    newcomer.shows(&mut shown, ("setup --json", 1), &["ssh-key"]);
    let words = "setup --key-secret a/b";
    shown.with(words, &newcomer.run(words).exits(1)).is("secrets_that_are_no_keys");
    let empty = Newcomer::new();
    empty.fixture.double.put_secret("RAY_AUTH_TOKEN", "\n");
    let mut shown = empty.transcript();
    let rows = empty.shows(&mut shown, ("setup --json --key-secret RAY_KEY", 1), &["token"]);
    shown.is("a_secret_that_is_empty");
    assert_eq!(status(&rows, "head"), "needs-action");
}

#[test]
fn programs_that_are_missing_or_too_old_are_named() {
    let newcomer = Newcomer::new();
    newcomer.fixture.program("ray", "echo 'ray, version 2.9.0'\n");
    let mut shown = newcomer.transcript();
    let rows = newcomer.shows(&mut shown, ("setup --json --key-secret RAY_KEY", 1), &["ray"]);
    let ray = of(&rows, "ray");
    assert!(
        ray["fixes"][0]["command"].as_str().unwrap().starts_with("python3 -m pip install 'ray[default]==2."),
        "{ray}"
    );
    newcomer.fixture.program("ray", "echo 'ModuleNotFoundError: no ray' >&2; exit 1\n");
    newcomer.shows(&mut shown, ("setup --json --check", 1), &["ray"]);
    newcomer.fixture.program("ssh", "echo 'OpenSSH_7.4p1, OpenSSL 1.0.2k-fips' >&2\n");
    newcomer.shows(&mut shown, ("setup --json --check", 1), &["ssh"]);
    newcomer.settings(|settings| {
        settings["ssh"] = "/nowhere/ssh".into();
        settings["ray"] = json!(["no-such-ray"]);
    });
    newcomer.shows(&mut shown, ("setup --json --check", 1), &["ssh", "ray"]);
    shown.is("programs_that_are_missing_or_too_old");
}

#[test]
fn a_local_cluster_needs_no_google_and_a_dashboard_no_ssh() {
    let newcomer = Newcomer::new();
    let local = "cluster_name: lab\nprovider: {type: local, head_ip: 127.0.0.9, worker_ips: []}\n";
    newcomer.fixture.file("lab/lab.yaml", local);
    let infra = newcomer.fixture.home.path().join("lab").display().to_string();
    let rows = newcomer.rows(&format!("--infra {infra} setup --json --check"), 1);
    for check in ["google-login", "google-permissions", "ssh-key", "token"] {
        assert_eq!(status(&rows, check), "not-needed", "{rows}");
    }
    assert_eq!(status(&rows, "head"), "needs-action", "nothing answers there");
    let before = newcomer.fixture.double.requests().len();
    let head = newcomer.fixture.runtime.block_on(Head::start(Scenario::default())).unwrap();
    let rows = newcomer.rows(&format!("--address http://{} setup --json", head.dashboard), 0);
    for check in ["google-login", "ssh", "ssh-key", "ray"] {
        assert_eq!(status(&rows, check), "not-needed", "{rows}");
    }
    assert_eq!(status(&rows, "head"), "ok");
    assert_eq!(newcomer.fixture.double.requests().len(), before);
}

#[test]
fn a_settings_file_is_written_once_and_only_on_request() {
    let newcomer = Newcomer::new();
    let home = newcomer.home.path();
    let infra = newcomer.fixture.home.path().join("infra");
    let run = |words: &str| {
        let mut command = program(home);
        command.args(["--infra", infra.to_str().unwrap(), "setup", "--json"]).args(words.split_whitespace());
        // No login at all, which is detected at once.
        command.env("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json");
        seen(&mut command).exits(1).json()
    };
    assert_eq!(of(&run(""), "settings")["message"], "no such file, so the defaults apply");
    let file = home.join(".config/marin-tui/config.yaml");
    assert!(!file.exists());
    assert_eq!(status(&run("--write-settings --key-secret RAY_KEY"), "settings"), "fixed");
    let text = fs::read_to_string(&file).unwrap();
    let written: Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!((&written["infra"], &written["ssh_key_secret"]), (&json!([infra]), &json!("RAY_KEY")));
    assert_eq!(of(&run("--write-settings"), "settings")["message"], "already exists; it was not changed");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(newcomer.run("setup --check --write-settings").code, Some(2));
    // From now on the clusters are found without an option.
    let listed = Ran::of(&program(home).arg("clusters").output().unwrap()).good();
    assert!(listed.lines().any(|line| line.starts_with("marin-a ")), "{listed}");
}

#[test]
fn files_that_cannot_be_read_are_separate_checks() {
    let newcomer = Newcomer::new();
    newcomer.fixture.file("infra/b.yaml", "cluster_name: [\n");
    let mut shown = newcomer.transcript();
    let check = ["cluster-files", "settings"];
    let rows = newcomer.shows(&mut shown, ("setup --json --key-secret RAY_KEY", 1), &check);
    let files: Vec<&Value> =
        rows.as_array().unwrap().iter().filter(|row| row["check"] == "cluster-files").collect();
    assert_eq!((&files[0]["message"], &files[1]["status"]), (&json!("1 cluster"), &json!("needs-action")));
    assert_eq!(status(&rows, "head"), "ok", "a broken file does not hide the others");
    let none = newcomer.shows(&mut shown, ("--infra nowhere setup --json", 1), &check);
    assert_eq!([status(&none, "head"), status(&none, "google-login")], ["not-needed"; 2]);
    let line = of(&none, "cluster-files")["fixes"][0]["command"].as_str().unwrap();
    assert!(line.starts_with("marin-tui --infra DIR --config ") && line.ends_with(" setup"), "{line}");
    newcomer.fixture.file("config.yaml", "rayy: [ray]\n");
    newcomer.shows(&mut shown, ("setup --json", 1), &check);
    shown.is("files_that_cannot_be_read");

    // The files of a working directory are used once the user has trusted it.
    fs::create_dir(newcomer.home.path().join("infra")).unwrap();
    fs::copy(newcomer.fixture.home.path().join("infra/a.yaml"), newcomer.home.path().join("infra/a.yaml"))
        .unwrap();
    let rows = seen(program(newcomer.home.path()).args(["setup", "--json"])).exits(1).json();
    let files = of(&rows, "cluster-files");
    assert_eq!(
        (&files["status"], &files["fixes"][0]["command"]),
        (&json!("needs-action"), &json!("marin-tui trust"))
    );
    assert_eq!(status(&rows, "head"), "not-needed");
}

#[test]
fn a_refused_token_is_reported_with_a_hint() {
    let newcomer = Newcomer::new();
    newcomer.rows("setup --json --key-secret RAY_KEY", 0);
    // A wrong token that the user has put there.
    let own = newcomer.home.path().join(".cache/marin-tui/tokens/clusters/marin-a");
    fs::write(&own, "another").unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o644)).unwrap();
    let rows = newcomer.rows("setup --json", 1);
    assert_eq!(of(&rows, "token")["fixes"][0]["command"], format!("chmod 600 {}", own.display()).as_str());
    fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
    let rows = newcomer.rows("setup --json --check", 1);
    assert!(of(&rows, "head")["message"].as_str().unwrap().contains("refuses this token"), "{rows}");
    fs::remove_file(&own).unwrap();
    assert_eq!(status(&newcomer.rows("setup --json --check", 0), "head"), "ok");
}
