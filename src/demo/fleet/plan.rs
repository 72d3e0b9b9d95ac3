//! The plan of a simulated fleet: a built-in or user-written scenario file, with changes from the command line.

use super::super::life::{Life, TpuType};
use super::super::scenario::{Clock, Fault, FaultRule, Scenario};
use super::folder::cluster_file;
use crate::model::{AutoscalerVersion, Secret, Timestamp};
use serde::Deserialize;
use serde_yaml::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

/// The built-in scenarios, the default one first.
const BUILT_IN: [(&str, &str); 2] = [
    ("marin", include_str!("../../../assets/demo/marin.yaml")),
    ("calm", include_str!("../../../assets/demo/calm.yaml")),
];
/// Response time of a slow cluster.
const SLOW: Duration = Duration::from_secs(3);

/// Why a plan could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Neither a built-in name nor a file that can be read.
    #[error(
        "no scenario `{}`: {why}; use a file, or one of: {}", .name.display(), Plan::names().collect::<Vec<_>>().join(", ")
    )]
    Missing {
        name: PathBuf,
        /// The error when it was read as a file.
        why: String,
    },
    /// The text is not a valid scenario.
    #[error("{}: {why}; see marin-tui's assets/demo/marin.yaml for the keys of a scenario", .file.display())]
    Wrong {
        /// The file, or the built-in name.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The clusters, in the order of the file.
    pub clusters: Vec<Planned>,
}

/// One cluster of a plan. Fields with the same name mean the same as in [`Scenario`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Planned {
    /// Its `cluster_name`.
    pub name: String,
    /// The version of Ray that `/api/version` returns.
    pub ray: String,
    /// Number of live nodes.
    pub nodes: usize,
    /// Number of dead nodes.
    pub dead: usize,
    /// Number of jobs in the job table.
    pub jobs: usize,
    /// Number of running jobs of a plain `ray job submit`, without an owner.
    #[serde(rename = "ownerless")]
    pub unowned: usize,
    /// Number of requested slices that do not exist yet.
    pub pending: usize,
    /// Number of nodes whose usage changes each second.
    pub changes: usize,
    /// Number of jobs that end each second.
    pub turnover: usize,
    /// The version of the autoscaler.
    pub autoscaler: Autoscaler,
    /// Lines per second in the log of each running job.
    pub log_rate: u64,
    /// Lines in each log when the simulation begins.
    pub log_backlog: u64,
    /// Round-trip time of the SSH connections to its head, in milliseconds.
    pub latency_ms: u64,
    /// Seed of the random values; the same seed gives the same cluster.
    pub seed: u64,
    /// A fixed time for its clock; `None` for the system clock.
    #[serde(skip)]
    pub fixed_time: Option<Timestamp>,
    /// Its fault.
    #[serde(rename = "fault")]
    pub trouble: FaultKind,
    /// Its simulated activity. One of Marin's clusters takes name, zone, bucket and node types from its file.
    #[serde(rename = "activity")]
    pub life: Option<Life>,
    /// Initial number of slices of each node type, with simulated activity.
    pub slices: BTreeMap<String, usize>,
    /// Accelerator types that a person requested from Google and that never become available.
    #[serde(rename = "queued_resources")]
    pub queued: Vec<String>,
    /// Accelerator types of slices that a person created in Compute Engine, each as a managed instance group.
    pub groups: Vec<String>,
}

impl Default for Planned {
    fn default() -> Self {
        let model = Scenario::default();
        Self {
            name: String::new(),
            ray: model.ray_version,
            nodes: model.nodes,
            dead: model.dead,
            jobs: model.jobs,
            unowned: model.unowned,
            pending: model.pending,
            changes: model.changes,
            turnover: model.turnover,
            autoscaler: Autoscaler::V2,
            log_rate: model.log_rate,
            log_backlog: model.log_backlog,
            latency_ms: 0,
            seed: model.seed,
            fixed_time: None,
            trouble: FaultKind::None,
            life: None,
            slices: BTreeMap::new(),
            queued: Vec::new(),
            groups: Vec::new(),
        }
    }
}

/// The version of the autoscaler, as named in scenario files.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Autoscaler {
    /// The legacy one.
    V1,
    /// Ray's default.
    V2,
    None,
}

/// A fault of a simulated cluster.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    None,
    /// Nothing listens on the head's SSH port.
    Unreachable,
    /// The token was rotated: the stored one is rejected.
    RotatedToken,
    /// Every response takes three seconds.
    Slow,
    /// The dashboard and the GCS respond with an error.
    #[serde(rename = "status-500")]
    Status500,
    /// They close the connection in the middle of a response.
    HalfBody,
    /// They respond with an HTML page.
    Html,
    /// They never respond.
    Stall,
    /// They close the connection without a response.
    HangUp,
}

