//! The confirmation of an operation: affected jobs, obstacles, options, and the cluster's name to type.

use crate::app::action::keymap::Meaning;
use crate::app::action::table::Action;
use crate::app::input::line::{Edit, Line, is_typed};
use crate::app::operation::worker_form::WorkerForm;
use crate::app::screen::scroll::Scroll;
use crate::model::text::printable;
use crate::model::{
    AffectedJob, ClusterName, Confirmation, Confirmed, Consent, DRAIN_SECS, NewWorker, Operation,
    OperationLock, Others, Preview, Problem, RefusalReason, Restoration, StepName, TakeOver, Task,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Whether the affected jobs of an operation are known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// They are being checked.
    Running,
    /// They are known.
    Done,
    /// The operation cannot start, for this reason.
    Refused(Problem),
}

/// A button or option of the dialog that can have the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The Cancel button.
    Cancel,
    /// The option that saves jobs and restores them.
    Jobs,
    /// The option that drains the worker first.
    Drain,
    /// The option that allows ending other people's jobs.
    Others,
    /// The option that allows starting without knowing the affected jobs.
    UnknownJobs,
    /// The option that takes over from another operator's operation.
    TakeOver,
    /// The line in which the cluster's name is typed.
    Name,
    /// The button that starts the operation.
    Go,
}

/// Another operator's operation, which this one may take over from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OthersLock {
    /// The lock that it left on the cluster.
    pub lock: OperationLock,
    /// Whether this operation takes over.
    pub take_over: bool,
}

/// An operation that waits for confirmation.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The operation with its steps and its consequence.
    pub operation: Operation,
    /// Whether the preview is known.
    pub check: Check,
    /// The affected jobs, as far as they are known.
    pub preview: Preview,
    /// Whether ending other people's jobs is allowed.
    pub others: bool,
    /// Whether starting without knowing the affected jobs is allowed.
    pub allow_unknown_jobs: bool,
    /// Another operator's operation on the cluster.
    pub others_lock: Option<OthersLock>,
    /// A note on what the operation affects, e.g. all hosts of a slice; may be empty.
    pub note: String,
    /// The worker's name in its row, if the operation has only its address; may be empty.
    pub worker_name: String,
    /// The form that it came from and that Cancel returns to.
    pub form: Option<Box<WorkerForm>>,
    /// The part of the name typed so far.
    pub name: Line,
    /// The cluster's short name, which is accepted as well; `None` if there is none.
    pub short: Option<String>,
    /// What has the focus.
    pub control: Control,
    /// Why it did not start when the button was pressed.
    pub problem: String,
    /// The scroll position of the jobs, or of all lines if the dialog does not fit.
    pub scroll: Scroll,
    /// Whether it was scrolled since the focus moved: the focused line may be off the screen.
    pub is_scrolled: bool,
}

impl Plan {
    /// A plan before its preview; `jobs` are the open jobs in the console's last state.
    pub fn new(task: Task, cluster: ClusterName, jobs: Vec<AffectedJob>) -> Self {
        let preview = Preview { jobs, ..Preview::default() };
        Self {
            operation: Operation::new(task, cluster),
            // Starting affects no jobs, but it may be refused.
            check: Check::Running,
            preview,
            others: false,
            allow_unknown_jobs: false,
            others_lock: None,
            note: String::new(),
            worker_name: String::new(),
            form: None,
            name: Line::default(),
            short: None,
            control: Control::Cancel,
            problem: String::new(),
            scroll: Scroll::default(),
            is_scrolled: false,
        }
    }

    /// The operation and its subject, safe to print: a worker by its row's name, with its address.
    pub fn title(&self) -> String {
        let subject = self.operation.task.subject();
        if self.worker_name.is_empty() || subject.is_empty() {
            return self.operation.title.clone();
        }
        self.operation.title.replacen(&subject, &format!("{}, {subject}", printable(&self.worker_name)), 1)
    }

    /// Whether jobs are saved and restored.
    pub fn preserves(&self) -> bool {
        self.operation.number(StepName::Backup) > 0
    }

    /// The same operation with its option toggled: jobs saved or lost, worker drained or not; `None` if it has no
    /// option.
    pub fn with_option_toggled(&self) -> Option<Task> {
        match &self.operation.task {
            Task::Restart { preserve } => Some(Task::Restart { preserve: !preserve }),
            Task::RemoveWorker { worker, drain } => {
                let drain = if drain.is_some() { None } else { Some(DRAIN_SECS) };
                Some(Task::RemoveWorker { worker: worker.clone(), drain })
            }
            _ => None,
        }
    }

    /// Replaces the operation; its preview starts again.
    pub fn replace(&mut self, task: Task) {
        self.operation = Operation::new(task, self.operation.cluster.clone());
        self.check = Check::Running;
        for job in &mut self.preview.jobs {
            job.restoration = Restoration::Unknown;
        }
    }

