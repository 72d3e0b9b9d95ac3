//! What the page of a job or a host shows beside its row.

use super::super::client::{Client, encoded};
use super::super::convert::{envelope, host};
use super::super::json::{Loose, Num, Rows, Str, Table, read_with};
use super::super::logs::cleaned;
use super::RayError;
use crate::model::{
    Bundle, ChipUse, HostInspection, HostProcess, Inspection, JobId, JobIds, JobInspection, Line, NodeId,
    PlacementGroup, Subject, SubmissionId, Text, Timestamp,
};
use serde::Deserialize;
use serde_json::Value;

/// Lines of a job's log that its page shows.
const LAST_LINES: u32 = 20;
/// Placement groups that are read.
const GROUPS: u32 = 1000;
/// Values of a runtime environment that are kept: a list of packages may be long.
const VALUES: usize = 200;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Group<'a> {
    #[serde(borrow)]
    placement_group_id: Str<'a>,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    state: Str<'a>,
    #[serde(borrow)]
    bundles: Rows<Part<'a>>,
    #[serde(borrow)]
    stats: Loose<Stats<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    unit_resources: Table<Num>,
    #[serde(borrow)]
    node_id: Str<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stats<'a> {
    #[serde(borrow)]
    scheduling_state: Str<'a>,
    creation_request_received_ns: Num,
}

impl Group<'_> {
    fn group(&self) -> PlacementGroup {
        let bundle = |part: &Part<'_>| -> Bundle {
            let wanted = part.unit_resources.0.iter();
            let shape = wanted.filter_map(|(name, n)| Some((Text::from(name.as_str()), n.0?))).collect();
            (shape, NodeId::from_hex(&part.node_id.0))
        };
        let is_placed = matches!(&*self.stats.0.scheduling_state.0, "" | "FINISHED");
        let nanoseconds = self.stats.0.creation_request_received_ns.0.filter(|ns| *ns > 0.0);
        PlacementGroup {
            id: self.placement_group_id.text(),
            name: self.name.text(),
            state: self.state.text(),
            why: if is_placed { Text::default() } else { self.stats.0.scheduling_state.text() },
            created: nanoseconds.map(|ns| Timestamp::from_millis((ns / 1e6) as i64)),
            bundles: self.bundles.0.iter().map(bundle).collect(),
        }
    }
}

fn groups(text: &str) -> Result<Vec<PlacementGroup>, serde_json::Error> {
    let list = envelope::listed::<Group<'_>>(text)?;
    Ok(list.result.0.iter().map(Group::group).collect())
}

/// The values of a JSON text with their paths, in its order: `pip.packages` with all of them.
fn flat(json: &str) -> Vec<(Text, Text)> {
    fn walk(path: &str, value: &Value, into: &mut Vec<(Text, Text)>) {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let simple = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match value {
            _ if into.len() >= VALUES => {}
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
    /// What the page of a job or a host shows of it. A token that is refused is an error; what else cannot be read is in
    /// the answer.
    pub async fn inspect(&self, subject: &Subject) -> Result<Inspection, RayError> {
        match subject {
            Subject::Job { ids, through } => self.inspect_job(ids, *through).await.map(Inspection::Job),
            Subject::Host(node) => self.inspect_host(*node).await.map(Inspection::Host),
        }
    }

    /// Takes seven requests: `GET /api/jobs/{id}`, the lists of tasks, actors and placement groups (`/api/v0/*`), and the
    /// end of the driver's log.
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

    /// The placement groups that a driver made (`GET /api/v0/placement_groups`).
    async fn groups(&self, job: &JobId) -> Result<Vec<PlacementGroup>, RayError> {
        let job = encoded(job.0.raw());
        let filter = format!("filter_keys=creator_job_id&filter_predicates=%3D&filter_values={job}");
        let body = self.get(&format!("/api/v0/placement_groups?{filter}&detail=1&limit={GROUPS}")).await?;
        read_with("/api/v0/placement_groups", &body, groups)
    }

    /// Takes two requests: `GET /nodes/{id}` and the list of its files (`GET /api/v0/logs`).
    async fn inspect_host(&self, node: NodeId) -> Result<HostInspection, RayError> {
        let (processes, chips) = self.host(node).await?;
        let logs = part(self.log_files(node, "*").await.map(|files| files.0))?;
        Ok(HostInspection { chips, processes, logs })
    }

    /// The chips of a host that Ray's agent sees (`GET /nodes/{id}`): GPUs, and TPUs where a device plug-in tells of them.
    pub async fn chips(&self, node: NodeId) -> Result<Vec<ChipUse>, RayError> {
        Ok(self.host(node).await?.1)
    }

    async fn host(&self, node: NodeId) -> Result<(Vec<HostProcess>, Vec<ChipUse>), RayError> {
        // Without `nocache` Ray returns its last response, however old.
        let route = format!("/nodes/{node}?nocache=1");
        host::host(&route, &self.get(&route).await?)
    }
}

/// A part of an answer, or why it is not there. Without a token nothing else can be read either.
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
        assert_eq!(super::flat(&many).len(), VALUES);
    }

    #[test]
    fn a_group_says_where_its_bundles_are_or_why_they_are_nowhere() {
        let node = "ab".repeat(28);
        let row = |state: &str, stats: &str, node: &str| {
            format!(
                "{{\"placement_group_id\": \"f7\", \"name\": \"gang\", \"state\": \"{state}\", \"bundles\": [{{\"unit_resources\": \
                 {{\"TPU\": 4.0}}, \"node_id\": \"{node}\"}}, 7], \"stats\": {{\"scheduling_state\": \"{stats}\", \
                 \"creation_request_received_ns\": \"1795229300123000000\"}}}}"
            )
        };
        let rows = [row("CREATED", "FINISHED", &node), row("PENDING", "NO_RESOURCES", ""), "{}".to_owned()];
        let list =
            format!("{{\"result\": true, \"data\": {{\"result\": {{\"result\": [{}]}}}}}}", rows.join(", "));
        let all = groups(&list).unwrap();
        assert_eq!((all[0].why.raw(), all[1].why.raw(), all.len()), ("", "NO_RESOURCES", 3));
        assert_eq!(all[0].bundles, [(vec![("TPU".into(), 4.0)], NodeId::from_hex(&node))]);
        assert_eq!(all[1].bundles[0].1, None);
        assert_eq!(all[1].created, Some(Timestamp::from_millis(1_795_229_300_123)));
    }
}
