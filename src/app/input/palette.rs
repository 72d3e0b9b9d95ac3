//! The palette: runs commands by name, with fuzzy matching, and with a cluster, a job, a node, a TPU or a page of the
//! manual as argument.

use crate::app::action::table::{Action, Description, actions};
use crate::app::action::target::Target;
use crate::app::input::entry::{Offer, OfferKind};
use crate::app::input::history::Entered;
use crate::app::input::ids::{takes_thing, things};
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::input::verb::{Argument, Verb, WORDS};
use crate::app::screen::dialog::Dialog;
use crate::app::{App, By, Effect, Pane, Tone, View};
use crate::manual;
use crate::model::{ClusterSpec, Named, Timestamp, named};
use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use std::cmp::Reverse;

/// Number of recent commands that an empty line offers first.
const RECENT: usize = 5;
/// From this number of typed characters on, a command is also found by its synonyms and its help.
const OF_HELP: usize = 3;

/// The first word, and the text after it, if any.
fn split(text: &str) -> (&str, Option<&str>) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).map_or((text, None), |(verb, rest)| (verb, Some(rest.trim())))
}

/// The indices of the names that contain the letters of `typed` in this order, best match first, with the matching
/// characters.
fn ranked(typed: &str, names: &[&str]) -> Vec<(usize, Vec<usize>)> {
    if typed.is_empty() {
        return (0..names.len()).map(|place| (place, Vec::new())).collect();
    }
    let letters = Atom::new(typed, CaseMatching::Ignore, Normalization::Smart, AtomKind::Fuzzy, false);
    let mut matcher = Matcher::new(Config::DEFAULT);
    let mut characters = Vec::new();
    let mut found = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let mut hits = Vec::new();
        let score = letters.indices(Utf32Str::new(name, &mut characters), &mut matcher, &mut hits);
        found.extend(score.map(|score| (score, place, hits)));
    }
    // The sort is stable: names of equal score keep their order.
    found.sort_by_key(|(score, ..)| Reverse(*score));
    let places = |hits: Vec<u32>| hits.into_iter().map(|hit| hit as usize).collect();
    found.into_iter().map(|(_, place, hits)| (place, places(hits))).collect()
}

impl App {
    /// The entries that the palette offers for the typed text, best first; empty if it is not open.
    pub fn offers(&self) -> Vec<Offer> {
        let Some(prompt) = &self.prompt else { return Vec::new() };
        if !prompt.held.is_empty() {
            return prompt.held.clone();
        }
        let typed = prompt.line.text();
        match (prompt.kind, split(typed)) {
            (PromptKind::Page, _) => pages("help", typed.trim()),
            (PromptKind::Command, ("", _)) => self.all_offers(),
            (PromptKind::Command, (verb, None)) => self.offers_named(verb),
            (PromptKind::Command, (verb, Some(typed))) => match Verb::named(verb).and_then(Verb::argument) {
                Some(Argument::Page) => pages(verb, typed),
                Some(Argument::Cluster) => self.clusters_for(verb, typed),
                Some(Argument::Thing(action)) => self.things_for(verb, action, typed),
                Some(Argument::Column) => self.columns_for(verb, typed),
                None => Vec::new(),
            },
            _ if prompt.given.is_empty() => Vec::new(),
            _ => {
                let names: Vec<&str> = prompt.given.iter().map(|offer| offer.words.as_str()).collect();
                let hit = |(i, hits): (usize, Vec<usize>)| Offer { hits, ..prompt.given[i].clone() };
                ranked(typed.trim(), &names).into_iter().map(hit).collect()
            }
        }
    }

    /// Recent commands, then commands that are available here, then the others.
    fn all_offers(&self) -> Vec<Offer> {
        let recent = self.history.latest(Entered::Command).take(RECENT);
        let recent = recent.map(|words| Offer::new(words, "recent"));
        let cluster = WORDS.iter().filter(|(_, verb)| *verb == Verb::Cluster).take(1);
        let mut all: Vec<Offer> = actions().iter().map(|d| self.offer_of(d)).collect();
        all.extend(cluster.map(|(word, verb)| self.offer_of_word(word, *verb)));
        all.sort_by_key(|offer| !offer.is_here);
        recent.chain(all).collect()
    }

