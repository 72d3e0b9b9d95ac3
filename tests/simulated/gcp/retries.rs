//! Retries: which requests are repeated, when, and how often.

use super::{NAME, VALUE, client};
use crate::soon::soon;
use marin_tui::demo::google::{Fault, Google as Double, PROJECT};
use marin_tui::gcp::{GcpError, Role};
use marin_tui::model::Secret;
use std::time::Duration;

#[tokio::test]
async fn permanent_errors_are_not_retried_and_transient_ones_twice() {
    let double = Double::start().await.unwrap();
    let google = client(&double);
    double.fail("aggregated", Fault::Refuse { code: 403, status: "", reason: "forbidden", message: "no" });
    assert!(google.machines(PROJECT, Role::Head, None).await.is_err());
    assert_eq!(double.requests_with("aggregated"), 1);
    double.recover();
    double.fail("aggregated", Fault::Html(502));
    assert!(google.machines(PROJECT, Role::Head, None).await.is_err());
    assert_eq!(
        double.requests_with("aggregated"),
        4,
        "a request that gets a load balancer's page is retried"
    );
    double.recover();
    double.fail("aggregated", Fault::Refuse { code: 503, status: "", reason: "", message: "" });
    assert!(google.machines(PROJECT, Role::Head, None).await.is_err());
    assert_eq!(double.requests_with("aggregated"), 7);
    double.recover();
    double.fail("aggregated", Fault::SignIn);
    assert!(google.machines(PROJECT, Role::Head, None).await.is_err());
    assert_eq!(double.requests_with("aggregated"), 8, "a request that gets a network's sign-in page is not");
}

#[tokio::test]
async fn retry_after_is_respected() {
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, VALUE);
    let google = client(&double);
    for path in ["aggregated", ":access"] {
        // Longer than the time limit of a call: reported, and not requested again before.
        double.fail(path, Fault::Busy(90));
        let before = double.requests_with(path);
        let error = match path {
            ":access" => google.latest_version(PROJECT, NAME).await.map(drop),
            _ => google.machines(PROJECT, Role::Head, None).await.map(drop),
        }
        .unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(90)), "{path}: {error:?}");
        assert!(error.hint().to_string().contains("wait 90 s"), "{}", error.hint());
        assert_eq!(double.requests_with(path), before + 1, "{path}");
        double.recover();
    }
    // Until then no call is sent to these services for this project; other projects are not affected.
    let before = double.requests().len();
    let error = google.machines(PROJECT, Role::Worker, None).await.unwrap_err();
    assert!(error.retry_after().is_some_and(|left| left > Duration::from_secs(30)), "{error:?}");
    assert!(google.add_version(PROJECT, NAME, &Secret::new("next")).await.is_err());
    assert_eq!(double.requests().len(), before, "{:?}", double.requests());
    assert!(matches!(google.latest_version("other-project", NAME).await, Err(GcpError::Forbidden { .. })));
    // A short wait is awaited, and then the call succeeds.
    let google = client(&double);
    double.fail("aggregated", Fault::Busy(1));
    let before = double.requests_with("aggregated");
    let asking = tokio::spawn({
        let google = google.clone();
        async move { google.machines(PROJECT, Role::Head, None).await }
    });
    let refused = async {
        while double.requests_with("aggregated") == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("it was rejected once", refused).await;
    double.recover();
    assert!(asking.await.unwrap().is_ok());
}

#[tokio::test]
async fn retry_info_in_the_body_is_respected() {
    let body = r#"{"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "90.500s"}]}}"#;
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, VALUE);
    let google = client(&double);
    for path in ["aggregated", ":access"] {
        double.fail(path, Fault::Recorded { code: 429, body });
        let error = match path {
            ":access" => google.latest_version(PROJECT, NAME).await.map(drop),
            _ => google.machines(PROJECT, Role::Head, None).await.map(drop),
        };
        assert_eq!(error.unwrap_err().retry_after(), Some(Duration::from_millis(90_500)), "{path}");
        double.recover();
    }
}

#[tokio::test]
async fn a_patient_call_waits_as_requested_and_reports_the_wait_once() {
    let double = Double::start().await.unwrap();
    let google = client(&double);
    let (sender, mut waits) = tokio::sync::mpsc::unbounded_channel();
    google.on_wait(move |wait| drop(sender.send(wait)));
    double.fail("aggregated", Fault::Busy(2));
    // Two concurrent calls, which are both rejected.
    let asking = [Role::Head, Role::Worker].map(|role| {
        let google = google.with_waits();
        tokio::spawn(async move { google.machines(PROJECT, role, None).await })
    });
    let wait = soon("the wait is reported", waits.recv()).await.unwrap();
    assert_eq!((wait.project.as_str(), wait.requested), (PROJECT, Duration::from_secs(2)));
    assert!(
        wait.text(wait.left).starts_with("Waiting 2 s as requested by Google (quota exceeded: "),
        "{wait:?}"
    );
    double.recover();
    for asking in asking {
        assert!(asking.await.unwrap().is_ok());
    }
    // Only a later wait, for a call that was rejected later, is reported separately.
    let others: Vec<_> = std::iter::from_fn(|| waits.try_recv().ok()).collect();
    assert!(others.len() <= 1, "{others:?}");
}

#[tokio::test]
async fn a_change_is_retried_only_if_google_has_not_started_it() {
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, VALUE);
    let google = client(&double);
    let add = || {
        let google = google.clone();
        async move { google.add_version(PROJECT, NAME, &Secret::new("next")).await }
    };
    // No access token for a moment: no request was sent.
    double.fail("/token", Fault::Refuse { code: 503, status: "", reason: "", message: "" });
    let error = add().await.unwrap_err();
    assert!(matches!(error, GcpError::Unavailable { code: 503, .. }), "{error:?}");
    assert_eq!((double.requests_with("/token"), double.requests_with(":addVersion")), (3, 0));
    double.recover();
    // The retry time requested by Google: too late for this call, or soon enough.
    double.fail(":addVersion", Fault::Busy(90));
    assert_eq!(add().await.unwrap_err().retry_after(), Some(Duration::from_secs(90)));
    assert_eq!(double.requests_with(":addVersion"), 1);
    double.recover();
    let google = client(&double);
    let add = || {
        let google = google.clone();
        async move { google.add_version(PROJECT, NAME, &Secret::new("next")).await }
    };
    double.fail(":addVersion", Fault::Busy(1));
    let adding = tokio::spawn(add());
    let refused = async {
        while double.requests_with(":addVersion") == 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("it was rejected once", refused).await;
    double.recover();
    assert_eq!(adding.await.unwrap(), Ok("2".into()));
    // The change may have been made: requested once.
    let before = double.requests_with(":addVersion");
    double.fail(":addVersion", Fault::Refuse { code: 503, status: "", reason: "", message: "" });
    assert!(add().await.is_err());
    assert_eq!(double.requests_with(":addVersion"), before + 1);
}
