//! The label selectors of jobs: a typed one is checked, and a backup adds those of its jobs to the submissions, because
//! Ray does not record them.

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

/// A typed label selector: JSON with a condition for each label, by the rules of Ray (`_private/label_utils.py`). The
/// error is a message.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let selector: BTreeMap<String, String> = serde_json::from_str(text)
        .map_err(|_| r#"the label selector is not JSON like {"disk": "ssd"}"#.to_owned())?;
    for (label, condition) in &selector {
        let shown = printable(label);
        if !is_label(label) {
            return Err(format!("label selector: `{shown}` is not a label like disk or ray.io/market-type"));
        }
        if !is_condition(condition) {
            return Err(format!(
                "label selector: {shown}: `{}` is not a condition like ssd, !ssd, in(ssd, nvme) or !in(ssd, nvme)",
                printable(condition)
            ));
        }
    }
    Ok(selector)
}

const fn is_inner(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Whether this is the value of a label, or its name without a prefix.
fn is_value(text: &str) -> bool {
    let is_outer = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63 && text.starts_with(is_outer) && text.ends_with(is_outer) && text.chars().all(is_inner)
}

fn is_label(text: &str) -> bool {
    let (prefix, name) = text.rsplit_once('/').unwrap_or(("", text));
    prefix.len() <= 253 && prefix.chars().all(is_inner) && is_value(name)
}

fn is_condition(text: &str) -> bool {
    let positive = text.strip_prefix('!').unwrap_or(text);
    let list = positive.strip_prefix("in").unwrap_or(positive);
    match list.strip_prefix('(').and_then(|list| list.strip_suffix(')')) {
        Some(values) => values.split(',').all(|value| is_value(value.strip_prefix(' ').unwrap_or(value))),
        None => text.is_empty() || is_value(positive),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobStatus;
    use crate::ray::Submission;

    #[test]
    fn a_label_selector_is_checked_by_the_rules_of_ray() {
        let text = r#"{"disk": "ssd", "ray.io/market-type": "!in(spot, x)", "a_b": "(v4,v5)", "zone": ""}"#;
        assert_eq!(parse(text).unwrap()["ray.io/market-type"], "!in(spot, x)");
        assert_eq!(parse("{}"), Ok(BTreeMap::new()));
        let wrong = |label: &str, condition: &str| {
            let json = serde_json::json!({label: condition}).to_string();
            parse(&json).expect_err(&json)
        };
        for label in ["", "-disk", "disk_", "ray.io/", "my disk", "ray/io/x y", &"x".repeat(64)] {
            assert!(wrong(label, "ssd").contains("is not a label"), "{label}");
        }
        for condition in
            ["-ssd", "ssd,nvme", "in()", "in(ssd,", "in(a, !b)", "!", "!!a", "a b", &"x".repeat(64)]
        {
            let why = wrong("disk", condition);
            assert!(why.contains("disk") && why.contains("is not a condition"), "{condition}: {why}");
        }
        for text in ["disk=ssd", "[]", r#"{"disk": 1}"#, r#"{"disk": null}"#] {
            assert!(parse(text).unwrap_err().contains("is not JSON like"), "{text}");
        }
    }

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
