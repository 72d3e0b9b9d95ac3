//! The Google Cloud client against the simulated services: its requests, its parsing of responses, and the hint of each
//! failure.

mod compute;
mod retries;
mod tpus;

use marin_tui::demo::google::{Fault, Google as Double, PROJECT, Stored, registry};
use marin_tui::gcp::{Endpoints, GcpError, Google, Login, credentials};
use marin_tui::model::{ImageName, Secret};
use serde_json::json;
use std::time::Duration;

const NAME: &str = "RAY_AUTH_TOKEN";

/// Whether an error is the expected one.
type Kind = fn(&GcpError) -> bool;

const VALUE: &str = "tok-0f1e2d3c4b5a";

/// A user account whose access tokens are issued by the simulated services.
fn person(double: &Double) -> Login {
    let dir = tempfile::tempdir().unwrap();
    let file = double.write_adc(dir.path()).unwrap();
    let grant: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    Login::by(move || credentials::user_account::Builder::new(grant.clone()).build())
}

fn client(double: &Double) -> Google {
    Google::new(Endpoints::all_at(&double.url()), person(double))
}

#[tokio::test]
async fn the_latest_version_is_read() {
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, "old");
    double.put_secret(NAME, VALUE);
    let found = client(&double).latest_version(PROJECT, NAME).await.unwrap();
    assert_eq!((found.version.as_str(), found.value.expose()), ("2", VALUE));
    assert!(!format!("{found:?}").contains(VALUE));
}

#[tokio::test]
async fn every_failure_is_distinguished_and_has_a_hint() {
    let refuse = |code, status, reason, message| Fault::Refuse { code, status, reason, message };
    let grant = |error, subtype| Fault::Grant { error, subtype };
    let cases: Vec<(&str, Fault, Kind, &str)> = vec![
        (
            ":access",
            refuse(
                403,
                "PERMISSION_DENIED",
                "IAM_PERMISSION_DENIED",
                "Permission 'secretmanager.versions.access' denied",
            ),
            |e| matches!(e, GcpError::Forbidden { .. }),
            "roles/secretmanager.secretAccessor",
        ),
        (
            ":access",
            refuse(403, "PERMISSION_DENIED", "SERVICE_DISABLED", "Secret Manager API has not been used"),
            |e| matches!(e, GcpError::ApiOff { .. }),
            "gcloud services enable secretmanager.googleapis.com --project=hai-test",
        ),
        (
            ":access",
            refuse(404, "NOT_FOUND", "", "Secret not found"),
            |e| matches!(e, GcpError::NotFound { .. }),
            "check the name and the project",
        ),
        (
            ":access",
            refuse(429, "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED", "Quota exceeded"),
            |e| matches!(e, GcpError::Quota { .. }),
            "wait a minute",
        ),
        (
            ":access",
            refuse(503, "UNAVAILABLE", "", "The service is currently unavailable."),
            |e| matches!(e, GcpError::Unavailable { code: 503, .. }),
            "wait",
        ),
        (
            ":access",
            refuse(401, "UNAUTHENTICATED", "", "Request had invalid authentication credentials."),
            |e| matches!(e, GcpError::Unauthenticated { .. }),
            "application-default login",
        ),
        (
            ":access",
            refuse(
                400,
                "FAILED_PRECONDITION",
                "",
                "Secret Version [projects/1234567890/secrets/RAY_AUTH_TOKEN/versions/1] is in DISABLED state.",
            ),
            |e| matches!(e, GcpError::State { .. }),
            "gcloud secrets versions enable 1 --secret=RAY_AUTH_TOKEN --project=hai-test",
        ),
        (":access", Fault::Html(502), |e| matches!(e, GcpError::NotJson { code: 502, .. }), "load balancer"),
        (
            ":access",
            Fault::SignIn,
            |e| matches!(e, GcpError::NotJson { code: 200, .. }),
            "sign in to this network",
        ),
        (":access", Fault::BadChecksum, |e| matches!(e, GcpError::Checksum), "try again"),
        (":access", Fault::HangUp, |e| matches!(e, GcpError::Unreachable { .. }), "check the network"),
        (
            "/token",
            grant("invalid_grant", None),
            |e| matches!(e, GcpError::GrantExpired { .. }),
            "application-default login",
        ),
        (
            "/token",
            grant("invalid_grant", Some("invalid_rapt")),
            |e| matches!(e, GcpError::Reauthenticate { .. }),
            "application-default login",
        ),
        ("/token", Fault::Skew, |e| matches!(e, GcpError::Clock { .. }), "timedatectl set-ntp true"),
        ("/token", refuse(503, "", "", ""), |e| matches!(e, GcpError::Unavailable { .. }), "wait"),
    ];
    for (path, fault, is, hint) in cases {
        let double = Double::start().await.unwrap();
        double.put_secret(NAME, VALUE);
        let google = client(&double);
        double.fail(path, fault.clone());
        let error = google.latest_version(PROJECT, NAME).await.unwrap_err();
        assert!(is(&error), "{fault:?} became {error:?}");
        assert!(error.hint().to_string().contains(hint), "{fault:?}: {}", error.hint());
        assert!(!format!("{error} {error:?}").contains(VALUE), "{error:?}");
        // The client recovers without a restart, including after a new login.
        double.recover();
        let found = google.latest_version(PROJECT, NAME).await;
        assert_eq!(found.map(|v| v.version), Ok("1".into()), "after {fault:?}");
    }
}

