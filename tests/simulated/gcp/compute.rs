//! Heads listed by Compute Engine.

use super::client;
use marin_tui::demo::google::compute::instance;
use marin_tui::demo::google::{Fault, Google as Double, PROJECT};
use marin_tui::gcp::Role;
use serde_json::json;

#[tokio::test]
async fn heads_are_found_by_label_on_every_page() {
    let double = Double::start().await.unwrap();
    let labels = |kind: &str, cluster: &str| json!({"ray-node-type": kind, "ray-cluster-name": cluster});
    {
        let mut state = double.state();
        state.page = 1;
        state.unreachable = vec!["us-east1-z".into()];
        let mut old =
            instance("us-central1-a", "ray-a-head-1", &labels("head", "a"), "10.0.0.1", Some("34.0.0.1"));
        old["status"] = json!("TERMINATED");
        state.instances = vec![
            old,
            instance("us-central1-a", "ray-a-worker", &labels("worker", "a"), "10.0.0.2", None),
            instance("us-central2-b", "ray-a-head-2", &labels("head", "a"), "10.0.0.3", Some("34.0.0.3")),
            instance("us-central2-b", "ray-b-head", &labels("head", "b"), "10.0.0.4", None),
        ];
    }
    let google = client(&double);
    let heads = google.machines(PROJECT, Role::Head, Some("a")).await.unwrap();
    assert_eq!(heads.found.len(), 2);
    assert_eq!(heads.unreachable, ["us-east1-z".into()]);
    let head = heads.running()[0];
    assert_eq!((head.name.as_str(), head.zone.as_str()), ("ray-a-head-2", "us-central2-b"));
    assert_eq!((head.internal.as_deref(), head.external.as_deref()), (Some("10.0.0.3"), Some("34.0.0.3")));
    assert_eq!(google.machines(PROJECT, Role::Head, None).await.unwrap().found.len(), 3);
}

#[tokio::test]
async fn an_invalid_address_never_reaches_ssh() {
    let double = Double::start().await.unwrap();
    let labels = json!({"ray-node-type": "head", "ray-cluster-name": "a"});
    double.state().instances =
        vec![instance("us-central2-b", "h", &labels, "10.0.0.1", Some("-oProxyCommand=touch /tmp/x"))];
    let heads = client(&double).machines(PROJECT, Role::Head, Some("a")).await.unwrap();
    assert_eq!(heads.running()[0].external, None);
}

#[tokio::test]
async fn a_disabled_compute_api_is_named() {
    let double = Double::start().await.unwrap();
    let fault = Fault::Refuse {
        code: 403,
        status: "",
        reason: "SERVICE_DISABLED",
        message: "Compute Engine API off",
    };
    double.fail("aggregated", fault);
    let error = client(&double).machines(PROJECT, Role::Head, None).await.unwrap_err();
    assert!(
        error.hint().to_string().contains("gcloud services enable compute.googleapis.com"),
        "{error:?} {}",
        error.hint()
    );
}
