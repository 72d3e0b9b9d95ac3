//! A fleet of simulated heads, each behind an SSH server of its own, and the folder that leads a console to them.

use super::cloud::Cloud;
use super::fleet_folder::Folder;
use super::fleet_plan::{Ailment, Plan, Planned};
use super::google::Google;
use super::ssh::{Keys, SshServer, random};
use super::{Head, Trouble};
use crate::model::Secret;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

/// A running fleet. Dropping it ends every head and removes its folder.
#[derive(Debug)]
pub struct Fleet {
    // In this order: nobody writes into the folder any more when it goes.
    members: Vec<Member>,
    #[allow(dead_code, reason = "it serves until it is dropped")]
    google: Google,
    folder: Folder,
}

/// One cluster of a fleet.
#[derive(Debug)]
pub struct Member {
    /// Its `cluster_name`.
    pub name: String,
    /// Its head.
    pub head: Head,
    way: Way,
}

/// What is on the head's SSH port.
#[derive(Debug)]
enum Way {
    /// A server.
    Open(SshServer),
    /// Nobody: the port is only kept from others.
    Closed(SocketAddr, #[allow(dead_code, reason = "it holds the port")] TcpSocket),
}

impl Member {
    /// The port of its SSH server on 127.0.0.1.
    pub fn port(&self) -> u16 {
        match &self.way {
            Way::Open(server) => server.address.port(),
            Way::Closed(address, _) => address.port(),
        }
    }

    /// Cuts all SSH connections to it, as a network would.
    pub fn drop_connections(&self) {
        if let Way::Open(server) = &self.way {
            server.drop_connections();
        }
    }
}

impl Fleet {
    /// Starts every cluster of a plan. Must be called inside a tokio runtime.
    pub async fn start(plan: Plan) -> io::Result<Self> {
        let folder = Folder::new()?;
        let keys = Keys::new()?;
        let mut heads = JoinSet::new();
        let mut secrets: BTreeMap<String, Secret> = BTreeMap::new();
        for (place, planned) in plan.clusters.iter().enumerate() {
            let (mut token, stale) = (new_token()?, new_token()?);
            if let Some(secret) = planned.secret() {
                // Clusters that read one secret have one token.
                token = secrets.entry(secret).or_insert(token).clone();
            }
            let rotated = planned.trouble == Ailment::RotatedToken;
            folder.write_token(&planned.name, if rotated { &stale } else { &token })?;
            let (scenario, manners) = (planned.scenario(place, token), planned.manners());
            // Side by side: ten thousand jobs take a moment to invent.
            heads.spawn(async move { Ok((place, head(scenario, manners).await?)) });
        }
        let mut started: Vec<(usize, Head)> =
            heads.join_all().await.into_iter().collect::<io::Result<_>>()?;
        started.sort_by_key(|(place, _)| *place);
        let mut members = Vec::new();
        for (planned, (_, head)) in plan.clusters.iter().zip(started) {
            let way = way(planned, &head, &keys).await?;
            members.push(Member { name: planned.name.clone(), head, way });
        }
        let places: Vec<_> = members.iter().map(|m: &Member| (m.name.as_str(), m.port())).collect();
        let google = google(&plan, &members).await?;
        for (name, token) in &secrets {
            google.put_secret(name, token.expose());
        }
        folder.furnish(&keys, &places, &google)?;
        Ok(Self { members, google, folder })
    }

    /// What a console needs to find it.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Its clusters in the order of the plan.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The cluster of that name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.name == name)
    }
}

/// Google with the machines of those clusters that are in it.
async fn google(plan: &Plan, members: &[Member]) -> io::Result<Google> {
    let mut project = String::new();
    let mut there = Vec::new();
    for (planned, member) in plan.clusters.iter().zip(members) {
        if let Some((its, zone)) = planned.place() {
            project = its;
            there.push((planned.name.as_str(), zone, &member.head));
        }
    }
    let cloud = Cloud::of(&project, there.into_iter());
    for planned in &plan.clusters {
        planned.queued.iter().for_each(|tpu| cloud.wait_in_vain(&planned.name, tpu));
    }
    Google::start_for(&project, cloud).await
}

async fn head(scenario: super::Scenario, manners: Vec<Trouble>) -> io::Result<Head> {
    let head = Head::start(scenario).await?;
    head.trouble(manners);
    Ok(head)
}

async fn way(planned: &Planned, head: &Head, keys: &Keys) -> io::Result<Way> {
    if planned.trouble != Ailment::Unreachable {
        let round_trip = Duration::from_millis(planned.latency_ms);
        return Ok(Way::Open(SshServer::start(head, &planned.name, keys, round_trip).await?));
    }
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    Ok(Way::Closed(socket.local_addr()?, socket))
}

/// 128 bits that nobody can guess, in hexadecimal.
fn new_token() -> io::Result<Secret> {
    let mut text = String::new();
    for byte in random::<16>()? {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(Secret::new(text))
}
