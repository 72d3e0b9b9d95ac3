//! The vitals of a job: what it really does, what it holds, how its run goes. Ray says `RUNNING` of a job that waits for
//! its first chip, and of one that hangs since an hour.

use super::amount::{amount, grouped, rank, shape};
use super::time::brief;
use super::{Job, JobKey, JobStatus, NodeId, Text, Timestamp, Wait};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What a running job does, as far as Ray and its driver's log show it.
#[derive(Clone, Debug, PartialEq)]
pub enum JobActivity {
    /// It holds nothing, and tasks, actors or placement groups of it wait for a node.
    Waits(Wait),
    /// Only its driver runs: Ray has no task and no actor of it that runs or waits.
    DriverOnly,
    /// It prepares its first step: it traces, lowers or compiles.
    Compiles,
    /// It makes steps.
    Steps,
    /// Its log has had no new line since then, after it had made steps.
    Silent(Timestamp),
    /// It works, and no line of its log that was read reports a step.
    Works {
        /// Tasks that run.
        tasks: u64,
        /// Actors that are alive.
        actors: u64,
    },
}

/// A checkpoint that a log reports as saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The step that it was saved at, if the line says one.
    pub step: Option<u64>,
    /// When it was saved, if the log has times.
    pub at: Option<Timestamp>,
}

/// How a training run goes, from the progress lines of its driver's log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Optimizer steps done, as its progress lines report them.
    pub step: Option<u64>,
    /// Steps in all.
    pub total: Option<u64>,
    /// The newest loss; may be infinite or no number.
    pub loss: Option<f64>,
    /// Losses for a sparkline, from the oldest to the newest, all finite.
    pub losses: Vec<f64>,
    /// Steps a second, lately.
    pub rate: Option<f64>,
    /// Steps a second, as they were before.
    pub usual_rate: Option<f64>,
    /// When it will be done at this rate.
    pub ends: Option<Timestamp>,
    /// Time of the newest progress line.
    pub at: Option<Timestamp>,
    /// The last checkpoint that the lines read have.
    pub checkpoint: Option<Checkpoint>,
}

/// What a sign means for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignKind {
    /// The loss is infinite or no number.
    NotFinite,
    /// Its steps have stopped.
    Stalled,
    /// The loss has risen over its trend and stays there.
    Diverging,
    /// Its driver runs, and the workers that it had are gone.
    DriverAlone,
    /// It holds chips that do nothing.
    ChipsIdle,
    /// Its steps take longer than before.
    Slowed,
    /// It makes steps, and has saved no checkpoint for long.
    CheckpointLate,
    /// It has been waiting for resources for long.
    WaitsLong,
}

impl SignKind {
    /// Every kind, the worst first.
    pub const ALL: [Self; 8] = [
        Self::NotFinite,
        Self::Stalled,
        Self::Diverging,
        Self::DriverAlone,
        Self::ChipsIdle,
        Self::Slowed,
        Self::CheckpointLate,
        Self::WaitsLong,
    ];

    /// Whether it is found in the log of the job's driver, and not in what Ray says of its tasks.
    pub const fn is_of_log(self) -> bool {
        !matches!(self, Self::DriverAlone | Self::ChipsIdle | Self::WaitsLong)
    }

    /// What is wrong, in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NotFinite => "loss not finite",
            Self::Stalled => "run stalled",
            Self::Diverging => "loss diverging",
            Self::DriverAlone => "driver only",
            Self::ChipsIdle => "chips idle",
            Self::Slowed => "run slowed",
            Self::CheckpointLate => "checkpoint overdue",
            Self::WaitsLong => "job pending too long",
        }
    }
}

/// Something that is wrong with a job, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    /// What is wrong.
    pub kind: SignKind,
    /// When it began: of a stalled run the time of its last step.
    pub since: Timestamp,
    /// The figures that show it, in a few words that are safe to print.
    pub evidence: String,
}

/// What was read of the log of a job's driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogRead {
    /// There is none: the driver was started by hand.
    #[default]
    None,
    /// Its turn has not come yet.
    Unread,
    /// Its end was last read then: what is said of steps and losses is as old.
    At(Timestamp),
}

