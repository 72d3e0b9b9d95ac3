//! Requests to Ray for the page of a job or a host, and the list of a host's log files.

use crate::app::action::target::Target;
use crate::app::input::entry::{Offer, OfferKind};
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::pages::details::Inspected;
use crate::app::view::View;
use crate::app::{App, Effect};
use crate::model::{Inspection, LogSource, NodeId, Request, Subject, Text, Timestamp};
use std::sync::Arc;

impl App {
    /// What Ray can be queried for about the thing whose page is on the screen.
    fn subject(&self) -> Option<(usize, Subject)> {
        let View::Details(details) = self.view() else { return None };
        match &details.target {
            Target::Job(place, key) => {
                let cluster = self.fleet.clusters.get(*place)?;
                let job = cluster.job(key)?;
                let alive = |id: &NodeId| cluster.node(id).is_some_and(|node| node.state.is_alive());
                let head = || cluster.snapshot.nodes.iter().find(|n| n.is_head && n.state.is_alive());
                let through = job.driver_node.filter(alive).or_else(|| head().map(|node| node.id));
                Some((*place, Subject::Job { ids: job.ids(), through }))
            }
            Target::Node(place, id) => {
                let node = self.fleet.clusters.get(*place)?.node(id)?;
                node.state.is_alive().then_some((*place, Subject::Host(*id)))
            }
            _ => None,
        }
    }

    /// Queries Ray about the thing whose page is on the screen. The previous answer stays until the new one arrives.
    pub(in crate::app) fn inspect(&mut self) -> Vec<Effect> {
        let Some((place, subject)) = self.subject() else { return Vec::new() };
        if let Some(View::Details(details)) = self.stack.page_mut() {
            match &mut *details.inspected {
                Inspected::Answered(asked, ..) => asked.clone_from(&subject),
                other => *other = Inspected::Waiting(subject.clone()),
            }
        }
        vec![Effect::Ask(self.fleet.clusters[place].name().clone(), Request::Inspect(subject))]
    }

    /// Stores Ray's answer for the page that requested it.
    pub(in crate::app) fn inspected(
        &mut self,
        place: usize,
        subject: &Subject,
        answer: Result<Box<Inspection>, String>,
        now: Timestamp,
    ) {
        let answer = Arc::new(answer.map(|inspection| *inspection));
        for view in self.stack.pages_mut() {
            let View::Details(details) = view else { continue };
            let asked = match &*details.inspected {
                Inspected::Waiting(asked) | Inspected::Answered(asked, ..) => asked == subject,
                Inspected::No => false,
            };
            if asked && details.target.place() == Some(place) {
                *details.inspected = Inspected::Answered(subject.clone(), now, Arc::clone(&answer));
                self.dirty = true;
            }
        }
    }

    /// Lists the log files of the host whose page is on the screen; `None` if they are unknown.
    pub(in crate::app) fn choose_file(&mut self) -> Option<Vec<Effect>> {
        let View::Details(details) = self.view() else { return None };
        let (Target::Node(_, node), Inspected::Answered(_, _, answer)) =
            (&details.target, &*details.inspected)
        else {
            return None;
        };
        let Ok(Inspection::Host(host)) = &**answer else { return None };
        let files = host.logs.as_ref().ok()?;
        let offer = |category: &Text, name: &Text| Offer {
            kind: OfferKind::Log(LogSource::File { node: *node, name: name.clone() }),
            ..Offer::new(name.to_string(), category.to_string())
        };
        // Ray lists directories with a trailing `/`.
        let is_file = |name: &&Text| !name.raw().ends_with('/');
        let offers: Vec<Offer> = files
            .iter()
            .flat_map(|(category, names)| names.iter().filter(is_file).map(move |name| offer(category, name)))
            .collect();
        if offers.is_empty() {
            return None;
        }
        self.prompt = Some(Prompt::of(PromptKind::Files, offers));
        Some(Vec::new())
    }
}
