//! Rotation of a token during a connection.

use super::{Fixture, NEW, OLD, exposes, put};
use crate::soon::soon;
use marin_tui::demo::google::Fault;
use marin_tui::demo::{Head, Scenario};
use marin_tui::model::{ClusterEvent, HeadAddress, Link, ProblemKind, Request, Secret};
use marin_tui::state::Update;
use marin_tui::supervisor::{self, Supervisor};
use std::cell::Cell;
use std::fs;
use std::time::Duration;
use tokio::sync::mpsc;

/// Waits for an event that satisfies `is`.
async fn until(
    receiver: &mut mpsc::Receiver<Update>,
    what: &str,
    is: impl Fn(&ClusterEvent) -> bool,
) -> ClusterEvent {
    let wait = async {
        loop {
            let update = receiver.recv().await.expect("the supervisor is running");
            if is(&update.event) {
                return update.event;
            }
        }
    };
    soon(what, wait).await
}

fn is_up(event: &ClusterEvent) -> bool {
    matches!(event, ClusterEvent::Link(Link::Up { token_auth: true, .. }))
}

fn is_refused_and_waits(event: &ClusterEvent) -> bool {
    matches!(event, ClusterEvent::Link(Link::Retrying { problem, .. }) if problem.what.contains("the latest"))
}

#[tokio::test]
async fn a_session_recovers_from_a_rotation() {
    let mut fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN", OLD);
    let scenario = Scenario { token: Some(Secret::new(OLD)), nodes: 4, ..Scenario::default() };
    let head = Head::start(scenario).await.unwrap();
    let (dashboard, gcs) = (format!("http://{}", head.dashboard), Some(head.gcs.to_string()));
    fixture.spec.head = HeadAddress::Direct { dashboard, gcs };
    let mut options = fixture.options();
    options.focused = Duration::from_millis(200);
    let (updates, mut receiver) = mpsc::channel(256);
    let supervisor = Supervisor::start(vec![fixture.spec.clone()], options, &updates);
    supervisor.ask(&fixture.spec.name, Request::Focus(true));
    until(&mut receiver, "up with the fetched token", is_up).await;

    // The secret first, as recommended: it has no effect before the head changes.
    fixture.double.put_secret("RAY_AUTH_TOKEN", NEW);
    head.set_token(Some(Secret::new(NEW)));
    until(&mut receiver, "a problem", |n| matches!(n, ClusterEvent::Link(Link::Retrying { .. }))).await;
    let states = Cell::new(0);
    until(&mut receiver, "up with the new token", |n| {
        states.set(states.get() + usize::from(matches!(n, ClusterEvent::Snapshot(_))));
        is_up(n)
    })
    .await;
    assert_eq!(states.get(), 1, "the snapshot arrives with the first response");
    assert_eq!(supervisor.token(&fixture.spec.name).unwrap().expose(), NEW);
    assert_eq!(fixture.double.requests_with(":access"), 2);

    // The head first: the latest version is refused, and reported as such.
    head.set_token(Some(Secret::new("tok-third")));
    until(&mut receiver, "which version is refused", is_refused_and_waits).await;
    fixture.double.put_secret("RAY_AUTH_TOKEN", "tok-third");
    until(&mut receiver, "up with the third", is_up).await;
    supervisor.shutdown().await;
}

/// `token init-secret --rotate`: a cluster keeps its token until it is restarted, and its jobs must be saved before.
#[tokio::test]
async fn a_cluster_that_was_not_restarted_since_a_rotation_is_reached_with_the_previous_token() {
    let mut fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN", OLD);
    let scenario = Scenario { token: Some(Secret::new(OLD)), nodes: 2, ..Scenario::default() };
    let head = Head::start(scenario).await.unwrap();
    let (dashboard, gcs) = (format!("http://{}", head.dashboard), Some(head.gcs.to_string()));
    fixture.spec.head = HeadAddress::Direct { dashboard, gcs };
    let connect = async || supervisor::connect(fixture.spec.clone(), 0, fixture.options(), |_| {}).await;
    connect().await.unwrap().close().await;
    let new = Some(Secret::new(NEW));
    fixture.manager().add_version(fixture.secret(), new).await.unwrap();
    assert_eq!(fs::read_to_string(fixture.kept()).unwrap().trim(), NEW);
    for _ in 0..2 {
        let session = connect().await.unwrap();
        assert_eq!(session.token.as_ref().map(Secret::expose), Some(OLD));
        session.close().await;
    }
    assert_eq!(fs::read_to_string(fixture.kept()).unwrap().trim(), NEW, "it stays for the restarted cluster");
    head.set_token(Some(Secret::new(NEW)));
    let session = connect().await.unwrap();
    assert_eq!(session.token.as_ref().map(Secret::expose), Some(NEW));
    session.close().await;
}

