//! The nodes' Prometheus endpoints, which some consoles scrape one by one: `GET /metrics`, without a token.
//!
//! All nodes share one loopback socket here: each request gets the next node's text in turn, so a client that scrapes
//! every target gets every node.

use super::super::cluster::node::SimNode;
use super::super::connection::{Body, Io, text, whole};
use super::super::shared::Shared;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of histogram lines of a node, for a text of about 60 kB, half the size of a real busy node's.
const HISTOGRAM: usize = 210;

/// Serves the endpoints on one connection.
pub(in crate::demo) async fn serve(io: Io, shared: Arc<Shared>) {
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &shared))));
    // An error means that the client disconnected.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
}

fn answer(request: &Request<Incoming>, shared: &Shared) -> Response<Body> {
    let path = request.uri().path();
    let _answering = shared.meter.request(path);
    if path != "/metrics" {
        return text(StatusCode::NOT_FOUND, "404: Not Found");
    }
    let turn = shared.scraped.fetch_add(1, Ordering::Relaxed);
    let body = shared.now(|c| {
        let alive: Vec<&SimNode> = c.nodes.iter().filter(|n| n.is_alive()).collect();
        exposition(alive[turn % alive.len()], &c.session)
    });
    whole(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", body)
}

/// The metrics of one node in the text format of Prometheus.
fn exposition(node: &SimNode, session: &str) -> String {
    let kind = if node.is_head { "head" } else { "worker" };
    let labels = format!(
        "IsHeadNode=\"{}\",RayNodeType=\"{kind}\",SessionName=\"{session}\",Version=\"2.60.0\",ip=\"{}\",\
         otel_scope_name=\"ray._private.telemetry.open_telemetry_metric_recorder\"",
        node.is_head, node.ip
    );
    let memory = node.resources.iter().find(|r| r.0 == "memory").map_or(0.0, |r| r.1 * 1.4);
    let gauges = [
        ("ray_node_cpu_utilization", node.cpu_percent),
        ("ray_node_mem_used", memory * node.memory_share),
        ("ray_node_mem_total", memory),
        ("ray_node_disk_usage", 270_553_174_016.0 * node.disk_share()),
        ("ray_node_disk_free", 270_553_174_016.0 * (1.0 - node.disk_share())),
        ("ray_node_network_receive_speed", 2_345_678.9),
        ("ray_node_network_send_speed", 1_234_567.8),
    ];
    let mut out = String::with_capacity(64_000);
    // Writing to a String cannot fail.
    for (name, value) in gauges {
        let _ = writeln!(out, "# TYPE {name} gauge\n{name}{{{labels}}} {value:e}");
    }
    for bucket in 0..HISTOGRAM {
        let name = "ray_grpc_server_req_process_time_ms_bucket";
        let _ =
            writeln!(out, "{name}{{{labels},Method=\"NodeManagerService\",le=\"{bucket}\"}} {}", bucket * 3);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::random::Random;

    #[test]
    fn the_text_of_a_node_has_about_sixty_kilobytes() {
        let text = exposition(&SimNode::head(&mut Random::new(1), 0), "session_2026-11-21_02-46-44_540387_1");
        assert!((50_000..70_000).contains(&text.len()), "{}", text.len());
        assert!(text.contains("ray_node_cpu_utilization{IsHeadNode=\"true\""));
    }
}
