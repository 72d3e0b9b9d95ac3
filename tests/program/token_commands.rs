//! `marin-tui token`, `auth` and `auth-env` in a shell: output, exit code, files, and that no token is exposed.

use crate::program::{Ran, program};
use crate::pty::Pty;
use crate::transcript::Transcript;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use marin_tui::demo::google;
use marin_tui::demo::google::{Fault, Google as Double, PROJECT};
use marin_tui::demo::{Head, Scenario};
use marin_tui::model::Secret;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TOKEN: &str = "tok-61c7e0d93b-never-shown";

/// A home, a directory of two gcp clusters, and a Google.
struct Fixture {
    runtime: Runtime,
    home: TempDir,
    double: Double,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let double = runtime.block_on(Double::start()).unwrap();
        let fixture = Self { runtime, home: tempfile::tempdir().unwrap(), double };
        fixture.double.write_adc(fixture.home.path()).unwrap();
        let cluster = |name: &str, secret: &str| {
            format!(
                "cluster_name: {name}\nprovider: {{type: gcp, project_id: {PROJECT}, availability_zone: us-central2-b}}\n\
                 setup_commands:\n  - (umask 077 && gcloud secrets versions access latest --secret={secret} > $HOME/.ray/auth_token)\n"
            )
        };
        fs::create_dir(fixture.file("infra")).unwrap();
        fs::write(fixture.file("infra/a.yaml"), cluster("marin-a", "RAY_AUTH_TOKEN")).unwrap();
        fs::write(fixture.file("infra/b.yaml"), cluster("marin-b", "RAY_AUTH_TOKEN_STAGING")).unwrap();
        let infra = fixture.file("infra").display().to_string();
        let settings = format!("google_endpoint: {}\ninfra: [{infra}]\n", fixture.double.url());
        fs::write(fixture.file("config.yaml"), settings).unwrap();
        fixture
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn kept(&self, secret: &str) -> PathBuf {
        self.file(&format!(".cache/marin-tui/tokens/secrets/{PROJECT}.{secret}"))
    }

    fn command(&self, words: &str) -> Command {
        let mut command = program(self.home.path());
        command.args(words.split_whitespace()).arg("--config").arg(self.file("config.yaml"));
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.file("adc.json"));
        command
    }

    fn run(&self, words: &str) -> Ran {
        tokenless(&mut self.command(words))
    }

    fn transcript(&self) -> Transcript {
        Transcript::new(self.home.path())
    }

    /// Runs a command and adds its output to the transcript.
    fn shows(&self, transcript: &mut Transcript, words: &str) {
        transcript.add(words, &self.run(words));
    }
}

/// Runs a command; asserts that it printed no token.
fn tokenless(command: &mut Command) -> Ran {
    let ran = Ran::of(&command.output().unwrap());
    assert!(!ran.out.contains("61c7e0d93b") && !ran.err.contains("61c7e0d93b"), "{}{}", ran.out, ran.err);
    ran
}

#[test]
fn tokens_are_fetched_and_reported() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN", "another-older-one");
    fixture.double.put_secret("RAY_AUTH_TOKEN", TOKEN);
    let none: serde_json::Value = serde_json::from_str(&fixture.run("token status --json").good()).unwrap();
    assert_eq!(
        (none[0]["found"].as_bool(), none[0]["secret"].as_str()),
        (Some(false), Some("RAY_AUTH_TOKEN"))
    );
    assert_eq!(none[1]["secret"], "RAY_AUTH_TOKEN_STAGING");
    let mut transcript = fixture.transcript();
    fixture.shows(&mut transcript, "token fetch --cluster a");
    let kept = fixture.kept("RAY_AUTH_TOKEN");
    assert_eq!(fs::read_to_string(&kept).unwrap().trim(), TOKEN);
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(fixture.file(".ray/auth_token")).unwrap().trim(), TOKEN);
    let status = fixture.run("token status --json").json();
    assert_eq!((&status[0]["found"], &status[0]["version"]), (&true.into(), &"2".into()), "{status}");
    // Two clusters, one of which has no secret: the token that was fetched is kept, and the exit code reports the
    // failure.
    fixture.shows(&mut transcript, "token fetch");
    transcript.is("a_token_is_fetched");
}

