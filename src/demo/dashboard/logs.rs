//! The state API's logs: the files of a node, and one of them as a whole or followed.

use super::super::cluster::Cluster;
use super::super::cluster::log::Log;
use super::super::cluster::system_log::SystemLog;
use super::super::connection::{Body, text};
use super::super::json::dumps;
use super::super::life::stamp::stamp;
use super::super::shared::Shared;
use super::failure::in_trouble;
use super::json;
use super::query::Query;
use super::rows::{refuse, refuse_with};
use crate::model::NodeId;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::{Map, Value, json};
use std::io;
use std::sync::Arc;

/// Number of lines that are returned by default, and for `lines=0`.
const LINES: u64 = 1000;

/// Log files of each node, in addition to those of job drivers.
const FILES: [(&str, &[&str]); 5] = [
    ("raylet", &["raylet.out", "raylet.err"]),
    ("gcs_server", &["gcs_server.out", "gcs_server.err"]),
    ("autoscaler", &["monitor.log", "monitor.out", "monitor.err"]),
    ("dashboard", &["dashboard.log", "dashboard.err"]),
    ("agent", &["dashboard_agent.log"]),
];

/// The node in a query, by id or address.
fn node_in(query: &Query, cluster: &Cluster) -> Result<NodeId, Response<Body>> {
    match (query.get("node_id"), query.get("node_ip")) {
        (Some(id), _) => {
            let node = cluster.nodes.iter().find(|n| n.is_alive() && n.id.to_string() == id);
            node.map(|n| n.id).ok_or_else(in_trouble)
        }
        (None, Some(ip)) => {
            let node = cluster.nodes.iter().find(|n| n.is_alive() && n.ip == ip);
            let message = format!("Cannot find matching node_id for a given node ip {ip}");
            node.map(|n| n.id).ok_or_else(|| refuse_with(StatusCode::NOT_FOUND, &message))
        }
        (None, None) => {
            Err(refuse("Both node id and node ip are not provided. Please provide at least one of them."))
        }
    }
}

/// `GET /api/v0/logs`.
pub(in crate::demo) fn list(query: &Query, shared: &Shared) -> Response<Body> {
    let glob = query.get("glob").unwrap_or("*").to_owned();
    if glob.contains("..") {
        return in_trouble();
    }
    shared.now(|c| {
        let node = match node_in(query, c) {
            Ok(node) => node,
            Err(refusal) => return refusal,
        };
        let is_head = node == c.head();
        let wanted = |name: &&str| matches(&glob, name);
        let mut found = Map::new();
        for (category, files) in
            FILES.iter().filter(|(category, _)| is_head || matches!(*category, "raylet" | "agent"))
        {
            let files: Vec<&str> = files.iter().copied().filter(wanted).collect();
            if !files.is_empty() {
                found.insert((*category).into(), json!(files));
            }
        }
        let of_node = c.jobs.iter().filter(|j| is_head || j.driver_node == Some(node));
        let ids = of_node.filter_map(|j| j.submission.as_deref());
        let drivers: Vec<String> =
            ids.map(|id| format!("job-driver-{id}.log")).filter(|f| wanted(&f.as_str())).collect();
        if !drivers.is_empty() {
            found.insert("internal".into(), json!(drivers));
        }
        for (category, files) in ["worker_out", "worker_err"].iter().zip(c.worker_files(node)) {
            let files: Vec<String> = files.into_iter().filter(|f| wanted(&f.as_str())).collect();
            if !files.is_empty() {
                found.insert((*category).into(), json!(files));
            }
        }
        json(dumps(&json!({"result": true, "msg": "", "data": {"result": Value::Object(found)}})))
    })
}

