//! Details for the page of a job or a host, in addition to its row.

use super::super::client::Client;
use super::super::convert::host;
use super::super::logs::cleaned;
use super::RayError;
use crate::model::{
    ChipUse, HostInspection, HostProcess, Inspection, JobIds, JobInspection, Line, NodeId, Subject,
    SubmissionId, Text,
};
use serde_json::Value;

/// Lines of a job's log that its page shows.
const LAST_LINES: u32 = 20;
/// Maximum number of values that are kept of a runtime environment: a list of packages may be long.
const MAX_VALUES: usize = 200;

/// The values of a JSON text with their paths, in order; an array is one value, e.g. `pip.packages`.
fn flat(json: &str) -> Vec<(Text, Text)> {
    fn walk(path: &str, value: &Value, into: &mut Vec<(Text, Text)>) {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let simple = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match value {
            _ if into.len() >= MAX_VALUES => {}
            Value::Null => {}
            Value::Object(fields) => fields.iter().for_each(|(key, value)| walk(&below(key), value, into)),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(simple).collect();
                into.push((path.into(), items.join(", ").as_str().into()));
            }
            value => into.push((path.into(), simple(value).as_str().into())),
        }
    }
    let mut values = Vec::new();
    walk("", &serde_json::from_str(json).unwrap_or_default(), &mut values);
    values
}

impl Client {
    /// The details of a job or a host. A refused token is an error; any other failure is part of the result.
    pub async fn inspect(&self, subject: &Subject) -> Result<Inspection, RayError> {
        match subject {
            Subject::Job { ids, through } => self.inspect_job(ids, *through).await.map(Inspection::Job),
            Subject::Host(node) => self.inspect_host(*node).await.map(Inspection::Host),
        }
    }

    /// Takes seven requests: `GET /api/jobs/{id}`, the lists of tasks, actors and placement groups (`/api/v0/*`), and
    /// the end of the driver's log.
    async fn inspect_job(&self, ids: &JobIds, through: Option<NodeId>) -> Result<JobInspection, RayError> {
        let environment = match &ids.submission {
            Some(id) => part(self.job(id).await.map(|detail| flat(detail.runtime_env.raw())))?,
            None => Ok(Vec::new()),
        };
        let (groups, workers) = match &ids.driver {
            Some(driver) => (part(self.groups(driver).await)?, part(self.processes(driver).await)?),
            None => (Ok(Vec::new()), Ok(Vec::new())),
        };
        let log = match ids.submission.as_ref().zip(through) {
            Some((id, node)) => part(self.last_lines(id, node).await)?,
            None => Ok(Vec::new()),
        };
        Ok(JobInspection { environment, groups, workers, log })
    }

    async fn last_lines(&self, id: &SubmissionId, node: NodeId) -> Result<Vec<Line>, RayError> {
        Ok(cleaned(&self.read_job_log(id, node, LAST_LINES).await?))
    }

    /// Takes two requests: `GET /nodes/{id}` and the list of its files (`GET /api/v0/logs`).
    async fn inspect_host(&self, node: NodeId) -> Result<HostInspection, RayError> {
        let (processes, chips) = self.host(node).await?;
        let logs = part(self.log_files(node, "*").await.map(|files| files.0))?;
        Ok(HostInspection { chips, processes, logs })
    }

    /// The chips of a host that Ray's agent reports (`GET /nodes/{id}`): GPUs, and TPUs if a device plug-in exposes
    /// them.
    pub async fn chips(&self, node: NodeId) -> Result<Vec<ChipUse>, RayError> {
        Ok(self.host(node).await?.1)
    }

    async fn host(&self, node: NodeId) -> Result<(Vec<HostProcess>, Vec<ChipUse>), RayError> {
        // Without `nocache` Ray returns its last response, however old.
        let route = format!("/nodes/{node}?nocache=1");
        host::host(&route, &self.get(&route).await?)
    }
}

/// A part of a result, or why it is missing. A token error fails the whole request: nothing else can be read either.
fn part<T>(answer: Result<T, RayError>) -> Result<Result<T, String>, RayError> {
    match answer {
        Err(e) if e.is_token() => Err(e),
        answer => Ok(answer.map_err(|e| e.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_paths_and_values() {
        let json = r#"{"env_vars": {"A": "***"}, "pip": {"packages": ["jax", "haliax"], "pip_check": false}, "x": null}"#;
        let flat: Vec<_> = flat(json).iter().map(|(p, v)| format!("{p}={v}")).collect();
        assert_eq!(flat, ["env_vars.A=***", "pip.packages=jax, haliax", "pip.pip_check=false"]);
        for odd in ["", "[]", "7", "{\"a\": [[1]]}"] {
            assert!(super::flat(odd).len() <= 1, "{odd}");
        }
        let many = format!("{{{}}}", (0..500).map(|n| format!("\"k{n}\": 1")).collect::<Vec<_>>().join(","));
        assert_eq!(super::flat(&many).len(), MAX_VALUES);
    }
}