#[test]
fn problems_with_token_files_are_reported_with_hints() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN", TOKEN);
    // The permissions of the user's own file are not changed.
    let own = fixture.file(".cache/marin-tui/tokens/clusters/marin-a");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, TOKEN).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o640)).unwrap();
    let mut transcript = fixture.transcript();
    fixture.shows(&mut transcript, "token status");
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o640);
    fs::remove_file(&own).unwrap();
    // Nobody can write there, root included: the token is used, but not cached.
    let mut command = fixture.command("token fetch --cluster a");
    let refused = tokenless(command.env("XDG_CACHE_HOME", "/proc"));
    transcript.with("token fetch --cluster a", &refused).is("files_of_tokens_that_are_not_as_they_should_be");
}

#[test]
fn the_path_can_be_used_by_rays_commands() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN_STAGING", TOKEN);
    let path = fixture.run("token path --cluster marin-b").good();
    assert_eq!(path.trim(), fixture.kept("RAY_AUTH_TOKEN_STAGING").to_str().unwrap());
    let mut transcript = fixture.transcript();
    fixture.shows(&mut transcript, "token path");
    let env = fixture.run("auth-env --cluster b").good();
    let script = format!(
        "{env}\nprintf '%s|%s|' \"$RAY_AUTH_MODE\" \"${{RAY_AUTH_TOKEN-unset}}\"; cat \"$RAY_AUTH_TOKEN_PATH\""
    );
    let shell = Command::new("sh").arg("-c").arg(script).env("RAY_AUTH_TOKEN", "stale").output().unwrap();
    assert_eq!(String::from_utf8(shell.stdout).unwrap().trim(), format!("token|unset|{TOKEN}"));
    fixture.shows(&mut transcript, "auth-env --cluster b --shell fish");
    fixture.shows(&mut transcript, "auth-env --cluster b --shell csh");
    let variable = tokenless(fixture.command("auth-env --cluster b").env("RAY_AUTH_TOKEN", TOKEN));
    transcript.with("RAY_AUTH_TOKEN=.. auth-env --cluster b", &variable).is("where_a_token_is");
}

