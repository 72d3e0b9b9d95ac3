//! Fuzz tests of everything that reads log lines; see [`crate::model::fuzz`].

use super::*;
use crate::model::Timestamp;
use crate::model::fuzz::fuzz;
use std::time::Duration;

/// Lines in all formats that this module reads.
const LINES: [&str; 16] = [
    "(train pid=7, ip=10.0.0.1) I1121 04:53:01.001 train.py:88] step 3 loss 2.1 [repeated 12x across cluster]",
    "2026-11-21T13:58:14.123+01:00 [WARNING] marin.training.training x",
    "[11/21/26 13:58:14] INFO x",
    "Nov  1 13:58:14 host kernel: Out of memory: Killed process 1073 (python)",
    "13:58:14.123 x",
    " 45%|####5     | 45/100 [00:10<00:12,  4.5it/s, loss=2.3]",
    "{\"__magic_token__\": \"__ray_tqdm_magic_token__\", \"x\": 3, \"desc\": \"map\", \"total\": 10}",
    "Progress on:train 19.0it/70.0it rate:76.8s/it remaining:1:05:16 elapsed:31:40 postfix:loss=2.34",
    "completed step: 9, seconds: 5.667, TFLOP/s/device: 134.924, loss: 10.374",
    "{'loss': 1.2345, 'grad_norm': nan, 'learning_rate': 3e-05, 'epoch': 0.31}",
    "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nValueError: rank 3 is bad\n\n\
     During handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n\
     \x20 x\nray.exceptions.RayTaskError(ValueError): ray::f() (pid=3)",
    "XlaRuntimeError: UNAVAILABLE: Socket closed",
    "node 123e4567-e89b-12d3-a456-426614174000 at t1v-n-3f2a9c01-w-7 0x7f6a2b72718b -1,200.5e-3",
    "E\0R\0R\0O\0R\0 \0w\0i\0d\0e\0\n\0",
    "Tracing train_step for jaxpr...",
    "::\n(\n[\n{\n|\n%|\nit [\n/\n-",
];

#[test]
fn fuzz_log_lines() {
    let seeds: Vec<Vec<u8>> = LINES.iter().map(|line| line.as_bytes().to_vec()).collect();
    let now = Timestamp::from_millis(1_795_424_400_000);
    fuzz(&seeds, |bytes| {
        let mut splitter = LineSplitter::default();
        let mut lines = splitter.push(bytes);
        lines.extend(splitter.finish());
        let clock = Clock { near: now, utc_offset: -8 * 3600 };
        let (mut times, mut writers) = (Times::new(clock), Writers::default());
        let mut merge = Merge::default();
        let mut fold = Fold::new(Duration::from_secs(10), 4096, Patterns::default());
        let mut overview = Overview::new(vec![Worker::default(); 4], clock, Patterns::default());
        let mut causes = Causes::new(vec![Source::default(); 4], Patterns::default());
        let mut series = Series::default();
        for (n, line) in (0u32..).zip(&lines) {
            let text = line.text();
            let split = prefixed(text);
            assert!(text.len() >= split.text.len() && split.times > 0);
            let source = split.writer.map_or(0, |w| writers.number(&w) % 3 + 1);
            let time = times.next(text);
            let _ = (level(text), noise(text), fault(text));
            assert_eq!(shape(text), shape(split.text), "the prefix does not affect the shape");
            if let Some(progress) = Patterns::default().read(text) {
                series.push(&progress, time);
            }
            overview.push(source, text);
            causes.push(source, n.into(), time, text);
            merge.push(source, time, (n, text));
        }
        assert!(series.losses(10).iter().all(|loss| loss.is_finite() || loss.abs() > f64::MAX / 1e6));
        let _ = (series.rate(), series.remaining(now));
        while let Some(merged) = merge.pop() {
            fold.push(merged.source, merged.item.0.into(), merged.time, merged.item.1);
        }
        fold.flush();
        assert!(fold.rows().all(|row| !row.members().is_empty()));
        assert_eq!(overview.call(now).len(), 4);
        if let Some(found) = causes.explain() {
            assert!(found.silent.len() < 4);
        }
    });
}
