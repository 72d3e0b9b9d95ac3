//! The vitals of a job: its actual activity, the resources that it holds, the progress of its run. Ray reports
//! `RUNNING` even for a job that waits for its first chip, and for one that has been hanging for an hour.

use super::amount::{amount, grouped, is_chip, rank, shape};
use super::time::brief;
use super::{Job, JobKey, JobStatus, NodeId, Text, Timestamp, Wait};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Activity of a running job, as far as Ray and its driver's log show it.
#[derive(Clone, Debug, PartialEq)]
pub enum JobActivity {
    /// It holds nothing, and its tasks, actors or placement groups wait for a node.
    Waiting(Wait),
    /// Only its driver runs: Ray reports no running or waiting task or actor of the job.
    DriverOnly,
    /// It prepares its first step: tracing, lowering or compiling.
    Compiling,
    /// It is executing steps.
    Training,
    /// It has executed steps, and its log has had no new line since this time.
    Silent(Timestamp),
    /// It is working, and no line read from its log reports a step.
    Running {
        /// Number of running tasks.
        tasks: u64,
        /// Number of live actors.
        actors: u64,
    },
}

/// A saved checkpoint, as reported in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The step at which it was saved, if the line contains it.
    pub step: Option<u64>,
    /// When it was saved, if the log has timestamps.
    pub at: Option<Timestamp>,
}

/// The progress of a training run, from the progress lines of its driver's log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Optimizer steps completed, as reported by its progress lines.
    pub step: Option<u64>,
    /// Total number of steps.
    pub total: Option<u64>,
    /// The latest loss; may be infinite or NaN.
    pub loss: Option<f64>,
    /// Losses for a sparkline, oldest first, all finite.
    pub losses: Vec<f64>,
    /// Recent rate in steps per second.
    pub rate: Option<f64>,
    /// Earlier rate in steps per second.
    pub typical_rate: Option<f64>,
    /// Expected end at the recent rate.
    pub ends: Option<Timestamp>,
    /// Time of the newest progress line.
    pub at: Option<Timestamp>,
    /// The last checkpoint in the lines that were read.
    pub checkpoint: Option<Checkpoint>,
}

/// Kind of a sign of a problem with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WarningKind {
    /// The loss is infinite or NaN.
    NotFinite,
    /// It no longer executes steps.
    Stalled,
    /// The loss has risen above its trend and stays there.
    Diverging,
    /// Its driver is running, but its workers are gone.
    DriverAlone,
    /// It holds chips that are idle.
    ChipsIdle,
    /// Its steps take longer than before.
    Slowed,
    /// It executes steps, but has not saved a checkpoint for a long time.
    CheckpointOverdue,
    /// It has been waiting for resources for a long time.
    PendingTooLong,
}

impl WarningKind {
    /// All kinds, worst first.
    pub const ALL: [Self; 8] = [
        Self::NotFinite,
        Self::Stalled,
        Self::Diverging,
        Self::DriverAlone,
        Self::ChipsIdle,
        Self::Slowed,
        Self::CheckpointOverdue,
        Self::PendingTooLong,
    ];

    /// Whether it is detected from the log of the job's driver, and not from what Ray reports about its tasks.
    pub const fn is_of_log(self) -> bool {
        !matches!(self, Self::DriverAlone | Self::ChipsIdle | Self::PendingTooLong)
    }

    /// What is wrong, in a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotFinite => "loss not finite",
            Self::Stalled => "run stalled",
            Self::Diverging => "loss diverging",
            Self::DriverAlone => "driver only",
            Self::ChipsIdle => "chips idle",
            Self::Slowed => "run slowed",
            Self::CheckpointOverdue => "checkpoint overdue",
            Self::PendingTooLong => "job pending too long",
        }
    }
}

/// A sign of a problem with a job, with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunWarning {
    /// What is wrong.
    pub kind: WarningKind,
    /// When it began; for a stalled run, the time of its last step.
    pub since: Timestamp,
    /// The figures that show it, in a few words; safe to print.
    pub evidence: String,
}

/// Whether and when the log of a job's driver was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogRead {
    /// There is no log: the driver was started manually.
    #[default]
    None,
    /// Not read yet: logs are read in turn.
    Unread,
    /// The end of the log was last read at this time; steps and losses are from that time.
    At(Timestamp),
}

