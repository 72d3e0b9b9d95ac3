//! Typed text: live filters and searches, the palette's line, the search within a text, and the answers to keys that
//! are not available here.

use crate::app::action::context::{Context, place};
use crate::app::action::table::Action;
use crate::app::input::line::{Line, arrow};
use crate::app::input::prompt::{Prompt, PromptKind, Typed};
use crate::app::log::{self, LogView};
use crate::app::table::filter::Filter;
use crate::app::{App, Effect};
use crate::logs::Pattern;
use crate::model::Timestamp;
use crossterm::event::{KeyCode, KeyEvent};
use unicode_width::UnicodeWidthStr;

impl App {
    /// Opens the line for the filter of the focused table or of the text, or for the search in the log.
    pub(in crate::app) fn begin_filter(&mut self) {
        self.prompt = match (self.listing(), self.context()) {
            (Some(listing), _) => Some(Prompt::with_more(PromptKind::Filter, listing.filter().text())),
            (None, Context::Log) => {
                let before = self.log().map(|log| log.search().pattern().text().to_owned());
                Some(empty(Prompt::new(PromptKind::Search, &before.unwrap_or_default())))
            }
            (None, _) => self.stack.details().map(|page| Prompt::new(PromptKind::Filter, &page.filter)),
        };
    }

    /// Clears the filter or the search. Returns whether there was one.
    pub(in crate::app) fn clear_filter(&mut self) -> bool {
        let is_log = self.context() == Context::Log;
        let is_set = match self.listing() {
            Some(listing) => !listing.filter().text().is_empty(),
            None if self.stack.details().is_some_and(|page| !page.filter.is_empty()) => true,
            None => is_log && self.log().is_some_and(LogView::is_narrowed),
        };
        if let Some(log) = self.log_mut().filter(|log| is_log && !log.is_narrowed()) {
            if log.line_filter().least().is_some() {
                log.show_levels(None);
                return true;
            }
            if log.since().is_some() {
                log.show_since(None);
                return true;
            }
        }
        let is_searched = is_log && self.log().is_some_and(|log| !log.search().pattern().is_empty());
        if is_set {
            // In a log the search is cleared first, then the filter.
            let kind = if is_log && !is_searched { PromptKind::Lines } else { PromptKind::Filter };
            self.set_text(kind, "");
        }
        is_set
    }

    /// Searches the log, filters its lines, or filters the table or the text. An invalid pattern or filter changes
    /// nothing; the line shows the error.
    fn set_text(&mut self, kind: PromptKind, text: &str) {
        let wrong = match self.listing_mut() {
            Some((listing, fleet)) => {
                let parsed = Filter::parse(text, &listing.fields()).map_err(|e| e.to_string());
                parsed.map(|filter| listing.set_filter(fleet, filter)).err()
            }
            None if kind == PromptKind::Lines => {
                let parsed = log::Filter::parse(text).map_err(|e| e.to_string());
                parsed.map(|filter| self.log_mut().map(|log| log.set_filter(filter))).err()
            }
            None => {
                if let Some(page) = self.stack.details_mut() {
                    text.clone_into(&mut page.filter);
                    page.scroll.reset();
                    return;
                }
                let parsed = Pattern::parse(text).map_err(|e| e.to_string());
                parsed.map(|pattern| self.log_mut().map(|log| log.set_search(pattern))).err()
            }
        };
        if let Some(prompt) = &mut self.prompt {
            prompt.wrong = wrong.unwrap_or_default();
        }
    }

    /// Handles a change of the prompt's text: filters and searches are live.
    pub(in crate::app) fn typed(&mut self) {
        if let Some(Prompt { kind, line, .. }) = &self.prompt
            && kind.is_live()
        {
            let (kind, text) = (*kind, line.text().to_owned());
            self.set_text(kind, &text);
        } else if let Some(prompt) = &mut self.prompt {
            prompt.wrong.clear();
        }
    }