    fn offers_named(&self, typed: &str) -> Vec<Offer> {
        let actions = actions().iter().map(|d| self.offer_of(d));
        let words = WORDS.iter().filter(|(word, _)| Action::named(word).is_none());
        let all: Vec<Offer> =
            actions.chain(words.map(|(word, verb)| self.offer_of_word(word, *verb))).collect();
        let names: Vec<&str> = all.iter().map(|offer| offer.words.as_str()).collect();
        let mut ranked = ranked(typed, &names);
        let lower = typed.to_lowercase();
        // A synonym of an action is preferred over a fuzzy match of names.
        let is_meant = |offer: &Offer| {
            let also = Action::named(&offer.words).map_or("", |action| action.describe().also);
            typed.len() >= OF_HELP && also.split(' ').any(|word| word.starts_with(&lower))
        };
        let by_name: Vec<usize> = ranked.iter().map(|(place, _)| *place).collect();
        let by_word = (0..all.len()).filter(|i| !by_name.contains(i) && is_meant(&all[*i]));
        ranked.extend(by_word.map(|i| (i, Vec::new())));
        let mut found: Vec<Offer> =
            ranked.iter().map(|(i, hits)| Offer { hits: hits.clone(), ..all[*i].clone() }).collect();
        // The synonym of an action that is already listed is redundant.
        let listed: Vec<Action> = found.iter().filter_map(|offer| Action::named(&offer.words)).collect();
        let is_repeated = |word: &str| {
            let other = WORDS.iter().find(|(known, _)| *known == word && Action::named(known).is_none());
            other.is_some_and(|(_, verb)| matches!(verb, Verb::Act(action) if listed.contains(action)))
        };
        found.retain(|offer| offer.words == typed || !is_repeated(&offer.words));
        found.sort_by_key(|offer| (offer.words != typed, !is_meant(offer), !offer.is_here));
        if typed.len() >= OF_HELP {
            let is_in_help = |offer: &Offer| offer.help.to_lowercase().contains(&lower);
            let by_name = |i: usize| ranked.iter().any(|(place, _)| *place == i);
            let by_help =
                (0..).zip(all).filter(|(i, offer)| !by_name(*i) && offer.is_here && is_in_help(offer));
            found.extend(by_help.map(|(_, offer)| offer));
        }
        found
    }

    /// Why the palette offers nothing; `None` if it offers something or is not open.
    pub fn why_nothing_offered(&self) -> Option<String> {
        let prompt = self.prompt.as_ref().filter(|prompt| prompt.kind.has_list())?;
        let typed = prompt.line.text().trim();
        if typed.is_empty() || !self.offers().is_empty() {
            return None;
        }
        let (word, argument) = split(typed);
        let verb = Verb::named(word);
        Some(match (prompt.kind, argument) {
            (PromptKind::Command, None) => self.no_command(word),
            (PromptKind::Command, Some(_)) if verb.is_none() => self.no_command(word),
            (PromptKind::Command, Some(argument)) => match verb.and_then(Verb::argument) {
                Some(Argument::Cluster) => format!("no cluster matches `{argument}`"),
                Some(Argument::Thing(_)) => format!("`{word}`: nothing matches `{argument}`"),
                Some(Argument::Column) => no_column(argument),
                Some(Argument::Page) => format!("no page of the manual matches `{argument}`"),
                None => takes_nothing(word, argument),
            },
            (PromptKind::Page, _) => format!("no page of the manual matches `{typed}`"),
            _ => format!("nothing matches `{typed}`"),
        })
    }

    /// The answer to a word that is not a command of the palette.
    fn no_command(&self, word: &str) -> String {
        if manual::has_command(word) {
            format!("`{word}` is a command: type `marin-tui {word}` in a shell")
        } else {
            format!("no command matches `{word}`; {} lists the keys", self.key_of(Action::Help))
        }
    }

    fn offer_of(&self, d: &Description) -> Offer {
        let refusal = self.refusal(d.action);
        let is_here = (self.is_here(d.action) || takes_thing(d.action)) && refusal.is_none();
        let help = refusal.map_or(d.help.to_owned(), |(when, _)| format!("refused {when}: {}", d.help));
        let key = self.keyboard.keymap.keys_of(d.action).next().unwrap_or_default();
        Offer { key, is_here, ..Offer::new(d.name, help) }
    }

