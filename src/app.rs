//! The state of the screen: events in, effects out. No terminal, no network, no clock of its own.
//!
//! A key press is handled in one call stack: `update` looks it up in the context that the state implies; `act` changes
//! the state and returns the effects for the event loop to perform.

mod access;
pub mod action;
mod event;
pub mod fleet;
pub mod host;
pub mod input;
pub mod job;
pub mod log;
mod navigate;
pub mod operation;
mod page_stack;
pub mod pages;
pub mod screen;
pub mod table;
pub mod text;
mod updates;
mod view;

pub use action::context::Context;
pub use action::impact::Impact;
pub use action::keymap::{Keymap, KeymapError};
pub use action::list::{action_named, actions};
pub use action::table::Action;
pub use action::target::Target;
pub use event::{Effect, Event, Outcome, Viewer};
pub use fleet::changes::Change;
pub use fleet::chips::Sum;
pub use fleet::cluster::{Cluster, Listed};
pub use fleet::feed::Feed;
pub use fleet::intervals::PollIntervals;
pub use fleet::runs::Run;
pub use fleet::trend::{HIGHEST_LEVEL, Trend};
pub use fleet::{Fleet, Totals};
pub use input::entry::{Offer, OfferKind, OfferList};
pub use input::history::Entered;
pub use input::prompt::{Prompt, PromptKind};
pub use job::stack_rows::{DrawnRows, StackRow};
pub use job::vitals::could_serve;
pub use log::{Dated, Landmark, LogView, Older, Show, Since, Window, pieces};
pub use operation::confirmation::Plan;
pub use operation::progress::OperationProgress;
pub use pages::Pages;
pub use pages::cluster::ClusterPage;
pub use pages::details::{Details, WorkRequest};
pub use pages::job_workers::WorkersPage;
pub use pages::job_workers::view::WorkersView;
pub use pages::page::Page;
pub use pages::slice::SlicePage;
pub use pages::tpus::TpusPage;
pub use screen::areas::{Area, Areas, DraggedBorders, PaneBorders, Rows, TableArea, TextWidths};
pub use screen::dialog::{Dialog, Question};
pub use screen::pane::Pane;
pub use screen::scroll::Scroll;
pub use screen::sections::Sections;
pub use table::chooser::{Choice, Chooser};
pub use table::facts::CellContext;
pub use table::filter::{Filter, FilterError};
pub use table::list::{List, Listing};
pub use table::marks::Marks;
pub use table::sheet::{Sheet, sheet};
pub use table::{By, Sort, Table};
pub use text::toast::{MessageKind, Toast, Toasts};
pub use view::{TablePage, View};

use crate::logs::Patterns;
use crate::model::{ClusterName, FormId, Link, NodeId, StreamId, Timestamp};
use action::keymap::Meaning;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use page_stack::PageStack;
use screen::dialog_keys::{DialogKey, Taken};
use screen::split::Split;
use std::time::Duration;

/// The state of the screen: pages over the fleet.
pub struct App {
    fleet: Fleet,
    pages: Pages,
    stack: PageStack,
    split: Split,
    marks: Marks,
    dialog: Option<Dialog>,
    prompt: Option<Prompt>,
    history: input::history::History,
    feed: Feed,
    /// The live state behind a frozen screen; `None` while the screen is not frozen.
    frozen: Option<Box<screen::frozen::Frozen>>,
    /// The answer to a key that is not available in the open dialog.
    note: String,
    toasts: Toasts,
    keyboard: Keyboard,
    areas: Areas,
    /// Nodes on the screen, by the index of their cluster, as last requested.
    visible: Vec<(usize, Vec<NodeId>)>,
    last_ids: LastIds,
    settings: Settings,
    dirty: bool,
    /// Incremented by every event that may change the texts of tables: all but keys and the mouse, which change the
    /// tables themselves.
    version: u64,
}

/// The screen's options from the settings and the command line.
#[derive(Debug, Default)]
struct Settings {
    /// Whether actions that change a cluster are refused.
    read_only: bool,
    /// The operator's name. If it is empty, every job counts as another person's.
    me: String,
    poll_intervals: PollIntervals,
}

/// The keymap, and the keys of an incomplete sequence.
#[derive(Debug)]
struct Keyboard {
    keymap: Keymap,
    pressed: Vec<KeyEvent>,
}

