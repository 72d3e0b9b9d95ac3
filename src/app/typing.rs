//! Typed text: live filters and searches, and the commands of the palette.

use super::actions::{ACTIONS, Action, Context};
use super::line::Line;
use super::prompt::{Prompt, PromptKind, Typed, complete};
use super::{App, Cluster, Effect, Pane, Tone, View};
use crate::model::Timestamp;
use crossterm::event::KeyEvent;

impl App {
    pub(super) fn begin_filter(&mut self) -> Vec<Effect> {
        let (kind, before) = match (self.current(), self.pane) {
            (None, _) => (PromptKind::Filter, self.fleet_filter()),
            (Some(c), Pane::Nodes) => (PromptKind::Filter, c.nodes.filter().text()),
            (Some(c), Pane::Jobs) => (PromptKind::Filter, c.jobs.filter().text()),
            (Some(c), Pane::Log) => (PromptKind::Search, c.log.search()),
            (Some(_), Pane::Autoscaler) => return Vec::new(),
        };
        let mut prompt = Prompt::new(kind, before);
        if kind == PromptKind::Search {
            // Another search is typed, as in `less`; a filter is made narrower.
            prompt.line = Line::default();
        }
        self.prompt = Some(prompt);
        Vec::new()
    }

    pub(super) fn clear_filter(&mut self) -> bool {
        let set = match (self.current(), self.pane) {
            (None, _) => !self.fleet_filter().is_empty(),
            (Some(c), Pane::Nodes) => !c.nodes.filter().text().is_empty(),
            (Some(c), Pane::Jobs) => !c.jobs.filter().text().is_empty(),
            (Some(c), Pane::Log) => !c.log.search().is_empty(),
            (Some(_), Pane::Autoscaler) => false,
        };
        if set {
            self.set_filter("");
        }
        set
    }

    fn set_filter(&mut self, text: &str) {
        let pane = self.pane;
        match self.current_mut() {
            None => self.set_fleet_filter(text),
            Some(c) if pane == Pane::Nodes => {
                c.nodes.set_filter(text);
                c.arrange_nodes();
            }
            Some(c) if pane == Pane::Jobs => {
                c.jobs.set_filter(text);
                c.arrange_jobs();
            }
            Some(c) => c.log.set_search(text),
        }
    }

    /// The filter of the fleet's table that is shown.
    fn fleet_filter(&self) -> &str {
        match self.view {
            View::Nodes => self.all_nodes.table().filter().text(),
            View::Jobs => self.all_jobs.table().filter().text(),
            View::Tpus(place) => self.clusters[place].tpus.table().filter().text(),
            _ => self.list.filter().text(),
        }
    }

    fn set_fleet_filter(&mut self, text: &str) {
        match self.view {
            View::Nodes => self.all_nodes.table_mut().set_filter(text),
            View::Jobs => self.all_jobs.table_mut().set_filter(text),
            View::Tpus(_) => self.filter_tpus(text),
            _ => {
                self.list.set_filter(text);
                self.arrange_list();
            }
        }
        self.arrange_merged();
    }

    /// The prompt's text changed: filters and searches are live.
    pub(super) fn typed(&mut self) {
        if let Some(Prompt { kind: PromptKind::Filter | PromptKind::Search, line, .. }) = &self.prompt {
            let text = line.text().to_owned();
            self.set_filter(&text);
        }
    }

    pub(super) fn prompt_key(&mut self, key: KeyEvent, now: Timestamp) -> Vec<Effect> {
        let Some(prompt) = &mut self.prompt else { return Vec::new() };
        match prompt.key(key) {
            Typed::Changed => self.typed(),
            Typed::Complete if prompt.kind == PromptKind::Command => {
                let text = prompt.line.text().to_owned();
                let completed = complete(&text, self.commands());
                if let (Some(prompt), Some(completed)) = (&mut self.prompt, completed) {
                    prompt.line.set(&completed);
                }
            }
            Typed::Escape => {
                let before = (prompt.kind != PromptKind::Command).then(|| String::clone(&prompt.before));
                self.prompt = None;
                if let Some(before) = before {
                    self.set_filter(&before);
                }
            }
            Typed::Enter => {
                let done = self.prompt.take();
                match done {
                    Some(Prompt { kind: PromptKind::Command, line, .. }) => {
                        return self.command(line.text().trim(), now);
                    }
                    Some(Prompt { kind: PromptKind::Search, line, .. }) if !line.is_empty() => {
                        return self.match_step(false, now);
                    }
                    _ => {}
                }
            }
            Typed::Complete | Typed::Nothing => {}
        }
        Vec::new()
    }