#[test]
fn the_path_in_use_is_reported_for_the_older_layout_too() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN_STAGING", TOKEN);
    let tokens = fixture.file(".cache/marin-tui/tokens");
    fs::create_dir_all(&tokens).unwrap();
    let assert_path = |path: &str| {
        let (path, table) = (tokens.join(path), fixture.run("token status").good());
        let row = table.lines().find(|l| l.starts_with("marin-b")).unwrap();
        assert!(row.ends_with(&format!(" {}", path.display())), "{}: {table}", path.display());
        assert_eq!(fixture.run("token path --cluster b").good().trim(), path.to_str().unwrap());
    };
    let copy = format!("{PROJECT}.RAY_AUTH_TOKEN_STAGING");
    let write = |name: &str, text: &str| {
        fs::write(tokens.join(name), text).unwrap();
        fs::set_permissions(tokens.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(&copy, "an-older-one");
    write(&format!("{copy}.version"), "1 00000000\n");
    assert_path(&copy);
    fixture.run("token fetch --cluster b").good();
    assert!(!tokens.join(&copy).exists());
    assert_path(&format!("secrets/{copy}"));
    write("marin-b", "a-persons-own");
    assert_path("marin-b");
    fs::create_dir_all(tokens.join("clusters")).unwrap();
    write("clusters/marin-b", "a-persons-own");
    assert_path("clusters/marin-b");
}

#[test]
fn a_secret_is_created_once_and_never_overwritten_silently() {
    let fixture = Fixture::new();
    let mut transcript = fixture.transcript();
    fixture.shows(&mut transcript, "token init-secret --cluster b");
    let first = fs::read_to_string(fixture.kept("RAY_AUTH_TOKEN_STAGING")).unwrap();
    assert!(first.trim().len() == 64 && first.trim().bytes().all(|b| b.is_ascii_hexdigit()), "no token");
    fixture.shows(&mut transcript, "token init-secret --cluster b");
    assert_eq!(fixture.double.state().secrets["RAY_AUTH_TOKEN_STAGING"].len(), 1);
    fixture.shows(&mut transcript, "token init-secret --cluster b --rotate");
    let other = fs::read_to_string(fixture.file("infra/b.yaml")).unwrap().replace("marin-b", "marin-c");
    fs::write(fixture.file("infra/c.yaml"), other).unwrap();
    fixture.shows(&mut transcript, "token init-secret --cluster b --rotate");
    assert_eq!(fixture.double.state().secrets["RAY_AUTH_TOKEN_STAGING"].len(), 1, "nobody has confirmed");
    fixture.shows(&mut transcript, "token init-secret --cluster b --rotate --yes");
    assert_eq!(fixture.double.state().secrets["RAY_AUTH_TOKEN_STAGING"].len(), 2);
    assert_ne!(fs::read_to_string(fixture.kept("RAY_AUTH_TOKEN_STAGING")).unwrap(), first);
    // A creation that was interrupted: the secret exists without a version.
    fixture.double.state().secrets.insert("RAY_AUTH_TOKEN".into(), Vec::new());
    fixture.shows(&mut transcript, "token init-secret --cluster a");
    assert_eq!(fixture.double.state().secrets["RAY_AUTH_TOKEN"].len(), 1);
    fixture.shows(&mut transcript, "token init-secret --cluster a --secret ../x");
    transcript.is("a_secret_is_made_once");
}

/// The alias `latest` lags behind a new version, and an account that may add versions may lack permission to read them.
#[test]
fn a_new_version_is_kept_without_being_read_back() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN_STAGING", TOKEN);
    let denied = Fault::Refuse { code: 403, status: "PERMISSION_DENIED", reason: "", message: "no" };
    fixture.double.fail_at("GET", ":access", denied);
    let before = fixture.double.requests_with(":access");
    fixture.run("token init-secret --cluster b --rotate --yes").good();
    assert_eq!(fixture.double.requests_with(":access"), before);
    let kept = fs::read_to_string(fixture.kept("RAY_AUTH_TOKEN_STAGING")).unwrap();
    let stored = fixture.double.state().secrets["RAY_AUTH_TOKEN_STAGING"][1].payload.clone();
    assert_eq!(kept.trim().as_bytes(), stored);
    let audited = fixture.run("audit --json").json();
    let last = audited.as_array().unwrap().last().unwrap();
    assert_eq!(
        last["action"], "token init-secret --rotate RAY_AUTH_TOKEN_STAGING in project hai-test",
        "{last}"
    );
}

#[test]
fn a_payload_without_a_checksum_is_accepted() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN_STAGING", TOKEN);
    fixture.double.fail_at("GET", ":access", Fault::NoChecksum);
    fixture.run("token fetch --cluster b").good();
    assert_eq!(fs::read_to_string(fixture.kept("RAY_AUTH_TOKEN_STAGING")).unwrap().trim(), TOKEN);
}

#[test]
fn a_misspelt_secret_is_not_created_by_a_rotation() {
    let fixture = Fixture::new();
    let mut transcript = fixture.transcript();
    fixture.shows(&mut transcript, "token init-secret --cluster b --secret RAY_AUTH_TOKN --rotate --yes");
    transcript.is("a_misspelt_secret");
    assert!(fixture.double.state().secrets.is_empty());
}

