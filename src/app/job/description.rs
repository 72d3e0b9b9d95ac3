//! The description of a job, with its driver's work in Ray, which is read on demand.

use crate::app::action::target::Target;
use crate::app::job::vitals::HOLDS;
use crate::app::pages::details::{Details, WorkRequest};
use crate::app::text::describe::{Lines, list};
use crate::app::{Cluster, Effect, Fleet};
use crate::model::amount::shape;
use crate::model::sort;
use crate::model::text::printable;
use crate::model::{Counted, DeadActor, JobIds, JobStatus, Request, Text, Timestamp, Work};
use std::cmp::Reverse;

/// Maximum number of functions and classes listed; a driver may have thousands.
const MAX_NAMES: usize = 12;

impl Details {
    /// Requests the work of the driver of the page's job.
    pub(in crate::app) fn ask_for_work(&mut self, fleet: &Fleet) -> Option<Effect> {
        let Target::Job(cluster_index, key) = &self.target else { return None };
        let cluster = fleet.clusters.get(*cluster_index)?;
        let job = cluster.job(key)?;
        // A shell command has no driver, but its entrypoint may hold resources.
        let does = match job.status {
            JobStatus::Running => true,
            // Why its actors died may be why it failed.
            JobStatus::Pending | JobStatus::Unknown | JobStatus::Failed => job.driver.is_some(),
            JobStatus::Succeeded | JobStatus::Stopped => false,
        };
        let ids = does.then(|| job.ids())?;
        self.work = WorkRequest::Waiting(ids.clone());
        Some(Effect::Ask(cluster.name().clone(), Request::Work(ids)))
    }

    /// Keeps the work of a driver, if the page has requested it. Returns whether it has.
    pub(in crate::app) fn take_work(
        &mut self,
        cluster_index: usize,
        job: &JobIds,
        work: &Result<Box<Work>, String>,
    ) -> bool {
        let is_requested = self.target.cluster_index() == Some(cluster_index)
            && matches!(&self.work, WorkRequest::Waiting(request) if request == job);
        if is_requested {
            self.work = WorkRequest::Answered(work.clone());
        }
        is_requested
    }
}

/// What the driver of a job holds, waits for and does, as far as it was requested and reported; for an ended job, what
/// it left.
pub fn lines(request: &WorkRequest, cluster: &Cluster, is_ended: bool, now: Timestamp) -> Lines {
    match request {
        WorkRequest::No => Vec::new(),
        WorkRequest::Waiting(_) => vec![(HOLDS.to_owned(), "querying Ray...".to_owned())],
        WorkRequest::Answered(Ok(work)) => work_lines(work, Some(cluster), is_ended, now),
        WorkRequest::Answered(Err(why)) => vec![(HOLDS.to_owned(), format!("? ({})", printable(why)))],
    }
}

fn work_lines(work: &Work, cluster: Option<&Cluster>, is_ended: bool, now: Timestamp) -> Lines {
    let mut lines = Vec::new();
    let idle = work.tasks.is_empty() && work.actors.is_empty();
    let holds = match (work.holds.is_empty(), idle && !is_ended) {
        (false, _) => shape(&work.holds),
        (true, false) => "nothing".to_owned(),
        (true, true) => "nothing: only the driver is running (no tasks, no actors)".to_owned(),
    };
    lines.push((HOLDS.to_owned(), holds));
    list(&mut lines, "waits for", cut(work.waits.iter().map(|wait| wait.text(now)).collect()));
    list(&mut lines, "tasks", cut(counts(&work.tasks)));
    list(&mut lines, "actors", cut(counts(&work.actors)));
    list(&mut lines, "died", cut(work.died.iter().map(|actor| dead(actor, cluster)).collect()));
    lines
}

/// `Holder h1 on bed-w1 (10.0.0.7): the reason`.
fn dead(actor: &DeadActor, cluster: Option<&Cluster>) -> String {
    let name = if actor.name.is_empty() { String::new() } else { format!(" {}", actor.name) };
    let named = actor.node.as_ref().zip(cluster).and_then(|(node, cluster)| cluster.node_label(node));
    let location = match named {
        Some(name) => format!(" on {name}"),
        None if actor.address.is_empty() => String::new(),
        None => format!(" on {}", actor.address),
    };
    format!("{}{name}{location}: {}", actor.class, printable(actor.why.raw()))
}

