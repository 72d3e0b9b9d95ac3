//! Reads a cluster through its GCS: one round of concurrent calls, and one more for the jobs that changed.

use super::super::RayError;
use super::super::convert::interner::Interner;
use super::super::convert::{demand, in_order, jobs, nodes, report, state};
use super::super::gcs::{Gcs, decode, succeeded};
use super::super::json::read_with;
use super::identity::IDENTITY_EVERY;
use super::jobs::{Fetched, JobTable};
use super::read_schedule::{ReadSchedule, off_the_loop, unless_same};
use crate::model::{Autoscaler, Node};
use crate::model::{DemandKind, NodeId, NodeState, Snapshot, Text, Timestamp};
use crate::proto::gcs_node_info::GcsNodeState;
use crate::proto::{self, autoscaler, path};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Keys of autoscaler v1's report and error (`ray_constants.DEBUG_AUTOSCALING_*`).
const V1_REPORT: Bytes = Bytes::from_static(proto::V1_REPORT);
const V1_ERROR: Bytes = Bytes::from_static(b"__autoscaling_error");

/// A connection, and the data kept between two reads.
#[derive(Debug)]
pub struct Channel {
    gcs: Gcs,
    session: String,
    version: Option<(Instant, Text)>,
    registry: Arc<Registry>,
    registry_pace: ReadSchedule,
    jobs: JobTable,
    drivers_pace: ReadSchedule,
    v1: V1,
    v2: Heartbeat,
}

/// The report of autoscaler v1.
#[derive(Debug, Default)]
struct V1 {
    pace: ReadSchedule,
    report: Autoscaler,
    node_types: HashMap<String, Text>,
}

/// Watches the cluster version that autoscaler v2 has seen: only its progress shows that the monitor is running.
#[derive(Debug, Default)]
struct Heartbeat {
    version: i64,
    first: Option<Timestamp>,
    advanced: Option<Timestamp>,
}

impl Heartbeat {
    /// When the report was last seen to change.
    fn seen(&mut self, version: i64, now: Timestamp) -> Option<Timestamp> {
        /// Two iterations of its loop: after a longer silence the monitor counts as silent from the beginning.
        const SILENT_AFTER: Duration = Duration::from_secs(10);
        match self.first {
            None => self.first = Some(now),
            Some(_) if version != self.version => self.advanced = Some(now),
            Some(_) => {}
        }
        self.version = version;
        self.advanced.or(self.first.filter(|first| first.age(now) >= SILENT_AFTER))
    }
}

/// Nodes by id, as they registered.
type Registry = HashMap<NodeId, Arc<Node>>;

/// The responses of one round; `None` for calls that were not due.
struct Round {
    status: Bytes,
    keys: Bytes,
    registry: Option<Bytes>,
    drivers: Option<Bytes>,
    v1: Option<Bytes>,
    version: Option<String>,
}

impl Channel {
    pub fn new(gcs: Gcs) -> Self {
        Self {
            gcs,
            session: String::new(),
            version: None,
            registry: Arc::default(),
            registry_pace: ReadSchedule::default(),
            jobs: JobTable::default(),
            drivers_pace: ReadSchedule::default(),
            v1: V1::default(),
            v2: Heartbeat::default(),
        }
    }

    /// The GCS that it reads.
    pub fn gcs(&self) -> &Gcs {
        &self.gcs
    }

    /// Reads the cluster once.
    pub async fn read(&mut self, last: &Snapshot) -> Result<Snapshot, RayError> {
        let round = self.round().await?;
        let status = off_the_loop(round.status.len(), {
            let body = round.status;
            move || decode::<autoscaler::GetClusterStatusReply>(path::GET_CLUSTER_STATUS, body)
        });
        let status = status.await?;
        let mut rest = status.cluster_resource_state.unwrap_or_default();
        if !self.session.is_empty() && rest.cluster_session_name != self.session {
            // The head was restarted: the kept data belong to the old session.
            *self = Self::new(self.gcs.clone());
            return Box::pin(self.read(last)).await;
        }
        self.session.clone_from(&rest.cluster_session_name);
        if let Some(version) = round.version {
            self.version = Some((Instant::now(), Text::from(version)));
        }
        if let Some(body) = round.v1 {
            self.update_v1(body).await?;
        }
        self.follow_registry(round.registry, &rest.node_states).await?;
        self.read_jobs(round.keys, round.drivers).await?;
        let live = std::mem::take(&mut rest.node_states);
        let registry = self.registry.clone();
        let mut nodes = off_the_loop(live.len() << 9, move || Ok(merge(&live, &registry))).await?;
        report::name_types(&mut nodes, &self.v1.node_types);
        nodes::sort(&mut nodes);
        let autoscaler = self.autoscaler(status.autoscaling_state.as_ref(), &rest, &nodes);
        Ok(Snapshot {
            taken: last.taken,
            ray_version: self.version.as_ref().map(|(_, v)| v.clone()).unwrap_or_default(),
            session: Text::from(self.session.as_str()),
            nodes: unless_same(&last.nodes, nodes),
            jobs: self.jobs.all(),
            autoscaler: unless_same(&last.autoscaler, autoscaler),
            missing: self.jobs.missing().into_iter().collect(),
        })
    }

