//! Token management: tokens are fetched, stored and renewed after a rotation; and the failures of each step.

mod renewal;

use crate::google::google;
use crate::spec::spec;
use marin_tui::config::{Env, Folders, Settings};
use marin_tui::demo::google::{Fault, Google as Double, PROJECT, Stored};
use marin_tui::gcp::Google;
use marin_tui::model::{ClusterName, ClusterSpec, GoogleNames, Problem, ProblemKind, Secret, SecretName};
use marin_tui::supervisor::{Options, TokenManager};
use marin_tui::token::TokenSources;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Semaphore;

const OLD: &str = "tok-old-5ac81d";
const NEW: &str = "tok-new-92be07";

/// A home directory, simulated Google services, and a cluster with the named secret.
struct Fixture {
    home: TempDir,
    double: Double,
    spec: ClusterSpec,
    token_sources: TokenSources,
}

impl Fixture {
    async fn new(secret: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let secret = SecretName { project: Some(PROJECT.into()), name: secret.into() };
        let token_sources = TokenSources {
            cache: home.path().join("cache/tokens"),
            home: Some(home.path().into()),
            ..TokenSources::default()
        };
        let google = GoogleNames {
            project: Some(PROJECT.into()),
            token_secret: Some(secret),
            ..GoogleNames::default()
        };
        let spec = ClusterSpec { google, ..spec("c1") };
        Self { home, double: Double::start().await.unwrap(), spec, token_sources }
    }

    fn google(&self) -> Google {
        self.double.write_adc(self.home.path()).unwrap();
        google(&self.double, self.home.path())
    }

    fn options(&self) -> Options {
        let env = Env::new(&[("HOME", self.home.path().to_str().unwrap())], self.home.path());
        let mut options = Options::new(&Settings::default(), &Folders::new(&env), self.token_sources.clone());
        options.google = self.google();
        options
    }

    /// A new token manager, as in a console that was just started.
    fn manager(&self) -> Arc<TokenManager> {
        Arc::new(TokenManager::new(self.token_sources.clone(), self.google()))
    }

    fn secret(&self) -> &SecretName {
        self.spec.google.token_secret.as_ref().unwrap()
    }

    fn kept(&self) -> PathBuf {
        self.token_sources.file_of(self.secret())
    }

    fn default_file(&self) -> PathBuf {
        self.home.path().join(".ray/auth_token")
    }
}

/// Writes a file that only its owner can read.
fn put(file: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

fn exposes(problem: &Problem) -> bool {
    let text = format!("{problem:?}");
    text.contains(OLD) || text.contains(NEW)
}

#[tokio::test]
async fn the_first_token_is_fetched_and_stored_readable_by_its_owner_only() {
    let fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN", &format!("{OLD}\n"));
    assert_eq!(fixture.manager().token(&fixture.spec).await.unwrap().expose(), OLD);
    for file in [fixture.kept(), fixture.default_file()] {
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{OLD}\n"));
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700), "{}", file.display());
    }
    // Google is not queried again.
    fixture.double.fail("/", Fault::HangUp);
    assert_eq!(fixture.manager().token(&fixture.spec).await.unwrap().expose(), OLD);
    assert_eq!(fixture.double.requests_with(":access"), 1);
}

#[tokio::test]
async fn another_secret_does_not_change_rays_own_file() {
    let fixture = Fixture::new("RAY_AUTH_TOKEN_STAGING").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN_STAGING", NEW);
    put(&fixture.default_file(), OLD);
    assert_eq!(fixture.manager().token(&fixture.spec).await.unwrap().expose(), NEW);
    assert_eq!(fs::read_to_string(fixture.default_file()).unwrap(), OLD);
}