#[test]
fn an_existing_token_is_stored_from_a_file() {
    let fixture = Fixture::new();
    fs::write(fixture.file("mine"), format!("{TOKEN}\n")).unwrap();
    let mine = fixture.file("mine").display().to_string();
    fixture.run(&format!("token init-secret --cluster b --from-file {mine}")).good();
    assert_eq!(fixture.double.state().secrets["RAY_AUTH_TOKEN_STAGING"][0].payload, TOKEN.as_bytes());
    fs::write(fixture.file("mine"), "\n").unwrap();
    let mut transcript = fixture.transcript();
    fixture
        .shows(&mut transcript, &format!("token init-secret --cluster b --rotate --yes --from-file {mine}"));
    // From standard input, which is empty here.
    fixture.shows(&mut transcript, "token init-secret --cluster b --rotate --yes --from-file -");
    transcript.is("empty_tokens");
    assert_eq!(fixture.double.state().secrets["RAY_AUTH_TOKEN_STAGING"].len(), 1);
}

#[test]
fn a_missing_token_is_reported_with_googles_reason() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN_STAGING", TOKEN);
    let message = "Permission 'secretmanager.versions.access' denied for resource 'projects/1/secrets/X'.";
    let (status, reason) = ("PERMISSION_DENIED", "IAM_PERMISSION_DENIED");
    fixture.double.fail(":access", Fault::Refuse { code: 403, status, reason, message });
    let mut transcript = fixture.transcript();
    for words in ["auth-env --cluster a", "token path --cluster a", "token status --json", "token status"] {
        fixture.shows(&mut transcript, words);
    }
    // A token that could be fetched is reported, but not fetched.
    fixture.double.recover();
    fixture.shows(&mut transcript, "token status --json");
    transcript.is("missing_tokens");
    assert!(!fixture.kept("RAY_AUTH_TOKEN_STAGING").exists());
}

#[test]
fn auth_without_a_login_ends_with_the_hint() {
    let fixture = Fixture::new();
    let mut command = fixture.command("auth --no-open --no-copy --cluster a");
    command.env_remove("GOOGLE_APPLICATION_CREDENTIALS").env_remove("GCE_METADATA_HOST");
    // There is no second attempt.
    fixture.transcript().with("auth --cluster a", &tokenless(&mut command)).is("auth_without_a_login");
}

#[test]
fn without_a_login_or_certificates_the_hint_comes_at_once() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN", TOKEN);
    let mut transcript = fixture.transcript();
    let mut run = |name: &str, value: Option<&str>| {
        let words = "token fetch --cluster a";
        let mut command = fixture.command(words);
        match value {
            Some(value) => command.env(name, value),
            // Neither a login nor a metadata server is configured: Google's crate tries the metadata server by its
            // name.
            None => command.env_remove(name).env_remove("GCE_METADATA_HOST"),
        };
        transcript.add(&format!("{name}={} {words}", value.unwrap_or_default()), &tokenless(&mut command));
    };
    run("GOOGLE_APPLICATION_CREDENTIALS", None);
    run("GOOGLE_APPLICATION_CREDENTIALS", Some("/nowhere.json"));
    fs::write(fixture.file("broken.json"), "{").unwrap();
    run("GOOGLE_APPLICATION_CREDENTIALS", fixture.file("broken.json").to_str());
    run("SSL_CERT_FILE", Some("/nowhere.pem"));
    transcript.is("tokens_without_a_login_or_certificates");
    assert_eq!(fixture.double.requests_with(":access"), 0);
}

