//! Keys in a log: moving between matches, errors and marks, and selecting the lines that are shown.

use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::log::{JumpError, Landmark, LogView, Show, Step};
use crate::app::{Action, App, Effect};
use crate::model::Timestamp;

const NO_TIME: &str = "no line has a timestamp";

impl App {
    /// Changes the log on the screen.
    pub(in crate::app) fn in_log(&mut self, change: impl Fn(&mut LogView)) {
        if let Some(log) = self.log_mut() {
            change(log);
        }
    }

    /// Changes the log on the screen, and shows what the change reports.
    pub(in crate::app) fn ask_log(
        &mut self,
        now: Timestamp,
        change: impl FnOnce(&mut LogView) -> Option<String>,
    ) {
        if let Some(answer) = self.log_mut().and_then(change) {
            self.toasts.answer(answer, now);
        }
    }

    /// Switches a display option, unless raw lines, which are wrapped and include all noise, make it irrelevant.
    pub(in crate::app) fn toggle_unless_raw(&mut self, option: fn(&mut Show) -> &mut bool, now: Timestamp) {
        let raw = self.keyboard.keymap.key_of(Action::Raw);
        self.ask_log(now, |log| {
            if log.shows().raw {
                return Some(format!("raw lines are shown whole; {raw} turns them off"));
            }
            log.toggle(option);
            None
        });
    }

    /// Goes to the next or previous match of the search.
    pub(in crate::app) fn match_step(&mut self, forward: bool, now: Timestamp) {
        let search = self.keyboard.keymap.key_of(Action::Filter);
        let elsewhere =
            format!("{} searches the whole log", self.keyboard.keymap.key_of(Action::SearchWhole));
        self.ask_log(now, |log| {
            let sought = log.search().pattern().text().to_owned();
            if sought.is_empty() {
                return Some(format!("no search; {search} starts one"));
            }
            let answer = log.step_to(Landmark::Match, forward, &elsewhere)?;
            Some(format!("`{sought}`: {answer}"))
        });
    }

    /// Goes to the next or previous line that reports an error.
    pub(in crate::app) fn error_step(&mut self, forward: bool, now: Timestamp) {
        let key = |action| self.keyboard.keymap.key_of(action);
        let (search, whole) = (key(Action::Filter), key(Action::SearchWhole));
        let elsewhere = format!("{search} sets a pattern, {whole} searches the whole log for it");
        self.ask_log(now, |log| log.step_to(Landmark::Error, forward, &elsewhere));
    }

    /// Goes to the next or previous marked line.
    pub(in crate::app) fn mark_step(&mut self, forward: bool, now: Timestamp) {
        self.ask_log(now, |log| log.step_to(Landmark::Mark, forward, ""));
    }

    /// Opens the prompt for a position in the log.
    pub(in crate::app) fn begin_go_to(&mut self) {
        self.prompt = Some(Prompt::new(PromptKind::GoTo, ""));
    }

    /// Opens the prompt for the time since which lines are shown.
    pub(in crate::app) fn begin_since(&mut self) {
        self.prompt = Some(Prompt::new(PromptKind::Since, ""));
    }

    /// Handles typed text for the log: goes to a position, shows lines since a time, or saves the log. Invalid text
    /// stays in the prompt to be corrected.
    pub(in crate::app) fn enter_for_log(&mut self, text: &str, now: Timestamp) -> Vec<Effect> {
        let kind = self.prompt.as_ref().map(|prompt| prompt.kind);
        let wrong = match kind {
            Some(PromptKind::Save) if text.trim().is_empty() => Err("type a path".to_owned()),
            Some(PromptKind::Save) => {
                self.prompt = None;
                return self.save_log(text.trim(), now);
            }
            Some(PromptKind::Since) => self.log_mut().map_or(Ok(()), |log| log.since_typed(text, now)),
            _ => {
                let end = self.keyboard.keymap.key_of(Action::Bottom);
                let jumped = self.log_mut().map_or(Ok(()), |log| log.jump(text, now));
                jumped.map_err(|error| match error {
                    JumpError::AfterEnd => format!("{error}; press {end} to go to the end"),
                    _ => error.to_string(),
                })
            }
        };
        match (wrong, &mut self.prompt) {
            (Err(why), Some(prompt)) => prompt.wrong = why,
            _ => self.prompt = None,
        }
        Vec::new()
    }

    /// Opens the prompt for the filter.
    pub(in crate::app) fn begin_lines(&mut self) {
        let before = self.log().map(|log| log.line_filter().text().to_owned()).unwrap_or_default();
        self.prompt = Some(Prompt::new(PromptKind::Lines, &before));
    }

    /// Shows one line more around each match of the filter, or one fewer.
    pub(in crate::app) fn widen(&mut self, more: bool, now: Timestamp) {
        let key = self.keyboard.keymap.key_of(Action::ShowLines);
        self.ask_log(now, |log| {
            if !log.line_filter().is_filtered() {
                return Some(format!("all lines are shown; press {key} to filter them"));
            }
            log.widen(more);
            None
        });
    }

    /// Examines more lines of the log on the screen, if there are any. Returns whether these were the last.
    pub(in crate::app) fn examine_more(&mut self) -> bool {
        self.log_mut().is_some_and(|log| log.is_examining() && !log.examine_more())
    }

    /// Whether lines of the log on the screen still have to be searched or filtered: the loop should return at once.
    pub fn is_at_work(&self) -> bool {
        self.log().is_some_and(LogView::is_examining)
    }
}

impl LogView {
    /// Goes to the next or previous line of this kind; returns what there is to say: that it was the other end of the
    /// log, or that there is none. `elsewhere` says how to search the lines that are not loaded; empty if nothing does.
    pub(in crate::app) fn step_to(
        &mut self,
        landmark: Landmark,
        forward: bool,
        elsewhere: &str,
    ) -> Option<String> {
        let (step, one) = match landmark {
            Landmark::Mark => (self.next_mark(forward), "mark"),
            Landmark::Match => (self.next_match(forward), "match"),
            Landmark::Error => (self.next_error(forward), "error"),
        };
        let is_whole = self.above() == Some(0) && !self.is_cut();
        let scope = if is_whole { "the log" } else { "the loaded lines" };
        match step {
            Some(Step::Next | Step::Pending) => None,
            Some(Step::Wrapped) => {
                let end = if forward { "first" } else { "last" };
                Some(format!("wrapped around to the {end} {one} in {scope}"))
            }
            // Several logs are not searched on their hosts.
            None if is_whole || self.source().is_none() || elsewhere.is_empty() => {
                Some(format!("no {one} in {scope}"))
            }
            None => Some(format!("no {one} in {scope}; {elsewhere}")),
        }
    }

    /// Shows only lines of the next span of time; returns why that is not possible.
    pub(in crate::app) fn step_since(&mut self, now: Timestamp) -> Option<String> {
        (!self.turn_since(now)).then(|| NO_TIME.to_owned())
    }

    /// Goes to the next or previous bar of the histogram that has lines; returns why there is none.
    pub(in crate::app) fn step_in_time(&mut self, forward: bool) -> Option<String> {
        let why = match self.next_bin(self.size().width.max(1), forward) {
            Some(true) => return None,
            Some(false) if forward => "no later lines are loaded",
            Some(false) => "no earlier lines are loaded",
            None => NO_TIME,
        };
        Some(why.to_owned())
    }
}
