//! The Python stacks of a worker's process (Ray's reporter agent, `dashboard/modules/reporter/reporter_head.py`).

use super::RayError;
use super::client::{Client, encoded};
use super::json::{Loose, Num, Str, read_with};
use crate::model::{JobKey, NodeId, SubmissionId, Text};
use crate::stacks::Dump;
use serde::Deserialize;

/// A job with its driver's process (`DriverInfo` of Ray's `dashboard/modules/job/pydantic_models.py`).
#[derive(Default, Deserialize)]
#[serde(default)]
struct Job<'a> {
    #[serde(borrow)]
    driver_info: Loose<Driver<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Driver<'a> {
    #[serde(borrow)]
    node_ip_address: Str<'a>,
    pid: Num,
}

impl Job<'_> {
    fn process(&self) -> Option<(Text, u32)> {
        let Driver { node_ip_address, pid } = &self.driver_info.0;
        let pid = u32::try_from(pid.whole()?).ok().filter(|pid| *pid > 0)?;
        (!node_ip_address.is_empty()).then(|| (node_ip_address.text(), pid))
    }
}

impl Client {
    /// The process of a job's driver: the address of its node, and its process id there (`GET /api/jobs/{id}`). None
    /// before it has called `ray.init`, and once it has ended.
    pub async fn driver_process(&self, key: &JobKey) -> Result<Option<(Text, u32)>, RayError> {
        let id = match key {
            JobKey::Submission(SubmissionId(id)) => id,
            JobKey::Driver(id) => &id.0,
        };
        let route = format!("/api/jobs/{}", encoded(id.raw()));
        let body = self.get(&route).await?;
        read_with(&route, &body, |text| Ok(serde_json::from_str::<Job<'_>>(text)?.process()))
    }

    /// The stacks of a process of a node (`GET /worker/traceback`). Takes 30 to 300 ms, during which the process
    /// continues.
    ///
    /// [`RayError::Forbidden`] if profiling is off, as it is in Ray 2.60 unless the head was started with
    /// `RAY_DASHBOARD_ENABLE_PROFILING=1`; [`RayError::Status`] with py-spy's message if it cannot read the process,
    /// which may have ended.
    pub async fn stacks(&self, node: NodeId, pid: u32) -> Result<Dump, RayError> {
        let body = self.get(&format!("/worker/traceback?pid={pid}&node_id={node}")).await?;
        Dump::read(&String::from_utf8_lossy(&body)).ok_or_else(|| RayError::Malformed {
            route: "/worker/traceback".to_owned(),
            why: "it contains no threads".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::convert::fixtures::{VERSIONS, text};
    use super::*;

    #[test]
    fn a_recorded_running_job_has_the_process_of_its_driver() {
        for version in VERSIONS {
            let jobs = text(version, "busy_jobs");
            let jobs: Vec<Job<'_>> = serde_json::from_str(&jobs).unwrap();
            let found: Vec<_> = jobs.iter().filter_map(Job::process).collect();
            assert!(!found.is_empty() && found.len() < jobs.len(), "{version}: {found:?}");
            assert!(found.iter().all(|(address, _)| address.raw().starts_with("10.")), "{found:?}");
        }
        let odd = r#"{"driver_info": {"node_ip_address": "10.0.0.1", "pid": "-7"}}"#;
        assert_eq!(serde_json::from_str::<Job<'_>>(odd).unwrap().process(), None);
    }
}