impl FaultKind {
    /// All faults with their names in scenario files and on the command line.
    pub const ALL: [(&str, Self); 9] = [
        ("none", Self::None),
        ("unreachable", Self::Unreachable),
        ("rotated-token", Self::RotatedToken),
        ("slow", Self::Slow),
        ("status-500", Self::Status500),
        ("half-body", Self::HalfBody),
        ("html", Self::Html),
        ("stall", Self::Stall),
        ("hang-up", Self::HangUp),
    ];

    /// The fault with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, it)| it)
    }

    fn fault(self) -> Option<Fault> {
        match self {
            Self::None | Self::Unreachable | Self::RotatedToken => None,
            Self::Slow => Some(Fault::Latency(SLOW)),
            Self::Status500 => Some(Fault::Status(500)),
            Self::HalfBody => Some(Fault::HalfBody),
            Self::Html => Some(Fault::Html),
            Self::Stall => Some(Fault::Stall),
            Self::HangUp => Some(Fault::HangUp),
        }
    }
}

impl Plan {
    /// The names of the built-in scenarios, the default one first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.into_iter().map(|(name, _)| name)
    }

    /// Reads a built-in scenario, or else the file with this name.
    pub fn find(name: &Path) -> Result<Self, PlanError> {
        if let Some((_, text)) = BUILT_IN.into_iter().find(|(known, _)| Path::new(known) == name) {
            return Self::parse(text, name);
        }
        let text = fs::read_to_string(name)
            .map_err(|e| PlanError::Missing { name: name.into(), why: e.to_string() })?;
        Self::parse(&text, name)
    }

    /// Parses the text of a scenario file; `file` is for errors.
    pub fn parse(text: &str, file: &Path) -> Result<Self, PlanError> {
        let wrong = |why: String| PlanError::Wrong { file: file.into(), why };
        let plan: Self = serde_yaml::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let mut names = BTreeSet::new();
        for cluster in &plan.clusters {
            // The name is used as a file name.
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if cluster.name.is_empty() || !cluster.name.chars().all(plain) {
                return Err(wrong(format!("`{}` is not a valid cluster name", cluster.name)));
            }
            if !names.insert(&cluster.name) {
                return Err(wrong(format!("duplicate cluster `{}`", cluster.name)));
            }
            if cluster.nodes == 0 {
                return Err(wrong(format!("{} needs a head: set `nodes` to at least 1", cluster.name)));
            }
        }
        Ok(plan)
    }

    /// Changes the number of clusters: keeps the first ones, and adds healthy ones when there are too few.
    pub fn resize(&mut self, count: usize) {
        self.clusters.truncate(count);
        for n in self.clusters.len()..count {
            self.clusters.push(Planned { name: format!("demo-{:02}", n + 1), ..Planned::default() });
        }
    }
}

impl Planned {
    /// The scenario of the head; `cluster_index` is the index of the cluster in the fleet.
    pub(super) fn scenario(&self, cluster_index: usize, token: Secret) -> Scenario {
        Scenario {
            cluster: self.name.clone(),
            network: cluster_index,
            seed: self.seed.wrapping_add(cluster_index as u64),
            ray_version: self.ray.clone(),
            nodes: self.nodes,
            dead: self.dead,
            jobs: self.jobs,
            unowned: self.unowned,
            autoscaler: match self.autoscaler {
                Autoscaler::V1 => AutoscalerVersion::V1,
                Autoscaler::V2 => AutoscalerVersion::V2,
                Autoscaler::None => AutoscalerVersion::None,
            },
            pending: self.pending,
            changes: self.changes,
            turnover: self.turnover,
            log_rate: self.log_rate,
            log_backlog: self.log_backlog,
            token: Some(token),
            life: self.life.clone().map(|life| self.with_cluster_file(life)),
            clock: match self.fixed_time {
                Some(time) => Clock::Manual(Arc::new(AtomicI64::new(time.as_millis()))),
                None => Clock::Wall,
            },
            ..Scenario::default()
        }
    }

    /// Its cluster file, if it is one of Marin's clusters.
    fn file(&self) -> Option<Value> {
        cluster_file(&self.name).and_then(|(_, text)| serde_yaml::from_str(text).ok())
    }

    /// Project and zone of its machines, if it is one of Marin's clusters.
    pub(super) fn location(&self) -> Option<(String, String)> {
        let file = self.file()?;
        let provider = &file["provider"];
        Some((
            provider["project_id"].as_str()?.to_owned(),
            provider["availability_zone"].as_str()?.to_owned(),
        ))
    }

    /// The Secret Manager secret from which its nodes read the token, if it is one of Marin's clusters.
    pub(super) fn secret(&self) -> Option<String> {
        let (_, text) = cluster_file(&self.name)?;
        let line = text.lines().find(|l| l.contains("--secret=") && l.contains("auth_token"))?;
        line.split("--secret=").nth(1)?.split_whitespace().next().map(str::to_owned)
    }

