//! The jobs pane.

use super::frame::{Title, pane};
use super::grid::{Cell, Column, Grid};
use super::{Draw, filtered, words};
use crate::app::{Area, Cluster, JOB_COLUMNS, Pane};
use crate::model::text::printable;
use crate::model::{Job, JobKey, JobStatus};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// Indices of columns: the id's, and those that are shown only if a job has a value for them.
const ID: usize = 1;
const TOOK: usize = 5;
const MESSAGE: usize = 7;
/// Jobs per cluster whose texts decide the width of columns, at every frame: the newest.
const LOOKED_AT: usize = 100;

const COLUMNS: [Column; 8] = [
    Column::text("", 1, 0),
    Column::text("JOB", 20, 0),
    Column::text("OWNER", 8, 2),
    Column::text("STATE", 9, 0),
    Column::number("AGE", 7, 1),
    Column::number("TOOK", 7, 4),
    Column::rest("ENTRYPOINT", 14, 3),
    Column::rest("MESSAGE", 16, 5),
];

/// The columns of the jobs of these clusters for a width in cells. The id gets room first, up to the longest, beside
/// owner and status; a column that no job has a value for gets none.
pub fn columns<'a>(clusters: impl IntoIterator<Item = &'a Cluster>, width: u16) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    let (mut longest, mut ended, mut tells) = (0, false, false);
    for job in clusters.into_iter().flat_map(|c| c.snapshot.jobs.iter().take(LOOKED_AT)) {
        longest = longest.max(id(job).width());
        ended |= job.ended.is_some();
        tells |= first_line(job).is_some();
    }
    for (place, _) in [(TOOK, ended), (MESSAGE, tells)].into_iter().filter(|(_, there)| !there) {
        columns[place] = Column::text("", 0, columns[place].spare);
    }
    // The glyph's, and those between the id and the first that can be missed.
    let beside = columns[0].width + columns[ID + 1..TOOK].iter().map(|c| c.width + 1).sum::<u16>() + 1;
    let least = columns[ID].width;
    let most = width.saturating_sub(beside).max(least);
    columns[ID].width = u16::try_from(longest).unwrap_or(most).clamp(least, most);
    columns
}

/// Draws it; returns where the rows are.
pub fn draw(buf: &mut Buffer, area: Rect, d: &Draw<'_>, cluster: &Cluster) -> Area {
    let (running, waiting, failed) = cluster.job_counts(d.now);
    let mut counts = vec![format!("{running} running")];
    counts.extend((waiting > 0).then(|| format!("{waiting} waiting")));
    counts.extend((failed > 0).then(|| format!("{failed} failed today")));
    let marked = d.app.marked();
    counts.extend((marked > 0 && d.is_focused(Pane::Jobs)).then(|| format!("{marked} marked")));
    let counts = if cluster.known { counts.join(" · ") } else { String::new() };
    let title =
        filtered("2 Jobs", cluster.jobs.filter().text(), cluster.jobs.len(), cluster.snapshot.jobs.len());
    let focused = d.is_focused(Pane::Jobs);
    let inner = pane(buf, area, d.theme, &Title { left: &title, right: &counts, tone: None, focused });
    let columns = columns([cluster], inner.width);
    let grid = Grid {
        columns: &columns,
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

/// The cells of a job, for the columns that [`columns`] gives.
pub fn row<'a>(job: &'a Job, d: &Draw<'_>, cluster: &Cluster) -> Vec<Cell<'a>> {
    let stale = cluster.is_stale(d.now);
    let text = if stale || job.status.is_ended() { d.theme.dim } else { d.theme.text };
    let (glyph, tone) = words::job(job.status, d.theme);
    let tone = if stale { d.theme.dim } else { tone };
    let stopping = job.submission_id().is_some_and(|id| cluster.stopping.contains(id));
    let state = if stopping { "stopping…" } else { job.status.word() };
    let marked = job.submission_id().is_some_and(|id| cluster.marked.contains(id));
    // Room for marks stands in every row as soon as there is one, so that names stay below each other.
    let id = match (marked, cluster.marked.is_empty()) {
        (true, _) => Cow::Owned(format!("◆ {}", id(job))),
        (false, false) => Cow::Owned(format!("  {}", id(job))),
        (false, true) => id(job),
    };
    let age = job.started.map_or_else(|| "?".into(), |t| words::minutes(t.age(d.now)));
    let took = match (job.started, job.ended) {
        (Some(from), Some(to)) => crate::model::time::brief(from.age(to)),
        _ => "-".into(),
    };
    vec![
        Cell::new(glyph, tone),
        Cell::named(id, if marked { d.theme.accent } else { text }),
        Cell::new(job.owner().map_or(Cow::Borrowed("-"), printable), text),
        Cell::new(state, if stopping { text } else { tone }),
        Cell::new(age, text),
        Cell::new(took, text),
        Cell::new(job.entrypoint.shown(), text),
        Cell::new(first_line(job).map_or(Cow::Borrowed("-"), printable), d.theme.dim),
    ]
}

fn id(job: &Job) -> Cow<'_, str> {
    match &job.key {
        JobKey::Submission(id) => id.0.shown(),
        JobKey::Driver(id) => Cow::Owned(format!("{id} (by hand)")),
    }
}

/// The first line of its message, unchanged; none for a running job, whose message only repeats its state.
fn first_line(job: &Job) -> Option<&str> {
    let line = job.message.raw().lines().next().filter(|_| job.status != JobStatus::Running)?;
    (!line.is_empty()).then_some(line)
}
