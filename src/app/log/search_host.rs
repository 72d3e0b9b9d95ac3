//! Searches a whole log on its host, and lists the results.

use crate::app::input::entry::{Offer, OfferKind};
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::log::MatchPosition;
use crate::app::screen::dialog::{Dialog, Question};
use crate::app::{Action, App, Effect, MessageKind, View};
use crate::model::amount::{bytes, counted};
use crate::model::text::printable;
use crate::model::{
    ClusterName, LogMatch, LogMatches, LogName, LogSource, MAX_DOWNLOAD, NotSearched, Request, StreamId,
    Timestamp,
};

impl App {
    /// Searches the whole log on the screen for the pattern of the current search.
    pub(in crate::app) fn search_whole(&mut self, now: Timestamp) -> Vec<Effect> {
        let search = self.keyboard.keymap.key_of(Action::Filter);
        let Some((log, name)) = self.log().zip(self.current().map(|c| c.name().clone())) else {
            return Vec::new();
        };
        let pattern = log.search().pattern().text().to_owned();
        let (message, effects) = match (pattern.is_empty(), log.source()) {
            (true, _) => (format!("no search; {search} starts one"), Vec::new()),
            (_, None) if log.is_open() => {
                let message = format!("several logs are open: {search} searches their loaded lines");
                (message, Vec::new())
            }
            (_, None) => ("no log is open".to_owned(), Vec::new()),
            (_, Some(LogSource::File { name, .. })) if LogName::parse(name.raw()).reader.is_some() => {
                (format!("{name} is compressed and was not read"), Vec::new())
            }
            (false, Some(_)) => {
                let message = format!("`{pattern}`: searching the whole log on the head");
                (message, vec![Effect::Ask(name, Request::SearchLog(log.stream(), pattern))])
            }
        };
        self.toasts.report(MessageKind::Info, message, now);
        effects
    }

    /// Handles the results of searching a whole log: lists them, unless the screen has changed in the meantime.
    pub(in crate::app) fn apply_log_matches(
        &mut self,
        stream: StreamId,
        pattern: &str,
        found: Result<LogMatches, NotSearched>,
        now: Timestamp,
    ) {
        self.dirty = true;
        let is_free = self.shows_stream(stream) && self.dialog.is_none() && self.prompt.is_none();
        let (tone, message) = match found {
            Err(NotSearched::Remote(why)) if is_free => return self.ask_to_download(stream, pattern, &why),
            Err(NotSearched::Remote(why) | NotSearched::Failed(why)) => {
                (MessageKind::Bad, format!("`{pattern}`: the log was not searched: {why}"))
            }
            Ok(found) if found.last.is_empty() => {
                (MessageKind::Info, format!("`{pattern}`: no match in {}", searched(found.is_cut)))
            }
            Ok(found) => {
                let lines = counted(found.last.len(), "line");
                let lines = if found.has_more { format!("the last {lines}") } else { lines };
                if is_free {
                    let mut prompt = Prompt::of(PromptKind::Found, found.last.iter().map(offer).collect());
                    // The newest match is the closest.
                    prompt.chosen = found.last.len() - 1;
                    self.prompt = Some(prompt);
                }
                (MessageKind::Good, format!("`{pattern}`: {lines} of {}", searched(found.is_cut)))
            }
        };
        self.toasts.report(tone, message, now);
    }

    /// Whether the page on the screen shows the log of this stream.
    fn shows_stream(&self, stream: StreamId) -> bool {
        let is_log = matches!(self.view(), View::Cluster(_) | View::Log(_));
        is_log && self.log().is_some_and(|log| log.stream() == stream)
    }

    /// Asks whether to download a log that cannot be searched on its host.
    fn ask_to_download(&mut self, stream: StreamId, pattern: &str, why: &str) {
        let Some((log, cluster)) = self.log().zip(self.current().map(|c| c.name().clone())) else { return };
        let size = match log.placed() {
            Some((all, true)) => format!("about {}", bytes(all as f64)),
            Some((buffer, false)) => {
                format!("unknown; at least the {} that are loaded", bytes(buffer as f64))
            }
            None => "unknown".to_owned(),
        };
        let most = bytes(MAX_DOWNLOAD as f64);
        let row = |label: &str, text: String| (label.to_owned(), printable(&text).into_owned());
        let lines = vec![
            row("cluster", cluster.to_string()),
            row("search", pattern.to_owned()),
            row("why", why.to_owned()),
            row("size", size),
            row(
                "",
                format!(
                    "The log will be downloaded through the dashboard from its first line, up to {most}, and searched on this machine. Only matching lines are kept."
                ),
            ),
        ];
        let question = Question::DownloadLog { cluster, stream, pattern: pattern.to_owned() };
        self.dialog = Some(Dialog::ask(question, "Download the log to search it?", lines, "Download log"));
    }

    /// Downloads a log and searches it.
    pub(in crate::app) fn download_log(
        &mut self,
        cluster: ClusterName,
        stream: StreamId,
        pattern: String,
        now: Timestamp,
    ) -> Vec<Effect> {
        self.toasts.report(MessageKind::Info, format!("`{pattern}`: downloading the log"), now);
        vec![Effect::Ask(cluster, Request::DownloadLog(stream, pattern))]
    }

    /// Reports how much of a log was downloaded, while it is on the screen.
    pub(in crate::app) fn apply_log_download(&mut self, stream: StreamId, so_far: u64, now: Timestamp) {
        if self.shows_stream(stream) {
            let so_far = format!("{} searched so far", bytes(so_far as f64));
            self.toasts.progress("downloading the log", &so_far, now);
            self.dirty = true;
        }
    }

    /// Continues the search for the line at which a log was opened.
    pub(in crate::app) fn seek_on(&mut self, now: Timestamp) {
        let Some(log) = self.log_mut().filter(|log| log.is_seeking()) else { return };
        let is_missed = log.seek_on(now);
        self.dirty |= self.log().is_some_and(|log| !log.is_seeking());
        if is_missed {
            let message = "the line is not among the lines that were read; showing the end of the log";
            self.toasts.report(MessageKind::Info, message, now);
        }
    }

    /// Goes to a line of the list.
    pub(in crate::app) fn go_to_found(&mut self, at: Option<u64>, text: &str, now: Timestamp) {
        let Some(log) = self.log_mut() else { return };
        let Some(at) = at else {
            if !log.go_to_text(text) {
                let message = "that line is not loaded; scroll up to load older ones";
                self.toasts.report(MessageKind::Info, message, now);
            }
            return;
        };
        let message = match log.go_to_match(at, text) {
            MatchPosition::Loaded => return,
            MatchPosition::Above(above) => format!("reading {} above the loaded lines", bytes(above as f64)),
            MatchPosition::TooFar(above) => format!(
                "the line is {} above the loaded lines, which exceeds the log memory limit (`log_memory_mb` in the settings)",
                bytes(above as f64)
            ),
            MatchPosition::Gone => "the line is no longer where it was; search again".to_owned(),
        };
        self.toasts.report(MessageKind::Info, message, now);
    }
}

/// How much was searched, in words.
fn searched(is_cut: bool) -> String {
    if is_cut {
        format!("the log's first {}", bytes(MAX_DOWNLOAD as f64))
    } else {
        "the whole log".to_owned()
    }
}

/// A line of the list.
fn offer(found: &LogMatch) -> Offer {
    let text = found.line.text();
    let kind = OfferKind::Line { at: found.at, text: text.to_owned() };
    Offer { kind, ..Offer::new(format!("{} {text}", found.number), "") }
}
