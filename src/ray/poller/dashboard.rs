//! Reads a cluster through its dashboard only: the fallback, slower and with less data.

use super::super::convert::{jobs, nodes, physical, report, status_text};
use super::super::json::{Loose, Str, read_with};
use super::super::{Client, RayError};
use super::identity::{IDENTITY_EVERY, Identity};
use super::read_schedule::{off_the_loop, unless_same, unless_same_jobs};
use crate::model::{Autoscaler, Job, Node};
use crate::model::{AutoscalerVersion, JobKey, MissingPart, Snapshot, SnapshotPart, Timestamp};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of nodes for reading the summary (10 to 17 kB each), which has data that the state API lacks.
const MAX_NODES_FOR_SUMMARY: usize = 32;

/// The data kept between two reads.
#[derive(Debug, Default)]
pub struct Reader {
    identity: Option<(Instant, Identity)>,
    known: HashMap<JobKey, Arc<Job>>,
}

/// Adds the data of the autoscaler's report to the nodes.
type Describe = Box<dyn Fn(&mut [Node]) + Send>;

impl Reader {
    /// Reads the cluster once. A part that fails keeps its last data and is named in [`Snapshot::missing`]; an error is
    /// returned only when nothing could be read, or when the token is missing or refused.
    pub async fn read(&mut self, client: &Client, last: &Snapshot) -> Result<Snapshot, RayError> {
        let identity = self.identity(client).await?;
        let (nodes, jobs, status) = tokio::join!(client.nodes(), client.jobs(&self.known), status(client));
        if nodes.is_err() || jobs.is_err() {
            self.forget();
        }
        if let (Err(error), Err(_), Err(_)) = (&nodes, &jobs, &status) {
            return Err(error.clone());
        }
        let mut snapshot = if last.session == identity.session { last.clone() } else { Snapshot::default() };
        let mut missing = Vec::new();
        let mut note = |part, error: RayError| missing.push(MissingPart { part, why: error.to_string() });
        let mut describe: Option<Describe> = None;
        match status {
            Ok((autoscaler, fill)) => {
                snapshot.autoscaler = unless_same(&last.autoscaler, autoscaler);
                describe = Some(fill);
            }
            Err(error) => note(SnapshotPart::Autoscaler, error),
        }
        match nodes {
            Ok(mut nodes) => {
                if let Some(fill) = describe {
                    fill(&mut nodes);
                }
                if nodes.len() <= MAX_NODES_FOR_SUMMARY {
                    match client.summary().await {
                        Ok(summary) => summary.fill(&mut nodes),
                        Err(error) => note(SnapshotPart::LiveUse, error),
                    }
                }
                nodes::sort(&mut nodes);
                snapshot.nodes = unless_same(&last.nodes, nodes);
            }
            Err(error) => note(SnapshotPart::Nodes, error),
        }
        match jobs {
            Ok(jobs) => {
                self.known = jobs.iter().map(|job| (job.key.clone(), job.clone())).collect();
                snapshot.jobs = unless_same_jobs(&last.jobs, jobs);
            }
            Err(error) => note(SnapshotPart::Jobs, error),
        }
        snapshot.ray_version = identity.ray_version;
        snapshot.session = identity.session;
        snapshot.missing = missing;
        Ok(snapshot)
    }

    /// Called after a failure, which may be a restart of Ray: the next read checks version and session again.
    fn forget(&mut self) {
        self.identity = None;
        self.known.clear();
    }

    async fn identity(&mut self, client: &Client) -> Result<Identity, RayError> {
        if let Some((at, identity)) = &self.identity
            && at.elapsed() < IDENTITY_EVERY
        {
            return Ok(identity.clone());
        }
        let identity = match client.version().await {
            Ok(identity) => identity,
            Err(error) => {
                self.forget();
                return Err(error);
            }
        };
        if self.identity.as_ref().is_some_and(|(_, old)| *old != identity) {
            self.known.clear();
        }
        self.identity = Some((Instant::now(), identity.clone()));
        Ok(identity)
    }
}

impl Client {
    /// Nodes from the state API: exact names, no live use (`GET /api/v0/nodes`).
    async fn nodes(&self) -> Result<Vec<Node>, RayError> {
        let route = "/api/v0/nodes?detail=1&limit=10000";
        let body = self.get(route).await?;
        off_the_loop(body.len(), move || nodes::list(route, &body)).await
    }

    /// All jobs (`GET /api/jobs/`), newest first; those in `known` that did not change keep their allocation.
    async fn jobs(&self, known: &HashMap<JobKey, Arc<Job>>) -> Result<Vec<Arc<Job>>, RayError> {
        let route = "/api/jobs/";
        let body = self.get(route).await?;
        let known = known.clone();
        let list = off_the_loop(body.len(), move || {
            let mut list = jobs::list(route, &body, &known)?;
            jobs::sort(&mut list);
            Ok(list)
        });
        list.await
    }

    /// The data of every node's agent (`GET /nodes?view=summary`), with `nocache`, because Ray otherwise returns its
    /// last response, however old.
    pub(in crate::ray) async fn summary(&self) -> Result<physical::Summary, RayError> {
        let route = "/nodes?view=summary&nocache=1";
        let body = self.get(route).await?;
        off_the_loop(body.len(), move || physical::summary(route, &body)).await
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow, rename = "autoscalingError")]
    error: Str<'a>,
    #[serde(borrow, rename = "clusterStatus")]
    report: Option<Loose<report::Report<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusText<'a> {
    #[serde(borrow, rename = "clusterStatus")]
    text: Str<'a>,
}

/// The autoscaler's report: JSON of v1, otherwise the text that v2 renders on demand.
async fn status(client: &Client) -> Result<(Autoscaler, Describe), RayError> {
    let route = "/api/cluster_status";
    let body = client.get(route).await?;
    let v1 = off_the_loop(body.len(), move || {
        read_with(route, &body, |text| {
            let status: Status = super::super::convert::envelope::data(text)?;
            let error = status.error.text();
            let used =
                |r: &Loose<report::Report>| (r.0.autoscaler(error.clone()), r.0.node_types(), r.0.usage());
            Ok(status.report.as_ref().map(used))
        })
    });
    if let Some((autoscaler, types, usage)) = v1.await? {
        let fill = move |nodes: &mut [Node]| {
            report::name_types(nodes, &types);
            report::fill_use(nodes, &usage);
        };
        return Ok((autoscaler, Box::new(fill)));
    }
    let text = client.cluster_status_text().await?;
    let none = || Autoscaler { version: AutoscalerVersion::None, ..Autoscaler::default() };
    Ok((status_text::read(&text, Timestamp::now()).unwrap_or_else(none), Box::new(|_| {})))
}

impl Client {
    /// The report that `ray status` prints (`GET /api/cluster_status?format=1`).
    pub async fn cluster_status_text(&self) -> Result<String, RayError> {
        let route = "/api/cluster_status?format=1";
        let body = self.get(route).await?;
        read_with(route, &body, |text| {
            let text: StatusText = super::super::convert::envelope::data(text)?;
            Ok(text.text.0.into_owned())
        })
    }
}
