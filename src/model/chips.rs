//! The chips of hosts: duty cycle, memory use, and outliers.

use super::text::printable;
use super::{NodeId, Text, Timestamp};
use crate::model::sort;
use std::collections::BTreeMap;

/// Minimum difference of an outlier's duty cycle from the median of its group, in percentage points.
const MIN_DIFFERENCE: f64 = 20.0;
/// Minimum number of chips in a slice or node type to detect outliers.
const MIN_CHIPS: usize = 4;

/// A TPU chip, or a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipUse {
    /// Its number on its host.
    pub number: u32,
    /// Model name as its driver reports it: `NVIDIA H100 80GB HBM3`; empty if not reported.
    pub name: Text,
    /// Duty cycle: the share of time in which it was computing, 0 to 100 percent.
    pub duty_percent: Option<f64>,
    /// Memory used and total, bytes.
    pub memory: Option<(u64, u64)>,
}

/// Source of the data about the chips of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChipSource {
    /// Ray's agent on the host.
    Ray,
    /// The libtpu of the program that holds them, queried over SSH.
    Libtpu,
}

impl ChipSource {
    /// Name of the source, for people and scripts.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ray => "ray",
            Self::Libtpu => "libtpu",
        }
    }
}

/// Data read about the chips of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipsRead {
    /// Source of the data.
    pub source: ChipSource,
    /// One entry per chip, by its number on the host.
    pub chips: Vec<ChipUse>,
    /// Program launch counter: the lowest `run_id` of its tensor cores. None if not reported.
    pub run: Option<i64>,
    /// Why a core has stopped, in libtpu's words.
    pub error: Option<Text>,
}

/// The chips of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostChips {
    /// Ray's id of the host's node.
    pub node: NodeId,
    /// The node's address.
    pub address: Text,
    /// Its number in its slice (label `ray.io/tpu-worker-id`); none without a slice.
    pub worker: Option<u32>,
    /// Its slice, else its node type; hosts of one group are expected to do the same work.
    pub group: Text,
    /// Number of chips on the host according to Ray.
    pub expected: u32,
    /// Number of these chips that Ray has assigned to tasks and actors; none if not reported.
    pub used: Option<u32>,
    /// The data, or why it cannot be read.
    pub read: Result<ChipsRead, String>,
    /// Whether its program launch counter is behind those of most other hosts of its group, and stays behind.
    pub is_behind: bool,
}

/// The chips of several hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chips {
    /// When the last host was read.
    pub at: Timestamp,
    /// The hosts, sorted by group, number in the slice, and address.
    pub hosts: Vec<HostChips>,
}

impl HostChips {
    /// Its chips; empty if they could not be read.
    pub fn chips(&self) -> &[ChipUse] {
        self.read.as_ref().map_or(&[], |read| &read.chips)
    }

    /// Sum of used and total memory of its chips; none if a chip does not report it.
    pub fn memory(&self) -> Option<(u64, u64)> {
        let mut chips = self.chips().iter().map(|chip| chip.memory);
        let sum = chips.try_fold((0u64, 0u64), |(used, all), memory| {
            let (u, a) = memory?;
            Some((used.saturating_add(u), all.saturating_add(a)))
        });
        sum.filter(|(_, all)| *all > 0)
    }

