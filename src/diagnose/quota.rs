//! Preempted and terminated TPUs that hold quota because they are not deleted.

use super::{Finding, FindingKind, Severity};
use crate::model::amount::counted;
use crate::model::{Leftover, LeftoverKind, Verb};

/// One finding for all of them; `None` if there are no such TPUs. A stopped Compute Engine instance is useless as well,
/// whether or not it counts against a quota.
pub(super) fn finding(left: &[Leftover]) -> Option<Finding> {
    let of_compute = |l: &&Leftover| matches!(l.kind, LeftoverKind::Instance | LeftoverKind::InstanceGroup);
    let vms = left.iter().filter(|l| l.kind == LeftoverKind::TpuVm);
    let (terminated, preempted): (Vec<&Leftover>, Vec<&Leftover>) = vms.partition(|l| l.is_terminated);
    let stopped: Vec<&Leftover> = left.iter().filter(of_compute).collect();
    let parts = [
        part(&preempted, "preempted", ["holds quota", "hold quota"]),
        part(&terminated, "terminated", ["holds quota", "hold quota"]),
        part(&stopped, "preempted", ["not deleted", "not deleted"]),
    ];
    let short = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let (s, them) = match preempted.len() + terminated.len() + stopped.len() {
        0 => return None,
        1 => ("", "it"),
        _ => ("s", "them"),
    };
    let ended = match (terminated.len(), preempted.len() + stopped.len()) {
        (0, _) => "preempted",
        (_, 0) => "terminated",
        (_, _) => "preempted or terminated",
    };
    let long = format!("{short}: Google {ended} the TPU VM{s}, and nobody has deleted {them}");
    let hint = Verb::CleanPreempted.to(format!("delete {them}"));
    Some(Finding::new(FindingKind::HoldsQuota, Severity::Warn, None, short, long, hint))
}

fn part(all: &[&Leftover], ended: &str, [one, many]: [&str; 2]) -> Option<String> {
    let chips: u32 = all.iter().map(|l| l.chips).sum();
    match all.len() {
        0 => None,
        1 => Some(format!("1 {ended} TPU {one}, {}", counted(chips as usize, "chip"))),
        n => Some(format!("{n} {ended} TPUs {many}, {chips} chips")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(kind: LeftoverKind, chips: u32) -> Leftover {
        Leftover {
            kind,
            name: "x".into(),
            accelerator_type: "v4-8".into(),
            chips,
            holds: Vec::new(),
            created: None,
            is_terminated: false,
        }
    }

    #[test]
    fn tpus_are_counted_and_requests_are_not() {
        let short = |left: &[Leftover]| finding(left).map(|f| f.short);
        let (vm, queued) = (left(LeftoverKind::TpuVm, 4), left(LeftoverKind::QueuedResource, 0));
        assert_eq!(short(std::slice::from_ref(&queued)), None);
        assert_eq!(short(&[vm.clone(), queued]).as_deref(), Some("1 preempted TPU holds quota, 4 chips"));
        assert_eq!(short(&[vm.clone(), vm]).as_deref(), Some("2 preempted TPUs hold quota, 8 chips"));
        let group = left(LeftoverKind::InstanceGroup, 16);
        let only = short(std::slice::from_ref(&group));
        assert_eq!(only.as_deref(), Some("1 preempted TPU not deleted, 16 chips"));
        let both = short(&[left(LeftoverKind::TpuVm, 4), group, left(LeftoverKind::Instance, 4)]);
        let expected = "1 preempted TPU holds quota, 4 chips; 2 preempted TPUs not deleted, 20 chips";
        assert_eq!(both.as_deref(), Some(expected));
    }

    #[test]
    fn what_google_terminated_was_not_preempted() {
        let preempted = left(LeftoverKind::TpuVm, 4);
        let terminated = Leftover { is_terminated: true, ..preempted.clone() };
        let long = |left: &[Leftover]| finding(left).unwrap().long;
        let one = long(std::slice::from_ref(&terminated));
        let expected =
            "1 terminated TPU holds quota, 4 chips: Google terminated the TPU VM, and nobody has deleted it";
        assert_eq!(one, expected);
        let both = long(&[terminated, preempted]);
        assert!(
            both.contains(
                "1 terminated TPU holds quota, 4 chips: Google preempted or terminated the TPU VMs"
            )
        );
    }
}
