//! Typed text: live filters and searches, and the commands of the palette.

use super::actions::{ACTIONS, Action, Context};
use super::prompt::{Prompt, PromptKind, Typed, complete};
use super::{App, Cluster, Effect, Tone};
use crate::model::Timestamp;
use crossterm::event::KeyEvent;

impl App {
    /// Opens the line for the filter of the table that has the focus, or for the search in the log.
    pub(super) fn begin_filter(&mut self) -> Vec<Effect> {
        self.prompt = match (self.listing(), self.context()) {
            (Some(listing), _) => Some(Prompt::new(PromptKind::Filter, listing.filter().text())),
            (None, Context::Log) => {
                let before = self.log_mut().map(|log| log.search().to_owned()).unwrap_or_default();
                let mut prompt = Prompt::new(PromptKind::Search, &before);
                // Another search is typed, as in `less`; a filter is made narrower.
                prompt.text.clear();
                Some(prompt)
            }
            (None, _) => None,
        };
        Vec::new()
    }

    /// Clears the filter or the search. True when there was one.
    pub(super) fn clear_filter(&mut self) -> bool {
        let is_log = self.context() == Context::Log;
        let is_set = match self.listing() {
            Some(listing) => !listing.filter().text().is_empty(),
            None => is_log && self.log_mut().is_some_and(|log| !log.search().is_empty()),
        };
        if is_set {
            self.set_filter("");
        }
        is_set
    }

    fn set_filter(&mut self, text: &str) {
        if let Some((listing, fleet)) = self.listing_mut() {
            listing.set_filter(fleet, text);
        } else if let Some(log) = self.log_mut() {
            log.set_search(text);
        }
    }

    /// The prompt's text changed: filters and searches are live.
    pub(super) fn typed(&mut self) {
        if let Some(Prompt { kind: PromptKind::Filter | PromptKind::Search, text, .. }) = &self.prompt {
            let text = text.clone();
            self.set_filter(&text);
        }
    }

    pub(super) fn prompt_key(&mut self, key: KeyEvent, now: Timestamp) -> Vec<Effect> {
        let Some(prompt) = &mut self.prompt else { return Vec::new() };
        match prompt.key(key) {
            Typed::Changed => self.typed(),
            Typed::Complete if prompt.kind == PromptKind::Command => {
                let text = prompt.text.clone();
                let completed = complete(&text, self.commands());
                if let (Some(prompt), Some(completed)) = (&mut self.prompt, completed) {
                    prompt.text = completed;
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
                    Some(Prompt { kind: PromptKind::Command, text, .. }) => {
                        return self.command(text.trim(), now);
                    }
                    Some(Prompt { kind: PromptKind::Search, text, .. }) if !text.is_empty() => {
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
        here.chain(self.clusters().iter().map(|c| format!("cluster {}", c.name()))).collect()
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
            self.clusters().iter().enumerate().filter(|(_, c)| is(c)).map(|(place, _)| place).collect()
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
                    several.iter().take(NAMED).map(|place| self.clusters()[*place].name().as_str()).collect();
                let more = several.len().saturating_sub(NAMED);
                let more = if more > 0 { format!("{more} more") } else { String::new() };
                names.extend((!more.is_empty()).then_some(more.as_str()));
                Err(format!("`{name}` is ambiguous: {}; type more of the name", names.join(", ")))
            }
        }
    }
}
