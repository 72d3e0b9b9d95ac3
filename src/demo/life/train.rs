//! The log of a training job: its configuration, steps, checkpoints, occasional warnings, and a traceback when it
//! fails. Each line is a function of the run and the line number.

use super::super::random::Random;
use super::stamp::stamp;
use std::fmt::Write;

/// Milliseconds between two lines of the driver's startup.
pub(super) const PACE: u64 = 150;
/// Steps between two checkpoints.
pub(super) const CHECKPOINT: u64 = 500;
/// The logger of the step lines.
const CALLBACK: &str = "levanter.callbacks";
/// Chips per host of a slice with several hosts.
const CHIPS_OF_HOST: u64 = 4;
/// Total steps of a scripted run.
pub(super) const STEPS: u64 = 200_000;
/// Maximum number of warmup steps of the learning rate.
const WARMUP: f64 = 1000.0;

/// The constant properties of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// Seed of its random values.
    pub seed: u64,
    /// Lines per second while it trains.
    pub rate: u64,
    pub id: String,
    /// The experiment, such as `exp1395_qwen3_32b`.
    pub experiment: String,
    /// The user who submitted it.
    pub owner: &'static str,
    /// The accelerator type of its slice, such as `v4-32`.
    pub pod_type: String,
    /// Number of chips of its slice.
    pub chips: u64,
    /// Bucket of the checkpoints, without `gs://`.
    pub bucket: String,
    /// When its loss begins to rise, in milliseconds since the epoch.
    pub diverges: Option<i64>,
    /// Total steps; 0 until its duration is known.
    pub steps: u64,
}

impl Run {
    #[cfg(test)]
    pub fn example(rate: u64) -> Self {
        let (id, bucket) = ("ray-run-alice-exp1395_qwen3_32b-4f1c22aa".into(), "marin-us-central2".into());
        let (experiment, pod_type) = ("exp1395_qwen3_32b".into(), "v4-32".into());
        let (owner, steps) = ("alice", STEPS);
        Self { seed: 7, rate, id, experiment, owner, pod_type, chips: 16, bucket, diverges: None, steps }
    }

    /// Process id of a worker; `turn` is the job's when it got its slice.
    pub fn pid(&self, worker: usize, turn: u32) -> u32 {
        4000 + (self.seed % 900) as u32 + (worker % 37) as u32 + turn * 1000
    }

    /// Number of steps in so many milliseconds.
    pub fn steps_in(&self, ms: i64) -> u64 {
        u64::try_from(ms).unwrap_or(0) * self.rate / 1000
    }

    /// The time of so many steps, in milliseconds.
    pub fn time_of(&self, steps: u64) -> i64 {
        i64::try_from(steps * 1000 / self.rate.max(1)).unwrap_or(i64::MAX)
    }

    fn output(&self) -> String {
        format!("gs://{}/checkpoints/{}-{:06x}", self.bucket, self.experiment, self.seed & 0xff_ffff)
    }

    fn config(&self) -> [String; 18] {
        let batch = self.chips * 32;
        [
            "trainer:".into(),
            format!("  id: {}", self.id.rsplit('-').next().unwrap_or_default()),
            format!("  train_batch_size: {batch}"),
            format!("  num_train_steps: {}", self.steps),
            format!("  checkpointer: {{base_path: {}/checkpoints, save_interval: 10m}}", self.output()),
            "  mp: {param: float32, compute: bfloat16}".into(),
            "  tracker: {type: wandb, entity: marin-community, project: marin}".into(),
            "  mesh: {axes: {replica: 1, data: -1, model: 1}}".into(),
            "model:".into(),
            format!("  type: {}", if self.experiment.contains("qwen") { "qwen" } else { "llama" }),
            "  seq_len: 4096".into(),
            "  gradient_checkpointing: true".into(),
            "optimizer:".into(),
            "  type: adam".into(),
            "  learning_rate: 3.0e-04".into(),
            "  weight_decay: 0.1".into(),
            "data:".into(),
            format!("  cache_dir: gs://{}/tokenized/nemotron_cc-12d1e3", self.bucket),
        ]
    }
}

/// Number of lines of the driver's startup.
pub(super) fn opening(run: &Run) -> u64 {
    3 + run.config().len() as u64
}

/// Line `i` of the driver's startup.
pub(super) fn begin(out: &mut String, run: &Run, i: u64, ms: i64) {
    let at = stamp(ms);
    // Writing to a String cannot fail.
    let _ = match i {
        0 => writeln!(out, "{at}\tINFO job_manager.py:568 -- Runtime env is setting up."),
        1 => writeln!(out, "Running entrypoint for job {}: {}", run.id, entrypoint(run)),
        2 => {
            writeln!(out, "{at} INFO marin.execution.executor Config of {} ({}):", run.experiment, run.owner)
        }
        _ => {
            let line = usize::try_from(i - 3).unwrap_or(0);
            writeln!(out, "{}", run.config().get(line).map_or("", String::as_str))
        }
    };
}

