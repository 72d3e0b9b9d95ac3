//! The machine that a simulated head runs on, at the fleet's Google: with it go the head's SSH port, its Ray and its
//! autoscaler. The `ray` of a demo makes another one.

use super::super::cluster::job::HEAD_IP;
use super::super::google::answer::time;
use super::super::google::compute;
use super::super::random::Random;
use super::super::shared::Shared;
use super::super::ssh::SshServer;
use super::super::ssh::door::Door;
use super::super::{Head, locked};
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Arc, Mutex};

/// Where every head is reached.
pub(super) const ADDRESS: &str = "127.0.0.1";
/// How old the first machine of a cluster is when the fleet begins, in milliseconds.
const AGE: i64 = 9 * 3_600_000;

/// The machine of one cluster's head, or its place while there is none. Cheap to clone.
#[derive(Clone)]
pub(super) struct HeadMachine(Arc<Inner>);

struct Inner {
    cluster: String,
    project: String,
    zone: String,
    shared: Arc<Shared>,
    door: Arc<Door>,
    port: u16,
    names: Mutex<Random>,
    standing: Mutex<Option<Instance>>,
    /// Held by what works on it: `ray` does one thing at a time here.
    work: tokio::sync::Mutex<()>,
}

/// A machine as Compute has it.
#[derive(Clone, Debug)]
struct Instance {
    name: String,
    /// Made at, in milliseconds since the epoch.
    since: i64,
    /// A Ray has begun there.
    begun: bool,
}

impl fmt::Debug for HeadMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadMachine").field("cluster", &self.0.cluster).finish_non_exhaustive()
    }
}

impl HeadMachine {
    /// Of a head that is there; `place` is its project and zone.
    pub fn new(cluster: &str, place: (String, String), head: &Head, server: &SshServer) -> Self {
        let ((project, zone), shared) = (place, head.shared.clone());
        let mut names = Random::new(shared.scenario.seed ^ 0x6865_6164);
        let since = shared.now(|c| c.now) - AGE;
        let first = Instance { name: name(cluster, &mut names), since, begun: true };
        Self(Arc::new(Inner {
            cluster: cluster.to_owned(),
            project,
            zone,
            shared,
            door: server.door().clone(),
            port: server.address.port(),
            names: Mutex::new(names),
            standing: Mutex::new(Some(first)),
            work: tokio::sync::Mutex::new(()),
        }))
    }

    /// The cluster's name.
    pub fn cluster(&self) -> &str {
        &self.0.cluster
    }

    /// The project of its machines.
    pub fn project(&self) -> &str {
        &self.0.project
    }

    /// The zone of its machines.
    pub fn zone(&self) -> &str {
        &self.0.zone
    }

    /// The cluster.
    pub fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// The port of its SSH server.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Waits until nothing else works on it.
    pub async fn work(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.work.lock().await
    }

    /// Whether the machine exists.
    pub fn exists(&self) -> bool {
        locked(&self.0.standing).is_some()
    }

    /// Whether the machine exists and Ray was started there.
    pub fn has_begun(&self) -> bool {
        locked(&self.0.standing).as_ref().is_some_and(|i| i.begun)
    }

    /// Whether logins are accepted.
    pub fn answers(&self) -> bool {
        self.0.door.is_open()
    }

    /// The machine as Compute shows it; none when there is none.
    pub fn instance(&self) -> Option<Value> {
        let Instance { name, since, .. } = locked(&self.0.standing).clone()?;
        let Inner { cluster, project, zone, .. } = &*self.0;
        let labels = json!({"ray-cluster-name": cluster, "ray-node-type": "head", "ray-user-node-type": "head_default",
            "ray-node-name": format!("ray-{cluster}-head"), "ray-node-status": "up-to-date"});
        let mut instance = compute::instance(zone, &name, &labels, HEAD_IP, Some(ADDRESS));
        instance["zone"] =
            json!(format!("https://www.googleapis.com/compute/v1/projects/{project}/zones/{zone}"));
        instance["creationTimestamp"] = json!(time(since));
        Some(instance)
    }

    /// Deletes the machine with everything that runs on it.
    pub fn delete(&self) {
        if locked(&self.0.standing).take().is_some() {
            self.0.door.shut();
            self.0.shared.fall();
        }
    }

    /// Creates a new machine, which does not accept logins yet; returns its name.
    pub fn make(&self) -> String {
        let name = name(&self.0.cluster, &mut locked(&self.0.names));
        let since = self.0.shared.now(|c| c.now);
        *locked(&self.0.standing) = Some(Instance { name: name.clone(), since, begun: false });
        name
    }

    /// A new Ray runs there; false when the machine was deleted meanwhile.
    pub fn begin(&self) -> bool {
        let mut standing = locked(&self.0.standing);
        let Some(machine) = standing.as_mut() else { return false };
        machine.begun = true;
        self.0.shared.rise();
        self.0.door.unlock();
        true
    }
}

/// A name as Ray's launcher gives one.
fn name(cluster: &str, random: &mut Random) -> String {
    format!("ray-{cluster}-head-{:08x}-compute", random.next() >> 32)
}
