//! The actual activity of a job, as text and color of a row: the same in the tables of jobs and below the fleet.

use crate::app::table::cell::{Cell, Role};
use crate::app::text::labels;
use crate::diagnose::sign_severity;
use crate::model::text::printable;
use crate::model::vitals::waits_for;
use crate::model::{ClusterVitals, Job, JobActivity, JobStatus, Timestamp};

/// The glyph of its worst problem, otherwise that of its status.
pub fn mark(job: &Job, vitals: &ClusterVitals, now: Timestamp) -> (&'static str, Role) {
    match vitals.worst_warning(job, now) {
        Some(warning) => labels::severity_mark(sign_severity(warning.kind)),
        None => labels::job(vitals.status(job)),
    }
}

/// Its activity, colored by its worst warning, and dimmed if its vitals are too old; `None` before they were read.
pub fn activity(job: &Job, cluster_vitals: &ClusterVitals, now: Timestamp) -> Option<Cell<'static>> {
    cluster_vitals.read?;
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
    let Some(vitals) = cluster_vitals.of(job) else { return Some(Cell::new("not read yet", Role::Dim)) };
    let worst = cluster_vitals.worst_warning(job, now);
    let role = worst.map_or(Role::Text, |warning| labels::severity(sign_severity(warning.kind)));
    let cell = Cell::new(vitals.text(now), role.unless(!cluster_vitals.is_fresh(now)));
    Some(match &vitals.activity {
        JobActivity::Waiting(wait) => cell.or(waits_for(&wait.shape, None, now)),
        _ => cell,
    })
}
