//! The palette: runs commands by name, with a cluster, a job, a node, a TPU or a page of the manual as argument.

use crate::app::action::context::place;
use crate::app::action::table::Action;
use crate::app::action::target::Target;
use crate::app::input::entry::{Offer, OfferKind, OfferList};
use crate::app::input::history::Entered;
use crate::app::input::ids::takes_resource_id;
use crate::app::input::offers::{PaletteContext, few, no_column, takes_nothing};
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::input::verb::{Argument, Verb, split};
use crate::app::screen::dialog::Dialog;
use crate::app::{App, By, Effect, MessageKind, Pane, View};
use crate::manual;
use crate::model::Timestamp;

impl App {
    /// What the offers depend on besides the typed text.
    fn palette(&self) -> PaletteContext<'_> {
        PaletteContext {
            fleet: &self.fleet,
            of: self.view().cluster_index(),
            history: &self.history,
            keymap: &self.keyboard.keymap,
            context: self.context(),
            table: self.listing(),
            refused: self.refusal_of_changes().map(|(when, _)| when),
        }
    }

    /// The entries that the palette offers for the typed text, best first; empty if it is not open.
    pub fn offers(&self) -> Vec<Offer> {
        self.prompt.as_ref().map(|prompt| self.palette().offers(prompt)).unwrap_or_default()
    }

    /// The entries, or why there are none.
    pub fn offer_list(&self) -> OfferList {
        self.prompt.as_ref().map(|prompt| self.palette().list(prompt)).unwrap_or_default()
    }

    /// Sorts by the column with this id; an error message if there is none.
    fn sort_by_name(&mut self, name: &str) -> Result<(), String> {
        let listing = self.listing().ok_or("there is no table to sort here")?;
        let id = listing.sortable().into_iter().find(|id| *id == name).ok_or_else(|| no_column(name))?;
        self.sort(By::Column(id));
        Ok(())
    }

    /// Completes the line to the chosen entry, or up to its argument.
    pub(in crate::app) fn complete_command(&mut self) {
        let offers = self.offers();
        let Some(prompt) = &mut self.prompt else { return };
        let Some(offer) = offers.get(prompt.chosen) else { return };
        let (verb, argument) = split(&offer.text);
        let takes_more = Verb::named(verb).and_then(Verb::argument).is_some();
        let is_whole = offer.text == prompt.line.text().trim();
        let goes_on = argument.is_none() && takes_more && (is_whole || verb == "cluster");
        let words = format!("{}{}", offer.text, if goes_on { " " } else { "" });
        prompt.complete(&words);
    }

    /// Handles Enter in the palette: runs the chosen entry, else the typed command.
    pub(in crate::app) fn enter_command(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut offers = self.offers();
        let chosen = self.prompt.as_ref().and_then(|prompt| prompt.chosen_offer(&offers));
        let chosen = chosen.map(|i| offers.swap_remove(i));
        let Some(prompt) = self.prompt.take().filter(Prompt::has_choice) else { return Vec::new() };
        match chosen {
            Some(Offer { kind: OfferKind::Text(copied), text, .. }) => {
                vec![Effect::Copy { what: text, text: copied }]
            }
            Some(Offer { kind: OfferKind::Line { at, text }, .. }) => {
                self.go_to_found(at, &text, now);
                Vec::new()
            }
            Some(Offer { kind: OfferKind::Log(source), .. }) => self.open_source(source),
            Some(Offer { kind: OfferKind::WorkerLog(node, pid), .. }) => {
                self.find_worker_log((node, pid), now)
            }
            Some(Offer { kind: OfferKind::Page(target), .. }) => self.open_details(target),
            Some(Offer { kind: OfferKind::Stacks(target), .. }) => {
                let mut effects = self.open_details(target);
                effects.extend(self.take_stacks(now));
                effects
            }
            Some(Offer { kind: OfferKind::On(target), text, .. }) => self.run_on_thing(&text, target, now),
            Some(Offer { kind: OfferKind::Command, text, .. }) => self.run_command(&text, now),
            None if !matches!(prompt.kind, PromptKind::Command | PromptKind::Page) => Vec::new(),
            None => self.run_command(prompt.line.text().trim(), now),
        }
    }

    /// Runs a command, or reports why that is not possible.
    fn run_command(&mut self, text: &str, now: Timestamp) -> Vec<Effect> {
        self.try_command(text, now).unwrap_or_else(|why| {
            self.toasts.report(MessageKind::Bad, why, now);
            Vec::new()
        })
    }

    /// Runs a command; an error message if there is no such command, or if it does not take that argument.
    fn try_command(&mut self, text: &str, now: Timestamp) -> Result<Vec<Effect>, String> {
        let (word, argument) = split(text);
        let argument = argument.filter(|argument| !argument.is_empty());
        let verb = Verb::named(word).ok_or_else(|| self.palette().no_command(word))?;
        if !(verb == Verb::Cluster && argument.is_none()) {
            self.history.keep(Entered::Command, text);
        }
        let effects = match (verb, argument) {
            (Verb::Act(action), None) if takes_resource_id(action) && !self.is_here(action) => {
                self.prompt = Some(Prompt::new(PromptKind::Command, &format!("{word} ")));
                Vec::new()
            }
            (Verb::Act(action), None) => self.run_here(action, word, now),
            (Verb::Cluster, None) => {
                self.prompt = Some(Prompt::new(PromptKind::Command, "cluster "));
                Vec::new()
            }
            (Verb::Pane(pane, all), None) => self.show_pane(pane, all, now),
            (Verb::Help, None) => self.act(Action::Help, now),
            (Verb::Sort, None) => self.run_here(Action::SortDefault, word, now),
            (Verb::Sort, Some(column)) => {
                self.sort_by_name(column)?;
                Vec::new()
            }
            (Verb::Help, Some(topic)) => {
                self.show_page(topic, now);
                Vec::new()
            }
            (Verb::Act(action), Some(name)) if takes_resource_id(action) => {
                return Err(self.not_one_thing(word, action, name));
            }
            (verb, Some(name)) if verb.argument() == Some(Argument::Cluster) => {
                let cluster_index = self.palette().cluster_named(name)?;
                self.run_on(verb, cluster_index, word, now)
            }
            (_, Some(extra)) => return Err(takes_nothing(word, extra)),
        };
        Ok(effects)
    }

    /// Why a typed name does not select a thing for an action: none has it, or several match.
    fn not_one_thing(&self, word: &str, action: Action, name: &str) -> String {
        let found = self.palette().resource_ids_for(word, action, name);
        let names: Vec<&str> = found.iter().filter_map(|offer| split(&offer.text).1).collect();
        match names.as_slice() {
            [] => format!("`{word}`: nothing named `{name}` found"),
            several => format!("`{name}` is ambiguous: {}; select one with the arrow keys", few(several)),
        }
    }

    /// Opens the page of a thing and runs the command there, so that its target is certain.
    fn run_on_thing(&mut self, words: &str, target: Target, now: Timestamp) -> Vec<Effect> {
        self.history.keep(Entered::Command, words);
        let Some(Verb::Act(action)) = Verb::named(split(words).0) else { return Vec::new() };
        if self.is_refused(action, now) {
            return Vec::new();
        }
        let mut effects = self.open_details(target);
        if action != Action::Describe {
            effects.extend(self.act(action, now));
        }
        effects
    }

    /// Whether an action is available on the page or in the dialog.
    fn is_here(&self, action: Action) -> bool {
        action.describe().contexts.contains(&self.context())
    }

    fn run_here(&mut self, action: Action, word: &str, now: Timestamp) -> Vec<Effect> {
        if self.is_here(action) {
            return self.act(action, now);
        }
        // The page that it opens is already on the screen.
        if action == Action::Clusters || (action == Action::Tpus && matches!(self.view(), View::Tpus(_))) {
            return Vec::new();
        }
        let contexts = action.describe().contexts_text();
        self.toasts.report(
            MessageKind::Bad,
            format!("`{word}` is not available here; use it {}", place(&contexts)),
            now,
        );
        Vec::new()
    }

    fn run_on(&mut self, verb: Verb, cluster_index: usize, word: &str, now: Timestamp) -> Vec<Effect> {
        match verb {
            Verb::Cluster => self.visit(cluster_index, now),
            Verb::Pane(pane, _) => self.show_cluster(cluster_index, Some(pane)),
            Verb::Act(action) => {
                let mut effects = self.show_cluster(cluster_index, None);
                if !self.is_here(action) {
                    self.split.focused = Pane::Jobs;
                }
                effects.extend(self.run_here(action, word, now));
                effects
            }
            Verb::Help | Verb::Sort => Vec::new(),
        }
    }

    fn show_pane(&mut self, pane: Pane, all: Option<Action>, now: Timestamp) -> Vec<Effect> {
        match (self.view().cluster_index(), all) {
            (Some(cluster_index), _) => self.show_cluster(cluster_index, Some(pane)),
            (None, Some(all)) => self.act(all, now),
            (None, None) => {
                let cluster_index = self.target_cluster_index();
                cluster_index
                    .map(|cluster_index| self.show_cluster(cluster_index, Some(pane)))
                    .unwrap_or_default()
            }
        }
    }

    /// Shows a cluster, unless its page is on the screen already.
    fn show_cluster(&mut self, cluster_index: usize, pane: Option<Pane>) -> Vec<Effect> {
        self.split.focused = pane.unwrap_or(self.split.focused);
        self.open_page(View::Cluster(cluster_index))
    }

    /// Opens a page of the manual over the screen.
    fn show_page(&mut self, topic: &str, now: Timestamp) {
        let Some(text) = manual::page(topic) else {
            let topics: Vec<&str> = manual::PAGES.iter().map(|(topic, _)| *topic).collect();
            self.toasts.report(
                MessageKind::Bad,
                format!("no page `{topic}`; available pages: {}", topics.join(", ")),
                now,
            );
            return;
        };
        self.dialog = Some(Dialog::text(format!("Manual: {topic}"), manual::rows(text), self.dialog.take()));
    }
}
