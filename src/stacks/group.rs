//! Groups processes with equal stacks.

use super::{Dump, StackLocation, location};
use crate::model::sort;
use std::collections::BTreeMap;

/// Processes with the same stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Where their programs are.
    pub location: StackLocation,
    /// The caller's numbers of these processes, ascending.
    pub members: Vec<usize>,
}

/// Groups processes whose stacks are equal line by line; the largest group first.
pub fn groups<'a>(dumps: impl IntoIterator<Item = (usize, &'a Dump)>) -> Vec<Group> {
    let mut locations: BTreeMap<StackLocation, Vec<usize>> = BTreeMap::new();
    for (number, dump) in dumps {
        locations.entry(location(dump)).or_default().push(number);
    }
    let mut groups: Vec<Group> =
        locations.into_iter().map(|(location, members)| Group { location, members }).collect();
    for group in &mut groups {
        group.members.sort_unstable();
    }
    sort::by_key(&mut groups, |group| {
        (std::cmp::Reverse(group.members.len()), group.members.first().copied())
    });
    groups
}

/// Whether a process has moved between two samples. A process that has not moved is stuck or waits; one that has moved
/// is working, however slowly.
pub fn moved(before: &Dump, after: &Dump) -> bool {
    location(before) != location(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(line: u32) -> Dump {
        let text = format!(
            "Process 1: ray::W.train\n\nThread 1 (idle): \"MainThread\"\n    step (train.py:{line})\n    main_loop (ray/_private/worker.py:1031)\n"
        );
        Dump::read(&text).unwrap()
    }

    #[test]
    fn a_process_with_another_stack_is_a_group_of_its_own() {
        let dumps: Vec<Dump> = (0..24).map(|n| dump(if n == 17 { 13 } else { 11 })).collect();
        let groups = groups(dumps.iter().enumerate());
        let found: Vec<_> = groups.iter().map(|g| (g.members.len(), g.location.text())).collect();
        assert_eq!(found, [(23, "step (train.py:11)".to_owned()), (1, "step (train.py:13)".to_owned())]);
        assert_eq!(groups[1].members, [17]);
    }

    #[test]
    fn two_samples_distinguish_slow_from_stuck() {
        assert!(moved(&dump(11), &dump(12)) && !moved(&dump(11), &dump(11)));
    }
}