#[tokio::test]
async fn wrong_names_and_states_of_secrets() {
    let double = Double::start().await.unwrap();
    let google = client(&double);
    let error = |project: &'static str, name: &'static str| {
        let google = google.clone();
        async move { google.latest_version(project, name).await.unwrap_err() }
    };
    assert!(matches!(error(PROJECT, "NONE").await, GcpError::NotFound { .. }));
    assert!(matches!(error("other-project", NAME).await, GcpError::Forbidden { .. }));
    let disabled = Stored { state: "DISABLED", ..Stored::enabled(b"x") };
    double.state().secrets.insert("OFF".into(), vec![Stored::enabled(b"w"), disabled]);
    let GcpError::State { message, .. } = error(PROJECT, "OFF").await else { panic!() };
    assert!(message.contains("versions/2") && message.contains("DISABLED"), "{message}");
}

#[tokio::test]
async fn unavailable_credentials_fail_at_once() {
    let double = Double::start().await.unwrap();
    let broken =
        Login::by(|| credentials::user_account::Builder::new(json!({"type": "authorized_user"})).build());
    let google = Google::new(Endpoints::all_at(&double.url()), broken);
    let error = google.latest_version(PROJECT, NAME).await.unwrap_err();
    assert!(matches!(&error, GcpError::CredentialsFile { .. }), "{error:?}");
    assert!(error.hint().to_string().contains("GOOGLE_APPLICATION_CREDENTIALS"), "{}", error.hint());
    // No metadata server listens there.
    let unreachable =
        Login::by(|| credentials::mds::Builder::default().with_endpoint("http://127.0.0.1:9").build());
    let google = Google::new(Endpoints::all_at(&double.url()), unreachable);
    let error = google.latest_version(PROJECT, NAME).await.unwrap_err();
    assert!(matches!(error, GcpError::Unreachable { .. }), "{error:?}");
    assert!(double.requests().is_empty(), "nothing is requested without credentials");
}

#[tokio::test]
async fn a_secret_is_created_once() {
    let double = Double::start().await.unwrap();
    let google = client(&double);
    google.create_secret(PROJECT, "NEW").await.unwrap();
    let version = google.add_version(PROJECT, "NEW", &Secret::new(VALUE)).await.unwrap();
    assert_eq!(version, "1");
    assert_eq!(google.latest_version(PROJECT, "NEW").await.unwrap().value.expose(), VALUE);
    assert!(matches!(google.create_secret(PROJECT, "NEW").await, Err(GcpError::Exists { .. })));
}

#[tokio::test]
async fn a_late_response_is_accepted() {
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, VALUE);
    double.fail(":access", Fault::Latency(Duration::from_millis(300)));
    assert!(client(&double).latest_version(PROJECT, NAME).await.is_ok());
}

#[tokio::test]
async fn the_images_of_a_repository_are_listed_newest_first() {
    let double = Double::start().await.unwrap();
    let image =
        |name, digest, tags: &[&str], at| registry::image("us-central2/marin", name, digest, tags, at);
    {
        let mut state = double.state();
        state.page = 1;
        state.images = vec![
            image("marin_cluster", "0a", &["20261101"], "2026-11-01T08:00:00Z"),
            image("team%2Fmarin_cluster", "0b", &["other"], "2026-11-20T08:00:00Z"),
            image("marin_cluster", "0c", &["20261120", "latest"], "2026-11-20T08:00:00.25Z"),
        ];
    }
    let google = client(&double);
    let name = |text: &str| ImageName::parse(text).unwrap();
    let image = name("us-central2-docker.pkg.dev/hai-test/marin/marin_cluster:latest");
    let builds = google.images(&image).await.unwrap();
    let digests: Vec<&str> = builds.iter().map(|b| b.digest.raw()).collect();
    assert_eq!(digests, ["sha256:0c", "sha256:0a"]);
    assert_eq!(builds[0].tags, ["20261120".into(), "latest".into()]);
    assert_eq!((builds[0].bytes, builds[0].uploaded.is_some()), (Some(5_368_709_120), true));
    let other = google.images(&name("us-central2-docker.pkg.dev/hai-test/marin/team/marin_cluster:x")).await;
    assert_eq!(other.unwrap().len(), 1);
    let none = google.images(&name("us-docker.pkg.dev/hai-test/none/x:y")).await;
    assert!(matches!(none, Err(GcpError::NotFound { .. })), "{none:?}");
    let theirs = google.images(&name("us-docker.pkg.dev/other/none/x:y")).await;
    assert!(matches!(theirs, Err(GcpError::Forbidden { .. })), "{theirs:?}");
}