impl LogRead {
    /// The age of the data in words, if it is old enough to be shown.
    fn old(self, now: Timestamp) -> Option<String> {
        /// Logs that are read regularly are not older than this.
        const READ_REGULARLY: Duration = Duration::from_secs(60);
        let Self::At(at) = self else { return None };
        Some(at.age(now)).filter(|age| *age >= READ_REGULARLY).map(|age| format!(", {} ago", brief(age)))
    }
}

impl RunWarning {
    /// `run slowed for 12m: 0.77 steps/s, was 1.00 (23% slower)`, safe to print.
    pub fn text(&self, now: Timestamp) -> String {
        format!("{} for {}: {}", self.kind.text(), brief(self.since.age(now)), self.evidence)
    }
}

/// The vitals of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Vitals {
    /// When Ray was queried for the resources that the job holds and waits for.
    pub read: Timestamp,
    /// Whether and when its log was read.
    pub log: LogRead,
    /// Its activity.
    pub activity: JobActivity,
    /// When this activity began, if known.
    pub since: Option<Timestamp>,
    /// Resources that its entrypoint, tasks and actors hold; none when Ray's lists were truncated.
    pub holds: Option<Vec<(Text, f64)>>,
    /// Nodes on which its tasks and actors run.
    pub nodes: Vec<NodeId>,
    /// Resources that its tasks, actors and placement groups wait for, largest first.
    pub waits: Vec<Wait>,
    /// Progress of its run; none when its log was not read or has no progress line.
    pub run: Option<Run>,
    /// Time of the newest line of its log.
    pub logged: Option<Timestamp>,
    /// Number of restarts: restarts of actors, retries of tasks, and returns to an earlier step.
    pub restarts: u64,
    /// Signs of problems, worst first.
    pub signs: Vec<RunWarning>,
}

impl Vitals {
    /// Its activity in a few words, safe to print: `waits for v4-256, 12m`, `step 1,200/20,000`, `silent 22m`. Old data
    /// is shown with its age: `step 1,200, 3m ago`.
    pub fn text(&self, now: Timestamp) -> String {
        let lasted = |since: Option<Timestamp>, behind: &str| {
            since.map(|at| format!("{behind}{}", brief(at.age(now)))).unwrap_or_default()
        };
        match &self.activity {
            JobActivity::Waiting(wait) => waits_for(&wait.shape, wait.since, now),
            JobActivity::DriverOnly => format!("driver only{}", lasted(self.since, ", ")),
            JobActivity::Compiling => format!("compiling{}", lasted(self.since, " ")),
            JobActivity::Silent(since) => match self.log {
                LogRead::At(at) => format!("silent {}", brief(since.age(at))),
                LogRead::None | LogRead::Unread => format!("silent {}", brief(since.age(now))),
            },
            JobActivity::Training => {
                let old = self.log.old(now);
                // The total is omitted so that the age fits into a narrow column.
                let total = |run: &Run| run.total.filter(|_| old.is_none());
                let steps = self.run.as_ref().map(|run| run.steps_of(total(run)));
                steps.unwrap_or_else(|| "running".to_owned()) + &old.unwrap_or_default()
            }
            JobActivity::Running { tasks, actors } => {
                let words = match (tasks, actors) {
                    (0, 0) => "running".to_owned(),
                    (0, actors) => counted(*actors, "actor"),
                    (tasks, _) => counted(*tasks, "task"),
                };
                let unread = if self.log == LogRead::Unread { ", log not read yet" } else { "" };
                words + unread
            }
        }
    }

    /// Name of the activity for scripts.
    pub const fn label(&self) -> &'static str {
        match self.activity {
            JobActivity::Waiting(_) => "waiting",
            JobActivity::DriverOnly => "driver only",
            JobActivity::Compiling => "compiling",
            JobActivity::Training => "training",
            JobActivity::Silent(_) => "silent",
            JobActivity::Running { .. } => "running",
        }
    }

    /// Name and number of the chips that it holds, TPUs before GPUs; none if it holds none or Ray did not report them.
    pub fn chips(&self) -> Option<(&Text, f64)> {
        let holds = self.holds.as_deref()?;
        let chip = holds.iter().filter(|(name, n)| is_chip(name.raw()) && *n > 0.0);
        chip.min_by_key(|(name, _)| rank(name.raw())).map(|(name, n)| (name, *n))
    }

    /// Its run, while it executes steps: the rate and the expected end of a silent or stalled run are not current.
    pub fn moving_run(&self) -> Option<&Run> {
        let is_moving = matches!(self.activity, JobActivity::Training)
            && !self.signs.iter().any(|sign| sign.kind == WarningKind::Stalled);
        self.run.as_ref().filter(|_| is_moving)
    }

    /// Estimated time until its last step; none unless it is executing steps.
    pub fn time_left(&self, now: Timestamp) -> Option<Duration> {
        self.moving_run()?.ends.map(|at| at.until(now))
    }

    /// Whether it holds nothing and waits for a node.
    pub const fn is_waiting(&self) -> bool {
        matches!(self.activity, JobActivity::Waiting(_))
    }

    /// The worst sign of a problem, if any.
    pub fn worst(&self) -> Option<&RunWarning> {
        self.signs.first()
    }
}

