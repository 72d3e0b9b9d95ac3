//! The routes of the simulated dashboard, as in Ray's dashboard modules.

use super::super::connection::{Body, text, whole};
use super::super::json::{array, dumps, envelope};
use super::super::shared::Shared;
use super::json;
use super::query::{Query, unescape};
use super::{jobs, logs, packages, rows, stacks, status, tail, tasks};
use crate::model::NodeId;
use crate::model::json::object;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;
use std::sync::Arc;

/// Answers a request that passed the token check.
pub(super) async fn answer(request: Request<Incoming>, shared: &Arc<Shared>) -> Response<Body> {
    let uri = request.uri().clone();
    let segments: Vec<String> = uri.path().trim_start_matches('/').split('/').map(unescape).collect();
    let route: Vec<&str> = segments.iter().map(String::as_str).collect();
    let query = Query::new(uri.query().unwrap_or_default());
    let get = matches!(*request.method(), Method::GET | Method::HEAD);
    match route.as_slice() {
        ["api", "jobs", ""] if *request.method() == Method::POST => jobs::submit(request, shared).await,
        ["api", "jobs", id, "stop"] if *request.method() == Method::POST => jobs::stop(id, shared),
        ["api", "jobs", id] if *request.method() == Method::DELETE => jobs::delete(id, shared),
        ["api", "packages", protocol, name] => packages::answer(request, protocol, name, shared).await,
        _ if !get => text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed"),
        ["api", "jobs", ""] => json(shared.kept("jobs", |c| {
            let head = c.head();
            for job in c.jobs.iter_mut().filter(|j| !j.is_forgotten()) {
                job.text(head);
            }
            array(c.jobs.iter().filter_map(|j| j.written.as_deref())).into()
        })),
        ["api", "jobs", id] => jobs::one(id, shared),
        ["api", "jobs", id, "logs"] => jobs::logs(id, shared),
        ["api", "jobs", id, "logs", "tail"] => tail::answer(request, id, shared),
        ["api", "v0", "logs"] => logs::list(&query, shared),
        ["api", "v0", "logs", media @ ("file" | "stream")] => logs::read(&query, *media == "stream", shared),
        _ => read(&route, &query, shared),
    }
}

/// Answers `GET` requests whose only input is the path and the query string.
fn read(route: &[&str], query: &Query, shared: &Arc<Shared>) -> Response<Body> {
    match route {
        ["api", "authentication_mode"] => {
            let mode = if shared.token().is_some() { "token" } else { "disabled" };
            json(format!("{{\"authentication_mode\": \"{mode}\"}}"))
        }
        ["api", "gcs_healthz"] => text(StatusCode::OK, "success"),
        ["timezone"] => json(dumps(&json!({"offset": "+00:00", "value": "Europe/London"}))),
        ["api", "version"] => json(version(shared)),
        ["api", "prometheus", "sd"] => {
            let nodes = shared.now(|c| c.nodes.iter().filter(|n| n.is_alive()).count());
            let targets = vec![shared.metrics.to_string(); nodes];
            json(dumps(&json!([{"labels": {"job": "ray"}, "targets": targets}])))
        }
        ["worker", "traceback"] => stacks::answer(query, shared),
        ["nodes"] => nodes(query, shared),
        ["nodes", id] => json(node(id, shared)),
        ["api", "cluster_status"] => json(if query.get("format") == Some("1") {
            let kind = shared.scenario.autoscaler;
            shared.kept("status text", move |c| status::text(c, kind).into())
        } else {
            let kind = shared.scenario.autoscaler;
            shared.kept("status", move |c| status::report(c, kind).into())
        }),
        ["api", "v0", "nodes"] => rows::answer(query, &rows::NODES, |detail| {
            shared.now(|c| c.nodes.iter().map(|n| n.row(detail)).collect())
        }),
        ["api", "v0", "tasks"] => {
            rows::answer(query, &rows::TASKS, |detail| shared.now(|c| tasks::tasks(c, detail)))
        }
        ["api", "v0", "actors"] => {
            rows::answer(query, &rows::ACTORS, |detail| shared.now(|c| tasks::actors(c, detail)))
        }
        ["api", "v0", "placement_groups"] => {
            rows::answer(query, &rows::GROUPS, |detail| shared.now(|c| tasks::groups(c, detail)))
        }
        ["api", "v0", "tasks", "summarize"] => {
            let all = shared.now(|c| tasks::tasks(c, false));
            rows::summarized(query, &rows::TASKS, all, tasks::summary)
        }
        ["api", "v0", "actors", "summarize"] => {
            let all = shared.now(|c| tasks::actors(c, false));
            rows::summarized(query, &rows::ACTORS, all, tasks::actor_summary)
        }
        _ => text(StatusCode::NOT_FOUND, "404: Not Found"),
    }
}

fn version(shared: &Shared) -> String {
    let session = shared.now(|c| c.session.clone());
    dumps(&json!({
        "version": "4", "ray_version": shared.scenario.ray_version,
        "ray_commit": "b7f4259e944bf6959f721b106adc366ddfa0c356", "session_name": session,
    }))
}

fn nodes(query: &Query, shared: &Shared) -> Response<Body> {
    match query.get("view") {
        Some("summary") => json(shared.kept("nodes", |c| {
            let session = c.session.clone();
            for node in &mut c.nodes {
                node.summary(&session);
            }
            let summary = array(c.nodes.iter().filter_map(|n| n.written.as_deref()));
            let alive = c.nodes.iter().filter(|n| n.is_alive());
            let use_of = dumps(&object(alive.map(|n| (n.id.to_string(), n.logical_lines()))));
            envelope(
                "Node summary fetched.",
                &format!("{{\"summary\": {summary}, \"nodeLogicalResources\": {use_of}}}"),
            )
            .into()
        })),
        Some("hostNameList") => json(shared.now(|c| {
            let alive = c.nodes.iter().filter(|n| n.is_alive());
            let names: Vec<&str> = alive.map(|n| n.hostname.as_str()).collect();
            envelope("Node hostname list fetched.", &dumps(&json!({"hostNameList": names})))
        })),
        other => {
            let view = other.unwrap_or("None");
            let body = json!({"result": false, "msg": format!("Unknown view {view}"), "data": {}});
            whole(StatusCode::INTERNAL_SERVER_ERROR, "application/json; charset=utf-8", dumps(&body))
        }
    }
}

/// The response for one node. For an unknown id, Ray returns a skeleton with status 200.
fn node(id: &str, shared: &Shared) -> String {
    let skeleton = || {
        let raylet =
            json!({"objectStoreUsedMemory": 0, "objectStoreAvailableMemory": 0, "stateMessage": null});
        dumps(&json!({"raylet": raylet, "tpus": [], "actors": {}, "workers": []}))
    };
    let detail = shared.now(|c| {
        let session = c.session.clone();
        let id = NodeId::from_hex(id)?;
        let serving = c.serving(id);
        c.node(id).map(|n| n.detail(&session, &serving))
    });
    envelope("Node details fetched.", &format!("{{\"detail\": {}}}", detail.unwrap_or_else(skeleton)))
}
