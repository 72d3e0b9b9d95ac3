//! The overview of a job's workers: one row per worker.

use super::common::{Process, WorkerPosition, of_job, slice_cell, state, why_empty};
use crate::app::action::target::Target;
use crate::app::fleet::cluster::Cluster;
use crate::app::log::LineTarget;
use crate::app::table::cell::{Cell, Role};
use crate::app::table::column::{Column, Kind, Visibility, Width};
use crate::app::table::facts::CellContext;
use crate::job_workers::{JobWorkers, NamedWorker, Part, WorkersAnswer, age_text, remark_counts, steps_text};
use crate::logs::{Answer, WorkerNote, untimed};
use crate::model::amount::grouped;
use crate::model::natural::natural;
use std::cmp::{Ordering, Reverse};

/// The workers of a job.
#[derive(Debug)]
pub struct Overview;

/// A worker and its answer.
#[derive(Clone, Copy, Debug)]
pub struct OverviewRow<'f> {
    cluster: &'f Cluster,
    cluster_index: usize,
    number: usize,
    answer: &'f Answer,
    job_workers: &'f JobWorkers,
    worker: &'f NamedWorker,
}

type Row<'f> = OverviewRow<'f>;

impl OverviewRow<'_> {
    /// The worker of the row, and the time of its answer.
    pub fn position(&self) -> WorkerPosition {
        let worker = self.answer.worker as usize;
        let is_err =
            match self.cluster.job_workers.slot(Part::Overview).reading.as_ref().map(|reading| &reading.what)
            {
                Some(WorkersAnswer::Overview { last, .. }) => last.get(worker).copied().flatten(),
                _ => None,
            };
        WorkerPosition { worker, time: self.answer.time, is_err }
    }

    /// Its last line; `None` if it has not written any.
    pub fn line_target(&self) -> Option<LineTarget> {
        let text = self.answer.line.clone();
        (!text.is_empty()).then(|| LineTarget { text, ..LineTarget::default() })
    }

    const fn role(&self) -> Role {
        match self.answer.remark {
            WorkerNote::Ended | WorkerNote::Error => Role::Bad,
            WorkerNote::NoLine | WorkerNote::Silent | WorkerNote::Lagging => Role::Warn,
            WorkerNote::None => Role::Text,
        }
    }
}

fn answers(cluster: &Cluster) -> &[Answer] {
    match cluster.job_workers.slot(Part::Overview).reading.as_ref().map(|reading| &reading.what) {
        Some(WorkersAnswer::Overview { answers, .. }) => answers,
        _ => &[],
    }
}

impl Kind for Overview {
    type Row<'f> = OverviewRow<'f>;
    type Key = Process;

    const LACKS: &'static str = "no workers";
    const FIELDS: &'static [&'static str] = &["host", "slice", "name", "note", "state", "line", "cluster"];
    const BELOW: Option<&'static str> = Some("line");

    fn title(_: Option<usize>) -> &'static str {
        "Workers"
    }

    fn name(_: Option<usize>) -> &'static str {
        "workers"
    }

    fn counts(context: &CellContext<'_>, of: Option<usize>) -> Cell<'static> {
        let answers = of
            .and_then(|cluster_index| context.fleet.clusters.get(cluster_index))
            .map(answers)
            .unwrap_or_default();
        state(context, of, Part::Overview, |job_workers| {
            let workers = job_workers.count_text();
            let how =
                [remark_counts(answers), steps_text(answers)].into_iter().filter(|words| !words.is_empty());
            let how = how.collect::<Vec<_>>().join(", ");
            if how.is_empty() { workers } else { format!("{workers}: {how}") }
        })
    }

    fn why_empty(context: &CellContext<'_>, of: Option<usize>) -> String {
        why_empty(context, of, Part::Overview)
    }

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }

    fn count(cluster: &Cluster) -> usize {
        answers(cluster).len()
    }

    fn row(cluster: &Cluster, cluster_index: usize, number: usize) -> Option<Row<'_>> {
        let answer = answers(cluster).get(number)?;
        let job_workers = cluster.job_workers.job_workers(Part::Overview)?;
        let worker = job_workers.workers.get(answer.worker as usize)?;
        Some(Row { cluster, cluster_index, number, answer, job_workers, worker })
    }

    fn key(row: &Row<'_>) -> Process {
        (row.worker.process.node, row.worker.process.pid)
    }

    /// In the order of the answers.
    fn order<'f>(a: &Self::Row<'f>, b: &Self::Row<'f>) -> Ordering {
        a.number.cmp(&b.number)
    }

    fn fields<'f>(row: &Self::Row<'f>) -> impl Iterator<Item = (&'f str, &'f str)> + Clone {
        [
            ("host", row.worker.host.as_str()),
            ("slice", row.worker.slice.as_str()),
            ("name", row.worker.process.name.raw()),
            ("note", row.answer.remark.label().unwrap_or_default()),
            ("state", row.worker.state_label()),
            ("line", row.answer.line.as_str()),
            ("cluster", row.cluster.name().as_str()),
        ]
        .into_iter()
    }

    fn target(row: &Row<'_>) -> Target {
        of_job(row.cluster, row.cluster_index)
    }

    fn copied(row: &Row<'_>) -> Option<(&'static str, String)> {
        Some(("worker", row.worker.who()))
    }
}

