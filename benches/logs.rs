//! What many workers' lines say together: 256 workers with 100 lines a second each, a second of them.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use marin_tui::logs::{Causes, Clock, Fold, Merge, Overview, Patterns, Source, Times, Worker};
use marin_tui::logs::{fault, level, noise, prefixed, shape};
use marin_tui::model::Timestamp;
use std::hint::black_box;
use std::time::Duration;

const WORKERS: u32 = 256;
const LINES: u32 = 100;
/// 2026-11-23 09:00 UTC.
const NOW: Timestamp = Timestamp::from_millis(1_795_424_400_000);

/// A line of a worker's log: mostly steps, some output of libraries, occasionally a warning; with or without Ray's prefix.
fn line(worker: u32, n: u32, has_prefix: bool) -> String {
    let prefix = if has_prefix {
        format!("(train_lm_task pid={}, ip=10.128.0.{worker}) ", 4000 + worker)
    } else {
        String::new()
    };
    let ms = n * 10 + worker % 10;
    let text = match n % 20 {
        0..12 => format!(
            "I1123 09:00:00.{ms:03}000 {worker} train.py:88] step {n} loss 2.{worker:03}{n:02} tokens/s 183456 mfu 0.41"
        ),
        12 | 13 => format!(
            "2026-11-23 09:00:00,{ms:03} - levanter.tracker - INFO - Progress on:train {n}.0it/7.00kit rate:7.8s/it \
             remaining:1:05:16 elapsed:31:40 postfix:loss=2.34"
        ),
        14..18 => format!(
            "2026-11-23 09:00:00,{ms:03} [INFO] marin.data.loader read shard-{n:05} of 0x7f6a{worker:08x} in {ms} ms"
        ),
        18 => format!(
            "W1123 09:00:00.{ms:03}000 {worker} tpu_hal.cc:448] Registered plugin from module: sdc_checker"
        ),
        _ => format!("  plain words that a program of the user prints, {n} of them on host-{worker}"),
    };
    prefix + &text
}

/// The lines in the order in which they were written.
fn lines(has_prefix: bool) -> Vec<(u32, String)> {
    let of = |n: u32| (0..WORKERS).map(move |worker| (worker, line(worker, n, has_prefix)));
    (0..LINES).flat_map(of).collect()
}

/// A rule that looks at each line separately.
type Part<'a> = &'a dyn Fn(&str) -> bool;

fn bench(c: &mut Criterion) {
    let all = lines(false);
    let clock = Clock::utc(NOW);
    let mut group = c.benchmark_group("logs");
    group.throughput(Throughput::Elements(all.len() as u64));
    group.sample_size(20);
    for (name, lines) in [("fold", &all), ("fold, with Ray's prefix", &lines(true))] {
        group.bench_function(BenchmarkId::new(name, "25,600 lines"), |b| {
            b.iter(|| {
                let mut fold = Fold::new(Duration::from_secs(10), 64 << 20, Patterns::default());
                let mut times = vec![Times::new(clock); WORKERS as usize];
                for (worker, line) in lines {
                    let time = times[*worker as usize].next(line);
                    fold.push(*worker, 0, time, line);
                }
                black_box(fold.rows().len())
            });
        });
    }
    group.bench_function(BenchmarkId::new("merge", "25,600 lines"), |b| {
        b.iter(|| {
            let mut merge = Merge::default();
            let mut times = vec![Times::new(clock); WORKERS as usize];
            for (n, (worker, line)) in all.iter().enumerate() {
                merge.push(*worker, times[*worker as usize].next(line), n);
            }
            std::iter::from_fn(|| merge.pop()).count()
        });
    });
    group.bench_function(BenchmarkId::new("root cause", "25,600 lines"), |b| {
        b.iter(|| {
            let mut causes = Causes::new(vec![Source::default(); WORKERS as usize], Patterns::default());
            for (worker, line) in &all {
                causes.push(*worker, 0, None, line);
            }
            causes.explain().is_some()
        });
    });
    group.bench_function(BenchmarkId::new("overview", "25,600 lines"), |b| {
        b.iter(|| {
            let mut overview =
                Overview::new(vec![Worker::default(); WORKERS as usize], clock, Patterns::default());
            for (worker, line) in &all {
                overview.push(*worker, line);
            }
            overview.call(NOW).len()
        });
    });
    let patterns = Patterns::default();
    let parts: [(&str, Part<'_>); 7] = [
        ("prefix", &|line| prefixed(line).writer.is_some()),
        ("time", &|line| clock.time(line).is_some()),
        ("level", &|line| level(line).is_some()),
        ("progress", &|line| patterns.read(line).is_some()),
        ("shape", &|line| shape(line).0 == 0),
        ("noise", &|line| noise(line).is_some()),
        ("fault", &|line| fault(line).is_some()),
    ];
    for (name, part) in parts {
        group.bench_function(BenchmarkId::new(name, "25,600 lines"), |b| {
            b.iter(|| all.iter().filter(|(_, line)| part(black_box(line))).count());
        });
    }
    group.finish();

    let mut group = c.benchmark_group("logs, one line of 1 MB");
    let long = "step 12 loss 2.3 /a/b:c=d, ".repeat(40_000);
    group.throughput(Throughput::Bytes(long.len() as u64));
    group.bench_function("fold", |b| {
        b.iter(|| {
            let mut fold = Fold::new(Duration::from_secs(10), 64 << 20, Patterns::default());
            fold.push(0, 0, clock.time(&long), &long);
            black_box(fold.rows().len())
        });
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
