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

/// The scenarios that are built in, the default one first.
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
        /// The error of reading it as a file.
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
    /// In the order of the file.
    pub clusters: Vec<Planned>,
}

/// One cluster of a plan. Fields with the same name mean the same as in [`Scenario`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Planned {
    /// Its `cluster_name`.
    pub name: String,
    /// Ray's version in `/api/version`.
    pub ray: String,
    /// Living nodes.
    pub nodes: usize,
    /// Dead ones.
    pub dead: usize,
    /// Jobs in the table.
    pub jobs: usize,
    /// Running jobs of a plain `ray job submit`.
    pub unowned: usize,
    /// Requested slices that do not exist yet.
    pub pending: usize,
    /// Nodes whose use changes each second.
    pub changes: usize,
    /// Jobs that end each second.
    pub turnover: usize,
    /// Which autoscaler reports.
    pub autoscaler: Autoscaler,
    /// Lines that each running job logs in a second.
    pub log_rate: u64,
    /// Lines that were there before.
    pub log_backlog: u64,
    /// The round trip to its head, in milliseconds: of everything that is said over SSH.
    pub latency_ms: u64,
    /// The same seed gives the same cluster.
    pub seed: u64,
    /// A fixed time of its clock; without one its clock runs.
    #[serde(skip)]
    pub fixed_time: Option<Timestamp>,
    pub trouble: FaultKind,
    /// Its simulated activity. One of Marin's clusters takes name, zone, bucket and node types from its file.
    pub life: Option<Life>,
    /// How many slices of each node type are there at the beginning of that life.
    pub slices: BTreeMap<String, usize>,
    /// Accelerator types that a person has requested from Google and that never become available.
    pub queued: Vec<String>,
    /// Accelerator types of slices that a person has made with Compute Engine, each as a managed instance group.
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

/// Which autoscaler reports, in the words of a scenario file.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Autoscaler {
    /// The legacy one.
    V1,
    /// Ray's default.
    V2,
    None,
}

/// Faults of a simulated cluster.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    None,
    /// Nothing listens on the head's SSH port.
    Unreachable,
    /// The token was changed: the one on file is refused.
    RotatedToken,
    /// Every answer takes three seconds.
    Slow,
    /// The dashboard and the GCS answer with an error.
    #[serde(rename = "status-500")]
    Status500,
    /// They hang up in the middle of an answer.
    HalfBody,
    /// They answer with an HTML page.
    Html,
    /// They never answer.
    Stall,
    /// They hang up.
    HangUp,
}

impl FaultKind {
    /// Every one, by the name that a scenario file and the command line give it.
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

    /// By its name.
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

    /// A built-in scenario, or else the file of that name.
    pub fn find(name: &Path) -> Result<Self, PlanError> {
        if let Some((_, text)) = BUILT_IN.into_iter().find(|(known, _)| Path::new(known) == name) {
            return Self::parse(text, name);
        }
        let text = fs::read_to_string(name)
            .map_err(|e| PlanError::Missing { name: name.into(), why: e.to_string() })?;
        Self::parse(&text, name)
    }

    /// A scenario file's text.
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
    /// The head of the cluster at that place of the fleet.
    pub(super) fn scenario(&self, place: usize, token: Secret) -> Scenario {
        Scenario {
            cluster: self.name.clone(),
            network: place,
            seed: self.seed.wrapping_add(place as u64),
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
            life: self.life.clone().map(|life| self.at_home(life)),
            clock: match self.fixed_time {
                Some(time) => Clock::Manual(Arc::new(AtomicI64::new(time.as_millis()))),
                None => Clock::Wall,
            },
            ..Scenario::default()
        }
    }

    /// Its cluster file, if it is one of Marin's.
    fn file(&self) -> Option<Value> {
        cluster_file(&self.name).and_then(|(_, text)| serde_yaml::from_str(text).ok())
    }

    /// Project and zone of its machines, if it is one of Marin's.
    pub(super) fn place(&self) -> Option<(String, String)> {
        let file = self.file()?;
        let provider = &file["provider"];
        Some((
            provider["project_id"].as_str()?.to_owned(),
            provider["availability_zone"].as_str()?.to_owned(),
        ))
    }

    /// The secret of Secret Manager that its nodes read the token from, if it is one of Marin's.
    pub(super) fn secret(&self) -> Option<String> {
        let (_, text) = cluster_file(&self.name)?;
        let line = text.lines().find(|l| l.contains("--secret=") && l.contains("auth_token"))?;
        line.split("--secret=").nth(1)?.split_whitespace().next().map(str::to_owned)
    }

    /// The simulated activity, with values from the cluster's own file.
    fn at_home(&self, mut life: Life) -> Life {
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

    /// How its head misbehaves.
    pub(super) fn faults(&self) -> Vec<FaultRule> {
        self.trouble.fault().map(|fault| FaultRule { path: String::new(), fault }).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Plan, String> {
        Plan::parse(text, Path::new("x.yaml")).map_err(|e| e.to_string())
    }

    #[test]
    fn the_built_in_ones_are_fourteen_clusters() {
        for name in Plan::names() {
            assert_eq!(Plan::find(Path::new(name)).unwrap().clusters.len(), 14, "{name}");
        }
    }

    #[test]
    fn every_ailment_is_read_by_its_name() {
        for (name, fault) in FaultKind::ALL {
            let plan = parse(&format!("clusters: [{{name: a, trouble: {name}}}]")).unwrap();
            assert_eq!(plan.clusters[0].trouble, fault);
            assert_eq!(FaultKind::named(name), Some(fault));
        }
    }

    #[test]
    fn what_google_has_of_a_cluster_stands_in_its_file() {
        let plan = parse("clusters: [{name: marin-us-central2-staging}, {name: other}]").unwrap();
        let place = ("hai-gcp-models".to_owned(), "us-central2-b".to_owned());
        assert_eq!(plan.clusters[0].place(), Some(place));
        assert_eq!(plan.clusters[0].secret().as_deref(), Some("RAY_AUTH_TOKEN_STAGING"));
        assert_eq!((plan.clusters[1].place(), plan.clusters[1].secret()), (None, None));
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
    fn what_is_wrong_is_said() {
        for (text, word) in [
            ("clusters: [{name: ../a}]", "not a valid cluster name"),
            ("clusters: [{name: a}, {name: a}]", "duplicate cluster"),
            ("clusters: [{name: a, nodes: 0}]", "needs a head"),
            ("clusters: [{name: a, trouble: flu}]", "flu"),
            ("clusters: [{name: a, nods: 3}]", "nods"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(word) && why.starts_with("x.yaml"), "{why}");
        }
        let why = Plan::find(Path::new("nowhere")).unwrap_err().to_string();
        assert!(why.contains("marin, calm"), "{why}");
    }
}
