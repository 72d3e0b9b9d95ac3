//! The Python stacks of a job's workers, equal ones grouped.

use super::node::host_words;
use super::text::printable;
use super::{NodeId, RayletThreads, Text, Timestamp};

/// What two samples of a process say.
const SAME: &str = "same in both samples";
const CHANGED: &str = "changed between samples";

/// The stacks of a job's workers, grouped.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStacks {
    /// When the stacks were taken.
    pub at: Timestamp,
    /// Whether they were taken on the hosts over ssh, and not by Ray.
    pub over_ssh: bool,
    /// Workers with the same stack; the largest group first.
    pub groups: Vec<StackGroup>,
    /// Workers whose stacks could not be read, and why not.
    pub unread: Vec<(StackWorker, String)>,
    /// The job's driver; none where Ray does not say which process that is.
    pub driver: Option<DriverStacks>,
    /// The raylets of the workers' hosts, in the order of their addresses; none where Ray gave the stacks.
    pub raylets: Vec<RayletThreads>,
}

/// The threads of a job's driver.
#[derive(Clone, Debug, PartialEq)]
pub struct DriverStacks {
    /// The process.
    pub process: StackWorker,
    /// Its threads in which code of the program runs, the main one first; or why they could not be read.
    pub threads: Result<Vec<StackThread>, String>,
}

/// A thread of a process, safe for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackThread {
    /// Its name, `MainThread`; empty when it has none.
    pub name: String,
    /// The place in one line: `main (train.py:30) in get`.
    pub place: String,
    /// The frames of the program, the innermost first.
    pub frames: Vec<String>,
}

/// Workers with the same stack.
#[derive(Clone, Debug, PartialEq)]
pub struct StackGroup {
    /// The place in one line, safe for a terminal: `_read_batch (data.py:88) in wait`.
    pub place: String,
    /// The frames of the program, the innermost first, safe for a terminal.
    pub frames: Vec<String>,
    /// The workers of the group, in the order in which they were asked for.
    pub workers: Vec<StackWorker>,
}

/// A worker's process.
#[derive(Clone, Debug, PartialEq)]
pub struct StackWorker {
    /// Ray's id of the node that it runs on.
    pub node: NodeId,
    /// The name that the node is shown by; its address where it has none.
    pub host: Text,
    /// The node's address.
    pub address: Text,
    /// Its process id there.
    pub pid: u32,
    /// What it runs, as Ray names it; may be empty.
    pub name: Text,
    /// Whether its stack has changed since an earlier sample; none without one.
    pub moved: Option<bool>,
}

impl JobStacks {
    /// The number of workers whose stacks were asked for.
    pub fn workers(&self) -> usize {
        self.groups.iter().map(|group| group.workers.len()).sum::<usize>() + self.unread.len()
    }

    /// The workers whose stacks differ from the usual one, those of the smallest group first; last those that run nothing.
    pub fn odd(&self) -> impl Iterator<Item = &StackWorker> {
        let differing = self.groups.iter().rev().filter(|group| group.differs(self));
        let idle = self.groups.iter().rev().filter(|group| !group.differs(self));
        differing.chain(idle).flat_map(|group| group.named(self))
    }
}

impl StackGroup {
    /// Workers of a group that are named beside it.
    const NAMED: usize = 8;

    /// The workers that are to be named: none of a large group, nor of the only one, because that is the usual stack of the run.
    pub fn named(&self, of: &JobStacks) -> &[StackWorker] {
        if of.groups.len() > 1 && self.workers.len() <= Self::NAMED { &self.workers } else { &[] }
    }

    /// Whether it is what a look at the stacks is for: the workers of a small group that run code of the program.
    pub fn differs(&self, of: &JobStacks) -> bool {
        let is_usual = of.groups.first().is_some_and(|largest| largest.workers.len() == self.workers.len());
        !is_usual && !self.frames.is_empty() && !self.named(of).is_empty()
    }

    /// `same in both samples`, once the workers were sampled twice. Whether they make progress it does not say: a run that makes
    /// two steps a second is nearly always found in the same line.
    pub fn pace(&self) -> Option<String> {
        let same = self.workers.iter().filter(|worker| worker.moved == Some(false)).count();
        self.workers.iter().find(|worker| worker.moved.is_some())?;
        Some(match same {
            0 => CHANGED.to_owned(),
            n if n == self.workers.len() => SAME.to_owned(),
            n => format!("{n} of {} the {SAME}", self.workers.len()),
        })
    }