    /// Shows another operator's lock on the cluster. A takeover is allowed for that one operation only.
    pub fn set_lock(&mut self, lock: Option<OperationLock>) {
        let before = self.others_lock.take().filter(|m| m.take_over).map(|m| m.lock.id);
        self.others_lock = lock.map(|lock| OthersLock { take_over: before.as_ref() == Some(&lock.id), lock });
    }

    /// Stores the preview. If it failed, the jobs known before are kept.
    pub fn set_preview(&mut self, mut preview: Preview) {
        if preview.problem.is_some() {
            preview.jobs = std::mem::take(&mut self.preview.jobs);
        }
        // The confirmation holds only for the owners that were shown.
        self.others &= self.preview.others() == preview.others();
        self.allow_unknown_jobs &= preview.problem.is_some();
        self.preview = preview;
        self.check = Check::Done;
    }

    /// Other people whose jobs would end; empty until the preview is known.
    pub fn affected_others(&self) -> Others {
        if self.check == Check::Done { self.preview.others() } else { Others::default() }
    }

    /// The buttons and options that can have the focus, in order.
    pub fn controls(&self) -> Vec<Control> {
        let mut controls = vec![Control::Cancel];
        if matches!(self.check, Check::Refused(_)) {
            return controls;
        }
        controls.extend(match self.operation.task {
            Task::Restart { .. } => Some(Control::Jobs),
            Task::RemoveWorker { .. } => Some(Control::Drain),
            _ => None,
        });
        controls.extend((!self.affected_others().is_empty()).then_some(Control::Others));
        controls.extend(self.has_unknown_jobs().then_some(Control::UnknownJobs));
        controls.extend(self.others_lock.is_some().then_some(Control::TakeOver));
        controls.extend(self.requires_name().then_some(Control::Name));
        controls.push(Control::Go);
        controls
    }

    /// Whether the cluster's name must be typed: the operation affects the whole cluster.
    pub fn requires_name(&self) -> bool {
        self.operation.confirmation() == Confirmation::Name
    }

    /// Whether the operation may end jobs and its affected jobs cannot be determined.
    pub fn has_unknown_jobs(&self) -> bool {
        self.operation.destructive && self.check == Check::Done && self.preview.problem.is_some()
    }

    /// The requested workers, if workers are added: number, type, capacity and names.
    pub fn requested_workers(&self) -> Option<String> {
        let Task::AddWorker(NewWorker::Queued { node_type, capacity, names }) = &self.operation.task else {
            return None;
        };
        let which = match &names[..] {
            [first, _, .., last] => format!("{first} through {last}"),
            few => few.join(", "),
        };
        let tpu = self.form.as_ref().and_then(|form| form.tpu_of(node_type));
        let tpu = tpu.map_or_else(String::new, |tpu| format!(" ({tpu})"));
        Some(format!("{} of type {node_type}{tpu}, {capacity}: {which}", names.len()))
    }

    /// Moves the focus by `by` controls and wraps around.
    pub fn turn(&mut self, by: usize) {
        let controls = self.controls();
        let here = controls.iter().position(|s| *s == self.control).unwrap_or(0);
        self.focus(controls[(here + by % controls.len()) % controls.len()]);
        self.problem.clear();
    }

    /// Focuses that control and scrolls to it.
    pub fn focus(&mut self, control: Control) {
        (self.control, self.is_scrolled) = (control, false);
    }

    /// Handles a key in the line for the cluster's name. Returns false if the key does not belong to it.
    pub(in crate::app) fn take_key(&mut self, key: KeyEvent, meaning: Meaning) -> bool {
        if self.control == Control::Name {
            // The focused line is visible.
            self.is_scrolled = false;
            if self.name.key(key) != Edit::Nothing {
                return true;
            }
        }
        self.begins_name(key, meaning)
    }