    pub(in crate::app) fn prompt_key(&mut self, key: KeyEvent, now: Timestamp) -> Vec<Effect> {
        let is_page = matches!(key.code, KeyCode::PageUp | KeyCode::PageDown);
        let offers = if is_page || arrow(key).is_some() { self.offers() } else { Vec::new() };
        let Some(prompt) = &mut self.prompt else { return Vec::new() };
        match prompt.key(key) {
            Typed::Changed => self.typed(),
            Typed::Recall { is_older } => {
                if prompt.recall(&self.history, is_older) {
                    self.typed();
                }
            }
            Typed::Choose { is_down } => prompt.choose(is_down, offers),
            Typed::Leap { is_down } => prompt.leap(is_down, offers),
            Typed::Complete if prompt.kind.has_list() => self.complete_command(),
            Typed::Escape => {
                let (kind, before) = (prompt.kind, String::clone(&prompt.before));
                self.prompt = None;
                if kind.is_live() {
                    self.set_text(kind, &before);
                }
            }
            Typed::Enter if prompt.kind.has_list() => return self.enter_command(now),
            Typed::Enter
                if matches!(prompt.kind, PromptKind::GoTo | PromptKind::Save | PromptKind::Since) =>
            {
                let text = prompt.line.text().to_owned();
                return self.enter_for_log(&text, now);
            }
            Typed::Enter if prompt.kind == PromptKind::Logs => {
                let text = prompt.line.text().to_owned();
                return self.search_logs(&text, now);
            }
            // An invalid filter has to be corrected first.
            Typed::Enter if !prompt.wrong.is_empty() => {}
            Typed::Enter => {
                prompt.keep(&mut self.history);
                let searched = prompt.kind == PromptKind::Search && !prompt.line.is_empty();
                self.prompt = None;
                if searched {
                    self.match_step(false, now);
                }
            }
            Typed::Complete | Typed::Nothing => {}
        }
        Vec::new()
    }

    /// Reports where a key is available that is not available here, or that it is not bound. In a dialog, which covers
    /// the messages, the footer reports it.
    pub(in crate::app) fn answer_unavailable_key(&mut self, key: KeyEvent, now: Timestamp) {
        if let Some(dialog) = self.dialog.take() {
            let below = self.context();
            self.dialog = Some(dialog);
            self.answer_in_dialog(key, below);
            return;
        }
        // The key that opens a page needs no message on that page.
        let here = match self.context() {
            Context::Tpus => Some(Action::Tpus),
            Context::Clusters => Some(Action::Clusters),
            _ => None,
        };
        let elsewhere = self.keyboard.keymap.elsewhere(key).filter(|(_, action)| Some(*action) != here);
        let found: Vec<(String, Action)> = elsewhere.collect();
        let Some((shown, _)) = found.first() else {
            if let Some(text) = self.unknown(key) {
                self.toasts.answer(text, now);
            }
            return;
        };
        let text = elsewhere_in_short(&format!("{shown} is not available here"), &found);
        self.toasts.answer(text, now);
    }

    /// The answer to a key that is not bound; `None` for bound keys, and for keys without a name.
    fn unknown(&self, key: KeyEvent) -> Option<String> {
        let help = self.keyboard.keymap.key_of(Action::Help);
        let is_known = self.keyboard.keymap.elsewhere(key).next().is_some();
        let shown = self.keyboard.keymap.shown(key).filter(|_| !is_known)?;
        Some(format!("{shown} is not bound to an action; {help} lists the keys"))
    }

    fn answer_in_dialog(&mut self, key: KeyEvent, below: Context) {
        let found: Vec<(String, Action)> = self.keyboard.keymap.elsewhere(key).collect();
        let Some((shown, _)) = found.first() else {
            self.note = self.unknown(key).unwrap_or_default();
            return;
        };
        let on_page = found.iter().map(|(_, action)| action.describe()).find(|d| d.contexts.contains(&below));
        self.note = if let Some(d) = on_page {
            let back = self.keyboard.keymap.key_of(Action::Back);
            let what = d.in_brief();
            format!("{shown} is not available in this dialog; close it with {back} to use it ({what})")
        } else {
            elsewhere_in_short(&format!("{shown} is not available in this dialog"), &found)
        };
    }
}

/// One line that ends with what a key does elsewhere: the first context of each action, as many as fit.
fn elsewhere_in_short(beginning: &str, found: &[(String, Action)]) -> String {
    /// Maximum width of such a line, in columns, if it names more than one action.
    const MAX_WIDTH: usize = 70;
    let mut text = String::new();
    for (_, action) in found {
        let d = action.describe();
        let (context, what) = (d.first_context(), d.in_brief());
        let next = match text.as_str() {
            "" => format!("{beginning}; use it {} ({what})", place(context)),
            text => format!("{text}, {context} ({what})"),
        };
        if text.is_empty() || next.width() <= MAX_WIDTH {
            text = next;
        }
    }
    text
}

/// Empties the line of a prompt: a search starts with a new pattern, as in `less`, while a filter is refined.
pub(in crate::app) fn empty(mut prompt: Prompt) -> Prompt {
    prompt.line = Line::default();
    prompt
}
