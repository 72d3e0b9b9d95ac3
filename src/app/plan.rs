//! The dialog before an operation: whom it hits, what stands in its way, and the cluster's name to be typed.

use super::worker::WorkerForm;
use crate::model::text::printable;
use crate::model::{
    ClusterName, Confirmation, Confirmed, Consent, DRAIN_SECS, Doomed, Fate, Gate, NewWorker, Operation,
    OperationMark, Others, Preview, Problem, StepName, TakeOver, Task,
};

/// Whether it is known yet what an operation would hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// It is being looked at.
    Looking,
    /// It is known.
    Seen,
    /// The operation cannot begin, and why.
    Refused(Problem),
}

/// What has the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// The button that does nothing.
    Cancel,
    /// Whether jobs are saved.
    Jobs,
    /// Whether a worker may finish its work.
    Drain,
    /// Whether other people's jobs are ended, too.
    Others,
    /// Whether it is begun although nobody can tell whom it hits.
    Blind,
    /// Whether it is begun in the place of another operator's operation.
    TakeOver,
    /// The cluster's name.
    Name,
    /// The button that begins.
    Go,
}

/// Another operator's operation, in whose place this one may be begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Its mark.
    pub mark: OperationMark,
    /// This one is begun in its place.
    pub take_over: bool,
}

/// An operation that is about to begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The operation.
    pub operation: Operation,
    /// Whether what follows is known.
    pub looked: Looked,
    /// Whom it hits.
    pub preview: Preview,
    /// Other people's jobs are ended, too.
    pub others: bool,
    /// It is begun although nobody can tell whom it hits.
    pub blind: bool,
    /// Another operator's operation on the cluster.
    pub marked: Option<Marked>,
    /// More on whom is meant; may be empty.
    pub note: String,
    /// The worker as its row names it, where the operation knows it by its address alone; may be empty.
    pub called: String,
    /// The form that it came from, and that cancel leads back to.
    pub form: Option<Box<WorkerForm>>,
    /// The name as far as it is typed.
    pub name: String,
    /// What has the focus.
    pub spot: Spot,
    /// Why it did not begin when it was asked to.
    pub said: String,
    /// First job shown; where not all else has room, first line.
    pub top: usize,
    /// Highest of these, known once drawn.
    pub last: usize,
    /// It was scrolled since the focus moved: what has the focus may be out of sight.
    pub strayed: bool,
}

impl Plan {
    /// Before anything was looked at; `jobs` are those that the console remembers.
    pub fn new(task: Task, cluster: ClusterName, jobs: Vec<Doomed>) -> Self {
        let preview = Preview { jobs, ..Preview::default() };
        Self {
            operation: Operation::new(task, cluster),
            // Starting hits nobody, yet it may be refused.
            looked: Looked::Looking,
            preview,
            others: false,
            blind: false,
            marked: None,
            note: String::new(),
            called: String::new(),
            form: None,
            name: String::new(),
            spot: Spot::Cancel,
            said: String::new(),
            top: 0,
            last: 0,
            strayed: false,
        }
    }

    /// What is to be done to whom, safe to print: a worker by the name of its row, with its address beside it.
    pub fn title(&self) -> String {
        let subject = self.operation.task.subject();
        if self.called.is_empty() || subject.is_empty() {
            return self.operation.title.clone();
        }
        self.operation.title.replacen(&subject, &format!("{}, {subject}", printable(&self.called)), 1)
    }

    /// Whether jobs are saved.
    pub fn preserves(&self) -> bool {
        self.operation.number(StepName::Backup) > 0
    }

    /// The same operation with its switch turned: jobs are saved or lost, a worker is drained or not. None has both.
    pub fn turned(&self) -> Option<Task> {
        match &self.operation.task {
            Task::Restart { preserve } => Some(Task::Restart { preserve: !preserve }),
            Task::RemoveWorker { worker, drain } => {
                let drain = if drain.is_some() { None } else { Some(DRAIN_SECS) };
                Some(Task::RemoveWorker { worker: worker.clone(), drain })
            }
            _ => None,
        }
    }