impl Run {
    /// Its rate, in the unit in which a warning compares it with the usual one: `2.3 steps/s`, `76.8 s/step`.
    pub fn rate_text(&self) -> Option<String> {
        let now = self.rate?;
        let ([figure], unit) = figures([now], self.typical_rate.unwrap_or(now));
        Some(format!("{figure} {unit}"))
    }

    /// `step 1,200/20,000`.
    pub fn steps(&self) -> String {
        self.steps_of(self.total)
    }

    fn steps_of(&self, total: Option<u64>) -> String {
        let number = |n: u64| grouped(usize::try_from(n).unwrap_or(usize::MAX));
        match (self.step, total) {
            (Some(step), Some(total)) => format!("step {}/{}", number(step), number(total)),
            (Some(step), None) => format!("step {}", number(step)),
            (None, _) => "running".to_owned(),
        }
    }
}

/// `waits for v4-256, 12m`.
pub fn waits_for(needs: &[(Text, f64)], since: Option<Timestamp>, now: Timestamp) -> String {
    let lasted = since.map(|at| format!(", {}", brief(at.age(now)))).unwrap_or_default();
    format!("waits for {}{lasted}", need(needs))
}

/// The scarcest of the needed resources, in words: `v4-256` for the resource `TPU-v4-256-head`, else `TPU 4`.
pub fn need(needs: &[(Text, f64)]) -> String {
    let slice =
        |name: &Text| name.raw().strip_prefix("TPU-").and_then(|s| s.strip_suffix("-head")).map(Text::from);
    if let Some(kind) = needs.iter().find_map(|(name, _)| slice(name)) {
        return kind.to_string();
    }
    match needs.iter().min_by_key(|(name, _)| rank(name.raw())) {
        Some((name, n)) => format!("{name} {}", amount(name.raw(), *n)),
        None => "a node".to_owned(),
    }
}

/// Rates and their unit: steps per second if the usual rate is at least one, otherwise seconds per step.
fn figures<const N: usize>(rates: [f64; N], usual: f64) -> ([String; N], &'static str) {
    /// Rounded to two digits, this is one step per second.
    const ONE: f64 = 0.995;
    if usual >= ONE || rates.iter().any(|rate| *rate <= 0.0) {
        // Two digits where one would hide a difference.
        let is_close = N > 1 || rates.iter().any(|rate| 0.0 < *rate && *rate < ONE);
        let digits = if is_close && usual < 10.0 { 2 } else { 1 };
        (rates.map(|rate| format!("{rate:.digits$}")), "steps/s")
    } else {
        (rates.map(|rate| format!("{:.1}", rate.recip())), "s/step")
    }
}

/// A rate in the unit that gives a readable number: `2.3 steps/s`, `76.8 s/step`.
pub fn rate(per_second: f64) -> String {
    let ([figure], unit) = figures([per_second], per_second);
    format!("{figure} {unit}")
}

/// A rate and the earlier rate, both in the earlier one's unit: `0.77 steps/s, was 1.00`, `93.1 s/step, was 76.8`.
pub fn rate_was(now: f64, before: f64) -> String {
    let ([now, before], unit) = figures([now, before], before);
    format!("{now} {unit}, was {before}")
}

