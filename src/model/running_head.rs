//! Running heads at Google, and the problem of several heads for one cluster.

use super::command_line::shell_quote;
use super::{ClusterName, Fix, Hint, Problem, ProblemKind, Text, Timestamp};

/// A running machine that Ray's cluster launcher labeled as a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningHead {
    /// Label `ray-cluster-name`.
    pub cluster: Text,
    /// Name of the machine.
    pub name: Text,
    /// The machine's zone, e.g. `us-central2-b`.
    pub zone: Text,
    /// Its external address, else its internal one.
    pub address: Option<Text>,
}

/// The problem that several heads of the cluster are running; none if it has fewer than two. It is unknown which of
/// them has the cluster's jobs.
pub fn several_heads(
    cluster: &ClusterName,
    project: &str,
    heads: &[RunningHead],
    now: Timestamp,
) -> Option<Problem> {
    if heads.len() < 2 {
        return None;
    }
    let one = |head: &RunningHead| {
        let address = head.address.as_ref().map_or_else(|| "no address".to_owned(), ToString::to_string);
        format!("{} in {} ({address})", head.name, head.zone)
    };
    let all: Vec<String> = heads.iter().map(one).collect();
    let what = format!("{} heads of {cluster} are running: {}", heads.len(), all.join(", "));
    let choose = format!("set `clusters.{cluster}.address` in the settings to the address of the right one");
    let delete = |head: &RunningHead| {
        let line = format!(
            "gcloud compute instances delete {} --zone={} --project={}",
            shell_quote(head.name.raw()),
            shell_quote(head.zone.raw()),
            shell_quote(project)
        );
        Fix::command(format!("or, if {} is the wrong one, delete it", head.name), line)
    };
    let hint = heads.iter().fold(Hint::from(choose), |hint, head| hint.and(delete(head)));
    Some(Problem::new(ProblemKind::MultipleHeads, what, hint, now))
}