    fn offer_of_word(&self, word: &str, verb: Verb) -> Offer {
        let named = |help: &str| Offer::new(word, help);
        match verb {
            Verb::Act(action) => Offer { words: word.to_owned(), ..self.offer_of(action.describe()) },
            Verb::Cluster => named("Open a cluster: `cluster NAME`"),
            Verb::Sort => named("Sort the table by a column: `sort COLUMN`; again: in reverse order"),
            Verb::Help => named("Show the keys, or a page of the manual: `help TOPIC`"),
            Verb::Pane(Pane::Jobs, _) => named("Show the jobs of the cluster, or of all clusters"),
            Verb::Pane(Pane::Nodes, _) => named("Show the nodes of the cluster, or of all clusters"),
            Verb::Pane(Pane::Log, _) => named("Show the log of the cluster"),
            Verb::Pane(Pane::Autoscaler, _) => named("Show the autoscaler of the cluster"),
        }
    }

    fn clusters_for(&self, verb: &str, typed: &str) -> Vec<Offer> {
        let names: Vec<&str> = self.fleet.clusters.iter().map(|c| c.name().as_str()).collect();
        let offer = |(place, hits): (usize, Vec<usize>)| {
            let help = self.fleet.clusters[place].worst().map(|finding| finding.long.clone());
            let words = format!("{verb} {}", names[place]);
            Offer { hits: shifted(verb, hits), ..Offer::new(words, help.unwrap_or_default()) }
        };
        ranked(typed, &names).into_iter().map(offer).collect()
    }

    /// The jobs, nodes and TPUs that an action can act on: of the cluster on the screen, or of all.
    fn things_for(&self, verb: &str, action: Action, typed: &str) -> Vec<Offer> {
        let things = things(&self.fleet, self.view().place(), action);
        let names: Vec<&str> = things.iter().map(|thing| thing.name.as_str()).collect();
        let offer = |(i, hits): (usize, Vec<usize>)| Offer {
            hits: shifted(verb, hits),
            kind: OfferKind::On(things[i].target.clone()),
            ..Offer::new(format!("{verb} {}", names[i]), things[i].about.as_str())
        };
        ranked(typed, &names).into_iter().map(offer).collect()
    }

    /// The columns by which the focused table can be sorted.
    fn columns_for(&self, verb: &str, typed: &str) -> Vec<Offer> {
        let Some(listing) = self.listing() else { return Vec::new() };
        let ids = listing.sortable();
        let offer = |(i, hits): (usize, Vec<usize>)| Offer {
            hits: shifted(verb, hits),
            ..Offer::new(format!("{verb} {}", ids[i]), "")
        };
        ranked(typed, &ids).into_iter().map(offer).collect()
    }

    /// Sorts by the column with this id; an error message if there is none.
    fn sort_by_name(&mut self, name: &str) -> Result<Vec<Effect>, String> {
        let listing = self.listing().ok_or("there is no table to sort here")?;
        let id = listing.sortable().into_iter().find(|id| *id == name).ok_or_else(|| no_column(name))?;
        Ok(self.sort(By::Column(id)))
    }

    /// Completes the line to the chosen entry, or up to its argument.
    pub(in crate::app) fn complete_command(&mut self) {
        let offers = self.offers();
        let Some(prompt) = &mut self.prompt else { return };
        let Some(offer) = offers.get(prompt.chosen) else { return };
        let (verb, argument) = split(&offer.words);
        let takes_more = Verb::named(verb).and_then(Verb::argument).is_some();
        let is_whole = offer.words == prompt.line.text().trim();
        let goes_on = argument.is_none() && takes_more && (is_whole || verb == "cluster");
        let words = format!("{}{}", offer.words, if goes_on { " " } else { "" });
        prompt.complete(&words);
    }

    /// The entry that Enter takes, by its index among the offers: the one chosen with the arrows, else the best match.
    /// The argument of a command has to be chosen or unambiguous.
    pub fn chosen_offer(&self, offers: &[Offer]) -> Option<usize> {
        let prompt = self.prompt.as_ref().filter(|prompt| prompt.has_choice())?;
        let (verb, argument) = split(prompt.line.text());
        let chosen = match argument {
            _ if prompt.is_chosen => prompt.chosen,
            Some(typed) if prompt.kind == PromptKind::Command && Verb::named(verb) != Some(Verb::Help) => {
                let named: Vec<usize> =
                    (0..offers.len()).filter(|i| split(&offers[*i].words).1 == Some(typed)).collect();
                match named.as_slice() {
                    // A name that exists on several clusters is ambiguous.
                    [only] => *only,
                    [] if offers.len() == 1 && !typed.is_empty() => 0,
                    _ => return None,
                }
            }
            _ => 0,
        };
        (chosen < offers.len()).then_some(chosen)
    }

