//! The machine of a simulated head in the fleet's simulated Google. Deleting it also ends the head's SSH server, Ray
//! and autoscaler. The `ray` command of a demo creates a new one.

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

/// The address of all heads.
pub(super) const ADDRESS: &str = "127.0.0.1";
/// Age of the first machine of a cluster when the fleet starts, in milliseconds.
const AGE: i64 = 9 * 3_600_000;

/// The machine of a cluster's head, which may not exist at the moment. Cheap to clone.
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
    machine: Mutex<Option<Instance>>,
    /// Held by a `ray` command that changes the machine, so that only one does at a time.
    lock: tokio::sync::Mutex<()>,
}

/// A machine as Compute Engine lists it.
#[derive(Clone, Debug)]
struct Instance {
    name: String,
    /// When it was created, in milliseconds since the epoch.
    since: i64,
    /// Whether Ray was started there.
    has_ray: bool,
}

impl fmt::Debug for HeadMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadMachine").field("cluster", &self.0.cluster).finish_non_exhaustive()
    }
}

impl HeadMachine {
    /// The machine of a running head; `location` is its project and zone.
    pub fn new(cluster: &str, location: (String, String), head: &Head, server: &SshServer) -> Self {
        let ((project, zone), shared) = (location, head.shared.clone());
        let mut names = Random::new(shared.scenario.seed ^ 0x6865_6164);
        let since = shared.now(|c| c.now) - AGE;
        let first = Instance { name: name(cluster, &mut names), since, has_ray: true };
        Self(Arc::new(Inner {
            cluster: cluster.to_owned(),
            project,
            zone,
            shared,
            door: server.door().clone(),
            port: server.address.port(),
            names: Mutex::new(names),
            machine: Mutex::new(Some(first)),
            lock: tokio::sync::Mutex::new(()),
        }))
    }

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

    pub fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// The port of its SSH server.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Waits until no other command changes the machine.
    pub async fn lock(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.lock.lock().await
    }

    /// Whether the machine exists.
    pub fn exists(&self) -> bool {
        locked(&self.0.machine).is_some()
    }

    /// Whether the machine exists and Ray was started there.
    pub fn has_ray(&self) -> bool {
        locked(&self.0.machine).as_ref().is_some_and(|i| i.has_ray)
    }

    /// Whether logins are accepted.
    pub fn accepts_logins(&self) -> bool {
        self.0.door.is_open()
    }

    /// The machine as Compute Engine returns it; none if it does not exist.
    pub fn instance(&self) -> Option<Value> {
        let Instance { name, since, .. } = locked(&self.0.machine).clone()?;
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
        if locked(&self.0.machine).take().is_some() {
            self.0.door.shut();
            self.0.shared.lose_machine();
        }
    }

    /// Creates a new machine, which does not accept logins yet; returns its name.
    pub fn create(&self) -> String {
        let name = name(&self.0.cluster, &mut locked(&self.0.names));
        let since = self.0.shared.now(|c| c.now);
        *locked(&self.0.machine) = Some(Instance { name: name.clone(), since, has_ray: false });
        name
    }

    /// Starts Ray on the machine; false if the machine was deleted in the meantime.
    pub fn start_ray(&self) -> bool {
        let mut guard = locked(&self.0.machine);
        let Some(machine) = guard.as_mut() else { return false };
        machine.has_ray = true;
        self.0.shared.restart_ray();
        self.0.door.unlock();
        true
    }
}

/// A name as Ray's cluster launcher generates it.
fn name(cluster: &str, random: &mut Random) -> String {
    format!("ray-{cluster}-head-{:08x}-compute", random.next() >> 32)
}
