//! `GET /worker/traceback`: the Python stacks of a worker in the format of py-spy. With simulated activity, profiling
//! is enabled (`RAY_DASHBOARD_ENABLE_PROFILING=1`); otherwise it has the default of the Ray version.

use super::super::connection::{Body, text};
use super::super::shared::Shared;
use super::failure::in_trouble;
use super::query::Query;
use crate::model::NodeId;
use http::{Response, StatusCode};

/// The response of Ray 2.60 while profiling is disabled.
const PROFILING_DISABLED: &str = "Profiling is disabled by default for security reasons. To enable profiling, set the environment variable \
RAY_DASHBOARD_ENABLE_PROFILING=1 on the Ray head node. See \
https://docs.ray.io/en/latest/ray-observability/user-guides/profiling.html for details.";

/// Answers the route.
pub(super) fn answer(query: &Query, shared: &Shared) -> Response<Body> {
    let scenario = &shared.scenario;
    if scenario.life.is_none() && !scenario.ray_version.starts_with("2.53") {
        return text(StatusCode::FORBIDDEN, PROFILING_DISABLED);
    }
    let (Some(pid), Some(node)) = (query.get("pid"), query.get("node_id")) else { return in_trouble() };
    let found = shared.now(|c| {
        let id = NodeId::from_hex(node).filter(|id| c.node(*id).is_some_and(|node| node.is_alive()))?;
        Some(pid.parse().ok().and_then(|pid| c.stacks(id, pid)))
    });
    match found {
        None => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("Failed to get agent address for node at node_id {node}"),
        ),
        Some(None) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!(
                "Failed to execute `['/opt/ray/bin/py-spy', 'dump', '-p', '{pid}']`.\n\n=== stderr ===\nError: Failed to get \
                 process executable name. Check that the process is running.\n\nCaused by:\n    0: No such file or \
                 directory (os error 2)\n\n\n=== stdout ===\n\n"
            ),
        ),
        Some(Some(stacks)) => text(StatusCode::OK, stacks),
    }
}