#[test]
fn the_tags_of_a_clusters_image_are_listed_and_a_missing_one_fails() {
    let fixture = Fixture::new();
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/infra")).unwrap().flatten() {
        if file.path().is_file() {
            let text = fs::read_to_string(file.path()).unwrap().replace("hai-gcp-models", PROJECT);
            fs::write(fixture.file("infra").join(file.file_name()), text).unwrap();
        }
    }
    let image = |tags: &[&str]| {
        google::registry::image("us-central2/marin", "marin_cluster", "0a1b", tags, "2026-11-20T08:00:00Z")
    };
    fixture.double.state().images = vec![image(&["20261120", "latest"]), image(&[])];
    let mut transcript = fixture.transcript().varying(r"\d+d \d+h ago", "AGE ago");
    fixture.shows(&mut transcript, "configs images us-central2");
    let rows: serde_json::Value =
        serde_json::from_str(&fixture.run("configs images us-central2 --json").good()).unwrap();
    assert_eq!((&rows[0]["used"], &rows[0]["tags"][0]), (&true.into(), &"20261120".into()));
    fixture.double.state().images = vec![image(&["20261120"])];
    fixture.shows(&mut transcript, "configs images us-central2");
    fixture.double.fail(
        "dockerImages",
        Fault::Refuse { code: 403, status: "PERMISSION_DENIED", reason: "SERVICE_DISABLED", message: "off" },
    );
    fixture.shows(&mut transcript, "configs images us-central2");
    transcript.is("the_tags_of_an_image");
}

#[test]
fn shared_variables_reach_clusters_and_jobs_but_no_child() {
    let fixture = Fixture::new();
    let scenario = Scenario { token: Some(Secret::new(TOKEN)), nodes: 2, ..Scenario::default() };
    let head = fixture.runtime.block_on(Head::start(scenario)).unwrap();
    let shared = format!(
        "env:\n  RAY_ADDRESS: http://{}\n  RAY_AUTH_TOKEN: {TOKEN}\n  WANDB_API_KEY: key-of-all\n",
        head.dashboard
    );
    fs::write(fixture.file(".marin.yaml"), shared).unwrap();
    fixture.run("trust --yes").good();
    let submitted = fixture.run("submit-job --no-wait --submission-id s1 --env WANDB_API_KEY -- true").good();
    assert_eq!(submitted.trim(), "s1");
    let dry = fixture.run("submit-job --dry-run --env WANDB_API_KEY -- true").good();
    assert!(dry.contains("WANDB_API_KEY") && !dry.contains("key-of-all"), "{dry}");
    let mut transcript = fixture.transcript();
    fixture.shows(&mut transcript, "submit-job --dry-run --env UNKNOWN -- true");
    // Variables that are set take precedence: this dashboard does not exist.
    let mut command = fixture.command("list-jobs");
    let err = tokenless(command.env("RAY_ADDRESS", "http://127.0.0.1:9")).bad();
    assert!(err.contains("127.0.0.1:9"), "{err}");
    // A child process: the ray command that looks up a head's address.
    let ray = "#!/bin/sh\nenv >\"$HOME/env-of-ray\"\necho 127.0.0.1\n";
    fs::write(fixture.file("ray"), ray).unwrap();
    fs::set_permissions(fixture.file("ray"), fs::Permissions::from_mode(0o700)).unwrap();
    let settings = format!(
        "google_endpoint: {}\nray: [{}]\nssh: /bin/false\n",
        fixture.double.url(),
        fixture.file("ray").display()
    );
    fs::write(fixture.file("config.yaml"), settings).unwrap();
    fixture.double.fail("aggregated", Fault::Html(502));
    let infra = fixture.file("infra").display().to_string();
    fixture.run(&format!("--infra {infra} --cluster a list-jobs")).bad();
    let env = fs::read_to_string(fixture.file("env-of-ray")).unwrap();
    assert!(env.contains("HOME=") && !env.contains("61c7e0d93b") && !env.contains("key-of-all"), "{env}");
    // The error in a broken file has its position, and nothing of its content.
    fs::write(fixture.file(".marin.yaml"), format!("env: {TOKEN}\n")).unwrap();
    fixture.shows(&mut transcript, "list-jobs");
    transcript.is("shared_variables_that_are_not_there");
}

