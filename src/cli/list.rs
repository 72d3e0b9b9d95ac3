//! `marin-tui clusters`: what is known, without connecting to anything.

use super::{columns, hints, output};
use crate::config::{self, Config, Entry};
use crate::model::{ClusterName, ClusterSpec, HeadAddress, LocalPorts, Provider, Service, Target};
use crate::supervisor::usual_port;
use std::collections::BTreeMap;
use std::io::Write;

/// Prints all clusters and all broken files, or the chosen cluster.
pub fn print(config: &Config, chosen: Option<&str>, json: bool) -> anyhow::Result<()> {
    let only = chosen.map(|name| config::resolve(name, &config.entries)).transpose()?;
    let is_meant = |e: &&Entry| only.is_none_or(|only| e.cluster().is_some_and(|c| c.name == only.name));
    let entries = || config.entries.iter().filter(is_meant);
    let places: BTreeMap<&ClusterName, usize> = config
        .entries
        .iter()
        .filter_map(Entry::cluster)
        .zip(0..)
        .map(|(c, place)| (&c.name, place))
        .collect();
    if json {
        return output::json(&entries().map(|e| as_json(e, &places)).collect::<Vec<_>>());
    }
    let mut out = output::stdout();
    let rows: Vec<Vec<String>> = entries().filter_map(|e| as_row(e, &places)).collect();
    columns::print(&mut out, &["CLUSTER", "PROVIDER", "HEAD", "PORTS", "FILE"], &rows)?;
    for entry in entries() {
        if let Entry::Broken(broken) = entry {
            writeln!(out, "broken: {}", broken.problem.in_commands(Target::default()))?;
        }
    }
    Ok(())
}

/// The local ports that `forward`, `auth` and the console open for the cluster unless another program uses them; none
/// when the dashboard is reached directly.
fn ports(spec: &ClusterSpec, places: &BTreeMap<&ClusterName, usize>) -> LocalPorts {
    let is_direct = matches!(spec.head, HeadAddress::Direct { .. });
    let place = places.get(&spec.name).filter(|_| !is_direct);
    let of = |place: &usize| Service::ALL.map(|s| (s, usual_port(*place, s))).into_iter().collect();
    place.map(of).unwrap_or_default()
}

fn as_row(entry: &Entry, places: &BTreeMap<&ClusterName, usize>) -> Option<Vec<String>> {
    let spec = entry.cluster()?;
    let file = spec.file.as_ref().map_or_else(|| "-".into(), |f| f.display().to_string());
    let provider = if spec.provider == Provider::None { "-" } else { spec.provider.name() };
    let ports: Vec<_> = ports(spec, places).values().map(u16::to_string).collect();
    let ports = if ports.is_empty() { "-".into() } else { ports.join(" ") };
    Some(vec![spec.name.to_string(), provider.to_owned(), spec.head_words(), ports, file])
}

/// One row for scripts: `name`, `provider`, `zone`, `head`, `ports`, `file`, `node_types`, or `file` and `error`,
/// `hint`, `fixes`.
fn as_json(entry: &Entry, places: &BTreeMap<&ClusterName, usize>) -> serde_json::Value {
    match entry {
        Entry::Broken(b) => {
            let mut value = serde_json::json!({"file": b.file, "error": b.problem.what});
            hints::add(&mut value, Some(&b.problem.hint), Target::default());
            value
        }
        Entry::Cluster(spec) => {
            let head = match &spec.head {
                HeadAddress::Ssh(host) => serde_json::json!({"ssh": host.as_str()}),
                HeadAddress::AskRay => serde_json::json!({"ask": "ray get-head-ip"}),
                HeadAddress::Direct { dashboard, gcs } => {
                    serde_json::json!({"dashboard": dashboard, "gcs": gcs})
                }
            };
            let limits = spec.node_types.iter();
            let types: Vec<_> = limits
                .map(|t| serde_json::json!({"name": t.name, "min": t.min, "max": t.max, "head": t.is_head}))
                .collect();
            let ports = ports(spec, places);
            let ports = super::forward::as_json(|service| ports.get(&service).copied());
            serde_json::json!({
                "ports": ports, "name": spec.name.as_str(), "provider": spec.provider.name(), "zone": spec.zone, "head": head,
                "file": spec.file, "node_types": types,
            })
        }
    }
}