    /// Makes all calls that are due, concurrently.
    async fn round(&self) -> Result<Round, RayError> {
        let gcs = &self.gcs;
        let keys = proto::InternalKvKeysRequest {
            prefix: Bytes::from_static(proto::JOB_KEY_PREFIX),
            namespace: Bytes::from_static(proto::JOB_NAMESPACE),
        };
        let v1 =
            proto::InternalKvMultiGetRequest { keys: vec![V1_REPORT, V1_ERROR], namespace: Bytes::new() };
        // Autoscaler v2 has reported, so v1 is not running.
        let v1_is_due = self.v2.first.is_none() && self.v1.pace.is_due();
        let (status, keys, registry, drivers, v1, version) = tokio::try_join!(
            gcs.call(path::GET_CLUSTER_STATUS, &autoscaler::GetClusterStatusRequest {}),
            gcs.call(path::KV_KEYS, &keys),
            when(self.registry_pace.never(), || async { self.ask_registry(None).await }),
            when(self.drivers_pace.is_due(), || async { self.ask_drivers().await }),
            when(v1_is_due, || async { gcs.call(path::KV_MULTI_GET, &v1).await }),
            when(self.version_is_due(), || gcs.version()),
        )?;
        Ok(Round { status, keys, registry, drivers, v1, version })
    }

    fn version_is_due(&self) -> bool {
        self.version.as_ref().is_none_or(|(at, _)| at.elapsed() >= IDENTITY_EVERY)
    }

    async fn ask_drivers(&self) -> Result<Bytes, RayError> {
        let request = proto::GetAllJobInfoRequest {
            limit: None,
            skip_submission_job_info_field: Some(true),
            skip_is_running_tasks_field: Some(true),
        };
        self.gcs.call(path::GET_ALL_JOB_INFO, &request).await
    }

    async fn ask_registry(&self, state: Option<GcsNodeState>) -> Result<Bytes, RayError> {
        let request =
            proto::GetAllNodeInfoRequest { state_filter: state.map(Into::into), ..Default::default() };
        self.gcs.call(path::GET_ALL_NODE_INFO, &request).await
    }

    /// Reads the causes of death when a node has died, and the whole registry when a node is new; less often if it is
    /// large.
    async fn follow_registry(
        &mut self,
        first: Option<Bytes>,
        states: &[autoscaler::NodeState],
    ) -> Result<(), RayError> {
        if let Some(body) = first {
            self.registry_pace.done(body.len());
            self.registry = Arc::new(registrations(body).await?);
            return Ok(());
        }
        let known = |state: &autoscaler::NodeState| {
            NodeId::from_bytes(&state.node_id).and_then(|id| self.registry.get(&id))
        };
        let dead = |state: &autoscaler::NodeState| state.status() == autoscaler::NodeStatus::Dead;
        let died = states.iter().any(|s| dead(s) && known(s).is_none_or(|n| n.state != NodeState::Dead));
        let joined = states.iter().any(|s| !dead(s) && known(s).is_none());
        if died {
            let body = self.ask_registry(Some(GcsNodeState::Dead)).await?;
            Arc::make_mut(&mut self.registry).extend(registrations(body).await?);
        }
        if joined && self.registry_pace.is_due() {
            let body = self.ask_registry(None).await?;
            self.registry_pace.done(body.len());
            self.registry = Arc::new(registrations(body).await?);
        }
        Ok(())
    }

    async fn read_jobs(&mut self, keys: Bytes, drivers: Option<Bytes>) -> Result<(), RayError> {
        let keys: proto::InternalKvKeysReply = decode(path::KV_KEYS, keys)?;
        succeeded(keys.status.as_ref())?;
        let wanted = self.jobs.wanted(keys.results);
        let mut started = false;
        if !wanted.is_empty() {
            let request = proto::InternalKvMultiGetRequest {
                keys: wanted,
                namespace: Bytes::from_static(proto::JOB_NAMESPACE),
            };
            let body = self.gcs.call(path::KV_MULTI_GET, &request).await?;
            let fetched = off_the_loop(body.len(), move || {
                let reply: proto::InternalKvMultiGetReply = decode(path::KV_MULTI_GET, body)?;
                succeeded(reply.status.as_ref())?;
                Ok(Fetched::of(reply.results.into_iter().map(|entry| (entry.key, entry.value))))
            });
            started = self.jobs.absorb(fetched.await?);
        }
        let drivers = match drivers {
            None if started && self.drivers_pace.is_cheap() => Some(self.ask_drivers().await?),
            other => other,
        };
        if let Some(body) = drivers {
            let bytes = body.len();
            let drivers = off_the_loop(bytes, move || {
                let reply: proto::GetAllJobInfoReply = decode(path::GET_ALL_JOB_INFO, body)?;
                succeeded(reply.status.as_ref())?;
                Ok(jobs::Drivers::of(reply.job_info_list))
            });
            self.jobs.update(drivers.await?);
            self.drivers_pace.done(bytes);
        }
        Ok(())
    }

