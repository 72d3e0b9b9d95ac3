//! Grouping the nodes of a fleet by slice: 14 clusters of 1,024 nodes each.

use criterion::{Criterion, criterion_group, criterion_main};
use marin_tui::model::{Node, NodeId, NodeState, Resource, Resources, Text, Timestamp};
use marin_tui::reconcile::BySlice;
use std::hint::black_box;

/// Milliseconds.
const NOW: Timestamp = Timestamp::from_millis(1_795_233_600_000);

/// A host of a slice of 16, with the labels and resources that Ray reports.
fn host(number: usize) -> Node {
    let slice = format!("ray-marin-us-central2-worker-{:08x}-tpu", number / 16);
    let mut id = [0; 28];
    id[..8].copy_from_slice(&number.to_be_bytes());
    let labels = [
        ("ray.io/accelerator-type", "TPU-V4".to_owned()),
        ("ray.io/availability-region", "us-central2".to_owned()),
        ("ray.io/availability-zone", "us-central2-b".to_owned()),
        ("ray.io/market-type", "spot".to_owned()),
        ("ray.io/node-group", "tpu_slice_v4_128".to_owned()),
        ("ray.io/node-id", format!("{number:056x}")),
        ("ray.io/tpu-pod-type", "v4-128".to_owned()),
        ("ray.io/tpu-slice-name", slice.clone()),
        ("ray.io/tpu-topology", "4x4x4".to_owned()),
        ("ray.io/tpu-worker-id", (number % 16).to_string()),
    ];
    let resources = [("CPU", 120.0), ("TPU", 4.0), ("memory", 4e11), ("object_store_memory", 1e11)];
    let named = [(slice.as_str(), 1.0), ("node:10.130.0.1", 1.0)];
    let resource =
        |(name, total): (&str, f64)| Resource { name: name.into(), total, used: Some(total / 2.0) };
    Node {
        id: NodeId::from_bytes(&id).expect("28 bytes"),
        name: format!("{slice}-w-{}", number % 16).as_str().into(),
        address: format!("10.130.{}.{}", number / 250, number % 250).as_str().into(),
        hostname: Text::default(),
        node_type: "tpu_slice_v4_128".into(),
        instance_id: slice.as_str().into(),
        is_head: number == 0,
        // Every eighth slice is lost.
        state: if number % 128 < 16 { NodeState::Dead } else { NodeState::Alive },
        started: Some(NOW),
        ended: (number % 128 < 16).then_some(NOW),
        death: None,
        idle_ms: None,
        resources: Resources(resources.into_iter().chain(named).map(resource).collect()),
        labels: labels.map(|(key, value)| (key.into(), value.as_str().into())).into(),
    }
}

fn bench(c: &mut Criterion) {
    let clusters: Vec<Vec<Node>> = (0..14).map(|_| (0..1024).map(host).collect()).collect();
    c.bench_function("14 clusters of 1,024 nodes by slice", |b| {
        b.iter(|| clusters.iter().map(|nodes| BySlice::of(black_box(nodes), NOW).rows.len()).sum::<usize>());
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
