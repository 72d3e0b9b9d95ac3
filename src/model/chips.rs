//! The chips of hosts: how busy each is, how full its memory, and which ones stand out.

use super::text::printable;
use super::{NodeId, Text, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// A chip is another than those beside it when its duty cycle is so far from theirs, in percent.
const APART: f64 = 20.0;
/// Chips of one slice or node type from which on one can be another than the rest.
const SEVERAL: usize = 4;

/// A TPU chip, or a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipUse {
    /// Its number on its host.
    pub number: u32,
    /// What it is, as its driver names it: `NVIDIA H100 80GB HBM3`; empty where it is not reported.
    pub name: Text,
    /// Duty cycle: the share of the time in which it computed, 0 to 100 percent.
    pub duty_percent: Option<f64>,
    /// Memory in use and in all, bytes.
    pub memory: Option<(u64, u64)>,
}

/// Who reports the chips of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChipSource {
    /// Ray's agent on the host.
    Ray,
    /// The libtpu of the program that holds them, asked over ssh.
    Libtpu,
}

impl ChipSource {
    /// The word for people and scripts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ray => "ray",
            Self::Libtpu => "libtpu",
        }
    }
}

/// What is read of the chips of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipsRead {
    /// Who said it.
    pub source: ChipSource,
    /// One entry per chip, by its number on the host.
    pub chips: Vec<ChipUse>,
    /// The program that its cores run, counted: the lowest `run_id` of its tensor cores. None where it is not reported.
    pub run: Option<i64>,
    /// What a core has stopped for, in libtpu's words.
    pub error: Option<Text>,
}

/// The chips of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostChips {
    /// Ray's id of the host's node.
    pub node: NodeId,
    /// The node's address.
    pub address: Text,
    /// Its number in its slice (label `ray.io/tpu-worker-id`); none elsewhere.
    pub worker: Option<u32>,
    /// Its slice, else its node type: hosts of one group do the same.
    pub group: Text,
    /// Chips that Ray counts there.
    pub expected: u32,
    /// Those of them that Ray has given to tasks and actors; none where it does not say.
    pub used: Option<u32>,
    /// What is read of them, or why they cannot be read.
    pub read: Result<ChipsRead, String>,
    /// Whether its program is behind that of nearly all other hosts of its group, and stays there.
    pub is_behind: bool,
}

/// The chips of several hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chips {
    /// When the last of them was read.
    pub at: Timestamp,
    /// By group, number in the slice, and address.
    pub hosts: Vec<HostChips>,
}

impl HostChips {
    /// Its chips; none where they could not be read.
    pub fn chips(&self) -> &[ChipUse] {
        self.read.as_ref().map_or(&[], |read| &read.chips)
    }

    /// Memory in use and in all of its chips together; none where one of them does not report it.
    pub fn memory(&self) -> Option<(u64, u64)> {
        let mut chips = self.chips().iter().map(|chip| chip.memory);
        let sum = chips.try_fold((0u64, 0u64), |(used, all), memory| {
            let (u, a) = memory?;
            Some((used.saturating_add(u), all.saturating_add(a)))
        });
        sum.filter(|(_, all)| *all > 0)
    }

    /// What is to be known of it beside its figures, safe for a terminal: that it is behind, why it stopped, why it could
    /// not be read.
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

    /// The program that it runs, counted.
    pub fn run(&self) -> Option<i64> {
        self.read.as_ref().ok()?.run
    }
}

impl Chips {
    /// The chips whose duty cycle is far from that of most of their group: the place of the host, and the chip's number.
    pub fn outliers(&self) -> BTreeSet<(usize, u32)> {
        let mut groups: BTreeMap<&str, Vec<(usize, u32, f64)>> = BTreeMap::new();
        for (place, host) in self.hosts.iter().enumerate() {
            let busy = host.chips().iter().filter_map(|chip| Some((place, chip.number, chip.duty_percent?)));
            groups.entry(host.group.raw()).or_default().extend(busy);
        }
        let mut found = BTreeSet::new();
        for mut chips in groups.into_values().filter(|chips| chips.len() >= SEVERAL) {
            chips.sort_by(|a, b| a.2.total_cmp(&b.2));
            let usual = chips[chips.len() / 2].2;
            let apart: Vec<_> = chips.iter().filter(|(.., duty)| (duty - usual).abs() >= APART).collect();
            // Where many differ nothing is usual.
            if apart.len() * 4 <= chips.len() {
                found.extend(apart.into_iter().map(|(place, number, _)| (*place, *number)));
            }
        }
        found
    }