    /// Notes about the host, safe for a terminal: whether it is behind, why it stopped, whether chips are missing, or
    /// why it could not be read.
    pub fn note(&self) -> String {
        match &self.read {
            Err(why) => printable(why).into_owned(),
            Ok(read) => {
                let behind = read.run.filter(|_| self.is_behind);
                let behind = behind.map(|run| format!("behind the other hosts, at program launch {run}"));
                let error = read.error.as_ref().map(|error| format!("stopped: {error}"));
                let fewer = (read.chips.len() < self.expected as usize && read.source == ChipSource::Ray)
                    .then(|| format!("only {} of {} chips visible", read.chips.len(), self.expected));
                [behind, error, fewer].into_iter().flatten().collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// Its program launch counter ([`ChipsRead::run`]).
    pub fn run(&self) -> Option<i64> {
        self.read.as_ref().ok()?.run
    }
}

impl Chips {
    /// The chips whose duty cycle is far from the median of their group: the index of the host and the chip's number.
    pub fn outliers(&self) -> Vec<(usize, u32)> {
        let mut groups: BTreeMap<&str, Vec<(usize, u32, f64)>> = BTreeMap::new();
        for (index, host) in self.hosts.iter().enumerate() {
            let busy = host.chips().iter().filter_map(|chip| Some((index, chip.number, chip.duty_percent?)));
            groups.entry(host.group.raw()).or_default().extend(busy);
        }
        let mut found = Vec::new();
        for mut chips in groups.into_values().filter(|chips| chips.len() >= MIN_CHIPS) {
            sort::by(&mut chips, |a, b| a.2.total_cmp(&b.2));
            let median = chips[chips.len() / 2].2;
            let apart: Vec<_> =
                chips.iter().filter(|(.., duty)| (duty - median).abs() >= MIN_DIFFERENCE).collect();
            // If many chips differ, the median does not represent the group.
            if apart.len() * 4 <= chips.len() {
                found.extend(apart.into_iter().map(|(index, number, _)| (*index, *number)));
            }
        }
        found
    }

    /// Hosts whose program launch counter is behind that of most hosts of their group: the index of the host, and
    /// the group's highest counter. A host may be behind only because it was read earlier; if it is still behind when
    /// it is read again, it hangs. A group with half or more of its hosts behind makes progress and is not included.
    pub fn behind(&self) -> Vec<(usize, i64)> {
        let mut groups: BTreeMap<&str, Vec<(usize, i64)>> = BTreeMap::new();
        for (index, host) in self.hosts.iter().enumerate() {
            groups.entry(host.group.raw()).or_default().extend(host.run().map(|run| (index, run)));
        }
        let mut found = Vec::new();
        for hosts in groups.into_values() {
            let Some(furthest) = hosts.iter().map(|(_, run)| *run).max() else { continue };
            let behind = || hosts.iter().filter(|(_, run)| *run < furthest);
            if behind().count() * 2 < hosts.len() {
                found.extend(behind().map(|(index, _)| (*index, furthest)));
            }
        }
        found
    }

    /// Groups in order, each with the indices of its hosts.
    pub fn groups(&self) -> Vec<(&Text, Vec<usize>)> {
        let mut groups: Vec<(&Text, Vec<usize>)> = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            match groups.iter_mut().find(|(group, _)| **group == host.group) {
                Some((_, indices)) => indices.push(index),
                None => groups.push((&host.group, vec![index])),
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: u8, duties: &[f64], run: Option<i64>) -> HostChips {
        let chip = |(number, duty): (u32, &f64)| ChipUse {
            number,
            name: Text::default(),
            duty_percent: duty.is_finite().then_some(*duty),
            memory: None,
        };
        let chips = (0..).zip(duties).map(chip).collect();
        HostChips {
            node: NodeId::from_bytes(&[n; 28]).unwrap(),
            address: format!("10.0.0.{n}").as_str().into(),
            worker: Some(n.into()),
            group: "slice-a".into(),
            expected: 4,
            used: Some(4),
            read: Ok(ChipsRead { source: ChipSource::Libtpu, chips, run, error: None }),
            is_behind: false,
        }
    }

    fn of(hosts: Vec<HostChips>) -> Chips {
        Chips { at: Timestamp::default(), hosts }
    }

    #[test]
    fn an_idle_chip_among_busy_ones_is_an_outlier() {
        let busy = [97.0, 95.0, 96.0, 97.5];
        let mut hosts: Vec<HostChips> = (0..4).map(|n| host(n, &busy, None)).collect();
        assert!(of(hosts.clone()).outliers().is_empty());
        hosts[2] = host(2, &[97.0, 31.0, f64::NAN, 96.0], None);
        assert_eq!(of(hosts.clone()).outliers(), [(2, 1)]);
        hosts[2].group = "slice-b".into();
        assert!(of(hosts).outliers().is_empty(), "three values are too few to detect an outlier");
    }

    #[test]
    fn chips_that_all_differ_are_not_outliers() {
        let hosts = (0..4).map(|n| host(n, &[5.0, 90.0, 45.0, 70.0], None)).collect();
        assert!(of(hosts).outliers().is_empty());
        assert!(of(Vec::new()).outliers().is_empty());
    }

    #[test]
    fn a_host_is_behind_if_most_others_are_at_the_same_program() {
        let at = |runs: &[Option<i64>]| {
            let hosts = (0..).zip(runs).map(|(n, run)| host(n, &[], *run)).collect();
            of(hosts).behind()
        };
        assert_eq!(at(&[Some(9), Some(9), Some(8), Some(9)]), [(2, 9)]);
        assert_eq!(at(&[Some(9), Some(9), None, Some(7)]), [(3, 9)]);
        assert!(at(&[Some(6), Some(7), Some(8), Some(9)]).is_empty(), "the group is making progress");
        assert!(at(&[Some(9), Some(8)]).is_empty(), "of two hosts, neither is in the majority");
        assert!(at(&[Some(9), Some(9)]).is_empty() && at(&[None, None]).is_empty());
    }

    #[test]
    fn hosts_that_could_not_be_read_are_still_in_their_group() {
        let unread = HostChips { read: Err("no route".into()), ..host(1, &[], None) };
        let chips = of(vec![host(0, &[1.0], None), unread]);
        assert_eq!(chips.groups(), [(&Text::from("slice-a"), vec![0, 1])]);
        assert!(chips.hosts[1].chips().is_empty());
    }
}
