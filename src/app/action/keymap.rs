//! The keymap: which action each key is bound to. The default keys are defined in `assets/keymap.yaml` only.

use crate::app::action::context::Context;
use crate::app::action::table::Action;
use crate::model::sort;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Reverse;
use std::collections::BTreeMap;

const DEFAULT: &str = include_str!("../../../assets/keymap.yaml");

/// One key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chord {
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl Chord {
    fn parse(word: &str) -> Option<Self> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = word;
        loop {
            if let Some(after) = rest.strip_prefix("ctrl-") {
                (modifiers, rest) = (modifiers | KeyModifiers::CONTROL, after);
            } else if let Some(after) = rest.strip_prefix("alt-") {
                (modifiers, rest) = (modifiers | KeyModifiers::ALT, after);
            } else {
                break;
            }
        }
        let mut characters = rest.chars();
        let code = match (characters.next(), characters.next()) {
            (Some(c), None) => KeyCode::Char(c),
            _ => named(rest)?,
        };
        Some(Self { code, modifiers })
    }

    /// Drops shift: terminals differ in whether they report it with a character that is already upper-case.
    fn of(key: KeyEvent) -> Self {
        let kept = KeyModifiers::CONTROL | KeyModifiers::ALT;
        Self { code: key.code, modifiers: key.modifiers & kept }
    }

    /// The key as [`Self::parse`] reads it; `None` for keys that it does not read.
    fn text(self) -> Option<String> {
        let name = NAMED_KEYS.iter().find(|(_, code)| *code == self.code).map(|(name, _)| (*name).to_owned());
        let key = match (name, self.code) {
            (Some(name), _) => name,
            (None, KeyCode::Char(c)) if !c.is_control() => c.to_string(),
            (None, KeyCode::F(n)) => format!("f{n}"),
            _ => return None,
        };
        let control = if self.modifiers.contains(KeyModifiers::CONTROL) { "ctrl-" } else { "" };
        let alt = if self.modifiers.contains(KeyModifiers::ALT) { "alt-" } else { "" };
        Some(format!("{control}{alt}{key}"))
    }
}

/// Keys that have a name.
const NAMED_KEYS: [(&str, KeyCode); 14] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backtab", KeyCode::BackTab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pgup", KeyCode::PageUp),
    ("pgdn", KeyCode::PageDown),
];

fn named(word: &str) -> Option<KeyCode> {
    let code = NAMED_KEYS.iter().find(|(name, _)| *name == word).map(|(_, code)| *code);
    let function = || word.strip_prefix('f')?.parse().ok().filter(|n| (1..=12).contains(n));
    code.or_else(|| function().map(KeyCode::F))
}

/// An error in the keymap.
#[derive(Debug, thiserror::Error)]
pub enum KeymapError {
    /// The YAML is invalid.
    #[error("cannot read the keymap")]
    Yaml(#[from] serde_yaml::Error),
    /// Keys are bound to an action that does not exist.
    #[error("keys: unknown action `{0}`; ? in the console lists the actions")]
    UnknownAction(String),
    /// A key is invalid.
    #[error("keys: invalid key `{key}` for `{action}`; use e.g. `x`, `ctrl-x`, `f5`, `g g`")]
    UnknownKey {
        /// The name of the action in the keymap.
        action: String,
        /// The key as it is written in the keymap.
        key: String,
    },
    /// Two actions of one context have the same key.
    #[error("keys: `{key}` is bound to both `{first}` and `{second}`; remove it from one of them")]
    Conflict {
        /// The key as it is written in the keymap.
        key: String,
        /// The action to which the key was bound first.
        first: &'static str,
        /// The action to which it is bound again.
        second: &'static str,
    },
}

#[derive(Clone, Debug)]
struct Binding {
    keys: Vec<Chord>,
    /// As written in the keymap, for the screen.
    text: String,
    action: Action,
}

/// The meaning of the keys pressed so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// They are bound to this action.
    Action(Action),
    /// They are the beginning of a longer sequence.
    Pending,
    /// They are not bound.
    Nothing,
}

/// The keys of every action.
#[derive(Clone, Debug, Default)]
pub struct Keymap {
    actions: &'static [Action],
    bindings: Vec<Binding>,
    /// Whether the screen spells key names out in ASCII.
    spelled: bool,
}

impl Keymap {
    /// The default keys of these actions, with the keys of some replaced.
    pub fn with_changes(
        actions: &'static [Action],
        changes: &BTreeMap<String, Vec<String>>,
    ) -> Result<Self, KeymapError> {
        let mut keys: BTreeMap<String, Vec<String>> = serde_yaml::from_str(DEFAULT)?;
        keys.extend(changes.iter().map(|(k, v)| (k.clone(), v.clone())));
        let mut keymap = Self { actions, bindings: Vec::new(), spelled: false };
        for (name, words) in &keys {
            let named = actions.iter().find(|action| action.describe().name == name);
            let action = *named.ok_or_else(|| KeymapError::UnknownAction(name.clone()))?;
            for word in words {
                keymap.bind(action, word)?;
            }
        }
        Ok(keymap)
    }

    /// Sets whether the screen spells key names out in ASCII: `enter` instead of `⏎`.
    #[must_use]
    pub fn spelled_out(self, spelled: bool) -> Self {
        Self { spelled, ..self }
    }

