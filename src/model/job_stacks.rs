//! The Python stacks of a job's workers, grouped by equal stacks.

use super::cloud::TpuHost;
use super::node::host_label;
use super::text::printable;
use super::{NodeId, RayletThreads, Text, Timestamp};

/// Comparison of two samples of a process.
const SAME: &str = "same in both samples";
const CHANGED: &str = "changed between samples";

/// The stacks of a job's workers, grouped.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStacks {
    /// When the stacks were taken.
    pub at: Timestamp,
    /// Whether they were taken on the hosts over SSH, and not by Ray.
    pub over_ssh: bool,
    /// Workers grouped by equal stacks, largest group first.
    pub groups: Vec<StackGroup>,
    /// Workers whose stacks could not be read, and why.
    pub unread: Vec<(StackWorker, String)>,
    /// The job's driver; none if Ray does not report its process.
    pub driver: Option<DriverStacks>,
    /// The raylets of the workers' hosts, in the order of their addresses; empty if Ray took the stacks.
    pub raylets: Vec<RayletThreads>,
}

/// The threads of a job's driver.
#[derive(Clone, Debug, PartialEq)]
pub struct DriverStacks {
    /// The process.
    pub process: StackWorker,
    /// Its threads that run user code, main thread first; or why they could not be read.
    pub threads: Result<Vec<StackThread>, String>,
}

/// A thread of a process, safe for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackThread {
    /// Its name, `MainThread`; empty when it has none.
    pub name: String,
    /// The current location in one line: `main (train.py:30) in get`.
    pub top_frame: String,
    /// The frames of user code, innermost first.
    pub frames: Vec<String>,
}

/// Workers with the same stack.
#[derive(Clone, Debug, PartialEq)]
pub struct StackGroup {
    /// The current location in one line, safe for a terminal: `_read_batch (data.py:88) in wait`.
    pub top_frame: String,
    /// The frames of user code, innermost first, safe for a terminal.
    pub frames: Vec<String>,
    /// The workers of the group, in the order of the query.
    pub workers: Vec<StackWorker>,
}

/// A worker process.
#[derive(Clone, Debug, PartialEq)]
pub struct StackWorker {
    /// Ray's id of the node that it runs on.
    pub node: NodeId,
    /// The display name of the node; its address if it has no name.
    pub host: Text,
    /// The node's address.
    pub address: Text,
    /// The node's hostname; empty if unknown.
    pub hostname: Text,
    /// Its process id on the node.
    pub pid: u32,
    /// The task or actor that it runs, as Ray names it; may be empty.
    pub name: Text,
    /// Whether its stack has changed since the earlier sample; none without an earlier sample.
    pub moved: Option<bool>,
}

impl JobStacks {
    /// The number of workers whose stacks were requested.
    pub fn workers(&self) -> usize {
        self.groups.iter().map(|group| group.workers.len()).sum::<usize>() + self.unread.len()
    }

    /// The workers whose stacks differ from the usual one, smallest group first.
    pub fn odd(&self) -> impl Iterator<Item = &StackWorker> {
        let differing = self.groups.iter().rev().filter(|group| group.differs(self));
        differing.flat_map(|group| group.named(self))
    }
}

impl StackGroup {
    /// Maximum size of a group whose workers are listed by name.
    const MAX_NAMED_WORKERS: usize = 8;

    /// The workers to list by name: none for a large group, and none for the only group, the run's usual stack.
    pub fn named(&self, of: &JobStacks) -> &[StackWorker] {
        if of.groups.len() > 1 && self.workers.len() <= Self::MAX_NAMED_WORKERS { &self.workers } else { &[] }
    }

    /// Whether its stack is notable: a group that is listed by name, smaller than the largest one, and runs user code.
    pub fn differs(&self, of: &JobStacks) -> bool {
        let is_usual = of.groups.first().is_some_and(|largest| largest.workers.len() == self.workers.len());
        !is_usual && !self.frames.is_empty() && !self.named(of).is_empty()
    }

    /// `same in both samples`, if the workers were sampled twice. This does not show whether they make progress: a run
    /// with two steps per second is nearly always found on the same line.
    pub fn pace(&self) -> Option<String> {
        let same = self.workers.iter().filter(|worker| worker.moved == Some(false)).count();
        self.workers.iter().find(|worker| worker.moved.is_some())?;
        Some(match same {
            0 => CHANGED.to_owned(),
            n if n == self.workers.len() => SAME.to_owned(),
            n => format!("{n} of {} the {SAME}", self.workers.len()),
        })
    }

    /// The outer frames, which [`Self::top_frame`] does not contain; those of a recursion as one, with their number.
    pub fn callers(&self) -> Vec<String> {
        callers(&self.top_frame, &self.frames)
    }
}