    /// The simulated activity, with values from the cluster's own file.
    fn with_cluster_file(&self, mut life: Life) -> Life {
        let Some(file) = self.file() else { return life };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let is_tpu = |(_, t): &(&Value, &Value)| t["node_config"].get("acceleratorType").is_some();
        let types = file["available_node_types"].as_mapping().into_iter().flatten().filter(is_tpu);
        life.cluster.clone_from(&self.name);
        life.zone = text(&file["provider"]["availability_zone"]);
        life.types = types
            .map(|(name, t)| {
                let number = |key: &str| t[key].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                let name = text(name);
                TpuType {
                    accelerator_type: text(&t["node_config"]["acceleratorType"]),
                    min_workers: number("min_workers"),
                    max_workers: number("max_workers"),
                    slices: self.slices.get(&name).copied().unwrap_or(0),
                    name,
                }
            })
            .collect();
        let options = file["docker"]["head_run_options"].as_sequence().into_iter().flatten();
        let bucket = options.filter_map(Value::as_str).find_map(|o| o.strip_prefix("-e BUCKET="));
        if let Some(bucket) = bucket {
            bucket.clone_into(&mut life.bucket);
        }
        life
    }

    /// The faults of its head.
    pub(super) fn faults(&self) -> Vec<FaultRule> {
        self.trouble.fault().map(|fault| FaultRule { path: String::new(), fault }).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::cluster::Cluster;
    use crate::demo::cluster::tpu_vm::slice_kind;

    fn parse(text: &str) -> Result<Plan, String> {
        Plan::parse(text, Path::new("x.yaml")).map_err(|e| e.to_string())
    }

    #[test]
    fn the_built_in_scenarios_have_fourteen_clusters() {
        for name in Plan::names() {
            assert_eq!(Plan::find(Path::new(name)).unwrap().clusters.len(), 14, "{name}");
        }
    }

    #[test]
    fn the_tpus_of_the_built_in_scenarios_have_all_hosts_of_their_types() {
        let plans = Plan::names().map(|name| Plan::find(Path::new(name)).unwrap());
        // With simulated activity, a slice always has its hosts.
        for planned in plans.flat_map(|plan| plan.clusters).filter(|planned| planned.life.is_none()) {
            let cluster = Cluster::new(&planned.scenario(0, Secret::new("token")));
            let vms = cluster.tpu_vms();
            assert!(!vms.is_empty(), "{}", planned.name);
            for vm in vms {
                let kind = slice_kind(&vm.node_type, &vm.accelerator, "zone");
                assert_eq!(vm.hosts.len(), kind.hosts, "{}: {vm:?}", planned.name);
            }
        }
    }

    #[test]
    fn every_fault_is_read_by_its_name() {
        for (name, fault) in FaultKind::ALL {
            let plan = parse(&format!("clusters: [{{name: a, fault: {name}}}]")).unwrap();
            assert_eq!(plan.clusters[0].trouble, fault);
            assert_eq!(FaultKind::named(name), Some(fault));
        }
    }

    #[test]
    fn zone_and_secret_of_a_cluster_are_read_from_its_file() {
        let plan = parse("clusters: [{name: marin-us-central2-staging}, {name: other}]").unwrap();
        let location = ("hai-gcp-models".to_owned(), "us-central2-b".to_owned());
        assert_eq!(plan.clusters[0].location(), Some(location));
        assert_eq!(plan.clusters[0].secret().as_deref(), Some("RAY_AUTH_TOKEN_STAGING"));
        assert_eq!((plan.clusters[1].location(), plan.clusters[1].secret()), (None, None));
    }

    #[test]
    fn a_fleet_grows_and_shrinks() {
        let mut plan = parse("clusters: [{name: a}, {name: b}]").unwrap();
        plan.resize(3);
        assert_eq!(plan.clusters.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["a", "b", "demo-03"]);
        plan.resize(1);
        assert_eq!(plan.clusters.len(), 1);
    }

    #[test]
    fn errors_describe_the_cause() {
        for (text, word) in [
            ("clusters: [{name: ../a}]", "not a valid cluster name"),
            ("clusters: [{name: a}, {name: a}]", "duplicate cluster"),
            ("clusters: [{name: a, nodes: 0}]", "needs a head"),
            ("clusters: [{name: a, fault: flu}]", "flu"),
            ("clusters: [{name: a, nods: 3}]", "nods"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(word) && why.starts_with("x.yaml"), "{why}");
        }
        let why = Plan::find(Path::new("nowhere")).unwrap_err().to_string();
        assert!(why.contains("marin, calm"), "{why}");
    }
}
