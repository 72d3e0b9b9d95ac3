//! Searching and filtering the lines of a log that are held: all of them, and one step between two keys.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use marin_tui::logs::{Held, Pattern, Search};
use std::hint::black_box;

/// A million lines as a training job writes them, some 90 MB.
fn held() -> Held {
    let mut held = Held::new(usize::MAX, usize::MAX);
    for n in 0..1_000_000_u32 {
        let line = match n % 1000 {
            999 => format!("E1121 04:53:01.001 client.cc:77] RESOURCE_EXHAUSTED: out of memory in step {n}"),
            _ => format!(
                "(train_step pid=1073, ip=10.128.0.5) I1121 04:53:01.001 train.py:88] step {n} loss 2.3456"
            ),
        };
        held.push(line.into());
    }
    held
}

fn bench(c: &mut Criterion) {
    let held = held();
    let mut group = c.benchmark_group("log_search");
    group.sample_size(10).throughput(Throughput::Elements(held.len() as u64));
    for text in ["resource_exhausted", r"step \d+7 loss", "RESOURCE|UNAVAILABLE", r"\bnan\b", "loss"] {
        let pattern = Pattern::parse(text).expect("a regular expression");
        group.bench_function(format!("1,000,000 lines: {text}"), |b| {
            b.iter(|| {
                let mut search = Search::new(pattern.clone());
                while !search.step(&held) {}
                black_box(search.found().len())
            });
        });
        group.bench_function(format!("one step: {text}"), |b| {
            b.iter(|| black_box(Search::new(pattern.clone()).step(&held)));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