#[tokio::test]
async fn a_cluster_whose_secret_cannot_be_fetched_gets_no_other_token() {
    let fixture = Fixture::new("RAY_AUTH_TOKEN_STAGING").await;
    put(&fixture.default_file(), OLD);
    fixture.double.fail("/token", Fault::Grant { error: "invalid_grant", subtype: None });
    let problem = fixture.manager().token(&fixture.spec).await.unwrap_err();
    assert_eq!(problem.kind, ProblemKind::TokenMissing);
    // The hint: log in to Google, or write the token to this cluster's own file, or set the variable.
    for words in ["no token for ", "secret RAY_AUTH_TOKEN_STAGING"] {
        assert!(problem.what.contains(words), "{words}: {problem:?}");
    }
    for words in ["gcloud auth", fixture.spec.name.as_str(), "RAY_AUTH_TOKEN"] {
        assert!(problem.hint.to_string().contains(words), "{words}: {problem:?}");
    }
    assert!(!exposes(&problem));
}

#[tokio::test]
async fn a_refused_token_is_replaced_by_the_latest_version_with_one_request() {
    let fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN", OLD);
    let manager = fixture.manager();
    let old = manager.token(&fixture.spec).await.unwrap();
    fixture.double.put_secret("RAY_AUTH_TOKEN", NEW);
    // As after a restart of the console: the old token is stored.
    let manager = fixture.manager();
    assert_eq!(manager.renew(&fixture.spec, &old).await.unwrap().expose(), NEW);
    assert_eq!(fs::read_to_string(fixture.default_file()).unwrap().trim(), NEW);
    let requests = fixture.double.requests_with(":access");
    for _ in 0..3 {
        let problem = manager.renew(&fixture.spec, &Secret::new(NEW)).await.unwrap_err();
        assert_eq!(problem.kind, ProblemKind::TokenRefused);
        assert!(
            problem.what.contains("version 2 of secret RAY_AUTH_TOKEN in project hai-test, the latest"),
            "{problem:?}"
        );
        assert!(!exposes(&problem));
    }
    assert_eq!(fixture.double.requests_with(":access"), requests, "a recent response is reused");
    // Another process has renewed the file in the meantime.
    put(&fixture.kept(), "tok-third");
    assert_eq!(manager.renew(&fixture.spec, &Secret::new(NEW)).await.unwrap().expose(), "tok-third");
}

#[tokio::test]
async fn a_slow_secret_delays_no_other_and_is_requested_once() {
    let mut fixture = Fixture::new("RAY_AUTH_TOKEN_SLOW").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN_SLOW", OLD);
    fixture.double.put_secret("RAY_AUTH_TOKEN_QUICK", NEW);
    let permits = Arc::new(Semaphore::new(0));
    fixture.double.fail("RAY_AUTH_TOKEN_SLOW", Fault::Held(permits.clone()));
    let (manager, slow) = (fixture.manager(), fixture.spec.clone());
    fixture.spec.google.token_secret.as_mut().unwrap().name = "RAY_AUTH_TOKEN_QUICK".into();
    let came = std::sync::Mutex::new(Vec::new());
    let fetch = async |spec| {
        let token = manager.token(spec).await.unwrap();
        came.lock().unwrap().push(token.expose().to_owned());
    };
    tokio::join!(fetch(&slow), fetch(&slow), async {
        while fixture.double.requests_with("RAY_AUTH_TOKEN_SLOW") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fetch(&fixture.spec).await;
        permits.add_permits(2);
    });
    assert_eq!(came.into_inner().unwrap(), [NEW, OLD, OLD]);
    assert_eq!(fixture.double.requests_with("RAY_AUTH_TOKEN_SLOW"), 1);
}

#[tokio::test]
async fn a_token_set_by_a_person_is_not_replaced() {
    let mut fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN", NEW);
    let own = fixture.token_sources.cache.join("clusters/c1");
    put(&own, OLD);
    let problem = fixture.manager().renew(&fixture.spec, &Secret::new(OLD)).await.unwrap_err();
    assert!(
        problem.what.contains("tokens/clusters/c1") && problem.hint.to_string().contains("remove it"),
        "{problem:?}"
    );
    fixture.token_sources.variable = Some(Secret::new(OLD));
    let problem = fixture.manager().renew(&fixture.spec, &Secret::new(OLD)).await.unwrap_err();
    assert!(problem.what.contains("from RAY_AUTH_TOKEN"), "{problem:?}");
    assert!(!exposes(&problem) && fixture.double.requests().is_empty());
}

