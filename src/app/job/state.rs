//! The actual activity of a job, as text and color of a row: the same in the tables of jobs and below the fleet.

use crate::app::table::cell::{Cell, Role};
use crate::app::text::labels;
use crate::diagnose::sign_severity;
use crate::model::text::printable;
use crate::model::vitals::waits_for;
use crate::model::{ClusterVitals, Job, JobActivity, JobStatus, Timestamp, WarningKind};

/// The glyph of its worst problem, otherwise that of its status.
pub fn mark(job: &Job, vitals: &ClusterVitals) -> (&'static str, Role) {
    match vitals.wrong(job) {
        Some(sign) => labels::severity_mark(sign_severity(sign)),
        None => labels::job(vitals.status(job)),
    }
}

/// Its activity, colored by its worst warning; `None` before vitals were read.
pub fn activity(job: &Job, vitals: &ClusterVitals, now: Timestamp) -> Option<Cell<'static>> {
    vitals.read?;
    if job.status == JobStatus::Pending {
        let needs = job.requested.as_deref().filter(|needs| !needs.is_empty())?;
        return Some(Cell::text(waits_for(needs, job.started, now)).or(waits_for(needs, None, now)));
    }
    if job.status == JobStatus::Failed {
        return Job::error(job.message.raw())
            .map(|error| Cell::new(printable(error).into_owned(), Role::Dim));
    }
    if job.status != JobStatus::Running {
        return None;
    }
    // It has started since the last reading.
    let Some(vitals) = vitals.of(job) else { return Some(Cell::new("not read yet", Role::Dim)) };
    // The waiting time is not a problem of the job itself, and is shown next to it.
    let wrong = vitals.worst().filter(|sign| sign.kind != WarningKind::PendingTooLong);
    let role = wrong.map_or(Role::Text, |sign| labels::severity(sign_severity(sign.kind)));
    let cell = Cell::new(vitals.text(now), role);
    Some(match &vitals.activity {
        JobActivity::Waiting(wait) => cell.or(waits_for(&wait.shape, None, now)),
        _ => cell,
    })
}
