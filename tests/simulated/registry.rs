//! Artifact Registry repositories and the permissions of a login: the client against the simulated services.

use crate::google::google;
use marin_tui::demo::google::{Fault, Google as Double, PROJECT};
use marin_tui::gcp::{Cleanup, GcpError, Google, NEEDS};
use marin_tui::model::{ImageName, Registry};
use tempfile::TempDir;

/// A client, and the home directory with its credentials.
fn client(double: &Double) -> (Google, TempDir) {
    let home = tempfile::tempdir().unwrap();
    double.write_adc(home.path()).unwrap();
    (google(double, home.path()), home)
}

#[tokio::test]
async fn a_repository_is_created_once_and_gets_policies() {
    let double = Double::start().await.unwrap();
    let (google, _home) = client(&double);
    let registry = ImageName::parse("us-central2-docker.pkg.dev/hai-test/marin/x").unwrap().registry();
    let missing = google.repository(&registry).await;
    assert!(matches!(missing, Err(GcpError::NotFound { .. })), "{missing:?}");
    let creation = google.repository_creation(&registry, "images");
    google.execute(&creation).await.unwrap();
    let made = google.repository(&registry).await.unwrap();
    assert_eq!((made.format.as_str(), made.cleanup_policies.len()), ("DOCKER", 0));
    let again = google.execute(&creation).await;
    assert!(matches!(again, Err(GcpError::Exists { .. })), "{again:?}");
    double.state().failing_operations = Some("quota of repositories".into());
    let other = Registry { repository: "other".into(), ..registry.clone() };
    let failed = google.execute(&google.repository_creation(&other, "")).await;
    assert!(
        matches!(&failed, Err(GcpError::Operation { message }) if message.contains("quota")),
        "{failed:?}"
    );

    let policies = Cleanup { older_than_days: 30, keep: 16 }.merged_into(&made.cleanup_policies);
    double.state().repositories[0]["cleanupPolicyDryRun"] = true.into();
    google.execute(&google.policies_change(&registry, &policies, false)).await.unwrap();
    let set = google.repository(&registry).await.unwrap();
    assert_eq!((&set.cleanup_policies, set.cleanup_policy_dry_run), (&policies, true));
    google.execute(&google.policies_change(&registry, &policies, true)).await.unwrap();
    assert!(!google.repository(&registry).await.unwrap().cleanup_policy_dry_run);
}

#[tokio::test]
async fn missing_permissions_are_queried_in_one_call() {
    let double = Double::start().await.unwrap();
    let (google, _home) = client(&double);
    let lacks = google.lacks(PROJECT).await.unwrap();
    assert!(lacks.len() == NEEDS.len() && lacks.iter().all(|lack| lack.missing.is_empty()), "{lacks:?}");
    assert_eq!(double.requests_with("POST /v3/projects/hai-test:testIamPermissions"), 1);
    double.state().denied.insert("tpu.nodes.delete".into());
    let lacks = google.lacks(PROJECT).await.unwrap();
    let missing: Vec<_> = lacks.iter().filter(|lack| !lack.missing.is_empty()).collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(
        (missing[0].need.role, &missing[0].missing[..]),
        ("roles/tpu.admin", &["tpu.nodes.delete"][..])
    );
    // If no permission is granted, Google sends no list.
    let all = NEEDS.iter().flat_map(|need| need.permissions).map(ToString::to_string);
    double.state().denied = all.collect();
    let lacks = google.lacks(PROJECT).await.unwrap();
    assert!(lacks.iter().all(|lack| lack.missing == lack.need.permissions));
    let theirs = google.lacks("theirs").await;
    assert!(matches!(theirs, Err(GcpError::Forbidden { .. })), "{theirs:?}");
    let distinct: std::collections::BTreeSet<_> = NEEDS.iter().flat_map(|need| need.permissions).collect();
    assert_eq!(distinct.len(), NEEDS.iter().map(|need| need.permissions.len()).sum::<usize>());
}

#[tokio::test]
async fn an_access_token_is_available_for_other_programs() {
    let double = Double::start().await.unwrap();
    let (google, _home) = client(&double);
    let token = google.access_token().await.unwrap();
    assert!(token.expose().starts_with("ya29.") && format!("{token:?}") == "***");
    google.log_in().await.unwrap();
    double.fail("/token", Fault::Grant { error: "invalid_grant", subtype: None });
    let refused = client(&double).0.access_token().await;
    assert!(matches!(refused, Err(GcpError::GrantExpired { .. })), "{refused:?}");
}