    /// Makes another operation of it, which is to be looked at anew.
    pub fn replace(&mut self, task: Task) {
        self.operation = Operation::new(task, self.operation.cluster.clone());
        self.looked = Looked::Looking;
        for job in &mut self.preview.jobs {
            job.fate = Fate::Unknown;
        }
    }

    /// Takes in whether somebody else operates on the cluster. What was allowed was allowed for that one operation.
    pub fn see_mark(&mut self, mark: Option<OperationMark>) {
        let before = self.marked.take().filter(|m| m.take_over).map(|m| m.mark.id);
        self.marked = mark.map(|mark| Marked { take_over: before.as_ref() == Some(&mark.id), mark });
    }

    /// Takes in what was seen. Where it could not be looked, the jobs that were known before are kept.
    pub fn see(&mut self, mut preview: Preview) {
        if preview.trouble.is_some() {
            preview.jobs = std::mem::take(&mut self.preview.jobs);
        }
        // What was allowed was allowed for those who were named.
        self.others &= self.preview.others() == preview.others();
        self.blind &= preview.trouble.is_some();
        self.preview = preview;
        self.looked = Looked::Seen;
    }

    /// Other people whose jobs would end. Who we are is known once it was looked.
    pub fn affected_others(&self) -> Others {
        if self.looked == Looked::Seen { self.preview.others() } else { Others::default() }
    }

    /// What can have the focus, in order.
    pub fn spots(&self) -> Vec<Spot> {
        let mut spots = vec![Spot::Cancel];
        if matches!(self.looked, Looked::Refused(_)) {
            return spots;
        }
        spots.extend(match self.operation.task {
            Task::Restart { .. } => Some(Spot::Jobs),
            Task::RemoveWorker { .. } => Some(Spot::Drain),
            _ => None,
        });
        spots.extend((!self.affected_others().is_empty()).then_some(Spot::Others));
        spots.extend(self.is_blind().then_some(Spot::Blind));
        spots.extend(self.marked.is_some().then_some(Spot::TakeOver));
        spots.extend(self.wants_name().then_some(Spot::Name));
        spots.push(Spot::Go);
        spots
    }

    /// Whether the cluster's name is to be typed: all of it is hit.
    pub fn wants_name(&self) -> bool {
        self.operation.confirmation() == Confirmation::Name
    }

    /// Whether something that runs would end, and nobody can tell what.
    pub fn is_blind(&self) -> bool {
        self.operation.destructive && self.looked == Looked::Seen && self.preview.trouble.is_some()
    }

    /// What is asked for, where workers are added: how many of which type, how, and under what names.
    pub fn wish(&self) -> Option<String> {
        let Task::AddWorker(NewWorker::Queued { node_type, capacity, names }) = &self.operation.task else {
            return None;
        };
        let which = match &names[..] {
            [first, _, .., last] => format!("{first} to {last}"),
            few => few.join(", "),
        };
        let tpu = self.form.as_ref().and_then(|form| form.tpu_of(node_type));
        let tpu = tpu.map_or_else(String::new, |tpu| format!(" ({tpu})"));
        Some(format!("{} of type {node_type}{tpu}, {capacity}: {which}", names.len()))
    }

    /// Moves the focus by so many spots, round and round.
    pub fn turn(&mut self, by: usize) {
        let spots = self.spots();
        let here = spots.iter().position(|s| *s == self.spot).unwrap_or(0);
        self.focus(spots[(here + by % spots.len()) % spots.len()]);
        self.said.clear();
    }

    /// Gives the focus to that, and it is seen.
    pub fn focus(&mut self, spot: Spot) {
        (self.spot, self.strayed) = (spot, false);
    }

    /// A text for the team's channel: what will happen, to whose jobs.
    pub fn announcement(&self) -> String {
        let line = |job: &Doomed| {
            let fate = match &job.fate {
                Fate::Unknown => String::new(),
                Fate::Back => ": comes back".to_owned(),
                Fate::Lost(_) if !self.operation.kind().is_of_cluster() => format!(": {}", self.fate(job)),
                Fate::Lost(_) => format!(": comes back? {}", job.fate.words()),
            };
            format!("- {} ({}){fate}", job.key, job.owner_words())
        };
        let first = self.operation.announcement();
        std::iter::once(first).chain(self.preview.jobs.iter().map(line)).collect::<Vec<_>>().join("\n")
    }

