//! Workers that are requested from Google: requested, followed, cancelled and resumed.

use crate::cloud_fixture::{CloudFixture, WORKER, ZONE, labels};
use marin_tui::demo::google::PROJECT;
use serde_json::{Value, json};
use std::fs;

#[test]
fn a_worker_is_requested_and_followed_until_it_has_joined() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let mut adding = fixture.spawn("add-worker --type v4-8 --capacity best-effort --name extra --yes --json");
    adding.wait_for("extra: waiting");
    let sent = fixture.double.state().queued[0].clone();
    assert_eq!(sent["bestEffort"], json!({}));
    let node = &sent["tpu"]["nodeSpec"][0]["node"];
    assert_eq!((&node["labels"], &node["acceleratorType"]), (&labels("unmanaged"), &json!("v4-8")));
    assert!(node["schedulingConfig"].is_null(), "the queued resource has the capacity");
    assert!(node["metadata"]["startup-script"].as_str().unwrap().starts_with("#!"));
    assert!(fixture.double.requests_with("POST /v2alpha1/") == 1, "best effort is known to v2alpha1 only");
    fixture.turn("extra", "PROVISIONING");
    adding.wait_for("extra: provisioning");
    fixture.grant("extra");
    let (code, out, said) = adding.finish();
    assert_eq!(code, Some(0), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&rows[0]["worker"], &rows[0]["joined"]), (&json!("extra"), &json!(true)));
    // Once more: the request exists, so it is followed and not sent twice.
    let (code, _, said) = fixture.run("add-worker --type v4-8 --capacity best-effort --name extra --yes");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fixture.double.state().queued.len(), 1);
    // A request with other settings under that name is refused.
    let (code, _, said) = fixture.run("add-worker --type v4-8 --capacity reserved --name extra --yes");
    let refused = "extra was already requested with other settings: capacity best effort, not reserved";
    assert!(code != Some(0) && said.contains(refused) && said.contains("choose another name"), "{said}");
    assert!(said.find("add-worker --abandon`") < said.find("remove-worker extra --drain`"), "{said}");
    assert!(said.contains("add-worker --abandon`"), "the next command is refused otherwise: {said}");
    assert_eq!(fixture.double.state().queued.len(), 1);
    let (_, log, _) = fixture.run("audit");
    assert!(log.contains("add-worker extra") && log.contains("done"), "{log}");
}

#[test]
fn a_worker_is_requested_with_flex_start() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let command = "add-worker --type v4-8 --capacity flex_start --name flex --yes --no-wait";
    let (code, _, said) = fixture.run(command);
    assert_eq!(code, Some(0), "{said}");
    let sent = fixture.double.state().queued[0].clone();
    assert_eq!(
        (&sent["provisioningModel"], &sent["runDuration"]),
        (&json!("FLEX_START"), &json!({"maxRunDuration": "604800s"}))
    );
    assert_eq!(fixture.double.requests_with("POST /v2alpha1/"), 1, "v2 has no field for it");
    let (_, out, _) = fixture.run("tpus --json");
    let rows: Value = serde_json::from_str(&out).unwrap();
    let row = rows["rows"].as_array().unwrap().iter().find(|row| row["name"] == "flex").unwrap();
    assert_eq!((&row["capacity"], &row["status"]), (&json!("flex-start"), &json!("waiting")), "{row}");
    // The same request is followed; a request with another capacity is refused.
    let (code, _, said) = fixture.run(command);
    assert!(code == Some(0) && said.contains("already requested from Google"), "{said}");
    let (code, _, said) = fixture.run("add-worker --type v4-8 --name flex --yes --no-wait");
    assert!(code == Some(1) && said.contains("capacity flex-start, not spot"), "{said}");
    assert_eq!(fixture.run("add-worker --abandon").0, Some(0));
    // The duration is a setting. A version of the API without the field refuses it with Google's own message.
    let file = fixture.home.path().join("config.yaml");
    let mut settings: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let unknown = "Unknown name \"provisioningModel\"";
    for (api, ends, wanted) in [("v2alpha1", Some(0), ""), ("v2", Some(1), unknown)] {
        let field = json!({"provisioningModel": "FLEX_START", "runDuration": {"maxRunDuration": "3600s"}});
        settings["tpu_capacity"] = json!({"flex-start": {"api": api, "field": field}});
        fixture.file("config.yaml", &settings.to_string());
        let of_settings = command.replace("--name flex", &format!("--name {api}"));
        let (code, _, said) = fixture.run(&of_settings);
        assert!(code == ends && said.contains(wanted), "{api}: {said}");
    }
    let state = fixture.double.state();
    assert_eq!(state.queued.len(), 2);
    assert_eq!(state.queued[1]["runDuration"], json!({"maxRunDuration": "3600s"}));
}

