//! The entries that the palette offers for the typed text: commands with fuzzy matching, and their arguments.

use crate::app::action::context::Context;
use crate::app::action::keymap::Keymap;
use crate::app::action::list::{action_named, actions};
use crate::app::action::table::Action;
use crate::app::fleet::Fleet;
use crate::app::input::entry::{Offer, OfferKind, OfferList};
use crate::app::input::history::{Entered, History};
use crate::app::input::ids::{resource_ids, takes_resource_id};
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::input::verb::{Argument, SYNONYMS, Verb, split};
use crate::app::screen::pane::Pane;
use crate::app::table::list::Listing;
use crate::manual;
use crate::model::sort;
use crate::model::{ClusterSpec, Named, named};
use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use std::cmp::Reverse;

/// Number of recent commands that an empty line offers first.
const MAX_RECENT: usize = 5;
/// From this number of typed characters on, a command is also found by its synonyms and its help.
const MIN_LETTERS_FOR_HELP: usize = 3;

/// What the offers depend on besides the typed text.
pub(in crate::app) struct PaletteContext<'a> {
    pub fleet: &'a Fleet,
    /// The cluster on the screen, whose things are offered; on a page of the fleet, those of all.
    pub of: Option<usize>,
    pub history: &'a History,
    pub keymap: &'a Keymap,
    /// The context of the page or the dialog.
    pub context: Context,
    /// The table that can be sorted.
    pub table: Option<&'a dyn Listing>,
    /// When actions that change a cluster are refused, in short; `None` if they are not.
    pub refused: Option<&'static str>,
}

