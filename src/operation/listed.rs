//! Whether the file of a local cluster lists a worker.

use crate::model::{Node, Snapshot};
use futures_util::future::join_all;
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::lookup_host;

/// Time limit for resolving the names of a local cluster's workers.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);

/// The IP addresses of the hosts in a list that are given by name, as this machine resolves them. A name that it cannot
/// resolve in time, such as an alias of the ssh configuration, has none.
pub(super) async fn resolved(hosts: &[String]) -> Vec<IpAddr> {
    let names = hosts.iter().filter(|host| host.parse::<IpAddr>().is_err());
    let lookups = names.map(|name| async move {
        match tokio::time::timeout(RESOLVE_TIMEOUT, lookup_host((name.as_str(), 0_u16))).await {
            Ok(Ok(found)) => found.map(|address| address.ip()).collect::<Vec<IpAddr>>(),
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    });
    join_all(lookups.collect::<Vec<_>>()).await.concat()
}

/// Whether the cluster file lists this worker: by its address, by the host name of its node, or by a name that resolves
/// to its address. `listed` are the hosts in the file, and the addresses of those with a name.
pub(super) fn is_listed(
    worker: &str,
    (listed, resolved): (&[String], &[IpAddr]),
    snapshot: &Snapshot,
) -> bool {
    let is_named = |n: &Node| listed.iter().any(|name| name.eq_ignore_ascii_case(n.hostname.raw()));
    listed.iter().any(|address| address == worker)
        || worker.parse().is_ok_and(|address: IpAddr| resolved.contains(&address))
        || snapshot.nodes.iter().any(|n| n.state.is_alive() && n.address.raw() == worker && is_named(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_worker_is_listed_by_its_address_its_host_name_or_a_name_that_resolves_to_it() {
        let node = |n: u8, hostname: &str| Node { hostname: hostname.into(), ..Node::sample(n) };
        let nodes = vec![node(1, "gpu1"), node(2, "gpu2"), node(3, "gpu3"), node(4, "")];
        let snapshot = Snapshot { nodes: Arc::new(nodes), ..Snapshot::default() };
        let names = ["10.0.0.1", "GPU2", "gpu9", "10.0.0.40"].map(str::to_owned);
        let manual = |resolved: &[IpAddr]| {
            let workers = (1..5).map(|n| format!("10.0.0.{n}"));
            let manual = workers.filter(|worker| !is_listed(worker, (&names[..], resolved), &snapshot));
            manual.collect::<Vec<_>>()
        };
        assert_eq!(manual(&[]), ["10.0.0.3", "10.0.0.4"]);
        assert_eq!(manual(&["10.0.0.3".parse().unwrap()]), ["10.0.0.4"]);
        let loopback = resolved(&["localhost".to_owned(), "10.0.0.1".to_owned()]).await;
        assert!(!loopback.is_empty() && loopback.iter().all(IpAddr::is_loopback), "{loopback:?}");
    }
}