    fn bind(&mut self, action: Action, words: &str) -> Result<(), KeymapError> {
        let description = action.describe();
        let unknown = || KeymapError::UnknownKey { action: description.name.into(), key: words.into() };
        let keys: Option<Vec<Chord>> = words.split_whitespace().map(Chord::parse).collect();
        let keys = keys.filter(|k| !k.is_empty()).ok_or_else(unknown)?;
        let conflicts = |other: &&Binding| {
            let theirs = other.action.describe().contexts;
            let shared = keys.len().min(other.keys.len());
            other.keys[..shared] == keys[..shared] && description.contexts.iter().any(|c| theirs.contains(c))
        };
        if let Some(other) = self.bindings.iter().find(conflicts) {
            let (first, second) = (other.action.describe().name, description.name);
            return Err(KeymapError::Conflict { key: words.into(), first, second });
        }
        self.bindings.push(Binding { keys, text: words.into(), action });
        Ok(())
    }

    /// The meaning of `key` in this context after the keys `before`.
    pub fn meaning(&self, context: Context, before: &[KeyEvent], key: KeyEvent) -> Meaning {
        let pressed: Vec<Chord> = before.iter().chain([&key]).map(|k| Chord::of(*k)).collect();
        let here = self.bindings.iter().filter(|b| b.action.describe().contexts.contains(&context));
        let mut matching = here.filter(|b| b.keys.starts_with(&pressed));
        match matching.next() {
            Some(binding) if binding.keys.len() == pressed.len() => Meaning::Action(binding.action),
            Some(_) => Meaning::Pending,
            None => Meaning::Nothing,
        }
    }

    /// The actions that a key has in any context, with the key as the screen shows it; actions with most contexts
    /// first.
    pub fn elsewhere(&self, key: KeyEvent) -> impl Iterator<Item = (String, Action)> {
        let pressed = Chord::of(key);
        let of_key = move |b: &&Binding| b.keys == [pressed];
        let mut found: Vec<&Binding> = self.bindings.iter().filter(of_key).collect();
        sort::by_key(&mut found, |b| Reverse(b.action.describe().contexts.len()));
        found.into_iter().map(|b| (self.pretty(&b.text), b.action))
    }

    /// A key as the screen shows it; `None` for keys without a name, such as media keys.
    pub fn shown(&self, key: KeyEvent) -> Option<String> {
        Chord::of(key).text().map(|text| self.pretty(&text))
    }

    /// The first key of an action as the screen shows it; empty if it has none.
    pub fn key_of(&self, action: Action) -> String {
        self.keys_of(action).next().unwrap_or_default()
    }

    /// All keys of an action as the screen shows them.
    pub fn keys_of(&self, action: Action) -> impl Iterator<Item = String> {
        self.bindings.iter().filter(move |b| b.action == action).map(|b| self.pretty(&b.text))
    }

    /// The actions of a context with their first key, in the order of the table.
    pub fn hints(&self, context: Context) -> impl Iterator<Item = (Action, String)> {
        let here = self.actions.iter().filter(move |action| action.describe().contexts.contains(&context));
        here.filter_map(|action| Some((*action, self.keys_of(*action).next()?)))
    }

    /// `ctrl-r` as `^r`, `enter` as `⏎` unless key names are spelled out.
    fn pretty(&self, words: &str) -> String {
        let word = |w: &str| match w {
            "enter" if !self.spelled => "⏎".to_owned(),
            "backtab" => "shift-tab".to_owned(),
            w => w.replace("ctrl-", "^"),
        };
        words.split_whitespace().map(word).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use crate::app::action::keymap::*;
    use crate::app::action::list::actions;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
        KeyEvent::new(code, modifiers)
    }

    #[test]
    fn every_action_has_a_key_without_conflicts() {
        let keymap = Keymap::with_changes(actions(), &BTreeMap::new()).unwrap();
        for action in actions() {
            assert!(keymap.keys_of(*action).next().is_some(), "{action:?} has no key");
        }
    }

    #[test]
    fn the_meaning_of_a_key_depends_on_the_context() {
        let keymap = Keymap::with_changes(actions(), &BTreeMap::new()).unwrap();
        let y = key(KeyCode::Char('y'), KeyModifiers::NONE);
        assert_eq!(keymap.meaning(Context::Jobs, &[], y), Meaning::Action(Action::Copy));
        assert_eq!(keymap.meaning(Context::Ask, &[], y), Meaning::Action(Action::Accept));
        let g = key(KeyCode::Char('g'), KeyModifiers::NONE);
        assert_eq!(keymap.meaning(Context::Jobs, &[], g), Meaning::Pending);
        assert_eq!(keymap.meaning(Context::Jobs, &[g], g), Meaning::Action(Action::Top));
        assert_eq!(keymap.meaning(Context::Jobs, &[g], y), Meaning::Nothing);
        let shifted = key(KeyCode::Char('G'), KeyModifiers::SHIFT);
        assert_eq!(keymap.meaning(Context::Jobs, &[], shifted), Meaning::Action(Action::Bottom));
        let quit = key(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(keymap.meaning(Context::Ask, &[], quit), Meaning::Action(Action::ForceQuit));
    }

    #[test]
    fn changes_are_validated() {
        let change = |action: &str, key: &str| {
            Keymap::with_changes(actions(), &BTreeMap::from([(action.to_owned(), vec![key.to_owned()])]))
                .map(|_| ())
        };
        assert!(change("stop-job", "K").is_ok());
        assert!(matches!(change("stop-jobs", "x"), Err(KeymapError::UnknownAction(_))));
        assert!(matches!(change("stop-job", "hyper-x"), Err(KeymapError::UnknownKey { .. })));
        assert!(matches!(change("stop-job", "j"), Err(KeymapError::Conflict { .. })));
        assert!(matches!(change("stop-job", "g"), Err(KeymapError::Conflict { .. })));
    }
}
