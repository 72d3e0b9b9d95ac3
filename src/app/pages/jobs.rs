//! Jobs: those of a cluster, in its pane, and those of all clusters.

use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::fleet::trend::curve;
use crate::app::job::state;
use crate::app::pages::common::{self, Member};
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::app::text::labels;
use crate::model::amount::{grouped, number};
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::vitals::loss;
use crate::model::{Job, JobKey, JobStatus, RunWarning, SnapshotPart, Timestamp, Vitals, WarningKind};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// The jobs of a cluster, or of all.
#[derive(Debug)]
pub struct Jobs;

/// A job with its cluster.
#[derive(Clone, Copy, Debug)]
pub struct JobRow<'f> {
    /// Its cluster.
    pub cluster: &'f Cluster,
    cluster_index: usize,
    /// The job, as the snapshot has it.
    pub job: &'f Arc<Job>,
}

type Row<'f> = JobRow<'f>;

impl Kind for Jobs {
    type Row<'f> = JobRow<'f>;
    type Key = JobKey;

    const LACKS: &'static str = "no jobs";
    const PART: Option<SnapshotPart> = Some(SnapshotPart::Jobs);
    const BELOW: Option<&'static str> = Some("message");
    const FIELDS: &'static [&'static str] = &["job", "owner", "status", "entrypoint", "message", "cluster"];
    const ALSO_SEARCHED: &'static [&'static str] = &["activity"];

    fn title(of: Option<usize>) -> &'static str {
        if of.is_some() { "Jobs" } else { "All jobs" }
    }

    fn name(of: Option<usize>) -> &'static str {
        if of.is_some() { "jobs" } else { "all-jobs" }
    }

    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static> {
        let mut counts = match of.and_then(|cluster_index| context.fleet.clusters.get(cluster_index)) {
            Some(cluster) if !cluster.known => Vec::new(),
            Some(cluster) if !cluster.knows(SnapshotPart::Jobs) => vec!["? running".to_owned()],
            Some(cluster) => {
                let (running, waiting, failed) = cluster.job_counts(context.now);
                let mut counts = vec![format!("{} running", grouped(running))];
                counts.extend((waiting > 0).then(|| format!("{} pending", grouped(waiting))));
                counts.extend((failed > 0).then(|| format!("{} failed in 24h", grouped(failed))));
                counts
            }
            None => {
                let totals = context.fleet.totals();
                let text = |n| totals.text(n, totals.jobs_known);
                vec![format!("{} running", text(totals.running)), format!("{} pending", text(totals.waiting))]
            }
        };
        let marked = context.marks.count(of);
        counts.extend((marked > 0).then(|| format!("{} marked", grouped(marked))));
        Cell::new(counts.join(" · "), Role::Dim)
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(cluster: &Cluster) -> usize {
        cluster.snapshot.jobs.len()
    }

    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Row<'_>> {
        Some(Row { cluster, cluster_index, job: cluster.snapshot.jobs.get(number)? })
    }

    fn key(row: &Row<'_>) -> JobKey {
        row.job.key.clone()
    }

    /// Jobs that have not ended first, with unhealthy runs before others; then the newest first.
    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        let unhealthy = |row: &Self::Row<'f>| {
            let worst = warning(row).map(|warning| warning.kind);
            (worst.is_none(), worst)
        };
        let worse = unhealthy(a).cmp(&unhealthy(b));
        let (a, b) = (a.job, b.job);
        (a.status.is_ended().cmp(&b.status.is_ended()))
            .then(worse)
            .then_with(|| b.started.cmp(&a.started))
            .then_with(|| a.key.cmp(&b.key))
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        let j = row.job;
        [
            ("job", j.key.raw()),
            ("owner", j.owner().unwrap_or_default()),
            ("status", status(row).label()),
            ("entrypoint", j.entrypoint.raw()),
            ("message", message(row).unwrap_or_default()),
            ("cluster", row.cluster.name().as_str()),
        ]
        .into_iter()
    }

    fn target(row: &Row<'_>) -> Target {
        Target::Job(row.cluster_index, row.job.key.clone())
    }

    /// The displayed id, because a hostile id must not act in the shell into which it is pasted.
    fn copied(row: &Row<'_>) -> Option<(&'static str, String)> {
        Some(("job id", row.job.key.to_string()))
    }
}

impl Member for Jobs {
    fn cluster<'f>(row: &Self::Row<'f>) -> &'f Cluster {
        row.cluster
    }

    fn mark(row: &Row<'_>) -> (&'static str, Role) {
        state::mark(row.job, &row.cluster.vitals, row.cluster.snapshot.taken)
    }

    fn since(row: &Row<'_>) -> Option<Timestamp> {
        row.job.started
    }

    fn is_over(row: &Row<'_>) -> bool {
        row.job.status.is_ended()
    }
}

