//! `marin-tui clusters`: what is known, without connecting to anything.

use crate::config::{Config, Entry};
use crate::model::HeadAddress;
use std::io::{self, Write};

/// Prints every cluster and every broken file.
pub fn print(config: &Config, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        let rows: Vec<_> = config.entries.iter().map(as_json).collect();
        serde_json::to_writer_pretty(&mut out, &rows)?;
        return writeln!(out);
    }
    let rows: Vec<[String; 4]> = config.entries.iter().filter_map(as_row).collect();
    let header = ["CLUSTER", "PROVIDER", "HEAD", "FILE"].map(String::from);
    let widths: Vec<usize> = (0..4)
        .map(|i| rows.iter().chain([&header]).map(|r| r[i].chars().count()).max().unwrap_or(0))
        .collect();
    for row in [&header].into_iter().chain(&rows) {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    for entry in &config.entries {
        if let Entry::Broken(broken) = entry {
            writeln!(out, "broken: {}; {}", broken.problem.what, broken.problem.mend)?;
        }
    }
    Ok(())
}

fn as_row(entry: &Entry) -> Option<[String; 4]> {
    let spec = entry.cluster()?;
    let head = match &spec.head {
        HeadAddress::Ssh(host) => host.clone(),
        HeadAddress::AskRay => "ray get-head-ip".into(),
        HeadAddress::Direct { dashboard, .. } => dashboard.clone(),
    };
    let file = spec.file.as_ref().map_or_else(|| "-".into(), |f| f.display().to_string());
    let provider = if spec.provider.is_empty() { "-".into() } else { spec.provider.clone() };
    let clean = |s: String| crate::model::text::printable(&s).into_owned();
    Some([spec.name.to_string(), provider, head, file].map(clean))
}

/// One row for scripts: `name`, `provider`, `zone`, `head`, `file`, `node_types`, or `file` and `error`, `mend`.
fn as_json(entry: &Entry) -> serde_json::Value {
    match entry {
        Entry::Broken(b) => {
            serde_json::json!({"file": b.file, "error": b.problem.what, "mend": b.problem.mend})
        }
        Entry::Cluster(spec) => {
            let head = match &spec.head {
                HeadAddress::Ssh(host) => serde_json::json!({"ssh": host}),
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
