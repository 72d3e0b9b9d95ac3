//! A cluster that was not read from a file.

use marin_tui::model::{ClusterName, ClusterSpec, GoogleNames, HeadAddress, Provider, SshAuth};

/// A cluster in Google Cloud of which only the name is known; tests set further fields as needed.
pub fn spec(name: &str) -> ClusterSpec {
    ClusterSpec {
        name: ClusterName::new(name),
        file: None,
        accepted: None,
        provider: Provider::Gcp,
        zone: None,
        head: HeadAddress::RayLookup,
        auth: SshAuth::default(),
        node_types: Vec::new(),
        max_workers: None,
        google: GoogleNames::default(),
    }
}