/// The first texts, and the number of further ones.
fn cut(mut texts: Vec<String>) -> Vec<String> {
    let more = texts.len().saturating_sub(MAX_NAMES);
    if more > 0 {
        texts.truncate(MAX_NAMES);
        texts.push(format!("and {more} more"));
    }
    texts
}

/// `train_step: 2 running, 3 waiting for a node`; unfinished ones first.
fn counts(all: &[Counted]) -> Vec<String> {
    let is_over = |state: &str| matches!(state, "FINISHED" | "FAILED" | "DEAD");
    let unfinished = |c: &Counted| -> u64 {
        c.states.iter().filter(|(state, _)| !is_over(state.raw())).map(|(_, n)| n).sum()
    };
    let mut sorted: Vec<&Counted> = all.iter().collect();
    sort::by_key(&mut sorted, |c| (Reverse(unfinished(c)), c.name.clone()));
    let words = |c: &Counted| {
        let states: Vec<String> =
            c.states.iter().map(|(state, n)| format!("{n} {}", state_label(state))).collect();
        format!("{}: {}", c.name, states.join(", "))
    };
    sorted.into_iter().map(words).collect()
}

/// A readable form of Ray's word for a state.
fn state_label(state: &Text) -> String {
    match state.raw() {
        "PENDING_NODE_ASSIGNMENT" => "waiting for a node".to_owned(),
        _ => state.to_string().to_lowercase().replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use crate::app::job::description::*;
    use crate::model::Wait;

    #[test]
    fn work_of_a_driver_is_described_with_unfinished_tasks_first() {
        let counted = |name: &str, states: &[(&str, u64)]| Counted {
            name: name.into(),
            states: states.iter().map(|(s, n)| (Text::from(*s), *n)).collect(),
        };
        let minute = |n: i64| Timestamp::from_millis(n * 60_000);
        let work = Work {
            holds: vec![("CPU".into(), 4.0), ("TPU".into(), 16.0), ("memory".into(), 2e9)],
            waits: vec![Wait { shape: vec![("TPU".into(), 4.0)], count: 3, since: Some(minute(8)) }],
            tasks: vec![
                counted("read", &[("FINISHED", 900)]),
                counted("train_step", &[("RUNNING", 4), ("PENDING_NODE_ASSIGNMENT", 3)]),
            ],
            actors: vec![counted("Holder", &[("ALIVE", 1)])],
            died: vec![DeadActor {
                class: "Holder".into(),
                name: "h1".into(),
                node: None,
                address: "10.0.0.7".into(),
                why: "killed by\nSIGKILL".into(),
            }],
        };
        let lines = work_lines(&work, None, false, minute(30));
        let lines: Vec<(&str, &str)> = lines.iter().map(|(l, t)| (l.as_str(), t.as_str())).collect();
        assert_eq!(
            lines,
            [
                ("holds", "TPU 16, CPU 4, memory 2.0 GB"),
                ("waits for", "3 x TPU 4, for 22m"),
                ("tasks", "train_step: 4 running, 3 waiting for a node"),
                (" ", "read: 900 finished"),
                ("actors", "Holder: 1 alive"),
                ("died", "Holder h1 on 10.0.0.7: killed by SIGKILL"),
            ]
        );
    }

    #[test]
    fn an_idle_driver_and_one_with_too_many_functions_to_list() {
        assert!(
            work_lines(&Work::default(), None, false, Timestamp::default())[0]
                .1
                .contains("only the driver is running")
        );
        assert_eq!(
            work_lines(&Work::default(), None, true, Timestamp::default())[0].1,
            "nothing",
            "no driver runs"
        );
        let one = |n: usize| Counted { name: format!("f{n:02}").as_str().into(), states: Vec::new() };
        let work = Work { tasks: (0..50).map(one).collect(), ..Work::default() };
        let lines = work_lines(&work, None, false, Timestamp::default());
        assert_eq!((lines.len(), &*lines.last().unwrap().1), (1 + MAX_NAMES + 1, "and 38 more"));
    }
}
