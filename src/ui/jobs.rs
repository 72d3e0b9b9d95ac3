//! The jobs pane.

use super::frame::{Title, pane};
use super::grid::{Cell, Column, Grid};
use super::{Draw, filtered, words};
use crate::app::{Area, Cluster, JOB_COLUMNS, Pane};
use crate::model::text::printable;
use crate::model::{Job, JobStatus};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::borrow::Cow;

/// The columns of a job.
pub const COLUMNS: [Column; 8] = [
    Column::text("", 1, 0),
    Column::rest("JOB", 20, 0),
    Column::text("OWNER", 8, 2),
    Column::text("STATE", 9, 0),
    Column::number("AGE", 7, 1),
    Column::number("TOOK", 7, 4),
    Column::rest("ENTRYPOINT", 14, 3),
    Column::rest("MESSAGE", 16, 5),
];

/// Draws it; returns where the rows are.
pub fn draw(buf: &mut Buffer, area: Rect, d: &Draw<'_>, cluster: &Cluster) -> Area {
    let (running, waiting, failed) = cluster.job_counts(d.now);
    let mut counts = vec![format!("{running} running")];
    counts.extend((waiting > 0).then(|| format!("{waiting} waiting")));
    counts.extend((failed > 0).then(|| format!("{failed} failed today")));
    let marked = d.app.marked();
    counts.extend((marked > 0 && d.is_focused(Pane::Jobs)).then(|| format!("{marked} marked")));
    let counts = if cluster.known { counts.join(" · ") } else { String::new() };
    let title = filtered("2 Jobs", cluster.jobs.filter().text(), cluster.jobs.len());
    let focused = d.is_focused(Pane::Jobs);
    let inner = pane(buf, area, d.theme, &Title { left: &title, right: &counts, tone: None, focused });
    let grid = Grid {
        columns: &COLUMNS,
        sort: cluster.jobs.sort(),
        sortable: &JOB_COLUMNS,
        top: cluster.jobs.window(usize::from(inner.height.saturating_sub(1))),
        rows: cluster.jobs.len(),
        selected: Some((cluster.jobs.cursor(), d.selection(Pane::Jobs))),
    };
    let rows = &cluster.snapshot.jobs;
    let drawn = grid.draw(buf, inner, d.theme, |position| {
        let job = cluster.jobs.row(position).and_then(|i| rows.get(i));
        job.map(|j| row(j, d, cluster)).unwrap_or_default()
    });
    if cluster.jobs.is_empty() {
        d.say_empty(buf, drawn, cluster, "no job", cluster.jobs.filter());
    }
    drawn
}

/// A job's cells.
pub fn row<'a>(job: &'a Job, d: &Draw<'_>, cluster: &Cluster) -> Vec<Cell<'a>> {
    let stale = cluster.is_stale(d.now);
    let text = if stale || job.status.is_ended() { d.theme.dim } else { d.theme.text };
    let (glyph, tone) = words::job(job.status, d.theme);
    let tone = if stale { d.theme.dim } else { tone };
    let stopping = job.submission_id().is_some_and(|id| cluster.stopping.contains(id));
    let state = if stopping { "stopping…" } else { job.status.word() };
    let marked = job.submission_id().is_some_and(|id| cluster.marked.contains(id));
    let id: Cow<'a, str> = match &job.key {
        crate::model::JobKey::Submission(id) if marked => Cow::Owned(format!("◆ {id}")),
        crate::model::JobKey::Submission(id) => id.0.shown(),
        crate::model::JobKey::Driver(id) => Cow::Owned(format!("{id} (by hand)")),
    };
    let age = job.started.map_or_else(|| "?".into(), |t| words::minutes(t.age(d.now)));
    let took = match (job.started, job.ended) {
        (Some(from), Some(to)) => crate::model::time::brief(from.age(to)),
        _ => "-".into(),
    };
    let message = if job.status == JobStatus::Running || job.message.is_empty() {
        Cow::Borrowed("-")
    } else {
        printable(job.message.raw().lines().next().unwrap_or_default())
    };
    vec![
        Cell::new(glyph, tone),
        Cell::new(id, if marked { d.theme.accent } else { text }),
        Cell::new(job.owner().map_or(Cow::Borrowed("-"), printable), text),
        Cell::new(state, if stopping { d.theme.warn } else { tone }),
        Cell::new(age, text),
        Cell::new(took, text),
        Cell::new(job.entrypoint.shown(), text),
        Cell::new(message, d.theme.dim),
    ]
}
