//! Selects the nodes and files of a cluster, and names them in messages.

use crate::app::Cluster;
use crate::config::nearest;
use crate::model::amount::counted;
use crate::model::cloud::TpuHost;
use crate::model::text::printable;
use crate::model::{
    CompressedLog, Fix, Hint, Node, NodeId, Problem, ProblemKind, SearchedNode, Target, Text, Timestamp,
};

/// The word for all nodes.
pub(super) const ALL: &str = "all";
/// The files that are searched by default on many nodes. A driver may run on any node, e.g. on the host of a TPU.
pub(super) const WORKERS: &str = "worker-*";
const DRIVERS: &str = "job-driver-*";

/// The nodes, with the globs searched on each.
pub(super) fn globs(nodes: &[&Node], globs: &[String]) -> Vec<SearchedNode> {
    let searched = |node: &&Node| SearchedNode {
        node: node.id,
        host: TpuHost::of(node),
        is_head: node.is_head,
        globs: globs.to_vec(),
    };
    nodes.iter().map(searched).collect()
}

/// The files for a search of many nodes: the requested ones, or else those of drivers and workers.
pub(super) fn with_drivers(file: Option<&str>) -> Vec<String> {
    file.map_or_else(|| [DRIVERS, WORKERS].map(str::to_owned).to_vec(), |file| vec![file.to_owned()])
}

/// The live nodes that the word selects.
pub(super) fn chosen<'c>(cluster: &'c Cluster, word: &str) -> Result<Vec<&'c Node>, Problem> {
    let alive = || cluster.snapshot.nodes.iter().filter(|node| node.state.is_alive());
    let is_selected = |node: &&Node| {
        word == cluster.node_name(node).raw()
            || word == node.address.raw()
            || (word.len() >= 8 && node.id.to_string().starts_with(word))
            || (word == "head" && node.is_head)
    };
    let found: Vec<&Node> =
        if word == ALL { alive().collect() } else { alive().filter(is_selected).take(1).collect() };
    if !found.is_empty() {
        return Ok(found);
    }
    let dead = cluster.snapshot.nodes.iter().find(|node| is_selected(node));
    let list = Target::of(cluster.name()).line("list-nodes");
    let list = Hint::from(Fix::command("list the nodes that are alive", list));
    let now = Timestamp::now();
    let Some(dead) = dead else {
        let names: Vec<String> = alive().map(|node| cluster.node_name(node).to_string()).collect();
        let like = nearest(word, names.iter().map(String::as_str));
        let hint = like.map_or(list.clone(), |like| Hint::from(format!("did you mean `{like}`?")).and(list));
        return Err(Problem::new(ProblemKind::Other, format!("no node `{word}`"), hint, now));
    };
    let words = format!("{word}: its logs were lost with it: {}", dead.died(now));
    Err(Problem::new(ProblemKind::Other, words, list, now))
}

/// A file of a node, if it is compressed.
pub(super) fn compressed(cluster: &Cluster, node: &Node, file: &Text) -> Option<CompressedLog> {
    CompressedLog::of(cluster.name(), (!node.is_head).then_some(&node.address), file)
}

/// A node's name, and a file of it: `10.0.0.7 raylet.out`.
pub(super) fn node_file_label(cluster: &Cluster, node: NodeId, file: Option<&Text>) -> String {
    let node =
        cluster.node(&node).map_or_else(|| node.to_string(), |node| cluster.node_name(node).to_string());
    file.map_or_else(|| node.clone(), |file| format!("{node} {file}"))
}

/// The message that these nodes have no such file.
pub(super) fn no_file(cluster: &Cluster, file: &str, nodes: &[&Node]) -> String {
    let of = match nodes {
        [node] => {
            let name = cluster.node_name(node);
            let list = Target::of(cluster.name()).line(&format!("cluster-logs --node {name}"));
            return printable(&format!("{name} has no log file `{file}`; list them with `{list}`"))
                .into_owned();
        }
        nodes => counted(nodes.len(), "node"),
    };
    printable(&format!("none of {of} has a log file `{file}`")).into_owned()
}