    /// What becomes of a job, safe to print; where a worker is meant, what of the job runs there.
    pub fn fate(&self, job: &Doomed) -> String {
        match &job.fate {
            Fate::Lost(what) if !self.operation.kind().is_of_cluster() => printable(what).into_owned(),
            fate => fate.words(),
        }
    }

    /// What was allowed and confirmed so far.
    pub fn consent(&self) -> Consent {
        Consent {
            others: if self.others { self.affected_others() } else { Others::default() },
            unknown: self.blind,
            take_over: match &self.marked {
                Some(marked) if marked.take_over => TakeOver::Mark(marked.mark.id.clone()),
                _ => TakeOver::Nobody,
            },
            // What runs on a worker stands above the button that ends it.
            now: !self.operation.kind().is_of_cluster(),
            confirmed: if self.wants_name() { Confirmed::Typed(self.name.clone()) } else { Confirmed::Yes },
            ..Consent::default()
        }
    }

    /// Why it cannot begin now, if something stands in the way.
    pub fn obstacle(&self) -> Option<String> {
        match &self.looked {
            Looked::Refused(problem) => return Some(format!("{}; {}", problem.what, problem.mend)),
            Looked::Looking => return Some("it is still being looked at what it would hit".to_owned()),
            Looked::Seen => {}
        }
        let consent = self.consent();
        match consent.missing(&self.operation, &self.preview) {
            Some(Gate::UnknownJobs) => {
                Some("nobody can tell whom it hits: ask around, then allow it above".to_owned())
            }
            Some(_) => {
                let others = self.affected_others();
                Some(format!("{others} run here: ask their owners, then allow it above"))
            }
            None if self.marked.as_ref().is_some_and(|m| !m.take_over) => {
                Some("another operator's operation is under way: ask them, then allow it above".to_owned())
            }
            None if !consent.confirms(&self.operation) => {
                Some("type the cluster's whole name first".to_owned())
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Fate, JobKey, JobStatus, SubmissionId};

    fn seen(task: Task, owner: &str) -> Plan {
        let job = Doomed {
            key: JobKey::Submission(SubmissionId("j".into())),
            owner: Some(owner.into()),
            status: JobStatus::Running,
            started: None,
            holds: None,
            fate: Fate::Back,
        };
        let mut plan = Plan::new(task, ClusterName::new("lab"), vec![job]);
        plan.preview.me = "me".into();
        plan.looked = Looked::Seen;
        plan
    }

    #[test]
    fn what_stands_in_the_way_is_told_in_turn() {
        let mut plan = seen(Task::Restart { preserve: true }, "bo");
        plan.looked = Looked::Looking;
        assert!(plan.obstacle().unwrap().contains("still"));
        plan.looked = Looked::Seen;
        assert!(plan.obstacle().unwrap().contains("bo"));
        plan.others = true;
        plan.name = "la".into();
        assert!(plan.obstacle().unwrap().contains("name"));
        plan.name = "lab".into();
        assert_eq!(plan.obstacle(), None);
        let start = seen(Task::Start, "me");
        assert_eq!((start.obstacle(), start.spots()), (None, vec![Spot::Cancel, Spot::Go]));
    }

    #[test]
    fn the_focus_goes_round_what_is_there() {
        let mut plan = seen(Task::Stop, "me");
        let mut met = Vec::new();
        for _ in 0..4 {
            met.push(plan.spot);
            plan.turn(1);
        }
        assert_eq!(met, [Spot::Cancel, Spot::Name, Spot::Go, Spot::Cancel]);
        plan.spot = Spot::Cancel;
        plan.turn(usize::MAX / 2 * 2);
        assert!(plan.spots().contains(&plan.spot));
    }
}
