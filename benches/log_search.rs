//! Searching and filtering the lines of a log that are buffer: all of them, and one step between two keys.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use marin_tui::logs::{LogBuffer, Pattern, Search};
use marin_tui::model::Line;
use std::hint::black_box;

const LINES: u32 = 1_000_000;
/// Lines that arrive between two frames, 16 ms apart, in a log that grows by 10,000 lines per second.
const A_FRAME: u32 = 160;

/// A line of a training job's log.
fn line(n: u32) -> Line {
    let line = match n % 1000 {
        999 => format!("E1121 04:53:01.001 client.cc:77] RESOURCE_EXHAUSTED: out of memory in step {n}"),
        _ => {
            format!(
                "(train_step pid=1073, ip=10.128.0.5) I1121 04:53:01.001 train.py:88] step {n} loss 2.3456"
            )
        }
    };
    line.into()
}

/// A million lines, about 90 MB; the last million of a longer log.
fn buffer() -> LogBuffer {
    let mut buffer = LogBuffer::new(LINES as usize, usize::MAX);
    for n in 0..LINES {
        buffer.push(line(n));
    }
    buffer
}

fn bench(c: &mut Criterion) {
    let buffer = buffer();
    let mut group = c.benchmark_group("log_search");
    group.sample_size(10).throughput(Throughput::Elements(buffer.len() as u64));
    for text in ["resource_exhausted", r"step \d+7 loss", "RESOURCE|UNAVAILABLE", r"\bnan\b", "loss"] {
        let pattern = Pattern::parse(text).expect("a regular expression");
        group.bench_function(format!("1,000,000 lines: {text}"), |b| {
            b.iter(|| {
                let mut search = Search::new(pattern.clone());
                while !search.step(&buffer) {}
                black_box(search.found().len())
            });
        });
        group.bench_function(format!("one step: {text}"), |b| {
            b.iter(|| black_box(Search::new(pattern.clone()).step(&buffer)));
        });
    }
    group.throughput(Throughput::Elements(u64::from(A_FRAME)));
    for text in ["resource_exhausted", "loss"] {
        let mut search = Search::new(Pattern::parse(text).expect("a regular expression"));
        let mut buffer = buffer.clone();
        while !search.step(&buffer) {}
        let mut numbers = LINES..;
        group.bench_function(format!("10,000 lines a second, one frame: {text}"), |b| {
            b.iter(|| {
                for n in numbers.by_ref().take(A_FRAME as usize) {
                    buffer.push(line(n));
                }
                buffer.trim();
                while !search.step(&buffer) {}
                black_box(search.found().len())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
