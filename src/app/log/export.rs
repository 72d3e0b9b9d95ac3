//! Exports the lines of the log, or of a page: to a file, to a pager, to an editor.

use crate::app::event::Viewer;
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::screen::dialog::{Dialog, Question};
use crate::app::{App, Effect, MessageKind, View};
use crate::model::{LogSource, Timestamp};

impl App {
    /// Opens the prompt for a file path, with a suggested name.
    pub(in crate::app) fn begin_save(&mut self, now: Timestamp) {
        let name = match self.view() {
            View::Details(page) => Some(safe_name(&format!("{}.txt", page.target.text(&self.fleet)))),
            _ => self.log().filter(|log| log.is_open()).map(|log| match log.source() {
                Some(source) => file_name(source),
                None => "logs.txt".to_owned(),
            }),
        };
        match name {
            Some(name) => self.prompt = Some(Prompt::new(PromptKind::Save, &name)),
            None => self.toasts.answer("no log is open", now),
        }
    }

    /// Saves the loaded lines, or those of the page, to a file.
    pub(in crate::app) fn save_log(&mut self, path: &str, now: Timestamp) -> Vec<Effect> {
        let written = |(text, loaded_lines)| Effect::WriteFile {
            path: path.to_owned(),
            text,
            replace: false,
            loaded_lines,
        };
        self.lines_taken_out(now).map(written).into_iter().collect()
    }

    /// Opens the loaded lines in a program.
    pub(in crate::app) fn view_log(&mut self, viewer: Viewer, now: Timestamp) -> Vec<Effect> {
        let line = self.log().map_or(1, crate::app::LogView::line_taken_out);
        let shown = |(text, _)| Effect::ShowText { viewer, text, line };
        self.lines_taken_out(now).map(shown).into_iter().collect()
    }

    /// The lines, and their number including hidden ones; a message if there are none.
    fn lines_taken_out(&mut self, now: Timestamp) -> Option<(String, usize)> {
        if let Some((_, text)) = self.text_of_page(now) {
            let lines = text.lines().count();
            return Some((text + "\n", lines));
        }
        let loaded_lines = self.log().map_or(0, crate::app::LogView::loaded);
        let why = match self.log().map(crate::app::LogView::taken_out) {
            Some(Some(text)) if !text.is_empty() => return Some((text, loaded_lines)),
            Some(None) => "the lines are still being filtered; try again in a moment",
            Some(Some(_)) | None => "the log shows no lines",
        };
        self.toasts.answer(why, now);
        None
    }

    /// Asks whether to replace an existing file, unless the screen has changed in the meantime.
    pub(in crate::app) fn ask_to_replace(
        &mut self,
        path: String,
        (text, loaded_lines): (String, usize),
        now: Timestamp,
    ) {
        self.dirty = true;
        let shown = crate::model::text::printable(&path).into_owned();
        if self.dialog.is_some() || self.prompt.is_some() {
            self.toasts.report(MessageKind::Bad, format!("not saved: {shown} already exists"), now);
            return;
        }
        let lines = vec![
            ("file".to_owned(), shown.clone()),
            (String::new(), "The file already exists. Its content will be replaced.".to_owned()),
        ];
        let title = format!("Replace {shown}?");
        let question = Question::ReplaceFile { path, text, loaded_lines };
        self.dialog = Some(Dialog::ask(question, title, lines, "Replace file"));
    }
}

/// A file name for lines of this log, safe in a path.
fn file_name(source: &LogSource) -> String {
    let name = match source {
        LogSource::Job(id) => format!("{}.log", id.0.raw()),
        LogSource::Monitor(name) => name.clone(),
        LogSource::File { name, .. } => name.raw().to_owned(),
    };
    safe_name(&name)
}

fn safe_name(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' };
    name.chars().map(safe).collect::<String>().trim_start_matches(['.', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use crate::app::log::export::*;
    use crate::model::SubmissionId;

    #[test]
    fn a_name_stays_in_its_folder() {
        let name = |id: &str| file_name(&LogSource::Job(SubmissionId(id.into())));
        assert_eq!(name("train-1"), "train-1.log");
        assert_eq!(name("../../etc/x y\n"), "etc-x-y-.log");
    }
}