    /// Handles Enter in the palette: runs the chosen entry, else the typed command.
    pub(in crate::app) fn enter_command(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut offers = self.offers();
        let chosen = self.chosen_offer(&offers).map(|i| offers.swap_remove(i));
        let Some(prompt) = self.prompt.take().filter(Prompt::has_choice) else { return Vec::new() };
        match chosen {
            Some(Offer { kind: OfferKind::Text(text), words, .. }) => {
                vec![Effect::Copy { what: words, text }]
            }
            Some(Offer { kind: OfferKind::Line { at, text }, .. }) => self.go_to_found(at, &text, now),
            Some(Offer { kind: OfferKind::Log(source), .. }) => self.open_source(source),
            Some(Offer { kind: OfferKind::Page(target), .. }) => self.open_details(target),
            Some(Offer { kind: OfferKind::Stacks(target), .. }) => {
                let mut effects = self.open_details(target);
                effects.extend(self.take_stacks(now));
                effects
            }
            Some(Offer { kind: OfferKind::On(target), words, .. }) => self.run_on_thing(&words, target, now),
            Some(Offer { kind: OfferKind::Command, words, .. }) => self.run_command(&words, now),
            None if !matches!(prompt.kind, PromptKind::Command | PromptKind::Page) => Vec::new(),
            None => self.run_command(prompt.line.text().trim(), now),
        }
    }

