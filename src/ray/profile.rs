//! The Python stacks of a worker's process (Ray's reporter agent, `dashboard/modules/reporter/reporter_head.py`).

use super::RayError;
use super::client::Client;
use crate::model::NodeId;
use crate::stacks::Dump;

impl Client {
    /// The stacks of a process of a node (`GET /worker/traceback`): 30 to 300 ms, in which the process goes on.
    ///
    /// [`RayError::Forbidden`] where profiling is off, as Ray 2.60 has it unless the head was started with
    /// `RAY_DASHBOARD_ENABLE_PROFILING=1`; [`RayError::Status`] with the words of py-spy where it cannot read the process,
    /// which may have ended.
    pub async fn stacks(&self, node: NodeId, pid: u32) -> Result<Dump, RayError> {
        let body = self.get(&format!("/worker/traceback?pid={pid}&node_id={node}")).await?;
        Dump::read(&String::from_utf8_lossy(&body)).ok_or_else(|| RayError::Malformed {
            route: "/worker/traceback".to_owned(),
            why: "there is no thread in it".to_owned(),
        })
    }
}
