//! What has changed on the clusters, newest first. The same change on several clusters is one entry.

use crate::model::{ClusterName, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of changes kept.
const MAX_CHANGES: usize = 50;
/// The same change on several clusters within this time is one entry: a poll interval of the fleet.
const MERGE_WINDOW: Duration = Duration::from_secs(60);

/// A change of one or more clusters, e.g. a job that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When it was first seen.
    pub at: Timestamp,
    /// What has changed, safe to print.
    pub what: String,
    /// The clusters that it was seen on, in the order in which it was seen.
    pub clusters: Vec<ClusterName>,
}

/// The latest changes.
#[derive(Clone, Debug, Default)]
pub struct RecentChanges {
    changes: VecDeque<Change>,
}

impl RecentChanges {
    /// Adds the changes of one state of a cluster, most important first.
    pub fn add(&mut self, cluster: &ClusterName, changes: Vec<String>, now: Timestamp) {
        for what in changes.into_iter().rev() {
            let mut recent = self.changes.iter_mut().take_while(|change| change.at.age(now) < MERGE_WINDOW);
            match recent.find(|change| change.what == what && !change.clusters.contains(cluster)) {
                Some(same) => same.clusters.push(cluster.clone()),
                None => self.changes.push_front(Change { at: now, what, clusters: vec![cluster.clone()] }),
            }
        }
        self.changes.truncate(MAX_CHANGES);
    }

    /// The changes, newest first.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = &Change> {
        self.changes.iter()
    }
}

#[cfg(test)]
mod tests {
    use crate::app::fleet::changes::*;

    #[test]
    fn the_same_change_on_several_clusters_within_a_minute_is_one_entry() {
        let mut recent_changes = RecentChanges::default();
        let at = |secs: i64| Timestamp::from_millis(secs * 1000);
        let mut add = |name: &str, what: &[&str], secs| {
            recent_changes.add(
                &ClusterName::new(name),
                what.iter().map(|w| (*w).to_owned()).collect(),
                at(secs),
            );
        };
        add("a", &["down", "job x failed"], 0);
        add("b", &["down"], 5);
        add("a", &["down"], 6);
        add("c", &["down"], 66);
        let recorded: Vec<(&str, usize)> =
            recent_changes.changes().map(|c| (c.what.as_str(), c.clusters.len())).collect();
        assert_eq!(recorded, [("down", 1), ("down", 1), ("down", 2), ("job x failed", 1)]);
    }
}
