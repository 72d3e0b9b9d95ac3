//! `marin-tui clusters`: lists the clusters without connecting to them; with `--wide` also their heads at Google.

use super::google::google;
use super::reach::Reach;
use super::{columns, hints, output};
use crate::config::{self, Config, Entry};
use crate::gcp::{Head, Role};
use crate::model::sort;
use crate::model::{ClusterName, ClusterSpec, HeadAddress, LocalPorts, Provider, Service, Target};
use crate::supervisor::default_port;
use clap::Args;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui clusters                         clusters of ./infra, or of `infra` in the settings
  marin-tui clusters --wide                  with project, zone, and the addresses of the head
  marin-tui clusters --json | jq -r '.[].cluster'

INTERNAL and EXTERNAL are the addresses of running heads that Ray's launcher labeled; `-` if there is none.

Exit codes: 0 success, 1 the cluster files could not be read, or Google Cloud did not list all heads.";

/// Options of `clusters`.
#[derive(Clone, Copy, Debug, Args)]
pub struct ListArguments {
    /// Include project, zone (or region), and the head's addresses as reported by Google Cloud
    #[arg(long)]
    pub wide: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The running heads of the clusters for which Google was queried.
type Heads = BTreeMap<ClusterName, Vec<Head>>;

/// Data for the rows besides their entries.
struct Known<'a> {
    /// The index of each cluster in the list.
    cluster_indices: BTreeMap<&'a ClusterName, usize>,
    heads: Heads,
}

/// Prints all clusters and all broken files, or the chosen cluster.
pub(super) fn run(
    arguments: ListArguments,
    config: &Config,
    chosen: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let only = chosen.map(|name| config::resolve(name, &config.entries)).transpose()?;
    let is_selected = |e: &&Entry| only.is_none_or(|only| e.cluster().is_some_and(|c| c.name == only.name));
    let entries = || config.entries.iter().filter(is_selected);
    let clusters: Vec<&ClusterSpec> = entries().filter_map(Entry::cluster).collect();
    let (heads, is_complete) =
        if arguments.wide { Reach::block_on(read_heads(&clusters, config))? } else { (Heads::new(), true) };
    let code = if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let all = config.entries.iter().filter_map(Entry::cluster);
    let known = Known {
        cluster_indices: sort::collected(all.zip(0..).map(|(c, cluster_index)| (&c.name, cluster_index))),
        heads,
    };
    if arguments.json {
        output::json(&entries().map(|e| as_json(e, &known)).collect::<Vec<_>>())?;
        return Ok(code);
    }
    let mut out = output::stdout();
    let rows: Vec<Vec<String>> = clusters.iter().map(|spec| as_row(spec, &known, arguments.wide)).collect();
    let titles: &[&str] = if arguments.wide {
        &["CLUSTER", "PROVIDER", "PROJECT", "ZONE", "HEAD", "INTERNAL", "EXTERNAL", "PORTS", "FILE"]
    } else {
        &["CLUSTER", "PROVIDER", "HEAD", "PORTS", "FILE"]
    };
    columns::print(&mut out, titles, &rows)?;
    for entry in entries() {
        if let Entry::Broken(broken) = entry {
            writeln!(out, "broken: {}", broken.problem.in_commands(Target::default()))?;
        }
    }
    Ok(code)
}

/// The running heads of these clusters at Google, and whether all could be listed; errors are reported on stderr.
async fn read_heads(clusters: &[&ClusterSpec], config: &Config) -> anyhow::Result<(Heads, bool)> {
    let google = google(&config.settings);
    let at_google: Vec<(&ClusterSpec, &str)> = clusters
        .iter()
        .filter(|spec| spec.provider == Provider::Gcp)
        .filter_map(|spec| Some((*spec, spec.google.project.as_deref()?)))
        .collect();
    let projects: BTreeSet<&str> = sort::collected(at_google.iter().map(|(_, project)| *project));
    let (mut heads, mut is_complete) = (Heads::new(), true);
    for project in projects {
        let machines = match google.machines(project, Role::Head, None).await {
            Ok(machines) => machines,
            Err(e) => {
                eprintln!("incomplete: cannot list the heads in {project}: {e}; {}", e.hint());
                is_complete = false;
                continue;
            }
        };
        for zone in &machines.unreachable {
            eprintln!("incomplete: Google could not list {zone} of {project}");
            is_complete = false;
        }
        for (spec, _) in at_google.iter().filter(|(_, of)| *of == project) {
            let mut own = machines.clone();
            own.found.retain(|head| head.cluster.as_deref() == Some(spec.name.as_str()));
            if let Some(zone) = &spec.zone {
                own.keep_within(zone);
            }
            heads.insert(spec.name.clone(), own.running().into_iter().cloned().collect());
        }
    }
    Ok((heads, is_complete))
}