    /// All commands that the palette offers in this context.
    pub fn commands(&self) -> Vec<String> {
        let context = self.context();
        let here = ACTIONS.iter().filter(|d| d.contexts.contains(&context)).map(|d| d.name.to_owned());
        here.chain(self.clusters.iter().map(|c| format!("cluster {}", c.name()))).collect()
    }

    fn command(&mut self, text: &str, now: Timestamp) -> Vec<Effect> {
        if text.is_empty() {
            return Vec::new();
        }
        if let Some(name) = text.strip_prefix("cluster ").map(str::trim) {
            return match self.cluster_named(name) {
                Ok(place) => self.visit(place, now),
                Err(why) => {
                    self.toasts.say(Tone::Bad, why, now);
                    Vec::new()
                }
            };
        }
        if let Some(action) = Action::named(text).or_else(|| (text == "q").then_some(Action::ForceQuit)) {
            if action.describe().contexts.contains(&self.context()) {
                return self.act(action, now);
            }
            let places = action.describe().places();
            self.toasts.say(Tone::Bad, format!("`{text}` is not available here; use it in {places}"), now);
            return Vec::new();
        }
        self.toasts.say(Tone::Bad, format!("no action `{text}`; ? lists them"), now);
        Vec::new()
    }

    /// Says where a key is available that is not available here; silent for keys of dialogs and unknown keys.
    pub(super) fn say_where(&mut self, key: KeyEvent, now: Timestamp) {
        if self.dialog.is_some() {
            return;
        }
        // The key that opens a page needs no message on that page.
        let here = match self.context() {
            Context::Tpus => Some(Action::Tpus),
            Context::Clusters => Some(Action::Clusters),
            _ => None,
        };
        let elsewhere = self.keymap.elsewhere(key).filter(|(_, action)| Some(*action) != here);
        let found: Vec<(String, Action)> = elsewhere.collect();
        let Some((shown, _)) = found.first() else { return };
        let means: Vec<String> = found
            .iter()
            .map(|(_, action)| action.describe())
            .map(|d| format!("{} in {}", d.name, d.places()))
            .collect();
        self.toasts.say(
            Tone::Info,
            format!("{shown} is not available here; it is {}", means.join("; ")),
            now,
        );
    }

    /// The place of the cluster with that name, as on the command line: the full name, the name without `marin-`, or a
    /// prefix that no other cluster has.
    fn cluster_named(&self, name: &str) -> Result<usize, String> {
        /// Clusters that the message names at most.
        const NAMED: usize = 4;
        let short =
            |c: &Cluster| c.name().as_str().strip_prefix("marin-").unwrap_or(c.name().as_str()).to_owned();
        let places = |is: &dyn Fn(&Cluster) -> bool| -> Vec<usize> {
            self.clusters.iter().enumerate().filter(|(_, c)| is(c)).map(|(place, _)| place).collect()
        };
        let exact = places(&|c| c.name().as_str() == name || short(c) == name);
        if let Some(place) = exact.first() {
            return Ok(*place);
        }
        let begin = places(&|c| c.name().as_str().starts_with(name) || short(c).starts_with(name));
        match begin.as_slice() {
            [only] => Ok(*only),
            [] => Err(format!("no cluster `{name}`; {} lists them", self.key_of(Action::Clusters))),
            several => {
                let mut names: Vec<&str> =
                    several.iter().take(NAMED).map(|place| self.clusters[*place].name().as_str()).collect();
                let more = several.len().saturating_sub(NAMED);
                let more = if more > 0 { format!("{more} more") } else { String::new() };
                names.extend((!more.is_empty()).then_some(more.as_str()));
                Err(format!("`{name}` is ambiguous: {}; type more of the name", names.join(", ")))
            }
        }
    }
}