#[tokio::test]
async fn two_refused_tokens_are_retried_slowly_and_the_valid_one_is_used() {
    // The name is so long that the temporary file cannot be created, so the fetched token cannot be stored.
    let name = "s".repeat(244);
    let mut fixture = Fixture::new(&name).await;
    fixture.double.put_secret(&name, NEW);
    put(&fixture.kept(), OLD);
    let scenario = Scenario { token: Some(Secret::new("tok-third")), nodes: 4, ..Scenario::default() };
    let head = Head::start(scenario).await.unwrap();
    let (dashboard, gcs) = (format!("http://{}", head.dashboard), Some(head.gcs.to_string()));
    fixture.spec.head = HeadAddress::Direct { dashboard, gcs };
    let (updates, mut receiver) = mpsc::channel(256);
    let supervisor = Supervisor::start(vec![fixture.spec.clone()], fixture.options(), &updates);
    let waits = |n: &ClusterEvent| matches!(n, ClusterEvent::Link(Link::Retrying { problem, .. }) if !problem.hint.to_string().contains("looked for"));
    until(&mut receiver, "a pause", waits).await;
    assert_eq!(fs::read_to_string(fixture.kept()).unwrap(), OLD, "it could not be stored");
    head.set_token(Some(Secret::new(NEW)));
    until(&mut receiver, "up with the secret's", is_up).await;
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_command_renews_a_rotated_token_or_names_the_refused_version() {
    let mut fixture = Fixture::new("RAY_AUTH_TOKEN").await;
    fixture.double.put_secret("RAY_AUTH_TOKEN", OLD);
    fixture.double.put_secret("RAY_AUTH_TOKEN", NEW);
    fixture.token_sources.keep(fixture.secret(), "1", &Secret::new(OLD));
    let scenario = Scenario { token: Some(Secret::new(NEW)), nodes: 2, ..Scenario::default() };
    let head = Head::start(scenario).await.unwrap();
    let (dashboard, gcs) = (format!("http://{}", head.dashboard), Some(head.gcs.to_string()));
    fixture.spec.head = HeadAddress::Direct { dashboard, gcs };
    let connect = async || supervisor::connect(fixture.spec.clone(), 0, fixture.options(), |_| {}).await;

    let session = connect().await.unwrap();
    assert_eq!(session.token.as_ref().map(Secret::expose), Some(NEW));
    session.close().await;
    assert_eq!(fs::read_to_string(fixture.kept()).unwrap().trim(), NEW, "the next command uses it");
    connect().await.unwrap().close().await;
    assert_eq!(fixture.double.requests_with(":access"), 1);

    head.set_token(Some(Secret::new("tok-third")));
    let problem = connect().await.err().unwrap();
    assert_eq!(problem.kind, ProblemKind::TokenRefused);
    assert!(
        problem.what.contains("version 2 of secret RAY_AUTH_TOKEN in project hai-test, the latest"),
        "{problem:?}"
    );
    assert!(problem.hint.to_string().contains("restart it") && !exposes(&problem), "{problem:?}");
    assert_eq!(fixture.double.requests_with(":access"), 2, "requested once");

    // Google is unreachable: the stored version is named nevertheless.
    fixture.double.fail(":access", Fault::HangUp);
    let problem = connect().await.err().unwrap();
    assert!(problem.what.contains("refuses this token (version 2)"), "{problem:?}");
    assert!(problem.hint.to_string().contains("check the network"), "{problem:?}");
}
