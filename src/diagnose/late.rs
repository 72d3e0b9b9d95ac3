//! TPUs that have been creating or in repair at Google for too long.

use super::{Finding, FindingKind, Severity, Subject};
use crate::model::sort;
use crate::model::{DelayedTpu, Hint, Verb};
use std::collections::BTreeSet;

/// One finding for all of them, as old as the oldest; `None` if there are none.
pub(super) fn finding(late: &[DelayedTpu]) -> Option<Finding> {
    let since = late.iter().map(|l| l.since).min()?;
    let states: BTreeSet<String> = sort::collected(late.iter().map(|l| l.api_state.to_string()));
    let states = states.into_iter().collect::<Vec<_>>().join(" or ");
    let (short, name, about) = match late {
        [only] => (format!("{} is {states}", only.name), only.name.raw(), Subject::Tpu(only.name.clone())),
        several => (format!("{} TPUs are {states}", several.len()), "", Subject::Cluster),
    };
    let names: Vec<String> = late.iter().map(|l| l.name.to_string()).collect();
    let long = format!("{short}, longer than Google usually takes: {}", names.join(", "));
    let hint = Hint::from("see status.cloud.google.com for known outages")
        .and(Verb::RemoveWorker.on(name, "or delete it, so that it is requested again"));
    let found = Finding::new(FindingKind::TpuDelayed, Severity::Warn, Some(since), short, long, hint);
    Some(found.about(about).of_all(late.iter().map(|tpu| &tpu.name)))
}