    async fn update_v1(&mut self, body: Bytes) -> Result<(), RayError> {
        let bytes = body.len();
        let read = off_the_loop(bytes, move || {
            let reply: proto::InternalKvMultiGetReply = decode(path::KV_MULTI_GET, body)?;
            succeeded(reply.status.as_ref())?;
            let value = |key: &Bytes| reply.results.iter().find(|e| e.key == key).map(|e| e.value.clone());
            let error = value(&V1_ERROR).unwrap_or_default();
            let error = Text::new(String::from_utf8_lossy(&error));
            let Some(report) = value(&V1_REPORT) else { return Ok((Autoscaler::default(), HashMap::new())) };
            read_with("autoscaler v1's report", &report, |text| {
                let report: report::Report = serde_json::from_str(text)?;
                Ok((report.autoscaler(error.clone()), report.node_types()))
            })
        });
        (self.v1.report, self.v1.node_types) = read.await?;
        self.v1.pace.done(bytes);
        Ok(())
    }

    fn autoscaler(
        &mut self,
        v2: Option<&autoscaler::AutoscalingState>,
        rest: &autoscaler::ClusterResourceState,
        nodes: &[Node],
    ) -> Autoscaler {
        if let Some(v2) = v2 {
            let mut report = state::report(v2, rest, nodes);
            // The report's own version does not change while there is nothing to do; the cluster version that it has
            // seen changes with each iteration of its loop (about 5 s, measured on 2.60).
            let turn = v2.last_seen_cluster_resource_state_version;
            report.reported = self.v2.seen(turn, Timestamp::now());
            return report;
        }
        // Pending demand is fresher from the GCS than from v1's loop; only v1's report has the requests.
        let mut report = self.v1.report.clone();
        report.demands.retain(|d| d.kind == DemandKind::Request);
        report.demands.extend(demand::demands(rest, None));
        in_order(report)
    }
}

/// Reads a registry.
async fn registrations(body: Bytes) -> Result<Registry, RayError> {
    let nodes = off_the_loop(body.len(), move || {
        let reply: proto::GetAllNodeInfoReply = decode(path::GET_ALL_NODE_INFO, body)?;
        succeeded(reply.status.as_ref())?;
        let words = Interner::default();
        let nodes = reply.node_info_list.iter().filter_map(|info| nodes::registered(info, &words));
        Ok(nodes.map(|node| (node.id, Arc::new(node))).collect())
    });
    nodes.await
}

/// Runs a call that is due.
async fn when<T, F>(due: bool, call: impl FnOnce() -> F) -> Result<Option<T>, RayError>
where
    F: Future<Output = Result<T, RayError>>,
{
    if due { call().await.map(Some) } else { Ok(None) }
}

/// Combines live states with registrations; adds dead nodes that the GCS' state no longer lists.
fn merge(states: &[autoscaler::NodeState], registry: &Registry) -> Vec<Node> {
    let known = |state: &autoscaler::NodeState| {
        NodeId::from_bytes(&state.node_id).and_then(|id| registry.get(&id)).map(AsRef::as_ref)
    };
    let words = Interner::default();
    let mut nodes: Vec<Node> = Vec::with_capacity(states.len());
    nodes.extend(states.iter().filter_map(|state| nodes::live(state, known(state), &words)));
    let seen: HashSet<NodeId> = nodes.iter().map(|n| n.id).collect();
    nodes.extend(
        registry
            .values()
            .filter(|n| n.state == NodeState::Dead && !seen.contains(&n.id))
            .map(|n| Node::clone(n)),
    );
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_autoscaler_is_reported_as_silent() {
        let at = |s: i64| Timestamp::from_millis(s * 1000);
        let mut alive = Heartbeat::default();
        assert_eq!(alive.seen(5, at(100)), None, "nobody can know yet");
        assert_eq!(alive.seen(6, at(103)), Some(at(103)));
        assert_eq!(alive.seen(6, at(200)), Some(at(103)));
        let mut dead = Heartbeat::default();
        assert_eq!(dead.seen(5, at(100)), None);
        assert_eq!(dead.seen(5, at(109)), None);
        assert_eq!(dead.seen(5, at(110)), Some(at(100)));
    }
}
