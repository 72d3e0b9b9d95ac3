//! Preempted TPUs that hold quota because they are not deleted.

use super::{Finding, FindingKind, Severity};
use crate::model::{Leftover, LeftoverKind, Verb};

/// One finding for all of them; none when there are no such TPU VMs.
pub(super) fn finding(left: &[Leftover]) -> Option<Finding> {
    let vms: Vec<&Leftover> = left.iter().filter(|l| l.kind == LeftoverKind::TpuVm).collect();
    let chips: u32 = vms.iter().map(|l| l.chips).sum();
    let (number, s, eat) = match vms.len() {
        0 => return None,
        1 => (1, "", "holds"),
        n => (n, "s", "hold"),
    };
    let short = format!("{number} preempted TPU{s} {eat} quota, {chips} chips");
    let long = format!(
        "{short}: Google preempted the TPU VM{s}, and nobody has deleted {}",
        if number == 1 { "it" } else { "them" }
    );
    let hint = Verb::CleanPreempted.to(if number == 1 { "delete it" } else { "delete them" });
    Some(Finding::new(FindingKind::HoldsQuota, Severity::Warn, None, short, long, hint))
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
        }
    }

    #[test]
    fn tpu_vms_are_counted_and_requests_are_not() {
        let short = |left: &[Leftover]| finding(left).map(|f| f.short);
        let (vm, queued) = (left(LeftoverKind::TpuVm, 4), left(LeftoverKind::QueuedResource, 0));
        assert_eq!(short(std::slice::from_ref(&queued)), None);
        assert_eq!(short(&[vm.clone(), queued]).as_deref(), Some("1 preempted TPU holds quota, 4 chips"));
        assert_eq!(short(&[vm.clone(), vm]).as_deref(), Some("2 preempted TPUs hold quota, 8 chips"));
    }
}