impl LogRead {
    /// How old what was read is, when that is more than a screen may pass over.
    fn old(self, now: Timestamp) -> Option<String> {
        /// So old is what is read again and again.
        const FRESH: Duration = Duration::from_secs(60);
        let Self::At(at) = self else { return None };
        Some(at.age(now)).filter(|age| *age >= FRESH).map(|age| format!(", {} ago", brief(age)))
    }
}

impl Sign {
    /// `run slowed for 12m: 0.77 steps/s, was 1.00 (23% slower)`, safe to print.
    pub fn words(&self, now: Timestamp) -> String {
        format!("{} for {}: {}", self.kind.words(), brief(self.since.age(now)), self.evidence)
    }
}

/// The vitals of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Vitals {
    /// When Ray was asked what it holds and waits for.
    pub read: Timestamp,
    /// What was read of its log.
    pub log: LogRead,
    /// What it does.
    pub doing: JobActivity,
    /// Since when it does that, if that is known.
    pub since: Option<Timestamp>,
    /// What its entrypoint, tasks and actors hold, by resource; none when Ray's lists were cut.
    pub holds: Option<Vec<(Text, f64)>>,
    /// Nodes on which its tasks and actors run.
    pub nodes: Vec<NodeId>,
    /// What its tasks, actors and placement groups wait for, most first.
    pub waits: Vec<Wait>,
    /// How its run goes; none when its log was not read, or has no progress line.
    pub run: Option<Run>,
    /// Time of the newest line of its log.
    pub logged: Option<Timestamp>,
    /// How often it has restarted: restarts of actors, attempts of tasks, and steps that went back.
    pub restarts: u64,
    /// What is wrong with it, the worst first.
    pub signs: Vec<Sign>,
}