impl Keyboard {
    /// The key that was pressed: a line feed is Enter unless `ctrl-j` is bound. A terminal sends it for an Enter that is
    /// typed before the console has set the terminal up (`ICRNL` in termios(3)).
    fn read(&self, key: KeyEvent) -> KeyEvent {
        let line_feed = KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL);
        let is_enter = key == line_feed && self.keymap.elsewhere(key).next().is_none();
        if is_enter { KeyEvent::from(KeyCode::Enter) } else { key }
    }
}

/// The ids of the latest requests, by which late answers are recognized.
#[derive(Debug)]
struct LastIds {
    stream: u64,
    form: u64,
}

impl LastIds {
    fn stream(&mut self) -> StreamId {
        self.stream += 1;
        StreamId(self.stream)
    }

    fn form(&mut self) -> FormId {
        self.form += 1;
        FormId(self.form)
    }
}

impl App {
    /// The console before any cluster has reported.
    pub fn new(listed: Vec<Listed>, keymap: Keymap) -> Self {
        let fleet = Fleet::new(listed);
        Self {
            pages: Pages::new(&fleet),
            fleet,
            stack: PageStack::from(View::Clusters),
            split: Split::default(),
            marks: Marks::default(),
            dialog: None,
            prompt: None,
            history: input::history::History::default(),
            feed: Feed::brief(),
            frozen: None,
            note: String::new(),
            toasts: Toasts::default(),
            keyboard: Keyboard { keymap, pressed: Vec::new() },
            areas: Areas::default(),
            visible: Vec::new(),
            last_ids: LastIds { stream: 1, form: 1 },
            settings: Settings::default(),
            dirty: true,
            version: 1,
        }
    }

    /// Sets the operator's name: stopping other people's jobs requires a second confirmation.
    #[must_use]
    pub fn with_user(mut self, me: &str) -> Self {
        me.clone_into(&mut self.settings.me);
        self
    }

    /// With `read_only`, refuses actions that change a cluster.
    #[must_use]
    pub fn with_read_only(mut self, read_only: bool) -> Self {
        self.settings.read_only = read_only;
        self
    }

    /// Limits the memory of each log to this many bytes.
    #[must_use]
    pub fn holding(mut self, memory: usize) -> Self {
        self.pages.cluster.iter_mut().for_each(|page| page.log.limit(memory));
        self
    }

    /// Adds patterns by which logs recognize progress lines.
    #[must_use]
    pub fn with_progress_patterns(mut self, patterns: &Patterns) -> Self {
        self.pages.cluster.iter_mut().for_each(|page| page.log.set_progress_patterns(patterns.clone()));
        self
    }

    /// Restores previously entered lines; lines that are entered from now on are saved.
    #[must_use]
    pub fn with_history(mut self, lines: &[(String, String)]) -> Self {
        self.history = input::history::History::saved(lines);
        self
    }

    /// Whether actions that change a cluster are refused.
    pub fn is_read_only(&self) -> bool {
        self.settings.read_only
    }

    /// Opens the first page: the named cluster, else the only one, else the fleet.
    pub fn start(&mut self, named: Option<&ClusterName>) -> Vec<Effect> {
        let only = self.fleet.is_single().then_some(0);
        let Some(cluster_index) = named.and_then(|n| self.fleet.cluster_index(n)).or(only) else {
            return Vec::new();
        };
        // A single cluster has no fleet above it.
        if only.is_some() {
            self.stack.clear();
        }
        self.open_page(View::Cluster(cluster_index))
    }

    /// Sets the poll intervals.
    #[must_use]
    pub fn with_poll_intervals(mut self, poll_intervals: PollIntervals) -> Self {
        for cluster in &mut self.fleet.clusters {
            cluster.poll_intervals = (poll_intervals.background, poll_intervals.cloud);
        }
        self.settings.poll_intervals = poll_intervals;
        self
    }

    /// The age below which data is shown as fresh; higher in the fleet, where clusters are polled less often.
    pub fn fresh(&self) -> Duration {
        match self.view().cluster_index() {
            Some(_) => fleet::cluster::FRESH,
            None => fleet::cluster::STALE.max(self.settings.poll_intervals.background * 2),
        }
    }

    /// Applies an event to the state and returns the effects for the event loop to perform.
    pub fn update(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        self.dirty |= self.toasts.expire(now);
        if !matches!(event, Event::Key(_) | Event::Mouse(_)) {
            self.version += 1;
        }
        let mut effects = self.take_event(event, now);
        self.seek_on(now);
        if let View::Cluster(cluster_index) | View::Log(cluster_index) = *self.view() {
            effects.extend(self.pages.cluster[cluster_index].older_lines(&self.fleet));
        }
        effects.extend(self.read_workers(now));
        effects.extend(self.read_chips(now));
        // Saved before the other effects: one of them may quit the console.
        let typed = self.history.take_unsaved().into_iter().map(|(kind, text)| Effect::Save(kind, text));
        typed.chain(effects).collect()
    }