/// The entrypoint command of a run.
pub(super) fn entrypoint(run: &Run) -> String {
    format!("python experiments/{}.py --prefix gs://{}", run.experiment, run.bucket)
}

/// Line `i` of the driver's log while no slice is free: Ray's warnings.
pub(super) fn wait(out: &mut String, run: &Run, i: u64) {
    let shape = format!("{{'CPU': 1.0, 'TPU-{}-head': 1.0}}", run.pod_type);
    let _ = if i == 0 {
        writeln!(
            out,
            "\u{1b}[33m(raylet)\u{1b}[0m Warning: The following resource request cannot be scheduled right now: {shape}. This is likely due to all cluster resources being claimed by actors. Consider creating fewer actors or adding more nodes to this Ray cluster."
        )
    } else {
        writeln!(
            out,
            "\u{1b}[33m(autoscaler +{i}m)\u{1b}[0m Still waiting for a {} slice: {shape}",
            run.pod_type
        )
    };
}

/// Ray's prefix of the output of a task's process on the host at `ip`.
fn prefix(pid: u32, ip: &str) -> String {
    format!("\u{1b}[36m(train_lm_task pid={pid}, ip={ip})\u{1b}[0m ")
}

/// The line of one step in the driver's log: the output of the first worker, process `pid` on the host at `ip`.
pub(super) fn step(out: &mut String, run: &Run, step: u64, (pid, ip): (u32, &str), ms: i64) {
    out.push_str(&prefix(pid, ip));
    let from = out.len();
    worker_line(out, run, step, ms);
    // Step lines come from the first worker only. Of a line that all workers write, Ray prints one with a count
    // (`LogDeduplicator` in `ray/_private/ray_logging/__init__.py`).
    let others = (run.chips / CHIPS_OF_HOST).saturating_sub(1);
    if others > 1 && !out[from..].contains(CALLBACK) {
        out.pop();
        let _ = writeln!(out, "\u{1b}[32m [repeated {others}x across cluster]\u{1b}[0m");
    }
}

/// The line of one step in a worker's log.
pub(super) fn worker_line(out: &mut String, run: &Run, step: u64, ms: i64) {
    let mut random = Random::new(run.seed ^ step.wrapping_mul(0x9e37_79b9));
    let _ = write!(out, "{} ", stamp(ms));
    let _ = if step > 0 && step.is_multiple_of(CHECKPOINT) && step != run.steps {
        writeln!(
            out,
            "INFO levanter.checkpoint Saved checkpoint at step {step} to {}/checkpoints/step-{step} in {:.1}s",
            run.output(),
            8.0 + random.unit() * 20.0
        )
    } else if random.below(260) == 0 && step != run.steps {
        let warnings = [
            "WARNING levanter.data.loader Data loading is slow: waited 1.8s for a batch",
            "WARNING levanter.tracker.wandb wandb: Network error (ReadTimeout), entering retry loop.",
            "WARNING jax._src.xla_bridge Slow compile: jit(_train_step) took 64.2s",
        ];
        writeln!(out, "{}", random.pick(&warnings))
    } else {
        let n = step as f64;
        let mut loss = 1.9 + 9.0 / (1.0 + n / 60.0).powf(0.55) + (random.unit() - 0.5) * 0.05;
        if let Some(from) = run.diverges.filter(|from| ms > *from) {
            // It triples within ten minutes.
            loss *= 1.0 + 2.0 * ((ms - from) as f64 / 600_000.0).min(1.0);
        }
        let all = run.steps.max(1) as f64;
        let warmup = WARMUP.min(all / 10.0);
        let lr = 3.0e-4 * (n / warmup).min(1.0) * (1.0 - (n / all).min(1.0) * 0.9);
        let (mfu, norm) = (48.0 + random.unit() * 6.0, 0.2 + random.unit() * 0.3);
        let tokens = run.chips as f64 * mfu * 260.0;
        writeln!(
            out,
            "INFO {CALLBACK} step {step}/{} loss {loss:.4} lr {} grad_norm {norm:.3} mfu {mfu:.1} tokens/s {tokens:.0}",
            run.steps,
            scientific(lr)
        )
    };
}

/// The last lines of a worker that finishes at `ms`.
pub(super) fn finish(run: &Run, ms: i64) -> Vec<String> {
    let mut last = String::new();
    worker_line(&mut last, run, run.steps, ms);
    let at = stamp(ms);
    vec![
        last.trim_end().to_owned(),
        format!(
            "{at} INFO levanter.checkpoint Saved checkpoint at step {} to {}/checkpoints/step-{} in 9.3s",
            run.steps,
            run.output(),
            run.steps
        ),
        format!("{at} INFO levanter.main.train_lm Finished training"),
    ]
}