#[test]
fn a_failed_request_is_reported_with_a_hint() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let (code, out, _) =
        fixture.run("add-worker --type tpu_worker --capacity reserved --count 2 --name r --dry-run");
    let calls: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((code, calls.len()), (Some(0), 2));
    assert!(
        calls[1]["url"].as_str().unwrap().ends_with("/queuedResources?queuedResourceId=r-2"),
        "{}",
        calls[1]
    );
    let reservation = format!("projects/{PROJECT}/locations/{ZONE}/reservations/-");
    assert_eq!(calls[0]["body"]["reservationName"], reservation.as_str());
    assert_eq!(
        fixture.double.requests_with("POST"),
        fixture.double.requests_with("POST /token"),
        "a dry run sends nothing"
    );
    let (code, _, said) = fixture.run("add-worker --type v9-8 --yes");
    assert!(code == Some(1) && said.contains("available types: tpu_worker"), "{said}");
    let (code, _, said) = fixture.run("add-worker --type v4-8 --name ../x --yes");
    assert!(code == Some(1) && said.contains("is not a valid TPU VM name"), "{said}");

    let mut adding = fixture.spawn("add-worker --type v4-8 --name poor --yes");
    adding.wait_for("poor: waiting");
    {
        let mut state = fixture.double.state();
        state.queued[0]["state"] = json!({"state": "FAILED",
            "failedData": {"error": {"code": 8, "message": "no quota for v4 in this zone"}}});
    }
    let (code, _, said) = adding.finish();
    assert_eq!(code, Some(1));
    assert!(said.contains("no quota for v4") && said.contains("remove-worker poor"), "{said}");
    let (reason, said) = fixture.refused("remove-worker poor --yes");
    let places = ["add-worker --abandon`", "remove-worker poor --now`"].map(|command| said.find(command));
    assert!(reason == "interrupted" && places[0].is_some() && places[0] < places[1], "{said}");
    assert_eq!(fixture.run("add-worker --abandon").0, Some(0));
    let (code, _, said) = fixture.run("remove-worker poor --now --yes");
    assert_eq!((code, fixture.double.state().queued.len()), (Some(0), 0), "{said}");
    let (code, _, said) = fixture.run("remove-worker poor --yes");
    assert!(code == Some(1) && said.contains("no TPU VM"), "{said}");
}

#[test]
fn a_wait_for_capacity_is_resumed_after_a_kill_and_blocks_nothing_after_a_cancel() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let mut adding = fixture.spawn("add-worker --type v4-8 --name extra --yes");
    adding.wait_for("extra: waiting");
    assert_eq!(
        fixture.refused("restart-cluster --yes --others").0,
        "operation-running",
        "one operation at a time"
    );
    adding.child.kill().unwrap();
    adding.child.wait().unwrap();
    for another in ["restart-cluster --yes --others", "add-worker --type v4-8 --name other --yes"] {
        assert_eq!(fixture.refused(another).0, "interrupted", "{another}");
    }
    let mut adding = fixture.spawn("add-worker --resume");
    adding.wait_for("already requested from Google");
    adding.wait_for("extra: waiting");
    assert_eq!(fixture.double.state().queued.len(), 1);

    rustix::process::kill_process(
        rustix::process::Pid::from_child(&adding.child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let (code, _, said) = adding.finish();
    assert!(code == Some(1) && said.contains("remains in Google Cloud"), "{code:?}: {said}");
    let (code, _, said) = fixture.run("restart-cluster --dry-run");
    assert_eq!(code, Some(0), "no operation blocks it: {said}");
    let mut adding = fixture.spawn("add-worker --type v4-8 --name extra --yes --json");
    adding.wait_for("extra: waiting");
    fixture.grant("extra");
    let (code, out, said) = adding.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()[0]["hosts"], json!([WORKER]));
    assert_eq!(fixture.double.state().queued.len(), 1, "it was requested once");
    let (_, log, _) = fixture.run("audit");
    let entry = "add-worker extra (v4-8, preemptible)";
    let line = |outcome: &str| log.lines().any(|l| l.contains(entry) && l.contains(outcome));
    assert!(line("begun") && line("cancelled") && line("done"), "{log}");
}

#[test]
fn a_request_that_somebody_deleted_is_sent_again_on_resume() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let (code, out, said) = fixture.run("add-worker --type v4-8 --name later --no-wait --yes --json");
    assert_eq!(code, Some(0), "{said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows, json!([{"cluster": "marin-a", "worker": "later", "hosts": [], "joined": false}]));
    let (code, out, said) = fixture.run("remove-worker later --yes --json");
    assert_eq!(code, Some(0), "no operation blocks another one: {said}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(rows, json!([{"cluster": "marin-a", "worker": "later", "hosts": [], "removed": true}]));

    let mut adding = fixture.spawn("add-worker --type v4-8 --name gone --yes");
    adding.wait_for("gone: waiting");
    fixture.double.state().queued.clear();
    let (code, _, said) = adding.finish();
    assert!(code == Some(1) && said.contains("gone was deleted"), "{said}");
    let mut adding = fixture.spawn("add-worker --resume");
    adding.wait_for("gone: Google accepted the request");
    adding.wait_for("gone: waiting");
    fixture.grant("gone");
    let (code, _, said) = adding.finish();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fixture.refused("add-worker --resume").0, "nothing-to-resume");
}
