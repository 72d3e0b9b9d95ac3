//! Typed text: live filters and searches, the palette's line, the search of a text, and the answers to keys that are not
//! available here.

use super::actions::{Action, Context};
use super::dialog::Dialog;
use super::filter::Filter;
use super::form::Field;
use super::history::Entered;
use super::line::Line;
use super::prompt::{Prompt, PromptKind, Typed, arrow};
use super::{App, Effect, Pane, Tone, View, order, tpus};
use crate::model::Timestamp;
use crossterm::event::{KeyCode, KeyEvent};

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

    /// Searches the log, or filters the table. A text that is no filter leaves the table as it is; the line says why.
    fn set_filter(&mut self, text: &str) {
        let pane = self.pane;
        if let Some(c) = self.current_mut()
            && !matches!(pane, Pane::Nodes | Pane::Jobs)
        {
            c.log.set_search(text);
            return;
        }
        let parsed = Filter::parse(text, self.filter_columns());
        if let Some(prompt) = &mut self.prompt {
            prompt.wrong = parsed.as_ref().err().map(ToString::to_string).unwrap_or_default();
        }
        let Ok(filter) = parsed else { return };
        match self.current_mut() {
            None => self.set_fleet_filter(filter),
            Some(c) if pane == Pane::Nodes => {
                c.nodes.set_filter(filter);
                c.arrange_nodes();
            }
            Some(c) => {
                c.jobs.set_filter(filter);
                c.arrange_jobs();
            }
        }
    }

    /// The names that may stand before a colon in the filter of the focused table.
    fn filter_columns(&self) -> &'static [&'static str] {
        match (self.view, self.pane) {
            (View::Clusters, _) => &["cluster", "issue"],
            (View::Nodes, _) => &order::NODE_FIELDS,
            (View::Jobs, _) => &order::JOB_FIELDS,
            (View::Tpus(_), _) => &tpus::TPU_FIELDS,
            // The cluster's name is the last of the fields, and the same in all rows here.
            (View::Cluster(_), Pane::Nodes) => &order::NODE_FIELDS[..5],
            (View::Cluster(_), _) => &order::JOB_FIELDS[..5],
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

    fn set_fleet_filter(&mut self, filter: Filter) {
        match self.view {
            View::Nodes => self.all_nodes.table_mut().set_filter(filter),
            View::Jobs => self.all_jobs.table_mut().set_filter(filter),
            View::Tpus(_) => self.filter_tpus(filter),
            _ => {
                self.list.set_filter(filter);
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
        let offers = if arrow(key).is_some() { self.offers().len() } else { 0 };
        let Some(prompt) = &mut self.prompt else { return Vec::new() };
        match prompt.key(key) {
            Typed::Changed => self.typed(),
            Typed::Recall { is_older } => {
                if prompt.recall(&self.history, is_older) {
                    self.typed();
                }
            }
            Typed::Choose { is_down } => prompt.choose(is_down, offers),
            Typed::Complete if prompt.kind.has_list() => self.complete_command(),
            Typed::Escape => {
                let before = (!prompt.kind.has_list()).then(|| String::clone(&prompt.before));
                self.prompt = None;
                if let Some(before) = before {
                    self.set_filter(&before);
                }
            }
            Typed::Enter if prompt.kind.has_list() => return self.enter_command(now),
            // A text that is no filter is to be put right.
            Typed::Enter if !prompt.wrong.is_empty() => {}
            Typed::Enter => {
                prompt.keep(&mut self.history);
                let searched = prompt.kind == PromptKind::Search && !prompt.line.is_empty();
                self.prompt = None;
                if searched {
                    return self.match_step(false, now);
                }
            }
            Typed::Complete | Typed::Nothing => {}
        }
        Vec::new()
    }

    /// A key while a text is shown: enter and esc end its search, and the key of filters begins one. False when the
    /// key is none of these.
    pub(super) fn text_key(&mut self, key: KeyEvent) -> bool {
        let is_filter = self.keymap.elsewhere(key).any(|(_, action)| action == Action::Filter);
        let Some(Dialog::Tell { search, pages, top, .. }) = &mut self.dialog else { return false };
        match (key.code, search.is_open) {
            (KeyCode::Enter, true) => search.is_open = false,
            (KeyCode::Backspace, true) if search.line.is_empty() => search.is_open = false,
            (KeyCode::Esc, _) if search.is_open || !search.line.is_empty() => {
                (search.line, search.is_open) = (Line::default(), false);
            }
            (_, false) if is_filter => {
                (search.is_open, *top) = (true, 0);
            }
            (KeyCode::Enter, false) if *pages => self.prompt = Some(Prompt::new(PromptKind::Page, "")),
            _ => return false,
        }
        true
    }

    /// An arrow in the entrypoint of a job's form recalls what was submitted before. Without such an entry it changes
    /// the field.
    pub(super) fn recalls(&mut self, key: KeyEvent) -> bool {
        let Some(is_older) = arrow(key) else { return false };
        let Some(Dialog::Form(form)) = &mut self.dialog else { return false };
        let Some(row) = form.rows.get_mut(form.at).filter(|row| row.field == Field::Command) else {
            return false;
        };
        form.doing.is_none()
            && self.history.recall(Entered::Entrypoint, &mut form.recall, &mut row.line, is_older)
    }

    /// Says where a key is available that is not available here; silent for unknown keys. In a dialog, which lies over
    /// the messages, the footer says it.
    pub(super) fn say_where(&mut self, key: KeyEvent, now: Timestamp) {
        if let Some(dialog) = self.dialog.take() {
            let below = self.context();
            self.dialog = Some(dialog);
            self.say_in_dialog(key, below);
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

    fn say_in_dialog(&mut self, key: KeyEvent, below: Context) {
        let found: Vec<(String, Action)> = self.keymap.elsewhere(key).collect();
        let Some((shown, _)) = found.first() else { return };
        let on_page = found.iter().map(|(_, action)| action.describe()).find(|d| d.contexts.contains(&below));
        self.note = if let Some(d) = on_page {
            let back = self.key_of(Action::Back);
            format!("{shown} is not available in this dialog; {back} closes it, then {shown} is {}", d.name)
        } else {
            let means = found.iter().map(|(_, action)| action.describe());
            let means: Vec<String> = means.map(|d| format!("{} in {}", d.name, d.places())).collect();
            format!("{shown} is not available in this dialog; it is {}", means.join("; "))
        };
    }
}