/// A loss with a precision that depends on its size: `2.340`, `12.35`, `4321`, `1.2e-4`.
pub fn loss(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => format!("{value}").to_lowercase(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// Resources that jobs hold, in words.
pub fn held(holds: &[(Text, f64)]) -> String {
    if holds.is_empty() { "nothing".to_owned() } else { shape(holds) }
}

fn counted(n: u64, what: &str) -> String {
    super::amount::counted(usize::try_from(n).unwrap_or(usize::MAX), what)
}

/// Limits above which a job's vitals are a finding; zero disables a finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VitalLimits {
    /// Interval between readings for the cluster on the screen; zero disables them.
    pub every: Duration,
    /// No step for this long.
    pub stalled: Duration,
    /// Decrease of the step rate, as a fraction of the earlier rate.
    pub slowed: f64,
    /// Loss above its trend, as a fraction of the trend.
    pub diverging: f64,
    /// Pending, or waiting for its first resources, for this long.
    pub pending: Duration,
    /// No new checkpoint for this long while steps are executed.
    pub checkpoint: Duration,
    /// Chips held but idle for this long.
    pub idle: Duration,
    /// Only the driver has been running for this long, after it had workers.
    pub driver: Duration,
}

impl Default for VitalLimits {
    fn default() -> Self {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        Self {
            every: Duration::from_secs(30),
            stalled: minutes(10),
            slowed: 0.2,
            diverging: 0.5,
            pending: minutes(30),
            checkpoint: minutes(60),
            idle: minutes(15),
            driver: minutes(15),
        }
    }
}

/// The vitals of a cluster's jobs, as last read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterVitals {
    /// When they were read; none before the first reading.
    pub read: Option<Timestamp>,
    /// Vitals by job, for running jobs that were read.
    pub jobs: HashMap<JobKey, Arc<Vitals>>,
    /// Limits above which they are findings.
    pub limits: VitalLimits,
    /// Load that the reading caused on the head.
    pub cost: ReadingCost,
    /// What could not be read, and why; safe to print.
    pub missing: Vec<String>,
}

impl ClusterVitals {
    /// The vitals of a running job, as last read.
    pub fn of(&self, job: &Job) -> Option<&Vitals> {
        // Most jobs have ended, and tables query all of them for sorting.
        if job.status == JobStatus::Running { self.jobs.get(&job.key).map(AsRef::as_ref) } else { None }
    }

    /// A job's status. A job that holds nothing and waits for a node is pending, even if Ray reports it as running.
    pub fn status(&self, job: &Job) -> JobStatus {
        if self.of(job).is_some_and(Vitals::is_waiting) { JobStatus::Pending } else { job.status }
    }

    /// That status in a word; with Ray's own status where they differ.
    pub fn status_text(&self, job: &Job) -> String {
        let status = self.status(job);
        if status == job.status {
            return status.label().to_owned();
        }
        format!("{} (Ray reports {})", status.label(), job.status.label())
    }

    /// Whether they still describe the jobs. While they cannot be read, the last ones are kept for 15 minutes, or for
    /// five reading intervals if that is longer; after that, what they say is ignored, and the next snapshot discards
    /// what is known of each job.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        const MAX_AGE: Duration = Duration::from_secs(900);
        self.read.is_some_and(|read| read.age(now) <= MAX_AGE.max(self.cost.every * 5))
    }

    /// The warnings about a running job, the worst first; none once the vitals are too old.
    pub fn warnings(&self, job: &Job, now: Timestamp) -> &[RunWarning] {
        let vitals = self.of(job).filter(|_| self.is_fresh(now));
        vitals.map_or(&[], |vitals| &vitals.signs)
    }

    /// The worst of them, unless it is [`WarningKind::PendingTooLong`]: the job's activity already shows that it waits.
    pub fn worst_warning(&self, job: &Job, now: Timestamp) -> Option<&RunWarning> {
        self.warnings(job, now).first().filter(|warning| warning.kind != WarningKind::PendingTooLong)
    }
}

/// The load that one reading of vitals causes on a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadingCost {
    /// Number of HTTP and gRPC requests.
    pub requests: u64,
    /// Bytes that the head sent.
    pub bytes: u64,
    /// Number of jobs whose logs were read.
    pub logs: usize,
    /// Time until the next reading.
    pub every: Duration,
}

