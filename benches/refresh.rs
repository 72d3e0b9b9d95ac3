//! Reading a cluster of 1,024 nodes: request, transfer over loopback, decoding, conversion, on either channel.
//!
//! The simulated head has each answer ready before the clock starts, so what is measured is the client's share.

mod fleet;

use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main, measurement::WallTime,
};
use fleet::Fleet;
use marin_tui::ray::Poller;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

fn refresh(group: &mut BenchmarkGroup<'_, WallTime>, runtime: &Runtime, jobs: usize, over_gcs: bool) {
    let channel = if over_gcs { "GCS" } else { "HTTP" };
    let fleet = runtime.block_on(Fleet::start(jobs));
    // One refresh; another client has already made the head prepare its answers for this second.
    let time = async |fleet: &Fleet, poller: &mut Poller| {
        fleet.tick();
        fleet.poller(over_gcs).refresh().await.expect("the head answers");
        let began = Instant::now();
        poller.refresh().await.expect("the head answers");
        began.elapsed()
    };
    group.bench_function(BenchmarkId::new(format!("first, {channel}"), jobs), |b| {
        b.iter_custom(|times| {
            runtime.block_on(async {
                let mut sum = Duration::ZERO;
                for _ in 0..times {
                    sum += time(&fleet, &mut fleet.poller(over_gcs)).await;
                }
                sum
            })
        });
    });
    let mut poller = fleet.poller(over_gcs);
    group.bench_function(BenchmarkId::new(format!("next, {channel}"), jobs), |b| {
        b.iter_custom(|times| {
            runtime.block_on(async {
                let mut sum = Duration::ZERO;
                for _ in 0..times {
                    sum += time(&fleet, &mut poller).await;
                }
                sum
            })
        });
    });
}

fn bench(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = c.benchmark_group("refresh of 1,024 nodes");
    group.sample_size(10);
    for jobs in [1_000, 10_000] {
        for over_gcs in [true, false] {
            refresh(&mut group, &runtime, jobs, over_gcs);
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