impl Vitals {
    /// What it does in a few words, safe to print: `waits for v4-256, 12m`, `step 1,200/20,000`, `silent 22m`. What was read
    /// a while ago says so: `step 1,200, 3m ago`.
    pub fn words(&self, now: Timestamp) -> String {
        let lasted = |since: Option<Timestamp>, behind: &str| {
            since.map(|at| format!("{behind}{}", brief(at.age(now)))).unwrap_or_default()
        };
        match &self.doing {
            JobActivity::Waits(wait) => waits_for(&wait.shape, wait.since, now),
            JobActivity::DriverOnly => format!("driver only{}", lasted(self.since, ", ")),
            JobActivity::Compiles => format!("compiling{}", lasted(self.since, " ")),
            JobActivity::Silent(since) => match self.log {
                LogRead::At(at) => format!("silent {}", brief(since.age(at))),
                LogRead::None | LogRead::Unread => format!("silent {}", brief(since.age(now))),
            },
            JobActivity::Steps => {
                let old = self.log.old(now);
                // The age is to be read in a narrow column, too.
                let total = |run: &Run| run.total.filter(|_| old.is_none());
                let steps = self.run.as_ref().map(|run| run.steps_of(total(run)));
                steps.unwrap_or_else(|| "running".to_owned()) + &old.unwrap_or_default()
            }
            JobActivity::Works { tasks, actors } => {
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

    /// The word for scripts.
    pub const fn word(&self) -> &'static str {
        match self.doing {
            JobActivity::Waits(_) => "waiting",
            JobActivity::DriverOnly => "driver only",
            JobActivity::Compiles => "compiling",
            JobActivity::Steps => "training",
            JobActivity::Silent(_) => "silent",
            JobActivity::Works { .. } => "running",
        }
    }

    /// The chips that it holds, TPUs before GPUs, with their name; none when it holds none, or Ray did not report them.
    pub fn chips(&self) -> Option<(&Text, f64)> {
        let holds = self.holds.as_deref()?;
        let chip = holds.iter().filter(|(name, n)| matches!(name.raw(), "TPU" | "GPU") && *n > 0.0);
        chip.min_by_key(|(name, _)| rank(name.raw())).map(|(name, n)| (name, *n))
    }

    /// Time left until its last step.
    pub fn left(&self, now: Timestamp) -> Option<Duration> {
        let is_moving = matches!(self.doing, JobActivity::Steps);
        self.run.as_ref()?.ends.filter(|_| is_moving).map(|at| at.until(now))
    }

    /// Whether it holds nothing and waits for a node.
    pub const fn is_waiting(&self) -> bool {
        matches!(self.doing, JobActivity::Waits(_))
    }

    /// The worst sign.
    pub fn worst(&self) -> Option<&Sign> {
        self.signs.first()
    }
}

impl Run {
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

/// The rarest part of what is needed, in words: `v4-256` for the resource `TPU-v4-256-head`, else `TPU 4`.
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

/// A rate in the unit that gives a readable number: `2.3 steps/s`, `76.8 s/step`.
pub fn rate(per_second: f64) -> String {
    if per_second >= 1.0 || per_second <= 0.0 {
        format!("{per_second:.1} steps/s")
    } else {
        format!("{:.1} s/step", per_second.recip())
    }
}

/// A rate beside the one before, both in the unit of the one before: `0.77 steps/s, was 1.00`, `93.1 s/step, was 76.8`.
pub fn rate_was(now: f64, before: f64) -> String {
    if before >= 1.0 {
        let digits = if before < 10.0 { 2 } else { 1 };
        format!("{now:.digits$} steps/s, was {before:.digits$}")
    } else {
        format!("{:.1} s/step, was {:.1}", now.recip(), before.recip())
    }
}

/// A loss with four significant digits, as people compare them.
pub fn loss(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => format!("{value}").to_lowercase(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// What jobs hold, in words.
pub fn held(holds: &[(Text, f64)]) -> String {
    if holds.is_empty() { "nothing".to_owned() } else { shape(holds) }
}

fn counted(n: u64, what: &str) -> String {
    super::amount::counted(usize::try_from(n).unwrap_or(usize::MAX), what)
}

/// From when on a job's vitals are a finding; zero turns a finding off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VitalLimits {
    /// Time between two readings of the cluster on the screen; zero: none are read.
    pub every: Duration,
    /// No step for this long.
    pub stalled: Duration,
    /// Steps a second fewer than before, as a share.
    pub slowed: f64,
    /// Loss over its trend, as a share of it.
    pub diverging: f64,
    /// Pending, or waiting for its first resources, for this long.
    pub pending: Duration,
    /// No new checkpoint for this long, while steps are made.
    pub checkpoint: Duration,
    /// Chips held and not used for this long.
    pub idle: Duration,
    /// The driver runs alone for this long, after it had workers.
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

/// The vitals of a cluster's jobs, as they were last read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterVitals {
    /// When; none before the first reading.
    pub read: Option<Timestamp>,
    /// By job, those that run and were looked at.
    pub jobs: HashMap<JobKey, Arc<Vitals>>,
    /// From when on they are findings.
    pub limits: VitalLimits,
    /// What the reading cost the head.
    pub price: ReadingCost,
    /// What could not be read, and why, in words that are safe to print.
    pub missing: Vec<String>,
}

impl ClusterVitals {
    /// Those of a job that runs, as they were last read.
    pub fn of(&self, job: &Job) -> Option<&Vitals> {
        // Most jobs have ended, and tables ask for all of them when they are sorted.
        if job.status == JobStatus::Running { self.jobs.get(&job.key).map(AsRef::as_ref) } else { None }
    }

    /// A job's status, with one that waits for its first node pending: whatever Ray says of it, it does not run.
    pub fn status(&self, job: &Job) -> JobStatus {
        if self.of(job).is_some_and(Vitals::is_waiting) { JobStatus::Pending } else { job.status }
    }

    /// That status in a word; beside Ray's own where they differ.
    pub fn status_words(&self, job: &Job) -> String {
        let status = self.status(job);
        if status == job.status {
            return status.word().to_owned();
        }
        format!("{} (Ray reports {})", status.word(), job.status.word())
    }

    /// What is most wrong with a run. That it waits is no fault of its own, and its activity says so.
    pub fn wrong(&self, job: &Job) -> Option<SignKind> {
        self.of(job)?.worst().map(|sign| sign.kind).filter(|kind| *kind != SignKind::WaitsLong)
    }
}

/// What one reading of vitals costs a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadingCost {
    /// HTTP and gRPC requests of the reading.
    pub requests: u64,
    /// Bytes that the head sent.
    pub bytes: u64,
    /// Jobs whose logs were read.
    pub logs: usize,
    /// Time until the next reading.
    pub every: Duration,
}

#[cfg(test)]
impl Vitals {
    /// Of a job that does this; nothing else is known.
    pub(crate) fn sample(doing: JobActivity, read: Timestamp) -> Self {
        let (holds, run) = (Some(Vec::new()), None);
        let (nodes, waits, signs) = (Vec::new(), Vec::new(), Vec::new());
        let log = LogRead::None;
        Self { read, log, doing, since: None, holds, nodes, waits, run, logged: None, restarts: 0, signs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_does_is_said_in_a_few_words() {
        let at = |minute: i64| Timestamp::from_millis(minute * 60_000);
        let said = |doing| Vitals { since: Some(at(26)), ..Vitals::sample(doing, at(30)) }.words(at(30));
        let wait = |name: &str, n| Wait {
            shape: vec![("CPU".into(), 1.0), (name.into(), n)],
            count: 1,
            since: Some(at(18)),
        };
        assert_eq!(said(JobActivity::Waits(wait("TPU-v4-256-head", 1.0))), "waits for v4-256, 12m");
        assert_eq!(said(JobActivity::Waits(wait("GPU", 8.0))), "waits for GPU 8, 12m");
        assert_eq!(said(JobActivity::DriverOnly), "driver only, 4m");
        assert_eq!(said(JobActivity::Compiles), "compiling 4m");
        assert_eq!(said(JobActivity::Silent(at(8))), "silent 22m");
        assert_eq!(said(JobActivity::Works { tasks: 3, actors: 9 }), "3 tasks");
        assert_eq!(said(JobActivity::Works { tasks: 0, actors: 1 }), "1 actor");
        let mut steps = Vitals::sample(JobActivity::Steps, at(30));
        assert_eq!(steps.words(at(30)), "running");
        steps.run = Some(Run { step: Some(1200), total: Some(20_000), ends: Some(at(90)), ..Run::default() });
        assert_eq!(
            (steps.words(at(30)), steps.left(at(30))),
            ("step 1,200/20,000".into(), Some(Duration::from_secs(3600)))
        );
        steps.log = LogRead::At(at(27));
        assert_eq!(steps.words(at(30)), "step 1,200, 3m ago");
        steps.doing = JobActivity::Silent(at(8));
        assert_eq!(steps.words(at(30)), "silent 19m", "that is all that is known");
        let unread = Vitals {
            log: LogRead::Unread,
            ..Vitals::sample(JobActivity::Works { tasks: 3, actors: 9 }, at(30))
        };
        assert_eq!(unread.words(at(30)), "3 tasks, log not read yet");
        assert_eq!(steps.left(at(30)), None, "nobody knows");
    }

    #[test]
    fn figures_are_short_and_chips_come_before_anything_else() {
        assert_eq!(
            [2.34, 0.0, 12.3456, 4321.0, 0.000_12].map(loss),
            ["2.340", "0.000", "12.35", "4321", "1.2e-4"]
        );
        assert_eq!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(loss), ["nan", "inf", "-inf"]);
        assert_eq!([2.0, 0.013, 0.0].map(rate), ["2.0 steps/s", "76.9 s/step", "0.0 steps/s"]);
        assert_eq!(rate_was(0.77, 1.0), "0.77 steps/s, was 1.00");
        assert_eq!(rate_was(9.04, 12.5), "9.0 steps/s, was 12.5");
        assert_eq!(rate_was(0.0107, 0.0131), "93.5 s/step, was 76.3");
        let mut vitals = Vitals::sample(JobActivity::Steps, Timestamp::default());
        assert_eq!(vitals.chips(), None);
        let holds = [("CPU", 9.0), ("GPU", 0.0), ("TPU", 16.0)];
        vitals.holds = Some(holds.map(|(name, n)| (name.into(), n)).to_vec());
        assert_eq!(vitals.chips().map(|(name, n)| (name.raw(), n)), Some(("TPU", 16.0)));
        vitals.holds = None;
        assert_eq!(vitals.chips(), None, "not known");
    }
}
