//! `marin-tui clusters`: what is known, without connecting to anything.

use super::{columns, output};
use crate::config::{self, Config, Entry};
use crate::model::HeadAddress;
use std::io::Write;

/// Prints every cluster and every broken file, or the one that was named.
pub fn print(config: &Config, chosen: Option<&str>, json: bool) -> anyhow::Result<()> {
    let only = chosen.map(|name| config::resolve(name, &config.entries)).transpose()?;
    let is_meant = |e: &&Entry| only.is_none_or(|only| e.cluster().is_some_and(|c| c.name == only.name));
    let entries = || config.entries.iter().filter(is_meant);
    if json {
        return output::json(&entries().map(as_json).collect::<Vec<_>>());
    }
    let mut out = output::stdout();
    let rows: Vec<Vec<String>> = entries().filter_map(as_row).collect();
    columns::print(&mut out, &["CLUSTER", "PROVIDER", "HEAD", "FILE"], &rows)?;
    for entry in entries() {
        if let Entry::Broken(broken) = entry {
            writeln!(out, "broken: {}; {}", broken.problem.what, broken.problem.mend)?;
        }
    }
    Ok(())
}

fn as_row(entry: &Entry) -> Option<Vec<String>> {
    let spec = entry.cluster()?;
    let file = spec.file.as_ref().map_or_else(|| "-".into(), |f| f.display().to_string());
    let provider = if spec.provider.is_empty() { "-".into() } else { spec.provider.clone() };
    Some(vec![spec.name.to_string(), provider, spec.head_words(), file])
}

/// One row for scripts: `name`, `provider`, `zone`, `head`, `file`, `node_types`, or `file` and `error`, `mend`.
fn as_json(entry: &Entry) -> serde_json::Value {
    match entry {
        Entry::Broken(b) => {
            serde_json::json!({"file": b.file, "error": b.problem.what, "mend": b.problem.mend})
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
            serde_json::json!({
                "name": spec.name.as_str(), "provider": spec.provider, "zone": spec.zone, "head": head,
                "file": spec.file, "node_types": types,
            })
        }
    }
}
