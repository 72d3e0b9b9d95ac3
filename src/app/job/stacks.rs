//! The page of the stacks of a job's workers.

use crate::app::action::target::Target;
use crate::app::input::entry::{Offer, OfferKind};
use crate::app::input::prompt::{Prompt, PromptKind};
use crate::app::job::stack_rows::{StackRow, StackSubject};
use crate::app::pages::details::{Details, Stacks};
use crate::app::text::describe::{Lines, ago, in_a_line, of_problem};
use crate::app::view::View;
use crate::app::{App, Effect};
use crate::job_workers::{file_to_open, lost_files};
use crate::model::amount::counted;
use crate::model::raylet::raylet_lines;
use crate::model::text::printable;
use crate::model::{
    ClusterName, DriverStacks, Hint, JobId, JobStacks, LogSource, NodeId, Problem, StackGroup, StackWorker,
    Text, Timestamp, Vitals,
};
use std::ops::Range;
use std::sync::Arc;

impl App {
    /// Opens the page of the stacks of the workers of the selected job, or of the job that holds the selected slice,
    /// and takes the stacks; once it is open, takes them again. If several jobs hold the slice, one has to be chosen
    /// first.
    pub(in crate::app) fn take_stacks(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some((cluster_index, jobs)) = self.target_runs() else {
            self.toasts.answer("no job selected: select a job, or a slice that a job holds", now);
            return Vec::new();
        };
        let runs = jobs.iter().filter(|job| job.driver.is_some() && !job.status.is_ended());
        let offers: Vec<Offer> = runs
            .clone()
            .map(|job| Offer {
                kind: OfferKind::Stacks(Target::Job(cluster_index, job.key.clone())),
                ..Offer::new(
                    job.key.to_string(),
                    in_a_line(job, &self.fleet.clusters[cluster_index].vitals, now),
                )
            })
            .collect();
        if offers.len() > 1 {
            self.prompt = Some(Prompt::of(PromptKind::Runs, offers));
            return Vec::new();
        }
        let Some(job) = runs.into_iter().next() else {
            let why = match jobs {
                [job] if job.status.is_ended() => format!("{} has ended: it has no workers", job.key),
                [job] => format!("{} has no driver yet, so it has no workers", job.key),
                _ => "no running job here: there are no workers whose stacks could be read".to_owned(),
            };
            self.toasts.answer(why, now);
            return Vec::new();
        };
        let (key, driver) = (job.key.clone(), job.driver.clone());
        let target = Target::Stacks(cluster_index, key);
        let mut effects = self.open_page(View::Details(Box::new(Details::of(target))));
        let Some(driver) = driver else { return effects };
        if let Some(page) = self.stack.details_mut() {
            page.stacks = Stacks::Waiting(driver.clone());
        }
        effects.push(Effect::Stacks(self.fleet.clusters[cluster_index].name().clone(), driver));
        effects
    }