    /// A letter in a confirmation that asks for the cluster's name goes to that line, whatever has the focus, if it has
    /// no other meaning there or the name begins with it.
    fn begins_name(&mut self, key: KeyEvent, meaning: Meaning) -> bool {
        let KeyCode::Char(letter) = key.code else { return false };
        // With a modifier it is not the letter: `^u` scrolls.
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return false;
        }
        let mut names = std::iter::once(self.operation.cluster.as_str()).chain(self.short.as_deref());
        let is_free = match meaning {
            Meaning::Nothing => true,
            // The dialog itself names this key.
            Meaning::Action(Action::Announce) => false,
            _ => self.name.is_empty() && names.any(|name| name.starts_with(letter)),
        };
        if !is_free || !self.controls().contains(&Control::Name) || !is_typed(key) {
            return false;
        }
        self.focus(Control::Name);
        self.problem.clear();
        self.name.key(key);
        true
    }

    /// Inserts pasted text in the line for the cluster's name. Returns false if it does not have the focus.
    pub(in crate::app) fn paste(&mut self, text: &str) -> bool {
        if self.control != Control::Name {
            return false;
        }
        self.is_scrolled = false;
        self.name.paste(text);
        true
    }

    /// A text for the team's channel: the operation and the affected jobs.
    pub fn announcement(&self) -> String {
        let line = |job: &AffectedJob| {
            let restoration = match &job.restoration {
                Restoration::Unknown => String::new(),
                Restoration::Back => ": will be restored".to_owned(),
                Restoration::Lost(_) if !self.operation.kind().is_of_cluster() => {
                    format!(": {}", self.restoration(job))
                }
                Restoration::Lost(why) => format!(": will be lost: {}", printable(why)),
            };
            format!("- {} ({}){restoration}", job.key, job.owner_label())
        };
        let first = self.operation.announcement();
        std::iter::once(first).chain(self.preview.jobs.iter().map(line)).collect::<Vec<_>>().join("\n")
    }

    /// What happens to a job, safe to print; for an operation on a worker, what of the job runs there.
    pub fn restoration(&self, job: &AffectedJob) -> String {
        match &job.restoration {
            Restoration::Lost(what) if !self.operation.kind().is_of_cluster() => printable(what).into_owned(),
            restoration => restoration.text(),
        }
    }

    /// The permissions and the confirmation given so far.
    pub fn consent(&self) -> Consent {
        Consent {
            others: if self.others { self.affected_others() } else { Others::default() },
            unknown: self.allow_unknown_jobs,
            take_over: match &self.others_lock {
                Some(others_lock) if others_lock.take_over => TakeOver::Lock(others_lock.lock.id.clone()),
                _ => TakeOver::None,
            },
            // The dialog shows what runs on the worker.
            now: !self.operation.kind().is_of_cluster(),
            confirmed: if self.requires_name() {
                Confirmed::typed(self.name.text(), &self.operation.cluster, self.short.as_deref())
            } else {
                Confirmed::Yes
            },
            ..Consent::default()
        }
    }

    /// Why it cannot start now, if there is an obstacle.
    pub fn obstacle(&self) -> Option<String> {
        match &self.check {
            Check::Refused(problem) => return Some(problem.what.clone()),
            Check::Running => return Some("still checking affected jobs".to_owned()),
            Check::Done => {}
        }
        let consent = self.consent();
        match consent.missing(&self.operation, &self.preview) {
            Some(RefusalReason::UnknownJobs) => {
                Some("cannot determine affected jobs: ask the job owners, then allow it above".to_owned())
            }
            Some(_) => {
                let others = self.affected_others();
                Some(format!("{others} run here: ask their owners, then allow it above"))
            }
            None if self.others_lock.as_ref().is_some_and(|m| !m.take_over) => Some(
                "another operator's operation is running: ask the operator, then allow the takeover above"
                    .to_owned(),
            ),
            None if !consent.confirms(&self.operation) => Some("type the cluster's name first".to_owned()),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::app::operation::confirmation::*;
    use crate::model::{JobKey, JobStatus, Restoration, SubmissionId};

    fn seen(task: Task, owner: &str) -> Plan {
        let job = AffectedJob {
            key: JobKey::Submission(SubmissionId("j".into())),
            owner: Some(owner.into()),
            status: JobStatus::Running,
            started: None,
            holds: None,
            restoration: Restoration::Back,
        };
        let mut plan = Plan::new(task, ClusterName::new("lab"), vec![job]);
        plan.preview.me = "me".into();
        plan.check = Check::Done;
        plan
    }

    #[test]
    fn obstacles_are_reported_one_after_the_other() {
        let mut plan = seen(Task::Restart { preserve: true }, "bo");
        plan.check = Check::Running;
        assert!(plan.obstacle().unwrap().contains("still"));
        plan.check = Check::Done;
        assert!(plan.obstacle().unwrap().contains("bo"));
        plan.others = true;
        plan.name = "la".into();
        assert!(plan.obstacle().unwrap().contains("name"));
        plan.name = "lab".into();
        assert_eq!(plan.obstacle(), None);
        (plan.name, plan.short) = (" la ".into(), Some("la".into()));
        assert_eq!(plan.obstacle(), None, "its short name");
        assert_eq!(plan.consent().confirmed, Confirmed::Typed("lab".into()));
        let start = seen(Task::Start, "me");
        assert_eq!((start.obstacle(), start.controls()), (None, vec![Control::Cancel, Control::Go]));
    }

    #[test]
    fn the_focus_cycles_through_the_controls() {
        let mut plan = seen(Task::Stop, "me");
        let mut visited = Vec::new();
        for _ in 0..4 {
            visited.push(plan.control);
            plan.turn(1);
        }
        assert_eq!(visited, [Control::Cancel, Control::Name, Control::Go, Control::Cancel]);
        plan.control = Control::Cancel;
        plan.turn(usize::MAX / 2 * 2);
        assert!(plan.controls().contains(&plan.control));
    }
}
