//! Copying: the id of the selection, the text on the screen, or one of its known values.

use crate::app::action::context::Context;
use crate::app::action::target::Target;
use crate::app::input::entry::{Offer, OfferKind};
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::pages::details::Details;
use crate::app::pages::found;
use crate::app::screen::dialog::Dialog;
use crate::app::table::filter::Filter;
use crate::app::text::details;
use crate::app::view::View;
use crate::app::{App, Effect};
use crate::model::Target as Command;
use crate::model::amount::counted;
use crate::model::command_line::shell_quote;
use crate::model::service::Service;
use crate::model::{JobKey, Timestamp};

/// A value that can be copied: a description and the text.
type Value = (String, String);

impl App {
    /// Copies the text of the dialog, the row under the cursor, the page or the log.
    pub(in crate::app) fn copy(&mut self, now: Timestamp) -> Vec<Effect> {
        let copied = self.copied_of_dialog().or_else(|| {
            if self.dialog.is_some() {
                return None;
            }
            let owned = |(what, text): (&str, String)| (what.to_owned(), text);
            match (self.listing(), self.view()) {
                (Some(listing), _) => listing.copied(&self.fleet).map(owned),
                (None, View::Details(page)) if is_text(&page.target) => {
                    let (title, text) = self.text_of_page(now)?;
                    Some((title.to_lowercase(), text))
                }
                (None, View::Details(page)) => page.target.copied(&self.fleet).map(owned),
                (None, View::Operation(_)) => {
                    let lines: Vec<&str> = self.watched()?.output().collect();
                    (!lines.is_empty()).then(|| ("output".to_owned(), lines.join("\n")))
                }
                (None, _) if self.context() == Context::Log => self.copied_of_log().into_iter().next(),
                (None, _) => None,
            }
        });
        if copied.is_none() {
            self.toasts.answer("nothing to copy here", now);
        }
        copied.map(|(what, text)| Effect::Copy { what, text }).into_iter().collect()
    }

    /// The title of the page on the screen, and its shown lines; `None` for a table or a log.
    pub(in crate::app) fn text_of_page(&self, now: Timestamp) -> Option<(&'static str, String)> {
        let page = self.stack.details()?;
        let (title, lines) = details::lines(&self.cell_context(now), page);
        Some((title, text_of(&Filter::of_lines(&page.filter, &lines))))
    }

    /// Opens the list of everything that can be copied here.
    pub(in crate::app) fn choose_copy(&mut self, now: Timestamp) {
        let values = self.values(now);
        if values.is_empty() {
            self.toasts.answer("nothing to copy here", now);
        } else {
            let offer = |(what, text): Value| {
                let help = text.lines().next().unwrap_or_default().to_owned();
                Offer { kind: OfferKind::Text(text), ..Offer::new(what, help) }
            };
            let values = values.into_iter().map(offer).collect();
            self.prompt = Some(Prompt::of(PromptKind::Copy, values));
        }
    }

    /// Copies an announcement of the planned operation and the affected jobs.
    pub(in crate::app) fn announce(&self) -> Vec<Effect> {
        let Some(Dialog::Plan(plan)) = &self.dialog else { return Vec::new() };
        vec![Effect::Copy { what: "announcement".to_owned(), text: plan.announcement() }]
    }

    /// The text of a dialog.
    fn copied_of_dialog(&self) -> Option<Value> {
        let Dialog::Text { lines, search, .. } = self.dialog.as_ref()? else { return None };
        Some(("text".to_owned(), text_of(&search.of(lines))))
    }

    /// Values to copy from the log on the screen: the visible lines, the current line, and the lines from the mark to
    /// it.
    fn copied_of_log(&self) -> Vec<Value> {
        let Some(log) = self.log() else { return Vec::new() };
        let seen: Vec<String> = log.copied_window().collect();
        let mut values = Vec::new();
        if !seen.is_empty() {
            values.push((counted(seen.len(), "line"), seen.join("\n")));
        }
        values.extend(log.current().map(|line| ("current line".to_owned(), line.to_owned())));
        if let Some(lines) = log.marked_range() {
            let what = format!("{} from the mark to the current line", counted(lines.len(), "line"));
            values.push((what, lines.join("\n")));
        }
        values
    }

    /// Everything that can be copied here: from the log, the facts and commands of the selection, and the latest
    /// message.
    fn values(&self, now: Timestamp) -> Vec<Value> {
        let mut values = Vec::new();
        let is_log = self.context() == Context::Log;
        if is_log {
            values.extend(self.copied_of_log());
        }
        values.extend(self.stack.details().and_then(Details::copied_process));
        if let Some(target) = self.target() {
            values.extend(self.commands(&target));
            if !is_log {
                let page = match self.view() {
                    View::Details(page) => details::lines(&self.cell_context(now), page),
                    _ => details::lines(&self.cell_context(now), &Details::of(target)),
                };
                values.extend(facts(page.1));
            }
        }
        if *self.view() == View::Table(&found::PAGE) {
            let unsearched = found::unsearched(&self.fleet, None);
            values
                .extend((!unsearched.is_empty()).then(|| ("not searched".to_owned(), unsearched.join("\n"))));
        }
        let message = self.toasts.messages().next();
        values.extend(message.map(|toast| ("latest message".to_owned(), toast.text.clone())));
        values
    }

    /// Command lines and addresses for a thing.
    fn commands(&self, target: &Target) -> Vec<Value> {
        let Some(cluster) =
            target.cluster_index().and_then(|cluster_index| self.fleet.clusters.get(cluster_index))
        else {
            return Vec::new();
        };
        let line = |what: &str, command: &str| (what.to_owned(), Command::of(cluster.name()).line(command));
        let mut values = Vec::new();
        if let Target::Job(_, JobKey::Submission(id)) = target {
            values.push(line("log command", &format!("job-logs {}", shell_quote(&id.to_string()))));
        }
        values.push(line("ssh command", "ssh"));
        let port = cluster.ports.get(&Service::Dashboard);
        let url = port.map(|port| Service::Dashboard.address(cluster.name(), *port));
        values.push(
            url.map_or_else(|| line("dashboard command", "forward"), |url| ("dashboard".to_owned(), url)),
        );
        values
    }
}

/// Whether a page is copied as a whole: its text, and not a name.
fn is_text(page: &Target) -> bool {
    matches!(page, Target::Messages | Target::Stacks(..) | Target::Chips(..))
}

/// Labelled lines as one text.
fn text_of(lines: &[&(String, String)]) -> String {
    let line = |(label, text): &&(String, String)| match (label.trim(), text) {
        ("", text) => text.clone(),
        (label, text) => format!("{label}  {text}"),
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Labelled lines as values: lines without a label belong to the previous one.
fn facts(lines: Vec<(String, String)>) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    // A label without a text is the title of a section.
    for (label, text) in lines.into_iter().filter(|(_, text)| !text.is_empty()) {
        match values.last_mut().filter(|_| label.trim().is_empty()) {
            Some((_, above)) => {
                above.push('\n');
                above.push_str(&text);
            }
            None => values.push((label, text)),
        }
    }
    values
}
