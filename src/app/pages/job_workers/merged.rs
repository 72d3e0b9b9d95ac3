//! The output of a job's workers, in order of time.

use super::common::{
    Process, WorkerPosition, hue, in_file, of_job, process, role, slice_cell, state, why_empty,
};
use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::job::workers::Watched;
use crate::app::log::LineTarget;
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::job_workers::{JobWorkers, NamedWorker, Part, WorkerLine};
use crate::logs::untimed;
use crate::model::Timestamp;
use crate::model::amount::grouped;
use std::cmp::Ordering;

/// The lines of a job's workers.
#[derive(Debug)]
pub struct Merged;

/// A line and its worker.
#[derive(Clone, Copy, Debug)]
pub struct MergedRow<'f> {
    cluster: &'f Cluster,
    cluster_index: usize,
    number: usize,
    job_workers: &'f JobWorkers,
    entry: &'f WorkerLine,
    worker: &'f NamedWorker,
}

type Row<'f> = MergedRow<'f>;

impl MergedRow<'_> {
    /// The worker and time of the line.
    pub fn position(&self) -> WorkerPosition {
        WorkerPosition { worker: self.entry.worker, time: self.entry.time, is_err: Some(self.entry.is_err) }
    }

    /// The line in its worker's file.
    pub fn line_target(&self) -> Option<LineTarget> {
        in_file(self.cluster.job_workers.lines()?.1, self.number)
    }
}

/// The last line of that worker up to a time, or its first line after it.
pub(super) fn nearest(watched: &Watched, worker: usize, time: Option<Timestamp>) -> Option<(Process, u64)> {
    let (job_workers, lines, _) = watched.lines()?;
    let own = || lines.iter().filter(|line| line.worker == worker);
    let before = || own().rfind(|line| time.is_none_or(|time| line.time <= Some(time)));
    let found = before().or_else(|| own().next())?;
    Some((process(job_workers, worker)?, found.mark))
}

impl Kind for Merged {
    type Row<'f> = MergedRow<'f>;
    type Key = (Process, u64);

    const LACKS: &'static str = "no lines";
    const FIELDS: &'static [&'static str] = &["line", "host", "slice", "name", "cluster"];
    const BELOW: Option<&'static str> = Some("line");

    fn title(_: Option<usize>) -> &'static str {
        "Lines by time"
    }

    fn name(_: Option<usize>) -> &'static str {
        "worker-lines"
    }

    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static> {
        let lines =
            of.and_then(|cluster_index| context.fleet.clusters.get(cluster_index)?.job_workers.lines());
        let lines = lines.map_or(0, |(_, lines, _)| lines.len());
        state(context, of, Part::Lines, |job_workers| {
            format!("{} lines of {}", grouped(lines), job_workers.count_text())
        })
    }

    fn why_empty(context: &CellContext<'_>, of: Option<usize>) -> String {
        why_empty(context, of, Part::Lines)
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(cluster: &Cluster) -> usize {
        cluster.job_workers.lines().map_or(0, |(_, lines, _)| lines.len())
    }

    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Row<'_>> {
        let (job_workers, lines, _) = cluster.job_workers.lines()?;
        let entry = lines.get(number)?;
        Some(Row {
            cluster,
            cluster_index,
            number,
            job_workers,
            entry,
            worker: job_workers.workers.get(entry.worker)?,
        })
    }

    fn key(row: &Row<'_>) -> Self::Key {
        ((row.worker.process.node, row.worker.process.pid), row.entry.mark)
    }

    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        a.number.cmp(&b.number)
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        [
            ("line", row.entry.line.text()),
            ("host", row.worker.host.as_str()),
            ("slice", row.worker.slice.as_str()),
            ("name", row.worker.process.name.raw()),
            ("cluster", row.cluster.name().as_str()),
        ]
        .into_iter()
    }

    fn target(row: &Row<'_>) -> Target {
        of_job(row.cluster, row.cluster_index)
    }

    fn copied(row: &Row<'_>) -> Option<(&'static str, String)> {
        Some(("line", row.entry.line.text().to_owned()))
    }
}

const COLUMNS: &[Column<Merged>] = &[
    Column {
        id: "time",
        title: "TIME",
        width: Width::text(12, 18, 1).firm(18),
        visibility: Visibility::Always,
        cell: |row, _| {
            let time = row.entry.time.map_or_else(|| "-".to_owned(), |at| row.job_workers.clock.text(at));
            Cell::new(time, Role::Dim)
        },
        order: None,
    },
    Column {
        id: "slice",
        title: "SLICE",
        width: Width::text(8, 16, 5).hiding(),
        visibility: Visibility::Wide,
        cell: |row, _| slice_cell(row.job_workers, row.worker),
        order: Some(|a, b| a.worker.slice.cmp(&b.worker.slice)),
    },
    Column {
        id: "host",
        title: "HOST",
        width: Width::text(10, 28, 0).firm(16),
        visibility: Visibility::Always,
        cell: |row, _| {
            Cell::new(row.job_workers.short_host(&row.worker.host), hue(row.entry.worker)).ending()
        },
        order: Some(|a, b| a.worker.host.cmp(&b.worker.host)),
    },
    Column {
        id: "pid",
        title: "PID",
        width: Width::number(7, 4),
        visibility: Visibility::Always,
        cell: |row, _| Cell::new(row.worker.process.pid.to_string(), hue(row.entry.worker)),
        order: Some(|a, b| a.worker.process.pid.cmp(&b.worker.process.pid)),
    },
    Column {
        id: "line",
        title: "LINE",
        width: Width::rest(20, 400, 0),
        visibility: Visibility::Always,
        cell: |row, _| Cell::new(untimed(row.entry.line.text()), role(row.entry.line.text())),
        order: None,
    },
];