impl PaletteContext<'_> {
    /// The list for the typed text.
    pub fn list(&self, prompt: &Prompt) -> OfferList {
        let offers = self.offers(prompt);
        let why_none = if offers.is_empty() { self.why_nothing_offered(prompt) } else { None };
        OfferList { offers, why_none }
    }

    /// The entries for the typed text, best first.
    pub fn offers(&self, prompt: &Prompt) -> Vec<Offer> {
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
                Some(Argument::ResourceId(action)) => self.resource_ids_for(verb, action, typed),
                Some(Argument::Column) => self.columns_for(verb, typed),
                None => Vec::new(),
            },
            _ if prompt.given.is_empty() => Vec::new(),
            _ => {
                let names: Vec<&str> = prompt.given.iter().map(|offer| offer.text.as_str()).collect();
                let hit = |(i, hits): (usize, Vec<usize>)| Offer { hits, ..prompt.given[i].clone() };
                ranked(typed.trim(), &names).into_iter().map(hit).collect()
            }
        }
    }

    /// Recent commands, then commands that are available here, then the others.
    fn all_offers(&self) -> Vec<Offer> {
        let recent = self.history.latest(Entered::Command).take(MAX_RECENT);
        let recent = recent.map(|words| Offer::new(words, "recent"));
        let cluster = SYNONYMS.iter().filter(|(_, verb)| *verb == Verb::Cluster).take(1);
        let mut all: Vec<Offer> = actions().iter().map(|action| self.offer_of(*action)).collect();
        all.extend(cluster.map(|(word, verb)| self.offer_of_name(word, *verb)));
        sort::by_key(&mut all, |offer| !offer.is_here);
        recent.chain(all).collect()
    }

    fn offers_named(&self, typed: &str) -> Vec<Offer> {
        let actions = actions().iter().map(|action| self.offer_of(*action));
        let words = SYNONYMS.iter().filter(|(word, _)| action_named(word).is_none());
        let all: Vec<Offer> =
            actions.chain(words.map(|(word, verb)| self.offer_of_name(word, *verb))).collect();
        let names: Vec<&str> = all.iter().map(|offer| offer.text.as_str()).collect();
        let mut ranked = ranked(typed, &names);
        let lower = typed.to_lowercase();
        // A synonym of an action is preferred over a fuzzy match of names.
        let is_synonym = |offer: &Offer| {
            let keywords = action_named(&offer.text).map_or("", |action| action.describe().keywords);
            typed.len() >= MIN_LETTERS_FOR_HELP && keywords.split(' ').any(|word| word.starts_with(&lower))
        };
        let by_name: Vec<usize> = ranked.iter().map(|(index, _)| *index).collect();
        let by_synonym = (0..all.len()).filter(|i| !by_name.contains(i) && is_synonym(&all[*i]));
        ranked.extend(by_synonym.map(|i| (i, Vec::new())));
        let mut found: Vec<Offer> =
            ranked.iter().map(|(i, hits)| Offer { hits: hits.clone(), ..all[*i].clone() }).collect();
        // The synonym of an action that is already listed is redundant.
        let listed: Vec<Action> = found.iter().filter_map(|offer| action_named(&offer.text)).collect();
        let is_repeated = |word: &str| {
            let other = SYNONYMS.iter().find(|(known, _)| *known == word && action_named(known).is_none());
            other.is_some_and(|(_, verb)| matches!(verb, Verb::Act(action) if listed.contains(action)))
        };
        found.retain(|offer| offer.text == typed || !is_repeated(&offer.text));
        sort::by_key(&mut found, |offer| (offer.text != typed, !is_synonym(offer), !offer.is_here));
        if typed.len() >= MIN_LETTERS_FOR_HELP {
            let is_in_help = |offer: &Offer| offer.help.to_lowercase().contains(&lower);
            let by_name = |i: usize| ranked.iter().any(|(index, _)| *index == i);
            let by_help =
                (0..).zip(all).filter(|(i, offer)| !by_name(*i) && offer.is_here && is_in_help(offer));
            found.extend(by_help.map(|(_, offer)| offer));
        }
        found
    }

    /// Why nothing is offered; `None` if nothing is typed.
    fn why_nothing_offered(&self, prompt: &Prompt) -> Option<String> {
        let typed = prompt.line.text().trim();
        if typed.is_empty() || !prompt.kind.has_list() {
            return None;
        }
        let (word, argument) = split(typed);
        let verb = Verb::named(word);
        Some(match (prompt.kind, argument) {
            (PromptKind::Command, None) => self.no_command(word),
            (PromptKind::Command, Some(_)) if verb.is_none() => self.no_command(word),
            (PromptKind::Command, Some(argument)) => match verb.and_then(Verb::argument) {
                Some(Argument::Cluster) => format!("no cluster matches `{argument}`"),
                Some(Argument::ResourceId(_)) => format!("`{word}`: nothing matches `{argument}`"),
                Some(Argument::Column) => no_column(argument),
                Some(Argument::Page) => format!("no page of the manual matches `{argument}`"),
                None => takes_nothing(word, argument),
            },
            (PromptKind::Page, _) => format!("no page of the manual matches `{typed}`"),
            _ => format!("nothing matches `{typed}`"),
        })
    }

    /// The answer to a word that is not a command of the palette.
    pub fn no_command(&self, word: &str) -> String {
        if manual::has_command(word) {
            format!("`{word}` is a command: type `marin-tui {word}` in a shell")
        } else {
            format!("no command matches `{word}`; {} lists the keys", self.keymap.key_of(Action::Help))
        }
    }

    fn offer_of(&self, action: Action) -> Offer {
        let d = action.describe();
        let refused = self.refused.filter(|_| action.changes_a_cluster());
        let is_here = (d.contexts.contains(&self.context) || takes_resource_id(action)) && refused.is_none();
        let help = refused.map_or(d.help.to_owned(), |when| format!("refused {when}: {}", d.help));
        let key = self.keymap.key_of(action);
        Offer { key, is_here, ..Offer::new(d.name, help) }
    }

    fn offer_of_name(&self, word: &str, verb: Verb) -> Offer {
        let named = |help: &str| Offer::new(word, help);
        match verb {
            Verb::Act(action) => Offer { text: word.to_owned(), ..self.offer_of(action) },
            Verb::Cluster => named("Open a cluster: `cluster NAME`"),
            Verb::Sort => named("Sort the table by a column: `sort COLUMN`; repeat to reverse the order"),
            Verb::Help => named("Show the keys, or a page of the manual: `help TOPIC`"),
            Verb::Pane(Pane::Jobs, _) => named("Show the jobs of the cluster, or of all clusters"),
            Verb::Pane(Pane::Nodes, _) => named("Show the nodes of the cluster, or of all clusters"),
            Verb::Pane(Pane::Log, _) => named("Show the log of the cluster"),
            Verb::Pane(Pane::Autoscaler, _) => named("Show the autoscaler of the cluster"),
        }
    }

    fn clusters_for(&self, verb: &str, typed: &str) -> Vec<Offer> {
        let names: Vec<&str> = self.fleet.clusters.iter().map(|c| c.name().as_str()).collect();
        let offer = |(cluster_index, hits): (usize, Vec<usize>)| {
            let help = self.fleet.clusters[cluster_index].worst().map(|finding| finding.long.clone());
            let words = format!("{verb} {}", names[cluster_index]);
            Offer { hits: shifted(verb, hits), ..Offer::new(words, help.unwrap_or_default()) }
        };
        ranked(typed, &names).into_iter().map(offer).collect()
    }

    /// The jobs, nodes and TPUs that an action can act on: of the cluster on the screen, or of all.
    pub fn resource_ids_for(&self, verb: &str, action: Action, typed: &str) -> Vec<Offer> {
        let resource_ids = resource_ids(self.fleet, self.of, action);
        let names: Vec<&str> = resource_ids.iter().map(|thing| thing.name.as_str()).collect();
        let offer = |(i, hits): (usize, Vec<usize>)| Offer {
            hits: shifted(verb, hits),
            kind: OfferKind::On(resource_ids[i].target.clone()),
            ..Offer::new(format!("{verb} {}", names[i]), resource_ids[i].about.as_str())
        };
        ranked(typed, &names).into_iter().map(offer).collect()
    }

    /// The columns by which the focused table can be sorted.
    fn columns_for(&self, verb: &str, typed: &str) -> Vec<Offer> {
        let Some(listing) = self.table else { return Vec::new() };
        let ids = listing.sortable();
        let offer = |(i, hits): (usize, Vec<usize>)| Offer {
            hits: shifted(verb, hits),
            ..Offer::new(format!("{verb} {}", ids[i]), "")
        };
        ranked(typed, &ids).into_iter().map(offer).collect()
    }

    /// The index of the cluster with this name, resolved as on the command line.
    pub fn cluster_named(&self, name: &str) -> Result<usize, String> {
        let clusters: Vec<&ClusterSpec> = self.fleet.clusters.iter().map(|c| &c.spec).collect();
        let unknown = || format!("no cluster `{name}`; {} lists them", self.keymap.key_of(Action::Clusters));
        match named(name, &clusters) {
            Named::One(cluster) => self.fleet.cluster_index(&cluster.name).ok_or_else(unknown),
            Named::Nothing => Err(unknown()),
            Named::Several(several) => {
                let names: Vec<&str> = several.iter().map(|c| c.name.as_str()).collect();
                Err(format!("`{name}` is ambiguous: {}; type more of the name", few(&names)))
            }
        }
    }
}

