//! The root cause of a job that failed or hangs, line by line.

use super::common::{WorkerPosition, of_job, state, why_empty};
use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::job::cause::CauseLine;
use crate::app::log::LineTarget;
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::job_workers::{JobWorkers, Part};
use std::borrow::Cow;
use std::cmp::Ordering;

/// The lines of the root cause.
#[derive(Debug)]
pub struct Causes;

/// A line of the root cause, by its index.
#[derive(Clone, Copy, Debug)]
pub struct CauseRow<'f> {
    cluster: &'f Cluster,
    cluster_index: usize,
    number: usize,
    line: &'f CauseLine,
}

type Row<'f> = CauseRow<'f>;

impl CauseRow<'_> {
    /// The line in its log; `None` if it is not from a log.
    pub fn line_target(&self) -> Option<LineTarget> {
        self.line.line.clone()
    }

    /// Whether it is in the driver's log.
    pub fn is_drivers(&self) -> bool {
        self.line.line.is_some() && self.line.worker.is_none()
    }

    /// The worker and time of the line; `None` if it is not a worker's.
    pub fn position(&self) -> Option<WorkerPosition> {
        let (worker, is_err) = self.line.worker?;
        Some(WorkerPosition { worker, time: self.line.time, is_err })
    }
}

impl Kind for Causes {
    type Row<'f> = CauseRow<'f>;
    type Key = usize;

    const LACKS: &'static str = "no lines";
    const FIELDS: &'static [&'static str] = &["event", "process", "text", "cluster"];
    const BELOW: Option<&'static str> = Some("text");

    fn title(_: Option<usize>) -> &'static str {
        "Root cause"
    }

    fn name(_: Option<usize>) -> &'static str {
        "root-cause"
    }

    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static> {
        state(context, of, Part::Cause, JobWorkers::count_text)
    }

    fn why_empty(context: &CellContext<'_>, of: Option<usize>) -> String {
        why_empty(context, of, Part::Cause)
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(cluster: &Cluster) -> usize {
        cluster.job_workers.cause().len()
    }

    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Row<'_>> {
        Some(Row { cluster, cluster_index, number, line: cluster.job_workers.cause().get(number)? })
    }

    fn key(row: &Row<'_>) -> usize {
        row.number
    }

    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        a.number.cmp(&b.number)
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        [
            ("event", row.line.label),
            ("process", row.line.who.as_str()),
            ("text", row.line.text.as_str()),
            ("cluster", row.cluster.name().as_str()),
        ]
        .into_iter()
    }

    fn target(row: &Row<'_>) -> Target {
        of_job(row.cluster, row.cluster_index)
    }

    fn copied(row: &Row<'_>) -> Option<(&'static str, String)> {
        Some(("line", row.line.text.clone()))
    }
}

const COLUMNS: &[Column<Causes>] = &[
    Column {
        id: "event",
        title: "EVENT",
        width: Width::text(11, 11, 0),
        visibility: Visibility::Always,
        cell: |row, _| {
            Cell::new(row.line.label, if row.line.role == Role::Text { Role::Dim } else { row.line.role })
        },
        order: None,
    },
    Column {
        id: "time",
        title: "TIME",
        width: Width::text(12, 18, 2).firm(18).hiding(),
        visibility: Visibility::Always,
        cell: |row, _| {
            let job_workers = row.cluster.job_workers.job_workers(Part::Cause);
            let time = row.line.time.zip(job_workers).map(|(at, job_workers)| job_workers.clock.text(at));
            Cell::new(time.unwrap_or_default(), Role::Dim)
        },
        order: None,
    },
    Column {
        id: "process",
        title: "PROCESS",
        width: Width::text(10, 36, 1).firm(20).hiding(),
        visibility: Visibility::Always,
        cell: |row, _| Cell::text(row.line.who.as_str()).ending(),
        order: None,
    },
    Column {
        id: "text",
        title: "TEXT",
        width: Width::rest(20, 400, 0),
        visibility: Visibility::Always,
        cell: |row, context| {
            let line = row.line;
            let hint = (!line.hint.is_empty()).then(|| Cow::Owned(context.hint(&line.hint)));
            Cell::new(hint.unwrap_or(Cow::Borrowed(line.text.as_str())), line.role).leading()
        },
        order: None,
    },
];