const COLUMNS: &[Column<Jobs>] = &[
    common::mark(),
    common::cluster(),
    Column {
        id: "job",
        title: "JOB",
        width: Width::text(20, 80, 0).firm(40),
        visibility: Visibility::Always,
        cell: name,
        order: Some(|a, b| a.job.key.cmp(&b.job.key)),
    },
    Column {
        id: "owner",
        title: "OWNER",
        width: Width::text(8, 16, 2),
        visibility: Visibility::Always,
        cell: |row, context| {
            Cell::new(row.job.owner().map_or(Cow::Borrowed("-"), printable), Jobs::text(row, context))
        },
        order: Some(|a, b| a.job.owner().cmp(&b.job.owner())),
    },
    Column {
        id: "status",
        title: "STATUS",
        // The activity and the glyph say as much.
        width: Width::text(9, 9, Width::OMITTED_FIRST),
        visibility: Visibility::Always,
        cell: |row, context| {
            let status = status(row);
            let (_, role) = labels::job(status);
            match row.job.submission_id() {
                Some(id) if row.cluster.stopping.contains(id) => Cell::new("stopping…", Role::Text),
                _ => Cell::new(status.label(), role.unless(row.cluster.is_stale(context.now))),
            }
        },
        order: Some(|a, b| status(a).cmp(&status(b))),
    },
    Column {
        id: "activity",
        title: "ACTIVITY",
        // `step 23,995/200,000`.
        width: Width::text(19, 28, 0).hiding(),
        visibility: Visibility::Always,
        cell: |row, context| match state::activity(row.job, &row.cluster.vitals, context.now) {
            Some(cell) => Cell { role: cell.role.unless(row.cluster.is_stale(context.now)), ..cell },
            None => Cell::new("-", Role::Dim),
        },
        order: Some(|a, b| severity_rank(a).cmp(&severity_rank(b))),
    },
    Column {
        id: "chips",
        title: "CHIPS",
        width: Width { hides: true, ..Width::number(5, 4) },
        visibility: Visibility::Always,
        cell: |row, context| {
            let chips = vitals(row).and_then(Vitals::chips).map_or_else(|| "-".into(), |(_, n)| number(n));
            Cell::new(chips, text_of_vitals(row, context))
        },
        order: Some(|a, b| chips(b).total_cmp(&chips(a))),
    },
    Column {
        id: "loss",
        title: "LOSS",
        width: Width { right: true, ..Width::text(5, 16, Width::OMITTED_FIRST).hiding() },
        visibility: Visibility::Always,
        cell: |row, context| {
            let run = vitals(row).and_then(|vitals| vitals.run.as_ref());
            let losses = run.map(|run| curve(&run.losses, CURVE_POINTS)).unwrap_or_default();
            let Some(short) = run.and_then(|run| run.loss).map(loss) else {
                return Cell::new("-", Role::Dim);
            };
            // The short curve of a new run is padded, so that the numbers are aligned.
            let long =
                if losses.is_empty() { short.clone() } else { format!("{short} {losses:<CURVE_POINTS$}") };
            Cell::new(long, text_of_vitals(row, context)).or(short)
        },
        order: None,
    },
    Column {
        id: "time-left",
        title: "TIME LEFT",
        width: Width { hides: true, ..Width::number(9, 4) },
        visibility: Visibility::Always,
        cell: |row, context| {
            let left = vitals(row)
                .and_then(|vitals| vitals.time_left(context.now))
                .map_or_else(|| "-".into(), brief);
            Cell::new(left, text_of_vitals(row, context))
        },
        order: None,
    },
    // In 80 columns there is room for either age in one unit.
    Column { width: Width { right: true, ..Width::text(4, 7, 1) }, ..common::age("age", "AGE", 1) },
    Column {
        id: "ended",
        title: "ENDED",
        // How long ago it was.
        width: Width { right: true, ..Width::text(5, 7, 3).hiding() },
        visibility: Visibility::Always,
        cell: |row, context| {
            let role = Jobs::text(row, context);
            match row.job.ended {
                Some(at) => common::age_cell(at.age(context.now), role),
                None => Cell::new("-", role),
            }
        },
        order: Some(|a, b| b.job.ended.cmp(&a.job.ended)),
    },
    Column {
        id: "entrypoint",
        title: "ENTRYPOINT",
        width: Width::rest(14, 48, 6),
        visibility: Visibility::Always,
        cell: |row, context| {
            let cell = Cell::new(row.job.entrypoint.shown(), Jobs::text(row, context));
            match script(row.job.entrypoint.raw()) {
                Some(script) => cell.or(printable(script)),
                None => cell,
            }
        },
        order: Some(|a, b| a.job.entrypoint.cmp(&b.job.entrypoint)),
    },
    Column {
        id: "message",
        title: "MESSAGE",
        width: Width::rest(16, 80, 4).hiding(),
        visibility: Visibility::Always,
        cell: |row, context| {
            if let Some(warning) = warning(row) {
                return Cell::new(warning.text(context.now), Jobs::text(row, context));
            }
            let words = message(row).and_then(Job::in_a_line);
            let words = words.as_deref().map_or(Cow::Borrowed("-"), printable).into_owned();
            Cell::new(words, Jobs::text(row, context))
        },
        order: None,
    },
    Column {
        id: "duration",
        title: "DURATION",
        width: Width { hides: true, ..Width::number(8, 5) },
        visibility: Visibility::Wide,
        cell: |row, context| {
            let took = match (row.job.started, row.job.ended) {
                (Some(from), Some(to)) => brief(from.age(to)),
                _ => "-".into(),
            };
            Cell::new(took, Jobs::text(row, context))
        },
        order: None,
    },
    Column {
        id: "rate",
        title: "RATE",
        width: Width::text(11, 13, 7),
        visibility: Visibility::Wide,
        cell: |row, context| {
            let rate = vitals(row).and_then(|vitals| vitals.moving_run()?.rate_text());
            Cell::new(rate.unwrap_or_else(|| "-".into()), Jobs::text(row, context))
        },
        order: None,
    },
    Column {
        id: "checkpoint",
        title: "CHECKPOINT",
        // How long ago the last checkpoint was saved.
        width: Width::number(10, 7),
        visibility: Visibility::Wide,
        cell: |row, context| {
            let saved = vitals(row).and_then(|vitals| vitals.run.as_ref()?.checkpoint?.at);
            let saved = saved.map_or_else(|| "-".into(), |at| brief(at.age(context.now)));
            Cell::new(saved, Jobs::text(row, context))
        },
        order: None,
    },
    Column {
        id: "restarts",
        title: "RESTARTS",
        width: Width::number(8, 7),
        visibility: Visibility::Wide,
        cell: |row, context| {
            let restarts = vitals(row).map_or_else(|| "-".into(), |vitals| vitals.restarts.to_string());
            Cell::new(restarts, Jobs::text(row, context))
        },
        order: Some(|a, b| restarts(b).cmp(&restarts(a))),
    },
    Column {
        id: "driver",
        title: "DRIVER",
        width: Width::text(10, 12, 7),
        visibility: Visibility::Wide,
        cell: |row, _| {
            let driver = row.job.driver.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            Cell::new(driver, Role::Dim)
        },
        order: None,
    },
];