#[test]
fn a_missing_home_is_not_an_error() {
    let fixture = Fixture::new();
    fixture.double.put_secret("RAY_AUTH_TOKEN", TOKEN);
    let mut command = fixture.command("token path --cluster a");
    let path = tokenless(command.env_remove("HOME")).good();
    assert!(
        path.trim().ends_with(".marin-tui/.cache/marin-tui/tokens/secrets/hai-test.RAY_AUTH_TOKEN"),
        "{path}"
    );
    assert!(!fixture.file(".ray").exists());
    fixture.double.fail("/token", Fault::Grant { error: "invalid_grant", subtype: None });
    let mut command = fixture.command("token fetch --cluster a");
    let refused = tokenless(command.env_remove("HOME"));
    fixture.transcript().with("token fetch --cluster a", &refused).is("a_login_that_was_revoked");
}

/// A head that requires the token, and the arguments and variables for it.
fn guarded(fixture: &Fixture) -> (Head, String, [(&'static str, String); 2]) {
    let scenario = Scenario { token: Some(Secret::new(TOKEN)), nodes: 2, ..Scenario::default() };
    let head = fixture.runtime.block_on(Head::start(scenario)).unwrap();
    fs::write(fixture.file("token"), TOKEN).unwrap();
    fs::set_permissions(fixture.file("token"), fs::Permissions::from_mode(0o600)).unwrap();
    let words = format!("auth --no-open --address http://{}", head.dashboard);
    let token = fixture.file("token").display().to_string();
    // As in an SSH session: the terminal's clipboard is used.
    (head, words, [("RAY_AUTH_TOKEN_PATH", token), ("SSH_TTY", "/dev/pts/0".into())])
}

#[test]
fn auth_copies_the_token_and_keeps_the_tunnel_open_until_interrupted() {
    let fixture = Fixture::new();
    let (_head, words, env) = guarded(&fixture);
    let home = fixture.home.path().display().to_string();
    let env = env.iter().map(|(k, v)| (*k, v.as_str()));
    let env: Vec<_> =
        env.chain([("HOME", home.as_str()), ("TMUX", ""), ("STY", ""), ("RAY_AUTH_TOKEN", "")]).collect();
    // Stdout is redirected to a file, but the terminal is available.
    let (out, config) = (fixture.file("auth.out"), fixture.file("config.yaml"));
    let line = format!(
        "exec {} --config {} {words} > {}",
        env!("CARGO_BIN_EXE_marin-tui"),
        config.display(),
        out.display()
    );
    let mut pty = Pty::start(&["sh", "-c", &line], &env, 200, 40);
    pty.wait_text("tunnel open; press ctrl-c");
    // What other users of the machine can see of the process.
    for file in ["cmdline", "environ"] {
        let seen = fs::read(format!("/proc/{}/{file}", pty.pid())).unwrap();
        assert!(!String::from_utf8_lossy(&seen).contains("61c7e0d93b"), "{file}");
    }
    pty.send("\x03");
    assert!(pty.wait_exit().success());
    assert_eq!(
        pty.clipboard(),
        [BASE64_STANDARD.encode(TOKEN).into_bytes()],
        "the terminal's clipboard only"
    );
    assert_eq!(fs::read_to_string(out).unwrap(), "");
    assert!(!String::from_utf8_lossy(&pty.raw()).contains("61c7e0d93b"));
}

#[test]
fn auth_does_not_write_the_token_to_a_file() {
    let fixture = Fixture::new();
    let (_head, words, env) = guarded(&fixture);
    let inner = fixture.command(&words);
    // A new session has no terminal.
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(k, v)| Some((k, v?)))).envs(env);
    let refused = tokenless(command.stdin(Stdio::null()));
    fixture.transcript().with(&words, &refused).is("auth_without_a_terminal");
}

#[test]
fn the_list_of_clusters_shows_how_heads_are_found_and_can_be_limited_to_one() {
    let fixture = Fixture::new();
    let mut transcript = fixture.transcript();
    for words in ["clusters", "clusters --cluster a", "clusters --cluster zzz"] {
        fixture.shows(&mut transcript, words);
    }
    transcript.is("clusters_and_where_their_heads_are_found");
}
