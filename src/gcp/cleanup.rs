//! The clean-up policies that this program sets on a repository, merged with those that others have set.

use crate::model::sort;
use serde_json::{Map, Value, json};

/// How long the images of a repository are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleanup {
    /// Builds older than this are deleted, in days.
    pub older_than_days: u32,
    /// Number of newest builds of each image that are kept, however old they are: a policy that keeps a build overrides
    /// policies that delete it.
    pub keep: u32,
}

impl Cleanup {
    /// Maximum number of policies of a repository (Artifact Registry, "Configure cleanup policies").
    pub const MAX_POLICIES: usize = 10;

    /// Adds these policies to those of others. Our own policies with other numbers are replaced.
    pub fn merged_into(self, old: &Map<String, Value>) -> Map<String, Value> {
        let others = old.iter().filter(|(id, policy)| own(id).as_ref() != Some(*policy));
        let mut all: Map<String, Value> =
            sort::collected(others.map(|(id, policy)| (id.clone(), policy.clone())));
        for policy in [deletion(self.older_than_days), keeping(self.keep)] {
            all.insert(policy["id"].as_str().unwrap_or_default().to_owned(), policy);
        }
        all
    }
}

/// Our policy of this id; none for an id that is not one of ours. Another person's policy may also have such an id: a
/// policy is ours only if it is identical.
fn own(id: &str) -> Option<Value> {
    if let Some(days) = id.strip_prefix("delete-older-than-").and_then(|rest| rest.strip_suffix('d')) {
        return days.parse().ok().map(deletion);
    }
    id.strip_prefix("keep-")?.parse().ok().map(keeping)
}

/// The ids are the ones that Marin's own script used.
fn deletion(days: u32) -> Value {
    let seconds = u64::from(days) * 24 * 3600;
    json!({"id": format!("delete-older-than-{days}d"), "action": "DELETE",
        "condition": {"tagState": "ANY", "olderThan": format!("{seconds}s")}})
}

fn keeping(count: u32) -> Value {
    json!({"id": format!("keep-{count}"), "action": "KEEP", "mostRecentVersions": {"keepCount": count}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids(policies: &Map<String, Value>) -> Vec<&str> {
        policies.keys().map(String::as_str).collect()
    }

    #[test]
    fn ours_replace_ours_and_nothing_else() {
        let first = Cleanup { older_than_days: 30, keep: 16 }.merged_into(&Map::new());
        assert_eq!(ids(&first), ["delete-older-than-30d", "keep-16"]);
        assert_eq!(first["delete-older-than-30d"]["condition"]["olderThan"], "2592000s");
        let mut theirs = first.clone();
        theirs.insert(
            "untagged".into(),
            json!({"id": "untagged", "action": "DELETE", "condition": {"tagState": "UNTAGGED"}}),
        );
        // An id like ours, but with a field that our policies do not have.
        let mut narrow = keeping(3);
        narrow["mostRecentVersions"]["packageNamePrefixes"] = json!(["vllm"]);
        theirs.insert("keep-3".into(), narrow.clone());
        let second = Cleanup { older_than_days: 60, keep: 8 }.merged_into(&theirs);
        assert_eq!(ids(&second), ["delete-older-than-60d", "keep-3", "keep-8", "untagged"]);
        assert_eq!(second["keep-3"], narrow);
    }

    proptest! {
        #[test]
        fn merging_again_changes_nothing(days in 1u32..36_500, keep in 1u32.., others in prop::collection::vec("[a-z]{1,6}", 0..4)) {
            let mut old: Map<String, Value> = others.iter().map(|id| (id.clone(), json!({"id": id, "action": "KEEP"}))).collect();
            old.insert("keep-5".into(), keeping(5));
            let cleanup = Cleanup { older_than_days: days, keep };
            let once = cleanup.merged_into(&old);
            prop_assert_eq!(&cleanup.merged_into(&once), &once);
            for id in &others {
                prop_assert_eq!(&once[id], &old[id]);
            }
            prop_assert!(keep == 5 || !once.contains_key("keep-5"));
        }
    }
}