    /// The hosts whose program is behind the one of most hosts of their group: places, and how far those are. They may only
    /// have been read earlier; who is behind still when it is read again hangs. While most of a group are at different
    /// programs the group moves, and none of it is here.
    pub fn behind(&self) -> Vec<(usize, i64)> {
        let mut groups: BTreeMap<&str, Vec<(usize, i64)>> = BTreeMap::new();
        for (place, host) in self.hosts.iter().enumerate() {
            groups.entry(host.group.raw()).or_default().extend(host.run().map(|run| (place, run)));
        }
        let mut found = Vec::new();
        for hosts in groups.into_values() {
            let Some(furthest) = hosts.iter().map(|(_, run)| *run).max() else { continue };
            let behind = || hosts.iter().filter(|(_, run)| *run < furthest);
            if behind().count() * 2 < hosts.len() {
                found.extend(behind().map(|(place, _)| (*place, furthest)));
            }
        }
        found
    }

    /// Groups in order, each with the places of its hosts.
    pub fn groups(&self) -> Vec<(&Text, Vec<usize>)> {
        let mut groups: Vec<(&Text, Vec<usize>)> = Vec::new();
        for (place, host) in self.hosts.iter().enumerate() {
            match groups.iter_mut().find(|(group, _)| **group == host.group) {
                Some((_, places)) => places.push(place),
                None => groups.push((&host.group, vec![place])),
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
    fn one_chip_that_idles_among_busy_ones_stands_out() {
        let busy = [97.0, 95.0, 96.0, 97.5];
        let mut hosts: Vec<HostChips> = (0..4).map(|n| host(n, &busy, None)).collect();
        assert!(of(hosts.clone()).outliers().is_empty());
        hosts[2] = host(2, &[97.0, 31.0, f64::NAN, 96.0], None);
        assert_eq!(of(hosts.clone()).outliers(), BTreeSet::from([(2, 1)]));
        hosts[2].group = "slice-b".into();
        assert!(of(hosts).outliers().is_empty(), "with three figures none is usual");
    }

    #[test]
    fn where_chips_differ_none_is_an_outlier() {
        let hosts = (0..4).map(|n| host(n, &[5.0, 90.0, 45.0, 70.0], None)).collect();
        assert!(of(hosts).outliers().is_empty());
        assert!(of(Vec::new()).outliers().is_empty());
    }

    #[test]
    fn a_host_is_behind_where_most_stand_at_one_program() {
        let at = |runs: &[Option<i64>]| {
            let hosts = (0..).zip(runs).map(|(n, run)| host(n, &[], *run)).collect();
            of(hosts).behind()
        };
        assert_eq!(at(&[Some(9), Some(9), Some(8), Some(9)]), [(2, 9)]);
        assert_eq!(at(&[Some(9), Some(9), None, Some(7)]), [(3, 9)]);
        assert!(at(&[Some(6), Some(7), Some(8), Some(9)]).is_empty(), "they move while they are read");
        assert!(at(&[Some(9), Some(8)]).is_empty(), "of two nobody knows which");
        assert!(at(&[Some(9), Some(9)]).is_empty() && at(&[None, None]).is_empty());
    }

    #[test]
    fn hosts_that_could_not_be_read_are_in_their_group_all_the_same() {
        let silent = HostChips { read: Err("no way".into()), ..host(1, &[], None) };
        let chips = of(vec![host(0, &[1.0], None), silent]);
        assert_eq!(chips.groups(), [(&Text::from("slice-a"), vec![0, 1])]);
        assert!(chips.hosts[1].chips().is_empty());
    }
}
