//! The simulated head keeps the contract that `real_contract` holds real Ray to, and dies as Ray dies.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod contract;

use contract::{ALIVE, TOKEN, call, every_check, simulated};
use marin_tui::model::AutoscalerVersion;

#[tokio::test]
async fn the_simulated_head_keeps_the_contract() {
    for autoscaler in [AutoscalerVersion::V1, AutoscalerVersion::V2] {
        let (_head, target) = simulated(autoscaler).await;
        every_check(&target).await;
    }
}

/// A malformed id kills the real `gcs_server`; the double dies the same death, and says of what.
#[tokio::test]
async fn a_malformed_node_id_kills_the_simulated_gcs() {
    let (head, target) = simulated(AutoscalerVersion::V2).await;
    assert_eq!(head.gcs_death(), None);
    let refused = call(&target.gcs, Some(TOKEN), ALIVE, b"\x0a\x08deadbeef").await;
    assert!(refused.is_err());
    assert_eq!(head.gcs_death().as_deref(), Some("CheckAlive: a node id of 8 bytes"));
    let mut stream = tokio::net::TcpStream::connect(head.gcs).await.unwrap();
    let mut bytes = [0; 1];
    let read = tokio::io::AsyncReadExt::read(&mut stream, &mut bytes).await;
    assert!(matches!(read, Ok(0) | Err(_)), "it still talks");
}