/// The last lines in the driver's log of a run that finishes at `ms`: the output of the first worker, and the driver's.
pub(super) fn succeed(run: &Run, (pid, ip): (u32, &str), ms: i64) -> Vec<String> {
    let mut lines: Vec<String> =
        finish(run, ms).into_iter().map(|line| format!("{}{line}", prefix(pid, ip))).collect();
    lines.push(format!("{} INFO marin.execution.executor {} succeeded", stamp(ms), run.experiment));
    lines
}

/// A number in the format of Python's `%.2e`.
fn scientific(x: f64) -> String {
    let text = format!("{x:.2e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = power.strip_prefix('-').map_or(('+', power), |p| ('-', p));
    format!("{digits}e{sign}{power:0>2}")
}

/// Speed in percent: of a steady worker, and of a slow one.
pub(super) const STEADY: u64 = 100;
pub(super) const SLOW: u64 = 88;
/// Speed of all workers in percent once their run has slowed down.
pub(super) const LATER: u64 = 75;

/// Number of lines of a worker's startup.
pub(super) const LOADING: u64 = 4;
/// Milliseconds between two lines of a worker's startup.
pub(super) const LOAD_PACE: u64 = 1400;

/// Line `i` of a worker's startup.
pub(super) fn load(out: &mut String, run: &Run, worker: usize, i: u64, ms: i64) {
    let at = stamp(ms);
    // Writing to a String cannot fail.
    let _ = match i {
        0 => writeln!(
            out,
            "{at} INFO jax._src.distributed Connecting to JAX distributed service, process_id={worker}"
        ),
        1 => writeln!(
            out,
            "{at} INFO jax._src.xla_bridge Unable to initialize backend 'cuda': module 'jaxlib' has no attribute 'cuda'"
        ),
        2 => writeln!(out, "{at} INFO levanter.main.train_lm {} chips of a {}", run.chips, run.pod_type),
        _ => writeln!(
            out,
            "{at} INFO levanter.trainer First batch loaded in 2.1s, starting first train step (includes JIT compilation)..."
        ),
    };
}

/// The directory into which a run's working directory is unpacked.
pub(super) fn working_dir(run: &Run) -> String {
    format!("/tmp/ray/session_latest/runtime_resources/working_dir_files/_ray_pkg_{:016x}", run.seed)
}

/// Error of a chip that ran out of memory.
pub(super) const OUT_OF_MEMORY: &str = "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 33.12G of 30.75G hbm. Exceeded hbm capacity by 2.37G.";

/// A random error that ends a run.
pub(super) fn error(random: &mut Random) -> &'static str {
    random.pick(&[
        OUT_OF_MEMORY,
        "ValueError: Loss is nan at step boundary; the last good checkpoint was kept",
        "google.api_core.exceptions.ServiceUnavailable: 503 GET https://storage.googleapis.com/storage/v1/b: Backend Error",
    ])
}

/// The driver's last log lines when its first worker fails with this error.
pub(super) fn traceback(run: &Run, error: &str, (pid, ip): (u32, &str)) -> Vec<String> {
    let file = working_dir(run);
    vec![
        "Traceback (most recent call last):".into(),
        format!("  File \"{file}/experiments/{}.py\", line 61, in <module>", run.experiment),
        "    executor_main(steps=[train])".into(),
        format!("  File \"{file}/src/marin/execution/executor.py\", line 812, in executor_main"),
        "    ray.get(step_futures)".into(),
        format!("ray.exceptions.RayTaskError: \u{1b}[36mray::train_lm_task()\u{1b}[39m (pid={pid}, ip={ip})"),
        format!("  File \"{file}/src/levanter/main/train_lm.py\", line 214, in main"),
        "    trainer.train(state, train_loader)".into(),
        error.into(),
    ]
}

/// The driver's last log lines when the hosts of its run were lost.
pub(super) fn lost(run: &Run, ip: &str) -> Vec<String> {
    vec![
        "Traceback (most recent call last):".into(),
        format!("  File \"experiments/{}.py\", line 61, in <module>", run.experiment),
        "    executor_main(steps=[train])".into(),
        format!(
            "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. Its node {ip} was preempted or lost; 3 of 3 retries are used up."
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(line: &str, name: &str) -> f64 {
        let rest = line.split_once(&format!(" {name} ")).unwrap().1;
        rest.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    fn loss_falls_and_checkpoints_are_written() {
        let at = |n| {
            let mut out = String::new();
            step(&mut out, &Run::example(2), n, (5007, "10.128.0.7"), 1_795_000_000_000);
            out
        };
        assert!(value(&at(3), "loss") > value(&at(4001), "loss") + 2.0);
        assert!(at(3).contains(" lr 9.00e-07 "), "{}", at(3));
        assert!(value(&at(3), "lr") < value(&at(1201), "lr"), "it warms up");
        assert!((40.0..60.0).contains(&value(&at(3), "mfu")));
        assert!(
            at(1000).contains("Saved checkpoint at step 1000 to gs://marin-us-central2/checkpoints/exp1395")
        );
        assert!((1..2000).any(|n| at(n).contains("WARNING")));
        assert_eq!(at(77), at(77));
    }
}