/// The local ports that `forward`, `auth` and the console open for the cluster unless another program uses them; `None`
/// if the dashboard is reached directly.
fn ports(spec: &ClusterSpec, cluster_indices: &BTreeMap<&ClusterName, usize>) -> LocalPorts {
    let is_direct = matches!(spec.head, HeadAddress::Direct { .. });
    let cluster_index = cluster_indices.get(&spec.name).filter(|_| !is_direct);
    let of =
        |cluster_index: &usize| sort::collected(Service::ALL.map(|s| (s, default_port(*cluster_index, s))));
    cluster_index.map(of).unwrap_or_default()
}

fn as_row(spec: &ClusterSpec, known: &Known<'_>, is_wide: bool) -> Vec<String> {
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let file = spec.file.as_ref().map(|f| f.display().to_string()).unwrap_or_default();
    let provider = if spec.provider == Provider::None { "" } else { spec.provider.name() };
    let mut row = vec![spec.name.to_string(), or_dash(provider.to_owned())];
    if is_wide {
        let location = [&spec.google.project, &spec.zone];
        row.extend(location.into_iter().map(|word| or_dash(word.clone().unwrap_or_default())));
    }
    row.push(spec.head_text());
    if is_wide {
        let heads = known.heads.get(&spec.name).map_or(&[][..], Vec::as_slice);
        for address in [|head: &Head| head.internal.clone(), |head: &Head| head.external.clone()] {
            row.push(or_dash(heads.iter().filter_map(address).collect::<Vec<_>>().join(", ")));
        }
    }
    let ports: Vec<_> = ports(spec, &known.cluster_indices).values().map(u16::to_string).collect();
    row.extend([ports.join(" "), file].map(or_dash));
    row
}

/// One row for scripts: `name`, `provider`, `project`, `zone`, `head`, `machines`, `ports`, `file`, `node_types`, or
/// `file` and `error`, `hint`, `fixes`.
fn as_json(entry: &Entry, known: &Known<'_>) -> Value {
    let spec = match entry {
        Entry::Cluster(spec) => spec,
        Entry::Broken(b) => {
            let mut value = json!({"file": output::path(&b.file), "error": b.problem.what});
            hints::add(&mut value, Some(&b.problem.hint), Target::default());
            return value;
        }
    };
    let head = match &spec.head {
        HeadAddress::Ssh(host) => json!({"ssh": host.as_str()}),
        HeadAddress::RayLookup => json!({"command": "ray get-head-ip"}),
        HeadAddress::Direct { dashboard, gcs } => json!({"dashboard": dashboard, "gcs": gcs}),
    };
    let limits = spec.node_types.iter();
    let types: Vec<_> =
        limits.map(|t| json!({"name": t.name, "min": t.min, "max": t.max, "head": t.is_head})).collect();
    let machine = |head: &Head| json!({"name": head.name, "zone": head.zone, "internal": head.internal, "external": head.external});
    let machines = known.heads.get(&spec.name).map(|heads| heads.iter().map(machine).collect::<Vec<_>>());
    let ports = ports(spec, &known.cluster_indices);
    let ports = super::forward::as_json(|service| ports.get(&service).copied());
    json!({
        "cluster": spec.name.as_str(), "provider": spec.provider.name(), "project": spec.google.project, "zone": spec.zone,
        "head": head, "machines": machines, "ports": ports, "file": spec.file.as_deref().map(output::path), "node_types": types,
    })
}