/// The indices of the names that contain the letters of `typed` in this order, best match first, with the matching
/// characters.
fn ranked(typed: &str, names: &[&str]) -> Vec<(usize, Vec<usize>)> {
    if typed.is_empty() {
        return (0..names.len()).map(|index| (index, Vec::new())).collect();
    }
    let letters = Atom::new(typed, CaseMatching::Ignore, Normalization::Smart, AtomKind::Fuzzy, false);
    let mut matcher = Matcher::new(Config::DEFAULT);
    let mut characters = Vec::new();
    let mut found = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let mut hits = Vec::new();
        let score = letters.indices(Utf32Str::new(name, &mut characters), &mut matcher, &mut hits);
        found.extend(score.map(|score| (score, index, hits)));
    }
    // The sort is stable: names of equal score keep their order.
    sort::by_key(&mut found, |(score, ..)| Reverse(*score));
    let indices = |hits: Vec<u32>| hits.into_iter().map(|hit| hit as usize).collect();
    found.into_iter().map(|(_, index, hits)| (index, indices(hits))).collect()
}

/// The first names, and the number of the others.
pub(in crate::app) fn few(names: &[&str]) -> String {
    const MAX_NAMES: usize = 4;
    let more = names.len().saturating_sub(MAX_NAMES);
    let more = if more > 0 { format!(", {more} more") } else { String::new() };
    names[..names.len().min(MAX_NAMES)].join(", ") + &more
}

/// The answer to a column that the table does not have, does not show or cannot be sorted by.
pub(in crate::app) fn no_column(name: &str) -> String {
    format!("no sortable column matches `{name}`")
}

/// The answer to an argument of a command that takes none.
pub(in crate::app) fn takes_nothing(word: &str, argument: &str) -> String {
    format!("`{word}` takes no argument: `{argument}`")
}

/// The pages of the manual.
fn pages(verb: &str, typed: &str) -> Vec<Offer> {
    let topics = manual::PAGES.map(|(topic, _)| topic);
    let offer = |(index, hits): (usize, Vec<usize>)| Offer {
        hits: shifted(verb, hits),
        ..Offer::new(format!("{verb} {}", topics[index]), manual::summary(manual::PAGES[index].1))
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
    use crate::app::input::offers::*;

    #[test]
    fn names_are_found_by_their_letters() {
        let names = ["stop-cluster", "sort-next", "restart-cluster", "start-cluster", "tpus"];
        let found = |typed| ranked(typed, &names).iter().map(|(i, _)| names[*i]).collect::<Vec<_>>();
        assert_eq!(found("start"), ["start-cluster", "restart-cluster"]);
        assert_eq!(found("STOC"), ["stop-cluster"]);
        assert_eq!(found("xyz"), [""; 0]);
        assert_eq!(found("").len(), names.len());
        let mut hits = ranked("sc", &names)[0].1.clone();
        hits.sort_unstable();
        assert_eq!(hits, [0, 5]);
    }

    #[test]
    fn the_name_of_an_action_runs_that_action() {
        for action in actions().iter().filter(|action| **action != Action::Help) {
            assert_eq!(Verb::named(action.describe().name), Some(Verb::Act(*action)), "{action:?}");
        }
    }

    #[test]
    fn verbs_are_found_by_a_prefix() {
        assert_eq!(Verb::named("restart-cluster"), Some(Verb::Act(Action::Restart)));
        assert_eq!(Verb::named("rest"), Some(Verb::Act(Action::Restart)));
        assert_eq!(Verb::named("s"), None, "the prefix is ambiguous");
        assert_eq!(Verb::named(""), None);
        assert_eq!(split(" cluster  us east "), ("cluster", Some("us east")));
        assert_eq!(split("jobs"), ("jobs", None));
        // Each synonym is unique, and finds its own verb by its full name.
        for (i, (word, verb)) in SYNONYMS.iter().enumerate() {
            assert!(SYNONYMS[..i].iter().all(|(other, _)| other != word), "{word}");
            assert_eq!(Verb::named(word), Some(*verb));
        }
    }
}