impl DriverStacks {
    /// `driver 10.0.0.1 pid 867`, and its state; safe for a terminal.
    pub fn text(&self) -> String {
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
    pub fn text(&self) -> String {
        if self.name.is_empty() {
            self.top_frame.clone()
        } else {
            format!("{}: {}", self.name, self.top_frame)
        }
    }

    /// The outer frames, which [`Self::top_frame`] does not contain; those of a recursion as one, with their number.
    pub fn callers(&self) -> Vec<String> {
        callers(&self.top_frame, &self.frames)
    }
}

impl StackWorker {
    /// Its host, to log in to.
    pub fn login(&self) -> TpuHost {
        TpuHost { hostname: self.hostname.clone(), ..TpuHost::at(self.address.raw()) }
    }

    /// `t1v-n-7 (10.0.0.7) pid 262 train_step`, safe for a terminal.
    pub fn text(&self) -> String {
        format!("{} pid {} {}", self.on(), self.pid, self.name).trim_end().to_owned()
    }

    /// Its host and process id: `t1v-n-7/262`, safe for a terminal.
    pub fn who(&self) -> String {
        format!("{}/{}", self.host, self.pid)
    }

    /// The host and its address.
    fn on(&self) -> String {
        host_label(&self.host, &self.address)
    }
}

/// The frames after the one that `top_frame` begins with; equal ones in a row as one, with their number.
fn callers(top_frame: &str, frames: &[String]) -> Vec<String> {
    let at = frames.iter().position(|frame| top_frame.starts_with(frame.as_str()));
    let frames = &frames[at.map_or(0, |at| at + 1)..];
    let repeated = |run: &[String]| match run {
        [only] => only.clone(),
        [first, ..] => format!("{first}, {} times", run.len()),
        [] => String::new(),
    };
    frames.chunk_by(|a, b| a == b).map(repeated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frames_of_a_recursion_are_one_line() {
        let frames = ["sleep (a.py:1)", "slow (a.py:2)", "slow (a.py:3)", "slow (a.py:3)", "main (a.py:9)"];
        let all = callers("slow (a.py:2) in sleep", &frames.map(str::to_owned));
        assert_eq!(all, ["slow (a.py:3), 2 times", "main (a.py:9)"]);
    }

    fn group(moved: &[Option<bool>]) -> StackGroup {
        let worker = |moved: &Option<bool>| StackWorker {
            node: NodeId::from_bytes(&[1; 28]).unwrap(),
            host: "tb-w7".into(),
            address: "10.0.0.7".into(),
            hostname: "".into(),
            pid: 7,
            name: "W".into(),
            moved: *moved,
        };
        let workers = moved.iter().map(worker).collect();
        StackGroup { top_frame: "f (a.py:1)".into(), frames: Vec::new(), workers }
    }

    #[test]
    fn a_group_shows_whose_stack_is_the_same() {
        let of = |moved: &[Option<bool>]| group(moved).pace();
        assert_eq!(of(&[None, None]), None);
        assert_eq!(of(&[Some(true), Some(true)]).as_deref(), Some("changed between samples"));
        assert_eq!(of(&[Some(false)]).as_deref(), Some("same in both samples"));
        assert_eq!(of(&[Some(false), Some(true), None]).as_deref(), Some("1 of 3 the same in both samples"));
    }

    #[test]
    fn a_frame_that_the_place_names_is_not_repeated() {
        let frames = ["wait (threading.py:331)", "load (data.py:88)", "main (train.py:3)"].map(String::from);
        let of = |top_frame: &str| callers(top_frame, &frames);
        assert_eq!(of("load (data.py:88) in wait"), frames[2..]);
        assert_eq!(of("wait (threading.py:331)"), frames[1..]);
        assert_eq!(of("idle (no task)"), frames);
    }

    #[test]
    fn only_workers_of_small_groups_are_named() {
        let stacks = |groups| JobStacks {
            at: Timestamp::from_millis(0),
            over_ssh: false,
            groups,
            unread: Vec::new(),
            driver: None,
            raylets: Vec::new(),
        };
        let (many, few) = (group(&[None; 20]), group(&[None]));
        let both = stacks(vec![many.clone(), few.clone()]);
        assert_eq!((many.named(&both).len(), few.named(&both).len(), both.workers()), (0, 1, 21));
        assert!(few.named(&stacks(vec![few.clone()])).is_empty(), "the only group is the usual stack");
        assert_eq!(few.workers[0].text(), "tb-w7 (10.0.0.7) pid 7 W");
        assert_eq!(few.workers[0].who(), "tb-w7/7");
        assert_eq!(both.odd().count(), 0, "it runs no user code");
        let busy = StackGroup { frames: vec!["main (train.py:3)".to_owned()], ..few };
        assert_eq!(stacks(vec![busy.clone()]).odd().count(), 0, "the only group");
        assert_eq!(stacks(vec![many, busy]).odd().count(), 1);
    }
}
