//! The actual activity of a job, as text and color of a row: the same in the tables of jobs and below the fleet.

use crate::app::table::cell::{Cell, Role};
use crate::app::text::labels;
use crate::diagnose::sign_severity;
use crate::model::text::printable;
use crate::model::time::brief;
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
    let read = cluster_vitals.read?;
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
    let Some(vitals) = cluster_vitals.of(job) else {
        if cluster_vitals.is_fresh(now) {
            // It has started since the last reading.
            return Some(Cell::new("not read yet", Role::Dim));
        }
        return Some(Cell::new(format!("not read for {}", brief(read.age(now))), Role::Dim));
    };
    let worst = cluster_vitals.worst_warning(job, now);
    let role = worst.map_or(Role::Text, |warning| labels::severity(sign_severity(warning.kind)));
    let cell = Cell::new(vitals.text(now), role.unless(!cluster_vitals.is_fresh(now)));
    Some(match &vitals.activity {
        JobActivity::Waiting(wait) => cell.or(waits_for(&wait.shape, None, now)),
        _ => cell,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_running_job_without_vitals_shows_since_when_they_are_missing() {
        let (job, begun) = (Job::sample("a", JobStatus::Running), Timestamp::from_millis(0));
        let after = |minutes: u64| {
            let read = ClusterVitals { read: Some(begun), ..ClusterVitals::default() };
            let cell = activity(&job, &read, begun.plus(Duration::from_secs(60 * minutes))).unwrap();
            (cell.text.into_owned(), cell.role)
        };
        assert_eq!(after(1), ("not read yet".to_owned(), Role::Dim));
        assert_eq!(after(20), ("not read for 20m".to_owned(), Role::Dim), "they were read before");
        assert!(activity(&job, &ClusterVitals::default(), begun).is_none());
    }
}