    fn take_event(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        match event {
            Event::Key(key) => {
                self.dirty = true;
                return self.key(key, now);
            }
            Event::Mouse(mouse) => return self.mouse(mouse, now),
            Event::Paste(text) => self.paste(&text),
            Event::Tick => self.tick(now),
            Event::Resize => self.dirty = true,
            Event::Update(update) => return self.behind(|app| app.apply_update(update, now)),
            Event::Stacks(cluster, driver, result) => {
                self.answer_details_of(&cluster, |page, at| page.take_stacks(at, &driver, &result));
            }
            Event::WorkerFiles(cluster, process, files) => {
                return self.take_worker_files(&cluster, process, &files, now);
            }
            Event::Chips(cluster, nodes, result) => {
                self.answer_details_of(&cluster, |page, at| page.take_chips(at, &nodes, &result, now));
            }
            Event::JobWorkers(cluster, job, part, reading) => {
                return self.behind(|app| app.apply_job_workers(&cluster, &job, part, &reading, now));
            }
            Event::GoogleWait(wait) => {
                self.behind(|app| {
                    for cluster in &mut app.fleet.clusters {
                        app.dirty |= cluster.wait_for_google(&wait, now);
                    }
                });
            }
            Event::Form(cluster, form, event) => {
                return self.behind(|app| app.apply_form_event(&cluster, form, event, now));
            }
            Event::Operation(cluster, event) => {
                return self.behind(|app| app.apply_operation_event(&cluster, event, now));
            }
            Event::Audit(read) => self.show_audit(read, now),
            Event::FileExists { path, text, loaded_lines } => {
                self.ask_to_replace(path, (text, loaded_lines), now);
            }
            Event::Done(outcome) => self.report_outcome(outcome, now),
            Event::Ignored => {}
        }
        Vec::new()
    }

    /// Inserts pasted text in the focused input line. Outside a line it is ignored: it would act as key presses.
    fn paste(&mut self, text: &str) {
        if self.dialog.as_mut().is_some_and(|dialog| dialog.paste(text)) {
            self.dirty = true;
        } else if let Some(prompt) = &mut self.prompt {
            prompt.paste(text);
            self.typed();
            self.dirty = true;
        }
    }

    /// Redraws times and ages, or examines more of a log if there is such work.
    fn tick(&mut self, now: Timestamp) {
        if !self.is_frozen()
            && let Some(log) = self.log_mut()
        {
            self.dirty |= log.settle(now);
        }
        if self.is_at_work() {
            self.dirty |= self.examine_more();
        } else {
            self.dirty = true;
        }
    }

    fn report_outcome(&mut self, outcome: Outcome, now: Timestamp) {
        let (tone, text) = match outcome {
            Outcome::Copied(text) | Outcome::Opened(text) | Outcome::Saved(text) => (MessageKind::Good, text),
            Outcome::Returned(text) | Outcome::Cleared(text) | Outcome::Announced(text) => {
                (MessageKind::Info, text)
            }
            Outcome::Failed(text) => (MessageKind::Bad, text),
        };
        self.toasts.report(tone, text, now);
        self.dirty = true;
    }

    fn key(&mut self, key: KeyEvent, now: Timestamp) -> Vec<Effect> {
        let key = self.keyboard.read(key);
        let meaning = self.keyboard.keymap.meaning(self.context(), &self.keyboard.pressed, key);
        if meaning == Meaning::Action(Action::ForceQuit) {
            return vec![Effect::Quit];
        }
        // While nothing is drawn, keys have no effect.
        if self.areas.is_too_small {
            let quits = meaning == Meaning::Action(Action::Quit);
            return if quits { self.act(Action::Quit, now) } else { Vec::new() };
        }
        self.note.clear();
        if self.prompt.is_some() {
            return self.prompt_key(key, now);
        }
        if self.dialog_takes(key, meaning) {
            self.keyboard.pressed.clear();
            return Vec::new();
        }
        match meaning {
            // As in a `[y/n]` question of a shell.
            Meaning::Nothing if key == KeyEvent::from(KeyCode::Char('n')) && self.is_asking() => {
                self.act(Action::Back, now)
            }
            Meaning::Action(action) => {
                self.keyboard.pressed.clear();
                self.act(action, now)
            }
            Meaning::Pending => {
                self.keyboard.pressed.push(key);
                Vec::new()
            }
            // As in vim, a key that does not continue the sequence ends it, and does not act on its own.
            Meaning::Nothing if !self.keyboard.pressed.is_empty() => {
                let keys = std::mem::take(&mut self.keyboard.pressed).into_iter().chain([key]);
                let shown: Option<String> = keys.map(|key| self.keyboard.keymap.shown(key)).collect();
                if let Some(shown) = shown.filter(|_| key.code != KeyCode::Esc) {
                    self.toasts.answer(format!("{shown} is not bound to an action"), now);
                }
                Vec::new()
            }
            Meaning::Nothing => {
                self.answer_unavailable_key(key, now);
                Vec::new()
            }
        }
    }

