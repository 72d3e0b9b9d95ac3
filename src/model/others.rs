//! Other people whose jobs an operation would end. A job of unknown owner counts as another person's: a plain
//! `ray job submit` and a manually started driver record no owner.

use super::JobKey;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Other people's jobs that an operation would end: their owners, and the jobs of unknown owner. Also used for what the
/// operator has allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Others {
    /// Owners as recorded in the jobs, unique and sorted.
    #[serde(rename = "others")]
    pub people: Vec<String>,
    /// Jobs of unknown owner, sorted. Each must be allowed by its id, so that a permission does not cover later jobs.
    pub unowned: Vec<JobKey>,
}

impl Others {
    /// The owners of these jobs other than `me`. An empty name counts as unknown.
    pub fn of<'a>(jobs: impl IntoIterator<Item = (&'a JobKey, Option<&'a str>)>, me: &str) -> Self {
        let mut others = Self::default();
        for (key, owner) in jobs {
            match owner.filter(|name| !name.is_empty()) {
                Some(name) if name == me => {}
                Some(name) => others.people.push(name.to_owned()),
                None => others.unowned.push(key.clone()),
            }
        }
        others.people.sort();
        others.people.dedup();
        others.unowned.sort();
        others.unowned.dedup();
        others
    }

    /// Whether only the operator's own jobs would end.
    pub fn is_empty(&self) -> bool {
        self.people.is_empty() && self.unowned.is_empty()
    }

    /// The owners and jobs that are not in `allowed`.
    #[must_use]
    pub fn beyond(&self, allowed: &Self) -> Self {
        Self {
            people: self.people.iter().filter(|p| !allowed.people.contains(p)).cloned().collect(),
            unowned: self.unowned.iter().filter(|j| !allowed.unowned.contains(j)).cloned().collect(),
        }
    }

    /// Adds the owners and jobs of `more`.
    pub fn extend(&mut self, more: Self) {
        self.people.extend(more.people);
        self.people.sort();
        self.people.dedup();
        self.unowned.extend(more.unowned);
        self.unowned.sort();
        self.unowned.dedup();
    }

    /// `jobs owned by bo, carol or an unknown owner`, safe to print: for places that list the jobs themselves.
    pub fn brief(&self) -> String {
        let mut owners: Vec<_> = self.people.iter().map(|p| super::text::printable(p)).collect();
        if owners.is_empty() {
            return "jobs of an unknown owner".to_owned();
        }
        if !self.unowned.is_empty() {
            owners.push("an unknown owner".into());
        }
        match owners.as_slice() {
            [first @ .., last] if !first.is_empty() => {
                format!("jobs owned by {} or {last}", first.join(", "))
            }
            owners => format!("jobs owned by {}", owners.join(", ")),
        }
    }
}

/// `jobs owned by bo, carol or an unknown owner (raysubmit_1, 04000000)`, safe to print.
impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Maximum number of ids that are listed; the rest is counted.
        const MAX_IDS: usize = 8;
        f.write_str(&self.brief())?;
        if self.unowned.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = self.unowned.iter().take(MAX_IDS).map(ToString::to_string).collect();
        write!(f, " ({}", ids.join(", "))?;
        match self.unowned.len() - ids.len() {
            0 => f.write_str(")"),
            more => write!(f, " and {more} more)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobId, SubmissionId};

    fn submitted(id: &str) -> JobKey {
        JobKey::Submission(SubmissionId(id.into()))
    }

    #[test]
    fn jobs_of_unknown_owner_are_listed_by_id() {
        let (a, b, c) = (submitted("a"), submitted("b\x1b"), JobKey::Driver(JobId("04000000".into())));
        let jobs = [
            (&a, Some("me")),
            (&b, None),
            (&c, None),
            (&a, Some("bo")),
            (&b, Some("al\x1bice")),
            (&a, Some("bo")),
        ];
        let others = Others::of(jobs, "me");
        assert_eq!(others.people, ["al\x1bice", "bo"]);
        assert_eq!(others.to_string(), "jobs owned by al·ice, bo or an unknown owner (b·, 04000000)");
        assert_eq!(others.brief(), "jobs owned by al·ice, bo or an unknown owner");
        assert_eq!(Others::of([(&a, Some("bo"))], "me").to_string(), "jobs owned by bo");
        assert_eq!(Others::of([(&a, Some("bo")), (&b, Some("cy"))], "me").brief(), "jobs owned by bo or cy");
        assert_eq!(Others::of([(&a, None)], "me").brief(), "jobs of an unknown owner");
        assert!(Others::of([(&a, Some("me"))], "me").is_empty());
        // If the operator's name is unknown, no job is the operator's own.
        assert_eq!(Others::of([(&a, Some("")), (&a, None)], "").unowned, std::slice::from_ref(&a));
        let many: Vec<JobKey> = (0..11).map(|i| submitted(&format!("j{i:02}"))).collect();
        let many = Others::of(many.iter().map(|k| (k, None)), "me").to_string();
        assert!(many.ends_with("j06, j07 and 3 more)"), "{many}");
    }

    #[test]
    fn jobs_of_unknown_owner_are_allowed_one_by_one() {
        let (old, new) = (submitted("old"), submitted("new"));
        // A driver with the same id is a different job.
        let driver = JobKey::Driver(JobId("old".into()));
        let allowed = Others::of([(&old, None), (&old, Some("bo"))], "me");
        let now = Others::of([(&old, None), (&new, None), (&driver, None), (&old, Some("bo"))], "me");
        assert_eq!(now.beyond(&allowed), Others { people: Vec::new(), unowned: vec![new, driver] });
        let written = serde_json::to_string(&now).unwrap();
        assert_eq!(serde_json::from_str::<Others>(&written).unwrap(), now);
    }
}
