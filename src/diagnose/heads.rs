//! Several running heads of one cluster.

use super::{Finding, FindingKind, Severity};
use crate::model::Problem;

/// The finding for a reachable cluster with several running heads at Google: the others cost money, and anyone who
/// connects without an address in the settings is asked which one is right.
pub(super) fn finding(several: &Problem) -> Finding {
    let (kind, since) = (FindingKind::MultipleHeads, Some(several.since));
    Finding::new(kind, Severity::Warn, since, &several.what, &several.what, several.hint.clone())
}
