//! Compute Engine: machines by label, in every zone.

use super::{GcpError, Google};
use crate::model::sort;
use crate::model::{RunningHead, Text, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its unique numeric id; empty when Google returned none.
    pub id: String,
    pub name: String,
    pub zone: String,
    /// `RUNNING`, `STAGING`, `TERMINATED` and so on.
    pub status: String,
    /// Label `ray-cluster-name`.
    pub cluster: Option<String>,
    /// Address inside its network.
    pub internal: Option<String>,
    /// Public address.
    pub external: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
}

impl Instance {
    /// Whether the machine is running.
    pub fn is_running(&self) -> bool {
        self.status == "RUNNING"
    }
}

/// A machine that is labeled as a head, whether it runs or not.
pub type Head = Instance;

/// The role of a machine for Ray's launcher: its label `ray-node-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The machine of the head (label `ray-node-type: head`).
    Head,
    /// A worker of the autoscaler.
    Worker,
}

impl Role {
    /// The value of the label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Worker => "worker",
        }
    }
}

/// Machines by label; the list is incomplete when a zone was unreachable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machines {
    /// The machines found, the newest first.
    pub found: Vec<Instance>,
    /// Zones that Google could not reach: a machine may exist there.
    pub unreachable: Vec<Text>,
}

impl Machines {
    /// Keeps the machines in this zone, or in the zones of this region. Ray's launcher identifies a cluster by name and
    /// zone (`availability_zone`): a cluster of the same name elsewhere is a different one.
    pub fn keep_within(&mut self, location: &str) {
        let is_within = |zone: &str| format!("{zone}-").starts_with(&format!("{location}-"));
        self.found.retain(|machine| is_within(&machine.zone));
        self.unreachable.retain(|zone| is_within(zone.raw()));
    }

    /// The running machines, the newest first.
    pub fn running(&self) -> Vec<&Instance> {
        self.found.iter().filter(|machine| machine.is_running()).collect()
    }

    /// The running machines as heads.
    pub fn running_heads(&self) -> Vec<RunningHead> {
        let head = |m: &&Instance| RunningHead {
            cluster: Text::new(m.cluster.as_deref().unwrap_or_default()),
            name: Text::new(m.name.as_str()),
            zone: Text::new(m.zone.as_str()),
            address: m.external.as_deref().or(m.internal.as_deref()).map(Text::new),
        };
        self.running().iter().map(head).collect()
    }
}

/// A page of an aggregated list: the resources of each zone or region.
#[derive(Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    pub items: BTreeMap<String, Scope>,
    #[serde(default)]
    pub unreachables: Vec<String>,
}

/// The resources of a zone or region; the list determines which of these fields a response has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Scope {
    #[serde(default)]
    pub instances: Vec<Value>,
    #[serde(default)]
    pub instance_group_managers: Vec<Value>,
}

impl Google {
    /// Machines that Ray's launcher labeled with this role, of one cluster or (`None`) of all, in every zone of the
    /// project.
    pub async fn machines(
        &self,
        project: &str,
        role: Role,
        cluster: Option<&str>,
    ) -> Result<Machines, GcpError> {
        // Labels consist of letters, digits, - and _; a cluster with another name cannot have a labeled machine.
        let quoted = cluster.map(|c| c.replace(['"', '\\'], ""));
        let clause = quoted.map(|c| format!(" AND (labels.ray-cluster-name = \"{c}\")"));
        let filter = format!("(labels.ray-node-type = \"{}\"){}", role.label(), clause.unwrap_or_default());
        let url =
            format!("{}/compute/v1/projects/{project}/aggregated/instances", self.inner.endpoints.compute);
        let query = [("filter", filter.as_str()), ("returnPartialSuccess", "true")];
        let pages: Vec<Page> = self.inner.pages(&url, &query).await?;
        let mut machines = Machines::default();
        for page in pages {
            machines.unreachable.extend(page.unreachables.iter().map(|z| Text::new(last_part(z))));
            machines.found.extend(page.items.values().flat_map(|s| &s.instances).filter_map(instance));
        }
        // Every page repeats the unreachable zones.
        machines.unreachable.sort();
        machines.unreachable.dedup();
        sort::by_key(&mut machines.found, |m| std::cmp::Reverse(m.created));
        Ok(machines)
    }
}

/// Whether a name from Google may become part of a URL. Google's consist of letters, digits and dashes (TPU API v2,
/// `nodeId`).
pub(super) fn is_url_part(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

pub(super) fn last_part(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

pub(super) fn instance(value: &Value) -> Option<Instance> {
    let word = |v: &Value| v.as_str().map(str::to_owned);
    let card = &value["networkInterfaces"][0];
    let address = |v: &Value| v.as_str().filter(|a| is_address(a)).map(str::to_owned);
    // The id becomes part of a URL.
    let id = word(&value["id"]).filter(|id| id.bytes().all(|b| b.is_ascii_digit()));
    Some(Instance {
        id: id.unwrap_or_default(),
        name: word(&value["name"])?,
        zone: last_part(value["zone"].as_str().unwrap_or_default()).to_owned(),
        status: word(&value["status"]).unwrap_or_default(),
        cluster: word(&value["labels"]["ray-cluster-name"]),
        internal: address(&card["networkIP"]),
        external: address(&card["accessConfigs"][0]["natIP"]),
        created: value["creationTimestamp"].as_str().and_then(time),
    })
}

/// Whether the text is an IP address. It becomes an argument of ssh, so nothing else is accepted.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

pub(super) fn time(text: &str) -> Option<Timestamp> {
    Some(Timestamp::from_millis(text.parse::<jiff::Timestamp>().ok()?.as_millisecond()))
}