/// Number of points in the curve of losses.
const CURVE_POINTS: usize = 8;

/// The vitals of a running job, as last read.
fn vitals<'f>(row: &Row<'f>) -> Option<&'f Vitals> {
    row.cluster.vitals.of(row.job)
}

fn status(row: &Row<'_>) -> JobStatus {
    row.cluster.vitals.status(row.job)
}

fn chips(row: &Row<'_>) -> f64 {
    vitals(row).and_then(Vitals::chips).map_or(0.0, |(_, n)| n)
}

fn restarts(row: &Row<'_>) -> Option<u64> {
    vitals(row).map(|vitals| vitals.restarts)
}

/// An entrypoint, starting at the name of its Python file, because most begin with `python experiments/`.
fn script(entrypoint: &str) -> Option<&str> {
    let name = &entrypoint[..entrypoint.find(".py")?];
    let start = name.rfind(['/', ' ']).map_or(0, |at| at + 1);
    Some(&entrypoint[start..])
}

/// Jobs with the worst warnings first, those without vitals last.
fn severity_rank(row: &Row<'_>) -> (u8, Option<WarningKind>) {
    match vitals(row).map(Vitals::worst) {
        Some(Some(sign)) => (0, Some(sign.kind)),
        Some(None) => (1, None),
        None => (2, None),
    }
}

fn name<'f>(row: &Row<'f>, context: &CellContext<'f>) -> Cell<'f> {
    let (id, brief) = match &row.job.key {
        JobKey::Submission(id) => (id.0.shown(), row.job.short_id()),
        JobKey::Driver(id) => (Cow::Owned(format!("{id} (manual)")), None),
    };
    let is_marked = context.marks.has(row.cluster_index, row.job);
    let role = if is_marked { Role::Accent } else { Jobs::text(row, context) };
    let cell = Cell { marks: is_marked, ..Cell::new(id, role).named() };
    match brief {
        Some(brief) => cell.or(brief),
        None => cell,
    }
}

/// Why it is pending, or Ray's message unchanged; `None` for a running job, whose message only repeats its state.
fn message<'f>(row: &Row<'f>) -> Option<&'f str> {
    match status(row) {
        JobStatus::Running => None,
        JobStatus::Pending => row.cluster.pending.get(&row.job.key).map(|why| why.text.as_str()),
        _ => Some(row.job.message.raw()),
    }
}

/// The worst warning about a run.
fn warning<'f>(row: &Row<'f>) -> Option<&'f RunWarning> {
    row.cluster.vitals.worst_warning(row.job, row.cluster.snapshot.taken)
}

/// The color of what its vitals say: dim if they are too old.
fn text_of_vitals(row: &Row<'_>, context: &CellContext<'_>) -> Role {
    Jobs::text(row, context).unless(!row.cluster.vitals.is_fresh(context.now))
}

/// The job whose log is opened first: the newest running submission.
pub fn newest_running(jobs: &[Arc<Job>]) -> Option<&Job> {
    let running = jobs.iter().filter(|j| j.status == JobStatus::Running && j.submission_id().is_some());
    running.max_by_key(|j| j.started).map(AsRef::as_ref)
}
