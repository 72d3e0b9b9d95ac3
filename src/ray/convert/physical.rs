//! Machine metrics: `GET /nodes/{id}` and, for small clusters, `GET /nodes?view=summary`.
//!
//! A node has up to 34 kB there, most of it command lines; unused fields are skipped during parsing.

use super::super::RayError;
use super::super::json::{Loose, Num, Rows, Str, Table, read_with};
use super::envelope;
use super::names::Names;
use crate::model::{Node, NodeId, Physical, Timestamp, TpuChip};
use serde::Deserialize;
use serde_json::Value;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Machine<'a> {
    now: Num,
    #[serde(borrow)]
    hostname: Str<'a>,
    cpu: Num,
    mem: Value,
    disk: Table<Loose<Disk>>,
    tpus: Rows<Tpu>,
    #[serde(borrow)]
    raylet: Loose<Raylet<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Disk {
    used: Num,
    total: Num,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tpu {
    tensorcore_utilization: Num,
    memory_used: Num,
    memory_total: Num,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Raylet<'a> {
    #[serde(borrow)]
    node_id: Str<'a>,
    #[serde(borrow)]
    state: Str<'a>,
    #[serde(borrow)]
    node_type_name: Str<'a>,
    #[serde(borrow)]
    instance_id: Str<'a>,
}

impl Machine<'_> {
    /// The metrics; `None` for a dead node (Ray repeats its last ones for ten minutes), for one whose agent has
    /// not reported yet, and for the empty response that Ray gives for an unknown node.
    fn physical(&self) -> Option<(NodeId, Physical)> {
        let raylet = &self.raylet.0;
        let id = NodeId::from_hex(&raylet.node_id.0)?;
        if raylet.state.0 != "ALIVE" {
            return None;
        }
        let sampled = self.now.0.map(Timestamp::from_secs_f64)?;
        let mem = |at: usize| self.mem.get(at).and_then(Value::as_u64);
        Some((
            id,
            Physical {
                sampled: Some(sampled),
                cpu_percent: self.cpu.0,
                memory: mem(3).zip(mem(0)),
                disk: self.disk.0.get("/").and_then(|d| d.0.used.whole().zip(d.0.total.whole())),
                tpus: self.tpus.0.iter().map(Tpu::chip).collect(),
            },
        ))
    }
}