const COLUMNS: &[Column<Overview>] = &[
    Column {
        id: "host",
        title: "HOST",
        width: Width::text(10, 32, 0).firm(24),
        visibility: Visibility::Always,
        cell: |row, _| Cell::new(row.job_workers.short_host(&row.worker.host), row.role()).ending(),
        order: Some(|a, b| natural(&a.worker.host, &b.worker.host)),
    },
    Column {
        id: "slice",
        title: "SLICE",
        width: Width::text(8, 24, 5).hiding(),
        visibility: Visibility::Always,
        cell: |row, _| slice_cell(row.job_workers, row.worker),
        order: Some(|a, b| natural(&a.worker.slice, &b.worker.slice)),
    },
    Column {
        id: "pid",
        title: "PID",
        width: Width::number(7, 4),
        visibility: Visibility::Always,
        cell: |row, _| Cell::text(row.worker.process.pid.to_string()),
        order: Some(|a, b| a.worker.process.pid.cmp(&b.worker.process.pid)),
    },
    Column {
        id: "rank",
        title: "RANK",
        width: Width::number(5, 6).hiding(),
        visibility: Visibility::Always,
        cell: |row, _| Cell::text(row.answer.rank.map(|rank| rank.to_string()).unwrap_or_default()),
        order: Some(|a, b| a.answer.rank.cmp(&b.answer.rank)),
    },
    Column {
        id: "name",
        title: "NAME",
        width: Width::text(6, 24, 7),
        visibility: Visibility::Wide,
        cell: |row, _| Cell::text(row.worker.process.name.shown()),
        order: Some(|a, b| a.worker.process.name.cmp(&b.worker.process.name)),
    },
    Column {
        id: "step",
        title: "STEP",
        width: Width::number(9, 3),
        visibility: Visibility::Always,
        cell: |row, _| {
            let step = row.answer.step.map(|step| grouped(step as usize));
            let phase = || row.answer.phase.map(|phase| phase.label().to_owned());
            Cell::text(step.or_else(phase).unwrap_or_else(|| "-".to_owned()))
        },
        order: Some(|a, b| a.answer.step.cmp(&b.answer.step)),
    },
    Column {
        id: "age",
        title: "AGE",
        width: Width::number(7, 2),
        visibility: Visibility::Always,
        cell: |row, _| Cell::text(age_text(row.answer.age)),
        order: Some(|a, b| Reverse(a.answer.shown_age()).cmp(&Reverse(b.answer.shown_age()))),
    },
    Column {
        id: "note",
        title: "NOTE",
        width: Width::text(6, 44, 1).firm(24).hiding(),
        visibility: Visibility::Always,
        cell: |row, _| Cell::new(row.answer.reason.as_str(), row.role()),
        order: Some(|a, b| a.answer.remark.cmp(&b.answer.remark)),
    },
    Column {
        id: "line",
        title: "LAST LINE",
        width: Width::rest(16, 240, 0),
        visibility: Visibility::Always,
        cell: |row, _| Cell::text(untimed(row.answer.line.trim())),
        order: None,
    },
];