    /// The frames further out than the place, which the place does not name.
    pub fn callers(&self) -> &[String] {
        callers(&self.place, &self.frames)
    }
}

impl DriverStacks {
    /// `driver 10.0.0.1 pid 867`, with what is to be known of it beside its threads; safe for a terminal.
    pub fn words(&self) -> String {
        let StackWorker { pid, moved, .. } = &self.process;
        let pace = match (&self.threads, moved) {
            (Err(why), _) => format!(": {}", printable(why)),
            (Ok(threads), _) if threads.is_empty() => ": not running any user code".to_owned(),
            (_, Some(true)) => format!("  {CHANGED}"),
            (_, Some(false)) => format!("  {SAME}"),
            (_, None) => String::new(),
        };
        format!("driver {} pid {pid}{pace}", self.process.on())
    }
}

impl StackThread {
    /// `MainThread: main (train.py:30) in get`.
    pub fn words(&self) -> String {
        if self.name.is_empty() { self.place.clone() } else { format!("{}: {}", self.name, self.place) }
    }

    /// The frames further out than the place.
    pub fn callers(&self) -> &[String] {
        callers(&self.place, &self.frames)
    }
}

impl StackWorker {
    /// `t1v-n-7 (10.0.0.7) pid 262 train_step`, safe for a terminal.
    pub fn words(&self) -> String {
        format!("{} pid {} {}", self.on(), self.pid, self.name).trim_end().to_owned()
    }

    /// The host and its address.
    fn on(&self) -> String {
        host_words(&self.host, &self.address)
    }
}

/// The frames behind the one that a place begins with.
fn callers<'f>(place: &str, frames: &'f [String]) -> &'f [String] {
    let at = frames.iter().position(|frame| place.starts_with(frame.as_str()));
    &frames[at.map_or(0, |at| at + 1)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(moved: &[Option<bool>]) -> StackGroup {
        let worker = |moved: &Option<bool>| StackWorker {
            node: NodeId::from_bytes(&[1; 28]).unwrap(),
            host: "tb-w7".into(),
            address: "10.0.0.7".into(),
            pid: 7,
            name: "W".into(),
            moved: *moved,
        };
        let workers = moved.iter().map(worker).collect();
        StackGroup { place: "f (a.py:1)".into(), frames: Vec::new(), workers }
    }

    #[test]
    fn a_group_says_whose_stack_is_the_same() {
        let of = |moved: &[Option<bool>]| group(moved).pace();
        assert_eq!(of(&[None, None]), None);
        assert_eq!(of(&[Some(true), Some(true)]).as_deref(), Some("changed between samples"));
        assert_eq!(of(&[Some(false)]).as_deref(), Some("same in both samples"));
        assert_eq!(of(&[Some(false), Some(true), None]).as_deref(), Some("1 of 3 the same in both samples"));
    }

    #[test]
    fn a_frame_that_the_place_names_is_not_repeated() {
        let frames = ["wait (threading.py:331)", "load (data.py:88)", "main (train.py:3)"].map(String::from);
        let of = |place: &str| callers(place, &frames).to_vec();
        assert_eq!(of("load (data.py:88) in wait"), frames[2..]);
        assert_eq!(of("wait (threading.py:331)"), frames[1..]);
        assert_eq!(of("no task: waits for Ray"), frames);
    }

    #[test]
    fn only_the_few_are_named() {
        let standing = |groups| JobStacks {
            at: Timestamp::from_millis(0),
            over_ssh: false,
            groups,
            unread: Vec::new(),
            driver: None,
            raylets: Vec::new(),
        };
        let (many, few) = (group(&[None; 20]), group(&[None]));
        let both = standing(vec![many.clone(), few.clone()]);
        assert_eq!((many.named(&both).len(), few.named(&both).len(), both.workers()), (0, 1, 21));
        assert!(few.named(&standing(vec![few.clone()])).is_empty(), "that is the usual stack of the run");
        assert_eq!(few.workers[0].words(), "tb-w7 (10.0.0.7) pid 7 W");
        assert_eq!((both.odd().count(), standing(vec![few]).odd().count()), (1, 0));
    }
}
