//! Ray's services on a head that can be forwarded to a local TCP port.

use super::ClusterName;
use std::collections::BTreeMap;

/// A service that listens on a port of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// The dashboard, for a browser or Ray's job commands.
    Dashboard,
    /// The GCS, for `ray status --address` and similar commands.
    Gcs,
    /// The Ray client server, for `ray.init("ray://...")`.
    Client,
}

/// Local ports by the service to which they are forwarded.
pub type LocalPorts = BTreeMap<Service, u16>;

impl Service {
    /// All services, in display order.
    pub const ALL: [Self; 3] = [Self::Dashboard, Self::Gcs, Self::Client];

    /// Its port on a head, and the local port that is tried first.
    pub const fn port(self) -> u16 {
        match self {
            Self::Dashboard => 8265,
            Self::Gcs => 6379,
            Self::Client => 10001,
        }
    }

    /// Name of the service for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Dashboard => "dashboard",
            Self::Gcs => "GCS",
            Self::Client => "Ray client",
        }
    }

    /// The address to use for the service on this local port.
    pub fn address(self, cluster: &ClusterName, port: u16) -> String {
        match self {
            Self::Dashboard => cluster.browser_url(port),
            Self::Gcs => format!("127.0.0.1:{port}"),
            Self::Client => format!("ray://127.0.0.1:{port}"),
        }
    }
}

/// The ports in words: `dashboard http://marin-a.localhost:8265, GCS 127.0.0.1:6379`.
pub fn addresses(cluster: &ClusterName, ports: &LocalPorts) -> String {
    let one = |(service, port): (&Service, &u16)| {
        format!("{} {}", service.label(), service.address(cluster, *port))
    };
    ports.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Warning for the open ports of a cluster without token authentication.
pub const OPEN_TO_ALL: &str = "no token authentication: any user on this machine can use the open ports";
