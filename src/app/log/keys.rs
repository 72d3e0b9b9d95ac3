//! Keys in a log: moving between matches, errors and marks, and selecting the lines that are shown.

use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::log::{LogView, Step};
use crate::app::{Action, App, Effect};
use crate::model::Timestamp;

/// A kind of line, in words for messages.
struct Kind {
    next: fn(&mut LogView, bool) -> Option<Step>,
    /// A single one: `error`.
    one: &'static str,
}

const ERRORS: Kind = Kind { next: LogView::next_error, one: "error" };
const MARKS: Kind = Kind { next: LogView::next_mark, one: "mark" };

const NO_TIME: &str = "no line has a timestamp";

impl App {
    /// Changes the log on the screen.
    pub(in crate::app) fn in_log(&mut self, change: impl Fn(&mut LogView)) -> Vec<Effect> {
        if let Some(log) = self.log_mut() {
            change(log);
        }
        Vec::new()
    }

    /// Goes to the next or previous match of the search.
    pub(in crate::app) fn match_step(&mut self, forward: bool, now: Timestamp) -> Vec<Effect> {
        let search = self.key_of(Action::Filter);
        let Some(log) = self.log_mut() else { return Vec::new() };
        let sought = log.search().pattern().text().to_owned();
        if sought.is_empty() {
            self.toasts.answer(format!("no search; {search} starts one"), now);
            return Vec::new();
        }
        let step = log.next_match(forward);
        self.report_step(step, forward, (&format!("`{sought}`: "), "match"), now);
        Vec::new()
    }

    /// Goes to the next or previous line that reports an error.
    pub(in crate::app) fn error_step(&mut self, forward: bool, now: Timestamp) -> Vec<Effect> {
        self.step_of(&ERRORS, forward, now)
    }

    /// Goes to the next or previous marked line.
    pub(in crate::app) fn mark_step(&mut self, forward: bool, now: Timestamp) -> Vec<Effect> {
        self.step_of(&MARKS, forward, now)
    }

    fn step_of(&mut self, kind: &Kind, forward: bool, now: Timestamp) -> Vec<Effect> {
        let Some(log) = self.log_mut() else { return Vec::new() };
        let step = (kind.next)(log, forward);
        self.report_step(step, forward, ("", kind.one), now);
        Vec::new()
    }

    /// Reports that a move wrapped around, or found nothing.
    fn report_step(&mut self, step: Option<Step>, forward: bool, (of, one): (&str, &str), now: Timestamp) {
        let is_all = self.log().is_some_and(|log| log.above() == Some(0));
        let place = if is_all { "the log" } else { "the loaded lines" };
        let text = match step {
            Some(Step::Next | Step::Pending) => return,
            Some(Step::Wrapped) => {
                let end = if forward { "first" } else { "last" };
                format!("{of}wrapped around to the {end} {one} in {place}")
            }
            None => format!("{of}no {one} in {place}"),
        };
        self.toasts.answer(text, now);
    }

    /// Shows only lines of the next span of time.
    pub(in crate::app) fn turn_since(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.log_mut().is_some_and(|log| !log.turn_since(now)) {
            self.toasts.answer(NO_TIME, now);
        }
        Vec::new()
    }

    /// Goes to the next or previous bar of the histogram that has lines.
    pub(in crate::app) fn time_step(&mut self, forward: bool, now: Timestamp) -> Vec<Effect> {
        let Some(log) = self.log_mut() else { return Vec::new() };
        let width = log.size().width.max(1);
        let message = match log.next_bin(width, forward) {
            Some(true) => return Vec::new(),
            Some(false) if forward => "no later lines are loaded",
            Some(false) => "no earlier lines are loaded",
            None => NO_TIME,
        };
        self.toasts.answer(message, now);
        Vec::new()
    }

    /// Opens the prompt for a position in the log.
    pub(in crate::app) fn begin_go_to(&mut self) -> Vec<Effect> {
        self.prompt = Some(Prompt::new(PromptKind::GoTo, ""));
        Vec::new()
    }

    /// Opens the prompt for the time since which lines are shown.
    pub(in crate::app) fn begin_since(&mut self) -> Vec<Effect> {
        self.prompt = Some(Prompt::new(PromptKind::Since, ""));
        Vec::new()
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
            _ => self.log_mut().map_or(Ok(()), |log| log.jump(text, now)),
        };
        match (wrong, &mut self.prompt) {
            (Err(why), Some(prompt)) => prompt.wrong = why,
            _ => self.prompt = None,
        }
        Vec::new()
    }

    /// Opens the prompt for the filter.
    pub(in crate::app) fn begin_lines(&mut self) -> Vec<Effect> {
        let before = self.log().map(|log| log.lens().text().to_owned()).unwrap_or_default();
        self.prompt = Some(Prompt::new(PromptKind::Lines, &before));
        Vec::new()
    }

    /// Shows one line more around each match of the filter, or one fewer.
    pub(in crate::app) fn widen(&mut self, more: bool, now: Timestamp) -> Vec<Effect> {
        let key = self.key_of(Action::ShowLines);
        let Some(log) = self.log_mut() else { return Vec::new() };
        if log.lens().is_filtered() {
            log.widen(more);
        } else {
            self.toasts.answer(format!("all lines are shown; press {key} to filter them"), now);
        }
        Vec::new()
    }

    /// Examines more lines of the log on the screen, if there are any. Returns whether these were the last.
    pub(in crate::app) fn examine_more(&mut self) -> bool {
        self.log_mut().is_some_and(|log| log.is_looking() && !log.examine_more())
    }

    /// Whether lines of the log on the screen still have to be searched or filtered: the loop should return at once.
    pub fn is_at_work(&self) -> bool {
        self.log().is_some_and(LogView::is_looking)
    }
}