/// Failures at Google: path, fault, and part of the hint.
fn at_google() -> Vec<(&'static str, Fault, &'static str)> {
    let refuse = |code, status, reason| Fault::Refuse { code, status, reason, message: "as Google says" };
    vec![
        (
            "/token",
            Fault::Grant { error: "invalid_grant", subtype: None },
            "gcloud auth application-default login",
        ),
        (
            "/token",
            Fault::Grant { error: "invalid_grant", subtype: Some("invalid_rapt") },
            "gcloud auth application-default login",
        ),
        (
            ":access",
            refuse(403, "PERMISSION_DENIED", "IAM_PERMISSION_DENIED"),
            "roles/secretmanager.secretAccessor",
        ),
        (
            ":access",
            refuse(403, "PERMISSION_DENIED", "SERVICE_DISABLED"),
            "gcloud services enable secretmanager.googleapis.com",
        ),
        ("/token", Fault::Skew, "timedatectl set-ntp true"),
        (":access", refuse(404, "NOT_FOUND", ""), "check the name and the project"),
        (":access", refuse(429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED"), "wait a minute"),
        (":access", refuse(503, "UNAVAILABLE", ""), "wait"),
        (":access", Fault::Html(502), "load balancer"),
        (":access", Fault::SignIn, "sign in to this network"),
        (":access", Fault::BadChecksum, "try again"),
        (":access", Fault::HangUp, "check the network"),
    ]
}

#[tokio::test]
async fn failures_at_google_are_reported_and_the_stored_token_is_used() {
    for (path, fault, hint) in at_google() {
        let fixture = Fixture::new("RAY_AUTH_TOKEN").await;
        fixture.double.put_secret("RAY_AUTH_TOKEN", NEW);
        fixture.double.fail(path, fault.clone());
        let problem = fixture.manager().token(&fixture.spec).await.unwrap_err();
        assert_eq!(problem.kind, ProblemKind::TokenMissing);
        assert!(problem.hint.to_string().contains(hint), "{fault:?}: {problem:?}");
        // With a stored token Google is not needed, and its failure has no effect.
        fixture.token_sources.keep(fixture.secret(), "1", &Secret::new(OLD));
        let manager = fixture.manager();
        assert_eq!(manager.token(&fixture.spec).await.unwrap().expose(), OLD, "{fault:?}");
        let problem = manager.renew(&fixture.spec, &Secret::new(OLD)).await.unwrap_err();
        assert_eq!(problem.kind, ProblemKind::TokenRefused);
        assert!(problem.what.contains("refuses this token (version 1)"), "{problem:?}");
        assert!(problem.hint.to_string().contains(hint) && !exposes(&problem), "{fault:?}: {problem:?}");
    }
}

#[tokio::test]
async fn an_invalid_payload_is_not_stored() {
    let cases: [(&[u8], &str); 5] = [
        (b"\n", "is empty"),
        (b"  \r\n", "is empty"),
        (b"to\x1bken", "characters that are not allowed"),
        (b"\xef\xbb\xbftoken", "byte order mark"),
        (b"\xff\xfetoken", "characters that are not allowed"),
    ];
    for (payload, why) in cases {
        let fixture = Fixture::new("RAY_AUTH_TOKEN").await;
        fixture.double.state().secrets.insert("RAY_AUTH_TOKEN".into(), vec![Stored::enabled(payload)]);
        let problem = fixture.manager().token(&fixture.spec).await.unwrap_err();
        assert!(problem.what.contains("version 1"), "{problem:?}");
        assert!(
            problem.what.contains(why) && problem.hint.to_string().contains("gcloud secrets versions add"),
            "{problem:?}"
        );
        assert!(!fixture.kept().exists() && !fixture.default_file().exists());
    }
    let fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    let disabled = Stored { state: "DISABLED", ..Stored::enabled(b"x") };
    fixture.double.state().secrets.insert("RAY_AUTH_TOKEN".into(), vec![disabled]);
    let problem = fixture.manager().token(&fixture.spec).await.unwrap_err();
    assert!(
        problem.what.contains("DISABLED") && problem.hint.to_string().contains("versions enable"),
        "{problem:?}"
    );
}

#[tokio::test]
async fn a_wrong_project_is_named_with_a_hint() {
    let mut fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN", NEW);
    let name = SecretName { project: Some("other-project".into()), name: "RAY_AUTH_TOKEN".into() };
    fixture.spec.google.token_secret = Some(name);
    let problem = fixture.manager().token(&fixture.spec).await.unwrap_err();
    assert!(problem.what.contains("secret RAY_AUTH_TOKEN in project other-project"), "{problem:?}");
    assert!(problem.hint.to_string().contains("the right project"), "{problem:?}");
}

#[tokio::test]
async fn an_unusable_named_file_is_reported_and_no_other_is_used() {
    let mut fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN", NEW);
    let file = fixture.home.path().join("named");
    fixture.token_sources.path_variable = Some(file.clone());
    let problem = fixture.manager().token(&fixture.spec).await.unwrap_err();
    assert!(
        problem.what.contains("No such file") && problem.hint.to_string().contains("RAY_AUTH_TOKEN_PATH"),
        "{problem:?}"
    );
    fs::create_dir(&file).unwrap();
    let problem = fixture.manager().token(&fixture.spec).await.unwrap_err();
    assert!(
        problem.what.contains("it is a directory")
            && problem.hint.to_string().contains("remove the directory"),
        "{problem:?}"
    );
    fs::remove_dir(&file).unwrap();
    put(&file, "");
    let problem = fixture.manager().token(&fixture.spec).await.unwrap_err();
    assert!(
        problem.what.contains("is empty") && problem.hint.to_string().contains("save the token again"),
        "{problem:?}"
    );
    assert!(fixture.double.requests().is_empty());
}

#[tokio::test]
async fn a_missing_project_is_reported() {
    let mut fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    fixture.spec.google.token_secret = Some(SecretName { project: None, name: "RAY_AUTH_TOKEN".into() });
    let problem = fixture.manager().token(&fixture.spec).await.unwrap_err();
    assert!(problem.hint.to_string().contains("provider.project_id"), "{problem:?}");
    assert!(fixture.double.requests().is_empty());
}

#[tokio::test]
async fn broken_files_do_not_prevent_fetching_a_token() {
    type Break = fn(&mut Fixture);
    let cases: [(&str, Break, bool); 6] = [
        ("a folder in the file's place", |w| fs::create_dir_all(w.kept()).unwrap(), true),
        ("a folder in the place of Ray's file", |w| fs::create_dir_all(w.default_file()).unwrap(), true),
        ("an empty file", |w| put(&w.kept(), ""), false),
        ("no text", |w| put(&w.kept(), b"\xff\xfe"), false),
        // procfs: not even root can write there.
        ("a disk that cannot be written", |w| w.token_sources.cache = "/proc/marin-tui/tokens".into(), true),
        ("no home", |w| w.token_sources.home = None, false),
    ];
    for (what, spoil, is_reported) in cases {
        let mut fixture = Fixture::new("RAY_AUTH_TOKEN").await;
        fixture.double.put_secret("RAY_AUTH_TOKEN", NEW);
        spoil(&mut fixture);
        let manager = fixture.manager();
        assert_eq!(manager.token(&fixture.spec).await.unwrap().expose(), NEW, "{what}");
        let fetched = manager.fetch(fixture.secret()).await.unwrap();
        assert_eq!(!fetched.failures.is_empty(), is_reported, "{what}: {:?}", fetched.failures);
        let failures = fetched.failures.join("\n");
        assert!(
            !is_reported || (failures.contains("cannot write") && failures.contains("; make ")),
            "{failures}"
        );
        assert!(!failures.contains(NEW) && !format!("{fetched:?}").contains(NEW));
    }
}

#[tokio::test]
async fn a_stored_file_that_others_can_read_is_made_private() {
    let fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    for mode_before in [0o640, 0o644, 0o660] {
        put(&fixture.kept(), OLD);
        fs::set_permissions(fixture.kept(), Permissions::from_mode(mode_before)).unwrap();
        assert_eq!(fixture.manager().token(&fixture.spec).await.unwrap().expose(), OLD);
        assert_eq!(mode(&fixture.kept()), 0o600, "{mode_before:o}");
    }
}

#[tokio::test]
async fn files_are_never_readable_by_others_or_partly_written() {
    let fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    fixture.token_sources.keep(fixture.secret(), "1", &Secret::new(OLD));
    let (stop, folders) = (Arc::new(AtomicBool::new(false)), [fixture.kept(), fixture.default_file()]);
    let (stopped, watched) = (stop.clone(), folders.clone());
    let watcher = std::thread::spawn(move || {
        let mut checks = 0_u64;
        while !stopped.load(Ordering::Relaxed) || checks == 0 {
            for file in &watched {
                for entry in fs::read_dir(file.parent().unwrap()).unwrap().flatten() {
                    // It may already be removed.
                    if let Ok(meta) = entry.metadata() {
                        assert_eq!(meta.permissions().mode() & 0o077, 0, "{:?}", entry.path());
                    }
                }
                let text = fs::read_to_string(file).unwrap();
                assert!(text == format!("{OLD}\n") || text == format!("{NEW}\n"), "half a file");
                checks += 1;
            }
        }
    });
    for i in 0..100 {
        let token = Secret::new(if i % 2 == 0 { NEW } else { OLD });
        assert!(fixture.token_sources.keep(fixture.secret(), "2", &token).is_empty());
    }
    stop.store(true, Ordering::Relaxed);
    watcher.join().unwrap();
    let left = fs::read_dir(fixture.kept().parent().unwrap()).unwrap().count();
    assert_eq!(left, 3, "the token, its version and the previous token, nothing else");
}

#[tokio::test]
async fn a_cluster_named_like_a_secret_gets_its_own_token() {
    let mut fixture = Fixture::new("RAY_AUTH_TOKEN_STAGING").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN_STAGING", OLD);
    assert_eq!(fixture.manager().token(&fixture.spec).await.unwrap().expose(), OLD);
    let with_secret = fixture.spec.clone();
    let name = format!("{PROJECT}.RAY_AUTH_TOKEN_STAGING");
    (fixture.spec.name, fixture.spec.google.token_secret) = (ClusterName::new(name.as_str()), None);
    let problem = fixture.manager().token(&fixture.spec).await.unwrap_err();
    assert_eq!(problem.kind, ProblemKind::TokenMissing);
    let own = fixture.token_sources.cache.join("clusters").join(&name);
    assert!(problem.hint.to_string().contains(own.to_str().unwrap()), "{problem:?}");
    put(&own, NEW);
    assert_eq!(fixture.manager().token(&fixture.spec).await.unwrap().expose(), NEW);
    assert_eq!(fixture.manager().token(&with_secret).await.unwrap().expose(), OLD);
}

#[tokio::test]
async fn files_of_the_older_layout_are_found_after_those_of_the_new_one() {
    let mut fixture = Fixture::new("RAY_AUTH_TOKEN_STAGING").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN_STAGING", NEW);
    let (cache, name) = (fixture.token_sources.cache.clone(), format!("{PROJECT}.RAY_AUTH_TOKEN_STAGING"));
    let (old, version) = (cache.join(&name), cache.join(format!("{name}.version")));
    // A copy of the secret, according to its version file, and not the token of a cluster.
    put(&old, OLD);
    put(&version, "7 00000000\n");
    assert_eq!(fixture.manager().token(&fixture.spec).await.unwrap().expose(), OLD);
    let mut like_a_secret = fixture.spec.clone();
    like_a_secret.google.token_secret = None;
    // The directories of the new layout are not tokens either.
    fs::create_dir_all(cache.join("clusters")).unwrap();
    for name in [name.as_str(), &format!("{name}.version"), "clusters"] {
        like_a_secret.name = ClusterName::new(name);
        let problem = fixture.manager().token(&like_a_secret).await.unwrap_err();
        assert_eq!(problem.kind, ProblemKind::TokenMissing);
        assert!(problem.what.contains("is not set, and there is no"), "{problem:?}");
    }
    // Without a version file it was written by a person for a cluster of this name, and the secret has no copy.
    fs::remove_file(&version).unwrap();
    like_a_secret.name = ClusterName::new(name.as_str());
    assert_eq!(fixture.manager().token(&like_a_secret).await.unwrap().expose(), OLD);
    assert_eq!(fixture.manager().token(&fixture.spec).await.unwrap().expose(), NEW);
    assert_eq!(fs::read_to_string(&old).unwrap(), OLD, "a file written by a person is kept");
    // A cluster's own file: the new location takes precedence, also over the old one of the same cluster.
    put(&cache.join("c1"), OLD);
    fixture.spec.google.token_secret = None;
    assert_eq!(fixture.manager().token(&fixture.spec).await.unwrap().expose(), OLD);
    put(&cache.join("clusters/c1"), NEW);
    assert_eq!(fixture.manager().token(&fixture.spec).await.unwrap().expose(), NEW);
}

#[tokio::test]
async fn a_copy_of_the_older_layout_moves_when_the_secret_is_stored_again() {
    let fixture = Fixture::new("RAY_AUTH_TOKEN_STAGING").await;
    let name = format!("{PROJECT}.RAY_AUTH_TOKEN_STAGING");
    let old = fixture.token_sources.cache.join(&name);
    let old_version = fixture.token_sources.cache.join(format!("{name}.version"));
    // Stored by an earlier version: the same files, in another directory.
    fixture.token_sources.keep(fixture.secret(), "1", &Secret::new(OLD));
    let new = fixture.token_sources.cache.join("secrets").join(&name);
    let new_version = fixture.token_sources.cache.join("secrets").join(format!("{name}.version"));
    fs::rename(&new, &old).unwrap();
    fs::rename(&new_version, &old_version).unwrap();
    let manager = fixture.manager();
    assert_eq!(manager.token(&fixture.spec).await.unwrap().expose(), OLD);
    assert_eq!(fixture.token_sources.version_of(fixture.secret(), &Secret::new(OLD)).as_deref(), Some("1"));
    fixture.double.put_secret("RAY_AUTH_TOKEN_STAGING", OLD);
    fixture.double.put_secret("RAY_AUTH_TOKEN_STAGING", NEW);
    assert_eq!(manager.renew(&fixture.spec, &Secret::new(OLD)).await.unwrap().expose(), NEW);
    assert!(!old.exists() && !old_version.exists(), "the old copy is gone");
    assert_eq!(fs::read_to_string(&new).unwrap().trim(), NEW);
    assert_eq!(fixture.token_sources.version_of(fixture.secret(), &Secret::new(NEW)).as_deref(), Some("2"));
    for file in [&new, &new_version] {
        assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700), "{}", file.display());
    }
}

#[tokio::test]
async fn a_symbolic_link_to_rays_token_file_is_kept() {
    let fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    let target = fixture.home.path().join("dotfiles/token");
    put(&target, OLD);
    fs::create_dir_all(fixture.default_file().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&target, fixture.default_file()).unwrap();
    assert!(fixture.token_sources.keep(fixture.secret(), "2", &Secret::new(NEW)).is_empty());
    assert!(fs::symlink_metadata(fixture.default_file()).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap().trim(), NEW);
}
