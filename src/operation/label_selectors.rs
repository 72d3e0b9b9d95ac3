//! The label selectors of jobs, which a backup adds to the submissions: Ray does not record them.

use crate::job_workers::first_few;
use crate::model::SubmissionId;
use crate::model::text::printable;
use crate::ray::{Client, RayError, Recorded};
use std::collections::{BTreeMap, BTreeSet};

/// The jobs whose label selectors cannot be read.
#[derive(Default)]
pub(super) struct Unread {
    pub jobs: BTreeSet<SubmissionId>,
    /// The error of the request; none if Ray does not list the actors of these jobs.
    error: Option<RayError>,
}

impl Unread {
    /// The warning that these jobs are saved without the label selectors that they may have; none without jobs. Safe to
    /// print.
    pub fn warning(&self, saved: &[SubmissionId]) -> Option<String> {
        if saved.is_empty() {
            return None;
        }
        let not_listed = || {
            let ids: Vec<_> = saved.iter().map(|id| id.0.raw()).collect();
            format!("Ray does not list the actors of {}", first_few(&ids))
        };
        let why = self.error.as_ref().map_or_else(not_listed, ToString::to_string);
        Some(format!(
            "label selectors cannot be read ({}); a job that has one is saved without it",
            printable(&why)
        ))
    }
}

/// The submissions that have not ended, with their label selectors, and those whose label selectors cannot be read: a
/// head that has to be restarted may fail to list its actors.
pub(super) async fn open_submissions(client: &Client) -> Result<(Vec<Recorded>, Unread), RayError> {
    let mut open = client.open_submissions().await?;
    if open.is_empty() {
        return Ok((open, Unread::default()));
    }
    let ids: Vec<_> = open.iter().map(|record| record.submission.id()).collect();
    let read = client.label_selectors(&ids).await;
    let unread = add(&mut open, read);
    Ok((open, unread))
}

/// Adds the label selectors to the submissions.
fn add(
    open: &mut [Recorded],
    read: Result<BTreeMap<SubmissionId, BTreeMap<String, String>>, RayError>,
) -> Unread {
    let (mut selectors, error) = read.map_or_else(|e| (BTreeMap::new(), Some(e)), |all| (all, None));
    let mut jobs = BTreeSet::new();
    for Recorded { submission, .. } in open {
        let id = submission.id();
        if let Some(selector) = selectors.remove(&id) {
            submission.entrypoint_label_selector = selector;
        } else {
            jobs.insert(id);
        }
    }
    Unread { jobs, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobStatus;
    use crate::ray::Submission;

    #[test]
    fn a_job_whose_actor_is_not_listed_is_not_one_without_a_label_selector() {
        let recorded = |id: &str| Recorded {
            submission: Submission { submission_id: id.to_owned(), ..Submission::default() },
            status: JobStatus::Running,
        };
        let mut open = ["labeled", "lost", "plain"].map(recorded);
        let id = |id: &str| SubmissionId(id.into());
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
        let listed = BTreeMap::from([(id("labeled"), labels.clone()), (id("plain"), BTreeMap::new())]);
        let unread = add(&mut open, Ok(listed));
        assert_eq!(open[0].submission.entrypoint_label_selector, labels);
        assert_eq!(unread.jobs, BTreeSet::from([id("lost")]));
        assert_eq!(
            unread.warning(&[id("lost")]).as_deref(),
            Some(
                "label selectors cannot be read (Ray does not list the actors of lost); a job that has one is saved \
                 without it"
            )
        );
        assert_eq!(unread.warning(&[]), None);
        let unread = add(&mut open, Err(RayError::Silent("timed out".to_owned())));
        assert_eq!(unread.jobs.len(), 3);
        assert!(unread.warning(&[id("lost")]).unwrap().contains("timed out"));
    }
}