    fn run_command(&mut self, text: &str, now: Timestamp) -> Vec<Effect> {
        let (word, argument) = split(text);
        let argument = argument.filter(|argument| !argument.is_empty());
        let Some(verb) = Verb::named(word) else {
            let why = self.no_command(word);
            self.toasts.say(Tone::Bad, why, now);
            return Vec::new();
        };
        if !(verb == Verb::Cluster && argument.is_none()) {
            self.history.keep(Entered::Command, text);
        }
        match (verb, argument) {
            (Verb::Act(action), None) if takes_thing(action) && !self.is_here(action) => {
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
            (Verb::Sort, Some(column)) => self.sort_by_name(column).unwrap_or_else(|why| {
                self.toasts.say(Tone::Bad, why, now);
                Vec::new()
            }),
            (Verb::Help, Some(topic)) => {
                self.show_page(topic, now);
                Vec::new()
            }
            (Verb::Act(action), Some(name)) if takes_thing(action) => {
                let found = self.things_for(word, action, name);
                let names: Vec<&str> = found.iter().filter_map(|offer| split(&offer.words).1).collect();
                let why = match names.as_slice() {
                    [] => format!("`{word}`: nothing named `{name}` found"),
                    several => {
                        format!("`{name}` is ambiguous: {}; select one with the arrow keys", few(several))
                    }
                };
                self.toasts.say(Tone::Bad, why, now);
                Vec::new()
            }
            (verb, Some(name)) if verb.argument() == Some(Argument::Cluster) => {
                match self.cluster_named(name) {
                    Ok(place) => self.run_on(verb, place, word, now),
                    Err(why) => {
                        self.toasts.say(Tone::Bad, why, now);
                        Vec::new()
                    }
                }
            }
            (_, Some(extra)) => {
                self.toasts.say(Tone::Bad, takes_nothing(word, extra), now);
                Vec::new()
            }
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
        let places = action.describe().places();
        self.toasts.say(Tone::Bad, format!("`{word}` is not available here; use it in {places}"), now);
        Vec::new()
    }

    fn run_on(&mut self, verb: Verb, place: usize, word: &str, now: Timestamp) -> Vec<Effect> {
        match verb {
            Verb::Cluster => self.visit(place, now),
            Verb::Pane(pane, _) => self.show_cluster(place, Some(pane)),
            Verb::Act(action) => {
                let mut effects = self.show_cluster(place, None);
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
        match (self.view().place(), all) {
            (Some(place), _) => self.show_cluster(place, Some(pane)),
            (None, Some(all)) => self.act(all, now),
            (None, None) => {
                let place = self.target_place();
                place.map(|place| self.show_cluster(place, Some(pane))).unwrap_or_default()
            }
        }
    }

    /// Shows a cluster, unless its page is on the screen already.
    fn show_cluster(&mut self, place: usize, pane: Option<Pane>) -> Vec<Effect> {
        self.split.focused = pane.unwrap_or(self.split.focused);
        self.open_page(View::Cluster(place))
    }

    /// Opens a page of the manual over the screen.
    fn show_page(&mut self, topic: &str, now: Timestamp) {
        let Some(text) = manual::page(topic) else {
            let topics: Vec<&str> = manual::PAGES.iter().map(|(topic, _)| *topic).collect();
            self.toasts.say(
                Tone::Bad,
                format!("no page `{topic}`; available pages: {}", topics.join(", ")),
                now,
            );
            return;
        };
        self.dialog = Some(Dialog::text(format!("Manual: {topic}"), manual::rows(text), self.dialog.take()));
    }

    /// The index of the cluster with this name, resolved as on the command line.
    fn cluster_named(&self, name: &str) -> Result<usize, String> {
        let clusters: Vec<&ClusterSpec> = self.fleet.clusters.iter().map(|c| &c.spec).collect();
        let unknown = || format!("no cluster `{name}`; {} lists them", self.key_of(Action::Clusters));
        match named(name, &clusters) {
            Named::One(cluster) => self.fleet.place(&cluster.name).ok_or_else(unknown),
            Named::Nothing => Err(unknown()),
            Named::Several(several) => {
                let names: Vec<&str> = several.iter().map(|c| c.name.as_str()).collect();
                Err(format!("`{name}` is ambiguous: {}; type more of the name", few(&names)))
            }
        }
    }
}

/// The first names, and the number of the others.
fn few(names: &[&str]) -> String {
    const NAMED: usize = 4;
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", {more} more") } else { String::new() };
    names[..names.len().min(NAMED)].join(", ") + &more
}

/// The answer to a column that the table does not have, does not show or cannot be sorted by.
fn no_column(name: &str) -> String {
    format!("no sortable column matches `{name}`")
}

/// The answer to an argument of a command that takes none.
fn takes_nothing(word: &str, argument: &str) -> String {
    format!("`{word}` takes no argument: `{argument}`")
}

/// The pages of the manual.
fn pages(verb: &str, typed: &str) -> Vec<Offer> {
    let topics = manual::PAGES.map(|(topic, _)| topic);
    let offer = |(place, hits): (usize, Vec<usize>)| Offer {
        hits: shifted(verb, hits),
        ..Offer::new(format!("{verb} {}", topics[place]), manual::summary(manual::PAGES[place].1))
    };
    ranked(typed, &topics).into_iter().map(offer).collect()
}

/// The matching characters of an argument, as indices into the whole command.
fn shifted(verb: &str, hits: Vec<usize>) -> Vec<usize> {
    let before = verb.chars().count() + 1;
    hits.into_iter().map(|hit| before + hit).collect()
}

#[cfg(test)]
mod tests {
    use crate::app::input::palette::*;

    #[test]
    fn names_are_found_by_their_letters() {
        let names = ["stop-cluster", "sort-next", "restart", "start", "tpus"];
        let found = |typed| ranked(typed, &names).iter().map(|(i, _)| names[*i]).collect::<Vec<_>>();
        assert_eq!(found("start"), ["start", "restart"]);
        assert_eq!(found("STC"), ["stop-cluster"]);
        assert_eq!(found("xyz"), [""; 0]);
        assert_eq!(found("").len(), names.len());
        let mut hits = ranked("sc", &names)[0].1.clone();
        hits.sort_unstable();
        assert_eq!(hits, [0, 5]);
    }

    #[test]
    fn verbs_are_found_by_a_prefix() {
        assert_eq!(Verb::named("restart"), Some(Verb::Act(Action::Restart)));
        assert_eq!(Verb::named("rest"), Some(Verb::Act(Action::Restart)));
        assert_eq!(Verb::named("s"), None, "the prefix is ambiguous");
        assert_eq!(Verb::named(""), None);
        assert_eq!(split(" cluster  us east "), ("cluster", Some("us east")));
        assert_eq!(split("jobs"), ("jobs", None));
        // Each synonym is unique, and finds its own verb by its full name.
        for (i, (word, verb)) in WORDS.iter().enumerate() {
            assert!(WORDS[..i].iter().all(|(other, _)| other != word), "{word}");
            assert_eq!(Verb::named(word), Some(*verb));
        }
    }
}