#[cfg(test)]
impl Vitals {
    /// The vitals of a job with this activity; nothing else is known.
    pub(crate) fn sample(activity: JobActivity, read: Timestamp) -> Self {
        let (holds, run) = (Some(Vec::new()), None);
        let (nodes, waits, signs) = (Vec::new(), Vec::new(), Vec::new());
        let log = LogRead::None;
        Self { read, log, activity, since: None, holds, nodes, waits, run, logged: None, restarts: 0, signs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_described_in_a_few_words() {
        let at = |minute: i64| Timestamp::from_millis(minute * 60_000);
        let words =
            |activity| Vitals { since: Some(at(26)), ..Vitals::sample(activity, at(30)) }.text(at(30));
        let wait = |name: &str, n| Wait {
            shape: vec![("CPU".into(), 1.0), (name.into(), n)],
            count: 1,
            since: Some(at(18)),
        };
        assert_eq!(words(JobActivity::Waiting(wait("TPU-v4-256-head", 1.0))), "waits for v4-256, 12m");
        assert_eq!(words(JobActivity::Waiting(wait("GPU", 8.0))), "waits for GPU 8, 12m");
        assert_eq!(words(JobActivity::DriverOnly), "driver only, 4m");
        assert_eq!(words(JobActivity::Compiling), "compiling 4m");
        assert_eq!(words(JobActivity::Silent(at(8))), "silent 22m");
        assert_eq!(words(JobActivity::Running { tasks: 3, actors: 9 }), "3 tasks");
        assert_eq!(words(JobActivity::Running { tasks: 0, actors: 1 }), "1 actor");
        let mut steps = Vitals::sample(JobActivity::Training, at(30));
        assert_eq!(steps.text(at(30)), "running");
        let (total, rate) = (Some(20_000), Some(2.0));
        steps.run = Some(Run { step: Some(1200), total, ends: Some(at(90)), rate, ..Run::default() });
        let rate = |vitals: &Vitals| vitals.moving_run().and_then(Run::rate_text);
        assert_eq!(rate(&steps).as_deref(), Some("2.0 steps/s"));
        let evidence = String::new();
        let signs = vec![RunWarning { kind: WarningKind::Stalled, since: at(8), evidence }];
        let stalled = Vitals { signs, ..steps.clone() };
        assert_eq!((rate(&stalled), stalled.time_left(at(30))), (None, None), "its log has other lines");
        assert_eq!(
            (steps.text(at(30)), steps.time_left(at(30))),
            ("step 1,200/20,000".into(), Some(Duration::from_secs(3600)))
        );
        steps.log = LogRead::At(at(27));
        assert_eq!(steps.text(at(30)), "step 1,200, 3m ago");
        steps.activity = JobActivity::Silent(at(8));
        assert_eq!(steps.text(at(30)), "silent 19m", "the log was read 3m ago");
        let unread = Vitals {
            log: LogRead::Unread,
            ..Vitals::sample(JobActivity::Running { tasks: 3, actors: 9 }, at(30))
        };
        assert_eq!(unread.text(at(30)), "3 tasks, log not read yet");
        assert_eq!((rate(&steps), steps.time_left(at(30))), (None, None), "unknown while silent");
    }

    #[test]
    fn figures_are_short_and_chips_come_first() {
        assert_eq!(
            [2.34, 0.0, 12.3456, 4321.0, 0.000_12].map(loss),
            ["2.340", "0.000", "12.35", "4321", "1.2e-4"]
        );
        assert_eq!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(loss), ["nan", "inf", "-inf"]);
        assert_eq!([2.0, 0.013, 0.0].map(rate), ["2.0 steps/s", "76.9 s/step", "0.0 steps/s"]);
        assert_eq!(rate_was(0.77, 1.0), "0.77 steps/s, was 1.00");
        assert_eq!([0.996, 0.99].map(rate), ["1.0 steps/s", "1.0 s/step"]);
        assert_eq!(rate_was(9.04, 12.5), "9.0 steps/s, was 12.5");
        assert_eq!(rate_was(0.0107, 0.0131), "93.5 s/step, was 76.3");
        let run = |now, usual| Run { rate: Some(now), typical_rate: usual, ..Run::default() }.rate_text();
        assert_eq!(run(0.77, Some(1.0)).as_deref(), Some("0.77 steps/s"), "as in the warning");
        assert_eq!(run(1.25, Some(0.8)).as_deref(), Some("0.8 s/step"));
        assert_eq!(run(0.77, None).as_deref(), Some("1.3 s/step"));
        let mut vitals = Vitals::sample(JobActivity::Training, Timestamp::default());
        assert_eq!(vitals.chips(), None);
        let holds = [("CPU", 9.0), ("GPU", 0.0), ("TPU", 16.0)];
        vitals.holds = Some(holds.map(|(name, n)| (name.into(), n)).to_vec());
        assert_eq!(vitals.chips().map(|(name, n)| (name.raw(), n)), Some(("TPU", 16.0)));
        vitals.holds = None;
        assert_eq!(vitals.chips(), None, "unknown");
    }
}