    /// Opens the host of the process that is selected on the page of stacks, or lists the workers of a group.
    pub(in crate::app) fn open_stack(&mut self) -> Vec<Effect> {
        let selected = self.stack.details().and_then(|page| Some((page, page.target.cluster_index()?)));
        let Some((page, cluster_index)) = selected else { return Vec::new() };
        let host = |process: &StackWorker| Target::Node(cluster_index, process.node);
        match page.selected_stack() {
            Some(StackSubject::Worker(process) | StackSubject::Driver(process)) => {
                let host = host(process);
                self.open_details(host)
            }
            Some(StackSubject::Group(group)) => {
                let offers = offers(group, |worker| OfferKind::Page(host(worker)));
                self.prompt = Some(Prompt::of(PromptKind::Processes, offers));
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Opens the log of the worker that is selected on the page of stacks, or lists the workers of a group. `None` if
    /// no worker is selected: the log of the driver is that of the job.
    pub(in crate::app) fn open_log_of_stack(&mut self, now: Timestamp) -> Option<Vec<Effect>> {
        let process = match self.stack.details()?.selected_stack()? {
            StackSubject::Driver(_) => return None,
            StackSubject::Worker(worker) => (worker.node, worker.pid),
            StackSubject::Group(group) => {
                let offers = offers(group, |worker| OfferKind::WorkerLog(worker.node, worker.pid));
                self.prompt = Some(Prompt::of(PromptKind::Files, offers));
                return Some(Vec::new());
            }
        };
        Some(self.find_worker_log(process, now))
    }

    /// Requests the list of the files of a worker on the page of stacks, to open its log.
    pub(in crate::app) fn find_worker_log(
        &mut self,
        (node, pid): (NodeId, u32),
        now: Timestamp,
    ) -> Vec<Effect> {
        let Some(page) = self.stack.details_mut() else { return Vec::new() };
        let (Some(cluster_index), Stacks::Answered(driver, _)) = (page.target.cluster_index(), &page.stacks)
        else {
            return Vec::new();
        };
        let Some(worker) = page.stack_process(node, pid).cloned() else { return Vec::new() };
        let (driver, who) = (driver.clone(), worker.text());
        let cluster = &self.fleet.clusters[cluster_index];
        if cluster.node(&node).is_none_or(|node| !node.state.is_alive()) {
            let known = self.target_job().map(|(_, job)| cluster.known_of(job));
            self.report_no_log(lost_files(&who, known.as_ref()), now);
            return Vec::new();
        }
        page.cursor.wait_for(&worker);
        self.toasts.answer(listing(&who), now);
        vec![Effect::WorkerFiles(cluster.name().clone(), driver, (node, pid))]
    }

    /// Opens the log of a worker, if the page on the screen still waits for the list of its files.
    pub(in crate::app) fn take_worker_files(
        &mut self,
        cluster: &ClusterName,
        (node, pid): (NodeId, u32),
        files: &Result<Vec<Text>, Problem>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let Some(cluster_index) = self.fleet.cluster_index(cluster) else { return Vec::new() };
        // What was opened or typed since is what the next key is meant for.
        let is_covered = self.dialog.is_some() || self.prompt.is_some();
        let page = self.stack.details_mut().filter(|page| page.target.cluster_index() == Some(cluster_index));
        let Some(who) = page.and_then(|page| page.cursor.take_awaited((node, pid))) else {
            return Vec::new();
        };
        self.toasts.withdraw(&listing(&who));
        self.dirty = true;
        let file = match files {
            Ok(files) => file_to_open(&who, files, None).map_err(|why| (why, Hint::none())),
            Err(problem) => {
                let why = format!("cannot list the log files of {who}: {}", problem.what);
                Err((why, problem.hint.clone()))
            }
        };
        match file {
            Ok(_) if is_covered => Vec::new(),
            Ok(name) => self.open_log_at(cluster_index, LogSource::File { node, name }, None),
            Err(missing) => {
                self.report_no_log(missing, now);
                Vec::new()
            }
        }
    }
}

/// The message while the files of a worker are listed.
fn listing(who: &str) -> String {
    format!("listing the log files of {who}")
}

/// The workers of a group as entries of a list.
fn offers(group: &StackGroup, kind: impl Fn(&StackWorker) -> OfferKind) -> Vec<Offer> {
    let offer = |worker: &StackWorker| Offer {
        kind: kind(worker),
        ..Offer::new(worker.text(), group.top_frame.clone())
    };
    group.workers.iter().map(offer).collect()
}

impl Details {
    /// Keeps the stacks of the workers of a driver, if the page has requested them. Returns whether it has.
    pub(in crate::app) fn take_stacks(
        &mut self,
        cluster_index: usize,
        driver: &JobId,
        result: &Arc<Result<JobStacks, Problem>>,
    ) -> bool {
        let is_of = matches!(&self.stacks, Stacks::Waiting(of) | Stacks::Answered(of, _) if of == driver);
        let is_requested = is_of && self.target.cluster_index() == Some(cluster_index);
        if is_requested {
            self.stacks = Stacks::Answered(driver.clone(), Arc::clone(result));
        }
        is_requested
    }

    /// The stacks of the page, once they were taken.
    pub(in crate::app) fn shown_stacks(&self) -> Option<&JobStacks> {
        let Stacks::Answered(_, result) = &self.stacks else { return None };
        result.as_ref().as_ref().ok()
    }

    /// The index of the selected row among those that are shown: at first the worker whose stack differs, otherwise the
    /// first row. `None` if there are none.
    pub fn selected_among(&self, rows: &[StackRow]) -> Option<usize> {
        let found = self.shown_stacks()?;
        let index = |row: &StackRow| rows.iter().position(|shown| shown == row);
        let selected = self.cursor.selected();
        let of_worker = || index(&selected?.of_group_with(found)?);
        let odd = || index(&StackRow::of(found.odd().next()?));
        let first = (!rows.is_empty()).then_some(0);
        selected.and_then(index).or_else(of_worker).or_else(odd).or(first)
    }

    /// What is selected on the page of stacks; `None` if nothing is.
    pub(in crate::app) fn selected_stack(&self) -> Option<StackSubject<'_>> {
        let found = self.shown_stacks()?;
        if !self.filter.is_empty() && !self.cursor.is_drawn() {
            return None;
        }
        let rows: Vec<StackRow> = PageText::of(found).rows.into_iter().map(|(row, _)| row).collect();
        rows.get(self.selected_among(&rows)?)?.subject(found)
    }

    /// The name of the selected process, to copy, after what it is.
    pub(in crate::app) fn copied_process(&self) -> Option<(String, String)> {
        let (what, process) = match self.selected_stack()? {
            StackSubject::Group(_) => return None,
            StackSubject::Worker(process) => ("worker", process),
            StackSubject::Driver(process) => ("driver", process),
        };
        Some((what.to_owned(), process.who()))
    }

    /// A process of the page's stacks.
    fn stack_process(&self, node: NodeId, pid: u32) -> Option<&StackWorker> {
        match StackRow::Process(node, pid).subject(self.shown_stacks()?)? {
            StackSubject::Worker(process) | StackSubject::Driver(process) => Some(process),
            StackSubject::Group(_) => None,
        }
    }
}

/// The rows of the page that can be selected, each with its lines.
pub type StackRows = Vec<(StackRow, Range<usize>)>;

/// The lines of the page, with `words` for a hint, and with the vitals of the run, which show whether it completes
/// steps; and the rows that can be selected.
pub fn lines(
    stacks: &Stacks,
    vitals: Option<&Vitals>,
    words: impl Fn(&Hint) -> String,
    now: Timestamp,
) -> (Lines, StackRows) {
    let one = |text: &str| (vec![(String::new(), text.to_owned())], Vec::new());
    let result = match stacks {
        Stacks::No => return one("the job has no driver yet, so it has no workers"),
        Stacks::Waiting(_) => return one("reading the workers..."),
        Stacks::Answered(_, result) => result,
    };
    let found = match &**result {
        Err(problem) => return (of_problem(problem, words), Vec::new()),
        Ok(found) => found,
    };
    let way = if found.over_ssh { "py-spy ran over SSH" } else { "Ray paused each process for a moment" };
    let looked = format!("{}, {}; {way}", counted(found.workers(), "worker"), ago(found.at, now));
    let mut page = PageText { lines: vec![("read".to_owned(), looked)], rows: Vec::new() };
    page.lines.extend(vitals.map(|vitals| ("run".to_owned(), vitals.text(now))));
    page.lines.push(blank());
    page.add(found);
    (page.lines, page.rows)
}

/// The lines of the page, and the rows that can be selected.
#[derive(Default)]
struct PageText {
    lines: Lines,
    rows: StackRows,
}

impl PageText {
    /// The lines about a reading.
    fn of(found: &JobStacks) -> Self {
        let mut page = Self::default();
        page.add(found);
        page
    }

    fn add(&mut self, found: &JobStacks) {
        for group in &found.groups {
            self.add_group(group, found);
        }
        for (worker, why) in &found.unread {
            let text = format!("{}: {}", worker.text(), printable(why));
            self.row(StackRow::of(worker), [("not read".to_owned(), text)]);
        }
        if let Some(driver) = &found.driver {
            self.lines.push(blank());
            self.row(StackRow::of(&driver.process), driver_lines(driver));
        }
        let raylets = raylet_lines(&found.raylets);
        if !raylets.is_empty() {
            self.lines.push(blank());
            self.lines.extend(raylets.into_iter().map(|line| ("raylets".to_owned(), line)));
        }
    }

    /// Adds a group, whose row has its stack, and its workers; a single worker has no row of its own.
    fn add_group(&mut self, group: &StackGroup, found: &JobStacks) {
        let pace = group.pace().map(|pace| format!("  {pace}")).unwrap_or_default();
        let mark = if group.differs(found) { "! " } else { "" };
        let mut lines =
            vec![(counted(group.workers.len(), "worker"), format!("{mark}{}{pace}", group.top_frame))];
        lines.extend(group.callers().iter().map(|frame| frame_line(frame)));
        let line = |worker: &StackWorker| ("on".to_owned(), worker.text());
        let named = group.named(found);
        if let [only] = named {
            lines.push(line(only));
            self.row(StackRow::of_group(group), lines);
            return;
        }
        self.row(StackRow::of_group(group), lines);
        for worker in named {
            self.row(StackRow::of(worker), [line(worker)]);
        }
    }

    fn row(&mut self, row: StackRow, lines: impl IntoIterator<Item = (String, String)>) {
        let start = self.lines.len();
        self.lines.extend(lines);
        self.rows.push((row, start..self.lines.len()));
    }
}

fn blank() -> (String, String) {
    (String::new(), String::new())
}

fn frame_line(frame: &str) -> (String, String) {
    (" ".to_owned(), format!("  {frame}"))
}

fn driver_lines(driver: &DriverStacks) -> Lines {
    let words = driver.text();
    let (label, text) = words.split_once(' ').unwrap_or(("driver", &words));
    let mut lines = vec![(label.to_owned(), text.to_owned())];
    for thread in driver.threads.iter().flatten() {
        lines.push((" ".to_owned(), thread.text()));
        lines.extend(thread.callers().iter().map(|frame| frame_line(frame)));
    }
    lines
}
