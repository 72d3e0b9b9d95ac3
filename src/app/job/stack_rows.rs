//! The rows of the page of stacks that can be selected: groups of workers, single workers and the driver.

use crate::app::screen::sections::Sections;
use crate::model::{JobStacks, NodeId, StackGroup, StackWorker};

/// A row that can be selected. It is the same row in every reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackRow {
    /// Several workers, by the lines of their stack.
    Group(Vec<String>),
    /// A worker or the driver, by its node and its process id.
    Process(NodeId, u32),
}

/// What a row shows in one reading.
#[derive(Clone, Copy, Debug)]
pub enum StackSubject<'s> {
    /// Several workers with the same stack.
    Group(&'s StackGroup),
    /// A worker.
    Worker(&'s StackWorker),
    /// The job's driver.
    Driver(&'s StackWorker),
}

impl StackRow {
    /// The row of a group; of a single worker, its own row.
    pub fn of_group(group: &StackGroup) -> Self {
        match &group.workers[..] {
            [only] => Self::of(only),
            _ => Self::Group(std::iter::once(&group.top_frame).chain(&group.frames).cloned().collect()),
        }
    }

    /// The row of a process.
    pub const fn of(process: &StackWorker) -> Self {
        Self::Process(process.node, process.pid)
    }

    /// What it shows in a reading; `None` if the reading does not have it.
    pub fn subject<'s>(&self, found: &'s JobStacks) -> Option<StackSubject<'s>> {
        if let Self::Group(_) = self {
            return found.groups.iter().find(|group| Self::of_group(group) == *self).map(StackSubject::Group);
        }
        let is_it = |process: &&StackWorker| Self::of(process) == *self;
        let driver = found.driver.as_ref().map(|driver| &driver.process);
        let workers = found.groups.iter().flat_map(|group| &group.workers);
        let mut workers = workers.chain(found.unread.iter().map(|(worker, _)| worker));
        let driver = driver.filter(is_it).map(StackSubject::Driver);
        driver.or_else(|| workers.find(is_it).map(StackSubject::Worker))
    }

    /// The group of a worker, which is not listed by name in a large group.
    pub fn of_group_with(&self, found: &JobStacks) -> Option<Self> {
        let is_it = |worker: &StackWorker| Self::of(worker) == *self;
        found.groups.iter().find(|group| group.workers.iter().any(is_it)).map(Self::of_group)
    }
}

/// The rows as they were drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnRows {
    /// The rows that the filter shows.
    pub rows: Vec<StackRow>,
    /// The lines of each of them.
    pub sections: Sections,
    /// The index of the selected row.
    pub selected: usize,
    /// The first line in the window.
    pub top: usize,
    /// The highlighted line: the first one of the selected row in the window; `None` if the window has none of them.
    pub line: Option<usize>,
}

/// The selection on the page of stacks.
#[derive(Clone, Debug, Default)]
pub struct StackCursor {
    /// The selected row; `None` before one was drawn.
    selected: Option<StackRow>,
    /// The rows as they were drawn last; `None` if there were none.
    drawn: Option<DrawnRows>,
    /// The worker whose log is opened once its files are listed, and how messages call it.
    awaited: Option<(NodeId, u32, String)>,
}

impl StackCursor {
    /// The selected row; `None` before one was drawn.
    pub const fn selected(&self) -> Option<&StackRow> {
        self.selected.as_ref()
    }

    /// Whether rows were drawn last.
    pub const fn is_drawn(&self) -> bool {
        self.drawn.is_some()
    }

    /// Records the rows as they were drawn.
    pub(in crate::app) fn drawn(&mut self, drawn: Option<&DrawnRows>) {
        self.drawn = drawn.cloned();
        self.select();
    }

    /// Moves the selection, or scrolls ([`Sections::step`]). Returns the first line in the window; `None` if there are
    /// no rows.
    pub(in crate::app) fn step(&mut self, by: isize) -> Option<usize> {
        let drawn = self.drawn.as_mut()?;
        (drawn.selected, drawn.top) = drawn.sections.step((drawn.selected, drawn.top), by);
        let top = drawn.top;
        self.awaited = None;
        self.select();
        Some(top)
    }

    /// Selects the row at this line of the window. Returns whether it was selected before; `None` if there is no row.
    pub(in crate::app) fn click(&mut self, line: usize) -> Option<bool> {
        let drawn = self.drawn.as_mut()?;
        let clicked = drawn.sections.at(drawn.top + line)?;
        let was_selected = std::mem::replace(&mut drawn.selected, clicked) == clicked;
        self.awaited = None;
        self.select();
        Some(was_selected)
    }

    /// Waits for the list of a worker's files, to open its log.
    pub(in crate::app) fn wait_for(&mut self, worker: &StackWorker) {
        self.awaited = Some((worker.node, worker.pid, worker.text()));
    }

    /// How messages call a worker, if the page waits for the list of its files; it then no longer does.
    pub(in crate::app) fn take_awaited(&mut self, (node, pid): (NodeId, u32)) -> Option<String> {
        self.awaited.take_if(|(its, its_pid, _)| (*its, *its_pid) == (node, pid)).map(|(_, _, who)| who)
    }

    fn select(&mut self) {
        if let Some(drawn) = &self.drawn {
            self.selected = drawn.rows.get(drawn.selected).cloned();
        }
    }
}
