//! Cleaning log lines before they may reach a terminal: what 10,000 lines a second cost.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use marin_tui::model::text::log_line;
use std::hint::black_box;

/// One second of a busy job's log: mostly plain lines, some with colors, control sequences or a progress bar.
fn lines() -> Vec<String> {
    let line = |n: u32| match n % 10 {
        0..6 => format!(
            "I1121 04:53:01.{:03} train.py:88] step {n} loss 2.3456 tokens/s 183456 mfu 0.41",
            n % 1000
        ),
        6 | 7 => format!("\u{1b}[36m(train_step pid=1073, ip=10.128.0.5)\u{1b}[0m step {n} loss 2.3456"),
        8 => format!("downloading:  {n} %|####      | 41/100\rdownloading:  {n} %|#####     | 52/100"),
        _ => format!("\u{1b}]52;c;aGk=\u{7}\u{1b}[2Jowned \u{202e}{n}\t\u{0}世界"),
    };
    (0..10_000).map(line).collect()
}

fn bench(c: &mut Criterion) {
    let lines = lines();
    let mut group = c.benchmark_group("log_line");
    group.throughput(Throughput::Elements(lines.len() as u64));
    group.bench_function("10,000 lines", |b| {
        b.iter(|| {
            for line in &lines {
                black_box(log_line(line));
            }
        });
    });
    let long = "x\u{1b}[31m".repeat(200_000);
    group.throughput(Throughput::Bytes(long.len() as u64));
    group.bench_function("one line of 1 MB", |b| b.iter(|| black_box(log_line(&long))));
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