impl Tpu {
    fn chip(&self) -> TpuChip {
        TpuChip {
            tensorcore_percent: self.tensorcore_utilization.0,
            memory: self.memory_used.whole().zip(self.memory_total.whole()),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Detail<'a> {
    #[serde(borrow)]
    detail: Loose<Machine<'a>>,
}

/// One machine's metrics.
pub fn one(route: &str, body: &[u8]) -> Result<Option<Physical>, RayError> {
    read_with(route, body, |text| {
        let detail: Detail = envelope::data(text)?;
        Ok(detail.detail.0.physical().map(|(_, physical)| physical))
    })
}

/// The data of the summary that the state API's list lacks.
#[derive(Default)]
pub struct Summary {
    /// Machine metrics of live nodes.
    pub physical: Vec<(NodeId, Physical)>,
    rows: Vec<Known>,
}

struct Known {
    id: NodeId,
    hostname: String,
    node_type: String,
    instance_id: String,
    used: Vec<(String, f64)>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SummaryData<'a> {
    #[serde(borrow)]
    summary: Rows<Machine<'a>>,
    #[serde(borrow, rename = "nodeLogicalResources")]
    logical: Table<Str<'a>>,
}

/// All machines' metrics (`GET /nodes?view=summary`): 10 to 17 kB per node, so for small clusters only.
pub fn summary(route: &str, body: &[u8]) -> Result<Summary, RayError> {
    read_with(route, body, |text| {
        let data: SummaryData = envelope::data(text)?;
        let mut summary = Summary::default();
        for machine in &data.summary.0 {
            summary.physical.extend(machine.physical());
            let raylet = &machine.raylet.0;
            let Some(id) = NodeId::from_hex(&raylet.node_id.0) else { continue };
            summary.rows.push(Known {
                id,
                hostname: machine.hostname.0.to_string(),
                node_type: raylet.node_type_name.0.to_string(),
                instance_id: raylet.instance_id.0.to_string(),
                used: data.logical.0.get(raylet.node_id.0.as_ref()).map(|t| usage(&t.0)).unwrap_or_default(),
            });
        }
        Ok(summary)
    })
}

impl Summary {
    /// Adds host name, type, instance id and current usage to the nodes in the summary.
    pub fn fill(&self, nodes: &mut [Node]) {
        for node in nodes {
            let Some(known) = self.rows.iter().find(|k| k.id == node.id) else { continue };
            for (field, seen) in [
                (&mut node.hostname, &known.hostname),
                (&mut node.node_type, &known.node_type),
                (&mut node.instance_id, &known.instance_id),
            ] {
                if !seen.is_empty() {
                    *field = seen.as_str().into();
                }
            }
            let mut names = Names::default();
            node.resources.0.iter().for_each(|r| names.insert(r.name.raw()));
            for (name, used) in &known.used {
                let name = names.recover(name);
                if let Some(r) = node.resources.0.iter_mut().find(|r| r.name.raw() == name) {
                    r.used = Some(*used);
                }
            }
        }
    }
}

/// The used amounts in `1.0/2.0 CPU (0.0 used of 0.1 reserved in placement groups)`, `0B/21.95GiB memory`.
fn usage(text: &str) -> Vec<(String, f64)> {
    let line = |line: &str| {
        let (used, rest) = line.trim().split_once('/')?;
        let (_, name) = rest.split_once(' ')?;
        let name = name.split(" (").next().unwrap_or(name);
        Some((name.to_owned(), amount(used)?))
    };
    text.lines().filter_map(line).collect()
}

/// A number, or bytes as Ray writes them.
fn amount(s: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 4] =
        [("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("B", 1.0)];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((s.strip_suffix(unit)?, *factor)));
    let (digits, factor) = unit.unwrap_or((s, 1.0));
    digits.parse::<f64>().ok().map(|n| n * factor)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{VERSIONS, body};
    use super::super::nodes;
    use super::*;

    #[test]
    fn a_recorded_machine_is_read() {
        for version in VERSIONS {
            let p = one("node", &body(version, "busy_node_worker")).unwrap().unwrap();
            assert!(p.cpu_percent.is_some_and(|c| (0.0..=100.0).contains(&c)), "{version}");
            assert!(p.memory.is_some_and(|(used, total)| used > 0 && used < total));
            assert!(p.disk.is_some_and(|(used, total)| used > 0 && used < total));
            assert!(p.sampled.is_some());
        }
    }

    #[test]
    fn an_unknown_or_dead_machine_has_no_metrics() {
        for version in VERSIONS {
            for name in ["busy_node_unknown", "dead_node_detail"] {
                assert_eq!(one("node", &body(version, name)).unwrap(), None, "{version} {name}");
            }
        }
        assert_eq!(one("node", &body("2.53.0", "agent_not_up_node_detail")).unwrap(), None);
    }

    #[test]
    fn tpu_chips_are_read() {
        for version in VERSIONS {
            let summary = summary("nodes", &body(version, "tpu_nodes_summary")).unwrap();
            let chips: Vec<_> = summary.physical.iter().flat_map(|(_, p)| &p.tpus).collect();
            assert!(chips.iter().any(|c| c.tensorcore_percent.is_some_and(|t| t >= 12.0)), "{version}");
            assert!(chips.iter().all(|c| c.memory.is_some_and(|(_, total)| total > 1 << 30)));
        }
    }

    #[test]
    fn the_summary_has_the_current_usage_under_v2() {
        for version in VERSIONS {
            let mut nodes = nodes::list("nodes", &body(version, "v2_dead_v0_nodes")).unwrap();
            let summary = summary("nodes", &body(version, "v2_dead_nodes_summary")).unwrap();
            summary.fill(&mut nodes);
            let head = nodes.iter().find(|n| n.is_head).unwrap();
            assert!(head.resources.get("CPU").unwrap().used.is_some(), "{version}");
            assert_eq!(head.resources.get("memory").unwrap().used, Some(0.0));
            assert!(!head.hostname.is_empty());
        }
    }
}
