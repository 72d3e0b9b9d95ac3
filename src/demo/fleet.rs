//! A fleet of simulated heads, each with its own SSH server, and the directory through which a console finds them.
//!
//! `plan`: the configuration of a fleet; `folder`: its files; `head_machine`: the machine of each head; `cloud`: the
//! clusters' machines in the simulated Google; `ray_command`: creates and deletes heads.

pub(super) mod cloud;
mod folder;
mod head_machine;
mod plan;
mod ray_command;

pub use folder::Folder;
pub use plan::{Autoscaler, FaultKind, Plan, PlanError, Planned};

use super::google::Google;
use super::ssh::{Keys, SshServer};
use super::{FaultRule, Head, entropy};
use crate::model::Secret;
use crate::model::sort;
use crate::model::text::hex;
use crate::task;
use cloud::Cloud;
use folder::ClusterAddress;
use head_machine::{ADDRESS, HeadMachine};
use ray_command::{RayCommand, bootstrap};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::task::JoinSet;

/// A running fleet. Dropping it ends every head and removes its directory.
#[derive(Debug)]
pub struct Fleet {
    // The order matters: the directory is dropped last, when nothing writes to it any more.
    members: Vec<Member>,
    #[allow(dead_code, reason = "it serves until it is dropped")]
    google: Google,
    #[allow(dead_code, reason = "it serves until it is dropped")]
    ray: RayCommand,
    folder: Folder,
}

/// One cluster of a fleet.
#[derive(Debug)]
pub struct Member {
    /// Its `cluster_name`.
    pub name: String,
    pub head: Head,
    server: SshServer,
}

impl Member {
    /// The port of its SSH server on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.server.address.port()
    }

    /// Closes all SSH connections to it, as a network failure would.
    pub fn drop_connections(&self) {
        self.server.drop_connections();
    }
}

impl Fleet {
    /// Starts all clusters of a plan, with a `ray` command that always fails. Must be called inside a tokio runtime.
    pub async fn start(plan: Plan) -> io::Result<Self> {
        Self::start_with_ray(plan, &[]).await
    }

    /// The same with a working `ray` command. The command line `command` is run with the path of a socket and the
    /// arguments of `ray`, and must send the arguments to the socket.
    pub async fn start_with_ray(plan: Plan, command: &[String]) -> io::Result<Self> {
        let folder = Folder::new()?;
        let keys = Keys::new()?;
        let mut heads = JoinSet::new();
        let mut secrets: BTreeMap<String, Secret> = BTreeMap::new();
        for (cluster_index, planned) in plan.clusters.iter().enumerate() {
            let (mut token, stale) = (new_token()?, new_token()?);
            if let Some(secret) = planned.secret() {
                // Clusters that read one secret have one token.
                token = secrets.entry(secret).or_insert(token).clone();
            }
            let rotated = planned.trouble == FaultKind::RotatedToken;
            folder.write_token(&planned.name, if rotated { &stale } else { &token })?;
            let (scenario, faults) = (planned.scenario(cluster_index, token), planned.faults());
            // Concurrently: generating ten thousand jobs takes a moment.
            task::spawn_on(&mut heads, async move { Ok((cluster_index, head(scenario, faults).await?)) });
        }
        let mut started: Vec<(usize, Head)> =
            heads.join_all().await.into_iter().collect::<io::Result<_>>()?;
        sort::by_key(&mut started, |(cluster_index, _)| *cluster_index);
        let mut members = Vec::new();
        for (planned, (_, head)) in plan.clusters.iter().zip(started) {
            let round_trip = Duration::from_millis(planned.latency_ms);
            let server = SshServer::start_with_workers(&head, &planned.name, &keys, round_trip).await?;
            if planned.trouble == FaultKind::Unreachable {
                server.door().shut();
            }
            head.write_bootstrap(&bootstrap(&folder::text(&planned.name)).unwrap_or_default());
            members.push(Member { name: planned.name.clone(), head, server });
        }
        let homes: Vec<Option<(String, String)>> = plan.clusters.iter().map(Planned::location).collect();
        let machine_of = |(m, home): (&Member, &Option<(String, String)>)| {
            Some(HeadMachine::new(&m.name, home.clone()?, &m.head, &m.server))
        };
        let heads: Vec<HeadMachine> = members.iter().zip(&homes).filter_map(machine_of).collect();
        let google = google(&plan, &heads).await?;
        for (name, token) in &secrets {
            google.put_secret(name, token.expose());
        }
        let ray = RayCommand::listen(&folder.socket(), heads)?;
        let address_of = |(m, home): (&'_ Member, &Option<_>)| {
            // Google returns the addresses of the others.
            let address = home.is_none().then_some(ADDRESS);
            ClusterAddress { cluster: m.name.clone(), port: m.port(), address }
        };
        let addresses: Vec<ClusterAddress> = members.iter().zip(&homes).map(address_of).collect();
        folder.write_files(&keys, &addresses, &google, command)?;
        Ok(Self { members, google, ray, folder })
    }

    /// The files with which a console finds the fleet.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The clusters in the order of the plan.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The cluster with this name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.name == name)
    }
}

/// The simulated Google, with the machines of those clusters that have a project and a zone.
async fn google(plan: &Plan, heads: &[HeadMachine]) -> io::Result<Google> {
    let project = heads.first().map_or("", HeadMachine::project);
    let cloud = Cloud::of(project, heads.iter().cloned());
    for planned in &plan.clusters {
        planned.queued.iter().for_each(|tpu| cloud.add_unavailable(&planned.name, tpu));
        planned.groups.iter().for_each(|tpu| cloud.add_group(&planned.name, tpu));
    }
    Google::start_for(project, cloud).await
}

async fn head(scenario: super::Scenario, faults: Vec<FaultRule>) -> io::Result<Head> {
    let head = Head::start(scenario).await?;
    head.set_faults(faults);
    Ok(head)
}

/// 128 random bits in hexadecimal.
fn new_token() -> io::Result<Secret> {
    Ok(Secret::new(hex(&entropy::bytes::<16>()?)))
}
