//! Requests to Ray for the page of a job or a host, and the list of a host's log files.

use crate::app::action::target::Target;
use crate::app::input::entry::{Offer, OfferKind};
use crate::app::pages::details::{Details, Inspected};
use crate::app::text::labels;
use crate::app::{Cluster, Effect, Fleet};
use crate::model::{Inspection, LogName, LogSource, NodeId, Request, Subject, Text, Timestamp};
use std::sync::Arc;

impl Details {
    /// Requests what Ray reports about the job or the host of the page.
    pub(in crate::app) fn ask(&mut self, fleet: &Fleet) -> Vec<Effect> {
        self.inspect(fleet).into_iter().chain(self.ask_for_work(fleet)).collect()
    }

    /// The previous answer stays until the new one arrives.
    fn inspect(&mut self, fleet: &Fleet) -> Option<Effect> {
        let (cluster, subject) = self.subject(fleet)?;
        match &mut *self.inspected {
            Inspected::Answered(shown, ..) => shown.clone_from(&subject),
            other => *other = Inspected::Waiting(subject.clone()),
        }
        Some(Effect::Ask(cluster.name().clone(), Request::Inspect(subject)))
    }

    /// What Ray can be queried for about the page's target.
    fn subject<'f>(&self, fleet: &'f Fleet) -> Option<(&'f Cluster, Subject)> {
        match &self.target {
            Target::Job(cluster_index, key) => {
                let cluster = fleet.clusters.get(*cluster_index)?;
                let job = cluster.job(key)?;
                let alive = |id: &NodeId| cluster.node(id).is_some_and(|node| node.state.is_alive());
                let head = || cluster.snapshot.nodes.iter().find(|n| n.is_head && n.state.is_alive());
                let through = job.driver_node.filter(alive).or_else(|| head().map(|node| node.id));
                Some((cluster, Subject::Job { ids: job.ids(), through }))
            }
            Target::Node(cluster_index, id) => {
                let cluster = fleet.clusters.get(*cluster_index)?;
                cluster.node(id)?.state.is_alive().then_some((cluster, Subject::Host(*id)))
            }
            _ => None,
        }
    }

    /// Keeps Ray's answer, if the page has requested it. Returns whether it has.
    pub(in crate::app) fn take_answer(
        &mut self,
        cluster_index: usize,
        subject: &Subject,
        answer: &Arc<Result<Inspection, String>>,
        now: Timestamp,
    ) -> bool {
        let is_subject = match &*self.inspected {
            Inspected::Waiting(shown) | Inspected::Answered(shown, ..) => shown == subject,
            Inspected::No => false,
        };
        let is_requested = is_subject && self.target.cluster_index() == Some(cluster_index);
        if is_requested {
            *self.inspected = Inspected::Answered(subject.clone(), now, Arc::clone(answer));
        }
        is_requested
    }

    /// The log files of the page's host; empty if they are unknown.
    pub(in crate::app) fn files(&self) -> Vec<Offer> {
        let (Target::Node(_, node), Inspected::Answered(_, _, answer)) = (&self.target, &*self.inspected)
        else {
            return Vec::new();
        };
        let Ok(Inspection::Host(host)) = &**answer else { return Vec::new() };
        let offer = |category: &Text, name: &Text| {
            let note = LogName::parse(name.raw()).note().map(|note| format!(", {note}"));
            let kind = OfferKind::Log(LogSource::File { node: *node, name: name.clone() });
            let help = format!("{}{}", labels::log_category(category), note.unwrap_or_default());
            Offer { kind, ..Offer::new(name.to_string(), help) }
        };
        // Ray lists directories with a trailing `/`.
        let is_file = |name: &&Text| !name.raw().ends_with('/');
        let files = host.logs.iter().flatten();
        files
            .flat_map(|(category, names)| names.iter().filter(is_file).map(move |name| offer(category, name)))
            .collect()
    }
}