    fn is_asking(&self) -> bool {
        matches!(self.dialog, Some(Dialog::Ask { .. })) && self.keyboard.pressed.is_empty()
    }

    /// Whether the open dialog takes a key before the keymap does.
    fn dialog_takes(&mut self, key: KeyEvent, meaning: Meaning) -> bool {
        let Some(dialog) = &mut self.dialog else { return false };
        let is_filter = self.keyboard.keymap.elsewhere(key).any(|(_, action)| action == Action::Filter);
        let taken = dialog.take_key(&DialogKey { key, meaning, is_filter, history: &self.history });
        if taken == Taken::ListsManual {
            self.prompt = Some(Prompt::new(PromptKind::Page, ""));
        }
        taken != Taken::No
    }

    /// The context of a key press: the dialog, or the focused pane of the page.
    pub fn context(&self) -> Context {
        self.dialog.as_ref().map_or_else(|| self.page_context(), Dialog::context)
    }

    /// The context of the page, also beneath a dialog.
    fn page_context(&self) -> Context {
        self.view().context(self.split.focused)
    }

    /// Whether the screen is out of date.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Time until a displayed time or age changes without an event. Ages below [`fleet::cluster::FRESH`] and
    /// durations show no seconds, so that an idle screen is not redrawn.
    pub fn next_change(&self, now: Timestamp) -> Option<Duration> {
        const SECOND: Duration = Duration::from_secs(1);
        /// Interval of checking whether the target line of a log that is being opened has been received.
        const SEEKING: Duration = Duration::from_millis(200);
        let minute = 60_000 - u64::try_from(now.as_millis().rem_euclid(60_000)).unwrap_or(0);
        let mut next = Duration::from_millis(minute);
        if let Some(toast) = self.toasts.next_change(now) {
            next = next.min(toast);
        }
        let shown = self.fleet.each(self.view().cluster_index()).map(|(_, cluster)| cluster);
        // On a frozen screen only the age of the freeze advances.
        for cluster in shown.filter(|_| !self.is_frozen()) {
            next = cluster.next_old_figures(now).map_or(next, |old| next.min(old));
            let counting =
                matches!(cluster.link, Some(Link::Retrying { .. })) || cluster.google_wait(now).is_some();
            match cluster.age(now) {
                _ if counting => next = next.min(SECOND),
                Some(age) if age >= fleet::cluster::SHOWN_IN_MINUTES => {}
                Some(age) if age >= self.fresh() => next = next.min(SECOND),
                Some(age) => next = next.min(self.fresh().saturating_sub(age)),
                None => {}
            }
        }
        if let Some(silence) = self.log().and_then(|log| log.next_silence(now)).filter(|_| !self.is_frozen())
        {
            next = next.min(silence);
        }
        if let Some(wait) = self.log().and_then(|log| log.next_joined(now)).filter(|_| !self.is_frozen()) {
            next = next.min(wait);
        }
        if self.log().is_some_and(LogView::is_seeking) {
            next = next.min(SEEKING);
        }
        if self.watched().is_some_and(OperationProgress::is_active) && !self.is_frozen() {
            next = next.min(SECOND);
        }
        let chips = self.stack.details().filter(|_| !self.is_frozen());
        let chips = chips.and_then(|page| page.next_chips(now));
        let workers = self.workers_page().filter(|_| !self.is_frozen());
        let workers = workers.and_then(|page| page.next_read(&self.fleet, now));
        if let Some(reading) = [workers, chips].into_iter().flatten().min() {
            next = next.min(reading.min(SECOND));
        }
        Some(next.max(Duration::from_millis(20)))
    }
}