/// Glob matching that supports only `*`, which is all that the console uses.
fn matches(glob: &str, name: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The log in a query.
#[derive(Clone)]
enum Source {
    /// A job's driver log, by submission id.
    Job(String),
    /// A file of a node.
    File(NodeId, String),
}

impl Source {
    fn find(&self, cluster: &mut Cluster) -> Option<Log> {
        match self {
            Self::Job(id) => cluster.job(id).map(|j| j.log.clone()),
            Self::File(node, name) => {
                if let Some(id) = name.strip_prefix("job-driver-").and_then(|n| n.strip_suffix(".log")) {
                    return cluster.job(id).map(|j| j.log_on(*node));
                }
                if let Some(written) = cluster.files.get(name) {
                    return Some(written.clone());
                }
                if let Some(log) = cluster.worker_log(*node, name) {
                    return Some(log);
                }
                let known = FILES.iter().any(|(_, files)| files.contains(&name.as_str()));
                let on = cluster.nodes.iter().find(|n| n.id == *node);
                if let Some(log) = on.filter(|_| known).and_then(|n| SystemLog::of(name, n, cluster.began)) {
                    return Some(Log::System(log));
                }
                if let Some(head) = on.filter(|_| name == "monitor.out" && cluster.life.is_some()) {
                    let line = "INFO monitor.py:265 -- Starting autoscaler metrics server on port 44217";
                    return Some(Log::Written(format!("{}\t{line}\n", stamp(head.started)).into_bytes()));
                }
                let is_err = name.strip_suffix(".err").is_some();
                known.then(|| if is_err { Log::none() } else { Log::growing(cluster.began, 500, 1) })
            }
        }
    }
}

/// `GET /api/v0/logs/file` and `/api/v0/logs/stream`.
pub(in crate::demo) fn read(query: &Query, follow: bool, shared: &Arc<Shared>) -> Response<Body> {
    let lines = match query.get("lines").map(str::parse::<i64>) {
        None | Some(Ok(0)) => Some(LINES),
        Some(Ok(-1)) => None,
        Some(Ok(n)) if n > 0 => Some(n.unsigned_abs()),
        Some(_) => return in_trouble(),
    };
    let found = shared.now(|c| {
        // Every error except a missing file is an exception in Ray's handler.
        let node = node_in(query, c).map_err(|_| in_trouble())?;
        let source = match (query.get("submission_id"), query.get("filename")) {
            (Some(id), _) => Source::Job(id.to_owned()),
            (None, Some(name)) => Source::File(node, name.to_owned()),
            (None, None) => return Err(in_trouble()),
        };
        let log = source.find(c).ok_or_else(|| missing(&source, &c.session))?;
        let first = log.tail(lines, c.now);
        // Ray 2.53 fails if it ends a response before its first byte.
        if first.is_empty() && !follow && shared.scenario.ray_version.starts_with("2.53") {
            return Err(in_trouble());
        }
        Ok((first, log.end_position(c.now), source))
    });
    let (first, position, source) = match found {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    let first = stream::iter([Ok::<_, io::Error>(Frame::data(Bytes::from(first)))]);
    let body = if follow {
        let rest = stream::unfold((shared.clone(), source, position), follow_on);
        StreamBody::new(futures_util::StreamExt::chain(first, rest)).boxed_unsync()
    } else {
        StreamBody::new(first).boxed_unsync()
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    let name = HeaderValue::from_static("attachment; filename=\"file.txt\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, name);
    response
}

fn missing(source: &Source, session: &str) -> Response<Body> {
    let message = match source {
        Source::File(_, name) => format!("A file is not found at: /tmp/ray/{session}/logs/{name}"),
        Source::Job(id) => format!(
            "Could not find a log file. Please make sure the given option exists in the cluster.\n\tnode_id: None\n\tfilename: None\n\tactor_id: None\n\ttask_id: None\n\tpid: None\n\tsuffix: out\n\tsubmission_id: {id}\n\tattempt_number: 0\n"
        ),
    };
    text(StatusCode::INTERNAL_SERVER_ERROR, message)
}

type Following = (Arc<Shared>, Source, u64);

/// The next bytes of a followed file, which does not end on its own.
async fn follow_on((shared, source, mut at): Following) -> Option<(io::Result<Frame<Bytes>>, Following)> {
    loop {
        let frame = shared.now(|c| {
            let now = c.now;
            source.find(c).map(|log| log.frame(&mut at, now))
        })?;
        if frame.is_empty() {
            tokio::time::sleep(shared.scenario.tail_poll).await;
        } else {
            return Some((Ok(Frame::data(Bytes::from(frame))), (shared, source, at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_matches_anything() {
        assert!(matches("*monitor*", "monitor.log"));
        assert!(matches("monitor*", "monitor.log"));
        assert!(matches("*", "raylet.out"));
        assert!(matches("raylet.out", "raylet.out"));
        assert!(!matches("raylet", "raylet.out"));
        assert!(!matches("monitor*.err", "monitor.log"));
    }
}
